"""Reports of table models: what they are, how they do, pictures in the units of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.cli._console import is_table
from mercer.cli._evaluation import Evaluation, progress_error
from mercer.cli._files import encoded_tables
from mercer.estimators import TableModel
from mercer.estimators.asking import predictions_of
from mercer.inspection import (
    describe,
    history_in_units,
    loss_units,
    output_labels,
)
from mercer.losses import Squared
from mercer.report import (
    columns_section,
    figures_for,
    quantity_figures,
    race_section,
    risk_section,
    stream_section,
    write_report,
)

__all__ = ["ROWS_FOR_PICTURES", "Seen", "figures_of", "report", "seen_rows", "title_of"]

Array = NDArray[np.float64]

ROWS_FOR_PICTURES = 20_000
_MOST_NAMED = 30
_MOST_CARDS = 4  # measures in the summary
_MOST_CARDS_OF_QUANTILES = 8

# What measures are called in reports, where it is not their names.
_CALLED = {
    "mse": "MSE",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "auc": "AUC",
    "auc_standard_error": "standard error of the AUC",
    "auc_of_pairs": "AUC of pairs",
    "ndcg_at_10": "NDCG at 10",
}
_TAIL = {"value_at_risk": "begin at (value at risk)", "cvar": "mean (CVaR)"}


def report(
    path: str | os.PathLike[str],
    model: TableModel,
    *,
    title: str,
    evaluation: Evaluation | None = None,
    settings: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    seen: Seen | None = None,
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
    seen : Seen, default=None
        Rows of the training to draw, where there are no others.
    """
    description = describe(model)
    sizes = {"model order": description["model_order"], "rows": description["n_rows_learned"]}
    if evaluation is None:
        found = _of_training(model, sizes)
    else:
        found = _of_evaluation(model, evaluation, sizes)
    listed = {
        _words(name): ", ".join(value) if isinstance(value, list) else value
        for name, value in ((settings or {}) | description).items()
        if not is_table(value)
    }
    pictured = _InUnits(model)
    at_risk = risk_section(pictured, None if evaluation is None else evaluation.losses)
    columns = columns_section(model.audit_)
    raced, followed = race_section(model.estimator), stream_section(pictured)
    write_report(
        path,
        title=title,
        summary=found.summary,
        history=getattr(pictured, "history_", None),
        settings=listed,
        evaluation=found.measures,
        sections=[one for one in (columns, at_risk, raced, followed) if one is not None],
        figures=[*figures_of(model, evaluation), *_seen_figures(model, seen)],
        notes=[*notes, *found.notes, *([] if seen is None else [seen.note])],
    )


class Seen(NamedTuple):
    """Rows of a training that can be drawn, and what is to be said of them.

    Attributes
    ----------
    truth, predicted : ndarray of shape (n_rows, n_outputs)
        In the units of the target.
    of : str
        What rows they are.
    note : str
        What a reader must know of them.
    """

    truth: Array
    predicted: Array
    of: str
    note: str


def seen_rows(model: TableModel, data: str | os.PathLike[str]) -> Seen | None:
    """Return rows of a training of quantities: those that judged its parts, else learned ones.

    Parameters
    ----------
    model : TableModel
        As the training left it: its file does not have the rows.
    data : path
        What was learned.
    """
    if not model.predicts_quantities:
        return None
    estimator: Any = model.estimator
    held = getattr(estimator, "held_out_", None)
    if held is not None:
        truth, predicted = held.y.reshape(len(held.y), -1), predictions_of(estimator, held.scores)
        of = "rows kept back"
        note = (
            f"The pictures of predictions are of {len(truth):,} rows that the fit which predicted "
            "them did not have, but by which the weights of the parts were chosen."
        )
        scale, mean = model.target_scale_, model.target_mean_
        predicted = predicted.reshape(len(truth), -1)
        return Seen(truth * scale + mean, predicted * scale + mean, of, note)
    _, X, truth = next(encoded_tables(model, data, target=model.target))
    X, truth = X[:ROWS_FOR_PICTURES], truth[:ROWS_FOR_PICTURES]
    note = (
        f"The pictures of predictions are of the first {len(truth):,} rows, which were learned: "
        "the errors of other rows are larger. Rows of a test file (--test) show them."
    )
    truth, predicted = truth.reshape(len(X), -1), model.predict_inputs(X).reshape(len(X), -1)
    return Seen(truth, predicted, "rows that were learned", note)


def _seen_figures(model: TableModel, seen: Seen | None) -> list[tuple[str, Any]]:
    if seen is None:
        return []
    labels = output_labels(model.estimator, seen.predicted.shape[1])
    return quantity_figures(seen.truth, seen.predicted, labels=labels, of=seen.of)


class _Findings(NamedTuple):
    """What a report says of a model: its cards, the tables of measures, and notes."""

    summary: dict[str, Any]
    measures: dict[str, Any]
    notes: list[str]


def _of_training(model: TableModel, sizes: dict[str, Any]) -> _Findings:
    """Say what error training saw, if it saw one."""
    seen = progress_error(model)
    if seen is None:
        return _Findings(sizes, {}, [])
    return _Findings({seen.name: seen.value} | sizes, {}, [seen.note])


def _of_evaluation(model: TableModel, evaluation: Evaluation, sizes: dict[str, Any]) -> _Findings:
    """Say how a model does on held-out rows."""
    measures, worst = _split(evaluation.measures)
    if isinstance(getattr(model.estimator, "loss_", None), Squared) and "mean loss" in measures:
        measures["mean loss, half the squared error"] = measures.pop("mean loss")
    shown = [name for name in measures if name != "rows"]
    most = _MOST_CARDS_OF_QUANTILES if "mean pinball" in measures else _MOST_CARDS
    summary = (
        {name: measures[name] for name in shown[:most]}
        | _at_risk(model, worst)
        | {"model order": sizes["model order"], "rows learned": sizes["rows"]}
    )
    notes = []
    if len(evaluation.y) < evaluation.measures["rows"]:
        drawn = f"{len(evaluation.y):,} held-out rows, drawn at random, are in the figures"
        notes = [f"{drawn}; the measures are of all {measures['rows']:,}."]
    if worst:
        unit = loss_units(model).name
        measures["Worst losses" + (f", in {unit}" if unit else "")] = worst
    if 0 < len(evaluation.by_class) <= _MOST_NAMED:
        measures["By class"] = evaluation.by_class
    return _Findings(summary, measures, notes)


def figures_of(model: TableModel, evaluation: Evaluation | None = None) -> list[tuple[str, Any]]:
    """Draw the standard figures of a model, with inputs and targets in their own units."""
    pictured = _InUnits(model)
    if evaluation is None or not len(evaluation.y):
        return figures_for(pictured)
    y = evaluation.y if model.has_target else None
    return figures_for(pictured, pictured.to_units(evaluation.X), y, evaluation.group)


def title_of(model: TableModel, what: str) -> str:
    """Heading of a report: what is predicted, and what the report is of."""
    return f"{model.target}: {what}" if model.has_target else what[:1].upper() + what[1:]


def _split(measures: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Tell measures from those of the worst losses, which become a table of a row per level."""
    worst: dict[str, dict[str, Any]] = {}
    usual: dict[str, Any] = {}
    for name, value in measures.items():
        kind, _, percent = name.rpartition("_")
        if kind in _TAIL:
            row = worst.setdefault(f"worst {100.0 - float(percent):.4g}\u00a0%", {})
            row[_TAIL[kind]] = value
        else:
            usual[_words(name)] = value
    return usual, worst


def _at_risk(model: TableModel, worst: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Mean of the worst losses, at the level of the model's risk, if that is what it minimises."""
    level = getattr(getattr(model.estimator, "risk_", None), "level", None)
    row = f"worst {100.0 - 100.0 * level:.4g}\u00a0%" if level is not None else ""
    return {f"CVaR, {row}": worst[row][_TAIL["cvar"]]} if row in worst else {}


def _words(name: str) -> str:
    return _CALLED.get(name) or (
        name.replace("_percent", " %")
        .replace("n_", "number of ", name.startswith("n_"))
        .replace("_", " ")
    )


class _InUnits:
    """A table model as pictures see an estimator, its inputs and outputs in units of the columns.

    What has no units is the estimator's own.
    """

    def __init__(self, model: TableModel) -> None:
        self.model, self.estimator = model, model.estimator
        self.center, self.scale = _units(model)
        self.feature_names_in_ = model.preprocessor.feature_names_out()
        self.loss, self.loss_unit = getattr(model.estimator, "loss_", None), loss_units(model).name
        # Pictures ask for the parameters of the method whether there are standard deviations.
        self.predict: Any = self._with_std if model.task == "gp" else self._predict
        if hasattr(model.estimator, "history_"):
            self.history_ = history_in_units(model)
        if hasattr(model.estimator, "dictionary_"):
            self.dictionary_ = self.to_units(model.estimator.dictionary_)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.estimator, name)
        if name not in ("decision_function", "predict_pair", "predict_proba"):
            return value
        return lambda *X: value(*map(self._encoded, X))

    def to_units(self, X: NDArray[np.floating]) -> Array:
        """Return encoded rows in the units of the columns."""
        return np.asarray(X * self.scale + self.center, dtype=np.float64)

    def _encoded(self, X: Any) -> NDArray[np.floating]:
        dtype = self.model.preprocessor.dtype
        return ((np.asarray(X) - self.center) / self.scale).astype(dtype)

    def _predict(self, X: Any) -> NDArray[Any]:
        return self.model.predict_inputs(self._encoded(X))

    def _with_std(self, X: Any, return_std: bool = False, *, include_noise: bool = False) -> Any:
        mean = self._predict(X)
        if not return_std:
            return mean
        return mean, self.model.predict_std(self._encoded(X), include_noise=include_noise)


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
