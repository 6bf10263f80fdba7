"""Ridge regression from sums over rows: its basis, its fit, the choice of the ridge, its posterior.

Features of a fixed basis, often of kernels at points chosen from the rows (:class:`Basis`), are
added up to a Gram matrix. With a point at every row the Gram matrix itself takes the place of the
sums (:class:`ExactRidge`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer.kernels import Kernel, Mapped
from mercer.kernels.partitioned import Cells, k_means
from mercer.maps import Affine, FixedMap, PrincipalComponents
from mercer.numerics.dense import (
    RidgeFactor,
    cholesky,
    factor_noise,
    factor_ridge,
    invert,
    solve,
    solve_triangle,
)
from mercer.numerics.expansions import Expansion
from mercer.records import Passing, Record, Recorded, Several
from mercer.sums.rows import Blocks, Rows, distinct_rows
from mercer.sums.statistics import Statistics, Sums, check_alike
from mercer.threads import in_order, own_property, tiles
from mercer.validation import check_choice, check_integer, integer, real

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# Least weight of a row, relative to the largest: it limits rounding and changes nothing else.
_LEAST_SHARE = 1e-12
_INVERSE_COLUMNS = 128  # columns of a triangular inverse at a time


class ExactFit(NamedTuple):
    """Solution of :class:`ExactRidge` for one ridge."""

    lower: Floats  # (n, n), Cholesky factor of S K S + n ridge I; anything above the diagonal
    scaled: Floats  # (n, n_outputs), solution of that matrix for S y / unit
    coefficients: Array  # (n, n_outputs)
    unit: float  # size of the targets

    def values(self, K: Floats) -> Array:
        """Return values at rows, (n_rows, n_outputs), from their kernel values with all points."""
        return scaled_product(K, self.coefficients, self.unit)


class ExactRidge:
    r"""Weighted kernel ridge regression with a point at every row.

    .. math:: \min_f \frac{1}{W} \sum_i w_i |f(x_i) - y_i|^2 + \lambda \|f\|^2, \qquad
        f = \sum_i c_i k(x_i, \cdot), \quad c = S (S K S + n \lambda I)^{-1} S y

    with S the diagonal matrix of the square roots of the weights over their mean. The same Cholesky
    factor gives leave-out residuals in closed form (Allen's PRESS): with
    :math:`C = S K S + n \lambda I`, the residuals of a block b that is left out are
    :math:`S_b^{-1} (C^{-1})_{bb}^{-1} (C^{-1} S y)_b`. If b are the last rows,
    :math:`(C^{-1})_{bb}` needs only the last corner of the factor.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Gram matrix, overwritten; what is below its diagonal is not read. All is computed in its
        type, float32 or float64.
    targets : ndarray of shape (n, n_outputs)
        Targets y.
    weights : ndarray of shape (n,)
        Weights w, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> exact = ExactRidge(Linear()(X), y, np.ones(3))
    >>> fit = exact.fit(1e-9)
    >>> (Linear()([[5.0]], X) @ fit.coefficients).round(3)
    array([[10.]])
    """

    def __init__(self, K: Floats, targets: Array, weights: Array) -> None:
        share = np.maximum(weights, _LEAST_SHARE * weights.max()) / weights.mean()
        self._root = np.sqrt(share)[:, np.newaxis]
        if (share != 1.0).any():
            root = self._root.astype(K.dtype)
            K *= root
            K *= root.T
        self._matrix = K
        self._unit = float(np.abs(targets).max(initial=0.0)) or 1.0
        self._right = (self._root * (targets / self._unit)).astype(K.dtype)

    def fit(self, ridge: float, *, last: bool = False) -> ExactFit | None:
        """Solve for one ridge; None if the matrix is not positive definite in this precision.

        The ``last`` fit spoils the matrix, instead of a copy.
        """
        n = len(self._matrix)
        # The matrix is symmetric; the transpose only gives it Fortran order.
        whole = (np.asarray if last else np.array)(self._matrix.T, order="F")
        whole.ravel("K")[:: n + 1] += ridge * n
        if not cholesky(whole):
            return None
        scaled = solve(whole, self._right)
        return ExactFit(whole, scaled, self._unit * (self._root * scaled), self._unit)

    def left_out(
        self, fit: ExactFit, n: int, block: int = 1, ends: NDArray[np.int64] | None = None
    ) -> Array:
        """Return leave-one-out (or leave-one-block-out) residuals of the last rows.

        Parameters
        ----------
        fit : ExactFit
            Solution from :meth:`fit`.
        n : int
            Number of rows, counted from the end.
        block : int, default=1
            Number of rows left out together; blocks start at multiples of it.
        ends : ndarray of int, default=None
            Used instead of ``block``: where blocks start among the last rows, and ``n``.

        Returns
        -------
        residuals : ndarray of shape (n, n_outputs)
        """
        start = len(fit.lower) - n
        inverse = np.array(fit.lower[start:, start:], order="F")
        invert(inverse)
        scaled = fit.scaled[start:].astype(np.float64)
        root = self._root[start:]
        if block == 1 and ends is None:
            curvatures = np.empty(n)
            for i in range(0, n, _INVERSE_COLUMNS):  # the inverse is in the lower triangle only
                some = np.tril(inverse[i:, i : i + _INVERSE_COLUMNS])
                curvatures[i : i + _INVERSE_COLUMNS] = np.einsum("ij,ij->j", some, some)
            return np.asarray(scaled / curvatures[:, np.newaxis] / root * self._unit)
        residuals = np.empty_like(scaled)
        blocks = [0, *range(block - start % block, n, block), n] if ends is None else ends.tolist()
        for first, last in pairwise(blocks):
            some = np.tril(inverse[first:, first:last]).astype(np.float64)
            residuals[first:last] = np.linalg.solve(some.T @ some, scaled[first:last])
        return np.asarray(residuals / root * self._unit)

    def held_out(self, fit: ExactFit, n: int) -> Array:
        """Return residuals of the last rows, predicted by a fit that leaves all of these out.

        Parameters
        ----------
        fit : ExactFit
            Solution from :meth:`fit`.
        n : int
            Number of rows, counted from the end.

        Returns
        -------
        residuals : ndarray of shape (n, n_outputs)
        """
        start = len(fit.lower) - n
        corner = np.tril(fit.lower[start:, start:]).astype(np.float64)
        scaled = corner @ (corner.T @ fit.scaled[start:])
        return np.asarray(scaled / self._root[start:] * self._unit)


def scaled_product(K: Floats, coefficients: Array, unit: float | None = None) -> Array:
    """Return K @ coefficients in the precision of K, without overflow for large coefficients.

    Examples
    --------
    >>> scaled_product(np.ones((1, 2), np.float32), np.array([[1e50], [2e50]]))
    array([[3.e+50]])
    """
    size = (float(np.abs(coefficients).max(initial=0.0)) if unit is None else unit) or 1.0
    return np.asarray(K @ (coefficients / size).astype(K.dtype), dtype=np.float64) * size


Indices = NDArray[np.int64]

#: Ways of choosing centres.
CENTERS = ("kmeans", "uniform", "leverage")
# Most rows that choose centres; more rows would move centres by less than sampling noise.
_MOST_ROWS = 30_000
_PILOTS = 1000  # sampled points for leverage scores
_KERNEL_ROWS = 4096
# Rows whose features are computed at a time: few, so that threads finish at about the same time.
_TILE = 192
# Mapped inputs are clipped to this in single precision, as products would overflow beyond it.
_FARTHEST = 1e30
# Rows with more columns than the first number are clustered by so many principal components: many
# columns cost much, and their noise hides which centre is nearest.
_MANY_COLUMNS, _COMPONENTS = 64, 50


class Basis(Protocol):
    """A fixed set of features, in which functions are linear.

    Equal bases have the same features, to the last bit. Without an ``__eq__``, a basis equals only
    itself.
    """

    @property
    def size(self) -> int:
        """Number of features M."""
        ...

    def features(self, X: Any) -> Any:
        """Return features of rows, (n, M), as a new C-ordered array, or `LeafFeatures`."""
        ...

    def penalty(self) -> NDArray[np.float64] | None:
        """Return the matrix P of the squared norm c'Pc of a function; None for the identity."""
        ...


class KernelBasis(Passing):
    """Basis of kernel functions at the points of a fixed dictionary.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary, in units of the inputs.
    dtype : dtype or None, default=None
        Type in which features are computed from mapped rows, float32 or float64; None for the type
        of the points.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> basis = KernelBasis(Gaussian(1.0), np.array([[0.0], [1.0]]))
    >>> basis.features(np.array([[0.0]])).round(3)
    array([[1.   , 0.607]])
    """

    # Coefficients of the last predictions, and the function with them; the mapped dictionary.
    _packed: tuple[Array, Callable[[Any], Array]] | None = None
    _mapped: Any = None
    _passing: ClassVar[dict[str, Any]] = {"_packed": None, "_mapped": None}

    def __init__(self, kernel: Kernel, points: Floats, dtype: DTypeLike | None = None) -> None:
        self.kernel = kernel
        self.points = points
        self.dtype = points.dtype if dtype is None else np.dtype(dtype)
        self._map, self._inner = None, kernel
        if isinstance(kernel, Mapped) and isinstance(kernel.map, FixedMap):
            self._map, self._inner = kernel.map, kernel.kernel

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points)

    def __eq__(self, other: object) -> bool:
        """Whether kernels, points and types are the same."""
        return isinstance(other, KernelBasis) and (
            self.kernel == other.kernel
            and self.points.dtype == other.points.dtype
            and self.dtype == other.dtype
            and np.array_equal(self.points, other.points)
        )

    __hash__ = None  # type: ignore[assignment]

    def values(self, X: Any, coefficients: Array) -> Array:
        """Return values of a function at rows, (n, n_outputs), always in double precision.

        The last bits of kernel values in single precision depend on which rows are computed
        together. Large coefficients would make the difference visible in predictions.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Rows.
        coefficients : ndarray of shape (n_points, n_outputs)
            Coefficients of the points, which are packed for all calls with this very array.
        """
        packed = self._packed
        if packed is None or packed[0] is not coefficients:
            self._packed = packed = coefficients, self._function(coefficients)
        function, starts = packed[1], range(0, max(X.shape[0], 1), _CHUNK)
        pieces = (X[start : start + _CHUNK].astype(np.float64, copy=False) for start in starts)
        return np.concatenate(in_order(function, pieces))

    def _function(self, coefficients: Array) -> Callable[[Any], Array]:
        """Return the function with some coefficients, of rows in double precision."""
        points, map = self.points.astype(np.float64, copy=False), self._map
        profile = self._inner.profile
        if profile is None:
            basis = KernelBasis(self.kernel, points)
            return lambda rows: scaled_product(basis.features(rows), coefficients)
        expansion = Expansion([profile], [points if map is None else map(points)], [coefficients])
        return lambda rows: expansion(rows if map is None else map(rows))

    @property
    def _images(self) -> Any:
        """The dictionary behind a fixed map, which is applied to it only once."""
        if self._mapped is None:
            self._mapped = self._image(self.points)
        return self._mapped

    def rest(self) -> None:
        """Free what predictions do not read."""
        self._mapped = None

    def _image(self, X: Any) -> Any:
        images = X if self._map is None else self._map(X)
        if self.dtype == np.float32 and images.dtype != self.dtype:
            return in_single(images)
        return images.astype(self.dtype, copy=False)

    def features(self, X: Any) -> Floats:
        """Return kernel values between rows and points, (n, n_points), in :attr:`dtype`."""
        values: Floats = np.empty((X.shape[0], self.size), self.dtype)
        points = self._images

        def fill(some: slice) -> None:
            images = self._image(X[some].astype(self.points.dtype, copy=False))
            values[some] = self._inner(images, points)

        in_order(fill, tiles(len(values), _TILE))
        return values

    def gram(self) -> Floats:
        """Return the Gram matrix of the points, as a new array in :attr:`dtype`."""
        return self._inner(self._images, self._images)

    def penalty(self) -> NDArray[np.float64]:
        """Return the Gram matrix of the points, in float64."""
        images = np.asarray(self._images, dtype=np.float64)
        return np.asarray(self._inner(images, images), dtype=np.float64)


def in_single(images: Any) -> Any:
    """Return mapped rows in single precision, clipped so that products do not overflow."""
    return np.clip(images, -_FARTHEST, _FARTHEST).astype(np.float32, copy=False)


class FeatureTable:
    """Stored features of rows that are visited repeatedly; the only input of a row is its number.

    Parameters
    ----------
    basis : Basis
        Basis of the features.
    X : ndarray of shape (n_rows, n_features)
        The rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_features)
        Features of all rows, in float64, so that coarse rounding does not limit steps on them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> table = FeatureTable(KernelBasis(Linear(), np.array([[2.0]])), np.array([[1.0], [3.0]]))
    >>> table.features(table.numbers[1:])
    array([[6.]])
    """

    def __init__(self, basis: Basis, X: Any) -> None:
        self._basis = basis
        self.values: Floats = np.asarray(basis.features(X), dtype=np.float64)

    @property
    def size(self) -> int:
        """Number of features."""
        return self._basis.size

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of all rows, shape (n_rows, 1)."""
        return np.arange(len(self.values))[:, np.newaxis]

    def features(self, X: Any) -> Floats:
        """Return features of the rows with given numbers, shape (n, 1)."""
        values: Floats = self.values[X[:, 0]]
        return values

    def penalty(self) -> NDArray[np.float64] | None:
        """Return the penalty of the basis of the features."""
        return self._basis.penalty()


def check_same_basis(mine: Basis, theirs: Basis) -> None:
    """Raise ValueError if two bases have different features, so that sums cannot be merged."""
    if mine is theirs or mine == theirs:
        return
    if isinstance(mine, KernelBasis) and isinstance(theirs, KernelBasis):
        dtypes = mine.points.dtype, theirs.points.dtype
        if mine.kernel != theirs.kernel:
            why = f"their kernels are {mine.kernel!r} and {theirs.kernel!r}"
        elif dtypes[0] != dtypes[1]:
            why = f"their points are {dtypes[0]} and {dtypes[1]}"
        elif mine.dtype != theirs.dtype:
            why = f"their features are {mine.dtype} and {theirs.dtype}"
        else:
            sizes = f"{mine.size:,} and {theirs.size:,}"
            why = f"their points differ ({sizes} of them)"
    else:
        why = "their features differ"
    raise ValueError(
        f"Sums on two dictionaries cannot be merged: {why}. Let one process choose the features, "
        "and let all others learn on copies of it (`emptied`)."
    )


# -- points to build on ----------------------------------------------------------------------------


def choose_centers(
    X: Floats,
    size: int,
    method: str = "kmeans",
    *,
    labels: NDArray[np.integer[Any]] | None = None,
    kernel: Kernel | None = None,
    seed: int = 0,
) -> Floats:
    r"""Choose the points of a dictionary: all rows if there are few, else some rows or means.

    Rows that are equal, after the map of a ``Mapped`` kernel, count as one.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Finite rows, float64 or float32, at least one. If there are more than 30,000 rows, and more
        than ``size``, a sample of them is used.
    size : int
        Most points.
    method : {"kmeans", "uniform", "leverage"}, default="kmeans"
        ``"kmeans"``: means of clusters (Lloyd's algorithm). With a ``Mapped`` kernel, mapped rows
        are clustered; rows of more than 64 columns are clustered by 50 principal components. The
        points are the means of the rows of each cluster, which an affine map sends to the centres;
        with another map they are the rows nearest to the centres. ``"uniform"``: rows drawn at
        random. ``"leverage"``: rows drawn with probabilities proportional to their ridge leverage
        scores, so that rare kinds of rows are represented.
    labels : ndarray of shape (n_rows,) of int, default=None
        Class numbers, for "kmeans": each class is clustered separately, and gets a number of points
        proportional to its rows, but at least one.
    kernel : Kernel, default=None
        Kernel with its numbers resolved. Needed by "leverage", and to apply a map.
    seed : int, default=0
        Seed of the sample and of the choice.

    Returns
    -------
    points : ndarray of shape (n_points, n_features)
        At most ``size`` points, no two equal, of the dtype of ``X``.

    Raises
    ------
    ValueError
        For an unknown method, or for "leverage" without a kernel.

    References
    ----------
    K. Zhang, I. W. Tsang, J. T. Kwok, "Improved Nyström low-rank approximation and error
    analysis", ICML 2008, for k-means; A. Rudi, R. Camoriano, L. Rosasco, "Less is more: Nyström
    computational regularization", NIPS 2015, for the scores and their ridge
    :math:`1 / \sqrt{n}`.

    Examples
    --------
    >>> rows = np.array([[0.0], [0.5], [10.0], [10.5], [10.5]])
    >>> np.sort(choose_centers(rows, 2), axis=0).round(3).ravel()
    array([ 0.25 , 10.333])
    >>> choose_centers(rows, 4).ravel()  # all that differ
    array([ 0. ,  0.5, 10. , 10.5])
    """
    check_choice("method", method, CENTERS)
    check_integer("size", size, low=1)
    generator = np.random.default_rng(seed)
    if len(X) > max(_MOST_ROWS, size):
        drawn = np.sort(generator.choice(len(X), max(_MOST_ROWS, size), replace=False))
        X, labels = X[drawn], None if labels is None else labels[drawn]
    image = _image(X, kernel)
    firsts = distinct_rows(image)
    if firsts.size <= size:
        return _picked(X, firsts)
    if method == "uniform":
        return _picked(X, generator.choice(firsts, size, replace=False))
    if method == "leverage":
        if kernel is None:
            raise ValueError(
                "`method='leverage'` needs `kernel`: leverage scores are those of a kernel "
                "regression. Pass the kernel, or use 'kmeans' or 'uniform'."
            )
        scores = _leverage_scores(X[firsts], kernel, generator)
        # Rows with the largest log(score) plus Gumbel noise are a draw without replacement.
        keys = np.log(np.maximum(scores, 1e-300)) + generator.gumbel(size=scores.size)
        return _picked(X, firsts[np.argsort(-keys, kind="stable")[:size]])
    if image.shape[1] > _MANY_COLUMNS:
        image = np.asarray(PrincipalComponents(_COMPONENTS).fit(image)(image))
    groups = [np.arange(len(X))]
    if labels is not None:
        numbers, counts = np.unique(labels, return_counts=True)
        if numbers.size <= size:
            groups = [np.flatnonzero(labels == number) for number in numbers]
            sizes = _shares(counts, size)
    if len(groups) == 1:
        sizes = np.array([size])
    affine = not isinstance(kernel, Mapped) or isinstance(kernel.unwrapped()[0], Affine)

    def means(group: tuple[Indices, np.integer[Any]]) -> Floats:
        rows, n = group
        return _means(X[rows], image[rows], int(n), seed, affine)

    points = in_order(means, zip(groups, sizes, strict=True))
    together = np.vstack(points).astype(X.dtype)
    return _picked(together, distinct_rows(_image(together, kernel)))


def _picked(X: Floats, numbers: Indices) -> Floats:
    """Return the rows with given numbers, in their original order."""
    return np.take(X, np.sort(numbers), axis=0)


def _image(X: Floats, kernel: Kernel | None) -> Floats:
    """Return rows after the map of a ``Mapped`` kernel."""
    if not isinstance(kernel, Mapped):
        return X
    image: Floats = np.ascontiguousarray(kernel.unwrapped()[0](X), dtype=X.dtype)
    return image


def _shares(counts: Indices, size: int) -> Indices:
    """Divide ``size`` points in proportion to counts: each gets at least one, at most its count."""
    ideal = size * counts / counts.sum()
    shares: Indices = np.clip(np.floor(ideal), 1, counts).astype(np.int64)
    while shares.sum() > size:
        shares[np.argmax(np.where(shares > 1, shares - ideal, -np.inf))] -= 1
    while shares.sum() < size:
        shares[np.argmax(np.where(shares < counts, ideal - shares, -np.inf))] += 1
    return shares


def _means(X: Floats, image: Floats, size: int, seed: int, affine: bool) -> Floats:
    """Return the means of clusters of rows or, if not affine, the rows nearest to the centres."""
    rows = image.astype(np.float32)
    if not np.isfinite(rows).all():
        rows = image  # values exceed the range of single precision
    clusters = Cells(k_means(rows, size, seed))
    cells = clusters.of(rows)
    n = len(rows)
    if affine:
        counts = np.bincount(cells, minlength=len(clusters))
        member = sparse.csr_array((np.ones(n), cells, np.arange(n + 1)), (n, len(clusters)))
        sums = member.T @ X.astype(np.float64, copy=False)
        means: Floats = sums[counts > 0] / counts[counts > 0, np.newaxis]
        return means
    distances = np.sum((rows - clusters.centres[cells]) ** 2, axis=1)
    order = np.lexsort((distances, cells))
    nearest = order[np.unique(cells[order], return_index=True)[1]]
    return _picked(X, nearest)


def _leverage_scores(X: Floats, kernel: Kernel, generator: np.random.Generator) -> Array:
    """Return approximate ridge leverage scores of rows, from kernel functions at a sample."""
    pilots = X[np.sort(generator.choice(len(X), min(_PILOTS, len(X)), replace=False))]
    statistics = Statistics(len(pilots), 1)
    for start in range(0, len(X), _KERNEL_ROWS):
        K = np.asarray(kernel(X[start : start + _KERNEL_ROWS], pilots), dtype=np.float64)
        statistics.add(K, np.zeros((len(K), 1)), np.ones(len(K)))
    ridge = float(np.mean(kernel.diag(pilots))) / float(np.sqrt(len(X)))
    factor = statistics.factor(ridge, np.asarray(kernel(pilots), dtype=np.float64))
    scores = np.empty(len(X))
    for start in range(0, len(X), _KERNEL_ROWS):
        K = np.asarray(kernel(X[start : start + _KERNEL_ROWS], pilots), dtype=np.float64)
        scores[start : start + _KERNEL_ROWS] = np.einsum("ij,ji->i", K, factor.solve(K.T))
    return scores


# -- ridges ----------------------------------------------------------------------------------------


_T = TypeVar("_T")

# Fewest and most rows held out to choose the ridge; in between, a twentieth of all rows.
_FEWEST, _MOST = 100, 5000
# Rows that are added to sums together; adding a single row costs as much as adding a hundred.
_BLOCK = 256
# Most rows, and most features of them, in memory at a time.
_CHUNK, _NUMBERS = 4096, 2**24
#: Ridges to try, from the strongest to the weakest.
RIDGES = 10.0 ** -np.arange(0.0, 10.0)
_FIRST, _MANY = 6, 2000
_MOST_LEVERAGE = 1.0 - 1e-8
# Ridges below the first need double precision, and so does rounding above the second part of the
# spread of the targets.
_WEAK, _ROUGH = 3e-7, 1e-3
_SINGLE = float(np.finfo(np.float32).eps)
_LARGEST_ANSWER = 1e300  # of a Gaussian process; features may be larger than 1


def squared_error(predictions: Any, rows: Rows, unit: Any = 1.0) -> float:
    """Return the weighted mean squared error, in units of the targets, summed over outputs."""
    errors = np.sum(((predictions - rows.targets) / unit) ** 2, axis=1)
    return float(rows.weights @ errors) / float(rows.weights.sum())


def check_regressions(mine: Any, theirs: Any) -> None:
    """Raise ValueError if two regressions differ in forgetting, ridges or number of targets."""
    check_alike(
        "`forgetting`",
        mine.forgetting,
        theirs.forgetting,
        "Learn all rows with one factor: weights of old rows would not fit together.",
    )
    check_alike(
        "ridges to choose from",
        tuple(map(float, mine.ridges)),
        tuple(map(float, theirs.ridges)),
        "Set the same ridge, or the same ridges, for both.",
    )
    check_alike(
        "number of targets",
        mine.n_targets,
        theirs.n_targets,
        "Of classes, map both to all classes first (`mercer.sums.merge_classes`).",
    )


def add_rows(
    statistics: Statistics, basis: Basis, rows: Rows, forgetting: float, chunk: int
) -> None:
    """Add rows to sums, in order of age: the last row has its full weight.

    Parameters
    ----------
    statistics : Statistics
        Sums, changed in place.
    basis : Basis
        Basis that computes the features.
    rows : Rows
        Rows with weights above 0.
    forgetting : float
        Factor by which the weight of a row falls with each row after it, in (0, 1].
    chunk : int
        Number of rows whose features are in memory at a time.
    """
    if forgetting < 1.0:
        statistics.forget(forgetting ** len(rows))
    rows = rows.discounted(forgetting)
    for start in range(0, len(rows), chunk):
        some = rows[start : start + chunk]
        Z: Any = basis.features(some.X)
        statistics.add(Z, some.targets, some.weights)


def merged(mine: Statistics, earlier: Statistics, forgetting: float) -> Statistics:
    """Return new sums over the rows of two sums.

    Parameters
    ----------
    mine, earlier : Statistics
        Sums; if old rows are forgotten, all rows of ``earlier`` count as older than ``mine``.
    forgetting : float
        Factor by which the weight of a row falls with each row after it: ``earlier`` is multiplied
        by it once for each row of ``mine``.
    """
    total = earlier.copy()
    if forgetting < 1.0:
        total.forget(forgetting**mine.n_rows)
    total.merge(mine)
    return total


class Curvature(NamedTuple):
    """Matrix A + ridge * P of Newton steps, with A the mean products of features."""

    factor: RidgeFactor
    ridge: float
    penalty: Any  # P, or None for the identity

    def pull(self, coefficients: Array) -> Array:
        """Return the gradient of half the penalty, ridge * P c, (n_points, n_outputs)."""
        if self.penalty is None:
            return self.ridge * coefficients
        right, matrix = coefficients.T.astype(self.penalty.dtype), self.penalty
        products = in_order(lambda some: right @ matrix[:, some], tiles(len(matrix)))
        return self.ridge * np.hstack(products).T.astype(np.float64)


class Trial(NamedTuple):
    """Predictions of a part for held-out rows that it has not learned, and the rest of its fit.

    Attributes
    ----------
    values : ndarray of shape (n_held, n_outputs)
        The predictions.
    complete : callable or None, default=None
        Fits the held-out rows, too; for parts that get a weight. None: they are fitted already.
    """

    values: Array
    complete: Callable[[], None] | None = None


class BasisPart:
    """Linear function of the features of a basis, fitted to numbers or codes by ridge regression.

    Parameters
    ----------
    basis : Basis
        Basis of the features.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    max_rows : int or None, default=None
        Most rows to learn; further rows are ignored. None for no limit.
    first : int or None, default=None
        Number of the ridge to try first; None for one that suits the number of features.
    """

    def __init__(
        self,
        basis: Basis,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
        first: int | None = None,
    ) -> None:
        self.basis = basis
        self.forgetting = forgetting
        self.max_rows = max_rows
        self.coefficients = np.zeros((basis.size, n_outputs))
        #: Coefficients of the last solution without the held out rows.
        self.without_held = self.coefficients
        # Many points have many rows, for which a weak ridge is best, and each trial is expensive.
        usual = _FIRST if basis.size <= _MANY else _FIRST + 2
        self._usual_first = usual if first is None else first
        #: Ridges to choose from, from the strongest to the weakest.
        self.ridges: Array = RIDGES
        #: Number of the ridge in use among ``ridges``, not its value.
        self.ridge = self._first = self._usual_first
        #: Number of the strongest ridge that an exact fit tries. More rows than pilots had want a
        #: ridge that is as strong as theirs or weaker.
        self.strongest = 0
        self._tries_all = False
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        #: Whether the fit is exact, with a point at every row and without sums.
        self.is_exact = False
        # Jitter that the last solution needed.
        self._enough = 0.0

    @own_property
    def statistics(self) -> Statistics:
        """Sums over the rows that the part has learned."""
        return Statistics(self.n_points, self.n_targets)

    @own_property
    def _penalty(self) -> Array | None:
        return self.basis.penalty()

    @property
    def constant(self) -> float | None:
        """Coefficient of all features that makes the function 1: ridges then pull to the mean.

        None if there is none: ridges pull to 0.
        """
        return None

    @property
    def n_targets(self) -> int:
        """Number of targets C."""
        return int(self.coefficients.shape[1])

    @property
    def n_points(self) -> int:
        """Number of points, or of features of another kind."""
        return self.basis.size

    @property
    def n_rows(self) -> int:
        """Number of rows in the sums."""
        return self.statistics.n_rows

    @property
    def sum_bytes(self) -> int:
        """Bytes of the sums in a file."""
        return 0 if self.is_exact else 4 * self.basis.size**2

    def fix_ridge(self, ridge: float | None) -> None:
        """Use only this ridge; with None, choose among all ridges again."""
        if ridge is None:
            self.ridges, self._tries_all = RIDGES, False
            self.ridge = self._first = self._usual_first
        else:
            self.choose_among([ridge])

    def choose_among(self, ridges: ArrayLike) -> None:
        """Try all of these ridges in each solution: the error may have several minima.

        Parameters
        ----------
        ridges : array-like of shape (n_ridges,)
            At least one ridge; none negative.
        """
        self.ridges, self._tries_all = np.sort(np.asarray(ridges, dtype=np.float64))[::-1], True
        self.ridge = self._first = 0

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Replace the targets y by y @ codes + offset, and the outputs accordingly."""
        if not self.is_exact:
            self.statistics.map_targets(codes, offset)
        self.unit = np.ones(offset.size)
        self.coefficients = self.coefficients @ codes
        self.without_held = self.without_held @ codes

    def learn(self, rows: Rows) -> None:
        """Add rows to the sums."""
        if self.max_rows is not None and self.forgetting == 1.0:
            rows = rows[: max(0, self.max_rows - self.n_rows)]
        chunk = max(_BLOCK, min(_CHUNK, _NUMBERS // max(1, self.n_points)))
        add_rows(self.statistics, self.basis, rows, self.forgetting, chunk)

    def merge(self, other: Self) -> None:
        """Add the rows that another regression has learned; the other stays unchanged.

        The rows of the other count as older than the rows of this one: if old rows are forgotten,
        their weights fall by a factor for each row of this one. Predictions use them after the next
        solution. Each of the two may have learned ``max_rows``.

        Parameters
        ----------
        other : BasisPart
            Part on the same features, with the same ridges and forgetting.

        Raises
        ------
        ValueError
            If these, or the numbers of targets, differ; both parts are then unchanged.
        """
        check_same_basis(self.basis, other.basis)
        check_regressions(self, other)
        self.statistics = merged(self.statistics, other.statistics, self.forgetting)
        self._enough = max(self._enough, other._enough)

    def emptied(self) -> Self:
        """Return the same function with empty sums, to learn rows elsewhere.

        It has no limit of rows, as each place does not know how many rows the others learn.
        """
        empty = copy.copy(self)
        empty.statistics = Statistics(self.n_points, self.n_targets)
        empty.max_rows, empty._enough = None, 0.0
        return empty

    def rest(self, *, sums: bool = True) -> None:
        """Free what predictions do not read; without ``sums``, only what the basis gives anew."""
        self.__dict__.pop("_penalty", None)
        if sums:
            self.__dict__.pop("statistics", None)
            self.without_held = np.zeros_like(self.coefficients)

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on held out rows, then solve with these rows included.

        The held out rows are not added to the sums.

        Parameters
        ----------
        held : Rows
            Rows held out from :meth:`learn`, at least one.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Predictions for the held out rows by the fit without them.
        """
        trial = self.judge(held)
        if trial.complete is not None:
            trial.complete()
        return trial.values

    def judge(self, held: Rows) -> Trial:
        """Choose the ridge on held out rows, and predict them by a fit without them.

        Until the trial is complete, this fit is the function.
        """
        Z: Any = self.basis.features(held.X)
        best, (predictions, w, enough) = self._choose(Z, held.discounted(self.forgetting))
        # A stronger ridge was tried after weaker ones, which may have needed more jitter than the
        # sums of a model from a file would find.
        if best < self._first:
            enough = self.statistics.jitter
        self.coefficients = np.ascontiguousarray(w)
        self.without_held, self.ridge, self._enough = w, best, enough

        def complete() -> None:
            everything = self.statistics_with(held, Z)
            everything.jitter = max(everything.jitter, enough)
            # In C order as in files, so that predictions are the same to the last bit.
            self.coefficients = np.ascontiguousarray(self._solution(everything, best))

        return Trial(np.asarray(predictions, dtype=np.float64), complete)

    def solve_for_learned(self) -> None:
        """Solve for the rows in the sums, with the ridge that is tried first."""
        with self.statistics.trial():
            solution = self._solution(self.statistics, self._first)
            self.coefficients, self.ridge = np.ascontiguousarray(solution), self._first
            self._enough = self.statistics.jitter

    def statistics_with(self, held: Rows, Z: Any) -> Statistics:
        """Return new sums over the rows learned and held out rows, overwriting the features Z."""
        recent, everything = held.discounted(self.forgetting), self.statistics.copy()
        everything.forget(self.forgetting ** len(held))
        everything.add(Z, recent.targets, recent.weights)
        return everything

    def _choose(self, Z: Any, held: Rows) -> tuple[int, tuple[Any, Array, float]]:
        """Find the best ridge on held out rows: number, predictions, coefficients and jitter."""

        def attempt(number: int) -> tuple[float, tuple[Any, Array, float]]:
            w = self._solution(self.statistics, number)
            predictions = Z @ w.astype(Z.dtype)
            found = predictions, w, self.statistics.jitter
            return squared_error(predictions, held, self.unit), found

        # Start at the same ridge each time: results must not depend on earlier solutions.
        with self.statistics.trial():
            if self._tries_all:
                tried = ((*attempt(number), number) for number in range(self.ridges.size))
                _, found, best = min(tried, key=lambda one: one[0])
                return best, found
            return descend(attempt, self._first, self.ridges.size)

    def _solution(self, statistics: Statistics, number: int) -> Array:
        """Return the coefficients for sums and the ridge with a number."""
        constant = self.constant
        factor = statistics.factor(float(self.ridges[number]), self._penalty)
        if constant is None:
            return factor.solve(statistics.products / statistics.weight)
        mean = statistics.normalization()[0]
        right = statistics.centred(mean, np.ones_like(mean))[0] / statistics.weight
        return constant * mean + factor.solve(right)

    def curvature(self) -> Curvature:
        """Return the factored matrix for Newton steps."""
        least = max(self._enough, self.statistics.jitter)
        ridge, penalty = float(self.ridges[self.ridge]), self._penalty
        factor = factor_ridge(self.statistics.moments(), ridge, penalty, least)
        if penalty is not None and isinstance(self.basis, KernelBasis):
            penalty = penalty.astype(self.basis.dtype, copy=False)  # gradients are not more precise
        return Curvature(factor, ridge, penalty)

    def step(self, gradient: Array, curvature: Curvature, rate: float, bound: float) -> None:
        """Take a preconditioned Newton step on some rows.

        Parameters
        ----------
        gradient : ndarray of shape (n_points, n_outputs)
            Gradient of the mean loss of the rows in the coefficients.
        curvature : Curvature
            Matrix from :meth:`curvature`.
        rate : float
            Step size divided by ``bound``.
        bound : float
            Bound of the curvature of the loss; the ridge is multiplied by it.
        """
        whole = gradient + bound * curvature.pull(self.coefficients)
        moved = self.coefficients - rate * curvature.factor.solve(whole)
        self.coefficients = np.ascontiguousarray(moved)

    def evaluate(self, X: Any) -> Array:
        """Return values at rows, shape (n, n_outputs)."""
        if isinstance(self.basis, KernelBasis):
            return self.basis.values(X, self.coefficients)
        return np.asarray(self.basis.features(X) @ self.coefficients)


class GlobalPart(BasisPart):
    """Kernel expansion on a fixed dictionary, fitted to numbers or codes by ridge regression.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary; with float32 points, all products are in float32.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    max_rows : int or None, default=None
        Most rows to learn; further rows are ignored. None for no limit.
    dtype : dtype or None, default=None
        Type in which features are computed, see :class:`mercer.sums.KernelBasis`.
    """

    form = "global"
    basis: KernelBasis

    def __init__(
        self,
        kernel: Kernel,
        points: Any,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        basis = KernelBasis(kernel, np.ascontiguousarray(points), dtype)
        super().__init__(basis, n_outputs, forgetting, max_rows)

    def rest(self, *, sums: bool = True) -> None:
        super().rest(sums=sums)
        self.basis.rest()

    @property
    def kernel(self) -> Kernel:
        """Kernel of the expansion."""
        return self.basis.kernel

    @property
    def dictionary(self) -> Any:
        """Points, shape (n_points, n_features)."""
        return self.basis.points

    def solve_exactly(self, rows: Rows, n_judges: int, block: int = 1) -> Array:
        """Fit the rows whose inputs are the dictionary; choose the ridge by leave-one-out errors.

        If rounding makes the Gram matrix indefinite with every ridge, :meth:`solve_without` is used
        instead.

        Parameters
        ----------
        rows : Rows
            One row for each point, in the same order, with weights by age if old rows are
            forgotten.
        n_judges : int
            Number of rows at the end whose errors choose the ridge.
        block : int, default=1
            Number of rows left out together; blocks start at multiples of it.

        Returns
        -------
        predictions : ndarray of shape (n_judges, n_outputs)
            Prediction for each of the last rows, by the fit to all others, or all other blocks.
        """
        judges = rows[len(rows) - n_judges :]

        def descent(first: int) -> tuple[int, tuple[Array, Array] | None]:
            exact = ExactRidge(self.basis.gram(), rows.targets, rows.weights)

            def judge(fit: ExactFit) -> tuple[float, tuple[Array, Array]]:
                ends = None if judges.groups is None else judges.ends
                predictions = judges.targets - exact.left_out(fit, n_judges, block, ends)
                error = squared_error(predictions, judges, self.unit)
                return error, (predictions, fit.coefficients)

            least = min(self.strongest, first)
            number, best = descend_ridges(exact, judge, first - least, self.ridges[least:])
            if best is None and least:  # rounding needs a stronger one
                return descend_ridges(exact, judge, first, self.ridges)
            return least + number, best

        self.ridge, found = descent(min(self.ridge, self.ridges.size - 1))
        if self.basis.dtype == np.float32 and (found is None or self._is_rough(found[1], rows)):
            # If the best ridge is very weak, rounding in single precision acts as a stronger ridge,
            # and large coefficients that cancel each other are rounded too much.
            self.basis = KernelBasis(self.kernel, self.dictionary, np.float64)
            self.ridge, found = descent(self.ridge)
        if found is None:
            # No ridge makes up for the rounding of the Gram matrix; sums have a jitter for it.
            return self.solve_without(rows, block)[len(rows) - n_judges :]
        predictions, coefficients = found
        self.coefficients = np.ascontiguousarray(coefficients)  # as in files
        self.is_exact = True
        return predictions

    def _is_rough(self, coefficients: Array, rows: Rows) -> bool:
        """Whether single precision changes values by more than a small part of the targets."""
        if float(self.ridges[self.ridge]) < _WEAK:
            return True
        largest = float(self.kernel.diag(self.dictionary).max())
        # Standard deviation if kernel values are rounded independently.
        error = _SINGLE * largest * np.linalg.norm(coefficients, axis=0)
        return bool((error > _ROUGH * rows.targets.std(axis=0)).any())

    def solve_without(self, rows: Rows, block: int = 1) -> Array:
        """Fit all rows by sums, and choose the ridge by leave-one-out errors in closed form.

        Parameters
        ----------
        rows : Rows
            All rows, with weights by age if old rows are forgotten.
        block : int, default=1
            Number of successive rows left out together; reduced to a fifth of all rows, as some
            rows must be left to learn from.

        Returns
        -------
        predictions : ndarray of shape (n, n_outputs)
            Prediction for each row, by the fit to all others, or all other blocks.
        """
        Z: Any = self.basis.features(rows.X)
        self.statistics = Statistics(self.basis.size, rows.targets.shape[1])
        self.statistics.add(Z.copy(), rows.targets, rows.weights)
        right = self.statistics.products / self.statistics.weight
        share = rows.weights / self.statistics.weight
        block = min(block, max(1, len(rows) // 5))
        alone = rows.groups is None and block == 1
        blocks = [*range(0, len(rows), block), len(rows)] if rows.groups is None else rows.ends

        def attempt(number: int) -> tuple[float, tuple[Array, Array]]:
            factor = self.statistics.factor(self.ridges[number], self._penalty)
            w = factor.solve(right)
            white, missed = factor.whiten(Z.T), rows.targets - Z @ w
            residuals = _left_out(white, share, missed, None if alone else blocks)
            predictions = rows.targets - residuals
            return squared_error(predictions, rows, self.unit), (predictions, w)

        self.ridge, (predictions, w) = descend(attempt, self._first, self.ridges.size)
        self.coefficients = np.ascontiguousarray(w)
        return predictions


def _left_out(
    white: Any, share: Array, residuals: Array, ends: Sequence[int] | NDArray[np.int64] | None
) -> Array:
    """Return leave-one-block-out residuals.

    Parameters
    ----------
    white : ndarray of shape (n_points, n)
        Whitened features: products of columns are leverages per unit of weight.
    share : ndarray of shape (n,)
        Weights of the rows.
    residuals : ndarray of shape (n, n_outputs)
        Residuals of the fit to all rows.
    ends : sequence of int or None
        Starts of the blocks, and n; None if each row is left out alone.
    """
    if ends is None:
        leverages = share * np.sum(white**2, axis=0)
        alone: Array = residuals / (1.0 - np.minimum(leverages, _MOST_LEVERAGE))[:, np.newaxis]
        return alone
    found = np.empty_like(residuals)
    for start, stop in pairwise(ends):
        some = slice(start, stop)
        own = white[:, some].T @ white[:, some] * -(_MOST_LEVERAGE * share[some])
        own[np.diag_indices_from(own)] += 1.0
        found[some] = np.linalg.solve(own, residuals[some])
    return found


class RidgeStream(Recorded):
    r"""Weighted ridge regression on all rows so far, in the memory of its sums.

    .. math:: \min_c\; \frac{1}{W} \sum_i w_i |z_i^T c - y_i|^2 + \lambda\, c^T P c

    The last rows are held out from a :class:`BasisPart`; each solution chooses the ridge on them
    and then includes them, too. They are a twentieth of all rows, from 100 to 5,000, and at most a
    fifth of all rows, or of the rows that are not forgotten. With more of them, the sums would be
    too old, and the ridge would depend on how far the stream has drifted. If there is only one
    ridge, no rows are held out.

    Parameters
    ----------
    basis : Basis
        Features z and their penalty P.
    n_targets : int
        Number of targets.
    ridges : sequence of float
        Values of the ridge parameter, at least one.
    forgetting : float, default=1.0
        Factor by which the weight of a row falls with each row after it, in (0, 1].

    Attributes
    ----------
    part : BasisPart
        Regression on the rows that are not held out.
    recent : list of Rows
        Held out rows, in pieces.
    n_rows : int
        Number of rows of positive weight so far; other rows are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import KernelBasis, Rows
    >>> stream = RidgeStream(KernelBasis(Linear(), np.array([[1.0]])), 1, [0.0])
    >>> stream.add(Rows(np.array([[1.0], [2.0]]), np.array([[3.0], [6.0]]), np.ones(2)))
    >>> stream.solve().round(6)
    array([[3.]])
    """

    _record = Record(
        n_rows=integer(low=0),
        ridge=real(low=0.0),
        ridges=Several(real(low=0.0)),
        sums=Sums(),
        recent=Blocks("n_targets"),
    )

    def __init__(
        self, basis: Basis, n_targets: int, ridges: Sequence[float], forgetting: float = 1.0
    ) -> None:
        self.part = BasisPart(basis, n_targets, forgetting)
        self.part.choose_among(ridges)
        self.recent: list[Rows] = []
        self.n_rows = 0

    @property
    def ridges(self) -> tuple[float, ...]:
        """Ridges to choose from, from the strongest to the weakest."""
        return tuple(map(float, self.part.ridges))

    @property
    def ridge(self) -> float:
        """Ridge of the last solution."""
        return self.ridges[self.part.ridge]

    @property
    def sums(self) -> Statistics:
        """Sums over the rows that are not held out."""
        return self.part.statistics

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.part.n_points

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.part.n_targets

    def add(self, rows: Rows) -> None:
        """Learn rows, in order.

        Parameters
        ----------
        rows : Rows
            Finite rows; they are copied.
        """
        used = rows.weights > 0.0
        if not used.any():
            return
        rows = rows[used]
        self.recent.append(rows)
        self.n_rows += len(rows)
        if sum(map(len, self.recent)) >= self._n_kept_back() + _BLOCK:
            self._add_up()

    def solve(self) -> Array:
        """Solve for all rows so far; return the coefficients, (n_features, n_targets)."""
        held = self._add_up()
        if held is not None:
            self.part.solve(held)
        elif self.n_rows:
            self.part.solve_for_learned()
        return self.part.coefficients

    def all_sums(self) -> Statistics:
        """Return sums over all rows so far; a new object if some rows are held out."""
        held = self._add_up()
        if held is None:
            return self.sums
        return self.part.statistics_with(held, self.part.basis.features(held.X))

    def take_over(self, sums: Statistics, held: Rows) -> None:
        """Replace all rows by rows that were summed elsewhere, and held out rows.

        Parameters
        ----------
        sums : Statistics
            Sums on the same features over all rows but the held out ones; not copied.
        held : Rows
            Held out rows, which choose the ridge.
        """
        self.part.statistics, self.recent = sums, [held]
        self.n_rows = sums.n_rows + len(held)

    def _n_kept_back(self) -> int:
        if len(self.part.ridges) == 1:
            return 0
        n, counting = self.n_rows, float(self.n_rows)
        if self.part.forgetting < 1.0:
            counting = (1.0 - self.part.forgetting**n) / (1.0 - self.part.forgetting)
        return min(max(n // 20, _FEWEST), _MOST, int(counting / 5.0))

    def _add_up(self) -> Rows | None:
        """Move older rows into the sums, and return the held out rows, if any."""
        if not self.recent:
            return None
        rows = Rows.joined(self.recent)
        n = max(0, len(rows) - self._n_kept_back())
        if not n + self.sums.n_rows:  # there is nothing else to learn
            n = len(rows)
        if n:
            # Copies, so that copies of this object stay unchanged, and this object if adding fails.
            part = copy.copy(self.part)
            part.statistics = self.sums.copy()
            part.learn(rows[:n])
            self.part = part
        self.recent = [rows[n:].own()] if n < len(rows) else []
        return self.recent[0] if self.recent else None

    def map_targets(self, mixing: Array, offset: Array) -> None:
        """Replace the targets y, codes -1 and +1, by y @ ``mixing`` + ``offset``.

        Parameters
        ----------
        mixing : ndarray of shape (n_targets, n_targets_new)
            Column j holds the coefficients of the new code j in the old codes.
        offset : ndarray of shape (n_targets_new,)
            Constant to add to the codes.
        """
        self.part = copy.copy(self.part)
        self.part.statistics = self.sums.copy()
        self.part.map_targets(mixing, offset)
        self.recent = [rows.map_targets(mixing, offset) for rows in self.recent]

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        other = copy.copy(self)
        other.part, other.recent = copy.copy(self.part), list(self.recent)
        return other

    def _adopt(self, values: dict[str, Any]) -> None:
        ridges, ridge, n_recent = values["ridges"], values["ridge"], sum(map(len, values["recent"]))
        if ridge not in ridges or values["n_rows"] < n_recent:
            raise ValueError("the sums over the rows do not fit together")
        self.part = copy.copy(self.part)
        self.part.statistics = values["sums"]
        self.part.choose_among(ridges)
        self.part.ridge = self.ridges.index(ridge)
        self.recent, self.n_rows = values["recent"], values["n_rows"]


def descend(
    attempt: Callable[[int], tuple[float, _T]], start: int, n: int, *, limit: float = np.inf
) -> tuple[int, _T]:
    """Find a local minimum of an error among 0, ..., n - 1, trying each number at most once.

    Parameters
    ----------
    attempt : callable
        Maps a number to its error and any further result.
    start : int
        Number to start at; it is always tried.
    n : int
        How many numbers there are.
    limit : float, default=infinity
        No other number is tried unless the error at the start is below this.

    Returns
    -------
    best : int
        Number with the smallest error found.
    found : object
        Further result of that number.

    Examples
    --------
    >>> descend(lambda i: ((i - 1) ** 2, "abcdefgh"[i]), 3, 8)
    (1, 'b')
    """
    best, (lowest, found) = start, attempt(start)
    for step in (1, -1) if lowest < limit else ():
        while 0 <= best + step < n:
            error, other = attempt(best + step)
            if not error < lowest:
                break
            best, lowest, found = best + step, error, other
        if best != start:
            break
    return best, found


def descend_able(
    attempt: Callable[[int], tuple[float, _T | None]], start: int, n: int, *, limit: float = np.inf
) -> tuple[int, _T | None]:
    """Search as :func:`descend`, from the largest number up to ``start`` that has a result.

    Parameters
    ----------
    attempt : callable
        Maps a number to its error and any further result; infinity and None if there is no result.
    start, n, limit
        See :func:`descend`.

    Returns
    -------
    best, found
        See :func:`descend`; ``found`` is None if no number up to the start has a result.

    Examples
    --------
    >>> descend_able(lambda i: (-i, "abc"[i]) if i < 2 else (np.inf, None), 2, 3)
    (1, 'b')
    """
    for first in range(start, -1, -1):
        best, found = descend(attempt, first, n, limit=limit)
        if found is not None:
            break
    return best, found


def descend_ridges(
    exact: ExactRidge,
    judge: Callable[[ExactFit], tuple[float, _T]],
    start: int,
    ridges: Array,
    *,
    limit: float = np.inf,
) -> tuple[int, _T | None]:
    """Find a ridge with locally least error; start stronger if a ridge is too weak for rounding.

    Parameters
    ----------
    exact : ExactRidge
        The regression.
    judge : callable
        Maps a solution to its error and any further result.
    start : int
        Number of the ridge to start at.
    ridges : ndarray of shape (n_ridges,)
        Ridges from the strongest to the weakest.
    limit : float, default=infinity
        No other ridge is tried unless the error of the first that can be solved is below this.

    Returns
    -------
    best, found
        See :func:`descend`; ``found`` is None if no ridge is strong enough.
    """

    def attempt(number: int) -> tuple[float, _T | None]:
        fit = exact.fit(float(ridges[number]))
        return (np.inf, None) if fit is None else judge(fit)

    return descend_able(attempt, start, ridges.size, limit=limit)


def general_ridge(statistics: Statistics, penalty: Array, ridges: Array) -> float:
    """Return the ridge that generalised cross-validation chooses, from the sums alone.

    Parameters
    ----------
    statistics : Statistics
        Sums over the rows.
    penalty : ndarray of shape (n_features, n_features)
        Matrix of the penalty.
    ridges : ndarray of shape (n_ridges,)
        Ridges to choose from.
    """
    moments = statistics.moments()
    right = statistics.products / statistics.weight
    squares = float((statistics.target_squares / statistics.weight).sum())
    whole = np.tril(moments) + np.tril(moments, -1).T
    scores = []
    for ridge in ridges:
        factor = factor_ridge(moments, ridge, penalty)
        w = factor.solve(right)
        misfit = squares - 2.0 * float(np.sum(w * right)) + float(np.sum(w * (whole @ w)))
        freedom = float(np.trace(factor.solve(whole))) / max(statistics.n_rows, 1)
        scores.append(max(misfit, 0.0) / max(1.0 - freedom, 1e-6) ** 2)
    return float(ridges[int(np.argmin(scores))])


def solutions(statistics: Statistics, penalty: Array, ridges: Iterable[float]) -> list[Array]:
    """Return the coefficients, (n_features, n_targets), for each of several ridges."""
    moments = statistics.moments()
    right = statistics.products / statistics.weight
    return [factor_ridge(moments, ridge, penalty).solve(right) for ridge in ridges]


# -- posteriors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightPosterior:
    """Posterior N(mean, noise (LL')⁻¹) of the weights, given the noise.

    Attributes
    ----------
    mean : ndarray of shape (n_features, n_targets)
        Posterior means, one column per target.
    factor : ndarray of shape (n_features, n_features)
        Lower Cholesky factor L of Z'WZ + noise I; the covariance is the same for all targets.
    noise : float
        Variance of the noise, including what was added to it because of rounding.
    """

    mean: Array
    factor: Array
    noise: float

    def variances(self, Z: Array) -> Array:
        """Return the posterior variances of z'w for rows of features, shape (n,)."""
        # noise |L⁻¹z|² instead of k(x, x) - ...: no cancellation.
        variances: Array = self.noise * np.sum(self._whitened(Z) ** 2, axis=0)
        return variances

    def covariance(self, Z: Array) -> Array:
        """Return the posterior covariance of z'w between rows of features, shape (n, n)."""
        V = self._whitened(Z)
        covariance: Array = self.noise * (V.T @ V)
        return covariance

    def draw(self, normals: Array) -> Array:
        """Return a draw of the weights minus their mean, from standard normals of that shape."""
        return math.sqrt(self.noise) * solve_triangle(self.factor, normals, transposed=True)

    def effective_dimension(self) -> float:
        """Return the trace of A (A + noise I)⁻¹, A = Z'WZ: how many features the data determine."""
        M = self.factor.shape[0]
        inverse = solve_triangle(self.factor, np.eye(M))
        return float(M - self.noise * np.sum(inverse**2))

    def _whitened(self, Z: Array) -> Array:
        return solve_triangle(self.factor, Z.T)


def weight_posterior(
    statistics: Statistics, noise: float, mean: Array, scale: Array
) -> tuple[WeightPosterior, float]:
    r"""Return the posterior of the weights, and the log marginal likelihood.

    The model is y = z'w + noise with w ~ N(0, I) and noise of variance ``noise / weight`` for each
    row of features z. With :math:`A = Z^TWZ` and :math:`b = Z^TWy`, the mean is
    :math:`(A + \sigma^2 I)^{-1} b`, the covariance :math:`\sigma^2 (A + \sigma^2 I)^{-1}`: DSG,
    eq. (9), for the kernel :math:`z(x)^T z(x')`, by the identity under eq. (10).

    Parameters
    ----------
    statistics : Statistics
        Sums over the rows.
    noise : float
        Variance of the noise of a row of weight 1, in units of the squared scaled target.
    mean, scale : ndarray of shape (n_targets,)
        Centre and scale of the targets that are modelled, (y - mean) / scale.

    Returns
    -------
    posterior : WeightPosterior
        Posterior, in units of the scaled targets.
    log_likelihood : float
        Log density of the targets in their original units, summed over the targets.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        products, squares = statistics.centred(mean, scale)
        factor, noise = factor_noise(lambda: statistics.gram, noise, statistics.n_rows)
        half = solve_triangle(factor, products)
        weights = solve_triangle(factor, half, transposed=True)
        largest = np.abs(weights).sum(axis=0) * scale + np.abs(mean)
    if not (largest < _LARGEST_ANSWER).all():
        raise ValueError(
            "The sums over rows are so large that answers would be no numbers. Fit the model anew, "
            "with targets in a larger unit."
        )
    # log det of the n x n matrix ZZ' + noise I, from the factor in M dimensions.
    n, M = statistics.n_rows, factor.shape[0]
    log_det = 2.0 * float(np.log(np.diag(factor)).sum()) + (n - M) * math.log(noise)
    # It equals |weights|² + |residuals|² / noise. For an interpolated target the residuals vanish
    # and the difference is only rounding, so |weights|² is a lower bound.
    quadratic = np.maximum((squares - np.sum(half**2, axis=0)) / noise, np.sum(weights**2, axis=0))
    log_likelihood = -0.5 * float(quadratic.sum()) - scale.size * 0.5 * (
        log_det + n * math.log(2.0 * math.pi) - statistics.log_weight
    )
    log_likelihood -= n * float(np.log(scale).sum())
    return WeightPosterior(weights, factor, noise), log_likelihood
