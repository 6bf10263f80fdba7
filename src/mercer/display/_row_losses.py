"""Losses of single rows, and the worst of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display._fitted import final_model
from mercer.losses import Loss, as_loss
from mercer.risks import CVaR

__all__ = ["Tail", "checked_losses", "row_losses", "tail_of"]

Array = NDArray[np.float64]


class Tail(NamedTuple):
    """The worst losses of a sample.

    Attributes
    ----------
    level : float
        Share of the losses that are not among the worst.
    value_at_risk : float
        Quantile of the losses at the level: where the worst begin.
    cvar : float
        Conditional value at risk: mean of the worst.
    """

    level: float
    value_at_risk: float
    cvar: float


def tail_of(losses: ArrayLike, level: float = 0.9) -> Tail:
    """Value at risk and CVaR of a sample of losses, without smoothing.

    Parameters
    ----------
    losses : array-like of shape (n_rows,)
        Losses, at least one.
    level : float, default=0.9
        In (0, 1): 0.9 for the worst tenth. A loss at the border counts with the part of it that
        belongs to the worst.

    Returns
    -------
    tail : Tail

    Raises
    ------
    ValueError
        If there are no losses, one of them is not finite, or the level is outside its range.

    References
    ----------
    Rockafellar and Uryasev (2000), "Optimization of conditional value-at-risk".

    Examples
    --------
    >>> tail_of([1.0, 2.0, 3.0, 4.0, 10.0], level=0.6)
    Tail(level=0.6, value_at_risk=3.0, cvar=7.0)
    """
    values = checked_losses(losses)
    risk = CVaR(level, smoothing=0.0)
    start = np.quantile(values, level, method="inverted_cdf", keepdims=True)
    outer = risk.outer(values, np.empty(0), start, unit=1.0)
    return Tail(float(level), float(start[0]), float(outer.value.mean()))


def checked_losses(losses: ArrayLike) -> Array:
    """Losses as an array, refused where there are none or they are not finite."""
    values = np.asarray(losses, dtype=float)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"`losses` must be a row of finite numbers, at least one, got shape {values.shape} "
            f"with {int((~np.isfinite(values)).sum())} that are not finite. Pass the loss of each "
            "row, as `row_losses` returns them."
        )
    return values


def row_losses(
    estimator: Any, X: Any, y: ArrayLike, *, loss: str | Loss | None = None
) -> NDArray[np.float64]:
    """Loss of an estimator on each row.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        A :class:`mercer.KernelRegressor` or :class:`mercer.KernelClassifier`; with ``loss`` any
        regressor, or any classifier with a ``decision_function``.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets or labels.
    loss : str or Loss, default=None
        Loss to measure by, so that models which minimise different ones compare. None: the
        estimator's own.

    Returns
    -------
    losses : ndarray of shape (n_rows,)
        In units of the loss.

    Raises
    ------
    ValueError
        If the estimator has no loss of its own and none is given, or a label was not learned.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> mean = DummyRegressor().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> row_losses(mean, [[0.0], [1.0]], [1.0, 3.0], loss="absolute_error")
    array([0., 2.])
    """
    targets = np.asarray(y)
    classes = getattr(estimator, "classes_", None)
    if classes is not None and not np.isin(targets, classes).all():
        extra = np.setdiff1d(targets, classes)[:5].tolist()
        raise ValueError(
            f"`y` has labels that the model has not learned: {extra}. There is no score to compare "
            "them with; leave these rows out."
        )
    if loss is None:
        return _own_losses(estimator, X, targets)
    if classes is None:
        chosen = as_loss(loss, "regression")
        scores = np.asarray(estimator.predict(X), dtype=float)
        if not np.array_equal(chosen.predict([[2.0]]), [[2.0]]):
            raise ValueError(
                f"The loss {chosen!r} is of scores that are not the predictions, and predictions "
                "are all that is known of other models. Choose another loss to compare by."
            )
        scores = scores.reshape(len(scores), -1)
        return chosen.value(chosen.encode(targets.reshape(scores.shape)), scores)
    chosen = as_loss(loss, "classification")
    scores = np.asarray(estimator.decision_function(X), dtype=float)
    codes = np.searchsorted(classes, targets)
    return chosen.value(chosen.encode(codes, len(classes)), scores.reshape(len(scores), -1))


def _own_losses(estimator: Any, X: Any, y: NDArray[Any]) -> Array:
    model = final_model(estimator)
    own = getattr(model, "loss_", None)
    if own is None or not hasattr(model, "_encode"):
        raise ValueError(
            f"`{type(model).__name__}` has no loss of its own, or is not fitted. Fit it, or pass "
            "the loss to measure by, such as loss='squared'."
        )
    inputs = X if model is estimator else estimator[:-1].transform(X)
    return np.asarray(own.value(model._encode(y, own), model._scores(inputs)))
