"""Cells of space: the regions nearest to anchors, and halves of such cells.

Rows are C-contiguous, float32 or float64; anchors are float64.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.jit import jit
from mercer.kernels._pairwise import FloatArray, inner_products, squared_norms

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_CHUNK = 2**18  # scores computed at a time, so that they stay in cache

_N_ITERATIONS = 8
_ROWS_PER_CENTRE = 20
_ROWS_AT_LEAST = 8000

# No fast mathematics: a row's cell must be the same in every call.
_jit = jit(nogil=True, error_model="numpy")


class Cells:
    """Cells of the points nearest to each of some anchors; cells may be split further.

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
        Finite points, one or more; they are copied.
    parents : ndarray of shape (n_splits,) of int64 or None, default=None
        Cells that are split, in order. The first half of a cell keeps its number, the second half
        of split s is cell ``n_anchors + s``.
    pairs : ndarray of shape (n_splits, 2, n_features) or None, default=None
        Anchors of the two halves.
    """

    def __init__(
        self, anchors: Array, parents: Indices | None = None, pairs: Array | None = None
    ) -> None:
        self._anchors = np.array(anchors, dtype=np.float64, order="C")
        n_features = self._anchors.shape[1]
        self.parents = np.empty(0, np.int64) if parents is None else parents
        self.pairs = np.empty((0, 2, n_features)) if pairs is None else pairs
        with np.errstate(over="ignore", invalid="ignore"):  # mended where rows are compared
            # Rounded to float32, so that rows of either dtype are shifted by the same numbers.
            centre = np.clip(self._anchors.mean(axis=0), -1e38, 1e38).astype(np.float32)
            shifted = self._anchors - centre.astype(np.float64)
            self._radius = float(np.sqrt(squared_norms(shifted).max()))
            tables = (shifted.astype(np.float32), shifted)
            self._tables = {t.dtype.char: (centre, t, squared_norms(t) / 2) for t in tables}

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self._anchors) + len(self.parents)

    @property
    def n_features(self) -> int:
        """Dimension of the space."""
        return int(self._anchors.shape[1])

    @cached_property
    def centres(self) -> Array:
        """Anchor of each cell, after all splits, shape (n_cells, n_features)."""
        centres = np.empty((len(self), self.n_features))
        centres[: len(self._anchors)] = self._anchors
        centres[len(self._anchors) :] = self.pairs[:, 1]
        # Each cell is split after it was made, and the last split of a cell is the last assignment.
        centres[self.parents] = self.pairs[:, 0]
        return centres

    def centre(self, cell: int) -> Array:
        """Anchor of a cell, after all splits, shape (n_features,)."""
        return np.asarray(self.centres[cell])

    @cached_property
    def _splits(self) -> tuple[Indices, Indices]:
        """First split of each cell, and after each split the next of the same cell; -1 for none."""
        first, following = np.full(len(self), -1), np.full(len(self.parents), -1)
        for s in range(len(self.parents) - 1, -1, -1):
            cell = self.parents[s]
            following[s], first[cell] = first[cell], s
        return first, following

    @cached_property
    def _planes(self) -> tuple[Array, Array, Indices]:
        """Return the middle of each split's anchors, the vector between them, and its column.

        The column is -1 if the vector has several nonzero entries.
        """
        middles, normals = self.pairs.mean(axis=1), self.pairs[:, 1] - self.pairs[:, 0]
        differ = normals != 0.0
        return middles, normals, np.where(differ.sum(axis=1) == 1, differ.argmax(axis=1), -1)

    def of(self, X: FloatArray) -> Indices:
        """Cell of each row, (n_rows,): the lowest of equally near ones.

        The search uses a matrix product in float32. If the two best anchors of a row differ by less
        than its rounding error, the search is repeated in float64 for float64 rows, and finally
        decided by the distances themselves. So the cell of a row depends neither on the other rows
        nor on the dtype. Rows with NaN or infinity belong to no cell and get -1.
        """
        cells = np.empty(len(X), np.int64)
        step = max(1, _CHUNK // len(self._anchors))
        for start in range(0, len(X), step):
            cells[start : start + step] = self._nearest(X[start : start + step], np.float32)
        if len(self.parents):
            _descend(X, cells, len(self._anchors), *self._splits, *self._planes)
        return cells

    def last_half(self, X: FloatArray) -> NDArray[np.bool_]:
        """Which rows of the cell that was split last are in its second half, (n_rows,)."""
        middles, normals, columns = self._planes
        return np.asarray(_are_above(X, middles[-1], normals[-1], columns[-1]))

    def _nearest(self, X: FloatArray, dtype: type[np.floating]) -> Indices:
        if len(self._anchors) == 1:
            return np.where(finite_rows(X), np.int64(0), np.int64(-1))
        centre, anchors, half_norms = self._tables[np.dtype(dtype).char]
        # Overflow leaves infinity or NaN, which the comparison below passes on to the distances.
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            rows = (X - centre).astype(dtype, copy=False)
            scores = inner_products(rows, anchors)
            scores -= half_norms
            cells: Indices = scores.argmax(axis=1)
            numbers = np.arange(len(X))
            best = scores[numbers, cells].astype(np.float64)
            scores[numbers, cells] = -np.inf
            gaps = best - scores.max(axis=1)
            # Twice the usual bounds on the errors of both products and of the distances.
            reach = np.sqrt(squared_norms(rows).astype(np.float64)) + self._radius
            n_terms, limits = 2 * (X.shape[1] + 5), np.finfo(dtype)
            errors = n_terms * (float(limits.eps) * self._radius * reach + float(limits.tiny))
            errors += n_terms * np.finfo(np.float64).eps * reach**2
            close = np.flatnonzero(~(gaps > errors))
            least = best - errors
        if close.size and X.dtype != dtype:
            cells[close] = self._nearest(X[close], np.float64)
        elif close.size:
            _settle(X, self._anchors, scores, least, close, cells)
        return cells


@_jit
def _settle(X, anchors, scores, least, close, cells):  # type: ignore[no-untyped-def]
    """Compare the distances of the anchors that may be nearest, from the first to the last."""
    for i in close:
        if not np.isfinite(X[i]).all():
            cells[i] = -1
            continue
        first = cells[i]
        nearest, lowest = -1, np.inf
        for j in range(len(anchors)):
            # "Not below" rather than "at least": where a score overflowed, all are compared.
            if j == first or not (scores[i, j] < least[i]):
                distance = _squared_distance(X[i], anchors[j])
                if nearest < 0 or distance < lowest:
                    nearest, lowest = j, distance
        cells[i] = nearest


@_jit
def _squared_distance(x, a):  # type: ignore[no-untyped-def]
    s = 0.0
    for k in range(len(a)):
        t = x[k] - a[k]
        s += t * t
    return s


@_jit
def _is_above(x, middle, normal, column):  # type: ignore[no-untyped-def]
    """Whether a row is on the side of a plane to which its normal points."""
    if column >= 0:
        return (x[column] - middle[column]) * normal[column] > 0.0
    # Four sums side by side, in an order that does not depend on the processor.
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = len(normal) - len(normal) % 4
    for k in range(0, whole, 4):
        s0 += (x[k] - middle[k]) * normal[k]
        s1 += (x[k + 1] - middle[k + 1]) * normal[k + 1]
        s2 += (x[k + 2] - middle[k + 2]) * normal[k + 2]
        s3 += (x[k + 3] - middle[k + 3]) * normal[k + 3]
    for k in range(whole, len(normal)):
        s0 += (x[k] - middle[k]) * normal[k]
    return (s0 + s1) + (s2 + s3) > 0.0


@_jit
def _are_above(X, middle, normal, column):  # type: ignore[no-untyped-def]
    above = np.empty(len(X), np.bool_)
    for i in range(len(X)):
        above[i] = _is_above(X[i], middle, normal, column)
    return above


@_jit
def _descend(  # type: ignore[no-untyped-def]
    X, cells, n_anchors, first, following, middles, normals, columns
):
    """Move rows of cells that were split to the second half if its anchor is nearer, in place."""
    for i in range(len(X)):
        s = first[cells[i]] if cells[i] >= 0 else -1
        while s >= 0:
            if _is_above(X[i], middles[s], normals[s], columns[s]):
                cells[i] = n_anchors + s
                s = first[cells[i]]
            else:
                s = following[s]


def finite_rows(X: FloatArray) -> NDArray[np.bool_]:
    """Which rows are finite, (n_rows,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite: NDArray[np.bool_] = np.isfinite(X.sum(axis=1))  # quicker: so is each number then
    return finite if finite.all() else np.asarray(np.isfinite(X).all(axis=1))


def rows_by_cell(cells: Indices) -> dict[int, Indices]:
    """Numbers of the rows of each cell that has any, in their order; -1 counts as a cell."""
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-2))
    return {int(cells[rows[0]]): rows for rows in np.split(order, starts[1:]) if rows.size}


def checked_cells(anchors: Any, split_cells: Any, split_anchors: Any) -> Cells:
    """Return the cells that a user's parameters define; ValueError if they are invalid."""
    points = checked_numbers("anchors", anchors, (None, None))
    if split_cells is None and split_anchors is None:
        return Cells(points)
    if split_cells is None or split_anchors is None:
        raise ValueError("`split_cells` and `split_anchors` go together, got only one of them.")
    pairs = checked_numbers("split_anchors", split_anchors, (None, 2, points.shape[1]))
    parents = checked_numbers("split_cells", split_cells, (len(pairs),))
    whole = parents == np.floor(parents)
    if not (whole & (parents >= 0) & (parents < len(points) + np.arange(len(pairs)))).all():
        raise ValueError(
            "`split_cells` must be numbers of cells that exist when they are split, 0 to "
            f"{len(points) - 1} for the first one, got {split_cells!r}."
        )
    return Cells(points, parents.astype(np.int64), pairs)


def checked_numbers(name: str, value: Any, shape: tuple[int | None, ...]) -> Array:
    """Return finite numbers of a shape as float64; None in the shape is any size above 0."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(())
    fits = numbers.ndim == len(shape) and all(
        have > 0 if want is None else have == want
        for have, want in zip(numbers.shape, shape, strict=True)
    )
    if not (fits and np.isfinite(numbers).all()):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"`{name}` must be finite numbers of the shape ({wanted}), got {value!r}.")
    return numbers


def k_means(rows: FloatArray, n_centres: int, seed: int) -> Array:
    """Return centres of clusters of rows, by Lloyd's algorithm on a sample of the rows.

    It starts from distinct rows drawn at random; a centre that loses all its rows moves to the row
    that is farthest from its own.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Finite rows, one or more. If there are more than 8000 and more than 20 per centre, the
        larger of these numbers is drawn.
    n_centres : int
        Number of centres.
    seed : int
        Source of randomness.

    Returns
    -------
    centres : ndarray of shape (n_found, n_features) of float64
        ``n_centres`` centres, or all distinct rows if there are fewer.

    References
    ----------
    S. P. Lloyd, Least squares quantization in PCM, IEEE Trans. Information Theory, 1982.
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    rows = rows[order[: max(_ROWS_AT_LEAST, _ROWS_PER_CENTRE * n_centres)]]
    firsts = np.unique(rows, axis=0, return_index=True)[1]
    centres = rows[np.sort(firsts)[:n_centres]].astype(np.float64)
    before: Indices | None = None
    for _ in range(_N_ITERATIONS):
        cells = Cells(centres).of(rows)
        if before is not None and np.array_equal(cells, before):
            break
        before = cells
        _move_to_means(centres, rows, cells)
    return centres


def _move_to_means(centres: Array, rows: FloatArray, cells: Indices) -> None:
    n, n_centres = len(rows), len(centres)
    counts = np.bincount(cells, minlength=n_centres)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        distances = squared_norms(rows - centres[cells])
        farthest = np.argsort(-distances, kind="stable")[: empty.size]
    members = sparse.csr_array((np.ones(n), cells, np.arange(n + 1)), (n, n_centres)).T
    sums = members @ rows.astype(np.float64, copy=False)
    centres[:] = sums / np.maximum(counts, 1)[:, np.newaxis]
    if empty.size:
        centres[empty] = rows[farthest]


_DIRECTIONS = 3  # directions tried for a split
_FAR_AMONG = 16  # rows among which two distant ones define a direction


def halves(
    rows: FloatArray, generator: np.random.Generator, columns: bool
) -> tuple[Array, NDArray[np.bool_]] | None:
    """Anchors of two halves of the rows, and which rows are nearer to the second; None for none."""
    for attempt in range(_DIRECTIONS if len(rows) > 1 else 0):
        if columns == (attempt == 0):
            spread = rows.std(axis=0) * generator.uniform(0.5, 1.0, rows.shape[1])
            direction = np.zeros(rows.shape[1])
            direction[int(np.argmax(spread))] = 1.0
        else:
            some = generator.choice(len(rows), min(_FAR_AMONG, len(rows)), replace=False)
            few = rows[some].astype(np.float64)
            far = np.sum((few[:, np.newaxis] - few) ** 2, axis=2)
            first, second = np.unravel_index(int(far.argmax()), far.shape)
            direction = few[first] - few[second]
            length = float(np.linalg.norm(direction))
            if not 0.0 < length < np.inf:
                continue
            direction /= length
        places = rows @ direction
        in_order = np.sort(places)
        wanted = in_order[int(generator.uniform(0.4, 0.6) * (len(rows) - 1))]
        # Between two values, so that no row is at the border.
        above = in_order[np.searchsorted(in_order, wanted, side="right") :]
        if not above.size:
            continue
        border, reach = 0.5 * (wanted + above[0]), 0.5 * (in_order[-1] - in_order[0])
        centre = rows.mean(axis=0, dtype=np.float64)
        offsets = border - centre @ direction + np.array([-reach, reach])
        pair = centre + offsets[:, np.newaxis] * direction
        upper = Cells(centre[np.newaxis], np.zeros(1, np.int64), pair[np.newaxis]).last_half(rows)
        if min(upper.sum(), (~upper).sum()) >= len(rows) / 4:
            return pair, upper
    return None
