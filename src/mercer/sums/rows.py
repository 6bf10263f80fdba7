"""Rows with targets and weights, and class codes.

Class codes are the regression targets in classification: a row has +1 in the column of its class
and -1 in all others. For two classes there is one column, with +1 for the second class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss
from mercer.records import FLOATS, Maybe, Numbers, Part, Record, Recorded

Array = NDArray[np.float64]

# Largest inputs and targets, with finite fourth powers; and largest inputs in float32, with squares
# up to 3e38.
_LARGEST, _LARGEST_SINGLE = 1e60, 1e19
# Weights of which sums take logarithms, and squares times squares of targets.
_LEAST_WEIGHT, _HEAVIEST = 1e-200, 1e100


@dataclass(frozen=True, eq=False)
class Rows(Recorded):
    """Rows: inputs, targets, weights and groups.

    Methods may return rows that share arrays with this object; only :meth:`own` always copies.

    Attributes
    ----------
    X : ndarray of shape (n, n_features)
        Inputs, float32 or float64.
    targets : ndarray of shape (n, target_width)
        Numbers, or codes of classes.
    weights : ndarray of shape (n,)
        Weights, at least 0.
    groups : ndarray of shape (n,) of int64 or None, default=None
        Number of the group of each row, where some are only held out together; the rows of a group
        are neighbours.
    """

    X: Any
    targets: Array
    weights: Array
    groups: NDArray[np.int64] | None = field(default=None, kw_only=True)

    _record = Record(
        X=Numbers("n_rows", "n_features", dtype=FLOATS),
        targets=Numbers("n_rows", "n_targets"),
        weights=Numbers("n_rows", low=0.0),
        groups=Maybe(Numbers("n_rows", dtype=np.int64)),
    )

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Inputs, targets and weights."""
        return tuple(array for name, array in vars(self).items() if name != "groups")

    def equals(self, other: Self) -> bool:
        """Return whether inputs, targets and weights are the same, to the last bit."""
        return all(map(np.array_equal, self.arrays, other.arrays))

    def _each(self, change: Callable[[Any], Any]) -> Self:
        """Return rows with a function applied to each array."""
        arrays: Any = {n: a if a is None else change(a) for n, a in vars(self).items()}
        return type(self)(**arrays)

    def __getitem__(self, index: Any) -> Self:
        """Return the rows of a slice, a mask or numbers."""
        return self._each(lambda array: array[index])

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the arrays."""
        return sum(int(array.nbytes) for array in self.arrays)

    def own(self) -> Self:
        """Return a copy that keeps no other array alive."""
        # In C order as in files, so that products are the same to the last bit.
        return self._each(lambda array: np.array(array, order="C"))

    @property
    def ends(self) -> NDArray[np.int64]:
        """Starts of the groups, and the number of rows; without groups, each row is its own group.

        Examples
        --------
        >>> zeros, groups = np.zeros((4, 1)), np.array([7, 7, 2, 2])
        >>> rows = Rows(zeros, zeros, np.ones(4), groups=groups)
        >>> rows.ends.tolist(), rows.whole(3), rows.whole(1), rows.whole(1, least=1)
        ([0, 2, 4], 2, 0, 2)
        """
        if self.groups is None:
            return np.arange(len(self) + 1)
        starts = np.flatnonzero(np.diff(self.groups)) + 1
        return np.concatenate([[0], starts, [len(self)]]).astype(np.int64)

    def whole(self, at: int, least: int = 0) -> int:
        """Return the largest number of first rows, at most ``at``, whose end cuts no group.

        If it is below ``least``, the smallest number above ``at`` is returned; if that is all rows,
        ``at`` is, and the group is cut.
        """
        if self.groups is None or not 0 < at < len(self):
            return at
        ends = self.ends
        below = int(ends[np.searchsorted(ends, at, side="right") - 1])
        above = int(ends[np.searchsorted(ends, at, side="left")])
        if below >= least:
            return below
        return above if above < len(self) else at

    def map_targets(self, matrix: Array, offset: Array) -> Self:
        """Return rows with the targets y @ matrix + offset."""
        return replace(self, targets=self.targets @ matrix + offset)

    def discounted(self, forgetting: float) -> Self:
        """Return rows whose weights fall by ``forgetting`` for each row after them.

        Examples
        --------
        >>> rows = Rows(np.zeros((3, 1)), np.zeros((3, 1)), np.ones(3))
        >>> rows.discounted(0.5).weights
        array([0.25, 0.5 , 1.  ])
        """
        if forgetting == 1.0:
            return self
        factors = forgetting ** np.arange(len(self) - 1, -1, -1.0)
        return replace(self, weights=np.maximum(self.weights * factors, _LEAST_WEIGHT))

    def without_repeats(self) -> Self:
        """Merge rows with equal inputs: their weights are added, and their targets averaged.

        Examples
        --------
        >>> X, y = np.array([[1.0], [2.0], [1.0]]), np.array([[0.0], [5.0], [3.0]])
        >>> rows = Rows(X, y, np.ones(3))
        >>> rows.without_repeats().arrays
        (array([[1.],
               [2.]]), array([[1.5],
               [5. ]]), array([2., 1.]))
        """
        if _surely_differ(self.X):
            return self
        _, firsts, places = np.unique(self.X, axis=0, return_index=True, return_inverse=True)
        if firsts.size == len(self):
            return self
        order = np.argsort(firsts)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(order.size)
        places = ranks[places.ravel()]
        weights: Array = np.bincount(places, self.weights).astype(np.float64)
        share = self.weights / weights[places]
        targets = np.empty((order.size, self.targets.shape[1]))
        for column, values in enumerate(self.targets.T):
            targets[:, column] = np.bincount(places, share * values)
        return type(self)(self.X[firsts[order]], targets, weights)

    @classmethod
    def joined(cls, several: Sequence[Self]) -> Self:
        """Concatenate several rows in order; at least one."""
        if len(several) == 1:
            return several[0]
        columns: Any = zip(*(rows.arrays for rows in several), strict=True)
        groups = [rows.groups for rows in several if len(rows) and rows.groups is not None]
        joined: Self = cls(*map(np.concatenate, columns))
        return replace(joined, groups=np.concatenate(groups)) if groups else joined

    @classmethod
    def none(cls, n_features: int, n_outputs: int, dtype: Any) -> Self:
        """Return rows of length 0."""
        return cls(np.empty((0, n_features), dtype), np.empty((0, n_outputs)), np.empty(0))


def distinct_rows(X: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the numbers of rows that differ from all earlier rows.

    Examples
    --------
    >>> distinct_rows(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]]))
    array([0, 1])
    """
    # Adding 0 turns -0 into 0, so that equal rows have equal bytes.
    whole = np.ascontiguousarray(X + 0.0)
    if _surely_differ(whole):
        return np.arange(len(X))
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    firsts = np.unique(keys, return_index=True)[1]
    return np.asarray(np.sort(firsts), dtype=np.int64)


def _surely_differ(X: NDArray[np.floating[Any]]) -> bool:
    """Whether all rows differ; rarely it is False although they do."""
    # Equal rows have equal sums, and sorting sums is quicker than sorting rows.
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (X * np.sqrt(np.arange(2, X.shape[1] + 2), dtype=X.dtype)).sum(axis=1)
    sums.sort()
    return bool((sums[1:] > sums[:-1]).all())


class RevisitableRows(Protocol):
    """Rows that can be read repeatedly, wherever they are stored; :class:`Rows` is one kind."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: NDArray[np.int64], /) -> Rows: ...


@dataclass(frozen=True)
class RowsByNumber:
    """Rows that are created on request: a :class:`RevisitableRows`.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    take : callable
        Maps row numbers to :class:`Rows`.
    """

    n_rows: int
    take: Callable[[NDArray[np.int64]], Rows]

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, numbers: NDArray[np.int64], /) -> Rows:
        return self.take(numbers)


class Blocks(Part):
    """Several blocks of rows, which are stored as one, or as None if there are none.

    Parameters
    ----------
    *shared : str
        Dimensions of the rows, as of ``mercer.records.Part``.
    """

    def __init__(self, *shared: str) -> None:
        super().__init__(Rows, *shared)

    def written(self, value: Any) -> Any:
        return Rows.joined(value).to_state() if value else None

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> list[Rows]:
        blocks = [] if value is None else [super().read(name, value, sizes)]
        return [block for block in blocks if len(block)]


def rows_at_once(n_columns: int, most: int = 131_072, most_bytes: int = 2**26) -> int:
    """Return the number of rows to read at a time: at most ``most``, within ``most_bytes``."""
    return int(max(1024, min(most, most_bytes // (8 * max(n_columns, 1)))))


def check_sizes(X: Any, targets: Array, weights: Array | None = None) -> None:
    """Raise ValueError for numbers whose squares would overflow, and name their column or row.

    Other large numbers are fine: nanoseconds since 1970, for example, are centred before they are
    squared. Inputs and weights may be None.

    Examples
    --------
    >>> check_sizes(None, np.zeros((2, 1)), np.array([1.0, 1e300]))
    Traceback (most recent call last):
        ...
    ValueError: Row 1 has the weight 1e+300, but in sums over rows weights may be at most 1e+100...
    """
    if weights is not None and not (heaviest := float(weights.max(initial=0.0))) <= _HEAVIEST:
        raise ValueError(
            f"Row {int(np.argmax(weights))} has the weight {heaviest:g}, but in sums over rows "
            f"weights may be at most {_HEAVIEST:g}, so that these do not overflow. Divide all "
            "weights by one number, such as their mean."
        )
    for name, array in (("inputs", X), ("targets", targets)):
        if array is None:
            continue
        values = array if isinstance(array, np.ndarray) else array.data
        most = _LARGEST_SINGLE if values.dtype == np.float32 else _LARGEST
        # fmax and fmin ignore NaN (missing values), so it hides no large number.
        most_positive = float(np.fmax.reduce(values, axis=None, initial=0.0))
        largest = max(most_positive, -float(np.fmin.reduce(values, axis=None, initial=0.0)))
        if largest > most:
            at = int(np.nanargmax(np.abs(values)))
            column = at % array.shape[-1] if isinstance(array, np.ndarray) else array.indices[at]
            where = f" in column {column} (the first is column 0)" if array.shape[-1] > 1 else ""
            wide = ", give float64," if values.dtype == np.float32 else ","
            raise ValueError(
                f"The {name} reach {largest:.3g}{where}: sums of squares of such numbers overflow. "
                f"Divide the {'column' if where else name} by a power of ten{wide} or drop such "
                "rows."
            )


# -- class codes -----------------------------------------------------------------------------------


def codes_of_targets(loss: Loss, targets: Array, n_columns: int) -> Array:
    """Return numbers, or class codes, from targets as a loss encodes them.

    Parameters
    ----------
    loss : Loss
        The loss.
    targets : ndarray of shape (n, target_width)
        Targets as the loss encodes them: already codes, except for multiclass losses.
    n_columns : int
        Number of columns of the codes.

    Examples
    --------
    >>> from mercer.losses import Softmax
    >>> codes_of_targets(Softmax(), np.array([[2.0], [0.0]]), 3)
    array([[-1., -1.,  1.],
           [ 1., -1., -1.]])
    """
    if not loss.multiclass:
        return targets
    codes = np.full((len(targets), n_columns), -1.0)
    codes[np.arange(len(targets)), targets[:, 0].astype(np.int64)] = 1.0
    return codes


def coded_rows(
    loss: Loss, X: Any, targets: Array, weights: Array, n_columns: int, dtype: Any
) -> Rows:
    """Return dense rows with numbers or class codes as targets.

    Parameters
    ----------
    loss, targets, n_columns
        See :func:`codes_of_targets`.
    X : ndarray or CSR matrix of shape (n, n_features)
        Inputs.
    weights : ndarray of shape (n,)
        Weights.
    dtype : dtype
        Type of the dense inputs.
    """
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    codes = codes_of_targets(loss, targets, n_columns)
    return Rows(dense.astype(dtype, copy=False), codes, weights)


def targets_of_codes(loss: Loss, codes: Array) -> Array:
    """Return targets as the loss encodes them, from class codes -1 and +1 or numbers."""
    if loss.multiclass:
        numbers: Array = np.argmax(codes, axis=1).astype(np.float64)
        return numbers[:, np.newaxis]
    return codes


def labels_of_codes(codes: Array) -> NDArray[np.int64]:
    """Return class numbers from codes -1 and +1; two classes have one column."""
    if codes.shape[1] == 1:
        return (codes[:, 0] > 0).astype(np.int64)
    return np.asarray(codes.argmax(axis=1))


def class_numbers(targets: Array, loss: Loss) -> NDArray[np.int64]:
    """Return class numbers, (n,), from the targets of a classification loss.

    Parameters
    ----------
    targets : ndarray of shape (n, target_width)
        Targets as the loss encodes them.
    loss : Loss
        The loss.
    """
    return targets[:, 0].astype(np.int64) if loss.multiclass else loss.decide(targets)


def relabelled(
    targets: Array, places: NDArray[np.int64], old_loss: Loss, new_loss: Loss, n_scores: int
) -> Array:
    """Re-encode class targets after the set of classes has changed.

    Parameters
    ----------
    targets : ndarray of shape (n, target_width)
        Targets as the old loss encoded them.
    places : ndarray of shape (n_old,)
        Position of each old class among the new classes.
    old_loss, new_loss : Loss
        Loss before and after.
    n_scores : int
        Number of scores of the new loss.
    """
    return new_loss.encode(places[class_numbers(targets, old_loss)], max(n_scores, 2))


def shift_of_codes(
    places: NDArray[np.int64], n_old: int, n_new: int, *, lone: bool = False
) -> tuple[Array, NDArray[np.float64]]:
    """Return the matrix and offset that map codes of old classes to codes of new classes.

    Parameters
    ----------
    places : ndarray of shape (n_old,)
        Position of each old class among the new classes.
    n_old, n_new : int
        Number of columns of the codes.
    lone : bool, default=False
        Whether a single old column is +1 for the only class, as if each class had a column. If
        False, it is +1 for the second of two classes.

    Examples
    --------
    >>> mixing, offset = shift_of_codes(np.array([0, 2]), 1, 3)
    >>> np.array([[-1.0], [1.0]]) @ mixing + offset
    array([[ 1., -1., -1.],
           [-1., -1.,  1.]])
    """
    if n_new == 1:
        return np.array([[1.0 if places[0] == 0 else -1.0]]), np.zeros(1)
    one_hot: Any = np.zeros((places.size, n_new))
    one_hot[np.arange(places.size), places] = 1.0
    if n_old > 1 or lone:
        return one_hot, one_hot.sum(axis=0) - 1.0
    second = one_hot[1] if places.size > 1 else np.zeros(n_new)
    return (second - one_hot[0])[np.newaxis], one_hot[0] + second - 1.0


class _Classified(Protocol):
    """Sums over rows whose targets are class codes."""

    @property
    def n_targets(self) -> int: ...

    def emptied(self) -> Self: ...
    def merge(self, other: Any, /) -> None: ...
    def map_targets(self, mixing: Array, offset: Array, /) -> None: ...


_Sums = TypeVar("_Sums", bound=_Classified)


def merge_classes(
    mine: _Sums, classes: NDArray[Any], other: _Sums, other_classes: NDArray[Any]
) -> tuple[_Sums, NDArray[Any]]:
    """Merge sums over rows whose classes may differ.

    Parameters
    ----------
    mine, other : BasisPart or CellsPart
        Parts with class codes as targets; both stay unchanged.
    classes, other_classes : ndarray
        Sorted labels of the classes of each part.

    Returns
    -------
    merged : object
        Part of the same kind over the rows of both, with codes of all classes.
    union : ndarray
        Sorted labels of all classes.

    Raises
    ------
    ValueError
        If ``mine.merge(other)`` does.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import BasisPart, KernelBasis, Rows
    >>> basis = KernelBasis(Linear(), np.array([[1.0]]))
    >>> parts = [BasisPart(basis, 1) for _ in range(2)]
    >>> for part in parts:
    ...     part.learn(Rows(np.array([[1.0], [2.0]]), np.array([[-1.0], [1.0]]), np.ones(2)))
    >>> cats, dogs = np.array(["cat", "lynx"]), np.array(["cat", "wolf"])
    >>> merged, union = merge_classes(parts[0], cats, parts[1], dogs)
    >>> union.tolist(), merged.statistics.target_sums.tolist()
    (['cat', 'lynx', 'wolf'], [0.0, -2.0, -2.0])
    """
    union = np.union1d(classes, other_classes)
    n_new = union.size if union.size > 2 else max(mine.n_targets, other.n_targets)
    mapped = []
    for sums, own in ((mine, classes), (other, other_classes)):
        copied = sums.emptied()
        copied.merge(sums)
        if own.size < union.size or copied.n_targets != n_new:
            places = np.searchsorted(union, own)
            copied.map_targets(*shift_of_codes(places, copied.n_targets, n_new))
        mapped.append(copied)
    mapped[0].merge(mapped[1])
    return mapped[0], union
