"""Predictions of a stream as they come: JSON lines or Arrow IPC, to a file or a pipe."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from mercer_app.training.streaming import Answer

_LATEST = 0.1  # seconds that an answer may wait for others
_MOST_BYTES = 2**16
_ROWS_OF_BATCH = 1024
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of an Arrow IPC stream


class Answers:
    """Where predictions go; here nowhere.

    Attributes
    ----------
    length : int or None
        Bytes of the file so far that are on the disk after :meth:`sync`; None of a pipe, which
        cannot take anything back.
    """

    length: int | None = None

    def write(self, answer: Answer) -> None:
        """Take a prediction; it may wait a little for others."""

    def flush(self) -> None:
        """Hand over what waits. This blocks as long as the reader is busy."""

    def sync(self) -> None:
        """Hand over what waits, and see that it outlives a crash of the machine."""

    def finish(self) -> None:
        """Write what ends the file."""

    def close(self) -> None:
        """Let go of the file as it is."""


class _Anew:
    """A file that is created at its first bytes: a run that fails earlier leaves the old file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._file: BinaryIO | None = None

    def _begun(self) -> BinaryIO:
        if self._file is None:
            self._file = open(self._where, "wb", buffering=0)  # noqa: SIM115
        return self._file

    def write(self, content: bytes | memoryview) -> int | None:
        return self._begun().write(content)

    def fileno(self) -> int:
        return self._begun().fileno()

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


_File = BinaryIO | _Anew


class _ToFile(Answers):
    """Bytes for a file or a pipe, in pieces of several predictions."""

    def __init__(self, file: _File, length: int | None) -> None:
        self._file, self.length = file, length
        self._shared = file is _standard_output()
        self._pieces: list[bytes] = []
        self._n_bytes = 0
        self._flushed_at = time.monotonic()

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._n_bytes += len(piece)

    def _flush_if_late(self) -> None:
        if self._n_bytes >= _MOST_BYTES or time.monotonic() - self._flushed_at > _LATEST:
            self.flush()

    def flush(self) -> None:
        content = memoryview(b"".join(self._pieces))
        self._pieces, self._n_bytes = [], 0
        if self.length is not None:
            self.length += len(content)
        while content:  # a pipe may accept only a part, or nothing if it does not block
            taken = self._file.write(content)
            if not taken:
                time.sleep(_LATEST)
            content = content[taken or 0 :]
        self._file.flush()
        self._flushed_at = time.monotonic()

    def sync(self) -> None:
        self.flush()
        if self.length is not None:
            os.fsync(self._file.fileno())

    def finish(self) -> None:
        self.flush()
        if self.length is not None:
            self._file.write(b"")  # a file without predictions is begun, too

    def close(self) -> None:
        if not self._shared:
            self._file.close()


class JsonAnswers(_ToFile):
    """A JSON object for each prediction, a line each.

    Parameters
    ----------
    file : binary file
        To write to.
    length : int or None
        Length in bytes so far, if it is a file.
    key : str or None
        Column of the keys, and the name they get here.
    intervals : bool, default=False
        Whether to write the ends of intervals, ``lower`` and ``upper``.
    """

    def __init__(
        self, file: _File, length: int | None, key: str | None, *, intervals: bool = False
    ) -> None:
        super().__init__(file, length)
        self._key, self._intervals = key, intervals

    def write(self, answer: Answer) -> None:
        values: dict[str, Any] = {"row": answer.row}
        if self._key is not None:
            values[self._key] = answer.key
        values["prediction"] = answer.prediction
        if self._intervals:
            values["lower"], values["upper"] = answer.interval or (None, None)
        self._add(json.dumps(values).encode() + b"\n")
        self._flush_if_late()


class ArrowAnswers(_ToFile):
    """An Arrow IPC stream; classes as text, quantities as numbers.

    Record batches end where the source pauses, so that predictions need not wait.

    Parameters
    ----------
    file, length, key
        As of :class:`JsonAnswers`.
    quantities : bool
        Whether predictions are numbers.
    intervals : bool, default=False
        Whether to write the ends of intervals, ``lower`` and ``upper``.
    """

    def __init__(
        self,
        file: _File,
        length: int | None,
        key: str | None,
        *,
        quantities: bool,
        intervals: bool = False,
    ) -> None:
        super().__init__(file, length)
        import pyarrow as pa

        self._quantities, self._intervals, self._keys = quantities, intervals, key is not None
        fields = [pa.field("row", pa.int64())]
        if key is not None:
            fields.append(pa.field(key, pa.string()))
        fields.append(pa.field("prediction", pa.float64() if quantities else pa.string()))
        if intervals:
            fields += [pa.field(name, pa.float64()) for name in ("lower", "upper")]
        self._schema = pa.schema(fields)
        self._rows: list[Answer] = []
        self._begun = bool(length)
        if length is None:  # the reader of a pipe may be waiting for it
            self._begin()

    def _begin(self) -> None:
        if not self._begun:
            self._add(self._schema.serialize().to_pybytes())
            self._begun = True

    def write(self, answer: Answer) -> None:
        self._rows.append(answer)
        if len(self._rows) >= _ROWS_OF_BATCH:
            self.flush()
        else:
            self._flush_if_late()

    def flush(self) -> None:
        if self._rows:
            import pyarrow as pa

            self._begin()
            said = [answer.prediction for answer in self._rows]
            if not self._quantities:
                said = [None if value is None else str(value) for value in said]
            columns: list[list[Any]] = [[answer.row for answer in self._rows]]
            if self._keys:
                columns.append([answer.key for answer in self._rows])
            columns.append(said)
            if self._intervals:
                ends = [answer.interval or (None, None) for answer in self._rows]
                columns += map(list, zip(*ends, strict=True))
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(columns, self._schema, strict=True)
            ]
            batch = pa.record_batch(arrays, schema=self._schema)
            self._add(batch.serialize().to_pybytes())
            self._rows = []
        super().flush()

    def finish(self) -> None:
        """Write the end of the file; a resumed run does not count it."""
        self._begin()
        self.flush()
        self._file.write(_END)


def is_pipe(where: str) -> bool:
    """Whether what is written there cannot be taken back."""
    if where == "-":
        return True
    path = Path(where)
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def open_answers(
    where: str | None,
    *,
    arrow: bool,
    key: str | None,
    quantities: bool,
    length: int | None,
    intervals: bool = False,
) -> Answers:
    """Open the place for predictions.

    Parameters
    ----------
    where : str or None
        A file, or ``-`` for standard output. None: they are not wanted.
    arrow, quantities : bool
        Whether to write Arrow, and whether predictions are numbers.
    key : str or None
        Column of the keys.
    length : int or None
        Number of bytes that an earlier run wrote; the rest is dropped, since it will come again.
        None: the file is created with the first prediction.
    intervals : bool, default=False
        Whether predictions have intervals.

    Raises
    ------
    ValueError
        If the file has disappeared, or is shorter.
    """
    if where is None:
        return Answers()
    file: _File
    if is_pipe(where):
        file = _standard_output() if where == "-" else open(where, "wb", buffering=0)  # noqa: SIM115
        length = None
    elif length is None:
        file, length = _Anew(where), 0
    else:
        there = Path(where).stat().st_size if Path(where).exists() else -1
        if there < length:
            now = "is gone" if there < 0 else f"has {there:,}"
            raise ValueError(
                f"{where} had {length:,} bytes of predictions, but now {now}. Restore it, or start "
                "afresh without the checkpoint."
            )
        file = open(where, "r+b", buffering=0)  # noqa: SIM115
        file.truncate(length)
        file.seek(length)
    if arrow:
        return ArrowAnswers(file, length, key, quantities=quantities, intervals=intervals)
    return JsonAnswers(file, length, key, intervals=intervals)


def _standard_output() -> BinaryIO:
    """Return standard output without a buffer, which would block once more at the end."""
    buffer: Any = sys.stdout.buffer
    raw: BinaryIO = getattr(buffer, "raw", buffer)
    return raw
