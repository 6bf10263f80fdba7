"""What can be asked of a model of tables that has learned."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mercer.estimators._table_tasks import TableTask

__all__ = ["AskedTableModel"]

Array = NDArray[np.float64]


class AskedTableModel:
    """Predictions and scores of :class:`mercer.estimators.TableModel`."""

    estimator: Any
    target_mean_: float
    target_scale_: float
    inputs: Any
    _task: TableTask

    @property
    def task(self) -> str:
        """What the estimator does."""
        return self._task.name

    @property
    def has_target(self) -> bool:
        """Whether learning needs the target."""
        return self._task.has_target

    @property
    def scores_rows(self) -> bool:
        """Whether rows have scores: not all rankings do, some answer on pairs only."""
        return hasattr(self.estimator, "decision_function")

    @property
    def predicts_quantities(self) -> bool:
        """Whether predictions are numbers in units of the target."""
        return self._task.is_quantity

    def predict(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> NDArray[Any]:
        """Labels or quantities of the rows of a table; -1 for a novel row, 1 for any other.

        Of a ranking the scores: rows with higher ones rank above.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Labels of ``classes_``, or quantities in the target's units; (n_rows, n_levels) for
            several quantile levels.

        Raises
        ------
        AttributeError
            For a ranking that answers on pairs only: see :meth:`predict_pair`.
        """
        return self.predict_inputs(self.inputs(table, extra=extra))

    def predict_pair(
        self, table1: Any, table2: Any, *, extra: Literal["error", "drop"] = "error"
    ) -> Array:
        """Values of pairs of rows, by a ranking of any pair kernel.

        Parameters
        ----------
        table1, table2 : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            First and second rows of the pairs; neither target nor group is looked at.
        extra : {"error", "drop"}, default="error"
            As :meth:`inputs`.

        Returns
        -------
        values : ndarray of shape (n_pairs,)
            Above 0 if the first row should rank above the second, or, for ``pair_label="same"``,
            if they belong together.

        Raises
        ------
        AttributeError
            If the model is no ranking.
        ValueError
            If one table has more rows than the other, or as :meth:`inputs`.
        """
        if self.task != "rank":
            raise AttributeError(
                f"Only a ranking has values of pairs of rows, but this is {self._task.words}. Use "
                "a KernelRanker, which `mercer fit --task rank` trains."
            )
        first, second = (self.inputs(table, extra=extra) for table in (table1, table2))
        if len(first) != len(second):
            raise ValueError(
                "`table1` and `table2` must have one row for each pair, got "
                f"{len(first):,} and {len(second):,} rows."
            )
        return np.asarray(self.estimator.predict_pair(first, second))

    def predict_inputs(self, X: NDArray[np.floating]) -> NDArray[Any]:
        """Labels, quantities or scores of rows already encoded by :meth:`inputs`."""
        values = self.estimator.predict(X)
        if not self.predicts_quantities:
            return np.asarray(values)
        return np.asarray(values * self.target_scale_ + self.target_mean_)

    def predict_std(self, X: NDArray[np.floating], *, include_noise: bool = True) -> Array:
        """Say how far a Gaussian process's predictions may be off, as standard deviations.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_inputs)
            Rows encoded by :meth:`inputs`.
        include_noise : bool, default=True
            Of a new observation; otherwise of the function without noise.

        Returns
        -------
        std : ndarray of shape (n_rows,)
            In units of the target.

        Raises
        ------
        AttributeError
            If the model is no Gaussian process.
        """
        if self.task != "gp":
            raise AttributeError(
                f"Only a Gaussian process has standard deviations, but this is {self._task.words}. "
                "Use a GaussianProcessRegressor, or a quantile loss for intervals."
            )
        _, std = self.estimator.predict(X, return_std=True, include_noise=include_noise)
        return np.asarray(std * self.target_scale_)

    def predict_proba(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> Array:
        """Probabilities of ``classes_``, shape (n_rows, n_classes), if the loss models them.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Raises
        ------
        AttributeError
            If the estimator has no probabilities.
        """
        return np.asarray(self.estimator.predict_proba(self.inputs(table, extra=extra)))

    def decision_function(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> Array:
        """Scores of a classifier, (n_rows,) for two classes, else (n_rows, n_classes).

        Of a novelty detector (n_rows,), below 0 for what is novel; of a ranking (n_rows,), higher
        for what ranks above.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Raises
        ------
        AttributeError
            For a regression, and a ranking that answers on pairs only.
        """
        return np.asarray(self.estimator.decision_function(self.inputs(table, extra=extra)))
