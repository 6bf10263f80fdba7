"""Maps of rows that transform columns one by one, or encode them as indicators.

Skewed columns need ranks or logarithms, and codes of classes need indicators. These maps consist
only of numbers; an affine map, such as a metric, may follow.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from mercer.jit import jit
from mercer.maps.affine import Affine, FixedMap, FloatArray, LearnableMap, check_rows
from mercer.threads import own_property
from mercer.validation import choice, integer, parameters, real

Array = NDArray[np.float64]


class _ColumnMap(FixedMap):
    """A map of rows that transforms columns one by one."""

    @abstractmethod
    def _images(self, rows: Array) -> Array:
        """Images of rows in float64."""

    @abstractmethod
    def _preimages(self, images: Array) -> Array:
        """Rows of given images."""

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows. They are not checked: NaN stays in its row, or vanishes with its column.

        Returns
        -------
        mapped : ndarray of shape (n_rows, n_outputs)
            A new array, C-ordered; float32 if ``X`` is, else float64.

        Raises
        ------
        ValueError
            If ``X`` is sparse or of the wrong shape.
        """
        rows = check_rows(X, self.n_inputs)
        return self._images(rows.astype(np.float64, copy=False)).astype(rows.dtype, copy=False)

    def then(self, other: Affine) -> Chain:
        """Chain of two maps as one, x -> other(self(x)).

        Parameters
        ----------
        other : Affine
            The map after this one.

        Raises
        ------
        ValueError
            If ``other`` is not an affine map with as many inputs as this map has outputs.
        """
        return Chain(self, other)

    def preimage(self, images: ArrayLike) -> FloatArray:
        """Return rows that are mapped to given images, or as near to them as possible.

        Parameters
        ----------
        images : array-like of shape (n_rows, n_outputs)
            Images of rows under this map.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_inputs)
            float32 if ``images`` is, else float64. Dropped columns have their middle value.

        Raises
        ------
        ValueError
            If the rows are of another length than ``n_outputs``.
        """
        mapped = check_rows(images, self.n_outputs)
        return self._preimages(mapped.astype(np.float64, copy=False)).astype(
            mapped.dtype, copy=False
        )


def _lists(name: str, values: Any, sizes: NDArray[np.int64]) -> list[Array]:
    """Split numbers into the lists of the columns, which stand one after the other."""
    numbers = np.array(values, dtype=np.float64)
    if numbers.shape != (int(sizes.sum()),) or not np.isfinite(numbers).all():
        raise ValueError(
            f"`{name}` must hold {int(sizes.sum())} finite numbers, as many as `sizes` says for "
            f"all columns, got the shape {numbers.shape}."
        )
    return np.split(numbers, np.cumsum(sizes)[:-1])


def _sizes(values: Any) -> NDArray[np.int64]:
    sizes = np.array(values)
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise ValueError(
            f"`sizes` must hold an integer of at least 0 for each column, got {values!r}."
        )
    return sizes.astype(np.int64)


class Curves(_ColumnMap):
    """A piecewise linear curve for each column.

    Parameters
    ----------
    knots : array-like of shape (n_knots,)
        Positions of the knots, in units of the inputs: the first column's in rising order, then the
        second column's, ...
    values : array-like of shape (n_knots,)
        Values at the knots.
    sizes : array-like of shape (n_inputs,)
        Number of knots of each column. Columns without knots are *dropped* from the output.
    beyond : {"constant", "linear"}, default="constant"
        How curves continue beyond their knots: constant, or with the slope of the last piece.

    Raises
    ------
    ValueError
        If a number is not finite, knots do not rise, the shapes do not fit together, or all columns
        are dropped.

    See Also
    --------
    NormalScores, Logarithms : Curves learned from rows.

    Examples
    --------
    >>> from mercer.maps import Curves
    >>> bend = Curves(knots=[0.0, 1.0, 100.0], values=[0.0, 1.0, 2.0], sizes=[3, 0])
    >>> bend([[0.5, 7.0], [1000.0, 7.0]])
    array([[0.5],
           [2. ]])
    """

    _parameters = parameters(beyond=choice("constant", "linear"))

    def __init__(
        self, knots: ArrayLike, values: ArrayLike, sizes: ArrayLike, beyond: str = "constant"
    ) -> None:
        self.knots = knots
        self.values = values
        self.sizes = sizes
        self.beyond = beyond
        self._check()

    def _check_curves(self) -> None:
        sizes = _sizes(self.sizes)
        knots, values = (_lists(name, getattr(self, name), sizes) for name in ("knots", "values"))
        if any((np.diff(places) <= 0.0).any() for places in knots):
            raise ValueError("`knots` must rise within each column. Sort them, and keep one each.")
        if not sizes.any():
            raise ValueError("`sizes` must leave a column, got no knots at all.")
        self._kept = np.flatnonzero(sizes)
        self._middles = np.array([np.median(places) if places.size else 0.0 for places in knots])
        self._curves = [(knots[j], values[j]) for j in self._kept]

    _relations = (_check_curves,)

    @property
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""
        return self._middles.size

    @property
    def n_outputs(self) -> int:
        """Number of columns of the rows it returns."""
        return self._kept.size

    def _images(self, rows: Array) -> Array:
        images = np.empty((len(rows), self.n_outputs))
        places = np.arange(self._kept.size)
        _bend(rows, self._kept, *self._table, self.beyond == "linear", images, places)
        return images

    @own_property
    def _table(self) -> _Table:
        return _table(self._curves)

    def _preimages(self, images: Array) -> Array:
        rows = np.tile(self._middles, (len(images), 1))
        # Falling curves, too.
        orders = [np.argsort(values, kind="stable") for _, values in self._curves]
        backwards = [(v[o], k[o]) for (k, v), o in zip(self._curves, orders, strict=True)]
        places = np.arange(self._kept.size)
        _bend(images, places, *_table(backwards), self.beyond == "linear", rows, self._kept)
        return rows


_Table = tuple[NDArray[np.int64], Array, Array, Array]


def _table(curves: list[tuple[Array, Array]]) -> _Table:
    """Return the start of each curve and the end of the last; all knots, values and slopes."""
    starts = np.cumsum([0, *(knots.size for knots, _ in curves)], dtype=np.int64)
    knots, values = (np.concatenate(several) for several in zip(*curves, strict=True))
    slopes = np.zeros(knots.size)
    with np.errstate(over="ignore"):
        runs = np.diff(knots)
        inside = runs != 0.0  # backwards some are flat
        inside[starts[1:-1] - 1] = False  # from one curve to the next
        np.divide(np.diff(values), runs, out=slopes[:-1], where=inside)
    return starts, knots, values, slopes


# No fast mathematics: values between two knots equal those of `numpy.interp`.
@jit(nogil=True, error_model="numpy")
def _bend(  # type: ignore[no-untyped-def]
    rows, columns, starts, knots, values, slopes, linear, images, places
):
    """Fill columns ``places`` with the values of curves at the numbers in ``columns``."""
    for i in range(len(rows)):
        for p in range(len(columns)):
            x, first, last = rows[i, columns[p]], starts[p], starts[p + 1] - 1
            if np.isnan(x):
                images[i, places[p]] = x
                continue
            low, high = first, last
            while high - low > 1:
                middle = (low + high) // 2
                if knots[middle] <= x:
                    low = middle
                else:
                    high = middle
            nearest = high if x >= knots[high] else low
            value = values[nearest]
            inside = knots[first] <= x <= knots[last]
            if x != knots[nearest] and slopes[low] != 0.0 and (linear or inside):
                value += slopes[low] * (x - knots[nearest])
            images[i, places[p]] = value


class Indicators(_ColumnMap):
    """Indicators for columns of codes, one per level; other columns are unchanged.

    Parameters
    ----------
    levels : array-like of shape (n_levels,)
        Levels of the first encoded column, then of the second, ... A row whose value is not among
        the levels has no indicator.
    sizes : array-like of shape (n_inputs,)
        Number of levels of each column; 0 for columns that are not encoded.
    height : float, default=1.0
        Value of the indicator of a row's level.

    Raises
    ------
    ValueError
        If a number is not finite, a level occurs twice, or the shapes do not fit together.

    See Also
    --------
    OneHot : Finds the columns and their levels.

    Examples
    --------
    >>> from mercer.maps import Indicators
    >>> Indicators(levels=[1.0, 2.0, 5.0], sizes=[0, 3])([[0.3, 5.0]])
    array([[0.3, 0. , 0. , 1. ]])
    """

    _parameters = parameters(height=real(low=0.0, open_low=True))

    def __init__(self, levels: ArrayLike, sizes: ArrayLike, height: float = 1.0) -> None:
        self.levels = levels
        self.sizes = sizes
        self.height = height
        self._check()

    def _check_levels(self) -> None:
        self._counts = _sizes(self.sizes)
        self._levels = _lists("levels", self.levels, self._counts)
        if any(np.unique(levels).size < levels.size for levels in self._levels):
            raise ValueError("`levels` must be different within each column.")

    _relations = (_check_levels,)

    @property
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""
        return self._counts.size

    @property
    def n_outputs(self) -> int:
        """Number of columns of the rows it returns."""
        return int(np.maximum(self._counts, 1).sum())

    def _images(self, rows: Array) -> Array:
        columns = [
            self.height * (rows[:, [j]] == levels) if levels.size else rows[:, [j]]
            for j, levels in enumerate(self._levels)
        ]
        return np.concatenate(columns, axis=1)

    def _preimages(self, images: Array) -> Array:
        rows, start = np.empty((len(images), self.n_inputs)), 0
        for j, levels in enumerate(self._levels):
            own = images[:, start : start + max(levels.size, 1)]
            rows[:, j] = levels[own.argmax(axis=1)] if levels.size else own[:, 0]
            start += own.shape[1]
        return rows


class Chain(_ColumnMap):
    """A map of columns followed by an affine map.

    Parameters
    ----------
    first : Curves or Indicators
        Map of the columns.
    last : Affine
        Map of its outputs.

    Raises
    ------
    ValueError
        If they are of other kinds, or do not fit together.

    Examples
    --------
    >>> from mercer.maps import Affine, Chain, Curves
    >>> root = Curves([0.0, 1.0, 4.0], [0.0, 1.0, 2.0], [3])
    >>> Chain(root, Affine([1.0], [10.0]))([[4.0]])
    array([[10.]])
    """

    def __init__(self, first: _ColumnMap, last: Affine) -> None:
        self.first = first
        self.last = last
        self._check()

    def _check_both(self) -> None:
        if not isinstance(self.first, Curves | Indicators):
            raise ValueError(f"`first` must be Curves or Indicators, got {self.first!r}.")
        if not isinstance(self.last, Affine) or self.last.n_inputs != self.first.n_outputs:
            raise ValueError(
                f"`last` must be an Affine map of {self.first.n_outputs} inputs, the outputs of "
                f"`first`, got {self.last!r}."
            )

    _relations = (_check_both,)

    @property
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""
        return self.first.n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of columns of the rows it returns."""
        return self.last.n_outputs

    def then(self, other: Affine) -> Chain:
        """Chain of all maps; the affine ones become one."""
        return Chain(self.first, self.last.then(other))

    def _images(self, rows: Array) -> Array:
        return np.asarray(self.last(self.first(rows)))

    def _preimages(self, images: Array) -> Array:
        return np.asarray(self.first.preimage(self.last.preimage(images)))


class _ColumnLearner(LearnableMap):
    """Learns what becomes of each column from finite rows."""

    #: Whether squares of the numbers are needed, not only their order.
    _squares: ClassVar[bool] = True

    def _rows(self, X: ArrayLike) -> Array:
        """Check rows; return them in float64."""
        rows = check_rows(X, np.shape(X)[1] if np.ndim(X) == 2 else 1).astype(np.float64)
        if not len(rows) or not np.isfinite(rows).all():
            raise ValueError(
                f"{self!r} must be learned from finite rows, one at least, got the shape "
                f"{rows.shape}. Leave out rows with missing values, or fill them in."
            )
        if self._squares:
            with np.errstate(over="ignore"):
                self._require_finite_sums(np.einsum("ij,ij->j", rows, rows))
        return rows


class _CurveLearner(_ColumnLearner):
    """Learns a curve for each column; constant columns are dropped."""

    #: How curves go on beyond their knots.
    _beyond: ClassVar[str]

    def fit(self, X: ArrayLike) -> Curves:
        """Return the curves learned from rows; this object is not changed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Typical rows.
        """
        none = np.empty(0), np.empty(0)
        curves = []
        for column in self._rows(X).T:
            places, counts = np.unique(column, return_counts=True)
            share = counts / column.size
            curves.append(none if places.size < 2 else self._curve(column, places, share))
        if not any(knots.size for knots, _ in curves):
            raise ValueError(
                f"{self!r} leaves no column: all are constant on the rows it is learned from."
            )
        knots, values = (np.concatenate(part) for part in zip(*curves, strict=True))
        return Curves(knots, values, [knots.size for knots, _ in curves], self._beyond)

    @abstractmethod
    def _curve(self, column: Array, places: Array, share: Array) -> tuple[Array, Array]:
        """Knots and values for a column of different values at places, each of a share of rows."""


def _standardised(images: Array, share: Array) -> Array:
    """Images with mean 0 and deviation 1 over the rows, of which each has a share."""
    centred = _near_one(images - share @ images)
    return np.asarray(centred / np.sqrt(share @ centred**2))


def _near_one(numbers: Array) -> Array:
    """Numbers times the power of two that makes the largest about 1: squares do not vanish."""
    return np.asarray(np.ldexp(numbers, -np.frexp(np.abs(numbers).max())[1]))


def _evenly(rising: Array, n: int) -> NDArray[np.intp]:
    """Numbers of at most ``n`` of rising numbers, about as far from each other; both ends."""
    if rising.size <= n:
        return np.arange(rising.size)
    wanted = np.linspace(rising[0], rising[-1], n)
    return np.unique(np.searchsorted(rising, wanted).clip(0, rising.size - 1))


class NormalScores(_CurveLearner):
    r"""Each column by the normal scores of its ranks, of mean 0 and deviation 1.

    The score of a number is :math:`\Phi^{-1}` of the share of rows below it, where equal rows count
    half. Scores are linear between the numbers seen, and constant beyond them. So only the order of
    a column's values matters, not its unit, skewness or outliers. Constant columns are dropped.

    Parameters
    ----------
    max_knots : int, default=1000
        Largest number of knots per column.

    Raises
    ------
    ValueError
        If ``max_knots`` is below 2; on learning, if rows are not finite or all columns constant.

    Examples
    --------
    >>> from mercer.maps import NormalScores
    >>> scores = NormalScores().fit([[1.0], [10.0], [1000.0]])
    >>> scores([[1.0], [1e9]]).round(3).ravel()
    array([-1.225,  1.225])
    """

    _squares, _beyond = False, "constant"
    _parameters = parameters(max_knots=integer(low=2))

    def __init__(self, max_knots: int = 1000) -> None:
        self.max_knots = max_knots
        self._check()

    def _curve(self, column: Array, places: Array, share: Array) -> tuple[Array, Array]:
        scores = _standardised(ndtri(np.cumsum(share) - share / 2.0), share)
        some = _evenly(scores, self.max_knots)  # no image is further off than two of them
        return places[some], scores[some]


class Logarithms(_CurveLearner):
    r"""Skewed columns by their logarithms, others as they are; all of mean 0 and deviation 1.

    A column whose skewness exceeds a limit, with sign s, becomes :math:`s \log(1 + (s x - m) / u)`,
    with m the smallest value times s, and u the median distance from it. Beyond the numbers seen,
    curves continue linearly.

    Parameters
    ----------
    skewness : float, default=1.5
        The limit.
    max_knots : int, default=1000
        Largest number of knots per column.

    Raises
    ------
    ValueError
        If a parameter is out of its range; on learning, if rows are not finite or all columns
        constant.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import Logarithms
    >>> curves = Logarithms().fit(np.exp(np.arange(0.0, 20.0))[:, np.newaxis])
    >>> curves(np.exp([[0.0], [10.0], [20.0]])).round(2).ravel()
    array([-0.81, -0.52,  3.06])
    """

    _beyond = "linear"
    _parameters = parameters(skewness=real(low=0.0), max_knots=integer(low=2))

    def __init__(self, skewness: float = 1.5, max_knots: int = 1000) -> None:
        self.skewness = skewness
        self.max_knots = max_knots
        self._check()

    def bends(self, X: ArrayLike) -> bool:
        """Whether there is a column to bend: without one this is a plain standardisation."""
        return any(self._sign(column) != 0.0 for column in self._rows(X).T)

    def _sign(self, column: Array) -> float:
        """Return the side of the long tail, -1 or 1; 0 for columns that stay as they are."""
        column = _near_one(column)
        deviations = column - column.mean()
        spread = deviations.std()
        if not spread > 1e-12 * np.abs(column).max():
            return 0.0
        skewness = float(np.mean((deviations / spread) ** 3))
        return float(np.sign(skewness)) if abs(skewness) > self.skewness else 0.0

    def _curve(self, column: Array, places: Array, share: Array) -> tuple[Array, Array]:
        sign, images = self._sign(column), places
        if sign != 0.0:
            least = (sign * places).min()
            unit = np.median(sign * column - least) or np.mean(sign * column - least)
            images = sign * np.log1p((sign * places - least) / unit)
        scores = _standardised(images, share)
        some = _evenly(images, self.max_knots if sign else 2)  # a straight line needs two
        return places[some], scores[some]


class OneHot(_ColumnLearner):
    """Columns of few integers as indicators, all other columns standardised.

    The order of class codes has no meaning; as indicators, all levels are equally far apart.
    Columns with two values, and constant columns, are unchanged.

    Parameters
    ----------
    max_levels : int, default=20
        Largest number of different integers in a column to encode.

    Raises
    ------
    ValueError
        If ``max_levels`` is below 3; on learning, if rows are not finite.

    Examples
    --------
    >>> from mercer.maps import OneHot
    >>> codes = OneHot().fit([[1.0, 0.1], [2.0, 0.3], [7.0, 0.2]])
    >>> codes([[7.0, 0.2]]).round(3) + 0.0
    array([[0.   , 0.   , 0.707, 0.   ]])
    """

    _parameters = parameters(max_levels=integer(low=3))

    def __init__(self, max_levels: int = 20) -> None:
        self.max_levels = max_levels
        self._check()

    def levels(self, X: ArrayLike) -> list[Array]:
        """Levels of each column that is to be split; none for the others.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows.
        """
        return self._levels(self._rows(X))

    def _levels(self, rows: Array) -> list[Array]:
        """Levels of each column of checked rows."""
        found = [np.unique(column) for column in rows.T]
        return [
            each
            if 2 < each.size <= self.max_levels and (each == np.round(each)).all()
            else np.empty(0)
            for each in found
        ]

    def fit(self, X: ArrayLike) -> Chain:
        """Return the map with the levels of rows; this object is not changed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows typical of those to come.
        """
        rows = self._rows(X)
        levels = self._levels(rows)
        split = Indicators(np.concatenate(levels), [each.size for each in levels])
        spread = rows.std(axis=0)
        shift, scale = [], []
        for j, each in enumerate(levels):
            # Two rows of different levels are then at distance 1.
            own = np.full(each.size, 0.5**0.5) if each.size else [1.0 / (spread[j] or 1.0)]
            scale += list(own)
            shift += [0.0] * each.size if each.size else [rows[:, j].mean()]
        return Chain(split, Affine(shift, scale))
