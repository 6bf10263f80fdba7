"""``mercer fit``."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer._validation import check_integer
from mercer.cli._console import COMPILING, ProgressView, Stopped, guarded, note, print_result
from mercer.cli._evaluation import (
    Evaluation,
    check_marks_of_novelty,
    check_test_data,
    evaluate,
    note_extra,
)
from mercer.cli._files import check_writable
from mercer.cli._models import load_table_model
from mercer.cli._pairs import (
    Normalize,
    PairKernelName,
    PairLabel,
    make_buffer,
    make_step_size,
)
from mercer.cli._parts import (
    ClassWeight,
    ExpansionName,
    Mode,
    Scaling,
    Strategy,
    Task,
    choice,
    make_expansion,
    make_kernel,
    make_loss,
    make_memory,
    make_ridge,
    make_risk,
)
from mercer.cli._progress_error import progress_error
from mercer.cli._report import ROWS_FOR_PICTURES, report, title_of
from mercer.estimators import KernelClassifier, KernelRanker, KernelRegressor
from mercer.estimators.asking import chosen_expansion
from mercer.estimators.table_tasks import TASKS
from mercer.expansions import Auto, Dictionary
from mercer.gaussian_process import InducingPoints
from mercer.inspection import parts_table
from mercer.training import FileTraining, TrainingProgress, checkpoint_path

__all__ = ["fit", "train"]

_LEARNING, _DATA, _RUN = "What is learned", "The data", "The run"
_PAIRS = "Pairs of a ranking"
_CLASSES_SHOWN = 10
_CHOOSING = "choosing scales, lengths and forms on the first rows (some seconds)"


def _option(text: str, panel: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)


@guarded
def fit(  # noqa: PLR0913  # one parameter per option
    data: Annotated[
        Path, typer.Argument(help="Parquet, CSV or Arrow: a file, a folder or a glob.")
    ],
    out: Annotated[Path, _option("Model file to write.", _RUN)],
    target: Annotated[
        str | None, _option("Column to predict; for novelty one of known labels, if any.", _DATA)
    ] = None,
    group: Annotated[
        str | None, _option("Column of the query of each row: only these are ranked.", _DATA)
    ] = None,
    task: Annotated[
        Task, choice(Task, "Guessed from loss and target by default.", _LEARNING)
    ] = Task.auto,
    loss: Annotated[
        str | None,
        _option("Such as hinge, huber, absolute_error, poisson.", _LEARNING),
    ] = None,
    risk: Annotated[
        str | None,
        _option("Of the loss, not its mean: cvar:0.9, semideviation, ...", _LEARNING),
    ] = None,
    quantiles: Annotated[
        str | None, _option("Levels to predict, such as 0.1,0.5,0.9.", _LEARNING)
    ] = None,
    pair_kernel: Annotated[
        PairKernelName | None,
        choice(PairKernelName, "Functions of pairs: difference (scores).", _PAIRS),
    ] = None,
    pair_label: Annotated[
        PairLabel | None,
        choice(PairLabel, "Which is above (sign), by how much, or same.", _PAIRS),
    ] = None,
    buffer: Annotated[
        str | None,
        _option(
            "Rows to pair with: 10 (per class), fifo:50, reservoir:100, previous, all.", _PAIRS
        ),
    ] = None,
    normalize: Annotated[
        Normalize, choice(Normalize, "Partners that the mean of a row is over.", _PAIRS)
    ] = Normalize.auto,
    kernel: Annotated[
        str | None, _option("Such as gaussian, laplacian, polynomial; by default raced.", _LEARNING)
    ] = None,
    length_scale: Annotated[
        str | None, _option("Of the kernel: a number, median or half-median.", _LEARNING)
    ] = None,
    expansion: Annotated[
        ExpansionName | None,
        choice(
            ExpansionName,
            "How the model stays small; by default parts that a race chooses.",
            _LEARNING,
        ),
    ] = None,
    max_size: Annotated[
        int | None,
        _option("Most dictionary points (1,000; ranking: 200; gp: random features).", _LEARNING),
    ] = None,
    budget_seconds: Annotated[
        float | None, _option("CPU time to aim at, of auto; takes smaller parts.", _LEARNING)
    ] = None,
    max_memory: Annotated[
        str | None, _option("For the sums of auto (1G): 512M, 2G, ...", _LEARNING)
    ] = None,
    forgetting: Annotated[
        float | None, _option("Factor of the sums for each row, as 0.9999 for drift.", _LEARNING)
    ] = None,
    resumable: Annotated[
        bool, _option("Keep the sums of auto in the file: it can go on.", _LEARNING, "--resumable")
    ] = False,
    block_length: Annotated[
        int | None,
        _option("Rows in succession that auto judges together; else found out.", _LEARNING),
    ] = None,
    tolerance: Annotated[
        float | None, _option("Error that compression may make in a step.", _LEARNING)
    ] = None,
    parsimony: Annotated[
        float | None, _option("Tolerance relative to step size to the 1.5.", _LEARNING)
    ] = None,
    strategy: Annotated[Strategy | None, choice(Strategy, "Of a budget.", _LEARNING)] = None,
    mode: Annotated[
        Mode | None, choice(Mode, "Of random features: newton (default) to predict.", _LEARNING)
    ] = None,
    block_size: Annotated[
        int | None, _option("Random features per step; chosen from the rows.", _LEARNING)
    ] = None,
    max_blocks: Annotated[
        int | None, _option("Most blocks of random features, in mode cyclic.", _LEARNING)
    ] = None,
    ridge: Annotated[
        str | None, _option("Of random features; several, as 0.1,0.01, are raced.", _LEARNING)
    ] = None,
    nu: Annotated[
        float | None, _option("Share of the rows to be called novel (0.1).", _LEARNING)
    ] = None,
    noise: Annotated[
        float | None,
        _option("Of a Gaussian process: variance, the target's being 1 (0.1).", _LEARNING),
    ] = None,
    features: Annotated[
        int | None, _option("Random features of a Gaussian process (2,048).", _LEARNING)
    ] = None,
    step_size: Annotated[
        str | None, _option("A number, auto (from the data), or theory.", _LEARNING)
    ] = None,
    regularization: Annotated[
        float | None, _option("Ridge parameter of steps (1e-6; ranking: 0).", _LEARNING)
    ] = None,
    batch_size: Annotated[
        int | None,
        _option("Rows per step (32; ranking: 1); random features take more.", _LEARNING),
    ] = None,
    class_weight: Annotated[
        ClassWeight | None, choice(ClassWeight, "Weigh rare classes up.", _LEARNING)
    ] = None,
    passes: Annotated[int, _option("Passes over the data (1).", _RUN)] = 1,
    exclude: Annotated[
        list[str] | None, _option("Column that is no input; may be repeated.", _DATA)
    ] = None,
    scaling: Annotated[Scaling, choice(Scaling, "Of numbers.", _DATA)] = Scaling.auto,
    categories: Annotated[
        int, _option("Most categories of a column with inputs of their own (128).", _DATA)
    ] = 128,
    shuffle_buffer: Annotated[
        int, _option("Rows shuffled at a time (65,536); 0 keeps the order.", _DATA)
    ] = 65_536,
    seed: Annotated[int, _option("Of everything random (0).", _RUN)] = 0,
    test: Annotated[
        Path | None, _option("Data to evaluate the model on at the end.", _DATA)
    ] = None,
    outlier: Annotated[
        str | None, _option("Value of the target that marks novel rows of --test.", _DATA)
    ] = None,
    report_file: Annotated[Path | None, _option("HTML report to write.", _RUN, "--report")] = None,
    checkpoint_every: Annotated[
        int | None, _option("Rows between checkpoints, OUT.checkpoint.", _RUN)
    ] = None,
    resume: Annotated[
        bool, _option("Go on from OUT.checkpoint, if there is one.", _RUN, "--resume")
    ] = False,
    quiet: Annotated[bool, _option("No progress, no notes.", _RUN, "--quiet")] = False,
) -> None:
    """Train a model on a table in one pass or a few, in bounded memory.

    Untuned, a classification or regression is a sum of parts that learn by sums over rows: a race
    on the first rows chooses how inputs are scaled or weighted, length scales and forms, and
    `mercer inspect` shows what it tried. With another loss than squared for quantities it is one
    dictionary behind what the race finds; with --risk, --step-size, --tolerance or --max-size, it
    is KOMP, which learns by steps.

    Tasks: classification and regression of a target; novelty, which needs none and finds rows
    unlike the others; gp, Gaussian-process regression, whose predictions come with their errors,
    on random features or, with --max-size, on so many points of the first rows; rank, which learns
    from pairs of rows to order them by the target: for two classes it maximises the AUC. With
    --group only rows of one group are paired, and shuffling keeps the rows of a group together:
    those that are within --shuffle-buffer rows of each other in the data meet.

    The same data, options and seed give the same model file. A run that was killed goes on from
    its last checkpoint with --resume, to the same file, byte for byte.
    """
    check_writable(out, data, test)
    if report_file is not None:
        check_writable(report_file, data, test, endings=(".html", ".htm"))
    if target is None and task is not Task.novelty:
        raise ValueError(
            "`--target` must name the column to predict. Only --task novelty goes without."
        )
    for name, given in (("quantiles", quantiles), ("risk", risk)):
        if given is not None and task in (Task.rank, Task.novelty, Task.gp):
            raise ValueError(
                f"`--{name}` cannot be chosen for {TASKS[task.value].words}, which has an "
                "objective of its own. Leave it out."
            )
    if checkpoint_every is not None:
        check_integer("checkpoint_every", checkpoint_every, low=1)
    points = max_size if task is Task.gp and expansion is None else None
    if task is Task.novelty and expansion is ExpansionName.random_features and mode is None:
        mode = Mode.faithful  # the others have no meaning there
    of_expansion = {
        "max_size": max_size if points is None else None,
        "tolerance": tolerance,
        "parsimony": parsimony,
        "strategy": None if strategy is None else strategy.value,
        "mode": None if mode is None else mode.value,
        "block_size": block_size,
        "max_blocks": max_blocks,
        "ridge": make_ridge(ridge),
        "budget_seconds": budget_seconds,
        "max_memory": make_memory(max_memory),
        "forgetting": forgetting,
        "resumable": resumable or None,
        "block_length": block_length,
    }
    paired = make_buffer(buffer)
    ranker = KernelRanker(buffer=paired or "auto") if task is Task.rank else None
    options = {
        "risk": make_risk(risk),
        "kernel": make_kernel(kernel, length_scale),
        "expansion": make_expansion(expansion, of_expansion, seed, ranker),
        "step_size": make_step_size(step_size),
        "regularization": regularization,
        "batch_size": batch_size,
        "class_weight": None if class_weight is None else str(class_weight),
        "nu": nu,
        "noise": noise,
        "n_features": features,
        "method": None if points is None else InducingPoints(points),
        "pair_kernel": None if pair_kernel is None else pair_kernel.value,
        "pair_label": None if pair_label is None else pair_label.value,
        "buffer": paired,
        "normalize": None if normalize is Normalize.auto else normalize.value,
    }
    training = FileTraining(
        data,
        target,
        task=task.value,
        group=group,
        loss=make_loss(loss, quantiles),
        options={name: value for name, value in options.items() if value is not None},
        n_passes=passes,
        exclude=exclude or (),
        scaling=scaling.value,
        categories=categories,
        seed=seed,
        shuffle_buffer=shuffle_buffer,
    )
    place = checkpoint_path(out)
    resumed = resume and place.exists()
    if resumed:
        training.resume(place)
        note(f"going on from {place}, {training.n_rows_:,} rows learned", quiet=quiet)
    else:
        if resume:
            note(f"there is no checkpoint {place}: starting from the beginning", quiet=quiet)
        elif place.exists():
            note(
                f"starting afresh; the earlier checkpoint {place} is ignored "
                "(--resume would go on from it)",
                quiet=quiet,
            )
        training.start()
    model = training.model_
    if test is not None:
        check_test_data(model, test, target=None, outlier=outlier)
        check_marks_of_novelty(model, test, outlier=outlier)
        note_extra(model, test, quiet=quiet)
    guessed = not (resumed or loss or quantiles or task is not Task.auto)
    hint = " (guessed; --task overrides)" if guessed else ""
    of_what = "" if target is None or not model.has_target else f" of {target!r}"
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
    if group is not None:
        note(
            f"pairs within groups of {group!r}; " + _kept_together(training.shuffle_buffer),
            quiet=quiet,
        )
    minimised = getattr(model.estimator, "risk", None)
    if minimised is not None:
        note(f"minimised: {minimised.describe()}", quiet=quiet)
    if training.n_passes_ > passes:
        note(
            f"{training.n_passes_:,} passes rather than {passes:,}, for enough steps on so few "
            "rows",
            quiet=quiet,
        )
    speed = train(training, out, checkpoint_every=checkpoint_every, quiet=quiet)
    note(
        f"{out}: model order {model.model_order_:,} after {training.n_rows_:,} rows, {speed}",
        quiet=quiet,
    )
    model = load_table_model(out)  # what is said from here on is of the file
    parts = parts_table(model.estimator)
    if parts:
        said = [f"{part['form']} of {part['points']:,} points" for part in parts]
        note(f"parts: {', '.join(said)}; see `mercer inspect {out}`", quiet=quiet)
    evaluation: Evaluation | None = None
    if test is not None:
        n_keep = 0 if report_file is None else ROWS_FOR_PICTURES
        evaluation = evaluate(model, test, outlier=outlier, n_keep=n_keep)
        print_result(evaluation.measures, title=f"{out} on {test}")
    elif (seen := progress_error(model)) is not None:
        note(f"{seen.name}: {seen.value:.4g}", quiet=quiet)
    if report_file is not None:
        passes = training.n_passes_
        settings = {"data": str(data), "test data": str(test or "none"), "passes": passes}
        report(
            report_file,
            model,
            title=title_of(model, f"{TASKS[training.task].title} by {out.name}"),
            evaluation=evaluation,
            settings={**settings, "seed": seed},
        )
        note(f"{report_file}: report", quiet=quiet)


def _kept_together(shuffle_buffer: int) -> str:
    """Say which rows of a group can meet."""
    if shuffle_buffer < 2:
        return "rows in the order of the data, where those of a group should be neighbours"
    return f"shuffled with the rows of a group together, {shuffle_buffer:,} rows at a time"


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
