"""The race: which map of the inputs, which lengths and which forms, from the first rows.

Squared errors on rows that were not fitted decide; test data have no part in it. What was tried is
kept as a table.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer._component import from_config, to_config
from mercer._validation import check_real
from mercer.kernels import Gaussian, Kernel, Partitioned
from mercer.maps import Affine, FixedMap, ard_metric, full_metric
from mercer.selection.families import FAMILIES, FAR, global_kernel, input_maps
from mercer.selection.pilots import Pilot, Pilots, error_of
from mercer.sums import CellsPart, GlobalPart, Rows, average_gradient_outer_product, descend

__all__ = [
    "DEFAULT",
    "Candidate",
    "RaceResult",
    "RaceSettings",
    "race",
    "race_point",
]

Array = NDArray[np.float64]

_LARGEST_BIAS = 300.0
# Rows of a race of families, in those that the first pilots are fitted to: the others judge.
_JUDGED = 6
# Columns are of one unit if most of their ranges are alike.
_ALIKE = 0.5


class RaceSettings(NamedTuple):
    """How much a race tries, and on how many rows.

    Attributes
    ----------
    small : int, default=4500
        Rows up to which families of kernels race as exact fits, and there are no cells.
    few_to_choose : int, default=2000
        Rows up to which a ridge is chosen by fits to all of them: of more, up to ``small``, it is
        that of the pilot, and a kernel that is given has fewer points.
    pilot_rows, few_rows : int, default=8000 and 1000
        Rows of a pilot: of more rows than ``small``, and of up to so many: half of these are
        fitted, or all of them by the finalists of twice as many rows, and up to 2.5 times as many
        judge.
    pilot_points : int, default=600
        Points of a pilot.
    judging_share : float, default=0.25
        Of the rows of a pilot, those that judge it, where rows are more than ``small``; else half.
    fewest_for_metrics : int, default=20
        Of fewer rows than this, up to ``small``, only Gaussian kernels race, without metrics, and
        each row is predicted by a fit to all others.
    gradient_rows : int, default=4000
        Rows at which gradients are averaged for a metric.
    lengths, first_length : tuple of float, int
        Length scales that are tried for more rows than ``small``, in median distances of the
        mapped rows, and the number of the one that the descent begins with; of up to so many rows
        those of the family are.
    multiples, first_multiple : tuple of float, int
        The same of cells, in median distances of their rows.
    cell_size, cell_rows : int, default=256 and 900
        Points of a cell, and rows that it should get.
    cells_rows : int, default=12000
        Rows that cells race on, the last fifth of which judges them.
    families : tuple of str
        Families of kernels that take part, of :data:`mercer.selection.FAMILIES`, of up to
        ``small`` rows; of more, Gaussian kernels only.
    rounds : int, default=4
        How often a metric of one kind follows the last one at most, where that helps.
    near, most_families : float and int, default=1.15 and 3
        Families are trained whose error is at most so many times the least, up to so many.
    wide, very_wide, n_components : int, default=64, 300 and 40
        Inputs beyond which distances are taken among principal components, inputs beyond which
        there is no race of the plain ones besides (of more rows than ``small``), and how many
        components there are.
    """

    small: int = 4500
    few_to_choose: int = 2000
    pilot_rows: int = 8000
    few_rows: int = 1000
    pilot_points: int = 600
    judging_share: float = 0.25
    fewest_for_metrics: int = 20
    gradient_rows: int = 4000
    lengths: tuple[float, ...] = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 4.0)
    first_length: int = 5
    multiples: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    first_multiple: int = 1
    cell_size: int = 256
    cell_rows: int = 900
    cells_rows: int = 12_000
    families: tuple[str, ...] = tuple(FAMILIES)
    rounds: int = 4
    near: float = 1.15
    most_families: int = 3
    wide: int = 64
    very_wide: int = 300
    n_components: int = 40

    def most_exact(self, *, races: bool) -> int:
        """Rows up to which all are points, in a race of kernels or where one is given."""
        return self.small if races else min(self.few_to_choose, self.small)


#: What the estimators use.
DEFAULT = RaceSettings()


class Candidate(NamedTuple):
    """One way to be tried: a form, a family of kernels, a map of the inputs and a length scale.

    Attributes
    ----------
    form : {"global", "cells"}
        One dictionary, or one for each cell.
    metric : str
        Name of the map.
    map : FixedMap
        Map of the inputs.
    length : float
        Length scale of the mapped rows; for cells in median distances of their rows.
    error : float
        Mean squared error on rows not fitted.
    deviation : float
        Standard error of ``error``, "standard_error" in the table.
    family : str, default="gaussian"
        Family of the kernel.
    ridge : int or None, default=None
        Number of the pilot's ridge among ``RIDGES`` of ``mercer.sums.ridge``, if one is known.
    """

    form: str
    metric: str
    map: FixedMap
    length: float
    error: float
    deviation: float
    family: str = "gaussian"
    ridge: int | None = None

    @property
    def kernel(self) -> Kernel:
        """Kernel of the mapped rows, with a length scale in their units."""
        return FAMILIES[self.family].make(self.length)

    def to_state(self) -> dict[str, Any]:
        """As plain data."""
        return {**self._asdict(), "map": to_config(self.map)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if it is none."""
        map = from_config(state["map"])
        if not isinstance(map, FixedMap) or state.get("family", "gaussian") not in FAMILIES:
            raise ValueError("a candidate of the race has no map, or a kernel of no family")
        check_real("length", state["length"], low=0.0, open_low=True)
        return cls(**{**state, "map": map})


class RaceResult(NamedTuple):
    """What the race found.

    Attributes
    ----------
    finalists : tuple of Candidate
        The best with one dictionary, one of each family that comes near the best; best first.
    cells : tuple of Candidate
        The best with cells, one for each map, best first; none where cells make no sense.
    constant : float
        Value of the constant kernel that is added, by the targets' mean.
    table : list of dict
        All that was tried.
    exact : bool, default=False
        Whether families raced as exact fits.
    """

    finalists: tuple[Candidate, ...]
    cells: tuple[Candidate, ...]
    constant: float
    table: list[dict[str, Any]]
    exact: bool = False

    @property
    def best_global(self) -> Candidate:
        """The best with one dictionary."""
        return self.finalists[0]

    @property
    def kernel(self) -> Kernel:
        """Kernel of the best with one dictionary."""
        return self.kernel_of(self.best_global)

    def kernel_of(self, candidate: Candidate) -> Kernel:
        """Kernel of a candidate behind its map, with the constant."""
        return global_kernel(candidate.map, candidate.kernel, self.constant)

    @property
    def takes_single(self) -> bool:
        """Whether the constant leaves single precision room for all else."""
        return self.constant <= FAR

    def to_state(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "global": self.best_global.to_state(),
            "others": [candidate.to_state() for candidate in self.finalists[1:]],
            "cells": [candidate.to_state() for candidate in self.cells],
            "constant": self.constant,
            "table": self.table,
            "exact": self.exact,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Inverse of :meth:`to_state`; ValueError if it is none."""
        return cls(
            tuple(map(Candidate.from_state, (state["global"], *state.get("others", ())))),
            tuple(Candidate.from_state(one) for one in state["cells"]),
            check_real("constant", state["constant"], low=0.0, open_low=True),
            [dict(entry) for entry in state["table"]],
            bool(state.get("exact", False)),
        )


def race(
    rows: Rows,
    n_rows: int | None,
    seed: int,
    *,
    cells: bool = True,
    block: int = 1,
    settings: RaceSettings = DEFAULT,
) -> RaceResult:
    """Find the kernel, the metric and the length scale that predict the first rows best.

    Parameters
    ----------
    rows : Rows
        The first rows, in random order if they are to be judged fairly.
    n_rows : int or None
        Rows to come in all, if known.
    seed : int
        Of the pilots' points and the anchors.
    cells : bool, default=True
        Whether cells race, too.
    block : int, default=1
        Rows that stay together, fitted or judging.
    settings : RaceSettings
        How much is tried.
    """
    expected = len(rows) if n_rows is None else n_rows
    if expected <= settings.small:
        return _race_of_families(rows, block, settings)
    pilots = _Pilots(rows, seed, block, settings)
    plain = [pilots.best_length(name, map) for name, map in _input_maps(rows.X, settings)]
    found = [candidate for candidate, _ in plain]
    straight = [pair for pair in plain if "components" not in pair[0].metric]
    best, pilot = min(straight or plain, key=lambda pair: pair[0].error)
    for name, metric in pilots.metrics(best, pilot) if straight else []:
        found.append(pilots.best_length(name, best.map.then(metric))[0])
    found.sort(key=lambda candidate: candidate.error)
    local: list[Candidate] = []
    if cells and expected >= 2 * settings.cell_rows:
        # All metrics run, and so do the plain inputs: what helps a pilot may mislead cells.
        others = [c for c in found if c.metric not in {one.metric for one, _ in plain}]
        finalists = [best, *others] if straight else []
        narrow = [c for c in finalists if c.map.n_outputs <= settings.wide]
        local = sorted((pilots.best_multiple(c) for c in narrow), key=lambda c: c.error)
    return RaceResult((found[0],), tuple(local), pilots.constant, pilots.table)


def _race_of_families(rows: Rows, block: int, settings: RaceSettings) -> RaceResult:
    """Race of exact pilots on half the rows: the best of each family, and those that come near."""
    constant = offset_variance(rows)
    fitted, fewest = settings.few_rows // 2, settings.fewest_for_metrics
    pilots = Pilots(rows[: _JUDGED * fitted], constant, block, fewest, fitted)
    few = len(rows) < settings.fewest_for_metrics
    names = ("gaussian",) if few else settings.families
    how = settings.rounds, settings.wide, settings.n_components
    found = [pilots.best(FAMILIES[name], *how) for name in names]
    best = sorted((one for one in found if one is not None), key=lambda one: one.error)
    near = [one for one in best if one.error <= settings.near * best[0].error]
    near = near[: settings.most_families] or best[:1]
    if len(rows) >= 4 * fitted:
        # Gradients of twice as many rows make better metrics, which the best are worth.
        large = Pilots(rows[: _JUDGED * fitted], constant, block, fewest, 2 * fitted)
        near = sorted((large.again(one) for one in near), key=lambda one: one.error)
        pilots.table += large.table
    finalists = tuple(_candidate(one) for one in near)
    return RaceResult(finalists, (), constant, pilots.table, exact=True)


def _candidate(pilot: Pilot) -> Candidate:
    numbers = pilot.length, pilot.error, pilot.deviation
    return Candidate("global", pilot.name, pilot.map, *numbers, pilot.family.name, pilot.ridge)


def race_point(n_rows: int) -> int:
    """Rows to race on of so many: 1, 2, 3, 4, 6, 8, 12, ..., whenever questions are asked.

    Examples
    --------
    >>> [race_point(n) for n in (1, 3, 5, 7, 100, 1000)]
    [1, 3, 4, 6, 96, 768]
    """
    whole = 1 << (n_rows.bit_length() - 1)
    more = whole + whole // 2
    return more if n_rows >= more else whole


class _Pilots:
    """Pilots on the same rows, and the table of their errors."""

    def __init__(self, rows: Rows, seed: int, block: int, settings: RaceSettings) -> None:
        self.seed, self.block, self.settings = seed, block, settings
        self.table: list[dict[str, Any]] = []
        some = rows[: settings.pilot_rows]
        n_judged = int(settings.judging_share * len(some))
        self.fitted = some[: len(some) - n_judged]
        self.judged = some[len(some) - n_judged :]
        n_local = min(len(rows), settings.cells_rows)
        self.local = rows[: int(0.8 * n_local)], rows[int(0.8 * n_local) : n_local]
        self.constant = offset_variance(rows)
        self.n_outputs = rows.targets.shape[1]

    def best_length(self, name: str, map: Affine) -> tuple[Candidate, GlobalPart]:
        """Best length scale behind a map, and the pilot with it."""
        images = np.asarray(map(self.fitted.X), dtype=np.float64)
        median = median_distance(images, self.seed)

        lengths = self.settings.lengths

        def attempt(number: int) -> tuple[float, tuple[Candidate, GlobalPart]]:
            length = lengths[number] * median
            pilot, predictions = self._pilot(global_kernel(map, Gaussian(length), self.constant))
            found = self._note("global", name, map, length, predictions, self.judged)
            return found.error, (found, pilot)

        return descend(attempt, self.settings.first_length, len(lengths))[1]

    def metrics(self, best: Candidate, pilot: GlobalPart) -> list[tuple[str, Affine]]:
        """Metrics of the space behind the best plain map, from rows that do not judge them."""
        return self._metrics(pilot, pilot.without_held, best, self.fitted)

    def _metrics(
        self, pilot: GlobalPart, coefficients: Array, best: Candidate, rows: Rows
    ) -> list[tuple[str, Affine]]:
        """Metrics of the mapped space from the gradients of a pilot."""
        if best.map.n_outputs < 2:
            return []
        images = np.asarray(best.map(rows.X[: self.settings.gradient_rows]), dtype=np.float64)
        points = np.asarray(best.map(pilot.dictionary), dtype=np.float64)
        outer = average_gradient_outer_product(Gaussian(best.length), points, coefficients, images)
        if not outer.any():
            return []
        named = [("relevance", ard_metric(outer)), ("full metric", full_metric(outer))]
        return [(f"{best.metric}, {name}", metric) for name, metric in named]

    def _pilot(self, kernel: Kernel) -> tuple[GlobalPart, Array]:
        points = self._points(self.fitted)
        pilot = GlobalPart(kernel, points, self.n_outputs)
        pilot.learn(self.fitted)
        return pilot, pilot.solve(self.judged)

    def _points(self, rows: Rows) -> Array:
        """First rows, which are some of all unless rows are in blocks."""
        some: Any = slice(self.settings.pilot_points)
        if self.block > 1:
            some = np.random.default_rng(self.seed).permutation(len(rows))[some]
        points: Array = rows.X[some].astype(np.float64)
        return points

    def best_multiple(self, like: Candidate) -> Candidate:
        """Best length scale of cells behind a candidate's map."""
        fitted, judged = self.local
        images = np.asarray(like.map(fitted.X))
        settings = self.settings
        n_cells = max(2, len(fitted) // settings.cell_rows)
        unit = Partitioned.fitted(images, n_cells, multiple=1.0, seed=self.seed)

        def attempt(number: int) -> tuple[float, Candidate]:
            multiple = settings.multiples[number]
            lengths = multiple * unit.length_scales
            partition = Partitioned(unit.kernel, unit.anchors, multiple, self.constant, lengths)
            part = CellsPart(partition, like.map, settings.cell_size, self.n_outputs)
            part.learn(fitted)
            found = self._note("cells", like.metric, like.map, multiple, part.solve(judged), judged)
            return found.error, found

        return descend(attempt, settings.first_multiple, len(settings.multiples))[1]

    def _note(
        self, form: str, name: str, map: Affine, length: float, predictions: Array, rows: Rows
    ) -> Candidate:
        error, deviation = error_of(predictions, rows)
        self.table.append(
            {
                "form": form,
                "family": "gaussian",
                "metric": name,
                "n_inputs": map.n_outputs,
                "length": length,
                "error": error,
                "standard_error": deviation,
            }
        )
        return Candidate(form, name, map, length, error, deviation)


def offset_variance(rows: Rows) -> float:
    """Value b of the constant kernel: the distance of the targets from 0 by their spread.

    A mean of m deviations costs the penalty m² / b, so that the fit misses it by a part of
    ridge / b: this is enough. A larger constant would raise the rounding errors of the sums.
    """
    share = rows.weights / rows.weights.sum()
    mean = share @ rows.targets
    variance = share @ (rows.targets - mean) ** 2
    known = variance > 1e-28 * mean**2
    ratio = float((mean[known] ** 2 / variance[known]).max(initial=1.0))
    if (mean[~known] != 0.0).any():
        ratio = np.inf
    return min(float(np.sqrt(ratio)), _LARGEST_BIAS)


def median_distance(images: Array, seed: int) -> float:
    """Median distance of rows, 1 if all are the same."""
    sample = images
    if len(images) > 1000:
        sample = images[np.random.default_rng(seed).choice(len(images), 1000, replace=False)]
    return float(Gaussian("median").resolve(sample).length_scale)


def _input_maps(X: Any, settings: RaceSettings) -> list[tuple[str, FixedMap]]:
    """Return maps that do not look at the targets, by name."""
    # Means and covariances of some thousand rows are good enough.
    plain = X[: settings.pilot_rows]
    how = settings.wide, settings.n_components
    maps = input_maps(plain, ("standardized",), *how, alike=_ALIKE)
    projected = [pair for pair in maps if "components" in pair[0]]
    return projected if projected and plain.shape[1] > settings.very_wide else maps
