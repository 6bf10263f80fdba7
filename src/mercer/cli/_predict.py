"""``mercer predict``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.cli._files import (
    check_writable,
    encoded_tables,
    load_table_model,
    note_extra,
    table_writer,
)
from mercer.cli._messages import note
from mercer.cli._options import PredictOptions
from mercer.data import schema
from mercer.data.columns import check_names
from mercer.estimators import TableModel
from mercer.inspection import describe_pairs

__all__ = ["predictions", "run"]


def run(options: PredictOptions) -> None:
    """Predict for every row of a table, in order."""
    model, data, out = options.model, options.data, options.out
    check_writable(out, data, model, endings=(".parquet", ".pq", ".csv"))
    loaded = load_table_model(model)
    if loaded.task == "rank" and not loaded.scores_rows:
        raise ValueError(
            f"{model} answers on pairs of rows, not on rows: its pair kernel is "
            f"{describe_pairs(loaded)['pair_kernel']}. In Python, "
            f"`mercer.load_model({model.name!r}).predict_pair(table1, table2)` gives the values of "
            "pairs of rows of two tables. Or train with `--pair-kernel difference`, which gives "
            "scores."
        )
    kept = list(dict.fromkeys(options.keep or []))
    check_names([*loaded.preprocessor.feature_names_in_, *kept], schema(data).names, f"{data}")
    note_extra(loaded, data, *kept)
    n_rows = 0
    with table_writer(out) as writer:
        for table, X, _ in encoded_tables(loaded, data, more=kept):
            predicted = predictions(loaded, X)
            clash = sorted(set(kept) & set(predicted))
            if clash:
                raise ValueError(
                    f"`--keep {clash[0]}` has the name of a column of the predictions. Rename it."
                )
            writer.write({**{name: table.column(name) for name in kept}, **predicted})
            n_rows += len(X)
        if not n_rows:
            raise ValueError(f"{data} holds no rows, so there is nothing to predict.")
    note(f"{out}: {n_rows:,} predictions")


def predictions(model: TableModel, X: NDArray[np.floating]) -> dict[str, NDArray[Any]]:
    """Columns of predictions for encoded rows."""
    estimator: Any = model.estimator
    predicted = model.predict_inputs(X)
    if model.task == "rank":
        return {"score": predicted}
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
