"""Slow, obvious trees: every split of every leaf is tried."""

import numpy as np


def best_split(X, residuals, weights, min_weight):
    """Gain, column and threshold of the best split; None if there is none."""

    def score(some):
        w = weights[some]
        return np.sum((w @ residuals[some]) ** 2) / (w.sum() + 1.0)

    every = np.ones(len(X), dtype=bool)
    best = None
    for column in range(X.shape[1]):
        values = np.unique(X[:, column])
        for threshold in (values[1:] + values[:-1]) / 2.0:
            left = X[:, column] <= threshold
            if min(weights[left].sum(), weights[~left].sum()) < min_weight:
                continue
            gain = score(left) + score(~left) - score(every)
            if best is None or gain > best[0]:
                best = gain, column, threshold
    return best


def leaves_of_tree(X, residuals, weights, n_leaves, min_weight):
    """Label of the leaf of each row, if the leaf whose best split gains most is split first."""
    labels = np.zeros(len(X), dtype=int)
    for new in range(1, n_leaves):
        splits = {}
        for leaf in range(new):
            some = labels == leaf
            split = best_split(X[some], residuals[some], weights[some], min_weight)
            if split is not None and split[0] > 1e-9:
                splits[leaf] = split
        if not splits:
            break
        leaf = max(splits, key=lambda leaf: splits[leaf][0])
        _, column, threshold = splits[leaf]
        labels[(labels == leaf) & (X[:, column] > threshold)] = new
    return labels


def boosted_leaves(X, targets, weights, n_trees, n_leaves, min_weight, rate):
    """Labels of the leaves of each row in each tree, (n_trees, n_rows)."""
    weights = weights * weights.sum() / np.sum(weights**2)
    residuals = targets - np.average(targets, axis=0, weights=weights)
    found = []
    for _ in range(n_trees):
        labels = leaves_of_tree(X, residuals, weights, n_leaves, min_weight)
        found.append(labels)
        for leaf in np.unique(labels):
            some = labels == leaf
            w = weights[some]
            residuals[some] -= rate * (w @ residuals[some]) / (w.sum() + 1.0)
    return np.array(found)


def boosted_leaves_of_classes(X, codes, weights, n_trees, n_leaves, min_weight, rate):
    """As ``boosted_leaves``, on gradients of the log loss of class codes."""
    weights = weights * weights.sum() / np.sum(weights**2)
    own = (codes + 1.0) / 2.0
    shares = np.average(own, axis=0, weights=weights)
    scores = np.tile(
        np.log(shares) if len(shares) > 1 else np.log(shares / (1 - shares)), (len(X), 1)
    )
    found = []
    for tree in range(n_trees):
        p = shares if tree == 0 else probabilities(scores)
        labels = leaves_of_tree(X, own - p, weights, n_leaves, min_weight)
        found.append(labels)
        left = own - p
        for leaf in np.unique(labels):
            some = labels == leaf
            slope = weights[some] @ (np.abs(left) * (1.0 - np.abs(left)))[some] + 1.0
            scores[some] += rate * np.clip(weights[some] @ left[some] / slope, -4.0, 4.0)
    return np.array(found)


def probabilities(scores):
    """Probabilities of classes, or of the second of two, from scores."""
    if scores.shape[1] == 1:
        return 1.0 / (1.0 + np.exp(-scores))
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def indicators(leaves, size):
    """Features of rows: 1 / sqrt(n_trees) for each leaf that a row is in, (n_rows, size)."""
    Z = np.zeros((leaves.shape[1], size))
    for numbers in leaves:
        Z[np.arange(len(Z)), numbers] = len(leaves) ** -0.5
    return Z


def ridge_to_the_mean(Z, targets, weights, ridge, constant):
    """Coefficients of the weighted ridge regression that pulls all values to the mean."""
    share = (weights / weights.sum())[:, np.newaxis]
    mean = np.sum(share * targets, axis=0)
    A = (share * Z).T @ Z + ridge * np.eye(Z.shape[1])
    return constant * mean + np.linalg.solve(A, (share * Z).T @ (targets - mean))


def swept(leaves, starts, targets, weights, way):
    """Values of leaves after sweeps: each tree in turn is fitted to what all others leave.

    ``way`` has pairs of a ridge and the number of sweeps with it.
    """
    Z = indicators(leaves, starts[-1]) * len(leaves) ** 0.5
    share = (weights / weights.sum())[:, np.newaxis]
    missing = targets - np.sum(share * targets, axis=0)
    values = np.zeros((Z.shape[1], targets.shape[1]))
    for ridge, n_sweeps in way:
        for tree in list(range(len(leaves))) * n_sweeps:
            own = slice(starts[tree], starts[tree + 1])
            others = values.copy()
            others[own] = 0.0
            A = (share * Z[:, own]).T @ Z[:, own]
            A += ridge * len(leaves) * np.eye(len(A))
            values[own] = np.linalg.solve(A, (share * Z[:, own]).T @ (missing - Z @ others))
    return values
