"""The data of the pairwise experiments: imbalanced classes, pairs of digits, digits by value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from mercer_reproduction import _data
from mercer_reproduction._data_files import load_arrays
from mercer_reproduction._images import mnist_10

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Rows of the problems that are cut from larger files.
N_ROWS = 20_000
_TRAINING_SHARE = 0.7
_ASPEN = 5
_COVTYPE_NUMERIC = 10  # the other columns are indicators


class Sample(NamedTuple):
    """Rows to learn from and to test on, in float64; labels -1 and +1, or 0 to 9.

    Attributes
    ----------
    X, y : ndarrays of shapes (n_rows, n_inputs) and (n_rows,)
        For training, in the order in which they are to be visited.
    X_test, y_test : ndarrays of shapes (n_test, n_inputs) and (n_test,)
        For testing.
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array

    def validation(self, share: float = 0.2) -> Sample:
        """Training rows only, some of each class held out as test rows."""
        rows = np.arange(self.y.size)
        fit, held_out = train_test_split(
            rows, test_size=share, stratify=self.y, random_state=rows.size
        )
        fit.sort()
        return Sample(self.X[fit], self.y[fit], self.X[held_out], self.y[held_out])


@dataclass(frozen=True)
class Problem:
    """Two classes, one of them rare, from files.

    Attributes
    ----------
    name : str
        Name in tables.
    words : str
        What the rows and the positive class are.
    length_scale : float
        Of the Gaussian kernel, in units of the scaled inputs.
    read : callable
        Makes of the data directory either a split that others use, too, or all rows with none for
        testing; these are split here, 70 % for training.
    n_scaled : int or None, default=0
        So many first columns are standardised on the training rows; None for all.
    """

    name: str
    words: str
    length_scale: float
    read: Callable[[Path | None], Sample]
    n_scaled: int | None = 0

    def load(self, data: Path | None) -> Callable[..., Sample]:
        """Read the files once; the result makes splits of a seed, see :func:`_split`."""
        whole = self.read(data)

        def split(seed: int, n_rows: int | None = None, n_test: int | None = None) -> Sample:
            return _scaled(_split(whole, seed, n_rows, n_test), self.n_scaled)

        return split


def _split(whole: Sample, seed: int, n_rows: int | None, n_test: int | None) -> Sample:
    """Rows in an order of this seed; at most so many, the classes in their shares."""
    X, y, X_test, y_test = whole
    if not y_test.size:
        rows = np.arange(y.size)
        train, test = train_test_split(
            rows, train_size=_TRAINING_SHARE, stratify=y, random_state=seed
        )
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    train = _some(y, n_rows, seed)
    test = _some(y_test, n_test, seed)
    return Sample(X[train], y[train], X_test[test], y_test[test])


def _some(y: Array, n_rows: int | None, seed: int) -> Indices:
    """Row numbers in random order, at most so many, the classes in their shares."""
    rows = np.arange(y.size)
    if n_rows is None or n_rows >= y.size:
        return np.random.default_rng(seed).permutation(rows)
    chosen, _ = train_test_split(rows, train_size=n_rows, stratify=y, random_state=seed)
    return np.asarray(chosen)


def _scaled(sample: Sample, n_scaled: int | None) -> Sample:
    if n_scaled == 0:
        return sample
    X, X_test = sample.X.copy(), sample.X_test.copy()
    columns = slice(0, n_scaled)
    head = X[:, columns].astype(np.float32), X_test[:, columns].astype(np.float32)
    X[:, columns], X_test[:, columns] = _data.standardised(*head)
    return Sample(X, sample.y, X_test, sample.y_test)


# -- files ----------------------------------------------------------------------------------------


def _columns(data: Path | None, name: str, drop: tuple[str, ...]) -> tuple[Array, dict[str, Array]]:
    """Read the inputs of a file, and the columns that are none."""
    table = load_arrays(f"{name}.parquet", data)
    found = {column: values.astype(np.float64) for column, values in table.items()}
    others = {c: found.pop(c) for c in drop if c in found}
    return np.column_stack(list(found.values())), others


def _all_rows(X: Array, positive: NDArray[np.bool_]) -> Sample:
    """At most 20,000 of the rows, the same ones always, none of them for testing yet."""
    y = np.where(positive, 1.0, -1.0)
    rows = _some(y, N_ROWS, seed=0)
    return Sample(X[rows], y[rows], X[:0], y[:0])


def _adult(data: Path | None) -> Sample:
    return Sample(*(np.asarray(part, dtype=np.float64) for part in _data.adult(data)))


def _ijcnn1(data: Path | None) -> Sample:
    parts: list[Array] = []
    for part in ("train", "test"):
        X, others = _columns(data, f"ijcnn1_{part}", ("label",))
        parts += [X, others["label"]]
    return Sample(*parts)


def _mammography(data: Path | None) -> Sample:
    X, others = _columns(data, "mammography", ("label",))
    return _all_rows(X, others["label"] > 0.0)


def _aspen(data: Path | None) -> Sample:
    X, others = _columns(data, "covtype", ("label", "Cover_Type"))
    known = others["Cover_Type"] > 0.0
    return _all_rows(X[known], others["Cover_Type"][known] == _ASPEN)


def _protein(data: Path | None) -> Sample:
    X, others = _columns(data, "protein_casp", ("rmsd",))
    return _all_rows(X, others["rmsd"] < 1.0)


def _eight(data: Path | None) -> Sample:
    split = mnist_10(data, 50)
    return _all_rows(split.X.astype(np.float64), split.y == 8.0)


#: The problems, in the order of the tables.
PROBLEMS = (
    Problem("adult", "income above $50,000, 123 indicators", math.sqrt(10.0), _adult),
    Problem("ijcnn1", "22 inputs as given", 0.5, _ijcnn1),
    Problem("mammography", "calcifications, 6 inputs", math.sqrt(3.0), _mammography, None),
    Problem(
        "aspen",
        "forest cover 5 of 7, 54 inputs, the indicators as given",
        math.sqrt(5.0),
        _aspen,
        _COVTYPE_NUMERIC,
    ),
    Problem("protein", "decoys closer than 1 Å, 9 inputs", math.sqrt(4.5), _protein, None),
    Problem("digit 8", "MNIST, 50 components, rows of norm 1", math.sqrt(0.5), _eight),
)

#: Files that they are read from.
PROBLEM_FILES = (
    "adult_train.parquet",
    "adult_test.parquet",
    "ijcnn1_train.parquet",
    "ijcnn1_test.parquet",
    "mammography.parquet",
    "covtype.parquet",
    "protein_casp.parquet",
    "mnist_train.parquet",
    "mnist_test.parquet",
)


# -- digits ---------------------------------------------------------------------------------------


def digits(data: Path | None, n_rows: int, n_test: int, seed: int) -> Sample:
    """MNIST: pixels from 0 to 1 and labels 0 to 9, some of the training and test images."""
    parts: list[Array] = []
    for name, n in (("mnist_train", n_rows), ("mnist_test", n_test)):
        X, y = _data._table(data, name)
        rows = np.random.default_rng(seed).permutation(y.size)[:n]
        parts += [X[rows].astype(np.float64) / 255.0, y[rows]]
    return Sample(*parts)


def centred_pca(X: Array, n_components: int) -> Callable[[Array], Array]:
    """Projection on the principal axes of these rows, their mean taken away first.

    Examples
    --------
    >>> project = centred_pca(np.array([[1.0, 2.0], [1.0, 4.0]]), 1)
    >>> np.abs(project(np.array([[1.0, 5.0]]))).round(6)
    array([[2.]])
    """
    mean = X.mean(axis=0)
    _, axes = np.linalg.eigh(np.cov((X - mean).T))
    leading = axes[:, ::-1][:, :n_components].copy()
    return lambda rows: np.asarray((rows - mean) @ leading)


def rows_of_norm_one(X: Array) -> Array:
    """Divide every row by its norm; rows of zeros stay.

    Examples
    --------
    >>> rows_of_norm_one(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0.0, norms, 1.0))


def pairs_of_labels(labels: Array, n_pairs: int, seed: int) -> tuple[Indices, Indices]:
    """Random pairs of different rows, one half with the same label and one with two labels.

    Parameters
    ----------
    labels : ndarray of shape (n_rows,)
        Labels, at least two of them twice.
    n_pairs : int
        Number of pairs, even; the first half has the same label.
    seed : int
        Of the choice.

    Returns
    -------
    first, second : ndarrays of shape (n_pairs,)
        Row numbers.

    Examples
    --------
    >>> labels = np.array([0.0, 0.0, 1.0, 1.0])
    >>> first, second = pairs_of_labels(labels, 6, seed=0)
    >>> (labels[first] == labels[second]).tolist()
    [True, True, True, False, False, False]
    """
    rng = np.random.default_rng(seed)
    wanted = {True: n_pairs // 2, False: n_pairs // 2}
    found = {}
    for same, n in wanted.items():
        parts = [np.empty((0, 2), np.int64)]
        while sum(map(len, parts)) < n:
            drawn = rng.integers(0, labels.size, (4 * n_pairs, 2))
            agree = (labels[drawn[:, 0]] == labels[drawn[:, 1]]) == same
            parts.append(drawn[agree & (drawn[:, 0] != drawn[:, 1])])
        found[same] = np.concatenate(parts)[:n]
    pairs = np.concatenate([found[True], found[False]])
    return pairs[:, 0], pairs[:, 1]


def montage(rows: Sequence[Sequence[Array]], words: Sequence[str]) -> Callable[[Axes], object]:
    """Make what draws rows of grey images, each row with words beside it.

    Parameters
    ----------
    rows : sequence of sequences of ndarrays
        Images of one shape, numbers from 0 (white) to 1 (black); rows of one length.
    words : sequence of str
        What is written to the left of each row.

    Returns
    -------
    draw : callable
        Draws on matplotlib axes.
    """
    gap = 4
    padded = [[np.pad(image, gap) for image in row] for row in rows]
    picture = np.vstack([np.hstack(row) for row in padded])
    height = padded[0][0].shape[0]

    def draw(ax: Axes) -> None:
        ax.imshow(picture, cmap="gray_r", vmin=0.0, vmax=1.0, zorder=3)
        ax.set_yticks(height * (np.arange(len(words)) + 0.5), list(words))
        ax.set_xticks([])

    return draw
