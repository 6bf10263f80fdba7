"""Functions that numba compiles, whose machine code is kept on disk for the processes to come.

Numba's own cache does not see a change in a function that is *called*, so that after an upgrade old
and new code would run together; processes that fill it at the same time can give each other's code
other types of numbers; it is refused altogether, at import, where no folder can be written to; and
it does not read from a folder that it cannot write to. So the files are kept here, one for each
function and types of arguments, named after all that their contents depend on.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import logging
import os
import pickle
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba import njit
from numba.core import caching, ccallback, compiler, compiler_lock, serialize, sigutils
from numba.misc import appdirs

# Numba is only partly typed.
_NullCache: Any = caching.NullCache
_CFunc: Any = ccallback.CFunc
_Result: Any = compiler.CompileResult
_AppDirs: Any = appdirs.AppDirs
_dumps: Any = serialize.dumps
_normalized: Any = sigutils.normalize_signature
_config: Any = numba.config
#: Who compiles is alone, and may compile more for it.
_COMPILING: Any = compiler_lock.global_compiler_lock

_ROOT = Path(__file__).parent
_PACKAGE_FOLDER = _ROOT / "__pycache__" / "compiled"
# Compiled functions may call functions in these files and in their own, and no others.
_NUMERICS = "numerics/*.py"
_CALLED = (_NUMERICS, "features/*.py", "kernels/*.py", "losses.py", "risks.py", "maps/*.py")
_LOG = logging.getLogger("mercer.compile")
_NOTICEABLE = 1.0  # seconds of compiling before a message
_LEFT_AFTER = 3600.0  # seconds after which nobody goes on writing a file
_OBJECTS = 20_000  # new objects between two garbage collections while compiling
_C_FUNCTIONS: dict[tuple[Any, ...], Any] = {}


def jit(signature: str | None = None, **options: Any) -> Any:
    """``numba.njit(signature, **options)`` with the machine code kept on disk."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(**options)(function)
        if hasattr(dispatcher, "_cache"):  # without, numba is switched off
            dispatcher._cache = _Cache(function, _listed(options))
            dispatcher.compile = _with_rare_collections(dispatcher.compile)
            if signature is not None:
                dispatcher.compile(signature)
                dispatcher.disable_compile()
        return dispatcher

    return compiled


def c_function(signature: Any, *, cache: bool = True, **options: Any) -> Callable[..., Any]:
    """``numba.cfunc(signature, **options)`` with the machine code kept on disk, if wanted.

    A function is compiled once, and its machine code stays valid: callers may hold the address.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        types, listed = _normalized(signature), f"C {_listed(options)}"
        key = function, types, listed
        with _COMPILING:
            if key not in _C_FUNCTIONS:
                made = _CFunc(function, types, locals={}, options=options)
                if cache:
                    made._cache = _Cache(function, listed)
                _with_rare_collections(made.compile)()
                _C_FUNCTIONS[key] = made
            return _C_FUNCTIONS[key]

    return compiled


def _with_rare_collections(compile_function: Callable[..., Any]) -> Callable[..., Any]:
    """Let Python collect garbage rarely while a function is compiled.

    Numba makes objects by the million that live until a function is done; looking for garbage among
    them every few hundred takes a tenth of the time.
    """

    @functools.wraps(compile_function)
    def compiled(*args: Any, **options: Any) -> Any:
        with _COMPILING:
            usual = gc.get_threshold()
            if 0 < usual[0] < _OBJECTS:  # 0 is never
                gc.set_threshold(_OBJECTS, *usual[1:])
            try:
                return compile_function(*args, **options)
            finally:
                gc.set_threshold(*usual)

    return compiled


def _compile_again() -> None:
    """Let others compile after a fork."""
    if _COMPILING.is_locked():  # not, if Ctrl-C came while the fork waited
        _COMPILING.release()


# A fork waits for what other threads compile. It takes none of them along: their lock would never
# be free there, and what they compiled would be half done for good.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_COMPILING.acquire,
        after_in_parent=_compile_again,
        after_in_child=_compile_again,
    )


class _Cache(_NullCache):
    """Cache of one function, as numba's dispatchers ask for it."""

    def __init__(self, function: Callable[..., Any], options: str) -> None:
        self._function, self._options = function, options
        self._begun = 0.0

    @property
    def cache_path(self) -> str:
        return str(cache_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read the code from the first folder that has it; None if none has."""
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for folder in cache_folders() if name else ():
            # Of a file that was cut off, or is another's in truth, no more than the time is lost.
            with contextlib.suppress(Exception):
                return _Result._rebuild(
                    target_context, *pickle.loads(_own(folder, name).read_bytes())
                )
        _explain()
        self._begun = time.perf_counter()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code to the first folder that can be written to."""
        _State.count(self._begun)
        name = self._name(sig, data.codegen)
        if not name or data.lifted or data.library.has_dynamic_globals:
            return
        content = _dumps(data._reduce())
        if not any(_written(folder, name, content) for folder in cache_folders()):
            _State.warn()

    def _name(self, sig: Any, codegen: Any) -> str:
        """Name of the file of the code for these types on this machine; empty for none."""
        function = self._function
        stamp = _stamp(function.__code__.co_filename)
        if not stamp or function.__closure__:
            return ""
        where = (function.__module__, function.__qualname__, function.__code__.co_firstlineno)
        version = (numba.__version__, sys.version, sys.implementation.cache_tag)
        key = (stamp, where, self._options, str(sig), codegen.magic_tuple(), version)
        return f"{function.__name__}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.code"


@functools.cache
def _stamp(file: str) -> str:
    """Digest of a file and of all files whose functions its own may call; empty for none."""
    path = Path(file).absolute()
    # Numerics take long to compile, and call nothing outside their folder.
    files = (_NUMERICS,) if path.parent == _ROOT / "numerics" else _CALLED
    try:
        return _digest_of_called(files) + hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:  # a prompt, or an archive
        return ""


@functools.cache
def _digest_of_called(files: tuple[str, ...]) -> str:
    called = [path for pattern in files for path in sorted(_ROOT.glob(pattern))]
    digest = hashlib.sha256()
    for path in (_ROOT / "jit.py", _ROOT / "pointers.py", *called):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _listed(options: dict[str, Any]) -> str:
    """Text of the options, the same in every process: sets have no order."""
    values = (sorted(v) if isinstance(v, set) else v for v in options.values())
    return repr(sorted(zip(options, values, strict=True)))


class _State:
    """What was said already in this process, and how long it compiled."""

    seconds = 0.0
    counted_until = 0.0
    explained = False
    warned = False

    @classmethod
    def count(cls, begun: float) -> None:
        """Add a function's compile time, without the time of functions compiled for it."""
        now = time.perf_counter()
        cls.seconds += now - max(begun, cls.counted_until)
        cls.counted_until = now

    @classmethod
    def warn(cls) -> None:
        if not cls.warned:
            cls.warned = True
            folders = ", ".join(str(folder) for folder in cache_folders())
            warnings.warn(
                f"Compiled code cannot be kept, because none of the folders {folders} can be "
                "written to. So every process compiles what it uses anew, for seconds. Set the "
                "environment variable NUMBA_CACHE_DIR to a folder that can be written to.",
                RuntimeWarning,
                stacklevel=2,
            )


def _explain() -> None:
    """Say once why it takes so long, as soon as it does."""
    if not _State.explained and _State.seconds > _NOTICEABLE:
        _State.explained = True
        _LOG.warning("mercer: compiling, only the first time (up to a minute)")


# -- folders ------------------------------------------------------------------------------------


def cache_folders() -> list[Path]:
    """Where machine code is looked for, and written if that is possible, first things first."""
    return list(_folders(str(_config.CACHE_DIR or "")))


@functools.cache
def _folders(chosen: str) -> tuple[Path, ...]:
    if chosen:
        return Path(chosen) / "mercer", *_temporary()
    user = Path(_AppDirs(appname="mercer", appauthor=False).user_cache_dir)
    users = (user / "compiled",) if user.is_absolute() else ()
    return _PACKAGE_FOLDER, *users, *_temporary()


def _temporary() -> Iterator[Path]:
    """Yield the user's private temporary folder, if there is one."""
    with contextlib.suppress(OSError):
        user = os.getuid() if hasattr(os, "getuid") else "user"
        yield Path(tempfile.gettempdir()) / f"mercer-compiled-{user}"


def _own(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, which other users must not be able to plant.

    Raises
    ------
    OSError
        If it is missing, or others than its owner may write to it, or it belongs to neither this
        user nor to the system's or the environment's.
    """
    about = folder.lstat()
    if hasattr(os, "getuid"):
        trusted = {0, os.getuid(), _ROOT.stat().st_uid}
        link = stat.S_ISLNK(about.st_mode)
        if link or about.st_uid not in trusted or about.st_mode & stat.S_IWOTH:
            raise PermissionError(f"{folder} may have been written to by others.")
    return folder / name


def _written(folder: Path, name: str, content: bytes) -> bool:
    """Write a file as a whole or not at all; whether it is there."""
    temporary = None
    try:
        mode = 0o700 if folder.parent == Path(tempfile.gettempdir()) else 0o755
        folder.mkdir(mode, parents=True, exist_ok=True)
        path = _own(folder, name)
        for left in folder.glob("part-*"):  # by a process that was killed
            with contextlib.suppress(OSError):  # others finish theirs, and may own what is left
                if time.time() - left.stat().st_mtime > _LEFT_AFTER:
                    left.unlink()
        handle, temporary = tempfile.mkstemp(dir=folder, prefix="part-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True
