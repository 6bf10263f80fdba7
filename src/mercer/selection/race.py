"""The race: choose the map of the inputs, the length scales and the form on the first rows.

Squared errors on rows that were not fitted decide; test data are never used. All candidates are
kept in a table. Candidates are families of kernels and maps of the inputs. They are judged by
pilots: small exact fits to half of some rows, judged on the other half; and by pilots of cells,
fitted to some cells of the first rows and judged on other rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import (
    Bias,
    DistanceKernel,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
)
from mercer.kernels.partitioned import rows_by_cell
from mercer.maps import (
    Affine,
    FixedMap,
    NormalScores,
    OneHot,
    PrincipalComponents,
    Standardize,
    ard_metric,
    full_metric,
)
from mercer.records import Config, Maybe, Part, Record, Recorded, Several, Table
from mercer.sums import (
    ExactFit,
    ExactRidge,
    Rows,
    average_gradient_outer_product,
    descend,
    squared_error,
)
from mercer.sums.cells import CELL_RIDGES, FIRST_CELL_RIDGE
from mercer.sums.ridge import RIDGES, descend_able, descend_ridges, in_single
from mercer.threads import in_order, one_blas_thread
from mercer.validation import choice, integer, or_none, positive, real, text, truth

Array = NDArray[np.float64]

# Bias of a single dictionary. FAR: if the targets' mean is more than this many deviations from 0,
# the bias follows the mean. Otherwise it is LITTLE.
FAR, LITTLE = 2.0, 0.1
# Columns count as of one unit if the lower quartile of their ranges is at least this share of the
# largest.
_ALIKE = 0.1


class Family(NamedTuple):
    """Kernels that differ only in their length scale, and the maps and metrics tried with them.

    Attributes
    ----------
    name : str
        Name of the family in tables and files.
    make : callable
        Returns the kernel for a length scale.
    maps : tuple of str
        Kinds of maps of the inputs, see ``input_maps``.
    metrics : tuple of str
        Names of the metrics that follow the best map, in order, see ``METRICS``.
    lengths, first_length : tuple of float, int
        Length scales to try, in median distances of the mapped rows, and the index of the first
        one.
    most_inputs : int or None
        Number of inputs above which the family is too expensive; None for no limit.
    is_local : bool
        Whether kernels decay with distance, so that cells make sense.
    """

    name: str
    make: Callable[[Any], Kernel]
    maps: tuple[str, ...]
    metrics: tuple[str, ...]
    lengths: tuple[float, ...]
    first_length: int
    most_inputs: int | None = None
    is_local: bool = True


_LONG = (0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 4.0, 6.5, 10.0)

#: Families that race, by name. Thresholds, and few relevant columns among many, suit the city-block
#: distance on ranks; smooth targets suit the other local kernels; nothing else comes near for
#: linear functions.
FAMILIES = {
    family.name: family
    for family in (
        Family("linear", lambda length: Linear(), ("standardized",), (), (1.0,), 0, None, False),
        Family("laplacian", Laplacian, ("scores", "one-hot"), ("relevance",), _LONG, 5, 300),
        Family(
            "matern",
            lambda length: Matern(1.5, length),
            ("standardized", "one-hot"),
            ("relevance", "full metric"),
            _LONG,
            4,
        ),
        Family(
            "gaussian",
            Gaussian,
            ("standardized",),
            ("relevance", "full metric"),
            (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.5, 4.0),
            5,
        ),
    )
}


class Metric(NamedTuple):
    """A map that is made from the gradients of a pilot.

    Attributes
    ----------
    make : callable
        Returns the map for an average outer product of gradients.
    most_rounds : int
        How often the metric may be repeated: a full metric upon a full metric fits the noise of few
        rows.
    most_inputs : int
        Number of inputs above which the metric costs more than it gains.
    diagonal : bool
        Whether the diagonal of that product is enough.
    """

    make: Callable[[Array], Affine]
    most_rounds: int
    most_inputs: int
    diagonal: bool


#: Metrics by name.
METRICS = {
    "relevance": Metric(ard_metric, 4, 2**31, diagonal=True),
    "full metric": Metric(full_metric, 1, 300, diagonal=False),
}


def global_kernel(map: FixedMap, kernel: Kernel, constant: float) -> Kernel:
    """Return the kernel after a map, plus a constant kernel."""
    return Mapped(kernel + Bias(bias_of(constant)), map)


def bias_of(constant: float) -> float:
    """Return the value of the constant kernel: small, unless targets are far from 0."""
    # With enough points, a sum of kernels can be constant. A large bias without need would only
    # raise the rounding errors of the sums.
    return constant if constant > FAR else LITTLE


def input_maps(
    X: Any, kinds: tuple[str, ...], wide: int, n: int, alike: float = _ALIKE
) -> list[tuple[str, FixedMap]]:
    """Return useful maps that do not depend on the targets, by name.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows from which to learn the maps.
    kinds : tuple of str
        ``"standardized"``: divide each column by its deviation, and all columns by one number if
        they are of one unit; with many columns, also principal components of both. ``"scores"``:
        normal scores. ``"one-hot"``: indicators for columns of few integers, if there are any.
    wide, n : int
        Number of columns above which principal components are used, and their number.
    alike : float, default=0.1
        Columns count as of one unit if the lower quartile of their ranges is at least this share of
        the largest.
    """
    plain, varies = np.asarray(X), np.ptp(X, axis=0) > 0.0
    maps: list[tuple[str, FixedMap]] = []
    if "standardized" in kinds:
        common = _common_scale(plain, varies, wide, alike)
        straight = [("standardized", Standardize().fit(plain)), *common]
        maps += straight
        for name, map in straight if plain.shape[1] > wide else []:
            if min(map.n_outputs, len(plain)) > n:
                axes = PrincipalComponents(n).fit(map(plain))
                maps.append((f"{name}, {n} principal components", map.then(axes)))
    if "scores" in kinds and varies.any():
        maps.append(("normal scores", NormalScores().fit(plain)))
    if "one-hot" in kinds and any(levels.size for levels in OneHot().levels(plain)):
        maps.append(("one-hot", OneHot().fit(plain)))
    return maps


def _common_scale(
    X: Any, varies: NDArray[np.bool_], wide: int, least: float
) -> list[tuple[str, Affine]]:
    """Return one scale for columns of one unit, such as pixels, whose spreads are meaningful."""
    spread = np.ptp(X, axis=0)[varies]
    alike = spread.size > 1 and np.quantile(spread, 0.25) >= least * spread.max()
    if spread.size < 2 or not (alike or X.shape[1] > wide):
        return []
    scale = float(np.sqrt(X.var(axis=0, dtype=np.float64)[varies].mean()))
    mean = X.mean(axis=0, dtype=np.float64)
    return [("common scale", Affine(mean, np.where(varies, 1.0 / scale, 0.0)))]


Floats = NDArray[np.floating[Any]]

# Number of rows used to estimate a median distance.
_MEDIAN_ROWS = 300
# Index of the ridge to begin with.
_FIRST_RIDGE = 3
# Weights of columns from trees are used if they lower the error to this share: the trees have seen
# the rows that judge.
_SURELY = 0.9


class Pilot(NamedTuple):
    """A kernel after a map, fitted and judged."""

    family: Family
    name: str  # name of the map
    metric: str  # name of its last metric; "" for none
    map: FixedMap
    number: int  # index of the length scale
    length: float
    ridge: int  # index in RIDGES
    error: float
    deviation: float  # standard error of it
    coefficients: Array  # up to a factor


class Pilots:
    """Pilots fitted and judged on the same rows, with the table of their errors.

    Parameters
    ----------
    rows : Rows
        Rows in random order; the first half is fitted, the second judges. With fewer than
        ``fewest`` rows, each row is judged by the fit to all others instead.
    constant : float
        Value of the constant kernel, used with so few rows.
    block : int
        Number of rows that stay together.
    fewest : int
        Number of rows below which fits leave out one row at a time.
    most_fitted : int
        Largest number of rows to fit; all others judge.
    """

    def __init__(
        self, rows: Rows, constant: float, block: int, fewest: int, most_fitted: int
    ) -> None:
        self.table: list[dict[str, Any]] = []
        #: Best pilot of a family, without a metric.
        self.plain: Pilot | None = None
        self._rows, self._is_series = rows, block > 1
        self._halves = len(rows) >= fewest
        half = min(len(rows) // 2, most_fitted)
        half -= half % block if half > block else 0
        half = rows.whole(half, least=1)
        self._fitted = rows[:half] if self._halves else rows
        self._judges = rows[half:] if self._halves else rows
        share = self._fitted.weights / self._fitted.weights.sum()
        self._mean = share @ self._fitted.targets if self._halves else np.zeros(1)
        self._bias = LITTLE if self._halves else bias_of(constant)

    def best(
        self,
        family: Family,
        rounds: int,
        wide: int,
        n_components: int,
        gains: Array | None = None,
    ) -> Pilot | None:
        """Return the best kernel of a family, with its best map and metrics; None if there is none.

        Metrics are repeated: irrelevant columns fade together with their noise, which had hidden
        the effect of the others. Weights of columns follow each other, and directions follow the
        most helpful metric. Metrics keep the length scale of the pilot whose gradients they are
        made of; only the best then tries others. If trees explain different amounts by each column,
        ``gains``, these are tried as weights, too.
        """
        if family.most_inputs is not None and self._rows.X.shape[1] > family.most_inputs:
            return None
        maps = input_maps(self._rows.X, family.maps, wide, n_components)
        found = [self._best_length(family, name, map) for name, map in maps]
        if not found:
            return None
        best = min(found, key=lambda pilot: pilot.error)
        straight = [pilot for pilot in found if "components" not in pilot.name]
        plain = min(straight, key=lambda pilot: pilot.error)
        self.plain = best
        tried = [best]
        if self._halves:
            for kind in family.metrics:
                tried += self._behind_metrics(plain, kind, rounds)
            if gains is not None and "relevance" in family.metrics:
                tried += self._behind_gains(plain, gains, rounds, min(one.error for one in tried))
            leader = min(tried, key=lambda pilot: pilot.error)
            if leader.metric == "relevance" and "full metric" in family.metrics:
                tried += self._behind_metrics(leader, "full metric", rounds)
        if len(tried) > 1:
            behind = min(tried[1:], key=lambda pilot: pilot.error)
            best_behind = self._best_length(family, behind.name, behind.map, behind, known=True)
            tried.append(best_behind._replace(metric=behind.metric))
        return min(tried, key=lambda pilot: pilot.error)

    def again(self, pilot: Pilot, *, others: bool = False) -> Pilot:
        """Refit a pilot of fewer rows to these rows, and make new metrics if that helps.

        These are its last metric made again, and a full one. With ``others``, other length scales
        than the pilot's are tried, too.
        """
        first = self._best_length(pilot.family, pilot.name, pilot.map, pilot, others=others)
        kinds = [pilot.metric] if pilot.metric else []
        if pilot.metric and "full metric" in pilot.family.metrics and pilot.metric != "full metric":
            kinds.append("full metric")
        found = [self._behind_metric(first, kind) for kind in kinds]
        return min([first, *(one for one in found if one is not None)], key=lambda one: one.error)

    def _behind_metrics(self, last: Pilot, kind: str, rounds: int) -> list[Pilot]:
        """Return pilots with metrics, each from the gradients of the last one, while that helps."""
        found: list[Pilot] = []
        for _ in range(min(rounds, METRICS[kind].most_rounds)):
            following = self._behind_metric(last, kind)
            if following is None:
                break
            found.append(following)
            if not following.error < last.error:
                break
            last = following
        return found

    def _behind_gains(self, plain: Pilot, gains: Array, rounds: int, least: float) -> list[Pilot]:
        """Return pilots that begin with columns weighted as trees use them; none if none helps.

        On few rows, gradients along the columns that matter do not stand out of the noise of many
        others. Trees see all rows.
        """
        if plain.map.n_outputs != gains.size:  # it drops constant columns, or adds others
            gains = gains[np.ptp(self._rows.X, axis=0) > 0.0]
        if plain.map.n_outputs != gains.size or not gains.any():
            return []
        map = plain.map.then(ard_metric(gains**2))
        name = f"{plain.name}, gains of trees"
        first = self._best_length(plain.family, name, map, plain)._replace(metric="relevance")
        if first.error > _SURELY * least:
            return []
        return [first, *self._behind_metrics(first, "relevance", rounds)]

    def _best_length(
        self,
        family: Family,
        name: str,
        map: FixedMap,
        like: Pilot | None = None,
        *,
        known: bool = False,
        others: bool = False,
    ) -> Pilot:
        """Find the best length scale and ridge after a map.

        Parameters
        ----------
        family, name, map
            The kernels, and the map with its name.
        like : Pilot, default=None
            Pilot with another map or on other rows, whose length scale is kept. In a series others
            are tried as well: few blocks judge, and a length scale is soon too local.
        known : bool, default=False
            Whether ``like`` has this map and these rows, and only other length scales are to try.
        others : bool, default=False
            Whether other length scales than that of ``like`` are tried.
        """
        fitted, judged = self._images(map)
        kernel = family.make(1.0)
        unit = 1.0
        if isinstance(kernel, DistanceKernel):
            unit = kernel.median_distance(fitted[:_MEDIAN_ROWS].astype(np.float64))
        own, across = _values(kernel, fitted, fitted), _values(kernel, judged, fitted)
        ridge, limit = _FIRST_RIDGE if like is None else like.ridge, np.inf
        targets = self._fitted.targets - self._mean

        def attempt(number: int) -> tuple[float, Pilot]:
            # For another length scale, other ridges are tried only if the present one wins.
            nonlocal ridge, limit
            if known and like is not None and number == like.number:
                limit = like.error
                return like.error, like
            length = family.lengths[number] * unit
            kernel = family.make(length)
            exact = ExactRidge(own(kernel) + self._bias, targets, self._fitted.weights)
            K = across(kernel) + self._bias if self._halves else None

            def judge(fit: ExactFit) -> tuple[float, tuple[Array, Array]]:
                if K is None:
                    ends = None if self._fitted.groups is None else self._fitted.ends
                    values = targets - exact.left_out(fit, len(targets), ends=ends)
                else:
                    values = fit.values(K) + self._mean
                found = values, fit.coefficients / fit.unit
                return squared_error(values, self._judges), found

            ridge, best = descend_ridges(exact, judge, ridge, RIDGES, limit=limit)
            assert best is not None  # the largest ridge suits any kernel matrix
            values, coefficients = best
            error, deviation = error_of(values, self._judges)
            what = "global", family.name, name, fitted.shape[1]
            self.table.append(table_entry(*what, length, error, deviation))
            limit = min(limit, error)
            found = number, length, ridge, error, deviation, coefficients
            return error, Pilot(family, name, "", map, *found)

        if like is None:
            return descend(attempt, family.first_length, len(family.lengths))[1]
        limit_of_first = np.inf if known or others or self._is_series else -np.inf
        return descend(attempt, like.number, len(family.lengths), limit=limit_of_first)[1]

    def _images(self, map: FixedMap) -> tuple[Floats, Floats]:
        """Return fitted and judging rows after a map, in float32."""
        with np.errstate(over="ignore"):
            fitted = np.ascontiguousarray(map(self._fitted.X), dtype=np.float32)
            if not self._halves:
                return fitted, fitted
            return fitted, np.ascontiguousarray(map(self._judges.X), dtype=np.float32)

    def _behind_metric(self, pilot: Pilot, kind: str) -> Pilot | None:
        """Return the pilot with a metric from gradients at the points; None if the metric is 0."""
        points, metric = np.asarray(pilot.map(self._fitted.X), dtype=np.float32), METRICS[kind]
        if not 2 <= points.shape[1] <= metric.most_inputs:
            return None
        coefficients = pilot.coefficients.astype(np.float32)
        kernel = pilot.family.make(pilot.length)
        outer = average_gradient_outer_product(
            kernel, points, coefficients, points, diagonal=metric.diagonal
        )
        if not outer.any():
            return None
        name = f"{pilot.name.split(', ')[0]}, {kind}"
        map = pilot.map.then(metric.make(outer))
        return self._best_length(pilot.family, name, map, pilot)._replace(metric=kind)


def table_entry(
    form: str,
    family: str,
    metric: str,
    n_inputs: int,
    length: float,
    error: float,
    deviation: float,
) -> dict[str, Any]:
    """Return an entry of a race's table."""
    return {
        "form": form,
        "family": family,
        "metric": metric,
        "n_inputs": n_inputs,
        "length": length,
        "error": error,
        "standard_error": deviation,
    }


def error_of(values: Array, rows: Rows) -> tuple[float, float]:
    """Return the mean squared error of values at rows, and its standard error."""
    errors = np.sum((values - rows.targets) ** 2, axis=1)
    share = rows.weights / rows.weights.sum()
    mean = float(share @ errors)
    return mean, float(np.sqrt(share**2 @ (errors - mean) ** 2))


def _values(kernel: Kernel, X: Floats, Z: Floats) -> Callable[[Any], Floats]:
    """Return kernel values for any kernel of a family; distances are computed only once."""
    if isinstance(kernel, DistanceKernel):
        separations = kernel.separations(X, Z)
        return lambda other: np.asarray(other.of_separations(separations))
    values = kernel(X, Z)
    return lambda other: values.copy()


Numbers = NDArray[np.int64]
_Values = Callable[[float], Array | None]

# Share of the rows that is fitted.
_FITTED = 0.8


class CellPilot(NamedTuple):
    """A pilot of cells with one length scale and one ridge, fitted and judged."""

    length: float
    ridge: int  # index in CELL_RIDGES
    error: float
    deviation: float  # standard error of it


# From the number of a length scale to its error, and the pilot.
_Attempt = Callable[[int], tuple[float, CellPilot]]


class CellPilots:
    """Pilots that use the same cells, so that their errors are comparable.

    Parameters
    ----------
    rows : Rows
        Rows in random order.
    map : FixedMap
        Map of the inputs before the space is divided into cells.
    cell_rows, most_rows, n_asked : int
        Usual and largest number of rows of a cell, and number of cells that are fitted.
    seed : int
        Seed for the cells.
    alone : bool, default=False
        Whether the last half of each cell's rows judges, each predicted by the fit to all others of
        the cell. Otherwise the last fifth of all rows judges.
    """

    def __init__(
        self,
        rows: Rows,
        map: FixedMap,
        cell_rows: int,
        most_rows: int,
        n_asked: int,
        seed: int,
        *,
        alone: bool = False,
    ) -> None:
        self._rows, self._alone = rows, alone
        n = len(rows) if alone else rows.whole(int(_FITTED * len(rows)), least=1)
        images, n_cells = _single(map, rows.X), max(2, n // cell_rows)
        partition = Partitioned.balanced(images[:n], n_cells, kernel=Gaussian(1.0), seed=seed)
        fitted = rows_by_cell(partition.cells(images[:n]))
        fitted = {cell: mine[:most_rows] for cell, mine in fitted.items()}
        if alone:
            judged = {cell: mine[len(mine) // 2 :] for cell, mine in fitted.items()}
        else:
            places = rows_by_cell(partition.cells(images[n:]))
            judged = {cell: mine + n for cell, mine in places.items()}
        able = sorted(fitted.keys() & judged.keys())
        asked = np.linspace(0, len(able) - 1, min(len(able), n_asked)).astype(int)
        self._cells: list[tuple[Numbers, Numbers]] = [
            (fitted[cell], judged[cell]) for cell in (able[at] for at in asked)
        ]
        self._judges = rows[np.concatenate([theirs for _, theirs in self._cells])]

    def attempt(
        self, family: Family, map: FixedMap, lengths: list[float], name: str
    ) -> tuple[_Attempt, list[dict[str, Any]]]:
        """Return a function from the number of a length scale to the best pilot, and its table.

        Parameters
        ----------
        family : Family
            Family of local kernels.
        map : FixedMap
            Map of the inputs.
        lengths : list of float
            Length scales to try.
        name : str
            Name of the map, for the table, to which each attempt adds an entry.
        """
        values_with, table = self._fits(family, map), []
        ridge = FIRST_CELL_RIDGE

        @cache
        def attempt(number: int) -> tuple[float, CellPilot]:
            nonlocal ridge
            values = values_with(lengths[number])

            def judge(ridge: int) -> tuple[float, tuple[float, float] | None]:
                predictions = values(float(CELL_RIDGES[ridge]))
                if predictions is None:
                    return np.inf, None
                found = error_of(predictions, self._judges)
                return found[0], found

            ridge, numbers = descend_able(judge, ridge, CELL_RIDGES.size)
            assert numbers is not None  # the largest ridge suits any kernel matrix
            pilot = CellPilot(lengths[number], ridge, *numbers)
            what = "cells", family.name, name, map.n_outputs
            table.append(table_entry(*what, pilot.length, *numbers))
            return pilot.error, pilot

        return attempt, table

    def _fits(self, family: Family, map: FixedMap) -> Callable[[float], _Values]:
        """Return a function from length scale to ridge to values at the judging rows, clipped.

        The values are clipped to the range of the targets; None if a ridge is too weak for single
        precision.
        """
        images = _single(map, self._rows.X)
        unit = family.make(1.0)
        assert isinstance(unit, DistanceKernel)
        pieces = []
        for mine, theirs in self._cells:
            own = unit.separations(images[mine], images[mine])
            across = None if self._alone else unit.separations(images[theirs], images[mine])
            pieces.append((self._rows[mine], own, across))

        def with_length(length: float) -> _Values:
            kernel = family.make(length)
            assert isinstance(kernel, DistanceKernel)

            def fits_of(piece: tuple[Rows, Any, Any]) -> _Values:
                fitted, own, across = piece
                mean = np.average(fitted.targets, axis=0, weights=fitted.weights)
                ends = fitted.targets.min(axis=0), fitted.targets.max(axis=0)
                K = kernel.of_separations(own) + LITTLE
                exact = ExactRidge(K, fitted.targets - mean, fitted.weights)
                others = None if across is None else kernel.of_separations(across) + LITTLE
                last = fitted.targets[len(fitted) // 2 :]

                def values(ridge: float) -> Array | None:
                    fit = exact.fit(ridge)
                    if fit is None:
                        return None
                    if others is None:
                        return np.clip(last - exact.left_out(fit, len(last)), *ends)
                    return np.clip(fit.values(others) + mean, *ends)

                return values

            fits = in_order(fits_of, pieces)

            def with_ridge(ridge: float) -> Array | None:
                found = [one for one in in_order(lambda fit: fit(ridge), fits) if one is not None]
                return np.concatenate(found) if len(found) == len(fits) else None

            return with_ridge

        return with_length


def _single(map: FixedMap, X: Any) -> NDArray[np.float32]:
    """Return mapped rows in single precision."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(in_single(map(X)))


_LARGEST_BIAS = 300.0
# Number of rows of a race of families, as a multiple of the rows that the first pilots fit; and how
# many finalists are fitted again, to twice as many.
_JUDGED, _AGAIN = 6, 2
# Families whose cells have an error above this many times the least, with the first length scale,
# and by more than its standard error, try no other: the best length lowers an error by a tenth,
# rarely by more.
_HOPEFUL = 1.25


class RaceSettings(NamedTuple):
    """How much a race tries, and on how many rows.

    Attributes
    ----------
    small : int, default=2000
        Number of rows up to which a model is an exact fit to all rows, without cells.
    pilot_rows : int, default=1000
        Largest number of rows of a pilot: half of them are fitted; the best two finalists, on
        twice as many rows, fit all of them. Up to 2.5 times as many rows judge.
    fewest_for_metrics : int, default=20
        With fewer rows, only Gaussian kernels without metrics race, and each row is predicted by a
        fit to all others.
    families : tuple of str
        Families of kernels that race, from :data:`mercer.selection.FAMILIES`.
    rounds : int, default=4
        How often, at most, a metric of one kind follows the last one if that helps.
    near, most_families : float and int, default=1.15 and 3
        A family is trained if its error is at most ``near`` times the smallest, with cells also if
        its standard error allows that; at most ``most_families``.
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
    alone, alone_cells, alone_rows : int, default=8000, 5 and 416
        Up to so many rows, if these are independent, cells are judged by leave-one-out errors:
        number of cells, and most rows of a cell. The ridge found is then the ridge of the model's
        cells.
    wide, n_components : int, default=64 and 40
        Number of inputs above which principal components are tried and cells are not used, and the
        number of components.
    many : int, default=16
        Number of inputs from which trees tell which columns may matter.
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
    alone: int = 8000
    alone_cells: int = 5
    alone_rows: int = 416
    wide: int = 64
    n_components: int = 40
    many: int = 16


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
        hundred rows may miss what more rows show. None for a series.
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
    gains: Array | None = None,
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
    gains : ndarray of shape (n_features,), default=None
        How much trees explain by each column, as a further metric to try.
    settings : RaceSettings
        Settings of the race.
    """
    expected = len(rows) if n_rows is None else n_rows
    exact = expected <= settings.small
    constant = offset_variance(rows)
    families, plain, finalists, table = _race_of_families(
        rows, constant, block, gains, settings, cells=cells
    )
    local: tuple[Candidate, ...] = ()
    if cells and not exact and expected >= 2 * settings.cell_rows:
        others = [one for one in families if one.family not in {f.family for f in finalists}]
        local, entries = _race_of_cells(rows, [*finalists, *others], seed, block, settings)
        table += entries
    # Without a metric a Gaussian goes astray where later rows differ in columns of no effect.
    return RaceResult(finalists, local, constant, table, exact, plain if block == 1 else None)


def _race_of_families(
    rows: Rows,
    constant: float,
    block: int,
    gains: Array | None,
    settings: RaceSettings,
    *,
    cells: bool,
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
    how = settings.rounds, settings.wide, settings.n_components, gains
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
        near, rest = near[:_AGAIN], near[_AGAIN:]

        def again(pilot: Pilot) -> tuple[Pilot, Pilots]:
            # Gradients of twice as many rows make better metrics; only the best are worth the time.
            pilots = Pilots(some, constant, block, fewest, 2 * fitted)
            # Without cells, nothing corrects its length scale.
            alone = not (cells and _suits_cells(pilot.name, pilot.map, settings))
            return pilots.again(pilot, others=alone), pilots

        with one_blas_thread():
            raced_again = in_order(again, near)
        near = sorted((one for one, _ in raced_again), key=lambda one: one.error) + rest
        table += [entry for _, pilots in raced_again for entry in pilots.table]
    families, finalists = list(map(_candidate, best)), tuple(map(_candidate, near))
    plain = raced[names.index("gaussian")][1].plain if "gaussian" in names else None
    if plain is None or (finalists[0].family == "gaussian" and finalists[0].metric == plain.name):
        return families, None, finalists, table
    return families, _candidate(plain), finalists, table


def _suits_cells(name: str, map: FixedMap, settings: RaceSettings) -> bool:
    """Whether kernels behind a map may have cells: it has few outputs, and no components."""
    return map.n_outputs <= settings.wide and "components" not in name


def judges_alone(rows: Rows, block: int, settings: RaceSettings) -> bool:
    """Return whether a race of cells on rows judges each by a fit to all others of its cell."""
    return len(rows) <= settings.alone and rows.groups is None and block == 1


def _race_of_cells(
    rows: Rows, candidates: list[Candidate], seed: int, block: int, settings: RaceSettings
) -> tuple[tuple[Candidate, ...], list[dict[str, Any]]]:
    """Find the best length scale of cells for each promising family, and the finalists.

    A family tries more length scales only if the first one gives some hope.
    """
    most = settings.hopeless * candidates[0].error
    able = [
        one
        for one in candidates
        if FAMILIES[one.family].is_local
        and _suits_cells(one.metric, one.map, settings)
        and one.error <= most
    ]
    if not able:
        return (), []
    alone = judges_alone(rows, block, settings)
    sizes = 2 * settings.kept_rows, settings.asked_cells
    if alone:
        sizes = settings.alone_rows, settings.alone_cells
    some = rows[: settings.cells_rows]
    pilots = CellPilots(some, able[0].map, settings.cell_rows, *sizes, seed, alone=alone)
    first, n = settings.first_multiple, len(settings.multiples)

    def begin(one: Candidate) -> tuple[CellPilot, _Attempt, list[dict[str, Any]]]:
        lengths = [multiple * one.length for multiple in settings.multiples]
        attempt, table = pilots.attempt(FAMILIES[one.family], one.map, lengths, one.metric)
        return attempt(first)[1], attempt, table

    begun = in_order(begin, able)
    # Where a few rows make up most of an error, families that are as good differ by much.
    limit = _HOPEFUL * min(pilot.error for pilot, _, _ in begun)
    going = [
        (one, attempt)
        for one, (pilot, attempt, _) in zip(able, begun, strict=True)
        if pilot.error <= limit or pilot.error - pilot.deviation <= limit  # both may be infinite
    ]
    bests = in_order(lambda pair: descend(pair[1], first, n)[1], going)
    found = [
        Candidate("cells", one.metric, one.map, best.length, *best[2:], one.family, best.ridge)
        for (one, _), best in zip(going, bests, strict=True)
    ]
    found.sort(key=lambda one: one.error)
    limit = settings.near * found[0].error
    near = [one for one in found if one.error <= limit or one.error - one.deviation <= limit]
    return tuple(near[: settings.most_families]), [
        entry for _, _, table in begun for entry in table
    ]


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
