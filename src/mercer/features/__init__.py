"""Random features: finite-dimensional maps whose inner products are a kernel on average.

They are drawn in blocks by a counter-based generator, so a block can be made again at any time,
in any order, by any thread, and nothing but the seed needs to be stored.
"""

from mercer.features.cosine import DESIGNS, CosineMap
from mercer.features.feature_map import FeatureMap, FeatureOptions
from mercer.features.laws import (
    CoordinateLaw,
    LaplaceLaw,
    Law,
    NormalGammaLaw,
    NormalLaw,
    RadialLaw,
    SechLaw,
    StudentLaw,
    SumLaw,
    TanLaw,
)

__all__ = [
    "DESIGNS",
    "CoordinateLaw",
    "CosineMap",
    "FeatureMap",
    "FeatureOptions",
    "LaplaceLaw",
    "Law",
    "NormalGammaLaw",
    "NormalLaw",
    "RadialLaw",
    "SechLaw",
    "StudentLaw",
    "SumLaw",
    "TanLaw",
]
