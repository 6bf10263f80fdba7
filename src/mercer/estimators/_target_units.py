"""The unit of a regression target: what steps on losses with bounded slopes are measured in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import Advice, NothingLearnedWarning, Setting, TargetScaleWarning
from mercer.kernels import Bias, Kernel, Partitioned, Polynomial, Product
from mercer.losses import Loss, loss_and_slopes

__all__ = ["curvature_at", "target_unit", "warn_of_targets"]

Array = NDArray[np.float64]

# Mean of |y| to the standard deviation, for a centred normal target.
_MEAN_TO_DEVIATION = 1.2533
# In medians of |y|: what is further counts as no more.
_OUTLYING = 4.0
# Fewer rows say too little of a small unit: their targets may be small by chance.
_ENOUGH_ROWS = 10
# Targets beyond so many steps are out of reach.
_FAR = 100.0
# Without a bound of slopes or curvature the first steps fit targets of about 1.
_NEAR = 5.0
# Targets so many deviations from 0 are mostly offset.
_OFF_CENTRE = 5.0
_SCALE = (
    "for example with sklearn.compose.TransformedTargetRegressor(model, "
    "transformer=StandardScaler({}))"
)


def target_unit(y: Any) -> float:
    """Usual size of the targets, as a power of two; 1 if there is none.

    A mean in which outliers count little, as they do for losses with bounded slopes. A power of
    two, so that other units of the target change no digit, and standardised targets nothing.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows. Of several targets the largest counts.

    Returns
    -------
    unit : float
        Of fewer than 10 rows at least 1.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=100)
    >>> target_unit(y), target_unit(2e5 * y), target_unit(np.zeros(100))
    (1.0, 262144.0, 1.0)
    """
    size = float(_sizes(y).max(initial=0.0))
    if not 0.0 < size < np.inf:
        return 1.0
    unit = float(2.0 ** np.clip(np.round(np.log2(size)), -300, 300))
    return unit if len(y) >= _ENOUGH_ROWS else max(unit, 1.0)


def _sizes(y: Any) -> Array:
    """Usual size of each target."""
    sizes = np.abs(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
    middle = np.median(sizes, axis=0)
    usual = np.minimum(sizes, np.where(middle > 0.0, _OUTLYING * middle, np.inf))
    return np.asarray(_MEAN_TO_DEVIATION * usual.mean(axis=0))


def curvature_at(loss: Loss, curvature: float, unit: float) -> float:
    r"""Curvature of a loss with bounded slopes, seen from as far as the targets are.

    With slopes up to L and targets y = s z the loss of f = s g is as one with slopes up to L s and
    curvature L s in g, so L / s in f. Steps that are the inverse of it, and a ridge in proportion
    to it, make of s y the function s f.

    Parameters
    ----------
    loss : Loss
        For regression.
    curvature : float
        Of the loss, or 1 where it has no bound.
    unit : float
        s, :func:`target_unit`.

    Returns
    -------
    curvature : float
        The given one if slopes have no bound, or the loss is curved as far as the targets reach.

    Examples
    --------
    >>> from mercer.losses import AbsoluteError, Huber, Squared
    >>> [curvature_at(loss, 1.0, 4.0) for loss in (AbsoluteError(), Huber(1.0), Squared())]
    [0.25, 0.25, 1.0]
    >>> curvature_at(AbsoluteError(), 1.0, 0.125), curvature_at(Huber(1.0), 1.0, 0.125)
    (8.0, 1.0)
    """
    if loss.lipschitz is None:
        return curvature
    if loss.curvature is None:
        return curvature / unit
    return min(curvature, loss.lipschitz / unit)


def warn_of_targets(
    loss: Loss,
    kernel: Kernel,
    y: Any,
    targets: Array,
    reach: Callable[[], float] | None,
    *,
    solves: bool,
) -> None:
    """Warn of targets whose unit or origin does not suit what is to learn them.

    Parameters
    ----------
    loss : Loss
        For regression.
    kernel : Kernel
        Of the functions.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows; fewer than 10 say too little.
    targets : ndarray
        The same, encoded.
    reach : callable or None
        Says how long the first step is, if steps are made regardless of the targets.
    solves : bool
        Whether learning begins with a regression that is solved for, for which neither unit nor
        origin matters.

    Warns
    -----
    mercer.exceptions.TargetScaleWarning
        If the targets are out of reach, or have units too different for steps of one length.
    mercer.exceptions.NothingLearnedWarning
        If f = 0 is good enough for the loss.
    """
    sizes = _sizes(y)
    if len(y) < _ENOUGH_ROWS or not (sizes.any() and np.isfinite(sizes).all()):
        return
    slopes = loss_and_slopes(loss, np.zeros((len(y), loss.n_scores(sizes.size))), targets)[1]
    if not slopes.any():
        warnings.warn(
            f"No target is as far from 0 as {loss!r} begins to count, the largest being "
            f"{float(np.abs(y).max()):.3g}: f = 0 is a solution and nothing is learned. Scale the "
            f"target, {_SCALE.format('')}, or choose another parameter of the loss.",
            NothingLearnedWarning,
            stacklevel=6,
        )
        return
    units = _words_of_units(loss, sizes)
    if solves:
        words = units
    else:
        words = _words(loss, sizes, reach) or units or _words_of_origin(loss, kernel, y)
    if words:
        warnings.warn(words, TargetScaleWarning, stacklevel=6)


def _words(loss: Loss, sizes: Array, reach: Callable[[], float] | None) -> str:
    """Say what is wrong with the units, if anything is."""
    largest, smallest = float(sizes.max()), float(sizes[sizes > 0.0].min())
    slope = loss.lipschitz
    if slope is None:
        usual = largest if largest > _NEAR else smallest
        if loss.curvature is not None or 1.0 / _NEAR <= usual <= _NEAR:
            return ""
        return (
            f"The targets are about {usual:.3g}, but steps on {loss!r}, whose slopes and curvature "
            "have no bound, suit targets of about 1: the model may be far from what the loss can "
            f"give. Divide the target by its scale, {_SCALE.format('with_mean=False')}."
        )
    if reach is not None and largest > _FAR * slope:
        first = reach()
        if largest > _FAR * slope * max(first, 1.0):
            return Advice(
                f"The targets are about {largest:.3g}, but the slopes of {loss!r} are at most "
                f"{slope:.3g} and the first step is {first:.3g}: the model may never get there. "
                f"Scale the target, {_SCALE.format('')}. (Without a risk ",
                Setting("step_size", "auto"),
                " takes steps in units of the target.)",
            )
    return ""


def _words_of_units(loss: Loss, sizes: Array) -> str:
    """Say that targets are in very different units, if they are and steps have one length."""
    largest, smallest = float(sizes.max()), float(sizes[sizes > 0.0].min())
    if loss.lipschitz is not None and largest > _FAR * smallest:
        return (
            f"The targets are of very different sizes, from {smallest:.3g} to {largest:.3g}, but "
            f"steps on {loss!r} are of one length for all: the smaller ones are learned badly. "
            f"Scale them, {_SCALE.format('')}, or learn them one by one."
        )
    return ""


def _words_of_origin(loss: Loss, kernel: Kernel, y: Any) -> str:
    """Say that the targets are far from 0, if they are and the kernel has no constant term."""
    if loss.lipschitz is None and loss.curvature is None:
        return ""  # not of the scores themselves, but of a link
    if _has_bias(kernel):
        return ""
    rows = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    # No median: targets may be all but constant in a large part of the rows.
    middle, spread = rows.mean(axis=0), rows.std(axis=0)
    far = (spread > 0.0) & (np.abs(middle) > _OFF_CENTRE * spread)
    if not far.any():
        return ""
    at = int(np.argmax(far))
    return (
        f"The targets are about {middle[at]:.4g} with a deviation of {spread[at]:.3g}, but steps "
        f"begin at f = 0 and a {type(kernel).__name__} kernel learns an offset slowly, if at all: "
        f"most of what is learned would be the offset. Centre the target, {_SCALE.format('')}, or "
        "add a Bias() to the kernel."
    )


def _has_bias(kernel: Kernel) -> bool:
    """Whether a term of a kernel is constant, whatever its factor and the map before it."""
    match kernel:
        case Bias():
            return True
        case Polynomial(degree=1, offset=constant) | Partitioned(constant=constant):
            return float(constant) > 0.0
        case Product():
            return False
    parts = kernel.get_params(deep=False).values()
    return any(_has_bias(part) for part in parts if isinstance(part, Kernel))
