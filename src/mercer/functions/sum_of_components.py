"""The weighted sum of components that the default learner learns, each a kernel expansion.

Fitted models show components as ``parts_``. A *pilot* is a small one that takes part in a race, a
*candidate* its map and length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.component import from_config, to_config
from mercer.expansions import Auto
from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.maps import Affine, FixedMap, Leaves
from mercer.selection import RaceResult
from mercer.sums import (
    BasisPart,
    Cell,
    CellsPart,
    Correction,
    GlobalPart,
    LocalFunction,
    Rows,
    Statistics,
    TreesPart,
    no_range,
    rows_at_once,
)
from mercer.sums.cells import CELL_RIDGES
from mercer.sums.correction import Features
from mercer.sums.ridge import RIDGES
from mercer.threads import in_order
from mercer.validation import check_choice, check_integer, check_real

_PRECISIONS = ("float32", "float64")
_NUMBERS = ("block", "is_stale", "races", "ridge")
_CORRECTION = ("centre", "scale", "ends", "line", "coefficients")
_OF_RISKS = ("inner", "scalars")
_NODES = ("columns", "cuts", "children", "roots")

Array = NDArray[np.float64]
Component = GlobalPart | CellsPart | TreesPart


class SumOfComponents:
    r"""The function :math:`f = \sum_p v_p f_p`, or what a loss makes of it; 0 without a component.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved: that of the only component, if :attr:`races` is False.
    expansion : Auto
        What may be spent.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype or None
        Of the inputs; None for float64.

    Attributes
    ----------
    components : list of GlobalPart, CellsPart or TreesPart
        The components.
    weights : ndarray of shape (n_components,)
        Their weights, at least 0.
    bend : float
        The number b, at least 0: scores of classes are the steeper, the surer they are, see
        :func:`mercer.selection.calibrate`.
    correction : Correction or None
        What takes f to the minimum of a loss of numbers that is not the squared one, or of a risk.
    level : ndarray of shape (n_outputs,) or None
        What is added to all scores in the end, so that means of predictions are right; None for 0.
    races : bool
        Whether a race on the first rows chooses the kernels.
    race_result : RaceResult or None
        What it found.
    block : int
        Rows that were held out together when kernels and weights were chosen.
    ridge : float or None
        The ridge of all components, if it is not theirs to choose.
    is_stale : bool
        Whether coefficients or weights are those of another ridge, other outputs or other
        components, so that they are to be solved for again.
    """

    averaging = None

    def __init__(
        self, kernel: Kernel, expansion: Auto, n_features: int, n_outputs: int, dtype: Any
    ) -> None:
        self.given_kernel = kernel
        self.expansion = expansion
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.dtype = np.dtype(np.float64 if dtype is None else dtype)
        self.components: list[Component] = []
        self.weights = np.zeros(0)
        self.bend = 0.0
        self.correction: Correction | None = None
        self.level: Array | None = None
        self.races = True
        self.race_result: RaceResult | None = None
        self.block = 1
        self.ridge: float | None = None
        self.is_stale = False

    def evaluate(self, X: Any) -> Array:
        """Values at rows, dense or CSR, shape (n, n_outputs)."""
        values = self.before_level(X)
        return values if self.level is None else values + self.level

    def before_level(self, X: Any) -> Array:
        """Values at rows, dense or CSR, shape (n, n_outputs), less the :attr:`level`."""
        if not isinstance(X, np.ndarray):
            values = np.zeros((X.shape[0], self.n_outputs))
            chunk = rows_at_once(X.shape[1])
            for start in range(0, len(values), chunk):
                some = slice(start, start + chunk)
                values[some] = self.before_level(X[some].toarray())
            return values
        n_values = self.n_outputs if self.correction is None else self.correction.n_values
        values = np.zeros((X.shape[0], n_values))
        used = self.used
        found = in_order(lambda pair: pair[1].evaluate(X), used)
        for (weight, _), mine in zip(used, found, strict=True):
            values += weight * mine
        return self.bent(values) if self.correction is None else self.correction(X, values)

    def bent(self, values: Array) -> Array:
        """Values of the function, from those of the weighted sum of the components."""
        return values + self.bend * values**3 if self.bend else values

    @property
    def used(self) -> list[tuple[float, Component]]:
        """Components that count, with their weights."""
        pairs = zip(self.weights, self.components, strict=True)
        return [(float(weight), component) for weight, component in pairs if weight > 0.0]

    @property
    def size(self) -> int:
        """Points of all components that count."""
        return sum(component.n_points for _, component in self.used)

    @property
    def kernel_of_inputs(self) -> Kernel | None:
        """Kernel of the component on one dictionary that counts most; None without any."""
        pairs = zip(self.weights, self.components, strict=True)
        found = [(weight, part.kernel) for weight, part in pairs if isinstance(part, GlobalPart)]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    @property
    def kernel(self) -> Kernel:
        """Kernel of the only component; AttributeError if there are several."""
        return self._only()[1].kernel if self.components else self.given_kernel

    @property
    def dictionary(self) -> Any:
        """Points of the only component, in units of the inputs; AttributeError if several."""
        if not self.components:
            return np.empty((0, self.n_features), self.dtype)
        return self._only()[1].dictionary

    @property
    def coefficients(self) -> Array:
        """Coefficients of the :attr:`dictionary`; AttributeError if there are several."""
        if not self.components:
            return np.zeros((0, self.n_outputs))
        weight, component = self._only()
        if self.bend:
            raise AttributeError(
                "The scores of this model are f + b f³ of a kernel expansion f, so that they are "
                "calibrated, and have no coefficients: those of f are in `parts_`."
            )
        if self.correction is not None:
            raise AttributeError(
                "This model is a kernel expansion found by least squares and what its loss adds to "
                "it, and has no coefficients: those of the first are in `parts_`."
            )
        if self.level is not None:
            raise AttributeError(
                "The scores of this model are a kernel expansion and a number, with which the mean "
                "of what is predicted is right, and have no coefficients: those of the first are "
                "in `parts_`, and the number is `level_`."
            )
        return weight * component.coefficients

    def _only(self) -> tuple[float, GlobalPart]:
        used = self.used
        if len(used) != 1 or not isinstance(used[0][1], GlobalPart):
            raise AttributeError(
                f"This model is a sum of {len(used)} parts ({self.size} points), each with a "
                "kernel, a dictionary and coefficients of its own: see `parts_`. For a single "
                "dictionary choose expansion=Dictionary() or KOMP()."
            )
        return used[0][0], used[0][1]

    def set_ridge(self, ridge: float | None) -> None:
        """Use another ridge, or choose it (None), from the next solution on."""
        if ridge != self.ridge:
            self.ridge, self.is_stale = ridge, True
            for component in self.components:
                component.fix_ridge(ridge)

    def replace_components(self, components: list[Component]) -> None:
        """Take other components, with the :attr:`ridge` if there is one."""
        self.components = components
        if self.ridge is not None:
            for component in components:
                component.fix_ridge(self.ridge)

    def map_outputs(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: class codes of the new ones, y @ ``codes`` + ``offset``."""
        for component in self.components:
            component.map_targets(codes, offset)
        self.n_outputs = codes.shape[1]
        self.correction, self.level, self.is_stale = None, None, True

    def keep_previous(self) -> None:
        """Do nothing: there are no steps that a risk could track."""

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self, *, sums: bool = True) -> dict[str, Any]:
        """Return what predicting needs as plain data, and with ``sums`` what learning does."""
        result = self.race_result
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        if self.bend:
            numbers["bend"] = self.bend
        states = [component_to_state(component, sums=sums) for component in self.components]
        corrected = self.correction
        return {
            **({} if corrected is None else {"correction": correction_to_state(corrected)}),
            "numbers": numbers,
            "arrays": {
                "v": self.weights.copy(),
                **({} if self.level is None else {"level": self.level.copy()}),
            },
            "contest": None if result is None else result.to_state(),
            "parts": {str(i): state for i, state in enumerate(states)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`.

        Raises
        ------
        ValueError
            If the pieces do not fit together.
        """
        numbers = {"bend": 0.0, **state["numbers"]}  # there is none of scores that are not bent
        states = state["parts"]
        n, corrected = len(states), state.get("correction")
        n_values = int(states["0"]["coefficients"].shape[1]) if n else self.n_outputs
        self.correction = None
        if corrected is None:
            self.n_outputs = n_values
        else:
            self.n_outputs = int(corrected["line"].shape[1])
            shape = self.n_features, n_values, self.n_outputs
            self.correction = correction_from_state(corrected, *shape)
        components = [
            component_from_state(states[str(i)], self.n_features, n_values) for i in range(n)
        ]
        weights = state["arrays"]["v"]
        fits = weights.shape in {(n,), (0,)} and weights.dtype == np.float64
        if not fits or not (weights >= 0.0).all():
            raise ValueError("the weights of the parts do not fit them")
        self.weights = weights.copy()
        level = state["arrays"].get("level")
        self.level = None if level is None else _finite("level", level, (self.n_outputs,))
        self.bend = check_real("bend", numbers["bend"], low=0.0)
        self.block = check_integer("block", numbers["block"], low=1)
        self.is_stale, self.races = bool(numbers["is_stale"]), bool(numbers["races"])
        ridge = numbers["ridge"]
        self.ridge = None if ridge is None else check_real("ridge", ridge, low=0.0)
        self.replace_components(components)
        result = state["contest"]
        self.race_result = None if result is None else RaceResult.from_state(result)


@dataclass(frozen=True)
class FittedPart:
    """One term of a sum of kernel expansions.

    Its values are ``weight * kernel(map(X), dictionary) @ coefficients``, of trees with the
    indicators of their leaves for a map and a linear kernel; those of cells are cut
    to the range of the targets that the cell has seen, which :meth:`evaluate` does. On a stream a
    half of a cell that was split predicts as the whole one did, with its length scale and all of
    its points, until it has rows of its own; only :meth:`evaluate` knows that.

    Attributes
    ----------
    form : {"global", "cells", "trees"}
        One dictionary for the whole space, one for each cell, or the leaves of trees.
    weight : float
        Weight in the sum, above 0.
    map : FixedMap or Leaves
        Map of the inputs.
    kernel : Kernel
        Kernel of mapped inputs.
    dictionary : ndarray of shape (n_points, n_mapped)
        Points, mapped.
    coefficients : ndarray of shape (n_points, n_outputs)
        Coefficients.
    """

    form: str
    weight: float
    map: FixedMap | Leaves
    kernel: Kernel
    dictionary: NDArray[np.floating] = field(repr=False)
    coefficients: NDArray[np.float64] = field(repr=False)
    _part: Component = field(repr=False)

    @classmethod
    def of(cls, weight: float, part: Component) -> FittedPart:
        """Part with its weight."""
        if isinstance(part, TreesPart):
            leaves = part.dictionary
            return cls(part.form, weight, part.map, part.kernel, leaves, part.coefficients, part)
        map: FixedMap | None = None
        kernel = part.kernel
        if isinstance(kernel, Mapped) and isinstance(kernel.map, FixedMap):
            map, kernel = kernel.map, kernel.kernel
        points = part.dictionary
        if map is None:
            n = points.shape[1]
            map = Affine(np.zeros(n), np.ones(n))
        elif part.form == "global":
            points = map(points)
        return cls(part.form, weight, map, kernel, points, part.coefficients, part)

    def evaluate(self, X: Any) -> NDArray[np.float64]:
        """Values at rows of shape (n, n_features): (n, n_outputs)."""
        return self.weight * self._part.evaluate(np.asarray(X))


# -- components as plain data ----------------------------------------------------------------------
# Cells are many and small, so their arrays are stored one after the other.


def component_to_state(component: Component, *, sums: bool) -> dict[str, Any]:
    """Everything that predicting with a component needs, and with ``sums`` learning, too."""
    if isinstance(component, GlobalPart):
        return _global_to_state(component, sums)
    if isinstance(component, TreesPart):
        return _trees_to_state(component, sums)
    return _cells_to_state(component, sums)


def component_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> Component:
    """Inverse of :func:`component_to_state`.

    Raises
    ------
    ValueError
        If the pieces do not fit together.
    """
    if state["form"] == "global":
        return _global_from_state(state, n_features, n_outputs)
    if state["form"] == "trees":
        return _trees_from_state(state, n_features, n_outputs)
    if state["form"] == "cells":
        return _cells_from_state(state, n_features, n_outputs)
    raise ValueError(f"there is no part of the form {state['form']!r}")


def _global_to_state(part: GlobalPart, sums: bool) -> dict[str, Any]:
    return {
        "form": part.form,
        "kernel": to_config(part.kernel),
        "points": part.dictionary,
        "precision": part.basis.dtype.name,
        **_basis_to_state(part, sums),
    }


def _trees_to_state(part: TreesPart, sums: bool) -> dict[str, Any]:
    forest = part.map.get_params()
    arrays = {name: np.array(forest[name]) for name in _NODES}
    return {"form": part.form, **arrays, "seed": part.seed, **_basis_to_state(part, sums)}


def _basis_to_state(part: BasisPart, sums: bool) -> dict[str, Any]:
    sums = sums and not part.is_exact  # there are none, nor rows kept back
    return {
        "is_exact": part.is_exact,
        "coefficients": part.coefficients,
        "without_held": part.without_held if sums else None,
        "ridge": part.ridge,
        "forgetting": part.forgetting,
        "max_rows": part.max_rows,
        "sums": part.statistics.to_state() if sums else None,
    }


def _global_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> GlobalPart:
    kernel, points = _kernel(state["kernel"]), state["points"]
    if points.ndim != 2 or points.shape[1] != n_features or points.dtype.kind != "f":
        raise ValueError("the points of a part do not match the number of features")
    dtype = check_choice("precision", state["precision"], _PRECISIONS)
    part = GlobalPart(kernel, points.copy(), n_outputs, dtype=dtype)
    _restore_basis(part, state)
    return part


def _trees_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> TreesPart:
    map = Leaves(n_features, *(state[name].copy() for name in _NODES))
    part = TreesPart(map, n_outputs, seed=check_integer("seed", state["seed"], low=0))
    _restore_basis(part, state)
    return part


def _restore_basis(part: BasisPart, state: dict[str, Any]) -> None:
    forgetting, most = state["forgetting"], state["max_rows"]
    part.forgetting = check_real("forgetting", forgetting, low=0.0, open_low=True, high=1.0)
    part.max_rows = None if most is None else check_integer("max_rows", most, low=0)
    part.is_exact = bool(state["is_exact"])
    shape = part.n_points, part.n_targets
    part.coefficients = _finite("coefficients", state["coefficients"], shape)
    part.ridge = check_integer("ridge", state["ridge"], low=0, high=RIDGES.size - 1)
    if state["without_held"] is not None:
        part.without_held = _finite("coefficients", state["without_held"], shape)
    if state["sums"] is not None:
        part.statistics.restore(state["sums"])


def _cells_to_state(part: CellsPart, sums: bool) -> dict[str, Any]:
    cells = part.cells
    before = {
        str(number): {
            "kernel": to_config(cell.before.kernel),
            "constant": cell.before.constant,
            "points": cell.before.points,
            "coefficients": cell.before.coefficients,
            "range": _to_ends(cell.before.range),
            "patience": cell.patience,
        }
        for number, cell in enumerate(cells)
        if cell.before is not None
    }
    return {
        "form": part.form,
        "partition": to_config(part.partition),
        "map": to_config(part.map),
        "size": part.size,
        "max_cells": part.max_cells,
        "forgetting": part.forgetting,
        "keeps": part.keeps,
        "precision": part.dtype.name,
        "first_ridge": part.first_ridge,
        "doubles": np.array([cell.function.points.dtype == np.float64 for cell in cells]),
        "counts": np.array([len(cell.function.points) for cell in cells]),
        "points": np.concatenate([cell.function.points for cell in cells]),
        "coefficients": np.concatenate([cell.function.coefficients for cell in cells]),
        "n_rows": np.array([cell.n_rows for cell in cells]),
        "ranges": np.stack([_to_ends(cell.function.range) for cell in cells]),
        "learned_ranges": np.stack([_to_ends(cell.range) for cell in cells]),
        "before": before,
        "sums": _cell_sums(part) if sums else None,
    }


def _to_ends(ends: Array) -> Array:
    """Range without infinite numbers, which are in no file: from 1 to -1 is none."""
    return np.clip(ends, -1.0, 1.0) if ends[0, 0] > ends[1, 0] else ends


def _from_ends(ends: Array) -> Array:
    return no_range(ends.shape[1]) if ends[0, 0] > ends[1, 0] else ends.copy()


def _cell_sums(part: CellsPart) -> dict[str, Any]:
    filling = [cell for cell in part.cells if cell.is_filling]
    full = [cell for cell in part.cells if cell.statistics is not None]
    none = part.no_rows()
    kept = [cell.rows for cell in filling if cell.rows is not None]
    states = [cell.statistics.to_state() for cell in full if cell.statistics is not None]
    arrays: dict[str, Any] = {}
    for name in states[0] if states else ():
        arrays[name] = np.concatenate([np.ravel(state[name]) for state in states])
    return {
        "filling": np.array([cell.is_filling for cell in part.cells]),
        "n_kept": np.array([len(rows) for rows in kept], dtype=np.int64),
        "X": np.concatenate([none.X, *(rows.X for rows in kept)]),
        "targets": np.concatenate([none.targets, *(rows.targets for rows in kept)]),
        "weights": np.concatenate([none.weights, *(rows.weights for rows in kept)]),
        "statistics": arrays,
    }


def _cells_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> CellsPart:
    partition, map = from_config(state["partition"]), from_config(state["map"])
    if not isinstance(partition, Partitioned) or not partition.is_resolved:
        raise ValueError("a part of cells has no partition")
    if map is not None and (not isinstance(map, FixedMap) or map.n_inputs != n_features):
        raise ValueError("the map of a part does not match the number of features")
    size = check_integer("size", state["size"], low=1)
    part = CellsPart(
        partition,
        map,
        size,
        n_outputs,
        check_integer("max_cells", state["max_cells"], low=0),
        check_real("forgetting", state["forgetting"], low=0.0, open_low=True, high=1.0),
        check_integer("keeps", state["keeps"], low=1),
        check_choice("precision", state["precision"], _PRECISIONS),
        check_integer("first_ridge", state["first_ridge"], low=0, high=CELL_RIDGES.size - 1),
    )
    n_inputs, n_cells, counts = partition.n_features, len(part.cells), state["counts"]
    if counts.shape != (n_cells,) or counts.dtype.kind != "i" or (counts < 0).any():
        raise ValueError("the cells of a part do not match their points")
    total = int(counts.sum())
    points = _finite("points", state["points"].astype(np.float64), (total, n_inputs))
    doubles = state["doubles"]
    if doubles.shape != (n_cells,):
        raise ValueError("the precisions of the cells do not match them")
    coefficients = _finite("coefficients", state["coefficients"], (total, n_outputs))
    ranges, learned = (
        _finite(name, state[name], (n_cells, 2, n_outputs)) for name in ("ranges", "learned_ranges")
    )
    stops = np.cumsum(counts)
    for number, cell in enumerate(part.cells):
        mine = slice(int(stops[number] - counts[number]), int(stops[number]))
        cell.function = cell.function._replace(
            points=points[mine].astype(np.float64 if doubles[number] else np.float32),
            coefficients=coefficients[mine].copy(),
            range=_from_ends(ranges[number]),
        )
        cell.range = _from_ends(learned[number])
        cell.n_rows = check_integer("n_rows", int(state["n_rows"][number]), low=0)
        cell.rows = None
    for name, old in state["before"].items():
        n = len(old["points"])
        precision = old["points"].dtype
        part.cells[int(name)].patience = check_integer("patience", old.get("patience", 0), low=0)
        part.cells[int(name)].before = LocalFunction(
            _kernel(old["kernel"]),
            check_real("constant", old["constant"], low=0.0),
            _finite("points", old["points"].astype(np.float64), (n, n_inputs)).astype(precision),
            _finite("coefficients", old["coefficients"], (n, n_outputs)),
            _from_ends(_finite("range", old["range"], (2, n_outputs))),
        )
    if state["sums"] is not None:
        _restore_sums(part.cells, state["sums"], n_inputs, n_outputs)
    return part


def _restore_sums(cells: list[Cell], state: dict[str, Any], n_inputs: int, n_outputs: int) -> None:
    filling = state["filling"].astype(bool)
    rows = rows_from_state(state, n_inputs, n_outputs)
    if filling.shape != (len(cells),) or int(state["n_kept"].sum()) != len(rows):
        raise ValueError("the rows of the cells do not match them")
    stops = np.cumsum(state["n_kept"])
    starts = stops - state["n_kept"]
    kept = [cell for cell, is_filling in zip(cells, filling, strict=True) if is_filling]
    for cell, start, stop in zip(kept, starts, stops, strict=True):
        cell.rows = rows[int(start) : int(stop)].own()
    at: dict[str, int] = dict.fromkeys(state["statistics"], 0)
    for cell, is_filling in zip(cells, filling, strict=True):
        if is_filling:
            continue
        M = len(cell.function.points)
        cell.statistics = Statistics(M, n_outputs)
        like = cell.statistics.to_state()
        mine: dict[str, Any] = {}
        for name, values in state["statistics"].items():
            shape = np.shape(like[name])
            piece = values[at[name] : at[name] + math.prod(shape)]
            at[name] += math.prod(shape)
            mine[name] = piece.reshape(shape) if shape else piece[0].item()
        cell.statistics.restore(mine)


def correction_to_state(correction: Correction) -> dict[str, Any]:
    """Everything that a correction is."""
    features = correction.features
    arrays = {name: getattr(correction, name).copy() for name in (*_CORRECTION, *_OF_RISKS)}
    return {
        **arrays,
        "kernel": None if features.kernel is None else to_config(features.kernel),
        "length": features.length,
        "clamped": correction.clamped,
        "points": features.points,
        "values": features.values,
    }


def correction_from_state(
    state: dict[str, Any], n_features: int, n_values: int, n_outputs: int
) -> Correction:
    """Inverse of :func:`correction_to_state`.

    Raises
    ------
    ValueError
        If the pieces do not fit together.
    """
    n = len(state["points"])
    features = Features(
        None if state["kernel"] is None else _kernel(state["kernel"]),
        check_real("length", state["length"], low=0.0, open_low=True),
        _finite("points", state["points"], (n, n_features)),
        _finite("values", state["values"], (n, n_values)),
    )
    of_values = (n_values,), (n_values,), (2, n_values)
    shapes = (*of_values, (1 + n_values, n_outputs), (n, n_outputs))
    pairs = zip(_CORRECTION, shapes, strict=True)
    arrays = [_finite(name, state[name], shape) for name, shape in pairs]
    arrays += [_finite(name, state[name], (state[name].size,)) for name in _OF_RISKS]
    clamped = check_real("clamped", state["clamped"], low=0.0, high=1.0)
    centre, scale, ends, line, coefficients, inner, scalars = arrays
    return Correction(features, centre, scale, ends, line, coefficients, inner, scalars, clamped)


def rows_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> Rows:
    """Rows of a state.

    Raises
    ------
    ValueError
        If they are of wrong shapes or not finite.
    """
    names = "X", "targets", "weights", "groups"
    rows = Rows.from_state({name: state[name] for name in names if name in state})
    if (rows.X.shape[1], rows.targets.shape[1]) != (n_features, n_outputs):
        raise ValueError("the rows that are kept do not match the numbers of features and outputs")
    return rows


def _kernel(config: Any) -> Kernel:
    kernel = from_config(config)
    if not isinstance(kernel, Kernel) or not kernel.is_resolved:
        raise ValueError("the kernel of a part is of the wrong kind or lacks numbers")
    return kernel


def _finite(name: str, array: Any, shape: tuple[int, ...]) -> Array:
    if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"the {name} of a part are of the wrong shape or not finite")
    return np.array(array)
