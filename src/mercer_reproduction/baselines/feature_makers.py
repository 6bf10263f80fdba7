"""The two maps to a fixed number of features: random ones ("r-") and Nyström's ("n-")."""

from __future__ import annotations

import numpy as np

from mercer.kernels import Kernel
from mercer_reproduction.baselines._base import Floats

# Eigenvalues of the landmarks' Gram matrix below this fraction of the largest are rounding errors.
_NEGLIGIBLE = 1e-12


class RandomFeatureMap:
    """A fixed number of random features of a kernel, :math:`E z(x)^T z(x') = k(x, x')`.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    n_features : int
        Number of features r.
    seed : int, default=0
        Of the features.
    """

    def __init__(self, kernel: Kernel, n_features: int, seed: int = 0) -> None:
        self.kernel, self.n_features, self.seed = kernel, n_features, seed

    def __call__(self, X: Floats) -> Floats:
        """Features of rows, shape (n_rows, n_features)."""
        Z: Floats = self.kernel.random_features(X, self.n_features, seed=self.seed)
        return Z


class NystroemMap:
    r"""Nyström's features :math:`z(x) = K_{rr}^{-1/2} k_r(x)`, exact on the landmarks.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    landmarks : ndarray of shape (r, n_inputs)
        Points, usually some training rows.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.5]])
    >>> Z = NystroemMap(Gaussian(1.0), X)(X)
    >>> bool(np.allclose(Z @ Z.T, Gaussian(1.0)(X)))
    True
    """

    def __init__(self, kernel: Kernel, landmarks: Floats) -> None:
        self.kernel, self.landmarks = kernel, landmarks
        values, vectors = np.linalg.eigh(np.asarray(kernel(landmarks), dtype=np.float64))
        kept = values > _NEGLIGIBLE * values[-1]
        vectors = vectors[:, kept]
        self._root = (vectors / np.sqrt(values[kept])) @ vectors.T
        self._root = self._root.astype(landmarks.dtype, copy=False)

    @classmethod
    def from_rows(cls, kernel: Kernel, X: Floats, n_landmarks: int, seed: int = 0) -> NystroemMap:
        """Choose the landmarks among the rows at random."""
        chosen = np.random.default_rng(seed).choice(len(X), n_landmarks, replace=False)
        return cls(kernel, X[np.sort(chosen)])

    def __call__(self, X: Floats) -> Floats:
        """Features of rows, shape (n_rows, n_landmarks)."""
        Z: Floats = self.kernel(X, self.landmarks) @ self._root
        return Z
