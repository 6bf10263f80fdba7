"""Matérn kernels of orders without a closed form."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, kve

from mercer.kernels._pairwise import FloatArray

__all__ = ["LARGE_ORDER", "matern_of_any_order", "matern_of_large_order"]

# From this order on the expansion for large orders is used, good to 3e-12 there; below, the Bessel
# function itself.
LARGE_ORDER = 60.0


def matern_of_any_order(a: FloatArray, nu: float) -> FloatArray:
    """Matérn kernel of an order below 60, by logarithms: its factors overflow, it does not."""
    a64 = a.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_bessel = np.log(kve(nu, a64)) - a64
        K = np.exp((1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(a64) + log_bessel)
    # Where the Bessel function is infinite a is tiny, and two terms of the series are exact.
    near = np.isposinf(log_bessel)
    K[near] = 1 - a64[near] ** 2 / (4 * (nu - 1)) if nu > 1 else 1.0
    values: FloatArray = np.minimum(K, 1.0).astype(a.dtype)
    return values


def matern_of_large_order(squares: FloatArray, nu: float) -> FloatArray:
    r"""Matérn kernel of a large order, from :math:`z^2`, :math:`z = a / \nu`.

    DLMF, eq. (10.41.4), divided by its own limit at z = 0 so that nothing large cancels:
    with :math:`s = \sqrt{1 + z^2}`, k = exp(-nu (s - 1 - log((1 + s) / 2))) / sqrt(s) *
    U(1 / s) / U(1), where U(t) = sum_k (-1)^k u_k(t) / nu^k with the u_k of DLMF, eq. (10.41.10).
    """
    z2 = squares.astype(np.float64)
    s = np.sqrt(1 + z2)
    excess = z2 / (1 + s)
    K = np.exp(-nu * (excess - np.log1p(excess / 2)))
    K *= _debye_sum(1 / s, nu) / (_debye_sum(np.ones(1), nu) * np.sqrt(s))
    values: FloatArray = K.astype(squares.dtype)
    return values


def _debye_sum(t: FloatArray, nu: float) -> FloatArray:
    t2 = t * t
    u1 = t * (3 - 5 * t2) / 24
    u2 = t2 * (81 + t2 * (-462 + t2 * 385)) / 1152
    u3 = t * t2 * (30375 + t2 * (-369603 + t2 * (765765 - t2 * 425425))) / 414720
    u4 = (
        t2
        * t2
        * (4465125 + t2 * (-94121676 + t2 * (349922430 + t2 * (-446185740 + t2 * 185910725))))
        / 39813120
    )
    total: FloatArray = 1 - (u1 - (u2 - (u3 - u4 / nu) / nu) / nu) / nu
    return total
