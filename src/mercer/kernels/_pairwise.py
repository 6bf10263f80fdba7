"""Distances, angles and inner products of all pairs of rows: the arithmetic under the kernels.

Plain arrays in, plain arrays out. Dense arguments are C-contiguous and of one dtype, float32 or
float64, which is also the dtype of the result. ``Z`` may be ``X`` itself; the result is then
exactly symmetric, with an exact diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.jit import jit

FloatArray = NDArray[np.floating[Any]]

# Below this fraction of |x|^2 + |z|^2 a squared distance has lost too many digits to cancellation
# and is computed from the difference of the rows instead.
_CLOSE_DISTANCE = {"f": 1e-3, "d": 1e-6}
# Likewise for the distance of a cosine from 1 or -1, where the arc cosine loses half the digits.
_CLOSE_COSINE = {"f": 1e-2, "d": 1e-4}
_N_ROWS_FOR_CENTRE = 64
_TILE = 64  # rows of Z that stay in cache while all rows of X pass
_WIDE_TILE = 512  # distances of a row that stay there while columns pass

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_jit = jit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


def inner_products(X: Any, Z: Any) -> FloatArray:
    """Inner products of rows, shape (n_rows_X, n_rows_Z); either may be sparse."""
    products = X @ Z.T
    dense: FloatArray = products.toarray() if sparse.issparse(products) else products
    return dense


def squared_norms(X: Any) -> FloatArray:
    """Squared Euclidean norms of rows, shape (n_rows,); ``X`` may be sparse."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=X.dtype).ravel()
    squares: FloatArray = np.einsum("ij,ij->i", X, X)
    return squares


def squared_distances(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Squared Euclidean distances of rows by one matrix product, shape (n_rows_X, n_rows_Z).

    The expansion |x|^2 + |z|^2 - 2 <x, z> cancels twice over: for data far from the origin, which
    are therefore shifted by their centre, and for rows close to each other, which are therefore
    subtracted directly. Equal rows are at distance 0 exactly.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # repaired below
        x2, z2 = _squared_norms_of_both(X, Z)
        if len(Z) and X.shape[1]:
            centre = Z[:: -(-len(Z) // _N_ROWS_FOR_CENTRE)].mean(axis=0)
            # Shifting costs a copy of the data, so only where it gains a digit or more.
            if centre @ centre > 0.9 * z2.mean():
                same = Z is X
                X = X - centre
                Z = X if same else Z - centre
                x2, z2 = _squared_norms_of_both(X, Z)
        D = inner_products(X, Z)
    scalar = D.dtype.type
    _complete_squared_distances(D, x2, z2, X, Z, scalar(_CLOSE_DISTANCE[D.dtype.char]), scalar(0))
    return D


def _squared_norms_of_both(X: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    x2 = squared_norms(X)
    return x2, x2 if Z is X else squared_norms(Z)


@_jit
def _complete_squared_distances(D, x2, z2, X, Z, close, zero):  # type: ignore[no-untyped-def]
    n, m = D.shape
    for i in range(n):
        n_close = 0
        for j in range(m):
            total = x2[i] + z2[j]
            D[i, j] = total - (D[i, j] + D[i, j])
            # "Not at least" rather than "below": it also catches the NaN of an overflow.
            n_close += not (D[i, j] >= close * total)
        if n_close > 0:
            for j in range(m):
                if not (D[i, j] >= close * (x2[i] + z2[j])):
                    s = zero
                    for k in range(X.shape[1]):
                        t = X[i, k] - Z[j, k]
                        s += t * t
                    D[i, j] = s


def cityblock_distances(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Cityblock distances, sums of absolute differences of rows, (n_rows_X, n_rows_Z)."""
    D = np.empty((len(X), len(Z)), dtype=X.dtype)
    _cityblock(X, np.ascontiguousarray(Z.T), D, X.dtype.type(0))
    return D


@_jit
def _cityblock(X, Z, D, zero):  # type: ignore[no-untyped-def]
    """Distances between the rows of X and the columns of Z."""
    n_columns = X.shape[1]
    whole = n_columns - n_columns % 4
    for start in range(0, D.shape[1], _WIDE_TILE):
        stop = min(start + _WIDE_TILE, D.shape[1])
        for i in range(len(X)):
            # Side by side in the registers are points, not columns, of which there may be few.
            row = D[i, start:stop]
            row[:] = zero
            for k in range(0, whole, 4):
                x0, x1, x2, x3 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
                z0, z1 = Z[k, start:stop], Z[k + 1, start:stop]
                z2, z3 = Z[k + 2, start:stop], Z[k + 3, start:stop]
                for j in range(row.size):
                    first = abs(x0 - z0[j]) + abs(x1 - z1[j])
                    row[j] += first + (abs(x2 - z2[j]) + abs(x3 - z3[j]))
            for k in range(whole, n_columns):
                x, z = X[i, k], Z[k, start:stop]
                for j in range(row.size):
                    row[j] += abs(x - z[j])


def cauchy_products(X: FloatArray, Z: FloatArray, inverse_scale: float) -> FloatArray:
    """Products over features of 1 + (difference * inverse_scale)^2, (n_rows_X, n_rows_Z)."""
    P = np.empty((len(X), len(Z)), dtype=X.dtype)
    scalar = X.dtype.type
    _cauchy_products(X, Z, P, scalar(inverse_scale), scalar(1))
    return P


@_jit
def _cauchy_products(X, Z, P, inverse_scale, one):  # type: ignore[no-untyped-def]
    for start in range(0, len(Z), _TILE):
        for i in range(len(X)):
            for j in range(start, min(start + _TILE, len(Z))):
                s = one
                for k in range(X.shape[1]):
                    t = (X[i, k] - Z[j, k]) * inverse_scale
                    s *= one + t * t
                P[i, j] = s


def angles(X: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Angles between rows in [0, pi], shape (n_rows_X, n_rows_Z), and the norms of the rows.

    A zero row has no direction: its angles are given as pi / 2. Rows of nearly the same or the
    opposite direction are treated by W. Kahan's half-angle formula, so that equal rows have angle
    0 exactly, where the arc cosine of a rounded cosine would lose half the digits.
    """
    x = np.sqrt(squared_norms(X))
    z = x if Z is X else np.sqrt(squared_norms(Z))
    A = inner_products(X, Z)
    scalar = A.dtype.type
    _complete_angles(A, x, z, X, Z, scalar(1 - _CLOSE_COSINE[A.dtype.char]), scalar(0))
    return A, x, z


@_jit
def _complete_angles(A, x, z, X, Z, close, zero):  # type: ignore[no-untyped-def]
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            norms = x[i] * z[j]
            cosine = A[i, j] / norms if norms > zero else zero
            if abs(cosine) < close:
                A[i, j] = np.arccos(cosine)
                continue
            sign = np.sign(cosine)
            s = zero
            for k in range(X.shape[1]):
                t = X[i, k] / x[i] - sign * (Z[j, k] / z[j])
                s += t * t
            half = np.arcsin(np.sqrt(s) / (zero + 2))
            A[i, j] = half + half if sign > zero else np.pi - (half + half)
