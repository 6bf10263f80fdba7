"""The rows of COLK's experiments are what their settings say."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mercer_reproduction._colk_data import (
    LIDAR_OUTLIERS,
    REGIMES,
    SETTINGS,
    Sample,
    clean_error,
    draw_pool,
    lidar_split,
    truth,
    worst_mean,
)

ALL = {**SETTINGS, **REGIMES}
N = 100_000


def noise_of(sample):
    return sample.y - truth(sample.X)


@pytest.fixture(scope="module")
def samples():
    return {name: s.draw(N, np.random.default_rng(0)) for name, s in ALL.items()}


# -- the rows of a setting ------------------------------------------------------------------------

UNIFORM_MEAN_SQUARE = 0.1**2 + 2 * 0.1 * 1.4 / 2 + 1.4**2 / 3  # of .1 + 1.4 x on [0, 1]
SECOND_MOMENTS = {
    "A": 0.09,
    "B": 0.09 + 0.1 * 25,
    "C": 0.09 + 0.1 * 25,
    "D": 1.0,
    "F": 0.09 + 0.2 * 100,
    "G": 0.09 + 0.05 * 9,
    "H": 0.09 + 0.1 * 25,
    "I": 0.09 + 0.01 * 100,
    "J": 0.09 + 0.1 * 25 * 2,
    "none": 0.09,
    "sym": 0.09 + 0.1 * 25,
    "shift": 0.09 + 0.1 * 25,
    "skew": 0.09 + 0.1 * 25 * 2,
    "het": UNIFORM_MEAN_SQUARE,
    "rare": 0.09,
}


@pytest.mark.parametrize("name", SECOND_MOMENTS)
def test_noise_has_the_second_moment_of_its_setting(name, samples):
    squares = noise_of(samples[name]) ** 2
    # Four standard errors of the mean of N squares.
    assert abs(squares.mean() - SECOND_MOMENTS[name]) < 4 * squares.std() / np.sqrt(N)


def test_heavy_tails_are_those_of_student_t(samples):
    noise = noise_of(samples["E"]) / 0.5
    share = np.mean(np.abs(noise) > 4.0)
    expected = 2 * stats.t.sf(4.0, 2.5)
    assert abs(share - expected) < 4 * np.sqrt(expected / N)


@pytest.mark.parametrize("name", ALL)
def test_inputs_fill_the_range_of_the_grid(name, samples):
    X, grid = samples[name].X, ALL[name].grid()
    assert grid.shape == (401, 1)
    assert grid.min() <= X.min() < grid.min() + 0.001
    assert grid.max() - 0.001 < X.max() <= grid.max()


def test_rare_inputs_are_three_in_a_hundred(samples):
    assert abs(np.mean(samples["rare"].X > 1.0) - 0.03) < 4 * np.sqrt(0.03 / N)


def test_settings_differ_in_their_outliers_only(samples):
    plain = noise_of(samples["A"])
    for name, share in {"B": 0.1, "C": 0.1, "F": 0.2, "G": 0.05, "I": 0.01, "J": 0.1}.items():
        changed = noise_of(samples[name]) != plain
        assert abs(changed.mean() - share) < 4 * np.sqrt(share / N)
        assert_array_equal(samples[name].X, samples["A"].X)


def test_numbers_are_drawn_in_the_order_inputs_noise_mask_outliers():
    rng = np.random.default_rng(7)
    x = np.array([rng.random() for _ in range(6000)])
    noise = 0.3 * rng.standard_normal(6000)
    for i in np.flatnonzero(rng.random(6000) < 0.1):
        noise[i] += 5.0 * rng.standard_normal()
    y = 2 * x + 3 * np.sin(6 * x) + noise
    pool = draw_pool(SETTINGS["B"])
    assert_allclose(np.concatenate([pool.test.y, pool.rows.y]), y, rtol=1e-12)
    assert (pool.test.y.size, pool.rows.y.size) == (1200, 4800)


# -- training sets --------------------------------------------------------------------------------


def sorted_pairs(sample):
    return sorted(zip(sample.X[:, 0], sample.y, strict=True))


@pytest.mark.parametrize("n_passes", [1, 3])
def test_each_pass_visits_every_row_once_in_each_of_two_new_orders(n_passes):
    pool = draw_pool(SETTINGS["C"], n_test=20, n_rows=60)
    training = pool.training_set(3, n_passes=n_passes)
    passes = [
        Sample(sample.X[i : i + 30], sample.y[i : i + 30])
        for sample in training
        for i in range(0, 30 * n_passes, 30)
    ]
    assert sum(sample.y.size for sample in training) == 60 * n_passes
    rows = sorted_pairs(passes[0])
    assert len(set(rows)) == 30
    assert set(rows) <= set(sorted_pairs(pool.rows))
    assert all(sorted_pairs(one) == rows for one in passes)
    assert len({tuple(one.y) for one in passes}) == 2 * n_passes


def test_training_sets_are_the_same_whenever_they_are_drawn_and_differ_from_each_other():
    pool = draw_pool(SETTINGS["A"], n_test=20, n_rows=60)
    again = draw_pool(SETTINGS["A"], n_test=20, n_rows=60)
    assert_array_equal(pool.training_set(1).second.y, again.training_set(1).second.y)
    rows = [set(sorted_pairs(pool.training_set(i).first)) for i in range(2)]
    assert 0 < len(rows[0] & rows[1]) < 30


def test_interleaved_rows_alternate_between_the_two_orders():
    training = draw_pool(SETTINGS["A"], n_test=20, n_rows=60).training_set(0)
    stream = training.interleaved()
    assert_array_equal(stream.X[0::2], training.first.X)
    assert_array_equal(stream.y[0::2], training.first.y)
    assert_array_equal(stream.X[1::2], training.second.X)
    assert_array_equal(stream.y[1::2], training.second.y)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"number": -1}, "`number` must be an integer of at least 0"),
        ({"number": 0, "n_rows": 61}, "`n_rows` must be an integer between 1 and 60"),
        ({"number": 0, "n_passes": 0}, "`n_passes` must be an integer of at least 1"),
    ],
)
def test_training_sets_that_a_pool_cannot_give_are_refused(arguments, words):
    pool = draw_pool(SETTINGS["A"], n_test=20, n_rows=60)
    with pytest.raises(ValueError, match=words):
        pool.training_set(**arguments)


# -- measures -------------------------------------------------------------------------------------


def test_clean_error_compares_with_the_function_itself():
    X = SETTINGS["H"].grid()
    assert clean_error(truth, X) == 0.0
    assert clean_error(lambda X: truth(X) + 0.5, X) == pytest.approx(0.25)


@pytest.mark.parametrize("level", [0.0, 0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 7, 10, 250])
def test_worst_mean_is_the_minimum_of_rockafellar_and_uryasev(level, n):
    losses = np.random.default_rng(n).standard_exponential(n)
    # The minimum over v is at one of the losses.
    values = [v + np.mean(np.maximum(losses - v, 0.0)) / (1.0 - level) for v in losses]
    assert worst_mean(losses, level) == pytest.approx(min(values), rel=1e-6)


def test_worst_mean_of_a_whole_number_of_losses_is_their_mean():
    losses = np.arange(100.0)
    assert worst_mean(losses, 0.9) == pytest.approx(94.5, rel=1e-12)
    assert worst_mean(losses, 0.0) == pytest.approx(losses.mean(), rel=1e-12)


def test_worst_mean_refuses_what_has_no_worst_share():
    with pytest.raises(ValueError, match="`level`"):
        worst_mean(np.ones(3), 1.0)
    with pytest.raises(ValueError, match="empty"):
        worst_mean(np.empty(0), 0.5)


# -- LIDAR ----------------------------------------------------------------------------------------


@pytest.fixture
def lidar(tmp_path):
    """A file of the shape of the data set."""
    distance = np.linspace(390, 720, 221).round()
    columns = {"range": distance, "logratio": -np.sqrt(distance) / 100}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "lidar.parquet")
    return tmp_path


def test_lidar_splits_cover_the_rows_and_keep_the_test_rows_clean(lidar):
    for outliers in LIDAR_OUTLIERS:
        (first, second), test = lidar_split(lidar, 0, outliers, n_passes=1)
        assert (first.y.size, second.y.size, test.y.size) == (177, 177, 44)
        assert_array_equal(np.sort(first.X[:, 0]), np.sort(second.X[:, 0]))
        x = np.concatenate([first.X, test.X])[:, 0]
        assert (x.min(), x.max()) == (0.0, 1.0)
        assert np.unique(x).size == 221
        assert_allclose(test.y, -np.sqrt(390 + 330 * test.X[:, 0]) / 100, atol=1e-12)


def test_outliers_of_lidar_change_a_tenth_of_the_training_targets(lidar):
    changes = {"sym": [], "up": []}
    for number in range(40):
        clean = lidar_split(lidar, number, n_passes=1).training
        for outliers, found in changes.items():
            training = lidar_split(lidar, number, outliers, n_passes=1).training
            assert_array_equal(training.first.X, clean.first.X)
            assert_array_equal(training.second.X, clean.second.X)
            found.append(training.first.y - clean.first.y)
    for found in changes.values():
        # 40 * 177 draws of probability 0.1: 0.1 with a standard error of 0.0036.
        assert np.mean(np.concatenate(found) != 0.0) == pytest.approx(0.1, abs=0.015)
    sym, up = (np.concatenate(found) for found in changes.values())
    assert_allclose(up[up != 0.0], 0.8, rtol=1e-9)
    # About 700 normal draws: their deviation is 0.8 with a standard error of 0.02.
    assert np.std(sym[sym != 0.0]) == pytest.approx(0.8, abs=0.09)


def test_unknown_outliers_of_lidar_are_refused(lidar):
    with pytest.raises(ValueError, match="'clean', 'sym', 'up', got 'down'"):
        lidar_split(lidar, 0, "down")
