"""Policy evaluation on streams of transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from mercer.estimators.fitting import Callback, Data, Given, TaskEstimator
from mercer.estimators.inputs import check_weights
from mercer.estimators.start import Plan
from mercer.estimators.targets import (
    Outputs,
    TaskTargets,
    no_loss,
    plain_order,
    score_of,
    usual_unit,
)
from mercer.estimators.transitions import (
    Trail,
    Transitions,
    check_second,
    check_transitions,
    collect,
    from_trajectories,
    interleaved,
    passes,
    spread_out,
)
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep, automatic_step
from mercer.model_file import storable
from mercer.objectives.bellman import AUXILIARY, METHODS, Bellman
from mercer.records import IfAny, Part, Record
from mercer.validation import check_choice, choice, positive, real, truth

Array = NDArray[np.float64]

# Number of transitions used to find the automatic step.
_FEW = 100
# Number of states, spread over the sample, used to find length scales.
_N_SPREAD = 300


@dataclass(frozen=True)
class Rewards(TaskTargets):
    """Rewards of a value function: problem, position in the stream, and unit.

    Attributes
    ----------
    problem : Bellman
        Objective, with discount and method.
    trail : Trail
        Present position of the stream.
    scale : float
        Unit in which rewards, and so values, are learned.
    """

    loss = None

    problem: Bellman
    trail: Trail
    scale: float = 1.0

    _record = Record(
        loss=no_loss,
        targets=Record(
            discount=real(),
            method=choice(*METHODS),
            auxiliary=real(),
            trail=Part(Trail, "n_features"),
            scale=IfAny(positive(), 1.0),
        ),
    )

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """2 if the method also learns h, else 1."""
        return self.problem.n_outputs

    @property
    def rows_per_sample(self) -> int:  # type: ignore[override]
        """Number of states of a transition."""
        return self.problem.n_rows

    @property
    def outputs(self) -> Outputs:
        """The value, in the unit of the rewards."""
        return Outputs([None], 0, "value")

    def answers(self, scores: Array) -> Array:
        return self.scale * super().answers(scores)

    def objective(self, automatic: AutomaticStep | None) -> Bellman:
        return Bellman(self.problem.discount, self.problem.method, self.problem.auxiliary)

    def encode(self, y: Any, groups: Any = None) -> Array:
        targets: Array = y
        return targets

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        """Return the record and the largest safe steps, measured on transitions."""
        # b / (c k(x, x) + (b - 1) r) for b transitions: c is the norm of the step at a single one,
        # r the rate of the mean step.
        problem, m = self.problem, self.problem.n_rows
        usual = automatic_step(kernel, sample, problem.curvature, 1.0)
        some = np.random.default_rng(0).permutation(len(y) // m)[:_FEW]
        rows = (m * some[:, np.newaxis] + np.arange(m)).ravel()
        gram = np.asarray(kernel(X[rows]), dtype=np.float64)
        top = max(problem.top_rate(gram, y[rows]) / problem.curvature, 1e-9 * usual.bound)
        return self, AutomaticStep(problem.curvature, usual.bound, top, typical=usual.typical)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        return automatic

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        return usual_unit(automatic)

    @property
    def _values(self) -> dict[str, Any]:
        return {"loss": None, **vars(self.problem), **vars(self)}

    def _adopt(self, values: dict[str, Any]) -> None:
        problem = Bellman(*(values.pop(name) for name in ("discount", "method", "auxiliary")))
        super()._adopt({**values, "problem": problem})


@storable
class ValueFunction(TaskEstimator):
    r"""Estimate the expected discounted reward of a policy from each state, on a stream.

    The value of a state is :math:`V(x) = E[\sum_t \gamma^t r_t \mid x_0 = x]`. It is learned from
    transitions (state, reward, next state) of the policy by stochastic gradient steps in the RKHS
    of a kernel; the expansion keeps V small.

    Parameters
    ----------
    discount : float
        gamma, in [0, 1): a reward t steps ahead counts ``discount**t``.
    method : str, default="td"
        How to handle the next state's value, which is itself an estimate (steps:
        :class:`mercer.objectives.Bellman`):

        - ``"td"``, temporal differences: fastest and most accurate on transitions of the policy
          itself, in any order. May diverge on transitions of another policy.
        - ``"gtd2"``, ``"tdc"``: the same solution by true gradients. They also learn a second
          function h(x), the expected temporal difference (:meth:`predict_auxiliary`); slower.
        - ``"double_sampling"``: minimises the squared expected temporal difference, COLK, eq. (15).
          Needs a second next state drawn independently from the same state, so a simulator.
        - ``"residual"``: minimises the squared temporal difference. Correct for deterministic
          transitions, biased for random ones.
        - ``"pkgtd"``: a running mean of temporal differences in place of h, as in the literature.
          Needs transitions in the order in which they happened (``shuffle`` does not apply), in one
          pass, and is biased unless its rate is 1 - discount.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel (:mod:`mercer.kernels`); ``"auto"`` is a Gaussian kernel on standardised inputs.
    expansion : str or Expansion, default="auto"
        How V stays small (:mod:`mercer.expansions`); ``"auto"`` is ``KOMP(max_size=1000)``. Random
        features must have ``mode="faithful"``. V and h share the points, and a tolerance bounds
        their joint error.
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it. ``"auto"``
        takes a large safe step (:class:`mercer.learning.AutomaticStep`).
    auxiliary_step : float or "auto", default="auto"
        "gtd2" and "tdc": step size of h relative to the step size of V; ``"auto"`` is 0.2 and 1. A
        smaller value makes "tdc" faster, but it may diverge on transitions of another policy.
        "pkgtd": rate of the running mean, in (0, 1]; ``"auto"`` is 1 - discount, which gives the
        solution of temporal differences. Other methods ignore it.
    regularization : float or schedule, default=1e-6
        Ridge parameter; it shrinks h as well as V.
    normalize_rewards : bool, default=False
        Whether rewards are learned in units of their standard deviation in the first call; values
        are returned in the original units. Then neither tolerance nor ``history_`` depends on the
        unit.
    batch_size : int, default=32
        Transitions per step.
    n_passes : int or "auto", default="auto"
        Passes of ``fit`` over the transitions. ``"auto"`` learns about 100,000 transitions, in at
        most 10 passes; "pkgtd" makes one pass. If V has not converged, the mean of
        :meth:`temporal_difference_errors` is not near 0.
    shuffle : bool, default=True
        Whether ``fit`` visits the transitions of each pass in random order.
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
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: V(x) = Σ_i coefficients_[i, 0] · kernel_(dictionary_[i], x); column 1 is h.
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved.
    n_samples_seen_ : int
        Transitions learned, counted in every pass.
    history_ : History
        Progressive squared temporal difference, model order and compression error; its rows are
        states, two per transition.
    n_features_in_ : int
        Number of inputs.

    References
    ----------
    COLK, eq. (13)-(15).

    Examples
    --------
    A walk 0 -> 1 -> 2 that ends in 3; only the last step has a reward.

    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> states, next_states = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [3.0]])
    >>> model = ValueFunction(0.5, kernel=Gaussian(0.2), n_passes=500, random_state=0)
    >>> model = model.fit(states, [0.0, 0.0, 1.0], next_states, [False, False, True])
    >>> model.predict(states).round(2)
    array([0.25, 0.5 , 1.  ])
    """

    _targets_type = Rewards
    targets_: Rewards

    def __init__(
        self,
        discount: float,
        method: str = "td",
        *,
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        auxiliary_step: float | str = "auto",
        regularization: float | Callable[[int], float] = 1e-6,
        batch_size: int = 32,
        n_passes: int | str = "auto",
        shuffle: bool = True,
        average: str | None = "suffix",
        normalize_rewards: bool = False,
        n_jobs: int | None = None,
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
        self.normalize_rewards = normalize_rewards
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminals: Any = None,
        sample_weight: Any = None,
        *,
        second: Any = None,
        callback: Callback = None,
    ) -> Self:
        """Learn all transitions from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States; float32 is kept and used in computations, all other types become float64.
        rewards : array-like of shape (n,)
            Rewards of the transitions.
        next_states : array-like of shape (n, n_features)
            Next states.
        terminals : array-like of bool, shape (n,), default=None
            Whether the episode terminated in the next state, whose value is then 0. A truncated
            episode is not terminal. None: no next state is terminal.
        sample_weight : array-like of shape (n,), default=None
            Weights of the transitions, which multiply the temporal difference.
        second : tuple (rewards, next_states, terminals), default=None
            An independent second outcome of each transition from the same state, for
            ``method="double_sampling"``.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand states; stops the
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
        raw = Transitions(states, rewards, next_states, terminals, None, second)
        return self._fit(Given(raw, None, sample_weight), callback)

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
        """Learn more transitions, in order, ``batch_size`` at a time.

        The first call fixes all automatic choices on its states: length scale, step size and
        tolerance. Start with some hundred typical transitions, or give numbers. A trajectory may
        continue from call to call. Consecutive transitions are alike, which leaves a bias if steps
        stay as large as the automatic ones: use a falling schedule
        (:class:`mercer.schedules.InverseTime`), or collect transitions and shuffle them.

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
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.
        """
        raw = Transitions(states, rewards, next_states, terminals, None, second)
        return self._partial_fit(Given(raw, None, sample_weight, more=True))

    def fit_trajectories(self, trajectories: Any) -> Self:
        """Learn whole trajectories from scratch; see :meth:`fit`.

        Parameters
        ----------
        trajectories : list of (states, rewards, terminated)
            States of shape (T + 1, n_features), rewards of shape (T,), and whether the episode
            terminated in the last state; if it was only truncated there, its value counts.

        Returns
        -------
        self
        """
        return self._fit(Given(from_trajectories(trajectories)))

    def partial_fit_trajectories(self, trajectories: Any) -> Self:
        """Learn more whole trajectories; see :meth:`fit_trajectories`.

        Parameters
        ----------
        trajectories : list of (states, rewards, terminated)
            As in :meth:`fit_trajectories`.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(from_trajectories(trajectories), more=True))

    def fit_env(
        self, env: Any, policy: Callable[[Any], Any], n_steps: int, seed: int | None = None
    ) -> Self:
        """Follow a policy in a Gymnasium environment, and learn its value from scratch.

        Parameters
        ----------
        env : gymnasium.Env
            Environment with observations in a ``Box``, which are flattened, and any actions. It is
            reset at the beginning and after each episode. After an episode the value is 0 if it was
            terminated, and the value of the last observation if it was truncated.
        policy : callable
            Maps an observation of the environment to an action.
        n_steps : int
            Number of steps in the environment; all are kept before learning.
        seed : int or None, default=None
            Seed of the environment's first reset, and of its action space.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If Gymnasium is not installed.
        ValueError
            If observations are not arrays of numbers, or as in :meth:`fit`.
        """
        return self._fit(Given(collect(env, policy, n_steps, seed)))

    def partial_fit_env(
        self, env: Any, policy: Callable[[Any], Any], n_steps: int, seed: int | None = None
    ) -> Self:
        """Reset an environment, make more steps in it, and learn them.

        Parameters
        ----------
        env, policy, n_steps, seed
            As in :meth:`fit_env`.

        Returns
        -------
        self
        """
        return self._partial_fit(Given(collect(env, policy, n_steps, seed), more=True))

    # -- rows -----------------------------------------------------------------------------------

    def _checked(self, given: Given, known: Rewards | None, plan: Plan) -> Data:
        """Check transitions, and return their states x, x+ (x+1, x+2) as consecutive rows."""
        first = known is None
        problem, trail = (
            (self._bellman(), Trail()) if known is None else (known.problem, known.trail)
        )
        check_second(problem.method, problem.n_rows == 3, given.X.second is not None)
        transitions = check_transitions(self, given.X, reset=first)
        scale = 1.0 if known is None else known.scale
        if known is None and self.normalize_rewards:
            scale = float(transitions.rewards.std()) or 1.0
        transitions = transitions.in_units(scale)
        n = len(transitions.rewards)
        weights = check_weights(given.sample_weight, n, some=not given.more)
        begins = None
        if problem.needs_order:
            begins, trail = trail.follow(transitions)
            trail = trail.checked(problem.method)
        rows, targets = interleaved(transitions, problem.discount, begins)

        def order(generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
            """Keep the rows of a transition together."""
            order = plain_order(n, generator, shuffle and not problem.needs_order)
            return (problem.n_rows * order[:, np.newaxis] + np.arange(problem.n_rows)).ravel()

        weights = np.repeat(weights, problem.n_rows)
        return Data(rows, targets, weights, Rewards(problem, trail, scale), order)

    def _sample(self, data: Data, generator: np.random.RandomState) -> Any:
        """Return distinct states for automatic choices."""
        return spread_out(super()._sample(data, generator), _N_SPREAD)

    # -- parameters -----------------------------------------------------------------------------

    def _check_problem(self, plan: Plan) -> None:
        """Refuse invalid or contradictory parameters of a value function."""
        self._bellman()
        truth()("normalize_rewards", self.normalize_rewards)

    _checks = (*TaskEstimator._checks, _check_problem)

    def _bellman(self) -> Bellman:
        """Return the objective for the parameters."""
        auxiliary: Any = self.auxiliary_step
        if isinstance(auxiliary, str):
            check_choice("auxiliary_step", auxiliary, ("auto",))
            auxiliary = None
        return Bellman(self.discount, self.method, auxiliary)

    def _n_passes(self, n_rows: int) -> int:
        problem = self._bellman()
        n = max(n_rows // problem.n_rows, 1)
        return passes(self.n_passes, n, problem.method, problem.needs_order and n_rows > 1)

    # -- answers --------------------------------------------------------------------------------

    def predict(self, states: Any) -> Array:
        """Estimate the value of states.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.

        Returns
        -------
        values : ndarray of shape (n,)
        """
        scores = self.scores(states)
        return self.targets_.answers(scores)[:, 0]

    def predict_auxiliary(self, states: Any) -> Array:
        """Estimate the expected temporal difference, E[delta | x]; it is 0 where V is consistent.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.

        Returns
        -------
        h : ndarray of shape (n,)

        Raises
        ------
        AttributeError
            For methods other than "gtd2" and "tdc", which do not learn it.
        """
        self._fitted()
        if self.targets_.problem.method not in AUXILIARY:
            raise AttributeError(
                "The expected temporal difference is learned by the methods 'gtd2' and 'tdc'; this "
                f"model has method={self.targets_.problem.method!r}."
            )
        return self.scores(states)[:, 1] * self.targets_.scale

    def temporal_difference_errors(
        self, states: Any, rewards: Any, next_states: Any, terminals: Any = None
    ) -> Array:
        """Return temporal differences r + discount · V(next state) - V(state) of transitions.

        Parameters
        ----------
        states, rewards, next_states, terminals
            As in :meth:`fit`.

        Returns
        -------
        errors : ndarray of shape (n,)
            If V is correct, their mean over transitions from any state is 0.
        """
        self._fitted()
        given = Transitions(states, rewards, next_states, terminals)
        x, r, following, over, *_ = check_transitions(self, given, reset=False)
        continuation = np.where(over, 0.0, self.targets_.problem.discount)
        answers = self.targets_.answers
        ahead, values = (answers(self._scores_at(rows))[:, 0] for rows in (following, x))
        return r + continuation * ahead - values

    def score(self, states: Any, returns: Any, sample_weight: Any = None) -> float:
        """Return R² of the values against returns.

        Parameters
        ----------
        states : array-like of shape (n, n_features)
            States.
        returns : array-like of shape (n,)
            Discounted sums of rewards from each state on, or exact values. Returns of random
            trajectories vary, so R² stays below 1. These are not rewards: scikit-learn's searches
            pass rewards and choose wrongly, so compare settings by hand.
        sample_weight : array-like of shape (n,), default=None
            Weights of the states.

        Returns
        -------
        score : float
            NaN, with a warning, for fewer than two rows.

        Raises
        ------
        ValueError
            If squares of the returns or values are beyond what numbers hold.
        """
        return score_of(r2_score, returns, self.predict(states), sample_weight)
