"""Quantisation of the inputs, and recursive least squares on dictionaries (KRLS)."""

from __future__ import annotations

from typing import NoReturn

from mercer.expansions.expansion import Expansion
from mercer.kernels import Kernel
from mercer.numerics.recursive_squares import ERROR, NEVER, OLDEST, Rules
from mercer.numerics.step import QUANTISE, Compressor
from mercer.validation import check_real, choice, integer, or_none, parameters, positive, real

_LARGEST = 2**31  # stands for no limit
_FACTOR = "It multiplies what earlier rows count with each row that comes."


class Quantized(Expansion):
    """Quantise the inputs: a row near a point only adds to that point's coefficient.

    A row no farther than ``radius`` from its nearest point does not become a point; the nearest
    point takes its coefficient. With the squared loss, single rows, a constant step, no
    regularization and no averaging this is QKLMS. With ``radius=0``, repeated rows share a point,
    and nothing is lost.

    Parameters
    ----------
    radius : float
        Largest Euclidean distance at which a row adds to a point, in units of the inputs (with
        ``kernel="auto"``, of the scaled inputs): a fraction of the length scale.
    max_size : int or None, default=None
        Largest number of points. Once reached, every row adds to its nearest point at any distance.
        With None, only ``radius`` bounds the number.

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
    r"""Base class of expansions that solve least squares exactly after every row.

    f is the posterior mean of a Gaussian process with the kernel as covariance, observed with
    noise. Each row changes all coefficients, in :math:`O(M^2)` operations for M points. There are
    no steps, so ``step_size``, ``batch_size``, ``average`` and ``n_passes`` are not used. Only the
    squared loss (``"least_squares_margin"`` for classes) can be learned this way. Subclasses differ
    in which rows become points (:attr:`tolerance`), which points are removed (:attr:`removal`), and
    how they forget.
    """

    mode = "recursive"

    tolerance: float = 0.0
    noise: float = 0.0
    forgetting: float = 1.0
    #: What forgetting tends to: the ``"prior"``, or no information (``"exponential"``).
    toward: str = "exponential"
    #: Which point is removed: with the smallest ``"error"``, the ``"oldest"``, or None for none.
    removal: str | None = None
    #: Whether removing a point also removes what its row taught.
    drops_rows: bool = False
    label_step: float = 0.0

    @property
    def averages(self) -> bool:
        """False: there are no noisy steps to average."""
        return False

    @property
    def rules(self) -> Rules:
        """These settings in the form for compiled code."""
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
        """Raise an error, since nothing is compressed.

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
    r"""Least squares on rows that are not linear combinations of earlier points (KRLS).

    A row becomes a point if :math:`k(x, \cdot)` is farther than ``tolerance`` from the span of the
    points (approximate linear dependence). Any other row still takes part in the regression, by its
    projection on the points. Points are never removed, so the size settles. Rows are forgotten only
    with ``forgetting`` below 1.

    Parameters
    ----------
    tolerance : float, default=1e-3
        Largest squared distance to the span, in units of k(x, x), at which a row does not become a
        point: nu of the paper. Rounding sets a lower limit of 1e-9.
    max_size : int or None, default=1000
        Largest number of points; once reached, no more rows become points. Memory is three matrices
        of this size.
    noise : float, default=0.0
        Variance of the noise in units of the signal's variance: a ridge added to k(x, x) of each
        row. 0 is the paper's algorithm, regularised only by the small dictionary: with too few rows
        it interpolates.
    forgetting : float, default=1.0
        Factor on the weights of all earlier rows for each new row, in (0, 1].

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
    """Kernel ridge regression on the rows that matter most, or on the last ones (FB-KRLS).

    Every row becomes a point. Beyond ``size``, one point is removed with all that its row taught:
    the row that the others predict best, or the oldest, which is regression in a sliding window.

    Parameters
    ----------
    size : int, default=100
        Number of rows kept.
    noise : float, default=0.01
        Ridge added to k(x, x) of each row: the variance of the noise in units of the signal's
        variance.
    removal : {"error", "oldest"}, default="error"
        Row to remove: the row with the smallest leave-one-out error, or the oldest (SW-KRLS).
    label_step : float, default=0.0
        Factor, multiplied by the kernel of both rows, by which the target of a kept row moves
        towards the target of each new row: the paper's way to follow changes. 0 leaves targets as
        they are.

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
    r"""Posterior of a Gaussian process on a budget of points, with forgetting (KRLS-T).

    Every row that is not a linear combination of the points becomes a point. Beyond ``size``, the
    point is removed whose removal changes the mean least at that point; what its row taught about
    the others stays. Before each row the posterior moves a little back to the prior, so that old
    points become uncertain instead of wrong.

    Parameters
    ----------
    size : int, default=100
        Largest number of points.
    noise : float, default=0.01
        Variance of the noise in units of the signal's variance; a ridge added to k(x, x).
    forgetting : float, default=0.999
        Factor by which knowledge fades with each row, in (0, 1]; 1 forgets nothing.
    toward : {"prior", "exponential"}, default="prior"
        What forgetting tends to: the ``"prior"``, that is f = 0 with the variance of the kernel,
        or no information (``"exponential"``): f stays and its variance grows, as in recursive
        least squares with exponential weights.
    tolerance : float, default=1e-6
        As for :class:`ALD`: rows this close to the span of the points do not become points.

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
