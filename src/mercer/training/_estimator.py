"""The estimator of a training: made from its settings, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.data._views import Numbers, view_table
from mercer.estimators._table_tasks import TASKS
from mercer.expansions import Auto
from mercer.losses import Loss
from mercer.training._plan import expansion_of

__all__ = ["check_marks", "check_two_classes", "first_classes", "make_estimator"]

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
    if isinstance(expansion_of(estimator), Auto):
        _check_sums(estimator, kind.words, options)
        if estimator.expansion == "auto":
            estimator.set_params(expansion=Auto(seed=seed))
    return estimator


def _check_sums(estimator: Any, words: str, options: Mapping[str, Any]) -> None:
    """Refuse what does not go together with parts that learn by sums."""
    if isinstance(estimator.expansion, Auto):
        by_itself = estimator.__class__(**estimator.get_params(deep=False))
        by_itself.set_params(expansion="auto")
        if not isinstance(expansion_of(by_itself), Auto):
            given = [
                f"{name}={estimator.get_params()[name]!r}"
                for name in ("loss", "risk", "step_size")
                if name in options
            ]
            raise ValueError(
                f"`expansion={estimator.expansion!r}` learns by sums over rows, which gives the "
                "mean of a loss, of classes or squared, without steps; got "
                f"{' and '.join([words, *given])}. Leave out the options of this expansion, or "
                "what it cannot do."
            )
    if options.get("regularization", "auto") != "auto":
        raise ValueError(
            "`regularization` is of learning by steps, but the default expansion sums over rows, "
            "and chooses ridges on rows that it has not learned. Leave it out, or choose another "
            "expansion, such as komp."
        )
    estimator._check_settings(anew=True)


def first_classes(labels: NDArray[Any], target: str | None) -> list[Any]:
    """Return the classes in the first rows.

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
    return list(classes.tolist())


def check_two_classes(classes: NDArray[Any], target: str | None, n_rows: int) -> None:
    """Raise ``ValueError`` if all rows of a classification were of one class."""
    if classes.size < 2:
        raise ValueError(
            f"The target {target!r} is {classes.tolist()[0]!r} in all {n_rows:,} rows, so there is "
            "nothing to tell apart. Give rows of another class or another target; or use "
            "`task='novelty'`, which needs no target, to find what is unlike these rows."
        )


def check_marks(table: Any, target: str) -> None:
    """Raise ``ValueError`` if a target that is to mark novel rows holds quantities.

    Examples
    --------
    >>> check_marks({"kind": [1, -1]}, "kind")
    """
    column = view_table(table).column(target)
    if not isinstance(column, Numbers):
        return
    present = column.values[~np.isnan(column.values)]
    quantities = present[present != np.round(present)]
    if quantities.size:
        raise ValueError(
            f"The target {target!r} holds quantities, first {quantities[0]:g}, but "
            "`task='novelty'` learns no target: it only marks which rows are known, as 1 and -1 "
            "or by labels, to measure what was found. Leave the target out (then exclude the "
            "column, unless it is an input), name a column of labels, or choose regression to "
            "predict it."
        )
