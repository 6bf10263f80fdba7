"""What a model of tables says of rows: predictions, intervals, scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer.conformal import check_coverage
from mercer.data.columns import missing_cells
from mercer.data.tables import Unreadable
from mercer.estimators.inputs import warn_user

if TYPE_CHECKING:
    from mercer.data import TablePreprocessor
    from mercer.data.readings import TargetForm
    from mercer.estimators.table import TableTask

__all__ = ["TableAnswers"]

Array = NDArray[np.float64]


class TableAnswers:
    """Answers of a :class:`mercer.estimators.TableModel`, in units of the target."""

    estimator: Any
    _task: TableTask
    _form: TargetForm | None
    target_mean_: float
    target_scale_: float
    preprocessor: TablePreprocessor
    inputs: Any
    targets: Any

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
            Labels of ``classes_``, or quantities in the target's units, datetime64 if it holds
            dates; (n_rows, n_levels) for several quantile levels.

        Raises
        ------
        AttributeError
            For a ranking that answers on pairs only: see :meth:`predict_pair`.
        """
        return self.as_written(self.predict_inputs(self._asked(table, extra)))

    @property
    def target_form_(self) -> TargetForm | None:
        """How quantities are written that are learned and answered."""
        return self._form if self._task.is_quantity else None

    def as_written(self, values: NDArray[Any]) -> NDArray[Any]:
        """Turn numbers that :meth:`predict_inputs` gave into what the target holds.

        Parameters
        ----------
        values : ndarray
            Quantities, or any others.

        Returns
        -------
        answers : ndarray
            datetime64 if the target holds dates, text as ``13:30:00`` if it holds times of the day,
            else the values.
        """
        return values if self.target_form_ is None else self.target_form_.answers(values)

    def _asked(self, table: Any, extra: Literal["error", "drop"]) -> NDArray[np.floating]:
        """Encode rows to answer for; cells that cannot be what their column is are gaps, and said.

        A column most of whose cells cannot be is another one, which is an error.
        """
        columns, odd = self.preprocessor, Unreadable(strict=False)
        view, lenient = columns.view(table), True
        for name, kind, n, cell, row in columns.unreadable(table):
            odd.add(name, kind, n, cell, f"row {row} of this table")
            some = view.n_rows - missing_cells(view.column(name))
            lenient &= not columns.readings_[name].is_another(n, some)
        X = self.inputs(table, extra=extra, lenient=lenient)
        for text in odd.said():
            warn_user(text, UserWarning)
        return X  # type: ignore[no-any-return]

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
        if self._task.name != "rank":
            raise AttributeError(
                f"Only a ranking has values of pairs of rows, but this is {self._task.words}. Use "
                "a KernelRanker, which `mercer fit --task rank` trains."
            )
        first, second = (self._asked(table, extra) for table in (table1, table2))
        if len(first) != len(second):
            raise ValueError(
                "`table1` and `table2` must have one row for each pair, got "
                f"{len(first):,} and {len(second):,} rows."
            )
        return np.asarray(self.estimator.predict_pair(first, second))

    def predict_inputs(self, X: NDArray[np.floating]) -> NDArray[Any]:
        """Labels, quantities (dates as numbers) or scores of rows encoded by :meth:`inputs`."""
        values = self.estimator.predict(X)
        if not self._task.is_quantity:
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
            In units of the target; of dates in those of ``target_form_``, such as days.

        Raises
        ------
        AttributeError
            If the model is no Gaussian process.
        """
        if self._task.name != "gp":
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
        return np.asarray(self.estimator.predict_proba(self._asked(table, extra)))

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
        return np.asarray(self.estimator.decision_function(self._asked(table, extra)))

    # -- intervals ------------------------------------------------------------------------------

    def predict_interval(
        self,
        table: Any,
        coverage: float = 0.9,
        *,
        method: str = "auto",
        extra: Literal["error", "drop"] = "error",
    ) -> Array:
        """Intervals that hold the target of a share ``coverage`` of the rows.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.
        coverage, method
            As ``predict_interval`` of :class:`mercer.KernelRegressor`.

        Returns
        -------
        intervals : ndarray of shape (n_rows, 2)
            Lower and upper ends, in units of the target, or dates. Those of a Gaussian process are
            what it believes: the mean plus and minus multiples of the standard deviation of a new
            observation.

        Raises
        ------
        AttributeError
            If the model does not predict quantities.
        ValueError
            As ``predict_interval`` of :class:`mercer.KernelRegressor`.
        """
        X = self._asked(table, extra)
        return self.as_written(self.interval_of_inputs(X, coverage, method=method))

    def interval_of_inputs(
        self, X: NDArray[np.floating], coverage: float = 0.9, *, method: str = "auto"
    ) -> Array:
        """Intervals of rows already encoded by :meth:`inputs`."""
        if self._task.name == "gp":
            check_coverage(coverage)
            half = float(ndtri(0.5 + coverage / 2.0)) * self.predict_std(X)
            mean = self.predict_inputs(X)
            return np.column_stack([mean - half, mean + half])
        if not hasattr(self.estimator, "predict_interval"):
            raise AttributeError(
                f"Only models of quantities have intervals, but this is {self._task.words}."
                + (" Use `predict_set`." if self._task.name == "classification" else "")
            )
        found = self.estimator.predict_interval(X, coverage, method=method)
        return np.asarray(found * self.target_scale_ + self.target_mean_)

    def predict_set(
        self,
        table: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        empty: bool = False,
        extra: Literal["error", "drop"] = "error",
    ) -> NDArray[np.bool_]:
        """Find sets that hold the true class of a share ``coverage`` of the rows, at least.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.
        coverage, by_class, empty
            As ``predict_set`` of :class:`mercer.KernelClassifier`.

        Returns
        -------
        sets : ndarray of shape (n_rows, n_classes) of bool
            Columns in the order of ``classes_``.

        Raises
        ------
        AttributeError
            If the model does not predict classes.
        ValueError
            As ``predict_set`` of :class:`mercer.KernelClassifier`.
        """
        if not hasattr(self.estimator, "predict_set"):
            raise AttributeError(
                f"Only classifications have sets of classes, but this is {self._task.words}."
            )
        X = self._asked(table, extra)
        found = self.estimator.predict_set(X, coverage, by_class=by_class, empty=empty)
        return np.asarray(found)

    def calibrate(self, table: Any) -> Self:
        """Take rows to find intervals by, or sets of classes, that were and will not be learned.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If the model has neither intervals nor sets of classes that rows could calibrate.
        ValueError
            As :meth:`inputs` and :meth:`targets`.
        """
        return self.calibrate_by_inputs(self.inputs(table), self.targets(table))

    def calibrate_by_inputs(self, X: NDArray[np.floating], y: NDArray[Any]) -> Self:
        """Take rows already encoded by :meth:`inputs`, with targets in their own units."""
        if not hasattr(self.estimator, "calibrate"):
            raise AttributeError(
                "Only classifications and regressions are calibrated, but this is "
                f"{self._task.words}."
            )
        if self._task.is_quantity:
            y = (y - self.target_mean_) / self.target_scale_
        self.estimator.calibrate(X, y)
        return self
