"""Fitted functions as the plain trees that exported files read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.functions import (
    DictionaryFunction,
    FeatureExpansion,
    KernelExpansion,
    RecursiveFunction,
    SumOfComponents,
)
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process import DescentPosterior, DictionaryPosterior, FeaturePosterior
from mercer.kernels import Kernel, Mapped
from mercer.maps import FixedMap
from mercer.numerics.lapack import solve_triangle
from mercer.sums import CellsPart, Correction, GlobalPart, KernelBasis, TreesPart
from mercer_app.export._kernels import (
    ExportError,
    Tree,
    cells_tree,
    features_tree,
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


def _blocks(blocks: FeatureBlocks, pairs: list[tuple[Any, float]], n_outputs: int) -> Tree:
    """Blocks of random features, with coefficients and a factor for each."""
    return {
        "kind": "features",
        "map": features_tree(blocks.map),
        "type": blocks.dtype.name,
        "n_outputs": n_outputs,
        "blocks": [
            {
                "numbers": [np.array(each) for each in blocks.numbers(number)],
                "coefficients": np.array(coefficients),
                "factor": float(factor),
            }
            for number, (coefficients, factor) in enumerate(pairs)
        ],
    }


def _of_features(function: FeatureExpansion) -> Tree:
    size, whole = function.block_size, function.coefficients
    parts = [(whole[i : i + size], 1.0) for i in range(0, len(whole), size)]
    return _blocks(function.features, parts, function.n_outputs)


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
    FeatureExpansion: _of_features,
    KernelExpansion: _of_kernel,
    RecursiveFunction: _of_recursion,
    SumOfComponents: _of_components,
}


def function_tree(function: Any) -> Tree:
    """Return a fitted function as a tree.

    Raises
    ------
    ExportError
        For the default of streams, functions of pairs, and what has code of the user's own.
    """
    known = _FUNCTIONS.get(type(function))
    if known is None:
        raise ExportError(
            f"A {type(function).__name__} cannot be exported: the default of streams is several "
            "models that take turns, and functions of pairs have no values at rows. Train with "
            "another expansion, such as 'dictionary' or 'komp', or pair_kernel='difference'."
        )
    return known(function)


def posterior_tree(posterior: Any) -> tuple[Tree, Any]:
    """Return the mean of a Gaussian process as a tree, and the numbers to add to it."""
    if isinstance(posterior, DictionaryPosterior):
        mean, _ = posterior.normalization()
        return _of_basis(posterior.features.basis, posterior.coefficients), mean
    if isinstance(posterior, FeaturePosterior):
        mean, _ = posterior.normalization()
        coefficients, blocks = posterior.coefficients, posterior.blocks
        assert isinstance(blocks, FeatureBlocks)  # a dictionary has features of its own
        return _blocks(blocks, [(coefficients, 1.0)], coefficients.shape[1]), mean
    if isinstance(posterior, DescentPosterior):
        scaled = [(block * posterior.target_scale, 1.0) for block in posterior.expansion]
        tree = _blocks(posterior.blocks, scaled, posterior.expansion.shape[2])
        return tree, posterior.target_mean
    raise ExportError(f"A {type(posterior).__name__} cannot be exported.")


def deviations_tree(posterior: Any) -> Tree:
    """Return what the standard deviations of a Gaussian process are made of.

    They are sums of squares of functions: of as many as there are features, and for inducing points
    as many again.

    Raises
    ------
    ExportError
        For methods of descent, which solve a problem for each row that is asked for.
    """
    if isinstance(posterior, DescentPosterior):
        raise ExportError(
            "Standard deviations by descent are solved for row by row with all rows that were "
            "learned, which no file of sums holds. Use method='features' or 'dictionary'."
        )
    on_points = isinstance(posterior, DictionaryPosterior)
    of_features = posterior.posterior if on_points else posterior
    weights, _, _, scale = of_features.solution()
    n = len(weights.factor)
    whitened = np.sqrt(weights.noise) * solve_triangle(weights.factor, np.eye(n)).T
    if on_points:
        features = posterior.features
        inverse = features.whiten(np.eye(n)).T
        coefficients = np.hstack([inverse @ whitened, inverse])
        function = _of_basis(features.basis, coefficients)
    else:
        function = _blocks(of_features.blocks, [(whitened, 1.0)], n)
    return {
        "function": function,
        "n_known": n,
        "kernel": kernel_tree(posterior.features.kernel) if on_points else None,
        "scale": scale,
        "noise": posterior.noise * posterior.normalization()[1] ** 2,
    }
