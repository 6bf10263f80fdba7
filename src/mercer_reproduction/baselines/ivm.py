r"""The import vector machine: kernel logistic regression on a few rows, chosen one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp, softmax

from mercer.kernels import Kernel
from mercer.validation import check_integer, check_real
from mercer_reproduction.baselines._base import Array, Floats
from mercer_reproduction.baselines.lbfgs import BatchFunction

_MOST_NEWTON_STEPS = 100
# Newton's decrement squared at which a fit is finished, in units of the objective.
_FINISHED = 1e-12
# Parts of a kernel function outside the span below which a row brings nothing new.
_NEW = 1e-9


@dataclass(frozen=True)
class ImportVectors:
    """What the selection came to.

    Attributes
    ----------
    function : BatchFunction
        The function on the rows that were chosen.
    chosen : ndarray of shape (model_order,)
        Numbers of the rows, in the order in which they were chosen.
    objectives : ndarray of shape (model_order + 1,)
        Objective after each choice, that of f = 0 first.
    """

    function: BatchFunction
    chosen: NDArray[np.intp]
    objectives: Array


def import_vectors(
    X: Floats,
    y: Any,
    kernel: Kernel,
    *,
    n_classes: int,
    regularization: float,
    tolerance: float = 1e-3,
    max_size: int | None = None,
) -> ImportVectors:
    r"""Fit multinomial logistic regression on rows that are chosen greedily.

    The objective is :math:`H = \frac1n\sum_i \ell(f(x_i), y_i) + \frac\nu2\|f\|^2` with the softmax
    loss. From no points on, the row is added to the set S whose kernel function promises the
    largest decrease of H by one Newton step in all coefficients; then all are fitted anew, by
    Newton's method to convergence. It ends when a choice lowers H by less than ``tolerance``
    times H, and that choice is not kept.

    Every promise costs no more than a product of matrices: as S is fitted, H has no slope in its
    coefficients, and a step in the new one gains :math:`\sum_c g_c^2 / 2 s_c` with the slope g and
    the Schur complement s of its curvature. This differs from Zhu and Hastie in: curvatures of
    two classes are not mixed in the promises (they are in the fits); they refit by one step where
    we refit to convergence.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows.
    y : ndarray of shape (n_rows,)
        Class numbers from 0.
    kernel : Kernel
        With its numbers resolved.
    n_classes : int
        Number of classes.
    regularization : float
        :math:`\nu`.
    tolerance : float, default=1e-3
        See above; the paper's number. With 0 it goes on until no row brings anything new.
    max_size : int or None, default=None
        Most points.

    Returns
    -------
    result : ImportVectors

    References
    ----------
    Zhu and Hastie (2005), Kernel logistic regression and the import vector machine, Sections 4
    and 6: reference of POLK, Table 2.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> X = np.linspace(-1.0, 1.0, 100)[:, None]
    >>> y = (np.abs(X[:, 0]) < 0.4).astype(int)
    >>> result = import_vectors(X, y, Gaussian(0.4), n_classes=2, regularization=1e-3)
    >>> bool(np.mean(result.function.decision_function(X).argmax(axis=1) == y) > 0.95)
    True
    >>> result.function.model_order < 20
    True
    """
    check_integer("n_classes", n_classes, low=2)
    check_real("tolerance", tolerance, low=0.0)
    nu = check_real("regularization", regularization, low=0.0, open_low=True)
    limit = len(X) if max_size is None else check_integer("max_size", max_size, low=1)
    K = np.asarray(kernel(X, X), np.float64)
    model = _Fit(K, np.asarray(y, np.intp), n_classes, nu)
    objectives = [model.objective(model.coefficients)]
    while len(model.chosen) < min(limit, len(X)):
        gains = model.promises()
        row = int(np.argmax(gains))
        if gains[row] <= 0.0:
            break
        before = model.coefficients
        model.add(row)
        reached = model.objective(model.coefficients)
        if objectives[-1] - reached < tolerance * reached:
            model.drop_last(before)
            break
        objectives.append(reached)
    chosen = np.array(model.chosen, np.intp)
    function = BatchFunction(kernel, X[chosen], model.coefficients, len(chosen))
    return ImportVectors(function, chosen, np.array(objectives))


class _Fit:
    """Coefficients of the chosen rows, shape (model_order, n_classes), and what they promise."""

    def __init__(self, K: Array, y: NDArray[np.intp], n_classes: int, nu: float) -> None:
        self.K, self._y, self._nu = K, y, nu
        self._wanted = np.eye(n_classes)[y]
        self._squared = K**2
        self.chosen: list[int] = []
        self.coefficients = np.zeros((0, n_classes))

    def _scores(self, coefficients: Array) -> Array:
        scores: Array = self.K[:, self.chosen] @ coefficients
        return scores

    def objective(self, coefficients: Array) -> float:
        """H."""
        scores = self._scores(coefficients)
        losses = logsumexp(scores, axis=1) - scores[np.arange(len(scores)), self._y]
        gram = self.K[np.ix_(self.chosen, self.chosen)]
        penalty = 0.5 * self._nu * float(np.sum(coefficients * (gram @ coefficients)))
        return float(losses.mean()) + penalty

    def promises(self) -> Array:
        """Decrease of H that each row promises; 0 for those that bring nothing new."""
        K, S, n = self.K, self.chosen, len(self.K)
        p = softmax(self._scores(self.coefficients), axis=1)
        slopes = K.T @ (p - self._wanted) / n + self._nu * (K[:, S] @ self.coefficients)
        weights = p * (1.0 - p) / n
        own = self._squared @ weights + self._nu * np.diag(K)[:, np.newaxis]
        gains = np.zeros(n)
        for c in range(p.shape[1]):
            remaining = own[:, c]
            if S:
                weighted = K[:, S] * weights[:, c : c + 1]
                cross = weighted.T @ K + self._nu * K[S]
                block = weighted.T @ K[:, S] + self._nu * K[np.ix_(S, S)]
                remaining = remaining - np.einsum("ij,ij->j", cross, _solve(block, cross))
            new = remaining > _NEW * own[:, c]
            gains[new] += 0.5 * slopes[new, c] ** 2 / remaining[new]
        gains[S] = 0.0
        return gains

    def add(self, row: int) -> None:
        """Take a row into the set and fit all coefficients."""
        self.chosen.append(row)
        self.coefficients = np.vstack([self.coefficients, np.zeros(self._wanted.shape[1])])
        self._newton()

    def drop_last(self, coefficients: Array) -> None:
        """Take the last choice back."""
        self.chosen.pop()
        self.coefficients = coefficients

    def _newton(self) -> None:
        K_S, n, C = self.K[:, self.chosen], len(self.K), self._wanted.shape[1]
        gram = self.K[np.ix_(self.chosen, self.chosen)]
        m = len(gram)
        value = self.objective(self.coefficients)
        for _ in range(_MOST_NEWTON_STEPS):
            p = softmax(self._scores(self.coefficients), axis=1)
            slope = K_S.T @ (p - self._wanted) / n + self._nu * (gram @ self.coefficients)
            hessian = np.zeros((C, m, C, m))
            for a in range(C):
                for b in range(a + 1):
                    curvature = p[:, a] * ((a == b) - p[:, b]) / n
                    block = (K_S * curvature[:, np.newaxis]).T @ K_S
                    hessian[a, :, b] = hessian[b, :, a] = block + (a == b) * self._nu * gram
            flat = slope.T.ravel()
            move = _solve(hessian.reshape(C * m, C * m), flat)
            decrement = float(flat @ move)
            if decrement <= _FINISHED * max(value, 1.0):
                return
            direction, size = move.reshape(C, m).T, 1.0
            while size > 1e-10:
                moved = self.coefficients - size * direction
                reached = self.objective(moved)
                if reached <= value - 1e-4 * size * decrement:
                    break
                size *= 0.5
            else:
                return  # rounding, not the function, decides from here on
            self.coefficients, value = moved, reached


def _solve(matrix: Array, right: Array) -> Array:
    """Solve with a positive matrix; a little is added where rounding takes that away."""
    scale = float(np.trace(matrix)) / len(matrix)
    for jitter in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            factor = cho_factor(matrix + jitter * scale * np.eye(len(matrix)), lower=True)
        except np.linalg.LinAlgError:
            continue
        return np.asarray(cho_solve(factor, right))
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])
