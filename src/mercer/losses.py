"""Losses: how a score f(x) is charged for a target y.

Regression losses take real targets, margin losses labels of -1 and +1, multi-class losses class
numbers. ``loss.value(y, f)`` and ``loss.derivative(y, f)`` work on whole batches; both run the one
formula of the loss, compiled at its first use, that the learner's compiled loop runs too.

Conventions
-----------
- A row's value is the sum over its outputs; derivatives are in the scores.
- At a kink the slope is 0 where 0 is a subgradient, which holds for all losses here: the hinges
  are active only where their deficit, and the tubes where their excess, is above 0;
  :class:`AbsoluteError` and :class:`Quantile` have slope 0 at a residual of 0.
- Ties between classes go to the lowest class number.
- A score that is NaN makes the value NaN, never 0.

A loss of your own: see :class:`Loss`.

Examples
--------
>>> from mercer.losses import Hinge, as_loss
>>> Hinge().value([1.0, -1.0], [0.5, -2.0])
array([0.5, 0. ])
>>> as_loss("huber")
Huber()
"""

from __future__ import annotations

import functools
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.exceptions import UndefinedMetricWarning

from mercer.component import Component
from mercer.exceptions import Advice, InPython, ParameterError
from mercer.jit import c_function, jit
from mercer.pointers import call_pointer
from mercer.validation import (
    check_integer,
    check_real,
    name_among,
    nearest,
    parameters,
    positive,
    real,
)

__all__ = [
    "AbsoluteError",
    "CompiledLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LeastSquaresMargin",
    "Logistic",
    "Loss",
    "MarginLoss",
    "MulticlassHinge",
    "MulticlassLoss",
    "Poisson",
    "QNormHinge",
    "Quantile",
    "RegressionLoss",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "as_loss",
    "loss_and_slopes",
]

Array = NDArray[np.float64]
Task = Literal["regression", "classification"]

_c: Any = types  # numba is only partly typed
_numbers = _c.CPointer(_c.float64)
_ROW = _c.void(_numbers, _numbers, _numbers, _numbers, _numbers, _c.int64)


class CompiledLoss(NamedTuple):
    """A loss as a compiled loop takes it.

    Attributes
    ----------
    address : int
        Address of ``void row(double* target, double* scores, double* slopes, double* value,
        double* parameters, int64 n_scores)``, valid as long as the process lives.
    parameters : ndarray of shape (n_parameters,)
        The numbers of the loss, passed to every call.
    """

    address: int
    parameters: Array


@functools.cache
def _compile(row: Callable[..., Any]) -> int:
    """Compile a row function; return its address."""
    # Functions typed at a prompt have no file beside which numba could keep a cache.
    cache = row.__module__.startswith("mercer.")
    return int(c_function(_ROW, cache=cache, error_model="numpy")(row).address)


@jit(nogil=True)
def _all_rows(
    address: int, targets: Array, scores: Array, slopes: Array, values: Array, parameters: Array
) -> None:
    for i in range(scores.shape[0]):
        call_pointer(
            address,
            (
                targets[i].ctypes.data,
                scores[i].ctypes.data,
                slopes[i].ctypes.data,
                values[i:].ctypes.data,
                parameters.ctypes.data,
                scores.shape[1],
            ),
        )


class Loss(Component, ABC):
    r"""Base of all losses :math:`\ell(f, y)`; subclass one of its three families.

    A loss of your own subclasses :class:`RegressionLoss`, :class:`MarginLoss` or
    :class:`MulticlassLoss` and gives its formula in one of two ways:

    1. ``value(y, f)`` and ``derivative(y, f)`` in NumPy. The learner calls them with arrays of
       shapes (n_samples, target width) and (n_samples, n_scores).
    2. ``row``, a static method that numba compiles, ``row(target, scores, slopes, value,
       parameters, n_scores)``: reads one row of numbers, writes ``slopes[0..n_scores-1]`` and
       ``value[0]``. ``row_parameters`` returns the content of ``parameters``. Single-row streams
       then run in the compiled loop, as with the losses of mercer.

    Declare ``curvature`` and ``lipschitz`` where they are finite: automatic step sizes and
    second-order steps use them. So do unregularised learners with ``hoelder_exponent`` and
    ``hoelder_constant``. Parameters go into ``__init__`` unchanged and are checked in
    ``_check``.

    Attributes
    ----------
    task : {"regression", "classification"}
        What the targets are.
    multiclass : bool
        Whether the loss joins all classes in one row of scores; margin losses see one at a time.
    curvature : float or None
        Upper bound of the second derivative in the scores (of its spectral norm); None if there
        is none.
    lipschitz : float or None
        Upper bound of the norm of the derivative, per output (for multi-class losses: of the
        whole row); None if there is none.
    hoelder_exponent, hoelder_constant : float or None
        The :math:`\alpha` and L of losses of margins :math:`\phi(s)`, s = y f, that are
        :math:`\alpha`-activating (Ying and Zhou, Definition 1): :math:`\phi'(0) < 0` and
        :math:`|\phi'(s) - \phi'(u)| \le L |s - u|^\alpha`. None for all others. What unregularised
        learning asks for (:func:`mercer.recipes.unregularized`).
    has_probabilities : bool
        Whether :meth:`probabilities` is available.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.losses import RegressionLoss
    >>> class LogCosh(RegressionLoss):
    ...     curvature = 1.0
    ...     lipschitz = 1.0
    ...     def value(self, y, f):
    ...         return np.logaddexp(f - y, y - f).sum(axis=1) - np.log(2.0)
    ...     def derivative(self, y, f):
    ...         return np.tanh(f - y)
    >>> LogCosh().derivative(np.array([[1.0]]), np.array([[1.5]])).round(3)
    array([[0.462]])
    """

    task: ClassVar[Task]
    multiclass: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False
    #: Whether predictions are means of the target, which are then right on average.
    of_mean: ClassVar[bool] = False
    #: What makes predictions, or probabilities, of scores; None where scores are predictions, or
    #: no log-odds.
    _inverse_link: ClassVar[Callable[..., Array] | None] = None
    #: Parameters whose numbers ``row`` reads, in its order.
    _row_numbers: ClassVar[tuple[str, ...]] = ()
    curvature: float | None = None
    lipschitz: float | None = None
    #: Whether the loss depends on the residuals y - f alone, so that targets may be centred.
    of_residuals: ClassVar[bool] = False
    hoelder_exponent: float | None = None
    hoelder_constant: float | None = None
    #: The loss of one row, for compiled loops; see the description of the class.
    row: ClassVar[Callable[..., None] | None] = None
    _row_is_current: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Compiled loops must not run the inherited row of a loss whose subclass changed a formula.
        if "row" in vars(cls):
            cls._row_is_current = True
        elif {"value", "derivative"} & set(vars(cls)):
            cls._row_is_current = False
        # Nor may targets be centred for a formula or a link of which nobody said that they may.
        changed = {"value", "derivative", "row", "encode", "predict"} & set(vars(cls))
        if changed and "of_residuals" not in vars(cls):
            cls.of_residuals = False
        if changed and "of_mean" not in vars(cls):
            cls.of_mean = False

    def row_parameters(self) -> list[float]:
        """Numbers that ``row`` reads from its argument ``parameters``."""
        return [getattr(self, name) for name in self._row_numbers]

    def compiled(self) -> CompiledLoss | None:
        """Address and numbers for compiled loops; None for losses given in NumPy only.

        Compiled at the first call, then kept on disk.
        """
        return self._compiled_row() if self._row_is_current else None

    def _compiled_row(self) -> CompiledLoss:
        check_formula(self)
        address = _compile(cast("Callable[..., None]", type(self).row))
        return CompiledLoss(address, np.array(self.row_parameters(), dtype=np.float64))

    def value(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Loss of each row, summed over its outputs.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, target width)
            Targets: numbers, labels -1 and +1 (margin losses), or class numbers (multi-class).
        f : array-like of shape (n_samples,) or (n_samples, n_scores)
            Scores.

        Returns
        -------
        values : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If the shapes do not fit, or the loss does not accept a target.
        """
        return self._run_row(y, f)[0]

    def derivative(self, y: ArrayLike, f: ArrayLike) -> Array:
        """Differentiate :meth:`value` in the scores.

        Parameters
        ----------
        y, f : array-like
            As in :meth:`value`.

        Returns
        -------
        slopes : ndarray of the shape of ``f``

        Raises
        ------
        ValueError
            As :meth:`value`.
        """
        return self._run_row(y, f)[1]

    def value_and_derivative(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        """Both :meth:`value` and :meth:`derivative`, for the price of one.

        Parameters
        ----------
        y, f : array-like
            As in :meth:`value`.

        Returns
        -------
        values : ndarray of shape (n_samples,)
        slopes : ndarray of the shape of ``f``

        Raises
        ------
        ValueError
            As :meth:`value`; or if a user's loss defines neither ``row`` nor both ``value`` and
            ``derivative``.
        """
        if self._row_is_current:
            return self._run_row(y, f)
        return self.value(y, f), self.derivative(y, f)

    def _run_row(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        compiled = self._compiled_row()
        targets, scores = self._as_rows(y, f)
        values, slopes = np.empty(scores.shape[0]), np.empty_like(scores)
        _all_rows(compiled.address, targets, scores, slopes, values, compiled.parameters)
        shape = np.shape(f)
        return values.reshape(shape[:1]), slopes.reshape(shape)

    def _as_rows(self, y: ArrayLike, f: ArrayLike) -> tuple[Array, Array]:
        """Targets and scores as checked C-ordered matrices."""
        scores = np.asarray(f, dtype=np.float64)
        targets = np.asarray(y, dtype=np.float64)
        if scores.ndim > 2:
            raise ValueError(
                f"`f` must have shape (n_samples,) or (n_samples, n_scores), got {scores.shape}. "
                "Compute the loss of one batch at a time."
            )
        n_rows = scores.shape[0] if scores.ndim else 1
        n_scores = scores.shape[1] if scores.ndim == 2 else 1
        width = self.target_width(n_scores)
        fits = targets.shape == (n_rows, width) or (
            width == 1 and targets.shape == (scores.shape[:1])
        )
        if not fits:
            raise ValueError(
                f"`y` of shape {targets.shape} does not fit `f` of shape {scores.shape}: "
                f"{type(self).__name__} needs {width} target(s) in each of {n_rows} row(s)."
            )
        targets = np.ascontiguousarray(targets.reshape(n_rows, width))
        self._check_targets(targets, n_scores)
        return targets, np.ascontiguousarray(scores.reshape(n_rows, n_scores))

    @abstractmethod
    def _check_targets(self, targets: Array, n_scores: int) -> None:
        """Raise ``ValueError`` for targets that the loss does not know."""

    @abstractmethod
    def n_scores(self, n_targets_or_classes: int) -> int:
        """Count the columns of scores.

        Parameters
        ----------
        n_targets_or_classes : int
            Targets of a regression, classes of a classification.

        Returns
        -------
        n_scores : int
        """

    @abstractmethod
    def target_width(self, n_scores: int) -> int:
        """Count the columns of targets that belong to ``n_scores`` columns of scores."""

    @abstractmethod
    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Turn the targets of an estimator into the rows that the loss reads.

        Parameters
        ----------
        labels : array-like of shape (n_samples,) or, for regressions, also (n_samples, n_targets)
            Targets; for classifications class numbers 0, ..., ``n_classes - 1``.
        n_classes : int, default=None
            Number of classes; needed for classifications.

        Returns
        -------
        targets : ndarray of shape (n_samples, target width)

        Raises
        ------
        ValueError
            For labels outside the range, or targets that the loss does not know.
        """

    @abstractmethod
    def predict(self, scores: ArrayLike) -> Array:
        """Prediction in units of the target; for regressions.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_scores)

        Returns
        -------
        predictions : ndarray of shape (n_samples, n_scores)

        Raises
        ------
        ValueError
            For a classification loss.
        """

    @abstractmethod
    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Class number of each row of scores; for classifications.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_scores)

        Returns
        -------
        classes : ndarray of shape (n_samples,)
            Ties go to the lowest number.

        Raises
        ------
        ValueError
            For a regression loss.
        """

    def probabilities(self, scores: ArrayLike) -> Array:
        """Class probabilities; where ``has_probabilities`` is true.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_scores)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to one.

        Raises
        ------
        AttributeError
            For a loss without a probability model.
        """
        if self._inverse_link is None or not self.has_probabilities:
            raise AttributeError(
                f"{type(self).__name__} has no probability model, so its scores are no log-odds. "
                "Use Logistic or Softmax for probabilities."
            )
        return self._inverse_link(as_scores(scores))


def check_formula(loss: Loss) -> None:
    """Raise ``ValueError`` for a loss with neither ``row`` nor ``value`` and ``derivative``."""
    cls = type(loss)
    in_numpy = cls.value is not Loss.value and cls.derivative is not Loss.derivative
    if cls.row is None and not in_numpy:
        raise ValueError(
            f"{cls.__name__} has no formula. A loss defines `value` and `derivative`, "
            "or the static method `row`; see the docstring of mercer.losses.Loss."
        )


def loss_and_slopes(loss: Loss, values: Array, targets: Array) -> tuple[Array, Array]:
    """Loss of each row, (n,), and its derivative, (n, n_outputs), without weights.

    Parameters
    ----------
    loss : Loss
        The loss.
    values : ndarray of shape (n, n_outputs)
        The function at the rows.
    targets : ndarray of shape (n, target_width)
        Targets as the loss encodes them.
    """
    return loss.value_and_derivative(targets[:, 0] if loss.multiclass else targets, values)


class RegressionLoss(Loss):
    """Family of losses of real targets; one score per target unless a loss says otherwise.

    Examples
    --------
    >>> from mercer.losses import Huber
    >>> Huber().encode([1.0, 2.0])
    array([[1.],
           [2.]])
    """

    task: ClassVar[Task] = "regression"
    #: Columns of scores that one target has.
    scores_per_target: int = 1

    def n_scores(self, n_targets_or_classes: int) -> int:
        """As many scores as each target has, for all targets."""
        return n_targets_or_classes * self.scores_per_target

    def target_width(self, n_scores: int) -> int:
        """One target per group of its scores.

        Raises
        ------
        ValueError
            If ``n_scores`` is not a multiple of :attr:`scores_per_target`.
        """
        each = self.scores_per_target
        if n_scores % each:
            raise ValueError(
                f"`f` has {n_scores} column(s), but {self!r} needs a multiple of {each}: so many "
                "columns for each target."
            )
        return n_scores // each

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Return the targets as float64 of shape (n_samples, n_targets)."""
        targets = np.array(labels, dtype=np.float64, order="C", ndmin=1)
        targets = targets.reshape(-1, 1) if targets.ndim == 1 else targets
        self._check_targets(targets, self.n_scores(targets.shape[1]))
        return targets

    def predict(self, scores: ArrayLike) -> Array:
        """Return the scores themselves, in units of the target, or what the inverse link makes."""
        F = np.array(scores, dtype=np.float64)
        return F if self._inverse_link is None else self._inverse_link(F)

    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Raise an error: there are no classes."""
        raise ValueError(
            f"{type(self).__name__} is a regression loss and decides no class. "
            "Use `predict` for predictions in units of the target."
        )

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        if not np.isfinite(targets).all():
            raise ValueError(
                "`y` contains NaN or infinity, which no loss can follow. Remove these rows, or "
                "impute their targets."
            )


def _class_numbers(labels: ArrayLike, n_classes: int | None) -> NDArray[np.int64]:
    """Return labels as class numbers, checked against their range."""
    n_classes = check_integer(
        "n_classes", n_classes, low=1, why="It sets the number of columns of the targets."
    )
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            f"`labels` must be a 1-D array of integers, got shape {numbers.shape} and dtype "
            f"{numbers.dtype}. Number the classes, for example by "
            "numpy.unique(labels, return_inverse=True)."
        )
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_classes):
        raise ValueError(
            f"`labels` must lie between 0 and n_classes - 1 = {n_classes - 1}, got values from "
            f"{numbers.min()} to {numbers.max()}. Number the classes from 0."
        )
    return numbers.astype(np.int64)


def as_scores(scores: ArrayLike) -> Array:
    """Return scores as a matrix, or raise ``ValueError``."""
    F = np.asarray(scores, dtype=np.float64)
    if F.ndim != 2 or F.shape[1] == 0:
        raise ValueError(
            f"`scores` must have shape (n_samples, n_scores), got {F.shape}. Reshape the scores "
            "of a binary problem to one column."
        )
    return F


class _ClassificationLoss(Loss):
    """What the two families of losses of classes share."""

    task: ClassVar[Task] = "classification"

    def predict(self, scores: ArrayLike) -> Array:
        """Raise an error: scores are not in the unit of a target."""
        raise ValueError(
            f"{type(self).__name__} is a classification loss and predicts no number. "
            "Use `decide` for class numbers."
        )


class MarginLoss(_ClassificationLoss):
    """Family of losses of the margin y f, with labels y of -1 and +1.

    Up to two classes share one score, positive for class 1. More classes have one score each,
    learned one against the rest, on a shared dictionary.

    Examples
    --------
    >>> from mercer.losses import Hinge
    >>> Hinge().encode([0, 1], n_classes=2)
    array([[-1.],
           [ 1.]])
    >>> Hinge().encode([0, 2], n_classes=3)
    array([[ 1., -1., -1.],
           [-1., -1.,  1.]])
    """

    def n_scores(self, n_targets_or_classes: int) -> int:
        """One score for up to two classes, else one per class."""
        return n_targets_or_classes if n_targets_or_classes > 2 else 1

    def target_width(self, n_scores: int) -> int:
        """One label of -1 or +1 per score."""
        return n_scores

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Turn class numbers into labels -1 and +1 of shape (n_samples, n_scores)."""
        numbers = _class_numbers(labels, n_classes)
        columns = np.arange(n_classes) if n_classes and n_classes > 2 else np.array([1])
        return np.where(numbers[:, None] == columns, 1.0, -1.0)

    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the class with the largest score, for one score class 1 where it is positive."""
        F = as_scores(scores)
        decided: NDArray[np.int64]
        decided = np.asarray(F[:, 0] > 0 if F.shape[1] == 1 else F.argmax(axis=1), np.int64)
        return decided

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        wrong = np.abs(targets) != 1.0
        if wrong.any():
            raise ValueError(
                f"`y` contains {targets[wrong][0]:g}, but {type(self).__name__} needs labels -1 "
                "and +1. Use `encode` to turn class numbers into labels."
            )


class MulticlassLoss(_ClassificationLoss):
    """Family of losses that compare the scores of all classes; the target is the class number.

    Examples
    --------
    >>> from mercer.losses import Softmax
    >>> Softmax().encode([0, 2], n_classes=3)
    array([[0.],
           [2.]])
    """

    multiclass: ClassVar[bool] = True

    def n_scores(self, n_targets_or_classes: int) -> int:
        """One score per class."""
        return n_targets_or_classes

    def target_width(self, n_scores: int) -> int:
        """One class number."""
        return 1

    def encode(self, labels: ArrayLike, n_classes: int | None = None) -> Array:
        """Return the class numbers as float64 of shape (n_samples, 1)."""
        return _class_numbers(labels, n_classes).astype(np.float64)[:, None]

    def decide(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the class with the largest score."""
        decided: NDArray[np.int64] = as_scores(scores).argmax(axis=1).astype(np.int64)
        return decided

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        wrong = ~((targets >= 0) & (targets < n_scores) & (targets == np.floor(targets)))
        if wrong.any():
            raise ValueError(
                f"`y` contains {targets[wrong][0]:g}, but {type(self).__name__} with {n_scores} "
                f"columns of scores needs class numbers 0 to {n_scores - 1}. Number the classes "
                "from 0 and give one score per class."
            )


def _squared(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        total += 0.5 * r * r
        slopes[c] = r
    value[0] = total


class Squared(RegressionLoss):
    r"""Squared loss :math:`\ell = \tfrac12 (f - y)^2`: the score follows the mean.

    Examples
    --------
    >>> Squared().value([1.0], [3.0])
    array([2.])
    """

    of_residuals = True
    of_mean = True
    curvature = 1.0
    row = staticmethod(_squared)


def _absolute_error(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        total += abs(r)
        slopes[c] = 1.0 if r > 0.0 else (-1.0 if r < 0.0 else 0.0)
    value[0] = total


class AbsoluteError(RegressionLoss):
    r"""Absolute error :math:`\ell = |f - y|`: the score follows the median.

    Examples
    --------
    >>> AbsoluteError().derivative([1.0, 1.0], [3.0, 1.0])
    array([1., 0.])
    """

    of_residuals = True
    lipschitz = 1.0
    row = staticmethod(_absolute_error)


def _huber(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    delta = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        if r > delta:
            total += delta * (r - 0.5 * delta)
            slopes[c] = delta
        elif r < -delta:
            total += delta * (-r - 0.5 * delta)
            slopes[c] = -delta
        else:
            total += 0.5 * r * r
            slopes[c] = r
    value[0] = total


class Huber(RegressionLoss):
    r"""Huber's loss: :class:`Squared` up to a residual of ``delta``, linear beyond.

    :math:`\ell = \tfrac12 r^2` for :math:`|r| \le \delta`, else
    :math:`\delta (|r| - \tfrac12 \delta)`, with :math:`r = f - y`.

    Parameters
    ----------
    delta : float, default=1.0
        Residual, in units of the target, from which on a sample counts as an outlier; above 0.

    Raises
    ------
    ValueError
        If ``delta`` is not above 0.

    Examples
    --------
    >>> Huber(delta=1.0).value([0.0, 0.0], [1.0, 3.0])
    array([0.5, 2.5])
    """

    of_residuals = True
    curvature = 1.0
    row = staticmethod(_huber)
    _row_numbers = ("delta",)

    _parameters = parameters(delta=positive("At 0 nothing is learned."))

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta
        self._check()

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest slope, ``delta``."""
        return float(self.delta)


def _epsilon_insensitive(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    epsilon = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        excess = abs(r) - epsilon
        if excess <= 0.0:
            slopes[c] = 0.0
        else:
            total += excess
            slopes[c] = 1.0 if r > 0.0 else -1.0
    value[0] = total


def _squared_epsilon_insensitive(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    epsilon = parameters[0]
    total = 0.0
    for c in range(n_scores):
        r = scores[c] - target[c]
        excess = abs(r) - epsilon
        if excess <= 0.0:
            slopes[c] = 0.0
        else:
            total += 0.5 * excess * excess
            slopes[c] = excess if r > 0.0 else -excess
    value[0] = total


class EpsilonInsensitive(RegressionLoss):
    r"""Loss of support vector regression, :math:`\ell = \max(|f - y| - \epsilon, 0)`.

    Parameters
    ----------
    epsilon : float, default=0.1
        Residual, in units of the target, that costs nothing; at least 0.

    Raises
    ------
    ValueError
        If ``epsilon`` is negative.

    Examples
    --------
    >>> EpsilonInsensitive(epsilon=0.5).value([0.0, 0.0], [0.25, 1.5])
    array([0., 1.])
    """

    of_residuals = True
    lipschitz = 1.0
    row = staticmethod(_epsilon_insensitive)
    _row_numbers = ("epsilon",)

    _parameters = parameters(epsilon=real(low=0.0, why="It is half the width of a tube."))

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon
        self._check()


class SquaredEpsilonInsensitive(RegressionLoss):
    r"""Smooth tube loss, :math:`\ell = \tfrac12 \max(|f - y| - \epsilon, 0)^2`.

    With the factor one half it is :class:`Squared` at ``epsilon=0``; scikit-learn's
    ``squared_epsilon_insensitive`` lacks the factor and is twice as large.

    Parameters
    ----------
    epsilon : float, default=0.1
        Residual, in units of the target, that costs nothing; at least 0.

    Raises
    ------
    ValueError
        If ``epsilon`` is negative.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(epsilon=0.5).value([0.0, 0.0], [0.25, 1.5])
    array([0. , 0.5])
    """

    of_residuals = True
    curvature = 1.0
    row = staticmethod(_squared_epsilon_insensitive)
    _row_numbers = ("epsilon",)

    _parameters = parameters(epsilon=real(low=0.0, why="It is half the width of a tube."))

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon
        self._check()


def _quantile(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    n_levels = int(parameters[0])
    total = 0.0
    for c in range(n_scores):
        level = parameters[1 + c % n_levels]
        r = target[c // n_levels] - scores[c]
        if r > 0.0:
            total += level * r
            slopes[c] = -level
        else:
            total += (level - 1.0) * r
            slopes[c] = 1.0 - level if r < 0.0 else 0.0
    value[0] = total


def _listed(levels: Any) -> list[Any]:
    return [levels] if np.ndim(levels) == 0 else list(levels)


def _check_levels(name: str, value: Any) -> None:
    if np.ndim(value) > 1 or np.size(value) == 0:
        raise ValueError(
            f"`{name}` must be a number or a list of numbers, got {value!r}. "
            "Write levels=0.5 for the median, levels=[0.1, 0.9] for two quantiles."
        )
    for level in _listed(value):
        check_real(name, level, low=0.0, high=1.0, open_low=True, open_high=True)


class Quantile(RegressionLoss):
    r"""Pinball loss: the score follows a quantile of the target, or several at once.

    :math:`\ell = \tau r` for :math:`r = y - f > 0`, else :math:`(\tau - 1) r`. Several levels
    share one dictionary and are learned in one pass; nothing forces their scores into order.

    Parameters
    ----------
    levels : float or list of float, default=0.5
        Levels :math:`\tau` between 0 and 1. With L levels a row has L scores per target, target
        by target: (target 0, level 0), (target 0, level 1), ..., (target 1, level 0), ...

    Raises
    ------
    ValueError
        If ``levels`` is empty or a level is not strictly between 0 and 1.

    Examples
    --------
    >>> loss = Quantile(levels=[0.1, 0.9])
    >>> loss.n_scores(1)
    2
    >>> loss.derivative([2.0], [[0.0, 3.0]])
    array([[-0.1,  0.1]])
    """

    of_residuals = True
    row = staticmethod(_quantile)

    _parameters = parameters(levels=_check_levels)

    def __init__(self, levels: float | Sequence[float] = 0.5) -> None:
        self.levels = levels
        self._check()

    def _levels(self) -> list[Any]:
        return _listed(self.levels)

    def __eq__(self, other: object) -> bool:
        # A tuple or an array of levels comes back from a model file as a list or an array.
        if type(other) is not type(self):
            return NotImplemented
        one_number = np.ndim(self.levels) == np.ndim(other.levels)
        return one_number and self._levels() == other._levels()

    __hash__ = None  # type: ignore[assignment]  # mutable by set_params

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The largest slope over the levels."""
        return max(max(float(level), 1.0 - float(level)) for level in self._levels())

    def row_parameters(self) -> list[float]:
        """Give ``row`` the number of levels, then the levels."""
        levels = self._levels()
        return [float(len(levels)), *levels]

    @property
    def scores_per_target(self) -> int:  # type: ignore[override]
        """Number of levels."""
        return len(self._levels())

    def explained(self, y: ArrayLike, f: ArrayLike, sample_weight: Array) -> float:
        """Explained share of the loss, D², averaged over targets.

        Parameters
        ----------
        y, f : array-like
            As in :meth:`value`; of one target and several levels ``f`` has one column per level.
        sample_weight : ndarray of shape (n_samples,)
            Weights of the rows.

        Returns
        -------
        share : float
            1 minus the mean loss divided by the loss of the quantiles of ``y``, the best constants;
            0 if only constants have no loss; NaN, with a warning, for fewer than two rows.

        Raises
        ------
        ValueError
            As :meth:`value`.

        Examples
        --------
        >>> f = [[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]
        >>> round(Quantile([0.1, 0.9]).explained([1.0, 2.0, 3.0], f, np.ones(3)), 3)
        0.833
        """
        targets = np.asarray(y, dtype=np.float64).reshape(np.shape(y)[0], -1)
        scores = np.asarray(f, dtype=np.float64)
        if len(targets) < 2:
            warnings.warn("D² of fewer than two rows is not defined.", UndefinedMetricWarning, 2)
            return math.nan
        self.value(targets, scores)  # checks the shapes
        shares = []
        for column, levels in zip(targets.T, np.split(scores, targets.shape[1], 1), strict=True):
            order = np.argsort(column)
            heights = np.cumsum(sample_weight[order])
            ranks = np.searchsorted(heights, np.asarray(self._levels()) * heights[-1])
            constants = np.broadcast_to(column[order][ranks], levels.shape)
            left, least = (
                float(np.average(self.value(column, tried), weights=sample_weight))
                for tried in (levels, constants)
            )
            shares.append(1.0 - left / least if least > 0.0 else float(left == 0.0))
        return float(np.mean(shares))


_LARGEST_LOG_RATE = 30.0


def _poisson(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        f = scores[c]
        if f > _LARGEST_LOG_RATE:
            rate = math.exp(_LARGEST_LOG_RATE)
            total += rate * (1.0 + f - _LARGEST_LOG_RATE) - target[c] * f
        else:
            rate = math.exp(f)
            total += rate - target[c] * f
        slopes[c] = rate - target[c]
    value[0] = total


def _rates(F: Array) -> Array:
    """Rates exp(f), at most exp(30)."""
    rates: Array = np.exp(np.minimum(F, _LARGEST_LOG_RATE))
    return rates


class Poisson(RegressionLoss):
    r"""Poisson loss with logarithmic link, :math:`\ell = e^f - y f`, for counts and rates.

    Beyond :math:`f = 30` (a rate of :math:`10^{13}`) the exponential continues along its tangent,
    so that a diverging score stays finite. The slope is ``predict(f) - y`` everywhere. The constant
    :math:`\log y!` of the likelihood is left out; the loss can be negative.

    Examples
    --------
    >>> loss = Poisson()
    >>> loss.derivative([3.0], [0.0])
    array([-2.])
    >>> loss.predict([[0.0]])
    array([[1.]])
    """

    of_mean = True
    row = staticmethod(_poisson)
    _inverse_link = staticmethod(_rates)

    def _check_targets(self, targets: Array, n_scores: int) -> None:
        super()._check_targets(targets, n_scores)
        if (targets < 0).any():
            raise ValueError(
                f"`y` contains {targets.min():g}, but the Poisson loss needs targets of at least "
                "0: below, it has no minimum. Use `Squared` or `Huber` for signed targets."
            )


def _logistic(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        margin = target[c] * scores[c]
        if margin > 0.0:  # exponentials of negative numbers only: no overflow
            e = math.exp(-margin)
            total += math.log1p(e)
            slopes[c] = -target[c] * (e / (1.0 + e))
        else:
            e = math.exp(margin)
            total += math.log1p(e) - margin
            slopes[c] = -target[c] / (1.0 + e)
    value[0] = total


def _logistic_probabilities(F: Array) -> Array:
    """Logistic function of the score; normalised over one-versus-rest scores."""
    if F.shape[1] == 1:
        return np.asarray(special.expit(np.hstack([-F, F])))
    # In logarithms: far from all classes every logistic function underflows.
    return np.asarray(special.softmax(special.log_expit(F), axis=1))


class Logistic(MarginLoss):
    r"""Logistic loss :math:`\ell = \log(1 + e^{-y f})`: the score follows the log-odds.

    References
    ----------
    POLK, eq. (7), with the sign of f turned: there P(y = 0) is the logistic function of f.

    Examples
    --------
    >>> loss = Logistic()
    >>> loss.derivative([1.0, -1.0], [0.0, 0.0])
    array([-0.5,  0.5])
    >>> loss.probabilities([[0.0]])
    array([[0.5, 0.5]])
    """

    curvature = 0.25
    lipschitz = 1.0
    hoelder_exponent = 1.0
    hoelder_constant = 0.25
    has_probabilities: ClassVar[bool] = True
    row = staticmethod(_logistic)
    _inverse_link = staticmethod(_logistic_probabilities)


def _hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit
            slopes[c] = -target[c]
    value[0] = total


class Hinge(MarginLoss):
    r"""Hinge loss :math:`\ell = \max(1 - y f, 0)` of support vector machines.

    Examples
    --------
    >>> Hinge().value([1.0, 1.0], [0.25, 2.0])
    array([0.75, 0.  ])
    """

    lipschitz = 1.0
    row = staticmethod(_hinge)


def _squared_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit * deficit
            slopes[c] = -2.0 * target[c] * deficit
    value[0] = total


class SquaredHinge(MarginLoss):
    r"""Squared hinge loss :math:`\ell = \max(1 - y f, 0)^2`, smooth.

    Examples
    --------
    >>> SquaredHinge().derivative([1.0], [0.5])
    array([-1.])
    """

    curvature = 2.0
    hoelder_exponent = 1.0
    hoelder_constant = 2.0
    row = staticmethod(_squared_hinge)


def _q_norm_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    q = parameters[0]
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        if deficit <= 0.0:
            slopes[c] = 0.0
        else:
            total += deficit**q
            slopes[c] = -target[c] * q * deficit ** (q - 1.0)
    value[0] = total


class QNormHinge(MarginLoss):
    r"""Loss :math:`\ell = \max(1 - y f, 0)^q`, between :class:`Hinge` and :class:`SquaredHinge`.

    Its derivative is Hölder continuous with exponent q - 1.

    Parameters
    ----------
    q : float, default=1.5
        Exponent, above 1 and at most 2.

    Raises
    ------
    ValueError
        If ``q`` is outside its range.

    References
    ----------
    Ying and Zhou, Unregularized Online Learning Algorithms with General Loss Functions.

    Examples
    --------
    >>> QNormHinge(q=1.5).value([1.0], [-3.0])
    array([8.])
    """

    row = staticmethod(_q_norm_hinge)
    _row_numbers = ("q",)

    _parameters = parameters(
        q=real(low=1.0, high=2.0, open_low=True, why="Use `Hinge` for an exponent of 1.")
    )

    def __init__(self, q: float = 1.5) -> None:
        self.q = q
        self._check()

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """Twice a square's; unbounded at the kink for q below 2."""
        return 2.0 if self.q == 2 else None

    @property
    def hoelder_exponent(self) -> float | None:  # type: ignore[override]
        """Return q - 1."""
        return float(self.q) - 1.0

    @property
    def hoelder_constant(self) -> float | None:  # type: ignore[override]
        """Return q: powers below 1 are subadditive, so differences are largest from the kink."""
        return float(self.q)


def _least_squares_margin(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    total = 0.0
    for c in range(n_scores):
        deficit = 1.0 - target[c] * scores[c]
        total += deficit * deficit
        slopes[c] = -2.0 * target[c] * deficit
    value[0] = total


class LeastSquaresMargin(MarginLoss):
    r"""Least squares on the labels, :math:`\ell = (1 - y f)^2`.

    For labels of -1 and +1 it is twice :class:`Squared`.

    Examples
    --------
    >>> LeastSquaresMargin().value([1.0], [3.0])
    array([4.])
    """

    curvature = 2.0
    hoelder_exponent = 1.0
    hoelder_constant = 2.0
    row = staticmethod(_least_squares_margin)


def _softmax(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    label = int(target[0])
    top = scores[0]
    for c in range(1, n_scores):
        if scores[c] > top:
            top = scores[c]
    total = 0.0
    for c in range(n_scores):
        slopes[c] = math.exp(scores[c] - top)
        total += slopes[c]
    for c in range(n_scores):
        slopes[c] /= total
    slopes[label] -= 1.0
    value[0] = math.log(total) + (top - scores[label])


def _softmax_probabilities(F: Array) -> Array:
    return np.asarray(special.softmax(F, axis=1))


class Softmax(MulticlassLoss):
    r"""Cross-entropy :math:`\ell = \log \sum_c e^{f_c} - f_y` of multinomial logistic regression.

    References
    ----------
    POLK, eqs. (27) and (28), without the regularisation.

    Examples
    --------
    >>> loss = Softmax()
    >>> loss.derivative([0], [[0.0, 0.0]])
    array([[-0.5,  0.5]])
    >>> loss.probabilities([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    curvature = 0.5
    lipschitz = math.sqrt(2.0)
    has_probabilities: ClassVar[bool] = True
    row = staticmethod(_softmax)
    _inverse_link = staticmethod(_softmax_probabilities)


def _multiclass_hinge(
    target: Any, scores: Any, slopes: Any, value: Any, parameters: Any, n_scores: int
) -> None:
    label = int(target[0])
    rival = -1
    for c in range(n_scores):
        slopes[c] = 0.0
        # A NaN wins, so that the value shows it.
        if c != label and (rival < 0 or scores[c] > scores[rival] or math.isnan(scores[c])):
            rival = c
    value[0] = 0.0
    if rival >= 0:  # -1 with a single class
        deficit = 1.0 + scores[rival] - scores[label]
        if not deficit <= 0.0:
            value[0] = deficit
            slopes[label] = -1.0
            slopes[rival] = 1.0


class MulticlassHinge(MulticlassLoss):
    r"""Multi-class hinge :math:`\ell = \max(0, 1 + \max_{c \ne y} f_c - f_y)`.

    Among rivals with equal scores, the one with the lowest class number gets the slope.

    References
    ----------
    POLK, eq. (26), without the regularisation.

    Examples
    --------
    >>> loss = MulticlassHinge()
    >>> loss.derivative([0], [[0.0, 0.5, 0.5]])
    array([[-1.,  1.,  0.]])
    """

    lipschitz = math.sqrt(2.0)
    row = staticmethod(_multiclass_hinge)


_LOSSES: tuple[type[Loss], ...] = (
    Squared,
    AbsoluteError,
    Huber,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    Quantile,
    Poisson,
    Logistic,
    Hinge,
    SquaredHinge,
    QNormHinge,
    LeastSquaresMargin,
    Softmax,
    MulticlassHinge,
)

# What other libraries call the same losses (docs/guide/names.md lists them): the one of the task,
# or the first where no task is said.
_ALIASES: dict[str, tuple[str, ...]] = {
    "absolute": ("absolute_error",),
    "binary": ("logistic",),
    "binary:logistic": ("logistic",),
    "binary_crossentropy": ("logistic",),
    "binary_logloss": ("logistic",),
    "categorical_crossentropy": ("softmax",),
    "count:poisson": ("poisson",),
    "crammer_singer": ("multiclass_hinge",),
    "cross_entropy": ("softmax",),
    "l1": ("absolute_error",),
    "l2": ("squared", "least_squares_margin"),
    "lad": ("absolute_error",),
    "least_squares": ("squared", "least_squares_margin"),
    "log": ("logistic",),
    "log_loss": ("logistic",),
    "logloss": ("logistic",),
    "ls": ("squared", "least_squares_margin"),
    "mae": ("absolute_error",),
    "mean_absolute_error": ("absolute_error",),
    "mean_squared_error": ("squared", "least_squares_margin"),
    "mse": ("squared", "least_squares_margin"),
    "multi:softmax": ("softmax",),
    "multi:softprob": ("softmax",),
    "multi_logloss": ("softmax",),
    "multiclass": ("softmax",),
    "multinomial": ("softmax",),
    "pinball": ("quantile",),
    "reg:absoluteerror": ("absolute_error",),
    "reg:quantileerror": ("quantile",),
    "reg:squarederror": ("squared",),
    "regression": ("squared",),
    "regression_l1": ("absolute_error",),
    "regression_l2": ("squared",),
    "rmse": ("squared",),
    "squared_error": ("squared", "least_squares_margin"),
}


def _name(cls: type[Loss]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def as_loss(value: Any, task: Task | None = None) -> Loss:
    """Turn a loss or its name into a loss.

    Parameters
    ----------
    value : Loss or str
        A loss, returned as it is, or the name of one, for example ``"squared_hinge"``, which
        stands for it with default parameters. Usual names of other libraries, such as ``"mae"``
        and ``"log_loss"``, are understood.
    task : {"regression", "classification"}, default=None
        What the loss is needed for; None accepts both.

    Returns
    -------
    loss : Loss

    Raises
    ------
    ValueError
        For an unknown name, something that is not a loss, or a loss of the other task.

    Examples
    --------
    >>> as_loss("squared_hinge", task="classification")
    SquaredHinge()
    >>> as_loss("mae")
    AbsoluteError()
    """
    names = {_name(cls): cls for cls in _LOSSES}
    usable = [name for name, cls in names.items() if task in (None, cls.task)]
    aliases = {
        alias: next((name for name in those if name in usable), those[0])
        for alias, those in _ALIASES.items()
    }
    name = name_among(value, names, aliases)
    loss: Any = value if name is None else names[name]()
    if not isinstance(loss, Loss):
        near = {alias: name for alias, name in aliases.items() if name in usable}
        hint = nearest(value, usable, near).lstrip() if isinstance(value, str) else ""
        if isinstance(value, type) and issubclass(value, Loss):
            hint = f"Did you mean {value.__name__}(), with brackets?"
        listed = ", ".join(repr(name) for name in usable)
        raise ParameterError(
            Advice(
                "`loss` must be ",
                InPython("a loss of mercer.losses or "),
                f"one of the names {listed}, got {value!r}.",
            ),
            parameter="loss",
            value=value,
            mend=hint,
        )
    check_formula(loss)
    if task is not None and loss.task != task:
        listed = ", ".join(repr(name) for name in usable)
        raise ValueError(
            f"`{_name(type(loss))}` is a {loss.task} loss, but a {task} loss is needed here. "
            f"Use one of {listed}."
        )
    return loss
