"""The experiments of pairwise learning, the data that they cut, and what they compare."""

import functools
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from mercer.buffers import Everything
from mercer.exceptions import DivergenceError
from mercer.kernels import Gaussian
from mercer_reproduction import (
    Context,
    get_experiment,
    yz_auc,
    yz_buffers,
    yz_ranking,
    yz_same_digit,
)
from mercer_reproduction import _yz_data as data_of
from mercer_reproduction._yz_data import PROBLEM_FILES, PROBLEMS, Sample

NAMES = ["yz-auc", "yz-buffers", "yz-same-digit", "yz-ranking"]
SIDE = 28


def write(folder, name, columns):
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def table(X, prefix="f", **more):
    return {**{f"{prefix}{i}": X[:, i] for i in range(X.shape[1])}, **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Made-up files of the right columns: small, with something to learn."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)

    def signs(score, share):
        return np.where(score > np.quantile(score, 1 - share), 1, -1).astype(np.int8)

    for part, n in (("train", 500), ("test", 300)):
        X = (rng.random((n, 123)) < 0.1).astype(np.uint8)
        label = signs(X[:, :8].sum(axis=1) + rng.random(n), 0.3)
        write(folder, f"adult_{part}", table(X, label=label))
        X = rng.random((n, 22))
        write(folder, f"ijcnn1_{part}", table(X, label=signs(X[:, 0] + 0.1 * X[:, 1], 0.1)))
        digits = rng.integers(0, 10, 2 * n)
        pixels = rng.integers(0, 40, (2 * n, SIDE, SIDE))
        rows = np.arange(2 * n)[:, np.newaxis]
        pixels[rows, 2 * digits[:, np.newaxis], np.arange(SIDE)] = 255
        write(
            folder,
            f"mnist_{part}",
            table(pixels.reshape(2 * n, -1).astype(np.uint8), "p", label=digits.astype(np.uint8)),
        )
    X = 3.0 + 2.0 * rng.standard_normal((1000, 6))
    write(folder, "mammography", table(X, label=signs(-np.abs(X[:, 0]), 0.1)))
    X = rng.integers(0, 1000, (1000, 54)).astype(np.int16)
    X[:, 10:] = X[:, 10:] > 900
    kind = np.where(signs(X[:, 0], 0.1) > 0, 5, 2).astype(np.uint8)
    kind[::10] = 0  # not known
    label = np.where(kind == 2, 1, -1).astype(np.int8)
    write(folder, "covtype", table(X, label=label, Cover_Type=kind))
    X = rng.standard_normal((1000, 9))
    write(folder, "protein_casp", {"rmsd": 0.5 + 5 * np.abs(X[:, 0]), **table(X)})
    return folder


# -- data -----------------------------------------------------------------------------------------

WIDTHS = [123, 22, 6, 54, 9, 50]


@pytest.mark.parametrize(
    ("problem", "width"),
    list(zip(PROBLEMS, WIDTHS, strict=True)),
    ids=lambda value: getattr(value, "name", ""),
)
def test_splits_hold_all_rows_once_and_both_classes_in_their_shares(problem, width, folder):
    split = problem.load(folder)
    sample = split(3)
    assert sample.X.shape[1] == sample.X_test.shape[1] == width
    own_test = problem.name in ("adult", "ijcnn1")
    expected = {"adult": 500, "ijcnn1": 500, "aspen": 630}.get(problem.name, 700)
    assert len(sample.X) == len(sample.y) == expected
    assert len(sample.X_test) == (300 if own_test else expected * 3 // 7)
    assert set(np.unique(sample.y)) == set(np.unique(sample.y_test)) == {-1.0, 1.0}
    assert np.mean(sample.y > 0) < 0.35
    both = np.vstack([sample.X, sample.X_test])
    assert len(np.unique(both, axis=0)) > 0.99 * len(both)
    if not own_test:
        assert np.mean(sample.y_test > 0) == pytest.approx(np.mean(sample.y > 0), abs=0.005)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_a_seed_gives_the_same_split_and_another_seed_another_order(problem, folder):
    split = problem.load(folder)
    assert_array_equal(split(1).X, split(1).X)
    assert not np.array_equal(split(1).X, split(2).X)
    if problem.name in ("adult", "ijcnn1"):  # the test rows are the same ones
        assert_array_equal(np.sort(split(1).X_test, axis=0), np.sort(split(2).X_test, axis=0))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_small_splits_have_rows_of_the_rare_class(problem, folder):
    sample = problem.load(folder)(0, n_rows=100, n_test=60)
    assert (len(sample.X), len(sample.X_test)) == (100, 60)
    held_out = sample.validation()
    for y in (sample.y, sample.y_test, held_out.y, held_out.y_test):
        assert np.sum(y > 0) >= 1


def test_columns_are_standardised_on_the_training_rows(folder):
    scaled = {p.name: p.load(folder)(0) for p in PROBLEMS}
    for name, columns in (("mammography", 6), ("protein", 9), ("aspen", 10)):
        assert_allclose(scaled[name].X[:, :columns].mean(axis=0), 0.0, atol=1e-5)
        assert_allclose(scaled[name].X[:, :columns].std(axis=0), 1.0, rtol=1e-4)
    assert set(np.unique(scaled["aspen"].X[:, 10:])) == {0.0, 1.0}
    assert scaled["ijcnn1"].X.min() >= 0.0


def test_validation_rows_are_training_rows_in_their_order():
    X = np.arange(50.0)[:, np.newaxis]
    sample = Sample(X, np.where(X[:, 0] % 5 == 0, 1.0, -1.0), -X, np.ones(50))
    held_out = sample.validation()
    assert held_out.y_test.size == 10
    assert np.all(np.diff(held_out.X[:, 0]) > 0)
    assert_array_equal(np.sort(np.vstack([held_out.X, held_out.X_test]), axis=0), X)


def test_pairs_are_of_different_rows_and_half_of_them_agree():
    labels = np.random.default_rng(0).integers(0, 10, 300).astype(float)
    first, second = data_of.pairs_of_labels(labels, 2000, seed=1)
    assert np.all(first != second)
    assert_array_equal(labels[first] == labels[second], np.arange(2000) < 1000)


# -- AUC ------------------------------------------------------------------------------------------


def easy(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 1.0, 1.0, -1.0)
    half = n // 2
    return Sample(X[:half], y[:half], X[half:], y[half:])


@pytest.mark.parametrize("method", yz_auc.METHODS, ids=lambda method: method.name)
def test_every_method_ranks_an_easy_problem(method):
    outcome = yz_auc.judge(method, easy(), 1.0)
    assert outcome.auc > 0.93
    assert outcome.setting in method.settings
    assert outcome.seconds_per_row > 0.0


def recorder(seen, bad=()):
    """A method that scores by the first input times its setting, and notes what it learns from."""

    def fit(X, y, length_scale, setting):
        seen.append((len(X), setting))
        if setting in bad:
            raise DivergenceError("too large")
        return lambda rows: setting * rows[:, 0]

    return fit


def test_tuning_takes_the_best_setting_and_learns_again_from_all_rows():
    seen = []
    method = yz_auc.Method("x", recorder(seen, bad=(3.0,)), settings=(-1.0, 2.0, 3.0))
    outcome = yz_auc.judge(method, easy(), 1.0)
    assert seen == [(240, -1.0), (240, 2.0), (240, 3.0), (300, 2.0)]
    assert outcome.setting == 2.0


def test_methods_with_a_limit_learn_from_the_first_rows():
    seen = []
    yz_auc.judge(yz_auc.Method("x", recorder(seen), (1.0,), max_rows=20), easy(), 1.0)
    assert seen == [(20, 1.0)]


def test_gains_are_paired_by_split():
    outcomes = {
        "pairwise, tuned": [0.9, 0.8],
        "Algorithm 1, balanced, tuned": [0.7, 0.9],
    }
    found = {
        "data": {
            name: [yz_auc.Outcome(auc, 1e-6, 1.0) for auc in values]
            for name, values in outcomes.items()
        }
    }
    assert_allclose(yz_auc.gains(found)["data"], [0.2, -0.1])


# -- buffers --------------------------------------------------------------------------------------


def squared_hinge_by_hand(sample, length_scale, kept, normalize):
    """Algorithm 2 on the rows' Gram matrix; ``kept`` rows of each class, None for all."""
    gram, y = Gaussian(length_scale)(sample.X), sample.y
    a, past = np.zeros(y.size), {-1.0: [], 1.0: []}
    for t in range(y.size):
        others = np.array(past[-y[t]], dtype=int)
        n = others.size if normalize == "opposite" else sum(map(len, past.values()))
        if others.size:
            margins = 2 * y[t] * (gram[t] @ a - gram[others] @ a)
            slopes = -2 * np.maximum(1 - margins, 0.0)
            step = 4.0 / (2.0 * 2.0) / math.sqrt(t + 1)  # L = 2, and 2 bounds the pair kernel
            changes = -step * slopes * 2 * y[t] / n
            a[t] += changes.sum()
            a[others] -= changes
        past[y[t]] = [*past[y[t]], t][-kept if kept else 0 :]
    return roc_auc_score(sample.y_test, Gaussian(length_scale)(sample.X_test, sample.X) @ a)


@pytest.mark.parametrize(
    ("setting", "kept"),
    [
        (yz_buffers.Setting("all", None), None),
        (yz_buffers.Setting("all, divided by all", None, "all"), None),
        (yz_buffers.Setting("last of each class", 2), 1),
        (yz_buffers.Setting("last of each class", 20), 10),
    ],
    ids=str,
)
def test_buffers_are_those_of_the_algorithm(setting, kept):
    sample = easy(400)
    expected = squared_hinge_by_hand(sample, 1.0, kept, setting.normalize)
    assert yz_buffers.auc_of(setting, sample, 1.0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["last", "last of each class", "random", "random of each class"])
def test_buffers_that_never_overflow_are_the_exact_algorithm(kind):
    sample = easy(200)
    exact = yz_buffers.auc_of(yz_buffers.Setting("all", None), sample, 1.0)
    assert yz_buffers.auc_of(yz_buffers.Setting(kind, 300), sample, 1.0) == pytest.approx(exact)


def test_sizes_count_the_rows_of_both_classes():
    for setting in yz_buffers.settings(quick=False):
        if setting.size is None:
            assert isinstance(setting.buffer, Everything)
        else:
            assert setting.buffer.capacity == setting.size


# -- pairs of digits, and their order -------------------------------------------------------------


def blobs(n=400, seed=0):
    """Rows of norm 1 around ten directions of five dimensions, and their numbers."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    centres = np.random.default_rng(9).standard_normal((10, 5))
    return data_of.rows_of_norm_one(centres[y] + 0.2 * rng.standard_normal((n, 5))), y.astype(float)


@pytest.mark.parametrize("learner", yz_same_digit.learners(quick=True), ids=lambda item: item.name)
def test_similarities_are_learned_from_agreement_alone(learner):
    X, y = blobs(150)
    X_test, y_test = blobs(seed=1)
    first, second = data_of.pairs_of_labels(y_test, 1000, seed=0)
    same = (y_test[first] == y_test[second]).astype(float)
    test = yz_same_digit._Test(X_test, first, second, same)
    course = yz_same_digit.follow(learner, X, y, (75, 150), test)
    assert course.auc[-1] > 0.9
    assert course.size <= 100
    # The names of the digits do not matter.
    renamed = yz_same_digit.follow(learner, X, (3.0 * y) % 10, (75, 150), test)
    assert renamed.auc == pytest.approx(course.auc, abs=1e-9)


def test_references_are_the_distances_that_they_say():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 60)), rng.integers(0, 3, 300).astype(float)
    X[:, 0] += 8.0 * y
    first, second = data_of.pairs_of_labels(y, 400, seed=0)
    same = (y[first] == y[second]).astype(float)
    found = yz_same_digit.references(
        Sample(X, y, X, y), yz_same_digit._Test(X, first, second, same)
    )
    project = data_of.centred_pca(X, 40)
    distance = np.linalg.norm(project(X)[first] - project(X)[second], axis=1)
    assert found["Euclidean distance, 40 components"] == roc_auc_score(same, -distance)
    unit = project(X) / np.linalg.norm(project(X), axis=1, keepdims=True)
    cosine = np.sum(unit[first] * unit[second], axis=1)
    assert found["cosine, 40 components"] == pytest.approx(roc_auc_score(same, cosine), abs=1e-6)
    assert max(found, key=found.get).startswith("LDA")


@pytest.mark.parametrize("method", yz_ranking.METHODS, ids=lambda method: method.name)
def test_every_method_orders_rows_by_a_curve(method):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = np.floor(5 * (1 + X[:, 0] + 0.3 * np.sin(3 * X[:, 1])))
    outcome = yz_ranking.judge(method, Sample(X[:400], y[:400], X[400:], y[400:]))
    assert outcome.tau > 0.8
    assert 0.0 < outcome.error < 0.1
    assert outcome.scores.shape == (200,)


# -- the experiments ------------------------------------------------------------------------------


@functools.cache
def quick(name, folder):
    said = []
    experiment = get_experiment(name)
    context = Context(data=folder, quick=True, seed=1, say=said.append)
    result = experiment(context)
    return SimpleNamespace(result=result, record=experiment.record(result, context), said=said)


@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_fill_the_table_and_judge_nothing(name, folder):
    run = quick(name, folder)
    columns = list(run.result.rows[0])
    assert len(run.result.rows) >= 5
    for row in run.result.rows:
        assert list(row) == columns
        assert not any("nan" in str(value) for value in row.values())
    assert run.record["targets"]
    assert all(math.isfinite(target.measured) for target in run.result.targets)
    assert all("not judged" in target["met"] for target in run.record["targets"])
    assert run.said


@pytest.mark.parametrize("name", NAMES)
def test_figures_show_something_finite_and_label_their_axes(name, folder):
    drawings = quick(name, folder).result.drawings
    assert len({drawing.name for drawing in drawings}) == len(drawings) >= 1
    for drawing in drawings:
        ax = Figure().subplots()
        drawing.draw(ax)
        assert ax.lines or ax.images
        assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)
        assert ax.get_xlabel() or ax.images
        assert ax.get_ylabel() or len(ax.get_yticklabels()) >= 2


def test_the_table_of_auc_has_every_method_twice(folder):
    rows = quick("yz-auc", folder).result.rows
    assert len(rows) == 2 * len(yz_auc.METHODS)
    assert list(rows[0]) == ["method", *(problem.name for problem in PROBLEMS)]


def test_montages_hold_every_image_in_its_place():
    images = [[np.full((2, 2), 0.1 * (2 * r + c)) for c in range(3)] for r in range(2)]
    ax = Figure().subplots()
    data_of.montage(images, ["a", "b"])(ax)
    picture = ax.images[0].get_array()
    places = [[picture[4 + 10 * r, 4 + 10 * c] for c in range(3)] for r in range(2)]
    assert_allclose(places, [[0.0, 0.1, 0.2], [0.2, 0.3, 0.4]])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_all_files_of_the_problems_are_asked_for():
    assert set(get_experiment("yz-auc").needs_data) == set(PROBLEM_FILES)
    assert not any("adult" in name for name in get_experiment("yz-buffers").needs_data)
