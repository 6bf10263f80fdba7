"""Fitted functions as the plain trees that exported files read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features import CosineMap
from mercer.features.composite import ScaledMap
from mercer.functions import (
    DictionaryFunction,
    KernelExpansion,
    RecursiveFunction,
    SumOfComponents,
)
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process import DescentPosterior, DictionaryPosterior
from mercer.kernels import Kernel, Mapped
from mercer.maps import FixedMap
from mercer.numerics.designs import hadamard_projections
from mercer.sums import CellsPart, Correction, GlobalPart, KernelBasis, TreesPart
from mercer_app.export._kernels import (
    ExportError,
    Tree,
    cells_tree,
    kernel_tree,
    map_tree,
)


def _expansion(
    kernel: Kernel, points: Any, coefficients: Any, rows: str | None = None, type: str = "float64"
) -> Tree:
    """Kernel functions at points; a map is applied to these here, once."""
    rows = points.dtype.name if rows is None else rows
    map = None
    if isinstance(kernel, Mapped) and isinstance(kernel.map, FixedMap):
        map, kernel = kernel.map, kernel.kernel
        points = map(points)
    if type == "float32" and points.dtype != np.float32:
        points = np.clip(points, -1e30, 1e30)
    return {
        "kind": "expansion",
        "map": map_tree(map),
        "rows": rows,
        "type": type,
        "kernel": kernel_tree(kernel),
        "points": points.astype(type),
        "coefficients": np.array(coefficients, dtype=np.float64),
    }


def _of_kernel(function: KernelExpansion) -> Tree:
    type = function.dtype.name
    return _expansion(function.kernel, function.dictionary, function.coefficients, type, type)


def _of_recursion(function: RecursiveFunction) -> Tree:
    return _expansion(function.kernel, function.dictionary, function.coefficients)


def _of_basis(basis: KernelBasis, coefficients: Any) -> Tree:
    return _expansion(basis.kernel, basis.points, coefficients, type=basis.dtype.name)


def _of_dictionary(function: DictionaryFunction) -> Tree:
    if function.basis is None:
        return {"kind": "zero", "n_outputs": function.n_outputs}
    return _of_basis(function.basis, function.coefficients)


def _cosines(blocks: FeatureBlocks, coefficients: Any) -> Tree:
    """Blocks of cosines, with the coefficients of each (n_blocks, n_features, n_outputs)."""
    features, factor = blocks.map, 1.0
    while isinstance(features, ScaledMap):
        factor *= features.factor
        features = features.inner
    if not isinstance(features, CosineMap):
        raise ExportError(
            f"Exported files have no formula for the random features of {blocks.kernel!r}. Use a "
            "Gaussian, Laplacian or Matern kernel, or inducing points (method='dictionary')."
        )
    found = []
    for number, own in enumerate(coefficients):
        *frequencies, phases = (np.asarray(each) for each in blocks.numbers(number))
        if features.design == "hadamard":  # the transform of signs and scales, as a matrix
            signs, scales = (each.astype(np.float64) for each in frequencies)
            matrix = np.empty((features.n_inputs, scales.size))
            hadamard_projections(np.eye(features.n_inputs), signs, scales, matrix)
            frequencies = [matrix]
        found.append(
            {
                "frequencies": frequencies[0],
                "phases": phases,
                "coefficients": math.sqrt(factor) * np.asarray(own, dtype=np.float64),
            }
        )
    return {
        "kind": "cosines",
        "type": blocks.dtype.name,
        "paired": bool(features.options.paired),
        "blocks": found,
    }


def _of_cells(part: CellsPart) -> Tree:
    functions, start = [], 0
    for cell in part.cells:
        n = cell.predictor.size
        functions.append(
            {
                "kernel": kernel_tree(cell.predictor.kernel),
                "constant": float(cell.predictor.constant),
                "points": [start, start + n],
            }
        )
        start += n
    ranges = np.stack([cell.predictor.range for cell in part.cells])
    return {
        "kind": "cells",
        "map": map_tree(part.map),
        "type": part.dtype.name,
        "cells": cells_tree(part.partition),
        "functions": functions,
        "points": part.dictionary,
        "coefficients": part.coefficients,
        "ranges": ranges,
        "n_outputs": part.n_outputs,
    }


def _of_trees(part: TreesPart) -> Tree:
    nodes = part.map.get_params(deep=False)
    return {
        "kind": "trees",
        "columns": np.array(nodes["columns"], dtype=np.int64),
        "cuts": np.array(nodes["cuts"], dtype=np.float64),
        "children": np.array(nodes["children"], dtype=np.int64),
        "roots": np.array(nodes["roots"], dtype=np.int64),
        "coefficients": part.coefficients,
    }


def _correction(correction: Correction | None) -> Tree | None:
    if correction is None:
        return None
    features = correction.features
    return {
        "centre": correction.centre,
        "scale": correction.scale,
        "ends": correction.ends,
        "line": correction.line,
        "coefficients": correction.coefficients,
        "kernel": None if features.kernel is None else kernel_tree(features.kernel),
        "length": float(features.length),
        "points": features.points,
        "values": features.values,
    }


def _of_components(function: SumOfComponents) -> Tree:
    used = function.used
    correction = function.correction
    return {
        "kind": "sum",
        "weights": [weight for weight, _ in used],
        "parts": [_PARTS[type(part)](part) for _, part in used],
        "n_values": function.n_outputs if correction is None else correction.n_values,
        "bend": function.bend,
        "level": 0.0 if function.level is None else function.level,
        "correction": _correction(correction),
    }


_PARTS: dict[type, Callable[[Any], Tree]] = {
    CellsPart: _of_cells,
    GlobalPart: lambda part: _of_basis(part.basis, part.coefficients),
    TreesPart: _of_trees,
}

_FUNCTIONS: dict[type, Callable[[Any], Tree]] = {
    DictionaryFunction: _of_dictionary,
    KernelExpansion: _of_kernel,
    RecursiveFunction: _of_recursion,
    SumOfComponents: _of_components,
}


def function_tree(function: Any) -> Tree:
    """Return a fitted function as a tree.

    Raises
    ------
    ExportError
        For the default of streams, random features, functions of pairs, and what has code of the
        user's own.
    """
    known = _FUNCTIONS.get(type(function))
    if known is None:
        raise ExportError(
            f"A {type(function).__name__} cannot be exported: files hold the default of tables, "
            "dictionaries and points with coefficients. The default of streams is several models "
            "that take turns, random features have formulas for each kernel, and functions of "
            "pairs have no values at rows. Train with expansion='dictionary' or 'komp', or with "
            "pair_kernel='difference'."
        )
    return known(function)


def posterior_tree(posterior: Any) -> tuple[Tree, Any]:
    """Return the mean of a Gaussian process as a tree, and the numbers to add to it."""
    if isinstance(posterior, DescentPosterior):
        coefficients = posterior.expansion * posterior.target_scale
        return _cosines(posterior.blocks, coefficients), posterior.target_mean
    mean, _ = posterior.normalization()
    if isinstance(posterior, DictionaryPosterior):
        return _of_basis(posterior.features.basis, posterior.coefficients), mean
    blocks = posterior.blocks
    assert isinstance(blocks, FeatureBlocks)  # a dictionary has its own features
    return _cosines(blocks, posterior.coefficients[np.newaxis]), mean
