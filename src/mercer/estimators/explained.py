"""What explanations need from fitted estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.answers.explain import Explained, plain_grid
from mercer.columns import TablePreprocessor
from mercer.columns.preprocessing import ColumnGrid
from mercer.default import DefaultLearner
from mercer.estimators.estimator import column_names
from mercer.estimators.inputs import Columns, StreamColumns
from mercer.estimators.kept_rows import evenly, kept_until_now
from mercer.estimators.targets import Outputs

Array = NDArray[np.float64]
Rows = NDArray[np.floating]


def of_estimator(
    model: Any,
    outputs: Outputs,
    values: Callable[[Rows], Array],
    background: Callable[..., Rows | None],
    scores: Callable[[Rows], Array] | None = None,
) -> Explained:
    """Return what explanations need from an estimator of arrays or tables.

    Parameters
    ----------
    model : estimator
        Fitted estimator.
    outputs : Outputs
        Its outputs.
    values, background, scores
        As in :class:`mercer.answers.explain.Explained`.
    """
    names, columns, form = column_names(model), model._columns, model.target_form_
    said = getattr(model, "_row_names", None)  # names from dicts
    if columns is None and said is not None:
        names = [*map(str, said)]
    quantity = outputs.quantity
    if form is not None and form.kind != "number" and quantity == "prediction":
        quantity = f"{quantity} in {form.axis}"
    return Explained(
        values=values,
        owners=_owners(columns, names),
        names=names,
        encode=model._rows_to_predict,
        background=background,
        grid=_grids(columns, names),
        outputs=outputs.labels,
        default=outputs.default,
        quantity=quantity,
        in_units=outputs.quantity == "prediction",
        scores=scores,
        n_jobs=model.n_jobs,
    )


def of_function(model: Any) -> Explained:
    """Return what explanations need from an estimator that learned a function."""
    learner, known = model._fitted(), model.targets_

    def background(most: int = 256) -> Rows | None:
        if isinstance(learner, DefaultLearner):  # it keeps rows back
            learner.current_function()
            judged = learner.judged
            return None if judged is None else evenly(judged.rows.X, most, judged.rows.weights)
        if known.sample is not None:
            rows: Rows = known.sample.rows[:most]
            return rows
        kept = kept_until_now(model, model.n_inputs_)
        return None if kept is None else kept.rows

    contrasts = known.contrasts
    return of_estimator(
        model,
        known.outputs,
        lambda X: known.answers(model._scores_at(X)),
        background,
        None if contrasts is None else lambda X: contrasts(model._scores_at(X)),
    )


def _owners(columns: Columns | None, names: list[str]) -> NDArray[np.intp]:
    """Return, for each input, the number of the column it encodes."""
    if columns is None:
        return np.arange(len(names))
    number = {name: i for i, name in enumerate(names)}
    if isinstance(columns, StreamColumns):
        of = {part: one.name for one in columns.readings.columns.values() for part in one.names}
        return np.array([number[of[name]] for name, _ in columns.inputs], dtype=int)
    return np.array([number[name] for name in columns.owners_out()], dtype=int)


def _grids(
    columns: Columns | None, names: list[str]
) -> Callable[[int, Rows, int, Any, str], ColumnGrid]:
    """Return a function that makes the grid of a column."""

    def grid(column: int, X: Rows, size: int, values: Any, part: str) -> ColumnGrid:
        if part and not isinstance(columns, TablePreprocessor):
            raise ValueError(
                f"Column {names[column]!r} has no part {part!r}: only dates of tables have such."
            )
        if columns is None:
            return plain_grid(X, column, size, values)
        if isinstance(columns, TablePreprocessor):
            return columns.grid(names[column], X, size, values, part)
        return _stream_grid(columns, names[column], X, size, values)

    return grid


def _stream_grid(columns: StreamColumns, name: str, X: Rows, size: int, values: Any) -> ColumnGrid:
    """Return the grid of a column of a stream."""
    slots = np.array([i for i, (of, _) in enumerate(columns.inputs) if of == name], dtype=int)
    if not slots.size:
        raise ValueError(f"Column {name!r} had no value in any row, so nothing depends on it.")
    levels = [columns.inputs[slot][1] for slot in slots]
    if levels == [None]:
        return plain_grid(X, slots[0], size, values)._replace(missing=np.full(1, np.nan))
    known = levels[:size] if values is None else [*map(str, values)]
    shown = np.array(known, dtype=object)
    inputs = (shown[:, np.newaxis] == np.array(levels, dtype=object)).astype(np.float64)
    return ColumnGrid("category", shown, inputs, slots, np.full(len(slots), np.nan))
