"""Maps of the inputs that kernels are used behind: shifts, scales, projections and metrics.

All of them are one thing, an :class:`Affine` map, so that any chain of them is one too. Some are
given by their numbers, some learned from rows (:class:`Standardize`,
:class:`PrincipalComponents`), some made of the gradients of a function learned before
(:func:`ard_metric`, :func:`full_metric`). ``mercer.kernels.Mapped(kernel, map)`` puts a kernel
behind one.
"""

from mercer.maps.affine import (
    Affine,
    LearnedMap,
    MapStatistics,
    PrincipalComponents,
    Standardize,
    ard_metric,
    full_metric,
)

__all__ = [
    "Affine",
    "LearnedMap",
    "MapStatistics",
    "PrincipalComponents",
    "Standardize",
    "ard_metric",
    "full_metric",
]
