"""Reports of table models: what they are, how they do, pictures in the units of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.cli._evaluation import Evaluation
from mercer.estimators import TableModel
from mercer.report import figures_for, write_report

__all__ = ["ROWS_FOR_PICTURES", "describe", "figures_of", "report"]

Array = NDArray[np.float64]

ROWS_FOR_PICTURES = 20_000
_MOST_NAMED = 30


def describe(model: Any) -> dict[str, Any]:
    """Say what a fitted model is.

    Parameters
    ----------
    model : TableModel or kernel estimator
        As :func:`mercer.load_model` returns it.

    Returns
    -------
    description : dict of str to number, text or list of text
        Names without spaces.
    """
    estimator = model.estimator if isinstance(model, TableModel) else model
    learner = estimator.learner_
    values: dict[str, Any] = {"estimator": type(estimator).__name__}
    if isinstance(model, TableModel):
        columns = model.preprocessor.feature_names_in_
        values["target"] = model.target
        values["columns"] = _cut(columns)
        values["n_columns"] = len(columns)
        if model.task == "regression":
            values["target_mean"] = model.target_mean_
            values["target_scale"] = model.target_scale_
    values["n_inputs"] = int(estimator.n_features_in_)
    if hasattr(estimator, "classes_"):
        values["n_classes"] = len(estimator.classes_)
        values["classes"] = _cut(map(str, estimator.classes_.tolist()))
    history = estimator.history_
    values |= {
        "kernel": repr(estimator.kernel_),
        "loss": repr(estimator.loss_),
        "expansion": repr(learner.function.expansion),
        "step_size": float(history.step_size[-1]) if len(history) else None,
        "regularization": float(estimator.regularization),
        "batch_size": int(estimator.batch_size),
        "average": estimator.average or "none",
        "precision": str(np.dtype(learner.function.dtype)),
        "model_order": estimator.model_order_,
        "n_rows_learned": estimator.n_samples_seen_,
        "latest_loss": float(history.loss[-1]) if len(history) else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _cut(names: Any) -> list[str]:
    names = list(names)
    return names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], "..."]


def report(
    path: str | os.PathLike[str],
    model: TableModel,
    *,
    title: str,
    evaluation: Evaluation | None = None,
    settings: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the report of a model.

    Parameters
    ----------
    path : path
        HTML file to write.
    model : TableModel
        The model.
    title : str
        Heading.
    evaluation : Evaluation, default=None
        Measures and rows of held-out data.
    settings : dict, default=None
        Further settings, shown before those of the model.
    notes : sequence of str, default=()
        What a reader must know.
    """
    description = describe(model)
    summary = {"model order": description["model_order"], "rows": description["n_rows_learned"]}
    measures: dict[str, Any] = {}
    if evaluation is not None:
        measures = {_words(name): value for name, value in evaluation.measures.items()}
        shown = [name for name in measures if name != "rows"]
        summary = {name: measures[name] for name in shown[:4]} | {
            "model order": summary["model order"],
            "rows learned": summary["rows"],
        }
        if len(evaluation.y) < evaluation.measures["rows"]:
            drawn = f"{len(evaluation.y):,} held-out rows, drawn at random, are in the figures"
            notes = [*notes, f"{drawn}; the measures are of all {measures['rows']:,}."]
        if 0 < len(evaluation.by_class) <= _MOST_NAMED:
            measures["By class"] = evaluation.by_class
    listed = {
        _words(name): ", ".join(value) if isinstance(value, list) else value
        for name, value in ((settings or {}) | description).items()
    }
    write_report(
        path,
        title=title,
        summary=summary,
        history=model.history_,
        settings=listed,
        evaluation=measures,
        figures=figures_of(model, evaluation),
        notes=notes,
    )


def figures_of(model: TableModel, evaluation: Evaluation | None = None) -> list[tuple[str, Any]]:
    """Draw the standard figures of a model, with inputs and targets in their own units."""
    if evaluation is None or not len(evaluation.y):
        return figures_for(model.estimator)
    face = (_Classifier if model.task == "classification" else _Regressor)(model)
    return figures_for(face, face.to_units(evaluation.X), evaluation.y)


def _words(name: str) -> str:
    return (
        name.replace("_percent", " %")
        .replace("n_", "number of ", name.startswith("n_"))
        .replace("_", " ")
    )


class _Face:
    """A table model as figures see an estimator: rows of numbers, in the units of the columns."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        estimator: Any = model.estimator
        self.history_ = estimator.history_
        self.loss = self.loss_ = estimator.loss_
        self.n_features_in_ = int(estimator.n_features_in_)
        self.feature_names_in_ = model.preprocessor.feature_names_out()
        self.center, self.scale = _units(model)
        self.dictionary_ = self.to_units(estimator.dictionary_)

    def to_units(self, X: NDArray[np.floating]) -> Array:
        return np.asarray(X * self.scale + self.center, dtype=np.float64)

    def encoded(self, X: Any) -> NDArray[np.floating]:
        dtype = self.model.preprocessor.dtype
        return ((np.asarray(X) - self.center) / self.scale).astype(dtype)

    def predict(self, X: Any) -> NDArray[Any]:
        return self.model.predict_inputs(self.encoded(X))


class _Regressor(_Face):
    """Predicts quantities."""


class _Classifier(_Face):
    """Predicts labels, scores and, where the loss has them, probabilities."""

    def __init__(self, model: TableModel) -> None:
        super().__init__(model)
        self.classes_ = model.classes_
        if hasattr(model.estimator, "predict_proba"):
            self.predict_proba = lambda X: model.estimator.predict_proba(self.encoded(X))

    def decision_function(self, X: Any) -> Array:
        estimator: Any = self.model.estimator
        return np.asarray(estimator.decision_function(self.encoded(X)))


def _units(model: TableModel) -> tuple[Array | float, Array | float]:
    """Centre and scale of the inputs if these are the columns themselves, else 0 and 1."""
    columns = model.preprocessor.feature_names_in_
    if model.preprocessor.feature_names_out() != columns or model.text_columns_:
        return 0.0, 1.0
    # Numbers are encoded by an affine map: two points tell it.
    at = {name: np.array([0.0, 1.0]) for name in columns}
    zero, one = np.asarray(model.inputs(at), dtype=np.float64)
    scale = 1.0 / (one - zero)
    return -zero * scale, scale
