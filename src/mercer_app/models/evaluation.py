"""Measures of a table model on files, chunk by chunk, or without files from its training."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import check_names
from mercer.default import DefaultLearner
from mercer.inspection import history_in_units, loss_units, name_of_loss, unit_of_target
from mercer.losses import Logistic, Softmax, Squared
from mercer_app.files import read_tables, schema
from mercer_app.files.tables import Labelled, find_files, has_types, in_place
from mercer_app.models.files import Oddities, column_types, encoded_tables, values_of
from mercer_app.models.measures import RowSample, novel_rows, refuse_unknown, scores_for
from mercer_app.models.shards import Asked, Workers, encoded_shard, of_shards
from mercer_app.rows import TableRows, check_marks
from mercer_cluster.progress import Callback
from mercer_cluster.shards import FileShard

Array = NDArray[np.float64]


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
    names = schema(data).names
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
    if reads.task != "novelty" or name is None or name not in schema(data).names:
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
