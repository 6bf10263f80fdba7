"""The loop of the default learner: rows become sums, and sums are solved when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._threads import one_blas_thread
from mercer.learning import AutomaticStep, Learner, Record
from mercer.learning.learner import Array, StepSize, Take, one_at_a_time
from mercer.losses import Loss, Squared
from mercer.objectives import Objective, Pointwise
from mercer.parts import Blend
from mercer.selection import FEWEST_ROWS, block_order
from mercer.sums import RevisitableRows, Rows, RowsByNumber, check_sizes, codes_of_targets

__all__ = ["BlendLearner"]

# Rows at a time, or fewer that take so many bytes: each cell gets some hundred of them together.
_CHUNK = 131_072
_CHUNK_BYTES = 2**26


class BlendLearner(Learner):
    """Sums of parts; see :class:`Learner` for the parameters, of which steps play no role.

    Raises
    ------
    ValueError
        If the objective is not the mean of a loss.
    """

    function: Blend

    def __init__(
        self,
        objective: Objective,
        function: Blend,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        if not isinstance(objective, Pointwise):
            raise ValueError(
                f"expansion={function.expansion!r} learns the mean of a loss by sums over rows, "
                f"got the objective {type(objective).__name__}. Use expansion='dictionary', "
                "'komp' or 'random_features'."
            )
        loss = objective.loss
        if loss.task == "regression" and not isinstance(loss, Squared):
            raise ValueError(
                f"expansion={function.expansion!r} solves least squares, got loss={loss!r}. Use "
                "loss='squared', or expansion='dictionary' or 'komp' for other losses."
            )
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        function.loss = objective.loss

    def learn(self, X: Any, targets: Array, weights: Array) -> None:
        """See :class:`Learner`."""
        check_sizes(X, targets)  # of all rows before the first is learned
        chunk = _chunk(X)
        for start in range(0, X.shape[0], chunk):
            cut = slice(start, start + chunk)
            self._learn(X[cut], targets[cut], weights[cut])

    def _learn(self, X: Any, targets: Array, weights: Array) -> None:
        used = weights > 0.0
        rows = self._rows(X, targets, weights)
        self.function.learn(rows if used.all() else rows[used])
        self.n_samples += len(weights)

    def _rows(self, X: Any, targets: Array, weights: Array) -> Rows:
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        codes = codes_of_targets(self._loss, targets, self.function.n_outputs)
        return Rows(dense.astype(self.function.dtype, copy=False), codes, weights)

    def _revisitable(
        self, X: Any, targets: Array, weights: Array, numbers: NDArray[np.int64]
    ) -> RevisitableRows:
        """Rows of the given numbers, to be visited again."""

        def take(some: NDArray[np.int64]) -> Rows:
            some = numbers[some]
            return self._rows(X[some], targets[some], weights[some])

        return RowsByNumber(numbers.size, take)

    def _replace_objective(self, objective: Objective) -> None:
        super()._replace_objective(objective)
        self.function.loss = self._loss

    def restore(self, state: dict[str, Any]) -> None:
        """See :class:`Learner`; of the objective that it has then."""
        super().restore(state)
        self.function.loss = self._loss

    @property
    def _loss(self) -> Loss:
        assert isinstance(self.objective, Pointwise)
        return self.objective.loss

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        """See :class:`Learner`: sums take every row once, in the first of the orders."""
        check_sizes(X, targets)
        order, chunk = self._in_blocks(X, targets, weights, next(iter(orders))), _chunk(X)
        stopped, self.function.revisits = False, True
        for start in range(0, order.size, chunk):
            some = order[start : start + chunk]
            self._learn(X[some], targets[some], weights[some])
            # What is learned last is reported once it is solved.
            stopped = start + chunk < order.size and report(some.size)
            if stopped:
                break
        self._solve(now=True)
        learned = order[weights[order] > 0.0]

        with one_blas_thread():
            if stopped:
                self.function.is_finished = True
                return
            self.function.finish(self._revisitable(X, targets, weights, learned))
        report(order.size - start)

    def _in_blocks(
        self, X: Any, targets: Array, weights: Array, order: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Order in which rows that are held out together stay so; those of weight 0 come last."""
        function, counts = self.function, weights > 0.0
        used = np.flatnonzero(counts)
        function.find_block(self._revisitable(X, targets, weights, used))
        # What comes is in another order, and would tell nothing.
        function.knows_block |= used.size >= FEWEST_ROWS
        if function.block == 1:
            return order
        ranks = np.cumsum(counts) - 1
        in_blocks = used[block_order(ranks[order[counts[order]]], function.block)]
        return np.concatenate([in_blocks, order[~counts[order]]])

    def finish(self, take: Take | None = None) -> None:
        """See :class:`Learner`: predictions go by all rows, and files need no sums.

        Newton steps visit rows again: those that ``take`` brings, or all that are kept.
        """
        function = self.function
        if not function.n_rows:
            return
        self._solve(now=True)
        if take is None and function.is_decided:
            function.is_finished = True
            return
        rows: RevisitableRows = function.waiting
        if take is not None:
            rows = RowsByNumber(function.n_rows, lambda numbers: self._rows(*take(numbers)))
        with one_blas_thread():
            function.finish(rows)

    def n_learned(self, n_rows: int, n_passes: int) -> int:
        """See :class:`Learner`."""
        return n_rows

    def _solve(self, *, now: bool = False) -> None:
        with one_at_a_time():
            before = self.function.solved_at
            if self.function.solve(now=now):
                n = self.function.n_rows - before
                if n == 0:
                    return  # the same rows, with other outputs
                self.note(Record(n, n * self.function.held_loss, 0.0))  # there are no steps

    def to_state(self) -> dict[str, Any]:
        """See :class:`Learner`: without sums if they are large and all rows came."""
        return self._with_function(self.function.snapshot(compact=True))

    def current_function(self) -> Blend:
        """See :class:`Learner`."""
        self._solve()
        return self.function

    def evaluate(self, X: Any) -> Array:
        """See :class:`Learner`."""
        function = self.current_function()
        if isinstance(X, np.ndarray):
            return function.evaluate(X)
        chunk = _chunk(X)
        pieces = [
            function.evaluate(X[start : start + chunk].toarray())
            for start in range(0, X.shape[0], chunk)
        ]
        return np.concatenate(pieces)


def _chunk(X: Any) -> int:
    """Rows at a time."""
    return int(max(1024, min(_CHUNK, _CHUNK_BYTES // (8 * max(X.shape[1], 1)))))
