"""The command: what it writes, prints and answers to mistakes."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from pyarrow import csv
from sklearn.metrics import log_loss, mean_pinball_loss, r2_score, roc_auc_score

from command_line import run
from mercer import KernelClassifier, __version__, load_model
from mercer_app import cli
from mercer_app.cli._console import ProgressView

pytestmark = pytest.mark.usefixtures(
    "quickest_race", "quick_correction", "undrawn", "rough_importances"
)

ROWS = 400


def classes(n=ROWS, seed=0, names=("no", "yes")):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    town = rng.choice(["Bern", "Bonn"], n)
    y = np.array(names)[(x[:, 0] * x[:, 1] > 0).astype(int) * (len(names) - 1)]
    return pa.table({"id": np.arange(n), "a": x[:, 0], "b": x[:, 1], "town": town, "y": y})


def quantities(n=ROWS, seed=0):
    table = classes(n, seed)
    noise = np.random.default_rng(seed + 1).standard_normal(n)
    y = 1000.0 + 50.0 * np.sin(table.column("a").to_numpy()) + 5.0 * noise
    return table.set_column(4, "y", pa.array(y))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables and models that the tests only read."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(classes(), folder / "train.parquet")
    pq.write_table(classes(600, 1), folder / "test.parquet")
    pq.write_table(quantities(), folder / "quantities.parquet")
    for name, data, options in (
        ("classes", "train", []),
        ("hinge", "train", ["--loss", "hinge"]),
        ("regression", "quantities", []),
        ("quantiles", "quantities", ["--quantiles", "0.1,0.5,0.9"]),
    ):
        out = str(folder / f"{name}.mercer")
        data = str(folder / f"{data}.parquet")
        code = run("fit", data, "--target", "y", "--exclude", "id", "--out", out, *options)
        assert code == 0, name
    return folder


def measures(out):
    return {name: float(value) for name, value in (line.split() for line in out.splitlines())}


# -- fit --------------------------------------------------------------------------------------


def test_fit_writes_a_model_and_says_what_it_did(files, mercer, tmp_path):
    code, out, err = mercer(
        "fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m.mercer"
    )
    assert (code, out) == (0, "")
    assert "classification of 'y' (text)" in err
    assert "400 of 400 rows  100%" in err
    assert re.search(r"model order [\d,]+ after 400 rows, .* rows/s", err)
    assert err.count("rows/s") == 1  # of the whole run only
    assert "loss 0" in err
    assert load_model(tmp_path / "m.mercer").classes_.tolist() == ["no", "yes"]
    assert os.listdir(tmp_path) == ["m.mercer"]


def test_a_quiet_fit_says_nothing(files, mercer, tmp_path):
    answer = mercer(
        "fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m", "--quiet"
    )
    assert answer == (0, "", "")


def test_every_option_reaches_the_model(files, mercer, tmp_path):
    line = (
        "--kernel laplacian --length-scale 1.5 --max-size 77 --parsimony 0.5 --step-size 3 "
        "--regularization 1e-4 --batch-size 16 --passes 2 --class-weight balanced --seed 5 "
        "--task classification --loss squared_hinge --scaling none --shuffle-buffer 100 "
        "--exclude id --exclude town"
    )
    code, _, err = mercer(
        "fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m", *line.split()
    )
    assert code == 0, err
    model = load_model(tmp_path / "m")
    assert repr(model.kernel_) == "Laplacian(length_scale=1.5)"
    assert repr(model.expansion) == "KOMP(max_size=77, parsimony=0.5)"
    assert repr(model.loss_) == "SquaredHinge()"
    parameters = model.get_params(deep=False)
    expected = {
        "step_size": 3.0,
        "regularization": 1e-4,
        "batch_size": 16,
        "n_passes": 2,
        "class_weight": "balanced",
        "random_state": 5,
    }
    assert {name: parameters[name] for name in expected} == expected
    assert model.n_samples_seen_ == 2 * ROWS
    assert model.preprocessor_.feature_names_in_ == ["a", "b"]
    assert model.preprocessor_.scaling == "none"


@pytest.mark.parametrize(
    ("words", "expansion"),
    [
        ("--expansion komp --tolerance 0.1", "KOMP(max_size=1000, tolerance=0.1)"),
        ("--expansion full", "Full()"),
        ("--expansion budget --max-size 50", "Budget(size=50)"),
        ("--strategy remove --max-size 50", "Budget(size=50, strategy='remove')"),
    ],
)
def test_expansions_are_chosen_by_options(words, expansion, files, mercer, tmp_path):
    out = tmp_path / "m"
    words = ["fit", files / "train.parquet", "--target", "y", "--out", out, *words.split()]
    assert mercer(*words)[0] == 0
    assert repr(load_model(out).expansion) == expansion


def test_fit_with_test_data_and_report(files, mercer, tmp_path):
    code, out, _ = mercer(
        "fit", files / "train.parquet", "--target", "y", "--exclude", "id",
        "--out", tmp_path / "m", "--test", files / "test.parquet",
        "--report", tmp_path / "r.html",
    )  # fmt: skip
    assert code == 0
    assert measures(out)["error_percent"] < 15.0
    page = (tmp_path / "r.html").read_text()
    for words in ("balanced error %", "ROC curve for class yes", "By class", "passes"):
        assert words in page


# -- evaluate ---------------------------------------------------------------------------------


def test_measures_of_a_classification_are_those_of_scikit_learn(files, mercer):
    test = pq.read_table(files / "test.parquet")
    model = load_model(files / "classes.mercer")
    y = test.column("y").to_numpy(zero_copy_only=False).astype(str)
    _, out, _ = mercer("evaluate", files / "classes.mercer", files / "test.parquet")
    found = measures(out)
    predicted = model.predict(test)
    recalls = [np.mean(predicted[y == c] == c) for c in ("no", "yes")]
    expected = {
        "rows": 600,
        "error_percent": 100 * np.mean(predicted != y),
        "balanced_error_percent": 100 * (1 - np.mean(recalls)),
        "commonest_class_error_percent": 100 * min(np.mean(y == c) for c in ("no", "yes")),
        "log_loss": log_loss(y, model.predict_proba(test), labels=["no", "yes"]),
        "auc": roc_auc_score(y == "yes", model.decision_function(test)),
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name


def test_measures_of_a_regression_are_in_units_of_the_target(files, mercer):
    data = quantities(700, 3)
    pq.write_table(data, files / "other.parquet")
    y = data.column("y").to_numpy()
    _, out, _ = mercer("evaluate", files / "regression.mercer", files / "other.parquet", "--json")
    found = json.loads(out)
    predicted = load_model(files / "regression.mercer").predict(data)
    assert found["rows"] == 700
    assert_allclose(found["mse"], np.mean((predicted - y) ** 2))
    assert_allclose(found["rmse"], np.sqrt(np.mean((predicted - y) ** 2)))
    assert_allclose(found["mae"], np.mean(abs(predicted - y)))
    assert_allclose(found["r2"], r2_score(y, predicted))
    assert found["r2"] > 0.9


def test_quantiles_have_pinball_losses_and_coverages(files, mercer):
    data = pq.read_table(files / "quantities.parquet")
    y = data.column("y").to_numpy()
    words = ("evaluate", files / "quantiles.mercer", files / "quantities.parquet", "--json")
    found = json.loads(mercer(*words)[1])
    predicted = load_model(files / "quantiles.mercer").predict(data)
    for level, column in zip((0.1, 0.5, 0.9), predicted.T, strict=True):
        assert_allclose(found[f"pinball_{level}"], mean_pinball_loss(y, column, alpha=level))
        assert_allclose(found[f"coverage_{level}"], np.mean(y <= column))
    low, _, high = predicted.T
    assert_allclose(found["coverage_0.1_to_0.9"], np.mean((low <= y) & (y <= high)))
    assert_allclose(found["mean_pinball"], np.mean([found[f"pinball_0.{i}"] for i in (1, 5, 9)]))
    assert "mse" in found


def test_losses_without_probabilities_have_no_log_loss(files, mercer):
    found = measures(mercer("evaluate", files / "hinge.mercer", files / "test.parquet")[1])
    assert "log_loss" not in found
    assert found["auc"] > 0.8


def test_classes_never_seen_in_training_are_errors(files, mercer, tmp_path):
    pq.write_table(classes(100, 2, names=("no", "maybe")), tmp_path / "t.parquet")
    found = measures(mercer("evaluate", files / "classes.mercer", tmp_path / "t.parquet")[1])
    assert found["error_percent"] > 40.0
    assert "auc" not in found


def test_targets_may_be_in_another_column(files, mercer, tmp_path):
    test = pq.read_table(files / "test.parquet")
    pq.write_table(test.rename_columns(["id", "a", "b", "town", "truth"]), tmp_path / "t.parquet")
    words = ("evaluate", files / "classes.mercer", tmp_path / "t.parquet")
    assert mercer(*words, "--target", "truth") == mercer(
        "evaluate", files / "classes.mercer", files / "test.parquet"
    )
    assert "has no column 'y'" in mercer(*words)[2]


def test_text_columns_of_csv_files_stay_text(mercer, tmp_path):
    table = classes()
    zips = np.where(np.array(table.column("town")) == "Bern", "3000", "D-53111")
    csv.write_csv(table.set_column(3, "zip", pa.array(zips)), tmp_path / "train.csv")
    only_digits = table.set_column(3, "zip", pa.array(["3000"] * ROWS))
    csv.write_csv(only_digits, tmp_path / "test.csv")
    assert run("fit", tmp_path / "train.csv", "--target", "y", "--out", tmp_path / "m") == 0
    code, out, err = mercer("evaluate", tmp_path / "m", tmp_path / "test.csv")
    assert code == 0, err
    assert measures(out)["rows"] == ROWS


def test_evaluation_writes_a_report(files, mercer, tmp_path):
    for model, data, words in (
        ("classes", "test", "Confusion matrix"),
        ("quantiles", "quantities", "quantile 0.9"),
    ):
        code, _, err = mercer(
            "evaluate", files / f"{model}.mercer", files / f"{data}.parquet",
            "--report", tmp_path / "r.html",
        )  # fmt: skip
        assert code == 0, err
        assert words in (tmp_path / "r.html").read_text()
    page = (tmp_path / "r.html").read_text()
    cards = re.findall("<dt>(.*?)</dt>", page[: page.index("</dl>")])
    assert cards[:2] == ["mean pinball loss", "95 % interval"]
    for words in ("coverage 0.1 to 0.9", "pinball 0.9", "coverage 0.9"):
        assert f'<th scope="row">{words}</th>' in page.replace("<wbr>", "")


def test_a_report_says_when_its_figures_show_a_sample(files, mercer, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer_app.cli._report.ROWS_FOR_PICTURES", 200)
    mercer(
        "evaluate",
        files / "classes.mercer",
        files / "test.parquet",
        "--report",
        tmp_path / "r.html",
    )
    assert (
        "200 held-out rows, drawn at random, are in the pictures"
        in (tmp_path / "r.html").read_text()
    )


# -- predict ----------------------------------------------------------------------------------

PREDICTED = {
    "classes": ["prediction", "probability_no", "probability_yes"],
    "hinge": ["prediction", "score"],
    "regression": ["prediction"],
    "quantiles": ["quantile_0.1", "quantile_0.5", "quantile_0.9"],
}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("name", PREDICTED)
def test_predictions_are_those_of_the_model(name, ending, files, mercer, tmp_path):
    out = tmp_path / f"p.{ending}"
    test = pq.read_table(files / "test.parquet")
    code, _, err = mercer(
        "predict", files / f"{name}.mercer", files / "test.parquet", "--out", out, "--keep", "id"
    )
    assert code == 0, err
    found = pq.read_table(out) if ending == "parquet" else csv.read_csv(out)
    assert found.column_names == ["id", *PREDICTED[name]]
    assert found.column("id").to_pylist() == test.column("id").to_pylist()
    expected = load_model(files / f"{name}.mercer").predict(test)
    if expected.ndim == 1 and expected.dtype.kind == "U":
        assert found.column("prediction").to_pylist() == expected.tolist()
    else:
        columns = [found.column(name).to_numpy() for name in PREDICTED[name]]
        # CSV holds enough digits for any float64.
        assert_allclose(np.stack(columns, axis=-1).reshape(expected.shape), expected, rtol=1e-13)
    assert os.listdir(tmp_path) == [out.name]


def test_prediction_needs_the_inputs_only(files, mercer, tmp_path):
    bare = pq.read_table(files / "test.parquet").select(["town", "b", "a"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    for data in (tmp_path / "bare.parquet", files / "test.parquet"):
        code, _, _ = mercer("predict", files / "classes.mercer", data, "--out", tmp_path / "p.csv")
        assert code == 0
    assert len(csv.read_csv(tmp_path / "p.csv")) == 600


def test_a_failed_prediction_leaves_the_old_file(files, mercer, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("old")
    table = pq.read_table(files / "test.parquet")
    bad = np.array(table.column("a").to_pylist())
    bad[-1] = np.inf
    pq.write_table(table.set_column(1, "a", pa.array(bad)), tmp_path / "bad.parquet")
    words = ("predict", files / "classes.mercer", tmp_path / "bad.parquet", "--out", out)
    code, _, err = mercer(*words)
    assert code == 2
    assert "'a' holds inf" in err
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["bad.parquet", "p.csv"]


# -- inspect, demo, help ----------------------------------------------------------------------


def test_inspect_says_what_is_in_a_file(files, mercer, tmp_path):
    values = json.loads(mercer("inspect", files / "quantiles.mercer", "--json")[1])
    assert values["target"] == "y"
    assert values["columns"] == ["a", "b", "town"]
    assert values["loss"] == "Quantile(levels=[0.1, 0.5, 0.9])"
    assert values["n_rows_learned"] == ROWS
    assert "classes no, yes\n" in mercer("inspect", files / "classes.mercer")[1]
    KernelClassifier().fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "arrays.mercer")
    values = json.loads(mercer("inspect", tmp_path / "arrays.mercer", "--json")[1])
    assert (values["estimator"], values["n_inputs"]) == ("KernelClassifier", 1)


NO_WORK = """
import sys
from mercer_app.cli import main

heavy = {"numpy", "scipy", "sklearn", "numba", "pyarrow", "matplotlib", "pandas"}
for words in sys.argv[1:]:
    try:
        main(words.split())
    except SystemExit:
        pass
    if heavy & sys.modules.keys():
        sys.exit(f"{words} imported {heavy & sys.modules.keys()}")
"""


def test_what_needs_no_work_is_answered_without_the_packages_of_the_work():
    asked = "--help", "--version", "fitt", "fit --help", "fit a.csv --tagret x", "reproduce --help"
    command = [sys.executable, "-c", NO_WORK, *asked]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_and_help(mercer):
    assert mercer("--version") == (0, f"mercer {__version__}\n", "")
    for command in ([], ["fit"], ["evaluate"], ["predict"], ["inspect"], ["demo"]):
        code, out, _ = mercer(*command, "--help")
        assert code == 0
        assert "Exit codes" in out


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, mercer):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "rich" else name)
    code, out, err = mercer("--help")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "rich" in err
    assert 'pip install "mercer[cli]"' in err


# -- mistakes ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def work(files, tmp_path_factory):
    """A folder with everything that the mistakes below name; none of them may change it."""
    tmp_path = tmp_path_factory.mktemp("work")
    train = pq.read_table(files / "train.parquet")
    n = train.num_rows
    for name, table in {
        "more.parquet": train.append_column("more", pa.array(np.arange(n))),
        "fewer.parquet": train.drop_columns(["b"]),
        "blank.parquet": train.set_column(4, "y", pa.nulls(n, pa.string())),
        "numbers.parquet": train.set_column(4, "y", pa.array(np.arange(n) % 2)),
        "quantities.parquet": quantities(),
        "long.parquet": classes(1001),
    }.items():
        pq.write_table(table, tmp_path / name)
    for name in ("train.parquet", "classes.mercer", "regression.mercer"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    (tmp_path / "text.doc").write_text("hello")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "train.parquet").read_bytes()[:-100])
    model = (tmp_path / "classes.mercer").read_bytes()
    (tmp_path / "cut.mercer").write_bytes(model[: len(model) // 2])
    (tmp_path / "altered.mercer").write_bytes(model[:-9] + b"x" + model[-8:])
    KernelClassifier().fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "arrays.mercer")
    return tmp_path


FIT = "fit train.parquet --target y --out m"
MISTAKES = {
    "fit nothing.parquet --target y --out m": "no file or folder nothing.parquet",
    "fit text.doc --target y --out m": "'.doc' is not supported",
    "fit cut.parquet --target y --out m": "damaged or cut off",
    "fit train.parquet --target twon --out m": "Did you mean 'town'?",
    "fit train.parquet --target y --exclude idd --out m": "Did you mean 'id'?",
    "fit blank.parquet --target y --out m": "no value in 400 of the first 400 rows",
    "fit long.parquet --target id --out m --task classification": "1,001 different values",
    "fit quantities.parquet --target y --out m --task classification": "rather than a class",
    f"{FIT} --task regression": "holds text",
    f"{FIT} --loss huber": "holds text",
    f"{FIT} --task regression --loss hinge": "`hinge` is a classification loss",
    f"{FIT} --task classification --loss huber": "`huber` is a regression loss",
    f"{FIT} --loss hing": "Did you mean 'hinge'?",
    f"{FIT} --kernel gausian": "Did you mean 'gaussian'?",
    f"{FIT} --kernel sigmoid": "not positive semi-definite",
    f"{FIT} --loss log_los": "Did you mean 'logistic'?",
    f"{FIT} --expansion rff": "Did you mean 'random_features'?",
    f"{FIT} --kernel linear --length-scale 2": "has no length scale",
    f"{FIT} --length-scale -2": "`--length-scale` must be",
    f"{FIT} --length-scale wide": "got 'wide'",
    f"{FIT} --quantiles 0.1;0.9": "with commas",
    f"{FIT} --quantiles 0.1,1.5": "`--quantiles` must be",
    f"{FIT} --quantiles 0.1,0.1": "a level twice",
    f"{FIT} --quantiles 0.5 --loss hinge": "Leave one out",
    f"{FIT} --expansion full --max-size 5": "no --max-size",
    f"{FIT} --expansion komp --strategy merge": "no --strategy",
    f"{FIT} --expansion budget --tolerance 1": "no --tolerance",
    f"{FIT} --expansion tree": "Invalid value for '--expansion'",
    f"{FIT} --batch-size 0": "`--batch-size` must be",
    f"{FIT} --passes 0": "`--passes` must be",
    f"{FIT} --seed -1": "`--seed` must be",
    f"{FIT} --max-size 0": "`--max-size` must be",
    f"{FIT} --step-size 0": "`--step-size` must be",
    f"{FIT} --checkpoint-every 0": "`--checkpoint-every` must be",
    f"{FIT} --step-size 1e5 --regularization 1": "flip the sign",
    "fit quantities.parquet --target y --out m --class-weight balanced": "`--class-weight` cannot",
    "fit train.parquet --target y --out away/m": "does not exist. Create it first",
    "fit train.parquet --target y --out .": "is a folder",
    "fit train.parquet --target y --out train.parquet": "would destroy it",
    f"{FIT} --report r.pdf": "another ending",
    f"{FIT} --report away/r.html": "does not exist. Create it first",
    f"{FIT} --test fewer.parquet": "has no column 'b'",
    f"{FIT} --test nothing.parquet": "no file or folder nothing.parquet",
    "fit train.parquet --out m": "--target",
    "fitt": "No such command",
    "evaluate nothing.mercer train.parquet": "no model file nothing.mercer",
    "evaluate cut.mercer train.parquet": "truncated or altered",
    "evaluate altered.mercer train.parquet": "truncated or altered",
    "evaluate train.parquet train.parquet": "not a model file of mercer",
    "evaluate arrays.mercer train.parquet": "of arrays without named columns",
    "evaluate classes.mercer nothing.csv": "no file or folder nothing.csv",
    "evaluate classes.mercer fewer.parquet": "has no column 'b'",
    "evaluate classes.mercer numbers.parquet": "one is text, the other numbers",
    "evaluate classes.mercer train.parquet --target z": "no column 'z'",
    "evaluate regression.mercer train.parquet": "holds text",
    "evaluate classes.mercer blank.parquet": "no rows with a value of 'y'",
    "predict classes.mercer fewer.parquet --out p.csv": "has no column 'b'",
    "predict classes.mercer train.parquet --out p.xlsx": "another ending",
    "predict classes.mercer train.parquet --out away/p.csv": "does not exist",
    "predict classes.mercer train.parquet --out p.csv --keep ids": "Did you mean 'id'?",
    "inspect text.doc": "not a model file of mercer",
    "inspect nothing": "no model file nothing",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_answered_by_one_message_and_exit_code_2(words, work, mercer, monkeypatch):
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "200")
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    code, out, err = mercer(*words.split())
    assert (code, out) == (2, "")
    assert MISTAKES[words] in err
    assert err.count("error: ") <= 1
    after = {path.name: path.stat().st_mtime_ns for path in work.iterdir()}
    assert after == before, "a mistake must neither leave nor change files"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("evaluate classes.mercer more.parquet", True),
        ("predict classes.mercer more.parquet --out p.csv", True),
        ("predict classes.mercer more.parquet --out p.csv --keep more", False),
        ("predict classes.mercer train.parquet --out p.csv", False),
        (f"{FIT} --expansion komp --exclude id --test more.parquet", True),
        (f"{FIT} --expansion komp --exclude id --test more.parquet --quiet", False),
    ],
)
def test_columns_that_training_did_not_have_are_named_and_not_looked_at(
    words, named, work, mercer, monkeypatch, tmp_path
):
    monkeypatch.chdir(work)
    words = words.replace("p.csv", str(tmp_path / "p.csv")).replace("out m", f"out {tmp_path}/m")
    code, _, err = mercer(*words.split())
    assert code == 0, err
    assert err.count("no such column: 'more'\n") == named


def test_all_columns_that_are_missing_are_named(work, mercer, tmp_path):
    pq.write_table(classes().select(["id", "y"]), tmp_path / "few.parquet")
    _, _, err = mercer("evaluate", work / "classes.mercer", tmp_path / "few.parquet")
    assert "has no columns 'a', 'b', 'town'." in err


def test_gaps_that_training_did_not_have_are_said_once(work, mercer, tmp_path):
    table = classes(10_000)
    gaps = np.arange(10_000) % 2000 == 0
    a, town = (table.column(name).to_numpy(zero_copy_only=False) for name in ("a", "town"))
    table = table.set_column(1, "a", pa.array(np.where(gaps, np.nan, a)))
    table = table.set_column(3, "town", pa.array(np.where(gaps, None, town)))
    pq.write_table(table, tmp_path / "gaps.parquet")
    mean = np.mean(classes().column("a").to_numpy())
    for words in (["evaluate"], ["predict", "--out", tmp_path / "p.parquet"]):
        _, _, err = mercer(*words, work / "classes.mercer", tmp_path / "gaps.parquet")
        assert err.count("warning: ") == 1
        assert f"'a' (5 rows; taken as the mean, {mean:.4g})" in err
        assert "'town' (5 rows; taken as an unseen category)" in err
    _, _, err = mercer("evaluate", work / "classes.mercer", work / "test.parquet")
    assert "gaps" not in err


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--expansion kopm", "'komp'"),
        ("--task regresion", "'regression'"),
        ("--scaling standardise", "'standardize'"),
        ("--mode newtn", "'newton'"),
        ("--strategy merg", "'merge'"),
        ("--pair-label sgin", "'sign'"),
        ("--kernel gausian", "'gaussian'"),
        ("--loss hnge", "'hinge'"),
        ("--target yy", "'y'"),
    ],
)
def test_mistyped_choices_are_answered_by_the_nearest(option, meant, work, mercer, monkeypatch):
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "200")
    target = [] if option.startswith("--target") else ["--target", "y"]
    code, _, err = mercer("fit", "train.parquet", "--out", "m", *target, *option.split())
    assert code == 2
    assert f"Did you mean {meant}?" in err
    assert "kernel object" not in err


def csv_with(tmp_path, cell, n=60, column="y"):
    """A CSV file of quantities, with one cell in line 42 changed."""
    rng = np.random.default_rng(0)
    numbers = {"x": rng.standard_normal(n).round(3), "y": rng.standard_normal(n).round(3)}
    lines = ["x,y", *(f"{x},{y}" for x, y in zip(*numbers.values(), strict=True))]
    x, y = lines[41].split(",")
    lines[41] = f"{cell},{y}" if column == "x" else f"{x},{cell}"
    file = tmp_path / "typo.csv"
    file.write_text("\n".join(lines))
    return file


@pytest.mark.parametrize("task", ["auto", "regression", "gp"])
@pytest.mark.parametrize(
    ("cell", "said"), [("n/a?", "'n/a?'"), ('"12,5"', "(decimals have a point)")]
)
def test_a_slip_in_a_numeric_target_is_named_with_its_line(cell, said, task, mercer, tmp_path):
    file = csv_with(tmp_path, cell)
    code, _, err = mercer("fit", file, "--target", "y", "--out", tmp_path / "m", "--task", task)
    assert code == 2
    assert said in err
    assert "in line 42 of typo.csv is no number" in err
    assert "`--task classification`" in err


def test_a_slip_in_a_numeric_column_is_named_with_its_line(mercer, tmp_path):
    file = csv_with(tmp_path, "n/a?", column="x")
    _, _, err = mercer("fit", file, "--target", "y", "--out", tmp_path / "m")
    assert "warning: The column 'x' has 1 cell that cannot be read as a number" in err
    assert "first 'n/a?' in line 42 of typo.csv" in err
    _, _, err = mercer("fit", file, "--target", "y", "--out", tmp_path / "m", "--exclude", "x")
    assert "cell" not in err


def test_the_loss_of_a_regression_is_called_standardised(files, mercer, tmp_path):
    words = ("--target", "y", "--out", tmp_path / "m", "--kernel", "gaussian", "--max-size", "20")
    _, _, err = mercer("fit", files / "quantities.parquet", *words)
    assert "  loss (standardised) " in err


def test_one_class_alone_is_refused(mercer, tmp_path):
    pq.write_table(classes(names=("yes", "yes")), tmp_path / "one.parquet")
    code, _, err = mercer(
        "fit", tmp_path / "one.parquet", "--target", "y", "--max-size", "9", "--out", tmp_path / "m"
    )
    assert code == 2
    assert "rows learned" not in err
    assert "'y' is 'yes' in all 400 rows" in err
    assert not (tmp_path / "m").exists()


def with_stores(n_stores):
    table = classes(20 * n_stores)
    return table.set_column(3, "store", pa.array([f"s{i % n_stores}" for i in range(len(table))]))


def test_many_frequent_categories_are_means_of_the_target(mercer, tmp_path):
    pq.write_table(with_stores(150), tmp_path / "d.parquet")
    fit = ["fit", tmp_path / "d.parquet", "--target", "y", "--out", tmp_path / "m", "--max-size", 9]
    _, _, err = mercer(*fit)
    assert "inputs made of them: 3" in err  # with a and b; id numbers the rows
    assert re.search(r"store +category +mean of the target +1\n", err)


def test_new_categories_are_said_once(work, mercer, tmp_path):
    table = classes(10_000)
    town = np.where(np.arange(10_000) % 2000 == 0, "Ulm", table.column("town").to_pylist())
    pq.write_table(table.set_column(3, "town", pa.array(town)), tmp_path / "new.parquet")
    for words in (["evaluate"], ["predict", "--out", tmp_path / "p.parquet"]):
        _, _, err = mercer(*words, work / "classes.mercer", tmp_path / "new.parquet")
        assert err.count("warning: ") == 1
        assert "the 400 rows which training measured did not have; they are taken as" in err
        assert "'town' (5 of 10,000 rows, such as 'Ulm')" in err


def test_a_slip_in_test_data_is_named_with_its_line(mercer, tmp_path):
    train = csv_with(tmp_path, "0.5", column="x").rename(tmp_path / "train.csv")
    fit = ["fit", train, "--target", "y", "--max-size", "9", "--out", tmp_path / "m"]
    assert mercer(*fit)[0] == 0
    file = csv_with(tmp_path, "n/a?", column="x")
    header, *lines = file.read_text().split("\n")
    good = [line for line in lines if line != lines[40]]
    file.write_text("\n".join([header, *good * 150, lines[40], *good]))
    for strict, expected in ([], 0), (["--strict"], 2):
        code, _, err = mercer("evaluate", tmp_path / "m", file, *strict)
        assert code == expected
        assert "line 8,852 of typo.csv" in err


def test_fit_names_the_classes(files, mercer, tmp_path):
    words = ("--target", "y", "--out", tmp_path / "m", "--expansion", "komp")
    assert "; 2 classes: no, yes; " in mercer("fit", files / "train.parquet", *words)[2]


def test_folders_that_cannot_be_written_are_found_before_training(
    files, mercer, monkeypatch, tmp_path
):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    code, _, err = mercer("fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m")
    assert code == 2
    assert "cannot be written (Read-only file system)" in err


def test_what_nobody_expected_is_exit_code_1_with_a_traceback_on_request(
    files, mercer, monkeypatch, capsys
):
    def fail(_):
        raise TypeError("oops")

    monkeypatch.setattr("mercer_app.cli._inspect.describe", fail)
    code, out, err = mercer("inspect", files / "classes.mercer")
    assert (code, out) == (1, "")
    assert "unexpected TypeError: oops" in err
    monkeypatch.setenv("MERCER_DEBUG", "")  # so that it is as before after this test
    assert run("inspect", files / "classes.mercer", "--debug") == 1
    assert "Traceback" in capsys.readouterr().err


# -- stopping and resuming --------------------------------------------------------------------


@pytest.fixture
def interrupted(monkeypatch):
    """Press Ctrl-C when the first chunk has been learned."""

    def press(self, progress):
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProgressView, "update", press)


@pytest.fixture
def many(tmp_path):
    pq.write_table(classes(17_000), tmp_path / "many.parquet")
    return [
        "fit", tmp_path / "many.parquet", "--target", "y", "--exclude", "id", "--max-size", "50",
    ]  # fmt: skip


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_without_checkpoints_saves_nothing_and_says_so(many, mercer, tmp_path):
    code, out, err = mercer(*many, "--out", tmp_path / "m")
    assert (code, out) == (130, "")
    assert "stopped after 8,192 rows; nothing was saved" in err
    assert os.listdir(tmp_path) == ["many.parquet"]


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_with_checkpoints_can_be_resumed_to_the_same_bytes(many, mercer, tmp_path):
    code, _, err = mercer(*many, "--out", tmp_path / "m", "--checkpoint-every", "10000")
    assert code == 130
    assert "m.checkpoint. The same command with --resume goes on from there" in err
    assert not (tmp_path / "m").exists()
    code, _, err = mercer(
        *many, "--out", tmp_path / "m", "--checkpoint-every", "10000", "--seed", "1", "--resume"
    )
    assert code == 2
    assert "seed (then 0, now 1)" in err
    code, _, err = mercer(*many, "--out", tmp_path / "m", "--resume")
    assert code == 0
    assert "8,192 rows learned" in err
    assert mercer(*many, "--out", tmp_path / "whole")[0] == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "m.checkpoint").exists()


def test_resuming_without_a_checkpoint_starts_and_says_so(files, mercer, tmp_path):
    code, _, err = mercer(
        "fit", files / "train.parquet", "--target", "y", "--out", tmp_path / "m", "--resume"
    )
    assert code == 0
    assert "there is no checkpoint" in err


# -- terminals --------------------------------------------------------------------------------


def on_a_terminal(words, width, monkeypatch):
    """Run the command on a pseudo-terminal of so many columns; return what it shows."""
    ours, theirs = pty.openpty()
    shown = []

    def read():  # meanwhile: a terminal holds few characters that nobody has read
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal so
            while piece := os.read(ours, 4096):
                shown.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with open(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, terminal)
        code = run(*words)
    reader.join(60)
    os.close(ours)
    assert code == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(shown).decode())


def test_a_narrow_terminal_shows_a_bar_and_a_table_that_fit(files, many, tmp_path, monkeypatch):
    words = [*many, "--out", tmp_path / "m", "--test", files / "test.parquet"]
    shown = on_a_terminal(words, 40, monkeypatch)
    assert "100%" in shown
    assert "model order" in shown
    assert "error %" in shown
    bars = [line for line in re.split(r"[\r\n]+", shown) if "%" in line and "loss" in line]
    assert bars
    assert max(map(len, bars)) <= 40


@pytest.mark.parametrize(
    ("word", "known"), [("train", "fit"), ("score", "evaluate"), ("report", "fit ... --report")]
)
def test_commands_under_other_names_lead_to_those_that_there_are(word, known, capsys):
    assert run(word, "rows.csv", "--target", "y") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: There is no command '{word}'. Did you mean `mercer {known}")


def test_without_the_extra_the_command_says_what_to_install():
    program = "import sys; sys.modules['typer'] = None; from mercer_app.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert 'Install with: pip install "mercer[cli]"' in done.stderr


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "mercer", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mercer ")
