"""Sums over held-out rows that measures are made of: of parts of the rows, and of all."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.columns.statistics import NumberStatistics
from mercer.display import tail_of
from mercer.inspection import loss_units
from mercer.metrics import auc_standard_error, concordance, ndcg
from mercer_app.rows import TableRows

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
