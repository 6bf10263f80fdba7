"""Points to build a fixed dictionary on, chosen among rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._validation import check_choice, check_integer
from mercer.kernels import Kernel, Mapped
from mercer.kernels.cells import Cells, k_means
from mercer.maps import Affine, PrincipalComponents
from mercer.sums.statistics import Statistics

__all__ = ["CENTERS", "choose_centers", "distinct_rows"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]

#: Ways of choosing centres.
CENTERS = ("kmeans", "uniform", "leverage")
# Rows that are looked at; more of them move the centres by less than their own noise.
_MOST_ROWS = 30_000
_PILOTS = 1000  # of leverage scores
_CHUNK = 4096
# Clusters of rows with more columns than the first are those of so many principal components:
# many columns cost much, and their noise hides which centre is nearest.
_MANY_COLUMNS, _COMPONENTS = 64, 50


def choose_centers(
    X: Floats,
    size: int,
    method: str = "kmeans",
    *,
    labels: NDArray[np.integer[Any]] | None = None,
    kernel: Kernel | None = None,
    seed: int = 0,
) -> Floats:
    r"""Points for a dictionary: all rows if there are few, else some or the means of some.

    Rows that are equal, after the map of a ``Mapped`` kernel, count as one.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Finite rows, float64 or float32, at least one. Of more than 30,000 and ``size`` a sample is
        looked at.
    size : int
        How many points there may be.
    method : {"kmeans", "uniform", "leverage"}, default="kmeans"
        ``"kmeans"``: the means of clusters (Lloyd's algorithm). Behind a ``Mapped`` kernel the
        clusters are those of the mapped rows; of more than 64 columns, those of 50 principal
        components. The points are the means of their rows, which an
        affine map sends to the centres; behind another map they are the rows nearest to the
        centres. ``"uniform"``: rows drawn at random. ``"leverage"``: rows drawn with probabilities
        in proportion to their ridge leverage scores, so that rare kinds of rows are represented.
    labels : ndarray of shape (n_rows,) of int, default=None
        Class numbers: each class gets centres of its own, in proportion to its rows but at least
        one. For "kmeans".
    kernel : Kernel, default=None
        With its numbers resolved. Needed by "leverage", and by maps.
    seed : int, default=0
        Of the sample and the choice.

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
        # The largest of log(score) plus Gumbel noise are drawn without replacement.
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
    points = [
        _means(X[rows], image[rows], n, seed, affine) for rows, n in zip(groups, sizes, strict=True)
    ]
    together = np.vstack(points).astype(X.dtype)
    return _picked(together, distinct_rows(_image(together, kernel)))


def _picked(X: Floats, numbers: Indices) -> Floats:
    """Return some rows, in their order."""
    return np.take(X, np.sort(numbers), axis=0)


def _image(X: Floats, kernel: Kernel | None) -> Floats:
    """Rows as the kernel sees them."""
    if not isinstance(kernel, Mapped):
        return X
    image: Floats = np.ascontiguousarray(kernel.unwrapped()[0](X), dtype=X.dtype)
    return image


def distinct_rows(rows: Floats) -> Indices:
    """Return the numbers of the rows that equal no earlier one.

    Examples
    --------
    >>> distinct_rows(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]]))
    array([0, 1])
    """
    # Adding 0 makes -0 equal to 0, byte by byte.
    whole = np.ascontiguousarray(rows + 0.0)
    keys = whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()
    firsts = np.unique(keys, return_index=True)[1]
    return np.asarray(np.sort(firsts), dtype=np.int64)


def _shares(counts: Indices, size: int) -> Indices:
    """Share out ``size`` points in proportion to counts: at least one each, at most the count."""
    ideal = size * counts / counts.sum()
    shares: Indices = np.clip(np.floor(ideal), 1, counts).astype(np.int64)
    while shares.sum() > size:
        shares[np.argmax(np.where(shares > 1, shares - ideal, -np.inf))] -= 1
    while shares.sum() < size:
        shares[np.argmax(np.where(shares < counts, ideal - shares, -np.inf))] += 1
    return shares


def _means(X: Floats, image: Floats, size: int, seed: int, affine: bool) -> Floats:
    """Means of the rows of the clusters; or, if not affine, the rows nearest to the centres."""
    rows = image.astype(np.float32)
    if not np.isfinite(rows).all():
        rows = image  # beyond the range of single precision
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
    """Ridge leverage scores of rows, on a sample of them."""
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
