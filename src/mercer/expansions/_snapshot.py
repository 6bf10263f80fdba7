"""A kernel expansion as plain arrays and numbers, and back, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions._previous import Previous
from mercer.numerics.step import INVERSE, TRIANGULAR

if TYPE_CHECKING:
    from mercer.expansions.kernel_expansion import KernelExpansion

__all__ = ["put_back", "take_snapshot"]

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


def take_snapshot(f: KernelExpansion, packed: bool) -> dict[str, Any]:
    """Copy everything that a step changes; ``packed`` keeps one triangle of the inverse."""
    n = f.size
    arrays: dict[str, NDArray[Any]] = {
        "points": f.arrays.points[:n].copy(),
        "self_kernel": f.arrays.self_kernel[:n].copy(),
        "weights": f.arrays.weights[:n].copy(),
    }
    if f.expansion.needs_inverse:
        window = f.arrays.inverse[:n, :n]
        arrays["inverse"] = window[np.tril_indices(n)] if packed else window.copy()
    if f.slots.size:
        arrays["slots"] = f.slots.copy()
    if f.past is not None:
        arrays.update(_past_to_arrays(f.past))
    numbers = {
        "oldest": f.oldest,
        "scale": f.scale,
        "n_steps": f.n_steps,
        "kind": f.compressor.kind,
        "n_outputs": f.n_outputs,
        "was_float32": bool(f.was_float32),
    }
    return {"numbers": numbers, "arrays": arrays}


def _past_to_arrays(past: Previous) -> dict[str, NDArray[Any]]:
    arrays = {"past_points": past.points.copy(), "past_coefficients": past.coefficients.copy()}
    if past.on_slots is not None:
        arrays["past_on_slots"] = past.on_slots.copy()
    return arrays


def _past_from_arrays(
    arrays: dict[str, NDArray[Any]], n: int, n_features: int, n_outputs: int
) -> Previous | None:
    """Inverse of :func:`_past_to_arrays`; ValueError if they do not fit ``n`` dictionary points."""
    if "past_points" not in arrays:
        return None
    points, coefficients = arrays["past_points"], arrays["past_coefficients"]
    on_slots = arrays.get("past_on_slots")
    fits = (
        points.shape == (len(points), n_features)
        and points.dtype in _TYPES
        and coefficients.shape == (len(points), n_outputs)
        and coefficients.dtype == np.float64
        # Without it the snapshot was taken in the middle of a step, and all points are here.
        and (len(points) == n if on_slots is None else on_slots.dtype == np.float64)
        and (on_slots is None or on_slots.shape in ((0, n_outputs), (n, n_outputs)))
    )
    if not fits:
        raise ValueError("The function before the last step does not fit the kernel expansion.")
    return Previous(on_slots, points, coefficients)


def _possible_kinds(f: KernelExpansion) -> set[int]:
    own = f.expansion.compressor(f.kernel).kind
    return {own, TRIANGULAR} if own == INVERSE else {own}


def put_back(f: KernelExpansion, state: dict[str, Any]) -> None:
    """Go back to a snapshot; ValueError if its arrays do not fit together."""
    arrays, numbers = state["arrays"], state["numbers"]
    points, weights = arrays["points"], arrays["weights"]
    n = points.shape[0]
    slots = arrays.get("slots", np.empty(0, np.int64))
    n_columns = numbers["n_outputs"] * (1 if f.averaging is None else 2)
    packed = arrays.get("inverse")
    fits = (
        points.shape == (n, f.n_features)
        and points.dtype in _TYPES
        and arrays["self_kernel"].shape == (n,)
        and weights.shape == (n, n_columns)
        and arrays["self_kernel"].dtype == weights.dtype == np.float64
        and (packed is not None) == f.expansion.needs_inverse
        and (packed is None or packed.shape in ((n * (n + 1) // 2,), (n, n)))
        and (packed is None or packed.dtype == points.dtype)
        and n <= f.expansion.limit()
        and slots.ndim == 1
        and slots.dtype == np.int64
        # Compiled code trusts these.
        and ((slots >= -1) & (slots < n)).all()
        and all(type(numbers[k]) is int for k in ("oldest", "n_steps", "n_outputs", "kind"))
        and 0 <= numbers["oldest"] < max(n, 1)
        and 0.0 < numbers["scale"] < np.inf
        and numbers["n_steps"] >= 0
        and numbers["n_outputs"] >= 1
        and numbers["kind"] in _possible_kinds(f)
    )
    if not fits:
        raise ValueError("The arrays of the kernel expansion do not fit together.")
    past = _past_from_arrays(arrays, n, f.n_features, numbers["n_outputs"])
    f.n_outputs = numbers["n_outputs"]
    f.size = 0
    f.allocate(n, points.dtype)
    f.size = n
    f.arrays.points[:] = points
    f.arrays.self_kernel[:] = arrays["self_kernel"]
    f.arrays.weights[:] = weights
    if packed is not None:
        f.arrays.inverse[np.tril_indices(n) if packed.ndim == 1 else ...] = packed
    f.slots = slots.copy()
    f.oldest, f.scale = numbers["oldest"], numbers["scale"]
    f.n_steps, f.was_float32 = numbers["n_steps"], numbers["was_float32"]
    f.compressor = f.expansion.compressor(f.kernel)._replace(kind=numbers["kind"])
    f.set_conditioning_limit()
    f.forget()
    keeps, f.past = f.keeps_previous, past
    if past is not None and past.on_slots is None:
        f.past = Previous.begin(f.arrays, past.coefficients)
    elif keeps:
        f.keep_previous()  # what was stored may know nothing of it
