"""The detector of changes: against a slow one that keeps all rows, River's, by Monte Carlo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.streams import ChangeDetector


class Histogram:
    """Buckets of rows that are all kept, oldest first: at most five of a size."""

    def __init__(self):
        self.buckets = []
        self.differences = {}

    def add(self, value):
        self.buckets.append([value])
        size = 1
        while sum(len(b) == size for b in self.buckets) == 6:
            first = next(i for i, b in enumerate(self.buckets) if len(b) == size)
            a, b = self.buckets[first : first + 2]
            squared = size * (np.mean(a) - np.mean(b)) ** 2 / 2
            self.differences.setdefault(size, []).append((squared, np.var(self.rows())))
            self.buckets[first : first + 2] = [a + b]
            size *= 2
        return self

    def rows(self):
        return [x for bucket in self.buckets for x in bucket]

    def cuts(self):
        """Rows after each boundary of buckets, with the size of the bucket behind it."""
        return [
            (sum(map(len, self.buckets[i:])), len(self.buckets[i]))
            for i in range(len(self.buckets) - 1, 0, -1)
        ]


class SlowChangeDetector(Histogram):
    """The formulas of the documentation; variances of differences row by row of their history."""

    def __init__(self, delta):
        super().__init__()
        self.delta, self.scale, self.sums = delta, {}, {}

    def add(self, value):
        before = {size: len(them) for size, them in self.differences.items()}
        super().add(value)
        expected, size = np.var(self.rows()), 1
        while len(self.differences.get(size, [])) > before.get(size, 0):
            total, number = self.sums.get(size, (0.0, 0.0))
            new = min(self.differences[size][-1][0], 9 * expected)
            total, number = 0.99 * total + new, 0.99 * number + 1
            self.sums[size] = total, number
            expected = self.scale[size] = (8 * expected + total) / (8 + number)
            size *= 2
        return self.look()

    def look(self):
        rows = np.array(self.rows())
        n, best, kept, rise = len(rows), 0.0, 0, 0.0
        if n < 20 or rows.std() <= 1e-12 * abs(rows.mean()):
            return False
        variance, third = np.var(rows), np.mean((rows - rows.mean()) ** 3)
        for n1, size in self.cuts():
            n0 = n - n1
            if n0 < 16 or n1 < 4:
                continue
            known = [s for s in self.scale if s <= 8 * size]
            v = max(variance, self.scale[max(known)]) if known else variance
            d = rows[n0:].mean() - rows[:n0].mean()
            m = n0 * n1 / n
            b = np.sign(d) * third / variance
            u = b * abs(d) / v
            g = m * d * d / (2 * v)
            bound = np.log((1 + np.log2(n)) / (self.delta * min(n0, n1)))
            if g <= bound:
                continue
            if u > 1e-3:
                g = m * v / b**2 * ((1 + u) * np.log(1 + u) - u)
            if g - bound > best:
                best, kept, rise = g - bound, n1, d
        if kept:
            while len(self.rows()) > kept:
                del self.buckets[0]
        return rise > 0


def changing(seed, kind="0/1", n=600):
    """Losses whose mean goes up and down by and by."""
    rng = np.random.default_rng(seed)
    level = np.repeat(rng.uniform(0.02, 0.9, n // 150), 150)
    if kind == "0/1":
        return (rng.random(n) < level).astype(float)
    if kind == "normal":
        return level * 3 + rng.normal(size=n)
    return 1000.0 + level * 3 + rng.exponential(size=n)


@pytest.mark.parametrize("kind", ["0/1", "normal", "exponential"])
@pytest.mark.parametrize("seed", [1, 2])
def test_is_the_slow_one_that_keeps_all_rows(seed, kind):
    x = changing(seed, kind)
    fast, oracle = ChangeDetector(0.01), SlowChangeDetector(0.01)
    found = []
    for t, value in enumerate(x):
        said = fast.add(value)
        assert said == oracle.add(value)
        assert fast.width == len(oracle.rows())
        assert_allclose(fast.mean, np.mean(oracle.rows()), rtol=1e-12)
        assert_allclose(fast.variance, np.var(oracle.rows()), rtol=1e-7, atol=1e-12)
        found += [t] * said
    assert found
    assert fast.n_detected == len(found)
    assert fast.n_rows == len(x)


def test_buckets_lose_little_to_all_cuts():
    """With every boundary of rows a cut, changes are seen not much earlier."""
    delays = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.normal(size=400), 0.7 + rng.normal(size=600)])
        by_buckets = ChangeDetector(1e-4).add_many(x)[0] - 399
        assert by_buckets > 0
        for n in range(420, 1000):
            rows, n1 = x[:n], np.arange(4, n - 16)
            m = n1 * (n - n1) / n
            tails = np.cumsum(rows[::-1])[n1 - 1]
            d = tails / n1 - (rows.sum() - tails) / (n - n1)
            bound = np.log((1 + np.log2(n)) / (1e-4 * np.minimum(n1, n - n1)))
            if (m * d * abs(d) / (2 * rows.var()) > bound).any():
                break
        delays.append((by_buckets, n - 400))
    slow, fast = np.mean(delays, axis=0)
    assert fast < slow < 1.5 * fast


def alarms_of_river(losses):
    """Rows where its ADWIN says that the mean has risen."""
    detector = pytest.importorskip("river.drift").ADWIN(delta=0.002, clock=1)
    rows, before = [], 0.0
    for t, loss in enumerate(losses.tolist()):
        detector.update(loss)
        if detector.drift_detected and detector.estimation > before:
            rows.append(t)
        before = detector.estimation
    return rows


class TestFalseAlarms:
    """Counts on streams without a change are Poisson: no more than four deviations beyond."""

    @pytest.mark.parametrize(
        "draw",
        [
            lambda rng, n: (rng.random(n) < 0.05).astype(float),
            lambda rng, n: (rng.random(n) < 0.3).astype(float),
            lambda rng, n: rng.normal(size=n),
            lambda rng, n: rng.exponential(size=n),
            lambda rng, n: rng.normal(size=n) ** 2,
        ],
        ids=["0/1, .05", "0/1, .3", "normal", "exponential", "squares"],
    )
    def test_are_as_many_as_asked_for(self, draw):
        x = draw(np.random.default_rng(0), 300_000)
        expected = 1e-4 * len(x)
        count = len(ChangeDetector(1e-4).add_many(x))
        assert 0.2 * expected < count < expected + 4 * expected**0.5

    def test_are_few_though_rows_are_correlated(self):
        rng, x = np.random.default_rng(0), np.zeros(300_000)
        noise = rng.normal(size=len(x))
        for t in range(1, len(x)):
            x[t] = 0.7 * x[t - 1] + noise[t]
        count = len(ChangeDetector(1e-4).add_many(x))
        assert count < 0.2 * len(alarms_of_river(x))
        assert count < 4 * 1e-4 * len(x)

    def test_none_while_losses_fall(self):
        rng = np.random.default_rng(0)
        levels = np.repeat([0.5, 0.4, 0.25, 0.1, 0.02], 4000)
        x = (rng.random(len(levels)) < levels).astype(float)
        assert len(ChangeDetector().add_many(x)) == 0
        assert len(ChangeDetector(two_sided=True).add_many(x)) > 0

    def test_what_was_lower_lately_counts(self):
        """After a fall the losses of before are forgotten, so that a rise to less is seen."""
        rng = np.random.default_rng(0)
        levels = np.repeat([0.5, 0.05, 0.3], 3000)
        x = (rng.random(len(levels)) < levels).astype(float)
        rows = ChangeDetector().add_many(x)
        assert len(rows) == 1
        assert 6000 < rows[0] < 6150


def test_detects_earlier_than_river():
    delays = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.concatenate([rng.random(2000) < 0.1, rng.random(4000) < 0.2]).astype(float)
        rows = ChangeDetector().add_many(x), alarms_of_river(x)
        delays.append([next(row for row in them if row >= 2000) - 1999 for them in rows])
    own, theirs = np.mean(delays, axis=0)
    assert own < 0.8 * theirs


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100.0, 100.0), seed=st.integers(0, 50))
@settings(max_examples=20)
def test_units_do_not_matter(scale, shift, seed):
    x = changing(seed, "normal")
    rows = ChangeDetector(1e-3).add_many(x)
    assert_array_equal(ChangeDetector(1e-3).add_many(scale * x + shift), rows)
    assert_array_equal(
        ChangeDetector(1e-3, two_sided=True).add_many(-x),
        ChangeDetector(1e-3, two_sided=True).add_many(x),
    )


@pytest.mark.parametrize("every", [1, 7])
@given(cut=st.integers(0, 600), seed=st.integers(0, 20))
@settings(max_examples=15)
def test_goes_on_from_its_state_bit_for_bit(every, cut, seed):
    x = changing(seed)[:600]
    whole, first = (ChangeDetector(0.01, every=every) for _ in range(2))
    rows = whole.add_many(x)
    begin = first.add_many(x[:cut])
    kept = first.to_state()
    second = ChangeDetector.from_state(kept)
    first.add_many(x)  # the state is a copy
    assert_array_equal([*begin, *(cut + second.add_many(x[cut:]))], rows)
    for name, value in whole.to_state().items():
        assert_array_equal(second.to_state()[name], value)


def test_one_by_one_is_many_at_once():
    x = changing(3)
    one, many = (ChangeDetector(0.01, every=3) for _ in range(2))
    assert_array_equal(np.flatnonzero([one.add(value) for value in x]), many.add_many(x))
    assert_array_equal(one.to_state()["state"], many.to_state()["state"])
    assert one.n_detected == len(ChangeDetector(0.01, every=3).add_many(x)) > 0


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_a_constant_is_no_change(value):
    detector = ChangeDetector(two_sided=True)
    assert len(detector.add_many(np.full(5000, value))) == 0
    assert detector.mean == pytest.approx(value)
    rows = detector.add_many(np.full(20, value + 1.0 + abs(value)))
    assert len(rows) == 1  # and the first other rows are one, at once
    assert rows[0] < 6


def test_memory_does_not_grow():
    detector = ChangeDetector()
    small = len(detector.to_state()["state"])
    detector.add_many(np.random.default_rng(0).normal(size=200_000))
    assert len(detector.to_state()["state"]) == small


def test_what_cannot_be_is_refused():
    for delta in (0.0, 1.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="delta"):
            ChangeDetector(delta)
    with pytest.raises(ValueError, match="every"):
        ChangeDetector(every=0)
    made = ChangeDetector()
    made.add(1.0)
    before = made.to_state()["state"]
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite"):
            made.add(value)
        with pytest.raises(ValueError, match="finite"):
            made.add_many([0.5, value])
    assert_array_equal(made.to_state()["state"], before)
    state = made.to_state()
    with pytest.raises(ValueError, match="`state` must be of shape"):
        ChangeDetector.from_state({**state, "state": before[:10]})
    wrong = before.copy()
    wrong[0] = 7.0
    with pytest.raises(ValueError, match="buckets"):
        ChangeDetector.from_state({**state, "state": wrong})
