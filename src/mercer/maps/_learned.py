"""Affine maps that are learned: from rows, at once or in pieces, or from a function's gradients.

Metrics are those in which a function learned before varies alike in all directions: a kernel of
distances treats all directions of its inputs alike, a target seldom does. The average outer product
of the gradients of a first model, G, tells the directions in which it varies; the kernel of a
second one measures its distances with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mercer._component import Component, own_copy
from mercer._validation import check_integer, check_real, choice, parameters
from mercer.maps._affine import Affine, FloatArray, check_rows

__all__ = [
    "LearnedMap",
    "MapStatistics",
    "PrincipalComponents",
    "Standardize",
    "ard_metric",
    "axes_of_rows",
    "full_metric",
    "leading_axes",
]

Array = NDArray[np.float64]

# Beyond this size, and for fewer axes than this share of it, Lanczos iterations are faster than
# reducing the whole matrix.
_LARGE = 1000
_FEW = 0.1

_BLOCK = 2048  # rows that are in memory as float64 at a time
_EPS = float(np.finfo(np.float64).eps)


def leading_axes(matrix: Array, n_axes: int) -> tuple[Array, Array]:
    """Largest eigenvalues of a positive semi-definite matrix, and their eigenvectors.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    n_axes : int
        Number of eigenvectors, from 1 to n.

    Returns
    -------
    values : ndarray of shape (n_axes,)
        Eigenvalues, the largest first, at least 0.
    axes : ndarray of shape (n, n_axes)
        Orthonormal columns. The largest number of each by size is positive; among numbers that are
        equal up to rounding, the first.

    Examples
    --------
    >>> values, axes = leading_axes(np.array([[1.0, -1.0], [-1.0, 1.0]]), 1)
    >>> values.round(6), axes.round(3).T
    (array([2.]), array([[ 0.707, -0.707]]))
    """
    n = len(matrix)
    found = _by_lanczos(matrix, n_axes) if n > _LARGE and n_axes <= _FEW * n else None
    if found is None:
        found = linalg.eigh(matrix, subset_by_index=(n - n_axes, n - 1))
    values, axes = found
    order = np.argsort(values)[::-1]
    return np.maximum(values[order], 0.0), _with_signs(axes[:, order])


def axes_of_rows(rows: Array, n_axes: int) -> tuple[Array, Array]:
    """Return ``leading_axes(rows.T @ rows, n_axes)`` of fewer rows than columns.

    Axes of eigenvalues that are 0 up to rounding are arbitrary.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Rows.
    n_axes : int
        Number of eigenvectors, from 1 to n_rows.

    Examples
    --------
    >>> values, axes = axes_of_rows(np.array([[3.0, 4.0, 0.0]]), 1)
    >>> values, axes.round(3).T
    (array([25.]), array([[0.6, 0.8, 0. ]]))
    """
    values, combinations = leading_axes(rows @ rows.T, n_axes)
    axes = rows.T @ combinations
    lengths = np.linalg.norm(axes, axis=0)
    # Of small eigenvalues products of rows know the directions up to parts of larger ones.
    axes = linalg.qr(axes / np.where(lengths > 0.0, lengths, 1.0), mode="economic")[0]
    return values, _with_signs(axes)


def _by_lanczos(matrix: Array, n_axes: int) -> tuple[Array, Array] | None:
    """Eigenvalues and eigenvectors, or None if the iterations do not converge."""
    # A fixed start makes the result a function of the matrix alone; random, because a regular one
    # may be orthogonal to an eigenvector.
    start = np.random.default_rng(0).standard_normal(len(matrix))
    try:
        values, axes = eigsh(matrix, n_axes, which="LA", v0=start)
    except ArpackNoConvergence:
        return None
    return values, axes


def _with_signs(axes: Array) -> Array:
    size = np.abs(axes)
    first = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    return np.asarray(axes * np.sign(axes[first, np.arange(axes.shape[1])]))


class LearnedMap(Component, ABC):
    """Parameters of an affine map whose numbers come from rows.

    The map is learned once and then stays: a function on a fixed dictionary would change without a
    step being taken if the map behind its kernel did. A map of one's own is a subclass with a
    constructor that stores its arguments, and :meth:`from_moments`.
    """

    #: Whether products of different columns are needed, beside the squares of each.
    needs_products = False

    @abstractmethod
    def from_moments(self, n_rows: int, mean: Array, deviations: Array) -> Affine:
        """Make the map from what is known of the rows.

        Parameters
        ----------
        n_rows : int
            Number of rows, at least 1.
        mean : ndarray of shape (n_inputs,)
            Mean of the rows.
        deviations : ndarray of shape (n_inputs,) or (n_inputs, n_inputs)
            Sums of the squared deviations from the mean, or, with ``needs_products``, of the
            products of the deviations of two columns.

        Returns
        -------
        map : Affine
            The map.

        Raises
        ------
        ValueError
            If no map can be made of these rows.
        """

    def start(self, n_inputs: int) -> MapStatistics:
        """Begin to learn from rows that come in pieces.

        Parameters
        ----------
        n_inputs : int
            Number of columns of the rows.

        Returns
        -------
        statistics : MapStatistics
            Takes rows by ``add`` and gives the map by ``finish``.

        Raises
        ------
        ValueError
            If ``n_inputs`` is no positive integer.

        Examples
        --------
        >>> from mercer.maps import Standardize
        >>> statistics = Standardize().start(n_inputs=1)
        >>> for rows in ([[1.0], [2.0]], [[3.0]]):
        ...     _ = statistics.add(rows)
        >>> statistics.finish() == Standardize().fit([[1.0], [2.0], [3.0]])
        True
        """
        return MapStatistics(self, n_inputs)

    def fit(self, X: ArrayLike) -> Affine:
        """Learn the map from rows; this object stays as it is.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows typical of those to come.

        Returns
        -------
        map : Affine
            The map, which holds numbers only.

        Raises
        ------
        ValueError
            If ``X`` is sparse, not two-dimensional, empty or not finite, or no map can be made of
            it.
        """
        n_inputs = np.shape(X)[1] if np.ndim(X) == 2 else 1
        return self.start(n_inputs).add(X).finish()

    def _require_finite_sums(self, mean: Array, deviations: Array) -> None:
        if not (np.isfinite(mean).all() and np.isfinite(deviations).all()):
            raise ValueError(
                f"{self!r} cannot be learned from rows with numbers as large as these: their "
                "squares overflow. Divide the columns by a power of ten."
            )


class MapStatistics:
    r"""What a learned map has to know of the rows seen so far.

    Means and sums of products of deviations of two sets of rows are merged exactly,

    .. math:: S = S_a + S_b + \frac{n_a n_b}{n_a + n_b} \delta \delta^T, \quad
              \delta = \bar x_b - \bar x_a,

    so that rows may come in any pieces. Deviations are taken from the first row before anything is
    summed: columns far from 0 lose no digits and constant ones have deviation 0 exactly.

    Parameters
    ----------
    learned : LearnedMap
        The map to learn.
    n_inputs : int
        Number of columns of the rows.

    Attributes
    ----------
    n_rows : int
        Number of rows seen.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", COMPSTAT 1982.
    """

    def __init__(self, learned: LearnedMap, n_inputs: int) -> None:
        self.n_inputs = check_integer("n_inputs", n_inputs, low=1)
        self.n_rows = 0
        self._learned = own_copy(learned)
        self._origin = np.zeros(n_inputs)
        self._mean = np.zeros(n_inputs)  # from the origin
        shape = (n_inputs, n_inputs) if learned.needs_products else (n_inputs,)
        self._deviations = np.zeros(shape)

    def add(self, X: ArrayLike) -> Self:
        """Take note of rows, which are not kept.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows.

        Returns
        -------
        self : MapStatistics
            With the rows added.

        Raises
        ------
        ValueError
            If ``X`` is sparse, of the wrong shape or not finite; nothing is added then.
        """
        rows = check_rows(X, self.n_inputs)
        _require_finite(rows)
        if self.n_rows == 0 and len(rows):
            self._origin = rows[0].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # looked at by `finish`
            for start in range(0, len(rows), _BLOCK):
                self._merge(rows[start : start + _BLOCK] - self._origin)
        return self

    def _merge(self, block: Array) -> None:
        n_a, n_b = self.n_rows, len(block)
        mean = block.mean(axis=0)
        block -= mean
        delta = mean - self._mean
        share = n_b / (n_a + n_b)
        if self._deviations.ndim == 1:
            self._deviations += np.einsum("ij,ij->j", block, block) + delta**2 * (n_a * share)
        else:
            self._deviations += block.T @ block
            self._deviations += np.multiply.outer(delta * (n_a * share), delta)
        self._mean += delta * share
        self.n_rows = n_a + n_b

    def finish(self) -> Affine:
        """Make the map of the rows seen so far; more may be added afterwards.

        Returns
        -------
        map : Affine
            The map.

        Raises
        ------
        ValueError
            If no row was added, their squares overflow, or no map can be made of them.
        """
        if self.n_rows == 0:
            raise ValueError(
                f"{self._learned!r} cannot be learned from no rows. Add some rows first."
            )
        mean = self._origin + self._mean
        self._learned._require_finite_sums(mean, self._deviations)
        return self._learned.from_moments(self.n_rows, mean, self._deviations.copy())


class Standardize(LearnedMap):
    r"""Mean 0 and standard deviation 1 in each column, :math:`x_j \mapsto (x_j - m_j) / s_j`.

    The population standard deviation, with divisor n. Constant columns have no scale of their own:
    they are divided by 1 and become 0.

    See Also
    --------
    mercer.data.TablePreprocessor : Tables with text, times and missing values.

    Examples
    --------
    >>> from mercer.maps import Standardize
    >>> standard = Standardize().fit([[1.0, 7.0], [3.0, 7.0]])
    >>> standard([[5.0, 7.0], [1.0, 8.0]])
    array([[ 3.,  0.],
           [-1.,  1.]])
    """

    def from_moments(self, n_rows: int, mean: Array, deviations: Array) -> Affine:
        """Make the map of means and sums of squared deviations; see :class:`LearnedMap`."""
        spread = np.sqrt(deviations / n_rows)
        # Differences of some ulps are rounding errors of a constant, not a scale to blow up.
        spread[spread <= 8 * _EPS * np.abs(mean)] = 1.0
        return Affine(mean, 1.0 / spread)


def _check_components(name: str, value: Any) -> None:
    if isinstance(value, float | np.floating):
        why = "It is a fraction of the variance. Write a number of components without a point."
        check_real(name, value, low=0, open_low=True, high=1, why=why)
    else:
        why = "For a fraction of the variance give a float, such as 0.9."
        check_integer(name, value, low=1, why=why)


class PrincipalComponents(LearnedMap):
    r"""Projection on the directions of largest variance, :math:`x \mapsto (x - m) V`.

    Parameters
    ----------
    n_components : int or float, default=50
        An integer: number of directions, at most. A float in (0, 1]: as many as explain this
        fraction of the variance. Never more than the rows span.
    whiten : bool, default=False
        Whether every component is divided by its standard deviation (with divisor n - 1).

    Raises
    ------
    ValueError
        If ``n_components`` is neither a positive integer nor a float in (0, 1]; on learning, if
        there are no two different rows.

    Notes
    -----
    The sign of a direction is free; here its largest number by size is positive. Learning keeps a
    matrix of n_inputs x n_inputs numbers, and its decomposition takes some seconds for several
    thousand inputs; ``fit`` on fewer rows than inputs needs neither.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import PrincipalComponents
    >>> X = [[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]]
    >>> line = PrincipalComponents(n_components=1).fit(X)
    >>> line(X)
    array([[-5.],
           [ 0.],
           [ 5.]])
    """

    needs_products = True

    _parameters = parameters(whiten=choice(True, False), n_components=_check_components)

    def __init__(self, n_components: int | float = 50, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten
        self._check()

    @property
    def _is_fraction(self) -> bool:
        return isinstance(self.n_components, float | np.floating)

    def from_moments(self, n_rows: int, mean: Array, deviations: Array) -> Affine:
        """Make the map of means and products of deviations; see :class:`LearnedMap`."""
        return self._from_axes(
            n_rows, mean, np.diag(deviations), lambda n_axes: leading_axes(deviations, n_axes)
        )

    def fit(self, X: ArrayLike) -> Affine:
        """Learn the map from rows, see :meth:`LearnedMap.fit`.

        Of fewer rows than columns, the products of rows are decomposed instead of those of columns.
        """
        n_rows, n_inputs = np.shape(X) if np.ndim(X) == 2 else (0, 1)
        if not 0 < n_rows < n_inputs:
            return super().fit(X)
        rows = check_rows(X, n_inputs)
        _require_finite(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            # From the first row, as in MapStatistics.
            deviations = rows - rows[0].astype(np.float64)
            shift = deviations.mean(axis=0)
            deviations -= shift
            variances = np.einsum("ij,ij->j", deviations, deviations)
            mean = rows[0] + shift
        return self._from_axes(
            n_rows, mean, variances, lambda n_axes: axes_of_rows(deviations, n_axes)
        )

    def _from_axes(
        self,
        n_rows: int,
        mean: Array,
        variances: Array,
        axes_of: Callable[[int], tuple[Array, Array]],
    ) -> Affine:
        with np.errstate(over="ignore"):
            total = variances.sum()  # bounds all products
        self._require_finite_sums(mean, total)
        spread = np.sqrt(variances / n_rows)
        if not (spread > 8 * _EPS * np.abs(mean)).any():
            raise ValueError(
                f"{self!r} needs at least two different rows, got {n_rows} row(s) that are all "
                "equal: they have no direction. Learn it from more rows, as `fit` does from the "
                "first ones."
            )
        # n rows span n - 1 directions from their mean.
        n_axes = min(len(mean), n_rows - 1)
        if not self._is_fraction:
            n_axes = min(n_axes, int(self.n_components))
        values, axes = axes_of(n_axes)
        if self._is_fraction:
            explained = np.cumsum(values)
            enough = float(self.n_components) * total * (1 - 1e-12)
            n_axes = int(np.searchsorted(explained, enough)) + 1
            values, axes = values[:n_axes], axes[:, :n_axes]
        real = values > len(mean) * _EPS * values[0]
        values, axes = values[real], axes[:, real]
        if self.whiten:
            axes = axes / np.sqrt(values / (n_rows - 1))
        return Affine(mean, np.ascontiguousarray(axes))


def _require_finite(rows: FloatArray) -> None:
    finite = np.isfinite(rows)
    if finite.all():
        return
    row, column = (int(i) for i in divmod(int(finite.argmin()), rows.shape[1]))
    raise ValueError(
        f"`X` must be finite, got {rows[row, column]:g} in column {column} (row {row}): means and "
        "variances of such rows mean nothing. Drop or impute them."
    )


def ard_metric(gradient_products: ArrayLike, *, floor: float = 0.01, drop: bool = True) -> Affine:
    r"""Scale of each input by how much a function varies with it.

    Column j is multiplied by :math:`\sqrt{G_{jj} / \max_i G_{ii}}`: automatic relevance
    determination, without an optimisation.

    Parameters
    ----------
    gradient_products : array-like of shape (n_inputs, n_inputs)
        Average outer product of gradients G, symmetric and positive semi-definite, as
        :func:`mercer.sums.average_gradient_outer_product` returns it.
    floor : float, default=0.01
        Weight in [0, 1], relative to the largest, below which a column hardly matters.
    drop : bool, default=True
        Whether columns of a weight below ``floor`` are dropped, which makes everything behind the
        map cheaper. Otherwise only columns without any influence are.

    Returns
    -------
    metric : Affine
        A scale of each column, the largest 1.

    Raises
    ------
    ValueError
        If G is not square, symmetric, finite and of a positive diagonal, or ``floor`` out of range.

    References
    ----------
    A. Radhakrishnan et al., "Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models", Science 2024: the average gradient outer product
    of kernel machines as a metric.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import ard_metric
    >>> ard_metric(np.diag([4.0, 1.0, 1e-9]))([[1.0, 1.0, 1.0]])
    array([[1. , 0.5]])
    """
    products = _gradient_products(gradient_products)
    low = check_real("floor", floor, low=0, high=1)
    weights = np.sqrt(np.diag(products) / np.diag(products).max())
    if drop:
        weights[weights < low] = 0.0
    return Affine(np.zeros(len(weights)), weights)


def full_metric(
    gradient_products: ArrayLike,
    n_outputs: int | None = None,
    *,
    floor: float = 0.01,
    drop: bool = True,
) -> Affine:
    r"""Directions of the inputs, scaled by how much a function varies along them.

    With :math:`G = V \Lambda V^T` the map is :math:`x \mapsto \Lambda^{1/2} V^T x`, the largest
    eigenvalue being scaled to 1, so that squared distances are :math:`(x - x')^T G (x - x')`.

    Parameters
    ----------
    gradient_products : array-like of shape (n_inputs, n_inputs)
        Average outer product of gradients G, symmetric and positive semi-definite, as
        :func:`mercer.sums.average_gradient_outer_product` returns it.
    n_outputs : int or None, default=None
        Number of directions, the most important ones, at most; None means all.
    floor : float, default=0.01
        Weight in [0, 1], relative to the largest, below which a direction hardly matters; weights
        are square roots of eigenvalues.
    drop : bool, default=True
        Whether directions of a weight below ``floor`` are dropped.

    Returns
    -------
    metric : Affine
        A matrix whose columns are orthogonal, the first of length 1.

    Raises
    ------
    ValueError
        If G is not square, symmetric, finite and of a positive diagonal, ``n_outputs`` is not
        positive, or ``floor`` out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import full_metric
    >>> metric = full_metric([[5.0, 3.0], [3.0, 5.0]])  # eigenvalues 8 and 2
    >>> metric([[1.0, 1.0], [1.0, -1.0]]).round(3) + 0.0
    array([[1.414, 0.   ],
           [0.   , 0.707]])
    """
    products = _gradient_products(gradient_products)
    low = check_real("floor", floor, low=0, high=1)
    n_axes = len(products)
    if n_outputs is not None:
        n_axes = min(n_axes, check_integer("n_outputs", n_outputs, low=1))
    values, axes = leading_axes(products, n_axes)
    weights = np.sqrt(values / values[0])
    if drop:
        kept = weights >= low
        weights, axes = weights[kept], axes[:, kept]
    return Affine(np.zeros(len(products)), axes * weights)


def _gradient_products(value: ArrayLike) -> Array:
    G = np.array(value, dtype=np.float64)
    if G.ndim != 2 or G.shape[0] != G.shape[1] or not np.isfinite(G).all():
        raise ValueError(
            f"`gradient_products` must be a square matrix of finite numbers, got the shape "
            f"{G.shape}" + (" with NaN or infinity." if G.ndim == 2 else ".")
        )
    size = np.abs(G).max(initial=0.0)
    if np.abs(G - G.T).max(initial=0.0) > 1e-8 * size or (np.diag(G) < 0).any():
        raise ValueError(
            "`gradient_products` must be symmetric with no negative number on the diagonal: it is "
            "an average of products g g' of gradients."
        )
    if np.diag(G).max(initial=0.0) == 0.0:
        raise ValueError(
            "`gradient_products` must not be 0: the function is constant and prefers no direction. "
            "Learn it first, or keep the inputs as they are."
        )
    return G
