"""Measures of a table model on files, chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.data import read_tables, schema
from mercer.data._columns import check_names
from mercer.data._formats import Csv, format_of
from mercer.data.tables import find_files
from mercer.estimators import TableModel
from mercer.training._row_stream import in_place

__all__ = ["Evaluation", "check_test_data", "encoded_tables", "evaluate"]

Array = NDArray[np.float64]

_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)


class Evaluation(NamedTuple):
    """Measures, and rows for pictures.

    Attributes
    ----------
    measures : dict of str to int or float
        In the units of the target.
    by_class : dict of str to dict
        Rows and error of each class; empty for a regression.
    X, y : ndarray
        At most as many rows as were asked for, drawn at random: encoded inputs and targets.
    """

    measures: dict[str, Any]
    by_class: dict[str, dict[str, Any]]
    X: NDArray[np.floating]
    y: NDArray[Any]


def check_test_data(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None,
    ignore_extra: bool,
) -> None:
    """Raise ``ValueError`` unless the files have exactly the columns of the model and the target.

    Parameters
    ----------
    model : TableModel
        A model past its warm-up.
    data : path
        As for :func:`mercer.data.read_tables`.
    target : str or None
        Column of the targets; None: where they were in training.
    ignore_extra : bool
        Allow columns that were not seen in training.
    """
    name = model.target if target is None else target
    used = [*model.preprocessor.feature_names_in_, name]
    ignored = set(model.preprocessor.exclude) - {name}
    found = [column for column in schema(data).names if column not in ignored]
    check_names(used, found, f"{data}", allow_extra=ignore_extra)


def column_types(model: TableModel, data: str | os.PathLike[str]) -> dict[str, str]:
    """Types of columns that CSV files must be read with: text stays text, even if all digits."""
    if not all(issubclass(format_of(file), Csv) for file in find_files(data)):
        return {}
    text = list(model.text_columns_)
    if model.task == "classification" and model.classes_.dtype.kind == "U":
        text.append(model.target)
    return dict.fromkeys(sorted(set(text) & set(schema(data).names)), "string")


def encoded_tables(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    more: Sequence[str] = (),
) -> Iterator[tuple[Any, NDArray[np.floating], Any]]:
    """Read files for a model; yield tables with encoded inputs and, with ``target``, targets."""
    more = [*more] if target is None else [*more, target]
    columns = list(dict.fromkeys([*model.preprocessor.feature_names_in_, *more]))
    tables = read_tables(data, columns=columns, column_types=column_types(model, data))
    return in_place(
        data,
        tables,
        lambda table: (
            table,
            model.inputs(table, extra="drop"),
            None if target is None else model.targets(table, column=target),
        ),
    )


def evaluate(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    ignore_extra: bool = False,
    n_keep: int = 0,
) -> Evaluation:
    """Measure a model on rows that it has not learned.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    data, target, ignore_extra
        As for :func:`check_test_data`.
    n_keep : int, default=0
        Rows to keep for pictures.

    Returns
    -------
    evaluation : Evaluation
        Classification: ``rows``, ``error_percent``, ``balanced_error_percent`` (mean over the
        classes present), ``log_loss`` (natural logarithm, probabilities of at least 2.2e-16) where
        the model has probabilities, ``auc`` for two classes, exact. Regression: ``mse``, ``rmse``,
        ``mae``, ``r2``; for quantiles ``pinball_<level>`` and ``coverage_<level>`` (the share of
        targets not above the prediction), and the other measures for the median if it is there.

    Raises
    ------
    FileNotFoundError, ValueError
        For files, columns and targets that do not fit the model.
    """
    check_test_data(model, data, target=target, ignore_extra=ignore_extra)
    name = model.target if target is None else target
    scores: _Scores = _Classes(model) if model.task == "classification" else _Quantities(model)
    kept = _Sample(n_keep)
    for _, X, y in encoded_tables(model, data, target=name):
        scores.add(X, y)
        kept.add(X, y)
    if not scores.n_rows:
        raise ValueError(f"{data} holds no rows, so there is nothing to evaluate on.")
    return Evaluation({"rows": scores.n_rows, **scores.measures()}, scores.by_class(), *kept.rows)


class _Scores(Protocol):
    n_rows: int

    def add(self, X: NDArray[np.floating], y: NDArray[Any]) -> None: ...

    def measures(self) -> dict[str, float]: ...

    def by_class(self) -> dict[str, dict[str, Any]]: ...


class _Classes:
    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.target = model.target
        self.n_rows = 0
        self.counts: dict[Any, NDArray[np.int64]] = {}  # label -> rows, errors
        self.log_loss = 0.0
        self.scores: list[Array] = []
        self.positive: list[NDArray[np.bool_]] = []

    def add(self, X: NDArray[np.floating], y: NDArray[Any]) -> None:
        classes = self.estimator.classes_
        if (y.dtype.kind == "U") != (classes.dtype.kind == "U"):
            raise ValueError(
                f"The target holds {y[0]!s}, but the classes of the model are "
                f"{', '.join(map(repr, classes[:3].tolist()))}: one is text, the other numbers. "
                "Write the target as in the training data."
            )
        predicted = self.estimator.predict(X)
        labels, codes = np.unique(y, return_inverse=True)
        errors = np.bincount(codes, weights=predicted != y)
        for label, rows, wrong in zip(labels.tolist(), np.bincount(codes), errors, strict=True):
            before = self.counts.get(label, np.zeros(2, np.int64))
            self.counts[label] = before + np.array([rows, round(wrong)])
        if hasattr(self.estimator, "predict_proba"):
            hit = y[:, None] == classes[None, :]
            p = np.where(hit, self.estimator.predict_proba(X), 0.0).sum(axis=1)
            self.log_loss -= float(np.log(np.clip(p, _SMALLEST_PROBABILITY, 1.0)).sum())
        if classes.size == 2:
            self.scores.append(self.estimator.decision_function(X))
            self.positive.append(y == classes[1])
        self.n_rows += len(y)

    def measures(self) -> dict[str, float]:
        rows, errors = np.array(list(self.counts.values()), dtype=float).T
        result = {
            "error_percent": float(100.0 * errors.sum() / self.n_rows),
            "balanced_error_percent": float(100.0 * np.mean(errors / rows)),
        }
        if hasattr(self.estimator, "predict_proba"):
            result["log_loss"] = self.log_loss / self.n_rows
        if self.scores:
            positive = np.concatenate(self.positive)
            if 0 < positive.sum() < positive.size:
                result["auc"] = float(roc_auc_score(positive, np.concatenate(self.scores)))
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {
            str(label): {"rows": int(rows), "error %": 100.0 * wrong / rows}
            for label, (rows, wrong) in sorted(self.counts.items(), key=lambda item: str(item[0]))
        }


class _Quantities:
    def __init__(self, model: TableModel) -> None:
        self.model = model
        levels = getattr(model.estimator.loss_, "levels", None)
        self.levels = None if levels is None else np.atleast_1d(np.asarray(levels, dtype=float))
        self.n_rows = 0
        # Sums about the mean of training: squares of far-away values would cancel.
        self.sums = np.zeros(4)  # y, y^2, squared and absolute errors
        self.pinball: Array = np.zeros(0 if self.levels is None else self.levels.size)
        self.covered: Array = self.pinball.copy()

    def add(self, X: NDArray[np.floating], y: NDArray[Any]) -> None:
        predicted = self.model.predict_inputs(X).reshape(len(y), -1)
        middle = predicted[:, 0]
        if self.levels is not None:
            residual = y[:, None] - predicted
            self.pinball += np.maximum(self.levels * residual, (self.levels - 1) * residual).sum(0)
            self.covered += (residual <= 0.0).sum(axis=0)
            middle = predicted[:, np.argmin(np.abs(self.levels - 0.5))]
        centred = y - self.model.target_mean_
        error = middle - y
        self.sums += [centred.sum(), centred @ centred, error @ error, np.abs(error).sum()]
        self.n_rows += len(y)

    def measures(self) -> dict[str, float]:
        n = self.n_rows
        result = {}
        if self.levels is not None:
            for level, pinball, covered in zip(
                self.levels, self.pinball, self.covered, strict=True
            ):
                result[f"pinball_{level:g}"] = float(pinball / n)
                result[f"coverage_{level:g}"] = float(covered / n)
            if 0.5 not in self.levels:
                return result
        total, squares, squared_errors, absolute_errors = self.sums.tolist()
        result["mse"] = squared_errors / n
        result["rmse"] = float(np.sqrt(squared_errors / n))
        result["mae"] = absolute_errors / n
        spread = squares - total * total / n
        if spread > 0.0:
            result["r2"] = 1.0 - squared_errors / spread
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {}


class _Sample:
    """A uniform sample of rows of a stream: those with the smallest random keys."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(0)
        self.keys: Array = np.empty(0)
        self.rows: tuple[NDArray[Any], NDArray[Any]] = (np.empty((0, 0)), np.empty(0))

    def add(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        if not self.size:
            return
        keys = np.concatenate([self.keys, self.rng.random(len(y))])
        kept = np.sort(np.argsort(keys)[: self.size])
        old = self.keys.size
        if old:
            X, y = np.concatenate([self.rows[0], X]), np.concatenate([self.rows[1], y])
        self.keys, self.rows = keys[kept], (X[kept], y[kept])
