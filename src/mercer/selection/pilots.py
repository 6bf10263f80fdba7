"""Pilots of a race: small exact fits to half of some rows, judged on the other half."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import DistanceKernel, Kernel
from mercer.maps import FixedMap
from mercer.selection.families import LITTLE, METRICS, Family, bias_of, input_maps
from mercer.sums import (
    ExactFit,
    ExactRidge,
    Rows,
    average_gradient_outer_product,
    descend,
    squared_error,
)
from mercer.sums.ridge import RIDGES, descend_ridges
from mercer.threads import in_order

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Number of rows used to estimate a median distance.
_MEDIAN_ROWS = 300
# Index of the ridge to begin with.
_FIRST_RIDGE = 3


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
        self._rows = rows
        self._halves = len(rows) >= fewest
        half = min(len(rows) // 2, most_fitted)
        half -= half % block if half > block else 0
        half = rows.whole(half, least=1)
        self._fitted = rows[:half] if self._halves else rows
        self._judges = rows[half:] if self._halves else rows
        share = self._fitted.weights / self._fitted.weights.sum()
        self._mean = share @ self._fitted.targets if self._halves else np.zeros(1)
        self._bias = LITTLE if self._halves else bias_of(constant)

    def best(self, family: Family, rounds: int, wide: int, n_components: int) -> Pilot | None:
        """Return the best kernel of a family, with its best map and metrics; None if there is none.

        Metrics are repeated: irrelevant columns fade together with their noise, which had hidden
        the effect of the others. Weights of columns follow each other, and directions follow the
        most helpful metric.
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
            leader = min(tried, key=lambda pilot: pilot.error)
            if leader.metric == "relevance" and "full metric" in family.metrics:
                tried += self._behind_metrics(leader, "full metric", rounds)
        return min(tried, key=lambda pilot: pilot.error)

    def again(self, pilot: Pilot) -> Pilot:
        """Refit a pilot of fewer rows to these rows, and remake its last metric if that helps."""
        first = self._best_length(pilot.family, pilot.name, pilot.map, pilot)
        if not pilot.metric:
            return first
        kinds = [pilot.metric]
        if "full metric" in pilot.family.metrics and pilot.metric != "full metric":
            kinds.append("full metric")

        def anew(kind: str) -> tuple[Pilot | None, list[dict[str, Any]]]:
            pilots = copy.copy(self)
            pilots.table = []
            return pilots._behind_metric(first, kind), pilots.table

        found = [first]
        for one, entries in in_order(anew, kinds):
            self.table += entries
            if one is not None:
                found.append(one)
        return min(found, key=lambda one: one.error)

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

    def _best_length(
        self, family: Family, name: str, map: FixedMap, like: Pilot | None = None
    ) -> Pilot:
        """Find the best length scale and ridge after a map, starting from another pilot's."""
        fitted, judged = self._images(map)
        resolved: Any = family.make("median")
        if isinstance(resolved, DistanceKernel):
            some = fitted[:_MEDIAN_ROWS].astype(np.float64)
            unit = float(resolved.resolve(some).length_scale)
        else:
            unit = 1.0
        own, others = _values(resolved, fitted, fitted), _values(resolved, judged, fitted)
        targets = self._fitted.targets - self._mean
        # For another length scale, other ridges are tried only if it wins with the present ridge.
        ridge, limit = _FIRST_RIDGE if like is None else like.ridge, np.inf

        def attempt(number: int) -> tuple[float, Pilot]:
            nonlocal ridge, limit
            length = family.lengths[number] * unit
            kernel = family.make(length)
            exact = ExactRidge(own(kernel) + self._bias, targets, self._fitted.weights)
            K = others(kernel) + self._bias if self._halves else None

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
            what = "global", family.name, name, map.n_outputs
            self.table.append(table_entry(*what, length, error, deviation))
            limit = min(limit, error)
            found = number, length, ridge, error, deviation, coefficients
            return error, Pilot(family, name, "", map, *found)

        first = family.first_length if like is None else like.number
        return descend(attempt, first, len(family.lengths))[1]

    def _images(self, map: FixedMap) -> tuple[Floats, Floats]:
        """Return fitted and judging rows after a map, in float32."""
        with np.errstate(over="ignore"):
            fitted = np.ascontiguousarray(map(self._fitted.X), dtype=np.float32)
            if not self._halves:
                return fitted, fitted
            return fitted, np.ascontiguousarray(map(self._judges.X), dtype=np.float32)

    def _behind_metric(self, pilot: Pilot, kind: str) -> Pilot | None:
        """Return the pilot with a metric from gradients at the points; None if the metric is 0."""
        n_inputs, metric = pilot.map.n_outputs, METRICS[kind]
        if not 2 <= n_inputs <= metric.most_inputs:
            return None
        points = np.asarray(pilot.map(self._fitted.X), dtype=np.float32)
        coefficients = pilot.coefficients.astype(np.float32)
        kernel = pilot.family.make(pilot.length)
        outer = average_gradient_outer_product(kernel, points, coefficients, points)
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
