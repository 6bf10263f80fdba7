"""How far a training has come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.estimators import TableModel

__all__ = ["TrainingProgress", "sum_of_losses"]


class TrainingProgress(NamedTuple):
    """What a callback is given after every chunk.

    Attributes
    ----------
    n_rows : int
        Rows learned so far, over all passes and including those before a resumed checkpoint.
    n_total : int or None
        Rows of all passes; None during the first pass over files that do not tell their length.
    loss : float or None
        Mean loss of the chunk's rows, each before it was learned (regression: of the standardised
        target); None for a Gaussian process, which has none.
    model_order : int
        Number of dictionary points, or of random features.
    rows_per_second : float
        Since the end of the first chunk, which may include compilation.
    """

    n_rows: int
    n_total: int | None
    loss: float | None
    model_order: int
    rows_per_second: float


def sum_of_losses(model: TableModel) -> float | None:
    """Losses of all rows so far; None for a model without a history of them."""
    history = getattr(model, "history_", None)
    if history is None:
        return None
    return float(history.loss @ np.diff(history.n_samples, prepend=0))
