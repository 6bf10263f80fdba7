"""What pictures read off a fitted estimator, or off a Pipeline that ends in one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = [
    "check_inputs",
    "final_model",
    "grid_range",
    "has_run",
    "input_dictionary",
    "like_frame",
    "output_labels",
]


def final_model(estimator: Any) -> Any:
    """Return the last step of a Pipeline, and any other estimator itself."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def has_run(estimator: Any) -> bool:
    """Whether a model was learned step by step, which leaves a course to draw.

    The posterior of a Gaussian process is an algebraic function of all rows.
    """
    return not hasattr(final_model(estimator), "log_marginal_likelihood")


def input_dictionary(estimator: Any) -> Array | None:
    """Return the dictionary in the units of the inputs, None where there is no such thing."""
    dictionary = getattr(final_model(estimator), "dictionary_", None)
    if dictionary is None:
        return None
    if final_model(estimator) is not estimator and len(estimator.steps) > 1:
        before = estimator[:-1]
        if not hasattr(before, "inverse_transform"):
            return None
        dictionary = before.inverse_transform(dictionary)
    return np.asarray(dictionary, dtype=float)


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
    low, high = float(values.min()), float(values.max())
    extra = padding * (high - low) if high > low else 1.0
    return low - extra, high + extra


def output_labels(estimator: Any, n_outputs: int) -> list[str]:
    """Name the outputs of a regressor: by the levels of a quantile loss, else by number.

    Examples
    --------
    >>> output_labels(None, 1), output_labels(None, 2)
    (['prediction'], ['output 0', 'output 1'])
    """
    levels = getattr(getattr(final_model(estimator), "loss", None), "levels", None)
    if levels is not None and np.size(levels) == n_outputs:
        return [f"quantile {level:g}" for level in np.atleast_1d(levels)]
    return ["prediction"] if n_outputs == 1 else [f"output {j}" for j in range(n_outputs)]
