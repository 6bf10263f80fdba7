"""Columns of predictions that a model of tables makes of encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import check_names
from mercer.conformal import check_coverage
from mercer.estimators import TableModel
from mercer_app.files import schema
from mercer_app.files.dialect import check_names_of_file


def check_columns(model: TableModel, data: str | PathLike[str], kept: Sequence[str]) -> None:
    """Raise ``ValueError`` unless data have the columns of a model, and those to copy."""
    names, columns = schema(data).names, model.preprocessor
    check_names_of_file(columns.feature_names_in_, names, f"{data}", taken=columns.exclude)
    check_names(kept, names, f"{data}")


def check_interval(model: TableModel, coverage: float | None) -> None:
    """Refuse an interval before any row is read, if there is none."""
    if coverage is None:
        return
    check_coverage(coverage)
    if model.task not in ("classification", "regression", "gp"):
        raise ValueError(
            f"`--interval` is of quantities and classes, but this is {model.task}. Leave it out."
        )
    none = np.zeros((1, model.estimator.n_features_in_))
    predictions(model, none, coverage)


def predicted_columns(
    model: TableModel,
    kept: Sequence[str],
    table: Any,
    X: NDArray[np.floating],
    coverage: float | None,
) -> dict[str, Any]:
    """Columns to write: those kept, and those of the predictions."""
    predicted = predictions(model, X, coverage)
    clash = sorted(set(kept) & set(predicted))
    if clash:
        raise ValueError(
            f"`--keep {clash[0]}` has the name of a column of the predictions. Rename it."
        )
    return {**{name: table.column(name) for name in kept}, **predicted}


def predictions(
    model: TableModel, X: NDArray[np.floating], coverage: float | None = None
) -> dict[str, NDArray[Any]]:
    """Columns of predictions for encoded rows, with intervals or sets if a coverage is given."""
    found = _predictions(model, X)
    if coverage is None:
        return found
    if model.predicts_quantities:
        ends = model.as_written(model.interval_of_inputs(X, coverage))
        return {**found, "lower": ends[:, 0].copy(), "upper": ends[:, 1].copy()}
    names = np.array([str(label) for label in model.estimator.classes_.tolist()], dtype=object)
    sets = model.estimator.predict_set(X, coverage)
    return {**found, "set": np.array(["|".join(names[row]) for row in sets], dtype=np.str_)}


def _predictions(model: TableModel, X: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    estimator: Any = model.estimator
    predicted = model.as_written(model.predict_inputs(X))
    if model.task == "rank":
        return {"score": predicted}
    if model.task == "value":
        return {"value": predicted}
    if predicted.ndim == 2:
        levels = np.atleast_1d(np.asarray(estimator.loss_.levels, dtype=float))
        return {f"quantile_{t:g}": q for t, q in zip(levels, predicted.T.copy(), strict=True)}
    columns: dict[str, NDArray[Any]] = {"prediction": predicted}
    if model.task == "gp":
        return {**columns, "std": model.predict_std(X)}
    if model.task == "regression":
        return columns
    if model.task == "novelty":
        return {**columns, "score": estimator.decision_function(X)}
    classes = estimator.classes_.tolist()
    if hasattr(estimator, "predict_proba"):
        values, kind = estimator.predict_proba(X), "probability"
    else:
        values, kind = estimator.decision_function(X), "score"
    if values.ndim == 1:
        return {**columns, kind: values}
    named = zip(classes, values.T, strict=True)
    return {**columns, **{f"{kind}_{c}": np.ascontiguousarray(v) for c, v in named}}
