"""Random features: finite-dimensional maps whose inner products are a kernel on average.

Features are drawn in blocks by a counter-based generator. A block can be redrawn at any time, in
any order and by any thread, so only the seed needs to be stored.
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
