"""Kernels: the base class; their sums, products and multiples; and kernels after a map.

Distances, angles and inner products of all pairs of rows are the arithmetic under the kernels.
Dense arguments are C-contiguous and of one dtype, float32 or float64, which is also the dtype of
the result. ``Z`` may be ``X`` itself; the result is then exactly symmetric, with an exact diagonal.

Compiled loops know a kernel by the address of its row function, which fills
``out[i] = k(points[i], x)`` for ``n`` points of ``d`` features stored row after row. It is defined
next to its kernel, compiled at its first use, and compared with the kernel's array formula by a
test.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba import types
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from mercer.component import Component
from mercer.features.composite import MappedMap, ProductMap, ScaledMap, SumMap, child_paths
from mercer.features.cosine import joined_cosines
from mercer.features.feature_map import FeatureMap, FeatureOptions, features_of
from mercer.jit import c_function, jit
from mercer.maps import Affine, LearnableMap
from mercer.numerics.expansions import CLOSE, Profile
from mercer.pointers import call_pointer
from mercer.validation import check_integer, parameters, positive

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}


class CompiledKernel(NamedTuple):
    """A kernel with its numbers, as compiled code.

    Attributes
    ----------
    address : int
        Address of the C function ``void row(T *points, T *x, T *out, double *parameters,
        int64_t n, int64_t d)`` with ``out[i] = k(points[i], x)``; ``points`` has shape (n, d), row
        after row. It stays valid for the life of the process.
    parameters : ndarray of shape (n_parameters,), float64
        What to pass as ``parameters``.
    """

    address: int
    parameters: NDArray[np.float64]


class RowFunction(NamedTuple):
    """A row function before it is compiled.

    Attributes
    ----------
    function : callable
        Python function of the arguments of the C function, in the language of numba.
    parameters : tuple of float
        Its parameters.
    cache : bool
        Whether its compiled code is kept on disk.
    """

    function: Callable[..., None]
    parameters: tuple[float, ...]
    cache: bool = True


def compile_row(row: RowFunction, dtype: DTypeLike) -> CompiledKernel:
    """Compile a row function for points of ``dtype``, float32 or float64."""
    compiled = _compile(row.function, np.dtype(dtype).char, row.cache)
    return CompiledKernel(compiled.address, np.array(row.parameters, dtype=np.float64))


@functools.cache
def _compile(row: Callable[..., None], char: str, cache: bool) -> Any:
    pointer: Any = types.CPointer
    points = pointer({"f": types.float32, "d": types.float64}[char])
    parameters = pointer(types.float64)
    signature = types.void(points, points, points, parameters, types.int64, types.int64)
    return c_function(signature, cache=cache, **_OPTIONS)(row)


def gram_by_rows(code: CompiledKernel, X: NDArray[Any], Z: NDArray[Any]) -> NDArray[Any]:
    """Kernel matrix by compiled rows, for kernels whose one formula is their row function.

    Parameters
    ----------
    code : CompiledKernel
        The kernel, compiled for the dtype of the points.
    X : ndarray of shape (n_rows_X, n_features)
        Points, C-ordered, float32 or float64.
    Z : ndarray of shape (n_rows_Z, n_features)
        Points of the same dtype; if it is ``X`` itself, half of the matrix is computed and the
        result is exactly symmetric.

    Returns
    -------
    K : ndarray of shape (n_rows_X, n_rows_Z)
        Kernel values.
    """
    K = np.zeros((len(X), len(Z)), dtype=X.dtype)
    arrays = tuple(array.ctypes.data for array in (X, Z, K, code.parameters))
    _fill_rows(code.address, arrays, (len(X), len(Z), X.shape[1], X.itemsize), Z is X)
    if Z is X:
        K += np.tril(K, -1).T
    return K


# Addresses instead of arrays: compiled once, for either precision and for read-only arrays.
@jit(nogil=True)
def _fill_rows(address, arrays, sizes, lower):  # type: ignore[no-untyped-def]
    x, z, out, parameters = arrays
    n, m, d, size = sizes
    for i in range(n):
        count = i + 1 if lower else m
        row = (z, x + i * d * size, out + i * m * size, parameters, np.int64(count), np.int64(d))
        call_pointer(address, row)


FloatArray = NDArray[np.floating[Any]]

# Below this fraction of |x|^2 + |z|^2 a squared distance has lost too many digits to cancellation
# and is computed from the difference of the rows instead.
_CLOSE_DISTANCE = {"f": CLOSE, "d": 1e-6}
# Likewise for the distance of a cosine from 1 or -1, where the arc cosine loses half the digits.
_CLOSE_COSINE = {"f": 1e-2, "d": 1e-4}
_N_ROWS_FOR_CENTRE = 64
_TILE = 64  # rows of Z that stay in cache while all rows of X pass
_WIDE_TILE = 512  # distances of a row that stay there while columns pass

_jit = jit(nogil=True, **_OPTIONS)


def inner_products(X: Any, Z: Any) -> FloatArray:
    """Inner products of rows, shape (n_rows_X, n_rows_Z); either may be sparse."""
    products = X @ Z.T
    dense: FloatArray = products.toarray() if sparse.issparse(products) else products
    return dense


def squared_norms(X: Any) -> FloatArray:
    """Squared Euclidean norms of rows, shape (n_rows,); ``X`` may be sparse."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=X.dtype).ravel()
    squares: FloatArray = np.einsum("ij,ij->i", X, X)
    return squares


def squared_distances(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Squared Euclidean distances of rows by one matrix product, shape (n_rows_X, n_rows_Z).

    The expansion |x|^2 + |z|^2 - 2 <x, z> cancels twice over: for data far from the origin, which
    are therefore shifted by their centre, and for rows close to each other, which are therefore
    subtracted directly. Equal rows are at distance 0 exactly.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # repaired below
        x2, z2 = _squared_norms_of_both(X, Z)
        if len(Z) and X.shape[1]:
            centre = Z[:: -(-len(Z) // _N_ROWS_FOR_CENTRE)].mean(axis=0)
            # Shifting costs a copy of the data, so only where it gains a digit or more.
            if centre @ centre > 0.9 * z2.mean():
                same = Z is X
                X = X - centre
                Z = X if same else Z - centre
                x2, z2 = _squared_norms_of_both(X, Z)
        D = inner_products(X, Z)
    scalar = D.dtype.type
    close, alike = scalar(_CLOSE_DISTANCE[D.dtype.char]), Z is X
    _complete_squared_distances(D, x2, z2, X, Z, close, scalar(0), alike)
    return D


def _squared_norms_of_both(X: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    x2 = squared_norms(X)
    return x2, x2 if Z is X else squared_norms(Z)


@_jit
def _complete_squared_distances(D, x2, z2, X, Z, close, zero, alike):  # type: ignore[no-untyped-def]
    n, m = D.shape
    for i in range(n):
        n_close = 0
        for j in range(m):
            total = x2[i] + z2[j]
            D[i, j] = total - (D[i, j] + D[i, j])
            # "Not at least" rather than "below": it also catches the NaN of an overflow.
            n_close += not (D[i, j] >= close * total)
        itself = alike and x2[i] < np.inf and not (D[i, i] >= close * (x2[i] + x2[i]))
        if itself and n_close == 1:
            D[i, i] = zero
        elif n_close > 0:
            for j in range(m):
                if not (D[i, j] >= close * (x2[i] + z2[j])):
                    s = zero
                    for k in range(X.shape[1]):
                        t = X[i, k] - Z[j, k]
                        s += t * t
                    D[i, j] = s


def cityblock_distances(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Cityblock distances, sums of absolute differences of rows, (n_rows_X, n_rows_Z)."""
    D = np.empty((len(X), len(Z)), dtype=X.dtype)
    _cityblock(X, np.ascontiguousarray(Z.T), D, X.dtype.type(0), Z is X)
    return D


@_jit
def _cityblock(X, Z, D, zero, alike):  # type: ignore[no-untyped-def]
    """Distances between the rows of X and the columns of Z, or of X if ``alike``."""
    n_columns = X.shape[1]
    whole = n_columns - n_columns % 4
    for first_one in range(0, D.shape[1], _WIDE_TILE):
        stop = min(first_one + _WIDE_TILE, D.shape[1])
        for i in range(len(X)):
            start = max(first_one, i) if alike else first_one
            if start >= stop:
                break
            # Side by side in the registers are points, not columns, of which there may be few.
            row = D[i, start:stop]
            row[:] = zero
            for k in range(0, whole, 4):
                x0, x1, x2, x3 = X[i, k], X[i, k + 1], X[i, k + 2], X[i, k + 3]
                z0, z1 = Z[k, start:stop], Z[k + 1, start:stop]
                z2, z3 = Z[k + 2, start:stop], Z[k + 3, start:stop]
                for j in range(row.size):
                    first = abs(x0 - z0[j]) + abs(x1 - z1[j])
                    row[j] += first + (abs(x2 - z2[j]) + abs(x3 - z3[j]))
            for k in range(whole, n_columns):
                x, z = X[i, k], Z[k, start:stop]
                for j in range(row.size):
                    row[j] += abs(x - z[j])
    if alike:
        for start in range(0, len(D), _TILE):  # what is below the diagonal
            for first_one in range(0, start + 1, _TILE):
                for i in range(start, min(start + _TILE, len(D))):
                    for j in range(first_one, min(first_one + _TILE, i)):
                        D[i, j] = D[j, i]


def cauchy_products(X: FloatArray, Z: FloatArray, inverse_scale: float) -> FloatArray:
    """Products over features of 1 + (difference * inverse_scale)^2, (n_rows_X, n_rows_Z)."""
    P = np.empty((len(X), len(Z)), dtype=X.dtype)
    scalar = X.dtype.type
    _cauchy_products(X, Z, P, scalar(inverse_scale), scalar(1))
    return P


@_jit
def _cauchy_products(X, Z, P, inverse_scale, one):  # type: ignore[no-untyped-def]
    for start in range(0, len(Z), _TILE):
        for i in range(len(X)):
            for j in range(start, min(start + _TILE, len(Z))):
                s = one
                for k in range(X.shape[1]):
                    t = (X[i, k] - Z[j, k]) * inverse_scale
                    s *= one + t * t
                P[i, j] = s


def angles(X: FloatArray, Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Angles between rows in [0, pi], shape (n_rows_X, n_rows_Z), and the norms of the rows.

    A zero row has no direction: its angles are given as pi / 2. Rows of nearly the same or the
    opposite direction are treated by W. Kahan's half-angle formula, so that equal rows have angle
    0 exactly, where the arc cosine of a rounded cosine would lose half the digits.
    """
    x = np.sqrt(squared_norms(X))
    z = x if Z is X else np.sqrt(squared_norms(Z))
    A = inner_products(X, Z)
    scalar = A.dtype.type
    _complete_angles(A, x, z, X, Z, scalar(1 - _CLOSE_COSINE[A.dtype.char]), scalar(0))
    return A, x, z


@_jit
def _complete_angles(A, x, z, X, Z, close, zero):  # type: ignore[no-untyped-def]
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            norms = x[i] * z[j]
            cosine = A[i, j] / norms if norms > zero else zero
            if abs(cosine) < close:
                A[i, j] = np.arccos(cosine)
                continue
            sign = np.sign(cosine)
            s = zero
            for k in range(X.shape[1]):
                t = X[i, k] / x[i] - sign * (Z[j, k] / z[j])
                s += t * t
            half = np.arcsin(np.sqrt(s) / (zero + 2))
            A[i, j] = half + half if sign > zero else np.pi - (half + half)


_N_ROWS_FOR_SCALES = 1000

RandomState = int | np.random.Generator | np.random.RandomState | None


class FromData(NamedTuple):
    """A parameter whose number may come from data.

    Attributes
    ----------
    is_missing : callable
        Whether a value of the parameter still needs data.
    filled : callable
        Returns the value, given a kernel and at most 1000 rows of float64.
    """

    is_missing: Callable[[Any], bool]
    filled: Callable[[Any, FloatArray], Any]


class Kernel(Component, ABC):
    r"""A positive semi-definite function of two points, evaluated on all pairs of rows.

    ``kernel(X, Z)`` is the matrix of :math:`k(x_i, z_j)`. ``k1 + k2``, ``k1 * k2`` and ``2.0 * k``
    are kernels again.

    To define a kernel, subclass this with a constructor that stores its arguments, and define the
    abstract members ``_gram``, ``_diagonal`` and ``bound``. ``_missing`` names the numbers that
    come from data, and ``_fill`` computes them. For a plain function see :class:`FunctionKernel`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Kernel
    >>> class Brownian(Kernel):
    ...     bound = None
    ...     def _gram(self, X, Z):
    ...         return np.minimum(X, Z.T)
    ...     def _diagonal(self, X):
    ...         return X[:, 0]
    >>> (Brownian() + Gaussian(1.0))([[1.0], [2.0]])
    array([[2.        , 1.60653066],
           [1.60653066, 3.        ]])
    """

    _takes_sparse = False
    #: Parameters whose numbers may come from data.
    _from_data: ClassVar[Mapping[str, FromData]] = {}
    #: Form in compiled expansions and factor of distances, by the parameter ``nu`` if there is one.
    _forms: ClassVar[Mapping[float | None, tuple[int, float]]] = {}
    #: Value of a kernel that is the same everywhere.
    _constant: float | None = None

    @abstractmethod
    def _gram(self, X: Any, Z: Any) -> FloatArray:
        """Kernel matrix as a new array, for checked rows of one dtype; ``Z`` may be ``X``."""

    def _add_to(self, K: FloatArray, X: Any, Z: Any) -> None:
        """Add the kernel matrix of some rows to a matrix."""
        K += self(X, Z)

    @abstractmethod
    def _diagonal(self, X: Any) -> FloatArray:
        """Values k(x, x) as a new array, for checked rows."""

    @property
    @abstractmethod
    def bound(self) -> float | None:
        """Upper bound of k(x, x) over all x, the tightest known; None if there is none."""

    def _missing(self) -> tuple[str, ...]:
        """Names of the parameters whose numbers have to come from data."""
        sources = self._from_data.items()
        return tuple(name for name, source in sources if source.is_missing(getattr(self, name)))

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        """Values for the missing parameters, from at most 1000 rows of float64."""
        return {name: source.filled(self, rows) for name, source in self._from_data.items()}

    def _row(self) -> RowFunction | None:
        """Row function and its parameters, for :meth:`compiled`; None if there is none."""
        return None

    @property
    def profile(self) -> Profile | None:
        """The kernel as a function of distances that compiled expansions know, if it is one."""
        parameters: Any = self
        found = self._forms.get(getattr(self, "nu", None))
        return None if found is None else Profile(found[0], found[1] / parameters.length_scale)

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> FloatArray:
        """Return the kernel matrix between the rows of ``X`` and the rows of ``Z``.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows_X, n_features)
            Points. They are not checked for NaN and infinity.
        Z : array-like or SciPy sparse matrix of shape (n_rows_Z, n_features), default=None
            Points; None means ``X``, and the result is then exactly symmetric.

        Returns
        -------
        gram : ndarray of shape (n_rows_X, n_rows_Z)
            Kernel values, float32 if ``X`` and ``Z`` both are, else float64.

        Raises
        ------
        ValueError
            If the shapes do not fit, or a number of the kernel must still come from data.
        """
        self._require_resolved()
        rows = self._points(X, "X")
        if Z is None or Z is X:
            return self._gram(rows, rows)
        others = self._points(Z, "Z")
        if rows.shape[1] != others.shape[1]:
            raise ValueError(
                f"`X` and `Z` must have the same number of features, got {rows.shape[1]} and "
                f"{others.shape[1]}. A kernel compares points of one space."
            )
        if rows.dtype != others.dtype:
            rows, others = (A.astype(np.float64, copy=False) for A in (rows, others))
        return self._gram(rows, others)

    def diag(self, X: ArrayLike) -> FloatArray:
        """Values k(x, x), the diagonal of ``kernel(X)``, without the matrix.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Points.

        Returns
        -------
        values : ndarray of shape (n_rows,)
            Squared norms of the points in the feature space; float32 if ``X`` is, else float64.

        Raises
        ------
        ValueError
            If ``X`` is not two-dimensional, or a number of the kernel has to come from data.
        """
        self._require_resolved()
        return self._diagonal(self._points(X, "X"))

    @property
    def is_resolved(self) -> bool:
        """Whether all numbers of the kernel are known."""
        return not self._missing()

    def resolve(self, X: ArrayLike, random_state: RandomState = None) -> Self:
        """Return a copy of the kernel with all numbers filled in from data.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_features)
            Typical points. At most 1000 of them are used, drawn at random.
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
            Source of randomness; only used for more than 1000 rows.

        Returns
        -------
        kernel : Kernel
            The same kernel with numbers in place of "median" and the like.

        Raises
        ------
        ValueError
            If ``X`` is not two-dimensional, or a row of the sample is not finite.

        Examples
        --------
        >>> from mercer.kernels import Gaussian
        >>> Gaussian().resolve([[0.0], [3.0]])
        Gaussian(length_scale=3.0)
        """
        missing: dict[str, Any] = {}
        if not self.is_resolved:
            rows = _as_points(X, "X")
            if rows.shape[0] > _N_ROWS_FOR_SCALES:
                chosen = _as_generator(random_state).choice(
                    rows.shape[0], _N_ROWS_FOR_SCALES, replace=False
                )
                rows = rows[chosen]
            rows = _densify(rows).astype(np.float64, copy=False)
            if not np.isfinite(rows).all():
                raise ValueError(
                    "`X` must be finite, got NaN or infinity: distances to such rows mean nothing. "
                    "Drop or impute them."
                )
            missing = self._fill(rows)
        return type(self)(**{**self.get_params(deep=False), **missing})

    def compiled(self, dtype: DTypeLike) -> CompiledKernel | None:
        """Address of compiled code for one row of kernel values, for compiled loops.

        Parameters
        ----------
        dtype : dtype
            float32 or float64: type of the points and of the values.

        Returns
        -------
        compiled : CompiledKernel or None
            Address and parameters; None if the kernel has no compiled form. The first call for a
            kind of kernel and dtype compiles it, which takes a second, once per machine.

        Raises
        ------
        ValueError
            If ``dtype`` is another one, or a number of the kernel has to come from data.
        """
        self._require_resolved()
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"`dtype` must be float32 or float64, got {np.dtype(dtype)}.")
        row = self._row()
        return None if row is None else compile_row(row, dtype)

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        """Random features of the kernel; ``path`` is its place in a composite kernel."""
        raise ValueError(
            f"{self!r} has no random features: no law is known whose average it is. Use a kernel "
            "that has them, such as Gaussian or Matern, or an expansion on rows such as KOMP."
        )

    def random_features(
        self,
        X: ArrayLike,
        n_features: int,
        seed: int = 0,
        *,
        paired: bool = True,
        design: str = "iid",
    ) -> FloatArray:
        r"""Random features, whose inner products are the kernel on average.

        :math:`E\, Z Z^T` is ``kernel(X)``, with errors of the order of :math:`1/\sqrt{m}` in m
        features; so a linear model of Z is a kernel machine, for any number of rows.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n_rows, n_inputs)
            Points. Features are in units of the kernel, whatever its length scale.
        n_features : int
            Number m of features.
        seed : int, default=0
            Which features: the same ones for the same seed, kernel and number, whatever the rows;
            0 <= seed < 2**64.
        paired : bool, default=True
            Cosine and sine of each frequency, for kernels of cosines: twice as many features for
            the same work, and a smaller error. Otherwise a cosine with a random phase.
        design : {"iid", "orthogonal", "hadamard", "sobol", "auto"}, default="iid"
            How frequencies are drawn: independently; orthogonal to each other; orthogonal and
            applied by fast transforms, for 16 inputs and more; from a sequence that fills space
            evenly, for few inputs; or "auto" for the best one known for the kernel and the number
            of inputs.

        Returns
        -------
        Z : ndarray of shape (n_rows, n_features)
            Features, float32 if ``X`` is, else float64.

        Raises
        ------
        ValueError
            If the kernel has no random features or not of this design, a number of the kernel
            still has to come from data, or a row is outside the kernel's domain.

        References
        ----------
        DSG, Section 2 and Table 1. A. Rahimi, B. Recht, Random features for large-scale kernel
        machines, NIPS 2007.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> X = [[0.0, 0.0], [1.0, 0.0]]
        >>> Z = Gaussian(length_scale=1.0).random_features(X, 4096, design="auto")
        >>> (Z @ Z.T).round(2)
        array([[1.  , 0.61],
               [0.61, 1.  ]])
        """
        self._require_resolved()
        m = check_integer("n_features", n_features, low=1)
        rows = _densify(self._points(X, "X"))
        features = self._feature_map(rows.shape[1], FeatureOptions(paired, design), 0)
        prepared = features.prepare(rows)
        return features_of(features, prepared, features.draw(seed, 0, m, rows.dtype), m)

    def _require_resolved(self) -> None:
        if not self.is_resolved:
            names = " and ".join(f"`{name}`" for name in self._missing())
            raise ValueError(
                f"{self!r} cannot be evaluated: {names} has to come from data first. Call "
                "kernel.resolve(X) and use the kernel that it returns, or give a number yourself."
            )

    def _points(self, X: Any, name: str) -> Any:
        points = _as_points(X, name)
        if sparse.issparse(points) and not self._takes_sparse:
            return points.toarray()
        return points

    def __add__(self, other: Any) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, float(other)) if isinstance(other, Real) else NotImplemented

    __rmul__ = __mul__

    # NumPy scalars would otherwise make an object array of `np.float64(2) * kernel`.
    __array_ufunc__ = None


def _as_points(X: Any, name: str) -> Any:
    """Rows as a C-contiguous array or a CSR matrix of float32 or float64."""
    points = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if points.ndim != 2:
        raise ValueError(
            f"`{name}` must be two-dimensional, one row per point, got the shape {points.shape}. "
            "Use x.reshape(1, -1) for a single point, x.reshape(-1, 1) for a single feature."
        )
    if np.iscomplexobj(points):
        raise ValueError(f"`{name}` must be real, got the dtype {points.dtype}.")
    dtype = np.float32 if points.dtype == np.float32 else np.float64
    if sparse.issparse(points):
        return points.astype(dtype, copy=False)
    return np.ascontiguousarray(points, dtype=dtype)


def _densify(points: Any) -> FloatArray:
    dense: FloatArray = points.toarray() if sparse.issparse(points) else points
    return dense


def _as_generator(random_state: RandomState) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def check_kernel(name: str, value: Any) -> None:
    """Raise ``ValueError`` if a parameter is not a kernel."""
    if not isinstance(value, Kernel):
        raise ValueError(
            f"`{name}` must be a kernel, got {value!r}. Make one of a name or a function with "
            "as_kernel."
        )


class FeaturedKernel(Kernel):
    """A kernel with random features."""

    @abstractmethod
    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        """Random features of the kernel; ``path`` is its place in a composite kernel."""


class FormulaKernel(FeaturedKernel):
    """A kernel given by formulas: of its matrix, of a row in compiled code and of its features."""

    @abstractmethod
    def _row(self) -> RowFunction | None:
        """Row function and its parameters; None where these parameters have none."""


def _parts(*names: str) -> dict[str, FromData]:
    """Parameters that are kernels, resolved on the same rows."""

    def part(name: str) -> FromData:
        return FromData(
            lambda kernel: not kernel.is_resolved,
            lambda composite, rows: getattr(composite, name).resolve(rows),
        )

    return {name: part(name) for name in names}


class _Pair(FeaturedKernel):
    """Two kernels; `_gram` and `_diagonal` combine theirs."""

    _takes_sparse = True  # the parts decide for themselves
    _from_data = _parts("left", "right")
    _parameters = parameters(left=check_kernel, right=check_kernel)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right
        self._check()

    def _part_maps(
        self, n_inputs: int, options: FeatureOptions, path: int
    ) -> tuple[FeatureMap, FeatureMap]:
        left, right = child_paths(path)
        return (
            self.left._feature_map(n_inputs, options, left),
            self.right._feature_map(n_inputs, options, right),
        )


class Sum(_Pair):
    """Sum of two kernels, k(x, x') = left(x, x') + right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The terms.

    Raises
    ------
    ValueError
        If a term is not a kernel.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) + Linear())([[1.0]], [[1.0], [2.0]])
    array([[2.        , 2.60653066]])
    """

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.left(X, Z)
        self.right._add_to(K, X, Z)
        return K

    @property
    def profile(self) -> Profile | None:
        """Profile of a kernel and a constant, in this order; None for other sums."""
        profile, constant = self.left.profile, self.right._constant
        if profile is None or constant is None:
            return None
        return profile._replace(offset=profile.offset + constant)

    def _diagonal(self, X: Any) -> FloatArray:
        return np.add(self.left.diag(X), self.right.diag(X))

    @property
    def bound(self) -> float | None:
        """Sum of the bounds of the terms; None if one has none."""
        left, right = self.left.bound, self.right.bound
        return None if left is None or right is None else left + right

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        left, right = self._part_maps(n_inputs, options, path)
        # Unpaired is what a product asks for, which needs every column to be alike.
        return SumMap(left, right, path, rotated=not options.paired)


class Product(_Pair):
    """Product of two kernels, k(x, x') = left(x, x') right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The factors.

    Raises
    ------
    ValueError
        If a factor is not a kernel.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, Linear
    >>> (Gaussian(1.0) * Linear())([[1.0]], [[1.0], [2.0]])
    array([[1.        , 1.21306132]])
    """

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.left(X, Z)
        K *= self.right(X, Z)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        return np.multiply(self.left.diag(X), self.right.diag(X))

    @property
    def bound(self) -> float | None:
        """Product of the bounds of the factors; None if one has none."""
        left, right = self.left.bound, self.right.bound
        return None if left is None or right is None else left * right

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        # A product of cosines of the same inputs is a cosine of the sum of their frequencies.
        joined = joined_cosines(*self._part_maps(n_inputs, options, path), options, path)
        if joined is not None:
            return joined
        unpaired = options._replace(paired=False)
        return ProductMap(*self._part_maps(n_inputs, unpaired, path), path)


class Scaled(FeaturedKernel):
    """A kernel times a positive number, k(x, x') = factor * kernel(x, x').

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    factor : float
        The number, above 0.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel or ``factor`` is not positive.

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> (2.0 * Linear())([[1.0]], [[1.0], [2.0]])
    array([[2., 4.]])
    """

    _takes_sparse = True  # the kernel decides for itself
    _from_data = _parts("kernel")
    _parameters = parameters(
        kernel=check_kernel,
        factor=positive("A factor of 0 or below leaves no positive definite kernel."),
    )

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor
        self._check()

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = self.kernel(X, Z)
        K *= float(self.factor)
        return K

    def _diagonal(self, X: Any) -> FloatArray:
        return np.multiply(self.kernel.diag(X), float(self.factor))

    @property
    def bound(self) -> float | None:
        """Factor times the bound of the kernel; None if it has none."""
        inner = self.kernel.bound
        return None if inner is None else inner * float(self.factor)

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        return ScaledMap(self.kernel._feature_map(n_inputs, options, path), float(self.factor))


def _check_map(name: str, value: Any) -> None:
    if isinstance(value, type) or not (callable(value) or isinstance(value, LearnableMap)):
        raise ValueError(
            f"`{name}` must be an Affine map, a learned one such as Standardize() or a function of "
            f"an array of rows, got {value!r}."
        )


class Mapped(FeaturedKernel):
    """A kernel after a map, k(x, x') = kernel(map(x), map(x')).

    For standardisation, principal components and metrics (:mod:`mercer.maps`), and for layers
    learnt elsewhere, convolutions or logarithms: ``Mapped(Gaussian(), f) + Mapped(Linear(), g)``
    gives every part its own view of the row.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    map : Affine, LearnableMap or callable
        An affine map, another map of :mod:`mercer.maps`, or one that :meth:`resolve` learns from
        rows, such as ``PrincipalComponents()``; kernel numbers that come from data are then
        computed from mapped rows. Or a function: ``map(X)`` of an array of shape (n_rows,
        n_features) returns an array of shape (n_rows, n_mapped), in which each row depends only on
        the same row of ``X``. The number of columns must be the same in every call; random features
        determine it on a row of ones.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel or ``map`` not a map; on evaluation, if ``map`` returns an
        array
        of a wrong shape.

    Notes
    -----
    A model file holds data only: affine and learned maps can be stored in it, functions cannot. A
    model with a function can be pickled, if the function can.

    :meth:`resolve` learns a map from at most 1000 rows. To use more, learn it first:
    ``Mapped(kernel, PrincipalComponents().fit(X))``.

    Both arguments are mapped in every call. To evaluate the kernel often at the same points, map
    them once and use the two parts of :meth:`unwrapped`.

    References
    ----------
    DSG, Section 2, "hierarchical kernels"; for random convolutions of images see
    :class:`Convolutional`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Linear, Mapped
    >>> Mapped(Linear(), np.sqrt)([[1.0, 4.0]], [[9.0, 1.0]])
    array([[5.]])

    A learned map is learned where the kernel takes its numbers from rows:

    >>> from mercer.maps import Standardize
    >>> kernel = Mapped(Gaussian(), Standardize()).resolve([[10.0, 0.0], [30.0, 0.2]])
    >>> kernel.kernel  # from (-1, -1) to (1, 1)
    Gaussian(length_scale=2.8284271247461903)
    """

    _parameters = parameters(kernel=check_kernel, map=_check_map)

    def __init__(self, kernel: Kernel, map: LearnableMap | Callable[[Any], Any]) -> None:
        self.kernel = kernel
        self.map = map
        self._check()

    def _image(self, X: FloatArray) -> FloatArray:
        """Apply the map to rows; the result is C-ordered and of their dtype."""
        image: FloatArray = np.ascontiguousarray(self.map(X), dtype=X.dtype)
        if image.ndim != 2 or len(image) != len(X):
            raise ValueError(
                f"`map` must return one row for each of the {len(X)} rows it is given, got the "
                f"shape {image.shape}. Return an array of shape (n_rows, n_mapped)."
            )
        return image

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        image = self._image(X)
        return self.kernel(image, image if Z is X else self._image(Z))

    def _diagonal(self, X: Any) -> FloatArray:
        return self.kernel.diag(self._image(X))

    @property
    def bound(self) -> float | None:
        """Bound of the kernel."""
        return self.kernel.bound

    def _missing(self) -> tuple[str, ...]:
        learned = ("map",) if isinstance(self.map, LearnableMap) else ()
        return learned if self.kernel.is_resolved else (*learned, "kernel")

    def _fill(self, rows: FloatArray) -> dict[str, Any]:
        known = self
        if isinstance(self.map, LearnableMap):
            known = Mapped(self.kernel, self.map.fit(rows))
        return {"kernel": self.kernel.resolve(known._image(rows)), "map": known.map}

    def unwrapped(self) -> tuple[Affine | Callable[[Any], Any], Kernel]:
        """Return the map and the kernel separately, for points that are mapped only once.

        Returns
        -------
        map : Affine or callable
            The map; nested affine maps are combined into one.
        kernel : Kernel
            The kernel of mapped points.

        Raises
        ------
        ValueError
            If a number of the map or the kernel still has to come from data.

        Examples
        --------
        >>> from mercer.kernels import Linear, Mapped
        >>> from mercer.maps import Affine
        >>> map, kernel = Mapped(Linear(), Affine([1.0], [2.0])).unwrapped()
        >>> points = map([[2.0], [3.0]])
        >>> kernel(map([[4.0]]), points)
        array([[12., 24.]])
        """
        self._require_resolved()
        map, kernel = self.map, self.kernel
        while (
            isinstance(map, Affine)
            and isinstance(kernel, Mapped)
            and isinstance(kernel.map, Affine)
        ):
            map, kernel = map.then(kernel.map), kernel.kernel
        return map, kernel

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        with np.errstate(all="ignore"):
            n_mapped = self._image(np.ones((1, n_inputs))).shape[1]
        inner = self.kernel._feature_map(n_mapped, options, path)
        return MappedMap(n_inputs, inner, self._image)
