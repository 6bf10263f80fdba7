"""Rows of a training once more: steps on the loss visit them again, in an order of their own."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.default import DefaultLearner
from mercer.estimators.asking import encoded_targets

__all__ = ["finish", "offer"]

# Rows are laid down on the disk to be visited again, up to so many bytes.
_MOST_BYTES = 2**33


def offer(estimator: Any, n_rows: int | None) -> bool:
    """Tell a sum of parts, before it is laid out, that its rows can be visited again.

    Parameters
    ----------
    estimator : estimator
        The one that is trained; nothing happens to others than a classifier with the default
        expansion. Balanced classes are weighted as they come, which a second reading cannot repeat.
    n_rows : int or None
        Rows of the training, if known.

    Returns
    -------
    offered : bool
    """
    learner = getattr(estimator, "learner_", None)
    balanced = getattr(estimator, "class_weight", None) is not None
    if not isinstance(learner, DefaultLearner) or balanced:
        return False
    function = learner.function
    row_bytes = function.n_features * function.dtype.itemsize
    promised, few = learner.revisits, n_rows is None or n_rows * row_bytes <= _MOST_BYTES
    learner.revisits = learner.loss.task == "classification" and few
    if promised and not few:
        most = f"{n_rows:,} rows of {row_bytes:,} bytes are more than {_MOST_BYTES / 2**30:.3g} GiB"
        _warn(f"{most} that would be laid down for it")
    return learner.revisits


def _warn(why: str) -> None:
    warnings.warn(
        f"Newton steps on the loss are left out: {why}. The model is that of least squares on "
        "labels; a file of fewer rows, or Python and `fit`, has the steps.",
        stacklevel=3,
    )


def finish(estimator: Any, chunks: Iterable[Any], n_rows: int, folder: Path) -> bool:
    """Say that all rows came, and let steps on the loss follow where they help.

    Parameters
    ----------
    estimator : estimator
        After its last row.
    chunks : iterable of (X, y, group)
        All its rows, in the order in which they were learned; drawn only if they are asked for.
    n_rows : int
        How many they are.
    folder : Path
        Where to lay them down meanwhile.

    Returns
    -------
    finished : bool
        False if the rows cannot be visited again, so that the model is to be finished without.
    """
    learner: Any = getattr(estimator, "learner_", None)
    if not offer(estimator, n_rows) or not learner.is_decided:
        return False
    n_features, dtype = learner.function.n_features, learner.function.dtype
    needed = 2 * n_rows * n_features * dtype.itemsize
    if shutil.disk_usage(folder).free < needed:
        _warn(f"{folder} has no {needed / 2**30:.3g} GiB of room")
        return False
    laid: list[NDArray[Any]] = []

    def take(numbers: NDArray[np.int64]) -> tuple[Any, Any, Any]:
        if not laid:
            laid.append(np.memmap(file, dtype, "w+", shape=(n_rows, n_features)))
            labels, at = [], 0
            for X, y, _ in chunks:
                laid[0][at : at + len(y)] = X
                labels.append(y)
                at += len(y)
            laid.append(encoded_targets(estimator, np.concatenate(labels)))
        inputs, targets = laid
        return inputs[numbers], targets[numbers], np.ones(len(numbers))

    with tempfile.TemporaryFile(dir=folder) as file:
        learner.finish(take)
    return True
