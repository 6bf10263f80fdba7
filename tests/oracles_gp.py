"""Gaussian processes in closed form, and the paper's updates one coefficient at a time."""

from __future__ import annotations

import numpy as np


def posterior(K, K_test, k_test, y, noise):
    """DSG, eq. (9): mean, covariance of f at the test points; ``noise`` a number or one per row.

    ``K`` between the rows (n, n), ``K_test`` of test points with rows (q, n), ``k_test`` between
    test points (q, q).
    """
    inverse = np.linalg.inv(K + noise * np.eye(len(K)))
    return K_test @ inverse @ y, k_test - K_test @ inverse @ K_test.T


def log_marginal_likelihood(K, y, noise):
    """log N(y | 0, K + noise I), the columns of ``y`` being independent."""
    C = K + noise * np.eye(len(K))
    y = y.reshape(len(K), -1)
    quadratic = np.trace(y.T @ np.linalg.inv(C) @ y)
    _, log_det = np.linalg.slogdet(2.0 * np.pi * C)
    return -0.5 * quadratic - 0.5 * y.shape[1] * log_det


def ridge_descent(features, y, batches, step_sizes, regularization):
    """DSG, Algorithm 1 for the square loss, left-looking: coefficients of every iterate.

    ``features[t]`` are block t on all rows (n, m); returns a list over iterates of arrays (t, m).
    """
    alphas, iterates = [], []
    for t, (rows, gamma) in enumerate(zip(batches, step_sizes, strict=True)):
        f = sum((features[i][rows] @ alphas[i] for i in range(t)), np.zeros(len(rows)))
        new = -gamma * features[t][rows].T @ (f - y[rows]) / len(rows)
        alphas = [(1.0 - gamma * regularization) * a for a in alphas] + [new]
        iterates.append(np.array(alphas))
    return iterates


def operator_descent(left, right, rows, step_sizes, regularization):
    """Scalar update of DSG, Section 4, route 1: one row and one feature a side in each step.

    ``left[i]`` and ``right[j]`` are φ_i and φ'_j on all rows (n,); returns the θ of every iterate.
    """
    theta, iterates = {}, []
    for t, (x, gamma) in enumerate(zip(rows, step_sizes, strict=True)):
        new = {}
        for i in range(t):
            explained = sum(theta[i, j] * right[j][x] for j in range(i, t))
            new[i, t] = -gamma * explained * right[t][x]
        new[t, t] = gamma * left[t][x] * right[t][x]
        theta = {ij: (1.0 - gamma * regularization) * v for ij, v in theta.items()} | new
        matrix = np.zeros((len(rows), len(rows)))
        for (i, j), value in theta.items():
            matrix[i, j] = value
        iterates.append(matrix)
    return iterates


def projected(K_DD, K_XD, K_TD, K_TT, y, noise):
    """Posterior on inducing points D, in dense matrices of all rows.

    The likelihood sees Q = K_XD K_DD⁻¹ K_DX only (Quiñonero-Candela and Rasmussen, 2005, DTC);
    ``noise`` a number or one per row. Returns mean and covariance of f at the test points.
    """
    inverse = np.linalg.inv(K_DD)
    Q, Q_TX = K_XD @ inverse @ K_XD.T, K_TD @ inverse @ K_XD.T
    solved = np.linalg.inv(Q + noise * np.eye(len(Q)))
    return Q_TX @ solved @ y, K_TT - Q_TX @ solved @ Q_TX.T


def variational_bound(K_DD, K_XD, k_XX, y, noise):
    """Titsias' lower bound of the log marginal likelihood; ``k_XX`` are the values k(x, x)."""
    Q = K_XD @ np.linalg.inv(K_DD) @ K_XD.T
    n_targets = y.reshape(len(Q), -1).shape[1]
    lost = np.sum((k_XX - np.diag(Q)) / noise)
    return log_marginal_likelihood(Q, y, noise) - 0.5 * n_targets * lost
