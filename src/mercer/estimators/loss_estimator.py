"""What the classifier and the regressor share: a loss, a risk of it, and the default expansion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import is_frame
from mercer.component import own_copy
from mercer.default import DefaultLearner
from mercer.default.means import LearnedMean, has_mean, level_of
from mercer.estimators.columns import check_named
from mercer.estimators.estimator import column_names
from mercer.estimators.fitting import Callback, Data, Given, KernelEstimator
from mercer.estimators.inputs import HeldBy, say_if_alike, values_by_column
from mercer.estimators.kept_rows import HeldOutRows
from mercer.estimators.start import Plan, automatic_expansion
from mercer.estimators.targets import LossTargets
from mercer.expansions import Auto, Expansion, Stream
from mercer.functions import FittedPart, SumOfComponents
from mercer.learning.regression_targets import begins_with_regression
from mercer.losses import Logistic, Loss, Softmax, Squared, as_loss
from mercer.objectives import Compositional, Pointwise
from mercer.risks import Risk, Tracker, as_risk
from mercer.streams import StreamFunction
from mercer.streams.function import NO_SINGLE
from mercer.sums import Correction, Rows, codes_of_targets
from mercer.threads import jobs
from mercer.validation import check_integer

Array = NDArray[np.float64]

# Trackers that a risk has if nothing is said of the steps that they follow.
_UNTRACKED = (None, Tracker())
_OF_STREAMS = (Squared, Logistic, Softmax)


class LossEstimator(KernelEstimator):
    """Base of estimators with a loss and, possibly, a risk of it; not for direct use.

    Pairs of independent rows reach the objective as neighbours in a batch; this class puts them
    there.
    """

    risk: Any
    loss: Any
    _task: ClassVar[Any]
    _has_race = True
    _takes_tables = True
    targets_: LossTargets

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callback = None,
        *,
        groups: Any = None,
        time: Any = None,
    ) -> Self:
        """Learn from all rows, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and computed in, all else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; they multiply the loss.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; a true
            result stops the fit.
        groups : array-like of shape (n_samples,) or str, default=None
            Group of each row, such as the person that it is about: rows of a group are alike, so
            they are held out together wherever something is chosen or judged by rows that were not
            learned. The name of a column of a table takes it out of the inputs, now and when
            predicting. Only for the default expansion; see :doc:`/default_learner`.
        time : array-like of shape (n_samples,) or str, default=None
            Number, date or ISO text by which rows are in order: the last rows judge what was
            learned of those before. The name of a column of a table leaves it among the inputs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if the kernel overflows; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model stays as it was.
        """
        return self._fit(Given(X, y, sample_weight, held_by=HeldBy(groups, time)), callback)

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
        from mercer.estimators.evidence import calibration

        self._calibration, self._conformal = calibration(self, X, y, sample_weight), None
        return self

    def learn_groups(self, X: Any, y: Any, groups: NDArray[np.int64]) -> Self:
        """Learn some more rows of files as ``partial_fit`` does, held out together by groups.

        Parameters
        ----------
        X, y : array-like
            Rows, of which those of a group are neighbours, and their targets.
        groups : ndarray of shape (n_samples,) of int64
            Groups of the rows, none of which goes on after another one.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(groups)))

    def learn_in_time(self, X: Any, y: Any) -> Self:
        """Learn some more rows of files as ``partial_fit`` does; the last ones of all judge.

        Parameters
        ----------
        X, y : array-like
            Rows in the order of time, later than those before, and their targets.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(time=True)))

    def _look_at_order(self, given: Given, data: Data, encoded: Array) -> None:
        """See :class:`KernelEstimator`: nobody said what is held out together, and no rows repeat.

        A block length that was chosen says how rows depend on each other.
        """
        learner = self.learner_
        if not isinstance(learner, DefaultLearner) or learner.resources.block_length != "auto":
            return
        copies = learner.judged is not None and learner.judged.rows.groups is not None
        told = any(each is not None for each in given.held_by)
        if told or copies or not isinstance(data.X, np.ndarray):
            return
        used = np.flatnonzero(data.weights > 0.0)
        named, columns = is_frame(given.X), {}
        of: Any = self._columns
        owners = column_names(self) if of is None else of.owners_out()
        if named:
            columns = values_by_column(given.X)
        elif self._columns is None:
            columns = dict(zip(column_names(self), data.X.T, strict=True))
        columns = {name: values[used] for name, values in columns.items()}
        rows = learner.used_rows(data.X, encoded, data.weights)
        say_if_alike(rows, columns, owners, learner.resources.seed, named=named)

    def _wants_level(self) -> bool:
        """Whether scores get a level, with which means of what is predicted are right.

        There is one where the loss has a mean, without a risk, and where the kernel is the
        library's choice: a model of a kernel that was given is nothing but its coefficients, as in
        the papers.
        """
        known = self.targets_
        of_mean = known.risk is None and has_mean(known.loss)
        return of_mean and self.learner_.gets_level and self._chooses("kernel")

    def _find_level(self, X: Any, targets: Array, weights: Array) -> None:
        """See :class:`KernelEstimator`; rows that come later move the function, and leave it."""
        if self._wants_level():
            codes, used = self._coded(targets), np.flatnonzero(weights > 0.0)
            mean = weights @ codes / weights.sum()
            self._level = self._level_by(X, codes, weights, used, mean)

    def find_level(self, pieces: Iterable[tuple[Any, NDArray[Any]]]) -> None:
        """Find what is added to scores, as :meth:`fit` does, of rows that were learned in pieces.

        Scores of rows that come later have it, too. Models without a level, and those of
        ``class_weight``, which weighs rows as they come, stay as they are.

        Parameters
        ----------
        pieces : iterable of (X, y)
            Inputs, encoded if the model has columns, and targets of all rows once more.
        """
        if not self._wants_level() or getattr(self, "class_weight", None) is not None:
            return
        learned: LearnedMean | None = None
        for X, y in pieces:
            codes = self._coded(self.targets_.encode(y))
            learned = learned or LearnedMean(X.shape[1], codes.shape[1], X.dtype, seed=0)
            learned.add(Rows(X, codes, np.ones(len(codes))))
        if learned is not None:
            X, codes, weights = learned.sample.arrays
            mean = learned.total / learned.weight
            self._level = self._level_by(X, codes, weights, np.arange(len(X)), mean)

    def _coded(self, targets: Array) -> Array:
        """Numbers, or codes of classes, of encoded targets."""
        return codes_of_targets(self.targets_.loss, targets, self.targets_.n_scores)

    def _level_by(
        self, X: Any, codes: Array, weights: Array, used: NDArray[np.int64], mean: Array
    ) -> Array:
        """Return the level by rows of some numbers, for a mean of all codes."""

        def look(some: NDArray[np.int64]) -> tuple[Array, Array, Array]:
            some = used[some]
            return self._before_level(X[some]), codes[some], weights[some]

        with jobs(self.n_jobs):
            return level_of(look, used.size, mean, self.targets_.loss, seed=0)

    def _asked_risk(self) -> Risk | None:
        """Return a copy of the risk that is asked for; None for the mean loss."""
        return None if self.risk is None else own_copy(as_risk(self.risk))

    def _check_risk(self, plan: Plan) -> None:
        """Refuse parameters of its own that are wrong or do not go together."""
        risk = self._asked_risk()
        if isinstance(self.expansion, Auto) and not self._chooses("step_size"):
            raise ValueError(
                f"`step_size={self.step_size!r}` is for learning by steps, but {self.expansion!r} "
                "solves equations. Leave the step size out, or use expansion='komp'."
            )
        if plan.expansion.mode == "recursive" and not self._chooses("regularization"):
            raise ValueError(
                f"`regularization` has no meaning for {self.expansion!r}, got "
                f"{self.regularization!r}: its ridge is of the sum over the rows, not of their "
                "mean. Leave it out, and give the expansion a `noise`."
            )
        tracker = None if risk is None else risk.tracking
        if plan.expansion.mode == "cyclic" and tracker is not None and tracker.rule == "nasa":
            raise ValueError(
                "Tracker('nasa') moves all coefficients along an averaged direction, which "
                "RandomFeatures(mode='cyclic') cannot: it solves for one block at a time. Use mode "
                "'newton' or 'faithful', or Tracker('momentum')."
            )
        if tracker is not None and tracker.pairs == "stream":
            size = check_integer("batch_size", self.batch_size, low=2)
            if size % 2:
                raise ValueError(
                    f"`batch_size` must be even for Tracker(pairs='stream'), whose rows come in "
                    f"pairs, got {size}. Use {size + 1}, or pairs='tracked'."
                )

    def _check_stream(self, plan: Plan) -> None:
        """Refuse what the ways of a stream choose for themselves."""
        if isinstance(plan.expansion, Stream):
            self._check_left_open(plan.expansion, "kernel", "step_size", "regularization")

    def _check_categories(self, plan: Plan) -> None:
        """Refuse what names no columns."""
        check_named(self.categorical_features)

    _checks = (*KernelEstimator._checks, _check_risk, _check_stream, _check_categories)

    def _has_usual_loss(self) -> bool:
        return self._chooses("loss") or isinstance(as_loss(self.loss, self._task), _OF_STREAMS)

    def _automatic_expansion(self, *, few: bool) -> Expansion:
        """See :class:`KernelEstimator`: few rows of a usual loss begin a stream."""
        left_open = all(map(self._chooses, ("kernel", "step_size", "regularization")))
        if few and self.risk is None and left_open and self._has_usual_loss():
            return Stream()
        risk = self._asked_risk()
        tracks = risk is not None and (risk.clip is not None or risk.tracking not in _UNTRACKED)
        if tracks or not self._chooses("step_size"):
            return automatic_expansion()
        adds_up = True
        if self._task == "regression":
            loss = as_loss(self.loss, self._task)
            adds_up = begins_with_regression(Pointwise(loss), loss.n_scores(1))
        return automatic_expansion("sums" if adds_up else "newton", self._chosen_ridge())

    # -- what was learned -----------------------------------------------------------------------

    @property
    def loss_(self) -> Loss:
        """The loss in use."""
        self._fitted()
        return self.targets_.loss

    @property
    def risk_(self) -> Risk | None:
        """The risk in use."""
        self._fitted()
        return self.targets_.risk

    @property
    def race_(self) -> list[dict[str, Any]]:
        """What the race of the default expansion tried: one dict for each pilot.

        ``form`` ("global" or "cells"), ``metric`` (how inputs are scaled), ``n_inputs`` (behind the
        map), ``length`` (scale of the kernel), ``error`` (mean squared error on rows not fitted)
        and its ``standard_error``.

        Raises
        ------
        AttributeError
            If there was no race.
        """
        function = self._fitted().current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(f"There was no race. {NO_SINGLE}")
        result = getattr(function, "race_result", None)
        if result is None:
            raise AttributeError(
                "There was no race: `kernel`, `expansion` or `step_size` were given, or a risk or "
                "a loss that the default expansion does not minimise; or no row was learned yet."
            )
        return [dict(entry) for entry in result.table]

    @property
    def block_length_(self) -> int:
        """Rows that a model of the default expansion held out together to judge what to choose.

        1 if each was judged by itself; more where rows depend on their neighbours, as in a series
        (``block_length`` of :class:`mercer.expansions.Auto`).

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().block

    @property
    def parts_(self) -> list[FittedPart]:
        """Parts of a model of the default expansion: f is the sum of what they say.

        Each has ``weight``, ``map``, ``kernel``, ``dictionary`` and ``coefficients``, and is
        ``weight * kernel(map(X), dictionary) @ coefficients``
        (:class:`mercer.functions.FittedPart`). Scores of classes are f + b f³ with b =
        ``bend_``; of other losses of numbers than the squared one, and under a risk, they are
        what ``correction_`` makes of f.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return [FittedPart.of(weight, part) for weight, part in self._components().used]

    @property
    def bend_(self) -> float:
        """The number b >= 0 of a model of the default expansion, whose scores are f + b f³.

        It calibrates probabilities, see :func:`mercer.selection.calibrate`; 0 of regressions and
        after Newton steps.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().bend

    @property
    def level_(self) -> NDArray[np.float64] | None:
        """What is added to each score in the end, (n_outputs,).

        With it the mean of what is predicted for the rows learned is the mean of their targets,
        and the mean chance of a class within 1.25 % of its share. None where nothing is added: of
        losses whose predictions are no means, under a risk, and of classes and numbers with a
        kernel that was given.
        """
        function = self._fitted().current_function()
        return function.level if isinstance(function, SumOfComponents) else self._level

    @property
    def intercept_(self) -> Array:
        """Constant term of each score: its ``level_``, and where targets were centred, more.

        Regressors with a kernel that they choose centre their target, where they make steps, and
        so they do with ``normalize_y``.
        """
        level = self.level_
        centre = self.targets_.intercept
        return centre if level is None else centre + level * self.targets_.unit

    @property
    def correction_(self) -> Correction | None:
        """What a model of the default expansion adds to its parts, whose sum is the mean.

        ``correction_(X, f)`` takes values f of the parts at rows X to scores that minimise a loss
        of numbers other than the squared one, or a risk; None where there is nothing to add.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().correction

    def _components(self) -> SumOfComponents:
        """Return the function if it is a sum of parts, else raise AttributeError."""
        function = self._fitted().current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(NO_SINGLE)
        if not isinstance(function, SumOfComponents):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a single part: see "
                "`kernel_`, `dictionary_` and `coefficients_`."
            )
        return function

    @property
    def held_out_(self) -> HeldOutRows | None:
        """Rows that a model of the default expansion kept back, with their scores.

        The fit that scored them did not have them, so they tell what errors new rows will have; by
        some of them the weights of the parts were chosen. What the model predicts with has learned
        them afterwards. They are in its file. None of other expansions.
        """
        learner = self._fitted()
        found = learner.held_out() if isinstance(learner, DefaultLearner) else None
        if found is None:
            return None
        y = self.targets_.decode(found.targets)
        return HeldOutRows(found.X, y, found.scores, found.weights, found.groups)

    @property
    def value_at_risk_(self) -> float:
        """Quantile of the loss that a CVaR has settled on, in units of the loss.

        An average over the steps, of the losses of rows before they were learned; on given rows
        use ``mercer.display.row_losses`` and ``tail_of``.

        Raises
        ------
        AttributeError
            If the risk has none.
        """
        learner = self._fitted()
        function = learner.current_function()  # with the rows in it that wait for a step
        objective = learner.objective
        if isinstance(objective, Compositional):
            scalars = objective.scalars
            if isinstance(function, SumOfComponents) and function.correction is not None:
                scalars = function.correction.scalars
            names = objective.risk.scalar_names
            named = {} if scalars is None else dict(zip(names, scalars, strict=True))
            if "value_at_risk" in named:
                return float(named["value_at_risk"])
        raise AttributeError(
            "There is a value at risk for a risk with one CVaR(...) only, once rows with weight "
            f"were learned; this model has risk {self.risk_!r}."
        )
