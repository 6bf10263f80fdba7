"""``mercer predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mercer.inspection import describe_pairs
from mercer_app.cli._inputs import is_arrow_pipe, note_dialects, reading
from mercer_app.cli._options import PredictOptions
from mercer_app.cli._workers import (
    ONE_THREAD,
    StageView,
    check_alone,
    logged,
    workers_of,
)
from mercer_app.files.tables import TableFiles
from mercer_app.messages import note
from mercer_app.models.evaluation import check_test_data
from mercer_app.models.files import (
    Oddities,
    TableWriter,
    arrow_columns,
    as_learned,
    check_new_folder,
    check_writable,
    encoded_tables,
    load_table_rows,
    new_folder,
    note_extra,
    piped_tables,
    table_writer,
)
from mercer_app.models.predictions import check_columns, check_interval, predicted_columns
from mercer_app.models.shards import Asked, Workers, encoded_shard, of_shards
from mercer_app.rows import TableRows
from mercer_cluster.shards import FileShard


@reading
def run(options: PredictOptions) -> None:
    """Predict for every row of a table, in order."""
    model, out = options.model, options.out
    workers = workers_of(options)
    check_alone(options, {"jobs": ONE_THREAD})
    piped = str(out) == "-"
    if options.format is not None and not piped:
        raise ValueError("`--format` is of standard output, `--out -`; files go by their ending.")
    if piped and workers is not None:
        raise ValueError("`--engine` writes a folder of files: name one with `--out`.")
    if workers is not None:
        check_new_folder(out)
    elif not piped:
        check_writable(out, options.data, model, endings=(".parquet", ".pq", ".csv"))
    loaded = load_scoring_rows(model)
    data = as_learned(loaded, options.data)
    note_dialects(data)
    kept = list(dict.fromkeys(options.keep or []))
    if options.calibrate is not None:
        _calibrate(loaded, as_learned(loaded, options.calibrate), options.interval)
    check_interval(loaded, options.interval)
    check_columns(loaded, data, kept)
    note_extra(loaded, data, *kept)
    if workers is None:
        arrow = is_arrow_pipe(data) if options.format is None else options.format == "arrow"
        with piped_tables(arrow=arrow) if piped else table_writer(out) as writer:
            said = _to_file(loaded, data, writer, kept, options)
    else:
        with logged(options.log):
            said = _to_folder(loaded, data, out, kept, options, workers)
    note(f"{'standard output' if piped else out}: {said}")


def load_scoring_rows(path: Path) -> TableRows:
    """Load a model that predicts for rows; ValueError for any other."""
    reads = load_table_rows(path)
    if reads.task == "rank" and not reads.scores_rows:
        raise ValueError(
            f"{path} answers on pairs of rows, not on rows: its pair kernel is "
            f"{describe_pairs(reads.model)['pair_kernel']}. In Python, "
            f"`mercer.load_model({path.name!r}).predict_pair(table1, table2)` gives the values of "
            "pairs of rows of two tables. Or train with `--pair-kernel difference`, which gives "
            "scores."
        )
    return reads


def _calibrate(reads: TableRows, data: TableFiles, coverage: float | None) -> None:
    """Let a model find intervals by the rows of a file."""
    if coverage is None:
        raise ValueError("`--calibrate` is for intervals: say how many rows with `--interval`.")
    name = check_test_data(reads, data, target=None)
    if reads.task == "gp":
        raise ValueError(
            "`--calibrate` names rows to find intervals by, but those of a Gaussian process are "
            "its own. Leave it out, or fit a regression."
        )
    if not hasattr(reads.estimator, "calibrate"):
        return  # which is said next
    encoded = [(X, y) for _, X, y in encoded_tables(reads, data, target=name)]
    reads.estimator.calibrate(*map(np.concatenate, zip(*encoded, strict=True)))


def _to_file(
    reads: TableRows,
    data: TableFiles,
    writer: TableWriter,
    kept: list[str],
    options: PredictOptions,
) -> str:
    """Write one file; report its content."""
    n_rows = 0
    for table, X, _ in encoded_tables(reads, data, more=kept, strict=options.strict):
        writer.write(arrow_columns(predicted_columns(reads, kept, table, X, options.interval)))
        n_rows += len(X)
    _check_rows(n_rows, data)
    return f"{n_rows:,} predictions"


def _to_folder(
    reads: TableRows,
    data: TableFiles,
    out: Path,
    kept: list[str],
    options: PredictOptions,
    workers: Workers,
) -> str:
    """Write a file for each shard; report their content."""
    asked = Asked(reads, None, tuple(kept), options.interval, options.strict)
    odd: dict[int, Oddities] = {}
    layout: Any = None
    empty: list[Path] = []
    with new_folder(out) as folder:
        with StageView() as view:
            shards = of_shards(
                _of_shard,
                asked,
                data,
                workers,
                stage="predict",
                more=kept,
                callback=view.update,
            )
            for number, found in shards:
                tables, odd[number] = found
                file = folder / f"part-{number:06}.parquet"
                if not tables:
                    empty.append(file)
                    continue
                layout = tables[0].schema
                with table_writer(file) as writer:
                    for table in tables:
                        writer.write(table)
        n_rows = sum(one.n_rows for one in odd.values())
        _check_rows(n_rows, data)
        for file in empty:  # shards and files go together
            with table_writer(file) as writer:
                writer.write(layout.empty_table())
    whole = Oddities()
    for _, one in sorted(odd.items()):
        whole.merge(one)
    whole.warn(reads, data)
    return f"{n_rows:,} predictions in {len(odd):,} files"


def _of_shard(
    asked: Asked, shard: FileShard, number: int
) -> tuple[tuple[list[Any], Oddities], int]:
    """Predict for a shard."""
    odd = Oddities(strict=asked.strict)
    tables = [
        arrow_columns(predicted_columns(asked.reads, asked.more, table, X, asked.coverage))
        for table, X, _ in encoded_shard(asked, shard, odd)
    ]
    return (tables, odd), odd.n_rows


def _check_rows(n_rows: int, data: TableFiles) -> None:
    if not n_rows:
        raise ValueError(f"{data} holds no rows, so there is nothing to predict.")
