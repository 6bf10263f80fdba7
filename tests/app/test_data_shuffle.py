import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mercer_app.files import shuffled


def cut(array, sizes):
    return np.split(array, np.cumsum(sizes)[:-1])


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    buffer=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_row_comes_out_once_and_rows_stay_together(sizes, buffer, seed):
    n = sum(sizes)
    X, y = np.arange(2 * n).reshape(n, 2), np.arange(n)
    blocks = list(shuffled(zip(cut(X, sizes), cut(y, sizes), strict=True), buffer, seed))
    assert all(len(a) == len(b) <= max(sizes) for a, b in blocks)
    order = np.concatenate([b for _, b in blocks]) if blocks else y
    assert sorted(order) == list(range(n))
    if blocks:
        np.testing.assert_array_equal(np.concatenate([a for a, _ in blocks]), X[order])
    # A row overtakes at most the rows of a full buffer.
    assert all(row <= place + buffer for place, row in enumerate(order))


def order(seed, n=400, buffer=50, size=20):
    return np.concatenate(list(shuffled(np.arange(n).reshape(-1, size), buffer, seed)))


def test_the_seed_decides_the_order():
    np.testing.assert_array_equal(order(3), order(3))
    assert (order(3) != order(4)).any()
    assert (order(3) != np.arange(400)).any()


def test_the_mean_wait_is_the_size_of_the_buffer():
    places = np.argsort(order(0, n=40_000, buffer=500))
    # The waits have standard deviation 500 and are nearly independent: 5 sigma is 12.5.
    assert abs(np.mean(places[:30_000] - np.arange(30_000)) - 0) < 13
    waits = places[500:30_000] - (np.arange(500, 30_000) - 500)
    assert abs(waits.mean() - 500) < 15


def test_a_buffer_as_large_as_the_data_gives_every_permutation_equally_often():
    seen = {}
    for seed in range(2400):
        key = tuple(order(seed, n=4, buffer=4, size=2))
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 24
    # 100 expected each, standard deviation 9.8.
    assert max(seen.values()) < 150
    assert min(seen.values()) > 55


def test_memory_is_that_of_the_buffer():
    def most(n_blocks):
        tracemalloc.start()
        for _ in shuffled((np.full((100, 50), float(i)) for i in range(n_blocks)), 1000, 0):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    buffer, block = 1000 * 50 * 8, 100 * 50 * 8
    assert most(30) < buffer + 6 * block
    assert most(300) < most(30) + block


def test_longer_text_and_floats_after_integers_are_not_cut_short():
    blocks = [(np.array([1, 2]), np.array(["a", "b"])), (np.array([0.5]), np.array(["longer"]))]
    rows = [pair for X, y in shuffled(blocks, 2, 0) for pair in zip(X, y, strict=True)]
    assert sorted(rows) == [(0.5, "longer"), (1.0, "a"), (2.0, "b")]


def test_absent_targets_stay_absent():
    assert all(y is None for _, y in shuffled([(np.ones((3, 2)), None)] * 4, 5, 0))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([np.ones((2, 2)), np.ones((2, 3))], "agree in shape"),
        ([np.array([1]), np.array(["a"])], "agree in shape and kind"),
        ([(np.ones(2), np.ones(3))], "equal lengths"),
        ([(np.ones(2), np.ones(2)), (np.ones(2), None)], "some lack the targets"),
        ([sparse.csr_array(np.eye(3))], "Sparse blocks"),
    ],
)
def test_blocks_that_do_not_fit_together_are_refused(blocks, message):
    with pytest.raises(ValueError, match=message):
        list(shuffled(blocks, 1, 0))


def test_the_size_of_the_buffer_is_checked_at_once():
    with pytest.raises(ValueError, match="buffer_size"):
        shuffled([], 0)
