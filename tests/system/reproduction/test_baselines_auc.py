"""The linear one-pass learners of the AUC do the steps that they say they do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from mercer.exceptions import DivergenceError
from mercer_reproduction.baselines.opauc import OPAUC, SOLAM

STEP, RIDGE, RADIUS = 0.05, 0.02, 0.3
SOLVERS = {
    "OPAUC": lambda X, y, **more: OPAUC(X, y, step_size=STEP, regularization=RIDGE, **more),
    "SOLAM": lambda X, y, **more: SOLAM(X, y, step_size=0.5, radius=RADIUS, **more),
}


def problem(n=60, seed=0):
    """Rows with unequal classes and a mean that is not 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) + 0.5
    y = np.where(X @ [1.0, -0.5, 0.0] + 0.5 * rng.standard_normal(n) > 1.0, 1.0, -1.0)
    return X, y


def visit(solver, n_rows):
    visited = 0
    while visited < n_rows:
        visited += solver.step()
    assert visited == n_rows
    return solver


def opauc_with_all_rows_kept(X, y):
    """Gradient of the mean over all earlier rows of the other class, summed pair by pair."""
    w = np.zeros(X.shape[1])
    for t in range(len(y)):
        others = [X[j] for j in range(t) if y[j] != y[t]]
        if others:
            pairs = [(1.0 - y[t] * w @ (X[t] - x)) * -y[t] * (X[t] - x) for x in others]
            w = w - STEP * (RIDGE * w + np.mean(pairs, axis=0))
    return w


def solam_by_numeric_gradients(X, y, step=0.5):
    """Central differences of the saddle function, exact as it is quadratic."""
    d = X.shape[1]

    def saddle(v, x, label, p):
        w, a, b, alpha = v[:d], v[d], v[d + 1], v[d + 2]
        own = (1 - p) * (w @ x - a) ** 2 if label > 0 else p * (w @ x - b) ** 2
        signed = -(1 - p) if label > 0 else p
        return own + 2 * (1 + alpha) * (w @ x) * signed - p * (1 - p) * alpha**2

    v, reach = np.zeros(d + 3), RADIUS * np.linalg.norm(X, axis=1).max()
    bounds = reach * np.array([1.0, 1.0, 2.0])
    iterates, steps = [], []
    for t in range(len(y)):
        p = np.mean(y[: t + 1] > 0)
        steps.append(step / np.sqrt(t + 1))
        iterates.append(v[:d])
        at = [
            (saddle(v + h, X[t], y[t], p) - saddle(v - h, X[t], y[t], p)) / 2 for h in np.eye(d + 3)
        ]
        v = v - steps[-1] * np.array(at) * np.append(np.ones(d + 2), -1.0)
        v[:d] *= RADIUS / max(RADIUS, np.linalg.norm(v[:d]))
        v[d:] = np.clip(v[d:], -bounds, bounds)
    return np.average(iterates, axis=0, weights=steps)


ORACLES = {"OPAUC": opauc_with_all_rows_kept, "SOLAM": solam_by_numeric_gradients}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n", [3, 60])
def test_a_pass_is_that_of_the_definition(name, n):
    X, y = problem(n)
    solver = visit(SOLVERS[name](X, y), n)
    assert_allclose(solver.weights, ORACLES[name](X, y), rtol=1e-9, atol=1e-12)


def test_the_radius_of_solam_binds_in_these_tests():
    X, y = problem()
    wide = visit(SOLAM(X, y, step_size=0.5, radius=1e3), 60)
    assert np.linalg.norm(wide.weights) > RADIUS


@pytest.mark.parametrize("name", SOLVERS)
def test_the_batches_are_only_a_way_to_compute(name):
    X, y = problem()
    weights = [visit(SOLVERS[name](X, y, batch_size=b), 60).weights for b in (1, 7, 256)]
    assert_array_equal(weights[1], weights[0])
    assert_array_equal(weights[2], weights[0])


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_rows_of_a_single_class_give_finite_weights(name, label):
    X, _ = problem()
    solver = visit(SOLVERS[name](X, np.full(60, label)), 60)
    assert np.isfinite(solver.weights).all()


def test_opauc_comes_to_the_least_squares_solution_over_all_pairs():
    X, y = problem(400)
    solver = visit(OPAUC(X, y, step_size=0.002, regularization=RIDGE), 40 * 400)
    pairs = (X[y > 0][:, np.newaxis] - X[y < 0]).reshape(-1, 3)
    gram = pairs.T @ pairs / len(pairs) + RIDGE * np.eye(3)
    expected = np.linalg.solve(gram, pairs.mean(axis=0))
    assert_allclose(solver.weights, expected, atol=0.03 * np.linalg.norm(expected))


@pytest.mark.parametrize("name", SOLVERS)
def test_an_imbalanced_linear_problem_is_ranked_well_in_one_pass(name):
    X, y = problem(3000)
    solver = visit(SOLVERS[name](X[:2000], y[:2000]), 2000)
    best = roc_auc_score(y[2000:], X[2000:] @ [1.0, -0.5, 0.0])
    assert roc_auc_score(y[2000:], solver.decision_function(X[2000:])) > best - 0.01


def test_steps_that_are_too_large_are_reported():
    X, y = problem()
    with pytest.raises(DivergenceError, match="Use smaller steps"):
        visit(OPAUC(1e3 * X, y, step_size=1e6), 600)


@pytest.mark.parametrize("settings", [{"step_size": 0.0}, {"step_size": 1.0, "batch_size": 0}])
def test_settings_outside_their_range_are_refused(settings):
    X, y = problem()
    with pytest.raises(ValueError, match=r"step_size|batch_size"):
        OPAUC(X, y, **settings)
