"""What explanations need of an estimator: rows that it keeps, and how columns become inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns import TablePreprocessor
from mercer.columns.column_grid import ColumnGrid
from mercer.default import DefaultLearner
from mercer.estimators.columns import Columns, StreamColumns, with_later_inputs
from mercer.estimators.explaining import (
    Explained,
    Explaining,
    capacity_of,
    evenly,
    kept_from_state,
    kept_of,
    kept_to_state,
    plain_grid,
)
from mercer.estimators.kept_rows import KeptRows
from mercer.estimators.table_inputs import column_names
from mercer.learning import Learner

Array = NDArray[np.float64]
Rows = NDArray[np.floating]


class ExplainedEstimator(Explaining):
    """Explanations of an estimator, whose rows are arrays or tables; not for direct use."""

    n_features_in_: int
    _columns: Columns | None = None
    #: Names of the features of dicts; None before there was one.
    _row_names: list[Any] | None = None
    #: Checks rows as those that were learned.
    _rows_to_predict: Callable[[Any], Any]
    #: A sample of the rows learned; None where there is none.
    _kept: KeptRows | None = None

    @abstractmethod
    def _explained_values(self, X: Rows) -> Array:
        """Return predictions for inputs, shape (n, n_outputs)."""

    #: Scores for inputs, shape (n, n_outputs), if these tell more than what is predicted.
    _explained_scores: Callable[[Rows], Array] | None = None

    @abstractmethod
    def _explained_outputs(self) -> tuple[Sequence[Any], int | str | None, str]:
        """Labels of the outputs, which is explained by default, and what they are in words."""

    def _explained_background(self, most: int = 256) -> Rows | None:
        """Return a sample of the rows learned, as inputs, in random order; 256 at most are kept."""
        return None if self._kept is None else self._kept.rows

    def _keep(self, X: Any, weights: Array) -> None:
        """Take some rows that were learned into the sample."""
        self._kept = kept_of(self._kept, X, weights)

    def _explained(self) -> Explained:
        """See :class:`Explaining`."""
        outputs, default, quantity = self._explained_outputs()
        names, columns = column_names(self), self._columns
        if columns is None and self._row_names is not None:
            names = [*map(str, self._row_names)]
        return Explained(
            values=self._explained_values,
            owners=_owners(columns, names),
            names=names,
            encode=self._rows_to_predict,
            background=self._explained_background,
            grid=_grids(columns, names),
            outputs=outputs,
            default=default,
            quantity=quantity,
            in_units=quantity == "prediction",
            scores=self._explained_scores,
        )


class ExplainedFunction(ExplainedEstimator):
    """Explanations of an estimator with a learner; not for direct use."""

    learner_: Learner
    _fitted: Callable[[], Learner]
    _map: Any
    _n_inputs: int
    #: Rows that come one by one: so many are not for the sample, and so many were not.
    _to_pass: int = 0
    _passed: int = 0

    def _keep_learned(self, X: Any, weights: Array) -> None:
        """Take rows into the sample, unless the learner keeps some itself."""
        if isinstance(self.learner_, DefaultLearner):
            return
        self._count_passed()
        self._to_pass = 0
        self._kept = self._padded(self._kept, X.shape[1])
        self._keep(X, weights)

    def _keep_one(self, row: Array, weight: float) -> None:
        """Take one row into the sample; most are not for it, and cost next to nothing."""
        if self._to_pass:
            self._to_pass -= 1
            self._passed += 1
            return
        self._keep_learned(row[np.newaxis], np.array([weight]))
        if self._kept is not None:
            self._to_pass = self._kept.n_to_pass(capacity_of(row.size))

    def _count_passed(self) -> None:
        """Tell the sample of the rows that were not for it."""
        if self._passed and self._kept is not None:
            self._kept = self._kept._replace(n_seen=self._kept.n_seen + self._passed)
        self._passed = 0

    def _padded(self, kept: KeptRows | None, n_inputs: int) -> KeptRows | None:
        """Give the rows kept the inputs that came since, of which they said nothing."""
        if kept is None:
            return None
        return kept._replace(rows=with_later_inputs(kept.rows, n_inputs, self._columns))

    def _explained_background(self, most: int = 256) -> Rows | None:
        """See :class:`ExplainedEstimator`: of the default, of rows that it kept back."""
        learner = self._fitted()
        if isinstance(learner, DefaultLearner):
            learner.current_function()
            judged = learner.judged
            return None if judged is None else evenly(judged.rows.X, most, judged.rows.weights)
        kept = self._padded(self._kept, self._n_inputs)
        return None if kept is None else kept.rows

    def _kept_state(self) -> dict[str, Any]:
        """Return the sample as plain data; nothing where there is none."""
        self._count_passed()
        return kept_to_state(self._padded(self._kept, self._n_inputs))

    def _restore_kept(self, state: dict[str, Any], n_inputs: int) -> None:
        """Take the sample of a file."""
        self._kept = kept_from_state(state.get("kept"), n_inputs)


def _owners(columns: Columns | None, names: list[str]) -> NDArray[np.intp]:
    """Return the number of the column that each input is made of."""
    if columns is None:
        return np.arange(len(names))
    number = {name: i for i, name in enumerate(names)}
    if isinstance(columns, StreamColumns):
        return np.array([number[name] for name, _ in columns.inputs], dtype=int)
    return np.array([number[name] for name in columns.owners_out()], dtype=int)


def _grids(
    columns: Columns | None, names: list[str]
) -> Callable[[int, Rows, int, Any, str], ColumnGrid]:
    """Return what makes grids of columns."""

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
    """Grid of a column of a stream."""
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
