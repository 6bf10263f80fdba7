"""Answers of exported models, to arrays and tables: NumPy and nothing else.

The text of this module is put into exported files, and where columns need it that of
``mercer.columns.written`` and ``calendar_parts``, so that these import nothing of mercer but each
other. A model is a tree of plain dicts, each with a ``kind``, whose arrays are in an archive; every
kind is a few lines here. Numbers are those of the model; sums over points are in double precision.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Files have the text of these two only if the model has such columns.
from mercer.columns.calendar_parts import PARTS, as_moments, compact_dates
from mercer.columns.written import CODES, read_codes, read_dates, read_numbers

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


# -- tables ----------------------------------------------------------------------------------------


def _columns(rows: Any, names: Sequence[str]) -> dict[str, Any]:
    """Take the columns of a dict, of one row or a list of rows as dicts, or of a data frame."""
    if isinstance(rows, Mapping) and rows and not any(np.ndim(value) for value in rows.values()):
        rows = [rows]
    if not isinstance(rows, Mapping) and not hasattr(rows, "columns"):
        rows = list(rows)
        if not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(
                "`rows` must have named columns: give a dict of columns, a list of dicts or a data "
                "frame."
            )
        known = {name for row in rows for name in row} if rows else set(names)
        rows = {name: [row.get(name) for row in rows] for name in names if name in known}
    found = set(rows.keys() if isinstance(rows, Mapping) else rows.columns)
    missing = [name for name in names if name not in found]
    if missing:
        needs = ", ".join(map(repr, names[:20])) + ", ..." * (len(names) > 20)
        raise ValueError(f"The table has no column {missing[0]!r}. The model needs {needs}.")
    columns = {name: rows[name] for name in names}
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("The columns have different numbers of rows.")
    return columns


def _is_gap(value: Any) -> bool:
    # Libraries have gaps of their own, some of which are not even equal to anything.
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>"))


def _is_mark(cell: Any, marks: Spec) -> bool:
    """Whether a cell is what somebody named as no value."""
    if _is_gap(cell) or isinstance(cell, bool | np.bool_):
        return False
    if isinstance(cell, str):
        return cell.strip() in marks["text"]
    if isinstance(cell, time):
        return cell.isoformat() in marks["text"]
    if isinstance(cell, np.datetime64) or hasattr(cell, "isoformat"):
        return _number(cell, "") in marks["moments"]
    kind = type(cell) if isinstance(cell, np.floating) else float
    return any(cell == kind(number) for number in marks["numbers"])


def _numbers(cells: Any, name: str, form: Spec | None) -> Array:
    """Numbers of a column, NaN for gaps; times are seconds since 1970, or since midnight."""
    array = np.asarray(cells)
    if array.dtype.kind in "mM":
        seconds = array.astype(f"{array.dtype.kind}8[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(array), math.nan, seconds)
    kind, has_dates = "" if form is None else form["kind"], False
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
    else:
        as_text = kind not in ("", "compact")
        written = [as_text and isinstance(cell, str | time) for cell in cells]
        texts = list({str(cell) for cell, is_text in zip(cells, written, strict=True) if is_text})
        values = dict(zip(texts, _read(texts, form), strict=True)) if texts and form else {}
        found = [
            values[str(cell)] if is_text else _number(cell, name)
            for cell, is_text in zip(cells, written, strict=True)
        ]
        numbers = np.array(found, dtype=np.float64)
        has_dates = any(hasattr(cell, "isoformat") and not _is_gap(cell) for cell in cells)
    if kind == "compact" and not has_dates:
        numbers = compact_dates(numbers)
    if np.isinf(numbers).any():
        raise ValueError(f"Column {name!r} must hold finite numbers, got infinity.")
    return numbers


def _read(texts: Sequence[str], form: Spec) -> Array:
    if form["kind"] == "number":
        return read_numbers(texts, form["decimal"], form["unit"], form["scale"])
    if form["kind"] in CODES:
        return read_codes(texts, form["kind"])
    return read_dates(texts, form["order"])


def _number(value: Any, name: str) -> float:
    if _is_gap(value):
        return math.nan
    if hasattr(value, "total_seconds"):
        return float(value.total_seconds())
    if isinstance(value, np.datetime64) or hasattr(value, "isoformat"):
        if getattr(value, "tzinfo", None) is not None:
            return float(value.timestamp())
        return float(np.datetime64(value, "us").astype(np.int64)) / 1e6
    if isinstance(value, str):
        raise ValueError(f"Column {name!r} must hold numbers, got {value!r}.")
    return float(value)


def _level(value: Any, column: Spec) -> str | None:
    if _is_gap(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if column["numeric"] and not isinstance(value, str):
        number = _number(value, column["name"])
        return str(int(number)) if number.is_integer() else str(number)
    return str(value).lower() if column["boolean"] else str(value)


def _write_numbers(column: Spec, cells: Any, X: Array) -> None:
    values = _numbers(cells, column["name"], column["form"])
    with np.errstate(over="ignore"):
        for mark in column["no_data"]:  # as -9999, in whatever precision
            values = np.where(np.abs(values - mark) <= 2e-6 * abs(mark), math.nan, values)
    for part in column["parts"]:
        numbers = values if part["part"] is None else PARTS[part["part"]](values)
        gaps = np.isnan(numbers)
        if part["value"] >= 0:
            filled = np.where(gaps, part["fill"], numbers)
            X[:, part["value"]] = (filled - part["center"]) / part["scale"]
        if part["missing"] >= 0:
            X[:, part["missing"]] = gaps


def _write_levels(column: Spec, cells: Any, X: Array) -> None:
    levels = [_level(cell, column) for cell in cells]
    slots = column["levels"]
    for i, level in enumerate(levels):
        slot = column["missing"] if level is None else slots.get(level, column["other"])
        if slot >= 0:
            X[i, slot] = 1.0
    if column["means"] is not None:
        rows, values, first = (column["means"][key] for key in ("rows", "values", "first"))
        # The last row is that of gaps and of what training did not have.
        X[:, first : first + values.shape[1]] = values[[rows.get(level, -1) for level in levels]]


def encoded(spec: Spec, rows: Any) -> Array:
    """Return the inputs of the rows of a table, (n, width)."""
    columns = _columns(rows, [column["name"] for column in spec["columns"]])
    X = np.zeros((len(next(iter(columns.values()))), spec["width"]))
    for column in spec["columns"]:
        write = _write_numbers if column["kind"] == "number" else _write_levels
        cells = columns[column["name"]]
        if column["marks"]:
            cells = [None if _is_mark(cell, column["marks"]) else cell for cell in cells]
        write(column, cells, X)
    return X.astype(spec["type"])


# -- models ----------------------------------------------------------------------------------------

_CHUNK = 2**21  # kernel values at a time


class Model:
    """A model that only predicts.

    Parameters
    ----------
    spec : dict
        The tree, with arrays in it.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def inputs(self, rows: Any) -> Array:
        """Rows as the function takes them, checked."""
        spec = self.spec
        if spec["table"] is not None:
            X = encoded(spec["table"], rows)
        else:
            X = np.asarray(rows)
            X = X if X.dtype == np.float32 else X.astype(np.float64)
            if X.ndim != 2 or X.shape[1] != spec["n_features"]:
                raise ValueError(
                    f"`rows` must have shape (n_rows, {spec['n_features']}), got {X.shape}."
                )
        if not np.isfinite(X).all():
            raise ValueError("`rows` must be finite numbers, got NaN or infinity.")
        return np.asarray(X)

    def _by_pieces(self, rows: Any, function: Callable[[Array], Array], n_columns: int) -> Array:
        """Values of a function of inputs, made for some rows at a time."""
        X = self.inputs(rows)
        step = max(1, _CHUNK // max(1, self.spec["size"]))
        pieces = [function(X[start : start + step]) for start in range(0, len(X), step)]
        return np.concatenate([np.empty((0, n_columns)), *pieces])

    def scores(self, rows: Any) -> Array:
        """Values of the function at rows, (n, n_scores)."""
        function, n = self.spec["function"], self.spec["n_scores"]
        return self._by_pieces(rows, lambda X: function_values(function, X)[:, :n], n)

    def decision_function(self, rows: Any) -> Array:
        """Scores of rows."""
        scores = self.scores(rows)
        if self.spec["task"] != "classification":
            return np.asarray(scores[:, 0] - self.spec["offset"])
        if len(self.spec["classes"]) > 2:
            return scores
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0])

    def predict_proba(self, rows: Any) -> Array:
        """Probabilities of the classes."""
        F = self.scores(rows)
        if len(self.spec["classes"]) == 1:
            return np.ones((len(F), 1))
        if self.spec["link"] == "logistic":
            F = np.hstack([-F, F]) if F.shape[1] == 1 else F
            logs = -np.logaddexp(0.0, -F)
        else:
            logs = F
        P = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def predict(self, rows: Any) -> Array:
        """Labels, quantities, scores or values of rows."""
        spec = self.spec
        if spec["task"] == "classification":
            F, classes = self.scores(rows), spec["classes"]
            if len(classes) == 1:
                return np.repeat(classes, len(F))
            best = F[:, 0] > 0 if F.shape[1] == 1 else F.argmax(axis=1)
            return np.asarray(classes[best.astype(np.int64)])
        if spec["task"] == "novelty":
            return np.where(self.decision_function(rows) < 0.0, -1, 1)
        if spec["task"] == "rank":
            return self.decision_function(rows)
        values = self.scores(rows)
        if spec["link"] == "exponential":
            values = np.exp(np.minimum(values, 30.0))
        values = values * spec["scale"] + spec["intercept"]
        flat = spec["flat"] and values.shape[1] == 1
        values = np.asarray(values[:, 0] if flat else values)
        written = spec["moments"]
        if written is None:
            return values
        return as_moments(values * written["size"], written["step"], written["clock"])


def load(tree: str, archive: str) -> Model:
    """Read a model from its tree, as JSON, and the archive of its arrays, in base 64."""
    with np.load(io.BytesIO(base64.b64decode(archive)), allow_pickle=False) as arrays:
        numbers = {name: arrays[name] for name in arrays.files}

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"array"} and isinstance(value["array"], str):
                return numbers[value["array"]]
            return {name: filled(each) for name, each in value.items()}
        return [filled(each) for each in value] if isinstance(value, list) else value

    return Model(filled(json.loads(tree)))


def main(model: Model, arguments: Sequence[str]) -> None:
    """Predict for the rows of a CSV file, the first argument; writes CSV to standard output.

    Ends with 2 and a line about the error if there are no such rows.
    """
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise ValueError("Give the name of a CSV file, whose first line names its columns.")
        _predict_file(model, arguments[0])
        sys.stdout.flush()
    except BrokenPipeError:  # who reads the predictions has enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(2) from None


def _predict_file(model: Model, path: str) -> None:
    with open(path, "rb") as file:
        lines = io.StringIO(_decoded(file.read()), newline="")
    separator = max(",;\t", key=lines.readline().count)
    lines.seek(0)
    read = csv.DictReader(lines, delimiter=separator)
    table, spec = model.spec["table"], model.spec
    gaps = {} if table is None else {c["name"]: set(_csv_gaps(c, spec)) for c in table["columns"]}
    usual = set(spec["gaps"]["numbers"])
    rows = []
    for row in read:
        if None in row:
            raise ValueError(f"Line {read.line_num} has more cells than the first line has names.")
        rows.append(
            {k: None if v is None or v.strip() in gaps.get(k, usual) else v for k, v in row.items()}
        )
    if not rows:
        raise ValueError(f"{path} has no rows below a line of names.")
    if table is None:
        cells = [[_as_number(cell, separator) for cell in row.values()] for row in rows]
        given: Any = np.array([[math.nan if c is None else c for c in row] for row in cells])
    else:
        numbers = [column["name"] for column in table["columns"] if _has_numbers(column)]
        read_too = [k for k in numbers if k in rows[0]]
        given = [{**row, **{k: _as_number(row[k], separator) for k in read_too}} for row in rows]
    values = np.asarray(model.predict(given))
    columns = list(values.T) if values.ndim == 2 else [values]
    names = [f"prediction_{i}" for i in range(len(columns))] if len(columns) > 1 else ["prediction"]
    if spec["link"] in ("logistic", "softmax"):
        columns += list(model.predict_proba(given).T)
        names += [f"probability_{label}" for label in spec["classes"]]
    elif spec["task"] == "novelty":
        columns, names = [*columns, model.decision_function(given)], [*names, "score"]
    writer = csv.writer(sys.stdout)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))


def _decoded(content: bytes) -> str:
    """Read text in UTF-8 or UTF-16, or else in Windows-1252, of which Latin-1 is a part."""
    utf16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if utf16 else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def _csv_gaps(column: Spec, spec: Spec) -> Any:
    """Cells of a CSV file that stand for no value in a column."""
    kind = "numbers" if _has_numbers(column) or column.get("boolean") else "text"
    return (column.get("gaps") or spec["gaps"])[kind]


def _has_numbers(column: Spec) -> bool:
    """Whether the cells of a column in CSV are numbers and dates, not text that is read later."""
    if column["kind"] == "levels":
        return bool(column["numeric"])
    return column["form"] is None or column["form"]["kind"] == "compact"


def _as_number(text: str | None, separator: str) -> Any:
    """Read a number, or a date and time in the format of ISO 8601."""
    if text is None:
        return None
    try:
        # A comma that separates no columns stands before decimals.
        return float(text if separator == "," else text.replace(",", "."))
    except ValueError:
        pass
    try:
        return np.datetime64(text)
    except ValueError:
        return text  # which is refused where the column is named
