"""Measures of a table model on files, chunk by chunk, or where there are none of its training."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.cli._files import column_types, encoded_tables
from mercer.data import read_tables, schema
from mercer.data.columns import check_names
from mercer.default import DefaultLearner
from mercer.display import tail_of
from mercer.estimators import TableModel
from mercer.estimators.asking import encoded_targets, pair_parts, predictions_of, scores_of
from mercer.estimators.table import check_marks
from mercer.inspection import history_in_units, loss_units, name_of_loss
from mercer.losses import Logistic, Softmax, Squared
from mercer.metrics import auc_standard_error, concordance, ndcg

__all__ = ["Evaluation", "check_marks_of_novelty", "check_test_data", "evaluate", "progress_error"]

Array = NDArray[np.float64]
_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
# 90 % of a normal distribution are within so many standard deviations.
_INTERVAL_90 = 1.6448536269514722
_TOP = 10  # rows of a group that count for its discounted cumulative gain
_JUDGED = 20_000  # rows whose pairs are judged where rows have no scores
LEVELS = (0.9, 0.95, 0.99)


class Evaluation(NamedTuple):
    """Measures, and rows for pictures.

    Attributes
    ----------
    measures : dict of str to int or float
        In the units of the target.
    by_class : dict of str to dict
        Rows and error of each class; empty for a regression.
    X, y : ndarray
        At most as many rows as were asked for, drawn at random: encoded inputs and targets, the
        latter of shape (n_rows, 0) where there are none.
    losses : ndarray of shape (n_rows,) or None
        The model's own loss on every row (:func:`mercer.inspection.loss_units`); None if it has
        none, or has classes and minimises their mean.
    group : ndarray of shape (n_rows,) or None
        Groups of the rows ``X, y``, of a ranking within groups.
    """

    measures: dict[str, Any]
    by_class: dict[str, dict[str, Any]]
    X: NDArray[np.floating]
    y: NDArray[Any]
    losses: Array | None = None
    group: Array | None = None


def check_test_data(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None,
    outlier: str | None = None,
) -> str | None:
    """Raise ``ValueError`` unless the files have the columns of the model and the target.

    Parameters
    ----------
    model : TableModel
        A model past its warm-up.
    data : path
        As for :func:`mercer.data.read_tables`.
    target : str or None
        Column of the targets; None: where they were in training.
    outlier : str, default=None
        Label of novel rows, for novelty detection.

    Returns
    -------
    target : str or None
        Column of the targets; None for novelty detection on files without labels.
    """
    names = schema(data).names
    name = model.target if target is None else target
    if not model.has_target and target is None and name not in names:
        name = None  # labels are seldom known
    if outlier is not None and (model.has_target or name is None):
        why = "it is of task {model.task!r}" if model.has_target else "there are no labels"
        raise ValueError(
            f"`outlier` says which label marks novel rows, but {why.format(model=model)}. "
            + ("Leave it out." if model.has_target else "Name their column with `target`.")
        )
    more = [column for column in (name, model.group) if column is not None]
    check_names([*model.preprocessor.feature_names_in_, *more], names, f"{data}")
    return name


def check_marks_of_novelty(
    model: TableModel, data: str | os.PathLike[str], *, outlier: str | None
) -> None:
    """Raise ``ValueError`` unless test data, if they have the target, say which rows are novel.

    Parameters
    ----------
    model : TableModel
        A model past its warm-up; nothing is checked but of novelty detection.
    data, outlier
        As for :func:`check_test_data`, which comes first.
    """
    name = model.target
    if model.task != "novelty" or name is None or name not in schema(data).names:
        return
    labels = []
    for table in read_tables(data, columns=[name], column_types=column_types(model, data)):
        check_marks(table, name)
        labels.append(model.targets(table, column=name))
    if labels:
        novel_rows(np.concatenate(labels), outlier)


def evaluate(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    outlier: str | None = None,
    n_keep: int = 0,
) -> Evaluation:
    """Measure a model on rows that it has not learned.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    data, target, outlier
        As for :func:`check_test_data`.
    n_keep : int, default=0
        Rows to keep for pictures.

    Returns
    -------
    evaluation : Evaluation
        Classification: ``rows``, ``error_percent``, ``balanced_error_percent`` (mean over the
        classes present), ``commonest_class_error_percent`` (of always answering the commonest class
        of the test rows: what an error is to be compared with), ``log_loss`` (natural logarithm,
        probabilities of at least 2.2e-16) where the model has probabilities, ``auc`` for two
        classes, exact. Regression: ``mse``, ``rmse``, ``mae``, ``r2``; for quantiles
        ``pinball_<level>`` and ``coverage_<level>`` (the share of targets not above the
        prediction), for several of them ``mean_pinball`` and ``coverage_<lowest>_to_<highest>``
        (the share between the predictions), and the other
        measures for the median if it is there.
        Also ``mean_loss``, ``value_at_risk_<percent>`` and ``cvar_<percent>`` (mean of the worst
        losses) of the model's own loss at 90, 95 and 99 % and at the level of its risk, in the
        units of the target; of a classification only if it minimises a risk, and of rows with
        a class that was learned (``rows_without_loss`` counts the others).
        Gaussian process: those of a regression, ``log_density`` (mean logarithm of the predictive
        density) and ``coverage_90_percent`` (share of targets in central 90 % intervals). Novelty:
        ``novel_percent``; with labels ``labelled_novel_percent``, ``found_percent`` (of the novel
        rows), ``false_alarm_percent`` (of the others) and ``auc``. Ranking: ``pairs`` (of rows of
        one group, with different targets), for two classes ``auc`` with
        ``auc_standard_error`` (DeLong), else ``concordance`` (share of the pairs in the right
        order); with groups ``groups``, ``concordance`` within them and, for targets of at least
        0, ``ndcg_at_10`` (mean over groups of more than one row). Pair kernels without scores of
        rows: ``concordance`` or, for ``pair_label="same"``, ``auc_of_pairs``, on random pairs of
        at most 20,000 rows.

    Raises
    ------
    FileNotFoundError, ValueError
        For files, columns and targets that do not fit the model.
    """
    name = check_test_data(model, data, target=target, outlier=outlier)
    scores = scores_for(model, outlier)
    kept = RowSample(n_keep)
    more = () if model.group is None else (model.group,)
    for table, X, y in encoded_tables(model, data, target=name, more=more):
        if y is None:
            y = np.empty((len(X), 0))
        group = model.groups(table)
        scores.add(X, y, group)
        kept.add(X, y, group)
    if not scores.n_rows:
        raise ValueError(f"{data} holds no rows, so there is nothing to evaluate on.")
    losses = None if scores.tail is None else scores.tail.losses
    return Evaluation(
        {"rows": scores.n_rows, **scores.measures()},
        scores.by_class(),
        kept.X,
        kept.y,
        losses=None if losses is None or not losses.size else losses,
        group=kept.group,
    )


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
                self.tail.add(y[known], scores_of(self.estimator, X[known]))
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
        scores = scores_of(estimator, X)
        self.tail.add((y - model.target_mean_) / model.target_scale_, scores)
        return predictions_of(estimator, scores) * model.target_scale_ + model.target_mean_

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


class Densities:
    """Measures of a Gaussian process: of its means, and of the errors it says they have."""

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self.means = Quantities(model)
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.log_density = 0.0
        self.inside = 0

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.means.add(X, y)
        std = self.model.predict_std(X)
        z = (y - self.model.predict_inputs(X)) / std
        self.log_density -= float((0.5 * z**2 + np.log(std)).sum())
        self.inside += int((np.abs(z) <= _INTERVAL_90).sum())
        self.n_rows += len(y)

    def measures(self) -> dict[str, float]:
        return {
            **self.means.measures(),
            "log_density": self.log_density / self.n_rows - 0.5 * float(np.log(2.0 * np.pi)),
            "coverage_90_percent": 100.0 * self.inside / self.n_rows,
        }

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {}


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


class Rankings:
    """Measures of a ranking: of its scores, or of its answers on pairs if it has no scores."""

    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.labels = pair_parts(self.estimator).labels
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.sample = None if model.scores_rows else RowSample(_JUDGED)
        self.parts: list[tuple[Array, Array | None, Array]] = []  # scores, groups, numbers for y

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.n_rows += len(y)
        # Labels that training did not have get numbers of their own, the same in every chunk.
        self.labels = self.labels.meet(y)
        if self.sample is not None:
            self.sample.add(X, y, group)
        else:
            scores = self.estimator.decision_function(X)
            self.parts.append((scores, group, self.labels.encode(y)))

    def measures(self) -> dict[str, float]:
        if self.sample is not None:
            return self._of_pairs(self.sample)
        scores, y = (np.concatenate([part[i] for part in self.parts]) for i in (0, 2))
        groups = [part[1] for part in self.parts if part[1] is not None]
        return _of_scores(y, scores, np.concatenate(groups) if groups else None)

    def _of_pairs(self, sample: RowSample) -> dict[str, float]:
        result: dict[str, float] = {}
        if len(sample.y) < self.n_rows:
            result["rows_judged"] = len(sample.y)
        codes = self.labels.encode(sample.y)
        same = self.estimator.pair_label == "same"
        if not (_has_both_kinds(codes, sample.group) if same else has_pairs(codes, sample.group)):
            return result
        name = "auc_of_pairs" if same else "concordance"
        result[name] = float(self.estimator.score(sample.X, sample.y, group=sample.group))
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {}


def _of_scores(y: Array, scores: Array, group: Array | None) -> dict[str, float]:
    result: dict[str, float] = {}
    n_pairs = _count_pairs(y, group)
    if n_pairs:
        two = np.unique(y).size == 2 and group is None
        result["auc" if two else "concordance"] = concordance(y, scores, group)
        error = auc_standard_error(y == y.max(), scores) if two else np.nan
        if np.isfinite(error):
            result["auc_standard_error"] = error
    n_groups = 1 if group is None else np.unique(group).size
    if group is not None and n_groups < y.size:
        gains = (y == y.max()).astype(float) if np.unique(y).size == 2 else y
        if gains.min() >= 0.0:
            result[f"ndcg_at_{_TOP}"] = ndcg(gains, scores, group, k=_TOP)
    return {**result, "pairs": n_pairs, **({} if group is None else {"groups": n_groups})}


def _count_pairs(y: Array, group: Array | None) -> int:
    """Pairs of rows of one group with different y."""
    groups = np.zeros(y.size) if group is None else group
    together = np.unique(groups, return_counts=True)[1]
    tied = np.unique(np.column_stack([groups, y]), axis=0, return_counts=True)[1]
    return int((together * (together - 1) // 2).sum() - (tied * (tied - 1) // 2).sum())


def has_pairs(y: Array, group: Array | None) -> bool:
    """Whether two rows of one group have different y."""
    return _count_pairs(y, group) > 0


def _has_both_kinds(y: Array, group: Array | None) -> bool:
    """Whether some rows of one group have the same y, and some have not."""
    cells = y[:, np.newaxis] if group is None else np.column_stack([group, y])
    return has_pairs(y, group) and len(np.unique(cells, axis=0)) < y.size


class LossTail:
    """Losses of rows, and the worst of them.

    Parameters
    ----------
    model : TableModel
        A classification or a regression with a loss.
    """

    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.factor = loss_units(model).factor
        own = getattr(self.estimator.risk_, "level", None)
        self.levels = sorted({*LEVELS, *([] if own is None else [float(own)])})
        self.parts: list[Array] = []

    def add(self, y: NDArray[Any], scores: Array) -> None:
        """Take rows: their targets, as the estimator learns them, and their scores."""
        targets = encoded_targets(self.estimator, y)
        self.parts.append(self.factor * self.estimator.loss_.value(targets, scores))

    @property
    def losses(self) -> Array:
        """Loss of each row, in the units of :func:`loss_units`."""
        return np.concatenate(self.parts) if self.parts else np.empty(0)

    def measures(self) -> dict[str, float]:
        """Return the mean, and value at risk and CVaR at each level."""
        losses = self.losses
        if not losses.size:
            return {}
        result = {"mean_loss": float(losses.mean())}
        for tail in (tail_of(losses, level) for level in self.levels):
            percent = f"{100.0 * tail.level:g}"
            result[f"value_at_risk_{percent}"] = tail.value_at_risk
            result[f"cvar_{percent}"] = tail.cvar
        return result


class RowSample:
    """A uniform sample of rows of a stream: those with the smallest random keys.

    Parameters
    ----------
    size : int
        Rows to keep.

    Attributes
    ----------
    X, y : ndarray
        Inputs and targets.
    group : ndarray of shape (n_rows,) or None
        Groups, if there are any.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rng = np.random.default_rng(0)
        self.keys: Array = np.empty(0)
        self.X: NDArray[Any] = np.empty((0, 0))
        self.y: NDArray[Any] = np.empty(0)
        self.group: Array | None = None

    def add(self, X: NDArray[Any], y: NDArray[Any], group: Array | None = None) -> None:
        """Take some more rows of the stream."""
        if not self.size:
            return
        keys = np.concatenate([self.keys, self.rng.random(len(y))])
        kept = np.sort(np.argsort(keys)[: self.size])
        if self.keys.size:
            X, y = np.concatenate([self.X, X]), np.concatenate([self.y, y])
            if group is not None and self.group is not None:
                group = np.concatenate([self.group, group])
        self.keys, self.X, self.y = keys[kept], X[kept], y[kept]
        self.group = None if group is None else group[kept]


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
            "rows half of them, each in turn), but by which the weights of the parts were chosen"
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
