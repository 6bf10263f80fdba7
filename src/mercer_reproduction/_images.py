"""Images as inputs of learners: MNIST, CIFAR-10, and what DSG does with features."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer_reproduction._data import Split, _table
from mercer_reproduction._data_files import load_arrays

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

# Rows that principal axes are computed from: more do not move them.
_ROWS_FOR_AXES = 20_000


def mnist_10(data: Path | None, n_components: int) -> Split:
    """MNIST with labels 0 to 9: rows of norm 1, the first components of an uncentred PCA.

    60,000 images for training, 10,000 for testing. DSG has 8 million distorted copies of them.
    """
    (X, y), (X_test, y_test) = (_table(data, name) for name in ("mnist_train", "mnist_test"))
    for part in (X, X_test):
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    project = uncentred_projection(X, n_components)
    return Split(project(X), y, project(X_test), y_test)


def cifar10(directory: Path) -> Split:
    """Read ``cifar10_5k.npz``: images as they are, of shape (n_images, 32, 32, 3), 0 to 1."""
    arrays = load_arrays("cifar10_5k.npz", directory)
    parts: list[Any] = []
    for part in ("train", "test"):
        parts.append(arrays[f"{part}_x"].astype(np.float32) / np.float32(255))
        parts.append(arrays[f"{part}_y"].astype(np.float64))
    return Split(*parts)


def digits(data: Path | None) -> Split:
    """MNIST as images of shape (n_images, 1, 28, 28), 0 to 255, with labels 0 to 9."""
    parts: list[Any] = []
    for name in ("mnist_train", "mnist_test"):
        X, y = _table(data, name)
        parts += [X.astype(np.uint8).reshape(-1, 1, 28, 28), y.astype(np.int64)]
    return Split(*parts)


def photographs(data: Path | None) -> Split:
    """All of CIFAR-10 as images of shape (n_images, 3, 32, 32), 0 to 255, with labels 0 to 9."""
    from PIL import Image

    table = load_arrays("cifar10_jpeg.parquet", data)
    if "jpeg" in table:
        images = [Image.open(io.BytesIO(file)).convert("RGB") for file in table["jpeg"]]
        X = np.stack([np.asarray(image) for image in images]).transpose(0, 3, 1, 2)
        y, test = table["label"].astype(np.int64), table["split"] == "test"
        parts = [X[~test], y[~test], X[test], y[test]]
    else:  # the files of its authors, which lose nothing
        parts = []
        for part in ("train", "test"):
            X, y = table[f"{part}_x"], table[f"{part}_y"]
            parts += [X.transpose(0, 3, 1, 2), y.astype(np.int64)]
    return Split(*map(np.ascontiguousarray, parts))


@dataclass(frozen=True)
class Projection:
    """Takes rows to their components along some axes, the columns of a matrix."""

    axes: Rows

    def __call__(self, rows: Rows) -> Rows:
        """Return components, (n_rows, n_components)."""
        return rows @ self.axes


def uncentred_projection(X: Rows, n_components: int) -> Projection:
    """Projection on the leading eigenvectors of X'X: PCA without centring (DSG, Section 7.4).

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows; the first 20,000 are used.
    n_components : int
        Number of eigenvectors; all of them if there are no more.

    Returns
    -------
    project : Projection
        Takes rows of ``n_inputs`` numbers to rows of ``n_components``.

    Examples
    --------
    >>> project = uncentred_projection(np.array([[3.0, 0.1], [4.0, 0.0]], np.float32), 1)
    >>> np.abs(project(np.array([[2.0, 0.0]], np.float32))).round(2)
    array([[2.]], dtype=float32)
    """
    head = X[:_ROWS_FOR_AXES]
    _, axes = np.linalg.eigh((head.T @ head).astype(np.float64))
    leading = np.ascontiguousarray(axes[:, ::-1][:, :n_components], dtype=np.float32)
    return Projection(leading)
