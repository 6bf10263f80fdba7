"""Steps on random features: their sizes, and rows that suit them badly."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import ConditioningWarning
from mercer.expansions import RandomFeatures
from mercer.kernels import Kernel
from mercer.planning._automatic import AutomaticStep

__all__ = ["FeatureSteps", "warn_if_off_centre"]

Array = NDArray[np.float64]

# Angles of float32 features have errors of about 1e-8 of themselves: 3e-4 radians for these.
_FAR_OFF = 3e4
# Steps after which they have halved.
_SLOW = 100.0


class FeatureSteps:
    r"""Automatic step sizes on random features, and the limit of stability.

    A Newton step on a batch moves the function there by step size times curvature of the way to
    the batch's optimum: half of it at first, a quarter at step 100, and so on like 1 / t. Plain
    steps take the largest stable one, :math:`\gamma_0 = 1 / (L \lambda_1)`, and then
    :math:`\gamma_t = \gamma_0 / (1 + \nu \gamma_0 t)`, which is the :math:`1 / (\nu t)` of
    DSG, Theorem 4, from where it is stable. Both stay below :math:`1 / (2 \nu)`, so that no step
    shrinks the function by more than half. Cyclic steps solve for the ridge and shrink nothing.

    Parameters
    ----------
    automatic : AutomaticStep
        Bound, top eigenvalue and boldness.
    curvature : float
        Curvature L of the objective.
    mode : {"newton", "faithful", "cyclic"}
        Kind of step.
    regularization : float
        Ridge parameter nu.
    n_rows, n_features : int
        Of a step and of its block.
    unbounded : bool
        Whether slopes are unbounded, so that too large steps really diverge.
    """

    def __init__(
        self,
        automatic: AutomaticStep,
        curvature: float,
        mode: str,
        regularization: float,
        n_rows: int,
        n_features: int,
        unbounded: bool,
    ) -> None:
        self.mode, self.regularization, self.unbounded = mode, regularization, unbounded
        self.curvature = curvature
        self.top_eigenvalue = automatic.top_eigenvalue
        # The features of a block are a sample, just as the rows of a batch are.
        n = min(n_rows, n_features)
        self._plain = float(automatic.of_batch(n)) * automatic.curvature / curvature
        self._own, self._others = automatic.bound, (n - 1) * automatic.top_eigenvalue

    def __call__(self, t: int, whole: bool = False, weights: Array | None = None) -> float:
        """Size of a step.

        Parameters
        ----------
        t : int
            Its number, from 1.
        whole : bool, default=False
            Whether it sees all rows.
        weights : ndarray of shape (n,), default=None
            Weights of its rows; None means 1. Newton's steps allow for them by themselves.
        """
        if self.mode == "cyclic":
            return 1.0 if whole else 0.5 * _falling(t)
        if self.mode == "newton":
            size = 0.5 / self.curvature * _falling(t)
        else:
            first = self._plain / self._heaviness(weights)
            size = first / (1.0 + self.regularization * first * t)
        return min(size, 0.5 / self.regularization) if self.regularization > 0.0 else size

    def _heaviness(self, weights: Array | None) -> float:
        """How much steeper the objective is for the weights of the rows; 1 for light ones."""
        if weights is None:
            return 1.0
        steepness = self._own * float(weights.max()) + self._others * float(weights.mean())
        return max(1.0, steepness / (self._own + self._others))

    def largest(self) -> float:
        """Largest step size that is safe."""
        return self(1)

    def _limit(self) -> float:
        if self.mode == "cyclic":
            return 2.0
        return 2.0 / (self.curvature * (self.top_eigenvalue if self.mode == "faithful" else 1.0))

    def limit(self, heaviness: float = 1.0) -> str:
        """Say where the limit of stability is, for rows that make the objective so much steeper."""
        eigenvalue = ""
        if self.mode == "faithful":
            eigenvalue = f" and the kernel's top eigenvalue {self.top_eigenvalue:.3g}"
        return (
            f"In mode {self.mode!r} steps are stable up to {self._limit() / heaviness:.3g}, for "
            f"the loss's curvature {self.curvature:.3g}{eigenvalue}"
            f"{f' and a mean weight of {heaviness:.3g}' if heaviness > 1.0 else ''}."
        )

    def check(self, step_size: float, weights: Array | None = None) -> None:
        """Refuse a first step that is bound to diverge.

        Parameters
        ----------
        step_size : float
            Of the step.
        weights : ndarray of shape (n,), default=None
            Weights of its rows; None means 1.

        Raises
        ------
        ValueError
            If it is, with the limit.
        """
        # The eigenvalue is that of a sample.
        slack = 1.5 if self.mode == "faithful" else 1.0
        heaviness = 1.0
        if self.mode == "faithful" and weights is not None:
            # A single heavy row does no lasting harm.
            heaviness = max(1.0, float(weights.mean()))
        if self.unbounded and step_size > slack * self._limit() / heaviness:
            raise ValueError(
                f"`step_size` {step_size:.3g} is beyond the limit of stability. "
                f"{self.limit(heaviness)} Use {self.largest() / heaviness:.3g}, or 'auto'."
            )


def _falling(t: int) -> float:
    return 1.0 / (1.0 + t / _SLOW)


def warn_if_off_centre(kernel: Kernel, sample: Any, expansion: RandomFeatures) -> None:
    """Warn of rows so far from the origin that float32 features lose accuracy.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    sample : ndarray or CSR matrix of shape (n, n_features)
        Some rows.
    expansion : RandomFeatures
        Says the precision.
    """
    length_scale = getattr(kernel, "length_scale", None)
    if length_scale is None or expansion.precision == "double":
        return
    rows = sample if isinstance(sample, np.ndarray) else sample.toarray()
    with np.errstate(over="ignore"):
        distance = float(np.sqrt(np.median(np.sum(np.square(rows, dtype=np.float64), axis=1))))
    # Beyond single precision the features themselves are refused.
    if _FAR_OFF * length_scale < distance < float(np.finfo(np.float32).max):
        warnings.warn(
            f"The rows are {distance:.3g} from the origin, {distance / length_scale:.3g} times the "
            "length scale: features in single precision lose digits there. Centre the columns, for "
            "example with sklearn.preprocessing.StandardScaler, or use precision='double'.",
            ConditioningWarning,
            stacklevel=4,
        )
