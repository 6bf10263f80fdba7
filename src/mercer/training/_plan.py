"""Sizes of a training that follow from the estimator and the number of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from mercer.expansions import Auto, Expansion, RandomFeatures, as_expansion
from mercer.kernels import as_pair_kernel

__all__ = ["RunPlan", "expansion_of", "plan_run"]


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
    # "auto" is a batch size of rankers, which know what it stands for.
    automatic = getattr(estimator, "_batch_size", None)
    batch_size = int(estimator.batch_size if automatic is None else automatic())
    expansion = expansion_of(estimator)
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


def expansion_of(estimator: Any) -> Expansion | None:
    """Return the expansion that an estimator will take; None for a Gaussian process."""
    choice = getattr(estimator, "_chosen_expansion", None)
    if choice is not None:
        expansion: Expansion = choice()
        return expansion
    chosen = getattr(estimator, "expansion", None)
    return None if chosen is None else as_expansion(chosen)
