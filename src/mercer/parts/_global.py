"""A part on one dictionary for the whole space: ridge regression from sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.sums import KernelBasis, RidgeFactor, Rows, Statistics, factor_ridge

__all__ = ["GlobalPart", "descend", "squared_error"]

Array = NDArray[np.float64]
_T = TypeVar("_T")

_CHUNK = 4096
#: Ridges that are tried, from the strongest to the weakest.
RIDGES = 10.0 ** -np.arange(0.0, 10.0)
_FIRST, _MANY = 6, 2000
_MOST_LEVERAGE = 1.0 - 1e-8


def squared_error(predictions: Any, rows: Rows, unit: Any = 1.0) -> float:
    """Weighted mean of the squared errors, each in its unit, summed over the outputs."""
    errors = np.sum(((predictions - rows.targets) / unit) ** 2, axis=1)
    return float(rows.weights @ errors) / float(rows.weights.sum())


class GlobalPart:
    """Kernel expansion on a fixed dictionary, fitted to numbers or codes by least squares.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary; in float32 all products are.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    max_rows : int or None, default=None
        Rows to learn at most; further ones change nothing. None for no limit.
    """

    form = "global"

    def __init__(
        self,
        kernel: Kernel,
        points: Any,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
    ) -> None:
        self.basis = KernelBasis(kernel, np.ascontiguousarray(points))
        self.forgetting = forgetting
        self.max_rows = max_rows
        self.statistics = Statistics(len(points), n_outputs)
        self.coefficients = np.zeros((len(points), n_outputs))
        #: Coefficients of the last solution before it learned the rows kept back.
        self.without_held = self.coefficients
        self._first = _first_of(len(points))
        self.ridge = self._first
        self.ridges = RIDGES
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        self._penalty = self.basis.penalty()
        # Jitter that the last solution needed.
        self._enough = 0.0

    @property
    def kernel(self) -> Kernel:
        """Kernel of the expansion."""
        return self.basis.kernel

    @property
    def dictionary(self) -> Any:
        """Points, shape (n_points, n_features)."""
        return self.basis.points

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.basis.size

    @property
    def sum_bytes(self) -> int:
        """Memory of the sums in a file."""
        return 4 * self.basis.size**2

    def fix_ridge(self, ridge: float | None) -> None:
        """Use this ridge and try no others; or, for None, choose among all again."""
        if ridge is None:
            self.ridges = RIDGES
            self.ridge = self._first = _first_of(self.n_points)
        else:
            self.ridges, self.ridge, self._first = np.array([ridge]), 0, 0

    def map_outputs(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.statistics.map_targets(codes, offset)
        self.unit = np.ones(offset.size)
        self.coefficients = self.coefficients @ codes
        self.without_held = self.without_held @ codes

    def learn(self, rows: Rows) -> None:
        """Add rows to the sums."""
        if self.max_rows is not None and self.forgetting == 1.0:
            rows = rows[: max(0, self.max_rows - self.statistics.n_rows)]
        if self.forgetting < 1.0:
            self.statistics.forget(self.forgetting ** len(rows))
        rows = rows.aged(self.forgetting)
        for start in range(0, len(rows), _CHUNK):
            some = rows[start : start + _CHUNK]
            Z: Any = self.basis.features(some.X)
            self.statistics.add(Z, some.targets, some.weights)

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on rows that were not learned, then learn them for the moment, too.

        Parameters
        ----------
        held : Rows
            Rows kept back from :meth:`learn`.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Values at the rows before they were learned.
        """
        Z: Any = self.basis.features(held.X)
        right = self.statistics.products / self.statistics.weight
        recent = held.aged(self.forgetting)

        def attempt(number: int) -> tuple[float, tuple[Any, Array, float]]:
            w = self.statistics.factor(self.ridges[number], self._penalty).solve(right)
            predictions = Z @ w.astype(Z.dtype)
            found = predictions, w, self.statistics.jitter
            return squared_error(predictions, recent, self.unit), found

        # From the same ridge each time: what is found must not depend on what was asked before.
        with self.statistics.trial():
            best, (predictions, w, enough) = descend(attempt, self._first, self.ridges.size)
        if best < self._first:  # tried after weaker ones, it may need less: that a file would find
            enough = self.statistics.jitter
        everything = self.statistics.copy()
        everything.forget(self.forgetting ** len(held))
        everything.add(Z, recent.targets, recent.weights)
        everything.jitter = max(everything.jitter, enough)
        solution = everything.solve(self.ridges[best], self._penalty)
        # In the order of a file, so that predictions are the same to the last bit.
        self.coefficients = np.ascontiguousarray(solution)
        self.ridge, self.without_held, self._enough = best, w, enough
        return np.asarray(predictions, dtype=np.float64)

    def solve_without(self, rows: Rows, block: int = 1) -> Array:
        """Learn all rows there are, and choose the ridge by fits that leave some of them out.

        Parameters
        ----------
        rows : Rows
            The rows.
        block : int, default=1
            Rows that are left out together, in the order in which they come; no more than a fifth
            of all, since nothing is to be learned from no row.

        Returns
        -------
        predictions : ndarray of shape (n, n_outputs)
            Value at each row of the fit to all others, or to all other blocks, in closed form.
        """
        Z: Any = self.basis.features(rows.X)
        rows = rows.aged(self.forgetting)
        self.statistics = Statistics(self.basis.size, rows.targets.shape[1])
        self.statistics.add(Z.copy(), rows.targets, rows.weights)
        right = self.statistics.products / self.statistics.weight
        share = rows.weights / self.statistics.weight
        block = min(block, max(1, len(rows) // 5))

        def attempt(number: int) -> tuple[float, tuple[Array, Array]]:
            factor = self.statistics.factor(self.ridges[number], self._penalty)
            w = factor.solve(right)
            residuals = _left_out(factor.whiten(Z.T), share, rows.targets - Z @ w, block)
            predictions = rows.targets - residuals
            return squared_error(predictions, rows, self.unit), (predictions, w)

        self.ridge, (predictions, w) = descend(attempt, self._first, self.ridges.size)
        self.coefficients = np.ascontiguousarray(w)
        return predictions

    def step(
        self,
        rows: Rows,
        slopes: Callable[[Array], Array],
        factor: RidgeFactor,
        rate: float,
        curvature: float,
    ) -> None:
        """Make a preconditioned Newton step on some rows.

        Parameters
        ----------
        rows : Rows
            Rows of the step.
        slopes : callable
            Values at the rows to slopes, divided by the number of rows.
        factor : RidgeFactor
            From :meth:`factor`.
        rate : float
            Step size over the curvature.
        curvature : float
            Bound of the loss's curvature, by which the ridge is multiplied.
        """
        Z: Any = self.basis.features(rows.X)
        values = Z @ self.coefficients.astype(Z.dtype)
        # Wide times tall and narrow: this way round it costs two thirds.
        gradient = (slopes(values.astype(np.float64)).astype(Z.dtype).T @ Z).T.astype(np.float64)
        pull = (self.coefficients.T @ self._penalty).T
        gradient += curvature * self.ridges[self.ridge] * pull
        moved = self.coefficients - rate * factor.solve(gradient)
        self.coefficients = np.ascontiguousarray(moved)

    def factor(self) -> RidgeFactor:
        """Factor of mean products + ridge * kernel matrix."""
        least = max(self._enough, self.statistics.jitter)
        ridge = float(self.ridges[self.ridge])
        return factor_ridge(self.statistics.moments(), ridge, self._penalty, least)

    def evaluate(self, X: Any) -> Array:
        """Values at rows, shape (n, n_outputs)."""
        values = np.empty((X.shape[0], self.coefficients.shape[1]))
        w = self.coefficients.astype(self.basis.points.dtype)
        for start in range(0, len(values), _CHUNK):
            cut = slice(start, start + _CHUNK)
            values[cut] = self.basis.features(X[cut]) @ w
        return values


def _left_out(white: Any, share: Array, residuals: Array, block: int) -> Array:
    """Residuals of rows that were left out, block by block.

    Parameters
    ----------
    white : ndarray of shape (n_points, n)
        Whitened features: products of columns are leverages for each unit of weight.
    share : ndarray of shape (n,)
        Weights of the rows.
    residuals : ndarray of shape (n, n_outputs)
        Of the fit to all rows.
    block : int
        Rows that are left out together.
    """
    if block == 1:
        leverages = share * np.sum(white**2, axis=0)
        alone: Array = residuals / (1.0 - np.minimum(leverages, _MOST_LEVERAGE))[:, np.newaxis]
        return alone
    found = np.empty_like(residuals)
    for start in range(0, len(residuals), block):
        some = slice(start, start + block)
        own = white[:, some].T @ white[:, some] * -(_MOST_LEVERAGE * share[some])
        own[np.diag_indices_from(own)] += 1.0
        found[some] = np.linalg.solve(own, residuals[some])
    return found


def _first_of(n_points: int) -> int:
    # Many points of many rows want a weak ridge, and each one that is tried is dear.
    return _FIRST if n_points <= _MANY else _FIRST + 2


def descend(attempt: Callable[[int], tuple[float, _T]], start: int, n: int) -> tuple[int, _T]:
    """Go downhill among 0, ..., n - 1, each of which is tried once at most.

    Parameters
    ----------
    attempt : callable
        Number to its error and whatever comes with it.
    start : int
        Where to begin; this one is tried also if there is nothing to choose.
    n : int
        How many there are.

    Returns
    -------
    best : int
        Number of the smallest error that was found.
    found : object
        What came with it.

    Examples
    --------
    >>> descend(lambda i: ((i - 1) ** 2, "abcdefgh"[i]), 3, 8)
    (1, 'b')
    """
    best, (lowest, found) = start, attempt(start)
    for step in (1, -1):
        while 0 <= best + step < n:
            error, other = attempt(best + step)
            if not error < lowest:
                break
            best, lowest, found = best + step, error, other
        if best != start:
            break
    return best, found
