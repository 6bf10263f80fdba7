"""Expansions: how a function stays small, by compression, a budget, a dictionary or features.

Expansions hold parameters only. The functions themselves are in :mod:`mercer.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from mercer.component import Component
from mercer.exceptions import InPython
from mercer.features import DESIGNS, FeatureOptions
from mercer.kernels import Gaussian, Kernel
from mercer.numerics.compression import (
    GREEDY,
    INVERSE,
    MERGE,
    PLAIN,
    QUANTISE,
    REMOVE,
    RING,
    SMALLEST,
    Compressor,
)
from mercer.numerics.recursive_squares import ERROR, NEVER, OLDEST, Rules
from mercer.sums import CENTERS
from mercer.validation import (
    check_choice,
    check_integer,
    check_real,
    choice,
    integer,
    nearest,
    or_none,
    parameters,
    positive,
    real,
)

__all__ = [
    "ALD",
    "KOMP",
    "Auto",
    "Budget",
    "Dictionary",
    "Expansion",
    "FixedBudget",
    "Full",
    "Quantized",
    "RandomFeatures",
    "RecursiveLeastSquares",
    "Stream",
    "Tracking",
    "as_expansion",
]

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
    compression answers these questions and adds its compiled function
    to ``mercer.numerics.compression.compress``. An expansion with another kind of function has a
    method ``start`` instead, see :func:`mercer.functions.start`.
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


def _nothing_to_compress(expansion: Expansion, kernel: Kernel) -> NoReturn:
    """Raise an error, since nothing is compressed.

    Raises
    ------
    ValueError
        Always.
    """
    raise ValueError(
        f"{expansion!r} has no form for functions of pairs of second order: their coefficients are "
        "a matrix over two dictionaries, which it does not solve for. Use KOMP, Budget, Full "
        "or RandomFeatures, or a pair kernel of first order such as 'difference'."
    )


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
            f"means tolerance = K * step_size**{komp.power:g}."
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
        The constant K of the rule tolerance = K · step_size\ :sup:`power`, which makes both errors
        vanish together and follows every step, chosen or automatic. Give either this or
        ``tolerance``. With neither, the tolerance is a quarter of what a single row adds to the
        function.
    max_size : int or None, default=None
        Hard cap on the model order. Memory is max_size² numbers for the inverse Gram matrix, in
        addition to the points, and twice that while arrays grow.
    power : float, default=1.5
        Power of the step size in the rule of ``parsimony``, at least 1. POLK has 1.5 for constant
        steps, and for falling ones tolerance = step_size², which is ``parsimony=1, power=2``; COLK
        has 2, too.

    References
    ----------
    POLK, Algorithms 1 and 2; Theorem 2 for the rule of ``parsimony`` and Theorem 3 for the finite
    model order under it; eq. (22) and Theorem 1 for falling steps. COLK, Section V.

    Examples
    --------
    >>> KOMP(parsimony=0.04).tolerances(np.array([6.0]), 1, 1.0).round(3)
    array([0.588])
    >>> KOMP(parsimony=1.0, power=2).tolerances(np.array([0.5, 0.1]), 1, 1.0).round(3)
    array([0.25, 0.01])
    """

    _parameters = parameters(
        tolerance=_check_tolerance,
        parsimony=or_none(real(low=0.0)),
        max_size=or_none(integer(low=1)),
        power=real(low=1.0, why="Below 1 the error of a step would outgrow the step."),
    )
    _relations = (_refuse_both,)

    def __init__(
        self,
        tolerance: float | Callable[[int], float] | None = None,
        parsimony: float | None = None,
        max_size: int | None = None,
        power: float = 1.5,
    ) -> None:
        self.tolerance = tolerance
        self.parsimony = parsimony
        self.max_size = max_size
        self.power = power
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
            return np.asarray(self.parsimony * step_sizes * step_sizes ** (self.power - 1.0))
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


#: Ridges compared if none is given.
SOLVED_RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# Number of rows from which the dictionary is chosen: at least, per point, and at most.
_FIRST_ROWS, _ROWS_PER_POINT, _MOST_FIRST_ROWS = 2000, 5, 30_000
# Limits of the automatic size, and rows of `fit` per point.
_FEWEST_POINTS, _MOST_POINTS, _ROWS_FOR_A_POINT = 1000, 2000, 8


class Dictionary(Expansion):
    r"""A dictionary chosen on the first rows, with coefficients solved for on all rows.

    The squared loss is solved exactly: :math:`f = \sum_i w_i k(d_i, \cdot)` on the dictionary D is
    the minimiser of :math:`\frac{1}{W} \sum_j w_j |f(x_j) - y_j|^2 + \lambda \|f\|^2` over all rows
    so far. Only sums over the rows are kept (:math:`M^2` numbers for M points). All other
    objectives are learned by Newton steps, with the bound of their curvature as the metric
    (:class:`mercer.sums.NewtonSteps`), which need no step size. Classifiers start from the ridge
    regression on labels -1 and +1, regressions from the ridge regression on the targets, other
    objectives from 0. Where slopes jump, the curvature is that of a smoothed objective; the width
    of smoothing is 1 for margins, and the mean absolute residual of the ridge regression for
    regressions. Value functions are solved for, too (for ``method="td"`` this is LSTD).

    Regressions with another loss than the squared one, ``forgetting=1`` and ``step_size="auto"``
    start on as many first rows as 600 MB of features hold: with 45 steps on all of these rows at
    once, which have momentum and smooth the loss less and less. If these are all rows, the result
    is the solution, each row is visited once, and the history holds the loss after it.

    A ``step_size`` of the estimator is in units of the longest step that does not overshoot on its
    rows. "auto" falls to 0 over the steps of ``fit``, and like 1 / sqrt(t) on streams, whose steps
    are averaged. A step uses at least 256 rows, or half a row per point; fewer rows wait. ``fit``
    repeats its rows until 50 steps are made.

    Until ``first_rows`` rows have come, the rows are kept, and f is learned from all of them on a
    dictionary of randomly drawn rows. Then the dictionary is chosen for good. ``fit``, too, chooses
    it on the first rows that it visits.

    Parameters
    ----------
    size : int or "auto", default=1000
        Largest number of points M. A row costs about 2 M d + M² operations for d inputs, a solution
        M³ / 3. "auto" is an eighth of the rows of ``fit``, between 1,000 and 2,000, and 1,000 for
        streams.
    centers : {"kmeans", "uniform", "leverage", "komp"}, default="kmeans"
        How points are chosen: means of clusters (for classifiers, in each class separately); rows
        drawn at random, or by their leverage; or the rows with which kernel orthogonal matching
        pursuit approximates the mean of all kernels (slow beyond some hundred points).
    ridge : float, sequence of float, "auto" or None, default="auto"
        Ridge parameter of the objective. Of several values, the one with the smallest squared error
        of the ridge regression on the last rows (5 %, 100 to 5,000 rows) is used. "auto" compares
        1e-2, 1e-3, ..., 1e-8. None is the ``regularization`` of the estimator. Objectives without a
        loss of targets (pairs, transitions, density ratios, novelty) use that for "auto" too, and
        refuse a sequence.
    first_rows : int or "auto", default="auto"
        Rows kept until the dictionary is chosen. "auto" is 5 per point, between 2,000 and 30,000
        (or ``size``).
    forgetting : float, default=1.0
        Factor on the weights of all earlier rows for each new row, in (0, 1]: 1 - 1e-4 for a memory
        of about 10,000 rows.
    refresh : float, default=0.05
        On a stream, a prediction solves again once the stream has grown by this share since the
        last solution; 0 means always. ``fit`` ends solved.
    precision : {"double", "single"}, default="double"
        Precision of kernel values. "single" is up to twice as fast. Sums and solutions are in
        double precision, but the smallest useful ridge is then about 1e-7 of the largest kernel
        value.
    seed : int, default=0
        Seed for the choice of points.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    A. Rudi, L. Carratino, L. Rosasco, "FALKON: an optimal large scale kernel method", NIPS 2017,
    for regression on a dictionary; F. Bach, "Adaptivity of averaged stochastic gradient descent to
    local strong convexity for logistic regression", JMLR 2014, for averaged steps.

    Examples
    --------
    >>> from mercer import KernelRegressor
    >>> from mercer.expansions import Dictionary
    >>> X = np.linspace(-3.0, 3.0, 400)[:, np.newaxis]
    >>> model = KernelRegressor(kernel="gaussian", expansion=Dictionary(30))
    >>> bool(model.fit(X, np.sin(2.0 * X[:, 0])).score(X, np.sin(2.0 * X[:, 0])) > 0.9999)
    True
    >>> model.dictionary_.shape
    (30, 1)
    """

    #: Learning solves equations; see ``RandomFeatures.mode``.
    mode = "solve"

    def __init__(
        self,
        size: int | str = 1000,
        centers: str = "kmeans",
        ridge: float | Sequence[float] | str | None = "auto",
        first_rows: int | str = "auto",
        forgetting: float = 1.0,
        refresh: float = 0.05,
        precision: str = "double",
        seed: int = 0,
    ) -> None:
        self.size = size
        self.centers = centers
        self.ridge = ridge
        self.first_rows = first_rows
        self.forgetting = forgetting
        self.refresh = refresh
        self.precision = precision
        self.seed = seed
        self._check()

    def _check(self) -> None:
        if isinstance(self.size, str):
            check_choice("size", self.size, ("auto",))
        else:
            check_integer("size", self.size, low=1)
        check_choice("centers", self.centers, (*CENTERS, "komp"))
        check_choice("precision", self.precision, ("double", "single"))
        why = "It multiplies the weights of all rows with each row that comes."
        check_real("forgetting", self.forgetting, low=0.0, high=1.0, open_low=True, why=why)
        check_real("refresh", self.refresh, low=0.0)
        check_integer("seed", self.seed, low=0, high=2**64 - 1)
        if isinstance(self.first_rows, str):
            check_choice("first_rows", self.first_rows, ("auto",))
        else:
            check_integer("first_rows", self.first_rows, low=1)
        if self.ridge is not None:
            ridge_values(self.ridge, SOLVED_RIDGES)

    def sized(self, n_rows: int | None, n_outputs: int) -> Dictionary:
        """Return this expansion with the size as a number."""
        if not isinstance(self.size, str):
            return self
        size = min(max(_FEWEST_POINTS, (n_rows or 0) // _ROWS_FOR_A_POINT), _MOST_POINTS)
        return Dictionary(**{**self.get_params(deep=False), "size": size})

    @property
    def n_first_rows(self) -> int:
        """Rows kept until the dictionary is chosen."""
        if not isinstance(self.first_rows, str):
            return int(self.first_rows)
        return n_first_rows(int(self.size))

    def ridges(self) -> tuple[float, ...]:
        """Ridges to compare; empty if the estimator's ``regularization`` is the ridge."""
        return () if self.ridge is None else ridge_values(self.ridge, SOLVED_RIDGES)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    compressor = _nothing_to_compress


def n_first_rows(size: int) -> int:
    """Return the number of rows to collect before the first solution for ``size`` features."""
    wanted = max(_FIRST_ROWS, _ROWS_PER_POINT * size)
    return max(min(wanted, _MOST_FIRST_ROWS), size)


_MOST_RIDGES = 1000  # to compare


def ridge_values(ridge: object, automatic: Sequence[float]) -> tuple[float, ...]:
    """Return ridge parameters as a tuple.

    Parameters
    ----------
    ridge : float, sequence of float or "auto"
        Ridges as the user gave them.
    automatic : sequence of float
        Ridges that "auto" stands for.

    Raises
    ------
    ValueError
        If ``ridge`` is of another kind, a value is not positive, or there are more than 1,000.

    Examples
    --------
    >>> ridge_values(0.1, SOLVED_RIDGES), ridge_values([0.1, 1.0], SOLVED_RIDGES)
    ((0.1,), (0.1, 1.0))
    """
    if isinstance(ridge, str):
        check_choice("ridge", ridge, ("auto",))
        return tuple(automatic)
    values: Any = ridge
    if np.ndim(values) > 1 or np.size(values) == 0:
        raise ValueError(f"`ridge` must be a number or some numbers, got {ridge!r}.")
    if np.size(values) > _MOST_RIDGES:
        raise ValueError(
            f"`ridge` has {np.size(values):,} numbers, but each is solved for: give at most "
            f"{_MOST_RIDGES:,}."
        )
    each = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    return tuple(check_real("ridge", value, low=0.0, open_low=True) for value in each)


MODES = ("newton", "faithful", "cyclic", "solve")
GROWTHS = ("auto", "block", "doubling", "fixed")
#: Ridges compared in newton mode: no single one suits all data.
NEWTON_RIDGES = (3e-2, 1e-2, 1e-3, 1e-4, 1e-5)
_MOST_BLOCKS = 2**32
# Limits of the automatic block size.
_SMALLEST_BLOCK, _LARGEST_BLOCK = 128, 1024
_ROWS_UNKNOWN_BLOCK = 256


class Plan(NamedTuple):
    """Sizes of a run of learning.

    Attributes
    ----------
    block_size : int
        Features per block.
    rows_per_step : int
        Rows per step; each step draws one block.
    n_passes : int
        Passes over the rows of ``fit``.
    """

    block_size: int
    rows_per_step: int
    n_passes: int


def _check_block_size(name: str, value: Any) -> None:
    if not isinstance(value, str) or value != "auto":
        check_integer(name, value, low=1, high=2**24)


def _check_blocks_of_mode(features: RandomFeatures) -> None:
    mode, growth, most = features.mode, features.growth, features.max_blocks
    if mode != "cyclic":
        if growth not in ("auto", "block"):
            raise ValueError(
                f"`growth={growth!r}` is for mode 'cyclic', which visits blocks again: in "
                f"mode {mode!r} every step draws a block. Use growth='block'."
            )
        if most is not None:
            raise ValueError(
                f"`max_blocks` is for mode 'cyclic', got max_blocks={most!r} with "
                f"mode {mode!r}, where every step draws a block. Leave it out."
            )
    elif most is not None:
        check_integer("max_blocks", most, low=1, high=_MOST_BLOCKS)


def _check_ridge_of_mode(features: RandomFeatures) -> None:
    ridge = features.ridge
    if features.mode == "faithful" and not isinstance(ridge, str):
        raise ValueError(
            f"`ridge` is for the modes 'newton', 'cyclic' and 'solve', got {ridge!r} "
            "with mode 'faithful'. Leave it out; `regularization` is its ridge parameter."
        )
    ridge_values(ridge, ())


class RandomFeatures(Expansion):
    r"""Represent f by coefficients of random features, drawn in blocks from a seed.

    Each step draws a new block of features, fits coefficients on it to the rows of the step, and
    keeps only these coefficients. The features are a function of (seed, block number) and are
    recomputed when f is evaluated. So f needs ``block_size * n_outputs`` numbers per step, for any
    number of inputs, and the number of features need not be chosen in advance.

    Parameters
    ----------
    block_size : int or "auto", default=256
        Features per block. "auto" depends on the number of rows of ``fit``: 1,024 from 51,200 rows
        on, fewer below, but at least 128 (256 for several outputs).
    mode : {"newton", "faithful", "cyclic", "solve"}, default="newton"
        ``"newton"``: fit the block by regularised least squares to the step's slopes. Learns
        fastest by far, but is biased towards another norm: for prediction.
        ``"faithful"``: the paper's gradient step, which converges to the minimiser of the
        regularised objective: for Gaussian processes, quantile levels, density ratios, novelty.
        ``"cyclic"``: visit the blocks in turn, each with a Newton step in its coefficients on the
        regularised objective. Converges to the minimiser over the existing features; a prediction
        costs at most ``max_blocks * block_size`` features.
        ``"solve"``: one fixed block, on which a squared loss is solved for from sums over all rows,
        and other objectives take Newton steps, as with :class:`mercer.expansions.Dictionary`.
        The features' kernel is the approximate one.
    growth : {"auto", "block", "doubling", "fixed"}, default="auto"
        ``"block"``: one more block every step (in cyclic mode up to ``max_blocks``).
        ``"doubling"``: twice the blocks after all were visited twice (cyclic). ``"fixed"``: all
        ``max_blocks`` from the start (cyclic). ``"auto"`` is "fixed" in cyclic mode, else "block".
    max_blocks : int or None, default=None
        Largest number of blocks in cyclic mode; None means 16.
    ridge : float, sequence of float or "auto", default="auto"
        Newton mode: what is added to the block's covariance, whose eigenvalues sum to 1. With
        several values, one model per value is learned on the same features, at a tenth of the cost
        each, and the best on held-out rows is kept; runs of several passes hold rows out for this.
        "auto" compares 3e-2, 1e-2, 1e-3, 1e-4 and 1e-5. Cyclic mode: several values are compared in
        place of ``regularization``. Solve mode: the ridge of the objective; "auto" is 1e-2, 1e-3,
        ..., 1e-8, and the best on the last rows is used.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        How frequencies are drawn: independently; orthogonal to each other; by fast Hadamard
        transforms (up to ten times faster with many inputs); from a Sobol sequence (far more
        accurate with few inputs). "auto" chooses by the number of inputs.
    paired : bool, default=True
        Use the cosine and sine of every frequency instead of one cosine with a random phase: more
        accurate, with half the projections.
    precision : {"single", "double"}, default="single"
        Precision of features and coefficients; equations are solved in double precision.
    cache_bytes : int, default=268435456
        Memory for the random numbers of blocks; beyond it they are redrawn when needed.
    min_steps : int, default=100
        ``fit`` repeats its rows beyond the estimator's ``n_passes`` until this many steps are made;
        not in the modes ``"faithful"`` and ``"solve"``.
    seed : int, default=0
        Seed for the features. The same seed gives the same features everywhere.

    Raises
    ------
    ValueError
        For values out of range, and for a growth that the mode does not support.

    References
    ----------
    DSG, Algorithms 1 and 2; the preconditioning of newton mode is mentioned below eq. (7).

    Examples
    --------
    >>> from mercer import KernelClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = KernelClassifier(expansion=RandomFeatures(block_size=64)).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _parameters = parameters(
        block_size=_check_block_size,
        mode=choice(*MODES),
        growth=choice(*GROWTHS),
        design=choice(*DESIGNS),
        precision=choice("single", "double"),
        paired=choice(True, False),
        cache_bytes=integer(low=0),
        min_steps=integer(low=0),
        seed=integer(low=0, high=2**64 - 1),
    )
    _relations = (_check_blocks_of_mode, _check_ridge_of_mode)

    def __init__(
        self,
        block_size: int | Literal["auto"] = 256,
        mode: str = "newton",
        growth: str = "auto",
        max_blocks: int | None = None,
        ridge: float | Sequence[float] | str = "auto",
        design: str = "auto",
        paired: bool = True,
        precision: str = "single",
        cache_bytes: int = 2**28,
        min_steps: int = 100,
        seed: int = 0,
    ) -> None:
        self.block_size = block_size
        self.mode = mode
        self.growth = growth
        self.max_blocks = max_blocks
        self.ridge = ridge
        self.design = design
        self.paired = paired
        self.precision = precision
        self.cache_bytes = cache_bytes
        self.min_steps = min_steps
        self.seed = seed
        self._check()

    def ridges(self) -> tuple[float, ...]:
        """Ridges to compare; empty if the objective's regularization is the ridge."""
        automatic = {"newton": NEWTON_RIDGES, "solve": SOLVED_RIDGES}
        return ridge_values(self.ridge, automatic.get(self.mode, ()))

    @property
    def n_first_rows(self) -> int:
        """Rows kept in solve mode until learning begins; the block size must be a number."""
        return n_first_rows(int(self.block_size))

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: only for plain gradient steps."""
        return self.mode == "faithful"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of features and coefficients."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    @property
    def options(self) -> FeatureOptions:
        """Options for drawing features."""
        return FeatureOptions(bool(self.paired), self.design)

    def plan(
        self,
        batch_size: int,
        n_passes: int = 1,
        n_rows: int | None = None,
        n_outputs: int = 1,
    ) -> Plan:
        """Return the sizes of a run.

        In faithful mode a step is a batch of the estimator. The other modes fit a block to the rows
        of a step, which needs at least as many rows as features; smaller batches are collected.

        Parameters
        ----------
        batch_size, n_passes : int
            Settings of the estimator.
        n_rows : int or None, default=None
            Rows per pass; None for a stream. ``fit`` makes one more pass if whole batches, or
            held-out rows, need it.
        n_outputs : int, default=1
            Number of outputs of f.
        """
        m = self._block_size(n_rows, n_outputs)
        if self.mode in ("faithful", "solve"):
            return Plan(m, batch_size, n_passes)
        # A revisited block carries the noise of its earlier batches.
        times = (
            8 if self.mode == "cyclic" else 4 if n_outputs > 1 else 2 if m < _LARGEST_BLOCK else 1
        )
        rows = max(batch_size, times * m)
        steps = 1 if n_rows is None else max(1, round(n_rows / rows))
        return Plan(m, rows, max(n_passes, -(-self.min_steps // steps)))

    def _block_size(self, n_rows: int | None, n_outputs: int) -> int:
        """Return the features per block; "auto" depends on the number of rows."""
        if not isinstance(self.block_size, str):
            return int(self.block_size)
        if n_rows is None:
            return _ROWS_UNKNOWN_BLOCK
        wanted, smallest = n_rows / 50.0, _SMALLEST_BLOCK if n_outputs == 1 else 2 * _SMALLEST_BLOCK
        return int(min(max(2 ** int(np.log2(max(wanted, 1.0))), smallest), _LARGEST_BLOCK))

    def sized(self, n_rows: int | None, n_outputs: int) -> RandomFeatures:
        """Return this expansion with the block size as a number."""
        block_size = self._block_size(n_rows, n_outputs)
        return RandomFeatures(**{**self.get_params(deep=False), "block_size": block_size})


_NO_LIMIT = 2**31  # stands for no limit
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

    _parameters = parameters(radius=real(low=0.0, high=1e150), max_size=or_none(integer(low=1)))

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
            self.limit() if self.limit() < _NO_LIMIT else _NO_LIMIT,
            float(self.noise),
            float(self.forgetting),
            self.toward == "prior" and self.forgetting < 1.0,
            removal,
            self.drops_rows,
            float(self.label_step),
        )

    compressor = _nothing_to_compress


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


def _check_resumable(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")


def _check_block_length(name: str, value: Any) -> None:
    if not isinstance(value, str) or value != "auto":
        found = InPython('Or "auto".', ("Leave it out to have it found.",))
        check_integer(name, value, low=1, mend=found)


class Auto(Expansion):
    r"""Choose everything by a race on the first rows, and learn by second-order sums.

    The function is a weighted sum of parts, :math:`f = \sum_p v_p f_p`, each a kernel expansion.
    Some parts have a thousand points for the whole space. With enough rows there are also
    partitions of the space into cells, each cell with an expansion on all of its rows
    (:class:`mercer.kernels.Partitioned`). One part is on the leaves of trees
    (:class:`mercer.maps.Leaves`), for thresholds. A race of pilot fits chooses the families of
    kernels, the scaling, projection or weighting of the inputs, and the length scales. Parts learn
    by ridge regression. Rows that are predicted before they are learned choose ridges and weights.
    Scores of classes are f + b f³, with the b >= 0 that calibrates probabilities best. For other
    losses than the squared one in regression (quantiles, Huber, counts, ...), and under a risk, the
    sum estimates the mean, or the scores without the risk. A function of the inputs and of this sum
    (:class:`mercer.sums.Correction`), learned on the rows that chose the weights, turns it into the
    minimiser. Test data are never used. With up to 2,000 rows, each part has all rows as its
    points, and each has a kernel of another family.

    Memory is bounded, however many rows come: the first 20,000 rows, then sums and the rows of
    cells (``max_memory``; beyond it, sums replace the rows of cells), and the last 5,000 to 13,000
    rows. Rows are seen once.

    Parameters
    ----------
    budget_seconds : float or None, default=None
        CPU time to aim at, on an ordinary core, for learning the expected rows: smaller and fewer
        parts are used if all parts would take longer. None for no limit. Operations are counted,
        not seconds, so the result does not depend on the machine's load.
    max_memory : int, default=1073741824
        Bytes for the sums of all parts and for the rows that cells keep. It limits the points of
        the global parts, the cells of partitions and, for a ``Partitioned`` kernel of your own, the
        points of a cell. Points beside sums and coefficients come on top. So do, while solving,
        three more matrices as large as the matrix of the largest dictionary.
    forgetting : float, default=1.0
        Factor of the sums for each learned row, below 1 for streams that drift. A row counts about
        a third (1/e) of a new one after 1 / (1 - forgetting) further rows.
    refresh : float, default=0.1
        On a stream, predictions use a new solution once the number of rows has grown by this share
        (with ``forgetting``: the number of rows that still count). After ``fit`` they use all rows.
    expected_rows : int or None, default=None
        Number of rows of a stream, if known: cells are then laid out for that many rows, which they
        keep if memory allows. ``fit`` knows the number.
    resumable : bool, default=False
        Whether a model file holds the sums after ``fit``, however large they are, so that learning
        can continue from the file. Files of models that learn from streams always do.
    block_length : int or "auto", default="auto"
        Number of consecutive rows held out together when kernels, ridges and weights are judged
        (block cross-validation). 1 is for rows in no order. More, up to a fifth of the rows, is for
        time series: a row held out beside its neighbours is easier to predict than future rows.
        ``"auto"`` compares errors on blocks of 50 rows (fewer if there are few rows), in the order
        of arrival, with errors on as many random rows. It holds out blocks if their errors are a
        quarter higher, otherwise single rows. It also holds out single rows with fewer than 200
        rows, with only one input, or if rows are sorted by a target. Rows of weight 0 do not count.
    seed : int, default=0
        Seed for dictionaries, anchors and pilots.

    Raises
    ------
    ValueError
        For values out of range.

    Examples
    --------
    >>> from mercer import KernelRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(500, random_state=0)
    >>> model = KernelRegressor().fit(X, y)  # the same as expansion=Auto()
    >>> model.score(*make_friedman1(500, random_state=1)) > 0.97
    True
    >>> any("relevance" in entry["metric"] for entry in model.race_)
    True
    """

    _parameters = parameters(
        budget_seconds=or_none(positive()),
        max_memory=integer(low=2**20, why="In bytes, one MiB at least."),
        forgetting=real(low=0.0, open_low=True, high=1.0),
        refresh=real(low=0.0),
        expected_rows=or_none(integer(low=1)),
        resumable=_check_resumable,
        block_length=_check_block_length,
        seed=integer(low=0),
    )

    def __init__(
        self,
        budget_seconds: float | None = None,
        max_memory: int = 2**30,
        forgetting: float = 1.0,
        refresh: float = 0.1,
        expected_rows: int | None = None,
        resumable: bool = False,
        block_length: int | str = "auto",
        seed: int = 0,
    ) -> None:
        self.budget_seconds = budget_seconds
        self.max_memory = max_memory
        self.forgetting = forgetting
        self.refresh = refresh
        self.expected_rows = expected_rows
        self.resumable = resumable
        self.block_length = block_length
        self.seed = seed
        self._check()

    @property
    def averages(self) -> bool:
        """False: a solution of equations needs no averaging."""
        return False

    def sized(self, n_rows: int | None, n_outputs: int) -> Auto:
        """Return this expansion with the number of rows filled in, if it is known."""
        if n_rows is None or self.expected_rows is not None:
            return self
        return Auto(**{**self.get_params(deep=False), "expected_rows": n_rows})


class Stream(Expansion):
    r"""Learn row by row with several models side by side; the best ones count most.

    Inputs, and regression targets, are scaled by statistics of the stream so far. On the scaled
    rows run gradient steps of four sizes on random features of three length scales, recursive sums
    with and without forgetting, and kernel expansions compressed by KOMP, with their last iterates
    and with averages. All models predict each row before they learn it. Their predictions are
    combined by a fixed-share mixture, whose loss has a bound for *any* sequence of best models
    (:class:`mercer.streams.FixedShare`), and by regressions on the predictions
    (:class:`mercer.streams.Stack`). If the losses show that the stream has changed, sums start
    again, and the old state is kept in case it comes back.

    Memory and the cost per row are bounded. ``fit``, too, keeps the order of the rows. Sample
    weights count relative to the usual weight, at most ten times. Rows given as dicts may have
    other features than earlier rows, and NaN counts as missing. ``expansion="auto"`` means this
    expansion if a model starts with ``learn_one``, or with fewer than 256 rows in ``partial_fit``,
    and has the squared, logistic or softmax loss.

    Parameters
    ----------
    n_features : int, default=96
        Random features per length scale.
    points : int, default=200
        Largest number of points of each kernel expansion.
    seed : int, default=0
        Seed for the random features.

    Raises
    ------
    ValueError
        For values out of range.

    References
    ----------
    M. Herbster, M. Warmuth, Tracking the best expert, Machine Learning 32, 1998.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> rng, model = np.random.default_rng(0), KernelRegressor()
    >>> for x in rng.uniform(-2.0, 2.0, size=(300, 1)):
    ...     model = model.learn_one(x, 50.0 + np.sin(2.0 * x[0]))
    >>> bool(abs(model.predict_one([1.0]) - 50.0 - np.sin(2.0)) < 0.1)
    True
    """

    #: No step size is needed.
    mode = "solve"
    _parameters = parameters(n_features=integer(low=2), points=integer(low=1), seed=integer(low=0))

    def __init__(self, n_features: int = 96, points: int = 200, seed: int = 0) -> None:
        self.n_features = n_features
        self.points = points
        self.seed = seed
        self._check()

    @property
    def averages(self) -> bool:
        """False: averages are among the models already."""
        return False

    def start(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error: only the classifier and the regressor support this expansion."""
        raise ValueError(
            f"{self!r} is for KernelClassifier and KernelRegressor, with the squared, the logistic "
            "or the softmax loss. Use another expansion, such as 'komp'."
        )

    def compressor(self, kernel: Any) -> NoReturn:
        """Raise an error: this is not a single expansion that can be compressed."""
        self.start()


# Names in other libraries, for the error message. Here each expansion has one name, because its
# settings differ from theirs.
ELSEWHERE = {
    "bsgd": "budget",
    "fourier": "random_features",
    "inducing_points": "dictionary",
    "landmarks": "dictionary",
    "norma": "full",
    "nystroem": "dictionary",
    "nystrom": "dictionary",
    "omp": "komp",
    "orthogonal_random_features": "random_features",
    "polk": "komp",
    "random_fourier_features": "random_features",
    "rbf_sampler": "random_features",
    "rff": "random_features",
}


def as_expansion(value: object) -> Expansion:
    """Turn a name or an expansion into an expansion.

    Parameters
    ----------
    value : str or Expansion
        ``"auto"`` (:class:`Auto`, which estimators use if they can learn by sums), ``"komp"`` (at
        most 1,000 points), ``"full"``, ``"budget"``, ``"dictionary"``, ``"random_features"`` (block
        size chosen by the number of rows), ``"stream"``, or an expansion, which is returned
        unchanged.

    Raises
    ------
    ValueError
        For any other value; the message lists the names.

    Examples
    --------
    >>> as_expansion("auto"), as_expansion("komp")
    (Auto(), KOMP(max_size=1000))
    """
    if isinstance(value, Expansion):
        return value
    names: dict[str, Callable[[], Expansion]] = {
        "auto": Auto,
        "komp": partial(KOMP, max_size=1000),
        "full": Full,
        "budget": Budget,
        "dictionary": Dictionary,
        "random_features": partial(RandomFeatures, block_size="auto"),
        "stream": Stream,
    }
    if isinstance(value, str) and value.lower() in names:
        return names[value.lower()]()
    hint = nearest(value, names, ELSEWHERE) if isinstance(value, str) else ""
    raise ValueError(
        f"`expansion` must be 'auto', 'komp', 'full', 'budget', 'dictionary', 'random_features', "
        f"'stream' or an object of mercer.expansions, got {value!r}.{hint}"
    )
