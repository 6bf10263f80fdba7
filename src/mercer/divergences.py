r"""Divergences of two distributions, by the functions whose extremes they are.

An Ali-Silvey divergence (f-divergence) is

.. math:: D(p\|q) = E_q\, \varphi\Bigl(\frac{p(x)}{q(x)}\Bigr)
    = \sup_T \bigl(E_p\, T(x) - E_q\, \varphi^*(T(x))\bigr)

for a convex :math:`\varphi`, with its conjugate :math:`\varphi^*(s) = \sup_t (st - \varphi(t))`.
The best T is :math:`\varphi'(p/q)`: who finds it from a sample of each has estimated the ratio of
the densities. A learned function f gives T = ``link(f)``.

====================  =============================================  ===========================
name                  divergence                                     f is
====================  =============================================  ===========================
``kl``                :math:`E_p \log(p/q)`                          :math:`\log p/q`
``reverse_kl``        :math:`E_q \log(q/p)`                          :math:`\log p/q`
``jensen_shannon``    mean KL of p and of q to their mixture         :math:`\log p/q`
``hellinger``         :math:`1 - \int \sqrt{pq}`                     :math:`\log p/q`
``pearson``           :math:`E_q (p/q - 1)^2`                        :math:`p/q - 1`
``relative_novelty``  :math:`E_p \max(0, \rho - \log(q/p))`          :math:`1 + \rho + \log p/q`,
                                                                     or 0 below :math:`1`
====================  =============================================  ===========================

A divergence of your own: see :class:`Divergence`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mercer.component import Component
from mercer.exceptions import Advice, InPython, ParameterError
from mercer.validation import choice, name_among, nearest, parameters, real

__all__ = [
    "DIVERGENCES",
    "Divergence",
    "HellingerDistance",
    "JensenShannonDivergence",
    "KullbackLeibler",
    "Pearson",
    "RelativeNovelty",
    "ReverseKullbackLeibler",
    "as_divergence",
]

Array = NDArray[np.float64]

# A ratio of densities of 1e13 is as good as infinite, and exp would soon overflow.
_LARGEST = 30.0


class Divergence(Component, ABC):
    r"""Base of all divergences :math:`E_q\,\varphi(p/q)`.

    A divergence of your own gives the conjugate of :math:`\varphi` and its derivative. Then
    :math:`f = \varphi'(p/q)`. To learn another function of the ratio give ``link`` and
    ``link_derivative``: :math:`-T(f)` and :math:`\varphi^*(T(f))` must be convex, and f = 0 should
    stand for equal densities, for it is what is learned of no rows. All four take arrays and return
    arrays of the same shape.

    A term :math:`c\,(t - 1)` of :math:`\varphi` changes nothing, nor does a constant in the
    conjugate. Parameters go into ``__init__`` unchanged.

    Attributes
    ----------
    linear_beyond : (float, float)
        Values of f beyond which the losses go on as straight lines, so that nothing overflows.
    curvature : float
        Largest second derivative of the two losses where learning begins, each divided by the
        derivative of the link at 0: automatic steps are made for it. 1, the default, is right for
        all losses whose f is the logarithm of the ratio, or the ratio minus 1.

    References
    ----------
    DSG, Section 4, eq. (8), which writes :math:`E_p\,r(q/p)` for :math:`r(t) = t\,\varphi(1/t)`.
    Nguyen, Wainwright and Jordan (2010), "Estimating divergence functionals and the likelihood
    ratio by convex risk minimization".

    Examples
    --------
    The ratio itself by Pearson's divergence, in units of one half of it:

    >>> from mercer.divergences import Divergence
    >>> class HalfOfPearson(Divergence):
    ...     def conjugate(self, s):  # of (t - 1)² / 2
    ...         return s + s**2 / 2.0
    ...     def conjugate_derivative(self, s):  # the ratio t
    ...         return 1.0 + s
    >>> HalfOfPearson().ratio(np.array([0.0, 0.5]))  # f is the ratio minus 1
    array([1. , 1.5])
    """

    linear_beyond: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    curvature: float = 1.0

    @abstractmethod
    def conjugate(self, s: Array) -> Array:
        r"""Return :math:`\varphi^*(s)`."""

    @abstractmethod
    def conjugate_derivative(self, s: Array) -> Array:
        r"""Return the derivative of :math:`\varphi^*` at s: the ratio of the densities."""

    def link(self, f: Array) -> Array:
        """Return T for values of the learned function; they themselves by default."""
        return f

    def link_derivative(self, f: Array) -> Array:
        """Return the derivative of :meth:`link`; 1 by default."""
        return np.ones_like(f)

    def within(self, f: Array) -> Array:
        """Return values of f, cut off where the losses become straight lines."""
        low, high = self.linear_beyond
        inside: Array = np.clip(f, low, high) if low > -math.inf else np.minimum(f, high)
        return inside

    def ratio(self, f: Array) -> Array:
        """Return the ratio of the densities p/q, at least 0, for values of the learned function.

        Parameters
        ----------
        f : ndarray
            Values of f.

        Returns
        -------
        ratio : ndarray
            Same shape as ``f``.
        """
        return np.maximum(self.conjugate_derivative(self.link(self.within(f))), 0.0)

    def log_ratio(self, f: Array) -> Array:
        """Return log p/q, at least -30, for values of the learned function.

        Parameters
        ----------
        f : ndarray
            Values of f.

        Returns
        -------
        log_ratio : ndarray
            Same shape as ``f``.
        """
        return np.log(np.maximum(self.ratio(f), math.exp(-_LARGEST)))

    def lower_bound(
        self,
        f_p: Array,
        f_q: Array,
        weights_p: Array | None = None,
        weights_q: Array | None = None,
    ) -> float:
        r"""Return the sample estimate of :math:`E_p\,T - E_q\,\varphi^*(T)`, less that for f = 0.

        Parameters
        ----------
        f_p, f_q : ndarray of shape (n_p,) and (n_q,)
            Values of f at rows of p and of q from which f was not learned.
        weights_p, weights_q : ndarray of shape (n_p,) and (n_q,), default=None
            Weights of the rows in the two means; None for equal weights.

        Returns
        -------
        bound : float
            Its expectation is at most the divergence, and equal for the best f.

        Examples
        --------
        >>> KullbackLeibler().lower_bound(np.zeros(3), np.zeros(5))
        0.0
        """
        s_p, s_q, s_0 = (self.link(self.within(f)) for f in (f_p, f_q, np.zeros(1)))
        mean_p = np.average(s_p, weights=weights_p)
        mean_q = np.average(self.conjugate(s_q), weights=weights_q)
        return float(mean_p - mean_q - (s_0 - self.conjugate(s_0))[0])


class _OfLogRatio(Divergence):
    """Base of divergences whose learned function is the logarithm of the ratio."""

    linear_beyond = (-_LARGEST, _LARGEST)

    def ratio(self, f: Array) -> Array:
        return np.exp(np.minimum(f, _LARGEST))

    def log_ratio(self, f: Array) -> Array:
        return f


class KullbackLeibler(Divergence):
    r"""Kullback-Leibler divergence :math:`KL(p\|q) = E_p \log(p/q)`, in nats.

    For ``learns="log_ratio"`` the objective is :math:`E_q e^f - E_p f` with :math:`f = \log p/q`;
    for ``"ratio"`` it is :math:`E_q\,r - E_p \log r` with :math:`r = 1 + f`, the ratio itself.
    Below ``floor`` the second becomes the first: :math:`r = c\,e^{(1 + f - c)/c}` for a floor c. So
    no ratio is below 0, no slope exceeds 1 / c, and the solution is the exact one at any floor.

    Parameters
    ----------
    learns : {"log_ratio", "ratio"}, default="log_ratio"
        The function that is learned. Ridge and kernel keep it smooth: the ratio itself is the
        smoother of the two where it falls to 0.
    floor : float, default=0.1
        Ratio below which the logarithm is learned, in (0, 1]; for ``"ratio"`` only.

    References
    ----------
    DSG, Section 4, eq. (8), where the minimiser is said to be log q/p; it is log p/q. Nguyen,
    Wainwright and Jordan (2010), with the ratio as function; the floor is ours.

    Examples
    --------
    >>> KullbackLeibler().ratio(np.log([0.5, 2.0]))
    array([0.5, 2. ])
    >>> KullbackLeibler("ratio").ratio(np.array([-0.5, 1.0, -1.0])).round(4)
    array([0.5   , 2.    , 0.0368])
    """

    linear_beyond = (-math.inf, _LARGEST)
    _parameters = parameters(
        learns=choice("log_ratio", "ratio"),
        floor=real(low=0.0, high=1.0, open_low=True, why="It is a ratio of densities."),
    )

    def __init__(self, learns: str = "log_ratio", floor: float = 0.1) -> None:
        self.learns = learns
        self.floor = floor
        self._check()

    def within(self, f: Array) -> Array:
        return f if self.learns == "ratio" else super().within(f)

    def conjugate(self, s: Array) -> Array:
        return np.exp(s)

    def conjugate_derivative(self, s: Array) -> Array:
        return np.exp(s)

    def link(self, f: Array) -> Array:
        if self.learns == "log_ratio":
            return f
        c, ratio = self.floor, 1.0 + f
        return np.log(np.maximum(ratio, c)) + np.minimum(ratio - c, 0.0) / c

    def link_derivative(self, f: Array) -> Array:
        if self.learns == "log_ratio":
            return np.ones_like(f)
        return 1.0 / np.maximum(1.0 + f, self.floor)

    def log_ratio(self, f: Array) -> Array:
        return self.link(f)


class ReverseKullbackLeibler(_OfLogRatio):
    r"""Kullback-Leibler divergence in the other direction, :math:`KL(q\|p) = E_q \log(q/p)`.

    The objective is :math:`E_p e^{-f} + E_q f` with :math:`f = \log p/q`. Rows of p where q is
    dense, rather than the reverse, decide how well f fits.

    Examples
    --------
    >>> ReverseKullbackLeibler().conjugate_derivative(np.array([-0.5]))
    array([2.])
    """

    def conjugate(self, s: Array) -> Array:
        return -1.0 - np.log(-s)

    def conjugate_derivative(self, s: Array) -> Array:
        return -1.0 / s

    def link(self, f: Array) -> Array:
        return -np.exp(-f)

    def link_derivative(self, f: Array) -> Array:
        return np.exp(-f)


class JensenShannonDivergence(_OfLogRatio):
    r"""Jensen-Shannon divergence: the mean KL of p and of q to (p + q) / 2; at most log 2.

    The objective is that of a logistic regression that tells rows of p from rows of q,
    :math:`E_p \log(1 + e^{-f}) + E_q \log(1 + e^f)` with :math:`f = \log p/q`. Slopes are bounded,
    so thin tails and rows far away do no harm.

    Examples
    --------
    >>> far = np.full(9, 25.0)  # two samples that never meet
    >>> round(JensenShannonDivergence().lower_bound(far, -far), 4)  # log 2
    0.6931
    """

    def conjugate(self, s: Array) -> Array:
        return -0.5 * np.log(-np.expm1(2.0 * s))

    def conjugate_derivative(self, s: Array) -> Array:
        return 1.0 / np.expm1(-2.0 * s)

    def link(self, f: Array) -> Array:
        return -0.5 * np.logaddexp(0.0, -f)

    def link_derivative(self, f: Array) -> Array:
        return np.asarray(0.5 * special.expit(-f))


class HellingerDistance(_OfLogRatio):
    r"""Squared Hellinger distance :math:`\tfrac12\int(\sqrt p - \sqrt q)^2`; at most 1.

    The objective is :math:`E_p e^{-f/2} + E_q e^{f/2}` with :math:`f = \log p/q`, the same for both
    samples.

    Examples
    --------
    >>> far = np.full(9, 25.0)  # two samples that never meet
    >>> round(HellingerDistance().lower_bound(far, -far), 4)
    1.0
    """

    def conjugate(self, s: Array) -> Array:
        return -0.25 / s - 1.0

    def conjugate_derivative(self, s: Array) -> Array:
        return 0.25 / s**2

    def link(self, f: Array) -> Array:
        return -0.5 * np.exp(-0.5 * f)

    def link_derivative(self, f: Array) -> Array:
        return 0.25 * np.exp(-0.5 * f)


class Pearson(Divergence):
    r"""Pearson's chi-squared divergence :math:`E_q (p/q - 1)^2`, by least squares of the ratio.

    The objective is :math:`\tfrac12 E_q \max(0, r)^2 - E_p\,r` with :math:`r = 1 + f`, the ratio
    itself: the ratio that is nearest to p/q in the mean square over q. What f says below r = 0
    counts as 0, for no density is negative.

    References
    ----------
    Kanamori, Hido and Sugiyama (2009), "A least-squares approach to direct importance estimation",
    where r shrinks to 0 instead of 1.

    Examples
    --------
    >>> Pearson().ratio(np.array([-2.0, 0.0, 0.5]))
    array([0. , 1. , 1.5])
    """

    def conjugate(self, s: Array) -> Array:
        return np.square(np.maximum(1.0 + 0.5 * s, 0.0)) - 1.0

    def conjugate_derivative(self, s: Array) -> Array:
        return np.maximum(1.0 + 0.5 * s, 0.0)

    def link(self, f: Array) -> Array:
        return 2.0 * f

    def link_derivative(self, f: Array) -> Array:
        return np.full_like(f, 2.0)


class RelativeNovelty(Divergence):
    r"""Relative novelty :math:`E_p \max(0, \rho - \log(q/p))`: KL of what q hardly has.

    Where p/q is above :math:`e^{-\rho}`, rows of p are novel beside q, and :math:`f = 1 + \rho +
    \log p/q`, at least 1. Elsewhere f is 0, so no effort is spent on how common the others are:
    ratios are known only above :math:`e^{-\rho}`, which stands for all that are smaller. Rows with
    f above 1/2 are the novel ones.

    Parameters
    ----------
    rho : float, default=0.0
        Rows count as novel from log p/q = -rho on: above 0 more do, below 0 fewer.

    References
    ----------
    Smola, Song and Teo (2009), "Relative novelty detection". DSG, Section 4, writes
    :math:`r_{nv}(\tau) = \max(0, \rho - \log\tau)` of :math:`\tau = q/p`.

    Examples
    --------
    >>> RelativeNovelty(-1.0).log_ratio(np.array([-3.0, 0.0, 1.0, 1.5]))
    array([1. , 1. , 1. , 1.5])
    """

    linear_beyond = (-math.inf, _LARGEST)
    _parameters = parameters(
        rho=real(low=-10.0, high=10.0, why="It is a difference of log densities.")
    )

    def __init__(self, rho: float = 0.0) -> None:
        self.rho = rho
        self._check()

    @property
    def curvature(self) -> float:  # type: ignore[override]
        """Second derivative of the loss of q where f begins to say log p/q, at least 1."""
        return max(1.0, math.exp(-self.rho))

    def conjugate(self, s: Array) -> Array:
        above = np.exp(np.maximum(s - 1.0, 0.0))
        return math.exp(-self.rho) * np.where(s < 1.0, np.maximum(s, 0.0), above)

    def conjugate_derivative(self, s: Array) -> Array:
        return np.where(s > 0.0, np.exp(np.maximum(s - 1.0, 0.0) - self.rho), 0.0)

    def ratio(self, f: Array) -> Array:
        return np.exp(self.log_ratio(self.within(f)))

    def log_ratio(self, f: Array) -> Array:
        return np.maximum(f - 1.0, 0.0) - self.rho


#: Divergences by name.
DIVERGENCES: dict[str, type[Divergence]] = {
    "kl": KullbackLeibler,
    "reverse_kl": ReverseKullbackLeibler,
    "jensen_shannon": JensenShannonDivergence,
    "hellinger": HellingerDistance,
    "pearson": Pearson,
    "relative_novelty": RelativeNovelty,
}
_ALIASES = {
    "kullback_leibler": "kl",
    "js": "jensen_shannon",
    "chi_squared": "pearson",
    "chi2": "pearson",
    "lsif": "pearson",
}


def as_divergence(value: Any) -> Divergence:
    """Turn a divergence or its name into a divergence.

    Raises
    ------
    ValueError
        If ``value`` is of another kind.

    Examples
    --------
    >>> as_divergence("kl"), as_divergence("chi_squared")
    (KullbackLeibler(), Pearson())
    """
    if isinstance(value, Divergence):
        return value
    name = name_among(value, DIVERGENCES, _ALIASES)
    if name is not None:
        return DIVERGENCES[name]()
    hint = nearest(value, DIVERGENCES, _ALIASES).lstrip() if isinstance(value, str) else ""
    if isinstance(value, type) and issubclass(value, Divergence):
        hint = f"Did you mean {value.__name__}(), with brackets?"
    raise ParameterError(
        Advice(
            "`f_divergence` must be one of ",
            ", ".join(map(repr, DIVERGENCES)),
            InPython(" or a divergence of mercer.divergences"),
            f", got {value!r}.",
        ),
        parameter="f_divergence",
        value=value,
        mend=hint,
    )
