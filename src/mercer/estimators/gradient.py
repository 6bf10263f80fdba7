"""Gradients of regressions on streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from mercer.component import own_copy
from mercer.estimators.estimator import numeric_rows
from mercer.estimators.fitting import Callback, Data, Given, TaskEstimator
from mercer.estimators.inputs import check_weights
from mercer.estimators.start import Plan
from mercer.estimators.targets import Outputs, TaskTargets, plain_order, plain_targets, usual_unit
from mercer.exceptions import ParameterError
from mercer.expansions import Expansion
from mercer.kernels import Gaussian, Kernel
from mercer.learning import AutomaticStep, automatic_step
from mercer.losses import Loss, RegressionLoss, as_loss
from mercer.model_file import storable
from mercer.objectives import LocalChanges
from mercer.objectives.local_changes import local_curvatures, neighbours
from mercer.records import Config, Record
from mercer.validation import check_integer, integer, or_auto, positive, real

Array = NDArray[np.float64]

# Squares of widths are numbers.
_NARROWEST, _WIDEST = 1e-150, 1e150
_WIDTH = real(low=_NARROWEST, high=_WIDEST, why="It is the distance of neighbours.")
_MEASURED = 4000  # rows, repeated ones included, whose curvature is measured


@dataclass(frozen=True)
class Changes(TaskTargets):
    """Targets of which the gradient is learned.

    Attributes
    ----------
    loss : RegressionLoss
        Loss of a change.
    width : float
        Distance at which rows stop being neighbours; 0 before it is measured.
    n_scores : int
        Number of inputs.
    n_partners : int
        Partners of a row in a full batch.
    unit, nearness : float
        Units of the objective (:class:`mercer.objectives.LocalChanges`).
    """

    loss: RegressionLoss
    width: float
    n_scores: int = 1
    n_partners: int = 1
    unit: float = 1.0
    nearness: float = 1.0

    _record = Record(
        loss=Config(RegressionLoss, lambda loss: loss.of_residuals),
        targets=Record(
            n_scores=integer(low=1),
            width=_WIDTH,
            n_partners=integer(low=1),
            unit=positive(),
            nearness=real(low=0.0),
        ),
    )

    @property
    def outputs(self) -> Outputs:
        return Outputs.of_targets(self.n_scores)

    def answers(self, scores: Array) -> Array:
        return scores

    def objective(self, automatic: AutomaticStep | None) -> LocalChanges:
        width = self.width or 1.0
        return LocalChanges(self.loss, width, self.n_partners, self.unit, self.nearness)

    def encode(self, y: Any, groups: Any = None) -> Array:
        return np.asarray(y, dtype=np.float64).reshape(-1, 1)

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        rows = sample if isinstance(sample, np.ndarray) else sample.toarray()
        width, generator = self.width, np.random.RandomState(0)
        if not width:
            typical: Any = Gaussian("half-median").resolve(rows, generator)
            width = max(float(typical.length_scale / np.sqrt(rows.shape[1])), _NARROWEST)
        # Of batches as steps see them: where neighbours are few, some rows have many by chance.
        size = min(self.n_partners + 1, len(rows))
        unit, nearness, n = 0.0, [], max(size - 1, self.n_partners)
        for _ in range(-(-_MEASURED // size)):
            centred, near = neighbours(rows[generator.permutation(len(rows))[:size]], width)
            curvatures = local_curvatures(centred, near)
            unit = max(unit, float(np.linalg.eigvalsh(curvatures)[:, -1].max()) / n)
            nearness.append(float(near.sum() / (size * n)))
        known = replace(self, width=width, unit=unit or 1.0, nearness=float(np.mean(nearness)))
        curvature = 1.0 if self.loss.curvature is None else self.loss.curvature
        return known, automatic_step(kernel, sample, curvature, 1.0)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        return automatic

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        return usual_unit(automatic)


@storable
class KernelGradient(TaskEstimator):
    r"""Learn the gradient of a regression function, without the function itself.

    Minimises :math:`E\,w(x - x')\,\ell\bigl(f(x)\cdot(x - x'),\,y - y'\bigr) +
    \frac{\lambda}{2}\|f\|^2` over fields f with one output for each input, all in the RKHS of the
    kernel. w is 1 for rows at the same place and falls to 0 at a distance of a few ``width``. Where
    y changes smoothly with x, f is its gradient: which inputs matter, how much and where. All rows
    of a step are paired with each other, so steps need two rows at least.

    Parameters
    ----------
    loss : str or RegressionLoss, default="squared"
        Loss of a change: "squared", "huber", "absolute_error" or another one of residuals.
    width : float or "auto", default="auto"
        s in :math:`w(x) = e^{-\|x\|^2 / (2 s^2)}`: wide averages away noise and curvature alike.
        "auto" is half the median distance of rows, divided by the root of the number of inputs.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel of each output (:mod:`mercer.kernels`); not ``"auto"``, for f is the gradient in the
        inputs as they are. Standardise them before.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`); ``"auto"`` is ``KOMP(max_size=1000)``. Random
        features must have ``mode="faithful"`` or ``"solve"``.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it.
    regularization : float or schedule, default=1e-3
        Ridge parameter lambda, for the objective in units of its largest curvature.
    batch_size : int, default=64
        Rows per step, 2 at least: each is paired with all others of its step.
    n_passes : int, default=10
        Passes of ``fit`` over the data, in which rows meet other partners.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³
        (``"suffix"``), the plain mean (``"polyak"``), or the last iterate (None).
    n_jobs : int or None, default=None
        Threads of predictions; -1 for all cores. Learning by steps uses one core. Not stored in
        files.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample used by automatic choices.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    width_ : float
        Distance at which rows stop being neighbours.
    loss_ : RegressionLoss
        The loss in use.
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_features_in_)
        Coefficients: f(x) = Σ_i coefficients_[i] · kernel_(dictionary_[i], x).
    model_order_, kernel_, n_samples_seen_, history_, n_features_in_
        As in :class:`mercer.KernelRegressor`.

    Notes
    -----
    Explanations and ``feature_importances_`` are of the components of the gradient: where y is
    linear nothing explains them. :meth:`gradient_products` says which inputs change y.

    References
    ----------
    Mukherjee and Zhou (2006), "Learning coordinate covariances via gradients". Ying and Zhou name
    gradient learning in Section 1, as an instance of learning from pairs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(1000, 3))
    >>> y = np.sin(X[:, 0]) + 2.0 * X[:, 1]  # the third input does not matter
    >>> model = KernelGradient(random_state=0).fit(X, y)
    >>> np.abs(model.predict([[0.0, 0.0, 0.0]])).round(0)  # exactly: 1, 2, 0
    array([[1., 2., 0.]])
    """

    _targets_type = Changes
    targets_: Changes

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        width: float | str = "auto",
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | Callable[[int], float] = 1e-3,
        batch_size: int = 64,
        n_passes: int = 10,
        shuffle: bool = True,
        average: str | None = "suffix",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.width = width
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, callback: Callback = None) -> Self:
        """Learn all rows from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and used in computations, all other types become float64.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in both positions of a pair.
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
            If the step size is too large for the data; the model is unchanged.
        """
        return self._fit(Given(X, y, sample_weight), callback)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows, in order, ``batch_size`` at a time; a row alone teaches nothing.

        The first call fixes all automatic choices on its rows: the length scale of the kernel, the
        width, the step size and the tolerance. Start with some hundred typical rows, or give
        numbers.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As in :meth:`fit`.

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
        return self._partial_fit(Given(X, y, sample_weight, more=True))

    def _checked(self, given: Given, known: Changes | None, plan: Plan) -> Data:
        X, y = numeric_rows(
            self,
            given.X,
            given.y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=known is None,
            y_numeric=True,
        )
        y = column_or_1d(plain_targets(y), warn=True)
        weights = check_weights(given.sample_weight, X.shape[0], some=not given.more)
        if known is None:
            width = 0.0 if self._chooses("width") else float(self.width)
            known = Changes(own_copy(self._loss()), width, X.shape[1], plan.batch_size - 1)
        return Data(X, y, weights, known, partial(plain_order, X.shape[0]))

    def _loss(self) -> RegressionLoss:
        """Return the loss, or raise ``ValueError`` if it is none of residuals."""
        loss = as_loss(self.loss, "regression")
        if not (isinstance(loss, RegressionLoss) and loss.of_residuals and loss.n_scores(1) == 1):
            raise ParameterError(
                f"`loss` must be one of residuals, got {self.loss!r}: a change of y is compared "
                "with the change that the gradient says.",
                parameter="loss",
                value=self.loss,
                mend="Use 'squared', 'huber' or 'absolute_error'.",
            )
        return loss

    def _check_changes(self, plan: Plan) -> None:
        """Refuse invalid or contradictory parameters of gradients."""
        self._loss()
        or_auto(_WIDTH)("width", self.width)
        check_integer("batch_size", self.batch_size, low=2, why="Its rows are paired.")
        if self._chooses("kernel"):
            raise ParameterError(
                "`kernel='auto'` maps the inputs, and the gradient would be one in mapped inputs.",
                parameter="kernel",
                value=self.kernel,
                mend="Use kernel='gaussian', and standardise the inputs before.",
            )

    _checks = (*TaskEstimator._checks, _check_changes)

    # -- answers --------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """Return the gradient at each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        gradients : ndarray of shape (n_samples, n_features)
            Change of y for a unit of each input.
        """
        return self.scores(X)

    def gradient_products(self, X: Any) -> Array:
        """Return the mean product of each two components of the gradient.

        Directions with large eigenvalues are those in which y changes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Rows to take the mean over.

        Returns
        -------
        products : ndarray of shape (n_features, n_features)
            As :func:`mercer.maps.full_metric` takes them.
        """
        gradients = self.predict(X)
        products: Array = gradients.T @ gradients / len(gradients)
        return products

    @property
    def width_(self) -> float:
        """Distance at which rows stop being neighbours."""
        self._fitted()
        return self.targets_.width

    @property
    def loss_(self) -> RegressionLoss:
        """The loss in use."""
        self._fitted()
        return self.targets_.loss

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
