"""Estimators with the settings of the papers.

A recipe returns an unfitted estimator in which every choice is the paper's. To change a choice, use
its arguments or ``set_params``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.component import own_copy
from mercer.estimators import KernelClassifier
from mercer.expansions import Expansion, RandomFeatures
from mercer.kernels import Kernel
from mercer.losses import LeastSquaresMargin, Loss, as_loss
from mercer.schedules import PowerDecay, Relative

__all__ = ["unregularized"]

# First step in units of 1 / (L kappa²), chosen by the mean test error on ten data sets.
_BOLD = 4.0
# A step multiplies the residual of its row by 1 - 2 * first step: more than 1 would turn its sign.
_TWO_SIDED = 1.0


def unregularized(
    loss: str | Loss = "logistic",
    *,
    step_size: float | str | Callable[[int], float] = "auto",
    class_weight: dict[Any, float] | str | None = None,
    expansion: str | Expansion = "full",
    kernel: str | Kernel | Callable[..., Any] = "gaussian",
    average: str | None = None,
    n_passes: int = 1,
    shuffle: bool = True,
    random_state: Any = None,
    verbose: int = 0,
) -> KernelClassifier:
    r"""Return a classifier that learns without regularization, one row at a time.

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
    step_size : float, callable, "auto" or "theory", default="auto"
        ``"auto"`` is ``Relative(PowerDecay(4, 0.5))``: :math:`\theta = 1/2` and
        :math:`c = 4 / (L \kappa^2)` (1 rather than 4 for least squares), the most accurate on
        real data, just outside the theorems. ``"theory"`` is
        ``Relative(PowerDecay(1, 2 / (alpha + 2)))``, of the best proven rate and slower. Or any
        other schedule (:mod:`mercer.schedules`).
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
        As in :class:`mercer.KernelClassifier`. The theorems are about one pass.

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
    >>> model = unregularized("squared_hinge", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """
    chosen = own_copy(as_loss(loss, "classification"))
    if chosen.hoelder_exponent is None:
        raise ValueError(
            "`loss` must have a Hölder continuous slope to be learned without regularization, got "
            f"{loss!r}: where the slope jumps, or the loss is none of one margin, the theorems "
            "say nothing (Ying and Zhou, Definition 1). Use 'logistic', 'squared_hinge', "
            "'least_squares_margin' or QNormHinge(q), or KernelClassifier with a ridge."
        )
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
