"""Rows that the default learner held out, and their predictions by a fit without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.default.targets import LearnedTargets
from mercer.functions.sum_of_components import SumOfComponents
from mercer.records import Numbers, Part, Record, Recorded
from mercer.sums import Rows

Array = NDArray[np.float64]

# Inputs of held out rows are saved in every file; they take at most so many bytes.
_MOST_BYTES = 2**22
# A correction is learned on the held out rows; each fold is scored by one learned on the others.
_FOLDS = 3
# Number of fits to few rows that each leave some rows out: enough that each has nearly all rows.
_FITS = 10


class FitWithout(NamedTuple):
    """A fit to all rows but some.

    Attributes
    ----------
    left_out : ndarray of int
        Numbers of the rows left out, among the rows held out.
    function : SumOfComponents
        Fit to the other rows, which also chose its kernels, metrics, ridges and weights.
    """

    left_out: NDArray[np.intp]
    function: SumOfComponents


class HeldOut(NamedTuple):
    """Held out rows, and their scores by a fit without them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs of the function.
    targets : ndarray of shape (n_rows, n_targets)
        Numbers, or codes of classes: +1 in the column of a row's class and -1 in all others; one
        column for two classes.
    scores : ndarray of shape (n_rows, n_outputs)
        Scores of the rows.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of the rows; rows of a group are adjacent. None if each row is its own group.
    """

    X: NDArray[np.floating]
    targets: Array
    scores: Array
    weights: Array
    groups: NDArray[np.int64] | None = None


@dataclass(eq=False)
class Judged(Recorded):
    """Rows that chose the weights of components, before the components had learned these rows.

    Attributes
    ----------
    rows : Rows
        Rows with the targets that the learner was given.
    values : ndarray of shape (n_rows, n_values)
        Weighted sum of the components at the rows, before any correction.
    """

    rows: Rows
    values: Array
    _scored: HeldOut | None = field(default=None, init=False, repr=False)
    _fits: list[FitWithout] | None = field(default=None, init=False, repr=False)

    _record = Record(
        rows=Part(Rows, "n_rows", "n_features", "n_targets"), values=Numbers("n_rows", "n_values")
    )

    @classmethod
    def of(cls, rows: Rows, values: Array, fewest: int = 1) -> Self:
        """Keep rows: at least the last ``fewest``, and more while they take little memory."""
        each = max(1, rows.X.shape[1]) * rows.X.itemsize
        last = slice(-max(fewest, _MOST_BYTES // each), None)
        return cls(rows[last].own(), values[last].copy())

    def held_out(self, targets: LearnedTargets, function: SumOfComponents) -> HeldOut:
        """Return the rows with their scores; corrections are learned without the scored rows.

        Parameters
        ----------
        targets : LearnedTargets
            Targets as the components learned them.
        function : SumOfComponents
            Weighted sum of the components.
        """
        if self._scored is not None:
            return self._scored
        rows, scores = self.rows, self.values
        if targets.corrects:
            numbers, kernel = np.arange(len(rows)), function.kernel_of_inputs
            learned = targets(rows).targets
            scores = np.empty((len(rows), targets.n_outputs))
            cuts = [int(fold[0]) for fold in np.array_split(numbers, min(_FOLDS, len(rows)))[1:]]
            cuts = sorted({rows.whole(cut, least=1) for cut in cuts})
            for fold in np.split(numbers, cuts):
                others = np.setdiff1d(numbers, fold) if fold.size < len(rows) else fold
                given = rows[others], learned[others], self.values[others]
                scores[fold] = targets.correction(*given, kernel)(rows.X[fold], self.values[fold])
        if function.level is not None:
            scores = scores + function.level
        self._scored = HeldOut(rows.X, rows.targets, scores, rows.weights, rows.groups)
        return self._scored

    def fits(self, learn: Callable[[Rows], SumOfComponents], block: int) -> list[FitWithout]:
        """Fit all rows but some, repeatedly, until each row was left out once.

        Parameters
        ----------
        learn : callable
            Maps rows to the function fitted to them, with everything chosen by these rows.
        block : int
            Number of successive rows that are left out together, if rows have no groups.
        """
        if self._fits is None:
            together = np.arange(len(self.rows)) // block
            if self.rows.groups is not None:
                together = np.repeat(np.arange(len(self.rows.ends) - 1), np.diff(self.rows.ends))
            n = int(together[-1]) + 1
            turn = together * min(_FITS, n) // n
            self._fits = [
                FitWithout(np.flatnonzero(turn == number), learn(self.rows[turn != number].own()))
                for number in range(min(_FITS, n) if n > 1 else 0)
            ]
        return self._fits
