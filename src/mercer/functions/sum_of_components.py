"""The weighted sum of components that the default learner learns; each is a kernel expansion.

Fitted models show the components as ``parts_``. A *pilot* is a small component that takes part in a
race; a *candidate* is its map and length scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import Auto
from mercer.kernels import Kernel, Mapped, Partitioned
from mercer.maps import Affine, FixedMap, Leaves
from mercer.numerics.expansions import Points, pack
from mercer.records import FLOATS, Config, Maybe, Numbered, Numbers, Part, Record, State, fit
from mercer.selection import RaceResult
from mercer.sums import (
    Cell,
    CellsPart,
    Correction,
    GlobalPart,
    LocalFunction,
    Rows,
    Statistics,
    TreesPart,
    rows_at_once,
)
from mercer.sums.cells import CELL_RIDGES
from mercer.sums.ridge import RIDGES
from mercer.threads import in_order
from mercer.validation import (
    choice,
    integer,
    or_none,
    real,
    truth,
)

_NODES = ("columns", "cuts", "children", "roots")

Array = NDArray[np.float64]
Component = GlobalPart | CellsPart | TreesPart


class SumOfComponents:
    r"""The function :math:`f = \sum_p v_p f_p`, with bend, correction and level; 0 at first.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved: of the only component, if :attr:`races` is False.
    expansion : Auto
        Limits on time and memory.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype or None
        Type of the inputs; None for float64.

    Attributes
    ----------
    components : list of GlobalPart, CellsPart or TreesPart
        The components.
    weights : ndarray of shape (n_components,)
        Weights of the components, at least 0.
    bend : float
        The number b >= 0 that makes scores of classes steeper the surer they are, see
        :func:`mercer.selection.calibrate`.
    correction : Correction or None
        Turns f into the minimiser of a risk, or of a regression loss other than the squared one.
    level : ndarray of shape (n_outputs,) or None
        Added to all scores at the end, so that mean predictions are right; None for 0.
    races : bool
        Whether a race on the first rows chooses the kernels.
    race_result : RaceResult or None
        Result of that race.
    block : int
        Number of rows held out together when kernels and weights were chosen.
    ridge : float or None
        Ridge of all components; None if each chooses its own.
    is_stale : bool
        Whether coefficients, weights or the level belong to another ridge, other outputs or other
        components, and must be solved for again.
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
        """Return values at rows, dense or CSR, shape (n, n_outputs)."""
        values = self.before_level(X)
        return values if self.level is None else values + self.level

    def before_level(self, X: Any) -> Array:
        """Return values at rows, dense or CSR, shape (n, n_outputs), before the :attr:`level`."""
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
        """Return the function's values, given the weighted sum of the components."""
        return values + self.bend * (values * values * values) if self.bend else values

    @property
    def used(self) -> list[tuple[float, Component]]:
        """Return the components with weight above 0, and their weights."""
        pairs = zip(self.weights, self.components, strict=True)
        return [(float(weight), component) for weight, component in pairs if weight > 0.0]

    @property
    def size(self) -> int:
        """Number of points of all components with weight above 0."""
        return sum(component.n_points for _, component in self.used)

    @property
    def kernel_of_inputs(self) -> Kernel | None:
        """Kernel of the heaviest component on one dictionary; None if there is none."""
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
        """Replace the components, and give the new ones the :attr:`ridge` if there is one."""
        self.components = components
        if self.ridge is not None:
            for component in components:
                component.fix_ridge(self.ridge)

    def map_outputs(self, codes: Array, offset: Array) -> None:
        """Change the outputs: their class codes become y @ ``codes`` + ``offset``."""
        for component in self.components:
            component.map_targets(codes, offset)
        self.n_outputs = codes.shape[1]
        self.correction, self.level, self.is_stale = None, None, True

    def keep_previous(self) -> None:
        """Do nothing: there are no steps that a risk could track."""

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self, *, sums: bool = True) -> dict[str, Any]:
        """Return what predicting needs as plain data, and with ``sums`` what learning does."""
        components, weights = self.components, self.weights
        if not sums and weights.size:  # before a solution there are no weights yet
            used = weights > 0.0
            components = [part for part, is_used in zip(components, used, strict=True) if is_used]
            weights = weights[used]
        parts = [component_to_state(component, sums=sums) for component in components]
        changed = {"arrays": {}, "parts": parts, "weights": weights}
        return _FUNCTION.written_of({**vars(self), **changed})

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`.

        Raises
        ------
        ValueError
            If the pieces do not fit together.
        """
        sizes = {"n_features": self.n_features}
        values = _FUNCTION.read(state, sizes)
        parts, level, _ = (values.pop(name) for name in ("parts", "level", "arrays"))
        components = [_component_of(part, sizes) for part in parts]
        if values["weights"].size not in (0, len(components)):
            raise ValueError("the weights of the parts do not fit them")
        n_values = sizes.get("n_values", self.n_outputs)
        self.n_outputs = n_values if values["correction"] is None else sizes["n_outputs"]
        if level is not None:
            fit("level", (self.n_outputs,), level, sizes)
        self.level = level
        vars(self).update(values)
        self.replace_components(components)


@dataclass(frozen=True)
class FittedPart:
    """One term of a sum of kernel expansions.

    Its values are ``weight * kernel(map(X), dictionary) @ coefficients``; for trees the map gives
    the indicators of the leaves and the kernel is linear. :meth:`evaluate` also clips values of
    cells to the range of the targets that the cell has seen. On a stream, half of a split cell
    predicts as the whole cell did, with its length scale and all of its points, until the half has
    enough rows of its own; only :meth:`evaluate` does that.

    Attributes
    ----------
    form : {"global", "cells", "trees"}
        One dictionary for the whole space, one per cell, or the leaves of trees.
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
        """Return a component as a part, with its weight."""
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
        """Return values at rows of shape (n, n_features), shape (n, n_outputs)."""
        return self.weight * self._part.evaluate(np.asarray(X))


# -- components as plain data ----------------------------------------------------------------------
# Cells are many and small, so their arrays are stored one after the other.


def component_to_state(component: Component, *, sums: bool) -> dict[str, Any]:
    """Everything that predicting with a component needs, and with ``sums`` learning, too."""
    if isinstance(component, CellsPart):
        return _CELLS.written_of(_of_cells(component, sums))
    values = {
        **vars(component),
        "form": component.form,
        # Of an exact fit there are none, nor rows kept back.
        "sums": component.statistics if sums and not component.is_exact else None,
        "without_held": component.without_held if sums and not component.is_exact else None,
    }
    if isinstance(component, TreesPart):
        return _TREES.written_of(component.map.get_params() | values)
    basis = {"kernel": component.kernel, "points": component.dictionary}
    return _GLOBAL.written_of(values | basis | {"precision": component.basis.dtype.name})


def component_from_state(state: dict[str, Any], n_features: int, n_outputs: int) -> Component:
    """Inverse of :func:`component_to_state`.

    Raises
    ------
    ValueError
        If the pieces do not fit together.
    """
    return _component_of(state, {"n_features": n_features, "n_values": n_outputs})


def _component_of(state: dict[str, Any], sizes: dict[str, int]) -> Component:
    """Read a component; ``sizes`` are the numbers of features and, once it is known, of values."""
    form = state.get("form")
    if form == "cells":
        return _cells_of(state, sizes)
    mine = {name: n for name, n in sizes.items() if name in ("n_features", "n_values")}
    part: GlobalPart | TreesPart
    if form == "global":
        values = _GLOBAL.read(state, mine)
        kernel, points, precision = (values.pop(n) for n in ("kernel", "points", "precision"))
        part = GlobalPart(kernel, points, mine["n_values"], dtype=precision)
    elif form == "trees":
        values = _TREES.read(state, mine)
        map = Leaves(sizes["n_features"], *(values.pop(name) for name in _NODES))
        part = TreesPart(map, mine["n_values"], seed=values.pop("seed"))
    else:
        raise ValueError(f"there is no part of the form {form!r}")
    sizes["n_values"] = mine["n_values"]
    fit("coefficients", (part.n_points,), values["coefficients"][:, 0], {})
    sums, without = values.pop("sums"), values.pop("without_held")
    for name in ("is_exact", "coefficients", "ridge", "forgetting", "max_rows"):
        setattr(part, name, values[name])
    if without is not None:
        part.without_held = without
    if sums is not None:
        part.statistics.restore(sums)
    return part


def _of_cells(part: CellsPart, sums: bool) -> dict[str, Any]:
    cells, functions = part.cells, [cell.function for cell in part.cells]
    before = [
        {**cell.before._asdict(), "cell": number, "patience": cell.patience}
        for number, cell in enumerate(cells)
        if cell.before is not None
    ]
    return {
        **vars(part),
        "form": part.form,
        "precision": part.dtype.name,
        "doubles": np.array([one.points.dtype == np.float64 for one in functions]),
        "counts": np.array([len(one.points) for one in functions]),
        "points": [one.points for one in functions],
        "coefficients": np.concatenate([one.coefficients for one in functions]),
        "n_rows": np.array([cell.n_rows for cell in cells]),
        "ranges": np.stack([one.range for one in functions]),
        "learned_ranges": np.stack([cell.range for cell in cells]),
        "before": [_BEFORE.written_of(one) for one in before],
        "sums": _cell_sums(part) if sums else None,
    }


def _cell_sums(part: CellsPart) -> dict[str, Any]:
    kept = [cell.rows for cell in part.cells if cell.is_filling and cell.rows is not None]
    full = [cell.statistics for cell in part.cells if cell.statistics is not None]
    states = [statistics.to_state() for statistics in full]
    arrays = {
        name: np.concatenate([np.ravel(state[name]) for state in states])
        for name in (states[0] if states else ())
    }
    filling = np.array([cell.is_filling for cell in part.cells])
    n_kept = np.array([len(rows) for rows in kept], dtype=np.int64)
    rows = Rows.joined([part.no_rows(), *kept])
    return _SUMS.written_of(
        {"filling": filling, "n_kept": n_kept, "rows": rows, "statistics": arrays}
    )


def _cells_of(state: dict[str, Any], sizes: dict[str, int]) -> CellsPart:
    mine = {"n_values": sizes["n_values"]} if "n_values" in sizes else {}
    values = _CELLS.read(state, mine)
    sizes["n_values"] = n_outputs = mine["n_values"]
    partition, map, counts = values["partition"], values["map"], values["counts"]
    if map is not None and map.n_inputs != sizes["n_features"]:
        raise ValueError("the map of a part does not match the number of features")
    named = "size", "max_cells", "forgetting", "keeps", "precision", "first_ridge"
    size, *more = (values[name] for name in named)
    part = CellsPart(partition, map, size, n_outputs, *more)
    mine |= {"n_cells": len(part.cells), "n_inputs": partition.n_features}
    fit("counts", ("n_cells",), counts, mine)
    fit("coefficients", (int(counts.sum()), "n_values"), values["coefficients"], mine)
    stops = np.cumsum(counts)
    points = _points_of(values["points"], stops, mine)
    for number, cell in enumerate(part.cells):
        own = slice(int(stops[number] - counts[number]), int(stops[number]))
        precision = np.float64 if values["doubles"][number] else np.float32
        cell.function = cell.function._replace(
            points=points(number).astype(precision),
            coefficients=values["coefficients"][own].copy(),
            range=values["ranges"][number],
        )
        cell.range = values["learned_ranges"][number]
        cell.n_rows, cell.rows = int(values["n_rows"][number]), None
    for old in values["before"]:
        its = _BEFORE.read(old, {name: mine[name] for name in ("n_inputs", "n_values")})
        number, patience = its.pop("cell"), its.pop("patience")
        if number >= len(part.cells):
            raise ValueError("there is no cell of what was predicted before")
        part.cells[number].patience = patience
        part.cells[number].before = LocalFunction(**its)
    if values["sums"] is not None:
        _restore_sums(part.cells, values["sums"], mine)
    part.rest(sums=False)
    return part


def _points_of(
    points: NDArray[Any] | Points, stops: NDArray[np.int64], sizes: dict[str, int]
) -> Callable[[int], NDArray[Any]]:
    """Return the points of a cell, given its number; ``stops`` are the ends of all cells."""
    counts = np.diff(stops, prepend=0)
    if isinstance(points, Points):
        fit("columns", ("n_cells", "n_inputs"), points.columns, sizes)
        if not np.array_equal(points.counts[:, 0], counts):
            raise ValueError("the points of the cells do not match them")
        starts = points.starts
        return lambda number: points.of(number, starts)
    fit("points", (int(stops[-1]), "n_inputs"), points, sizes)
    return lambda number: points[stops[number] - counts[number] : stops[number]]


def _restore_sums(cells: list[Cell], state: dict[str, Any], sizes: dict[str, int]) -> None:
    values = _SUMS.read(state, sizes)
    filling, rows, stops = values["filling"], values["rows"], np.cumsum(values["n_kept"])
    if filling.sum() != stops.size or stops.max(initial=0) != len(rows):
        raise ValueError("the rows of the cells do not match them")
    kept = [cell for cell, is_filling in zip(cells, filling, strict=True) if is_filling]
    for cell, start, stop in zip(kept, stops - values["n_kept"], stops, strict=True):
        cell.rows = rows[int(start) : int(stop)].own()
    statistics = values["statistics"]
    at: dict[str, int] = dict.fromkeys(statistics, 0)
    for cell, is_filling in zip(cells, filling, strict=True):
        if is_filling:
            continue
        cell.statistics = Statistics(len(cell.function.points), sizes["n_values"])
        own: dict[str, Any] = {}
        for name, value in cell.statistics.to_state().items():
            numbers = Numbers("n_numbers", dtype=(np.float64, np.int64)).read(
                name, statistics.get(name), {}
            )
            shape = np.shape(value)
            piece = numbers[at[name] : at[name] + math.prod(shape)]
            fit(name, (math.prod(shape),), piece, {})
            at[name] += math.prod(shape)
            own[name] = piece.reshape(shape) if shape else piece[0].item()
        cell.statistics.restore(own)


class _PointsOfCells(Numbers):
    """Points of cells in few bytes; in files of earlier versions they are one array."""

    def written(self, value: Any) -> Any:
        packed = pack(value)[0]
        return _PACKED.written_of({**packed._asdict(), "bits": packed.bits.view(np.uint8)})

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Any:
        if isinstance(value, np.ndarray):
            return super().read(name, value, sizes)
        values = _PACKED.read(value, {})
        if values["bits"].size % 4:
            raise ValueError(f"the bits of `{name}` must be of whole groups")
        return Points.read(**{**values, "bits": values["bits"].view(np.uint32)})


class _Range(Numbers):
    """Lowest and highest values, or none: infinite numbers, the other way round, are in no file."""

    def written(self, value: Any) -> Any:
        return np.where(_is_none(value), np.clip(value, -1.0, 1.0), value)

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Array:
        found = super().read(name, value, sizes)
        return np.where(_is_none(found), [[np.inf], [-np.inf]], found)


def _is_none(ends: Array) -> NDArray[np.bool_]:
    return np.asarray(ends[..., :1, :1] > ends[..., 1:, :1])


_PRECISION = choice("float32", "float64")
_FORGETTING = real(low=0.0, open_low=True, high=1.0)
_KERNEL = Config(Kernel, lambda kernel: kernel.is_resolved)

_FUNCTION = Record(
    arrays=State(),  # those of functions with one dictionary
    block=integer(low=1),
    bend=real(low=0.0),
    is_stale=truth(),
    races=truth(),
    ridge=or_none(real(low=0.0)),
    race_result=Maybe(Part(RaceResult)),
    correction=Maybe(Part(Correction, "n_features", "n_values", n_scores="n_outputs")),
    parts=Numbered(State()),
    weights=Numbers("n_weights", low=0.0),
    level=Maybe(Numbers("n_levels")),
)
_BASIS: dict[str, Any] = {
    "is_exact": truth(),
    "coefficients": Numbers("n_points", "n_values"),
    "without_held": Maybe(Numbers("n_points", "n_values")),
    "ridge": integer(low=0, high=RIDGES.size - 1),
    "forgetting": _FORGETTING,
    "max_rows": or_none(integer(low=0)),
    "sums": Maybe(State()),
}
_GLOBAL = Record(
    form=choice("global"),
    kernel=_KERNEL,
    points=Numbers("n_points", "n_features", dtype=FLOATS),
    precision=_PRECISION,
    **_BASIS,
)
_TREES = Record(
    form=choice("trees"),
    columns=Numbers("n_nodes", dtype=np.int64),
    cuts=Numbers("n_nodes"),
    children=Numbers("n_nodes", dtype=np.int64),
    roots=Numbers("n_trees", dtype=np.int64),
    seed=integer(low=0),
    **_BASIS,
)
_PACKED = Record(
    counts=Numbers("n_cells", 4, dtype=np.int64, low=0, high=2**40),
    columns=Numbers("n_cells", "n_columns", dtype=np.int64),
    lows=Numbers("n_cells", "n_columns"),
    highs=Numbers("n_cells", "n_columns"),
    doubles=Numbers("n_doubles"),
    singles=Numbers("n_singles", dtype=np.float32),
    bits=Numbers("n_bytes", dtype=np.uint8),
)
_CELLS = Record(
    form=choice("cells"),
    partition=Config(Partitioned, lambda partition: partition.is_resolved),
    map=Maybe(Config(FixedMap)),
    size=integer(low=1),
    max_cells=integer(low=0),
    forgetting=_FORGETTING,
    keeps=integer(low=1),
    precision=_PRECISION,
    first_ridge=integer(low=0, high=CELL_RIDGES.size - 1),
    doubles=Numbers("n_cells", dtype=np.bool_),
    counts=Numbers("n_cells", dtype=np.int64, low=0),
    points=_PointsOfCells("n_points", "n_inputs", dtype=FLOATS),
    coefficients=Numbers("n_points", "n_values"),
    n_rows=Numbers("n_cells", dtype=np.int64, low=0),
    ranges=_Range("n_cells", 2, "n_values"),
    learned_ranges=_Range("n_cells", 2, "n_values"),
    before=Numbered(State()),
    sums=Maybe(State()),
)
# What a cell predicts with until it has rows of its own.
_BEFORE = Record(
    cell=integer(low=0),
    kernel=_KERNEL,
    constant=real(low=0.0),
    points=Numbers("n_points", "n_inputs", dtype=FLOATS),
    coefficients=Numbers("n_points", "n_values"),
    range=_Range(2, "n_values"),
    patience=integer(low=0),
)
_SUMS = Record(
    filling=Numbers("n_cells", dtype=np.bool_),
    n_kept=Numbers("n_filling", dtype=np.int64, low=0),
    rows=Part(Rows, n_features="n_inputs", n_targets="n_values"),
    statistics=State(),
)
