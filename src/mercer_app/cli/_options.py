"""What each command may be given: a record for each, whose fields are its options.

Nothing here needs more than typer: help and mistyped options are answered at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mercer.validation import nearest


class Task(StrEnum):
    """Choices of ``--task``."""

    auto = "auto"
    classification = "classification"
    regression = "regression"
    rank = "rank"
    novelty = "novelty"
    gp = "gp"


class ExpansionName(StrEnum):
    """Choices of ``--expansion``."""

    auto = "auto"
    dictionary = "dictionary"
    komp = "komp"
    full = "full"
    budget = "budget"
    random_features = "random_features"
    stream = "stream"


class Strategy(StrEnum):
    """Choices of ``--strategy``."""

    merge = "merge"
    project = "project"
    remove = "remove"


class Mode(StrEnum):
    """Choices of ``--mode``."""

    newton = "newton"
    faithful = "faithful"
    cyclic = "cyclic"


class ClassWeight(StrEnum):
    """Choices of ``--class-weight``."""

    balanced = "balanced"


class Scaling(StrEnum):
    """Choices of ``--scaling``."""

    auto = "auto"
    standardize = "standardize"
    common = "common"
    none = "none"


class PairKernelName(StrEnum):
    """Choices of ``--pair-kernel``."""

    difference = "difference"
    antisymmetric = "antisymmetric"
    symmetric = "symmetric"
    mlpk = "mlpk"
    product = "product"


class PairLabel(StrEnum):
    """Choices of ``--pair-label``."""

    sign = "sign"
    difference = "difference"
    same = "same"


class Normalize(StrEnum):
    """Choices of ``--normalize``."""

    auto = "auto"
    opposite = "opposite"
    all = "all"
    balanced = "balanced"


class EngineName(StrEnum):
    """Choices of ``--engine``."""

    ray = "ray"
    dask = "dask"
    here = "here"


class StreamTask(StrEnum):
    """Choices of ``--task`` for streams."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


class TableFormat(StrEnum):
    """Choices of ``--format`` for tables."""

    csv = "csv"
    arrow = "arrow"


class StreamFormat(StrEnum):
    """Choices of ``--format`` for streams."""

    json = "json"
    arrow = "arrow"


class ValueMethod(StrEnum):
    """Choices of ``--method`` for value functions."""

    td = "td"
    gtd2 = "gtd2"
    tdc = "tdc"
    residual = "residual"
    pkgtd = "pkgtd"


def option(text: str, panel: str, *names: str) -> Any:
    """Return an option with a help text, in a panel of the help.

    Parameters
    ----------
    text, panel : str
        The help, and the panel.
    *names : str
        Names of the option; by default derived from the field's name.
    """
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)


def choice(kind: type[StrEnum], text: str, panel: str | None) -> Any:
    """Option with the values of an enumeration; a mistyped one is answered by the nearest.

    Parameters
    ----------
    kind : type of StrEnum
        The values.
    text, panel : str
        Help, and the panel of the help that it is in.
    """

    def value(word: str) -> StrEnum:  # a function: click asks a parser for its name
        return _one_of(kind, word)

    return typer.Option(
        help=text,
        rich_help_panel=panel,
        show_default=False,
        parser=value,
        metavar=f"[{'|'.join(kind)}]",
    )


def _one_of(kind: type[StrEnum], text: str) -> StrEnum:
    if text in list(kind):
        return kind(text)
    listed = ", ".join(map(repr, map(str, kind)))
    others: Mapping[str, str] = {}
    if kind is ExpansionName:
        # Only here, where something is wrong: the rest needs no more than typer.
        from mercer.expansions import ELSEWHERE as others  # noqa: N811
    raise typer.BadParameter(f"{text!r} is not one of {listed}.{nearest(text, kind, others)}")


_LEARNING, _DATA, _RUN = "What is learned", "The data", "The run"
_PAIRS, _WORKERS = "Pairs of a ranking", "Workers"
_CSV = "CSV files (found out from each file, if not said)"
_ARRIVING, _ANSWERS = "Rows and labels", "Answers and measures"
_STEPS = "The logged steps"
_STRICT = "Refuse cells that cannot be what their column is, rather than take gaps."
_NULLS = (
    "Cell that is a gap, as -999, or age=-1 in one column; an empty one, '' or country=, says that "
    "NA, null, ... are values. May be repeated."
)


ModelFile = Annotated[
    Path, typer.Argument(help="Model file written by `mercer fit` or `mercer stream`.")
]
Data = Annotated[
    str,
    typer.Argument(
        help="Parquet, CSV or Arrow: a file, a folder or a glob; s3://, gs://, ... for Parquet; "
        "- for standard input."
    ),
]
Engine = Annotated[
    EngineName | None,
    choice(EngineName, "Who reads shards of the data and works; here: this process.", _WORKERS),
]
NumberOfWorkers = Annotated[
    int | None, option("Of the engine; one for each core, or all of the cluster.", _WORKERS)
]
Address = Annotated[str | None, option("Of a cluster that runs.", _WORKERS)]
Log = Annotated[Path | None, option("File to write a line for each shard to.", _WORKERS)]
Delimiter = Annotated[
    str | None,
    option("Between cells: a character, comma, semicolon, tab, pipe, space, whitespace.", _CSV),
]
Decimal = Annotated[str | None, option("Decimal mark: comma or point.", _CSV)]
Encoding = Annotated[str | None, option("Such as utf-8, utf-16, latin-1, cp1250.", _CSV)]
Strict = Annotated[
    bool,
    typer.Option("--strict", help=_STRICT),
]
Escape = Annotated[
    str | None, option("Before quotes or delimiters that mean themselves: backslash.", _CSV)
]
Widths = Annotated[
    str | None, option("Of columns without delimiters: 5,3,10 or 1-5,6-8,12-21.", _CSV)
]
Header = Annotated[
    bool | None,
    option(
        "Whether the first line names the columns; else they are column_1, column_2, ...",
        _CSV,
        "--header/--no-header",
    ),
]

# What options of `mercer stream` do besides, without another --expansion.
_NO_STREAM = " Leaves the default of streams, for that of tables."
_KOMP_FOR_STREAM = " Leaves the default of streams, for KOMP."


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Train a model on a table in one pass or a few, in bounded memory.

    Untuned, a classification or regression is a sum of parts that learn by sums over rows: a race
    on the first rows chooses how inputs are scaled or weighted, length scales and forms, and
    `mercer inspect` shows what it tried. With --risk, or a loss of quantities that is not squared,
    the parts find the mean, and a correction is learned on rows that were held out. With
    --step-size, --tolerance or --max-size, the model is KOMP, which learns by steps.

    Tasks: classification and regression of a target; novelty, which needs none and finds rows
    unlike the others; gp, Gaussian-process regression, whose predictions come with their errors,
    on random features or, with --max-size, on so many points of the first rows; rank, which learns
    from pairs of rows to order them by the target: for two classes it maximises the AUC. With
    --group only rows of one group are paired, and shuffling keeps the rows of a group together:
    those that are within --shuffle-buffer rows of each other in the data meet. For classification
    and regression --group names what rows of one person, machine or place share: they are held out
    together, so that what is said of errors holds for new ones. It is no input. Where new rows
    will be later, --time names a column of dates, times or numbers: the last rows judge what was
    learned of those before. It stays an input; --exclude takes it out.

    The same data, options and seed give the same model file. A run that was killed goes on from
    its last checkpoint with --resume, to the same file, byte for byte.

    With --engine, workers of this machine or a cluster learn shards of the data, each a file or a
    part of a Parquet file: classification and regression by the default parts. The model has the
    same bits for every engine and number of workers.
    """

    data: Data
    out: Annotated[Path, option("Model file to write.", _RUN)]
    target: Annotated[
        str | None, option("Column to predict; for novelty one of known labels, if any.", _DATA)
    ] = None
    group: Annotated[
        str | None,
        option("Column of groups: rows of one are ranked, or held out, together.", _DATA),
    ] = None
    time: Annotated[
        str | None,
        option("Column of times: the last rows judge what those before say.", _DATA),
    ] = None
    task: Annotated[Task, choice(Task, "Guessed from loss and target by default.", _LEARNING)] = (
        Task.auto
    )
    loss: Annotated[
        str | None,
        option("Such as hinge, huber, absolute_error, poisson.", _LEARNING),
    ] = None
    risk: Annotated[
        str | None,
        option("Of the loss, not its mean: cvar:0.9, semideviation, ...", _LEARNING),
    ] = None
    quantiles: Annotated[
        str | None, option("Levels to predict, such as 0.1,0.5,0.9.", _LEARNING)
    ] = None
    pair_kernel: Annotated[
        PairKernelName | None,
        choice(PairKernelName, "Functions of pairs: difference (scores).", _PAIRS),
    ] = None
    pair_label: Annotated[
        PairLabel | None,
        choice(PairLabel, "Which is above (sign), by how much, or same.", _PAIRS),
    ] = None
    buffer: Annotated[
        str | None,
        option("Rows to pair with: 10 (per class), fifo:50, reservoir:100, previous, all.", _PAIRS),
    ] = None
    normalize: Annotated[
        Normalize, choice(Normalize, "Partners that the mean of a row is over.", _PAIRS)
    ] = Normalize.auto
    kernel: Annotated[
        str | None, option("Such as gaussian, laplacian, polynomial; by default raced.", _LEARNING)
    ] = None
    length_scale: Annotated[
        str | None, option("Of the kernel: a number, median or half-median.", _LEARNING)
    ] = None
    expansion: Annotated[
        ExpansionName | None,
        choice(
            ExpansionName,
            "How the model stays small; by default parts that a race chooses; stream follows rows "
            "in their order.",
            _LEARNING,
        ),
    ] = None
    max_size: Annotated[
        int | None,
        option(
            "Most dictionary points (1,000; ranking: 200; stream: 200; gp: random features).",
            _LEARNING,
        ),
    ] = None
    budget_seconds: Annotated[
        float | None, option("CPU time to aim at, of auto; takes smaller parts.", _LEARNING)
    ] = None
    max_memory: Annotated[
        str | None, option("For the sums of auto (1G): 512M, 2G, ...", _LEARNING)
    ] = None
    forgetting: Annotated[
        float | None, option("Factor of the sums for each row, as 0.9999 for drift.", _LEARNING)
    ] = None
    resumable: Annotated[
        bool, option("Keep the sums of auto in the file: it can go on.", _LEARNING, "--resumable")
    ] = False
    block_length: Annotated[
        int | None,
        option("Rows in succession that auto judges together; else found out.", _LEARNING),
    ] = None
    tolerance: Annotated[
        float | None, option("Error that compression may make in a step.", _LEARNING)
    ] = None
    parsimony: Annotated[
        float | None, option("Tolerance relative to step size to the 1.5.", _LEARNING)
    ] = None
    strategy: Annotated[Strategy | None, choice(Strategy, "Of a budget.", _LEARNING)] = None
    mode: Annotated[
        Mode | None, choice(Mode, "Of random features: newton (default) to predict.", _LEARNING)
    ] = None
    block_size: Annotated[
        int | None, option("Random features per step; chosen from the rows.", _LEARNING)
    ] = None
    max_blocks: Annotated[
        int | None, option("Most blocks of random features, in mode cyclic.", _LEARNING)
    ] = None
    ridge: Annotated[
        str | None, option("Of random features; several, as 0.1,0.01, are raced.", _LEARNING)
    ] = None
    nu: Annotated[
        float | None, option("Share of the rows to be called novel (0.1).", _LEARNING)
    ] = None
    noise: Annotated[
        float | None,
        option("Of a Gaussian process: variance, the target's being 1 (0.1).", _LEARNING),
    ] = None
    features: Annotated[
        int | None, option("Random features of a Gaussian process (2,048).", _LEARNING)
    ] = None
    step_size: Annotated[
        str | None, option("A number, auto (from the data), or theory.", _LEARNING)
    ] = None
    regularization: Annotated[
        float | None, option("Ridge parameter of steps (1e-6; ranking: 0).", _LEARNING)
    ] = None
    batch_size: Annotated[
        int | None,
        option("Rows per step (32; ranking: 1); random features take more.", _LEARNING),
    ] = None
    class_weight: Annotated[
        ClassWeight | None, choice(ClassWeight, "Weigh rare classes up.", _LEARNING)
    ] = None
    passes: Annotated[int, option("Passes over the data (1).", _RUN)] = 1
    exclude: Annotated[
        list[str] | None, option("Column that is no input; may be repeated.", _DATA)
    ] = None
    include: Annotated[
        list[str] | None,
        option("Column to use though it looks like an identifier or a copy; repeatable.", _DATA),
    ] = None
    kind: Annotated[
        list[str] | None,
        option(
            "What a column is, as zip=category: number, category, text, date, date:dmy, date:mdy, "
            "date:ymd, time; may be repeated.",
            _DATA,
        ),
    ] = None
    null_values: Annotated[list[str] | None, option(_NULLS, _DATA)] = None
    strict: Annotated[
        bool,
        option(_STRICT, _DATA),
    ] = False
    scaling: Annotated[
        Scaling, choice(Scaling, "Of numbers; auto: none where the kernel is chosen.", _DATA)
    ] = Scaling.auto
    categories: Annotated[
        int, option("Most categories of a column with inputs of their own (128).", _DATA)
    ] = 128
    shuffle_buffer: Annotated[
        int | None,
        option("Rows shuffled at a time (65,536; stream: 0, which keeps the order).", _DATA),
    ] = None
    seed: Annotated[int, option("Of everything random (0).", _RUN)] = 0
    jobs: Annotated[
        int | None, option("Threads (1); -1 for all cores. The same model, bit for bit.", _RUN)
    ] = None
    test: Annotated[str | None, option("Data to evaluate the model on at the end.", _DATA)] = None
    outlier: Annotated[
        str | None, option("Value of the target that marks novel rows of --test.", _DATA)
    ] = None
    report_file: Annotated[Path | None, option("HTML report to write.", _RUN, "--report")] = None
    checkpoint_every: Annotated[
        int | None,
        option("Rows between checkpoints, OUT.checkpoint; rounded up to blocks of 8,192.", _RUN),
    ] = None
    resume: Annotated[
        bool, option("Go on from OUT.checkpoint, if there is one.", _RUN, "--resume")
    ] = False
    quiet: Annotated[bool, option("No progress, no notes.", _RUN, "--quiet")] = False
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    escape: Escape = None
    widths: Widths = None
    header: Header = None
    engine: Engine = None
    workers: NumberOfWorkers = None
    address: Address = None
    log: Log = None


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Measure a model on data that it has not learned.

    Classification: error, balanced error (mean over the classes), log loss where the model has
    probabilities, AUC for two classes, and the error of the commonest class. Regression, in units
    of the target: MSE, RMSE, MAE, R²; for quantiles pinball loss and coverage; for a Gaussian
    process mean log predictive density and coverage of the 90 % intervals. Regression, and
    classification with a risk: mean, value at risk and CVaR (mean of the worst) of the model's own
    loss; squared is half the squared error. Novelty: share of the rows found novel and, where
    labels are known, share of the novel rows found, false alarms and AUC. Ranking: AUC for two
    classes, with its standard error; else the share of pairs in the right order; within groups, if
    it has any, with the mean NDCG of their first 10 rows. Columns that training did not have are
    named and not looked at.
    """

    model: ModelFile
    data: Data
    target: Annotated[
        str | None, typer.Option(help="Column of the targets, if named otherwise than in training.")
    ] = None
    outlier: Annotated[
        str | None,
        typer.Option(help="Value of the target that marks novel rows; else the rarer of two."),
    ] = None
    report_file: Annotated[Path | None, typer.Option("--report", help="HTML report to write.")] = (
        None
    )
    jobs: Annotated[int | None, typer.Option(help="Threads (1); -1 for all cores.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    strict: Strict = False
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    escape: Escape = None
    widths: Widths = None
    header: Header = None
    engine: Engine = None
    workers: NumberOfWorkers = None
    address: Address = None
    log: Log = None


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Predict for every row of a table, in order.

    Writes `prediction` (quantiles: `quantile_<level>`) and, for classes, `probability_<class>` or,
    where the loss has no probabilities, `score` (more than two classes: `score_<class>`). For
    novelty `prediction` is -1 for a novel row, else 1, and `score` is below 0 for a novel row. A
    Gaussian process adds `std`, the standard deviation of a new observation about its prediction.
    A ranking writes `score` only: rows with higher ones rank above; a value function `value`. The
    target is not looked at, and neither are columns that training did not have, which are named.
    With --out - nothing else goes to standard output.

    With --interval 0.9 nine of ten rows like those learned have their truth between `lower` and
    `upper`, or among the classes in `set`, which bars separate. That is found from rows that the
    training kept back, whatever the data are, as long as new rows are drawn as these were.

    With --engine, workers predict for shards of the data, and OUT is a folder of Parquet files,
    one for each shard, in the order of their names.
    """

    model: ModelFile
    data: Data
    out: Annotated[
        Path,
        typer.Option(
            help="Table to write: .parquet or .csv; - for standard output; with --engine a folder."
        ),
    ]
    format: Annotated[
        TableFormat | None,
        choice(
            TableFormat,
            "Of standard output: csv; arrow (an IPC stream) if that comes from standard input.",
            None,
        ),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column of DATA to copy, such as an id; may be repeated."),
    ] = None
    interval: Annotated[
        float | None,
        typer.Option(
            help="Share of rows whose truth is to be inside, such as 0.9: adds lower and upper, or "
            "for classes the set."
        ),
    ] = None
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Rows with the target, not learned, to find intervals by, instead of those that "
            "the training kept back."
        ),
    ] = None
    jobs: Annotated[int | None, typer.Option(help="Threads (1); -1 for all cores.")] = None
    strict: Strict = False
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    escape: Escape = None
    widths: Widths = None
    header: Header = None
    engine: Engine = None
    workers: NumberOfWorkers = None
    address: Address = None
    log: Log = None


@dataclass(frozen=True, kw_only=True)
class ExplainOptions:
    """Say which columns matter, or what each column adds to the predictions for rows.

    Without DATA, a line for each column: how much the prediction varies with it, as a share of 1;
    columns that are left out have 0. With DATA, what each column adds to the prediction for each
    row: baseline, the mean prediction for rows that were learned, and all that columns add sum to
    the prediction. Of classes it is the probability (or, where the loss has none, the score) of the
    second of two classes, or of the one that is predicted for the row; of quantiles the middle one.

    --out writes a line for each row, with the columns baseline, prediction and one for each column
    of DATA, and where rows have classes of their own, class.
    """

    model: ModelFile
    data: Annotated[str | None, typer.Argument(help="Rows to explain, as DATA of fit.")] = None
    rows: Annotated[int | None, typer.Option(help="At most so many (3; with --out all).")] = None
    out: Annotated[Path | None, typer.Option(help="Table: .parquet or .csv; - to print.")] = None
    figure: Annotated[
        Path | None, typer.Option(help="Picture, .svg, .png, .pdf: of columns, or the first row.")
    ] = None
    output: Annotated[str | None, typer.Option(help="Class or quantile level to explain.")] = None
    background: Annotated[
        str | None, typer.Option(help="Rows to compare with (some that the model keeps).")
    ] = None
    seed: Annotated[int, typer.Option(help="Of the orders of columns that are tried.")] = 0
    jobs: Annotated[int | None, typer.Option(help="Threads (1); -1 for all cores.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    escape: Escape = None
    widths: Widths = None
    header: Header = None


@dataclass(frozen=True, kw_only=True)
class InspectOptions:
    """Say what is in a model file."""

    model: Annotated[Path, typer.Argument(help="Model file or checkpoint.")]
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a model as one Python file that predicts without mercer: it needs NumPy only.

    The file has the functions `predict` and, where the model has them, `predict_proba` and
    `decision_function`, of rows with the columns of the training data: a dict of columns, a list of
    dicts or a data frame. As a program it reads CSV: `python model.py new.csv`. What it predicts is
    compared with the model before it is written. Files have the default of tables, dictionaries,
    KOMP and the means of Gaussian processes; what cannot be exported is refused with the reason.
    """

    model: ModelFile
    out: Annotated[Path, typer.Option(help="File to write: .py.")]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Open a page on this machine to try a model: a form, and files to predict for.

    Only this machine can reach it, at http://127.0.0.1:PORT/. Programs ask /predict and /batch.
    What is sent stays in memory. Ctrl-C ends it.
    """

    model: ModelFile
    port: Annotated[int, typer.Option(help="To listen at; 0 for any that is free.")] = 8000
    interval: Annotated[
        float | None,
        typer.Option(
            help="Share of rows whose interval, or set, on the page is to hold the truth (0.9)."
        ),
    ] = None
    report_file: Annotated[
        Path | None, typer.Option("--report", help="HTML report to show at /report.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Learn to read handwritten digits, in seconds: a first look at what mercer does.

    Real data, 1,797 images of 8 x 8 pixels that come with scikit-learn; a quarter is held out.
    Writes tables, a model, a report and pictures.
    """

    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("mercer-demo")


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Predict rows when they arrive, and learn them when their labels do.

    SOURCE is - for standard input; a text file, with --follow one that grows; a folder in which
    files arrive, each read once and whole, the first by name next, with --follow for ever; or
    unix:PATH or tcp:HOST:PORT, where a program on this machine listens and sends an Arrow IPC
    stream. Text is JSON lines, or CSV after a line of names; a line is a row. A column is what its
    first cell says: a number, a date, an amount as $6,888.22, or else a category. Commas,
    semicolons, tabs or bars separate cells; between semicolons decimals may have commas.

    A row without a target is predicted. With --key it then waits for a record with the same key and
    a target, which needs no other columns; the oldest beyond --max-waiting are dropped. Text, truth
    values and whole numbers are classes, other targets quantities, as is $1,200, unless --task says
    so.

    With --checkpoint, a run that was killed goes on when the same command is given again, to the
    same model, byte for byte, with no row skipped or repeated, in the model or in the file of
    --predictions. Standard input and sockets cannot be read again: send the rows from the beginning
    once more, and those that are known are skipped; or from the row that the command names, with
    --skip 0. Ctrl-C and termination finish the row, write checkpoint and model, and end.

    Untuned, the default of streams learns: several ways side by side, of which those count that did
    best lately. Some options take another learner. --kernel, --length-scale, --forgetting and
    --regularization take the default of tables, sums over all rows; --max-size, --tolerance and a
    number as --step-size take KOMP, which makes gradient steps. With --expansion stream, --max-size
    keeps the default, and is the size of each of its ways.

    Rows are read as fast as they are learned and predictions are taken off, and no faster: whoever
    sends has to wait.
    """

    source: Annotated[
        str,
        typer.Argument(help="-, a file, a folder, unix:PATH or tcp:HOST:PORT.", show_default=False),
    ]
    target: Annotated[str, option("Column to predict.", _ARRIVING)]
    out: Annotated[Path | None, option("Model file to write at the end.", _RUN)] = None
    key: Annotated[
        str | None, option("Column that names rows, for labels that come later.", _ARRIVING)
    ] = None
    max_waiting: Annotated[int, option("Most rows that wait for a label (10,000).", _ARRIVING)] = (
        10_000
    )
    max_age: Annotated[
        int | None, option("Rows after which one waits no longer for its label.", _ARRIVING)
    ] = None
    exclude: Annotated[
        list[str] | None, option("Column that is no input; may be repeated.", _ARRIVING)
    ] = None
    delimiter: Annotated[
        str | None, option("Between cells of CSV; else found out from the names.", _ARRIVING)
    ] = None
    decimal: Annotated[
        str | None,
        option("Decimal mark of CSV: comma (default between semicolons) or point.", _ARRIVING),
    ] = None
    encoding: Annotated[str | None, option("Of text: utf-8 (default), latin-1, ...", _ARRIVING)] = (
        None
    )
    escape: Annotated[
        str | None,
        option("Before quotes and delimiters in cells: backslash.", _ARRIVING),
    ] = None
    widths: Annotated[
        str | None, option("Of columns without delimiters: 5,3,10 or 1-5,6-8.", _ARRIVING)
    ] = None
    null_values: Annotated[list[str] | None, option(_NULLS, _ARRIVING)] = None
    follow: Annotated[
        bool, option("At the end of a file or folder wait for more.", _ARRIVING, "--follow")
    ] = False
    skip: Annotated[
        int | None,
        option("Rows of standard input or a socket that are known already.", _ARRIVING),
    ] = None
    skip_bad: Annotated[
        bool, option("Count rows that cannot be used, and go on.", _ARRIVING, "--skip-bad")
    ] = False
    strict: Annotated[
        bool, option("Refuse cells that are no numbers, rather than take gaps.", _ARRIVING)
    ] = False
    task: Annotated[
        StreamTask, choice(StreamTask, "Guessed from the first target by default.", _LEARNING)
    ] = StreamTask.auto
    model: Annotated[Path | None, option("Model file to go on with.", _LEARNING)] = None
    predict_only: Annotated[
        bool, option("Learn nothing: --model answers as it is.", _LEARNING, "--predict-only")
    ] = False
    kernel: Annotated[
        str | None, option("Such as gaussian, laplacian." + _NO_STREAM, _LEARNING)
    ] = None
    length_scale: Annotated[
        str | None, option("Of the kernel, a number." + _NO_STREAM, _LEARNING)
    ] = None
    expansion: Annotated[
        ExpansionName | None,
        choice(ExpansionName, "How the model stays small; by default chosen.", _LEARNING),
    ] = None
    max_size: Annotated[
        int | None, option("Most dictionary points." + _KOMP_FOR_STREAM, _LEARNING)
    ] = None
    tolerance: Annotated[
        float | None,
        option("Error that compression may make in a step." + _KOMP_FOR_STREAM, _LEARNING),
    ] = None
    forgetting: Annotated[
        float | None,
        option("Factor of sums for each row, as 0.9999 for drift." + _NO_STREAM, _LEARNING),
    ] = None
    step_size: Annotated[str | None, option("auto, or a number." + _KOMP_FOR_STREAM, _LEARNING)] = (
        None
    )
    regularization: Annotated[float | None, option("Ridge parameter." + _NO_STREAM, _LEARNING)] = (
        None
    )
    seed: Annotated[int, option("Of everything random (0).", _LEARNING)] = 0
    predictions: Annotated[
        str | None, option("File to write predictions to, or - for standard output.", _ANSWERS)
    ] = None
    format: Annotated[
        StreamFormat | None,
        choice(StreamFormat, "Of predictions; arrow if the file ends so.", _ANSWERS),
    ] = None
    interval: Annotated[
        float | None,
        option("Share of quantities to be between lower and upper, such as 0.9.", _ANSWERS),
    ] = None
    every: Annotated[
        str, option("Between lines of measures: rows, or seconds as 5s (5s).", _ANSWERS)
    ] = "5s"
    checkpoint: Annotated[
        Path | None, option("Folder for what a run goes on from; made if need be.", _RUN)
    ] = None
    checkpoint_every: Annotated[
        str, option("Between checkpoints: rows, or seconds as 10s (10s).", _RUN)
    ] = "10s"
    quiet: Annotated[bool, option("No measures, no notes.", _RUN, "--quiet")] = False


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """Learn how much reward follows from a state, from logged steps of a policy.

    A row of the data is a step: the state it began in and the reward that followed. Its next state
    is in the next row of the same episode, rows being in the order of time; with --next, in columns
    of its own, such as next_x for x. Without --episode a new episode begins after each row that
    --terminal marks.

    An episode that ended for good is worth 0 from there on: --terminal is a column of truth values
    or 0 and 1, and --ends says that the last row of every episode ended it. Otherwise episodes were
    cut off, and their last row is a next state only.

    All columns that are nothing else make up the state, unless --state names them. The steps are
    held in memory. `mercer predict` then gives the `value` of states in a table. Printed are mean
    and root mean square of the temporal differences and, where episodes were seen to their end,
    `return_r2`, R² against the discounted rewards that followed.
    """

    data: Data
    out: Annotated[Path, option("Model file to write.", _RUN)]
    reward: Annotated[str, option("Column of the rewards.", _STEPS)]
    discount: Annotated[
        float, option("Of rewards for each step that they are ahead, such as 0.99.", _LEARNING)
    ]
    state: Annotated[
        list[str] | None, option("Column of the state; may be repeated (all others).", _STEPS)
    ] = None
    episode: Annotated[str | None, option("Column of the episode of a row.", _STEPS)] = None
    terminal: Annotated[
        str | None, option("Column that says whether the episode ended for good.", _STEPS)
    ] = None
    ends: Annotated[
        bool, option("The last row of each episode ended it for good.", _STEPS, "--ends")
    ] = False
    next_prefix: Annotated[
        str | None, option("Prefix of the columns of the next state.", _STEPS, "--next")
    ] = None
    exclude: Annotated[
        list[str] | None, option("Column that is no part of the state, as the action.", _STEPS)
    ] = None
    scaling: Annotated[
        Scaling, choice(Scaling, "Of numbers; auto: none where the kernel is auto.", _STEPS)
    ] = Scaling.auto
    categories: Annotated[
        int, option("Most categories of a column with inputs of their own (128).", _STEPS)
    ] = 128
    method: Annotated[
        ValueMethod, choice(ValueMethod, "td by default; gtd2, tdc off the policy.", _LEARNING)
    ] = ValueMethod.td
    kernel: Annotated[str | None, option("Such as gaussian, laplacian.", _LEARNING)] = None
    length_scale: Annotated[
        str | None, option("Of the kernel: a number, median or half-median.", _LEARNING)
    ] = None
    max_size: Annotated[int | None, option("Most dictionary points (1,000).", _LEARNING)] = None
    step_size: Annotated[str | None, option("A number, or auto.", _LEARNING)] = None
    regularization: Annotated[float | None, option("Ridge parameter (1e-6).", _LEARNING)] = None
    batch_size: Annotated[int | None, option("Transitions per step (32).", _LEARNING)] = None
    passes: Annotated[int | None, option("Passes over the transitions; chosen.", _RUN)] = None
    seed: Annotated[int, option("Of everything random (0).", _RUN)] = 0
    jobs: Annotated[int | None, option("Threads (1); -1 for all cores.", _RUN)] = None
    test: Annotated[str | None, option("Steps to measure on, with the same columns.", _STEPS)] = (
        None
    )
    as_json: Annotated[bool, option("Print one JSON object.", _RUN, "--json")] = False
    quiet: Annotated[bool, option("No notes.", _RUN, "--quiet")] = False
