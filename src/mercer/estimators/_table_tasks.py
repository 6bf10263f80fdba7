"""What a model of tables can learn, and what is different for each of these tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.regressor import KernelRegressor

__all__ = ["TASKS", "TableTask", "task_of"]


class TableTask(NamedTuple):
    """A task.

    Attributes
    ----------
    name : str
        As ``mercer fit --task`` takes it.
    title : str
        For headings.
    words : str
        For messages.
    estimator : type
        Class of the estimators that do it.
    has_target : bool
        Whether learning needs a target.
    is_quantity : bool
        Whether what is predicted is a number, in units of its own.
    """

    name: str
    title: str
    words: str
    estimator: Any
    has_target: bool
    is_quantity: bool


TASKS = {
    task.name: task
    for task in (
        TableTask(
            "classification", "classification", "a classification", KernelClassifier, True, False
        ),
        TableTask("regression", "regression", "a regression", KernelRegressor, True, True),
        TableTask("novelty", "novelty", "novelty detection", NoveltyDetector, False, False),
        TableTask(
            "gp", "Gaussian process", "a Gaussian process", GaussianProcessRegressor, True, True
        ),
    )
}


def task_of(estimator: Any) -> TableTask:
    """Return the task that an estimator does.

    Raises
    ------
    ValueError
        If no model of tables can be made with it.

    Examples
    --------
    >>> task_of(NoveltyDetector()).name
    'novelty'
    """
    for task in TASKS.values():
        if type(estimator) is task.estimator:
            if not hasattr(estimator, "partial_fit"):
                raise ValueError(
                    f"{estimator!r} needs all rows at once, but a TableModel learns from a stream. "
                    "Use its method='features'."
                )
            return task
    names = ", ".join(task.estimator.__name__ for task in TASKS.values())
    raise ValueError(f"`estimator` must be one of {names}, got `{type(estimator).__name__}`.")
