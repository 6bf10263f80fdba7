"""Targets that are dates or times, however they are written: learned, and answered as dates."""

import copy
import datetime as dt
import functools
import json
import runpy

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from command_line import run
from mercer import (
    GaussianProcessRegressor,
    KernelRanker,
    KernelRegressor,
    ValueFunction,
    load_model,
)
from mercer.columns import TablePreprocessor, guess_task
from mercer.columns.readings import TargetForm
from mercer.columns.views import Levels, Numbers
from mercer.display import RegressionCurveDisplay, row_losses
from mercer.expansions import KOMP, Stream
from mercer.kernels import Gaussian
from mercer.losses import Quantile
from mercer_app.export import export_python
from mercer_app.report import report_model
from mercer_app.report.whole import kept_back
from mercer_app.rows import TableRows

pytestmark = pytest.mark.usefixtures(
    "quickest_race", "few_evaluations", "quick_correction", "few_steps"
)

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


def reading(due, estimator=None, **columns):
    rows = TableRows(
        estimator or KernelRegressor(random_state=0),
        TablePreprocessor(exclude=("due",), **columns),
        "due",
    )
    return rows.partial_fit(table(due)).finish()


def learned(due, estimator=None, **columns):
    return reading(due, estimator, **columns).model


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


def test_processes_of_tables_answer_dates(tmp_path):
    process = GaussianProcessRegressor(
        noise=0.01, normalize_y=True, n_features=200, random_state=0
    )  # fmt: skip
    model = learned(DATES.strftime("%d.%m.%Y").to_numpy(), process)
    answers = model.predict({"a": A})
    assert answers.dtype == np.dtype("M8[D]")
    assert np.mean(np.abs(answers - DATES.to_numpy()) / np.timedelta64(1, "D")) < 4.0
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict({"a": A}), answers)
    assert kept_back(again) is None
    assert again.predict_interval({"a": A}).dtype == answers.dtype
    again.partial_fit({"a": A[:2]}, ["31.01.2022", "01.02.2022"])
    with pytest.raises(ValueError, match="no date as the first ones are written"):
        again.partial_fit({"a": A[:1]}, ["2022-01-31"])


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


# -- arrays of them ------------------------------------------------------------------------------

EPOCH, DAY = pd.Timestamp("1970-01-01"), pd.Timedelta("1D")
ROWS = np.column_stack([A, RNG.normal(size=N)])
NAMED = [{"a": a, "b": b} for a, b in ROWS.tolist()]
AMOUNTS = (1e4 + 3e3 * A + 20.0 * RNG.normal(size=N)).round(2)
PROCESS = {"noise": 0.01, "normalize_y": True, "n_features": 200, "random_state": 0}
MAKERS = {
    "sums": lambda: KernelRegressor(random_state=0),
    "steps": lambda: KernelRegressor(
        kernel="gaussian", expansion=KOMP(max_size=60), normalize_y=True, n_passes=9,
        random_state=0,
    ),
    "process": lambda: GaussianProcessRegressor(**PROCESS),
}  # fmt: skip

# What is given, what is meant, in what unit, the type of answers, and how far off they may be.
GIVEN = {
    "days": (DATES.to_numpy().astype("M8[D]"), DAYS, "days", "M8[D]", 8.0),
    "a series": (pd.Series(MOMENTS), ((MOMENTS - EPOCH) / DAY).to_numpy(), "days", "M8[s]", 8.0),
    "text": (DATES.strftime("%d.%m.%Y").tolist(), DAYS, "days", "M8[D]", 8.0),
    "objects": ([day.date() for day in DATES], DAYS, "days", "M8[D]", 8.0),
    "times": (
        [dt.time(m // 60, m % 60) for m in CLOCK.tolist()],
        CLOCK / 60.0,
        "hours",
        "U10",
        1.0,
    ),
    "amounts": ([f"${value:,.2f}" for value in AMOUNTS], AMOUNTS, "$", "f8", 800.0),
}


def first(y, n=None):
    return y.iloc[:n] if hasattr(y, "iloc") else y[:n]


def numbers_of(model, answers):
    """Answers as numbers in the unit that was learned."""
    if model.target_form_.kind == "date":
        return (answers - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    if model.target_form_.kind == "time":
        parts = np.array([np.int64(one.split(":")) for one in answers.ravel()])
        return (parts @ [1.0, 1 / 60, 1 / 3600]).reshape(answers.shape)
    return answers


@functools.cache
def of_numbers(make, numbers):
    """A model of the rows, which is only asked."""
    return MAKERS[make]().fit(ROWS, np.frombuffer(numbers))


@functools.cache
def given_to(make, given):
    """A model, to be copied where it learns on."""
    return MAKERS[make]().fit(ROWS, GIVEN[given][0])


@pytest.mark.parametrize(
    ("make", "given"),
    # How targets are read is the same for all models: those that race take each meaning once.
    [
        *(("sums", given) for given in ("days", "times", "amounts")),
        *((make, given) for make in ("steps", "process") for given in GIVEN),
    ],
)
def test_arrays_of_dates_and_amounts_are_learned_and_answered_as_such(make, given, tmp_path):
    y, truth, unit, dtype, off = GIVEN[given]
    model = MAKERS[make]().fit(ROWS, y)
    assert model.target_form_.unit == unit
    answers = model.predict(ROWS)
    assert answers.dtype == np.dtype(dtype)
    truth = np.asarray(truth, float)
    assert np.abs(numbers_of(model, answers) - truth).mean() < off
    assert model.score(ROWS, y) > 0.9
    if make == "steps":  # which keep no rows back
        model.calibrate(ROWS, y)
    ends = model.predict_interval(ROWS, 0.9)
    assert (ends.shape, ends.dtype) == ((N, 2), answers.dtype)
    low, high = numbers_of(model, ends).T
    assert np.mean((low <= truth) & (truth <= high)) > 0.8
    # As numbers the same is learned and said.
    plain = of_numbers(make, truth.tobytes())
    assert plain.target_form_ is None
    found = plain.predict(ROWS)
    np.testing.assert_array_equal(model.target_form_.answers(found), answers)
    assert model.score(ROWS, y) == plain.score(ROWS, truth)
    # A file keeps it, and what is learned on is written in the same way.
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(ROWS), answers)
    np.testing.assert_array_equal(again.predict_interval(ROWS), model.predict_interval(ROWS))
    for one in (model, again):
        one.partial_fit(ROWS[:40], first(y, 40))
        assert one.predict(ROWS).dtype == answers.dtype
    np.testing.assert_array_equal(again.predict(ROWS), model.predict(ROWS))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("given", "wrong", "words"),
    [
        ("days", ["soon"], "'soon' in row 0.*no date as the first ones"),
        ("days", [3.5], "3.5 in row 0.*no date as the first ones"),
        ("days", [np.datetime64("NaT", "D")], "no|nothing"),
        ("text", ["2024-01-31"], "'2024-01-31' in row 0.*no date as the first ones"),
        ("times", ["noon"], "'noon' in row 0.*no time as the first ones"),
        ("amounts", ["much"], "'much' in row 0.*no number as the first ones"),
        ("amounts", [None], "nothing, in 1 of 1 rows"),
    ],
)
def test_later_targets_that_are_written_otherwise_change_nothing(make, given, wrong, words):
    model = copy.deepcopy(given_to(make, given))
    before = model.predict(ROWS)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(ROWS[:1], wrong)
    with pytest.raises(ValueError, match=words):
        model.score(ROWS[:1], wrong)
    np.testing.assert_array_equal(model.predict(ROWS), before)


def test_a_new_fit_forgets_how_targets_were_written():
    for make in MAKERS.values():
        model = make().fit(ROWS, DATES).fit(ROWS, A)
        assert model.target_form_ is None
        assert model.predict(ROWS).dtype == np.float64
        again = make().partial_fit(ROWS, DATES)
        assert again.predict(ROWS).dtype == np.dtype("M8[D]")


def test_a_fit_that_fails_leaves_the_form_of_before():
    model = MAKERS["steps"]().fit(ROWS, DATES)
    with pytest.raises(ValueError, match="0 feature"):
        model.fit(ROWS[:, :0], A)
    assert model.predict(ROWS).dtype == np.dtype("M8[D]")


@pytest.mark.parametrize("expansion", [Stream(), KOMP(max_size=60)], ids=repr)
@pytest.mark.parametrize("given", GIVEN)
def test_dates_and_amounts_are_learned_row_by_row(given, expansion, tmp_path):
    y, _, _, dtype, _ = GIVEN[given]
    options = {} if isinstance(expansion, Stream) else {"kernel": Gaussian(1.0)}
    model = KernelRegressor(expansion=expansion, random_state=0, **options)
    assert model.predict_one(NAMED[0]) == 0.0
    cells = y.tolist() if hasattr(y, "tolist") else y
    cells = list(y) if given in ("days", "a series") else cells
    for i in range(60):
        model.learn_one(NAMED[i], cells[i])
    with pytest.raises(ValueError, match=r"no .* as the first ones"):
        model.learn_one(NAMED[60], "soon")
    assert model.n_samples_seen_ == 60
    one = model.predict_one(NAMED[61])
    many = model.predict(ROWS[61:64])
    assert many.dtype.kind == np.dtype(dtype).kind
    np.testing.assert_allclose(one, many[0]) if given == "amounts" else None
    assert given == "amounts" or one == many[0]
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for each in (model, again):
        for i in range(60, 90):
            each.learn_one(NAMED[i], cells[i])
    assert again.predict_one(NAMED[3]) == model.predict_one(NAMED[3])


def test_quantiles_and_several_targets():
    levels = KernelRegressor(Quantile([0.1, 0.9]), random_state=0).fit(ROWS, DATES)
    assert levels.predict(ROWS).shape == (N, 2)
    assert levels.predict(ROWS).dtype == np.dtype("M8[D]")
    assert 0.3 < levels.score(ROWS, DATES) < 1.0
    both = np.column_stack([DATES.to_numpy(), DATES.to_numpy()])
    for make in MAKERS.values():
        with pytest.raises((ValueError, TypeError), match=r"date|text"):
            make().fit(ROWS, both)


def test_intervals_are_found_by_dates_that_are_given_later():
    model = MAKERS["steps"]().partial_fit(ROWS[:60], DATES[:60])
    model.calibrate(ROWS[60:], DATES[60:])
    ends = model.predict_interval(ROWS[:60], 0.9)
    assert ends.dtype == np.dtype("M8[D]")
    assert np.mean((ends[:, 0] <= DATES[:60]) & (DATES[:60] <= ends[:, 1])) > 0.8


def test_explanations_of_arrays_of_dates_are_in_days():
    for make in MAKERS.values():
        model = make().fit(ROWS, DATES)
        told = model.explain(ROWS[:2])
        assert told.quantity == "prediction in days since 1970"
        np.testing.assert_allclose(told.prediction, DAYS[:2], atol=20.0)


def test_only_regressions_learn_dates():
    with pytest.raises((ValueError, TypeError), match="dates"):
        ValueFunction(0.9).fit(ROWS[:-1], DATES[:-1], ROWS[1:])


def test_processes_tell_deviations_in_the_unit_of_the_spread():
    model = MAKERS["process"]().fit(ROWS, DATES)
    plain = MAKERS["process"]().fit(ROWS, DAYS)
    mean, deviation = model.predict(ROWS, return_std=True)
    assert mean.dtype == np.dtype("M8[D]")
    np.testing.assert_array_equal(deviation, plain.predict(ROWS, return_std=True)[1])


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
    rows = reading(np.asarray(due), ranker)
    rows.model.save(tmp_path / "m.mercer")
    again = TableRows.of(load_model(tmp_path / "m.mercer"))
    np.testing.assert_array_equal(again.targets(table(due)), rows.targets(table(due)))
    for one in (rows, again):
        assert one.ranked_by.startswith(words)
        assert bool(one.ranked_by) == bool(words)
        low, high = one.model.predict({"a": np.array([-1.5, 1.5])})
        assert low < high
        assert one.target_form is None


def test_the_command_says_by_what_rows_are_ranked(mercer, tmp_path):
    pd.DataFrame(table(DATES.strftime("%d.%m.%Y"))).to_csv(tmp_path / "due.csv", index=False)
    words = ["--target", "due", "--task", "rank", "--out", tmp_path / "m", "--max-size", "100"]
    code, _, err = mercer("fit", tmp_path / "due.csv", *words)
    assert code == 0
    assert "ranked by 'due' as dates written dmy" in err
    code, out, _ = mercer("evaluate", tmp_path / "m", tmp_path / "due.csv", "--json")
    assert json.loads(out)["concordance"] > 0.8


@pytest.mark.parametrize("make", [KernelRegressor, GaussianProcessRegressor])
def test_pictures_and_reports_of_arrays_show_numbers_of_dates(make, tmp_path, request):
    if make is GaussianProcessRegressor:  # once the pictures are drawn
        request.getfixturevalue("undrawn")
    X, days = A[:, np.newaxis], np.asarray(DATES)
    units = {"normalize_y": True} if make is GaussianProcessRegressor else {}
    model = make(random_state=0, **units).fit(X, days)
    shown = RegressionCurveDisplay.from_estimator(model, X, days, ax=Figure().subplots())
    numbers = DAYS.astype(float)
    assert numbers.min() - 60 < shown.prediction.min() < shown.prediction.max() < 60 + numbers.max()
    report_model(tmp_path / "r.html", model, X, days)
    middle = f"Always answering the median, {int(np.median(numbers)):,}"
    assert middle in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert model.predict(X[:1]).dtype.kind == "M"  # it stays as it was


@pytest.mark.parametrize("moments", [DATES, MOMENTS], ids=["days", "seconds"])
def test_pictures_and_losses_of_pipelines_are_those_of_their_models(moments):
    X, days = A[:, np.newaxis], np.asarray(moments)
    pipeline = make_pipeline(FunctionTransformer(), KernelRegressor(random_state=0)).fit(X, days)
    model, step = pipeline[-1], np.timedelta64(1, "D")
    error = (model.predict(X) - days) / step
    # Dates are answered rounded, which losses are not: 1 at most, of days or of seconds.
    slack = 1.0 if moments is DATES else 1.0 / 86_400
    for one in (model, pipeline):
        losses = row_losses(one, X, days, loss="absolute_error")
        np.testing.assert_allclose(losses, np.abs(error), rtol=0, atol=slack)
    drawn = [
        RegressionCurveDisplay.from_estimator(one, X, days, ax=Figure().subplots()).prediction
        for one in (model, pipeline)
    ]
    np.testing.assert_array_equal(*drawn)
    assert pipeline.predict(X[:1]).dtype.kind == "M"  # it stays as it was
