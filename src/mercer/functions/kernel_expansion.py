r"""Functions :math:`f(x) = \sum_i w_i k(d_i, x)` with a bounded dictionary."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.exceptions import ConditioningWarning
from mercer.expansions import Expansion
from mercer.functions.function import (
    Function,
    Half,
    follow_slots,
    grown_capacity,
    new_arrays,
    no_newcomers,
    take_over,
)
from mercer.kernels import Kernel
from mercer.numerics.compression import (
    BREAKDOWN,
    DONE,
    INVERSE,
    TRIANGULAR,
    UNFINISHED,
    Compressor,
    Dictionary,
    Limits,
    Newcomers,
    compress,
    worst_conditioning,
)
from mercer.numerics.dense import blas_addresses
from mercer.numerics.loops import Done, Progress, average, shrink, squared_tolerance
from mercer.numerics.risks import Past, mix
from mercer.records import FLOATS, IfAny, Numbers, Record
from mercer.validation import integer, positive, truth

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

# Kernel values held at once while predicting.
_CHUNK = 1 << 22
# New points closer than this to the span of the others (squared, relative to k(x, x)) are absorbed.
_ABSORB = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
# A float32 inverse Gram matrix is trusted while k(d, d) P_jj stays below this.
_FLOAT32_CONDITIONING = 3e2
# How far what a file says of its kernel matrix may be off by rounding, and the worst conditioning
# that there can be.
_FILE_TOLERANCE, _WORST_IN_FILES = 0.1, 1e16
# Above this model order the square-root path is slow enough to tell the user.
_NOTICEABLE = 300


class _Anchored(NamedTuple):
    """Slots of the points of a step that return in later steps.

    A pairwise objective pairs every row with the rows of a buffer. A point of the buffer that is in
    the dictionary receives its coefficient there, instead of joining again in every step, and may
    not be removed while it is in the buffer.
    """

    slots: Indices  # (n_points,), in the dictionary before the step; -1 if not in it
    newcomers: Indices  # indices of the points that join
    pinned: NDArray[np.bool_]  # (n_newcomers,), whether they must stay
    after: Indices  # (n_points,), places after the step, -1 for none

    def slots_of_places(self, origin: Indices) -> Indices:
        """Return the slot of each place after a step.

        Parameters
        ----------
        origin : ndarray of shape (size,) of int64
            ``Dictionary.origin`` after the step, in terms of slots before it.
        """
        final = follow_slots(self.slots, origin - 1)
        final[self.newcomers] = follow_slots(np.arange(self.newcomers.size), -1 - origin)
        places = np.full(int(self.after.max(initial=-1)) + 1, -1, np.int64)
        stay = self.after >= 0
        places[self.after[stay]] = final[stay]
        return places


class Previous(NamedTuple):
    """The function before the last step, expressed on the dictionary after it.

    COLK, eq. (20) needs f before and after a step at the same points. A step leaves most points of
    the dictionary in place, so kernels computed for the function after the step also serve the
    function before it; only removed points need kernels of their own.

    Attributes
    ----------
    on_slots : ndarray of shape (size, n_outputs) or (0, n_outputs), or None
        Coefficients on the points of the dictionary, or an empty array if none is needed. None
        during a step: then ``points`` holds all points of the function.
    points : ndarray of shape (n, n_features)
        Points that are no longer in the dictionary.
    coefficients : ndarray of shape (n, n_outputs)
        Coefficients on these points.
    """

    on_slots: Array | None
    points: Floats
    coefficients: Array

    @classmethod
    def same(cls, dictionary: Dictionary, coefficients: Array) -> Self:
        """Return the function with these coefficients on the present dictionary."""
        return cls(coefficients, dictionary.points[:0].copy(), coefficients[:0])

    @classmethod
    def begin(cls, dictionary: Dictionary, coefficients: Array) -> Self:
        """Remember the function before a step, and number the slots for :meth:`end`."""
        size = coefficients.shape[0]
        dictionary.origin[:size] = np.arange(1, size + 1)
        return cls(None, dictionary.points[:size].copy(), coefficients)

    def end(self, origin: NDArray[np.int64]) -> Self:
        """Move coefficients back to the points that are still in the dictionary after the step.

        Parameters
        ----------
        origin : ndarray of shape (size,) of int64
            ``Dictionary.origin`` of the slots in use after the step.
        """
        stayed = origin > 0
        on_slots = np.zeros((origin.size, self.coefficients.shape[1]))
        on_slots[stayed] = self.coefficients[origin[stayed] - 1]
        went = np.ones(self.points.shape[0], dtype=np.bool_)
        went[origin[stayed] - 1] = False
        return self._replace(
            on_slots=on_slots, points=self.points[went], coefficients=self.coefficients[went]
        )

    def off_slots(self, dictionary: Dictionary) -> Self:
        """Return the same function without slots, before the slots are refilled."""
        if self.on_slots is None:
            return self
        points = dictionary.points[: self.on_slots.shape[0]]
        return self._replace(
            on_slots=self.on_slots[:0],
            points=np.vstack([self.points, points]),
            coefficients=np.vstack([self.coefficients, self.on_slots]),
        )

    def map_outputs(self, mixing: Array) -> Self:
        """Replace the outputs f by f @ ``mixing``."""
        on_slots = None if self.on_slots is None else self.on_slots @ mixing
        return self._replace(on_slots=on_slots, coefficients=self.coefficients @ mixing)

    def values(self, X: Floats, rows: Floats, kernel: Callable[[Floats, Floats], Floats]) -> Array:
        """Return values at some points.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            The points.
        rows : ndarray of shape (n, size)
            Kernels between these points and the dictionary.
        kernel : callable
            Computes kernels with points that are no longer in the dictionary.

        Returns
        -------
        values : ndarray of shape (n, n_outputs)
        """
        values = np.zeros((X.shape[0], self.coefficients.shape[1]))
        if self.on_slots is not None and self.on_slots.size:
            values += rows @ self.on_slots.astype(rows.dtype, copy=False)
        if self.coefficients.size:
            others = kernel(X, self.points)
            values += others @ self.coefficients.astype(others.dtype, copy=False)
        return values

    def compiled(self, dictionary: Dictionary) -> Past:
        """Return the same function in the form for compiled code, with room for a full step."""
        assert self.on_slots is not None
        (capacity, d), (n_points, n_outputs) = dictionary.points.shape, self.coefficients.shape
        room = max(capacity, n_points)
        past = Past(
            np.zeros((capacity, n_outputs)),
            np.zeros((room, d), dictionary.points.dtype),
            np.zeros((room, n_outputs)),
            np.array([len(self.on_slots), n_points]),
        )
        past.on_slots[: len(self.on_slots)] = self.on_slots
        past.points[:n_points], past.coefficients[:n_points] = self.points, self.coefficients
        return past

    @classmethod
    def of_compiled(cls, past: Past) -> Self:
        """Return what compiled code made of :meth:`compiled`."""
        n_on_slots, n_points = past.sizes
        on_slots = None if n_on_slots < 0 else past.on_slots[:n_on_slots].copy()
        return cls(on_slots, past.points[:n_points].copy(), past.coefficients[:n_points].copy())

    @classmethod
    def of(cls, values: dict[str, Any], n: int) -> Self | None:
        """Return the stored previous function; None if it was not kept.

        Parameters
        ----------
        values : dict of str to ndarray
            Arrays of a stored kernel expansion.
        n : int
            Number of dictionary points.

        Raises
        ------
        ValueError
            If the arrays do not fit the dictionary.
        """
        on_slots, points, coefficients = (values[f"past_{name}"] for name in cls._fields)
        if points is None:
            return None
        # Without coefficients on slots it was stored during a step, and the arrays hold all points.
        n_points = len(points) if on_slots is None else len(on_slots)
        if coefficients is None or n_points not in (n, *([] if on_slots is None else [0])):
            raise ValueError("The function before the last step does not fit the kernel expansion.")
        return cls(on_slots, points, coefficients)


_NUMBERS = Record(
    oldest=integer(low=0),
    scale=positive(),
    n_steps=integer(low=0),
    kind=integer(low=0),
    n_outputs=integer(low=1),
    was_float32=truth(),
)
_ARRAYS = Record(
    points=Numbers("n", "n_features", dtype=FLOATS),
    self_kernel=Numbers("n"),
    weights=Numbers("n", "n_columns"),
    inverse=IfAny(Half("n", FLOATS)),
    slots=IfAny(Numbers("n_places", dtype=np.int64, low=-1)),
    past_points=IfAny(Numbers("n_past", "n_features", dtype=FLOATS)),
    past_coefficients=IfAny(Numbers("n_past", "n_outputs")),
    past_on_slots=IfAny(Numbers("n_on_slots", "n_outputs")),
)


class KernelExpansion(Function):
    """A function in the RKHS of a kernel, with ``n_outputs`` outputs on one dictionary.

    Coefficients are scaled lazily: shrinking the function costs O(1).

    Parameters
    ----------
    kernel, expansion, n_features, n_outputs, averaging
        See :class:`Function`.
    dtype : dtype, default=float64
        Type of the points, kernel values and inverse Gram matrix; coefficients are float64.

    Attributes
    ----------
    size : int
        Model order.
    past : Previous or None
        The function before the last step, if :meth:`keep_previous` asked for it.
    slots : ndarray of shape (n_places,) of int64
        Dictionary slot of each point that returns in later steps, -1 for none; see :meth:`add`.
    """

    expansion: Expansion
    arrays: Dictionary
    #: Type of the numbers that compiled code takes, if it is not that of the points.
    computes_in: type[np.float64] | None = None

    def __init__(
        self,
        kernel: Kernel,
        expansion: Expansion,
        n_features: int,
        n_outputs: int,
        dtype: DTypeLike = np.float64,
        averaging: float | None = None,
    ) -> None:
        super().__init__(kernel, expansion, n_features, n_outputs, averaging)
        self.compressor: Compressor = expansion.compressor(kernel)
        self.size = 0
        self.oldest = 0
        self.scale = 1.0
        self.n_steps = 0
        self.slots = np.empty(0, np.int64)
        self.was_float32 = np.dtype(dtype) == np.float32
        self.allocate(0, np.dtype(dtype))
        self.set_conditioning_limit()
        self._last: tuple[Floats, Floats] | None = None
        self.past: Previous | None = None

    # -- the function ---------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return self.arrays.points.dtype

    @property
    def promoted(self) -> str:
        if self.compressor.kind == TRIANGULAR:
            return "triangular"
        return "float64" if self.was_float32 and self.dtype == np.float64 else ""

    @property
    def dictionary(self) -> Floats:
        """Points, shape (size, n_features)."""
        return self.arrays.points[: self.size].copy()

    @property
    def coefficients(self) -> Array:
        """True coefficients, shape (size, n_outputs); the averaged ones if averaging is on."""
        if self.averaging is not None:
            return self.arrays.weights[: self.size, self.n_outputs :].copy()
        return self._iterate()

    def _iterate(self) -> Array:
        return self.scale * self.arrays.weights[: self.size, : self.n_outputs]

    def evaluate(self, X: Any) -> Array:
        n = X.shape[0]
        values = np.zeros((n, self.n_outputs))
        if self.size == 0:
            return values
        # Double precision: single-precision kernel values depend on the other rows.
        points = self.arrays.points[: self.size].astype(np.float64, copy=False)
        # Most kernels make sparse rows dense, so the width of the rows counts, too.
        rows = max(1, _CHUNK // max(self.size, self.n_features))
        for start in range(0, n, rows):
            block = X[start : start + rows]
            values[start : start + rows] = self.kernel(block, points) @ self.coefficients
        return values

    def current(self, X: Floats) -> Array:
        """Return the current iterate's values at the rows of a step; remembers their kernels."""
        rows = self.kernel(X, self.arrays.points[: self.size])
        self._last = (X, rows)
        weights = self.arrays.weights[: self.size, : self.n_outputs].astype(self.dtype, copy=False)
        values: Array = self.scale * (rows @ weights).astype(np.float64)
        return values

    # -- the function before the last step ------------------------------------------------------

    @property
    def keeps_previous(self) -> bool:
        """Whether every step keeps the function before it."""
        return self.past is not None

    def keep_previous(self) -> None:
        """Start to remember the previous function, for :meth:`previous`.

        This costs a copy of the points per step. Steps in compiled loops keep nothing, and end the
        remembering.
        """
        if self.past is None:
            self.past = Previous.same(self.arrays, self._iterate())

    def previous(self, X: Floats) -> Array:
        """Return values of the iterate before the last step, before its shrinking and adding.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Points. If they are the array last given to :meth:`current`, its kernels are reused, and
            only kernels with points removed in the last step are evaluated.

        Returns
        -------
        values : ndarray of shape (n, n_outputs)

        Raises
        ------
        ValueError
            If the previous function is not kept.
        """
        if self.past is None:
            raise ValueError(
                "The function before the last step is not there: it is kept only after "
                "`keep_previous()`, and no longer once a compiled loop made steps. Call it before "
                "the steps, and make them by `shrink` and `add`."
            )
        if self._last is None or self._last[0] is not X:
            self.current(X)
        assert self._last is not None
        return self.past.values(X, self._last[1], self.kernel)

    def _begin_step(self) -> None:
        if self.past is not None and self.past.on_slots is not None:
            self.past = Previous.begin(self.arrays, self._iterate())

    def _end_step(self) -> None:
        if self.past is not None:
            self.past = self.past.end(self.arrays.origin[: self.size])
        if self.averaging is not None:
            p = self.averaging
            mixing = (p + 1.0) / (self.n_steps + p)
            average(self.arrays, self.size, self.n_outputs, self.scale, mixing)

    def end_half_done(self, error: float, tolerance: float) -> float:
        """End a step that the compiled loop under a risk left half done; return its total error.

        Parameters
        ----------
        error, tolerance : float
            As in :meth:`finish`.
        """
        error = self.finish(error, tolerance)
        self._end_step()
        return error

    # -- one step -------------------------------------------------------------------------------

    def shrink(self, factor: float) -> None:
        """Multiply the function by ``factor`` in O(1)."""
        self._begin_step()
        self.scale = shrink(self.arrays, self.size, self.n_outputs, self.scale, factor)

    def mix(self, mixing: Array) -> None:
        """Replace the outputs f by f @ ``mixing``, (n_outputs, n_outputs), as part of a step."""
        self._begin_step()
        mix(self.arrays, self.size, self.scale, np.ascontiguousarray(mixing, dtype=np.float64))
        self.scale = 1.0

    def add(
        self,
        X: Floats,
        coefficients: Array,
        tolerance: float,
        before: Indices | None = None,
        after: Indices | None = None,
    ) -> float:
        """Add ``sum_i coefficients_i k(x_i, .)`` and compress.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Points. If they are the array last given to :meth:`current`, its kernels are reused.
        coefficients : ndarray of shape (n, n_outputs)
            Coefficients; rows of zeros add nothing.
        tolerance : float
            RKHS error that the compression may make; negative for none.
        before, after : ndarray of shape (n,) of int64, default=None
            For points that return in later steps: their places, numbered by the caller, before and
            after this step; -1 for none. Points with a place after the step stay in the dictionary,
            unless they depend linearly on the others. All points with a place before the step must
            be given.

        Returns
        -------
        error : float
            RKHS error of the compression.
        """
        self._begin_step()
        known = self._last[1] if self._last is not None and self._last[0] is X else None
        self._last, anchored = None, None
        if before is None or after is None:
            active = np.flatnonzero(coefficients.any(axis=1))
            pinned = np.zeros(active.size, np.bool_)
        else:
            if known is None:
                known = self.kernel(X, self.arrays.points[: self.size])
            own = np.asarray(self.kernel.diag(X), dtype=np.float64)
            anchored = self._place(X, known, own, coefficients / self.scale, before, after)
            active, pinned = anchored.newcomers, anchored.pinned
        points = np.ascontiguousarray(X[active], dtype=self.dtype)
        if known is not None:
            rows = np.ascontiguousarray(known[active])
        else:
            rows = self.kernel(points, self.arrays.points[: self.size])
        columns = np.zeros((active.size, self.arrays.weights.shape[1]))
        columns[:, : self.n_outputs] = coefficients[active] / self.scale
        self.reserve(active.size)
        while True:
            gram = self.kernel(points).astype(self.dtype, copy=False)
            rows = rows.astype(self.dtype, copy=False)
            new = Newcomers(points, rows, gram, columns.copy(), pinned)
            error, status = self._compress(new, squared_tolerance(tolerance, self.scale))
            if status != BREAKDOWN:
                break
            self.use_safer_path()
            points = points.astype(self.dtype)
            rows = self.kernel(points, self.arrays.points[: self.size])
            self.reserve(active.size)
        if status == UNFINISHED:
            error = self.finish(error, tolerance)
        self.n_steps += 1
        self._end_step()
        if self.compressor.kind == INVERSE:
            worst = worst_conditioning(self.arrays, self.size)
            if worst > self.compressor.conditioning_limit:
                self.use_safer_path()
        if anchored is not None:
            self.slots = anchored.slots_of_places(self.arrays.origin[: self.size])
        return error

    def _place(
        self,
        X: Floats,
        rows: Floats,
        self_kernel: Array,
        coefficients: Array,
        before: Indices,
        after: Indices,
    ) -> _Anchored:
        """Add the coefficients of points that are in the dictionary already, and number the slots.

        Parameters
        ----------
        X : ndarray of shape (n_points, n_features)
            The points.
        rows : ndarray of shape (n_points, size)
            Kernels of the points with the dictionary.
        self_kernel : ndarray of shape (n_points,)
            k(x, x) of the points.
        coefficients : ndarray of shape (n_points, n_outputs)
            Coefficients in units of the scaled ones.
        before, after : ndarray of shape (n_points,) of int64
            Places of the points before and after the step, -1 for none.
        """
        n, d = self.size, self.arrays
        slots = np.full(before.size, -1, np.int64)
        known = (before >= 0) & (before < self.slots.size)
        slots[known] = self.slots[before[known]]
        wanted = coefficients.any(axis=1) | ((before < 0) & (after >= 0))
        for i in np.flatnonzero(wanted & (slots < 0)) if n else ():
            distances = d.self_kernel[:n] + self_kernel[i] - 2.0 * rows[i]
            nearest = int(np.argmin(distances))
            if np.array_equal(d.points[nearest], X[i].astype(self.dtype, copy=False)):
                slots[i] = nearest
        there = slots >= 0
        np.add.at(d.weights[:, : self.n_outputs], slots[there], coefficients[there])
        d.origin[:n] = np.arange(1, n + 1)
        d.pinned[:n] = False
        d.pinned[slots[there & (after >= 0)]] = True
        newcomers = np.flatnonzero(wanted & ~there)
        return _Anchored(slots, newcomers, after[newcomers] >= 0, after)

    def _compress(self, new: Newcomers, squared: float) -> tuple[float, int]:
        """Add newcomers and compress; return the RKHS error and the status."""
        size, oldest, error, status = compress(
            blas_addresses(self.dtype),
            self.compressor,
            self.arrays,
            self.size,
            self.oldest,
            new,
            self.limits(squared),
        )
        if status != BREAKDOWN:  # after a breakdown nothing has changed
            self.size, self.oldest = size, oldest
        return float(error) * self.scale, status

    def finish(self, error: float, tolerance: float) -> float:
        """Finish an interrupted compression on a safer path; return its total error.

        Parameters
        ----------
        error : float
            RKHS error so far.
        tolerance : float
            RKHS error allowed for the whole step.
        """
        self.use_safer_path()
        nothing = no_newcomers(self.arrays, self.size)
        left = (tolerance * abs(tolerance) - error**2) / self.scale**2
        more, status = self._compress(nothing, left)
        # Both parts are projections onto nested spaces, so their errors are orthogonal.
        error = float(np.hypot(error, more))
        return error if status == DONE else self.finish(error, tolerance)

    def finish_with_slots(self, error: float, tolerance: float) -> float:
        """Call :meth:`finish` after compiled code, and update the slots of returning points."""
        slots = self.slots
        self.arrays.origin[: self.size] = np.arange(1, self.size + 1)
        error = self.finish(error, tolerance)
        self.slots = follow_slots(slots, self.arrays.origin[: self.size] - 1)
        return error

    def limits(self, squared: float = 0.0) -> Limits:
        """Return the limits of a step, in the form for compiled code."""
        return Limits(
            float(squared),
            self.expansion.limit(),
            max(_ABSORB[self.dtype], self.expansion.absorb),
            self.expansion.rule,
            self.n_outputs,
        )

    def progress(self, rows_done: int = 0) -> Progress:
        """Return the progress of the function, in the form for compiled code."""
        return Progress(self.size, self.oldest, self.scale, self.n_steps, rows_done)

    def resume(self, done: Done, slots: Indices | None = None, past: Past | None = None) -> None:
        """Apply the changes that compiled code made to the arrays, and to what else it followed."""
        if slots is not None:
            self.slots = slots
        self.resume_row(*done[:4])
        if past is not None:
            self.past = Previous.of_compiled(past)

    def resume_row(self, size: int, oldest: int, scale: float, n_steps: int) -> None:
        """Apply the changes that compiled code made to the arrays on one row."""
        if n_steps != self.n_steps:
            self.past = None
        self.size, self.oldest, self.scale, self.n_steps = size, oldest, scale, n_steps
        self.forget()

    def forget(self) -> None:
        """Discard the kernels remembered by :meth:`current`."""
        self._last = None

    # -- storage --------------------------------------------------------------------------------

    def allocate(self, capacity: int, dtype: np.dtype[Any]) -> None:
        """Allocate new arrays and copy the points in use."""
        columns = self.n_outputs * (1 if self.averaging is None else 2)
        inverse = self.expansion.needs_inverse
        new = new_arrays(capacity, self.n_features, columns, dtype, inverse=inverse)
        if self.size:  # otherwise the old arrays may have another number of outputs
            take_over(new, self.arrays, self.size)
        self.arrays = new

    def reserve(self, n_new: int) -> None:
        """Make room for ``n_new`` more points."""
        needed = self.size + n_new
        capacity = self.arrays.points.shape[0]
        if needed > capacity:
            # A capped expansion never needs more than its cap plus one batch.
            most = self.expansion.limit() + n_new
            self.allocate(grown_capacity(capacity, needed, most), self.dtype)

    def set_conditioning_limit(self) -> None:
        """Set a lower conditioning limit for a float32 inverse."""
        if self.dtype == np.float32 and self.compressor.kind == INVERSE:
            self.compressor = self.compressor._replace(conditioning_limit=_FLOAT32_CONDITIONING)

    # -- safer paths ----------------------------------------------------------------------------

    def use_safer_path(self) -> None:
        """Switch to float64, or from the explicit inverse to its triangular root.

        Dictionary points that depend on others are absorbed in the process.
        """
        if self.dtype == np.float32:
            self._to_float64()
        else:
            self._to_triangular()
        self.forget()

    def _to_float64(self) -> None:
        self.compressor = self.expansion.compressor(self.kernel)
        self.allocate(self.arrays.points.shape[0], np.dtype(np.float64))
        if self.compressor.kind == INVERSE:
            # The float32 inverse has only 1e-6 accuracy: rebuild it from the root.
            self._rebuild_root()
            root = np.tril(self.arrays.inverse[: self.size, : self.size])
            self.arrays.inverse[: self.size, : self.size] = root.T @ root
            if worst_conditioning(self.arrays, self.size) > self.compressor.conditioning_limit:
                self._to_triangular()

    def _to_triangular(self) -> None:
        if self.size > _NOTICEABLE:
            warnings.warn(
                f"The Gram matrix of the {self.size} dictionary points became ill-conditioned: "
                "some are nearly linear combinations of others. A slower path that stays accurate "
                "took over. A larger `tolerance`, a shorter length scale or a smaller `max_size` "
                "keeps points apart.",
                ConditioningWarning,
                stacklevel=2,
            )
        self.compressor = self.compressor._replace(kind=TRIANGULAR)
        self._rebuild_root()

    def _rebuild_root(self) -> None:
        """Factorise the Gram matrix again; dependent points are absorbed."""
        if self.past is not None:
            self.past = self.past.off_slots(self.arrays)
        n = self.size
        points = self.arrays.points[:n].copy()
        weights, pinned = self.arrays.weights[:n].copy(), self.arrays.pinned[:n].copy()
        origin = self.arrays.origin[:n].copy()
        new = Newcomers(points, np.zeros((n, 0)), self.kernel(points), weights, pinned)
        limits = self.limits(-1.0)._replace(max_size=n)
        triangular = self.compressor._replace(kind=TRIANGULAR)
        blas = blas_addresses(self.dtype)
        self.size = compress(blas, triangular, self.arrays, 0, 0, new, limits)[0]
        # The slots were refilled in another order.
        old = -1 - self.arrays.origin[: self.size]
        self.arrays.origin[: self.size] = origin[old]
        self.slots = follow_slots(self.slots, old)

    def check_restored(self) -> None:
        n = self.size
        own = np.asarray(self.kernel.diag(self.arrays.points[:n]), np.float64)
        with np.errstate(all="ignore"):
            fits = np.allclose(self.arrays.self_kernel[:n], own, rtol=_FILE_TOLERANCE)
            if fits and self.expansion.needs_inverse:
                fits = self._may_be_inverse(own)
        if not fits:
            raise ValueError("The kernel matrix in the file is not that of the dictionary.")

    def _may_be_inverse(self, own: Array) -> bool:
        """Whether what is kept has what each inverse of a kernel matrix has.

        Its diagonal is at least that of the inverse of the diagonal. No entry is larger than the
        root of the product of the two on the diagonal. To multiply the matrices says no more:
        rounding hides what ill-conditioned dictionaries are.
        """
        kept = np.tril(self.arrays.inverse[: self.size, : self.size]).astype(np.float64)
        diagonal: Array = np.diag(kept)
        bounded: Any = True
        positive = (diagonal > 0.0).all()
        if self.compressor.kind == TRIANGULAR:
            diagonal = np.sum(kept**2, axis=0)
        else:
            most = (1.0 + _FILE_TOLERANCE) * np.sqrt(np.outer(diagonal, diagonal))
            bounded = (np.abs(kept) <= most).all()
        share = diagonal * own
        sound = (share > 1.0 - _FILE_TOLERANCE) & (share < _WORST_IN_FILES)
        return bool(positive and bounded and sound.all())

    # -- outputs and state ----------------------------------------------------------------------

    def map_outputs(self, mixing: Array) -> None:
        old = self.arrays.weights
        blocks = [
            old[:, start : start + self.n_outputs] @ mixing
            for start in range(0, old.shape[1], self.n_outputs)
        ]
        self.n_outputs = mixing.shape[1]
        self.arrays = self.arrays._replace(weights=np.ascontiguousarray(np.hstack(blocks)))
        if self.past is not None:
            self.past = self.past.map_outputs(mixing)

    def snapshot(self, *, packed: bool = True) -> dict[str, Any]:
        """See :class:`Function`.

        Parameters
        ----------
        packed : bool, default=True
            Keep only the triangle of the inverse: half the size, for files. Slower than a copy.
        """
        n, past = self.size, {} if self.past is None else self.past._asdict()
        values = {
            **vars(self),
            **{name: array[:n] for name, array in self.arrays._asdict().items()},
            **{f"past_{name}": past.get(name) for name in Previous._fields},
            "inverse": None,
            "slots": self.slots if self.slots.size else None,
            "kind": self.compressor.kind,
        }
        if self.expansion.needs_inverse:
            inverse = self.arrays.inverse[:n, :n]
            values["inverse"] = inverse[np.tril_indices(n)] if packed else inverse
        return {"numbers": _NUMBERS.written_of(values), "arrays": _ARRAYS.written_of(values)}

    def restore(self, state: dict[str, Any]) -> None:
        sizes = {"n_features": self.n_features}
        numbers = _NUMBERS.read(state["numbers"], sizes)
        sizes["n_columns"] = numbers["n_outputs"] * (1 if self.averaging is None else 2)
        arrays = _ARRAYS.read(state["arrays"], sizes)
        points, inverse, slots = (arrays[name] for name in ("points", "inverse", "slots"))
        n, kind = len(points), numbers.pop("kind")
        compressor = self.expansion.compressor(self.kernel)
        slots = np.empty(0, np.int64) if slots is None else slots
        fits = (
            (inverse is not None) == self.expansion.needs_inverse
            and (inverse is None or inverse.dtype == points.dtype)
            and n <= self.expansion.limit()
            and slots.max(initial=-1) < n  # compiled code trusts these
            and numbers["oldest"] < max(n, 1)
            and kind in (compressor.kind, *([TRIANGULAR] * (compressor.kind == INVERSE)))
        )
        if not fits:
            raise ValueError("The arrays of the kernel expansion do not fit together.")
        past, keeps = Previous.of(arrays, n), self.keeps_previous
        vars(self).update(numbers, slots=slots, size=0)
        self.allocate(n, points.dtype)
        self.size = n
        for name in ("points", "self_kernel", "weights"):
            getattr(self.arrays, name)[:] = arrays[name]
        if inverse is not None:
            self.arrays.inverse[:] = inverse
        self.compressor = compressor._replace(kind=kind)
        self.set_conditioning_limit()
        self.forget()
        self.past = past
        if past is not None and past.on_slots is None:
            self.past = Previous.begin(self.arrays, past.coefficients)
        elif keeps:
            self.keep_previous()  # what was stored may know nothing of it
