"""Posteriors by descent on rows that are kept, and the parameter objects of the ways to them."""

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
    column_variances,
    cyclic_descent,
    expand,
    faithful_descent,
    operator_descent,
    operator_variances,
)
from mercer.gaussian_process._exact import InducingPoints
from mercer.learning import AutomaticStep
from mercer.schedules import as_schedule
from mercer.sums import target_scale

__all__ = [
    "Cyclic",
    "DescentPosterior",
    "Faithful",
    "Method",
    "Operator",
    "as_method",
    "schedule_of",
]

Array = NDArray[np.float64]

StepSize = float | str | Callable[[int], float]

_LARGEST_OPERATOR = 16_384  # rows of its matrix of coefficients, which then takes 2 GiB

# Attributes that learning sets, and their number of axes.
_STORED = {"expansion": 3, "rows": 2, "row_weights": 1, "target_mean": 1, "target_scale": 1}


def _check_step_size(name: str, value: StepSize) -> None:
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        as_schedule(value)


def _check_memory(operator: Operator) -> None:
    size = operator.n_steps * operator.block_size
    if size > _LARGEST_OPERATOR:
        raise ValueError(
            f"`n_steps * block_size` must be at most {_LARGEST_OPERATOR}, got {size}: the "
            f"operator has the square of it in coefficients, {8 * size**2 / 2**30:.0f} GiB. "
            'Take fewer, or variance="columns", whose memory is linear.'
        )


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
    _relations = (_check_memory,)

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


class DescentPosterior:
    """Posterior by descent on given rows, which are kept for the variances.

    Parameters
    ----------
    method : Method
        How the mean is found.
    blocks : FeatureBlocks
        Features for the mean.
    noise : float
        Variance of the noise.
    normalize : bool
        Whether the model is of the targets less their mean and over their standard deviation.
    step : AutomaticStep
        Step size where none was given.
    seed : int
        Of the order of the rows.
    """

    def __init__(
        self,
        method: Method,
        blocks: FeatureBlocks,
        noise: float,
        normalize: bool,
        step: AutomaticStep,
        seed: int,
    ) -> None:
        self.method = method
        self.blocks = blocks
        self.noise = noise
        self.normalize = normalize
        self.step = step
        self.seed = seed
        self._theta: Array | None = None

    def learn(self, X: Array, targets: Array, weights: Array) -> None:
        """Descend to the posterior mean.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Inputs; kept.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, at least 0: the noise of a row is ``noise / weight``.

        Raises
        ------
        ValueError
            For inputs outside the kernel's domain, or a step that flips signs.
        mercer.exceptions.DivergenceError
            If the steps are too large.
        """
        used = weights > 0.0
        self.rows, targets, self.row_weights = X[used], targets[used], weights[used]
        self.target_mean, self.target_scale = np.zeros(targets.shape[1]), np.ones(targets.shape[1])
        if self.normalize:
            self.target_mean = np.average(targets, axis=0, weights=self.row_weights)
            deviations = (targets - self.target_mean) ** 2
            variance = np.average(deviations, axis=0, weights=self.row_weights)
            self.target_scale = target_scale(variance, self.target_mean)
        self.expansion = self._solver()((targets - self.target_mean) / self.target_scale)
        self._theta = None

    def _solver(self) -> Solver:
        ridge = self.noise / self.rows.shape[0]
        return self.method.solver(
            self.blocks, self.rows, self.row_weights, ridge, self.step, self.seed
        )

    def mean(self, X: Array) -> Array:
        """Posterior means, shape (n, n_targets)."""
        return expand(self.blocks, self.expansion, X) * self.target_scale + self.target_mean

    def variance(self, X: Array) -> Array:
        """Posterior variances of the function without noise, shape (n, n_targets)."""
        if self.method.variance == "columns":
            variances = column_variances(self.blocks, self._solver(), self.rows, X)
        else:
            options = Operator() if self.method.variance == "operator" else self.method.variance
            assert isinstance(options, Operator)
            variances = self._operator_variance(options, X)
        return np.outer(variances, self.target_scale**2)

    def _operator_variance(self, options: Operator, X: Array) -> Array:
        blocks = self.blocks.resized(options.block_size)
        if self._theta is None:
            n = self.rows.shape[0]
            ridge = self.noise / n
            self._theta = operator_descent(
                blocks,
                self.rows,
                self.row_weights,
                regularization=ridge,
                step_size=schedule_of(options.step_size, self.step, options.batch_size, n, ridge),
                n_steps=options.n_steps,
                batch_size=options.batch_size,
                generator=np.random.RandomState(self.seed),
            )
        return operator_variances(blocks, self._theta, X)

    def features(self, X: Array) -> Array:
        """Features of rows, shape (n, n_blocks * block_size)."""
        return self.blocks.of_first(len(self.expansion), self.blocks.prepare(X))

    @property
    def n_rows(self) -> int:
        """Rows learned, those of weight 0 left out."""
        return int(self.row_weights.size)

    @property
    def size(self) -> int:
        """Number of features, of all blocks."""
        n_blocks, block_size, _ = self.expansion.shape
        return int(n_blocks * block_size)

    @property
    def coefficients(self) -> Array:
        """Weights of the features, in units of the targets, (n_features, n_targets)."""
        stacked: Array = self.expansion.reshape(-1, self.expansion.shape[2]) * self.target_scale
        return stacked

    def normalization(self) -> tuple[Array, Array]:
        """Mean and scale of the targets; 0 and 1 unless they are normalised."""
        return self.target_mean, self.target_scale

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_theta": None}

    def snapshot(self) -> dict[str, Any]:
        """Return what learning changes, as plain data."""
        return {name: getattr(self, name) for name in _STORED}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`; ValueError if it does not fit."""
        for name, n_axes in _STORED.items():
            array = state[name]
            if array.ndim != n_axes or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"`{name}` is of the wrong shape or not finite")
            setattr(self, name, array)
        n_targets = self.expansion.shape[2]
        if (
            self.expansion.shape[1] != self.blocks.block_size
            or self.rows.shape != (self.row_weights.size, self.blocks.map.n_inputs)
            or self.target_mean.shape != (n_targets,)
            or self.target_scale.shape != (n_targets,)
            or not (self.row_weights > 0.0).all()
            or not (self.target_scale > 0.0).all()
        ):
            raise ValueError("the parts of the posterior do not fit together")
        self._theta = None
