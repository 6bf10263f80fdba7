"""Second-order learning in bounded memory: sums over rows, and the problems solved with them."""

from mercer.numerics.factor import RidgeFactor, factor_ridge
from mercer.sums.basis import (
    CENTERS,
    Basis,
    FeatureTable,
    KernelBasis,
    check_same_basis,
    choose_centers,
)
from mercer.sums.cells import Cell, CellsPart, LocalFunction, no_range
from mercer.sums.correction import Correction
from mercer.sums.exact import ExactFit, ExactRidge
from mercer.sums.gradients import average_gradient_outer_product
from mercer.sums.leaves import LeafBasis, TreesPart
from mercer.sums.newton import NewtonSteps
from mercer.sums.posterior import WeightPosterior, weight_posterior
from mercer.sums.ridge import BasisPart, GlobalPart, RidgeStream, descend, squared_error
from mercer.sums.rows import (
    Blocks,
    RevisitableRows,
    Rows,
    RowsByNumber,
    check_sizes,
    class_numbers,
    coded_rows,
    codes_of_targets,
    distinct_rows,
    labels_of_codes,
    merge_classes,
    relabelled,
    rows_at_once,
    shift_of_codes,
    targets_of_codes,
)
from mercer.sums.statistics import LeafFeatures, Statistics, check_alike, target_scale

__all__ = [
    "CENTERS",
    "Basis",
    "BasisPart",
    "Blocks",
    "Cell",
    "CellsPart",
    "Correction",
    "ExactFit",
    "ExactRidge",
    "FeatureTable",
    "GlobalPart",
    "KernelBasis",
    "LeafBasis",
    "LeafFeatures",
    "LocalFunction",
    "NewtonSteps",
    "RevisitableRows",
    "RidgeFactor",
    "RidgeStream",
    "Rows",
    "RowsByNumber",
    "Statistics",
    "TreesPart",
    "WeightPosterior",
    "average_gradient_outer_product",
    "check_alike",
    "check_same_basis",
    "check_sizes",
    "choose_centers",
    "class_numbers",
    "coded_rows",
    "codes_of_targets",
    "descend",
    "distinct_rows",
    "factor_ridge",
    "labels_of_codes",
    "merge_classes",
    "no_range",
    "relabelled",
    "rows_at_once",
    "shift_of_codes",
    "squared_error",
    "target_scale",
    "targets_of_codes",
    "weight_posterior",
]
