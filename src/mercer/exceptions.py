"""Warnings and errors of mercer: each names one thing that went wrong."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

__all__ = [
    "Advice",
    "ConditioningWarning",
    "DependentRowsWarning",
    "DivergenceError",
    "InPython",
    "InputScaleWarning",
    "LeakWarning",
    "NothingLearnedWarning",
    "ParameterError",
    "Setting",
    "ShardError",
    "TargetScaleWarning",
    "TrajectoryWarning",
    "WorkerError",
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


class LeakWarning(UserWarning):
    """A column alone reveals the target, and may be unknown at prediction time."""


class DependentRowsWarning(UserWarning):
    """Rows are more alike than inputs explain, so errors are too optimistic for new rows."""


class ShardError(ValueError):
    """A shard of the data cannot be read, or does not fit the others.

    Attributes
    ----------
    shard : str
        Name of the shard.
    """

    def __init__(self, message: str, shard: str) -> None:
        super().__init__(message, shard)
        self.shard = shard

    def __str__(self) -> str:
        return str(self.args[0])


class Setting(NamedTuple):
    """A parameter and a value, as a piece of an :class:`Advice`.

    Attributes
    ----------
    parameter : str
        Name of the parameter.
    value : object
        What to set it to, or what it was set to.
    python : str
        How this is written in Python, if not as ``parameter=value``.
    """

    parameter: str
    value: Any
    python: str = ""

    def __str__(self) -> str:
        return self.python or f"{self.parameter}={self.value!r}"


class InPython(NamedTuple):
    """A piece of an :class:`Advice` that only helps users of the Python interface.

    Attributes
    ----------
    text : str
        The piece.
    otherwise : tuple of str or Setting
        Text to use elsewhere, such as on a command line.
    """

    text: str
    otherwise: tuple[str | Setting, ...] = ()

    def __str__(self) -> str:
        return self.text


class Advice(str):
    """Text of a message that knows which of its pieces are Python.

    Names of parameters stand between backticks, as in all messages. So interfaces other than Python
    can replace such pieces by their own words.

    Parameters
    ----------
    *pieces : str, Setting, InPython or Advice
        The text, piece by piece.

    Attributes
    ----------
    pieces : tuple of str, Setting or InPython
        The pieces.

    Examples
    --------
    >>> from mercer.exceptions import Advice, Setting
    >>> advice = Advice("Use ", Setting("pair_label", "same"), ".")
    >>> print(advice)
    Use pair_label='same'.
    >>> advice.pieces[1].parameter
    'pair_label'
    """

    pieces: tuple[str | Setting | InPython, ...]

    def __new__(cls, *pieces: str | Setting | InPython) -> Self:
        self = super().__new__(cls, "".join(map(str, pieces)))
        flat: list[str | Setting | InPython] = []
        for piece in pieces:
            flat += piece.pieces if isinstance(piece, Advice) else [piece]
        self.pieces = tuple(flat)
        return self


class ParameterError(ValueError):
    """A parameter has a value that cannot be used.

    Parameters
    ----------
    what : str or Advice
        What is wrong, in a sentence or more.
    parameter : str, default=""
        Name of the parameter.
    value : object, default=None
        What it was set to.
    why : str or Advice, default=""
        Why that cannot be.
    mend : str, Setting, InPython or Advice, default=""
        What to do about it.

    Attributes
    ----------
    parameter, value, why, mend
        As above. The text of the error joins what is wrong, why, and what to do.

    Examples
    --------
    >>> from mercer.exceptions import ParameterError
    >>> error = ParameterError(
    ...     "`size` must be an integer, got 0.5.", parameter="size", value=0.5, mend="Use 1."
    ... )
    >>> str(error), error.parameter, error.value
    ('`size` must be an integer, got 0.5. Use 1.', 'size', 0.5)
    """

    def __init__(
        self,
        what: str | Advice,
        *,
        parameter: str = "",
        value: Any = None,
        why: str | Advice = "",
        mend: str | Setting | InPython | Advice = "",
    ) -> None:
        self.parameter, self.value, self.why, self.mend = parameter, value, why, mend
        pieces: list[str | Setting | InPython] = [what]
        for more in (why, mend):
            pieces += [" ", more] if more else []
        super().__init__(Advice(*pieces))


class DivergenceError(ArithmeticError):
    """The function grew without bound; the model keeps its last finite state."""


class WorkerError(RuntimeError):
    """A task has no result, because the workers that ran it ended, again and again.

    Parameters
    ----------
    message : str
        What happened, why, and what to do about it.
    task : str, default=""
        Name of the task.

    Attributes
    ----------
    task : str
        As above.

    Examples
    --------
    >>> from mercer.exceptions import WorkerError
    >>> WorkerError("Task 'shard 3' failed: ...", task="shard 3").task
    'shard 3'
    """

    def __init__(self, message: str, *, task: str = "") -> None:
        super().__init__(message)
        self.task = task
