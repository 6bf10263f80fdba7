"""Columns of predictions that a model of tables makes of encoded rows."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.answers.explain import Explanation, explanation
from mercer.columns.views import check_names
from mercer.conformal import check_coverage
from mercer_app.files.dialect import check_names_of_file
from mercer_app.files.tables import TableFiles
from mercer_app.rows import TableRows


def check_columns(reads: TableRows, data: str | PathLike[str], kept: Sequence[str]) -> None:
    """Raise ``ValueError`` unless data have the columns of a model, and those to copy."""
    names, columns = TableFiles.of(data).columns.names, reads.preprocessor
    check_names_of_file(columns.feature_names_in_, names, f"{data}", taken=columns.exclude)
    check_names(kept, names, f"{data}")


def check_interval(reads: TableRows, coverage: float | None) -> None:
    """Refuse intervals before any row is read, if the model has none."""
    if coverage is None:
        return
    check_coverage(coverage)
    if reads.task not in ("classification", "regression", "gp"):
        raise ValueError(
            f"`--interval` is of quantities and classes, but this is {reads.task}. Leave it out."
        )
    none = np.zeros((1, reads.estimator.n_features_in_))
    predictions(reads, none, coverage)


def predicted_columns(
    reads: TableRows,
    kept: Sequence[str],
    table: Any,
    X: NDArray[np.floating],
    coverage: float | None,
) -> dict[str, Any]:
    """Return the columns to write: the columns kept, and those of the predictions."""
    predicted = predictions(reads, X, coverage)
    clash = sorted(set(kept) & set(predicted))
    if clash:
        raise ValueError(
            f"`--keep {clash[0]}` has the name of a column of the predictions. Rename it."
        )
    return {**{name: table.column(name) for name in kept}, **predicted}


def explained(
    model: Any,
    table: Any,
    X: NDArray[np.floating],
    *,
    background: NDArray[np.floating] | None = None,
    output: Any = None,
    random_state: int = 0,
) -> Explanation:
    """Return what each column adds to predictions for rows that were encoded and reported before.

    Parameters
    ----------
    model : estimator
        That reads tables.
    table : pyarrow.Table
        The rows, as displays show them.
    X : ndarray of shape (n_rows, n_inputs)
        The same rows, encoded.
    background : ndarray of shape (n, n_inputs) or None, default=None
        Encoded rows to compare with; None for those that the model keeps.
    output, random_state
        As for :meth:`mercer.KernelRegressor.explain`.
    """
    told = model._explained()._replace(encode=lambda rows: X if rows is table else rows)
    return explanation(told, table, output=output, background=background, random_state=random_state)


def predictions(
    reads: TableRows, X: NDArray[np.floating], coverage: float | None = None
) -> dict[str, NDArray[Any]]:
    """Columns of predictions for encoded rows, with intervals or sets if a coverage is given."""
    found = _predictions(reads, X)
    if coverage is None:
        return found
    if reads.predicts_quantities:
        ends = reads.as_written(reads.estimator.predict_interval(X, coverage))
        return {**found, "lower": ends[:, 0].copy(), "upper": ends[:, 1].copy()}
    names = np.array([str(label) for label in reads.estimator.classes_.tolist()], dtype=object)
    sets = reads.estimator.predict_set(X, coverage)
    return {**found, "set": np.array(["|".join(names[row]) for row in sets], dtype=np.str_)}


def _predictions(reads: TableRows, X: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    estimator: Any = reads.estimator
    predicted = reads.as_written(estimator.predict(X))
    if reads.task == "rank":
        return {"score": predicted}
    if reads.task == "value":
        return {"value": predicted}
    if predicted.ndim == 2:
        levels = np.atleast_1d(np.asarray(estimator.loss_.levels, dtype=float))
        return {f"quantile_{t:g}": q for t, q in zip(levels, predicted.T.copy(), strict=True)}
    columns: dict[str, NDArray[Any]] = {"prediction": predicted}
    if reads.task == "gp":
        _, std = estimator.predict(X, return_std=True, include_noise=True)
        return {**columns, "std": std}
    if reads.task == "regression":
        return columns
    if reads.task == "novelty":
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
