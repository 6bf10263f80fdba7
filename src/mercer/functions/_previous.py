"""The function before the last step, in terms of the dictionary after it.

COLK, eq. (20) needs f before and after a step at the same points. A step leaves most points of the
dictionary where they are, so the kernels that the function after it takes serve the one before it,
too: only points that went need kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.state import Dictionary

__all__ = ["Previous"]

Array = NDArray[np.float64]
Floats = NDArray[np.floating]

_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


class Previous(NamedTuple):
    """A function on the slots of a dictionary, and on points that are no longer there.

    Attributes
    ----------
    on_slots : ndarray of shape (size, n_outputs) or (0, n_outputs), or None
        Coefficients on the points of the dictionary; of no rows if it needs none of them. None
        while a step is under way: then every point of the function is among ``points``.
    points : ndarray of shape (n, n_features)
        The other points.
    coefficients : ndarray of shape (n, n_outputs)
        Coefficients on them.
    """

    on_slots: Array | None
    points: Floats
    coefficients: Array

    @classmethod
    def same(cls, dictionary: Dictionary, coefficients: Array) -> Self:
        """Return the function of these coefficients on the dictionary as it is."""
        return cls(coefficients, dictionary.points[:0].copy(), coefficients[:0])

    @classmethod
    def begin(cls, dictionary: Dictionary, coefficients: Array) -> Self:
        """Remember the function before a step, and number the slots so that :meth:`end` knows."""
        size = coefficients.shape[0]
        dictionary.origin[:size] = np.arange(1, size + 1)
        return cls(None, dictionary.points[:size].copy(), coefficients)

    def end(self, origin: NDArray[np.int64]) -> Self:
        """Put the coefficients back on the points that are still there after the step.

        Parameters
        ----------
        origin : ndarray of shape (size,) of int64
            ``Dictionary.origin`` of the slots in use after the step.
        """
        stayed = origin > 0
        on_slots = np.zeros((origin.size, self.coefficients.shape[1]))
        on_slots[stayed] = self.coefficients[origin[stayed] - 1]
        went = np.ones(self.points.shape[0], dtype=np.bool_)
        went[origin[stayed] - 1] = False
        return self._replace(
            on_slots=on_slots, points=self.points[went], coefficients=self.coefficients[went]
        )

    def off_slots(self, dictionary: Dictionary) -> Self:
        """Return the same function without the slots, which are about to be filled afresh."""
        if self.on_slots is None:
            return self
        points = dictionary.points[: self.on_slots.shape[0]]
        return self._replace(
            on_slots=self.on_slots[:0],
            points=np.vstack([self.points, points]),
            coefficients=np.vstack([self.coefficients, self.on_slots]),
        )

    def map_outputs(self, mixing: Array) -> Self:
        """Replace the outputs f by f @ ``mixing``."""
        on_slots = None if self.on_slots is None else self.on_slots @ mixing
        return self._replace(on_slots=on_slots, coefficients=self.coefficients @ mixing)

    def values(self, X: Floats, rows: Floats, kernel: Callable[[Floats, Floats], Floats]) -> Array:
        """Values at some points.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            The points.
        rows : ndarray of shape (n, size)
            Their kernels with the dictionary.
        kernel : callable
            For the kernels with points that are no longer there.

        Returns
        -------
        values : ndarray of shape (n, n_outputs)
        """
        values = np.zeros((X.shape[0], self.coefficients.shape[1]))
        if self.on_slots is not None and self.on_slots.size:
            values += rows @ self.on_slots.astype(rows.dtype, copy=False)
        if self.coefficients.size:
            others = kernel(X, self.points)
            values += others @ self.coefficients.astype(others.dtype, copy=False)
        return values

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Copy the arrays, for the snapshot of a kernel expansion."""
        arrays = {"past_points": self.points.copy(), "past_coefficients": self.coefficients.copy()}
        if self.on_slots is not None:
            arrays["past_on_slots"] = self.on_slots.copy()
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, NDArray[Any]], n: int, n_features: int, n_outputs: int
    ) -> Self | None:
        """Inverse of :meth:`to_arrays`; None if the function was not kept.

        Parameters
        ----------
        arrays : dict of str to ndarray
            Of the snapshot.
        n : int
            Number of points of the dictionary.
        n_features, n_outputs : int
            Dimensions of inputs and outputs.

        Raises
        ------
        ValueError
            If the arrays do not fit such a dictionary.
        """
        if "past_points" not in arrays:
            return None
        points, coefficients = arrays["past_points"], arrays["past_coefficients"]
        on_slots = arrays.get("past_on_slots")
        fits = (
            points.shape == (len(points), n_features)
            and points.dtype in _TYPES
            and coefficients.shape == (len(points), n_outputs)
            and coefficients.dtype == np.float64
            # Without it the snapshot was taken in the middle of a step, and all points are here.
            and (len(points) == n if on_slots is None else on_slots.dtype == np.float64)
            and (on_slots is None or on_slots.shape in ((0, n_outputs), (n, n_outputs)))
        )
        if not fits:
            raise ValueError("The function before the last step does not fit the kernel expansion.")
        return cls(on_slots, points, coefficients)
