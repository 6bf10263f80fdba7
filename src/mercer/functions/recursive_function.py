"""Functions solved exactly after every row: the posterior mean of a Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer.expansions import RecursiveLeastSquares
from mercer.functions.function import Function, Half, dense_rows, grown_capacity
from mercer.kernels import Kernel
from mercer.numerics.dense import cholesky
from mercer.numerics.recursive_squares import Recursion
from mercer.records import IfAny, Numbers, Record
from mercer.validation import integer

Array = NDArray[np.float64]

# Kernel values held at once while predicting.
_CHUNK = 1 << 22
# The factor is recomputed after this many changes per point, so rounding errors do not add up.
_CHANGES = 2
_FEWEST_CHANGES = 64
_NUMBERS = Record(n_outputs=integer(low=1), n_changes=integer(low=0))
_FACTOR = Half("n", triangle=np.triu_indices)
_SPREAD = Half("n", triangle=np.triu_indices, symmetric=True)
_ARRAYS = Record(
    points=Numbers("n", "n_features"),
    diagonal=Numbers("n"),
    precisions=Numbers("n"),
    factor=_FACTOR,
    spread=IfAny(_SPREAD),
    values=Numbers("n", "n_outputs+1"),
    weights=Numbers("n", "n_outputs"),
    power=Numbers("n_outputs+1"),
)


class RecursiveFunction(Function):
    """A function with ``n_outputs`` outputs on a dictionary built from a stream, in float64.

    Parameters
    ----------
    kernel, expansion, n_features, n_outputs, averaging
        See :class:`Function`.

    Attributes
    ----------
    size : int
        Number of points.
    arrays : Recursion
        Points, coefficients and matrices, with room for more.
    n_changes : int
        Number of further rows that may become points before the factor is recomputed.
    power : ndarray of shape (n_outputs + 1,)
        Sums of squared errors in units of their variance, and the number of errors.
    """

    expansion: RecursiveLeastSquares

    def __init__(
        self,
        kernel: Kernel,
        expansion: RecursiveLeastSquares,
        n_features: int,
        n_outputs: int,
        averaging: float | None = None,
    ) -> None:
        super().__init__(kernel, expansion, n_features, n_outputs, averaging)
        self.rules = expansion.rules
        self.size = 0
        self.n_changes = _FEWEST_CHANGES
        self.power = np.zeros(n_outputs + 1)
        self.arrays = self._allocated(0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return np.dtype(np.float64)

    @property
    def dictionary(self) -> Array:
        """Points, shape (size, n_features)."""
        return self.arrays.points[: self.size].copy()

    @property
    def coefficients(self) -> Array:
        """f(X) = kernel(X, dictionary) @ coefficients, shape (size, n_outputs)."""
        return self.arrays.weights[: self.size].copy()

    def rows(self, X: Any) -> Array:
        """Return rows as a dense float64 array."""
        rows: Array = np.require(dense_rows(X, np.float64, "double"), np.float64, ["C", "A", "W"])
        return rows

    def evaluate(self, X: Any) -> Array:
        n = X.shape[0]
        values = np.zeros((n, self.n_outputs))
        points, weights = self.arrays.points[: self.size], self.arrays.weights[: self.size]
        step = max(1, _CHUNK // max(self.size, self.n_features, 1))
        for start in range(0, n if self.size else 0, step):
            rows = self.rows(X[start : start + step])
            values[start : start + step] = self.kernel(rows, points) @ weights
        return values

    def variance(self, X: Any, *, noise: bool = True) -> Array:
        """Return the variance of the targets at some points, or of the function.

        Variances are in units of the signal's variance, which is estimated by the mean of squared
        errors so far, each divided by its expected value; it is 0 before the first row.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.
        noise : bool, default=True
            Whether to add the noise, which gives the variance of a target.

        Returns
        -------
        variance : ndarray of shape (n, n_outputs)

        Raises
        ------
        ValueError
            If the noise is 0: then values at the points are certain.
        """
        if self.rules.noise == 0.0:
            raise ValueError(
                f"{self.expansion!r} has no variance: without noise it knows how uncertain it is "
                "only up to a factor. Give it a `noise`, the variance of the noise in units of "
                "the signal's."
            )
        rows, n = self.rows(X), self.size
        own = np.asarray(self.kernel.diag(rows), dtype=np.float64)
        if n:
            k = self.kernel(rows, self.arrays.points[:n])
            b = solve_triangular(self._factor(), k.T, trans="T", check_finite=False).T
            own = own - np.einsum("ij,ij->i", b, b)
            if not self.rules.drops_rows:
                spread = self.arrays.spread[:n, :n]
                own = own + self.rules.noise * np.einsum("ij,ij->i", b @ spread, b)
        own = np.maximum(own, 0.0) + (self.rules.noise if noise else 0.0)
        unit = self.power[:-1] / max(self.power[-1], 1.0)
        return np.outer(own, unit)

    # -- learning -------------------------------------------------------------------------------

    def note_errors(self, squares: Array, variances: Array) -> None:
        """Update the estimate of the signal's variance by the errors of rows, in order.

        Parameters
        ----------
        squares : ndarray of shape (n_rows, n_outputs)
            Squared errors of predictions.
        variances : ndarray of shape (n_rows,)
            Variances of the predictions in units of the signal's variance.
        """
        keep = self.rules.forgetting
        for square, variance in zip(squares, variances.tolist(), strict=True):
            if variance > 0.0:
                self.power *= keep
                self.power[:-1] += square / variance
                self.power[-1] += 1.0

    def reserve(self) -> None:
        """Make room for one more point."""
        capacity = self.arrays.points.shape[0]
        if self.size + 1 > capacity:
            most = self.expansion.limit() + 1
            old, n = self.arrays, self.size
            self.arrays = self._allocated(grown_capacity(capacity, n + 1, most))
            for new, had in zip(self.arrays, old, strict=True):
                if had.size:
                    place = (slice(n),) * 2 if had.shape == (capacity, capacity) else slice(n)
                    new[place] = had[place]

    def _allocated(self, capacity: int) -> Recursion:
        rules = self.rules
        spread = 0 if rules.drops_rows else capacity
        return Recursion(
            np.zeros((capacity, self.n_features)),
            np.zeros(capacity),
            np.zeros(capacity),
            np.zeros((capacity, capacity)),
            np.zeros((spread, spread)),
            np.zeros((capacity, self.n_outputs + 1)),
            np.zeros((capacity, self.n_outputs)),
        )

    def refresh(self) -> None:
        """Recompute the factor once enough rows have become points since the last time."""
        if self.n_changes > 0:
            return
        n = self.size
        self.n_changes = max(_CHANGES * n, _FEWEST_CHANGES)
        gram = np.array(self.kernel(self.arrays.points[:n]), dtype=np.float64, order="F")
        gram[np.diag_indices(n)] = self.arrays.diagonal[:n]
        if cholesky(gram):
            self.arrays.factor[:n, :n] = np.tril(gram).T
            inverse = solve_triangular(self._factor(), np.eye(n), check_finite=False)
            self.arrays.precisions[:n] = np.einsum("ij,ij->i", inverse, inverse)
            self.arrays.weights[:n] = self._weights(self.arrays.values[:n, :-1])

    def _factor(self) -> Array:
        return np.triu(self.arrays.factor[: self.size, : self.size])

    def _weights(self, values: Array) -> Array:
        """Return the coefficients that give some values, (size, n_outputs)."""
        if not self.size:
            return values
        factor = self._factor()
        if self.rules.drops_rows:
            values = solve_triangular(factor, values, trans="T", check_finite=False)
        weights: Array = solve_triangular(factor, values, check_finite=False)
        return weights

    # -- outputs and state ----------------------------------------------------------------------

    def keep_previous(self) -> None:
        """Do nothing: objectives that need the previous function are not learned this way."""

    def map_outputs(self, mixing: Array, offset: Array | None = None) -> None:
        """Replace the outputs f by the outputs for targets y @ ``mixing`` + ``offset``.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            Column j holds the coefficients of the new output j in the old outputs.
        offset : ndarray of shape (n_outputs_new,), default=None
            Added to all targets; None for nothing.
        """
        offset = np.zeros(mixing.shape[1]) if offset is None else offset
        values, n = self.arrays.values, self.size
        mapped = values[:, :-1] @ mixing + np.outer(values[:, -1], offset)
        self.n_outputs = mixing.shape[1]
        weights = np.zeros((len(values), self.n_outputs))
        weights[:n] = self._weights(mapped[:n])
        self.arrays = self.arrays._replace(
            values=np.ascontiguousarray(np.column_stack([mapped, values[:, -1]])), weights=weights
        )
        mean = self.power[:-1].mean() if self.power.size > 1 else 0.0
        self.power = np.append(np.full(self.n_outputs, mean), self.power[-1])

    def snapshot(self, *, packed: bool = True) -> dict[str, Any]:
        """See :class:`Function`.

        Parameters
        ----------
        packed : bool, default=True
            Keep only the triangle of the matrices: half the size, for files.
        """
        n = self.size
        used = {name: array[:n] for name, array in self.arrays._asdict().items()}
        values: dict[str, Any] = {**vars(self), **used, "spread": None}
        values["factor"] = _FACTOR.of(self.arrays.factor[:n, :n], packed=packed)
        if self.arrays.spread.size:
            values["spread"] = _SPREAD.of(self.arrays.spread[:n, :n], packed=packed)
        return {"numbers": _NUMBERS.written_of(values), "arrays": _ARRAYS.written_of(values)}

    def restore(self, state: dict[str, Any]) -> None:
        sizes = {"n_features": self.n_features}
        numbers = _NUMBERS.read(state["numbers"], sizes)
        arrays = _ARRAYS.read(state["arrays"], sizes)
        spread, power, n = arrays.pop("spread"), arrays.pop("power"), len(arrays["points"])
        needs_spread = bool(n) and not self.rules.drops_rows
        if n > self.expansion.limit() or (spread is None and needs_spread):
            raise ValueError("The arrays of the recursive least squares do not fit together.")
        vars(self).update(numbers, power=power, size=n)
        if spread is None or self.rules.drops_rows:
            spread = np.zeros((0, 0))
        self.arrays = Recursion(**arrays, spread=spread)
