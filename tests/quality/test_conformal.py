"""Intervals and sets of classes hold the truth as often as they promise."""

import pickle
from copy import deepcopy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.linear_model import LinearRegression

import mercer
from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.conformal import (
    METHODS,
    AdaptiveConformal,
    ConformalIntervals,
    ConformalSets,
    conformal_quantile,
    cross_conformal,
)
from mercer.default import DefaultLearner
from mercer.default.targets import Judged
from mercer.expansions import KOMP
from mercer.losses import Quantile
from mercer.sums import Rows
from mercer_app.training import FileTraining
from mercer_app.training.streaming import Record, RowReader, StreamTraining
from oracles_conformal import cross_conformal_oracle

pytestmark = pytest.mark.usefixtures("quickest_race", "quick_correction")

SURE = 4.0  # standard errors


def within(share, coverage, n_judged, n_calibrating):
    """Whether a share of rows is a coverage, up to the errors of both samples."""
    variance = coverage * (1.0 - coverage) * (1.0 / n_judged + 1.0 / n_calibrating)
    return abs(share - coverage) < SURE * np.sqrt(variance) + 1.0 / n_calibrating


def waves(n, seed=0):
    """Rows whose noise is five times as large at one end as at the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    spread = 0.1 * (1.0 + 2.0 * (X[:, 0] + 2.0) / 2.0)
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + spread * rng.normal(size=n)


def share_inside(intervals, y):
    return np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1]))


# -- the quantile ----------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.floats(0.01, 0.99),
)
def test_the_quantile_is_the_smallest_number_that_covers_with_one_more_row(scores, coverage):
    found = conformal_quantile(scores, coverage)
    n = len(scores)
    enough = [
        s for s in sorted(scores) if np.sum(np.array(scores) <= s) >= coverage * (n + 1) - 1e-9
    ]
    assert found == (enough[0] if enough else np.inf)


@given(st.lists(st.integers(1, 4), min_size=3, max_size=20), st.floats(0.1, 0.7))
def test_whole_weights_are_repeated_rows_but_for_the_new_one(weights, coverage):
    scores = np.arange(len(weights), dtype=float)
    found = conformal_quantile(scores, coverage, weights)
    mean = np.mean(weights)
    total = np.cumsum(weights)
    enough = total >= coverage * (total[-1] + mean) - 1e-9
    assert found == (scores[np.argmax(enough)] if enough.any() else np.inf)


def test_coverage_of_exchangeable_scores_is_that_of_the_beta_distribution():
    # Of n scores the coverage of the k-th smallest is Beta(k, n + 1 - k).
    rng = np.random.default_rng(0)
    n, coverage = 99, 0.9
    k = 90
    found = [stats.norm.cdf(conformal_quantile(rng.normal(size=n), coverage)) for _ in range(2500)]
    law = stats.beta(k, n + 1 - k)
    assert abs(np.mean(found) - law.mean()) < SURE * law.std() / np.sqrt(2500)
    assert_allclose(np.std(found), law.std(), rtol=0.05)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, float("nan"), "0.9", True])
def test_a_coverage_that_is_none_is_refused(coverage):
    with pytest.raises(ValueError, match="`coverage` must be a finite number in"):
        conformal_quantile([1.0], coverage)


# -- intervals around any predictions --------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_intervals_around_a_poor_model_cover(method):
    X, y = waves(4000)
    line = LinearRegression().fit(X[:500], y[:500])
    mine, others = slice(500, 1500), slice(1500, None)
    find = ConformalIntervals(X[mine], y[mine], line.predict(X[mine]), method=method)
    n = 500 if method == "quantile" else 1000
    for coverage in (0.5, 0.9, 0.99):
        found = find(X[others], line.predict(X[others]), coverage)
        assert within(share_inside(found, y[others]), coverage, 2500, n)


def test_normalised_intervals_are_as_wide_as_errors_are():
    X, y = waves(8000)
    truth = np.sin(2.0 * X[:, 0]) + X[:, 1]
    find = ConformalIntervals(X[:4000], y[:4000], truth[:4000])
    others = X[4000:]
    widths = np.diff(find(others, truth[4000:], 0.9), axis=1)[:, 0]
    spread = 0.1 * (1.0 + 2.0 * (others[:, 0] + 2.0) / 2.0)
    assert np.corrcoef(widths, spread)[0, 1] > 0.95
    # Of anybody who knows the noise and covers 90 % of each kind of row; on average over all
    # rows narrower ones do.
    known = 2.0 * stats.norm.ppf(0.95) * spread
    assert 0.9 < widths.mean() / known.mean() < 1.03
    split = ConformalIntervals(X[:4000], y[:4000], truth[:4000], method="split")
    assert widths.mean() < 0.92 * np.diff(split(others, truth[4000:]), axis=1).mean()


def test_constant_errors_have_intervals_of_one_width():
    X = np.arange(200.0)[:, np.newaxis]
    for method in METHODS:
        find = ConformalIntervals(X, np.zeros(200), np.zeros(200), method=method)
        assert_allclose(find(X[:3], np.zeros(3), 0.9), 0.0, atol=1e-9)


def test_methods_are_as_wide_as_each_other_where_noise_is_alike():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 3))
    y = rng.normal(size=4000)
    widths = [
        np.diff(ConformalIntervals(X, y, np.zeros(4000), method=m)(X[:500], np.zeros(500)), axis=1)
        for m in METHODS
    ]
    assert_allclose([w.mean() for w in widths], 2.0 * stats.norm.ppf(0.95), rtol=0.06)


def test_units_of_the_target_do_not_matter():
    X, y = waves(1500)
    find = ConformalIntervals(X, y, X[:, 1])
    other = ConformalIntervals(X, 1000.0 * y + 7.0, 1000.0 * X[:, 1] + 7.0)
    expected = 1000.0 * find(X[:20], X[:20, 1]) + 7.0
    assert_allclose(other(X[:20], 1000.0 * X[:20, 1] + 7.0), expected, rtol=1e-3, atol=1.0)


def test_too_few_rows_are_named():
    X, y = waves(15)
    find = ConformalIntervals(X, y, np.zeros(15))
    with pytest.raises(ValueError, match=r"0.95 needs at least 19 rows .* there are 15"):
        find(X, np.zeros(15), 0.95)
    assert np.isfinite(find(X, np.zeros(15), 0.9)).all()


# -- regressors ------------------------------------------------------------------------------------


@cache
def regressor_of_waves(loss, n):
    """A model that is only asked."""
    X, y = waves(n + 3000)
    loss = Quantile([0.05, 0.5, 0.95]) if loss == "levels" else loss
    return KernelRegressor(loss, random_state=0).fit(X[:n], y[:n])


@pytest.mark.parametrize(
    ("loss", "method", "n"),
    [
        *(("squared", method, n) for method in ("auto", "split", "quantile") for n in (300, 700)),
        ("absolute_error", "auto", 700),
        ("quantile", "normalized", 300),
        ("levels", "auto", 300),
        ("levels", "auto", 700),
    ],
)
def test_the_default_regressor_covers(loss, method, n):
    X, y = waves(n + 3000)
    model = regressor_of_waves(loss, n)
    found = model.predict_interval(X[n:], 0.9, method=method)
    held = len(model.held_out_.y)
    assert found.shape == (3000, 2)
    assert within(
        share_inside(found, y[n:]), 0.9, 3000, held // 2 if method == "quantile" else held
    )


@pytest.mark.parametrize("expansion", ["komp", "dictionary", "random_features", "auto"])
def test_any_model_covers_by_rows_that_are_given(expansion):
    X, y = waves(5000)
    model = KernelRegressor(expansion=expansion, random_state=0).fit(X[:500], y[:500])
    if expansion != "auto":
        with pytest.raises(ValueError, match=r"kept none back.*Call `calibrate\(X, y\)`"):
            model.predict_interval(X[:5])
    found = model.calibrate(X[1000:2000], y[1000:2000]).predict_interval(X[2000:])
    assert within(share_inside(found, y[2000:]), 0.9, 3000, 1000)


def test_several_targets_have_intervals_of_their_own():
    X, y = waves(1200)
    both = np.column_stack([y, 100.0 * y])
    model = KernelRegressor(random_state=0).fit(X[:600], both[:600])
    found = model.predict_interval(X[600:])
    assert found.shape == (600, 2, 2)
    widths = np.diff(found, axis=1)[:, 0]
    assert_allclose(widths[:, 1], 100.0 * widths[:, 0], rtol=0.02)


def test_counts_are_not_below_0():
    X, y = waves(2800)
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * y))
    found = KernelRegressor("poisson", random_state=0).fit(X[:800], counts[:800])
    intervals = found.predict_interval(X[800:])
    assert intervals.min() == 0.0
    assert share_inside(intervals, counts[800:]) > 0.87


def test_a_file_and_a_pickle_have_the_same_intervals(tmp_path):
    X, y = waves(1200)
    model = KernelRegressor(random_state=0).fit(X[:600], y[:600])
    for calibrated in (False, True):
        if calibrated:
            model.calibrate(X[600:], y[600:])
        expected = model.predict_interval(X[:9])
        model.save(tmp_path / "model")
        copies = mercer.load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))
        for copy in copies:
            assert np.array_equal(copy.predict_interval(X[:9]), expected)


def test_what_is_learned_later_counts():
    X, y = waves(900)
    model = KernelRegressor(random_state=0).partial_fit(X[:300], y[:300])
    before = model.predict_interval(X[:9])
    model.partial_fit(X[300:900], 10.0 * y[300:900])
    after = model.predict_interval(X[:9])
    assert np.diff(after, axis=1).mean() > 3.0 * np.diff(before, axis=1).mean()
    assert np.array_equal(after, model.predict_interval(X[:9]))  # from what was made before
    again = KernelRegressor(random_state=0).fit(X[:300], y[:300]).calibrate(X[:50], y[:50])
    assert again.fit(X[:300], y[:300])._calibration is None  # that was of another model


def test_rows_to_calibrate_by_in_a_file_must_fit():
    X = np.where(np.arange(250).reshape(50, 5) % 3, np.arange(250).reshape(50, 5) / 250, 0.0)
    rows, y = sparse.csr_matrix(X), np.arange(50.0)
    model = KernelRegressor(kernel="linear", expansion=KOMP(max_size=9)).fit(rows, y)
    state = model.calibrate(rows, y).to_state()
    again = KernelRegressor.from_state(deepcopy(state))
    assert np.array_equal(again.predict_interval(rows), model.predict_interval(rows))
    stored = state["calibration"]["X"]
    for wrong in (
        {"y": np.zeros((3, 1))},
        {"weights": np.ones(3)},
        {"X": np.zeros((50, 9))},
        {"X": {**stored, "indices": np.full_like(stored["indices"], 1000)}},
        {"X": {**stored, "indptr": stored["indptr"][::-1]}},
        {"X": {**stored, "data": np.zeros(3)}},
    ):
        altered = deepcopy(state)
        altered["calibration"] |= wrong
        with pytest.raises(ValueError, match=r"must|ind"):
            KernelRegressor.from_state(altered)


def test_sparse_rows_have_intervals(tmp_path):
    X, y = waves(1500)
    rows = sparse.csr_matrix(X)
    model = KernelRegressor(expansion="komp", kernel="gaussian", random_state=0)
    model.fit(rows[:500], y[:500]).calibrate(rows[500:1000], y[500:1000])
    found = model.predict_interval(rows[1000:])
    assert within(share_inside(found, y[1000:]), 0.9, 500, 500)
    model.save(tmp_path / "model")
    loaded = mercer.load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict_interval(rows[1000:]), found)


def test_wrong_arguments_are_named():
    X, y = waves(300)
    model = KernelRegressor(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="`coverage` must be"):
        model.predict_interval(X, 90)
    with pytest.raises(ValueError, match="`method` must be"):
        model.predict_interval(X, method="bootstrap")
    with pytest.raises(ValueError, match="`X` has 300 rows and `y` has 299"):
        model.calibrate(X, y[1:])
    with pytest.raises(ValueError, match="NaN"):
        model.calibrate(X, np.full(300, np.nan))
    with pytest.raises(ValueError, match="features"):
        model.predict_interval(X[:, :1])
    levels = KernelRegressor(Quantile([0.1, 0.9]), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="several quantiles"):
        levels.predict_interval(X, method="split")


# -- few rows --------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-5.0, 5.0), min_size=3, max_size=25),
    st.floats(0.1, 0.9),
    st.integers(0, 100),
)
def test_cross_conformal_intervals_are_those_of_the_paper(scores, coverage, seed):
    rng = np.random.default_rng(seed)
    n = len(scores)
    middle = rng.normal(size=(2, n))
    low, high = middle - 0.5, middle + 0.5
    expected = [
        cross_conformal_oracle(*row, scores, coverage) for row in zip(low, high, strict=True)
    ]
    assert_allclose(cross_conformal(low, high, scores, coverage), expected)
    assert_allclose(cross_conformal(low, high, scores, coverage, np.full(n, 3.0)), expected)


@pytest.mark.parametrize("place", range(3))
def test_cross_conformal_refuses_nan(place):
    numbers = [np.ones((1, 2)), np.ones((1, 2)), np.ones(2)]
    numbers[place][..., 1] = np.nan
    with pytest.raises(ValueError, match="`low`, `high` and `scores` must be numbers, got NaN"):
        cross_conformal(*numbers, 0.5)


def test_cross_conformal_names_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"got shapes \(3,\), \(3,\) and \(3,\)"):
        cross_conformal(np.zeros(3), np.zeros(3), np.zeros(3), 0.9)
    with pytest.raises(ValueError, match=r"got shapes \(2, 3\), \(2, 3\) and \(2,\)"):
        cross_conformal(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2), 0.9)
    with pytest.raises(ValueError, match=r"got shapes \(2, 3\), \(2, 4\) and \(3,\)"):
        cross_conformal(np.zeros((2, 3)), np.zeros((2, 4)), np.zeros(3), 0.9)
    with pytest.raises(ValueError, match=r"`high` must be numbers.*'a', in row 1"):
        cross_conformal(np.zeros((2, 1)), [[1.0], ["a"]], np.zeros(1), 0.9)


def test_fits_that_say_the_same_have_the_intervals_of_one():
    rng = np.random.default_rng(0)
    X, y, said = rng.normal(size=(30, 1)), rng.normal(size=30), rng.normal(size=30)
    fits, new, coming = np.arange(30) % 7, rng.normal(size=(9, 1)), rng.normal(size=9)
    one, many = (ConformalIntervals(X, y, said, method="split", fits=each) for each in (None, fits))
    by_fit = np.repeat(coming[:, np.newaxis], 7, axis=1)
    assert_allclose(many(new, coming, 0.8, by_fit), one(new, coming, 0.8))
    scores, labels = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    weights, coming = rng.uniform(0.5, 2.0, 30), rng.normal(size=(50, 3))
    one, many = (ConformalSets(scores, labels, weights, each) for each in (None, fits))
    for by_class in (False, True):
        found = many(
            coming, 0.7, by_class=by_class, empty=True, by_fit=np.repeat(coming[:, None], 7, axis=1)
        )
        assert_array_equal(found, one(coming, 0.7, by_class=by_class, empty=True))


def of_few_rows(n, seed, n_new=300):
    """Rows of which metrics, kernels and weights are chosen that fit them too well."""
    rng = np.random.default_rng([n, seed])
    X = rng.uniform(0.0, 1.0, size=(n + n_new, 5))
    y = 2.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 4.0 * (X[:, 2] - 0.5) ** 2 + 2.0 * X[:, 3]
    return X, y + 0.2 * rng.normal(size=n + n_new)


@pytest.mark.parametrize(("n", "draws"), [(20, 8), (30, 6)])
def test_few_rows_cover(n, draws):
    inside, widths = [], []
    for seed in range(draws):
        X, y = of_few_rows(n, seed)
        model = KernelRegressor(random_state=0).fit(X[:n], y[:n])
        found = model.predict_interval(X[n:])
        inside.append(share_inside(found, y[n:]))
        needed = 2.0 * np.quantile(np.abs(model.predict(X[n:]) - y[n:]), 0.9)
        widths.append(np.diff(found, axis=1).mean() / needed)
    error = np.std(inside, ddof=1) / np.sqrt(draws)
    assert np.mean(inside) > 0.9 - 2.0 * error
    assert 0.9 < np.mean(widths) < 1.6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sets_of_few_rows_cover(n_classes):
    inside = []
    for seed in range(6):
        X, y = kinds(330, seed, n_classes)
        model = KernelClassifier(random_state=0).fit(X[:30], y[:30])
        sets = model.predict_set(X[30:], 0.9, empty=True)
        known = np.isin(y[30:], model.classes_)
        truth = np.searchsorted(model.classes_, y[30:][known])
        inside.append(sets[known][np.arange(known.sum()), truth].mean())
    assert np.mean(inside) > 0.9 - 2.0 * np.std(inside, ddof=1) / np.sqrt(6)


@pytest.mark.parametrize(
    ("loss", "method"),
    [("squared", "split"), ("absolute_error", "auto"), (Quantile([0.05, 0.5, 0.95]), "auto")],
)
def test_intervals_of_few_rows_are_those_of_fits_without_them(loss, method):
    X, y = of_few_rows(25, 0, n_new=4)
    model = KernelRegressor(loss, random_state=0).fit(X[:25], y[:25])
    held, fits = model.held_out_, model.learner_.fits_without()
    assert sorted(np.concatenate([left_out for left_out, _ in fits])) == list(range(25))
    low, high, scores = np.empty((4, 25)), np.empty((4, 25)), np.empty(25)
    for left_out, function in fits:
        for ends, new in (
            (function.evaluate(held.X[left_out]), False),
            (function.evaluate(X[25:]), True),
        ):
            ends = np.sort(ends, axis=1)
            if new:
                low[:, left_out], high[:, left_out] = ends[:, :1], ends[:, -1:]
            else:
                truth = held.y[left_out]
                scores[left_out] = np.maximum(ends[:, 0] - truth, truth - ends[:, -1])
    expected = [cross_conformal_oracle(*row, scores, 0.8) for row in zip(low, high, strict=True)]
    assert_allclose(model.predict_interval(X[25:], 0.8, method=method), expected)


def test_a_fit_without_rows_has_not_seen_them():
    X, y = of_few_rows(24, 1)
    model = KernelRegressor(random_state=0).fit(X[:24], y[:24])
    left_out, function = model.learner_.fits_without()[0]
    rows = model.held_out_.X[left_out]
    mine = np.flatnonzero((X[:24, np.newaxis] == rows).all(axis=2).any(axis=1))
    other = y[:24].copy()
    other[mine] += 100.0
    again = KernelRegressor(random_state=0).fit(X[:24], other)
    same, likewise = again.learner_.fits_without()[0]
    assert_array_equal(same, left_out)
    assert_array_equal(likewise.evaluate(X), function.evaluate(X))
    assert not np.allclose(again.predict(X), model.predict(X))


def test_a_fit_without_rows_has_seen_none_of_their_groups():
    X, y = of_few_rows(48, 6)
    groups = np.repeat(np.arange(16), 3)
    model = KernelRegressor(random_state=0).fit(X[:48], y[:48] + groups % 5, groups=groups)
    held, fits = model.held_out_, model.learner_.fits_without()
    assert sum(len(left_out) for left_out, _ in fits) == 48
    for left_out, _ in fits:
        assert not set(held.groups[left_out]) & set(np.delete(held.groups, left_out))
    assert np.isfinite(model.predict_interval(X[48:], 0.8)).all()


@pytest.mark.parametrize(("distinct", "times", "n_fits"), [(60, 4, 10), (30, 20, 10), (210, 2, 0)])
@pytest.mark.parametrize("told", [False, True])
def test_copies_and_rows_of_a_group_count_once(monkeypatch, distinct, times, n_fits, told):
    settings = DefaultLearner.settings
    settings = settings._replace(fewest_judges=300, race=settings.race._replace(small=1000))
    monkeypatch.setattr(DefaultLearner, "settings", settings)
    monkeypatch.setattr(DefaultLearner, "_anew", lambda self, rows: self.function)
    X, y = of_few_rows(distinct, 5, n_new=0)
    of = np.random.default_rng(0).permutation(np.repeat(np.arange(distinct), times))
    X, y = X[of], y[of]
    if told:
        X = X + 0.01 * np.random.default_rng(1).normal(size=X.shape)
    model = KernelRegressor(random_state=0).fit(X, y, groups=of if told else None)
    held, fits = model.held_out_, model.learner_.fits_without()
    assert len(fits) == n_fits
    if n_fits:
        assert len(held.y) == distinct * times
        for left_out, _ in fits:
            assert not set(held.groups[left_out]) & set(np.delete(held.groups, left_out))


@pytest.mark.parametrize("times", [1, 5])
def test_sizes_of_errors_that_nothing_tells_are_the_same(times):
    rng = np.random.default_rng(2)  # where the best ridge among its neighbours is a bad one
    X, y = rng.uniform(-2.0, 2.0, size=(100, 3)), np.abs(rng.normal(size=100))
    said = np.sin(2.0 * X[:, 0]) + X[:, 1]
    X, y, said = (np.repeat(each, times, axis=0) for each in (X, y, said))
    find = ConformalIntervals(X, said + y, said, groups=np.repeat(np.arange(100), times))
    widths = np.diff(find(X, said, 0.9), axis=1)
    assert widths.max() < 1.1 * widths.min()


def test_intervals_between_quantiles_ask_no_fits(monkeypatch):
    X, y = of_few_rows(40, 7)
    model = KernelRegressor(random_state=0).fit(X[:40], y[:40])
    monkeypatch.setattr(DefaultLearner, "fits_without", None)
    found = model.predict_interval(X[40:], method="quantile")
    assert share_inside(found, y[40:]) > 0.8


def test_intervals_of_few_rows_are_the_same_from_files(tmp_path):
    X, y = of_few_rows(30, 2, n_new=9)
    model = KernelRegressor(random_state=0).fit(X[:30], y[:30])
    labels = np.where(y > np.median(y), "high", "low")
    sorted_out = KernelClassifier(random_state=0).fit(X[:30], labels[:30])
    before = model.predict(X)
    expected = model.predict_interval(X[30:]), sorted_out.predict_set(X[30:])
    assert_array_equal(model.predict(X), before)
    for each, ask, wanted in zip(
        (model, sorted_out), ("predict_interval", "predict_set"), expected, strict=True
    ):
        each.save(tmp_path / ask)
        for copy in (mercer.load_model(tmp_path / ask), pickle.loads(pickle.dumps(each))):
            assert_array_equal(getattr(copy, ask)(X[30:]), wanted)


def test_few_rows_of_a_stream_have_intervals():
    X, y = of_few_rows(60, 3, n_new=5)
    model, widths = KernelRegressor(random_state=0), []
    for start in range(0, 60, 15):
        model.partial_fit(X[start : start + 15], y[start : start + 15])
        widths.append(np.diff(model.predict_interval(X[60:], 0.8), axis=1).mean())
    assert widths[-1] < widths[0]


def test_more_rows_than_few_are_fitted_once():
    few = DefaultLearner.settings.nested
    X, y = of_few_rows(few, 4)
    learned = [KernelRegressor(random_state=0).fit(X[:n], y[:n]) for n in (few - 1, few)]
    assert [len(model.learner_.fits_without()) for model in learned] == [10, 0]
    learned[0].calibrate(X[few:], y[few:])
    assert_array_equal(
        learned[0].predict_interval(X[:5], method="split"),
        ConformalIntervals(X[few:], y[few:], learned[0].predict(X[few:]), method="split")(
            X[:5], learned[0].predict(X[:5])
        ),
    )


@pytest.mark.parametrize(("n", "coverage", "needs"), [(20, 0.99, 99), (8, 0.9, 9), (20, 0.96, 24)])
def test_a_coverage_that_few_rows_cannot_have_is_refused(n, coverage, needs):
    X, y = of_few_rows(n, 5)
    model = KernelRegressor(random_state=0).fit(X[:n], y[:n])
    with pytest.raises(ValueError, match=f"{coverage} needs at least {needs} rows .* are {n}"):
        model.predict_interval(X[:3], coverage)
    sets = KernelClassifier(random_state=0).fit(X[:n], y[:n] > np.median(y[:n]))
    with pytest.raises(ValueError, match=f"{coverage} needs at least {needs} rows .* are {n}"):
        sets.predict_set(X[:3], coverage)


# -- classes ---------------------------------------------------------------------------------------


def kinds(n, seed=0, n_classes=3):
    X, y = waves(n, seed)
    edges = np.quantile(waves(4000, 99)[1], np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.array(["low", "mid", "top", "more"])[np.digitize(y, edges)]


def test_sets_of_any_scores_cover():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6000, 4))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    find = ConformalSets(scores[:3000], labels[:3000])
    found = find(scores[3000:], 0.8)
    assert within(found[np.arange(3000), labels[3000:]].mean(), 0.8, 3000, 3000)


@pytest.mark.parametrize("loss", ["auto", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n", [400, 700])
def test_the_default_classifier_covers(loss, n_classes, n):
    X, y = kinds(n + 3000, n_classes=n_classes)
    model = KernelClassifier(loss, random_state=0).fit(X[:n], y[:n])
    truth = np.searchsorted(model.classes_, y[n:])
    held = len(model.held_out_.y)
    sets = model.predict_set(X[n:], 0.9, empty=True)
    assert within(sets[np.arange(3000), truth].mean(), 0.9, 3000, held)
    full = model.predict_set(X[n:], 0.9)
    assert (full >= sets).all()
    assert full.any(axis=1).all()
    assert full[np.arange(3000), np.searchsorted(model.classes_, model.predict(X[n:]))].all()


def test_sets_by_class_cover_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    rare = X[:, 0] + 0.7 * rng.normal(size=6000) > 2.2
    model = KernelClassifier(random_state=0).fit(X[:3000], rare[:3000])
    mine = rare[3000:]
    of_all = model.predict_set(X[3000:], 0.9)[:, 1][mine].mean()
    of_each = model.predict_set(X[3000:], 0.9, by_class=True)[:, 1][mine].mean()
    n_rare = int(model.held_out_.y.sum())
    assert of_all < 0.75
    assert within(of_each, 0.9, mine.sum(), n_rare)


def test_calibrated_classifiers_go_into_files(tmp_path):
    X, y = kinds(3000)
    model = KernelClassifier(expansion="komp", random_state=0).fit(X[:1000], y[:1000])
    model.calibrate(X[1000:2000], y[1000:2000], sample_weight=np.ones(1000))
    sets = model.predict_set(X[2000:])
    assert within(
        sets[np.arange(1000), np.searchsorted(model.classes_, y[2000:])].mean(), 0.9, 1000, 1000
    )
    model.save(tmp_path / "model")
    assert np.array_equal(mercer.load_model(tmp_path / "model").predict_set(X[2000:]), sets)
    with pytest.raises(ValueError, match="labels that were not learned: \\['other'\\]"):
        model.calibrate(X[:1], ["other"])


# -- streams ---------------------------------------------------------------------------------------


def test_adaptive_widths_hold_whatever_comes():
    rng = np.random.default_rng(0)
    find = AdaptiveConformal(0.9, rate=0.02, window=300)
    spreads = np.repeat([1.0, 20.0, 0.1, 3.0], 1500)
    for spread in spreads:
        find.update(abs(spread * rng.normal()))
    n = len(spreads)
    bound = (1.0 + 0.02) / (0.02 * n)  # Proposition 4.1 of Gibbs and Candès
    assert abs(find.n_missed / n - 0.1) <= bound


def test_adaptive_widths_are_kept_as_plain_data():
    rng = np.random.default_rng(0)
    find = AdaptiveConformal(0.8, window=50)
    for _ in range(200):
        find.update(rng.exponential())
    copy = AdaptiveConformal.from_state(find.to_state())
    for _ in range(100):
        error = rng.exponential()
        assert copy.width() == find.width()
        copy.update(error)
        find.update(error)
    oracle = np.sort(np.array(find._errors))
    assert find._sorted == oracle.tolist()


@given(st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.0, 5.0]), min_size=1, max_size=80))
def test_adaptive_widths_are_quantiles_of_the_last_errors(errors):
    find = AdaptiveConformal(0.75, rate=1e-9, window=20)
    for number, error in enumerate(errors):
        last = errors[max(0, number - 20) : number]
        expected = conformal_quantile(last, 0.75) if last else np.inf
        assert find.width() == expected
        find.update(error)


@pytest.mark.parametrize("error", [-1.0, float("nan")])
def test_errors_that_are_none_are_refused(error):
    with pytest.raises(ValueError, match="`error` must be"):
        AdaptiveConformal().update(error)


def test_a_stream_covers_after_a_change(tmp_path):
    X, y = waves(600)
    y = np.where(np.arange(600) < 350, y, 2.0 * y)
    model, inside = KernelRegressor(random_state=0), []
    for number, (row, target) in enumerate(zip(X, y, strict=True)):
        if number >= 200 and number % 5 == 0:
            low, high = model.predict_interval(row[np.newaxis])[0]
            inside.append(low <= target <= high)
        model.learn_one(row, target)
    assert abs(np.mean(inside) - 0.9) < SURE * np.sqrt(0.09 / len(inside))
    model.save(tmp_path / "model")
    again = mercer.load_model(tmp_path / "model")
    assert np.array_equal(again.predict_interval(X[:5]), model.predict_interval(X[:5]))
    with pytest.raises(ValueError, match="intervals of one width"):
        model.predict_interval(X[:5], method="normalized")


def test_a_stream_of_classes_has_sets():
    X, y = kinds(1400)
    model = KernelClassifier(random_state=0)
    for row, label in zip(X[:400], y[:400], strict=True):
        model.learn_one(row, label)
    sets = model.predict_set(X[400:], 0.95, empty=True)
    truth = np.searchsorted(model.classes_, y[400:])
    assert within(sets[np.arange(1000), truth].mean(), 0.95, 1000, 300)
    with pytest.raises(ValueError, match="by_class"):
        model.predict_set(X[:5], by_class=True)


@pytest.mark.parametrize("learned", [np.asarray, sparse.csr_matrix])
def test_sparse_rows_have_the_intervals_of_dense_ones(learned):
    X, y = waves(400)
    X[X < 0.0] = 0.0
    model = KernelRegressor(random_state=0).fit(learned(X), y)
    assert_allclose(
        model.predict_interval(sparse.csr_matrix(X[:20])), model.predict_interval(X[:20])
    )


def test_a_correction_scores_no_row_that_it_learned():
    X = np.arange(20.0)[:, np.newaxis]
    rows = Rows(X, X.copy(), np.ones(20))
    scored = []

    class Corrected:
        corrects, n_outputs = True, 1

        def __call__(self, rows):
            return rows

        def correction(self, learned, targets, values, kernel):
            def scores(some, given):
                assert not set(some[:, 0]) & set(learned.X[:, 0])
                assert_array_equal(some[:, 0], given[:, 0])
                scored.extend(some[:, 0])
                return given

            return scores

    nothing = SimpleNamespace(kernel_of_inputs=None, level=None)
    found = Judged.of(rows, X.copy()).held_out(Corrected(), nothing)
    assert sorted(scored) == list(range(20))
    assert_array_equal(found.scores, X)


def test_a_young_stream_says_what_it_lacks():
    X, y = waves(5)
    model = KernelRegressor().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"0.9 needs at least 9 rows .* there are 5"):
        model.predict_interval(X)


# -- models of tables, and commands ----------------------------------------------------------------


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """A table with a category, learned by the command; and rows that were not."""
    rng = np.random.default_rng(0)
    size, part = rng.uniform(20.0, 200.0, 1300), rng.choice(["north", "south"], 1300)
    price = 1e5 + 2e3 * size * np.where(part == "north", 1.0, 1.3) + 5e2 * size * rng.normal(
        size=1300
    )  # fmt: skip
    frame = pd.DataFrame({"size": size, "part": part, "price": price, "dear": price > 3e5})
    folder = tmp_path_factory.mktemp("homes")
    frame[:500].to_csv(folder / "learned.csv", index=False)
    frame[500:].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def priced(homes):
    training = FileTraining(homes / "learned.csv", "price", exclude=["dear"]).start()
    training.run(homes / "price.mercer")
    return training.model_


def test_a_model_of_a_table_has_intervals_in_units_of_the_target(homes, priced):
    new = pd.read_csv(homes / "new.csv")
    found = priced.predict_interval(new, 0.8)
    price = new["price"].to_numpy()
    n_held = len(priced.held_out_.y)
    assert within(share_inside(found, price), 0.8, 800, n_held)
    widths = np.diff(found, axis=1)[:, 0]
    assert np.corrcoef(widths, new["size"])[0, 1] > 0.8
    again = mercer.load_model(homes / "price.mercer")
    assert np.array_equal(again.predict_interval(new, 0.8), found)
    assert not hasattr(priced, "predict_set")
    other = again.calibrate(new[:400], price[:400]).predict_interval(new[400:], 0.8)
    assert within(share_inside(other, price[400:]), 0.8, 400, 400)
    assert not np.array_equal(other, found[400:])


def test_the_command_writes_intervals(homes, priced, mercer, tmp_path):
    out = tmp_path / "out.parquet"
    asked = "predict", homes / "price.mercer", homes / "new.csv", "--out", out
    assert mercer(*asked, "--interval", 0.8)[0] == 0
    written = pd.read_parquet(out)
    assert list(written) == ["prediction", "lower", "upper"]
    expected = priced.predict_interval(pd.read_csv(homes / "new.csv"), 0.8)
    assert_allclose(written[["lower", "upper"]], expected)
    assert mercer(*asked, "--interval", 0.8, "--calibrate", homes / "new.csv")[0] == 0
    assert not np.allclose(pd.read_parquet(out)["lower"], written["lower"])
    for wrong, said in (
        (("--interval", 80), "(0, 1), got 80.0. Write 0.8 for 80 %"),
        (("--interval", 0.9999), "0.9999 needs at least 9,999 rows"),
        (("--calibrate", homes / "new.csv"), "`--calibrate` is for intervals"),
    ):
        code, _, err = mercer(*asked, *wrong)
        assert code == 2
        assert said in err


@pytest.fixture(scope="module")
def process(homes):
    learned, model = homes / "learned.csv", homes / "gp.mercer"
    fit = "fit", learned, "--target", "price", "--exclude", "dear", "--task", "gp", "--out", model
    assert run(*fit, "--features", 256, "--quiet") == 0
    return model


def test_a_gaussian_process_is_not_calibrated(homes, process, mercer, tmp_path):
    new = homes / "new.csv"
    asked = "predict", process, new, "--out", tmp_path / "out.csv", "--interval", 0.9
    assert mercer(*asked)[0] == 0
    code, _, err = mercer(*asked, "--calibrate", new)
    assert code == 2
    assert "are its own" in err


def test_workers_write_the_same_intervals(homes, priced, mercer, tmp_path):
    asked = "predict", homes / "price.mercer", homes / "new.csv", "--interval", 0.9
    assert mercer(*asked, "--out", tmp_path / "one.parquet")[0] == 0
    assert mercer(*asked, "--out", tmp_path / "many", "--engine", "here")[0] == 0
    one, many = (pd.read_parquet(tmp_path / name) for name in ("one.parquet", "many"))
    assert_allclose(one, many)


def test_the_command_writes_sets_of_classes(homes, mercer, tmp_path):
    model, out = tmp_path / "dear.mercer", tmp_path / "out.csv"
    learned, new = homes / "learned.csv", homes / "new.csv"
    fit = "fit", learned, "--target", "dear", "--exclude", "price", "--out", model
    assert mercer(*fit)[0] == 0
    assert mercer("predict", model, new, "--out", out, "--interval", 0.95)[0] == 0
    sets = pd.read_csv(out, dtype=str)["set"]
    truth = pd.read_csv(new)["dear"].astype(str)
    inside = np.mean([t in s.split("|") for s, t in zip(sets, truth, strict=True)])
    assert 0.92 < inside <= 1.0
    assert set(sets) <= {"True", "False", "False|True"}


def test_a_model_without_rows_kept_back_says_what_to_do(homes, mercer, tmp_path):
    model, out = tmp_path / "komp.mercer", tmp_path / "out.csv"
    learned, new = homes / "learned.csv", homes / "new.csv"
    mercer("fit", learned, "--target", "price", "--expansion", "komp", "--out", model)
    code, _, err = mercer("predict", model, new, "--out", out, "--interval", 0.9)
    assert code == 2
    assert "Name a file of such rows with `--calibrate`" in err
    asked = "predict", model, new, "--out", out, "--interval", 0.9, "--calibrate", new
    assert mercer(*asked)[0] == 0


def test_a_ranking_has_no_intervals(homes, mercer, tmp_path):
    model, out = tmp_path / "rank.mercer", tmp_path / "out.csv"
    fit = "fit", homes / "learned.csv", "--target", "dear", "--exclude", "price", "--task", "rank"
    assert mercer(*fit, "--out", model)[0] == 0
    code, _, err = mercer("predict", model, homes / "new.csv", "--out", out, "--interval", 0.9)
    assert code == 2
    assert "`--interval` is of quantities and classes, but this is rank" in err


def test_a_gaussian_process_has_the_intervals_that_it_believes(homes, process, mercer, tmp_path):
    out = tmp_path / "out.csv"
    assert mercer("predict", process, homes / "new.csv", "--out", out, "--interval", 0.9)[0] == 0
    found = pd.read_csv(out)
    half = (found["upper"] - found["lower"]) / 2.0
    assert_allclose(half, stats.norm.ppf(0.95) * found["std"], rtol=1e-9)


def test_a_stream_writes_intervals_and_goes_on_with_them(mercer, tmp_path):
    X, y = waves(250)
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    data, out = tmp_path / "rows.csv", tmp_path / "said.jsonl"
    rows.to_csv(data, index=False)
    asked = "stream", data, "--target", "y", "--out", tmp_path / "m", "--interval", 0.9
    code, _, err = mercer(*asked, "--predictions", out)
    assert code == 0
    said = pd.read_json(out, lines=True)
    known = said["lower"].notna() & (said["row"] >= 100)
    inside = (said["lower"] <= rows["y"]) & (rows["y"] <= said["upper"])
    assert abs(inside[known].mean() - 0.9) < SURE * np.sqrt(0.09 / known.sum())
    assert "% inside intervals of 90 %" in err
    # Killed halfway, it goes on as if nothing had happened.
    rows[:120].to_csv(data, index=False)
    kept = "--checkpoint", tmp_path / "kept", "--predictions", tmp_path / "again.jsonl"
    assert mercer(*asked, *kept)[0] == 0
    rows.to_csv(data, index=False)
    assert mercer(*asked, *kept)[0] == 0
    assert (tmp_path / "again.jsonl").read_bytes() == out.read_bytes()
    arrow = tmp_path / "said.arrow"
    rows[:60].to_csv(data, index=False)
    assert mercer(*asked, "--predictions", arrow, "--task", "regression")[0] == 0
    table = pyarrow.ipc.open_stream(arrow).read_all()
    assert table.column_names == ["row", "prediction", "lower", "upper"]
    assert_allclose(table["upper"].to_pandas(), said["upper"][:60])


def test_a_stream_of_classes_has_no_intervals(mercer, tmp_path):
    data = tmp_path / "rows.csv"
    data.write_text("a,y\n" + "".join(f"{i},{'no' if i % 2 else 'yes'}\n" for i in range(20)))
    asked = "stream", data, "--target", "y", "--out", tmp_path / "m", "--interval", 0.9
    code, _, err = mercer(*asked, "--predictions", tmp_path / "out.jsonl")
    assert code == 2
    assert "`--interval` is of intervals of quantities" in err
    assert "`--interval` is written with `--predictions`" in mercer(*asked)[2]


# -- what changes in between -----------------------------------------------------------------------


def test_a_new_fit_forgets_what_the_last_one_found():
    """Marks were numbers of rows, which may be the same."""
    X, y = waves(300)
    other = y + 2.0 * np.random.default_rng(5).normal(size=300)
    model = KernelRegressor(random_state=0).fit(X, y)
    narrow = model.predict_interval(X[:9])
    wide = model.fit(X, other).predict_interval(X[:9])
    assert_allclose(wide, KernelRegressor(random_state=0).fit(X, other).predict_interval(X[:9]))
    assert np.diff(wide).min() > 3.0 * np.diff(narrow).max()
    apart = KernelClassifier(random_state=0).fit(X, X[:, 0] > 0.0)
    apart.predict_set(X)
    labels = np.random.default_rng(6).integers(2, size=300)
    fresh = KernelClassifier(random_state=0).fit(X, labels)
    assert_array_equal(apart.fit(X, labels).predict_set(X), fresh.predict_set(X))


def test_rows_to_calibrate_by_get_the_inputs_that_come_later(tmp_path):
    rng = np.random.default_rng(0)
    model = KernelRegressor(random_state=0)
    for a, b in rng.normal(size=(150, 2)):
        model.learn_one({"a": a}, a + 0.1 * b)
    rows = rng.normal(size=(100, 1))
    model.calibrate(rows, rows[:, 0])
    for a, b in rng.normal(size=(60, 2)):
        model.learn_one({"a": a, "b": b}, a + b)
    found = model.predict_interval(np.zeros((1, 2)))
    assert np.isfinite(found).all()
    model.save(tmp_path / "model.mercer")
    assert_allclose(load_model(tmp_path / "model.mercer").predict_interval(np.zeros((1, 2))), found)


def test_rows_of_no_weight_are_nothing_to_calibrate_by():
    X, y = waves(300)
    model = KernelRegressor(random_state=0).fit(X, y)
    before = model.predict_interval(X[:3])
    with pytest.raises(ValueError, match="`sample_weight` is zero for all rows"):
        model.calibrate(X, y, sample_weight=np.zeros(300))
    assert_array_equal(model.predict_interval(X[:3]), before)


def test_sets_have_the_class_with_the_highest_score_whatever_the_others():
    scores = np.r_[np.tile([0.9, 0.1], (20, 1)), np.tile([0.8, 0.2], (20, 1))]
    labels = np.repeat([0, 1], 20)
    found = ConformalSets(scores, labels)([[0.7, 0.3]], 0.9, by_class=True)
    assert_array_equal(found, [[True, True]])


@pytest.mark.parametrize(
    ("scores", "weights", "message"),
    [
        ([1.0, 2.0, 3.0], [1.0], "3 finite numbers"),
        ([1.0, 2.0, 3.0], [1.0, -1.0, 3.0], "of at least 0"),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], "are all 0"),
        ([1.0, np.nan, 3.0], None, "got NaN"),
        ([1.0, "far", 3.0], None, "`scores` must be numbers.*'far', in row 1"),
        ([1.0, 2.0, 3.0], [1.0, [2.0], 3.0], "`weights` must be numbers"),
    ],
)
def test_scores_and_weights_are_checked(scores, weights, message):
    with pytest.raises(ValueError, match=message):
        conformal_quantile(scores, 0.5, weights)


@pytest.mark.parametrize("coverage", [0.9, 0.5, None])
def test_a_stream_that_goes_on_has_the_coverage_that_is_asked_for_now(coverage, tmp_path):
    def training(coverage):
        return StreamTraining(RowReader("y"), lambda _: KernelRegressor(), coverage=coverage)

    first, again = training(0.9), training(coverage)
    for i in range(60):
        first.take(Record({"a": float(i % 7), "y": 0.5 + i % 7}, f"row {i}"))
    first.write(tmp_path / "state", {})
    again.restore(tmp_path / "state")
    if coverage is None:
        assert again.adaptive is None
    else:
        assert again.adaptive.coverage == coverage
        assert again.adaptive.n_rows == (first.adaptive.n_rows if coverage == 0.9 else 0)
        assert first.adaptive.n_rows > 0
