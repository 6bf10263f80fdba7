"""Prediction intervals and prediction sets with a coverage, for fitted models.

The numerics are in :mod:`mercer.conformal`. A model provides its errors on rows that it has not
learned as an :class:`Evidence` record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.conformal import (
    METHODS,
    AdaptiveConformal,
    ConformalIntervals,
    ConformalSets,
    check_coverage,
    conformal_quantile,
    fewest_rows,
    finite,
    over_fits,
    widened,
)
from mercer.exceptions import Advice, InPython, ParameterError
from mercer.losses import Poisson
from mercer.validation import check_choice

Array = NDArray[np.float64]

_CALIBRATE = Advice(
    InPython(
        "Call `calibrate(X, y)` with such rows.", ("Name a file of such rows with `calibrate`.",)
    )
)
# For streams: number of recent rows whose errors set the widths, when past rows are replayed.
_WINDOW = 500


# -- what a model provides -------------------------------------------------------------------------


class Evidence(NamedTuple):
    """A fitted model, with scores of rows that it has not learned.

    Attributes
    ----------
    targets : LossTargets
        Record of the targets, which turns scores into predictions.
    inputs : callable
        Maps the user's rows to inputs.
    scores : callable
        Maps inputs to scores.
    held_out : callable
        Returns held-out rows (``X``, ``y``, ``scores``, ``weights``, ``groups``), scored by a fit
        that had not learned them; None if there are none.
    fits : callable
        Returns fits on few rows that each left out some of the held-out rows, each as (indices of
        these rows, function from inputs to scores). None if one fit left them all out.
    losses : ndarray or None
        For streams: losses of the last rows, each computed before learning the row.
    block : int
        Number of consecutive held-out rows that depend on each other.
    once : callable
        Calls a function and caches its result under a mark, as long as the model does not change.
    """

    targets: Any
    inputs: Callable[[Any], Any]
    scores: Callable[[Any], Array]
    held_out: Callable[[], Any]
    fits: Callable[[], list[tuple[NDArray[np.intp], Callable[[Any], Array]]]]
    losses: Array | None
    block: int
    once: Callable[..., Any]

    def not_learned(self, what: str) -> Any:
        """Return the held-out rows; ParameterError if there are none."""
        held = self.held_out()
        if held is None:
            raise ParameterError(
                f"{what} need rows that the model has not learned, and this one kept none back: "
                "only the default expansion does.",
                parameter="calibrate",
                mend=_CALIBRATE,
            )
        return held

    def over_fits(self, held: Any) -> tuple[Any, NDArray[np.intp] | None]:
        """Return few held-out rows, each scored by a fit without it, and the index of that fit."""
        fits = self.fits()
        if not fits:
            return held, None
        scores, numbers = np.empty_like(held.scores), np.empty(len(held.weights), dtype=np.intp)
        for number, (left_out, fit) in enumerate(fits):
            scores[left_out], numbers[left_out] = fit(held.X[left_out]), number
        return held._replace(scores=scores), numbers

    def scores_by_fit(self, X: Any) -> list[Array]:
        """Return scores of inputs by each fit that left out some held-out rows."""
        return [fit(X)[:, : self.targets.n_scores] for _, fit in self.fits()]


# -- intervals -------------------------------------------------------------------------------------


def intervals(told: Evidence, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
    """Return intervals that contain the target for a share of the rows.

    Parameters
    ----------
    told : Evidence
        Evidence of a model of quantities.
    X : array-like or table
        Rows.
    coverage, method
        As for :meth:`mercer.KernelRegressor.predict_interval`.

    Returns
    -------
    intervals : ndarray of shape (n_samples, 2), or (n_samples, 2, n_targets)

    Raises
    ------
    ValueError
        For an invalid parameter, or without enough rows that the model has not learned.
    """
    check_coverage(coverage)
    check_choice("method", method, ("auto", *METHODS))
    several = len(told.targets.levels) > 1
    inputs = told.inputs(X)
    scores = told.scores(inputs)
    if told.losses is not None:
        found = _of_stream(told, scores, coverage, method)
    elif several and method in ("auto", "quantile"):
        found = _of_levels(told, inputs, scores, coverage)
    elif several:
        raise ValueError(
            f"`method` must be 'quantile' or 'auto' for a model of several quantiles, got "
            f"{method!r}: its intervals begin with the lowest and the highest of them."
        )
    else:
        method = "normalized" if method == "auto" else method
        found = _around(told, inputs, scores, coverage, method)
    if isinstance(told.targets.loss, Poisson):
        found = np.maximum(found, 0.0)  # counts are
    return found[:, :, 0] if told.targets.flat else found


def _around(told: Evidence, inputs: Any, scores: Array, coverage: float, method: str) -> Array:
    """Intervals around single predictions, (n, 2, n_targets)."""
    # Between quantiles, half of the rows make up for what the others chose, in one fit.
    asks_fits = method != "quantile"
    answers = told.targets.answers

    def make() -> list[ConformalIntervals]:
        held, fits = told.not_learned("Intervals"), None
        if asks_fits:
            held, fits = told.over_fits(held)
        X, y = _dense(held.X), held.y.reshape(len(held.weights), -1)
        how = {"block": told.block, "groups": held.groups, "fits": fits}
        pairs = zip(y.T, answers(held.scores).T, strict=True)
        return [ConformalIntervals(X, *pair, held.weights, method, **how) for pair in pairs]

    finders = told.once(make, method)
    coverage = coverage_of_groups(coverage, finders[0].groups)
    predicted = answers(scores)
    rows = inputs.toarray() if sparse.issparse(inputs) and finders[0].X.shape[1] else inputs
    X = _dense(rows) if finders[0].X.shape[1] else np.empty((len(predicted), 0))
    by_fit = [answers(each) for each in told.scores_by_fit(inputs)] if asks_fits else []
    found = np.empty((len(predicted), 2, len(finders)))
    for target, find in enumerate(finders):
        theirs = np.column_stack([each[:, target] for each in by_fit]) if by_fit else None
        found[:, :, target] = find(X, predicted[:, target], coverage, theirs)
    return found


def _of_levels(told: Evidence, inputs: Any, scores: Array, coverage: float) -> Array:
    """Intervals between the lowest and the highest level of each target, moved."""
    levels = np.asarray(told.targets.levels, dtype=np.float64)
    ends = [int(np.argmin(levels)), int(np.argmax(levels))]
    held, fits = told.once(lambda: told.over_fits(told.not_learned("Intervals")), "levels")
    coverage = coverage_of_groups(coverage, held.groups)
    y = held.y.reshape(len(held.weights), -1)
    theirs, ours, *by_fit = (
        np.sort(told.targets.answers(each).reshape(len(each), -1, levels.size)[:, :, ends], axis=2)
        for each in (held.scores, scores, *told.scores_by_fit(inputs))
    )
    found = np.empty((len(scores), 2, y.shape[1]))
    for target in range(y.shape[1]):
        low, high = theirs[:, target].T
        beyond = np.maximum(low - y[:, target], y[:, target] - high)
        if fits is not None:
            said = np.stack([each[:, target] for each in by_fit], axis=2)
            pair = said[:, 0], said[:, 1]
            found[:, :, target] = over_fits(fits, pair, beyond, coverage, held.weights)
            continue
        moved = conformal_quantile(beyond, coverage, held.weights)
        found[:, :, target] = widened(ours[:, target], finite(moved, coverage, len(y)))
    return found


def _of_stream(told: Evidence, scores: Array, coverage: float, method: str) -> Array:
    """Return intervals whose widths follow the errors of a stream's last rows."""
    assert told.losses is not None
    predicted: Array = told.targets.answers(scores)
    if method not in ("auto", "split") or predicted.shape[1] > 1:
        raise ValueError(
            "A model of the default of streams knows how large its last errors were, which "
            f"gives intervals of one width for one target, got method={method!r} and "
            f"{predicted.shape[1]} target(s). Use method='split', or call `calibrate(X, y)`."
        )
    width = adapted(np.sqrt(2.0 * told.losses), coverage).width()
    width = finite(width, coverage, len(told.losses))
    return np.stack([predicted - width, predicted + width], axis=1)


# -- sets of classes -------------------------------------------------------------------------------


def sets_of_classes(
    told: Evidence,
    X: Any,
    coverage: float = 0.9,
    *,
    by_class: bool = False,
    empty: bool = False,
) -> NDArray[np.bool_]:
    """Return sets that contain the true class for at least a share of the rows.

    Parameters
    ----------
    told : Evidence
        A model of classes.
    X : array-like or table
        Rows.
    coverage, by_class, empty
        As for :meth:`mercer.KernelClassifier.predict_set`.

    Returns
    -------
    sets : ndarray of shape (n_samples, n_classes) of bool

    Raises
    ------
    ValueError
        For an invalid parameter, or without enough rows that the model has not learned.
    """
    check_coverage(coverage)
    inputs = told.inputs(X)
    ours = _chances(told, told.scores(inputs))
    if told.losses is not None:
        return _sets_of_stream(told.losses, ours, coverage, by_class=by_class, empty=empty)

    def make() -> tuple[ConformalSets, NDArray[np.int64] | None]:
        held, fits = told.over_fits(told.not_learned("Sets of classes"))
        numbers = told.targets.numbered(held.y)
        return ConformalSets(_chances(told, held.scores), numbers, held.weights, fits), held.groups

    find, groups = told.once(make)
    coverage = coverage_of_groups(coverage, groups)
    by_fit = [_chances(told, each) for each in told.scores_by_fit(inputs)]
    theirs = np.stack(by_fit, axis=1) if by_fit else None
    sets: NDArray[np.bool_] = find(ours, coverage, by_class=by_class, empty=empty, by_fit=theirs)
    return sets


def _chances(told: Evidence, scores: Array) -> Array:
    """Probabilities of the classes, or scores where the loss models none."""
    known = told.targets
    if known.loss.has_probabilities or known.labels.size == 1:
        chances: Array = known.probabilities(scores)
        return chances
    return np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores


def _sets_of_stream(
    losses: Array, chances: Array, coverage: float, *, by_class: bool, empty: bool
) -> NDArray[np.bool_]:
    """Return sets whose sizes follow the errors of a stream's last rows."""
    if by_class:
        raise ValueError(
            "A model of the default of streams knows how likely it held the classes of its "
            "last rows, not which they were. Leave `by_class` out, or call `calibrate(X, y)`."
        )
    missed = adapted(-np.expm1(-losses), coverage)
    sets: NDArray[np.bool_] = chances >= 1.0 - finite(missed.width(), coverage, len(losses))
    if not empty:
        sets[np.arange(len(sets)), chances.argmax(axis=1)] = True
    return sets


# -- parts -----------------------------------------------------------------------------------------


def coverage_of_groups(coverage: float, groups: NDArray[np.int64] | None) -> float:
    """Coverage to ask of rows in groups, so that new groups have the one that is wanted.

    A new row of n counts as one more, but a new group of G counts as a mean group: as n / G rows
    (hierarchical conformal prediction: Lee, Barber, Willett, Distribution-free inference with
    hierarchical data, 2023).

    Raises
    ------
    ValueError
        If there are too few groups.

    Examples
    --------
    >>> round(coverage_of_groups(0.9, np.repeat(np.arange(20), 5)), 3)
    0.936
    >>> coverage_of_groups(0.9, np.arange(20)), coverage_of_groups(0.9, None)
    (0.9, 0.9)
    """
    if groups is None:
        return coverage
    n, n_groups = groups.size, 1 + int(np.count_nonzero(np.diff(groups)))
    asked = coverage * (n + n / n_groups) / (n + 1.0)
    if n_groups < fewest_rows(coverage):
        raise ValueError(
            f"A coverage of {coverage} of new groups needs at least {fewest_rows(coverage):,} "
            f"groups that the fit had not learned, and there are {n_groups:,}. Ask for a lower "
            "coverage, or learn or calibrate on more groups."
        )
    return min(asked, n / (n + 1.0) * (1.0 - 1e-9)) if n_groups < n else coverage


def adapted(errors: Array, coverage: float) -> AdaptiveConformal:
    """Adaptive widths after the errors of the last rows of a stream."""
    found = AdaptiveConformal(coverage, window=_WINDOW)
    for error in errors.tolist():
        found.update(error)
    return found


def _dense(X: Any) -> Any:
    """Return inputs that predict the size of errors; none for sparse rows, where predictions do.

    Missing values of a row of a stream become 0.
    """
    return np.empty((X.shape[0], 0)) if sparse.issparse(X) else np.nan_to_num(X, nan=0.0)
