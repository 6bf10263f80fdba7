"""Parameter objects: ways of descending to the posterior mean, and from it the variance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._component import Component
from mercer._validation import check_choice, integer, parameters
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._descent import (
    Solver,
    cyclic_descent,
    faithful_descent,
)
from mercer.gaussian_process._inducing import InducingPoints
from mercer.learning import AutomaticStep
from mercer.schedules import as_schedule

__all__ = ["Cyclic", "Faithful", "Method", "Operator", "as_method", "schedule_of"]

Array = NDArray[np.float64]

StepSize = float | str | Callable[[int], float]

_LARGEST_OPERATOR = 16_384  # rows of its matrix of coefficients, which then takes 2 GiB


def _check_step_size(name: str, value: StepSize) -> None:
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        as_schedule(value)


class Operator(Component):
    """Variances from one operator for all test points: DSG, Section 4, route 1.

    It needs no test point while it learns, but a matrix of (n_steps * block_size)² numbers, so it
    makes few steps, and its errors are often larger than the variances: it tells where the
    function is uncertain, not how much. It is learned with the first variance that is asked for.

    Parameters
    ----------
    n_steps : int, default=128
        Steps.
    block_size : int, default=32
        Features of a step, on each side.
    batch_size : int, default=64
        Rows of a step.
    step_size : float, callable or "auto", default="auto"
        As for :class:`Faithful`.

    Raises
    ------
    ValueError
        If ``n_steps * block_size`` is above 16384, which takes 2 GiB.

    Examples
    --------
    >>> from mercer.gaussian_process import Cyclic, Operator
    >>> Cyclic(variance=Operator(n_steps=64)).variance
    Operator(n_steps=64)
    """

    _parameters = parameters(
        n_steps=integer(low=1),
        block_size=integer(low=1),
        batch_size=integer(low=1),
        step_size=_check_step_size,
    )

    def __init__(
        self,
        n_steps: int = 128,
        block_size: int = 32,
        batch_size: int = 64,
        step_size: StepSize = "auto",
    ) -> None:
        self.n_steps = n_steps
        self.block_size = block_size
        self.batch_size = batch_size
        self.step_size = step_size
        self._check()

    def _check(self) -> None:
        super()._check()
        size = self.n_steps * self.block_size
        if size > _LARGEST_OPERATOR:
            raise ValueError(
                f"`n_steps * block_size` must be at most {_LARGEST_OPERATOR}, got {size}: the "
                f"operator has the square of it in coefficients, {8 * size**2 / 2**30:.0f} GiB. "
                'Take fewer, or variance="columns", whose memory is linear.'
            )


def _check_variance(name: str, value: str | Operator) -> None:
    if not isinstance(value, Operator):
        check_choice(name, value, ("columns", "operator"))


class Method(Component):
    """A way of descending to the posterior mean."""

    block_size: int
    variance: str | Operator

    @abstractmethod
    def solver(
        self, blocks: FeatureBlocks, X: Array, weights: Array, ridge: float, step: Any, seed: int
    ) -> Solver:
        """Descent on these rows, the same every time it is called.

        Parameters
        ----------
        blocks : FeatureBlocks
            Features.
        X : ndarray of shape (n, n_inputs)
            Inputs.
        weights : ndarray of shape (n,)
            Weights of the rows.
        ridge : float
            Noise over number of rows.
        step : AutomaticStep
            Step size where none was given.
        seed : int
            Of the order of the rows.
        """

    _parameters = parameters(variance=_check_variance)


class Cyclic(Method):
    """Block coordinate descent on all rows: the mean on many features in linear memory.

    Each visit solves for one block of features, the others fixed, and the visits converge to the
    exact posterior mean on all of them. Features of a block are made anew at each visit.

    Parameters
    ----------
    max_blocks : int, default=16
        Number of blocks.
    block_size : int, default=512
        Features of a block.
    n_sweeps : int, default=4
        Visits of each block.
    variance : {"columns", "operator"} or Operator, default="columns"
        "columns" solves, for each test point, for what the data explain of its variance (DSG,
        Section 4, route 2): a prediction of standard deviations costs a fit. "operator" is
        :class:`Operator`.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    DSG, Section 4, "Gaussian Process Regression", for the problems that are solved.

    Examples
    --------
    >>> from mercer.gaussian_process import Cyclic
    >>> Cyclic(max_blocks=4)
    Cyclic(max_blocks=4)
    """

    _parameters = parameters(
        **Method._parameters,
        max_blocks=integer(low=1),
        block_size=integer(low=1),
        n_sweeps=integer(low=1),
    )

    def __init__(
        self,
        max_blocks: int = 16,
        block_size: int = 512,
        n_sweeps: int = 4,
        variance: str | Operator = "columns",
    ) -> None:
        self.max_blocks = max_blocks
        self.block_size = block_size
        self.n_sweeps = n_sweeps
        self.variance = variance
        self._check()

    def solver(
        self, blocks: FeatureBlocks, X: Array, weights: Array, ridge: float, step: Any, seed: int
    ) -> Solver:
        """Block coordinate descent; deterministic."""

        def solve(targets: Array) -> Array:
            return cyclic_descent(
                blocks,
                X,
                targets,
                weights,
                regularization=ridge,
                n_blocks=self.max_blocks,
                n_sweeps=self.n_sweeps,
            )

        return solve


class Faithful(Method):
    r"""The paper's doubly stochastic gradients, averaged: they converge to the posterior itself.

    A step takes a batch of rows and a new block of features, so no number of features limits the
    accuracy, but it comes slowly: the error falls like the root of the number of steps, and
    parts of the posterior that the kernel's small eigenvalues carry need as many steps as the
    inverse of the eigenvalue. :class:`Cyclic` is more accurate for the same time.

    Parameters
    ----------
    n_steps : int, default=500
        Steps, and blocks of features.
    block_size : int, default=512
        Features of a block.
    batch_size : int, default=64
        Rows of a step.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number 1, 2, ... to it. "auto" is half
        the limit of stability (:class:`mercer.learning.AutomaticStep`).
    variance : {"columns", "operator"} or Operator, default="columns"
        As for :class:`Cyclic`.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    DSG, Algorithm 1 and Section 4, "Gaussian Process Regression".

    Examples
    --------
    >>> from mercer.gaussian_process import Faithful
    >>> Faithful(n_steps=1000, step_size=1.0)
    Faithful(n_steps=1000, step_size=1.0)
    """

    _parameters = parameters(**Method._parameters, **Operator._parameters)

    def __init__(
        self,
        n_steps: int = 500,
        block_size: int = 512,
        batch_size: int = 64,
        step_size: StepSize = "auto",
        variance: str | Operator = "columns",
    ) -> None:
        self.n_steps = n_steps
        self.block_size = block_size
        self.batch_size = batch_size
        self.step_size = step_size
        self.variance = variance
        self._check()

    def solver(
        self, blocks: FeatureBlocks, X: Array, weights: Array, ridge: float, step: Any, seed: int
    ) -> Solver:
        """Doubly stochastic descent with the same batches and features in each call."""

        def solve(targets: Array) -> Array:
            return faithful_descent(
                blocks,
                X,
                targets,
                weights,
                regularization=ridge,
                step_size=schedule_of(self.step_size, step, self.batch_size, X.shape[0], ridge),
                n_steps=self.n_steps,
                batch_size=self.batch_size,
                generator=np.random.RandomState(seed),
            )

        return solve


def as_method(value: Any) -> Method | InducingPoints:
    """Turn a method or the name of one into a method.

    Parameters
    ----------
    value : Method, InducingPoints or {"dictionary", "cyclic", "doubly_stochastic"}
        A name stands for :class:`InducingPoints`, :class:`Cyclic` or :class:`Faithful` with its
        defaults.

    Raises
    ------
    ValueError
        If ``value`` is none of these.

    Examples
    --------
    >>> as_method("doubly_stochastic")
    Faithful()
    """
    if isinstance(value, Method | InducingPoints):
        return value
    if isinstance(value, str) and value in _NAMES:
        return _NAMES[value]()
    raise ValueError(
        '`method` must be "features", "dictionary", "cyclic", "doubly_stochastic" or an object of '
        f"mercer.gaussian_process.InducingPoints, Cyclic or Faithful, got {value!r}."
    )


_NAMES: dict[str, type[Method] | type[InducingPoints]] = {
    "dictionary": InducingPoints,
    "cyclic": Cyclic,
    "doubly_stochastic": Faithful,
}


def schedule_of(
    step_size: StepSize, step: AutomaticStep, batch_size: int, n: int, ridge: float
) -> Callable[[int], float]:
    """Step sizes of a descent, "auto" from the kernel and the batch size."""
    if isinstance(step_size, str):
        # Shrinking by more than everything would flip signs.
        return as_schedule(min(float(step.of_batch(min(batch_size, n))), 1.0 / ridge))
    return as_schedule(step_size)
