"""Policy evaluation: objectives whose minimiser is a value function."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.objectives.objective import Array, Batch, Objective
from mercer.validation import check_choice, check_real

METHODS = ("td", "gtd2", "tdc", "double_sampling", "residual", "pkgtd")
#: Methods with a second function, the estimate of E[delta | x].
AUXILIARY = ("gtd2", "tdc")

# GTD2: on linear-quadratic problems and a pendulum, both a faster and a slower h made V slower. TDC
# is stable on off-policy transitions only if h is fast enough.
_RATIOS = {"gtd2": 0.2, "tdc": 1.0}
# Components rotate while they shrink. If they shrink by less than this share of the rotation, the
# sample does not determine the damping.
_LEAST_DAMPING = 0.1
# Spectral norms of larger matrices are bounded by sums, which is fast.
_MOST_FOR_NORM = 256
# Columns of the targets. A row's targets describe the transition from the state x to that row.
_REWARD, _CONTINUATION, _BEGINS, _RETURN = range(4)


class Bellman(Objective):
    r"""Learn the expected discounted sum of rewards from transitions.

    .. math:: V(x) = E\Big[\sum_t \gamma^t r_t \,\Big|\, x_0 = x\Big], \qquad
        J(V) = E_x\Big[\tfrac12 \big(E[\delta \mid x]\big)^2\Big], \qquad
        \delta = r + \gamma V(x^+) - V(x)

    The inner expectation is conditional on the state, so a single transition does not give an
    unbiased gradient. With :math:`k_x = k(x, \cdot)` and step sizes alpha and beta, a transition
    makes the step

    =================  ==========================================================================
    "td"               V += alpha delta k_x
    "gtd2"             V += alpha h(x) (k_x - gamma k_x+), h += beta (delta - h(x)) k_x
    "tdc"              V += alpha (delta k_x - gamma h(x) k_x+), h as above
    "double_sampling"  V += alpha (delta_1 (k_x - gamma k_x+2) + delta_2 (k_x - gamma k_x+1)) / 2
    "residual"         V += alpha delta (k_x - gamma k_x+), which minimises E[delta²]: biased
    "pkgtd"            z = (1 - beta) z + beta delta, V += alpha z (k_x - gamma k_x+)
    =================  ==========================================================================

    A batch makes the mean of these steps, updating z row by row. The second function h (output 1)
    is evaluated *before* it moves: its error must be independent of the transition that it
    multiplies.

    Rows of a batch are x, x+ of the first transition, x, x+ of the second and so on; with double
    sampling x, x+1, x+2. :func:`transition_targets` makes their targets.

    Parameters
    ----------
    discount : float
        gamma, in [0, 1).
    method : str, default="td"
        One of the methods above.
    auxiliary : float or None, default=None
        "gtd2" and "tdc": beta / alpha, 0.2 and 1 by default. "pkgtd": beta in (0, 1], 1 - discount
        by default. Other methods have none.

    Attributes
    ----------
    n_rows : int
        Rows per transition: 2, or 3 with double sampling.
    n_outputs : int
        1, or 2 for methods with h.
    tracked : float
        Present value of z.

    References
    ----------
    COLK, eq. (13)-(15), for the problem; Sutton et al. (2009), Fast gradient-descent methods for
    temporal-difference learning with linear function approximation, for GTD2 and TDC; Koppel et
    al. (2017), Breaking Bellman's curse of dimensionality, for PKGTD. Double sampling uses both
    next states in both places, which halves the variance; sample weights of PKGTD multiply delta in
    z.

    Examples
    --------
    >>> targets = transition_targets(0.5, [([2.0], [False])])
    >>> batch = Batch(np.zeros((2, 1)), targets, np.ones(2))
    >>> values = np.array([[1.0], [4.0]])  # delta = 2 + 0.5 * 4 - 1 = 3
    >>> Bellman(0.5, "td").slopes(values, batch)[0].ravel()
    array([-3.,  0.])
    >>> Bellman(0.5, "residual").slopes(values, batch)[0].ravel()
    array([-3. ,  1.5])
    """

    _remedy = (
        "; standardise the states, and scale the rewards to a size of about 1. With "
        "transitions of another policy than the one to be judged, 'td' may diverge for every "
        "step size: use 'gtd2'."
    )

    def __init__(self, discount: float, method: str = "td", auxiliary: float | None = None) -> None:
        self.discount = check_discount(discount)
        self.method: str = check_choice("method", method, METHODS)
        self.auxiliary = self._checked_auxiliary(auxiliary)
        self.n_rows = 3 if method == "double_sampling" else 2
        self.rows_per_sample, self.sample_name = self.n_rows, "transitions"
        self.n_outputs = 2 if method in AUXILIARY else 1
        self.tracked = 0.0
        self.saved_scalars = ("tracked",) if method == "pkgtd" else ()
        self.curvature: float = self._curvature()
        # Errors of compression, where V is smooth, are multiplied by up to 1 / (1 - discount) along
        # the trajectories.
        self.tolerance_scale = float(np.sqrt(1.0 - self.discount))
        # Rewards may be rare, so transitions without a reward count as much as others.
        self.rows_per_slope = 1 if method in ("double_sampling", "residual", "pkgtd") else 2

    def _checked_auxiliary(self, value: float | None) -> float:
        name = "auxiliary_step"
        if self.method == "pkgtd":
            why = "It is the share of the newest temporal difference in z."
            beta = 1.0 - self.discount if value is None else value
            return check_real(name, beta, low=0.0, high=1.0, open_low=True, why=why)
        why = "It is the step size of h in units of that of V."
        ratio = _RATIOS.get(self.method, 1.0) if value is None else value
        return check_real(name, ratio, low=0.0, open_low=True, why=why)

    def _curvature(self) -> float:
        """Return the norm of the derivative of the slopes, which are linear, by differences."""
        if self.method == "pkgtd":
            # At first z holds this share of a temporal difference.
            return float(self.auxiliary * Bellman(self.discount, "residual").curvature)
        n = self.n_rows
        outcome = np.zeros(1), np.zeros(1, np.bool_)
        targets = transition_targets(self.discount, [outcome] * (n - 1))
        batch = Batch(np.zeros((n, 1)), targets, np.ones(n))
        units = np.eye(n * self.n_outputs).reshape(-1, n, self.n_outputs)
        columns = [self.slopes(unit, batch)[0].ravel() for unit in units]
        # Slopes are means over transitions, but steps are counted in rows.
        return n * float(np.linalg.norm(columns, 2))

    def top_rate(self, gram: Array, targets: Array) -> float:
        """Return the rate of the fastest component of V and h in a unit step on a whole sample.

        Parameters
        ----------
        gram : ndarray of shape (n * n_rows, n * n_rows)
            Kernel matrix of the interleaved rows of n transitions.
        targets : ndarray of shape (n * n_rows, 4)
            Their targets.

        Returns
        -------
        rate : float
            Rate of the mean step, which is linear: steps are stable up to about 2 / rate. Smooth
            components move slowly, because V(x) and gamma V(x+) move together, so the rate is far
            below the largest eigenvalue of the Gram matrix.
        """
        m, n_outputs = self.n_rows, self.n_outputs
        n = len(targets) // m
        if self.method == "pkgtd":
            # Along a trajectory, z makes temporal-difference steps of beta times the length.
            return self.auxiliary * Bellman(self.discount).top_rate(gram, targets)
        batch = Batch(np.empty((0, 0)), targets.copy(), np.ones(n * m))
        batch.targets[:, _REWARD] = 0.0
        units = np.eye(m * n_outputs).reshape(-1, m, n_outputs)
        # Slopes at a transition depend only on the values at its own rows.
        blocks = [self.slopes(np.tile(unit, (n, 1)), batch)[0] for unit in units]
        derivative = np.stack(blocks, axis=-1).reshape(n, m, n_outputs, m * n_outputs)
        kernel = gram.reshape(n, m, n, m)
        mean_step = np.einsum("iajc,jcok->iaojk", kernel, derivative, optimize=True)
        rates = np.linalg.eigvals(mean_step.reshape(n * m * n_outputs, -1))
        # |1 - step rate| < 1 for steps below 2 Re(rate) / |rate|². Sampling noise may make a real
        # part small or negative.
        damping = np.maximum(rates.real, _LEAST_DAMPING * np.abs(rates))
        return float(np.max(np.square(np.abs(rates)) / np.maximum(damping, 1e-300)))

    def batch_rate(self, gram: Array, targets: Array, weights: Array) -> float:
        """Return the rate on the transitions, which accounts for V(x) and V(x+) moving together.

        With phi = k_x - gamma k_x+, a step of temporal-difference learning changes the temporal
        differences of a batch by the matrix of <phi_i, k_x_j>, a gradient step by the matrix of
        <phi_i, phi_j>. h changes by the Gram matrix of the states.
        """
        m = self.n_rows
        n = len(targets) // m
        kernel = gram.reshape(n, m, n, m)
        later = targets.reshape(n, m, -1)[:, 1:, _CONTINUATION]
        phi_rows = kernel[:, :1] - later[:, :, np.newaxis, np.newaxis] * kernel[:, 1:]
        phi_phi = phi_rows[..., :1] - later * phi_rows[..., 1:]
        shares = weights[::m] / n
        if self.method == "double_sampling":
            # Each error is multiplied by the phi of the other.
            joint = 0.5 * phi_phi[..., ::-1].reshape(2 * n, 2 * n)
            return _norm(joint, np.repeat(shares, 2))
        if self.method == "td":
            return _norm(phi_rows[:, 0, :, 0], shares)
        if self.method == "pkgtd":
            # Row j: the weight of each temporal difference in z after transition j.
            begins = targets[::m, _BEGINS] > 0.5
            keep = np.where(begins, 0.0, 1.0 - self.auxiliary).tolist()
            held = _running(keep, np.diag(self.auxiliary * shares), np.zeros(n))
            return _norm(phi_phi[:, 0, :, 0] @ held, np.ones(n))
        by_phi = _norm(phi_phi[:, 0, :, 0], shares)
        if self.method == "residual":
            return by_phi
        own = self.auxiliary * _norm(kernel[:, 0, :, 0], shares)
        if self.method == "gtd2":
            # Errors of V and h rotate into each other: steps are stable only up to 1 / by_phi.
            return max(own, 2.0 * by_phi)
        return max(own, by_phi, _norm(phi_rows[:, 0, :, 0], shares))

    @property
    def needs_order(self) -> bool:
        """Whether transitions must arrive in the order in which they happened."""
        return self.method == "pkgtd"

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Return the rows themselves, x and x+ alternately."""
        return batch.X

    @np.errstate(over="ignore", invalid="ignore")  # the loop finds and reports overflow
    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Return slopes; the loss of both rows of a transition is its delta²."""
        f, targets, weights = self._by_transition(values, batch)
        errors = _errors(f, targets)
        slopes = np.zeros_like(f)
        at_state, at_next = self._multipliers(f, targets, weights, errors)
        slopes[:, 0, 0] = -at_state
        slopes[:, 1:, 0] = targets[:, 1:, _CONTINUATION] * at_next
        if self.n_outputs == 2:
            slopes[:, 0, 1] = -self.auxiliary * (errors[:, 0] - f[:, 0, 1])
        # z contains the weights of PKGTD, so its stationary point is that of weighted TD.
        share = np.ones_like(weights) if self.method == "pkgtd" else weights
        slopes *= (share / max(share.size, 1))[:, np.newaxis, np.newaxis]
        losses = np.repeat(np.mean(np.square(errors), axis=1), self.n_rows)
        return slopes.reshape(values.shape), losses

    def _multipliers(
        self, f: Array, targets: Array, weights: Array, errors: Array
    ) -> tuple[Array, Array]:
        """Return the factors of alpha k_x, shape (n,), and of -alpha gamma k_x+, for each x+."""
        delta = errors[:, 0]
        if self.method == "td":
            return delta, np.zeros_like(errors)
        if self.method == "gtd2":
            return f[:, 0, 1], f[:, :1, 1]
        if self.method == "tdc":
            return delta, f[:, :1, 1]
        if self.method == "double_sampling":
            return errors.mean(axis=1), 0.5 * errors[:, ::-1]
        if self.method == "residual":
            return delta, errors
        tracked = self._track(targets, weights, delta)
        return tracked, tracked[:, np.newaxis]

    def _track(self, targets: Array, weights: Array, delta: Array) -> Array:
        """Return z after each transition; z is reset where a trajectory begins."""
        beta = self.auxiliary
        keep = np.where(targets[:, 0, _BEGINS] > 0.5, 0.0, 1.0 - beta).tolist()
        return _running(keep, (beta * weights * delta).tolist(), self.tracked)

    def _by_transition(self, values: Array, batch: Batch) -> tuple[Array, Array, Array]:
        """Return values and targets of shape (n, n_rows, .), and weights of shape (n,)."""
        f = values.reshape(-1, self.n_rows, self.n_outputs)
        targets = batch.targets.reshape(f.shape[0], self.n_rows, -1)
        return f, targets, batch.weights[:: self.n_rows]

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Update z."""
        if self.method == "pkgtd":
            f, targets, weights = self._by_transition(values, batch)
            self.tracked = float(self._track(targets, weights, _errors(f, targets)[:, 0])[-1])


def _running(keep: list[float], news: Any, start: Any) -> Array:
    """Return the successive values of z = keep z + new, for numbers or arrays."""
    z, values = start, []
    for factor, new in zip(keep, news, strict=True):
        z = factor * z + new
        values.append(z)
    return np.array(values)


def _norm(matrix: Array, shares: Array) -> float:
    """Return the spectral norm of a matrix with weighted rows and columns, or a bound of it."""
    root = np.sqrt(shares)
    weighted = root[:, np.newaxis] * matrix * root
    if len(weighted) <= _MOST_FOR_NORM and np.isfinite(weighted).all():
        return float(np.linalg.norm(weighted, 2))
    return float(np.sqrt(np.linalg.norm(weighted, 1) * np.linalg.norm(weighted, np.inf)))


def _errors(f: Array, targets: Array) -> Array:
    """Return the temporal differences, shape (n, n_rows - 1)."""
    reward, continuation = targets[:, 1:, _REWARD], targets[:, 1:, _CONTINUATION]
    errors: Array = reward + continuation * f[:, 1:, 0] - f[:, :1, 0]
    return errors


def check_discount(discount: Any) -> float:
    """Return the discount as a float, or raise ``ValueError``."""
    why = (
        "The value is the sum of rewards weighted by discount**t, which has no bound if the "
        "weights do not fall. For sums over episodes use a discount close to 1, such as 0.99."
    )
    return check_real("discount", discount, low=0.0, high=1.0, open_high=True, why=why)


def transition_targets(discount: float, outcomes: Any, begins: Any = None) -> Array:
    """Return the targets of interleaved rows.

    Parameters
    ----------
    discount : float
        gamma.
    outcomes : sequence of (rewards, terminals)
        For each next state of a transition (two with double sampling): the rewards, and whether the
        episode ends there, each of shape (n,).
    begins : array-like of bool, shape (n,), default=None
        Whether a trajectory begins with the transition; None for never.

    Returns
    -------
    targets : ndarray of shape (n * (1 + number of outcomes), 4)
        Reward; gamma, or 0 where the episode ends; whether a trajectory begins; and the discounted
        sum if this reward were paid for ever, which is the unit of values.

    Examples
    --------
    >>> transition_targets(0.5, [([2.0, 3.0], [False, True])])[::2]
    array([[2. , 0.5, 0. , 4. ],
           [3. , 0. , 0. , 6. ]])
    """
    rewards = np.column_stack([np.asarray(r, dtype=np.float64) for r, _ in outcomes])
    over = np.column_stack([np.asarray(t, dtype=np.bool_) for _, t in outcomes])
    targets = np.zeros((len(rewards), 1 + rewards.shape[1], 4))
    targets[:, 1:, _REWARD] = rewards
    targets[:, 1:, _CONTINUATION] = np.where(over, 0.0, discount)
    with np.errstate(over="ignore"):
        targets[:, 1:, _RETURN] = rewards / (1.0 - discount)
    if begins is not None:
        targets[:, 1:, _BEGINS] = np.asarray(begins)[:, np.newaxis]
    targets[:, 0] = targets[:, 1]
    return targets.reshape(-1, 4)
