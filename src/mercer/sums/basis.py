"""Fixed sets of features, in which functions are linear, and the choice of dictionary points."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from mercer.kernels import Kernel, Mapped
from mercer.kernels.cells import Cells, k_means
from mercer.maps import Affine, FixedMap, PrincipalComponents
from mercer.sums.rows import distinct_rows
from mercer.sums.statistics import Statistics
from mercer.threads import in_order, tiles
from mercer.validation import check_choice, check_integer

Array = NDArray[np.float64]
Floats = NDArray[np.floating]
Indices = NDArray[np.int64]

#: Ways of choosing centres.
CENTERS = ("kmeans", "uniform", "leverage")
# Most rows that choose centres; more rows would move centres by less than sampling noise.
_MOST_ROWS = 30_000
_PILOTS = 1000  # sampled points for leverage scores
_CHUNK = 4096
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


class KernelBasis:
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

    def __init__(self, kernel: Kernel, points: Floats, dtype: DTypeLike | None = None) -> None:
        self.kernel = kernel
        self.points = points
        self.dtype = points.dtype if dtype is None else np.dtype(dtype)
        # Apply a fixed map to the dictionary only once.
        self._map, self._inner = None, kernel
        if isinstance(kernel, Mapped) and isinstance(kernel.map, FixedMap):
            self._map, self._inner = kernel.map, kernel.kernel
        self._images = self._image(points)

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

    @cached_property
    def precise(self) -> KernelBasis:
        """The same basis in double precision, which models predict in.

        The last bits of kernel values in single precision depend on which rows are computed
        together. Large coefficients would make the difference visible in predictions.
        """
        if self.dtype == self.points.dtype == np.float64:
            return self
        return KernelBasis(self.kernel, self.points.astype(np.float64, copy=False), np.float64)

    def _image(self, X: Any) -> Any:
        images = X if self._map is None else self._map(X)
        if self.dtype == np.float32 and images.dtype != self.dtype:
            return in_single(images)
        return images.astype(self.dtype, copy=False)

    def features(self, X: Any) -> Floats:
        """Return kernel values between rows and points, (n, n_points), in :attr:`dtype`."""
        values: Floats = np.empty((X.shape[0], self.size), self.dtype)

        def fill(some: slice) -> None:
            images = self._image(X[some].astype(self.points.dtype, copy=False))
            values[some] = self._inner(images, self._images)

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
    for start in range(0, len(X), _CHUNK):
        K = np.asarray(kernel(X[start : start + _CHUNK], pilots), dtype=np.float64)
        statistics.add(K, np.zeros((len(K), 1)), np.ones(len(K)))
    ridge = float(np.mean(kernel.diag(pilots))) / float(np.sqrt(len(X)))
    factor = statistics.factor(ridge, np.asarray(kernel(pilots), dtype=np.float64))
    scores = np.empty(len(X))
    for start in range(0, len(X), _CHUNK):
        K = np.asarray(kernel(X[start : start + _CHUNK], pilots), dtype=np.float64)
        scores[start : start + _CHUNK] = np.einsum("ij,ji->i", K, factor.solve(K.T))
    return scores
