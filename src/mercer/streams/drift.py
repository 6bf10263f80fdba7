"""When a stream changes: a detector of a rise in the mean of losses, at a steady cost a row.

It keeps the rows since the last change as an *exponential histogram*: buckets of 1, 2, 4, ...
rows, at most five of each size, with the moments of their values. After each row the newest buckets
are compared with all older ones, for every boundary between buckets; where the means differ more
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

# No fast mathematics: a detector that goes on from a file has the bits of one that never stopped.
_jit = jit(nogil=True, error_model="numpy")

# Buckets of a size, before the two oldest become one of twice the size; sizes, so that there is
# place for 2 ** 40 rows.
_BUCKETS, _SIZES = 5, 40
# Where things are in the array that is the state: the window (rows, mean, sums of squares and of
# cubes about the mean), rows and alarms so far; then for each size its buckets, and of the squared
# differences of neighbours their sum, their number, and the estimate from them; then the buckets:
# mean, sum of squares, sum of cubes of each.
_ROWS, _MEAN, _SQUARES, _CUBES, _SEEN, _ALARMS = range(6)
_COUNTS = 6
_SUMS = _COUNTS + _SIZES
_NUMBERS = _SUMS + _SIZES
_VARIANCES = _NUMBERS + _SIZES
_MOMENTS = _VARIANCES + _SIZES
_LENGTH = _MOMENTS + _SIZES * (_BUCKETS + 1) * 3

# Rows before and after a cut, at least.
_LEAST_OLD, _LEAST_NEW = 16, 4
# A variance no more than this square of the mean is what rounding makes of a constant.
_ROUNDING = 1e-12
# The variance at a size counts the one at half the size as so many differences; older differences
# fade by this factor; one beyond so many times what is expected (a change) counts no more.
_TRUST, _FADING, _MOST = 8.0, 0.99, 9.0
# Means of n rows vary as neighbours do that have about this many sizes more than their buckets.
_AHEAD = 3


class ChangeDetector(Recorded):
    r"""Detect rises of the mean of losses, whatever their scale, skewness and correlation.

    For rows :math:`n_0` before and :math:`n_1` after a cut whose means differ by :math:`d`, with
    :math:`m = n_0 n_1 / (n_0 + n_1)`, the evidence is

    .. math:: g = m \frac{v}{b^2} \, h\Big(\frac{b d}{v}\Big), \qquad h(u) = (1 + u) \log(1 + u) - u

    (:math:`m d^2 / 2v` where :math:`b \le 0`): the exponent of Bennett's bound, with the variance
    :math:`v` and :math:`b` the third central moment over the second, both of the window. For
    Gaussian losses it is the likelihood ratio, for rare 0/1 losses that of Poisson counts. A change
    is one of

    .. math:: g > \log \frac{1 + \log_2 (n_0 + n_1)}{\delta \min(n_0, n_1)}.

    Cuts that leave n rows on their smaller side are about :math:`1 / n` independent tests a row, so
    that each scale of n has the same part of :math:`\delta` false alarms a row, and small changes,
    seen in many rows, need less evidence than with one bound for all. Where losses are correlated,
    means of n rows vary more than :math:`v / n`: v is the larger of the variance and of what
    differences of neighbouring buckets show at that scale (Allan variance).

    Falls of the mean forget the older rows as well, so that losses are compared with those of
    lately, but are no detection unless ``two_sided``: a learner that improves is no news.

    Parameters
    ----------
    delta : float, default=1e-5
        False alarms a row of a stream that does not change, about; between 0 and 1.
    two_sided : bool, default=False
        Whether falls of the mean are detected, too.
    every : int, default=1
        Rows from one look at the cuts to the next.

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
    )

    def __init__(self, delta: float = 1e-5, *, two_sided: bool = False, every: int = 1) -> None:
        check_real("delta", delta, low=0.0, high=1.0, open_low=True, open_high=True)
        check_integer("every", every, low=1)
        self.delta, self.two_sided, self.every = float(delta), bool(two_sided), int(every)
        self._state: Array = np.zeros(_LENGTH)

    def add(self, value: float) -> bool:
        """Take account of a value, and return whether the mean has changed.

        Parameters
        ----------
        value : float
            Loss of the next row; finite.

        Returns
        -------
        detected : bool
            Whether a change is detected at this row; the window is of the rows since it then.

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
        """Take account of several values, as :meth:`add` does one by one.

        Parameters
        ----------
        values : array of shape (n_rows,)
            Losses of the next rows; finite.

        Returns
        -------
        rows : ndarray of int64
            Where in ``values`` changes were detected.

        Raises
        ------
        ValueError
            If a value is not finite: nothing has been added then.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise ValueError("Losses must be finite numbers, in an array of one dimension.")
        options = self.delta, self.every, self.two_sided
        return np.flatnonzero(_add_many(self._state, values, *options)).astype(np.int64)

    @property
    def width(self) -> int:
        """Rows in the window: those since the last change."""
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
        """Rows so far."""
        return int(self._state[_SEEN])

    @property
    def n_detected(self) -> int:
        """Changes detected so far."""
        return int(self._state[_ALARMS])

    def _adopt(self, values: dict[str, Any]) -> None:
        counts, n_rows = np.split(values["_state"], [_COUNTS, _SUMS])[1], values["_state"][_ROWS]
        whole = (counts == np.floor(counts)).all() and 0 <= counts.min() <= counts.max() <= _BUCKETS
        if not whole or counts @ 2.0 ** np.arange(_SIZES) != n_rows:
            raise ValueError("the buckets of a detector do not hold the rows of its window")
        super()._adopt(values)


@_jit
def _bucket(size, place):  # type: ignore[no-untyped-def]
    """Where the moments of a bucket are."""
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
        # The two oldest become one of the next size.
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
    """Forget the oldest buckets until so many rows are left; moments anew, without differences."""
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
    """Rows after the cut with the most evidence beyond what is needed, and the rise; 0 for none."""
    n, mean = s[_ROWS], s[_MEAN]
    variance = s[_SQUARES] / n
    if n < _LEAST_OLD + _LEAST_NEW or not variance > (_ROUNDING * mean) ** 2:
        return 0.0, 0.0
    skewness = s[_CUBES] / s[_SQUARES]
    needed = np.log((1.0 + np.log2(n)) / delta)
    new, total, kept, rise, most = 0.0, 0.0, 0.0, 0.0, 0.0
    rows, seen = 1.0, 0
    for k in range(_SIZES):
        # The variance of the largest size of which there are differences.
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
