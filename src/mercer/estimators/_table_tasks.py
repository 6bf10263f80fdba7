"""What a model of tables can learn, and what is different for each of these tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.novelty import NoveltyDetector
from mercer.estimators.ranker import KernelRanker
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
    targets : {"labels", "quantities", "any", "none"}
        What is learned: classes, numbers in units of their own, what can be put in order, or
        nothing.
    losses : {"classification", "regression"} or None
        Kind of losses to choose from; None for an objective of its own.
    """

    name: str
    title: str
    words: str
    estimator: Any
    targets: str
    losses: str | None

    @property
    def has_target(self) -> bool:
        """Whether learning needs a target."""
        return self.targets != "none"

    @property
    def is_quantity(self) -> bool:
        """Whether what is predicted is a number, in units of its own."""
        return self.targets == "quantities"


_CLASSES, _NUMBERS = "classification", "regression"

TASKS = {
    task.name: task
    for task in (
        TableTask(
            _CLASSES, _CLASSES, "a classification", KernelClassifier, "labels", losses=_CLASSES
        ),
        TableTask(
            _NUMBERS, _NUMBERS, "a regression", KernelRegressor, "quantities", losses=_NUMBERS
        ),
        TableTask("rank", "ranking", "a ranking", KernelRanker, "any", losses=_CLASSES),
        TableTask("novelty", "novelty", "novelty detection", NoveltyDetector, "none", losses=None),
        TableTask(
            "gp",
            "Gaussian process",
            "a Gaussian process",
            GaussianProcessRegressor,
            "quantities",
            losses=None,
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
                    "Use its method='features' or 'dictionary'."
                )
            return task
    names = ", ".join(task.estimator.__name__ for task in TASKS.values())
    raise ValueError(f"`estimator` must be one of {names}, got `{type(estimator).__name__}`.")
