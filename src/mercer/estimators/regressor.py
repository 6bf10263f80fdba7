"""Kernel regression on streams."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, time
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from mercer.component import own_copy
from mercer.estimators.fitting import Data, Given
from mercer.estimators.inputs import check_weights, finite_or_where
from mercer.estimators.loss_estimator import LossEstimator
from mercer.estimators.one_row import (
    learn_as_batch,
    learn_row,
    learn_text,
    remember_names,
    score_one,
    vector_to_learn,
)
from mercer.estimators.scaling import centre_of, mean_and_deviation
from mercer.estimators.start import Plan, solves
from mercer.estimators.targets import Numbers, Targets, curvature_at, target_unit, warn_of_targets
from mercer.exceptions import ParameterError
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep
from mercer.losses import Loss, Poisson, Quantile, as_loss
from mercer.model_file import storable
from mercer.risks import Risk

Array = NDArray[np.float64]


@storable
class KernelRegressor(RegressorMixin, LossEstimator):
    r"""Kernel regressor trained on a stream in bounded memory.

    Minimises :math:`E\,l(f(x), y) + \frac{\lambda}{2}\|f\|^2` over the RKHS of the kernel by
    functional stochastic gradient descent, or solves for f where the expansion holds the sums that
    this takes; the expansion keeps f small. The defaults leave nothing to tune
    (:class:`~mercer.expansions.Auto`). With a kernel of your own, other expansions than the default
    have no intercept: take ``normalize_y=True`` then, and scale counts, for example with
    :class:`sklearn.compose.TransformedTargetRegressor`; a
    :class:`~mercer.exceptions.TargetScaleWarning` says where that is needed.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        ``"squared"``, ``"absolute_error"``, ``"huber"``, ``"epsilon_insensitive"``,
        ``"quantile"``, ``"poisson"``, ... (:mod:`mercer.losses`). ``Quantile([0.1, 0.5, 0.9])``
        predicts several levels at once.
    risk : Risk, str or None, default=None
        What is minimised of the loss (:mod:`mercer.risks`): None for its mean, ``"cvar:0.9"`` or
        ``CVaR(0.9)`` for the mean of its worst tenth, ``UpperSemideviation()``, ``Semivariance()``,
        ``Entropic()``, ... They make large losses smaller and the mean loss larger; against
        outliers use a robust loss such as ``"huber"`` instead, which does the opposite.
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`). ``"auto"`` is a Gaussian of inputs that are scaled: a race
        on the first rows finds their map and, for learning by sums, the length scale; where steps
        are made the target is centred, too (``intercept_``). Of sparse rows, and of a first call
        with fewer than 20 rows, it is ``"gaussian"``. Any other kernel takes inputs as they are.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`). ``"auto"`` is
        :class:`~mercer.expansions.Auto`: a race on the first rows chooses everything, and
        second-order sums learn each row once; a ``kernel`` that is given takes no part in the race.
        With another loss than ``"squared"``, or under a ``risk``, these find the mean, and what
        takes it to the minimum is learned on rows held out. With a ``step_size``, or a risk with a
        ``clip`` or another ``tracker``, it is ``KOMP(max_size=1000)``, which learns by steps;
        with a loss whose scores are in other units than targets, but for counts, a
        :class:`~mercer.expansions.Dictionary`, for which the race finds the kernel.
        Where a model begins with ``learn_one``, or with fewer than 256 dense rows in
        ``partial_fit``, it is :class:`~mercer.expansions.Stream`: several ways to learn side by
        side, of the squared loss without a risk.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it. ``"auto"``
        takes a large safe step for the kernel, the loss and the batch size
        (:class:`mercer.learning.AutomaticStep`); for losses with bounded slopes (absolute error,
        Huber, quantiles, ...), without a risk, in the unit of the targets of the first rows.
    regularization : float or "auto", default="auto"
        Ridge parameter lambda. ``"auto"`` is found by the race, or 1e-6 where steps are made (in
        the unit in which the steps are).
    batch_size : int, default=32
        Rows per step. A ``partial_fit`` of at most this many rows is exactly one gradient
        step; Newton steps are on 256 rows at least. Plays no role where sums are solved;
        ``"auto"`` then refuses other values.
    n_passes : int, default=1
        Passes of ``fit`` over the data, at least, for learning by steps. ``"auto"`` refuses more
        than one where it learns by sums.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³ and
        so forgets the first ones (``"suffix"``), the plain mean (``"polyak"``), or the last
        iterate, which is the papers' algorithm and follows drift faster (None). The error that an
        expansion promises is that of the iterate; averaged coefficients are refitted alike. For
        learning by steps, as ``n_passes``.
        ``Full(max_size)`` drops points before an average can grow, so it uses the last iterate.
    normalize_y : bool, default=False
        Whether targets are learned less their mean, in units of their standard deviation in the
        first call's rows; predictions are in their own units. Parameters of the loss, such as
        ``delta`` of a Huber loss, and the losses in ``history_`` are in that unit then. For
        learning by steps: the default expansion finds such units by itself, and refuses it. Not
        for counts.
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Columns of numbers that are categories: a mask, positions, or names. ``"from_dtype"``: those
        whose type says so. What else columns of tables are is found out, see ``audit_``; None
        refuses columns of text.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions by sums over rows; None is 1, unless a
        ``joblib.parallel_config`` says otherwise, and -1 all cores. The model is the same bit for
        bit. Steps go on one core. It is not stored in files.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample that automatic choices look at.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: f(x) = intercept_ + y_scale_ Σ_i coefficients_[i] k(dictionary_[i], x).
    intercept_ : ndarray of shape (n_outputs,)
        Constant term; 0 unless ``kernel="auto"`` or ``normalize_y`` has centred the target.
    y_scale_ : ndarray of shape (n_targets,)
        Standard deviations of the targets with ``normalize_y``, else 1.
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved; with ``"auto"`` a :class:`~mercer.kernels.Mapped` one.
    parts_ : list of mercer.functions.FittedPart
        With the default expansion f is a sum of parts, each with a kernel, a dictionary and
        coefficients of its own; ``kernel_``, ``dictionary_`` and ``coefficients_`` exist if there
        is one part on one dictionary, and coefficients with the squared loss only.
    correction_ : mercer.sums.Correction or None
        With the default expansion and another loss than the squared one, or a risk: what is added
        to the parts, whose sum is the mean.
    race_ : list of dict
        With the default expansion: what the race tried, and the errors it saw.
    block_length_ : int
        With the default expansion: rows in succession that were held out together, more than 1 if
        rows are like their neighbours, as in a series.
    loss_ : Loss
        The loss in use.
    risk_ : Risk or None
        The risk in use.
    value_at_risk_ : float
        With a CVaR only: the quantile of the loss that it has settled on.
    n_samples_seen_ : int
        Rows learned, counting every pass.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    n_features_in_ : int
        Number of columns of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if rows came as a table whose names are text.
    preprocessor_ : mercer.columns.TablePreprocessor or None
        What became of the columns of the first rows. None if they went in as they are, being
        numbers without gaps, and for the default of streams, where a gap says nothing and each
        category is an input from its first row on.
    audit_ : mercer.columns.audit.TableAudit
        What each column is, and how many inputs it became: a table to print. Only if there is a
        ``preprocessor_``.
    roles_ : mercer.estimators.columns.Roles or None
        What columns were target, group and time in the files that a model was trained on.
    target_form_ : mercer.columns.readings.TargetForm or None
        How targets were written, if they were dates, times or text such as ``$1,200``.

    References
    ----------
    POLK, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 400)[:, None]
    >>> model = KernelRegressor(random_state=0).fit(x, np.sin(x))
    >>> bool(model.score(x, np.sin(x)) > 0.95)
    True
    """

    _task = "regression"
    _targets_type = Numbers
    targets_: Numbers

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        risk: str | Risk | None = None,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | str = "auto",
        batch_size: int = 32,
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = "suffix",
        normalize_y: bool = False,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.risk = risk
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.normalize_y = normalize_y
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from some more rows, in order, ``batch_size`` at a time.

        A first call of fewer than 256 rows begins the default of streams
        (:class:`~mercer.expansions.Stream`), which chooses as it goes. All else that was left to
        choose (the length scale of the kernel, the automatic step size and tolerance) is fixed on
        the rows of the first call: start with some hundred typical ones, or give numbers.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if the kernel overflows; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        return self._partial_fit(Given(X, y, sample_weight, more=True))

    def _check_loss(self, plan: Plan) -> None:
        """Refuse parameters of its own that are wrong or do not go together."""
        loss = as_loss(self.loss, "regression")
        if not isinstance(self.normalize_y, bool | np.bool_):
            raise ValueError(f"`normalize_y` must be True or False, got {self.normalize_y!r}.")
        if self.normalize_y and (plan.default is not None or isinstance(loss, Poisson)):
            why = (
                "counts have no other unit"
                if isinstance(loss, Poisson)
                else "the default expansion finds the unit of the targets by itself"
            )
            raise ParameterError(
                f"`normalize_y` must be False here, got True: {why}.",
                parameter="normalize_y",
                value=True,
                mend="Leave it out.",
            )

    _checks = (*LossEstimator._checks, _check_loss)

    # -- rows -----------------------------------------------------------------------------------

    def _checked(self, given: Given, known: Numbers | None, plan: Plan) -> Data:
        X, y = self._checked_rows(
            given.X,
            given.y,
            first=known is None,
            gaps=self._may_have_gaps(known, plan),
            weights=given.sample_weight,
            multi_output=True,
            y_numeric=True,
        )
        y = np.asarray(y, dtype=np.float64)
        if known is not None:
            known = known.meet(y)
        weights = check_weights(given.sample_weight, X.shape[0], some=not given.more)
        known = self._first(y, weights, plan) if known is None else known
        return Data(X, y, weights, known, partial(known.order, len(y)))

    def _first(self, y: Array, weights: Array, plan: Plan) -> Numbers:
        """Return what is known of the targets from the first ones."""
        loss, risk = own_copy(as_loss(self.loss, "regression")), self._asked_risk()
        centre, scale = centre_of(loss, y, weights) if plan.maps else None, None
        if self.normalize_y:
            centre, scale = mean_and_deviation(y, weights)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        return Numbers(loss, risk, n_targets, y.ndim == 1, centre=centre, scale=scale)

    def _measured(
        self, plan: Plan, kernel: Kernel, sample: Any, data: Data
    ) -> tuple[Targets, AutomaticStep]:
        """See :class:`KernelEstimator`: in units of the target, where steps are automatic."""
        known, automatic = super()._measured(plan, kernel, sample, data)
        if plan.default:
            return known, automatic
        loss, y = self.targets_.loss, self.targets_.in_units(data.y)
        in_units = self.risk is None or self.targets_.centre is not None
        chosen = not (in_units and isinstance(self.step_size, str))
        if not chosen:
            automatic.curvature = curvature_at(loss, automatic.curvature, target_unit(y))
        expansion = plan.expansion

        def reach() -> float:
            step = self._steps(automatic, expansion)
            return float(automatic.of_batch(1) if step is automatic else step(1))

        told = reach if chosen else None
        encoded = self.targets_.encode(data.y)
        warn_of_targets(loss, kernel, y, encoded, told, solves=solves(expansion))
        return known, automatic

    @property
    def y_scale_(self) -> Array:
        """Standard deviation of each target with ``normalize_y``, else 1; shape (n_targets,).

        Predictions are ``y_scale_`` times the learned function, plus ``intercept_``.
        """
        self._fitted()
        scale = self.targets_.scale
        return np.ones(self.targets_.n_targets) if scale is None else scale.copy()

    @property
    def n_targets_(self) -> int:
        """Number of targets."""
        self._fitted()
        return self.targets_.n_targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # -- single rows ----------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one row; a step of its own.

        A model that begins this way takes the default of streams
        (:class:`~mercer.expansions.Stream`). With another expansion it fixes the length scale of
        the kernel, the automatic step size and tolerance on that one row, and cannot know better:
        start with a ``partial_fit`` of some hundred typical rows then, or give numbers.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read by the names of the first row, sorted. In the default of streams
            others may come and go, and NaN or None say nothing; else every row must have the same.
        y : float, date, text such as ``$1,200``, or array-like of shape (n_targets,)
            Target.
        sample_weight : float, default=1.0
            Weight of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        if isinstance(y, str | date | time | np.datetime64):
            if not hasattr(self, "learner_"):
                learn_as_batch(self, x, [y], sample_weight)
                return self
            if self.target_form_ is None:
                raise ValueError(f"The target must be a number, as those before are, got {y!r}.")
            y = self.in_numbers([y])[0]
        target = np.array(y, dtype=np.float64, ndmin=1)
        if not hasattr(self, "learner_"):
            learn_as_batch(
                self, x, target if np.ndim(y) == 0 else target[np.newaxis], sample_weight
            )
            return self
        known = self.targets_
        if target.shape != (known.n_targets,):
            raise ValueError(
                f"The target must be {known.n_targets} finite number(s), got shape {target.shape}."
            )
        if not 0.0 <= sample_weight < math.inf:
            raise ValueError(
                f"`sample_weight` must be finite and not negative, got {sample_weight!r}."
            )
        if not self._is_tuned() or self._columns is not None:
            learn_as_batch(self, x, target[np.newaxis], sample_weight)
            return self
        try:
            row = vector_to_learn(self, x)
        except (TypeError, ValueError):
            if learn_text(self, x, target[np.newaxis], sample_weight):
                return self
            raise
        learn_row(self, row, known.encode(target)[0], sample_weight)
        remember_names(self, x)
        return self

    def predict_one(self, x: Any) -> Any:
        """Prediction for one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        y : float or ndarray of shape (n_outputs,)
            0.0 before the first row was learned: River's loops predict first.
        """
        if not hasattr(self, "learner_"):
            return 0.0
        values = self.as_written(self.targets_.predict(score_one(self, x)[np.newaxis]))[0]
        return float(values) if self.target_form_ is None and np.ndim(values) == 0 else values

    # -- prediction -----------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted targets.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Like the targets that were learned; with several quantile levels (n_samples,
            n_targets * n_levels), the levels of the first target first.
        """
        scores = self.scores(X)
        return self.as_written(self.targets_.predict(scores))

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
        from mercer.answers.intervals import intervals
        from mercer.estimators.evidence import evidence_of

        return self.as_written(intervals(evidence_of(self), X, coverage, method))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², or for several quantile levels D², the explained share of the pinball loss.

        R² is one less the squared error over that of the mean of ``y``. D² is one less the pinball
        loss, averaged over rows and levels, over that of the quantiles of ``y``:
        :func:`sklearn.metrics.d2_pinball_score` with numerator and denominator averaged over the
        levels. Both are 1 at best, 0 for the best constants, and averaged over targets.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Of fewer than two rows NaN, with a warning.

        Raises
        ------
        ValueError
            If ``y`` has another shape than the targets that were learned.
        """
        scores = self.scores(X)
        y, predicted, loss = self.in_numbers(y), self.targets_.predict(scores), self.loss_
        if not isinstance(loss, Quantile) or loss.n_scores(1) == 1:
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        targets = finite_or_where(
            lambda: check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"), None, y
        )
        weights = check_weights(sample_weight, len(predicted))
        return loss.explained(targets, predicted, weights)
