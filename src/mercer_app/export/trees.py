"""Fitted models as the plain trees that exported files read, and the Python files they become."""

from __future__ import annotations

import ast
import base64
import inspect
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import __version__
from mercer.columns import TablePreprocessor, calendar_parts, written
from mercer.columns.encoding import scales
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.null_values import NullValues, moment_of, number_of
from mercer.columns.readings import CODE, Reading
from mercer.columns.statistics import TableStatistics
from mercer.columns.target_means import CategoryMeans
from mercer.columns.views import Levels
from mercer.columns.written import CODES, FAMILIES
from mercer.estimators import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.estimators.estimator import without_columns
from mercer.features import CosineMap
from mercer.features.composite import ScaledMap
from mercer.functions import DictionaryFunction, KernelExpansion, RecursiveFunction, SumOfComponents
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process import DescentPosterior, DictionaryPosterior
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
from mercer.losses import Loss, Poisson
from mercer.maps import Affine, Chain, Curves, FixedMap, Indicators
from mercer.numerics.designs import hadamard_projections
from mercer.sums import CellsPart, Correction, GlobalPart, KernelBasis, TreesPart
from mercer_app.export import _runtime

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


# -- columns of tables -----------------------------------------------------------------------------


_MOST_PROBES = 50
_UNSEEN = "(a value that training did not have)"
# A moment, and the name of its month, in each order of dates.
_DATES = {
    "ymd": "{0:%Y-%m-%d %H:%M:%S}",
    "yy-m-d": "{0:%y-%m-%d %H:%M:%S}",
    "dmy": "{0:%d.%m.%Y %H:%M:%S}",
    "mdy": "{0:%m/%d/%Y %H:%M:%S}",
    "d month y": "{0.day} {1} {0.year}",
    "month d y": "{1} {0.day}, {0.year}",
    "month y": "{1} {0.year}",
    "y month d": "{0.year} {1} {0.day}",
    "month d time y": "{1} {0:%d %H:%M:%S %Y}",
    "yyyymmdd": "{0:%Y%m%dT%H%M%S}",
    "y年m月d日": "{0:%Y年%m月%d日 %H:%M:%S}",
    "m/y": "{0:%m/%Y}",
    "ymm": "{0.year}M{0:%m}",
    "y week d": "{0:%G-W%V-%u}",
    "week y": "W{0:%V/%G}",
    "y quarter": "{0.year}-Q{2}",
    "quarter y": "Q{2} {0.year}",
    "y-day": "{0:%Y-%jT%H:%M:%S}",
    "time": "{0:%H:%M:%S}",
}
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class _Names:
    """Names of the inputs, taken one after the other."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.at = names, 0

    def take(self, name: str) -> int:
        """Return the index of the next input if it has this name, else -1."""
        if self.at < len(self.names) and self.names[self.at] == name:
            self.at += 1
            return self.at - 1
        return -1


def table_tree(preprocessor: TablePreprocessor) -> Tree:
    """Return what a preprocessor does to tables as a tree.

    Raises
    ------
    ExportError
        If it makes inputs of a kind that exported files do not know.
    """
    statistics = preprocessor.statistics_
    names = _Names(preprocessor.feature_names_out())
    places = _number_places(statistics, preprocessor.scaling)
    columns = []
    for reading in preprocessor.readings_.values():
        if not reading.used:
            continue
        if reading.kind == "text":
            raise ExportError(
                f"The column {reading.name!r} is read as text, word by word, which exported files "
                "do not do. Leave it out or take it as categories in training, or load the model "
                "with mercer."
            )
        if reading.name not in places:
            columns.append(_levels(reading, statistics, names))
            continue
        parts: list[Tree] = [
            {
                "part": part,
                **places[name],
                "value": names.take(name),
                "missing": names.take(f"{name}=(missing)"),
            }
            for name, part in zip(reading.names, (None, *reading.parts), strict=True)
            if part != CODE
        ]
        columns.append(
            {
                "name": reading.name,
                "kind": "number",
                "form": _form(reading),
                "no_data": list(reading.marks),
                "parts": [part for part in parts if max(part["value"], part["missing"]) >= 0],
            }
        )
        if reading.coded:
            code = replace(reading, name=reading.names[1], kind="category")
            columns.append({**_levels(code, statistics, names), "name": reading.name})
    columns = [column for column in columns if _is_used(column)]
    nulls = preprocessor.nulls_
    for column in columns:
        column["marks"] = _marks_tree(nulls.named(column["name"]))
        if column["name"] in nulls.columns:
            column["gaps"] = gaps_tree(nulls, column["name"])
    if names.at < len(names.names):
        raise ExportError(
            f"The input {names.names[names.at]!r} is made of its column in a way that exported "
            "files do not know. Leave the column out, or load the model with mercer."
        )
    return {"columns": columns, "width": len(names.names), "type": str(preprocessor.dtype_)}


def gaps_tree(nulls: NullValues, column: str = "") -> Tree:
    """Return the cells of CSV files that stand for no value, in one column or all others."""
    return {"text": sorted(nulls.gaps(column)), "numbers": sorted(nulls.number_gaps(column))}


def _marks_tree(marks: Sequence[str]) -> Tree | None:
    """Return what was named as no value: as text, as numbers, and as seconds since 1970."""
    numbers = [number_of(mark) for mark in marks]
    moments = [moment_of(mark) for mark in marks]
    return (
        {
            "text": list(marks),
            "numbers": [number for number in numbers if number is not None],
            "moments": [moment for moment in moments if moment is not None],
        }
        if marks
        else None
    )


def modules_of(tree: Tree) -> list[ModuleType]:
    """Return the modules that read what is written as text, and dates, if a model has such."""
    table = tree["table"]
    numbers = [c for c in table["columns"] if c["kind"] == "number"] if table is not None else []
    forms = {column["form"]["kind"] for column in numbers if column["form"] is not None}
    has_parts = any(part["part"] is not None for column in numbers for part in column["parts"])
    modules = []
    if forms & {"number", "date", *CODES}:
        modules.append(written)
    if "compact" in forms or has_parts or tree["moments"] is not None:
        modules.append(calendar_parts)
    return modules


def _number_places(statistics: TableStatistics, scaling: str) -> dict[str, dict[str, float]]:
    """Return what takes the place of gaps in columns of numbers, and their centres and scales."""
    numbers = statistics.numbers
    center, scale = scales(numbers, scaling)
    return {
        name: {
            "fill": float(numbers.mean[row]),
            "center": float(center[row]),
            "scale": float(scale[row]),
        }
        for row, name in enumerate(statistics.number_names)
    }


def _form(reading: Reading) -> Tree | None:
    """How the values of a column are written; None for numbers and datetimes themselves."""
    form = reading.form
    if isinstance(form, NumberForm):
        return {"kind": "number", **vars(form)}
    if isinstance(form, DateForm):
        return {"kind": "date", "order": form.order}
    if form is not None:
        return {"kind": form if form in CODES else "compact"}
    # CSV has no type for times of day.
    return {"kind": "date", "order": "time"} if reading.kind == "time" else None


def _is_used(column: Tree) -> bool:
    """Whether a column makes an input: constant ones need not be in the rows."""
    if column["kind"] == "number":
        return bool(column["parts"])
    has_means = column["means"] is not None
    return has_means or max([column["missing"], *column["levels"].values()]) >= 0


def _levels(reading: Reading, statistics: TableStatistics, names: _Names) -> Tree:
    """Categories or truth values: means of the target, indicators of levels, others, and gaps."""
    name, seen = reading.name, statistics.levels[reading.name]
    means = _means(name, statistics, names)
    slots = {}
    for level in sorted(seen.counts):
        slot = names.take(f"{name}={level}")
        if slot >= 0:
            slots[level] = slot
    other = -1 if seen.boolean else names.take(f"{name}=(other)")
    missing = names.take(f"{name}=(missing)") if seen.missing else -1
    return {
        "name": name,
        "kind": "levels",
        "boolean": bool(seen.boolean),
        "numeric": reading.kind == "category" and not reading.was_text,
        "means": means,
        "levels": slots,
        "other": other,
        "missing": other if missing < 0 else missing,
    }


def _means(name: str, statistics: TableStatistics, names: _Names) -> Tree | None:
    """Means of the target in categories, if they are inputs; unknown ones and gaps are 0."""
    sums, targets = statistics.sums.get(name), statistics.targets
    if sums is None or targets is None:
        return None
    slots = [names.take(f"{name}:mean{code}") for code in targets.names]
    if slots[0] < 0:
        return None
    if statistics.repeats_tell():
        raise ExportError(
            f"The means of the target in {name!r} go by what is in the whole row, as most rows "
            "learned repeat others, which exported files do not do. Leave it out, or load the "
            "model with mercer."
        )
    levels = list(sums.sums)
    values = CategoryMeans(sums).transform(Levels(np.arange(len(levels)), levels))
    # The last row is for all other values.
    return {
        "first": slots[0],
        "rows": {level: row for row, level in enumerate(levels)},
        "values": np.vstack([values, np.zeros(len(slots))]),
    }


def probe_table(preprocessor: TablePreprocessor) -> dict[str, Any]:
    """Return rows with ends, middles, levels and gaps of all columns, to compare encodings on."""
    statistics = preprocessor.statistics_
    numbers = statistics.numbers
    row_of = {name: row for row, name in enumerate(statistics.number_names)}
    columns: dict[str, list[Any]] = {}
    for reading in preprocessor.readings_.values():
        name = reading.name
        if not reading.used:
            continue
        if name in row_of:
            row = row_of[name]
            ends = numbers.minimum[row], numbers.mean[row], numbers.maximum[row]
            columns[name] = [*(written_value(reading, float(end)) for end in ends), None]
        elif statistics.levels[name].boolean:
            columns[name] = [True, False, None]
        else:
            levels = sorted(statistics.levels[name].counts)[:_MOST_PROBES]
            columns[name] = [*levels, _UNSEEN, None]
    n = max(map(len, columns.values()))
    # Cycles of different lengths meet in many ways.
    return {name: [values[i % len(values)] for i in range(n)] for name, values in columns.items()}


def written_value(reading: Reading, value: float) -> float | str | None:
    """Write a value as its column has it."""
    form = reading.form
    if form is None:
        return value
    if isinstance(form, NumberForm):
        # Of several sizes the first is the one that numbers are read in.
        ones = [word for word, size in FAMILIES.get(form.scale, {}).items() if size == 1.0]
        unit = form.unit or "".join(ones[:1])
        return f"{value!r} {unit}".replace(".", form.decimal, 1)
    if form in CODES:
        return str(int(value)) if form == "digits" else np.base_repr(int(value), 36).zfill(10)
    if isinstance(form, DateForm) and form.is_duration:
        return _length(value, form.order.split("|")[0])
    moment = datetime(1970, 1, 1) + timedelta(seconds=value)
    if not isinstance(form, DateForm):
        return moment.year * 1e4 + moment.month * 100 + moment.day
    order = form.order.split("|")[0]
    order, mark = (order[:3], order[3:]) if order[:3] in ("dmy", "mdy") else (order, "")
    written = _DATES[order].format(moment, _MONTHS[moment.month - 1], (moment.month + 2) // 3)
    return written.replace("/" if order == "mdy" else ".", mark) if mark else written


def _length(seconds: float, order: str) -> str:
    """Write a duration."""
    sign, seconds = "-" if seconds < 0 else "", abs(seconds)
    if order == "h:m:s":
        days, rest = divmod(seconds, 86_400.0)
        hours, rest = divmod(rest, 3600.0)
        minutes, rest = divmod(rest, 60.0)
        return f"{sign}{int(days)} days {int(hours)}:{int(minutes):02}:{rest:09.6f}"
    return f"{sign}{seconds:.6f} s" if order == "1h 2m" else f"{sign}PT{seconds:.6f}S"


# -- functions -------------------------------------------------------------------------------------


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


# -- models ----------------------------------------------------------------------------------------


# What an exported model may differ by before it is refused, usually and at most, in units of its
# largest value: models in single precision differ by their own rounding errors.
_USUALLY, _AT_MOST = 1e-3, 5e-2
_PROBES = 64
_LINE = 120  # characters of base 64


def _tree(task: str, function: Tree, n_features: int, n_scores: int, **more: Any) -> Tree:
    usual = {
        "table": None,
        "classes": None,
        "link": None,
        "intercept": 0.0,
        "scale": 1.0,
        "moments": None,
        "offset": 0.0,
        "flat": True,
        "gaps": gaps_tree(NullValues()),
    }
    return {
        "task": task,
        "n_features": n_features,
        "n_scores": n_scores,
        "size": _size(function),
        "function": function,
        **usual,
        **more,
    }


def _size(tree: Any) -> int:
    """Return the number of coefficients, which determines how many rows are evaluated at a time."""
    if isinstance(tree, list):
        return sum(map(_size, tree))
    if not isinstance(tree, dict):
        return 0
    own = len(tree["coefficients"]) if isinstance(tree.get("coefficients"), np.ndarray) else 0
    return own + sum(map(_size, tree.values()))


def model_tree(model: Any) -> Tree:
    """Return a fitted model as a tree.

    Raises
    ------
    ExportError
        If a part of the model cannot be exported.
    """
    if _reads_tables(model):
        return _of_tables(model)
    if isinstance(model, GaussianProcessRegressor):
        check_is_fitted(model, "posterior_")
        function, mean = posterior_tree(model.posterior_)
        n_outputs = int(np.size(mean))
        flat = np.ndim(model.predict(np.zeros((1, model.n_features_in_)))) == 1
        return _tree(
            "gp",
            function,
            model.n_features_in_,
            n_outputs,
            intercept=mean,
            flat=flat,
            moments=_moments_of(model),
        )
    tasks = {
        KernelClassifier: ("classification", _of_classes),
        KernelRegressor: ("regression", _of_quantities),
        KernelRanker: ("rank", _of_scores),
        NoveltyDetector: ("novelty", _of_novelty),
        ValueFunction: ("value", _of_values),
    }
    if type(model) not in tasks:
        raise ExportError(
            f"A {type(model).__name__} cannot be exported. Export a KernelClassifier, "
            "KernelRegressor, KernelRanker, NoveltyDetector, GaussianProcessRegressor or "
            "ValueFunction."
        )
    check_is_fitted(model, "learner_")
    if getattr(model, "_columns", None) is not None:
        at_once = isinstance(model._columns, TablePreprocessor)
        raise ExportError(
            f"This {type(model).__name__} learned columns with gaps, text, categories, codes "
            "or dates "
            + ("that have no names" if at_once else "as a stream")
            + ". Exported files know such columns of a DataFrame that `fit` has learned: learn "
            "one, or load the model with mercer."
        )
    task, more = tasks[type(model)]
    if task == "rank" and not hasattr(model, "decision_function"):
        raise ExportError(
            f"This ranking, pair_kernel={model.pair_kernel!r}, answers on pairs of rows, not on "
            "rows. Train with pair_kernel='difference'."
        )
    function = function_tree(model.learner_.current_function())
    if model._map is not None:
        function = {"kind": "behind", "map": map_tree(model._map), "function": function}
    if model._level is not None:
        function = {"kind": "levelled", "level": model._level, "function": function}
    n_scores = model.targets_.n_scores if task != "value" else 1
    return _tree(task, function, model.n_features_in_, n_scores, **more(model))


def _of_classes(model: KernelClassifier) -> Tree:
    _check_loss(model.loss_)
    link = type(model.loss_).__name__.lower() if hasattr(model, "predict_proba") else None
    classes = np.array(model.classes_.tolist())
    if classes.dtype.kind not in "biufU" or classes.shape != model.classes_.shape:
        raise ExportError(
            f"The classes {model.classes_[:5]!r} are neither numbers, truth values nor text, which "
            "is all that an exported file holds. Number them."
        )
    return {"classes": classes, "link": link}


def _of_quantities(model: KernelRegressor) -> Tree:
    _check_loss(model.loss_)
    return {
        "intercept": np.array(model.targets_.intercept),
        "scale": np.array(model.targets_.unit),
        "moments": _moments_of(model),
        "link": "exponential" if isinstance(model.loss_, Poisson) else None,
        "flat": bool(model.targets_.flat),
    }


def _check_loss(loss: Loss) -> None:
    if not type(loss).__module__.startswith("mercer.losses"):
        raise ExportError(
            f"The loss {loss!r} is code of your own, and says what predictions are of scores. Use "
            "one of mercer.losses."
        )


def _of_scores(model: Any) -> Tree:
    return {}


def _of_values(model: ValueFunction) -> Tree:
    return {"scale": np.array([model.targets_.scale])}


def _of_novelty(model: NoveltyDetector) -> Tree:
    return {"offset": float(model.offset_)}


def _reads_tables(model: Any) -> bool:
    """Whether a model makes inputs of columns with names."""
    columns = getattr(model, "_columns", None)
    return isinstance(columns, TablePreprocessor) and hasattr(model, "feature_names_in_")


def _of_tables(model: Any) -> Tree:
    tree = model_tree(without_columns(model))
    tree["table"] = table_tree(model.preprocessor_)
    tree["gaps"] = gaps_tree(model.preprocessor_.nulls_)
    if tree["task"] in ("regression", "gp"):
        tree["moments"] = _moments_of(model)
    return tree


def _moments_of(model: Any) -> Any:
    """Return how dates or times are answered; None for numbers."""
    return None if model.target_form_ is None else model.target_form_.moments


# -- checking --------------------------------------------------------------------------------------


def check_tree(tree: Tree, model: Any) -> None:
    """Compare what a tree predicts with the model, on a few rows.

    Raises
    ------
    ExportError
        If they differ by more than rounding errors of single precision.
    """
    # Dates are compared as numbers.
    exported = _runtime.Model({**tree, "table": None, "moments": None})
    estimator = without_columns(model)
    rows: Any = None
    if _reads_tables(model):
        table = probe_table(model.preprocessor_)
        rows = model.preprocessor_.transform(table, extra="drop")
        found = _runtime.encoded(tree["table"], table)
        if not np.allclose(found, rows):
            at = int(np.argmax(np.abs(found - rows).max(axis=0)))
            name = model.preprocessor_.feature_names_out()[at]
            raise ExportError(
                f"The input {name!r} is made of its column in a way that exported files do not "
                "know. Leave the column out, or load the model with mercer."
            )
    else:
        rows = _probes(model)
    scored = hasattr(estimator, "decision_function")
    if scored:
        expected, found = estimator.decision_function(rows), exported.decision_function(rows)
    else:
        expected = estimator.predict(rows)
        found = exported.predict(rows)
    largest = float(np.abs(expected).max(initial=0.0))
    differ = np.abs(np.asarray(found) - expected)
    fits = np.median(differ) <= _USUALLY * largest and differ.max() <= _AT_MOST * largest
    if not fits:
        raise ExportError(
            f"The exported model would differ from this one by up to {float(differ.max()):.2g} "
            f"where its values reach {largest:.2g}. This is a fault of mercer: please report it, "
            "and load the model with mercer until then."
        )


def _probes(model: Any) -> NDArray[Any]:
    """Return some rows to compare a model of arrays on: of its points, if it has any."""
    n = model.n_features_in_
    rows = np.abs(np.random.default_rng(0).normal(size=(_PROBES, n)))
    learner = getattr(model, "learner_", None)
    function = None if learner is None else learner.current_function()
    if isinstance(function, SumOfComponents):
        parts = [part for _, part in function.used if isinstance(part, GlobalPart)]
        found = [part.dictionary[:_PROBES] for part in parts]
    else:
        found = [p[:_PROBES] for p in [getattr(model, "dictionary_", None)] if p is not None]
    found = [np.asarray(points, dtype=np.float64) for points in found if len(points)]
    return np.concatenate(found) if found else rows


# -- files -----------------------------------------------------------------------------------------


def source_of(model: Any) -> str:
    """Return the text of a Python file that predicts as a model does.

    Raises
    ------
    ExportError
        If it cannot be exported.
    """
    tree = model_tree(model)
    check_tree(tree, model)
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_without_arrays(tree, arrays), allow_nan=False)
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)  # type: ignore[arg-type]
    packed = base64.b64encode(archive.getvalue()).decode()
    lines = "\n".join(packed[i : i + _LINE] for i in range(0, len(packed), _LINE))
    return "\n".join([_head(model, tree), _runtime_text(tree), *_tail(tree, text, lines)])


def _without_arrays(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Put names in the place of arrays."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {key: _without_arrays(each, arrays) for key, each in value.items()}
    return [_without_arrays(each, arrays) for each in value] if isinstance(value, list) else value


def _runtime_text(tree: Tree) -> str:
    """Return the text of the modules that predict, as one module without a docstring."""
    imports: dict[str, None] = {}
    bodies = []
    for module in (*modules_of(tree), _runtime):
        source, last = inspect.getsource(module), 0
        for node in ast.parse(source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                if not (getattr(node, "module", None) or "").startswith("mercer"):
                    imports[ast.unparse(node)] = None
            elif not ast.unparse(node).startswith("__all__ ="):
                continue
            last = node.end_lineno or 0
        bodies.append("\n".join(source.splitlines()[last:]).strip("\n"))
    future, *others = sorted(imports, key=_place_of_import)
    return "\n".join([future, "", *others, "", "\n\n\n".join(bodies), ""])


def _place_of_import(line: str) -> tuple[bool, bool, bool, str]:
    return "__future__" not in line, "numpy" in line, line.startswith("from"), line


def _head(model: Any, tree: Tree) -> str:
    answers = ", ".join(f"{name}(rows)" for name in _answers_of(tree))
    if tree["table"] is None:
        rows = f"rows: an array of shape (n_rows, {tree['n_features']})"
    else:
        names = list(dict.fromkeys(column["name"] for column in tree["table"]["columns"]))
        rows = (
            "rows: a dict of columns, a list of dicts, or a data frame, with the columns\n"
            f"{json.dumps(names)}"
        )
    text = (
        f"{type(model).__name__}, exported by mercer {__version__}. Needs NumPy only.\n\n"
        f"{answers}\n{rows}\n\n"
        "As a program it takes a CSV file and writes predictions as CSV."
    )
    # Names of columns are any text: none may end the docstring.
    return f"{_docstring(text)}\n"


def _docstring(text: str) -> str:
    return '"""' + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') + '\n"""'


def _answers_of(tree: Tree) -> Iterator[str]:
    yield "predict"
    if tree["link"] in ("logistic", "softmax"):
        yield "predict_proba"
    if tree["task"] in ("classification", "novelty", "rank"):
        yield "decision_function"


def _tail(tree: Tree, text: str, lines: str) -> Iterator[str]:
    yield f"\n_TREE = {text!r}\n"
    yield f'_ARRAYS = """\n{lines}\n"""\n'
    yield "model = load(_TREE, _ARRAYS)"
    for name in _answers_of(tree):
        yield f"{name} = model.{name}"
    yield '\nif __name__ == "__main__":\n    main(model, sys.argv[1:])\n'
