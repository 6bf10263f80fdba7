"""What estimators do with their rows first: weights, a sample, the numbers of the kernel."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.exceptions import InputScaleWarning
from mercer.kernels import Kernel

__all__ = [
    "check_not_tiny",
    "check_weights",
    "resolve_kernel",
    "sample_of",
    "warn_if_one_column_decides",
    "warn_user",
]

Array = NDArray[np.float64]

_SAMPLE = 1000  # rows looked at for length scales and step sizes
# Share of the variance of all columns beyond which one decides alone.
_ALONE = 0.999
_ROOT = str(Path(__file__).parents[1]) + os.sep
_RESCALE = "Rescale the inputs, for example with sklearn.preprocessing.StandardScaler."
_DATES = "Dates count in seconds."


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this library that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ROOT):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_weights(sample_weight: Any, n_rows: int, *, some: bool = False) -> Array:
    """Weights of the rows as an array; all 1 for None.

    Parameters
    ----------
    sample_weight : array-like or None
        As the user gave them.
    n_rows : int
        How many there must be.
    some : bool, default=False
        Whether one must be above 0.

    Raises
    ------
    ValueError
        If they are none.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have shape ({n_rows},), one weight per row, got {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise ValueError(
            "`sample_weight` must be finite and not negative: it has NaN, infinite or negative "
            "values. A negative weight would drive the function away from its target."
        )
    if some and not weights.any():
        raise ValueError(
            "`sample_weight` is zero for all rows, so none counts. Give some rows a weight."
        )
    return weights


def check_not_tiny(sample: Any, *, each: bool) -> None:
    """Refuse inputs whose squares are too small for their precision: distances would be 0.

    Parameters
    ----------
    sample : ndarray or CSR matrix of shape (n, n_features)
        Some rows.
    each : bool
        Whether each column counts in its own unit, or all in one.

    Raises
    ------
    ValueError
        If there are such, though not all are 0.
    """
    largest = abs(sample).max(axis=0)
    largest = np.ravel(largest if isinstance(largest, np.ndarray) else largest.toarray())
    # Columns are scaled in double precision, and distances are in that of the inputs.
    columns = [(f" of column {i}", x, np.float64) for i, x in enumerate(largest)] if each else []
    for which, x, dtype in [("", largest.max(initial=0.0), sample.dtype), *columns]:
        if 0.0 < x < np.sqrt(np.finfo(dtype).tiny):
            raise ValueError(
                f"These are rows whose largest input{which} is {float(x):.3g}: its square is 0 in "
                f"{np.dtype(dtype)}, so that they could not be told apart. {_RESCALE}"
            )


def warn_if_one_column_decides(sample: Any, names: Sequence[str] | None = None) -> None:
    """Warn if distances of rows are those of a single column, for its unit.

    Parameters
    ----------
    sample : ndarray or CSR matrix of shape (n, n_features)
        Some rows; sparse ones are counts or weights, in one unit.
    names : sequence of str, default=None
        Of the columns of a table that each input is made of; None where inputs are the columns.

    Warns
    -----
    mercer.exceptions.InputScaleWarning
        If one column has all but a thousandth of the variance, and others vary, too.
    """
    if sparse.issparse(sample):
        return
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.std(sample, axis=0, dtype=np.float64)
    largest = int(np.argmax(spread))
    others = np.delete(spread, largest)
    if not (np.isfinite(spread).all() and others.any()):
        return
    if np.sum((others / spread[largest]) ** 2) < 1.0 - _ALONE:
        which, mend = f"Column {largest} of the inputs", _RESCALE
        if names is not None:
            which = f"The column {names[largest]!r}"
            mend = (
                f"Rescale the columns, or leave `kernel` out: one that is chosen does it. {_DATES}"
            )
        warn_user(
            f"{which} has a deviation of {spread[largest]:.3g}, the others "
            f"of {others.max():.3g} at most: distances between rows are those of this column, and "
            f"from the others hardly anything is learned. {mend}",
            InputScaleWarning,
        )


def sample_of(n: int, generator: np.random.RandomState) -> Any:
    """Which of ``n`` rows automatic choices look at."""
    if n <= _SAMPLE:
        return slice(None)
    return np.sort(generator.choice(n, _SAMPLE, replace=False))


def resolve_kernel(kernel: Kernel, sample: Any, generator: np.random.RandomState) -> Kernel:
    """Fill in the kernel's numbers, or say what is wrong with the rows.

    Raises
    ------
    ValueError
        If it cannot take its numbers from these rows.
    """
    try:
        return kernel.resolve(sample, generator)
    except ValueError as error:
        raise ValueError(
            f"{kernel!r} cannot take its numbers from these rows, whose largest input is "
            f"{float(abs(sample).max()):.3g}: {error} {_RESCALE}"
        ) from error
