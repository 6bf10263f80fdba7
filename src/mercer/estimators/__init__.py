"""Estimators: they check, keep the books and delegate."""

from mercer.estimators.classifier import KernelClassifier
from mercer.estimators.regressor import KernelRegressor
from mercer.estimators.table import TableModel

__all__ = ["KernelClassifier", "KernelRegressor", "TableModel"]
