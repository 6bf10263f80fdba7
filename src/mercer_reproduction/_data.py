"""The classification problems of DSG, Section 7, from files of the data directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.kernels import Gaussian
from mercer_reproduction._data_files import load_arrays

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

_COVTYPE_NUMERIC = 10  # the other columns are indicators
_COVTYPE_HELD_OUT = 0.1


class Split(NamedTuple):
    """Training and test rows; inputs in float32, labels -1 and +1.

    Attributes
    ----------
    X, y : ndarrays of shapes (n_rows, n_inputs) and (n_rows,)
        For training.
    X_test, y_test : ndarrays of shapes (n_test, n_inputs) and (n_test,)
        For testing.
    """

    X: Rows
    y: Array
    X_test: Rows
    y_test: Array

    def subsample(self, n_rows: int, n_test: int, seed: int) -> Split:
        """At most so many rows of each part, drawn at random."""
        rng = np.random.default_rng(seed)
        train = rng.permutation(len(self.X))[:n_rows]
        test = rng.permutation(len(self.X_test))[:n_test]
        return Split(self.X[train], self.y[train], self.X_test[test], self.y_test[test])


def adult(data: Path | None) -> Split:
    """Adult: 123 indicators, 32,561 rows for training and 16,281 for testing, as given."""
    return Split(*_table(data, "adult_train"), *_table(data, "adult_test"))


def covtype(data: Path | None, seed: int = 0) -> Split:
    """Forest covers, class 2 against the rest: 54 inputs, 90 % for training (522,911 rows).

    The ten numeric columns are standardised by the training rows, the 44 indicators left as they
    are. DSG does not state its scaling.
    """
    X, y = _table(data, "covtype", drop=("Cover_Type",))
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = int(_COVTYPE_HELD_OUT * len(X))
    test, train = order[:n_test], order[n_test:]
    numeric = slice(0, _COVTYPE_NUMERIC)
    X_train, X_test = X[train], X[test]
    X_train[:, numeric], X_test[:, numeric] = standardised(X_train[:, numeric], X_test[:, numeric])
    return Split(X_train, y[train], X_test, y[test])


def mnist_8_6(data: Path | None, n_components: int = 50) -> Split:
    """MNIST, 8 (+1) against 6 (-1): pixels / 255, the first 50 centred principal components.

    11,769 images for training, 1,932 for testing. DSG has 1.6 million distorted copies of them.
    """
    parts = []
    for name in ("mnist_train", "mnist_test"):
        X, y = _table(data, name)
        chosen = (y == 8) | (y == 6)
        parts.append((X[chosen] / np.float32(255), np.where(y[chosen] == 8, 1.0, -1.0)))
    (X, y), (X_test, y_test) = parts
    mean = X.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(np.cov((X - mean).T))
    axes = axes[:, ::-1][:, :n_components]
    project = [((A - mean) @ axes).astype(np.float32) for A in (X, X_test)]
    return Split(project[0], y, project[1], y_test)


def standardised(X: Rows, X_test: Rows) -> tuple[Rows, Rows]:
    """Both with mean 0 and standard deviation 1 on the training rows; constants become 0."""
    mean = X.mean(axis=0, dtype=np.float64)
    spread = X.std(axis=0, dtype=np.float64)
    spread[spread == 0.0] = 1.0
    scaled = [((A - mean) / spread).astype(np.float32) for A in (X, X_test)]
    return scaled[0], scaled[1]


def median_distance(X: Rows, seed: int = 0) -> float:
    """Median distance of rows, from a sample of them: the paper's "median trick"."""
    resolved = Gaussian("median").resolve(X, random_state=seed)
    return float(resolved.get_params()["length_scale"])


def _table(data: Path | None, name: str, drop: Sequence[str] = ()) -> tuple[Rows, Array]:
    table = load_arrays(f"{name}.parquet", data)
    labels = table["label"].astype(np.float64)
    columns = [c for c in table if c not in ("label", *drop)]
    X = np.empty((labels.size, len(columns)), np.float32)
    for place, column in enumerate(columns):
        X[:, place] = table[column]
    return X, labels
