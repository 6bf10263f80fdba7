"""What can be asked of a Gaussian process that was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._threads import one_blas_thread
from mercer._validation import check_integer, check_real
from mercer.gaussian_process import DescentPosterior, DictionaryPosterior, FeaturePosterior

__all__ = ["NOISE_WHY", "AskedGaussianProcess"]

Array = NDArray[np.float64]

NOISE_WHY = "It is the variance of the observation noise, which divides everything."


class AskedGaussianProcess:
    """Predictions, samples and fitted attributes of the Gaussian-process regressor."""

    posterior_: FeaturePosterior | DictionaryPosterior | DescentPosterior
    _flat: bool
    _n_targets: int

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """Posterior mean, and how far the function may be from it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return posterior standard deviations, too.
        return_cov : bool, default=False
            Whether to return the posterior covariance between the rows, too.
        include_noise : bool, default=False
            Whether these are of a new observation, f(x) plus noise; otherwise, as in
            scikit-learn, of the function f(x) itself.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Posterior mean, like the targets that were learned.
        std : ndarray like ``mean``
            If ``return_std``.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            If ``return_cov``.

        Raises
        ------
        ValueError
            If both are asked for, or a covariance of a method of descent.
        """
        X = self._check_inputs(X)
        if return_std and return_cov:
            raise ValueError(
                "At most one of `return_std` and `return_cov` can be True: the standard deviations "
                "are the square roots of the covariance's diagonal."
            )
        with one_blas_thread():
            mean = self._shaped(self.posterior_.mean(X))
            if not (return_std or return_cov):
                return mean
            noise = self._noise_of_targets() if include_noise else np.zeros(self._n_targets)
            if return_std:
                return mean, self._shaped(np.sqrt(self.posterior_.variance(X) + noise))
            covariance = self._exact("A covariance").covariance(X)
        covariance += np.eye(X.shape[0])[:, :, np.newaxis] * noise
        return mean, self._shaped(covariance)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Values of functions drawn from the posterior.

        Each sample is one function: its values at different rows, and in calls with the same
        ``random_state``, belong together. With method "dictionary" what the inducing points do not
        hold of it is drawn by ``n_features`` random features.

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
            For a method of descent, or a kernel without random features.
        """
        X = self._check_inputs(X)
        check_integer("n_samples", n_samples, low=1)
        posterior = self._exact("A sample")
        with one_blas_thread():
            values = posterior.sample(X, n_samples, check_random_state(random_state))
        return values[:, 0] if self._flat else values

    def log_marginal_likelihood(self, noise: float | None = None) -> float:
        """Logarithm of the density of the targets that were learned, under the prior.

        The sums that the model keeps do not depend on the noise, so other values of it can be
        compared without learning again; other length scales need another ``fit``. With method
        "dictionary" it is a lower bound (Titsias): the density under the prior of what the
        inducing points represent, less a penalty for what they do not. It never exceeds the
        density under the kernel itself and equals it with all rows as inducing points, so kernels,
        noises and dictionaries can be compared by it.

        Parameters
        ----------
        noise : float, default=None
            Variance of the noise; None means that of the model.

        Returns
        -------
        log_likelihood : float
            Summed over the targets, in their own units. With ``normalize_y`` the mean and the
            scale count as known.

        Raises
        ------
        ValueError
            For a noise that is not positive, or a method of descent.

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
        with one_blas_thread():
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
            Features; of the methods that descend, those of all blocks side by side, and
            ``Z Z'`` is the kernel times the number of blocks.

        Raises
        ------
        ValueError
            For method "dictionary", which has none.
        """
        rows, posterior = self._check_inputs(X), self.posterior_
        if isinstance(posterior, DictionaryPosterior):
            raise ValueError(
                f"A model with method={posterior.method!r} has no random features: its mean is "
                "`kernel_(X, dictionary_) @ coefficients_ + y_mean_`."
            )
        return posterior.features(rows)

    @property
    def dictionary_(self) -> Array:
        """Inducing points, one a row."""
        posterior = self._fitted()
        if not isinstance(posterior, DictionaryPosterior):
            raise AttributeError(
                "Only a model with method='dictionary' has a `dictionary_`; this one has "
                "`random_features(X)`."
            )
        with one_blas_thread():
            return posterior.dictionary

    @property
    def model_order_(self) -> int:
        """Number of random features or of inducing points."""
        with one_blas_thread():
            return self._fitted().size

    @property
    def coefficients_(self) -> Array:
        """Mean weights of the random features or of the inducing points."""
        with one_blas_thread():
            return self._fitted().coefficients

    @property
    def y_mean_(self) -> Array:
        """Mean of the targets with ``normalize_y``, else 0; shape (n_targets,)."""
        return self._fitted().normalization()[0]

    @property
    def effective_dimension_(self) -> float:
        """Number of features that the data determine."""
        self._fitted()
        with one_blas_thread():
            return self._exact("An effective dimension").effective_dimension()

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned, those of weight 0 left out."""
        return self._fitted().n_rows

    def _fitted(self) -> FeaturePosterior | DictionaryPosterior | DescentPosterior:
        if "posterior_" not in self.__dict__:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        return self.posterior_

    def _check_inputs(self, X: Any) -> Array:
        check_is_fitted(self, "posterior_")
        rows: Array = validate_data(self, X, dtype=np.float64, order="C", reset=False)
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
