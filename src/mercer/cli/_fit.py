"""``mercer fit``."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mercer._validation import check_integer
from mercer.cli._console import COMPILING, ProgressView, print_result
from mercer.cli._evaluation import (
    Evaluation,
    check_marks_of_novelty,
    check_test_data,
    evaluate,
    note_extra,
)
from mercer.cli._files import check_writable, load_table_model
from mercer.cli._messages import Stopped, note
from mercer.cli._options import ExpansionName, FitOptions, Mode, Normalize, Task
from mercer.cli._parts import (
    make_buffer,
    make_expansion,
    make_kernel,
    make_loss,
    make_memory,
    make_ridge,
    make_risk,
    make_step_size,
)
from mercer.cli._progress_error import progress_error
from mercer.cli._report import ROWS_FOR_PICTURES, report, title_of
from mercer.estimators import KernelClassifier, KernelRanker, KernelRegressor, TableModel
from mercer.estimators.asking import chosen_expansion
from mercer.estimators.table import TASKS
from mercer.expansions import Auto, Dictionary
from mercer.gaussian_process import InducingPoints
from mercer.inspection import parts_table
from mercer.training import FileTraining, TrainingProgress, checkpoint_path

__all__ = ["run", "train"]

_CLASSES_SHOWN = 10
_CHOOSING = "choosing scales, lengths and forms on the first rows (some seconds)"


def run(options: FitOptions) -> None:
    """Train a model on a table, write it, and say how good it is."""
    out, test, quiet = options.out, options.test, options.quiet
    _check(options)
    training = _training(options)
    resumed = _begin(training, options)
    model = training.model_
    if test is not None:
        check_test_data(model, test, target=None, outlier=options.outlier)
        check_marks_of_novelty(model, test, outlier=options.outlier)
        note_extra(model, test, quiet=quiet)
    _announce(training, options, resumed)
    speed = train(training, out, checkpoint_every=options.checkpoint_every, quiet=quiet)
    note(
        f"{out}: model order {model.model_order_:,} after {training.n_rows_:,} rows, {speed}",
        quiet=quiet,
    )
    model = load_table_model(out)  # what is said from here on is of the file
    parts = parts_table(model.estimator)
    if parts:
        said = [f"{part['form']} of {part['points']:,} points" for part in parts]
        note(f"parts: {', '.join(said)}; see `mercer inspect {out}`", quiet=quiet)
    evaluation = _evaluation(model, options)
    if options.report_file is not None:
        _write_report(options.report_file, model, evaluation, training, options)


def _check(options: FitOptions) -> None:
    """Refuse what can be refused before any data are read."""
    task = options.task
    check_writable(options.out, options.data, options.test)
    if options.report_file is not None:
        endings = (".html", ".htm")
        check_writable(options.report_file, options.data, options.test, endings=endings)
    if options.target is None and task is not Task.novelty:
        raise ValueError(
            "`--target` must name the column to predict. Only --task novelty goes without."
        )
    for name, given in (("quantiles", options.quantiles), ("risk", options.risk)):
        if given is not None and task in (Task.rank, Task.novelty, Task.gp):
            raise ValueError(
                f"`--{name}` cannot be chosen for {TASKS[task.value].words}, which has an "
                "objective of its own. Leave it out."
            )
    if options.checkpoint_every is not None:
        check_integer("checkpoint_every", options.checkpoint_every, low=1)


def _training(options: FitOptions) -> FileTraining:
    """Make the training that the options ask for."""
    parameters = _parameters(options)
    return FileTraining(
        options.data,
        options.target,
        task=options.task.value,
        group=options.group,
        loss=make_loss(options.loss, options.quantiles),
        options={name: value for name, value in parameters.items() if value is not None},
        n_passes=options.passes,
        exclude=options.exclude or (),
        scaling=options.scaling.value,
        categories=options.categories,
        seed=options.seed,
        shuffle_buffer=options.shuffle_buffer,
    )


def _parameters(options: FitOptions) -> dict[str, Any]:
    """Return the parameters of the estimator; None for those not given."""
    points = _inducing_points(options)
    of_expansion = _of_expansion(options)
    buffer = make_buffer(options.buffer)
    ranker = KernelRanker(buffer=buffer or "auto") if options.task is Task.rank else None
    normalize = options.normalize
    return {
        "risk": make_risk(options.risk),
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
        "ridge": make_ridge(options.ridge),
        "budget_seconds": options.budget_seconds,
        "max_memory": make_memory(options.max_memory),
        "forgetting": options.forgetting,
        "resumable": options.resumable or None,
        "block_length": options.block_length,
    }


def _begin(training: FileTraining, options: FitOptions) -> bool:
    """Start a training, or go on from its checkpoint; return whether it goes on."""
    place = checkpoint_path(options.out)
    if options.resume and place.exists():
        training.resume(place)
        note(
            f"going on from {place}, {training.n_rows_:,} rows learned",
            quiet=options.quiet,
        )
        return True
    if options.resume:
        note(f"there is no checkpoint {place}: starting from the beginning", quiet=options.quiet)
    elif place.exists():
        note(
            f"starting afresh; the earlier checkpoint {place} is ignored "
            "(--resume would go on from it)",
            quiet=options.quiet,
        )
    training.start()
    return False


def _announce(training: FileTraining, options: FitOptions, resumed: bool) -> None:
    """Say what is going to be learned, and from what."""
    model, quiet = training.model_, options.quiet
    chosen = options.loss or options.quantiles or options.task is not Task.auto
    hint = "" if resumed or chosen else " (guessed; --task overrides)"
    of_what = "" if options.target is None or not model.has_target else f" of {options.target!r}"
    classes = training.first_classes_
    shown = ", ".join(map(str, classes[:_CLASSES_SHOWN])) + ", ..." * (
        len(classes) > _CLASSES_SHOWN
    )
    found = f"; {len(classes):,} class{'es' * (len(classes) != 1)}: {shown}" if classes else ""
    note(
        f"{TASKS[training.task].title}{of_what}{hint}{found}; "
        f"columns: {len(model.preprocessor.feature_names_in_):,}, "
        f"inputs made of them: {model.preprocessor.n_features_out_:,}",
        quiet=quiet,
    )
    if options.group is not None:
        together = _kept_together(training.shuffle_buffer)
        note(f"pairs within groups of {options.group!r}; {together}", quiet=quiet)
    minimised = getattr(model.estimator, "risk", None)
    if minimised is not None:
        note(f"minimised: {minimised.describe()}", quiet=quiet)
    if training.n_passes_ > options.passes:
        note(
            f"{training.n_passes_:,} passes rather than {options.passes:,}, for enough steps on "
            "so few rows",
            quiet=quiet,
        )


def _kept_together(shuffle_buffer: int) -> str:
    """Say which rows of a group can meet."""
    if shuffle_buffer < 2:
        return "rows in the order of the data, where those of a group should be neighbours"
    return f"shuffled with the rows of a group together, {shuffle_buffer:,} rows at a time"


def _evaluation(model: TableModel, options: FitOptions) -> Evaluation | None:
    """Measure a model on the test data; without any, say what error training saw."""
    if options.test is not None:
        n_keep = 0 if options.report_file is None else ROWS_FOR_PICTURES
        evaluation = evaluate(model, options.test, outlier=options.outlier, n_keep=n_keep)
        print_result(evaluation.measures, title=f"{options.out} on {options.test}")
        return evaluation
    if (seen := progress_error(model)) is not None:
        note(f"{seen.name}: {seen.value:.4g}", quiet=options.quiet)
    return None


def _write_report(
    file: Path,
    model: TableModel,
    evaluation: Evaluation | None,
    training: FileTraining,
    options: FitOptions,
) -> None:
    settings = {
        "data": str(options.data),
        "test data": str(options.test or "none"),
        "passes": training.n_passes_,
        "seed": options.seed,
    }
    title = title_of(model, f"{TASKS[training.task].title} by {options.out.name}")
    report(file, model, title=title, evaluation=evaluation, settings=settings)
    note(f"{file}: report", quiet=options.quiet)


def train(training: FileTraining, out: Path, *, checkpoint_every: int | None, quiet: bool) -> str:
    """Run a training with progress on standard error; say how fast it was.

    Raises
    ------
    Stopped
        If the user pressed Ctrl-C.
    """
    at_risk = getattr(training.model_.estimator, "risk", None) is not None
    ranks = training.task == "rank"
    measure = "objective" if at_risk else "loss of pairs" if ranks else "loss"
    if training.model_.target_scale_ != 1.0:
        measure = f"{measure} (standardised)"
    estimator = training.model_.estimator
    races = isinstance(estimator, KernelClassifier | KernelRegressor) and isinstance(
        chosen_expansion(estimator), Auto | Dictionary
    )
    began, rows_before = time.perf_counter(), training.n_rows_
    with (
        _interruptible() as pressed,
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
    seconds = time.perf_counter() - began
    return f"{seconds:.1f} s, {(training.n_rows_ - rows_before) / seconds:,.0f} rows/s"


@contextmanager
def _interruptible() -> Iterator[list[int]]:
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
