"""A model of a table: preprocessing, estimator and units of the target in one file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from mercer._validation import check_choice
from mercer.data import TablePreprocessor
from mercer.data._columns import check_names
from mercer.data._views import Levels, is_table, view_table
from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.regressor import KernelRegressor
from mercer.history import History
from mercer.losses import Poisson, as_loss
from mercer.model_file import storable

__all__ = ["TableModel"]

Array = NDArray[np.float64]

_ESTIMATORS: dict[str, Any] = {cls.__name__: cls for cls in (KernelClassifier, KernelRegressor)}
# From this many inputs on the time goes into products of matrices, and float32 halves it.
_MANY_INPUTS = 64


@storable
class TableModel:
    r"""A kernel machine that learns from and predicts for tables with named columns.

    It joins a :class:`mercer.data.TablePreprocessor`, an estimator and the target's column, so
    that a stream of raw tables goes in and labels or quantities come out. This is what
    ``mercer fit`` writes.

    All that is measured on data (means, scales, categories) comes from the warm-up and is then
    frozen, because the dictionary holds rows as they were encoded when learned. A regression
    learns the standardised target :math:`(y - \bar y) / s`, with the mean and the standard
    deviation of the warm-up rows, and predictions are mapped back; so ``delta`` of a Huber loss and
    ``history_`` are in units of s. The Poisson loss learns the target as it is.

    Parameters
    ----------
    estimator : KernelClassifier or KernelRegressor
        What learns. It is trained in place.
    preprocessor : TablePreprocessor
        How columns become inputs. Its ``exclude`` must hold the target.
    target : str
        Column to predict.

    Attributes
    ----------
    task : {"classification", "regression"}
        What the estimator does.
    target_mean_, target_scale_ : float
        Mean and standard deviation of the target in the warm-up; 0 and 1 for classes.
    classes_ : ndarray of shape (n_classes,)
        Labels seen, sorted (classification only): integers, text or booleans. Whole floats such as
        -1.0 are kept as integers.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    model_order_ : int
        Number of dictionary points.

    Raises
    ------
    ValueError
        If the estimator or the preprocessor is of another kind, or would see the target.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelClassifier
    >>> from mercer.data import TablePreprocessor
    >>> towns = np.array(["Bern", "Bonn"] * 100)
    >>> table = {"town": towns, "height": np.where(towns == "Bern", 540.0, 60.0)}
    >>> model = TableModel(
    ...     KernelClassifier(random_state=0), TablePreprocessor(exclude=("town",)), "town"
    ... ).partial_fit(table)
    >>> model.predict({"height": np.array([500.0, 70.0])}).tolist()
    ['Bern', 'Bonn']
    """

    def __init__(
        self,
        estimator: KernelClassifier | KernelRegressor,
        preprocessor: TablePreprocessor,
        target: str,
    ) -> None:
        if type(estimator).__name__ not in _ESTIMATORS:
            raise ValueError(
                f"`estimator` must be one of {', '.join(_ESTIMATORS)}, got "
                f"`{type(estimator).__name__}`."
            )
        if not isinstance(preprocessor, TablePreprocessor):
            raise ValueError(
                f"`preprocessor` must be a TablePreprocessor, got `{type(preprocessor).__name__}`."
            )
        if target not in preprocessor.exclude:
            raise ValueError(
                f"The target {target!r} must be in the preprocessor's `exclude`, got "
                f"{tuple(preprocessor.exclude)!r}: else the inputs would give the answer away."
            )
        self.estimator = estimator
        self.preprocessor = preprocessor
        self.target = target
        self.target_mean_, self.target_scale_ = 0.0, 1.0

    def __repr__(self) -> str:
        return f"TableModel({self.estimator!r}, {self.preprocessor!r}, {self.target!r})"

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What the estimator does."""
        return "classification" if is_classifier(self.estimator) else "regression"

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels seen, sorted."""
        return np.asarray(self.estimator.classes_)

    @property
    def history_(self) -> History:
        """Course of the learning so far."""
        return self.estimator.history_

    @property
    def model_order_(self) -> int:
        """Number of dictionary points."""
        return self.estimator.model_order_

    @property
    def text_columns_(self) -> list[str]:
        """Columns that held text or categories in the warm-up, and are read as text from CSV."""
        levels = self.preprocessor._seen().levels
        return [name for name, counts in levels.items() if not counts.boolean]

    # -- from tables to arrays ------------------------------------------------------------------

    def warm_up(self, tables: Any) -> Self:
        """Measure columns and target on the first rows; must come before learning.

        Parameters
        ----------
        tables : table or iterable of tables
            A ``pyarrow.Table``, ``pandas.DataFrame`` or dict of 1-D arrays, or several of them;
            no more are drawn than the preprocessor's ``warmup_rows``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there are no rows, a column is unusable, or targets are missing or of a wrong kind.
        """
        if self.preprocessor.frozen_:
            raise ValueError(
                "The warm-up is over: what was learned since is in its units. Make a new "
                "TableModel to measure the columns again."
            )
        parts: Iterable[Any] = [tables] if is_table(tables) else tables
        targets = []
        for table in parts:
            targets.append(self.targets(table))
            if self.preprocessor.partial_fit(table).frozen_:
                break
        self.preprocessor.freeze()
        if self.preprocessor.n_features_out_ >= _MANY_INPUTS:
            self.preprocessor.set_params(dtype="float32")
        # Counts have no units to choose: the Poisson loss takes them as they are.
        if self.task == "regression" and not isinstance(as_loss(self.estimator.loss), Poisson):
            y = np.concatenate(targets)[: self.preprocessor.n_samples_seen_]
            self.target_mean_ = float(y.mean())
            self.target_scale_ = float(y.std()) or 1.0
        return self

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
            Labels (int64, text or bool) or quantities (float64) in their own units.

        Raises
        ------
        ValueError
            If the column is missing, has rows without a value, or does not fit the task.
        """
        name = self.target if column is None else column
        view = view_table(table)
        check_names([name], view.names, "The table")
        values = view.column(name)
        missing = values.codes < 0 if isinstance(values, Levels) else np.isnan(values.values)
        if missing.any():
            raise ValueError(
                f"The target {name!r} has no value in {int(missing.sum()):,} of {view.n_rows:,} "
                f"rows, first in row {int(np.argmax(missing))} of this table. There is nothing to "
                "learn from or to compare with in such rows: remove them, or fill in the target."
            )
        if self.task == "classification":
            return _labels(values, name)
        if isinstance(values, Levels):
            if not view.n_rows:
                return np.empty(0)
            raise ValueError(
                f"The target {name!r} holds text or truth values, first {values.first()!r}, but a "
                "regression predicts numbers. Choose classification, or another target."
            )
        y = values.values.astype(np.float64)
        if not np.isfinite(y).all():
            row = int(np.argmin(np.isfinite(y)))
            raise ValueError(
                f"The target {name!r} holds {y[row]} in row {row} of this table, which no model "
                "can approach. Remove such rows, or replace the value."
            )
        return y

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: NDArray[np.floating], y: NDArray[Any]) -> Self:
        """Learn rows that :meth:`inputs` and :meth:`targets` prepared, in order.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_inputs)
            Encoded inputs.
        y : ndarray of shape (n_rows,)
            Labels, or quantities in their own units.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before the warm-up.
        ValueError
            For wrong parameters or data; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        if not self.preprocessor.frozen_:
            raise NotFittedError("The columns were not measured yet: call `warm_up` first.")
        if self.task == "regression":
            y = (y - self.target_mean_) / self.target_scale_
        self.estimator.partial_fit(X, y)
        return self

    def partial_fit(self, table: Any) -> Self:
        """Learn the rows of a table in order; the first table is the warm-up if there was none.

        Parameters
        ----------
        table : pyarrow.Table, pandas.DataFrame or dict of 1-D arrays
            Rows with all columns and the target.

        Returns
        -------
        self

        Raises
        ------
        ValueError, mercer.exceptions.DivergenceError
            As :meth:`warm_up`, :meth:`inputs`, :meth:`targets` and :meth:`learn`.
        """
        if not self.preprocessor.frozen_:
            self.warm_up(table)
        return self.learn(self.inputs(table), self.targets(table))

    # -- prediction -----------------------------------------------------------------------------

    def predict(self, table: Any, *, extra: Literal["error", "drop"] = "error") -> NDArray[Any]:
        """Labels or quantities of the rows of a table.

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Labels of ``classes_``, or quantities in the target's units; (n_rows, n_levels) for
            several quantile levels.
        """
        return self.predict_inputs(self.inputs(table, extra=extra))

    def predict_inputs(self, X: NDArray[np.floating]) -> NDArray[Any]:
        """Labels or quantities of rows already encoded by :meth:`inputs`."""
        values = self.estimator.predict(X)
        if self.task == "classification":
            return np.asarray(values)
        return np.asarray(values * self.target_scale_ + self.target_mean_)

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
        """Scores of a classifier: (n_rows,) for two classes, else (n_rows, n_classes).

        Parameters
        ----------
        table, extra
            As :meth:`inputs`.

        Raises
        ------
        AttributeError
            For a regression.
        """
        return np.asarray(self.estimator.decision_function(self.inputs(table, extra=extra)))

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the model to a file that :func:`mercer.load_model` reads.

        Parameters
        ----------
        path : str or path-like
            Where to write; an existing file is replaced once the new one is complete.

        Raises
        ------
        ValueError
            If nothing was learned yet, or a part cannot be stored without code.
        OSError
            If the file cannot be written.
        """
        from mercer.model_file import save_model

        save_model(self, path)

    def to_state(self) -> dict[str, Any]:
        """Everything that prediction and further learning need, as plain data.

        Raises
        ------
        ValueError
            If nothing was learned yet, or a part cannot be stored without code.
        """
        return {
            "target": self.target,
            "target_mean": self.target_mean_,
            "target_scale": self.target_scale_,
            "kind": type(self.estimator).__name__,
            "estimator": self.estimator.to_state(),
            # As text: names of columns and categories are keys in it, and may be any text.
            "preprocessor": json.dumps(self.preprocessor.to_state(), allow_nan=False),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild a model; it predicts and goes on learning as if nothing had happened.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        kind = check_choice("kind", state["kind"], tuple(_ESTIMATORS))
        estimator = _ESTIMATORS[kind].from_state(state["estimator"])
        preprocessor = TablePreprocessor.from_state(json.loads(state["preprocessor"]))
        model = cls(estimator, preprocessor, state["target"])
        if not preprocessor.frozen_ or preprocessor.n_features_out_ != estimator.n_features_in_:
            raise ValueError("the inputs of the model do not match the columns of its tables")
        mean, scale = float(state["target_mean"]), float(state["target_scale"])
        if not (np.isfinite(mean) and 0.0 < scale < np.inf):
            raise ValueError("the units of the target are not finite")
        model.target_mean_, model.target_scale_ = mean, scale
        return model


def _labels(values: Any, name: str) -> NDArray[Any]:
    """Class labels of a column without missing values."""
    if isinstance(values, Levels):
        if values.boolean:
            return np.asarray(values.codes == 1)
        return np.array(values.levels or [""], dtype=np.str_)[values.codes]
    whole = values.values.astype(np.int64, copy=False) if values.integer else None
    if whole is None:
        with np.errstate(invalid="ignore"):
            whole = values.values.astype(np.int64)
        if not np.array_equal(whole, values.values):
            row = int(np.argmax(whole != values.values))
            raise ValueError(
                f"The target {name!r} holds {values.values[row]!s} (row {row} of this table), "
                "which is a quantity rather than a class. Choose regression, or turn the target "
                "into classes."
            )
    return np.asarray(whole)
