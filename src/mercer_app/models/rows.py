"""Models that `save` wrote, as the commands see models of tables."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer.columns import TablePreprocessor
from mercer.estimators import TableModel
from mercer.estimators.table_inputs import without_columns
from mercer.streams import StreamFunction

# Column of the target of a model of rows, as long as nobody has named it.
NO_TARGET = "(target)"


def table_model_of(model: Any, target: str | None = None) -> TableModel | None:
    """Join a model that learned named columns, or dicts by ``learn_one``, with these columns.

    Parameters
    ----------
    model : kernel estimator
        Fitted; stays as it is.
    target : str or None, default=None
        Column of the targets; None where none are needed.

    Returns
    -------
    table_model : TableModel or None
        One that learned tables reads them as it did. One of numbers takes them as they are, and
        gaps as the mean of their column; one of streams as the mean so far, as it takes features
        that a row does not have. None for models whose features have no names.

    Raises
    ------
    ValueError
        If the target is one of the features, or features of a stream are no numbers.

    Examples
    --------
    >>> from mercer import KernelRegressor
    >>> model = KernelRegressor()
    >>> for i in range(20):
    ...     model = model.learn_one({"height": i % 5, "weight": i % 3}, i % 5)
    >>> table_model_of(model).columns_
    ['height', 'weight', '(target)']
    """
    columns = getattr(model, "_columns", None)
    names = getattr(model, "feature_names_in_", None)
    function = getattr(getattr(model, "learner_", None), "function", None)
    if columns is not None:
        if isinstance(function, StreamFunction):
            raise ValueError(
                "This is a model of a stream whose rows hold text, categories or dates; each of "
                "these became inputs when it came. Predict in Python, with mercer.load_model."
            )
    elif names is None and isinstance(function, StreamFunction):
        names = model._row_names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    column = NO_TARGET if target is None else target
    if column in names:
        raise ValueError(
            f"The target {column!r} is one of the model's inputs, {list(names)[:8]}. Name the "
            "column of what it predicts."
        )
    model = without_columns(model)  # tables give it arrays, whose columns are in order
    if columns is not None:
        columns = copy.copy(columns)
        columns.exclude = (*columns.exclude, column)
        return TableModel(model, columns, column)
    # Two rows with the means in the middle, which take the place of what is missing.
    means, kind = getattr(model, "_means", None), TablePreprocessor
    if isinstance(function, StreamFunction):
        means, kind = function.mixture.inputs.mean, _Columns
    means = np.zeros(len(names)) if means is None else np.asarray(means, dtype=np.float64)
    ends = [means - np.maximum(1.0, np.abs(means)), means + np.maximum(1.0, np.abs(means))]
    rows = dict(zip(names, np.transpose(ends), strict=True))
    nulls = getattr(model, "_nulls", None)
    nulls = None if nulls is None else nulls.within((*names, column)).to_config()
    columns = kind(scaling="none", exclude=(column,), null_values=nulls)
    return TableModel(model, columns.fit({**rows, column: np.zeros(2)}), column)


class _Columns(TablePreprocessor):
    """Numbers as they are; a gap says nothing of a row, of whatever column."""

    def new_gaps(self, table: Any) -> dict[str, int]:
        """See :class:`mercer.columns.TablePreprocessor`: such models know gaps."""
        return {}
