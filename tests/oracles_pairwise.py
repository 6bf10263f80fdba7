"""Online pairwise learning (Ying and Zhou, Algorithm 2), slow and obvious, in plain NumPy.

`naive_pairs` is eq. (1.2) as a list of pairs with coefficients; `structured` is the same function
collapsed onto the points, with mistakes on request; `circle_path` is the exact algorithm on a
finite input space, many repetitions at once, for tests of its rate.
"""

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import optimize

# -- losses ----------------------------------------------------------------------------------------


@dataclass
class MarginLoss:
    value: object
    derivative: object
    smoothness: float | None  # L, of the derivative; None if there is none
    norm_constant: float | None = None  # C_phi ** 2 of Lemma 4


def _logistic_value(s):
    return np.where(s > 0, np.log1p(np.exp(-abs(s))), -s + np.log1p(np.exp(-abs(s))))


def _logistic_derivative(s):
    return np.where(s > 0, -np.exp(-abs(s)) / (1 + np.exp(-abs(s))), -1 / (1 + np.exp(-abs(s))))


def q_hinge(q):
    return MarginLoss(
        lambda s: np.maximum(1 - s, 0) ** q,
        lambda s: -q * np.maximum(1 - s, 0) ** (q - 1),
        2.0 if q == 2 else None,
        2.0 if q == 2 else None,  # L * s_0 ** 2, s_0 = 1
    )


LOSSES = {
    "logistic": MarginLoss(_logistic_value, _logistic_derivative, 0.25, 2 * np.log(2) + 2),
    "squared_hinge": q_hinge(2),
    "least_squares": MarginLoss(lambda s: (1 - s) ** 2, lambda s: -2 * (1 - s), 2.0, 2.0),
    "q_hinge": q_hinge(1.5),
}

#: Step sizes (c, theta) that leave some margins beyond the hinges, and make nothing diverge.
SCHEDULES = {
    "logistic": (2.0, 0.5),
    "squared_hinge": (0.6, 0.5),
    "least_squares": (0.1, 0.5),
    "q_hinge": (0.6, 0.5),
}


def stream(n=60, seed=0, d=3):
    """Rows of two classes that overlap, the positive one rarer."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=n) < 0.35, 1.0, -1.0)
    return rng.normal(size=(n, d)) + 0.5 * y[:, None], y


# -- kernels ---------------------------------------------------------------------------------------


def gaussian(length_scale):
    def kernel(X, Z):
        squared = np.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=2)
        return np.exp(-squared / (2 * length_scale**2))

    return kernel


def linear(X, Z):
    return X @ Z.T


#: K((x, x'), (u, u')) of the four values G(x, u), G(x', u'), G(x, u'), G(x', u).
PAIR_KERNELS = {
    "difference": lambda xu, yv, xv, yu: xu + yv - xv - yu,
    "antisymmetric": lambda xu, yv, xv, yu: (xu * yv - xv * yu) / 2,
    "symmetric": lambda xu, yv, xv, yu: (xu * yv + xv * yu) / 2,
    "mlpk": lambda xu, yv, xv, yu: (xu + yv - xv - yu) ** 2,
    "product": lambda xu, yv, xv, yu: xu * yv,
}
#: Pair labels from which a pair kernel can learn.
ADMITTED = {
    "difference": ("difference", "sign"),
    "antisymmetric": ("difference", "sign"),
    "symmetric": ("same",),
    "mlpk": ("same",),
    "product": ("difference", "sign", "same"),
}
CASES = [(pair_kernel, label) for pair_kernel, labels in ADMITTED.items() for label in labels]


def pair_gram(pair_kernel, kernel, X1, X2, Z1, Z2, bias=0.0):
    """K((X1_i, X2_i), (Z1_j, Z2_j)), shape (n, m)."""
    formula = PAIR_KERNELS[pair_kernel]
    return formula(kernel(X1, Z1), kernel(X2, Z2), kernel(X1, Z2), kernel(X2, Z1)) + bias


def pair_kernel_bound(pair_kernel, bound, non_negative):
    """Sup of K((x, x'), (x, x')), `bound` being that of G(x, x)."""
    return {
        "difference": 2 * bound if non_negative else 4 * bound,
        "antisymmetric": bound**2 / 2,
        "symmetric": bound**2,
        "mlpk": 4 * bound**2 if non_negative else 16 * bound**2,
        "product": bound**2,
    }[pair_kernel]


# -- pair labels, buffers, weights of pairs --------------------------------------------------------


def pair_label(name, y, other):
    if name == "difference":
        return float(y - other)
    if name == "sign":
        return float(np.sign(y - other))
    if name == "same":
        return 1.0 if y == other else -1.0
    raise ValueError(name)


class All:
    def __init__(self):
        self.rows = []

    def enter(self, row, label):
        self.rows.append(row)


class Fifo:
    def __init__(self, size):
        self.rows = deque(maxlen=size)

    def enter(self, row, label):
        self.rows.append(row)


class PerClassFifo:
    def __init__(self, size):
        self.size = size
        self.classes = {}

    def enter(self, row, label):
        self.classes.setdefault(label, deque(maxlen=self.size)).append(row)

    @property
    def rows(self):
        return [row for rows in self.classes.values() for row in rows]


class Places:
    """The k-th row to arrive goes to places[k], in the place of what is there; -1: to none."""

    def __init__(self, places):
        self.places = iter(places)
        self.held = {}

    def enter(self, row, label):
        place = int(next(self.places))
        if place >= 0:
            self.held[place] = row

    @property
    def rows(self):
        return list(self.held.values())


def reservoir_places(n, size, rng):
    """Places of n rows in a uniform sample of all past rows (Vitter's algorithm R)."""
    drawn = [i if i < size else int(rng.integers(i + 1)) for i in range(n)]
    return [place if place < size else -1 for place in drawn]


def pair_weights(normalize, labels, weights):
    """Weights of the pairs of one row with its partners, given pair labels and row weights."""
    labels, weights = np.asarray(labels), np.asarray(weights, dtype=float)
    result = np.zeros(len(labels))
    if normalize == "all":
        groups = [np.ones(len(labels), dtype=bool)]
    elif normalize == "opposite":
        groups = [labels != 0]
    elif normalize == "balanced":
        groups = [labels > 0, labels < 0]
    else:
        raise ValueError(normalize)
    for group in groups:
        if group.any():
            result[group] = weights[group] / weights[group].sum() / len(groups)
    return result


def step_sizes(schedule, n):
    scale, power = schedule
    return scale * np.arange(1, n + 1) ** -float(power)


def _stream(y, buffer, groups, weights):
    """Yield every row with its partners: those of the buffer that are in its group."""
    held = buffer()
    for t in range(len(y)):
        yield t, [j for j in held.rows if groups is None or groups[j] == groups[t]]
        if weights is None or weights[t] > 0:
            held.enter(t, y[t])


# -- Algorithm 2, eq. (1.2), literally -------------------------------------------------------------


@dataclass
class PairExpansion:
    """f(x, x') = sum_k coefficients_k K((X_a, X_b), (x, x')) + constant, (a, b) = pairs_k.

    Without a ridge the constant is what a `bias` added to K gives; the ridge leaves it alone.
    """

    X: np.ndarray
    kernel: object
    pair_kernel: str
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), dtype=int))
    coefficients: np.ndarray = field(default_factory=lambda: np.zeros(0))
    path: list = field(default_factory=list)  # coefficients after each step
    constant: float = 0.0

    def __call__(self, X1, X2):
        a, b = self.pairs.T
        gram = pair_gram(self.pair_kernel, self.kernel, X1, X2, self.X[a], self.X[b])
        return gram @ self.coefficients + self.constant

    def at_rows(self, gram, i, j):
        """f(X_i, X_j), given the kernel matrix of X."""
        i, j = np.array(i, int)[:, None], np.array(j, int)[:, None]
        a, b = self.pairs.T
        formula = PAIR_KERNELS[self.pair_kernel]
        values = formula(gram[i, a], gram[j, b], gram[i, b], gram[j, a])
        return values @ self.coefficients + self.constant

    def norm_squared(self):
        values = self.at_rows(self.kernel(self.X, self.X), *self.pairs.T)
        return self.coefficients @ values

    def average(self):
        """Mean of the functions before each step, f_1 = 0 the first of them."""
        mean = np.zeros(len(self.coefficients))
        for coefficients in self.path[:-1]:
            mean[: len(coefficients)] += coefficients / len(self.path)
        return replace(self, coefficients=mean)


def naive_pairs(
    X,
    y,
    *,
    kernel,
    pair_kernel="difference",
    loss="logistic",
    label="difference",
    normalize="all",
    buffer=All,
    schedule=(1.0, 0.5),
    regularization=0.0,
    groups=None,
    weights=None,
    batch_size=1,
    bias=0.0,
):
    """Learn rows in order; `buffer` makes an empty one, `schedule` is (c, theta).

    The pairs of a row are averaged over its partners with the partners' weights, and the whole is
    multiplied by the row's own weight. Rows of weight 0 never enter the buffer. Of a batch, the
    rows come one after the other, but all meet the function before it, and their mean is the step.
    """
    f = PairExpansion(X, kernel, pair_kernel)
    gram = kernel(X, X)
    rows = list(_stream(y, buffer, groups, weights))
    batches = [rows[start : start + batch_size] for start in range(0, len(y), batch_size)]
    for gamma, batch in zip(step_sizes(schedule, len(batches)), batches, strict=True):
        coefficients = (1 - gamma * regularization) * f.coefficients
        pairs, new = f.pairs, len(f.pairs)
        for t, partners in batch:
            labels = np.array([pair_label(label, y[t], y[j]) for j in partners])
            importance = [1 if weights is None else weights[j] for j in partners]
            shares = pair_weights(normalize, labels, importance) / len(batch)
            margins = labels * f.at_rows(gram, [t] * len(partners), partners)
            own = 1 if weights is None else weights[t]
            added = -gamma * own * shares * LOSSES[loss].derivative(margins) * labels
            coefficients = np.append(coefficients, added)
            pairs = np.vstack([pairs, np.array([(t, j) for j in partners], int).reshape(-1, 2)])
        f.coefficients, f.pairs = coefficients, pairs
        f.constant += bias * coefficients[new:].sum()
        f.path.append(coefficients)
    return f


def algorithm_2(K, y, loss, steps):
    """Eq. (1.2) word for word, for any K: f at all pairs of rows.

    ``K[t, j, u, v]`` is K((x_t, x_j), (x_u, x_v)).
    """
    slope, n = LOSSES[loss].derivative, len(y)
    terms = []  # f is the sum of c K((x_t, x_j), .) over (c, t, j)

    def f(u, v):
        return sum(c * K[t, j, u, v] for c, t, j in terms)

    for t in range(1, n):  # the paper's t is t + 1
        new = []
        for j in range(t):
            tau = y[t] - y[j]
            new.append((-steps[t] / t * slope(tau * f(t, j)) * tau, t, j))
        terms += new
    return np.array([[f(u, v) for v in range(n)] for u in range(n)])


# -- the same, collapsed onto the points -----------------------------------------------------------

#: Mistakes that `structured` and `circle_path` make on request.
MUTANTS = ("swapped counts", "margin without 2", "same class", "half kernel", "gradient without 2")


def add_pair(pair_kernel, parameters, a, b, value, half=False):
    """Add value * K_((x_a, x_b)) to a vector (difference) or a matrix (the others), in place.

    `half` leaves out the part of the second point: a mistake.
    """
    if pair_kernel == "difference":
        parameters[a] += value
        parameters[b] -= 0 if half else value
    elif pair_kernel == "antisymmetric":
        parameters[a, b] += value / 2
        parameters[b, a] -= 0 if half else value / 2
    elif pair_kernel == "symmetric":
        parameters[a, b] += value / 2
        parameters[b, a] += 0 if half else value / 2
    elif pair_kernel == "mlpk":
        parameters[a, a] += value
        parameters[a, b] -= value
        parameters[b, a] -= 0 if half else value
        parameters[b, b] += 0 if half else value
    elif pair_kernel == "product" and not half:
        parameters[a, b] += value
    else:
        raise ValueError(pair_kernel)


def evaluate(pair_kernel, parameters, rows1, rows2):
    """f(x1_i, x2_i), given the kernel rows k(x1_i) and k(x2_i) on the points."""
    if pair_kernel == "difference":
        return rows1 @ parameters - rows2 @ parameters
    if pair_kernel == "mlpk":
        rows1 = rows2 = rows1 - rows2
    return np.sum((rows1 @ parameters) * rows2, axis=1)


def collapsed_norm_squared(pair_kernel, parameters, gram):
    if pair_kernel == "difference":
        return parameters @ gram @ parameters
    return np.trace(parameters.T @ gram @ parameters @ gram)


def structured(
    gram,
    y,
    *,
    pair_kernel="difference",
    loss="logistic",
    label="difference",
    normalize="all",
    buffer=All,
    schedule=(1.0, 0.5),
    regularization=0.0,
    groups=None,
    weights=None,
    mutant=None,
):
    """Vectors or matrices after each row, shape (n_rows, n_rows) or (n_rows, n_rows, n_rows)."""
    n = len(y)
    parameters = np.zeros(n if pair_kernel == "difference" else (n, n))
    gamma = step_sizes(schedule, n)
    path = []
    for t, partners in _stream(y, buffer, groups, weights):
        labels = np.array([_label(mutant, label, y[t], y[j]) for j in partners])
        importance = [1 if weights is None else weights[j] for j in partners]
        shares = pair_weights(normalize, labels, importance)
        values = evaluate(pair_kernel, parameters, gram[[t] * len(partners)], gram[partners])
        in_margin = np.sign(labels) if mutant == "margin without 2" else labels
        in_gradient = np.sign(labels) if mutant == "gradient without 2" else labels
        slopes = LOSSES[loss].derivative(in_margin * values) * in_gradient
        own = 1 if weights is None else weights[t]
        parameters *= 1 - gamma[t] * regularization
        for j, value in zip(partners, -gamma[t] * own * shares * slopes, strict=True):
            add_pair(pair_kernel, parameters, t, j, value, half=mutant == "half kernel")
        path.append(parameters.copy())
    return np.array(path)


def _label(mutant, name, y, other):
    if mutant == "swapped counts":
        return pair_label(name, y, -other)
    if mutant == "same class":
        return 2.0 * y  # whatever the other one is
    return pair_label(name, y, other)


# -- rates on the circle ---------------------------------------------------------------------------


def circle_gram(m, smoothness=2.0):
    """Circulant kernel on m points: eigenvalues 1 and k ** -smoothness, G(x, x) = 1."""
    frequency = np.minimum(np.arange(m), m - np.arange(m))
    eigenvalues = np.where(frequency == 0, 1.0, np.maximum(frequency, 1) ** -smoothness)
    first = np.fft.ifft(eigenvalues).real
    first /= first[0]
    return first[(np.arange(m)[:, None] - np.arange(m)[None, :]) % m]


def circle_target(m, smoothness=2.0, largest=1.5):
    """A function barely in the space of the kernel."""
    frequency = np.arange(1, (m + 1) // 2)
    phase = np.random.default_rng(0).uniform(size=len(frequency))
    waves = np.cos(2 * np.pi * (np.arange(m)[:, None] / m * frequency + phase))
    target = waves @ frequency ** (-smoothness / 2 - 0.6)
    return largest * target / np.max(np.abs(target))


def circle_risk(g, eta, loss):
    """E of the loss at (y - y') (g(x) - g(x')) over pairs of opposite classes, exactly.

    Parameters: g (..., m), eta = P(y = 1 | x) at the m equally likely points.
    """
    margins = 2 * (g[..., :, None] - g[..., None, :])
    losses = LOSSES[loss].value(margins)
    return 2 * np.mean(eta[:, None] * (1 - eta[None, :]) * losses, axis=(-2, -1))


def circle_minimum(eta, loss):
    """Smallest risk, by a general-purpose minimiser."""
    start = np.log(eta / (1 - eta)) / 4
    found = optimize.minimize(
        lambda g: circle_risk(g, eta, loss), start, method="BFGS", options={"gtol": 1e-10}
    )
    return found.fun


def circle_path(gram, points, y, *, loss, schedule, checkpoints, mutant=None):
    """Exact Algorithm 2 on finitely many points, difference kernel, labels -1 and +1.

    Parameters
    ----------
    gram : (m, m)
    points, y : (n_repetitions, n_rows)
        Which of the m points comes, and its label.
    checkpoints : numbers of rows
    Returns: g on the m points after so many rows, (n_checkpoints, n_repetitions, m).
    """
    n_repetitions, n_rows = y.shape
    derivative = LOSSES[loss].derivative
    repetition = np.arange(n_repetitions)
    counts = np.zeros((2, n_repetitions, len(gram)))  # negative and positive rows at each point
    g = np.zeros((n_repetitions, len(gram)))
    gamma = step_sizes(schedule, n_rows)
    result = []
    for t in range(1, n_rows + 1):
        x, label = points[:, t - 1], y[:, t - 1]
        if t > 1:
            partners = counts[np.where(label > 0, 0, 1), repetition]
            if mutant == "swapped counts":
                partners = counts[np.where(label > 0, 1, 0), repetition]
            if mutant == "same class":
                partners = counts.sum(axis=0)
            tau = 2 * label[:, None]
            margins = tau * (g[repetition, x][:, None] - g)
            if mutant == "margin without 2":
                margins = margins / 2
            slopes = derivative(margins) * tau
            if mutant == "gradient without 2":
                slopes = slopes / 2
            v = -gamma[t - 1] / (t - 1) * partners * slopes
            g = g + v.sum(axis=1)[:, None] * gram[x]
            if mutant != "half kernel":
                g = g - v @ gram
        counts[np.where(label > 0, 1, 0), repetition, x] += 1
        if t in checkpoints:
            result.append(g)
    return np.array(result)


def circle_rate(loss, power, *, mutant=None, seed=0, m=16, n_rows=2**12, n_repetitions=16):
    """Slope of log mean excess risk on log t, and the last mean excess risk.

    The step sizes are c_0 * t ** -power, c_0 = 1 / (4 L kappa~^2), the largest of the theorems.
    """
    gram = circle_gram(m)
    eta = 1 / (1 + np.exp(-circle_target(m)))
    rng = np.random.default_rng(seed)
    points = rng.integers(m, size=(n_repetitions, n_rows))
    y = np.where(rng.uniform(size=points.shape) < eta[points], 1.0, -1.0)
    checkpoints = 2 ** np.arange(6, round(np.log2(n_rows)) + 1)
    bound = 2 * (1 - gram.min())
    scale = 1 / (4 * LOSSES[loss].smoothness * bound)
    g = circle_path(
        gram, points, y, loss=loss, schedule=(scale, power), checkpoints=checkpoints, mutant=mutant
    )
    excess = np.mean(circle_risk(g, eta, loss), axis=1) - circle_minimum(eta, loss)
    return np.polyfit(np.log(checkpoints), np.log(excess), 1)[0], excess[-1]


# -- gradient learning -----------------------------------------------------------------------------


def gradient_descent(gram, X, y, slope, width, unit, steps, regularization, batch_size):
    """Descend E w(x - x') l(f(x).(x - x'), y - y') / unit by batches: coefficients of f.

    The loss of a change is that of Ying and Zhou, Section 1, with w of Mukherjee and Zhou. Pairs
    are those of a batch, in both orders; each row's are averaged.
    """
    n, d = X.shape
    a = np.zeros((n, d))
    for step, start in zip(steps, range(0, n, batch_size), strict=True):
        rows = range(start, min(start + batch_size, n))
        new = (1.0 - step * regularization) * a
        for i in rows:
            f = sum((gram[i, k] * a[k] for k in range(start)), np.zeros(d))
            for j in rows:
                if i == j:
                    continue
                apart = X[i] - X[j]
                near = np.exp(-(apart @ apart) / (2.0 * width**2))
                pull = near * slope(f @ apart - (y[i] - y[j]))
                new[i] -= step * pull * apart / (unit * (batch_size - 1) * len(rows))
        a = new
    return a


def gradient_solution(gram, X, y, width, unit, regularization):
    """Minimise the same with a squared loss over all pairs of rows: coefficients of f."""
    n, d = X.shape
    system, right = np.zeros((n, d, n, d)), np.zeros((n, d))
    for i in range(n):
        for j in range(n):
            apart = X[i] - X[j]
            share = np.exp(-(apart @ apart) / (2.0 * width**2)) / (unit * (n - 1) * n)
            right[i] += share * (y[i] - y[j]) * apart
            for k in range(n):
                system[i, :, k] += share * gram[i, k] * np.outer(apart, apart)
        for c in range(d):  # of regularization |f|² / 2, less the kernel that all terms have
            system[i, c, i, c] += regularization
    a = np.linalg.solve(system.reshape(n * d, n * d), right.ravel())
    return a.reshape(n, d)
