"""Preconditioned Newton steps on a fixed set of features, for losses other than squared error."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.dense import RidgeFactor, factor_ridge
from mercer.records import Maybe, Numbers, Part, Record, Recorded
from mercer.sums.ridge import Basis
from mercer.sums.statistics import Statistics, Sums
from mercer.validation import integer, positive, real

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# The bound of the Hessian is summed over the first number of points per feature, but over at least
# the second number of points. More points would change it less than steps are inexact anyway.
_POINTS_PER_FEATURE, _POINTS = 15, 20_000
# The bound is factored again once it has so many times more points.
_GROWTH = 1.5
# Power iterations for the top eigenvalue: they err by a tenth, and steps are stable up to twice.
_POWER_ITERATIONS = 32
# Most features with which the top eigenvalue of a batch is measured at every step.
_EVERY_STEP = 1000
_SLOW = 10.0  # Steps of a stream after which a step is shorter by the root of two.


class NewtonSteps(Recorded):
    r"""Coefficients of a linear function of features, learned by preconditioned Newton steps.

    .. math:: w \leftarrow w - \eta\, (c A / n + \lambda P)^{-1} (Z^T s + \lambda P w)

    with the slopes s of an objective at some points, the bound c of its curvature, the ridge
    :math:`\lambda`, and A / n the mean of weight times :math:`z z^T` over the points so far. The
    matrix bounds the Hessian, so a step of size 1 on all rows never overshoots. On few rows it may,
    so the step is divided by the top eigenvalue :math:`\tau` of the Hessian of these rows in units
    of the bound: about :math:`(1 + \sqrt{h / b})^2` for b rows of leverage h.

    Parameters
    ----------
    basis : Basis
        Features z and their penalty P.
    n_outputs : int
        Number of outputs of the function.
    curvature : float
        Bound c of the curvature, above 0.
    averaging : float or None, default=None
        Exponent of the weights of averages over the steps of a stream; None for the last iterate.
    forgetting : float, default=1.0
        Factor by which the share of a point in A falls with each point after it. Averages, and the
        shortening of later steps, then reach back equally far.

    Attributes
    ----------
    iterate, before : ndarray of shape (n_features, n_outputs)
        Coefficients after and before the last step; arrays are replaced, never changed in place.
    n_steps : int
        Number of steps so far; repeated passes over rows count once.
    """

    _record = Record(
        **{name: Numbers("n_features", "n_outputs") for name in ("iterate", "before", "mean")},
        **{name: real(low=0.0) for name in ("total_weight", "top", "n_points", "factored_at")},
        n_steps=integer(low=0),
        curvature=positive(),
        _sums=Sums(1),
        _factor=Maybe(Part(RidgeFactor, "n_features")),
        _factor_ridge=real(low=0.0),
    )

    def __init__(
        self,
        basis: Basis,
        n_outputs: int,
        curvature: float,
        averaging: float | None = None,
        forgetting: float = 1.0,
    ) -> None:
        self.basis, self.curvature = basis, curvature
        self.averaging, self.forgetting = averaging, forgetting
        self.iterate = self.before = np.zeros((basis.size, n_outputs))
        self.mean = self.iterate
        self.total_weight = 0.0
        self.n_steps = 0
        self.top = 0.0  # not measured yet
        self.n_points = 0.0
        self.factored_at = 0.0
        self._sums = Statistics(basis.size, 1)
        self._factor: RidgeFactor | None = None
        self._factor_ridge = 0.0
        self._penalty = basis.penalty()

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.basis.size

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.iterate.shape[1]

    def start(self, coefficients: Array) -> None:
        """Start at given coefficients instead of 0."""
        self.iterate = self.before = self.mean = np.ascontiguousarray(coefficients)

    # -- the bound of the Hessian ---------------------------------------------------------------

    @property
    def wants_points(self) -> bool:
        """Whether more points would still change the bound."""
        full = max(_POINTS_PER_FEATURE * self.basis.size, _POINTS)
        return self.forgetting < 1.0 or self.n_points < full

    def add_points(self, Z: Floats, weights: Array) -> None:
        """Add points to the bound of the Hessian.

        Parameters
        ----------
        Z : ndarray of shape (n_points, n_features)
            Features.
        weights : ndarray of shape (n_points,)
            Weights from :meth:`mercer.objectives.Objective.steepness`.
        """
        self._sums = self._sums.copy()
        if self.forgetting < 1.0:
            self._sums.forget(self.forgetting**weights.size)
            self.n_points *= self.forgetting**weights.size
        self.n_points += weights.size
        used = weights > 0.0
        if used.any():
            features: Any = Z[used]
            self._sums.add(features, np.zeros((len(features), 1)), weights[used])

    def take_bound(self, sums: Statistics, n_points: int) -> None:
        """Set the bound of the Hessian from sums over points; points of weight 0 are counted."""
        self._sums, self.n_points = sums.without_targets(), float(n_points)

    def _factored(self, ridge: float) -> RidgeFactor:
        stale = self.n_points > _GROWTH * self.factored_at
        if self.forgetting < 1.0:
            stale |= self.n_steps % max(1, round(0.1 / (1.0 - self.forgetting))) == 0
        if self._factor is None or stale or ridge != self._factor_ridge:
            if stale:
                self.factored_at = self.n_points
            moments = self._sums.gram * (self.curvature / max(self.n_points, 1.0))
            self._factor = factor_ridge(moments, ridge, self._penalty, self._sums.jitter)
            self._factor_ridge = ridge
        return self._factor

    # -- steps ----------------------------------------------------------------------------------

    @staticmethod
    def values(Z: Floats, coefficients: Array) -> Array:
        """Return the values of a function at points with given features."""
        values: Array = (Z @ coefficients.astype(Z.dtype, copy=False)).astype(np.float64)
        return values

    def largest_step(self, Z: Floats, weights: Array, ridge: float) -> float:
        """Return the largest step size with which a step on a batch does not overshoot, at most 1.

        Parameters
        ----------
        Z : ndarray of shape (n_points, n_features)
            Features of the batch.
        weights : ndarray of shape (n_points,)
            Weights as in :meth:`add_points`.
        ridge : float
            Ridge parameter.
        """
        every = 1 + self.basis.size // _EVERY_STEP
        if self.n_steps % every == 0 or not self.top:
            new = self._top_eigenvalue(Z, weights, self._factored(ridge))
            self.top = new if every == 1 else max(new, 0.9 * self.top)
        return 1.0 / max(1.0, self.top)

    def _top_eigenvalue(self, Z: Floats, weights: Array, factor: RidgeFactor) -> float:
        scaled = weights * (self.curvature / max(weights.size, 1))
        u = np.random.default_rng(0).standard_normal(self.basis.size)
        top = 0.0
        for _ in range(_POWER_ITERATIONS):
            norm = float(np.linalg.norm(u))
            if not norm > 0.0:
                break
            v = factor.whiten(u / norm, transposed=True)
            moved = Z.T @ (scaled * (Z @ v.astype(Z.dtype))).astype(Z.dtype)
            u = factor.whiten(moved.astype(np.float64))
            top = float(np.linalg.norm(u))
        return top

    def step(
        self,
        gradient: Array,
        step_size: float,
        ridge: float,
        mixing: Array | None = None,
        rate: float = 1.0,
    ) -> None:
        """Take a preconditioned Newton step.

        Parameters
        ----------
        gradient : ndarray of shape (n_features, n_outputs)
            Gradient of the objective in the coefficients, without the penalty.
        step_size : float
            Step size eta; 1 is a full Newton step.
        ridge : float
            Ridge lambda.
        mixing : ndarray of shape (n_outputs, n_outputs), default=None
            Matrix that the coefficients are multiplied by in the step, apart from the ridge.
        rate : float, default=1.0
            With ``mixing``: the factor that the slopes were multiplied by. All outputs are then
            copies of the first ones, whose ridge is multiplied by it, too.
        """
        start = pulled = self.iterate
        if mixing is not None:
            start = self.iterate @ mixing
            pulled = rate * np.tile(self.iterate[:, : start.shape[1] // 2], 2)
        gradient = gradient + ridge * self._pull(pulled)
        change = self._factored(ridge).solve(gradient)
        # Files have C order; products must be the same before and after a file.
        self.before, self.iterate = self.iterate, np.ascontiguousarray(start - step_size * change)
        self.n_steps += 1

    def descend(
        self,
        Z: Floats,
        slopes: Callable[[Array], Array],
        ridge: float,
        n_steps: int,
    ) -> None:
        """Take full Newton steps on all points, with Nesterov's acceleration.

        The momentum restarts when it points uphill.

        Parameters
        ----------
        Z : ndarray of shape (n_points, n_features)
            Features of the points in float64; the same points that were added to the bound.
        slopes : callable
            Maps values at the points, (n_points, n_outputs), to derivatives of the objective.
        ridge : float
            Ridge lambda.
        n_steps : int
            Number of steps.

        References
        ----------
        B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Foundations
        of Computational Mathematics 2015, section 3.2.
        """
        ahead, t = self.iterate, 1.0
        for _ in range(n_steps):
            # Z is tall and narrow: with few columns, this order of the product costs half.
            gradient = products_with(Z, slopes((ahead.T @ Z.T).T)) + ridge * self._pull(ahead)
            new = ahead - self._factored(ridge).solve(gradient)
            change = new - self.iterate
            if float(np.vdot(gradient, change)) > 0.0:
                t = 1.0
            grown = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
            ahead, t = new + (t - 1.0) / grown * change, grown
            self.before, self.iterate = self.iterate, np.ascontiguousarray(new)
        self.mean = self.iterate

    def _pull(self, coefficients: Array) -> Array:
        """Return the gradient of half the penalty."""
        return coefficients if self._penalty is None else self._penalty @ coefficients

    def penalty(self, ridge: float) -> float:
        """Return what the ridge adds to the objective at the iterate."""
        return 0.5 * ridge * float(np.vdot(self.iterate, self._pull(self.iterate)))

    def set_curvature(self, curvature: float) -> None:
        """Set another bound of the curvature."""
        self.curvature, self._factor = curvature, None

    def falling(self, n_rows: int) -> float:
        """Return the decaying factor of the next step of a stream, on ``n_rows`` rows."""
        t = float(self.n_steps)
        if self.forgetting < 1.0:
            t = min(t, 1.0 / ((1.0 - self.forgetting) * n_rows))
        return float(1.0 / np.sqrt(1.0 + t / _SLOW))

    def average(self, n_rows: int) -> None:
        """Add the iterate to the average, after a step of a stream on ``n_rows`` rows."""
        weight = 1.0 if self.averaging is None else float(self.n_steps) ** self.averaging
        self.total_weight = self.total_weight * self.forgetting**n_rows + weight
        share = 1.0 if self.averaging is None else weight / self.total_weight
        self.mean = self.mean + share * (self.iterate - self.mean)

    def restart_stream(self, n_steps: int) -> None:
        """Continue as a stream after ``n_steps`` steps, at the coefficients found by passes."""
        self.n_steps = n_steps
        power = 1.0 if self.averaging is None else self.averaging + 1.0
        self.total_weight = float(n_steps) ** power / power
        self.mean = self.before = self.iterate

    def map_outputs(self, mixing: Array) -> None:
        """Replace the outputs f by f @ ``mixing``."""
        self.iterate, self.before, self.mean = (
            w @ mixing for w in (self.iterate, self.before, self.mean)
        )

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Copy that may go another way; what both share is never changed in place."""
        return copy.copy(self)


def products_with(Z: Any, slopes: Array) -> Array:
    """Return Z' @ slopes, (n_features, n_outputs), computed in the precision of the features.

    Parameters
    ----------
    Z : ndarray of shape (n_points, n_features) or LeafFeatures
        Features.
    slopes : ndarray of shape (n_points, n_outputs)
        Derivatives of the objective in the values at the points.
    """
    # Slopes have few columns: this order of the product costs two thirds.
    return np.asarray((slopes.T.astype(Z.dtype) @ Z).T.astype(np.float64))
