r"""The methods of COLK, Section V, in the paper's units.

The paper's squared loss is :math:`r^2`, the library's :math:`r^2/2`. The same functions come out
with twice the step size, half the ridge and half the clip, and risks in units of one half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import KernelRegressor
from mercer.expansions import KOMP, Budget, Expansion
from mercer.kernels import Gaussian
from mercer.losses import AbsoluteError, Huber, Loss, Squared
from mercer.risks import CentralMoments, Risk, Tracker, as_tracker
from mercer_reproduction._colk_data import Sample, TrainingSet
from mercer_reproduction._colk_runs import Method, ModelRun, Run, SolverRun
from mercer_reproduction.baselines import NPBSGD, RBFNetwork

Array = NDArray[np.float64]

_LENGTH_SCALE = 0.06
KERNEL = Gaussian(_LENGTH_SCALE)
#: Step size and ridge of the paper's squared loss.
ALPHA, RIDGE = 0.02, 1e-5
#: The paper's unit of the loss, in the library's squared loss.
UNIT = 0.5

_RATE = 0.01
_PARSIMONY = 5.0  # tolerance = 5 alpha^2 (COLK, Section V: K = 5)
_N_CENTRES = 50
# The paper adds a noise to the features and does not state it: a tenth of their largest value.
_FEATURE_NOISE = 0.1


# -- parts ----------------------------------------------------------------------------------------


def tolerance_of(alpha: float) -> float:
    r"""Tolerance :math:`K\alpha^2` with K = 5, the paper's rule.

    Examples
    --------
    >>> round(tolerance_of(0.02), 6)
    0.002
    """
    return _PARSIMONY * alpha**2


def moments(
    clip: float | None = None,
    *,
    order: int = 4,
    weight: float = 0.1,
    positive: bool = False,
    clamp: bool = True,
    rule: str = "momentum",
    pairs: str = "stream",
) -> CentralMoments:
    """Mean plus 0.1 times central moments of the squared loss, 2 to 4 (COLK, eq. (46)-(47)).

    Parameters
    ----------
    clip : float or None, default=None
        Largest coefficient over the step size, in the paper's units.
    order : int, default=4
        The highest moment; 2 is mean plus variance, which the paper's Fig. 1(a) shows.
    weight, positive, clamp
        As in :class:`mercer.risks.CentralMoments`.
    rule, pairs : str, default="momentum" and "stream"
        Of the tracker, whose rate is 0.01.
    """
    return CentralMoments(
        order,
        weight=weight,
        positive=positive,
        units=UNIT,
        clamp=clamp,
        max_deviation=None,
        clip=None if clip is None else UNIT * clip,
        tracker=Tracker(rule, rate=_RATE, pairs=pairs),
    )


def regressor(
    loss: Loss,
    risk: Risk | None = None,
    *,
    alpha: float = ALPHA,
    expansion: Expansion | None = None,
    kernel: Gaussian = KERNEL,
    batch_size: int | None = None,
) -> KernelRegressor:
    """Set up an estimator by the paper's step size, without averages.

    Parameters
    ----------
    loss : Loss
        ``Squared`` and ``Huber`` are half of the paper's, ``AbsoluteError`` is its own.
    risk : Risk or None, default=None
        Its units and clip are the library's.
    alpha : float, default=0.02
        Step size of the paper's loss.
    expansion : Expansion or None, default=None
        None: KOMP with the tolerance 5 alpha².
    kernel : Gaussian, default=Gaussian(0.06)
        Kernel.
    batch_size : int or None, default=None
        None: 2 rows for risks whose tracker takes pairs of the stream, else 1.
    """
    scale = 1.0 if isinstance(loss, AbsoluteError) else UNIT
    paired = risk is not None and risk.n_inner > 0 and as_tracker(risk.tracker).pairs == "stream"
    return KernelRegressor(
        loss,
        risk=risk,
        kernel=kernel,
        expansion=KOMP(tolerance=tolerance_of(alpha)) if expansion is None else expansion,
        step_size=alpha / scale,
        regularization=scale * RIDGE,
        batch_size=(2 if paired else 1) if batch_size is None else batch_size,
        average=None,
    )


# -- methods --------------------------------------------------------------------------------------


def colk(name: str, risk: Risk | None, **settings: Any) -> Method:
    """COLK with a risk of the squared loss; ``settings`` as in :func:`regressor`."""
    return _of_model(name, lambda: regressor(Squared(), risk, **settings))


def polk(name: str, alpha: float, tolerance: float | None = None) -> Method:
    r"""POLK: the mean loss. None: a tolerance of :math:`5\sqrt{.02}\,\alpha^{1.5}`."""
    if tolerance is None:
        tolerance = _PARSIMONY * math.sqrt(ALPHA) * alpha**1.5
    return colk(name, None, alpha=alpha, expansion=KOMP(tolerance=tolerance))


def huber(name: str, delta: float, **settings: Any) -> Method:
    """Mean of Huber's loss, with KOMP; ``settings`` as in :func:`regressor`."""
    return _of_model(name, lambda: regressor(Huber(delta), None, **settings))


def absolute(name: str, alpha: float, tolerance: float) -> Method:
    """Mean of the absolute error, with KOMP."""
    expansion = KOMP(tolerance=tolerance)
    return _of_model(name, lambda: regressor(AbsoluteError(), alpha=alpha, expansion=expansion))


def bsgd(name: str, strategy: str, size: int, alpha: float) -> Method:
    """BSGD: the mean loss, at most ``size`` points."""
    return colk(name, None, alpha=alpha, expansion=Budget(size, strategy))


def compositional_bsgd(name: str, size: int, clip: float, *, clamp: bool) -> Method:
    """BSGD with merging on COLK's objective, tracked by COLK, eq. (19)."""
    risk = moments(clip, clamp=clamp, rule="scgd")
    return colk(name, risk, expansion=Budget(size, "merge"))


def npbsgd(name: str, size: int, alpha: float, certain: float | None = None) -> Method:
    """BSGD that projects on the 5 nearest neighbours, at a constant step.

    Removals are certain in the first part of the stream, a share ``certain`` of it, and later have
    the probability of the published scheme; None: they are always certain, which is not published.
    """

    def start(training: TrainingSet) -> Run:
        X, y = training.first
        solver = NPBSGD(
            X,
            y,
            KERNEL,
            Squared(),
            step_size=alpha / UNIT,
            regularization=UNIT * RIDGE,
            size=size,
            certain=None if certain is None else certain * len(y),
        )
        return SolverRun(solver)

    return Method(name, start)


def rbf_network(
    name: str,
    alpha: float,
    *,
    clip: float,
    low: float = 0.0,
    clamp: bool = True,
    rule: str = "scgd",
    noise: float = 0.0,
) -> Method:
    """50 equidistant centres on [low, 1], COLK's objective, SCGD or NASA; kernel exp(-d²/.06²)."""
    kernel = Gaussian(_LENGTH_SCALE / math.sqrt(2.0))
    centres = np.linspace(low, 1.0, _N_CENTRES)[:, np.newaxis]

    def start(training: TrainingSet) -> Run:
        X, y = training.interleaved()
        solver = RBFNetwork(
            X,
            y,
            kernel,
            centres,
            Squared(),
            moments(clip, clamp=clamp, rule=rule),
            step_size=alpha / UNIT,
            regularization=UNIT * RIDGE,
            noise=noise,
        )
        return SolverRun(solver)

    return Method(name, start)


def _of_model(name: str, make: Callable[[], KernelRegressor]) -> Method:
    return Method(name, lambda training: ModelRun(make(), training))


# -- tuned methods --------------------------------------------------------------------------------


def tuned(
    make: Callable[[float], Method],
    alphas: Sequence[float],
    errors: Callable[[Method], Sequence[float]],
) -> tuple[Method, float]:
    """Choose the step size with the least mean error, which favours the method.

    Parameters
    ----------
    make : callable
        From a step size to a method.
    alphas : sequence of float
        Step sizes.
    errors : callable
        From a method to its errors on some training sets; infinite where it diverged.

    Returns
    -------
    method : Method
    alpha : float
        The step size chosen.
    """
    best = min(alphas, key=lambda alpha: float(np.mean(errors(make(alpha)))))
    return make(best), best


def rivals(
    errors: Callable[[Method], Sequence[float]],
    alphas: Sequence[float],
    network_alphas: Sequence[float],
    *,
    size: int,
    clip: float,
    low: float = 0.0,
) -> list[tuple[Method, str]]:
    """Set up the paper's comparators but POLK, and say in words which step sizes were tuned.

    Parameters
    ----------
    errors, alphas
        As in :func:`tuned`.
    network_alphas : sequence of float
        Step sizes of the RBF networks.
    size : int
        Budget of points.
    clip : float
        Of COLK's objective, in the paper's units.
    low : float, default=0
        Least input.
    """
    found = {}
    for strategy in ("remove", "project", "merge"):
        name = f"BSGD, {strategy}"
        found[name] = tuned(partial(bsgd, name, strategy, size), alphas, errors)
    projecting = found["BSGD, project"][1]
    network = partial(rbf_network, clip=clip, low=low)
    name = f"{_N_CENTRES} RBFs, clip {clip:g}"
    plain, by_scgd = tuned(partial(network, name), network_alphas, errors)
    averaged, by_nasa = tuned(
        partial(network, f"{name}, NASA", rule="nasa"), network_alphas, errors
    )
    return [
        *((method, f"{alpha:g}") for method, alpha in found.values()),
        (npbsgd("NPBSGD", size, projecting, certain=0.5), f"{projecting:g}"),
        (compositional_bsgd(f"comp-BSGD, clip {clip:g}", size, clip, clamp=True), ""),
        (plain, f"{by_scgd:g}"),
        (network(f"{name}, no clamp", by_scgd, clamp=False), f"{by_scgd:g}"),
        (network(f"{name}, noise", by_scgd, noise=_FEATURE_NOISE), f"{by_scgd:g}"),
        (averaged, f"{by_nasa:g}"),
    ]


# -- what is measured -----------------------------------------------------------------------------


def squared_errors(run: Run, test: Sample) -> Array:
    """Squared errors of test rows, their noise and outliers included."""
    errors: Array = (run.predict(test.X) - test.y) ** 2
    return errors


def mean_and_deviation(values: Sequence[float]) -> str:
    """Mean and standard deviation as text; says how many runs diverged, if some did.

    Examples
    --------
    >>> mean_and_deviation([1.0, 3.0])
    '2 (1)'
    >>> mean_and_deviation([1.0, 1.0, math.inf])
    '1 (0), 1/3 diverged'
    """
    numbers = np.asarray(values, np.float64)
    fine = numbers[np.isfinite(numbers)]
    n_bad = numbers.size - fine.size
    if not fine.size:
        return f"{n_bad}/{numbers.size} diverged"
    text = f"{fine.mean():.3g} ({fine.std():.2g})"
    return f"{text}, {n_bad}/{numbers.size} diverged" if n_bad else text
