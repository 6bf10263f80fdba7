"""Experiments on images and molecules (DSG, Figure 7): their inputs, and quick runs."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.cli import main
from mercer_reproduction import DATA_FILES, Context, dsg_qm7, get_experiment
from mercer_reproduction import _convnet as convnet
from mercer_reproduction._coulomb import Molecules, Predicates, load_qm7, random_rows, sorted_rows
from mercer_reproduction._images import cifar10, error_percent, mnist_10, uncentred_projection
from mercer_reproduction.dsg_mnist import _held_out

NAMES = ["dsg-mnist", "dsg-cifar10", "dsg-qm7"]


def coulomb_matrix(charges, positions, size):
    """By the definition, entry by entry."""
    matrix = np.zeros((size, size), np.float32)
    for i, z in enumerate(charges):
        for j, w in enumerate(charges):
            distance = np.linalg.norm(positions[i] - positions[j])
            matrix[i, j] = 0.5 * z**2.4 if i == j else z * w / distance
    return matrix


def molecules(n, size=23, seed=0):
    rng = np.random.default_rng(seed)
    matrices = []
    for _ in range(n):
        k = int(rng.integers(3, 8))
        charges = rng.choice([1, 6, 7, 8], k)
        positions = 2.5 * np.arange(k)[:, None] * [1.0, 0.0, 0.0] + rng.uniform(0, 1, (k, 3))
        matrices.append(coulomb_matrix(charges, positions, size))
    return np.array(matrices)


# -- Coulomb matrices -----------------------------------------------------------------------------


def test_sorted_rows_do_not_depend_on_the_order_of_the_atoms():
    matrices = molecules(5)
    order = np.random.default_rng(1).permutation(23)
    permuted = matrices[:, order][:, :, order]
    assert_allclose(sorted_rows(permuted), sorted_rows(matrices), rtol=1e-6)


def test_sorted_rows_have_the_largest_norm_first_and_all_entries_once():
    [matrix] = molecules(1)
    [row] = sorted_rows(matrix[None])
    assert row.shape == (276,)
    order = np.argsort(-np.linalg.norm(matrix, axis=1), kind="stable")
    expected = [matrix[order[i], order[j]] for i in range(23) for j in range(i, 23)]
    assert_array_equal(row, np.float32(expected))


def test_random_rows_without_noise_are_the_sorted_ones():
    matrices = molecules(4)
    rows = random_rows(matrices, 3, np.random.default_rng(0), noise=0.0)
    # Equal norms, those of atoms that are not there, may come in any order: their entries are 0.
    assert_array_equal(rows, np.tile(sorted_rows(matrices), (3, 1)))


def test_random_rows_are_the_same_molecule_in_other_orders():
    matrices = molecules(4)
    rows = random_rows(matrices, 10, np.random.default_rng(0), noise=5.0)
    assert rows.shape == (40, 276)
    draws = rows.reshape(10, 4, 276)
    assert_array_equal(np.sort(draws, axis=2), np.sort(draws, axis=2)[:1].repeat(10, axis=0))
    assert len(np.unique(draws[:, 0], axis=0)) > 1


def test_the_order_of_two_atoms_changes_as_often_as_the_noise_says():
    """Norms 1 apart, each with normal noise of 1: swapped with probability Phi(-1 / sqrt 2)."""
    matrices = np.diag([3.0, 2.0]).astype(np.float32)[None]
    rows = random_rows(matrices, 20_000, np.random.default_rng(0))
    # 0.2398 by the normal distribution; the standard error is 0.003.
    assert np.mean(rows[:, 0] == 2.0) == pytest.approx(0.2398, abs=0.01)


def expected_predicates(rows, width, step):
    """Entry by entry: a number for each column and step, centred, of mean square 1."""
    steps = [
        [
            step((row[j] - k * width) / width)
            for j in range(rows.shape[1])
            for k in range(math.ceil(max(rows[:, j]) / width) + 1)
        ]
        for row in rows
    ]
    centred = np.array(steps) - np.mean(steps, axis=0)
    return centred / np.sqrt(np.mean(centred**2))


@pytest.mark.parametrize(
    ("hard", "step"), [(False, math.tanh), (True, lambda x: 1.0 if x > 0.0 else -1.0)]
)
def test_predicates_are_a_step_for_each_level_up_to_the_largest_value(hard, step):
    rows = np.array([[0.7, 1.9], [0.0, 3.2], [1.0, 0.5]], np.float32)
    predicates = Predicates(rows, width=2.0, hard=hard)
    expected = expected_predicates(rows, 2.0, step)
    assert predicates.n_outputs == expected.shape[1] == 5
    assert_allclose(predicates(rows), expected, rtol=1e-5, atol=1e-6)


def some_molecules(n, seed=0):
    matrices = molecules(n, seed=seed)
    energies = -matrices.sum(axis=(1, 2)).astype(np.float64)
    return Molecules(matrices, energies, np.zeros(n, np.int8))


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    return dsg_qm7._task(some_molecules(40), some_molecules(10, seed=1), (3, 2), rng)


def test_the_principal_axes_of_predicates_keep_the_distances(task):
    rng = np.random.default_rng(0)
    rows = random_rows(molecules(40), 3, rng)
    expected = Predicates(rows)(rows)
    assert task.orders == 3
    assert task.inputs == f"{expected.shape[1]:,} predicates"
    assert_allclose(task.X @ task.X.T, expected @ expected.T, rtol=1e-3, atol=0.1)


def test_votes_are_means_over_the_orders_so_far(task):
    predictions = np.concatenate([task.y_test - 3.0, task.y_test + 9.0])
    predictions = (predictions - task.y.mean()) / task.y.std()
    assert_allclose(task.errors(predictions), [3.0, 3.0])
    assert_allclose(task.votes(predictions)[1], task.y_test + 3.0)


def test_predictions_after_each_step_are_those_of_the_blocks_so_far(task):
    expansion = RandomFeatures(16, ridge=1e-3, min_steps=0)
    model = KernelRegressor(
        "squared", kernel=Gaussian(60.0), expansion=expansion, batch_size=30, regularization=0.0
    )
    model.fit(task.X, task.standardised)
    staged = dsg_qm7._after_steps(model, task.X_test)
    Z, coefficients = model.random_features(task.X_test), model.coefficients_[:, 0]
    expected = [Z[:, :n] @ coefficients[:n] for n in range(16, Z.shape[1] + 1, 16)]
    assert len(staged) == len(expected) > 1
    assert_allclose(staged, expected, rtol=1e-4, atol=1e-5)
    assert_allclose(staged[-1], model.predict(task.X_test), rtol=1e-3, atol=1e-4)


# -- images ---------------------------------------------------------------------------------------


def test_the_projection_is_on_the_singular_vectors_of_the_rows_without_a_mean():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((50, 6)) * [5, 3, 2, 1, 1, 1] + 4.0).astype(np.float32)
    _, _, axes = np.linalg.svd(X.astype(np.float64), full_matrices=False)
    projected = uncentred_projection(X, 2)(X)
    assert projected.dtype == np.float32
    assert_allclose(np.abs(projected), np.abs(X @ axes[:2].T), rtol=1e-3, atol=1e-3)


def test_the_whole_projection_keeps_distances():
    X = np.random.default_rng(0).standard_normal((30, 5)).astype(np.float32)
    projected = uncentred_projection(X, 99)(X)
    assert projected.shape == X.shape
    assert_allclose(projected @ projected.T, X @ X.T, atol=1e-5)


class Always:
    def predict(self, X):
        return np.zeros(len(X))


def test_errors_are_in_percent():
    assert error_percent(Always(), np.zeros((4, 1)), np.array([0.0, 1.0, 0.0, 0.0])) == 25.0


# -- the convolutional net ------------------------------------------------------------------------


@pytest.fixture
def images():
    """Bright above or bright below."""
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    x = rng.random((120, 32, 32, 3)).astype(np.float32)
    x[labels == 1, :16] += 1.0
    x[labels == 0, 16:] += 1.0
    return x / 2, labels.astype(np.float64)


def test_the_net_learns_and_its_features_are_those_its_labels_come_from(images):
    pytest.importorskip("torch")
    x, y = images
    net = convnet.ConvNet((4, 6), n_epochs=3).fit(x[:80], y[:80])
    features = net.features(x[80:])
    assert features.shape == (40, 6 * 6 * 6)
    assert features.min() >= 0.0
    assert np.mean(net.classify(features) == y[80:]) > 0.95


def test_the_net_depends_on_its_seed_and_leaves_the_random_numbers_of_others_alone(images):
    torch = pytest.importorskip("torch")
    x, y = images
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    n_threads = torch.get_num_threads()
    first, again, other = (
        convnet.ConvNet((2, 3), n_epochs=1, seed=seed).fit(x, y).features(x[:5])
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == n_threads


def test_without_torch_the_experiment_says_what_it_needs(monkeypatch, data):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        get_experiment("dsg-cifar10")(Context(data=data, quick=True))


# -- data and quick runs --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Made-up files of the right columns."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for part, n in (("train", 6000), ("test", 500)):
        digits = rng.integers(0, 10, n).astype(np.uint8)
        pixels = np.zeros((n, 784), np.uint8)
        pixels[:, :60] = rng.integers(0, 256, (n, 60))
        pixels[np.arange(n), 10 * digits.astype(int)] = 255
        columns = {f"p{i}": pixels[:, i] for i in range(784)}
        pq.write_table(pa.table({**columns, "label": digits}), folder / f"mnist_{part}.parquet")
    arrays = {}
    for part, n in (("train", 300), ("test", 100)):
        y = np.arange(n) % 10
        x = rng.integers(0, 120, (n, 32, 32, 3)) + 12 * y[:, None, None, None]
        arrays |= {f"{part}_x": x.astype(np.uint8), f"{part}_y": y.astype(np.uint8)}
    np.savez(folder / "cifar10_5k.npz", **arrays)
    matrices = molecules(600)
    energies = -matrices.sum(axis=(1, 2)).astype(np.float64)
    fold = (np.arange(600) % 5).astype(np.int8)
    np.savez(folder / "qm7_7101.npz", X=matrices, T=energies, fold=fold)
    return folder


def test_mnist_has_rows_of_norm_one_whose_leading_components_are_kept(data):
    whole, split = mnist_10(data, 784), mnist_10(data, 20)
    assert_allclose(np.linalg.norm(whole.X, axis=1), 1.0, rtol=1e-4)
    assert_allclose(np.abs(split.X), np.abs(whole.X[:, :20]), atol=1e-4)
    assert split.X_test.shape == (500, 20)
    assert_array_equal(np.unique(split.y), np.arange(10.0))


def test_rows_are_held_out_of_the_training_rows_only(data):
    split = mnist_10(data, 5)
    inner = _held_out(split)
    assert_array_equal(np.concatenate([inner.X, inner.X_test]), split.X)
    assert_array_equal(np.concatenate([inner.y, inner.y_test]), split.y)
    assert len(inner.X_test) == 1200


def test_images_are_between_zero_and_one(data):
    split = cifar10(data)
    assert split.X.shape == (300, 32, 32, 3)
    assert split.X.max() <= 1.0
    assert split.X.dtype == np.float32
    assert len(split.y_test) == 100


def test_some_molecules_can_be_taken(data):
    whole = load_qm7(data)
    part = whole.take(whole.fold == 2)
    assert len(part.matrices) == len(part.energies) == 120
    assert_array_equal(part.energies, whole.energies[2::5])


@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_write_tables_and_figures(name, data, tmp_path, capsys):
    if name == "dsg-cifar10":
        pytest.importorskip("torch")
    words = ["reproduce", name, "--quick", "--data", data, "--out", tmp_path, "--seed", "3"]
    with pytest.raises(SystemExit) as exit_:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert not exit_.value.code, err
    assert "not judged: quick run" in out
    record = json.loads((tmp_path / f"{name}-quick.json").read_text())
    assert record["quick"]
    assert record["seed"] == 3
    [last] = [column for column in record["rows"][0] if "error" in column or "MAE" in column]
    assert all(np.isfinite(row[last]) and row[last] >= 0.0 for row in record["rows"])
    assert len({tuple(row) for row in record["rows"]}) == 1
    assert any(row["method"].startswith("DSG newton") for row in record["rows"])
    for figure in record["figures"]:
        assert (tmp_path / figure["file"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_missing_data_are_described(name, tmp_path):
    experiment = get_experiment(name)
    with pytest.raises(FileNotFoundError, match="has not all that is needed") as caught:
        experiment(Context(data=tmp_path))
    assert all(DATA_FILES[file] in str(caught.value) for file in experiment.needs_data)
