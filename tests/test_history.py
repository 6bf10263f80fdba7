"""The record of a run: bounded, and true however the stream was cut."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer.history import History


def steps(seed, n_steps):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 40, size=n_steps)
    losses = rows * rng.gamma(2.0, size=n_steps)
    orders = rng.integers(0, 500, size=n_steps)
    return rows, losses, orders, rng.random(n_steps), rng.random(n_steps)


def oracle(columns, length):
    """Records of ``length`` steps each, the last one possibly of fewer."""
    rows, losses, orders, errors, step_sizes = columns
    records = []
    for start in range(0, len(rows), length):
        window = slice(start, start + length)
        records.append(
            (
                rows[: start + length].sum(),
                losses[window].sum() / rows[window].sum(),
                orders[window][-1],
                errors[window].max(),
                step_sizes[window][-1],
            )
        )
    return np.array(records).T


def columns_of(history):
    return (
        history.n_samples,
        history.loss,
        history.model_order,
        history.compression_error,
        history.step_size,
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_steps=st.integers(1, 6000),
    cuts=st.lists(st.integers(1, 5999), max_size=12),
)
def test_records_equal_windows_of_the_whole_stream_however_it_was_cut(seed, n_steps, cuts):
    columns = steps(seed, n_steps)
    history = History()
    edges = sorted({0, n_steps, *(c for c in cuts if c < n_steps)})
    for start, stop in pairwise(edges):
        history.add(*(column[start:stop] for column in columns))
    # 1,024 full windows never stand: they are merged as soon as there are that many.
    length = 1
    while n_steps // length >= 1024:
        length *= 2
    assert history.steps_per_record == length
    for mine, expected in zip(columns_of(history), oracle(columns, length), strict=True):
        assert_allclose(mine, expected, rtol=1e-12)


def test_merging_conserves_rows_and_the_mean_loss_on_an_endless_stream():
    history, rows, losses = History(), 0, 0.0
    for seed in range(60):
        columns = steps(seed, 997)
        history.add(*columns)
        rows, losses = rows + columns[0].sum(), losses + columns[1].sum()
        assert len(history.loss) <= 1024
        assert history.n_samples[-1] == rows
        counts = np.diff(history.n_samples, prepend=0)
        assert_allclose(counts @ history.loss, losses, rtol=1e-12)
    assert history.steps_per_record == 64


def test_one_step_at_a_time_is_the_same_as_many():
    _, losses, orders, errors, step_sizes = steps(1, 5000)
    one, many = History(), History()
    for i in range(5000):
        one.add_one(losses[i], orders[i], errors[i], step_sizes[i])
    many.add(np.ones(5000, np.int64), losses, orders, errors, step_sizes)
    for a, b in zip(columns_of(one), columns_of(many), strict=True):
        assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("n_steps", [0, 1, 700, 1023, 1024, 3001])
def test_a_snapshot_goes_on_as_if_nothing_had_happened(n_steps):
    history = History()
    history.add(*steps(2, n_steps))
    state, before = history.to_state(), columns_of(history)
    again = History()
    again.restore(state)
    history.add(*steps(3, 1500))
    again.add(*steps(3, 1500))
    for a, b in zip(columns_of(history), columns_of(again), strict=True):
        assert np.array_equal(a, b)
    restored = History()
    restored.restore(state)  # learning has not changed the snapshot
    for a, b in zip(columns_of(restored), before, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("arrays", "records", np.zeros((3, 4))),
        ("arrays", "records", np.zeros((1024, 5))),
        ("arrays", "records", np.zeros((3, 5), np.float32)),
        ("arrays", "open", np.zeros(4)),
        ("numbers", "steps_per_record", 0),
        ("numbers", "steps_per_record", 1.5),
        ("numbers", "open_steps", 7),
    ],
)
def test_a_snapshot_that_does_not_fit_together_is_refused(part, name, value):
    history = History()
    history.add(*steps(4, 10))
    state = history.to_state()
    state[part][name] = value
    with pytest.raises(ValueError, match=f"`{name}` must|do not fit together"):
        History().restore(state)


def test_a_history_says_what_is_in_it():
    history = History()
    assert repr(history) == "History(empty)"
    assert len(history) == 0
    history.add(np.array([4]), np.array([2.0]), np.array([3]), np.array([0.0]), np.array([0.1]))
    assert repr(history) == "History(1 records, 4 rows, loss 0.5, model order 3)"
