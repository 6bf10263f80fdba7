"""Ridge regression of rows that come one after the other, and the choice of its ridge."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.second_order._basis import Basis
from mercer.second_order._statistics import Statistics

__all__ = ["RidgeStream", "Rows"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Rows kept back to choose the ridge on, if a twentieth of all is not between these.
_FEWEST, _MOST = 100, 5000
# Rows that are added up together; single rows would cost as much as a hundred.
_BLOCK = 256
_NUMBERS = 2**22  # features that are in memory at a time


class Rows(NamedTuple):
    """Rows with their targets and weights."""

    X: Floats  # (n, n_features)
    targets: Array  # (n, target_width)
    weights: Array  # (n,)

    def cut(self, first: int | None, last: int | None = None) -> Rows:
        """Return some of the rows; shares the arrays."""
        return self.taken(slice(first, last))

    def taken(self, which: Any) -> Rows:
        """Return the rows of an index array, a mask or a slice."""
        return Rows(self.X[which], self.targets[which], self.weights[which])

    def copied(self) -> Rows:
        """Return the rows in arrays of their own."""
        return Rows(self.X.copy(), self.targets.copy(), self.weights.copy())

    @classmethod
    def joined(cls, blocks: Sequence[Rows]) -> Rows:
        """Return all rows of some blocks, one at least."""
        if len(blocks) == 1:
            return blocks[0]
        X, targets, weights = zip(*blocks, strict=True)
        return cls(np.concatenate(X), np.concatenate(targets), np.concatenate(weights))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Rows:
        """Inverse of ``_asdict``.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        rows = cls(**state)
        n = len(rows.X)
        fits = (
            n > 0
            and rows.X.ndim == rows.targets.ndim == 2
            and rows.X.dtype in (np.float32, np.float64)
            and len(rows.targets) == n
            and rows.weights.shape == (n,)
            and rows.targets.dtype == rows.weights.dtype == np.float64
            and all(np.isfinite(array).all() for array in rows)
            and (rows.weights >= 0.0).all()
        )
        if not fits:
            raise ValueError("The rows that are kept do not fit together.")
        return rows


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
    >>> from mercer.second_order import KernelBasis
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
        rows = rows.taken(used)
        self._recent.append(rows)
        self._n_recent += rows.weights.size
        self.n_rows += rows.weights.size
        if self._n_recent >= self._n_kept_back() + _BLOCK:
            self._add_up()

    def solve(self) -> Array:
        """Coefficients of the regression on all rows so far, (n_features, n_targets)."""
        self._add_up()
        last = self._recent[0] if self._recent else None
        if last is not None and len(self.ridges) > 1 and self._sums.weight > 0.0:
            self._choose(last)
        total = self._sums if last is None else self._with(last)
        if not total.weight > 0.0:
            return np.zeros_like(total.products)
        return total.solve(self.ridge, self.penalty())

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

    def _aged(self, weights: Array) -> Array:
        """Weights of some rows when the last of them has come."""
        if self.forgetting == 1.0:
            return weights
        return weights * self.forgetting ** np.arange(weights.size - 1, -1, -1.0)

    def _add_up(self) -> None:
        """Move all rows but those to be kept back into the sums."""
        if not self._recent:
            return
        rows = Rows.joined(self._recent)
        n = self._n_recent - self._n_kept_back()
        if n > 0:
            self._sums = self._with(rows.cut(None, n))
        self._recent = [rows.cut(n).copied()] if n < self._n_recent else []
        self._n_recent -= n

    def _with(self, rows: Rows) -> Statistics:
        """Return sums with some more rows in them: if that fails, nothing has changed."""
        sums, step = self._sums.copy(), max(_BLOCK, _NUMBERS // self.basis.size)
        for start in range(0, rows.weights.size, step):
            X, targets, weights = rows.cut(start, start + step)
            n = weights.size
            if self.forgetting < 1.0:
                sums.forget(self.forgetting**n)
                weights = self._aged(weights)
                seen = weights > 0.0  # some are forgotten within the block
                X, targets, weights = X[seen], targets[seen], weights[seen]
            Z: Any = self.basis.features(X)
            sums.add(Z, targets, weights)
        return sums

    def _choose(self, last: Rows) -> None:
        """Choose the ridge by the squared error on the last rows."""
        Z, weights = self.basis.features(last.X), self._aged(last.weights)
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
        self._recent = [
            rows._replace(targets=rows.targets @ mixing + offset) for rows in self._recent
        ]

    # -- state ----------------------------------------------------------------------------------

    def twin(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        twin = copy.copy(self)
        twin._recent = list(self._recent)
        return twin

    def snapshot(self) -> dict[str, Any]:
        """Everything that learning changes as plain data; for :meth:`restore`."""
        recent = Rows.joined(self._recent) if self._recent else None
        return {
            "n_rows": self.n_rows,
            "ridge": self.ridge,
            "ridges": list(self.ridges),
            "sums": self._sums.snapshot() if self._sums.n_rows else None,
            "recent": None if recent is None else recent.copied()._asdict(),
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
        recent = None if state["recent"] is None else Rows.from_state(state["recent"])
        n_rows, ridge = int(state["n_rows"]), float(state["ridge"])
        ridges = tuple(float(each) for each in state["ridges"])
        self._recent = [] if recent is None else [recent]
        self._n_recent = 0 if recent is None else recent.weights.size
        fits = recent is None or recent.targets.shape[1] == n_targets
        fits &= ridge in ridges and all(0.0 <= each < np.inf for each in ridges)
        if not fits or n_rows < self._n_recent:
            raise ValueError("The sums over the rows do not fit together.")
        self._sums, self.n_rows, self.ridge, self.ridges = sums, n_rows, ridge, ridges
