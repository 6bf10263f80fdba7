"""Readers of the files in which data sets are usually handed on.

Each reader returns the arrays that the file of the data directory would hold, by column. Archives
of pickled Python objects are never read: they can run code.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer_reproduction._adult import adult_columns

Arrays = Mapping[str, NDArray[Any]]

#: What readers raise at files that are damaged, cut off or something else.
DAMAGED = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    EOFError,
    OSError,
    NotImplementedError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    csv.Error,
)

_OPENERS: Mapping[str, Callable[[Path], Any]] = {
    "": lambda path: path.open("rb"),
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_IDX_UNSIGNED_BYTES = 0x08
_CIFAR_ROW = 1 + 3 * 32 * 32
_FOREST_INPUTS = 54
_BRODATZ = {
    12: "bark", 94: "brick", 112: "bubbles", 9: "grass", 24: "leather", 92: "pigskin", 84: "raffia",
    29: "sand", 15: "straw", 38: "water", 16: "weave", 68: "wood", 19: "wool",
}  # fmt: skip


class Standard(NamedTuple):
    """Files in which a data set is usually found, and how to read them.

    Attributes
    ----------
    names : tuple of tuples of str
        Files that are all needed: for each of them the names that it may have. Packed files
        (.gz, .bz2, .xz) count as well.
    read : callable
        Takes the paths found; returns the arrays.
    """

    names: tuple[tuple[str, ...], ...]
    read: Callable[[Sequence[Path]], Arrays]

    def paths(self, directory: Path) -> list[Path] | None:
        """Return the files, or None if one of them is not there."""
        found = [_first(directory, names) for names in self.names]
        return [path for path in found if path is not None] if None not in found else None


def read_standard(name: str, directory: Path) -> Arrays | None:
    """Read a data set from the files in which it is usually handed on.

    Parameters
    ----------
    name : str
        Key of :data:`mercer_reproduction.DATA_FILES`.
    directory : Path
        Where the files are.

    Returns
    -------
    arrays : mapping of str to ndarray, or None
        What the file ``name`` would hold; None if no such files are there.

    Raises
    ------
    ValueError
        If a file is not what its name says.
    """
    for standard in _STANDARDS.get(name, ()):
        paths = standard.paths(directory)
        if paths is None:
            continue
        try:
            return standard.read(paths)
        except DAMAGED as error:
            files = " and ".join(path.name for path in paths)
            raise ValueError(
                f"{files} in {directory} cannot be read as {name.partition('.')[0]}: {error}. It "
                "may be damaged, cut off or something else of the same name; get it again."
            ) from error
    return None


def has_standard(name: str, directory: Path) -> bool:
    """Whether there are files that :func:`read_standard` would read."""
    return any(standard.paths(directory) for standard in _STANDARDS.get(name, ()))


def standard_names(name: str) -> list[str]:
    """Names of files that are read in the place of ``name``, alternatives one by one."""
    return [" and ".join(n[0] for n in standard.names) for standard in _STANDARDS.get(name, ())]


def with_columns(X: NDArray[Any], names: Sequence[str], **others: NDArray[Any]) -> Arrays:
    """Name the columns of a matrix, and put other columns after them."""
    if X.ndim != 2 or X.shape[1] != len(names):
        raise ValueError(f"{len(names)} inputs were expected, got an array of shape {X.shape}")
    return {**{column: X[:, i] for i, column in enumerate(names)}, **others}


def forest_columns(X: NDArray[Any], kind: NDArray[Any]) -> Arrays:
    """Columns of the forest covers: 54 inputs, the label of class 2, the class.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 54)
        Inputs in the order of ``covtype.data``.
    kind : ndarray of shape (n_rows,)
        Cover types, 1 to 7.
    """
    if not np.isin(kind, np.arange(1, 8)).all():
        raise ValueError("cover types must be 1 to 7")
    names = [f"c{i + 1}" for i in range(_FOREST_INPUTS)]
    label = np.where(kind == 2, 1, -1).astype(np.int8)
    return with_columns(X, names, label=label, Cover_Type=kind.astype(np.uint8))


def _first(directory: Path, names: Sequence[str]) -> Path | None:
    candidates = (directory / f"{name}{packed}" for name in names for packed in _OPENERS)
    return next((path for path in candidates if path.is_file()), None)


def _bytes(path: Path) -> bytes:
    opener = _OPENERS.get(path.suffix, _OPENERS[""])
    with opener(path) as file:
        return bytes(file.read())


def _idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes: two zeros, a type, the sizes, the numbers."""
    content = _bytes(path)
    if len(content) < 4 or content[:3] != bytes((0, 0, _IDX_UNSIGNED_BYTES)):
        raise ValueError(f"{path.name} does not begin like an IDX file of bytes")
    start = 4 + 4 * content[3]
    sizes = np.frombuffer(content[4:start], ">u4").astype(int)
    return np.frombuffer(content[start:], np.uint8).reshape(sizes)


def _mnist_idx(paths: Sequence[Path]) -> Arrays:
    images, labels = map(_idx, paths)
    return _mnist(images, labels)


def _mnist(images: NDArray[Any], labels: NDArray[Any]) -> Arrays:
    if images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise ValueError(f"images of shape {images.shape} and labels of shape {labels.shape}")
    return with_columns(
        images.reshape(len(images), -1), [f"p{i}" for i in range(784)], label=labels
    )


def _mnist_npz(part: str) -> Callable[[Sequence[Path]], Arrays]:
    def read(paths: Sequence[Path]) -> Arrays:
        with np.load(paths[0]) as arrays:
            return _mnist(arrays[f"x_{part}"], arrays[f"y_{part}"])

    return read


def _libsvm(n_inputs: int) -> Callable[[Sequence[Path]], Arrays]:
    def read(paths: Sequence[Path]) -> Arrays:
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(
            io.BytesIO(_bytes(paths[0])), n_features=n_inputs, dtype=np.float32, zero_based=False
        )
        if not np.isin(y, (-1.0, 1.0)).all():
            raise ValueError("labels must be -1 and +1")
        return with_columns(X.toarray(), [f"f{i + 1}" for i in range(n_inputs)], label=y)

    return read


def _people(path: Path) -> list[list[str]]:
    """Rows of ``adult.data`` or ``adult.test``; the second has a first line that is none."""
    text = _bytes(path).decode("ascii").splitlines()
    return [row for row in csv.reader(text, skipinitialspace=True) if len(row) > 1]


def _adult_train(paths: Sequence[Path]) -> Arrays:
    people = _people(paths[0])
    return adult_columns(people, people)


def _adult_test(paths: Sequence[Path]) -> Arrays:
    test, training = map(_people, paths)
    return adult_columns(test, training)


def _forest(paths: Sequence[Path]) -> Arrays:
    rows = np.loadtxt(io.BytesIO(_bytes(paths[0])), dtype=np.int16, delimiter=",", ndmin=2)
    return forest_columns(rows[:, :-1], rows[:, -1])


def _labelled_npz(paths: Sequence[Path]) -> Arrays:
    with np.load(paths[0]) as arrays:
        X, y = arrays["X"], np.asarray(arrays["y"]).ravel()
    return with_columns(
        X, [f"f{i + 1}" for i in range(X.shape[1])], label=np.where(y > 0, 1, -1).astype(np.int8)
    )


def _csv(columns: Mapping[str, str]) -> Callable[[Sequence[Path]], Arrays]:
    """Read numbers under headings: keys as in the file, values as they are to be called."""

    def read(paths: Sequence[Path]) -> Arrays:
        lines = _bytes(paths[0]).decode("utf-8-sig").splitlines()
        head = [word.strip().strip('"') for word in lines[0].split(",")]
        missing = [name for name in columns if name not in head]
        if missing:
            raise ValueError(f"the first line does not name {', '.join(missing)}")
        places = [head.index(name) for name in columns]
        rows = np.loadtxt(lines[1:], delimiter=",", usecols=places, ndmin=2)
        return {name: rows[:, i] for i, name in enumerate(columns.values())}

    return read


def _cifar(n_train: int, n_test: int) -> Callable[[Sequence[Path]], Arrays]:
    """Read the first images of the training files, and of the test file, which is the last."""

    def read(paths: Sequence[Path]) -> Arrays:
        found: dict[str, NDArray[Any]] = {}
        parts = {"train": (paths[:-1], n_train), "test": (paths[-1:], n_test)}
        for part, (files, n_rows) in parts.items():
            bytes_ = np.frombuffer(b"".join(map(_bytes, files)), np.uint8)
            rows = bytes_.reshape(-1, _CIFAR_ROW)[:n_rows]
            if rows[:, 0].max() > 9:
                raise ValueError("labels must be 0 to 9")
            found[f"{part}_x"] = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            found[f"{part}_y"] = rows[:, 0]
        return found

    return read


def _qm7(paths: Sequence[Path]) -> Arrays:
    from scipy.io import loadmat

    content = loadmat(io.BytesIO(_bytes(paths[0])))
    energies = np.ravel(content["T"])
    fold = np.zeros(energies.size, np.int8)
    for number, molecules in enumerate(np.asarray(content["P"], dtype=int)):
        fold[molecules] = number
    return {"X": content["X"], "T": energies, "fold": fold}


def _brodatz(paths: Sequence[Path]) -> Arrays:
    from PIL import Image

    images = [np.asarray(Image.open(io.BytesIO(_bytes(path))).convert("L")) for path in paths]
    if any(image.shape != images[0].shape for image in images):
        raise ValueError("the pages must all have one size")
    return {
        "images": np.array(images),
        "album_id": np.array(list(_BRODATZ)),
        "name": np.array(list(_BRODATZ.values())),
        "label": np.arange(len(_BRODATZ)),
    }


def _idx_names(part: str, kind: str) -> tuple[str, ...]:
    """Names of a file of MNIST: as published, with a dot, and where torchvision puts it."""
    return (f"{part}-{kind}-ubyte", f"{part}.{kind}-ubyte", f"MNIST/raw/{part}-{kind}-ubyte")


def _cifar_files(numbers: Sequence[int], read: Callable[[Sequence[Path]], Arrays]) -> Standard:
    names = [*(f"data_batch_{number}.bin" for number in numbers), "test_batch.bin"]
    return Standard(tuple((f"cifar-10-batches-bin/{name}", name) for name in names), read)


def _mnist_files(part: str, shorter: str) -> tuple[Standard, ...]:
    names = _idx_names(f"{part}-images", "idx3"), _idx_names(f"{part}-labels", "idx1")
    return Standard(names, _mnist_idx), Standard((("mnist.npz",),), _mnist_npz(shorter))


_STANDARDS: Mapping[str, tuple[Standard, ...]] = {
    "mnist_train.parquet": _mnist_files("train", "train"),
    "mnist_test.parquet": _mnist_files("t10k", "test"),
    "adult_train.parquet": (
        Standard((("a9a",),), _libsvm(123)),
        Standard((("adult.data",),), _adult_train),
    ),
    "adult_test.parquet": (
        Standard((("a9a.t",),), _libsvm(123)),
        Standard((("adult.test",), ("adult.data",)), _adult_test),
    ),
    "covtype.parquet": (Standard((("covtype.data", "covtype/covtype.data"),), _forest),),
    "ijcnn1_train.parquet": (Standard((("ijcnn1",),), _libsvm(22)),),
    "ijcnn1_test.parquet": (Standard((("ijcnn1.t",),), _libsvm(22)),),
    "mammography.parquet": (Standard((("23_mammography.npz",),), _labelled_npz),),
    "protein_casp.parquet": (
        Standard(
            (("CASP.csv",),), _csv({**{f"F{i}": f"F{i}" for i in range(1, 10)}, "RMSD": "rmsd"})
        ),
    ),
    "lidar.parquet": (
        Standard((("lidar.csv",),), _csv({"range": "range", "logratio": "logratio"})),
    ),
    "cifar10_5k.npz": (_cifar_files((1,), _cifar(4_000, 1_000)),),
    "cifar10_jpeg.parquet": (_cifar_files((1, 2, 3, 4, 5), _cifar(50_000, 10_000)),),
    "qm7_7101.npz": (Standard((("qm7.mat",),), _qm7),),
    "brodatz13.npz": (Standard(tuple((f"D{page}.gif",) for page in _BRODATZ), _brodatz),),
}
