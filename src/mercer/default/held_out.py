"""Rows that the default learner kept back, with what was said of them by a fit without them."""

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

# Their inputs are in every file, and take no more than this.
_MOST_BYTES = 2**22
# A correction is learned on these rows, so each fold of them has one learned on the others.
_FOLDS = 3
# Fits to few rows, each without some of them: as many as leave each of them nearly all rows.
_FITS = 10


class FitWithout(NamedTuple):
    """What was learned of all rows but some.

    Attributes
    ----------
    left_out : ndarray of int
        Numbers of those among the rows kept back.
    function : SumOfComponents
        What the others say: their kernels, metrics, ridges and weights, too.
    """

    left_out: NDArray[np.intp]
    function: SumOfComponents


class HeldOut(NamedTuple):
    """Rows, and scores by a fit that did not have them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs of the function.
    targets : ndarray of shape (n_rows, n_targets)
        Numbers, or codes of classes: +1 in the column of a row's class and -1 in all others; one
        column for two classes.
    scores : ndarray of shape (n_rows, n_outputs)
        What the function said of them.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of the rows, which are neighbours; None where each row is one.
    """

    X: NDArray[np.floating]
    targets: Array
    scores: Array
    weights: Array
    groups: NDArray[np.int64] | None = None


@dataclass(eq=False)
class Judged(Recorded):
    """Rows by which the weights of components were chosen, before these had learned them.

    Attributes
    ----------
    rows : Rows
        With targets as the learner gets them.
    values : ndarray of shape (n_rows, n_values)
        The weighted sum of the components, before any correction.
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
        """Keep rows: the last ones, if more than the fewest take much memory."""
        each = max(1, rows.X.shape[1]) * rows.X.itemsize
        last = slice(-max(fewest, _MOST_BYTES // each), None)
        return cls(rows[last].own(), values[last].copy())

    def held_out(self, targets: LearnedTargets, function: SumOfComponents) -> HeldOut:
        """Return the rows with scores; those of a correction by others than the rows themselves.

        Parameters
        ----------
        targets : LearnedTargets
            What the components learned.
        function : SumOfComponents
            The components.
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
        """Learn all rows but some, in turn until each was left out once.

        Parameters
        ----------
        learn : callable
            Rows to what is learned of them, with everything that is chosen.
        block : int
            Rows in succession that are left out together, where they have no groups.
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
