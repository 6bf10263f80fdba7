"""The command ``mercer``: fit, evaluate, predict, stream, value, inspect, export, demo.

Needs the extra ``cli`` (typer, rich, pyarrow, matplotlib); without it, :func:`main` says so. Other
packages add commands as entry points of the group ``mercer.commands``, each a :class:`Command`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from mercer.cli.command import Command

__all__ = ["Command", "main"]

_NEEDED = ("typer", "rich", "pyarrow", "matplotlib")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Those after ``mercer``. None: those of the process.

    Raises
    ------
    SystemExit
        Always: 0 fine; 2 wrong arguments, data or files; 1 anything unexpected; 130 interrupted.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"error: the command needs {' and '.join(missing)}, not installed here. Install with: "
            'pip install "mercer[cli]"\n'
        )
        raise SystemExit(2)
    from mercer.cli._app import app

    if "--debug" in words:
        words.remove("--debug")
        os.environ["MERCER_DEBUG"] = "1"
    app(words, prog_name="mercer")
