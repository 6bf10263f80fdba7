"""The default learner: it adds rows to sums, and solves the sums when a prediction is asked for.

Newton steps take a loss of classes from a least squares fit to class codes to its minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.default.allocate import Allocation, AllocationSettings, Grown, Resources
from mercer.default.targets import (
    FitWithout,
    HeldOut,
    Judged,
    Learnable,
    LearnedMean,
    LearnedTargets,
    Looked,
    level_of,
)
from mercer.functions.sum_of_components import Component, SumOfComponents
from mercer.learning import AutomaticStep
from mercer.learning.learner import (
    MOST_STEPS,
    Layout,
    Learner,
    NewOutputs,
    Passes,
    Solved,
    StepRecord,
    StepsElsewhere,
    StepSize,
    Take,
)
from mercer.losses import Loss, loss_and_slopes
from mercer.objectives import Objective
from mercer.records import Maybe, Part, Record, State
from mercer.selection import (
    FEWEST_ROWS,
    RaceSettings,
    block_length,
    block_of_series,
    block_order,
    calibrate,
    group_order,
    half_life,
    judges_alone,
    mean_loss,
    order_in_blocks,
    race,
    race_point,
    repeats,
    stack,
)
from mercer.sums import (
    Basis,
    BasisPart,
    CellsPart,
    GlobalPart,
    RevisitableRows,
    Rows,
    RowsByNumber,
    TreesPart,
    Trial,
    check_sizes,
    coded_rows,
    labels_of_codes,
    rows_at_once,
    shift_of_codes,
    squared_error,
    targets_of_codes,
)
from mercer.sums.newton import products_with
from mercer.threads import in_order, one_blas_thread
from mercer.validation import integer, or_none, real, truth

#: Settings with a correction: more rows are held out, as the correction is learned on them, too.
CORRECTING: Any = {"fewest_judges": 2000, "held_share": 0.25}


class Phase(Enum):
    """What the default learner does with rows that arrive.

    ``GATHERING``: it keeps them, and chooses and fits components anew from all rows. ``DECIDED``:
    components are chosen for good; rows are added to their sums, except the last rows, which are
    held out. ``FINISHED``: no more rows are expected; if some arrive, the previous phase resumes.
    """

    GATHERING = "gathering"
    DECIDED = "decided"
    FINISHED = "finished"


class Settings(NamedTuple):
    """Settings of the default learner.

    Attributes
    ----------
    fewest_judges : int, default=500
        If all rows are points, half of them choose weights, but at least so many.
    nested : int, default=200
        Up to so many rows (a group counts as one), choices fit the rows better than new rows, so
        leave-one-out errors are too small. Then all rows choose weights, and intervals use fits
        that each leave some rows out.
    first_rows : int, default=20000
        Rows that are kept and raced on before components are chosen for good.
    held_share, most_held : float and int, default=0.2 and 5000
        Share of the rows held out from the sums to choose ridges and weights, and most such rows.
    waiting : int, default=8192
        Rows beyond ``most_held`` that may wait before they are added to the sums.
    most_pieces : int, default=256
        Number of pieces in which kept rows are stored before the pieces are joined.
    small_file : int, default=2**23
        Sums of at most so many bytes are saved in every file.
    haste, hasty_rows : float and int, default=5.0 and 2500
        If the budget is less than ``haste`` seconds, the race is on ``hasty_rows`` rows only.
    chunk, chunk_bytes : int, default=131072 and 2**26
        Rows learned at a time, or fewer that take so many bytes. Large chunks give each cell about
        a hundred rows at once.
    large_pilots : tuple of (int, int), default=((10**6, 2000), (10**7, 4500))
        Number of rows that are learned elsewhere, from which on the race has pilot fits of so many
        rows: a metric from few rows may drop directions that matter, or keep noise columns.
    pilots_of_classes : tuple of (int, int), default=(100000, 2000)
        The same for all rows of three classes and more, each of which has few rows of a pilot.
    most_steps : int, default=48
        Most Newton steps of a pass over rows that are learned elsewhere.
    race : RaceSettings
        Settings of the race.
    allocation : AllocationSettings
        Settings of the sizes of components.
    """

    fewest_judges: int = 500
    nested: int = 200
    first_rows: int = 20_000
    held_share: float = 0.2
    most_held: int = 5000
    waiting: int = 8192
    most_pieces: int = 256
    small_file: int = 2**23
    haste: float = 5.0
    hasty_rows: int = 2500
    chunk: int = 131_072
    chunk_bytes: int = 2**26
    large_pilots: tuple[tuple[int, int], ...] = ((10**6, 2000), (10**7, 4500))
    pilots_of_classes: tuple[int, int] = (100_000, 2000)
    most_steps: int = MOST_STEPS
    race: RaceSettings = RaceSettings()
    allocation: AllocationSettings = AllocationSettings()

    @property
    def few(self) -> int:
        """Most rows for which all rows are fitted, and each is predicted by a fit to the others."""
        return self.race.small

    def for_many(self, n_rows: int, *, classes: bool, elsewhere: bool = False) -> Settings:
        """Return the settings for ``n_rows`` rows.

        Parameters
        ----------
        n_rows : int
            Number of rows to come.
        classes : bool
            Whether there are three classes or more.
        elsewhere : bool, default=False
            Whether the rows are learned elsewhere.
        """
        pilots = [*(self.large_pilots if elsewhere else ())]
        if classes:
            pilots.append(self.pilots_of_classes)
        size = max([self.race.pilot_rows, *(size for rows, size in pilots if n_rows >= rows)])
        return self._replace(race=self.race._replace(pilot_rows=size))


Array = NDArray[np.float64]

# Passes after the first, which decides whether steps help; and their first rate, relative to the
# first rate of that pass.
_MORE_PASSES, _AGAIN = 2, 0.75
# Rows of a step as a multiple of the points, and first rate: if labels are noisy, gradients must be
# means of more rows, and steps shorter.
_CLEAN_ERROR = 0.05
_CLEAN, _NOISY = (0.5, 1.0), (4.0, 0.5)
# Largest scale of the scores at which steps begin, relative to the class codes: least squares also
# gives its errors large scores, and the larger they are, the more steps are needed.
_MOST_SURE = 3.0
_ROWS_AT_LEAST = 1024


class Gradients(Protocol):
    """Gradients of a loss at the rows of one step after another, wherever the rows lie."""

    def steps(self, size: int, n_passes: int, *, held: bool) -> Sequence[Any]:
        """Cut passes into steps of about ``size`` rows, with or without the held out rows."""

    def visit(self, step: Any, bases: Sequence[Basis]) -> Any:
        """Compute what a step needs that does not depend on the coefficients."""

    def at(
        self, visited: Any, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Return the gradients of the mean loss at a step's rows, one per basis."""


class GradientsOfRows:
    """Gradients at rows in this process: :class:`Gradients`.

    Parameters
    ----------
    loss : Loss
        Loss for classification.
    rows : RevisitableRows
        All rows.
    n_held : int
        Number of rows at the end that are held out.
    """

    def __init__(self, loss: Loss, rows: RevisitableRows, n_held: int) -> None:
        self.loss, self.rows, self.n_held = loss, rows, n_held
        self._generator = np.random.default_rng(0)

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[NDArray[np.int64]]:
        """Cut shuffled row numbers into steps."""
        n = len(self.rows) - (0 if held else self.n_held)
        orders = [self._generator.permutation(n) for _ in range(n_passes)]
        return [order[at : at + size] for order in orders for at in range(0, n, size)]

    def visit(self, step: NDArray[np.int64], bases: Sequence[Basis]) -> tuple[Rows, list[Any]]:
        """Return the rows of a step, with weights that sum to 1, and their features."""
        some = self.rows[step]
        some = replace(some, weights=some.weights / some.weights.sum())
        return some, [basis.features(some.X) for basis in bases]

    def at(
        self,
        visited: tuple[Rows, list[Any]],
        bases: Sequence[Basis],
        coefficients: Sequence[Array],
    ) -> list[Array]:
        """Compute the gradients from the rows and features of :meth:`visit`."""
        return gradients_of(self.loss, *visited, coefficients)


class _ClassSlopes(NamedTuple):
    """Weight of rows and gradients of a loss at them, to ask for where rows lie.

    It is a :class:`mercer.learning.Ask`.
    """

    loss: Loss
    bases: Sequence[Basis]

    def __call__(self, rows: Rows, coefficients: Sequence[Array]) -> list[Array]:
        features = [basis.features(rows.X) for basis in self.bases]
        gradients = gradients_of(self.loss, rows, features, coefficients)
        return [np.asarray(rows.weights.sum()), *gradients]


class GradientsElsewhere:
    """Gradients at rows that lie elsewhere: :class:`Gradients`.

    Parameters
    ----------
    loss : Loss
        Loss for classification.
    held : Rows
        Held out rows, which are in this process.
    rows : StepsElsewhere
        All other rows.
    """

    def __init__(self, loss: Loss, held: Rows, rows: StepsElsewhere) -> None:
        self.loss, self.held, self.rows = loss, held, rows
        self._ask: _ClassSlopes | None = None
        self._with_held = False

    def steps(self, size: int, n_passes: int, *, held: bool) -> list[int]:
        """Return the numbers of the steps, whose sizes are fixed where the rows lie."""
        self._with_held = held
        return [step for _ in range(n_passes) for step in range(self.rows.n_steps)]

    def visit(self, step: int, bases: Sequence[Basis]) -> int:
        """Return the number of the step, as its rows lie elsewhere."""
        return step

    def at(
        self, visited: int, bases: Sequence[Basis], coefficients: Sequence[Array]
    ) -> list[Array]:
        """Ask for the gradients at the rows of a step where these lie."""
        if self._ask is None:
            self._ask = _ClassSlopes(self.loss, list(bases))
        held = self.held if self._with_held else None
        weight, *found = self.rows.total(visited, self._ask, list(coefficients), held)
        return [each / weight for each in found]


def gradients_of(
    loss: Loss, rows: Rows, features: Sequence[Any], coefficients: Sequence[Array]
) -> list[Array]:
    """Return gradients of the weighted sum of a loss at rows, in the coefficients of each basis.

    Parameters
    ----------
    loss : Loss
        Loss for classification.
    rows : Rows
        Rows with class codes as targets.
    features, coefficients : sequences
        Features of the rows in each basis, and coefficients for each basis. The function is the sum
        of the products of the two.
    """
    pairs = list(zip(features, coefficients, strict=True))
    values: Array = np.asarray(
        np.sum([Z @ its.astype(Z.dtype) for Z, its in pairs], axis=0, dtype=np.float64)
    )
    slopes = loss_and_slopes(loss, values, targets_of_codes(loss, rows.targets))[1]
    slopes *= rows.weights[:, np.newaxis]
    return [products_with(Z, slopes) for Z in features]


def refine(
    parts: Sequence[BasisPart],
    weights: Sequence[float],
    loss: Loss,
    gradients: Gradients,
    held: Rows,
    bend: float = 0.0,
) -> Array | None:
    r"""Take Newton steps on a loss with bounded curvature; keep them if they help.

    With A the mean products, P the kernel matrix and c the bound of the curvature a step is
    :math:`w \leftarrow w - \frac{\eta}{c} (A + \lambda P)^{-1} (\nabla + c \lambda P w)`. The rate
    falls to 0, and is divided by the number of parts. After the first pass, the held out rows
    decide whether the steps helped more than the bend of the sum; if so, two more passes learn the
    held out rows, too.

    Parameters
    ----------
    parts : sequence of BasisPart
        Solved parts.
    weights : sequence of float
        Factors that bring the coefficients of the parts to units of the loss.
    loss : Loss
        Loss for classification.
    gradients : Gradients
        Gradients of the loss at all rows.
    held : Rows
        The held out rows among them.
    bend : float, default=0.0
        Factor of the cubes of its scores that are added to the sum, unless the steps are kept.

    Returns
    -------
    values : ndarray of shape (n_held, n_outputs) or None
        Scores of the held out rows after the first pass, which did not learn them; None if the
        steps were not kept. The coefficients of the parts are in units of the loss in any case.
    """
    assert loss.curvature is not None
    bound = float(loss.curvature)
    before = [weight * part.coefficients for weight, part in zip(weights, parts, strict=True)]
    without = [weight * part.without_held for weight, part in zip(weights, parts, strict=True)]

    def use(coefficients: list[Array], scale: float = 1.0) -> None:
        for part, its in zip(parts, coefficients, strict=True):
            part.coefficients = scale * its

    def values_at(X: Any) -> Array:
        return np.asarray(sum(part.evaluate(X) for part in parts))

    use(without)
    values = values_at(held.X)
    start = mean_loss(loss, values + bend * values**3, held)
    use(without, min(1.0, _MOST_SURE / sum(weights)))
    error = float(np.mean(loss.decide(values_at(held.X)) != labels_of_codes(held.targets)))
    share, first_rate = _CLEAN if error < _CLEAN_ERROR else _NOISY
    batch = max(_ROWS_AT_LEAST, int(share * max(part.n_points for part in parts)))
    curvatures = [part.curvature() for part in parts]
    bases = [part.basis for part in parts]

    def step(visited: Any, rate: float) -> None:
        found = gradients.at(visited, bases, [part.coefficients for part in parts])
        for part, curvature, gradient in zip(parts, curvatures, found, strict=True):
            part.step(gradient, curvature, rate / (bound * len(parts)), bound)

    def passes(n_passes: int, rate: float, *, with_held: bool) -> None:
        steps = gradients.steps(batch, n_passes, held=with_held)
        visited: Any = gradients.visit(steps[0], bases)
        for number in range(len(steps)):
            decayed = rate * (1.0 - number / len(steps))
            pieces: list[Callable[[], Any]] = [partial(step, visited, decayed)]
            # Features of the next rows do not depend on the coefficients that this step changes.
            pieces += [partial(gradients.visit, n, bases) for n in steps[number + 1 : number + 2]]
            visited = in_order(lambda piece: piece(), pieces)[-1]

    # The rate falls to 0 before the comparison, which would otherwise see the noise of large steps.
    passes(1, first_rate, with_held=False)
    # One pass finds the direction of the scores, not yet their scale: one factor corrects it.
    values = values_at(held.X)
    sure = stack([values], held.targets, held.weights, loss)[0]
    if not mean_loss(loss, sure * values, held) < start:
        use(before)
        return None
    use([part.coefficients for part in parts], max(sure, 1.0))
    passes(_MORE_PASSES, _AGAIN * first_rate, with_held=True)
    return np.asarray(sure * values)


# What there is beside the function. Files of large models lack rows and what was learned of them.
_STATE = Record(
    n_rows=integer(low=0),
    solved_at=integer(low=0),
    raced_at=integer(low=0),
    is_decided=truth(),
    is_finished=truth(),
    is_compact=truth(),
    _knows_block=truth(),
    in_time=truth(),
    held_loss=or_none(real()),
    targets=State(),
    rows=Maybe(Part(Rows, "n_features", "n_targets")),
    _learned=Maybe(State()),
    judged=Maybe(Part(Judged, "n_features", "n_targets")),
)


class DefaultLearner(Learner):
    r"""Learner of a sum of components: ridge regression from sums over rows of a stream.

    The first rows are kept. Whenever a prediction is asked for, a race chooses kernels
    (:func:`mercer.selection.race`, at the numbers of rows of :func:`mercer.selection.race_point`),
    and new components are allocated and fitted to all rows (``_solve_gathered``). ``fit`` on fewer
    than ``first_rows`` rows does this once, at the end. With more rows, components are chosen for
    good (``_decide``) and learn further rows as these arrive. From then on only the last rows are
    kept: they are held out and predicted, which chooses ridges and the weights of components, and
    are added to the sums later (``_add_to_sums``). A solution depends on the rows so far, not on
    when earlier solutions were computed.

    Components learn numbers, or codes of classes, by least squares. If a regression has another
    loss, the sum estimates the conditional mean g (of logarithms, for counts). A
    :class:`mercer.sums.Correction` then maps g to the minimiser of the loss. Each solution learns
    it anew on the rows that chose the weights.

    See :class:`mercer.learning.Learner` for the parameters. Step sizes and ``regularization`` are
    not used: the ridge is chosen by validation, or given by the function.

    Attributes
    ----------
    phase : Phase
        What happens to rows that arrive.
    n_rows, solved_at, raced_at : int
        Number of rows taken in, whether in sums or kept: now, at the last solution, and at the last
        race.
    targets : LearnedTargets
        Targets as the components learn them.
    held_loss : float
        Mean loss, or risk, of the held out rows at the last solution, before they were learned.
    judged : Judged or None
        The held out rows of the last solution, with their predictions; None before the first.
    in_time : bool
        Whether rows arrive in the order of time, so that the last ones are held out together.
    revisits : bool
        Whether rows can be visited again once all have arrived.
    is_compact : bool
        Whether the model comes from a file without sums, so that it cannot learn more rows.

    Raises
    ------
    ValueError
        If the objective is not the mean of a loss or a risk of it, or scores of the loss are in
        other units than targets.
    """

    function: SumOfComponents
    settings = Settings()

    def __init__(
        self,
        objective: Objective,
        function: SumOfComponents,
        step_size: StepSize | AutomaticStep,
        regularization: float,
        batch_size: int,
        automatic: AutomaticStep,
    ) -> None:
        targets = LearnedTargets(objective, function.n_outputs)
        super().__init__(objective, function, step_size, regularization, batch_size, automatic)
        self.phase = self._resumes = Phase.GATHERING
        self.n_rows = self.solved_at = self.raced_at = 0
        self.targets = targets
        if targets.corrects:
            self.settings = self.settings._replace(**CORRECTING)
        self.held_loss = np.nan
        self.judged: Judged | None = None
        self.revisits = self.is_compact = self.in_time = False
        # Whether the length of blocks is settled; otherwise races estimate it.
        length = self.resources.block_length
        self._knows_block = not isinstance(length, str)
        if not isinstance(length, str):
            function.block = int(length)
        self._grown: Grown | None = None
        self._groups: NDArray[np.int64] | None = None
        self._time: NDArray[np.int64] | None = None
        self._kept = [Rows.none(function.n_features, self.targets.n_targets, function.dtype)]
        self._learned = self._nothing_learned()

    @property
    def loss(self) -> Loss:
        """The loss whose mean, or risk, is minimised."""
        return self.targets.loss

    @property
    def resources(self) -> Resources:
        """Time and memory that learning may use."""
        return self.function.expansion

    @property
    def is_decided(self) -> bool:
        """Whether components are chosen for good."""
        return self._resumes is Phase.DECIDED

    @property
    def waiting(self) -> Rows:
        """Rows that are not in the sums yet."""
        if len(self._kept) > 1:
            self._kept = [Rows.joined(self._kept)]
        return self._kept[0]

    @property
    def sum_bytes(self) -> int:
        """Bytes in a file that further learning needs: waiting rows, and sums once decided.

        While rows are gathered, no sums count, as components are learned anew from all rows.
        """
        sums = [part.sum_bytes for part in self.function.components] if self.is_decided else []
        return self.waiting.n_bytes + sum(sums)

    def held_out(self) -> HeldOut | None:
        """Return the held out rows of the last solution, with scores by a fit without them."""
        self._solve()
        return self.judged.held_out(self.targets, self.function) if self.judged else None

    def fits_without(self) -> list[FitWithout]:
        """Return fits that each leave out some rows, if rows are few; an empty list otherwise.

        :meth:`held_out` predicts each of few rows by a fit to all others, but kernels, metrics,
        ridges and weights were chosen by the row, too. Errors of such predictions are smaller than
        errors of new rows: by a third, for 20 rows. The fits here choose everything without the
        rows left out.

        Rows of a group, and copies of a row, count once: a choice by a hundred rows with five
        copies each fits them as closely as a choice by a hundred rows.
        """
        with self.one_at_a_time():
            self._solve()
            n, judged = self.solved_at, self.judged
            if judged is None or not 1 < n == len(judged.rows) or not self._are_few(judged.rows):
                return []
            return judged.fits(self._anew, self._few_block(n))

    def _are_few(self, rows: Rows) -> bool:
        """Whether rows, with groups counted once, are too few to hold some of them out."""
        return len(rows.ends) <= self.settings.nested

    def _anew(self, rows: Rows) -> SumOfComponents:
        """Fit a new function to other rows, which also choose kernels, ridges and weights."""
        mine = self.function
        sizes = mine.n_features, mine.n_outputs, mine.dtype
        function = SumOfComponents(mine.given_kernel, mine.expansion, *sizes)
        function.races, function.ridge, function.block = mine.races, mine.ridge, mine.block
        how = self.step_size, self.regularization, self.batch_size, self.automatic
        learner = type(self)(deepcopy(self.objective), function, *how)
        learner.settings, learner._knows_block = self.settings, True
        learner._take_in(rows)
        learner._solve(now=True)
        return function

    # -- rows -----------------------------------------------------------------------------------

    def learn(
        self, X: Any, targets: Array, weights: Array, groups: NDArray[np.int64] | None = None
    ) -> None:
        """Take in rows; predictions use them once enough new rows have arrived.

        Parameters
        ----------
        X, targets, weights
            See :class:`mercer.learning.Learner`.
        groups : ndarray of shape (n,) of int64 or None, default=None
            Groups of the rows. Rows of a group are adjacent, and held out together. Either all
            rows have groups or none.
        """
        check_sizes(X, targets, weights)  # of all rows before the first is learned
        chunk = self._chunk(X)
        for start in range(0, X.shape[0], chunk):
            cut = slice(start, start + chunk)
            own = None if groups is None else groups[cut]
            rows = self._rows(X[cut], targets[cut], weights[cut])
            self._learn(replace(rows, groups=own).own())

    def learn_passes(
        self,
        X: Any,
        targets: Array,
        weights: Array,
        orders: Iterable[NDArray[np.int64]],
        report: Callable[[int], bool],
    ) -> None:
        """Learn rows in the first order only: sums take every row once. Newton steps may follow."""
        check_sizes(X, targets, weights)
        order, groups, weights = self._settled(X, targets, weights, next(iter(orders)))
        self._expect(order.size)
        stopped, self.revisits, chunk = False, True, self._chunk(X)
        for start in range(0, order.size, chunk):
            some = order[start : start + chunk]
            own = None if groups is None else groups[some]
            self._learn(replace(self._rows(X[some], targets[some], weights[some]), groups=own))
            # The last rows are reported below, once they are solved.
            stopped = start + chunk < order.size and report(some.size)
            if stopped:
                break
        self._solve(now=True, goes_on=not stopped)
        if stopped:
            self.phase = Phase.FINISHED
            self._let_go()
            return
        learned = order[weights[order] > 0.0]
        self._finish(self._revisitable(X, targets, weights, learned))
        report(order.size - start)

    def learn_row(self, x: Array, target: Array, weight: float) -> None:
        self.learn(x[np.newaxis], target[np.newaxis], np.array([weight]))

    def plan_passes(self, n_passes: int, weights: Array) -> Passes:
        return Passes(n_passes, n_passes * len(weights))

    def end_race(self) -> None:
        """Do nothing: the race here is on rows that are kept."""

    def _expect(self, n_rows: int, *, elsewhere: bool = False) -> None:
        """Let pilots be as large as so many rows allow, before the race."""
        classes = self.function.n_outputs > 1 and self.targets.are_codes
        self.settings = self.settings.for_many(n_rows, classes=classes, elsewhere=elsewhere)

    def _chunk(self, X: Any) -> int:
        """Return the number of rows to learn at a time."""
        return rows_at_once(X.shape[1], self.settings.chunk, self.settings.chunk_bytes)

    def _learn(self, rows: Rows) -> None:
        """Take in rows whose arrays nobody else holds, and count them."""
        used = rows.weights > 0.0
        self._take_in(rows if used.all() else rows[used])
        self.n_samples += len(rows)

    def _rows(self, X: Any, targets: Array, weights: Array) -> Rows:
        function = self.function
        return coded_rows(self.loss, X, targets, weights, function.n_outputs, function.dtype)

    def used_rows(self, X: Any, targets: Array, weights: Array) -> RevisitableRows:
        """Return rows with positive weight, in order, with numbers or codes as targets."""
        return self._revisitable(X, targets, weights, np.flatnonzero(weights > 0.0))

    def _revisitable(
        self, X: Any, targets: Array, weights: Array, numbers: NDArray[np.int64]
    ) -> RevisitableRows:
        """Return the rows with the given numbers, for repeated visits."""

        def take(some: NDArray[np.int64]) -> Rows:
            some = numbers[some]
            return self._rows(X[some], targets[some], weights[some])

        return RowsByNumber(numbers.size, take)

    def _take_in(self, rows: Rows) -> None:
        """Keep rows of checked sizes; once components are chosen for good, add rows to the sums."""
        self._refuse_if_compact()
        function, settings = self.function, self.settings
        if not function.races and not np.isfinite(function.given_kernel.diag(rows.X)).all():
            raise ValueError(
                f"{function.given_kernel!r} is not finite on these rows, whose largest input is "
                f"{float(np.abs(rows.X).max()):.3g}. Rescale the inputs, for example with "
                "sklearn.preprocessing.StandardScaler."
            )
        self.phase = self._resumes
        if self.phase is Phase.GATHERING:
            n = max(0, settings.first_rows - self.n_rows)
            self._append(rows[:n])
            if self.n_rows >= settings.first_rows:
                self._decide()
            rows = rows[n:]
        self._append(rows)
        n_kept = sum(len(some) for some in self._kept)
        if self.phase is Phase.DECIDED and n_kept > settings.most_held + settings.waiting:
            self._add_to_sums()

    def _append(self, rows: Rows) -> None:
        if len(rows):
            self._kept.append(rows)
            self.n_rows += len(rows)
        if len(self._kept) > self.settings.most_pieces:  # if rows come singly, pieces are many
            self._kept = [Rows.joined(self._kept)]

    def _refuse_if_compact(self) -> None:
        if self.is_compact:
            raise ValueError(
                "This model was made compact, saved after `fit` without the sums that learning "
                "needs, because they are large, or learned in several places. Fit in one with "
                "expansion=Auto(resumable=True) to have them in the file, or fit again on all rows."
            )

    # -- rows that are held out together --------------------------------------------------------

    def _find_block(self, rows: RevisitableRows) -> None:
        """Estimate how many successive rows to hold out together, unless that is settled.

        Rows must be in their original order: the order of the stream, or of the arrays of ``fit``
        before they are shuffled.
        """
        if self._knows_block:
            return
        if self.in_time:
            self.function.block = block_of_series(len(rows))
        elif not (isinstance(rows, Rows) and rows.groups is not None):
            learnable = RowsByNumber(len(rows), lambda numbers: self.targets(rows[numbers]))
            self.function.block = block_length(learnable, self.resources.seed)

    def hold_together(
        self, groups: NDArray[np.int64] | None = None, time: NDArray[np.int64] | None = None
    ) -> None:
        """Set which rows of the next :meth:`learn_passes` are held out together.

        Parameters
        ----------
        groups : ndarray of shape (n,) of int64 or None, default=None
            Group of each row.
        time : ndarray of shape (n,) of int64 or None, default=None
            Rank of each row in time. The last rows are held out for errors, and blocks for choices.
        """
        self._groups, self._time, self.in_time = groups, time, time is not None

    def _settled(
        self, X: Any, targets: Array, weights: Array, order: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None, Array]:
        """Find which rows to hold out together, from all rows in their original order.

        Returns
        -------
        order : ndarray of shape (n,) of int
            Order in which rows that are held out together are adjacent.
        groups : ndarray of shape (n,) of int64 or None
            Group of each row, indexed by its number; None without groups.
        weights : ndarray of shape (n,)
            Weights of the rows; old rows have lost some if later ones follow another law.
        """
        groups, time, self._groups, self._time = self._groups, self._time, None, None
        used = np.flatnonzero(weights > 0.0)
        if groups is None:
            ranked = used if time is None else used[np.argsort(time[used], kind="stable")]
            self._find_block(self._revisitable(X, targets, weights, ranked))
        # Races would see shuffled rows, from which no length of blocks can be estimated.
        self._knows_block |= used.size >= FEWEST_ROWS or groups is not None or time is not None
        counts, block = weights > 0.0, self.function.block
        if groups is None and (block > 1 or time is not None):
            weights = self._aged(X, targets, weights, ranked)
        if time is not None:
            first = self._before_last(ranked, order, block)
            return np.r_[first, order[~counts[order]]], None, weights
        if groups is None and block == 1 and isinstance(X, np.ndarray):
            some = slice(None) if used.size == counts.size else used
            found = repeats(X[some], targets[some])
            if found is not None:
                groups = np.zeros(counts.size, dtype=np.int64)
                groups[used] = found
        if groups is None:
            return order_in_blocks(order, weights, block), None, weights
        kept = order[counts[order]]
        return np.r_[group_order(kept, groups), order[~counts[order]]], groups, weights

    def _aged(self, X: Any, targets: Array, weights: Array, ranked: NDArray[np.int64]) -> Array:
        """Return weights that fall with age, if later rows say so; ``ranked`` is in time order."""
        if self.resources.forgetting < 1.0:
            return weights
        rows = self._revisitable(X, targets, weights, ranked)
        learnable = RowsByNumber(len(rows), lambda numbers: self.targets(rows[numbers]))
        half = half_life(learnable, self.resources.seed)
        if np.isinf(half):
            return weights
        weights = weights.copy()
        weights[ranked] *= 0.5 ** (np.arange(ranked.size - 1, -1, -1.0) / half)
        return weights

    def _before_last(
        self, ranked: NDArray[np.int64], order: NDArray[np.int64], block: int
    ) -> NDArray[np.int64]:
        """Return an order in which the last rows in time come last, and the others in blocks.

        If rows are so few that each may be a point, they stay in the order of time.
        """
        n = ranked.size - max(1, min(self._share_held(ranked.size), self.settings.most_held))
        if ranked.size <= self.settings.few:
            return ranked
        places = np.full(order.size, order.size)
        places[ranked] = np.arange(ranked.size)
        first = places[order]
        return ranked[np.r_[block_order(first[first < n], block), np.arange(n, ranked.size)]]

    def _shuffled(self, rows: Rows) -> Rows:
        # Random order whatever the order of the stream, so that held out rows resemble the others.
        order = np.random.default_rng(self.resources.seed).permutation(len(rows))
        if rows.groups is not None:
            return rows[group_order(order, rows.groups)]
        return rows[block_order(order, self.function.block)]

    # -- choosing components --------------------------------------------------------------------

    def _decide(self) -> None:
        """Choose components for good: from now on rows go into sums and are not kept."""
        rows, expected = self.waiting, self.resources.expected_rows
        if expected is not None and expected < len(rows):
            expected = None  # more rows arrived than were expected, so the number is unknown
        self._race(rows[: self._n_before_judges()], expected)
        rows = self.targets(rows)
        learned = rows[: self._n_before_judges()].discounted(self.resources.forgetting)
        self._allocate(self._shuffled(rows), self._shuffled(learned), expected)
        function = self.function
        function.weights, function.is_stale = np.zeros(len(function.components)), True
        self.phase = self._resumes = Phase.DECIDED
        self._add_to_sums()

    def _race(self, rows: Rows, expected: int | None) -> None:
        function, settings = self.function, self.settings
        self.targets.measure(self._shuffled(rows))
        self._find_block(rows)
        if function.races:
            budget = self.resources.budget_seconds
            few = budget is not None and budget < settings.haste
            raced = self._shuffled(self.targets(rows))[: settings.hasty_rows if few else None]
            # Of few rows the pilots see as many as trees, and all weigh the parts.
            many = raced.X.shape[1] >= settings.race.many and self.n_rows > settings.few
            function.race_result = race(
                self.targets.in_units(raced),
                expected,
                self.resources.seed,
                block=function.block,
                gains=self._gains(raced, expected) if many else None,
                settings=settings.race,
            )
        self.raced_at = len(rows)

    def _gains(self, raced: Rows, expected: int | None) -> Array | None:
        """Return how much trees explain by each column, and keep them for :meth:`_allocate`."""
        allocation = self._allocation(raced, raced, expected)
        assert allocation.learned is not None
        trees = allocation.trees()
        self._grown = Grown(allocation.learned, trees)
        return None if trees is None else trees.map.gains

    def _allocate(
        self, rows: Rows, learned: Rows, expected: int | None, n_regions: int | None = None
    ) -> Allocation:
        """Create components that have learned nothing yet, from rows in random order.

        Only the targets of ``learned`` may be used, as the other rows are held out. With
        ``n_regions``, the cells of the regions are laid out elsewhere.
        """
        function = self.function
        allocation = self._allocation(rows, learned, expected, n_regions)
        self._grown = None
        if function.race_result is None:
            components = [allocation.for_kernel(function.given_kernel)]
        else:
            steps = allocation.classes and self.revisits and self.loss.curvature is not None
            components = allocation.for_race(function.race_result, steps=steps)
        function.replace_components(components)
        self._prepare_components()
        return allocation

    def _allocation(
        self, rows: Rows, learned: Rows, expected: int | None, n_regions: int | None = None
    ) -> Allocation:
        return Allocation(
            rows,
            expected,
            self.resources,
            classes=self.loss.task == "classification",
            learned=self.targets.in_units(learned),
            n_regions=n_regions,
            grown=self._grown,
            race=self.settings.race,
            settings=self.settings.allocation,
        )

    def _prepare_components(self) -> None:
        for component in self.function.components:
            component.unit = self.targets.unit
            if isinstance(component, CellsPart):
                component.alone = self.function.block == 1 and not self.in_time

    # -- solving --------------------------------------------------------------------------------

    def current_function(self) -> SumOfComponents:
        self._solve()
        return self.function

    def evaluate_row(self, x: Array) -> Array:
        with one_blas_thread():
            return np.asarray(self.evaluate(x[np.newaxis])[0])

    def _solve(self, *, now: bool = False, goes_on: bool = False) -> None:
        """Solve if :meth:`_solve_if_due` finds it due, and note the loss of the held out rows.

        With ``goes_on``, the level is not computed here, as a later step of the caller does it.
        """
        with self.one_at_a_time():
            before = self.solved_at
            if self._solve_if_due(now=now):
                if not goes_on:
                    self._find_level()
                    self._let_go()
                n = self.n_rows - before
                if n == 0:
                    return  # no new rows, only other outputs
                self.note(StepRecord(n, n * self.held_loss, 0.0, self._monitors()))

    def _monitors(self) -> tuple[float, ...]:
        """Return the numbers of a risk in the order of ``monitors`` of the objective."""
        correction = self.function.correction
        if self.targets.risk is None or correction is None:
            return ()
        # The first monitor counts clipped steps; there are no steps here.
        return 0.0, correction.clamped, *correction.inner.tolist(), *correction.scalars.tolist()

    def _solve_if_due(self, *, now: bool) -> bool:
        """Solve if enough rows arrived since the last solution; return whether it solved.

        With ``now``, one new row is enough, and while rows are gathered, the race is on all rows.
        """
        function, new = self.function, self.n_rows - self.solved_at
        fraction = self.resources.refresh * self._counting(self.solved_at)
        enough = new > 0 and (now or new > fraction)
        # At the end of `fit`, race on all rows even if an earlier prediction solved already.
        enough |= now and not self.is_decided and self.raced_at < self._n_before_judges()
        if not enough and not (function.is_stale and self.n_rows):
            return False
        if self.is_decided:
            self._prepare_components()  # it may have become known that rows are in order
            self._add_to_sums()
            held = self.waiting
            learned = self.targets(held)
            backwards = function.components[::-1]
            trials = in_order(lambda part: part.judge(learned), backwards)[::-1]
            held = held.discounted(self.resources.forgetting)
        elif self._solves_again:
            self._solve_in_time(now=now)
            return True
        else:
            held, trials = self._solve_gathered(self.waiting, now=now)
            learned = self.targets(held)
        self._weigh(held, learned, trials)
        return True

    @property
    def _solves_again(self) -> bool:
        """Whether rows in the order of time are solved twice: for their errors, and for good."""
        again = self.in_time and not self.is_decided and self.n_rows > self.settings.few
        return again and self.resources.forgetting == 1.0

    def _solve_in_time(self, *, now: bool) -> None:
        """Hold out the last rows, whose errors tell of later rows; then blocks of all the time.

        Parts that are made without the last rows know less of the present than they could, and
        choices by one stretch follow its accidents.
        """
        raced_at = self.raced_at
        held, trials = self._solve_gathered(self.waiting, now=now)
        trials = [trial._replace(complete=None) for trial in trials]
        self._weigh(held, self.targets(held), trials)
        self._find_level(kept=self.waiting[: self._n_before_judges()])
        assert self.judged is not None
        judged, loss = replace(self.judged, level=self.function.level), self.held_loss
        self.function.is_stale = True
        if self.raced_at != raced_at:  # a race was due, and these rows have another order
            self.raced_at = 0
        held, trials = self._solve_gathered(self._solved_rows, now=now)
        self._weigh(held, self.targets(held), trials)
        self.judged, self.held_loss = judged, loss

    @property
    def _solved_rows(self) -> Rows:
        """Kept rows in the order in which they are solved: the last ones are held out."""
        return self._shuffled(self.waiting) if self._solves_again else self.waiting

    def _weigh(self, held: Rows, learned: Rows, trials: list[Trial]) -> None:
        """Choose the weights of components by their predictions for held out rows.

        Only components with a weight are fitted to the held out rows, too.

        Parameters
        ----------
        held, learned : Rows
            The held out rows: with weights by age, and with targets as components learn them.
        trials : list of Trial
            Predictions of each component.
        """
        function, predictions = self.function, [trial.values for trial in trials]
        unit, by = self.targets.unit, self.targets.stacked_by
        scaled = [values / unit for values in predictions]
        block = 1 if held.groups is not None else function.block
        function.weights = stack(scaled, learned.targets / unit, held.weights, by, block)
        values = np.tensordot(function.weights, np.stack(predictions), 1)
        if self.targets.corrects:
            kernel = function.kernel_of_inputs
            function.correction = self.targets.correction(held, learned.targets, values, kernel)
            self.held_loss = function.correction.error
        else:
            if function.races and self.targets.are_codes:
                factor, function.bend = calibrate(values, held.targets, held.weights, self.loss)
                function.weights = factor * function.weights
                values = function.bent(factor * values)
            self.held_loss = mean_loss(self.loss, values, held)
        self.judged = Judged.of(held, values, self.settings.nested)
        weighed = zip(function.weights, trials, strict=True)
        in_order(
            lambda complete: complete(),
            [trial.complete for weight, trial in weighed if weight and trial.complete],
        )
        self.solved_at, function.is_stale = self.n_rows, True  # until there is a level

    def _solve_gathered(self, rows: Rows, *, now: bool) -> tuple[Rows, list[Trial]]:
        """Choose and fit components anew, to all rows gathered so far.

        Parameters
        ----------
        rows : Rows
            The rows; the last ones are held out.
        now : bool
            Whether the race is on all rows.

        Returns
        -------
        judges, trials : Rows and list of Trial
            Held out rows, with weights by age, and the prediction of each component for them by a
            fit without them.
        """
        n = self._n_before_judges()
        raced = n if now else race_point(n)
        result, few = self.function.race_result, len(rows) <= self.settings.few
        rows = self._with_copies(rows) if few else rows
        other = result is not None and result.exact != few  # it had few rows
        if self.raced_at < raced or other:
            self._race(rows[:raced], len(rows))
        if few:
            return self._solve_few(rows.discounted(self.resources.forgetting))
        judges, rows = rows[n:], self.targets(rows)
        learned = rows[:n].discounted(self.resources.forgetting)
        allocation = self._allocate(self._shuffled(rows), self._shuffled(learned), len(rows))
        components = self.function.components
        fitted, held = rows[:n], rows[n:]

        block, in_time = self.function.block, self.in_time
        alone = not in_time and judges_alone(learned, block, self.settings.race)

        def judge(component: Component) -> Trial:
            if isinstance(component, TreesPart):
                return component.judge_gathered(fitted, held)
            if alone and isinstance(component, CellsPart) and self.function.races:
                component.keep_ridge()  # by which the race judged cells like these
            component.learn(fitted)
            return component.judge(held)

        trials = in_order(judge, components[::-1])[::-1]
        judges = judges.discounted(self.resources.forgetting)
        in_haste = self.resources.budget_seconds is not None
        if allocation.classes or in_haste or not isinstance(components[-1], TreesPart):
            return judges, trials
        unit = self.targets.unit
        *others, error = [squared_error(trial.values, held, unit) for trial in trials]
        if error > allocation.settings.many_within * min(others, default=np.inf):
            return judges, trials
        trees = allocation.trees(many=True)
        if trees is not None:
            trees.unit = unit
            trial = judge(trees)
            if squared_error(trial.values, held, unit) < error:
                components[-1], trials[-1] = trees, trial
        return judges, trials

    def _solve_few(self, rows: Rows) -> tuple[Rows, list[Trial]]:
        """Fit all rows; predict the last half of them, or all if few, by leave-one-out fits."""
        settings, block = self.settings, self._few_block(len(rows))
        given = self._with_last_together(rows) if self.in_time else self._shuffled(rows)
        rows = self.targets(given)
        self._allocate(rows, rows, len(rows))
        most = len(rows) if self._are_few(rows) else max(settings.fewest_judges, len(rows) // 2)
        n = min(len(rows), most)
        n += (len(rows) - n) % block  # whole blocks
        if self.in_time:
            n = self._n_held()
        n = len(rows) - rows.whole(len(rows) - n)
        components: list[Component] = []
        trials: list[Trial] = []
        for part in self.function.components:
            trial: Trial | None
            if isinstance(part, TreesPart):
                trial = part.solve_few(rows, n, block, [one.values for one in trials])
            else:
                assert isinstance(part, GlobalPart)
                if part.n_points == len(rows):
                    trial = Trial(part.solve_exactly(rows, n, block))
                else:
                    trial = Trial(part.solve_without(rows, block)[len(rows) - n :])
            if trial is not None:
                components.append(part)
                trials.append(trial)
        self.function.components = components
        judges = given[len(rows) - n :]
        return (replace(judges, groups=None) if self.in_time else judges), trials

    def _with_copies(self, rows: Rows) -> Rows:
        """Make a group of each set of repeated rows, unless rows are a series or have groups."""
        if rows.groups is not None or self.in_time or self.function.block > 1:
            return rows
        found = repeats(rows.X, rows.targets)
        if found is None:
            return rows
        self._find_block(rows)
        return rows if self.function.block > 1 else replace(rows, groups=found)

    def _with_last_together(self, rows: Rows) -> Rows:
        """Return rows in the order of time, with the held out ones as one group."""
        numbers = np.arange(len(rows), dtype=np.int64)
        return replace(rows, groups=np.minimum(numbers, len(rows) - self._n_held()))

    def _few_block(self, n: int) -> int:
        """Return the number of successive rows held out together, of ``n`` rows that are few."""
        return min(self.function.block, max(1, n // 5))

    def _add_to_sums(self) -> None:
        rows = self.waiting
        n = rows.whole(max(0, len(rows) - self._n_held()))
        if n > 0:
            self.targets.follow(rows)
            learnable = self.targets(rows[:n])
            # The last components, trees and cells, take the longest, so they start first.
            in_order(lambda part: part.learn(learnable), reversed(self.function.components))
            if self._has_level:
                self._learned.add(rows[:n])
            self._kept = [rows[n:].own()]

    def _n_before_judges(self) -> int:
        """Return how many gathered rows are learned and raced on; the rows after are held out."""
        if self.n_rows <= self.settings.few:
            return self.n_rows
        return self.waiting.whole(self.n_rows - self._n_held(), least=1)

    def _n_held(self) -> int:
        """Return the number of rows to hold out: a share of the rows that are not forgotten."""
        return max(1, min(self._share_held(self.n_rows), self.settings.most_held))

    def _share_held(self, n: int) -> int:
        return int(self.settings.held_share * self._counting(n))

    def _counting(self, n: int) -> float:
        """Return the total weight of ``n`` rows whose weights decay by the factor of forgetting."""
        forgetting = self.resources.forgetting
        return float(n) if forgetting == 1.0 else (1.0 - forgetting**n) / (1.0 - forgetting)

    # -- the mean -------------------------------------------------------------------------------

    def _nothing_learned(self) -> LearnedMean:
        function = self.function
        sizes = function.n_features, self.targets.n_targets, function.dtype
        return LearnedMean(*sizes, self.resources.seed, self.resources.max_memory)

    @property
    def _has_level(self) -> bool:
        """Whether a level is added to the scores.

        Without a correction, a model with a kernel that the user gave has coefficients only.
        """
        return self.targets.of_mean and (self.function.races or self.targets.corrects)

    def _find_level(self, rows: RevisitableRows | None = None, kept: Rows | None = None) -> None:
        """Compute the level that is added to the scores.

        Parameters
        ----------
        rows : RevisitableRows, default=None
            All rows that were learned. None: rows not in sums, and a sample of the others.
        kept : Rows, default=None
            Rows that are not in sums; None for the waiting rows.
        """
        function, forgetting = self.function, self.resources.forgetting
        if not self._has_level:
            function.level, function.is_stale = None, False
            return
        kept = self.waiting if kept is None else kept
        if forgetting == 1.0:
            some, mean = self._learned.with_rows(kept)
        else:  # rows in sums are old
            some = kept.discounted(forgetting)
            mean = np.average(some.targets, axis=0, weights=some.weights)
        seen: RevisitableRows = some if rows is None else rows

        def look(numbers: NDArray[np.int64]) -> Looked:
            found = seen[numbers]
            return function.before_level(found.X), found.targets, found.weights

        function.level = level_of(look, len(seen), mean, self.loss, self.resources.seed)
        function.is_stale = False

    # -- rows that are learned elsewhere ----------------------------------------------------------

    def lay_out(
        self, X: Any, targets: Array, weights: Array, n_rows: int, n_regions: int
    ) -> Layout:
        """Choose components from a sample, and return what to sum up where the rows lie.

        Components that need no more rows than the sample has learn the sample here.
        """
        sample = self._rows(X, targets, weights)
        # A sample is in random order, so no length of blocks can be estimated from it.
        self.n_rows, self.revisits, self._knows_block = n_rows, True, True
        self._expect(n_rows, elsewhere=True)
        first = sample[: self.settings.first_rows]
        self._race(first, n_rows)
        learned = self.targets(sample)
        self._allocate(learned, learned, n_rows, n_regions)
        self.phase = self._resumes = Phase.DECIDED
        components = dict(enumerate(self.function.components))
        partitions = {n: part for n, part in components.items() if isinstance(part, CellsPart)}
        basic = {n: part for n, part in components.items() if isinstance(part, BasisPart)}
        here = [n for n, part in basic.items() if part.max_rows and part.max_rows <= len(sample)]
        in_order(lambda number: basic[number].learn(learned), here)
        summands: dict[int, Any] = {n: p.emptied() for n, p in basic.items() if n not in here}
        summands |= self._learned.elsewhere(sample, self.loss)
        rows = Learnable(self.targets, self.function.n_outputs, self.function.dtype)
        if partitions or not self._takes_steps:
            return Layout(rows, summands, partitions)
        n_steps = -(-n_rows // max(part.n_points for part in basic.values()))
        return Layout(rows, summands, partitions, min(self.settings.most_steps, n_steps))

    def adopt(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None = None,
    ) -> None:
        """Take over sums and solved parts computed elsewhere; solve and weigh the components."""
        learned = self._rows(held.X, held.targets, held.weights)
        held, learned = learned, self.targets(learned)
        # Copies, so that choices of this model do not change other models of the same plan.
        components: list[Any] = list(map(copy, self.function.components))
        self._learned, sums = self._learned.adopted(sums)
        self.function.components = components
        for number, one in solved.items():
            components[number] = one.part
        for number, its in sums.items():
            components[number].statistics = its.statistics.copy()

        def judge(number: int) -> Trial:
            if number in solved:
                return Trial(solved[number].values)
            return components[number].judge(learned)  # type: ignore[no-any-return]

        self._weigh(held, learned, in_order(judge, range(len(components))))
        if steps is not None:
            self._refine(GradientsElsewhere(self.loss, learned, steps), held)
        self._find_level(kept=held)
        self._learned = self._nothing_learned()  # it learns no further rows
        self.n_samples, self.is_compact, self.phase = self.n_rows, True, Phase.FINISHED
        self.note(StepRecord(self.n_rows, self.n_rows * self.held_loss, 0.0, self._monitors()))

    # -- the end of all rows --------------------------------------------------------------------

    def finish(self, take: Take | None = None) -> None:
        """Solve for all rows, and take Newton steps where they apply; files then need no sums.

        Newton steps visit rows again: rows that ``take`` returns, or all rows if they are kept.
        """
        done = self.phase is Phase.FINISHED and not self.function.is_stale
        if not self.n_rows or done or self.is_compact:
            return
        self._solve(now=True, goes_on=take is not None or not self.is_decided)
        if take is None and self.is_decided:
            self.phase = Phase.FINISHED
            self._let_go()
            return
        rows: RevisitableRows = self.waiting
        if take is not None:
            rows = RowsByNumber(self.n_rows, lambda numbers: self._rows(*take(numbers)))
        self._finish(rows)

    def _finish(self, rows: RevisitableRows) -> None:
        """Take Newton steps and compute the level, with all rows to visit again."""
        self.phase = Phase.FINISHED
        self._take_steps(rows)
        self._find_level(rows if self.is_decided else None)
        self._let_go()

    def compact(self) -> None:
        """Solve, and keep only what predicts and the held out rows; learn no further rows."""
        self._solve()
        self.phase, self.is_compact = Phase.FINISHED, True
        self._keep_used()
        self._kept, self._learned = [self.waiting[:0].own()], self._nothing_learned()

    def _let_go(self) -> None:
        """Free what neither predictions nor further learning read."""
        if not self.is_decided:  # further rows are learned with the kept ones, by new components
            self._keep_used()
        elif self.phase is Phase.FINISHED:
            for component in self.function.components:
                component.rest(sums=False)

    def _keep_used(self) -> None:
        """Keep only components with a weight, without their sums."""
        function, used = self.function, self.function.used
        function.components = [component for _, component in used]
        function.weights = np.array([weight for weight, _ in used])
        for component in function.components:
            component.rest()

    def _take_steps(self, rows: RevisitableRows) -> None:
        """Take Newton steps on a classification loss, unless the model uses cells."""
        function = self.function
        steps = self._takes_steps and self.resources.forgetting == 1.0
        if self.n_rows <= self.settings.few or not steps:
            return
        if any(part.form == "cells" for _, part in function.used):
            return
        held, n_held = self._solved_rows, self._n_held()
        if not self.is_decided:
            self._make_sums()
            rows = held
        held = held[held.whole(max(0, len(held) - n_held), least=0 if self.is_decided else 1) :]
        with one_blas_thread():
            self._refine(GradientsOfRows(self.loss, rows, len(held)), held)

    def _make_sums(self) -> None:
        """Add gathered rows to the sums that steps need and their solution did not."""
        function = self.function
        parts = [part for _, part in function.used if isinstance(part, BasisPart)]
        if not all(part.without_held.any() for part in parts):
            # Loaded from a file, where rows that are kept themselves have no sums.
            function.is_stale = True
            self._solve(goes_on=True)
        learned = self.targets(self._solved_rows)[: self._n_before_judges()]
        for _, part in function.used:
            if isinstance(part, TreesPart):
                part.statistics = part.emptied().statistics
                part.learn(learned)

    @property
    def _takes_steps(self) -> bool:
        """Whether Newton steps on the loss follow the least squares fit to class codes."""
        plain = self.targets.are_codes and not self.targets.corrects
        return plain and self.loss.curvature is not None

    def _refine(self, gradients: Gradients, held: Rows) -> None:
        function = self.function
        parts = [part for _, part in function.used if isinstance(part, BasisPart)]
        weights = [weight for weight, _ in function.used]
        values = refine(parts, weights, self.loss, gradients, held, function.bend)
        function.weights = np.where(function.weights > 0.0, 1.0, 0.0)
        if values is not None:
            function.bend = 0.0
            self.judged = self.judged if self._solves_again else Judged.of(held, values)

    # -- other outputs --------------------------------------------------------------------------

    def map_outputs(self, new: NewOutputs) -> None:
        """Change the outputs, by mapping the class codes that were learned to the new codes."""
        codes, offset = shift_of_codes(new.places, *new.mixing.shape, lone=self.loss.multiclass)
        self._refuse_if_compact()
        self._kept = [rows.map_targets(codes, offset) for rows in self._kept]
        self._learned.map_targets(codes, offset)
        self.function.map_outputs(codes, offset)
        self.judged = None
        self._replace_objective(new.objective)
        self.targets = LearnedTargets(self.objective, self.function.n_outputs)

    # -- state ----------------------------------------------------------------------------------

    def to_state(self, *, whole: bool = False) -> dict[str, Any]:
        """See :class:`mercer.learning.Learner`: files lack large sums once all rows came."""
        finished, small = self.phase is Phase.FINISHED, self.settings.small_file
        wanted = self.resources.resumable or not finished or self.sum_bytes <= small
        sums = (whole or wanted) and not self.is_compact
        return {
            **self._state_with(self.function.snapshot(sums=sums and self.is_decided)),
            "default": _STATE.written_of(
                {
                    **vars(self),
                    "is_decided": self.is_decided,
                    "is_finished": finished,
                    "is_compact": not sums,
                    "held_loss": None if np.isnan(self.held_loss) else self.held_loss,
                    "rows": self.waiting if sums else None,
                    "_learned": self._learned if sums and self.is_decided else None,
                }
            ),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._restore_with_function(state)
        function, sizes = self.function, {"n_features": self.function.n_features}
        values = _STATE.read(state["default"], sizes)
        rows, learned = values.pop("rows"), values.pop("_learned")
        if rows is not None and not function.components and self.targets.are_codes:
            function.n_outputs = rows.targets.shape[1]
        self._resumes = Phase.DECIDED if values.pop("is_decided") else Phase.GATHERING
        self.phase = Phase.FINISHED if values.pop("is_finished") else self._resumes
        targets = values.pop("targets")
        self.targets = LearnedTargets(self.objective, function.n_outputs)
        if sizes.setdefault("n_targets", self.targets.n_targets) != self.targets.n_targets:
            raise ValueError("the rows that are kept have other targets than the function")
        self.targets.restore(targets, n_features=function.n_features)
        if values["held_loss"] is None:
            values["held_loss"] = np.nan
        vars(self).update(values)
        self._prepare_components()
        self._kept = [Rows.none(function.n_features, self.targets.n_targets, function.dtype)]
        self._learned = self._nothing_learned()
        if learned is not None:
            self._learned.restore(learned, **sizes)
        judged = None if values["judged"] is None else values["judged"].rows
        for some in (rows, judged):  # as large as such that are learned, at most
            if some is not None:
                check_sizes(some.X, some.targets, some.weights)
        if rows is not None:
            self._kept = [rows]
            function.dtype = rows.X.dtype
