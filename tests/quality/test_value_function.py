"""Value functions against exact ones, batch solutions and explicit recursions."""

import copy
import pickle
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from covering import covering
from mercer import ValueFunction, load_model, model_file
from mercer.exceptions import DivergenceError, TrajectoryWarning
from mercer.expansions import KOMP, Budget, Full, RandomFeatures
from mercer.inspection import unit_of_target
from mercer.kernels import Gaussian, Linear
from mercer.objectives.bellman import METHODS
from oracles_policy import (
    kernel_recursion,
    lqr_trajectory,
    lqr_value,
    monte_carlo_returns,
)

EXPANSIONS = [
    Full(),
    KOMP(),
    KOMP(max_size=10),
    Budget(40),
    RandomFeatures(mode="faithful", block_size=16),
]
DISCOUNT = 0.9


def make(method="td", **changes):
    return ValueFunction(
        DISCOUNT,
        method,
        **{"kernel": Gaussian(0.5), "batch_size": 4, "n_passes": 1, "random_state": 0} | changes,
    )


def transitions(n, method="td", seed=0):
    """Arguments of ``fit``, and those by keyword, for a trajectory with two ends."""
    states, rewards, next_states = lqr_trajectory(n, seed)
    terminals = np.zeros(n, dtype=bool)
    terminals[[n // 3, n - 1]] = True
    second = {}
    if method == "double_sampling":
        rng = np.random.default_rng(seed + 1)
        others = 0.9 * states + 0.3 * rng.normal(size=states.shape)
        second = {"second": (rewards + 1.0, others, terminals[::-1])}
    return (states, rewards, next_states, terminals), second


def cut(arguments, keywords, rows):
    parts = {name: tuple(a[rows] for a in value) for name, value in keywords.items()}
    return [a[rows] for a in arguments], parts


# -- exact values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [1, 2])
def test_automatic_choices_find_the_value_of_a_linear_quadratic_chain(n_features):
    train = lqr_trajectory(3000, 0, n_features)
    states = lqr_trajectory(3000, 1, n_features)[0]
    states = states[np.abs(states).max(axis=1) < 1.5]
    exact = lqr_value(states, DISCOUNT)
    model = ValueFunction(DISCOUNT, random_state=0).fit(*train)
    assert model.score(states, exact) > 0.9
    # The batch solution on the same points is what temporal differences converge to.
    phi, phi_next, at = (model.kernel_(x, model.dictionary_) for x in (train[0], train[2], states))
    # A ridge, since points are nearly dependent.
    weights = np.linalg.solve(
        phi.T @ (phi - DISCOUNT * phi_next) + 0.02 * model.kernel_(model.dictionary_),
        phi.T @ train[1],
    )
    rms = np.sqrt(np.mean(np.square(model.predict(states) - at @ weights)))
    assert rms < 0.25 * exact.std()


def test_values_of_a_walk_with_an_end():
    states, next_states = np.arange(3.0)[:, None], np.arange(1.0, 4.0)[:, None]
    rewards, terminals = [1.0, -2.0, 4.0], np.array([False, False, True])
    for method in ("td", "gtd2", "tdc", "double_sampling", "residual"):
        # The walk is not random, so all methods have the same solution.
        second = (rewards, next_states, terminals) if method == "double_sampling" else None
        model = ValueFunction(0.5, method, kernel=Gaussian(0.2), batch_size=3, n_passes=250)
        model.fit(states, rewards, next_states, terminals, second=second)
        assert_allclose(model.predict(states), [1.0, 0.0, 4.0], atol=0.03)
    # Cut off instead of ended: the value of the next state counts, here that of state 0.
    next_states[2] = 0.0
    model = ValueFunction(0.5, kernel=Gaussian(0.2), n_passes=250, random_state=0)
    model.fit(states, rewards, next_states)
    first = 1.0 / (1.0 - 0.125)  # V0 = 1 - 2 / 2 + 4 / 4 + V0 / 8
    assert_allclose(model.predict(states), [first, first / 4, 4.0 + first / 2], atol=0.03)


@pytest.mark.parametrize("method", ["td", "gtd2", "tdc", "pkgtd", "residual"])
def test_gradient_methods_and_trackers_approach_temporal_differences(method):
    # The others are there with half of the transitions, whatever is drawn.
    train = lqr_trajectory(20_000 if method in ("gtd2", "tdc", "pkgtd") else 10_000, 0)
    grid = np.linspace(-1.0, 1.0, 21)[:, None]
    exact = lqr_value(grid, DISCOUNT)
    batch_size = 8 if method == "pkgtd" else 32
    changes = {"auxiliary_step": 0.2} if method == "tdc" else {}  # quicker on-policy
    model = make(method, batch_size=batch_size, expansion=KOMP(tolerance=1e-3), **changes)
    model.fit(*train)
    error = np.sqrt(np.mean(np.square(model.predict(grid) - exact)))
    # Standard deviation of the values on the grid: 1.1.
    assert error > 0.8 if method == "residual" else error < 0.4


def test_transitions_of_another_policy_need_true_gradients():
    # V = theta x; only 1 -> 2 is ever seen. Temporal differences grow: 1 + 1.8 theta - theta.
    states = np.ones((4000, 1))
    arguments = states, np.ones(4000), 2.0 * states
    for method in ("gtd2", "tdc"):
        model = make(method, kernel=Linear(), batch_size=32, n_passes=5).fit(*arguments)
        assert_allclose(model.predict([[1.0]]), -1.0 / 0.8, rtol=1e-2)
    with pytest.raises(DivergenceError, match="of another policy"):
        make(kernel=Linear(), batch_size=32, n_passes=5).fit(*arguments)


# -- the recursions --------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("method", METHODS)
def test_learner_makes_the_steps_of_the_table(method, batch_size):
    arguments, keywords = transitions(24, method)
    weights = np.random.default_rng(3).uniform(0.2, 2.0, 24)
    model = make(
        method,
        expansion=Full(),
        step_size=0.4,
        auxiliary_step=0.3,
        regularization=0.05,
        batch_size=batch_size,
        shuffle=False,
        average=None,
    ).fit(*arguments, weights, **keywords)
    x, r, y, over = arguments
    steps = []
    for i in range(24):
        steps.append({"x": x[i], "r": r[i], "y": y[i], "over": over[i], "weight": weights[i]})
        steps[i]["begins"] = i == 0 or over[i - 1]
        if again := keywords.get("second"):
            steps[i] |= {"r2": again[0][i], "y2": again[1][i], "over2": again[2][i]}
    V, h = kernel_recursion(
        method,
        steps,
        lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * 0.5**2)),
        discount=DISCOUNT,
        step_size=0.4,
        auxiliary=0.3,
        regularization=0.05,
        batch_size=batch_size,
    )
    assert_allclose(model.predict(y), [V(p) for p in y], atol=1e-9)
    if method in ("gtd2", "tdc"):
        assert_allclose(model.predict_auxiliary(y), [h(p) for p in y], atol=1e-9)
    assert model.n_samples_seen_ == 24
    K = model.kernel_(y, model.dictionary_)
    assert_allclose(K @ model.coefficients_[:, 0], model.predict(y), atol=1e-9)


def test_second_function_is_used_before_it_moves():
    (x, r, y, _), _ = transitions(2)
    model = make("gtd2", expansion=Full(), step_size=0.4, average=None, batch_size=1)
    model.partial_fit(x[:1] + 1.0, r[:1] + 1.0, y[:1])
    assert_allclose(model.predict(x), 0.0)
    assert model.predict_auxiliary(x[:1] + 1.0)[0] > 0.0
    with pytest.raises(AttributeError, match="'gtd2' and 'tdc'"):
        make().fit(x, r, y).predict_auxiliary(x)


# -- combinations ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=str)
def test_every_expansion_learns_streams_and_files_go_on_bit_for_bit(method, expansion, tmp_path):
    arguments, keywords = transitions(90, method)
    (first, second), (rest, more) = (
        cut(arguments, keywords, rows) for rows in (slice(0, 50), slice(50, 90))
    )
    model = make(method, expansion=expansion).partial_fit(*first, **second)
    model.save(tmp_path / "model.mercer")
    others = [load_model(tmp_path / "model.mercer"), pickle.loads(pickle.dumps(model))]
    others.append(copy.deepcopy(model))
    for m in (model, *others):
        m.partial_fit(*rest, **more)
    values = model.predict(arguments[0])
    assert np.isfinite(values).all()
    assert values.std() > 0.0
    for m in others:
        assert repr(m) == repr(model)
        assert np.array_equal(m.predict(arguments[0]), values)
        assert m.learner_.objective.state() == model.learner_.objective.state()
        assert m.n_samples_seen_ == 90


@pytest.mark.parametrize("method", METHODS)
def test_many_calls_equal_one_call(method):
    arguments, keywords = transitions(120, method)
    whole = make(method, step_size=0.3, shuffle=False).fit(*arguments, **keywords)
    many = make(method, step_size=0.3)
    for start in range(0, 120, 20):
        part, second = cut(arguments, keywords, slice(start, start + 20))
        # Automatic tolerances look at the first rows.
        many = many.set_params(expansion=KOMP(tolerance=1e-4)).partial_fit(*part, **second)
    whole = make(method, step_size=0.3, shuffle=False, expansion=KOMP(tolerance=1e-4))
    whole.fit(*arguments, **keywords)
    assert_allclose(many.predict(arguments[0]), whole.predict(arguments[0]), atol=1e-8)


@pytest.mark.parametrize("mode", ["newton", "cyclic"])
def test_modes_of_random_features_that_solve_are_refused(mode):
    with pytest.raises(ValueError, match="mode='faithful'"):
        make(expansion=RandomFeatures(mode=mode)).fit(*transitions(9)[0])


@pytest.mark.parametrize("method", METHODS)
def test_seed_matters_unless_the_order_does(method):
    arguments, keywords = transitions(80, method)
    first, again, other = (
        make(method, random_state=s).fit(*arguments, **keywords).predict(arguments[0])
        for s in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert np.array_equal(first, other) == (method == "pkgtd")


# -- trajectories ----------------------------------------------------------------------------------


def two_trajectories():
    parts = []
    for seed, terminated in ((0, True), (1, False)):
        states, rewards, next_states = lqr_trajectory(40, seed)
        whole = np.concatenate([states, next_states[-1:]]) + 0.1 * seed
        parts.append((whole, rewards, terminated))
    return parts


@pytest.mark.parametrize("method", ["td", "gtd2", "pkgtd"])
def test_trajectories_are_their_transitions(method):
    parts = two_trajectories()
    terminals = np.zeros(80, bool)
    terminals[39] = True
    arrays = (
        np.concatenate([s[:-1] for s, _, _ in parts]),
        np.concatenate([r for _, r, _ in parts]),
        np.concatenate([s[1:] for s, _, _ in parts]),
        terminals,
    )
    expected = make(method).fit(*arrays)
    found = make(method).fit_trajectories(parts)
    assert np.array_equal(found.coefficients_, expected.coefficients_)
    # The second one is cut off and, told so, the mean of temporal differences starts anew.
    more = [(np.concatenate([arrays[2][-1:], arrays[0][:3]]), arrays[1][:3], False)]
    found.partial_fit_trajectories(more)
    if method == "pkgtd":
        assert found.targets_.trail.last is None
        assert found.targets_.trail.n_breaks == 0
    with pytest.raises(ValueError, match=r"states of shape \(T \+ 1, n_features\)"):
        make().fit_trajectories([(arrays[0], arrays[1], True)])
    with pytest.raises(ValueError, match="Trajectory 0: `terminated` must be True"):
        make().fit_trajectories([(parts[0][0], parts[0][1], 1)])
    with pytest.raises(ValueError, match=r"Trajectory 0 must be a tuple.*int too large"):
        make().fit_trajectories([(parts[0][0], [10**400] * len(parts[0][1]), True)])
    with pytest.raises(ValueError, match="no transition"):
        make().fit_trajectories([])
    with pytest.raises(ValueError, match="Trajectory 1 has 2 features"):
        make().fit_trajectories([parts[0], (np.zeros((3, 2)), np.zeros(2), False)])


def test_tracker_goes_on_over_calls_and_starts_anew_with_a_trajectory():
    (x, r, y, _), _ = transitions(60)
    model = make("pkgtd", average=None, expansion=Full(), step_size=0.1)
    one = copy.deepcopy(model).partial_fit(x, r, y)
    for start in (0, 20, 40):
        model.partial_fit(*(a[start : start + 20] for a in (x, r, y)))
    assert_allclose(model.predict(x), one.predict(x), atol=1e-12)
    assert model.learner_.objective.tracked == pytest.approx(one.learner_.objective.tracked)
    anew = copy.deepcopy(model).partial_fit(x[:1], r[:1], y[:1])
    delta = model.temporal_difference_errors(x[:1], r[:1], y[:1])[0]
    assert anew.learner_.objective.tracked == pytest.approx(0.1 * delta)
    over = copy.deepcopy(model).partial_fit(y[-1:], r[:1], y[:1], [True])
    assert over.targets_.trail.last is None


def test_order_that_is_no_trajectory_is_told_once():
    (x, r, y, _), _ = transitions(60)
    order = np.random.default_rng(0).permutation(60)
    model = make("pkgtd")
    with pytest.warns(TrajectoryWarning, match="5. of 60 transitions begin elsewhere"):
        model.fit(x[order], r[order], y[order])
    model.partial_fit(x[order], r[order], y[order])  # warnings are errors here
    with pytest.warns(TrajectoryWarning, match="n_passes=2 shows the transitions"):
        make("pkgtd", n_passes=2).fit(x, r, y)
    stream = make("pkgtd")
    for i in range(9):
        stream.partial_fit(x[[i]], r[[i]], y[[i]])
    with pytest.warns(TrajectoryWarning, match="2 of 11 transitions"):
        stream.partial_fit(x[[30, 20]], r[[30, 20]], y[[30, 20]])
    # Episodes cut off now and then, and other methods, are no reason for it.
    some = np.delete(np.arange(60), [20, 40])
    make("pkgtd").fit(x[some], r[some], y[some])
    make("td", n_passes=2).fit(x[order], r[order], y[order])


# -- environments ----------------------------------------------------------------------------------


class Chain:
    """A walk along a line: one step to the right for each action 1; ends at 3, or by time."""

    def __init__(self, limit=5, high=10.0, shape=(1, 1), spaces=None):
        self.observation_space = spaces.Box(-high, high, shape, np.float64)
        self.action_space = spaces.Discrete(2)
        self.limit, self.resets, self.observation = limit, [], np.zeros(shape)

    def reset(self, seed=None):
        self.resets.append(seed)
        self.time = 0
        self.observation[:] = 0.0
        return self.observation, {}

    def step(self, action):
        # In place: whoever keeps the array sees it change.
        self.observation += action
        self.time += 1
        at_end = bool(self.observation.max() >= 3.0)
        return self.observation, 1.0 + action, at_end, self.time >= self.limit, {}


def test_environment_gives_the_transitions_of_its_episodes():
    spaces = pytest.importorskip("gymnasium").spaces
    actions = iter([1, 1, 1, 1, 0, 0, 0, 0, 1, 1])
    env = Chain(spaces=spaces)
    found = make("pkgtd").fit_env(env, lambda observation: next(actions), 10, seed=7)
    assert env.resets == [7, None, None]
    # 0 1 2 3 terminated; 0 1 1 1 1 1 truncated; 0 1 2 not finished.
    states = np.array([0, 1, 2, 0, 1, 1, 1, 1, 0, 1.0])[:, None]
    next_states = np.array([1, 2, 3, 1, 1, 1, 1, 1, 1, 2.0])[:, None]
    rewards = np.array([2, 2, 2, 2, 1, 1, 1, 1, 2, 2.0])
    terminals = np.arange(10) == 2
    expected = make("pkgtd").fit(states, rewards, next_states, terminals)
    assert np.array_equal(found.coefficients_, expected.coefficients_)
    assert found.learner_.objective.tracked == expected.learner_.objective.tracked
    found.partial_fit_env(env, lambda observation: int(observation.shape == (1, 1)), 4, seed=8)
    assert env.resets[3:] == [8, None]
    assert found.n_samples_seen_ == 14
    assert np.array_equal(env.observation, [[1.0]])


def test_gymnasium_environments_are_learned_and_the_final_observation_counts():
    gymnasium = pytest.importorskip("gymnasium")

    def policy(observation):
        return int(observation[2] + 0.5 * observation[3] > 0.0)

    models = []
    for _ in range(2):
        env = gymnasium.make("CartPole-v1", max_episode_steps=30)
        models.append(make(batch_size=16, kernel="gaussian").fit_env(env, policy, 600, seed=0))
    model = models[0]
    assert np.array_equal(model.coefficients_, models[1].coefficients_)
    # By hand; the pole never falls in 30 steps, so every episode is cut off.
    env = gymnasium.make("CartPole-v1", max_episode_steps=30)
    observation, _ = env.reset(seed=0)
    episodes, states, rewards = [], [observation], []
    for _ in range(600):
        observation, reward, terminated, truncated, _ = env.step(policy(observation))
        states.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            episodes.append((np.array(states), np.array(rewards), terminated))
            observation, _ = env.reset()
            states, rewards = [observation], []
    assert len(episodes) == 20
    by_hand = make(batch_size=16, kernel="gaussian").fit_trajectories(episodes)
    assert np.array_equal(model.coefficients_, by_hand.coefficients_)
    # It never ends, so each state is worth 1 / (1 - 0.9): nothing was bootstrapped by 0.
    assert_allclose(model.fit_env(env, policy, 6000, seed=1).predict(states[:1]), 10.0, rtol=0.15)


def test_environments_that_cannot_be_learned_are_refused(monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    chain = Chain(spaces=gymnasium.spaces)
    chain.observation_space = gymnasium.spaces.Discrete(5)
    with pytest.raises(ValueError, match="FlattenObservation"):
        make().fit_env(chain, lambda observation: 0, 10)
    chain = Chain(spaces=gymnasium.spaces)
    with pytest.raises(ValueError, match="`n_steps` must be an integer"):
        make().fit_env(chain, lambda observation: 0, 0)
    with pytest.raises(ValueError, match="`policy` must be a function"):
        make().fit_env(chain, "random", 10)
    chain.num_envs = 4
    with pytest.raises(ValueError, match="vector of environments"):
        make().fit_env(chain, lambda observation: 0, 10)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"mercer\[rl\]"):
        make().fit_env(chain, lambda observation: 0, 10)


# -- answers ---------------------------------------------------------------------------------------


def test_temporal_difference_errors_and_score():
    (x, r, y, over), _ = transitions(200)
    model = make().fit(x, r, y, over)
    V, V_next = model.predict(x), model.predict(y)
    errors = model.temporal_difference_errors(x, r, y, over)
    assert_allclose(errors, r + np.where(over, 0.0, DISCOUNT) * V_next - V)
    returns = monte_carlo_returns(r[:60], DISCOUNT)
    expected = 1.0 - np.sum((returns - V[:60]) ** 2) / np.sum((returns - returns.mean()) ** 2)
    assert model.score(x[:60], returns) == pytest.approx(expected)
    with pytest.raises(ValueError, match="`next_states` has 3 rows"):
        model.temporal_difference_errors(x, r, y[:3])


def test_history_and_callbacks_count_transitions():
    train = lqr_trajectory(10_000, 0)
    seen = []
    model = make(batch_size=32).fit(*train, callback=lambda p: seen.append(p) or True)
    assert model.n_samples_seen_ == seen[0].n_samples < 10_000 == seen[0].n_total
    (x, r, y, _), _ = transitions(32)
    one = make(batch_size=32, average=None).partial_fit(x, r, y)
    assert_allclose(one.history_.loss, [np.mean(np.square(r))])  # V = 0 before


@pytest.mark.parametrize("method", METHODS)
def test_normalised_rewards_are_learned_as_if_divided_by_hand(method, tmp_path):
    (x, r, y, over), second = transitions(120, method)
    r = 1e3 * r
    scale = r.std()

    def divided(second):
        return {name: (value[0] / scale, *value[1:]) for name, value in second.items()}

    given = {name: (1e3 * value[0], *value[1:]) for name, value in second.items()}
    plain = make(method).fit(x, r / scale, y, over, **divided(given))
    model = make(method, normalize_rewards=True).fit(x, r, y, over, **given)
    assert_allclose(model.predict(x), scale * plain.predict(x), rtol=1e-12)
    assert_allclose(model.history_.loss, plain.history_.loss)
    assert_allclose(
        model.temporal_difference_errors(x, r, y, over),
        scale * plain.temporal_difference_errors(x, r / scale, y, over),
        rtol=1e-9,
        atol=1e-9,
    )
    if method in ("gtd2", "tdc"):
        assert_allclose(model.predict_auxiliary(x), scale * plain.predict_auxiliary(x), rtol=1e-12)
    assert unit_of_target(model) == (0.0, scale)
    told, of_plain = (one.explain(x[:2], background=x[50:70]) for one in (model, plain))
    assert_allclose(told.contributions, scale * of_plain.contributions, rtol=1e-9, atol=1e-9)
    assert_allclose(told.prediction, model.predict(x[:2]))
    # Later rewards are in the unit of the first ones, from a file, too.
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for one in (model, again):
        one.partial_fit(x[:40], 5.0 * r[:40], y[:40], over[:40], **cut([], given, slice(40))[1])
        assert unit_of_target(one) == (0.0, scale)
    assert_array_equal(again.predict(x), model.predict(x))


def test_rewards_that_do_not_vary_keep_their_unit():
    (x, r, y, over), _ = transitions(60)
    model = make(normalize_rewards=True).fit(x, np.ones_like(r), y, over)
    assert_array_equal(model.predict(x), make().fit(x, np.ones_like(r), y, over).predict(x))
    with pytest.raises(ValueError, match="`normalize_rewards` must be"):
        make(normalize_rewards="yes").fit(x, r, y)


# -- what is refused, and leaves the model as it was -----------------------------------------------


def test_a_call_that_fails_changes_nothing():
    (x, r, y, over), _ = transitions(60)
    model = make("pkgtd").partial_fit(x, r, y, over)
    before, values = model.to_state(), model.predict(x)
    for wrong, message in (
        ((x, r, np.full_like(y, np.nan)), r"`next_states`: (?s:.)*NaN(?s:.)*does not count"),
        ((x, r, y[:5]), "`next_states` has 5 rows and `states` 60"),
        ((np.ones((60, 2)), r, y), "states`: .*features"),
        ((x, r[:5], y), r"`rewards` must have shape \(60,\)"),
        ((x, r[:, None], y), r"`rewards` must have shape \(60,\)"),
        ((x, np.where(r < -1, np.inf, r), y), "`rewards` must be finite, got inf"),
        ((x, ["a"] * 60, y), "`rewards` must be numbers"),
        ((x, [10**400] * 60, y), "`rewards` must be numbers: int too large"),
        ((x, r, y, over.astype(int)), "`terminals` must be boolean, got dtype int64"),
        ((x, r, y, over[:5]), r"`terminals` must have shape \(60,\)"),
        ((None, r, y), "`states` is None"),
        ((x, r, y, over, -np.ones(60)), "`sample_weight`"),
    ):
        for call in (model.partial_fit, model.fit):
            with pytest.raises(ValueError, match=message):
                call(*wrong)
    with pytest.raises(ValueError, match="`second` is for method='double_sampling'"):
        model.partial_fit(x, r, y, second=(r, y, over))
    with pytest.raises(ValueError, match="must be positive"):
        model.set_params(step_size=lambda t: -1.0).partial_fit(x, r, y)
    model.set_params(step_size="auto")
    assert str(model.to_state()) == str(before)
    assert np.array_equal(model.predict(x), values)
    fresh = make()
    with pytest.raises(ValueError, match="`rewards`"):
        fresh.partial_fit(x, r[:3], y)
    assert vars(fresh) == vars(make())
    with pytest.raises(AttributeError, match="not fitted"):
        _ = fresh.n_samples_seen_


def test_double_sampling_says_what_it_needs():
    arguments, keywords = transitions(30, "double_sampling")
    with pytest.raises(ValueError, match="needs a second outcome of each transition"):
        make("double_sampling").fit(*arguments)
    rewards, next_states, terminals = keywords["second"]
    for wrong, message in (
        ((rewards, next_states, terminals * 1.0), "`second terminals` must be boolean"),
        ((rewards, next_states[:3], terminals), "`second next_states` has 3 rows"),
        ((rewards[:3], next_states), r"`second rewards` must have shape \(30,\)"),
        (rewards, "`second` must be a tuple"),
    ):
        with pytest.raises(ValueError, match=message):
            make("double_sampling").fit(*arguments, second=wrong)
    make("double_sampling").fit(*arguments, second=(rewards, next_states))


def test_wrong_parameters_are_refused():
    arguments, _ = transitions(9)
    for discount in (1.0, -0.1, "0.9"):
        with pytest.raises(ValueError, match="`discount`"):
            ValueFunction(discount).fit(*arguments)
    for changes, message in (
        ({"method": "lstd"}, "`method` must be one of"),
        ({"auxiliary_step": "fast"}, "`auxiliary_step` must be one of 'auto'"),
        ({"method": "pkgtd", "auxiliary_step": 2.0}, "`auxiliary_step`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"expansion": "nothing"}, "nothing"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**changes).fit(*arguments)


def test_divergence_is_told_with_a_remedy():
    (x, r, y, _), _ = transitions(300)
    model = make(step_size=50.0, batch_size=1, expansion=Full())
    with pytest.raises(DivergenceError, match="'td' may diverge"):
        model.fit(x, r, y)
    assert not hasattr(model, "learner_")


def test_parameters_discount_and_method_set_anew_wait_for_the_next_fit():
    (x, r, y, _), _ = transitions(60)
    model, other = (make().partial_fit(x, r, y) for _ in range(2))
    model.set_params(method="gtd2", discount=0.5)
    for m in (model, other):
        m.partial_fit(x, r, y)
    assert np.array_equal(model.predict(x), other.predict(x))
    assert model.fit(x, r, y).coefficients_.shape[1] == 2
    assert clone(model).get_params() == model.get_params()


def test_files_whose_parts_do_not_fit_are_refused(tmp_path):
    (x, r, y, _), _ = transitions(60)
    state = make("pkgtd").fit(x, r, y).to_state()
    path = tmp_path / "model.mercer"
    good = state["targets"]
    for wrong in (
        good | {"discount": 1.0},
        good | {"method": "gtd2"},
        good | {"method": "other"},
        good | {"auxiliary": 2.0},
        good | {"trail": good["trail"] | {"last": np.zeros(3)}},
        good | {"trail": good["trail"] | {"n_breaks": 70}},
        good | {"trail": good["trail"] | {"n_seen": 1.5}},
        good | {"trail": None},
        good | {"scale": 0.0},
        good | {"scale": "1"},
    ):
        altered = copy.deepcopy(state)
        altered["targets"] = wrong
        model_file.write_state(path, {"kind": "ValueFunction", "model": altered})
        with pytest.raises(ValueError, match="not a valid mercer model"):
            load_model(path)


def test_single_precision_is_kept():
    (x, r, y, over), _ = transitions(200)
    full = make(expansion=Full())  # compression may find it too coarse, and go to float64
    double = clone(full).fit(x, r, y, over)
    single = full.fit(x.astype(np.float32), r, y.astype(np.float32), over)
    assert single.dictionary_.dtype == np.float32
    assert_allclose(single.predict(x), double.predict(x), rtol=1e-3)
    assert make().fit(x.astype(np.float32), r, y, over).dictionary_.dtype == np.float64


def test_values_far_above_rewards_are_no_divergence():
    # 1 / (1 - discount) = 10,000 rewards ahead.
    states = np.zeros((800, 1))
    model = ValueFunction(
        0.9999, kernel=Gaussian(1.0), step_size=1.9, batch_size=1, average=None,
        expansion=RandomFeatures(mode="faithful", block_size=16), n_passes=1, regularization=0.0,
    )  # fmt: skip
    model.fit(states, np.full(800, 1.0), states)
    assert model.predict(states[:1])[0] > 1001.0


# -- steps and tolerances that nobody chose --------------------------------------------------------


def slow_trajectory(n):
    """Neighbours of a slow walk between -20 and 20: all transitions of a batch are alike."""
    rng = np.random.default_rng(0)
    path = np.abs(np.cumsum(0.05 * rng.normal(size=n + 1)) % 40.0 - 20.0)[:, np.newaxis]
    return path[:-1], np.sin(path[:-1, 0]) + 0.1 * rng.normal(size=n), path[1:]


@pytest.mark.parametrize(
    ("method", "expansion", "discount"),
    covering(METHODS, ["auto", "random_features"], [0.0, 0.5]),
)
def test_automatic_steps_are_stable_on_batches_of_neighbours(method, expansion, discount):
    states, rewards, next_states = slow_trajectory(1500)
    second = {"second": (rewards, next_states)} if method == "double_sampling" else {}
    model = ValueFunction(
        discount, method, expansion=expansion, shuffle=False, n_passes=1, random_state=0
    )
    model.fit(states, rewards, next_states, **second)
    assert np.abs(model.predict(states)).max() < 1.5 / (1.0 - discount)


@pytest.mark.parametrize(
    ("method", "expansion", "weight"),
    covering(["td", "gtd2", "tdc", "residual"], ["auto", "random_features"], [3.0, 100.0]),
)
def test_automatic_steps_allow_for_weights(method, expansion, weight):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 2))
    y = 0.9 * x + 0.3 * rng.normal(size=x.shape)
    model = ValueFunction(0.0, method, expansion=expansion, n_passes=1, random_state=0)
    model.fit(x, x[:, 0], y, sample_weight=np.full(1000, weight))
    assert np.abs(model.predict(x)).max() < 4.0


def test_step_of_random_features_beyond_the_limit_is_refused_with_a_true_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    y = 0.9 * x + 0.3 * rng.normal(size=x.shape)
    model = ValueFunction(0.0, expansion="random_features", n_passes=10, random_state=0)
    model.fit(x, x[:, 0], y)
    limit = 2.0 / (model.learner_.automatic.top_eigenvalue * model.learner_.automatic.curvature)
    model.set_params(step_size=0.4 * limit).fit(x, x[:, 0], y)
    assert np.abs(model.predict(x)).max() < 4.0
    model.set_params(step_size=1.6 * limit)
    with pytest.raises(ValueError, match=f"stable up to {limit:.3g}"):
        model.fit(x, x[:, 0], y)
    with pytest.raises(ValueError, match="a mean weight of 10"):
        model.set_params(step_size=0.4 * limit).fit(x, x[:, 0], y, sample_weight=np.full(500, 10.0))


def test_rare_rewards_are_not_compressed_away():
    rng = np.random.default_rng(1)
    states, next_states = np.empty(6_000), np.empty(6_000)
    x = 0.5
    for t in range(6_000):
        states[t], next_states[t] = x, x + 0.05 * rng.normal()
        x = next_states[t] if 0.0 <= next_states[t] <= 1.0 else rng.uniform()
    terminals = (next_states < 0.0) | (next_states > 1.0)
    data = states[:, np.newaxis], 1.0 * (next_states > 1.0), next_states[:, np.newaxis], terminals
    grid = np.linspace(0.0, 1.0, 401)
    # The step probabilities between 401 places, by the density at their midpoints.
    moves = np.exp(-0.5 * ((grid - grid[:, np.newaxis]) / 0.05) ** 2) / (
        400 * 0.05 * np.sqrt(2 * np.pi)
    )
    far = np.linspace(1.0, 1.5, 201)[1:] - 0.00125
    ends = np.exp(-0.5 * ((far - grid[:, np.newaxis]) / 0.05) ** 2).sum(axis=1)
    ends /= 400 * 0.05 * np.sqrt(2 * np.pi)
    exact = np.linalg.solve(np.eye(401) - 0.9 * moves, ends)

    def error(expansion):
        model = ValueFunction(0.9, expansion=expansion, n_passes=2, random_state=0).fit(*data)
        return np.sqrt(np.mean((model.predict(grid[:, np.newaxis]) - exact) ** 2))

    assert error("auto") < 1.3 * error(KOMP(1e-3))


def test_tracker_learns_as_fast_as_temporal_differences():
    states, rewards, next_states = lqr_trajectory(5_000, 0, 2)
    exact = lqr_value(states[::50], 0.9)
    errors = []
    for method in ("td", "pkgtd"):
        model = ValueFunction(0.9, method, n_passes=1, random_state=0)
        model.fit(states, rewards, next_states)
        errors.append(np.sqrt(np.mean((model.predict(states[::50]) - exact) ** 2)))
    assert errors[1] < 1.5 * errors[0]


def test_large_rewards_after_many_small_ones_are_no_divergence():
    rng = np.random.default_rng(0)
    model = ValueFunction(0.95, random_state=0)
    x = rng.uniform(size=(2000, 1))
    model.partial_fit(x, np.full(2000, -1e-7), x + 0.1)
    for _ in range(40):
        x = rng.uniform(size=(64, 1))
        over = x[:, 0] > 0.9
        model.partial_fit(x, np.where(over, 100.0, -1e-7), x + 0.1, over)
    x = 0.8 * rng.uniform(size=(8, 1))
    model.partial_fit(x, np.full(8, -1e-7), x + 0.1)
    assert model.n_samples_seen_ == 2000 + 40 * 64 + 8


def test_states_in_which_the_system_rests_do_not_set_the_length_scale():
    states, rewards, next_states = lqr_trajectory(2000, 0)
    still = np.vstack([states, 1e-4 * np.random.default_rng(0).normal(size=(6000, 1))])
    data = still, -np.square(still).sum(axis=1), np.vstack([next_states, still[2000:]])
    scales = [
        ValueFunction(DISCOUNT, n_passes=1, random_state=0).fit(*arrays).kernel_.length_scale
        for arrays in (data, (states, rewards, next_states))
    ]
    assert 0.5 < scales[0] / scales[1] < 2.0


def test_automatic_passes_learn_enough_transitions(monkeypatch):
    (x, r, y, over), _ = transitions(200)
    for enough, method, n_passes in (
        (100_000, "td", 10),
        (100_000, "pkgtd", 1),
        (590, "td", 3),
        (50, "td", 1),
    ):
        monkeypatch.setattr("mercer.estimators.transitions._ENOUGH", enough)
        model = make(method, n_passes="auto").fit(x, r, y, over)
        assert model.n_samples_seen_ == 200 * n_passes
    for wrong in ("all", 0, 1.5):
        with pytest.raises(ValueError, match="`n_passes` must be"):
            make(n_passes=wrong).fit(x, r, y, over)


def test_next_states_beyond_the_end_may_be_unknown():
    (x, r, y, over), _ = transitions(60)
    unknown = np.where(over[:, np.newaxis], np.nan, y)
    model = make().fit(x, r, unknown, over)
    same = make().fit(x, r, np.where(over[:, np.newaxis], x, y), over)
    assert np.array_equal(model.predict(x), same.predict(x))
    assert np.isfinite(model.temporal_difference_errors(x, r, unknown, over)).all()
    with pytest.raises(ValueError, match="Only where `terminals` is True"):
        make().fit(x, r, np.where(over[::-1, np.newaxis], np.nan, y), over)


def test_arguments_in_the_wrong_order_are_told_the_order():
    (x, r, y, over), _ = transitions(20)
    with pytest.raises(ValueError, match="order of the arguments is states, rewards, next_states"):
        make().fit(x, y, r, over)


def test_name_of_an_environment_is_refused_with_what_to_pass():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match=r"pass gymnasium.make\('CartPole-v1'\)"):
        make().fit_env("CartPole-v1", lambda observation: 0, 10)


def test_seed_makes_random_actions_the_same():
    gymnasium = pytest.importorskip("gymnasium")
    states = np.zeros((1, 4))
    values = []
    for _ in range(2):
        env = gymnasium.make("CartPole-v1")
        model = make().fit_env(env, lambda observation, env=env: env.action_space.sample(), 200, 0)
        values.append(model.predict(states)[0])
    assert values[0] == values[1]


def test_divergence_counts_transitions_and_huge_rewards_do_not_warn():
    (x, r, y, over), _ = transitions(40)
    with pytest.raises(DivergenceError, match=r"after (4|8|12|16|20|24|28|32|36) transitions"):
        make(step_size=1e4, batch_size=4).fit(x, r, y, over)
    with pytest.raises(DivergenceError, match=r"after 0 transitions"):
        make().fit(x, 1e200 * r, y, over)
