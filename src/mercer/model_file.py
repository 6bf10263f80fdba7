"""Model files: data only, versioned, check-summed, replaced atomically.

What a model is made of is one nested dict of numbers, text and arrays. Arrays become tensors of a
safetensors file, the rest its JSON header. Nothing in a file is ever executed; whatever does not
fit together ends in a ``ValueError``.

Layout (safetensors 0.4 and later read it, see the examples)::

    8 bytes     length of the JSON text, little-endian
    JSON text   {"__metadata__":{"sha256":"<64 hex>","mercer":"<JSON>"}, <arrays>}, space padded
    data        the arrays, C order, little-endian

The digest covers every byte of the file, with its own 64 digits counted as zeros. It has a fixed
position, so it is checked before anything is parsed: a file with one byte more, less or changed is
refused. It protects from accidents, not from forgery; contents that a forger can write are checked
separately.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as _load_tensors

__all__ = ["load_model", "read_state", "save_model", "storable", "write_state"]

_Class = TypeVar("_Class", bound=type[Any])
_KINDS: dict[str, type[Storable]] = {}
_HOMES: dict[str, str] = {}  # modules of classes, imported when a file names them
_MODELS = "mercer.estimators"  # registers the modules of its classes on import

#: A later one is to say the first release that reads it, as "needs" beside "format".
FORMAT_VERSION = 1
_OPENING = b'{"__metadata__":{"sha256":"'
_DIGEST = slice(8 + len(_OPENING), 8 + len(_OPENING) + 64)
_DTYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8", "bool": "BOOL"}
_LONGEST_HEADER = 100_000_000  # safetensors refuses to read more
_WRITERS = 8  # of one file at once; what more of them leave, if they are killed, stays
RECOVER = "Restore it from a copy, or fit and save the model again."


class Storable(Protocol):
    """What can be stored: an object that turns into a nested dict and back."""

    def to_state(self) -> dict[str, Any]:
        """Nested dict of arrays, numbers, text, lists and None."""
        ...

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`'s dict; ValueError if it does not fit together."""
        ...


def storable(cls: _Class) -> _Class:
    """Class decorator: files may name this class."""
    _KINDS[cls.__name__] = cls
    return cls


def storable_in(homes: Mapping[str, str]) -> None:
    """Let files name classes whose modules need not be imported before.

    Parameters
    ----------
    homes : mapping of str to str
        Names of classes that are :func:`storable`, and their modules.
    """
    _HOMES.update(homes)


def save_model(model: Any, path: Any) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : estimator
        A fitted estimator of mercer.
    path : str or path-like
        Where to write; an existing file is replaced only once the new one is complete.

    Raises
    ------
    ValueError
        If the model is not fitted, or a part cannot be stored without code.
    OSError
        If the file cannot be written.
    """
    write_state(path, {"kind": type(model).__name__, "model": model.to_state()})


def load_model(path: Any) -> Any:
    """Read a model written by ``save``, ``mercer fit`` or as a checkpoint.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        Model that can predict, and continue to learn bit for bit.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        For any file that is not exactly as saved: truncated, altered, written by another program or
        by a newer version of mercer.

    Examples
    --------
    >>> import tempfile, os
    >>> from mercer import KernelRegressor
    >>> model = KernelRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.mercer")
    ...     model.save(path)
    ...     load_model(path).model_order_ == model.model_order_
    True
    """
    state = read_state(path)
    try:
        return model_of_state(state)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        said = str(error).rstrip(".")
        raise ValueError(f"{Path(path)} is not a valid mercer model: {said}.") from error


def model_of_state(state: Mapping[str, Any]) -> Any:
    """Return the model in a state from a file; ValueError if the state is not a model."""
    return _class_named(state["kind"]).from_state(state["model"])


def _class_named(kind: str) -> type[Storable]:
    """Return the class that a file names, importing its module if needed."""
    if kind not in _KINDS:
        import_module(_MODELS)
        if kind in _HOMES:
            import_module(_HOMES[kind])
    if kind not in _KINDS:
        raise ValueError(f"the file holds a {kind!r}, which this version does not know")
    return _KINDS[kind]


def write_state(path: Any, state: dict[str, Any]) -> None:
    """Write a nested dict of arrays and plain values."""
    tensors: dict[str, NDArray[Any]] = {}
    header = _split(state, "", tensors)
    write_tensors(path, header, tensors)


def read_state(path: Any) -> dict[str, Any]:
    """Read what :func:`write_state` wrote; ValueError for anything else."""
    header, tensors = read_tensors(path)
    try:
        joined = _join(header, tensors)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{Path(path)} is not a valid mercer file: {error!r}.") from error
    if not isinstance(joined, dict):
        raise ValueError(f"{Path(path)} is not a valid mercer file: no state in it.")
    return joined


def _split(value: Any, name: str, tensors: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        return {k: _split(v, f"{name}/{k}" if name else k, tensors) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _join(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"tensor"}:
            return tensors[value["tensor"]]
        return {k: _join(v, tensors) for k, v in value.items()}
    return value


def write_tensors(
    path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, NDArray[Any]]
) -> None:
    """Write a model file atomically: after a crash there is the old file or the new one.

    The bytes depend on the content only. A process killed on the way leaves a file
    ``.mercer-*.tmp`` in the folder; the next that writes the same file takes it.

    Parameters
    ----------
    path : str or path-like
        File to write or replace.
    header : dict
        What JSON can hold: dicts with text keys, lists, text, finite numbers, booleans, None.
    tensors : dict of str to ndarray
        Arrays of dtype float32, float64, int64, uint8 or bool, of any shape, all finite.

    Raises
    ------
    ValueError
        If the header or an array cannot be stored exactly, or a number is not finite.
    OSError
        If the file cannot be written; an older file at ``path`` is then untouched.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from safetensors.numpy import load_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.mercer")
    ...     write_tensors(path, {"kernel": "gaussian"}, {"coefficients": np.ones((2, 1))})
    ...     header, tensors = read_tensors(path)
    ...     same = load_file(path)
    >>> header, tensors["coefficients"].shape, same["coefficients"].shape
    ({'kernel': 'gaussian'}, (2, 1), (2, 1))
    """
    pieces = _encode(header, tensors)
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"The model file could not be written ({reason}). Check that its folder exists, "
            "is writable and has space left",
            str(path),
        ) from error


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model file written by :func:`write_tensors`.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    header : dict
        As it was written.
    tensors : dict of str to ndarray
        As they were written; C-ordered, writable copies.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    OSError
        If the operating system refuses to read it.
    ValueError
        If the file is not exactly as :func:`write_tensors` wrote it: truncated, altered, extended,
        from a newer mercer, or not a model file.
    """
    if os.path.isdir(path):
        raise ValueError(f"{str(path)!r} is a folder, not a model file. Give the file inside it.")
    content = Path(path).read_bytes()
    _check_seal(path, content)
    length = int.from_bytes(content[:8], "little")
    try:
        metadata = _parse(content[8 : 8 + length])["__metadata__"]
        envelope = _parse(metadata["mercer"])
        version, header = envelope["format"], envelope["header"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _refuse(path, f"its header is malformed ({error})")
    if type(version) is not int or version < 1:
        _refuse(path, f"its header is malformed (format {version!r})")
    if version > FORMAT_VERSION:
        needs = re.fullmatch(r"\d+(\.\d+)*", str(envelope.get("needs")))
        raise ValueError(
            f"{str(path)!r} was written by a newer mercer (format {version}); this one reads "
            f"formats up to {FORMAT_VERSION}. Upgrade mercer"
            f"{f' to {needs[0]} or later' if needs else ''} to load it."
        )
    if not isinstance(header, dict):
        _refuse(path, "its header is malformed (no dict)")
    return header, _decode_tensors(path, content)


def _encode(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> list[bytes]:
    """Bytes of the file, in pieces."""
    names = sorted(tensors, key=lambda name: (-np.asarray(tensors[name]).itemsize, name))
    listing, data, offset = {}, [], 0
    for name in names:
        kind, shape, piece = _encode_tensor(name, tensors[name])
        listing[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [offset, offset + len(piece)],
        }
        data.append(piece)
        offset += len(piece)
    envelope = _strict_json({"format": FORMAT_VERSION, "header": header})
    metadata = {"sha256": "0" * 64, "mercer": envelope}
    text = json.dumps({"__metadata__": metadata, **listing}, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)  # keeps the data aligned
    if len(text) > _LONGEST_HEADER:
        raise ValueError(
            f"`header` takes {len(text)} bytes, above the limit of {_LONGEST_HEADER} of the file "
            "format. Store long lists of numbers as tensors."
        )
    pieces = [len(text).to_bytes(8, "little") + text, *data]
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    first = bytearray(pieces[0])
    first[_DIGEST] = digest.hexdigest().encode("ascii")
    return [bytes(first), *data]


def _encode_tensor(name: str, tensor: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    """Dtype in the file's spelling, shape and bytes of one array."""
    plain = isinstance(name, str) and name.isascii() and name.isprintable()
    if not plain or name in ("", "__metadata__"):
        raise ValueError(
            f"A tensor is named {name!r}. Use a name of printable ASCII characters other than "
            "'__metadata__', which the file format keeps for itself."
        )
    array = np.asarray(tensor)
    if array.dtype.name not in _DTYPES:
        raise ValueError(
            f"The tensor {name!r} has dtype {array.dtype}; a model file holds "
            f"{', '.join(_DTYPES)}. Convert it first."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"The tensor {name!r} contains NaN or infinity. A model in this state predicts "
            "nothing: fit it again, with a smaller step size if it diverged."
        )
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return _DTYPES[array.dtype.name], array.shape, little.tobytes(order="C")


def _strict_json(value: dict[str, Any]) -> str:
    """JSON text that gives back an equal value, or ``ValueError``."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        if _parse(text) != value:
            raise ValueError("it reads back as something else: a tuple, or a key that is no text")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"`header` cannot be stored as JSON: {error}. Use dicts with text keys, lists, text, "
            "finite numbers, booleans and None."
        ) from None
    return text


def _parse(text: str | bytes) -> Any:
    """Parse JSON, without the numbers that JSON does not have."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _refuse(path: str | os.PathLike[str], reason: str) -> NoReturn:
    raise ValueError(f"{str(path)!r} is not a valid model file: {reason}. {RECOVER}") from None


def _check_seal(path: str | os.PathLike[str], content: bytes) -> None:
    """Raise ``ValueError`` unless the file is, byte for byte, what was written."""
    if not content:
        _refuse(path, "it is empty, so writing or copying it was cut short")
    if content[8 : _DIGEST.start] != _OPENING:
        raise ValueError(
            f"{str(path)!r} is not a model file of mercer, or its beginning was truncated or "
            f"altered. Give a file made by `save`. {RECOVER}"
        )
    digest = hashlib.sha256(content[: _DIGEST.start])
    digest.update(b"0" * 64)
    digest.update(memoryview(content)[_DIGEST.stop :])
    if content[_DIGEST] != digest.hexdigest().encode("ascii"):
        _refuse(path, "its checksum does not fit, so it was truncated or altered")


def _decode_tensors(path: str | os.PathLike[str], content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of a file whose seal is right, checked as if a stranger had made it."""
    try:
        tensors = {name: array.copy() for name, array in _load_tensors(content).items()}
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        _refuse(path, f"its arrays are malformed ({error})")
    for name, array in tensors.items():
        if array.dtype.name not in _DTYPES:
            _refuse(path, f"the array {name!r} has dtype {array.dtype}")
        if not np.isfinite(array).all():
            _refuse(path, f"the array {name!r} contains NaN or infinity")
        if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
            _refuse(path, f"the array {name!r} of truth values contains others")
    return tensors


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to, which replaces ``path`` when all went well.

    Parameters
    ----------
    path : path-like
        File to write or replace. Through a link, what it points to is replaced; the permissions of
        an older file are kept.

    Yields
    ------
    temporary : Path
        Path of a new file in the same folder. Write and close it; on an error it is removed, and
        ``path`` is not changed.

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "result.txt"
    ...     with replacing(target) as temporary:
    ...         _ = temporary.write_text("whole or not at all")
    ...     target.read_text()
    'whole or not at all'
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary, lock = _unfinished(target)
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        if lock is not None:
            os.close(lock)


@contextlib.contextmanager
def unfinished_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """Give an empty folder beside a target, which is removed at the end unless it was renamed.

    Parameters
    ----------
    target : Path
        What it is for. The next folder for it is this one, if this process is killed.
    mode : int
        Permissions, of which the process's mask takes some.

    Yields
    ------
    folder : Path
        The folder.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    folder, lock = _unfinished(target, mode)
    failed = True
    try:
        yield folder
        failed = False
    finally:
        try:
            for ignored in (True, failed):  # all that can be removed, and then what is left is told
                if folder.exists() and (lock is None or _is_at(lock, folder)):
                    shutil.rmtree(folder, ignore_errors=ignored)
        finally:
            if lock is not None:
                os.close(lock)


def _unfinished(target: Path, mode: int | None = None) -> tuple[Path, int | None]:
    """Return a path for the unfinished file of a target, and the descriptor of its lock.

    Its name is made from that of the target, so that the next writer takes what a killed one left.
    The lock goes with the process. Where others write the same target just now, it is the next
    name that is free; a random one where the system has no locks. With a mode there is an empty
    folder.
    """
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    for number in range(_WRITERS):
        temporary = target.with_name(f".mercer-{name}{f'-{number}' if number else ''}.tmp")
        with contextlib.suppress(ImportError, OSError):
            if (lock := _locked(temporary, mode)) is not None:
                return temporary, lock
    temporary = target.with_name(f".mercer-{secrets.token_hex(16)}.tmp")
    if mode is not None:
        temporary.mkdir(mode)
    return temporary, None


def _locked(temporary: Path, mode: int | None) -> int | None:
    """Lock a file or folder at a path; None where it is another's, or the system has no locks."""
    import fcntl

    flags = os.O_RDWR | os.O_CREAT
    if mode is not None:
        temporary.mkdir(mode, exist_ok=True)
        flags = os.O_RDONLY
    lock = os.open(temporary, flags | os.O_NOFOLLOW, 0o666)
    keeps = False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last writer may have given it the target's name meanwhile.
        keeps = _is_at(lock, temporary) and _is_ours(lock, temporary, mode is not None)
    except BlockingIOError:  # somebody writes it
        pass
    except OSError:  # no locks here: what was made for one stays nobody's
        with contextlib.suppress(OSError):
            temporary.unlink() if mode is None else temporary.rmdir()
    finally:
        if not keeps:
            os.close(lock)
    return lock if keeps else None


def remove_left(folder: Path) -> None:
    """Remove the unfinished files in a folder whose writers were killed."""
    for unfinished in folder.glob(".mercer-*.tmp"):
        with contextlib.suppress(OSError):
            if unfinished.is_file():
                lock = None
                with contextlib.suppress(ImportError):
                    if (lock := _locked(unfinished, None)) is None:
                        continue
                unfinished.unlink()
                if lock is not None:
                    os.close(lock)


def _is_at(lock: int, path: Path) -> bool:
    """Whether a path leads to what a descriptor is of."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), os.stat(path))
    return False


def _is_ours(lock: int, path: Path, is_folder: bool) -> bool:
    """Whether a file has no other name; or a folder is of this user, and empty from now on."""
    about = os.fstat(lock)
    if not is_folder:
        return about.st_nlink == 1
    if about.st_uid != os.getuid():
        return False
    for left in path.iterdir():
        left.unlink()
    return True


def sync_folder(folder: Path) -> None:
    """Make the new name of the file survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems have no such call
                raise
        finally:
            os.close(descriptor)
