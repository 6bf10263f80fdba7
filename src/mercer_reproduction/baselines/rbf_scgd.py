r"""A fixed radial basis function network, trained by stochastic compositional gradients.

The comparison of COLK, Section V, that shows what a dictionary that grows and shrinks is worth: the
same objective from the same samples, but centres that are chosen beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.exceptions import DivergenceError
from mercer.kernels import Kernel
from mercer.losses import Loss
from mercer.objectives import Batch, make_objective
from mercer.risks import Risk, as_tracker
from mercer.validation import check_integer, check_real
from mercer_reproduction.baselines._base import Array, Floats, Solver


class RBFNetwork(Solver):
    r"""A risk of a loss by SCGD, or NASA, on the weights of fixed centres.

    The network is :math:`f(x) = \sum_j w_j k(c_j, x)`. A step takes the next ``batch_size`` rows,

    .. math:: w \leftarrow (1 - \gamma\nu) w - \gamma \sum_i s_i k_c(x_i),

    where the slopes s come from :class:`mercer.objectives.Compositional`, the objective of the
    library's own learners; the ridge is on the weights, :math:`\nu\|w\|^2/2`. With the tracker's
    rule "nasa" all moves on one time scale: the weights follow a running mean of the directions,

    .. math:: e \leftarrow (1 - \rho)\, e - \gamma\rho \sum_i s_i k_c(x_i), \qquad
              w \leftarrow (1 - \gamma\nu) w + e,

    with :math:`\rho` the tracker's ``direction_rate``, and slopes at the tracked expectation of
    before the step (Jacobi), where those of SCGD are at the one after it (Gauss-Seidel). Rows are
    visited in the order in which they are given, again and again.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Training rows; for pairs of samples, the two of a pair one after the other.
    y : ndarray of shape (n_rows,)
        Targets, or labels -1 and +1.
    kernel : Kernel
        With its numbers resolved. COLK writes :math:`\exp(-d^2/r^2)`, which is
        ``Gaussian(r / math.sqrt(2))``.
    centres : ndarray of shape (n_centres, n_inputs)
        Of the basis functions.
    loss : Loss
        A regression or a margin loss.
    risk : Risk or None
        Its tracker has to have the rule "scgd" or "nasa". None: the mean loss, which makes this
        plain SGD.
    step_size : float
        :math:`\gamma`.
    regularization : float
        :math:`\nu`.
    batch_size : int, default=2
        Rows of a step: one pair.
    noise : float, default=0.0
        Deviation of a normal number :math:`n_j` for each training row, added to all its features:
        COLK's :math:`\varphi_i(x_j) + n_j`. Predictions have none.
    seed : int, default=0
        Of the noise.

    Raises
    ------
    ValueError
        If a number is out of range, or the risk is tracked by another rule.

    References
    ----------
    Wang, Fang, Liu (2017), Stochastic compositional gradient descent; COLK, eq. (19), Section V.
    Ghadimi, Ruszczynski, Wang (2020), A single timescale stochastic approximation method for nested
    stochastic optimization: reference [56] of COLK, for "nasa".

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> from mercer.losses import Squared
    >>> from mercer.risks import Tracker, Variance
    >>> X = np.random.default_rng(0).random((800, 1))
    >>> risk = Variance(0.1, tracker=Tracker("scgd", rate=0.01, pairs="stream"))
    >>> network = RBFNetwork(
    ...     X, X[:, 0], Gaussian(0.1), np.linspace(0, 1, 10)[:, None], Squared(), risk,
    ...     step_size=0.3, regularization=0.0,
    ... )
    >>> sum(network.step() for _ in range(400))
    800
    >>> error = network.decision_function(X) - X[:, 0]
    >>> bool(np.sqrt(np.mean(error**2)) < 0.03)
    True
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        kernel: Kernel,
        centres: Array,
        loss: Loss,
        risk: Risk | None,
        *,
        step_size: float,
        regularization: float,
        batch_size: int = 2,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        rule = "scgd" if risk is None or risk.n_inner == 0 else as_tracker(risk.tracker).rule
        if rule not in ("scgd", "nasa"):
            raise ValueError(
                f"The risk {risk!r} is tracked by the rule {rule!r}, but the network is trained by "
                "SCGD or NASA. Give the risk tracker=Tracker('scgd', ...) or Tracker('nasa', ...)."
            )
        self._step_size = check_real("step_size", step_size, low=0.0, open_low=True)
        self._ridge = check_real("regularization", regularization, low=0.0)
        self._size = check_integer("batch_size", batch_size, low=1, high=len(y))
        self._kernel, self._centres = kernel, np.asarray(centres, np.float64)
        self._X, self._y = X, np.asarray(y, np.float64)[:, np.newaxis]
        deviation = check_real("noise", noise, low=0.0)
        numbers = np.random.default_rng(seed).standard_normal((len(X), 1))
        self._Z = self._features(X) + deviation * numbers
        self._next = self._n_steps = 0
        self._sums: Array | None = None
        #: What is minimised, with the tracked expectation ``inner`` of a risk.
        self.objective: Any = make_objective(loss, risk)
        # The averaged direction of NASA is a second row.
        self._weights = np.zeros((getattr(self.objective, "copies", 1), len(self._centres)))
        self._mixing: Array | None = self.objective.mixing(
            self._step_size, self._ridge, len(self._weights)
        )

    @property
    def weights(self) -> Array:
        """Weights of the centres, shape (n_centres,)."""
        weights: Array = self._weights[0]
        return weights

    def _features(self, X: Floats) -> Array:
        return np.asarray(self._kernel(X, self._centres), np.float64)

    @property
    def monitors(self) -> dict[str, float]:
        """Means over all steps of what the objective notes, such as ``clipped_fraction``."""
        if self._sums is None:
            return {}
        means = self._sums / self._n_steps
        return dict(zip(self.objective.monitors, means.tolist(), strict=True))

    def step(self) -> int:
        """See :class:`Solver`.

        Raises
        ------
        DivergenceError
            If the weights are no longer finite.
        """
        rows = np.arange(self._next, self._next + self._size) % len(self._y)
        self._next = (self._next + self._size) % len(self._y)
        Z = self._Z[rows]
        batch = Batch(self._X[rows], self._y[rows], np.ones(self._size))
        # A run that diverges is reported by the check below, once.
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.column_stack([Z @ weights for weights in self._weights])
            slopes = self.objective.slopes(values, batch)[0]
            self.objective.update(values, batch, self._step_size)
            if self._mixing is None:
                self._weights *= 1.0 - self._step_size * self._ridge
            else:
                self._weights = self._mixing.T @ self._weights
            for weights, slope in zip(self._weights, slopes.T, strict=True):
                weights -= self._step_size * (slope @ Z)
        self._n_steps += 1
        measured = np.array(self.objective.measured())
        self._sums = measured if self._sums is None else self._sums + measured
        if not np.isfinite(self.weights).all():
            raise DivergenceError(
                f"The weights are no longer finite after {self._n_steps} steps of size "
                f"{self._step_size:g}. Use smaller ones.{self.objective.remedy()}"
            )
        return self._size

    def decision_function(self, X: Floats) -> Array:
        scores: Array = self._features(X) @ self.weights
        return scores
