"""Ridge regression of rows that come one after the other, and the choice of its ridge."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.sums.basis import Basis
from mercer.sums.rows import Rows, blocks_from_state, blocks_to_state
from mercer.sums.statistics import Statistics

__all__ = ["RidgeStream"]

Array = NDArray[np.float64]

# Rows kept back to choose the ridge on, if a twentieth of all is not between these.
_FEWEST, _MOST = 100, 5000
# Rows that are added up together; single rows would cost as much as a hundred.
_BLOCK = 256
_NUMBERS = 2**22  # features that are in memory at a time


class RidgeStream:
    r"""Weighted ridge regression on all rows so far, in the memory of its sums.

    .. math:: \min_c\; \frac{1}{W} \sum_i w_i |z_i^T c - y_i|^2 + \lambda\, c^T P c

    Of several ridges the one is taken that is best, by squared error, on the last rows, weighed by
    their age. These are kept back from the sums for it and are among the rows of the solution
    nonetheless: all ridges share the sums. They are a twentieth of all rows, 100 to 5,000, and at
    most a fifth of all, or of those that count where old ones are forgotten: were they more, the
    sums would be too old for them, and a ridge judged by how far the stream has drifted.

    Parameters
    ----------
    basis : Basis
        Features z and their penalty P.
    n_targets : int
        Number of targets.
    ridges : sequence of float
        Values of the ridge parameter, one at least.
    forgetting : float, default=1.0
        Factor by which a row's weight falls with each row that comes after it, in (0, 1].

    Attributes
    ----------
    n_rows : int
        Rows of positive weight so far; others leave no trace.
    ridge : float
        The ridge of the last solution.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import KernelBasis, Rows
    >>> stream = RidgeStream(KernelBasis(Linear(), np.array([[1.0]])), 1, [0.0])
    >>> stream.add(Rows(np.array([[1.0], [2.0]]), np.array([[3.0], [6.0]]), np.ones(2)))
    >>> stream.solve().round(6)
    array([[3.]])
    """

    def __init__(
        self, basis: Basis, n_targets: int, ridges: Sequence[float], forgetting: float = 1.0
    ) -> None:
        self.basis = basis
        self.ridges = tuple(ridges)
        self.forgetting = forgetting
        self.ridge = self.ridges[0]
        self.n_rows = 0
        self._sums = Statistics(basis.size, n_targets)
        self._recent: list[Rows] = []
        self._n_recent = 0
        self._penalty: Array | None = None
        self._has_penalty = False

    def add(self, rows: Rows) -> None:
        """Learn rows, in order.

        Parameters
        ----------
        rows : Rows
            Finite; copied.
        """
        used = rows.weights > 0.0
        if not used.any():
            return
        rows = rows[used]
        self._recent.append(rows)
        self._n_recent += len(rows)
        self.n_rows += len(rows)
        if self._n_recent >= self._n_kept_back() + _BLOCK:
            self._add_up()

    def solve(self) -> Array:
        """Coefficients of the regression on all rows so far, (n_features, n_targets)."""
        self._add_up()
        last = self._recent[0] if self._recent else None
        with self._sums.trial():
            if last is not None and len(self.ridges) > 1 and self._sums.weight > 0.0:
                self._choose(last)
            total = self.sums()
            if not total.weight > 0.0:
                return np.zeros_like(total.products)
            return total.solve(self.ridge, self.penalty())

    def sums(self) -> Statistics:
        """Return the sums over all rows so far."""
        self._add_up()
        return self._with(self._recent[0]) if self._recent else self._sums

    def penalty(self) -> Array | None:
        """Penalty of the basis, computed once."""
        if not self._has_penalty:
            self._penalty, self._has_penalty = self.basis.penalty(), True
        return self._penalty

    def _n_kept_back(self) -> int:
        if len(self.ridges) == 1:
            return 0
        n, counting = self.n_rows, float(self.n_rows)
        if self.forgetting < 1.0:
            counting = (1.0 - self.forgetting**n) / (1.0 - self.forgetting)
        return min(max(n // 20, _FEWEST), _MOST, int(counting / 5.0))

    def _add_up(self) -> None:
        """Move all rows but those to be kept back into the sums."""
        if not self._recent:
            return
        rows = Rows.joined(self._recent)
        n = self._n_recent - self._n_kept_back()
        if n > 0:
            self._sums = self._with(rows[:n])
        self._recent = [rows[n:].own()] if n < self._n_recent else []
        self._n_recent -= n

    def _with(self, rows: Rows) -> Statistics:
        """Return sums with some more rows in them: if that fails, nothing has changed."""
        sums, step = self._sums.copy(), max(_BLOCK, _NUMBERS // self.basis.size)
        for start in range(0, len(rows), step):
            block = rows[start : start + step].aged(self.forgetting)
            if self.forgetting < 1.0:
                sums.forget(self.forgetting ** len(block))
            Z: Any = self.basis.features(block.X)
            sums.add(Z, block.targets, block.weights)
        return sums

    def _choose(self, last: Rows) -> None:
        """Choose the ridge by the squared error on the last rows."""
        Z, weights = self.basis.features(last.X), last.aged(self.forgetting).weights
        errors = [
            float(
                np.sum((Z @ self._sums.solve(ridge, self.penalty()) - last.targets) ** 2, axis=1)
                @ weights
            )
            for ridge in self.ridges
        ]
        self.ridge = self.ridges[int(np.argmin(errors))]

    def map_targets(self, mixing: Array, offset: Array) -> None:
        """Replace the targets y, codes -1 and +1, by y @ ``mixing`` + ``offset``.

        Parameters
        ----------
        mixing : ndarray of shape (n_targets, n_targets_new)
            Column j tells how the new code j is made of the old ones.
        offset : ndarray of shape (n_targets_new,)
            What is added to all.
        """
        self._sums = self._sums.copy()
        self._sums.map_targets(mixing, offset)
        self._recent = [rows.map_targets(mixing, offset) for rows in self._recent]

    # -- state ----------------------------------------------------------------------------------

    def twin(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        twin = copy.copy(self)
        twin._recent = list(self._recent)
        return twin

    def snapshot(self) -> dict[str, Any]:
        """Everything that learning changes as plain data; for :meth:`restore`."""
        return {
            "n_rows": self.n_rows,
            "ridge": self.ridge,
            "ridges": list(self.ridges),
            "sums": self._sums.snapshot() if self._sums.n_rows else None,
            "recent": blocks_to_state(self._recent),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a :meth:`snapshot`, bit for bit and with the ridges it was made with.

        Parameters
        ----------
        state : dict
            The snapshot.

        Raises
        ------
        ValueError
            If it does not fit.
        """
        n_targets = self._sums.products.shape[1]
        sums = Statistics(self.basis.size, n_targets)
        if state["sums"] is not None:
            sums.restore(state["sums"])
        recent = blocks_from_state(state["recent"])
        n_rows, ridge = int(state["n_rows"]), float(state["ridge"])
        ridges = tuple(float(each) for each in state["ridges"])
        fits = ridge in ridges and all(0.0 <= each < np.inf for each in ridges)
        fits &= all(rows.targets.shape[1] == n_targets for rows in recent)
        self._recent, self._n_recent = recent, sum(map(len, recent))
        if not fits or n_rows < self._n_recent:
            raise ValueError("The sums over the rows do not fit together.")
        self._sums, self.n_rows, self.ridge, self.ridges = sums, n_rows, ridge, ridges
