"""Sums over rows that determine ridge regression and posteriors, and the solution from them.

There are no kernels here: a row is a vector of features z with targets y.
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

from mercer.numerics.dense import (
    LEAST_JITTER,
    RidgeFactor,
    add_products,
    factor_ridge,
    pack,
    unpack,
)
from mercer.numerics.trees import indicator_products, indicator_values
from mercer.records import Numbers, Part, Record, Recorded, Triangle
from mercer.validation import integer, positive, real

Array = NDArray[np.float64]

# First jitter to try for sums of products in float32, with so many features; ten times as many
# features need ten times as much.
_SINGLE_JITTER, _SINGLE_FEATURES = 1e-8, 40
# Most rows whose products are summed in float32, and most features before LAPACK's integers
# overflow.
_SINGLE_ROWS = 4096
_MOST_FEATURES = 46_340
_LARGEST_SINGLE = 1e17  # sums of so many products of such numbers are finite in float32
_LONG = 200  # most characters of values that a message shows


class LeafFeatures:
    """Sparse features of rows: indicators of one leaf per tree, all of the same height.

    Parameters
    ----------
    leaves : ndarray of shape (n_trees, n_rows)
        Numbers of the features that are not 0, in increasing order.
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
        """Return the values of linear functions, (n_rows, n_outputs)."""
        columns = np.ascontiguousarray(coefficients)
        return np.asarray(self.height * indicator_values(self.leaves, columns))

    def gram(self, weights: Array) -> Array:
        """Return Z'WZ, (size, size), lower triangle in Fortran order."""
        sums = np.zeros((self.size, self.size))
        # The transpose of the upper triangle, so that additions are to adjacent numbers.
        indicator_products(self.leaves, self.height**2 * weights, sums.T)
        return sums.T

    def __rmatmul__(self, columns: Array) -> Array:
        """Return columns @ Z, from (n_columns, n_rows) to (n_columns, size)."""
        n_trees, n = self.leaves.shape
        places = np.arange(0, n_trees * n + 1, n_trees)
        ones = np.ones(n_trees * n)
        Z = sparse.csr_array((ones, self.leaves.T.ravel(), places), (n, self.size))
        return np.asarray(self.height * (Z.T @ columns.T).T)


class Statistics(Recorded):
    """Sums over rows that determine ridge regression; their size does not grow with the rows.

    Parameters
    ----------
    n_features : int
        Number of features M.
    n_targets : int
        Number of targets.

    Attributes
    ----------
    packed : ndarray of shape (n_features * (n_features + 1) // 2,)
        Lower triangle of Z'WZ, in the rectangular full packed format of LAPACK: half the memory of
        the matrix at the same speed.
    products : ndarray of shape (n_features, n_targets)
        Z'W(Y - origin).
    feature_sums : ndarray of shape (n_features,)
        Z'W1.
    target_sums, target_squares : ndarray of shape (n_targets,)
        Sums of w (y - origin) and of w (y - origin)².
    origin : ndarray of shape (n_targets,)
        Constant subtracted from the targets first; if it is near their mean, the variance is not a
        difference of large numbers.
    weight, log_weight : float
        Sums of the weights and of their logarithms.
    n_rows : int
        Number of rows of positive weight.
    jitter : float
        Jitter that :meth:`factor` tries first: larger if products were computed in float32.

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
        """Z'WZ as a new array, (n_features, n_features): lower triangle, Fortran order."""
        return unpack(self.packed, self.n_features)

    @gram.setter
    def gram(self, matrix: Array) -> None:
        self.packed = pack(matrix)

    def moments(self) -> Array:
        """Return Z'WZ divided by the total weight, in the form of :attr:`gram`."""
        matrix = self.gram
        matrix /= self.weight
        return matrix

    def add(self, Z: Any, targets: Array, weights: Array) -> None:
        """Add rows.

        Parameters
        ----------
        Z : ndarray of shape (n, n_features) or LeafFeatures
            Features, C-ordered; overwritten. Products of float32 features are computed in float32,
            twice as fast, and added to float64 sums every 4,096 rows.
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
        """Add the products of features with features and with Y, the targets times ``root``."""
        if Z.dtype == np.float32:
            largest = max(root.max(initial=0.0), np.abs(Y).max(initial=0.0))
            Z = Z if largest <= _LARGEST_SINGLE else Z.astype(np.float64)
        if (root != 1.0).any():
            Z *= root[:, np.newaxis].astype(Z.dtype)
        # Only one triangle: half the work of Z.T @ Z.
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
        # Arrays mapped from a file are read-only, which LAPACK does not check, so copy them.
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and not value.flags.writeable:
                setattr(self, name, value.copy())

    def forget(self, factor: float) -> None:
        """Multiply all sums by a factor, so that old rows of a drifting stream count less.

        Parameters
        ----------
        factor : float
            Factor in (0, 1].
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
        """Replace the targets y by y @ matrix + offset, which must be class codes -1 and +1.

        Parameters
        ----------
        matrix : ndarray of shape (n_targets, n_targets_new)
            Column j holds the coefficients of the new code j in the old codes.
        offset : ndarray of shape (n_targets_new,)
            Constant to add, such as -1 for new classes.
        """
        self.products = self.products @ matrix + np.outer(self.feature_sums, offset)
        self.target_sums = self.target_sums @ matrix + self.weight * offset
        self.target_squares = np.full(offset.size, self.weight)
        self.origin = np.zeros(offset.size)

    def merge(self, other: Statistics) -> None:
        """Add other sums, over other rows; the other sums stay unchanged.

        The result is the same as if one object had learned all rows, except for the rounding of
        additions in another order. Origins of targets may differ; the origin of this object stays,
        unless it has no rows.

        Parameters
        ----------
        other : Statistics
            Sums over other rows.

        Raises
        ------
        ValueError
            If the numbers of features or targets differ.
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
        # Convert the other sums to the origin of this object.
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
        """Factor gram / weight + ridge * penalty, with only as much jitter as rounding needs.

        Parameters
        ----------
        ridge : float
            Ridge parameter, at least 0.
        penalty : ndarray of shape (n_features, n_features), default=None
            Matrix of the penalty, lower triangle: the Gram matrix of the dictionary for the RKHS
            norm. None for the identity.

        Raises
        ------
        ValueError
            If the sums are not finite.
        """
        made = factor_ridge(self.moments(), ridge, penalty, self.jitter)
        # Rounding errors of the sums need this jitter with any ridge: keep it for the next call.
        self.jitter = max(self.jitter, made.least_jitter)
        return made

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Restore the jitter at the end, so that later results do not depend on these trials."""
        jitter = self.jitter
        try:
            yield
        finally:
            self.jitter = jitter

    def solve(self, ridge: float, penalty: Array | None = None) -> Array:
        r"""Return the coefficients of the weighted ridge regression on all rows added.

        They minimise :math:`\frac{1}{W} \sum_i w_i |z_i^T c - y_i|^2 + \lambda\, c^T P c` with W
        the sum of the weights; the origin is subtracted from the targets y.

        Parameters
        ----------
        ridge, penalty
            See :meth:`factor`.

        Returns
        -------
        coefficients : ndarray of shape (n_features, n_targets)
        """
        return self.factor(ridge, penalty).solve(self.products / self.weight)

    def normalization(self) -> tuple[Array, Array]:
        """Return the weighted mean and standard deviation (1 if constant) of each target."""
        shift = self.target_sums / self.weight
        mean = self.origin + shift
        return mean, target_scale(self.target_squares / self.weight - shift**2, mean)

    def centred(self, mean: Array, scale: Array) -> tuple[Array, Array]:
        """Return Z'WY and the diagonal of Y'WY for the targets (y - mean) / scale."""
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
        """Return the sums of features with one target 0; arrays are shared, so add to a copy."""
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
    """Return the first jitter to try for sums of products in float32."""
    orders = int(math.log10(max(n_features / _SINGLE_FEATURES, 1.0)))
    return float(10.0 ** (round(math.log10(_SINGLE_JITTER)) + orders))


def target_scale(variance: Array, mean: Array) -> Array:
    """Return the scale of each target: its standard deviation, or 1 if it is constant."""
    # Rounding gives a constant target a relative deviation of at most 1e-16.
    return np.sqrt(np.where(variance <= 1e-28 * mean**2, 1.0, variance))


def check_alike(what: str, mine: Any, theirs: Any, mend: str) -> None:
    """Raise ValueError if a setting differs between two objects whose sums are to be merged.

    Parameters
    ----------
    what : str
        Name of the setting.
    mine, theirs : object
        The two values.
    mend : str
        A sentence that says what to do about a difference.

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
