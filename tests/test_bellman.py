"""The objectives of policy evaluation: their steps, and where they come to rest."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer.objectives import Batch, Bellman
from mercer.objectives.bellman import METHODS, transition_targets
from oracles_policy import (
    chain_value,
    finite_chain,
    lqr_trajectory,
    lqr_value,
    lstd,
    radial_basis,
    tracker_stationary_point,
)

DISCOUNT = 0.9


def batch_of(objective, *outcomes, begins=None, weights=None):
    targets = transition_targets(objective.discount, outcomes, begins)
    n = len(targets) // objective.n_rows
    weights = np.ones(n) if weights is None else weights
    return Batch(np.zeros((len(targets), 1)), targets, np.repeat(weights, objective.n_rows))


def random_values(objective, n, seed=0):
    shape = n * objective.n_rows, objective.n_outputs
    return np.random.default_rng(seed).normal(size=shape)


def random_batch(objective, n, seed=1, **changes):
    rng = np.random.default_rng(seed)
    outcomes = [
        (rng.normal(size=n), rng.uniform(size=n) < 0.3) for _ in range(objective.n_rows - 1)
    ]
    return batch_of(objective, *outcomes, **changes)


def all_transitions(objective, values):
    """Every transition of the finite chain, weighted by how often it happens."""
    P, R, shares = finite_chain()
    places = np.array([(i, j) for i in range(3) for j in range(3)])
    states, following = places[:, 0], places[:, 1]
    weights = 9.0 * shares[states] * P[states, following]
    batch = batch_of(objective, (R[states, following], np.zeros(9, bool)), weights=weights)
    return batch, values[places.ravel()], places


# -- single steps ----------------------------------------------------------------------------------

# V(x) = 1, V(x+) = 4, r = 2, h(x) = 0.5, h(x+) = 7: delta = 2 + 0.9 * 4 - 1 = 4.6.
STEPS = {
    "td": ([-4.6, 0.0], None),
    "gtd2": ([-0.5, 0.9 * 0.5], [-0.3 * (4.6 - 0.5), 0.0]),
    "tdc": ([-4.6, 0.9 * 0.5], [-0.3 * (4.6 - 0.5), 0.0]),
    "residual": ([-4.6, 0.9 * 4.6], None),
    "pkgtd": ([-0.3 * 4.6, 0.9 * 0.3 * 4.6], None),
}


@pytest.mark.parametrize("method", STEPS)
def test_a_step_is_that_of_the_table(method):
    objective = Bellman(DISCOUNT, method, 0.3)
    values = np.array([[1.0, 0.5], [4.0, 7.0]])[:, : objective.n_outputs]
    slopes, losses = objective.slopes(values, batch_of(objective, ([2.0], [False])))
    for column, expected in enumerate(STEPS[method][: objective.n_outputs]):
        assert_allclose(slopes[:, column], expected)
    assert_allclose(losses, [4.6**2] * 2)


def test_double_sampling_multiplies_each_outcome_by_the_other():
    objective = Bellman(DISCOUNT, "double_sampling")
    values = np.array([[1.0], [4.0], [3.0]])
    slopes, losses = objective.slopes(
        values, batch_of(objective, ([2.0], [False]), ([0.0], [True]))
    )
    first, second = 4.6, -1.0  # 0 + 0 - 1: the second outcome is the end
    assert_allclose(slopes[:, 0], [-(first + second) / 2, 0.9 * second / 2, 0.0])
    assert_allclose(losses, [(first**2 + second**2) / 2] * 3)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_flows_back_from_beyond_the_end_of_an_episode(method):
    objective = Bellman(DISCOUNT, method)
    outcomes = [([2.0], [True])] * (objective.n_rows - 1)
    values = random_values(objective, 1)
    slopes, losses = objective.slopes(values, batch_of(objective, *outcomes))
    assert_allclose(slopes[1:], 0.0)
    assert_allclose(losses, (2.0 - values[0, 0]) ** 2)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "pkgtd"])
def test_a_batch_is_the_weighted_mean_of_its_transitions(method):
    objective = Bellman(DISCOUNT, method)
    weights = np.array([1.0, 0.0, 2.5, 0.5])
    batch, values = random_batch(objective, 4, weights=weights), random_values(objective, 4)
    slopes, losses = objective.slopes(values, batch)
    m = objective.n_rows
    for i, weight in enumerate(weights):
        rows = slice(i * m, (i + 1) * m)
        one = Batch(batch.X[rows], batch.targets[rows], np.ones(m))
        alone, loss = objective.slopes(values[rows], one)
        assert_allclose(slopes[rows], weight * alone / 4)
        assert_allclose(losses[rows], loss)


# -- the running mean of PKGTD ---------------------------------------------------------------------


def test_tracker_moves_along_the_batch_and_forgets_where_a_trajectory_begins():
    objective = Bellman(DISCOUNT, "pkgtd", 0.25)
    begins, weights = [False, False, True, False], np.array([1.0, 2.0, 1.0, 0.5])
    batch = random_batch(objective, 4, begins=begins, weights=weights)
    values = random_values(objective, 4)
    deltas = (
        batch.targets[::2, 0] + batch.targets[::2, 1] * values[1::2, 0] - values[::2, 0]
    ) * weights
    objective.tracked = 3.0
    slopes, _ = objective.slopes(values, batch)
    z = [0.75 * 3.0 + 0.25 * deltas[0]]
    z += [0.75 * z[0] + 0.25 * deltas[1], 0.25 * deltas[2]]
    z += [0.75 * z[2] + 0.25 * deltas[3]]
    assert_allclose(slopes[::2, 0], -np.array(z) / 4)
    assert_allclose(slopes[1::2, 0], batch.targets[::2, 1] * z / 4)
    assert objective.tracked == 3.0  # slopes are pure
    objective.update(values, batch, 0.1)
    assert_allclose(objective.tracked, z[-1])


@pytest.mark.parametrize("method", METHODS)
def test_slopes_are_pure_and_the_state_is_all_that_an_update_changes(method):
    objective = Bellman(DISCOUNT, method)
    batch, values = random_batch(objective, 3), random_values(objective, 3)
    before = objective.state()
    first, _ = objective.slopes(values, batch)
    again, _ = objective.slopes(values, batch)
    assert np.array_equal(first, again)
    assert objective.state() == before
    objective.update(values, batch, 0.5)
    other = Bellman(DISCOUNT, method)
    other.set_state(objective.state())
    assert np.array_equal(objective.slopes(values, batch)[0], other.slopes(values, batch)[0])
    with pytest.raises(ValueError, match="is not the state"):
        objective.set_state({"threshold": 1.0})


# -- where they come to rest -----------------------------------------------------------------------


@pytest.mark.parametrize(("method", "rests"), [("td", 1), ("gtd2", 1), ("tdc", 1), ("residual", 0)])
def test_stationary_point_is_that_of_temporal_differences(method, rests):
    P, R, shares = finite_chain()
    phi = np.array([[1.0, 0.2], [0.3, 1.0], [0.8, 0.5]])  # 2 features: V is not exact
    states, following = np.divmod(np.arange(9), 3)
    weights = shares[states] * P[states, following]
    theta = lstd(phi[states], R[states, following], phi[following], DISCOUNT, weights)
    values = np.column_stack([phi @ theta, np.zeros(3)])  # E[delta phi] = 0 there, so h = 0
    objective = Bellman(DISCOUNT, method)
    batch, values, places = all_transitions(objective, values[:, : objective.n_outputs])
    slopes, _ = objective.slopes(values, batch)
    gradient = phi[places.ravel()].T @ slopes
    assert (np.abs(gradient).max() < 1e-12) == bool(rests)
    assert not np.allclose(phi @ theta, chain_value(P, R, DISCOUNT), atol=0.1)


@pytest.mark.parametrize("method", ["gtd2", "tdc"])
def test_second_function_rests_at_the_expected_temporal_difference(method):
    P, R, _ = finite_chain()
    V = np.array([1.0, -2.0, 0.5])
    h = (P * R).sum(axis=1) + DISCOUNT * P @ V - V
    objective = Bellman(DISCOUNT, method)
    batch, values, places = all_transitions(objective, np.column_stack([V, h]))
    slopes, _ = objective.slopes(values, batch)
    by_state = [slopes[places.ravel() == s, 1].sum() for s in range(3)]
    assert_allclose(by_state, 0.0, atol=1e-12)


def derivatives(function, at, h=1e-6):
    unit = h * np.eye(at.size)
    return np.array([(function(at + u) - function(at - u)) / (2 * h) for u in unit])


def test_residual_gradient_is_that_of_the_squared_temporal_difference():
    P, R, shares = finite_chain()

    def objective_value(V):
        delta = R + DISCOUNT * V[None, :] - V[:, None]
        return 0.5 * np.sum(shares[:, None] * P * delta**2)

    V = np.array([1.0, -2.0, 0.5])
    batch, values, places = all_transitions(Bellman(DISCOUNT, "residual"), V[:, None])
    slopes, _ = Bellman(DISCOUNT, "residual").slopes(values, batch)
    by_state = [slopes[places.ravel() == s].sum() for s in range(3)]
    assert_allclose(by_state, derivatives(objective_value, V), atol=1e-8)


def test_double_sampling_is_the_gradient_of_the_squared_expectation():
    P, R, shares = finite_chain()

    def objective_value(V):  # COLK, eq. (15)
        expected = (P * R).sum(axis=1) + DISCOUNT * P @ V - V
        return 0.5 * np.sum(shares * expected**2)

    V = np.array([1.0, -2.0, 0.5])
    x, a, b = (index.ravel() for index in np.indices((3, 3, 3)))
    objective = Bellman(DISCOUNT, "double_sampling")
    none = np.zeros(27, bool)
    weights = 27.0 * shares[x] * P[x, a] * P[x, b]
    batch = batch_of(objective, (R[x, a], none), (R[x, b], none), weights=weights)
    places = np.column_stack([x, a, b]).ravel()
    slopes, _ = objective.slopes(V[places][:, None], batch)
    by_state = [slopes[places == s].sum() for s in range(3)]
    assert_allclose(by_state, derivatives(objective_value, V), atol=1e-8)


@pytest.fixture(scope="module")
def trajectory():
    states, rewards, next_states = lqr_trajectory(20_000, seed=0)
    centres = np.linspace(-2.0, 2.0, 9)[:, None]
    phi, phi_next = (radial_basis(x, centres, 0.5) for x in (states, next_states))
    return states, phi, rewards, phi_next


def test_tracker_with_rate_one_minus_discount_rests_where_lstd_does(trajectory):
    states, phi, rewards, phi_next = trajectory
    exact = lstd(phi, rewards, phi_next, DISCOUNT)
    values, errors = lqr_value(states, DISCOUNT), {}
    for rate in (0.01, 0.1, 0.5):
        found = tracker_stationary_point(phi, rewards, phi_next, DISCOUNT, rate)
        errors[rate] = np.sqrt(np.mean((phi @ found - values) ** 2))
        if rate == 0.1:
            # Equal but for the ends of the trajectory: 1 / (0.1 * 20,000) of the whole.
            assert np.sqrt(np.mean((phi @ (found - exact)) ** 2)) < 0.03
    # Standard deviation of the values: 2.4. Too slow and too quick a tracker are biased.
    assert errors[0.1] < 0.5
    assert errors[0.01] > errors[0.1] + 0.3
    assert errors[0.5] > 1.2


def test_slopes_of_the_tracker_add_up_to_the_batch_equations(trajectory):
    _, phi, rewards, phi_next = trajectory
    for rate in (0.1, 0.3):
        theta = tracker_stationary_point(phi, rewards, phi_next, DISCOUNT, rate)
        objective = Bellman(DISCOUNT, "pkgtd", rate)
        total, size = np.zeros(9), np.zeros(9)
        for start in range(0, 20_000, 500):
            rows = slice(start, start + 500)
            both = np.stack([phi[rows], phi_next[rows]], axis=1).reshape(-1, 9)
            batch = batch_of(objective, (rewards[rows], np.zeros(500, bool)))
            values = (both @ theta)[:, None]
            slopes = objective.slopes(values, batch)[0][:, 0]
            objective.update(values, batch, 0.1)
            total += both.T @ slopes
            size += np.abs(both.T) @ np.abs(slopes)
        assert np.abs(total).max() < 1e-9 * size.max()


# -- how fast they move ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", [m for m in METHODS if m != "pkgtd"])
def test_steps_are_stable_up_to_the_rate(method):
    objective = Bellman(DISCOUNT, method)
    n = 20
    states, _, next_states = lqr_trajectory(n, seed=3)
    points = [states, next_states, next_states][: objective.n_rows]
    rows = np.stack(points, axis=1).reshape(-1, 1)
    gram = radial_basis(rows, rows, 0.5)
    outcomes = [(np.zeros(n), np.zeros(n, bool))] * (objective.n_rows - 1)
    batch = batch_of(objective, *outcomes)
    rate = objective.top_rate(gram, batch.targets)
    for factor, stable in ((1.0, True), (3.0, False)):
        coefficients = random_values(objective, n)
        for _ in range(300):
            slopes, _ = objective.slopes(gram @ coefficients, batch)
            coefficients = coefficients - factor / rate * slopes
        assert (np.abs(gram @ coefficients).max() < 10.0) == stable


def test_without_discount_temporal_differences_are_regression():
    objective = Bellman(0.0)
    states, _, next_states = lqr_trajectory(15, seed=3)
    rows = np.stack([states, next_states], axis=1).reshape(-1, 1)
    targets = transition_targets(0.0, [(np.ones(15), np.zeros(15, bool))])
    rate = objective.top_rate(radial_basis(rows, rows, 0.5), targets)
    assert_allclose(rate, np.linalg.eigvalsh(radial_basis(states, states, 0.5))[-1] / 15)
    assert_allclose(
        Bellman(0.0).batch_rate(radial_basis(rows, rows, 0.5), targets, np.ones(30)), rate
    )


@pytest.mark.parametrize("spread", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("method", METHODS)
def test_steps_over_and_over_on_one_batch_are_stable_up_to_its_rate(method, discount, spread):
    objective = Bellman(discount, method)
    n, rng = 12, np.random.default_rng(0)
    path = np.cumsum(spread * rng.normal(size=n + 1))[:, np.newaxis]
    # Outcomes that differ may leave the squared expectation of one batch without a minimum.
    points = [path[:-1], path[1:], path[1:]][: objective.n_rows]
    rows = np.stack(points, axis=1).reshape(-1, 1)
    gram = radial_basis(rows, rows, 0.5)
    outcomes = [(np.zeros(n), np.arange(n) == 4)] * (objective.n_rows - 1)
    weights = rng.uniform(0.5, 20.0, size=n)
    batch = batch_of(objective, *outcomes, begins=np.arange(n) == 5, weights=weights)
    rate = objective.batch_rate(gram, batch.targets, batch.weights)
    coefficients = random_values(objective, n)
    for _ in range(500):
        values = gram @ coefficients
        slopes, _ = objective.slopes(values, batch)
        objective.update(values, batch, 1.5 / rate)
        coefficients = coefficients - 1.5 / rate * slopes
    assert np.abs(gram @ coefficients).max() < 30.0 * np.abs(gram).sum(axis=1).max()


@pytest.mark.parametrize("method", METHODS)
def test_rates_of_large_batches_are_bounded_by_sums(method, monkeypatch):
    objective = Bellman(DISCOUNT, method)
    batch = random_batch(objective, 10)
    rows = np.random.default_rng(2).normal(size=(10 * objective.n_rows, 1))
    arguments = radial_basis(rows, rows, 0.5), batch.targets, batch.weights
    exact = objective.batch_rate(*arguments)
    monkeypatch.setattr("mercer.objectives.bellman._MOST_FOR_NORM", 0)
    assert exact < objective.batch_rate(*arguments) < 4.0 * exact


# -- parameters ------------------------------------------------------------------------------------


def test_wrong_parameters_are_refused():
    for discount in (1.0, -0.1, np.nan, "0.9", None):
        with pytest.raises(ValueError, match=r"`discount` must be a finite number in \[0, 1\)"):
            Bellman(discount)
    with pytest.raises(ValueError, match="which has no bound"):
        Bellman(1.0)
    with pytest.raises(ValueError, match="`method` must be one of 'td', 'gtd2'"):
        Bellman(0.9, "lstd")
    for method, value in (("pkgtd", 1.1), ("pkgtd", 0.0), ("gtd2", 0.0), ("tdc", -1.0)):
        with pytest.raises(ValueError, match="`auxiliary_step`"):
            Bellman(0.9, method, value)
    assert Bellman(0.9, "pkgtd").auxiliary == pytest.approx(0.1)
