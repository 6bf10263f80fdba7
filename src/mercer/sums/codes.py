"""Class codes -1 and +1: what regressions have for targets where there are classes.

A row has +1 in the column of its class; for two classes there is one column, +1 for the second.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss

__all__ = [
    "class_numbers",
    "codes_of_targets",
    "labels_of_codes",
    "merge_classes",
    "relabelled",
    "shift_of_codes",
    "targets_of_codes",
]

Array = NDArray[np.float64]


def codes_of_targets(loss: Loss, targets: Array, n_columns: int) -> Array:
    """Numbers, or class codes, from targets as a loss encodes them.

    Parameters
    ----------
    loss : Loss
        The loss.
    targets : ndarray of shape (n, target_width)
        As it encodes them: codes already, but for losses over all classes at once.
    n_columns : int
        Columns of the codes.

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


def targets_of_codes(loss: Loss, codes: Array) -> Array:
    """Targets as the loss reads them, from class codes -1 and +1 or numbers."""
    if loss.multiclass:
        numbers: Array = np.argmax(codes, axis=1).astype(np.float64)
        return numbers[:, np.newaxis]
    return codes


def labels_of_codes(codes: Array) -> NDArray[np.int64]:
    """Class numbers of codes -1 and +1, one column for two classes."""
    if codes.shape[1] == 1:
        return (codes[:, 0] > 0).astype(np.int64)
    return np.asarray(codes.argmax(axis=1))


def class_numbers(targets: Array, loss: Loss) -> NDArray[np.int64]:
    """Class numbers of the targets of a classification loss, shape (n,).

    Parameters
    ----------
    targets : ndarray of shape (n, target_width)
        As the loss encodes them.
    loss : Loss
        The loss.
    """
    return targets[:, 0].astype(np.int64) if loss.multiclass else loss.decide(targets)


def relabelled(
    targets: Array, places: NDArray[np.int64], old_loss: Loss, new_loss: Loss, n_scores: int
) -> Array:
    """Encode the targets of classes anew.

    Parameters
    ----------
    targets : ndarray of shape (n, target_width)
        As the old loss encoded them.
    places : ndarray of shape (n_old,)
        Where the old classes are among the new ones.
    old_loss, new_loss : Loss
        Before and after.
    n_scores : int
        Of the new loss.
    """
    return new_loss.encode(places[class_numbers(targets, old_loss)], max(n_scores, 2))


def shift_of_codes(
    places: NDArray[np.int64], n_old: int, n_new: int, *, lone: bool = False
) -> tuple[Array, NDArray[np.float64]]:
    """Matrix and offset that turn labels -1, +1 of the old classes into those of the new ones.

    Parameters
    ----------
    places : ndarray of shape (n_old,)
        Where the old classes are among the new ones.
    n_old, n_new : int
        Columns of the labels.
    lone : bool, default=False
        Whether a single column is +1 for a lone class, as where there is one for each class,
        instead of for the second one.

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
    """Merge sums over rows of classes that need not be the same.

    Parameters
    ----------
    mine, other : RidgeStream, GlobalPart or CellsPart
        With class codes for targets; both stay as they are.
    classes, other_classes : ndarray
        Labels of the classes of each, sorted.

    Returns
    -------
    merged : object
        Of the same kind, over the rows of both, with the codes of all classes.
    union : ndarray
        Labels of all classes, sorted.

    Raises
    ------
    ValueError
        As by ``mine.merge(other)``.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import KernelBasis, RidgeStream, Rows
    >>> basis = KernelBasis(Linear(), np.array([[1.0]]))
    >>> streams = [RidgeStream(basis, 1, [0.1]) for _ in range(2)]
    >>> for stream in streams:
    ...     stream.add(Rows(np.array([[1.0], [2.0]]), np.array([[-1.0], [1.0]]), np.ones(2)))
    >>> cats, dogs = np.array(["cat", "lynx"]), np.array(["cat", "wolf"])
    >>> merged, union = merge_classes(streams[0], cats, streams[1], dogs)
    >>> union.tolist(), merged.sums().target_sums.tolist()
    (['cat', 'lynx', 'wolf'], [0.0, -2.0, -2.0])
    """
    union = np.union1d(classes, other_classes)
    n_new = union.size if union.size > 2 else max(mine.n_targets, other.n_targets)
    mapped = []
    for sums, own in ((mine, classes), (other, other_classes)):
        twin = sums.emptied()
        twin.merge(sums)
        if own.size < union.size or twin.n_targets != n_new:
            places = np.searchsorted(union, own)
            twin.map_targets(*shift_of_codes(places, twin.n_targets, n_new))
        mapped.append(twin)
    mapped[0].merge(mapped[1])
    return mapped[0], union
