r"""Losses: how a score f(x) is charged for a target y.

Regression losses take real targets, margin losses labels of -1 and +1, multi-class losses class
numbers. ``loss.value(y, f)`` and ``loss.derivative(y, f)`` work on whole batches; both run the one
formula of the loss, compiled at its first use, that the learner's compiled loop runs too.

Conventions
-----------
- A row's value is the sum over its outputs; derivatives are in the scores.
- At a kink the slope is 0 where 0 is a subgradient, which holds for all losses here: the hinges
  are active only where their deficit, and the tubes where their excess, is above 0;
  :class:`AbsoluteError` and :class:`Quantile` have slope 0 at a residual of 0.
- Ties between classes go to the lowest class number.
- A score that is NaN makes the value NaN, never 0.

A loss of your own: see :class:`Loss`.

Examples
--------
>>> from mercer.losses import Hinge, as_loss
>>> Hinge().value([1.0, -1.0], [0.5, -2.0])
array([0.5, 0. ])
>>> as_loss("huber")
Huber()
"""

from __future__ import annotations

import re
from typing import Any

from mercer.exceptions import Advice, InPython, ParameterError
from mercer.losses._base import (
    CompiledLoss,
    Loss,
    MarginLoss,
    MulticlassLoss,
    RegressionLoss,
    Task,
    check_formula,
    loss_and_slopes,
)
from mercer.losses._classification import (
    Hinge,
    LeastSquaresMargin,
    Logistic,
    MulticlassHinge,
    QNormHinge,
    Softmax,
    SquaredHinge,
)
from mercer.losses._regression import (
    AbsoluteError,
    EpsilonInsensitive,
    Huber,
    Poisson,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
)
from mercer.validation import name_among, nearest

__all__ = [
    "AbsoluteError",
    "CompiledLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "LeastSquaresMargin",
    "Logistic",
    "Loss",
    "MarginLoss",
    "MulticlassHinge",
    "MulticlassLoss",
    "Poisson",
    "QNormHinge",
    "Quantile",
    "RegressionLoss",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "as_loss",
    "loss_and_slopes",
]

_LOSSES: tuple[type[Loss], ...] = (
    Squared,
    AbsoluteError,
    Huber,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    Quantile,
    Poisson,
    Logistic,
    Hinge,
    SquaredHinge,
    QNormHinge,
    LeastSquaresMargin,
    Softmax,
    MulticlassHinge,
)

# What other libraries call the same losses (docs/guide/names.md lists them): the one of the task,
# or the first where no task is said.
_ALIASES: dict[str, tuple[str, ...]] = {
    "absolute": ("absolute_error",),
    "binary": ("logistic",),
    "binary:logistic": ("logistic",),
    "binary_crossentropy": ("logistic",),
    "binary_logloss": ("logistic",),
    "categorical_crossentropy": ("softmax",),
    "count:poisson": ("poisson",),
    "crammer_singer": ("multiclass_hinge",),
    "cross_entropy": ("softmax",),
    "l1": ("absolute_error",),
    "l2": ("squared", "least_squares_margin"),
    "lad": ("absolute_error",),
    "least_squares": ("squared", "least_squares_margin"),
    "log": ("logistic",),
    "log_loss": ("logistic",),
    "logloss": ("logistic",),
    "ls": ("squared", "least_squares_margin"),
    "mae": ("absolute_error",),
    "mean_absolute_error": ("absolute_error",),
    "mean_squared_error": ("squared", "least_squares_margin"),
    "mse": ("squared", "least_squares_margin"),
    "multi:softmax": ("softmax",),
    "multi:softprob": ("softmax",),
    "multi_logloss": ("softmax",),
    "multiclass": ("softmax",),
    "multinomial": ("softmax",),
    "pinball": ("quantile",),
    "reg:absoluteerror": ("absolute_error",),
    "reg:quantileerror": ("quantile",),
    "reg:squarederror": ("squared",),
    "regression": ("squared",),
    "regression_l1": ("absolute_error",),
    "regression_l2": ("squared",),
    "rmse": ("squared",),
    "squared_error": ("squared", "least_squares_margin"),
}


def _name(cls: type[Loss]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


def as_loss(value: Any, task: Task | None = None) -> Loss:
    """Turn a loss or its name into a loss.

    Parameters
    ----------
    value : Loss or str
        A loss, returned as it is, or the name of one, for example ``"squared_hinge"``, which
        stands for it with default parameters. Usual names of other libraries, such as ``"mae"``
        and ``"log_loss"``, are understood.
    task : {"regression", "classification"}, default=None
        What the loss is needed for; None accepts both.

    Returns
    -------
    loss : Loss

    Raises
    ------
    ValueError
        For an unknown name, something that is not a loss, or a loss of the other task.

    Examples
    --------
    >>> as_loss("squared_hinge", task="classification")
    SquaredHinge()
    >>> as_loss("mae")
    AbsoluteError()
    """
    names = {_name(cls): cls for cls in _LOSSES}
    usable = [name for name, cls in names.items() if task in (None, cls.task)]
    aliases = {
        alias: next((name for name in those if name in usable), those[0])
        for alias, those in _ALIASES.items()
    }
    name = name_among(value, names, aliases)
    loss: Any = value if name is None else names[name]()
    if not isinstance(loss, Loss):
        near = {alias: name for alias, name in aliases.items() if name in usable}
        hint = nearest(value, usable, near).lstrip() if isinstance(value, str) else ""
        if isinstance(value, type) and issubclass(value, Loss):
            hint = f"Did you mean {value.__name__}(), with brackets?"
        listed = ", ".join(repr(name) for name in usable)
        raise ParameterError(
            Advice(
                "`loss` must be ",
                InPython("a loss of mercer.losses or "),
                f"one of the names {listed}, got {value!r}.",
            ),
            parameter="loss",
            value=value,
            mend=hint,
        )
    check_formula(loss)
    if task is not None and loss.task != task:
        listed = ", ".join(repr(name) for name in usable)
        raise ValueError(
            f"`{_name(type(loss))}` is a {loss.task} loss, but a {task} loss is needed here. "
            f"Use one of {listed}."
        )
    return loss
