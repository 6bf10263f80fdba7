"""Shards that workers answer for: any function of a model and a shard, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns import TablePreprocessor
from mercer.columns.views import is_table, view_table
from mercer.estimators.estimator import without_columns
from mercer.estimators.inputs import lenient_inputs
from mercer.threads import jobs
from mercer_app.files.sources import table_blocks
from mercer_cluster.engines import Engine, open_engine
from mercer_cluster.engines.engine import Callback, watched
from mercer_cluster.shards import items_of, naming, shards_of

# What is made of a model and a shard with its number, and the rows of the shard.
Answer = Callable[[Any, Any, int], tuple[Any, int]]
_NONE: Mapping[str, str] = {}


def over_shards(
    answer: Answer,
    model: Any,
    shards: Any,
    *,
    stage: str = "predict",
    engine: str | Engine = "here",
    n_workers: int | None = None,
    address: str | None = None,
    callback: Callback = None,
    wanted: Callable[[str], bool] | None = None,
    types: Mapping[str, str] = _NONE,
) -> Iterator[tuple[int, Any]]:
    """Let workers apply a function to a model and each shard.

    Parameters
    ----------
    answer : callable
        Function of the model, the data of a shard and its number; returns what is wanted, and the
        rows of the shard. Workers import it.
    model : object
        Sent to each worker once.
    shards, engine, n_workers, address, callback
        As for :func:`mercer_cluster.fit`.
    stage : str, default="predict"
        What :class:`mercer_cluster.Progress` calls it.
    wanted, types
        Columns of files, and their types: see ``shards_of``.

    Yields
    ------
    number : int
        Number of a shard, in order of completion.
    answer : object
        What the function returned.
    """
    with open_engine(engine, n_workers=n_workers, address=address) as workers:
        found = shards_of(shards, workers.shards(shards), wanted=wanted, types=types)
        sent = workers.put(model)
        tasks = [
            workers.submit(
                _answered, answer, sent, shard.data, number, shard.name, n_parts=2, name=shard.name
            )
            for number, shard in enumerate(found)
        ]
        counts = [count for _, count in tasks]
        for number in watched(
            workers,
            stage,
            counts,
            [shard.name for shard in found],
            lambda n: int(workers.get(counts[n])),
            callback,
        ):
            yield number, workers.get(tasks[number][0])
            workers.release(tasks[number])
        workers.release([sent])


def _answered(answer: Answer, model: Any, data: Any, number: int, name: str) -> tuple[Any, int]:
    with naming(name), jobs(1):
        return answer(model, data, number)


def predict(
    model: Any,
    shards: Any,
    *,
    engine: str | Engine = "here",
    n_workers: int | None = None,
    address: str | None = None,
    callback: Callback = None,
) -> list[NDArray[Any]]:
    """Predict for shards of data, on workers of an engine.

    Parameters
    ----------
    model : estimator
        Fitted.
    shards : path or sequence
        As for :func:`mercer_cluster.fit`; arrays may be X alone, or (X, y), of which y is not
        looked at. Neither are columns of tables that training did not have.
    engine, n_workers, address, callback
        As for :func:`mercer_cluster.fit`.

    Returns
    -------
    predictions : list of ndarray
        Result of the model's ``predict`` for each shard, in the order of the shards; empty for a
        shard without rows.

    Raises
    ------
    ShardError
        If a shard cannot be read or does not fit the model; the message names the shard.
    ImportError
        If the engine is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.linspace(0.0, 3.0, 90)[:, np.newaxis]
    >>> model = KernelRegressor().fit(X, np.sin(X[:, 0]))
    >>> [len(values) for values in predict(model, [X[:50], X[50:]], engine="here")]
    [50, 40]
    """
    names = _columns_of(model)
    answers = over_shards(
        _predicted,
        model,
        shards,
        engine=engine,
        n_workers=n_workers,
        address=address,
        callback=callback,
        wanted=None if names is None else names.__contains__,
        types=dict.fromkeys(_texts_of(model), "string"),
    )
    return [values for _, values in sorted(answers, key=lambda one: one[0])]


def _columns_of(model: Any) -> list[str] | None:
    """Return the columns that a model predicts from, if it knows their names."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _texts_of(model: Any) -> list[str]:
    """Return the columns that a model reads as text."""
    columns = getattr(model, "_columns", None)
    return [] if columns is None else columns.text_columns_


def _predicted(model: Any, data: Any, number: int) -> tuple[NDArray[Any], int]:
    found = [values for item in items_of(data) if _n_rows(item) for values in _of_item(model, item)]
    values = np.concatenate(found) if found else _nothing(model)
    return values, len(values)


def _n_rows(item: Any) -> int:
    """Rows of arrays or a table."""
    if is_table(item):
        return view_table(item).n_rows
    X = item[0] if isinstance(item, tuple) else item
    return int(X.shape[0] if hasattr(X, "shape") else len(X))


def _nothing(model: Any) -> NDArray[Any]:
    """Return predictions for no rows, with the shape and type of predictions for rows."""
    bare = without_columns(model)
    n_inputs = getattr(bare, "n_features_in_", None)
    if n_inputs is None:
        return np.empty(0)
    return _as_written(model, bare.predict(np.zeros((1, n_inputs)))[:0])


def _as_written(model: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Return what predictions mean: dates, of a model that learned such."""
    return np.asarray(model.as_written(values) if hasattr(model, "as_written") else values)


def _of_item(model: Any, item: Any) -> Iterator[NDArray[Any]]:
    """Predict for arrays or a table."""
    columns = getattr(model, "_columns", None)
    if is_table(item) and columns is not None:
        if isinstance(columns, TablePreprocessor):
            X = lenient_inputs(columns, columns.view(item))
        else:
            X = columns.transform(item)
        yield _as_written(model, without_columns(model).predict(X))
    elif is_table(item):
        names = _columns_of(model) or list(view_table(item).names)
        bare = without_columns(model)  # columns are found by their names here
        for X, _ in table_blocks([item], names, None, np.float64):
            yield _as_written(model, bare.predict(X))
    else:
        yield model.predict(item[0] if isinstance(item, tuple) else item)
