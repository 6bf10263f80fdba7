"""Metrics in which a function learned before varies alike in all directions.

A kernel of distances treats all directions of its inputs alike, a target seldom does. The average
outer product of the gradients of a first model, G, tells the directions in which it varies; the
kernel of a second one measures its distances with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._validation import check_integer, check_real
from mercer.maps._affine import Affine
from mercer.maps._axes import leading_axes

__all__ = ["ard_metric", "full_metric"]

Array = NDArray[np.float64]


def ard_metric(gradient_products: ArrayLike, *, floor: float = 0.01, drop: bool = True) -> Affine:
    r"""Scale of each input by how much a function varies with it.

    Column j is multiplied by :math:`\sqrt{G_{jj} / \max_i G_{ii}}`: automatic relevance
    determination, without an optimisation.

    Parameters
    ----------
    gradient_products : array-like of shape (n_inputs, n_inputs)
        Average outer product of gradients G, symmetric and positive semi-definite, as
        :func:`mercer.sums.average_gradient_outer_product` returns it.
    floor : float, default=0.01
        Weight in [0, 1], relative to the largest, below which a column hardly matters.
    drop : bool, default=True
        Whether columns of a weight below ``floor`` are dropped, which makes everything behind the
        map cheaper. Otherwise only columns without any influence are.

    Returns
    -------
    metric : Affine
        A scale of each column, the largest 1.

    Raises
    ------
    ValueError
        If G is not square, symmetric, finite and of a positive diagonal, or ``floor`` out of range.

    References
    ----------
    A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 2024: the average gradient outer product
    of kernel machines as a metric.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import ard_metric
    >>> ard_metric(np.diag([4.0, 1.0, 1e-9]))([[1.0, 1.0, 1.0]])
    array([[1. , 0.5]])
    """
    products = _gradient_products(gradient_products)
    low = check_real("floor", floor, low=0, high=1)
    weights = np.sqrt(np.diag(products) / np.diag(products).max())
    if drop:
        weights[weights < low] = 0.0
    return Affine(np.zeros(len(weights)), weights)


def full_metric(
    gradient_products: ArrayLike,
    n_outputs: int | None = None,
    *,
    floor: float = 0.01,
    drop: bool = True,
) -> Affine:
    r"""Directions of the inputs, scaled by how much a function varies along them.

    With :math:`G = V \Lambda V^T` the map is :math:`x \mapsto \Lambda^{1/2} V^T x`, the largest
    eigenvalue being scaled to 1, so that squared distances are :math:`(x - x')^T G (x - x')`.

    Parameters
    ----------
    gradient_products : array-like of shape (n_inputs, n_inputs)
        Average outer product of gradients G, symmetric and positive semi-definite, as
        :func:`mercer.sums.average_gradient_outer_product` returns it.
    n_outputs : int or None, default=None
        Number of directions, the most important ones, at most; None means all.
    floor : float, default=0.01
        Weight in [0, 1], relative to the largest, below which a direction hardly matters; weights
        are square roots of eigenvalues.
    drop : bool, default=True
        Whether directions of a weight below ``floor`` are dropped.

    Returns
    -------
    metric : Affine
        A matrix whose columns are orthogonal, the first of length 1.

    Raises
    ------
    ValueError
        If G is not square, symmetric, finite and of a positive diagonal, ``n_outputs`` is not
        positive, or ``floor`` out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import full_metric
    >>> metric = full_metric([[5.0, 3.0], [3.0, 5.0]])  # eigenvalues 8 and 2
    >>> metric([[1.0, 1.0], [1.0, -1.0]]).round(3) + 0.0
    array([[1.414, 0.   ],
           [0.   , 0.707]])
    """
    products = _gradient_products(gradient_products)
    low = check_real("floor", floor, low=0, high=1)
    n_axes = len(products)
    if n_outputs is not None:
        n_axes = min(n_axes, check_integer("n_outputs", n_outputs, low=1))
    values, axes = leading_axes(products, n_axes)
    weights = np.sqrt(values / values[0])
    if drop:
        kept = weights >= low
        weights, axes = weights[kept], axes[:, kept]
    return Affine(np.zeros(len(products)), axes * weights)


def _gradient_products(value: ArrayLike) -> Array:
    G = np.array(value, dtype=np.float64)
    if G.ndim != 2 or G.shape[0] != G.shape[1] or not np.isfinite(G).all():
        raise ValueError(
            f"`gradient_products` must be a square matrix of finite numbers, got the shape "
            f"{G.shape}" + (" with NaN or infinity." if G.ndim == 2 else ".")
        )
    size = np.abs(G).max(initial=0.0)
    if np.abs(G - G.T).max(initial=0.0) > 1e-8 * size or (np.diag(G) < 0).any():
        raise ValueError(
            "`gradient_products` must be symmetric with no negative number on the diagonal: it is "
            "an average of products g g' of gradients."
        )
    if np.diag(G).max(initial=0.0) == 0.0:
        raise ValueError(
            "`gradient_products` must not be 0: the function is constant and prefers no direction. "
            "Learn it first, or keep the inputs as they are."
        )
    return G
