"""Ridge regression on the leaves of trees, which fit thresholds that smooth kernels miss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Linear
from mercer.maps.leaves import Leaves, grow_leaves
from mercer.sums.ridge import BasisPart, ExactFit, ExactRidge, descend_ridges, squared_error
from mercer.sums.rows import Rows
from mercer.sums.statistics import LeafFeatures

Array = NDArray[np.float64]

# Number of the ridge to try first; number of folds of held out rows, for each of which trees are
# grown anew; and the error, as a multiple of the best rival's, above which trees are given up.
_FIRST, _FOLDS, _HOPELESS = 4, 3, 2.0
#: Leaves of a tree, and most rows on which trees are grown.
N_LEAVES, MOST_GROWN = 16, 16_000


class LeafBasis:
    """Basis of indicator functions of the leaves of trees.

    Parameters
    ----------
    map : Leaves
        The trees.
    """

    def __init__(self, map: Leaves) -> None:
        self.map = map

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self.map.n_outputs

    def __eq__(self, other: object) -> bool:
        """Whether the trees are the same."""
        return isinstance(other, LeafBasis) and self.map == other.map

    __hash__ = None  # type: ignore[assignment]

    def features(self, X: Any) -> LeafFeatures:
        """Return the indicators of the leaves of rows."""
        return LeafFeatures(self.map.numbers(X), self.size)

    def penalty(self) -> None:
        """Return None: the norm of a function is the norm of its coefficients."""


class TreesPart(BasisPart):
    r"""Ridge regression on the leaves of boosted trees.

    Trees are grown once, on the first rows. The values of all leaves are then learned jointly from
    all rows. So the function belongs to the kernel "share of the trees in which two rows have the
    same leaf".

    Parameters
    ----------
    map : Leaves
        The trees.
    n_outputs : int
        Number of targets.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    max_rows : int or None, default=None
        Most rows to learn.
    seed : int, default=0
        Seed with which trees are grown anew for validation.
    """

    form = "trees"
    basis: LeafBasis

    def __init__(
        self,
        map: Leaves,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(LeafBasis(map), n_outputs, forgetting, max_rows, _FIRST)
        self.seed = seed

    @classmethod
    def grown(
        cls,
        rows: Rows,
        unit: Array | float = 1.0,
        *,
        n_trees: int = 100,
        forgetting: float = 1.0,
        seed: int = 0,
    ) -> TreesPart:
        """Return a part with trees grown on the first 16,000 rows, which has learned nothing yet.

        Parameters
        ----------
        rows : Rows
            Rows in random order.
        unit : ndarray of shape (n_outputs,) or float, default=1.0
            Unit of each target, with which all targets count alike.
        n_trees : int, default=100
            Number of trees, of at most 16 leaves each.
        forgetting, seed
            See :class:`TreesPart`.
        """
        rows = rows[:MOST_GROWN]
        sizes = {"n_trees": n_trees, "n_leaves": N_LEAVES}
        map = grow_leaves(rows.X, rows.targets / unit, rows.weights, seed=seed, **sizes)
        return cls(map, rows.targets.shape[1], forgetting, seed=seed)

    @property
    def constant(self) -> float:
        """Coefficient of all features that makes the function 1: each row has a leaf per tree."""
        return float(1.0 / np.sqrt(self.map.n_trees))

    @property
    def map(self) -> Leaves:
        """The trees."""
        return self.basis.map

    @property
    def kernel(self) -> Kernel:
        """Kernel behind the :attr:`map`."""
        return Linear()

    @property
    def dictionary(self) -> Array:
        """Points behind the :attr:`map`: the indicator of each leaf, (n_leaves, n_leaves)."""
        return np.eye(self.n_points)

    def solve_few(
        self, rows: Rows, n_judges: int, block: int = 1, rivals: Sequence[Array] = ()
    ) -> Array | None:
        """Fit all rows, and predict the last rows by cross-validation with trees grown anew.

        Parameters
        ----------
        rows : Rows
            All rows, with weights by age if old rows are forgotten.
        n_judges : int
            Number of rows at the end to predict.
        block : int, default=1
            Number of rows left out together; blocks start at multiples of it.
        rivals : sequence of ndarray of shape (n_judges, n_outputs), default=()
            Predictions of other parts for the same rows. Trees are given up if, on the first fold,
            their squared error is more than twice that of the best rival.

        Returns
        -------
        predictions : ndarray of shape (n_judges, n_outputs) or None
            Predictions for the last rows, by fits without the fold of the row. None if trees were
            given up; the part has then learned nothing.
        """
        n, predictions, alike = len(rows), [], self
        ends = n - n_judges + np.linspace(0, n_judges, _FOLDS + 1).astype(int)
        ends[1:-1] -= ends[1:-1] % block
        ends[1:-1] = [rows.whole(int(end), least=1) for end in ends[1:-1]]
        ends[1:-1] = np.maximum(ends[1:-1], ends[0])
        for start, stop in pairwise(np.unique(ends)):
            others, held = rows[np.r_[:start, stop:n]], rows[start:stop]
            other = TreesPart.grown(others, self.unit, n_trees=self.map.n_trees, seed=self.seed)
            alike = alike._on(other.map)
            values = alike._judge(others, held)
            predictions.append(values)
            if len(predictions) == 1:
                errors = [squared_error(its[: len(held)], held, self.unit) for its in rivals]
                if squared_error(values, held, self.unit) > _HOPELESS * min(errors, default=np.inf):
                    return None
                # The first fold chooses the ridge for all folds.
                self.ridge = alike.ridge
                alike.fix_ridge(float(self.ridges[self.ridge]))
        whole = self._on(self.map)
        whole.ridge = self.ridge
        whole._fit(rows)
        self.coefficients = np.ascontiguousarray(whole.coefficients)  # as in files
        self.is_exact = True  # no sums: further rows need a new fit to all rows
        return np.concatenate(predictions)

    def _on(self, map: Leaves) -> TreesPart:
        """Return a part with other trees and the same ridges, which has learned nothing yet."""
        other = TreesPart(map, self.n_targets, seed=self.seed)
        other.unit, other.ridges, other._first = self.unit, self.ridges, self._first
        return other

    def _judge(self, rows: Rows, held: Rows) -> Array:
        """Learn rows, choose the ridge on held out rows and return the predictions for these."""
        if len(rows) + len(held) > self.n_points:
            self.learn(rows)
            self.ridge, found = self._choose(self.basis.features(held.X), held)
            return np.asarray(found[0])
        mean, n = _mean(rows), len(held)
        exact = self._exact(Rows.joined([rows, held]), mean)[0]

        def judge(fit: ExactFit) -> tuple[float, Array]:
            values: Array = held.targets - exact.held_out(fit, n)
            return squared_error(values, held, self.unit), values

        self.ridge, values = descend_ridges(exact, judge, self._first, self.ridges)
        return np.tile(mean, (n, 1)) if values is None else values

    def _fit(self, rows: Rows) -> None:
        """Learn rows with the ridge in use."""
        if len(rows) <= self.n_points:
            mean = _mean(rows)
            exact, Z = self._exact(rows, mean)
            fit = exact.fit(float(self.ridges[self.ridge]))
            if fit is not None:
                self.coefficients = self.constant * mean + (fit.coefficients.T @ Z).T
                return
        self.learn(rows)
        self.coefficients = self._solution(self.statistics, self.ridge)

    def _exact(self, rows: Rows, mean: Array) -> tuple[ExactRidge, LeafFeatures]:
        """Return the regression from the Gram matrix of rows, which are fewer than leaves."""
        Z = self.basis.features(rows.X)
        return ExactRidge(Z.kernel(), rows.targets - mean, rows.weights), Z


def _mean(rows: Rows) -> Array:
    return np.asarray(np.average(rows.targets, axis=0, weights=rows.weights))
