"""``mercer stream``: rows in as they arrive, predictions out, checkpoints between."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from mercer.conformal import check_coverage
from mercer.estimators import KernelRegressor
from mercer.validation import check_integer
from mercer_app.cli._answers import Answers, is_pipe, open_answers
from mercer_app.cli._choices import StreamFormat, StreamTask
from mercer_app.cli._fit import interruptible, make_expansion, make_kernel, make_step_size
from mercer_app.cli._inputs import dialect_of, make_null_values
from mercer_app.cli._options import StreamOptions
from mercer_app.files.arrivals import Source, open_source
from mercer_app.messages import Stopped, in_words_of_the_command, note
from mercer_app.models.files import check_writable, load_model_file
from mercer_app.rows import TASKS
from mercer_app.training.streaming import BadRowError, RowReader, StreamTraining

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
        for unfinished in folder.glob(".mercer-*.tmp"):  # of a run that was killed
            unfinished.unlink()
        yield


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | list) else str(value)


def _shown(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def _said(value: Any) -> str:
    return "not given" if value in (None, [], False) else str(value)
