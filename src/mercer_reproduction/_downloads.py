"""Data sets that scikit-learn downloads from OpenML and elsewhere, and keeps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from mercer_reproduction._adult import adult_columns
from mercer_reproduction._standard_files import DAMAGED, Arrays, forest_columns, with_columns

_MNIST_TRAINING = 60_000
_ADULT_TEST = 16_281
# The first row of adult.data, which tells this file from adult.test.
_FIRST_OF_TRAINING = ["39", "State-gov", "77516"]
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


def _openml(name: str, version: int, parser: str | None = None) -> Any:
    from sklearn.datasets import fetch_openml

    # The faster parser needs pandas.
    parser = parser or ("pandas" if find_spec("pandas") else "liac-arff")
    return fetch_openml(name, version=version, as_frame=False, parser=parser)


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
    found = _openml("adult", 2, "liac-arff")  # pandas' would return words, not their numbers
    columns = [
        [_as_word(number, found.categories.get(name)) for number in column]
        for name, column in zip(found.feature_names, found.data.T, strict=True)
    ]
    people = [*map(list, zip(*columns, map(str, found.target), strict=True))]
    if _FIRST_OF_TRAINING not in (people[0][:3], people[_ADULT_TEST][:3]):
        raise ValueError("its rows are in an unknown order")
    if people[0][:3] == _FIRST_OF_TRAINING:
        test, training = people[-_ADULT_TEST:], people[:-_ADULT_TEST]
    else:
        test, training = people[:_ADULT_TEST], people[_ADULT_TEST:]
    return {
        "adult_train.parquet": adult_columns(training, training),
        "adult_test.parquet": adult_columns(test, training),
    }


def _as_word(number: float, values: Sequence[str] | None) -> str:
    """Write a field as in the file: a category by its number, ? if it is not known."""
    if np.isnan(number):
        return "?"
    return str(int(number)) if values is None else str(values[int(number)])


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
