"""How a model of tables reads them: inputs, targets and groups."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mercer.data import TablePreprocessor
from mercer.data._views import view_table
from mercer.estimators._table_targets import read_groups, read_targets
from mercer.estimators._table_tasks import TableTask

__all__ = ["ReadsTables"]

Array = NDArray[np.float64]


class ReadsTables:
    """From tables to arrays, for :class:`mercer.estimators.TableModel`."""

    preprocessor: TablePreprocessor
    target: str | None
    group: str | None
    _task: TableTask

    def inputs(
        self, table: Any, *, extra: Literal["error", "drop"] = "error"
    ) -> NDArray[np.floating]:
        """Encode a table for the estimator.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the columns of the warm-up; the target may be absent.
        extra : {"error", "drop"}, default="error"
            What to do about columns that the warm-up did not have.

        Returns
        -------
        X : ndarray of shape (n_rows, n_inputs)
            float32 from 64 inputs on (mercer computes in float64 where that is too coarse).

        Raises
        ------
        ValueError
            If a column is missing, new, or changed between numbers and text.
        """
        return self.preprocessor.transform(table, extra=extra)

    def targets(self, table: Any, *, column: str | None = None) -> NDArray[Any]:
        """Read the targets of a table, checked.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the target.
        column : str, default=None
            Where the targets are, if not in the column ``target``.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Labels (int64, text or bool) or quantities (float64) in their own units; for a ranking
            what the column holds.

        Raises
        ------
        ValueError
            If the column is missing, has rows without a value, or does not fit the task.
        """
        name = self.target if column is None else column
        if name is None:
            raise ValueError(
                "This model was made without a target, so `column` must say where labels to "
                "compare with are."
            )
        kind = self._task.targets if self._task.has_target else "labels"
        return read_targets(table, name, kind=kind)

    def _learned(self, table: Any) -> NDArray[Any]:
        """Targets as :meth:`learn` takes them: of no width where none are learned."""
        if self._task.has_target:
            return self.targets(table)
        return np.empty((view_table(table).n_rows, 0))

    def groups(self, table: Any) -> Array | None:
        """Read the groups of the rows of a table, as numbers; None for a model without groups.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with the column ``group``.

        Raises
        ------
        ValueError
            If the column is missing, or has rows without a value.
        """
        return None if self.group is None else read_groups(table, self.group)

    def rows(self, table: Any) -> tuple[NDArray[np.floating], NDArray[Any]]:
        """Read what :meth:`learn` takes: inputs and targets of a table.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        X : ndarray of shape (n_rows, n_inputs)
            From :meth:`inputs`.
        y : ndarray of shape (n_rows,), or (n_rows, 0) for novelty detection
            From :meth:`targets`.

        Raises
        ------
        ValueError
            As :meth:`inputs` and :meth:`targets`.
        """
        return self.inputs(table), self._learned(table)
