"""The files of the data directory that experiments read: what is in them, where data come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["DATA_FILES", "require_files"]

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
        "numbers 0 to 255, train_y and test_y with labels 0 to 9; 4,000 and 1,000 images, or more. "
        "From https://www.cs.toronto.edu/~kriz/cifar.html"
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
}


def require_files(directory: Path | None, files: Sequence[str]) -> None:
    """Check that the data directory has these files.

    Raises
    ------
    ValueError
        If files are needed and no directory is given.
    FileNotFoundError
        If some are missing; says what is in them and where the data are to be had.
    """
    if not files:
        return
    if directory is None:
        missing, problem = list(files), "No data directory is given"
    else:
        missing = [name for name in files if not (directory / name).is_file()]
        problem = f"The data directory {directory} has not all that is needed"
    if not missing:
        return
    lines = [f"  {name}: {DATA_FILES.get(name, 'see the experiment')}." for name in missing]
    kind = ValueError if directory is None else FileNotFoundError
    raise kind(
        f"{problem}: {' and '.join(missing)}. Write the data there (Parquet files for example by "
        "pandas.DataFrame.to_parquet), and name the directory by `--data` or the environment "
        "variable MERCER_DATA:\n" + "\n".join(lines)
    )
