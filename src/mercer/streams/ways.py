r"""Ways to learn a linear function of features, side by side, at a fixed cost a row.

Which way is best depends on the stream: small steps where it stands still, large ones where it
moves, recursive sums where there is little noise. All of them see the same features and predict
each row before they learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer._validation import check_integer, check_real

__all__ = ["LinearWays", "RunningScale"]

Array = NDArray[np.float64]

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Scaled inputs are cut here: a first row says nothing of the spread.
_FARTHEST = 5.0
# Ridge of the recursive sums, in squares of features that are about 1.
_RIDGE = 1e-2
# Scores of least squares on codes -1 and +1, in units of log odds.
_SURE = 2.0


class RunningScale:
    """Standardise rows by the mean and the spread of those before, column by column.

    Columns that were constant so far are 0; standardised numbers beyond 5 are cut.

    Parameters
    ----------
    n_columns : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import RunningScale
    >>> scale = RunningScale(1)
    >>> for x in ([8.0], [10.0], [12.0]):
    ...     scale.learn(np.array(x))
    >>> scale.image(np.array([12.0])).round(3)
    array([1.225])
    """

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0.0
        self.mean = np.zeros(n_columns)
        self.squares = np.zeros(n_columns)

    def image(self, x: Array) -> Array:
        """Standardised row, (n_columns,)."""
        out = np.empty(self.mean.size)
        _standardise(x, self.n_rows, self.mean, self.squares, out)
        return out

    @property
    def spread(self) -> Array:
        """Standard deviation of each column so far, (n_columns,); 0 before the second row."""
        return np.sqrt(self.squares / max(self.n_rows, 1.0))

    def learn(self, x: Array) -> None:
        """Take account of a row, which is finite."""
        self.n_rows += 1.0
        _follow(x, self.n_rows, self.mean, self.squares)

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        return {"n_rows": self.n_rows, "mean": self.mean.copy(), "squares": self.squares.copy()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the arrays do not fit together."""
        made = cls(len(state["mean"]))
        made.n_rows = float(state["n_rows"])
        made.mean, made.squares = (np.array(state[name], float) for name in ("mean", "squares"))
        if made.mean.ndim != 1 or made.mean.shape != made.squares.shape or made.n_rows < 0.0:
            raise ValueError("The numbers of a scale do not fit together.")
        return made


@_jit
def _standardise(x, n_rows, mean, squares, out):  # type: ignore[no-untyped-def]
    for j in range(x.size):
        spread = np.sqrt(squares[j] / n_rows) if n_rows > 1.0 else 0.0
        # What rounding makes of a constant is no spread.
        if spread > 1e-9 * abs(mean[j]):
            out[j] = min(max((x[j] - mean[j]) / spread, -_FARTHEST), _FARTHEST)
        else:
            out[j] = 0.0


@_jit
def _follow(x, n_rows, mean, squares):  # type: ignore[no-untyped-def]
    for j in range(x.size):
        off = x[j] - mean[j]
        mean[j] += off / n_rows
        squares[j] += off * (x[j] - mean[j])


class LinearWays:
    r"""Linear functions of the same features: gradient steps of several sizes, recursive sums.

    A gradient way moves :math:`w \leftarrow w + \eta (y - p) f` by the last row alone: of class
    codes, p is the chance of each class, of the logistic function of one output or the softmax of
    several; of numbers, the step is :math:`\eta / |f|^2`. A recursive way is the least squares of
    all rows so far, with the ridge .01, each weighing a factor less for each row after it; of
    class codes its scores are doubled, which makes them log odds.

    Parameters
    ----------
    n_features, n_outputs : int
        Length of the features, and number of outputs.
    is_class : bool
        Whether targets are class codes -1 and +1 (one output for two classes), else numbers.
    steps : sequence of float
        Step sizes of the gradient ways, above 0; of numbers below 2.
    forgettings : sequence of float
        Factors of the recursive ways, above 0 and at most 1.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import LinearWays
    >>> ways = LinearWays(2, 1, is_class=False, steps=[0.5], forgettings=[1.0])
    >>> rng = np.random.default_rng(0)
    >>> for f in rng.normal(size=(300, 2)):
    ...     ways.learn(f, np.array([f[0] - 3.0 * f[1]]))
    >>> ways.values(np.array([1.0, 1.0])).round(2)
    array([[-2.],
           [-2.]])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        is_class: bool,
        steps: Sequence[float],
        forgettings: Sequence[float],
    ) -> None:
        check_integer("n_features", n_features, low=1)
        check_integer("n_outputs", n_outputs, low=1)
        for step in steps:
            high = np.inf if is_class else 2.0
            check_real("steps", step, low=0.0, open_low=True, high=high)
        for forgetting in forgettings:
            check_real("forgettings", forgetting, low=0.0, open_low=True, high=1.0)
        self.is_class = bool(is_class)
        self.steps = np.array(steps, dtype=np.float64)
        self.forgettings = np.array(forgettings, dtype=np.float64)
        #: Coefficients, (n_ways, n_outputs, n_features): first those of steps.
        self.coefficients = np.zeros((len(self), n_outputs, n_features))
        self._inverses = np.tile(np.eye(n_features) / _RIDGE, (len(forgettings), 1, 1))

    def __len__(self) -> int:
        return self.steps.size + self.forgettings.size

    def values(self, features: Array) -> Array:
        """Values of all ways at a row, (n_ways, n_outputs), in log odds if of classes.

        Parameters
        ----------
        features : ndarray of shape (n_features,)
            Of the row.
        """
        values = np.empty(self.coefficients.shape[:2])
        _values(self.coefficients, features, values)
        if self.is_class:
            values[self.steps.size :] *= _SURE
        return values

    def learn(self, features: Array, target: Array) -> None:
        """Learn a row in all ways.

        Parameters
        ----------
        features : ndarray of shape (n_features,)
            Of the row; finite.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        """
        n = self.steps.size
        gradients, sums = self.coefficients[:n], self.coefficients[n:]
        _step(gradients, features, target, self.steps, self.is_class)
        _add(sums, self._inverses, features, target, self.forgettings)

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        return {
            "is_class": self.is_class,
            "steps": self.steps.copy(),
            "forgettings": self.forgettings.copy(),
            "coefficients": self.coefficients.copy(),
            "inverses": self._inverses.copy(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the arrays do not fit together."""
        coefficients, inverses = (
            np.array(state[name], float) for name in ("coefficients", "inverses")
        )
        if coefficients.ndim != 3:
            raise ValueError("The coefficients of ways must have three dimensions.")
        names = "is_class", "steps", "forgettings"
        sizes = coefficients.shape[2], coefficients.shape[1]
        made = cls(*sizes, **{name: state[name] for name in names})
        same = made.coefficients.shape == coefficients.shape
        if not same or made._inverses.shape != inverses.shape:
            raise ValueError("The coefficients of ways do not fit together.")
        made.coefficients, made._inverses = coefficients, inverses
        return made


@_jit
def _values(coefficients, features, values):  # type: ignore[no-untyped-def]
    for k in range(coefficients.shape[0]):
        for c in range(coefficients.shape[1]):
            s = 0.0
            for i in range(features.size):
                s += coefficients[k, c, i] * features[i]
            values[k, c] = s


@_jit
def _step(coefficients, features, target, steps, is_class):  # type: ignore[no-untyped-def]
    n_outputs = coefficients.shape[1]
    slopes = np.empty(n_outputs)
    size = 0.0
    for i in range(features.size):
        size += features[i] * features[i]
    if size == 0.0:
        return
    for k in range(coefficients.shape[0]):
        for c in range(n_outputs):
            s = 0.0
            for i in range(features.size):
                s += coefficients[k, c, i] * features[i]
            slopes[c] = s
        step = steps[k]
        if not is_class:
            step /= size
            for c in range(n_outputs):
                slopes[c] = target[c] - slopes[c]
        elif n_outputs == 1:
            slopes[0] = 0.5 * (target[0] + 1.0) - 0.5 * (1.0 + np.tanh(0.5 * slopes[0]))
        else:
            most, total = slopes.max(), 0.0
            for c in range(n_outputs):
                slopes[c] = np.exp(slopes[c] - most)
                total += slopes[c]
            for c in range(n_outputs):
                slopes[c] = 0.5 * (target[c] + 1.0) - slopes[c] / total
        for c in range(n_outputs):
            for i in range(features.size):
                coefficients[k, c, i] += step * slopes[c] * features[i]


@_jit
def _add(coefficients, inverses, features, target, forgettings):  # type: ignore[no-untyped-def]
    n = features.size
    along = np.empty(n)
    most = n / _RIDGE
    for k in range(coefficients.shape[0]):
        inverse, kept = inverses[k], forgettings[k]
        whole = kept
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += inverse[i, j] * features[j]
            along[i] = s
            whole += s * features[i]
        for c in range(coefficients.shape[1]):
            error = target[c]
            for i in range(n):
                error -= coefficients[k, c, i] * features[i]
            for i in range(n):
                coefficients[k, c, i] += along[i] / whole * error
        trace = 0.0
        for i in range(n):
            part = along[i] / whole
            for j in range(n):
                inverse[i, j] = (inverse[i, j] - part * along[j]) / kept
            trace += inverse[i, i]
        # Directions that rows say nothing of would be forgotten for good: they keep their ridge.
        if trace > most:
            for i in range(n):
                for j in range(n):
                    inverse[i, j] *= most / trace
