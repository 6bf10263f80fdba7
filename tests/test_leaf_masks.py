"""Leaves of trees by bit masks are those of the walk from node to node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mercer.maps import Leaves
from mercer.numerics.trees import Forest, leaf_numbers, masks_of


def forest_of(rng, n_trees, most_leaves, n_columns=3):
    """Random trees, whose cuts are among few numbers."""
    columns, cuts, children, roots = [], [], [], []
    for _ in range(n_trees):
        roots.append(len(columns))
        open_nodes = [len(columns)]
        columns.append(-1), cuts.append(0.0), children.append(0)
        for _ in range(rng.integers(0, most_leaves)):
            node = open_nodes.pop(rng.integers(len(open_nodes)))
            columns[node], cuts[node] = rng.integers(n_columns), float(rng.integers(-2, 3))
            children[node] = len(columns)
            for _ in range(2):
                open_nodes.append(len(columns))
                columns.append(-1), cuts.append(0.0), children.append(0)
    columns, children = np.array(columns), np.array(children)
    children[columns < 0] = np.arange((columns < 0).sum())
    return Forest(columns, np.array(cuts), children, np.array(roots))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 40))
def test_masks_find_the_leaves_of_the_walk(dtype, seed, n_rows):
    rng = np.random.default_rng(seed)
    forest = forest_of(rng, 4, 16)
    X = rng.integers(-2, 3, (n_rows, 3)).astype(dtype)  # often equal to a cut
    X[rng.random(X.shape) < 0.1] = np.inf
    X[rng.random(X.shape) < 0.1] = -np.inf
    X = np.tile(X, (8, 1))
    masks = masks_of(forest)
    assert masks is not None
    assert_array_equal(leaf_numbers(X, forest, masks), leaf_numbers(X, forest))


def test_larger_trees_are_walked():
    # Each question has a leaf on its left, and the next question on its right.
    n = 17
    columns = np.array([0, *[-1, 0] * (n - 1), -1, -1])
    is_leaf = columns < 0
    cuts, children = np.zeros(columns.size), np.empty(columns.size, dtype=np.int64)
    cuts[~is_leaf], children[~is_leaf] = np.arange(n), 1 + 2 * np.arange(n)
    children[is_leaf] = np.arange(n + 1)
    leaves = Leaves(1, columns, cuts, children, [0])
    assert masks_of(leaves._forest) is None
    rows = np.arange(30.0)[:, np.newaxis]
    assert_array_equal(leaves.numbers(rows)[0], np.minimum(np.arange(30), n))


def test_trees_that_share_nodes_or_lie_in_each_other_are_walked():
    # The nodes of the first tree lie before and behind those of the second.
    columns = np.array([0, 0, -1, -1, 1, -1, -1])
    apart = Forest(columns, np.zeros(7), np.array([4, 2, 0, 1, 5, 2, 3]), np.array([0, 1]))
    shared = Forest(np.array([0, 0, -1, -1]), np.zeros(4), np.array([2, 2, 0, 1]), np.array([0, 1]))
    for forest in (apart, shared):
        assert masks_of(forest) is None
