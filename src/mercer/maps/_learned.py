"""Affine maps that are learned from rows, at once or in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._component import Component, own_copy
from mercer._validation import check_integer, check_real, choice, parameters
from mercer.maps._affine import Affine, FloatArray, check_rows
from mercer.maps._axes import axes_of_rows, leading_axes

__all__ = ["LearnedMap", "MapStatistics", "PrincipalComponents", "Standardize"]

Array = NDArray[np.float64]

_BLOCK = 2048  # rows that are in memory as float64 at a time
_EPS = float(np.finfo(np.float64).eps)


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
