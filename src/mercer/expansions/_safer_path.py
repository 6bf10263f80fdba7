"""What a kernel expansion does when its arithmetic is no longer accurate enough.

It goes from float32 to float64, and from the explicit inverse Gram matrix to its triangular root.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from mercer.exceptions import ConditioningWarning
from mercer.expansions._anchors import follow_slots
from mercer.numerics.state import Newcomers
from mercer.numerics.step import INVERSE, TRIANGULAR, worst_conditioning
from mercer.numerics.triangular import triangular_step

if TYPE_CHECKING:
    from mercer.expansions.kernel_expansion import KernelExpansion

__all__ = ["go_safer"]

# Above this model order the square-root path is slow enough to tell the user.
_NOTICEABLE = 300


def go_safer(f: KernelExpansion) -> None:
    """Take the next safer path; dependent points of the dictionary are absorbed on the way."""
    if f.dtype == np.float32:
        _to_float64(f)
    else:
        _to_triangular(f)


def _to_float64(f: KernelExpansion) -> None:
    f.compressor = f.expansion.compressor(f.kernel)
    f.allocate(f.arrays.points.shape[0], np.dtype(np.float64))
    if f.compressor.kind == INVERSE:
        # The float32 inverse is only good to 1e-6: rebuild it, as the root and then its square.
        _rebuild_root(f)
        root = np.tril(f.arrays.inverse[: f.size, : f.size])
        f.arrays.inverse[: f.size, : f.size] = root.T @ root
        if worst_conditioning(f.arrays, f.size) > f.compressor.conditioning_limit:
            _to_triangular(f)


def _to_triangular(f: KernelExpansion) -> None:
    if f.size > _NOTICEABLE:
        warnings.warn(
            f"The Gram matrix of the {f.size} dictionary points became ill-conditioned: "
            "some are nearly linear combinations of others. A slower path that stays accurate "
            "took over. A larger `tolerance`, a shorter length scale or a smaller `max_size` "
            "keeps points apart.",
            ConditioningWarning,
            stacklevel=2,
        )
    f.compressor = f.compressor._replace(kind=TRIANGULAR)
    _rebuild_root(f)


def _rebuild_root(f: KernelExpansion) -> None:
    """Factorise the Gram matrix afresh; dependent points are absorbed."""
    if f.past is not None:
        f.past = f.past.off_slots(f.arrays)
    n = f.size
    points = f.arrays.points[:n].copy()
    weights, pinned = f.arrays.weights[:n].copy(), f.arrays.pinned[:n].copy()
    origin = f.arrays.origin[:n].copy()
    new = Newcomers(points, np.zeros((n, 0)), f.kernel(points), weights, pinned)
    limits = f.limits(-1.0)._replace(max_size=n)
    f.size, _ = triangular_step(f.arrays, 0, new, limits)
    # The slots were filled in another order.
    old = -1 - f.arrays.origin[: f.size]
    f.arrays.origin[: f.size] = origin[old]
    f.slots = follow_slots(f.slots, old)
