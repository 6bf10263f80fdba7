"""Slow and obvious policy evaluation: exact values, batch solutions, explicit recursions."""

import numpy as np

# -- linear-quadratic chains -----------------------------------------------------------------------


def lqr_trajectory(n, seed, n_features=1):
    """States x, rewards -|x|^2 and next states A x + noise of one trajectory from 0."""
    rng = np.random.default_rng(seed)
    matrix, sd = lqr_matrix(n_features)
    states = np.zeros((n + 1, n_features))
    for t in range(n):
        states[t + 1] = matrix @ states[t] + sd * rng.standard_normal(n_features)
    return states[:-1], -np.square(states[:-1]).sum(axis=1), states[1:]


def lqr_matrix(n_features):
    if n_features == 1:
        return np.array([[0.9]]), 0.3
    c, s = np.cos(0.3), np.sin(0.3)
    return 0.9 * np.array([[c, -s], [s, c]]), 0.25


def lqr_value(states, discount):
    """V = -(P |x|^2 + v0), P = 1 + discount 0.81 P, v0 = discount (P sd^2 d + v0)."""
    n_features = states.shape[1]
    _, sd = lqr_matrix(n_features)
    P = 1.0 / (1.0 - 0.81 * discount)
    v0 = discount * P * sd**2 * n_features / (1.0 - discount)
    return -(P * np.square(states).sum(axis=1) + v0)


def monte_carlo_returns(rewards, discount):
    """Discounted sum of the rewards from each step of one episode on."""
    n = len(rewards)
    return np.array([sum(discount ** (s - t) * rewards[s] for s in range(t, n)) for t in range(n)])


# -- a finite chain --------------------------------------------------------------------------------


def finite_chain():
    """Three states; transition probabilities, rewards of the transitions, stationary shares."""
    P = np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.2, 0.2, 0.6]])
    R = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0], [-1.0, 2.0, 0.0]])
    shares = np.linalg.matrix_power(P, 200)[0]
    return P, R, shares


def chain_value(P, R, discount):
    return np.linalg.solve(np.eye(len(P)) - discount * P, (P * R).sum(axis=1))


# -- batch solutions in a fixed basis --------------------------------------------------------------


def radial_basis(states, centres, width):
    square = ((states[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-square / (2.0 * width**2))


def lstd(features, rewards, next_features, discount, weights=None):
    """Solve sum_t w_t delta_t phi_t = 0."""
    weighted = features if weights is None else features * weights[:, None]
    return np.linalg.solve(weighted.T @ (features - discount * next_features), weighted.T @ rewards)


def tracker_stationary_point(features, rewards, next_features, discount, rate):
    """Solve sum_t z_t (phi_t - discount phi_t+1) = 0, z = (1 - rate) z + rate delta."""
    difference = features - discount * next_features
    trace_features, trace_rewards = np.zeros(features.shape[1]), 0.0
    A, b = np.zeros((features.shape[1],) * 2), np.zeros(features.shape[1])
    for phi, r in zip(difference, rewards, strict=True):
        trace_features = (1.0 - rate) * trace_features + rate * phi
        trace_rewards = (1.0 - rate) * trace_rewards + rate * r
        A += np.outer(phi, trace_features)
        b += phi * trace_rewards
    return np.linalg.solve(A, b)


# -- the recursions, transition by transition ------------------------------------------------------


def kernel_recursion(
    method, steps, kernel, *, discount, step_size, auxiliary, regularization, batch_size
):
    """The table of methods as printed, with exact kernels.

    ``steps`` are dicts: x, r, y (next state), over, begins, weight and, for double sampling, r2,
    y2, over2. Returns functions V and h.
    """
    points, v, h = [], [], []

    def value(coefficients, x):
        return sum(c * kernel(p, x) for c, p in zip(coefficients, points, strict=True))

    z = 0.0
    for start in range(0, len(steps), batch_size):
        batch = steps[start : start + batch_size]
        new = []  # (point, change of V, change of h)
        a = step_size / len(batch)
        for s in batch:
            gamma = 0.0 if s["over"] else discount
            delta = s["r"] + gamma * value(v, s["y"]) - value(v, s["x"])
            expected = value(h, s["x"])
            w = s["weight"]
            if method == "td":
                new += [(s["x"], a * w * delta, 0.0)]
            elif method == "gtd2":
                change = auxiliary * a * w * (delta - expected)
                new += [(s["x"], a * w * expected, change), (s["y"], -a * w * gamma * expected, 0)]
            elif method == "tdc":
                change = auxiliary * a * w * (delta - expected)
                new += [(s["x"], a * w * delta, change), (s["y"], -a * w * gamma * expected, 0.0)]
            elif method == "double_sampling":
                gamma2 = 0.0 if s["over2"] else discount
                delta2 = s["r2"] + gamma2 * value(v, s["y2"]) - value(v, s["x"])
                new += [(s["x"], a * w * (delta + delta2) / 2, 0.0)]
                new += [(s["y2"], -a * w * gamma2 * delta / 2, 0.0)]
                new += [(s["y"], -a * w * gamma * delta2 / 2, 0.0)]
            elif method == "residual":
                new += [(s["x"], a * w * delta, 0.0), (s["y"], -a * w * gamma * delta, 0.0)]
            elif method == "pkgtd":
                z = (0.0 if s["begins"] else 1.0 - auxiliary) * z + auxiliary * w * delta
                new += [(s["x"], a * z, 0.0), (s["y"], -a * gamma * z, 0.0)]
        shrink = 1.0 - step_size * regularization
        points += [p for p, _, _ in new]
        v = [shrink * c for c in v] + [c for _, c, _ in new]
        h = [shrink * c for c in h] + [c for _, _, c in new]
    return (lambda x: value(v, x)), (lambda x: value(h, x))
