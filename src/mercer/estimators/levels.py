"""The level of models that ``fit`` learns by steps, or by equations on a dictionary or features.

What they predict for the rows learned then has the mean of their targets
(:mod:`mercer.default.means`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._threads import jobs
from mercer.default.means import has_mean, level_of
from mercer.estimators.fitting import Data, KernelEstimator
from mercer.estimators.targets import LossTargets
from mercer.sums import codes_of_targets

__all__ = ["Levelled"]

Array = NDArray[np.float64]


class Levelled(KernelEstimator):
    """Base of estimators of a loss, whose scores may get a level; not for direct use.

    There is one after ``fit`` where the loss has a mean, without a risk, and where the kernel is
    the library's choice: a model of a kernel that was given is nothing but its coefficients, as in
    the papers. Rows that come later move the function, and leave the level.
    """

    targets_: LossTargets
    _level: Array | None = None

    def _wants_level(self) -> bool:
        """Whether scores get a level."""
        known = self.targets_
        of_mean = known.risk is None and has_mean(known.loss)
        return of_mean and self.learner_.gets_level and self._chooses("kernel")

    def _forget(self) -> None:
        """See :class:`KernelEstimator`."""
        super()._forget()
        self._level = None

    def _meet(self, data: Data) -> None:
        """See :class:`KernelEstimator`: with new classes the level is another."""
        if data.new_outputs is not None:
            self._level = None
        super()._meet(data)

    def _find_level(self, X: Any, targets: Array, weights: Array) -> None:
        """See :class:`KernelEstimator`."""
        if not self._wants_level():
            return
        used, loss = np.flatnonzero(weights > 0.0), self.targets_.loss
        codes = codes_of_targets(loss, targets, self.targets_.n_scores)

        def look(some: NDArray[np.int64]) -> tuple[Array, Array, Array]:
            some = used[some]
            return self._before_level(X[some]), codes[some], weights[some]

        mean = np.average(codes, axis=0, weights=weights)
        with jobs(self.n_jobs):
            self._level = level_of(look, used.size, mean, loss, seed=0)

    def _level_now(self) -> Array | None:
        """See :class:`FittedFunction`."""
        return self._level

    def _level_state(self) -> dict[str, Any]:
        """See :class:`StoredEstimator`."""
        return {} if self._level is None else {"level": self._level.copy()}

    def _restore_level(self, state: dict[str, Any]) -> None:
        """See :class:`StoredEstimator`."""
        if "level" in state:
            level = np.array(state["level"], dtype=np.float64)
            if level.ndim != 1 or not np.isfinite(level).all():
                raise ValueError("the level does not fit the scores")
            self._level = level
