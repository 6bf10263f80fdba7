"""Ridge regression on the leaves of trees, which finds thresholds where kernels are smooth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel, Linear
from mercer.maps.leaves import Leaves, grow_leaves
from mercer.sums.exact import ExactFit, ExactRidge
from mercer.sums.ridge import BasisPart, descend_ridges, squared_error
from mercer.sums.rows import Rows
from mercer.sums.statistics import LeafFeatures

Array = NDArray[np.float64]

# Number of the ridge to begin with, folds of the judges where trees are grown anew for each, and
# how many times the error of others may be theirs.
_FIRST, _FOLDS, _HOPELESS = 4, 3, 2.0
#: Leaves of a tree, and rows on which trees are grown.
N_LEAVES, MOST_GROWN = 16, 16_000


class LeafBasis:
    """Indicators of the leaves of trees.

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
        """None: the norm is that of the coefficients."""


class TreesPart(BasisPart):
    r"""Ridge regression on the leaves of boosted trees.

    Trees are grown once, on some first rows; what a leaf is worth
    is learned from all rows together with all other leaves. So its function is one of the kernel
    "share of the trees in which two rows have the same leaf".

    Parameters
    ----------
    map : Leaves
        The trees.
    n_outputs : int
        Number of targets.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    max_rows : int or None, default=None
        Rows to learn at most.
    seed : int, default=0
        With which trees are grown anew to judge them.
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
        """Part whose trees are grown on the first of some rows, and that has learned nothing.

        Parameters
        ----------
        rows : Rows
            In random order.
        unit : ndarray of shape (n_outputs,) or float, default=1.0
            Unit of each target, in which they count alike.
        n_trees : int, default=100
            How many trees of 16 leaves at most.
        forgetting, seed
            As of the class.
        """
        rows = rows[:MOST_GROWN]
        sizes = {"n_trees": n_trees, "n_leaves": N_LEAVES}
        map = grow_leaves(rows.X, rows.targets / unit, rows.weights, seed=seed, **sizes)
        return cls(map, rows.targets.shape[1], forgetting, seed=seed)

    @property
    def constant(self) -> float:
        """See :class:`BasisPart`: each row has a leaf of each tree."""
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
        """Points behind the :attr:`map`: a row in each leaf, (n_leaves, n_leaves)."""
        return np.eye(self.n_points)

    def solve_few(
        self, rows: Rows, n_judges: int, block: int = 1, rivals: Sequence[Array] = ()
    ) -> Array | None:
        """Learn all rows there are, and judge trees by others, grown without some of the rows.

        Parameters
        ----------
        rows : Rows
            The rows, with weights by their age where old ones are forgotten.
        n_judges : int
            How many of the last rows judge.
        block : int, default=1
            Rows that are left out together, the first of them at a multiple of it.
        rivals : sequence of ndarray of shape (n_judges, n_outputs), default=()
            What others predict of these rows. Of more than twice the squared error of the best on
            the first fold trees are not worth more time.

        Returns
        -------
        predictions : ndarray of shape (n_judges, n_outputs) or None
            Value at each of the last rows of the fit to rows without its fold; None if they are not
            worth it, and have learned nothing.
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
                # The first fold chooses the ridge for all.
                self.ridge = alike.ridge
                alike.fix_ridge(float(self.ridges[self.ridge]))
        whole = self._on(self.map)
        whole.ridge = self.ridge
        whole._fit(rows)
        self.coefficients = whole.coefficients
        self.is_exact = True  # rows that come are learned with all others, anew
        return np.concatenate(predictions)

    def _on(self, map: Leaves) -> TreesPart:
        """Part of other trees that has learned nothing, with the same ridges."""
        other = TreesPart(map, self.n_targets, seed=self.seed)
        other.unit, other.ridges, other._first = self.unit, self.ridges, self._first
        return other

    def _judge(self, rows: Rows, held: Rows) -> Array:
        """Learn rows, choose the ridge on others and return the values there."""
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
        """Return the regression by the kernel matrix of rows, which are fewer than the leaves."""
        Z = self.basis.features(rows.X)
        return ExactRidge(Z.kernel(), rows.targets - mean, rows.weights), Z


def _mean(rows: Rows) -> Array:
    return np.asarray(np.average(rows.targets, axis=0, weights=rows.weights))
