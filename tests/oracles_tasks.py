"""Slow and obvious solutions of the tasks with objectives of their own."""

import numpy as np
from scipy.optimize import minimize


def gaussian(X, Z, length_scale):
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1) / (2.0 * length_scale**2))


# -- novelty --------------------------------------------------------------------------------------


def capped_simplex(v, cap):
    """Project on {a: 0 <= a <= cap, sum a = 1} by bisection for the shift."""
    low, high = v.min() - 1.0, v.max()
    for _ in range(100):
        middle = 0.5 * (low + high)
        if np.clip(v - middle, 0.0, cap).sum() > 1.0:
            low = middle
        else:
            high = middle
    return np.clip(v - high, 0.0, cap)


def one_class_solution(gram, nu, n_steps=1500):
    """Minimise a'Ka/2 over the capped simplex; return f = Ka at the rows and the threshold.

    The dual of min (1/n) sum max(0, tau - f(x_i)) + nu/2 |f|^2 - nu tau, with a scaled to sum 1.
    """
    n = len(gram)
    cap = 1.0 / (nu * n)
    a = ahead = np.full(n, 1.0 / n)
    step = 1.0 / np.linalg.eigvalsh(gram)[-1]
    for t in range(n_steps):
        new = capped_simplex(ahead - step * gram @ ahead, cap)
        ahead = new + t / (t + 3.0) * (new - a)
        a = new
    f = gram @ a
    margin = (a > 1e-6 * cap) & (a < (1.0 - 1e-6) * cap)
    return f, f[margin].mean()


def novelty_objective(f, threshold, weights, nu):
    """The mean loss; the ridge is the learner's."""
    return np.mean(weights * (np.maximum(0.0, threshold - f) - nu * threshold))


def novelty_descent(gram, nu, step_sizes, threshold, unit, batch_size):
    """DSG, Section 4, row by row as printed, with exact kernels: coefficients and threshold."""
    n = len(gram)
    a = np.zeros(n)
    for t, start in enumerate(range(0, n, batch_size)):
        rows = range(start, start + batch_size)
        f = [sum(a[j] * gram[i, j] for j in range(start)) for i in rows]
        change = 0.0
        a = a * (1.0 - step_sizes[t] * nu)
        for i, value in zip(rows, f, strict=True):
            if value < threshold:
                a[i] = step_sizes[t] / batch_size
                change -= step_sizes[t] * (1.0 - nu) / batch_size
            else:
                change += step_sizes[t] * nu / batch_size
        threshold += unit * change
    return a, threshold


def novelty_on_features(blocks, nu, step_sizes, threshold):
    """DSG, Section 4, Algorithm 1 as printed, a row and a block of features in each step.

    ``blocks[t]`` are the features of step t at all rows. Returns f at the rows, and the threshold.
    """
    f = np.zeros(len(blocks[0]))
    for i, (features, step) in enumerate(zip(blocks, step_sizes, strict=True)):
        below = f[i] < threshold
        f = (1.0 - step * nu) * f
        if below:
            f += step * features @ features[i]
            threshold -= step * (1.0 - nu)
        else:
            threshold += step * nu
    return f, threshold


# -- density ratio --------------------------------------------------------------------------------

#: E_p r(q/p), DSG Section 4, as (r, its derivative, its second derivative).
ALI_SILVEY = {
    "kl": (lambda u: -np.log(u), lambda u: -1.0 / u, lambda u: 1.0 / u**2),
    "reverse_kl": (lambda u: u * np.log(u), lambda u: np.log(u) + 1.0, lambda u: 1.0 / u),
    "jensen_shannon": (
        lambda u: 0.5 * (u * np.log(u) - (1.0 + u) * np.log(0.5 * (1.0 + u))),
        lambda u: 0.5 * np.log(2.0 * u / (1.0 + u)),
        lambda u: 0.5 / (u * (1.0 + u)),
    ),
    "hellinger": (
        lambda u: 0.5 * (np.sqrt(u) - 1.0) ** 2,
        lambda u: 0.5 - 0.5 / np.sqrt(u),
        lambda u: 0.25 * u**-1.5,
    ),
    "pearson": (lambda u: 1.0 / u - 2.0 + u, lambda u: 1.0 - u**-2, lambda u: 2.0 * u**-3),
}


def relative_novelty(u, rho):
    """r_nv of DSG, Section 4, for u = q/p."""
    return np.maximum(0.0, rho - np.log(u))


def ratio_slopes(name, f, of_p, learns="log_ratio", floor=0.0):
    """Slopes of E_p r*(g) - E_q g at one row, over r''(1).

    With g = r'(q/p), so r*(g) = u r'(u) - r(u) for u = q/p, which is e^-f or 1 / (1 + f). Below a
    floor c of p/q, log p/q is log c + (1 + f - c) / c.
    """
    second = ALI_SILVEY[name][2]
    if learns == "log_ratio":
        u, change = np.exp(-f), -np.exp(-f)
    elif 0.0 < floor > 1.0 + f:
        u = np.exp(1.0 - (1.0 + f) / floor) / floor
        change = -u / floor
    elif f <= -1.0:  # no density is negative, and the loss is flat for q
        return -1.0 if of_p else 0.0
    else:
        u, change = 1.0 / (1.0 + f), -1.0 / (1.0 + f) ** 2
    slope = u * second(u) * change if of_p else -second(u) * change
    return slope / second(1.0)


def novelty_slopes(f, of_p, rho):
    """The same for r_nv, whose best function is 0 below log p/q = -rho, then 1 + rho + log p/q."""
    if of_p:
        return -1.0
    if f <= 0.0:
        return 0.0
    return np.exp(-rho) if f < 1.0 else np.exp(f - 1.0 - rho)


def ratio_objective(f, from_p, weights):
    """E_q e^f - E_p f."""
    p, q = from_p, ~from_p
    return np.mean((weights * np.exp(f))[q]) - np.mean((weights * f)[p])


def kl_slopes(f, of_p):
    return -1.0 if of_p else np.exp(f)


def ratio_descent(gram, from_p, step_size, regularization, batch_size, slopes=kl_slopes):
    """DSG, eq. (8) by gradient steps on batches that hold both samples: coefficients."""
    n = len(gram)
    a = np.zeros(n)
    for start in range(0, n, batch_size):
        rows = range(start, start + batch_size)
        f = [sum(a[j] * gram[i, j] for j in range(start)) for i in rows]
        a = a * (1.0 - step_size * regularization)
        n_p = sum(from_p[i] for i in rows)
        for i, value in zip(rows, f, strict=True):
            n_own = n_p if from_p[i] else batch_size - n_p
            a[i] = -step_size * slopes(value, from_p[i]) / n_own
    return a


def ratio_solution(gram, from_p, regularization):
    """Minimise E_q e^f - E_p f + regularization / 2 |f|^2 by a solver; f at the rows."""
    sign = np.where(from_p, -1.0, 1.0)
    losses = lambda f: sign * np.where(from_p, f, np.exp(f))  # noqa: E731
    slopes = lambda f: sign * np.where(from_p, 1.0, np.exp(f))  # noqa: E731
    return two_sample_solution(gram, from_p, regularization, losses, slopes)


def two_sample_solution(gram, from_p, regularization, losses, slopes):
    """Minimise the means of both samples' losses + regularization / 2 |f|^2; f at the rows."""
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # f = root b, |f|^2 = |b|^2
    share = np.where(from_p, 1.0 / from_p.sum(), 1.0 / (~from_p).sum())

    def objective(b):
        f = root @ b
        value = share @ losses(f) + 0.5 * regularization * b @ b
        return value, root.T @ (share * slopes(f)) + regularization * b

    options = {"maxiter": 10_000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(objective, np.zeros(len(gram)), jac=True, method="L-BFGS-B", options=options)
    return root @ found.x


def log_ratio_of_shifted_gaussians(X, shift):
    """Log of N(0, I) over N(shift e_1, I)."""
    return -shift * X[:, 0] + shift**2 / 2.0


def kl_of_shifted_gaussians(shift):
    return shift**2 / 2.0
