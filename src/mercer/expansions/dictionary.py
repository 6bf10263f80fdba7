"""A dictionary chosen on the first rows, with coefficients solved for on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.expansions.expansion import Expansion
from mercer.kernels import Kernel
from mercer.numerics.step import Compressor
from mercer.sums import CENTERS
from mercer.validation import check_choice, check_integer, check_real

#: Ridges compared if none is given.
RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# Number of rows from which the dictionary is chosen: at least, per point, and at most.
_FIRST_ROWS, _ROWS_PER_POINT, _MOST_FIRST_ROWS = 2000, 5, 30_000
# Limits of the automatic size, and rows of `fit` per point.
_SMALLEST, _LARGEST, _ROWS_FOR_A_POINT = 1000, 2000, 8


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
            ridge_values(self.ridge, RIDGES)

    def sized(self, n_rows: int | None, n_outputs: int) -> Dictionary:
        """Return this expansion with the size as a number."""
        if not isinstance(self.size, str):
            return self
        size = min(max(_SMALLEST, (n_rows or 0) // _ROWS_FOR_A_POINT), _LARGEST)
        return Dictionary(**{**self.get_params(deep=False), "size": size})

    @property
    def n_first_rows(self) -> int:
        """Rows kept until the dictionary is chosen."""
        if not isinstance(self.first_rows, str):
            return int(self.first_rows)
        return n_first_rows(int(self.size))

    def ridges(self) -> tuple[float, ...]:
        """Ridges to compare; empty if the estimator's ``regularization`` is the ridge."""
        return () if self.ridge is None else ridge_values(self.ridge, RIDGES)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    def compressor(self, kernel: Kernel) -> Compressor:
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


def n_first_rows(size: int) -> int:
    """Return the number of rows to collect before the first solution for ``size`` features."""
    wanted = max(_FIRST_ROWS, _ROWS_PER_POINT * size)
    return max(min(wanted, _MOST_FIRST_ROWS), size)


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
        If ``ridge`` is of another kind, or a value is not positive.

    Examples
    --------
    >>> ridge_values(0.1, RIDGES), ridge_values([0.1, 1.0], RIDGES)
    ((0.1,), (0.1, 1.0))
    """
    if isinstance(ridge, str):
        check_choice("ridge", ridge, ("auto",))
        return tuple(automatic)
    values: Any = ridge
    if np.ndim(values) > 1 or np.size(values) == 0:
        raise ValueError(f"`ridge` must be a number or some numbers, got {ridge!r}.")
    each = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    return tuple(check_real("ridge", value, low=0.0, open_low=True) for value in each)
