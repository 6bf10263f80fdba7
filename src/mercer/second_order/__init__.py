"""Second-order learning in bounded memory: sums over the rows, and what is solved with them."""

from mercer.second_order._basis import Basis, FeatureTable, KernelBasis
from mercer.second_order._centers import CENTERS, choose_centers, distinct_rows
from mercer.second_order._newton import NewtonSteps
from mercer.second_order._ridge import RidgeStream
from mercer.second_order._rows import Rows, blocks_from_state, blocks_to_state, check_sizes
from mercer.second_order._statistics import RidgeFactor, Statistics, factor_ridge, target_scale

__all__ = [
    "CENTERS",
    "Basis",
    "FeatureTable",
    "KernelBasis",
    "NewtonSteps",
    "RidgeFactor",
    "RidgeStream",
    "Rows",
    "Statistics",
    "blocks_from_state",
    "blocks_to_state",
    "check_sizes",
    "choose_centers",
    "distinct_rows",
    "factor_ridge",
    "target_scale",
]
