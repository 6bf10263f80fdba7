"""Ridge regression from sums over rows, and the choice of its ridge."""

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

# Rows kept back to choose the ridge on, if a twentieth of all is not between these.
_FEWEST, _MOST = 100, 5000
# Rows that are added up together; single rows would cost as much as a hundred.
_BLOCK = 256
# Rows, and features of them, that are in memory at a time.
_CHUNK, _NUMBERS = 4096, 2**24
#: Ridges that are tried, from the strongest to the weakest.
RIDGES = 10.0 ** -np.arange(0.0, 10.0)
_FIRST, _MANY = 6, 2000
_MOST_LEVERAGE = 1.0 - 1e-8
# Ridges below this need double precision, and rounding that may be so large beside the targets.
_WEAK, _ROUGH = 3e-7, 1e-3
_SINGLE = float(np.finfo(np.float32).eps)


def squared_error(predictions: Any, rows: Rows, unit: Any = 1.0) -> float:
    """Weighted mean of the squared errors, each in its unit, summed over the outputs."""
    errors = np.sum(((predictions - rows.targets) / unit) ** 2, axis=1)
    return float(rows.weights @ errors) / float(rows.weights.sum())


def check_regressions(mine: Any, theirs: Any) -> None:
    """Raise ValueError if two regressions forget otherwise, or have other ridges or targets."""
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
    """Add rows to sums, in order: the last one counts in full.

    Parameters
    ----------
    statistics : Statistics
        Changed in place.
    basis : Basis
        Features of the rows.
    rows : Rows
        Of weights above 0.
    forgetting : float
        Factor by which a row's weight falls with each row after it, in (0, 1].
    chunk : int
        Rows whose features are in memory at a time.
    """
    if forgetting < 1.0:
        statistics.forget(forgetting ** len(rows))
    rows = rows.discounted(forgetting)
    for start in range(0, len(rows), chunk):
        some = rows[start : start + chunk]
        Z: Any = basis.features(some.X)
        statistics.add(Z, some.targets, some.weights)


def merged(mine: Statistics, earlier: Statistics, forgetting: float) -> Statistics:
    """Return new sums over the rows of both.

    Parameters
    ----------
    mine, earlier : Statistics
        Sums; where old rows are forgotten, all rows of ``earlier`` came before those of ``mine``.
    forgetting : float
        Factor by which a row's weight falls with each row after it: ``earlier`` is multiplied by
        as many of them as ``mine`` has rows.
    """
    total = earlier.copy()
    if forgetting < 1.0:
        total.forget(forgetting**mine.n_rows)
    total.merge(mine)
    return total


class Curvature(NamedTuple):
    """Matrix A + ridge * P of Newton steps: mean products and a penalty."""

    factor: RidgeFactor
    ridge: float
    penalty: Any  # P, or None for the identity

    def pull(self, coefficients: Array) -> Array:
        """Gradient of half the penalty, ridge * P c, (n_points, n_outputs)."""
        if self.penalty is None:
            return self.ridge * coefficients
        right, matrix = coefficients.T.astype(self.penalty.dtype), self.penalty
        products = in_order(lambda some: right @ matrix[:, some], tiles(len(matrix)))
        return self.ridge * np.hstack(products).T.astype(np.float64)


class BasisPart:
    """Linear function of the features of a basis, fitted to numbers or codes by least squares.

    Parameters
    ----------
    basis : Basis
        Features.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    max_rows : int or None, default=None
        Rows to learn at most; further ones change nothing. None for no limit.
    first : int or None, default=None
        Number of the ridge to try first; None for one that suits so many features.
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
        #: Coefficients of the last solution before it learned the rows kept back.
        self.without_held = self.coefficients
        # Many points of many rows want a weak ridge, and each one that is tried is dear.
        # Many points of many rows want a weak ridge, and each one that is tried is dear.
        usual = _FIRST if basis.size <= _MANY else _FIRST + 2
        self._usual_first = usual if first is None else first
        #: Ridges to choose from, from the strongest to the weakest.
        self.ridges: Array = RIDGES
        #: Number of the ridge in use among ``ridges``, not its value.
        self.ridge = self._first = self._usual_first
        self._tries_all = False
        #: Unit of each target, in which errors are compared.
        self.unit = np.ones(n_outputs)
        #: Whether all rows are points and the solution is exact: there are no sums.
        self.is_exact = False
        # Jitter that the last solution needed.
        self._enough = 0.0

    @cached_property
    def statistics(self) -> Statistics:
        """Sums over the rows that were learned."""
        return Statistics(self.n_points, self.n_targets)

    @cached_property
    def _penalty(self) -> Array | None:
        return self.basis.penalty()

    @property
    def constant(self) -> float | None:
        """Coefficient of all features that makes the function 1, so that ridges pull to the mean.

        None: they pull to 0.
        """
        return None

    @property
    def n_targets(self) -> int:
        """Number of targets C."""
        return int(self.coefficients.shape[1])

    @property
    def n_points(self) -> int:
        """Number of points, or of other features."""
        return self.basis.size

    @property
    def n_rows(self) -> int:
        """Rows in the sums."""
        return self.statistics.n_rows

    @property
    def sum_bytes(self) -> int:
        """Memory of the sums in a file."""
        return 0 if self.is_exact else 4 * self.basis.size**2

    def fix_ridge(self, ridge: float | None) -> None:
        """Use this ridge and try no others; or, for None, choose among all again."""
        if ridge is None:
            self.ridges, self._tries_all = RIDGES, False
            self.ridge = self._first = self._usual_first
        else:
            self.choose_among([ridge])

    def choose_among(self, ridges: ArrayLike) -> None:
        """Choose the best of these ridges: of few rows their error may have several minima.

        Parameters
        ----------
        ridges : array-like of shape (n_ridges,)
            One at least, none negative.
        """
        self.ridges, self._tries_all = np.sort(np.asarray(ridges, dtype=np.float64))[::-1], True
        self.ridge = self._first = 0

    def map_targets(self, codes: Array, offset: Array) -> None:
        """Take over other outputs: see :meth:`mercer.sums.Statistics.map_targets`."""
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
        """Add the rows that another regression has learned, which stays as it is.

        They count as having come before those of this one: where old rows are forgotten, the
        other's weigh less by a factor for each row of this one. Predictions go by them from the
        next solution on. Each may have learned ``max_rows``.

        Parameters
        ----------
        other : BasisPart
            On the same features, with the same ridges and forgetting.

        Raises
        ------
        ValueError
            If these differ, or the number of targets; neither has changed then.
        """
        check_same_basis(self.basis, other.basis)
        check_regressions(self, other)
        self.statistics = merged(self.statistics, other.statistics, self.forgetting)
        self._enough = max(self._enough, other._enough)

    def emptied(self) -> Self:
        """Return the same function with sums of no rows: for those that are learned elsewhere.

        Its rows have no limit: no place knows how many the others have.
        """
        empty = copy.copy(self)
        empty.statistics = Statistics(self.n_points, self.n_targets)
        empty.max_rows, empty._enough = None, 0.0
        return empty

    def solve(self, held: Rows) -> Array:
        """Choose the ridge on rows that were not learned, then learn them for the moment, too.

        Parameters
        ----------
        held : Rows
            Rows kept back from :meth:`learn`, one at least.

        Returns
        -------
        predictions : ndarray of shape (n_held, n_outputs)
            Values at the rows before they were learned.
        """
        Z: Any = self.basis.features(held.X)
        best, (predictions, w, enough) = self._choose(Z, held.discounted(self.forgetting))
        if best < self._first:  # tried after weaker ones, it may need less: that a file would find
            enough = self.statistics.jitter
        everything = self.statistics_with(held, Z)
        everything.jitter = max(everything.jitter, enough)
        self._take(everything, best)
        self.without_held, self._enough = w, enough
        return np.asarray(predictions, dtype=np.float64)

    def solve_for_learned(self) -> None:
        """Solve for the rows learned, with the ridge that would be tried first."""
        with self.statistics.trial():
            self._take(self.statistics, self._first)
            self._enough = self.statistics.jitter

    def _take(self, statistics: Statistics, number: int) -> None:
        """Use the coefficients for sums and the ridge of a number."""
        # In the order of a file, so that predictions are the same to the last bit.
        self.coefficients = np.ascontiguousarray(self._solution(statistics, number))
        self.ridge = number

    def statistics_with(self, held: Rows, Z: Any) -> Statistics:
        """Return new sums over the rows learned and some more, whose features are overwritten."""
        recent, everything = held.discounted(self.forgetting), self.statistics.copy()
        everything.forget(self.forgetting ** len(held))
        everything.add(Z, recent.targets, recent.weights)
        return everything

    def _choose(self, Z: Any, held: Rows) -> tuple[int, tuple[Any, Array, float]]:
        """Find the ridge that is best for rows not learned: values, solution, its jitter."""

        def attempt(number: int) -> tuple[float, tuple[Any, Array, float]]:
            w = self._solution(self.statistics, number)
            predictions = Z @ w.astype(Z.dtype)
            found = predictions, w, self.statistics.jitter
            return squared_error(predictions, held, self.unit), found

        # From the same ridge each time: what is found must not depend on what was asked before.
        with self.statistics.trial():
            if self._tries_all:
                tried = ((*attempt(number), number) for number in range(self.ridges.size))
                _, found, best = min(tried, key=lambda one: one[0])
                return best, found
            return descend(attempt, self._first, self.ridges.size)

    def _solution(self, statistics: Statistics, number: int) -> Array:
        """Coefficients for sums and the ridge of a number."""
        factor = statistics.factor(float(self.ridges[number]), self._penalty)
        if self.constant is None:
            return factor.solve(statistics.products / statistics.weight)
        mean = statistics.normalization()[0]
        right = statistics.centred(mean, np.ones_like(mean))[0] / statistics.weight
        return self.constant * mean + factor.solve(right)

    def curvature(self) -> Curvature:
        """Return what Newton steps go by."""
        least = max(self._enough, self.statistics.jitter)
        ridge, penalty = float(self.ridges[self.ridge]), self._penalty
        factor = factor_ridge(self.statistics.moments(), ridge, penalty, least)
        if penalty is not None and isinstance(self.basis, KernelBasis):
            penalty = penalty.astype(self.basis.dtype, copy=False)  # gradients are not more precise
        return Curvature(factor, ridge, penalty)

    def step(self, gradient: Array, curvature: Curvature, rate: float, bound: float) -> None:
        """Make a preconditioned Newton step on some rows.

        Parameters
        ----------
        gradient : ndarray of shape (n_points, n_outputs)
            Of the mean loss of the rows in the coefficients.
        curvature : Curvature
            From :meth:`curvature`.
        rate : float
            Step size over the bound.
        bound : float
            Bound of the loss's curvature, by which the ridge is multiplied.
        """
        whole = gradient + bound * curvature.pull(self.coefficients)
        moved = self.coefficients - rate * curvature.factor.solve(whole)
        self.coefficients = np.ascontiguousarray(moved)

    def evaluate(self, X: Any) -> Array:
        """Values at rows, shape (n, n_outputs)."""
        values = np.empty((X.shape[0], self.coefficients.shape[1]))
        basis = self.basis.precise if isinstance(self.basis, KernelBasis) else self.basis

        def evaluate(start: int) -> None:
            cut = slice(start, start + _CHUNK)
            values[cut] = scaled_product(basis.features(X[cut]), self.coefficients)

        in_order(evaluate, range(0, len(values), _CHUNK))
        return values


class GlobalPart(BasisPart):
    """Kernel expansion on a fixed dictionary, fitted to numbers or codes by least squares.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved.
    points : ndarray of shape (n_points, n_features)
        Dictionary; in float32 all products are.
    n_outputs : int
        Number of targets C.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned.
    max_rows : int or None, default=None
        Rows to learn at most; further ones change nothing. None for no limit.
    dtype : dtype or None, default=None
        In what features are computed, see :class:`mercer.sums.KernelBasis`.
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
        """Fit to the rows whose inputs are the dictionary, and leave out the last ones in turn.

        Where rounding makes the kernel matrix indefinite, whatever the ridge, the fit is that of
        :meth:`solve_without`.

        Parameters
        ----------
        rows : Rows
            A row for each point, in the same order, with weights by their age where old ones are
            forgotten.
        n_judges : int
            How many of the last rows choose the ridge.
        block : int, default=1
            Rows that are left out together, the first of them at a multiple of it.

        Returns
        -------
        predictions : ndarray of shape (n_judges, n_outputs)
            Value at each of the last rows of the fit to all others, or to all other blocks.
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
            # Where hardly any ridge is wanted single precision is one, and large coefficients
            # that cancel each other are rounded too much.
            self.basis = KernelBasis(self.kernel, self.dictionary, np.float64)
            self.ridge, found = descent(self.ridge)
        if found is None:
            # No ridge makes up for the rounding of such a matrix: that of the sums has a jitter.
            return self.solve_without(rows, block)[len(rows) - n_judges :]
        predictions, self.coefficients = found
        self.is_exact = True
        return predictions

    def _is_rough(self, coefficients: Array, rows: Rows) -> bool:
        """Whether single precision changes values by more than a small part of the targets'."""
        if float(self.ridges[self.ridge]) < _WEAK:
            return True
        largest = float(self.kernel.diag(self.dictionary).max())
        # Of kernel values, each rounded by itself.
        error = _SINGLE * largest * np.linalg.norm(coefficients, axis=0)
        return bool((error > _ROUGH * rows.targets.std(axis=0)).any())

    def solve_without(self, rows: Rows, block: int = 1) -> Array:
        """Learn all rows there are, and choose the ridge by fits that leave some of them out.

        Parameters
        ----------
        rows : Rows
            The rows, with weights by their age where old ones are forgotten.
        block : int, default=1
            Rows that are left out together, in the order in which they come; no more than a fifth
            of all, since nothing is to be learned from no row.

        Returns
        -------
        predictions : ndarray of shape (n, n_outputs)
            Value at each row of the fit to all others, or to all other blocks, in closed form.
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
    """Residuals of rows that were left out, block by block.

    Parameters
    ----------
    white : ndarray of shape (n_points, n)
        Whitened features: products of columns are leverages for each unit of weight.
    share : ndarray of shape (n,)
        Weights of the rows.
    residuals : ndarray of shape (n, n_outputs)
        Of the fit to all rows.
    ends : sequence of int or None
        Where rows that are left out together begin, and n; None for each by itself.
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

    It keeps the last rows back from a :class:`BasisPart`, which chooses the ridge by them and then
    learns them, too. They are a twentieth of all rows, 100 to 5,000, and at most a fifth of all, or
    of those that count where old ones are forgotten: were they more, the sums would be too old for
    them, and a ridge judged by how far the stream has drifted. A single ridge needs none.

    Parameters
    ----------
    basis : Basis
        Features z and their penalty P.
    n_targets : int
        Number of targets.
    ridges : sequence of float
        Values of the ridge parameter, one at least.
    forgetting : float, default=1.0
        Factor by which a row's weight falls with each row that comes after it, in (0, 1].

    Attributes
    ----------
    part : BasisPart
        The regression on the rows that are not kept back.
    recent : list of Rows
        The others, in pieces.
    n_rows : int
        Rows of positive weight so far; others leave no trace.

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
        """Those to choose from, from the strongest to the weakest."""
        return tuple(map(float, self.part.ridges))

    @property
    def ridge(self) -> float:
        """The one of the last solution."""
        return self.ridges[self.part.ridge]

    @property
    def sums(self) -> Statistics:
        """Sums over the rows that are not kept back."""
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
            Finite; copied.
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
        """Coefficients of the regression on all rows so far, (n_features, n_targets)."""
        held = self._add_up()
        if held is not None:
            self.part.solve(held)
        elif self.n_rows:
            self.part.solve_for_learned()
        return self.part.coefficients

    def all_sums(self) -> Statistics:
        """Return sums over all rows so far, new ones if some rows are kept back."""
        held = self._add_up()
        if held is None:
            return self.sums
        return self.part.statistics_with(held, self.part.basis.features(held.X))

    def take_over(self, sums: Statistics, held: Rows) -> None:
        """Go on from rows that were learned elsewhere, but for some that choose the ridge.

        Parameters
        ----------
        sums : Statistics
            On the same features, of all rows but those held back; they are this object's now.
        held : Rows
            The others.
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
        """Move all rows but those to be kept back into the sums, and return these, if any."""
        if not self.recent:
            return None
        rows = Rows.joined(self.recent)
        n = max(0, len(rows) - self._n_kept_back())
        if not n + self.sums.n_rows:  # there is nothing else to learn
            n = len(rows)
        if n:
            # Copies, so that those of a copy of this object, or of a failure, stay as they are.
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
            Column j tells how the new code j is made of the old ones.
        offset : ndarray of shape (n_targets_new,)
            What is added to all.
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
    """Go downhill among 0, ..., n - 1, each of which is tried once at most.

    Parameters
    ----------
    attempt : callable
        Number to its error and whatever comes with it.
    start : int
        Where to begin; this one is tried also if there is nothing to choose.
    n : int
        How many there are.
    limit : float, default=infinity
        No other number is tried if the error at the start is not below this.

    Returns
    -------
    best : int
        Number of the smallest error that was found.
    found : object
        What came with it.

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
    """Go downhill as :func:`descend`, from the last number up to a start that finds anything.

    Parameters
    ----------
    attempt : callable
        Number to its error and whatever comes with it; infinity and None if there is nothing.
    start, n, limit
        As of :func:`descend`.

    Returns
    -------
    best, found
        As of :func:`descend`; None if no number up to the start finds anything.

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
    """Go downhill among ridges, from a stronger one where the first is too weak for the precision.

    Parameters
    ----------
    exact : ExactRidge
        The regression.
    judge : callable
        Solution to its error and whatever comes with it.
    start : int
        Number of the ridge to begin with.
    ridges : ndarray of shape (n_ridges,)
        From the strongest to the weakest.
    limit : float, default=infinity
        Error that the first that is enough must be below if others are to be tried.

    Returns
    -------
    best, found
        As of :func:`descend`; None if no ridge is enough.
    """

    def attempt(number: int) -> tuple[float, _T | None]:
        fit = exact.fit(float(ridges[number]))
        return (np.inf, None) if fit is None else judge(fit)

    return descend_able(attempt, start, ridges.size, limit=limit)


def general_ridge(statistics: Statistics, penalty: Array, ridges: Array) -> float:
    """Ridge that generalised cross-validation chooses, from the sums alone.

    Parameters
    ----------
    statistics : Statistics
        Sums over the rows.
    penalty : ndarray of shape (n_features, n_features)
        Matrix of the penalty.
    ridges : ndarray of shape (n_ridges,)
        Those to choose from.
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
    """Coefficients for each of several ridges, (n_features, n_targets)."""
    moments = statistics.moments()
    right = statistics.products / statistics.weight
    return [factor_ridge(moments, ridge, penalty).solve(right) for ridge in ridges]
