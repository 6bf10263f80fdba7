"""Recursive least squares and quantised points, against dense versions of the papers."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import oracles_adaptive_filters as oracles
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.exceptions import DivergenceError
from mercer.expansions import ALD, FixedBudget, Full, Quantized, Tracking
from mercer.functions import RecursiveFunction, start, start_bilinear
from mercer.kernels import FunctionKernel, Gaussian, Laplacian, Polynomial

KERNEL = Gaussian(0.7)
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, size=(120, 2))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
Y += 0.05 * RNG.normal(size=Y.shape)
NEW = RNG.uniform(-2.0, 2.0, size=(30, 2))
# Well-conditioned: with these a dense solution knows at least eight digits.
ADAPTIVE = [
    ALD(0.05),
    ALD(0.02, noise=0.1, max_size=15),
    ALD(0.05, noise=0.1, forgetting=0.98),
    FixedBudget(12, noise=0.05),
    FixedBudget(12, noise=0.05, removal="oldest"),
    FixedBudget(12, noise=0.05, label_step=0.2),
    Tracking(12, noise=0.05, tolerance=0.01),
    Tracking(12, noise=0.05, forgetting=1.0, tolerance=0.01),
    Tracking(12, noise=0.05, forgetting=0.97, toward="exponential", tolerance=0.01),
]


def model_of(expansion, **options):
    return KernelRegressor(kernel=KERNEL, expansion=expansion, **options)


def fitted(expansion, X=X, y=Y, **options):
    return model_of(expansion, **options).partial_fit(X, y)


def plain(value):
    """Nested data as comparable tuples, arrays to the last bit."""
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return tuple(map(plain, value)) if isinstance(value, list) else value


def state(model):
    return plain(model.to_state())


def close(a, b, digits=1e-7):
    np.testing.assert_allclose(a, b, rtol=digits, atol=digits)


# -- the algorithms of the papers ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": 0.05},
        {"tolerance": 0.3},
        {"tolerance": 0.05, "noise": 0.2},
        {"tolerance": 0.05, "forgetting": 0.97},
        {"tolerance": 0.01, "max_size": 9},
    ],
    ids=repr,
)
def test_krls_is_least_squares_on_rows_seen_as_combinations_of_points(options):
    points, coefficients = oracles.krls_ald(KERNEL, X, Y, **options)
    model = fitted(ALD(**options))
    np.testing.assert_array_equal(model.dictionary_, points)
    assert 2 < len(points) < 60
    close(model.predict(NEW), KERNEL(NEW, points) @ coefficients, 1e-6)


@pytest.mark.parametrize("label_step", [0.0, 0.3])
@pytest.mark.parametrize("removal", ["error", "oldest"])
def test_a_fixed_budget_is_the_ridge_regression_of_its_rows(removal, label_step):
    points, coefficients = oracles.fixed_budget(
        KERNEL, X, Y, 15, 0.05, oldest=removal == "oldest", label_step=label_step
    )
    model = fitted(FixedBudget(15, 0.05, removal, label_step))
    np.testing.assert_array_equal(model.dictionary_, points)
    close(model.coefficients_, coefficients)


@pytest.mark.parametrize("toward", ["prior", "exponential"])
@pytest.mark.parametrize("forgetting", [1.0, 0.97])
@pytest.mark.parametrize(("size", "tolerance"), [(15, 0.01), (200, 0.1), (8, 1e-3)])
def test_the_tracker_conditions_a_gaussian_and_forgets(size, tolerance, forgetting, toward):
    points, mean, cov = oracles.tracker(
        KERNEL, X, Y, size, 0.05, forgetting, toward=toward, tolerance=tolerance
    )
    model = fitted(Tracking(size, 0.05, forgetting, toward, tolerance))
    np.testing.assert_array_equal(model.dictionary_, points)
    assert len(points) < len(X)
    K, k = KERNEL(points), KERNEL(NEW, points)
    close(model.predict(NEW), k @ np.linalg.solve(K, mean), 1e-6)
    q = np.linalg.solve(K, k.T).T
    expected = 1.0 - np.sum(k * q, axis=1) + np.sum(q @ cov * q, axis=1)
    f = model.learner_.current_function()
    unit = f.power[:-1] / f.power[-1]
    close(f.variance(NEW, noise=False), np.outer(expected, unit), 1e-6)
    close(f.variance(NEW) - f.variance(NEW, noise=False), np.outer(np.full(30, 0.05), unit), 1e-9)


@pytest.mark.parametrize("max_size", [None, 11])
@pytest.mark.parametrize("radius", [0.0, 0.2, 0.8])
def test_quantised_steps_are_those_of_qklms(radius, max_size):
    again = np.vstack([X[:80], X[:20]])  # rows that come again
    y = np.vstack([Y[:80], Y[:20]])
    points, coefficients = oracles.qklms(KERNEL, again, y, 0.3, radius, max_size or np.inf)
    model = fitted(
        Quantized(radius, max_size),
        again,
        y,
        step_size=0.3,
        regularization=0.0,
        batch_size=1,
        average=None,
    )
    np.testing.assert_array_equal(model.dictionary_, points)
    close(model.coefficients_, coefficients, 1e-12)


# -- where they agree ------------------------------------------------------------------------------

NOTHING_LOST = [
    ALD(0.0, noise=0.1),
    FixedBudget(200, noise=0.1),
    Tracking(200, noise=0.1, forgetting=1.0, tolerance=0.0),
]


@pytest.mark.parametrize("expansion", NOTHING_LOST, ids=repr)
def test_with_room_for_all_rows_all_are_the_exact_gaussian_process(expansion):
    kernel = Laplacian(1.0)  # rows are no combinations of each other
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = KernelRegressor(kernel=kernel, expansion=expansion)
    model.partial_fit(X, Y, sample_weight=weights)
    assert model.model_order_ == len(X)
    exact = oracles.ridge(kernel, X, Y, 0.1 / weights)
    close(model.predict(NEW), kernel(NEW, X) @ exact, 1e-8)
    f = model.learner_.current_function()
    k = kernel(NEW, X)
    variance = 1.0 - np.sum(k * np.linalg.solve(kernel(X) + np.diag(0.1 / weights), k.T).T, axis=1)
    unit = f.power[:-1] / f.power[-1]
    close(f.variance(NEW, noise=False), np.outer(variance, unit), 1e-8)


@pytest.mark.parametrize("expansion", NOTHING_LOST, ids=repr)
def test_smooth_kernels_lose_no_more_than_rounding_allows(expansion):
    model = fitted(expansion)
    exact = oracles.ridge(KERNEL, X, Y, 0.1)
    # Residuals below 1e-9 count as none; the function moves by their roots over the noise.
    close(model.predict(NEW), KERNEL(NEW, X) @ exact, 1e-4)


def test_krls_is_the_limit_of_no_noise():
    none = fitted(ALD(0.05)).predict(NEW)
    gaps = [
        np.abs(fitted(ALD(0.05, noise=noise)).predict(NEW) - none).max() for noise in (1e-3, 1e-6)
    ]
    assert gaps[1] < 2e-3 * gaps[0]


def test_a_sliding_window_knows_its_rows_only():
    model = fitted(FixedBudget(20, noise=0.1, removal="oldest"))
    np.testing.assert_array_equal(model.dictionary_, X[-20:])
    exact = oracles.ridge(KERNEL, X[-20:], Y[-20:], 0.1)
    close(model.coefficients_, exact)


def test_without_budget_and_forgetting_the_tracker_is_krls_with_noise():
    a = fitted(Tracking(500, 0.1, 1.0, tolerance=0.03))
    b = fitted(ALD(0.03, noise=0.1))
    np.testing.assert_array_equal(a.coefficients_, b.coefficients_)


def test_a_radius_of_zero_is_klms():
    options = {"step_size": 0.3, "regularization": 0.01, "batch_size": 4, "average": "suffix"}
    a, b = fitted(Quantized(0.0), **options), fitted(Full(), **options)
    np.testing.assert_array_equal(a.coefficients_, b.coefficients_)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_weight_is_as_many_rows(noise):
    twice = np.repeat(np.arange(60), 2)
    a = fitted(ALD(0.05, noise=noise), X[twice], Y[twice])
    b = model_of(ALD(0.05, noise=noise)).partial_fit(X[:60], Y[:60], sample_weight=np.full(60, 2.0))
    close(a.predict(NEW), b.predict(NEW), 1e-6)


def test_the_error_of_quantised_steps_is_the_distance_of_what_moved():
    f = start(Quantized(0.5), KERNEL, 2, 1)
    f.add(X[:10], Y[:10, :1], 0.0)
    before = f.coefficients, f.dictionary
    x = f.dictionary[:1] + 0.1
    error = f.add(x, np.array([[0.7]]), 0.0)
    assert f.size == len(before[1])
    points = np.vstack([before[1], x])
    change = np.vstack([before[0], [[0.7]]])
    change[: f.size] -= f.coefficients
    assert error == pytest.approx(np.sqrt((change.T @ KERNEL(points) @ change).item()), rel=1e-9)


def test_the_error_of_a_removal_is_its_distance():
    model = model_of(Tracking(10, forgetting=1.0, tolerance=0.0)).partial_fit(X[:10], Y[:10])
    full = model_of(Tracking(11, forgetting=1.0, tolerance=0.0)).partial_fit(X[:11], Y[:11])
    model.partial_fit(X[10:11], Y[10:11])
    points = np.vstack([full.dictionary_, model.dictionary_])
    change = np.vstack([full.coefficients_, -model.coefficients_])
    distance = np.sqrt(np.trace(change.T @ KERNEL(points) @ change))
    assert distance > 1e-3
    assert model.history_.compression_error[-1] == pytest.approx(distance, rel=1e-5)


# -- what they promise -----------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    tolerance=st.sampled_from([1e-3, 0.05, 0.4]),
    expansion=st.sampled_from(["ald", "tracking"]),
)
def test_rows_that_do_not_join_are_near_to_the_span(seed, tolerance, expansion):
    rows = np.random.default_rng(seed).normal(size=(40, 2))
    made = ALD(tolerance) if expansion == "ald" else Tracking(50, tolerance=tolerance)
    points = fitted(made, rows, rows[:, 0]).dictionary_
    k = KERNEL(rows, points)
    outside = 1.0 - np.sum(k * np.linalg.solve(KERNEL(points), k.T).T, axis=1)
    is_point = (rows[:, None] == points).all(axis=2).any(axis=1)
    assert (outside[~is_point] <= tolerance * (1.0 + 1e-6) + 1e-9).all()
    # Points were outside the span of those before them.
    for i in range(1, len(points)):
        k = KERNEL(points[:i], points[i : i + 1])[:, 0]
        assert 1.0 - k @ np.linalg.solve(KERNEL(points[:i]), k) > tolerance * (1.0 - 1e-6) - 1e-9


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    which=st.sampled_from([*ADAPTIVE, Quantized(0.1, 12)]),
    n=st.integers(1, 60),
)
def test_budgets_are_never_exceeded(seed, which, n):
    rows = np.random.default_rng(seed).normal(size=(n, 2))
    model = fitted(which, rows, rows[:, 0])
    assert model.history_.model_order.max() <= which.limit()
    assert len(model.dictionary_) <= min(which.limit(), n)
    assert np.isfinite(model.coefficients_).all()


def test_what_is_not_seen_again_fades_to_the_prior():
    expansion = Tracking(50, noise=0.05, forgetting=0.9, tolerance=1e-3)
    model = fitted(expansion, X[:30], Y[:30, 0])
    near, f = X[:5], model.learner_.current_function()
    said = model.predict(near)
    far = 100.0 + np.arange(40.0)[:, None] * [[0.0, 1e-9]]  # one place that knows nothing of these
    model.partial_fit(far, np.zeros(40))
    # Each row takes the root of the factor of the mean.
    close(model.predict(near), 0.9**20 * said, 1e-9)
    model.partial_fit(np.repeat(far, 6, axis=0), np.zeros(240))
    close(f.variance(near, noise=False) / (f.power[:-1] / f.power[-1]), np.ones((5, 1)), 1e-6)


def test_a_tracker_follows_what_turns_and_krls_does_not():
    x = np.random.default_rng(1).uniform(-2.0, 2.0, size=(600, 1))
    y = np.sin(2.0 * x[:, 0]) * np.where(np.arange(600) < 300, 1.0, -1.0)
    grid = np.linspace(-1.8, 1.8, 50)[:, None]
    errors = [
        np.mean((fitted(e, x, y).predict(grid) + np.sin(2.0 * grid[:, 0])) ** 2)
        for e in (Tracking(30, forgetting=0.97), ALD(1e-4, noise=0.01))
    ]
    assert errors[0] < 0.02
    assert errors[1] > 0.3


def test_exponential_forgetting_does_not_wind_up():
    model = fitted(ALD(0.05, forgetting=0.5), X[:30], Y[:30, 0])
    model.partial_fit(np.repeat(X[:1], 3000, axis=0), np.full(3000, 2.0))
    assert model.predict(X[:1])[0] == pytest.approx(2.0, abs=1e-6)
    assert np.abs(model.predict(NEW)).max() < 1e6


@pytest.mark.parametrize(
    "expansion",
    [
        Tracking(40, noise=1e-3, forgetting=0.999, tolerance=1e-8),
        Tracking(40, noise=1e-3, forgetting=1.0, tolerance=1e-8),
        FixedBudget(40, noise=1e-3),
        FixedBudget(40, noise=1e-3, removal="oldest"),
    ],
    ids=repr,
)
def test_roundings_do_not_add_up_over_a_long_stream(expansion):
    rows = np.random.default_rng(2).uniform(-2.0, 2.0, size=(6000, 2))
    f = fitted(expansion, rows, np.sin(2.0 * rows[:, 0])).learner_.current_function()
    n = f.size
    matrix = KERNEL(f.dictionary)
    matrix[np.diag_indices(n)] = f.arrays.diagonal[:n]
    factor = np.triu(f.arrays.factor[:n, :n])
    assert np.abs(factor.T @ factor - matrix).max() < 1e-12


SLOW = np.arange(4000)[:, None]
IN_ORDER = {
    "sorted": np.linspace(-3.0, 3.0, 4000)[:, None],
    "series": np.sin(0.01 * (SLOW + np.arange(6))),
    "walk": np.cumsum(0.02 * np.random.default_rng(4).normal(size=(4000, 2)), axis=0),
}


@pytest.mark.parametrize("rows", IN_ORDER.values(), ids=IN_ORDER)
@pytest.mark.parametrize(
    "expansion",
    [
        ALD(1e-6),
        ALD(1e-6, forgetting=0.99),
        Tracking(40),
        Tracking(40, noise=1e-6, tolerance=1e-10),
        Tracking(40, forgetting=0.99, toward="exponential"),
        FixedBudget(40, noise=1e-6),
    ],
    ids=repr,
)
def test_rows_in_order_do_no_harm(expansion, rows):
    y = np.sin(rows[:, 0])
    model = KernelRegressor(kernel=Gaussian(1.0), expansion=expansion).partial_fit(rows, y)
    assert np.abs(model.predict(rows[-50:]) - y[-50:]).max() < 0.05
    if expansion.forgetting == 1.0 and isinstance(expansion, ALD):
        assert np.abs(model.predict(rows) - y).max() < 1e-3
    f = model.learner_.current_function()
    if f.arrays.spread.size:
        spread = f.arrays.spread[: f.size, : f.size]
        np.testing.assert_array_equal(spread, spread.T)
        values = np.linalg.eigvalsh(spread)
        assert values[0] > -1e-12 * values[-1]


# -- as estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", ADAPTIVE, ids=repr)
def test_a_stream_is_the_same_however_it_is_cut(expansion):
    whole, parts, single = (model_of(expansion) for _ in range(3))
    whole.partial_fit(X, Y)
    for rows in np.split(np.arange(120), [1, 2, 50, 51, 90]):
        parts.partial_fit(X[rows], Y[rows])
    for x, y in zip(X, Y, strict=True):
        single.learn_one(x, y)
    np.testing.assert_array_equal(whole.coefficients_, parts.coefficients_)
    np.testing.assert_array_equal(whole.coefficients_, single.coefficients_)
    np.testing.assert_array_equal(whole.history_.loss, parts.history_.loss)
    close(single.predict_one(NEW[0]), whole.predict(NEW[:1])[0], 1e-9)


@pytest.mark.parametrize("expansion", [*ADAPTIVE, Quantized(0.3)], ids=repr)
@pytest.mark.parametrize("how", ["file", "pickle"])
def test_learning_goes_on_from_a_file_bit_for_bit(expansion, how, tmp_path):
    model = fitted(expansion, X[:70], Y[:70])
    if how == "file":
        model.save(tmp_path / "model")
        other = load_model(tmp_path / "model")
    else:
        other = pickle.loads(pickle.dumps(model))
    for one in (model, other):
        one.partial_fit(X[70:100], Y[70:100])
        for x, y in zip(X[100:], Y[100:], strict=True):
            one.learn_one(x, y)
    assert state(model) == state(other)
    np.testing.assert_array_equal(model.predict(NEW), other.predict(NEW))


@pytest.mark.parametrize("expansion", [*ADAPTIVE, Quantized(0.3, 9)], ids=repr)
def test_models_can_be_cloned(expansion):
    model = clone(model_of(expansion))
    assert model.expansion == expansion
    assert model.expansion is not expansion


@pytest.mark.parametrize("expansion", ADAPTIVE, ids=repr)
def test_a_kernel_without_compiled_code_learns_the_same(expansion):
    formula = lambda x, z: np.exp(-np.sum((x - z) ** 2) / (2.0 * 0.7**2))  # noqa: E731
    plain = FunctionKernel(formula, pairwise=True)
    assert plain.compiled(np.float64) is None
    a = fitted(expansion, X[:40], Y[:40])
    b = KernelRegressor(kernel=plain, expansion=expansion).partial_fit(X[:40], Y[:40])
    np.testing.assert_array_equal(a.dictionary_, b.dictionary_)
    close(a.coefficients_, b.coefficients_, 1e-8)
    close(b.predict_one(NEW[0]), b.predict(NEW[:1])[0], 1e-12)


@pytest.mark.parametrize("expansion", [ALD(0.05), FixedBudget(20, removal="oldest")], ids=repr)
def test_outputs_are_learned_side_by_side(expansion):
    both = fitted(expansion)
    for c in range(2):
        close(both.predict(NEW)[:, c], fitted(expansion, X, Y[:, c]).predict(NEW), 1e-12)


def test_sparse_and_single_precision_rows_are_learned():
    expected = fitted(ALD(0.05), X.astype(np.float32).astype(float)).predict(NEW)
    close(fitted(ALD(0.05), X.astype(np.float32)).predict(NEW), expected, 1e-5)
    rows = sparse.csr_matrix(X)
    close(fitted(ALD(0.05), rows).predict(sparse.csr_matrix(NEW)), fitted(ALD(0.05)).predict(NEW))


def test_rows_without_weight_leave_no_trace():
    weights = np.ones(120)
    weights[::3] = 0.0
    a = model_of(Tracking(20)).partial_fit(X, Y, sample_weight=weights)
    b = fitted(Tracking(20), X[weights > 0.0], Y[weights > 0.0])
    np.testing.assert_array_equal(a.coefficients_, b.coefficients_)


@pytest.mark.parametrize("expansion", [ALD(), Tracking(), FixedBudget(), Quantized(0.2)], ids=repr)
def test_kernels_are_found_and_targets_centred(expansion):
    model = KernelRegressor(expansion=expansion, random_state=0).fit(50.0 * X, 100.0 + Y)
    assert model.score(50.0 * X, 100.0 + Y) > 0.8


@pytest.mark.parametrize("expansion", [ALD(0.05, noise=0.1), Tracking(50), FixedBudget(50)])
def test_classes_are_learned_by_their_codes_and_may_come_later(expansion):
    labels = np.array(["a", "b", "c"])[(X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)]
    early = labels != "c"
    order = np.concatenate([np.flatnonzero(early)[:40], np.flatnonzero(~early), [1, 2, 3]])
    late = KernelClassifier("least_squares_margin", kernel=KERNEL, expansion=expansion)
    late.partial_fit(X[order[:40]], labels[order[:40]])
    late.partial_fit(X[order[40:]], labels[order[40:]])
    named = KernelClassifier("least_squares_margin", kernel=KERNEL, expansion=expansion)
    named.partial_fit(X[order], labels[order], classes=["a", "b", "c"])
    assert named.score(X[order], labels[order]) > 0.9
    if isinstance(expansion, ALD):  # which points there are does not depend on targets
        close(late.decision_function(NEW), named.decision_function(NEW), 1e-6)
    assert late.score(X[order], labels[order]) > 0.9


def test_a_call_that_fails_leaves_the_model_as_it_was():
    kernel = Polynomial(degree=3)
    model = KernelRegressor(kernel=kernel, expansion=Tracking(20)).partial_fit(X, Y)
    before = state(model)
    with pytest.raises(ValueError, match="overflows"):
        model.partial_fit(np.full((1, 2), 1e120), Y[:1])
    with pytest.raises(ValueError, match="overflows"):
        model.learn_one([1e120, 1e120], Y[0])
    with pytest.raises(DivergenceError, match="no longer finite"):
        model.partial_fit(X[:2], np.full((2, 2), 1e308))
    for huge in (1e308, 1e250):
        with pytest.raises(DivergenceError, match="no longer finite"):
            fitted(Tracking(20), X[:30], Y[:30]).learn_one(X[0], [huge, 1e308])
    said = model.predict(NEW)
    model.learn_one(X[0], Y[0], sample_weight=0.0)
    np.testing.assert_array_equal(model.predict(NEW), said)
    bounded = fitted(Tracking(20))
    before = state(bounded)
    with pytest.raises(DivergenceError, match="no longer finite"):
        bounded.learn_one(X[0], [1e308, -1e308])
    assert state(bounded) == before


@pytest.mark.parametrize("expansion", [ALD(), FixedBudget(), Tracking()], ids=repr)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "huber"}, "least squares row by row"),
        ({"risk": "cvar:0.9"}, "least squares row by row"),
        ({"step_size": 0.1}, "equations are solved"),
        ({"step_size": "theory"}, "theory"),
        ({"regularization": 0.1}, "noise"),
    ],
    ids=repr,
)
def test_what_does_not_go_together_is_refused(expansion, options, message):
    with pytest.raises(ValueError, match=message):
        model_of(expansion, **options).partial_fit(X, Y[:, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ALD(1.0), "tolerance"),
        (lambda: ALD(noise=-1.0), "noise"),
        (lambda: ALD(forgetting=0.0), "forgetting"),
        (lambda: FixedBudget(noise=0.0), "on its diagonal"),
        (lambda: FixedBudget(removal="newest"), "removal"),
        (lambda: Tracking(noise=0.0), "back to the prior"),
        (lambda: Tracking(toward="nothing"), "toward"),
        (lambda: Quantized(-1.0), "radius"),
        (lambda: Quantized(1.0, 0), "max_size"),
    ],
)
def test_wrong_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_pairs_of_second_order_are_refused():
    with pytest.raises(ValueError, match="pairs of second order"):
        start_bilinear(ALD(), KERNEL, 2)
    with pytest.raises(ValueError, match="bilinear"):
        start_bilinear(Quantized(0.1), KERNEL, 2)


def test_without_noise_there_is_no_variance():
    f = fitted(ALD(0.05)).learner_.current_function()
    with pytest.raises(ValueError, match="noise"):
        f.variance(NEW)


def test_the_unit_of_the_variance_is_that_of_the_targets():
    noise, rng = 0.3, np.random.default_rng(3)
    rows = rng.uniform(-2.0, 2.0, size=(1500, 2))
    y = np.sin(2.0 * rows[:, 0]) + noise * rng.normal(size=1500)
    for scale in (1.0, 1000.0):
        f = fitted(Tracking(80, 0.2, 1.0), rows, scale * y).learner_.current_function()
        wide = np.sqrt(f.variance(NEW).mean()) / scale
        assert 0.5 * noise < wide < 2.0 * noise


def test_states_that_do_not_fit_are_refused():
    f = fitted(Tracking(20)).learner_.current_function()
    good = f.snapshot()
    for name in ("factor", "spread", "values", "power"):
        bad = {**good, "arrays": {**good["arrays"], name: good["arrays"][name][:-1]}}
        with pytest.raises(ValueError, match=f"`{name}` must be"):
            RecursiveFunction(KERNEL, Tracking(20), 2, 2).restore(bad)
    with pytest.raises(ValueError, match="do not fit together"):
        RecursiveFunction(KERNEL, Tracking(5), 2, 2).restore(good)


def test_other_losses_take_quantised_points():
    model = model_of(Quantized(0.3), loss="huber", average=None).fit(X, Y[:, 0])
    assert model.score(X, Y[:, 0]) > 0.8
    assert model.model_order_ < 120
