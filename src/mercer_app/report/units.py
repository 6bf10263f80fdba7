"""Models whose inputs encode tables: which object predicts, and which inputs have column units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer.estimators.estimator import answering_numbers
from mercer_app.rows import TableRows

Array = NDArray[np.float64]


class Asked(NamedTuple):
    """A model, as a report asks it.

    Attributes
    ----------
    answers : estimator
        Predicts for rows as they are given.
    pictured : estimator
        Predicts for rows in the units that pictures show.
    shown : callable
        Maps rows as the user gives them to such rows.
    rows : array-like or None
        Rows to predict, which were not learned; None if there are none.
    """

    answers: Any
    pictured: Any
    shown: Callable[[Any], Any]
    rows: Any = None

    @classmethod
    def itself(cls, model: Any, rows: Any = None) -> Self:
        """Return a model that takes rows as pictures show them, and answers numbers."""
        model = answering_numbers(model)
        return cls(model, model, lambda rows: rows, rows)

    @classmethod
    def by_inputs(cls, reads: TableRows, rows: Any = None) -> Self:
        """Return a model of tables that takes inputs, which pictures show as the columns are."""
        bare, columns = reads.estimator, reads.preprocessor
        if reads.task == "rank":
            return cls.itself(bare, rows)
        centre, scale = _units(reads)

        def shown(inputs: Any) -> Array:
            return np.asarray(inputs * scale + centre, dtype=np.float64)

        def inputs(rows: Any) -> NDArray[np.floating]:
            return ((np.asarray(rows) - centre) / scale).astype(columns.dtype_)

        units = FunctionTransformer(inputs, shown)
        units.feature_names_in_ = np.array(columns.feature_names_out(), dtype=object)
        units.n_features_in_ = columns.n_features_out_
        return cls(bare, Pipeline([("units", units), ("model", bare)]), shown, rows)


def _units(reads: TableRows) -> tuple[Array | float, Array | float]:
    """Centre and scale of the inputs if these are the columns themselves, else 0 and 1."""
    columns = reads.preprocessor.feature_names_in_
    if reads.preprocessor.feature_names_out() != columns or reads.text_columns_:
        return 0.0, 1.0
    # Numbers are encoded by an affine map, which two points determine.
    at = {name: np.array([0.0, 1.0]) for name in columns}
    zero, one = np.asarray(reads.inputs(at), dtype=np.float64)
    scale = 1.0 / (one - zero)
    return -zero * scale, scale
