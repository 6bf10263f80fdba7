"""Reports of table models: what they are, how they do, pictures in the units of the data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.columns.null_values import Unreadable
from mercer.inspection import describe, loss_units
from mercer.losses import Squared
from mercer_app.files import read_tables
from mercer_app.files.tables import Labelled, in_place
from mercer_app.models.evaluation import Evaluation, evaluate, progress_error
from mercer_app.models.files import column_types, columns_of, encoded_tables, values_of
from mercer_app.report.figures import held_out_figures, run_figures
from mercer_app.report.judged import LEARNED, JudgedRows, verdict_of_scores
from mercer_app.report.whole import (
    Asked,
    column_shares,
    columns_to_show,
    judged,
    kept_back,
    words_of,
    write_whole,
)
from mercer_app.rows import TableRows

ROWS_FOR_PICTURES = 20_000
_MOST_CARDS = 4  # measures in the summary
_FIRST = "All numbers, pictures and rows are of the first {:,} rows, which were learned."
_TEST = " Rows of a test file (--test) say more."

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


def notes_of(training: Any) -> list[str]:
    """Say what a reader must know of a training on files: which rows it left out."""
    n = getattr(training, "n_left_out_", 0)
    have = "row has" if n == 1 else "rows have"
    return [f"{n:,} {have} no target, and did not count."] if n else []


def report(
    path: str | os.PathLike[str],
    reads: TableRows,
    *,
    title: str,
    evaluation: Evaluation | None = None,
    settings: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    seen: JudgedRows | None = None,
) -> None:
    """Write the report of a model.

    Parameters
    ----------
    path : path
        HTML file to write.
    reads : TableRows
        The model.
    title : str
        Heading.
    evaluation : Evaluation, default=None
        Measures and rows of held-out data.
    settings : dict, default=None
        Further settings, shown before those of the model.
    notes : sequence of str, default=()
        What a reader must know.
    seen : JudgedRows, default=None
        Rows of the training to judge by, if there are no others.
    """
    found = _of_training(reads, seen) if evaluation is None else _of_evaluation(reads, evaluation)
    write_whole(
        path,
        reads.model,
        title=title,
        rows=found.rows,
        asked=Asked.by_inputs(
            reads, None if evaluation is None or found.rows is None else evaluation.X
        ),
        figures=found.figures,
        summary=found.summary,
        text=found.text,
        measures=found.measures,
        exact=found.exact,
        by_class=found.by_class,
        losses=None if evaluation is None else evaluation.losses,
        settings=settings,
        notes=[*notes, *found.notes],
    )


def evaluated(
    reads: TableRows, data: str | os.PathLike[str], *, pictured: bool, **options: Any
) -> Evaluation:
    """Measure a model on rows that it has not learned, for a report or not.

    Parameters
    ----------
    reads, data, **options
        As for :func:`mercer_app.models.evaluation.evaluate`.
    pictured : bool
        Whether a report will show some of the rows.
    """
    if not pictured:
        return evaluate(reads, data, **options)
    keep = _columns_to_show(reads)
    return evaluate(reads, data, n_keep=ROWS_FOR_PICTURES, keep=keep, **options)


def seen_rows(reads: TableRows, data: str | os.PathLike[str]) -> JudgedRows | None:
    """Return rows of a training: rows that it kept back, or else learned ones.

    Parameters
    ----------
    reads : TableRows
        As the training left it.
    data : path
        What was learned.

    Returns
    -------
    rows : JudgedRows or None
        None for models that are neither a classification nor a regression.
    """
    names = _columns_to_show(reads)
    held = getattr(reads.estimator, "held_out_", None)
    rows = kept_back(reads.model)
    if held is not None and rows is not None:
        note = rows.note + _TEST
        return rows._replace(columns=_values_of(reads, data, held.X, names), note=note)
    if reads.task not in ("classification", "regression", "gp"):
        return None
    table, X, y = next(encoded_tables(reads, data, target=reads.target))
    some = slice(ROWS_FOR_PICTURES)
    first = values_of(table.slice(0, ROWS_FOR_PICTURES), names)
    columns = {name: values.tolist() for name, values in first.items()}
    note = _FIRST.format(len(y[some])) + _TEST
    return _judged(reads, X[some], y[some], columns, of=LEARNED, note=note)


def _values_of(
    reads: TableRows, data: str | os.PathLike[str], X: NDArray[np.floating], names: Sequence[str]
) -> dict[str, Sequence[Any]]:
    """Find rows in the data of a training by the inputs that they became; return their columns."""
    wanted: dict[bytes, list[int]] = {}
    for i, row in enumerate(np.ascontiguousarray(X)):
        wanted.setdefault(row.tobytes(), []).append(i)
    found = {name: np.empty(len(X), dtype=object) for name in names}
    tables = read_tables(
        data,
        columns=columns_of(reads, reads.target, ()),
        column_types=column_types(reads, data),
        unreadable=Unreadable(strict=False),  # the training has reported these cells
    )

    def encoded(table: Any) -> tuple[Any, NDArray[np.floating]]:
        inputs = reads.inputs(table, extra="drop", learned=True, lenient=True)
        return table, np.ascontiguousarray(inputs, dtype=X.dtype)

    for table, inputs in in_place(data, tables, encoded, labelled=Labelled(reads.target)):
        here = [i for i, row in enumerate(inputs) if row.tobytes() in wanted]
        values = values_of(table.take(np.array(here, dtype=np.int64)), names)
        for n, i in enumerate(here):
            places = wanted.pop(inputs[i].tobytes(), ())  # equal rows: the first one
            for name in names:
                found[name][list(places)] = values[name][n]
        if not wanted:
            return {name: column.tolist() for name, column in found.items()}
    return {}  # the data are not those that were learned


class _Findings(NamedTuple):
    """Return the report's description of a model."""

    rows: JudgedRows | None
    summary: dict[str, Any] = {}  # noqa: RUF012
    measures: dict[str, Any] = {}  # noqa: RUF012
    notes: Sequence[str] = ()
    figures: Sequence[tuple[str, Any]] = ()
    exact: Mapping[str, float] | None = None
    by_class: Mapping[str, tuple[int, int]] | None = None
    text: str = ""


def _of_training(reads: TableRows, seen: JudgedRows | None) -> _Findings:
    """Say what error training saw, where no rows were kept back."""
    sizes = _sizes(reads)
    if seen is not None and getattr(reads.estimator, "held_out_", None) is not None:
        return _Findings(seen)
    progress = progress_error(reads)
    if progress is None:
        return _Findings(seen, {} if seen is not None else sizes)
    shown = {progress.name: progress.value} | ({} if seen is not None else sizes)
    return _Findings(seen, shown, notes=[progress.note])


def _of_evaluation(reads: TableRows, evaluation: Evaluation) -> _Findings:
    """Say how a model does on held-out rows."""
    measures, worst = _split(evaluation.measures)
    if isinstance(getattr(reads.estimator, "loss_", None), Squared) and "mean loss" in measures:
        measures["mean loss, half the squared error"] = measures.pop("mean loss")
    shown = [name for name in measures if name != "rows"]
    summary = _at_risk(reads, worst)
    if worst:
        unit = loss_units(reads.model).name
        measures["Worst losses" + (f", in {unit}" if unit else "")] = worst
    notes, exact = [], None
    if len(evaluation.y) < evaluation.measures["rows"]:
        exact = evaluation.measures
        notes = [
            f"{len(evaluation.y):,} held-out rows, drawn at random, are in the pictures and tables "
            "of rows. They tell, too, below what nine of ten errors are, what the median would "
            "miss and how often intervals hold. All other measures are of all "
            f"{measures['rows']:,} rows."
        ]
    columns = {name: values.tolist() for name, values in evaluation.columns.items()}
    rows = _judged(reads, evaluation.X, evaluation.y, columns) if reads.has_target else None
    if rows is None:
        cards = {name: measures[name] for name in shown[:_MOST_CARDS]} | summary | _sizes(reads)
        return _Findings(
            None,
            cards,
            measures,
            notes,
            figures_of_rows(reads, evaluation),
            text=verdict_of_scores(evaluation.measures),
        )
    by_class = {
        label: (int(row["rows"]), round(row["rows"] * row["error %"] / 100.0))
        for label, row in evaluation.by_class.items()
    }
    return _Findings(rows, summary, measures, notes, exact=exact, by_class=by_class or None)


def _sizes(reads: TableRows) -> dict[str, Any]:
    description = describe(reads.model)
    return {
        "model order": description["model_order"],
        "rows learned": description["n_rows_learned"],
    }


def figures_of(reads: TableRows, evaluation: Evaluation | None = None) -> list[tuple[str, Any]]:
    """Draw the standard figures of a model, with inputs and targets in their own units."""
    of_rows = [] if evaluation is None else figures_of_rows(reads, evaluation)
    return [*run_figures(reads.model), *of_rows]


def figures_of_rows(reads: TableRows, evaluation: Evaluation) -> list[tuple[str, Any]]:
    """Draw the figures that show held-out rows."""
    if not len(evaluation.y):
        return []
    asked, y = Asked.by_inputs(reads), evaluation.y if reads.has_target else None
    return held_out_figures(asked.pictured, asked.shown(evaluation.X), y, evaluation.group)


def _columns_to_show(reads: TableRows) -> list[str]:
    """Name the columns to show of single rows."""
    model = reads.model
    return columns_to_show(model, column_shares(model))


def _judged(
    reads: TableRows, X: NDArray[np.floating], *given: Any, **more: Any
) -> JudgedRows | None:
    """Ask a model about inputs, as :func:`mercer_app.report.whole.judged` does."""
    return judged(reads.model, X, *given, asked=Asked.by_inputs(reads), **more)


def title_of(reads: TableRows, what: str) -> str:
    """Heading of a report: what is predicted, and what the report is of."""
    return f"{reads.target}: {what}" if reads.has_target else what[:1].upper() + what[1:]


def _split(measures: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Separate measures of the largest losses, which become a table with a row per level."""
    worst: dict[str, dict[str, Any]] = {}
    usual: dict[str, Any] = {}
    for name, value in measures.items():
        kind, _, percent = name.rpartition("_")
        if kind in _TAIL:
            row = worst.setdefault(f"worst {100.0 - float(percent):.4g}\u00a0%", {})
            row[_TAIL[kind]] = value
        else:
            usual[_CALLED.get(name) or words_of(name)] = value
    return usual, worst


def _at_risk(reads: TableRows, worst: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Mean of the worst losses, at the level of the model's risk, if that is what it minimises."""
    level = getattr(getattr(reads.estimator, "risk_", None), "level", None)
    row = f"worst {100.0 - 100.0 * level:.4g}\u00a0%" if level is not None else ""
    return {f"CVaR, {row}": worst[row][_TAIL["cvar"]]} if row in worst else {}
