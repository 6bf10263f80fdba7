"""Gaussian processes: against the closed form, as a stream, through files, and what they refuse."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as ClosedForm
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GaussianProcessRegressor, load_model
from mercer.exceptions import ConditioningWarning, DivergenceError, TargetScaleWarning
from mercer.features import FeatureMap, FeatureOptions
from mercer.gaussian_process import Cyclic, Faithful, FeatureBlocks, Operator
from mercer.gaussian_process import _descent as descent
from mercer.kernels import Gaussian, Kernel, Laplacian, Polynomial
from oracles_gp import log_marginal_likelihood, operator_descent, posterior, ridge_descent

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, size=(60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=60)
NEW = RNG.uniform(-4.0, 4.0, size=(15, 2))
KERNEL = Gaussian(1.5)
NOISE = 0.09


class PlaneMap(FeatureMap):
    """The features (1, x_1, ..., x_d, 0, 0, ...), whatever the block: exact for ``Plane``."""

    def draw(self, seed, block, n_features, dtype):
        return (np.array([seed, block]),)

    def transform(self, prepared, numbers, out):
        out[:] = 0.0
        out[:, 0] = 1.0
        out[:, 1 : 1 + self.n_inputs] = prepared[0]


class Plane(Kernel):
    """k(x, x') = 1 + x'x, the prior of planes."""

    bound = None

    def _gram(self, A, B):
        return 1.0 + A @ B.T

    def _diagonal(self, A):
        return 1.0 + (A**2).sum(axis=1)

    def _feature_map(self, n_inputs, options, path):
        return PlaneMap(n_inputs, path)


def exact(kernel, noise=NOISE, y=Y):
    return posterior(kernel(X), kernel(NEW, X), kernel(NEW), y, noise)


def plane_model(**parameters):
    return GaussianProcessRegressor(Plane(), **{"noise": NOISE, "n_features": 5, **parameters})


# -- exact features: everything to rounding -------------------------------------------------------

METHODS = [
    pytest.param({"method": "features"}, 1e-9, id="features"),
    # One block of exact features is solved in one visit.
    pytest.param({"method": Cyclic(1, 5, 1)}, 1e-9, id="cyclic"),
    # Gradient descent: converged up to a remainder that the tolerance covers.
    pytest.param({"method": Faithful(1600, 3, 60, step_size=0.2)}, 1e-3, id="faithful"),
]
# Where answers are compared with each other, no descent has to arrive.
FEW_STEPS = [
    pytest.param({"method": "features"}, id="features"),
    pytest.param({"method": Cyclic(1, 5, 1)}, id="cyclic"),
    pytest.param({"method": Faithful(30, 3, 60, step_size=0.2)}, id="faithful"),
]


@pytest.mark.parametrize(("parameters", "tolerance"), METHODS)
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_with_exact_features_the_posterior_is_the_closed_form(parameters, tolerance, n_targets):
    y = Y if n_targets is None else np.column_stack([Y, Y**2, -3.0 * Y])[:, :n_targets]
    model = plane_model(**parameters).fit(X, y)
    mean, covariance = exact(Plane(), y=y)
    predicted, std = model.predict(NEW, return_std=True)
    assert predicted.shape == std.shape == mean.shape
    assert_allclose(predicted, mean, atol=tolerance)
    variances = np.diag(covariance) if y.ndim == 1 else np.diag(covariance)[:, np.newaxis]
    assert_allclose(std**2, np.broadcast_to(variances, mean.shape), atol=tolerance)
    _, noisy = model.predict(NEW, return_std=True, include_noise=True)
    assert_allclose(noisy**2, std**2 + NOISE, rtol=1e-12)


def test_covariances_are_the_closed_form():
    model = plane_model().fit(X, Y)
    _, covariance = exact(Plane())
    assert_allclose(model.predict(NEW, return_cov=True)[1], covariance, atol=1e-12)
    noisy = model.predict(NEW, return_cov=True, include_noise=True)[1]
    assert_allclose(noisy, covariance + NOISE * np.eye(len(NEW)), atol=1e-12)
    two = plane_model().fit(X, np.column_stack([Y, Y])).predict(NEW, return_cov=True)[1]
    assert_allclose(two, np.repeat(covariance[:, :, np.newaxis], 2, axis=2), atol=1e-12)


def test_weights_divide_the_noise_of_their_rows(rng):
    weights = rng.uniform(0.1, 4.0, size=60)
    mean, covariance = posterior(Plane()(X), Plane()(NEW, X), Plane()(NEW), Y, NOISE / weights)
    for parameters, tolerance in [p.values for p in METHODS]:
        model = plane_model(**parameters).fit(X, Y, sample_weight=weights)
        predicted, std = model.predict(NEW, return_std=True)
        assert_allclose(predicted, mean, atol=tolerance)
        assert_allclose(std**2, np.diag(covariance), atol=tolerance)
    model = plane_model().fit(X, Y, sample_weight=weights)
    expected = log_marginal_likelihood(Plane()(X), Y, NOISE / weights)
    assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-11)


@pytest.mark.parametrize("parameters", FEW_STEPS)
def test_a_row_of_weight_zero_counts_for_nothing(parameters):
    weights = np.r_[np.ones(50), np.zeros(10)]
    model = plane_model(random_state=0, **parameters).fit(X, Y, sample_weight=weights)
    without = plane_model(random_state=0, **parameters).fit(X[:50], Y[:50])
    assert_allclose(model.predict(NEW), without.predict(NEW), rtol=1e-12)
    assert model.n_samples_seen_ == 50


@pytest.mark.parametrize("parameters", FEW_STEPS)
def test_normalised_targets_are_those_of_a_model_of_normalised_targets(parameters):
    far = 1e5 + 20.0 * np.column_stack([Y, Y**2])
    scale = far.std(axis=0)
    model = plane_model(normalize_y=True, random_state=0, **parameters).fit(X, far)
    plain = plane_model(random_state=0, **parameters).fit(X, (far - far.mean(axis=0)) / scale)
    (mean, std), (mean_z, std_z) = (m.predict(NEW, return_std=True) for m in (model, plain))
    # 1e5 leaves eleven digits of targets of size 20.
    assert_allclose(mean, mean_z * scale + far.mean(axis=0), rtol=1e-12)
    assert_allclose(std, std_z * scale, rtol=1e-9)
    noisy = model.predict(NEW, return_std=True, include_noise=True)[1]
    assert_allclose(noisy**2, std**2 + NOISE * scale**2, rtol=1e-9)
    rebuilt = model.random_features(NEW) @ model.coefficients_ + model.y_mean_
    assert_allclose(rebuilt, mean, rtol=1e-12)


def test_a_constant_target_is_predicted_and_leaves_the_prior_scale():
    model = plane_model(normalize_y=True).fit(X, np.full(60, 1e6 + 1 / 3))
    assert_allclose(model.predict(NEW), 1e6 + 1 / 3, rtol=1e-12)
    _, covariance = exact(Plane())
    assert_allclose(model.predict(NEW, return_std=True)[1] ** 2, np.diag(covariance), atol=1e-12)


@pytest.mark.parametrize("noise", [1e-3, 0.09, 7.0])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_marginal_likelihood_is_that_of_the_features_gram_matrix(noise, n_targets):
    y = np.column_stack([Y, Y**2])[:, :n_targets]
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, n_features=64, random_state=0).fit(X, y)
    Z = model.random_features(X)
    expected = log_marginal_likelihood(Z @ Z.T, y, noise)
    assert_allclose(model.log_marginal_likelihood(noise), expected, rtol=1e-9)
    assert_allclose(model.set_params(noise=noise).fit(X, y).log_marginal_likelihood(), expected)


def test_marginal_likelihood_of_normalised_targets_is_in_their_own_units():
    y = 50.0 + 7.0 * Y
    model = plane_model(normalize_y=True).fit(X, y)
    scale = y.std()
    C = scale**2 * Plane()(X)
    expected = log_marginal_likelihood(C, y - y.mean(), NOISE * scale**2)
    assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-9)


def test_effective_dimension_is_the_trace_of_the_hat_matrix():
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, n_features=64, random_state=0).fit(X, Y)
    Z = model.random_features(X)
    hat = Z @ np.linalg.solve(Z.T @ Z + NOISE * np.eye(64), Z.T)
    assert_allclose(model.effective_dimension_, np.trace(hat), rtol=1e-9)


@pytest.mark.parametrize(("unit", "words"), [(100.0, "too small"), (0.001, "too large")])
def test_targets_in_another_unit_than_the_prior_are_told(unit, words):
    y = np.column_stack([Y, unit * Y])
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, n_features=64, random_state=0)
    with pytest.warns(TargetScaleWarning, match=f"{words}.*normalize_y=True.*likelihood") as told:
        model.fit(X, y)
    assert [w.filename for w in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(normalize_y=True).fit(X, y)
        # Nor where kernel and noise are in the same unit, be it by weights that divide the noise.
        model.set_params(normalize_y=False, kernel=unit**2 * KERNEL, noise=unit**2 * NOISE)
        model.fit(X, unit * Y)
        model.set_params(noise=NOISE).fit(X, unit * Y, np.full(60, unit**-2.0))


def test_only_the_first_rows_of_a_stream_tell_of_units():
    model = plane_model()
    with pytest.warns(TargetScaleWarning):
        model.partial_fit(X, 1e3 * Y)
    model.partial_fit(X, 1e3 * Y)
    # Few rows, zeros, and a kernel that grows where the function does not, say nothing.
    plane_model().partial_fit(X[:9], 1e-3 * Y[:9])
    plane_model().fit(X, np.zeros(60))
    GaussianProcessRegressor(Polynomial(5, offset=1.0), method="dictionary").fit(X, Y)


# -- random features ------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, Laplacian(4.0)], ids=str)
def test_error_against_the_kernels_own_posterior_falls_like_the_root_of_the_features(kernel):
    mean, covariance = exact(kernel)
    errors = []
    for n_features in (64, 1024):
        squares = []
        for seed in range(16 if n_features == 64 else 6):
            model = GaussianProcessRegressor(
                kernel, noise=NOISE, n_features=n_features, design="iid", random_state=seed
            ).fit(X, Y)
            predicted, std = model.predict(NEW, return_std=True)
            deviation = np.r_[predicted - mean, std**2 - np.diag(covariance)]
            squares.append(np.mean(deviation**2))
        errors.append(np.sqrt(np.mean(squares)))
    # 16 times the features: 4 times the accuracy. The 15 points of a seed have much in common, so
    # the ratio has about a quarter of itself as its standard error.
    assert 2.0 < errors[0] / errors[1] < 8.0


def test_std_is_that_of_scikit_learn_which_has_no_noise_in_it():
    closed = ClosedForm(RBF(1.5), alpha=NOISE, optimizer=None, normalize_y=True).fit(X, Y)
    mean, std = closed.predict(NEW, return_std=True)
    model = GaussianProcessRegressor(
        KERNEL, noise=NOISE, n_features=2048, normalize_y=True, random_state=0
    ).fit(X, Y)
    ours, our_std = model.predict(NEW, return_std=True)
    # A tenth of the mean's size; without the noise's share, 0.09, of the variances.
    assert np.sqrt(np.mean((ours - mean) ** 2)) < 0.1
    assert np.sqrt(np.mean((our_std - std) ** 2)) < 0.03


def test_samples_have_the_posteriors_mean_and_covariance():
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, n_features=64, random_state=0)
    mean, covariance = model.fit(X, Y).predict(NEW[:4], return_cov=True)
    n = 20_000
    samples = model.sample_y(NEW[:4], n, random_state=1)
    assert samples.shape == (4, n)
    # Five standard errors.
    sizes = np.diag(covariance)
    assert (np.abs(samples.mean(axis=1) - mean) < 5.0 * np.sqrt(sizes / n)).all()
    assert (
        np.abs(np.cov(samples) - covariance)
        < 5.0 * np.sqrt((np.outer(sizes, sizes) + covariance**2) / n)
    ).all()


def test_a_sample_is_one_function_in_every_call():
    model = plane_model(normalize_y=True, batch_size=4).fit(X, np.column_stack([Y, 9.0 * Y]))
    samples = model.sample_y(NEW, 3, random_state=5)
    assert samples.shape == (15, 2, 3)
    assert_allclose(model.sample_y(NEW[4:7], 3, random_state=5), samples[4:7], rtol=1e-10)
    assert not np.allclose(model.sample_y(NEW, 3, random_state=6), samples)
    # Planes it was asked for, planes it draws.
    design = np.column_stack([np.ones(15), NEW])
    flat = samples.reshape(15, -1)
    fitted = design @ np.linalg.lstsq(design, flat, rcond=None)[0]
    assert_allclose(fitted, flat, atol=1e-9 * np.abs(flat).max())


def test_intervals_cover_what_they_promise():
    """On functions of the prior 95 % of new observations are within 1.96 standard deviations."""
    rng = np.random.default_rng(3)
    inputs = rng.uniform(-3.0, 3.0, size=(400, 2))
    root = np.linalg.cholesky(KERNEL(inputs) + 1e-8 * np.eye(400))
    y = root @ rng.normal(size=(400, 40)) + np.sqrt(NOISE) * rng.normal(size=(400, 40))
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, n_features=1024, random_state=0)
    mean, std = model.fit(inputs[:200], y[:200]).predict(
        inputs[200:], return_std=True, include_noise=True
    )
    inside = np.abs(y[200:] - mean) < 1.96 * std
    # Standard error of a function's coverage over 40 functions is about 0.4 %.
    assert abs(inside.mean() - 0.95) < 0.015


@pytest.mark.parametrize("parameters", FEW_STEPS)
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_intervals_are_the_mean_and_quantiles_of_the_noisy_deviation(
    parameters, normalize_y, n_targets
):
    y = Y if n_targets is None else np.column_stack([Y, Y**2, -3.0 * Y])[:, :n_targets]
    model = plane_model(normalize_y=normalize_y, random_state=0, **parameters).fit(X, y)
    mean, std = model.predict(NEW, return_std=True, include_noise=True)
    for coverage in (0.5, 0.9, 0.99):
        ends = model.predict_interval(NEW, coverage)
        assert ends.shape == (len(NEW), 2, *mean.shape[1:])
        half = norm.ppf(0.5 + coverage / 2.0) * std
        assert_allclose(ends[:, 0], mean - half, rtol=1e-12)
        assert_allclose(ends[:, 1], mean + half, rtol=1e-12)
    assert_allclose(model.predict_interval(NEW), model.predict_interval(NEW, 0.9))


def test_intervals_of_inducing_points_and_wrong_coverages():
    model = GaussianProcessRegressor(
        KERNEL, noise=NOISE, method="dictionary", random_state=0
    ).fit(X, Y)  # fmt: skip
    mean, std = model.predict(NEW, return_std=True, include_noise=True)
    assert_allclose(model.predict_interval(NEW, 0.95)[:, 1], mean + norm.ppf(0.975) * std)
    for coverage in (0.0, 1.0, 90, "much", None):
        with pytest.raises(ValueError, match="coverage"):
            model.predict_interval(NEW, coverage)
    with pytest.raises(NotFittedError):
        GaussianProcessRegressor().predict_interval(NEW)


def test_dates_are_learned_in_units_of_their_spread_and_answered_as_dates(tmp_path):
    days = np.round(20_000.0 + 30.0 * Y)
    dates = days.astype(np.int64).astype("M8[D]")
    options = {"noise": NOISE, "n_features": 100, "normalize_y": True, "random_state": 0}
    model, plain = (GaussianProcessRegressor(KERNEL, **options).fit(X, y) for y in (dates, days))
    (mean, std), (expected, deviation) = (
        one.predict(NEW, return_std=True) for one in (model, plain)
    )
    assert_array_equal(mean, np.round(expected).astype(np.int64).astype("M8[D]"))
    assert_array_equal(std, deviation)
    ends = plain.predict_interval(NEW)
    assert_array_equal(model.predict_interval(NEW), np.round(ends).astype(np.int64).astype("M8[D]"))
    assert model.score(X, dates) == plain.score(X, days)
    assert model.log_marginal_likelihood() == plain.log_marginal_likelihood()
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for one in (model, again):
        one.partial_fit(X[:20], dates[:20])
        with pytest.raises(ValueError, match="no date as the first ones are written"):
            one.partial_fit(X[:1], ["soon"])
    assert_array_equal(again.predict(NEW), model.predict(NEW))


def test_marginal_likelihood_finds_the_noise():
    rng = np.random.default_rng(4)
    inputs = rng.uniform(-3.0, 3.0, size=(1000, 2))
    y = np.sin(inputs).sum(axis=1) + 0.3 * rng.normal(size=1000)
    model = GaussianProcessRegressor(KERNEL, n_features=128, random_state=0).fit(inputs, y)
    noises = NOISE * 2.0 ** np.arange(-4, 5)
    assert max(noises, key=model.log_marginal_likelihood) == NOISE


def test_far_from_the_data_the_prior_comes_back():
    model = GaussianProcessRegressor(Gaussian(0.5), n_features=1024, random_state=0).fit(X, Y)
    mean, std = model.predict([[60.0, 60.0]], return_std=True)
    assert abs(mean[0]) < 0.3
    assert 0.9 < std[0] <= 1.0 + 1e-12


# -- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize_y", [False, True])
def test_partial_fit_in_any_pieces_is_fit(normalize_y, rng):
    parameters = {"noise": NOISE, "n_features": 128, "random_state": 7, "normalize_y": normalize_y}
    y, weights = 30.0 * normalize_y + Y, rng.uniform(0.5, 2.0, size=60)
    whole = GaussianProcessRegressor(KERNEL, **parameters).fit(X, y, weights)
    for cuts in ([20], [1, 2, 3, 50], range(1, 60)):
        model = GaussianProcessRegressor(KERNEL, batch_size=7, **parameters)
        for rows in np.split(rng.permutation(60), list(cuts)):
            model.partial_fit(X[rows], y[rows], weights[rows])
        assert model.n_samples_seen_ == 60
        for a, b in zip(
            model.predict(NEW, return_std=True), whole.predict(NEW, return_std=True), strict=True
        ):
            assert_allclose(a, b, rtol=1e-8)
        assert_allclose(model.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-9)


def test_features_do_not_depend_on_the_number_of_rows():
    many = np.random.default_rng(1).normal(size=(1500, 2))
    y = many[:, 0]
    whole = GaussianProcessRegressor(KERNEL, n_features=32, random_state=3).fit(many, y)
    model = GaussianProcessRegressor(KERNEL, n_features=32, random_state=3)
    for start in range(0, 1500, 500):
        model.partial_fit(many[start : start + 500], y[start : start + 500])
    assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-8)


def test_a_noise_set_anew_takes_effect_with_the_next_rows():
    model = plane_model().partial_fit(X[:30], Y[:30])
    before = model.predict(NEW)
    model.set_params(noise=2.0)
    assert np.array_equal(model.predict(NEW), before)
    model.partial_fit(X[30:], Y[30:])
    assert_allclose(model.predict(NEW), exact(Plane(), 2.0)[0], rtol=1e-9)


def test_memory_does_not_grow_with_the_rows():
    model = plane_model(n_features=16, batch_size=50)
    sizes = []
    for _ in range(5):
        model.partial_fit(np.repeat(X, 20, axis=0), np.repeat(Y, 20))
        sizes.append(
            sum(
                a.nbytes
                for a in vars(model.posterior_.statistics).values()
                if isinstance(a, np.ndarray)
            )
        )
    assert len(set(sizes)) == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param((X[:5] * np.nan, Y[:5]), id="NaN"),
        pytest.param((X[:5, :1], Y[:5]), id="columns"),
        pytest.param((X[:5], np.column_stack([Y, Y])[:5]), id="targets"),
        pytest.param((X, Y, -np.ones(60)), id="weights"),
    ],
)
def test_a_refused_call_changes_nothing(bad):
    model = plane_model().partial_fit(X, Y)
    before = model.predict(NEW)
    with pytest.raises(ValueError, match=r"NaN|features|targets|negative"):
        model.partial_fit(*bad)
    assert np.array_equal(model.predict(NEW), before)
    assert model.n_samples_seen_ == 60


class Shy(PlaneMap):
    def transform(self, prepared, numbers, out):
        super().transform(prepared, numbers, out)
        out[prepared[0][:, 0] > 100.0] = np.inf


class ShyPlane(Plane):
    def _feature_map(self, n_inputs, options, path):
        return Shy(n_inputs, path)


def test_rows_whose_features_overflow_are_refused_as_a_whole():
    model = GaussianProcessRegressor(ShyPlane(), n_features=5, batch_size=10).partial_fit(X, Y)
    before = model.predict(NEW)
    far = X.copy()
    far[45, 0] = 200.0
    with pytest.raises(ValueError, match=r"not finite.*largest input is 200.*Rescale"):
        model.partial_fit(far, Y)
    assert np.array_equal(model.predict(NEW), before)


# -- descents -------------------------------------------------------------------------------------


def blocks_of(kernel, block_size, seed=0):
    return FeatureBlocks(kernel, 2, block_size, seed, FeatureOptions())


class FixedBatches:
    """Batches of an oracle, recorded from the generator's own order."""

    def __init__(self, n, size, n_steps, seed):
        batches = descent.Batches(n, size, np.random.RandomState(seed))
        self.rows = [batches.next() for _ in range(n_steps)]


@pytest.mark.parametrize(("block_size", "batch_size"), [(1, 1), (4, 8), (16, 60)])
def test_faithful_steps_are_the_papers_algorithm_averaged(block_size, batch_size):
    n_steps, ridge = 30, 0.02
    steps = [0.5 / (1.0 + t / 10.0) for t in range(1, n_steps + 1)]
    blocks = blocks_of(KERNEL, block_size)
    result = descent.faithful_descent(
        blocks, X, Y[:, np.newaxis], np.ones(60), regularization=ridge,
        step_size=lambda t: steps[t - 1], n_steps=n_steps, batch_size=batch_size,
        generator=np.random.RandomState(5),
    )  # fmt: skip
    features = [blocks.of(blocks.prepare(X), t) for t in range(n_steps)]
    batches = FixedBatches(60, batch_size, n_steps, 5).rows
    iterates = ridge_descent(features, Y, batches, steps, ridge)
    expected = np.zeros((n_steps, block_size))
    for iterate in iterates[n_steps // 2 :]:
        expected[: len(iterate)] += iterate / (n_steps - n_steps // 2)
    assert_allclose(result[:, :, 0], expected, atol=1e-13)


def test_faithful_descent_learns_many_targets_as_if_each_were_alone(rng):
    """With many a step is computed by the kernel between the rows and the batch."""
    targets, weights = rng.normal(size=(60, 40)), rng.uniform(0.5, 2.0, size=60)

    def descended(columns):
        return descent.faithful_descent(
            blocks_of(KERNEL, 16), X, columns, weights, regularization=0.02,
            step_size=lambda t: 0.5, n_steps=12, batch_size=8,
            generator=np.random.RandomState(5),
        )  # fmt: skip

    alone = [descended(targets[:, [j]]) for j in range(40)]
    assert_allclose(descended(targets), np.concatenate(alone, axis=2), atol=1e-13)


def test_operator_steps_are_the_papers_algorithm_averaged():
    n_steps, ridge = 12, 0.05
    steps = [0.8 / (1.0 + t / 5.0) for t in range(1, n_steps + 1)]
    blocks = blocks_of(KERNEL, 1)
    theta = descent.operator_descent(
        blocks, X, np.ones(60), regularization=ridge, step_size=lambda t: steps[t - 1],
        n_steps=n_steps, batch_size=1, generator=np.random.RandomState(5),
    )  # fmt: skip
    rows = blocks.prepare(X)
    left = [blocks.of(rows, 2 * t)[:, 0] for t in range(n_steps)]
    right = [blocks.of(rows, 2 * t + 1)[:, 0] for t in range(n_steps)]
    drawn = [batch[0] for batch in FixedBatches(60, 1, n_steps, 5).rows]
    iterates = operator_descent(left, right, drawn, steps, ridge)
    assert_allclose(theta, np.mean(iterates[n_steps // 2 :], axis=0), atol=1e-13)


def test_operator_of_exact_features_converges_to_the_exact_operator():
    """A = C (C + νI)⁻¹ in three dimensions, from gradient steps on all rows."""
    model = plane_model(
        method=Cyclic(1, 3, 1, variance=Operator(300, 3, 60, step_size=0.2)), noise=20.0
    ).fit(X, Y)
    _, covariance = exact(Plane(), 20.0)
    _, std = model.predict(NEW, return_std=True)
    assert_allclose(std**2, np.diag(covariance), atol=1e-3)


def test_cyclic_descent_converges_to_ridge_regression_on_all_its_blocks(rng):
    blocks, weights = blocks_of(KERNEL, 24), rng.uniform(0.5, 2.0, size=60)
    beta = descent.cyclic_descent(
        blocks, X, Y[:, np.newaxis], weights, regularization=NOISE / 60, n_blocks=3, n_sweeps=2000
    )
    Z = np.hstack([blocks.of(blocks.prepare(X), b) for b in range(3)])
    # f = Z β with |f|² = 3 |β|²: the kernel is ZZ'/3.
    mean, _ = posterior(Z @ Z.T / 3.0, Z @ Z.T / 3.0, Z @ Z.T / 3.0, Y, NOISE / weights)
    assert_allclose(Z @ beta.reshape(-1), mean, atol=1e-7)


DESCENTS = [
    pytest.param(Cyclic(8, 256), 0.15, 0.02, id="cyclic"),
    pytest.param(Faithful(400, 256, 60), 0.15, 0.02, id="faithful"),
]


@pytest.mark.parametrize(("method", "mean_error", "variance_error"), DESCENTS)
def test_descents_come_near_the_closed_form(method, mean_error, variance_error):
    """Root mean squares; the mean has size 0.7, variances are between 0.03 and 0.7."""
    mean, covariance = exact(KERNEL)
    model = GaussianProcessRegressor(KERNEL, noise=NOISE, method=method, random_state=0).fit(X, Y)
    predicted, std = model.predict(NEW, return_std=True)
    assert np.sqrt(np.mean((predicted - mean) ** 2)) < mean_error
    assert np.sqrt(np.mean((std**2 - np.diag(covariance)) ** 2)) < variance_error
    assert_allclose(model.random_features(NEW) @ model.coefficients_[:, 0], predicted, rtol=1e-9)


def test_the_operator_has_independent_features_whatever_the_design_of_the_mean():
    variances = [
        GaussianProcessRegressor(
            KERNEL, method=Cyclic(2, 32, 1, variance=Operator(8, 16)), design=design, random_state=0
        )
        .fit(X, Y)
        .predict(NEW, return_std=True)[1]
        for design in ("iid", "sobol")
    ]
    assert_array_equal(*variances)


def test_the_operator_sees_the_shape_of_the_variances():
    _, covariance = exact(KERNEL, noise=6.0)
    method = Cyclic(variance=Operator(60, 32, 60, step_size=1.0))
    model = GaussianProcessRegressor(KERNEL, noise=6.0, method=method, random_state=0).fit(X, Y)
    variances = model.predict(NEW, return_std=True)[1] ** 2
    assert np.corrcoef(variances, np.diag(covariance))[0, 1] > 0.8


def test_names_stand_for_methods_and_unknown_ones_are_refused():
    small = {"kernel": KERNEL, "random_state": 0}
    for name, method in [("cyclic", Cyclic()), ("doubly_stochastic", Faithful())]:
        models = [GaussianProcessRegressor(method=m, **small) for m in (name, method)]
        if name == "cyclic":
            assert np.array_equal(*(m.fit(X, Y).predict(NEW) for m in models))
        else:
            for model in models:
                model.check()
    with pytest.raises(ValueError, match=r"`method` must be .*, got 'exact'"):
        GaussianProcessRegressor(method="exact").fit(X, Y)
    with pytest.raises(ValueError, match=r"`variance` must be one of 'columns', 'operator'"):
        Cyclic(variance="both")


def test_descents_say_what_they_cannot_do():
    model = plane_model(method=Cyclic(1, 5, 1)).fit(X, Y)
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as caught:
        model.partial_fit(X, Y)
    assert "all rows must be there from the start" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="no rows can be added"):
        model.set_params(method="features").partial_fit(X, Y)
    for ask in (
        lambda: model.sample_y(NEW),
        lambda: model.predict(NEW, return_cov=True),
        model.log_marginal_likelihood,
        lambda: model.effective_dimension_,
    ):
        with pytest.raises(ValueError, match=r"needs method='features'.*Cyclic"):
            ask()


def test_steps_that_are_too_large_are_refused():
    with pytest.raises(ValueError, match="flip the sign"):
        plane_model(method=Faithful(10, 3, step_size=1e4)).fit(X, Y)
    with pytest.raises(DivergenceError, match="diverged in step"):
        plane_model(method=Faithful(400, 3, step_size=5.0)).fit(X, Y)
    wild = Cyclic(1, 3, 1, variance=Operator(300, 3, 60, step_size=5.0))
    with pytest.raises(DivergenceError, match="operator diverged in step"):
        plane_model(method=wild).fit(X, Y).predict(NEW, return_std=True)
    with pytest.raises(ValueError, match=r"at most 16384, got 65536: .* 32 GiB"):
        Operator(1024, 64)


# -- files, copies, errors ------------------------------------------------------------------------

STORED = [
    pytest.param({"n_features": 64}, id="features"),
    pytest.param({"n_features": 64, "normalize_y": True, "design": "iid"}, id="normalised"),
    pytest.param({"method": Cyclic(2, 32, 2)}, id="cyclic"),
    pytest.param({"method": Faithful(20, 32), "normalize_y": True}, id="faithful"),
    pytest.param({"method": Cyclic(2, 32, 1, variance=Operator(8, 4))}, id="operator"),
]


@pytest.mark.parametrize("parameters", STORED)
@pytest.mark.parametrize("columns", [1, 2])
def test_a_file_gives_the_same_model_back(tmp_path, parameters, columns):
    y = Y if columns == 1 else np.column_stack([Y, -Y])
    model = GaussianProcessRegressor("gaussian", random_state=0, **parameters).fit(X, y)
    model.save(tmp_path / "model")
    twin = load_model(tmp_path / "model")
    assert twin.get_params() == model.get_params()
    assert twin.kernel_ == model.kernel_
    for a, b in zip(
        model.predict(NEW, return_std=True), twin.predict(NEW, return_std=True), strict=True
    ):
        assert np.array_equal(a, b)
    if "method" not in parameters:
        for m in (model, twin):
            m.partial_fit(X[:9] + 0.1, y[:9])
        assert np.array_equal(model.predict(NEW), twin.predict(NEW))
        assert twin.log_marginal_likelihood() == model.log_marginal_likelihood()


def broken_states():
    features = GaussianProcessRegressor(KERNEL, n_features=4, random_state=0).fit(X, Y)
    descended = GaussianProcessRegressor(KERNEL, method=Cyclic(1, 4, 1)).fit(X, Y)
    sums = features.to_state()["posterior"]["statistics"]
    return [
        (features, {"kernel": Gaussian()}, "lacks numbers"),
        (features, {"n_targets": 0}, "n_targets"),
        (features, {"n_targets": 2, "flat": False}, "must be of shape"),
        (features, {"flat": True, "n_targets": 2}, "shape of the targets"),
        (features, {"design": "magic"}, "design"),
        (features, {"settings": features.to_state()["settings"] | {"n_features": 10**9}},
         "must be of shape"),
        (features, {"posterior": {"statistics": sums | {"triangle": sums["triangle"][1:]}}},
         "must be of shape"),
        (features, {"posterior": {"statistics": sums | {"products": sums["products"] * np.nan}}},
         "`products` must be finite"),
        (features, {"posterior": {"statistics": sums | {"weight": -1.0}}}, "`weight` must be"),
        (features, {"posterior": {"statistics": sums | {"n_rows": 0}}}, "`n_rows` must be"),
        (descended, {"n_features": 3}, "`rows` must be of shape"),
        (descended, {"feature_names": ["a"]}, "names"),
    ]  # fmt: skip


def test_files_that_do_not_fit_together_are_refused():
    for model, changes, words in broken_states():
        state = model.to_state()
        if isinstance(changes.get("kernel"), Kernel):
            from mercer.component import to_config

            changes = {"kernel": to_config(changes["kernel"])}
        with pytest.raises(ValueError, match=words):
            GaussianProcessRegressor.from_state(state | changes)


def test_an_unfitted_model_is_not_stored():
    with pytest.raises(ValueError, match="not fitted yet"):
        GaussianProcessRegressor().to_state()
    assert not hasattr(GaussianProcessRegressor(), "coefficients_")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"noise": -0.1}, r"`noise` must be .*\(0, inf\).*got -0.1. It is the variance"),
        ({"noise": 0.0}, "`noise`"),
        ({"noise": np.nan}, "`noise`"),
        ({"n_features": 0}, "`n_features`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"design": "best"}, "`design`"),
        ({"normalize_y": "yes"}, "`normalize_y`"),
        ({"kernel": "no such"}, "`kernel`"),
    ],
)
def test_wrong_parameters_are_named(parameters, words):
    model = GaussianProcessRegressor(**parameters)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=words):
            learn(X, Y)
    assert not hasattr(model, "posterior_")


def test_wrong_data_and_questions_are_refused():
    model = plane_model()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.where(Y > 0, Y, np.nan))
    with pytest.raises(ValueError, match="zero for all rows"):
        model.fit(X, Y, np.zeros(60))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, Y[:-1])
    model.fit(X, Y)
    with pytest.raises(ValueError, match="At most one of"):
        model.predict(NEW, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="`noise`"):
        model.log_marginal_likelihood(-1.0)
    with pytest.raises(ValueError, match="`n_samples`"):
        model.sample_y(NEW, 0)


def test_noise_below_rounding_is_told():
    model = GaussianProcessRegressor(KERNEL, noise=1e-18, n_features=64, random_state=0)
    with pytest.warns(ConditioningWarning, match="below the rounding error of the sums"):
        predicted = model.fit(np.repeat(X[:5], 9, axis=0), np.repeat(Y[:5], 9)).predict(X[:5])
    assert_allclose(predicted, Y[:5], atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plane_model(noise=1e-4).fit(X, Y).predict(NEW)


def test_noise_below_rounding_leaves_the_prior_where_there_are_no_data():
    """The posterior of the larger noise is more than its mean."""
    few, y = np.repeat(X[:5], 9, axis=0), np.repeat(Y[:5], 9)
    tiny, small = (
        GaussianProcessRegressor(KERNEL, noise=noise, n_features=64, random_state=0).fit(few, y)
        for noise in (1e-18, 1e-9)
    )
    with pytest.warns(ConditioningWarning, match="posterior is that of the larger noise"):
        variances = tiny.predict(NEW, return_std=True)[1] ** 2
    expected = small.predict(NEW, return_std=True)[1] ** 2
    assert expected.max() > 0.3
    # That noise is one rounding error, which leaves no more digits.
    assert_allclose(variances, expected, rtol=0.5, atol=1e-6)


def test_noise_below_rounding_leaves_cyclic_descent_its_solution():
    few, y = np.repeat(X[:5], 9, axis=0), np.repeat(Y[:5], 9)
    for block_size in (4, 64):
        model = GaussianProcessRegressor(
            KERNEL, noise=1e-18, method=Cyclic(2, block_size, 20), random_state=0
        )
        predicted, std = model.fit(few, y).predict(X[:5], return_std=True)
        assert_allclose(predicted, Y[:5], atol=1e-3)
        assert_allclose(std, 0.0, atol=1e-2)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.TargetScaleWarning")
def test_marginal_likelihood_of_interpolated_targets():
    """The squares of the targets less what is explained are no more than their rounding error."""
    few, y, noise = X[:12], np.full(12, 1e3), 1e-15
    model = GaussianProcessRegressor(KERNEL, noise=noise, n_features=64, random_state=0)
    Z = model.fit(few, y).random_features(few)
    expected = log_marginal_likelihood(Z @ Z.T, y, noise)
    # What is left after rounding; the difference alone is off by 28 %.
    assert_allclose(model.log_marginal_likelihood(), expected, rtol=0.15)


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"n_features": 256}, id="features"),
        pytest.param({"method": Cyclic(2, 256, 1)}, id="cyclic"),
        pytest.param({"method": Cyclic(2, 16, 1, variance=Operator(8, 32))}, id="operator"),
    ],
)
def test_memory_of_a_prediction_does_not_grow_with_its_rows(parameters):
    model = GaussianProcessRegressor(KERNEL, random_state=0, **parameters).fit(X, Y)
    rows = np.random.default_rng(0).uniform(-3.0, 3.0, size=(20_000, 2))
    # By "columns" they are fits of their own.
    with_std = getattr(model.method, "variance", None) != "columns"
    model.predict(rows[:9], return_std=with_std)
    tracemalloc.start()
    model.predict(rows, return_std=with_std)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Features of all rows would take 41 MB; rows and predictions themselves take a little.
    assert peak < 20e6


def test_clones_and_seeds():
    model = GaussianProcessRegressor(KERNEL, n_features=32, random_state=1)
    assert clone(model).get_params() == model.get_params()
    one, same = model.fit(X, Y).predict(NEW), clone(model).fit(X, Y).predict(NEW)
    assert np.array_equal(one, same)
    assert not np.allclose(clone(model).set_params(random_state=2).fit(X, Y).predict(NEW), one)
    deep = GaussianProcessRegressor(method=Cyclic())
    assert deep.set_params(method__n_sweeps=2).method == Cyclic(n_sweeps=2)


SMALL = {"n_features": 64, "random_state": 0}


def expected_failures(estimator):
    # Repeated rows have another median distance than rows with weights.
    reason = "The length scale is the median distance of the rows, whatever their weights."
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@pytest.mark.filterwarnings("ignore::mercer.exceptions.TargetScaleWarning")
@parametrize_with_checks(
    [
        GaussianProcessRegressor(**SMALL),
        GaussianProcessRegressor(method=Cyclic(2, 64, 2), random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
