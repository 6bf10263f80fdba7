"""Posteriors by descent on rows that are kept: the algorithms, their parameters, and variances.

The means solve square-loss problems, by doubly stochastic descent or block coordinate descent. Both
minimise 1/(2n) Σ_i w_i (f(x_i) - y_i)² + (ν/2)‖f‖² with ν = noise / n (DSG, eq. (9); the printed
2 σ² is a misprint), for any number of targets at once. Variances come from such descents, too:
column by column, or from one operator whose quadratic form is what the data explain of the prior
variance (route 1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.component import Component
from mercer.exceptions import DivergenceError
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._exact import InducingPoints
from mercer.learning import AutomaticStep
from mercer.numerics.dense import solve_ridge
from mercer.records import Numbers, Passing, Record, Recorded
from mercer.schedules import as_schedule
from mercer.sums import target_scale
from mercer.validation import check_choice, integer, parameters

Array = NDArray[np.float64]

StepSize = float | str | Callable[[int], float]

# Test points at a time, for variances by columns and by the operator.
_COLUMNS, _ROWS = 256, 512
_DIVERGED = 1e3  # times the size of the targets
_LARGEST = 1e3  # the exact operator's norm is below 1
_LARGEST_OPERATOR = 16_384  # rows of its matrix of coefficients, which then takes 2 GiB

# Attributes that learning sets, and their number of axes.


class Solver(Protocol):
    """Descent on given rows: from targets to coefficients of the blocks."""

    def __call__(self, targets: Array) -> Array:
        """Coefficients of shape (n_blocks, block_size, n_targets)."""
        ...


def faithful_descent(
    blocks: FeatureBlocks,
    X: Array,
    targets: Array,
    weights: Array,
    *,
    regularization: float,
    step_size: Callable[[int], float],
    n_steps: int,
    batch_size: int,
    generator: np.random.RandomState,
) -> Array:
    """DSG, Algorithm 1, for the square loss: a new block of features in every step.

    The function values are kept at all rows and each new block is added to all of them
    (right-looking): this gives the same coefficients as Algorithm 2 on each batch, without visiting
    all old blocks.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features; step t (0, 1, ...) uses block t.
    X : ndarray of shape (n, n_inputs)
        Inputs.
    targets : ndarray of shape (n, n_targets)
        Targets.
    weights : ndarray of shape (n,)
        Weights of the rows.
    regularization : float
        Ridge parameter ν = noise / n.
    step_size : callable
        Schedule, from the step number 1, 2, ... to the step.
    n_steps : int
        Steps T, and blocks.
    batch_size : int
        Rows of a step, drawn without replacement pass by pass.
    generator : RandomState
        Source of the order of the rows.

    Returns
    -------
    coefficients : ndarray of shape (n_steps, block_size, n_targets)
        Coefficients of the mean of the iterates after steps T/2 + 1 .. T.

    Raises
    ------
    ValueError
        If a step times ν is above 1.
    DivergenceError
        If the function grows without bound.
    """
    n, C = targets.shape
    m = blocks.block_size
    prepared = blocks.prepare(X)
    F = np.zeros((n, C))
    coefficients = np.empty((n_steps, m, C))
    shrinks = np.empty(n_steps)
    scale = float(np.sqrt(np.mean(targets**2))) or 1.0
    batches = Batches(n, batch_size, generator)
    for t in range(n_steps):
        rows, gamma = batches.next(), float(step_size(t + 1))
        G = (F[rows] - targets[rows]) * weights[rows, np.newaxis] / rows.size
        Z = blocks.of(prepared, t)
        of_batch = Z[rows].T
        coefficients[t] = -gamma * (of_batch @ G)
        shrinks[t] = shrink_factor(gamma, regularization)
        F *= shrinks[t]
        # With many targets the kernel between all rows and the batch is the cheaper way.
        through_kernel = rows.size * (m + C) < m * C
        F += (Z @ of_batch) @ (-gamma * G) if through_kernel else Z @ coefficients[t]
        if not np.abs(F).max() <= _DIVERGED * scale:
            raise DivergenceError(
                f"The posterior mean diverged in step {t + 1} with step size {gamma:.3g}: its "
                f"largest value is {float(np.abs(F).max()):.3g}, the targets have size "
                f'{scale:.3g}. Use a smaller `step_size`, or "auto".'
            )
    return coefficients * average_weights(shrinks)[:, np.newaxis, np.newaxis]


def shrink_factor(gamma: float, regularization: float) -> float:
    """Factor 1 - γν of the old coefficients; ValueError if it is negative."""
    if not gamma * regularization <= 1.0:
        raise ValueError(
            f"`step_size` times noise / n must be at most 1, got {gamma:.3g} * "
            f"{regularization:.3g}. The factor 1 - step_size * noise / n would flip the sign of "
            f"every coefficient. Use a step size of at most {1.0 / regularization:.3g}."
        )
    return 1.0 - gamma * regularization


def average_weights(shrinks: Array) -> Array:
    r"""Factors that turn coefficients as they were added into the mean of the last iterates.

    A coefficient of step i is multiplied by the shrink factors of all later steps, so its mean
    over the iterates T/2 < t <= T is itself times :math:`\frac{1}{T - T/2} \sum_{t \ge i,\,t > T/2}
    \prod_{i < u \le t} r_u`. Summed from the back: no division, so no underflow.

    Parameters
    ----------
    shrinks : ndarray of shape (n_steps,)
        Factors r = 1 - step * regularization.

    Returns
    -------
    weights : ndarray of shape (n_steps,)
        Factors of the coefficients.

    Examples
    --------
    >>> average_weights(np.array([1.0, 1.0, 1.0, 0.5]))
    array([0.75, 0.75, 0.75, 0.5 ])
    """
    T = shrinks.size
    first = T // 2
    weights = np.empty(T)
    total = 0.0
    for i in range(T - 1, -1, -1):
        total = (i >= first) + (shrinks[i + 1] * total if i + 1 < T else 0.0)
        weights[i] = total
    return weights / (T - first)


def cyclic_descent(
    blocks: FeatureBlocks,
    X: Array,
    targets: Array,
    weights: Array,
    *,
    regularization: float,
    n_blocks: int,
    n_sweeps: int,
) -> Array:
    r"""Ridge regression on ``n_blocks`` blocks of features, one block after the other.

    The function is :math:`f = \sum_b Z_b \beta_b` with :math:`\|f\|^2 = R \sum_b \|\beta_b\|^2`
    for R blocks, and a step solves for one block: :math:`\Delta\beta_b = -(Z_b^T W Z_b/n + \nu R
    I)^{-1} (Z_b^T G + \nu R \beta_b)`. It converges to the exact posterior mean on the R blocks
    in memory linear in the number of features.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features; blocks 0 .. n_blocks - 1 are used.
    X, targets, weights, regularization
        As for :func:`faithful_descent`.
    n_blocks : int
        Blocks R.
    n_sweeps : int
        Visits of each block.

    Returns
    -------
    coefficients : ndarray of shape (n_blocks, block_size, n_targets)
        Coefficients β.
    """
    n, C = targets.shape
    prepared = blocks.prepare(X)
    ridge = regularization * n_blocks
    F = np.zeros((n, C))
    beta = np.zeros((n_blocks, blocks.block_size, C))
    for step in range(n_blocks * n_sweeps):
        b = step % n_blocks
        Z = blocks.of(prepared, b)
        WZ = Z * (weights / n)[:, np.newaxis]
        change = -solve_ridge(Z.T @ WZ, ridge, WZ.T @ (F - targets) + ridge * beta[b])
        beta[b] += change
        F += Z @ change
    return beta


def expand(blocks: FeatureBlocks, coefficients: Array, X: Array) -> Array:
    """Values of Σ_b Z_b(x) coefficients_b at any number of rows, shape (n, n_targets)."""
    prepared = blocks.prepare(X)
    values = np.zeros((X.shape[0], coefficients.shape[2]))
    for b, block in enumerate(coefficients):
        blocks.add(prepared, b, block, values)
    return values


def column_variances(blocks: FeatureBlocks, solve: Solver, X: Array, X_test: Array) -> Array:
    r"""Posterior variances, one square-loss problem per test point (DSG, Section 4, route 2).

    The targets of the problem of test point :math:`x_\star` are :math:`k(x_\star, x_j)`; its
    solution f gives the variance :math:`k(x_\star, x_\star) - f(x_\star)`. Both k are the kernel
    itself, not its estimate by the features of f: that estimate would add the features' error to
    the prior variance, which is most of the variance far from the data.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features that ``solve`` uses.
    solve : Solver
        Descent on the rows ``X``.
    X : ndarray of shape (n, n_inputs)
        Rows learned.
    X_test : ndarray of shape (n_test, n_inputs)
        Test points.

    Returns
    -------
    variances : ndarray of shape (n_test,)
        Variances of the function without noise, not below 0.
    """
    kernel = blocks.kernel
    explained = np.empty(X_test.shape[0])
    for start in range(0, X_test.shape[0], _COLUMNS):
        points = X_test[start : start + _COLUMNS]
        coefficients = solve(np.asarray(kernel(X, points), dtype=np.float64))
        prepared = blocks.prepare(points)
        total = np.zeros(points.shape[0])
        for b, block in enumerate(coefficients):
            total += np.einsum("im,mi->i", blocks.of(prepared, b), block)
        explained[start : start + _COLUMNS] = total
    # The estimate has an error, which may exceed a small variance.
    return np.asarray(np.maximum(kernel.diag(X_test) - explained, 0.0))


class Batches:
    """Rows in random order, pass by pass; what is left of a pass is too few and is dropped."""

    def __init__(self, n: int, batch_size: int, generator: np.random.RandomState) -> None:
        self.n, self.size, self.generator = n, min(batch_size, n), generator
        self.order, self.position = generator.permutation(n), 0

    def next(self) -> NDArray[np.int64]:
        """Rows of the next batch."""
        if self.position + self.size > self.n:
            self.order, self.position = self.generator.permutation(self.n), 0
        self.position += self.size
        rows: NDArray[np.int64] = self.order[self.position - self.size : self.position]
        return rows


def operator_descent(
    blocks: FeatureBlocks,
    X: Array,
    weights: Array,
    *,
    regularization: float,
    step_size: Callable[[int], float],
    n_steps: int,
    batch_size: int,
    generator: np.random.RandomState,
) -> Array:
    r"""Doubly stochastic descent to A = C (C + νI)⁻¹ (DSG, eq. (10), (18) and Appendix D).

    C is the mean of :math:`k(x_i, \cdot) \otimes k(x_i, \cdot)`, and :math:`A = \sum_{i \le j}
    \theta_{ij}\, \varphi_i \otimes \varphi'_j` with independent features :math:`\varphi_i` (block
    2i) and :math:`\varphi'_j` (block 2j + 1). This differs from Appendix D in:

    1. ν is noise / n, not 2σ²;
    2. the sum in the new coefficients runs over j = i .. t - 1, as in Section 4;
    3. a step takes a batch of rows and a block of features instead of one of each;
    4. the result is the mean of the iterates of the second half.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features.
    X : ndarray of shape (n, n_inputs)
        Inputs.
    weights : ndarray of shape (n,)
        Weights of the rows.
    regularization, step_size, n_steps, batch_size, generator
        As for ``faithful_descent``.

    Returns
    -------
    theta : ndarray of shape (n_steps * block_size, n_steps * block_size)
        Coefficients, upper block triangular: memory grows with the square of the steps.

    Raises
    ------
    ValueError
        If a step times ν is above 1.
    DivergenceError
        If the operator grows without bound.
    """
    m = blocks.block_size
    theta = np.zeros((n_steps * m, n_steps * m))
    scales = np.ones(n_steps * m)  # of the columns: shrunk since they were added
    shrinks = np.empty(n_steps)
    batches = Batches(X.shape[0], batch_size, generator)
    for t in range(n_steps):
        rows, gamma = batches.next(), float(step_size(t + 1))
        prepared = blocks.prepare(X[rows])
        old, new = slice(0, t * m), slice(t * m, (t + 1) * m)
        left, right = blocks.of(prepared, 2 * t), blocks.of(prepared, 2 * t + 1)
        weighted = right * (weights[rows] / rows.size)[:, np.newaxis]
        if t:
            past = np.hstack([blocks.of(prepared, 2 * j + 1) for j in range(t)])
            past *= scales[old]
            theta[old, new] = -gamma * ((theta[old, old] @ past.T) @ weighted)
        theta[new, new] = gamma * (left.T @ weighted)
        shrinks[t] = shrink_factor(gamma, regularization)
        scales[old] *= shrinks[t]
        if not np.abs(theta[: new.stop, new]).max() <= _LARGEST:
            raise DivergenceError(
                f"The variance operator diverged in step {t + 1} with step size {gamma:.3g}: its "
                f'norm must stay below 1. Use a smaller `step_size`, or "auto".'
            )
    theta *= np.repeat(average_weights(shrinks), m)
    return theta


def operator_variances(blocks: FeatureBlocks, theta: Array, X: Array) -> Array:
    """Posterior variances k(x, x) - A(x, x) of the function without noise, not below 0.

    Parameters
    ----------
    blocks : FeatureBlocks
        Features that ``theta`` was learned with.
    theta : ndarray of shape (n_blocks * block_size, n_blocks * block_size)
        Result of :func:`operator_descent`.
    X : ndarray of shape (n, n_inputs)
        Test points.

    Returns
    -------
    variances : ndarray of shape (n,)
        Variances.
    """
    n_blocks = theta.shape[0] // blocks.block_size
    explained = np.empty(X.shape[0])
    for start in range(0, X.shape[0], _ROWS):
        prepared = blocks.prepare(X[start : start + _ROWS])
        left = np.hstack([blocks.of(prepared, 2 * t) for t in range(n_blocks)])
        right = np.hstack([blocks.of(prepared, 2 * t + 1) for t in range(n_blocks)])
        explained[start : start + _ROWS] = np.einsum("ij,ij->i", left @ theta, right)
    return np.asarray(np.maximum(blocks.kernel.diag(X) - explained, 0.0))


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

    It needs no test points while it learns, but a matrix of (n_steps * block_size)² numbers, so it
    makes few steps, and its errors are often larger than the variances: it shows where the function
    is uncertain, not by how much. They fall about like the root of the number of steps, while the
    time grows with its cube. On the 2,048 rows of the experiment ``dsg-gp``, where the prior
    variance is 1 and the posterior variances are about 0.0009, steps of 32 features err by 0.18
    (8 steps), 0.056 (32) and 0.027 (128, the default), which takes 5 seconds: it is of no use for
    error bars where rows are dense. Its features are drawn independently, whatever the design of
    those of the mean. It is learned when a variance is first asked for.

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
            Seed for the order of the rows.
        """

    _parameters = parameters(variance=_check_variance)


class Cyclic(Method):
    """Block coordinate descent on all rows: the mean on many features in linear memory.

    Each visit solves for one block of features with the others fixed, and the visits converge to
    the exact posterior mean on all features. The features of a block are recomputed at each visit.

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
        If ``value`` is of another kind.

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


class DescentPosterior(Passing, Recorded):
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
        Seed for the order of the rows.
    """

    _passing: ClassVar[dict[str, Any]] = {"_theta": None}
    _record = Record(
        expansion=Numbers("n_blocks", "n_features", "n_targets"),
        rows=Numbers("n_rows", "n_inputs"),
        row_weights=Numbers("n_rows", above=0.0),
        target_mean=Numbers("n_targets"),
        target_scale=Numbers("n_targets", above=0.0),
    )

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
        # Blocks of one Sobol sequence are not independent, as the two sides have to be.
        blocks = self.blocks.independent(options.block_size)
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
        """Rows learned, without rows of weight 0."""
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
