r"""Conformal prediction: intervals and sets of classes that contain the truth at a given rate.

Conformal prediction needs rows that the model has not learned, and the model's predictions for
them. If such rows and a new one could have come in any order, the error of the new one is
as likely to be the largest of all as that of any other; so the :math:`\lceil (n + 1) c \rceil`-th
smallest of n errors is not exceeded by a share c of new rows, whatever the data and the model are
(Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World*, 2005; Lei et al., JASA 113,
2018). That holds on average over all rows, not for each kind of row. Where rows are too few to
keep some of them back, several fits each lack some, and all of them predict the new row
(:func:`cross_conformal`). Where rows drift, :class:`AdaptiveConformal` follows.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.losses import Quantile
from mercer.records import Numbers, Record, Recorded
from mercer.selection import pilot_kernel
from mercer.sums import Correction, GlobalPart, Rows, squared_error
from mercer.threads import own_property
from mercer.validation import (
    check_choice,
    check_integer,
    check_numbers,
    check_real,
    integer,
    positive,
    real,
)

__all__ = [
    "AdaptiveConformal",
    "ConformalIntervals",
    "ConformalSets",
    "conformal_quantile",
    "cross_conformal",
]

Array = NDArray[np.float64]

METHODS = ("normalized", "split", "quantile")

# The pilot that predicts the size of errors: its points, and the fewest rows that it needs.
_POINTS, _FEWEST = 250, 60
# Errors are used as logarithms after adding this share of the usual error. Otherwise the smallest
# errors, which carry little information, would weigh the most.
_FLOOR = 0.3
_TINY = 1e-300
_CHUNK = 2**20  # numbers in memory: rows to predict times rows with known errors


def check_coverage(coverage: float) -> float:
    """Return a coverage, or raise ``ValueError`` if it is not between 0 and 1."""
    is_percentage = isinstance(coverage, Real) and 1.0 < coverage < 100.0
    mend = f"Write {coverage / 100.0:g} for {coverage:g} %." if is_percentage else ""
    return check_real(
        "coverage", coverage, low=0.0, high=1.0, open_low=True, open_high=True, mend=mend
    )


def conformal_quantile(
    scores: ArrayLike, coverage: float, weights: ArrayLike | None = None
) -> float:
    r"""Return a bound that a new row's score exceeds with probability at most 1 - ``coverage``.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        Nonconformity scores of rows that were not learned: the larger, the worse a row fits.
    coverage : float
        Between 0 and 1.
    weights : array-like of shape (n_rows,), default=None
        Weights of the rows; None for equal ones. The new row counts as their mean.

    Returns
    -------
    quantile : float
        The :math:`\lceil (n + 1) c \rceil`-th smallest score; infinite if n is too small.

    Raises
    ------
    ValueError
        If the coverage is not between 0 and 1, there are no rows, a score is NaN, or weights do not
        fit.

    Examples
    --------
    >>> conformal_quantile(range(1, 20), 0.9)
    18.0
    >>> conformal_quantile([1.0, 2.0, 3.0], 0.9)
    inf
    """
    check_coverage(coverage)
    found = check_numbers("`scores`", scores)
    if found.ndim != 1 or not found.size:
        raise ValueError(
            f"`scores` must be a vector of at least one number, got shape {found.shape}."
        )
    if np.isnan(found).any():
        raise ValueError("`scores` must be numbers, got NaN. Leave such rows out.")
    share = _shares(weights, found.size)
    return float(_quantiles(found[np.newaxis], coverage, share)[0])


def _shares(weights: ArrayLike | None, n: int) -> Array:
    """Return weights of rows divided by their mean."""
    share = np.ones(n) if weights is None else check_numbers("`weights`", weights)
    if share.shape != (n,) or not np.isfinite(share).all() or share.min() < 0.0:
        raise ValueError(
            f"`weights` must be {n:,} finite numbers of at least 0, one for each score."
        )
    if not share.any():
        raise ValueError("`weights` are all 0, so no row counts. Give some rows a weight.")
    return np.asarray(share / share.mean())


def _quantiles(scores: Array, coverage: float, share: Array) -> Array:
    """Return the conformal quantile of each line of scores, with the rows' relative weights."""
    n = scores.shape[1]
    order = np.argsort(scores, axis=1, kind="stable")
    upto = np.cumsum(share[order], axis=1)
    # The new row counts as a row at infinity. Sums of equal weights are whole numbers.
    number = np.sum(upto < _row_of(coverage, n), axis=1)
    found = np.take_along_axis(scores, order, axis=1)
    ends = np.column_stack([found, np.full(len(found), math.inf)])
    return np.asarray(ends[np.arange(len(found)), number])


def _row_of(coverage: float, n: int) -> float:
    """Return the rank of the conformal quantile among n errors, a whole number up to rounding."""
    return coverage * (n + 1.0) * (1.0 - 1e-12)


def cross_conformal(
    low: ArrayLike,
    high: ArrayLike,
    scores: ArrayLike,
    coverage: float,
    weights: ArrayLike | None = None,
) -> Array:
    r"""Return intervals of new rows from fits that each left out some of the learned rows.

    The score of row i is how far its target lies outside the prediction of a fit without it; that
    fit also predicts the new row. The lower end of the interval is the number that all but
    :math:`\lceil (n + 1) c \rceil - 1` of the numbers :math:`l_i - s_i` exceed; the upper end is
    found in the same way from :math:`h_i + s_i`. If each fit leaves out one row, this is the
    jackknife+; if each leaves out a part, CV+. For any data the coverage is at least 1 - 2 (1 - c),
    and about c if fits that differ in some rows are alike (Barber, Candès, Ramdas, Tibshirani,
    Annals of Statistics 49, 2021; Vovk, Annals of Mathematics and Artificial Intelligence 74, 2015,
    as cross-conformal predictors).

    Parameters
    ----------
    low, high : array-like of shape (n_new, n_rows)
        Prediction for each new row by the fit that left out each row: one value in both, or the
        ends of an interval.
    scores : array-like of shape (n_rows,), or (n_new, n_rows)
        How far outside the prediction each row's target was; below 0 for inside. May depend on the
        new row, if its errors are larger than those of other rows.
    coverage : float
        Between 0 and 1.
    weights : array-like of shape (n_rows,), default=None
        Weights of the rows; None for equal ones. The new row counts as their mean.

    Returns
    -------
    intervals : ndarray of shape (n_new, 2)
        Lower and upper ends; infinite if there are too few rows.

    Raises
    ------
    ValueError
        If the coverage is not between 0 and 1, shapes do not fit, or a number is NaN.

    Examples
    --------
    Nine rows suffice for 90 %, if none is left aside:

    >>> said = np.array([[5.0, 5.1, 4.9, 5.0, 5.2, 5.0, 4.8, 5.0, 5.0]])
    >>> cross_conformal(said, said, [0.1, 0.3, 0.2, 0.5, 0.1, 0.4, 0.2, 0.6, 0.1], 0.9)
    array([[4.4, 5.6]])
    """
    check_coverage(coverage)
    lower, upper = check_numbers("`low`", low), check_numbers("`high`", high)
    beyond, shape = check_numbers("`scores`", scores), lower.shape
    if len(shape) != 2 or upper.shape != shape or beyond.shape not in (shape, shape[1:]):
        raise ValueError(
            f"`low` and `high` must have shape (n_new, n_rows), and `scores` that one or (n_rows,),"
            f" got shapes {shape}, {upper.shape} and {beyond.shape}."
        )
    if any(np.isnan(one).any() for one in (lower, upper, beyond)):
        raise ValueError(
            "`low`, `high` and `scores` must be numbers, got NaN. Leave such rows out."
        )
    lower, upper = lower - beyond, upper + beyond
    share = _shares(weights, lower.shape[1])
    return np.column_stack(
        [-_quantiles(-lower, coverage, share), _quantiles(upper, coverage, share)]
    )


def fewest_rows(coverage: float) -> int:
    """Return the least number of rows for which intervals of a coverage are finite.

    Examples
    --------
    >>> fewest_rows(0.9), fewest_rows(0.95)
    (9, 19)
    """
    return math.ceil(coverage / (1.0 - coverage) * (1.0 - 1e-12))


def finite(width: float, coverage: float, n_rows: int) -> float:
    """Return a conformal quantile of ``n_rows`` rows; ``ValueError`` if it is infinite."""
    if math.isfinite(width):
        return width
    raise ValueError(
        f"A coverage of {coverage} needs at least {fewest_rows(coverage):,} rows that the model "
        "had not learned, more if their weights differ or many were outside of late, and there "
        f"are {n_rows:,}. Ask for a lower coverage, or learn or calibrate on more rows."
    )


def _finite_quantile(scores: Array, coverage: float, weights: Array | None) -> float:
    width = conformal_quantile(scores, coverage, weights) if scores.size else math.inf
    return finite(width, coverage, scores.size)


@dataclass(frozen=True, eq=False)
class ConformalIntervals:
    r"""Prediction intervals of one quantity, from rows that were not learned.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows that were not learned.
    y : ndarray of shape (n_rows,)
        Targets of the rows.
    predicted : ndarray of shape (n_rows,)
        Predictions for the rows.
    weights : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows.
    method : {"normalized", "split", "quantile"}, default="normalized"
        ``"split"``: predictions plus and minus the conformal quantile of :math:`|y - f(x)|`, so all
        intervals have one width. ``"normalized"``: widths in proportion to :math:`\sigma(x)`, the
        typical error at x. A small kernel machine, on the inputs and the prediction, learns the
        logarithms of :math:`|y - f(x)|` plus .3 of their median; each row's :math:`\sigma` comes
        from a fit to all others. If this is worse than a constant, all widths are equal.
        ``"quantile"``: lower and upper quantiles are learned on half of the rows; the other half
        determines how much to widen them (Romano, Patterson, Candès, NeurIPS 2019). The two sides
        may then differ.
    block : int, default=1
        Number of consecutive rows left out together, for time series.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of rows, sorted, that are left out together; replaces ``block``.
    fits : ndarray of shape (n_rows,) of int, or None, default=None
        Index of the fit that predicted each row, if several fits each left out some rows; None if
        one fit left out all.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0.0, 1.0, size=(2000, 1))
    >>> y = X[:, 0] * rng.normal(size=2000)  # the spread grows
    >>> find = ConformalIntervals(X, y, np.zeros(2000))
    >>> few, many = find(np.array([[0.1], [0.9]]), np.zeros(2), 0.9)
    >>> bool(many[1] - many[0] > 4.0 * (few[1] - few[0]))
    True
    """

    X: Any
    y: Array
    predicted: Array
    weights: Array | None = None
    method: str = "normalized"
    block: int = 1
    groups: NDArray[np.int64] | None = None
    fits: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if not len(self.y):
            raise ValueError("There is no row to find intervals by, and some are needed.")

    def __call__(
        self, X: Any, predicted: Array, coverage: float = 0.9, by_fit: Array | None = None
    ) -> Array:
        """Intervals of rows.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Rows.
        predicted : ndarray of shape (n,)
            Predictions for the rows.
        coverage : float, default=0.9
            Share of the rows whose interval is to hold the truth.
        by_fit : ndarray of shape (n, n_fits), default=None
            Predictions of each fit for the rows; quantiles use ``predicted`` alone.

        Returns
        -------
        intervals : ndarray of shape (n, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the coverage is not between 0 and 1, or there are too few rows for it.
        """
        if self.method == "quantile":
            return self._between_quantiles(X, predicted, coverage)
        if self.method == "split":
            own, its = np.ones(len(self.y)), np.ones(len(predicted))
        else:
            own, its = self._sizes.own, self._sizes(X, predicted)
        errors = np.abs(self.y - self.predicted) / own
        if self.fits is not None and by_fit is not None:
            ends = by_fit, by_fit
            return over_fits(self.fits, ends, errors, coverage, self.weights, its)
        half = _finite_quantile(errors, coverage, self.weights) * its
        return np.column_stack([predicted - half, predicted + half])

    @own_property
    def _sizes(self) -> _Sizes:
        errors = np.abs(self.y - self.predicted)
        together = self.block, self.groups
        return _Sizes.learned(self.X, self.predicted, errors, self.weights, *together)

    def _between_quantiles(self, X: Any, predicted: Array, coverage: float) -> Array:
        """Quantiles learned on every second row, or stretch of rows, moved by the others."""
        blocks = np.arange(len(self.y)) // self.block
        if self.groups is not None:
            blocks = np.cumsum(np.diff(self.groups, prepend=self.groups[0]) != 0)
        learned, judged = np.flatnonzero(blocks % 2 == 0), np.flatnonzero(blocks % 2 == 1)
        band = self._band(learned, coverage)
        low, high = self._ends(band, self.X[judged], self.predicted[judged]).T
        beyond = np.maximum(low - self.y[judged], self.y[judged] - high)
        weights = None if self.weights is None else self.weights[judged]
        moved = _finite_quantile(beyond, coverage, weights)
        return widened(self._ends(band, X, predicted), moved)

    def _band(self, some: NDArray[np.intp], coverage: float) -> Correction:
        tail = (1.0 - coverage) / 2.0
        X = np.asarray(self.X[some], dtype=np.float64)
        weights = np.ones(some.size) if self.weights is None else self.weights[some]
        rows = Rows(X, self.y[some, np.newaxis], weights)
        values = self.predicted[some, np.newaxis]
        unit = float(np.median(np.abs(rows.targets - values))) or float(np.std(self.y)) or 1.0
        kernel = pilot_kernel(X) if some.size >= _FEWEST else None
        loss = Quantile([tail, 1.0 - tail])
        return Correction.fitted(rows, values, loss, 2, unit=unit, kernel=kernel)

    def _ends(self, band: Correction, X: Any, predicted: Array) -> Array:
        return np.sort(band(np.asarray(X, dtype=np.float64), predicted[:, np.newaxis]), axis=1)


def over_fits(
    fits: NDArray[np.intp],
    ends: tuple[Array, Array],
    scores: Array,
    coverage: float,
    weights: Array | None,
    sizes: Array | None = None,
) -> Array:
    """Intervals by :func:`cross_conformal`, few rows at a time; ValueError if they are infinite.

    Parameters
    ----------
    fits : ndarray of shape (n_rows,) of int
        Number of the fit that lacked each row.
    ends : pair of ndarray of shape (n_new, n_fits)
        Lower and upper predictions of each fit for new rows.
    scores : ndarray of shape (n_rows,)
        How far each row was outside.
    coverage, weights
        See :func:`cross_conformal`.
    sizes : ndarray of shape (n_new,), default=None
        In which units scores are at new rows; None for 1.
    """
    low, high = ends
    found, chunk = np.empty((len(low), 2)), max(1, _CHUNK // fits.size)
    for start in range(0, len(low), chunk):
        cut = slice(start, start + chunk)
        own = scores if sizes is None else sizes[cut, np.newaxis] * scores
        found[cut] = cross_conformal(low[cut][:, fits], high[cut][:, fits], own, coverage, weights)
    if len(found):
        finite(float(np.abs(found).max()), coverage, fits.size)
    return widened(found, 0.0)


def widened(ends: Array, by: float) -> Array:
    """Intervals whose ends moved out by a number, or in; those that would cross meet halfway.

    Examples
    --------
    >>> widened(np.array([[0.0, 2.0]]), 1.0)
    array([[-1.,  3.]])
    >>> widened(np.array([[0.0, 2.0]]), -1.5)
    array([[1., 1.]])
    """
    moved = ends + np.array([-by, by])
    crossed = moved[:, 0] > moved[:, 1]
    moved[crossed] = ends[crossed].mean(axis=1, keepdims=True)
    return np.asarray(moved)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """How large errors usually are at rows: the exponential of a small kernel machine."""

    own: Array  # of the rows that it was learned from, each by a fit to the others
    part: GlobalPart | None
    mean: float
    centre: float
    scale: float

    @classmethod
    def learned(
        cls,
        X: Any,
        predicted: Array,
        errors: Array,
        weights: Array | None,
        block: int,
        groups: NDArray[np.int64] | None = None,
    ) -> Self:
        centre, scale = float(predicted.mean()), float(predicted.std()) or 1.0
        usual = float(np.median(errors)) or float(errors.mean())
        if len(errors) < _FEWEST or usual == 0.0:
            return cls(np.ones(len(errors)), None, 0.0, centre, scale)
        logarithms = np.log(errors + _FLOOR * usual)
        mean = float(np.average(logarithms, weights=weights))
        inputs = _beside(X, (predicted - centre) / scale)
        share = np.ones(len(errors)) if weights is None else weights
        rows = Rows(inputs, (logarithms - mean)[:, np.newaxis], share, groups=groups)
        places = np.linspace(0, len(errors) - 1, min(len(errors), _POINTS)).astype(int)
        part = GlobalPart(pilot_kernel(inputs), inputs[places], 1)
        left_out = part.solve_without(rows, block)
        if squared_error(left_out, rows) >= squared_error(0.0, rows):
            # Nothing predicts the size of errors, and a fit to noise could give any width.
            return cls(np.ones(len(errors)), None, 0.0, centre, scale)
        return cls(np.exp(left_out[:, 0]), part, mean, centre, scale)

    def __call__(self, X: Any, predicted: Array) -> Array:
        if self.part is None:
            return np.ones(len(predicted))
        inputs = _beside(X, (predicted - self.centre) / self.scale)
        return np.asarray(np.exp(self.part.evaluate(inputs)[:, 0]))


def _beside(X: Any, values: Array) -> Array:
    return np.column_stack([np.asarray(X, dtype=np.float64), values])


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Sets of classes that hold the true one as often as is asked for.

    A class is in the set of a row if its score there is at least a threshold: the conformal
    quantile of the scores of true classes (Sadinle, Lei, Wasserman, JASA 114, 2019). Of all sets
    with a coverage these are the smallest on average, if the scores are probabilities.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_classes)
        Probabilities, or any numbers that are higher for classes that are more likely, of rows
        that were not learned.
    labels : ndarray of shape (n_rows,) of int
        Number of the true class of each.
    weights : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows.
    fits : ndarray of shape (n_rows,) of int, or None, default=None
        Index of the fit that scored each row, if several fits each left out some rows; None if one
        fit left out all. With several fits, a class is in the set of a row if not too many learned
        rows have scores above the new row's score by the fit without them (CV+; Romano, Sesia,
        Candès, NeurIPS 2020).

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    >>> find = ConformalSets(scores, np.array([0, 0, 1, 0]))
    >>> find(np.array([[0.95, 0.05], [0.62, 0.58]]), 0.8)
    array([[ True, False],
           [ True, False]])
    """

    scores: Array
    labels: NDArray[np.integer]
    weights: Array | None = None
    fits: NDArray[np.intp] | None = None

    def __call__(
        self,
        scores: Array,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        empty: bool = False,
        by_fit: Array | None = None,
    ) -> NDArray[np.bool_]:
        """Find sets of rows.

        Parameters
        ----------
        scores : ndarray of shape (n, n_classes)
            Scores of the rows.
        coverage : float, default=0.9
            Share of the rows whose set is to hold the true class.
        by_class : bool, default=False
            Whether that is to hold for the rows of each class: rare classes count as much then,
            and sets are larger.
        empty : bool, default=False
            Whether sets may be empty. An empty set means that no class fits, which happens for some
            rows if the classifier is right more often than asked for. Otherwise every set contains
            the class with the highest score, and coverage may exceed the requested one.
        by_fit : ndarray of shape (n, n_fits, n_classes), default=None
            Scores of each fit for the rows.

        Returns
        -------
        sets : ndarray of shape (n, n_classes) of bool

        Raises
        ------
        ValueError
            If the coverage is not between 0 and 1, or there are too few rows for it.
        """
        scores = np.asarray(scores)
        n_classes = self.scores.shape[1]
        own = -self.scores[np.arange(len(self.labels)), self.labels]
        sets = np.empty((len(scores), n_classes), dtype=bool)
        groups = [self.labels == number for number in range(n_classes)] if by_class else [
            np.ones(len(own), dtype=bool)
        ]  # fmt: skip
        for number, group in enumerate(groups):
            columns = [number] if by_class else list(range(n_classes))
            weights = None if self.weights is None else self.weights[group]
            least = -_finite_quantile(own[group], coverage, weights)
            if self.fits is None or by_fit is None:
                sets[:, columns] = scores[:, columns] >= least
                continue
            fits, share = self.fits[group], _shares(weights, int(group.sum()))
            for column in columns:
                above = np.zeros(len(scores))
                for fit in np.unique(fits):
                    mine = fits == fit
                    theirs = -by_fit[:, fit, column]
                    above += share[mine] @ (own[group][mine, np.newaxis] < theirs)
                sets[:, column] = above < _row_of(coverage, fits.size)
        if not empty:
            sets[np.arange(len(sets)), np.argmax(scores, axis=1)] = True
        return sets


class AdaptiveConformal(Recorded):
    r"""Intervals of a stream whose coverage holds however the stream drifts.

    The width of an interval follows the errors of the last rows. When too many rows are outside,
    the allowed share of misses :math:`\alpha` is lowered, and raised when too few are:
    :math:`\alpha \leftarrow \alpha + \gamma (1 - c - \mathrm{miss})`. Over T rows the share of
    misses is then :math:`1 - c` up to :math:`(1 + \gamma) / (\gamma T)`, for any sequence of rows
    (Gibbs, Candès, NeurIPS 2021, Proposition 4.1). The bound counts infinite intervals, which occur
    while :math:`\alpha` is 0 or less.

    Parameters
    ----------
    coverage : float, default=0.9
        Share of the rows whose interval is to hold the truth.
    rate : float, default=0.01
        The number :math:`\gamma`: the larger it is, the faster widths follow, and the more they
        shake.
    window : int, default=1000
        Number of recent rows whose errors set the width of intervals.

    Attributes
    ----------
    n_rows : int
        Rows seen.
    n_missed : int
        Rows whose error was larger than :meth:`width` had said.
    alpha : float
        The share that may be outside now.

    Raises
    ------
    ValueError
        For numbers out of their range.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> widths, find = [], AdaptiveConformal(0.9)
    >>> for spread in np.repeat([1.0, 5.0], 3000):  # errors become five times as large
    ...     widths.append(find.width())
    ...     _ = find.update(abs(spread * rng.normal()))
    >>> bool(4.0 < widths[-1] / widths[2999] < 6.0)
    True
    >>> abs(find.n_missed / find.n_rows - 0.1) < 0.01
    True
    """

    _record = Record(
        coverage=real(low=0.0, high=1.0, open_low=True, open_high=True),
        rate=positive(),
        window=integer(low=1),
        alpha=real(),
        n_rows=integer(low=0),
        n_missed=integer(low=0),
        _errors=Numbers("n_errors", low=0.0),
    ).where(
        "the errors do not match the rows that were seen",
        lambda it: (
            it["_errors"].size == min(it["n_rows"], it["window"]) and it["n_missed"] <= it["n_rows"]
        ),
    )

    def __init__(self, coverage: float = 0.9, *, rate: float = 0.01, window: int = 1000) -> None:
        check_coverage(coverage)
        check_real("rate", rate, low=0.0, open_low=True)
        check_integer("window", window, low=1)
        self.coverage, self.rate, self.window = coverage, rate, window
        self.alpha = 1.0 - coverage
        self.n_rows = self.n_missed = 0
        self._errors: deque[float] = deque()
        self._sorted: list[float] = []

    def width(self) -> float:
        """Largest error that the next row is to have; infinite before enough rows came."""
        n = len(self._sorted)
        number = math.ceil((n + 1) * (1.0 - self.alpha) * (1.0 - 1e-12))
        if number > n or self.alpha <= 0.0:
            return math.inf
        return self._sorted[max(number, 1) - 1] if self.alpha < 1.0 else 0.0

    def update(self, error: float) -> Self:
        """Take in the error of a row, whose interval was of the :meth:`width` until now.

        Parameters
        ----------
        error : float
            Size of what the prediction missed; not negative.

        Raises
        ------
        ValueError
            If it is negative or NaN.
        """
        if not error >= 0.0:
            raise ValueError(f"`error` must be a number of at least 0, got {error!r}.")
        missed = self.alpha >= 1.0 or error > self.width()
        self.n_rows += 1
        self.n_missed += int(missed)
        self.alpha += self.rate * (1.0 - self.coverage - missed)
        self._errors.append(error)
        insort(self._sorted, error)
        if len(self._errors) > self.window:
            del self._sorted[bisect_left(self._sorted, self._errors.popleft())]
        return self

    def interval(self, predicted: float) -> tuple[float, float]:
        """Lower and upper end around a prediction of the next row."""
        width = self.width()
        return predicted - width, predicted + width

    def words(self) -> str:
        """Say how many rows were inside.

        Examples
        --------
        >>> AdaptiveConformal(0.9).update(1.0).words()
        '100.0 % inside intervals of 90 %'
        """
        share = 1.0 - self.n_missed / self.n_rows if self.n_rows else math.nan
        return f"{100.0 * share:.1f} % inside intervals of {100.0 * self.coverage:g} %"

    def _adopt(self, values: dict[str, Any]) -> None:
        errors = values.pop("_errors").tolist()
        super()._adopt({**values, "_errors": deque(errors), "_sorted": sorted(errors)})
