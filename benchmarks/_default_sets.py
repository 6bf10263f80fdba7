"""The sets of ``default_learner.py`` and ``suite.py``, and scikit-learn's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mercer_reproduction._coulomb import load_qm7
from mercer_reproduction._data_files import load_parquet_dataset
from mercer_reproduction._images import cifar10

TEST_SHARE = 0.2
#: Training rows up to which a run is short, and its split decides a good deal of its error.
SMALL = 1000
#: Sizes of the smaller training sets; 0 is all rows.
SIZES = (0, SMALL, 10_000)


class Table(NamedTuple):
    """All rows of a set, and which of them are for testing.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs as read; float32 for images, float64 otherwise.
    y : ndarray of shape (n_rows,)
        Labels or targets.
    test : callable or None
        Mask of the test rows, of shape (n_rows,), from the seed; None for a random fifth.
    """

    X: np.ndarray
    y: np.ndarray
    test: Callable[[int], np.ndarray] | None = None


@dataclass(frozen=True)
class Source:
    """Where a set comes from and how it is to be treated.

    Attributes
    ----------
    read : callable
        Makes a :class:`Table` of the data folder.
    words : str
        What is learned, for people.
    regression : bool, default=False
        Whether targets are numbers.
    standardise : bool, default=True
        Whether columns are standardised on the training rows; images are not.
    files : bool, default=True
        Whether the data folder is needed.
    ordered : bool, default=False
        Whether rows stay in their order: no shuffling, and smaller training sets are the latest
        rows before the test rows.
    """

    read: Callable[[Path | None], Table]
    words: str
    regression: bool = False
    standardise: bool = True
    files: bool = True
    ordered: bool = False


class Split(NamedTuple):
    """Rows as every method gets them; targets of regressions have mean 0 and variance 1."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def head(self, n_rows: int) -> Split:
        """At most so many training rows."""
        return self._replace(X=self.X[:n_rows], y=self.y[:n_rows])


def load(name: str, seed: int, size: int = 0, directory: Path | None = None) -> Split:
    """One split of a set.

    Parameters
    ----------
    name : str
        Key of :data:`SOURCES`.
    seed : int
        Orders the training rows, and chooses the test rows where no split is given.
    size : int, default=0
        Training rows at most; 0 for all. The test rows are the same for all sizes.
    directory : Path or None, default=None
        Data folder; None for the one that the variable MERCER_DATA names.

    Returns
    -------
    split : Split
        Scaled by its training rows.
    """
    source = source_of(name)
    return prepare(source.read(directory), source, seed, size)


def prepare(table: Table, source: Source, seed: int, size: int = 0) -> Split:
    """Split and scale a table, see :func:`load`."""
    X, y, given = table
    order = np.arange(len(X)) if source.ordered else np.random.default_rng(seed).permutation(len(X))
    if given is None:
        n_test = round(TEST_SHARE * len(X))
        test, train = order[:n_test], order[n_test:]
    else:
        held_out = given(seed)
        test, train = np.flatnonzero(held_out), order[~held_out[order]]
    if size:
        train = train[-size:] if source.ordered else train[:size]
    X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    if source.standardise:
        # A column that is constant on the training rows is only centred, not divided by nothing.
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    if source.regression:
        mean, spread = y.mean(), y.std()
        y, y_test = (y - mean) / spread, (y_test - mean) / spread
    return Split(X, y, X_test, y_test)


def data_directory(given: str | None = None) -> Path | None:
    """The folder of the data sets: as given, or named by MERCER_DATA; None without either."""
    found = given or os.environ.get("MERCER_DATA")
    return Path(found) if found else None


# -- readers --------------------------------------------------------------------------------------


def _columns(directory, name, target="label", drop=(), dtype=np.float64):
    table = load_parquet_dataset(name, directory)
    names = [c for c in table.column_names if c not in (target, *drop)]
    X = np.empty((table.num_rows, len(names)), dtype)
    for place, column in enumerate(names):
        X[:, place] = table.column(column).to_numpy()
    return X, table.column(target).to_numpy()


def _given(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Table:
    held_out = np.arange(len(X) + len(X_test)) >= len(X)
    return Table(np.concatenate([X, X_test]), np.concatenate([y, y_test]), lambda seed: held_out)


def _two_files(name: str, dtype: Any = np.float64, divisor: float = 1.0):
    def read(directory: Path | None) -> Table:
        parts = [_columns(directory, f"{name}_{part}", dtype=dtype) for part in ("train", "test")]
        (X, y), (X_test, y_test) = parts
        return _given(X / dtype(divisor), y, X_test / dtype(divisor), y_test)

    return read


def _one_file(name: str, target: str = "label", drop: tuple[str, ...] = ()):
    return lambda directory: Table(*_columns(directory, name, target, drop))


def _covtype_7(directory: Path | None) -> Table:
    X, kind = _columns(directory, "covtype", "Cover_Type", ("label",))
    return Table(X[kind > 0], kind[kind > 0])


def _elec2_in_order(directory: Path | None) -> Table:
    X, y = _columns(directory, "elec2", drop=("date", "nswprice"))
    late = np.arange(len(X)) >= round((1.0 - TEST_SHARE) * len(X))
    return Table(X, y, lambda seed: late)


def _cifar10(directory: Path | None) -> Table:
    split = cifar10(directory or data_directory())
    flat = [part.reshape(len(part), -1) for part in (split.X, split.X_test)]
    return _given(flat[0], split.y.astype(int), flat[1], split.y_test.astype(int))


def _qm7(directory: Path | None) -> Table:
    """Eigenvalues of the Coulomb matrices, largest magnitude first: the order of atoms is gone."""
    molecules = load_qm7(directory or data_directory())
    values = np.linalg.eigvalsh(molecules.matrices.astype(np.float64))
    order = np.argsort(-np.abs(values), axis=1, kind="stable")
    X = np.take_along_axis(values, order, axis=1)
    return Table(X, molecules.energies, lambda seed: molecules.fold == seed % 5)


def _bundled(load_set: Callable[..., Any]):
    return lambda directory: Table(*load_set(return_X_y=True))


def _of_suite(name: str, regression: bool) -> Source:
    """A table of the suite: columns as they are, nominal ones in integer codes."""

    def read(directory: Path | None) -> Table:
        X, y = _columns(directory / "suite", name, "target")
        if not regression:
            y = np.unique(y, return_inverse=True)[1]

        def test(seed: int) -> np.ndarray:
            rows = np.arange(len(y))
            strata = None if regression else y
            _, out = train_test_split(
                rows, test_size=TEST_SHARE, random_state=seed, stratify=strata
            )
            return np.isin(rows, out)

        return Table(X, y, test)

    return Source(read, name.replace("_", " "), regression=regression, standardise=False)


def source_of(name: str) -> Source:
    """A set by its name, whichever benchmark it is of."""
    return SUITE[name] if name in SUITE else SOURCES[name]


#: The tables of ``suite/`` in the data folder.
SUITE = {
    **{
        name: _of_suite(name, regression=True)
        for name in (
            "218_house_8L",
            "503_wind",
            "abalone",
            "ccpp",
            "concrete",
            "diamonds",
            "elevators",
            "kin8nm",
            "skillcraft",
        )
    },
    **{
        name: _of_suite(name, regression=False)
        for name in (
            "banana",
            "car",
            "churn",
            "credit_g",
            "hypothyroid",
            "krkopt",
            "optdigits",
            "page_blocks",
            "phoneme",
            "satimage",
            "segmentation",
            "spambase",
            "waveform_21",
            "wine_quality_white",
        )
    },
}

#: The sets, in the order of the tables.
SOURCES = {
    "mnist": Source(_two_files("mnist", np.float32, 255.0), "10 digits", standardise=False),
    "adult": Source(_two_files("adult"), "income, 2 classes"),
    "covtype": Source(_one_file("covtype", drop=("Cover_Type",)), "cover 2 against the rest"),
    "covtype7": Source(_covtype_7, "7 covers, the rows whose cover is known"),
    "ijcnn1": Source(_two_files("ijcnn1"), "misfires, 2 classes"),
    "skin": Source(_one_file("skin"), "skin colours, 2 classes"),
    "mammography": Source(_one_file("mammography"), "calcifications, 2 classes"),
    "elec2": Source(_one_file("elec2", drop=("date", "nswprice")), "price up, random split"),
    "elec2_order": Source(_elec2_in_order, "price up, the last fifth of the time", ordered=True),
    "cifar10_5k": Source(_cifar10, "10 things, 4,000 pictures", standardise=False),
    "protein_casp": Source(_one_file("protein_casp", "rmsd"), "distance", regression=True),
    "california": Source(
        _one_file("california_housing", "median_house_value"), "prices", regression=True
    ),
    "qm7": Source(_qm7, "energies, eigenvalues of Coulomb matrices", regression=True),
    "lidar": Source(_one_file("lidar", "logratio"), "a curve", regression=True),
    "digits": Source(_bundled(datasets.load_digits), "10 digits, 8 x 8", files=False),
    "breast_cancer": Source(_bundled(datasets.load_breast_cancer), "2 classes", files=False),
    "wine": Source(_bundled(datasets.load_wine), "3 classes", files=False),
    "iris": Source(_bundled(datasets.load_iris), "3 classes", files=False),
    "diabetes": Source(
        _bundled(datasets.load_diabetes), "progression", regression=True, files=False
    ),
}
