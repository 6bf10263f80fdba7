r"""Risks: what is minimised in place of the mean loss.

A risk defines how the losses of single rows are combined into an objective. It works with any loss
and any expansion.

- :class:`CVaR`, :class:`UpperSemideviation` and :class:`Entropic` control the tail: they pay for
  rare large losses. They never reward a larger loss.
- :class:`Variance`, :class:`Semivariance` and :class:`CentralMoments` penalise the spread of the
  losses. They are not monotone, and need their safeguards.

Risk-averse is the *opposite* of robust. A risk follows exactly the rows that an outlier spoils:
for bad labels use :class:`~mercer.losses.Huber` or :class:`~mercer.losses.AbsoluteError` instead.

Every quantity with a scale is in units of the loss (``units``), so that a risk means the same
whatever unit the targets are measured in.

A risk of your own: see :class:`Risk`.

Examples
--------
>>> from mercer.risks import CVaR, Mean, as_risk
>>> as_risk("cvar:0.95")
CVaR(level=0.95)
>>> print((0.5 * CVaR(0.9) + 0.5 * Mean()).describe())
0.5 times: CVaR at level 0.9: the mean of the worst 10 % of the losses; plus 0.5 times: mean of
the losses
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from mercer.exceptions import Advice, InPython, ParameterError
from mercer.risks._base import Inner, Mixture, Outer, Risk, Tracker, as_tracker
from mercer.risks._deviation import (
    CentralMoments,
    DeviationRisk,
    Semivariance,
    UpperSemideviation,
    Variance,
)
from mercer.risks._tail import CVaR, Entropic, Mean

__all__ = [
    "RISKS",
    "CVaR",
    "CentralMoments",
    "DeviationRisk",
    "Entropic",
    "Inner",
    "Mean",
    "Mixture",
    "Outer",
    "Risk",
    "Semivariance",
    "Tracker",
    "UpperSemideviation",
    "Variance",
    "as_risk",
    "as_tracker",
]

RISKS: dict[str, type[Risk]] = {
    "mean": Mean,
    "cvar": CVaR,
    "upper_semideviation": UpperSemideviation,
    "semideviation": UpperSemideviation,
    "entropic": Entropic,
    "semivariance": Semivariance,
    "variance": Variance,
    "central_moments": CentralMoments,
}


def as_risk(value: Any) -> Risk | None:
    """Turn a risk or its name into a risk.

    Parameters
    ----------
    value : Risk, str or None
        A risk, returned as it is; the name of one, with its first parameter after a colon if it
        is not the default; or None for no risk at all.

    Returns
    -------
    risk : Risk or None

    Raises
    ------
    ValueError
        For an unknown name, a parameter that the risk does not have, or something that is not a
        risk.

    Examples
    --------
    >>> as_risk("cvar:0.95"), as_risk("central_moments:3"), as_risk("semideviation")
    (CVaR(level=0.95), CentralMoments(order=3), UpperSemideviation())
    """
    if value is None or isinstance(value, Risk):
        return value
    name, colon, text = value.partition(":") if isinstance(value, str) else ("", "", "")
    if name in RISKS:
        return _with_first(value, RISKS[name], text) if colon else RISKS[name]()
    close = difflib.get_close_matches(name.lower(), RISKS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else ""
    if isinstance(value, type) and issubclass(value, Risk):
        hint = f"Did you mean {value.__name__}(), with brackets?"
    listed = ", ".join(repr(known) for known in RISKS)
    raise ParameterError(
        Advice(
            "`risk` must be ",
            InPython("None, a risk of mercer.risks or "),
            f"one of the names {listed}, also with a number as in 'cvar:0.9', got {value!r}.",
        ),
        parameter="risk",
        value=value,
        mend=hint,
    )


def _with_first(value: str, cls: type[Risk], text: str) -> Risk:
    """Make a risk of a name and the text of its first parameter."""
    first = next(iter(inspect.signature(cls).parameters.values()))
    if first.kind is first.KEYWORD_ONLY:
        raise ValueError(
            f"{cls.__name__} takes no number, got {value!r}. Write {value.partition(':')[0]!r}."
        )
    try:
        number = type(first.default)(text)
    except ValueError:
        kind = "an integer" if isinstance(first.default, int) else "a number"
        raise ValueError(
            f"After the colon there must be {kind}, the `{first.name}` of {cls.__name__}, got "
            f"{value!r}. Write for example '{value.partition(':')[0]}:{first.default}'."
        ) from None
    return cls(number)
