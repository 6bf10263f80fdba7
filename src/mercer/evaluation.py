"""Test-then-train evaluation of a model on a stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from mercer.columns.tasks import infer_task
from mercer.validation import check_choice, check_integer

__all__ = ["ProgressiveResult", "progressive"]

Floats = NDArray[np.float64]
_METRICS = ("error_rate", "mse", "log_loss")
_SMALLEST_PROBABILITY = float(np.finfo(np.float64).eps)


class StreamModel(Protocol):
    """What can be evaluated: anything that predicts and learns in pieces."""

    def predict(self, X: Any) -> Any:
        """Return a prediction for each row."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn these rows, too."""


@dataclass
class ProgressiveResult:
    """Course of a test-then-train evaluation.

    Attributes
    ----------
    metric : str
        "error_rate", "mse" or "log_loss"; for all of them smaller is better.
    n_samples : int
        Rows predicted before they were learned.
    n_learned : int
        Rows learned; larger by the first batch, where the model could not predict yet.
    value : float
        Mean loss over all rows predicted; NaN if there were none.
    samples : ndarray of shape (n_windows,)
        Number of rows predicted at the end of each window.
    windowed : ndarray of shape (n_windows,)
        Mean loss within each window.
    cumulative : ndarray of shape (n_windows,)
        Mean loss up to the end of each window.
    """

    metric: str
    n_samples: int = 0
    n_learned: int = 0
    value: float = float("nan")
    samples: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    windowed: Floats = field(default_factory=lambda: np.empty(0))
    cumulative: Floats = field(default_factory=lambda: np.empty(0))


def progressive(
    model: StreamModel,
    stream: Iterable[tuple[Any, Any]],
    *,
    metric: Literal["auto", "error_rate", "mse", "log_loss"] = "auto",
    every: int = 1000,
    classes: Any = None,
    max_windows: int = 1000,
) -> ProgressiveResult:
    """Predict every batch before learning it, and measure the predictions.

    Every row tests a model that has not seen it, so the mean is an honest estimate without a test
    set, and the windows show learning and drift.

    Parameters
    ----------
    model : object
        Model with ``predict`` and ``partial_fit``; it learns the stream. A model that is not fitted
        yet learns the first batch without predicting it.
    stream : iterable of (X, y)
        Mini-batches, such as those of :func:`mercer_app.files.stream`.
    metric : {"auto", "error_rate", "mse", "log_loss"}, default="auto"
        Fraction of wrong classes, mean squared error (over all outputs), or mean negative natural
        logarithm of the probability given to the true class, at least 2.2e-16, from
        ``predict_proba``. "auto": error rate for classifiers, mean squared error for regressors.
    every : int, default=1000
        Rows of a window.
    classes : array-like or None, default=None
        Passed to the first ``partial_fit``, for models that need all classes in advance.
    max_windows : int, default=1000
        When there would be more, neighbours are joined and windows become twice as long, so that
        the result stays small for any stream.

    Returns
    -------
    result : ProgressiveResult
        The metric over the whole stream, over time and in windows.

    Raises
    ------
    ValueError
        If batches have no targets, or the metric does not fit the model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDClassifier
    >>> X = np.random.default_rng(0).standard_normal((640, 2))
    >>> batches = ((X[i : i + 32], X[i : i + 32, 0] > 0) for i in range(0, 640, 32))
    >>> result = progressive(SGDClassifier(random_state=0), batches,
    ...                      classes=[False, True], every=200)
    >>> result.metric, result.n_samples, result.samples.tolist(), result.value < 0.1
    ('error_rate', 608, [200, 400, 600, 608], True)
    """
    check_choice("metric", metric, ("auto", *_METRICS))
    check_integer("every", every, low=1)
    check_integer("max_windows", max_windows, low=2)
    windows = _Windows(every, max_windows)
    name: str | None = None if metric == "auto" else metric
    n_learned = 0
    first_options = {} if classes is None else {"classes": classes}
    for X, y in stream:
        if y is None:
            raise ValueError(
                "The batches have no targets to compare with. Give `stream` a `y` or `target`."
            )
        y = np.asarray(y)
        if len(y) == 0:
            continue
        if name is None:
            name = _metric_for(model, y)
        try:
            losses = _losses(model, X, y, name)
        except NotFittedError:
            if n_learned:
                raise
        else:
            windows.add(losses)
        model.partial_fit(X, y, **first_options)
        first_options = {}
        n_learned += len(y)
    return windows.result(name or metric, n_learned)


def _metric_for(model: Any, y: NDArray[Any]) -> str:
    if hasattr(model, "__sklearn_tags__"):
        if is_classifier(model):
            return "error_rate"
        if is_regressor(model):
            return "mse"
    several_outputs = y.ndim > 1
    return "mse" if several_outputs or infer_task(y) == "regression" else "error_rate"


def _losses(model: Any, X: Any, y: NDArray[Any], metric: str) -> Floats:
    """Loss of each row, of shape (n_samples,)."""
    if metric == "log_loss":
        if not hasattr(model, "predict_proba"):
            raise ValueError(
                "The log loss needs probabilities, but the model has no `predict_proba`. Use "
                'metric="error_rate", or a model with a probabilistic loss.'
            )
        probabilities = np.asarray(model.predict_proba(X), dtype=np.float64)
        hits = y[:, None] == np.asarray(model.classes_)[None, :]
        # A class never seen has no column and gets probability 0.
        p = np.where(hits, probabilities, 0.0).sum(axis=1)
        return np.asarray(-np.log(np.clip(p, _SMALLEST_PROBABILITY, 1.0)))
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise ValueError(
            f"The model predicts an array of shape {predicted.shape} for targets of shape "
            f"{y.shape}; the two must agree."
        )
    if metric == "error_rate":
        return np.asarray(predicted != y, dtype=np.float64)
    if y.dtype.kind in "USO" or predicted.dtype.kind in "USO":
        raise ValueError('Text has no squared error. Use metric="error_rate" for classes.')
    squares = (predicted.astype(np.float64) - y.astype(np.float64)) ** 2
    return np.asarray(squares.reshape(len(y), -1).mean(axis=1))


class _Windows:
    """Sums of losses in windows of equal length, at most ``most`` of them."""

    def __init__(self, every: int, most: int) -> None:
        self._every, self._most = every, most
        self._sums: list[float] = []
        self._sum = 0.0  # of the window not yet full
        self._count = 0

    def add(self, losses: Floats) -> None:
        while len(losses):
            part = losses[: self._every - self._count]
            losses = losses[len(part) :]
            self._sum += float(part.sum())
            self._count += len(part)
            if self._count == self._every:
                self._close()

    def _close(self) -> None:
        self._sums.append(self._sum)
        self._sum, self._count = 0.0, 0
        if len(self._sums) < self._most:
            return
        if len(self._sums) % 2:
            # The odd one begins the next, longer window.
            self._sum, self._count = self._sums.pop(), self._every
        self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self._every *= 2

    def result(self, metric: str, n_learned: int) -> ProgressiveResult:
        counts = [self._every] * len(self._sums) + [self._count] * bool(self._count)
        sums = np.array(self._sums + [self._sum] * bool(self._count))
        if not counts:
            return ProgressiveResult(metric, n_learned=n_learned)
        samples = np.cumsum(counts)
        cumulative = np.cumsum(sums) / samples
        return ProgressiveResult(
            metric=metric,
            n_samples=int(samples[-1]),
            n_learned=n_learned,
            value=float(cumulative[-1]),
            samples=samples,
            windowed=sums / np.array(counts),
            cumulative=cumulative,
        )
