"""A bilinear expansion as plain arrays and numbers, and back, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.expansions.bilinear_expansion import BilinearExpansion

__all__ = ["put_back_bilinear", "take_bilinear"]

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_NUMBERS = ("n_steps", "n_joined", "age_of_norms")


def take_bilinear(f: BilinearExpansion, packed: bool) -> dict[str, Any]:
    """Copy everything that a step changes; ``packed`` keeps one triangle of symmetric matrices."""
    n = f.size
    arrays: dict[str, NDArray[Any]] = {
        "points": f.dictionary,
        "ages": f.ages[:n].copy(),
        "slots": f.slots.copy(),
    }
    for name, array in f.arrays._asdict().items():
        window = array[(slice(n),) * array.ndim]
        if packed and name in ("gram", "inverse"):
            arrays[name] = window[np.tril_indices(len(window))]
        else:
            arrays[name] = window.copy()
    numbers: dict[str, Any] = {name: getattr(f, name) for name in _NUMBERS}
    return {"numbers": {**numbers, "scale": f.scale}, "arrays": arrays}


def put_back_bilinear(f: BilinearExpansion, state: dict[str, Any]) -> None:
    """Go back to a snapshot; ValueError if its arrays do not fit together."""
    arrays, numbers = state["arrays"], state["numbers"]
    points, ages, slots = (arrays[name] for name in ("points", "ages", "slots"))
    n = points.shape[0]
    used = slots[slots >= 0]
    fits = (
        points.shape == (n, f.n_features)
        and points.dtype in _TYPES
        and n <= f.expansion.limit()
        and ages.shape == (n,)
        and slots.ndim == 1
        and ages.dtype == slots.dtype == np.int64
        # Compiled code trusts these.
        and -1 <= slots.min(initial=-1) <= slots.max(initial=-1) < n
        and np.unique(used).size < f.expansion.limit()
        and all(type(numbers[name]) is int and numbers[name] >= 0 for name in _NUMBERS)
        and 0.0 < numbers["scale"] < np.inf
    )
    for name, array in f.arrays._asdict().items():
        # Those that the expansion does not need have no rows.
        m = n if f.keeps(name) else 0
        shapes: list[tuple[int, ...]] = [(m,) * array.ndim]
        if name in ("gram", "inverse"):
            shapes.append((m * (m + 1) // 2,))
        fits = fits and arrays[name].shape in shapes and arrays[name].dtype == np.float64
    if not fits:
        raise ValueError("The arrays of the bilinear expansion do not fit together.")
    f.dtype, f.size = points.dtype, 0
    f.allocate(n)
    f.size = n
    f.points[:], f.ages[:], f.slots = points, ages, slots.copy()
    for name, array in f.arrays._asdict().items():
        given = arrays[name]
        if given.ndim == array.ndim:
            array[...] = given
        else:
            lower = np.tril_indices(len(array))
            array[lower] = given
            array.T[lower] = given
    for name in _NUMBERS:
        setattr(f, name, numbers[name])
    f.scale = float(numbers["scale"])
    f.forget()
