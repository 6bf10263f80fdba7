"""What columns of many categories, or of text, tell of the target: means, learned out of fold.

A category with some thousand values would need as many inputs. The mean of the target in each of
them is one input. It is learned from the rows of the warm-up, so a row that is learned itself must
not see its own target in it: it gets the mean over the rows of the other folds. A row's fold is
drawn by what is in the row, so that it is the same whenever, and wherever, the row is read, and
equal rows are in the same fold.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.data.columns import Levels, Numbers, TableView
from mercer.data.keys import bits_of_labels, content_keys, mixed

__all__ = ["N_FOLDS", "CategoryMeans", "CategorySums", "TargetCodes", "array_text", "folds_of",
           "text_array"]  # fmt: skip

Floats = NDArray[np.float64]

N_FOLDS = 5
_MOST_CLASSES = 10  # beyond, means of each class would be too many inputs
_TRACKED_LEVELS = 4096
_LARGEST_SMOOTHING = 1e6
_TELLING = 3.0  # standard errors of the mean of a category
_ROUNDING = 1e-10  # of means of targets that are all alike


@dataclass(frozen=True)
class TargetCodes:
    """Targets as numbers whose means tell something.

    Parameters
    ----------
    labels : list or None
        Classes that have a number each, 1 in their rows and 0 in others; None for quantities.
    center, scale : float
        Of quantities, so that sums of squares do not cancel.

    Examples
    --------
    >>> TargetCodes.of(np.array(["b", "a", "b"])).codes(np.array(["a", "b", "?"])).ravel()
    array([0., 1., 0.])
    """

    labels: list[Any] | None
    center: float = 0.0
    scale: float = 1.0

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

    def to_state(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: dict[str, Any] | None) -> Self | None:
        """Inverse of :meth:`to_state`."""
        return None if state is None else cls(**state)


def folds_of(view: TableView) -> NDArray[np.int64]:
    """Draw the fold of each row by what is in it.

    Missing values count for nothing, so that rows stay in their folds where a column gets its first
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
    return (mixed(keys) % np.uint64(N_FOLDS)).astype(np.int64)


@dataclass
class CategorySums:
    """Rows and sums of target codes in each category of a column, by folds.

    Parameters
    ----------
    n_codes : int
        Numbers of each target.

    Attributes
    ----------
    sums : dict of str to ndarray of shape (5, 1 + n_codes)
        Rows of each fold, and sums over them; of 4,096 categories at most.
    overall : ndarray of shape (5, 1 + n_codes)
        Over all rows with a value.
    squares : ndarray of shape (n_codes,)
        Sums of squares of the codes.
    """

    n_codes: int
    sums: dict[str, Floats] = field(default_factory=dict)
    overall: Floats = field(default_factory=lambda: np.zeros(0))
    squares: Floats = field(default_factory=lambda: np.zeros(0))

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

    def to_state(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "n_codes": self.n_codes,
            "levels": list(self.sums),
            "sums": array_text(np.array([*self.sums.values()])),
            "overall": array_text(self.overall),
            "squares": array_text(self.squares),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; raises ``ValueError`` for anything inconsistent."""
        n, levels = state["n_codes"], state["levels"]
        sums = text_array(state["sums"], (len(levels), N_FOLDS, 1 + n))
        overall = text_array(state["overall"], (N_FOLDS, 1 + n))
        made = dict(zip(levels, sums, strict=True))
        return cls(n, made, overall, text_array(state["squares"], (n,)))


class CategoryMeans:
    """A fixed map from categories to means of the target, shrunken to that of all rows.

    A mean of n rows counts as much as the variances between and within categories say (empirical
    Bayes): (n m + a m0) / (n + a), a being their ratio and m0 the mean of all rows.

    Parameters
    ----------
    sums : CategorySums
        Of the rows of the warm-up.

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
        # Sums without each fold, and last those of all.
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
        """Categories in which the mean of the target is not that of all rows, by three errors."""
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
        means = totals / counts[:, None]
        between = counts @ (means - self._center) ** 2
        within = np.maximum(self.sums.squares - counts @ means**2, 0.0) / (n - n_levels)
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
            Folds of rows that are learned, whose own folds do not count.

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


def array_text(values: Floats) -> str:
    """Write an array of float64 as text."""
    return base64.b64encode(values.astype("<f8").tobytes()).decode()


def text_array(text: str, shape: Sequence[int]) -> Floats:
    """Read what :func:`array_text` wrote.

    Raises
    ------
    ValueError
        If it is of another shape, or not finite.
    """
    values = np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("sums of targets must be finite")
    return values.reshape(shape)
