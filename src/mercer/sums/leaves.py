"""Ridge regression on the leaves of trees, which fit thresholds that smooth kernels miss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from mercer.kernels import Kernel, Linear
from mercer.maps.leaves import Leaves, grow_leaves
from mercer.numerics.trees import indicator_values, scores_of, sweep_classes, sweep_trees
from mercer.sums.ridge import RIDGES, BasisPart, Trial, squared_error
from mercer.sums.rows import Rows
from mercer.sums.statistics import LeafFeatures

Array = NDArray[np.float64]

# Number of the ridge to try first; number of folds of held out rows, for each of which trees are
# grown anew; and the error, as a multiple of the best rival's, above which trees are given up.
_FIRST, _FOLDS, _HOPELESS = 4, 3, 2.0
# Ridges on the way of sweeps, from the strongest to the weakest, with the sweeps for each, for
# numbers and for classes; and sweeps that take in the held-out rows. The way ends after so many
# ridges without a lower error.
_WAY = ((3e-3, 3), (1e-3, 3), (3e-4, 4), (1e-4, 4), (3e-5, 5), (1e-5, 6), (3e-6, 8))
_CLASS_WAY = tuple((ridge, 2) for ridge in (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6))
_MORE_SWEEPS, _MORE_OF_CLASSES, _PATIENCE = 4, 2, 2
# Score of a class that is sure, which is predicted as its code: the weights of all parts then are
# of one size.
_SURE = 8.0
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
        #: Number of leaves.
        self.size = map.n_outputs

    def __eq__(self, other: object) -> bool:
        """Whether the trees are the same."""
        return isinstance(other, LeafBasis) and self.map == other.map

    __hash__ = None  # type: ignore[assignment]

    def features(self, X: Any) -> LeafFeatures:
        """Return the indicators of the leaves of rows."""
        return LeafFeatures(self.map.numbers(X), self.size)

    def penalty(self) -> None:
        """Return None: the norm of a function is the norm of its coefficients."""


class Sweeps:
    """A function of the leaves of trees that is fitted tree by tree to rows in memory.

    Parameters
    ----------
    map : Leaves
        The trees, of at most 256 leaves each.
    rows : Rows
        Rows to fit.
    mean : ndarray of shape (n_outputs,)
        Value that the leaves add to.
    values : ndarray of shape (n_outputs, n_leaves) or None
        Values of the leaves to begin with; None for 0.
    """

    #: Divisor of predictions.
    unit: float

    def __init__(self, map: Leaves, rows: Rows, mean: Array, values: Array | None) -> None:
        numbers, self._starts = map.numbers(rows.X), map.starts
        self._map, self._weights, self._numbers = map, rows.weights, numbers
        self._leaves = (numbers - self._starts[:-1, np.newaxis]).astype(np.uint8)
        self.mean = np.asarray(mean)
        #: Values of the leaves, (n_outputs, n_leaves).
        self.values = np.zeros((len(self.mean), map.n_outputs))
        if values is not None:
            self.values[:] = values

    def _strength(self, ridge: float) -> float:
        return ridge * float(self._weights.sum()) * self._map.n_trees

    @property
    def coefficients(self) -> Array:
        """Coefficients of the features of a :class:`LeafBasis`, (n_leaves, n_outputs)."""
        height = self._map.n_trees**-0.5
        return np.ascontiguousarray(height * self.mean + self.values.T / height) / self.unit


class LeafSweeps(Sweeps):
    r"""Ridge regression to the mean on the leaves of trees, tree by tree on rows in memory.

    It minimises what the sums over the same rows do,

    .. math:: \frac{1}{W} \sum_i w_i |y_i - \bar y - \sum_t v_{t(i)}|^2
        + \lambda T \sum_l |v_l|^2

    for T trees with leaves l and values v, in time proportional to the rows: the sums of 100 trees
    have a million products, and solving for 1,600 leaves takes longer than a hundred sweeps.

    See :class:`Sweeps` for the parameters.
    """

    way, more, unit = _WAY, _MORE_SWEEPS, 1.0

    def __init__(self, map: Leaves, rows: Rows, values: Array | None = None) -> None:
        mean = np.average(rows.targets, axis=0, weights=rows.weights)
        super().__init__(map, rows, mean, values)
        each = np.tile(rows.weights, map.n_trees)
        self._counts = np.bincount(self._numbers.ravel(), each, map.n_outputs).astype(np.float64)
        self._residuals = np.ascontiguousarray((rows.targets - self.mean).T)
        if values is not None:
            self._residuals -= indicator_values(self._numbers, values.T.copy()).T

    def sweep(self, ridge: float, n_sweeps: int) -> None:
        """Visit all trees so many times with a ridge, beginning with the present values."""
        rows, strength = (self._residuals, self._weights, self._counts), self._strength(ridge)
        sweep_trees(self._leaves, self._starts, self.values, *rows, strength, n_sweeps)


class ClassSweeps(Sweeps):
    r"""Scores of classes on the leaves of trees: the log loss is lowered tree by tree.

    It minimises, for T trees with leaves l and values v,

    .. math:: \frac{1}{W} \sum_i w_i \ell\Big(b + \sum_t v_{t(i)}, y_i\Big)
        + \frac{\lambda T}{2} \sum_l |v_l|^2

    with the log loss and the scores b of the shares of the classes. Least squares on codes also
    pulls down scores of rows that are surely right. So where classes follow rules, the log loss
    decides far fewer rows wrong. Predictions are the scores in units of sure ones, so that they are
    of the size of class codes, as those of other parts are.

    See :class:`Sweeps` for the parameters. Targets are class codes.
    """

    way, more, unit = _CLASS_WAY, _MORE_OF_CLASSES, _SURE

    def __init__(self, map: Leaves, rows: Rows, values: Array | None = None) -> None:
        self._own = np.ascontiguousarray((rows.targets + 1.0) / 2.0)
        mean = scores_of(np.average(self._own, axis=0, weights=rows.weights))
        super().__init__(map, rows, mean, values)
        scores = np.tile(self.mean, (len(rows), 1))
        if values is not None:
            scores += indicator_values(self._numbers, values.T.copy())
        if len(self.mean) > 1:
            scores -= scores.max(axis=1, keepdims=True)
        self._odds = np.exp(scores)

    def sweep(self, ridge: float, n_sweeps: int) -> None:
        """Visit all trees so many times with a ridge, beginning with the present values."""
        rows, strength = (self._odds, self._own, self._weights), self._strength(ridge)
        sweep_classes(self._leaves, self._starts, self.values, *rows, strength, n_sweeps)


def log_loss(scores: Array, rows: Rows) -> float:
    """Return the weighted mean log loss of scores at rows with class codes."""
    if scores.shape[1] == 1:
        losses = np.logaddexp(0.0, -scores[:, 0] * rows.targets[:, 0])
    else:
        own = np.take_along_axis(scores, rows.targets.argmax(axis=1)[:, np.newaxis], 1)
        losses = logsumexp(scores - own, axis=1)
    return float(rows.weights @ losses) / float(rows.weights.sum())


def _as_codes(values: Array) -> Array:
    """Return class codes weighted by their probabilities, from predictions of :class:`ClassSweeps`.

    Examples
    --------
    >>> _as_codes(np.array([[0.125]])).round(3), _as_codes(np.zeros((1, 2)))
    (array([[0.462]]), array([[0., 0.]]))
    """
    scores = _SURE * values
    return np.tanh(scores / 2.0) if scores.shape[1] == 1 else 2.0 * softmax(scores, axis=1) - 1.0


class TreesPart(BasisPart):
    r"""Ridge regression on the leaves of boosted trees.

    Trees are grown once, on the first rows. The values of all leaves are then learned jointly from
    all rows. So the function belongs to the kernel "share of the trees in which two rows have the
    same leaf".

    Rows of a stream are added to sums (:meth:`learn`, :meth:`solve`). Rows that are all in memory
    need none: a few sweeps over the trees, with ridges from strong to weak,
    end at the ridge that predicts held-out rows best (:meth:`judge_gathered`, :meth:`solve_few`).

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
    classes : bool, default=False
        Whether targets are class codes. On rows in memory, scores then minimise the log loss.
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
        *,
        classes: bool = False,
    ) -> None:
        super().__init__(LeafBasis(map), n_outputs, forgetting, max_rows, _FIRST)
        self.seed, self.classes = seed, classes

    @classmethod
    def grown(
        cls,
        rows: Rows,
        unit: Array | float = 1.0,
        *,
        n_trees: int = 100,
        rows_of_leaf: int = 20,
        forgetting: float = 1.0,
        seed: int = 0,
        classes: bool = False,
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
        rows_of_leaf : int, default=20
            Fewest rows of a leaf.
        forgetting, seed, classes
            See :class:`TreesPart`.
        """
        rows = rows[:MOST_GROWN]
        map = grow_leaves(
            rows.X,
            rows.targets / unit,
            rows.weights,
            n_trees=n_trees,
            n_leaves=N_LEAVES,
            rows_of_leaf=rows_of_leaf,
            seed=seed,
            classes=classes,
        )
        return cls(map, rows.targets.shape[1], forgetting, seed=seed, classes=classes)

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
    ) -> Trial | None:
        """Predict the last rows by cross-validation with trees grown anew, then fit all rows.

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
            their squared error is more than twice that of the best rival; that of classes is of
            probabilities, between the codes.

        Returns
        -------
        trial : Trial or None
            Predictions for the last rows, by fits without the fold of the row; to complete it is to
            fit all rows. None if trees were given up; the part has then learned nothing.
        """
        n, predictions, last = len(rows), [], None
        ends = n - n_judges + np.linspace(0, n_judges, _FOLDS + 1).astype(int)
        ends[1:-1] -= ends[1:-1] % block
        ends[1:-1] = [rows.whole(int(end), least=1) for end in ends[1:-1]]
        ends[1:-1] = np.maximum(ends[1:-1], ends[0])
        for start, stop in pairwise(np.unique(ends)):
            others, held = rows[np.r_[:start, stop:n]], rows[start:stop]
            sizes = {"n_trees": self.map.n_trees, "seed": self.seed}
            other = TreesPart.grown(others, self.unit, **sizes, classes=self.classes)
            # The first fold chooses the ridge for all folds.
            last, other.coefficients = self._fitted(other.map, others, held, last)
            predictions.append(other.evaluate(held.X))
            if len(predictions) == 1:
                mine, theirs = predictions[0], [its[: len(held)] for its in rivals]
                if self.classes:
                    theirs = [np.clip(its, -1.0, 1.0) for its in theirs]
                    mine = np.clip(mine, -1.0, 1.0) if self._tries_all else _as_codes(mine)
                errors = [squared_error(its, held, self.unit) for its in theirs]
                if squared_error(mine, held, self.unit) > _HOPELESS * min(errors, default=np.inf):
                    return None
        self.is_exact = True  # no sums: further rows need a new fit to all rows

        def complete() -> None:
            self.coefficients = self._fitted(self.map, rows, rows[:0], last)[1]

        return Trial(np.concatenate(predictions), complete)

    def judge_gathered(self, rows: Rows, held: Rows) -> Trial:
        """Fit rows, choose the ridge on held-out rows and predict them; all rows are in memory.

        Until the trial is complete, the fit without the held-out rows is the function.

        Parameters
        ----------
        rows, held : Rows
            Rows to fit, and rows held out from them, which are younger.
        """
        if self._tries_all:
            self.learn(rows)
            return self.judge(held)
        n, together = len(rows), Rows.joined([rows, held]).discounted(self.forgetting)
        last, sweeps, scores = self._swept(self.map, together[:n], together[n:])
        self.coefficients = self.without_held = sweeps.coefficients

        def complete() -> None:
            whole = type(sweeps)(self.map, together, sweeps.values)
            whole.sweep(sweeps.way[last][0], sweeps.more)
            self.coefficients = whole.coefficients

        return Trial(scores, complete)

    def _fitted(self, map: Leaves, rows: Rows, held: Rows, last: int | None) -> tuple[int, Array]:
        """Return the place on the way of ridges, see ``_swept``, and the coefficients there.

        For a ridge that is given, sums have the exact solution.
        """
        if not self._tries_all:
            last, sweeps, _ = self._swept(map, rows, held, last)
            return last, sweeps.coefficients
        part = TreesPart(map, self.n_targets)
        part.choose_among(self.ridges)
        part.learn(rows)
        part.solve_for_learned()
        return 0, part.coefficients

    def _swept(
        self, map: Leaves, rows: Rows, held: Rows, last: int | None = None
    ) -> tuple[int, LeafSweeps | ClassSweeps, Array]:
        """Sweep with ridges from strong to weak, up to a place on the way, or the best one.

        Returns
        -------
        last : int
            The place.
        sweeps : LeafSweeps or ClassSweeps
            The fit to ``rows`` there.
        values : ndarray of shape (n_held, n_outputs)
            Its predictions for the held-out rows.
        """
        kind: type[LeafSweeps | ClassSweeps] = ClassSweeps if self.classes else LeafSweeps
        sweeps, numbers = kind(map, rows), map.numbers(held.X)
        lowest, best = np.inf, 0
        kept = sweeps.values, np.tile(sweeps.mean, (len(held), 1))
        for place, step in enumerate(kind.way):
            sweeps.sweep(*step)
            if last is not None and place < last:
                continue
            values = sweeps.mean + indicator_values(numbers, sweeps.values.T.copy())
            if last is not None:
                return last, sweeps, values / kind.unit
            error = (
                log_loss(values, held) if self.classes else squared_error(values, held, self.unit)
            )
            if error < lowest:
                lowest, best, kept = error, place, (sweeps.values.copy(), values)
            elif place - best >= _PATIENCE:
                break
        sweeps.values, predicted = kept
        self.ridge = int(np.argmin(np.abs(np.log(RIDGES / kind.way[best][0]))))
        return best, sweeps, predicted / kind.unit
