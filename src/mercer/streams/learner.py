"""The learner of the default for streams: row by row, watching the losses for changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.history import History
from mercer.learning import AutomaticStep, Learner, NewOutputs, Passes
from mercer.learning.learner import Array, StepSize, Take
from mercer.losses import Logistic, Softmax, Squared
from mercer.objectives import Objective, Pointwise
from mercer.streams.function import StreamFunction
from mercer.sums import check_sizes, codes_of_targets, rows_at_once

_LOSSES = (Squared, Logistic, Softmax)
_CHUNK = 4096  # rows between two reports of progress
_RECENT = 1000  # number of recent losses kept


def _why_not(objective: Objective, function: Any) -> str | None:
    """Return why an objective cannot be learned this way; None if it can."""
    if type(objective) is Pointwise and isinstance(objective.loss, _LOSSES):
        return None
    return (
        f"{function.expansion!r} learns the squared, the logistic and the softmax loss, without a "
        "risk. Use another expansion, such as 'komp', for this objective."
    )


class StreamLearner(Learner):
    """A mixture of models that learns each row when it comes.

    See :class:`mercer.learning.Learner` for the parameters.

    Attributes
    ----------
    recent_losses : deque of float
        Losses of the last 1,000 rows, each from the prediction before learning the row.
    """

    function: StreamFunction
    objective: Pointwise
    solves = (lambda objective: True,)
    refuses = (_why_not,)

    def __init__(
        self,
        objective: Objective,
        function: StreamFunction,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self.history = History(function.mixture.kinds)
        self.recent_losses: deque[float] = deque(maxlen=_RECENT)

    # -- learning -------------------------------------------------------------------------------

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        check_sizes(X, targets)  # of all rows, before the first is learned
        before = self.to_state() if X.shape[0] > 1 else None
        chunk = rows_at_once(X.shape[1], _CHUNK)
        try:
            for start in range(0, X.shape[0], chunk):
                some = X[start : start + chunk]
                dense = some if isinstance(some, np.ndarray) else some.toarray()
                rows = np.ascontiguousarray(dense, dtype=np.float64)
                for number, x in enumerate(rows, start):
                    self._learn_row(x, targets[number], float(weights[number]))
        except BaseException:
            if before is not None:
                self.restore(before)
            raise

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        for order in orders:
            for start in range(0, order.size, _CHUNK):
                some = order[start : start + _CHUNK]
                self.learn(X[some], targets[some], weights[some])
                if report(some.size):
                    return

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        check_sizes(x, target)
        if weight > 0.0 and x.size > self.function.n_features:  # new inputs
            self.function.mixture.add_inputs(x.size - self.function.n_features)
        self._learn_row(x, target, weight)

    def _learn_row(self, x: Array, target: Array, weight: float) -> None:
        """Learn a row whose numbers are not too large."""
        self.n_samples += 1
        if weight <= 0.0:
            return
        mixture, loss = self.function.mixture, self.objective.loss
        codes = codes_of_targets(loss, target[np.newaxis], mixture.n_outputs)[0]
        missed = mixture.learn(x, codes, weight)
        self.recent_losses.append(missed)
        self.history.add_one(missed, mixture.size, 0.0, 0.0, mixture.kind_weights)
        if mixture.has_changed:
            self.history.note_change(mixture.n_rows)  # counted like the history

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        return Passes(n_passes, n_passes * len(weights))

    def end_race(self) -> None:
        """Do nothing: there are no candidates to choose from."""

    def finish(self, take: Take | None = None) -> None:
        """Do nothing: every row is learned at once."""

    # -- the function and its outputs -----------------------------------------------------------

    def current_function(self) -> StreamFunction:
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        return self.function.mixture.values(x)

    def map_outputs(self, new: NewOutputs) -> None:
        self.function.mixture.map_outputs(new.places, new.mixing)
        self._replace_objective(new.objective)

    # -- state ----------------------------------------------------------------------------------

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        recent = np.array(self.recent_losses, dtype=np.float64)
        return {**self._state_with(self.function.snapshot()), "recent_losses": recent}

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)
        recent = state["recent_losses"]
        if recent.ndim != 1 or recent.size > _RECENT or not (recent >= 0.0).all():
            raise ValueError("the losses of the last rows are out of their range")
        self.recent_losses = deque(recent.tolist(), maxlen=_RECENT)
