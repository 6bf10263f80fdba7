"""Novelty detection: the one-class problem, its offset, and what a stream needs."""

import copy
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import roc_auc_score
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import DensityRatio, NoveltyDetector, load_model, model_file
from mercer.estimators.kept_rows import KeptRows
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.kernels import Gaussian
from mercer.numerics.philox import row_uniforms
from mercer.objectives import Batch, Novelty
from mercer.objectives.objective import lower_quantile
from oracles_tasks import gaussian, novelty_descent, novelty_objective, one_class_solution
from quick import take_few_steps

RNG = np.random.default_rng(0)
MOONS = make_moons(400, noise=0.1, random_state=0)[0]
SCATTERED = RNG.uniform(-2.5, 3.5, (400, 2))
SCALE = 0.3
# The tolerances of compressed and random expansions cost some accuracy.
EXPANSIONS = [
    Full(),
    KOMP(),
    KOMP(max_size=60),
    Budget(100),
    Dictionary(100),
    RandomFeatures(mode="faithful"),
]
# `fit` goes over all rows again where a stream sees them once.
ONE_PASS = [e for e in EXPANSIONS if not isinstance(e, Dictionary)]


@pytest.fixture(scope="module")
def exact():
    return {nu: one_class_solution(gaussian(MOONS, MOONS, SCALE), nu) for nu in (0.1, 0.3)}


# -- the objective --------------------------------------------------------------------------------


def test_slopes_and_update_are_the_derivatives_of_the_objective(rng):
    values, weights = rng.normal(size=(7, 1)), rng.uniform(0.0, 2.0, 7)
    batch, h = Batch(np.zeros((7, 2)), np.zeros((7, 1)), weights), 1e-6
    novelty = Novelty(nu=0.3, unit=0.2)
    slopes, losses = novelty.slopes(values, batch)

    def at(f, tau):
        return novelty_objective(f[:, 0], tau, weights, 0.3)

    for i in range(7):
        ahead, behind = values.copy(), values.copy()
        ahead[i] += h
        behind[i] -= h
        assert_allclose(slopes[i], (at(ahead, 0.2) - at(behind, 0.2)) / (2 * h), atol=1e-8)
    assert_allclose(np.mean(weights * losses), at(values, 0.2))
    novelty.update(values, batch, step_size=0.5)
    slope = (at(values, 0.2 + h) - at(values, 0.2 - h)) / (2 * h)
    assert_allclose(novelty.threshold, 0.2 - 0.2 * 0.5 * slope)


def test_a_row_at_the_threshold_is_not_below_it():
    batch = Batch(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1))
    novelty = Novelty(nu=0.25)
    assert novelty.slopes(np.array([[1.0]]), batch)[0] == 0.0
    novelty.update(np.array([[1.0]]), batch, step_size=1.0)
    assert novelty.threshold == 1.25


def test_state_goes_there_and_back():
    novelty = Novelty(0.1, unit=0.5)
    novelty.set_state({"threshold": 0.25})
    assert novelty.state() == {"threshold": 0.25}
    for wrong in ({}, {"threshold": np.nan}, {"threshold": 1.0, "more": 1.0}):
        with pytest.raises(ValueError, match="threshold"):
            novelty.set_state(wrong)


def test_steps_are_those_of_the_paper():
    X, nu = MOONS[:60], 0.2
    model = NoveltyDetector(
        nu,
        kernel=Gaussian(SCALE),
        expansion=Full(),
        batch_size=5,
        step_size=lambda t: 2.0 / (1.0 + 0.3 * t),
        shuffle=False,
        average=None,
    ).fit(X)
    gram = gaussian(X, X, SCALE)
    unit = np.linalg.eigvalsh(gram)[-1] / len(X)
    steps = [2.0 / (1.0 + 0.3 * t) for t in range(1, 13)]
    a, threshold = novelty_descent(gram, nu, steps, unit, unit, 5)
    assert_allclose(model.score_samples(X), gram @ a, atol=1e-12)
    assert_allclose(model.learner_.objective.threshold, threshold, rtol=1e-12)


# -- against exact solutions ----------------------------------------------------------------------


def test_one_class_svm_has_the_same_minimum_times_nu_n(exact):
    for nu, (f, threshold) in exact.items():
        svm = OneClassSVM(nu=nu, gamma=0.5 / SCALE**2, tol=1e-8).fit(MOONS)
        unit = nu * len(MOONS)
        assert_allclose(svm.score_samples(MOONS) / unit, f, atol=1e-5)
        assert_allclose(svm.offset_ / unit, threshold, atol=1e-5)


@pytest.mark.parametrize(
    ("expansion", "nu"), [(one, (0.1, 0.3)[i % 2]) for i, one in enumerate(EXPANSIONS)], ids=str
)
def test_many_passes_approach_the_exact_solution(expansion, nu, exact):
    f, threshold = exact[nu]
    model = NoveltyDetector(
        nu, kernel=Gaussian(SCALE), expansion=expansion, n_passes=40, random_state=0
    ).fit(MOONS)
    scores = model.score_samples(MOONS)
    rms = np.sqrt(np.mean(np.square(scores - f)))
    assert rms < 0.06 * np.sqrt(np.mean(np.square(f)))
    assert np.corrcoef(scores, f)[0, 1] > 0.97
    assert abs(model.offset_ / threshold - 1.0) < 0.06
    inliers = np.repeat([1, 0], [len(MOONS), len(SCATTERED)])
    everything = np.concatenate([MOONS, SCATTERED])
    svm = OneClassSVM(nu=nu, gamma=0.5 / SCALE**2).fit(MOONS)
    auc = roc_auc_score(inliers, model.score_samples(everything))
    assert auc > roc_auc_score(inliers, svm.score_samples(everything)) - 0.005


def test_one_pass_ranks_outliers_nearly_as_well_as_a_solver(rng):
    X = rng.normal(size=(2000, 5))
    everything = np.concatenate([X, rng.uniform(-4.0, 4.0, (1000, 5))])
    inliers = np.repeat([1, 0], [2000, 1000])
    model = NoveltyDetector(random_state=0).fit(X)
    svm = OneClassSVM(nu=0.1, gamma=0.5 / model.kernel_.length_scale**2).fit(X)
    auc = roc_auc_score(inliers, model.score_samples(everything))
    assert auc > roc_auc_score(inliers, svm.score_samples(everything)) - 0.005


# -- the offset -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 1.0])
def test_after_fit_the_share_nu_of_the_rows_is_novel(nu):
    model = NoveltyDetector(nu, random_state=0)
    labels = model.fit_predict(MOONS)
    assert set(labels) <= {-1, 1}
    assert nu - 1.0 / len(MOONS) - 1e-12 <= np.mean(labels < 0) <= nu
    decisions = model.decision_function(MOONS)
    assert np.array_equal(decisions, model.score_samples(MOONS) - model.offset_)
    assert np.array_equal(labels, np.where(decisions < 0.0, -1, 1))


def test_on_a_stream_about_the_share_nu_of_the_rows_is_novel(rng):
    X = rng.normal(size=(6000, 2))
    model = NoveltyDetector(0.1)
    for start in range(0, 6000, 500):
        model.partial_fit(X[start : start + 500])
    # 1,000 of the rows are kept: the standard error of the share is 0.0095.
    assert abs(np.mean(model.predict(X) < 0) - 0.1) < 3.0 * 0.0095


def test_weights_count_in_the_quantile():
    weights = np.where(MOONS[:, 0] > 0.5, 3.0, 0.5)
    model = NoveltyDetector(0.2, n_passes=3, random_state=0)
    model.fit(MOONS, sample_weight=weights)
    novel = model.predict(MOONS) < 0
    share = weights[novel].sum() / weights.sum()
    assert 0.2 - 3.0 / weights.sum() <= share <= 0.2
    with pytest.raises(ValueError, match="zero for all rows"):
        model.fit(MOONS, sample_weight=np.zeros(400))


def test_rows_without_weight_leave_the_stream_as_it_is():
    model = NoveltyDetector(kernel=Gaussian(SCALE)).partial_fit(MOONS[:100])
    offset = model.offset_
    kept = model.targets_.kept
    model.partial_fit(MOONS[100:110], sample_weight=np.zeros(10))
    assert np.array_equal(model.targets_.kept.rows, kept.rows)
    assert model.offset_ != offset  # f was shrunk


def test_quantile_is_the_largest_threshold_with_no_more_than_the_share_below():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values, weights = rng.integers(0, 9, 12).astype(float), rng.uniform(0.0, 1.0, 12)
        share = rng.uniform(0.01, 1.0)
        found = lower_quantile(values, weights, share)
        fitting = [v for v in values if weights[values < v].sum() <= share * weights.sum()]
        assert found == max(fitting)


# -- streams --------------------------------------------------------------------------------------


def make(**changes):
    return NoveltyDetector(0.1, kernel=Gaussian(SCALE), **changes)


@pytest.mark.parametrize("expansion", ONE_PASS, ids=str)
def test_many_calls_equal_one_call(expansion):
    # The first call looks at its rows for the threshold's unit, so it must be the same.
    one = make(expansion=expansion, batch_size=10).partial_fit(MOONS[:200])
    many = copy.deepcopy(one)
    one.partial_fit(MOONS[200:])
    for start in range(200, 400, 50):
        many.partial_fit(MOONS[start : start + 50])
    whole = make(expansion=expansion, batch_size=10, shuffle=False).fit(MOONS)
    fresh = make(expansion=expansion, batch_size=10).partial_fit(MOONS)
    # Random features are float32, and summed in another order.
    for first, second in ((one, many), (whole, fresh)):
        assert_allclose(first.score_samples(MOONS), second.score_samples(MOONS), atol=1e-5)
        assert_allclose(first.offset_, second.offset_, atol=1e-5)


def test_single_rows_are_batches_of_one():
    rows, batches = make(batch_size=1), make(batch_size=1)
    assert rows.score_one(MOONS[0]) == 0.0
    assert rows.predict_one(MOONS[0]) == 1
    for x in MOONS[:80]:
        rows.learn_one(x)
        batches.partial_fit(x[np.newaxis])
    assert_allclose(rows.score_samples(MOONS), batches.score_samples(MOONS), atol=1e-12)
    assert rows.offset_ == pytest.approx(batches.offset_)
    for x in (MOONS[100], np.array([9.0, 9.0])):
        assert rows.score_one(x) == pytest.approx(-rows.score_samples(x[np.newaxis])[0])
        assert rows.predict_one(x) == rows.predict(x[np.newaxis])[0]
    assert rows.predict_one([9.0, 9.0]) == -1


def test_rows_as_dicts():
    model = make()
    for x, y in MOONS[:50]:
        model.learn_one({"b": y, "a": x})
    assert model.score_one({"a": 0.0, "b": 1.0}) == -model.score_samples([[0.0, 1.0]])[0]
    with pytest.raises(ValueError, match="no feature 'b'"):
        model.score_one({"a": 1.0})
    with pytest.raises(ValueError, match="NaN or infinite"):
        model.learn_one({"a": np.nan, "b": 1.0})
    with pytest.raises(ValueError, match="`sample_weight`"):
        model.learn_one({"a": 1.0, "b": 1.0}, sample_weight=-1.0)


def test_a_constant_step_follows_drift(rng):
    early, late = rng.normal(0.0, 0.5, (2000, 2)), rng.normal(4.0, 0.5, (2000, 2))
    drifting = NoveltyDetector(kernel=Gaussian(1.0), step_size=0.5, average=None)
    steady = NoveltyDetector(kernel=Gaussian(1.0))
    for model in (drifting, steady):
        model.partial_fit(early).partial_fit(late)
    here, there = [[4.0, 4.0]], [[0.0, 0.0]]
    ratio = [
        float(m.score_samples(there)[0] / m.score_samples(here)[0]) for m in (drifting, steady)
    ]
    assert ratio[0] < 0.1 < 0.5 < ratio[1]


def test_asking_changes_nothing():
    model = make().partial_fit(MOONS[:200])
    asked = copy.deepcopy(model)
    asked.predict(MOONS)
    asked.predict_one(MOONS[0])
    for m in (model, asked):
        m.partial_fit(MOONS[200:])
    assert np.array_equal(model.coefficients_, asked.coefficients_)
    assert model.offset_ == asked.offset_


def test_a_call_that_fails_changes_nothing():
    model = make().partial_fit(MOONS[:200])
    offset, scores, kept = model.offset_, model.score_samples(MOONS), model.targets_.kept
    with pytest.raises(ValueError, match="must be positive"):
        model.set_params(step_size=lambda t: -1.0).partial_fit(MOONS)
    model.set_params(step_size="auto")
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.ones((3, 5)))
    assert model.targets_.kept is kept
    assert model.offset_ == offset
    assert np.array_equal(model.score_samples(MOONS), scores)


def test_another_nu_waits_for_the_next_fit():
    model = make().partial_fit(MOONS[:200])
    twin = copy.deepcopy(model).set_params(nu=0.5)
    for m in (model, twin):
        m.partial_fit(MOONS[200:])
    assert np.array_equal(model.coefficients_, twin.coefficients_)
    assert model.offset_ == twin.offset_
    assert np.mean(twin.fit_predict(MOONS) < 0) == 0.5


def test_sparse_and_float32_rows_score_like_dense_ones():
    from scipy import sparse

    model = make(random_state=0).fit(MOONS)
    other = make(random_state=0).fit(sparse.csr_matrix(MOONS))
    assert_allclose(other.score_samples(MOONS), model.score_samples(MOONS), atol=1e-10)
    assert other.partial_fit(sparse.csr_matrix(MOONS[:9])).offset_ > 0.0
    single = make(random_state=0).fit(MOONS.astype(np.float32))
    assert single.dictionary_.dtype == np.float32
    assert_allclose(single.score_samples(MOONS), model.score_samples(MOONS), atol=0.01)


# -- rows that are kept ---------------------------------------------------------------------------


def test_rows_kept_do_not_depend_on_how_the_stream_is_cut(rng):
    X, weights = np.arange(5000.0)[:, None], np.ones(5000)
    whole = KeptRows.none(1).extended(X, weights, 100)
    parts = KeptRows.none(1)
    for cut in np.split(np.arange(5000), np.sort(rng.integers(0, 5000, 30))):
        parts = parts.extended(X[cut], weights[cut], 100)
    assert np.array_equal(whole.rows, parts.rows)
    assert whole.n_seen == parts.n_seen == 5000
    assert np.array_equal(whole.keys, np.sort(row_uniforms(0, 5000))[:100])


def test_rows_kept_are_a_uniform_sample():
    kept = KeptRows.none(1).extended(np.arange(1e5)[:, None], np.ones(100_000), 1000)
    # Mean of uniform places: the standard error is 1e5 / sqrt(12 * 1000).
    assert abs(kept.rows.mean() - 5e4) < 3.0 * 1e5 / np.sqrt(12_000)
    weights = np.where(np.arange(500) % 2, 1.0, 0.0)
    kept = KeptRows.none(1).extended(np.arange(500.0)[:, None], weights, 1000)
    assert np.array_equal(np.sort(kept.rows[:, 0]), np.arange(1.0, 500.0, 2.0))


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=str)
def test_a_stored_model_goes_on_bit_for_bit(expansion, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    path = tmp_path / "model.mercer"
    model = make(expansion=expansion, step_size=0.5).partial_fit(MOONS[:150])
    model.save(path)
    loaded = load_model(path)
    assert repr(loaded) == repr(model)
    for m in (model, loaded):
        m.partial_fit(MOONS[150:300]).learn_one(MOONS[300])
    assert np.array_equal(model.score_samples(MOONS), loaded.score_samples(MOONS))
    assert model.offset_ == loaded.offset_
    assert model.learner_.objective.threshold == loaded.learner_.objective.threshold
    make(expansion=expansion).fit(MOONS).save(path)
    assert np.mean(load_model(path).predict(MOONS) < 0) == 0.1


def test_files_whose_parts_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "model.mercer"
    state = make().partial_fit(MOONS).to_state()
    wrong = [
        ("targets", "nu", 2.0),
        ("targets", "offset", "high"),
        ("targets", "kept", state["targets"]["kept"] | {"rows": np.zeros((3, 2))}),
        ("targets", "kept", state["targets"]["kept"] | {"n_seen": 5}),
        ("learner", "objective", {}),
    ]
    for part, name, value in wrong:
        altered = copy.deepcopy(state)
        altered[part][name] = value
        model_file.write_state(path, {"kind": "NoveltyDetector", "model": altered})
        with pytest.raises(ValueError, match="not a valid mercer model"):
            load_model(path)
    altered = copy.deepcopy(state) | {"loss": {"type": "Squared", "params": {}}}
    model_file.write_state(path, {"kind": "NoveltyDetector", "model": altered})
    with pytest.raises(ValueError, match="the model has a loss"):
        load_model(path)


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.1, np.nan, "0.1", True])
def test_nu_must_be_a_share(nu):
    with pytest.raises(ValueError, match=r"`nu` must be a finite number in \(0, 1\]"):
        NoveltyDetector(nu).fit(MOONS)


@pytest.mark.parametrize("mode", ["newton", "cyclic"])
def test_modes_that_minimise_something_else_are_refused(mode):
    with pytest.raises(ValueError, match="mode='faithful'"):
        NoveltyDetector(expansion=RandomFeatures(mode=mode)).fit(MOONS)


def test_wrong_rows_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        NoveltyDetector().fit([[0.0], [np.nan]])
    with pytest.raises(ValueError, match="2D array"):
        NoveltyDetector().fit([0.0, 1.0])
    with pytest.raises(AttributeError, match="not fitted"):
        _ = NoveltyDetector().offset_
    with pytest.raises(ValueError, match="`step_size \\* regularization` must be below 1"):
        NoveltyDetector(0.5, step_size=3.0).fit(MOONS)


def test_seed_matters_and_suffices():
    first, again, other = (make(random_state=s).fit(MOONS) for s in (0, 0, 1))
    assert np.array_equal(first.coefficients_, again.coefficients_)
    assert not np.array_equal(first.score_samples(MOONS), other.score_samples(MOONS))
    assert clone(first).get_params() == first.get_params()


def expected_failures(estimator):
    reason = "A weight multiplies a row's step; a repeated row makes steps in other mini-batches."
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


def test_rounding_does_not_make_the_row_at_the_threshold_novel():
    """The offset is the score of a row, whose terms are added up in another order by itself."""
    rows = MOONS[:20]
    model = NoveltyDetector(nu=0.2, random_state=0).fit(rows)
    decisions = model.decision_function(rows)
    assert 0.0 < np.abs(decisions).min() < 1e-12  # that row
    alone = np.concatenate([model.predict(row[np.newaxis]) for row in rows])
    assert np.array_equal(alone, np.where(decisions < 0.0, -1, 1))


@parametrize_with_checks([NoveltyDetector()], expected_failed_checks=expected_failures)
def test_checks_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        check(estimator)


@pytest.mark.parametrize("estimator", [NoveltyDetector, DensityRatio])
def test_random_features_by_name_are_the_faithful_ones(estimator):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    model = estimator(expansion="random_features", random_state=0)
    model.fit(*[rows] * (2 if estimator is DensityRatio else 1))
    assert model.learner_.function.expansion == RandomFeatures(128, mode="faithful")
