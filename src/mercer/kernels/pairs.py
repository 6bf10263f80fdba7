r"""Kernels on pairs of points, made of a kernel on points or given by a function.

Let :math:`\varphi` be the feature map of the kernel G on points. A pair has features that are
linear in :math:`\varphi(x_1), \varphi(x_2)` (first order) or in their tensor products (second
order). A small array of numbers, the *pattern*, defines them:

==================  =========================================  ==================================
name                features of a pair                         functions on pairs
==================  =========================================  ==================================
``difference``      phi(x1) - phi(x2)                          g(x1) - g(x2): scores, ranking
``antisymmetric``   (phi(x1) phi(x2) - phi(x2) phi(x1)) / 2    skew: preferences without a score
``symmetric``       (phi(x1) phi(x2) + phi(x2) phi(x1)) / 2    symmetric: similarity
``mlpk``            (phi(x1) - phi(x2)) (phi(x1) - phi(x2))    symmetric, 0 at x1 = x2: metrics
``product``         phi(x1) phi(x2)                            everything on ordered pairs
==================  =========================================  ==================================

A function on pairs needs one number per dictionary point (first order) or per pair of dictionary
points (second order), however many pairs it was learned from. With any other kernel
(:class:`FunctionPairKernel`) it needs one number per pair that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.component import Component
from mercer.exceptions import ParameterError
from mercer.kernels.names import FunctionKernel
from mercer.validation import choice, or_none, parameters, positive, real

Array = NDArray[np.float64]

#: Patterns by name.
PAIR_KERNELS: dict[str, Any] = {
    "difference": [1.0, -1.0],
    "antisymmetric": [[0.0, 0.5], [-0.5, 0.0]],
    "symmetric": [[0.0, 0.5], [0.5, 0.0]],
    "mlpk": [[1.0, -1.0], [-1.0, 1.0]],
    "product": [[0.0, 1.0], [0.0, 0.0]],
}


def _weights_of(name: str, pattern: Any) -> Array:
    """Numbers of a pattern or of a known name, or ``ValueError``."""
    if isinstance(pattern, str) and pattern not in PAIR_KERNELS:
        raise ValueError(
            f"`pair_kernel` must be one of {', '.join(map(repr, PAIR_KERNELS))}, a "
            "PairKernel, a function, or a pattern of numbers of shape (2,) or (2, 2), got "
            f"{pattern!r}."
        )
    try:
        numbers = PAIR_KERNELS[pattern] if isinstance(pattern, str) else pattern
        weights = np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.empty(0)
    if weights.shape not in ((2,), (2, 2)) or not np.isfinite(weights).all():
        raise ValueError(
            f"`{name}` must be a name or finite numbers of shape (2,) or (2, 2), got "
            f"{pattern!r}. [1, -1] is the difference kernel, [[0, 1], [0, 0]] the product."
        )
    return weights


def _check_bias(kernel: PairKernel) -> None:
    if kernel.bias and kernel.symmetry == -1:
        raise ValueError(
            f"`bias` must be 0 for the pair kernel {kernel.pattern!r}, got {kernel.bias!r}: its "
            "functions change sign when the points of a pair change places, so that no "
            "constant belongs to them."
        )
    if not kernel.weights.any():
        raise ValueError("`pattern` must have a number other than 0: the kernel would be 0.")


def _check_both(U1: ArrayLike | None, U2: ArrayLike | None) -> None:
    if (U1 is None) != (U2 is None):
        raise ValueError("`U1` and `U2` must be given both or not at all: pairs have two points.")


class PairKernel(Component):
    r"""Kernel :math:`K((x_1, x_2), (u_1, u_2))` of pairs, from a kernel G of points.

    .. math:: K = \sum_{pr} a_p a_r G(x_p, u_r) + b \quad\text{or}\quad
        K = \sum_{pqrs} A_{pq} A_{rs} G(x_p, u_r) G(x_q, u_s) + b

    for a pattern of shape (2,) or (2, 2): positive semi-definite by construction.

    Parameters
    ----------
    pattern : str or array-like of shape (2,) or (2, 2)
        The numbers a or A, or a name of the table above.
    bias : float, default=0.0
        b, at least 0: adds a constant term to functions on pairs. Not for skew patterns, whose
        functions change sign when the points are swapped.

    Attributes
    ----------
    order : int
        1 or 2.
    symmetry : int
        What happens to a function on pairs when the points are swapped: 1 if it stays the same, -1
        if it changes sign, 0 if neither is certain.

    Raises
    ------
    ValueError
        For an unknown name, a pattern of another shape or with zeros only, or a bias with a skew
        pattern.

    References
    ----------
    Ying and Zhou, Section 1, for pair kernels in online learning. "mlpk" is the metric learning
    pairwise kernel of Vert, Qiu and Noble (2007); the others are classical.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> kernel = PairKernel("difference")
    >>> kernel.order, kernel.symmetry
    (1, -1)
    >>> kernel(Gaussian(1.0), [[0.0]], [[1.0]]).round(3)  # 2 - 2 exp(-1/2)
    array([[0.787]])
    """

    _parameters = parameters(
        pattern=_weights_of, bias=real(low=0.0, why="It is added to a kernel.")
    )
    _relations = (_check_bias,)

    def __init__(self, pattern: Any = "difference", bias: float = 0.0) -> None:
        self.pattern = pattern
        self.bias = bias
        self._check()

    @property
    def weights(self) -> Array:
        """The numbers of the pattern, shape (2,) or (2, 2)."""
        return _weights_of("pattern", self.pattern)

    @property
    def order(self) -> int:
        """1 or 2."""
        return self.weights.ndim

    @property
    def symmetry(self) -> int:
        """1, -1 or 0; see the class."""
        weights = self.weights
        swapped = weights[::-1] if weights.ndim == 1 else weights[::-1, ::-1]
        if np.array_equal(swapped, weights):
            return 1
        return -1 if np.array_equal(swapped, -weights) else 0

    def __call__(
        self,
        kernel: Any,
        X1: ArrayLike,
        X2: ArrayLike,
        U1: ArrayLike | None = None,
        U2: ArrayLike | None = None,
    ) -> Array:
        """Kernel matrix of two lists of pairs.

        Parameters
        ----------
        kernel : Kernel
            G, with its numbers resolved.
        X1, X2 : array-like of shape (n_pairs, n_features)
            First and second points of the pairs of the rows.
        U1, U2 : array-like of shape (m_pairs, n_features) or None, default=None
            Points of the pairs of the columns; None for both means the same as for the rows.

        Returns
        -------
        K : ndarray of shape (n_pairs, m_pairs)

        Raises
        ------
        ValueError
            If only one of ``U1`` and ``U2`` is given.
        """
        _check_both(U1, U2)
        X = [np.asarray(X1), np.asarray(X2)]
        U = X if U1 is None else [np.asarray(U1), np.asarray(U2)]
        G = [[np.asarray(kernel(x, u), dtype=np.float64) for u in U] for x in X]
        return np.asarray(_combine(self.weights, G) + self.bias)

    def of_gram(self, gram: Array) -> Array:
        """K of each pair of some points with itself.

        Parameters
        ----------
        gram : ndarray of shape (n, n)
            Kernel matrix of the points.

        Returns
        -------
        values : ndarray of shape (n, n)
            K((x_i, x_j), (x_i, x_j)).
        """
        own = np.diag(gram)
        G = [[own[:, np.newaxis], gram], [gram, own[np.newaxis]]]
        return np.asarray(_combine(self.weights, G) + self.bias)

    def bound(self, kernel_bound: float, *, nonnegative: bool = False) -> float:
        """Return an upper bound of K((x1, x2), (x1, x2)).

        Parameters
        ----------
        kernel_bound : float
            Upper bound of G(x, x).
        nonnegative : bool, default=False
            Whether G is never negative, like a Gaussian kernel: features of two points then have an
            angle of at most 90 degrees.
        """
        # The largest of a quadratic function of the cosine of two features of full length.
        low = 0.0 if nonnegative else -1.0
        opposite, apart, same = (self._of_cosine(cosine) for cosine in (-1.0, 0.0, 1.0))
        linear, square = (same - opposite) / 2.0, (same + opposite) / 2.0 - apart
        top = min(max(-linear / (2.0 * square), low), 1.0) if square < 0.0 else low
        values = [self._of_cosine(cosine) for cosine in (low, top, 1.0)]
        return max(values) * float(kernel_bound) ** self.order + float(self.bias)

    def _of_cosine(self, cosine: float) -> float:
        """K less the bias of a pair with itself: G is 1 at its points, and this between them."""
        return float(_combine(self.weights, [[1.0, cosine], [cosine, 1.0]]))


def _combine(weights: Array, G: Any) -> Any:
    """K from the kernels G[p][r] between the points p of one pair and r of another."""
    if weights.ndim == 1:
        return sum(weights[p] * weights[r] * G[p][r] for p in range(2) for r in range(2))
    indices = [(p, q) for p in range(2) for q in range(2) if weights[p, q]]
    return sum(
        weights[p, q] * weights[r, s] * (G[p][r] * G[q][s]) for p, q in indices for r, s in indices
    )


def _check_function(name: str, function: Any) -> None:
    if not callable(function):
        raise ParameterError(
            f"`{name}` must be a function K(X1, X2, U1, U2) of two lists of pairs, got "
            f"{function!r}.",
            parameter=name,
            value=function,
        )


@dataclass(frozen=True)
class _OfJoined:
    """A function of pairs as one of points that are a pair's two points side by side."""

    function: Callable[..., Any]

    def __call__(self, X: NDArray[Any], U: NDArray[Any]) -> Any:
        half = X.shape[1] // 2
        return self.function(X[:, :half], X[:, half:], U[:, :half], U[:, half:])


def _joined(first: str, A: Any, second: str, B: Any) -> Array:
    """Return pairs as rows: their two points side by side."""
    A, B = np.asarray(A), np.asarray(B)
    if A.ndim != 2 or A.shape != B.shape:
        raise ValueError(
            f"`{first}` and `{second}` must be of one shape (n_pairs, n_features), got {A.shape} "
            f"and {B.shape}."
        )
    return np.hstack([A, B])


class FunctionPairKernel(Component):
    r"""Kernel :math:`K((x_1, x_2), (u_1, u_2))` of pairs that is a function of the user.

    It has to be symmetric in the two pairs and positive semi-definite, which nobody checks.
    Functions of pairs then live on pairs: their dictionary holds pairs, and a step on a row adds
    one point for each partner in the buffer. So patterns (:class:`PairKernel`) are far cheaper
    where they say the same.

    Parameters
    ----------
    function : callable
        ``function(X1, X2, U1, U2)`` of arrays with the first and second points of two lists of
        pairs, of shapes (n_pairs, n_features) and (m_pairs, n_features), which returns the kernel
        matrix (n_pairs, m_pairs).
    symmetry : {-1, 0, 1}, default=0
        What happens to all functions of pairs when the points are swapped: 1 if they stay the same,
        -1 if they change sign, 0 if neither is certain. Labels that do not go with it are refused.
    bound : float or None, default=None
        Upper bound of K((x1, x2), (x1, x2)); None takes a large value among pairs of the first
        rows.

    Raises
    ------
    ValueError
        If ``function`` cannot be called or a parameter is out of range; on evaluation, if the
        function returns an array of a wrong shape.

    Notes
    -----
    A model file holds data only and so no function: a model with this kernel can be pickled, if the
    function can, but not saved.

    References
    ----------
    Ying and Zhou, Section 1 and Algorithm 2, where K is any kernel of pairs.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> near = Gaussian(1.0)
    >>> kernel = FunctionPairKernel(lambda X1, X2, U1, U2: near(X1 - X2, U1 - U2))
    >>> kernel([[0.0], [1.0]], [[1.0], [1.0]]).round(3)  # of the differences -1 and 0
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    #: Functions of pairs are not made of functions of points.
    order = 0
    bias = 0.0
    _parameters = parameters(
        function=_check_function,
        symmetry=choice(-1, 0, 1),
        bound=or_none(positive("It bounds K of a pair with itself. Use None if you know none.")),
    )

    def __init__(
        self, function: Callable[..., Any], *, symmetry: int = 0, bound: float | None = None
    ) -> None:
        self.function = function
        self.symmetry = symmetry
        self.bound = bound
        self._check()

    @property
    def pattern(self) -> str:
        """The function, in words."""
        return f"function {getattr(self.function, '__name__', self.function)}"

    @property
    def weights(self) -> Array:
        """One number: a function of pairs has one value at a pair."""
        return np.ones(1)

    def __call__(
        self,
        X1: ArrayLike,
        X2: ArrayLike,
        U1: ArrayLike | None = None,
        U2: ArrayLike | None = None,
    ) -> Array:
        """Kernel matrix of two lists of pairs.

        Parameters
        ----------
        X1, X2 : array-likes of shape (n_pairs, n_features)
            First and second points of pairs.
        U1, U2 : array-likes of shape (m_pairs, n_features) or None, default=None
            The same of other pairs; None for both takes those of ``X1`` and ``X2``.

        Returns
        -------
        K : ndarray of shape (n_pairs, m_pairs)

        Raises
        ------
        ValueError
            If shapes do not match, or only one of ``U1`` and ``U2`` is given.
        """
        X = _joined("X1", X1, "X2", X2)
        _check_both(U1, U2)
        U = X if U1 is None else _joined("U1", U1, "U2", U2)
        if X.shape[1] != U.shape[1]:
            raise ValueError(
                f"Points of all pairs must have as many columns, got {X.shape[1] // 2} and "
                f"{U.shape[1] // 2}."
            )
        return np.asarray(self.of_joined()(X, U), dtype=np.float64)

    def of_joined(self, bound: float | None = None) -> FunctionKernel:
        """Return the kernel of points that are the two points of a pair side by side.

        Parameters
        ----------
        bound : float or None, default=None
            Bound in place of :attr:`bound`, if that is None.
        """
        bound = bound if self.bound is None else self.bound
        return FunctionKernel(_OfJoined(self.function), bound=bound)


def as_pair_kernel(value: Any) -> PairKernel | FunctionPairKernel:
    """Turn a pair kernel, its name, its pattern or a function into a pair kernel.

    Raises
    ------
    ValueError
        If ``value`` is of another kind.

    Examples
    --------
    >>> as_pair_kernel("mlpk")
    PairKernel(pattern='mlpk')
    """
    if isinstance(value, PairKernel | FunctionPairKernel):
        return value
    if isinstance(value, type) and issubclass(value, PairKernel | FunctionPairKernel):
        raise ValueError(
            f"`pair_kernel` is the class {value.__name__}. Did you mean {value.__name__}(...), "
            "with brackets?"
        )
    return FunctionPairKernel(value) if callable(value) else PairKernel(value)
