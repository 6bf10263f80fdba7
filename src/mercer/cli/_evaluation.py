"""Measures of a table model on files, chunk by chunk."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.cli._console import note
from mercer.cli._measures import novel_rows, scores_for
from mercer.cli._sample import RowSample
from mercer.data import read_tables, schema
from mercer.data.columns import check_names, first_text, level_column, listed
from mercer.data.tables import has_types, in_place, place_of
from mercer.data.views import view_table
from mercer.estimators import TableModel
from mercer.estimators.table_tasks import check_marks

__all__ = [
    "Evaluation",
    "check_marks_of_novelty",
    "check_test_data",
    "encoded_tables",
    "evaluate",
    "note_extra",
]

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
        At most as many rows as were asked for, drawn at random: encoded inputs and targets, the
        latter of shape (n_rows, 0) where there are none.
    losses : ndarray of shape (n_rows,) or None
        The model's own loss on every row (:func:`mercer.cli._risk.loss_units`); None if it has
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


def note_extra(
    model: TableModel, data: str | os.PathLike[str], *used: str | None, quiet: bool = False
) -> None:
    """Say once which columns of the files neither training knew nor this command uses."""
    known = {*model.preprocessor.feature_names_in_, *model.preprocessor.exclude, *used}
    extra = [name for name in schema(data).names if name not in known]
    if extra:
        note(f"{data}: not looked at, as training had no such column: {listed(extra)}", quiet=quiet)


def column_types(model: TableModel, data: str | os.PathLike[str]) -> dict[str, str]:
    """Types of columns that CSV files must be read with: text stays text, even if all digits."""
    if has_types(data):
        return {}
    text = list(model.text_columns_)
    labels = getattr(model.estimator, "classes_", None)
    if labels is not None and labels.dtype.kind == "U":
        text.append(str(model.target))
    return dict.fromkeys(sorted(set(text) & set(schema(data).names)), "string")


def encoded_tables(
    model: TableModel,
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    more: Sequence[str] = (),
) -> Iterator[tuple[Any, NDArray[np.floating], Any]]:
    """Read files for a model; yield tables with encoded inputs and, with ``target``, targets.

    Warns
    -----
    UserWarning
        At the end, if there were gaps in columns that had none in training, or new categories.
    """
    _refuse_text(model, data)
    more = [*more] if target is None else [*more, target]
    columns = list(dict.fromkeys([*model.preprocessor.feature_names_in_, *more]))
    tables = read_tables(data, columns=columns, column_types=column_types(model, data))
    gaps: Counter[str] = Counter()
    new: Counter[str] = Counter()
    examples: dict[str, str] = {}
    n_rows = 0
    for table, X, y in in_place(
        data,
        tables,
        lambda table: (
            table,
            model.inputs(table, extra="drop"),
            None if target is None else model.targets(table, column=target),
        ),
    ):
        gaps.update(model.preprocessor.new_gaps(table))
        for name, (n, category) in model.preprocessor.new_categories(table).items():
            new[name] += n
            examples.setdefault(name, category)
        n_rows += len(X)
        yield table, X, y
    if gaps:
        filled = model.preprocessor.fillings()
        said = [f"{k!r} ({_rows(n)}; taken as {filled[k]})" for k, n in gaps.most_common(10)]
        warnings.warn(
            f"{data} has gaps in columns that had none in training, so that nothing was learned of "
            f"them: {', '.join(said)}{' and others' * (len(gaps) > 10)}.",
            stacklevel=2,
        )
    if new:
        said = [
            f"{k!r} ({n:,} of {_rows(n_rows)}, such as {examples[k]!r})"
            for k, n in new.most_common(10)
        ]
        warnings.warn(
            f"{data} holds categories that the {_rows(model.preprocessor.n_samples_seen_)} which "
            "training measured did not have; they are taken as '(other)': "
            f"{', '.join(said)}"
            f"{' and others' * (len(new) > 10)}.",
            stacklevel=2,
        )


def _rows(n: int) -> str:
    return f"{n:,} row{'s' * (n != 1)}"


def _refuse_text(model: TableModel, data: str | os.PathLike[str]) -> None:
    """Raise for the first cell of text in a column of numbers: it makes text of the whole column.

    Raises
    ------
    ValueError
        Naming its place.
    """
    columns = {*model.preprocessor.feature_names_in_} - {*model.text_columns_}
    text = [f.name for f in schema(data) if f.name in columns and "string" in str(f.type)]
    start = 0
    for table in read_tables(data, columns=text) if text else ():
        view = view_table(table)
        for name in text:
            column = level_column(view, name)
            row = first_text(column)
            if row is not None:
                raise ValueError(
                    f"Column {name!r} held numbers in training but now holds "
                    f"{column.levels[column.codes[row]]!r} in {place_of(data, start + row)}. "
                    "Correct such cells, or leave them empty, which is a missing value."
                )
        start += table.num_rows


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
