"""The three families of losses: what they make of targets, and of scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._validation import check_integer
from mercer.losses._base import Array, Loss, Task

__all__ = ["MarginLoss", "MulticlassLoss", "RegressionLoss", "as_scores"]


class RegressionLoss(Loss):
    """Family of losses of real targets; one score per target unless a loss says otherwise.

    Examples
    --------
    >>> from mercer.losses import Huber
    >>> Huber().encode([1.0, 2.0])
    array([[1.],
           [2.]])
    """

    task: ClassVar[Task] = "regression"

    def n_scores(self, n_targets_or_classes: int) -> int:
        """One score per target."""
        return n_targets_or_classes

    def target_width(self, n_scores: int) -> int:
        """One target per score."""
        return n_scores

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Return the targets as float64 of shape (n_samples, n_targets)."""
        targets = np.array(labels, dtype=np.float64, order="C", ndmin=1)
        targets = targets.reshape(-1, 1) if targets.ndim == 1 else targets
        self._check_targets(targets, self.n_scores(targets.shape[1]))
        return targets

    def predict(self, scores: ArrayLike) -> Array:
        """Return the scores themselves: they are in units of the target."""
        return np.array(scores, dtype=np.float64)

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        if not np.isfinite(targets).all():
            raise ValueError(
                "`y` contains NaN or infinity, which no loss can follow. Remove these rows, or "
                "impute their targets."
            )


def _class_numbers(labels: ArrayLike, n_classes: int | None) -> NDArray[np.int64]:
    """Return labels as class numbers, checked against their range."""
    n_classes = check_integer(
        "n_classes", n_classes, low=1, why="It sets the number of columns of the targets."
    )
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            f"`labels` must be a 1-D array of integers, got shape {numbers.shape} and dtype "
            f"{numbers.dtype}. Number the classes, for example by "
            "numpy.unique(labels, return_inverse=True)."
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_classes):
        raise ValueError(
            f"`labels` must lie between 0 and n_classes - 1 = {n_classes - 1}, got values from "
            f"{numbers.min()} to {numbers.max()}. Number the classes from 0."
        )
    return numbers.astype(np.int64)


def as_scores(scores: ArrayLike) -> Array:
    """Return scores as a matrix, or raise ``ValueError``."""
    F = np.asarray(scores, dtype=np.float64)
    if F.ndim != 2 or F.shape[1] == 0:
        raise ValueError(
            f"`scores` must have shape (n_samples, n_scores), got {F.shape}. Reshape the scores "
            "of a binary problem to one column."
        )
    return F


class MarginLoss(Loss):
    """Family of losses of the margin y f, with labels y of -1 and +1.

    Up to two classes share one score, positive for class 1. More classes have one score each,
    every one of them against the rest, on a shared dictionary.

    Examples
    --------
    >>> from mercer.losses import Hinge
    >>> Hinge().encode([0, 1], n_classes=2)
    array([[-1.],
           [ 1.]])
    >>> Hinge().encode([0, 2], n_classes=3)
    array([[ 1., -1., -1.],
           [-1., -1.,  1.]])
    """

    task: ClassVar[Task] = "classification"

    def n_scores(self, n_targets_or_classes: int) -> int:
        """One score for up to two classes, else one per class."""
        return n_targets_or_classes if n_targets_or_classes > 2 else 1

    def target_width(self, n_scores: int) -> int:
        """One label of -1 or +1 per score."""
        return n_scores

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Turn class numbers into labels -1 and +1 of shape (n_samples, n_scores)."""
        numbers = _class_numbers(labels, n_classes)
        columns = np.arange(n_classes) if n_classes and n_classes > 2 else np.array([1])
        return np.where(numbers[:, None] == columns, 1.0, -1.0)

    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the class with the largest score, for one score class 1 where it is positive."""
        F = as_scores(scores)
        decided: NDArray[np.int64]
        decided = np.asarray(F[:, 0] > 0 if F.shape[1] == 1 else F.argmax(axis=1), np.int64)
        return decided

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        wrong = np.abs(targets) != 1.0
        if wrong.any():
            raise ValueError(
                f"`y` contains {targets[wrong][0]:g}, but {type(self).__name__} needs labels -1 "
                "and +1. Use `encode` to turn class numbers into labels."
            )


class MulticlassLoss(Loss):
    """Family of losses that compare the scores of all classes; the target is the class number.

    Examples
    --------
    >>> from mercer.losses import Softmax
    >>> Softmax().encode([0, 2], n_classes=3)
    array([[0.],
           [2.]])
    """

    task: ClassVar[Task] = "classification"
    multiclass: ClassVar[bool] = True

    def n_scores(self, n_targets_or_classes: int) -> int:
        """One score per class."""
        return n_targets_or_classes

    def target_width(self, n_scores: int) -> int:
        """One class number."""
        return 1

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Return the class numbers as float64 of shape (n_samples, 1)."""
        return _class_numbers(labels, n_classes).astype(np.float64)[:, None]

    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the class with the largest score."""
        decided: NDArray[np.int64] = as_scores(scores).argmax(axis=1).astype(np.int64)
        return decided

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        wrong = ~((targets >= 0) & (targets < n_scores) & (targets == np.floor(targets)))
        if wrong.any():
            raise ValueError(
                f"`y` contains {targets[wrong][0]:g}, but {type(self).__name__} with {n_scores} "
                f"columns of scores needs class numbers 0 to {n_scores - 1}. Number the classes "
                "from 0 and give one score per class."
            )
