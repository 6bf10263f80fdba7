"""Kernels and maps as the plain trees that exported files read: those that the defaults choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.kernels import (
    Bias,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
    Product,
    Scaled,
    Sum,
)
from mercer.maps import Affine, Chain, Curves, Indicators

Tree = dict[str, Any]

_LARGE_ORDER = 60.0  # from which mercer has another formula for Matern kernels


class ExportError(ValueError):
    """A model cannot be exported to a file that needs only NumPy; the message says why."""


def _matern(kernel: Matern) -> Tree:
    nu = float(kernel.nu)
    if nu >= _LARGE_ORDER or (nu - 0.5) % 1.0:
        raise ExportError(
            f"{kernel!r} needs Bessel functions or their limits, which exported files do not have. "
            "Use an order of 0.5, 1.5, 2.5, ..."
        )
    return {"kind": "matern", "nu": nu, "length": float(kernel.length_scale)}


def _pair(kind: str) -> Callable[[Any], Tree]:
    return lambda kernel: {
        "kind": kind,
        "left": kernel_tree(kernel.left),
        "right": kernel_tree(kernel.right),
    }


_KERNELS: dict[type, Callable[[Any], Tree]] = {
    Bias: lambda k: {"kind": "constant", "value": float(k.value)},
    Gaussian: lambda k: {"kind": "gaussian", "length": float(k.length_scale)},
    Laplacian: lambda k: {"kind": "laplacian", "length": float(k.length_scale)},
    Linear: lambda k: {"kind": "polynomial", "scale": 1.0, "offset": 0.0, "degree": 1},
    Mapped: lambda k: {"kind": "mapped", "map": map_tree(k.map), "kernel": kernel_tree(k.kernel)},
    Matern: _matern,
    Polynomial: lambda k: {
        "kind": "polynomial",
        "scale": float(k.scale),
        "offset": float(k.offset),
        "degree": int(k.degree),
    },
    Product: _pair("product"),
    Scaled: lambda k: {
        "kind": "scaled",
        "factor": float(k.factor),
        "kernel": kernel_tree(k.kernel),
    },
    Sum: _pair("sum"),
}


def kernel_tree(kernel: Kernel) -> Tree:
    """Return a resolved kernel as a tree.

    Raises
    ------
    ExportError
        For a kernel that exported files do not know.
    """
    known = _KERNELS.get(type(kernel))
    if known is None:
        names = ", ".join(each.__name__ for each in _KERNELS)
        raise ExportError(
            f"Exported files have no formula for the kernel {kernel!r}. Train with those that they "
            f"know ({names}), or load the model with mercer."
        )
    return known(kernel)


def cells_tree(partition: Partitioned) -> Tree:
    """Return the cells of a partition as a tree."""
    anchors = np.array(partition.anchors, dtype=np.float64)
    split = partition.split_cells is not None
    none = np.empty((0, 2, anchors.shape[1]))
    return {
        "anchors": anchors,
        "parents": np.array(partition.split_cells if split else [], dtype=np.int64),
        "pairs": np.array(partition.split_anchors, dtype=np.float64) if split else none,
    }


# -- maps ------------------------------------------------------------------------------------------


def _affine(map: Affine) -> Tree:
    shift, matrix = (np.array(a, dtype=np.float64) for a in (map.shift, map.matrix))
    # Columns of scale 0 are dropped; a column whose row of the matrix is 0 has no effect.
    used = matrix != 0.0 if matrix.ndim == 1 else (matrix != 0.0).any(axis=1)
    kept = np.flatnonzero(used)
    return {
        "kind": "affine",
        "kept": kept,
        "shift": shift[kept],
        "matrix": matrix[kept],
        "offset": None if map.offset is None else np.array(map.offset, dtype=np.float64),
    }


def _curves(map: Curves) -> Tree:
    return {
        "kind": "curves",
        "knots": np.array(map.knots, dtype=np.float64),
        "values": np.array(map.values, dtype=np.float64),
        "sizes": np.array(map.sizes, dtype=np.int64),
        "linear": map.beyond == "linear",
    }


def _indicators(map: Indicators) -> Tree:
    return {
        "kind": "indicators",
        "levels": np.array(map.levels, dtype=np.float64),
        "sizes": np.array(map.sizes, dtype=np.int64),
        "height": float(map.height),
    }


_MAPS: dict[type, Callable[[Any], Tree]] = {
    Affine: _affine,
    Chain: lambda m: {"kind": "chain", "first": map_tree(m.first), "last": map_tree(m.last)},
    Curves: _curves,
    Indicators: _indicators,
}


def map_tree(map: Any) -> Tree | None:
    """Return a map of rows as a tree; None for none.

    Raises
    ------
    ExportError
        For a map that exported files do not know.
    """
    if map is None:
        return None
    known = _MAPS.get(type(map))
    if known is None:
        names = ", ".join(each.__name__ for each in _MAPS)
        raise ExportError(
            f"Exported files have no formula for the map {map!r}. Train with those that they know "
            f"({names}), or load the model with mercer."
        )
    return known(map)
