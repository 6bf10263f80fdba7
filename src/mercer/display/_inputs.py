"""Inputs of models of one or two of them, as their pictures need them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_inputs", "grid_range", "like_frame"]

Array = NDArray[np.float64]


def like_frame(X: Any, values: Array) -> Any:
    """Give ``values`` the column names of the data frame ``X``, which the estimator expects."""
    return type(X)(values, columns=X.columns) if hasattr(X, "iloc") else values


def check_inputs(estimator: Any, X: Any, n_inputs: int, picture: str) -> tuple[Array, list[str]]:
    """Check that the model has ``n_inputs`` inputs and return its data and their names."""
    values = np.asarray(X, dtype=float)
    n_features = getattr(estimator, "n_features_in_", values.shape[-1])
    if n_features != n_inputs or values.ndim != 2 or values.shape[1] != n_inputs:
        raise ValueError(
            f"{picture} draws models of {n_inputs} input{'s'[: n_inputs - 1]}, but the model has "
            f"{n_features} and `X` has shape {values.shape}. Fit a model on {n_inputs} of the "
            "columns for this picture, or use `mercer.report.figures_for`, which draws what fits."
        )
    names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
    return values, [str(n) for n in names] if names is not None else [
        f"x{j}" for j in range(n_inputs)
    ]


def grid_range(values: Array, padding: float) -> tuple[float, float]:
    """Range of an input and a part of it on both sides."""
    low, high = float(values.min()), float(values.max())
    extra = padding * (high - low) if high > low else 1.0
    return low - extra, high + extra
