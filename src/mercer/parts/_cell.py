"""One cell of a partition: a small ridge regression of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.sums import Rows, Statistics, distinct_rows, factor_ridge

__all__ = ["RIDGES", "Cell", "LocalFunction"]

Array = NDArray[np.float64]

#: Ridges that cells try.
RIDGES = np.array([1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
# A cell takes its dictionary from the rows it has once they are so many times its size, even if
# few of them are distinct.
_PATIENCE = 4
# Rows as a multiple of its size from which half of a cell that was split predicts by its own.
_TRUSTED = 3


class LocalFunction(NamedTuple):
    """What a cell predicts with: f(x) = sum_i c_i (k(x, d_i) + constant), cut to a range."""

    kernel: Kernel
    constant: float
    points: Array  # (n_points, n_features)
    coefficients: Array  # (n_points, n_outputs)
    range: Array  # (2, n_outputs): lowest and highest value; the other way round for any

    def features(self, X: Array) -> Array:
        """Kernel values, (n, n_points)."""
        K = np.asarray(self.kernel(X, self.points), dtype=np.float64)
        K += self.constant
        return K

    def mapped(self, codes: Array, offset: Array) -> LocalFunction:
        """Return the same function with other outputs."""
        ends = mapped_range(self.range, codes, offset)
        return self._replace(coefficients=self.coefficients @ codes, range=ends)


class Cell:
    """Sums over the rows of a cell.

    Until it has ``size`` distinct rows a cell keeps them all, and they are its dictionary. Then
    its dictionary stays as it is, and sums take the place of rows.

    Parameters
    ----------
    kernel : Kernel
        Kernel inside the cell, resolved.
    constant : float
        Added to it.
    size : int
        Largest number of points.
    rows : Rows
        No rows, of the right shapes, in float64.
    before : LocalFunction or None, default=None
        What to predict with while there are few rows of the cell's own.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    """

    def __init__(
        self,
        kernel: Kernel,
        constant: float,
        size: int,
        rows: Rows,
        before: LocalFunction | None = None,
        forgetting: float = 1.0,
    ) -> None:
        n_features, n_outputs = rows.X.shape[1], rows.targets.shape[1]
        none = np.empty((0, n_features))
        #: Lowest and highest target learned; infinite, the other way round, without any.
        self.range = no_range(n_outputs)
        self.function = LocalFunction(kernel, constant, none, np.empty((0, n_outputs)), self.range)
        self.size = size
        self.before = before
        self.forgetting = forgetting
        self.rows: Rows | None = rows
        self.statistics: Statistics | None = None
        self.n_rows = 0

    @property
    def is_filling(self) -> bool:
        """Whether it keeps its rows."""
        return self.rows is not None

    @property
    def predictor(self) -> LocalFunction:
        """Function to predict with."""
        return self.function if self.before is None else self.before

    def learn(self, rows: Rows) -> None:
        """Add rows."""
        self.n_rows += len(rows)
        self.range = wider_range(self.range, rows.targets)
        if self.statistics is not None:
            self._add(self.statistics, rows)
            return
        assert self.rows is not None
        self.rows = Rows.joined([self.rows, rows])
        patience = _PATIENCE * self.size
        if len(self.rows) >= self.size:
            firsts = distinct_rows(self.rows.X[:patience])[: self.size]
            if firsts.size == self.size or len(self.rows) >= patience:
                self._freeze(self.rows, firsts)

    def _add(self, statistics: Statistics, rows: Rows) -> None:
        if self.forgetting < 1.0:
            statistics.forget(self.forgetting ** len(rows))
        recent = rows.aged(self.forgetting)
        statistics.add(self.function.features(rows.X), recent.targets, recent.weights)

    def _freeze(self, rows: Rows, chosen: NDArray[np.int64]) -> None:
        # The first points are those it had before: it predicts as it did until it is solved.
        coefficients = np.zeros((chosen.size, rows.targets.shape[1]))
        coefficients[: len(self.function.coefficients)] = self.function.coefficients
        self.function = self.function._replace(points=rows.X[chosen], coefficients=coefficients)
        self.statistics = Statistics(chosen.size, rows.targets.shape[1])
        self._add(self.statistics, rows)
        self.rows = None

    @property
    def has_equations(self) -> bool:
        """Whether it has enough rows of its own to predict by them."""
        trusted = self.before is None or self.n_rows >= _TRUSTED * self.size
        return trusted and (self.statistics is not None or bool(self.rows))

    def equations(self) -> tuple[Statistics, Array] | None:
        """Return sums and kernel matrix of the dictionary; None if there are none."""
        if not self.has_equations:
            return None
        if self.statistics is not None:
            return self.statistics, self.function.features(self.function.points)
        assert self.rows is not None
        statistics, penalty = self.nothing_yet(self.rows)
        self._add(statistics, self.rows)
        return statistics, penalty

    def total(self) -> tuple[Array, float]:
        """Weighted sum of the targets learned, (n_outputs,), and of the weights."""
        if self.statistics is not None:
            return self.statistics.target_sums, self.statistics.weight
        assert self.rows is not None
        rows = self.rows.aged(self.forgetting)
        return rows.weights @ rows.targets, float(rows.weights.sum())

    def nothing_yet(self, rows: Rows) -> tuple[Statistics, Array]:
        """Take these rows as the dictionary; return sums of no row and its kernel matrix."""
        points = rows.X[distinct_rows(rows.X)[: self.size]]
        self.function = self.function._replace(points=points)
        return Statistics(len(points), rows.targets.shape[1]), self.function.features(points)

    def general_ridge(
        self, equations: tuple[Statistics, Array], ridges: NDArray[np.float64]
    ) -> float:
        """Ridge that generalised cross-validation chooses, from the sums alone."""
        statistics, penalty = equations
        moments = statistics.moments()
        right = statistics.products / statistics.weight
        squares = float((statistics.target_squares / statistics.weight).sum())
        whole = np.tril(moments) + np.tril(moments, -1).T
        scores = []
        for ridge in ridges:
            factor = factor_ridge(moments, ridge, penalty)
            w = factor.solve(right)
            misfit = squares - 2.0 * float(np.sum(w * right)) + float(np.sum(w * (whole @ w)))
            freedom = float(np.trace(factor.solve(whole))) / max(statistics.n_rows, 1)
            scores.append(max(misfit, 0.0) / max(1.0 - freedom, 1e-6) ** 2)
        return float(ridges[int(np.argmin(scores))])

    def path(self, equations: tuple[Statistics, Array], X: Array, ridges: Iterable[float]) -> Array:
        """Predictions at rows for all ridges, (n_ridges, n, n_outputs)."""
        statistics, penalty = equations
        Z = self.function.features(X)
        moments = statistics.moments()
        right = statistics.products / statistics.weight
        solutions = [factor_ridge(moments, ridge, penalty).solve(right) for ridge in ridges]
        return np.stack([cut(Z @ w, self.range) for w in solutions])

    def finish(self, equations: tuple[Statistics, Array], held: Rows | None, ridge: float) -> None:
        """Solve with some more rows; predictions go by the cell's own rows from now on."""
        statistics, penalty = equations
        ends = self.range
        if held is not None:
            ends = wider_range(ends, held.targets)
            statistics = statistics if statistics is not self.statistics else statistics.copy()
            self._add(statistics, held)
        factor = factor_ridge(statistics.moments(), ridge, penalty)
        solution = factor.solve(statistics.products / statistics.weight)
        coefficients = np.ascontiguousarray(solution)  # as they are in a file
        self.function = self.function._replace(coefficients=coefficients, range=ends)
        self.before = None

    def say(self, values: Array, at: Array) -> None:
        """Predict these values around a point while there is no row."""
        self.function = self.function._replace(points=at[np.newaxis])
        height = self.function.features(self.function.points)[0, 0]
        self.function = self.function._replace(coefficients=values[np.newaxis] / height)
        self.function = self.function._replace(range=no_range(len(values)))

    def evaluate(self, X: Array) -> Array:
        """Values at rows of the cell, (n, n_outputs), within the range of the targets seen."""
        function = self.predictor
        return cut(function.features(X) @ function.coefficients, function.range)

    def map_outputs(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
        self.function = self.function.mapped(codes, offset)
        self.before = None if self.before is None else self.before.mapped(codes, offset)
        if self.rows is not None:
            self.rows = self.rows.map_targets(codes, offset)
        if self.statistics is not None:
            self.statistics.map_targets(codes, offset)
        self.range = mapped_range(self.range, codes, offset)


def no_range(n_outputs: int) -> Array:
    """Range without a target in it, which cuts nothing: (2, n_outputs)."""
    return np.repeat([[np.inf], [-np.inf]], n_outputs, axis=1)


def wider_range(ends: Array, targets: Array) -> Array:
    """Range with these targets in it, too."""
    low, high = targets.min(axis=0), targets.max(axis=0)
    return np.stack([np.minimum(ends[0], low), np.maximum(ends[1], high)])


def mapped_range(ends: Array, codes: Array, offset: Array) -> Array:
    """Range of the targets y @ codes + offset."""
    if ends[0, 0] > ends[1, 0]:
        return no_range(offset.size)
    return np.sort(ends @ codes + offset, axis=0)


def cut(values: Array, ends: Array) -> Array:
    """Values within a range; they are changed in place."""
    return values if ends[0, 0] > ends[1, 0] else np.clip(values, *ends, out=values)
