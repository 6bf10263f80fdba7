"""Maps of the inputs that kernels are used behind: shifts, scales, projections and metrics.

Most of them are one thing, an :class:`Affine` map, so that any chain of them is one too. Some are
given by their numbers, some learned from rows (:class:`Standardize`,
:class:`PrincipalComponents`), some made of the gradients of a function learned before
(:func:`ard_metric`, :func:`full_metric`). :class:`Curves` bend each column by itself, to ranks
(:class:`NormalScores`) or logarithms (:class:`Logarithms`), :class:`Indicators` split codes
(:class:`OneHot`), and an affine map may follow (:class:`Chain`). :class:`Leaves` are indicators of
the leaves of trees.
``mercer.kernels.Mapped(kernel, map)`` puts a kernel behind one.
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
from mercer.maps.curves import Chain, Curves, Indicators, Logarithms, NormalScores, OneHot
from mercer.maps.leaves import Leaves

__all__ = [
    "Affine",
    "Chain",
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
