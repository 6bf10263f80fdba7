r"""Nonparametric budgeted stochastic gradient descent (NPBSGD).

Functional SGD whose dictionary is kept small by projecting a removed point on its neighbours, for
sure or, in the published scheme, with a probability that falls along the stream.
:class:`mercer.expansions.Budget` has the three strategies of BSGD.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.schedules import as_schedule
from mercer.validation import check_integer, check_real
from mercer_reproduction.baselines._base import Array, Floats, Solver

# Rows whose kernel values are computed together, by one product of matrices.
_TILE = 256


class NPBSGD(Solver):
    r"""Functional SGD on a budget; what is removed goes to its neighbours.

    A step is :math:`f \leftarrow (1 - \gamma_t\nu) f - \gamma_t\, g\, k(x, \cdot)` with the slopes
    *g* of the loss at *f(x)*; a row without slope only shrinks. With one point too many, the point
    *j* whose term :math:`w_j k(d_j, \cdot)` has the smallest norm is removed, and the coefficients
    of its nearest neighbours *N* (in the RKHS, the new point included) change by

    .. math:: w_N \leftarrow w_N + (K_{NN} + \rho I)^{-1} k_N(d_j)\, w_j^\top.

    The published scheme does so with probability :math:`\min(1, T_0 / t)` only, and else lets the
    budget grow by one point: it is kept for the first :math:`T_0` rows (``certain``; :math:`\beta
    T` there, with T the length of the stream) and then grows.

    Rows are visited in the order in which they are given, again and again.

    This differs from the authors' program in two ways: a removed point is projected on its nearest
    neighbours, where theirs takes the first points that are stored; and the slopes are the slopes
    of the loss.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows. Rows of float32 are stored and compared in float32.
    y : ndarray of shape (n_rows,)
        Targets, labels -1 and +1, or class numbers.
    kernel : Kernel
        With its numbers resolved.
    loss : Loss
        A regression or a margin loss, or a multi-class one.
    step_size : float or callable
        :math:`\gamma`, or a schedule of the row number 1, 2, ...; the published one is
        ``PowerDecay(1 / regularization, 1.0)``, that of Pegasos.
    regularization : float
        :math:`\nu`.
    size : int
        Largest model order, as long as removals are certain.
    n_neighbours : int, default=5
        Points that a removed one is projected on; ``size`` makes it BSGD with projection.
    ridge : float, default=1e-6
        :math:`\rho`, in units of the kernel.
    n_outputs : int, default=1
        Scores of a row: the number of classes for a multi-class loss.
    certain : float or None, default=None
        :math:`T_0`, a number of rows. None never lets the budget grow.
    seed : int, default=0
        Of the rows at which the budget grows.

    References
    ----------
    Le, Nguyen, Nguyen, Phung (2016), Nonparametric budgeted stochastic gradient descent: reference
    [59] of COLK; Wang, Crammer, Vucetic (2012), Breaking the curse of kernelization, Section 4.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> solver = NPBSGD(
    ...     X, X[:, 0], Gaussian(0.1), Squared(), step_size=0.5, regularization=0.0, size=8
    ... )
    >>> visited = sum(solver.step() for _ in range(40))
    >>> visited, solver.model_order
    (40, 8)
    """

    def __init__(
        self,
        X: Floats,
        y: Any,
        kernel: Kernel,
        loss: Loss,
        *,
        step_size: Any,
        regularization: float,
        size: int,
        n_neighbours: int = 5,
        ridge: float = 1e-6,
        n_outputs: int = 1,
        certain: float | None = None,
        seed: int = 0,
    ) -> None:
        check_integer("size", size, low=1)
        check_integer("n_neighbours", n_neighbours, low=1)
        check_integer("n_outputs", n_outputs, low=1)
        dtype: Any = np.float32 if np.asarray(X).dtype == np.float32 else np.float64
        self._X: Floats = np.ascontiguousarray(X, dtype)
        self._y = np.asarray(y, np.float64)
        self._kernel, self._loss = kernel, loss
        if not callable(step_size):
            check_real("step_size", step_size, low=0.0, open_low=True)
        self._step_size = as_schedule(step_size)
        self._regularization = check_real("regularization", regularization, low=0.0)
        self._ridge = check_real("ridge", ridge, low=0.0)
        self._budget, self._n_neighbours, self._n_outputs = size, n_neighbours, n_outputs
        self._certain = np.inf if certain is None else check_real("certain", certain, low=0.0)
        self._rng = np.random.default_rng(seed)
        self._diagonal = np.asarray(kernel.diag(self._X), np.float64)
        self._t = 0
        self.model_order = 0
        self._dictionary: Floats = self._X[:0]
        self._coefficients, self._gram = np.zeros((0, n_outputs)), np.zeros((0, 0))
        self._values = np.zeros((_TILE, 0))
        self._allocate(size + 1)  # with a slot more than the budget, for the newcomer
        self._tile = self._X[:0]

    def _allocate(self, capacity: int) -> None:
        """Make room for so many points and keep those there are."""
        m = self.model_order
        dictionary = np.empty((capacity, self._X.shape[1]), self._X.dtype)
        coefficients, gram = np.zeros((capacity, self._n_outputs)), np.empty((capacity, capacity))
        values = np.empty((_TILE, capacity))
        dictionary[:m], coefficients[:m] = self._dictionary[:m], self._coefficients[:m]
        gram[:m, :m], values[:, :m] = self._gram[:m, :m], self._values[:, :m]
        self._dictionary, self._coefficients = dictionary, coefficients
        self._gram, self._values = gram, values

    @property
    def dictionary(self) -> Floats:
        """Points of the expansion, shape (model_order, n_inputs)."""
        return self._dictionary[: self.model_order].copy()

    @property
    def coefficients(self) -> Array:
        """Their weights, shape (model_order,), or (model_order, n_outputs) for several outputs."""
        return self._as_scores(self._coefficients[: self.model_order].copy())

    def step(self) -> int:
        """See :class:`Solver`.

        Raises
        ------
        DivergenceError
            If coefficients are no longer finite.
        """
        row = self._t % len(self._y)
        into = row % _TILE
        if into == 0:
            self._look_ahead(row)
        self._t += 1
        gamma, m = float(self._step_size(self._t)), self.model_order
        values = self._values[into, :m]
        with np.errstate(over="ignore", invalid="ignore"):  # reported here, once
            scores = values @ self._coefficients[:m]
            finite = bool(np.isfinite((gamma * scores) ** 2).all())
        if not finite:  # terms are compared by their squares
            raise DivergenceError(
                f"The function is no longer finite after {self._t - 1} steps of size "
                f"{gamma:g}. Use smaller ones."
            )
        slopes = self._loss.derivative(self._y[row : row + 1], self._as_scores(scores[np.newaxis]))
        self._coefficients[:m] *= 1.0 - gamma * self._regularization
        if slopes.any():
            self._append(row, -gamma * slopes.reshape(-1))
        return 1

    def _look_ahead(self, first: int) -> None:
        """Compute kernel values of a tile of rows, with the dictionary and with each other."""
        self._tile = self._X[first : first + _TILE]
        m, n = self.model_order, len(self._tile)
        if m:
            self._values[:n, :m] = self._kernel(self._tile, self._dictionary[:m])
        self._among = np.asarray(self._kernel(self._tile, self._tile), np.float64)

    def _append(self, row: int, coefficients: Array) -> None:
        m, into = self.model_order, row % _TILE
        if m == len(self._dictionary):
            self._allocate(2 * m)
        self._dictionary[m], self._coefficients[m] = self._X[row], coefficients
        self._gram[m, :m] = self._gram[:m, m] = self._values[into, :m]
        self._gram[m, m] = self._diagonal[row]
        self._values[: len(self._tile), m] = self._among[:, into]
        self.model_order = m + 1
        if self.model_order <= self._budget:
            return
        if self._t <= self._certain or self._rng.random() * self._t < self._certain:
            self._remove_smallest()
        else:
            self._budget += 1

    def _remove_smallest(self) -> None:
        w, K, m = self._coefficients, self._gram, self.model_order
        diagonal = np.diag(K)[:m]
        j = int(np.argmin(np.einsum("ij,ij->i", w[:m], w[:m]) * diagonal))
        near = self._nearest(j)
        system = K[np.ix_(near, near)] + self._ridge * np.eye(near.size)
        w[near] += np.outer(np.linalg.solve(system, K[near, j]), w[j])
        last = m - 1
        self._dictionary[j], w[j] = self._dictionary[last], w[last]
        self._values[:, j] = self._values[:, last]
        K[j, :m], K[:m, j] = K[last, :m].copy(), K[:m, last].copy()
        K[j, j] = K[last, last]
        self.model_order = last

    def _nearest(self, j: int) -> NDArray[np.intp]:
        """Find the points nearest to a point, itself left out."""
        m = self.model_order
        distances = np.diag(self._gram)[:m] - 2.0 * self._gram[j, :m]
        distances[j] = np.inf
        return np.argsort(distances, kind="stable")[: min(self._n_neighbours, m - 1)]

    def decision_function(self, X: Floats) -> Array:
        """See :class:`Solver`; of shape (n_rows, n_outputs) for several outputs."""
        m = self.model_order
        if m == 0:
            return self._as_scores(np.zeros((len(X), self._n_outputs)))
        return self._as_scores(self._kernel(X, self._dictionary[:m]) @ self._coefficients[:m])

    def _as_scores(self, columns: Array) -> Array:
        return columns[:, 0] if self._n_outputs == 1 else columns
