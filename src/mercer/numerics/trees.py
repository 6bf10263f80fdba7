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
# Sums of a bin: three targets, or combinations of them, and the weight.
_LANES = 4
# Least probability of a class at which scores begin, and longest Newton step before the rate.
_LEAST_SHARE, _MOST = 1e-6, 4.0
# Odds of classes at the begin of a sweep are at least this; a hundred trees change them by e^100.
_LEAST_ODDS = 1e-100
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
    n_leaves: Integers,
    n_bins: int,
    min_weight: float,
    rate: float,
    share: float,
    n_sketches: int,
    seed: int,
    classes: bool = False,
) -> tuple[Forest, Array]:
    """Grow trees, each on what those before it leave of the targets (squared error).

    With classes, each is grown on the gradients of the log loss, whose scores the trees before it
    have raised by Newton steps.

    A tree splits the leaf whose best split explains most. It sees a random share of the rows and,
    of many targets, a few random combinations, by which it splits.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Finite rows.
    targets : ndarray of shape (n_rows, n_targets)
        Targets, in units in which they count alike, or class codes.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, above 0.
    n_leaves : ndarray of shape (n_trees,) of int
        Most leaves of each tree.
    n_bins : int
        Most bins of a column.
    min_weight : float
        Weight of a leaf at least, if all weigh as many rows of one weight as would count for as
        much: (sum w)^2 / sum w^2.
    rate : float
        Part of what a tree explains that is taken off the targets.
    share : float
        Part of the rows that a tree sees.
    n_sketches : int
        Largest number of combinations of targets by which a tree splits, at most 3.
    seed : int
        Seed for rows and combinations.
    classes : bool, default=False
        Whether targets are class codes -1 and +1, one column for two classes.

    Returns
    -------
    forest : Forest
    gains : ndarray of shape (n_columns,)
        How much of the squared residuals the splits by each column explain.

    References
    ----------
    J. H. Friedman, Stochastic gradient boosting, Computational Statistics & Data Analysis 38,
    2002; L. Iosipoi, A. Vakhrushev, SketchBoost, NeurIPS 2022, for the combinations; J. Friedman,
    T. Hastie, R. Tibshirani, Additive logistic regression, Annals of Statistics 28, 2000, for
    classes.
    """
    codes, cuts = binned(X, min(n_bins, _MOST_BINS))
    varying = np.array([j for j, cut in enumerate(cuts) if cut.size], dtype=np.int64)
    ends = np.zeros((len(cuts), _MOST_BINS))  # all cuts, in one array
    for j, cut in enumerate(cuts):
        ends[j, : cut.size] = cut
    share_of = weights * (weights.sum() / (weights @ weights))
    own = np.ascontiguousarray((targets + 1.0) / 2.0 if classes else targets)
    mean = np.average(own, axis=0, weights=weights)
    residuals = own - mean
    scores = np.tile(scores_of(mean), (len(X) if classes else 0, 1))
    least = _LEAST_GAIN * float(share_of @ np.sum(residuals**2, axis=1))
    generator, n, n_targets = np.random.default_rng(seed), len(X), residuals.shape[1]
    n_trees = n_leaves.size
    seen = np.empty((n_trees, n), dtype=np.bool_)
    mixes = np.zeros((n_trees, n_targets, _LANES - 1))
    n_sketches = min(n_sketches, _LANES - 1)
    mixes[:, :n_sketches, :n_sketches] = np.eye(n_sketches)[:n_targets]
    for tree in range(n_trees):
        seen[tree] = generator.random(n) < share
        if n_targets > n_sketches:
            mixes[tree, :, :n_sketches] = generator.standard_normal((n_targets, n_sketches))
    gains = np.zeros(len(cuts))
    nodes = np.zeros((3, n_trees, 2 * int(n_leaves.max()) - 1), dtype=np.int64)
    sizes = _grow_trees(
        np.ascontiguousarray(codes.T),
        np.array([cut.size + 1 for cut in cuts], dtype=np.int64),
        share_of,
        seen,
        varying,
        mixes,
        n_leaves,
        float(min_weight),
        least,
        rate,
        own,
        scores,
        residuals,
        nodes,
        gains,
    )
    trees: list[Forest] = []
    n_nodes = n_found = 0
    for tree, size in enumerate(sizes):
        column, bin, child = nodes[:, tree, :size]
        is_leaf = column < 0
        cut = np.where(is_leaf, 0.0, ends[column, bin])
        shifted = child + np.where(is_leaf, n_found, n_nodes)
        trees.append(Forest(column, cut, shifted, np.array([n_nodes])))
        n_nodes += size
        n_found += int(is_leaf.sum())
    return Forest(*(np.concatenate(pieces) for pieces in zip(*trees, strict=True))), gains


@jit(nogil=True)
def _count(codes, columns, values, rows, lone, found):  # type: ignore[no-untyped-def]
    """Add up the values of some rows by column and bin; a ``lone`` target leaves two of them 0."""
    found[:] = 0.0
    for r in rows:
        own = values[r]
        if lone:
            for j in range(columns.size):
                sums = found[j, codes[r, columns[j]]]
                sums[0], sums[3] = sums[0] + own[0], sums[3] + own[3]
        else:
            for j in range(columns.size):
                sums = found[j, codes[r, columns[j]]]
                sums[0], sums[1] = sums[0] + own[0], sums[1] + own[1]
                sums[2], sums[3] = sums[2] + own[2], sums[3] + own[3]


@jit(nogil=True)
def _best_split(histogram, n_bins, least_weight):  # type: ignore[no-untyped-def]
    """Return the gain of the best split, the index of its column, and the last bin on the left."""
    A = B = C = W = 0.0
    for bin in range(n_bins[0]):
        own = histogram[0, bin]
        A, B, C, W = A + own[0], B + own[1], C + own[2], W + own[3]
    before = (A**2 + B**2 + C**2) / (W + 1.0)
    best, best_column, best_bin = 0.0, -1, -1
    for j in range(n_bins.size):
        a = b = c = w = 0.0
        for bin in range(n_bins[j] - 1):
            own = histogram[j, bin]
            if own[3] == 0.0:
                continue
            a, b, c, w = a + own[0], b + own[1], c + own[2], w + own[3]
            if W - w < least_weight:
                break
            if w < least_weight:
                continue
            rest = (A - a) ** 2 + (B - b) ** 2 + (C - c) ** 2
            gain = (a**2 + b**2 + c**2) / (w + 1.0) + rest / (W - w + 1.0) - before
            if gain > best:
                best, best_column, best_bin = gain, j, bin
    return best, best_column, best_bin


@jit(nogil=True)
def _grow_trees(  # type: ignore[no-untyped-def]
    codes, n_bins, weights, seen, columns, mixes, n_leaves, least_weight, least_gain, rate,
    targets, scores, residuals, nodes, gains,
):  # fmt: skip
    """Write columns, bins and children of the nodes of all trees; return how many nodes they have.

    Children of leaves are their numbers within the tree. Residuals are changed; with scores of
    classes, they are the indicators of the classes minus their probabilities. What splits explain
    is added to the gains of their columns.
    """
    asked, bins, children = nodes
    classes = scores.shape[0] > 0
    n_targets, n_columns = residuals.shape[1], columns.size
    n, most_leaves = residuals.shape[0], n_leaves.max()
    sizes = np.empty(seen.shape[0], dtype=np.int64)
    most = n_bins.max() if n_columns > 0 else 1
    histograms = np.empty((most_leaves, n_columns, most, _LANES))
    counted = np.empty((n_columns, most, _LANES))
    values = np.empty((n, _LANES))
    rows, right = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    node, start, stop, column, bin = np.empty((5, most_leaves), dtype=np.int64)
    gain, (sums, weight) = np.empty(most_leaves), np.empty((2, most_leaves, n_targets))
    n_own = n_bins[columns]
    for tree in range(seen.shape[0]):
        n_seen = 0
        for r in range(n):
            if seen[tree, r]:
                rows[n_seen] = r
                n_seen += 1
                for lane in range(_LANES - 1):
                    mixed = 0.0
                    for t in range(n_targets):
                        mixed += mixes[tree, t, lane] * residuals[r, t]
                    values[r, lane] = weights[r] * mixed
                values[r, _LANES - 1] = weights[r]
        mine = asked[tree]
        mine[:] = -1
        leaves, made = 1, 1
        node[0], start[0], stop[0], gain[0] = 0, 0, n_seen, 0.0
        if n_columns > 0:
            _count(codes, columns, values, rows[:n_seen], n_targets == 1, histograms[0])
            gain[0], column[0], bin[0] = _best_split(histograms[0], n_own, least_weight)
        while leaves < n_leaves[tree]:
            leaf = 0
            for other in range(1, leaves):
                leaf = other if gain[other] > gain[leaf] else leaf
            if gain[leaf] <= least_gain:
                break
            code, last = codes[:, columns[column[leaf]]], bin[leaf]
            middle, n_right = start[leaf], 0
            for place in range(start[leaf], stop[leaf]):
                r = rows[place]
                if code[r] <= last:
                    rows[middle] = r
                    middle += 1
                else:
                    right[n_right] = r
                    n_right += 1
            for place in range(n_right):
                rows[middle + place] = right[place]
            gains[columns[column[leaf]]] += gain[leaf]
            mine[node[leaf]], bins[tree, node[leaf]] = columns[column[leaf]], last
            children[tree, node[leaf]] = made
            node[leaf], node[leaves] = made, made + 1
            made += 2
            start[leaves], stop[leaves], stop[leaf] = middle, stop[leaf], middle
            # The smaller half is counted, the other is the rest.
            small, large = (leaf, leaves) if middle - start[leaf] < n_right else (leaves, leaf)
            some = rows[start[small] : stop[small]]
            _count(codes, columns, values, some, n_targets == 1, counted)
            for j in range(n_columns):
                for b in range(n_own[j]):
                    for lane in range(_LANES):
                        one = counted[j, b, lane]
                        other = histograms[leaf, j, b, lane] - one
                        histograms[small, j, b, lane] = one
                        histograms[large, j, b, lane] = other
            for child in (leaf, leaves):
                gain[child], column[child], bin[child] = _best_split(
                    histograms[child], n_own, least_weight
                )
            leaves += 1
        sizes[tree], number = made, 0
        for place in range(made):
            if mine[place] < 0:
                children[tree, place] = number
                number += 1
        # A share of each leaf's mean, from the rows that the tree saw, is taken off all rows.
        sums[:leaves], weight[:leaves] = 0.0, 1.0
        for r in range(n):
            place = 0
            while mine[place] >= 0:
                is_above = codes[r, mine[place]] > bins[tree, place]
                place = children[tree, place] + (1 if is_above else 0)
            leaf = right[r] = children[tree, place]
            if seen[tree, r]:
                for t in range(n_targets):
                    left = residuals[r, t]
                    # The slope of a probability p is p (1 - p), and p is |left| or 1 - |left|.
                    slope = abs(left) * (1.0 - abs(left)) if classes else 1.0
                    weight[leaf, t] += weights[r] * slope
                    sums[leaf, t] += weights[r] * left
        for leaf in range(leaves):
            for t in range(n_targets):
                sums[leaf, t] *= rate / weight[leaf, t]
                if classes:
                    sums[leaf, t] = min(max(sums[leaf, t], -_MOST * rate), _MOST * rate)
        for r in range(n):
            if classes:
                scores[r] += sums[right[r]]
                _leave(targets[r], scores[r], residuals[r])
            else:
                for t in range(n_targets):
                    residuals[r, t] -= sums[right[r], t]
    return sizes


@jit(nogil=True)
def _leave(own, scores, residuals):  # type: ignore[no-untyped-def]
    """Write the indicators of the classes of a row minus their probabilities."""
    highest = 0.0 if scores.size == 1 else scores[0]
    for t in range(scores.size):
        highest = max(highest, scores[t])
    # The first of two classes has the score 0.
    total = np.exp(-highest) if scores.size == 1 else 0.0
    for t in range(scores.size):
        total += np.exp(scores[t] - highest)
    for t in range(scores.size):
        residuals[t] = own[t] - np.exp(scores[t] - highest) / total


@jit(nogil=True)
def scores_of(shares: Array) -> Array:
    """Return scores of classes whose probabilities are shares; of the second if there is one.

    Examples
    --------
    >>> scores_of(np.array([0.5])).tolist(), scores_of(np.array([0.25, 0.75])).round(2).tolist()
    ([0.0], [-1.39, -0.29])
    """
    scores = np.log(np.maximum(shares, _LEAST_SHARE))
    if shares.size == 1:
        scores -= np.log(np.maximum(1.0 - shares, _LEAST_SHARE))
    return scores


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
    """Return the masks of a forest; None if a tree has more than 16 leaves.

    Also None if the nodes of a tree do not follow each other, or if trees share nodes.
    """
    columns, cuts, children, roots = forest
    n_nodes, n_trees, most = columns.size, roots.size, 2 * _MASKED - 1
    inner = np.flatnonzero(columns >= 0)
    below = np.concatenate([roots, children[inner], children[inner] + 1])
    sizes = np.diff(roots, append=n_nodes)
    owner = np.searchsorted(roots, np.arange(n_nodes), side="right")
    fits = np.array_equal(np.sort(below), np.arange(n_nodes)) and sizes.min() > 0
    fits = fits and sizes.max() <= most and (owner[children[inner] + 1] == owner[inner]).all()
    if not fits:
        return None
    # Nodes of each tree in a row of a table, which ends with leaves that no node leads to.
    places = roots[:, np.newaxis] + np.arange(most)
    theirs = np.arange(most) < sizes[:, np.newaxis]
    nodes = np.where(theirs, places, 0)
    is_leaf = theirs & (columns[nodes] < 0)
    asks, trees = theirs & ~is_leaf, np.arange(n_trees)
    bits = np.where(is_leaf, 1 << (np.cumsum(is_leaf, axis=1) - 1), 0)
    child = np.where(asks, children[nodes] - roots[:, np.newaxis], 0)
    for place in range(most - 1, -1, -1):  # children come after their parents
        both = bits[trees, child[:, place]] | bits[trees, child[:, place] + 1]
        bits[:, place] = np.where(asks[:, place], both, bits[:, place])
    shape, everything = (n_trees, _MASKED - 1), bits[:, :1]
    found = Masks(
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape),
        np.repeat(everything, _MASKED - 1, axis=1).astype(np.uint16),
        np.repeat(everything, _MASKED - 1, axis=1).astype(np.uint16),
        np.zeros((n_trees, _MASKED), dtype=np.int32),
    )
    tree = np.nonzero(asks)[0]
    question = (np.cumsum(asks, axis=1) - 1)[asks]
    own, left = nodes[asks], child[asks]
    found.columns[tree, question], found.cuts[tree, question] = columns[own], cuts[own]
    found.lefts[tree, question] = everything[tree, 0] & ~bits[tree, left + 1]
    found.rights[tree, question] = everything[tree, 0] & ~bits[tree, left]
    found.leaves[np.nonzero(is_leaf)[0], (np.cumsum(is_leaf, axis=1) - 1)[is_leaf]] = children[
        nodes[is_leaf]
    ]
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


@jit(nogil=True)
def sweep_classes(
    leaves: Codes,
    starts: Integers,
    values: Array,
    odds: Array,
    own: Array,
    weights: Array,
    strength: float,
    n_sweeps: int,
) -> None:
    """Raise the scores of classes by Newton steps on the log loss, one tree after another.

    As :func:`sweep_trees`, with a step for each leaf and class by the diagonal of the curvature.

    Parameters
    ----------
    leaves, starts
        See :func:`sweep_trees`.
    values : ndarray of shape (n_scores, n_leaves)
        Values of the leaves, changed in place: scores of all classes, or of the second of two.
    odds : ndarray of shape (n_rows, n_scores)
        Exponentials of the scores of the rows, up to a factor for each row if there are several;
        changed in place.
    own : ndarray of shape (n_rows, n_scores)
        1 for the class of the row, 0 for others.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    strength : float
        Factor of half of the squared values of leaves, which are added to the losses.
    n_sweeps : int
        How often all trees are visited.
    """
    n_trees, n = leaves.shape
    n_scores = odds.shape[1]
    rest = 1.0 if n_scores == 1 else 0.0  # odds of the first of two classes
    size = 0
    for tree in range(n_trees):
        size = max(size, starts[tree + 1] - starts[tree])
    factors, slopes, curvatures = np.ones((3, size, n_scores))
    before = leaves[n_trees - 1]
    for _ in range(n_sweeps):
        for r in range(n):
            if n_scores > 1:
                highest = odds[r].max()
                for c in range(n_scores):
                    odds[r, c] = max(odds[r, c] / highest, _LEAST_ODDS)
            else:
                odds[r, 0] = min(max(odds[r, 0], _LEAST_ODDS), 1.0 / _LEAST_ODDS)
        for tree in range(n_trees):
            here, first = leaves[tree], starts[tree]
            slopes[:] = 0.0
            curvatures[:] = 0.0
            for r in range(n):
                leaf, last, total = here[r], before[r], rest
                for c in range(n_scores):
                    odds[r, c] *= factors[last, c]
                    total += odds[r, c]
                scale = 1.0 / total
                for c in range(n_scores):
                    p = odds[r, c] * scale
                    slopes[leaf, c] += weights[r] * (own[r, c] - p)
                    curvatures[leaf, c] += weights[r] * p * (1.0 - p)
            for leaf in range(starts[tree + 1] - first):
                for c in range(n_scores):
                    slope = slopes[leaf, c] - strength * values[c, first + leaf]
                    whole = curvatures[leaf, c] + strength
                    step = min(max(slope / whole, -1.0), 1.0) if whole > 0.0 else 0.0
                    values[c, first + leaf] += step
                    factors[leaf, c] = np.exp(step)
            before = here
    for r in range(n):
        for c in range(n_scores):
            odds[r, c] *= factors[before[r], c]
