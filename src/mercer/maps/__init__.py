"""Maps applied to inputs before a kernel: shifts, scales, projections and metrics.

Most are :class:`Affine` maps, so that any chain of them is affine, too. Some are given by their
numbers, some learned from rows (:class:`Standardize`, :class:`PrincipalComponents`), some made from
the gradients of a learned function (:func:`ard_metric`, :func:`full_metric`). :class:`Curves`
transform each column separately, to ranks (:class:`NormalScores`) or logarithms
(:class:`Logarithms`). :class:`Indicators` encode categories (:class:`OneHot`). An affine map may
follow (:class:`Chain`). :class:`Leaves` are indicators of the leaves of trees.
``mercer.kernels.Mapped(kernel, map)`` applies a kernel after a map.
"""

from mercer.maps.affine import (
    Affine,
    FixedMap,
    LearnableMap,
    LearnedMap,
    MapStatistics,
    PrincipalComponents,
    Standardize,
    ard_metric,
    full_metric,
)
from mercer.maps.cosines import Cosines
from mercer.maps.curves import Chain, Curves, Indicators, Logarithms, NormalScores, OneHot
from mercer.maps.leaves import Leaves

__all__ = [
    "Affine",
    "Chain",
    "Cosines",
    "Curves",
    "FixedMap",
    "Indicators",
    "LearnableMap",
    "LearnedMap",
    "Leaves",
    "Logarithms",
    "MapStatistics",
    "NormalScores",
    "OneHot",
    "PrincipalComponents",
    "Standardize",
    "ard_metric",
    "full_metric",
]
