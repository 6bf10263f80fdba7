"""The model file: a JSON header and named arrays in one safetensors file, sealed by a digest.

Layout (safetensors 0.4 and later read it, see the examples)::

    8 bytes     length of the JSON text, little-endian
    JSON text   {"__metadata__":{"sha256":"<64 hex>","mercer":"<JSON>"}, <arrays>}, space padded
    data        the arrays, C order, little-endian

The digest covers every byte of the file, its own 64 digits taken as zeros. It stands at a fixed
place, so that nothing is parsed before it was found right: one byte more, less or different, and
the file is refused. It protects from accidents, not from forgers; what a forger can write is
checked besides, and nothing in the file is ever executed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as _load_tensors

from mercer._atomic import replacing

__all__ = ["FORMAT_VERSION", "read", "write"]

FORMAT_VERSION = 1

_OPENING = b'{"__metadata__":{"sha256":"'
_DIGEST = slice(8 + len(_OPENING), 8 + len(_OPENING) + 64)
_DTYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8", "bool": "BOOL"}
_LONGEST_HEADER = 100_000_000  # safetensors refuses to read more
_RECOVER = "Restore it from a copy, or fit and save the model again."


def write(
    path: str | os.PathLike[str], header: dict[str, Any], tensors: dict[str, NDArray[Any]]
) -> None:
    """Write a model file atomically: after a crash there is the old file or the new one.

    The bytes depend on the content only. A process killed on the way can leave a file
    ``.mercer-*.tmp`` in the folder; it may be deleted.

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
    ...     write(path, {"kernel": "gaussian"}, {"coefficients": np.ones((2, 1))})
    ...     header, tensors = read(path)
    ...     same = load_file(path)
    >>> header, tensors["coefficients"].shape, same["coefficients"].shape
    ({'kernel': 'gaussian'}, (2, 1), (2, 1))
    """
    pieces = _encode(header, tensors)
    try:
        with replacing(path) as temporary, open(temporary, "xb") as file:
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


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model file written by :func:`write`.

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
        If there is no such file.
    OSError
        If the operating system refuses to read it.
    ValueError
        If the file is not exactly what :func:`write` made: truncated, altered, extended, from a
        newer mercer, or no model file at all.
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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(path, f"its header is malformed ({error})")
    if type(version) is not int or version < 1:
        _refuse(path, f"its header is malformed (format {version!r})")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{str(path)!r} was written by a newer mercer (format {version}); this one reads "
            f"formats up to {FORMAT_VERSION}. Upgrade mercer to load it."
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


def _encode_tensor(name: str, tensor: NDArray[Any]) -> tuple[str, list[int], bytes]:
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
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(
            f"The tensor {name!r} contains NaN or infinity. A model in this state predicts "
            "nothing: fit it again, with a smaller step size if it diverged."
        )
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return _DTYPES[array.dtype.name], list(array.shape), little.tobytes(order="C")


def _strict_json(value: dict[str, Any]) -> str:
    """JSON text that gives back an equal value, or ``ValueError``."""
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
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
    raise ValueError(f"{str(path)!r} is not a valid model file: {reason}. {_RECOVER}") from None


def _check_seal(path: str | os.PathLike[str], content: bytes) -> None:
    """Raise ``ValueError`` unless the file is, byte for byte, what was written."""
    if not content:
        _refuse(path, "it is empty, so writing or copying it was cut short")
    if content[8 : _DIGEST.start] != _OPENING:
        raise ValueError(
            f"{str(path)!r} is not a model file of mercer, or its beginning was truncated or "
            f"altered. Give a file made by `save`. {_RECOVER}"
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
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            _refuse(path, f"the array {name!r} contains NaN or infinity")
        if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
            _refuse(path, f"the array {name!r} of truth values contains others")
    return tensors
