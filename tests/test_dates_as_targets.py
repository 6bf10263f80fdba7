"""Targets that are dates or times, however they are written: learned, and answered as dates."""

import datetime as dt
import json
import runpy

import numpy as np
import pandas as pd
import pytest

from command_line import run
from mercer import KernelRanker, KernelRegressor, load_model
from mercer.columns import TablePreprocessor, guess_task
from mercer.columns.readings import TargetForm
from mercer.columns.views import Levels, Numbers
from mercer.estimators import TableModel
from mercer.expansions import KOMP
from mercer.losses import Quantile
from mercer_app.export import export_python
from mercer_app.report.whole import kept_back

pytestmark = pytest.mark.usefixtures("quick_race")

N = 120
RNG = np.random.default_rng(0)
A = RNG.uniform(-2.0, 2.0, N).round(4)
DAYS = np.round(19_000 + 40 * A + RNG.normal(size=N)).astype(np.int64)
DATES = pd.DatetimeIndex(DAYS.astype("datetime64[D]"))
MOMENTS = pd.DatetimeIndex((DAYS * 86_400 + 37 * np.arange(N)).astype("datetime64[s]"))
CLOCK = np.round(720 + 200 * A + RNG.normal(scale=20.0, size=N)).astype(np.int64)

# How dates are written in files, with the step in which they are answered.
FORMS = {
    "ISO": (DATES.strftime("%Y-%m-%d"), "D"),
    "slashes": (DATES.strftime("%Y/%m/%d"), "D"),
    "points": (DATES.strftime("%d.%m.%Y"), "D"),
    "SAS": (DATES.strftime("%d%b%Y").str.upper(), "D"),
    "figures": (DATES.strftime("%Y%m%d"), "D"),
    "in words": (DATES.strftime("%B %d, %Y"), "D"),
    "with times": (MOMENTS.strftime("%Y-%m-%d %H:%M:%S"), "s"),
    "SAS with times": (MOMENTS.strftime("%d%b%Y:%H:%M:%S").str.upper(), "s"),
    "two forms": (
        [d.strftime("%Y-%m-%d" if i % 3 else "%d %b %Y") for i, d in enumerate(DATES)],
        "D",
    ),
}


def learned(due, estimator=None, **columns):
    model = TableModel(
        estimator or KernelRegressor(random_state=0),
        TablePreprocessor(exclude=("due",), **columns),
        "due",
    )
    return model.partial_fit(table(due)).finish()


def table(due):
    return {"a": A, "due": due}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of dates, and a model of those with slashes."""
    folder = tmp_path_factory.mktemp("dates")
    for name, (due, _) in FORMS.items():
        pd.DataFrame(table(due)).to_csv(folder / f"{name}.csv", index=False)
    pd.DataFrame(table(DATES.date)).to_parquet(folder / "typed.parquet")
    out = folder / "model.mercer"
    assert run("fit", folder / "slashes.csv", "--target", "due", "--out", out, "--quiet") == 0
    return folder


@pytest.mark.parametrize(("due", "step"), FORMS.values(), ids=FORMS)
def test_dates_in_any_form_are_learned_and_answered_as_dates(files, due, step, request):
    name = request.node.callspec.id
    import pyarrow.csv as arrow

    column = arrow.read_csv(files / f"{name}.csv").column("due")
    guess = guess_task(column)
    assert guess.task == "regression"
    assert guess.reason.startswith("dates")
    assert guess.reason.endswith(", with errors in days")
    model = learned(column.to_numpy())
    answers = model.predict({"a": A})
    assert answers.dtype == np.dtype(f"datetime64[{step}]")
    truth = (DATES if step == "D" else MOMENTS).to_numpy()
    assert np.mean(np.abs(answers - truth) / np.timedelta64(1, "D")) < 4.0
    ends = model.predict_interval({"a": A}, 0.9)
    assert ends.dtype == answers.dtype
    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) > 0.8


@pytest.mark.parametrize(
    ("due", "unit", "step"),
    [
        (["2024-01-31", "2024-03-01"], "days", "D"),
        (["2024-01-31 12:00", "2024-01-31 12:00"], "seconds", "s"),
        (["2024-01-31 12:00", "2024-01-31 23:30"], "hours", "s"),
        (["2024-01-31 12:00:00", "2024-01-31 12:20:00"], "minutes", "s"),
        (["2024-01-31 12:00:00.5", "2024-01-31 12:00:01"], "seconds", "us"),
        (["08:00", "20:30"], "hours", "s"),
        (["1h 20m", "35m"], "seconds", "s"),
    ],
)
def test_errors_are_in_the_unit_of_the_spread(due, unit, step):
    form = TargetForm.of("due", Levels(np.arange(len(due)), due))
    assert (form.unit, form.step) == (unit, step)
    assert TargetForm.from_state(json.loads(json.dumps(form.to_state()))) == form


def test_numbers_are_turned_back_into_what_they_mean():
    days = TargetForm("date", None, "days", "D")
    assert days.answers(np.array([0.4, -1.0, np.nan])).astype(str).tolist() == [
        "1970-01-01",
        "1969-12-31",
        "NaT",
    ]
    clock = TargetForm("time", None, "hours", "s")
    assert clock.answers(np.array([[13.5, -1.0], [23.9999, 30.0]])).tolist() == [
        ["13:30:00", "00:00:00"],
        ["23:59:59", "23:59:59"],
    ]
    assert days.read(Numbers(np.array([1.0]), integer=False)).tolist() != [1.0]  # no dates


@pytest.mark.parametrize(
    "written",
    [
        [f"{m // 60:02}:{m % 60:02} Uhr" for m in CLOCK],
        [dt.time(m // 60, m % 60) for m in CLOCK.tolist()],
    ],
    ids=["text", "typed"],
)
def test_times_of_the_day_are_answered_as_such(written):
    answers = learned(np.array(written, dtype=object)).predict({"a": A})
    read = TargetForm("time", None, "minutes").read(Levels(np.arange(N), answers.tolist()))
    assert np.mean(np.abs(read - CLOCK)) < 40.0


def test_durations_are_answered_in_seconds():
    written = [f"{m // 60}h {m % 60}m" for m in CLOCK]
    assert guess_task(written).reason == "durations, answered in seconds"
    answers = learned(np.array(written, dtype=object)).predict({"a": A})
    assert answers.dtype == np.float64
    assert np.mean(np.abs(answers / 60.0 - CLOCK)) < 40.0


def test_quantiles_of_dates_are_dates():
    model = learned(DATES.to_numpy(), KernelRegressor(Quantile([0.1, 0.9]), random_state=0))
    answers = model.predict({"a": A})
    assert answers.shape == (N, 2)
    assert answers.dtype.kind == "M"


def test_it_can_be_said_whether_days_or_months_come_first():
    due = np.array([f"{1 + i % 12}/{1 + i % 11}/2024" for i in range(N)], dtype=object)
    assert guess_task(due).reason == "dates written mdy, a guess, with errors in days"
    assert learned(due, kinds={"due": "date:dmy"}).target_form_.form.order == "dmy"
    assert learned(due).target_form_.form.order == "mdy"


def test_a_target_that_is_no_date_is_named_with_its_row(files, mercer, tmp_path):
    text = (files / "slashes.csv").read_text().splitlines()
    text[50] = "0.5,soon"
    (tmp_path / "odd.csv").write_text("\n".join(text))
    code, _, err = mercer("fit", tmp_path / "odd.csv", "--target", "due", "--out", tmp_path / "m")
    assert code == 2
    assert "'soon' in line 51 of" in err
    assert "no date as the first ones are written" in err


@pytest.mark.parametrize("name", ["slashes.csv", "ISO.csv", "SAS.csv", "typed.parquet"])
def test_files_with_dates_of_other_forms_are_measured(files, mercer, name):
    code, out, err = mercer("evaluate", files / "model.mercer", files / name, "--json")
    if name == "SAS.csv":  # the model learned slashes
        assert code == 2
        assert "no date as the first ones are written" in err
        return
    measures = json.loads(out)
    assert measures["unit"] == "days"
    assert measures["rmse"] < 5.0


def test_predictions_in_files_are_dates(files, mercer, tmp_path):
    words = ["predict", files / "model.mercer", files / "ISO.csv", "--interval", "0.9", "--out"]
    assert mercer(*words, tmp_path / "p.parquet")[0] == 0
    frame = pd.read_parquet(tmp_path / "p.parquet")
    off = (pd.to_datetime(frame.prediction) - DATES.to_numpy()).dt.days
    assert off.abs().mean() < 4.0
    assert mercer(*words, tmp_path / "p.csv")[0] == 0
    text = pd.read_csv(tmp_path / "p.csv")
    for name in ("prediction", "lower", "upper"):
        assert text[name].tolist() == [str(day) for day in frame[name]]
        assert text[name].str.fullmatch(r"\d{4}-\d\d-\d\d").all()


def test_what_is_said_of_a_fit_is_in_days(files, mercer, tmp_path):
    words = ["fit", files / "points.csv", "--target", "due", "--out", tmp_path / "m"]
    code, _, err = mercer(*words)
    assert code == 0
    assert "dates written dmy, with errors in days" in err
    assert "RMSE in days, rows kept back" in err
    model = load_model(tmp_path / "m")
    assert model.explain({"a": A[:1]}).quantity == "prediction in days since 1970"
    assert kept_back(model).target == "due, days since 1970"


def test_exported_and_served_models_answer_dates(files, tmp_path):
    from mercer_app.serve._answers import Answers

    model = load_model(files / "model.mercer")
    expected = model.predict({"a": A})
    export_python(model, tmp_path / "m.py")
    found = runpy.run_path(str(tmp_path / "m.py"))["predict"]({"a": A})
    assert found.dtype == expected.dtype
    assert np.mean(found == expected) > 0.9  # other rounding
    told = Answers(model).rows([{"a": float(A[0])}], coverage=0.9).predictions[0]
    assert told["prediction"] == str(expected[0])
    assert told["lower"] <= told["prediction"] <= told["upper"]


def test_dates_may_be_classes_if_somebody_says_so(mercer, tmp_path):
    frame = pd.DataFrame(
        {"a": A, "due": pd.to_datetime(np.where(A > 0, "2024-01-31", "2024-02-29"))}
    )
    frame.to_parquet(tmp_path / "two.parquet")
    words = ["--target", "due", "--task", "classification", "--out", tmp_path / "m"]
    assert mercer("fit", tmp_path / "two.parquet", *words)[0] == 0
    model = load_model(tmp_path / "m")
    assert model.classes_.tolist() == ["2024-01-31", "2024-02-29"]


def test_arrays_of_dates_are_refused_with_what_to_do():
    with pytest.raises(ValueError, match="TableModel, which learns a column of dates"):
        KernelRegressor().fit(A[:, None], DATES.to_numpy())


@pytest.mark.parametrize(
    ("due", "words"),
    [
        (DATES.strftime("%d.%m.%Y"), "dates written dmy"),
        (DATES.strftime("%Y%m%d").astype(int), "dates as 20240131"),
        (DATES, "dates"),
        (["02.11.2023" if a < 0 else "01.12.2023" for a in A], "dates written dmy"),
        ([f"${1000 + 9 * day:,}.50" for day in DAYS - DAYS.min()], "numbers"),
        (DAYS, ""),
        (np.where(A > 0, "yes", "no"), ""),
    ],
)
def test_a_ranking_takes_dates_and_amounts_in_their_order(due, words, tmp_path):
    ranker = KernelRanker(kernel="gaussian", expansion=KOMP(max_size=100), random_state=0)
    model = learned(np.asarray(due), ranker)
    assert model.ranked_by.startswith(words)
    assert bool(model.ranked_by) == bool(words)
    model.save(tmp_path / "m.mercer")
    again = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.targets(table(due)), model.targets(table(due)))
    for one in (model, again):
        low, high = one.predict({"a": np.array([-1.5, 1.5])})
        assert low < high
        assert one.target_form_ is None


def test_the_command_says_by_what_rows_are_ranked(mercer, tmp_path):
    pd.DataFrame(table(DATES.strftime("%d.%m.%Y"))).to_csv(tmp_path / "due.csv", index=False)
    words = ["--target", "due", "--task", "rank", "--out", tmp_path / "m", "--max-size", "100"]
    code, _, err = mercer("fit", tmp_path / "due.csv", *words)
    assert code == 0
    assert "ranked by 'due' as dates written dmy" in err
    code, out, _ = mercer("evaluate", tmp_path / "m", tmp_path / "due.csv", "--json")
    assert json.loads(out)["concordance"] > 0.8
