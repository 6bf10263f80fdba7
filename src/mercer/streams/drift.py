"""Change detection: find rises in the mean of losses, at a constant cost per row.

The rows since the last change are kept as an *exponential histogram*: buckets of 1, 2, 4, ... rows,
at most five of each size, with the moments of their values. After each row, for every boundary
between buckets, the newer buckets are compared with the older ones. If the means differ by more
than chance allows, the older rows are forgotten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.records import Numbers, Record, Recorded
from mercer.validation import check_integer, check_real, integer, real, truth

Array = NDArray[np.float64]

# No fast mathematics: a detector restored from a file must match one that never stopped, bit by
# bit.
_jit = jit(nogil=True, error_model="numpy")

# Buckets per size, before the two oldest merge into one of twice the size; number of sizes, enough
# for 2 ** 40 rows.
_BUCKETS, _SIZES = 5, 40
# Layout of the state array: the window (rows, mean, sums of squares and of cubes about the mean),
# rows and alarms so far; then for each size its number of buckets, and for squared differences of
# neighbours their sum, their number and the variance estimate; then for each bucket its mean, sum
# of squares and sum of cubes.
_ROWS, _MEAN, _SQUARES, _CUBES, _SEEN, _ALARMS = range(6)
_COUNTS = 6
_SUMS = _COUNTS + _SIZES
_NUMBERS = _SUMS + _SIZES
_VARIANCES = _NUMBERS + _SIZES
_MOMENTS = _VARIANCES + _SIZES
_LENGTH = _MOMENTS + _SIZES * (_BUCKETS + 1) * 3

# Least number of rows before and after a cut.
_LEAST_OLD, _LEAST_NEW = 16, 4
# A variance of at most this times the squared mean is a rounding error of constant values.
_ROUNDING = 1e-12
# The variance at one size starts from the variance at half the size, with the weight of _TRUST
# differences. Older differences fade by _FADING. A difference beyond _MOST times its expectation
# (a change) is clipped.
_TRUST, _FADING, _MOST = 8.0, 0.99, 9.0
# The variance of a mean of n rows is estimated from neighbours about this many sizes above it.
_AHEAD = 3


def _has_its_rows(values: dict[str, Any]) -> bool:
    state = values["_state"]
    counts = state[_COUNTS:_SUMS]
    whole = (counts == np.floor(counts)).all() and 0 <= counts.min() <= counts.max() <= _BUCKETS
    return bool(whole and counts @ 2.0 ** np.arange(_SIZES) == state[_ROWS])


class ChangeDetector(Recorded):
    r"""Detect rises of the mean of losses, for any scale, skewness and correlation.

    For rows :math:`n_0` before and :math:`n_1` after a cut whose means differ by :math:`d`, with
    :math:`m = n_0 n_1 / (n_0 + n_1)`, the evidence is

    .. math:: g = m \frac{v}{b^2} \, h\Big(\frac{b d}{v}\Big), \qquad h(u) = (1 + u) \log(1 + u) - u

    (:math:`m d^2 / 2v` where :math:`b \le 0`): the exponent of Bennett's bound, with the variance
    :math:`v` and :math:`b` the third central moment divided by the second, both of the window. For
    Gaussian losses it is the likelihood ratio, for rare 0/1 losses that of Poisson counts. A change
    is detected if

    .. math:: g > \log \frac{1 + \log_2 (n_0 + n_1)}{\delta \min(n_0, n_1)}.

    Cuts with n rows on their smaller side amount to about :math:`1 / n` independent tests per row.
    So each scale of n has the same share of the :math:`\delta` false alarms per row, and small
    changes, seen in many rows, need less evidence than with one bound for all. If losses are
    correlated, means of n rows vary more than :math:`v / n`. Therefore v is the larger of the
    variance and the estimate from differences of neighbouring buckets at that scale (Allan
    variance).

    A fall of the mean also makes the detector forget older rows, so that losses are compared with
    recent ones. It counts as a detection only with ``two_sided``: an improving learner is no news.

    Parameters
    ----------
    delta : float, default=1e-5
        Approximate number of false alarms per row of a stream that does not change, between 0 and
        1.
    two_sided : bool, default=False
        Whether to detect falls of the mean, too.
    every : int, default=1
        Number of rows between two comparisons.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    G. Bennett, Probability inequalities for the sum of independent random variables, JASA 57, 1962.
    D. W. Allan, Statistics of atomic frequency standards, Proc. IEEE 54, 1966.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.streams import ChangeDetector
    >>> rng, detector = np.random.default_rng(0), ChangeDetector()
    >>> wrong = np.concatenate([rng.random(2000) < 0.1, rng.random(2000) < 0.3])
    >>> detector.add_many(wrong)
    array([2045])
    >>> detector.width, round(detector.mean, 2)
    (2008, 0.3)
    """

    _record = Record(
        delta=real(low=0.0, high=1.0, open_low=True, open_high=True),
        two_sided=truth(),
        every=integer(low=1),
        _state=Numbers(_LENGTH),
    ).where("the buckets of a detector do not hold the rows of its window", _has_its_rows)

    def __init__(self, delta: float = 1e-5, *, two_sided: bool = False, every: int = 1) -> None:
        check_real("delta", delta, low=0.0, high=1.0, open_low=True, open_high=True)
        check_integer("every", every, low=1)
        self.delta, self.two_sided, self.every = float(delta), bool(two_sided), int(every)
        self._state: Array = np.zeros(_LENGTH)

    def add(self, value: float) -> bool:
        """Add a value, and return whether the mean has changed.

        Parameters
        ----------
        value : float
            Finite loss of the next row.

        Returns
        -------
        detected : bool
            Whether a change is detected at this row; the window then holds the rows since the
            change.

        Raises
        ------
        ValueError
            If the value is not finite.
        """
        found: int = _add(self._state, float(value), self.delta, self.every, self.two_sided)
        if found < 0:
            raise ValueError(f"A loss must be a finite number, got {value!r}.")
        return found > 0

    def add_many(self, values: Array) -> NDArray[np.int64]:
        """Add several values, as :meth:`add` does one by one.

        Parameters
        ----------
        values : array of shape (n_rows,)
            Finite losses of the next rows.

        Returns
        -------
        rows : ndarray of int64
            Indices in ``values`` at which changes were detected.

        Raises
        ------
        ValueError
            If a value is not finite; then none is added.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise ValueError("Losses must be finite numbers, in an array of one dimension.")
        options = self.delta, self.every, self.two_sided
        return np.flatnonzero(_add_many(self._state, values, *options)).astype(np.int64)

    @property
    def width(self) -> int:
        """Number of rows in the window, which are those since the last change."""
        return int(self._state[_ROWS])

    @property
    def mean(self) -> float:
        """Mean of the window; 0 before the first row."""
        return float(self._state[_MEAN])

    @property
    def variance(self) -> float:
        """Variance of the window; 0 before the first row."""
        return float(self._state[_SQUARES] / max(self._state[_ROWS], 1.0))

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return int(self._state[_SEEN])

    @property
    def n_detected(self) -> int:
        """Number of changes detected so far."""
        return int(self._state[_ALARMS])


@_jit
def _bucket(size, place):  # type: ignore[no-untyped-def]
    """Return the index of a bucket's moments."""
    return _MOMENTS + (size * (_BUCKETS + 1) + place) * 3


@_jit
def _insert(s, value):  # type: ignore[no-untyped-def]
    n, off = s[_ROWS] + 1.0, value - s[_MEAN]
    part = off / n
    square = off * part * (n - 1.0)
    s[_CUBES] += square * part * (n - 2.0) - 3.0 * part * s[_SQUARES]
    s[_SQUARES] += square
    s[_MEAN] += part
    s[_ROWS] = n
    mean, squares, cubes, rows = value, 0.0, 0.0, 1.0
    expected = s[_SQUARES] / n
    for k in range(_SIZES):
        count = int(s[_COUNTS + k])
        new = _bucket(k, count)
        s[new], s[new + 1], s[new + 2] = mean, squares, cubes
        s[_COUNTS + k] = count + 1
        if count < _BUCKETS:
            break
        # Merge the two oldest into one of the next size.
        a, b = _bucket(k, 0), _bucket(k, 1)
        off = s[b] - s[a]
        difference = 0.5 * rows * off * off
        mean = 0.5 * (s[a] + s[b])
        squares = s[a + 1] + s[b + 1] + difference
        cubes = s[a + 2] + s[b + 2] + 1.5 * off * (s[b + 1] - s[a + 1])
        for i in range((_BUCKETS - 1) * 3):
            s[a + i] = s[a + 6 + i]
        s[_COUNTS + k] = _BUCKETS - 1
        s[_SUMS + k] = _FADING * s[_SUMS + k] + min(difference, _MOST * expected)
        s[_NUMBERS + k] = _FADING * s[_NUMBERS + k] + 1.0
        expected = (_TRUST * expected + s[_SUMS + k]) / (_TRUST + s[_NUMBERS + k])
        s[_VARIANCES + k] = expected
        rows *= 2.0


@_jit
def _forget(s, kept):  # type: ignore[no-untyped-def]
    """Forget the oldest buckets until ``kept`` rows are left; recompute only the moments."""
    rows = 2.0 ** (_SIZES - 1)
    for k in range(_SIZES - 1, -1, -1):
        while s[_COUNTS + k] > 0.0 and s[_ROWS] - rows >= kept:
            first = _bucket(k, 0)
            for i in range(_BUCKETS * 3):
                s[first + i] = s[first + 3 + i]
            s[_COUNTS + k] -= 1.0
            s[_ROWS] -= rows
        rows *= 0.5
    n, mean, squares, cubes = 0.0, 0.0, 0.0, 0.0
    for k in range(_SIZES - 1, -1, -1):
        rows = 2.0**k
        for i in range(int(s[_COUNTS + k])):
            p, whole = _bucket(k, i), n + rows
            off = s[p] - mean
            cubes += s[p + 2] + off * off * off * n * rows * (n - rows) / (whole * whole)
            cubes += 3.0 * off * (n * s[p + 1] - rows * squares) / whole
            squares += s[p + 1] + off * off * n * rows / whole
            mean += off * rows / whole
            n = whole
    s[_MEAN], s[_SQUARES], s[_CUBES] = mean, squares, cubes


@_jit
def _likeliest_cut(s, delta):  # type: ignore[no-untyped-def]
    """Return the rows after the cut with the most excess evidence, 0 for none, and the rise."""
    n, mean = s[_ROWS], s[_MEAN]
    variance = s[_SQUARES] / n
    if n < _LEAST_OLD + _LEAST_NEW or not variance > (_ROUNDING * mean) ** 2:
        return 0.0, 0.0
    skewness = s[_CUBES] / s[_SQUARES]
    needed = np.log((1.0 + np.log2(n)) / delta)
    new, total, kept, rise, most = 0.0, 0.0, 0.0, 0.0, 0.0
    rows, seen = 1.0, 0
    for k in range(_SIZES):
        # Use the variance of the largest size that has differences.
        while seen < min(k + _AHEAD + 1, _SIZES) and s[_NUMBERS + seen] > 0.0:
            seen += 1
        v = max(variance, s[_VARIANCES + seen - 1]) if seen else variance
        for i in range(int(s[_COUNTS + k]) - 1, -1, -1):
            new += rows
            total += rows * s[_bucket(k, i)]
            old = n - new
            if old < _LEAST_OLD:
                return kept, rise
            if new < _LEAST_NEW:
                continue
            off = total / new - (n * mean - total) / old
            m = old * new / n
            evidence = m * off * off / (2.0 * v)
            bound = needed - np.log(min(old, new))
            if evidence <= bound:
                continue
            b = skewness if off > 0.0 else -skewness
            u = b * abs(off) / v
            if u > 1e-3:
                evidence = m * v / (b * b) * ((1.0 + u) * np.log1p(u) - u)
            if evidence - bound > most:
                most, kept, rise = evidence - bound, new, off
        rows *= 2.0
    return kept, rise


@_jit
def _add(s, value, delta, every, two_sided):  # type: ignore[no-untyped-def]
    """Return 1 if a change is detected, -1 for a value that is not finite."""
    if not np.isfinite(value):
        return -1
    _insert(s, value)
    s[_SEEN] += 1.0
    if s[_SEEN] % every != 0.0:
        return 0
    kept, rise = _likeliest_cut(s, delta)
    if kept == 0.0:
        return 0
    _forget(s, kept)
    detected = two_sided or rise > 0.0
    s[_ALARMS] += detected
    return int(detected)


@_jit
def _add_many(s, values, delta, every, two_sided):  # type: ignore[no-untyped-def]
    found = np.zeros(values.size, dtype=np.bool_)
    for t in range(values.size):
        found[t] = _add(s, values[t], delta, every, two_sided) > 0
    return found
