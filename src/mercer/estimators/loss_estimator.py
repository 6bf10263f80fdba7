"""Common base of classifier and regressor: a loss, a risk of it, and the default expansion."""

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

# Trackers of a risk for which the user chose no steps to follow.
_UNTRACKED = (None, Tracker())
_OF_STREAMS = (Squared, Logistic, Softmax)


class LossEstimator(KernelEstimator):
    """Base class of estimators with a loss and, possibly, a risk of it; not for direct use.

    For risks on pairs of independent rows, it puts the two rows of a pair next to each other.
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
        """Learn all rows from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and used in computations, all other types become float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, which multiply the loss.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; stops the
            fit if it returns a true value.
        groups : array-like of shape (n_samples,) or str, default=None
            Group of each row, for example the person it is about. Rows of a group are alike, so
            they are held out together whenever held-out rows choose or judge something. The name of
            a column removes that column from the inputs, for prediction too. Only for the default
            expansion; see :doc:`/default_learner`.
        time : array-like of shape (n_samples,) or str, default=None
            Number, date or ISO text that orders the rows: the last rows judge what was learned from
            earlier ones. A column given by name stays among the inputs.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.
        """
        return self._fit(Given(X, y, sample_weight, held_by=HeldBy(groups, time)), callback)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Set the rows used to calibrate prediction intervals or sets, in place of rows kept back.

        A model of the default expansion keeps back rows of its own, and a model of a stream tracks
        its errors. All others need rows that they have not learned. So does any model that will
        predict rows unlike the learned ones.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Rows that the model has not learned and will not learn. The model and its file keep
            them.
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
            For invalid rows or targets; the model is unchanged.
        """
        from mercer.estimators.evidence import calibration

        self._calibration, self._conformal = calibration(self, X, y, sample_weight), None
        return self

    def learn_groups(self, X: Any, y: Any, groups: NDArray[np.int64]) -> Self:
        """Learn more rows of files as ``partial_fit`` does, holding out whole groups.

        Parameters
        ----------
        X, y : array-like
            Rows, sorted so that a group's rows are neighbours, and their targets.
        groups : ndarray of shape (n_samples,) of int64
            Group of each row; a group that has ended does not return.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(groups)))

    def learn_in_time(self, X: Any, y: Any) -> Self:
        """Learn more rows of files as ``partial_fit`` does; the last rows overall judge the model.

        Parameters
        ----------
        X, y : array-like
            Rows in order of time, later than all earlier calls, and their targets.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(X, y, more=True, held_by=HeldBy(time=True)))

    def _look_at_order(self, given: Given, data: Data, encoded: Array) -> None:
        """Warn if rows look alike in groups or in time and the user has not said so.

        Checks only the automatic block length, and only if no rows are copies of each other.
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
        """Return whether to add a level to scores, which makes the mean prediction right.

        True for losses whose prediction is a mean, without a risk and with ``kernel="auto"``. A
        model with a given kernel consists of its coefficients alone, as in the papers.
        """
        known = self.targets_
        of_mean = known.risk is None and has_mean(known.loss)
        return of_mean and self.learner_.gets_level and self._chooses("kernel")

    def _find_level(self, X: Any, targets: Array, weights: Array) -> None:
        """Find the level from all rows of ``fit``; rows learned later do not change it."""
        if self._wants_level():
            codes, used = self._coded(targets), np.flatnonzero(weights > 0.0)
            mean = weights @ codes / weights.sum()
            self._level = self._level_by(X, codes, weights, used, mean)

    def find_level(self, pieces: Iterable[tuple[Any, NDArray[Any]]]) -> None:
        """Find the level, as :meth:`fit` does, from rows that were learned in pieces.

        Rows learned later do not change it. Models without a level, and models with
        ``class_weight``, whose weights depend on the order of the rows, stay as they are.

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
        """Return a copy of the requested risk; None for the mean loss."""
        return None if self.risk is None else own_copy(as_risk(self.risk))

    def _check_risk(self, plan: Plan) -> None:
        """Refuse a risk, step size or ridge that contradict each other or the expansion."""
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
        """Refuse parameters that each way of a stream chooses for itself."""
        if isinstance(plan.expansion, Stream):
            self._check_left_open(plan.expansion, "kernel", "step_size", "regularization")

    def _check_categories(self, plan: Plan) -> None:
        """Refuse ``categorical_features`` that do not name columns."""
        check_named(self.categorical_features)

    _checks = (*KernelEstimator._checks, _check_risk, _check_stream, _check_categories)

    def _has_usual_loss(self) -> bool:
        return self._chooses("loss") or isinstance(as_loss(self.loss, self._task), _OF_STREAMS)

    def _automatic_expansion(self, *, few: bool) -> Expansion:
        """Return the expansion for "auto"; few rows with a usual loss start a stream."""
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
        """Candidates of the race of the default expansion: one dict for each pilot fit.

        Keys: ``form`` ("global" or "cells"), ``metric`` (how inputs are scaled), ``n_inputs``
        (after the map), ``length`` (length scale), ``error`` (mean squared error on rows not
        fitted) and its ``standard_error``.

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
        """Number of consecutive rows that the default expansion holds out together.

        1 if each row is held out by itself; more if neighbouring rows depend on each other, as in a
        time series (``block_length`` of :class:`mercer.expansions.Auto`).

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().block

    @property
    def parts_(self) -> list[FittedPart]:
        """Parts of a model of the default expansion, whose sum is f.

        Each part (:class:`mercer.functions.FittedPart`) has ``weight``, ``map``, ``kernel``,
        ``dictionary`` and ``coefficients``, and evaluates to ``weight * kernel(map(X), dictionary)
        @ coefficients``. Scores of classes are f + b f³ with b = ``bend_``. For regression with
        another loss than the squared one, and under a risk, ``correction_`` turns f into scores.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return [FittedPart.of(weight, part) for weight, part in self._components().used]

    @property
    def bend_(self) -> float:
        """The number b >= 0 of a model of the default expansion, whose scores are f + b f³.

        It calibrates probabilities (:func:`mercer.selection.calibrate`); 0 for regression and after
        Newton steps.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().bend

    @property
    def level_(self) -> NDArray[np.float64] | None:
        """Constant added to each score after learning, (n_outputs,); None if nothing is added.

        It makes the mean prediction for the learned rows equal to the mean of their targets, or the
        mean probability of a class equal to its share within 1.25 %. None for losses whose
        predictions are not means, under a risk, and with a given kernel.
        """
        function = self._fitted().current_function()
        return function.level if isinstance(function, SumOfComponents) else self._level

    @property
    def intercept_(self) -> Array:
        """Constant term of each score: its ``level_``, plus the centre if the targets were centred.

        Targets are centred with ``normalize_y``, and for learning by steps with ``kernel="auto"``.
        """
        level = self.level_
        centre = self.targets_.intercept
        return centre if level is None else centre + level * self.targets_.unit

    @property
    def correction_(self) -> Correction | None:
        """What a model of the default expansion adds to the sum of its parts, which is the mean.

        ``correction_(X, f)`` turns values f of the parts at rows X into scores that minimise a loss
        other than the squared one, or a risk. None if nothing is added.

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._components().correction

    def _components(self) -> SumOfComponents:
        """Return the function if it is a sum of parts, else raise ``AttributeError``."""
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
        """Rows that a model of the default expansion kept back, with their scores; else None.

        The fit that scored these rows had not learned them, so their errors estimate the errors on
        new rows. Some of them also chose the weights of the parts. The final model has learned them
        as well. They are stored in its file.
        """
        learner = self._fitted()
        found = learner.held_out() if isinstance(learner, DefaultLearner) else None
        if found is None:
            return None
        y = self.targets_.decode(found.targets)
        return HeldOutRows(found.X, y, found.scores, found.weights, found.groups)

    @property
    def value_at_risk_(self) -> float:
        """Quantile of the loss as estimated by a CVaR, in units of the loss.

        An average over the steps, of losses of rows before they were learned. For given rows use
        ``mercer.display.row_losses`` and ``tail_of``.

        Raises
        ------
        AttributeError
            If the risk has none.
        """
        learner = self._fitted()
        function = learner.current_function()  # includes rows that wait for a step
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
