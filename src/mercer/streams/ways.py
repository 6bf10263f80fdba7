r"""Methods ("ways") that learn a linear function of features, at a fixed cost per row.

Which is best depends on the stream: small steps if it is stationary, large steps if it moves,
recursive sums if there is little noise. All ways see the same features and predict each row before
they learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.features import FeatureOptions
from mercer.jit import jit
from mercer.kernels import Gaussian
from mercer.numerics.cosine import cosine_pairs_of_turns
from mercer.records import Numbers, Record, Recorded, Several
from mercer.validation import check_integer, check_real, integer, positive, truth

Array = NDArray[np.float64]

# Sums may be reordered for vectorisation; NaN and infinity keep their meaning.
_jit = jit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})

# Standardised inputs are clipped here: the first rows do not determine the spread.
_FARTHEST = 5.0
# After _FEW rows, a value more than _OUTLYING spreads from the mean is clipped at that distance.
_FEW, _OUTLYING = 30.0, 10.0
# A scale is determined by about this many recent rows.
_REMEMBERED = 20_000.0
# Ridge of the recursive sums, for features with squares of about 1.
_RIDGE = 1e-2
# Added to the seed for the frequencies of new inputs.
_NEXT_SEED = 7919
# Factor from least squares on codes -1 and +1 to log odds.
_SURE = 2.0
_NO_PHASES = np.empty(0)


class RunningScale(Recorded):
    """Standardise rows by the mean and the spread of earlier rows, column by column.

    After 20,000 rows older rows count less and less, so the scale follows the stream. After 30
    rows, values beyond ten spreads are clipped. Columns that were constant so far become 0, and so
    do missing values (NaN). Standardised values are clipped at ±5.

    A *flag* is a column that had two values so far, as of a category. By its spread a rare value
    would be far from all rows without it, whatever they have in common. So flags may be divided by
    half the difference of their values: then these are 2 apart, as if both were as frequent.

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

    _record = Record(
        counts=Numbers("n_columns", low=0.0),
        mean=Numbers("n_columns"),
        _squares=Numbers("n_columns", low=0.0),
        _least=Numbers("n_columns"),
        _most=Numbers("n_columns"),
        _has_more=Numbers("n_columns", dtype=np.bool_),
    )

    def __init__(self, n_columns: int) -> None:
        #: Number of rows with a value in each column, (n_columns,).
        self.counts = np.zeros(n_columns)
        self.mean = np.zeros(n_columns)
        self._squares = np.zeros(n_columns)
        # The two values of flags, or one twice; and which columns have more values.
        self._least, self._most = np.zeros(n_columns), np.zeros(n_columns)
        self._has_more = np.zeros(n_columns, dtype=np.bool_)

    def image(self, x: Array, *, flags: bool = False) -> Array:
        """Return standardised rows, of the shape of ``x``: (n_columns,) or (n, n_columns).

        Parameters
        ----------
        x : ndarray of shape (n_columns,) or (n, n_columns)
            Rows; NaN for missing values.
        flags : bool, default=False
            Whether flags are divided by half the difference of their values, not by their spread.
        """
        out = np.empty(x.shape)
        rows = x.reshape(-1, self.mean.size)
        values = self._least, self._most, self._has_more | (not flags)
        moments = self.counts, self.mean, self._squares
        _standardise(rows, *moments, *values, out.reshape(rows.shape))
        return out

    @property
    def spread(self) -> Array:
        """Standard deviation of each column so far, (n_columns,); 0 before the second row."""
        return np.sqrt(self._squares / np.maximum(self.counts, 1.0))

    def learn(self, x: Array) -> None:
        """Update the scale by a row, finite or NaN for missing values."""
        _see(x, self.counts, self._least, self._most, self._has_more)
        _follow(x, self.counts, self.mean, self._squares)

    def add_columns(self, past: Array, n_rows: int) -> None:
        """Add columns, with the value of all earlier rows in each; NaN if it is missing."""
        said = ~np.isnan(past)
        self.counts = np.append(self.counts, np.where(said, min(n_rows, _REMEMBERED), 0.0))
        known = np.where(said, past, 0.0)
        self.mean = np.append(self.mean, known)
        self._squares = np.append(self._squares, np.zeros(past.size))
        self._least, self._most = np.append(self._least, known), np.append(self._most, known)
        self._has_more = np.append(self._has_more, np.zeros(past.size, dtype=np.bool_))


@_jit
def _standardise(rows, counts, mean, squares, least, most, has_more, out):  # type: ignore[no-untyped-def]
    for j in range(mean.size):
        spread = np.sqrt(squares[j] / counts[j]) if counts[j] > 1.0 else 0.0
        # A spread that is only the rounding error of a constant is ignored.
        moves = spread > 1e-9 * abs(mean[j])
        if not has_more[j]:
            spread = 0.5 * (most[j] - least[j])
            moves = moves and spread > 0.0  # a file may say otherwise
        for i in range(rows.shape[0]):
            if moves and not np.isnan(rows[i, j]):
                out[i, j] = min(max((rows[i, j] - mean[j]) / spread, -_FARTHEST), _FARTHEST)
            else:
                out[i, j] = 0.0


@_jit
def _see(x, counts, least, most, has_more):  # type: ignore[no-untyped-def]
    """Note the two values of each column, before its row is counted."""
    for j in range(x.size):
        if has_more[j] or np.isnan(x[j]):
            continue
        if counts[j] == 0.0:
            least[j] = most[j] = x[j]
        elif least[j] == most[j]:
            least[j], most[j] = min(least[j], x[j]), max(most[j], x[j])
        else:
            has_more[j] = x[j] != least[j] and x[j] != most[j]


@_jit
def _follow(x, counts, mean, squares):  # type: ignore[no-untyped-def]
    for j in range(x.size):
        if not np.isnan(x[j]):
            counts[j] += 1.0
            off = x[j] - mean[j]
            if counts[j] > _FEW:
                # A single outlier may be a fault; if the scale really grows, some rows will show
                # it.
                most = _OUTLYING * np.sqrt(squares[j] / counts[j])
                if most > 1e-9 * abs(mean[j]):
                    off = min(max(off, -most), most)
            mean[j] += off / counts[j]
            squares[j] += off * off * (counts[j] - 1.0) / counts[j]
            if counts[j] > _REMEMBERED:
                squares[j] *= _REMEMBERED / counts[j]
                counts[j] = _REMEMBERED


class FeatureSets(Recorded):
    r"""Sets of random features, each with its own random frequencies.

    A set consists of cosines and sines of Gaussian frequencies, which belong to a Gaussian kernel;
    a constant 1; and the inputs divided by the square root of their initial number. The inputs of a
    set are first multiplied by its :attr:`metric`.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.
    lengths : sequence of float
        Length scale of the kernel of each set.
    n_features : int
        Number of cosines and sines per set, even.
    seed : int
        Seed for the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import FeatureSets
    >>> sets = FeatureSets(2, [0.5, 1.0], 64, seed=0)
    >>> sets.features(np.zeros((1, 2))).shape
    (1, 2, 67)
    """

    _record = Record(
        lengths=Several(positive(), "n_sets"),
        n_features=integer(low=0),
        seed=integer(low=0),
        _pieces=Several(integer(low=0), "n_pieces"),
        metric=Numbers("n_sets", "n_inputs"),
    )

    def __init__(self, n_inputs: int, lengths: Sequence[float], n_features: int, seed: int) -> None:
        self.lengths, self.n_features, self.seed = tuple(lengths), 2 * (n_features // 2), seed
        #: Factors of the inputs, (n_sets, n_inputs).
        self.metric = np.ones((len(self.lengths), n_inputs))
        self._pieces: tuple[int, ...] = (n_inputs,)
        self._frequencies = self._drawn(0)

    @property
    def n_columns(self) -> int:
        """Number of features per set."""
        return self.n_features + 1 + self.metric.shape[1]

    def _drawn(self, first: int) -> Array:
        """Return frequencies of the inputs from this piece on, (n_sets, n, n_features / 2)."""
        pieces = [self._draw(piece) for piece in range(first, len(self._pieces))]
        return np.ascontiguousarray(np.concatenate(pieces, axis=1))

    def _draw(self, piece: int) -> Array:
        """Return frequencies of the inputs that were added together."""
        n, drawn = self._pieces[piece], []
        for block, length in enumerate(self.lengths):
            features: Any = Gaussian(length)._feature_map(n, FeatureOptions(), 0)
            if features.design == "hadamard":  # not available as a matrix
                options = FeatureOptions(design="orthogonal")
                features = Gaussian(length)._feature_map(n, options, 0)
            seed = self.seed + _NEXT_SEED * piece
            drawn.append(features.draw(seed, block, self.n_features, np.dtype(float))[0])
        return np.array(drawn).reshape(len(self.lengths), n, self.n_features // 2)

    def features(self, images: Array) -> Array:
        """Return features of rows, (n, n_sets, n_columns).

        Parameters
        ----------
        images : ndarray of shape (n, n_inputs)
            Standardised rows.
        """
        n, m = len(images), self.n_features
        out = np.empty((n, len(self.lengths), self.n_columns))
        turns: Array = np.empty((n, len(self.lengths), m))
        inputs = images[:, np.newaxis] * self.metric
        for number, frequencies in enumerate(self._frequencies):
            np.matmul(inputs[:, number], frequencies, out=turns[:, number, : m // 2])
        cosine_pairs_of_turns(turns.reshape(-1, m), _NO_PHASES, np.sqrt(2.0 / m))
        out[..., :m], out[..., m] = turns, 1.0
        out[..., m + 1 :] = inputs / np.sqrt(self._pieces[0])
        return out

    def gradients(self, number: int, features: Array, coefficients: Array) -> Array:
        """Return gradients of linear functions of a set with respect to the standardised inputs.

        Parameters
        ----------
        number : int
            Index of the set.
        features : ndarray of shape (n_columns,)
            Features of a row in this set.
        coefficients : ndarray of shape (n_outputs, n)
            Coefficients of the functions on the set's first n columns.

        Returns
        -------
        gradients : ndarray of shape (n_outputs, n_inputs)
        """
        m, half = self.n_features, self.n_features // 2
        cosines, sines = coefficients[:, :half], coefficients[:, half:m]
        slopes = 2.0 * np.pi * (sines * features[:half] - cosines * features[half:m])
        gradients = slopes @ self._frequencies[number].T
        linear = coefficients[:, m + 1 :]
        gradients[:, : linear.shape[1]] += linear / np.sqrt(self._pieces[0])
        return np.asarray(gradients * self.metric[number])

    def add_inputs(self, n: int) -> None:
        """Add ``n`` inputs; features do not change where these are 0."""
        self._pieces = (*self._pieces, n)
        self.metric = np.hstack([self.metric, np.ones((len(self.lengths), n))])
        drawn = [self._frequencies, self._drawn(len(self._pieces) - 1)]
        self._frequencies = np.ascontiguousarray(np.concatenate(drawn, axis=1))

    def _adopt(self, values: dict[str, Any]) -> None:
        if sum(values["_pieces"]) != values["metric"].shape[1] or values["n_features"] % 2:
            raise ValueError("the inputs and features of sets do not fit their metric")
        super()._adopt(values)
        self._frequencies = self._drawn(0)


class LinearWays(Recorded):
    r"""Linear functions of sets of features, learned by gradient steps and by recursive sums.

    A gradient way takes a step :math:`w \leftarrow w + \eta (y - p) f` on each row. For class
    codes, p is the probability of each class, by the logistic function of one output or the softmax
    of several. For numbers, the step is :math:`\eta / |f|^2`. Each set has gradient ways with all
    steps. A recursive way is the least-squares solution over all rows so far on one set, with ridge
    .01; each new row multiplies the weights of older rows by a factor. For class codes its scores
    are doubled, which makes them log odds. A memory is a former state of a recursive way.

    Parameters
    ----------
    n_features, n_outputs : int
        Number of features per set, and number of outputs.
    is_class : bool
        Whether targets are class codes -1 and +1 (one output for two classes); otherwise numbers.
    steps : sequence of float
        Step sizes of the gradient ways, above 0; for numbers below 2.
    sums : sequence of (int, float)
        Set, and forgetting factor in (0, 1], of each recursive way.
    n_sets : int, default=1
        Number of sets.
    n_in_sums : int or None, default=None
        Number of features that recursive ways use, counted from the first; None for all.
    n_memories : int, default=0
        Number of memories, on the set of the first recursive way.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import LinearWays
    >>> ways = LinearWays(2, 1, is_class=False, steps=[0.5], sums=[(0, 1.0)])
    >>> rng = np.random.default_rng(0)
    >>> for f in rng.normal(size=(300, 1, 2)):
    ...     ways.learn(f, np.array([f[0, 0] - 3.0 * f[0, 1]]))
    >>> ways.values(np.ones((1, 2))).round(2)
    array([[-2.],
           [-2.]])
    """

    _record = Record(
        is_class=truth(),
        steps=Numbers("n_steps", above=0.0),
        _sets=Numbers("n_sums", dtype=np.int64, low=0),
        forgettings=Numbers("n_sums", above=0.0, high=1.0),
        of_steps=Numbers("n_sets", "n_steps", "n_outputs", "n_features"),
        of_sums=Numbers("n_sums", "n_outputs", "n_in_sums"),
        memories=Numbers("n_memories", "n_outputs", "n_in_sums"),
        _inverses=Numbers("n_sums", "n_in_sums", "n_in_sums"),
    ).where(
        "a recursive way is on a set that is not there",
        lambda it: it["_sets"].max(initial=-1) < len(it["of_steps"]),
    )

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        is_class: bool,
        steps: Sequence[float],
        sums: Sequence[tuple[int, float]],
        n_sets: int = 1,
        n_in_sums: int | None = None,
        n_memories: int = 0,
    ) -> None:
        check_integer("n_features", n_features, low=1)
        check_integer("n_outputs", n_outputs, low=1)
        for step in steps:
            high = np.inf if is_class else 2.0
            check_real("steps", step, low=0.0, open_low=True, high=high)
        for number, forgetting in sums:
            check_integer("sums", number, low=0, high=n_sets - 1)
            check_real("sums", forgetting, low=0.0, open_low=True, high=1.0)
        self.is_class = bool(is_class)
        self.steps = np.array(steps, dtype=np.float64)
        self._sets = np.array([number for number, _ in sums], dtype=np.int64)
        self.forgettings = np.array([factor for _, factor in sums], dtype=np.float64)
        n = n_features if n_in_sums is None else n_in_sums
        #: Coefficients of gradient ways, (n_sets, n_steps, n_outputs, n_features).
        self.of_steps = np.zeros((n_sets, self.steps.size, n_outputs, n_features))
        #: Coefficients of recursive ways, (n_sums, n_outputs, n_in_sums).
        self.of_sums = np.zeros((len(sums), n_outputs, n))
        #: Coefficients of memories, (n_memories, n_outputs, n_in_sums).
        self.memories = np.zeros((n_memories, n_outputs, n))
        self._inverses = np.tile(np.eye(n) / _RIDGE, (len(sums), 1, 1))

    def __len__(self) -> int:
        return self.of_steps.shape[0] * self.steps.size + len(self.of_sums) + len(self.memories)

    def values(self, features: Array) -> Array:
        """Return values of all ways, (n_ways, n_outputs) or (n, n_ways, n_outputs).

        Values for classes are log odds. Order: gradient ways of the first set, gradient ways of the
        other sets, recursive ways, memories.

        Parameters
        ----------
        features : ndarray of shape (n_sets, n_features) or (n, n_sets, n_features)
            Features of a row, or of several rows.
        """
        rows = features.reshape(-1, *features.shape[-2:])
        values = np.empty((len(rows), len(self), self.of_sums.shape[1]))
        factor = _SURE if self.is_class else 1.0
        _values(self.of_steps, self.of_sums, self._sets, self.memories, rows, factor, values)
        return values[0] if features.ndim == 2 else values

    def learn(self, features: Array, target: Array, weight: float = 1.0) -> None:
        """Learn a row in all ways.

        Parameters
        ----------
        features : ndarray of shape (n_sets, n_features)
            Features of the row; finite.
        target : ndarray of shape (n_outputs,)
            Numbers or class codes.
        weight : float, default=1.0
            Weight of the row, above 0. It multiplies the steps, but for numbers a step ends at the
            target at the latest.
        """
        _step(self.of_steps, features, target, self.steps, self.is_class, weight)
        sums = self.of_sums, self._inverses, self._sets, self.forgettings
        _add(*sums, features, target, weight)

    def set_of(self, sum_number: int) -> tuple[int, slice]:
        """Return the set of a recursive way, and which of the set's features it uses."""
        return int(self._sets[sum_number]), slice(self.of_sums.shape[2])

    def restart(self, sum_number: int) -> None:
        """Restart a recursive way."""
        self.of_sums[sum_number] = 0.0
        self._inverses[sum_number] = np.eye(self.of_sums.shape[2]) / _RIDGE

    def restart_set(self, number: int) -> None:
        """Restart all ways on a set."""
        self.of_steps[number] = 0.0
        for sum_number in np.flatnonzero(self._sets == number):
            self.restart(int(sum_number))

    def remember(self, sum_number: int, slot: int) -> None:
        """Copy the present state of a recursive way to a memory."""
        self.memories[slot] = self.of_sums[sum_number]

    def add_features(self, n: int, n_in_sums: int) -> None:
        """Append ``n`` features, which were 0 so far.

        Parameters
        ----------
        n : int
            Number of new features.
        n_in_sums : int
            How many of them recursive ways use: all or none.
        """
        self.of_steps = _wider(self.of_steps, n)
        if not n_in_sums:
            return
        self.of_sums, self.memories = (_wider(a, n) for a in (self.of_sums, self.memories))
        inverses = np.tile(np.eye(self.of_sums.shape[2]) / _RIDGE, (len(self._inverses), 1, 1))
        inverses[:, :-n, :-n] = self._inverses
        self._inverses = inverses

    def map_outputs(self, mixing: Array, codes: Array, offset: Array, constant: int) -> None:
        """Change the outputs to functions of the present ones, for example to add classes.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_new)
            Maps old log odds to new log odds.
        codes : ndarray of shape (n_outputs, n_new)
            Maps old class codes to new class codes.
        offset : ndarray of shape (n_new,)
            Added to the new class codes.
        constant : int
            Index of a feature that is 1 in all rows.
        """
        self.of_steps = _mixed(self.of_steps, mixing)
        self.of_sums, self.memories = (_mixed(a, codes) for a in (self.of_sums, self.memories))
        for coefficients in (self.of_sums, self.memories):
            coefficients[:, :, constant] += offset


def _wider(coefficients: Array, n: int) -> Array:
    zeros = np.zeros((*coefficients.shape[:-1], n))
    return np.ascontiguousarray(np.concatenate([coefficients, zeros], axis=-1))


def _mixed(coefficients: Array, mixing: Array) -> Array:
    return np.ascontiguousarray(np.swapaxes(np.swapaxes(coefficients, -1, -2) @ mixing, -1, -2))


@_jit
def _values(steps, sums, sets, memories, rows, factor, values):  # type: ignore[no-untyped-def]
    n_sets, n_steps, n_outputs, n_features = steps.shape
    for n in range(rows.shape[0]):
        at = 0
        for number in range(n_sets):
            for k in range(n_steps):
                for c in range(n_outputs):
                    s = 0.0
                    for i in range(n_features):
                        s += steps[number, k, c, i] * rows[n, number, i]
                    values[n, at, c] = s
                at += 1
        for k in range(sums.shape[0] + memories.shape[0]):
            is_sum = k < sums.shape[0]
            coefficients = sums[k] if is_sum else memories[k - sums.shape[0]]
            number = sets[k if is_sum else 0]
            for c in range(n_outputs):
                s = 0.0
                for i in range(coefficients.shape[1]):
                    s += coefficients[c, i] * rows[n, number, i]
                values[n, at, c] = factor * s
            at += 1


@_jit
def _step(coefficients, features, target, steps, is_class, weight):  # type: ignore[no-untyped-def]
    n_sets, n_steps, n_outputs, n = coefficients.shape
    slopes = np.empty(n_outputs)
    for number in range(n_sets):
        size = 0.0
        for i in range(n):
            size += features[number, i] * features[number, i]
        if size == 0.0:
            continue
        for k in range(n_steps):
            for c in range(n_outputs):
                s = 0.0
                for i in range(n):
                    s += coefficients[number, k, c, i] * features[number, i]
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
                for i in range(n):
                    coefficients[number, k, c, i] += step * slopes[c] * features[number, i]


@_jit
def _add(coefficients, inverses, sets, forgettings, features, target, weight):  # type: ignore[no-untyped-def]
    n = coefficients.shape[2]
    along = np.empty(n)
    most = n / _RIDGE
    for k in range(coefficients.shape[0]):
        inverse, kept, row = inverses[k], forgettings[k], features[sets[k]]
        whole = kept / weight
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += inverse[i, j] * row[j]
            along[i] = s
            whole += s * row[i]
        for c in range(coefficients.shape[1]):
            error = target[c]
            for i in range(n):
                error -= coefficients[k, c, i] * row[i]
            for i in range(n):
                coefficients[k, c, i] += along[i] / whole * error
        trace = 0.0
        for i in range(n):
            for j in range(n):
                # This order keeps the matrix symmetric to the last bit; asymmetry would grow.
                inverse[i, j] = (inverse[i, j] - (along[i] * along[j]) / whole) / kept
            trace += inverse[i, i]
        # Directions without information would lose their ridge for good, so they keep it.
        if trace > most:
            for i in range(n):
                for j in range(n):
                    inverse[i, j] *= most / trace
