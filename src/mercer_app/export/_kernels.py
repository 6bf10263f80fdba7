"""Kernels, maps and random features as the plain trees that exported files read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features import CosineMap
from mercer.features.composite import MappedMap, ProductMap, ScaledMap, SumMap
from mercer.features.dot import ArcCosineMap, SeriesMap, SignMap, TensorSketchMap
from mercer.features.half_line import AdditiveMap, ExponentialMap, Logarithms, Roots
from mercer.kernels import (
    ArcCosine,
    Bias,
    Cauchy,
    ChiSquared,
    DotProduct,
    ExponentialSemigroup,
    Gaussian,
    Hellinger,
    Intersection,
    JensenShannon,
    Kernel,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
    Product,
    RationalQuadratic,
    ReciprocalSemigroup,
    Scaled,
    SkewedChiSquared,
    SkewedIntersection,
    Sum,
)
from mercer.maps import Affine, Chain, Curves, Indicators

Tree = dict[str, Any]

_LARGE_ORDER = 60.0  # from which Matern kernels have another formula, without Bessel functions


class ExportError(ValueError):
    """A model cannot be written as a file that needs NumPy alone; the message says why."""


def _length(kernel: Any) -> float:
    return float(kernel.length_scale)


def _matern(kernel: Matern) -> Tree:
    nu = float(kernel.nu)
    if nu < _LARGE_ORDER and (nu - 0.5) % 1.0:
        raise ExportError(
            f"{kernel!r} needs Bessel functions, which NumPy does not have. Use an order of 0.5, "
            "1.5, 2.5, ..."
        )
    return {"kind": "matern", "nu": nu, "length": _length(kernel)}


def _half_line(name: str, parameter: str | None = None) -> Callable[[Any], Tree]:
    def tree(kernel: Kernel) -> Tree:
        number = 0.0 if parameter is None else float(getattr(kernel, parameter))
        return {"kind": "half_line", "of": name, "number": number}

    return tree


def _pair(kind: str) -> Callable[[Any], Tree]:
    return lambda kernel: {
        "kind": kind,
        "left": kernel_tree(kernel.left),
        "right": kernel_tree(kernel.right),
    }


def _series(kernel: DotProduct) -> Tree:
    given = kernel.coefficients
    coefficients = None if isinstance(given, str) else np.array(given, dtype=np.float64)
    return {"kind": "series", "scale": float(kernel.scale or 0.0), "coefficients": coefficients}


def _partitioned(kernel: Partitioned) -> Tree:
    inside = [kernel.inside(cell) for cell in range(kernel.n_cells)]
    return {
        "kind": "partitioned",
        "cells": cells_tree(kernel),
        "kernels": [kernel_tree(each.kernel) for each in inside],
        "constant": float(kernel.constant),
    }


_KERNELS: dict[type, Callable[[Any], Tree]] = {
    ArcCosine: lambda k: {"kind": "arc_cosine", "order": int(k.order)},
    Bias: lambda k: {"kind": "constant", "value": float(k.value)},
    Cauchy: lambda k: {"kind": "cauchy", "length": _length(k)},
    ChiSquared: _half_line("chi_squared"),
    DotProduct: _series,
    ExponentialSemigroup: _half_line("exponential_semigroup", "beta"),
    Gaussian: lambda k: {"kind": "gaussian", "length": _length(k)},
    Hellinger: _half_line("hellinger"),
    Intersection: _half_line("intersection"),
    JensenShannon: _half_line("jensen_shannon"),
    Laplacian: lambda k: {"kind": "laplacian", "length": _length(k)},
    Linear: lambda k: {"kind": "polynomial", "scale": 1.0, "offset": 0.0, "degree": 1},
    Mapped: lambda k: {"kind": "mapped", "map": map_tree(k.map), "kernel": kernel_tree(k.kernel)},
    Matern: _matern,
    Partitioned: _partitioned,
    Polynomial: lambda k: {
        "kind": "polynomial",
        "scale": float(k.scale),
        "offset": float(k.offset),
        "degree": int(k.degree),
    },
    Product: _pair("product"),
    RationalQuadratic: lambda k: {
        "kind": "rational_quadratic",
        "alpha": float(k.alpha),
        "length": _length(k),
    },
    ReciprocalSemigroup: _half_line("reciprocal_semigroup", "rate"),
    Scaled: lambda k: {
        "kind": "scaled",
        "factor": float(k.factor),
        "kernel": kernel_tree(k.kernel),
    },
    SkewedChiSquared: _half_line("skewed_chi_squared", "c"),
    SkewedIntersection: _half_line("skewed_intersection", "c"),
    Sum: _pair("sum"),
}


def kernel_tree(kernel: Kernel) -> Tree:
    """Return a resolved kernel as a tree.

    Raises
    ------
    ExportError
        For a kernel from a function, one of the user's own, or one that NumPy cannot evaluate.
    """
    known = _KERNELS.get(type(kernel))
    if known is None:
        raise ExportError(
            f"The kernel {kernel!r} is code of your own, which a file of numbers cannot hold. Use "
            "one of mercer.kernels."
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
    # A column of scale 0 is dropped; one whose row of a matrix is 0 says nothing.
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
    Logarithms: lambda m: {"kind": "logarithm", "shift": float(m.c)},
    Roots: lambda m: {"kind": "root"},
}


def map_tree(map: Any) -> Tree | None:
    """Return a map of rows as a tree; None for none.

    Raises
    ------
    ExportError
        For a map that is code of the user's own.
    """
    if map is None:
        return None
    known = _MAPS.get(type(map))
    if known is None:
        raise ExportError(
            f"The map {map!r} is code of your own, which a file of numbers cannot hold. Use one of "
            "mercer.maps."
        )
    return known(map)


# -- random features -------------------------------------------------------------------------------


def _both(kind: str) -> Callable[[Any], Tree]:
    return lambda m: {
        "kind": kind,
        "left": features_tree(m.left),
        "right": features_tree(m.right),
    }


def _behind(features: MappedMap) -> Tree:
    # Features behind a map are made with that of a kernel, or with the image of a half-line.
    image: Any = features.image
    kernel = getattr(image, "__self__", None)
    image = kernel.map if isinstance(kernel, Mapped) else image
    return {"kind": "mapped", "map": map_tree(image), "inner": features_tree(features.inner)}


_FEATURES: dict[type, Callable[[Any], Tree]] = {
    AdditiveMap: lambda m: {"kind": "additive", "paired": bool(m.paired)},
    ArcCosineMap: lambda m: {"kind": "ramps", "order": int(m.order)},
    CosineMap: lambda m: {
        "kind": "cosine",
        "paired": bool(m.options.paired),
        "hadamard": m.design == "hadamard",
    },
    ExponentialMap: lambda m: {"kind": "exponential"},
    MappedMap: _behind,
    ProductMap: _both("product"),
    ScaledMap: lambda m: {
        "kind": "scaled",
        "factor": float(m.factor),
        "inner": features_tree(m.inner),
    },
    SeriesMap: lambda m: {"kind": "series", "scale": float(m.scale)},
    SignMap: lambda m: {"kind": "signs"},
    SumMap: _both("sum"),
    TensorSketchMap: lambda m: {
        "kind": "sketch",
        "offset": float(m.offset),
        "scale": float(m.scale),
    },
}


def features_tree(features: Any) -> Tree:
    """Return a map to random features as a tree, without its numbers.

    Raises
    ------
    ExportError
        For features of the user's own.
    """
    known = _FEATURES.get(type(features))
    if known is None:
        raise ExportError(
            f"The random features {type(features).__name__} are code of your own, which a file of "
            "numbers cannot hold. Use a kernel of mercer.kernels."
        )
    return known(features)
