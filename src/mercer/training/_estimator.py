"""The estimator of a training: made from its settings, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.estimators._table_tasks import TASKS
from mercer.losses import Loss

__all__ = ["count_classes", "make_estimator"]

_MOST_CLASSES = 1000


def make_estimator(
    task: str, loss: Loss | None, options: Mapping[str, Any], n_passes: int, seed: int
) -> Any:
    """Make an estimator that has learned nothing.

    Parameters
    ----------
    task : str
        Key of ``TASKS``.
    loss : Loss or None
        None is the default of the estimator.
    options : mapping
        Its further parameters.
    n_passes, seed : int
        Of the training.

    Raises
    ------
    ValueError
        For parameters that it does not have, or that do not go together.
    """
    kind = TASKS[task]
    chosen = dict(options) if loss is None else {**options, "loss": loss}
    accepted = kind.estimator().get_params(deep=False)
    for name in chosen:
        if name not in accepted:
            raise ValueError(f"`{name}` cannot be chosen for {kind.words}.")
    run = {"n_passes": n_passes, "random_state": seed}
    estimator = kind.estimator(
        **{name: value for name, value in run.items() if name in accepted}, **chosen
    )
    # What is wrong shall be known before hours of reading, not after.
    estimator._check_parameters()
    return estimator


def count_classes(labels: NDArray[Any], target: str | None) -> int:
    """Count the classes in the first rows.

    Raises
    ------
    ValueError
        If these are more than a model can tell apart.
    """
    classes = np.unique(labels)
    if classes.size > _MOST_CLASSES:
        raise ValueError(
            f"The target {target!r} has {classes.size:,} different values in the first "
            f"rows, such as {classes[0]!s} and {classes[1]!s}: more than the "
            f"{_MOST_CLASSES:,} classes that a model can tell apart. Choose another target, "
            "or regression if these are quantities."
        )
    return int(classes.size)
