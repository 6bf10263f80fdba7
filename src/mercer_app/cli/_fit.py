"""``mercer fit``: the model for its options, the run, and the messages about it."""

from __future__ import annotations

import re
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mercer.buffers import FIFO, Buffer, PerClassFIFO, Reservoir
from mercer.columns import TaskGuess
from mercer.estimators import KernelClassifier, KernelRanker, KernelRegressor
from mercer.estimators.start import automatic_expansion
from mercer.exceptions import ParameterError
from mercer.expansions import KOMP, Auto, Dictionary, Expansion, as_expansion
from mercer.gaussian_process import InducingPoints
from mercer.inspection import parts_table
from mercer.kernels import Kernel, as_kernel
from mercer.losses import Loss, Quantile, as_loss
from mercer.risks import Risk, as_risk
from mercer.validation import check_integer, check_real
from mercer_app.cli._console import COMPILING, ProgressView, print_result
from mercer_app.cli._inputs import note_dialects, reading
from mercer_app.cli._options import ExpansionName, FitOptions, Mode, Normalize, Task
from mercer_app.cli._report import evaluated, notes_of, report, seen_rows, title_of
from mercer_app.cli._workers import ONE_THREAD, StageView, check_alone, logged, workers_of
from mercer_app.files.tables import TableFiles
from mercer_app.messages import Stopped, file_name, note, shown
from mercer_app.models.evaluation import (
    Evaluation,
    check_classes,
    check_marks_of_novelty,
    check_test_data,
    said_of_progress,
)
from mercer_app.models.files import check_writable, load_table_rows, note_extra
from mercer_app.rows import TASKS, TableRows
from mercer_app.training import FileTraining, TrainingProgress, checkpoint_path
from mercer_app.training.tables import TableTraining
from mercer_cluster import ShardTraining

_CLASSES_SHOWN = 10
_CHOOSING = "choosing scales, lengths and forms on the first rows (some seconds)"

# Options that each expansion takes, and what it calls them.
_TAKES: dict[str, dict[str, str]] = {
    "auto": {
        name: name
        for name in ("budget_seconds", "max_memory", "forgetting", "resumable", "block_length")
    },
    "dictionary": {"max_size": "size", "ridge": "ridge", "forgetting": "forgetting"},
    "komp": {"max_size": "max_size", "tolerance": "tolerance", "parsimony": "parsimony"},
    "budget": {"max_size": "size", "strategy": "strategy"},
    "full": {},
    "random_features": {
        "mode": "mode",
        "block_size": "block_size",
        "max_blocks": "max_blocks",
        "ridge": "ridge",
    },
    "stream": {"max_size": "points"},
}

# Options that no engine takes, and why.
_AGAIN = "What fails is done again by the engine, and there are no checkpoints."
_IN_ONE_PLACE = {
    "passes": "Workers read each row a fixed number of times.",
    "shuffle_buffer": "The order of the rows does not matter where shards are learned.",
    "time": "Later rows judge what was learned of earlier ones, and workers know no order.",
    "group": "Rows of a group belong together, and workers learn them wherever they are.",
    "checkpoint_every": _AGAIN,
    "resume": _AGAIN,
    "jobs": ONE_THREAD,
}

_SHUFFLED = 65_536  # rows at a time
_NAMED_BUFFERS = ("auto", "all", "previous")
_BUFFERS: dict[str, type[Buffer]] = {"fifo": FIFO, "reservoir": Reservoir}

# Bytes of a unit, by its first letter.
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@reading
def run(options: FitOptions) -> None:
    """Train a model on a table, write it, and report how good it is."""
    out, quiet = options.out, options.quiet
    test = None if options.test is None else TableFiles(options.test)
    _check(options)
    training = _training(options)
    note_dialects(options.data, quiet=quiet)
    with warnings.catch_warnings(record=True) as found:  # said after what they are about
        _begin(training, options)
    reads = training.rows_
    if test is not None:
        note_dialects(test, quiet=quiet)
        check_test_data(reads, test, target=None, outlier=options.outlier)
        check_marks_of_novelty(reads, test, outlier=options.outlier)
        check_classes(reads, training.first_classes_, test)
        note_extra(reads, test, quiet=quiet)
    _announce(training, options)
    for warning in found:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    with logged(options.log):
        speed = (
            train(training, out, checkpoint_every=options.checkpoint_every, quiet=quiet)
            if isinstance(training, FileTraining)
            else _train_shards(training, out, quiet=quiet)
        )
    order, left_out = training.model_.model_order_, getattr(training, "n_left_out_", 0)
    rows = f"{training.n_rows_:,} rows"
    rows += f" ({left_out:,} without a target left out)" * bool(left_out)
    note(f"{out}: model order {order:,} after {rows}, {speed}", quiet=quiet)
    reads = load_table_rows(out)  # what is said from here on is of the file
    parts = parts_table(reads.estimator)
    if parts:
        said = [f"{part['form']} of {part['points']:,} points" for part in parts]
        note(f"parts: {', '.join(said)}; see `mercer inspect {out}`", quiet=quiet)
    evaluation = _evaluation(reads, test, options)
    if options.report_file is not None:
        _write_report(options.report_file, reads, evaluation, training, options)


def _check(options: FitOptions) -> None:
    """Refuse what can be refused before any data are read."""
    task = options.task
    check_alone(options, _IN_ONE_PLACE)
    check_writable(options.out, options.data, options.test)
    if options.report_file is not None:
        endings = (".html", ".htm")
        check_writable(options.report_file, options.data, options.test, endings=endings)
    if options.target is None and task is not Task.novelty:
        raise ValueError(
            "`--target` must name the column to predict. Only --task novelty goes without."
        )
    if options.expansion is ExpansionName.stream and task in (Task.rank, Task.novelty):
        raise ValueError(
            f"`--expansion stream` is for classification and regression, got --task {task}. Leave "
            "it out."
        )
    for name, given in (("quantiles", options.quantiles), ("risk", options.risk)):
        if given is not None and task in (Task.rank, Task.novelty, Task.gp):
            raise ValueError(
                f"`--{name}` cannot be chosen for {TASKS[task.value].words}, which has an "
                "objective of its own. Leave it out."
            )
    if options.checkpoint_every is not None:
        check_integer("checkpoint_every", options.checkpoint_every, low=1)


def _training(options: FitOptions) -> FileTraining | ShardTraining:
    """Make the training that the options ask for."""
    parameters = _parameters(options)
    shared: dict[str, Any] = {
        "task": options.task.value,
        "loss": _make_loss(options.loss, options.quantiles),
        "options": {name: value for name, value in parameters.items() if value is not None},
        "exclude": options.exclude or (),
        "scaling": options.scaling.value,
        "categories": options.categories,
        "columns": _of_columns(options),
        "seed": options.seed,
        "strict": options.strict,
    }
    workers = workers_of(options)
    if workers is not None:
        return ShardTraining(options.data, options.target, **shared, **workers._asdict())
    return FileTraining(
        options.data,
        options.target,
        **shared,
        group=options.group,
        time=options.time,
        n_passes=options.passes,
        shuffle_buffer=_shuffle_buffer(options),
    )


def _of_columns(options: FitOptions) -> dict[str, Any]:
    """Return the parameters of the columns that were given."""
    given = {"include": options.include, "kinds": _make_kinds(options.kind)}
    return {name: value for name, value in given.items() if value}


def _parameters(options: FitOptions) -> dict[str, Any]:
    """Return the parameters of the estimator; None for those not given."""
    points = _inducing_points(options)
    of_expansion = _of_expansion(options)
    buffer = _make_buffer(options.buffer)
    ranker = KernelRanker(buffer=buffer or "auto") if options.task is Task.rank else None
    normalize = options.normalize
    return {
        "risk": _make_risk(options.risk),
        "kernel": make_kernel(options.kernel, options.length_scale),
        "expansion": make_expansion(options.expansion, of_expansion, options.seed, ranker),
        "step_size": make_step_size(options.step_size),
        "regularization": options.regularization,
        "batch_size": options.batch_size,
        "class_weight": None if options.class_weight is None else str(options.class_weight),
        "nu": options.nu,
        "noise": options.noise,
        "n_features": options.features,
        "method": None if points is None else InducingPoints(points),
        "pair_kernel": None if options.pair_kernel is None else options.pair_kernel.value,
        "pair_label": None if options.pair_label is None else options.pair_label.value,
        "buffer": buffer,
        "normalize": None if normalize is Normalize.auto else normalize.value,
    }


def _inducing_points(options: FitOptions) -> int | None:
    """Of a Gaussian process without an expansion, ``--max-size`` counts points."""
    alone = options.task is Task.gp and options.expansion is None
    return options.max_size if alone else None


def _of_expansion(options: FitOptions) -> dict[str, Any]:
    """Return the options of the expansion; None for those not given."""
    mode = options.mode
    random_features = options.expansion is ExpansionName.random_features
    if options.task is Task.novelty and random_features and mode is None:
        mode = Mode.faithful  # the others have no meaning there
    return {
        "max_size": options.max_size if _inducing_points(options) is None else None,
        "tolerance": options.tolerance,
        "parsimony": options.parsimony,
        "strategy": None if options.strategy is None else options.strategy.value,
        "mode": None if mode is None else mode.value,
        "block_size": options.block_size,
        "max_blocks": options.max_blocks,
        "ridge": _make_ridge(options.ridge),
        "budget_seconds": options.budget_seconds,
        "max_memory": _make_memory(options.max_memory),
        "forgetting": options.forgetting,
        "resumable": options.resumable or None,
        "block_length": options.block_length,
    }


def _shuffle_buffer(options: FitOptions) -> int:
    """Return the shuffle buffer; 0 for a stream, whose order shows changes."""
    if options.shuffle_buffer is not None:
        return options.shuffle_buffer
    return 0 if options.expansion is ExpansionName.stream else _SHUFFLED


def _begin(training: FileTraining | ShardTraining, options: FitOptions) -> None:
    """Start a training, or resume it from its checkpoint."""
    if isinstance(training, ShardTraining):
        training.start()
        return
    place = checkpoint_path(options.out)
    if options.resume and place.exists():
        training.resume(place)
        note(
            f"going on from {place}, {training.n_rows_:,} rows learned",
            quiet=options.quiet,
        )
        return
    if options.resume:
        note(f"there is no checkpoint {place}: starting from the beginning", quiet=options.quiet)
    elif place.exists():
        note(
            f"starting afresh; the earlier checkpoint {place} is ignored "
            "(--resume would go on from it)",
            quiet=options.quiet,
        )
    training.start()


def _announce(training: TableTraining, options: FitOptions) -> None:
    """Say what is going to be learned, and from what."""
    reads, quiet = training.rows_, options.quiet
    hint = "" if training.guess_ is None else f" ({_reason(training.guess_)})"
    of_what = "" if options.target is None or not reads.has_target else f" of {options.target!r}"
    classes = training.first_classes_
    shown = ", ".join(map(str, classes[:_CLASSES_SHOWN])) + ", ..." * (
        len(classes) > _CLASSES_SHOWN
    )
    found = f"; {len(classes):,} class{'es' * (len(classes) != 1)}: {shown}" if classes else ""
    note(
        f"{TASKS[training.task].title}{of_what}{hint}{found}; "
        f"columns: {len(reads.preprocessor.feature_names_in_):,}, "
        f"inputs made of them: {reads.preprocessor.n_features_out_:,}",
        quiet=quiet,
    )
    note(str(reads.audit), quiet=quiet)
    if reads.ranked_by:
        note(f"ranked by {options.target!r} as {reads.ranked_by}", quiet=quiet)
    if options.group is not None:
        together = _kept_together(_shuffle_buffer(options))
        what = "pairs within groups" if reads.task == "rank" else "held out together by groups"
        note(f"{what} of {options.group!r}; {together}", quiet=quiet)
    if options.time is not None:
        note(f"in the order of {options.time!r}; the last rows judge", quiet=quiet)
    minimised = getattr(reads.estimator, "risk", None)
    if minimised is not None:
        note(f"minimised: {minimised.describe()}", quiet=quiet)
    if training.n_passes_ > options.passes:
        note(
            f"{training.n_passes_:,} passes rather than {options.passes:,}, for enough steps on "
            "so few rows",
            quiet=quiet,
        )


def _reason(guess: TaskGuess) -> str:
    """Say why a target was taken for what it was, and which option takes it for the other.

    Examples
    --------
    >>> _reason(TaskGuess("regression", "numbers with fractions"))
    'guessed: numbers with fractions; --task classification overrides'
    """
    if guess.certain:
        return guess.reason
    other = Task.regression if guess.task == Task.classification else Task.classification
    return f"guessed: {guess.reason}; --task {other} overrides"


def _kept_together(shuffle_buffer: int) -> str:
    """Say which rows of a group can meet."""
    if shuffle_buffer < 2:
        return "rows in the order of the data, where those of a group should be neighbours"
    return f"shuffled with the rows of a group together, {shuffle_buffer:,} rows at a time"


def _evaluation(
    reads: TableRows, test: TableFiles | None, options: FitOptions
) -> Evaluation | None:
    """Evaluate a model on the test data; without any, report the error during training."""
    if test is not None:
        pictured = options.report_file is not None
        evaluation = evaluated(
            reads, test, pictured=pictured, outlier=options.outlier, strict=options.strict
        )
        print_result(evaluation.measures, title=f"{options.out} on {shown(f'{test}')}")
        return evaluation
    for said in said_of_progress(reads):
        note(said, quiet=options.quiet)
    return None


def _write_report(
    file: Path,
    reads: TableRows,
    evaluation: Evaluation | None,
    training: TableTraining,
    options: FitOptions,
) -> None:
    settings = {
        "data": file_name(options.data),
        "test data": "none" if options.test is None else file_name(options.test),
        "passes": training.n_passes_,
        "seed": options.seed,
    }
    if (workers := workers_of(options)) is not None:
        settings["workers"] = str(workers._replace(address=None))  # nor places of machines
    title = title_of(reads, f"{TASKS[training.task].title} by {options.out.name}")
    seen = None if evaluation is not None else seen_rows(training.rows_, training.data)
    notes = notes_of(training)
    report(
        file, reads, title=title, evaluation=evaluation, settings=settings, seen=seen, notes=notes
    )
    note(f"{file}: report", quiet=options.quiet)


def train(training: FileTraining, out: Path, *, checkpoint_every: int | None, quiet: bool) -> str:
    """Run a training with progress on standard error; report its speed.

    Raises
    ------
    Stopped
        If the user pressed Ctrl-C.
    """
    estimator = training.rows_.estimator
    at_risk = getattr(estimator, "risk", None) is not None
    ranks = training.task == "rank"
    measure = "objective" if at_risk else "loss of pairs" if ranks else "loss"
    if getattr(estimator, "normalize_y", False) and training.task == "regression":
        measure = f"{measure} (standardised)"
    races = isinstance(estimator, KernelClassifier | KernelRegressor) and isinstance(
        estimator.plan().expansion, Auto | Dictionary
    )
    began, rows_before = time.perf_counter(), training.n_rows_
    with (
        interruptible() as pressed,
        ProgressView(
            training.n_rows_,
            training.n_total_,
            quiet=quiet,
            measure=measure,
            waiting=_CHOOSING if races else COMPILING,
        ) as view,
    ):

        def after_chunk(progress: TrainingProgress) -> bool:
            view.update(progress)
            return bool(pressed)

        finished = training.run(out, checkpoint_every=checkpoint_every, callback=after_chunk)
    if not finished:
        place = checkpoint_path(out)
        what = f"stopped after {training.n_rows_:,} rows"
        if not training.checkpoints:
            raise Stopped(
                f"{what}; nothing was saved. With --checkpoint-every N a run can be stopped and "
                "resumed.",
                128 + pressed[0],
            )
        raise Stopped(
            f"{what}, saved as {place}. The same command with --resume goes on from there.",
            128 + pressed[0],
        )
    return _speed(training.n_rows_ - rows_before, began)


def _speed(n_rows: int, began: float) -> str:
    seconds = time.perf_counter() - began
    return f"{seconds:.1f} s, {n_rows / seconds:,.0f} rows/s"


def _train_shards(training: ShardTraining, out: Path, *, quiet: bool) -> str:
    """Let workers learn, with progress on standard error; report the speed."""
    began = time.perf_counter()
    with StageView(quiet=quiet) as view:
        training.run(out, callback=view.update)
    return _speed(training.n_rows_, began)


@contextmanager
def interruptible() -> Iterator[list[int]]:
    """Collect Ctrl-C and termination until the chunk is learned; a second one acts at once."""
    pressed: list[int] = []

    def press(number: int, _: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    before = {s: signal.signal(s, press) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_loss(name: str | None, quantiles: str | None) -> str | Loss | None:
    """Join ``--loss`` and ``--quantiles``.

    Examples
    --------
    >>> _make_loss(None, "0.1,0.9")
    Quantile(levels=[0.1, 0.9])
    """
    if quantiles is None:
        return name
    if name is not None and not isinstance(as_loss(name), Quantile):
        raise ValueError(
            f"`--quantiles` is for the quantile loss, but `--loss {name}` was given. Leave one out."
        )
    try:
        levels = [float(word) for word in quantiles.split(",")]
    except ValueError:
        raise ValueError(
            f"`--quantiles` takes numbers between 0 and 1 with commas, such as 0.1,0.5,0.9, got "
            f"{quantiles!r}."
        ) from None
    if len(set(levels)) < len(levels):
        raise ValueError(f"`--quantiles` names a level twice: {quantiles!r}.")
    return Quantile(levels)


def _make_kinds(words: list[str] | None) -> dict[str, str]:
    """Read ``--kind``: what columns are.

    Examples
    --------
    >>> _make_kinds(["zip=category", "a=b=date:dmy"])
    {'zip': 'category', 'a=b': 'date:dmy'}
    """
    kinds = {}
    for word in words or ():
        name, equals, kind = word.rpartition("=")
        if not equals:
            raise ValueError(
                f"`--kind` takes a column and what it is, as zip=category, got {word!r}."
            )
        kinds[name] = kind
    return kinds


def make_kernel(name: str | None, length_scale: str | None) -> Kernel | str | None:
    """Join ``--kernel`` and ``--length-scale``.

    Examples
    --------
    >>> make_kernel("laplacian", "2")
    Laplacian(length_scale=2.0)
    """
    if length_scale is None:
        return name
    kernel = as_kernel(name or "gaussian")
    if "length_scale" not in kernel.get_params():
        raise ValueError(f"The kernel {name!r} has no length scale: leave `--length-scale` out.")
    try:
        return kernel.set_params(length_scale=float(length_scale))
    except ValueError as error:
        if length_scale.replace(".", "").replace("-", "").isdigit():
            raise error
    return kernel.set_params(length_scale=length_scale)


def _make_risk(text: str | None) -> Risk | None:
    """Read ``--risk``: the name of a risk, possibly with a number.

    Examples
    --------
    >>> _make_risk("cvar:0.95")
    CVaR(level=0.95)
    """
    if text is None:
        return None
    try:
        return as_risk(text)
    except ValueError as error:
        if isinstance(error, ParameterError) and error.parameter == "risk":
            raise
        # The invalid parameter belongs to the risk, and the user did not write its name.
        raise ValueError(f"`--risk {text}` cannot be used. {error}") from None


def _make_ridge(ridges: str | None) -> float | list[float] | None:
    """Read ``--ridge``: a number, or several to choose from.

    Examples
    --------
    >>> _make_ridge("0.01,0.001")
    [0.01, 0.001]
    """
    if ridges is None:
        return None
    try:
        values = [float(word) for word in ridges.split(",")]
    except ValueError:
        raise ValueError(
            f"`--ridge` takes a number, or several with commas, such as 0.01,0.001, got {ridges!r}."
        ) from None
    return values if len(values) > 1 else values[0]


def _make_memory(text: str | None) -> int | None:
    """Read ``--max-memory``: bytes, or a number with K, M, G or T, which are powers of 1,024.

    Examples
    --------
    >>> _make_memory("512M"), _make_memory("1.5 GiB"), _make_memory("2000000")
    (536870912, 1610612736, 2000000)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(?:([KMGT])(?:i?B)?|B)?\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(
            f"`--max-memory` takes a number of bytes, or one with a unit, such as 512M or 2G, got "
            f"{text!r}."
        )
    return int(float(found[1]) * _UNITS.get((found[2] or "").upper(), 1))


def make_expansion(
    name: ExpansionName | None,
    options: dict[str, Any],
    seed: int = 0,
    ranker: KernelRanker | None = None,
) -> Expansion | None:
    """Combine the options of an expansion; None for the estimator's default.

    Parameters
    ----------
    name : ExpansionName or None
        ``--expansion``; None infers it from the other options.
    options : dict of str to object
        Names of options with underscores; None for those not given.
    seed : int, default=0
        Seed of random features, and of the race.
    ranker : KernelRanker, default=None
        For a ranking, whose default depends on its buffer.

    Raises
    ------
    ValueError
        If the expansion has no such option, or for a wrong value.

    Examples
    --------
    >>> make_expansion(None, {"tolerance": 0.01})
    KOMP(max_size=1000, tolerance=0.01)
    """
    given = {key: value for key, value in options.items() if value is not None}
    if not given and name in (None, ExpansionName.auto):
        return None
    chosen = "auto" if name is None else name.value
    if name is None:
        if given.keys() <= _TAKES["komp"].keys():
            automatic = automatic_expansion() if ranker is None else ranker.plan().expansion
            assert automatic is not None
            return KOMP(**{**automatic.get_params(), **given})
        if "strategy" in given:
            chosen = "budget"
        elif not given.keys() & _TAKES["auto"].keys():
            chosen = "random_features"
    taken = _TAKES[chosen]
    refused = [f"--{key.replace('_', '-')}" for key in given if key not in taken]
    if refused:
        raise ValueError(
            f"The expansion {chosen!r} has no {' and no '.join(refused)}: leave it "
            "out, or choose an expansion that has it. auto takes "
            "--budget-seconds, --max-memory, --forgetting, --resumable and --block-length, "
            "dictionary takes "
            "--max-size, --ridge and --forgetting, komp takes --max-size, --tolerance and "
            "--parsimony, budget takes --max-size and --strategy, random_features takes --mode, "
            "--block-size, --max-blocks and --ridge, stream takes --max-size (of each kernel "
            "expansion), full takes none."
        )
    parameters = {taken[key]: value for key, value in given.items()}
    named = as_expansion(chosen)
    usual = named.get_params()
    if "seed" in usual:
        parameters["seed"] = seed
    return type(named)(**usual | parameters)


def _make_buffer(text: str | None) -> str | Buffer | None:
    """Read ``--buffer``.

    Raises
    ------
    ValueError
        If the text is not one of the choices.

    Examples
    --------
    >>> _make_buffer("5"), _make_buffer("fifo:20"), _make_buffer("all")
    (PerClassFIFO(size=5), FIFO(size=20), 'all')
    """
    if text is None or text in _NAMED_BUFFERS:
        return text
    name, colon, size = text.partition(":")
    try:
        if name in _BUFFERS:
            return _BUFFERS[name](int(size)) if colon else _BUFFERS[name]()
        return PerClassFIFO(int(text))
    except ValueError:
        raise ValueError(
            "`--buffer` takes a number of rows to keep of each of two classes, such as 10, or "
            f"fifo:50, reservoir:100, previous, all or auto, got {text!r}."
        ) from None


def make_step_size(text: str | None) -> Any:
    """Read ``--step-size``: a number, or the name of a rule.

    Raises
    ------
    ValueError
        If it is neither, or not above 0.

    Examples
    --------
    >>> make_step_size("0.5"), make_step_size("theory")
    (0.5, 'theory')
    """
    if text in (None, "auto", "theory"):
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"`--step-size` takes a number, auto or theory, got {text!r}.") from None
    return check_real("step_size", number, low=0.0, open_low=True)
