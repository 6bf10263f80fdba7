"""What the prediction estimators show of the function that they learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._threads import one_blas_thread
from mercer.functions import BilinearFeatures, DictionaryFunction, FeatureExpansion
from mercer.history import History
from mercer.kernels import Kernel
from mercer.learner import Learner
from mercer.parts import Blend

__all__ = ["FittedFunction"]

Array = NDArray[np.float64]


class FittedFunction:
    """Kernel, points, coefficients and values of a fitted model; not for direct use."""

    learner_: Learner
    _kernel: Kernel

    def _n_scores(self) -> int:
        raise NotImplementedError

    def _rows_per_sample(self) -> int:
        raise NotImplementedError

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its numbers resolved; of the only part, if the model has parts."""
        function = self._fitted().current_function()
        raced = isinstance(function, Blend | DictionaryFunction)
        kernel: Kernel = function.kernel if raced else self._kernel
        return kernel

    @property
    def dictionary_(self) -> NDArray[np.floating]:
        """Dictionary points, one a row."""
        function = self._fitted().current_function()
        if isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                "A model of random features has no dictionary. Its features are "
                "`random_features(X)`, with which f(X) = random_features(X) @ coefficients_."
            )
        dictionary: NDArray[np.floating] = function.dictionary
        return dictionary

    def random_features(self, X: Any) -> NDArray[np.floating]:
        """Features of a model with ``expansion=RandomFeatures(...)``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Z : ndarray of shape (n_samples, model_order_)
            f(X) = Z @ ``coefficients_``.

        Raises
        ------
        AttributeError
            If the model has a dictionary instead.
        """
        check_is_fitted(self, "learner_")
        function = self.learner_.current_function()
        if not isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a dictionary: f(X) = "
                "kernel_(X, dictionary_) @ coefficients_."
            )
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        with one_blas_thread():
            return function.random_features(X)

    @property
    def coefficients_(self) -> Array:
        """Coefficients of f(x) = Σ_i ``coefficients_[i]`` k(d_i, x), one row for each point."""
        coefficients: Array = self._fitted().current_function().coefficients
        return coefficients[:, : self._n_scores()]

    @property
    def model_order_(self) -> int:
        """Number of dictionary points, or of random features."""
        return int(self._fitted().current_function().size)

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned so far, counting every pass."""
        return self._fitted().n_samples // self._rows_per_sample()

    @property
    def history_(self) -> History:
        """Progressive loss, model order and compression error over the stream."""
        return self._fitted().history

    def _fitted(self) -> Learner:
        learner: Learner | None = self.__dict__.get("learner_")
        if learner is None:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        return learner

    def _scores(self, X: Any) -> Array:
        """Values of f at checked inputs, shape (n, n_outputs)."""
        check_is_fitted(self, "learner_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        with one_blas_thread():
            return self.learner_.evaluate(X)[:, : self._n_scores()]
