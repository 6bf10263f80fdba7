"""Values of kernel expansions in one compiled pass: distances, kernel values and their sum.

A matrix of kernel values costs more to write and to read than to compute, and BLAS rounds a row
otherwise alone than beside others. Here kernel values stay in registers, and the arithmetic of a
row does not depend on the rows beside it: it has the same bits in each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.dense import (
    GROUP,
    ROWS,
    aligned,
    blas_addresses,
    column_products,
    fill_groups,
    four,
    keep,
    products,
)
from mercer.numerics.lanes import (
    N_LANES,
    at_least,
    at_most,
    load,
    load_singles,
    magnitude,
    spread,
    square_root,
    store,
    times_power,
    where_set,
)
from mercer.threads import in_order

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Kernels that are known here, as functions of the scaled distance a or, the first one, a squared:
#: exp(-a²), exp(-a), (1 + a) exp(-a), (1 + a + a² / 3) exp(-a), and exp(-a) of the city-block
#: distance.
GAUSSIAN, EXPONENTIAL, MATERN_3_2, MATERN_5_2, LAPLACIAN = range(5)

_PIECE = 1024  # rows in a piece of work for a thread
# Scaled inputs are clipped to this, so that squares do not overflow; exp(-_FAR) is nearly 0.
_FARTHEST, _FAR = 1e150, 708.0
# Points up to this squared size are near: of sixteen digits of distances four are lost at most.
_NEAR = 1e4
# In single precision, squared distances below this share of both squared sizes are computed from
# differences.
CLOSE = 1e-3
_BLAS = blas_addresses(np.float32)

_jit = jit(nogil=True, error_model="numpy")
_inline = jit(nogil=True, error_model="numpy", forceinline=True)


class Profile(NamedTuple):
    """A kernel as a function of the distance: ``offset`` plus a form from the list above."""

    form: int
    scale: float  # factor of distances
    offset: float = 0.0


class Points(NamedTuple):
    """Points of cells in groups of 32, which lie column by column; the last point fills up a group.

    What differs in no cell of some hundred rows is much of a table with flags, and flags are most
    of the rest. So columns of a cell are of four kinds, in this order: in double precision, in
    single precision where that changes no number, of two values and of one value.
    """

    counts: Integers  # (n_cells, 4): points, and columns of the first three kinds
    columns: Integers  # (n_cells, n_columns): numbers of the columns in their order
    lows: Array  # (n_cells, n_columns), in this order: centre, or the first value
    highs: Array  # the same shape: the second value
    doubles: Array  # flat
    singles: NDArray[np.float32]  # flat
    bits: NDArray[np.uint32]  # flat: for each column of two values a bit of each point of a group

    @classmethod
    def read(cls, **arrays: NDArray[Any]) -> Self:
        """Return points from arrays of the right types; ValueError if these do not fit."""
        made = cls(**arrays)
        n_columns, ends = made.columns.shape[1], made.starts[-1, 1:]
        if not (
            (np.sort(made.columns, axis=1) == np.arange(n_columns)).all()
            and (made.counts[:, 1:].sum(axis=1) <= n_columns).all()
            and [*ends] == [numbers.size for numbers in made[4:]]
        ):
            raise ValueError("the columns of the points do not fit their numbers")
        return made

    @property
    def starts(self) -> Integers:
        """Where groups, and numbers of the first three kinds, of each cell start; and the ends."""
        n_groups = -(-self.counts[:, :1] // GROUP)
        sizes = n_groups * np.hstack([np.ones_like(n_groups), self.counts[:, 1:]])
        sizes[:, 1:3] *= GROUP
        return np.vstack([np.zeros((1, 4), np.int64), sizes.cumsum(axis=0)])

    def of(self, cell: int, starts: Integers) -> Array:
        """Return the points of a cell, (n_points, n_columns)."""
        n, n_doubles, n_singles, n_pairs = (int(number) for number in self.counts[cell])
        n_groups, own = -(-n // GROUP), self.lows[cell]
        points = np.empty((n_groups * GROUP, len(own)))
        points[:] = own
        (_, *first), (_, *last) = starts[cell], starts[cell + 1]
        arrays: Any = self[4:]
        numbers = [array[a:b] for array, a, b in zip(arrays, first, last, strict=True)]
        varied = n_doubles + n_singles
        for some, at, size in zip(numbers, (0, n_doubles), (n_doubles, n_singles), strict=False):
            some = some.reshape(n_groups, size, GROUP).swapaxes(1, 2)
            points[:, at : at + size] = some.reshape(n_groups * GROUP, size)
        words = numbers[2].reshape(n_groups, 1, n_pairs)
        flags = (words >> np.arange(GROUP, dtype=np.uint32)[:, np.newaxis]) & np.uint32(1)
        pairs = slice(varied, varied + n_pairs)
        flags = flags.reshape(n_groups * GROUP, n_pairs).astype(np.bool_)
        points[:, pairs] = np.where(flags, self.highs[cell, pairs], own[pairs])
        found = np.empty((n, len(own)))
        found[:, self.columns[cell]] = points[:n]
        return found


class _Cells(NamedTuple):
    """Expansions of several cells, packed for the compiled pass."""

    points: Points
    starts: Integers  # (n_cells + 1, 4), see above
    sizes: Array  # flat: squared norms of the points, or minus the sums of their columns
    weights: Array  # flat: coefficients of the points, for each group output by output
    scales: Array  # (n_cells,)
    constants: Array  # (n_cells, n_outputs): what all rows get
    limits: Array  # (2, n_cells, n_outputs): lowest and highest value


class Expansion:
    """Functions of cells, f(x) = sum_i c_i k(x, d_i), clipped to a range; packed once.

    Parameters
    ----------
    profiles : sequence of Profile
        Kernel of each cell, all of one form.
    points, coefficients : sequence of ndarray
        Of each cell, shapes (n_points, n_columns) and (n_points, n_outputs); some have no points.
    ranges : ndarray of shape (n_cells, 2, n_outputs) or None, default=None
        Lowest and highest value in each cell; reversed, or None, for no limits.
    compact : bool, default=False
        Whether points are stored in few bytes, and scaled at each call. Then :meth:`parts` returns
        them.

    Examples
    --------
    >>> expansion = Expansion([Profile(LAPLACIAN, 1.0)], [np.eye(2)], [np.array([[1.0], [2.0]])])
    >>> expansion(np.array([[1.0, 0.0]])).round(3)
    array([[1.271]])
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        points: Sequence[NDArray[Any]],
        coefficients: Sequence[Array],
        ranges: Array | None = None,
        *,
        compact: bool = False,
    ) -> None:
        n_cells, n_outputs = len(profiles), coefficients[0].shape[1]
        scales = np.array([profile.scale for profile in profiles], dtype=np.float64)
        self._form, self._compact = profiles[0].form, compact
        if compact:
            (packed, reach), sizes = pack(points), np.empty(0)
            with np.errstate(over="ignore"):
                reach = reach * scales**2
        else:
            packed, sizes, reach = _scaled(points, scales, self._form)
        starts = packed.starts
        # Roots would make the error of small squares visible in a kernel that is not smooth.
        self._near = bool(np.all(reach < _NEAR)) and self._form != EXPONENTIAL
        weights = aligned((int(starts[-1, 0]), n_outputs, GROUP))
        for c, own in enumerate(coefficients):
            fill_groups(weights[starts[c, 0] : starts[c + 1, 0]], own)
        limits = np.repeat([[[-np.inf]], [[np.inf]]], n_outputs, axis=2).repeat(n_cells, axis=1)
        if ranges is not None:
            some = ranges[:, 0, 0] <= ranges[:, 1, 0]
            limits[:, some] = ranges[some].swapaxes(0, 1)
        self._cells = _Cells(
            packed,
            starts,
            sizes,
            weights.ravel(),
            scales,
            np.stack(
                [p.offset * c.sum(axis=0) for p, c in zip(profiles, coefficients, strict=True)]
            ),
            limits,
        )

    @property
    def counts(self) -> Integers:
        """Number of points of each cell, (n_cells,)."""
        return self._cells.points.counts[:, 0]

    def parts(self, cell: int) -> tuple[Array, Array]:
        """Return the points and the coefficients of a cell, where points are compact."""
        n_outputs = self._cells.constants.shape[1]
        first, last = self._cells.starts[cell : cell + 2, 0] * (n_outputs * GROUP)
        groups = self._cells.weights[first:last].reshape(-1, n_outputs, GROUP)
        coefficients = groups.swapaxes(1, 2).reshape(-1, n_outputs)[: self.counts[cell]]
        return self._cells.points.of(cell, self._cells.starts), np.ascontiguousarray(coefficients)

    def __call__(self, X: NDArray[Any], cells: Integers | None = None) -> Array:
        """Return values at rows, (n_rows, n_outputs).

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_columns)
            Rows.
        cells : ndarray of shape (n_rows,) of int64, default=None
            Cell of each row; -1 is the last one. None: there is only one.
        """
        rows = np.ascontiguousarray(X, dtype=np.float64)
        rows = rows if rows.flags.writeable else rows.copy()  # compiled for one type of array
        n = len(rows)
        values = np.empty((n, self._cells.constants.shape[1]))
        if cells is None:
            cells, order = np.zeros(n, dtype=np.int64), np.arange(n)
        else:
            order = np.argsort(cells, kind="stable")

        def evaluate(start: int) -> None:
            some = order[start : start + _PIECE]
            how = self._form, self._near, self._compact
            _evaluate(rows, cells, some, self._cells, *how, values)

        if n <= _PIECE:
            evaluate(0)
        else:
            in_order(evaluate, range(0, n, _PIECE))
        return values


def gram(points: NDArray[Any], profile: Profile) -> NDArray[np.float32]:
    """Return kernel values between points on and above the diagonal, in single precision.

    Below the diagonal are zeros: a Cholesky factor needs half of the matrix, and its other half
    would take as long as the first.

    Parameters
    ----------
    points : ndarray of shape (n_points, n_columns)
        Finite points in float32.
    profile : Profile
        The kernel.

    Examples
    --------
    >>> gram(np.array([[0.0], [1.0]], np.float32), Profile(LAPLACIAN, 2.0, offset=1.0)).round(3)
    array([[2.   , 1.135],
           [0.   , 2.   ]], dtype=float32)
    """
    single, n = np.float32, len(points)
    points = np.ascontiguousarray(points)
    points = points if points.flags.writeable else points.copy()  # compiled for one type of array
    values = np.zeros((n, n), single)
    scale = profile.scale**2 if profile.form == GAUSSIAN else profile.scale
    _fill_gram(_BLAS, points, profile.form, single(scale), single(profile.offset), values)
    return values


def pack(points: Sequence[NDArray[Any]]) -> tuple[Points, Array]:
    """Return the points of cells in few bytes, and the largest squared distances from centres."""
    n_cells, n_columns = len(points), points[0].shape[1]
    counts = np.zeros((n_cells, 4), np.int64)
    columns = np.zeros((n_cells, n_columns), np.int64)
    lows, highs = np.zeros((2, n_cells, n_columns))
    columns[:] = np.arange(n_columns)
    for c, own in enumerate(points):
        if len(own):
            _sort_columns(np.array(own, np.float64), counts[c], columns[c], lows[c], highs[c])
    packed = Points(counts, columns, lows, highs, *_no_numbers())
    starts = packed.starts
    numbers = zip(_no_numbers(), starts[-1, 1:], strict=True)
    flat: list[Any] = [np.zeros(int(n), none.dtype) for none, n in numbers]
    reach = np.zeros(n_cells)
    for c, own in enumerate(points):
        if len(own):
            mine = [array[starts[c, k] : starts[c + 1, k]] for k, array in enumerate(flat, 1)]
            reach[c] = _fill(np.array(own, np.float64), counts[c], columns[c], lows[c], *mine)
    return packed._replace(doubles=flat[0], singles=flat[1], bits=flat[2]), reach


def _scaled(
    points: Sequence[NDArray[Any]], scales: Array, form: int
) -> tuple[Points, Array, Array]:
    """Return scaled and centred points, their sizes, see :class:`_Cells`, and squared norms."""
    n_cells, n_columns = len(points), points[0].shape[1]
    even = n_columns + n_columns % 2
    counts = np.zeros((n_cells, 4), np.int64)
    counts[:, 0] = [len(own) for own in points]
    counts[:, 1] = n_columns
    columns = np.tile(np.arange(n_columns), (n_cells, 1))
    lows = np.zeros((n_cells, n_columns))
    packed = Points(counts, columns, lows, lows, *_no_numbers())
    starts = packed.starts[:, 0]
    groups = aligned((int(starts[-1]), even, GROUP))
    with np.errstate(over="ignore"):
        for c, (scale, own) in enumerate(zip(scales, points, strict=True)):
            if len(own):
                lows[c] = np.clip(own, -_FARTHEST, _FARTHEST).mean(axis=0)
                scaled = np.clip((own - lows[c]) * scale, -_FARTHEST, _FARTHEST)
                fill_groups(groups[starts[c] : starts[c + 1], :n_columns], scaled)
        squares = np.einsum("gkj,gkj->gj", groups, groups)
    sizes = -groups.sum(axis=1) if form == LAPLACIAN else squares
    return packed._replace(doubles=groups.ravel()), sizes.ravel(), squares


def _no_numbers() -> list[Any]:
    return [np.empty(0, dtype) for dtype in (np.float64, np.float32, np.uint32)]


@_inline
def _clipped(x):  # type: ignore[no-untyped-def]
    return _FARTHEST if x > _FARTHEST else -_FARTHEST if x < -_FARTHEST else x


@_jit
def _sort_columns(own, counts, columns, lows, highs):  # type: ignore[no-untyped-def]
    """Find the kinds of the columns of a cell, and write what :class:`Points` has of them."""
    n, n_columns = own.shape
    kinds = np.empty(n_columns, np.int64)
    firsts, seconds = np.empty(n_columns), np.empty(n_columns)
    for k in range(n_columns):
        first = second = own[0, k]
        kind, mean, single = 3, 0.0, True
        for i in range(n):
            x = own[i, k]
            mean += _clipped(x)
            single = single and np.float64(np.float32(x)) == x
            if kind == 3 and x != first:
                kind, second = 2, x
            elif kind == 2 and x != first and x != second:
                kind = 0
        if kind == 0:
            first = mean / n
            kind = 1 if single else 0
        kinds[k], firsts[k], seconds[k] = kind, first, second
    counts[0], at = n, 0
    for kind in range(4):
        before = at
        for k in range(n_columns):
            if kinds[k] == kind:
                columns[at], lows[at], highs[at] = k, firsts[k], seconds[k]
                at += 1
        if kind < 3:
            counts[1 + kind] = at - before


@_jit
def _fill(own, counts, columns, lows, doubles, singles, bits):  # type: ignore[no-untyped-def]
    """Write the points of a cell; return the largest squared distance from the centre."""
    n, largest = counts[0], 0.0
    n_doubles, n_singles, n_pairs = counts[1], counts[2], counts[3]
    for start in range(0, n, GROUP):
        group = start // GROUP
        for j in range(GROUP):
            x, size = own[min(start + j, n - 1)], 0.0
            for k in range(n_doubles + n_singles + n_pairs):
                value = x[columns[k]]
                size += (value - lows[k]) ** 2
                if k < n_doubles:
                    doubles[(group * n_doubles + k) * GROUP + j] = value
                elif k < n_doubles + n_singles:
                    singles[(group * n_singles + k - n_doubles) * GROUP + j] = value
                elif value != lows[k]:
                    at = group * n_pairs + k - n_doubles - n_singles
                    bits[at] |= np.uint32(1) << np.uint32(j)
            largest = max(largest, size)
    return largest


@_inline
def _unpack(packed, cell, group, form, room, sizes):  # type: ignore[no-untyped-def]
    """Write the scaled points of a group of a cell, in columns that differ, and their sizes."""
    points, scale = packed.points, packed.scales[cell]
    n_doubles, n_singles = points.counts[cell, 1], points.counts[cell, 2]
    n_pairs, n_varied = points.counts[cell, 3], n_doubles + n_singles
    starts = packed.starts[cell]
    for k in range(n_varied):
        low = points.lows[cell, k]
        start = starts[1] + (group * n_doubles + k) * GROUP
        if k >= n_doubles:
            start = starts[2] + (group * n_singles + k - n_doubles) * GROUP
        for lane in range(0, GROUP, N_LANES):
            if k < n_doubles:
                value = (load(points.doubles, start + lane) - low) * scale
            else:
                value = (load_singles(points.singles, start + lane) - low) * scale
            store(room, k * GROUP + lane, at_most(at_least(value, -_FARTHEST), _FARTHEST))
    for k in range(n_varied, n_varied + n_pairs):
        high = _clipped((points.highs[cell, k] - points.lows[cell, k]) * scale)
        word = np.uint64(points.bits[starts[3] + group * n_pairs + k - n_varied])
        for lane in range(0, GROUP, N_LANES):
            store(room, k * GROUP + lane, where_set(word >> np.uint64(lane), high))
    n_columns = n_varied + n_pairs
    if n_columns % 2:
        room[n_columns * GROUP : (n_columns + 1) * GROUP] = 0.0
    for lane in range(0, GROUP, N_LANES):
        size = spread(0.0)
        for k in range(n_columns):
            value = load(room, k * GROUP + lane)
            size = size - value if form == LAPLACIAN else size + value * value
        store(sizes, lane, size)


@_inline
def _exponential(a):  # type: ignore[no-untyped-def]
    """Return exp(-a), 0 <= a <= 708, as 2 ** n exp(r) with |r| <= log(2) / 2.

    Adding 3 * 2 ** 51 rounds to an integer, which then is in the lowest bits. The polynomial for
    exp(r) is nearly the one with the least largest error, 7e-17.
    """
    bits = a * -1.4426950408889634 + (6755399441055744.0 + 1023.0)
    n = bits - (6755399441055744.0 + 1023.0)
    # log(2) in two numbers, of which the first has zeros in its last digits.
    r = n * -1.9082149292705877e-10 + (n * -0.6931471803691238 - a)
    p = r * 2.5228819471184218e-08 + 2.761793851762046e-07
    p = p * r + 2.7556958458386844e-06
    p = p * r + 2.480152581452556e-05
    p = p * r + 1.9841270108901673e-04
    p = p * r + 1.3888888914306643e-03
    p = p * r + 8.333333333259182e-03
    p = p * r + 4.166666666662995e-02
    p = p * r + 1.666666666666672e-01
    p = p * r + 0.5
    p = p * r + 1.0
    return times_power(p * r + 1.0, bits)


@_inline
def _to_kernel(values, n, form):  # type: ignore[no-untyped-def]
    """Replace separations by kernel values, in place."""
    if form in (GAUSSIAN, LAPLACIAN):
        for at in range(0, n, N_LANES):
            store(values, at, _exponential(at_most(load(values, at), _FAR)))
        return
    for at in range(0, n, N_LANES):
        store(values, at, at_most(square_root(load(values, at)), _FAR))
    if form == EXPONENTIAL:
        for at in range(0, n, N_LANES):
            store(values, at, _exponential(load(values, at)))
    elif form == MATERN_3_2:
        for at in range(0, n, N_LANES):
            a = load(values, at)
            store(values, at, _exponential(a) * (a + 1.0))
    else:
        for at in range(0, n, N_LANES):
            a = load(values, at)
            store(values, at, _exponential(a) * (a * (a * (1.0 / 3.0) + 1.0) + 1.0))


@_inline
def _single_exponential(a):  # type: ignore[no-untyped-def]
    """Return exp(-a), 0 <= a <= 87, in single precision, as :func:`_exponential` does."""
    single, word = np.float32, np.int32
    bits = a * single(-1.4426950408889634) + single(12582912.0 + 127.0)
    n = bits - single(12582912.0 + 127.0)
    r = n * single(2.12194440e-4) + (n * single(-0.693359375) - a)
    p = r * single(1.9875691500e-4) + single(1.3981999507e-3)
    p = p * r + single(8.3334519073e-3)
    p = p * r + single(4.1665795894e-2)
    p = p * r + single(1.6666665459e-1)
    p = p * r + single(5.0000001201e-1)
    p = p * (r * r) + r + single(1.0)
    return p * word(single(bits).view(word) << word(23)).view(single)


@_inline
def _varied(points, columns):  # type: ignore[no-untyped-def]
    """Write the columns in which points differ, less their means; return how many they are.

    In a cell of some hundred rows, most flags are the same.
    """
    n_found = 0
    for k in range(points.shape[1]):
        mean, differ = 0.0, False
        for i in range(len(points)):
            mean += points[i, k]
            differ |= points[i, k] != points[0, k]
        if differ:
            centre = np.float32(mean / len(points))
            for i in range(len(points)):
                columns[n_found, i] = points[i, k] - centre
            n_found += 1
    return n_found


@jit(nogil=True, error_model="numpy", fastmath={"contract"})
def _fill_gram(blas, points, form, scale, offset, values):  # type: ignore[no-untyped-def]
    """Write kernel values, row by row from the diagonal on, to zeros."""
    n = len(points)
    columns = np.empty((points.shape[1], n), np.float32)
    n_columns = _varied(points, columns)
    if form != LAPLACIAN and n_columns > 0:
        column_products(blas, columns[:n_columns], values)
    none, one, two = np.float32(0.0), np.float32(1.0), np.float32(2.0)
    far, close = np.float32(87.0), np.float32(CLOSE)
    linear = one if form in (MATERN_3_2, MATERN_5_2) else none
    third = np.float32(1.0 / 3.0) if form == MATERN_5_2 else none
    sizes = np.zeros(n, np.float32)
    if form != LAPLACIAN:
        for i in range(n):
            sizes[i] = values[i, i]
    for i in range(n):
        row, size = values[i, i:], sizes[i]
        if form == LAPLACIAN:
            whole = n_columns - n_columns % 4
            for k in range(0, whole, 4):
                a, b = columns[k, i:], columns[k + 1, i:]
                c, d = columns[k + 2, i:], columns[k + 3, i:]
                p, q, r, s = a[0], b[0], c[0], d[0]
                for j in range(row.size):
                    first = abs(p - a[j]) + abs(q - b[j])
                    row[j] += first + (abs(r - c[j]) + abs(s - d[j]))
            for k in range(whole, n_columns):
                a = columns[k, i:]
                p = a[0]
                for j in range(row.size):
                    row[j] += abs(p - a[j])
        else:
            theirs, n_close = sizes[i:], np.int32(0)
            row[0] = none
            for j in range(1, row.size):
                both = size + theirs[j]
                square = both - two * row[j]
                # Also where an overflow left NaN.
                n_close += np.int32(not (square >= close * both))
                row[j] = square
            if n_close > 0:
                for j in range(1, row.size):
                    if not (row[j] >= close * (size + theirs[j])):
                        s = none
                        for k in range(n_columns):
                            t = columns[k, i] - columns[k, i + j]
                            s += t * t
                        row[j] = s
        if form in (EXPONENTIAL, MATERN_3_2, MATERN_5_2):
            for j in range(row.size):
                row[j] = np.sqrt(row[j])
        for j in range(row.size):
            x = row[j] * scale
            x = far if x > far else x
            row[j] = _single_exponential(x) * (x * (x * third + linear) + one) + offset


@_inline
def _maxima(rows, n, points, start, n_columns, found):  # type: ignore[no-untyped-def]
    """Write sums over the columns of the larger of the row's and the point's value."""
    for row in range(n):
        a = b = c = d = spread(0.0)
        for k in range(n_columns):
            x, at = rows[row, k], start + k * GROUP
            a, b = a + at_least(load(points, at), x), b + at_least(load(points, at + 8), x)
            c, d = c + at_least(load(points, at + 16), x), d + at_least(load(points, at + 24), x)
        keep(found, row, a, b, c, d)


@_inline
def _near_separations(rows, n, n_columns, points, at, sizes, of, form, found):  # type: ignore[no-untyped-def]
    """Separations |x - p|² = |x|² + |p|² - 2 x'p, or |x - p| = 2 max(x, p) - x - p."""
    if form == LAPLACIAN:
        twice = 2.0
        _maxima(rows, n, points, at, n_columns, found)
    else:
        twice = -2.0
        if n_columns:
            products(rows, n, points, at, n_columns, found)
        else:
            found[: n * GROUP] = 0.0
    for row in range(n):
        own = rows[row, -1]
        for lane in range(0, GROUP, N_LANES):
            both = load(found, row * GROUP + lane) * twice + load(sizes, of + lane) + own
            store(found, row * GROUP + lane, at_least(both, 0.0))


@_inline
def _far_separations(rows, n, n_columns, points, start, form, found):  # type: ignore[no-untyped-def]
    """Separations from differences, to full precision."""
    for row in range(n):
        a = b = c = d = spread(rows[row, -1])
        for k in range(n_columns):
            x, at = rows[row, k], start + k * GROUP
            s, t = load(points, at) - x, load(points, at + 8) - x
            u, v = load(points, at + 16) - x, load(points, at + 24) - x
            if form == LAPLACIAN:
                a, b = a + magnitude(s), b + magnitude(t)
                c, d = c + magnitude(u), d + magnitude(v)
            else:
                a, b, c, d = a + s * s, b + t * t, c + u * u, d + v * v
        keep(found, row, a, b, c, d)


@_inline
def _fill_rows(X, order, packed, cell, form, near, rows):  # type: ignore[no-untyped-def]
    """Write scaled rows of a cell; behind their columns is what points add nothing to: their size.

    Columns in which all points are alike are only in the size.
    """
    points, scale = packed.points, packed.scales[cell]
    n_varied = points.counts[cell, 1:].sum()
    for row in range(order.size):
        size = 0.0
        if n_varied % 2:
            rows[row, n_varied] = 0.0
        for k in range(X.shape[1]):
            x = X[order[row], points.columns[cell, k]]
            x = _clipped((x - points.lows[cell, k]) * scale)
            if k < n_varied:
                rows[row, k] = x
            if k >= n_varied:
                size += abs(x) if form == LAPLACIAN else x * x
            elif near:
                size += -x if form == LAPLACIAN else x * x
        rows[row, -1] = size


@_inline
def _add_to_sums(found, n, weights, group, n_outputs, sums):  # type: ignore[no-untyped-def]
    """Add kernel values times coefficients to the sums of rows; two rows meet what is loaded."""
    for row in range(0, n - 1, 2):
        at = row * GROUP
        a, b, c, d = four(found, at)
        e, f, g, h = four(found, at + GROUP)
        for output in range(n_outputs):
            to = (row * n_outputs + output) * N_LANES
            again = to + n_outputs * N_LANES
            i, j, k, m = four(weights, (group * n_outputs + output) * GROUP)
            store(sums, to, load(sums, to) + a * i + b * j + c * k + d * m)
            store(sums, again, load(sums, again) + e * i + f * j + g * k + h * m)
    if n % 2:
        a, b, c, d = four(found, (n - 1) * GROUP)
        for output in range(n_outputs):
            to = ((n - 1) * n_outputs + output) * N_LANES
            i, j, k, m = four(weights, (group * n_outputs + output) * GROUP)
            store(sums, to, load(sums, to) + a * i + b * j + c * k + d * m)


@_jit
def _evaluate(X, cells, order, packed, form, near, compact, values):  # type: ignore[no-untyped-def]
    """Write the values at some rows, in an order in which those of a cell follow each other."""
    n_outputs, weights = values.shape[1], packed.weights
    width = X.shape[1] + X.shape[1] % 2
    rows = np.zeros((ROWS, width + 1))
    found = np.empty(ROWS * GROUP)
    points, sizes = packed.points.doubles, packed.sizes
    if compact:
        points, sizes = np.empty(width * GROUP), np.empty(GROUP)
    # Of each row and output, lanes of sums, which are added up at the end.
    sums = np.empty(ROWS * n_outputs * N_LANES)
    start = 0
    while start < order.size:
        cell, n = cells[order[start]], 1
        while n < ROWS and start + n < order.size and cells[order[start + n]] == cell:
            n += 1
        cell = cell if cell >= 0 else cell + len(packed.scales)
        _fill_rows(X, order[start : start + n], packed, cell, form, near, rows)
        n_columns = packed.points.counts[cell, 1:].sum()
        n_columns += n_columns % 2
        sums[: n * n_outputs * N_LANES] = 0.0
        first = packed.starts[cell, 0]
        for group in range(first, packed.starts[cell + 1, 0]):
            at, of = group * n_columns * GROUP, group * GROUP
            if compact:
                _unpack(packed, cell, group - first, form, points, sizes)
                at = of = 0
            if near:
                _near_separations(rows, n, n_columns, points, at, sizes, of, form, found)
            else:
                _far_separations(rows, n, n_columns, points, at, form, found)
            _to_kernel(found, n * GROUP, form)
            _add_to_sums(found, n, weights, group, n_outputs, sums)
        for row in range(n):
            for output in range(n_outputs):
                value = packed.constants[cell, output]
                to = (row * n_outputs + output) * N_LANES
                for lane in range(N_LANES):
                    value += sums[to + lane]
                low, high = packed.limits[0, cell, output], packed.limits[1, cell, output]
                value = low if value < low else high if value > high else value
                values[order[start + row], output] = value
        start += n
