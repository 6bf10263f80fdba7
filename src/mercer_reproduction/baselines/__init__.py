"""Solvers that exist only for comparison with the papers' methods.

Those of POLK, Tables 2 and 3, of DSG, Tables 2 and 3, and of COLK, Section V.

Each that moves on step by step is a :class:`Solver`: built on all training rows, it can be stopped
after a number of rows or after some CPU time. The batch methods, L-BFGS (:func:`minimize_risk`) and
the import vector machine (:func:`import_vectors`), are functions that return what they found.
"""

from mercer_reproduction.baselines._base import CachedFeatures, LinearSolver, Solver, row_batches
from mercer_reproduction.baselines.feature_makers import NystroemMap, RandomFeatureMap
from mercer_reproduction.baselines.ivm import ImportVectors, import_vectors
from mercer_reproduction.baselines.lbfgs import (
    BatchFunction,
    KernelFactor,
    SmoothedHinge,
    minimize_risk,
)
from mercer_reproduction.baselines.norma import NORMA
from mercer_reproduction.baselines.npbsgd import NPBSGD
from mercer_reproduction.baselines.pegasos import Pegasos
from mercer_reproduction.baselines.rbcd import RBCD
from mercer_reproduction.baselines.rbf_scgd import RBFNetwork
from mercer_reproduction.baselines.sbmd import SBMD
from mercer_reproduction.baselines.sdca import SDCA, KernelSDCA

__all__ = [
    "NORMA",
    "NPBSGD",
    "RBCD",
    "SBMD",
    "SDCA",
    "BatchFunction",
    "CachedFeatures",
    "ImportVectors",
    "KernelFactor",
    "KernelSDCA",
    "LinearSolver",
    "NystroemMap",
    "Pegasos",
    "RBFNetwork",
    "RandomFeatureMap",
    "SmoothedHinge",
    "Solver",
    "import_vectors",
    "minimize_risk",
    "row_batches",
]
