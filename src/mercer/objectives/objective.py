"""What the loop asks of an objective, and the objectives of single rows.

These are the mean of a loss, density ratios and novelty. That of density ratios is the variational
form of the Kullback-Leibler divergence, whose minimiser is log p/q; the function of novelty is
large where rows are common, and has a threshold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.losses import Loss, loss_and_slopes
from mercer.validation import check_real

Array = NDArray[np.float64]

# 1e13 times as dense is as good as infinitely, and exp of more would overflow soon.
_LARGEST = 30.0


class Batch(NamedTuple):
    """Rows of one step."""

    X: NDArray[np.floating]  # (n, n_features)
    targets: Array  # (n, target_width), encoded by the loss
    weights: Array  # (n,), sample weight times class weight
    #: The function before the last step at the objective's points, (n_points, n_outputs), for
    #: objectives that need it.
    previous: Array | None = None


class Anchors(NamedTuple):
    """Which points of a step come again: those that have a place with the objective.

    Functions keep such points (:meth:`mercer.functions.KernelExpansion.add`).
    """

    before: NDArray[np.int64]  # (n_points,), place before this step, -1 for none
    after: NDArray[np.int64]  # (n_points,), place after it, -1 for none


class Objective(ABC):
    """What is minimised, as seen by the loop: where f must be known, and which way it should move.

    A new objective implements :meth:`points` and :meth:`slopes`, and :meth:`update` if it has
    scalars of its own (a threshold, a tracked mean), whose names it gives as ``saved_scalars``,
    or :meth:`state` and :meth:`set_state` if they are no plain numbers; everything else
    (expansion, kernel, schedule) stays.

    Attributes
    ----------
    curvature : float or None
        Upper bound of the second derivative in the values; None if there is none.
    lipschitz : float or None
        Upper bound of the norm of the derivative at one row of weight 1; None if there is none.
    copies : int
        How often the function has each output; the first ones are the values that predict.
    clip : float or None
        Length to which slopes are cut, if the user wants that.
    tolerance_scale : float
        Factor of automatic compression tolerances.
    rows_per_sample : int
        Rows that a sample of the user's makes.
    sample_name : str
        What the user calls several samples.
    rows_per_slope : int or None
        Rows that count as one in the unit of automatic tolerances, whether they have a slope or
        not; None leaves rows without a slope out. Where it is given, the loss at f = 0 is no
        scale of the losses that come, and the largest seen is.
    needs_previous : bool
        Whether :meth:`slopes` wants ``Batch.previous``.
    monitors : tuple of str
        Names of numbers to note in the history, from :meth:`measured`.
    saved_scalars : tuple of str
        Attributes, numbers, that :meth:`update` changes: what :meth:`state` is made of.
    """

    curvature: float | None = None
    lipschitz: float | None = None
    copies: int = 1
    clip: float | None = None
    tolerance_scale: float = 1.0
    rows_per_sample: int = 1
    sample_name: str = "rows"
    rows_per_slope: int | None = None
    needs_previous: bool = False
    monitors: tuple[str, ...] = ()
    saved_scalars: tuple[str, ...] = ()
    #: What :meth:`remedy` says.
    _remedy: str = ""
    #: What :meth:`measured` returns.
    _measured: tuple[float, ...] = ()

    @abstractmethod
    def points(self, batch: Batch) -> NDArray[np.floating]:
        """Points at which the objective needs the function, (n_points, n_features)."""

    @abstractmethod
    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """Differentiate the objective in the values of the function.

        Parameters
        ----------
        values : ndarray of shape (n_points, n_outputs)
            The function at :meth:`points`.
        batch : Batch
            Rows of this step.

        Returns
        -------
        slopes : ndarray of shape (n_points, n_outputs)
            Derivatives, divided by the number of rows.
        losses : ndarray of shape (n,)
            Loss of each row before it is learned, for the progressive curve.
        """

    def update(self, values: Array, batch: Batch, step_size: float) -> None:  # noqa: B027
        """Move the objective's own scalars; called once a step, after :meth:`slopes`.

        Parameters
        ----------
        values : ndarray of shape (n_points, n_outputs)
            The function at :meth:`points`, before it moves.
        batch : Batch
            Rows of this step.
        step_size : float
            Step size of this step.
        """

    def at_zero(self, targets: Array, weights: Array, n_outputs: int) -> tuple[Array, Array]:
        """Slopes and losses of rows at f = 0, the units of tolerances and of what is too large.

        Parameters
        ----------
        targets : ndarray of shape (n, target_width)
            Targets of the rows.
        weights : ndarray of shape (n,)
            Their weights.
        n_outputs : int
            Of the function.

        Returns
        -------
        slopes : ndarray of shape (n, n_outputs)
            As in :meth:`slopes`.
        losses : ndarray of shape (n,)
        """
        batch = Batch(np.empty((0, 0)), targets, weights)
        return self.slopes(np.zeros((weights.size, n_outputs)), batch)

    def losses_of(self, values: Array, batch: Batch) -> Array:
        """Losses, (n,), of rows that are not learned, of which nothing is to be remembered.

        Parameters
        ----------
        values : ndarray of shape (n, n_outputs)
            The function at the rows.
        batch : Batch
            The rows.
        """
        return self.slopes(values, batch)[1]

    def anchors(self, batch: Batch) -> Anchors | None:
        """Which points come again; None if none does. Called before :meth:`update`."""
        return None

    def steepness(self, batch: Batch, n_points: int) -> Array:
        """Weights of the points in a bound of the Hessian, for Newton's steps.

        Parameters
        ----------
        batch : Batch
            Rows of the step.
        n_points : int
            How many of :meth:`points` there are.

        Returns
        -------
        weights : ndarray of shape (n_points,)
            The Hessian is at most :attr:`curvature` times the mean over the points of these
            weights times the squares of the features.
        """
        return batch.weights

    def mixing(self, step_size: float, regularization: float, n_outputs: int) -> Array | None:
        """How the outputs move by themselves in a step, before the slopes are added.

        Parameters
        ----------
        step_size, regularization : float
            Of the step.
        n_outputs : int
            Of the function.

        Returns
        -------
        mixing : ndarray of shape (n_outputs, n_outputs) or None
            f becomes f @ mixing; None for the usual shrinking by 1 - step_size * regularization.
        """
        return None

    def batch_rate(self, gram: Array, targets: Array, weights: Array) -> float | None:
        """How fast a step of size 1 moves its own batch: steps are stable up to 2 / rate.

        Parameters
        ----------
        gram : ndarray of shape (n, n)
            Kernel matrix of the rows.
        targets : ndarray of shape (n, target_width)
            Their targets.
        weights : ndarray of shape (n,)
            Their weights.

        Returns
        -------
        rate : float or None
            A bound; None for that from :attr:`curvature` and the sums of the matrix's rows.
        """
        return None

    def measured(self) -> tuple[float, ...]:
        """Return the :attr:`monitors` of the last step, means over its rows."""
        return self._measured

    def remedy(self) -> str:
        """End of the error that a run diverged: what to do; "" for the usual advice."""
        return self._remedy

    def state(self) -> dict[str, Any]:
        """Numbers and arrays that :meth:`update` changes, copied."""
        return {name: getattr(self, name) for name in self.saved_scalars}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go back to a :meth:`state`.

        Raises
        ------
        ValueError
            If it is none of this objective.
        """
        if set(state) != set(self.saved_scalars):
            raise ValueError(
                f"{sorted(state)} is not the state of {type(self).__name__}, which is "
                f"{sorted(self.saved_scalars)}."
            )
        for name in self.saved_scalars:
            setattr(self, name, check_real(name, state[name]))


class Pointwise(Objective):
    """Expected loss of single rows (POLK, eq. (1); Ying & Zhou, Algorithm 1).

    Parameters
    ----------
    loss : Loss
        The loss.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        self.curvature, self.lipschitz = loss.curvature, loss.lipschitz

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        losses, slopes = loss_and_slopes(self.loss, values, batch.targets)
        scaled: Array = slopes * (batch.weights / batch.weights.size)[:, np.newaxis]
        return scaled, losses


class KullbackLeibler(Objective):
    r"""Estimate the log ratio of two densities from a sample of each.

    .. math:: \min_f\; E_q e^{f(x)} - E_p f(x) + \frac{\lambda}{2}\|f\|^2

    Without the ridge the minimiser is :math:`f = \log p/q`. Column 0 of the targets tells the
    samples apart: 1 for rows of p, 0 for rows of q. Every batch needs rows of both; the mean over
    each sample is taken by itself, whatever their numbers.

    References
    ----------
    DSG, eq. (8), where the minimiser is said to be log q/p; it is log p/q. Both samples are seen
    in every step instead of one at the throw of a coin, which takes away the coin's noise.

    Examples
    --------
    >>> batch = Batch(np.zeros((3, 1)), np.array([[1.0], [0.0], [0.0]]), np.ones(3))
    >>> KullbackLeibler().slopes(np.zeros((3, 1)), batch)[0].ravel()
    array([-1. ,  0.5,  0.5])
    """

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        from_p = batch.targets[:, 0] > 0.5
        n, n_p = from_p.size, int(from_p.sum())
        share = batch.weights / np.where(from_p, n_p, n - n_p)
        f = values[:, 0]
        ratio = ratio_of(f)
        slopes: Array = np.where(from_p, -1.0, ratio) * share
        # Where the slope stays the same the loss is its straight line.
        beyond = np.maximum(f - _LARGEST, 0.0)
        losses = np.where(from_p, -f, ratio * (1.0 + beyond)) * share * n
        return slopes[:, np.newaxis], losses


def ratio_of(log_ratio: Array) -> Array:
    """Return e^f, but no more than e^30.

    Parameters
    ----------
    log_ratio : ndarray
        f.

    Returns
    -------
    ratio : ndarray
        Like ``log_ratio``, in (0, 1.1e13].

    Examples
    --------
    >>> bool(np.isfinite(ratio_of(np.array([0.0, 1e300]))).all())
    True
    """
    ratio: Array = np.exp(np.minimum(log_ratio, _LARGEST))
    return ratio


def kl_lower_bound(
    log_ratio_p: Array,
    log_ratio_q: Array,
    weights_p: Array | None = None,
    weights_q: Array | None = None,
) -> float:
    r"""Evaluate :math:`E_p f - E_q e^f + 1`, which is at most KL(p‖q), on a sample of each.

    Parameters
    ----------
    log_ratio_p, log_ratio_q : ndarray of shape (n_p,) and (n_q,)
        f at rows of p and of q that f was not learned from; what exceeds 30 counts as 30.
    weights_p, weights_q : ndarray of shape (n_p,) and (n_q,), default=None
        Weights of the rows in the two means; None for equal ones.

    Returns
    -------
    bound : float
        In nats. Its expectation is at most the divergence, and equal to it for f = log p/q.

    Examples
    --------
    >>> kl_lower_bound(np.zeros(3), np.zeros(5))
    0.0
    """
    mean_p = np.average(np.minimum(log_ratio_p, _LARGEST), weights=weights_p)
    return float(mean_p - np.average(ratio_of(log_ratio_q), weights=weights_q) + 1.0)


class Novelty(Objective):
    r"""Find f and a threshold tau that a share nu of the rows stay below.

    .. math:: \min_{f, \tau}\; E \max(0, \tau - f(x)) + \frac{\nu}{2}\|f\|^2 - \nu\tau

    At the minimum f is a weighted mean of kernels at the least common rows, so that f and tau are
    of the size of kernel values. The learner's ridge parameter must be nu.

    Parameters
    ----------
    nu : float
        Share of the rows below the threshold, in (0, 1].
    unit : float, default=1.0
        Typical size of f at the minimum. The threshold starts there and its steps are multiplied
        by it, which changes the way to the minimum, not the minimum itself. 1 is the paper's
        step; a smaller value such as the mean of the Gram matrix keeps the first steps from
        throwing the threshold far below every f.

    Attributes
    ----------
    threshold : float
        tau of now.

    References
    ----------
    DSG, Section 4, "Kernel Novelty Detection". Weights multiply the terms of their row,
    ``max(0, tau - f) - nu tau``, so that f and tau grow with them alike.

    Examples
    --------
    >>> batch = Batch(np.zeros((2, 1)), np.zeros((2, 1)), np.ones(2))
    >>> novelty, values = Novelty(nu=0.5), np.array([[0.2], [2.0]])
    >>> novelty.slopes(values, batch)[0].ravel()
    array([-0.5,  0. ])
    >>> novelty.update(values, batch, step_size=0.1)  # as many rows below as there should be
    >>> novelty.threshold
    1.0
    """

    lipschitz = 1.0
    saved_scalars = ("threshold",)

    def __init__(self, nu: float, unit: float = 1.0) -> None:
        self.nu = nu
        self.unit = unit
        self.threshold = unit

    def points(self, batch: Batch) -> NDArray[np.floating]:
        """See :class:`Objective`: the rows themselves."""
        return batch.X

    def slopes(self, values: Array, batch: Batch) -> tuple[Array, Array]:
        """See :class:`Objective`; a row that is exactly at the threshold has slope 0."""
        down = (-batch.weights / batch.weights.size)[:, np.newaxis]
        scaled: Array = np.where(values < self.threshold, down, 0.0)
        losses = np.maximum(self.threshold - values[:, 0], 0.0) - self.nu * self.threshold
        return scaled, losses

    def update(self, values: Array, batch: Batch, step_size: float) -> None:
        """Move the threshold down if more than a share nu of the rows are below it, else up."""
        below = values[:, 0] < self.threshold
        slope = float(np.mean(batch.weights * (below - self.nu)))
        self.threshold -= self.unit * step_size * slope


def lower_quantile(values: Array, weights: Array, share: float) -> float:
    """Return the largest threshold that at most a share of the weight lies strictly below.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Values, at least one.
    weights : ndarray of shape (n,)
        Their weights, not all 0.
    share : float
        In (0, 1].

    Returns
    -------
    quantile : float
        One of the values.

    Examples
    --------
    >>> lower_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.25)
    2.0
    """
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    # Rounding must not take a row more than the share.
    within = np.searchsorted(total, share * total[-1] * (1.0 + 1e-12), side="right")
    return float(values[order[min(int(within), values.size - 1)]])
