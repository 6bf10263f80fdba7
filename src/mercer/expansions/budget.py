"""A fixed number of points, by the three strategies of budgeted SGD."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._validation import choice, integer, parameters
from mercer.expansions._base import Expansion
from mercer.expansions.komp import CONDITIONING_LIMIT
from mercer.kernels import Gaussian, Kernel
from mercer.numerics.state import SMALLEST
from mercer.numerics.step import INVERSE, MERGE, REMOVE, Compressor

__all__ = ["Budget"]


class Budget(Expansion):
    """Keep at most ``size`` points: what exceeds the budget is removed, projected or merged.

    All three act on the point whose term has the smallest RKHS norm.

    Parameters
    ----------
    size : int, default=1000
        Largest model order.
    strategy : {"merge", "project", "remove"}, default="merge"
        - ``"merge"``: replace it and its best partner by one point between them. Gaussian kernel
          only; the merged points are no data points. Best accuracy at a given size for ``hinge``
          losses, single rows and large budgets.
        - ``"project"``: delete it and refit the others (needs size² numbers).
        - ``"remove"``: delete it. Cheap, and poor at small budgets.

    References
    ----------
    Wang, Crammer, Vucetic (2012), Breaking the curse of kernelization.

    Examples
    --------
    >>> Budget(200, "project").limit()
    200
    """

    rule = SMALLEST
    # Nothing else keeps the Gram matrix of a full budget from becoming singular.
    absorb = 1e-6

    _parameters = parameters(size=integer(low=1), strategy=choice("merge", "project", "remove"))

    def __init__(self, size: int = 1000, strategy: str = "merge") -> None:
        self.size = size
        self.strategy = strategy
        self._check()

    @property
    def needs_inverse(self) -> bool:
        """Whether the compression needs the inverse Gram matrix: for ``"project"``."""
        return self.strategy == "project"

    def compressor(self, kernel: Kernel) -> Compressor:
        """See :class:`Expansion`."""
        if self.strategy == "project":
            return Compressor(INVERSE, 0.0, CONDITIONING_LIMIT)
        if self.strategy == "remove":
            return Compressor(REMOVE, 0.0, 0.0)
        if not isinstance(kernel, Gaussian):
            raise ValueError(
                f"Budget(strategy='merge') exists for the Gaussian kernel only, got {kernel!r}: "
                "two terms merge into one at a point between them, whose best place is known in "
                "closed form for that kernel. Use strategy='project', or kernel='gaussian'."
            )
        return Compressor(MERGE, 0.5 / float(kernel.length_scale) ** 2, 0.0)

    def limit(self) -> int:
        """See :class:`Expansion`."""
        return self.size

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        """See :class:`Expansion`: nothing is removed while there is room."""
        return np.full(step_sizes.size, -1.0)
