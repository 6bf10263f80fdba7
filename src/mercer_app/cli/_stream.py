"""``mercer stream``: rows in as they arrive, predictions out, checkpoints between.

Predictions go out as they come, as JSON lines or Arrow IPC, to a file or a pipe.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from mercer.conformal import check_coverage
from mercer.estimators import KernelRegressor
from mercer.model_file import remove_left, sync_folder
from mercer.validation import check_integer
from mercer_app.cli._fit import interruptible, make_expansion, make_kernel, make_step_size
from mercer_app.cli._inputs import dialect_of, make_null_values
from mercer_app.cli._options import StreamFormat, StreamOptions, StreamTask
from mercer_app.files.arrivals import Source, open_source
from mercer_app.messages import Stopped, in_words_of_the_command, note
from mercer_app.models.files import check_writable, load_model_file
from mercer_app.rows import TASKS
from mercer_app.training.streaming import Answer, BadRowError, RowReader, StreamTraining

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
            sync_folder(Path(self._where).absolute().parent)  # checkpoints tell of it
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


_OTHERS = (".parquet", ".pq", ".csv", ".tsv")
_ARROW = (".arrow", ".arrows", ".ipc", ".feather")
_BAD_NAMED = 5  # number of invalid rows that are reported singly
# Task implied by the kind of the first target.
_GUESSED = {
    "text": "text",
    "boolean": "truth values",
    "integer": "guessed: the first one is a whole number; --task regression overrides",
    "number": "guessed: the first one is no whole number; --task classification overrides",
}
# Options on which the model and the rows depend: a resumed run must have the same.
_SETTINGS = (
    "source",
    "target",
    "key",
    "exclude",
    "task",
    "model",
    "predict_only",
    "kernel",
    "length_scale",
    "expansion",
    "max_size",
    "tolerance",
    "forgetting",
    "step_size",
    "regularization",
    "seed",
    "predictions",
    "format",
    "delimiter",
    "decimal",
    "encoding",
    "escape",
    "widths",
    "null_values",
    "interval",
)


def run(options: StreamOptions) -> None:
    """Predict and learn rows as they arrive."""
    _check(options)
    with _alone(options.checkpoint), _compiling_noted(quiet=options.quiet):
        _Run(options).run()


@contextmanager
def _compiling_noted(*, quiet: bool) -> Iterator[None]:
    """Report that code is compiled: it explains why the first rows take so long."""
    logger, handler = logging.getLogger("mercer.compile"), _Note()
    if not quiet:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Note(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage().removeprefix("mercer: "))


def _check(options: StreamOptions) -> None:
    """Refuse what can be refused before anything is read."""
    if options.predict_only:
        if options.model is None:
            raise ValueError("`--predict-only` needs a `--model` that answers.")
        if options.out is not None:
            raise ValueError("`--predict-only` learns nothing, so leave `--out` out.")
    elif options.out is None:
        raise ValueError("`--out` must name the model file to write, or say `--predict-only`.")
    local = None if options.source.startswith(("-", "unix:", "tcp:")) else options.source
    if options.out is not None:
        check_writable(options.out, local)
    written = options.predictions
    if written is not None and not is_pipe(written):
        check_writable(Path(written), local, options.model)
        if options.format is None and written.lower().endswith(_OTHERS):
            raise ValueError(
                f"Predictions of a stream are JSON lines or an Arrow IPC stream, no "
                f"{Path(written).suffix} file. Name it .jsonl or .arrow, or say `--format`."
            )
        if local is not None and Path(local).resolve() == Path(written).resolve().parent:
            raise ValueError(
                f"`--predictions` would be a file in {local}, which is read as data. Write it "
                "elsewhere."
            )
        if options.out is not None and Path(written).absolute() == options.out.absolute():
            raise ValueError("`--predictions` and `--out` name the same file.")
    if written is None and options.format is not None:
        raise ValueError("`--format` is of `--predictions`, which are not asked for.")
    for name in ("target", "key"):
        if getattr(options, name) in (options.exclude or ()):
            raise ValueError(f"`--exclude {getattr(options, name)}` leaves out the `{name}`.")
    if options.key == options.target:
        raise ValueError("`key` and `target` must be two columns.")
    if options.key is None and options.max_age is not None:
        raise ValueError("`max_age` is of rows that wait for labels: name their `key`.")
    check_integer("max_waiting", options.max_waiting, low=1)
    if options.interval is not None:
        check_coverage(options.interval)
        if written is None:
            raise ValueError(
                "`--interval` is written with `--predictions`, which are not asked for."
            )


class _Run:
    """A run of the command."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.place = (
            None if options.checkpoint is None else options.checkpoint / "stream.checkpoint"
        )
        self.every = _Due("every", options.every)
        self.checkpoint_every = _Due("checkpoint-every", options.checkpoint_every)
        self.source: Source = open_source(
            options.source,
            follow=options.follow,
            skip=options.skip,
            dialect=dialect_of(options),
        )
        parameters = _parameters(options)
        self.training = StreamTraining(
            RowReader(
                options.target,
                key=options.key,
                exclude=options.exclude or (),
                task=options.task.value,
                needs_target=not options.predict_only,
                gaps=_is_default(parameters),
                strict=options.strict,
                null_values=make_null_values(options.null_values),
            ),
            _maker(options, parameters),
            max_waiting=options.max_waiting,
            max_age=options.max_age,
            model=None if options.model is None else _load(options.model),
            learns=not options.predict_only,
            coverage=options.interval,
        )
        self.settings = {name: _plain(getattr(options, name)) for name in _SETTINGS}
        self.pressed: list[int] = []
        self.n_named = 0

    def run(self) -> None:
        """Process rows until there are no more, or the user stops the run."""
        length, training = self._go_on(), self.training
        with closing(self._open_answers(length)) as self.answers:
            self._began = self._line_at = time.perf_counter()
            self._first_row = self._line_row = training.n_rows
            for due in (self.every, self.checkpoint_every):
                due.start(training.n_rows)
            with interruptible() as self.pressed:
                try:
                    self._take_all()
                    self._save()
                    self.answers.finish()
                    said = self._finish()
                except KeyboardInterrupt:
                    raise Stopped(f"stopped at once; {self._kept()}") from None
                except BrokenPipeError:
                    note(f"the reader of predictions went away at row {training.n_rows:,}")
                    self._keep()
                    raise
                except Exception:
                    self._keep()
                    raise
        if self.pressed:
            raise Stopped(f"stopped. {said}", 128 + self.pressed[0])
        note(said, quiet=self.options.quiet)

    def _take_all(self) -> None:
        training, skip_bad = self.training, self.options.skip_bad
        said_task = training.estimator is not None or self.options.task is not StreamTask.auto
        with closing(self.source.records(self._rest)) as records:
            for record in records:
                try:
                    answer = training.take(record)
                except BadRowError as error:
                    if not skip_bad:
                        raise ValueError(
                            f"{error} With `--skip-bad` such rows are counted and left out."
                        ) from error
                    self._name_bad(error)
                    answer = None
                if answer is not None:
                    self.answers.write(answer)
                if not said_task and training.estimator is not None:
                    said_task = True
                    self._say_task()
                if self.checkpoint_every.reached(training.n_rows):
                    self._save()
                if self.every.reached(training.n_rows):
                    self._say_measures()
                if self.pressed:
                    return

    def _keep(self) -> None:
        """Keep what can be kept after an error: the rows before it were learned."""
        with suppress(OSError):
            self.answers.flush()
        out, estimator = self.options.out, self.training.estimator
        if self.place is not None and self.place.exists():
            note(self._kept(), quiet=self.options.quiet)
        elif out is not None and out.exists():  # of a run that came to its end
            note(f"{out} is as it was", quiet=self.options.quiet)
        elif out is not None and estimator is not None:
            estimator.save(out)
            note(f"{out} has what was learned before the error", quiet=self.options.quiet)

    def _rest(self) -> bool:
        """Use the time in which the source has no rows; return whether to stop waiting."""
        self.answers.flush()
        if self.checkpoint_every.in_time(self.training.n_rows):
            self._save()
        if self.every.in_time(self.training.n_rows):
            self._say_measures()
        return bool(self.pressed)

    # -- going on ---------------------------------------------------------------------------------

    def _go_on(self) -> int | None:
        """Resume from the checkpoint, if there is one; return the length of the predictions."""
        options, place = self.options, self.place
        if place is None or not place.exists():
            return None
        more = self.training.restore(place)
        different = [
            f"--{name.replace('_', '-')} (then {_said(more['settings'].get(name))}, now "
            f"{_said(now)})"
            for name, now in self.settings.items()
            if more["settings"].get(name) != now
        ]
        if different:
            raise ValueError(
                f"{place} was written by a run with other options: {'; '.join(different)}. Use "
                "those of then, or another folder for checkpoints."
            )
        self.source.go_to(more["position"])
        rows = self.training.n_rows
        note(f"going on from {place}, after {rows:,} rows", quiet=options.quiet)
        if not self.source.rewinds:
            known = more["position"]["rows"]
            skipped = known if options.skip is None else options.skip
            what = (
                f"skipping the first {skipped:,} rows of {self.source.name}, which are known"
                if skipped
                else f"{self.source.name} must go on with row {known:,} (the first is row 0)"
            )
            note(what, quiet=options.quiet)
            if options.predictions is not None and is_pipe(options.predictions):
                note(
                    f"predictions go on with row {rows:,}; the reader may have seen some from "
                    "there on before",
                    quiet=options.quiet,
                )
        length = more["predictions"]
        return None if length is None else int(length)

    def _save(self) -> None:
        """Write a checkpoint, after the predictions that belong to it."""
        self.checkpoint_every.start(self.training.n_rows)
        if self.place is None:
            return
        self.answers.sync()
        self.training.write(
            self.place,
            {
                "settings": self.settings,
                "position": self.source.position(),
                "predictions": self.answers.length,
            },
        )

    def _kept(self) -> str:
        if self.place is None:
            return "nothing was saved"
        return f"the same command goes on from {self.place}"

    # -- answers ----------------------------------------------------------------------------------

    def _open_answers(self, length: int | None) -> Answers:
        options, where = self.options, self.options.predictions
        arrow = options.format is StreamFormat.arrow or (
            options.format is None and where is not None and where.lower().endswith(_ARROW)
        )
        task = self.training.reader.task
        if arrow and task == "auto":
            raise ValueError(
                "Arrow has to know the type of predictions from the beginning. Say `--task "
                "classification` or `--task regression`."
            )
        return open_answers(
            where,
            arrow=arrow,
            key=options.key,
            quantities=task == "regression",
            length=length,
            intervals=options.interval is not None,
        )

    # -- what is said -----------------------------------------------------------------------------

    def _say_task(self) -> None:
        reader = self.training.reader
        inputs, why = len(reader.columns or ()), _GUESSED[str(reader.kind)]
        note(
            f"{reader.task} of {reader.target!r} ({why}); inputs: {inputs:,}",
            quiet=self.options.quiet,
        )

    def _name_bad(self, error: BadRowError) -> None:
        self.n_named += 1
        if self.n_named <= _BAD_NAMED:
            note(f"left out: {in_words_of_the_command(error)}", quiet=self.options.quiet)
        if self.n_named == _BAD_NAMED:
            note("further ones are counted only", quiet=self.options.quiet)

    def _say_measures(self) -> None:
        training, now = self.training, time.perf_counter()
        self.every.start(training.n_rows)
        speed = (training.n_rows - self._line_row) / max(now - self._line_at, 1e-9)
        self._line_row, self._line_at = training.n_rows, now
        window = training.measures.window()
        lately = "" if window is None else f" (since the last line {_shown(window)})"
        words = [f"{training.n_rows:,} rows", self._measure() + lately, f"{speed:,.0f} rows/s"]
        note("  ".join([*words, *self._waiting()]), quiet=self.options.quiet)

    def _measure(self) -> str:
        training = self.training
        if not training.measures.n_compared:
            return "no labels to compare yet"
        name = "MAE" if training.reader.task == "regression" else "accuracy"
        inside = "" if training.adaptive is None else f", {training.adaptive.words()}"
        return f"{name} {_shown(training.measures.mean)}{inside}"

    def _waiting(self) -> list[str]:
        late, words = self.training.late, []
        if self.options.key is not None:
            words.append(f"waiting for labels {len(late):,}")
            if late.n_dropped:
                words.append(f"dropped {late.n_dropped:,}")
            if late.n_unknown:
                words.append(f"labels of no row {late.n_unknown:,}")
        elif self.training.measures.n_unlabelled:
            words.append(f"without label {self.training.measures.n_unlabelled:,}")
        if self.training.measures.n_bad:
            words.append(f"left out {self.training.measures.n_bad:,}")
        if n := sum(self.training.reader.unreadable.counts.values()):
            words.append(f"cells taken for gaps {n:,}")
        return words

    def _finish(self) -> str:
        """Write the model; report the number of rows."""
        options, training = self.options, self.training
        for text in training.reader.unreadable.said():
            note(text, quiet=options.quiet)
        seconds = time.perf_counter() - self._began
        rows = training.n_rows - self._first_row
        words = [
            f"{training.n_rows:,} rows, {training.measures.n_labels:,} labels",
            self._measure(),
            f"{seconds:.1f} s, {rows / max(seconds, 1e-9):,.0f} rows/s",
            *self._waiting(),
        ]
        said = ", ".join(words)
        if options.out is None:
            return said
        if training.estimator is None:
            return f"{said}. No label in {options.target!r} came, so there is no model to write"
        training.estimator.save(options.out)
        return f"{options.out}: model order {training.estimator.model_order_:,} after {said}"


class _Due:
    """Times at which to do something: every few rows, or every few seconds.

    Parameters
    ----------
    name : str
        Name of the option.
    text : str
        Value of the option: rows, or seconds with an s.

    Examples
    --------
    >>> due = _Due("every", "10")
    >>> due.start(0)
    >>> [n for n in range(25) if due.reached(n) and due.start(n) is None]
    [10, 20]
    """

    def __init__(self, name: str, text: str) -> None:
        found = re.fullmatch(r"(\d+)|(\d+\.?\d*|\.\d+)\s*s", text.strip())
        value = 0.0 if found is None else float(found[1] or found[2])
        if found is None or not value:
            raise ValueError(
                f"`--{name}` takes a number of rows, such as 1000, or seconds, such as 10s, got "
                f"{text!r}."
            )
        self._rows = int(value) if found[1] else None
        self._seconds = value
        self.start(0)

    def start(self, n_rows: int) -> None:
        """Restart the count."""
        self._from_row, self._from_time = n_rows, time.monotonic()

    def reached(self, n_rows: int) -> bool:
        """Whether it is time, after a row.

        Rows are counted from the very first row, so that a resumed run acts at the same rows.
        """
        if self._rows is not None:
            return n_rows // self._rows > self._from_row // self._rows
        return time.monotonic() - self._from_time >= self._seconds

    def in_time(self, n_rows: int) -> bool:
        """Whether seconds are over, and rows have come in them."""
        return self._rows is None and n_rows > self._from_row and self.reached(n_rows)


def _parameters(options: StreamOptions) -> dict[str, Any]:
    """Return the parameters of the estimator that were given."""
    given: dict[str, Any] = {
        "kernel": make_kernel(options.kernel, options.length_scale),
        "expansion": make_expansion(
            options.expansion,
            {
                "max_size": options.max_size,
                "tolerance": options.tolerance,
                "forgetting": options.forgetting,
            },
            options.seed,
        ),
        "step_size": make_step_size(options.step_size),
        "regularization": options.regularization,
    }
    return {name: value for name, value in given.items() if value is not None}


def _is_default(parameters: dict[str, Any]) -> bool:
    """Whether the default of streams learns, to which rows may bring anything."""
    return bool(KernelRegressor(**parameters).plan([{}]).default == "stream")


def _maker(options: StreamOptions, parameters: dict[str, Any]) -> Callable[[str], Any]:
    """Return what makes estimators, and try it: wrong options are found before the first row."""
    if options.model is not None and (parameters or options.seed):
        raise ValueError(
            "`--model` has a kernel, an expansion and steps of its own: leave out the options for "
            "them."
        )

    def make(task: str) -> Any:
        return TASKS[task].estimator(**parameters, random_state=options.seed)

    for task in ("classification", "regression"):
        if options.task.value in ("auto", task):
            make(task).check()
    return make


def _load(path: Path) -> Any:
    return load_model_file(path)


@contextmanager
def _alone(folder: Path | None) -> Iterator[None]:
    """Create a folder for checkpoints, and lock it against other runs.

    Raises
    ------
    ValueError
        If another run uses it.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "wb") as file:
        with suppress(ImportError):
            import fcntl

            try:
                # The system releases the lock when this process ends, in whatever way.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"Another run uses the checkpoints in {folder}. Wait until it has ended, or "
                    "give another folder."
                ) from None
        remove_left(folder)
        yield


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)


def _shown(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _said(value: Any) -> str:
    return "not given" if value in (None, [], False) else str(value)
