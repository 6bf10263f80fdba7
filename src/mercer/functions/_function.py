"""Interface of functions, as the loop and prediction see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.expansions import Expansion
from mercer.kernels import Kernel

Array = NDArray[np.float64]


class Function(ABC):
    """A function with ``n_outputs`` outputs, built with a kernel.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    expansion : Expansion
        How the function stays small.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    averaging : float or None
        Evaluate the average of the iterates with weights ``t**averaging`` (0: plain mean); None for
        the last iterate.
    """

    expansion: Any
    #: Slots of points that return in later steps; empty if the function keeps no such points.
    slots: NDArray[np.int64] = np.empty(0, np.int64)

    def __init__(
        self,
        kernel: Kernel,
        expansion: Expansion,
        n_features: int,
        n_outputs: int,
        averaging: float | None,
    ) -> None:
        self.kernel = kernel
        self.expansion = expansion
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.averaging = averaging

    @property
    def promoted(self) -> str:
        """The safer path in use, if any: ``""``, ``"float64"`` or ``"triangular"``."""
        return ""

    @abstractmethod
    def evaluate(self, X: Any) -> Array:
        """Return values of the function (of the averaged one, if there is one).

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            Points.

        Returns
        -------
        values : ndarray of shape (n, n_outputs)

        Raises
        ------
        ValueError
            If a row is outside the kernel's domain, or a value is not finite.
        """

    @abstractmethod
    def keep_previous(self) -> None:
        """Start to remember the function before the last step.

        Until the next step, the current function also counts as the previous one: :math:`f_{-1} =
        f_0`.
        """

    @abstractmethod
    def map_outputs(self, mixing: Array) -> None:
        """Replace the outputs f by f @ ``mixing``, for example to insert one for a new class.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            Column j holds the coefficients of the new output j in the old outputs.
        """

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return copies of everything that learning changes; for :meth:`restore`."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`snapshot`, bit for bit.

        Raises
        ------
        ValueError
            If the arrays do not fit together.
        """


def dense_rows(X: Any, dtype: DTypeLike, precision: str) -> NDArray[np.floating]:
    """Return rows as a dense array of the type that a ``precision`` computes in.

    Raises
    ------
    ValueError
        If a value exceeds the range of that type.
    """
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    with np.errstate(over="ignore"):
        rows: NDArray[np.floating] = np.ascontiguousarray(dense, dtype=dtype)
    if rows.dtype != dense.dtype and not np.isfinite(rows).all():
        raise ValueError(
            f"An input of size {float(np.abs(dense).max()):.3g} leaves the range of {rows.dtype}, "
            f"in which precision={precision!r} computes. Rescale the inputs, for example with "
            "sklearn.preprocessing.StandardScaler, or use precision='double'."
        )
    return rows


def precise_rows(X: Any, dtype: DTypeLike, precision: str) -> NDArray[np.floating]:
    """Return rows as a dense float64 array: predictions use float64 whatever the precision.

    Raises
    ------
    ValueError
        If a value exceeds the range of the type used in learning: see :func:`dense_rows`.
    """
    rows = dense_rows(X, np.float64, precision)
    if np.dtype(dtype) != np.float64:
        dense_rows(rows, dtype, precision)
    return rows
