r"""Budgeted stochastic gradient descent that projects a removed point on its neighbours.

The budget step is that of nonparametric budgeted SGD in kind, not its published scheme, which also
decides at random whether a row enters the dictionary. :class:`mercer.expansions.Budget` has the
three strategies of BSGD.
"""

from __future__ import annotations

import numpy as np

from mercer._validation import check_integer, check_real
from mercer.exceptions import DivergenceError
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.reproduce.baselines._base import Array, Floats, Solver

__all__ = ["NPBSGDLike"]


class NPBSGDLike(Solver):
    r"""Functional SGD with at most ``size`` points; what is removed goes to its neighbours.

    A step is :math:`f \leftarrow (1 - \gamma\nu) f - \gamma l' k(x, \cdot)`. With one point too
    many, the point *j* whose term :math:`w_j k(d_j, \cdot)` has the smallest norm is removed, and
    the coefficients of its nearest neighbours *N* (in the RKHS, the new point included) change by

    .. math:: w_N \leftarrow w_N + w_j (K_{NN} + \rho I)^{-1} k_N(d_j).

    Rows are visited in the order in which they are given, again and again.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    y : ndarray of shape (n_rows,)
        Targets, or labels -1 and +1.
    kernel : Kernel
        With its numbers resolved.
    loss : Loss
        A regression or a margin loss.
    step_size : float
        :math:`\gamma`.
    regularization : float
        :math:`\nu`.
    size : int
        Largest model order.
    n_neighbours : int, default=5
        Points that a removed one is projected on; ``size`` makes it BSGD with projection.
    ridge : float, default=1e-6
        :math:`\rho`, in units of the kernel.

    References
    ----------
    Le, Nguyen, Nguyen, Phung (2016), Nonparametric budgeted stochastic gradient descent: reference
    [59] of COLK; Wang, Crammer, Vucetic (2012), Breaking the curse of kernelization, Section 4.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> solver = NPBSGDLike(
    ...     X, X[:, 0], Gaussian(0.1), Squared(), step_size=0.5, regularization=0.0, size=8
    ... )
    >>> visited = sum(solver.step() for _ in range(40))
    >>> visited, solver.model_order
    (40, 8)
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        kernel: Kernel,
        loss: Loss,
        *,
        step_size: float,
        regularization: float,
        size: int,
        n_neighbours: int = 5,
        ridge: float = 1e-6,
    ) -> None:
        check_integer("size", size, low=1)
        check_integer("n_neighbours", n_neighbours, low=1)
        self._X, self._y = np.asarray(X, np.float64), np.asarray(y, np.float64)
        self._kernel, self._loss = kernel, loss
        self._step_size = check_real("step_size", step_size, low=0.0, open_low=True)
        self._shrink = 1.0 - self._step_size * check_real("regularization", regularization, low=0.0)
        self._ridge = check_real("ridge", ridge, low=0.0)
        self._budget, self._n_neighbours = size, n_neighbours
        self._diagonal = np.asarray(kernel.diag(self._X), np.float64)
        self._t = 0
        self.model_order = 0
        # One slot more than the budget, for the newcomer.
        self._dictionary = np.empty((size + 1, self._X.shape[1]))
        self._coefficients = np.zeros(size + 1)
        self._gram = np.empty((size + 1, size + 1))

    @property
    def dictionary(self) -> Array:
        """Points of the expansion, shape (model_order, n_inputs)."""
        return self._dictionary[: self.model_order].copy()

    @property
    def coefficients(self) -> Array:
        """Their weights, shape (model_order,)."""
        return self._coefficients[: self.model_order].copy()

    def step(self) -> int:
        """See :class:`Solver`.

        Raises
        ------
        DivergenceError
            If coefficients are no longer finite.
        """
        row = self._t % len(self._y)
        self._t += 1
        x, m = self._X[row : row + 1], self.model_order
        values = np.zeros(0) if m == 0 else self._kernel(x, self._dictionary[:m])[0]
        with np.errstate(over="ignore", invalid="ignore"):  # reported here, once
            score = values @ self._coefficients[:m]
            finite = np.isfinite(self._step_size**2 * score**2)
        if not finite:  # terms are compared by their squares
            raise DivergenceError(
                f"The function is no longer finite after {self._t - 1} steps of size "
                f"{self._step_size:g}. Use smaller ones."
            )
        slope = self._loss.derivative(self._y[row : row + 1], np.array([score]))[0]
        self._coefficients[:m] *= self._shrink
        self._dictionary[m], self._coefficients[m] = x[0], -self._step_size * slope
        self._gram[m, :m] = self._gram[:m, m] = values
        self._gram[m, m] = self._diagonal[row]
        self.model_order = m + 1
        if self.model_order > self._budget:
            self._remove_smallest()
        return 1

    def _remove_smallest(self) -> None:
        w, K, m = self._coefficients, self._gram, self.model_order
        norms = w[:m] ** 2 * np.diag(K)[:m]
        j = int(np.argmin(norms))
        distances = np.diag(K)[:m] - 2.0 * K[j, :m]
        distances[j] = np.inf
        near = np.argsort(distances, kind="stable")[: min(self._n_neighbours, m - 1)]
        system = K[np.ix_(near, near)] + self._ridge * np.eye(near.size)
        w[near] += w[j] * np.linalg.solve(system, K[near, j])
        last = m - 1
        self._dictionary[j], w[j] = self._dictionary[last], w[last]
        K[j, :m], K[:m, j] = K[last, :m].copy(), K[:m, last].copy()
        K[j, j] = K[last, last]
        self.model_order = last

    def decision_function(self, X: Floats) -> Array:
        """See :class:`Solver`."""
        m = self.model_order
        if m == 0:
            return np.zeros(len(X))
        scores: Array = self._kernel(X, self._dictionary[:m]) @ self._coefficients[:m]
        return scores
