"""Density ratios, divergence and two-sample tests against what is known of Gaussians."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from mercer import DensityRatio, load_model, model_file
from mercer.divergences import KullbackLeibler
from mercer.estimators.density_ratio import alternate
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.kernels import Gaussian
from mercer.objectives import Batch, TwoSample
from mercer.schedules import InverseTime
from oracles_tasks import (
    gaussian,
    kl_of_shifted_gaussians,
    log_ratio_of_shifted_gaussians,
    ratio_descent,
    ratio_objective,
    ratio_solution,
)
from quick import take_few_steps

EXPANSIONS = [
    Full(),
    KOMP(),
    KOMP(max_size=10),
    Budget(100),
    Dictionary(100),
    RandomFeatures(mode="faithful"),
]
# `fit` goes over all rows again where a stream sees them once.
ONE_PASS = [e for e in EXPANSIONS if not isinstance(e, Dictionary)]
SHIFT = 0.7


def samples(n_p, n_q, n_features=1, shift=SHIFT, seed=0):
    rng = np.random.default_rng(seed)
    X_p, X_q = rng.normal(size=(n_p, n_features)), rng.normal(size=(n_q, n_features))
    X_q[:, 0] += shift
    return X_p, X_q


# -- the objective ---------------------------------------------------------------------------------


def test_slopes_are_the_derivatives_of_the_objective():
    rng = np.random.default_rng(0)
    values, weights, h = rng.normal(size=(9, 1)), rng.uniform(0.0, 2.0, 9), 1e-6
    from_p = np.arange(9) % 3 == 0  # 3 of p, 6 of q
    batch = Batch(np.zeros((9, 2)), from_p[:, None].astype(float), weights)
    slopes, losses = TwoSample(KullbackLeibler()).slopes(values, batch)
    assert_allclose(np.mean(losses), ratio_objective(values[:, 0], from_p, weights))
    for i in range(9):
        ahead, behind = values[:, 0].copy(), values[:, 0].copy()
        ahead[i] += h
        behind[i] -= h
        above = ratio_objective(ahead, from_p, weights)
        below = ratio_objective(behind, from_p, weights)
        assert_allclose(slopes[i], (above - below) / (2 * h), atol=1e-8)


def test_huge_values_have_finite_slopes_and_losses_that_grow():
    batch = Batch(np.zeros((3, 1)), np.array([[1.0], [0.0], [0.0]]), np.ones(3))
    slopes, losses = TwoSample(KullbackLeibler()).slopes(np.array([[1e9], [1e9], [40.0]]), batch)
    assert_allclose(slopes[:, 0], [-1.0, np.exp(30.0) / 2, np.exp(30.0) / 2])
    assert losses[1] > losses[2] > np.exp(30.0)
    assert np.isfinite(losses).all()
    assert_allclose(KullbackLeibler().ratio(np.array([0.0, 1.0, 1e9])), [1.0, np.e, np.exp(30.0)])


def test_bound_is_the_divergence_for_the_exact_ratio_and_less_for_others():
    X_p, X_q = samples(200_000, 200_000)
    f_p, f_q = (log_ratio_of_shifted_gaussians(X, SHIFT) for X in (X_p, X_q))
    exact = KullbackLeibler().lower_bound(f_p, f_q)
    # Standard errors of the two means, about sqrt(0.49 / 2e5) and sqrt(0.63 / 2e5).
    assert abs(exact - kl_of_shifted_gaussians(SHIFT)) < 3.0 * np.sqrt(1.12 / 2e5)
    for a, b in ((0.8, 0.0), (1.2, 0.0), (1.0, 0.2), (1.0, -0.2), (-1.0, 0.0)):
        assert KullbackLeibler().lower_bound(a * f_p + b, a * f_q + b) < exact - 0.003


@pytest.mark.parametrize("n_q", [30, 10])
def test_steps_follow_the_gradient_of_batches_with_rows_of_both_samples(n_q):
    X_p, X_q = samples(30, n_q)
    model = DensityRatio(
        kernel=Gaussian(0.5),
        expansion=Full(),
        batch_size=5,
        step_size=0.8,
        regularization=0.1,
        shuffle=False,
        average=None,
        validation_fraction=0.0,
    ).fit(X_p, X_q)
    # In turns; the smaller sample is gone through as often as needed.
    rows = np.array([x for i in range(30) for x in (X_p[i], X_q[i % n_q])])
    a = ratio_descent(gaussian(rows, rows, 0.5), np.arange(60) % 2 == 0, 0.8, 0.1, 10)
    assert_allclose(model.log_ratio(X_q), gaussian(X_q, rows, 0.5) @ a, atol=1e-10)
    assert model.n_samples_seen_ == 60


def test_every_batch_has_as_many_rows_of_each_sample():
    order = alternate(np.arange(7), np.arange(100, 103))
    assert np.array_equal(order[::2], np.arange(7))
    assert np.array_equal(order[1::2], [100, 101, 102, 100, 101, 102, 100])


@pytest.mark.parametrize("expansion", [KOMP(), RandomFeatures(mode="faithful")], ids=str)
def test_many_passes_approach_the_exact_solution(expansion):
    X_p, X_q = samples(120, 120)
    rows = np.concatenate([X_p, X_q])
    exact = ratio_solution(gaussian(rows, rows, 0.5), np.arange(240) < 120, 1e-2)
    model = DensityRatio(
        kernel=Gaussian(0.5),
        expansion=expansion,
        n_passes=150,
        step_size=InverseTime(1.2, 200),
        validation_fraction=0.0,
        random_state=0,
    ).fit(X_p, X_q)
    rms = np.sqrt(np.mean(np.square(model.log_ratio(rows) - exact)))
    assert rms < 0.03 * np.sqrt(np.mean(np.square(exact)))


# -- weights ---------------------------------------------------------------------------------------


def weighted_samples(n=60, seed=3):
    X_p, X_q = samples(n, n, seed=seed)
    rng = np.random.default_rng(seed)
    return X_p, X_q, rng.integers(1, 4, n), rng.integers(1, 4, n)


def test_whole_weights_lead_to_the_solution_of_repeated_rows():
    X_p, X_q, w_p, w_q = weighted_samples()
    repeated = np.concatenate([np.repeat(X_p, w_p, axis=0), np.repeat(X_q, w_q, axis=0)])
    from_p = np.arange(len(repeated)) < w_p.sum()
    exact = ratio_solution(gaussian(repeated, repeated, 0.5), from_p, 1e-2)
    model = DensityRatio(
        kernel=Gaussian(0.5),
        expansion=Dictionary(120),
        n_passes=120,
        step_size=InverseTime(1.2, 200),
        validation_fraction=0.0,
        random_state=0,
    )
    for factor in (1.0, 7.5):  # only how weights relate to each other counts
        model.fit(X_p, X_q, sample_weight=(factor * w_p, w_q))
        rms = np.sqrt(np.mean(np.square(model.log_ratio(repeated) - exact)))
        assert rms < 0.03 * np.sqrt(np.mean(np.square(exact)))
    plain = model.fit(X_p, X_q).log_ratio(repeated)  # which shows that the weights matter
    assert np.sqrt(np.mean(np.square(plain - exact))) > 0.1 * np.sqrt(np.mean(np.square(exact)))


def test_the_bound_with_whole_weights_is_that_of_repeated_rows():
    X_p, X_q, w_p, w_q = weighted_samples()
    model = DensityRatio(n_passes=5, random_state=0).fit(X_p, X_q)
    repeated = model.divergence(np.repeat(X_p, w_p, axis=0), np.repeat(X_q, w_q, axis=0))
    assert_allclose(model.divergence(X_p, X_q, sample_weight=(w_p, w_q)), repeated, rtol=1e-12)


@pytest.mark.parametrize("as_rows", [np.asarray, sparse.csr_array])
def test_rows_of_weight_zero_are_not_there(as_rows):
    X_p, X_q, w_p, w_q = weighted_samples()
    w_p[::3], w_q[1::4] = 0, 0
    model = DensityRatio(random_state=0, n_passes=3, validation_fraction=0.3)
    got = clone(model).fit(as_rows(X_p), as_rows(X_q), sample_weight=(w_p, w_q))
    rows = X_p[w_p > 0], X_q[w_q > 0]
    expected = clone(model).fit(*map(as_rows, rows), sample_weight=(w_p[w_p > 0], w_q[w_q > 0]))
    assert np.array_equal(got.coefficients_, expected.coefficients_)
    assert got.divergence_ == expected.divergence_


def test_equal_weights_are_none():
    X_p, X_q = samples(80, 60)
    model = DensityRatio(random_state=0)
    plain = clone(model).fit(X_p, X_q).coefficients_
    for pair in [(None, None), (2.0, None), (np.full(80, 0.3), np.full(60, 5.0))]:
        got = clone(model).fit(X_p, X_q, sample_weight=pair).coefficients_
        assert np.array_equal(got, plain)


def test_the_rows_held_out_keep_their_weights_in_a_file(tmp_path):
    X_p, X_q = samples(2000, 2000, shift=0.0)
    weights = np.exp(X_p[:, 0])  # of the normal distribution about 1
    model = DensityRatio(n_passes=5, validation_fraction=0.3, random_state=0)
    model.fit(X_p, X_q, sample_weight=(weights, None))
    assert 0.3 < model.divergence_ < 0.6  # 1/2
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").divergence_ == model.divergence_


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.ones(30), r"pair \(weights_p, weights_q\)"),
        ((np.ones(29), None), r"Of sample p: `sample_weight` must have shape \(30,\)"),
        ((None, -np.ones(20)), "Of sample q.*not negative"),
        ((None, np.zeros(20)), "Of sample q.*none counts"),
    ],
)
def test_wrong_weights_are_refused(weights, match):
    X_p, X_q = samples(30, 20)
    with pytest.raises(ValueError, match=match):
        DensityRatio().fit(X_p, X_q, sample_weight=weights)


# -- known ratios ----------------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=str)
def test_log_ratio_of_two_gaussians(expansion):
    X_p, X_q = samples(900, 900)
    model = DensityRatio(expansion=expansion, n_passes=5, random_state=0).fit(X_p, X_q)
    fresh = np.concatenate(samples(1000, 1000, seed=1))
    exact = log_ratio_of_shifted_gaussians(fresh, SHIFT)
    found = model.log_ratio(fresh)
    assert np.corrcoef(found, exact)[0, 1] > 0.94
    assert np.sqrt(np.mean(np.square(found - exact))) < 0.4 * exact.std()
    assert_allclose(model.ratio(fresh), np.exp(found))


@pytest.mark.parametrize(("n_p", "n_q"), [(3000, 300), (300, 3000)])
def test_samples_of_unequal_size_are_not_taken_for_unequal_densities(n_p, n_q):
    X_p, X_q = samples(n_p, n_q, n_features=2)
    model = DensityRatio(n_passes=4, random_state=0).fit(X_p, X_q)
    fresh = np.concatenate(samples(1000, 1000, n_features=2, seed=1))
    error = model.log_ratio(fresh) - log_ratio_of_shifted_gaussians(fresh, SHIFT)
    assert abs(error.mean()) < 0.15  # log(10) = 2.3 if their sizes counted
    # The smaller sample's noise is learned, too.
    assert abs(np.mean(model.ratio(samples(1, 5000, n_features=2, seed=2)[1])) - 1.0) < 0.5


def test_equal_distributions_have_a_ratio_of_about_one():
    X_p, X_q = samples(3000, 3000, n_features=2, shift=0.0)
    model = DensityRatio(n_passes=3, random_state=0).fit(X_p, X_q)
    assert np.std(model.log_ratio(X_p)) < 0.15
    assert abs(np.mean(model.ratio(X_q)) - 1.0) < 0.05
    assert abs(model.divergence_) < 0.03
    same = DensityRatio(n_passes=3, random_state=0, validation_fraction=0.0).fit(X_p, X_p)
    assert np.std(same.log_ratio(X_p)) < 0.1


# -- divergence ------------------------------------------------------------------------------------


def test_divergence_on_fresh_rows_is_below_the_truth_on_average():
    exact = kl_of_shifted_gaussians(SHIFT)
    held, learned = [], []
    for seed in range(12):
        X_p, X_q = samples(500, 500, seed=seed)
        model = DensityRatio(validation_fraction=0.4, n_passes=10, random_state=seed)
        model.fit(X_p, X_q)
        held.append(model.divergence_)
        learned.append(model.divergence(X_p, X_q))
    error = np.std(held) / np.sqrt(len(held))
    assert error < 0.03
    assert 0.7 * exact - 2.0 * error < np.mean(held) < exact + 2.0 * error
    assert np.mean(learned) > np.mean(held)  # rows that were learned flatter


def test_rows_held_out_are_the_share_asked_for_and_not_learned():
    X_p, X_q = samples(100, 50)
    model = DensityRatio(expansion=Full(), validation_fraction=0.2, random_state=0)
    model.fit(X_p, X_q)
    held_p, held_q = (held.rows for held in model.targets_.held)
    assert (len(held_p), len(held_q)) == (20, 10)
    assert not np.isin(np.concatenate([held_p, held_q]), model.dictionary_).any()
    assert model.divergence_ == model.divergence(held_p, held_q)
    model.set_params(validation_fraction=0.0).fit(X_p, X_q)
    with pytest.raises(AttributeError, match="No rows of both samples were held out"):
        _ = model.divergence_


# -- two-sample tests ------------------------------------------------------------------------------


def make_test(**changes):
    params = {"validation_fraction": 0.5, "n_passes": 2, "batch_size": 10, "random_state": 0}
    return DensityRatio(**params | changes)


def test_p_values_are_uniform_under_the_null():
    p_values = []
    for seed in range(12):
        X_p, X_q = samples(60, 40, shift=0.0, seed=seed)
        p_values.append(make_test(random_state=seed).two_sample_test(X_p, X_q, 9).p_value)
    # The mean of 12 numbers uniform on 0.1, ..., 1 has standard deviation 0.083.
    assert abs(np.mean(p_values) - 0.55) < 3.0 * 0.083
    assert sum(p < 0.15 for p in p_values) <= 4  # binomial(12, 0.1): 0.996
    assert set(np.round(np.array(p_values) * 10).astype(int)) <= set(range(1, 11))


def test_p_values_are_small_for_different_samples():
    X_p, X_q = samples(100, 150, shift=1.0)
    result = make_test().two_sample_test(X_p, X_q, n_permutations=19)
    assert result.p_value == 1 / 20
    assert result.null_statistics.shape == (19,)
    assert result.statistic > result.null_statistics.max()
    # A difference that no mean shows.
    wide = make_test(n_passes=10).two_sample_test(X_p, 3.0 * X_p[::-1], n_permutations=19)
    assert wide.p_value == 1 / 20


def test_a_test_leaves_the_estimator_as_it_was_and_repeats_itself():
    X_p, X_q = samples(40, 40)
    model = make_test()
    results = [model.two_sample_test(X_p, X_q, 5) for _ in range(2)]
    assert results[0].p_value == results[1].p_value
    assert np.array_equal(results[0].null_statistics, results[1].null_statistics)
    assert not hasattr(model, "learner_")
    with pytest.raises(ValueError, match="`validation_fraction` must be above 0"):
        model.set_params(validation_fraction=0.0).two_sample_test(X_p, X_q)
    with pytest.raises(ValueError, match="`n_permutations`"):
        make_test().two_sample_test(X_p, X_q, n_permutations=0)
    with pytest.raises(ValueError, match="needs 2 rows"):
        make_test().two_sample_test(X_p[:1], X_q)


# -- streams ---------------------------------------------------------------------------------------


def make(**changes):
    return DensityRatio(**{"kernel": Gaussian(1.0), "batch_size": 10} | changes)


@pytest.mark.parametrize("expansion", ONE_PASS, ids=str)
def test_many_calls_equal_one_call(expansion):
    X_p, X_q = samples(400, 400)
    # Automatic steps on random features depend on the number of steps, if it is known.
    changes = {"expansion": expansion, "step_size": 0.5, "validation_fraction": 0.0}
    one = make(**changes).partial_fit(X_p[:200], X_q[:200])
    many = copy.deepcopy(one)
    one.partial_fit(X_p[200:], X_q[200:])
    for start in range(200, 400, 50):
        many.partial_fit(X_p[start : start + 50], X_q[start : start + 50])
    assert_allclose(many.log_ratio(X_p), one.log_ratio(X_p), atol=1e-4)  # features in float32
    whole = make(**changes, shuffle=False).fit(X_p, X_q)
    fresh = make(**changes).partial_fit(X_p, X_q)
    assert_allclose(whole.log_ratio(X_p), fresh.log_ratio(X_p), atol=1e-4)


def test_a_stream_learns_the_ratio_and_measures_the_divergence():
    X_p, X_q = samples(6000, 6000)
    model, other = DensityRatio(validation_fraction=0.2), DensityRatio(validation_fraction=0.2)
    for start in range(0, 6000, 500):
        model.partial_fit(X_p[start : start + 500], X_q[start : start + 500])
    other.partial_fit(X_p[:3000], X_q[:3000]).partial_fit(X_p[3000:], X_q[3000:])
    # About 1,200 rows of each: the standard error of the bound is about sqrt(1.12 / 1200).
    assert abs(model.divergence_ - kl_of_shifted_gaussians(SHIFT)) < 0.02 + 3.0 * 0.031
    for held, again in zip(model.targets_.held, other.targets_.held, strict=True):
        assert 1000 < len(held.rows) < 1400
        assert np.array_equal(held.rows, again.rows)
        assert held.n_seen == 6000
    more = np.random.default_rng(5).normal(size=(20_000, 1))
    model.partial_fit(more, more[:5000])
    assert [len(held.rows) for held in model.targets_.held] == [2000, 2000]


def test_single_rows_are_learned():
    X_p, X_q = samples(60, 60)
    model = make().partial_fit(X_p[:30], X_q[:30])
    seen = model.n_samples_seen_
    for x_p, x_q in zip(X_p[30:], X_q[30:], strict=True):
        model.partial_fit([x_p], [x_q])
    assert model.n_samples_seen_ == seen + 60


def test_a_call_that_fails_changes_nothing():
    X_p, X_q = samples(100, 100)
    model = make().partial_fit(X_p, X_q)
    values, held, divergence = model.log_ratio(X_p), model.targets_.held, model.divergence_
    with pytest.raises(ValueError, match=r"`X_q`: .*NaN"):
        model.partial_fit(X_p, [[np.nan]])
    with pytest.raises(ValueError, match=r"`X_p`: .*features"):
        model.partial_fit(np.ones((3, 2)), X_q)
    with pytest.raises(ValueError, match="must be positive"):
        model.set_params(step_size=lambda t: -1.0).partial_fit(X_p, X_q)
    with pytest.raises(ValueError, match=r"`X_q`: .*NaN"):
        model.fit(X_p, [[np.nan]])
    assert model.targets_.held is held
    assert model.divergence_ == divergence
    assert np.array_equal(model.log_ratio(X_p), values)
    fresh = make()
    with pytest.raises(ValueError, match="`X_q`"):
        fresh.partial_fit(X_p, np.ones((3, 4)))
    assert vars(fresh) == vars(make())


def test_sparse_and_float32_rows_are_like_dense_ones():
    X_p, X_q = samples(200, 150, n_features=3)
    model = make(random_state=0).fit(X_p, X_q)
    for a, b in ((sparse.csr_matrix(X_p), sparse.csr_matrix(X_q)), (X_p, sparse.csr_array(X_q))):
        other = make(random_state=0).fit(a, b)
        assert_allclose(other.log_ratio(X_p), model.log_ratio(X_p), atol=1e-9)
        assert other.divergence_ == pytest.approx(model.divergence_)
        assert other.partial_fit(a, b).n_samples_seen_ > model.n_samples_seen_
    single = make(random_state=0).fit(X_p.astype(np.float32), X_q.astype(np.float32))
    # KOMP goes to double precision where rounding asks for it, which is not the same everywhere.
    whole = make(expansion=Full(), random_state=0)
    assert whole.fit(X_p.astype(np.float32), X_q.astype(np.float32)).dictionary_.dtype == np.float32
    assert_allclose(single.log_ratio(X_p), model.log_ratio(X_p), atol=0.05)
    assert make().fit(X_p.astype(np.float32), X_q).dictionary_.dtype == np.float64
    test = make_test().two_sample_test(sparse.csr_matrix(X_p), sparse.csr_matrix(X_q), 3)
    assert test.statistic == pytest.approx(make_test().two_sample_test(X_p, X_q, 3).statistic)


# -- files and parameters --------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=str)
def test_a_stored_model_goes_on_bit_for_bit(expansion, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    X_p, X_q = samples(300, 300)
    path = tmp_path / "model.mercer"
    model = make(expansion=expansion, random_state=0).fit(X_p[:150], X_q[:100])
    model.save(path)
    loaded = load_model(path)
    assert repr(loaded) == repr(model)
    for m in (model, loaded):
        m.partial_fit(X_p[150:], X_q[100:])
    assert np.array_equal(model.log_ratio(X_p), loaded.log_ratio(X_p))
    assert model.divergence_ == loaded.divergence_


def test_files_whose_parts_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "model.mercer"
    state = make().fit(*samples(100, 100)).to_state()
    good = state["targets"]["held"]["1"]
    for wrong in (
        good | {"rows": np.zeros((3, 2))},
        good | {"n_seen": 2},
        good | {"n_seen": 2.5},
        good | {"rows": np.zeros((3, 1), np.int64)},
        {"n_seen": 3},
    ):
        altered = copy.deepcopy(state)
        altered["targets"]["held"]["1"] = wrong
        model_file.write_state(path, {"kind": "DensityRatio", "model": altered})
        with pytest.raises(ValueError, match="not a valid mercer model"):
            load_model(path)


@pytest.mark.parametrize("mode", ["newton", "cyclic"])
def test_modes_that_minimise_something_else_are_refused(mode):
    with pytest.raises(ValueError, match="mode='faithful'"):
        DensityRatio(expansion=RandomFeatures(mode=mode)).fit(*samples(9, 9))


def test_wrong_parameters_and_data_are_refused():
    X_p, X_q = samples(20, 20)
    for fraction in (-0.1, 1.0, np.nan):
        with pytest.raises(ValueError, match="`validation_fraction`"):
            DensityRatio(validation_fraction=fraction).fit(X_p, X_q)
    with pytest.raises(ValueError, match="`regularization`"):
        DensityRatio(regularization=-1.0).fit(X_p, X_q)
    with pytest.raises(ValueError, match="`X_q`: X has 2 features"):
        DensityRatio().fit(X_p, np.ones((20, 2)))
    with pytest.raises(ValueError, match="`X_q` is None"):
        DensityRatio().fit(X_p, None)
    with pytest.raises(ValueError, match=r"`X_p`: .*NaN"):
        DensityRatio().fit([[np.nan], [1.0]], X_q)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = DensityRatio().divergence_


def test_seed_matters_and_suffices():
    X_p, X_q = samples(100, 100)
    first, again, other = (make(random_state=s).fit(X_p, X_q) for s in (0, 0, 1))
    assert np.array_equal(first.coefficients_, again.coefficients_)
    assert not np.array_equal(first.log_ratio(X_p), other.log_ratio(X_p))
    assert clone(first).get_params() == first.get_params()


def test_a_callback_sees_the_fit_and_may_stop_it():
    seen = []
    model = DensityRatio(kernel=Gaussian(1.0), validation_fraction=0.0, n_passes=3)
    model.fit(*samples(8000, 8000), callback=lambda p: seen.append(p) or True)
    assert len(seen) == 1
    assert model.n_samples_seen_ == seen[0].n_samples < 48_000 == seen[0].n_total
