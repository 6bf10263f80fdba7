"""Data sets that scikit-learn downloads from OpenML and elsewhere, and keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from mercer.reproduce._adult import adult_columns
from mercer.reproduce._standard_files import DAMAGED, Arrays, forest_columns, with_columns

__all__ = ["DOWNLOADS", "Download", "download_of"]

_MNIST_TRAINING = 60_000
_ADULT_TEST = 16_281
# The first row of adult.data, by which its rows are told from those of adult.test.
_FIRST_OF_TRAINING = {"age": 39, "workclass": "State-gov", "fnlwgt": 77516}
_MAMMOGRAPHY_POSITIVES = 260


class Download(NamedTuple):
    """A data set that can be downloaded.

    Attributes
    ----------
    source : str
        What is downloaded, and from where.
    files : tuple of str
        Files of the data directory in whose place it stands.
    read : callable
        Downloads, or reads what was kept; returns the arrays of each file.
    """

    source: str
    files: tuple[str, ...]
    read: Callable[[], Mapping[str, Arrays]]

    def __call__(self) -> Mapping[str, Arrays]:
        """Return the arrays of each file.

        Raises
        ------
        ConnectionError
            If it cannot be had, or is not what was expected.
        """
        try:
            with warnings.catch_warnings():
                # scikit-learn says so of every attempt; the last one is an error in any case.
                warnings.filterwarnings("ignore", message="A network error occurred")
                return self.read()
        except (*DAMAGED, HTTPException, ImportError) as error:
            raise ConnectionError(f"{self.source} could not be had ({error})") from error


def download_of(file: str) -> Download | None:
    """Return what can be downloaded in the place of a file of the data directory, if anything."""
    return next((download for download in DOWNLOADS if file in download.files), None)


def _openml(name: str, version: int, *, as_frame: bool = False) -> Any:
    from sklearn.datasets import fetch_openml

    # The faster parser needs pandas.
    parser = "pandas" if find_spec("pandas") else "liac-arff"
    return fetch_openml(name, version=version, as_frame=as_frame, parser=parser)


def _mnist() -> Mapping[str, Arrays]:
    found = _openml("mnist_784", 1)
    pixels, labels = np.asarray(found.data).astype(np.uint8), found.target.astype(np.uint8)
    names = [f"p{i}" for i in range(784)]
    parts = {"train": slice(None, _MNIST_TRAINING), "test": slice(_MNIST_TRAINING, None)}
    return {
        f"mnist_{part}.parquet": with_columns(pixels[rows], names, label=labels[rows])
        for part, rows in parts.items()
    }


def _adult() -> Mapping[str, Arrays]:
    if find_spec("pandas") is None:
        raise ImportError("its texts are read by pandas: `pip install pandas`")
    frame = _openml("adult", 2, as_frame=True).frame
    names = [*frame.columns[:-1]]
    first = [_as_word(frame.iloc[row][name]) for row in (0, _ADULT_TEST) for name in names[:3]]
    wanted = [_as_word(value) for value in _FIRST_OF_TRAINING.values()]
    if wanted not in (first[:3], first[3:]):
        raise ValueError("its rows are in an unknown order")
    people = [[_as_word(word) for word in row] for row in frame.itertuples(index=False)]
    if wanted == first[:3]:
        test, training = people[-_ADULT_TEST:], people[:-_ADULT_TEST]
    else:
        test, training = people[:_ADULT_TEST], people[_ADULT_TEST:]
    return {
        "adult_train.parquet": adult_columns(training, training),
        "adult_test.parquet": adult_columns(test, training),
    }


def _as_word(value: Any) -> str:
    """Write a field as in the file: whole numbers without a point, ? if it is not known."""
    if value is None or value != value:
        return "?"
    return str(int(value)) if isinstance(value, int | float | np.number) else str(value)


def _covtype() -> Mapping[str, Arrays]:
    from sklearn.datasets import fetch_covtype

    X, kind = fetch_covtype(return_X_y=True)
    return {"covtype.parquet": forest_columns(np.asarray(X, dtype=np.int16), kind)}


def _mammography() -> Mapping[str, Arrays]:
    found = _openml("mammography", 1)
    positive = np.array([float(str(word).strip("'\"")) > 0 for word in found.target])
    if positive.sum() != _MAMMOGRAPHY_POSITIVES:
        raise ValueError(f"{positive.sum()} positives instead of {_MAMMOGRAPHY_POSITIVES}")
    X = np.asarray(found.data, dtype=float)
    label = np.where(positive, 1, -1).astype(np.int8)
    columns = with_columns(X, [f"f{i + 1}" for i in range(6)], label=label)
    return {"mammography.parquet": columns}


#: All there are.
DOWNLOADS: Sequence[Download] = (
    Download("mnist_784 of OpenML", ("mnist_train.parquet", "mnist_test.parquet"), _mnist),
    Download("adult of OpenML", ("adult_train.parquet", "adult_test.parquet"), _adult),
    Download("covtype of scikit-learn's fetch_covtype", ("covtype.parquet",), _covtype),
    Download("mammography of OpenML", ("mammography.parquet",), _mammography),
)
