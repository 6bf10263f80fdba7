"""The papers' bounds in the papers' own symbols, and the recursions that they are proved from."""

import math

import numpy as np

# -- POLK ------------------------------------------------------------------------------------------


def kernel_distances(kernel, X, Z):
    return np.sqrt(np.maximum(2 - 2 * kernel(X, Z), 0))


def greedy_packing(kernel, points, distance):
    """Points, each farther from those before than a distance: a packing, seldom the largest."""
    kept = points[:1]
    for point in points[1:]:
        if kernel_distances(kernel, kept, point[None]).min() > distance:
            kept = np.vstack([kept, point])
    return len(kept)


def grid(sides, n):
    axes = [np.linspace(0, side, n) for side in sides]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sides))


def norm_of(kernel, points, coefficients):
    coefficients = np.asarray(coefficients).reshape(len(points), -1)
    return math.sqrt(max(np.sum(coefficients * (kernel(points, points) @ coefficients)), 0.0))


# -- COLK ------------------------------------------------------------------------------------------


def colk_recursion(p, alpha, beta, epsilon, T):
    """E ||f_{T+1} - f*||^2 by (66), with equality in every step."""
    L, U2, Lh = p.outer_curvature, p.kernel_bound, p.inner_lipschitz
    sf2, sd2, Z, l0 = p.gradient_variance, p.inner_variance, p.distance, p.strong_convexity
    e = p.solution_norm**2
    for _ in range(T):
        e = (
            (1 - alpha * l0) * e
            + 2 * epsilon * Z
            + alpha**2 * sf2
            + 2 * L * U2 * beta**2 * sd2
            + 2 * Lh**2 * L * U2 * (alpha**2 * sf2 + 2 * epsilon**2)
        )
    return e


def colk_tracking(p, alpha, beta, epsilon, T):
    """E ||g_{t+1} - delta_t||^2 by (60)."""
    e = 0.0
    for _ in range(T):
        drift = alpha**2 * p.gradient_variance + 2 * epsilon**2
        noise = 2 * p.inner_lipschitz**2 * drift + 2 * beta**2 * p.inner_variance
        e = (1 - beta) ** 2 * e + noise
    return e


def colk_gradient(p, T, alpha, beta, epsilon, C1, LR):
    """Eq. (79)."""
    C2 = 4 * p.inner_variance
    C3 = p.gradient_variance * LR / 2
    C4 = 4 * p.inner_lipschitz**2 * p.gradient_variance
    total = C1 + C2 * T * beta**2 + T / 2 * epsilon**2 / alpha + C3 * T * alpha**2
    return (total + C4 * T * alpha**2) / (T * alpha / 4)


# -- DSG -------------------------------------------------------------------------------------------


def dsg_weights(theta, nu, t):
    """The a_t^i of (11)."""
    weights = []
    for i in range(1, t + 1):
        a = theta / i
        for j in range(i + 1, t + 1):
            a *= 1 - nu * theta / j
        weights.append(a)
    return np.array(weights)


def dsg_constants(theta, nu, M, L, kappa, phi, norm):
    """C^2, Q_1 and Q_2 of Theorems 4 and 5."""
    C2 = 4 * (kappa + phi) ** 2 * M**2 * theta**2
    Q0 = 2 * math.sqrt(2) * kappa**0.5 * (kappa + phi) * L * M * theta**2
    root = Q0**2 + (2 * theta * nu - 1) * (1 + theta * nu) ** 2 * theta**2 * kappa * M**2
    Q1 = max(norm, (Q0 + math.sqrt(root)) / (2 * nu * theta - 1))
    Q0 = 4 * math.sqrt(2) * kappa**0.5 * M * theta * (8 + (kappa + phi) * theta * L)
    root = Q0**2 + kappa * M**2 * (1 + theta * nu) ** 2 * (theta**2 + 16 * theta / nu)
    return C2, Q1, max(norm, Q0 + math.sqrt(root))


def dsg_recursion(theta, nu, M, L, kappa, phi, norm, T):
    """E ||h_{t+1} - f*||^2, t = 1..T, by (13) with equality in every step, weights as they are."""
    e, errors, weights = norm**2, [], np.empty(0)
    for t in range(1, T + 1):
        g = theta / t
        B1 = 2 * M * (kappa + phi) * np.linalg.norm(weights)
        e = (
            max(1 - 2 * g * nu, 0) * e
            + kappa * M**2 * g**2 * (1 + nu * theta) ** 2
            + 2 * kappa**0.5 * L * g * B1 * math.sqrt(e)
        )
        errors.append(e)
        weights = np.append((1 - nu * g) * weights, g)
    return np.array(errors)


# -- Ying and Zhou ---------------------------------------------------------------------------------


def largest(step, top):
    """The largest value of a recursion step on [0, top]: bounds need not be attained."""
    return max(step(x) for x in np.linspace(0, top, 33))


def pointwise_recursion(c, theta, alpha, A, D, D_bar, T):
    """Bounds of R_1..R_T by (3.9); R_t never exceeds D, the bound of the risk."""
    R = [D]
    for t in range(1, T):
        g = c * t**-theta
        top = min(R[-1], g**-1 * D_bar / 2)  # where x - g x^2 / D_bar is largest
        R.append(min(D, top - g * top**2 / D_bar + A * (1 + D) * g ** (1 + alpha)))
    return np.array(R)


def pairwise_distances(steps, L, kappa2, norm, variance):
    """Lemma 3's recursion with equality; ``steps`` are gamma_2, gamma_3, ..."""
    E = norm**2
    for j, g in enumerate(steps, 2):
        E = (1 + (32 * kappa2**2 * L**2 + 1) * g**2) * E + variance * (2 * g**2 + 1 / (j - 1))
        yield E


def pairwise_recursion(c, theta, L, kappa2, slope_0, bound, C_phi2, norm, variance, mu, T):
    """Bounds of R_1..R_T by Lemma 8, its last term twice as printed, and by smoothness."""
    growth = math.exp((1 + 32 * kappa2**2 * L**2) * c**2 / (2 * theta - 1))
    kappa = math.sqrt(kappa2)
    R, total = [math.inf, math.inf], 0.0
    for t in range(2, T):
        E = growth * (norm**2 + variance * (4 + math.log(t)))
        smooth = 2 * L * kappa2 * E
        g = c * t**-theta
        D = math.sqrt(C_phi2 * total)  # of f_t: steps 2..t-1
        M = bound if bound is not None else 2 * L * kappa * D + slope_0
        noise = 16 * math.sqrt(2) * mu * kappa2 * M * (L * kappa * D + M) * g / math.sqrt(t - 1)
        noise += 8 * L * kappa2**2 * g**2 * M**2
        top = min(R[-1], smooth, E / (2 * g))
        R.append(top - g * top**2 / E + noise)
        total += g
    return np.array(R)
