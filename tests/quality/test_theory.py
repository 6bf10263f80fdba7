"""Bounds of the papers against their recursions, closed forms, brute force and small runs."""

import itertools
import math
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit

import oracles_pairwise
import oracles_theory as oracles
from mercer import KernelClassifier, KernelRegressor, theory
from mercer.expansions import KOMP
from mercer.kernels import Cauchy, Gaussian, Laplacian, Linear, Matern, RationalQuadratic
from mercer.losses import (
    Hinge,
    Huber,
    LeastSquaresMargin,
    Logistic,
    QNormHinge,
    Squared,
    SquaredHinge,
)
from mercer.schedules import Constant, InverseTime, PowerDecay, Relative, Schedule

ACTIVATING = [Logistic(), SquaredHinge(), LeastSquaresMargin(), QNormHinge(1.2), QNormHinge(1.7)]
SMOOTH = {
    "logistic": Logistic(),
    "squared_hinge": SquaredHinge(),
    "least_squares": LeastSquaresMargin(),
}


def number(low, high):
    return st.floats(low, high, allow_nan=False)


few = settings(max_examples=40, deadline=None, derandomize=True)


# -- POLK ------------------------------------------------------------------------------------------


@few
@given(
    step=number(1e-3, 0.9), ridge=number(1e-3, 1), parsimony=number(0, 2), variance=number(0.01, 9)
)
def test_radius_is_where_a_step_gains_nothing(step, ridge, parsimony, variance):
    given_ = {"regularization": ridge, "parsimony": parsimony, "variance": variance}
    radius = theory.polk_radius(step_size=step, **given_)
    tolerance = parsimony * step**1.5
    terms = [-step * ridge * radius**2, 2 * tolerance * radius, step**2 * variance]  # (58)
    assert abs(sum(terms)) <= 1e-12 * max(map(abs, terms))
    assert_allclose(theory.polk_step_size(radius=radius, **given_), step, rtol=1e-12)


def test_step_for_a_wide_radius_stays_below_what_the_theorem_allows():
    step = theory.polk_step_size(radius=1e9, regularization=0.3, parsimony=0.1, variance=1.0)
    assert 0 < step < 1 / 0.3
    theory.polk_radius(step_size=step, regularization=0.3, parsimony=0.1, variance=1.0)
    # The square of the step without this limit is 1e359.
    step = theory.polk_step_size(radius=1e60, regularization=1e60, parsimony=1e-60, variance=0)
    assert 0 < step < 1 / 1e60


CASES = {
    "huber": (Huber(0.5), KernelRegressor, lambda X: np.sin(7 * X.sum(axis=1)) + 0.5),
    "logistic": (Logistic(), KernelClassifier, lambda X: (np.sin(9 * X[:, 0]) > 0).astype(int)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sides", [(1.0,), (1.0, 0.6)], ids=["line", "plane"])
def test_polk_keeps_within_its_bounds(case, sides, rng):
    loss, estimator, target = CASES[case]
    kernel, step, ridge, parsimony = Gaussian(0.2), 0.8, 0.02, 0.03
    X = rng.uniform(size=(250, len(sides))) * sides
    y = target(X)
    model = estimator(
        loss,
        kernel=kernel,
        expansion=KOMP(parsimony=parsimony),
        step_size=step,
        regularization=ridge,
        batch_size=1,
        average=None,
    )
    norm = theory.polk_norm(slope_bound=loss, kernel_bound=kernel, regularization=ridge)
    assert norm == loss.lipschitz / ridge
    bias = theory.polk_bias(step_size=step, tolerance=parsimony * step**1.5)
    order = theory.polk_model_order(
        kernel, theory.Box(sides), step_size=step, parsimony=parsimony, slope_bound=loss
    )
    points, weights = np.empty((0, len(sides))), np.empty((0, 1))
    biases = []
    for x, label in zip(X[:, None], y, strict=True):
        score = kernel(x, points) @ weights if len(points) else np.zeros((1, 1))
        sign = 2 * label - 1 if estimator is KernelClassifier else label
        slope = loss.derivative([float(sign)], score.ravel())
        if estimator is KernelClassifier:
            model.partial_fit(x, [label], classes=[0, 1])
        else:
            model.partial_fit(x, [label])
        full = np.vstack([points, x]), np.vstack([(1 - step * ridge) * weights, [-step * slope]])
        points, weights = model.dictionary_, model.coefficients_.reshape(-1, 1)
        apart = np.vstack([full[0], points]), np.vstack([full[1], -weights])
        biases.append(oracles.norm_of(kernel, *apart) / step)
        assert oracles.norm_of(kernel, points, weights) <= norm
        assert len(points) <= order
    # The difference of functions cancels to about the root of the precision.
    assert max(biases) <= bias + 1e-6
    assert max(biases) > 0.3 * bias  # so the run does compress


STATIONARY = [
    Gaussian(0.4),
    Laplacian(0.8),
    Matern(nu=1.5, length_scale=0.4),
    RationalQuadratic(length_scale=0.4),
    Cauchy(0.5),
]


@pytest.mark.parametrize("kernel", STATIONARY, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("distance", [0.3, 0.7])
def test_packing_of_a_line_is_exact(kernel, distance):
    points = oracles.grid((1.0,), 2001)
    packed = oracles.greedy_packing(kernel, points, distance)  # from left to right: the largest
    assert theory.packing_number(kernel, theory.Box((1.0,)), distance) == packed
    assert theory.packing_number(kernel, theory.Ball(0.5, 1), distance) == packed


@pytest.mark.parametrize("kernel", STATIONARY, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("sides", [(1.0, 0.7), (0.8, 0.5, 0.3)], ids=["plane", "space"])
@pytest.mark.parametrize("distance", [0.5, 0.9])
def test_no_packing_has_more_points_than_the_bound(kernel, sides, distance, rng):
    ordered = oracles.grid(sides, 9)
    for points in (
        ordered,
        rng.permuted(ordered, axis=0),
        rng.uniform(size=(400, 1)) * ordered[-1:],
    ):
        bound = theory.packing_number(kernel, theory.Box(sides), distance)
        assert oracles.greedy_packing(kernel, points, distance) <= bound
    centred = ordered - np.divide(sides, 2)
    ball = theory.Ball(float(np.linalg.norm(sides)) / 2, len(sides))
    inside = oracles.greedy_packing(kernel, centred, distance)
    assert inside <= theory.packing_number(kernel, ball, distance)


def test_packing_of_a_gaussian_follows_from_the_distance_in_closed_form():
    separation = 0.1 * math.sqrt(-2 * math.log(1 - 0.5**2 / 2))
    box = theory.Box((3.0, 2.0))
    cells = np.prod(np.ceil(np.array([3.0, 2.0]) * math.sqrt(2) / separation))
    r = separation / 2
    volume = (6.0 + 2 * 5.0 * r + math.pi * r**2) // (math.pi * r**2)  # area, edges, corners
    assert theory.packing_number(Gaussian(0.1), box, 0.5) == min(cells, volume)
    ball = theory.packing_number(Gaussian(0.1), theory.Ball(2.0, 2), 0.5)
    assert ball == (1 + 2.0 / r) ** 2 // 1


def test_one_point_has_room_where_no_two_are_far_enough_apart():
    assert theory.packing_number(Gaussian(1.0), theory.Box((5.0, 5.0)), math.sqrt(2)) == 1
    assert theory.packing_number(Gaussian(1.0), theory.Box((1e-3,)), 0.1) == 1
    assert theory.packing_number(Gaussian(1.0), theory.Box((0.0, 0.0)), 0.1) == 1


@pytest.mark.parametrize("side", [1e-3, 1.0, 1e100, 1e300])
def test_packing_of_lines_of_any_length(side):
    # |k_x - k_z|^2 = 2 - 2 exp(-r^2 / 2)
    apart = math.sqrt(-2.0 * math.log1p(-(1e-4**2) / 2.0))
    most = theory.packing_number(Gaussian(1.0), theory.Box((side,)), 1e-4)
    assert_allclose(most, np.ceil(side / apart), rtol=1e-6)


def test_packing_of_many_columns_is_infinite_rather_than_an_error():
    assert theory.packing_number(Gaussian(0.1), theory.Ball(1.0, 784), 0.1) == math.inf


# -- COLK ------------------------------------------------------------------------------------------

PROBLEM = st.builds(
    theory.COLKBounds,
    strong_convexity=number(0.05, 0.9),
    outer_curvature=number(0.1, 4),
    inner_lipschitz=number(0.1, 4),
    inner_slope=number(0.1, 4),
    gradient_variance=number(0.1, 4),
    inner_variance=number(0.1, 4),
    distance=number(0.1, 9),
    solution_norm=number(0.1, 9),
    kernel_bound=number(0.1, 4),
)


@few
@given(problem=PROBLEM, step=number(1e-3, 0.5), rate=number(1e-3, 0.9), tolerance=number(0, 0.1))
def test_bounds_of_colk_are_those_of_its_recursions(problem, step, rate, tolerance):
    used = {"step_size": step, "tracker_rate": rate, "tolerance": tolerance}
    for n_steps in (1, 7, 60):
        bound = problem.squared_distance(n_steps, **used)
        run = oracles.colk_recursion(problem, step, rate, tolerance, n_steps)
        left = (1 - step * problem.strong_convexity) ** n_steps
        assert run <= bound * (1 + 1e-12)
        # The bound sums the geometric series to infinity, the recursion to its last step.
        limit = bound - left * problem.solution_norm**2
        assert_allclose(run, bound - left * limit, rtol=1e-9)
        tracking = oracles.colk_tracking(problem, step, rate, tolerance, n_steps)
        assert tracking <= problem.tracking_error(**used)


@few
@given(problem=PROBLEM, accuracy=number(1e-4, 0.01))
def test_settings_of_colk_give_each_term_its_fifth(problem, accuracy):
    got = problem.settings(accuracy)
    z1, z2, z3, z4 = problem.z
    step, rate, tolerance = got.step_size, got.tracker_rate, got.tolerance
    fifth = accuracy / 5
    assert_allclose([z1 * step, z2 * rate**2 / step], fifth, rtol=1e-12)
    compression = [z3 * tolerance / step, z4 * tolerance**2 / step]
    assert_allclose(max(compression), fifth, rtol=1e-12)  # the largest tolerance that will do
    used = {"step_size": step, "tracker_rate": rate, "tolerance": tolerance}
    noise = 2 * fifth + sum(compression)
    start = problem.squared_distance(got.n_steps, **used) - noise
    assert start <= fifth * (1 + 1e-9)
    if got.n_steps > 1:  # the fewest steps that will do
        start = problem.squared_distance(got.n_steps - 1, **used) - noise
        assert start >= fifth * (1 - 1e-9)
    curvature = problem.outer_curvature * problem.kernel_bound * problem.inner_slope**2
    ridge = curvature * step / rate + problem.strong_convexity
    assert_allclose(got.regularization, ridge, rtol=1e-12)
    order = theory.colk_model_order(
        step_size=step, tolerance=tolerance, dimension=2, slope_bound=1.0
    )
    # (43), its second ratio the other way round.
    assert_allclose(order, max((5 * z3 / accuracy) ** 4, (z4 / z1) ** 2), rtol=1e-9)


def test_tolerance_as_printed_would_miss_the_accuracy():
    problem = theory.COLKBounds(
        strong_convexity=0.5,
        outer_curvature=1.0,
        inner_lipschitz=3.0,
        inner_slope=1.0,
        gradient_variance=0.1,
        inner_variance=1.0,
        distance=1e-3,
        solution_norm=1.0,
    )
    got, (z1, _, _, z4) = problem.settings(0.3), problem.z
    printed = min(0.3 * z4**0.5 / z1**1.5, 0.3**2 / (25 * z1 * problem.z[2]))
    used = got._asdict()
    del used["regularization"]
    assert problem.squared_distance(**used) <= 0.3
    assert problem.squared_distance(**{**used, "tolerance": printed}) > 0.3


@few
@given(problem=PROBLEM, rate=number(0.01, 0.9), share=number(0.01, 1), T=st.integers(1, 1000))
def test_bound_of_gradients_is_that_of_the_proof(problem, rate, share, T):
    ratio = 4 * (problem.outer_curvature * problem.inner_slope) ** 2 * problem.kernel_bound
    step = share * rate / ratio * (1 - 1e-12)
    bound = problem.squared_gradient(
        T,
        step_size=step,
        tracker_rate=rate,
        tolerance=0.01,
        initial_gap=2.0,
        risk_curvature=3.0,
    )
    printed = oracles.colk_gradient(problem, T, step, rate, 0.01, 2.0, 3.0)
    assert_allclose(bound, printed, rtol=1e-12)


def test_model_order_of_colk_is_above_that_of_points_with_room():
    kernel, sides = Gaussian(0.3), (1.0, 2.0)
    for tolerance in (1e-3, 1e-2, 0.02):
        distance = tolerance / (0.02 * 2.0)
        constant = math.prod(side * 2 / 0.3 + 2 for side in sides)
        order = theory.colk_model_order(
            step_size=0.02,
            tolerance=tolerance,
            dimension=2,
            slope_bound=2.0,
            packing_constant=constant,
        )
        assert theory.packing_number(kernel, theory.Box(sides), distance) <= order


# -- DSG -------------------------------------------------------------------------------------------


@few
@given(
    ridge=number(0.05, 1),
    product=st.sampled_from([1, 1.5, 2, 3]),
    slope=number(0.5, 2),
    curvature=number(0.25, 2),
    kappa=number(0.5, 2),
    phi=number(1, 3),
    norm=number(0, 5),
)
def test_constants_of_dsg(ridge, product, slope, curvature, kappa, phi, norm):
    theta = product / ridge
    bounds = theory.DSGBounds(
        scale=theta,
        regularization=ridge,
        slope_bound=slope,
        curvature=curvature,
        solution_norm=norm,
        kernel_bound=kappa,
        feature_bound=phi,
    )
    C2, Q1, Q2 = oracles.dsg_constants(theta, ridge, slope, curvature, kappa, phi, norm)
    assert_allclose([bounds.c_squared, bounds.q1, bounds.q2], [C2, Q1, Q2], rtol=1e-12)
    rows = oracles.dsg_recursion(theta, ridge, slope, curvature, kappa, phi, norm, 40)
    proved = np.arange(1, 41) >= (2 * product if product > 1 else 1)
    assert np.all((rows <= Q1**2 / np.arange(1, 41) * (1 + 1e-9))[proved])
    for t in (1, 2, 10, 40):
        weights = oracles.dsg_weights(theta, ridge, t)
        features = 4 * slope**2 * (kappa + phi) ** 2 * np.sum(weights**2)
        assert_allclose(bounds.feature_error(t), features, rtol=1e-9, atol=1e-12 * C2)
        if proved[t - 1]:
            assert features <= C2 / t * (1 + 1e-9)
            assert features + kappa * rows[t - 1] <= bounds.squared_error(t) * (1 + 1e-9)
        assert_allclose(bounds.squared_error(t), (2 * C2 + 2 * kappa * Q1**2) / t, rtol=1e-12)
        average = (2 * C2 + 2 * kappa * Q1**2) * (math.log(t) + 1) / t
        assert_allclose(bounds.average_squared_error(t), average, rtol=1e-12)
    if product == 1:
        special = 4 * math.sqrt(2) * ((kappa + phi) * curvature + ridge) * kappa**0.5
        assert max(norm, special * slope / ridge**2) * (1 + 1e-12) >= Q1
        mixed = 2 * math.sqrt(2) * kappa**0.5 * curvature * slope * (kappa + phi) * Q1
        Q = (4 * kappa * slope**2 + mixed) / ridge
        assert_allclose(bounds.average_excess_risk(40), Q * (math.log(40) + 1) / 40, rtol=1e-12)
    if product != 1.5:
        t, delta = 40, 0.01
        C, tail = math.sqrt(C2), math.log(2 * t / delta)
        pointwise = C2 * math.log(2 / delta) + 2 * kappa * Q2**2 * tail * math.log(t) ** 2
        spread = math.log(8 * math.sqrt(math.e) * t / delta)
        everywhere = C2 * spread + 2 * kappa * Q2**2 * tail * math.log(t) ** 2
        risk = C * math.sqrt(spread) + math.sqrt(2 * kappa * tail) * Q2 * math.log(t)
        assert_allclose(bounds.likely_squared_error(t, delta), pointwise / t, rtol=1e-9)
        got = bounds.likely_squared_error(t, delta, everywhere=True)
        assert_allclose(got, everywhere / t, rtol=1e-9)
        risk *= slope / math.sqrt(t)
        assert_allclose(bounds.likely_excess_risk(t, delta), risk, rtol=1e-9)
        tail = bounds.feature_error(t) * math.log(2 / delta) / 2
        assert_allclose(bounds.feature_error(t, delta), tail, rtol=1e-12)


# -- Ying and Zhou ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ACTIVATING, ids=repr)
@given(s=number(-6, 6), u=number(-6, 6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_exponents_and_constants_of_losses_fulfil_proposition_1(loss, s, u):
    alpha, L = loss.hoelder_exponent, loss.hoelder_constant
    (at_s, at_u), (slope_s, slope_u) = loss.value_and_derivative([1.0, 1.0], [s, u])
    jump, power = abs(slope_s - slope_u), (1 + alpha) / alpha
    slack = 1e-9 * (1 + at_s + at_u + jump**power)
    part = alpha * L ** (-1 / alpha) / (1 + alpha) * jump**power
    assert at_s - at_u - slope_u * (s - u) <= L / (1 + alpha) * abs(s - u) ** (1 + alpha) + slack
    assert at_u >= at_s + slope_s * (u - s) + part - slack
    assert (slope_s - slope_u) * (s - u) >= 2 * part - slack
    steepest = (1 + alpha) ** (1 + 1 / alpha) / alpha * L ** (1 / alpha) * at_s
    assert abs(slope_s) ** power <= steepest * (1 + 1e-9)


@pytest.mark.parametrize("loss", ACTIVATING, ids=repr)
@given(share=number(0.05, 0.95), c=number(0.01, 1), kappa2=number(0.5, 2), norm=number(0.1, 5))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_rate_of_algorithm_1_is_above_its_recursion(loss, share, c, kappa2, norm):
    alpha, L = loss.hoelder_exponent, loss.hoelder_constant
    theta = 1 / (1 + alpha) + share * alpha / (1 + alpha)
    given_ = {"kernel_bound": kappa2, "solution_norm": norm}
    limits = theory.unregularized_limits(PowerDecay(c, theta), loss, **given_)
    rate = theory.unregularized_rate(PowerDecay(c, theta), loss, **given_)
    assert rate.exponent == min(alpha * theta / 2, 1 - theta)
    sums = c ** (1 + alpha) * np.cumsum(np.arange(1, 2001.0) ** (-theta * (1 + alpha)))
    A = L**2 * (1 + 1 / alpha) ** alpha * kappa2 ** (1 + alpha)
    at_zero = float(loss.value([1.0], [0.0])[0])
    with np.errstate(over="ignore"):
        assert np.all((1 + at_zero) * np.exp(A * sums) <= limits.risk * (1 + 1e-12))
        # (3.3) and (3.4), whose sum is an upper bound of the sum itself
        loose = (1 + at_zero) * np.exp(
            A * c ** (1 + alpha) * theta * (1 + alpha) / (theta * (1 + alpha) - 1)
        )
        assert limits.risk <= loose * (1 + 1e-12)
    if math.isinf(rate.constant):
        assert limits.risk > 1e100
        return
    B = kappa2 * (1 + alpha) ** 2 * L ** (2 / (1 + alpha)) * alpha ** (-2 * alpha / (1 + alpha))
    squares = c**2 * np.sum(np.arange(1, 2001.0) ** (-2 * theta))
    spread = B * limits.risk ** (2 * alpha / (1 + alpha))
    assert norm**2 + spread * squares <= limits.squared_distance * (1 + 1e-12)
    assert limits.squared_distance <= norm**2 + spread * c**2 * 2 * theta / (2 * theta - 1)
    worst = oracles.pointwise_recursion(
        c, theta, alpha, A, limits.risk, limits.squared_distance, 300
    )
    t = np.arange(1, 301)
    assert np.all(worst <= rate.constant * t**-rate.exponent * (1 + 1e-9))
    assert rate(100) == rate.constant * 100**-rate.exponent


@pytest.mark.parametrize("loss", SMOOTH)
@given(
    share=number(0.1, 0.9),
    part=number(0.1, 0.9),
    kappa2=number(0.5, 4),
    norm=number(0.1, 5),
    variance=number(0, 2),
    loss_of_exponent=number(0.05, 0.95),
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_rate_of_algorithm_2_is_above_its_recursion(
    loss, share, part, kappa2, norm, variance, loss_of_exponent
):
    loss, known = SMOOTH[loss], oracles_pairwise.LOSSES[loss]
    L, bound = loss.hoelder_constant, loss.lipschitz
    theta, c = 0.5 + share / 2, part / (4 * kappa2 * L)
    most = min(theta - 0.5 if bound is None else theta / 4, 1 - theta)
    delta = loss_of_exponent * most
    rate = theory.pairwise_rate(
        PowerDecay(c, theta),
        loss,
        kernel_bound=kappa2,
        solution_norm=norm,
        variance=variance,
        delta=delta,
    )
    start = theta / 2 - 0.25 if bound is None else theta / 4
    assert_allclose(rate.exponent, min(start - delta / 2, 1 - theta - delta), atol=1e-15)
    assert rate.exponent > 0
    slope_0 = abs(float(loss.derivative([1.0], [0.0])[0]))
    mu = math.sqrt(math.pi / 2)
    worst = oracles.pairwise_recursion(
        c, theta, L, kappa2, slope_0, bound, known.norm_constant, norm, variance, mu, 2000
    )
    t = np.arange(len(worst))
    finite = np.isfinite(worst)
    assert np.all(worst[finite] <= rate.constant * t[finite] ** -rate.exponent * (1 + 1e-9))


@pytest.mark.parametrize("loss", SMOOTH)
@given(
    theta=number(0, 1),
    c=number(1e-3, 1),
    kappa2=number(0.5, 4),
    norm=number(0.1, 5),
    variance=number(0, 2),
)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_distance_of_pairs_is_above_its_recursion(loss, theta, c, kappa2, norm, variance):
    loss, steps = SMOOTH[loss], PowerDecay(c, theta)
    given_ = {"kernel_bound": kappa2, "solution_norm": norm, "variance": variance}
    sizes = [steps(t) for t in range(2, 41)]
    run = oracles.pairwise_distances(sizes, loss.hoelder_constant, kappa2, norm, variance)
    for t, distance in enumerate(run, 2):
        assert distance <= theory.pairwise_distance(steps, loss, t, **given_) * (1 + 1e-12)
    assert theory.pairwise_distance(steps, loss, 1, **given_) == norm**2 + 4 * variance
    if theta > 0.5:  # (3.12), which the rates of Theorems 3 and 4 begin with
        growth = (1 + 32 * (kappa2 * loss.hoelder_constant) ** 2) * c**2 / (2 * theta - 1)
        loose = math.log(norm**2 + variance * (4 + math.log(40))) + growth
        got = theory.pairwise_distance(steps, loss, 40, **given_)
        assert math.isinf(got) or math.log(got) <= loose + 1e-9


def test_distance_of_pairs_is_above_that_of_all_streams():
    """Rows at -1 and 1, three of ten labels wrong; f(x, x') is a number times x - x'."""
    chance = {(x, y): 0.35 if x == y else 0.15 for x in (-1, 1) for y in (-1, 1)}
    best = math.log(0.7 / 0.3) / 2

    def gradient(f, row, partner):
        apart, labels = row[0] - partner[0], row[1] - partner[1]
        return -expit(-labels * f * apart) * labels * apart

    def mean(power, n):
        """Mean of a power of the mean gradient at the optimum of a row's pairs with others."""
        streams = itertools.product(chance, repeat=n + 1)
        return sum(
            math.prod(chance[row] for row in rows)
            * np.mean([gradient(best, rows[-1], row) for row in rows[:-1]]) ** power
            for rows in streams
        )

    variance = mean(2, 1)
    assert abs(mean(1, 1)) < 1e-12
    # All pairs of a step share a row, so their mean is noisier than that of independent pairs.
    assert 1.5 * variance / 4 < mean(2, 4) < variance
    steps, n_rows = PowerDecay(0.06, 0.4), 6
    squared = np.zeros(n_rows + 1)
    for rows in itertools.product(chance, repeat=n_rows):
        f, weight = 0.0, math.prod(chance[row] for row in rows)
        for t in range(1, n_rows + 1):
            if t > 1:
                f -= steps(t) * np.mean([gradient(f, rows[t - 1], row) for row in rows[: t - 1]])
            squared[t] += weight * (f - best) ** 2
    given_ = {"kernel_bound": 4.0, "solution_norm": best, "variance": variance}
    for t in range(1, n_rows + 1):
        assert squared[t] <= theory.pairwise_distance(steps, "logistic", t, **given_)


@pytest.mark.parametrize("loss", SMOOTH)
def test_norm_of_pairs_has_the_constant_of_lemma_4(loss):
    steps = PowerDecay(0.3, 0.6)
    squared = oracles_pairwise.LOSSES[loss].norm_constant * sum(map(steps, range(2, 31)))
    assert_allclose(theory.pairwise_norm(steps, SMOOTH[loss], 30), math.sqrt(squared), rtol=1e-12)
    assert theory.pairwise_norm(steps, SMOOTH[loss], 1) == 0


def slope_of_terms(theta, loss):
    """How fast the terms of the second sum of (3.24) fall, far out."""
    t = np.arange(1, 10**6 + 1.0)
    D = np.sqrt(oracles_pairwise.LOSSES[loss].norm_constant * np.cumsum(t**-theta))
    M = np.abs(oracles_pairwise.LOSSES[loss].derivative(-2 * D))
    terms = (M * D + M**2) * t ** (-theta - 0.5) + t ** (-2 * theta) * M**2
    return np.log10(terms[-1] / terms[10**5 - 1])


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("theta", [0.3, 0.55, 0.62, 0.71, 0.79, 0.9])
def test_conditions_of_pairs_are_those_of_the_sums(loss, theta):
    got = theory.check_steps(PowerDecay(0.01, theta), SMOOTH[loss], pairs=True, kernel_bound=2.0)
    assert got.summable is bool(slope_of_terms(theta, loss) < -1)
    assert got.diverges is True
    assert got.small is True


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (0.1, (True, False)),
        (Constant(0.1), (True, False)),
        (PowerDecay(9.0, 0.5), (True, False)),
        (PowerDecay(9.0, 0.51), (True, True)),
        (PowerDecay(9.0, 1.0), (True, True)),
        (PowerDecay(9.0, 1.01), (False, True)),
        (InverseTime(0.5, 10), (True, True)),
        (Relative(PowerDecay(4.0, 0.6)), (True, True)),
        (Relative(Relative(Constant(0.2), unit=2.0).schedule, unit=3.0), (True, False)),
        (lambda t: 1 / t, (None, None)),
    ],
    ids=lambda value: (
        "function" if callable(value) and not isinstance(value, Schedule) else repr(value)
    ),
)
def test_conditions_of_rows_are_those_of_theorem_1(schedule, expected):
    got = theory.check_steps(schedule, "logistic")
    assert (got.diverges, got.summable) == expected
    assert got.fulfilled is (None if None in expected else all(expected))
    assert got.small is None


def test_condition_of_rows_depends_on_the_exponent_of_the_loss():
    steps = PowerDecay(1.0, 0.7)
    assert theory.check_steps(steps, QNormHinge(1.5)).summable is True  # above 1 / 1.5
    assert theory.check_steps(steps, QNormHinge(1.4)).summable is False


@pytest.mark.parametrize(
    ("schedule", "kernel_bound", "small"),
    [
        (PowerDecay(0.5, 0.8), 2.0, True),  # 1 / (4 * 2 / 4)
        (PowerDecay(0.51, 0.8), 2.0, False),
        (PowerDecay(0.5, 0.8), None, None),
        (Relative(PowerDecay(0.25, 0.8)), None, True),
        (Relative(PowerDecay(0.26, 0.8)), None, False),
        (Relative(PowerDecay(0.25, 0.8), unit=2.0), 2.0, True),
        (Relative(PowerDecay(0.25, 0.8), unit=2.1), 2.0, False),
        (lambda t: 1e-9, 2.0, None),
    ],
)
def test_steps_are_small_as_lemma_4_asks(schedule, kernel_bound, small):
    got = theory.check_steps(schedule, "logistic", pairs=True, kernel_bound=kernel_bound)
    assert got.small is small
    everything = {got.diverges, got.summable, small}
    assert got.fulfilled is (False if False in everything else None if None in everything else True)


def test_broken_conditions_are_warned_of_on_request():
    with pytest.warns(UserWarning, match=r"Constant.*fall too slowly.*between 0\.5 and 1"):
        theory.check_steps(Constant(0.1), "logistic", warn=True)
    with pytest.warns(UserWarning, match=r"PowerDecay.*too fast.*theta of at most 1"):
        theory.check_steps(PowerDecay(0.1, 1.5), "logistic", warn=True)
    with pytest.warns(UserWarning, match=r"too large at first.*Relative"):
        theory.check_steps(
            PowerDecay(9.0, 0.8), "logistic", pairs=True, kernel_bound=2.0, warn=True
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theory.check_steps(Constant(0.1), "logistic")
        theory.check_steps(PowerDecay(0.1, 0.8), "logistic", warn=True)
        theory.check_steps(lambda t: 0.1, "logistic", warn=True)


def test_relative_steps_of_a_rate_count_their_unit():
    given_ = {"kernel_bound": 2.0, "solution_norm": 1.0, "variance": 0.1}
    plain = theory.pairwise_rate(PowerDecay(0.5, 0.8), "logistic", **given_)
    unit = Relative(PowerDecay(0.25, 0.8), unit=2.0)
    assert theory.pairwise_rate(unit, "logistic", **given_) == plain


# -- wrong arguments -------------------------------------------------------------------------------

GOOD = {
    "scale": 10.0,
    "regularization": 0.1,
    "slope_bound": "logistic",
    "curvature": 0.25,
    "solution_norm": 1.0,
}
COARSE = {
    "strong_convexity": 0.5,
    "outer_curvature": 1.0,
    "inner_lipschitz": 1.0,
    "inner_slope": 1.0,
    "gradient_variance": 1.0,
    "inner_variance": 1.0,
    "distance": 1.0,
    "solution_norm": 1.0,
}
AT_COLK = {"step_size": 0.01, "tracker_rate": 0.1, "tolerance": 0.0}
OF_PAIRS = {"kernel_bound": 2.0, "solution_norm": 1.0, "variance": 0.1}
BOX = theory.Box((1.0,))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: theory.polk_radius(
                step_size=10.0, regularization=0.1, parsimony=0.1, variance=1.0
            ),
            "`step_size`.*below 1 /",
        ),
        (
            lambda: theory.polk_step_size(
                radius=1.0, regularization=0.1, parsimony=0.0, variance=0.0
            ),
            "both 0",
        ),
        (
            lambda: theory.polk_norm(slope_bound=Squared(), kernel_bound=1.0, regularization=0.1),
            r"`slope_bound`.*Squared\(\).*Give a number",
        ),
        (
            lambda: theory.polk_norm(slope_bound=1.0, kernel_bound=Linear(), regularization=0.1),
            r"`kernel_bound`.*Linear\(\).*largest k\(x, x\)",
        ),
        (lambda: theory.polk_bias(step_size=0.0, tolerance=0.1), "`step_size`"),
        (lambda: theory.packing_number(Linear(), BOX, 0.1), "stationary.*Gaussian"),
        (lambda: theory.packing_number(Gaussian(), BOX, 0.1), "`length_scale`.*from data"),
        (lambda: theory.packing_number(Gaussian(1.0), (1.0,), 0.1), "`domain`.*Box"),
        (lambda: theory.packing_number(Gaussian(1.0), theory.Box((-1.0,)), 0.1), "`domain`"),
        (lambda: theory.packing_number(Gaussian(1.0), theory.Box(()), 0.1), "dimension"),
        (lambda: theory.packing_number(Gaussian(1.0), theory.Ball(1.0, 0), 0.1), "dimension"),
        (lambda: theory.DSGBounds(**GOOD | {"scale": 9.0}), "is 0.9.*Take scale=10"),
        (lambda: theory.DSGBounds(**GOOD | {"curvature": Hinge()}), "`curvature`.*Hinge"),
        (
            lambda: theory.DSGBounds(**GOOD | {"scale": 15.0}).likely_excess_risk(9, 0.1),
            "1.5, not a whole",
        ),
        (lambda: theory.DSGBounds(**GOOD).likely_excess_risk(9, 0.5), "`delta`"),
        (lambda: theory.DSGBounds(**GOOD).likely_squared_error(3, 0.1), "`n_steps`"),
        (lambda: theory.DSGBounds(**GOOD | {"scale": 20.0}).average_excess_risk(9), "not 1"),
        (lambda: theory.COLKBounds(**COARSE | {"strong_convexity": 1.0}), "`strong_convexity`"),
        (lambda: theory.COLKBounds(**COARSE).settings(1e9), "`accuracy`.*smaller"),
        (
            lambda: theory.COLKBounds(**COARSE).squared_gradient(
                9,
                step_size=1.0,
                tracker_rate=0.1,
                tolerance=0.0,
                initial_gap=1.0,
                risk_curvature=1.0,
            ),
            "`step_size`.*small beside",
        ),
        (lambda: theory.check_steps(0.1, "hinge"), "`loss`.*Hölder"),
        (lambda: theory.check_steps(0.1, QNormHinge(1.5), pairs=True), "`loss`.*Lipschitz"),
        (lambda: theory.check_steps("fast", "logistic"), "schedule"),
        (
            lambda: theory.unregularized_rate(
                PowerDecay(1.0, 0.5), "logistic", kernel_bound=1.0, solution_norm=1.0
            ),
            "`schedule.power`.*between 0.5 and 1",
        ),
        (
            lambda: theory.unregularized_rate(
                Constant(1.0), "logistic", kernel_bound=1.0, solution_norm=1.0
            ),
            "`schedule` must be a power",
        ),
        (
            lambda: theory.pairwise_rate(Relative(PowerDecay(0.25, 0.8)), "logistic", **OF_PAIRS),
            "`schedule` must be a power.*with its unit",
        ),
        (
            lambda: theory.pairwise_rate(PowerDecay(0.6, 0.8), "logistic", **OF_PAIRS),
            "`schedule.scale`.*4 L",
        ),
        (
            lambda: theory.pairwise_rate(PowerDecay(0.5, 0.8), "logistic", **OF_PAIRS, delta=0.3),
            "`delta`",
        ),
        (
            lambda: theory.check_steps(0.1, "logistic", pairs=True, kernel_bound="gaussian"),
            "`kernel_bound`",
        ),
        (lambda: theory.check_steps(0.1, "logistic", kernel_bound=math.nan), "`kernel_bound`"),
        (lambda: theory.pairwise_norm(lambda t: -1.0, "logistic", 5), "`schedule`"),
        (
            lambda: theory.pairwise_distance(lambda t: math.nan, "logistic", 5, **OF_PAIRS),
            "`schedule`",
        ),
        (
            lambda: theory.pairwise_distance(0.1, "logistic", 5, **OF_PAIRS | {"variance": -1.0}),
            "`variance`",
        ),
        (lambda: theory.Rate(1.0, 0.5)(0), "`n_rows`"),
        (lambda: theory.packing_number(Gaussian(1.0), BOX, 1e-9), "`distance`.*told apart"),
        (lambda: theory.packing_number(Gaussian(1.0), theory.Box(1.0), 0.5), r"Box\(\(1.0,\)\)"),
        *(
            (partial(getattr(theory.COLKBounds(**COARSE), name), *args, **AT | wrong), match)
            for name, args, names in (
                ("regularization", (), ("step_size", "tracker_rate")),
                ("tracking_error", (), ("step_size", "tracker_rate", "tolerance")),
                ("squared_distance", (9,), ("step_size", "tracker_rate", "tolerance")),
            )
            for AT in [{one: AT_COLK[one] for one in names}]
            for wrong, match in (
                ({"step_size": math.nan}, "`step_size`"),
                ({"tracker_rate": 0.0}, "`tracker_rate`"),
                ({"tracker_rate": 1.5}, "`tracker_rate`"),
                ({"tolerance": -1.0}, "`tolerance`"),
            )
            if next(iter(wrong)) in names
        ),
        *(
            (
                partial(
                    theory.COLKBounds(**COARSE).squared_gradient,
                    **{"n_steps": 9, "initial_gap": 1.0, "risk_curvature": 1.0} | AT_COLK | wrong,
                ),
                f"`{next(iter(wrong))}`",
            )
            for wrong in (
                {"n_steps": 0},
                {"tracker_rate": 0.0},
                {"tolerance": -1.0},
                {"initial_gap": -5.0},
                {"risk_curvature": math.nan},
            )
        ),
    ],
)
def test_wrong_arguments_are_told(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("value", [1e300, 10**400])
@pytest.mark.parametrize(
    ("function", "name", "others"),
    [
        (theory.polk_bias, "tolerance", {"step_size": 0.1}),
        (theory.polk_norm, "slope_bound", {"kernel_bound": 1.0, "regularization": 0.1}),
        (theory.polk_norm, "kernel_bound", {"slope_bound": 1.0, "regularization": 0.1}),
        (theory.pairwise_norm, "schedule", {"loss": "logistic", "n_rows": 5}),
    ],
)
def test_numbers_whose_powers_overflow_are_told(function, name, others, value):
    with pytest.raises(ValueError, match=f"`{name}|`value`"):
        function(**{name: value}, **others)
