"""A function that is a weighted sum of parts, and how it learns from a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_integer, check_real
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.parts._line_up import Means, line_up, only_part
from mercer.parts._newton import refine
from mercer.parts._state import part_from_state, part_to_state, rows_from_state
from mercer.parts._sum import SumOfParts
from mercer.selection import (
    DEFAULT,
    RaceResult,
    RaceSettings,
    block_length,
    block_order,
    mean_loss,
    race,
    race_point,
    stack,
)
from mercer.sums import CellsPart, GlobalPart, RevisitableRows, Rows, check_sizes

__all__ = ["FIRST_ROWS", "Blend"]

Array = NDArray[np.float64]

#: Rows that are kept and raced on before parts learn by sums.
FIRST_ROWS = 20_000
# Rows kept back from the sums to choose ridges and weights by: a part of all rows, up to so many.
_HELD_PART, _MOST_HELD = 0.2, 5000
# Sums up to so many bytes are in every file.
_SMALL_FILE = 2**23
# A budget of fewer seconds has the race on fewer rows.
_HASTE, _HASTY_ROWS = 5.0, 2500
_MOST_PIECES = 256
# Rows that wait beyond those before they are added to the sums.
_WAITING = 8192
# Attributes that files have.
_COUNTS = ("n_rows", "solved_at", "raced_at", "block")
_FLAGS = ("is_decided", "is_finished", "is_compact", "is_stale", "races", "knows_block")


class Blend(SumOfParts):
    r"""Weighted sum of parts, :math:`f = \sum_p v_p f_p`, learned from a stream by sums.

    The first rows are kept and raced on (:func:`mercer.selection.race`), twice each time they
    double. Then parts learn, and rows are not kept any longer but for the last ones: they are
    predicted before they are learned, which chooses ridges and the weights of the parts.

    Parameters
    ----------
    kernel : Kernel
        With its numbers resolved: the kernel of the only part, if :attr:`races` is False.
    expansion : Auto
        What may be spent.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    dtype : dtype
        Of the inputs.

    Attributes
    ----------
    loss : Loss
        What the weights minimise; given before the first row.
    races : bool
        Whether kernels are raced.
    ridge : float or None
        The ridge of all parts, if it is not theirs to choose.
    """

    loss: Loss
    averaging = None
    #: Settings of the race.
    settings: RaceSettings = DEFAULT

    def __init__(
        self, kernel: Kernel, expansion: Means, n_features: int, n_outputs: int, dtype: Any
    ) -> None:
        super().__init__(kernel, n_features, n_outputs, dtype)
        self.expansion = expansion
        self.races = True
        self.ridge: float | None = None
        self.contest: RaceResult | None = None
        self.n_rows = 0
        self.solved_at = 0
        self.raced_at = 0
        self.is_decided = self.is_finished = self.is_compact = False
        #: Unit of each target in which errors are compared.
        self.unit = np.ones(n_outputs)
        #: Whether rows can be visited again once all have come.
        self.revisits = False
        #: Rows that are held out together, and whether that is settled; else races find it out.
        self.block, self.knows_block = 1, not isinstance(expansion.block_length, str)
        if not isinstance(expansion.block_length, str):
            self.block = int(expansion.block_length)
        #: Whether the solution is that of other outputs or parts.
        self.is_stale = False
        #: Mean loss of the rows kept back, before they were learned, at the last solution.
        self.held_loss = np.nan
        self._rows = [Rows.none(n_features, n_outputs, dtype)]

    # -- learning -------------------------------------------------------------------------------

    def learn(self, rows: Rows) -> None:
        """Take in rows; predictions go by them once there are enough new ones.

        Raises
        ------
        ValueError
            If the sums are gone, or numbers are so large that they overflow.
        """
        self._refuse_if_compact()
        check_sizes(rows.X, rows.targets)
        if not self.races and not np.isfinite(self.given_kernel.diag(rows.X)).all():
            raise ValueError(
                f"{self.given_kernel!r} is not finite on these rows, whose largest input is "
                f"{float(np.abs(rows.X).max()):.3g}. Rescale the inputs, for example with "
                "sklearn.preprocessing.StandardScaler."
            )
        self.is_finished = False
        if not self.is_decided:
            n = max(0, FIRST_ROWS - self.n_rows)
            self._append(rows[:n])
            if self.n_rows >= FIRST_ROWS:
                self._decide()
            rows = rows[n:]
        self._append(rows)
        if self.is_decided and sum(len(some) for some in self._rows) > _MOST_HELD + _WAITING:
            self._absorb()

    def _append(self, rows: Rows) -> None:
        if len(rows):
            self._rows.append(rows.own())
            self.n_rows += len(rows)
        if len(self._rows) > _MOST_PIECES:  # single rows are many to count
            self._rows = [Rows.joined(self._rows)]

    def _refuse_if_compact(self) -> None:
        if self.is_compact:
            raise ValueError(
                "This model was saved after `fit` without the sums that learning needs, because "
                "they are large. Fit with expansion=Auto(resumable=True) to have them in the "
                "file, or fit again on all rows."
            )

    @property
    def waiting(self) -> Rows:
        """Rows that are in no sums yet."""
        if len(self._rows) > 1:
            self._rows = [Rows.joined(self._rows)]
        return self._rows[0]

    def _decide(self) -> None:
        """Choose parts for good: from now on rows are not kept."""
        rows, expected = self.waiting, self.expansion.expected_rows
        if expected is not None and expected < len(rows):
            expected = None  # what was said or true of `fit` is not true any longer
        self._race(rows[: self._n_learned()], expected)
        self._line_up(rows, expected)
        self.v, self.is_stale = np.zeros(len(self.parts)), True
        self.is_decided = True
        self._absorb()

    def _measure(self, rows: Rows) -> None:
        """Set the unit of each target, so that none counts for more than another."""
        self.unit = np.ones(self.n_outputs)
        if self.loss.task == "regression" and self.n_outputs > 1:
            deviations = rows.targets.std(axis=0)
            self.unit = np.where(deviations > 0.0, deviations, 1.0)

    def find_block(self, rows: RevisitableRows) -> None:
        """Find out how many rows are to be held out together, unless that is settled.

        Parameters
        ----------
        rows : RevisitableRows
            In their own order: that of a stream, or of the arrays of ``fit`` before it shuffles
            them.
        """
        if not self.knows_block:
            self.block = block_length(rows, self.expansion.seed)

    def _shuffled(self, rows: Rows) -> Rows:
        # Of some rows in no order, whatever the stream's: they are judged by others of the same.
        order = np.random.default_rng(self.expansion.seed).permutation(len(rows))
        return rows[block_order(order, self.block)]

    def _race(self, rows: Rows, expected: int | None) -> None:
        self._measure(rows)
        self.find_block(rows)
        if self.races:
            budget = self.expansion.budget_seconds
            few = budget is not None and budget < _HASTE
            raced = self._shuffled(rows)[: _HASTY_ROWS if few else None]
            measured = raced.map_targets(np.diag(1.0 / self.unit), np.zeros(self.n_outputs))
            self.contest = race(
                measured, expected, self.expansion.seed, block=self.block, settings=self.settings
            )
        self.raced_at = len(rows)

    def _line_up(self, rows: Rows, expected: int | None) -> None:
        rows, means = self._shuffled(rows), self.expansion
        classes = self.loss.task == "classification"
        if self.contest is None:
            made = only_part(
                self.given_kernel, rows, expected, means, classes=classes, settings=self.settings
            )
            self.parts = [made]
        else:
            steps = classes and self.revisits and self.loss.curvature is not None
            self.parts = line_up(
                self.contest,
                rows,
                expected,
                means,
                classes=classes,
                steps=steps,
                settings=self.settings,
            )
        self._prepare_parts()

    def set_ridge(self, ridge: float | None) -> None:
        """Use another ridge, or choose it (None), from the next solution on."""
        if ridge != self.ridge:
            self.ridge, self.is_stale = ridge, True
            for part in self.parts:
                part.fix_ridge(ridge)

    def _prepare_parts(self) -> None:
        for part in self.parts:
            part.unit = self.unit
            if self.ridge is not None:
                part.fix_ridge(self.ridge)
        self._let_split()

    def _absorb(self) -> None:
        rows = self.waiting
        n = len(rows) - self._n_held()
        if n > 0:
            self._let_split()
            for part in self.parts:
                part.learn(rows[:n])
            self._rows = [rows[n:].own()]

    def _let_split(self) -> None:
        """Split cells that grow once there are more rows than they were laid out for."""
        expected = self.expansion.expected_rows
        for part in self.parts:
            if isinstance(part, CellsPart):
                part.may_split = expected is None or self.n_rows > expected

    # -- solving --------------------------------------------------------------------------------

    def solve(self, *, now: bool = False) -> bool:
        """Solve again if enough rows came since the last time; whether that was so.

        A solution depends on the rows up to then, not on when there was one before.

        Parameters
        ----------
        now : bool, default=False
            Solve if any row came, and while rows are kept race on all of them.
        """
        new = self.n_rows - self.solved_at
        fraction = self.expansion.refresh * self._counting(self.solved_at)
        enough = new > 0 and (now or new > fraction)
        # Whether somebody asked before must not count: the last race is on all rows.
        enough |= now and not self.is_decided and self.raced_at < self._n_learned()
        if not enough and not (self.is_stale and self.n_rows):
            return False
        if self.is_decided:
            self._absorb()
            held = self.waiting
            predictions = [part.solve(held) for part in self.parts]
        else:
            held, predictions = self._solve_kept(now=now)
        recent = held.aged(self.expansion.forgetting)
        unit = self.unit
        scaled = [values / unit for values in predictions]
        self.v = stack(scaled, held.targets / unit, recent.weights, self.loss)
        self.held_loss = mean_loss(self.loss, np.tensordot(self.v, np.stack(predictions), 1), held)
        self.solved_at, self.is_stale = self.n_rows, False
        return True

    def _solve_kept(self, *, now: bool) -> tuple[Rows, list[Array]]:
        """Fit parts to the rows that are kept, anew."""
        rows, n = self.waiting, self._n_learned()
        raced = n if now else race_point(n)
        if self.raced_at < raced:
            self._race(rows[:raced], len(rows))
        self._line_up(rows, len(rows))
        if len(rows) <= self.settings.small:
            alone = [part for part in self.parts if isinstance(part, GlobalPart)]
            return rows, [part.solve_without(rows, self.block) for part in alone]
        for part in self.parts:
            part.learn(rows[:n])
        return rows[n:], [part.solve(rows[n:]) for part in self.parts]

    def _n_learned(self) -> int:
        """Rows, of those that are kept, that are learned and raced on before the last judge."""
        return self.n_rows if self.n_rows <= self.settings.small else self.n_rows - self._n_held()

    def _n_held(self) -> int:
        """Rows to keep back: a part of those that count, where old ones are forgotten."""
        return max(1, min(int(_HELD_PART * self._counting(self.n_rows)), _MOST_HELD))

    def _counting(self, n: int) -> float:
        """As many of ``n`` rows as still count where old ones are forgotten."""
        forgetting = self.expansion.forgetting
        return float(n) if forgetting == 1.0 else (1.0 - forgetting**n) / (1.0 - forgetting)

    # -- other outputs --------------------------------------------------------------------------

    def map_outputs(self, mixing: Array) -> None:
        """Take over other outputs: class codes of the new ones, from those of the old.

        Parameters
        ----------
        mixing : ndarray of shape (n_outputs, n_outputs_new)
            As of :meth:`mercer.learning.Learner.map_outputs`; columns with one entry of at least a
            half are the old classes.
        """
        large = np.abs(mixing) >= 0.5
        old = (large.sum(axis=0) == 1) & (np.count_nonzero(mixing, axis=0) == 1)
        codes = np.where(large & old, np.sign(mixing), 0.0)
        offset = np.where(old, 0.0, -1.0)
        self._refuse_if_compact()
        self._rows = [rows.map_targets(codes, offset) for rows in self._rows]
        for part in self.parts:
            part.map_targets(codes, offset)
        self.n_outputs = mixing.shape[1]
        self.unit = np.ones(self.n_outputs)
        self.is_stale = True

    # -- state ----------------------------------------------------------------------------------

    def finish(self, rows: RevisitableRows) -> None:
        """Learn that all rows came: predictions go by all of them, and files need no sums.

        Where there is nothing but one dictionary for classes, Newton steps on the loss follow.

        Parameters
        ----------
        rows : RevisitableRows
            All of them, in the order in which they were learned.
        """
        self.solve(now=True)
        self.is_finished = True
        used = self.used
        if len(used) > 1 or self.n_rows <= self.settings.small or self.expansion.forgetting < 1.0:
            return
        weight, part = used[0]
        if self.loss.task == "regression" or self.loss.curvature is None:
            return
        if isinstance(part, GlobalPart):
            held = self.waiting[len(self.waiting) - self._n_held() :]
            refine(part, weight, self.loss, rows, held)
            self.v = np.where(self.v > 0.0, 1.0, 0.0)

    def snapshot(self, *, compact: bool = False) -> dict[str, Any]:
        """Everything as plain data; ``compact``: without large sums once all rows came."""
        rows = self.waiting
        kept = rows.n_bytes + sum(part.sum_bytes for part in self.parts)
        wanted = self.expansion.resumable or not self.is_finished or kept <= _SMALL_FILE
        sums = not self.is_compact and (wanted or not compact)
        contest = self.contest
        return {
            "numbers": {
                **{name: getattr(self, name) for name in (*_COUNTS, *_FLAGS, "ridge")},
                "is_compact": not sums,
                "held_loss": None if np.isnan(self.held_loss) else self.held_loss,
            },
            "arrays": {"v": self.v.copy(), "unit": self.unit.copy()},
            "rows": rows.to_state() if sums else None,
            "contest": None if contest is None else contest.to_state(),
            "parts": {str(i): part_to_state(p, sums=sums) for i, p in enumerate(self.parts)},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`snapshot`.

        Raises
        ------
        ValueError
            If the pieces do not fit together.
        """
        # Files of earlier versions held out row by row.
        numbers = {"block": 1, "knows_block": True, **state["numbers"]}
        parts = state["parts"]
        n = len(parts)
        first = parts["0"] if n else None
        if first is not None:
            self.n_outputs = int(first["coefficients"].shape[1])
        elif state["rows"] is not None:
            self.n_outputs = int(state["rows"]["targets"].shape[1])
        self.parts = [
            part_from_state(parts[str(i)], self.n_features, self.n_outputs) for i in range(n)
        ]
        v = state["arrays"]["v"]
        if v.shape not in {(n,), (0,)} or v.dtype != np.float64 or not (v >= 0.0).all():
            raise ValueError("the weights of the parts do not fit them")
        self.v = v.copy()
        for name in _COUNTS:
            setattr(self, name, check_integer(name, numbers[name], low=int(name == "block")))
        for name in _FLAGS:
            setattr(self, name, bool(numbers[name]))
        ridge = numbers["ridge"]
        self.ridge = None if ridge is None else check_real("ridge", ridge, low=0.0)
        self.unit = np.array(state["arrays"]["unit"], dtype=np.float64)
        if self.unit.shape != (self.n_outputs,) or not (self.unit > 0.0).all():
            raise ValueError("the units of the targets do not fit them")
        self._prepare_parts()
        held_loss = numbers["held_loss"]
        self.held_loss = np.nan if held_loss is None else float(held_loss)
        rows = state["rows"]
        none = Rows.none(self.n_features, self.n_outputs, self.dtype)
        self._rows = [
            none if rows is None else rows_from_state(rows, self.n_features, self.n_outputs)
        ]
        if rows is not None:
            self.dtype = self._rows[0].X.dtype
        contest = state["contest"]
        self.contest = None if contest is None else RaceResult.from_state(contest)
