"""River's classifier and regressor, wrapping mercer's, and rows of River as mercer reads them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils.dataframe import (
    into_frame,
    into_series,
    to_native_frame,
    to_native_series,
    to_numpy,
)

from mercer.columns.views import says_nothing
from mercer.estimators import KernelClassifier, KernelRegressor
from mercer.estimators.one_row import names_of, remember_names, values_of
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.losses import Loss, as_loss
from mercer.risks import Risk

Row = dict[Any, Any]

# Types that need no closer look.
_NUMBERS = frozenset([float, int, bool, np.float64, np.float32, np.int64, np.bool_])


def numbers_of(x: Row) -> Row:
    """Return a row whose values are numbers, without missing values.

    Parameters
    ----------
    x : dict
        Features by name. Returned itself if no values are missing.

    Raises
    ------
    ValueError
        If a value is not a number.

    Examples
    --------
    >>> numbers_of({"a": 1, "b": None, "c": 0.5})
    {'a': 1, 'c': 0.5}
    """
    if _NUMBERS.issuperset(map(type, x.values())):
        return x
    known = {name: value for name, value in x.items() if not says_nothing(value)}
    for name, value in known.items():
        if not _is_number(value):
            raise ValueError(
                f"The feature {name!r} is {value!r}, a {type(value).__name__}; kernels take "
                "numbers. Put a transformer before: `compose.SelectType(str) | "
                "preprocessing.OneHotEncoder()` makes 0 and 1 of text, "
                "`compose.SelectType(numbers.Number)` leaves out what is no number."
            )
    return known


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes):  # even if it could be read as one
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def matrix_of(X: Any) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return names and numbers of a frame (pandas, polars, Arrow, ...), NaN for missing values.

    Raises
    ------
    ValueError
        If a column does not hold numbers.
    """
    frame = into_frame(X)
    names = list(frame.columns)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype.is_boolean()):
            for value in frame[name].to_list():  # objects may be numbers
                numbers_of({name: value})
    numbers = to_numpy(frame) if names else np.empty((len(frame), 0))
    return names, numbers


def rows_of(X: Any) -> Iterator[Row]:
    """Yield the rows of a frame as dicts, without NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> list(rows_of(pd.DataFrame({"a": [1.0, None], "b": [2, 3]})))
    [{'a': 1.0, 'b': 2.0}, {'b': 3.0}]
    """
    names, numbers = matrix_of(X)
    whole = not np.isnan(numbers).any()
    for row in numbers.tolist():
        pairs = zip(names, row, strict=True)
        yield dict(pairs) if whole else {name: value for name, value in pairs if value == value}


Array = NDArray[np.float64]


class _Wrapper(base.Base):
    """A mercer estimator with River's interface and the same parameter names."""

    #: Class of the wrapped estimator.
    _kind: ClassVar[type[Any]]

    #: The wrapped estimator of :mod:`mercer`, with its ``history_``, ``save``, ...
    estimator: Any

    def _make(self) -> None:
        """Create the estimator from the parameters."""
        params = {name: getattr(self, name) for name in self._get_params()}
        self.estimator = self._kind(random_state=params.pop("seed"), **params)

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Wrap an estimator of mercer, for example one that was fitted or loaded.

        Parameters
        ----------
        estimator : KernelClassifier or KernelRegressor
            Estimator; it is not copied, and continues to learn.

        Returns
        -------
        model : Classifier or Regressor
        """
        if not isinstance(estimator, cls._kind):
            raise TypeError(
                f"{cls.__name__}.of takes a {cls._kind.__name__}, got a {type(estimator).__name__}."
            )
        params = estimator.get_params(deep=False)
        params["seed"] = params.pop("random_state")
        # Parameters only for `fit`, for tables, or for first calls with many rows.
        for name in ("n_passes", "shuffle", "verbose", "categorical_features", "normalize_y"):
            params.pop(name, None)
        model = cls(**params)
        model.estimator = estimator
        return model

    def _learn_row(self, x: Row, y: Any, w: float) -> None:
        """Learn a row of numbers."""
        # A first row without values cannot start a model.
        if hasattr(self.estimator, "learner_") or any(value == value for value in x.values()):
            self.estimator.learn_one(x, y, w)

    def _learn_frame(self, X: Any, y: Any) -> None:
        """Learn a frame: row by row for streams, or by steps of ``batch_size`` rows."""
        targets = y.tolist() if isinstance(y, np.ndarray) else into_series(y).to_list()
        if len(targets) != len(into_frame(X)):
            raise ValueError(
                f"`X` has {len(into_frame(X))} rows, but `y` has {len(targets)} targets."
            )
        model, has_begun = self.estimator, hasattr(self.estimator, "learner_")
        if model._has_gaps() if has_begun else model.plan([{}]).default == "stream":
            for x, target in zip(rows_of(X), targets, strict=True):
                self._learn_row(x, target, 1.0)
        elif targets:
            at, rows = self._columns(X)
            with _in_order():
                model.partial_fit(rows, np.asarray(targets))
            remember_names(model, at)

    def _columns(self, X: Any) -> tuple[Row, Array]:
        """Return the columns of a frame by name, and its rows in the model's column order."""
        (names, rows), model = matrix_of(X), self.estimator
        at = {name: i for i, name in enumerate(names)}
        if hasattr(model, "learner_"):
            order = [-1 if i != i else i for i in values_of(model, at)]  # NaN: no such column
        else:
            order = [at[name] for name in names_of(model, at)]
        return at, np.append(rows, np.full((len(rows), 1), np.nan), axis=1)[:, order]

    def _answers(self, X: Any, by_row: Callable[[Row], Any], by_rows: Callable[[Any], Any]) -> Any:
        """Predict each row of a frame."""
        if not hasattr(self.estimator, "learner_"):
            return [by_row(x) for x in rows_of(X)]
        rows = self._columns(X)[1]
        with _in_order():
            return by_rows(rows) if len(rows) else []


class Classifier(_Wrapper, base.MiniBatchClassifier):
    """Kernel classifier for River: pipelines, metrics, ``evaluate``.

    It learns like :class:`mercer.KernelClassifier` by ``learn_one``, with the same parameters
    except those of ``fit``. Nothing needs tuning, and rows need no scaling. Rows may have other
    features than earlier ones if ``expansion="auto"``; features that are None or NaN count as
    missing.

    Parameters
    ----------
    loss : str or Loss, default="auto"
        ``"logistic"`` for two classes and ``"softmax"`` for more; or ``"hinge"``, ...
        (:mod:`mercer.losses`).
    risk : Risk, str or None, default=None
        Risk of the loss to minimise (:mod:`mercer.risks`).
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`).
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`).
    step_size : float, callable, "auto" or "theory", default="auto"
        Step size, or a schedule.
    regularization : float or "auto", default="auto"
        Ridge parameter.
    batch_size : int, default=32
        Rows per step of ``learn_many``, if an ``expansion`` is given.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    average : {"suffix", "polyak", None}, default="suffix"
        Which iterates predict, for learning by steps.
    n_jobs : int or None, default=None
        Number of threads.
    seed : int or None, default=None
        Seed, called ``random_state`` in mercer.

    Attributes
    ----------
    estimator : KernelClassifier
        Wrapped estimator.

    See Also
    --------
    mercer.KernelClassifier : Describes the parameters in full.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = Classifier("hinge", kernel="gaussian", expansion="komp", seed=0)
    >>> rows = datasets.Phishing().take(400)
    >>> evaluate.progressive_val_score(rows, model, metrics.F1()).get() > 0.8
    True
    """

    _kind = KernelClassifier

    def __init__(
        self,
        loss: str | Loss = "auto",
        *,
        risk: str | Risk | None = None,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | str = "auto",
        batch_size: int = 32,
        class_weight: dict[Any, float] | str | None = None,
        average: str | None = "suffix",
        n_jobs: int | None = None,
        seed: Any = None,
    ) -> None:
        self.loss = loss
        self.risk = risk
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.class_weight = class_weight
        self.average = average
        self.n_jobs = n_jobs
        self.seed = seed
        self._make()

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any, w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : label
            Label; a new one adds a class.
        w : float, default=1.0
            Weight of the row.

        Raises
        ------
        ValueError
            If a feature is not a number, or the label is None; the model is unchanged.
        """
        self._learn_row(numbers_of(x), y, w)

    def predict_one(self, x: Row, **kwargs: Any) -> Any:
        """Predict the label of a row; None before any row was learned.

        Parameters
        ----------
        x : dict
            Features by name.
        """
        _refuse(kwargs)
        label = self.estimator.predict_one(numbers_of(x))
        return label.item() if isinstance(label, np.generic) else label

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each class; empty before any row was learned.

        Parameters
        ----------
        x : dict
            Features by name.

        Raises
        ------
        NotImplementedError
            If the ``loss`` does not model probabilities.
        """
        _refuse(kwargs)
        x = numbers_of(x)
        try:
            predict = self.estimator.predict_proba_one
        except AttributeError as error:
            raise NotImplementedError(str(error.__cause__ or error)) from error
        probabilities: dict[Any, float] = predict(x)
        return probabilities

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame: one by one, or as a mini-batch if an ``expansion`` is given.

        Parameters
        ----------
        X : DataFrame
            Frame of pandas, polars, Arrow, ...
        y : Series
            Labels.
        """
        self._learn_frame(X, y)

    def predict_many(self, X: Any) -> Any:
        """Predict the labels of a frame's rows, as a series.

        Parameters
        ----------
        X : DataFrame
        """
        labels = self._answers(X, self.predict_one, lambda rows: self.estimator.predict(rows))
        return to_native_series(labels, name=None, like=into_frame(X))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict probabilities for a frame's rows, as a frame with a column per class.

        Parameters
        ----------
        X : DataFrame
        """

        def by_rows(rows: Any) -> list[dict[Any, float]]:
            return [
                dict(zip(self.estimator.classes_.tolist(), row, strict=True))
                for row in self.estimator.predict_proba(rows).tolist()
            ]

        found = self._answers(X, self.predict_proba_one, by_rows)
        classes = found[0] if found else ()
        columns = {label: [row[label] for row in found] for label in classes}
        return to_native_frame(columns, like=into_frame(X))


class Regressor(_Wrapper, base.MiniBatchRegressor):
    """Kernel regressor for River: pipelines, metrics, ``evaluate``.

    It learns like :class:`mercer.KernelRegressor` by ``learn_one``, with the same parameters except
    those of ``fit``. Nothing needs tuning, and rows need no scaling. Rows may have other features
    than earlier ones if ``expansion="auto"``; features that are None or NaN count as missing.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        Loss (:mod:`mercer.losses`) with one score per target; quantiles one at a time.
    risk : Risk, str or None, default=None
        Risk of the loss to minimise (:mod:`mercer.risks`).
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`).
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`).
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule.
    regularization : float or "auto", default="auto"
        Ridge parameter.
    batch_size : int, default=32
        Rows per step of ``learn_many``, if an ``expansion`` is given.
    average : {"suffix", "polyak", None}, default="suffix"
        Which iterates predict, for learning by steps.
    n_jobs : int or None, default=None
        Number of threads.
    seed : int or None, default=None
        Seed, called ``random_state`` in mercer.

    Attributes
    ----------
    estimator : KernelRegressor
        Wrapped estimator.

    See Also
    --------
    mercer.KernelRegressor : The parameters at length.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> rows = datasets.TrumpApproval().take(300)
    >>> evaluate.progressive_val_score(rows, Regressor(seed=0), metrics.MAE()).get() < 1.0
    True
    """

    _kind = KernelRegressor

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        risk: str | Risk | None = None,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | str = "auto",
        batch_size: int = 32,
        average: str | None = "suffix",
        n_jobs: int | None = None,
        seed: Any = None,
    ) -> None:
        self.loss = loss
        self.risk = risk
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.average = average
        self.n_jobs = n_jobs
        self.seed = seed
        if as_loss(loss, "regression").n_scores(1) != 1:
            raise ValueError(
                f"River's regressors predict one number, but {loss!r} gives "
                f"{as_loss(loss).n_scores(1)}. Make one Regressor for each, or use "
                "mercer.KernelRegressor."
            )
        self._make()

    def learn_one(self, x: Row, y: Any, w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict
            Features by name.
        y : float
            Target.
        w : float, default=1.0
            Weight of the row.

        Raises
        ------
        ValueError
            If a feature is not a number, or the target is not finite; the model is unchanged.
        """
        self._learn_row(numbers_of(x), y, w)

    def predict_one(self, x: Row) -> float:
        """Prediction for a row, 0.0 before the first row was learned.

        Parameters
        ----------
        x : dict
            Features by name.
        """
        value: float = self.estimator.predict_one(numbers_of(x))
        return value

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame: one by one, or as a mini-batch if an ``expansion`` is given.

        Parameters
        ----------
        X : DataFrame
            Frame of pandas, polars, Arrow, ...
        y : Series
            Targets.
        """
        self._learn_frame(X, y)

    def predict_many(self, X: Any) -> Any:
        """Predictions for the rows of a frame, as a series.

        Parameters
        ----------
        X : DataFrame
        """
        values = self._answers(X, self.predict_one, lambda rows: self.estimator.predict(rows))
        return to_native_series(values, name=None, like=into_frame(X))


@contextmanager
def _in_order() -> Iterator[None]:
    """Let arrays without names go by: their columns were put in the model's order."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield


def _refuse(options: dict[str, Any]) -> None:
    """Refuse keywords that River's signature would let through."""
    if options:
        raise TypeError(f"unexpected keyword argument(s): {', '.join(sorted(options))}")
