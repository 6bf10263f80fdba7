"""The experiments of COLK, Section V, and the methods that they compare."""

import functools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from mercer.exceptions import DivergenceError
from mercer.expansions import Full
from mercer.kernels import Gaussian
from mercer.losses import AbsoluteError, Huber, Squared
from mercer.risks import CVaR, Tracker, UpperSemideviation, Variance
from mercer_reproduction import Context, get_experiment
from mercer_reproduction._colk_data import SETTINGS, Sample, clean_error, draw_pool, truth
from mercer_reproduction._colk_methods import (
    ALPHA,
    RIDGE,
    absolute,
    bsgd,
    colk,
    compositional_bsgd,
    huber,
    mean_and_deviation,
    moments,
    npbsgd,
    polk,
    rbf_network,
    regressor,
    rivals,
    squared_errors,
    tuned,
)
from mercer_reproduction._colk_nonconvex import Population, descend
from mercer_reproduction.colk_guidance import _nudged

NAMES = ["colk-fig1", "colk-fig2", "colk-fig3", "colk-table1", "colk-guidance", "colk-tracking"]
POOL = draw_pool(SETTINGS["G"], n_test=300, n_rows=2400)

METHODS = [
    colk("moments", moments(2.0)),
    colk("variance", moments(2.0, order=2)),
    colk("semideviation, tracked", UpperSemideviation(units=0.5)),
    colk("cvar", CVaR(0.5, units=0.5), alpha=0.05),
    polk("polk", 0.05),
    huber("huber", 1.0),
    absolute("absolute", 0.05, 0.005),
    bsgd("project", "project", 23, 0.05),
    npbsgd("npbsgd", 23, 0.05),
    compositional_bsgd("merge", 23, 2.0, clamp=True),
    rbf_network("scgd", 0.02, clip=2.0),
    rbf_network("nasa", 0.02, clip=2.0, rule="nasa"),
    rbf_network("noise", 0.02, clip=2.0, noise=0.1),
]


# -- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_learns_most_of_the_function_and_goes_on_where_it_stopped(method):
    training = POOL.training_set(0, 600)
    run = method.start(training)
    for n_steps in (1, 199, 400):
        run.advance(n_steps)
    assert run.n_steps == 600
    error = clean_error(run.predict, POOL.test.X)
    assert error < 0.25 * np.mean(truth(POOL.test.X) ** 2)
    at_once = method.learn(training)
    assert_allclose(at_once.predict(POOL.test.X), run.predict(POOL.test.X), rtol=1e-6, atol=1e-8)
    assert run.model_order == at_once.model_order <= 50


def colk_in_the_units_of_the_paper(training, clip, alpha, beta, clamp, order):
    """COLK, eq. (47), word for word on all points: f(x) = sum w k(d, x), no compression."""
    kernel = Gaussian(0.06)
    points, w, old, g = np.empty((0, 1)), np.empty(0), np.empty(0), None
    for x, y, x2, y2 in zip(*training.first, *training.second, strict=True):
        both = kernel(np.array([x, x2]), points) if len(points) else np.zeros((2, 0))
        r, r2 = both @ w - (y, y2)
        before = (both[1, : old.size] @ old - y2) ** 2
        g = r2**2 if g is None else (1 - beta) * (g - before) + r2**2
        g = max(g, 0.0)
        z = r**2 - g
        a = 1 + 0.1 * sum(p * z ** (p - 1) for p in range(2, order + 1))
        a = max(a, 0.0) if clamp else a
        own, other = a * 2 * r, (1 - a) * 2 * r2
        factor = min(1.0, clip / max(abs(own), abs(other)))
        points = np.vstack([points, x, x2])
        old = w
        w = np.append((1 - alpha * RIDGE) * w, [-alpha * factor * own, -alpha * factor * other])
    return lambda X: kernel(X, points) @ w


@pytest.mark.parametrize(("clamp", "order"), [(True, 4), (False, 4), (True, 2)])
def test_the_printed_update_comes_out_with_the_units_of_the_library(clamp, order):
    training = POOL.training_set(1, 60)
    predict = colk_in_the_units_of_the_paper(training, 2.0, ALPHA, 0.01, clamp, order)
    expected = predict(POOL.test.X)
    method = colk("", moments(2.0, clamp=clamp, order=order), expansion=Full())
    assert_allclose(method.learn(training).predict(POOL.test.X), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "step", "ridge"),
    [(Squared(), 0.04, 5e-6), (Huber(1.0), 0.04, 5e-6), (AbsoluteError(), 0.02, 1e-5)],
    ids=lambda value: type(value).__name__,
)
def test_losses_that_are_half_of_the_papers_have_twice_its_step(loss, step, ridge):
    model = regressor(loss)
    assert model.step_size == pytest.approx(step)
    assert model.regularization == pytest.approx(ridge)


@pytest.mark.parametrize(
    ("risk", "rows"),
    [
        (None, 1),
        (CVaR(0.9), 1),
        (Variance(), 1),
        (Variance(tracker=Tracker(pairs="stream")), 2),
    ],
)
def test_only_pairs_of_the_stream_take_two_rows_a_step(risk, rows):
    assert regressor(Squared(), risk).batch_size == rows


def test_the_update_as_printed_diverges():
    with pytest.raises(DivergenceError, match="CentralMoments"):
        colk("printed", moments(clamp=False)).learn(POOL.training_set(0, 600))


def test_tuning_takes_the_step_size_with_the_least_mean_error_and_none_that_diverges():
    found = {0.1: [1.0, 5.0], 0.2: [2.0, 3.0], 0.3: [0.0, math.inf]}
    method, alpha = tuned(
        lambda a: polk(str(a), a), list(found), lambda method: found[float(method.name)]
    )
    assert (method.name, alpha) == ("0.2", 0.2)


def test_rivals_are_those_of_the_paper_each_with_its_own_step():
    def errors(method):
        tried.append(method.name)
        return [float(tried.count(method.name) != 2)]

    tried = []
    found = rivals(errors, (0.1, 0.2), (0.01, 0.02), size=23, clip=2.0)
    steps = {method.name: step for method, step in found}
    assert steps.pop("comp-BSGD, clip 2") == ""
    networks = {name for name in steps if "RBFs" in name}
    assert len(networks) == 4
    assert {steps.pop(name) for name in networks} == {"0.02"}
    assert steps == dict.fromkeys(("BSGD, remove", "BSGD, project", "BSGD, merge", "NPBSGD"), "0.2")
    # Others have the step of their kin.
    assert len(set(tried)) == 5
    assert "NPBSGD" not in tried


def test_clipped_shares_are_those_of_the_steps():
    training = POOL.training_set(0, 200)
    assert colk("", moments(1e6, weight=0.0)).learn(training).clipped == 0.0
    assert colk("", moments(1e-6), expansion=Full()).learn(training).clipped > 0.98
    assert math.isnan(polk("", 0.02).learn(training).clipped)


def test_squared_errors_are_those_of_noisy_rows():
    run = polk("", 0.05).learn(POOL.training_set(0, 600))
    expected = (run.predict(POOL.test.X) - POOL.test.y) ** 2
    assert_allclose(squared_errors(run, POOL.test), expected)


def test_deviations_leave_out_what_diverged_and_say_so():
    assert mean_and_deviation([1.0, 2.0, 3.0]) == "2 (0.82)"
    assert mean_and_deviation([math.inf, 2.0]) == "2 (0), 1/2 diverged"
    assert mean_and_deviation([math.inf, math.nan]) == "2/2 diverged"


# -- the experiments ------------------------------------------------------------------------------


@functools.cache
def quick(name, folder):
    said = []
    context = Context(data=folder, quick=True, seed=1, say=said.append)
    experiment = get_experiment(name)
    result = experiment(context)
    return result, experiment.record(result, context), said


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A made-up file of the shape of LIDAR."""
    folder = tmp_path_factory.mktemp("data")
    distance = np.linspace(390, 720, 221)
    noise = 0.08 * np.random.default_rng(0).standard_normal(221)
    columns = {"range": distance, "logratio": -0.8 / (1 + np.exp((560 - distance) / 30)) + noise}
    pyarrow.parquet.write_table(pa.table(columns), folder / "lidar.parquet")
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_quick_runs_fill_the_table_and_judge_nothing(name, data):
    result, record, said = quick(name, data)
    columns = list(result.rows[0])
    assert len(result.rows) >= 8
    for row in result.rows:
        assert list(row) == columns
        assert not any(isinstance(v, float) and math.isnan(v) for v in row.values())
    assert record["targets"]
    assert all(math.isfinite(target.measured) for target in result.targets)
    assert all("not judged" in target["met"] for target in record["targets"])
    assert said


@pytest.mark.parametrize("name", NAMES)
def test_figures_show_finite_lines_and_label_their_axes(name, data):
    drawings = quick(name, data)[0].drawings
    assert len({drawing.name for drawing in drawings}) == len(drawings) >= 2
    for drawing in drawings:
        ax = Figure().subplots()
        drawing.draw(ax)
        assert ax.lines
        assert all(np.isfinite(line.get_ydata()).all() for line in ax.lines)
        assert ax.get_xlabel()
        assert ax.get_ylabel() or len(ax.get_yticklabels()) == len(ax.lines[0].get_ydata())


def test_one_pass_says_where_colk_is_below_others_and_below_itself_before(data):
    result, _, _ = quick("colk-fig1", data)
    below, before = result.notes[-2:]
    ends = {(row["setting"][0], row["method"]): row for row in result.rows}
    counts = {target.name: target.measured for target in result.targets}
    for column, measure in (("objective, t = 150", "objective"), ("variation", "variation")):
        rival = "POLK, step .02"
        found = [
            letter
            for letter in "AG"
            if ends[letter, "COLK, clip 2"][column] < ends[letter, rival][column]
        ]
        assert f"`{rival}` in {'all' if len(found) == 2 else ' '.join(found) or 'none'}" in below
        name = f"settings, of 2, where COLK's {measure} is below that of {rival}"
        assert counts.get(name, len(found)) == len(found)
    own = [ends[letter, "COLK, clip 2"] for letter in "AG"]
    assert all(row["objective, t = 150"] < row["objective, t = 37"] for row in own)
    assert "objective in all" in before
    # The paper's POLK varies most from one training set to the next.
    assert "A lower variation: `POLK, step .5` in all" in below


def test_the_twenty_sets_say_where_the_claim_of_the_paper_holds(data):
    result, _, _ = quick("colk-fig2", data)
    claims = [note for note in result.notes if note.startswith("The claim for COLK")]
    assert len(claims) == 3
    [printed] = [row for row in result.rows if row["method"] == "COLK as printed"]
    assert printed["A"] == printed["G"] == "2/2 diverged"


def test_lidar_says_what_each_method_changes_on_the_same_splits(data):
    result, _, _ = quick("colk-fig3", data)
    changes = [note for note in result.notes if note.startswith("outliers ")]
    assert len(changes) == 2
    for name in ("Huber(.1) ", "CVaR .9 ", "NPBSGD ", "comp-BSGD", "NASA "):
        assert all(name in note for note in changes)


def slow_risk(population, values):
    """Mean plus half the smoothed upper semideviation of Welsch's loss, row by row."""
    losses = [
        0.5 * (1 - math.exp(-((v - y) ** 2)))
        for v, y in zip(values, population.sample.y, strict=True)
    ]
    g = sum(losses) / len(losses)
    excess = [0.25 * math.log1p(math.exp((loss - g) / 0.25)) for loss in losses]
    return g + 0.5 * sum(excess) / len(losses)


def test_the_risk_that_is_not_convex_has_the_gradient_of_its_differences():
    sample = Sample(*POOL.test.take(np.arange(12))).standardised()
    population = Population(sample)
    gram = Gaussian(0.06)(sample.X)
    w = np.random.default_rng(0).standard_normal(12)
    risk, squared = population.risk_and_gradient(gram @ w)
    assert risk == pytest.approx(slow_risk(population, gram @ w), rel=1e-12)
    by_weight = [
        (slow_risk(population, gram @ (w + h)) - slow_risk(population, gram @ (w - h))) / 2e-5
        for h in 1e-5 * np.eye(12)
    ]
    # In the span of the rows: the derivative in w is K c for a gradient with the weights c.
    assert squared == pytest.approx(by_weight @ np.linalg.solve(gram, by_weight), rel=1e-5)


def test_steps_of_theorem_3_stay_below_its_bound():
    found = descend(Population(POOL.rows.take(np.arange(100)).standardised()), 0.2, 2)
    assert found.n_steps == 100
    assert found.tolerance == pytest.approx(0.2 * 0.2**1.5)
    assert 0.0 < found.least < found.mean < found.bound
    assert found.gradients[-1] < found.gradients[0]


def test_a_risk_serves_rare_regions_and_hurts_with_outliers_even_in_a_quick_run(data):
    rows = {
        (row["noise"].split(":")[0], row["objective"]): row
        for row in quick("colk-guidance", data)[0].rows
    }
    rare = {name: rows["rare", name]["worst 1 %"] for name in ("mean", "semivariance, weight .5")}
    assert rare["semivariance, weight .5"] < rare["mean"]
    shift = {name: rows["shift", name]["clean MSE"] for name in ("mean", "semivariance, weight .5")}
    assert shift["semivariance, weight .5"] > shift["mean"]
    # How far CVaR moves with roundings is measured there, and only there.
    nudged = "CVaR .9, labels moved by a rounding"
    assert [noise for noise, name in rows if name == nudged] == ["shift"]
    error, other = (rows["shift", name]["clean MSE"] for name in ("CVaR .9", nudged))
    assert other == pytest.approx(error, rel=0.5)


def test_a_rounding_moves_every_label_to_the_next_number():
    training = draw_pool(SETTINGS["C"], seed=0, n_test=1).training_set(0, 50, 1)
    for part, moved in zip(training, _nudged(training), strict=True):
        assert np.array_equal(part.X, moved.X)
        assert np.all(moved.y > part.y)
        assert_allclose(moved.y, part.y, rtol=1e-15, atol=0)
