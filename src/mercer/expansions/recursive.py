"""Points that quantise the inputs, and dictionaries on which least squares are recursive."""

from __future__ import annotations

from typing import NoReturn

from mercer.expansions.expansion import Expansion
from mercer.kernels import Kernel
from mercer.numerics.recursive_squares import ERROR, NEVER, OLDEST, Rules
from mercer.numerics.step import QUANTISE, Compressor
from mercer.validation import check_real, choice, integer, or_none, parameters, positive, real

_LARGEST = 2**31  # points without a limit
_FACTOR = "It multiplies what earlier rows count with each row that comes."


class Quantized(Expansion):
    """Keep one point for each cell of the inputs: a row near a point adds to its coefficient.

    A newcomer no farther than ``radius`` from its nearest point does not join; that point gets its
    coefficient. With the squared loss, single rows, a constant step, no regularization and no
    averages this is QKLMS; with ``radius=0`` rows that come again share a point, and nothing is
    lost.

    Parameters
    ----------
    radius : float
        Largest Euclidean distance of a row that adds to a point, in units of the inputs (with
        ``kernel="auto"`` of the scaled ones): a fraction of the length scale.
    max_size : int or None, default=None
        Points that there may be. From then on every row adds to its nearest point, however far.
        None is as many as balls of half the radius fit between the inputs.

    References
    ----------
    Chen, Zhao, Zhu, Principe (2012), Quantized kernel least mean square algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 400)[:, np.newaxis]
    >>> model = KernelRegressor(
    ...     kernel="gaussian", expansion=Quantized(0.25), step_size=0.5, batch_size=1
    ... )
    >>> model.fit(x, np.sin(x[:, 0])).model_order_ < 25
    True
    """

    _parameters = parameters(radius=real(low=0.0), max_size=or_none(integer(low=1)))

    def __init__(self, radius: float, max_size: int | None = None) -> None:
        self.radius = radius
        self.max_size = max_size
        self._check()

    def compressor(self, kernel: Kernel) -> Compressor:
        return Compressor(QUANTISE, 0.0, 0.0, float(self.radius) ** 2)


class RecursiveLeastSquares(Expansion):
    r"""Base of the expansions whose function is least squares, solved anew with every row.

    f is the mean of a Gaussian process with the kernel as its covariance, seen through noise: each
    row changes all coefficients in :math:`O(M^2)` operations for M points, in no steps of any
    size, so that ``step_size``, ``batch_size``, ``average`` and ``n_passes`` play no role. Only the
    squared loss has such equations (``"least_squares_margin"`` for classes). The members differ in
    which rows become points (:attr:`tolerance`), which go (:attr:`removal`), and in what is
    forgotten.
    """

    mode = "recursive"

    tolerance: float = 0.0
    noise: float = 0.0
    forgetting: float = 1.0
    #: What old rows give way to: the ``"prior"``, or nothing (``"exponential"``).
    toward: str = "exponential"
    #: Which point goes where one must: of the smallest ``"error"``, the ``"oldest"``, or None.
    removal: str | None = None
    #: Whether what a row taught goes with its point.
    drops_rows: bool = False
    label_step: float = 0.0

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: no, there are no steps whose noise to take."""
        return False

    @property
    def rules(self) -> Rules:
        """The same for compiled code."""
        removal = {None: NEVER, "error": ERROR, "oldest": OLDEST}[self.removal]
        return Rules(
            float(self.tolerance),
            self.limit() if self.limit() < _LARGEST else _LARGEST,
            float(self.noise),
            float(self.forgetting),
            self.toward == "prior" and self.forgetting < 1.0,
            removal,
            self.drops_rows,
            float(self.label_step),
        )

    def compressor(self, kernel: Kernel) -> NoReturn:
        """See :class:`Expansion`: nothing is compressed.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"{self!r} has no form for functions of pairs of second order: their coefficients are "
            "a matrix over two dictionaries, which it does not solve for. Use KOMP, Budget, Full "
            "or RandomFeatures, or a pair kernel of first order such as 'difference'."
        )


class ALD(RecursiveLeastSquares):
    r"""Least squares on rows that are no linear combination of the points before (KRLS).

    A row becomes a point if :math:`k(x, \cdot)` is farther than ``tolerance`` from the span of the
    points (approximate linear dependence). Any other row is a row of the regression all the same,
    as its projection. Points never go, so that the size settles; no row is forgotten unless
    ``forgetting`` says so.

    Parameters
    ----------
    tolerance : float, default=1e-3
        Largest squared distance to the span, in units of k(x, x), of a row that is no point: nu of
        the paper. The arithmetic has a smallest value of 1e-9.
    max_size : int or None, default=1000
        Points that there may be; from then on no row becomes one. Three matrices of this size are
        the memory.
    noise : float, default=0.0
        Variance of the noise in units of the signal's, that is the ridge that is added to k(x, x)
        of each row. 0 is the paper's algorithm, whose only regularization is the small dictionary:
        it interpolates what it has too few rows for.
    forgetting : float, default=1.0
        Factor by which a row's weight falls with each row after it, in (0, 1].

    References
    ----------
    Engel, Mannor, Meir (2004), The kernel recursive least-squares algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 400)[:, np.newaxis]
    >>> model = KernelRegressor(kernel="gaussian", expansion=ALD(), random_state=0)
    >>> bool(model.fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.9999)
    True
    >>> model.model_order_
    12
    """

    _parameters = parameters(
        tolerance=real(low=0.0, high=1.0, open_high=True),
        max_size=or_none(integer(low=1)),
        noise=real(low=0.0),
        forgetting=real(low=0.0, high=1.0, open_low=True, why=_FACTOR),
    )

    def __init__(
        self,
        tolerance: float = 1e-3,
        max_size: int | None = 1000,
        noise: float = 0.0,
        forgetting: float = 1.0,
    ) -> None:
        self.tolerance = tolerance
        self.max_size = max_size
        self.noise = noise
        self.forgetting = forgetting
        self._check()


class FixedBudget(RecursiveLeastSquares):
    """Kernel ridge regression of the rows that matter most, or of the last ones (FB-KRLS).

    Every row becomes a point. Beyond ``size`` one goes with all that it taught: the row that the
    others predict best, or the oldest, which is regression in a sliding window.

    Parameters
    ----------
    size : int, default=100
        Number of rows that are kept.
    noise : float, default=0.01
        Ridge that is added to k(x, x) of each row: the variance of the noise in units of the
        signal's.
    removal : {"error", "oldest"}, default="error"
        Which row goes: that of the smallest error if it is left out, or the oldest one (SW-KRLS).
    label_step : float, default=0.0
        Part, times the kernel of both, by which the target of a kept row moves towards that of
        each new one: the paper's way to follow what changes. 0 keeps targets as they are.

    References
    ----------
    Van Vaerenbergh, Santamaria, Liu, Principe (2010), Fixed-budget kernel recursive least-squares;
    Van Vaerenbergh, Via, Santamaria (2006), A sliding-window kernel RLS algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 400)[:, np.newaxis]
    >>> model = KernelRegressor(kernel="gaussian", expansion=FixedBudget(20), random_state=0)
    >>> model.fit(x, np.sin(x[:, 0])).model_order_
    20
    """

    drops_rows = True

    _parameters = parameters(
        size=integer(low=1),
        noise=positive("The matrix that is inverted has it on its diagonal."),
        removal=choice("error", "oldest"),
        label_step=real(low=0.0, high=1.0),
    )

    def __init__(
        self,
        size: int = 100,
        noise: float = 0.01,
        removal: str = "error",
        label_step: float = 0.0,
    ) -> None:
        self.size = size
        self.noise = noise
        self.removal = removal
        self.label_step = label_step
        self._check()

    def limit(self) -> int:
        return self.size


def _check_forgetting(tracking: Tracking) -> None:
    if tracking.toward == "prior" and tracking.forgetting < 1.0:
        check_real(
            "noise",
            tracking.noise,
            low=0.0,
            open_low=True,
            why="Forgetting back to the prior weighs the prior against the noise.",
        )


class Tracking(RecursiveLeastSquares):
    r"""The posterior of a Gaussian process on a budget of points, which forgets (KRLS-T).

    Every row that is no combination of the points becomes one. Beyond ``size`` the point goes
    without which the mean changes least at its place; what its row taught about the others stays.
    Before each row the past is forgotten a little: the posterior moves back to the prior, so that
    old points come to know nothing, instead of to know it wrongly.

    Parameters
    ----------
    size : int, default=100
        Largest number of points.
    noise : float, default=0.01
        Variance of the noise in units of the signal's; the ridge that is added to k(x, x).
    forgetting : float, default=0.999
        Factor by which what is known fades with each row, in (0, 1]; 1 forgets nothing.
    toward : {"prior", "exponential"}, default="prior"
        What the past gives way to: the ``"prior"``, f = 0 with the uncertainty of the kernel, or
        nothing (``"exponential"``): f stays and its uncertainty grows, as in recursive least
        squares with exponential weights.
    tolerance : float, default=1e-6
        As of :class:`ALD`: rows that are so near to the span of the points are no points.

    References
    ----------
    Lazaro-Gredilla, Van Vaerenbergh, Santamaria (2011), A Bayesian approach to tracking with kernel
    recursive least-squares; Van Vaerenbergh, Lazaro-Gredilla, Santamaria (2012), Kernel recursive
    least-squares tracker for time-varying regression.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> model = KernelRegressor(kernel="gaussian", expansion=Tracking(20, forgetting=0.99))
    >>> x = np.random.default_rng(0).uniform(-3.0, 3.0, size=(1000, 1))
    >>> sign = np.where(np.arange(1000) < 500, 1.0, -1.0)
    >>> model = model.partial_fit(x, sign * np.sin(x[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] + np.sin(1.0)) < 0.05)
    True
    >>> f = model.learner_.current_function()
    >>> bool(f.variance(np.array([[1.0]])) < 0.1 * f.variance(np.array([[9.0]])))
    True
    """

    removal = "error"

    _parameters = parameters(
        size=integer(low=1),
        noise=real(low=0.0),
        forgetting=real(low=0.0, high=1.0, open_low=True, why=_FACTOR),
        toward=choice("prior", "exponential"),
        tolerance=real(low=0.0, high=1.0, open_high=True),
    )
    _relations = (_check_forgetting,)

    def __init__(
        self,
        size: int = 100,
        noise: float = 0.01,
        forgetting: float = 0.999,
        toward: str = "prior",
        tolerance: float = 1e-6,
    ) -> None:
        self.size = size
        self.noise = noise
        self.forgetting = forgetting
        self.toward = toward
        self.tolerance = tolerance
        self._check()

    def limit(self) -> int:
        return self.size
