"""Reports of table models: what they are, how they do, pictures in the units of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.cli._console import is_table
from mercer.cli._evaluation import Evaluation
from mercer.cli._progress_error import progress_error
from mercer.cli._ranking import describe_pairs
from mercer.cli._risk import describe_risk, history_in_units, loss_units
from mercer.display._race import parts_table, race_table, rows_judged_together
from mercer.estimators import TableModel
from mercer.expansions import FeatureExpansion
from mercer.kernels import Mapped
from mercer.losses import Squared
from mercer.maps import Affine
from mercer.parts import Blend
from mercer.report import figures_for, race_section, risk_section, write_report

__all__ = ["ROWS_FOR_PICTURES", "describe", "figures_of", "report", "title_of"]

Array = NDArray[np.float64]

ROWS_FOR_PICTURES = 20_000
_MOST_NAMED = 30
_MOST_CARDS = 4  # measures in the summary
_MOST_CARDS_OF_QUANTILES = 8
_TO_GO_ON = (
    "the file leaves out large sums: `mercer fit --resumable`, in Python "
    "expansion=Auto(resumable=True), keeps them"
)
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


def describe(model: Any) -> dict[str, Any]:
    """Say what a fitted model is.

    Parameters
    ----------
    model : TableModel or kernel estimator
        As :func:`mercer.load_model` returns it.

    Returns
    -------
    description : dict of str to number, text, list of text or list of dict
        Names without spaces; a list of dicts is a table.
    """
    estimator: Any = model.estimator if isinstance(model, TableModel) else model
    values: dict[str, Any] = {"estimator": type(estimator).__name__}
    if isinstance(model, TableModel):
        columns = model.preprocessor.feature_names_in_
        values["target"] = model.target
        values["columns"] = _cut(columns)
        values["n_columns"] = len(columns)
        if model.predicts_quantities:
            values["target_mean"] = model.target_mean_
            values["target_scale"] = model.target_scale_
    values["n_inputs"] = int(estimator.n_features_in_)
    if hasattr(estimator, "classes_"):
        values["n_classes"] = len(estimator.classes_)
        values["classes"] = _cut(map(str, estimator.classes_.tolist()))
    # Parts have a kernel each.
    values["kernel"] = _kernel_words(estimator.kernel_) if hasattr(estimator, "kernel_") else None
    values |= describe_pairs(model)
    learned_in_steps = hasattr(estimator, "learner_")
    values |= _of_steps(estimator, model) if learned_in_steps else _of_a_gaussian_process(model)
    at_risk = describe_risk(model)
    if at_risk:
        values.pop("latest_loss", None)  # the history holds the objective instead
    values |= at_risk
    return {name: value for name, value in values.items() if value is not None}


def _of_steps(estimator: Any, model: Any) -> dict[str, Any]:
    """Describe an estimator that was learned step by step."""
    history, learner = estimator.history_, estimator.learner_
    loss, function = getattr(estimator, "loss_", None), learner.current_function()
    if isinstance(function, Blend):
        return _of_parts(estimator, function, model)
    offset = getattr(estimator, "offset_", None)
    return {
        "discount": getattr(estimator, "discount", None),
        "method": getattr(estimator, "method", None),
        "nu": getattr(estimator, "nu", None),
        "offset": offset,
        "loss": None if loss is None else repr(loss),
        "expansion": repr(function.expansion),
        "random_features": _blocks(function),
        "step_size": float(history.step_size[-1]) if len(history) else None,
        "regularization": float(getattr(learner, "ridge", estimator._ridge())),
        "batch_size": int(estimator._batch_size()),
        "rows_per_step": getattr(learner, "rows_per_step", None),
        "average": "none" if function.averaging is None else estimator.average,
        "precision": str(np.dtype(function.dtype)),
        "model_order": estimator.model_order_,
        "n_rows_learned": estimator.n_samples_seen_,
        **_latest_loss(model),
        "race": race_table(estimator) or None,
    }


def _latest_loss(model: Any) -> dict[str, Any]:
    """Loss of the last record, in units of the target."""
    losses = history_in_units(model).loss
    if not len(losses):
        return {}
    return {"loss_unit": loss_units(model).name or None, "latest_loss": float(losses[-1])}


def _kernel_words(kernel: Any) -> str:
    """Text of a kernel, without the numbers of the map behind which it is."""
    if not isinstance(kernel, Mapped) or not isinstance(kernel.map, Affine):
        return repr(kernel)
    return f"{kernel.kernel!r} of {kernel.map.n_outputs} inputs made by the map"


def _of_parts(estimator: Any, function: Blend, model: Any) -> dict[str, Any]:
    """Describe a sum of parts that learned by sums."""
    sums = function.waiting.n_bytes + sum(part.sum_bytes for part in function.parts)
    together = rows_judged_together(estimator)
    return {
        "loss": repr(estimator.loss_),
        "expansion": repr(function.expansion),
        "precision": str(function.dtype),
        "model_order": function.size,
        "can_go_on_learning": not function.is_compact,
        "to_go_on": _TO_GO_ON if function.is_compact else None,
        "bytes_of_sums": 0 if function.is_compact else sums,
        "n_rows_learned": estimator.n_samples_seen_,
        "rows_judged_together": None if together == 1 else together,
        **_latest_loss(model),
        "parts": parts_table(estimator),
        "race": race_table(estimator) or None,
    }


def _blocks(function: Any) -> str | None:
    """Say how many random features there are, and where they come from."""
    if not isinstance(function, FeatureExpansion):
        return None
    n, m, seed = len(function.blocks), function.block_size, function.expansion.seed
    return f"{function.size:,} in {n:,} block{'s' * (n != 1)} of {m:,}, seed {seed}"


def _of_a_gaussian_process(model: Any) -> dict[str, Any]:
    """Describe a Gaussian process; its density in units of the target."""
    estimator: Any = model.estimator if isinstance(model, TableModel) else model
    posterior = estimator.posterior_
    on_points = hasattr(estimator, "dictionary_")
    values = {
        "method": str(estimator.method),
        "noise": float(posterior.noise),
        "random_features": None if on_points else estimator.model_order_,
        "design": None if on_points else posterior.blocks.options.design,
        "batch_size": int(estimator.batch_size),
        "model_order": estimator.model_order_,
        "n_rows_learned": estimator.n_samples_seen_,
    }
    if not hasattr(estimator, "partial_fit"):
        return values
    units = np.log(model.target_scale_) if isinstance(model, TableModel) else 0.0
    likelihood = estimator.log_marginal_likelihood() - estimator.n_samples_seen_ * units
    return {
        **values,
        "effective_dimension": estimator.effective_dimension_,
        "log_marginal_likelihood": float(likelihood),
    }


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
    seen = progress_error(model) if evaluation is None else None
    if seen is not None:
        summary, notes = {seen.name: seen.value} | summary, [*notes, seen.note]
    if evaluation is not None:
        measures, worst = _split(evaluation.measures)
        if isinstance(getattr(model.estimator, "loss_", None), Squared) and "mean loss" in measures:
            measures["mean loss, half the squared error"] = measures.pop("mean loss")
        shown = [name for name in measures if name != "rows"]
        most = _MOST_CARDS_OF_QUANTILES if "mean pinball" in measures else _MOST_CARDS
        summary = (
            {name: measures[name] for name in shown[:most]}
            | _at_risk(model, worst)
            | {
                "model order": summary["model order"],
                "rows learned": summary["rows"],
            }
        )
        if len(evaluation.y) < evaluation.measures["rows"]:
            drawn = f"{len(evaluation.y):,} held-out rows, drawn at random, are in the figures"
            notes = [*notes, f"{drawn}; the measures are of all {measures['rows']:,}."]
        if worst:
            unit = loss_units(model).name
            measures["Worst losses" + (f", in {unit}" if unit else "")] = worst
        if 0 < len(evaluation.by_class) <= _MOST_NAMED:
            measures["By class"] = evaluation.by_class
    listed = {
        _words(name): ", ".join(value) if isinstance(value, list) else value
        for name, value in ((settings or {}) | description).items()
        if not is_table(value)
    }
    face = _FACES[model.task](model)
    at_risk = risk_section(face, None if evaluation is None else evaluation.losses)
    raced = race_section(model.estimator)
    write_report(
        path,
        title=title,
        summary=summary,
        history=getattr(face, "history_", None),
        settings=listed,
        evaluation=measures,
        sections=[section for section in (at_risk, raced) if section is not None],
        figures=figures_of(model, evaluation),
        notes=notes,
    )


def figures_of(model: TableModel, evaluation: Evaluation | None = None) -> list[tuple[str, Any]]:
    """Draw the standard figures of a model, with inputs and targets in their own units."""
    face = _FACES[model.task](model)
    if evaluation is None or not len(evaluation.y):
        return figures_for(face)
    y = evaluation.y if model.has_target else None
    return figures_for(face, face.to_units(evaluation.X), y, evaluation.group)


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


class _Face:
    """A table model as figures see an estimator: rows of numbers, in the units of the columns."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        estimator: Any = model.estimator
        if hasattr(estimator, "history_"):
            self.history_ = history_in_units(model)
        self.loss = self.loss_ = getattr(estimator, "loss_", None)
        self.loss_unit = loss_units(model).name
        self.risk_ = getattr(estimator, "risk_", None)
        self.n_features_in_ = int(estimator.n_features_in_)
        self.feature_names_in_ = model.preprocessor.feature_names_out()
        self.center, self.scale = _units(model)
        if hasattr(estimator, "parts_"):
            self.parts_ = estimator.parts_
        if hasattr(estimator, "dictionary_"):
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


class _GaussianProcess(_Face):
    """Predicts quantities and how far they may be off."""

    def __init__(self, model: TableModel) -> None:
        super().__init__(model)
        self.log_marginal_likelihood = model.estimator.log_marginal_likelihood

    def predict(self, X: Any, return_std: bool = False, *, include_noise: bool = False) -> Any:
        mean = super().predict(X)
        if not return_std:
            return mean
        return mean, self.model.predict_std(self.encoded(X), include_noise=include_noise)


class _Scored(_Face):
    """Predicts by scores."""

    def decision_function(self, X: Any) -> Array:
        return np.asarray(self.model.estimator.decision_function(self.encoded(X)))


class _Classifier(_Scored):
    """Predicts labels, scores and, where the loss has them, probabilities."""

    def __init__(self, model: TableModel) -> None:
        super().__init__(model)
        self.classes_ = model.classes_
        if hasattr(model.estimator, "predict_proba"):
            self.predict_proba = lambda X: model.estimator.predict_proba(self.encoded(X))


class _Ranker(_Face):
    """Predicts scores of rows, or answers on pairs only."""

    def __init__(self, model: TableModel) -> None:
        super().__init__(model)
        self.pair_label = model.estimator.pair_label
        if model.scores_rows:
            self.decision_function = lambda X: model.estimator.decision_function(self.encoded(X))

    def predict_pair(self, X1: Any, X2: Any) -> Array:
        return np.asarray(self.model.estimator.predict_pair(self.encoded(X1), self.encoded(X2)))


_FACES: dict[str, type[_Face]] = {
    "classification": _Classifier,
    "regression": _Regressor,
    "rank": _Ranker,
    "novelty": _Scored,
    "gp": _GaussianProcess,
}


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
