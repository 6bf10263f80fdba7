"""Errors of fitted regressors and classifiers on rows that they have not learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.answers.intervals import Evidence
from mercer.default import DefaultLearner
from mercer.estimators.inputs import check_weights, with_later_inputs
from mercer.estimators.kept_rows import HeldOutRows
from mercer.streams import StreamLearner

Array = NDArray[np.float64]


def evidence_of(model: Any) -> Evidence:
    """Return what is known about a model's errors: on given, held-out or recent rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted model.
    """
    check_is_fitted(model, "learner_")
    learner, known, given = model.learner_, model.targets_, calibration_of_now(model)
    losses = None
    if given is None and isinstance(learner, StreamLearner):
        losses = np.array(learner.recent_losses, dtype=np.float64)

    def fits() -> list[tuple[NDArray[np.intp], Callable[[Any], Array]]]:
        if given is not None or not isinstance(learner, DefaultLearner):
            return []
        return [(rows, function.evaluate) for rows, function in learner.fits_without()]

    def held_out() -> HeldOutRows | None:
        if given is not None:
            return given._replace(scores=model._scores_at(given.X))
        held: HeldOutRows | None = model.held_out_
        return held

    def once(make: Callable[[], Any], *mark: Any) -> Any:
        mark = (*mark, learner.n_samples)
        found = model._conformal
        if found is None or found[0] != mark:
            found = model._conformal = mark, make()
        return found[1]

    return Evidence(
        targets=known,
        inputs=model._rows_to_predict,
        scores=model._scores_at,
        held_out=held_out,
        fits=fits,
        losses=losses,
        block=getattr(model, "block_length_", 1) if given is None else 1,
        once=once,
    )


def calibration(model: Any, X: Any, y: Any, sample_weight: Any) -> HeldOutRows:
    """Check the rows with which intervals are calibrated.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted model.
    X, y, sample_weight
        As for ``calibrate``.

    Raises
    ------
    ValueError
        For invalid rows or targets.
    """
    check_is_fitted(model, "learner_")
    inputs = model._rows_to_predict(X)
    targets = model.targets_.known(model.in_numbers(y))
    if len(targets) != inputs.shape[0]:
        raise ValueError(
            f"`X` has {inputs.shape[0]:,} rows and `y` has {len(targets):,}. Give each row its "
            "target."
        )
    weights = check_weights(sample_weight, inputs.shape[0], some=True)
    used = weights > 0.0
    return HeldOutRows(inputs[used], targets[used], np.empty(0), weights[used])


def calibration_of_now(model: Any) -> HeldOutRows | None:
    """Return the calibration rows, extended by inputs that were added since."""
    rows: HeldOutRows | None = model._calibration
    if rows is None or not isinstance(rows.X, np.ndarray):
        return rows
    return rows._replace(X=with_later_inputs(rows.X, model.n_inputs_, model._columns))
