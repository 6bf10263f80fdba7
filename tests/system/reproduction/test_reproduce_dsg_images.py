"""Experiments on images and molecules (DSG, Figure 7): their inputs, and quick runs."""

import io
import json
import math
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from mercer import KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.cli import main
from mercer_reproduction import DATA_FILES, Context, _net_race, dsg_qm7, get_experiment
from mercer_reproduction import _convnet as convnet
from mercer_reproduction._coulomb import Molecules, Predicates, load_qm7, random_rows, sorted_rows
from mercer_reproduction._images import (
    cifar10,
    digits,
    mnist_10,
    photographs,
    uncentred_projection,
)
from mercer_reproduction._net_race import Fading, Race, Sizes, compare, wrong
from mercer_reproduction._virtual import Stream, _at, _bumps, cropped, distorted, ten_views

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
    rows = random_rows(matrices, 5_000, np.random.default_rng(0))
    # 0.2398 by the normal distribution; the standard error is 0.006.
    assert np.mean(rows[:, 0] == 2.0) == pytest.approx(0.2398, abs=0.02)


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


# -- virtual examples -----------------------------------------------------------------------------


def random_images(n, channels=1, side=28, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, channels, side, side), dtype=np.uint8)


def between_pixels(image, down, right):
    """Bilinear value at a place by its definition: pixels that are not there are 0."""
    total = 0.0
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            total += image[i, j] * max(0, 1 - abs(down - i)) * max(0, 1 - abs(right - j))
    return total


def test_values_between_pixels_are_bilinear_and_outside_0():
    [image] = random_images(1, side=6)[0]
    places = np.random.default_rng(1).uniform(-4.0, 9.0, (2, 6, 6)).astype(np.float32)
    expected = [between_pixels(image, *place) for place in places.reshape(2, -1).T]
    assert_allclose(_at(image[None], places[None])[0].ravel(), expected, rtol=1e-5, atol=1e-3)


def test_digits_move_with_their_places():
    images = random_images(2)[:, 0]
    places = np.broadcast_to(np.indices((28, 28)), (2, 2, 28, 28)).astype(np.float32)
    moved = _at(images, places + np.float32([2, -3]).reshape(2, 1, 1))
    assert_array_equal(moved[:, :-2, 3:], images[:, 2:, :-3])
    assert not moved[:, -2:].any()
    assert not moved[:, :, :3].any()


def test_a_distortion_of_strength_0_changes_nothing():
    images = random_images(3)
    assert_array_equal(distorted(images, first=7, strength=0.0), images)


def test_distortions_stay_within_the_pixels_and_grow_with_their_strength():
    images = random_images(50)
    copies = distorted(images)
    assert copies.dtype == np.float32
    assert copies.min() >= 0.0
    assert copies.max() <= 255.0
    changes = [np.abs(distorted(images, strength=s) - images).mean() for s in (0.01, 0.1, 1.0)]
    assert 0.0 < changes[0] < changes[1] < changes[2]


def test_bumps_move_all_places_alike():
    assert_allclose(np.linalg.norm(_bumps(28), axis=1), 1.0, rtol=1e-6)
    assert _bumps(28).shape == (28, 7)


@pytest.mark.parametrize("make", [distorted, partial(cropped, side=20)])
def test_copies_depend_on_number_and_seed_only(make):
    images = random_images(9)
    copies = make(images, 1000, 3)
    assert_array_equal(make(images[4:7], 1004, 3), copies[4:7])
    for other in (make(images, 1001, 3), make(images, 1000, 4)):
        assert all((a != b).any() for a, b in zip(copies, other, strict=True))


def test_crops_are_parts_of_their_images_each_as_often_and_half_of_them_mirrored():
    image = random_images(1, channels=3, side=6)
    n, counts = 5000, np.zeros((2, 3, 3))
    windows = [
        (mirror, i, j, image[0, :, i : i + 4, j : j + 4][..., :: 1 - 2 * mirror])
        for mirror in (0, 1)
        for i in range(3)
        for j in range(3)
    ]
    for copy in cropped(np.repeat(image, n, axis=0), seed=2, side=4):
        [place] = [place for *place, window in windows if np.array_equal(window, copy)]
        counts[tuple(place)] += 1
    # 18 kinds, each binomial with standard deviation 16.2.
    assert np.abs(counts - n / 18).max() < 4 * 16.2


def test_views_are_the_middle_and_the_corners_with_their_mirror_images():
    images = random_images(2, channels=3, side=32)
    views = ten_views(images)
    middle, mirrored, top_left = views[:3]
    assert_array_equal(middle, images[:, :, 4:28, 4:28])
    assert_array_equal(mirrored, middle[..., ::-1])
    assert_array_equal(top_left, images[:, :, :24, :24])
    assert len({view.tobytes() for view in views}) == len(views) == 10


def plain(images, first, seed):
    return images.astype(np.float32)


def test_each_pass_of_a_stream_has_all_images_in_a_new_order():
    images = random_images(10)
    stream = Stream(images, np.arange(10), plain, seed=1)
    X, order = stream(0, 30)
    passes = order.reshape(3, 10)
    assert_array_equal(np.sort(passes, axis=1), np.tile(np.arange(10), (3, 1)))
    assert len({tuple(one) for one in passes.tolist()}) == 3
    assert_array_equal(X, stream.scaled(images)[order])
    for a, b in zip(stream(8, 15), (X[8:23], order[8:23]), strict=True):
        assert_array_equal(a, b)
    assert not np.array_equal(Stream(images, np.arange(10), plain, seed=2)(0, 10)[1], order[:10])


def test_streams_have_mean_0_and_variance_1_in_each_channel():
    images = random_images(40, channels=3) // np.uint8([1, 2, 4]).reshape(3, 1, 1)
    X, _ = Stream(images, np.arange(40), plain)(0, 40)
    assert_allclose(X.mean(axis=(0, 2, 3)), 0.0, atol=1e-5)
    assert_allclose(X.std(axis=(0, 2, 3)), 1.0, rtol=1e-5)


# -- the convolutional nets -----------------------------------------------------------------------


@pytest.fixture
def images():
    """Bright above or bright below."""
    labels = np.arange(256) % 2
    x = random_images(256, channels=3, side=24).astype(np.float32) / 255
    x[labels == 1, :, :12] += 1.0
    x[labels == 0, :, 12:] += 1.0
    return x - 1.0, labels


def learned(x, y, seed=0, layers_seed=0):
    torch = pytest.importorskip("torch")
    layers = torch.nn.Sequential(*convnet.photo_net(layers_seed, filters=(2, 3, 4)))
    net = convnet.Network(layers, 4 * len(x), 1e-2, batch_size=32, seed=seed)
    for _ in range(4):
        net.learn(x, y)
    return net


def test_a_net_learns_and_its_features_are_those_its_labels_come_from(images):
    pytest.importorskip("torch")
    x, y = images
    net = learned(x[:192], y[:192])
    features = convnet.outputs(net.layers[0], x[192:])
    assert features.shape == (64, 4 * 36)
    assert features.min() >= 0.0
    probabilities = net.probabilities(x[192:])
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    assert wrong([probabilities], y[192:]) < 5.0
    scores = convnet.outputs(net.layers[1], features)
    assert_array_equal(scores.argmax(axis=1), probabilities.argmax(axis=1))


def test_features_of_the_printed_nets_are_as_many_as_printed():
    pytest.importorskip("torch")
    for layers, shape, n in (
        (convnet.lenet(), (1, 28, 28), 1568),
        (convnet.photo_net(), (3, 24, 24), 2304),
    ):
        features = convnet.outputs(layers.features, np.zeros((2, *shape), np.float32))
        assert features.shape == (2, n)
        assert convnet.outputs(layers.head, features).shape == (2, 10)


def test_a_net_depends_on_its_seeds_and_leaves_the_random_numbers_of_others_alone(images):
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    n_threads = torch.get_num_threads()
    first, again, other_drops, other_start = (
        learned(*images, *seeds).probabilities(images[0][:5])
        for seeds in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert_array_equal(first, again)
    assert not np.allclose(first, other_drops)
    assert not np.allclose(first, other_start)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == n_threads


@pytest.mark.parametrize("name", ["dsg-mnist", "dsg-cifar10"])
def test_without_torch_the_experiment_says_what_it_needs(name, monkeypatch, data):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        get_experiment(name)(Context(data=data, quick=True))


# -- races ----------------------------------------------------------------------------------------


def test_steps_fade_in_a_straight_line_and_stay_above_0():
    steps = Fading(2.0, 4)
    assert [steps(t) for t in (1, 2, 3, 4, 5)] == [2.0, 1.5, 1.0, 0.5, 0.5]


def test_votes_are_by_the_mean_of_probabilities():
    sure, unsure = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([[0.4, 0.6], [0.0, 1.0]])
    assert wrong([unsure], np.array([1, 1])) == 0.0
    assert wrong([sure, unsure], np.array([0, 1])) == 0.0
    assert wrong([sure, unsure], np.array([1, 1])) == 50.0


def test_passes_can_be_asked_for():
    sizes = Sizes(1000, 6, 3, batch_size=256)
    assert sizes.of(Context()) is sizes
    longer = sizes.of(Context(passes=9))
    assert (longer.passes, longer.passes_on_features) == (9, 5)
    assert (longer.n_chunks(9), longer.n_chunks(0)) == (35, 1)


class Counter:
    """Knows the labels of rows that it has seen often enough."""

    def __init__(self):
        self.seen = 0

    def learn(self, X, y):
        self.seen += len(X)

    def probabilities(self, X):
        return np.eye(2)[(X[:, 0] < self.seen).astype(int)]


def ask(race, fail_at=None):
    """Run a race of six chunks; the test rows are right after 0, 3, 6, ... rows."""
    states = []

    def chunk(number):
        if number == fail_at:
            raise KeyboardInterrupt
        return np.zeros((3, 1), np.float32), np.zeros(3, np.int64)

    X = np.arange(0.0, 18.0, 3.0)[:, None].astype(np.float32)
    test = (X, np.ones(6, np.int64))
    race.run(chunk, test, lambda text: None, lambda: states.append(race))
    return states


def test_errors_are_measured_after_powers_of_two_and_at_the_end():
    race = Race({"a": Counter(), "b": Counter()}, 6)
    assert ask(race) == [race]  # kept at the end
    for course in race.courses.values():
        assert course.rows == [3, 6, 12, 18]
        assert_allclose(course.errors, [500 / 6, 400 / 6, 200 / 6, 0.0])
        assert course.seconds == sorted(course.seconds)
        assert course.spent == course.seconds[-1]


def test_a_race_goes_on_where_it_was_kept_unless_it_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(_net_race, "_SECONDS_BETWEEN", -1.0)
    file = tmp_path / "new" / "race.state"
    race = Race.kept(file, "key", lambda: Race({"a": Counter()}, 6))
    with pytest.raises(KeyboardInterrupt):
        ask(race, fail_at=3)
    race.keep(file, "key")
    found = Race.kept(file, "key", None)
    assert found.learners["a"].seen == 9
    assert found.earlier > 0.0
    ask(found)
    assert found.learners["a"].seen == 18
    assert found.courses["a"].rows == [3, 6, 12, 18]
    assert Race.kept(file, "another key", lambda: "new") == "new"
    assert Race.kept(None, "key", lambda: "new") == "new"


def test_a_comparison_that_was_stopped_goes_on_to_the_same_errors(tmp_path, monkeypatch):
    """Stopped while the net learns, and while others learn on its features."""
    pytest.importorskip("torch")
    monkeypatch.setattr(_net_race, "_SECONDS_BETWEEN", -1.0)
    images = random_images(300, channels=3, side=24)
    labels = np.arange(300) % 10
    sizes = Sizes(300, 2, 2, batch_size=128, block_size=32, n_components=8)
    calls = []

    def run(folder, stop_after=None):
        calls.clear()

        def make(images, first, seed):
            calls.append(first)
            if len(calls) == stop_after:
                raise KeyboardInterrupt
            return images.astype(np.float32)

        stream = Stream(images, labels, make)
        layers = partial(convnet.photo_net, filters=(2, 2, 2))
        test = [stream.scaled(images[:50])] * 2
        context = Context(folder=folder)
        return compare("x", context, sizes, stream, test, labels[:50], layers)

    whole = run(None)
    assert whole.earlier == 0.0
    n_calls = len(calls)
    for stop_after in (3, 8):
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, stop_after)
        outcome = run(tmp_path)
        assert not list(tmp_path.iterdir())
        assert outcome.earlier > 0.0
        assert len(calls) < n_calls
        for row, other in zip(whole.rows, outcome.rows, strict=True):
            assert {**row, "CPU s": 0} == {**other, "CPU s": 0}


# -- data and quick runs --------------------------------------------------------------------------


def jpeg(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    return file.getvalue()


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
    arrays, files = {}, []
    for part, n in (("train", 300), ("test", 100)):
        y = np.arange(n) % 10
        x = rng.integers(0, 120, (n, 32, 32, 3)) + 12 * y[:, None, None, None]
        x, y = x.astype(np.uint8), y.astype(np.uint8)
        arrays |= {f"{part}_x": x, f"{part}_y": y}
        files += [(part, label, jpeg(image)) for label, image in zip(y, x, strict=True)]
    columns = dict(zip(("split", "label", "jpeg"), zip(*files, strict=True), strict=True))
    pq.write_table(pa.table(columns), folder / "cifar10_jpeg.parquet")
    matrices = molecules(600)
    np.savez(folder / "cifar10_5k.npz", **arrays)
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


def test_digits_are_the_rows_as_images(data):
    table = pq.read_table(data / "mnist_train.parquet")
    split = digits(data)
    assert split.X.shape == (6000, 1, 28, 28)
    assert_array_equal(split.X[:, 0, 1, 5], table.column("p33"))
    assert_array_equal(split.y, table.column("label"))
    assert split.X_test.shape == (500, 1, 28, 28)


def test_photographs_are_near_those_that_were_compressed(data):
    split, whole = photographs(data), np.load(data / "cifar10_5k.npz")
    for X, y, part in ((split.X, split.y, "train"), (split.X_test, split.y_test, "test")):
        assert_array_equal(y, whole[f"{part}_y"])
        assert X.dtype == np.uint8
        rows = X.transpose(0, 2, 3, 1)
        assert rows.shape == whole[f"{part}_x"].shape
        # JPEG blurs the colours of the noise, not the mean of an image.
        means = [images.mean(axis=(1, 2, 3)) for images in (rows, whole[f"{part}_x"])]
        assert_allclose(*means, atol=3.0)


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
    if name != "dsg-qm7":
        pytest.importorskip("torch")
    words = ["reproduce", name, "--quick", "--no-svg", "--data", data]
    words += ["--out", tmp_path, "--seed", "3"]
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
