"""Files of the command: models that it reads; what it writes, looked at before the work."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mercer.estimators import TableModel
from mercer.model_file import load_model, replacing

__all__ = ["check_writable", "load_model_file", "load_table_model", "table_writer"]

_ENDINGS = (".parquet", ".pq", ".csv")


def load_table_model(path: Path) -> TableModel:
    """Load a model of tables.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is no model of tables.
    """
    model = load_model_file(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__} of arrays without named columns, as `save` "
            "writes it. Use `mercer.load_model` in Python, or train with `mercer fit`."
        )
    return model


def load_model_file(path: Path) -> Any:
    """Load any model; FileNotFoundError if there is none."""
    if not path.exists():
        raise FileNotFoundError(f"There is no model file {path}.")
    return load_model(path)


def check_writable(path: Path, *inputs: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Raise unless a file can be written, so that no hours of work end without a place.

    Parameters
    ----------
    path : Path
        File that will be written or replaced.
    *inputs : Path or None
        Data that is read; it must not be what is replaced.
    endings : tuple of str, default=()
        Endings that the file may have; () allows all.

    Raises
    ------
    OSError, ValueError
        Saying why it cannot be.
    """
    if endings and path.suffix.lower() not in endings:
        raise ValueError(
            f"{str(path)!r} would need another ending: {' or '.join(endings)} can be written."
        )
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder. Name a file in it to write to.")
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
    for source in inputs:
        if source is not None and path.exists() and any(_same(path, f) for f in _files(source)):
            raise ValueError(f"{str(path)!r} is read as data: writing there would destroy it.")


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        return list(source.iterdir())
    return [Path(name) for name in glob.glob(str(source), recursive=True)] + [source]


def _same(a: Path, b: Path) -> bool:
    return b.exists() and os.path.samefile(a, b)


class _TableWriter:
    """Writes tables of the same columns to one Parquet or CSV file."""

    def __init__(self, file: Path, ending: str) -> None:
        self.file, self.ending = file, ending
        self.writer: Any = None

    def write(self, columns: dict[str, Any]) -> None:
        """Append rows: a dict of arrays of equal lengths."""
        import pyarrow as pa
        from pyarrow import csv, parquet

        arrays = [
            pa.array(np.asarray(values)) if isinstance(values, np.ndarray) else values
            for values in columns.values()
        ]
        table = pa.Table.from_arrays(arrays, names=list(columns))
        if self.writer is None:
            kind = csv.CSVWriter if self.ending == ".csv" else parquet.ParquetWriter
            self.writer = kind(str(self.file), table.schema)
        self.writer.write_table(table)


@contextmanager
def table_writer(path: Path) -> Iterator[_TableWriter]:
    """Write a table piece by piece; the file appears whole, or not at all."""
    with replacing(path) as temporary:
        temporary.touch()  # a table without rows is a file, too
        writer = _TableWriter(temporary, path.suffix.lower())
        try:
            yield writer
        finally:
            if writer.writer is not None:
                writer.writer.close()
