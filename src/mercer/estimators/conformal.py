"""What regressors and classifiers promise: intervals and sets of classes with a coverage.

The numerics are in :mod:`mercer.conformal`; here rows are found that were not learned, and what the
model says of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

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
from mercer.default import DefaultLearner
from mercer.estimators.columns import with_later_inputs
from mercer.estimators.fitted import FittedLoss, HeldOutRows
from mercer.estimators.inputs import check_weights, finite_or_where
from mercer.estimators.kept_rows import rows_to_state, with_gaps
from mercer.estimators.targets import Classes, Numbers, check_labels, plain_targets
from mercer.exceptions import Advice, InPython, ParameterError
from mercer.functions import SumOfComponents
from mercer.losses import Poisson, Quantile
from mercer.streams import StreamLearner
from mercer.validation import check_choice

Array = NDArray[np.float64]

_CALIBRATE = Advice(
    InPython(
        "Call `calibrate(X, y)` with such rows.", ("Name a file of such rows with `calibrate`.",)
    )
)
# Of a stream: rows whose errors say how wide intervals are, of those that are replayed.
_WINDOW = 500


class ConformalEstimator(FittedLoss):
    """Rows that a model has not learned, and what it says of them; not for direct use."""

    #: Rows that were given to calibrate by; their scores are of the time of the call.
    _calibration: HeldOutRows | None = None
    #: What was made of the rows: a mark that says of which model and rows, and the result.
    _conformal: tuple[Any, Any] | None = None

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take other rows to find intervals, or sets of classes, by than those kept back.

        A model of the default expansion keeps rows back by itself, and one that follows a stream
        watches its errors. All others need rows that they have not learned; so does a model whose
        rows to come are unlike those that were learned.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Rows that were not learned, and will not be. They are kept in the model and its file.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong rows or targets; the model stays as it was.
        """
        check_is_fitted(self, "learner_")
        inputs = self._rows_to_predict(X)
        targets = self._known_targets(y)
        if len(targets) != inputs.shape[0]:
            raise ValueError(
                f"`X` has {inputs.shape[0]:,} rows and `y` has {len(targets):,}. Give each row its "
                "target."
            )
        weights = check_weights(sample_weight, inputs.shape[0], some=True)
        used = weights > 0.0
        rows = HeldOutRows(inputs[used], targets[used], np.empty(0), weights[used])
        self._calibration, self._conformal = rows, None
        return self

    @abstractmethod
    def _known_targets(self, y: Any) -> NDArray[Any]:
        """Check targets of rows that are not learned."""

    def _forget(self) -> None:
        super()._forget()  # type: ignore[misc]  # of the estimator
        self._calibration = self._conformal = None

    def _scores_of_inputs(self, X: Any) -> Array:
        return self._evaluate(X)[:, : self.targets_.n_scores]

    def _not_learned(self, what: str) -> HeldOutRows:
        """Return rows that were not learned, with scores by a fit without them."""
        given = self._calibration_of_now()
        if given is not None:
            return given._replace(scores=self._scores_of_inputs(given.X))
        held = self.held_out_
        if held is None:
            raise ParameterError(
                f"{what} need rows that the model has not learned, and this one kept none back: "
                "only the default expansion does.",
                parameter="calibrate",
                mend=_CALIBRATE,
            )
        return held

    def _over_fits(self, held: HeldOutRows) -> tuple[HeldOutRows, NDArray[np.intp] | None]:
        """Return few rows kept back as fits without them score them, and which fit did."""
        fits = self._fits_without()
        if not fits:
            return held, None
        scores, numbers = np.empty_like(held.scores), np.empty(len(held.weights), dtype=np.intp)
        for number, (left_out, function) in enumerate(fits):
            scores[left_out], numbers[left_out] = function.evaluate(held.X[left_out]), number
        return held._replace(scores=scores), numbers

    def _fits_without(self) -> list[tuple[NDArray[np.intp], SumOfComponents]]:
        """Fits to few rows without some of them; none where intervals go by other rows."""
        learner = self.learner_
        if self._calibration is not None or not isinstance(learner, DefaultLearner):
            return []
        return list(learner.fits_without())

    def _scores_by_fit(self, X: Any) -> list[Array]:
        """Scores of inputs by each fit to few rows without some of them."""
        n_scores = self.targets_.n_scores
        return [each.evaluate(self._image(X))[:, :n_scores] for _, each in self._fits_without()]

    def _made_once(self, make: Any, *mark: Any) -> Any:
        """Return what is made of the rows and the model as they are, once."""
        mark = (*mark, self.learner_.n_samples)
        known = self._conformal
        if known is None or known[0] != mark:
            known = self._conformal = mark, make()
        return known[1]

    def _calibration_of_now(self) -> HeldOutRows | None:
        """Rows that were given to calibrate by, with the inputs that came since."""
        rows = self._calibration
        if rows is None or not isinstance(rows.X, np.ndarray):
            return rows
        return rows._replace(X=with_later_inputs(rows.X, self._n_inputs, self._columns))

    def _recent_losses(self) -> Array | None:
        """Losses of the last rows of a stream, each before it was learned; None of other models."""
        learner = self.learner_
        if self._calibration is not None or not isinstance(learner, StreamLearner):
            return None
        return np.array(learner.recent_losses, dtype=np.float64)

    def _calibration_to_state(self) -> dict[str, Any]:
        """See :class:`mercer.estimators.stored.StoredEstimator`."""
        rows = self._calibration_of_now()
        if rows is None:
            return {}
        X = rows.X
        if isinstance(X, np.ndarray):
            inputs = rows_to_state("X", X)
        else:
            places = {name: getattr(X, name).astype(np.int64) for name in ("indices", "indptr")}
            inputs = {"X": {"data": X.data, **places}}
        y = self._numbered(rows.y)
        return {"calibration": {**inputs, "y": y, "weights": rows.weights}}

    def _calibration_from_state(self, state: dict[str, Any] | None) -> None:
        """See :class:`mercer.estimators.stored.StoredEstimator`."""
        if state is None:
            return
        X, y, weights = state["X"], state["y"], np.array(state["weights"], dtype=np.float64)
        n_inputs = self._n_inputs
        if not isinstance(X, np.ndarray):
            parts = X["data"], X["indices"], X["indptr"]
            X = sparse.csr_matrix(parts, shape=(len(weights), n_inputs))
        if X.shape != (len(weights), n_inputs) or len(y) != len(weights):
            raise ValueError("the rows that intervals are found by do not fit together")
        X = with_gaps(X, state.get("gaps"))
        self._calibration = HeldOutRows(X, self._from_numbers(y), np.empty(0), weights)

    def _numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return targets as numbers."""
        return y

    def _from_numbers(self, y: NDArray[Any]) -> NDArray[Any]:
        """Inverse of :meth:`_numbered`."""
        return y

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        state.pop("_conformal", None)
        return state


class ConformalRegressor(ConformalEstimator):
    """Intervals of a regressor; not for direct use."""

    targets_: Numbers

    def _known_targets(self, y: Any) -> Array:
        """See :class:`ConformalEstimator`."""
        y = plain_targets(y, quantities=True)
        found: Array = finite_or_where(
            lambda: check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"), None, y
        )
        self.targets_.meet(found)
        return found.reshape(len(found), -1)

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, method: str = "auto"
    ) -> NDArray[np.float64]:
        r"""Intervals that hold the target of a share ``coverage`` of the rows.

        Found by conformal prediction (:mod:`mercer.conformal`) on rows that were kept back
        (``held_out_``), or those given to ``calibrate``. If rows to come are drawn as these were,
        the share holds whatever the data are, on average over rows. It is not promised for each
        kind of row, nor if the data change; for a stream widths follow the errors of its last
        rows (:class:`mercer.conformal.AdaptiveConformal`).

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        coverage : float, default=0.9
            Share of the rows whose interval is to hold the target, between 0 and 1.
        method : {"auto", "normalized", "split", "quantile"}, default="auto"
            ``"split"``: all of the same width. ``"normalized"``: as wide as errors usually are at
            such rows. ``"quantile"``: between two quantiles that are learned, widened so that
            the share holds; those of the model itself, the lowest and the highest, if its loss has
            several. See :class:`mercer.conformal.ConformalIntervals`. ``"auto"`` is
            ``"quantile"`` for such a loss, ``"split"`` for a stream, and else ``"normalized"``.

        Returns
        -------
        intervals : ndarray of shape (n_samples, 2), or (n_samples, 2, n_targets)
            Lower and upper ends. With several targets each has intervals of its own.

        Raises
        ------
        ValueError
            For a wrong parameter, if there are no rows that the model has not learned, or too few
            for the coverage.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import KernelRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3.0, 3.0, size=(2000, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
        >>> model = KernelRegressor(random_state=0).fit(X[:1000], y[:1000])
        >>> low, high = model.predict_interval(X[1000:], coverage=0.9).T
        >>> inside = (low <= y[1000:]) & (y[1000:] <= high)
        >>> bool(0.85 < inside.mean() < 0.95)
        True
        """
        check_is_fitted(self, "learner_")
        check_coverage(coverage)
        check_choice("method", method, ("auto", *METHODS))
        levels = getattr(self.loss_, "levels", None) if isinstance(self.loss_, Quantile) else None
        several = levels is not None and np.size(levels) > 1
        inputs = self._rows_to_predict(X)
        scores = self._scores_of_inputs(inputs)
        losses = self._recent_losses()
        if losses is not None:
            found = self._of_stream(losses, scores, coverage, method)
        elif several and method in ("auto", "quantile"):
            found = self._of_levels(inputs, scores, coverage)
        elif several:
            raise ValueError(
                f"`method` must be 'quantile' or 'auto' for a model of several quantiles, got "
                f"{method!r}: its intervals begin with the lowest and the highest of them."
            )
        else:
            method = "normalized" if method == "auto" else method
            found = self._around(inputs, scores, coverage, method)
        if isinstance(self.loss_, Poisson):
            found = np.maximum(found, 0.0)  # counts are
        return found[:, :, 0] if self.targets_.flat else found

    def _answers(self, scores: Array) -> Array:
        """Predictions of scores, one column for each target or level."""
        return self.targets_.answers(scores)

    def _around(self, inputs: Any, scores: Array, coverage: float, method: str) -> Array:
        """Intervals around single predictions, (n, 2, n_targets)."""
        # Between quantiles, half of the rows make up for what the others chose, in one fit.
        asks_fits = method != "quantile"

        def make() -> list[ConformalIntervals]:
            held, fits = self._not_learned("Intervals"), None
            if asks_fits:
                held, fits = self._over_fits(held)
            X, y = _dense(held.X), held.y.reshape(len(held.weights), -1)
            block = getattr(self, "block_length_", 1) if self._calibration is None else 1
            pairs = zip(y.T, self._answers(held.scores).T, strict=True)
            return [
                ConformalIntervals(
                    X, *pair, held.weights, method, block=block, groups=held.groups, fits=fits
                )
                for pair in pairs
            ]

        finders = self._made_once(make, method)
        coverage = coverage_of_groups(coverage, finders[0].groups)
        predicted = self._answers(scores)
        rows = inputs.toarray() if sparse.issparse(inputs) and finders[0].X.shape[1] else inputs
        X = _dense(rows) if finders[0].X.shape[1] else np.empty((len(predicted), 0))
        scores_by_fit = self._scores_by_fit(inputs) if asks_fits else []
        by_fit = [self._answers(each) for each in scores_by_fit]
        found = np.empty((len(predicted), 2, len(finders)))
        for target, find in enumerate(finders):
            theirs = np.column_stack([each[:, target] for each in by_fit]) if by_fit else None
            found[:, :, target] = find(X, predicted[:, target], coverage, theirs)
        return found

    def _of_levels(self, inputs: Any, scores: Array, coverage: float) -> Array:
        """Intervals between the lowest and the highest level of each target, moved."""
        levels = np.asarray(self.loss_.levels, dtype=np.float64)
        ends = [int(np.argmin(levels)), int(np.argmax(levels))]
        held, fits = self._made_once(
            lambda: self._over_fits(self._not_learned("Intervals")), "levels"
        )
        coverage = coverage_of_groups(coverage, held.groups)
        y = held.y.reshape(len(held.weights), -1)
        theirs, ours, *by_fit = (
            np.sort(self._answers(each).reshape(len(each), -1, levels.size)[:, :, ends], axis=2)
            for each in (held.scores, scores, *self._scores_by_fit(inputs))
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

    def _of_stream(self, losses: Array, scores: Array, coverage: float, method: str) -> Array:
        """Intervals as wide as the errors of the last rows of a stream say."""
        predicted = self._answers(scores)
        if method not in ("auto", "split") or predicted.shape[1] > 1:
            raise ValueError(
                "A model of the default of streams knows how large its last errors were, which "
                f"gives intervals of one width for one target, got method={method!r} and "
                f"{predicted.shape[1]} target(s). Use method='split', or call `calibrate(X, y)`."
            )
        width = adapted(np.sqrt(2.0 * losses), coverage).width()
        width = finite(width, coverage, len(losses))
        return np.stack([predicted - width, predicted + width], axis=1)


class ConformalClassifier(ConformalEstimator):
    """Sets of classes of a classifier; not for direct use."""

    targets_: Classes

    def _known_targets(self, y: Any) -> NDArray[Any]:
        """See :class:`ConformalEstimator`."""
        labels = check_labels(column_or_1d(plain_targets(y)))
        unknown = np.setdiff1d(labels, self.targets_.labels)
        if unknown.size:
            raise ValueError(
                f"y has labels that were not learned: {unknown[:5].tolist()}. Leave such rows out, "
                "or learn some of them."
            )
        return labels

    def _numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        """See :class:`ConformalEstimator`."""
        return np.searchsorted(self.targets_.labels, y)

    def _from_numbers(self, y: NDArray[Any]) -> NDArray[Any]:
        """See :class:`ConformalEstimator`."""
        return np.asarray(self.targets_.labels[y])

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, by_class: bool = False, empty: bool = False
    ) -> NDArray[np.bool_]:
        """Find sets that hold the true class of a share ``coverage`` of the rows, at least.

        Found by conformal prediction as for ``predict_interval`` of regressors, with the same
        promise. A set of several classes says that the row may be of any of them.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        coverage : float, default=0.9
            Share of the rows whose set is to hold the true class, between 0 and 1.
        by_class : bool, default=False
            Whether that is to hold among the rows of each class, so that rare ones count.
        empty : bool, default=False
            Whether sets may be empty, see :class:`mercer.conformal.ConformalSets`. Otherwise a set
            always has the predicted class, and more rows may be covered than was asked for.

        Returns
        -------
        sets : ndarray of shape (n_samples, n_classes) of bool
            Columns in the order of ``classes_``.

        Raises
        ------
        ValueError
            For a wrong parameter, if there are no rows that the model has not learned, or too few
            for the coverage.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from mercer import KernelClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> drawn = np.random.default_rng(0).permutation(len(X))  # they are sorted by writers
        >>> X, y = X[drawn], y[drawn]
        >>> model = KernelClassifier(random_state=0).fit(X[:1000], y[:1000])
        >>> sets = model.predict_set(X[1000:], coverage=0.99)
        >>> truth = model.classes_.searchsorted(y[1000:])
        >>> bool(sets[range(797), truth].mean() > 0.97)
        True
        """
        check_is_fitted(self, "learner_")
        check_coverage(coverage)
        inputs = self._rows_to_predict(X)
        ours = self._chances(self._scores_of_inputs(inputs))
        losses = self._recent_losses()
        if losses is not None:
            return self._of_stream(losses, ours, coverage, by_class=by_class, empty=empty)

        def make() -> tuple[ConformalSets, NDArray[np.int64] | None]:
            held, fits = self._over_fits(self._not_learned("Sets of classes"))
            numbers = np.searchsorted(self.targets_.labels, held.y)
            chances = self._chances(held.scores)
            return ConformalSets(chances, numbers, held.weights, fits), held.groups

        find, groups = self._made_once(make)
        coverage = coverage_of_groups(coverage, groups)
        by_fit = [self._chances(each) for each in self._scores_by_fit(inputs)]
        theirs = np.stack(by_fit, axis=1) if by_fit else None
        sets: NDArray[np.bool_] = find(
            ours, coverage, by_class=by_class, empty=empty, by_fit=theirs
        )
        return sets

    def _chances(self, scores: Array) -> Array:
        """Probabilities of the classes, or scores where the loss models none."""
        if self.loss_.has_probabilities or self.targets_.labels.size == 1:
            return self.targets_.probabilities(scores)
        return np.column_stack([-scores, scores]) if scores.shape[1] == 1 else scores

    def _of_stream(
        self, losses: Array, chances: Array, coverage: float, *, by_class: bool, empty: bool
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
