"""Gaussian processes on inducing points: against dense algebra, as a stream, through files."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor as ClosedForm
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import GaussianProcessRegressor, load_model
from mercer.gaussian_process import InducingPoints, as_method
from mercer.kernels import Gaussian, Kernel, Laplacian, Mapped, Matern, Polynomial
from mercer.maps import Affine
from mercer.sums import CENTERS
from oracles_gp import log_marginal_likelihood, posterior, projected, variational_bound

RNG = np.random.default_rng(0)
X = RNG.uniform(-3.0, 3.0, size=(120, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=120)
NEW = RNG.uniform(-4.0, 4.0, size=(15, 2))
KERNEL = 1.7 * Gaussian(1.5)
NOISE = 0.09
SMALL = InducingPoints(20, first_rows=40)
KERNELS = [
    KERNEL,
    Laplacian(4.0),
    Matern(1.5, 2.0) + 0.1 * Polynomial(1),
    Mapped(Gaussian(1.0), Affine(np.zeros(2), np.array([[1.0, 0.3], [0.0, 0.4]]))),
]


def sparse(kernel=KERNEL, method=SMALL, **parameters):
    parameters = {"noise": NOISE, "random_state": 0, **parameters}
    return GaussianProcessRegressor(kernel, method=method, **parameters)


def dense(model, y=Y, noise=NOISE, rows=X):
    """Mean, covariance and bound by the oracle, on the model's dictionary."""
    k, D = model.kernel_, model.dictionary_
    mean, covariance = projected(k(D), k(rows, D), k(NEW, D), k(NEW), y, noise)
    return mean, covariance, variational_bound(k(D), k(rows, D), k.diag(rows), y, noise)


# -- against dense algebra ------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_everything_is_the_dense_formula(kernel, n_targets):
    y = Y if n_targets is None else np.column_stack([Y, Y**2, -3.0 * Y])[:, :n_targets]
    model = sparse(kernel).fit(X, y)
    mean, covariance, bound = dense(model, y)
    assert model.model_order_ == len(model.dictionary_) == 20
    predicted, std = model.predict(NEW, return_std=True)
    assert predicted.shape == std.shape == mean.shape
    assert_allclose(predicted, mean, atol=1e-8)
    variances = np.diag(covariance) if y.ndim == 1 else np.diag(covariance)[:, np.newaxis]
    assert_allclose(std**2, np.broadcast_to(variances, mean.shape), atol=1e-8)
    _, full = model.predict(NEW, return_cov=True)
    expected = covariance if y.ndim == 1 else np.repeat(covariance[..., None], y.shape[1], axis=2)
    assert_allclose(full, expected, atol=1e-8)
    assert_allclose(model.log_marginal_likelihood(), bound, rtol=1e-8)
    _, noisy = model.predict(NEW, return_std=True, include_noise=True)
    assert_allclose(noisy**2, std**2 + NOISE, rtol=1e-12)
    _, noisy = model.predict(NEW[:3], return_cov=True, include_noise=True)
    assert_allclose(noisy.T, full[:3, :3].T + NOISE * np.eye(3), atol=1e-12)


@pytest.mark.parametrize("centers", CENTERS)
def test_every_choice_of_points_gives_the_dense_formula(centers):
    model = sparse(method=InducingPoints(20, centers, first_rows=40)).fit(X, Y)
    mean, covariance, bound = dense(model)
    predicted, std = model.predict(NEW, return_std=True)
    assert_allclose(predicted, mean, atol=1e-8)
    assert_allclose(std**2, np.diag(covariance), atol=1e-8)
    assert_allclose(model.log_marginal_likelihood(), bound, rtol=1e-8)


@pytest.mark.parametrize("first_rows", ["auto", 120, 10_000])
def test_with_all_rows_as_points_it_is_the_exact_process(first_rows):
    kernel = Gaussian(1.5)
    closed = ClosedForm(RBF(1.5), alpha=NOISE, optimizer=None).fit(X, Y)
    mean, covariance = closed.predict(NEW, return_cov=True)
    model = sparse(kernel, InducingPoints(120, first_rows=first_rows)).fit(X, Y)
    assert_allclose(model.predict(NEW), mean, atol=1e-6)
    assert_allclose(model.predict(NEW, return_cov=True)[1], covariance, atol=1e-6)
    std = model.predict(NEW, return_std=True)[1]
    assert_allclose(std, np.sqrt(np.diag(covariance)), atol=1e-6)
    density = closed.log_marginal_likelihood(closed.kernel_.theta)
    assert_allclose(model.log_marginal_likelihood(), density, atol=1e-6)


def test_the_mean_is_a_kernel_expansion_on_the_dictionary():
    y = 40.0 + 7.0 * np.column_stack([Y, Y**2])
    model = sparse(normalize_y=True, batch_size=7).fit(X, y)
    rebuilt = model.kernel_(NEW, model.dictionary_) @ model.coefficients_ + model.y_mean_
    assert_allclose(rebuilt, model.predict(NEW), rtol=1e-10)


def test_weights_divide_the_noise_of_their_rows(rng):
    weights = rng.uniform(0.1, 4.0, size=120)
    model = sparse().fit(X, Y, sample_weight=weights)
    mean, covariance, bound = dense(model, noise=NOISE / weights)
    predicted, std = model.predict(NEW, return_std=True)
    assert_allclose(predicted, mean, atol=1e-8)
    assert_allclose(std**2, np.diag(covariance), atol=1e-8)
    assert_allclose(model.log_marginal_likelihood(), bound, rtol=1e-8)


def test_rows_of_weight_zero_count_for_nothing():
    weights = np.r_[np.zeros(10), np.ones(110)]
    model = sparse().fit(X, Y, sample_weight=weights)
    without = sparse().fit(X[10:], Y[10:])
    assert np.array_equal(model.dictionary_, without.dictionary_)
    assert_allclose(model.predict(NEW), without.predict(NEW), rtol=1e-10)
    assert model.n_samples_seen_ == 110


def test_normalised_targets_are_those_of_a_model_of_normalised_targets():
    far = 1e5 + 20.0 * np.column_stack([Y, Y**2])
    scale = far.std(axis=0)
    model = sparse(normalize_y=True).fit(X, far)
    plain = sparse().fit(X, (far - far.mean(axis=0)) / scale)
    (mean, std), (mean_z, std_z) = (m.predict(NEW, return_std=True) for m in (model, plain))
    # 1e5 leaves eleven digits of targets of size 20.
    assert_allclose(mean, mean_z * scale + far.mean(axis=0), rtol=1e-12)
    assert_allclose(std, std_z * scale, rtol=1e-8)
    expected = plain.log_marginal_likelihood() - 120 * np.log(scale).sum()
    assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-9)


def test_effective_dimension_is_the_trace_of_the_hat_matrix():
    model = sparse().fit(X, Y)
    k, D = model.kernel_, model.dictionary_
    Q = k(X, D) @ np.linalg.solve(k(D), k(D, X))
    expected = np.trace(Q @ np.linalg.inv(Q + NOISE * np.eye(120)))
    assert_allclose(model.effective_dimension_, expected, rtol=1e-8)


# -- what the bound and the variances are for -----------------------------------------------------


@pytest.mark.parametrize("noise", [1e-3, 0.09, 2.0])
def test_the_bound_is_below_the_density_and_rises_with_more_points(noise):
    exact = log_marginal_likelihood(KERNEL(X), Y, noise)
    bounds = []
    for size in (5, 15, 45, 120):
        # All rows are first rows, so each choice is one of all of them.
        model = sparse(method=InducingPoints(size, first_rows=120), noise=noise).fit(X, Y)
        bounds.append(model.log_marginal_likelihood())
        other = sparse(method=model.method, noise=7.0).fit(X, Y)
        assert_allclose(other.log_marginal_likelihood(noise), bounds[-1], rtol=1e-12)
    assert bounds == sorted(bounds)
    assert_allclose(bounds[-1], exact, rtol=1e-6)
    assert bounds[-2] < exact


def test_the_bound_finds_the_noise_and_the_length_scale():
    rng = np.random.default_rng(4)
    rows = rng.uniform(-3.0, 3.0, size=(1500, 1))
    # A function of the prior of length 1, and noise of variance 0.09.
    y = np.linalg.cholesky(Gaussian(1.0)(rows) + 1e-8 * np.eye(1500)) @ rng.normal(size=1500)
    y += 0.3 * rng.normal(size=1500)
    method = InducingPoints(30, first_rows=300)
    model = sparse(Gaussian(1.0), method).fit(rows, y)
    noises = NOISE * 1.5 ** np.arange(-4, 5)
    assert max(noises, key=model.log_marginal_likelihood) == NOISE

    def bound(length_scale):
        return sparse(Gaussian(length_scale), method).fit(rows, y).log_marginal_likelihood()

    # One function on six lengths tells its length scale to about a factor of two.
    assert max([0.05, 0.2, 1.0, 5.0, 20.0], key=bound) == 1.0


def test_few_points_lose_information_and_the_variances_tell():
    _, covariance = posterior(KERNEL(X), KERNEL(NEW, X), KERNEL(NEW), Y, NOISE)
    std = sparse(method=InducingPoints(10, first_rows=120)).fit(X, Y).predict(NEW, True)[1]
    assert (std**2 > 0.9 * np.diag(covariance)).all()
    assert (std**2 > 1.5 * np.diag(covariance)).any()


def test_far_from_the_dictionary_the_prior_comes_back():
    model = sparse().fit(X, Y)
    far = np.array([[60.0, 60.0], [-99.0, 0.0]])
    mean, std = model.predict(far, return_std=True)
    assert_allclose(mean, 0.0, atol=1e-12)
    assert_allclose(std**2, 1.7, rtol=1e-12)
    assert_allclose(model.predict(far, return_cov=True)[1], 1.7 * np.eye(2), atol=1e-12)


def test_intervals_cover_what_they_promise_with_few_points():
    """On functions of the prior at least 95 % of observations are within 1.96 deviations."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-3.0, 3.0, size=(400, 2))
    kernel = Gaussian(1.0)
    root = np.linalg.cholesky(kernel(rows) + 1e-8 * np.eye(400))
    y = root @ rng.normal(size=(400, 40)) + np.sqrt(NOISE) * rng.normal(size=(400, 40))
    # The effective dimension of the exact process is about 45.
    model = sparse(kernel, InducingPoints(25, first_rows=200)).fit(rows[:200], y[:200])
    mean, std = model.predict(rows[200:], return_std=True, include_noise=True)
    inside = np.abs(y[200:] - mean) < 1.96 * std
    # Standard error of a function's coverage over 40 functions is about 0.4 %.
    assert 0.94 < inside.mean() < 0.99


# -- samples --------------------------------------------------------------------------------------


def test_samples_have_the_posteriors_mean_and_covariance():
    model = sparse(method=InducingPoints(8, first_rows=40), n_features=1024).fit(X, Y)
    mean, covariance = model.predict(NEW[:4], return_cov=True)
    n = 4_000
    samples = model.sample_y(NEW[:4], n, random_state=1)
    assert samples.shape == (4, n)
    sizes = np.diag(covariance)
    # Five standard errors, and two in a hundred for the random features.
    assert (np.abs(samples.mean(axis=1) - mean) < 5.0 * np.sqrt(sizes / n)).all()
    errors = np.abs(np.cov(samples) - covariance)
    assert (errors < 5.0 * np.sqrt((np.outer(sizes, sizes) + covariance**2) / n) + 0.02).all()


def test_a_sample_is_one_function_in_every_call():
    y = np.column_stack([Y, 9.0 * Y])
    model = sparse(normalize_y=True, batch_size=4, n_features=128).fit(X, y)
    samples = model.sample_y(NEW, 3, random_state=5)
    assert samples.shape == (15, 2, 3)
    assert_allclose(model.sample_y(NEW[4:7], 3, random_state=5), samples[4:7], rtol=1e-9)
    assert not np.allclose(model.sample_y(NEW, 3, random_state=6), samples)


class Brownian(Kernel):
    """k(x, x') = min(x, x') on one positive input: no random features."""

    bound = None

    def _gram(self, A, B):
        return np.minimum(A, B.T)

    def _diagonal(self, A):
        return A[:, 0].copy()


def test_kernels_without_random_features_are_learned_and_say_why_samples_are_not(rng):
    rows = np.sort(rng.uniform(0.1, 3.0, size=(60, 1)), axis=0)
    model = sparse(Brownian(), InducingPoints(60)).fit(rows, rows[:, 0])
    mean, covariance = posterior(
        Brownian()(rows), Brownian()(rows[::7], rows), Brownian()(rows[::7]), rows[:, 0], NOISE
    )
    predicted, found = model.predict(rows[::7], return_cov=True)
    assert_allclose(predicted, mean, atol=1e-6)
    assert_allclose(found, covariance, atol=1e-6)
    with pytest.raises(ValueError, match=r"A sample needs random features.*return_cov=True"):
        model.sample_y(rows)


# -- streams --------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 119), max_size=6, unique=True),
    normalize_y=st.booleans(),
    first_rows=st.sampled_from([20, 33, 119, 120, 121]),
)
def test_any_cuts_of_the_stream_are_one_fit(cuts, normalize_y, first_rows):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=120)
    weights[::11] = 0.0
    y = 30.0 * normalize_y + Y
    parameters = {"method": InducingPoints(20, first_rows=first_rows), "normalize_y": normalize_y}
    whole, model = sparse(**parameters).fit(X, y, weights), sparse(**parameters)
    for part in np.split(np.arange(120), sorted(cuts)):
        if weights[part].any():
            model.partial_fit(X[part], y[part], weights[part])
    assert_allclose(model.dictionary_, whole.dictionary_, rtol=1e-12)
    for ours, theirs in zip(
        model.predict(NEW, return_std=True), whole.predict(NEW, return_std=True), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-8)
    assert_allclose(model.log_marginal_likelihood(), whole.log_marginal_likelihood(), rtol=1e-9)
    assert model.n_samples_seen_ == whole.n_samples_seen_


def test_from_the_first_row_on_it_is_the_exact_process_of_the_rows_so_far():
    model = sparse(method=InducingPoints(20))
    for start, stop in ((0, 1), (1, 7), (7, 20)):
        model.partial_fit(X[start:stop], Y[start:stop])
        rows, y = X[:stop], Y[:stop]
        mean, covariance = posterior(KERNEL(rows), KERNEL(NEW, rows), KERNEL(NEW), y, NOISE)
        predicted, found = model.predict(NEW, return_cov=True)
        assert_allclose(predicted, mean, atol=1e-6)
        assert_allclose(found, covariance, atol=1e-6)
        assert model.model_order_ == model.n_samples_seen_ == stop


def numbers_stored(value):
    """How many numbers there are in a nested state."""
    if isinstance(value, dict):
        return sum(map(numbers_stored, value.values()))
    return np.size(value)


def test_rows_are_dropped_once_the_points_are_chosen():
    model = sparse(method=InducingPoints(9, first_rows=30))
    kept = []
    for part in np.split(np.arange(120), 12):
        model.partial_fit(X[part], Y[part])
        kept.append(numbers_stored(model.to_state()["posterior"]))
    # Two inputs, a target and a weight each, and one number more; then 9 points, 45 + 2 * 9 sums
    # and a few numbers.
    assert kept[:2] == [41, 81]
    assert len(set(kept[2:])) == 1
    assert kept[-1] < 18 + 45 + 18 + 10


def test_what_is_given_is_not_kept_by_reference():
    rows, y, weights = X[:15].copy(), Y[:15].copy(), np.ones(15)
    model = sparse().partial_fit(rows, y, weights)
    before = model.predict(NEW)
    for array in (rows, y, weights):
        array[:] = 9.0
    model.partial_fit(X[15:16], Y[15:16], [1e-12])
    assert_allclose(model.predict(NEW), before, atol=1e-8)


@pytest.mark.parametrize("n_first", [30, 60], ids=["first rows", "sums"])
def test_a_noise_set_anew_takes_effect_with_the_next_rows(n_first):
    model = sparse().partial_fit(X[:n_first], Y[:n_first])
    before = model.predict(NEW)
    model.set_params(noise=2.0)
    assert np.array_equal(model.predict(NEW), before)
    model.partial_fit(X[n_first:], Y[n_first:])
    assert_allclose(model.predict(NEW), dense(model, noise=2.0)[0], atol=1e-8)


@pytest.mark.parametrize("n_rows", [30, 60], ids=["first rows", "sums"])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        pytest.param((X * np.nan, Y), "NaN", id="NaN"),
        pytest.param((X[:5, :1], Y[:5]), "features", id="columns"),
        pytest.param((X, np.column_stack([Y, Y])), "targets", id="targets"),
        pytest.param((X * 1e200, Y), "not finite.*Rescale", id="overflow"),
    ],
)
def test_a_refused_call_changes_nothing(n_rows, bad, words):
    model = sparse(Polynomial(3, scale=1.0), batch_size=10).partial_fit(X[:n_rows], Y[:n_rows])
    before = model.predict(NEW)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=words):
        model.partial_fit(*bad)
    assert np.array_equal(model.predict(NEW), before)
    assert model.n_samples_seen_ == n_rows


# -- files and questions --------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [30, 60], ids=["first rows", "sums"])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_file_gives_the_same_model_back_bit_for_bit(tmp_path, n_rows, columns):
    y = Y if columns == 1 else np.column_stack([Y, -Y])
    model = sparse("gaussian", SMALL, normalize_y=True, n_features=64)
    model.fit(X[:n_rows], y[:n_rows]).save(tmp_path / "model")
    twin = load_model(tmp_path / "model")
    assert twin.get_params() == model.get_params()
    for _ in range(2):
        assert np.array_equal(twin.dictionary_, model.dictionary_)
        for a, b in zip(
            model.predict(NEW, return_std=True), twin.predict(NEW, return_std=True), strict=True
        ):
            assert np.array_equal(a, b)
        assert np.array_equal(model.sample_y(NEW), twin.sample_y(NEW))
        assert twin.log_marginal_likelihood() == model.log_marginal_likelihood()
        for m in (model, twin):
            m.partial_fit(X[n_rows:], y[n_rows:])


def broken_states():
    early, late = sparse().fit(X[:30], Y[:30]), sparse().fit(X, Y)
    rows, sums = (m.to_state()["posterior"] for m in (early, late))
    large = (
        sparse(method=InducingPoints(21, first_rows=SMALL.first_rows))
        .fit(X, Y)
        .to_state()["posterior"]
    )
    empty = {name: None if part is None else part[:0] for name, part in rows.items()}
    return [
        (early, rows | {"X": rows["X"][:, :1]}, r"`X` must be of shape \(30, 2\), got \(30, 1\)"),
        (early, rows | {"targets": rows["targets"] * np.nan}, "`targets` must be finite"),
        (early, rows | {"weights": -rows["weights"]}, "`weights` must be at least 0"),
        (early, rows | {"weights": 0.0 * rows["weights"]}, "weights of the first rows"),
        (early, empty, "number of first rows"),
        (late, sums | {"points": sums["points"][:, :1]}, "`points` must be of shape"),
        (late, sums | {"points": sums["points"][:7]}, "in `statistics`: .* must be of shape"),
        (late, large, "larger than it may be"),
        (late, sums | {"prior_sum": -1.0}, "`prior_sum` must be"),
    ]


def test_files_that_do_not_fit_together_are_refused():
    for model, changed, words in broken_states():
        with pytest.raises(ValueError, match=words):
            GaussianProcessRegressor.from_state(model.to_state() | {"posterior": changed})


def test_what_there_is_only_with_features_or_only_with_points_is_said():
    on_points, on_features = sparse().fit(X, Y), sparse(method="features", n_features=32).fit(X, Y)
    with pytest.raises(ValueError, match=r"has no random features.*kernel_\(X, dictionary_\)"):
        on_points.random_features(NEW)
    with pytest.raises(AttributeError, match="Only a model with method='dictionary'"):
        _ = on_features.dictionary_
    assert (on_points.model_order_, on_features.model_order_) == (20, 32)


def test_options_of_the_points_are_checked_and_reached():
    assert as_method("dictionary") == InducingPoints()
    assert InducingPoints().n_first_rows == 5000
    assert [InducingPoints(n).n_first_rows for n in (9, 8_000, 40_000)] == [2_000, 30_000, 40_000]
    model = sparse(method=InducingPoints()).set_params(method__size=7)
    assert model.fit(X, Y).model_order_ == 7
    for wrong, words in [
        ({"size": 0}, "`size`"),
        ({"centers": "best"}, "`centers`"),
        ({"size": 50, "first_rows": 49}, r"`first_rows` must be .*50"),
        ({"first_rows": "all"}, "`first_rows`"),
    ]:
        with pytest.raises(ValueError, match=words):
            InducingPoints(**wrong)


def test_seeds_choose_the_points():
    one, same, other = (
        sparse(method=InducingPoints(20, "uniform"), random_state=seed).fit(X, Y).dictionary_
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_repeated_rows_and_tiny_noise_stay_finite():
    rows, y = np.repeat(X[:12], 9, axis=0), np.repeat(Y[:12], 9)
    model = sparse(Gaussian(3.0), InducingPoints(50), noise=1e-7).fit(rows, y)
    assert model.model_order_ == 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean, std = model.predict(X[:12], return_std=True)
    assert_allclose(mean, Y[:12], atol=1e-4)
    assert_allclose(std, 0.0, atol=1e-3)


def test_the_command_takes_points_and_describes_them(mercer, tmp_path):
    table, path = pa.table({"a": X[:, 0], "b": X[:, 1], "y": 1000.0 + 50.0 * Y}), tmp_path / "m"
    pq.write_table(table, tmp_path / "data.parquet")
    code, _, err = mercer(
        "fit", tmp_path / "data.parquet", "--target", "y", "--task", "gp", "--max-size", "25",
        "--noise", "0.08", "--out", path,
    )  # fmt: skip
    assert code == 0, err
    model = load_model(path)
    assert model.method == InducingPoints(25)
    described = json.loads(mercer("inspect", path, "--json")[1])
    assert (described["model_order"], described["n_rows_learned"]) == (25, 120)
    assert "random_features" not in described
    # The bound is of the target in its own units.
    bound = model.log_marginal_likelihood()
    assert model.normalize_y
    assert_allclose(described["log_marginal_likelihood"], bound)
    code, out, err = mercer("evaluate", path, tmp_path / "data.parquet", "--json")
    assert code == 0, err
    # The noise has standard deviation 15.
    assert 10.0 < json.loads(out)["rmse"] < 25.0 * Y.std()


def expected_failures(estimator):
    # Repeated rows have another median distance than rows with weights.
    reason = "The length scale is the median distance of the rows, whatever their weights."
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@pytest.mark.filterwarnings("ignore::mercer.exceptions.TargetScaleWarning")
@parametrize_with_checks(
    [GaussianProcessRegressor(method=InducingPoints(64), random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)
