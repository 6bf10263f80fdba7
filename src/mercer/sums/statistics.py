"""Second-order learning in bounded memory: sums over the rows, and what is solved with them.

Free of kernels: a row is a vector of features z and its targets y.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.numerics.factor import LEAST_JITTER, RidgeFactor, factor_ridge
from mercer.numerics.lapack import add_products, pack, unpack
from mercer.numerics.trees import equal_leaves, indicator_products, indicator_values
from mercer.records import Numbers, Part, Record, Recorded, Triangle
from mercer.validation import integer, positive, real

Array = NDArray[np.float64]

# Jitter with which attempts begin for sums of products in float32 of so many features; of ten times
# as many ten times as much.
_SINGLE_JITTER, _SINGLE_FEATURES = 1e-8, 40
# Rows whose products are added up in float32, and features beyond which LAPACK's counts overflow.
_SINGLE_ROWS = 4096
_MOST_FEATURES = 46_340
_LONG = 200  # characters that are too many for a message


class LeafFeatures:
    """Features of rows of which there is one for each tree, all of the same height.

    Parameters
    ----------
    leaves : ndarray of shape (n_trees, n_rows)
        Numbers of those that are not 0, in rising order.
    size : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> Z = LeafFeatures(np.array([[0, 1]], dtype=np.int32), 2)
    >>> Z @ np.array([[3.0], [5.0]])
    array([[3.],
           [5.]])
    """

    dtype = np.dtype(np.float64)
    __array_ufunc__ = None  # so that arrays leave products to this class

    def __init__(self, leaves: NDArray[np.int32], size: int) -> None:
        self.leaves = leaves
        self.size = size
        self.height = float(len(leaves)) ** -0.5

    def __matmul__(self, coefficients: Array) -> Array:
        """Values of linear functions, (n_rows, n_outputs)."""
        columns = np.ascontiguousarray(coefficients)
        return np.asarray(self.height * indicator_values(self.leaves, columns))

    def kernel(self) -> Array:
        """Products of the features of all pairs of rows, (n_rows, n_rows)."""
        by_row = np.ascontiguousarray(self.leaves.T)
        return np.asarray(self.height**2 * equal_leaves(by_row))

    def gram(self, weights: Array) -> Array:
        """Weighted sum of their products, (size, size), lower triangle in Fortran order."""
        sums = np.zeros((self.size, self.size))
        # The transpose of the upper triangle: what is next to each other is added to together.
        indicator_products(self.leaves, self.height**2 * weights, sums.T)
        return sums.T

    def __rmatmul__(self, columns: Array) -> Array:
        """Add up products with columns, (n_columns, n_rows) to (n_columns, size)."""
        n_trees, n = self.leaves.shape
        places = np.arange(0, n_trees * n + 1, n_trees)
        ones = np.ones(n_trees * n)
        Z = sparse.csr_array((ones, self.leaves.T.ravel(), places), (n, self.size))
        return np.asarray(self.height * (Z.T @ columns.T).T)


class Statistics(Recorded):
    """Sums over the rows that the posterior depends on; their size does not grow with the rows.

    Parameters
    ----------
    n_features : int
        Number of features M.
    n_targets : int
        Number of targets.

    Attributes
    ----------
    packed : ndarray of shape (n_features * (n_features + 1) // 2,)
        Z'WZ, lower triangle, in the rectangular full packed format of LAPACK: half the memory of
        the matrix at its speed.
    products : ndarray of shape (n_features, n_targets)
        Z'W(Y - origin).
    feature_sums : ndarray of shape (n_features,)
        Z'W1.
    target_sums, target_squares : ndarray of shape (n_targets,)
        Sums of w (y - origin) and of w (y - origin)².
    origin : ndarray of shape (n_targets,)
        Constant that is subtracted of the targets first: near their mean, so that the variance is
        no difference of large numbers.
    weight, log_weight : float
        Sums of the weights and of their logarithms.
    n_rows : int
        Rows of positive weight.
    jitter : float
        Where :meth:`factor` begins: more if products were made in float32.

    Raises
    ------
    ValueError
        If there are more than 46,340 features.
    """

    _record = Record(
        feature_sums=Numbers("n_features"),
        triangle=Triangle("n_features"),
        products=Numbers("n_features", "n_targets"),
        target_sums=Numbers("n_targets"),
        target_squares=Numbers("n_targets"),
        origin=Numbers("n_targets"),
        weight=positive(),
        log_weight=real(),
        n_rows=integer(low=1),
        jitter=positive(),
    )

    def __init__(self, n_features: int, n_targets: int) -> None:
        if n_features > _MOST_FEATURES:
            raise ValueError(
                f"Sums of products are for at most {_MOST_FEATURES:,} features, got "
                f"{n_features:,}, whose sums would take {4e-9 * n_features**2:.0f} GB. Use fewer "
                "points or features."
            )
        self.packed = np.zeros(n_features * (n_features + 1) // 2)
        self.products = np.zeros((n_features, n_targets))
        self.feature_sums = np.zeros(n_features)
        self.target_sums = np.zeros(n_targets)
        self.target_squares = np.zeros(n_targets)
        self.origin = np.zeros(n_targets)
        self.weight = 0.0
        self.log_weight = 0.0
        self.n_rows = 0
        self.jitter = LEAST_JITTER

    @property
    def n_features(self) -> int:
        """Number of features M."""
        return self.feature_sums.size

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.target_sums.size

    @property
    def gram(self) -> Array:
        """Z'WZ, (n_features, n_features), lower triangle with zeros above, Fortran order; anew."""
        return unpack(self.packed, self.n_features)

    @gram.setter
    def gram(self, matrix: Array) -> None:
        self.packed = pack(matrix)

    def moments(self) -> Array:
        """Z'WZ per unit of weight, as :attr:`gram`."""
        matrix = self.gram
        matrix /= self.weight
        return matrix

    def add(self, Z: Any, targets: Array, weights: Array) -> None:
        """Add rows.

        Parameters
        ----------
        Z : ndarray of shape (n, n_features) or LeafFeatures
            Features, C-ordered; overwritten. Products of float32 are made in float32, twice as
            fast, and added up in float64 every 4,096 rows.
        targets : ndarray of shape (n, n_targets)
            Targets.
        weights : ndarray of shape (n,)
            Weights, above 0.
        """
        if Z.dtype == np.float32 and len(Z) > _SINGLE_ROWS:
            for start in range(0, len(Z), _SINGLE_ROWS):
                some = slice(start, start + _SINGLE_ROWS)
                self.add(Z[some], targets[some], weights[some])
            return
        self._make_own()
        root = np.sqrt(weights)
        Y = (targets - self.origin) * root[:, np.newaxis]
        if isinstance(Z, LeafFeatures):
            self.packed += pack(Z.gram(weights))
            sums = (root * np.column_stack([Y, root]).T) @ Z
            self.products += sums[:-1].T
            self.feature_sums += sums[-1]
        else:
            self._add_products(Z, Y, root)
        self.target_sums += root @ Y
        self.target_squares += np.sum(Y**2, axis=0)
        self.weight += float(weights.sum())
        self.log_weight += float(np.log(weights).sum())
        self.n_rows += weights.size

    def _add_products(self, Z: Any, Y: Array, root: Array) -> None:
        """Add products of rows with each other and with targets times the roots of the weights."""
        if (root != 1.0).any():
            Z *= root[:, np.newaxis].astype(Z.dtype)
        # Only a triangle: half the work of Z.T @ Z.
        if Z.dtype == np.float32:
            products = np.empty(self.packed.size, dtype=np.float32)
            add_products(Z, products, keep=False)
            self.packed += products
            self.jitter = _single_jitter(Z.shape[1])
        else:
            add_products(Z, self.packed)
        self.products += Z.T @ Y.astype(Z.dtype)
        self.feature_sums += Z.T @ root.astype(Z.dtype)

    def _make_own(self) -> None:
        # Mapped from a file for reading; LAPACK does not look, and a question may add rows.
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and not value.flags.writeable:
                setattr(self, name, value.copy())

    def forget(self, factor: float) -> None:
        """Multiply all sums by a factor: rows of long ago count less, on streams that drift.

        Parameters
        ----------
        factor : float
            Above 0, at most 1.
        """
        self._make_own()
        self.packed *= factor
        self.products *= factor
        self.feature_sums *= factor
        self.target_sums *= factor
        self.target_squares *= factor
        self.weight *= factor
        self.log_weight *= factor

    def map_targets(self, matrix: Array, offset: Array) -> None:
        """Go on with the targets y @ matrix + offset, where those are class codes -1 and +1.

        Parameters
        ----------
        matrix : ndarray of shape (n_targets, n_targets_new)
            What becomes of the codes.
        offset : ndarray of shape (n_targets_new,)
            Codes of new classes: -1.
        """
        self.products = self.products @ matrix + np.outer(self.feature_sums, offset)
        self.target_sums = self.target_sums @ matrix + self.weight * offset
        self.target_squares = np.full(offset.size, self.weight)
        self.origin = np.zeros(offset.size)

    def merge(self, other: Statistics) -> None:
        """Add the rows that other sums are of, which stay as they are.

        The sums are then those over the rows of both: the same as if one object had learned them,
        but for the order of additions, and to the last bit where no addition is rounded. Origins
        of targets may differ; that of the first rows stays.

        Parameters
        ----------
        other : Statistics
            Sums over other rows.

        Raises
        ------
        ValueError
            For other numbers of features or targets.
        """
        check_alike(
            "numbers of features and targets",
            self.products.shape,
            other.products.shape,
            "Merge sums on the same features, whose targets have the same columns.",
        )
        if self.n_rows == 0:
            self.origin = other.origin.copy()
        self._make_own()
        # Of the targets y - origin: theirs are to be less this one's.
        shift = other.origin - self.origin
        squares = 2.0 * shift * other.target_sums + other.weight * shift**2
        self.packed += other.packed
        self.products += other.products + np.outer(other.feature_sums, shift)
        self.feature_sums += other.feature_sums
        self.target_sums += other.target_sums + other.weight * shift
        self.target_squares += other.target_squares + squares
        self.weight += other.weight
        self.log_weight += other.log_weight
        self.n_rows += other.n_rows
        self.jitter = max(self.jitter, other.jitter)

    def factor(self, ridge: float, penalty: Array | None = None) -> RidgeFactor:
        """Factor of gram / weight + ridge * penalty, with jitter only as rounding needs it.

        Parameters
        ----------
        ridge : float
            Ridge parameter, at least 0.
        penalty : ndarray of shape (n_features, n_features), default=None
            Matrix of the penalty, lower triangle: the kernel matrix of the dictionary, for the
            norm of the RKHS. None for the identity.

        Raises
        ------
        ValueError
            If the sums are not finite.
        """
        made = factor_ridge(self.moments(), ridge, penalty, self.jitter)
        # The sums' rounding errors ask for it, whatever the ridge: do not find that out again.
        self.jitter = max(self.jitter, made.least_jitter)
        return made

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Forget at the end how much jitter was needed: later results must not depend on it."""
        jitter = self.jitter
        try:
            yield
        finally:
            self.jitter = jitter

    def solve(self, ridge: float, penalty: Array | None = None) -> Array:
        r"""Coefficients of the weighted ridge regression on all rows added.

        They minimise :math:`\frac{1}{W} \sum_i w_i |z_i^T c - y_i|^2 + \lambda\, c^T P c` with W
        the sum of the weights; a row's origin is not part of its target.

        Parameters
        ----------
        ridge, penalty
            As in :meth:`factor`.

        Returns
        -------
        coefficients : ndarray of shape (n_features, n_targets)
        """
        return self.factor(ridge, penalty).solve(self.products / self.weight)

    def normalization(self) -> tuple[Array, Array]:
        """Weighted mean and standard deviation of the targets (1 for constant ones)."""
        shift = self.target_sums / self.weight
        mean = self.origin + shift
        return mean, target_scale(self.target_squares / self.weight - shift**2, mean)

    def centred(self, mean: Array, scale: Array) -> tuple[Array, Array]:
        """Z'WY and the diagonal of Y'WY for the targets (y - mean) / scale."""
        shift = mean - self.origin
        products = (self.products - np.outer(self.feature_sums, shift)) / scale
        squares = self.target_squares - 2.0 * shift * self.target_sums + self.weight * shift**2
        return products, squares / scale**2

    def copy(self) -> Self:
        """Copy that shares nothing."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy())
        return other

    def without_targets(self) -> Self:
        """Return the sums of the features, beside 0 for one target; shared: add to a copy."""
        alone = copy.copy(self)
        alone.products = np.zeros((self.n_features, 1))
        alone.target_sums, alone.target_squares, alone.origin = np.zeros((3, 1))
        return alone

    @property
    def triangle(self) -> Array:
        """:attr:`gram`, by the name that files have."""
        return self.gram

    @triangle.setter
    def triangle(self, matrix: Array) -> None:
        self.gram = matrix

    def _adopt(self, values: dict[str, Any]) -> None:
        if (np.diag(values["triangle"]) < 0.0).any():
            raise ValueError("squares of features sum to less than 0")
        super()._adopt(values)


class Sums(Part):
    """Sums over rows, which are stored as None while they are of none.

    Parameters
    ----------
    n_targets : int or str
        Number of targets, or its dimension; that of the features is "n_features".
    """

    def __init__(self, n_targets: int | str = "n_targets") -> None:
        super().__init__(Statistics, "n_features", "n_targets")
        self.n_targets = n_targets

    def written(self, value: Any) -> Any:
        return value.to_state() if value.n_rows else None

    def read(self, name: str, value: Any, sizes: dict[str, int]) -> Statistics:
        n = self.n_targets if isinstance(self.n_targets, int) else sizes[self.n_targets]
        mine = {"n_features": sizes["n_features"], "n_targets": n}
        return Statistics(**mine) if value is None else super().read(name, value, mine)


def _single_jitter(n_features: int) -> float:
    """Jitter with which attempts begin for sums of products in float32."""
    orders = int(math.log10(max(n_features / _SINGLE_FEATURES, 1.0)))
    return float(10.0 ** (round(math.log10(_SINGLE_JITTER)) + orders))


def target_scale(variance: Array, mean: Array) -> Array:
    """Scale of targets: their standard deviation, 1 for those that are constant."""
    # Rounding leaves a constant target a relative deviation of 1e-16, not more.
    return np.sqrt(np.where(variance <= 1e-28 * mean**2, 1.0, variance))


def check_alike(what: str, mine: Any, theirs: Any, mend: str) -> None:
    """Raise ValueError if two objects whose sums are to be merged differ in something.

    Parameters
    ----------
    what : str
        What they are to have in common.
    mine, theirs : object
        Their values of it.
    mend : str
        What to do about it: a sentence.

    Examples
    --------
    >>> check_alike("`forgetting`", 0.9, 0.9, "Use one factor for all rows.")
    """
    if np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs:
        return
    values = f"got {mine!r} and {theirs!r}"
    if len(values) > _LONG:
        values = "and these differ"
    raise ValueError(f"Sums can be merged only if they have the same {what}, {values}. {mend}")
