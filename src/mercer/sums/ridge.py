"""Ridge regression from sums over rows, and the choice of the ridge."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from mercer.kernels import Kernel
from mercer.numerics.factor import RidgeFactor, factor_ridge
from mercer.records import Record, Recorded, Several
from mercer.sums.basis import Basis, KernelBasis, check_same_basis
from mercer.sums.exact import ExactFit, ExactRidge, scaled_product
from mercer.sums.rows import Blocks, Rows
from mercer.sums.statistics import Statistics, Sums, check_alike
from mercer.threads import in_order, tiles
from mercer.validation import integer, real

Array = NDArray[np.float64]
_T = TypeVar("_T")

# Fewest and most rows held out to choose the ridge; in between, a twentieth of all rows.
_FEWEST, _MOST = 100, 5000
# Rows that are added to sums together; adding a single row costs as much as adding a hundred.
_BLOCK = 256
# Most rows, and most features of them, in memory at a time.
_CHUNK, _NUMBERS = 4096, 2**24
#: Ridges to try, from the strongest to the weakest.
RIDGES = 10.0 ** -np.arange(0.0, 10.0)
_FIRST, _MANY = 6, 2000
_MOST_LEVERAGE = 1.0 - 1e-8
# Ridges below the first need double precision, and so does rounding above the second part of the
# spread of the targets.
_WEAK, _ROUGH = 3e-7, 1e-3
_SINGLE = float(np.finfo(np.float32).eps)


def squared_error(predictions: Any, rows: Rows, unit: Any = 1.0) -> float:
    """Return the weighted mean squared error, in units of the targets, summed over outputs."""
    errors = np.sum(((predictions - rows.targets) / unit) ** 2, axis=1)
    return float(rows.weights @ errors) / float(rows.weights.sum())


def check_regressions(mine: Any, theirs: Any) -> None:
    """Raise ValueError if two regressions differ in forgetting, ridges or number of targets."""
    check_alike(
        "`forgetting`",
        mine.forgetting,
        theirs.forgetting,
        "Learn all rows with one factor: weights of old rows would not fit together.",
    )
    check_alike(
        "ridges to choose from",
        tuple(map(float, mine.ridges)),
        tuple(map(float, theirs.ridges)),
        "Set the same ridge, or the same ridges, for both.",
    )
    check_alike(
        "number of targets",
        mine.n_targets,
        theirs.n_targets,
        "Of classes, map both to all classes first (`mercer.sums.merge_classes`).",
    )


def add_rows(
    statistics: Statistics, basis: Basis, rows: Rows, forgetting: float, chunk: int
) -> None:
    """Add rows to sums, in order of age: the last row has its full weight.

    Parameters
    ----------
    statistics : Statistics
        Sums, changed in place.
    basis : Basis
        Basis that computes the features.
    rows : Rows
        Rows with weights above 0.
    forgetting : float
        Factor by which the weight of a row falls with each row after it, in (0, 1].
    chunk : int
        Number of rows whose features are in memory at a time.
    """
    if forgetting < 1.0:
        statistics.forget(forgetting ** len(rows))
    rows = rows.discounted(forgetting)
    for start in range(0, len(rows), chunk):
        some = rows[start : start + chunk]
        Z: Any = basis.features(some.X)
        statistics.add(Z, some.targets, some.weights)


def merged(mine: Statistics, earlier: Statistics, forgetting: float) -> Statistics:
    """Return new sums over the rows of two sums.

    Parameters
    ----------
    mine, earlier : Statistics
        Sums; if old rows are forgotten, all rows of ``earlier`` count as older than ``mine``.
    forgetting : float
        Factor by which the weight of a row falls with each row after it: ``earlier`` is multiplied
        by it once for each row of ``mine``.
    """
    total = earlier.copy()
    if forgetting < 1.0:
        total.forget(forgetting**mine.n_rows)
    total.merge(mine)
    return total


class Curvature(NamedTuple):
    """Matrix A + ridge * P of Newton steps, with A the mean products of features."""

    factor: RidgeFactor
    ridge: float
    penalty: Any  # P, or None for the identity

    def pull(self, coefficients: Array) -> Array:
        """Return the gradient of half the penalty, ridge * P c, (n_points, n_outputs)."""
        if self.penalty is None:
            return self.ridge * coefficients
        right, matrix = coefficients.T.astype(self.penalty.dtype), self.penalty
        products = in_order(lambda some: right @ matrix[:, some], tiles(len(matrix)))
        return self.ridge * np.hstack(products).T.astype(np.float64)


class BasisPart:
    """Linear function of the features of a basis, fitted to numbers or codes by ridge regression.

    Parameters
    ----------
    basis : Basis
        Basis of the features.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    max_rows : int or None, default=None
        Most rows to learn; further rows are ignored. None for no limit.
    first : int or None, default=None
        Number of the ridge to try first; None for one that suits the number of features.
    """

    def __init__(
        self,
        basis: Basis,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
        first: int | None = None,
    ) -> None:
        self.basis = basis
        self.forgetting = forgetting
        self.max_rows = max_rows
        self.coefficients = np.zeros((basis.size, n_outputs))
        #: Coefficients of the last solution without the held out rows.
        self.without_held = self.coefficients
        # Many points have many rows, for which a weak ridge is best, and each trial is expensive.
        usual = _FIRST if basis.size <= _MANY else _FIRST + 2
        self._usual_first = usual if first is None else first
        #: Ridges to choose from, from the strongest to the weakest.
        self.ridges: Array = RIDGES
        #: Number of the ridge in use among ``ridges``, not its value.
        self.ridge = self._first = self._usual_first
        self._tries_all = False
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        #: Whether the fit is exact, with a point at every row and without sums.
        self.is_exact = False
        # Jitter that the last solution needed.
        self._enough = 0.0

    @cached_property
    def statistics(self) -> Statistics:
        """Sums over the rows that the part has learned."""
        return Statistics(self.n_points, self.n_targets)

    @cached_property
    def _penalty(self) -> Array | None:
        return self.basis.penalty()

    @property
    def constant(self) -> float | None:
        """Coefficient of all features that makes the function 1: ridges then pull to the mean.

        None if there is none: ridges pull to 0.
        """
        return None

    @property
    def n_targets(self) -> int:
        """Number of targets C."""
        return int(self.coefficients.shape[1])

    @property
    def n_points(self) -> int:
        """Number of points, or of features of another kind."""
        return self.basis.size

    @property
    def n_rows(self) -> int:
        """Number of rows in the sums."""
        return self.statistics.n_rows

    @property
    def sum_bytes(self) -> int:
        """Bytes of the sums in a file."""
        return 0 if self.is_exact else 4 * self.basis.size**2

    def fix_ridge(self, ridge: float | None) -> None:
        """Use only this ridge; with None, choose among all ridges again."""
        if ridge is None:
            self.ridges, self._tries_all = RIDGES, False
            self.ridge = self._first = self._usual_first
        else:
            self.choose_among([ridge])

    def choose_among(self, ridges: ArrayLike) -> None:
        """Try all of these ridges in each solution: the error may have several minima.

        Parameters
        ----------
        ridges : array-like of shape (n_ridges,)
            At least one ridge; none negative.
        """
        self.ridges, self._tries_all = np.sort(np.asarray(ridges, dtype=np.float64))[::-1], True
        self.ridge = self._first = 0

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Replace the targets y by y @ codes + offset, and the outputs accordingly."""
        if not self.is_exact:
            self.statistics.map_targets(codes, offset)
        self.unit = np.ones(offset.size)
        self.coefficients = self.coefficients @ codes
        self.without_held = self.without_held @ codes

    def learn(self, rows: Rows) -> None:
        """Add rows to the sums."""
        if self.max_rows is not None and self.forgetting == 1.0:
            rows = rows[: max(0, self.max_rows - self.n_rows)]
        chunk = max(_BLOCK, min(_CHUNK, _NUMBERS // max(1, self.n_points)))
        add_rows(self.statistics, self.basis, rows, self.forgetting, chunk)

    def merge(self, other: Self) -> None:
        """Add the rows that another regression has learned; the other stays unchanged.

        The rows of the other count as older than the rows of this one: if old rows are forgotten,
        their weights fall by a factor for each row of this one. Predictions use them after the next
        solution. Each of the two may have learned ``max_rows``.

        Parameters
        ----------
        other : BasisPart
            Part on the same features, with the same ridges and forgetting.

        Raises
        ------
        ValueError
            If these, or the numbers of targets, differ; both parts are then unchanged.
        """
        check_same_basis(self.basis, other.basis)
        check_regressions(self, other)
        self.statistics = merged(self.statistics, other.statistics, self.forgetting)
        self._enough = max(self._enough, other._enough)

    def emptied(self) -> Self:
        """Return the same function with empty sums, to learn rows elsewhere.

        It has no limit of rows, as each place does not know how many rows the others learn.
        """
        empty = copy.copy(self)
        empty.statistics = Statistics(self.n_points, self.n_targets)
        empty.max_rows, empty._enough = None, 0.0
        return empty

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on held out rows, then solve with these rows included.

        The held out rows are not added to the sums.

        Parameters
        ----------
        held : Rows
            Rows held out from :meth:`learn`, at least one.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Predictions for the held out rows by the fit without them.
        """
        Z: Any = self.basis.features(held.X)
        best, (predictions, w, enough) = self._choose(Z, held.discounted(self.forgetting))
        # A stronger ridge was tried after weaker ones, which may have needed more jitter than the
        # sums of a model from a file would find.
        if best < self._first:
            enough = self.statistics.jitter
        everything = self.statistics_with(held, Z)
        everything.jitter = max(everything.jitter, enough)
        self._take(everything, best)
        self.without_held, self._enough = w, enough
        return np.asarray(predictions, dtype=np.float64)

    def solve_for_learned(self) -> None:
        """Solve for the rows in the sums, with the ridge that is tried first."""
        with self.statistics.trial():
            self._take(self.statistics, self._first)
            self._enough = self.statistics.jitter

    def _take(self, statistics: Statistics, number: int) -> None:
        """Set the coefficients to the solution for sums and the ridge with a number."""
        # In C order as in files, so that predictions are the same to the last bit.
        self.coefficients = np.ascontiguousarray(self._solution(statistics, number))
        self.ridge = number

    def statistics_with(self, held: Rows, Z: Any) -> Statistics:
        """Return new sums over the rows learned and held out rows, overwriting the features Z."""
        recent, everything = held.discounted(self.forgetting), self.statistics.copy()
        everything.forget(self.forgetting ** len(held))
        everything.add(Z, recent.targets, recent.weights)
        return everything

    def _choose(self, Z: Any, held: Rows) -> tuple[int, tuple[Any, Array, float]]:
        """Find the best ridge on held out rows: number, predictions, coefficients and jitter."""

        def attempt(number: int) -> tuple[float, tuple[Any, Array, float]]:
            w = self._solution(self.statistics, number)
            predictions = Z @ w.astype(Z.dtype)
            found = predictions, w, self.statistics.jitter
            return squared_error(predictions, held, self.unit), found

        # Start at the same ridge each time: results must not depend on earlier solutions.
        with self.statistics.trial():
            if self._tries_all:
                tried = ((*attempt(number), number) for number in range(self.ridges.size))
                _, found, best = min(tried, key=lambda one: one[0])
                return best, found
            return descend(attempt, self._first, self.ridges.size)

    def _solution(self, statistics: Statistics, number: int) -> Array:
        """Return the coefficients for sums and the ridge with a number."""
        factor = statistics.factor(float(self.ridges[number]), self._penalty)
        if self.constant is None:
            return factor.solve(statistics.products / statistics.weight)
        mean = statistics.normalization()[0]
        right = statistics.centred(mean, np.ones_like(mean))[0] / statistics.weight
        return self.constant * mean + factor.solve(right)

    def curvature(self) -> Curvature:
        """Return the factored matrix for Newton steps."""
        least = max(self._enough, self.statistics.jitter)
        ridge, penalty = float(self.ridges[self.ridge]), self._penalty
        factor = factor_ridge(self.statistics.moments(), ridge, penalty, least)
        if penalty is not None and isinstance(self.basis, KernelBasis):
            penalty = penalty.astype(self.basis.dtype, copy=False)  # gradients are not more precise
        return Curvature(factor, ridge, penalty)

    def step(self, gradient: Array, curvature: Curvature, rate: float, bound: float) -> None:
        """Take a preconditioned Newton step on some rows.

        Parameters
        ----------
        gradient : ndarray of shape (n_points, n_outputs)
            Gradient of the mean loss of the rows in the coefficients.
        curvature : Curvature
            Matrix from :meth:`curvature`.
        rate : float
            Step size divided by ``bound``.
        bound : float
            Bound of the curvature of the loss; the ridge is multiplied by it.
        """
        whole = gradient + bound * curvature.pull(self.coefficients)
        moved = self.coefficients - rate * curvature.factor.solve(whole)
        self.coefficients = np.ascontiguousarray(moved)

    def evaluate(self, X: Any) -> Array:
        """Return values at rows, shape (n, n_outputs)."""
        values = np.empty((X.shape[0], self.coefficients.shape[1]))
        basis = self.basis.precise if isinstance(self.basis, KernelBasis) else self.basis

        def evaluate(start: int) -> None:
            cut = slice(start, start + _CHUNK)
            values[cut] = scaled_product(basis.features(X[cut]), self.coefficients)

        in_order(evaluate, range(0, len(values), _CHUNK))
        return values


class GlobalPart(BasisPart):
    """Kernel expansion on a fixed dictionary, fitted to numbers or codes by ridge regression.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary; with float32 points, all products are in float32.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor that the sums are multiplied by for each new row.
    max_rows : int or None, default=None
        Most rows to learn; further rows are ignored. None for no limit.
    dtype : dtype or None, default=None
        Type in which features are computed, see :class:`mercer.sums.KernelBasis`.
    """

    form = "global"
    basis: KernelBasis

    def __init__(
        self,
        kernel: Kernel,
        points: Any,
        n_outputs: int,
        forgetting: float = 1.0,
        max_rows: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        basis = KernelBasis(kernel, np.ascontiguousarray(points), dtype)
        super().__init__(basis, n_outputs, forgetting, max_rows)

    @property
    def kernel(self) -> Kernel:
        """Kernel of the expansion."""
        return self.basis.kernel

    @property
    def dictionary(self) -> Any:
        """Points, shape (n_points, n_features)."""
        return self.basis.points

    def solve_exactly(self, rows: Rows, n_judges: int, block: int = 1) -> Array:
        """Fit the rows whose inputs are the dictionary; choose the ridge by leave-one-out errors.

        If rounding makes the Gram matrix indefinite with every ridge, :meth:`solve_without` is used
        instead.

        Parameters
        ----------
        rows : Rows
            One row for each point, in the same order, with weights by age if old rows are
            forgotten.
        n_judges : int
            Number of rows at the end whose errors choose the ridge.
        block : int, default=1
            Number of rows left out together; blocks start at multiples of it.

        Returns
        -------
        predictions : ndarray of shape (n_judges, n_outputs)
            Prediction for each of the last rows, by the fit to all others, or all other blocks.
        """
        judges = rows[len(rows) - n_judges :]

        def descent(first: int) -> tuple[int, tuple[Array, Array] | None]:
            exact = ExactRidge(self.basis.gram(), rows.targets, rows.weights)

            def judge(fit: ExactFit) -> tuple[float, tuple[Array, Array]]:
                ends = None if judges.groups is None else judges.ends
                predictions = judges.targets - exact.left_out(fit, n_judges, block, ends)
                error = squared_error(predictions, judges, self.unit)
                return error, (predictions, fit.coefficients)

            return descend_ridges(exact, judge, first, self.ridges)

        self.ridge, found = descent(min(self.ridge, self.ridges.size - 1))
        if self.basis.dtype == np.float32 and (found is None or self._is_rough(found[1], rows)):
            # If the best ridge is very weak, rounding in single precision acts as a stronger ridge,
            # and large coefficients that cancel each other are rounded too much.
            self.basis = KernelBasis(self.kernel, self.dictionary, np.float64)
            self.ridge, found = descent(self.ridge)
        if found is None:
            # No ridge makes up for the rounding of the Gram matrix; sums have a jitter for it.
            return self.solve_without(rows, block)[len(rows) - n_judges :]
        predictions, self.coefficients = found
        self.is_exact = True
        return predictions

    def _is_rough(self, coefficients: Array, rows: Rows) -> bool:
        """Whether single precision changes values by more than a small part of the targets."""
        if float(self.ridges[self.ridge]) < _WEAK:
            return True
        largest = float(self.kernel.diag(self.dictionary).max())
        # Standard deviation if kernel values are rounded independently.
        error = _SINGLE * largest * np.linalg.norm(coefficients, axis=0)
        return bool((error > _ROUGH * rows.targets.std(axis=0)).any())

    def solve_without(self, rows: Rows, block: int = 1) -> Array:
        """Fit all rows by sums, and choose the ridge by leave-one-out errors in closed form.

        Parameters
        ----------
        rows : Rows
            All rows, with weights by age if old rows are forgotten.
        block : int, default=1
            Number of successive rows left out together; reduced to a fifth of all rows, as some
            rows must be left to learn from.

        Returns
        -------
        predictions : ndarray of shape (n, n_outputs)
            Prediction for each row, by the fit to all others, or all other blocks.
        """
        Z: Any = self.basis.features(rows.X)
        self.statistics = Statistics(self.basis.size, rows.targets.shape[1])
        self.statistics.add(Z.copy(), rows.targets, rows.weights)
        right = self.statistics.products / self.statistics.weight
        share = rows.weights / self.statistics.weight
        block = min(block, max(1, len(rows) // 5))
        alone = rows.groups is None and block == 1
        blocks = [*range(0, len(rows), block), len(rows)] if rows.groups is None else rows.ends

        def attempt(number: int) -> tuple[float, tuple[Array, Array]]:
            factor = self.statistics.factor(self.ridges[number], self._penalty)
            w = factor.solve(right)
            white, missed = factor.whiten(Z.T), rows.targets - Z @ w
            residuals = _left_out(white, share, missed, None if alone else blocks)
            predictions = rows.targets - residuals
            return squared_error(predictions, rows, self.unit), (predictions, w)

        self.ridge, (predictions, w) = descend(attempt, self._first, self.ridges.size)
        self.coefficients = np.ascontiguousarray(w)
        return predictions


def _left_out(
    white: Any, share: Array, residuals: Array, ends: Sequence[int] | NDArray[np.int64] | None
) -> Array:
    """Return leave-one-block-out residuals.

    Parameters
    ----------
    white : ndarray of shape (n_points, n)
        Whitened features: products of columns are leverages per unit of weight.
    share : ndarray of shape (n,)
        Weights of the rows.
    residuals : ndarray of shape (n, n_outputs)
        Residuals of the fit to all rows.
    ends : sequence of int or None
        Starts of the blocks, and n; None if each row is left out alone.
    """
    if ends is None:
        leverages = share * np.sum(white**2, axis=0)
        alone: Array = residuals / (1.0 - np.minimum(leverages, _MOST_LEVERAGE))[:, np.newaxis]
        return alone
    found = np.empty_like(residuals)
    for start, stop in pairwise(ends):
        some = slice(start, stop)
        own = white[:, some].T @ white[:, some] * -(_MOST_LEVERAGE * share[some])
        own[np.diag_indices_from(own)] += 1.0
        found[some] = np.linalg.solve(own, residuals[some])
    return found


class RidgeStream(Recorded):
    r"""Weighted ridge regression on all rows so far, in the memory of its sums.

    .. math:: \min_c\; \frac{1}{W} \sum_i w_i |z_i^T c - y_i|^2 + \lambda\, c^T P c

    The last rows are held out from a :class:`BasisPart`; each solution chooses the ridge on them
    and then includes them, too. They are a twentieth of all rows, from 100 to 5,000, and at most a
    fifth of all rows, or of the rows that are not forgotten. With more of them, the sums would be
    too old, and the ridge would depend on how far the stream has drifted. If there is only one
    ridge, no rows are held out.

    Parameters
    ----------
    basis : Basis
        Features z and their penalty P.
    n_targets : int
        Number of targets.
    ridges : sequence of float
        Values of the ridge parameter, at least one.
    forgetting : float, default=1.0
        Factor by which the weight of a row falls with each row after it, in (0, 1].

    Attributes
    ----------
    part : BasisPart
        Regression on the rows that are not held out.
    recent : list of Rows
        Held out rows, in pieces.
    n_rows : int
        Number of rows of positive weight so far; other rows are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.sums import KernelBasis, Rows
    >>> stream = RidgeStream(KernelBasis(Linear(), np.array([[1.0]])), 1, [0.0])
    >>> stream.add(Rows(np.array([[1.0], [2.0]]), np.array([[3.0], [6.0]]), np.ones(2)))
    >>> stream.solve().round(6)
    array([[3.]])
    """

    _record = Record(
        n_rows=integer(low=0),
        ridge=real(low=0.0),
        ridges=Several(real(low=0.0)),
        sums=Sums(),
        recent=Blocks("n_targets"),
    )

    def __init__(
        self, basis: Basis, n_targets: int, ridges: Sequence[float], forgetting: float = 1.0
    ) -> None:
        self.part = BasisPart(basis, n_targets, forgetting)
        self.part.choose_among(ridges)
        self.recent: list[Rows] = []
        self.n_rows = 0

    @property
    def ridges(self) -> tuple[float, ...]:
        """Ridges to choose from, from the strongest to the weakest."""
        return tuple(map(float, self.part.ridges))

    @property
    def ridge(self) -> float:
        """Ridge of the last solution."""
        return self.ridges[self.part.ridge]

    @property
    def sums(self) -> Statistics:
        """Sums over the rows that are not held out."""
        return self.part.statistics

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.part.n_points

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.part.n_targets

    def add(self, rows: Rows) -> None:
        """Learn rows, in order.

        Parameters
        ----------
        rows : Rows
            Finite rows; they are copied.
        """
        used = rows.weights > 0.0
        if not used.any():
            return
        rows = rows[used]
        self.recent.append(rows)
        self.n_rows += len(rows)
        if sum(map(len, self.recent)) >= self._n_kept_back() + _BLOCK:
            self._add_up()

    def solve(self) -> Array:
        """Solve for all rows so far; return the coefficients, (n_features, n_targets)."""
        held = self._add_up()
        if held is not None:
            self.part.solve(held)
        elif self.n_rows:
            self.part.solve_for_learned()
        return self.part.coefficients

    def all_sums(self) -> Statistics:
        """Return sums over all rows so far; a new object if some rows are held out."""
        held = self._add_up()
        if held is None:
            return self.sums
        return self.part.statistics_with(held, self.part.basis.features(held.X))

    def take_over(self, sums: Statistics, held: Rows) -> None:
        """Replace all rows by rows that were summed elsewhere, and held out rows.

        Parameters
        ----------
        sums : Statistics
            Sums on the same features over all rows but the held out ones; not copied.
        held : Rows
            Held out rows, which choose the ridge.
        """
        self.part.statistics, self.recent = sums, [held]
        self.n_rows = sums.n_rows + len(held)

    def _n_kept_back(self) -> int:
        if len(self.part.ridges) == 1:
            return 0
        n, counting = self.n_rows, float(self.n_rows)
        if self.part.forgetting < 1.0:
            counting = (1.0 - self.part.forgetting**n) / (1.0 - self.part.forgetting)
        return min(max(n // 20, _FEWEST), _MOST, int(counting / 5.0))

    def _add_up(self) -> Rows | None:
        """Move older rows into the sums, and return the held out rows, if any."""
        if not self.recent:
            return None
        rows = Rows.joined(self.recent)
        n = max(0, len(rows) - self._n_kept_back())
        if not n + self.sums.n_rows:  # there is nothing else to learn
            n = len(rows)
        if n:
            # Copies, so that copies of this object stay unchanged, and this object if adding fails.
            part = copy.copy(self.part)
            part.statistics = self.sums.copy()
            part.learn(rows[:n])
            self.part = part
        self.recent = [rows[n:].own()] if n < len(rows) else []
        return self.recent[0] if self.recent else None

    def map_targets(self, mixing: Array, offset: Array) -> None:
        """Replace the targets y, codes -1 and +1, by y @ ``mixing`` + ``offset``.

        Parameters
        ----------
        mixing : ndarray of shape (n_targets, n_targets_new)
            Column j holds the coefficients of the new code j in the old codes.
        offset : ndarray of shape (n_targets_new,)
            Constant to add to the codes.
        """
        self.part = copy.copy(self.part)
        self.part.statistics = self.sums.copy()
        self.part.map_targets(mixing, offset)
        self.recent = [rows.map_targets(mixing, offset) for rows in self.recent]

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        other = copy.copy(self)
        other.part, other.recent = copy.copy(self.part), list(self.recent)
        return other

    def _adopt(self, values: dict[str, Any]) -> None:
        ridges, ridge, n_recent = values["ridges"], values["ridge"], sum(map(len, values["recent"]))
        if ridge not in ridges or values["n_rows"] < n_recent:
            raise ValueError("the sums over the rows do not fit together")
        self.part = copy.copy(self.part)
        self.part.statistics = values["sums"]
        self.part.choose_among(ridges)
        self.part.ridge = self.ridges.index(ridge)
        self.recent, self.n_rows = values["recent"], values["n_rows"]


def descend(
    attempt: Callable[[int], tuple[float, _T]], start: int, n: int, *, limit: float = np.inf
) -> tuple[int, _T]:
    """Find a local minimum of an error among 0, ..., n - 1, trying each number at most once.

    Parameters
    ----------
    attempt : callable
        Maps a number to its error and any further result.
    start : int
        Number to start at; it is always tried.
    n : int
        How many numbers there are.
    limit : float, default=infinity
        No other number is tried unless the error at the start is below this.

    Returns
    -------
    best : int
        Number with the smallest error found.
    found : object
        Further result of that number.

    Examples
    --------
    >>> descend(lambda i: ((i - 1) ** 2, "abcdefgh"[i]), 3, 8)
    (1, 'b')
    """
    best, (lowest, found) = start, attempt(start)
    for step in (1, -1) if lowest < limit else ():
        while 0 <= best + step < n:
            error, other = attempt(best + step)
            if not error < lowest:
                break
            best, lowest, found = best + step, error, other
        if best != start:
            break
    return best, found


def descend_able(
    attempt: Callable[[int], tuple[float, _T | None]], start: int, n: int, *, limit: float = np.inf
) -> tuple[int, _T | None]:
    """Search as :func:`descend`, from the largest number up to ``start`` that has a result.

    Parameters
    ----------
    attempt : callable
        Maps a number to its error and any further result; infinity and None if there is no result.
    start, n, limit
        See :func:`descend`.

    Returns
    -------
    best, found
        See :func:`descend`; ``found`` is None if no number up to the start has a result.

    Examples
    --------
    >>> descend_able(lambda i: (-i, "abc"[i]) if i < 2 else (np.inf, None), 2, 3)
    (1, 'b')
    """
    for first in range(start, -1, -1):
        best, found = descend(attempt, first, n, limit=limit)
        if found is not None:
            break
    return best, found


def descend_ridges(
    exact: ExactRidge,
    judge: Callable[[ExactFit], tuple[float, _T]],
    start: int,
    ridges: Array,
    *,
    limit: float = np.inf,
) -> tuple[int, _T | None]:
    """Find a ridge with locally least error; start stronger if a ridge is too weak for rounding.

    Parameters
    ----------
    exact : ExactRidge
        The regression.
    judge : callable
        Maps a solution to its error and any further result.
    start : int
        Number of the ridge to start at.
    ridges : ndarray of shape (n_ridges,)
        Ridges from the strongest to the weakest.
    limit : float, default=infinity
        No other ridge is tried unless the error of the first that can be solved is below this.

    Returns
    -------
    best, found
        See :func:`descend`; ``found`` is None if no ridge is strong enough.
    """

    def attempt(number: int) -> tuple[float, _T | None]:
        fit = exact.fit(float(ridges[number]))
        return (np.inf, None) if fit is None else judge(fit)

    return descend_able(attempt, start, ridges.size, limit=limit)


def general_ridge(statistics: Statistics, penalty: Array, ridges: Array) -> float:
    """Return the ridge that generalised cross-validation chooses, from the sums alone.

    Parameters
    ----------
    statistics : Statistics
        Sums over the rows.
    penalty : ndarray of shape (n_features, n_features)
        Matrix of the penalty.
    ridges : ndarray of shape (n_ridges,)
        Ridges to choose from.
    """
    moments = statistics.moments()
    right = statistics.products / statistics.weight
    squares = float((statistics.target_squares / statistics.weight).sum())
    whole = np.tril(moments) + np.tril(moments, -1).T
    scores = []
    for ridge in ridges:
        factor = factor_ridge(moments, ridge, penalty)
        w = factor.solve(right)
        misfit = squares - 2.0 * float(np.sum(w * right)) + float(np.sum(w * (whole @ w)))
        freedom = float(np.trace(factor.solve(whole))) / max(statistics.n_rows, 1)
        scores.append(max(misfit, 0.0) / max(1.0 - freedom, 1e-6) ** 2)
    return float(ridges[int(np.argmin(scores))])


def solutions(statistics: Statistics, penalty: Array, ridges: Iterable[float]) -> list[Array]:
    """Return the coefficients, (n_features, n_targets), for each of several ridges."""
    moments = statistics.moments()
    right = statistics.products / statistics.weight
    return [factor_ridge(moments, ridge, penalty).solve(right) for ridge in ridges]
