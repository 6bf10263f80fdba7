"""What the classifier and the regressor share: a loss, a risk of it, and the default expansion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_integer
from mercer.estimators.fitted import FittedLoss
from mercer.estimators.fitting import Callback, Data, Given, KernelEstimator
from mercer.estimators.problem import automatic_expansion
from mercer.estimators.targets import LossTargets
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Auto, Dictionary, Expansion
from mercer.functions.sum_of_components import SumOfComponents
from mercer.losses import Squared, as_loss
from mercer.risks import as_risk

__all__ = ["LossEstimator"]

# What only learning by steps asks for: defaults, and what sums over rows do instead.
_OF_STEPS = {
    "n_passes": (1, "in which a second pass would count every row twice"),
    "batch_size": (32, "in which a row counts the same in any batch"),
    "average": ("suffix", "and has no iterates to average"),
}


class LossEstimator(FittedLoss, KernelEstimator):
    """Base of estimators with a loss and, possibly, a risk of it; not for direct use.

    Pairs of independent rows reach the objective as neighbours in a batch; this class puts them
    there.
    """

    risk: Any
    loss: Any
    _task: ClassVar[Any]
    targets_: LossTargets

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callback = None,
    ) -> Self:
        """Learn from all rows, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and computed in, all else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; they multiply the loss.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; a true
            result stops the fit.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if the kernel overflows; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model stays as it was.
        """
        return self._fit(Given(X, y, sample_weight), callback)

    def check(self) -> None:
        """Refuse parameters that are wrong or do not go together."""
        super().check()
        risk = as_risk(self.risk)
        if isinstance(self.expansion, Auto) and not (
            isinstance(self.step_size, str) and self.step_size == "auto"
        ):
            raise ValueError(
                f"`step_size={self.step_size!r}` is for learning by steps, but {self.expansion!r} "
                "solves equations. Leave the step size out, or use expansion='komp'."
            )
        tracker = None if risk is None else risk.tracking
        if (
            self._chosen_expansion().mode == "cyclic"
            and tracker is not None
            and tracker.rule == "nasa"
        ):
            raise ValueError(
                "Tracker('nasa') moves all coefficients along an averaged direction, which "
                "RandomFeatures(mode='cyclic') cannot: it solves for one block at a time. Use mode "
                "'newton' or 'faithful', or Tracker('momentum')."
            )
        if tracker is not None and tracker.pairs == "stream":
            size = check_integer("batch_size", self.batch_size, low=2)
            if size % 2:
                raise ValueError(
                    f"`batch_size` must be even for Tracker(pairs='stream'), whose rows come in "
                    f"pairs, got {size}. Use {size + 1}, or pairs='tracked'."
                )

    def check_settings(self, *, anew: bool) -> None:
        """Refuse parameters of learning by steps where learning is by sums."""
        sums = self._sums() if anew else isinstance(self.learner_.function, SumOfComponents)
        if not sums:
            return
        for name, (default, why) in _OF_STEPS.items():
            value = getattr(self, name)
            if value != default:
                raise ParameterError(
                    f"`{name}` is of learning by steps, and must be {default!r} for the default "
                    f"expansion, got {value!r}: this sums over rows, {why}.",
                    parameter=name,
                    value=value,
                    mend=Advice(
                        "Leave it out, or choose ",
                        InPython(
                            "another expansion, such as 'komp'",
                            ("another one, such as ", Setting("expansion", "komp")),
                        ),
                        ".",
                    ),
                )

    def _races(self, expansion: Expansion) -> bool:
        """See :class:`KernelEstimator`."""
        return self._chooses("kernel") and isinstance(expansion, Auto | Dictionary)

    def _sums(self) -> bool:
        """Whether learning is by sums over rows alone, whatever the loss."""
        return isinstance(self._chosen_expansion(), Auto)

    def _chosen_expansion(self) -> Expansion:
        left = self._chooses("expansion") and self._chooses("step_size")
        if not left or self.risk is not None:
            return super()._chosen_expansion()
        adds_up = self._task == "classification" or isinstance(
            as_loss(self.loss, self._task), Squared
        )
        return automatic_expansion("sums" if adds_up else "newton", self._chosen_ridge())

    def _orders(
        self, data: Data, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        """See :class:`KernelEstimator`: rows of pairs come after one another."""
        for order in super()._orders(data, n_passes, generator):
            if self.targets_.pairs == "tracked":
                yield order
                continue
            n = order.size
            if self.targets_.pairs == "stream":
                partners = generator.permutation(n)
            else:  # one of the rows visited before
                earlier = np.maximum(np.arange(n), 1)
                partners = order[(generator.uniform(size=n) * earlier).astype(np.int64)]
            yield np.column_stack([order, partners]).ravel()
