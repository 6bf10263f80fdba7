"""Leaves of regression trees: rows as indicators of the leaves that they fall into."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.component import Component
from mercer.maps.affine import check_rows
from mercer.numerics.trees import Forest, Masks, grow, leaf_numbers, masks_of
from mercer.threads import own_property
from mercer.validation import integer, parameters

Array = NDArray[np.float64]

# Settings of the trees: with few rows, leaves are so small that at least so many fit. Each tree
# sees half of the rows, and some of the combinations of targets.
_LEAVES_AT_LEAST = 32
_RATE, _SHARE, _SKETCHES = 0.1, 0.5, 3
# Leaves of a small tree, columns at which all trees would be small, and the largest share of them.
# These come first: what single columns say is learned before combinations, for in many columns
# noise soon looks like a rule.
_SMALL, _ALL_SMALL, _MOST_SMALL = 4, 200, 0.75
# Fewest and most bins of a column, and rows of a bin in between: more bins find where a threshold
# is, and cost time. So many columns have fewer bins, of about so many together.
_FEWEST_BINS, _MOST_BINS, _ROWS_OF_BIN, _ALL_BINS = 64, 255, 10, 16_384


class Leaves(Component):
    r"""Map of a row to indicators of its leaves, each :math:`1/\sqrt{T}` for T trees.

    Their inner product is a kernel: the share of trees in which two rows fall into the same leaf. A
    function of this kernel is constant between thresholds, and depends on the columns that the
    trees split on.
    The default learner grows such trees (`parts_`).

    Parameters
    ----------
    n_inputs : int
        Number of columns of the rows it takes.
    columns : array-like of shape (n_nodes,) of int
        Column that each node asks for; -1 for leaves.
    cuts : array-like of shape (n_nodes,)
        Rows with at most this value go to the left child.
    children : array-like of shape (n_nodes,) of int
        Index of the left child, which the right child follows; for a leaf, its own index.
    roots : array-like of shape (n_trees,) of int
        First node of each tree.

    Attributes
    ----------
    n_outputs : int
        Number of leaves.
    n_trees : int
        Number of trees.

    Raises
    ------
    ValueError
        If the nodes do not form trees.

    Examples
    --------
    >>> from mercer.maps import Leaves
    >>> stump = Leaves(1, columns=[0, -1, -1], cuts=[0.5, 0, 0], children=[1, 0, 1], roots=[0])
    >>> stump([[0.0], [1.0]])
    array([[1., 0.],
           [0., 1.]])
    """

    #: How much of the targets the splits by each column explained when the trees were grown, shape
    #: (n_inputs,); None if they were not grown here.
    gains: Array | None = None

    _parameters = parameters(n_inputs=integer(low=1))

    def __init__(
        self,
        n_inputs: int,
        columns: ArrayLike,
        cuts: ArrayLike,
        children: ArrayLike,
        roots: ArrayLike,
    ) -> None:
        self.n_inputs = n_inputs
        self.columns = columns
        self.cuts = cuts
        self.children = children
        self.roots = roots
        self._check()

    def _check_nodes(self) -> None:
        columns, children, roots = (
            np.asarray(each, dtype=np.int64) for each in (self.columns, self.children, self.roots)
        )
        forest = Forest(columns, np.asarray(self.cuts, dtype=np.float64), children, roots)
        n, is_leaf = columns.size, columns < 0
        numbers = np.arange(n)[~is_leaf]
        fits = columns.shape == forest.cuts.shape == children.shape == (n,)
        fits = fits and roots.ndim == 1 and roots.size > 0
        fits = fits and bool(np.isfinite(forest.cuts).all() and (columns < self.n_inputs).all())
        # A child comes after its parent, so that every way ends.
        fits = fits and bool((children[~is_leaf] > numbers).all())
        fits = fits and bool((children[~is_leaf] < n - 1).all())
        fits = fits and bool(((roots >= 0) & (roots < n)).all())
        if not (fits and np.array_equal(children[is_leaf], np.arange(is_leaf.sum()))):
            raise ValueError(
                "`columns`, `cuts`, `children` and `roots` must be nodes of trees: children behind "
                "their parents, leaves numbered in their order."
            )
        self._forest, self.n_outputs, self.n_trees = forest, int(is_leaf.sum()), roots.size
        #: Number of the first leaf of each tree, and of all leaves, shape (n_trees + 1,).
        self.starts = np.append(np.cumsum(is_leaf)[roots] - is_leaf[roots], self.n_outputs)

    _relations = (_check_nodes,)

    @own_property
    def _masks(self) -> Masks | None:
        return masks_of(self._forest)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what is found anew for predictions, or only told when grown."""
        left_out = ("_masks", "gains")
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def numbers(self, X: ArrayLike) -> NDArray[np.int32]:
        """Numbers of the leaves of rows, shape (n_trees, n_rows)."""
        return leaf_numbers(check_rows(X, self.n_inputs), self._forest, self._masks)

    def __call__(self, X: ArrayLike) -> Array:
        """Map rows, (n_rows, n_inputs) to (n_rows, n_outputs)."""
        numbers = self.numbers(X)
        images = np.zeros((numbers.shape[1], self.n_outputs))
        images[np.arange(len(images)), numbers] = self.n_trees**-0.5
        return images


def grow_leaves(
    X: NDArray[Any],
    targets: Array,
    weights: Array,
    *,
    n_trees: int,
    n_leaves: int,
    rows_of_leaf: int = 20,
    seed: int = 0,
    classes: bool = False,
) -> Leaves:
    """Leaves of boosted regression trees: each tree is grown on what those before it leave.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Finite rows.
    targets : ndarray of shape (n_rows, n_targets)
        Numbers in units in which they count alike, or class codes.
    weights : ndarray of shape (n_rows,)
        Weights of the rows, above 0.
    n_trees, n_leaves : int
        Number of trees, and largest number of leaves per tree. The first ones have four at most:
        of 100 trees one for two columns, and no more than 75.
    rows_of_leaf : int, default=20
        Fewest rows of a leaf, among those that the tree sees; fewer where a leaf of so many rows
        would hold more than a 32nd of them.
    seed : int, default=0
        Seed for the half of the rows that each tree sees.
    classes : bool, default=False
        Whether targets are class codes, whose log loss trees lower.

    Returns
    -------
    leaves : Leaves

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps.leaves import grow_leaves
    >>> X = np.arange(100.0)[:, np.newaxis]
    >>> leaves = grow_leaves(X, np.where(X < 50.0, -1.0, 1.0), np.ones(100), n_trees=1, n_leaves=2)
    >>> leaves([[10.0], [90.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    counting = float(weights.sum() ** 2 / (weights @ weights))
    sizes = np.full(n_trees, n_leaves)
    n_small = min(n_trees * X.shape[1] // _ALL_SMALL, int(n_trees * _MOST_SMALL))
    sizes[:n_small] = min(_SMALL, n_leaves)
    most_bins = min(len(X) // _ROWS_OF_BIN, _MOST_BINS, _ALL_BINS // X.shape[1])
    forest, gains = grow(
        X,
        targets,
        weights,
        n_leaves=sizes,
        n_bins=max(_FEWEST_BINS, most_bins),
        min_weight=min(rows_of_leaf, counting * _SHARE / _LEAVES_AT_LEAST),
        rate=_RATE,
        share=_SHARE,
        n_sketches=_SKETCHES,
        seed=seed,
        classes=classes,
    )
    leaves = Leaves(X.shape[1], *forest)
    leaves.gains = gains
    return leaves
