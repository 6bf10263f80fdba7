"""What the kernel estimators show of the function that they learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.default import DefaultLearner
from mercer.estimators.scaling import image_of
from mercer.estimators.table_inputs import TableInputs
from mercer.estimators.targets import LossTargets, Targets
from mercer.functions import (
    BilinearFeatures,
    DictionaryFunction,
    FeatureExpansion,
    FittedPart,
    SumOfComponents,
)
from mercer.history import History
from mercer.kernels import Kernel, Mapped
from mercer.learning import Learner
from mercer.losses import Loss
from mercer.maps import Affine
from mercer.objectives import Compositional
from mercer.risks import Risk
from mercer.streams import StreamFunction
from mercer.streams.function import NO_SINGLE
from mercer.sums import Correction
from mercer.threads import jobs

if TYPE_CHECKING:
    from mercer.answers.explain import Explained

Array = NDArray[np.float64]

_BLOCK = 2**15  # rows that are mapped at a time


class HeldOutRows(NamedTuple):
    """Rows that were kept back from a fit, with what it said of them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs; of a table those that its columns became.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Labels, or quantities.
    scores : ndarray of shape (n_rows, n_outputs)
        Values of the function.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of the rows, each of which the fit that scored it did not have; None where each row
        is one.
    """

    X: NDArray[np.floating]
    y: NDArray[Any]
    scores: Array
    weights: Array
    groups: NDArray[np.int64] | None = None


class FittedFunction(TableInputs):
    """Kernel, points, coefficients and values of a fitted model; not for direct use."""

    learner_: Learner
    _kernel: Kernel
    #: Map of the inputs, behind which the function is; None if it is one of the inputs themselves.
    _map: Affine | None = None
    #: What is added to each value; None for nothing.
    _level: Array | None = None
    targets_: Targets
    n_jobs: Any

    @property
    def kernel_(self) -> Kernel:
        """The kernel with its numbers resolved; of the only part, if the model has parts."""
        function = self._fitted().current_function()
        raced = isinstance(function, SumOfComponents | DictionaryFunction | StreamFunction)
        kernel: Kernel = function.kernel if raced else self._kernel
        return kernel if self._map is None else Mapped(kernel, self._map)

    @property
    def dictionary_(self) -> NDArray[np.floating]:
        """Dictionary points, one a row."""
        function = self._fitted().current_function()
        if isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                "A model of random features has no dictionary. Its features are "
                "`random_features(X)`, with which f(X) = random_features(X) @ coefficients_ "
                "(+ intercept_ of a regressor)."
            )
        dictionary: NDArray[np.floating] = function.dictionary
        return dictionary if self._map is None else self._map.preimage(dictionary)

    def random_features(self, X: Any) -> NDArray[np.floating]:
        """Features of a model with ``expansion=RandomFeatures(...)``.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Z : ndarray of shape (n_samples, model_order_)
            f(X) = Z @ ``coefficients_``, plus ``intercept_`` where there is one.

        Raises
        ------
        AttributeError
            If the model has a dictionary instead.
        """
        check_is_fitted(self, "learner_")
        function = self.learner_.current_function()
        if isinstance(function, StreamFunction):
            raise AttributeError(NO_SINGLE)
        if not isinstance(function, FeatureExpansion | BilinearFeatures):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a dictionary: f(X) = "
                "kernel_(X, dictionary_) @ coefficients_ (+ intercept_)."
            )
        X = self._rows_to_predict(X)
        with jobs(self.n_jobs):
            return function.random_features(self._image(X))

    @property
    def coefficients_(self) -> Array:
        """Coefficients of f(x) = Σ_i ``coefficients_[i]`` k(d_i, x), one row for each point.

        To the sum classifiers and regressors add their ``intercept_``.
        """
        coefficients: Array = self._fitted().current_function().coefficients
        return coefficients[:, : self.targets_.n_scores]

    @property
    def model_order_(self) -> int:
        """Number of dictionary points, or of random features."""
        return int(self._fitted().current_function().size)

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned so far, counting every pass."""
        return self._fitted().n_samples // self.targets_.rows_per_sample

    @property
    def history_(self) -> History:
        """Progressive loss, model order and compression error over the stream."""
        return self._fitted().history

    def _fitted(self) -> Learner:
        if not hasattr(self, "learner_"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        return self.learner_

    def _has_gaps(self) -> bool:
        """Whether rows may say nothing of a feature, as in the default of streams."""
        return isinstance(self.learner_.function, StreamFunction)

    def _scores(self, X: Any) -> Array:
        """Check inputs; return the values of f there, shape (n, n_scores)."""
        check_is_fitted(self, "learner_")
        X = self._rows_to_predict(X)
        with jobs(self.n_jobs):
            # Without copies of the outputs, which only objectives need.
            return self._evaluate(X)[:, : self.targets_.n_scores]

    def _rows_to_predict(self, X: Any) -> Any:
        """Check rows as those that were learned."""
        return self._checked_rows(X, first=False, gaps=self._has_gaps(), learns=False)

    def _evaluate(self, X: Any) -> Array:
        """Values at checked inputs, one column for each output of the function."""
        values = self._before_level(X)
        return values if self._level is None else values + self._level

    def _before_level(self, X: Any) -> Array:
        """Values of the function at checked inputs."""
        if X.shape[0] <= _BLOCK or (self._map is None and X.dtype == np.float64):
            # In double precision, in which images of rows do not depend on the rows beside.
            return self.learner_.evaluate(self._image(X.astype(np.float64, copy=False)))
        starts = range(0, X.shape[0], _BLOCK)  # so that few images, and copies, are in memory
        return np.vstack([self._before_level(X[start : start + _BLOCK]) for start in starts])

    def _image(self, X: Any) -> Any:
        """Rows as the function takes them."""
        return X if self._map is None else image_of(self._map, X)

    def _explained(self) -> Explained:
        """Tell what explanations need, where there are such."""
        from mercer.estimators.explained import of_function

        return of_function(self)


class FittedLoss(FittedFunction):
    """What a fitted model of a loss shows besides; not for direct use."""

    targets_: LossTargets

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
        """Constant term of each score: its ``level_``, and where ``kernel="auto"`` centred, more.

        Regressors with a kernel that they choose centre their target, where they make steps.
        """
        level = self.level_
        centre = self.targets_.intercept
        return centre if level is None else centre + level

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
