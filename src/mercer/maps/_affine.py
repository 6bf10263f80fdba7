"""Affine maps of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer._component import Component

__all__ = ["Affine", "check_rows"]

Array = NDArray[np.float64]
FloatArray = NDArray[np.floating[Any]]


class _Numbers(NamedTuple):
    """Numbers of an affine map of the columns it keeps, in one dtype."""

    shift: FloatArray
    matrix: FloatArray
    offset: FloatArray | None


class Affine(Component):
    r"""Affine map of rows, :math:`x \mapsto (x - s) M + b`.

    Standardisation, principal components, a metric learned from gradients and any chain of these
    are affine. It holds nothing but numbers, so that kernels behind it can be stored.

    Parameters
    ----------
    shift : array-like of shape (n_inputs,)
        The origin s, in units of the inputs.
    matrix : array-like of shape (n_inputs,) or (n_inputs, n_outputs)
        One-dimensional: a scale of each column, M = diag(matrix). Columns of scale 0 are *dropped*
        from the output, which makes everything behind the map cheaper. Two-dimensional: M itself.
    offset : array-like of shape (n_outputs,), default=None
        The point b that the origin is mapped to; None is 0. Kernels of differences do not depend on
        it; it is there because chains of maps need it.

    Attributes
    ----------
    n_inputs : int
        Number of columns of the rows it takes.
    n_outputs : int
        Number of columns of the rows it returns.

    Raises
    ------
    ValueError
        If a number is not finite, the shapes do not fit together, or no column is left.

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
            Rows. NaN and infinity are not looked for: they stay in their row, or vanish with their
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
        # A scale beyond the range of float32 would make infinities of ordinary numbers.
        numbers = self._single if rows.dtype == np.float32 else self._numbers
        shift, matrix, offset = self._numbers if numbers is None else numbers
        mapped: FloatArray = rows - shift
        if matrix.ndim == 1:
            mapped *= matrix
        else:
            mapped = mapped @ matrix
        if offset is not None:
            mapped += offset
        return mapped.astype(rows.dtype, copy=False)

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
            If ``other`` is no affine map of as many inputs as this one has outputs.
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
        """Rows that are mapped to given images, or as near to them as there are any.

        Parameters
        ----------
        images : array-like of shape (n_rows, n_outputs)
            Images of rows under this map.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_inputs)
            Of all rows with these images those nearest to ``shift``, which columns that are dropped
            have the values of; float32 if ``images`` is, else float64.

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
        # A diagonal matrix meets rows: those of the other, by the columns that this one keeps.
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
