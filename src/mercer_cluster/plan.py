"""The core of learning in several places: a plan, sums of some rows, and the model of all.

Cells of a part of space are solved from all rows that lie there: small problems that need nobody
else.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.partitioned import rows_by_cell
from mercer.learning import Ask, Layout, Solved
from mercer.sums import CellsPart, Rows, squared_error
from mercer.threads import jobs
from mercer.validation import check_integer
from mercer_cluster.models import Begun, Draft, begin
from mercer_cluster.settings import DEFAULT, Settings
from mercer_cluster.shards import KeyedRows, row_keys

Array = NDArray[np.float64]

# Rows that a cell gets, about, of those that make it full.
_FULL = 0.8


class Region(NamedTuple):
    """Solved cells of a part of the space.

    Attributes
    ----------
    part : CellsPart
        The cells.
    numbers : ndarray of shape (n,) of int
        Which of the rows held back lie in the region.
    values : ndarray of shape (n, n_outputs)
        Predictions of the cells for these rows before learning them.
    n_rows : int
        Rows that were learned.
    error : float
        Sum of the squared errors at rows before they were learned: those held back, and some more.
    """

    part: CellsPart
    numbers: NDArray[np.int64]
    values: Array
    n_rows: int
    error: float


#: Solves the regions of several numbers, each with a given number of rows per cell.
Solve = Callable[[Sequence[tuple[int, int]]], list[Region]]


class Regions:
    """The regions of all partitions of a plan.

    A cell keeps its rows, each of which becomes a point, or it takes some of them as points of sums
    over all. In that case a cell may have thousands of rows, which average the noise, and the model
    is smaller by as much. Which is better depends on the noise and on the roughness of the
    function, so a few regions of each partition try both; errors on held-out rows decide for all.

    Parameters
    ----------
    partitions : dict of int to CellsPart
        Components, whose cells are the regions, by their number.
    held : Rows
        Rows held back, as they are learned.
    n_rows : int
        Rows in all.
    settings : Settings
        Sizes.
    """

    def __init__(
        self, partitions: dict[int, CellsPart], held: Rows, n_rows: int, settings: Settings
    ) -> None:
        self.partitions = partitions
        self._held, self._n_rows, self._settings = held, n_rows, settings
        self.places = [
            (number, region)
            for number, part in partitions.items()
            for region in range(part.partition.n_cells)
        ]

    def __len__(self) -> int:
        return len(self.places)

    def pieces(self, keyed: KeyedRows) -> list[tuple[int, KeyedRows]]:
        """Rows of each region, mapped, with the region's number; none of those without rows."""
        found, first = [], 0
        for part in self.partitions.values():
            images, members = self._mapped(part, keyed.rows)
            mapped = KeyedRows(images, keyed.keys)
            found += [(first + region, mapped.take(mine)) for region, mine in members.items()]
            first += part.partition.n_cells
        return found

    @staticmethod
    def _mapped(part: CellsPart, rows: Rows) -> tuple[Rows, dict[int, NDArray[np.int64]]]:
        images, members = part.place(rows.X)
        return Rows(images, rows.targets, rows.weights), members

    def solve(self, number: int, rows_per_cell: int, pieces: Sequence[KeyedRows]) -> Region:
        """Lay out and solve the cells of a region.

        Parameters
        ----------
        number : int
            Which one.
        rows_per_cell : int
            Rows of a cell, about: one of :meth:`choices`.
        pieces : sequence of KeyedRows
            All of its rows, mapped; their keys put them in order.
        """
        component, region = self.places[number]
        whole, settings = self.partitions[component], self._settings
        mapped, members = self._mapped(whole, self._held)
        numbers = members.get(region, np.zeros(0, dtype=np.int64))
        held = mapped[numbers]
        rows = KeyedRows.joined(pieces).in_order() if pieces else held[:0]
        n_judging = min(int(settings.judging * len(rows)), settings.most_judging)
        learned, judges = rows[n_judging:], Rows.joined([held, rows[:n_judging]])
        part = self._cells(whole, region, learned if len(learned) else held, rows_per_cell)
        part.learn(learned)
        values, error = part.solve(judges), 0.0
        if len(judges):
            error = squared_error(values, judges, whole.unit) * float(judges.weights.sum())
        return Region(part.compact(), numbers, values[: len(held)], len(rows), error)

    def _cells(self, whole: CellsPart, region: int, rows: Rows, rows_per_cell: int) -> CellsPart:
        """Return the cells of a region before learning."""
        outer, n_cells = whole.partition, max(1, len(rows) // rows_per_cell)
        if whole.max_cells == 0 or not len(rows):  # the user chose the cells, or there are no rows
            partition = outer.inside(region)
        else:
            partition = type(outer).balanced(
                rows.X,
                n_cells,
                kernel=outer.kernel,
                constant=float(outer.constant),
                columns=whole.along_columns,
                seed=outer.seed + region,
            )
        part = CellsPart(
            partition,
            None,
            whole.size,
            whole.n_outputs,
            2 * n_cells if rows_per_cell == self._kept(whole) else n_cells,
            whole.forgetting,
            whole.keeps,
            whole.dtype,
            whole.first_ridge,
        )
        part.unit = whole.unit
        return part

    @staticmethod
    def _kept(whole: CellsPart) -> int:
        """Rows of a cell that keeps them, about."""
        return int(_FULL * whole.keeps)

    def choices(self, component: int) -> list[int]:
        """Rows per cell that are worth trying, of a component; the model's memory bounds cells."""
        whole = self.partitions[component]
        if whole.max_cells == 0:
            return [self._kept(whole)]
        least = max(self._kept(whole), -(-self._n_rows // whole.max_cells))
        by_sums = [multiple * whole.size for multiple in self._settings.rows_per_point]
        found = [least] if least == self._kept(whole) else []
        found += [rows for rows in by_sums if rows >= least]
        largest = self._n_rows // max(1, whole.partition.n_cells)
        return [rows for rows in found if rows <= largest] or [least]

    def pilots(self, component: int) -> list[int]:
        """Numbers of the regions of a component that try."""
        mine = [number for number, (of, _) in enumerate(self.places) if of == component]
        some = np.linspace(0, len(mine) - 1, min(len(mine), self._settings.pilots)).astype(int)
        return [mine[place] for place in np.unique(some)]

    def solved(self, solve: Solve) -> list[Region]:
        """Solve all regions, with as many rows to a cell as those that try find best.

        Parameters
        ----------
        solve : callable
            Pairs of numbers and rows per cell to regions; it may solve them anywhere.
        """
        tried = [
            (number, rows)
            for component in self.partitions
            for rows in self.choices(component)
            for number in self.pilots(component)
            if len(self.choices(component)) > 1
        ]
        found = dict(zip(tried, solve(tried), strict=True))
        best = {
            component: min(
                self.choices(component),
                key=lambda rows: sum(
                    found[number, rows].error
                    for number in self.pilots(component)
                    if (number, rows) in found
                ),
            )
            for component in self.partitions
        }
        wanted = [(number, best[component]) for number, (component, _) in enumerate(self.places)]
        left = [pair for pair in wanted if pair not in found]
        found.update(zip(left, solve(left), strict=True))
        return [found[pair] for pair in wanted]

    def joined(self, regions: Sequence[Region]) -> dict[int, Solved]:
        """Components of the regions of each partition."""
        made: dict[int, Solved] = {}
        for component, whole in self.partitions.items():
            pairs = zip(self.places, regions, strict=True)
            mine = [one for (of, _), one in pairs if of == component]
            values: Any = np.empty((len(self._held), whole.n_outputs))
            for one in mine:
                values[one.numbers] = one.values
            made[component] = Solved(CellsPart.joined(whole, [one.part for one in mine]), values)
        return made


# Rows whose features are in memory together.
_TOGETHER = 4096

#: Maps the step, the question and its argument to sums over some rows of the step each, in an order
#: that does not depend on the workers.
Gather = Callable[[int, Ask, Any], Sequence[list[Array]]]


def total_of(pieces: Iterable[Rows], ask: Ask, of: Any) -> list[Array]:
    """Sum over rows in pieces.

    Parameters
    ----------
    pieces : iterable of Rows
        The rows; at least one piece, if of no rows.
    ask, of
        As of :meth:`mercer.learning.StepsElsewhere.total`.
    """
    some = (
        rows[start : start + _TOGETHER]
        for rows in pieces
        for start in range(0, max(len(rows), 1), _TOGETHER)
    )
    return _added([ask(rows, of) for rows in some])


def _added(found: Sequence[list[Array]]) -> list[Array]:
    return reduce(lambda one, more: [a + b for a, b in zip(one, more, strict=True)], found)


class Totals:
    """Sums over rows of steps: :class:`mercer.learning.StepsElsewhere`.

    Parameters
    ----------
    n_steps : int
        Steps of a pass.
    gather : callable
        Brings the sums over the rows of a step.
    """

    def __init__(self, n_steps: int, gather: Gather) -> None:
        self.n_steps, self._gather = n_steps, gather

    def total(self, step: int, ask: Ask, of: Any, held: Rows | None = None) -> list[Array]:
        """Sum over the rows of a step, and its share of the rows held back."""
        found = list(self._gather(step, ask, of))
        if held is not None:
            found.append(ask(held[step :: self.n_steps], of))
        return _added(found)


#: Rows of a block, by the shard and the number of the first row that was added.
Piece = dict[tuple[int, int], KeyedRows]


def seed_of(estimator: Any) -> int:
    """Return the seed of what is drawn for an estimator, the same for the same parameters."""
    return int(getattr(getattr(estimator, "expansion", None), "seed", 0))


class Plan:
    """Everything needed to learn each row, so that the same model results anywhere.

    A plan contains all that depends on more than single rows: the record of the targets, the map of
    the inputs, kernels and length scales, dictionaries, trees, and the regions of space in which
    rows are brought together. It also holds held-out rows, which choose ridges and weights at the
    end. A plan can be pickled; workers that learn rows need only its :attr:`work`.

    Create a plan with :meth:`of`, or use :func:`mercer_cluster.fit`, which does everything.

    Attributes
    ----------
    work : Work
        The part that workers need to learn rows.
    n_rows : int
        Rows in all.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer_cluster import Plan
    >>> X = np.random.default_rng(0).normal(size=(6000, 2))
    >>> y = np.sin(X[:, 0])
    >>> plan = Plan.of(KernelRegressor(), (X[:3000], y[:3000]), (X[5000:], y[5000:]), n_rows=6000)
    >>> first = plan.add(X[:2500], y[:2500], shard=0)
    >>> second = plan.add(X[2500:5000], y[2500:5000], shard=1)
    >>> model = plan.finish(first.merge(second))
    >>> model.score(X, y) > 0.99
    True
    """

    def __init__(self, begun: Begun, held: Rows, work: Work, n_rows: int) -> None:
        self.work = work
        self.n_rows = n_rows
        self._begun = begun
        self._held = held

    @classmethod
    def of(
        cls,
        estimator: Any,
        sample: tuple[Any, ...],
        held: tuple[Any, ...],
        n_rows: int,
        *,
        class_counts: dict[Any, int] | None = None,
        least_key: int = 0,
        by_content: bool = False,
        settings: Settings = DEFAULT,
    ) -> Self:
        """Plan for rows of which there is a sample.

        Parameters
        ----------
        estimator : KernelClassifier, KernelRegressor or GaussianProcessRegressor
            Estimator with its parameters; not changed.
        sample : tuple of (X, y) or (X, y, sample_weight)
            Rows drawn at random from all. They are learned with all others.
        held : tuple of (X, y) or (X, y, sample_weight)
            Other rows drawn at random, that :meth:`add` is never given.
        n_rows : int
            Rows in all.
        class_counts : dict, default=None
            For classification, the number of rows of each class; None counts the sample.
        least_key : int, default=0
            Rows whose key (:func:`mercer_cluster.row_keys`) is below are held back by
            :meth:`add` itself.
        by_content : bool, default=False
            Whether these keys are by what is in the rows.
        settings : Settings
            Sizes.

        Raises
        ------
        ValueError
            If the estimator cannot learn in several places, or as its ``fit``.
        """
        n_rows = check_integer("n_rows", n_rows, low=1)
        some = Draft(*sample).as_arrays()
        n_regions = settings.regions_of(n_rows, some.X.shape[1])
        with jobs(getattr(estimator, "n_jobs", None)):
            begun = begin(estimator, some, n_rows, n_regions, class_counts)
        X, targets, weights = begun.encode(Draft(*held).as_arrays())
        held_rows = Rows(X, targets, weights)[weights > 0.0]
        if not len(held_rows):
            raise ValueError("`held` must have rows with a weight above 0: they choose ridges.")
        drawn = Drawn(n_rows, least_key, seed_of(estimator), by_content)
        work = Work(begun.encode, begun.layout, held_rows, drawn, settings)
        return cls(begun, held_rows, work, n_rows)

    def add(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        shard: int = 0,
        first: int = 0,
        keys: Any = None,
    ) -> Sums:
        """Add up some rows, and no others.

        Parameters
        ----------
        X, y, sample_weight
            Rows, as for ``fit`` of the estimator.
        shard, first : int, default=0
            Number of the rows' shard, and position of the first row in the shard. No two sums to be
            merged may have the same.
        keys : ndarray of shape (n_rows,) of uint64, default=None
            Keys of the rows, which put them in order; None computes keys from their positions
            (:func:`mercer_cluster.row_keys`).

        Returns
        -------
        sums : Sums

        Raises
        ------
        ValueError
            For rows that ``partial_fit`` would refuse, and for new classes.
        """
        return self.work.add(X, y, sample_weight, shard=shard, first=first, keys=keys)

    def finish(
        self, sums: Sums, regions: Sequence[Region] | None = None, gather: Gather | None = None
    ) -> Any:
        """Model of all rows.

        Parameters
        ----------
        sums : Sums
            Merged, of all rows but those held back.
        regions : sequence of Region, default=None
            All regions, if they were solved elsewhere; None: they are solved here.
        gather : callable, default=None
            Brings the sums over the rows of steps (``mercer_cluster.plan.Gather``), if these
            are elsewhere; None: they are in ``sums``.

        Returns
        -------
        estimator : estimator
            Fitted. The default predicts, and learns further rows only by a new fit.
        """
        work = self.work
        sums.check(work)
        n = sums.total + (0 if work.drawn.least_key else len(self._held))
        if n != self.n_rows:
            warnings.warn(
                f"{n:,} rows were added or held back, but the plan is for {self.n_rows:,}. If a "
                "shard is missing, add it; if the number was a guess, a plan for the right one "
                "lays out better cells.",
                stacklevel=2,
            )
        with jobs(getattr(self._begun.model, "n_jobs", None)):
            if regions is None:
                regions = work.regions.solved(
                    lambda pairs: [work.solve(*pair, [sums]) for pair in pairs]
                )
            steps = None
            if work.n_steps:
                here = gather or (lambda step, ask, of: [work.total(step, [sums], ask, of)])
                steps = Totals(work.n_steps, here)
            solved = work.regions.joined(regions)
            return self._begun.finish(self._held, solved, sums.summands, steps)


class Drawn(NamedTuple):
    """How many rows there are, and which are held back.

    Attributes
    ----------
    n_rows : int
        Rows in all.
    least_key : int
        Rows with a key below are held back.
    seed : int
        Seed of the keys.
    by_content : bool
        Whether keys are by what is in the rows, or by their places.
    """

    n_rows: int
    least_key: int
    seed: int
    by_content: bool = False


class Work:
    """The part of a plan that workers need to learn rows.

    Rows that belong together are a *block*: the rows of a region, or of a step. With regions there
    are no steps.

    Attributes
    ----------
    regions : Regions
        Regions of all partitions.
    held : Rows
        Rows held back, as they are learned.
    drawn : Drawn
        How many rows there are, and which are held back.
    identity : str
        Check-sum of the plan.
    """

    def __init__(
        self, encode: Any, layout: Layout, held: Rows, drawn: Drawn, settings: Settings
    ) -> None:
        self._encode, self._layout = encode, layout
        self.drawn, self._settings = drawn, settings
        self.held = layout.rows(*held.arrays)
        self.regions = Regions(layout.partitions, self.held, drawn.n_rows, settings)
        content = pickle.dumps((layout, held, drawn, settings))
        self.identity = hashlib.sha256(content).hexdigest()

    @property
    def n_blocks(self) -> int:
        """Regions, or steps."""
        return len(self.regions) + self.n_steps

    @property
    def n_steps(self) -> int:
        """Steps of a pass over all rows."""
        return self._layout.n_steps

    def no_sums(self) -> Sums:
        """Return sums of no rows."""
        summands = {number: part.emptied() for number, part in self._layout.summands.items()}
        return Sums(self.identity, {}, [{} for _ in range(self.n_blocks)], summands)

    def add(
        self, X: Any, y: Any, sample_weight: Any, *, shard: int, first: int, keys: Any = None
    ) -> Sums:
        """Return the sums of some rows of a shard, as :meth:`Plan.add` does."""
        X, y, sample_weight = Draft(X, y, sample_weight).as_arrays()
        if keys is None:
            keys = row_keys(self.drawn.seed, shard, first, X.shape[0])
        found, n_rows = self.no_sums(), 0
        pieces: list[list[KeyedRows]] = [[] for _ in range(self.n_blocks)]
        chunk = self._settings.chunk
        for start in range(0, X.shape[0], chunk):
            some = slice(start, start + chunk)
            draft = Draft(X[some], y[some], None if sample_weight is None else sample_weight[some])
            inputs, targets, weights = self._encode(draft)
            n_rows += int(np.count_nonzero(weights))
            used = (weights > 0.0) & (keys[some] >= self.drawn.least_key)
            rows = self._layout.rows(inputs[used], targets[used], weights[used])
            for part in found.summands.values():
                part.learn(rows)
            keyed = KeyedRows(rows, keys[some][used])
            mine = self.regions.pieces(keyed)
            if self.n_steps:
                steps = (keyed.keys % np.uint64(self.n_steps)).astype(np.int64)
                mine += [(step, keyed.take(its)) for step, its in rows_by_cell(steps).items()]
            for block, its in mine:
                pieces[block].append(its)
        found.n_rows[shard, first] = n_rows
        found.pieces = [
            {(shard, first): KeyedRows.joined(block)} if block else {} for block in pieces
        ]
        return found

    def solve(self, number: int, rows_per_cell: int, sums: Iterable[Sums | Piece]) -> Region:
        """Solve a region: see :meth:`mercer_cluster.plan.Regions.solve`.

        Parameters
        ----------
        number, rows_per_cell
            As there.
        sums : iterable of Sums or dict
            Sums of all rows, or the parts of :meth:`Sums.split` for this block.
        """
        return self.regions.solve(number, rows_per_cell, _ordered(number, sums))

    def total(self, step: int, sums: Iterable[Sums | Piece], ask: Ask, of: Any) -> list[Any]:
        """Sum over the rows of a step.

        Parameters
        ----------
        step : int
            Which one.
        sums : iterable of Sums or dict
            As of :meth:`solve`, of some shards.
        ask, of
            As of :meth:`mercer.learning.StepsElsewhere.total`.
        """
        rows = [one.rows for one in _ordered(step, sums)]
        return total_of(rows or [self.held[:0]], ask, of)


def _ordered(block: int, sums: Iterable[Sums | Piece]) -> list[KeyedRows]:
    """Rows of a block, in the order of the shards."""
    pieces: Piece = {}
    for one in sums:
        pieces.update(one.pieces[block] if isinstance(one, Sums) else one)
    return [pieces[key] for key in sorted(pieces)]


class Sums:
    """What rows add up to.

    Attributes
    ----------
    identity : str
        Identity of the plan.
    n_rows : dict of (int, int) to int
        Rows of weights above 0 that were added, those held back among them, by shard and the
        number of the first.
    pieces : list of dict
        Rows of each block, by shard and number.
    summands : dict of int to object
        Sums of components.
    """

    def __init__(
        self,
        identity: str,
        n_rows: dict[tuple[int, int], int],
        pieces: list[Piece],
        summands: dict[int, Any],
    ) -> None:
        self.identity, self.n_rows = identity, n_rows
        self.pieces, self.summands = pieces, summands

    @property
    def total(self) -> int:
        """Rows of weights above 0 that were added, those held back among them."""
        return sum(self.n_rows.values())

    def check(self, work: Work) -> None:
        """Raise ValueError if these are sums of another plan."""
        if self.identity != work.identity:
            raise ValueError(
                "These sums are of another plan, whose dictionaries and regions differ. Add the "
                "rows by this plan."
            )

    def merge(self, other: Sums) -> Sums:
        """Return the sums of the rows of both; neither is changed.

        The rows of blocks do not depend on the order of merging. The sums do, by rounding errors:
        merge in a fixed order, for example along a tree over the shards, to get the same bits.

        Raises
        ------
        ValueError
            If some rows are in both, or the sums are of two plans.
        """
        if self.identity != other.identity:
            raise ValueError("Sums of two plans cannot be merged. Add all rows by one plan.")
        twice = sorted(self.n_rows.keys() & other.n_rows.keys())
        if twice:
            shard, first = twice[0]
            raise ValueError(
                f"Rows from {first} on of shard {shard} are in both sums: they would count twice. "
                "Merge each shard once."
            )
        summands = {}
        for number, part in self.summands.items():
            both = part.emptied()
            both.merge(part)
            both.merge(other.summands[number])
            summands[number] = both
        pairs = zip(self.pieces, other.pieces, strict=True)
        pieces = [{**mine, **theirs} for mine, theirs in pairs]
        return Sums(self.identity, {**self.n_rows, **other.n_rows}, pieces, summands)

    def split(self) -> tuple[Any, ...]:
        """Return the rows of each block, followed by the sums without rows of blocks."""
        rest = copy.copy(self)
        rest.pieces = [{} for _ in self.pieces]
        return (*self.pieces, rest)
