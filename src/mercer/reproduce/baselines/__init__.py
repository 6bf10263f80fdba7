"""Solvers that exist only for comparison with the papers' methods.

Those of POLK, Tables 2 and 3, of DSG, Tables 2 and 3, and of COLK, Section V.

Each that moves on step by step is a :class:`Solver`: built on all training rows, it can be stopped
after a number of rows or after some CPU time. The batch methods, L-BFGS (:func:`minimize_risk`) and
the import vector machine (:func:`import_vectors`), are functions that return what they found.
"""

from mercer.reproduce.baselines._base import CachedFeatures, LinearSolver, Solver, row_batches
from mercer.reproduce.baselines.feature_makers import NystroemMap, RandomFeatureMap
from mercer.reproduce.baselines.ivm import ImportVectors, import_vectors
from mercer.reproduce.baselines.lbfgs import (
    BatchFunction,
    KernelFactor,
    SmoothedHinge,
    minimize_risk,
)
from mercer.reproduce.baselines.norma import NORMA
from mercer.reproduce.baselines.npbsgd import NPBSGD
from mercer.reproduce.baselines.pegasos import Pegasos
from mercer.reproduce.baselines.rbcd import RBCD
from mercer.reproduce.baselines.rbf_scgd import RBFNetwork
from mercer.reproduce.baselines.sbmd import SBMD
from mercer.reproduce.baselines.sdca import SDCA, KernelSDCA

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
