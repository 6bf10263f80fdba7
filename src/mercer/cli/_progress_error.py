"""The error of a model on rows that it had not learned, where no test data are given."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mercer.default import DefaultLearner
from mercer.estimators import TableModel
from mercer.inspection import history_in_units, name_of_loss
from mercer.losses import Logistic, Softmax, Squared

__all__ = ["ProgressError", "progress_error"]


class ProgressError(NamedTuple):
    """An error that training saw.

    Attributes
    ----------
    name : str
        What it is, and of which rows.
    value : float
        In the units of the target.
    note : str
        How it came about, and what to compare it with.
    """

    name: str
    value: float
    note: str


def progress_error(model: TableModel) -> ProgressError | None:
    """Return the mean error of rows that were predicted before they were learned.

    Parameters
    ----------
    model : TableModel
        A fitted model.

    Returns
    -------
    error : ProgressError or None
        None but for classifications and regressions that minimise the mean of a loss.
    """
    estimator: Any = model.estimator
    predicts = model.task in ("classification", "regression")
    if not predicts or estimator.risk_ is not None:
        return None
    history = history_in_units(model)
    if not history.n_samples.size:
        return None
    if isinstance(estimator.learner_, DefaultLearner):
        loss, rows = float(history.loss[-1]), "rows kept back"
        how = (
            "of rows that the fit which predicted them did not have (the last ones; up to 2,000 "
            "rows each in turn), but by which the weights of the parts were chosen"
        )
    else:
        # The first rows met a model that knew nothing.
        late = history.n_samples > history.n_samples[-1] // 2
        counts = np.diff(history.n_samples, prepend=0)[late]
        loss, rows = float(np.average(history.loss[late], weights=counts)), "rows as they came"
        how = "of the second half of the rows, each predicted before its step"
    if not math.isfinite(loss):
        return None
    name, value = name_of_loss(estimator), loss
    if isinstance(estimator.loss_, Squared):
        name, value = "RMSE", math.sqrt(2.0 * loss)
    return ProgressError(
        f"{name}, {rows}",
        value,
        f"No test data were given: the {name} is {how}{_comparison(model)}. Rows of a test file "
        "(--test) say more.",
    )


def _comparison(model: TableModel) -> str:
    """Say what knowing no inputs would give."""
    estimator: Any = model.estimator
    if isinstance(estimator.loss_, Squared):
        return f"; the standard deviation of the target is {model.target_scale_:.4g}"
    if not isinstance(estimator.loss_, Logistic | Softmax) or estimator.class_weight is not None:
        return ""
    if isinstance(estimator.loss_, Logistic) and estimator.classes_.size > 2:
        return ""
    shares = estimator.class_counts_ / estimator.class_counts_.sum()
    entropy = -float(np.sum(shares * np.log(np.where(shares > 0.0, shares, 1.0))))
    return f"; going by the shares of the classes alone it is {entropy:.4g}"
