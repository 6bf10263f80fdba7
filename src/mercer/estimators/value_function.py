"""Policy evaluation on streams of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_choice
from mercer.estimators._base import Array
from mercer.estimators._episodes import EpisodeSources
from mercer.estimators._inputs import check_weights
from mercer.estimators._progress import Progress
from mercer.estimators._tasks import TaskEstimator
from mercer.estimators._transitions import (
    Trail,
    Transitions,
    check_second,
    check_transitions,
    interleaved,
    passes,
    spread_out,
)
from mercer.estimators._undo import all_or_nothing
from mercer.estimators._value_answers import ValueAnswers
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.model_file import storable
from mercer.objectives import Objective
from mercer.objectives.bellman import Bellman
from mercer.planning import AutomaticStep, automatic_step

__all__ = ["ValueFunction"]


# Transitions that the automatic step looks at.
_FEW = 100
# States, spread out over the sample, that length scales are taken from.
_N_SPREAD = 300


@storable
class ValueFunction(EpisodeSources, ValueAnswers, TaskEstimator):
    r"""Learn how much reward a policy will collect from each state, on a stream of transitions.

    The value of a state is :math:`V(x) = E[\sum_t \gamma^t r_t \mid x_0 = x]`. It is learned from
    transitions (state, reward, next state) of the policy by stochastic gradients in the RKHS of a
    kernel; the expansion keeps V small.

    Parameters
    ----------
    discount : float
        gamma, in [0, 1): a reward t steps ahead counts ``discount**t``.
    method : str, default="td"
        How the next state's value, itself an estimate, is dealt with
        (:class:`mercer.objectives.Bellman` has the steps):

        - ``"td"``, temporal differences: quickest and most exact on transitions of the policy
          itself, in any order. May diverge on those of another policy.
        - ``"gtd2"``, ``"tdc"``: the same solution by true gradients. A second function h(x), the
          expected temporal difference, is learned along (:meth:`predict_auxiliary`); slower.
        - ``"double_sampling"``: minimises the squared expected temporal difference, COLK,
          eq. (15). Needs a second next state drawn independently from the same state, so a
          simulator.
        - ``"residual"``: minimises the squared temporal difference. Biased wherever transitions
          are random; right for deterministic ones.
        - ``"pkgtd"``: one running mean of temporal differences in place of h, as in the
          literature. Needs transitions in the order in which they happened (``shuffle`` does not
          apply), in one pass, and is biased unless its rate is 1 - discount.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel (:mod:`mercer.kernels`).
    expansion : str or Expansion, default="auto"
        How V stays small (:mod:`mercer.expansions`); ``"auto"`` is ``KOMP(max_size=1000)``. Random
        features must have ``mode="faithful"``. V and h share the points, and a tolerance bounds
        the error of both together.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it. ``"auto"``
        takes a large safe step (:class:`mercer.planning.AutomaticStep`).
    auxiliary_step : float or "auto", default="auto"
        "gtd2" and "tdc": step size of h in units of that of V; ``"auto"`` is 0.2 and 1. "tdc" with
        less is quicker, but may diverge on transitions of another policy. "pkgtd": rate of the
        running mean, in (0, 1]; ``"auto"`` is 1 - discount, with which its solution is that of
        temporal differences. The other methods have nothing of the kind and do not look at it.
    regularization : float, default=1e-6
        Ridge parameter; it shrinks h like V.
    batch_size : int, default=32
        Transitions per step.
    n_passes : int or "auto", default="auto"
        Passes of ``fit`` over the transitions. ``"auto"`` learns about 100,000, in at most 10; one
        pass with "pkgtd". Where V has not converged the mean of
        :meth:`temporal_difference_errors` is not near 0.
    shuffle : bool, default=True
        Whether ``fit`` visits the transitions of each pass in random order.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³
        (``"suffix"``), the plain mean (``"polyak"``), or the last iterate (None).
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample that automatic choices look at.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: V(x) = Σ_i coefficients_[i, 0] · kernel_(dictionary_[i], x); column 1 is h.
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved.
    n_samples_seen_ : int
        Transitions learned, counting every pass.
    history_ : History
        Progressive squared temporal difference, model order and compression error; its rows are
        states, two for each transition.
    n_features_in_ : int
        Number of inputs.

    References
    ----------
    COLK, eq. (13)-(15).

    Examples
    --------
    A walk 0 -> 1 -> 2 that ends in 3; each step but the last is free.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> states, next_states = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [3.0]])
    >>> model = ValueFunction(0.5, kernel=Gaussian(0.2), n_passes=500, random_state=0)
    >>> model = model.fit(states, [0.0, 0.0, 1.0], next_states, [False, False, True])
    >>> model.predict(states).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    _trail: Trail
    _few: tuple[NDArray[np.floating], Array]

    def __init__(
        self,
        discount: float,
        method: str = "td",
        *,
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        auxiliary_step: float | str = "auto",
        regularization: float = 1e-6,
        batch_size: int = 32,
        n_passes: int | str = "auto",
        shuffle: bool = True,
        average: str | None = "suffix",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.discount = discount
        self.method = method
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.auxiliary_step = auxiliary_step
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(  # type: ignore[override]  # transitions instead of inputs and targets
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminals: Any = None,
        sample_weight: Any = None,
        *,
        second: Any = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> Self:
        """Learn from all transitions, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States; float32 is kept and computed in, all else becomes float64.
        rewards : array-like of shape (n,)
            Rewards on the way to the next states.
        next_states : array-like of shape (n, n_features)
            The states after them.
        terminals : array-like of bool, shape (n,), default=None
            Whether the episode ended for good in the next state, whose value is 0 then. An episode
            that was only cut off is not terminal. None: none is.
        sample_weight : array-like of shape (n,), default=None
            Weights of the transitions; they multiply the temporal difference.
        second : tuple (rewards, next_states, terminals), default=None
            A second outcome of each transition, drawn independently from the same state; for
            ``method="double_sampling"``.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand states; a true
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
        raw = Transitions(states, rewards, next_states, terminals, None, second)
        return self._fit_transitions(raw, sample_weight, callback)

    def partial_fit(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminals: Any = None,
        sample_weight: Any = None,
        *,
        second: Any = None,
    ) -> Self:
        """Learn from some more transitions, in order, ``batch_size`` at a time.

        The first call fixes, on its states, what was left to choose: the length scale of the
        kernel, the automatic step size and tolerance. Start with some hundred typical transitions,
        or give numbers. A trajectory may go on from call to call. Its neighbours are alike: with
        steps that stay as large as the automatic ones that leaves a bias, so give a schedule that
        falls (:class:`mercer.schedules.InverseTime`), or collect transitions and shuffle them.

        Parameters
        ----------
        states, rewards, next_states, terminals, sample_weight, second
            As in :meth:`fit`.

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
        raw = Transitions(states, rewards, next_states, terminals, None, second)
        return self._partial_fit_transitions(raw, sample_weight)

    def _fit_transitions(
        self, raw: Transitions, sample_weight: Any = None, callback: Any = None
    ) -> Self:
        return super().fit(raw, None, sample_weight, callback)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, callback: Callable[[Progress], object] | None
    ) -> None:
        self._check_parameters()
        self._problem = self._new_problem()
        rows, targets, weights, trail = self._prepare(X, sample_weight, Trail(), reset=True)
        super()._fit(rows, targets, weights, callback)
        self._trail = trail

    def _partial_fit_transitions(self, raw: Transitions, sample_weight: Any = None) -> Self:
        first = "learner_" not in self.__dict__
        with all_or_nothing(self):
            self._check_parameters()
            if first:
                self._problem = self._new_problem()
            trail = Trail() if first else self._trail
            rows, targets, weights, trail = self._prepare(raw, sample_weight, trail, reset=first)
            self._partial_fit(rows, targets, weights)
            self._trail = trail
        return self

    def _prepare(
        self, raw: Transitions, sample_weight: Any, trail: Trail, *, reset: bool
    ) -> tuple[NDArray[np.floating], Array, Array, Trail]:
        """Rows, targets and weights for the loop, and where the stream then stands."""
        problem = self._problem
        check_second(problem.method, problem.n_rows == 3, raw.second is not None)
        transitions = check_transitions(self, raw, reset=reset)
        weights = check_weights(sample_weight, len(transitions.rewards))
        begins = None
        if problem.needs_order:
            begins, trail = trail.follow(transitions)
            trail = trail.checked(problem.method)
        rows, targets = interleaved(transitions, problem.discount, begins)
        return rows, targets, np.repeat(weights, problem.n_rows), trail

    # -- what the base asks ---------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._new_problem()

    def _new_problem(self) -> Bellman:
        """Return the objective that the parameters ask for."""
        auxiliary: Any = self.auxiliary_step
        if isinstance(auxiliary, str):
            check_choice("auxiliary_step", auxiliary, ("auto",))
            auxiliary = None
        return Bellman(self.discount, self.method, auxiliary)

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        if reset:
            m = self._problem.n_rows
            some = np.random.default_rng(0).permutation(len(y) // m)[:_FEW]
            rows = (m * some[:, np.newaxis] + np.arange(m)).ravel()
            self._few = X[rows], y[rows]  # looked at for the automatic step
        return X, y  # checked already

    def _encode(self, y: Any, loss: Any) -> Array:
        targets: Array = y
        return targets

    def _n_scores(self) -> int:
        return self._problem.n_outputs

    def _orders(
        self, y: Any, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        m = self._problem.n_rows
        shuffled = self.shuffle and not self._problem.needs_order
        for _ in range(n_passes):
            n = len(y) // m
            order = generator.permutation(n) if shuffled else np.arange(n)
            yield (m * order[:, np.newaxis] + np.arange(m)).ravel()

    def _n_passes(self, n_rows: int) -> int:
        problem = self._new_problem()
        n = max(n_rows // problem.n_rows, 1)
        return passes(self.n_passes, n, problem.method, problem.needs_order and n_rows > 1)

    def _rows_per_sample(self) -> int:
        return self._problem.n_rows

    def _start(
        self, sample: Any, generator: np.random.RandomState, n_rows: int | None = None
    ) -> None:
        super()._start(spread_out(sample, _N_SPREAD), generator, n_rows)

    def _automatic(self, kernel: Kernel, sample: Any) -> AutomaticStep:
        # b / (c k(x, x) + (b - 1) r) for b transitions: c is the norm of the step at a single one,
        # r the rate of the mean step.
        problem, few = self._problem, self.__dict__.pop("_few")
        usual = automatic_step(kernel, sample, problem.curvature, 1.0)
        gram = np.asarray(kernel(few[0]), dtype=np.float64)
        top = max(problem.top_rate(gram, few[1]) / problem.curvature, 1e-9 * usual.bound)
        return AutomaticStep(problem.curvature, usual.bound, top, typical=usual.typical)

    def _objective(self) -> Objective:
        problem = self._problem
        return Bellman(problem.discount, problem.method, problem.auxiliary)

    # -- files ----------------------------------------------------------------------------------

    def _targets_to_state(self) -> dict[str, Any]:
        problem = self._problem
        return {
            "discount": problem.discount,
            "method": problem.method,
            "auxiliary": problem.auxiliary,
            "trail": self._trail._asdict(),
        }

    def _targets_from_state(self, state: dict[str, Any]) -> None:
        self._problem = Bellman(state["discount"], state["method"], state["auxiliary"])
        self._trail = Trail.from_state(state["trail"], self.n_features_in_)
