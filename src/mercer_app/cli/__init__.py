"""The command ``mercer``: from fit, evaluate and predict to explain, serve and stream.

Needs the extra ``cli`` (typer, rich, pyarrow, matplotlib, Jinja2, waitress); without it,
:func:`main` reports that. Other packages add commands as entry points of the group
``mercer.commands``, each a :class:`Command`.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from mercer_app.cli.command import Command

__all__ = ["Command", "main"]

_NEEDED = ("typer", "rich", "pyarrow", "matplotlib", "jinja2", "waitress")
_ELSEWHERE = {  # what other programs call the commands
    **dict.fromkeys(("train", "learn"), "fit"),
    **dict.fromkeys(("test", "eval", "score", "validate"), "evaluate"),
    **dict.fromkeys(("infer", "apply"), "predict"),
    **dict.fromkeys(("info", "show", "describe"), "inspect"),
    "report": "fit ... --report report.html",
}


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run the command and exit with its code.

    What the encoding of a console lacks is shown as codes, such as ``\xe9``. The command of a shell
    whose locale is ASCII alone (``LC_ALL=C``) starts again in UTF-8.

    Parameters
    ----------
    arguments : sequence of str, default=None
        Arguments after ``mercer``. None: the arguments of the process.

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
    if arguments is None:
        _start_in_utf8()
    _write_all_names()
    words = list(sys.argv[1:] if arguments is None else arguments)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"error: the command needs {' and '.join(missing)}, not installed here. Install with: "
            'pip install "mercer[cli]"\n'
        )
        raise SystemExit(2)
    if words and words[0] in _ELSEWHERE:
        known = _ELSEWHERE[words[0]]
        sys.stderr.write(
            f"error: There is no command {words[0]!r}. Did you mean `mercer {known}`?\n"
        )
        raise SystemExit(2)
    from mercer_app.cli._app import app

    if "--debug" in words:
        words.remove("--debug")
        os.environ["MERCER_DEBUG"] = "1"
    app(words, prog_name="mercer")


def _start_in_utf8() -> None:
    """Restart in UTF-8 if the locale has only ASCII, as in a bare container.

    There Python has read the names of files and columns as if their accents were no letters, and
    cannot open the files. On such machines files and terminals are in UTF-8 all the same.
    """
    ascii_only = codecs.lookup(sys.getfilesystemencoding()).name == "ascii"
    if ascii_only and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _write_all_names() -> None:
    """Let the console show what its encoding lacks as codes, rather than stop at it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            utf8 = codecs.lookup(stream.encoding).name == "utf-8"
            if stream.errors == "strict" or not utf8:
                stream.reconfigure(errors="backslashreplace")
