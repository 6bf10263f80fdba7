"""Warnings and errors of mercer: each names one thing that went wrong."""

__all__ = [
    "ConditioningWarning",
    "DivergenceError",
    "InputScaleWarning",
    "NothingLearnedWarning",
    "TargetScaleWarning",
    "TrajectoryWarning",
]


class NothingLearnedWarning(UserWarning):
    """The compression tolerance exceeds the size of a step, so every step is undone."""


class ConditioningWarning(UserWarning):
    """The Gram matrix became ill-conditioned; a slower, more careful path took over."""


class InputScaleWarning(UserWarning):
    """One column of the inputs is in so large a unit that distances see no other."""


class TargetScaleWarning(UserWarning):
    """The targets are in units that do not suit the steps on the loss, or the prior."""


class TrajectoryWarning(UserWarning):
    """A method that needs transitions in the order in which they happened does not get them."""


class DivergenceError(ArithmeticError):
    """The function grew beyond every reasonable size; the model keeps its last finite state."""
