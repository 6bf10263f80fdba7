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

__all__ = ["LinearWays", "RunningScale", "linear_values"]

Array = NDArray[np.float64]

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Scaled inputs are cut here: a first row says nothing of the spread.
_FARTHEST = 5.0
# A scale goes by about so many rows, however many have come.
_REMEMBERED = 20_000.0
_OF_SCALE = "counts", "mean", "squares"
# Ridge of the recursive sums, in squares of features that are about 1.
_RIDGE = 1e-2
# Scores of least squares on codes -1 and +1, in units of log odds.
_SURE = 2.0


class RunningScale:
    """Standardise rows by the mean and the spread of those before, column by column.

    After 20,000 rows older ones count less and less, so that a scale follows the stream. Columns that were constant so far are 0, and so is a number that a row does not say (NaN);
    standardised numbers beyond 5 are cut.

    Parameters
    ----------
    n_columns : int
        Number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import RunningScale
    >>> scale = RunningScale(1)
    >>> for x in ([8.0], [10.0], [np.nan], [12.0]):
    ...     scale.learn(np.array(x))
    >>> scale.image(np.array([12.0])).round(3)
    array([1.225])
    """

    def __init__(self, n_columns: int) -> None:
        #: Rows that said something of each column, (n_columns,).
        self.counts = np.zeros(n_columns)
        self.mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)

    def image(self, x: Array) -> Array:
        """Standardised rows, of the shape of ``x``: (n_columns,) or (n, n_columns)."""
        out = np.empty(x.shape)
        rows = x.reshape(-1, self.mean.size)
        _standardise(rows, self.counts, self.mean, self._squares, out.reshape(rows.shape))
        return out

    @property
    def spread(self) -> Array:
        """Standard deviation of each column so far, (n_columns,); 0 before the second row."""
        return np.sqrt(self._squares / np.maximum(self.counts, 1.0))

    def learn(self, x: Array) -> None:
        """Take account of a row: finite, or NaN where it says nothing."""
        _follow(x, self.counts, self.mean, self._squares)

    def add_columns(self, n: int) -> None:
        """Go on with so many more columns, of which no row has said anything."""
        self.counts, self.mean, self._squares = (
            np.concatenate([numbers, np.zeros(n)])
            for numbers in (self.counts, self.mean, self._squares)
        )

    def to_state(self) -> dict[str, Any]:
        """As plain data, copied."""
        numbers = self.counts, self.mean, self._squares
        return {name: its.copy() for name, its in zip(_OF_SCALE, numbers, strict=True)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if the arrays do not fit together."""
        counts, mean, squares = (np.array(state[name], float) for name in _OF_SCALE)
        made = cls(mean.size)
        fits = mean.ndim == 1 and mean.shape == counts.shape == squares.shape
        finite = all(np.isfinite(numbers).all() for numbers in (counts, mean, squares))
        if not (fits and finite and (counts >= 0.0).all() and (squares >= 0.0).all()):
            raise ValueError("The numbers of a scale do not fit together.")
        made.counts, made.mean, made._squares = counts, mean, squares
        return made


@_jit
def _standardise(rows, counts, mean, squares, out):  # type: ignore[no-untyped-def]
    for j in range(mean.size):
        spread = np.sqrt(squares[j] / counts[j]) if counts[j] > 1.0 else 0.0
        # What rounding makes of a constant is no spread.
        moves = spread > 1e-9 * abs(mean[j])
        for i in range(rows.shape[0]):
            if moves and not np.isnan(rows[i, j]):
                out[i, j] = min(max((rows[i, j] - mean[j]) / spread, -_FARTHEST), _FARTHEST)
            else:
                out[i, j] = 0.0


@_jit
def _follow(x, counts, mean, squares):  # type: ignore[no-untyped-def]
    for j in range(x.size):
        if not np.isnan(x[j]):
            counts[j] += 1.0
            off = x[j] - mean[j]
            mean[j] += off / counts[j]
            squares[j] += off * (x[j] - mean[j])
            if counts[j] > _REMEMBERED:
                squares[j] *= _REMEMBERED / counts[j]
                counts[j] = _REMEMBERED


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
        """Values of all ways, (n_ways, n_outputs) or (n, n_ways, n_outputs), log odds of classes.

        Parameters
        ----------
        features : ndarray of shape (n_features,) or (n, n_features)
            Of a row, or of several.
        """
        values = linear_values(self.coefficients, features)
        if self.is_class:
            values[..., self.steps.size :, :] *= _SURE
        return values

    def learn(self, features: Array, target: Array, weight: float = 1.0) -> None:
        """Learn a row in all ways.

        Parameters
        ----------
        features : ndarray of shape (n_features,)
            Of the row; finite.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        weight : float, default=1.0
            Of the row, above 0. Steps are so many times as long, on numbers no longer than to the
            target.
        """
        n = self.steps.size
        gradients, sums = self.coefficients[:n], self.coefficients[n:]
        _step(gradients, features, target, self.steps, self.is_class, weight)
        _add(sums, self._inverses, features, target, self.forgettings, weight)

    def restart(self, sum_number: int) -> None:
        """Let a recursive way, numbered among these, begin anew."""
        self.coefficients[self.steps.size + sum_number] = 0.0
        self._inverses[sum_number] = np.eye(self.coefficients.shape[2]) / _RIDGE

    def add_features(self, n: int) -> None:
        """Go on with so many more features, the last ones, which were 0 so far."""
        n_ways, n_outputs, n_old = self.coefficients.shape
        zeros = np.zeros((n_ways, n_outputs, n))
        self.coefficients = np.ascontiguousarray(np.concatenate([self.coefficients, zeros], axis=2))
        inverses = np.tile(np.eye(n_old + n) / _RIDGE, (len(self._inverses), 1, 1))
        inverses[:, :n_old, :n_old] = self._inverses
        self._inverses = inverses

    def map_outputs(self, mixing: Array, codes: Array, offset: Array, constant: int) -> None:
        """Go on with outputs made of those of now, as where classes are added.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_new)
            Makes the new log odds of the old ones.
        codes : ndarray of shape (n_outputs, n_new)
            Makes the new class codes of the old ones.
        offset : ndarray of shape (n_new,)
            What is added to these.
        constant : int
            Number of a feature that is 1 in all rows.
        """
        n = self.steps.size
        steps, sums = (self.coefficients[part].transpose(0, 2, 1) for part in np.s_[:n, n:])
        both = np.concatenate([steps @ mixing, sums @ codes])
        both[n:, constant] += offset
        self.coefficients = np.ascontiguousarray(both.transpose(0, 2, 1))

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


def linear_values(coefficients: Array, features: Array) -> Array:
    """Values of linear functions of features, (n_ways, n_outputs) or (n, n_ways, n_outputs).

    Parameters
    ----------
    coefficients : ndarray of shape (n_ways, n_outputs, n_features)
        Of the functions.
    features : ndarray of shape (n_features,) or (n, n_features)
        Of a row, or of several.
    """
    rows = features.reshape(-1, features.shape[-1])
    values = np.empty((len(rows), *coefficients.shape[:2]))
    _values(coefficients, rows, values)
    return values[0] if features.ndim == 1 else values


@_jit
def _values(coefficients, rows, values):  # type: ignore[no-untyped-def]
    for n in range(rows.shape[0]):
        for k in range(coefficients.shape[0]):
            for c in range(coefficients.shape[1]):
                s = 0.0
                for i in range(rows.shape[1]):
                    s += coefficients[k, c, i] * rows[n, i]
                values[n, k, c] = s


@_jit
def _step(coefficients, features, target, steps, is_class, weight):  # type: ignore[no-untyped-def]
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
        step = steps[k] * weight
        if not is_class:
            step = min(step, max(steps[k], 1.0)) / size
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
def _add(coefficients, inverses, features, target, forgettings, weight):  # type: ignore[no-untyped-def]
    n = features.size
    along = np.empty(n)
    most = n / _RIDGE
    for k in range(coefficients.shape[0]):
        inverse, kept = inverses[k], forgettings[k]
        whole = kept / weight
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
