"""Files that a power cut leaves either as they were or as they were to become."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing"]


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
        In the same folder, not there yet. Write and close it; on an error it is removed, and
        ``path`` stays as it was.

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
    temporary = target.parent / f".mercer-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Make the new name of the file survive a power cut, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems have no such call
                raise
        finally:
            os.close(descriptor)
