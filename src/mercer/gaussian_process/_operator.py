"""The operator whose quadratic form is what the data explain of the prior variance (route 1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.functions.feature_blocks import FeatureBlocks
from mercer.gaussian_process._descent import Batches, average_weights, shrink_factor

__all__ = ["operator_descent", "operator_variances"]

Array = NDArray[np.float64]

_ROWS = 512  # test points at a time
_LARGEST = 1e3  # the exact operator's norm is below 1


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
