"""How far a training has come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.default import DefaultLearner
from mercer.estimators import TableModel

__all__ = ["TrainingProgress", "Watch"]

# A sum of parts is solved again, to be looked at, when it has so many times the rows.
_GROWTH = 8
# Not so late that the last solution follows at once.
_LATEST = 2 / 3


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
        target). Of a sum of parts: at its last solution, of the rows kept back until then; None
        before the first one. None for a Gaussian process, which has none.
    model_order : int
        Number of dictionary points, or of random features; 0 as long as there are none.
    rows_per_second : float
        Since the end of the first chunk, which may include compilation.
    """

    n_rows: int
    n_total: int | None
    loss: float | None
    model_order: int
    rows_per_second: float


class Watch:
    """Loss and size of a model along a training.

    What it asks for depends on the rows that were learned only, so that it does not matter to the
    model file when, or how often, a training was stopped. A sum of parts is solved when somebody
    asks, which takes a second or two; here that is each time there are eight times the rows.

    Parameters
    ----------
    model : TableModel
        The model, perhaps resumed.
    """

    def __init__(self, model: TableModel) -> None:
        self.model = model
        self._sum = self._sum_of_losses()

    def look(self, n_rows: int, n_total: int | None) -> tuple[float | None, int]:
        """Loss and model order, as of :class:`TrainingProgress`.

        Parameters
        ----------
        n_rows : int
            Rows learned since the last look.
        n_total : int or None
            Rows of the training, if known.
        """
        learner = getattr(self.model.estimator, "learner_", None)
        if isinstance(learner, DefaultLearner):
            late = n_total is not None and learner.n_rows > _LATEST * n_total
            grown = learner.n_rows >= _GROWTH * learner.solved_at
            if learner.is_decided and grown and not late:
                learner.current_function()
            if not learner.solved_at:
                return None, 0
            return float(learner.held_loss), learner.function.size
        before, self._sum = self._sum, self._sum_of_losses()
        if before is None or self._sum is None:
            return None, self.model.model_order_
        return (self._sum - before) / n_rows, self.model.model_order_

    def _sum_of_losses(self) -> float | None:
        """Losses of all rows so far; None for a model without a history of them."""
        if not hasattr(self.model.estimator, "learner_"):
            return 0.0 if hasattr(type(self.model.estimator), "history_") else None
        history = self.model.history_
        return float(history.loss @ np.diff(history.n_samples, prepend=0))
