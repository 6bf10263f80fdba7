"""The race: choose the map of the inputs, the length scales and the form on the first rows.

Squared errors on rows that were not fitted decide; test data are never used. All candidates are
kept in a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Kernel
from mercer.maps import FixedMap
from mercer.records import Config, Maybe, Part, Record, Recorded, Several, Table
from mercer.selection.cell_pilots import CellPilots
from mercer.selection.families import FAMILIES, FAR, global_kernel
from mercer.selection.pilots import Pilot, Pilots
from mercer.sums import Rows
from mercer.threads import in_order, one_blas_thread
from mercer.validation import choice, integer, or_none, positive, real, text, truth

Array = NDArray[np.float64]

_LARGEST_BIAS = 300.0
# Number of rows of a race of families, as a multiple of the rows that the first pilots fit.
_JUDGED = 6


class RaceSettings(NamedTuple):
    """How much a race tries, and on how many rows.

    Attributes
    ----------
    small : int, default=2000
        Number of rows up to which a model is an exact fit to all rows, without cells.
    pilot_rows : int, default=1000
        Largest number of rows of a pilot: half of them are fitted; finalists, on twice as many
        rows, fit all of them. Up to 2.5 times as many rows judge.
    fewest_for_metrics : int, default=20
        With fewer rows, only Gaussian kernels without metrics race, and each row is predicted by a
        fit to all others.
    families : tuple of str
        Families of kernels that race, from :data:`mercer.selection.FAMILIES`.
    rounds : int, default=4
        How often, at most, a metric of one kind follows the last one if that helps.
    near, most_families : float and int, default=1.15 and 3
        A family is trained if its error is at most ``near`` times the smallest; at most
        ``most_families``.
    hopeless : float, default=1.5
        Families with an error above this many times the smallest do not race with cells.
    multiples, first_multiple : tuple of float, int
        Length scales of cells to try, as multiples of the length scale of one dictionary, and the
        index of the first one.
    cell_size, cell_rows, kept_rows : int, default=256, 400 and 512
        Points of a cell in addition to its sums, its intended rows, and the rows at which it is
        full.
    cells_rows, asked_cells : int, default=12000 and 10
        Number of rows for the race of cells, and number of cells judged by their last fifth.
    wide, n_components : int, default=64 and 40
        Number of inputs above which principal components are tried and cells are not used, and the
        number of components.
    """

    small: int = 2000
    pilot_rows: int = 1000
    fewest_for_metrics: int = 20
    families: tuple[str, ...] = tuple(FAMILIES)
    rounds: int = 4
    near: float = 1.15
    most_families: int = 3
    hopeless: float = 1.5
    multiples: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
    first_multiple: int = 2
    cell_size: int = 256
    cell_rows: int = 400
    kept_rows: int = 512
    cells_rows: int = 12_000
    asked_cells: int = 10
    wide: int = 64
    n_components: int = 40


#: Settings that estimators use.
DEFAULT = RaceSettings()


@dataclass(frozen=True)
class Candidate(Recorded):
    """A candidate of a race: a form, a family of kernels, a map of the inputs and a length scale.

    Attributes
    ----------
    form : {"global", "cells"}
        One dictionary, or one per cell.
    metric : str
        Name of the map.
    map : FixedMap
        Map of the inputs.
    length : float
        Length scale of the mapped rows.
    error : float
        Mean squared error on rows that were not fitted.
    deviation : float
        Standard error of ``error``, "standard_error" in the table.
    family : str, default="gaussian"
        Family of the kernel.
    ridge : int or None, default=None
        Index of the pilot's ridge in ``RIDGES`` of ``mercer.sums.ridge``, or for cells in
        ``CELL_RIDGES`` of ``mercer.sums``, if known.
    """

    form: str
    metric: str
    map: FixedMap
    length: float
    error: float
    deviation: float
    family: str = "gaussian"
    ridge: int | None = None

    _record = Record(
        form=choice("global", "cells"),
        metric=text(),
        map=Config(FixedMap),
        length=positive(),
        error=real(),
        deviation=real(),
        family=choice(*FAMILIES),
        ridge=or_none(integer(low=0)),
    )

    @property
    def kernel(self) -> Kernel:
        """Kernel of the mapped rows, with its length scale in their units."""
        return FAMILIES[self.family].make(self.length)


@dataclass(frozen=True)
class RaceResult(Recorded):
    """Result of a race.

    Attributes
    ----------
    finalists : tuple of Candidate
        Best candidates with one dictionary, one per family whose error is near the smallest; best
        first.
    cells : tuple of Candidate
        Best candidates with cells, one per family whose error is near the smallest; best first.
        Empty if cells make no sense.
    constant : float
        Value of the constant kernel to add, which depends on the targets' mean.
    table : list of dict
        All candidates tried.
    exact : bool, default=False
        Whether there are so few rows that all become points.
    plain : Candidate or None, default=None
        Best Gaussian kernel without a metric, if it is not the overall best: metrics of some
        hundred rows may miss what more rows show.
    """

    finalists: tuple[Candidate, ...]
    cells: tuple[Candidate, ...]
    constant: float
    table: list[dict[str, Any]]
    exact: bool = False
    plain: Candidate | None = None

    _record = Record(
        finalists=Several(Part(Candidate)),
        cells=Several(Part(Candidate)),
        constant=positive(),
        table=Table(),
        exact=truth(),
        plain=Maybe(Part(Candidate)),
    ).where("a race has no finalist", lambda it: it["finalists"])

    @property
    def best_global(self) -> Candidate:
        """Best candidate with one dictionary."""
        return self.finalists[0]

    @property
    def kernel(self) -> Kernel:
        """Kernel of the best candidate with one dictionary."""
        return self.kernel_of(self.best_global)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates from which the parts of a model are made."""
        plain = () if self.plain is None else (self.plain,)
        return (*self.finalists, *plain, *self.cells)

    def kernel_of(self, candidate: Candidate) -> Kernel:
        """Return the kernel of a candidate after its map, with the constant."""
        return global_kernel(candidate.map, candidate.kernel, self.constant)

    @property
    def takes_single(self) -> bool:
        """Whether the constant is small enough for single precision."""
        return self.constant <= FAR


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
        First rows, in random order for fair judgement.
    n_rows : int or None
        Total number of rows to come, if known.
    seed : int
        Seed for the pilots' points and the anchors.
    cells : bool, default=True
        Whether cells race as well.
    block : int, default=1
        Number of rows that stay together, in fitting and in judging.
    settings : RaceSettings
        Settings of the race.
    """
    expected = len(rows) if n_rows is None else n_rows
    exact = expected <= settings.small
    constant = offset_variance(rows)
    families, plain, finalists, table = _race_of_families(rows, constant, block, settings)
    local: tuple[Candidate, ...] = ()
    if cells and not exact and expected >= 2 * settings.cell_rows:
        others = [one for one in families if one.family not in {f.family for f in finalists}]
        local, entries = _race_of_cells(rows, [*finalists, *others], seed, settings)
        table += entries
    return RaceResult(finalists, local, constant, table, exact, plain)


def _race_of_families(
    rows: Rows, constant: float, block: int, settings: RaceSettings
) -> tuple[list[Candidate], Candidate | None, tuple[Candidate, ...], list[dict[str, Any]]]:
    """Race of exact pilots on half of the rows.

    Returns
    -------
    families : list of Candidate
        Best candidate of each family, best first.
    plain : Candidate or None
        Best Gaussian kernel without a metric, if it is not the overall best.
    finalists : tuple of Candidate
        Candidates whose error is near the smallest.
    table : list of dict
        All candidates tried.
    """
    fitted, fewest = settings.pilot_rows // 2, settings.fewest_for_metrics
    few = len(rows) < settings.fewest_for_metrics
    names = ("gaussian",) if few else settings.families
    how = settings.rounds, settings.wide, settings.n_components
    some = rows[: _JUDGED * fitted]

    def compete(name: str) -> tuple[Pilot | None, Pilots]:
        pilots = Pilots(some, constant, block, fewest, fitted)
        return pilots.best(FAMILIES[name], *how), pilots

    with one_blas_thread():  # on which the last bits depend
        raced = in_order(compete, names)
    best = sorted((one for one, _ in raced if one is not None), key=lambda one: one.error)
    near = [one for one in best if one.error <= settings.near * best[0].error]
    near = near[: settings.most_families] or best[:1]
    table = [entry for _, pilots in raced for entry in pilots.table]
    if len(rows) >= 4 * fitted:

        def again(pilot: Pilot) -> tuple[Pilot, Pilots]:
            # Gradients of twice as many rows make better metrics; only the best are worth the time.
            pilots = Pilots(some, constant, block, fewest, 2 * fitted)
            return pilots.again(pilot), pilots

        with one_blas_thread():
            raced_again = in_order(again, near)
        near = sorted((one for one, _ in raced_again), key=lambda one: one.error)
        table += [entry for _, pilots in raced_again for entry in pilots.table]
    families, finalists = list(map(_candidate, best)), tuple(map(_candidate, near))
    plain = raced[names.index("gaussian")][1].plain if "gaussian" in names else None
    if plain is None or (finalists[0].family == "gaussian" and finalists[0].metric == plain.name):
        return families, None, finalists, table
    return families, _candidate(plain), finalists, table


def _race_of_cells(
    rows: Rows, candidates: list[Candidate], seed: int, settings: RaceSettings
) -> tuple[tuple[Candidate, ...], list[dict[str, Any]]]:
    """Find the best length scale of cells for each promising family, and the finalists."""
    most = settings.hopeless * candidates[0].error
    able = [
        one
        for one in candidates
        if FAMILIES[one.family].is_local
        and one.map.n_outputs <= settings.wide
        and "components" not in one.metric
        and one.error <= most
    ]
    if not able:
        return (), []
    sizes = settings.cell_rows, 2 * settings.kept_rows, settings.asked_cells
    pilots = CellPilots(rows[: settings.cells_rows], able[0].map, *sizes, seed)

    def compete(one: Candidate) -> tuple[Candidate, list[dict[str, Any]]]:
        lengths = [multiple * one.length for multiple in settings.multiples]
        what = FAMILIES[one.family], one.map, lengths, settings.first_multiple, one.metric
        best, table = pilots.best_length(*what)
        numbers = best.length, best.error, best.deviation
        made = Candidate("cells", one.metric, one.map, *numbers, one.family, best.ridge)
        return made, table

    raced = in_order(compete, able)
    found = sorted((one for one, _ in raced), key=lambda one: one.error)
    near = [one for one in found if one.error <= settings.near * found[0].error]
    return tuple(near[: settings.most_families]), [entry for _, table in raced for entry in table]


def _candidate(pilot: Pilot) -> Candidate:
    numbers = pilot.length, pilot.error, pilot.deviation
    return Candidate("global", pilot.name, pilot.map, *numbers, pilot.family.name, pilot.ridge)


def race_point(n_rows: int) -> int:
    """Return how many of ``n_rows`` rows to race on: 1, 2, 3, 4, 6, 8, 12, ....

    Examples
    --------
    >>> [race_point(n) for n in (1, 3, 5, 7, 100, 1000)]
    [1, 3, 4, 6, 96, 768]
    """
    whole = 1 << (n_rows.bit_length() - 1)
    more = whole + whole // 2
    return more if n_rows >= more else whole


def offset_variance(rows: Rows) -> float:
    """Return the value b of the constant kernel: the targets' mean divided by their spread.

    A mean of m deviations costs a penalty of m² / b, so the fit misses it by a share of ridge / b,
    which is small enough. A larger constant would raise the rounding errors of the sums.
    """
    share = rows.weights / rows.weights.sum()
    mean = share @ rows.targets
    variance = share @ (rows.targets - mean) ** 2
    known = variance > 1e-28 * mean**2
    ratio = float((mean[known] ** 2 / variance[known]).max(initial=1.0))
    if (mean[~known] != 0.0).any():
        ratio = np.inf
    return min(float(np.sqrt(ratio)), _LARGEST_BIAS)
