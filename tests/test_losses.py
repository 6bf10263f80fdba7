"""Values and slopes of losses: every member through the same tests, against slow oracles."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import oracles_losses as oracle
from cases_losses import LOSSES, every_loss, every_oracle, few, random_rows, seeds
from mercer import losses
from mercer.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquaresMargin,
    Logistic,
    MulticlassHinge,
    Poisson,
    QNormHinge,
    Quantile,
    Softmax,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)


def kinks_between(loss, y, f, step):
    """Whether a row jumps in slope near f, seen from the slopes at f - step and f + step."""
    for c in range(f.shape[1]):
        move = np.zeros(f.shape[1])
        move[c] = step
        jump = loss.derivative(y, f + move) - loss.derivative(y, f - move)
        if np.abs(jump).max() > 1e-3:
            return True
    return False


def test_every_public_loss_is_tested():
    abstract = {"Loss", "RegressionLoss", "MarginLoss", "MulticlassLoss", "CompiledLoss"}
    abstract |= {"as_loss", "loss_and_slopes"}
    assert {type(loss).__name__ for loss in LOSSES} == set(losses.__all__) - abstract


@every_oracle
@few
@given(seed=seeds)
def test_value_equals_the_textbook_formula(loss, slow, seed):
    y, f = random_rows(loss, np.random.default_rng(seed))
    expected = [slow(y[i], f[i]) for i in range(len(f))]
    assert_allclose(loss.value(y, f), expected, rtol=1e-12, atol=1e-12)


@every_oracle
@few
@given(seed=seeds)
def test_derivative_equals_central_differences_away_from_kinks(loss, slow, seed):
    y, f = random_rows(loss, np.random.default_rng(seed), n_rows=1)
    assume(not kinks_between(loss, y, f, 1e-5))
    expected = oracle.central_difference(slow, y[0], f[0])
    # Cancellation: 1e-16 * |value| / step, with values up to a few hundred, plus O(step²).
    assert_allclose(loss.derivative(y, f)[0], expected, rtol=1e-5, atol=1e-7)


@every_loss
@few
@given(seed=seeds)
def test_loss_is_convex_and_its_slope_a_subgradient(loss, seed):
    rng = np.random.default_rng(seed)
    y, f = random_rows(loss, rng)
    g = f + rng.normal(scale=2.0, size=f.shape)
    a = rng.uniform()
    value_f, slope_f = loss.value_and_derivative(y, f)
    value_g = loss.value(y, g)
    slack = 1e-10 * (1 + np.abs(value_f) + np.abs(value_g))
    assert np.all(loss.value(y, a * f + (1 - a) * g) <= a * value_f + (1 - a) * value_g + slack)
    assert np.all(value_g >= value_f + np.sum(slope_f * (g - f), axis=1) - slack)


@every_loss
@few
@given(seed=seeds, step=st.sampled_from([1e-3, 1.0, 10.0]))
def test_declared_curvature_bounds_the_change_of_slope(loss, seed, step):
    if loss.curvature is None:
        return
    rng = np.random.default_rng(seed)
    y, f = random_rows(loss, rng)
    move = step * rng.normal(size=f.shape)
    change = np.linalg.norm(loss.derivative(y, f + move) - loss.derivative(y, f), axis=1)
    assert np.all(change <= loss.curvature * np.linalg.norm(move, axis=1) * (1 + 1e-9) + 1e-12)


@every_loss
@few
@given(seed=seeds, spread=st.sampled_from([1.0, 100.0]))
def test_declared_lipschitz_constant_bounds_the_slope(loss, seed, spread):
    if loss.lipschitz is None:
        return
    y, f = random_rows(loss, np.random.default_rng(seed), spread=spread)
    slopes = loss.derivative(y, f)
    size = np.linalg.norm(slopes, axis=1) if loss.multiclass else np.abs(slopes)
    assert size.max() <= loss.lipschitz * (1 + 1e-12)


@pytest.mark.parametrize(
    ("loss", "y", "f", "largest"),
    [
        (Logistic(), [1.0], [-800.0], Logistic.lipschitz),
        (Softmax(), [0], [[-800.0, 800.0]], Softmax.lipschitz),
        (MulticlassHinge(), [0], [[-8.0, 8.0]], MulticlassHinge.lipschitz),
        (Huber(delta=3.0), [0.0], [8.0], 3.0),
        (Quantile(levels=[0.1, 0.7]), [0.0], [[8.0, 0.0]], 0.9),
        (Quantile(levels=0.8), [0.0], [-8.0], 0.8),
    ],
)
def test_lipschitz_constants_are_attained(loss, y, f, largest):
    assert loss.lipschitz == pytest.approx(largest)
    assert np.linalg.norm(loss.derivative(y, f)) == pytest.approx(largest)


@pytest.mark.parametrize(
    ("loss", "y", "f"),
    [
        (Logistic(), [1.0], [0.0]),
        (Softmax(), [0], [[0.0, 0.0]]),
        (Squared(), [1.0], [0.0]),
        (Huber(), [0.5], [0.0]),
        (SquaredEpsilonInsensitive(), [1.0], [0.0]),
        (SquaredHinge(), [1.0], [0.0]),
        (QNormHinge(q=2), [1.0], [0.0]),
        (LeastSquaresMargin(), [1.0], [0.0]),
    ],
)
def test_curvature_is_attained(loss, y, f):
    f = np.asarray(f)
    move = np.zeros_like(f)
    move.flat[: f.size] = 1e-4 * np.array([1.0, -1.0])[: f.size]
    change = np.linalg.norm(loss.derivative(y, f + move) - loss.derivative(y, f))
    assert change / np.linalg.norm(move) == pytest.approx(loss.curvature, rel=1e-3)


def test_kinked_losses_declare_no_curvature():
    kinked = (Hinge(), AbsoluteError(), Quantile(), EpsilonInsensitive(), MulticlassHinge())
    assert all(loss.curvature is None for loss in (*kinked, Poisson(), QNormHinge()))


@pytest.mark.parametrize(
    ("loss", "y", "f"),
    [
        (AbsoluteError(), [2.0], [2.0]),
        (Quantile(levels=[0.1, 0.9]), [2.0], [[2.0, 2.0]]),
        (EpsilonInsensitive(epsilon=0.5), [1.0], [1.5]),
        (EpsilonInsensitive(epsilon=0.5), [1.0], [0.5]),
        (EpsilonInsensitive(epsilon=0.0), [1.0], [1.0]),
        (SquaredEpsilonInsensitive(epsilon=0.5), [1.0], [1.5]),
        (Hinge(), [1.0], [1.0]),
        (Hinge(), [-1.0], [-1.0]),
        (SquaredHinge(), [1.0], [1.0]),
        (QNormHinge(), [-1.0], [-1.0]),
        (MulticlassHinge(), [1], [[0.0, 1.0, -2.0]]),
    ],
)
def test_value_and_slope_are_zero_at_kinks(loss, y, f):
    values, slopes = loss.value_and_derivative(y, f)
    assert_array_equal(values, 0)
    assert_array_equal(slopes, np.zeros_like(slopes))


def test_ties_of_rivals_go_to_the_lowest_class():
    assert_array_equal(MulticlassHinge().derivative([1], [[0.5, 0, 0.5]]), [[1, -1, 0]])
    assert_array_equal(Softmax().decide([[1.0, 3.0, 3.0]]), [1])


@every_loss
@few
@given(seed=seeds)
def test_a_batch_equals_its_rows_and_its_scalars_bit_for_bit(loss, seed):
    y, f = random_rows(loss, np.random.default_rng(seed))
    values, slopes = loss.value_and_derivative(y, f)
    assert_array_equal(values, loss.value(y, f))
    assert_array_equal(slopes, loss.derivative(y, f))
    for i in range(len(f)):
        assert_array_equal(loss.value(y[i : i + 1], f[i : i + 1]), values[i : i + 1])
        assert_array_equal(loss.derivative(y[i : i + 1], f[i : i + 1]), slopes[i : i + 1])
    if f.shape[1] == 1:
        assert_array_equal(loss.value(y[:, 0], f[:, 0]), values)
        assert_array_equal(loss.derivative(y[:, 0], f[:, 0]), slopes[:, 0])
        assert loss.value(y[0, 0], f[0, 0]) == values[0]
        assert loss.derivative(y[0, 0], f[0, 0]).shape == ()


@every_loss
def test_memory_order_of_the_arguments_does_not_matter_and_they_are_left_alone(loss):
    y, f = random_rows(loss, np.random.default_rng(3), n_rows=8)
    expected = loss.value_and_derivative(y[::2], f[::2])
    y_before, f_before = y.copy(), f.copy()
    for order in ("C", "F"):
        found = loss.value_and_derivative(
            np.array(y, order=order)[::2], np.array(f, order=order)[::2]
        )
        assert_array_equal(found[0], expected[0])
        assert_array_equal(found[1], expected[1])
    assert_array_equal(y, y_before)
    assert_array_equal(f, f_before)


@every_loss
def test_an_empty_batch_gives_empty_results(loss):
    values, slopes = loss.value_and_derivative(
        np.empty((0, loss.target_width(loss.n_scores(3)))), np.empty((0, loss.n_scores(3)))
    )
    assert values.shape == (0,)
    assert slopes.shape == (0, loss.n_scores(3))


@every_loss
@pytest.mark.parametrize("size", [1e4, 1e12])
def test_extreme_scores_stay_finite(loss, size):
    y, f = random_rows(loss, np.random.default_rng(0))
    for scores in (np.full_like(f, size), np.full_like(f, -size), np.sign(f) * size):
        values, slopes = loss.value_and_derivative(y, scores)
        assert np.isfinite(values).all()
        assert np.isfinite(slopes).all()


@every_loss
def test_a_score_that_is_nan_makes_the_value_nan(loss):
    y, f = random_rows(loss, np.random.default_rng(5))
    for c in range(f.shape[1]):
        spoiled = f.copy()
        spoiled[:, c] = np.nan
        alone = loss.multiclass and f.shape[1] == 1
        assert alone or np.isnan(loss.value(y, spoiled)).all()


def test_logistic_is_exact_in_both_tails():
    values, slopes = Logistic().value_and_derivative([1.0, 1.0], [1e4, -1e4])
    assert_array_equal(values, [0, 1e4])
    assert_array_equal(slopes, [0, -1])
    assert Logistic().value([1.0], [40.0])[0] == pytest.approx(np.exp(-40.0), rel=1e-14)


def test_poisson_continues_along_its_tangent():
    loss = Poisson()
    below, above = loss.derivative([2.0, 2.0], [30.0, 1000.0])
    assert below == above == np.exp(30) - 2
    assert_allclose(loss.predict([[0.0, 30.0, 1e6]]), [[1, np.exp(30), np.exp(30)]])
    f = np.linspace(-5, 60, 14)
    # The two exponentials come from different libraries and may differ in the last digit.
    assert_allclose(loss.derivative(np.ones(14), f), loss.predict(f) - 1, rtol=1e-14, atol=1e-14)


def test_quantile_scores_are_ordered_target_by_target():
    loss = Quantile(levels=[0.2, 0.9])
    slopes = loss.derivative([[0.0, 10.0]], [[1.0, -1.0, 11.0, 9.0]])
    assert_allclose(slopes, [[0.8, -0.9, 0.8, -0.9]])
    assert (loss.n_scores(3), loss.target_width(6)) == (6, 3)


@few
@given(seed=seeds)
def test_softmax_equals_scipy(seed):
    y, f = random_rows(Softmax(), np.random.default_rng(seed), spread=30.0)
    assert_allclose(Softmax().probabilities(f), special.softmax(f, axis=1), rtol=1e-12)
    one_hot = np.eye(f.shape[1])[y[:, 0].astype(int)]
    assert_allclose(Softmax().derivative(y, f), special.softmax(f, axis=1) - one_hot, atol=1e-14)
    expected = -special.log_softmax(f, axis=1)[np.arange(len(f)), y[:, 0].astype(int)]
    assert_allclose(Softmax().value(y, f), expected, rtol=1e-12, atol=1e-14)


def test_explained_share_of_the_pinball_loss_at_its_ends():
    loss, y, ones = Quantile([0.1, 0.9]), np.arange(1.0, 5.0), np.ones(4)
    assert loss.explained(y, np.column_stack([y, y]), ones) == 1.0
    assert loss.explained(y, np.tile([1.0, 4.0], (4, 1)), ones) == 0.0
    # Constants are all there is to know.
    constant = np.full((4, 2), 7.0)
    assert loss.explained(constant[:, 0], constant, ones) == 1.0
    assert loss.explained(constant[:, 0], constant + 1.0, ones) == 0.0
