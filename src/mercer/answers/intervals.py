"""What regressors and classifiers promise: intervals and sets of classes with a coverage.

The numerics are in :mod:`mercer.conformal`; a model tells by its :class:`Evidence` what it says of
rows that it has not learned.
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
# Of a stream: rows whose errors say how wide intervals are, of those that are replayed.
_WINDOW = 500


# -- what a model tells ----------------------------------------------------------------------------


class Evidence(NamedTuple):
    """A fitted model, and what it says of rows that it has not learned.

    Attributes
    ----------
    targets : LossTargets
        What is known of the targets, and what scores make the model say.
    inputs : callable
        From rows as users have them to inputs.
    scores : callable
        From inputs to scores.
    held_out : callable
        Returns the rows (``X``, ``y``, ``scores``, ``weights``, ``groups``), scored by a fit that
        did not have them; None if there are none.
    fits : callable
        Returns fits to few rows without some of those held out, each as (rows, callable): which
        ones these are, and from inputs to scores. None where one fit had none of them.
    losses : ndarray or None
        Of a stream: losses of its last rows, each before it was learned.
    block : int
        Rows held out that depend on each other, in succession.
    once : callable
        From a function, and a mark, to what the function returns; while the model stays the same it
        is called once.
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
        """Return the rows held out; ParameterError if there are none to find something by."""
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
        """Return few rows kept back as fits without them score them, and which fit did."""
        fits = self.fits()
        if not fits:
            return held, None
        scores, numbers = np.empty_like(held.scores), np.empty(len(held.weights), dtype=np.intp)
        for number, (left_out, fit) in enumerate(fits):
            scores[left_out], numbers[left_out] = fit(held.X[left_out]), number
        return held._replace(scores=scores), numbers

    def scores_by_fit(self, X: Any) -> list[Array]:
        """Scores of inputs by each fit to few rows without some of them."""
        return [fit(X)[:, : self.targets.n_scores] for _, fit in self.fits()]


# -- intervals -------------------------------------------------------------------------------------


def intervals(told: Evidence, X: Any, coverage: float = 0.9, method: str = "auto") -> Array:
    """Find intervals that hold the target of a share of the rows.

    Parameters
    ----------
    told : Evidence
        A model of quantities.
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
        For a wrong parameter, if there are no rows that the model has not learned, or too few for
        the coverage.
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
    """Intervals as wide as the errors of the last rows of a stream say."""
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
    """Find sets that hold the true class of a share of the rows, at least.

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
        For a wrong parameter, if there are no rows that the model has not learned, or too few for
        the coverage.
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
    """Return sets as large as the last rows of a stream say."""
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
    """Return inputs that say how large errors are; of sparse rows none: the prediction does.

    What a row of a stream does not say is 0.
    """
    return np.empty((X.shape[0], 0)) if sparse.issparse(X) else np.nan_to_num(X, nan=0.0)
