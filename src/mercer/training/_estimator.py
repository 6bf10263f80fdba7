"""The estimator of a training: made from its settings and checked, before and after learning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators.asking import chosen_batch_size, chosen_expansion
from mercer.estimators.table import TASKS
from mercer.exceptions import Advice, InPython, NothingLearnedWarning, ParameterError, Setting
from mercer.expansions import Auto, RandomFeatures
from mercer.kernels import as_pair_kernel
from mercer.losses import Loss

__all__ = [
    "RunPlan",
    "check_two_classes",
    "first_classes",
    "make_estimator",
    "plan_run",
    "warn_if_no_pairs",
]

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
    estimator.check()
    if isinstance(chosen_expansion(estimator), Auto):
        _check_sums(estimator, kind.words, options)
        if estimator.expansion == "auto":
            estimator.set_params(expansion=Auto(seed=seed))
    return estimator


def _check_sums(estimator: Any, words: str, options: Mapping[str, Any]) -> None:
    """Refuse what does not go together with parts that learn by sums."""
    if isinstance(estimator.expansion, Auto):
        by_itself = estimator.__class__(**estimator.get_params(deep=False))
        by_itself.set_params(expansion="auto")
        if not isinstance(chosen_expansion(by_itself), Auto):
            given: list[str | Setting] = [words]
            for name in ("loss", "risk", "step_size"):
                if name in options:
                    given += [" and ", Setting(name, estimator.get_params()[name])]
            raise ParameterError(
                Advice(
                    Setting(
                        "expansion", estimator.expansion, f"`expansion={estimator.expansion!r}`"
                    ),
                    " learns by sums over rows, which gives the mean of a loss, of classes or "
                    "squared, without steps; got ",
                    *given,
                    ".",
                ),
                parameter="expansion",
                value=estimator.expansion,
                mend="Leave out the options of this expansion, or what it cannot do.",
            )
    if options.get("regularization", "auto") != "auto":
        raise ParameterError(
            "`regularization` is of learning by steps, but the default expansion sums over rows, "
            "and chooses ridges on rows that it has not learned.",
            parameter="regularization",
            value=options["regularization"],
            mend=Advice(
                "Leave it out, or choose ",
                InPython(
                    "another expansion, such as komp",
                    ("another one, such as ", Setting("expansion", "komp")),
                ),
                ".",
            ),
        )
    estimator.check_settings(anew=True)


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


def warn_if_no_pairs(model: Any, n_rows: int, shuffle_buffer: int) -> None:
    """Warn if a ranking has learned nothing, because no row met one to be compared with.

    Parameters
    ----------
    model : TableModel
        After its training; no ranking is fine, too.
    n_rows : int
        Rows that it learned.
    shuffle_buffer : int
        Rows shuffled at a time.

    Warns
    -----
    NothingLearnedWarning
        If all coefficients are 0.
    """
    if model.task != "rank" or np.any(model.estimator.coefficients_):
        return
    other = "" if model.estimator.pair_label == "same" else f" with another {model.target!r}"
    if model.group is None:
        why = f"a row is paired with an earlier one{other}, and there was none in the buffer"
        mend = "Give data whose target has several values, in mixed order, or a larger `buffer`"
    else:
        why = (
            f"a row is paired with an earlier one of its {model.group!r}{other}, and there was "
            "none in the buffer"
        )
        mend = (
            "If hardly two rows have the same value there, it is no column of groups: name another "
            "as `group`, or leave it out. If the rows of a group are far apart in the data, raise "
            f"`shuffle_buffer` ({shuffle_buffer:,} rows) above that distance, or sort the data by "
            "the group"
        )
    warnings.warn(
        f"The ranking has learned nothing from {n_rows:,} rows, and its values are all 0: {why}. "
        f"{mend}.",
        NothingLearnedWarning,
        stacklevel=3,
    )


class RunPlan(NamedTuple):
    """Sizes of a training.

    Attributes
    ----------
    n_passes : int
        Passes over the data.
    rows_per_step : int
        Rows that a step learns.
    cuts_matter : bool
        Whether what is learned depends, in its last digits, on where the rows are cut into chunks:
        random features evaluate old blocks on a whole chunk at once, and sums are taken chunk by
        chunk.
    """

    n_passes: int
    rows_per_step: int
    cuts_matter: bool


def plan_run(estimator: Any, n_passes: int, n_rows: int | None, n_outputs: int = 1) -> RunPlan:
    """Plan a training; give the estimator the sizes that depend on the number of rows.

    Parameters
    ----------
    estimator : estimator
        One that has not learned yet, or whose sizes are known.
    n_passes : int
        Passes that were asked for.
    n_rows : int or None
        Rows of a pass, if known.
    n_outputs : int, default=1
        Components of the function.

    Returns
    -------
    plan : RunPlan
    """
    batch_size = chosen_batch_size(estimator)
    expansion = chosen_expansion(estimator)
    # Functions of pairs of second order have a fixed number of features, in ordinary steps.
    bilinear = as_pair_kernel(getattr(estimator, "pair_kernel", "difference")).order == 2
    if isinstance(expansion, Auto):
        # Cells are laid out for the rows to come, if it is known how many these are.
        if n_rows is not None:
            estimator.set_params(expansion=expansion.sized(n_rows, n_outputs))
        return RunPlan(n_passes, batch_size, cuts_matter=True)
    if bilinear or not isinstance(expansion, RandomFeatures):
        return RunPlan(n_passes, batch_size, cuts_matter=False)
    plan = expansion.plan(batch_size, n_passes, n_rows, n_outputs)
    made = n_passes if n_rows is None else plan.n_passes
    if n_rows is not None:
        estimator.set_params(expansion=expansion.sized(n_rows, n_outputs), n_passes=made)
    return RunPlan(made, plan.rows_per_step, cuts_matter=True)
