"""The algorithms of the papers by name, each with its paper's update, conventions and settings.

A recipe returns an unfitted estimator. Its arguments have the papers' symbols and units, so numbers
of a paper can be copied. Other choices are changed by ``set_params``, in the library's units.

- :func:`polk`: POLK, functional gradient steps, kept sparse by KOMP
- :func:`colk`: COLK, the same under a risk, with two rows a step and a tracked mean
- :func:`dsg`: doubly stochastic gradients, on random features drawn from seeds
- :func:`unregularized`: Ying & Zhou, falling steps in place of a ridge
- :func:`unregularized_pairs`: Ying & Zhou, the same on pairs of rows
- :func:`norma`: NORMA, the oldest points are dropped
- :func:`bsgd`: BSGD, a budget of points

They are the papers' algorithms, not the best that the library has: :doc:`/papers` compares them
with its defaults, and says what the papers claim and what was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.component import own_copy
from mercer.estimators import KernelClassifier, KernelRanker, KernelRegressor
from mercer.exceptions import ParameterError
from mercer.expansions import KOMP, Budget, Expansion, Full, RandomFeatures
from mercer.kernels import Kernel
from mercer.losses import LeastSquaresMargin, Loss, Squared, SquaredHinge, as_loss
from mercer.risks import CentralMoments, Mixture, Risk, Tracker, as_risk
from mercer.schedules import PowerDecay, Relative
from mercer.theory import activating_loss
from mercer.validation import check_real

__all__ = ["bsgd", "colk", "dsg", "norma", "polk", "unregularized", "unregularized_pairs"]

KernelLike = str | Kernel | Callable[..., Any]
StepsLike = float | Callable[[int], float]

# First step in units of 1 / (L kappa²), chosen by the mean test error on ten data sets.
_BOLD = 4.0
# A step multiplies the residual of its row by 1 - 2 * first step: more than 1 would turn its sign.
_TWO_SIDED = 1.0


def _model(loss: str | Loss, **settings: Any) -> KernelClassifier | KernelRegressor:
    """Return the estimator of the loss's task, for one pass in the order of the stream."""
    chosen = own_copy(as_loss(loss))
    kind: Any = KernelClassifier if chosen.task == "classification" else KernelRegressor
    model: KernelClassifier | KernelRegressor
    model = kind(chosen, **{"average": None, "shuffle": False, **settings})
    return model


def _times(name: str, value: Any, factor: float, *, positive: bool = False) -> Any:
    """Return a number or a schedule of the paper in the library's units."""
    if callable(value):
        return value if factor == 1.0 else Relative(value, unit=factor)
    return factor * check_real(name, value, low=0.0, open_low=positive)


def polk(
    loss: str | Loss = "multiclass_hinge",
    *,
    eta: StepsLike = 6.0,
    K: float = 0.04,
    regularization: StepsLike = 1e-6,
    batch_size: int = 32,
    kernel: KernelLike = "gaussian",
) -> KernelClassifier | KernelRegressor:
    r"""POLK, Algorithm 2: functional gradient steps, each followed by KOMP.

    A step on a batch of B rows is :math:`\tilde f = (1 - \eta\lambda) f - \frac{\eta}{B} \sum_b
    \ell'(f(x_b), y_b)\, \kappa(x_b, \cdot)`. KOMP then removes points and refits the others as
    long as :math:`\|f - \tilde f\|_H \le \epsilon`.

    Parameters
    ----------
    loss : str or Loss, default="multiclass_hinge"
        The paper has ``"multiclass_hinge"`` (eq. (26)) and ``"softmax"`` (eq. (28)).
    eta : float or callable, default=6.0
        Step size :math:`\eta`. With a number, the tolerance is :math:`\epsilon = K \eta^{3/2}`
        (Theorem 2). With a schedule, such as ``PowerDecay(1, 1)``, it is
        :math:`\epsilon_t = K \eta_t^2`: eq. (22) with ``K=1``.
    K : float, default=0.04
        Parsimony constant :math:`K`.
    regularization : float or callable, default=1e-6
        Ridge parameter :math:`\lambda`.
    batch_size : int, default=32
        Rows of a step.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel. The paper's Gaussian of width c is ``Gaussian(c)``.

    Returns
    -------
    model : KernelClassifier or KernelRegressor
        Not fitted yet.

    Notes
    -----
    Defaults are those of the paper's mixtures of Gaussians (Section 5.3), where the kernel is
    ``Gaussian(0.6)`` and K is .04 or 1e-4. On digits the paper prints ``eta=24``, ``Gaussian(4)``
    and K of .16 and .24. With these nothing is learned: the tolerance is larger than a step. A
    tenth of these K gives the paper's errors (:doc:`/reproduction`, polk-mnist).
    ``KernelClassifier()`` makes fewer errors without settings.

    References
    ----------
    POLK, Algorithms 1 and 2, Theorems 1 and 2, Section 5.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.kernels import Gaussian
    >>> from mercer.recipes import polk
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = polk(kernel=Gaussian(0.3)).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.model_order_ < 100
    (True, True)
    """
    return _model(
        loss,
        kernel=kernel,
        expansion=KOMP(parsimony=K, power=2.0 if callable(eta) else 1.5),
        step_size=eta,
        regularization=regularization,
        batch_size=batch_size,
    )


def colk(
    loss: str | Loss = "squared",
    *,
    risk: str | Risk | None = None,
    alpha: StepsLike = 0.02,
    beta: float = 0.01,
    K: float = 5.0,
    regularization: StepsLike = 1e-5,
    tracker: str = "momentum",
    kernel: KernelLike = "gaussian",
) -> KernelClassifier | KernelRegressor:
    r"""COLK, Algorithm 1: steps of two rows under a risk, each followed by KOMP.

    A step takes two independent rows. One updates :math:`g`, which tracks the inner mean of the
    risk, the other gives the slope of the outer function at :math:`g`. The tolerance is
    :math:`\epsilon = K \alpha^2`. The squared loss is the paper's, :math:`(f(x) - y)^2` without
    one half.

    Parameters
    ----------
    loss : str or Loss, default="squared"
        Loss of a row.
    risk : str, Risk or None, default=None
        Any of :mod:`mercer.risks` but the mean. Its ``units`` become those of the paper's loss,
        not of a running scale, and its tracker is the one below. None is the paper's mean plus .1
        times the central moments 2 to 4 (eq. (46)):
        ``CentralMoments(4, weight=0.1, clamp=False, max_deviation=None)``.
    alpha : float or callable, default=0.02
        Step size :math:`\alpha` of the function. With a schedule the tolerance is
        :math:`\epsilon_t = K \alpha_t^2`.
    beta : float, default=0.01
        Step size :math:`\beta` of the tracker, in (0, 1].
    K : float, default=5.0
        Constant :math:`K` of the tolerance.
    regularization : float or callable, default=1e-5
        Ridge parameter :math:`\lambda`.
    tracker : {"scgd", "momentum", "nasa"}, default="momentum"
        ``"scgd"`` is eq. (19), ``"momentum"`` eq. (20), and ``"nasa"`` averages the directions of
        the steps, too (the paper's single-timescale comparator).
    kernel : str, Kernel or callable, default="gaussian"
        Kernel.

    Returns
    -------
    model : KernelClassifier or KernelRegressor
        Not fitted yet.

    Raises
    ------
    ValueError
        For the mean, which POLK learns, and arguments outside their range.

    Notes
    -----
    Defaults are those of Section V, where the kernel is ``Gaussian(0.06)``. The printed update of
    the moments diverges in every run there: its degree in f is 7. A clip of the coefficients or
    ``clamp=True`` mends it. ``KernelRegressor(risk="cvar:0.9")`` needs no settings.

    References
    ----------
    COLK, Algorithms 1 and 2, eq. (19)-(23), (45)-(47), Section V.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian
    >>> from mercer.recipes import colk
    >>> from mercer.risks import Variance
    >>> x = np.linspace(-1.0, 1.0, 2000)[:, np.newaxis]
    >>> X = np.random.default_rng(0).permutation(x)
    >>> y = 2.0 * X[:, 0] + 3.0 * np.sin(6.0 * X[:, 0])
    >>> model = colk(risk=Variance(0.1), kernel=Gaussian(0.2), alpha=0.1).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """
    chosen = own_copy(as_loss(loss))
    half = 0.5 if isinstance(chosen, Squared) else 1.0
    printed = CentralMoments(4, weight=0.1, clamp=False, max_deviation=None)
    mine = own_copy(as_risk(risk) or printed)
    if not (mine.n_inner or mine.n_scalars):
        raise ParameterError(
            f"`risk` must not be the mean, got {risk!r}: it has nothing to track.",
            parameter="risk",
            value=risk,
            mend="Use `polk`.",
        )
    _track(mine, half, Tracker(tracker, rate=beta, pairs="stream"))
    return _model(
        chosen,
        risk=mine,
        kernel=kernel,
        expansion=KOMP(parsimony=check_real("K", K, low=0.0) * half**2, power=2.0),
        step_size=_times("alpha", alpha, 1 / half, positive=True),
        regularization=_times("regularization", regularization, half),
        batch_size=2 if mine.n_inner else 1,
    )


def _track(risk: Risk, units: float, tracker: Tracker) -> None:
    """Let a risk and its parts have these units and this tracker."""
    risk.set_params(units=units)
    if isinstance(risk, Mixture):
        for part in risk.risks:
            _track(part, units, tracker)
    elif risk.n_inner:
        risk.set_params(tracker=tracker)


def dsg(
    loss: str | Loss = "hinge",
    *,
    theta: float | None = None,
    nu: StepsLike = 1e-6,
    B: int = 64,
    m: int = 32,
    kernel: KernelLike = "gaussian",
    average: str | None = "polyak",
    seed: int = 0,
) -> KernelClassifier | KernelRegressor:
    r"""Plain doubly stochastic gradients: DSG, Algorithms 1 and 2.

    Step t draws m features :math:`\phi` from its seed, and none of them is stored. On a batch of B
    rows, :math:`f \leftarrow (1 - \gamma_t\nu) f - \frac{\gamma_t}{B m} \sum_{b, j} l'(f(x_b),
    y_b)\, \phi_j(x_b)\, \phi_j(\cdot)`. The squared hinge is the paper's, with one half.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        Any loss of :mod:`mercer.losses`.
    theta : float or None, default=None
        Steps :math:`\gamma_t = \theta / t`. Theorem 4 asks for :math:`\theta\nu` in (1, 2) or a
        whole number. The paper prints no :math:`\theta`; None takes the library's automatic steps,
        which begin with the largest stable one and approach :math:`1 / (\nu t)`.
    nu : float or callable, default=1e-6
        Ridge parameter :math:`\nu`.
    B : int, default=64
        Rows of a step; 1 in the paper's Algorithm 1.
    m : int, default=32
        Features of a step; 1 in the paper's Algorithm 1.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel with random features.
    average : {"polyak", "suffix", None}, default="polyak"
        Predictions by the mean of all iterates (Section 7.1), of late ones, or by the last.
    seed : int, default=0
        Seed of the features.

    Returns
    -------
    model : KernelClassifier or KernelRegressor
        Not fitted yet.

    Notes
    -----
    B and m are those of the paper's Adult (Section 7.3), where :math:`\nu = 1 / (100 n)` for n
    rows. The noise of the features makes plain steps slow: ``RandomFeatures()``, which solves for
    the coefficients of each block, makes fewer errors in the same time, and is the default of
    ``expansion="random_features"``. With small :math:`\nu` the steps :math:`\theta / t` of the
    theorem begin so large that the run diverges.

    References
    ----------
    DSG, Algorithms 1 and 2, eq. (4)-(7), Theorem 4, Section 7.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.kernels import Gaussian
    >>> from mercer.recipes import dsg
    >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
    >>> model = dsg(kernel=Gaussian(0.3), m=64).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """
    chosen = own_copy(as_loss(loss))
    twice = 2.0 if isinstance(chosen, SquaredHinge) else 1.0
    theta = None if theta is None else check_real("theta", theta, low=0.0, open_low=True)
    return _model(
        chosen,
        kernel=kernel,
        expansion=RandomFeatures(m, mode="faithful", paired=False, design="iid", seed=seed),
        step_size="auto" if theta is None else PowerDecay(theta / twice, 1.0),
        regularization=_times("nu", nu, twice),
        batch_size=B,
        average=average,
    )


def norma(
    loss: str | Loss = "hinge",
    *,
    eta: StepsLike = 0.1,
    regularization: StepsLike = 0.01,
    tau: int | None = 1000,
    kernel: KernelLike = "gaussian",
) -> KernelClassifier | KernelRegressor:
    r"""NORMA: functional gradient steps on single rows, of which the last are kept.

    :math:`f \leftarrow (1 - \eta\lambda) f - \eta\, \ell'(f(x_t), y_t)\, k(x_t, \cdot)`, and
    the oldest of more than :math:`\tau` points is dropped.

    Parameters
    ----------
    loss : str or Loss, default="hinge"
        Loss of a row.
    eta : float or callable, default=0.1
        Step size :math:`\eta`; for falling steps ``PowerDecay(0.1, 0.5)``.
    regularization : float or callable, default=0.01
        Ridge parameter :math:`\lambda`. What is dropped has shrunk by
        :math:`(1 - \eta\lambda)^\tau`.
    tau : int or None, default=1000
        Points that are kept; None keeps all.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel.

    Returns
    -------
    model : KernelClassifier or KernelRegressor
        Not fitted yet.

    References
    ----------
    Kivinen, Smola, Williamson (2004), Online learning with kernels; a comparator of POLK and DSG.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.kernels import Gaussian
    >>> from mercer.recipes import norma
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = norma(kernel=Gaussian(0.3), eta=0.5).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """
    return _model(
        loss,
        kernel=kernel,
        expansion=Full(max_size=tau),
        step_size=eta,
        regularization=regularization,
        batch_size=1,
    )


def bsgd(
    loss: str | Loss = "multiclass_hinge",
    *,
    eta: StepsLike = 1.0,
    regularization: StepsLike = 1e-6,
    size: int = 129,
    strategy: str = "merge",
    kernel: KernelLike = "gaussian",
) -> KernelClassifier | KernelRegressor:
    r"""Budgeted stochastic gradients: steps on single rows, and a budget of points.

    :math:`f \leftarrow (1 - \eta\lambda) f - \eta\, \ell'(f(x_t), y_t)\, k(x_t, \cdot)`; one
    of more than ``size`` points is merged with another, projected on the others, or removed.

    Parameters
    ----------
    loss : str or Loss, default="multiclass_hinge"
        Loss of a row.
    eta : float or callable, default=1.0
        Step size :math:`\eta`. Steps like those of Pegasos are
        ``InverseTime(1 / regularization, offset=1)``.
    regularization : float or callable, default=1e-6
        Ridge parameter :math:`\lambda`.
    size : int, default=129
        Largest number of points.
    strategy : {"merge", "project", "remove"}, default="merge"
        What happens beyond it, see :class:`mercer.expansions.Budget`.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel; ``"merge"`` needs a Gaussian one.

    Returns
    -------
    model : KernelClassifier or KernelRegressor
        Not fitted yet.

    Notes
    -----
    Step, ridge and size are those that POLK prints for it (Section 5.3).

    References
    ----------
    Wang, Crammer, Vucetic (2012), Breaking the curse of kernelization; a comparator of POLK and
    COLK.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.kernels import Gaussian
    >>> from mercer.recipes import bsgd
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = bsgd(kernel=Gaussian(0.3), size=50).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.model_order_ <= 50
    (True, True)
    """
    return _model(
        loss,
        kernel=kernel,
        expansion=Budget(size, strategy),
        step_size=eta,
        regularization=regularization,
        batch_size=1,
    )


def unregularized(
    loss: str | Loss = "logistic",
    *,
    step_size: float | str | Callable[[int], float] = "theory",
    class_weight: dict[Any, float] | str | None = None,
    expansion: str | Expansion = "full",
    kernel: str | Kernel | Callable[..., Any] = "gaussian",
    average: str | None = None,
    n_passes: int = 1,
    shuffle: bool = False,
    random_state: Any = None,
    verbose: int = 0,
) -> KernelClassifier:
    r"""Algorithm 1 of Ying & Zhou: learn without regularization, one row at a time.

    Starting from g = 0, every row makes the step
    :math:`g \leftarrow g - \gamma_t\, \phi'(y_t g(x_t))\, y_t\, G(x_t, \cdot)` with labels
    :math:`y_t` of -1 and +1, the kernel G and a loss :math:`\phi` of the margin. Nothing shrinks:
    the falling steps :math:`\gamma_t = c\,t^{-\theta}` do what a ridge would do.

    The last iterate converges to the least risk for every c > 0 if :math:`\theta` lies between
    :math:`1 / (1 + \alpha)` and 1, where :math:`\alpha` is the loss's ``hoelder_exponent``.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        Loss of the margin whose slope is Hölder continuous: ``"logistic"``, ``"squared_hinge"``,
        ``"least_squares_margin"``, ``QNormHinge(q)``; used one-versus-rest for more than two
        classes.
    step_size : float, callable, "auto" or "theory", default="theory"
        ``"theory"`` is ``Relative(PowerDecay(1, 2 / (alpha + 2)))``, of the best proven rate.
        ``"auto"`` is ``Relative(PowerDecay(4, 0.5))``: :math:`\theta = 1/2` and
        :math:`c = 4 / (L \kappa^2)` (1 rather than 4 for least squares), just outside the theorems
        and the most accurate on real data. Or any other schedule (:mod:`mercer.schedules`).
    class_weight : dict, "balanced" or None, default=None
        As in :class:`mercer.KernelClassifier`; use ``"balanced"`` where one class is rare.
    expansion : str or Expansion, default="full"
        How g stays small (:mod:`mercer.expansions`). ``"full"`` keeps every row that had a slope,
        as in the paper, so the model grows with the stream; ``KOMP(tolerance=1e-4, max_size=200)``
        bounds it and is as accurate on most data. ``"random_features"`` means the mode
        ``"faithful"``.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel (:mod:`mercer.kernels`).
    average : {"suffix", "polyak", None}, default=None
        As in :class:`mercer.KernelClassifier`. None predicts with the last iterate, which is what
        the theorems are about; averages protect from steps that are far too large.
    n_passes, shuffle, random_state, verbose
        As in :class:`mercer.KernelClassifier`. The theorems are about one pass in the order of the
        stream.

    Returns
    -------
    model : KernelClassifier
        Not fitted yet.

    Raises
    ------
    ValueError
        If the slope of the loss is not Hölder continuous, as for the plain hinge.

    References
    ----------
    Ying and Zhou, Algorithm 1 and Theorems 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from mercer.recipes import unregularized
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = unregularized("squared_hinge", step_size="auto").fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """
    chosen = own_copy(activating_loss(loss, pairs=False))
    if isinstance(step_size, str) and step_size == "auto":
        first = _TWO_SIDED if isinstance(chosen, LeastSquaresMargin) else _BOLD
        step_size = Relative(PowerDecay(first, 0.5))
    if isinstance(expansion, str) and expansion == "random_features":
        expansion = RandomFeatures("auto", mode="faithful")
    return KernelClassifier(
        chosen,
        kernel=kernel,
        expansion=expansion,
        step_size=step_size,
        regularization=0.0,
        batch_size=1,
        n_passes=n_passes,
        shuffle=shuffle,
        class_weight=class_weight,
        average=average,
        random_state=random_state,
        verbose=verbose,
    )


def unregularized_pairs(
    loss: str | Loss = "logistic",
    *,
    step_size: StepsLike | str = "theory",
    pair_kernel: Any = "difference",
    kernel: KernelLike = "gaussian",
) -> KernelRanker:
    r"""Algorithm 2 of Ying & Zhou: learn on pairs without regularization.

    Row t meets all rows before it: :math:`g \leftarrow g - \frac{\gamma_t}{t - 1} \sum_{j < t}
    \phi'(r_{tj}\, g(x_t, x_j))\, r_{tj}\, K((x_t, x_j), \cdot)` with :math:`r_{tj} = y_t - y_j`.
    A row costs as many kernel values as there are rows before it.

    Parameters
    ----------
    loss : str or Loss, default="logistic"
        Loss of the margin with a Lipschitz slope.
    step_size : float, callable, "auto" or "theory", default="theory"
        ``"theory"`` is :math:`\gamma_t = c\,t^{-\theta}` with the largest c of Theorem 3 or 4 and
        :math:`\theta = 4/5` (losses of bounded slope) or 5/6; as in :class:`mercer.KernelRanker`.
    pair_kernel : str, PairKernel, array-like or callable, default="difference"
        Kernel of pairs: made from ``kernel``, or any function of two pairs
        (:class:`mercer.kernels.FunctionPairKernel`), as in :class:`mercer.KernelRanker`.
    kernel : str, Kernel or callable, default="gaussian"
        Kernel of rows.

    Returns
    -------
    model : KernelRanker
        Not fitted yet.

    Raises
    ------
    ValueError
        If the slope of the loss is not Lipschitz continuous.

    Notes
    -----
    ``KernelRanker()`` has a buffer of few rows, bolder steps and a bounded dictionary, so that a
    row costs the same however many came before it (:doc:`/ranking`).

    References
    ----------
    Ying and Zhou, Algorithm 2, eq. (1.2), Theorems 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.recipes import unregularized_pairs
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0.0, 1, 0)
    >>> bool(unregularized_pairs().fit(X, y).score(X, y) > 0.95)
    True
    """
    return KernelRanker(
        own_copy(activating_loss(loss, pairs=True)),
        pair_kernel=pair_kernel,
        pair_label="difference",
        buffer="all",
        normalize="all",
        kernel=kernel,
        expansion=Full(),
        step_size=step_size,
        regularization=0.0,
        batch_size=1,
        shuffle=False,
    )
