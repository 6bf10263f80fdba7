"""Kernel regression on streams."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mercer.component import own_copy
from mercer.estimators.fitting import Data, Given, LossEstimator
from mercer.estimators.inputs import HEAVIEST, check_weights
from mercer.estimators.one_row import learn_as_batch, learn_target, score_one
from mercer.estimators.start import Plan, centre_of, mean_and_deviation, solves
from mercer.estimators.targets import (
    Numbers,
    Targets,
    curvature_at,
    score_of,
    target_unit,
    warn_of_targets,
)
from mercer.exceptions import ParameterError
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep
from mercer.losses import Loss, Poisson, Quantile, as_loss
from mercer.model_file import storable
from mercer.risks import Risk
from mercer.threads import jobs

Array = NDArray[np.float64]


@storable
class KernelRegressor(RegressorMixin, LossEstimator):
    r"""Kernel regressor trained on a stream in bounded memory.

    Minimises :math:`E\,l(f(x), y) + \frac{\lambda}{2}\|f\|^2` over the RKHS of the kernel. It takes
    functional stochastic gradient steps, or solves for f if the expansion keeps the sums needed for
    that; the expansion keeps f small. The defaults (:class:`~mercer.expansions.Auto`) need no
    tuning. With a kernel of your own, expansions other than the default have no intercept: set
    ``normalize_y=True``, and scale counts, for example with
    :class:`sklearn.compose.TransformedTargetRegressor`. A
    :class:`~mercer.exceptions.TargetScaleWarning` says where that is needed.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        ``"squared"``, ``"absolute_error"``, ``"huber"``, ``"epsilon_insensitive"``,
        ``"quantile"``, ``"poisson"``, ... (:mod:`mercer.losses`). ``Quantile([0.1, 0.5, 0.9])``
        predicts several levels at once.
    risk : Risk, str or None, default=None
        Risk of the loss to minimise (:mod:`mercer.risks`): None for the mean, ``"cvar:0.9"`` or
        ``CVaR(0.9)`` for the mean of the worst tenth, ``UpperSemideviation()``, ``Semivariance()``,
        ``Entropic()``, ... Risks reduce large losses and raise the mean loss. Against outliers use
        a robust loss such as ``"huber"`` instead, which does the opposite.
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`). ``"auto"`` is a Gaussian kernel on scaled inputs: a race on
        the first rows chooses the scaling and, for learning by sums, the length scale. Learning by
        steps also centres the target (``intercept_``). For sparse rows, or fewer than 20 rows in
        the first call, ``"auto"`` means ``"gaussian"``. Any other kernel takes inputs as they are.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`). ``"auto"`` is
        :class:`~mercer.expansions.Auto`: a race on the first rows chooses everything but a
        ``kernel`` that you give, and second-order sums learn each row once. With a loss other than
        ``"squared"``, or under a ``risk``, the sums fit the mean, and a correction learned on
        held-out rows turns it into the minimiser. With a ``step_size``, or a risk with a ``clip``
        or another ``tracker``, ``"auto"`` is ``KOMP(max_size=1000)``, which learns by steps. With a
        loss whose scores are not in the unit of the targets, except for counts, it is a
        :class:`~mercer.expansions.Dictionary`, whose kernel the race chooses. If a model starts
        with ``learn_one``, or with fewer than 256 dense rows in ``partial_fit``, it is
        :class:`~mercer.expansions.Stream`: several models learn side by side, with the squared loss
        and no risk.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to the step size.
        ``"auto"`` takes a large safe step for the kernel, the loss and the batch size
        (:class:`mercer.learning.AutomaticStep`). For losses with bounded slopes (absolute error,
        Huber, quantiles, ...) and no risk, it is in the unit of the first call's targets.
    regularization : float, schedule or "auto", default="auto"
        Ridge parameter lambda, or a callable from the step number (1, 2, ...) to it, for learning
        by steps. ``"auto"`` is chosen by the race, or 1e-6, in the unit of the
        steps, for learning by steps.
    batch_size : int, default=32
        Rows per step. A ``partial_fit`` of at most this many rows is exactly one gradient step;
        Newton steps use at least 256 rows. Learning by sums does not use it, and the default
        expansion then refuses other values.
    n_passes : int, default=1
        Passes of ``fit`` over the data, at least, for learning by steps. The default expansion
        refuses more than one.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Which coefficients predict, for learning by steps: a mean of the iterates with weights that
        grow like t³ and so forget the first ones (``"suffix"``), the plain mean (``"polyak"``), or
        the last iterate (None), as in the papers, which follows drift faster. An expansion bounds
        the compression error of the iterate; averaged coefficients are refitted in the same way.
        ``Full(max_size)`` drops points too soon for an average, so it uses the last iterate.
    normalize_y : bool, default=False
        Whether to centre the targets and divide them by their standard deviation, both from the
        first call's rows; predictions are in the original units. Parameters of the loss, such as
        ``delta`` of a Huber loss, and the losses in ``history_`` are then in the new unit. For
        learning by steps only: the default expansion scales targets by itself and refuses this. Not
        for counts.
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Columns of numbers that are categories: a mask, positions or names. ``"from_dtype"``:
        columns whose type is categorical. The meaning of other table columns is detected, see
        ``audit_``; so are columns of numbers that are codes, also of arrays. None refuses columns
        of text, and takes all numbers as numbers.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions, for learning by sums; -1 for all cores.
        None is 1, unless a ``joblib.parallel_config`` says otherwise. The model is the same bit for
        bit. Learning by steps uses one core. Not stored in files.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample used by automatic choices.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: f(x) = intercept_ + y_scale_ Σ_i coefficients_[i] k(dictionary_[i], x).
    intercept_ : ndarray of shape (n_outputs,)
        Constant term: ``level_``, plus the centre if the targets were centred; else 0.
    y_scale_ : ndarray of shape (n_targets,)
        Standard deviation of each target with ``normalize_y``, else 1.
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        Kernel with its numbers resolved; a :class:`~mercer.kernels.Mapped` kernel for ``"auto"``.
    parts_ : list of mercer.functions.FittedPart
        With the default expansion: the parts whose sum is f. Each has a kernel, a dictionary and
        coefficients; ``kernel_``, ``dictionary_`` and ``coefficients_`` exist if there is one part
        on one dictionary, ``coefficients_`` only with the squared loss.
    correction_ : mercer.sums.Correction or None
        With the default expansion, if the loss is not squared or there is a risk: what is added to
        the sum of the parts, which estimates the mean.
    race_ : list of dict
        With the default expansion: candidates of the race and their errors.
    block_length_ : int
        With the default expansion: number of consecutive rows held out together; more than 1 if
        neighbouring rows are alike, as in a time series.
    loss_ : Loss
        The loss in use.
    risk_ : Risk or None
        The risk in use.
    value_at_risk_ : float
        With a CVaR only: its estimate of the quantile of the loss.
    n_samples_seen_ : int
        Rows learned, counted in every pass.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    n_features_in_ : int
        Number of columns of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if rows came as a table with text names.
    preprocessor_ : mercer.columns.TablePreprocessor or None
        Encodes the columns of tables. None if the columns are numbers without missing values, and
        in the default for streams, which skips missing values and gives each new category an input.
    audit_ : mercer.columns.audit.TableAudit
        What each column is, and how many inputs it became, as a printable table. Exists only with a
        ``preprocessor_``.
    roles_ : mercer.estimators.inputs.Roles or None
        Target, group and time columns of the files that the model was trained on.
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
        regularization: float | str | Callable[[int], float] = "auto",
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
        """Learn more rows, in order, ``batch_size`` at a time.

        A first call with fewer than 256 rows starts the default for streams
        (:class:`~mercer.expansions.Stream`), which adapts its choices over time. Any other
        expansion fixes its automatic choices (length scale, step size, tolerance) on the rows of
        the first call: start with some hundred typical rows, or give numbers.

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
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
        """
        return self._partial_fit(Given(X, y, sample_weight, more=True))

    def _check_loss(self, plan: Plan) -> None:
        """Refuse invalid or contradictory parameters of a regressor."""
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
            codes=plan.races and given.held_by.groups is None and given.held_by.time is None,
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
        """Return the record of the targets, made from the first rows."""
        loss, risk = own_copy(as_loss(self.loss, "regression")), self._asked_risk()
        centre, scale = centre_of(loss, y, weights) if plan.maps else None, None
        if self.normalize_y:
            centre, scale = mean_and_deviation(y, weights)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        return Numbers(loss, risk, n_targets, y.ndim == 1, centre=centre, scale=scale)

    def _measured(
        self, plan: Plan, kernel: Kernel, sample: Any, data: Data
    ) -> tuple[Targets, AutomaticStep]:
        """Return the record and the safe steps, in the targets' unit if steps are automatic."""
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
        """Learn one row in one step.

        A model that starts this way uses the default for streams
        (:class:`~mercer.expansions.Stream`). Any other expansion fixes the length scale, the
        automatic step size and the tolerance on this one row, which is too little: start with a
        ``partial_fit`` of some hundred typical rows, or give numbers.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read in the sorted order of the names in the first row. In the default
            for streams, names may come and go, and NaN or None count as missing; otherwise every
            row must have the same names.
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
            For a row of the wrong length or with missing values; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
        """
        if isinstance(y, str | date | time | np.datetime64):
            if not hasattr(self, "learner_"):
                learn_as_batch(self, x, [y], sample_weight)
                return self
            if self.target_form_ is None:
                raise ValueError(f"The target must be a number, as those before are, got {y!r}.")
            y = self.in_numbers([y])[0]
        try:
            target = np.array(y, dtype=np.float64, ndmin=1)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"The target must be a number, got {y!r}: {error}.") from error
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
        if not 0.0 <= sample_weight <= HEAVIEST:
            check_weights([sample_weight], 1)  # which says why not
        if not self._is_tuned() or self._columns is not None:
            learn_as_batch(self, x, target[np.newaxis], sample_weight)
            return self
        learn_target(self, x, target, known.encode(target)[0], sample_weight)
        return self

    def predict_one(self, x: Any) -> Any:
        """Predict the target of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        y : float or ndarray of shape (n_outputs,)
            0.0 before any row was learned, since River's loops predict first.
        """
        if not hasattr(self, "learner_"):
            return 0.0
        values = self.as_written(self.targets_.predict(score_one(self, x)[np.newaxis]))[0]
        return float(values) if self.target_form_ is None and np.ndim(values) == 0 else values

    # -- prediction -----------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict targets.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the shape of the learned targets; with several quantile levels (n_samples, n_targets
            * n_levels), the levels of the first target first.
        """
        scores = self.scores(X)
        return self.as_written(self.targets_.predict(scores))

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, method: str = "auto"
    ) -> NDArray[np.float64]:
        r"""Predict intervals that contain the target for a share ``coverage`` of the rows.

        Conformal prediction (:mod:`mercer.conformal`) on rows that the model kept back
        (``held_out_``) or that were given to ``calibrate``. If new rows come from the same
        distribution, the share holds for any distribution, on average over rows. It is not
        guaranteed for each kind of row, nor if the data change. For a stream, widths follow the
        recent errors (:class:`mercer.conformal.AdaptiveConformal`).

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        coverage : float, default=0.9
            Share of rows, between 0 and 1, whose interval contains the target.
        method : {"auto", "normalized", "split", "quantile"}, default="auto"
            ``"split"``: intervals of one width. ``"normalized"``: widths in proportion to the
            expected error at each row. ``"quantile"``: between two learned quantiles, widened to
            reach the coverage; the lowest and highest quantile of the model, if its loss has
            several. See :class:`mercer.conformal.ConformalIntervals`. ``"auto"`` is ``"quantile"``
            for such a loss, ``"split"`` for a stream, else ``"normalized"``.

        Returns
        -------
        intervals : ndarray of shape (n_samples, 2), or (n_samples, 2, n_targets)
            Lower and upper ends, for each target if there are several.

        Raises
        ------
        ValueError
            For an invalid parameter, or without enough rows that the model has not learned.

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

        with jobs(self.n_jobs):
            return self.as_written(intervals(evidence_of(self), X, coverage, method))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², or for several quantile levels D², the explained share of the pinball loss.

        R² is 1 minus the squared error divided by the squared error of the mean of ``y``. D² is 1
        minus the mean pinball loss over rows and levels, divided by the pinball loss of the
        quantiles of ``y``: :func:`sklearn.metrics.d2_pinball_score`, with numerator and denominator
        averaged over the levels. Both are 1 at best, 0 for the best constants, and averaged over
        targets.

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
            NaN, with a warning, for fewer than two rows.

        Raises
        ------
        ValueError
            If ``y`` has another shape than the learned targets, or its squares are beyond what
            numbers hold.
        """
        scores = self.scores(X)
        predicted, loss = self.targets_.predict(scores), self.loss_
        is_band = isinstance(loss, Quantile) and loss.n_scores(1) > 1
        measure: Callable[..., float] = loss.explained if is_band else r2_score
        return score_of(measure, self.in_numbers(y), predicted, sample_weight)
