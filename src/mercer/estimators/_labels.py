"""Arithmetic on class labels: scores of grown sets of classes, types, frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from mercer.losses import Loss

__all__ = ["check_class_weight", "check_labels", "check_same_type", "class_mixing", "count_so_far"]

Array = NDArray[np.float64]


def class_mixing(old_loss: Loss, new_loss: Loss, places: NDArray[np.intp], n_classes: int) -> Array:
    """Return the matrix that turns the scores of the old classes into scores of all classes.

    Parameters
    ----------
    old_loss, new_loss : Loss
        Before and after.
    places : ndarray of shape (n_old,)
        Where the old classes are among all.
    n_classes : int
        Number of all classes.

    Returns
    -------
    mixing : ndarray of shape (n_old_scores, n_new_scores)

    Examples
    --------
    >>> from mercer.losses import Logistic, Softmax
    >>> class_mixing(Logistic(), Softmax(), np.array([0, 2]), 3)
    array([[-0.5,  0. ,  0.5]])
    """
    n_old = places.size
    new = np.setdiff1d(np.arange(n_classes), places)
    mixing = np.zeros((old_loss.n_scores(n_old), new_loss.n_scores(n_classes)))
    if old_loss.n_scores(n_old) == n_old and not (n_old == 1 and not old_loss.multiclass):
        mixing[np.arange(n_old), places] = 1.0
        if not old_loss.multiclass:
            # One against the rest, all may be negative: 0 would beat them, their mean does not.
            mixing[:, new] = 1.0 / n_old
        return mixing
    # One score speaks for the second class and against the first; a lone class is a first.
    if mixing.shape[1] == 1:
        mixing[0, 0] = 1.0 if places[0] == 0 else -1.0
        return mixing
    # softmax of (-f/2, f/2) is the logistic of f.
    half = 0.5 if new_loss.multiclass else 1.0
    mixing[0, places[0]] = -half
    if n_old == 2:
        mixing[0, places[1]] = half
    return mixing


def check_labels(labels: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array, or say that they are quantities.

    Raises
    ------
    ValueError
        For numbers that are not whole, and for what is neither number, text nor boolean.
    """
    array = np.asarray(labels)
    try:
        check_classification_targets(array)
    except ValueError as error:
        what, _, _ = str(error).partition(". Maybe")
        if not what.startswith("Unknown label type") or not array.size:
            raise
        raise ValueError(
            f"{what}. {name} holds {array.ravel()[:1].tolist()[0]!r}, for example: a classifier "
            "needs classes, which are whole numbers, text or booleans. For quantities use "
            "KernelRegressor; else turn them into classes."
        ) from None
    return array


def check_same_type(labels: NDArray[Any], known: NDArray[Any], name: str, *, of: str = "y") -> None:
    """Raise ``ValueError`` if one is text and the other numbers: NumPy would compare '1' with 1."""
    kinds = {labels.dtype.kind, known.dtype.kind}
    if kinds & {"U", "S"} and kinds & {"b", "i", "u", "f"}:
        raise ValueError(
            f"{of} has labels such as {labels.tolist()[:1]}, of another type than {name} "
            f"({known[:3].tolist()}): text and numbers cannot be mixed. Convert the labels."
        )


def check_class_weight(weights: dict[Any, Any], classes: NDArray[Any], *, complete: bool) -> None:
    """Raise ``ValueError`` if some weights are of labels that there are none of.

    Parameters
    ----------
    weights : dict from label to weight
        As the user gave them.
    classes : ndarray of shape (n_classes,)
        Labels known so far.
    complete : bool
        Whether these are all. As in scikit-learn, labels without rows are no error then if each
        class has its weight: the rows may be a part of the data.
    """
    for label in weights:
        check_same_type(np.asarray([label]), classes, "those of the rows", of="`class_weight`")
    known = set(classes.tolist())
    unknown = [label for label in weights if label not in known]
    without = [label for label in classes.tolist() if label not in weights]
    if complete and unknown and without:
        raise ValueError(
            f"`class_weight` has weights for {unknown[:5]!r}, which are no classes of y, and none "
            f"for {without[:5]!r}, which are. Its keys must be the labels themselves."
        )


def count_so_far(positions: NDArray[np.intp]) -> Array:
    """How often each row's class has occurred up to and with that row.

    Examples
    --------
    >>> count_so_far(np.array([1, 0, 1, 1]))
    array([1., 1., 2., 3.])
    """
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, ordered.size])
    counts = np.empty(positions.size)
    counts[order] = np.arange(1, positions.size + 1) - np.repeat(starts, lengths)
    return counts
