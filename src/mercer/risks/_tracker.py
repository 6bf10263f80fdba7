"""How the expectation inside a risk is followed while the function moves."""

from __future__ import annotations

from typing import Any

from mercer._component import Component
from mercer._validation import choice, parameters, real

__all__ = ["Tracker", "as_tracker"]

_RULES = ("momentum", "scgd", "nasa")
_PAIRS = ("tracked", "stream", "reservoir")
_SHARE = real(
    low=0, high=1, open_low=True, why="It is the share of the newest sample in a running mean."
)


class Tracker(Component):
    r"""Follow :math:`g = E[h_\xi(f)]`, an expectation of a function that every step changes.

    One sample in place of :math:`g` would bias every slope (for the variance it would make the
    risk vanish), so a running value :math:`g_t` is kept.

    Parameters
    ----------
    rule : {"momentum", "scgd", "nasa"}, default="momentum"
        - ``"momentum"``: :math:`g_{t+1} = (1-\beta)(g_t - h_\xi(f_{t-1})) + h_\xi(f_t)`. Takes out
          what the last step did to f, and so needs f before that step, too.
        - ``"scgd"``: :math:`g_{t+1} = (1-\beta) g_t + \beta h_\xi(f_t)`. Lags behind f, but does
          not add the noise of differences: the better rule for heavy-tailed losses, and for steps
          much above ``rate``.
        - ``"nasa"``: ``"scgd"`` with an averaged direction of f; all on one time scale.
    rate : float, default=0.1
        :math:`\beta` in (0, 1]: the weight of the newest sample. At least half of the step size is
        advisable.
    pairs : {"tracked", "stream", "reservoir"}, default="tracked"
        Where the two independent samples of a step come from.

        - ``"tracked"``: every row is both, and the expectation of the outer slope is tracked as
          the inner one is; a step of one row is enough.
        - ``"stream"``: rows of the stream are outer and inner sample in turn. ``fit`` visits each
          row twice a pass, once as either, in two independent orders.
        - ``"reservoir"``: the inner sample is drawn from earlier rows. ``history_`` counts both
          rows of a pair, ``n_samples_seen_`` the new one.
    direction_rate : float, default=0.1
        :math:`\rho` in (0, 1]: weight of the newest direction in the average of ``"nasa"``; the
        other rules do not use it.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    References
    ----------
    COLK, eq. (20) for ``"momentum"``, eq. (19) for ``"scgd"``, Algorithm 1 for ``"stream"``.
    Ghadimi, Ruszczynski and Wang (2020), "A single timescale stochastic approximation method for
    nested stochastic optimization", for ``"nasa"``.

    Examples
    --------
    >>> from mercer.risks import Semivariance, Tracker
    >>> Semivariance(tracker=Tracker("scgd", rate=0.05)).tracker
    Tracker(rate=0.05, rule='scgd')
    """

    _parameters = parameters(
        rule=choice(*_RULES),
        pairs=choice(*_PAIRS),
        rate=_SHARE,
        direction_rate=_SHARE,
    )

    def __init__(
        self,
        rule: str = "momentum",
        *,
        rate: float = 0.1,
        pairs: str = "tracked",
        direction_rate: float = 0.1,
    ) -> None:
        self.rule = rule
        self.rate = rate
        self.pairs = pairs
        self.direction_rate = direction_rate
        self._check()


def as_tracker(value: Any) -> Tracker:
    """Turn a tracker or the name of a rule into a tracker.

    Parameters
    ----------
    value : Tracker or {"momentum", "scgd", "nasa"}
        A tracker is returned as it is; a name stands for that rule with default rates.

    Returns
    -------
    tracker : Tracker

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> as_tracker("scgd")
    Tracker(rule='scgd')
    """
    if isinstance(value, Tracker):
        return value
    if isinstance(value, str) and value in _RULES:
        return Tracker(value)
    listed = ", ".join(repr(rule) for rule in _RULES)
    raise ValueError(
        f"`tracker` must be one of {listed} or a Tracker, got {value!r}. Write for example "
        "Tracker('scgd', rate=0.05) for a rate of your own."
    )
