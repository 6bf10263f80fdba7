"""``mercer demo``: handwritten digits, from a file of pixels to a model and a report."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from mercer.maps import Leaves
from mercer_app.cli._fit import train
from mercer_app.cli._options import DemoOptions
from mercer_app.cli._report import evaluated, figures_of, report
from mercer_app.messages import note
from mercer_app.models.files import arrow_columns, table_writer
from mercer_app.report import race_section
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining

_PIXELS = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
_PICTURES = {"Learning curve": "learning_curve.png", "Model order": "model_order.png"}


def run(options: DemoOptions) -> None:
    """Learn to read handwritten digits, and show the result."""
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    train_file, test_file = write_digits(out)
    training = FileTraining(train_file, "digit", scaling="common").start()
    model_file = out / "digits.mercer"
    note(f"learning to read 8 x 8 images of digits, one pass over {train_file}")
    speed = train(training, model_file, checkpoint_every=None, quiet=False)
    reads = training.rows_
    evaluation = evaluated(reads, test_file, pictured=True)
    report(
        out / "report.html",
        reads,
        title="Handwritten digits",
        evaluation=evaluation,
        settings={"data": train_file.name, "test data": test_file.name},
        notes=["The digits of scikit-learn; a random quarter of the images is held out."],
    )
    write_pictures(reads, out)
    command = _command()
    accuracy = 100.0 - evaluation.measures["error_percent"]
    typer.echo(
        f"accuracy on the {evaluation.measures['rows']} held-out images: {accuracy:.1f} %\n"
        f"{_size(reads, training.n_rows_)}\n"
        f"time: {speed}\n"
        "\n"
        f"Look at {out / 'report.html'} in a browser. Then try\n"
        f"  {command} inspect {model_file}\n"
        f"  {command} evaluate {model_file} {test_file}\n"
        f"  {command} predict {model_file} {test_file} --out {out / 'predictions.csv'}\n"
        f"  {command} fit {train_file} --target digit --expansion komp --max-size 300 "
        f"--passes 5 --out {out / 'mine.mercer'} --test {test_file}\n"
        f"or `{command} fit YOUR-TABLE.csv --target COLUMN --out MODEL` on data of your own."
    )


def _command() -> str:
    """Return what to type for mercer: its path as it was called, if the name leads nowhere else."""
    called, found = Path(sys.argv[0]), shutil.which("mercer")
    if called.stem != "mercer" or not called.exists():
        return "mercer"  # called from Python
    if found is not None and called.samefile(found):
        return "mercer"
    return shlex.quote(str(called))


def _size(reads: TableRows, n_images: int) -> str:
    order = reads.estimator.model_order_
    if hasattr(reads.estimator, "dictionary_"):
        return f"model order: {order:,} of {n_images:,} training images are kept"
    parts = getattr(reads.estimator, "parts_", None)
    if parts:
        points = [len(part.dictionary) for part in parts if not isinstance(part.map, Leaves)]
        leaves = sum(part.map.n_outputs for part in parts if isinstance(part.map, Leaves))
        if set(points) - {n_images}:
            numbers = " and ".join(f"{n:,}" for n in points)
            kept = f"its kernels keep {numbers} points of {n_images:,} training images"
        elif len(points) > 1:
            kept = f"each of its {len(points)} kernels keeps all {n_images:,} training images"
        else:
            kept = f"it keeps all {n_images:,} training images"
        trees = f", and its trees have {leaves:,} leaves" if leaves else ""
        return f"model order {order:,}: {kept}{trees}"
    return f"model order: {order:,} random features"


def write_digits(folder: Path) -> tuple[Path, Path]:
    """Write scikit-learn's digits as tables for training and testing; return the two files."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    parts = train_test_split(
        digits.data.astype(np.uint8), digits.target, test_size=0.25, random_state=0
    )
    files = folder / "digits-train.parquet", folder / "digits-test.parquet"
    for file, X, y in zip(files, parts[:2], parts[2:], strict=True):
        with table_writer(file) as writer:
            writer.write(arrow_columns({**dict(zip(_PIXELS, X.T.copy(), strict=True)), "digit": y}))
    return files


def write_pictures(reads: TableRows, folder: Path) -> None:
    """Write the course of the run, the race and the dictionary as PNG images, as far as known."""
    for caption, figure in figures_of(reads):
        name = _PICTURES.get(caption.split(":")[0])
        if name is not None:
            figure.savefig(folder / name, dpi=120)
    race = race_section(reads.estimator)
    if race is not None:
        race.figures[0][1].savefig(folder / "race.png", dpi=120)
    estimator = reads.estimator
    if hasattr(estimator, "dictionary_"):
        points = estimator.dictionary_
    elif getattr(estimator, "parts_", None):
        heaviest = max(estimator.parts_, key=lambda part: part.weight)
        points = heaviest.map.preimage(heaviest.dictionary)
    else:
        return  # random features cannot be shown as images
    # Pixels that are always blank are not inputs of the model.
    places = [_PIXELS.index(name) for name in reads.preprocessor.feature_names_out()]
    images = np.zeros((len(points), len(_PIXELS)))
    images[:, places] = points
    draw_dictionary(images).savefig(folder / "dictionary.png")


def draw_dictionary(points: NDArray[np.floating], most: int = 100) -> Any:
    """Draw dictionary points as images of 8 x 8 pixels, the first ``most`` of them.

    Parameters
    ----------
    points : ndarray of shape (model_order, 64)
        Images, row by row.
    most : int, default=100
        Largest number of images.

    Returns
    -------
    figure : matplotlib Figure
        A square of images.
    """
    from matplotlib.figure import Figure

    shown = points[:most]
    side = int(np.ceil(np.sqrt(len(shown))))
    # One dark pixel between images.
    wall = np.full((side * 9 + 1, side * 9 + 1), shown.max(initial=1.0))
    for i, point in enumerate(shown):
        row, column = 1 + 9 * (i // side), 1 + 9 * (i % side)
        wall[row : row + 8, column : column + 8] = point.reshape(8, 8)
    figure = Figure(figsize=(6.0, 6.3), layout="constrained", dpi=120)
    ax = figure.subplots()
    ax.imshow(wall, cmap="gray_r", interpolation="nearest")
    ax.set_title(f"{len(shown)} of {len(points)} images that the model is built on")
    ax.axis("off")
    return figure
