"""Kernel adaptive filters as their papers define them, with dense algebra: slow and obvious."""

import numpy as np


def ridge(kernel, X, y, noise):
    """Coefficients of the Gaussian process's mean, (n, n_outputs)."""
    return np.linalg.solve(kernel(X) + np.diag(np.broadcast_to(noise, len(X))), y)


def qklms(kernel, X, y, step, radius, max_size=np.inf):
    """Quantised KLMS: points and coefficients."""
    points, coefficients = [], []
    for x, target in zip(X, y, strict=True):
        said = sum(
            (c * kernel(p[None], x[None])[0, 0] for p, c in zip(points, coefficients, strict=True)),
            np.zeros(y.shape[1]),
        )
        moved = step * (target - said)
        distances = [np.linalg.norm(x - p) for p in points]
        if points and (min(distances) <= radius or len(points) >= max_size):
            coefficients[int(np.argmin(distances))] += moved
        else:
            points.append(x)
            coefficients.append(moved)
    return np.array(points), np.array(coefficients)


def krls_ald(kernel, X, y, tolerance, noise=0.0, forgetting=1.0, max_size=np.inf):
    """KRLS: points and coefficients, as one weighted least-squares problem at the end.

    Row i is seen as the combination of the points of its time that is nearest to it.
    """
    points, combinations = [], []
    for x in X:
        if points:
            D = np.array(points)
            k, own = kernel(D, x[None])[:, 0], kernel(x[None])[0, 0]
            a = np.linalg.solve(kernel(D), k)
            if own - k @ a <= tolerance * own or len(points) >= max_size:
                combinations.append(a)
                continue
        points.append(x)
        combinations.append(np.eye(len(points))[-1])
    D = np.array(points)
    A = np.zeros((len(X), len(D)))
    for i, a in enumerate(combinations):
        A[i, : a.size] = a
    w = forgetting ** np.arange(len(X) - 1, -1, -1.0)
    K = kernel(D)
    normal = (A.T * w) @ A + noise * np.linalg.inv(K)
    return D, np.linalg.solve(K, np.linalg.solve(normal, (A.T * w) @ y))


def fixed_budget(kernel, X, y, size, noise, *, oldest=False, label_step=0.0):
    """FB-KRLS and SW-KRLS: rows that are kept, and coefficients."""
    points, targets = np.empty((0, X.shape[1])), np.empty((0, y.shape[1]))
    for x, target in zip(X, y, strict=True):
        near = kernel(points, x[None]) if len(points) else np.empty((0, 1))
        targets = targets - label_step * near * (targets - target)
        points, targets = np.vstack([points, x]), np.vstack([targets, target])
        inverse = np.linalg.inv(kernel(points) + noise * np.eye(len(points)))
        coefficients = inverse @ targets
        if len(points) > size:
            left_out = np.linalg.norm(coefficients, axis=1) / np.diag(inverse)
            goes = 0 if oldest else int(np.argmin(left_out))
            points, targets = np.delete(points, goes, 0), np.delete(targets, goes, 0)
    return points, ridge(kernel, points, targets, noise)


def tracker(kernel, X, y, size, noise, forgetting, *, toward="prior", tolerance=0.0):
    """KRLS-T: points, mean and covariance of f there; the covariance is in units of the signal's.

    The joint Gaussian of f at the points and at the row is conditioned on the row's target.
    """
    points = np.empty((0, X.shape[1]))
    mean, cov = np.zeros((0, y.shape[1])), np.zeros((0, 0))
    for x, target in zip(X, y, strict=True):
        if forgetting < 1.0 and len(points):
            if toward == "prior":
                mean = np.sqrt(forgetting) * mean
                cov = forgetting * cov + (1.0 - forgetting) * kernel(points)
            else:
                cov = cov / forgetting
        own = kernel(x[None])[0, 0]
        k = kernel(points, x[None])[:, 0] if len(points) else np.zeros(0)
        q = np.linalg.solve(kernel(points), k) if len(points) else k
        outside = own - k @ q
        joins = not len(points) or outside > tolerance * own
        joint_mean = np.vstack([mean, q @ mean])
        h = cov @ q
        # A row that does not join counts as the combination of the points that it nearly is.
        joint = np.block([[cov, h[:, None]], [h[None], (outside * joins + q @ h)]])
        gain = joint[:, -1] / (joint[-1, -1] + noise)
        joint_mean = joint_mean + np.outer(gain, target - joint_mean[-1])
        joint = joint - np.outer(gain, joint[-1])
        if not joins:
            mean, cov = joint_mean[:-1], joint[:-1, :-1]
            continue
        points, mean, cov = np.vstack([points, x]), joint_mean, joint
        if len(points) > size:
            inverse = np.linalg.inv(kernel(points))
            goes = int(np.argmin(np.linalg.norm(inverse @ mean, axis=1) / np.diag(inverse)))
            points, mean = np.delete(points, goes, 0), np.delete(mean, goes, 0)
            cov = np.delete(np.delete(cov, goes, 0), goes, 1)
    return points, mean, cov
