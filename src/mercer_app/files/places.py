"""Files on a disk and in object stores: what an address means, and how it is opened."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.request import url2pathname

from mercer_app.files.dialect import CsvDialect, ToldFile

FilePath = str | os.PathLike[str]
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC = re.compile(r"[*\[]")  # a question mark begins the options of an address


@dataclass(frozen=True, order=True)
class RemoteFile:
    """A file in an object store.

    Attributes
    ----------
    uri : str
        Address of the file.
    path : str
        Where the store has it.
    size : int
        In bytes.
    store : pyarrow.fs.FileSystem
        The store; it travels to workers with the file.
    dialect : CsvDialect or None
        Known settings of its cells.
    """

    uri: str
    path: str = field(compare=False)
    size: int = field(compare=False)
    store: Any = field(compare=False, repr=False)
    dialect: CsvDialect | None = field(default=None, compare=False)

    def __fspath__(self) -> str:
        return self.uri

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        """The name after the last slash."""
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        """Ending of the name."""
        return PurePosixPath(self.path).suffix


class MemoryFile(os.PathLike[str]):
    r"""The bytes of a file that is not on a disk; accepted wherever a path is.

    Parameters
    ----------
    content : bytes or pyarrow.Buffer
        The bytes.
    name : str
        Name, whose ending determines the kind of file.
    said : str, default=""
        What messages call it, if not by its name.
    dialect : CsvDialect or None, default=None
        Known settings of how it is written.

    Attributes
    ----------
    known : dict
        What was found out about the bytes, so that it is found out once.

    Examples
    --------
    >>> from mercer_app.files import read_tables
    >>> next(read_tables(MemoryFile(b"town;height\nBern;540,5\n", "towns.csv"))).to_pylist()
    [{'town': 'Bern', 'height': 540.5}]
    """

    def __init__(
        self, content: Any, name: str, said: str = "", dialect: CsvDialect | None = None
    ) -> None:
        self.content = content
        self.name = name
        self.dialect = dialect
        self._said = said or name
        self.known: dict[str, Any] = {}

    def __str__(self) -> str:
        return self._said

    def __fspath__(self) -> str:
        raise TypeError(f"{self.name} is in memory, and its name is no path to anything.")

    @property
    def suffix(self) -> str:
        """Ending of the name."""
        return PurePosixPath(self.name).suffix

    def source(self) -> Any:
        """Return what pyarrow reads the bytes from."""
        import pyarrow as pa

        return pa.BufferReader(self.content)


AnyFile = Path | ToldFile | RemoteFile | MemoryFile

_BEGINNINGS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",  # a stream
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
}


def ending_of_bytes(first: bytes) -> str:
    r"""Return what the name of a file would end in that begins with these bytes.

    Examples
    --------
    >>> ending_of_bytes(b"PAR1\x15\x04"), ending_of_bytes(b"a,b\n")
    ('.parquet', '.csv')
    """
    return next((e for mark, e in _BEGINNINGS.items() if first.startswith(mark)), ".csv")


def local_path(path: FilePath) -> Path | None:
    """Return the path on this machine that a path or an address means; None in an object store.

    Examples
    --------
    >>> local_path("file:///data/a%20b.csv").as_posix()
    '/data/a b.csv'
    >>> local_path("s3://bucket/a.parquet") is None
    True
    """
    text = os.fspath(path)
    if not _URI.match(text):
        return Path(text)
    scheme, _, rest = text.partition("://")
    return Path(url2pathname(rest.removeprefix("localhost"))) if scheme.lower() == "file" else None


def size_of(file: AnyFile) -> int:
    """Bytes of a file."""
    if isinstance(file, MemoryFile):
        return len(file.content)
    return file.size if isinstance(file, RemoteFile) else file.stat().st_size


@contextmanager
def opened(file: AnyFile) -> Iterator[Any]:
    """Yield what pyarrow reads a file from; a file in an object store is open meanwhile."""
    if isinstance(file, RemoteFile):
        with file.store.open_input_file(file.path) as source:
            yield source
    else:
        yield file.source() if isinstance(file, MemoryFile) else file


def as_bytes(file: AnyFile) -> Any:
    """Open a file, unpacked if it is compressed, as a stream of bytes of pyarrow's."""
    import pyarrow as pa

    if not isinstance(file, MemoryFile):
        return pa.input_stream(os.fspath(file), compression="detect")
    packed = {".gz": "gzip", ".bz2": "bz2"}.get(file.suffix.lower())
    return pa.input_stream(file.source(), compression=packed)


def remote_files(uri: str) -> tuple[list[RemoteFile], bool]:
    """Return the files at an address in an object store: one file, a folder's files, or a glob.

    Parameters
    ----------
    uri : str
        Such as "s3://bucket/folder" or "gs://bucket/2024-*/**/*.parquet". Options of the store
        may follow a question mark.

    Returns
    -------
    files : list of RemoteFile
        Sorted.
    is_folder : bool
        Whether the address is a folder.

    Raises
    ------
    ImportError
        If no installed package supports the store.
    FileNotFoundError
        If the file or folder does not exist. A glob may match nothing.
    OSError
        If the store does not answer.
    """
    from pyarrow import fs

    address, mark, options = uri.partition("?")
    parts = address.split("/")
    first = next((n for n, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    top, pattern = "/".join(parts[:first]), parts[first:]
    store, root = _store(f"{top}{mark}{options}")
    root = root.rstrip("/")
    (found,) = store.get_file_info([root])
    if found.type == fs.FileType.File and not pattern:
        return [RemoteFile(uri, root, found.size, store)], False
    if found.type == fs.FileType.NotFound and not pattern:
        raise FileNotFoundError(f"There is no file or folder {uri}.")
    deep = len(pattern) > 1
    inside = store.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=deep))
    files = []
    for one in inside:
        below = PurePosixPath(one.path).relative_to(root).parts
        if one.type == fs.FileType.File and (not pattern or _fits(below, tuple(pattern))):
            where = "/".join([top.rstrip("/"), *below])
            files.append(RemoteFile(f"{where}{mark}{options}", one.path, one.size, store))
    return sorted(files), not pattern


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Return whether the parts of a path match a pattern, in which ``**`` matches several parts."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _store(uri: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        return fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error)
    scheme = uri.partition("://")[0]
    try:
        import fsspec

        store, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise ImportError(
            f"{uri} cannot be read: pyarrow says {reason!r}, and fsspec {str(error)!r}. Correct "
            f"the address, install what reads {scheme!r} (`pip install fsspec`, with s3fs, gcsfs, "
            "adlfs, ... for its store), or copy the files to a disk."
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(store)), str(path)


def check_place(path: Path) -> None:
    """Raise unless something can be written there, before much work is done for it.

    Parameters
    ----------
    path : Path
        On a disk.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    PermissionError
        If the folder is not writable.
    """
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"The folder {str(folder)!r} of {path.name!r} does not exist. Create it first."
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(
            f"{str(path)!r} cannot be written ({error.strerror}). Check the folder's permissions, "
            "or choose another place."
        ) from None
