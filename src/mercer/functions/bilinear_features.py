r"""Bilinear functions on random features: :math:`B(x, z) = z(x)^T C\, z(z)`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import RandomFeatures
from mercer.functions._function import dense_rows
from mercer.functions.bilinear_function import BilinearFunction
from mercer.functions.feature_blocks import blocks_of
from mercer.kernels import Kernel
from mercer.records import FLOATS, Numbers, Record
from mercer.validation import integer, positive

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

# Number of blocks if the expansion leaves it open.
_N_BLOCKS = 2
# Rows evaluated at once.
_CHUNK = 4096


_NUMBERS = Record(scale=positive(), n_steps=integer(low=0))
_ARRAYS = Record(_coefficients=Numbers("n", "n", dtype=FLOATS))


class BilinearFeatures(BilinearFunction):
    r"""A bilinear function on a fixed number D of random features.

    The features are the blocks 0, 1, ... of :class:`FeatureExpansion`, scaled so that their inner
    products equal the kernel on average. They are never stored; C takes D² numbers. Every step is a
    plain gradient step in C: there is no compression and no error.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    expansion : RandomFeatures
        D is ``block_size`` times ``max_blocks`` (2 if that is None). ``mode`` has no effect here;
        ``growth`` and ``ridge`` must keep their defaults.
    n_features : int
        Number of inputs.
    averaging : None
        Not supported.

    Raises
    ------
    ValueError
        For ``growth`` or ``ridge``, a block size of "auto", averaging, or a kernel without
        random features.

    References
    ----------
    DSG, Section 2, for the features; Ying and Zhou, Section 1, for functions on pairs.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> B = BilinearFeatures(Gaussian(1.0), RandomFeatures(block_size=2048), 1)
    >>> X = np.array([[0.0], [1.0]])
    >>> error = B.add(X, np.array([[0.0, 1.0], [-1.0, 0.0]]), 0.0)  # k(0, x) k(1, z) - ...
    >>> B.bilinear(X, X[::-1]).round(1)
    array([ 0.6, -0.6])
    """

    def __init__(
        self,
        kernel: Kernel,
        expansion: RandomFeatures,
        n_features: int,
        averaging: float | None = None,
    ) -> None:
        self.refuse_averaging(averaging)
        if expansion.growth not in ("auto", "fixed") or expansion.ridge != "auto":
            raise ValueError(
                "A bilinear function has a fixed number of random features and makes plain "
                f"gradient steps, got growth={expansion.growth!r} and ridge={expansion.ridge!r}. "
                "Leave both at 'auto'; RandomFeatures(mode='cyclic', max_blocks=...) sets the "
                "number of blocks."
            )
        self.kernel, self.expansion, self.n_features = kernel, expansion, n_features
        self._blocks = blocks_of(expansion, kernel, n_features)
        self.n_blocks = int(expansion.max_blocks or _N_BLOCKS)
        self.n_steps, self.scale = 0, 1.0
        self.size = self.n_blocks * self._blocks.block_size
        self._coefficients = np.zeros((self.size, self.size), self.dtype)

    # -- the function ---------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of features and coefficients."""
        return self._blocks.dtype

    @property
    def coefficients(self) -> Array:
        """Matrix C, shape (size, size)."""
        return self.scale * self._coefficients.astype(np.float64)

    def random_features(self, X: Any) -> Floats:
        """Return random features of rows: B(x, z) = random_features(x) C random_features(z)'.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Rows.

        Returns
        -------
        Z : ndarray of shape (n, size)
            With E[Z Z'] = kernel(X).

        Raises
        ------
        ValueError
            If a value exceeds the range of the type, or a row is outside the kernel's domain.
        """
        rows = dense_rows(X, self.dtype, self.expansion.precision)
        Z: Floats = self._blocks.of_first(self.n_blocks, self._blocks.prepare(rows))
        Z /= self.dtype.type(np.sqrt(self.n_blocks))
        return Z

    def current(self, points: Floats) -> Array:
        """Return the values of B at all pairs of some points, and remember their features.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            The points of one step.

        Returns
        -------
        values : ndarray of shape (n_points, n_points)
            B(points_i, points_j).
        """
        Z = self.random_features(points)
        self._last = (points, Z)
        return self.scale * (Z @ self._coefficients @ Z.T).astype(np.float64)

    def bilinear(self, X1: Any, X2: Any) -> Array:
        """Return the values of B at pairs of points.

        Parameters
        ----------
        X1, X2 : ndarray or CSR matrix of shape (n, n_features)
            First and second points.

        Returns
        -------
        values : ndarray of shape (n,)
        """
        values = np.zeros(X1.shape[0])
        for start in range(0, values.size, _CHUNK):
            rows = slice(start, start + _CHUNK)
            left = self.random_features(X1[rows]) @ self._coefficients
            values[rows] = np.einsum("ij,ij->i", left, self.random_features(X2[rows]))
        return self.scale * values

    # -- one step -------------------------------------------------------------------------------

    def _multiply(self, factor: float) -> None:
        self._coefficients *= self.dtype.type(factor)

    def add(
        self,
        points: Floats,
        coefficients: Array,
        tolerance: float,
        before: Indices | None = None,
        after: Indices | None = None,
    ) -> float:
        r"""Add :math:`\sum_{ij} V_{ij}\, k(x_i, \cdot)\, k(x_j, \cdot)`.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            Points. If they are the array last given to :meth:`current`, its features are reused.
        coefficients : ndarray of shape (n_points, n_points)
            V.
        tolerance, before, after
            Not used, since nothing is compressed.

        Returns
        -------
        error : float
            0.
        """
        rows, columns = coefficients.any(axis=1), coefficients.any(axis=0)
        if self._last is not None and self._last[0] is points:
            Z = self._last[1]
        else:
            Z = self.random_features(points)
        self._last = None
        block = (coefficients[np.ix_(rows, columns)] / self.scale).astype(self.dtype)
        if block.size:
            self._coefficients += Z[rows].T @ (block @ Z[columns])
        self.n_steps += 1
        return 0.0

    # -- state ----------------------------------------------------------------------------------

    def snapshot(self, *, packed: bool = True) -> dict[str, Any]:
        """Return copies of everything that a step changes; for :meth:`restore`.

        Parameters
        ----------
        packed : bool, default=True
            Has no effect: C need not be symmetric.
        """
        return {"numbers": _NUMBERS.written(self), "arrays": _ARRAYS.written(self)}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`snapshot`, bit for bit.

        Raises
        ------
        ValueError
            If the arrays do not fit.
        """
        numbers = _NUMBERS.read(state["numbers"], {})
        arrays = _ARRAYS.read(state["arrays"], {"n": self.size})
        if arrays["_coefficients"].dtype != self.dtype:
            raise ValueError("The coefficients of the random features do not fit the function.")
        vars(self).update(numbers | arrays)
        self.forget()
