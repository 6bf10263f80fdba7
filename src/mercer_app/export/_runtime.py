"""Values of exported functions: NumPy and nothing else.

The text of this module and of ``_answers`` is put into exported files, and where columns need it
that of ``mercer.columns.written`` and ``calendar_parts``, so that they import nothing of mercer but
each other. A model is a tree of plain dicts, each with a ``kind``, whose arrays are
in an archive; every kind is a few lines here. Numbers are those of the model; sums over points are
in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Spec = dict[str, Any]


# -- kernels: values between rows X and points Z ---------------------------------------------------


def _squared_distances(X: Array, Z: Array) -> Array:
    centre = Z.mean(axis=0)  # near 0 squares lose the fewest digits
    X, Z = X - centre, Z - centre
    squares = np.sum(X * X, axis=1)[:, None] + np.sum(Z * Z, axis=1) - 2.0 * (X @ Z.T)
    return np.asarray(np.maximum(squares, 0.0))


def _distances(X: Array, Z: Array) -> Array:
    """Sum the distances in each column."""
    total: Array = np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        total += np.abs(x[:, None] - z)
    return total


def _matern(squares: Array, nu: float, length: float) -> Array:
    """Matern kernel of half an odd integer."""
    a = np.minimum(np.sqrt(squares) * (math.sqrt(2 * nu) / length), 1e4)
    p = round(nu - 0.5)
    total = np.zeros_like(a)
    for i in range(p + 1):  # (2 a)^(p - i) with its coefficient, from the largest power down
        ratio = math.factorial(p + i) / (math.factorial(i) * math.factorial(p - i))
        total += ratio * (2 * a) ** (p - i)
    return np.asarray(np.exp(-a) * total * (math.factorial(p) / math.factorial(2 * p)))


_KERNELS: dict[str, Callable[[Spec, Array, Array], Array]] = {
    "gaussian": lambda s, X, Z: np.exp(_squared_distances(X, Z) * (-0.5 / s["length"] ** 2)),
    "laplacian": lambda s, X, Z: np.exp(_distances(X, Z) / -s["length"]),
    "matern": lambda s, X, Z: _matern(_squared_distances(X, Z), s["nu"], s["length"]),
    "constant": lambda s, X, Z: np.full((len(X), len(Z)), s["value"]),
    "polynomial": lambda s, X, Z: (s["scale"] * (X @ Z.T) + s["offset"]) ** s["degree"],
    "sum": lambda s, X, Z: kernel_values(s["left"], X, Z) + kernel_values(s["right"], X, Z),
    "product": lambda s, X, Z: kernel_values(s["left"], X, Z) * kernel_values(s["right"], X, Z),
    "scaled": lambda s, X, Z: s["factor"] * kernel_values(s["kernel"], X, Z),
    "mapped": lambda s, X, Z: kernel_values(s["kernel"], mapped(s["map"], X), mapped(s["map"], Z)),
}


def kernel_values(spec: Spec, X: Array, Z: Array) -> Array:
    """Kernel matrix of rows and points, in double precision."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    return np.asarray(_KERNELS[spec["kind"]](spec, X, Z))


def own_values(spec: Spec, X: Array) -> Array:
    """k(x, x) of each row."""
    pieces = [kernel_values(spec, X[i : i + 16], X[i : i + 16]) for i in range(0, len(X), 16)]
    return np.concatenate([piece.diagonal() for piece in pieces]) if pieces else np.empty(0)


def cells_of(spec: Spec, X: Array) -> Array:
    """Cell of each row: that of the nearest anchor, then down the splits of that cell."""
    X = X.astype(np.float64)
    anchors, parents = spec["anchors"], spec["parents"]
    cells: Any = np.zeros(len(X), np.int64)
    if len(anchors) > 1:
        distances = np.zeros((len(X), len(anchors)))
        for x, a in zip(X.T, anchors.T, strict=True):
            distances += (x[:, None] - a) ** 2
        cells = distances.argmin(axis=1)
    for split, parent in enumerate(parents.tolist()):
        mine = np.flatnonzero(cells == parent)
        first, second = spec["pairs"][split]
        cells[mine[_is_above(X[mine], (first + second) / 2, second - first)]] = len(anchors) + split
    return np.asarray(cells)


def _is_above(X: Array, middle: Array, normal: Array) -> Array:
    """Whether rows are on the side of a plane to which its normal points."""
    differs = np.flatnonzero(normal)
    if differs.size == 1:
        (column,) = differs
        return np.asarray((X[:, column] - middle[column]) * normal[column] > 0.0)
    # Four sums side by side, in the order in which the model has them.
    terms = (X - middle) * normal
    padded = np.zeros((len(X), -(-terms.shape[1] // 4) * 4))
    whole = terms.shape[1] - terms.shape[1] % 4
    padded[:, :whole] = terms[:, :whole]
    sums = np.cumsum(padded.reshape(len(X), padded.shape[1] // 4, 4), axis=1)[:, -1]
    for k in range(whole, terms.shape[1]):
        sums[:, 0] += terms[:, k]
    return np.asarray((sums[:, 0] + sums[:, 1]) + (sums[:, 2] + sums[:, 3]) > 0.0)


# -- maps of rows ----------------------------------------------------------------------------------


def _affine(spec: Spec, X: Array) -> Array:
    matrix = spec["matrix"].astype(X.dtype)
    rows = X[:, spec["kept"]] - spec["shift"].astype(X.dtype)
    image = rows * matrix if matrix.ndim == 1 else rows @ matrix
    if spec["offset"] is not None:
        image = image + spec["offset"].astype(X.dtype)
    return np.asarray(image, dtype=X.dtype)


def _curves(spec: Spec, X: Array) -> Array:
    columns = []
    stops = np.cumsum(spec["sizes"])
    for j, (size, stop) in enumerate(zip(spec["sizes"], stops, strict=True)):
        if not size:
            continue
        x = X[:, j].astype(np.float64)
        k, v = spec["knots"][stop - size : stop], spec["values"][stop - size : stop]
        y = np.interp(x, k, v)
        if spec["linear"] and size > 1:
            below, above = x < k[0], x > k[-1]
            y[below] = v[0] + (v[1] - v[0]) / (k[1] - k[0]) * (x[below] - k[0])
            y[above] = v[-1] + (v[-1] - v[-2]) / (k[-1] - k[-2]) * (x[above] - k[-1])
        columns.append(np.where(np.isnan(x), x, y))
    return np.stack(columns, axis=1).astype(X.dtype)


def _indicators(spec: Spec, X: Array) -> Array:
    columns, stops = [], np.cumsum(spec["sizes"])
    for j, (size, stop) in enumerate(zip(spec["sizes"], stops, strict=True)):
        levels = spec["levels"][stop - size : stop]
        columns.append(spec["height"] * (X[:, [j]] == levels) if size else X[:, [j]])
    return np.concatenate(columns, axis=1).astype(X.dtype)


def mapped(spec: Spec | None, X: Array) -> Array:
    """Rows behind a map, of the type of the rows."""
    if spec is None:
        return X
    if spec["kind"] == "chain":
        inner = mapped(spec["first"], X.astype(np.float64))
        return mapped(spec["last"], inner).astype(X.dtype)
    return {"affine": _affine, "curves": _curves, "indicators": _indicators}[spec["kind"]](spec, X)


def _in_type(X: Array, dtype: str) -> Array:
    """Rows in the precision of a part; far ones so that their products do not overflow."""
    if dtype == "float32" and X.dtype != np.float32:
        X = np.clip(X, -1e30, 1e30)
    return X.astype(dtype)


# -- functions -------------------------------------------------------------------------------------


def _expansion(spec: Spec, X: Array) -> Array:
    rows = _in_type(mapped(spec["map"], X.astype(spec["rows"])), spec["type"])
    K = kernel_values(spec["kernel"], rows, spec["points"])
    return np.asarray(K @ spec["coefficients"])


def _cosines(spec: Spec, X: Array) -> Array:
    """Sum cosines, or pairs of cosines and sines, of angles in turns."""
    rows, values = X.astype(spec["type"]), 0.0
    for block in spec["blocks"]:
        turns = (rows @ block["frequencies"].astype(rows.dtype)).astype(np.float64)
        phases, m = block["phases"].astype(np.float64), len(block["coefficients"])
        n_pairs = m // 2 if spec["paired"] else 0
        angles = 2 * math.pi * turns[:, :n_pairs]
        alone = np.cos(2 * math.pi * (turns[:, n_pairs:] + phases))
        Z = np.concatenate([np.cos(angles), np.sin(angles), alone], axis=1)
        values = values + math.sqrt(2 / m) * (Z @ block["coefficients"])
    return np.asarray(values)


def _cells(spec: Spec, X: Array) -> Array:
    rows = _in_type(mapped(spec["map"], X), spec["type"])
    cells = cells_of(spec["cells"], rows)
    values = np.zeros((len(X), spec["n_outputs"]))
    for number in np.unique(cells):
        cell = spec["functions"][number]
        first, last = cell["points"]
        if first == last:
            continue
        mine = np.flatnonzero(cells == number)
        low, high = spec["ranges"][number]
        K = kernel_values(cell["kernel"], rows[mine], spec["points"][first:last])
        K = K + cell["constant"]
        found = K @ spec["coefficients"][first:last]
        values[mine] = found if low[0] > high[0] else np.clip(found, low, high)
    return values


def _trees(spec: Spec, X: Array) -> Array:
    columns, cuts, children = spec["columns"], spec["cuts"], spec["children"]
    total = np.zeros((len(X), spec["coefficients"].shape[1]))
    numbers = np.arange(len(X))
    for root in spec["roots"]:
        nodes = np.full(len(X), root)
        while (inner := columns[nodes] >= 0).any():
            at = nodes[inner]
            right = X[numbers[inner], columns[at]] > cuts[at]
            nodes[inner] = children[at] + right
        total += spec["coefficients"][children[nodes]]
    return total / math.sqrt(len(spec["roots"]))


def _sum(spec: Spec, X: Array) -> Array:
    total = np.zeros((len(X), spec["n_values"]))
    for weight, part in zip(spec["weights"], spec["parts"], strict=True):
        total += weight * function_values(part, X)
    if spec["correction"] is not None:
        total = _corrected(spec["correction"], X, total)
        return np.asarray(total + spec["level"])
    return np.asarray(total + spec["bend"] * total**3 + spec["level"])


def _corrected(spec: Spec, X: Array, values: Array) -> Array:
    """Add what a loss makes of the mean: a line and a curve in it, and in the row."""
    line = spec["line"]
    found = np.repeat(values, line.shape[1] // values.shape[1], axis=1)
    u = np.clip((values - spec["centre"]) / spec["scale"], *spec["ends"])
    found += line[0] + u @ line[1:]
    if not len(spec["coefficients"]):
        return found
    squares = sum((a[:, None] - b) ** 2 for a, b in zip(u.T, spec["values"].T, strict=True))
    near = np.exp(squares / (-2.0 * u.shape[1] * spec["length"] ** 2))
    if spec["kernel"] is not None:
        points = spec["points"]
        alike = kernel_values(spec["kernel"], X, points)
        own = np.sqrt(np.outer(own_values(spec["kernel"], X), own_values(spec["kernel"], points)))
        alike = 0.3 * np.divide(alike, own, out=np.zeros_like(alike), where=own > 0.0)
        near = near + alike * (1.0 + near)
    return np.asarray(found + near @ spec["coefficients"])


def _behind(spec: Spec, X: Array) -> Array:
    """Evaluate a function behind a map; values beyond 1e9 are 1e9, which is far as well."""
    with np.errstate(over="ignore", invalid="ignore"):
        image = mapped(spec["map"], X)
    image = np.nan_to_num(image, nan=1e9, posinf=1e9, neginf=-1e9)
    return function_values(spec["function"], np.clip(image, -1e9, 1e9))


_FUNCTIONS: dict[str, Callable[[Spec, Array], Array]] = {
    "expansion": _expansion,
    "cosines": _cosines,
    "cells": _cells,
    "trees": _trees,
    "sum": _sum,
    "behind": _behind,
    "levelled": lambda spec, X: function_values(spec["function"], X) + spec["level"],
    "zero": lambda s, X: np.zeros((len(X), s["n_outputs"])),
}


def function_values(spec: Spec, X: Array) -> Array:
    """Values of the function at rows, (n, n_outputs)."""
    return _FUNCTIONS[spec["kind"]](spec, X)
