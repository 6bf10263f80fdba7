"""Directions in which a learned function varies: average outer products of its gradients."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer.kernels import Gaussian, Kernel, Laplacian, Mapped, Matern, Scaled, Sum
from mercer.maps import Affine

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

_NUMBERS = 2**22  # most gradients or kernel values in memory at a time
_COLUMNS = 512  # multiplied with each other where the diagonal is enough
# The truncation error is the squared step, the rounding error is eps over the step: this step
# balances both.
_STEP = float(np.cbrt(np.finfo(np.float64).eps))


def average_gradient_outer_product(
    kernel: Kernel,
    dictionary: ArrayLike,
    coefficients: ArrayLike,
    X: ArrayLike,
    *,
    diagonal: bool = False,
) -> Array:
    r"""Average outer product of the gradients of a kernel expansion.

    .. math:: G = \frac1n \sum_{x} \sum_c g_c(x) g_c(x)^T, \quad
        g_c(x) = \nabla f_c(x), \quad f_c(x) = \sum_i w_{ic} k(d_i, x)

    The diagonal of G says how much the function varies with each input; its eigenvectors say along
    which directions. Gaussian, Laplacian, and Matérn kernels of an order above 1 have formulas for
    gradients, also after an affine map and in sums and multiples. Every other kernel is
    differentiated by central differences, with two evaluations for each input.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved, differentiable almost everywhere.
    dictionary : array-like of shape (model_order, n_inputs)
        Points d of the expansion.
    coefficients : array-like of shape (model_order, n_outputs) or (model_order,)
        Coefficients w.
    X : array-like of shape (n_rows, n_inputs)
        Rows over which to average; a few thousand are enough.
    diagonal : bool, default=False
        Whether to return the diagonal of G alone, whose cost grows with the number of inputs and
        not with its square.

    Returns
    -------
    gradient_products : ndarray of shape (n_inputs, n_inputs), or (n_inputs,) of the diagonal
        G, symmetric and positive semi-definite, in squared units of the function per unit of the
        inputs *before* the map of a :class:`~mercer.kernels.Mapped` kernel.

    Raises
    ------
    ValueError
        If the shapes do not fit, the kernel lacks numbers, there are no rows, or the gradients are
        not finite.

    See Also
    --------
    mercer.maps.ard_metric, mercer.maps.full_metric : Maps made of it.

    References
    ----------
    A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 2024.

    Examples
    --------
    A function of the first of two inputs:

    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import average_gradient_outer_product
    >>> average_gradient_outer_product(Linear(), [[1.0, 0.0]], [3.0], np.eye(2)).round(6)
    array([[9., 0.],
           [0., 0.]])
    """
    rows, points, weights = _checked(dictionary, coefficients, X)
    if not kernel.is_resolved:
        raise ValueError(
            f"{kernel!r} cannot be differentiated: some of its numbers have to come from data "
            "first. Call kernel.resolve(X) and use the kernel that it returns."
        )
    d = rows.shape[1]
    G = np.zeros(d) if diagonal else np.zeros((d, d))
    n_block = max(1, _NUMBERS // max(d * weights.shape[1], len(points)))
    for start in range(0, len(rows), n_block):
        g = _gradients(kernel, rows[start : start + n_block], points, weights)
        g = g.reshape(-1, d)
        if not diagonal:
            G += g.T @ g
            continue
        for first in range(0, d, _COLUMNS):
            some = g[:, first : first + _COLUMNS]
            G[first : first + _COLUMNS] += np.diag(some.T @ some)
    G /= len(rows)
    if not np.isfinite(G).all():
        raise ValueError(
            f"The gradients of the expansion in {kernel!r} are not finite on these rows. Rescale "
            "the inputs, or use a kernel that is differentiable there, such as Gaussian."
        )
    return G


@singledispatch
def _gradients(kernel: Kernel, X: Floats, D: Floats, W: Floats) -> Floats:
    """Return gradients, (n_outputs, n_rows, n_inputs), by a formula if the kernel has one."""
    return _by_differences(kernel, X, D, W)


def _by_differences(kernel: Kernel, X: Floats, D: Floats, W: Floats) -> Floats:
    X, D, W = (A.astype(np.float64, copy=False) for A in (X, D, W))
    gradients = np.empty((W.shape[1], *X.shape))
    for j, step in enumerate(_steps(D)):
        above, below = X.copy(), X.copy()
        above[:, j] += step
        below[:, j] -= step
        # The distance after rounding differs from 2 * step far from 0.
        distance = above[:, j] - below[:, j]
        difference = kernel(above, D) @ W - kernel(below, D) @ W
        gradients[:, :, j] = difference.T / distance
    return gradients


@_gradients.register
def _of_gaussian(kernel: Gaussian, X: Floats, D: Floats, W: Floats) -> Floats:
    return _towards_points(kernel, X, D, W, float(kernel.length_scale) ** 2)


@_gradients.register
def _of_matern(kernel: Matern, X: Floats, D: Floats, W: Floats) -> Floats:
    nu, length = float(kernel.nu), float(kernel.length_scale)
    if nu <= 1.0:
        return _by_differences(kernel, X, D, W)
    # The derivative of a Matérn kernel is, up to a factor, the kernel of the order below.
    share = (nu - 1.0) / nu
    below = Matern(nu - 1.0, length * share**0.5)
    return _towards_points(below, X, D, W, share * length**2)


def _towards_points(kernel: Kernel, X: Floats, D: Floats, W: Floats, unit: float) -> Floats:
    """Return sum_i w_i k(d_i, x) (d_i - x) / unit, the gradient of radial kernels at rows x."""
    centre = D.mean(axis=0)  # centring avoids cancellation far from 0
    X, D = X - centre, D - centre
    K = kernel(X, D)
    totals = K @ W
    gradients = np.stack([(K * w) @ D for w in W.T])
    gradients -= totals.T[:, :, None] * X
    gradients /= unit
    return gradients


@_gradients.register
def _of_laplacian(kernel: Laplacian, X: Floats, D: Floats, W: Floats) -> Floats:
    K = kernel(X, D)
    K /= K.dtype.type(kernel.length_scale)
    terms = [K * w for w in W.T]
    gradients = np.empty((W.shape[1], *X.shape), K.dtype)
    for j in range(X.shape[1]):
        sides = np.sign(D[:, j] - X[:, j, None])  # 0 at the kink itself
        for term, gradient in zip(terms, gradients, strict=True):
            gradient[:, j] = np.einsum("ij,ij->i", term, sides)
    return gradients


@_gradients.register
def _of_scaled(kernel: Scaled, X: Floats, D: Floats, W: Floats) -> Floats:
    return float(kernel.factor) * _gradients(kernel.kernel, X, D, W)


@_gradients.register
def _of_sum(kernel: Sum, X: Floats, D: Floats, W: Floats) -> Floats:
    left, right = (_gradients(part, X, D, W) for part in (kernel.left, kernel.right))
    return np.asarray(left + right)


@_gradients.register
def _of_mapped(kernel: Mapped, X: Floats, D: Floats, W: Floats) -> Floats:
    if not isinstance(kernel.map, Affine):
        return _by_differences(kernel, X, D, W)
    return kernel.map.pull_back(_gradients(kernel.kernel, kernel.map(X), kernel.map(D), W))


def _steps(D: Floats) -> Array:
    """Choose difference steps that are small compared with the spread of each column of points."""
    spread = D.std(axis=0)
    size = np.abs(D).max(axis=0)
    # A constant column has no spread; its step must be well above the rounding of its numbers.
    return np.asarray(_STEP * np.where(spread > 1e-8 * size, spread, np.maximum(1.0, size)))


def _checked(dictionary: Any, coefficients: Any, X: Any) -> list[Floats]:
    """Return rows, points and weights as float32 if all of them are, otherwise as float64."""
    arrays = [np.asarray(value) for value in (X, dictionary, coefficients)]
    dtype: DTypeLike = np.float32 if all(a.dtype == np.float32 for a in arrays) else np.float64
    rows, points, weights = (np.ascontiguousarray(a, dtype=dtype) for a in arrays)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if rows.ndim != 2 or points.ndim != 2 or rows.shape[1] != points.shape[1]:
        raise ValueError(
            "`X` and `dictionary` must have the shapes (n_rows, n_inputs) and (model_order, "
            f"n_inputs), got {rows.shape} and {points.shape}. They are points of one space."
        )
    if weights.ndim != 2 or len(weights) != len(points) or weights.size == 0:
        raise ValueError(
            f"`coefficients` must have the shape ({len(points)}, n_outputs), one row for each "
            f"point of the dictionary, got {np.shape(coefficients)}."
        )
    if len(rows) == 0:
        raise ValueError("`X` must have at least one row: there is nothing to average over.")
    return [rows, points, weights]
