"""Gaussian-process regression on random features or a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.component import Component, own_copy
from mercer.conformal import check_coverage
from mercer.estimators.estimator import Estimator, not_fitted, numeric_rows
from mercer.estimators.files import common_state, of_common_state
from mercer.estimators.fitting import all_or_nothing
from mercer.estimators.inputs import check_weights, resolve_kernel, sample_of, warn_user
from mercer.estimators.kept_rows import KeptRows, kept_from_state, kept_of
from mercer.estimators.targets import Outputs, score_of
from mercer.exceptions import TargetScaleWarning
from mercer.features import DESIGNS, FeatureOptions
from mercer.gaussian_process import (
    DescentPosterior,
    DictionaryPosterior,
    FeatureBlocks,
    FeaturePosterior,
    InducingPoints,
    Method,
    as_method,
)
from mercer.kernels import Kernel, as_kernel
from mercer.learning import AutomaticStep, automatic_step
from mercer.model_file import storable
from mercer.records import Config, IfAny, Record, Several
from mercer.sums import Statistics, check_sizes
from mercer.threads import check_jobs, jobs
from mercer.validation import check_choice, check_integer, check_real, integer, positive, truth

if TYPE_CHECKING:
    from mercer.answers.explain import Explained

Array = NDArray[np.float64]

_SETTINGS = Record(
    noise=positive(),
    normalize=truth(),
    n_features=IfAny(integer(low=1)),
    chunk=IfAny(integer(low=1)),
    method=IfAny(Config(Component, lambda one: isinstance(one, Method | InducingPoints))),
    step=IfAny(Several(positive(), 2)),
    row_seed=IfAny(integer(low=0, high=2**32 - 1)),
)

NOISE_WHY = "It is the variance of the observation noise, which divides everything."
# Targets whose mean square differs from the prior's by more than this factor have another unit.
_FAR = 100.0
# With fewer rows, targets may be near 0 by chance.
_ENOUGH_ROWS = 10


def _takes_rows_later(model: Any) -> bool:
    """Return whether a model supports ``partial_fit``; AttributeError if not."""
    if model.method not in ("features", "dictionary") and isinstance(
        as_method(model.method), Method
    ):
        raise AttributeError(
            f"`partial_fit` needs method='features' or 'dictionary', got {model.method!r}: descent "
            "regularises by noise / n, so all rows must be there from the start. Use `fit`."
        )
    return True


def _warn_of_targets(
    targets: Array, weights: Array, prior: NDArray[np.floating], noise: float
) -> None:
    """Warn if targets are far larger or smaller than kernel and noise suggest."""
    n_rows = np.count_nonzero(weights)
    if n_rows < _ENOUGH_ROWS or not np.isfinite(prior).all():
        return
    squares = np.average(targets**2, axis=0, weights=weights)
    squares = squares[squares > 0.0]
    noise *= n_rows / weights.sum()
    # Unbounded kernels grow with the inputs, but functions need not, so the least value counts.
    much, little = float(prior.mean()) + noise, float(prior.min()) + noise
    if (squares > _FAR * much).any():
        found, said, wrong = squares.max(), much, "small"
    elif (_FAR * squares < little).any():
        found, said, wrong = squares.min(), little, "large"
    else:
        return
    warn_user(
        f"The mean square of the targets is {found:.3g}, but kernel and `noise` say {said:.3g}: "
        f"error bars will be much too {wrong}. Set `normalize_y=True`, which puts `noise` in units "
        "of the targets' variance, and take the `noise` of the largest "
        "`log_marginal_likelihood(noise)`. Or give both in the targets' units: such as "
        "4.0 * Gaussian() for functions of standard deviation 2.",
        TargetScaleWarning,
    )


@storable
class GaussianProcessRegressor(RegressorMixin, Estimator):
    r"""Gaussian-process regression in memory that does not grow with the number of rows.

    The prior is :math:`f \sim GP(0, k)`, a row is :math:`y = f(x) + \epsilon` with :math:`\epsilon
    \sim N(0, \text{noise})`. The kernel is approximated by M random features, for which the
    posterior of DSG, eq. (9), is exact: mean, variance, covariance, samples and marginal
    likelihood, from sums over the rows that take M² numbers. Its distance from the posterior of the
    kernel itself falls like :math:`1 / \sqrt{M}`. Adding rows by ``partial_fit`` gives the same
    result as one ``fit`` on all rows, up to rounding.

    M features span at most M directions. If ``effective_dimension_`` comes near ``n_features``,
    variances far from the data become too small; use more features, or a larger length scale.

    With ``method="dictionary"``, M inducing points chosen from the first rows replace the random
    features, for any kernel and with sums of the same size (sparse Gaussian process). The part of
    the kernel that the points represent has the exact posterior; the rest keeps its prior variance.
    So variances err on the large side, and far from the data the prior returns. With as many points
    as rows this is the exact Gaussian process.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        Covariance of the prior (:mod:`mercer.kernels`); methods other than "dictionary" need a
        kernel with random features. Scale it, ``4.0 * Gaussian(1.0)``, to the variance of the
        function.
    noise : float, default=0.1
        Variance (not standard deviation) of the noise of one row, in units of the squared target;
        with ``normalize_y`` in units of the target's variance.
    n_features : int, default=2048
        Number of random features M of method "features". Learning a row costs M² operations, the
        first prediction after it M³/3, the variance of a prediction M². With method "dictionary",
        the number of features used to draw samples.
    method : {"features", "dictionary", "cyclic", "doubly_stochastic"} or object, default="features"
        How the posterior is found. "features" is exact on ``n_features`` features and the best
        choice up to some 10,000 of them. ``mercer.gaussian_process.InducingPoints(...)``
        ("dictionary") uses inducing points instead, for twice the operations per row.
        ``mercer.gaussian_process.Cyclic(...)`` finds the mean of "features" by block descent, in
        memory linear in the number of features. ``mercer.gaussian_process.Faithful(...)``
        ("doubly_stochastic") is the paper's algorithm, less accurate for the same time. The last
        two keep the rows and solve again for every variance, with errors that may exceed a small
        variance; they have no ``partial_fit``, samples or marginal likelihood.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        How the frequencies of the features are drawn; "auto" chooses the most accurate way.
    normalize_y : bool, default=False
        Whether to subtract the mean of the targets and divide by their standard deviation, as in
        scikit-learn. Without it the prior has mean 0 and the kernel's variance: centre the target,
        and choose kernel and ``noise`` in its units.
    batch_size : int, default=1024
        Number of rows whose features are computed at a time; limits memory and changes nothing
        else.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions, for learning by sums; -1 for all cores.
        None is 1, unless a ``joblib.parallel_config`` says otherwise. The model is the same bit for
        bit. Learning by steps uses one core. Not stored in files.
    random_state : int, RandomState instance or None, default=None
        Seed for the features or the dictionary, and for the sample that sets a length scale.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with its numbers resolved.
    coefficients_ : ndarray of shape (model_order_, n_targets)
        Mean weights: the posterior mean is ``random_features(X) @ coefficients_ + y_mean_``, or
        ``kernel_(X, dictionary_) @ coefficients_ + y_mean_`` for method "dictionary".
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Inducing points. Method "dictionary" only.
    model_order_ : int
        Number of random features or of inducing points.
    y_mean_ : ndarray of shape (n_targets,)
        Mean of the targets with ``normalize_y``, else 0.
    effective_dimension_ : float
        Number of features that the data determine, the trace of A (A + noise I)⁻¹ for
        A = Z'Z. Methods "features" and "dictionary" only.
    n_samples_seen_ : int
        Rows learned, without rows of weight 0.
    n_features_in_ : int
        Number of inputs.

    References
    ----------
    DSG, Section 4, "Gaussian Process Regression", eq. (9), (10) and (18).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> x = np.linspace(-3, 3, 50)[:, None]
    >>> model = GaussianProcessRegressor(Gaussian(1.0), noise=0.01, n_features=256, random_state=0)
    >>> mean, std = model.fit(x, np.sin(x[:, 0])).predict([[1.0], [9.0]], return_std=True)
    >>> mean.round(1) + 0.0, std.round(1)
    (array([0.8, 0. ]), array([0., 1.]))
    """

    posterior_: FeaturePosterior | DictionaryPosterior | DescentPosterior
    _flat: bool
    _n_targets: int

    #: Sample of the learned rows, for explanations.
    _kept: KeptRows | None = None

    def __init__(
        self,
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        *,
        noise: float = 0.1,
        n_features: int = 2048,
        method: str | Method | InducingPoints = "features",
        design: str = "auto",
        normalize_y: bool = False,
        batch_size: int = 1024,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.n_features = n_features
        self.method = method
        self.design = design
        self.normalize_y = normalize_y
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the posterior given all rows, from scratch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs; computations are in float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets; several targets share the kernel and are independent given it.
        sample_weight : array-like of shape (n_samples,), default=None
            The noise of row i has variance ``noise / sample_weight[i]``; rows of weight 0 are
            ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data; the model is unchanged.
        mercer.exceptions.DivergenceError
            If doubly stochastic steps are too large; the model is unchanged.

        Warns
        -----
        mercer.exceptions.TargetScaleWarning
            If, without ``normalize_y``, the mean square of the targets differs from what kernel and
            noise suggest by a factor above 100: error bars would be wrong by as much.
        """
        with all_or_nothing(self):
            self.check()
            self._learn_first(X, y, sample_weight)
        return self

    @available_if(_takes_rows_later)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the posterior; the order and the size of the calls do not matter.

        The first call fixes the features, and the length scale if it comes from data; the first
        rows fix the dictionary, in however many calls they come. A changed ``noise`` takes effect
        with the next call.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data; the model is unchanged.
        AttributeError
            For methods of descent.

        Warns
        -----
        mercer.exceptions.TargetScaleWarning
            As for :meth:`fit`, for the rows of the first call.
        """
        self.check()
        with all_or_nothing(self):
            if hasattr(self, "posterior_"):
                if isinstance(self.posterior_, DescentPosterior):
                    raise ValueError(
                        "The model was fitted by descent, to which no rows can be added: call "
                        "`fit` with all of them."
                    )
                X, targets, weights = self._check_rows(X, y, sample_weight, reset=False)
                self._kept = kept_of(self._kept, X, weights)  # first, as attributes are restored
                with jobs(self.n_jobs):
                    self.posterior_.learn(X, targets, weights)
                self.posterior_.set_noise(float(self.noise))
            else:
                self._learn_first(X, y, sample_weight)
        return self

    def _learn_first(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, targets, weights = self._check_rows(X, y, sample_weight, reset=True)
        generator = check_random_state(self.random_state)
        # Drawn first: the features must not depend on the number of rows.
        seeds = generator.randint(2**31, size=2)
        used = X[weights > 0.0]
        sample = used[sample_of(used.shape[0], generator)]
        with np.errstate(over="ignore", invalid="ignore"):
            self.kernel_ = resolve_kernel(own_copy(as_kernel(self.kernel)), sample, generator)
            if not self.normalize_y:
                prior = self.kernel_.diag(sample)
                _warn_of_targets(targets, weights, prior, float(self.noise))
        self.posterior_ = self._posterior(sample, targets.shape[1], *map(int, seeds))
        with jobs(self.n_jobs):
            self.posterior_.learn(X, targets, weights)
        self._kept = kept_of(None, X, weights)

    def _posterior(
        self, sample: Array, n_targets: int, seed: int, row_seed: int
    ) -> FeaturePosterior | DictionaryPosterior | DescentPosterior:
        """Return the posterior before learning."""
        method = None if self.method == "features" else own_copy(as_method(self.method))
        noise, normalize = float(self.noise), bool(self.normalize_y)
        if isinstance(method, InducingPoints):
            return DictionaryPosterior(
                method,
                self.kernel_,
                n_targets,
                noise=noise,
                normalize=normalize,
                chunk=self.batch_size,
                seed=seed,
                n_features=self.n_features,
                design=self.design,
            )
        blocks = FeatureBlocks(
            self.kernel_,
            self.n_features_in_,
            self.n_features if method is None else method.block_size,
            seed,
            FeatureOptions(paired=True, design=self.design),
        )
        if method is None:
            return FeaturePosterior(blocks, n_targets, noise, normalize, self.batch_size)
        with np.errstate(over="ignore", invalid="ignore"):
            step = automatic_step(self.kernel_, sample, curvature=1.0, boldness=1.0)
        return DescentPosterior(method, blocks, noise, normalize, step, row_seed)

    def check(self) -> None:
        """Raise an error for invalid parameters."""
        check_real("noise", self.noise, low=0.0, open_low=True, why=NOISE_WHY)
        check_integer("n_features", self.n_features, low=1)
        check_integer("batch_size", self.batch_size, low=1)
        check_choice("design", self.design, DESIGNS)
        check_jobs(self.n_jobs)
        if not isinstance(self.normalize_y, bool | np.bool_):
            raise ValueError(f"`normalize_y` must be True or False, got {self.normalize_y!r}.")
        as_kernel(self.kernel)
        if not isinstance(self.method, str) or self.method != "features":
            as_method(self.method)

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Array, Array, Array]:
        X, y = numeric_rows(
            self,
            X,
            y,
            dtype=np.float64,
            order="C",
            reset=reset,
            multi_output=True,
            y_numeric=True,
        )
        y = np.asarray(y, dtype=np.float64)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if reset:
            self._n_targets, self._flat = n_targets, y.ndim == 1
        elif n_targets != self._n_targets:
            raise ValueError(
                f"y has {n_targets} targets, but the model was started with {self._n_targets}."
            )
        targets = y.reshape(-1, n_targets)
        weights = check_weights(sample_weight, X.shape[0], some=reset)
        check_sizes(None, targets, weights)
        return X, targets, weights

    # -- answers --------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """Return the posterior mean, and its uncertainty if asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return posterior standard deviations as well.
        return_cov : bool, default=False
            Whether to return the posterior covariance between the rows as well.
        include_noise : bool, default=False
            Whether the uncertainty is of a new observation, f(x) plus noise; otherwise, as in
            scikit-learn, of the function f(x) itself.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Posterior mean, in the shape of the learned targets.
        std : ndarray like ``mean``
            Only with ``return_std``; for dates in the unit of ``target_form_``, such as days.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with ``return_cov``.

        Raises
        ------
        ValueError
            If both are asked for, or a covariance for a method of descent.
        """
        X = self._rows_to_predict(X)
        if return_std and return_cov:
            raise ValueError(
                "At most one of `return_std` and `return_cov` can be True: the standard deviations "
                "are the square roots of the covariance's diagonal."
            )
        with jobs(self.n_jobs):
            mean = self.as_written(self._shaped(self.posterior_.mean(X)))
            if not (return_std or return_cov):
                return mean
            noise = self._noise_of_targets() if include_noise else np.zeros(self._n_targets)
            if return_std:
                return mean, self._shaped(np.sqrt(self.posterior_.variance(X) + noise))
            covariance = self._exact("A covariance").covariance(X)
        covariance += np.eye(X.shape[0])[:, :, np.newaxis] * noise
        return mean, self._shaped(covariance)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the posterior mean: 1 minus its squared error over that of a constant.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            1 at best, averaged over targets; NaN, with a warning, for fewer than two rows.

        Raises
        ------
        ValueError
            If squares of the targets or predictions are beyond what numbers hold.
        """
        X, y = self._rows_to_predict(X), self.in_numbers(y)
        with jobs(self.n_jobs):
            mean = self._shaped(self.posterior_.mean(X))
        return score_of(r2_score, y, mean, sample_weight)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return intervals that contain a new observation with a given posterior probability.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Inputs.
        coverage : float, default=0.9
            The probability, between 0 and 1.

        Returns
        -------
        intervals : ndarray of shape (n_samples, 2), or (n_samples, 2, n_targets)
            Lower and upper ends: the mean plus and minus a multiple of the standard deviation of a
            new observation. The coverage is not calibrated on held-out rows, unlike in
            :meth:`mercer.KernelRegressor.predict_interval`.

        Raises
        ------
        ValueError
            If the coverage is not between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> x = np.linspace(-3, 3, 50)[:, None]
        >>> model = GaussianProcessRegressor(Gaussian(1.0), noise=0.01, random_state=0)
        >>> model.fit(x, np.sin(x[:, 0])).predict_interval([[0.0]], 0.95).round(1)
        array([[-0.2,  0.2]])
        """
        check_coverage(coverage)
        X = self._rows_to_predict(X)
        with jobs(self.n_jobs):
            mean = self.posterior_.mean(X)
            spread = np.sqrt(self.posterior_.variance(X) + self._noise_of_targets())
        half = float(ndtri(0.5 + coverage / 2.0)) * spread
        return self.as_written(self._shaped(np.stack([mean - half, mean + half], axis=1)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return values of functions drawn from the posterior.

        Each sample is one function: its values at different rows, and in calls with the same
        ``random_state``, belong together. With method "dictionary", ``n_features`` random features
        draw the part that the inducing points do not represent.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        n_samples : int, default=1
            Number of functions.
        random_state : int, RandomState instance or None, default=0
            Seed.

        Returns
        -------
        values : ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Values without noise.

        Raises
        ------
        ValueError
            For methods of descent, or a kernel without random features.
        """
        X = self._rows_to_predict(X)
        check_integer("n_samples", n_samples, low=1)
        posterior = self._exact("A sample")
        with jobs(self.n_jobs):
            values = posterior.sample(X, n_samples, check_random_state(random_state))
        return values[:, 0] if self._flat else values

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Return the logarithm of the prior density of the learned targets.

        The sums that the model keeps do not depend on the noise, so other values of it can be
        compared without learning again; other length scales need another ``fit``. With method
        "dictionary" the result is a lower bound (Titsias): the density of what the inducing points
        represent, minus a penalty for the rest. It never exceeds the density under the kernel
        itself and equals it with all rows as inducing points, so it can compare kernels, noises and
        dictionaries.

        Parameters
        ----------
        noise : float, default=None
            Variance of the noise; None for the model's.

        Returns
        -------
        log_likelihood : float
            Sum over the targets, in their own units. With ``normalize_y`` the mean and the scale
            count as known.

        Raises
        ------
        ValueError
            If the noise is not positive, or for methods of descent.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import GaussianProcessRegressor
        >>> from mercer.kernels import Gaussian
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-3, 3, (500, 1))
        >>> y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=500)
        >>> model = GaussianProcessRegressor(Gaussian(1.0), n_features=128, random_state=0)
        >>> max([0.01, 0.03, 0.09, 0.27], key=model.fit(x, y).log_marginal_likelihood)
        0.09
        """
        check_is_fitted(self, "posterior_")
        if noise is not None:
            noise = check_real("noise", noise, low=0.0, open_low=True, why=NOISE_WHY)
        with jobs(self.n_jobs):
            return self._exact("A marginal likelihood").log_marginal_likelihood(noise)

    def random_features(self, X: Any) -> Array:
        """Features whose inner products estimate the kernel, ``kernel_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_random_features)
            Features. For methods of descent, the features of all blocks side by side; ``Z Z'`` is
            then the kernel times the number of blocks.

        Raises
        ------
        ValueError
            For method "dictionary", which has no random features.
        """
        rows, posterior = self._rows_to_predict(X), self.posterior_
        if isinstance(posterior, DictionaryPosterior):
            raise ValueError(
                f"A model with method={posterior.method!r} has no random features: its mean is "
                "`kernel_(X, dictionary_) @ coefficients_ + y_mean_`."
            )
        return posterior.features(rows)

    @property
    def dictionary_(self) -> Array:
        """Inducing points, one per row."""
        posterior = self._fitted()
        if not isinstance(posterior, DictionaryPosterior):
            raise AttributeError(
                "Only a model with method='dictionary' has a `dictionary_`; this one has "
                "`random_features(X)`."
            )
        with jobs(self.n_jobs):
            return posterior.dictionary

    @property
    def model_order_(self) -> int:
        """Number of random features or of inducing points."""
        with jobs(self.n_jobs):
            return self._fitted().size

    @property
    def coefficients_(self) -> Array:
        """Mean weights of the random features or of the inducing points."""
        with jobs(self.n_jobs):
            return self._fitted().coefficients

    @property
    def y_mean_(self) -> Array:
        """Mean of the targets with ``normalize_y``, else 0; shape (n_targets,)."""
        return self._fitted().normalization()[0]

    @property
    def effective_dimension_(self) -> float:
        """Number of features that the data determine."""
        self._fitted()
        with jobs(self.n_jobs):
            return self._exact("An effective dimension").effective_dimension()

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned, without rows of weight 0."""
        return self._fitted().n_rows

    def _fitted(self) -> FeaturePosterior | DictionaryPosterior | DescentPosterior:
        if not hasattr(self, "posterior_"):
            raise not_fitted(self)
        return self.posterior_

    def _rows_to_predict(self, X: Any) -> Array:
        check_is_fitted(self, "posterior_")
        rows: Array = numeric_rows(self, X, dtype=np.float64, order="C", reset=False)
        return rows

    def _exact(self, what: str) -> FeaturePosterior | DictionaryPosterior:
        if isinstance(self.posterior_, DescentPosterior):
            raise ValueError(
                f"{what} needs method='features' or 'dictionary', whose posterior is known in "
                f"full; this model was fitted by {self.posterior_.method!r}, which knows means and "
                "variances only."
            )
        return self.posterior_

    def _noise_of_targets(self) -> Array:
        return self.posterior_.noise * self.posterior_.normalization()[1] ** 2

    def _shaped(self, values: Array) -> Array:
        return values[..., 0] if self._flat else values

    # -- explanations ---------------------------------------------------------------------------

    def _explained(self) -> Explained:
        """Return what explanations of the mean need, with targets by number."""
        from mercer.estimators.explained import of_estimator

        posterior, kept = self._fitted(), self._kept
        return of_estimator(
            self,
            Outputs.of_targets(self._n_targets),
            lambda X: posterior.mean(np.ascontiguousarray(X, dtype=np.float64)),
            lambda most=256: None if kept is None else kept.rows,
        )

    # -- files ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything that prediction and further learning need, as plain data.

        Returns
        -------
        state : dict
            Nested; holds arrays, numbers, text, lists and None.

        Raises
        ------
        ValueError
            If the model is not fitted, or a part cannot be stored without code.
        """
        if not hasattr(self, "posterior_"):
            raise not_fitted(self)
        posterior: FeaturePosterior | DictionaryPosterior | DescentPosterior = self.posterior_
        # Of the posterior itself: parameters may have been set anew since.
        settings = {name: getattr(posterior, name, None) for name in _SETTINGS.fields}
        if isinstance(posterior, FeaturePosterior):
            settings["n_features"] = posterior.size
        if isinstance(posterior, DescentPosterior):
            settings["step"] = posterior.step.bound, posterior.step.top_eigenvalue
            settings["row_seed"] = posterior.seed
        if isinstance(posterior, DictionaryPosterior):
            seed, design = posterior.seed, posterior.design
        else:
            blocks: Any = posterior.blocks
            seed, design = blocks.seed, blocks.options.design
        return {
            **common_state(self),
            "n_targets": self._n_targets,
            "flat": self._flat,
            "seed": seed,
            "design": design,
            "settings": _SETTINGS.written_of(settings),
            **({} if self._kept is None else {"kept": self._kept.to_state()}),
            "posterior": posterior.to_state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild a model; it predicts and goes on learning as if nothing had happened.

        Parameters
        ----------
        state : dict
            From :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        model, kernel = of_common_state(cls, state)
        model.kernel_ = kernel
        model._n_targets = check_integer("n_targets", state["n_targets"], low=1)
        model._flat = bool(state["flat"])
        if model._flat and model._n_targets != 1:
            raise ValueError("the shape of the targets does not match their number")
        model.posterior_ = _posterior_from_state(model, state)
        if "kept" in state:
            model._kept = kept_from_state(state["kept"], model.n_inputs_)
        return model  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _posterior_from_state(
    model: Any, state: dict[str, Any]
) -> FeaturePosterior | DictionaryPosterior | DescentPosterior:
    settings = _SETTINGS.read(state["settings"], {})
    method, n_features, chunk, step, row_seed = (
        settings.pop(name) for name in ("method", "n_features", "chunk", "step", "row_seed")
    )
    is_descent = isinstance(method, Method)
    if None in ((step, row_seed) if is_descent else (n_features, chunk)):
        raise ValueError("the settings do not fit the method")
    seed = check_integer("seed", state["seed"], low=0, high=2**64 - 1)
    design = check_choice("design", state["design"], DESIGNS)
    if isinstance(method, InducingPoints):
        sparse = DictionaryPosterior(
            method,
            model.kernel_,
            model._n_targets,
            **settings,
            chunk=chunk,
            seed=seed,
            n_features=n_features,
            design=design,
        )
        sparse.restore(state["posterior"], model.n_inputs_)
        return sparse
    block_size = method.block_size if is_descent else n_features
    sizes = {"n_features": block_size, "n_targets": model._n_targets}
    if method is None:
        # Before room is made for sums of that size.
        Statistics.from_state(state["posterior"]["statistics"], **sizes)
    blocks = FeatureBlocks(
        model.kernel_,
        model.n_inputs_,
        block_size,
        seed,
        FeatureOptions(paired=True, design=design),
    )
    posterior: FeaturePosterior | DescentPosterior
    if method is None:
        posterior = FeaturePosterior(blocks, model._n_targets, **settings, chunk=chunk)
    else:
        automatic = AutomaticStep(1.0, *step)
        posterior = DescentPosterior(method, blocks, **settings, step=automatic, seed=row_seed)
    posterior.restore(state["posterior"], **sizes, n_inputs=model.n_inputs_)
    return posterior
