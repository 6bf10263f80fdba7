"""Inducing points: how many, which, and the features that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer._component import Component
from mercer._validation import check_choice, check_integer
from mercer.kernels import Kernel
from mercer.sums import CENTERS, KernelBasis, factor_ridge

__all__ = ["InducingFeatures", "InducingPoints"]

Array = NDArray[np.float64]

_FEWEST, _MOST = 2_000, 30_000  # first rows, where their number is chosen


class InducingPoints(Component):
    """A dictionary of inducing points, chosen from the first rows and then fixed.

    The first rows are kept until there are enough of them to choose the points from; from then on
    sums over the rows that take ``size``² numbers. Until then predictions are those of points
    chosen from the rows so far: of up to ``size`` rows all, which is the exact Gaussian process.

    Parameters
    ----------
    size : int, default=1000
        Most inducing points.
    centers : {"kmeans", "uniform", "leverage"}, default="kmeans"
        How they are chosen: means of clusters of the first rows, rows drawn at random, or rows
        drawn by their ridge leverage (:func:`mercer.sums.choose_centers`).
    first_rows : int or "auto", default="auto"
        Rows that they are chosen from, at least ``size``. "auto" means five times ``size``, but
        from 2,000 to 30,000 where ``size`` allows.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    J. Quiñonero-Candela, C. E. Rasmussen, A unifying view of sparse approximate Gaussian process
    regression, JMLR 2005, for the posterior. M. K. Titsias, Variational learning of inducing
    variables in sparse Gaussian processes, AISTATS 2009, for the marginal likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor
    >>> from mercer.gaussian_process import InducingPoints
    >>> from mercer.kernels import Gaussian
    >>> x = np.linspace(-3, 3, 50)[:, None]
    >>> model = GaussianProcessRegressor(
    ...     Gaussian(1.0), noise=0.01, method=InducingPoints(12), random_state=0
    ... )
    >>> mean, std = model.fit(x, np.sin(x[:, 0])).predict([[1.0], [9.0]], return_std=True)
    >>> mean.round(1) + 0.0, std.round(1)
    (array([0.8, 0. ]), array([0., 1.]))
    >>> model.model_order_
    12
    """

    def __init__(
        self, size: int = 1000, centers: str = "kmeans", first_rows: int | str = "auto"
    ) -> None:
        self.size = size
        self.centers = centers
        self.first_rows = first_rows
        self._check()

    def _check(self) -> None:
        check_integer("size", self.size, low=1)
        check_choice("centers", self.centers, CENTERS)
        if isinstance(self.first_rows, str):
            check_choice("first_rows", self.first_rows, ("auto",))
        else:
            check_integer("first_rows", self.first_rows, low=self.size)

    @property
    def n_first_rows(self) -> int:
        """Rows that the points are chosen from."""
        if isinstance(self.first_rows, str):
            return max(self.size, min(max(5 * self.size, _FEWEST), _MOST))
        return int(self.first_rows)


class InducingFeatures:
    r"""Features :math:`z(x) = L^{-1} k(D, x)` with :math:`LL^T = k(D, D)` for a dictionary D.

    Their inner products are :math:`q(x, x') = k(x, D) k(D, D)^{-1} k(D, x')`, the part of the
    kernel that functions on D hold: k itself where x or x' is in D, never more than k elsewhere.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_inputs)
        Dictionary, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> features = InducingFeatures(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> Z = features.of(features.prepare(np.array([[0.0], [9.0]])))
    >>> (Z @ Z.T).round(9) + 0.0
    array([[1., 0.],
           [0., 0.]])
    """

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel = kernel
        self.basis = KernelBasis(kernel, points)
        # With jitter the points are known up to a little noise: still a part of the kernel.
        self._lower = factor_ridge(self.basis.penalty(), 0.0).lower

    def __eq__(self, other: object) -> bool:
        """Whether kernel and points are the same."""
        return isinstance(other, InducingFeatures) and self.basis == other.basis

    __hash__ = None  # type: ignore[assignment]

    @property
    def points(self) -> Array:
        """Dictionary, shape (n_points, n_inputs)."""
        return np.asarray(self.basis.points, dtype=np.float64)

    @property
    def block_size(self) -> int:
        """Number of points, and of features."""
        return self.basis.size

    def prepare(self, X: Array) -> tuple[Array]:
        """Rows, C-ordered, in float64."""
        return (np.ascontiguousarray(X, dtype=np.float64),)

    def of(self, prepared: tuple[Array], number: int = 0) -> Array:
        """Features of prepared rows, shape (n, n_points); there is one block of them."""
        return self.whiten(self.basis.features(prepared[0]).T).T

    def whiten(self, values: Any) -> Array:
        """Weights in z of the functions with given values at the points: L⁻¹ values."""
        whitened: Array = solve_triangular(self._lower, values, lower=True, check_finite=False)
        return whitened

    def coefficients(self, weights: Array) -> Array:
        """Coefficients of the kernel functions at the points for weights in z: L'⁻¹ weights."""
        solved: Array = solve_triangular(
            self._lower, weights, lower=True, trans="T", check_finite=False
        )
        return solved
