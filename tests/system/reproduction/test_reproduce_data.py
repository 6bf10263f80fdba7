"""Data of experiments: files of the data directory, the usual files, and downloads."""

import bz2
import gzip
import lzma
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file

from mercer_reproduction import DATA_FILES, Context, Experiment, Result
from mercer_reproduction import _data_files as data_files
from mercer_reproduction._adult import _FIELDS
from mercer_reproduction._data_files import load_arrays, require_files
from mercer_reproduction._downloads import DOWNLOADS, download_of
from mercer_reproduction._images import photographs
from mercer_reproduction._standard_files import _STANDARDS, standard_names

PACKERS = {"": lambda x: x, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
# The first rows of adult.data and of adult.test.
ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)
TEST_ROW = (
    "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, "
    "40, United-States, <=50K."
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No directory from outside, nothing downloaded before, no way to the network."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "kept"))
    monkeypatch.delenv("MERCER_DATA", raising=False)
    monkeypatch.setattr(data_files, "_downloaded", {})
    monkeypatch.setattr(data_files, "_failed", {})

    def refuse(*_, **__):
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", refuse)


def idx(array):
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def digits(n=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)


def pixels_of(arrays):
    return np.column_stack([arrays[f"p{i}"] for i in range(784)])


def write_idx(folder, part, images, labels, packed=""):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        path = folder / f"{part}-{kind}-ubyte{packed}"
        path.write_bytes(PACKERS[packed](idx(array)))


# -- the usual files ------------------------------------------------------------------------------


def test_every_data_set_is_known_under_another_name_and_described():
    assert set(_STANDARDS) == set(DATA_FILES)
    assert all(standard_names(name) for name in DATA_FILES)


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("below", ["", "MNIST/raw"])
def test_mnist_is_read_from_idx_files(packed, below, tmp_path):
    images, labels = digits()
    write_idx(tmp_path / below, "train", images, labels, packed)
    arrays = load_arrays("mnist_train.parquet", tmp_path)
    assert_array_equal(pixels_of(arrays), images.reshape(30, 784))
    assert_array_equal(arrays["label"], labels)
    with pytest.raises(FileNotFoundError, match="t10k-images-idx3-ubyte and t10k-labels"):
        load_arrays("mnist_test.parquet", tmp_path)


def test_mnist_is_read_from_an_archive_of_numpy(tmp_path):
    images, labels = digits()
    np.savez(
        tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=images[:9], y_test=labels[:9]
    )
    assert_array_equal(load_arrays("mnist_train.parquet", tmp_path)["label"], labels)
    test = load_arrays("mnist_test.parquet", tmp_path)
    assert_array_equal(pixels_of(test), images[:9].reshape(9, 784))


@pytest.mark.parametrize(("name", "n_inputs"), [("a9a", 123), ("ijcnn1", 22)])
@pytest.mark.parametrize("packed", PACKERS)
def test_libsvm_files_are_read(name, n_inputs, packed, tmp_path):
    rng = np.random.default_rng(0)
    parts = {}
    for part, ending in (("train", ""), ("test", ".t")):
        X = np.round(rng.random((20, n_inputs)) * (rng.random((20, n_inputs)) < 0.3), 3)
        X[:, -1] = 0.0  # inputs that a file does not name
        y = np.where(rng.random(20) < 0.5, 1, -1)
        path = tmp_path / f"{name}{ending}{packed}"
        dump_svmlight_file(X, y, str(path), zero_based=False)
        path.write_bytes(PACKERS[packed](path.read_bytes()))
        parts[part] = X, y
    for part, (X, y) in parts.items():
        key = {"a9a": "adult", "ijcnn1": "ijcnn1"}[name]
        arrays = load_arrays(f"{key}_{part}.parquet", tmp_path)
        assert_array_equal(arrays["label"], y)
        read = np.column_stack([arrays[f"f{i + 1}"] for i in range(n_inputs)])
        assert_array_equal(read, X.astype(np.float32))


def test_adult_is_read_from_its_fields(tmp_path):
    second = ROW.replace("State-gov", "?").replace("39", "26").replace("<=50K", ">50K")
    (tmp_path / "adult.data").write_text(f"{ROW}\n{second}\n\n")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{TEST_ROW}\n")
    training = load_arrays("adult_train.parquet", tmp_path)
    test = load_arrays("adult_test.parquet", tmp_path)
    assert [*training] == [*(f"f{i}" for i in range(1, 124)), "label"] == [*test]
    assert training["label"].tolist() == [-1, 1]
    assert test["label"].tolist() == [-1]
    X = np.column_stack([training[f"f{i}"] for i in range(1, 124)])
    # Ages of 33 to 40 and of 26 to 32; a class of work that is not known has no indicator.
    assert X[:, :5].tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert X[:, 5:13].sum(axis=1).tolist() == [1, 0]
    assert X.sum(axis=1).tolist() == [14, 13]
    assert X[:, 82].tolist() == [1, 1]  # United-States, the first of the countries


def test_adult_has_the_groups_of_a9a():
    """Widths of the fields in a9a, whose one-hot groups can be seen in its rows."""
    widths = [
        5 if name == "fnlwgt" else len(values) + (not isinstance(values[0], str))
        for name, values in _FIELDS.items()
    ]
    assert widths == [5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41]
    assert sum(widths) == 123


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("39, State-gov, 77516", "must have 15 fields"),
        (ROW.replace("<=50K", "rich"), "last field"),
        (ROW.replace("Bachelors", "Kindergarten"), "education has the unknown value"),
    ],
)
def test_other_tables_called_adult_are_refused(row, match, tmp_path):
    (tmp_path / "adult.data").write_text(f"{row}\n")
    with pytest.raises(ValueError, match=match):
        load_arrays("adult_train.parquet", tmp_path)


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_forest_covers_are_read_as_published(packed, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4000, (12, 55))
    rows[:, -1] = [1, 2, 3, 4, 5, 6, 7, 2, 2, 1, 1, 5]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / f"covtype.data{packed}").write_bytes(PACKERS[packed](text.encode()))
    arrays = load_arrays("covtype.parquet", tmp_path)
    assert_array_equal(np.column_stack([arrays[f"c{i + 1}"] for i in range(54)]), rows[:, :54])
    assert_array_equal(arrays["Cover_Type"], rows[:, -1])
    assert_array_equal(arrays["label"], np.where(rows[:, -1] == 2, 1, -1))


def test_tables_with_headings_are_read_by_name(tmp_path):
    heads = ["RMSD", *(f"F{i}" for i in range(1, 10))]
    rows = np.random.default_rng(0).random((4, 10)).round(3)
    lines = [",".join(heads), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "CASP.csv").write_text("\n".join(lines))
    arrays = load_arrays("protein_casp.parquet", tmp_path)
    assert [*arrays] == [*heads[1:], "rmsd"]
    assert_array_equal(arrays["rmsd"], rows[:, 0])
    assert_array_equal(arrays["F9"], rows[:, 9])
    (tmp_path / "lidar.csv").write_text('"","range","logratio"\n"1",390,-0.05\n"2",391,-0.01\n')
    arrays = load_arrays("lidar.parquet", tmp_path)
    assert arrays["range"].tolist() == [390.0, 391.0]
    assert arrays["logratio"].tolist() == [-0.05, -0.01]


def test_tables_without_the_headings_are_refused(tmp_path):
    (tmp_path / "lidar.csv").write_text("range,y\n390,-0.05\n")
    with pytest.raises(ValueError, match=r"lidar\.csv in .* cannot be read.*not name logratio"):
        load_arrays("lidar.parquet", tmp_path)


def test_mammography_is_read_from_an_archive(tmp_path):
    X, y = np.random.default_rng(0).random((5, 6)), np.array([0, 0, 1, 0, 1])
    np.savez(tmp_path / "23_mammography.npz", X=X, y=y)
    arrays = load_arrays("mammography.parquet", tmp_path)
    assert arrays["label"].tolist() == [-1, -1, 1, -1, 1]
    assert_array_equal(arrays["f6"], X[:, 5])


def test_cifar_is_read_from_its_binary_files(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (42, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 42, dtype=np.uint8)
    rows = np.hstack([labels[:, None], images.transpose(0, 3, 1, 2).reshape(42, -1)])
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for name, part in zip(names, np.split(rows, 6), strict=True):
        (folder / name).write_bytes(part.tobytes())
    for file, n in (("cifar10_5k.npz", 7), ("cifar10_jpeg.parquet", 35)):
        arrays = load_arrays(file, tmp_path)
        for part, places in (("train", slice(n)), ("test", slice(35, 42))):
            assert_array_equal(arrays[f"{part}_x"], images[places])
            assert_array_equal(arrays[f"{part}_y"], labels[places])
    split = photographs(tmp_path)
    assert_array_equal(split.X, images[:35].transpose(0, 3, 1, 2))
    assert_array_equal(split.y_test, labels[35:])


def test_molecules_are_read_with_their_parts(tmp_path):
    matrices = np.random.default_rng(0).random((6, 23, 23)).astype(np.float32)
    energies = np.arange(-6.0, 0.0)[None]
    savemat(
        tmp_path / "qm7.mat",
        {"X": matrices, "T": energies, "P": np.array([[0, 3], [1, 4], [2, 5]])},
    )
    arrays = load_arrays("qm7_7101.npz", tmp_path)
    assert_array_equal(arrays["X"], matrices)
    assert_array_equal(arrays["T"], energies[0])
    assert arrays["fold"].tolist() == [0, 1, 2, 0, 1, 2]


def test_textures_are_read_from_the_pages_of_the_album(tmp_path):
    from PIL import Image

    [standard] = _STANDARDS["brodatz13.npz"]
    for number, [name] in enumerate(standard.names):
        Image.fromarray(np.full((20, 20), 10 * number, np.uint8)).save(tmp_path / name)
    arrays = load_arrays("brodatz13.npz", tmp_path)
    assert arrays["images"].shape == (13, 20, 20)
    assert arrays["images"][:, 0, 0].tolist() == list(range(0, 130, 10))
    assert arrays["album_id"].tolist() == [int(n[0][1:-4]) for n in standard.names]


@pytest.mark.parametrize(
    ("content", "match"),
    [(b"<html>not found</html>", "does not begin like an IDX"), (idx(digits()[0])[:-9], "reshape")],
)
def test_damaged_files_are_named(content, match, tmp_path):
    images, labels = digits()
    write_idx(tmp_path, "train", images, labels)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(ValueError, match=rf"train-images.*cannot be read.*{match}.*get it again"):
        load_arrays("mnist_train.parquet", tmp_path)


def test_pickled_objects_are_not_read(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=np.array([{}], object), y_train=np.zeros(1))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_arrays("mnist_train.parquet", tmp_path)


def test_files_of_the_data_directory_come_first(tmp_path):
    matrices = np.zeros((2, 23, 23))
    savemat(tmp_path / "qm7.mat", {"X": matrices, "T": np.zeros(2), "P": np.array([[0], [1]])})
    np.savez(tmp_path / "qm7_7101.npz", X=matrices, T=np.ones(2), fold=np.zeros(2))
    assert load_arrays("qm7_7101.npz", tmp_path)["T"].tolist() == [1.0, 1.0]


def test_the_directory_of_the_environment_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    (tmp_path / "lidar.csv").write_text("range,logratio\n390,-0.05\n")
    assert load_arrays("lidar.parquet", None)["range"].tolist() == [390.0]


# -- what is missing ------------------------------------------------------------------------------


def test_without_a_directory_the_reader_says_what_to_do():
    with pytest.raises(ValueError, match="No data directory is given") as caught:
        require_files(None, ["qm7_7101.npz"])
    assert DATA_FILES["qm7_7101.npz"] in str(caught.value)
    assert "Read as well: qm7.mat." in str(caught.value)
    assert "MERCER_DATA" in str(caught.value)


def test_with_a_directory_nothing_is_downloaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="has not all that is needed"):
        require_files(tmp_path, ["mnist_train.parquet"], download=True)


def test_nothing_is_downloaded_if_other_data_are_missing_anyway():
    with pytest.raises(ValueError, match="not all data can be downloaded: lidar"):
        require_files(None, ["mnist_train.parquet", "lidar.parquet"], download=True)


# -- downloads ------------------------------------------------------------------------------------


def test_downloads_stand_for_files_that_there_are():
    names = [name for download in DOWNLOADS for name in download.files]
    assert len(set(names)) == len(names)
    assert set(names) <= set(DATA_FILES)
    assert download_of("lidar.parquet") is None


def offer(monkeypatch, **found):
    """Put data sets in the place of OpenML's; returns what is asked for."""
    asked = []

    def fetch_openml(name, *, version, as_frame, parser):
        assert not as_frame
        assert parser == "liac-arff" or name != "adult"
        asked.append((name, version))
        return found[name]

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    return asked


def test_mnist_is_downloaded_once_and_cut_in_two(monkeypatch):
    labels = np.arange(70_000) % 10
    pixels = np.zeros((70_000, 784), np.uint8)
    pixels[:, 3] = labels
    asked = offer(
        monkeypatch,
        mnist_784=SimpleNamespace(data=pixels, target=labels.astype(str).astype(object)),
    )
    said = []
    for _ in range(2):
        require_files(
            None, ["mnist_train.parquet", "mnist_test.parquet"], download=True, say=said.append
        )
    assert asked == [("mnist_784", 1)]
    [line] = said
    assert line.startswith("downloading mnist_784 of OpenML; scikit-learn keeps it in ")
    for name, n, first in (("mnist_train", 60_000, 0), ("mnist_test", 10_000, 60_000)):
        arrays = load_arrays(f"{name}.parquet", None)
        assert arrays["label"].size == n
        assert_array_equal(arrays["p3"], labels[first : first + n])


def adult_of_openml(rows):
    """What scikit-learn returns without pandas: numbers of the categories, and their names."""
    columns, categories = [], {}
    for name, *words in zip(_FIELDS, *(row[:-1] for row in rows), strict=True):
        known = sorted({word for word in words if word != "?"})
        if not known[0].isdigit():
            categories[name] = known
            words = [known.index(word) if word != "?" else np.nan for word in words]
        columns.append(np.array(words, float))
    return SimpleNamespace(
        data=np.column_stack(columns),
        feature_names=[*_FIELDS],
        categories=categories,
        target=np.array([row[-1] for row in rows], object),
    )


@pytest.mark.parametrize("test_first", [True, False])
def test_rows_of_adult_are_told_apart_by_the_first_one(test_first, monkeypatch):
    # Nothing of it needs pandas.
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("mercer_reproduction._downloads._ADULT_TEST", 2)
    rows = [row.split(", ") for row in [TEST_ROW.rstrip("."), TEST_ROW.rstrip("."), ROW, ROW, ROW]]
    if not test_first:
        rows = rows[2:] + rows[:2]
    rows[0 if test_first else 3][1] = "?"
    offer(monkeypatch, adult=adult_of_openml(rows))
    require_files(None, ["adult_train.parquet"], download=True)
    assert load_arrays("adult_train.parquet", None)["f3"].tolist() == [1, 1, 1]
    test = load_arrays("adult_test.parquet", None)
    assert test["f1"].tolist() == [1, 1]
    work = np.column_stack([test[f"f{i}"] for i in range(6, 14)])
    assert work.sum(axis=1).tolist() == [0, 1]


def test_rows_of_adult_in_another_order_are_refused(monkeypatch):
    monkeypatch.setattr("mercer_reproduction._downloads._ADULT_TEST", 1)
    rows = [TEST_ROW.rstrip(".").split(", ")] * 3
    offer(monkeypatch, adult=adult_of_openml(rows))
    with pytest.raises(ConnectionError, match="rows are in an unknown order"):
        require_files(None, ["adult_test.parquet"], download=True)


def test_forest_covers_come_from_scikit_learn(monkeypatch):
    X = np.arange(2 * 54.0).reshape(2, 54)
    kind = np.array([2, 5], dtype=np.int32)
    monkeypatch.setattr("sklearn.datasets.fetch_covtype", lambda return_X_y: (X, kind))
    require_files(None, ["covtype.parquet"], download=True)
    arrays = load_arrays("covtype.parquet", None)
    assert arrays["label"].tolist() == [1, -1]
    assert arrays["c54"].tolist() == [53, 107]


@pytest.mark.parametrize("quoted", [True, False])
def test_labels_of_mammography_may_be_quoted(quoted, monkeypatch):
    labels = np.array(["-1"] * 10 + ["1"] * 260, object)
    target = np.array([f"'{word}'" for word in labels], object) if quoted else labels
    offer(monkeypatch, mammography=SimpleNamespace(data=np.ones((270, 6)), target=target))
    require_files(None, ["mammography.parquet"], download=True)
    assert load_arrays("mammography.parquet", None)["label"].sum() == 250


def test_a_download_that_fails_says_what_to_do_and_is_not_tried_again(monkeypatch):
    tries = []

    def fetch_openml(name, **_):
        tries.append(name)
        raise OSError("<urlopen error no route>")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="no route") as caught:
            require_files(None, ["mnist_train.parquet"], download=True)
        assert "mnist_784 of OpenML could not be had" in str(caught.value)
        assert "train-images-idx3-ubyte" in str(caught.value)
        assert "mnist_test" not in str(caught.value)
    assert tries == ["mnist_784"]


def test_experiments_download_only_if_they_are_told_to(monkeypatch):
    def run(context):
        return Result([{"rows": load_arrays("mammography.parquet", context.data)["label"].size}])

    experiment = Experiment("toy", "A toy", "-", "Nothing.", run, ("mammography.parquet",))
    with pytest.raises(ValueError, match="No data directory is given: mammography"):
        experiment(Context())
    target = np.array(["1"] * 260, object)
    offer(monkeypatch, mammography=SimpleNamespace(data=np.ones((260, 6)), target=target))
    said = []
    result = experiment(Context(download=True, say=said.append))
    assert result.rows == [{"rows": 260}]
    assert len(said) == 1
