"""Bilinear functions of two rows: a sum over pairs of points, or over pairs of random features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.expansions import Expansion, RandomFeatures
from mercer.functions.feature_blocks import blocks_of
from mercer.functions.function import Half, dense_rows, follow_slots, grown_capacity
from mercer.kernels import Kernel
from mercer.numerics.bilinear import (
    ABSORB,
    ABSORB_LESS,
    INACCURATE,
    JOINED,
    REFRESH,
    TWINS,
    BilinearState,
    add_block,
    bring_to_size,
    cholesky_inverse,
    fold,
    let_in,
    order_of_joining,
    refresh_norms,
    trusted_inverse,
)
from mercer.numerics.compression import (
    BOOKED_SHARE,
    GREEDY,
    INVERSE,
    MERGE,
    PLAIN,
    REMOVE,
    RING,
    Limits,
)
from mercer.numerics.loops import squared_tolerance
from mercer.numerics.pair_matrices import MatrixProgress, PairMatrix
from mercer.records import FLOATS, Numbers, Record
from mercer.validation import integer, positive

Array = NDArray[np.float64]

# The common factor is multiplied into the coefficients when it falls below this.
_SMALL = 1e-6


class BilinearFunction(ABC):
    """Base class of bilinear functions, with errors for what they do not support."""

    n_outputs = 1
    averaging = None
    #: Type of the numbers that compiled code takes.
    computes_in = np.float64
    keeps_previous = False
    promoted = ""
    #: Slots of points that return in later steps; random features have none.
    slots: NDArray[np.int64] = np.empty(0, np.int64)

    kernel: Kernel
    expansion: Expansion
    n_features: int
    n_steps: int
    #: Number of dictionary points or of random features.
    size: int
    scale: float
    #: The points last given to :meth:`current`, and their kernels or features.
    _last: tuple[Any, NDArray[Any]] | None = None

    @property
    @abstractmethod
    def coefficients(self) -> Array:
        """Matrix C, shape (size, size)."""

    @abstractmethod
    def current(self, points: Any) -> Array:
        """Values B(points_i, points_j), shape (n_points, n_points)."""

    @abstractmethod
    def bilinear(self, X1: Any, X2: Any) -> Array:
        """Values B(X1_i, X2_i), shape (n,)."""

    @abstractmethod
    def _multiply(self, factor: float) -> None:
        """Multiply the coefficients as they are stored."""

    def shrink(self, factor: float) -> None:
        """Multiply the function by ``factor`` in O(1)."""
        self.scale *= factor
        if self.scale < _SMALL:
            self._multiply(self.scale)
            self.scale = 1.0

    def evaluate(self, X: Any) -> NoReturn:
        """Raise an error: a bilinear function has no values at single points."""
        raise ValueError(
            "A bilinear function B(x, z) has values at pairs of points only. Use "
            "`bilinear(X1, X2)`, or a pair kernel of first order such as 'difference' for scores "
            "of single points."
        )

    def mix(self, mixing: Array) -> NoReturn:
        """Raise an error: there is only one output."""
        raise ValueError(
            "The outputs of a bilinear function cannot be mixed: it has one. Objectives that move "
            "several outputs at once need a pair kernel of first order."
        )

    def keep_previous(self) -> NoReturn:
        """Raise an error: the previous function is not kept."""
        raise ValueError(
            "A bilinear function does not keep what it was before the last step. Objectives that "
            "compare the two, such as risks, need a pair kernel of first order."
        )

    def previous(self, points: Any) -> NoReturn:
        """Raise an error, as :meth:`keep_previous` does."""
        self.keep_previous()

    def forget(self) -> None:
        """Discard what :meth:`current` remembered."""
        self._last = None

    @staticmethod
    def refuse_averaging(averaging: float | None) -> None:
        """Raise ``ValueError`` if averaged coefficients are requested."""
        if averaging is not None:
            raise ValueError(
                f"Averaged coefficients are not kept for bilinear functions, got averaging="
                f"{averaging!r}: it would double their size² numbers. Use average=None, or a pair "
                "kernel of first order."
            )


Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

# Kernel values held at once while predicting.
_CHUNK = 1 << 22
_NUMBERS = Record(
    n_steps=integer(low=0),
    n_joined=integer(low=0),
    age_of_norms=integer(low=0),
    scale=positive(),
)
_GRAM, _INVERSE = Half("n_gram", symmetric=True), Half("n_inverse", symmetric=True)
_ARRAYS = Record(
    points=Numbers("n", "n_features", dtype=FLOATS),
    ages=Numbers("n", dtype=np.int64),
    slots=Numbers("n_places", dtype=np.int64, low=-1),
    self_kernel=Numbers("n"),
    coefficients=Numbers("n", "n"),
    gram=_GRAM,
    inverse=_INVERSE,
    row_norms=Numbers("n_norms"),
    column_norms=Numbers("n_norms"),
)


class _Joining(NamedTuple):
    """New points, and the coefficients that a step adds to them and to existing points."""

    points: Array  # (n_new, n_features)
    rows: Array  # (n_new, size), kernels with the dictionary
    gram: Array  # (n_new, n_new), among themselves
    slots: Indices  # (n_changed,), points with coefficients; newcomers count from size on
    block: Array  # (n_changed, n_changed), their coefficients, in units of the scaled ones


class BilinearExpansion(BilinearFunction):
    r"""A bilinear function on a dictionary of bounded size.

    B is an operator on the RKHS; errors are in its Hilbert-Schmidt norm,
    :math:`\|B\|^2 = \mathrm{tr}(C'KCK)` with K the Gram matrix of the dictionary. Removing a point
    projects both sides of B onto the span of the others. With :math:`P = K^{-1}` the squared
    error is

    .. math:: \frac{1}{P_{jj}} \Big( c_j' K c_j + c^{j\prime} K c^j - \frac{C_{jj}^2}{P_{jj}} \Big)

    for the row :math:`c_j` and the column :math:`c^j` of C, and the squared errors of several
    removals add up. A step costs O(size²) per newcomer or removal. Memory is 3 size² numbers (C, K
    and P), 2 size² if nothing is refitted, and size² for ``Full`` without a cap.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    expansion : KOMP, Budget or Full
        How the dictionary stays small. ``Budget`` with "remove", and ``Full`` with a cap, delete
        rows and columns without refitting. The error that they report is the sum of the norms of
        the deleted parts, an upper bound if several are deleted in one step.
    n_features : int
        Number of inputs.
    dtype : dtype, default=float64
        Type of the points; all arithmetic is in float64.
    averaging : None
        Not supported.

    Attributes
    ----------
    size : int
        Model order.
    slots : ndarray of shape (n_places,) of int64
        Slot in the dictionary of each point that returns in later steps, -1 for none; see
        :meth:`add`.

    Raises
    ------
    ValueError
        For ``Budget`` with "merge", an expansion of another kind, or averaging.

    References
    ----------
    POLK, Section 3.2, for greedy removal; Ying and Zhou, Section 1, for functions on pairs.

    Examples
    --------
    >>> from mercer.expansions import KOMP
    >>> from mercer.kernels import Gaussian
    >>> B = BilinearExpansion(Gaussian(1.0), KOMP(), 1)
    >>> X = np.array([[0.0], [1.0]])
    >>> error = B.add(X, np.array([[0.0, 1.0], [-1.0, 0.0]]), 0.0)  # k(0, x) k(1, z) - ...
    >>> B.current(X).round(3)
    array([[ 0.   ,  0.632],
           [-0.632,  0.   ]])
    """

    def __init__(
        self,
        kernel: Kernel,
        expansion: Expansion,
        n_features: int,
        dtype: DTypeLike = np.float64,
        averaging: float | None = None,
    ) -> None:
        self.refuse_averaging(averaging)
        self.kind = expansion.compressor(kernel).kind
        if self.kind == MERGE:
            raise ValueError(
                "Budget(strategy='merge') does not exist for bilinear functions: a point has a row "
                "and a column of coefficients, not one to merge. Use strategy='project', or KOMP."
            )
        if self.kind not in (INVERSE, PLAIN, REMOVE, RING):
            raise ValueError(
                f"{expansion!r} does not exist for bilinear functions. Use KOMP, Full, "
                "Budget(strategy='project') or Budget(strategy='remove')."
            )
        self.kernel, self.expansion, self.n_features = kernel, expansion, n_features
        self.dtype = np.dtype(dtype)
        self.n_steps, self.scale = 0, 1.0
        self.slots = np.empty(0, np.int64)
        self.size, self.n_joined, self.age_of_norms = 0, 0, 0
        self.points: Array
        self.ages: Indices
        self.allocate(0)

    # -- the function ---------------------------------------------------------------------------

    @property
    def dictionary(self) -> Floats:
        """Points, shape (size, n_features)."""
        return self.points[: self.size].astype(self.dtype)

    @property
    def coefficients(self) -> Array:
        """Matrix C, shape (size, size)."""
        n = self.size
        return self.scale * self.arrays.coefficients[:n, :n]

    def current(self, points: Floats) -> Array:
        """Return the values of B at all pairs of some points, and remember their kernels.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            The points of one step.

        Returns
        -------
        values : ndarray of shape (n_points, n_points)
            B(points_i, points_j).
        """
        n = self.size
        rows = self.kernels(points, self.points[:n])
        self._last = (points, rows)
        values: Array = self.scale * (rows @ self.arrays.coefficients[:n, :n] @ rows.T)
        return values

    def bilinear(self, X1: Any, X2: Any) -> Array:
        """Return the values of B at pairs of points.

        Parameters
        ----------
        X1, X2 : ndarray or CSR matrix of shape (n, n_features)
            First and second points.

        Returns
        -------
        values : ndarray of shape (n,)
        """
        n, points = X1.shape[0], self.points[: self.size]
        values, coefficients = np.zeros(n), self.coefficients
        step = max(1, _CHUNK // max(self.size, self.n_features))
        for start in range(0, n if self.size else 0, step):
            rows = slice(start, start + step)
            left = self.kernel(X1[rows], points) @ coefficients
            values[rows] = np.einsum("ij,ij->i", left, self.kernel(X2[rows], points))
        return values

    def kernels(self, X: Floats, Z: Array | None = None) -> Array:
        """Return kernel values in float64, whatever the type of the points."""
        return np.asarray(self.kernel(X.astype(np.float64, copy=False), Z), dtype=np.float64)

    def rows(self, points: Floats, which: Indices) -> Array:
        """Return the kernels between some points of a step and the dictionary."""
        if self._last is not None and self._last[0] is points:
            return self._last[1][which]
        return self.kernels(points[which], self.points[: self.size])

    # -- one step -------------------------------------------------------------------------------

    def _multiply(self, factor: float) -> None:
        n = self.size
        self.arrays.coefficients[:n, :n] *= factor
        for norms in (self.arrays.row_norms, self.arrays.column_norms):
            norms[:n] *= factor**2

    def add(
        self,
        points: Floats,
        coefficients: Array,
        tolerance: float,
        before: Indices | None = None,
        after: Indices | None = None,
    ) -> float:
        r"""Add :math:`\sum_{ij} V_{ij}\, k(x_i, \cdot)\, k(x_j, \cdot)` and compress.

        Points that are already in the dictionary receive their coefficients there. Other points
        join if they have coefficients, or a place after the step.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            Points. If they are the array last given to :meth:`current`, its kernels are reused.
        coefficients : ndarray of shape (n_points, n_points)
            V.
        tolerance : float
            Error that the compression may make; negative for none. The error is larger if a cap
            forces it, and for tolerances below about 1e-4 of what the step adds.
        before, after : ndarray of shape (n_points,) of int64, default=None
            For points that return in later steps: their places, numbered by the caller, before and
            after this step; -1 for none. Points with a place after the step stay in the dictionary,
            unless they depend linearly on the others. All points with a place before the step must
            be given.

        Returns
        -------
        error : float
            Hilbert-Schmidt norm of the error of the compression.

        Raises
        ------
        ValueError
            If more points must stay than the expansion allows; nothing is changed.
        """
        none = np.full(len(points), -1, np.int64)
        before, after = (none if places is None else places for places in (before, after))
        squared = squared_tolerance(tolerance, self.scale)
        new, slots, unknown = self._meet(points, coefficients, before, after)
        self.forget()
        self.reserve(new.points.shape[0])
        booked, moved = self._join(new, squared)
        slots = np.append(moved, -1)[slots]
        for slot in slots[unknown][slots[unknown] >= 0]:
            self.n_joined += 1
            self.ages[slot] = self.n_joined  # a point that is seen again counts as new
        self.slots = np.full(int(after.max(initial=-1)) + 1, -1, np.int64)
        self.slots[after[after >= 0]] = slots[after >= 0]
        error = self._compress(booked, squared) * self.scale
        self.n_steps += 1
        self.age_of_norms += 1
        if self.age_of_norms >= max(REFRESH, self.size):
            self.refresh()
        return float(error)

    def _meet(
        self, points: Floats, coefficients: Array, before: Indices, after: Indices
    ) -> tuple[_Joining, Indices, Indices]:
        """Find the points of a step in the dictionary; parameters as in :meth:`add`.

        Returns
        -------
        new : _Joining
            The points that will join, and all coefficients.
        slots : ndarray of shape (n_points,) of int64
            Slot of each point; -1 if it needs none. Those that will join count from ``size`` on.
        unknown : ndarray of int64
            Numbers of the points that need a slot and were not known by their places.

        Raises
        ------
        ValueError
            If more points must stay than the expansion may keep.
        """
        slots = np.full(before.size, -1, np.int64)
        there = (before >= 0) & (before < self.slots.size)
        slots[there] = self.slots[before[there]]
        filled = coefficients.any(axis=0) | coefficients.any(axis=1)
        unknown = np.flatnonzero((filled | (after >= 0)) & (slots < 0))
        rows, gram = self.rows(points, unknown), self.kernels(points[unknown])
        joining: list[int] = []
        own, theirs = gram.diagonal(), self.arrays.self_kernel[: self.size]
        for p, point in enumerate(unknown):
            others = np.concatenate([theirs, own[joining]])
            distances = others + own[p] - 2.0 * np.concatenate([rows[p], gram[p, joining]])
            if distances.size:
                nearest = int(np.argmin(distances))
                if distances[nearest] <= TWINS * max(own[p], others[nearest]):
                    slots[point] = nearest
                    continue
            slots[point] = self.size + len(joining)
            joining.append(p)
        self._check_room(slots[after >= 0])
        at = np.array(joining, dtype=np.int64)
        block = coefficients[np.ix_(filled, filled)] / self.scale
        inputs = points[unknown[at]].astype(np.float64)
        rows, gram = (np.ascontiguousarray(a) for a in (rows[at], gram[np.ix_(at, at)]))
        new = _Joining(inputs, rows, gram, slots[filled], block)
        return new, slots, unknown

    def _check_room(self, held: Indices) -> None:
        n_held, limit = np.unique(held).size, self.expansion.limit()
        if n_held >= limit:
            raise ValueError(
                f"{self.expansion!r} keeps at most {limit} points, but the buffer holds {n_held} "
                "that must stay, which leaves no room for others. Keep more points, or take a "
                "smaller `buffer`."
            )

    def _join(self, new: _Joining, squared: float) -> tuple[float, Indices]:
        """Add newcomers to the dictionary, and the coefficients of a step.

        Parameters
        ----------
        new : _Joining
            The newcomers and all coefficients.
        squared : float
            Squared error that the step may make, in units of the scaled coefficients.

        Returns
        -------
        squared_error : float
            Error of projecting points that depend on the others.
        moved : ndarray of shape (size + n_new,) of int64
            New slot of each point of the dictionary and each newcomer; -1 for projected points.
        """
        n, own = self.size, new.gram.diagonal()
        sparing = self.expansion.rule == GREEDY and squared >= 0.0
        sparing = sparing and self.kind == INVERSE
        joined = np.empty(0, np.int64)
        for threshold in [self.limits().threshold] + [ABSORB_LESS] * sparing:
            joined, crowded = self._let_in(new, threshold, joined)
            left = np.setdiff1d(np.arange(own.size), joined)
            # Newcomers that did not join are numbered after all points that did.
            moved = np.concatenate([np.arange(n), np.empty(own.size, np.int64)])
            moved[n + joined] = n + np.arange(joined.size)
            moved[n + left] = self.size + np.arange(left.size)
            if not left.size:
                add_block(self.arrays, self.size, *_distinct(moved[new.slots], new.block))
                return 0.0, moved
            K, C = self._with_left(new, moved[new.slots], joined, left)
            kept = np.arange(self.size)
            inverse = self.arrays.inverse[: self.size, : self.size].copy()
            if crowded:
                kept, inverse = trusted_inverse(K, threshold)
            gone = np.setdiff1d(np.arange(len(K)), kept)
            coefficients, booked = fold(K, C, kept, gone, inverse)
            if booked <= BOOKED_SHARE * squared:
                break
        points = np.vstack([self.points[: self.size], new.points[left]])
        self.fill(kept, points, K, coefficients, inverse)
        slots = np.full(len(K), -1, np.int64)
        slots[kept] = np.arange(kept.size)
        return booked, slots[moved]

    def _let_in(self, new: _Joining, threshold: float, joined: Indices) -> tuple[Indices, bool]:
        """Let further newcomers join; return all that did, in the order of their slots.

        Also return whether others had better be removed to make room.
        """
        n = self.size - joined.size
        order = order_of_joining(self.arrays, n, new.rows, new.gram)
        mended, so_far = False, np.append(joined, np.empty(len(order) - joined.size, np.int64))
        while True:
            n_joined, status = let_in(
                self.arrays, n, new.rows, new.gram, order, threshold, so_far, self.size - n
            )
            self.points[self.size : n + n_joined] = new.points[so_far[self.size - n : n_joined]]
            self.size = n + n_joined
            if status == INACCURATE and not mended:
                mended = self.mend()
                if mended:
                    continue
            return so_far[:n_joined], status != JOINED

    def _with_left(
        self, new: _Joining, slots: Indices, joined: Indices, left: Indices
    ) -> tuple[Array, Array]:
        """Return Gram matrix and coefficients of the dictionary and the remaining newcomers."""
        n, total = self.size, self.size + left.size
        K, C = np.empty((total, total)), np.zeros((total, total))
        K[:n, :n], C[:n, :n] = self.arrays.gram[:n, :n], self.arrays.coefficients[:n, :n]
        K[n:, :n] = np.hstack([new.rows[left], new.gram[np.ix_(left, joined)]])
        K[:n, n:] = K[n:, :n].T
        K[n:, n:] = new.gram[np.ix_(left, left)]
        np.add.at(C, (slots[:, None], slots[None, :]), new.block)
        return K, C

    def _compress(self, booked: float, squared: float) -> float:
        """Remove points; return the error, in units of the scaled coefficients."""
        mended_at, threshold = -1, ABSORB_LESS
        while True:
            pinned, origin = np.zeros(self.size, np.bool_), np.arange(self.size)
            pinned[self.slots[self.slots >= 0]] = True
            size, error, accurate = bring_to_size(
                self.kind,
                self.arrays,
                self.size,
                pinned,
                origin,
                self.ages,
                booked,
                self.limits(squared),
            )
            self._follow(origin[:size])
            if accurate:
                return float(error)
            booked = error**2
            # No progress since the last refresh: some points depend on the others.
            if self.size == mended_at or not self.mend():
                booked += self._shed(threshold)
                threshold *= 10.0
            mended_at = self.size

    def finish_with_slots(self, error: float, tolerance: float) -> float:
        """End a step that the compiled loop left half done; return its total error.

        Parameters
        ----------
        error, tolerance : float
            Error of the step so far, and its tolerance.
        """
        squared = squared_tolerance(tolerance, self.scale)
        return self._compress((error / self.scale) ** 2, squared) * self.scale

    def mend(self) -> bool:
        """Recompute the inverse; return False if it still cannot be trusted."""
        n = self.size
        inverse = cholesky_inverse(self.arrays.gram[:n, :n])
        if inverse is not None:
            self.arrays.inverse[:n, :n] = inverse
        return inverse is not None

    def _shed(self, threshold: float) -> float:
        """Project points that depend on the others on their span; return the squared error."""
        n = self.size
        K, C = self.arrays.gram[:n, :n].copy(), self.arrays.coefficients[:n, :n].copy()
        kept, inverse = trusted_inverse(K, threshold)
        C, error = fold(K, C, kept, np.setdiff1d(np.arange(n), kept), inverse)
        self.fill(kept, self.points[:n].copy(), K, C, inverse)
        return float(error)

    def fill(
        self, kept: Indices, points: Array, gram: Array, coefficients: Array, inverse: Array
    ) -> None:
        """Replace the dictionary by some of the given points.

        Parameters
        ----------
        kept : ndarray of shape (n_kept,) of int64
            Indices of the points to keep; points of the dictionary are numbered first.
        points, gram : ndarray of shape (n, n_features) and (n, n)
            All points and their Gram matrix.
        coefficients, inverse : ndarray of shape (n_kept, n_kept)
            Coefficients and inverse Gram matrix of the kept points.
        """
        self._follow(kept[kept < self.size])
        m = self.size = kept.size
        self.points[:m] = points[kept]
        self.arrays.gram[:m, :m] = gram[np.ix_(kept, kept)]
        self.arrays.self_kernel[:m] = gram.diagonal()[kept]
        self.arrays.coefficients[:m, :m], self.arrays.inverse[:m, :m] = coefficients, inverse
        self.refresh()

    def _follow(self, origin: Indices) -> None:
        """Move the arrays that compiled code does not know; ``origin`` holds former slots."""
        m = origin.size
        if m < self.size:
            self.points[:m], self.ages[:m] = self.points[origin], self.ages[origin]
            self.slots = follow_slots(self.slots, origin)
            self.size = m

    def refresh(self) -> None:
        """Recompute the norms of rows and columns."""
        if self.arrays.row_norms.size:
            refresh_norms(self.arrays, self.size)
        self.age_of_norms = 0

    # -- compiled code --------------------------------------------------------------------------

    def limits(self, squared: float = 0.0) -> Limits:
        """Return the limits of a step, in the form for compiled code."""
        threshold = max(ABSORB, self.expansion.absorb) if self.kind == INVERSE else -1.0
        return Limits(float(squared), self.expansion.limit(), threshold, self.expansion.rule, 1)

    def compiled(self) -> PairMatrix:
        """Return the arrays, in the form for compiled code, which changes them."""
        return PairMatrix(self.arrays, self.points, self.ages)

    def progress(self, rows_done: int = 0) -> MatrixProgress:
        """Return the progress of the function, in the form for compiled code."""
        return MatrixProgress(
            self.size, self.scale, self.n_steps, self.n_joined, self.age_of_norms, rows_done
        )

    def resume(self, done: tuple[int, float, int, int, int, int], slots: Indices) -> None:
        """Apply the changes that compiled code made, and the slots that it followed."""
        self.size, self.scale, self.n_steps, self.n_joined, self.age_of_norms, _ = done
        self.slots = slots
        self.forget()

    # -- storage --------------------------------------------------------------------------------

    def keeps(self, name: str) -> bool:
        """Whether the compression needs an array of :class:`BilinearState`."""
        needed = {"gram": (INVERSE, RING, REMOVE), "inverse": (INVERSE,)}
        needed["row_norms"] = needed["column_norms"] = (INVERSE, REMOVE)
        return self.kind in needed.get(name, (self.kind,))

    def allocate(self, capacity: int) -> None:
        """Allocate new arrays and copy the points in use."""
        old = getattr(self, "arrays", None)
        shapes = {"coefficients": 2, "gram": 2, "inverse": 2}
        self.arrays = BilinearState(
            *(
                np.zeros((capacity if self.keeps(name) else 0,) * shapes.get(name, 1))
                for name in BilinearState._fields
            )
        )
        points, ages = np.zeros((capacity, self.n_features)), np.zeros(capacity, np.int64)
        n = self.size
        if old is not None:
            points[:n], ages[:n] = self.points[:n], self.ages[:n]
            for new, was in zip(self.arrays, old, strict=True):
                new[(slice(n),) * new.ndim] = was[(slice(n),) * was.ndim]
        self.points, self.ages = points, ages

    def reserve(self, n_new: int) -> None:
        """Make room for more points."""
        needed, capacity = self.size + n_new, self.points.shape[0]
        if needed > capacity:
            # A capped expansion never needs more than its cap and one step.
            self.allocate(grown_capacity(capacity, needed, self.expansion.limit() + n_new))

    def snapshot(self, *, packed: bool = True) -> dict[str, Any]:
        """Return copies of everything that a step changes; for :meth:`restore`.

        Parameters
        ----------
        packed : bool, default=True
            Keep only one triangle of symmetric matrices, for files. Slower than a copy.
        """
        n = self.size
        used = {name: a[(slice(n),) * a.ndim] for name, a in self.arrays._asdict().items()}
        values = {**vars(self), **used, "points": self.dictionary, "ages": self.ages[:n]}
        values["gram"] = _GRAM.of(used["gram"], packed=packed)
        values["inverse"] = _INVERSE.of(used["inverse"], packed=packed)
        return {"numbers": _NUMBERS.written_of(values), "arrays": _ARRAYS.written_of(values)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`snapshot`, bit for bit.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """
        numbers = _NUMBERS.read(state["numbers"], {})
        arrays = _ARRAYS.read(state["arrays"], {"n_features": self.n_features})
        points, ages, slots = (arrays.pop(name) for name in ("points", "ages", "slots"))
        n, limit = len(points), self.expansion.limit()
        fits = (
            n <= limit
            and slots.max(initial=-1) < n  # compiled code trusts these
            and np.unique(slots[slots >= 0]).size < limit
            # Arrays that the expansion does not need are empty.
            and all(len(array) == n * self.keeps(name) for name, array in arrays.items())
        )
        if not fits:
            raise ValueError("The arrays of the bilinear expansion do not fit together.")
        self.dtype = points.dtype
        self.points, self.ages, self.slots = points.astype(np.float64), ages, slots
        self.arrays, self.size = BilinearState(**arrays), n
        vars(self).update(numbers)
        self.forget()


def _distinct(slots: Indices, block: Array) -> tuple[Indices, Array]:
    """Add up coefficients of equal slots."""
    unique, where = np.unique(slots, return_inverse=True)
    if unique.size == slots.size:
        return slots, block
    total = np.zeros((unique.size, unique.size))
    np.add.at(total, (where[:, None], where[None, :]), block)
    return unique, total


# Number of blocks if the expansion leaves it open.
_N_BLOCKS = 2
# Rows evaluated at once.
_ROWS_AT_ONCE = 4096


_FEATURE_NUMBERS = Record(scale=positive(), n_steps=integer(low=0))
_FEATURE_ARRAYS = Record(_coefficients=Numbers("n", "n", dtype=FLOATS))


class BilinearFeatures(BilinearFunction):
    r"""A bilinear function on a fixed number D of random features.

    The features are the blocks 0, 1, ... of :class:`FeatureExpansion`, scaled so that their inner
    products equal the kernel on average. They are never stored; C takes D² numbers. Every step is a
    plain gradient step in C: there is no compression and no error.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    expansion : RandomFeatures
        D is ``block_size`` times ``max_blocks`` (2 if that is None). ``mode`` has no effect here;
        ``growth`` and ``ridge`` must keep their defaults.
    n_features : int
        Number of inputs.
    averaging : None
        Not supported.

    Raises
    ------
    ValueError
        For ``growth`` or ``ridge``, a block size of "auto", averaging, or a kernel without
        random features.

    References
    ----------
    DSG, Section 2, for the features; Ying and Zhou, Section 1, for functions on pairs.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> B = BilinearFeatures(Gaussian(1.0), RandomFeatures(block_size=2048), 1)
    >>> X = np.array([[0.0], [1.0]])
    >>> error = B.add(X, np.array([[0.0, 1.0], [-1.0, 0.0]]), 0.0)  # k(0, x) k(1, z) - ...
    >>> B.bilinear(X, X[::-1]).round(1)
    array([ 0.6, -0.6])
    """

    def __init__(
        self,
        kernel: Kernel,
        expansion: RandomFeatures,
        n_features: int,
        averaging: float | None = None,
    ) -> None:
        self.refuse_averaging(averaging)
        if expansion.growth not in ("auto", "fixed") or expansion.ridge != "auto":
            raise ValueError(
                "A bilinear function has a fixed number of random features and makes plain "
                f"gradient steps, got growth={expansion.growth!r} and ridge={expansion.ridge!r}. "
                "Leave both at 'auto'; RandomFeatures(mode='cyclic', max_blocks=...) sets the "
                "number of blocks."
            )
        self.kernel, self.expansion, self.n_features = kernel, expansion, n_features
        self._blocks = blocks_of(expansion, kernel, n_features)
        self.n_blocks = int(expansion.max_blocks or _N_BLOCKS)
        self.n_steps, self.scale = 0, 1.0
        self.size = self.n_blocks * self._blocks.block_size
        self._coefficients = np.zeros((self.size, self.size), self.dtype)

    # -- the function ---------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of features and coefficients."""
        return self._blocks.dtype

    @property
    def coefficients(self) -> Array:
        """Matrix C, shape (size, size)."""
        return self.scale * self._coefficients.astype(np.float64)

    def random_features(self, X: Any) -> Floats:
        """Return random features of rows: B(x, z) = random_features(x) C random_features(z)'.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Rows.

        Returns
        -------
        Z : ndarray of shape (n, size)
            With E[Z Z'] = kernel(X).

        Raises
        ------
        ValueError
            If a value exceeds the range of the type, or a row is outside the kernel's domain.
        """
        rows = dense_rows(X, self.dtype, self.expansion.precision)
        Z: Floats = self._blocks.of_first(self.n_blocks, self._blocks.prepare(rows))
        Z /= self.dtype.type(np.sqrt(self.n_blocks))
        return Z

    def current(self, points: Floats) -> Array:
        """Return the values of B at all pairs of some points, and remember their features.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            The points of one step.

        Returns
        -------
        values : ndarray of shape (n_points, n_points)
            B(points_i, points_j).
        """
        Z = self.random_features(points)
        self._last = (points, Z)
        return self.scale * (Z @ self._coefficients @ Z.T).astype(np.float64)

    def bilinear(self, X1: Any, X2: Any) -> Array:
        """Return the values of B at pairs of points.

        Parameters
        ----------
        X1, X2 : ndarray or CSR matrix of shape (n, n_features)
            First and second points.

        Returns
        -------
        values : ndarray of shape (n,)
        """
        values = np.zeros(X1.shape[0])
        for start in range(0, values.size, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            left = self.random_features(X1[rows]) @ self._coefficients
            values[rows] = np.einsum("ij,ij->i", left, self.random_features(X2[rows]))
        return self.scale * values

    # -- one step -------------------------------------------------------------------------------

    def _multiply(self, factor: float) -> None:
        self._coefficients *= self.dtype.type(factor)

    def add(
        self,
        points: Floats,
        coefficients: Array,
        tolerance: float,
        before: Indices | None = None,
        after: Indices | None = None,
    ) -> float:
        r"""Add :math:`\sum_{ij} V_{ij}\, k(x_i, \cdot)\, k(x_j, \cdot)`.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            Points. If they are the array last given to :meth:`current`, its features are reused.
        coefficients : ndarray of shape (n_points, n_points)
            V.
        tolerance, before, after
            Not used, since nothing is compressed.

        Returns
        -------
        error : float
            0.
        """
        rows, columns = coefficients.any(axis=1), coefficients.any(axis=0)
        if self._last is not None and self._last[0] is points:
            Z = self._last[1]
        else:
            Z = self.random_features(points)
        self._last = None
        block = (coefficients[np.ix_(rows, columns)] / self.scale).astype(self.dtype)
        if block.size:
            self._coefficients += Z[rows].T @ (block @ Z[columns])
        self.n_steps += 1
        return 0.0

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self, *, packed: bool = True) -> dict[str, Any]:
        """Return copies of everything that a step changes; for :meth:`restore`.

        Parameters
        ----------
        packed : bool, default=True
            Has no effect: C need not be symmetric.
        """
        return {"numbers": _FEATURE_NUMBERS.written(self), "arrays": _FEATURE_ARRAYS.written(self)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`snapshot`, bit for bit.

        Raises
        ------
        ValueError
            If the arrays do not fit.
        """
        numbers = _FEATURE_NUMBERS.read(state["numbers"], {})
        arrays = _FEATURE_ARRAYS.read(state["arrays"], {"n": self.size})
        if arrays["_coefficients"].dtype != self.dtype:
            raise ValueError("The coefficients of the random features do not fit the function.")
        vars(self).update(numbers | arrays)
        self.forget()
