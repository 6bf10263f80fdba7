"""Generated streams change where they say, and are what they say before and after."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import KNeighborsClassifier

from benchmark_scripts import scripts

with scripts("_changing_streams") as found:
    make_sea, make_sine = found._changing_streams.make_sea, found._changing_streams.make_sine
    make_rotating_plane = found._changing_streams.make_rotating_plane
    make_moving_centers = found._changing_streams.make_moving_centers

MAKERS = [make_sea, make_rotating_plane, make_moving_centers, make_sine]
NUMBERS = [make_rotating_plane, make_moving_centers, make_sine]
KINDS = ["abrupt", "gradual", "incremental", "recurring"]


def sea(theta):
    return lambda X: X[:, 0] + X[:, 1] <= theta


def sine(phase):
    return lambda X: X[:, 1] < 0.5 + 0.5 * np.sin(3 * np.pi * X[:, 0] + phase)


CONCEPTS = {
    make_sea: [sea(theta) for theta in (8.0, 9.0, 7.0, 9.5)],
    make_sine: [sine(phase * np.pi) for phase in (0.0, 1.0, 0.5, 1.5)],
}


def normal_of(X, y):
    return np.linalg.lstsq(X, y, rcond=None)[0]


class TestRules:
    """The rule of a concept is right of its rows, and of no others."""

    @pytest.mark.parametrize("make", CONCEPTS)
    def test_abrupt(self, make):
        X, y, changes = make(4000, noise=0.0)
        assert_array_equal(changes, [1000, 2000, 3000])
        for k, rule in enumerate(CONCEPTS[make]):
            right = (rule(X) == y).reshape(4, 1000).mean(axis=1)
            assert right[k] == 1.0
            assert (np.delete(right, k) < 0.99).all()

    @pytest.mark.parametrize("make", CONCEPTS)
    def test_recurring(self, make):
        X, y, _ = make(4000, noise=0.0, change="recurring")
        first, second, *_ = CONCEPTS[make]
        part = np.arange(4000) // 1000
        assert_array_equal(y, np.where(part % 2 == 0, first(X), second(X)))

    @pytest.mark.parametrize("make", CONCEPTS)
    def test_gradual(self, make):
        """The chance of the next concept rises linearly from 0 to 1."""
        X, y, _ = make(40_000, noise=0.0, change="gradual", changes=[10_000], width=20_000)
        first, second, *_ = CONCEPTS[make]
        differ = first(X) != second(X)
        new = (second(X) == y)[differ]
        rows = np.flatnonzero(differ)
        assert not new[rows < 10_000].any()
        assert new[rows >= 30_000].all()
        for begin in range(10_000, 30_000, 5000):
            inside = (rows >= begin) & (rows < begin + 5000)
            expected = (begin + 2500 - 10_000) / 20_000
            error = (expected * (1 - expected) / inside.sum()) ** 0.5
            assert abs(new[inside].mean() - expected) < 4 * error

    def test_incremental_thresholds(self):
        X, y, _ = make_sea(4000, noise=0.0, change="incremental", changes=[1000], width=2000)
        theta = np.interp(np.arange(4000), [1000, 3000], [8.0, 9.0])
        assert_array_equal(y, X[:, 0] + X[:, 1] <= theta)

    def test_incremental_is_by_default_half_of_the_way_to_the_next_change(self):
        X, y, _ = make_sea(4000, noise=0.0, change="incremental")
        theta = np.interp(
            np.arange(4000),
            [1000, 1500, 2000, 2500, 3000, 3500],
            [8.0, 9.0, 9.0, 7.0, 7.0, 9.5],
        )
        assert_array_equal(y, X[:, 0] + X[:, 1] <= theta)

    def test_planes_turn(self):
        when = {"changes": [1000], "width": 1000, "noise": 0.0}
        X, y, _ = make_rotating_plane(3000, task="regression", **when)
        before, after = normal_of(X[:1000], y[:1000]), normal_of(X[2000:], y[2000:])
        assert_allclose(y[:1000], X[:1000] @ before)
        assert_allclose(y[2000:], X[2000:] @ after)
        assert_allclose([before @ before, after @ after], 3.0)
        for t in (1250, 1500, 1750):
            part = (t - 1000) / 1000
            normal = (1 - part) * before + part * after
            assert_allclose(y[t], np.sqrt(3) * X[t] @ normal / np.linalg.norm(normal))
        labels = make_rotating_plane(3000, **when).y
        assert_array_equal(labels, y > 0)

    def test_centers_are_elsewhere(self):
        """Without spread the rows are the centers: as many places as centers, others after it."""
        X, y, _ = make_moving_centers(2000, spread=0.0, n_centers=7, n_classes=3, changes=1)
        before, after = (np.unique(part, axis=0) for part in np.split(X, 2))
        assert len(before) == len(after) == 7
        assert np.abs(before[:, np.newaxis] - after).max(axis=2).min() > 0.1
        for rows in np.split(np.arange(2000), 2):
            places = {tuple(x): set() for x in X[rows]}
            for x, label in zip(X[rows], y[rows], strict=True):
                places[tuple(x)].add(label)
            assert sorted(min(labels) for labels in places.values()) == [0, 0, 0, 1, 1, 2, 2]
            assert all(len(labels) == 1 for labels in places.values())

    def test_centers_move_in_straight_lines(self):
        X, _, _ = make_moving_centers(
            3000, spread=0.0, n_centers=2, changes=[1000], width=1000, change="incremental"
        )
        before, after = (np.unique(X[part], axis=0) for part in (slice(1000), slice(2000, 3000)))
        for t in (1100, 1500, 1900):
            part = (t - 1000) / 1000
            between = (1 - part) * before[:, np.newaxis] + part * after
            assert np.abs(between - X[t]).max(axis=2).min() < 1e-12

    @pytest.mark.parametrize("kind", ["abrupt", "recurring"])
    def test_a_learner_of_before_fails_after(self, kind):
        """And one of the concept before that is right again, where concepts recur."""
        X, y, _ = make_moving_centers(6000, n_inputs=5, spread=0.4, change=kind, changes=2)
        parts = np.split(np.arange(6000), 3)
        known = KNeighborsClassifier(10).fit(X[parts[0][:1500]], y[parts[0][:1500]])
        same, other = (
            known.score(X[1500:2000], y[1500:2000]),
            known.score(X[2000:4000], y[2000:4000]),
        )
        third = known.score(X[4000:], y[4000:])
        assert same > other + 0.15
        assert (third > same - 0.05) == (kind == "recurring")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
class TestAll:
    def test_rows_before_the_first_change_know_nothing_of_it(self, make, kind):
        changed = make(2000, change=kind, changes=[1200, 1500], seed=3)
        still = make(2000, change=kind, changes=0, seed=3)
        assert len(still.changes) == 0
        assert_array_equal(changed.X[:1200], still.X[:1200])
        assert_array_equal(changed.y[:1200], still.y[:1200])
        assert (changed.X[1200:] != still.X[1200:]).any() or (changed.y != still.y).any()

    def test_seeds_matter_and_repeat(self, make, kind):
        one, again, other = (make(500, change=kind, seed=seed) for seed in (1, 1, 2))
        for a, b in zip(one, again, strict=True):
            assert_array_equal(a, b)
        assert (one.X != other.X).any()

    def test_shapes_and_types(self, make, kind):
        X, y, changes = make(101, change=kind, changes=4)
        assert X.shape[0] == len(y) == 101
        assert X.dtype == np.float64
        assert y.dtype == changes.dtype == np.int64
        assert_array_equal(changes, [20, 40, 60, 80])
        assert set(y) <= {0, 1}
        assert np.isfinite(X).all()
        if make in NUMBERS:
            numbers = make(101, change=kind, task="regression")
            assert numbers.y.dtype == np.float64
            assert numbers.X.shape == X.shape


@pytest.mark.parametrize("make", [make_sea, make_rotating_plane, make_sine])
@given(noise=st.floats(0.0, 0.5), seed=st.integers(0, 100))
@settings(max_examples=10)
def test_noise_turns_labels_over(make, noise, seed):
    clean, noisy = make(4000, noise=0.0, seed=seed), make(4000, noise=noise, seed=seed)
    assert_array_equal(clean.X, noisy.X)
    error = (noise * (1 - noise) / 4000) ** 0.5
    few = 4 / 4000  # of rare ones the counts are far from normal
    assert abs((clean.y != noisy.y).mean() - noise) <= 5 * error + few


def test_noise_of_several_classes_is_any_other():
    clean, noisy = (make_moving_centers(9000, n_classes=3, noise=p) for p in (0.0, 0.3))
    moved = (noisy.y - clean.y)[noisy.y != clean.y] % 3
    assert abs(len(moved) / 9000 - 0.3) < 0.02
    assert abs((moved == 1).mean() - 0.5) < 0.04


@pytest.mark.parametrize("make", NUMBERS)
def test_noise_of_numbers_is_their_spread(make):
    clean, noisy = (make(4000, task="regression", noise=s) for s in (0.0, 0.5))
    assert_array_equal(clean.X, noisy.X)
    assert (noisy.y - clean.y).std() == pytest.approx(0.5, rel=0.06)
