"""Bounds of the papers beside what is measured.

"says" is a bound that `mercer.theory` computes, and "measured" is what it bounds. "says / measured"
is 1 where a bound is attained. "if nothing is done" is the same quantity for f = 0, or, of model
orders, for a model that keeps every row. A bound that is not below it says nothing.

*Rows.* There are 60 inputs, evenly on [0, 1], each as likely as the others. A row is of class +1
with the probability 1 / (1 + exp(-g(x))). g is a combination of three Gaussian kernels of length
scale 0.2, with the norm 2.8. So all means and all optima are sums over 60 points, without error.
The loss is the logistic one. Rows named "plane" are of [0, 1]² instead.

*Methods.* POLK, and COLK with its model order, are mercer's own estimators. The others are loops
over the 60 points, written as the papers print the algorithms, of 40 runs side by side. COLK needs
a problem whose optimum is known: E_theta log cosh(E f(x) - theta), theta = 1 ± 1/2. Its loop does
not compress, so the model order beside its Theorem 2 is that of all 60 points.

*Measured* is the mean of the runs, or the largest of them where a bound holds with high probability
(delta = .01) or always. Of POLK there is one run of 4,000 steps. The distance to the optimum is the
least of its last 2,000 steps, and sigma² of Theorem 2 the largest that was met.
"""

from __future__ import annotations

import math

import _common
import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit

from mercer import KernelClassifier, KernelRegressor, theory
from mercer.expansions import KOMP
from mercer.kernels import Gaussian
from mercer.losses import Huber
from mercer.risks import UpperSemideviation
from mercer.schedules import PowerDecay

LENGTH, RUNS, DELTA = 0.2, 40, 0.01
KERNEL = Gaussian(LENGTH)
X = np.linspace(0.0, 1.0, 60)[:, None]
K = KERNEL(X, X)
CENTRES = np.array([[0.2], [0.5], [0.8]])
HEIGHTS = np.array([2.0, -2.5, 2.0])
G = KERNEL(X, CENTRES) @ HEIGHTS
NORM = math.sqrt(HEIGHTS @ KERNEL(CENTRES, CENTRES) @ HEIGHTS)
P = expit(G)


def risk(scores):
    """Mean logistic loss of scores at the points, of each run."""
    return -np.mean(P * log_expit(scores) + (1 - P) * log_expit(-scores), axis=-1)


def optimum(ridge):
    """Coefficients at the points that minimise the risk with a ridge."""
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))

    def objective(b):
        scores = root @ b
        slopes = (expit(scores) - P) / len(P)
        return risk(scores) + ridge / 2 * b @ b, root.T @ slopes + ridge * b

    found = minimize(objective, np.zeros(len(K)), jac=True, method="L-BFGS-B", tol=1e-14)
    return np.linalg.solve(root.T, found.x)


def labels(rng, points):
    return np.where(rng.random(points.shape) < P[points], 1.0, -1.0)


def row(paper, bound, setting, says, measured, nothing=None):
    return {
        "paper": paper,
        "bound of": bound,
        "setting": setting,
        "says": f"{says:.3g}",
        "measured": f"{measured:.3g}",
        "says / measured": f"{says / measured:.2g}",
        "if nothing is done": "-" if nothing is None else f"{nothing:.3g}",
    }


# -- POLK ------------------------------------------------------------------------------------------


def polk(ridge, step, parsimony):
    rng = np.random.default_rng(0)
    drawn = rng.integers(60, size=4000)
    y = labels(rng, drawn)
    model = KernelClassifier(
        "logistic",
        kernel=KERNEL,
        expansion=KOMP(parsimony=parsimony),
        step_size=step,
        regularization=ridge,
        batch_size=1,
        average=None,
    )
    best = optimum(ridge)
    norms, distances, variances, orders = [], [], [], []
    for first in range(0, 4000, 5):
        part = slice(first, first + 5)
        model.partial_fit(X[drawn[part]], y[part] > 0, classes=[False, True])
        points = model.dictionary_
        if not len(points):
            continue
        w = model.coefficients_.ravel()
        cross, norm2 = KERNEL(X, points), w @ KERNEL(points, points) @ w
        norms.append(math.sqrt(norm2))
        orders.append(len(points))
        scores = cross @ w
        gap = norm2 - 2 * best @ scores + best @ K @ best
        distances.append(math.sqrt(max(gap, 0.0)))
        slopes = P * expit(-scores) ** 2 + (1 - P) * expit(scores) ** 2
        mean = 2 * ridge * (expit(scores) - P) @ scores / 60
        variances.append(np.mean(slopes) + mean + ridge**2 * norm2)
    setting = f"step {step}, ridge {ridge}, K {parsimony}"
    bias = theory.polk_bias(step_size=step, tolerance=parsimony * step**1.5)
    used = {"step_size": step, "regularization": ridge, "parsimony": parsimony}
    variance = (math.sqrt(max(variances)) + bias) ** 2
    norm = theory.polk_norm(slope_bound="logistic", kernel_bound=KERNEL, regularization=ridge)
    order = theory.polk_model_order(
        KERNEL, theory.Box((1.0,)), step_size=step, parsimony=parsimony, slope_bound="logistic"
    )
    moved = model.history_.compression_error.max() / step
    radius = theory.polk_radius(variance=variance, **used)
    away = math.sqrt(best @ K @ best)
    return [
        row("POLK", "norm of f (Proposition 5)", setting, norm, max(norms)),
        row("POLK", "bias of a step (Proposition 6)", setting, bias, moved),
        row(
            "POLK",
            "distance to the optimum (Theorem 2)",
            setting,
            radius,
            min(distances[400:]),
            away,
        ),
        row("POLK", "model order (Theorem 3)", setting, order, max(orders), 4000),
    ]


def polk_plane(step, ridge, parsimony):
    rng = np.random.default_rng(0)
    rows = rng.random((4000, 2))
    y = rng.random(4000) < expit(4 * np.sin(6 * rows.sum(axis=1)))
    model = KernelClassifier(
        "logistic",
        kernel=KERNEL,
        expansion=KOMP(parsimony=parsimony),
        step_size=step,
        regularization=ridge,
        batch_size=1,
        average=None,
    ).partial_fit(rows, y)
    order = theory.polk_model_order(
        KERNEL, theory.Box((1.0, 1.0)), step_size=step, parsimony=parsimony, slope_bound="logistic"
    )
    largest = int(model.history_.model_order.max())
    setting = f"step {step}, ridge {ridge}, K {parsimony}, plane"
    return row("POLK", "model order (Theorem 3)", setting, order, largest, 4000)


# -- COLK ------------------------------------------------------------------------------------------


def colk_order(dimension, step, tolerance):
    rng = np.random.default_rng(0)
    rows = rng.random((2000, dimension))
    y = 2 * rows[:, 0] + np.sin(6 * rows.sum(axis=1)) + 0.3 * rng.normal(size=2000)
    model = KernelRegressor(
        Huber(1.0),
        risk=UpperSemideviation(1.0),
        kernel=KERNEL,
        expansion=KOMP(tolerance=tolerance),
        step_size=step,
        regularization=1e-5,
        batch_size=1,
        average=None,
        random_state=0,
    ).partial_fit(rows, y)
    # Slopes of the outer function are at most 2, those of the inner one at most 1.
    order = theory.colk_model_order(
        step_size=step,
        tolerance=tolerance,
        dimension=dimension,
        slope_bound=2.0,
        inner_slope_bound=Huber(1.0),
        packing_constant=(math.sqrt(2 * dimension) / LENGTH + 2) ** dimension,
    )
    domain = theory.Box((1.0,) * dimension)
    packed = theory.packing_number(KERNEL, domain, tolerance / (step * 2.0))
    largest = int(model.history_.model_order.max())
    setting = f"step {step}, tolerance {tolerance}" + ", plane" * (dimension == 2)
    return [
        row("COLK", "model order (Theorem 1)", setting, order, largest, 2000),
        row("COLK", "model order (points with room)", setting, packed, largest, 2000),
    ]


def colk_distance(accuracy):
    """Algorithm 1 without compression, with the settings of Theorem 2 for an accuracy."""
    targets = np.array([0.5, 1.5])
    mean = K.mean()  # squared norm of the function whose product with f is the mean of f
    problem = theory.COLKBounds(
        strong_convexity=0.5,
        outer_curvature=1.0,
        inner_lipschitz=1.0,
        inner_slope=1.0,
        gradient_variance=1.0,  # slopes of log cosh are below 1, and the ridge below pulls back
        inner_variance=0.05,
        distance=1.0,
        solution_norm=0.5,
    )
    asked = problem.settings(accuracy)
    ridge, step, rate = asked.regularization, asked.step_size, asked.tracker_rate

    def slope(c):
        return ridge * c + np.tanh(c * mean - targets).mean()

    best = brentq(slope, 0.0, 10.0)  # the optimum is that function times a number
    rng = np.random.default_rng(0)
    f, before = np.zeros((RUNS, 60)), np.zeros((RUNS, 60))  # values at the points
    a, g = np.zeros((RUNS, 60)), np.zeros(RUNS)
    runs = np.arange(RUNS)
    errors, spreads, steps = [], [], []
    for _ in range(int(asked.n_steps)):
        point, theta = rng.integers(60, size=RUNS), targets[rng.integers(2, size=RUNS)]
        g = (1 - rate) * (g - before[runs, point]) + f[runs, point]
        errors.append(np.mean((g - f.mean(axis=1)) ** 2))
        spreads.append(f.var(axis=1).max())
        before = f.copy()
        move = np.tanh(g - theta)
        steps.append(np.mean(move**2 + 2 * ridge * move * f[runs, point]))
        f = (1 - step * ridge) * f - step * move[:, None] * K[point]
        a *= 1 - step * ridge
        a[runs, point] -= step * move
    apart = a - best / 60
    norms = np.sqrt(np.einsum("ri,ij,rj->r", a, K, a))
    distance = np.mean(np.einsum("ri,ij,rj->r", apart, K, apart))
    assert max(spreads) <= problem.inner_variance, "the constant does not bound the variance"
    assert max(steps) + (ridge * norms.max()) ** 2 <= problem.gradient_variance
    assert best * math.sqrt(mean) <= problem.solution_norm
    assert norms.max() + best * math.sqrt(mean) <= problem.distance
    used = {"step_size": step, "tracker_rate": rate, "tolerance": 0.0}
    says = problem.squared_distance(asked.n_steps, **used)
    tracked = problem.tracking_error(**used)
    setting = f"settings for {accuracy}: step {step:.2g}, rate {rate:.2g}, ridge {ridge:.2g}"
    long = f"{setting}, {int(asked.n_steps):,} steps"
    order = theory.colk_model_order(
        step_size=step,
        tolerance=asked.tolerance,
        dimension=1,
        slope_bound=1.0,
        packing_constant=math.sqrt(2) / LENGTH + 2,
    )
    return [
        row("COLK", "squared distance (Theorem 2)", long, says, distance, best**2 * mean),
        row("COLK", "squared error of the tracker (Lemma 1)", setting, tracked, max(errors)),
        row(
            "COLK",
            f"model order, tolerance {asked.tolerance:.1g} (Theorem 2)",
            setting,
            order,
            60,
            asked.n_steps,
        ),
    ]


# -- DSG -------------------------------------------------------------------------------------------


def dsg(ridge, n_steps):
    rng = np.random.default_rng(0)
    best = optimum(ridge)
    scores = K @ best
    bounds = theory.DSGBounds(
        scale=1 / ridge,
        regularization=ridge,
        slope_bound="logistic",
        curvature="logistic",
        solution_norm=math.sqrt(best @ scores),
        kernel_bound=KERNEL,
    )
    f = np.zeros((RUNS, 60))
    runs = np.arange(RUNS)
    for t in range(1, n_steps + 1):
        point = rng.integers(60, size=RUNS)
        y = labels(rng, point)
        frequency = rng.normal(size=(RUNS, 1)) / LENGTH
        phase = rng.uniform(0, 2 * math.pi, size=(RUNS, 1))
        features = math.sqrt(2) * np.cos(frequency * X.T + phase)
        slope = -y * expit(-y * f[runs, point])
        step = 1 / (ridge * t)
        f = (1 - step * ridge) * f - (step * slope * features[runs, point])[:, None] * features
    errors = (f - scores) ** 2
    excess = risk(f) - risk(scores)
    setting = f"ridge {ridge}, {n_steps:,} steps"
    zero = risk(np.zeros(60)) - risk(scores)
    top, mean = (scores**2).max(), (scores**2).mean()
    error = bounds.squared_error(n_steps)
    likely = bounds.likely_squared_error(n_steps, DELTA, everywhere=True)
    of_risk = bounds.likely_excess_risk(n_steps, DELTA)
    return [
        row("DSG", "squared error at any x (Theorem 4)", setting, error, errors.mean(0).max(), top),
        row("DSG", "the same, likely (Corollary 12)", setting, likely, errors.mean(1).max(), mean),
        row("DSG", "excess risk, likely (Theorem 6)", setting, of_risk, excess.max(), zero),
    ]


# -- Ying and Zhou ---------------------------------------------------------------------------------


def unregularized(c, theta, n_steps):
    rng = np.random.default_rng(0)
    steps, given = PowerDecay(c, theta), {"kernel_bound": KERNEL, "solution_norm": NORM}
    f, a = np.zeros((RUNS, 60)), np.zeros((RUNS, 60))
    runs, highest = np.arange(RUNS), 0.0
    for t in range(1, n_steps + 1):
        point = rng.integers(60, size=RUNS)
        y = labels(rng, point)
        move = -steps(t) * -y * expit(-y * f[runs, point])
        f += move[:, None] * K[point]
        a[runs, point] += move
        highest = max(highest, risk(f).mean())
    excess = np.mean(risk(f) - risk(G))
    limits = theory.unregularized_limits(steps, "logistic", **given)
    rate = theory.unregularized_rate(steps, "logistic", **given)
    setting = f"c {c}, theta {theta:.3g}"
    long = f"{setting}, {n_steps:,} rows"
    start = risk(np.zeros(60))
    norm2 = np.einsum("ri,ij,rj->r", a, K, a)
    apart = np.mean(norm2 - 2 * a @ G + NORM**2)
    return [
        row("Ying & Zhou", "risk at every step (Theorem 1)", setting, limits.risk, highest, start),
        row(
            "Ying & Zhou",
            "squared distance (Theorem 1)",
            long,
            limits.squared_distance,
            apart,
            NORM**2,
        ),
        row("Ying & Zhou", "excess risk (Theorem 2)", long, rate(n_steps), excess, start - risk(G)),
    ]


def pairwise(c, theta, n_rows):
    rng = np.random.default_rng(0)
    steps = PowerDecay(c, theta)
    pairs = P[:, None] * (1 - P)  # that the first is of class +1 and the second is not

    def pair_risk(scores):
        return -2 * np.mean(pairs * log_expit(2 * (scores[:, None] - scores)))

    half = G / 2  # its differences are the optimum
    slopes = expit(-2 * (half[:, None] - half)) ** 2
    variance = 2 * np.mean(pairs * slopes * 4 * (2 - 2 * K))
    norms, excess, apart = [], [], []
    known = {"kernel_bound": 2.0, "solution_norm": NORM / 2, "variance": variance}
    for _ in range(10):
        g, a, seen = np.zeros(60), np.zeros(60), {1.0: np.zeros(60), -1.0: np.zeros(60)}
        for t in range(1, n_rows + 1):
            point = rng.integers(60, size=1)
            y = float(labels(rng, point)[0])
            point = int(point[0])
            if t > 1:
                margins = 2 * y * (g[point] - g)
                move = steps(t) / (t - 1) * seen[-y] * 2 * y * expit(-margins)
                a -= move
                a[point] += move.sum()
                g += move.sum() * K[point] - K @ move
            seen[y][point] += 1
        norms.append(math.sqrt(a @ K @ a))
        excess.append(pair_risk(g) - pair_risk(half))
        apart.append(norms[-1] ** 2 - a @ G + (NORM / 2) ** 2)
    rate = theory.pairwise_rate(steps, "logistic", **known)
    norm = theory.pairwise_norm(steps, "logistic", n_rows)
    distance = theory.pairwise_distance(steps, "logistic", n_rows, **known)
    setting = f"c {c}, theta {theta}, {n_rows:,} rows"
    return [
        row(
            "Ying & Zhou",
            "squared distance, learned from pairs (Lemma 3)",
            setting,
            distance,
            np.mean(apart),
            (NORM / 2) ** 2,
        ),
        row("Ying & Zhou", "norm, learned from pairs (Lemma 4)", setting, norm, max(norms)),
        row(
            "Ying & Zhou",
            "excess risk of pairs (Theorem 4)",
            setting,
            rate(n_rows),
            np.mean(excess),
            pair_risk(np.zeros(60)) - pair_risk(half),
        ),
    ]


def main():
    rows = [
        *polk(0.1, 0.5, 0.02),
        *polk(0.001, 0.5, 0.02),
        *polk(0.1, 0.05, 0.02),
        polk_plane(0.5, 0.001, 0.02),
        *colk_order(1, 0.02, 0.002),
        *colk_order(2, 0.02, 0.002),
        *colk_distance(0.05),
        *dsg(0.1, 100),
        *dsg(0.1, 4000),
        *dsg(0.01, 4000),
        *unregularized(1.0, 2 / 3, 10_000),
        *unregularized(4.0, 2 / 3, 10_000),
        *pairwise(0.5, 0.8, 3000),
    ]
    _common.publish("bounds", rows)


if __name__ == "__main__":
    main()
