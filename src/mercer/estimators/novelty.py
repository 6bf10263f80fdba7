"""Novelty detection on streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from mercer.estimators.estimator import numeric_rows
from mercer.estimators.fitting import Callback, Data, Given, TaskEstimator, all_or_nothing
from mercer.estimators.inputs import check_weights
from mercer.estimators.kept_rows import KeptRows
from mercer.estimators.one_row import learn_as_batch, learn_row, remember_names, score_one, vector
from mercer.estimators.start import Plan
from mercer.estimators.targets import TaskTargets, no_loss, plain_order, usual_unit
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep, automatic_step
from mercer.model_file import storable
from mercer.numerics.philox import row_uniforms
from mercer.objectives import Novelty
from mercer.objectives.objective import lower_quantile
from mercer.records import IfAny, Part, Record
from mercer.schedules import InverseTime
from mercer.threads import jobs
from mercer.validation import check_real, or_auto, or_none, positive, real

if TYPE_CHECKING:
    from mercer.answers.explain import Explained

Array = NDArray[np.float64]

_KEPT = 1000  # rows on which a stream's offset is measured
_MEASURED = 10_000  # rows on which the offset is measured after `fit`


@dataclass(frozen=True)
class Sampled(TaskTargets):
    """A sample of the rows in place of targets, which novelty detection does not have.

    Attributes
    ----------
    nu : float
        Share of the rows that count as novel.
    kept : KeptRows
        Sample of the stream's rows, for the quantile.
    offset : float or None
        Quantile of the scores; None if it must be measured again.
    unit : float or None
        Unit of the threshold of the descent; None for the automatic one.
    """

    loss = None

    nu: float
    kept: KeptRows
    offset: float | None = None
    unit: float | None = None

    _record = Record(
        loss=no_loss,
        targets=Record(
            nu=real(low=0.0, high=1.0, open_low=True),
            offset=or_none(real()),
            kept=Part(KeptRows, "n_features"),
            unit=IfAny(positive()),
        ),
    )

    @property
    def sample(self) -> KeptRows:
        return self.kept

    def answers(self, scores: Array) -> Array:
        """Return scores minus the offset: below 0 for novel rows."""
        assert self.offset is not None
        return scores[:, :1] - self.offset

    def keep(self, X: Any, weights: Array) -> Sampled:
        """Return the record after more rows."""
        return replace(self, kept=self.kept.extended(X, weights, _KEPT), offset=None)

    def objective(self, automatic: AutomaticStep | None) -> Novelty:
        if self.unit is not None:
            return Novelty(self.nu, self.unit)
        return Novelty(self.nu, 1.0 if automatic is None else automatic.top_eigenvalue)

    def encode(self, y: Any, groups: Any = None) -> Array:
        return np.zeros((y.shape[0], 1))

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        return self, automatic_step(kernel, sample, 1.0, 1.0)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        # 1 / (nu (t + 1 / nu)): the rate of DSG, Theorem 4. The first step makes f the mean of
        # the kernels at its rows, which is the right size from the beginning.
        return InverseTime(1.0, offset=1.0 / self.nu)

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        return usual_unit(automatic)


@storable
class NoveltyDetector(OutlierMixin, TaskEstimator):
    r"""Find rows unlike the learned ones, on a stream and in bounded memory.

    Minimises :math:`E \max(0, \tau - f(x)) + \frac{\nu}{2}\|f\|^2 - \nu\tau` over f and the
    threshold :math:`\tau` by stochastic gradient steps; the expansion keeps f small. The minimiser
    is the one-class support vector machine. f is a weighted mean of kernels at the least common
    rows, so scores are of the size of kernel values: :class:`sklearn.svm.OneClassSVM` has the same
    scores times :math:`\nu n`.

    Parameters
    ----------
    nu : float, default=0.1
        Share of the rows that count as novel, in (0, 1]; also the ridge parameter. It cannot be
        changed on a running stream.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel (:mod:`mercer.kernels`); ``"auto"`` is a Gaussian kernel on standardised inputs. Use
        kernels that depend only on the distance; with others a large score means a long row.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`); ``"auto"`` is ``KOMP(max_size=1000)``. Random
        features must have ``mode="faithful"``.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it. ``"auto"`` is
        ``InverseTime(1, 1 / nu)``, with which all rows finally have the same weight. A constant
        step, below ``1 / nu``, follows drift.
    threshold_unit : float or "auto", default="auto"
        Where the threshold of the descent starts, and the factor of its steps, above 0. 1 gives the
        steps of the paper. ``"auto"`` is the top eigenvalue of the kernel matrix of some first rows
        over their number, the size of f at the minimum: shorter steps do not take the threshold far
        below every f at first. It cannot be changed on a running stream.
    batch_size : int, default=32
        Rows per step. A ``partial_fit`` of at most this many rows is exactly one step.
    n_passes : int, default=1
        Passes of ``fit`` over the data.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³
        (``"suffix"``), the plain mean (``"polyak"``), or the last iterate (None).
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
    offset_ : float
        Rows with a lower score are novel: the ``nu`` quantile of the scores of learned rows. After
        ``fit`` it is measured on its rows (at most 10,000 of them), later on a uniform sample of
        1,000 rows of the stream, which the model keeps.
    threshold_ : float
        Threshold of the descent, :math:`\tau`, after the last step.
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, 1)
        Coefficients: f(x) = Σ_i coefficients_[i] · kernel_(dictionary_[i], x).
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved.
    n_samples_seen_ : int
        Rows learned, counted in every pass.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    n_features_in_ : int
        Number of inputs.

    Notes
    -----
    The threshold of the descent, ``threshold_``, is not used as the offset: many rows lie exactly
    at it, so noise decides which of them are below, and only about half of the share nu is. Hence
    the quantile.

    References
    ----------
    DSG, Section 4, "Kernel Novelty Detection": ``threshold_unit=1``, ``average=None`` and
    ``batch_size=1`` are its steps.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> model = NoveltyDetector(nu=0.05, n_passes=5, random_state=0).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    >>> float((model.predict(X) < 0).mean())
    0.05
    """

    _targets_type = Sampled
    targets_: Sampled

    def __init__(
        self,
        nu: float = 0.1,
        *,
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        threshold_unit: float | str = "auto",
        batch_size: int = 32,
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = "suffix",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.threshold_unit = threshold_unit
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        callback: Callback = None,
    ) -> Self:
        """Learn all rows from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and used in computations, all other types become float64.
        y : None
            Not used.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for the loss and for the quantile.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; stops the
            fit if it returns a true value.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the kernel is unbounded and values overflow; the model is unchanged.
        """
        with all_or_nothing(self):
            self._fit(Given(X, y, sample_weight), callback)
            self._measure(X, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in order, ``batch_size`` at a time.

        The first call fixes all automatic choices on its rows: the length scale of the kernel and
        the tolerance. Start with some hundred typical rows, or give numbers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : None
            Not used.
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
            If the kernel is unbounded and values overflow; the model is unchanged.
        """
        return self._partial_fit(Given(X, y, sample_weight, more=True))

    def learn_one(self, x: Any, sample_weight: float = 1.0) -> Self:
        """Learn one row in one step.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read in the sorted order of the names in the first row; every row must
            have the same names.
        sample_weight : float, default=1.0
            Weight of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values; the model is unchanged.
        """
        if not hasattr(self, "learner_") or not self._is_tuned():
            learn_as_batch(self, x, None, sample_weight)
            return self
        weight = check_real("sample_weight", sample_weight, low=0.0)
        row = vector(self, x)
        learn_row(self, row, np.zeros(1), weight)
        self.targets_ = self.targets_.keep(row[np.newaxis], np.array([weight]))
        remember_names(self, x)
        return self

    def _measure(self, X: Any, sample_weight: Any) -> None:
        """Measure the offset on rows of ``fit``."""
        X = self._inputs(X, reset=False)
        rows = np.sort(np.argsort(row_uniforms(0, X.shape[0]), kind="stable")[:_MEASURED])
        weights = check_weights(sample_weight, X.shape[0])[rows]
        if weights.any():
            self.targets_ = replace(self.targets_, offset=self._quantile(X[rows], weights))

    def _quantile(self, X: Any, weights: Array) -> float:
        with jobs(self.n_jobs):
            values = self._evaluate(X)
        quantile = lower_quantile(values[:, 0], weights, self.targets_.nu)
        # The row at the quantile must not be novel by a rounding error, so lower the offset a
        # little.
        function = self.learner_.function
        rounding = float(np.finfo(function.dtype).eps) * (16.0 + np.sqrt(function.size))
        return float(quantile - rounding * abs(quantile))

    def _checked(self, given: Given, known: Sampled | None, plan: Plan) -> Data:
        """Check rows; on a stream, start the sample for the quantile."""
        X = self._inputs(given.X, reset=known is None)
        weights = check_weights(given.sample_weight, X.shape[0], some=not given.more)
        if known is None:  # a changed `nu` takes effect with the next fit
            unit = None if self._chooses("threshold_unit") else float(self.threshold_unit)
            known = Sampled(float(self.nu), KeptRows.none(X.shape[1], X.dtype), unit=unit)
        return Data(X, X, weights, known.keep(X, weights), partial(plain_order, X.shape[0]))

    def _inputs(self, X: Any, *, reset: bool) -> Any:
        dtypes = [np.float64, np.float32]
        return numeric_rows(self, X, accept_sparse="csr", dtype=dtypes, reset=reset)

    @property
    def regularization(self) -> float:
        """Ridge parameter: the ``nu`` with which the model was started."""
        return self.targets_.nu if hasattr(self, "targets_") else self.nu

    def _check_share(self, plan: Plan) -> None:
        """Refuse an invalid ``nu``."""
        why = "It is the share of the rows to be called novel."
        check_real("nu", self.nu, low=0.0, high=1.0, open_low=True, why=why)

    def _check_unit(self, plan: Plan) -> None:
        """Refuse an invalid ``threshold_unit``."""
        why = "The threshold of the descent starts there."
        or_auto(positive(why))("threshold_unit", self.threshold_unit)

    _checks = (_check_share, *TaskEstimator._checks, _check_unit)

    # -- answers --------------------------------------------------------------------------------

    @property
    def offset_(self) -> float:
        """Score below which a row is novel."""
        self._fitted()
        kept, offset = self.targets_.kept, self.targets_.offset
        if offset is None:
            if kept.weights.size == 0:
                return 0.0  # no row with a weight yet, and f = 0
            offset = self._quantile(kept.rows, kept.weights)
            self.targets_ = replace(self.targets_, offset=offset)
        return offset

    @property
    def threshold_(self) -> float:
        """Threshold of the descent; see the class. Not the offset of the decisions."""
        learner = self._fitted()
        learner.current_function()  # includes rows that wait for a step
        objective: Any = learner.objective
        return float(objective.threshold)

    def score_samples(self, X: Any) -> Array:
        """Return values of f; lower values are more novel.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self.scores(X)[:, 0]

    def decision_function(self, X: Any) -> Array:
        """Return ``score_samples(X) - offset_``: below 0 for novel rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        decisions : ndarray of shape (n_samples,)
        """
        scores = self.score_samples(X)
        return scores - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for novel rows and +1 for the others.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def score_one(self, x: Any) -> float:
        """Return how novel one row is, as River's detectors do; larger values are more novel.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        score : float
            ``-score_samples``; 0.0 before any row was learned.
        """
        if not hasattr(self, "learner_"):
            return 0.0
        return -float(score_one(self, x)[0])

    def predict_one(self, x: Any) -> int:
        """Return whether one row is novel, as -1 or +1.

        After every learned row this measures ``offset_`` again on the 1,000 kept rows;
        :meth:`score_one` needs no offset and is far quicker.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        label : int
            -1 for a novel row, else +1; +1 before any row was learned.
        """
        if not hasattr(self, "learner_"):
            return 1
        return -1 if float(score_one(self, x)[0]) < self.offset_ else 1

    # -- explanations ---------------------------------------------------------------------------

    def _explained(self) -> Explained:
        """Return what explanations of the decisions need."""
        offset = self.offset_
        self.targets_ = replace(self.targets_, offset=offset)
        return super()._explained()
