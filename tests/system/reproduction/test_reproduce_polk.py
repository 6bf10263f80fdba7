"""Experiments of POLK: streams and their measurements, textons, and quick runs."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import correlate

from mercer.losses import MulticlassHinge
from mercer_app.cli import main
from mercer_reproduction import Context, get_experiment, polk_theorems
from mercer_reproduction import _polk_runs as runs
from mercer_reproduction._polk_batch import batch_solution, support_vectors
from mercer_reproduction._polk_rivals import with_budgets
from mercer_reproduction._polk_tables import claims, select, shown, table_row
from mercer_reproduction._textons import (
    PATCH,
    SUPPORT,
    contrast_normalised,
    draw_patches,
    gabor,
    histograms,
    leung_malik,
    maximum_responses,
    raw_patches,
    responses,
    schmid,
    texton_images,
)
from mercer_reproduction.baselines import KernelFactor
from mercer_reproduction.dsg_losses import toy_rows
from mercer_reproduction.polk_multidist import bayes_error_percent, make_multidist
from mercer_reproduction.polk_textures import _patches

STEPS = ["1", "0.3", "0.1"]
NAMES = ["polk-multidist", "polk-mnist", "polk-brodatz"]


@pytest.fixture(scope="module")
def problem():
    X, y, X_test, y_test = make_multidist(16, 640, 200)
    return runs.Problem(X, y, X_test, y_test, 0.6, 5)


# -- streams --------------------------------------------------------------------------------------


def test_the_end_of_a_run_is_the_mean_over_looks_in_the_last_part_of_the_pass(problem):
    plan = runs.Plan(2, n_looks=6, n_final=2, seed=3, reported=(1,))
    run = runs.polk(problem, runs.SVM, 0.04, 6.0, plan)
    rng = np.random.default_rng(3)
    order = np.concatenate([rng.permutation(640) for _ in range(2)])
    learner = runs._Estimator(problem, runs.SVM, 32, step_size=6.0, expansion=run.model.expansion)
    ends, seen = {}, 0
    for number in (1, 2):
        found = []
        # 95 % of 640 rows, rounded down to whole batches, and all of them.
        for into in (608, 640):
            moment = (number - 1) * 640 + into
            learner.learn(order[seen:moment])
            seen = moment
            F = learner.decision_function(problem.X_test)
            loss = MulticlassHinge().value(problem.y_test, F).mean()
            found.append((loss, 100 * np.mean(F.argmax(1) != problem.y_test), learner.order))
        ends[number] = np.mean(found, axis=0)
    for number, expected in ends.items():
        end = run.ends[number]
        assert_allclose([end.risk, end.error_percent, end.model_order], expected, rtol=1e-9)
    assert run.end == run.ends[2]
    assert run.looks[-1].samples == 1280
    assert run.looks[0].samples < 64


def test_npbsgd_visits_the_rows_in_the_order_of_the_other_streams(problem):
    plan = runs.Plan(2, n_looks=4, n_final=2, seed=5)
    run = runs.npbsgd(problem, runs.SVM, 1000, 1.0, plan)
    # With more room than rows it is what BSGD is with room.
    other = runs.budgeted(problem, 2000, "remove", 1.0, plan)
    assert run.end.error_percent == other.end.error_percent
    assert run.end.risk == pytest.approx(other.end.risk, rel=1e-9)


def test_means_over_draws_are_those_of_the_same_runs_and_have_a_spread(problem):
    first, second = (
        runs.polk(problem, runs.LOGISTIC, 0.03, 6.0, runs.Plan(1, 4, 2, seed)) for seed in (0, 1)
    )
    alone = replace(first, settings="only in the first draw", validation=3.0)
    mean, of_one = runs.mean_runs([[replace(first, validation=5.0), alone], [second]])
    both = [first, second]
    risks = [[look.risk for look in run.looks] for run in both]
    assert_allclose([look.risk for look in mean.looks], np.mean(risks, axis=0))
    errors = [run.end.error_percent for run in both]
    assert mean.end.error_percent == np.mean(errors)
    assert mean.end.spread == pytest.approx(abs(errors[0] - errors[1]) / np.sqrt(2.0))
    assert (mean.draws, of_one.draws) == (2, 1)
    # What was measured in one draw only is taken from there.
    assert (mean.validation, of_one.validation) == (5.0, 3.0)
    assert table_row(mean)["spread"] == mean.end.spread
    assert "spread" not in table_row(of_one)
    assert table_row(of_one, spread=True)["spread"] == "-"


def test_held_out_rows_are_training_rows_that_are_not_trained_on(problem):
    tuning = problem.held_out()
    assert_array_equal(np.concatenate([tuning.X, tuning.X_test]), problem.X)
    assert_array_equal(np.concatenate([tuning.y, tuning.y_test]), problem.y)
    assert len(tuning.X_test) == 640 // 6


def test_steps_are_tried_and_measured_on_rows_held_out(problem):
    plan, sizes = runs.Plan(1, 4, 2, seed=3), {24: "1 / 2 / 3", 12: "-"}
    found = [*with_budgets(problem, sizes, plan, Context(), plan)]
    names = [(run.method, run.settings) for run, _ in found]
    for strategy, steps in (("remove", ["1"]), ("project", STEPS), ("merge", STEPS)):
        for size in sizes:
            mine = [s for m, s in names if m == f"BSGD, {strategy}" and f"budget {size}," in s]
            assert mine == [f"budget {size}, step {step}" for step in steps]
    assert [s.partition(", step ")[2] for m, s in names if m == "NPBSGD"] == [
        *STEPS,
        "n / t, ridge 1 / n",
    ]
    # The paper has its numbers with step 1.
    assert {run.step_size for run, paper in found if paper == "1 / 2 / 3"} == {1.0}
    [(run, _)] = [one for one in found if one[0].settings == "budget 24, step 0.3"][:1]
    looks = runs.Plan(1, 2, 2, seed=3)
    other = runs.budgeted(problem.held_out(), 24, "project", 0.3, looks)
    assert run.validation == other.end.error_percent
    assert all(
        np.isnan(run.validation)
        for run, _ in with_budgets(problem, {12: "-"}, plan, Context(), None)
    )


def test_rows_say_whether_a_batch_solver_converged(problem):
    factor = KernelFactor(problem.X[:80], problem.kernel)
    few = problem.head(80)
    short, long = (batch_solution(few, runs.LOGISTIC, factor, 0.0, n) for n in (2, 500))
    assert table_row(short)["settings"] == "80 rows, 2 iterations, not converged"
    assert table_row(long)["settings"].endswith(" iterations, converged")
    [mean] = runs.mean_runs([[short], [long]])
    assert table_row(mean)["settings"].endswith("converged in 1 of 2 draws")


def test_rows_have_what_the_paper_says_beside_what_was_measured(problem):
    plan = runs.Plan(2, 4, 2, reported=(1,))
    run = runs.polk(problem, runs.SVM, 0.04, 6.0, plan)
    row, early = table_row(run, "1 / 2 / 3"), table_row(run, after=1, more="x")
    assert row["paper: risk / error % / order"] == "1 / 2 / 3"
    assert (row["passes"], early["passes"]) == (2, 1)
    assert early["paper: risk / error % / order"] == early["CPU s"] == "-"
    assert list(early)[-2:] == ["more", "paper: risk / error % / order"]
    machine = table_row(support_vectors(problem))
    assert machine["risk"] == machine["passes"] == "-"


def test_claims_are_about_removal_and_about_the_best(problem):
    plan = runs.Plan(1, 4, 2)
    own = runs.polk(problem, runs.SVM, 0.04, 6.0, plan)
    rivals = [
        replace(runs.budgeted(problem, 16, strategy, step, plan), validation=held_out)
        for strategy, step, held_out in (
            ("remove", 1.0, 9.0),
            ("merge", 1.0, 7.0),
            ("merge", 0.3, 5.0),
        )
    ]
    small = runs.budgeted(problem, 8, "merge", 1.0, plan)
    removal, best = claims(own, rivals, "16 points", ("Fig. 1",))
    errors = [run.end.error_percent for run in rivals]
    assert removal.measured == own.end.error_percent - errors[0]
    # The rows held out choose, whatever the test rows say.
    assert best.measured == own.end.error_percent - errors[2]
    assert best.name.endswith("16 points; chosen: merge, step 0.3")
    assert best.claim == removal.claim == ("Fig. 1",)
    assert shown([own, *rivals, small]) == [own, rivals[0], rivals[2], small]
    assert select([own, *rivals, small], "BSGD", settings="budget 16,") == rivals


def test_the_best_rule_knows_the_means_of_the_draw():
    _, _, X_test, y_test = make_multidist(16)
    # The error that was counted when the draws were chosen.
    assert bayes_error_percent(16, X_test, y_test) == pytest.approx(3.96)
    # With the means of another draw it is no good.
    assert bayes_error_percent(17, X_test, y_test) > 10.0


# -- textons --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bank", "sizes", "n_positive"),
    [
        pytest.param(leung_malik(), [1] * 48, 4, id="Leung-Malik"),
        pytest.param(maximum_responses(), [6] * 6 + [1, 1], 1, id="MR8"),
        pytest.param(schmid(), [1] * 13, 0, id="Schmid"),
        pytest.param(gabor(), [1] * 48, 0, id="Gabor"),
    ],
)
def test_filters_have_unit_weight_and_all_but_gaussians_no_mean(bank, sizes, n_positive):
    assert [len(kernels) for kernels in bank] == sizes
    filters = np.concatenate(bank)
    assert filters.shape[1:] == (SUPPORT, SUPPORT)
    assert_allclose(np.abs(filters).sum(axis=(1, 2)), 1.0)
    n = len(filters) - n_positive
    assert_allclose(filters[:n].sum(axis=(1, 2)), 0.0, atol=1e-12)
    assert np.all(filters[n:] >= 0.0)


def test_rings_are_the_same_in_all_directions_and_orientations_are_turned():
    for [ring] in schmid():
        assert_allclose(ring, np.rot90(ring), atol=1e-15)
    # A quarter turn is three of six orientations; derivatives of odd order change their sign.
    for kernels in maximum_responses()[:6]:
        assert_allclose(np.abs(np.rot90(kernels[0])), np.abs(kernels[3]), atol=1e-15)


def test_responses_are_correlations_with_the_mirrored_image():
    images = np.random.default_rng(0).integers(0, 256, (2, 40, 45)).astype(np.uint8)
    bank = [*leung_malik()[1:48:20], maximum_responses()[1]]
    found = responses(images, bank)
    for i, image in enumerate(images.astype(np.float64)):
        for k, kernels in enumerate(bank):
            each = [correlate(image, kernel, mode="reflect") for kernel in kernels]
            expected = each[0] if len(each) == 1 else np.abs(each).max(axis=0)
            assert_allclose(found[i, :, :, k], expected, atol=1e-3)


def test_raw_patches_respond_with_the_pixels_around():
    image = np.random.default_rng(0).integers(0, 256, (1, 30, 40)).astype(np.uint8)
    around = responses(image, raw_patches(3))[0]
    assert_allclose(around[10, 20], image[0, 9:12, 19:22].ravel(), atol=1e-3)


def test_contrast_is_normalised_by_the_norm_of_the_responses():
    everywhere = np.random.default_rng(0).normal(size=(1, 2, 2, 5)).astype(np.float32)
    norms = np.linalg.norm(everywhere, axis=-1, keepdims=True)
    expected = everywhere * np.log(1.0 + norms / 0.03) / norms
    assert_allclose(contrast_normalised(everywhere), expected, rtol=1e-5)


def test_patches_are_different_and_inside():
    patches = draw_patches(2, 30, 40, 90, np.random.default_rng(0), start=10)
    places = set(zip(*(v.tolist() for v in vars(patches).values()), strict=True))
    assert len(places) == len(patches) == 90
    assert patches.row.max() <= 30 - PATCH
    assert patches.column.min() >= 10
    assert patches.column.max() <= 40 - PATCH
    with pytest.raises(ValueError, match="fewer than the 200 that are wanted"):
        draw_patches(2, 30, 40, 200, np.random.default_rng(0), start=10)


def test_a_histogram_has_the_shares_of_the_textons_of_its_patch():
    textons = np.random.default_rng(0).integers(0, 6, (2, 40, 50)).astype(np.int16)
    patches = draw_patches(2, 40, 50, 30, np.random.default_rng(1))
    H = histograms(textons, patches, 6)
    for i, (image, r, c) in enumerate(zip(patches.image, patches.row, patches.column, strict=True)):
        window = textons[image, r : r + PATCH, c : c + PATCH]
        assert_allclose(H[i], [np.mean(window == t) for t in range(6)], atol=1e-6)


def test_textons_depend_on_training_patches_only():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, 80, 240)).astype(np.uint8)
    train, test = _patches(images.shape, 40, 40, 0, apart=True)
    changed = images.copy()
    first = int(test.column.min())
    assert first - int(train.column.max() + PATCH) >= SUPPORT - 1
    changed[:, :, first:] = 0
    before, after = (
        texton_images(responses(a, leung_malik()), train, 8, seed=0) for a in (images, changed)
    )
    # Where no filter reaches what was changed, names are the same.
    assert_array_equal(before[:, :, : first - SUPPORT // 2], after[:, :, : first - SUPPORT // 2])
    assert np.any(before != after)


# -- quick runs -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Made-up files of the right columns."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for part, n in (("train", 1600), ("test", 500)):
        digits = rng.integers(0, 10, n).astype(np.uint8)
        pixels = np.zeros((n, 784), np.uint8)
        pixels[:, :60] = rng.integers(0, 256, (n, 60))
        for k in range(8):
            pixels[np.arange(n), 100 + 10 * k + digits] = 255
        columns = {f"p{i}": pixels[:, i] for i in range(784)}
        pq.write_table(pa.table({**columns, "label": digits}), folder / f"mnist_{part}.parquet")
    grey = [rng.integers(0, 40 + 20 * k, (100, 200)) for k in range(13)]
    np.savez(folder / "brodatz13.npz", images=np.array(grey, np.uint8))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_write_tables_and_figures(name, data, tmp_path, capsys):
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
    rows = record["rows"]
    assert len({tuple(row) for row in rows}) == 1
    assert all(0.0 <= row["error %"] <= 100.0 for row in rows)
    methods = {row["method"] for row in rows}
    assert {f"BSGD, {s}" for s in ("remove", "project", "merge")} <= methods
    assert {"POLK", "NPBSGD", "LIBSVM", "L-BFGS"} <= methods
    assert {row["task"] for row in rows} == {runs.SVM, runs.LOGISTIC}
    # The paper's numbers are beside those of its methods.
    column = "paper: risk / error % / order"
    with_numbers = {row["method"] for row in rows if row[column] != "-"}
    assert {"POLK", "LIBSVM"} <= with_numbers
    assert "NPBSGD" not in with_numbers
    for figure in record["figures"]:
        assert (tmp_path / figure["file"]).read_bytes().startswith(b"\x89PNG")

    # All three ways to scale textures are there, and steps are measured on rows held out.
    scalings = {
        row["settings"].partition("; ")[2] for row in rows if row.get("patches") == "held out"
    }
    assert len(scalings) == (3 if name == "polk-brodatz" else 0)
    budgeted = [
        row for row in rows if row["method"].startswith("BSGD") and row.get("patches") != "apart"
    ]
    assert all(0.0 <= row["held-out error %"] <= 100.0 for row in budgeted)

    # With the parsimony that the paper prints for digits, nothing is learned.
    printed = [row["model order"] for row in rows if "as printed" in row["settings"]]
    assert printed == ([0, 0] if name == "polk-mnist" else [])


def test_every_reading_of_the_textons_has_both_methods_and_the_notes_name_the_nearest(data):
    result = get_experiment("polk-textons")(Context(data, quick=True))
    names = [(row["filters"], row["scaling"]) for row in result.rows]
    assert [row["method"] for row in result.rows] == ["LIBSVM", "POLK"] * (len(names) // 2)
    assert len(set(names)) == len(names) // 2 >= 4
    machines = {
        words: row["held-out error %"] for words, row in zip(names, result.rows, strict=True)
        if row["method"] == "LIBSVM"
    }  # fmt: skip
    nearest = min(machines, key=lambda words: abs(machines[words] - 3.72))
    assert f"is: {', '.join(nearest)}, with {machines[nearest]:.2f} %" in " ".join(result.notes)
    assert all(target.name.startswith(f"POLK, {nearest[0]}") for target in result.targets)


# -- theorems -------------------------------------------------------------------------------------


def test_the_distance_is_that_of_the_kernel_norm():
    problem = polk_theorems._Problem(toy_rows(0))
    points, w = problem.X[:3], np.array([1.0, -2.0, 0.5])
    model = SimpleNamespace(dictionary_=points, coefficients_=w[:, np.newaxis])
    difference = np.zeros(len(problem.y))
    difference[:3] = w
    difference -= problem.a
    gram = np.exp(-((problem.X - problem.X.T) ** 2) / (2.0 * 0.5**2))
    assert problem.distance(model) == pytest.approx(np.sqrt(difference @ gram @ difference))
    # The minimiser's gradient is 0: ridge * a = (y - f) / n.
    assert_allclose(0.01 * problem.a * len(problem.y), problem.y - gram @ problem.a, atol=1e-9)


def test_falling_steps_come_nearer_and_constant_ones_stay_within_the_radius():
    result = polk_theorems.EXPERIMENT(Context(quick=True, seed=1))
    distance = {
        (row["steps"], row["rows"]): row["distance / norm of the minimiser"] for row in result.rows
    }
    assert distance["falling, 1/t", 3000] < 0.6 * distance["falling, 1/t", 300]
    within = [
        row for row in result.rows if row["radius of Theorem 2 / norm"] and row["rows"] == 3000
    ]
    assert len(within) == 3
    for row in within:
        assert row["distance / norm of the minimiser"] < row["radius of Theorem 2 / norm"]
