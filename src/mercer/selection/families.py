"""Candidates of a race: families of kernels, and maps of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Bias, Gaussian, Kernel, Laplacian, Linear, Mapped, Matern
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
    """

    make: Callable[[Array], Affine]
    most_rounds: int
    most_inputs: int


#: Metrics by name.
METRICS = {
    "relevance": Metric(ard_metric, 4, 2**31),
    "full metric": Metric(full_metric, 1, 300),
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
