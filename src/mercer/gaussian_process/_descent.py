"""Posterior means as square-loss problems: doubly stochastic descent, block coordinate descent.

Both minimise 1/(2n) Σ_i w_i (f(x_i) - y_i)² + (ν/2)‖f‖² with ν = noise / n (DSG, eq. (9); the
printed 2 σ² is a misprint), for any number of targets at once. Variances come from such descents
too: column by column, or from one operator whose quadratic form is what the data explain of the
prior variance (route 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.numerics.factor import solve_ridge

__all__ = [
    "Batches",
    "Solver",
    "average_weights",
    "column_variances",
    "cyclic_descent",
    "expand",
    "faithful_descent",
    "operator_descent",
    "operator_variances",
    "shrink_factor",
]

Array = NDArray[np.float64]

_COLUMNS = 256  # test points at a time
_DIVERGED = 1e3  # times the size of the targets

_ROWS = 512  # test points at a time
_LARGEST = 1e3  # the exact operator's norm is below 1


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

    The function is kept on all rows and each new block is pushed to all of them (right-looking):
    the same coefficients as by Algorithm 2 on each batch, without going through all old blocks.

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
        Those of the mean of the iterates after steps T/2 + 1 .. T.

    Raises
    ------
    ValueError
        If a step times ν is above 1.
    DivergenceError
        If the function grows beyond all proportion.
    """
    n, C = targets.shape
    prepared = blocks.prepare(X)
    F = np.zeros((n, C))
    coefficients = np.empty((n_steps, blocks.block_size, C))
    shrinks = np.empty(n_steps)
    scale = float(np.sqrt(np.mean(targets**2))) or 1.0
    batches = Batches(n, batch_size, generator)
    for t in range(n_steps):
        rows, gamma = batches.next(), float(step_size(t + 1))
        G = (F[rows] - targets[rows]) * weights[rows, np.newaxis] / rows.size
        Z = blocks.of(prepared, t)
        coefficients[t] = -gamma * (Z[rows].T @ G)
        shrinks[t] = shrink_factor(gamma, regularization)
        F *= shrinks[t]
        F += Z @ coefficients[t]
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
    itself, not the estimate of it by the features that f is made of: that one would bring the
    features' error into the prior variance, too, which is most of the variance far from the data.

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
    # The estimate has an error of its own, which may exceed a small variance.
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
        If the operator grows beyond all proportion.
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
        From :func:`operator_descent`.
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
