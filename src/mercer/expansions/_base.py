"""What every way of keeping a kernel expansion small has in common."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer._component import Component
from mercer.kernels import Kernel
from mercer.numerics.state import GREEDY
from mercer.numerics.step import Compressor

__all__ = ["Expansion"]

UNLIMITED = np.iinfo(np.int64).max // 4


class Expansion(Component):
    r"""How :math:`f = \sum_i w_i k(d_i, \cdot)` stays small: parameters only.

    The function itself is a :class:`mercer.functions.KernelExpansion`, which asks its
    ``Expansion`` three things: what compression runs, how much error a step may make, and how
    many points there may be. A new way of compressing answers these and adds its compiled
    function to ``mercer.numerics.step.compress``.
    """

    #: Which point goes first when one must.
    rule: int = GREEDY
    #: Newcomers closer than this to the span of the rest (squared, relative) are absorbed; the
    #: arithmetic has a smallest value of its own.
    absorb: float = 0.0
    #: Largest model order after a step; None for no limit.
    max_size: int | None = None
    #: How coefficients move: ``"faithful"`` by gradient steps in the norm of the kernel, or one of
    #: the other modes of :class:`RandomFeatures`.
    mode: str = "faithful"

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: not if points live for a short time only."""
        return True

    @property
    def needs_inverse(self) -> bool:
        """Whether the compression needs the inverse Gram matrix (M² numbers)."""
        return False

    def sized(self, n_rows: int | None, n_outputs: int) -> Expansion:
        """Return this expansion with sizes filled in that were left open.

        Parameters
        ----------
        n_rows : int or None
            Rows of ``fit``; None for a stream.
        n_outputs : int
            Components of f.
        """
        return self

    def start(
        self,
        kernel: Kernel,
        n_features: int,
        n_outputs: int,
        dtype: DTypeLike = np.float64,
        averaging: float | None = None,
    ) -> Any:
        """Return the function f = 0 that is kept small this way, as :func:`mercer.functions.start`.

        An expansion of one's own may override it, to bring another kind of function.

        Parameters
        ----------
        kernel : Kernel
            With its numbers resolved.
        n_features, n_outputs : int
            Dimensions of inputs and outputs.
        dtype : dtype, default=float64
            Type of points and kernel values.
        averaging : float or None, default=None
            Exponent of the averaging weights, None for the last iterate.
        """
        # Parameters know nothing of functions, which lie above them.
        functions = importlib.import_module("mercer.functions")
        return functions.start_known(self, kernel, n_features, n_outputs, dtype, averaging)

    def compressor(self, kernel: Kernel) -> Compressor:
        """Compression to run.

        Parameters
        ----------
        kernel : Kernel
            With its numbers resolved.

        Raises
        ------
        ValueError
            If the compression does not exist for this kernel.
        """
        raise NotImplementedError

    def limit(self) -> int:
        """Largest model order after a step."""
        return UNLIMITED if self.max_size is None else self.max_size

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        """RKHS error that each step may make.

        Parameters
        ----------
        step_sizes : ndarray of shape (n_steps,)
            Step size of each step.
        first_step : int
            Number of the first of them, counted from 1.
        typical_norm : float
            RKHS norm that one row adds to the function at unit step size, for automatic choices.
        """
        return np.zeros(step_sizes.size)
