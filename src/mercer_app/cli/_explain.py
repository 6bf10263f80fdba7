"""``mercer explain``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mercer.columns.views import check_names
from mercer.display import ExplanationDisplay, ImportanceDisplay
from mercer.display.drawing import report_axes, report_style, require_matplotlib
from mercer.display.explaining import cells_of, titled
from mercer.estimators import Explanation
from mercer.model_file import replacing
from mercer_app.cli._console import print_result
from mercer_app.cli._inputs import note_dialects, reading
from mercer_app.cli._options import ExplainOptions
from mercer_app.files.tables import TableFiles
from mercer_app.messages import note
from mercer_app.models.files import (
    TableWriter,
    arrow_columns,
    as_learned,
    check_writable,
    encoded_tables,
    load_table_rows,
    note_extra,
    piped_tables,
    table_writer,
)
from mercer_app.models.predictions import explained
from mercer_app.rows import TableRows

_PICTURES = (".svg", ".png", ".pdf")
_TABLES = (".parquet", ".pq", ".csv")
_SHOWN_ROWS, _SHOWN_COLUMNS = 3, 10
_BLOCK = 100  # rows that are explained, and written, at a time
_PATIENCE = 5.0  # seconds without a word
_COMPARED = 100  # of a file of rows to compare with


@reading
def run(options: ExplainOptions) -> None:
    """Say which columns matter, or what columns add to the predictions for rows."""
    _check(options)
    reads = load_table_rows(options.model)
    if options.data is None:
        _importances(reads, options)
        return
    data = as_learned(reads, options.data)
    taken = reads.preprocessor.exclude
    columns = reads.preprocessor.feature_names_in_
    check_names(columns, data.columns.names, f"{data}", taken=taken)
    note_dialects(data)
    note_extra(reads, data)
    background = _compared(reads, options.background)
    told = _explained(reads, data, options, background)
    if options.out is None:
        _show(list(told), options)
        return
    piped = str(options.out) == "-"
    with piped_tables(arrow=False) if piped else table_writer(options.out) as writer:
        n_rows = _write(told, writer, options)
    where = "standard output" if piped else str(options.out)
    note(f"{where}: {n_rows:,} rows explained, {len(columns):,} columns")


def _check(options: ExplainOptions) -> None:
    """Refuse options that do not go together, and files that cannot be written."""
    if options.rows is not None and options.rows < 1:
        raise ValueError(f"`--rows` must be at least 1, got {options.rows}.")
    if options.data is None:
        given = {"--out": options.out, "--rows": options.rows, "--output": options.output}
        for name, value in (given | {"--background": options.background}).items():
            if value is not None:
                raise ValueError(
                    f"`{name}` is for explaining rows, and there are no DATA. Name a table of rows "
                    "after the model, or leave it out: then the importances of columns are shown."
                )
    elif options.out is not None and str(options.out) != "-":
        check_writable(options.out, options.data, options.model, endings=_TABLES)
    if options.out is not None and options.as_json:
        raise ValueError("`--json` prints rows, and `--out` writes them: choose one of the two.")
    if options.figure is not None:
        require_matplotlib()
        check_writable(options.figure, options.data, options.model, endings=_PICTURES)


def _importances(reads: TableRows, options: ExplainOptions) -> None:
    """Print how much the prediction varies with each column."""
    model = reads.model
    try:
        shares, errors = model.feature_importances_, model.feature_importances_errors_
    except AttributeError as error:
        raise ValueError(str(error)) from error
    names = reads.preprocessor.feature_names_in_
    order = np.argsort(-shares, kind="stable")
    rows = [
        {
            "column": names[i],
            "importance": round(float(shares[i]), 6),
            "standard_error": round(float(errors[i]), 6),
        }
        for i in order
    ]
    left_out = [one.name for one in model.audit_ if one.name not in names]
    rows += [{"column": name, "importance": 0.0, "standard_error": 0.0} for name in left_out]
    print_result({"columns": rows}, title=str(options.model), as_json=options.as_json)
    if options.figure is not None:
        shown = ImportanceDisplay(importances=shares, feature_names=names, standard_errors=errors)
        _draw(shown, options.figure, min(len(names), 15))


def _compared(reads: TableRows, background: str | None) -> Any:
    """Read rows to compare with: an even part of a file."""
    if background is None:
        return None
    data, names = as_learned(reads, background), reads.preprocessor.feature_names_in_
    check_names(names, data.columns.names, f"{data}", taken=reads.preprocessor.exclude)
    inputs = [X for _, X, _ in encoded_tables(reads, data)]
    if not sum(map(len, inputs)):
        raise ValueError(f"{data} holds no rows to compare with.")
    whole = np.concatenate(inputs)
    return whole[np.unique(np.linspace(0, len(whole) - 1, _COMPARED).astype(int))]


def _explained(
    reads: TableRows, data: TableFiles, options: ExplainOptions, background: Any
) -> Iterator[Explanation]:
    """Explain rows, some at a time; the first ones, if not all are asked for."""
    most = options.rows
    if most is None and options.out is None:
        most = _SHOWN_ROWS
    n_rows, model = 0, reads.model
    for table, X, _ in encoded_tables(reads, data):
        for start in range(0, table.num_rows, _BLOCK):
            some = table.slice(start, _BLOCK)
            some = some if most is None else some.slice(0, most - n_rows)
            if some.num_rows:
                try:
                    yield explained(
                        model,
                        some,
                        X[start : start + some.num_rows],
                        output=options.output,
                        background=background,
                        random_state=options.seed,
                    )
                except AttributeError as error:
                    raise ValueError(str(error)) from error
            n_rows += some.num_rows
            if n_rows == most:
                return
    if not n_rows:
        raise ValueError(f"{data} holds no rows, so there is nothing to explain.")


def _write(told: Iterator[Explanation], writer: TableWriter, options: ExplainOptions) -> int:
    """Write a line for each row: baseline, prediction, and what each column adds."""
    n_rows, first, said = 0, True, time.monotonic()
    for one in told:
        n = len(one.prediction)
        columns: dict[str, Any] = {
            "baseline": np.broadcast_to(one.baseline, (n,)).copy(),
            "prediction": one.prediction,
        }
        if isinstance(one.output, list):
            columns["class"] = np.asarray(one.output)
        for name, values in zip(one.feature_names, one.contributions.T, strict=True):
            columns[f"contribution_{name}" if name in columns else name] = values.copy()
        writer.write(arrow_columns(columns))
        if first and options.figure is not None:
            _draw(ExplanationDisplay(explanation=one), options.figure, _SHOWN_COLUMNS)
        n_rows, first = n_rows + n, False
        if time.monotonic() - said > _PATIENCE:
            note(f"{n_rows:,} rows so far")
            said = time.monotonic()
    return n_rows


def _show(told: list[Explanation], options: ExplainOptions) -> None:
    """Print rows, what adds most first."""
    if options.as_json:
        rows = [_record(one, row) for one in told for row in range(len(one.prediction))]
        print_result({"rows": rows}, title="", as_json=True)
    else:
        number = 0
        for one in told:
            for row in range(len(one.prediction)):
                print_result({f"row_{number}": _lines(one, row)}, title=_title(one, row))
                number += 1
    if options.figure is not None:
        _draw(ExplanationDisplay(explanation=told[0]), options.figure, _SHOWN_COLUMNS)


def _output(told: Explanation, row: int) -> Any:
    return told.output[row] if isinstance(told.output, list) else told.output


def _title(told: Explanation, row: int) -> str:
    return titled(told.quantity, _output(told, row))


def _record(told: Explanation, row: int) -> dict[str, Any]:
    """Return a row as JSON knows it."""
    output = _output(told, row)
    return {
        "prediction": float(told.prediction[row]),
        "baseline": float(np.broadcast_to(told.baseline, told.prediction.shape)[row]),
        "quantity": told.quantity,
        **({} if output is None else {"output": output}),
        "contributions": dict(told.largest(row)),
    }


def _lines(told: Explanation, row: int) -> list[dict[str, Any]]:
    """Return a row as the lines of a table."""
    cells = dict(zip(told.feature_names, cells_of(told.rows, row, told.feature_names), strict=True))
    found = told.largest(row)
    baseline = float(np.broadcast_to(told.baseline, told.prediction.shape)[row])
    lines = [{"column": "(mean)", "value": "", "adds": baseline}]
    lines += [
        {"column": name, "value": cells[name] or "", "adds": add}
        for name, add in found[:_SHOWN_COLUMNS]
    ]
    rest = [add for _, add in found[_SHOWN_COLUMNS:]]
    if rest:
        lines.append({"column": f"({len(rest):,} others)", "value": "", "adds": float(sum(rest))})
    lines.append({"column": "(this row)", "value": "", "adds": float(told.prediction[row])})
    return lines


def _draw(display: Any, path: Path, n_bars: int) -> None:
    """Write a picture to a file."""
    with report_style():
        figure, ax = report_axes(height=1.1 + 0.27 * n_bars)
        display.plot(ax)
        with replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=160)
