"""Kernels that are local: zero between rows of different cells of the input space.

A cell is the region nearest to one of some anchors, which k-means places, or a half of such a cell.
Rows are C-contiguous, float32 or float64; anchors are float64.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer.component import own_copy
from mercer.features import FeatureMap, FeatureOptions
from mercer.jit import jit
from mercer.kernels.kernel import FloatArray, Kernel, inner_products, squared_norms
from mercer.kernels.names import as_kernel
from mercer.kernels.stationary import Gaussian, _Stationary
from mercer.threads import own_property
from mercer.validation import check_integer, check_real

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_CHUNK = 2**18  # scores computed at a time, so that they stay in cache

# Rounds of k-means and rows per centre, and both if there are more centres than the third number:
# where each of them lies matters less, and a round takes as long as it has rows times centres.
_ROUNDS, _ROWS_PER_CENTRE, _MANY_CENTRES = 8, 20, 100
_ROUNDS_OF_MANY, _ROWS_OF_MANY = 4, 10
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

    @own_property
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

    @own_property
    def _splits(self) -> tuple[Indices, Indices]:
        """First split of each cell, and after each split the next of the same cell; -1 for none."""
        first, following = np.full(len(self), -1), np.full(len(self.parents), -1)
        for s in range(len(self.parents) - 1, -1, -1):
            cell = self.parents[s]
            following[s], first[cell] = first[cell], s
        return first, following

    @own_property
    def _planes(self) -> tuple[Array, Array, Indices]:
        """Return the middle of each split's anchors, the vector between them, and its column.

        The column is -1 if the vector has several nonzero entries.
        """
        return _planes_between(self.pairs)

    def of(self, X: FloatArray) -> Indices:
        """Cell of each row, (n_rows,): the lowest of equally near ones.

        The search uses a matrix product in float32. If the two best anchors of a row differ by less
        than its rounding error, the search is repeated in float64 for float64 rows, and finally
        decided by the distances themselves. So the cell of a row depends neither on the other rows
        nor on the dtype. Rows with NaN or infinity belong to no cell and get -1.
        """
        cells = np.empty(len(X), np.int64)
        if len(self._anchors) == 1:
            _only(X, cells)
        else:
            step = max(1, _CHUNK // len(self._anchors))
            for start in range(0, len(X), step):
                cells[start : start + step] = self._nearest(X[start : start + step], np.float32)
        if len(self.parents):
            _descend(X, cells, len(self._anchors), *self._splits, *self._planes)
        return cells

    def last_half(self, X: FloatArray) -> NDArray[np.bool_]:
        """Which rows of the cell that was split last are in its second half, (n_rows,)."""
        return _in_second_half(X, self.pairs[-1:])

    def _nearest(self, X: FloatArray, dtype: type[np.floating]) -> Indices:
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


def _planes_between(pairs: Array) -> tuple[Array, Array, Indices]:
    """Return the middle of each pair, the vector between both, and its column; -1 for several."""
    middles, normals = pairs.mean(axis=1), pairs[:, 1] - pairs[:, 0]
    differ = normals != 0.0
    return middles, normals, np.where(differ.sum(axis=1) == 1, differ.argmax(axis=1), -1)


def _in_second_half(X: FloatArray, pair: Array) -> NDArray[np.bool_]:
    """Which rows are nearer to the second anchor of a pair, (1, 2, n_features)."""
    (middle,), (normal,), (column,) = _planes_between(pair)
    return np.asarray(_are_above(X, middle, normal, column))


@_jit
def _only(X, cells):  # type: ignore[no-untyped-def]
    """Put finite rows into cell 0, the others into none."""
    for i in range(len(X)):
        cells[i] = 0
        for k in range(X.shape[1]):
            if not np.isfinite(X[i, k]):
                cells[i] = -1


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
        Finite rows, one or more. If there are more than 8000 and more than 20 per centre (10 of
        more than 100 centres), the larger of these numbers is drawn.
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
    many = n_centres > _MANY_CENTRES
    per_centre = _ROWS_OF_MANY if many else _ROWS_PER_CENTRE
    rows = rows[order[: max(_ROWS_AT_LEAST, per_centre * n_centres)]]
    firsts = np.unique(rows, axis=0, return_index=True)[1]
    centres = rows[np.sort(firsts)[:n_centres]].astype(np.float64)
    before: Indices | None = None
    for _ in range(_ROUNDS_OF_MANY if many else _ROUNDS):
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
            column = int(np.argmax(spread))
            direction[column] = 1.0
            places = rows[:, column].astype(np.float64)
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
        upper = _in_second_half(rows, pair[np.newaxis])
        if min(upper.sum(), (~upper).sum()) >= len(rows) / 4:
            return pair, upper
    return None


_ROWS_OF_A_CELL = 256  # the median of their distances is good to a few per cent


def _with_unit_lengths(kernel: Kernel) -> Kernel:
    """Return a copy of a kernel in which length scales that are not yet numbers are 1."""
    units = {
        name: 1.0
        for name, value in kernel.get_params().items()
        if name.split("__")[-1] == "length_scale" and isinstance(value, str)
    }
    return own_copy(kernel).set_params(**units)


def _stretching(kernel: Kernel, factors: Array) -> Callable[[int], Kernel]:
    """Return the function from i to the kernel with all its length scales times ``factors[i]``.

    Each of its calls may change the kernel that the one before returned.
    """
    if (factors == 1).all():
        return lambda i: kernel
    copy = own_copy(kernel)
    parts = [part for part in (copy, *copy.get_params().values()) if isinstance(part, Kernel)]
    lengths = [(part, part.get_params(deep=False).get("length_scale")) for part in parts]

    def stretched(i: int) -> Kernel:
        for part, length in lengths:
            if length is not None:
                part.set_params(length_scale=length * float(factors[i]))
        return copy

    return stretched


def _median_distance(kernel: Kernel, rows: FloatArray, seed: int = 0) -> float:
    """Median distance of at most 1000 rows, or the one to expect if they are all the same.

    Distances are the kernel's own if it is stationary, otherwise Euclidean.
    """
    stationary = isinstance(kernel, _Stationary)
    metric = own_copy(kernel).set_params(length_scale="median") if stationary else Gaussian()
    return float(metric.resolve(rows, seed).get_params()["length_scale"])


def _median_distances(
    kernel: Kernel, rows: FloatArray, groups: dict[int, Indices], usual: Array
) -> Array:
    """Median distance in each group of rows, ``usual`` where it has no two distinct rows.

    ``groups`` maps a group's number to the indices of its rows; at most 256 of them are used.
    """
    medians = usual.copy()
    for group, members in groups.items():
        few = rows[members[:: -(-len(members) // _ROWS_OF_A_CELL)]]
        if (few != few[0]).any():
            medians[group] = _median_distance(kernel, few)
    return medians


class Partitioned(Kernel):
    r"""A kernel in each cell of a partition of the input space, and zero between cells.

    .. math:: k(x, x') = 1[c(x) = c(x')] \, (k_c(x, x') + \text{constant}),

    where the cell :math:`c(x)` is the number of the anchor nearest to x. Rows of different cells do
    not influence each other: a function of S cells is S independent ones, each with its own length
    scale, for data that are denser or wilder in some places than in others. Sorted by cells the
    kernel matrix is block diagonal, so it is positive semi-definite for every base kernel.

    In the cell c, :math:`k_c` is the base kernel with its length scales multiplied by
    ``length_scales[c]``; kernels without any, such as ``Linear``, are the same in every cell.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="gaussian"
        The base kernel, as for :func:`as_kernel`, except that a length scale that is not yet a
        number becomes 1, because each cell has its own.
    anchors : int or array-like of shape (n_anchors, n_features), default=32
        The anchors, in units of the features; or how many of them k-means places on the rows given
        to :meth:`resolve` or :meth:`fitted`: fewer if there are fewer distinct rows.
    multiple : float, default=0.5
        For length scales that come from data: length scale of a cell, divided by the median
        distance of its rows. Distances are those of the base kernel if it is stationary, otherwise
        Euclidean.
    constant : float, default=1.0
        Added to the kernel inside every cell, which gives the function an offset in each cell.
    length_scales : array-like of shape (n_cells,) or None, default=None
        Factors of the base kernel's length scales, one for each cell; None takes them from data. A
        cell without two distinct rows gets ``multiple`` times the median distance of all rows.
    split_cells : array-like of int of shape (n_splits,) or None, default=None
        Cells that were split later, in order; see :meth:`split`.
    split_anchors : array-like of shape (n_splits, 2, n_features) or None, default=None
        Anchors of the two halves of each split.
    seed : int, default=0
        Seed of k-means.

    Raises
    ------
    ValueError
        If a parameter is outside its range, the shapes do not fit, or numbers of cells are given
        whose anchors are not.

    Notes
    -----
    :meth:`resolve` uses at most 1000 rows, enough for some thirty cells; for more cells, call
    :meth:`fitted` with more rows. To map the inputs, wrap the partition: in
    ``Mapped(Partitioned(...), map)`` anchors and length scales refer to mapped rows. An average of
    partitions, which smooths the jumps at the borders, is a kernel as well: ``0.5 *
    (Partitioned(seed=0) + Partitioned(seed=1))``.

    Examples
    --------
    >>> from mercer.kernels import Partitioned
    >>> kernel = Partitioned(anchors=[[0.0], [10.0]], length_scales=[1.0, 2.0], constant=0.5)
    >>> kernel.cells([[1.0], [9.0], [11.0]])
    array([0, 1, 1])
    >>> kernel([[1.0], [9.0], [11.0]])
    array([[1.5       , 0.        , 0.        ],
           [0.        , 1.5       , 1.10653066],
           [0.        , 1.10653066, 1.5       ]])
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        anchors: Any = 32,
        multiple: float = 0.5,
        constant: float = 1.0,
        length_scales: Any = None,
        split_cells: Any = None,
        split_anchors: Any = None,
        seed: int = 0,
    ) -> None:
        self.kernel = kernel
        self.anchors = anchors
        self.multiple = multiple
        self.constant = constant
        self.length_scales = length_scales
        self.split_cells = split_cells
        self.split_anchors = split_anchors
        self.seed = seed
        self._check()

    def _check(self) -> None:
        if not isinstance(self.kernel, Kernel):
            as_kernel(self.kernel)
        check_real("multiple", self.multiple, low=0, open_low=True)
        why = "A negative constant leaves no positive definite kernel."
        check_real("constant", self.constant, low=0, why=why)
        check_integer("seed", self.seed, low=0)
        self._partition: Cells | None = None
        if np.ndim(self.anchors) == 0:
            check_integer("anchors", self.anchors, low=1, why="Or give the anchors themselves.")
            for name in ("length_scales", "split_cells", "split_anchors"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"`{name}` needs `anchors` that are points, got anchors={self.anchors!r}, "
                        "a number of cells yet to be found. Leave it out, or give the anchors."
                    )
            return
        self._partition = checked_cells(self.anchors, self.split_cells, self.split_anchors)
        if self.length_scales is not None and not (self._own_lengths > 0).all():
            raise ValueError(f"`length_scales` must be above 0, got {self._own_lengths.min():g}.")

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.anchors) if self._partition is None else len(self._partition)

    @property
    def n_features(self) -> int:
        """Dimension of the space that is partitioned."""
        return self._known_cells().n_features

    @property
    def centres(self) -> Array:
        """Anchor of each cell, after all splits, as a new array."""
        return self._known_cells().centres.copy()

    @classmethod
    def fitted(
        cls,
        X: ArrayLike,
        anchors: Any = 32,
        *,
        kernel: Any = "gaussian",
        multiple: float = 0.5,
        constant: float = 1.0,
        seed: int = 0,
    ) -> Self:
        """Return the kernel with all numbers taken from all given rows, without a limit of 1000.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Typical points; float32 takes less time. If there are more than 8000 and more than 20
            per cell, k-means uses a sample of the larger of these sizes.
        anchors, kernel, multiple, constant, seed
            As for the class.

        Returns
        -------
        kernel : Partitioned
            The kernel, resolved. Each of its cells has one of the rows at least.

        Raises
        ------
        ValueError
            If there are no rows, or a row is not finite.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> Partitioned.fitted([[0.0], [2.0], [50.0], [54.0]], anchors=2)
        Partitioned(anchors=array([[52.],
               [ 1.]]),
                    kernel=Gaussian(length_scale=1.0), length_scales=array([2., 1.]))
        """
        plain = cls(kernel, anchors, multiple, constant, seed=seed)
        rows = plain._finite(X)
        return cls(**{**plain.get_params(deep=False), **plain._fill(rows)})

    @classmethod
    def balanced(
        cls,
        X: ArrayLike,
        n_cells: int,
        *,
        kernel: Any = "gaussian",
        constant: float = 1.0,
        columns: bool = True,
        seed: int = 0,
    ) -> Self:
        """Kernel whose cells have nearly as many rows each: a tree of splits near the median.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Points typical of those to come; float32 takes less time.
        n_cells : int
            How many cells; fewer where rows are equal.
        kernel : Kernel, str or callable, default="gaussian"
            As for the class; all cells have its length scale, or 1 if that is not yet a number.
        constant : float, default=1.0
            As for the class.
        columns : bool, default=True
            Whether to split along columns if possible; otherwise splits are along the line between
            two distant rows.
        seed : int, default=0
            Seed for columns, rows and the positions of splits near the median.

        Returns
        -------
        kernel : Partitioned
            The kernel, resolved.

        Raises
        ------
        ValueError
            If there are no rows, or a row is not finite.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> kernel = Partitioned.balanced([[0.0], [1.0], [3.0], [50.0]], 2)
        >>> kernel.cells([[0.0], [1.0], [3.0], [50.0]])
        array([0, 0, 1, 1])
        """
        check_integer("n_cells", n_cells, low=1)
        rows = cls(kernel, 1)._finite(X)
        if not len(rows):
            raise ValueError("`X` must have a row at least: cells are placed where rows are.")
        generator = np.random.default_rng(seed)
        leaves = [np.arange(len(rows))]
        parents, pairs = [], []
        largest = [(-len(rows), 0)]
        while len(leaves) < n_cells and largest:
            c = heapq.heappop(largest)[1]
            found = halves(rows[leaves[c]], generator, columns)
            if found is None:
                continue
            pair, second = found
            parents.append(c)
            pairs.append(pair)
            leaves.append(leaves[c][second])
            leaves[c] = leaves[c][~second]
            for half in (c, len(leaves) - 1):
                heapq.heappush(largest, (-len(leaves[half]), half))
        return cls(
            _with_unit_lengths(kernel if isinstance(kernel, Kernel) else as_kernel(kernel)),
            rows.mean(axis=0, dtype=np.float64)[np.newaxis],
            constant=constant,
            length_scales=np.ones(len(leaves)),
            split_cells=np.array(parents, dtype=np.int64) if parents else None,
            split_anchors=np.array(pairs) if parents else None,
            seed=seed,
        )

    def cells(self, X: ArrayLike) -> Indices:
        """Cell of each row: the nearest anchor, the first of equally near ones.

        A row's cell does not depend on the other rows, nor on whether they are float32 or float64.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Points; float32 takes less time.

        Returns
        -------
        cells : ndarray of shape (n_rows,) of int64
            Numbers from 0 to n_cells - 1; -1 for rows with NaN or infinity, which are nowhere.

        Raises
        ------
        ValueError
            If the number of features differs from that of the anchors, or there are no anchors yet.
        """
        return self._cells(self._points(X, "X"))

    def inside(self, cell: int) -> Partitioned:
        """Kernel of one cell, everywhere: its base kernel and the constant, without the partition.

        Parameters
        ----------
        cell : int
            Number of the cell.

        Returns
        -------
        kernel : Partitioned
            A kernel of a single cell, which is all of space; its ``kernel`` has the length scale of
            the cell.

        Raises
        ------
        ValueError
            If the cell does not exist, or a number of the kernel must still come from data.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> kernel = Partitioned(anchors=[[0.0], [10.0]], length_scales=[1.0, 2.0])
        >>> kernel.inside(1).kernel
        Gaussian(length_scale=2.0)
        """
        self._require_resolved()
        c = check_integer("cell", cell, low=0, high=self.n_cells - 1)
        base = own_copy(_stretching(self._base, self._own_lengths)(c))
        centre = self._known_cells().centre(c)[np.newaxis]
        return type(self)(base, centre, self.multiple, self.constant, np.ones(1))

    @property
    def cell_kernels(self) -> list[Kernel]:
        """The ``kernel`` :meth:`inside` each cell; cells with one length scale share one."""
        self._require_resolved()
        stretched = _stretching(self._base, self._own_lengths)
        lengths, places = np.unique(self._own_lengths, return_index=True)
        kernels = [own_copy(stretched(place)) for place in places]
        return [kernels[at] for at in np.searchsorted(lengths, self._own_lengths)]

    def split(self, cell: int, X: ArrayLike, seed: int = 0, *, check: bool = True) -> Self:
        """Kernel with one cell divided into two; no row of the others moves.

        The cell is split near the median of a column in which its rows vary much, or along the line
        between two distant rows. The second half becomes the last cell, the first half keeps the
        number, and both keep the length scale.

        Parameters
        ----------
        cell : int
            Number of the cell.
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Rows of this cell.
        seed : int, default=0
            Seed for the column, the rows and the position of the split near the median.
        check : bool, default=True
            Whether to look if they are finite rows of this cell, which takes longer than the rest;
            False if that is known.

        Returns
        -------
        kernel : Partitioned
            A copy of the kernel with one more cell.

        Raises
        ------
        ValueError
            If a row is not finite or belongs to another cell, or if no split leaves a quarter of
            the rows in each half, for example because most are equal.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> kernel = Partitioned(anchors=[[0.0], [10.0]], length_scales=[1.0, 2.0])
        >>> kernel.split(0, [[0.0], [1.0], [4.0], [4.5]]).cells([[0.0], [4.0], [10.0]])
        array([0, 2, 1])
        """
        self._require_resolved()
        c = check_integer("cell", cell, low=0, high=self.n_cells - 1)
        rows = self._finite(X) if check else self._points(X, "X")
        self._check_width(rows)
        if check and not (own := self._cells(rows) == c).all():
            raise ValueError(
                f"`X` must be rows of cell {c}, got {(~own).sum()} of {len(rows)} rows that are of "
                "other cells. Use X[kernel.cells(X) == cell]."
            )
        found = halves(rows, np.random.default_rng(seed), columns=True)
        if found is None:
            raise ValueError(
                f"Cell {c} cannot be split: nothing divides its {len(rows)} rows into halves of a "
                "quarter of them at least. Give more rows that differ."
            )
        before = self._known_cells()
        changes = {
            "length_scales": np.append(self._own_lengths, self._own_lengths[c]),
            "split_cells": np.append(before.parents, c),
            "split_anchors": np.append(before.pairs, found[0][None], axis=0),
        }
        return type(self)(**{**self.get_params(deep=False), **changes})

    def last_half(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Which rows of the cell that was split last are in its second half, the last cell.

        For these rows the result equals that of :meth:`cells`, and takes less time.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Rows of the cell before it was split.

        Returns
        -------
        last : ndarray of shape (n_rows,) of bool

        Raises
        ------
        ValueError
            If no cell was split, or the number of features differs from that of the anchors.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> kernel = Partitioned(anchors=[[0.0], [10.0]], length_scales=[1.0, 2.0])
        >>> kernel.split(0, [[0.0], [1.0], [4.0], [4.5]]).last_half([[0.0], [4.0]])
        array([False,  True])
        """
        cells = self._known_cells()
        if not len(cells.parents):
            raise ValueError("No cell was split: only halves of a cell are told apart here.")
        rows: FloatArray = self._points(X, "X")
        self._check_width(rows)
        return cells.last_half(rows) & finite_rows(rows)

    def refined(self, inner: Sequence[Partitioned]) -> Self:
        """Return a kernel whose cells are split by other partitions, one partition per cell.

        The first cell of each partition keeps the number of the cell that it divides; the others
        follow, one partition after the other. Their length scales are multiplied by the cell's
        length scale.

        Parameters
        ----------
        inner : sequence of Partitioned
            What divides each cell: of a single anchor, split or not.

        Returns
        -------
        kernel : Partitioned
            A kernel of all their cells; none of these changes.

        Raises
        ------
        ValueError
            If their number differs from the number of cells, or one has several anchors.

        Examples
        --------
        >>> from mercer.kernels import Partitioned
        >>> whole = Partitioned.balanced([[0.0], [1.0], [3.0], [50.0]], 2)
        >>> left, right = Partitioned.balanced([[0.0], [1.0]], 2), Partitioned.balanced([[3.0]], 1)
        >>> whole.refined([left, right]).cells([[0.0], [1.0], [3.0], [50.0]])
        array([0, 2, 1, 1])
        """
        self._require_resolved()
        before, divided = self._known_cells(), [each._known_cells() for each in inner]
        if len(divided) != len(before) or any(len(cells._anchors) > 1 for cells in divided):
            raise ValueError(
                f"`inner` must have a partition with one anchor for each of {len(before)} cells, "
                f"got {[len(cells._anchors) for cells in divided][:10]} anchors. Make them by "
                "Partitioned.balanced from the rows of each cell."
            )
        parents, firsts = [before.parents], len(before)
        for number, cells in enumerate(divided):
            own = cells.parents
            parents.append(np.where(own == 0, number, firsts + own - 1))
            firsts += len(cells) - 1
        lengths = [
            length * each._own_lengths
            for length, each in zip(self._own_lengths, inner, strict=True)
        ]
        changes = {
            "length_scales": np.concatenate(
                [[own[0] for own in lengths], *(o[1:] for o in lengths)]
            ),
            "split_cells": np.concatenate(parents),
            "split_anchors": np.concatenate([before.pairs, *(cells.pairs for cells in divided)]),
        }
        if not changes["split_cells"].size:
            return self
        return type(self)(**{**self.get_params(deep=False), **changes})

    # Numbers from data.

    def _missing(self) -> tuple[str, ...]:
        kernel = () if self._base.is_resolved else ("kernel",)
        anchors = () if self._partition is not None else ("anchors",)
        return kernel + anchors + (() if self.length_scales is not None else ("length_scales",))

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        base = self._base.resolve(rows, self.seed)
        filled: dict[str, Any] = {"kernel": base}
        cells = self._partition
        if cells is None:
            if not len(rows):
                raise ValueError("`X` must have a row at least: anchors are placed where rows are.")
            cells = Cells(k_means(rows, int(self.anchors), self.seed))
            # The last move of the others may have left an anchor without rows.
            cells = Cells(cells.centres[sorted(rows_by_cell(cells.of(rows)))])
            filled["anchors"] = cells.centres
        if self.length_scales is None:
            usual = np.full(len(cells), _median_distance(base, rows, self.seed))
            medians = _median_distances(base, rows, rows_by_cell(cells.of(rows)), usual)
            filled["length_scales"] = self.multiple * medians
        return filled

    # The base kernel and its cells.

    @property
    def _base(self) -> Kernel:
        """The base kernel, with unit length where it has none."""
        if isinstance(self.kernel, Kernel) and self.kernel.is_resolved:
            return self.kernel
        return _with_unit_lengths(as_kernel(self.kernel))

    @property
    def _own_lengths(self) -> Array:
        return checked_numbers("length_scales", self.length_scales, (self.n_cells,))

    def _known_cells(self) -> Cells:
        if self._partition is None:
            self._require_resolved()
        assert self._partition is not None  # or numbers would be missing
        return self._partition

    def _cells(self, rows: FloatArray) -> Indices:
        self._check_width(rows)
        return self._known_cells().of(rows)

    def _check_width(self, rows: FloatArray) -> None:
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"The anchors have {self.n_features} features, got rows of {rows.shape[1]}. Use "
                "rows of the space that is partitioned."
            )

    def _finite(self, X: ArrayLike) -> FloatArray:
        rows: FloatArray = self._points(X, "X")
        if not np.isfinite(rows).all():
            raise ValueError(
                "`X` must be finite, got NaN or infinity: such rows have no cell. Drop them."
            )
        return rows

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        stretched = _stretching(self._base, self._own_lengths)
        if self.n_cells == 1:
            whole = stretched(0)(X, Z)
            whole += float(self.constant)
            return whole
        of_x = rows_by_cell(self._cells(X))
        of_z = of_x if Z is X else rows_by_cell(self._cells(Z))
        K = np.zeros((len(X), len(Z)), dtype=X.dtype)
        for cell in of_x.keys() & of_z.keys() - {-1}:
            i, j = of_x[cell], of_z[cell]
            rows = X[i]
            block = stretched(cell)(rows, rows if Z is X else Z[j])
            K[np.ix_(i, j)] = block + X.dtype.type(self.constant)
        # Rows with NaN belong to no cell, but their values must be NaN.
        K[of_x.get(-1, [])] = np.nan
        K[:, of_z.get(-1, [])] = np.nan
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        values = np.full(len(X), np.nan, dtype=X.dtype)
        stretched = _stretching(self._base, self._own_lengths)
        for cell, i in rows_by_cell(self._cells(X)).items():
            if cell >= 0:
                values[i] = stretched(cell).diag(X[i]) + float(self.constant)
        return values

    @property
    def bound(self) -> float | None:
        """Bound of the base kernel plus the constant; None if it has none."""
        inner = self._base.bound
        return None if inner is None else inner + float(self.constant)

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        raise ValueError(
            f"Partitioned has no random features: each of its {self.n_cells} cells would need its "
            "own. Use an expansion on rows, such as KOMP."
        )
