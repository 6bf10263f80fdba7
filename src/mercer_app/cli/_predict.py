"""``mercer predict``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import check_names
from mercer.conformal import check_coverage
from mercer.estimators import TableModel
from mercer.inspection import describe_pairs
from mercer_app.cli._evaluation import check_test_data
from mercer_app.cli._files import (
    Oddities,
    TableWriter,
    arrow_columns,
    as_learned,
    check_new_folder,
    check_writable,
    encoded_tables,
    load_table_model,
    new_folder,
    note_extra,
    piped_tables,
    table_writer,
)
from mercer_app.cli._inputs import is_arrow_pipe, note_dialects, reading
from mercer_app.cli._messages import note
from mercer_app.cli._options import PredictOptions
from mercer_app.cli._workers import (
    ONE_THREAD,
    Asked,
    Workers,
    check_alone,
    encoded_shard,
    logged,
    of_shards,
    workers_of,
)
from mercer_app.files import schema
from mercer_cluster.shards import FileShard


@reading
def run(options: PredictOptions) -> None:
    """Predict for every row of a table, in order."""
    model, data, out = options.model, options.data, options.out
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
        check_writable(out, data, model, endings=(".parquet", ".pq", ".csv"))
    loaded = load_scoring_model(model)
    data = as_learned(loaded, data)
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


def load_scoring_model(path: Path) -> TableModel:
    """Load a model that predicts for rows; ValueError for any other."""
    model = load_table_model(path)
    if model.task == "rank" and not model.scores_rows:
        raise ValueError(
            f"{path} answers on pairs of rows, not on rows: its pair kernel is "
            f"{describe_pairs(model)['pair_kernel']}. In Python, "
            f"`mercer.load_model({path.name!r}).predict_pair(table1, table2)` gives the values of "
            "pairs of rows of two tables. Or train with `--pair-kernel difference`, which gives "
            "scores."
        )
    return model


def check_columns(model: TableModel, data: str | PathLike[str], kept: Sequence[str]) -> None:
    """Raise ``ValueError`` unless data have the columns of a model, and those to copy."""
    names, columns = schema(data).names, model.preprocessor
    check_names(columns.feature_names_in_, names, f"{data}", taken=columns.exclude, of_file=True)
    check_names(kept, names, f"{data}")


def _calibrate(model: TableModel, data: str, coverage: float | None) -> None:
    """Let a model find intervals by the rows of a file."""
    if coverage is None:
        raise ValueError("`--calibrate` is for intervals: say how many rows with `--interval`.")
    name = check_test_data(model, data, target=None)
    if model.task == "gp":
        raise ValueError(
            "`--calibrate` names rows to find intervals by, but those of a Gaussian process are "
            "its own. Leave it out, or fit a regression."
        )
    if not hasattr(model.estimator, "calibrate"):
        return  # which is said next
    encoded = [(X, y) for _, X, y in encoded_tables(model, data, target=name)]
    model.calibrate_by_inputs(*map(np.concatenate, zip(*encoded, strict=True)))


def check_interval(model: TableModel, coverage: float | None) -> None:
    """Refuse an interval before any row is read, if there is none."""
    if coverage is None:
        return
    check_coverage(coverage)
    if model.task not in ("classification", "regression", "gp"):
        raise ValueError(
            f"`--interval` is of quantities and classes, but this is {model.task}. Leave it out."
        )
    none = np.zeros((1, model.estimator.n_features_in_))
    predictions(model, none, coverage)


def _to_file(
    model: TableModel, data: str, writer: TableWriter, kept: list[str], options: PredictOptions
) -> str:
    """Write one file; say what is in it."""
    n_rows = 0
    for table, X, _ in encoded_tables(model, data, more=kept, strict=options.strict):
        writer.write(arrow_columns(predicted_columns(model, kept, table, X, options.interval)))
        n_rows += len(X)
    _check_rows(n_rows, data)
    return f"{n_rows:,} predictions"


def _to_folder(
    model: TableModel,
    data: str,
    out: Path,
    kept: list[str],
    options: PredictOptions,
    workers: Workers,
) -> str:
    """Write a file for each shard; say what is in them."""
    asked = Asked(model, None, tuple(kept), options.interval, options.strict)
    odd: dict[int, Oddities] = {}
    layout: Any = None
    empty: list[Path] = []
    with new_folder(out) as folder:
        for number, found in of_shards(_of_shard, asked, data, workers, stage="predict", more=kept):
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
    whole.warn(model, data)
    return f"{n_rows:,} predictions in {len(odd):,} files"


def _of_shard(
    asked: Asked, shard: FileShard, number: int
) -> tuple[tuple[list[Any], Oddities], int]:
    """Predict for a shard."""
    odd = Oddities(strict=asked.strict)
    tables = [
        arrow_columns(predicted_columns(asked.model, asked.more, table, X, asked.coverage))
        for table, X, _ in encoded_shard(asked, shard, odd)
    ]
    return (tables, odd), odd.n_rows


def _check_rows(n_rows: int, data: str) -> None:
    if not n_rows:
        raise ValueError(f"{data} holds no rows, so there is nothing to predict.")


def predicted_columns(
    model: TableModel,
    kept: Sequence[str],
    table: Any,
    X: NDArray[np.floating],
    coverage: float | None,
) -> dict[str, Any]:
    """Columns to write: those kept, and those of the predictions."""
    predicted = predictions(model, X, coverage)
    clash = sorted(set(kept) & set(predicted))
    if clash:
        raise ValueError(
            f"`--keep {clash[0]}` has the name of a column of the predictions. Rename it."
        )
    return {**{name: table.column(name) for name in kept}, **predicted}


def predictions(
    model: TableModel, X: NDArray[np.floating], coverage: float | None = None
) -> dict[str, NDArray[Any]]:
    """Columns of predictions for encoded rows, with intervals or sets if a coverage is given."""
    found = _predictions(model, X)
    if coverage is None:
        return found
    if model.predicts_quantities:
        ends = model.as_written(model.interval_of_inputs(X, coverage))
        return {**found, "lower": ends[:, 0].copy(), "upper": ends[:, 1].copy()}
    names = np.array([str(label) for label in model.estimator.classes_.tolist()], dtype=object)
    sets = model.estimator.predict_set(X, coverage)
    return {**found, "set": np.array(["|".join(names[row]) for row in sets], dtype=np.str_)}


def _predictions(model: TableModel, X: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    estimator: Any = model.estimator
    predicted = model.as_written(model.predict_inputs(X))
    if model.task == "rank":
        return {"score": predicted}
    if model.task == "value":
        return {"value": predicted}
    if predicted.ndim == 2:
        levels = np.atleast_1d(np.asarray(estimator.loss_.levels, dtype=float))
        return {f"quantile_{t:g}": q for t, q in zip(levels, predicted.T.copy(), strict=True)}
    columns: dict[str, NDArray[Any]] = {"prediction": predicted}
    if model.task == "gp":
        return {**columns, "std": model.predict_std(X)}
    if model.task == "regression":
        return columns
    if model.task == "novelty":
        return {**columns, "score": estimator.decision_function(X)}
    classes = estimator.classes_.tolist()
    if hasattr(estimator, "predict_proba"):
        values, kind = estimator.predict_proba(X), "probability"
    else:
        values, kind = estimator.decision_function(X), "score"
    if values.ndim == 1:
        return {**columns, kind: values}
    named = zip(classes, values.T, strict=True)
    return {**columns, **{f"{kind}_{c}": np.ascontiguousarray(v) for c, v in named}}
