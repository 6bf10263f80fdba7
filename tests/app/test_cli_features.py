"""The command on random features, novelty detection and Gaussian processes."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from command_line import run
from mercer import GaussianProcessRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.expansions import RandomFeatures
from mercer_app.cli._demo import write_digits, write_pictures
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining

pytestmark = pytest.mark.usefixtures("quickest_race", "few_steps", "undrawn", "rough_importances")


def classes(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    y = np.array(["no", "yes"])[(x[:, 0] * x[:, 1] > 0).astype(int)]
    return pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})


def quantities(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.uniform(-3.0, 3.0, n)
    return pa.table({"a": a, "y": 1000.0 + 50.0 * np.sin(a) + 10.0 * rng.standard_normal(n)})


def machines(n, seed, n_odd):
    """Rows of a cloud around 0, the first ``n_odd`` of them far from it."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    x[:n_odd] += 6.0 * np.sign(rng.standard_normal((n_odd, 3)))
    kind = np.where(np.arange(n) < n_odd, "odd", "plain")
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "kind": kind})


MODELS = {
    "features": ("classes", "--target y --expansion random_features"),
    "novelty": ("machines", "--task novelty --exclude kind --nu 0.05"),
    "labelled": ("machines", "--task novelty --target kind --expansion random_features"),
    "gp": ("quantities", "--task gp --target y --features 64 --noise 0.08"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables and models that the tests only read."""
    folder = tmp_path_factory.mktemp("files")
    for name, table in {
        "classes": classes(2000, 0),
        "classes-test": classes(600, 1),
        "quantities": quantities(2000, 0),
        "quantities-test": quantities(600, 1),
        "machines": machines(3000, 0, 0),
        "machines-test": machines(600, 1, 100),
    }.items():
        pq.write_table(table, folder / f"{name}.parquet")
    for name, (data, words) in MODELS.items():
        code = run(
            "fit", folder / f"{data}.parquet", "--out", folder / f"{name}.mercer", *words.split()
        )
        assert code == 0, name
    return folder


@pytest.fixture
def measured(files, mercer):
    """Evaluate a model; return the measures."""

    def call(name, data, *words):
        code, out, err = mercer(
            "evaluate", files / f"{name}.mercer", files / f"{data}.parquet", "--json", *words
        )
        assert code == 0, err
        return json.loads(out)

    return call


# -- random features ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expansion"),
    [
        ("--expansion random_features", RandomFeatures(128, seed=3)),
        ("--mode faithful --block-size 32", RandomFeatures(32, mode="faithful", seed=3)),
        (
            "--mode cyclic --max-blocks 2 --block-size 64 --ridge 0.1",
            RandomFeatures(64, mode="cyclic", max_blocks=2, ridge=0.1, seed=3),
        ),
        ("--block-size 64 --ridge 0.1,0.01", RandomFeatures(64, ridge=[0.1, 0.01], seed=3)),
    ],
)
def test_options_of_random_features_reach_the_model(words, expansion, files, mercer, tmp_path):
    code, _, err = mercer(
        "fit", files / "classes.parquet", "--target", "y", "--seed", "3", "--out", tmp_path / "m",
        *words.split(),
    )  # fmt: skip
    assert code == 0, err
    assert load_model(tmp_path / "m").expansion == expansion
    # The modes that solve make 100 steps at least; plain ones as many as there are batches.
    assert ("passes rather than 1" in err) == (expansion.mode != "faithful")


def test_random_features_predict_and_are_described(files, mercer, measured, tmp_path):
    assert measured("features", "classes-test")["error_percent"] < 5.0
    described = json.loads(mercer("inspect", files / "features.mercer", "--json")[1])
    # 13 passes over 2,000 rows are 101 steps of 256, and one on the 144 rows that are left.
    assert described["random_features"] == "13,056 in 102 blocks of 128, seed 0"
    assert described["model_order"] == 13_056
    assert described["average"] == "none"
    assert (described["batch_size"], described["rows_per_step"]) == (32, 256)
    code, _, _ = mercer(
        "predict", files / "features.mercer", files / "classes-test.parquet",
        "--out", tmp_path / "p.csv",
    )  # fmt: skip
    assert code == 0
    expected = load_model(files / "features.mercer").predict(classes(600, 1))
    assert csv.read_csv(tmp_path / "p.csv").column("prediction").to_pylist() == expected.tolist()


def test_pictures_of_a_model_without_images_in_it_are_left_out(tmp_path):
    data, _ = write_digits(tmp_path)
    options = {"expansion": RandomFeatures(64, min_steps=0)}
    training = FileTraining(data, "digit", options=options, scaling="common").start()
    training.run(tmp_path / "m")
    write_pictures(training.rows_, tmp_path)
    assert (tmp_path / "model_order.png").exists()
    assert not (tmp_path / "dictionary.png").exists()


# -- novelty ------------------------------------------------------------------------------------


def test_measures_of_novelty_are_those_of_the_scores(files, measured):
    table = machines(600, 1, 100)
    novel = np.arange(600) < 100
    for name, words in (("novelty", ["--target", "kind"]), ("labelled", [])):
        decisions = load_model(files / f"{name}.mercer").decision_function(table)
        found = measured(name, "machines-test", *words)
        assert found["rows"] == 600
        assert_allclose(found["novel_percent"], 100.0 * np.mean(decisions < 0))
        assert_allclose(found["labelled_novel_percent"], 100.0 / 6.0)
        assert_allclose(found["found_percent"], 100.0 * np.mean(decisions[novel] < 0))
        assert_allclose(found["false_alarm_percent"], 100.0 * np.mean(decisions[~novel] < 0))
        assert_allclose(found["auc"], roc_auc_score(novel, -decisions))
        assert found["auc"] > 0.99
        # The rarer label marks the novel rows, unless it is said which one does.
        assert measured(name, "machines-test", *words, "--outlier", "odd") == found
        other = measured(name, "machines-test", *words, "--outlier", "plain")
        assert_allclose(other["auc"], 1.0 - found["auc"], atol=1e-12)


def test_novelty_needs_no_labels(files, measured):
    found = measured("novelty", "machines-test")
    assert found.keys() == {"rows", "novel_percent"}
    train = measured("novelty", "machines")
    # The offset is the 5 % quantile of a sample of 1,000 of these 3,000 rows: deviation 0.7 %.
    assert train["novel_percent"] == pytest.approx(5.0, abs=2.0)
    assert load_model(files / "novelty.mercer").roles_.target is None
    pq.write_table(machines(50, 2, 0).drop_columns(["kind"]), files / "bare.parquet")
    assert measured("labelled", "bare").keys() == {"rows", "novel_percent"}


def test_novelty_is_predicted_as_1_or_minus_1_and_a_score(files, mercer, tmp_path):
    out = tmp_path / "p.parquet"
    words = ("predict", files / "novelty.mercer", files / "machines-test.parquet", "--out", out)
    assert mercer(*words)[0] == 0
    found = pq.read_table(out)
    assert found.column_names == ["prediction", "score"]
    prediction, score = (found.column(name).to_numpy() for name in found.column_names)
    assert_array_equal(prediction, np.where(score < 0, -1, 1))
    described = json.loads(mercer("inspect", files / "novelty.mercer", "--json")[1])
    assert (described["nu"], described["n_rows_learned"]) == (0.05, 3000)
    assert "loss" not in described


def test_numbers_and_truth_values_may_mark_novel_rows(files, measured):
    table = machines(600, 1, 100)
    novel = np.arange(600) < 100
    for column, outlier in ((novel, "true"), (np.where(novel, 7, 3), "7"), (novel * 1.0, "1")):
        pq.write_table(table.set_column(3, "mark", pa.array(column)), files / "marked.parquet")
        found = measured("novelty", "marked", "--target", "mark", "--outlier", outlier)
        assert_allclose(found["labelled_novel_percent"], 100.0 / 6.0)


# -- Gaussian processes ---------------------------------------------------------------------------


def test_measures_of_a_gaussian_process_are_of_its_predictive_distribution(files, measured):
    table = quantities(600, 1)
    y = table.column("y").to_numpy()
    model = load_model(files / "gp.mercer")
    mean, std = model.predict(table, return_std=True, include_noise=True)
    found = measured("gp", "quantities-test")
    assert_allclose(found["rmse"], np.sqrt(np.mean((y - mean) ** 2)))
    assert_allclose(found["log_density"], norm(mean, std).logpdf(y).mean())
    inside = np.abs(y - mean) <= norm.ppf(0.95) * std
    assert_allclose(found["coverage_90_percent"], 100.0 * inside.mean())
    # The noise has standard deviation 10, the target 37: 0.08 of its variance is about right.
    # 600 rows: binomial deviation 1.2 %.
    assert found["coverage_90_percent"] == pytest.approx(90.0, abs=4.0)
    assert found["rmse"] == pytest.approx(10.0, abs=1.0)


def test_a_gaussian_process_predicts_with_standard_deviations(files, mercer, tmp_path):
    out = tmp_path / "p.csv"
    words = ("predict", files / "gp.mercer", files / "quantities-test.parquet", "--out", out)
    assert mercer(*words)[0] == 0
    found = csv.read_csv(out)
    assert found.column_names == ["prediction", "std"]
    model, table = load_model(files / "gp.mercer"), quantities(600, 1)
    assert_allclose(found.column("prediction").to_numpy(), model.predict(table))
    _, std = model.predict(table, return_std=True, include_noise=True)
    assert_allclose(found.column("std").to_numpy(), std)
    _, without = model.predict(table, return_std=True)
    added = 0.08 * np.var(quantities(2000, 0).column("y").to_numpy())
    assert_allclose(found.column("std").to_numpy() ** 2, without**2 + added)


def test_the_marginal_likelihood_is_that_of_the_target_in_its_own_units(files, mercer):
    described = json.loads(mercer("inspect", files / "gp.mercer", "--json")[1])
    assert (described["noise"], described["model_order"]) == (0.08, 64)
    model = load_model(files / "gp.mercer")
    y = quantities(2000, 0).column("y").to_numpy()
    Z = model.random_features(quantities(2000, 0))
    scale = y.std()
    gram = scale**2 * (Z @ Z.T + 0.08 * np.eye(2000))
    residual = y - y.mean()
    expected = -0.5 * (
        residual @ np.linalg.solve(gram, residual)
        + np.linalg.slogdet(gram)[1]
        + 2000 * np.log(2 * np.pi)
    )
    assert_allclose(described["log_marginal_likelihood"], expected, rtol=1e-8)


# -- all of them --------------------------------------------------------------------------------

PICTURES = {
    "features": (
        "classes",
        ["Learning curve", "Confusion matrix", "ROC curve", "The learned function"],
    ),
    "labelled": ("machines", ["Learning curve", "Scores of held-out rows", "Novelty by"]),
    "gp": (
        "quantities",
        ["Reliability of the intervals", "y: Gaussian process by", "log marginal likelihood"],
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_fit_evaluates_and_reports(name, files, mercer, tmp_path):
    data, expected = PICTURES[name]
    code, out, err = mercer(
        "fit", files / f"{data}.parquet", "--out", tmp_path / "m", *MODELS[name][1].split(),
        "--test", files / f"{data}-test.parquet", "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert code == 0, err
    assert "rows 600\n" in out
    assert (tmp_path / "m").read_bytes() == (files / f"{name}.mercer").read_bytes()
    page = (tmp_path / "r.html").read_text()
    for words in expected:
        assert words in page, words
    if name == "features":
        assert re.search(r"\d+ random features", page)
        for of_points in ("dictionary", "compression error"):
            assert of_points not in page


@pytest.mark.parametrize("name", MODELS)
def test_models_learn_on_after_loading_bit_for_bit(name, files, tmp_path):
    table = pq.read_table(files / f"{MODELS[name][0]}.parquet").slice(0, 333)
    table = table.drop_columns(["kind"]) if name == "novelty" else table
    target = load_model(files / f"{name}.mercer").roles_.target
    y = table.column(target).to_numpy() if name not in ("novelty", "labelled") else None
    for out in ("a", "b"):
        model = load_model(files / f"{name}.mercer")
        model.partial_fit(table, y)  # of random features, rows wait for a step now
        if out == "b":
            model.save(tmp_path / "between")
            model = load_model(tmp_path / "between")
        model.partial_fit(table, y).save(tmp_path / out)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


MISTAKES = {
    "fit classes.parquet --out m": "Only --task novelty goes without",
    "fit classes.parquet --target y --out m --mode newton --max-blocks 2": "`--max-blocks` is for",
    "fit classes.parquet --target y --out m --mode faithful --ridge 1": "`--ridge` is for",
    "fit classes.parquet --target y --out m --ridge small": "takes a number",
    "fit classes.parquet --target y --out m --ridge 0": "`--ridge` must be",
    "fit classes.parquet --target y --out m --block-size 0": "`--block-size` must be",
    "fit classes.parquet --target y --out m --block-size 9 --max-size 9": "no --max-size",
    "fit classes.parquet --target y --out m --expansion komp --mode newton": "no --mode",
    "fit classes.parquet --target y --out m --expansion full --ridge 1": "no --ridge",
    "fit classes.parquet --target y --out m --nu 0.1": "`--nu` cannot be chosen",
    "fit classes.parquet --target y --out m --features 9": "`--features` cannot be chosen",
    "fit machines.parquet --task novelty --out m --nu 2": "`--nu` must be",
    "fit machines.parquet --task novelty --out m --loss hinge": "`--loss` cannot be chosen",
    "fit machines.parquet --task novelty --out m --quantiles 0.1": "`--quantiles` cannot be chosen",
    "fit machines.parquet --task novelty --out m --class-weight balanced": "cannot be chosen",
    "fit machines.parquet --task novelty --out m --mode newton": "mode='faithful'",
    "fit machines.parquet --task novelty --out m --target knd": "Did you mean 'kind'?",
    "fit quantities.parquet --task novelty --target y --out m": "which rows are known, as 1 and -1",
    "fit machines.parquet --task novelty --target kind --out m --test three.parquet": "are 3,",
    "fit quantities.parquet --task gp --target y --out m --noise 0": "`--noise` must be",
    "fit quantities.parquet --task gp --target y --out m --features 0": "`--features` must be",
    "fit quantities.parquet --task gp --target y --out m --passes 2": "independent observations",
    "fit quantities.parquet --task gp --target y --out m --tolerance 1": "`--expansion` cannot be",
    "fit classes.parquet --task gp --target y --out m": "holds text",
    "evaluate novelty.mercer machines.parquet --outlier odd": "there are no labels",
    "evaluate gp.mercer quantities.parquet --outlier odd": "Leave it out",
    "evaluate labelled.mercer machines-test.parquet --outlier od": "the labels are 'odd', 'plain'",
    "evaluate labelled.mercer machines.parquet": "All labels are 'plain'",
    "evaluate labelled.mercer three.parquet": "there are 3, 'high', 'low', 'plain'",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_answered_by_one_message(words, files, mercer, monkeypatch):
    monkeypatch.chdir(files)
    kinds = pa.array(["plain", "low", "high"] * 200)
    pq.write_table(machines(600, 0, 0).set_column(3, "kind", kinds), files / "three.parquet")
    code, out, err = mercer(*words.split())
    assert (code, out) == (2, "")
    assert MISTAKES[words] in err
    assert not (files / "m").exists()


def test_models_of_tables_that_make_no_sense_are_refused():
    columns = TablePreprocessor(exclude=("y",))
    with pytest.raises(ValueError, match="only novelty detection goes without"):
        TableRows(GaussianProcessRegressor(), columns)
    with pytest.raises(ValueError, match="needs all rows at once"):
        TableRows(GaussianProcessRegressor(method="cyclic"), columns, "y")
