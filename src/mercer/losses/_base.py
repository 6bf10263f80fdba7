"""What all losses share: checks, the compiled row loop, the interface of the learner, families."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from numba import types
from numpy.typing import ArrayLike, NDArray

from mercer.component import Component
from mercer.jit import c_function, jit
from mercer.pointers import call_pointer
from mercer.validation import check_integer

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


_compiled: dict[Callable[..., Any], Any] = {}  # holds the machine code: addresses stay valid
_compiling = threading.Lock()


def _compile(row: Callable[..., Any]) -> int:
    """Compile a row function at its first use; return its address."""
    with _compiling:
        if row not in _compiled:
            # Functions typed at a prompt have no file beside which numba could keep a cache.
            cache = row.__module__.startswith("mercer.")
            _compiled[row] = c_function(_ROW, cache=cache, error_model="numpy")(row)
        return int(_compiled[row].address)


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
