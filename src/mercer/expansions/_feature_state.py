"""Steps and states of a feature expansion: in memory, and as plain arrays and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.expansions.feature_expansion import FeatureExpansion
    from mercer.features._base import Floats

__all__ = ["Mark", "Update", "put_back_features", "take_features"]


class Update(NamedTuple):
    """What a step did to the function: f became factor * f @ mixing + z_block @ coefficients."""

    factor: float
    block: int
    coefficients: Floats
    mixing: NDArray[np.float64] | None = None


class Mark(NamedTuple):
    """A state to go back to; arrays are shared, because none is ever changed in place."""

    blocks: tuple[Floats, ...]
    before: tuple[float, ...]
    numbers: Any  # scale, n_steps, total, weight
    last: Update | None


def take_features(f: FeatureExpansion) -> dict[str, Any]:
    """Copy everything that a step changes."""
    shape = len(f.blocks), f.block_size, f.n_candidates * f.n_outputs
    numbers: dict[str, Any] = {
        "scale": f.scale,
        "n_steps": f.n_steps,
        "total": f.total,
        "weight": f.weight,
        "best": f.best,
        "n_outputs": f.n_outputs,
        "ridges": list(f.ridges),
    }
    arrays = {
        "blocks": np.stack(f.blocks) if f.blocks else np.zeros(shape, f.dtype),
        "before": np.array(f.before, dtype=np.float64),
    }
    if f.last is not None:
        numbers["last"] = {"factor": f.last.factor, "block": f.last.block}
        arrays["last"] = f.last.coefficients.copy()
    return {"numbers": numbers, "arrays": arrays}


def _last_from_state(arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> Update | None:
    """Read what the last step did; ValueError if it does not fit the blocks."""
    if "last" not in numbers:
        return None
    blocks, coefficients = arrays["blocks"], arrays["last"]
    factor, block = numbers["last"]["factor"], numbers["last"]["block"]
    fits = (
        type(block) is int
        and 0 <= block < len(blocks)
        and 0.0 < factor < np.inf
        and coefficients.shape == blocks.shape[1:]
        and coefficients.dtype == blocks.dtype
    )
    if not fits:
        raise ValueError("The last step does not fit the random-feature expansion.")
    return Update(float(factor), block, coefficients)


def put_back_features(f: FeatureExpansion, state: dict[str, Any]) -> None:
    """Go back to a snapshot; ValueError if its arrays do not fit together."""
    arrays, numbers = state["arrays"], state["numbers"]
    blocks, before, ridges = arrays["blocks"], arrays["before"], tuple(numbers["ridges"])
    n_candidates = max(1, len(ridges))
    fits = (
        type(numbers["n_outputs"]) is int
        and type(numbers["n_steps"]) is int
        and type(numbers["best"]) is int
        and numbers["n_outputs"] >= 1
        and set(ridges) <= set(f.expansion.ridges())
        and blocks.ndim == 3
        and blocks.dtype == f.dtype
        and blocks.shape[1:] == (f.block_size, n_candidates * numbers["n_outputs"])
        and before.shape == blocks.shape[:1]
        and before.dtype == np.float64
        and 0 <= numbers["best"] < n_candidates
        and len(blocks) <= numbers["n_steps"]
        and 0.0 < numbers["scale"] < np.inf
        and 0.0 <= numbers["weight"] < np.inf
        and np.isfinite(numbers["total"])
    )
    if not fits:
        raise ValueError("The arrays of the random-feature expansion do not fit together.")
    last = _last_from_state(arrays, numbers)
    f.n_outputs, f.ridges, f.best = numbers["n_outputs"], ridges, numbers["best"]
    scalars = tuple(numbers[k] for k in ("scale", "n_steps", "total", "weight"))
    f.back(Mark(tuple(blocks), tuple(before.tolist()), scalars, last))
    f.keeps_previous = f.keeps_previous or last is not None
