"""Solvers that exist only for comparison with the papers' methods.

Those of DSG, Tables 2 and 3, and of COLK, Section V.

Each is a :class:`Solver`: built on all training rows, then moved on step by step, so that it can
be stopped after a number of rows or after some CPU time.
"""

from mercer.reproduce.baselines._base import CachedFeatures, LinearSolver, Solver, row_batches
from mercer.reproduce.baselines.feature_makers import NystroemMap, RandomFeatureMap
from mercer.reproduce.baselines.norma import NORMA
from mercer.reproduce.baselines.npbsgd import NPBSGDLike
from mercer.reproduce.baselines.pegasos import Pegasos
from mercer.reproduce.baselines.rbcd import RBCD
from mercer.reproduce.baselines.rbf_scgd import RBFNetwork
from mercer.reproduce.baselines.sbmd import SBMD
from mercer.reproduce.baselines.sdca import SDCA, KernelSDCA

__all__ = [
    "NORMA",
    "RBCD",
    "SBMD",
    "SDCA",
    "CachedFeatures",
    "KernelSDCA",
    "LinearSolver",
    "NPBSGDLike",
    "NystroemMap",
    "Pegasos",
    "RBFNetwork",
    "RandomFeatureMap",
    "Solver",
    "row_batches",
]
