"""Measures of table models, added up chunk by chunk."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.cli._ranking import Rankings
from mercer.cli._risk import LossTail
from mercer.estimators import TableModel

__all__ = ["Scores", "novel_rows", "scores_for"]

Array = NDArray[np.float64]

_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
# 90 % of a normal distribution are within so many standard deviations.
_INTERVAL_90 = 1.6448536269514722


def scores_for(model: TableModel, outlier: str | None = None) -> Scores:
    """Return what adds up the measures of a model's task.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    outlier : str, default=None
        Label of novel rows; None: the rarer of two.
    """
    if model.task == "novelty":
        return Novelties(model, outlier)
    kinds: dict[str, Any] = {
        "classification": Classes,
        "regression": Quantities,
        "rank": Rankings,
        "gp": Densities,
    }
    scores: Scores = kinds[model.task](model)
    return scores


class Scores(Protocol):
    """Sums over held-out rows that measures are made of."""

    n_rows: int
    tail: LossTail | None

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None: ...

    def measures(self) -> dict[str, float]: ...

    def by_class(self) -> dict[str, dict[str, Any]]: ...


class Classes:
    """Measures of a classification."""

    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.target = model.target
        self.n_rows = 0
        self.counts: dict[Any, NDArray[np.int64]] = {}  # label -> rows, errors
        self.log_loss = 0.0
        self.scores: list[Array] = []
        self.positive: list[NDArray[np.bool_]] = []
        self.tail = None if self.estimator.risk_ is None else LossTail(model)

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
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
        if self.tail is not None:
            known = np.isin(y, classes)  # rows of other classes have no loss
            if known.any():
                self.tail.add(y[known], self.estimator._scores(X[known]))
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
        result["commonest_class_error_percent"] = float(100.0 * (1.0 - rows.max() / self.n_rows))
        if self.tail is not None:
            without = self.n_rows - self.tail.losses.size
            result |= {"rows_without_loss": without} if without else {}
            result |= self.tail.measures()
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {
            str(label): {"rows": int(rows), "error %": 100.0 * wrong / rows}
            for label, (rows, wrong) in sorted(self.counts.items(), key=lambda item: str(item[0]))
        }


class Quantities:
    """Measures of a regression, in units of the target."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.tail = LossTail(model) if hasattr(model.estimator, "loss_") else None
        levels = getattr(getattr(model.estimator, "loss_", None), "levels", None)
        self.levels = None if levels is None else np.atleast_1d(np.asarray(levels, dtype=float))
        self.n_rows = 0
        # Sums about the mean of training: squares of far-away values would cancel.
        self.sums = np.zeros(4)  # y, y^2, squared and absolute errors
        self.pinball: Array = np.zeros(0 if self.levels is None else self.levels.size)
        self.covered: Array = self.pinball.copy()
        self.between = 0

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        predicted = self._predicted(X, y).reshape(len(y), -1)
        middle = predicted[:, 0]
        if self.levels is not None:
            residual = y[:, None] - predicted
            self.pinball += np.maximum(self.levels * residual, (self.levels - 1) * residual).sum(0)
            self.covered += (residual <= 0.0).sum(axis=0)
            above, below = residual[:, np.argmin(self.levels)], residual[:, np.argmax(self.levels)]
            self.between += int(((above >= 0.0) & (below <= 0.0)).sum())
            middle = predicted[:, np.argmin(np.abs(self.levels - 0.5))]
        centred = y - self.model.target_mean_
        error = middle - y
        self.sums += [centred.sum(), centred @ centred, error @ error, np.abs(error).sum()]
        self.n_rows += len(y)

    def _predicted(self, X: NDArray[np.floating], y: NDArray[Any]) -> Array:
        """Predict; the losses are made of the same scores, which are what takes time."""
        model, estimator = self.model, self.model.estimator
        if self.tail is None:
            return model.predict_inputs(X)
        scores = estimator._scores(X)
        self.tail.add((y - model.target_mean_) / model.target_scale_, scores)
        predicted = estimator._targets(scores) * model.target_scale_ + model.target_mean_
        return np.asarray(predicted)

    def measures(self) -> dict[str, float]:
        return self._usual() | ({} if self.tail is None else self.tail.measures())

    def _usual(self) -> dict[str, float]:
        n = self.n_rows
        result = {}
        if self.levels is not None:
            if self.levels.size > 1:
                band = f"coverage_{self.levels.min():g}_to_{self.levels.max():g}"
                result["mean_pinball"] = float(self.pinball.mean() / n)
                result[band] = self.between / n
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


class Densities(Quantities):
    """Measures of a Gaussian process: of its means, and of the errors it says they have."""

    def __init__(self, model: TableModel) -> None:
        super().__init__(model)
        self.log_density = 0.0
        self.inside = 0

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        super().add(X, y, group)
        std = self.model.predict_std(X)
        z = (y - self.model.predict_inputs(X)) / std
        self.log_density -= float((0.5 * z**2 + np.log(std)).sum())
        self.inside += int((np.abs(z) <= _INTERVAL_90).sum())

    def measures(self) -> dict[str, float]:
        return {
            **super().measures(),
            "log_density": self.log_density / self.n_rows - 0.5 * float(np.log(2.0 * np.pi)),
            "coverage_90_percent": 100.0 * self.inside / self.n_rows,
        }


class Novelties:
    """Measures of a novelty detector; of its ranking only if there are labels."""

    def __init__(self, model: TableModel, outlier: str | None) -> None:
        self.estimator: Any = model.estimator
        self.outlier = outlier
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.scores: list[Array] = []
        self.labels: list[NDArray[Any]] = []

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.scores.append(self.estimator.decision_function(X))
        if y.ndim == 1:
            self.labels.append(y)
        self.n_rows += len(y)

    def measures(self) -> dict[str, float]:
        scores = np.concatenate(self.scores)
        found = scores < 0.0
        result = {"novel_percent": 100.0 * float(found.mean())}
        if not self.labels:
            return result
        novel = novel_rows(np.concatenate(self.labels), self.outlier)
        result["labelled_novel_percent"] = 100.0 * float(novel.mean())
        if novel.any():
            result["found_percent"] = 100.0 * float(found[novel].mean())
        if not novel.all():
            result["false_alarm_percent"] = 100.0 * float(found[~novel].mean())
        if 0 < novel.sum() < novel.size:
            result["auc"] = float(roc_auc_score(novel, -scores))
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {}


def novel_rows(labels: NDArray[Any], outlier: str | None) -> NDArray[np.bool_]:
    """Tell which rows the labels call novel.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Labels of two kinds, or of more if ``outlier`` says which is that of novel rows.
    outlier : str or None
        Label of novel rows; None: the rarer of two.

    Returns
    -------
    novel : ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If that cannot be told.
    """
    values, counts = np.unique(labels, return_counts=True)
    if outlier is not None:
        marked = np.array([_same(value, outlier) for value in values.tolist()])
        if not marked.any() and values.size > 1:
            raise ValueError(
                f"`outlier` is {outlier!r}, but the labels are "
                f"{', '.join(map(repr, values[:5].tolist()))}: no row would be novel."
            )
        return np.isin(labels, values[marked])
    if values.size > 2 or (values.size == 2 and counts[0] == counts[1]):
        seen = ", ".join(map(repr, values[:5].tolist()))
        raise ValueError(
            f"`outlier` must say which label marks novel rows: there are {values.size}, "
            f"{seen}, and none is the rarer of two."
        )
    if values.size < 2:
        raise ValueError(
            f"All labels are {values.tolist()[0]!r}, so `outlier` must say whether that marks "
            "novel rows."
        )
    return np.asarray(labels == values[np.argmin(counts)])


def _same(value: Any, text: str) -> bool:
    """Whether a label is the one that was written on the command line."""
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, str):
        return value == text
    try:
        return float(value) == float(text)
    except ValueError:
        return False
