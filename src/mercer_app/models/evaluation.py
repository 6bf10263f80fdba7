"""Measures of a table model on files, chunk by chunk, or without files from its training.

They are made of sums over held-out rows, of parts of the rows or of all.
"""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.columns.statistics import NumberStatistics
from mercer.columns.views import check_names
from mercer.default import DefaultLearner
from mercer.display import tail_of
from mercer.inspection import history_in_units, loss_units, name_of_loss, unit_of_target
from mercer.losses import Logistic, Softmax, Squared
from mercer.metrics import auc_standard_error, concordance, ndcg
from mercer_app.files import read_tables
from mercer_app.files.tables import Labelled, TableFiles, find_files, has_types, in_place
from mercer_app.models.files import Oddities, column_types, encoded_tables, values_of
from mercer_app.models.shards import Asked, Workers, encoded_shard, of_shards
from mercer_app.rows import TableRows, check_marks
from mercer_cluster.engines.engine import Callback
from mercer_cluster.shards import FileShard

Array = NDArray[np.float64]
_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)
# 90 % of a normal distribution lie within this many standard deviations.
_INTERVAL_90 = 1.6448536269514722
_TOP = 10  # rows of a group that count for its discounted cumulative gain
_JUDGED = 20_000  # rows whose pairs are judged where rows have no scores
_NAMED = 5  # labels in a message
LEVELS = (0.9, 0.95, 0.99)


def scores_for(reads: TableRows, outlier: str | None = None, part: int = 0) -> Scores:
    """Return what adds up the measures of a model's task.

    Parameters
    ----------
    reads : TableRows
        A fitted model.
    outlier : str, default=None
        Label of novel rows; None: the rarer of two.
    part : int, default=0
        Which part of the rows it is for: samples of parts differ.
    """
    if reads.task == "novelty":
        return Novelties(reads, outlier)
    if reads.task == "rank":
        return Rankings(reads, part)
    kinds: dict[str, Any] = {
        "classification": Classes,
        "regression": Quantities,
        "gp": Densities,
    }
    found: Scores = kinds[reads.task](reads)
    return found


class _WithoutModel:
    """Sums that travel without the model that made them; such ones can only be merged."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "estimator"}


class Scores(_WithoutModel, ABC):
    """Sums over held-out rows that measures are made of.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    tail : LossTail or None
        The worst losses, if they are measured.
    """

    n_rows: int
    tail: LossTail | None

    @abstractmethod
    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        """Take some more rows."""

    def merge(self, other: Self) -> None:
        """Add the sums of later rows."""
        self.n_rows += other.n_rows
        if self.tail is not None and other.tail is not None:
            self.tail.parts += other.tail.parts

    def check(self, data: object, target: str | None) -> None:
        """Return a note on targets that no measure covers; only for classes.

        Raises
        ------
        ValueError
            If the model knows none of the classes, so that all is wrong whatever it answers.

        Warns
        -----
        UserWarning
            If it does not know some.
        """

    @abstractmethod
    def measures(self) -> dict[str, float]:
        """Return the measures of all rows."""

    def by_class(self) -> dict[str, dict[str, Any]]:
        """Return rows and error of each class; of a classification only."""
        return {}


class Classes(Scores):
    """Measures of a classification."""

    def __init__(self, reads: TableRows) -> None:
        self.estimator: Any = reads.estimator
        self.target = reads.target
        self.n_rows = 0
        self.counts: dict[Any, NDArray[np.int64]] = {}  # label -> rows, errors
        self.log_loss = 0.0
        self.scores: list[Array] = []
        self.positive: list[NDArray[np.bool_]] = []
        self.tail = None if self.estimator.risk_ is None else LossTail(reads)

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
                self.tail.add(y[known], self.estimator.scores(X[known]))
        self.n_rows += len(y)

    def merge(self, other: Self) -> None:
        super().merge(other)
        for label, counts in other.counts.items():
            self.counts[label] = self.counts.get(label, 0) + counts
        self.log_loss += other.log_loss
        self.scores += other.scores
        self.positive += other.positive

    def check(self, data: object, target: str | None) -> None:
        known = set(self.estimator.classes_.tolist())
        unknown = [label for label in self.counts if label not in known]
        if len(unknown) == len(self.counts):
            refuse_unknown(unknown, known, data, target)
        if unknown:
            n = sum(int(self.counts[label][0]) for label in unknown)
            warnings.warn(
                f"The target {target!r} of {data} holds classes that the model does not know, "
                f"{_listed(unknown)}: {n:,} of {self.n_rows:,} rows count as errors whatever it "
                f"answers. It knows {_listed(known)}.",
                stacklevel=3,
            )

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


def refuse_unknown(
    labels: Collection[Any], known: Collection[Any], data: object, target: str | None
) -> NoReturn:
    """Raise ``ValueError`` for labels of which a model knows none."""
    plain = {str(label).strip().casefold() for label in known}
    alike = any(str(label).strip().casefold() in plain for label in labels)
    raise ValueError(
        f"The target {target!r} of {data} holds no class that the model knows, so that every "
        f"answer would be wrong. It holds {_listed(labels)}; the model knows {_listed(known)}. "
        + ("They differ in capitals or spaces. " if alike else "")
        + "Write the classes as in the training data, or name their column with `target`."
    )


def _listed(labels: Collection[Any]) -> str:
    """List labels in words, at most five of them.

    Examples
    --------
    >>> _listed(["b", "a"]), _listed(range(7))
    ("'a', 'b'", '0, 1, 2, 3, 4 and 2 more')
    """
    shown = ", ".join(map(repr, sorted(labels)[:_NAMED]))
    return shown + (f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else "")


class Quantities(Scores):
    """Measures of a regression, in units of the target."""

    def __init__(self, reads: TableRows) -> None:
        self.estimator: Any = reads.estimator
        self.form = reads.target_form
        self.tail = LossTail(reads) if hasattr(reads.estimator, "loss_") else None
        levels = getattr(getattr(reads.estimator, "loss_", None), "levels", None)
        self.levels = None if levels is None else np.atleast_1d(np.asarray(levels, dtype=float))
        self.n_rows = 0
        self.targets = NumberStatistics.of(np.zeros((1, 0)))
        self.errors = np.zeros(2)  # squared and absolute ones
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
        error = middle - y
        self.errors += [error @ error, np.abs(error).sum()]
        self.targets.merge(NumberStatistics.of(y[np.newaxis]))
        self.n_rows += len(y)

    def merge(self, other: Self) -> None:
        self.targets.merge(other.targets)
        super().merge(other)
        self.errors += other.errors
        self.pinball += other.pinball
        self.covered += other.covered
        self.between += other.between

    def _predicted(self, X: NDArray[np.floating], y: NDArray[Any]) -> Array:
        """Predict; the losses are made of the same scores, which are what takes time."""
        if self.tail is None:
            return np.asarray(self.estimator.predict(X))
        scores = self.estimator.scores(X)
        self.tail.add(y, scores)
        return np.asarray(self.estimator.targets_.predict(scores))

    def measures(self) -> dict[str, Any]:
        return self._usual() | ({} if self.tail is None else self.tail.measures())

    def _usual(self) -> dict[str, Any]:
        n, form = self.n_rows, self.form
        result: dict[str, Any] = {}
        if form is not None and form.kind != "number":
            result["unit"] = form.unit
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
        squared_errors, absolute_errors = self.errors.tolist()
        result["mse"] = squared_errors / n
        result["rmse"] = float(np.sqrt(squared_errors / n))
        result["mae"] = absolute_errors / n
        (spread,) = self.targets.sum_squares.tolist()
        if spread > 0.0:
            result["r2"] = 1.0 - squared_errors / spread
        return result


class Densities(Scores):
    """Measures of a Gaussian process: of its means, and of the errors that it predicts."""

    def __init__(self, reads: TableRows) -> None:
        self.estimator: Any = reads.estimator
        self.means = Quantities(reads)
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.log_density = 0.0
        self.inside = 0

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.means.add(X, y)
        mean, std = self.estimator.predict(X, return_std=True, include_noise=True)
        z = (y - mean) / std
        self.log_density -= float((0.5 * z**2 + np.log(std)).sum())
        self.inside += int((np.abs(z) <= _INTERVAL_90).sum())
        self.n_rows += len(y)

    def merge(self, other: Self) -> None:
        super().merge(other)
        self.means.merge(other.means)
        self.log_density += other.log_density
        self.inside += other.inside

    def measures(self) -> dict[str, float]:
        return {
            **self.means.measures(),
            "log_density": self.log_density / self.n_rows - 0.5 * float(np.log(2.0 * np.pi)),
            "coverage_90_percent": 100.0 * self.inside / self.n_rows,
        }


class Novelties(Scores):
    """Measures of a novelty detector; of its ranking only if there are labels."""

    def __init__(self, reads: TableRows, outlier: str | None) -> None:
        self.estimator: Any = reads.estimator
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

    def merge(self, other: Self) -> None:
        super().merge(other)
        self.scores += other.scores
        self.labels += other.labels

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


def novel_rows(labels: NDArray[Any], outlier: str | None) -> NDArray[np.bool_]:
    """Tell which rows the labels call novel.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Labels of two kinds, or of more if ``outlier`` names the label of novel rows.
    outlier : str or None
        Label of novel rows; None: the rarer of two.

    Returns
    -------
    novel : ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If that cannot be determined.
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


class Rankings(Scores):
    """Measures of a ranking: of its scores, or of its answers on pairs if it has no scores."""

    def __init__(self, reads: TableRows, part: int = 0) -> None:
        self.estimator: Any = reads.estimator
        self.labels = self.estimator.targets_.labels
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.sample = None if reads.scores_rows else RowSample(_JUDGED, part)
        self.parts: list[tuple[Array, Array | None, NDArray[Any]]] = []  # scores, groups, y

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.n_rows += len(y)
        # Labels that training did not have get their own numbers, the same in every chunk.
        self.labels = self.labels.meet(y)
        if self.sample is not None:
            self.sample.add(X, y, group)
        else:
            scores = self.estimator.decision_function(X)
            self.parts.append((scores, group, y))

    def merge(self, other: Self) -> None:
        super().merge(other)
        self.parts += other.parts
        for _, _, y in other.parts:
            self.labels = self.labels.meet(y)
        if self.sample is not None and other.sample is not None:
            self.sample.merge(other.sample)
            self.labels = self.labels.meet(self.sample.y)

    def measures(self) -> dict[str, float]:
        if self.sample is not None:
            return self._of_pairs(self.sample)
        scores, y = (np.concatenate([part[i] for part in self.parts]) for i in (0, 2))
        groups = [part[1] for part in self.parts if part[1] is not None]
        codes = self.labels.encode(y)
        return _of_scores(codes, scores, np.concatenate(groups) if groups else None)

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


class LossTail(_WithoutModel):
    """Losses of rows, and the largest of them.

    Parameters
    ----------
    reads : TableRows
        A classification or a regression with a loss.
    """

    def __init__(self, reads: TableRows) -> None:
        self.estimator: Any = reads.estimator
        self.factor = loss_units(reads.model).factor
        own = getattr(self.estimator.risk_, "level", None)
        self.levels = sorted({*LEVELS, *([] if own is None else [float(own)])})
        self.parts: list[Array] = []

    def add(self, y: NDArray[Any], scores: Array) -> None:
        """Take rows: their targets, in their own units, and their scores."""
        targets = self.estimator.targets_.encode(y)
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
    part : int, default=0
        Which part of a stream it is of.

    Attributes
    ----------
    X, y : ndarray
        Inputs and targets.
    group : ndarray of shape (n_rows,) or None
        Groups, if there are any.
    columns : dict of str to ndarray of objects
        What the rows have in some columns, if these were given.
    """

    def __init__(self, size: int, part: int = 0) -> None:
        self.size = size
        self.rng = np.random.default_rng(part)
        self.keys: Array = np.empty(0)
        self.X: NDArray[Any] = np.empty((0, 0))
        self.y: NDArray[Any] = np.empty(0)
        self.group: Array | None = None
        self.columns: dict[str, NDArray[Any]] = {}

    def add(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        group: Array | None = None,
        columns: dict[str, NDArray[Any]] | None = None,
    ) -> None:
        """Take some more rows of the stream."""
        if self.size:
            self._take(self.rng.random(len(y)), X, y, group, columns or {})

    def merge(self, other: RowSample) -> None:
        """Add the sampled rows of a later part."""
        if other.keys.size:
            self._take(other.keys, other.X, other.y, other.group, other.columns)

    def _take(
        self,
        keys: Array,
        X: NDArray[Any],
        y: NDArray[Any],
        group: Array | None,
        columns: dict[str, NDArray[Any]],
    ) -> None:
        keys = np.concatenate([self.keys, keys])
        kept = np.sort(np.argsort(keys)[: self.size])
        if self.keys.size:
            X, y = np.concatenate([self.X, X]), np.concatenate([self.y, y])
            if group is not None and self.group is not None:
                group = np.concatenate([self.group, group])
            columns = {k: np.concatenate([self.columns[k], v]) for k, v in columns.items()}
        self.keys, self.X, self.y = keys[kept], X[kept], y[kept]
        self.columns = {name: values[kept] for name, values in columns.items()}
        self.group = None if group is None else group[kept]


class Evaluation(NamedTuple):
    """Measures, and rows for pictures.

    Attributes
    ----------
    measures : dict of str to int or float
        In the units of the target.
    by_class : dict of str to dict
        Rows and error of each class; empty for a regression.
    X, y : ndarray
        A random sample, of limited size, of encoded inputs and targets; y has shape (n_rows, 0)
        without targets.
    losses : ndarray of shape (n_rows,) or None
        The model's own loss on every row (:func:`mercer.inspection.loss_units`); None if it has
        none, or has classes and minimises their mean.
    group : ndarray of shape (n_rows,) or None
        Groups of the rows ``X, y``, of a ranking within groups.
    columns : mapping of str to ndarray of objects
        What the rows ``X, y`` have in the columns that were asked for.
    """

    measures: dict[str, Any]
    by_class: dict[str, dict[str, Any]]
    X: NDArray[np.floating]
    y: NDArray[Any]
    losses: Array | None = None
    group: Array | None = None
    columns: Mapping[str, NDArray[Any]] = {}


def check_test_data(
    reads: TableRows,
    data: str | os.PathLike[str],
    *,
    target: str | None,
    outlier: str | None = None,
) -> str | None:
    """Raise ``ValueError`` unless the files have the columns of the model and the target.

    Parameters
    ----------
    reads : TableRows
        A model past its warm-up.
    data : path
        As for :func:`mercer_app.files.read_tables`.
    target : str or None
        Column of the targets; None: where they were in training.
    outlier : str, default=None
        Label of novel rows, for novelty detection.

    Returns
    -------
    target : str or None
        Column of the targets; None for novelty detection on files without labels.
    """
    names = TableFiles.of(data).columns.names
    name = reads.target if target is None else target
    if not reads.has_target and target is None and name not in names:
        name = None  # labels are seldom known
    if outlier is not None and (reads.has_target or name is None):
        why = "it is of task {reads.task!r}" if reads.has_target else "there are no labels"
        raise ValueError(
            f"`outlier` says which label marks novel rows, but {why.format(reads=reads)}. "
            + ("Leave it out." if reads.has_target else "Name their column with `target`.")
        )
    more = [column for column in (name, reads.compared_within) if column is not None]
    inputs, others = reads.preprocessor.feature_names_in_, reads.preprocessor.exclude
    check_names(inputs, names, f"{data}", taken=[*more, *others])
    check_names(more, names, f"{data}", taken=inputs)
    return name


def check_marks_of_novelty(
    reads: TableRows, data: str | os.PathLike[str], *, outlier: str | None
) -> None:
    """Raise ``ValueError`` if labels of test data do not show which rows are novel.

    Parameters
    ----------
    reads : TableRows
        A model past its warm-up; only novelty detection is checked.
    data, outlier
        As for :func:`check_test_data`, which is called first.
    """
    name = reads.target
    names = TableFiles.of(data).columns.names if reads.task == "novelty" else []
    if name is None or name not in names:
        return
    labels = []
    for table in read_tables(data, columns=[name], column_types=column_types(reads, data)):
        check_marks(table, name)
        labels.append(reads.targets(table, column=name))
    if labels:
        novel_rows(np.concatenate(labels), outlier)


def check_classes(reads: TableRows, classes: Collection[Any], data: str | os.PathLike[str]) -> None:
    """Raise ``ValueError`` if test data have none of the classes that a training has met.

    Parameters
    ----------
    reads : TableRows
        A model past its warm-up.
    classes : collection of labels
        Classes among the first rows; nothing is checked if there are none.
    data : path
        As for :func:`check_test_data`, which comes first.
    """
    if not classes:
        return
    target, found = str(reads.target), set()
    types = column_types(reads, data)
    if all(isinstance(label, str) for label in classes) and not has_types(find_files(data)):
        types[target] = "string"  # all digits are text here, too
    tables = read_tables(data, columns=[target], column_types=types)
    for labels in in_place(data, tables, reads.targets, labelled=Labelled(target)):
        found.update(np.unique(labels).tolist())
        if not found.isdisjoint(classes):
            return
    if found:
        refuse_unknown(found, classes, data, target)


def evaluate(
    reads: TableRows,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    outlier: str | None = None,
    n_keep: int = 0,
    keep: Sequence[str] = (),
    workers: Workers | None = None,
    callback: Callback = None,
    strict: bool = False,
) -> Evaluation:
    """Measure a model on rows that it has not learned.

    Parameters
    ----------
    reads : TableRows
        A fitted model.
    data, target, outlier
        As for :func:`check_test_data`.
    n_keep : int, default=0
        Rows to keep for pictures.
    keep : sequence of str, default=()
        Columns of these rows whose values are kept, too.
    workers : Workers, default=None
        Who reads and predicts the shards of the data; None: this process.
    callback : callable, default=None
        Told a :class:`mercer_cluster.Progress` whenever workers have done a shard.
    strict : bool, default=False
        Whether a cell unlike its column is an error; otherwise it counts as missing.

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
        For files, columns and targets that do not fit the model, such as classes of which it knows
        none.

    Warns
    -----
    UserWarning
        If it does not know some of the classes.
    """
    data = TableFiles.of(data)
    name = check_test_data(reads, data, target=target, outlier=outlier)
    more = () if reads.compared_within is None else (reads.compared_within,)
    found = _Held(reads, outlier, n_keep, keep)
    if workers is None:
        for rows in encoded_tables(reads, data, target=name, more=more, strict=strict):
            found.add(reads, *rows)
    else:
        asked = Asked(reads, name, (outlier, n_keep, tuple(keep)), strict=strict)
        answers = of_shards(
            _of_shard, asked, data, workers, stage="evaluate", more=more, callback=callback
        )
        odd = Oddities()
        for _, (part, its_odd) in sorted(answers, key=lambda answer: answer[0]):
            found.merge(part)
            odd.merge(its_odd)
        odd.warn(reads, data)
    scores, kept = found.scores, found.kept
    if not scores.n_rows:
        some = "" if name is None else f" with a value of {name!r}"
        raise ValueError(f"{data} holds no rows{some}, so there is nothing to evaluate on.")
    scores.check(data, name)
    losses = None if scores.tail is None else scores.tail.losses
    return Evaluation(
        {"rows": scores.n_rows, **scores.measures()},
        scores.by_class(),
        kept.X,
        kept.y,
        losses=None if losses is None or not losses.size else losses,
        group=kept.group,
        columns=kept.columns,
    )


class _Held:
    """What is added up over held-out rows.

    Attributes
    ----------
    scores : Scores
        What measures are made of.
    kept : RowSample
        Rows for pictures.
    """

    def __init__(
        self,
        reads: TableRows,
        outlier: str | None,
        n_keep: int,
        keep: Sequence[str] = (),
        part: int = 0,
    ) -> None:
        self.keep = keep
        self.scores = scores_for(reads, outlier, part)
        self.kept = RowSample(n_keep, part)

    def add(self, reads: TableRows, table: Any, X: NDArray[np.floating], y: Any) -> None:
        """Take some more rows."""
        if y is None:
            y = np.empty((len(X), 0))
        group = None if reads.compared_within is None else reads.groups(table)
        self.scores.add(X, y, group)
        self.kept.add(X, y, group, values_of(table, self.keep) if self.kept.size else None)

    def merge(self, other: Self) -> None:
        """Add the rows of a later part."""
        self.scores.merge(other.scores)
        self.kept.merge(other.kept)


def _of_shard(asked: Asked, shard: FileShard, number: int) -> tuple[tuple[_Held, Oddities], int]:
    """Add up over the rows of a shard."""
    outlier, n_keep, keep = asked.more
    found = _Held(asked.reads, outlier, n_keep, keep, number)
    odd = Oddities(strict=asked.strict)
    for rows in encoded_shard(asked, shard, odd):
        found.add(asked.reads, *rows)
    return (found, odd), odd.n_rows


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


def progress_error(reads: TableRows) -> ProgressError | None:
    """Return the mean error of rows that were predicted before they were learned.

    Parameters
    ----------
    reads : TableRows
        A fitted model.

    Returns
    -------
    error : ProgressError or None
        None but for classifications and regressions that minimise the mean of a loss.
    """
    estimator: Any = reads.estimator
    predicts = reads.task in ("classification", "regression")
    if not predicts or estimator.risk_ is not None:
        return None
    history = history_in_units(reads.model)
    if not history.n_samples.size:
        return None
    if isinstance(estimator.learner_, DefaultLearner):
        loss, rows = float(history.loss[-1]), "rows kept back"
        how = (
            "of rows that the fit which predicted them did not have (the last ones; up to 2,000 "
            "rows half of them, each in turn), but by which the weights of the parts were chosen"
        )
    else:
        # The first rows were predicted by a model that had learned nothing.
        late = history.n_samples > history.n_samples[-1] // 2
        counts = np.diff(history.n_samples, prepend=0)[late]
        loss, rows = float(np.average(history.loss[late], weights=counts)), "rows as they came"
        how = "of the second half of the rows, each predicted before its step"
    if not math.isfinite(loss):
        return None
    name, value, unit = name_of_loss(estimator), loss, loss_units(reads.model).name
    if isinstance(estimator.loss_, Squared):
        name, value, unit = "RMSE", math.sqrt(2.0 * loss), unit.removesuffix("²")
    form = reads.target_form
    if form is not None and form.kind != "number":
        name += f" in {unit}"
    return ProgressError(
        f"{name}, {rows}",
        value,
        f"No test data were given: the {name} is {how}{_comparison(reads)}. Rows of a test file "
        "(--test) say more.",
    )


def said_of_progress(reads: TableRows) -> list[str]:
    """Say how good a model is after a fit without test data, in a line for each measure."""
    seen, right = progress_error(reads), _right_of_kept_back(reads)
    return [
        *([] if seen is None else [f"{seen.name}: {seen.value:.4g}"]),
        *([right] if right else []),
    ]


def _right_of_kept_back(reads: TableRows) -> str:
    """Say how many of the rows that a classifier kept back it is right for; "" of other models."""
    held = getattr(reads.estimator, "held_out_", None)
    if reads.task != "classification" or held is None or not held.weights.any():
        return ""
    said = reads.estimator.targets_.said(held.scores).labels
    labels, numbers = np.unique(held.y, return_inverse=True)
    shares = np.bincount(numbers, weights=held.weights) / held.weights.sum()
    right = float(np.average(said == held.y, weights=held.weights))
    return (
        f"right, rows kept back: {right:.1%} of {len(held.y):,} (always answering "
        f"{str(labels[shares.argmax()])!r}: {shares.max():.1%})"
    )


def _comparison(reads: TableRows) -> str:
    """Say what knowing no inputs would give."""
    estimator: Any = reads.estimator
    if isinstance(estimator.loss_, Squared):
        deviation = _deviation_of_target(estimator)
        return "" if deviation is None else f"; their standard deviation is {deviation:.4g}"
    if not isinstance(estimator.loss_, Logistic | Softmax) or estimator.class_weight is not None:
        return ""
    if isinstance(estimator.loss_, Logistic) and estimator.classes_.size > 2:
        return ""
    shares = estimator.class_counts_ / estimator.class_counts_.sum()
    entropy = -float(np.sum(shares * np.log(np.where(shares > 0.0, shares, 1.0))))
    return f"; going by the shares of the classes alone it is {entropy:.4g}"


def _deviation_of_target(estimator: Any) -> float | None:
    """Return the standard deviation of a target, of rows kept back or of the first ones."""
    held, unit = estimator.held_out_, unit_of_target(estimator)
    if held is not None and held.weights.any():
        mean = np.average(held.y, weights=held.weights)
        return float(np.sqrt(np.average((held.y - mean) ** 2, weights=held.weights)))
    return None if unit is None else unit[1]
