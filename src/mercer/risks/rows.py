"""A risk of rows that are all at hand, which needs no tracking."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.risks._base import Array, Outer, Risk


class RiskOfRows(NamedTuple):
    """A risk and its derivatives.

    Attributes
    ----------
    value : float
        The risk.
    slopes : ndarray of shape (n, n_outputs)
        Derivatives in the values of the function at the rows.
    by_scalars : ndarray of shape (k,)
        Derivatives in the scalars.
    inner : ndarray of shape (m,)
        The inner expectations g.
    clamped : float
        Share of the rows whose weights a safeguard changed.
    """

    value: float
    slopes: Array
    by_scalars: Array
    inner: Array
    clamped: float


def risk_of_rows(
    risk: Risk | None,
    targets: Array,
    values: Array,
    losses: Array,
    slopes: Array,
    share: Array,
    scalars: Array,
    unit: float,
) -> RiskOfRows:
    r"""Risk of the losses of some rows, :math:`\sum_i p_i \varphi(l_i, \sum_j p_j h_j, v)`.

    Parameters
    ----------
    risk : Risk or None
        None for the mean.
    targets : ndarray of shape (n, target width)
        Encoded targets.
    values : ndarray of shape (n, n_outputs)
        The function at the rows.
    losses : ndarray of shape (n,)
        Loss of each row.
    slopes : ndarray of shape (n, n_outputs)
        Derivatives of the losses in the values.
    share : ndarray of shape (n,)
        Weights p of the rows, which add up to 1.
    scalars : ndarray of shape (k,)
        The risk's own scalars v.
    unit : float
        Scale of the loss, above 0.

    Returns
    -------
    found : RiskOfRows

    References
    ----------
    COLK, eq. (1)-(2), with both expectations over the rows.

    Examples
    --------
    >>> from mercer.risks import UpperSemideviation
    >>> losses, ones = np.array([1.0, 3.0]), np.ones((2, 1))
    >>> found = risk_of_rows(
    ...     UpperSemideviation(1.0), ones, ones, losses, ones, np.full(2, 0.5), np.empty(0), 1.0
    ... )
    >>> round(found.value, 2)
    2.5
    """
    if risk is None:
        none = np.empty(0)
        return RiskOfRows(float(share @ losses), share[:, np.newaxis] * slopes, none, none, 0.0)
    n, n_outputs = slopes.shape
    inner = risk.inner(targets, values, losses, slopes)
    check_shape(risk, "Inner.value", inner.value, (n, risk.n_inner))
    check_shape(risk, "Inner.derivative", inner.derivative, (n, risk.n_inner, n_outputs))
    expected = share @ inner.value
    outer = risk.outer(losses, expected, scalars, unit)
    check_outer(risk, outer, n)
    each = outer.by_loss[:, np.newaxis] * slopes
    if risk.n_inner:
        each = each + np.einsum("m,nmc->nc", share @ outer.by_inner, inner.derivative)
    return RiskOfRows(
        float(share @ outer.value),
        share[:, np.newaxis] * each,
        share @ outer.by_scalars,
        expected,
        float(share @ outer.clamped),
    )


def check_outer(risk: Risk, outer: Outer, n: int) -> None:
    """Raise ValueError if a user's ``outer`` returns values of a wrong form."""
    if not isinstance(outer, Outer):
        raise ValueError(
            f"{type(risk).__name__}.outer must return an Outer(value, by_loss, by_inner, "
            f"by_scalars, clamped), got {type(outer).__name__}."
        )
    shapes = (n,), (n,), (n, risk.n_inner), (n, risk.n_scalars), (n,)
    for name, array, shape in zip(Outer._fields, outer, shapes, strict=True):
        check_shape(risk, f"Outer.{name}", array, shape)


def check_shape(risk: Risk, name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError if an array of a risk has another shape."""
    if np.shape(array) != shape:
        raise ValueError(
            f"{name} of {type(risk).__name__} must have shape {shape}, got {np.shape(array)}: "
            f"rows first, then n_inner = {risk.n_inner} or n_scalars = {risk.n_scalars}."
        )
