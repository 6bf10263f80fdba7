"""Affine maps of rows: given, learned from rows at once or in pieces, or from gradients.

A metric is a map after which a learned function varies equally in all directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mercer.component import Component, own_copy
from mercer.numerics.dense import Multiplication
from mercer.threads import own_property
from mercer.validation import check_integer, check_real, choice, parameters

Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]


class _Numbers(NamedTuple):
    """Numbers of an affine map of the columns it keeps, in one dtype."""

    shift: FloatArray
    matrix: FloatArray
    offset: FloatArray | None


class FixedMap(Component, ABC):
    """A map of rows that consists only of numbers, so that kernels with it can be stored."""

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of columns of the rows it returns."""

    @abstractmethod
    def __call__(self, X: ArrayLike) -> FloatArray:
        """Map rows: (n_rows, n_inputs) to (n_rows, n_outputs), in float32 if they are."""

    @abstractmethod
    def then(self, other: Affine) -> FixedMap:
        """Chain of two maps as one, x -> other(self(x))."""

    @abstractmethod
    def preimage(self, images: ArrayLike) -> FloatArray:
        """Return rows that are mapped to given images, or as near to them as possible."""


class Affine(FixedMap):
    r"""Affine map of rows, :math:`x \mapsto (x - s) M + b`.

    Standardisation, principal components, a metric learned from gradients and any chain of these
    are affine. An affine map consists only of numbers, so kernels with it can be stored.

    Parameters
    ----------
    shift : array-like of shape (n_inputs,)
        The origin s, in units of the inputs.
    matrix : array-like of shape (n_inputs,) or (n_inputs, n_outputs)
        One-dimensional: a scale of each column, M = diag(matrix). Columns of scale 0 are *dropped*
        from the output, which makes everything after the map cheaper. Two-dimensional: M itself.
    offset : array-like of shape (n_outputs,), default=None
        The point b that the origin is mapped to; None is 0. Kernels of differences do not depend on
        it; chains of maps need it.

    Attributes
    ----------
    n_inputs : int
        Number of columns of the rows it takes.
    n_outputs : int
        Number of columns of the rows it returns.

    Raises
    ------
    ValueError
        If a number is not finite, the shapes do not fit together, or all columns are dropped.

    See Also
    --------
    Standardize, PrincipalComponents : Affine maps learned from rows.
    mercer.kernels.Mapped : Kernels after a map.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.maps import Affine
    >>> scale = Affine([1.0, 0.0, 2.0], [0.5, 0.0, 10.0])
    >>> scale([[3.0, 7.0, 2.1]]).round(6)
    array([[1., 1.]])
    >>> both = scale.then(Affine([0.0, 0.0], [[1.0], [1.0]]))
    >>> both.n_inputs, both.n_outputs
    (3, 1)
    >>> both([[3.0, 7.0, 2.1]]).round(6)
    array([[2.]])
    """

    def __init__(
        self, shift: ArrayLike, matrix: ArrayLike, offset: ArrayLike | None = None
    ) -> None:
        self.shift = shift
        self.matrix = matrix
        self.offset = offset
        self._check()

    def _check(self) -> None:
        shift = _finite("shift", self.shift)
        matrix = _finite("matrix", self.matrix)
        if shift.ndim != 1 or matrix.ndim not in (1, 2) or len(matrix) != len(shift):
            raise ValueError(
                "`shift` must have the shape (n_inputs,) and `matrix` (n_inputs,) or (n_inputs, "
                f"n_outputs), got {shift.shape} and {matrix.shape}. Give one row of `matrix`, or "
                "one scale, for each column of the inputs."
            )
        #: Columns of the inputs that count; None means all.
        self._kept: NDArray[np.intp] | None = None
        self._n_inputs = len(shift)
        if matrix.ndim == 1 and not matrix.all():
            self._kept = np.flatnonzero(matrix)
            shift, matrix = shift[self._kept], matrix[self._kept]
        if matrix.shape[-1] == 0:
            raise ValueError(
                "`matrix` must leave a column, got none other than of scale 0: all rows would "
                "become equal. Keep at least one column."
            )
        offset = None if self.offset is None else _finite("offset", self.offset)
        if offset is not None and offset.shape != matrix.shape[-1:]:
            raise ValueError(
                f"`offset` must have the shape {matrix.shape[-1:]}, one number for each column of "
                f"the output, got {offset.shape}. Columns of scale 0 are dropped and have none."
            )
        self._numbers = _Numbers(shift, matrix, offset)
        self._single = _in_single_precision(self._numbers)

    @property
    def n_inputs(self) -> int:
        """Number of columns of the rows it takes."""
        return self._n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of columns of the rows it returns."""
        return int(self._numbers.matrix.shape[-1])

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows. They are not checked: NaN and infinity stay in their row, or vanish with their
            column.

        Returns
        -------
        mapped : ndarray of shape (n_rows, n_outputs)
            A new array, C-ordered; float32 if ``X`` is, else float64.

        Raises
        ------
        ValueError
            If ``X`` is sparse or of the wrong shape.
        """
        rows = check_rows(X, self.n_inputs)
        if self._kept is not None:
            rows = np.take(rows, self._kept, axis=1)
        # A scale beyond the range of float32 would turn ordinary numbers into infinities.
        numbers = self._single if rows.dtype == np.float32 else self._numbers
        shift, matrix, offset = self._numbers if numbers is None else numbers
        mapped: FloatArray
        if matrix.ndim == 2 and matrix.dtype == np.float64:
            mapped = self._multiplication(rows.astype(np.float64, copy=False))
        else:
            mapped = rows - shift
            mapped = mapped * matrix if matrix.ndim == 1 else mapped @ matrix
        if offset is not None:
            mapped += offset
        return mapped.astype(rows.dtype, copy=False)

    @own_property
    def _multiplication(self) -> Multiplication:
        return Multiplication(self._numbers.shift, self._numbers.matrix)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the packed matrix."""
        return {name: value for name, value in vars(self).items() if name != "_multiplication"}

    def then(self, other: Affine) -> Affine:
        """Chain of two maps as one, x -> other(self(x)).

        Parameters
        ----------
        other : Affine
            The map after this one.

        Returns
        -------
        chain : Affine
            Equal to the two maps up to rounding; a scale of each column if both are.

        Raises
        ------
        ValueError
            If ``other`` is not an affine map with as many inputs as this map has outputs.
        """
        if not isinstance(other, Affine) or other.n_inputs != self.n_outputs:
            raise ValueError(
                f"`other` must be an Affine map of {self.n_outputs} inputs, the outputs of this "
                f"one, got {other!r}."
            )
        # (x - s) M + b, less the shift of the other map, times its matrix.
        between = -np.asarray(other.shift, dtype=np.float64)
        if self._numbers.offset is not None:
            between = between + self._numbers.offset
        offset = other._linear(between)
        if other._numbers.offset is not None:
            offset = offset + other._numbers.offset
        return Affine(
            np.array(self.shift, dtype=np.float64),
            self._matrix_before(other),
            offset if offset.any() else None,
        )

    def pull_back(self, gradients: ArrayLike) -> FloatArray:
        """Gradients with respect to the inputs from those with respect to the outputs.

        Parameters
        ----------
        gradients : array-like of shape (..., n_outputs)
            Gradients of functions of the mapped rows.

        Returns
        -------
        gradients : ndarray of shape (..., n_inputs)
            Gradients of the functions after the map, 0 for the columns that are dropped.

        Raises
        ------
        ValueError
            If the last axis is not of the length ``n_outputs``.

        Examples
        --------
        >>> from mercer.maps import Affine
        >>> Affine([0.0, 0.0], [3.0, 0.0]).pull_back([[1.0]])
        array([[3., 0.]])
        """
        outer = np.asarray(gradients)
        if outer.ndim == 0 or outer.shape[-1] != self.n_outputs:
            raise ValueError(
                f"`gradients` must have {self.n_outputs} numbers each, one for each output of the "
                f"map, got the shape {outer.shape}."
            )
        matrix = self._numbers.matrix
        if matrix.ndim == 2:
            return np.asarray(outer @ matrix.T)
        if self._kept is None:
            return np.asarray(outer * matrix)
        inner = np.zeros((*outer.shape[:-1], self.n_inputs))
        inner[..., self._kept] = outer * matrix
        return inner

    def preimage(self, images: ArrayLike) -> FloatArray:
        """Return rows that are mapped to given images, or as near to them as possible.

        Parameters
        ----------
        images : array-like of shape (n_rows, n_outputs)
            Images of rows under this map.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_inputs)
            Of all rows with these images, the rows nearest to ``shift``; dropped columns have its
            values. float32 if ``images`` is, else float64.

        Raises
        ------
        ValueError
            If the rows are of another length than ``n_outputs``.

        Examples
        --------
        >>> from mercer.maps import Affine
        >>> scale = Affine([1.0, 7.0], [0.5, 0.0])
        >>> scale.preimage(scale([[3.0, 9.0]]))
        array([[3., 7.]])
        """
        mapped = check_rows(images, self.n_outputs)
        shift, matrix, offset = self._numbers
        centred = mapped if offset is None else mapped - offset
        rows = np.tile(np.asarray(self.shift, dtype=np.float64), (len(mapped), 1))
        kept = slice(None) if self._kept is None else self._kept
        rows[:, kept] = shift + (
            centred / matrix if matrix.ndim == 1 else centred @ np.linalg.pinv(matrix)
        )
        return rows.astype(mapped.dtype, copy=False)

    def _linear(self, vector: Array) -> Array:
        """Image of a vector under the matrix alone."""
        matrix = self._numbers.matrix
        if matrix.ndim == 2:
            return np.asarray(vector @ matrix)
        return np.asarray((vector if self._kept is None else vector[self._kept]) * matrix)

    def _matrix_before(self, other: Affine) -> Array:
        """Matrix of the chain with ``other``, one-dimensional if both are."""
        mine, theirs = self._numbers.matrix, other._numbers.matrix
        if mine.ndim == 2:
            if theirs.ndim == 2:
                return np.asarray(mine @ theirs)
            return np.asarray((mine if other._kept is None else mine[:, other._kept]) * theirs)
        # This map's matrix is diagonal: scale the rows of the other matrix that it keeps.
        right = np.asarray(other.matrix, dtype=np.float64)
        product = np.zeros((self.n_inputs, *right.shape[1:]))
        kept = slice(None) if self._kept is None else self._kept
        product[kept] = mine.reshape(-1, *(1,) * (right.ndim - 1)) * right
        return product


def check_rows(X: Any, n_inputs: int) -> FloatArray:
    """Dense rows as a C-ordered array of float32, or else float64.

    Raises
    ------
    ValueError
        If they are sparse, complex, not two-dimensional or of another number of columns.
    """
    if sparse.issparse(X):
        raise ValueError(
            "`X` must be dense, got a sparse matrix: an affine map moves the zeros. Use "
            "X.toarray(), a block of rows at a time if need be."
        )
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] != n_inputs or np.iscomplexobj(rows):
        raise ValueError(
            f"`X` must be real and of the shape (n_rows, {n_inputs}), got {rows.shape} of dtype "
            f"{rows.dtype}. The map was made for rows of {n_inputs} columns."
        )
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    return np.ascontiguousarray(rows, dtype=dtype)


def _finite(name: str, value: Any) -> Array:
    """Copy of an array parameter as finite numbers."""
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must be an array of finite numbers, got {value!r}.")
    return numbers


def _in_single_precision(numbers: _Numbers) -> _Numbers | None:
    """Round the numbers to float32; None if one of them is beyond its range."""
    with np.errstate(over="ignore"):
        arrays = [None if a is None else a.astype(np.float32) for a in numbers]
    if not all(a is None or np.isfinite(a).all() for a in arrays):
        return None
    return _Numbers(*arrays)  # type: ignore[arg-type]  # the first two are arrays


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


class LearnableMap(Component, ABC):
    """Parameters of a map whose numbers come from rows: ``fit`` makes the map."""

    @abstractmethod
    def fit(self, X: ArrayLike) -> Any:
        """Return the map learned from rows; this object is not changed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Typical rows.
        """

    def _require_finite_sums(self, *sums: Array) -> None:
        if not all(np.isfinite(each).all() for each in sums):
            raise ValueError(
                f"{self!r} cannot be learned from rows with numbers as large as these: their "
                "squares overflow. Divide the columns by a power of ten."
            )


class LearnedMap(LearnableMap):
    """Parameters of an affine map whose numbers come from sums over rows.

    The map is learned once and stays fixed: if it changed, a function on a fixed dictionary would
    change without a step. To define such a map, subclass this with a constructor that stores its
    arguments, and define :meth:`from_moments`.
    """

    #: Whether products of different columns are needed, in addition to squares.
    needs_products = False

    @abstractmethod
    def from_moments(self, n_rows: int, mean: Array, deviations: Array) -> Affine:
        """Return the map made from moments of the rows.

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
        """Return statistics for learning from rows that come in pieces.

        Parameters
        ----------
        n_inputs : int
            Number of columns of the rows.

        Returns
        -------
        statistics : MapStatistics
            Receives rows by ``add`` and returns the map by ``finish``.

        Raises
        ------
        ValueError
            If ``n_inputs`` is not a positive integer.

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
        """Return the map learned from rows; this object is not changed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Typical rows.

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
        """Add rows to the statistics; the rows are not kept.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_inputs)
            Rows.

        Returns
        -------
        self : MapStatistics
            This object.

        Raises
        ------
        ValueError
            If ``X`` is sparse, of the wrong shape or not finite; then nothing is added.
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

    Uses the population standard deviation, with divisor n. Constant columns are divided by 1 and
    become 0.

    See Also
    --------
    mercer.columns.TablePreprocessor : Tables with text, times and missing values.

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
        If ``n_components`` is neither a positive integer nor a float in (0, 1]; in learning, if all
        rows are equal.

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

        With fewer rows than columns, inner products of rows are decomposed, instead of columns.
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
    gradient_products : array-like of shape (n_inputs, n_inputs) or (n_inputs,)
        Average outer product of gradients G, symmetric and positive semi-definite, as
        :func:`mercer.sums.average_gradient_outer_product` returns it, or its diagonal.
    floor : float, default=0.01
        Weight in [0, 1], relative to the largest, below which a column hardly matters.
    drop : bool, default=True
        Whether columns with a weight below ``floor`` are dropped, which makes everything after the
        map cheaper. Otherwise only columns without any influence are dropped.

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
    diagonal = _gradient_products(gradient_products, of_diagonal=True)
    diagonal = diagonal if diagonal.ndim == 1 else np.diag(diagonal)
    low = check_real("floor", floor, low=0, high=1)
    weights = np.sqrt(diagonal / diagonal.max())
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
        Whether directions with a weight below ``floor`` are dropped.

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


def _gradient_products(value: ArrayLike, *, of_diagonal: bool = False) -> Array:
    G = np.array(value, dtype=np.float64)
    square = G.ndim == 2 and G.shape[0] == G.shape[1]
    alone = of_diagonal and G.ndim == 1
    if not (square or alone) or not np.isfinite(G).all():
        raise ValueError(
            f"`gradient_products` must be a square matrix of finite numbers, got the shape "
            f"{G.shape}" + (" with NaN or infinity." if square or alone else ".")
        )
    diagonal, size = G if alone else np.diag(G), np.abs(G).max(initial=0.0)
    if (square and np.abs(G - G.T).max(initial=0.0) > 1e-8 * size) or (diagonal < 0).any():
        raise ValueError(
            "`gradient_products` must be symmetric with no negative number on the diagonal: it is "
            "an average of products g g' of gradients."
        )
    if diagonal.max(initial=0.0) == 0.0:
        raise ValueError(
            "`gradient_products` must not be 0: the function is constant and prefers no direction. "
            "Learn it first, or keep the inputs as they are."
        )
    return G
