"""Kernel orthogonal matching pursuit: a sparse function within a stated error (POLK)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_integer, check_real
from mercer.expansions._base import UNLIMITED, Expansion
from mercer.kernels import Kernel
from mercer.numerics.step import INVERSE, Compressor

__all__ = ["KOMP"]

# Tolerance of the automatic choice, in units of what one row adds to the function.
_AUTO_TOLERANCE = 0.25

# k(d, d) P_jj above this, and the explicit inverse gives way to a triangular root: its errors
# grow with the square of the condition number.
CONDITIONING_LIMIT = 1e5


class KOMP(Expansion):
    r"""Remove points after every step while the function moves by at most a tolerance.

    After each step the points are removed greedily, the others refitted, as long as
    :math:`\|f_{after} - f_{before}\|_H \le` tolerance. The bound holds for every step, whatever
    the data; only ``max_size`` can force a larger error, which is then reported in ``history_``.
    Distances below about 1e-8 of the coefficients cannot be told from zero in float64.

    Parameters
    ----------
    tolerance : float, callable or None, default=None
        RKHS norm of the error per step; a callable maps the step number (1, 2, ...) to it.
        0 removes only what is linearly dependent. The error is spent per mini-batch: one row
        changes the function by about ``step_size / batch_size``.
    parsimony : float or None, default=None
        The constant K of the rule tolerance = K · step_size\ :sup:`1.5`, which ties the tolerance
        to the step size so that both errors vanish together. Give this or ``tolerance``.
        With neither, the tolerance is a quarter of what a single row adds to the function.
    max_size : int or None, default=None
        Hard cap on the model order. Memory is max_size² numbers for the inverse Gram matrix
        besides the points themselves, and twice that while arrays grow.

    References
    ----------
    POLK, Algorithms 1 and 2; Theorem 2 for the rule of ``parsimony`` and Theorem 3 for the finite
    model order under it.

    Examples
    --------
    >>> KOMP(parsimony=0.04).tolerances(np.array([6.0]), 1, 1.0).round(3)
    array([0.588])
    """

    def __init__(
        self,
        tolerance: float | Callable[[int], float] | None = None,
        parsimony: float | None = None,
        max_size: int | None = None,
    ) -> None:
        self.tolerance = tolerance
        self.parsimony = parsimony
        self.max_size = max_size
        self._check()

    def _check(self) -> None:
        if self.tolerance is not None and self.parsimony is not None:
            raise ValueError(
                "Give `tolerance` or `parsimony`, not both: got "
                f"tolerance={self.tolerance!r} and parsimony={self.parsimony!r}. Parsimony K "
                "means tolerance = K * step_size**1.5."
            )
        if self.tolerance is not None and not callable(self.tolerance):
            check_real("tolerance", self.tolerance, low=0.0)
        if self.parsimony is not None:
            check_real("parsimony", self.parsimony, low=0.0)
        if self.max_size is not None:
            check_integer("max_size", self.max_size, low=1)

    @property
    def needs_inverse(self) -> bool:
        """Whether the compression needs the inverse Gram matrix: yes."""
        return True

    def compressor(self, kernel: Kernel) -> Compressor:
        """See :class:`Expansion`."""
        return Compressor(INVERSE, 0.0, CONDITIONING_LIMIT)

    def limit(self) -> int:
        """See :class:`Expansion`."""
        return UNLIMITED if self.max_size is None else self.max_size

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        """See :class:`Expansion`."""
        if self.parsimony is not None:
            return self.parsimony * step_sizes * np.sqrt(step_sizes)
        if self.tolerance is None:
            return _AUTO_TOLERANCE * typical_norm * step_sizes
        if not callable(self.tolerance):
            return np.full(step_sizes.size, float(self.tolerance))
        values = [self.tolerance(first_step + i) for i in range(step_sizes.size)]
        return np.array([check_real("tolerance", float(v), low=0.0) for v in values])
