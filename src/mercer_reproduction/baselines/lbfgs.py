r"""Kernel machines on all training rows at once, by L-BFGS: the dense solution.

A batch method: nothing of it streams, and its memory is quadratic in the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.optimize import minimize

from mercer.kernels import Kernel
from mercer.losses import Loss, MulticlassLoss, Softmax
from mercer.validation import check_integer, check_real
from mercer_reproduction.baselines._base import Array, Floats, tiles


class KernelFactor:
    r"""Factor U of the kernel matrix of all rows, :math:`K = UU^\top`, by pivoted Cholesky.

    Functions on the rows are then :math:`f(X) = Ub` with :math:`\|f\|^2 = \|b\|^2`: in these
    coordinates the objective is as well conditioned as the loss, in the coefficients of the rows
    it is by the square of K worse.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows; the factor is of their precision, and takes the memory of the kernel matrix.
    kernel : Kernel
        With its numbers resolved.
    tolerance : float or None, default=None
        Rows are left out of the basis once the squared distances of their kernel functions to its
        span are below this number; None is 1e-10, or 1e-5 in float32. With 0 all are in it that
        do not depend on others.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, rank)
        U.
    pivots : ndarray of shape (rank,)
        Numbers of the rows in the basis.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> factor = KernelFactor(np.linspace(0.0, 1.0, 200)[:, None], Gaussian(0.5))
    >>> factor.rank < 20
    True
    """

    def __init__(self, X: Floats, kernel: Kernel, tolerance: float | None = None) -> None:
        gram = np.asarray(kernel(X, X))
        single = gram.dtype == np.float32
        if tolerance is None:
            tolerance = 1e-5 if single else 1e-10
        check_real("tolerance", tolerance, low=0.0)
        decompose: Any = lapack.spstrf if single else lapack.dpstrf
        # The transpose is in the order that LAPACK wants, so that nothing is copied.
        lower, order, rank, _ = decompose(gram.T, tol=tolerance, lower=1, overwrite_a=1)
        self.X, self.kernel = X, kernel
        self.rank = int(rank)
        self.pivots: NDArray[np.intp] = np.asarray(order[: self.rank] - 1, np.intp)
        lower = np.tril(lower)[:, : self.rank]
        self._triangle = np.ascontiguousarray(lower[: self.rank])
        self.rows = np.empty_like(lower, order="C")
        self.rows[order - 1] = lower

    def function(self, b: Array) -> BatchFunction:
        """Return the function of coordinates ``b``, shape (rank, n_outputs)."""
        coefficients = solve_triangular(self._triangle, b, trans="T", lower=True)
        points = self.X[self.pivots]
        return BatchFunction(self.kernel, points, np.asarray(coefficients), coordinates=b)


@dataclass(frozen=True)
class BatchFunction:
    """A function on some of the training rows.

    Attributes
    ----------
    kernel : Kernel
        With its numbers resolved.
    dictionary : ndarray of shape (model_order, n_inputs)
        The rows.
    coefficients : ndarray of shape (model_order, n_outputs)
        Their weights.
    n_iterations : int
        Of the solver.
    converged : bool
        Whether the gradient became small enough, before the iterations or the line search ended.
    coordinates : ndarray of shape (rank, n_outputs) or None
        Those of the factor, if it was found in them.
    """

    kernel: Kernel
    dictionary: Floats
    coefficients: Array
    n_iterations: int = 0
    converged: bool = False
    coordinates: Array | None = None

    @property
    def model_order(self) -> int:
        """Number of points."""
        return len(self.coefficients)

    def decision_function(self, X: Floats) -> Array:
        """Scores of rows, shape (n_rows, n_outputs)."""
        scores = [
            self.kernel(X[tile], self.dictionary) @ self.coefficients for tile in tiles(len(X))
        ]
        return np.asarray(np.concatenate(scores), np.float64)


class SmoothedHinge(MulticlassLoss):
    r"""Multi-class hinge without kinks: :math:`\mu \log \sum_c e^{m_c / \mu}`.

    The margins are :math:`m_c = [c \ne y] + f_c - f_y`; their largest is the hinge, which is
    exceeded by at most :math:`\mu \log C`.

    Parameters
    ----------
    width : float, default=0.01
        :math:`\mu`; the curvature is its inverse, up to a factor.

    Examples
    --------
    >>> SmoothedHinge(1e-3).value([0], [[0.25, 0.0, -3.0]]).round(3)
    array([0.75])
    """

    lipschitz = np.sqrt(2.0)

    def __init__(self, width: float = 0.01) -> None:
        self.width = check_real("width", width, low=0.0, open_low=True)

    def value(self, y: Any, f: Any) -> Array:
        return self.width * Softmax().value(y, self._raised(y, f))

    def derivative(self, y: Any, f: Any) -> Array:
        return Softmax().derivative(y, self._raised(y, f))

    def _raised(self, y: Any, f: Any) -> Array:
        """Scores with the margin added to all classes but the true one, in units of the width."""
        raised = np.asarray(f, np.float64) + 1.0
        raised[np.arange(len(raised)), np.asarray(y, np.intp)] -= 1.0
        scaled: Array = raised / self.width
        return scaled


def minimize_risk(
    factor: KernelFactor,
    y: Any,
    loss: Loss,
    *,
    n_outputs: int,
    regularization: float,
    max_iterations: int = 1000,
    tolerance: float = 1e-4,
    memory: int = 10,
    start: BatchFunction | None = None,
) -> BatchFunction:
    r"""Minimise :math:`\frac1n\sum_i \ell(f(x_i), y_i) + \frac\nu2\|f\|^2` by L-BFGS.

    The loss must be smooth: at kinks the line searches fail. For the multi-class hinge take
    :class:`SmoothedHinge`, from wide to narrow, each from the solution for the last.

    Parameters
    ----------
    factor : KernelFactor
        Of the training rows.
    y : ndarray of shape (n_rows,)
        Targets.
    loss : Loss
        A smooth one.
    n_outputs : int
        Scores of a row.
    regularization : float
        :math:`\nu`.
    max_iterations : int, default=1000
        Most iterations.
    tolerance : float, default=1e-4
        The search ends where the largest entry of the gradient, in the coordinates of the factor,
        is this part of what it is for f = 0.
    memory : int, default=10
        Pairs of steps and gradients that make the curvature.
    start : BatchFunction or None, default=None
        Where to begin, a function found with the same factor; None is f = 0.

    Returns
    -------
    function : BatchFunction
        The minimiser.

    References
    ----------
    Nocedal (1980), Updating quasi-Newton matrices with limited storage: the solver of POLK,
    Tables 2 and 3.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Softmax
    >>> X = np.linspace(-1.0, 1.0, 60)[:, None]
    >>> y = (X[:, 0] > 0.3).astype(int)
    >>> factor = KernelFactor(X, Gaussian(0.5))
    >>> f = minimize_risk(factor, y, Softmax(), n_outputs=2, regularization=1e-3)
    >>> bool(np.mean(f.decision_function(X).argmax(axis=1) == y) > 0.95)
    True
    """
    check_integer("max_iterations", max_iterations, low=1)
    ridge = check_real("regularization", regularization, low=0.0)
    U, n = factor.rows, len(factor.rows)
    y = np.asarray(y, np.float64)

    def objective(flat: Array) -> tuple[float, Array]:
        b = flat.reshape(factor.rank, n_outputs)
        scores = np.asarray(U @ b.astype(U.dtype, copy=False), np.float64)
        values, slopes = loss.value_and_derivative(y, scores if n_outputs > 1 else scores[:, 0])
        pull = U.T @ (slopes.reshape(n, n_outputs) / n).astype(U.dtype, copy=False)
        return float(values.mean() + 0.5 * ridge * (flat @ flat)), (pull + ridge * b).ravel()

    b = np.zeros(factor.rank * n_outputs)
    flat_enough = tolerance * float(np.abs(objective(b)[1]).max())
    if start is not None and start.coordinates is not None:
        b = start.coordinates.ravel()
    options = {
        "maxiter": max_iterations,
        "maxfun": 2 * max_iterations,
        "maxcor": memory,
        "gtol": flat_enough,
        "ftol": 0.0,
    }
    found = minimize(objective, b, jac=True, method="L-BFGS-B", options=options)
    function = factor.function(found.x.reshape(factor.rank, n_outputs))
    return replace(function, n_iterations=int(found.nit), converged=bool(found.status == 0))
