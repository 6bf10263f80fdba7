"""What can take part in a race: families of kernels, and the maps of the inputs behind them."""

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

# Bias of a single dictionary: that of the targets' mean if it is so many deviations from 0, else a
# little.
FAR, LITTLE = 2.0, 0.1
# Columns are of one unit if the quarter with the smallest ranges has such a part of the largest.
_ALIKE = 0.1


class Family(NamedTuple):
    """Kernels that differ in their length scale only, and what is tried behind them.

    Attributes
    ----------
    name : str
        Its name in tables and files.
    make : callable
        Length scale to kernel.
    maps : tuple of str
        Kinds of maps of the inputs, see ``input_maps``.
    metrics : tuple of str
        Names of the metrics that follow the best map, in this order, see ``METRICS``.
    lengths, first_length : tuple of float, int
        Length scales that are tried, in median distances of the mapped rows, and the number of the
        one that the descent begins with.
    most_inputs : int or None
        Inputs beyond which it is too dear; None for any.
    is_local : bool
        Whether kernels fade with the distance, so that cells of them make sense.
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

#: What races, by name. Thresholds and few of many columns want the city-block distance behind
#: ranks; smooth targets want the others; where all is a straight line, nothing else comes near.
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
    """A map from the gradients of a pilot.

    Attributes
    ----------
    make : callable
        Average outer product of gradients to map.
    most_rounds : int
        How often it can follow itself: a full metric of a full metric fits the noise of few rows.
    most_inputs : int
        Inputs beyond which it costs more than it is worth.
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
    """Kernel with an offset behind a map."""
    return Mapped(kernel + Bias(bias_of(constant)), map)


def bias_of(constant: float) -> float:
    """Return the value of the constant kernel: a little, unless targets are far from 0."""
    # Where there are enough points their sum can be constant. A bias that nothing asks for would
    # only raise the rounding errors of the sums.
    return constant if constant > FAR else LITTLE


def input_maps(
    X: Any, kinds: tuple[str, ...], wide: int, n: int, alike: float = _ALIKE
) -> list[tuple[str, FixedMap]]:
    """Return maps that do not look at the targets, by name: those that can make a difference.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows to learn them from.
    kinds : tuple of str
        ``"standardized"``: each column by its deviation, and all by one where they are of one unit,
        and principal components of both where there are many. ``"scores"``: normal scores.
        ``"one-hot"``: columns of few integers as indicators, where there are any.
    wide, n : int
        Columns beyond which there are principal components, and how many.
    alike : float, default=0.1
        Columns are of one unit if the quarter with the smallest ranges has such a part of the
        largest.
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
    """One scale for columns of one unit, such as pixels, whose spreads mean something."""
    spread = np.ptp(X, axis=0)[varies]
    alike = spread.size > 1 and np.quantile(spread, 0.25) >= least * spread.max()
    if spread.size < 2 or not (alike or X.shape[1] > wide):
        return []
    scale = float(np.sqrt(X.var(axis=0, dtype=np.float64)[varies].mean()))
    mean = X.mean(axis=0, dtype=np.float64)
    return [("common scale", Affine(mean, np.where(varies, 1.0 / scale, 0.0)))]
