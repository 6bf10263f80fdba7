"""What a command is: its options, and the module that does its work. Needs no other package."""

from __future__ import annotations

from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command: what it may be given, and the module that does it.

    Attributes
    ----------
    options : type
        A dataclass; its docstring is the help, its fields are options of typer.
    module : str
        Module whose function ``run`` receives the options. It is imported when the command runs, so
        that help and mistyped options need not wait for its imports.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class GreetOptions:
    ...     "Greet somebody."
    ...     name: str = "world"
    >>> Command(GreetOptions, "greetings.command").module
    'greetings.command'
    """

    options: type[Any]
    module: str
