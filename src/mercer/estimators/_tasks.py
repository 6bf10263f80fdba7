"""What estimators share whose objective is no loss of single targets."""

from __future__ import annotations

from typing import Any

from mercer.estimators._base import KernelEstimator
from mercer.estimators._state import StoredEstimator
from mercer.expansions import Expansion, RandomFeatures

__all__ = ["TaskEstimator"]


class TaskEstimator(StoredEstimator, KernelEstimator):
    """Base of estimators with one function, an objective of their own and no loss."""

    loss_: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        mode = self._chosen_expansion().mode
        if mode not in ("faithful", "solve"):
            raise ValueError(
                f"`expansion` must have mode='faithful' or 'solve' for a {type(self).__name__}, "
                f"got {self.expansion!r}, whose mode is {mode!r}. The other modes minimise with "
                "another norm than that of the kernel, or need a loss of bounded curvature, so "
                "their values would not mean what they should. Use "
                "`RandomFeatures(mode='faithful')` or `KOMP()`."
            )

    def _chosen_expansion(self) -> Expansion:
        # By name it is the one that exists here.
        if self.expansion == "random_features":
            return RandomFeatures("auto", mode="faithful")
        return super()._chosen_expansion()

    def _check_loss(self, loss: Any) -> None:
        if loss is not None:
            raise ValueError("the model has a loss, but there is none in its objective")

    def _meet_targets(self, y: Any, *, reset: bool) -> None:
        pass

    def _n_scores(self) -> int:
        return 1
