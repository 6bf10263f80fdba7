"""Slow and obvious second-order learning on a fixed dictionary, in dense algebra."""

import numpy as np
from scipy.optimize import minimize

__all__ = [
    "exponential_weights",
    "least_objective",
    "logistic_newton",
    "objective_of",
    "recursive_least_squares",
    "ridge_on_dictionary",
    "softmax_newton",
]


def ridge_on_dictionary(K, K_DD, Y, weights, ridge, jitter=0.0):
    """Coefficients of sum_i w_i |K_i c - y_i|^2 / sum_i w_i + ridge c'K_DD c, by least squares.

    A jitter is added to the diagonal of the normal equations, in means of that diagonal.
    """
    root = np.sqrt(weights / weights.sum())[:, None]
    eigenvalues, vectors = np.linalg.eigh(K_DD)
    added = jitter * (np.sum((root * K) ** 2) + ridge * np.trace(K_DD)) / len(K_DD)
    half = np.sqrt(ridge * np.maximum(eigenvalues, 0.0) + added)[:, None] * vectors.T
    stacked = np.vstack([root * K, half])
    targets = np.vstack([root * Y, np.zeros((len(half), Y.shape[1]))])
    return np.linalg.lstsq(stacked, targets, rcond=None)[0]


def exponential_weights(n, forgetting):
    """Weights of n rows, the last of which counts 1."""
    return forgetting ** np.arange(n - 1, -1, -1.0)


def recursive_least_squares(K, y, start, forgetting=1.0):
    """Minimise sum_i forgetting^(n-1-i) (K_i c - y_i)^2 + forgetting^n c' start c, row by row."""
    inverse, c = np.linalg.inv(start), np.zeros(K.shape[1])
    for z, target in zip(K, y, strict=True):
        gain = inverse @ z / (forgetting + z @ inverse @ z)
        c = c + gain * (target - z @ c)
        inverse = (inverse - np.outer(gain, z @ inverse)) / forgetting
    return c


def logistic_newton(K, K_DD, y, ridge, n_steps=50):
    """Minimise mean log(1 + exp(-y Kc)) + ridge / 2 c'K_DD c by Newton's method."""
    c = np.zeros(K.shape[1])
    for _ in range(n_steps):
        p = 1.0 / (1.0 + np.exp(y * (K @ c)))
        gradient = K.T @ (-y * p) / len(y) + ridge * K_DD @ c
        hessian = (K * (p * (1.0 - p))[:, None]).T @ K / len(y) + ridge * K_DD
        c = c - np.linalg.solve(hessian, gradient)
    return c[:, None]


def softmax_newton(K, K_DD, classes, n_classes, ridge, n_steps=50):
    """Minimise the mean of softmax's loss + ridge / 2 tr C'K_DD C by Newton's method."""
    n, M = K.shape
    C, one_hot = np.zeros((M, n_classes)), np.eye(n_classes)[classes]
    for _ in range(n_steps):
        scores = K @ C
        P = np.exp(scores - scores.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        gradient = K.T @ (P - one_hot) / n + ridge * K_DD @ C
        hessian = np.zeros((M, n_classes, M, n_classes))
        for a in range(n_classes):
            for b in range(n_classes):
                weights = P[:, a] * ((a == b) - P[:, b])
                hessian[:, a, :, b] = (K * weights[:, None]).T @ K / n + (a == b) * ridge * K_DD
        step = np.linalg.solve(hessian.reshape(M * n_classes, -1), gradient.ravel())
        C = C - step.reshape(M, n_classes)
    return C


def objective_of(loss, targets, K, K_DD, ridge, C):
    """Mean loss of KC + ridge / 2 tr C'K_DD C, and its derivative in C."""
    values, slopes = loss.value_and_derivative(targets, K @ C)
    value = values.mean() + 0.5 * ridge * np.sum(C * (K_DD @ C))
    return value, K.T @ slopes / len(K) + ridge * K_DD @ C


def least_objective(loss, targets, K, K_DD, ridge, n_outputs):
    """Lowest value that a general optimiser finds, in coordinates that make the ridge round."""
    lower = np.linalg.cholesky(K_DD)

    def at(u):
        C = np.linalg.solve(lower.T, u.reshape(-1, n_outputs))
        value, slopes = objective_of(loss, targets, K, K_DD, ridge, C)
        return value, np.linalg.solve(lower, slopes).ravel()

    start = np.zeros(len(K_DD) * n_outputs)
    return minimize(at, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).fun
