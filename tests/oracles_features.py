"""Doubly stochastic gradients on stored features: dense algebra, everything recomputed."""

import numpy as np


def features_of_blocks(kernel, X, n_blocks, block_size, seed, options):
    """All features of all blocks, one block of columns after the other."""
    feature_map = kernel._feature_map(X.shape[1], options, 0)
    prepared = feature_map.prepare(np.ascontiguousarray(X))
    blocks = []
    for block in range(n_blocks):
        Z = np.empty((len(X), block_size), X.dtype)
        feature_map.transform(prepared, feature_map.draw(seed, block, block_size, X.dtype), Z)
        blocks.append(Z)
    return blocks


def faithful(blocks, batches, slopes_at, step_sizes, regularization):
    """DSG, Algorithm 1, on stored features; returns the iterates as lists of coefficients."""
    coefficients, iterates = [], []
    ridges = np.broadcast_to(regularization, len(batches))
    for t, rows in enumerate(batches):
        F = sum((Z[rows] @ a for Z, a in zip(blocks, coefficients, strict=False)), 0.0)
        G = slopes_at(rows, F) / len(rows)
        gamma = step_sizes[t]
        coefficients = [(1.0 - gamma * ridges[t]) * a for a in coefficients]
        coefficients.append(-gamma * blocks[t][rows].T @ G)
        iterates.append(list(coefficients))
    return iterates


def newton(blocks, batches, slopes_at, step_sizes, regularization, ridge):
    """The same with the block's covariance as preconditioner."""
    coefficients = []
    for t, rows in enumerate(batches):
        F = sum((Z[rows] @ a for Z, a in zip(blocks, coefficients, strict=False)), 0.0)
        Z = blocks[t][rows]
        H = Z.T @ Z / len(rows) + ridge * np.eye(Z.shape[1])
        direction = np.linalg.solve(H, Z.T @ slopes_at(rows, F) / len(rows))
        gamma = step_sizes[t]
        coefficients = [(1.0 - gamma * regularization) * a for a in coefficients]
        coefficients.append(-gamma * direction)
    return coefficients


def ridge_solution(Z, Y, regularization):
    """Minimiser of mean ½ (Z b - y)² + regularization / 2 * n_blocks... for scaled features Z."""
    n = len(Z)
    return np.linalg.solve(Z.T @ Z / n + regularization * np.eye(Z.shape[1]), Z.T @ Y / n)
