"""Losses of table models in the units of the target, and the risks that are made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.display import tail_of
from mercer.estimators import TableModel
from mercer.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Huber,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
)

__all__ = ["LossTail", "LossUnits", "describe_risk", "history_in_units", "loss_units"]

Array = NDArray[np.float64]

LEVELS = (0.9, 0.95, 0.99)
# The power of the unit of the target that a loss is measured in. Parameters of losses are in the
# units that are learned, so that the whole loss scales.
_POWERS: dict[type, int] = {
    Squared: 2,
    Huber: 2,
    SquaredEpsilonInsensitive: 2,
    AbsoluteError: 1,
    EpsilonInsensitive: 1,
    Quantile: 1,
}


class LossUnits(NamedTuple):
    """What a loss of a model is measured in.

    Attributes
    ----------
    factor : float
        From the loss of the learned, standardised target to that of the target itself.
    name : str
        Unit in words; empty for a loss without one, such as of classes.
    """

    factor: float
    name: str


def loss_units(model: Any) -> LossUnits:
    """Return the units of the losses of a model.

    A loss of a user's own is left in the units that are learned.

    Parameters
    ----------
    model : TableModel or kernel estimator
        A model.
    """
    if not isinstance(model, TableModel) or not model.predicts_quantities:
        return LossUnits(1.0, "")
    power = _POWERS.get(type(getattr(model.estimator, "loss_", None)))
    if power is not None:
        return LossUnits(model.target_scale_**power, f"{model.target}" + "²" * (power == 2))
    if model.target_scale_ == 1.0:
        return LossUnits(1.0, "")
    return LossUnits(1.0, f"of {model.target} / {model.target_scale_:.4g}")


class LossTail:
    """Losses of rows, and the worst of them.

    Parameters
    ----------
    model : TableModel
        A classification or a regression with a loss.
    """

    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.factor = loss_units(model).factor
        own = getattr(self.estimator.risk_, "level", None)
        self.levels = sorted({*LEVELS, *([] if own is None else [float(own)])})
        self.parts: list[Array] = []

    def add(self, y: NDArray[Any], scores: Array) -> None:
        """Take rows: their targets, as the estimator learns them, and their scores."""
        loss = self.estimator.loss_
        self.parts.append(self.factor * loss.value(self.estimator._encode(y, loss), scores))

    @property
    def losses(self) -> Array:
        """Loss of each row, in the units of :func:`loss_units`."""
        return np.concatenate(self.parts) if self.parts else np.empty(0)

    def measures(self) -> dict[str, float]:
        """Return the mean, and value at risk and CVaR at each level."""
        losses = self.losses
        if not losses.size:
            return {}
        result = {"mean_loss": float(losses.mean())}
        for tail in (tail_of(losses, level) for level in self.levels):
            percent = f"{100.0 * tail.level:g}"
            result[f"value_at_risk_{percent}"] = tail.value_at_risk
            result[f"cvar_{percent}"] = tail.cvar
        return result


def describe_risk(model: Any) -> dict[str, Any]:
    """Say what risk a model minimises and what it has tracked; nothing for the mean loss.

    Parameters
    ----------
    model : TableModel or kernel estimator
        A fitted model.

    Returns
    -------
    description : dict of str to number or text
        Tracked values in the units of the loss, which are named; shares of all rows learned.
    """
    estimator: Any = model.estimator if isinstance(model, TableModel) else model
    risk = getattr(estimator, "risk_", None)
    if risk is None:
        return {}
    history = history_in_units(model)
    rows = np.diff(history.n_samples, prepend=0)
    values: dict[str, Any] = {
        "risk": repr(risk),
        "minimised": risk.describe(),
        "loss_unit": loss_units(model).name or None,
    }
    for name, column in history.monitors.items() if rows.size else ():
        if name.endswith("_fraction"):
            share = 100.0 * float(np.average(column, weights=rows))
            values[f"{name.removesuffix('_fraction')}_percent"] = share
        else:
            values[f"tracked_{name}"] = float(column[-1])
    values["latest_objective"] = float(history.loss[-1]) if rows.size else None
    return values


class _History(NamedTuple):
    """A history whose losses are in the units of the target."""

    n_samples: NDArray[np.int64]
    loss: Array
    model_order: NDArray[np.int64]
    compression_error: Array
    step_size: Array
    loss_unit: str
    monitors: dict[str, Array]


def history_in_units(model: Any) -> _History:
    """Return the history of a model with losses, and what is tracked of them, in their units.

    Parameters
    ----------
    model : TableModel or kernel estimator
        A fitted model that has a history.
    """
    history, (factor, unit) = model.history_, loss_units(model)
    estimator = model.estimator if isinstance(model, TableModel) else model
    of_losses = _tracks_losses(getattr(estimator, "risk_", None))
    monitors = {
        name: column if name.endswith("_fraction") or not of_losses else factor * column
        for name, column in history.monitors.items()
    }
    return _History(
        n_samples=history.n_samples,
        loss=factor * history.loss,
        model_order=history.model_order,
        compression_error=history.compression_error,
        step_size=history.step_size,
        loss_unit=unit,
        monitors=monitors,
    )


def _tracks_losses(risk: Any) -> bool:
    """Whether what a risk tracks is in units of the loss; nothing is known of a user's own."""
    parts = getattr(risk, "risks", [risk])
    return all(type(part).__module__.startswith("mercer.risks") for part in parts)
