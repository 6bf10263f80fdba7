"""Regression trees grown by boosting on binned columns, and the leaves that rows fall into."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.jit import jit

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_MOST_BINS = 256
# A split is to explain at least this share of the squared residuals of all rows.
_LEAST_GAIN = 1e-10


class Forest(NamedTuple):
    """Binary trees, node after node: the children of a node are neighbours.

    Attributes
    ----------
    columns : ndarray of shape (n_nodes,) of int
        Column that a node asks for; -1 for leaves.
    cuts : ndarray of shape (n_nodes,)
        Rows at most as large as this go to the left.
    children : ndarray of shape (n_nodes,) of int
        The left child; the right one is the next. For a leaf its number among the leaves.
    roots : ndarray of shape (n_trees,) of int
        Node at which each tree begins.
    """

    columns: Integers
    cuts: Array
    children: Integers
    roots: Integers


def binned(X: NDArray[Any], n_bins: int) -> tuple[Codes, list[Array]]:
    """Numbers of the bins that values fall into, column by column.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Finite.
    n_bins : int
        Bins of a column at most; a column of fewer values has a bin for each.

    Returns
    -------
    codes : ndarray of shape (n_columns, n_rows) of uint8
        Number of the bin of each value.
    cuts : list of ndarray
        Where the bins of each column end, but for the last: halfway between two values.

    Examples
    --------
    >>> codes, cuts = binned(np.array([[1.0], [3.0], [1.0]]), 8)
    >>> codes.tolist(), cuts[0].tolist()
    ([[0, 1, 0]], [2.0])
    """
    codes = np.empty(X.shape[::-1], dtype=np.uint8)
    cuts = []
    for j in range(X.shape[1]):
        column = X[:, j].astype(np.float64)
        values = np.unique(column)
        if values.size > n_bins:
            places = np.arange(1, n_bins) * column.size // n_bins
            ends = np.unique(np.partition(column, places)[places])
            above = np.minimum(np.searchsorted(values, ends, side="right"), values.size - 1)
            below = values[np.maximum(above - 1, 0)]
            cut = np.unique(below + (values[above] - below) / 2.0)
        else:
            cut = values[:-1] + np.diff(values) / 2.0
        codes[j] = np.searchsorted(cut, column, side="left")
        cuts.append(cut)
    return codes, cuts


def grow(
    X: NDArray[Any],
    targets: Array,
    weights: Array,
    *,
    n_trees: int,
    n_leaves: int,
    n_bins: int,
    min_weight: float,
    rate: float,
    share: float,
    n_columns: int,
    n_sketches: int,
    seed: int,
) -> Forest:
    """Grow trees, each on what those before it leave of the targets (squared error).

    A tree splits the leaf whose best split explains most. It sees a random share of the rows, some
    columns and, of many targets, a few random combinations, by which it splits.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Finite rows.
    targets : ndarray of shape (n_rows, n_targets)
        Targets, in units in which they count alike.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, above 0.
    n_trees, n_leaves, n_bins : int
        How many there are, at most; bins of a column.
    min_weight : float
        Weight of a leaf at least, if all weigh as many rows of one weight as would count for as
        much: (sum w)^2 / sum w^2.
    rate : float
        Part of what a tree explains that is taken off the targets.
    share : float
        Part of the rows that a tree sees.
    n_columns : int
        Largest number of columns that a tree sees.
    n_sketches : int
        Largest number of combinations of targets by which a tree splits.
    seed : int
        Seed for rows, columns and combinations.

    Returns
    -------
    forest : Forest

    References
    ----------
    J. H. Friedman, Stochastic gradient boosting, Computational Statistics & Data Analysis 38,
    2002; L. Iosipoi, A. Vakhrushev, SketchBoost, NeurIPS 2022, for the combinations.
    """
    codes, cuts = binned(X, min(n_bins, _MOST_BINS))
    varying = np.array([j for j, cut in enumerate(cuts) if cut.size], dtype=np.int64)
    ends = np.zeros((len(cuts), _MOST_BINS))  # all cuts, in one array
    for j, cut in enumerate(cuts):
        ends[j, : cut.size] = cut
    share_of = weights * (weights.sum() / (weights @ weights))
    residuals = np.ascontiguousarray(targets - np.average(targets, axis=0, weights=weights))
    min_weight = float(min_weight)  # of one type, so that it is compiled once
    least = _LEAST_GAIN * float(share_of @ np.sum(residuals**2, axis=1))
    generator, n = np.random.default_rng(seed), len(X)
    trees: list[Forest] = []
    n_nodes = n_found = 0
    for _ in range(n_trees):
        rows = np.flatnonzero(generator.random(n) < share)
        columns = varying
        if varying.size > n_columns:
            columns = np.sort(generator.choice(varying, n_columns, replace=False))
        sketch = residuals
        if residuals.shape[1] > n_sketches:
            sketch = residuals @ generator.standard_normal((residuals.shape[1], n_sketches))
        bins = max((cuts[j].size + 1 for j in columns), default=1)
        tree = _grow_one(
            codes, columns, bins, sketch, share_of, rows.copy(), n_leaves, min_weight, least
        )
        asked, bin, child = (numbers[: tree[3]] for numbers in tree[:3])
        is_leaf = asked < 0
        numbers = np.where(is_leaf, np.cumsum(is_leaf) - 1, child)
        places = _leaves_of_codes(codes, asked, bin, numbers)
        n_mine = int(is_leaf.sum())
        _take_off(residuals, places, rows, share_of, n_mine, rate)
        cut = np.where(is_leaf, 0.0, ends[asked, bin])
        shifted = np.where(is_leaf, numbers + n_found, numbers + n_nodes)
        trees.append(Forest(asked, cut, shifted, np.array([n_nodes])))
        n_nodes += asked.size
        n_found += n_mine
    return Forest(*(np.concatenate(pieces) for pieces in zip(*trees, strict=True)))


@jit(nogil=True)
def _histogram(
    codes: Codes,
    columns: Integers,
    residuals: Array,
    weights: Array,
    rows: Integers,
    found: Array,
) -> None:
    n_targets = residuals.shape[1]
    for place in range(columns.size):
        column, sums = codes[columns[place]], found[place]
        for bin in range(sums.shape[0]):
            for c in range(n_targets + 1):
                sums[bin, c] = 0.0
        for r in rows:
            bin = column[r]
            for c in range(n_targets):
                sums[bin, c] += weights[r] * residuals[r, c]
            sums[bin, n_targets] += weights[r]


@jit(nogil=True)
def _best_split(histogram: Array, least_weight: float) -> tuple[float, int, int]:
    """Return the gain of the best split, the index of its column, and the last bin on the left."""
    n_columns, n_bins, width = histogram.shape
    n_targets = width - 1
    total, left = np.zeros(width), np.empty(width)
    for bin in range(n_bins):
        for c in range(width):
            total[c] += histogram[0, bin, c]
    before = 0.0
    for c in range(n_targets):
        before += total[c] ** 2
    before /= total[n_targets] + 1.0
    best, best_column, best_bin = 0.0, -1, -1
    for place in range(n_columns):
        for c in range(width):
            left[c] = 0.0
        for bin in range(n_bins - 1):
            for c in range(width):
                left[c] += histogram[place, bin, c]
            rest = total[n_targets] - left[n_targets]
            if rest < least_weight:
                break
            if left[n_targets] < least_weight:
                continue
            mine = theirs = 0.0
            for c in range(n_targets):
                mine += left[c] ** 2
                theirs += (total[c] - left[c]) ** 2
            gain = mine / (left[n_targets] + 1.0) + theirs / (rest + 1.0) - before
            if gain > best:
                best, best_column, best_bin = gain, place, bin
    return best, best_column, best_bin


@jit(nogil=True)
def _grow_one(
    codes: Codes,
    columns: Integers,
    n_bins: int,
    residuals: Array,
    weights: Array,
    rows: Integers,
    n_leaves: int,
    least_weight: float,
    least_gain: float,
) -> tuple[Integers, Integers, Integers, int]:
    """Columns, bins and left children of the nodes of a tree, and how many these are.

    ``rows`` are put in another order.
    """
    n_nodes = 2 * n_leaves - 1
    asked = np.empty(n_nodes, dtype=np.int64)
    for place in range(n_nodes):
        asked[place] = -1
    bins = np.zeros(n_nodes, dtype=np.int64)
    child = np.zeros(n_nodes, dtype=np.int64)
    histograms = np.empty((n_leaves, columns.size, n_bins, residuals.shape[1] + 1))
    counted = np.empty((columns.size, n_bins, residuals.shape[1] + 1))
    node = np.zeros(n_leaves, dtype=np.int64)
    start = np.zeros(n_leaves, dtype=np.int64)
    stop = np.zeros(n_leaves, dtype=np.int64)
    gain = np.zeros(n_leaves)
    column = np.zeros(n_leaves, dtype=np.int64)
    bin = np.zeros(n_leaves, dtype=np.int64)
    right = np.empty_like(rows)
    n, made, stop[0] = 1, 1, rows.size
    if columns.size > 0:
        _histogram(codes, columns, residuals, weights, rows, histograms[0])
        gain[0], column[0], bin[0] = _best_split(histograms[0], least_weight)
    while n < n_leaves:
        leaf = 0
        for other_leaf in range(1, n):
            leaf = other_leaf if gain[other_leaf] > gain[leaf] else leaf
        if gain[leaf] <= least_gain:
            break
        values, last = codes[columns[column[leaf]]], bin[leaf]
        middle, n_right = start[leaf], 0
        for place in range(start[leaf], stop[leaf]):
            r = rows[place]
            if values[r] <= last:
                rows[middle] = r
                middle += 1
            else:
                right[n_right] = r
                n_right += 1
        for place in range(n_right):
            rows[middle + place] = right[place]
        asked[node[leaf]], bins[node[leaf]] = columns[column[leaf]], last
        child[node[leaf]] = made
        node[leaf], node[n] = made, made + 1
        made += 2
        start[n], stop[n], stop[leaf] = middle, stop[leaf], middle
        # The smaller half is counted, the other is the rest.
        small = leaf if middle - start[leaf] < n_right else n
        some = rows[start[small] : stop[small]]
        mine, whole = histograms[n], histograms[leaf]
        _histogram(codes, columns, residuals, weights, some, counted)
        for place in range(columns.size):
            for b in range(n_bins):
                for c in range(counted.shape[2]):
                    one, other = counted[place, b, c], whole[place, b, c] - counted[place, b, c]
                    mine[place, b, c] = one if small == n else other
                    whole[place, b, c] = other if small == n else one
        gain[leaf], column[leaf], bin[leaf] = _best_split(whole, least_weight)
        gain[n], column[n], bin[n] = _best_split(mine, least_weight)
        n += 1
    return asked, bins, child, made


@jit(nogil=True)
def _take_off(
    residuals: Array, places: Integers, rows: Integers, weights: Array, n_leaves: int, rate: float
) -> None:
    """Subtract a share of each leaf's mean, computed from some rows, from the residuals of all."""
    n_targets = residuals.shape[1]
    sums, counted = np.zeros((n_leaves, n_targets)), np.ones(n_leaves)
    for r in rows:
        counted[places[r]] += weights[r]
        for c in range(n_targets):
            sums[places[r], c] += weights[r] * residuals[r, c]
    for leaf in range(n_leaves):
        for c in range(n_targets):
            sums[leaf, c] *= rate / counted[leaf]
    for r in range(places.size):
        for c in range(n_targets):
            residuals[r, c] -= sums[places[r], c]


@jit(nogil=True)
def _leaves_of_codes(
    codes: Codes, columns: Integers, bins: Integers, children: Integers
) -> Integers:
    """Leaf of each row in one tree."""
    found = np.empty(codes.shape[1], dtype=np.int64)
    for r in range(found.size):
        node = 0
        while columns[node] >= 0:
            right = codes[columns[node], r] > bins[node]
            node = children[node] + (1 if right else 0)
        found[r] = children[node]
    return found


# Most leaves of a tree for masks, rows that are in cache at a time, and fewest rows worth them.
_MASKED, _TILE, _SEVERAL = 16, 512, 6


class Masks(NamedTuple):
    """Questions of trees with at most 16 leaves, and the leaves that remain after each answer.

    All questions of a tree are asked, and leaves struck out by bits, which needs no jumps: rows are
    compared side by side.

    Attributes
    ----------
    columns, cuts : ndarray of shape (n_trees, 15)
        Column and cut of each question; trees with fewer questions have some that keep all leaves.
    lefts, rights : ndarray of shape (n_trees, 15) of uint16
        A bit for each leaf that rows may be in, if they are at most as large as the cut, or larger.
    leaves : ndarray of shape (n_trees, 16) of int32
        Number of the leaf of each bit.

    References
    ----------
    C. Lucchese et al., QuickScorer: a fast algorithm to rank documents with additive ensembles of
    regression trees, SIGIR 2015.
    """

    columns: Integers
    cuts: Array
    lefts: NDArray[np.uint16]
    rights: NDArray[np.uint16]
    leaves: NDArray[np.int32]


def masks_of(forest: Forest) -> Masks | None:
    """Return the masks of a forest; None if a tree has more than 16 leaves."""
    columns, cuts, children, roots = (numbers.tolist() for numbers in forest)
    shape, all_leaves = (len(roots), _MASKED - 1), 2**_MASKED - 1
    found = Masks(
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        np.full(shape, all_leaves, dtype=np.uint16),
        np.full(shape, all_leaves, dtype=np.uint16),
        np.zeros((len(roots), _MASKED), dtype=np.int32),
    )

    def below(node: int, depth: int) -> int:
        """Return the bits of the leaves below a node of the tree that is looked at."""
        if columns[node] < 0:
            leaves.append(children[node])
            return 1 << len(leaves) - 1
        if depth == _MASKED or len(leaves) > _MASKED:
            raise OverflowError
        left, right = below(children[node], depth + 1), below(children[node] + 1, depth + 1)
        asked.append((columns[node], cuts[node], all_leaves & ~right, all_leaves & ~left))
        return left | right

    for tree, root in enumerate(roots):
        leaves: list[int] = []
        asked: list[tuple[int, float, int, int]] = []
        try:
            below(root, 1)
        except OverflowError:
            return None
        if len(leaves) > _MASKED:
            return None
        found.leaves[tree, : len(leaves)] = leaves
        for question, (column, cut, left, right) in enumerate(asked):
            found.columns[tree, question], found.cuts[tree, question] = column, cut
            found.lefts[tree, question], found.rights[tree, question] = left, right
        found.lefts[tree] &= 2 ** len(leaves) - 1
        found.rights[tree] &= 2 ** len(leaves) - 1
    return found


def leaf_numbers(X: NDArray[Any], forest: Forest, masks: Masks | None = None) -> NDArray[np.int32]:
    """Find the leaf of each row in each tree, (n_trees, n_rows), numbered among all leaves.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Rows, C-ordered.
    forest : Forest
        The trees.
    masks : Masks or None, default=None
        Result of :func:`masks_of`, which finds the same leaves of many rows in less time.
    """
    found = np.empty((forest.roots.size, len(X)), dtype=np.int32)
    if masks is None or len(X) < _SEVERAL:
        _walk(X, *forest, found)
    else:
        _strike_out(X, *masks, found)
    return found


@jit(nogil=True)
def _walk(  # type: ignore[no-untyped-def]
    X, columns, cuts, children, roots, found
):
    for tree in range(roots.size):
        for r in range(X.shape[0]):
            node = roots[tree]
            while columns[node] >= 0:
                right = X[r, columns[node]] > cuts[node]
                node = children[node] + (1 if right else 0)
            found[tree, r] = children[node]


@jit(nogil=True)
def _strike_out(  # type: ignore[no-untyped-def]
    X, columns, cuts, lefts, rights, leaves, found
):
    bits = np.empty(_TILE, dtype=np.uint16)
    values = np.empty((X.shape[1], _TILE), dtype=X.dtype)
    for start in range(0, X.shape[0], _TILE):
        n = min(_TILE, X.shape[0] - start)
        for r in range(n):
            for k in range(X.shape[1]):
                values[k, r] = X[start + r, k]
        for tree in range(columns.shape[0]):
            for r in range(n):
                bits[r] = 0xFFFF
            for question in range(columns.shape[1]):
                column, cut = values[columns[tree, question]], cuts[tree, question]
                left, right = lefts[tree, question], rights[tree, question]
                for r in range(n):
                    bits[r] &= right if column[r] > cut else left
            for r in range(n):
                rest, number = bits[r], 0
                # Halves: in which of them is the bit?
                number += 8 if rest & 0xFF00 else 0
                number += 4 if rest & 0xF0F0 else 0
                number += 2 if rest & 0xCCCC else 0
                number += 1 if rest & 0xAAAA else 0
                found[tree, start + r] = leaves[tree, number]


@jit(nogil=True)
def indicator_products(leaves: NDArray[np.int32], weights: Array, sums: Array) -> None:
    """Add the products of indicators to their lower triangle, (n_leaves, n_leaves).

    Parameters
    ----------
    leaves : ndarray of shape (n_trees, n_rows)
        Indicators with value 1, in the order of the trees.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    sums : ndarray of shape (n_leaves, n_leaves)
        Changed in place.
    """
    n_trees, n = leaves.shape
    for a in range(n_trees):
        for b in range(a + 1):
            # One pair of trees at a time: what it adds to stays in the cache.
            for r in range(n):
                sums[leaves[a, r], leaves[b, r]] += weights[r]


@jit(nogil=True)
def indicator_values(leaves: NDArray[np.int32], coefficients: Array) -> Array:
    """Add up the coefficients of the leaves of each row, (n_rows, n_outputs)."""
    n_trees, n = leaves.shape
    found = np.zeros((n, coefficients.shape[1]))
    for start in range(0, n, _TILE):
        for tree in range(n_trees):
            for r in range(start, min(start + _TILE, n)):
                for c in range(coefficients.shape[1]):
                    found[r, c] += coefficients[leaves[tree, r], c]
    return found


@jit(nogil=True)
def sweep_trees(
    leaves: Codes,
    starts: Integers,
    values: Array,
    residuals: Array,
    weights: Array,
    counts: Array,
    strength: float,
    n_sweeps: int,
) -> None:
    """Fit leaf values to residuals by ridge regression, one tree after another (Gauss-Seidel).

    Each step solves for all leaves of one tree, whose equations are independent of each other, with
    all other trees fixed. Repeated sweeps converge to the solution for all trees together.

    Parameters
    ----------
    leaves : ndarray of shape (n_trees, n_rows) of uint8
        Leaf of each row, numbered within its tree.
    starts : ndarray of shape (n_trees + 1,) of int
        Number of the first leaf of each tree, and of all leaves.
    values : ndarray of shape (n_outputs, n_leaves)
        Values of the leaves, changed in place.
    residuals : ndarray of shape (n_outputs, n_rows)
        Targets minus the values of all trees, changed in place.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    counts : ndarray of shape (n_leaves,)
        Weights of the rows of each leaf.
    strength : float
        Factor of the squared values of leaves, which are added to the squared residuals.
    n_sweeps : int
        How often all trees are visited.
    """
    n_trees, n = leaves.shape
    sums, moved = np.empty(counts.size), np.empty(counts.size)
    for c in range(len(values)):
        mine, left = values[c], residuals[c]
        moved[:] = 0.0
        before = leaves[n_trees - 1]
        for _ in range(n_sweeps):
            for tree in range(n_trees):
                here, first = leaves[tree], starts[tree]
                size = starts[tree + 1] - first
                sums[:size] = 0.0
                # What the tree before has moved is taken off in the same pass over the rows.
                for r in range(n):
                    left[r] -= moved[before[r]]
                    sums[here[r]] += weights[r] * left[r]
                for leaf in range(size):
                    value, whole = mine[first + leaf], counts[first + leaf] + strength
                    moved[leaf] = (sums[leaf] - strength * value) / whole if whole > 0.0 else 0.0
                    mine[first + leaf] += moved[leaf]
                before = here
        for r in range(n):
            left[r] -= moved[before[r]]
