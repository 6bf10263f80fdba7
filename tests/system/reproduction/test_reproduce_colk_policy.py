"""The experiment on policy evaluation: its chain, its batch solutions, its runs."""

import functools
import math
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import oracles_policy as oracles
from mercer.kernels import Gaussian
from mercer_reproduction import Context, colk_policy, get_experiment
from mercer_reproduction._colk_policy import Chain, FixedBasis, root_mean_square
from mercer_reproduction._colk_policy_pendulum import DISCOUNT, Pendulum, make_pendulum, swing_up
from mercer_reproduction._colk_policy_runs import CHANGES, OWN, SINGLE, TD, Judge, follow

CHAIN = Chain()
POINTS = np.linspace(-2.0, 2.0, 7)[:, np.newaxis]


def generator(seed=0):
    return np.random.default_rng(seed)


# -- the chain ------------------------------------------------------------------------------------


def test_the_value_of_the_chain_is_exact_and_that_of_the_oracle():
    states = np.linspace(-2.0, 2.0, 9)[:, np.newaxis]
    assert_allclose(CHAIN.value(states), oracles.lqr_value(states, 0.9))
    # V(x) = -x² + gamma E V(a x + sigma n); two points with the mean and variance of n will do.
    later = [CHAIN.value(0.9 * states + 0.3 * n) for n in (-1.0, 1.0)]
    assert_allclose(CHAIN.value(states), -(states[:, 0] ** 2) + 0.9 * np.mean(later, axis=0))


def test_sampled_returns_agree_with_the_value_within_their_errors():
    states = np.array([[-1.0], [0.0], [2.0]])
    means, errors = CHAIN.returns(states, 2000, 150, generator())
    assert np.all(np.abs(means - CHAIN.value(states)) < 3.5 * errors)
    assert np.all(errors < 0.2)


def test_a_trajectory_goes_on_where_it_was_and_has_second_outcomes():
    states, rewards, next_states, terminals, _, second = CHAIN.trajectory(50_000, generator())
    assert_allclose(states[1:], next_states[:-1])
    assert_allclose(rewards, -(states[:, 0] ** 2))
    assert not terminals.any()
    noise, again = (next_states - 0.9 * states)[:, 0], (second[1] - 0.9 * states)[:, 0]
    # Standard errors: .3 / sqrt(2n) = .001 for deviations, 1 / sqrt(n) = .0045 for correlations.
    assert noise.std() == pytest.approx(0.3, abs=0.004)
    assert again.std() == pytest.approx(0.3, abs=0.004)
    for other in (again, states[:, 0]):
        assert abs(np.corrcoef(noise, other)[0, 1]) < 0.016
    # 1 / sqrt(n) sqrt((1 + .81) / (1 - .81)) / sqrt(2) of itself = .007.
    assert states.std() == pytest.approx(CHAIN.deviation, rel=0.03)


def test_independent_states_have_the_same_law_and_no_order():
    states = CHAIN.independent(50_000, generator()).states[:, 0]
    assert states.std() == pytest.approx(CHAIN.deviation, rel=0.01)
    assert abs(np.corrcoef(states[1:], states[:-1])[0, 1]) < 0.016


# -- batch solutions ------------------------------------------------------------------------------


def basis_and_features(n):
    transitions = CHAIN.trajectory(n, generator(1))
    basis = FixedBasis(Gaussian(0.7), POINTS, transitions, 0.9, regularization=0.0)
    phi, later = (
        oracles.radial_basis(x, POINTS, 0.7) for x in (transitions.states, transitions.next_states)
    )
    return basis, (phi, transitions.rewards, later, 0.9)


def test_lstd_is_that_of_the_oracle():
    basis, problem = basis_and_features(2000)
    assert_allclose(basis.lstd(), oracles.lstd(*problem), rtol=1e-6)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0])
def test_where_the_tracker_stands_still_is_that_of_the_oracle(rate):
    basis, problem = basis_and_features(2000)
    expected = oracles.tracker_stationary_point(*problem, rate)
    assert_allclose(basis.tracked(rate), expected, rtol=1e-6)


def test_the_ridge_draws_solutions_towards_zero_in_the_norm_of_the_rkhs():
    transitions = CHAIN.trajectory(500, generator(1))
    gram = Gaussian(0.7)(POINTS, POINTS)
    norms = []
    for ridge in (0.0, 1e-3, 1e-1, 10.0):
        w = FixedBasis(Gaussian(0.7), POINTS, transitions, 0.9, ridge).lstd()
        norms.append(w @ gram @ w)
    assert np.all(np.diff(norms) < 0.0)


# -- runs -----------------------------------------------------------------------------------------


def test_errors_under_the_stationary_law_are_those_of_many_states():
    judge = Judge(CHAIN.independent(400_000, generator()).states)
    held_out, central, law = judge.errors(lambda states: np.zeros(len(states)))
    assert held_out == pytest.approx(law, rel=0.01)
    assert central < law
    assert judge.errors(CHAIN.value) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "setting", [*OWN, *SINGLE, *CHANGES], ids=lambda setting: f"{setting.name}-{setting.batch_size}"
)
def test_every_setting_learns_something_and_has_an_error_for_each_moment(setting):
    source = CHAIN.independent if setting.independent else CHAIN.trajectory
    judge = Judge(CHAIN.trajectory(1000, generator(5)).states)
    course = follow(setting, source(500, generator(2)), (200, 500), judge, 0)
    assert len(course.curve) == 2
    assert course.curve[-1] == course.errors[0] < root_mean_square(judge.exact)
    assert course.model.n_samples_seen_ == 500 * setting.n_passes


def test_shuffling_changes_what_is_learned_and_the_seed_the_order():
    transitions = CHAIN.trajectory(800, generator(2))
    judge = Judge(transitions.states)
    [shuffled] = [change for change in CHANGES if change.name == "shuffled"]
    errors = {
        follow(setting, transitions, (800,), judge, seed).errors[0]
        for setting, seed in ((TD, 0), (TD, 1), (shuffled, 0), (shuffled, 1))
    }
    assert len(errors) == 3


# -- the pendulum ---------------------------------------------------------------------------------


def test_returns_of_the_pendulum_are_sums_of_the_rewards_that_follow():
    pytest.importorskip("gymnasium")
    env = make_pendulum()
    problem = Pendulum.follow(env, 10, 2, 3)
    assert problem.training.states.shape == (10, 3)
    assert problem.states.shape == (200, 3)
    observation, _ = env.reset(seed=1_000_003)
    rewards = []
    for t in range(110):
        if t == 7:
            assert_allclose(problem.states[7], observation)
        observation, reward, *_ = env.step(swing_up(observation))
        rewards.append(reward)
    assert problem.returns[0] == pytest.approx(DISCOUNT ** np.arange(100) @ rewards[:100])
    assert problem.returns[7] == pytest.approx(DISCOUNT ** np.arange(100) @ rewards[7:107])
    env.close()


def test_the_policy_swings_the_pendulum_up():
    pytest.importorskip("gymnasium")
    env = make_pendulum()
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        for _ in range(150):
            observation, *_ = env.step(swing_up(observation))
        assert observation[0] > 0.99
    env.close()


def test_without_gymnasium_there_is_no_pendulum(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert make_pendulum() is None
    rows, drawings, words = colk_policy._pendulum(Context(quick=True))
    assert rows == drawings == []
    assert "Gymnasium is not installed" in words


# -- the experiment -------------------------------------------------------------------------------


@functools.cache
def quick():
    said = []
    context = Context(quick=True, seed=1, say=said.append)
    experiment = get_experiment("colk-policy")
    result = experiment(context)
    return result, experiment.record(result, context), said


def test_the_quick_run_fills_the_table_and_judges_nothing():
    result, record, said = quick()
    columns = list(result.rows[0])
    for row in result.rows:
        assert list(row) == columns
        assert not any(isinstance(v, float) and math.isnan(v) for v in row.values())
    groups = {row["group"] for row in result.rows}
    assert groups >= {"own", "td, changed", "single transitions", "batch"}
    assert len(record["targets"]) == 7
    assert all(math.isfinite(target.measured) for target in result.targets)
    assert all("not judged" in target["met"] for target in record["targets"])
    assert said


def test_biased_methods_are_the_worst_even_in_a_quick_run():
    rows = {row["method"]: row["RMSE"] for row in quick()[0].rows if row["group"] == "own"}
    unbiased = [rows[name] for name in ("td", "gtd2", "tdc", "pkgtd, rate .1")]
    assert max(unbiased) < min(rows["residual"], rows["pkgtd, rate .01"])


def test_batch_pkgtd_is_lstd_at_rate_one_minus_discount_only():
    rows = {row["method"]: row["RMSE"] for row in quick()[0].rows if row["group"] == "batch"}
    assert rows["PKGTD, rate .1"] == pytest.approx(rows["LSTD"], rel=0.05)
    assert rows["PKGTD, rate .01"] > 2.0 * rows["LSTD"]
    assert rows["PKGTD, rate .5"] > 2.0 * rows["LSTD"]


def test_figures_show_finite_lines_and_label_their_axes():
    drawings = quick()[0].drawings
    assert len({drawing.name for drawing in drawings}) == len(drawings) >= 3
    for drawing in drawings:
        ax = Figure().subplots()
        drawing.draw(ax)
        assert ax.lines
        assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)
        assert ax.get_xlabel()
        assert ax.get_ylabel()
