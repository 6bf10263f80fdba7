"""Target encoding of columns with many categories, and of text: out-of-fold means of the target.

A category with some thousand values would need as many inputs. The mean of the target in each of
them is one input. It is learned from the rows of the warm-up, so a row that is learned itself must
not see its own target in it: it gets the mean over the rows of the other folds. A row's fold is
drawn by what is in the row, so that it is the same whenever, and wherever, the row is read, and
equal rows are in the same fold.

A row to predict gets the mean over all rows. If most rows repeat the contents of other rows, and
the contents predict the target better than the category does, a learned row would get another mean
when it comes again. In that case rows to predict also get the mean over the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.keys import bits_of_labels, content_keys, mixed
from mercer.columns.views import Levels, Numbers, TableView
from mercer.records import Encoded, Maybe, Named, Record, Recorded, Several
from mercer.validation import integer, positive, real

Floats = NDArray[np.float64]

N_FOLDS = 5
_MOST_CLASSES = 10  # with more, means of each class would be too many inputs
_TRACKED_LEVELS = 4096
_LARGEST_SMOOTHING = 1e6
_TELLING = 3.0  # standard errors of the mean of a category
_ROUNDING = 1e-10  # of means of constant targets
_CONTENTS = 1024  # contents whose repeats are counted
# Share of rows that repeat the contents of others, and ratio of their variance to the variance
# within a category, at which contents predict more than categories do.
_REPEATED, _ALIKE = 1 / 3, 0.8
# Numbers are codes if there are at least so many, each in so many rows on average, and the mean
# targets of neighbours differ: the median squared jump is this many times what it is by chance, and
# the mean one this share of what it is without any order. A number that is in more than this share
# of the rows is none of them.
_FEWEST_CODES, _ROWS_OF_CODE, _JUMPS, _DISORDER, _COMMON = 50, 3, 2.0, 0.5, 0.05
# Most columns of numbers of tables in which codes are looked for, and most rows that are looked at;
# among a few rows there must be some codes already.
_MOST_COLUMNS, _LOOKED_AT, _SOME = 256, 20_000, 500
# Two columns hang together if they have less than this share of the pairs that they have by chance,
# among some rows: so many, divided by the number of columns, but at least so many.
_BY_CHANCE, _CELLS, _FEWEST_COMPARED = 0.75, 400_000, 2000


def _label(name: str, value: Any) -> str | bool | int | float:
    if not isinstance(value, str | bool | int | float):
        raise ValueError(f"`{name}` must be text or a number, got {value!r}")
    return value


@dataclass(frozen=True)
class TargetCodes(Recorded):
    """Targets as numbers with meaningful means.

    Parameters
    ----------
    labels : list or None
        Classes that have a number each, 1 in their rows and 0 in others; None for quantities.
    center, scale : float
        Centre and scale of quantities, so that sums of squares do not cancel.

    Examples
    --------
    >>> TargetCodes.of(np.array(["b", "a", "b"])).codes(np.array(["a", "b", "?"])).ravel()
    array([0., 1., 0.])
    """

    labels: list[Any] | None
    center: float = 0.0
    scale: float = 1.0

    _record = Record(labels=Maybe(Several(_label, kind=list)), center=real(), scale=positive())

    @classmethod
    def of(cls, y: NDArray[Any]) -> Self | None:
        """Choose codes by the first targets; None if they are of too many classes, or all alike."""
        if y.ndim != 1 or not y.size:
            return None
        if y.dtype.kind == "f":
            scale = float(y.std())
            return cls(None, float(y.mean()), scale) if 0.0 < scale < np.inf else None
        labels = np.unique(y).tolist()
        if not 2 <= len(labels) <= _MOST_CLASSES:
            return None
        return cls(labels[1:] if len(labels) == 2 else labels)

    @property
    def n(self) -> int:
        """Numbers of each target."""
        return 1 if self.labels is None else len(self.labels)

    @property
    def names(self) -> list[str]:
        """What stands in names of inputs for each number."""
        one = self.labels is None or len(self.labels) == 1
        return [""] if one else [f"={label}" for label in self.labels or ()]

    def codes(self, y: NDArray[Any]) -> Floats:
        """Return numbers of targets, shape (n_rows, n)."""
        if self.labels is None:
            return ((y.astype(np.float64) - self.center) / self.scale)[:, None]
        return np.stack([y == label for label in self.labels], axis=1).astype(np.float64)


def are_codes(values: Floats, targets: Floats) -> bool:
    """Return whether whole numbers are names, such as those of shops: their order says little.

    Rows of the same number then have similar targets, those of neighbouring numbers have not. For
    the mean target m of a number, the jump is m less the mean of its two neighbours' m. By chance,
    and for a smooth function, its square has a mean of s² (1/n + (1/n' + 1/n'') / 4) for the
    variance s² of targets within a number, and the rows n, n', n'' of the three.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Numbers; NaN where there is none.
    targets : ndarray of shape (n_rows, n_targets)
        Targets of the rows as numbers.

    Examples
    --------
    >>> shops = np.arange(1200.0) % 60
    >>> are_codes(shops, shops[:, None] ** 2), are_codes(shops, (shops * 37 % 60)[:, None])
    (False, True)
    """
    if 2 * len(np.unique(values[:_SOME])) < _FEWEST_CODES:
        return False  # the usual case of flags and steps
    known = ~np.isnan(values)
    if not np.array_equal(values[known], np.rint(values[known])):
        return False
    _, places, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    rare = counts <= _COMMON * len(values)
    counts = counts[rare]
    if len(counts) < _FEWEST_CODES or counts.sum() < max(
        _ROWS_OF_CODE * len(counts), len(values) / 2
    ):
        return False
    rows = np.flatnonzero(known)[rare[places]]
    places = (np.cumsum(rare) - 1)[places[rare[places]]]
    inner, variances = counts[1:-1], 1.0 / counts
    chance = variances[1:-1] + (variances[:-2] + variances[2:]) / 4.0
    for one in targets[rows].T:
        means = np.bincount(places, one) / counts
        within = float(np.sum((one - means[places]) ** 2)) / (len(rows) - len(counts))
        jumps = (means[1:-1] - (means[:-2] + means[2:]) / 2.0) ** 2
        far = jumps > _JUMPS * within * chance
        disordered = inner @ jumps > _DISORDER * 1.5 * inner.sum() * means.var()
        if disordered and 2 * far.sum() > len(far) and 2 * (inner @ far) > inner.sum():
            return True
    return False


def _hang_together(a: NDArray[np.int64], b: NDArray[np.int64], rng: np.random.Generator) -> bool:
    """Whether two columns, as numbers of their values, have far fewer pairs than by chance."""
    n = int(b.max()) + 1
    pairs, by_chance = (len(np.unique(a * n + one)) for one in (b, rng.permutation(b)))
    return pairs < _BY_CHANCE * by_chance


def codes_among(
    numbers: Mapping[str, NDArray[Any]],
    columns: Callable[[], Mapping[str, NDArray[Any]]],
    y: NDArray[Any],
) -> set[str]:
    """Return the names of columns of numbers that are codes, see :func:`are_codes`.

    There are none where others hang together with them. Attributes of a shop tell of new shops as
    well. And where rows are of some hundred patients, a few have each age and weight: what looks
    like the effect of an age is theirs. So far fewer pairs of values are there than by chance.

    Parameters
    ----------
    numbers : mapping of str to ndarray of shape (n_rows,)
        All columns of numbers; hundreds are pixels or sensors, and not looked at.
    columns : callable
        Returns all columns, as numbers, also categories; called if there is something to compare.
    y : ndarray of shape (n_rows,)
        Targets: float64 for quantities, anything else for labels.
    """
    if len(numbers) > _MOST_COLUMNS or len(y) < _ROWS_OF_CODE * _FEWEST_CODES:
        return set()
    with np.errstate(over="ignore", invalid="ignore"):
        codes = TargetCodes.of(y)
    if codes is None:
        return set()
    rng, n = np.random.default_rng(0), len(y)
    some = rng.permutation(n) if n <= _LOOKED_AT else rng.choice(n, _LOOKED_AT, replace=False)
    with np.errstate(over="ignore", invalid="ignore"):
        targets = codes.codes(y[some])
        found = {
            name
            for name, values in numbers.items()
            if are_codes(values[some].astype(np.float64), targets)
        }
    if not found:
        return found
    every = columns()
    some = some[: max(_FEWEST_COMPARED, _CELLS // len(every))]
    places = {
        name: np.unique(values[some], return_inverse=True)[1] for name, values in every.items()
    }
    places = {name: values for name, values in places.items() if values.any()}
    return {
        name
        for name in sorted(found)
        if len(places) > 1  # else all rows of a code are in one fold
        and not any(
            _hang_together(places[name], values, rng)
            for other, values in places.items()
            if other != name
        )
    }


def contents_of(view: TableView) -> NDArray[np.uint64]:
    """Draw a key of each row by what is in it.

    Missing values are not part of the key, so that rows keep their keys if a column gets its first
    value only later.
    """
    keys = np.zeros(view.n_rows, dtype=np.uint64)
    for name in view.names:
        column = view.column(name)
        if isinstance(column, Numbers):
            values = column.values.astype(np.float64)
            known = ~np.isnan(values)
        else:
            # The code -1 of missing values picks the last entry.
            found = bits_of_labels([*column.levels, "\0"])[column.codes]
            values, known = (found >> np.uint64(11)).astype(np.float64), column.codes >= 0
        seed = int(bits_of_labels([name])[0])
        keys[known] += content_keys(seed, [values[known]])
    return mixed(keys)


def folds_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the folds of rows with these keys."""
    return (keys % np.uint64(N_FOLDS)).astype(np.int64)


@dataclass
class CategorySums(Recorded):
    """Rows and sums of target codes in each category of a column, by folds.

    Parameters
    ----------
    n_codes : int
        Numbers of each target.

    Attributes
    ----------
    sums : dict of str to ndarray of shape (5, 1 + n_codes)
        Rows in each fold and sums over them, for at most 4,096 categories.
    overall : ndarray of shape (5, 1 + n_codes)
        Over all rows with a value.
    squares : ndarray of shape (n_codes,)
        Sums of squares of the codes.
    """

    n_codes: int
    sums: dict[str, Floats] = field(default_factory=dict)
    overall: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))

    _record = Record(
        n_codes=integer(low=1),
        sums=Named(Encoded(N_FOLDS, "n_codes+1"), _TRACKED_LEVELS),
        overall=Encoded(N_FOLDS, "n_codes+1"),
        squares=Encoded("n_codes", low=0.0),
    )

    def __post_init__(self) -> None:
        if not self.overall.size:
            self.overall = np.zeros((N_FOLDS, 1 + self.n_codes))
            self.squares = np.zeros(self.n_codes)

    def update(self, column: Levels, folds: NDArray[np.int64], codes: Floats) -> None:
        """Add rows."""
        known = column.codes >= 0
        weights = np.column_stack([np.ones(len(codes)), codes])[known]
        places = column.codes[known] * N_FOLDS + folds[known]
        n = len(column.levels) * N_FOLDS
        totals = np.stack([np.bincount(places, w, minlength=n) for w in weights.T], axis=1)
        totals = totals.reshape(len(column.levels), N_FOLDS, weights.shape[1])
        present = np.flatnonzero(totals[:, :, 0].any(axis=1))
        sums = {column.levels[level]: totals[level] for level in present}
        squares = np.einsum("ij,ij->j", codes[known], codes[known])
        self.merge(CategorySums(self.n_codes, sums, totals.sum(axis=0), squares))

    def merge(self, other: CategorySums) -> None:
        """Add the rows of others."""
        for level, sums in other.sums.items():
            mine = self.sums.get(level)
            self.sums[level] = sums if mine is None else mine + sums
        self.overall = self.overall + other.overall
        self.squares = self.squares + other.squares
        if len(self.sums) > _TRACKED_LEVELS:
            by_count = sorted(self.sums, key=lambda level: (-self.sums[level][:, 0].sum(), level))
            self.sums = {level: self.sums[level] for level in by_count[:_TRACKED_LEVELS]}

    def within(self) -> Floats:
        """Variance of each code within categories; infinite where each has one row."""
        table = np.array([*self.sums.values()]).reshape(-1, N_FOLDS, 1 + self.n_codes).sum(axis=1)
        n = table[:, 0].sum()
        if n <= len(table):
            return np.full(self.n_codes, np.inf)
        between = (table[:, 1:] ** 2 / np.maximum(table[:, :1], 1.0)).sum(axis=0)
        return np.asarray(np.maximum(self.squares - between, 0.0) / (n - len(table)))


@dataclass
class Repeats(Recorded):
    """How often rows have the contents of others, and how much alike the targets of these are.

    Contents with the least keys are a sample of all, and the same for any order of the rows.

    Parameters
    ----------
    n_codes : int
        Numbers of each target.

    Attributes
    ----------
    keys : ndarray of shape (n_contents,) of uint64
        Keys of the sample, sorted; at most 1,024.
    sums : ndarray of shape (n_contents, 1 + 2 n_codes)
        Rows of each, and sums over them of codes and of squares of codes.

    Examples
    --------
    >>> repeats = Repeats(1)
    >>> keys = np.array([3, 5, 3], dtype=np.uint64)
    >>> repeats.update(keys, np.array([[1.0], [0.0], [1.0]]))
    >>> repeats.sums[:, 0]
    array([2., 1.])
    """

    n_codes: int
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    sums: Floats = field(default_factory=lambda: np.zeros(0))

    _record = Record(
        n_codes=integer(low=0),
        keys=Encoded("n_contents", dtype=np.uint64),
        sums=Encoded("n_contents", "2*n_codes+1"),
    )

    def __post_init__(self) -> None:
        self.sums = self.sums.reshape(len(self.keys), 1 + 2 * self.n_codes)

    def update(self, keys: NDArray[np.uint64], codes: Floats) -> None:
        """Add rows."""
        self._add(keys, np.column_stack([np.ones(len(codes)), codes, codes**2]))

    def merge(self, other: Repeats) -> None:
        """Add the rows of others."""
        self._add(other.keys, other.sums)

    def _add(self, keys: NDArray[np.uint64], sums: Floats) -> None:
        """Add sums of contents, which may come more than once, and keep the least keys."""
        kept, places = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        total = np.zeros((len(kept), 1 + 2 * self.n_codes))
        np.add.at(total, places, np.concatenate([self.sums, sums]))
        self.keys, self.sums = kept[:_CONTENTS], total[:_CONTENTS]

    def tell_more(self, sums: CategorySums) -> bool:
        """Whether most rows repeat contents that predict more than their categories."""
        n, totals, squares = np.split(self.sums, [1, 1 + self.n_codes], axis=1)
        again = n[:, 0] >= 2.0
        if n[again].sum() <= _REPEATED * n.sum():
            return False
        spread = np.maximum(squares[again] - totals[again] ** 2 / n[again], 0.0).sum()
        within = spread / (n[again] - 1.0).sum()
        return bool(within < _ALIKE * sums.within().sum())


class CategoryMeans:
    """A fixed map from categories to means of the target, shrunk towards the mean of all rows.

    The shrinkage is empirical Bayes: for a category with n rows and mean m the result is (n m + a
    m0) / (n + a), with a the ratio of the variances within and between categories, and m0 the mean
    of all rows.

    Parameters
    ----------
    sums : CategorySums
        Sums over the rows of the warm-up.

    References
    ----------
    Micci-Barreca, "A preprocessing scheme for high-cardinality categorical attributes in
    classification and prediction problems", SIGKDD Explorations 2001.

    Examples
    --------
    >>> sums = CategorySums(1)
    >>> column = Levels(np.arange(40) % 2, ["low", "high"])
    >>> sums.update(column, np.arange(40) // 2 % 5, (np.arange(40.0) % 2)[:, None])
    >>> means = CategoryMeans(sums)
    >>> means.transform(Levels(np.array([0, 1, -1]), ["low", "high"])).ravel().round(3)
    array([-1.,  1.,  0.])
    """

    def __init__(self, sums: CategorySums) -> None:
        self.sums = sums
        self._places = {level: place for place, level in enumerate(sums.sums)}
        table = np.array([*sums.sums.values()]).reshape(-1, N_FOLDS, 1 + sums.n_codes)
        # Sums without each fold, and last the sums of all folds.
        without = [table.sum(axis=1) - table[:, fold] for fold in range(N_FOLDS)]
        self._tables = np.stack([*without, table.sum(axis=1)])
        overall = sums.overall.sum(axis=0)
        self._n = max(overall[0], 1.0)
        rows = overall[0] - sums.overall[:, 0]
        others = (overall[1:] - sums.overall[:, 1:]) / np.maximum(rows, 1.0)[:, None]
        self._center = overall[1:] / self._n
        self._priors = np.vstack([others, self._center])
        self._smoothing = self._smoothed()
        values = self._means(np.full(len(table), N_FOLDS), np.arange(len(table)))
        counts = self._tables[-1, :, :1]
        spread = np.sqrt(np.sum(counts * values**2, axis=0) / self._n)
        self._scale = np.where(spread > _ROUNDING, spread, np.inf)
        self.varies = bool((spread > _ROUNDING).any())

    def telling(self) -> set[str]:
        """Categories whose mean target is three standard errors from the mean of all rows."""
        variances = np.maximum(self.sums.squares / self._n - self._center**2, _ROUNDING)
        counts, totals = self._tables[-1, :, :1], self._tables[-1, :, 1:]
        off = np.abs(totals - counts * self._center) / np.sqrt(counts * variances)
        tells = (off >= _TELLING).any(axis=1)
        return {level for level, place in self._places.items() if tells[place]}

    def _smoothed(self) -> Floats:
        """Ratio of the variances within and between categories."""
        counts, totals = self._tables[-1, :, 0], self._tables[-1, :, 1:]
        n, n_levels = counts.sum(), len(counts)
        if n <= n_levels or n_levels < 2:
            return np.full(self.sums.n_codes, _LARGEST_SMOOTHING)
        between = counts @ (totals / counts[:, None] - self._center) ** 2
        within = self.sums.within()
        spread = (between - (n_levels - 1) * within) / (n - (counts @ counts) / n)
        tiny = within / _LARGEST_SMOOTHING
        ratio = within / np.maximum(np.maximum(spread, tiny), np.finfo(float).tiny)
        # Above 0, so that a category without rows in other folds has the mean of all.
        return np.asarray(np.maximum(ratio, 1.0 / _LARGEST_SMOOTHING))

    def _means(self, folds: NDArray[np.int64], places: NDArray[np.int64]) -> Floats:
        """Shrunken means of some categories, less the mean of all rows."""
        table, prior = self._tables[folds, places], self._priors[folds]
        a = self._smoothing
        means: Floats = (table[:, 1:] + a * prior) / (table[:, :1] + a)
        return np.asarray(means - prior)

    def transform(self, column: Levels, folds: NDArray[np.int64] | None = None) -> Floats:
        """Map categories.

        Parameters
        ----------
        column : Levels
            A column; gaps and unknown categories become 0, the mean of all rows.
        folds : ndarray of shape (n_rows,) or None, default=None
            Folds of rows whose own folds do not count, such as those that are learned.

        Returns
        -------
        values : ndarray of shape (n_rows, n_codes)
            In standard deviations over the rows of the warm-up.
        """
        known = [self._places.get(level, -1) for level in column.levels]
        # The code -1 of missing values picks the last entry.
        places = np.array([*known, -1])[column.codes]
        values = np.zeros((len(places), self.sums.n_codes))
        found = np.flatnonzero(places >= 0)
        mine = np.full(len(found), N_FOLDS) if folds is None else folds[found]
        values[found] = self._means(mine, places[found]) / self._scale
        return values
