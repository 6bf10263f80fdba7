"""Policy evaluation by linear equations, for objectives whose slopes are linear in the function."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.learning.learner import Array
from mercer.numerics.factor import solve_square
from mercer.objectives import Batch, Bellman, Objective
from mercer.records import Numbers, Record, Recorded
from mercer.sums import (
    Basis,
    Blocks,
    Rows,
    check_alike,
    check_same_basis,
)
from mercer.validation import real

Floats = NDArray[np.floating[Any]]

# Transitions that are added to sums together, and most features in memory at a time.
_BLOCK, _NUMBERS = 128, 2**21


def is_linear(objective: Objective) -> bool:
    """Whether slopes at rows are linear in the values at these rows, and depend on nothing else."""
    return isinstance(objective, Bellman) and objective.method != "pkgtd"


class LinearRows(Recorded):
    r"""Policy evaluation on a fixed set of features, by sums over all transitions so far.

    For f = Z w with slopes s, the gradient is linear in w: Z's = S w + b. With the ridge it is 0
    at :math:`(S / n + \lambda P) w = -b / n`, where all steps of the method would come to rest.
    For temporal differences this is LSTD.

    Parameters
    ----------
    objective : Bellman
        Objective to solve.
    basis : Basis
        Basis of the features.
    n_outputs : int
        Number of outputs of the function.
    ridge : float
        Ridge parameter.
    forgetting : float
        Factor by which the weight of a row falls with each row after it.

    Attributes
    ----------
    n_rows : float
        Total weight of the rows so far; each row had weight 1 when it arrived.

    References
    ----------
    S. J. Bradtke, A. G. Barto, "Linear least-squares algorithms for temporal difference learning",
    Machine Learning, 1996.
    """

    _record = Record(
        n_rows=real(low=0.0),
        _waiting=Blocks(),
        _matrix=Numbers("n_outputs", "n_outputs", "n_features", "n_features"),
        _right=Numbers("n_outputs", "n_features"),
    )

    def __init__(
        self, objective: Bellman, basis: Basis, n_outputs: int, ridge: float, forgetting: float
    ) -> None:
        self.objective, self.basis, self.n_outputs = objective, basis, n_outputs
        self.ridge, self.forgetting = ridge, forgetting
        self.n_rows = 0.0
        self._matrix = np.zeros((n_outputs, n_outputs, basis.size, basis.size))
        self._right = np.zeros((n_outputs, basis.size))
        self._waiting: list[Rows] = []

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.basis.size

    def add(self, rows: Rows) -> None:
        """Add rows, which must be whole transitions."""
        self._waiting.append(rows.own())
        if sum(map(len, self._waiting)) >= _BLOCK * self.objective.n_rows:
            self._add_up()

    def merge(self, other: LinearRows) -> None:
        """Add the transitions of another object; the other stays unchanged.

        The transitions of the other count as older than those of this one, which matters if old
        ones are forgotten. Transitions that wait to be summed are merged, too.

        Parameters
        ----------
        other : LinearRows
            Sums for the same method and discount, on the same features.

        Raises
        ------
        ValueError
            If the two differ in anything that the sums depend on; both are then unchanged.
        """
        check_same_basis(self.basis, other.basis)
        for name in ("method", "discount", "auxiliary"):
            mine, theirs = (getattr(one.objective, name) for one in (self, other))
            check_alike(f"`{name}`", mine, theirs, "The equations would be of two problems.")
        for name in ("n_outputs", "ridge", "forgetting"):
            mine, theirs = getattr(self, name), getattr(other, name)
            check_alike(f"`{name}`", mine, theirs, "Use one for all transitions.")
        both = self.copy(), other.copy()
        for one in both:
            one._add_up()
        now, earlier = both
        # The weights of the rows so far sum to (1 - decay) / (1 - decay of one transition).
        m = self.objective.n_rows
        decay = max(0.0, 1.0 - now.n_rows / m * (1.0 - self.forgetting**m))
        self._matrix = earlier._matrix * decay + now._matrix
        self._right = earlier._right * decay + now._right
        self.n_rows, self._waiting = earlier.n_rows * decay + now.n_rows, []

    def emptied(self) -> Self:
        """Return the same equations without transitions, to learn transitions elsewhere."""
        return type(self)(self.objective, self.basis, self.n_outputs, self.ridge, self.forgetting)

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows = Rows.joined(self._waiting)
        matrix, right, n_rows = self._matrix.copy(), self._right.copy(), self.n_rows
        m = self.objective.n_rows
        step = m * max(_BLOCK, _NUMBERS // (m * self.basis.size))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            n = len(block) // m
            decay = np.ones(n)
            if self.forgetting < 1.0:
                decay = self.forgetting ** (m * np.arange(n - 1, -1, -1.0))
                old = self.forgetting ** (m * n)
                matrix, right, n_rows = matrix * old, right * old, n_rows * old
            self._add_block(block, decay, matrix, right)
            n_rows += m * float(decay.sum())
        self._matrix, self._right, self.n_rows, self._waiting = matrix, right, n_rows, []

    def _add_block(self, rows: Rows, decay: Array, matrix: Array, right: Array) -> None:
        m, n_outputs = self.objective.n_rows, self.n_outputs
        n = len(rows) // m
        batch = Batch(*rows.arrays)
        Z = self.basis.features(rows.X).reshape(n, m, -1)
        # Slopes are means over the transitions.
        scale = n * decay[:, np.newaxis, np.newaxis]
        zero = np.zeros((n * m, n_outputs))
        at_zero = self.objective.slopes(zero, batch)[0].reshape(n, m, n_outputs)
        right += np.einsum("iam,iao->om", Z, at_zero * scale, optimize=True)
        # Derivatives of the slopes in the value of each output at each row of a transition.
        by_value = np.empty((m, n_outputs, n, m, n_outputs))
        for row in range(m):
            for output in range(n_outputs):
                unit = zero.reshape(n, m, n_outputs).copy()
                unit[:, row, output] = 1.0
                slopes = self.objective.slopes(unit.reshape(zero.shape), batch)[0]
                by_value[row, output] = (slopes.reshape(n, m, n_outputs) - at_zero) * scale
        for own in range(m):
            for o, q in np.ndindex(n_outputs, n_outputs):
                factors = by_value[:, q, :, own, o]  # (m, n)
                if factors.any():
                    moved = np.einsum("bi,ibm->im", factors, Z, optimize=True)
                    matrix[o, q] += Z[:, own].T @ moved.astype(Z.dtype)

    def solve(self) -> Array:
        """Solve the equations; return the coefficients, (n_features, n_outputs)."""
        self._add_up()
        M, n_outputs = self.basis.size, self.n_outputs
        if not self.n_rows > 0.0:
            return np.zeros((M, n_outputs))
        # Means over transitions, like the slopes.
        n = self.n_rows / self.objective.n_rows
        whole = (self._matrix / n).transpose(0, 2, 1, 3).reshape(n_outputs * M, n_outputs * M)
        penalty = self.basis.penalty()
        each = np.eye(M) if penalty is None else penalty
        size = float(np.abs(np.diag(whole)).mean())
        whole += np.kron(np.eye(n_outputs), self.ridge * each)
        solution = solve_square(whole, -self._right.ravel() / n, size)
        if not np.isfinite(solution).all():
            raise ValueError(
                "The equations of the value function have no finite solution: rewards or kernel "
                "values are out of all proportion. Scale the rewards to a size of about 1, and "
                "standardise the states."
            )
        return np.ascontiguousarray(solution.reshape(n_outputs, M).T)

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        other = copy.copy(self)
        other._waiting = list(self._waiting)
        return other
