"""Values of kernel expansions in one compiled pass: distances, kernel values and their sum.

A matrix of kernel values costs more to write and to read than to compute, and BLAS rounds a row
otherwise alone than beside others. Here kernel values stay in registers, and the arithmetic of a
row does not depend on the rows beside it: it has the same bits in each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit
from mercer.numerics.dense import GROUP, ROWS, aligned, fill_groups, keep, products
from mercer.numerics.lanes import (
    N_LANES,
    at_least,
    at_most,
    load,
    magnitude,
    spread,
    square_root,
    store,
    times_power,
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

_jit = jit(nogil=True, error_model="numpy")
_inline = jit(nogil=True, error_model="numpy", forceinline=True)


class Profile(NamedTuple):
    """A kernel as a function of the distance: ``offset`` plus a form from the list above."""

    form: int
    scale: float  # factor of distances
    offset: float = 0.0


class _Cells(NamedTuple):
    """Expansions of several cells, packed for the compiled pass."""

    points: Array  # flat: groups of 32 points, each column by column, scaled and centred
    sizes: Array  # flat: squared norms of the points, or minus the sums of their columns
    weights: Array  # flat: coefficients of the points, for each group output by output
    groups: Integers  # (n_cells, 2): numbers of the first group and behind the last
    scales: Array  # (n_cells,)
    centres: Array  # (n_cells, n_columns), scaled
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
    ) -> None:
        n_cells, n_outputs = len(profiles), coefficients[0].shape[1]
        n_groups = [-(-len(own) // GROUP) for own in points]
        ends = np.cumsum(n_groups, dtype=np.int64)
        n_columns = points[0].shape[1]
        even = n_columns + n_columns % 2
        packed = aligned((int(ends[-1]), even, GROUP))
        weights = aligned((int(ends[-1]), n_outputs, GROUP))
        centres = np.zeros((n_cells, even))
        for c, (profile, own) in enumerate(zip(profiles, points, strict=True)):
            if len(own):
                groups = slice(ends[c] - n_groups[c], ends[c])
                with np.errstate(over="ignore"):
                    scaled = np.clip(own * np.float64(profile.scale), -_FARTHEST, _FARTHEST)
                centres[c, :n_columns] = scaled.mean(axis=0)
                fill_groups(packed[groups, :n_columns], scaled - centres[c, :n_columns])
                fill_groups(weights[groups], coefficients[c])
        self._form = profiles[0].form
        with np.errstate(over="ignore"):
            sizes = np.einsum("gkj,gkj->gj", packed, packed)
        # Roots would make the error of small squares visible in a kernel that is not smooth.
        self._near = bool(sizes.max(initial=0.0) < _NEAR) and self._form != EXPONENTIAL
        if self._form == LAPLACIAN:
            sizes = -packed.sum(axis=1)
        limits = np.repeat([[[-np.inf]], [[np.inf]]], n_outputs, axis=2).repeat(n_cells, axis=1)
        if ranges is not None:
            some = ranges[:, 0, 0] <= ranges[:, 1, 0]
            limits[:, some] = ranges[some].swapaxes(0, 1)
        self._cells = _Cells(
            packed.ravel(),
            sizes.ravel(),
            weights.ravel(),
            np.stack([ends - n_groups, ends], axis=1),
            np.array([profile.scale for profile in profiles], dtype=np.float64),
            centres,
            np.stack(
                [p.offset * c.sum(axis=0) for p, c in zip(profiles, coefficients, strict=True)]
            ),
            limits,
        )

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
            _evaluate(rows, cells, some, self._cells, self._form, self._near, values)

        if n <= _PIECE:
            evaluate(0)
        else:
            in_order(evaluate, range(0, n, _PIECE))
        return values


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
def _near_separations(rows, n, points, sizes, group, form, found):  # type: ignore[no-untyped-def]
    """Separations |x - p|² = |x|² + |p|² - 2 x'p, or |x - p| = 2 max(x, p) - x - p."""
    n_columns, at = rows.shape[1] - 1, group * GROUP
    if form == LAPLACIAN:
        twice = 2.0
        _maxima(rows, n, points, at * n_columns, n_columns, found)
    else:
        twice = -2.0
        products(rows, n, points, at * n_columns, n_columns, found)
    for row in range(n):
        own = rows[row, n_columns]
        for lane in range(0, GROUP, N_LANES):
            both = load(found, row * GROUP + lane) * twice + load(sizes, at + lane) + own
            store(found, row * GROUP + lane, at_least(both, 0.0))


@_inline
def _far_separations(rows, n, points, group, form, found):  # type: ignore[no-untyped-def]
    """Separations from differences, to full precision."""
    n_columns = rows.shape[1] - 1
    start = group * GROUP * n_columns
    for row in range(n):
        a = b = c = d = spread(0.0)
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


@_jit
def _evaluate(X, cells, order, packed, form, near, values):  # type: ignore[no-untyped-def]
    """Write the values at some rows, in an order in which those of a cell follow each other."""
    n_columns, n_outputs = X.shape[1], values.shape[1]
    points, sizes, weights = packed.points, packed.sizes, packed.weights
    # Of each row, its size stands behind its columns.
    width = packed.centres.shape[1]
    rows = np.zeros((ROWS, width + 1))
    found = np.empty(ROWS * GROUP)
    # Of each row and output, lanes of sums, which are added up at the end.
    sums = np.empty(ROWS * n_outputs * N_LANES)
    start = 0
    while start < order.size:
        cell, n = cells[order[start]], 1
        while n < ROWS and start + n < order.size and cells[order[start + n]] == cell:
            n += 1
        for row in range(n):
            size = 0.0
            for k in range(n_columns):
                x = X[order[start + row], k] * packed.scales[cell]
                x = _FARTHEST if x > _FARTHEST else -_FARTHEST if x < -_FARTHEST else x
                rows[row, k] = x = x - packed.centres[cell, k]
                size += -x if form == LAPLACIAN else x * x
            rows[row, width] = size
        sums[: n * n_outputs * N_LANES] = 0.0
        for group in range(packed.groups[cell, 0], packed.groups[cell, 1]):
            if near:
                _near_separations(rows, n, points, sizes, group, form, found)
            else:
                _far_separations(rows, n, points, group, form, found)
            _to_kernel(found, n * GROUP, form)
            for row in range(n):
                at = row * GROUP
                a, b = load(found, at), load(found, at + 8)
                c, d = load(found, at + 16), load(found, at + 24)
                for output in range(n_outputs):
                    to = (row * n_outputs + output) * N_LANES
                    w = (group * n_outputs + output) * GROUP
                    s = load(sums, to) + a * load(weights, w) + b * load(weights, w + 8)
                    s = s + c * load(weights, w + 16) + d * load(weights, w + 24)
                    store(sums, to, s)
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
