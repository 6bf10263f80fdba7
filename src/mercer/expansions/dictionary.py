"""A dictionary that is fixed early, on which the function is solved for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.expansions.expansion import Expansion
from mercer.kernels import Kernel
from mercer.numerics.step import Compressor
from mercer.sums import CENTERS
from mercer.validation import check_choice, check_integer, check_real

#: Ridges that are raced if none is given.
RIDGES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# Rows to choose the dictionary from: at least, for each point, and at most.
_FIRST_ROWS, _ROWS_PER_POINT, _MOST_FIRST_ROWS = 2000, 5, 30_000
# Automatic sizes, and rows of `fit` for each point.
_SMALLEST, _LARGEST, _ROWS_FOR_A_POINT = 1000, 2000, 8


class Dictionary(Expansion):
    r"""A dictionary fixed on the first rows, and coefficients solved for on all of them.

    The squared loss is solved exactly: :math:`f = \sum_i w_i k(d_i, \cdot)` on the dictionary D is
    the minimiser of :math:`\frac{1}{W} \sum_j w_j |f(x_j) - y_j|^2 + \lambda \|f\|^2` over all
    rows so far. Sums over the rows are kept (:math:`M^2` numbers for M points), no rows. All other
    objectives are learned by Newton steps with the bound of their curvature as the metric
    (:class:`mercer.sums.NewtonSteps`), which need no step size: classifiers from the
    ridge regression on labels -1 and +1 onwards, regressions from that on the targets, others from
    0. Where slopes jump, the curvature is that of the objective smoothed over a width: 1 for
    margins, the mean absolute residual of the ridge regression for regressions. Value functions are
    solved for, too (for ``method="td"`` that is LSTD).

    Regressions with another loss than the squared one, nothing forgotten and ``step_size="auto"``
    begin on as many of the first rows as 600 MB of features hold: with 45 whole steps on all of
    these at once, which have momentum and smooth the loss less and less. If these are all rows,
    that is the solution, in one visit of each, and the history has the loss after it.

    A ``step_size`` of the estimator's is in units of the longest step that does not overshoot on
    its rows; "auto" falls to 0 over the steps of ``fit``, and like 1 / sqrt(t) on streams, whose
    steps are averaged. They are made on 256 rows at least, or half a row for each point; rows too
    few for one wait. ``fit`` goes over its rows often enough for 50 steps.

    Until ``first_rows`` rows have come, those are kept, and f is learned from all of them on a
    dictionary of rows drawn at random. Then the dictionary is chosen and stays. ``fit`` chooses
    it on its first rows, too, in the order in which it visits them.

    Parameters
    ----------
    size : int or "auto", default=1000
        Number of points M, at most: a row costs about 2 M d + M² operations for d inputs, a
        solution M³ / 3. "auto" is an eighth of the rows of ``fit``, at least 1,000 and at most
        2,000, and 1,000 for streams.
    centers : {"kmeans", "uniform", "leverage", "komp"}, default="kmeans"
        How the points are chosen: means of clusters, for classifiers of each class on its own;
        rows drawn at random, or by their leverage; the rows that kernel orthogonal matching
        pursuit keeps of the mean of all kernels (slow from some hundred points on).
    ridge : float, sequence of float, "auto" or None, default="auto"
        Ridge parameter of the objective. Of several values the best on the last rows (5 %, 100 to
        5,000 of them) is taken, by the squared error of the ridge regression. "auto" is 1e-2,
        1e-3, ..., 1e-8. None is the ``regularization`` of the estimator. Objectives that are no
        loss of targets (pairs, transitions, density ratios, novelty) take that for "auto", and no
        sequence.
    first_rows : int or "auto", default="auto"
        Rows kept until the dictionary is chosen. "auto": 5 for each point, at least 2,000 and at
        most 30,000 (or ``size``).
    forgetting : float, default=1.0
        Factor by which a row's weight falls with each row after it, in (0, 1]: 1 - 1e-4 for a
        memory of about 10,000 rows.
    refresh : float, default=0.05
        A stream is solved anew for a prediction once it has grown by this part since it last was;
        0 means always. ``fit`` ends solved.
    precision : {"double", "single"}, default="double"
        Of kernel values. "single" is up to twice as fast; sums and solutions are in double, but
        the smallest useful ridge is about 1e-7 of the largest kernel value.
    seed : int, default=0
        Of the choice of points.

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

    #: Steps are those of equations that are solved; see ``RandomFeatures.mode``.
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
        """See :class:`Expansion`: with the size as a number."""
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
        """Ridges that are raced; empty for the regularization of the estimator."""
        return () if self.ridge is None else ridge_values(self.ridge, RIDGES)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    def compressor(self, kernel: Kernel) -> Compressor:
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


def n_first_rows(size: int) -> int:
    """Rows to look at before the first solution on so many features."""
    wanted = max(_FIRST_ROWS, _ROWS_PER_POINT * size)
    return max(min(wanted, _MOST_FIRST_ROWS), size)


def ridge_values(ridge: object, automatic: Sequence[float]) -> tuple[float, ...]:
    """Ridge parameters as a tuple.

    Parameters
    ----------
    ridge : float, sequence of float or "auto"
        As given by the user.
    automatic : sequence of float
        What "auto" means.

    Raises
    ------
    ValueError
        If it is none of these, or a value is not positive.

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
