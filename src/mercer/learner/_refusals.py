"""What equations and Newton steps cannot do, found before the first row."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.exceptions import Advice, ParameterError, Setting
from mercer.learner._codes import is_quadratic, regression_targets
from mercer.learner._linear_rows import is_linear
from mercer.objectives import Bellman, Novelty, Objective
from mercer.planning import AutomaticStep

__all__ = ["begins_with_regression", "check_parts"]


def begins_with_regression(objective: Objective, n_outputs: int) -> bool:
    """Whether the objective has targets that a regression can be on."""
    loss: Any = getattr(objective, "loss", None)
    if loss is None:
        return False
    width = 1 if loss.multiclass else loss.target_width(n_outputs // objective.copies)
    return regression_targets(objective, np.ones((1, width)), n_outputs) is not None


def check_parts(objective: Objective, function: Any, step_size: Any) -> None:
    """Refuse parts that do not go together.

    Parameters
    ----------
    objective : Objective
        What is minimised.
    function : DictionaryFunction or FeatureExpansion
        What is learned.
    step_size : callable or AutomaticStep
        Of the learner.

    Raises
    ------
    ValueError
        If there is nothing that the step size or the ridges could mean, or no equations.
    """
    expansion = function.expansion
    solves = is_quadratic(objective) or is_linear(objective)
    if solves and not isinstance(step_size, AutomaticStep):
        raise ParameterError(
            f"`step_size` has no meaning for {expansion!r} with this objective, got "
            f"{step_size!r}: equations are solved, in no steps.",
            parameter="step_size",
            value=step_size,
            mend=Advice(
                "Use ", Setting("step_size", "auto"), ", or KOMP or Budget for gradient steps."
            ),
        )
    if isinstance(objective, Bellman) and not is_linear(objective):
        raise ValueError(
            f"{expansion!r} has no equations for method={objective.method!r}, whose steps "
            "follow an average along the trajectory. Use 'td' or 'gtd2', or a KOMP expansion."
        )
    regresses = begins_with_regression(objective, function.n_outputs)
    if regresses or isinstance(expansion.ridge, str | None):
        return
    if isinstance(objective, Novelty):
        raise ValueError(
            f"`ridge` is `nu` for novelty detection, got ridge={expansion.ridge!r}: the share "
            "of rows below the threshold depends on it. Use ridge=None or 'auto'."
        )
    if np.size(expansion.ridge) > 1:
        raise ValueError(
            f"`ridge` must be one number for the objective {type(objective).__name__}, got "
            f"{expansion.ridge!r}: ridges are compared by squared errors of targets, and it has "
            "none. Use a number, or None for the `regularization` of the estimator."
        )
