"""Base class of expansions, and the expansions that keep some of the rows as points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.component import Component
from mercer.kernels import Gaussian, Kernel
from mercer.numerics.state import GREEDY, SMALLEST
from mercer.numerics.step import INVERSE, MERGE, PLAIN, REMOVE, RING, Compressor
from mercer.validation import check_real, choice, integer, or_none, parameters, real

UNLIMITED = np.iinfo(np.int64).max // 4

# Automatic tolerance, as a fraction of what one row adds to the function.
_AUTO_TOLERANCE = 0.25

# If some k(d, d) P_jj exceeds this, a triangular root replaces the explicit inverse, whose errors
# grow with the square of the condition number.
CONDITIONING_LIMIT = 1e5


class Expansion(Component):
    r"""How :math:`f = \sum_i w_i k(d_i, \cdot)` stays small: parameters only.

    A :class:`mercer.functions.KernelExpansion` is the function itself. It asks its ``Expansion``
    which compression to run, how much error a step may make, and how many points are allowed. A new
    compression answers these questions and adds its compiled function to
    ``mercer.numerics.step.compress``. An expansion with another kind of function has a method
    ``start`` instead, see :func:`mercer.functions.start`.
    """

    #: Which point is removed first.
    rule: int = GREEDY
    #: New points closer than this to the span of the others (squared, relative) are absorbed;
    #: rounding sets a lower limit of its own.
    absorb: float = 0.0
    #: Largest model order after a step; None for no limit.
    max_size: int | None = None
    #: How coefficients are learned: ``"faithful"`` by gradient steps in the norm of the kernel, or
    #: another mode of :class:`RandomFeatures`.
    mode: str = "faithful"

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: not if points are removed soon."""
        return True

    @property
    def needs_inverse(self) -> bool:
        """Whether the compression needs the inverse Gram matrix (M² numbers)."""
        return False

    def sized(self, n_rows: int | None, n_outputs: int) -> Expansion:
        """Return this expansion with its automatic sizes resolved.

        Parameters
        ----------
        n_rows : int or None
            Rows of ``fit``; None for a stream.
        n_outputs : int
            Number of outputs of f.
        """
        return self

    def compressor(self, kernel: Kernel) -> Compressor:
        """Return the compression to run.

        Parameters
        ----------
        kernel : Kernel
            Kernel with its numbers resolved.

        Raises
        ------
        ValueError
            If the compression is not available for this kernel.
        """
        raise NotImplementedError

    def limit(self) -> int:
        """Return the largest model order after a step."""
        return UNLIMITED if self.max_size is None else self.max_size

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        """Return the RKHS error that each step may make.

        Parameters
        ----------
        step_sizes : ndarray of shape (n_steps,)
            Step size of each step.
        first_step : int
            Number of the first step, counted from 1.
        typical_norm : float
            RKHS norm that one row adds to the function at unit step size, for automatic choices.
        """
        return np.zeros(step_sizes.size)


class Full(Expansion):
    """Keep all points that changed the function, or only the last ``max_size`` of them.

    Without a cap this is plain functional stochastic gradient descent: exact, and as large as the
    stream. With a cap it is NORMA's truncation: old terms have shrunk by ``(1 - step_size *
    regularization)**age``, so dropping the oldest costs little *if* ``max_size * step_size *
    regularization`` is well above 1.

    Parameters
    ----------
    max_size : int or None, default=None
        Number of most recent points to keep; None keeps all.

    References
    ----------
    Kivinen, Smola, Williamson (2004), Online learning with kernels, for the truncation.

    Examples
    --------
    >>> Full(max_size=500)
    Full(max_size=500)
    """

    _parameters = parameters(max_size=or_none(integer(low=1)))

    def __init__(self, max_size: int | None = None) -> None:
        self.max_size = max_size
        self._check()

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: only if all points are kept."""
        return self.max_size is None

    def compressor(self, kernel: Kernel) -> Compressor:
        return Compressor(PLAIN if self.max_size is None else RING, 0.0, 0.0)


def _check_tolerance(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        check_real(name, value, low=0.0)


def _refuse_both(komp: KOMP) -> None:
    if komp.tolerance is not None and komp.parsimony is not None:
        raise ValueError(
            "Give `tolerance` or `parsimony`, not both: got "
            f"tolerance={komp.tolerance!r} and parsimony={komp.parsimony!r}. Parsimony K "
            "means tolerance = K * step_size**1.5."
        )


class KOMP(Expansion):
    r"""Remove points after every step as long as the function moves by at most a tolerance.

    After each step, points are removed greedily and the other coefficients refitted, as long as
    :math:`\|f_{after} - f_{before}\|_H \le` tolerance. The bound holds for every step and any data;
    only ``max_size`` can force a larger error, which is then reported in ``history_``. In float64,
    distances below about 1e-8 of the coefficients are indistinguishable from zero.

    Parameters
    ----------
    tolerance : float, callable or None, default=None
        RKHS norm of the error per step; a callable maps the step number (1, 2, ...) to it. 0
        removes only linearly dependent points. The tolerance is per mini-batch: one row changes the
        function by about ``step_size / batch_size``.
    parsimony : float or None, default=None
        The constant K of the rule tolerance = K · step_size\ :sup:`1.5`, which makes both errors
        vanish together. Give either this or ``tolerance``. With neither, the tolerance is a quarter
        of what a single row adds to the function.
    max_size : int or None, default=None
        Hard cap on the model order. Memory is max_size² numbers for the inverse Gram matrix, in
        addition to the points, and twice that while arrays grow.

    References
    ----------
    POLK, Algorithms 1 and 2; Theorem 2 for the rule of ``parsimony`` and Theorem 3 for the finite
    model order under it.

    Examples
    --------
    >>> KOMP(parsimony=0.04).tolerances(np.array([6.0]), 1, 1.0).round(3)
    array([0.588])
    """

    _parameters = parameters(
        tolerance=_check_tolerance,
        parsimony=or_none(real(low=0.0)),
        max_size=or_none(integer(low=1)),
    )
    _relations = (_refuse_both,)

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

    @property
    def needs_inverse(self) -> bool:
        """True: the compression needs the inverse Gram matrix."""
        return True

    def compressor(self, kernel: Kernel) -> Compressor:
        return Compressor(INVERSE, 0.0, CONDITIONING_LIMIT)

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        if self.parsimony is not None:
            return self.parsimony * step_sizes * np.sqrt(step_sizes)
        if self.tolerance is None:
            return _AUTO_TOLERANCE * typical_norm * step_sizes
        if not callable(self.tolerance):
            return np.full(step_sizes.size, float(self.tolerance))
        values = [self.tolerance(first_step + i) for i in range(step_sizes.size)]
        return np.array([check_real("tolerance", float(v), low=0.0) for v in values])


class Budget(Expansion):
    """Keep at most ``size`` points; points beyond the budget are merged, projected or removed.

    Each strategy acts on the point whose term has the smallest RKHS norm.

    Parameters
    ----------
    size : int, default=1000
        Largest model order.
    strategy : {"merge", "project", "remove"}, default="merge"
        - ``"merge"``: replace it and its best partner by one point between them. Gaussian kernel
          only; merged points are not data points. Most accurate at a given size for ``hinge``
          losses, single rows and large budgets.
        - ``"project"``: delete it and refit the others (needs size² numbers).
        - ``"remove"``: delete it. Cheap, but inaccurate with small budgets.

    References
    ----------
    Wang, Crammer, Vucetic (2012), Breaking the curse of kernelization.

    Examples
    --------
    >>> Budget(200, "project").limit()
    200
    """

    rule = SMALLEST
    # Keeps the Gram matrix of a full budget from becoming singular; nothing else does.
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
        return self.size

    def tolerances(
        self, step_sizes: NDArray[np.float64], first_step: int, typical_norm: float
    ) -> NDArray[np.float64]:
        """Return -1 for each step: no point is removed before the budget is full."""
        return np.full(step_sizes.size, -1.0)
