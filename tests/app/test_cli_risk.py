"""The command on risks: what it learns, measures, shows and refuses."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.display import tail_of
from mercer.expansions import KOMP
from mercer.inspection import describe_risk, history_in_units, loss_units, unit_of_target
from mercer.losses import RegressionLoss
from mercer.risks import CVaR, Entropic, Semivariance, UpperSemideviation
from mercer_app.rows import TableRows


def table(n, seed, *, labels=("no", "yes")):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    y = 1000.0 + 50.0 * np.sin(x[:, 0]) + 10.0 * rng.standard_normal(n)
    kind = np.array(labels)[(x[:, 0] * x[:, 1] > 0).astype(int)]
    return pa.table({"a": x[:, 0], "b": x[:, 1], "y": y, "kind": kind})


pytestmark = pytest.mark.usefixtures(
    "quickest_race", "few_evaluations", "short_correction", "few_steps"
)

MODELS = {
    "cvar": "--target y --exclude kind --expansion komp --risk cvar:0.8",
    "semideviation": "--target y --exclude kind --risk semideviation",
    "absolute": "--target y --exclude kind --risk cvar --loss absolute_error",
    "robust": "--target y --exclude kind --loss huber",
    "mean": "--target y --exclude kind",
    "classes": "--target kind --exclude y --expansion komp --risk semideviation:0.5",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables and models that the tests only read."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(table(600, 0), folder / "train.parquet")
    pq.write_table(table(500, 1), folder / "test.parquet")
    for name, words in MODELS.items():
        out = folder / f"{name}.mercer"
        assert run("fit", folder / "train.parquet", "--out", out, *words.split()) == 0, name
    return folder


@pytest.fixture
def measured(files, mercer):
    def call(name, *words, data="test"):
        code, out, err = mercer(
            "evaluate", files / f"{name}.mercer", files / f"{data}.parquet", "--json", *words
        )
        assert code == 0, err
        return json.loads(out)

    return call


# -- fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("cvar", CVaR(0.8)),
        ("semideviation", UpperSemideviation()),
        ("classes", UpperSemideviation(0.5)),
        ("mean", None),
    ],
)
def test_the_risk_reaches_the_model(name, risk, files):
    assert load_model(files / f"{name}.mercer").risk_ == risk


def test_fit_says_what_is_minimised(files, mercer, tmp_path):
    words = MODELS["cvar"].split()
    code, _, err = mercer("fit", files / "train.parquet", "--out", tmp_path / "m", *words)
    assert code == 0
    assert f"minimised: {CVaR(0.8).describe()}" in err
    assert " objective " in err
    assert " loss " not in err.replace("of the loss", "")


def test_a_run_with_a_risk_goes_on_from_its_checkpoint(files, mercer, tmp_path, monkeypatch):
    from mercer_app.training import FileTraining

    options = {"risk": CVaR(0.8), "expansion": KOMP(max_size=1000)}
    training = FileTraining(
        files / "train.parquet", "y", exclude=["kind"], options=options, n_passes=3
    ).start()
    out = tmp_path / "m.mercer"
    stopped = training.run(out, checkpoint_every=1, callback=lambda progress: True)
    assert not stopped
    words = [*MODELS["cvar"].split(), "--passes", "3", "--out", out, "--resume"]
    code, _, err = mercer("fit", files / "train.parquet", *words)
    assert code == 0, err
    assert "going on from" in err
    whole = tmp_path / "whole.mercer"
    words[words.index(out)] = whole
    assert mercer("fit", files / "train.parquet", *words)[0] == 0
    assert out.read_bytes() == whole.read_bytes()


FIT = "fit train.parquet --out m"
MISTAKES = {
    f"{FIT} --target y --risk cvarr": "`--risk` must be one of the names 'mean', 'cvar'",
    f"{FIT} --target y --risk CVAR:0.9": "Did you mean 'cvar'?",
    f"{FIT} --target y --risk cvar:2": "`--risk cvar:2` cannot be used. `level` must be",
    f"{FIT} --target y --risk cvar:high": "there must be a number, the `level` of CVaR",
    f"{FIT} --target y --risk central_moments:2.5": "there must be an integer",
    f"{FIT} --target y --risk mean:1": "Mean takes no number",
    f"{FIT} --target y --task gp --risk cvar": "`--risk` cannot be chosen for a Gaussian process",
    f"{FIT} --task novelty --risk cvar": "`--risk` cannot be chosen for novelty detection",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_answered_by_one_message_and_exit_code_2(words, files, mercer, monkeypatch):
    monkeypatch.chdir(files)
    code, out, err = mercer(*words.split())
    assert (code, out) == (2, "")
    assert MISTAKES[words] in err
    assert not (files / "m").exists()


# -- evaluate -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cvar", "semideviation", "absolute", "mean"])
def test_worst_losses_of_a_regression_are_in_units_of_the_target(name, files, measured):
    model = load_model(files / f"{name}.mercer")
    test = pq.read_table(files / "test.parquet")
    wrong = np.abs(model.predict(test) - test.column("y").to_numpy())
    losses = wrong if name == "absolute" else 0.5 * wrong**2
    result = measured(name)
    assert_allclose(result["mean_loss"], losses.mean(), rtol=1e-9)
    levels = [0.9, 0.95, 0.99] + [0.8] * (name == "cvar")
    for level in levels:
        _, least, mean = tail_of(losses, level)
        assert_allclose(result[f"value_at_risk_{100 * level:g}"], least, rtol=1e-9)
        assert_allclose(result[f"cvar_{100 * level:g}"], mean, rtol=1e-9)
    assert sum(key.startswith("cvar_") for key in result) == len(levels)
    assert_allclose(result["mae"], wrong.mean(), rtol=1e-9)


def test_worst_losses_of_a_classification_are_shown_for_a_risk(files, measured, tmp_path):
    result = measured("classes")
    assert_allclose(result["mean_loss"], result["log_loss"], rtol=1e-9)
    assert result["mean_loss"] < result["value_at_risk_90"] < result["cvar_90"] < result["cvar_99"]
    assert "rows_without_loss" not in result


def test_classes_that_were_not_learned_have_no_loss_and_are_counted(files, mercer, tmp_path):
    test = table(500, 1)
    kind = test.column("kind").to_pylist()
    pq.write_table(
        test.set_column(3, "kind", pa.array(["perhaps"] * 20 + kind[20:])), tmp_path / "t.parquet"
    )
    code, out, _ = mercer("evaluate", files / "classes.mercer", tmp_path / "t.parquet", "--json")
    assert code == 0
    assert json.loads(out)["rows_without_loss"] == 20


def test_no_row_with_a_learned_class_is_refused(files, mercer, tmp_path):
    test = table(50, 1, labels=("perhaps", "never"))
    pq.write_table(test, tmp_path / "t.parquet")
    report = tmp_path / "r.html"
    code, out, err = mercer(
        "evaluate", files / "classes.mercer", tmp_path / "t.parquet", "--json", "--report", report
    )
    assert (code, out) == (2, "")
    assert "holds no class that the model knows" in err
    assert not report.exists()


# -- units --------------------------------------------------------------------------------------


def table_model(estimator, seed=0):
    rows = TableRows(estimator, TablePreprocessor(exclude=("y", "kind")), "y")
    return rows.partial_fit(table(300, seed)).model


class LogCosh(RegressionLoss):
    def value(self, y, f):
        return np.logaddexp(f - y, y - f).sum(axis=1) - np.log(2.0)

    def derivative(self, y, f):
        return np.tanh(f - y)


@pytest.mark.parametrize(
    ("loss", "power", "name"),
    [
        ("squared", 2, "y²"),
        ("huber", 2, "y²"),
        ("absolute_error", 1, "y"),
        ("quantile", 1, "y"),
        ("epsilon_insensitive", 1, "y"),
        ("squared_epsilon_insensitive", 2, "y²"),
    ],
)
def test_losses_of_known_units_are_scaled(loss, power, name):
    assert loss_units(table_model(KernelRegressor(loss, random_state=0))) == (1.0, name)
    steps = {"kernel": "gaussian", "expansion": "komp", "random_state": 0}
    model = table_model(KernelRegressor(loss, normalize_y=True, **steps))
    scale = np.std(table(300, 0).column("y").to_numpy())
    assert unit_of_target(model)[1] == pytest.approx(scale)
    assert loss_units(model) == (pytest.approx(scale**power), name)


def test_losses_of_a_users_own_and_of_classes_are_left_as_they_are():
    steps = {"kernel": "gaussian", "expansion": "komp", "random_state": 0}
    own = table_model(KernelRegressor(LogCosh(), normalize_y=True, **steps))
    assert loss_units(own) == (1.0, f"of y / {unit_of_target(own)[1]:.4g}")
    counts = table_model(KernelRegressor("poisson", random_state=0))
    assert loss_units(counts) == (1.0, "")
    assert loss_units(KernelClassifier()) == (1.0, "")


@pytest.mark.parametrize("risk", [CVaR(), Entropic(), 0.5 * CVaR() + 0.5 * Semivariance()])
def test_what_is_tracked_is_in_units_of_the_target(risk):
    steps = {"kernel": "gaussian", "expansion": "komp", "random_state": 0}
    model = table_model(KernelRegressor(risk=risk, normalize_y=True, **steps))
    raw, shown = model.history_, history_in_units(model)
    scale = np.var(table(300, 0).column("y").to_numpy())
    assert_allclose(shown.loss, scale * raw.loss)
    for name, column in raw.monitors.items():
        factor = 1.0 if name.endswith("_fraction") else scale
        assert_allclose(shown.monitors[name], factor * column)


def test_what_a_risk_of_a_users_own_tracks_has_no_known_unit():
    class Own(CVaR):
        pass

    steps = {"kernel": "gaussian", "expansion": "komp", "random_state": 0}
    model = table_model(KernelRegressor(risk=Own(), normalize_y=True, **steps))
    raw, shown = model.history_, history_in_units(model)
    assert_allclose(shown.monitors["value_at_risk"], raw.monitors["value_at_risk"])


# -- inspect and report -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tracked"),
    [("cvar", "value_at_risk"), ("semideviation", "inner_value"), ("classes", "inner_value")],
)
def test_inspect_shows_the_risk_and_what_it_tracked(name, tracked, files, mercer):
    code, out, _ = mercer("inspect", files / f"{name}.mercer", "--json")
    assert code == 0
    values = json.loads(out)
    model = load_model(files / f"{name}.mercer")
    assert values["risk"] == repr(model.risk_)
    assert values["minimised"] == model.risk_.describe()
    factor = (unit_of_target(model) or (0.0, 1.0))[1] ** 2
    last = model.history_.monitors[tracked][-1]
    assert_allclose(values[f"tracked_{tracked}"], factor * last)
    assert_allclose(values["latest_objective"], factor * model.history_.loss[-1])
    assert values["clipped_percent"] == 0.0
    assert 0.0 <= values["clamped_percent"] <= 100.0
    assert "latest_loss" not in values
    assert values.get("loss_unit") == (None if name == "classes" else "y²")


def test_inspect_of_arrays_shows_the_risk_too(mercer, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 1))
    model = KernelRegressor(risk="cvar", random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "m")
    assert (
        describe_risk(model)["tracked_value_at_risk"]
        == model.history_.monitors["value_at_risk"][-1]
    )
    assert "risk CVaR()" in mercer("inspect", tmp_path / "m")[1]


def test_inspect_without_a_risk_shows_none(files, mercer):
    out = mercer("inspect", files / "mean.mercer")[1]
    assert "latest_loss" in out
    assert "risk" not in out


@pytest.mark.parametrize("name", ["cvar", "classes"])
def test_the_report_has_a_section_on_the_risk(name, files, mercer, tmp_path, request):
    if name == "classes":  # once the pictures are drawn
        request.getfixturevalue("undrawn")
    report = tmp_path / "r.html"
    code, _, err = mercer(
        "evaluate", files / f"{name}.mercer", files / "test.parquet", "--report", report
    )
    assert code == 0, err
    page = report.read_text(encoding="utf-8")
    for text in ("<h2>Risk</h2>", "Minimised: ", "Losses of held-out rows", "mean (CVaR)"):
        assert text in page
    assert "Learning curve: objective" in page
    assert ("y²" in page) == (name != "classes")
    # The level of the risk is in the summary, if it has one.
    assert ("<dt>CVaR, worst 20\u00a0%</dt>" in page) == (name != "classes")


def test_the_report_of_a_mean_loss_has_worst_losses_but_no_risk(files, mercer, tmp_path, undrawn):
    report = tmp_path / "r.html"
    mercer("evaluate", files / "mean.mercer", files / "test.parquet", "--report", report)
    page = report.read_text(encoding="utf-8")
    assert "Worst losses, in y²" in page
    assert "<h2>Risk</h2>" not in page
    assert "The loss, in y², is the mean over rows kept back" in page


def test_the_report_of_a_robust_loss_has_the_race_that_chose_its_kernel(
    files, mercer, tmp_path, undrawn
):
    report = tmp_path / "r.html"
    mercer("evaluate", files / "robust.mercer", files / "test.parquet", "--report", report)
    page = report.read_text(encoding="utf-8")
    assert "<h3>The race</h3>" in page
    assert "Learning curve" not in page  # what is learned on all rows at once has no course
    code, out, err = mercer("inspect", files / "robust.mercer")
    assert code == 0, err
    assert re.search(r"^race .* yes$", out, re.MULTILINE)
