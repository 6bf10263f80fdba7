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


def _by_columns(
    X: Array, Z: Array, term: Callable[[Array, Array], Array], *, product: bool
) -> Array:
    """Sum or product over the columns of a function of two numbers."""
    total: Array = np.ones((len(X), len(Z))) if product else np.zeros((len(X), len(Z)))
    for x, z in zip(X.T, Z.T, strict=True):
        values = term(x[:, None], z[None])
        total = total * values if product else total + values
    return total


def _inside(X: Array, low: float, *, open_low: bool = False) -> None:
    if (low >= X if open_low else low > X).any():
        raise ValueError(
            f"The kernel of this model takes numbers {'above' if open_low else 'from'} {low:g} on "
            "only, and a row has a smaller one."
        )


def _ordered(term: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Make a function of two numbers of one of the lesser and the greater of them."""

    def of_both(a: Array, b: Array) -> Array:
        low, high = np.minimum(a, b), np.maximum(a, b)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(high > 0.0, term(low, high), 0.0)

    return of_both


def _jensen_shannon(low: Array, high: Array) -> Array:
    ratio = low / high
    together = np.log1p(ratio)
    tail = np.where(ratio > 0.0, low * (together - np.log(np.where(ratio > 0.0, ratio, 1.0))), 0.0)
    return np.where(ratio > 0.0, (high * together + tail) * (0.5 / math.log(2.0)), 0.0)


def _matern(squares: Array, nu: float, length: float) -> Array:
    """Matern kernel of half an odd integer, or of a large order."""
    if nu >= 60.0:
        return _matern_of_large_order(np.minimum(squares * (2 / (nu * length**2)), 1e8), nu)
    a = np.minimum(np.sqrt(squares) * (math.sqrt(2 * nu) / length), 1e4)
    p = round(nu - 0.5)
    total = np.zeros_like(a)
    for i in range(p + 1):  # (2 a)^(p - i) with its coefficient, from the largest power down
        ratio = math.factorial(p + i) / (math.factorial(i) * math.factorial(p - i))
        total += ratio * (2 * a) ** (p - i)
    return np.asarray(np.exp(-a) * total * (math.factorial(p) / math.factorial(2 * p)))


def _matern_of_large_order(z2: Array, nu: float) -> Array:
    """DLMF, eq. (10.41.4), over its own limit at 0."""
    s = np.sqrt(1 + z2)
    excess = z2 / (1 + s)
    K = np.exp(-nu * (excess - np.log1p(excess / 2)))
    return np.asarray(K * _debye_sum(1 / s, nu) / (_debye_sum(np.ones(1), nu) * np.sqrt(s)))


def _debye_sum(t: Array, nu: float) -> Array:
    t2 = t * t
    u1 = t * (3 - 5 * t2) / 24
    u2 = t2 * (81 + t2 * (-462 + t2 * 385)) / 1152
    u3 = t * t2 * (30375 + t2 * (-369603 + t2 * (765765 - t2 * 425425))) / 414720
    u4 = 349922430 + t2 * (-446185740 + t2 * 185910725)
    u4 = t2 * t2 * (4465125 + t2 * (-94121676 + t2 * u4)) / 39813120
    return np.asarray(1 - (u1 - (u2 - (u3 - u4 / nu) / nu) / nu) / nu)


def _arc_cosine(X: Array, Z: Array, order: int) -> Array:
    x, z = np.sqrt(np.sum(X * X, axis=1)), np.sqrt(np.sum(Z * Z, axis=1))
    U, V = (R / np.where(r > 0.0, r, 1.0)[:, None] for R, r in ((X, x), (Z, z)))
    # By chords of the unit sphere, exact for nearly equal and nearly opposite directions.
    near = np.sqrt(_squared_distances(U, V)), np.sqrt(_squared_distances(U, -V))
    theta = 2.0 * np.arctan2(*near)
    theta[(x == 0.0)[:, None] | (z == 0.0)[None]] = math.pi / 2
    cosine, sine, rest = np.cos(theta), np.sin(theta), math.pi - theta
    if order == 0:
        return np.asarray(rest * np.outer(np.sign(x), np.sign(z)) / math.pi)
    if order == 1:
        return np.asarray((rest * cosine + sine) * np.outer(x, z) / math.pi)
    K = rest * (1 + 2 * cosine**2) + 3 * sine * cosine
    return np.asarray(K * np.outer(x * x, z * z) / math.pi)


def _series(T: Array, coefficients: Array | None) -> Array:
    if coefficients is None:
        return np.exp(T)
    return np.asarray(np.polynomial.polynomial.polyval(T, coefficients))


def _half_line(spec: Spec, X: Array, Z: Array) -> Array:
    kind, number = spec["of"], spec["number"]
    skewed = kind.startswith("skewed")
    _inside(X, -number if skewed else 0.0, open_low=skewed)
    if skewed:
        X, Z = X + number, Z + number
    if kind == "skewed_chi_squared":
        term = _ordered(lambda a, b: 2.0 * np.sqrt(a / b) / (1.0 + a / b))
        return _by_columns(X, Z, term, product=True)
    if kind == "skewed_intersection":
        return _by_columns(X, Z, _ordered(lambda a, b: np.sqrt(a / b)), product=True)
    if kind == "exponential_semigroup":
        sums = _by_columns(X, Z, lambda a, b: np.sqrt(a + b), product=False)
        return np.asarray(np.exp(-number * sums))
    if kind == "reciprocal_semigroup":
        return _by_columns(X, Z, lambda a, b: number / (a + b + number), product=True)
    terms: dict[str, Callable[[Array, Array], Array]] = {
        "hellinger": lambda a, b: np.sqrt(a) * np.sqrt(b),
        "chi_squared": lambda a, b: 2.0 * a / (1.0 + a / b),
        "intersection": lambda a, b: a,
        "jensen_shannon": _jensen_shannon,
    }
    return _by_columns(X, Z, _ordered(terms[kind]), product=False)


def _partitioned(spec: Spec, X: Array, Z: Array) -> Array:
    of_x, of_z = cells_of(spec["cells"], X), cells_of(spec["cells"], Z)
    K = np.zeros((len(X), len(Z)))
    for cell in np.intersect1d(of_x, of_z):
        i, j = np.flatnonzero(of_x == cell), np.flatnonzero(of_z == cell)
        K[np.ix_(i, j)] = kernel_values(spec["kernels"][cell], X[i], Z[j]) + spec["constant"]
    return K


_KERNELS: dict[str, Callable[[Spec, Array, Array], Array]] = {
    "gaussian": lambda s, X, Z: np.exp(_squared_distances(X, Z) * (-0.5 / s["length"] ** 2)),
    "laplacian": lambda s, X, Z: np.exp(
        _by_columns(X, Z, lambda a, b: np.abs(a - b), product=False) / -s["length"]
    ),
    "matern": lambda s, X, Z: _matern(_squared_distances(X, Z), s["nu"], s["length"]),
    "rational_quadratic": lambda s, X, Z: np.exp(
        -s["alpha"] * np.log1p(_squared_distances(X, Z) * (0.5 / (s["alpha"] * s["length"] ** 2)))
    ),
    "cauchy": lambda s, X, Z: _by_columns(
        X, Z, lambda a, b: 1.0 / (1.0 + ((a - b) / s["length"]) ** 2), product=True
    ),
    "constant": lambda s, X, Z: np.full((len(X), len(Z)), s["value"]),
    "polynomial": lambda s, X, Z: (s["scale"] * (X @ Z.T) + s["offset"]) ** s["degree"],
    "series": lambda s, X, Z: _series(s["scale"] * (X @ Z.T), s["coefficients"]),
    "arc_cosine": lambda s, X, Z: _arc_cosine(X, Z, s["order"]),
    "half_line": _half_line,
    "sum": lambda s, X, Z: kernel_values(s["left"], X, Z) + kernel_values(s["right"], X, Z),
    "product": lambda s, X, Z: kernel_values(s["left"], X, Z) * kernel_values(s["right"], X, Z),
    "scaled": lambda s, X, Z: s["factor"] * kernel_values(s["kernel"], X, Z),
    "mapped": lambda s, X, Z: kernel_values(s["kernel"], mapped(s["map"], X), mapped(s["map"], Z)),
    "partitioned": _partitioned,
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
    if spec["kind"] == "logarithm":
        _inside(X, -spec["shift"], open_low=True)
        return np.asarray(np.log(X + X.dtype.type(spec["shift"])))
    if spec["kind"] == "root":
        _inside(X, 0.0)
        return np.sqrt(X)
    return {"affine": _affine, "curves": _curves, "indicators": _indicators}[spec["kind"]](spec, X)


def _in_type(X: Array, dtype: str) -> Array:
    """Rows in the precision of a part; far ones so that their products do not overflow."""
    if dtype == "float32" and X.dtype != np.float32:
        X = np.clip(X, -1e30, 1e30)
    return X.astype(dtype)


# -- random features -------------------------------------------------------------------------------


def _turned(turns: Array, phases: Array, m: int, *, paired: bool) -> Array:
    """Cosines, or cosines and sines, of angles in turns."""
    turns, phases = turns.astype(np.float64), phases.astype(np.float64)
    if not paired:
        return np.asarray(np.cos(2 * math.pi * (turns + phases)))
    angles = 2 * math.pi * turns[:, : m // 2]
    last = np.cos(2 * math.pi * (turns[:, m // 2 :] + phases))
    return np.concatenate([np.cos(angles), np.sin(angles), last], axis=1)


def _hadamard(X: Array, signs: Array, scales: Array) -> Array:
    """Products of rows with signs, three transforms of Hadamard, and scales."""
    n, d = X.shape
    p = max(4, 1 << (d - 1).bit_length())
    pieces = []
    for start in range(0, scales.size, p):
        a = np.zeros((n, p))
        a[:, :d] = X
        for t in range(3):
            a = a * signs[t, start : start + p]
            h = 1
            while h < p:
                pairs = a.reshape(n, -1, 2, h)
                a = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2)
                a, h = a.reshape(n, p), 2 * h
        pieces.append(a)
    return np.concatenate(pieces, axis=1)[:, : scales.size] * scales


def _additive(spec: Spec, X: Array, numbers: list[Array], m: int) -> Array:
    _inside(X, 0.0)
    inputs, frequencies, phases = numbers
    logarithms = np.log(X, where=X != 0, out=np.zeros_like(X))
    Z = _turned(logarithms[:, inputs] * frequencies, phases, m, paired=spec["paired"])
    roots = np.sqrt(X)[:, inputs]
    if spec["paired"]:
        half = m // 2
        roots = np.concatenate([roots[:, :half], roots[:, :half], roots[:, half:]], axis=1)
    return np.asarray(Z * roots * math.sqrt(2 * X.shape[1] / m))


def _sketch(spec: Spec, X: Array, numbers: list[Array], m: int) -> Array:
    places, signs = numbers
    rows = np.concatenate(
        [np.full((len(X), 1), math.sqrt(spec["offset"])), X * math.sqrt(spec["scale"])], axis=1
    )
    spectrum = np.ones(m // 2 + 1, dtype=complex)
    for where, sign in zip(places, signs, strict=True):
        counts = np.zeros((m, len(rows)))
        np.add.at(counts, where, (rows * sign).T)
        spectrum = spectrum * np.fft.rfft(counts.T, axis=1)
    return np.fft.irfft(spectrum, n=m, axis=1)


def features(spec: Spec, X: Array, numbers: list[Array], m: int) -> Array:
    """Random features of rows of the type of the numbers, (n, m), in double precision."""
    kind = spec["kind"]
    if kind == "scaled":
        return math.sqrt(spec["factor"]) * features(spec["inner"], X, numbers, m)
    if kind == "mapped":
        return features(spec["inner"], mapped(spec["map"], X), numbers, m)
    if kind == "sum":
        n_left, shift, count = (int(number) for number in numbers[0])
        left = features(spec["left"], X, numbers[1 : 1 + count], n_left)
        right = features(spec["right"], X, numbers[1 + count :], m - n_left)
        return np.roll(np.concatenate([left, right], axis=1), shift, axis=1)
    if kind == "product":
        count, order = int(numbers[0][0]), numbers[1]
        left = features(spec["left"], X, numbers[2 : 2 + count], m)
        right = features(spec["right"], X, numbers[2 + count :], m)
        return np.asarray(left * (right[:, order] if order.size else right) * math.sqrt(m))
    if kind == "cosine":
        *frequencies, phases = numbers
        turns = _hadamard(X, *frequencies) if spec["hadamard"] else X @ frequencies[0]
        return math.sqrt(2 / m) * _turned(turns, phases, m, paired=spec["paired"])
    if kind == "additive":
        return _additive(spec, X, numbers, m)
    if kind == "sketch":
        return _sketch(spec, X, numbers, m)
    if kind == "series":
        X = X * X.dtype.type(spec["scale"])
        Z = np.tile(numbers[0].astype(np.float64) / math.sqrt(m), (len(X), 1))
        for columns, signs in zip(numbers[1::2], numbers[2::2], strict=True):
            Z[:, columns] *= X @ signs
        return Z
    projections = (X @ numbers[0]).astype(np.float64)
    if kind == "signs":
        return projections / math.sqrt(m)
    if kind == "exponential":
        _inside(X, 0.0)
        return np.asarray(np.exp(-projections) / math.sqrt(m))
    ramps = np.heaviside(projections, 0) if spec["order"] == 0 else np.maximum(projections, 0)
    return np.asarray(ramps ** max(spec["order"], 1) * math.sqrt(2 / m))


# -- functions -------------------------------------------------------------------------------------


def _expansion(spec: Spec, X: Array) -> Array:
    rows = _in_type(mapped(spec["map"], X.astype(spec["rows"])), spec["type"])
    K = kernel_values(spec["kernel"], rows, spec["points"])
    return np.asarray(K @ spec["coefficients"])


def _of_features(spec: Spec, X: Array) -> Array:
    rows = X.astype(spec["type"])
    values = np.zeros((len(X), spec["n_outputs"]))
    for block in spec["blocks"]:
        coefficients = block["coefficients"].astype(np.float64) * block["factor"]
        values += features(spec["map"], rows, block["numbers"], len(coefficients)) @ coefficients
    return values


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
    "features": _of_features,
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
