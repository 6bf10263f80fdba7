r"""Linear one-pass learners of the AUC with the square loss: OPAUC and SOLAM.

Both minimise :math:`E[(1 - w^T(x_+ - x_-))^2]` over independent rows of the two classes without
keeping any row. OPAUC keeps the mean and the covariance of each class, :math:`O(d^2)` a row; SOLAM
writes the same objective as a saddle point whose gradient is that of one row, :math:`O(d)`.

Rows are visited in the order in which they are given, again and again.

References: Gao, Jin, Zhu, Zhou (2013), One-pass AUC optimization; Ying, Wen, Lyu (2016), Stochastic
online AUC maximization.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DivergenceError
from mercer.jit import jit
from mercer.validation import check_integer, check_real
from mercer_reproduction.baselines._base import Array, Floats, Solver

Counts = NDArray[np.int64]


@jit(
    "void(float64[:, ::1], int64[::1], float64[::1], int64[::1], float64[:, ::1], "
    "float64[:, :, ::1], float64, float64)",
)
def _opauc_rows(
    X: Array,
    classes: Counts,
    w: Array,
    counts: Counts,
    means: Array,
    covariances: Array,
    step: float,
    ridge: float,
) -> None:  # pragma: no cover - compiled
    """One step for each row; ``classes`` are 0 (negative) and 1."""
    d = w.size
    before, gradient = np.empty(d), np.empty(d)
    for t in range(classes.size):
        own = classes[t]
        counts[own] += 1
        for i in range(d):
            before[i] = X[t, i] - means[own, i]
            means[own, i] += before[i] / counts[own]
        for i in range(d):
            for j in range(d):
                product = before[i] * (X[t, j] - means[own, j])
                covariances[own, i, j] += (product - covariances[own, i, j]) / counts[own]
        other = 1 - own
        if counts[other] == 0:
            continue
        margin = 0.0
        for i in range(d):
            margin += w[i] * (X[t, i] - means[other, i])
        slope = margin - (1.0 if own == 1 else -1.0)
        for i in range(d):
            gradient[i] = ridge * w[i] + slope * (X[t, i] - means[other, i])
            for j in range(d):
                gradient[i] += covariances[other, i, j] * w[j]
        for i in range(d):
            w[i] -= step * gradient[i]


@jit(
    "void(float64[:, ::1], int64[::1], float64[::1], float64[::1], float64[::1], int64[::1], "
    "float64, float64, float64)",
)
def _solam_rows(
    X: Array,
    classes: Counts,
    w: Array,
    average: Array,
    saddle: Array,
    counts: Counts,
    step: float,
    radius: float,
    reach: float,
) -> None:  # pragma: no cover - compiled
    """One step for each row; ``saddle`` is a, b, alpha and the sum of the step sizes so far."""
    d = w.size
    for t in range(classes.size):
        own = classes[t]
        counts[own] += 1
        n = counts[0] + counts[1]
        p, gamma = counts[1] / n, step / np.sqrt(n)
        a, b, alpha = saddle[0], saddle[1], saddle[2]
        saddle[3] += gamma
        score = 0.0
        for i in range(d):
            score += w[i] * X[t, i]
        if own == 1:
            slope = 2.0 * (1.0 - p) * (score - a - 1.0 - alpha)
            saddle[0] = a + gamma * 2.0 * (1.0 - p) * (score - a)
            ascent = -2.0 * (1.0 - p) * score
        else:
            slope = 2.0 * p * (score - b + 1.0 + alpha)
            saddle[1] = b + gamma * 2.0 * p * (score - b)
            ascent = 2.0 * p * score
        saddle[2] = alpha + gamma * (ascent - 2.0 * p * (1.0 - p) * alpha)
        square = 0.0
        for i in range(d):
            average[i] += (w[i] - average[i]) * gamma / saddle[3]
            w[i] -= gamma * slope * X[t, i]
            square += w[i] * w[i]
        if square > radius * radius:
            shrink = radius / np.sqrt(square)
            for i in range(d):
                w[i] *= shrink
        saddle[0] = min(max(saddle[0], -reach), reach)
        saddle[1] = min(max(saddle[1], -reach), reach)
        saddle[2] = min(max(saddle[2], -2.0 * reach), 2.0 * reach)


class _LinearAUC(Solver):
    """A linear score, learned row by row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    batch_size : int
        Rows of a call of :meth:`step`; does not change what is learned.
    """

    def __init__(self, X: Floats, y: Array, batch_size: int) -> None:
        check_integer("batch_size", batch_size, low=1)
        self._X = np.ascontiguousarray(X, dtype=np.float64)
        self._classes = (np.asarray(y) > 0).astype(np.int64)
        self._batch_size, self._next = batch_size, 0
        self._counts = np.zeros(2, np.int64)
        self._w = np.zeros(self._X.shape[1])

    @abstractmethod
    def _visit(self, X: Array, classes: Counts) -> None:
        """Do one step for each row."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Weights of the inputs that scores are made with, shape (n_inputs,)."""

    def step(self) -> int:
        """See :class:`Solver`.

        Raises
        ------
        DivergenceError
            If the weights are no longer finite.
        """
        rows = slice(self._next, min(self._next + self._batch_size, len(self._X)))
        self._next = rows.stop % len(self._X)
        self._visit(self._X[rows], self._classes[rows])
        if not np.isfinite(self._w).all():
            raise DivergenceError(
                f"The weights are no longer finite after {self._counts.sum()} rows. Use smaller "
                "steps."
            )
        return rows.stop - rows.start

    def decision_function(self, X: Floats) -> Array:
        return np.asarray(X @ self.weights, dtype=np.float64)


class OPAUC(_LinearAUC):
    r"""One-pass AUC optimisation with the mean and the covariance of each class.

    With the mean *c* and the covariance *S* of the rows of the other class so far, a row of class
    :math:`y = \pm 1` moves the weights by

    .. math:: w \leftarrow w - \eta\,[\lambda w - y (x - c) + ((x - c)(x - c)^T + S)\, w].

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    step_size : float
        :math:`\eta`, in units of 1 / (squared inputs).
    regularization : float, default=0
        :math:`\lambda`.
    batch_size : int, default=256
        Rows of a call of :meth:`step`; does not change what is learned.

    References
    ----------
    Gao, Jin, Zhu, Zhou (2013), One-pass AUC optimization, Algorithm 1.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [0.2], [0.9]])
    >>> solver = OPAUC(X, np.array([-1, 1, -1, 1]), step_size=0.5)
    >>> solver.step()
    4
    >>> solver.decision_function(X).round(2)
    array([0.  , 0.9 , 0.18, 0.81])
    """

    def __init__(
        self,
        X: Floats,
        y: Array,
        *,
        step_size: float,
        regularization: float = 0.0,
        batch_size: int = 256,
    ) -> None:
        super().__init__(X, y, batch_size)
        self._step_size = check_real("step_size", step_size, low=0.0, open_low=True)
        self._ridge = check_real("regularization", regularization, low=0.0)
        d = self._w.size
        self._means, self._covariances = np.zeros((2, d)), np.zeros((2, d, d))

    @property
    def weights(self) -> Array:
        """Weights of the inputs, shape (n_inputs,)."""
        return self._w.copy()

    def _visit(self, X: Array, classes: Counts) -> None:
        statistics = self._counts, self._means, self._covariances
        _opauc_rows(X, classes, self._w, *statistics, self._step_size, self._ridge)


class SOLAM(_LinearAUC):
    r"""Stochastic online AUC maximisation: a saddle point whose gradients need one row.

    With the share *p* of positives so far, the saddle function of a row is

    .. math::

        F = (1 - p)(w^T x - a)^2 1_{y=1} + p\,(w^T x - b)^2 1_{y=-1}
            + 2 (1 + \alpha)\, w^T x\, (p\,1_{y=-1} - (1 - p) 1_{y=1}) - p (1 - p)\,\alpha^2,

    descended in *w*, *a*, *b* and ascended in :math:`\alpha` with steps :math:`\zeta / \sqrt t`,
    within :math:`\|w\| \le R`. Scores are with the mean of the iterates, weighted by the steps.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows; their largest norm bounds *a*, *b* and :math:`\alpha`.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    step_size : float
        :math:`\zeta`.
    radius : float
        *R*, in units of 1 / inputs.
    batch_size : int, default=256
        Rows of a call of :meth:`step`; does not change what is learned.

    References
    ----------
    Ying, Wen, Lyu (2016), Stochastic online AUC maximization, Algorithm 1.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [0.2], [0.9]])
    >>> solver = SOLAM(X, np.array([-1, 1, -1, 1]), step_size=0.5, radius=1.0)
    >>> visited = solver.step()
    >>> bool((np.diff(solver.decision_function(X)[[0, 2, 3, 1]]) > 0.0).all())
    True
    """

    def __init__(
        self, X: Floats, y: Array, *, step_size: float, radius: float, batch_size: int = 256
    ) -> None:
        super().__init__(X, y, batch_size)
        self._step_size = check_real("step_size", step_size, low=0.0, open_low=True)
        self._radius = check_real("radius", radius, low=0.0, open_low=True)
        self._reach = self._radius * float(np.sqrt(np.max(np.sum(self._X**2, axis=1))))
        self._saddle, self._average = np.zeros(4), np.zeros(self._w.size)

    @property
    def weights(self) -> Array:
        """Weighted mean of the weights before each step, shape (n_inputs,)."""
        return self._average.copy()

    def _visit(self, X: Array, classes: Counts) -> None:
        state = self._w, self._average, self._saddle, self._counts
        _solam_rows(X, classes, *state, self._step_size, self._radius, self._reach)
