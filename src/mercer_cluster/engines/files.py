"""Packed values in files: written by one process, read or mapped into memory by others."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from pathlib import Path
from typing import IO

import numpy as np

from mercer_cluster.engines.engine import Packed

#: From so many bytes on an array is mapped where arrays may be: less is read as quickly.
LARGE = 2**22

# Arrays begin at multiples of this, which is what vector instructions like.
_ALIGNMENT = 64
_NUMBER = struct.Struct("<Q")


def write(packed: Packed, path: Path | str) -> None:
    """Write a packed value: the lengths of its pieces, then the pieces."""
    pieces = [memoryview(piece) for piece in (packed.data, *packed.buffers)]
    lengths = [len(pieces), *(piece.nbytes for piece in pieces)]
    with open(path, "wb") as file:
        file.write(b"".join(map(_NUMBER.pack, lengths)))
        for piece in pieces:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(piece)


def read(path: Path | str, *, mapped: bool = False) -> Packed:
    """Return the packed value of a file, which may be removed while the value is in use.

    Parameters
    ----------
    path : path-like
        The file.
    mapped : bool, default=False
        Whether arrays of at least :data:`LARGE` bytes are the file's pages, shared by all processes
        that map it, until they are changed: then the process has a copy. The disk keeps the file as
        long as there is one of its arrays and, before Python 3.13, so does a file descriptor; where
        half of the descriptors are in use, arrays are read.
    """
    with open(path, "rb") as file:
        (n_pieces,) = _NUMBER.unpack(file.read(_NUMBER.size))
        lengths = struct.unpack(f"<{n_pieces}Q", file.read(_NUMBER.size * n_pieces))
        end, spans = file.tell(), []
        for length in lengths:
            first = end + -end % _ALIGNMENT
            end = first + length
            spans.append(slice(first, end))
        if os.fstat(file.fileno()).st_size < end:
            raise EOFError(f"The file {str(path)!r} of a value has lost its end.")
        large = mapped and max(lengths[1:], default=0) >= LARGE and _can_map(file)
        pages = _mapped(file) if large else None
        buffers = [
            pages[span] if pages is not None and length >= LARGE else _read(file, span)
            for span, length in zip(spans[1:], lengths[1:], strict=True)
        ]
        return Packed(bytes(_read(file, spans[0])), buffers, private=True)


def _read(file: IO[bytes], span: slice) -> memoryview:
    """Read a piece into memory of its own, aligned like it is in the file."""
    length = span.stop - span.start
    memory = np.empty(length + _ALIGNMENT, dtype=np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    piece = memory[first : first + length].data
    file.seek(span.start)
    file.readinto(piece)  # type: ignore[attr-defined]
    return piece


def _can_map(file: IO[bytes]) -> bool:
    if os.name == "nt":  # where a file that is mapped cannot be removed
        return False
    if sys.version_info >= (3, 13):
        return True
    import resource

    # A new descriptor is the least that is free, so it tells how many there are.
    os.close(new := os.dup(file.fileno()))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or 2 * new < limit


def _mapped(file: IO[bytes]) -> memoryview:
    if sys.version_info >= (3, 13):
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY, trackfd=False)
    else:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return memoryview(pages)
