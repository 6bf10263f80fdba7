"""What the loop asks of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_real

__all__ = ["Anchors", "Batch", "Objective"]

Array = NDArray[np.float64]


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
