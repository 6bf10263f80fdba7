"""What the prediction estimators share: checking, set-up and the passes over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer._component import own_copy
from mercer._threads import one_blas_thread
from mercer._validation import check_choice, check_integer, check_real
from mercer.estimators._fitted_function import FittedFunction
from mercer.estimators._inputs import (
    check_not_tiny,
    check_weights,
    resolve_kernel,
    sample_of,
    warn_if_one_column_decides,
)
from mercer.estimators._progress import Progress, Reporter
from mercer.estimators._settable import Settable
from mercer.estimators._undo import all_or_nothing
from mercer.expansions import Expansion, RandomFeatures, as_expansion
from mercer.functions import start
from mercer.kernels import Kernel, as_kernel
from mercer.learner import Learner, make_learner
from mercer.losses import Loss
from mercer.objectives import Objective, Pointwise
from mercer.planning import AutomaticStep, automatic_step, warn_if_off_centre
from mercer.schedules import Relative, Schedule, as_schedule

__all__ = ["AVERAGING", "KernelEstimator"]

Array = NDArray[np.float64]

# Factor of the automatic step for classification losses with bounded slopes; averaging takes the
# noise of such steps away again (docs/benchmarks.md, defaults).
_BOLDNESS = 4.0
_RIDGE = 1e-6
#: Exponents of the weights of the averages.
AVERAGING = {None: None, "polyak": 0.0, "suffix": 3.0}


class KernelEstimator(FittedFunction, Settable):
    """Base of the classifier and the regressor; not for direct use."""

    loss_: Loss
    #: What `step_size` may be besides a number or a schedule.
    _step_names: ClassVar[tuple[str, ...]] = ("auto",)

    # -- what subclasses define -----------------------------------------------------------------

    def _encode(self, y: Any, loss: Loss) -> Array:
        raise NotImplementedError

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        raise NotImplementedError

    def _meet_targets(self, y: Any, *, reset: bool) -> None:
        """Learn what must be known of the targets (classes, number of outputs)."""
        raise NotImplementedError

    def _n_columns(self) -> int:
        """Return the number of outputs of the function; the first ones are the scores."""
        return self._n_scores()

    def _row_weights(self, y: Any, sample_weight: Array, *, all_rows: bool) -> Array:
        return sample_weight

    def _theory(self) -> Schedule:
        """Return the steps of the theorems, for estimators that have "theory" as a step size."""
        raise NotImplementedError

    def _auto(self, automatic: AutomaticStep) -> Any:
        """Return what the step size "auto" stands for: a schedule, or the automatic step."""
        return automatic

    def _smoothness(self, automatic: AutomaticStep) -> float:
        """L of relative steps, in units of 1 / (L κ²)."""
        return automatic.curvature

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Learn from all rows, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and computed in, all else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; they multiply the loss.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; a true
            result stops the fit.

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
        with all_or_nothing(self):
            self._fit(X, y, sample_weight, callback)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        callback: Callable[[Progress], object] | None,
    ) -> None:
        self._check_parameters()
        self._check_settings(anew=True)
        for name in ("_row_names", "_row_targets"):
            self.__dict__.pop(name, None)
        X, y = self._check_targets(X, y, reset=True)
        sample_weight = check_weights(sample_weight, X.shape[0])
        if not sample_weight.any():
            raise ValueError("`sample_weight` is zero for all rows, so there is nothing to fit.")
        self._meet_targets(y, reset=True)
        generator = check_random_state(self.random_state)
        n = X.shape[0]
        self._start(X[sample_of(n, generator)], generator, n)
        targets = self._encode(y, self.loss_)
        weights = self._row_weights(y, sample_weight, all_rows=True)
        if not weights.any():
            raise ValueError("`class_weight` is zero for all rows, so there is nothing to fit.")
        n_passes = self.learner_.n_passes(self._n_passes(n), int(np.count_nonzero(weights)))
        report = Reporter(
            self.learner_,
            self.learner_.n_learned(n, n_passes) * self._visits(),
            self._rows_per_sample(),
            callback,
            self.verbose,
        )
        orders = self._orders(y, n_passes, generator)
        with one_blas_thread():
            self.learner_.learn_passes(X, targets, weights, orders, report)

    def _orders(
        self, y: Any, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        """Order of the rows in each pass; may repeat rows."""
        n = len(y)
        return (generator.permutation(n) if self.shuffle else np.arange(n) for _ in range(n_passes))

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        first = "learner_" not in self.__dict__
        self._check_parameters()
        self._check_settings(anew=first)
        tuned = None if first else _settings(self.learner_)
        undo = None
        try:
            with all_or_nothing(self):
                X, y = self._check_targets(X, y, reset=first)
                sample_weight = check_weights(sample_weight, X.shape[0])
                undo = None if first else self._before_targets(y)
                self._meet_targets(y, reset=first)
                if first:
                    generator = check_random_state(self.random_state)
                    self._start(X[sample_of(X.shape[0], generator)], generator)
                else:
                    step = self._steps(self.learner_.automatic, self.learner_.function.expansion)
                    self.learner_.tune(step, self._ridge(), self._rows_per_step())
                    self._tuned = self.step_size, self.regularization, self.batch_size
                targets = self._encode(y, self.loss_)
                weights = self._row_weights(y, sample_weight, all_rows=False)
                X, targets, weights = self._joined(X, targets, weights)
                with one_blas_thread():
                    self.learner_.learn(X, targets, weights)
        except BaseException:
            if tuned is not None:
                self.learner_.tune(*tuned)
            self._undo_targets(undo)
            raise
        return self

    def _joined(self, X: Any, targets: Array, weights: Array) -> tuple[Any, Array, Array]:
        """Rows as the learner gets them."""
        return X, targets, weights

    def _is_tuned(self) -> bool:
        """Whether the learner's settings are the parameters; quick, for single rows."""
        tuned = self.__dict__.get("_tuned")
        return (
            tuned is not None
            and tuned[0] is self.step_size
            and tuned[1] is self.regularization
            and tuned[2] is self.batch_size
        )

    def _before_targets(self, y: Any) -> Any:
        """Return what :meth:`_undo_targets` needs if these targets change the model's outputs."""
        return None

    def _undo_targets(self, undo: Any) -> None:
        pass

    # -- set-up ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._batch_size()
        self._n_passes(1)
        self._ridge()
        check_choice("average", self.average, tuple(AVERAGING))
        if not isinstance(self.shuffle, bool | np.bool_):
            raise ValueError(f"`shuffle` must be True or False, got {self.shuffle!r}.")
        if not isinstance(self.step_size, str):
            as_schedule(self.step_size)
        else:
            check_choice("step_size", self.step_size, self._step_names)
        as_kernel(self.kernel)
        mode = self._chosen_expansion().mode
        relative = self._is_theory() or isinstance(self.step_size, Relative)
        if relative and mode != "faithful":
            raise ValueError(
                f"`step_size={self.step_size!r}` is for gradient steps, but {self.expansion!r} in "
                f"mode {mode!r} solves equations, which sets the scale of its steps. Use "
                "RandomFeatures(mode='faithful') or a kernel expansion, or `step_size='auto'`."
            )

    def _check_settings(self, *, anew: bool) -> None:
        """Refuse parameters that would be ignored.

        Parameters
        ----------
        anew : bool
            Whether what learns will be made from the parameters, or is there already.

        Raises
        ------
        ValueError
            If there are any.
        """

    def _start(
        self, sample: Any, generator: np.random.RandomState, n_rows: int | None = None
    ) -> None:
        """Fill in all numbers from a sample of rows (of how many, if known) and set up f = 0."""
        check_not_tiny(sample, each=self._scales_columns())
        if isinstance(self.kernel, str) and not self._scales_columns():
            warn_if_one_column_decides(sample)
        # What overflows is found, and said, below.
        with np.errstate(over="ignore", invalid="ignore"):
            kernel = resolve_kernel(own_copy(as_kernel(self.kernel)), sample, generator)
            automatic = self._automatic(kernel, sample)
        expansion = own_copy(self._chosen_expansion()).sized(n_rows, self._n_scores())
        if isinstance(expansion, RandomFeatures):
            warn_if_off_centre(kernel, sample, expansion)
        averaging = AVERAGING[self.average] if expansion.averages else None
        self._set_up(kernel, automatic, expansion, averaging, sample.dtype)

    def _scales_columns(self) -> bool:
        """Whether each column of the inputs is brought to a scale of its own."""
        return False

    def _chosen_expansion(self) -> Expansion:
        return as_expansion(self.expansion)

    def _automatic(self, kernel: Kernel, sample: Any) -> AutomaticStep:
        """Automatic step for the objective."""
        objective = self._objective()
        bold = self.loss_.task == "classification" and objective.lipschitz is not None
        curvature = 1.0 if objective.curvature is None else objective.curvature
        return automatic_step(kernel, sample, curvature, _BOLDNESS if bold else 1.0)

    def _objective(self) -> Objective:
        return Pointwise(self.loss_)

    def _rows_per_step(self) -> int:
        return self._batch_size() * self._rows_per_sample()

    def _batch_size(self) -> int:
        """Return the number of samples of a step."""
        return check_integer("batch_size", self.batch_size, low=1)

    def _rows_per_sample(self) -> int:
        """Rows that the learner gets for each sample of the user's."""
        return 1

    def _is_theory(self) -> bool:
        return isinstance(self.step_size, str) and self.step_size == "theory"

    def _ridge(self) -> float:
        """Ridge parameter of learning by steps."""
        if isinstance(self.regularization, str) and self.regularization == "auto":
            return 0.0 if self._is_theory() else _RIDGE
        return check_real("regularization", self.regularization, low=0.0)

    def _n_passes(self, n_rows: int) -> int:
        """Return how often ``fit`` visits so many rows."""
        return check_integer("n_passes", self.n_passes, low=1)

    def _visits(self) -> int:
        """How often a pass of ``fit`` visits each row."""
        return 1

    def _set_up(
        self,
        kernel: Kernel,
        automatic: AutomaticStep,
        expansion: Expansion,
        averaging: float | None,
        dtype: Any,
    ) -> None:
        """Set up f = 0; the parts must be this model's own."""
        function = self._start_function(expansion, kernel, dtype, averaging)
        step = self._steps(automatic, expansion)
        self._tuned = self.step_size, self.regularization, self.batch_size
        self._kernel = kernel
        self.learner_ = make_learner(
            self._objective(),
            function,
            step,
            self._ridge(),
            self._rows_per_step(),
            automatic,
        )

    def _start_function(
        self, expansion: Expansion, kernel: Kernel, dtype: Any, averaging: float | None
    ) -> Any:
        """Return f = 0."""
        return start(expansion, kernel, self.n_features_in_, self._n_columns(), dtype, averaging)

    @staticmethod
    def _solves(expansion: Expansion) -> bool:
        """Whether equations are solved, or Newton steps made, on a fixed set of features."""
        return expansion.mode == "solve"

    def _steps(self, automatic: AutomaticStep, expansion: Expansion) -> Any:
        """Step sizes; those of equations that are solved need no choice of the estimator's."""
        if self._solves(expansion) and self.step_size == "auto":
            return automatic
        return self._step(automatic)

    def _step(self, automatic: AutomaticStep) -> Any:
        if isinstance(self.step_size, str):
            schedule: Any = self._theory() if self.step_size == "theory" else self._auto(automatic)
        else:
            schedule = own_copy(as_schedule(self.step_size))
        if isinstance(schedule, Relative):
            return schedule.resolved(1.0 / (self._smoothness(automatic) * automatic.typical))
        return schedule

    def _risk_to_state(self) -> dict[str, Any]:
        """Return what a risk of the loss needs besides, for estimators that have one."""
        return {}

    def _risk_from_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`_risk_to_state` gave."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _settings(learner: Learner) -> tuple[Any, float, int]:
    return learner.step_size, learner.regularization, learner.batch_size
