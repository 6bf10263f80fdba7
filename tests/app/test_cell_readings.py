"""How cells of text are read: numbers, dates, times and durations in the forms of many places."""

# ruff: noqa: RUF001

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.columns.calendar_parts import compact_dates
from mercer.columns.forms import DateForm, NumberForm
from mercer.columns.readings import TargetForm
from mercer.columns.views import Levels
from mercer_app.export import export_python
from mercer_app.rows import TableRows


def number_form(*levels):
    return NumberForm.of(levels, [1] * len(levels))


def date_form(*levels):
    return DateForm.of(levels, [1] * len(levels))


# -- amounts ---------------------------------------------------------------------------------------

AMOUNTS = {
    "thousands beside bare numbers": (["1.3K", "963", "2.5M"], [1300, 963, 2.5e6]),
    "with blanks": (["1.3 k", "963", "12 k"], [1300, 963, 12_000]),
    "German": (["1,3 Mio.", "963", "2 Mrd", "5 Tsd."], [1.3e6, 963, 2e9, 5e3]),
    "words": (["1.3 million", "963", "2 billion"], [1.3e6, 963, 2e9]),
    "dollars": (["$1.3K", "$963", "$2.5M"], [1300, 963, 2.5e6]),
    "euros behind": (["1,3 Mio. €", "950 €"], [1.3e6, 950]),
    "lakh and crore": (["1.5 lakh", "2 crore", "50000"], [150_000, 2e7, 50_000]),
    "ten thousands": (["1.3万", "963", "2億"], [13_000, 963, 2e8]),
    "Russian": (["1,3 тыс", "963", "2 млн"], [1300, 963, 2e6]),
    "kilometres and metres": (["12 km", "300 m"], [12_000, 300]),
    "bytes": (["512 B", "1.5 KB", "2 MB"], [512, 1500, 2e6]),
    "a unit of all": (["12K", "15K"], [12, 15]),
    "kelvin": (["300 K", "310 K"], [300, 310]),
    "metres beside bare numbers": (["5 m", "7"], [5, 7]),
    "Swiss": (["1\u2019324.85", "950.10", "12\u2019324\u2019001.5"], [1324.85, 950.1, 12324001.5]),
    "a sign behind": (["1324.85-", "7.00"], [-1324.85, 7]),
    "a sign before the unit": (["1.324,85- EUR", "7,00 EUR"], [-1324.85, 7]),
    "rupees": (["Rs. 1,324", "Rs.950", "Rs 12/-"], [1324, 950, 12]),
    "rupee sign": (["₹1,23,456", "₹950"], [123_456, 950]),
    "yen": (["¥1,324", "¥950"], [1324, 950]),
    "wide yen": (["\uffe51,324", "\uffe5950"], [1324, 950]),
    "wide digits": (["１２３", "４５．６"], [123, 45.6]),
    "underscores": (["1_324.85", "12"], [1324.85, 12]),
    "about": (["~1,300", "ca. 1300", "≈ 5", "approx. 7", "約 8"], [1300, 1300, 5, 7, 8]),
    "parts of one": (["1/2", "3 1/2", "½", "3½", "2"], [0.5, 3.5, 0.5, 3.5, 2]),
    "bounds": (["<500", "600", "700.5", "≥ 1000", "800"], [500, 600, 700.5, 1000, 800]),
    "at least": (["10+", "3.5", "2.5"], [10, 3.5, 2.5]),
    "narrow blanks": (["1\u202f324,85", "12\u00a0324,85"], [1324.85, 12324.85]),
    "a code before": (["EUR 12,50", "EUR 7,10"], [12.5, 7.1]),
    "minus": (["\u22125", "7"], [-5, 7]),
    "powers of ten": (["1.3×10^5", "2x10^-3"], [1.3e5, 2e-3]),
    "no cents": (["12.-", "7.50"], [12, 7.5]),
    "square metres": (["12 m2", "3 m2"], [12, 3]),
    "a currency before brackets": (["$(1,324.50)", "$ (7)", "$8"], [-1324.5, -7, 8]),
    "powers of Fortran": (["1.3D+05", "2.0D-03"], [1.3e5, 2e-3]),
    "notes": (["1,324[1]", "950 [a]", "7[2][12]", "8.5 km[note 3]"], [1324, 950, 7, 8.5]),
    "marks of notes": (["1324.5*", "950†", "7²", "8"], [1324.5, 950, 7, 8]),
    "text of a spreadsheet": (["'1324.5", '="950"', '= "7"'], [1324.5, 950, 7]),
    "errors": (["1324.5 ± 0.3", "950 +/- 12 km", "7 km"], [1324.5, 950, 7]),
    "bounds in words": (
        ["over 500", "More than 600", "700", "800", "900"],
        [500, 600, 700, 800, 900],
    ),
    "latitudes": (["12.5° N", "7.25°S", "3.5 N"], [12.5, -7.25, 3.5]),
    "longitudes": (["12.57E", "80.43W", "3.23W"], [12.57, -80.43, -3.23]),
    "few in the east": (
        ["1.5E", *(f"{i}.5W" for i in range(30))],
        [1.5, *(-i - 0.5 for i in range(30))],
    ),
    "a unit with a point": (["12 Std.", "3 Std."], [12, 3]),
}


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts(name):
    levels, expected = AMOUNTS[name]
    assert_allclose(number_form(*levels).read(levels), expected)


NOTHING = [
    ["555-1234", "555-9876"], ["030-1234", "040-2222"], ["AB-123", "CD-456"], ["1.2.3", "1.3.10"],
    ["192.168.0.1", "10.0.0.2"], ["16:9", "4:3"], ["3-1", "2-2", "0-0"], ["10-20", "20-30"],
    ["120/80", "135/85"], ["Mark 12", "Anna 5"], ["Sample 12", "Decent 3"], ["12-A", "14-B"],
    ["5-door", "3-door"], ["12-kg", "3-kg"], ["Q124", "Q233"], ["34B", "36C"], ["12a", "14b", "3c"],
    ["19850412-9934", "19770130-7765"], ["06 42 68 53 00", "01 98 76 54 32"], ["May", "June"],
    ["2024-0001", "2024-0002"], ["1234-567", "2222-333"], ["00:1A:2B:3C", "00:1B:44:11"],
    ["9h", "10d", "2s", "7c"], ["<=50K", ">50K"], ["S2", "T4"], ["Mon", "Tue"], ["3:2", "2:1"],
    ["A1B2", "C3D4"], ["10x20", "5x7"], ["No. 5", "No. 7"], ["v1.2", "v1.3"], ["100-", "5-10"],
    ["Set 12", "Pro 13"], ["c7", "c12"], ["ca5", "ca17"], ["k7", "m12"], ["x5", "y5"],
    ["1h", "red"], ["12N", "14S"], ["x[1]", "y[2]"], ["2023M13", "2023M00"],
    ["2024-01-32", "2024-13-01"], ["2024-W60", "2024-W61"],
    ["2024-367", "2023-366"], ["12/25", "31/06"], ["PT", "P"], ["5'11\"", "6'1\""],
]  # fmt: skip


@pytest.mark.parametrize("levels", NOTHING, ids=" ".join)
def test_names_codes_and_ratios_are_no_amounts_and_no_dates(levels):
    assert number_form(*levels) is None
    assert date_form(*levels) is None


def test_letters_of_house_numbers_are_no_thousands():
    houses = [*map(str, range(1, 100)), "16B"]
    assert number_form(*houses).read(["16B", "16"]).tolist() == [16.0, 16.0]


def test_bare_numbers_are_themselves_in_later_rows_too():
    form = number_form("1.3K", "2.5K")  # no bare number yet
    assert_allclose(form.read(["1.3K", "963", "2M"]), [1.3, 0.963, 2000.0])


def test_forms_saved_before_sizes_were_read_stay_as_they_were():
    assert NumberForm(".", "K").read(["1.3K", "963"]).tolist() == [1.3, 963.0]
    assert NumberForm(".", "Fr.").read(["Fr. 5", "Fr 6"]).tolist() == [5.0, 6.0]


@pytest.mark.parametrize("classes", [["<=50K", ">50K"], ["1/4", "1/2", "3/4"], ["0", "1", ">1"]])
def test_classes_of_bounds_and_parts_are_no_quantities(classes):
    codes = np.arange(60) % len(classes)
    assert TargetForm.of("target", Levels(codes, classes)) is None


# -- dates -----------------------------------------------------------------------------------------

DAY = datetime(2024, 1, 2, tzinfo=UTC)
MOMENT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DATES = {
    MOMENT: [
        "20240102T030405", "20240102T030405Z", "20240102_030405", "20240102-030405",
        "20240102030405", "2024-01-02-03.04.05", "2024-01-02-03.04.05.000000",
        "2024-01-02_03-04-05", "02JAN2024:03:04:05", "2024:01:02 03:04:05",
        "Tue Jan  2 03:04:05 2024", "Tue Jan 02 03:04:05 +0000 2024",
        "Tue, 02 Jan 2024 03:04:05 GMT", "02/Jan/2024:03:04:05 +0000",
        "[02/Jan/2024:03:04:05 +0000]", "2024-01-02 03:04:05 UTC", "02.01.2024 03:04:05 Uhr",
        "2. Januar 2024 um 03:04:05 Uhr", "2024-002T03:04:05", "Jan 2, 2024 3:04:05 a.m.",
        "January 2, 2024 at 3:04:05 AM", "2024年1月2日 3時4分5秒", "2024年01月02日 03:04:05",
        "2024-01-02 03:04:05,000", "2 de enero de 2024, 3:04:05 a.\u00a0m.",
    ],
    MOMENT - HOUR: [
        "20240102T030405+0100", "Tue Jan 2 03:04:05 CET 2024", "2024-01-02 03:04:05 CET",
        "Tue Jan 02 2024 03:04:05 GMT+0100 (CET)", "2024-01-02 03:04:05 Europe/Berlin",
        "Tue Jan 02 2024 03:04:05 GMT+0100 (Central European Standard Time)",
        "2024-01-02T03:04:05+01:00[Europe/Berlin]", "Tue, 02 Jan 2024 03:04:05 +0100 (CET)",
    ],
    MOMENT + 5 * HOUR: ["2024-01-02 03:04:05 EST", "2024-01-02 03:04:05 America/New_York"],
    DAY + 15 * HOUR: ["2 Jan 2024 3 PM", "2024-01-02 3:00 p. m.", "2024年1月2日 下午3:00"],
    DAY: [
        "2024-002", "2024-W01-2", "2024W012", "20240102", "2024-Jan-02", "2024 January 2",
        "2 января 2024", "2 января 2024 г.", "2 янв. 2024", "2 січня 2024", "2024年1月2日",
        "2024年1月2日(火)", "2024년 1월 2일", "2 janvier 2024", "2 janv. 2024",
        "2 Jan 2024[3]", "'2024-01-02", '="2024-01-02"',
        "2 de enero de 2024", "martes, 2 de enero de 2024", "2 gennaio 2024",
        "terça-feira, 2 de janeiro de 2024", "2 januari 2024", "2 stycznia 2024", "2. Jänner 2024",
        "2. ledna 2024", "2 Ocak 2024", "02-ENE-2024",
    ],
    FIRST: [
        "2024Q1", "Q1 2024", "2024-Q1", "1Q24", "Q1-24", "Q1/2024", "2024 H1", "2024-01", "Jan-24",
        "Jan '24", "January 2024", "enero de 2024", "01/2024", "2024年1月", "2024-W01", "KW 1/2024",
        "2024M01", "2024m1", "2024S1", "2024w01",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "moment"), [(text, moment) for moment, texts in DATES.items() for text in texts]
)
def test_dates(text, moment):
    form = date_form(text)
    assert form is not None
    assert not form.is_duration
    assert form.read([text]).tolist() == [moment.timestamp()]


def test_every_month_of_every_language_has_its_number():
    for names in (
        "янв фев мар апр мая июн июл авг сен окт ноя дек",
        "sty lut mar kwi maj cze lip sie wrz paź lis gru",
        "janv févr mars avr mai juin juil août sept oct nov déc",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
        "Jän Feb März Apr Mai Juni Juli Aug Sept Okt Nov Dez",
        "oca şub mar nis may haz tem ağu eyl eki kas ara",
        "ledna února března dubna května června července srpna září října listopadu prosince",
        "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie "
        "decembrie",
    ):
        read = DateForm("d month y").read([f"1. {name} 1970" for name in names.split()])
        months = read.astype("M8[s]").astype("M8[M]").astype(int)
        assert months.tolist() == list(range(12)), names


MIXED = {
    "ymd and mdy": (["2024-01-02", "01/13/2024"], [2, 13]),
    "marks tell": (["02.01.2024", "01/13/2024", "01/03/2024", "31.01.2024"], [2, 13, 3, 31]),
    "names": (["Jan-24", "January 2, 2024"], [1, 2]),
    "with times": (["2024-01-02", "20240103T000000", "Thu Jan 04 2024"], [2, 3, 4]),
}


@pytest.mark.parametrize("name", MIXED)
def test_dates_in_several_forms(name):
    texts, days = MIXED[name]
    form = date_form(*texts)
    assert "|" in form.order
    assert form.clear
    assert_array_equal(form.read(texts), [(FIRST + timedelta(d - 1)).timestamp() for d in days])


def test_days_and_months_first_with_the_same_mark_are_not_guessed():
    assert date_form("13/01/2024", "01/13/2024") is None
    days = [f"{d:02d}/01/2024" if d % 2 else f"01/{d:02d}/2024" for d in range(1, 29)] * 10
    seen = TablePreprocessor().fit({"x": days, "y": np.arange(280) / 7})
    assert "dates with days first and dates with months first" in seen.audit_[0].remarks


YEARS = {"yy-m-d": "%y-%m-%d", "dmy": "%d-%m-%y", "mdy": "%m-%d-%y"}


@pytest.mark.parametrize("order", YEARS)
@pytest.mark.parametrize("first", [1975, 1999, 2011, 2023])
def test_years_of_two_figures_are_what_there_are_fewest_of(order, first):
    days = [datetime(first, 1, 1, tzinfo=UTC) + timedelta(days=7 * i) for i in range(100)]
    texts = [day.strftime(YEARS[order]) for day in days]
    form = date_form(*texts)
    assert form.order == order
    assert form.clear == (order != "yy-m-d" or first < 2000)
    assert form.read(texts).tolist() == [day.timestamp() for day in days]


def test_months_as_whole_numbers():
    months = [year * 100 + month for year in (2022, 2023) for month in range(1, 13)]
    (line,) = TablePreprocessor().fit({"x": months * 3}).audit_
    assert (line.kind, line.remarks) == ("date", "dates as 202401")
    values = compact_dates(np.array([*months, 202200.0, 202213.0]))
    assert values[1] == datetime(2022, 2, 1, tzinfo=UTC).timestamp()
    assert np.isnan(values).tolist() == [False] * 24 + [True, True]


@pytest.mark.parametrize("digits", ["%Y%m%d%H%M", "%Y%m%d%H%M%S"])
def test_dates_with_times_as_whole_numbers(digits):
    moment = MOMENT if "S" in digits else MOMENT.replace(second=0)
    values = np.array([float(moment.strftime(digits)), 202413020304.0, 20240102256000.0])
    assert_array_equal(compact_dates(values), [moment.timestamp(), np.nan, np.nan])


DURATIONS = {
    "26:15:00": 94_500, "75:30": 4530, "1h 20m": 4800, "90 min": 5400, "1.5 h": 5400,
    "3 days 04:05:06": 273_906, "1 day, 2:03:04": 93_784, "PT1H30M": 5400, "P1DT2H": 93_600,
    "1 hr 20 min": 4800, "1 hour and 20 minutes": 4800, "-1 days +23:50:00": -600,
    "1d 4h": 100_800, "2 Std. 30 Min.": 9000, "0 days 00:10:00": 600, "1.02:03:04": 93_784,
    "45s": 45, "2 heures": 7200,
}  # fmt: skip


@pytest.mark.parametrize("text", DURATIONS)
def test_durations(text):
    form = date_form(text)
    assert form.is_duration
    assert form.read([text]).tolist() == [DURATIONS[text]]


def test_minutes_and_seconds_beside_hours_are_no_times_of_the_day():
    assert date_form("5:30", "59:59", "1:02:03").read(["5:30", "1:02:03"]).tolist() == [330, 3723]
    assert date_form("5:30", "22:10", "10:02:03").is_time
    assert date_form("90 min", "1h 20m", "1:00:00").order == "1h 2m|h:m:s"


# -- columns ---------------------------------------------------------------------------------------

N = 300


def drawn():
    rng = np.random.default_rng(0)
    value = rng.lognormal(7, 1, N)
    at = [datetime(2022, 1, 1) + timedelta(hours=int(h)) for h in rng.integers(0, 9000, N)]
    short = [f"{v / 1e3:.1f}K" if v >= 1e3 else f"{v:.0f}" for v in value]
    return {
        "short": (short, "number"),
        "swiss": ([f"{v:,.2f}".replace(",", "\u2019") for v in value], "number"),
        "behind": ([f"{v:.2f}-" for v in value], "number"),
        "halves": ([f"{int(v)} 1/2" for v in value], "number"),
        "sas": ([a.strftime("%d%b%Y:%H:%M:%S").upper() for a in at], "date"),
        "basic": ([a.strftime("%Y%m%dT%H%M%SZ") for a in at], "date"),
        "mixed": (
            [a.strftime("%Y-%m-%d" if i % 9 else "%d.%m.%Y") for i, a in enumerate(at)], "date"),
        "compact": ([int(a.strftime("%Y%m%d%H%M%S")) for a in at], "date"),
        "length": ([f"{int(v) // 60}h {int(v) % 60}m" for v in value], "number"),
        "minutes": ([f"{int(v)} min" for v in value], "number"),
        "version": ([f"1.{i % 7}.{i % 12}" for i in range(N)], "text"),
        "pressure": ([f"{100 + i % 60}/{60 + i % 41}" for i in range(N)], "identifier"),
        "stages": ([["0", "1", "2", ">2"][i % 4] for i in range(N)], "category"),
    }  # fmt: skip


COLUMNS = drawn()


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_in_these_forms(name):
    values, kind = COLUMNS[name]
    rng = np.random.default_rng(1)
    table = {"x": values, "other": rng.normal(size=N)}
    seen = TablePreprocessor(include=()).fit(table)
    assert seen.audit_[0].kind == kind
    again = TablePreprocessor.from_state(json.loads(json.dumps(seen.to_state())))
    assert_array_equal(again.transform(table), seen.transform(table))
    # Rows are read alike in whatever pieces they come.
    parts = [{name: column[i : i + 100] for name, column in table.items()} for i in (0, 100, 200)]
    assert_array_equal(np.vstack([seen.transform(part) for part in parts]), seen.transform(table))


def test_a_model_of_such_columns_is_exported_and_saved(tmp_path):
    names = ("short", "sas", "mixed", "compact", "length")
    table = pd.DataFrame({name: COLUMNS[name][0] for name in names})[:150]
    rng = np.random.default_rng(2)
    table["code"] = [f"X-{i:04d}" for i in rng.permutation(150)]
    table["y"] = table["code"].str[2:].astype(float) + 30.0 * rng.normal(size=150)
    columns = TablePreprocessor(exclude=("y",))
    estimator = KernelRegressor(expansion="komp", normalize_y=True)
    model = TableRows(estimator, columns, "y").partial_fit(table).finish().model
    assert model.preprocessor_.readings_["code"].form == "digits"
    export_python(model, tmp_path / "m.py")
    space: dict = {"__name__": "exported"}
    exec(compile((tmp_path / "m.py").read_text(), "m.py", "exec"), space)
    new = table.drop(columns="y")[:20]
    assert_allclose(space["predict"](new), model.predict(new), rtol=1e-5)
    model.save(tmp_path / "m.mercer")
    assert_array_equal(load_model(tmp_path / "m.mercer").predict(new), model.predict(new))


def test_a_target_with_thousands_is_learned_as_it_is_meant(tmp_path, mercer):
    rng = np.random.default_rng(3)
    x = rng.uniform(1.5, 5, N)
    y = 10**x
    short = [f"{v / 1e3:.2f}K" if v >= 1e3 else f"{v:.0f}" for v in y]
    rows = TableRows(KernelRegressor(), TablePreprocessor(exclude=("y",)), "y")
    table = {"x": x, "z": rng.normal(size=N), "y": short}
    assert_allclose(rows.targets(table), y, rtol=0.02)


def test_remarks_show_a_cell_that_was_read_and_whole_words(rng):
    cells = [f"{v:.2f} {'kmpl' if i % 97 else 'km/kg'}" for i, v in enumerate(rng.normal(20, 5, N))]
    (line,) = str(TablePreprocessor().fit({"x": cells}).audit_).splitlines()[1:]
    assert f"as {cells[1]!r}; 4 cells that are no number, as {cells[0]!r}" in line
    (line,) = str(TablePreprocessor().fit({"x": COLUMNS["short"][0]}).audit_).splitlines()[1:]
    assert ", which is " in line
    (line,) = str(TablePreprocessor().fit({"x": COLUMNS["mixed"][0]}).audit_).splitlines()[1:]
    assert "written ymd as '2022-" in line
    assert ", or dmy as '" in line


def test_a_long_remark_ends_with_a_word():
    cells = ["word " * 30 + "end"] * 40
    shown = str(TablePreprocessor().fit({"x": cells, "y": np.arange(40) / 7}).audit_)
    assert "word word ...\n" in shown


BESIDE = {
    "never": ("{:.2f}", "Never"),
    "call for price": ("${:,.2f}", "Call for price"),
    "varies": ("{:.1f}M", "Varies with device"),
    "a unit alone": ("{:.2f} bhp", "bhp"),
    "too long for its field": ("{:8.2f}", "********"),
    "days of zeros": ("2024-01-{:02d}", "0000-00-00"),
    "times of zeros": ("2024-01-{:02d} 10:30:00", "0000-00-00 00:00:00"),
    "slashes and zeros": ("{:02d}/01/2024", "00/00/0000"),
    "day 0 of a sheet": ("1/{}/2024", "1/0/1900"),
    "the last day": ("{:02d}/01/2024", "31/12/9999"),
    "present": ("{:02d} Jan 2024", "present"),
    "closed": ("14:{:02d}", "closed"),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("words", [1, 2])
def test_a_few_words_that_repeat_are_gaps_among_quantities(name, words, rng):
    form, word = BESIDE[name]
    values = rng.lognormal(7, 1, N) if "f" in form else 1 + rng.permutation(N) % 28
    gone = rng.random(N) < 0.3
    cells = [form.format(value) for value in values]
    texts = [
        ([word, "soon"][i % words] if no else cell)
        for i, (cell, no) in enumerate(zip(cells, gone, strict=True))
    ]
    blank = [None if no else cell for cell, no in zip(cells, gone, strict=True)]
    seen = TablePreprocessor().fit({"x": texts})
    expected = TablePreprocessor().fit({"x": blank})
    assert f"{gone.sum()} cells that are no " in seen.audit_[0].remarks
    assert_array_equal(seen.transform({"x": texts}), expected.transform({"x": blank}))


@pytest.mark.parametrize(
    "levels",
    [
        ["S", "M", "L", "XL", *map(str, range(34, 60))],  # four words
        ["none", *map(str, range(9))],  # few numbers
        ["none", *(f"{i:05d}" for i in range(30))],  # codes
        ["a", "b", *(f"X{i}" for i in range(40))],
        [f'="{i:05d}"' for i in range(30)],
    ],
)
def test_categories_with_numbers_stay_categories(levels):
    seen = TablePreprocessor().fit({"x": [levels[i % len(levels)] for i in range(N)]})
    assert seen.audit_[0].kind in ("category", "text")


# -- identifiers whose order says something --------------------------------------------------------


def kind_of(values, y, **options):
    table = {"x": values, "other": np.random.default_rng(4).normal(size=len(values))}
    seen = TablePreprocessor(**options).fit(table, y)
    return seen.audit_[0]


CODES = {
    "numbered": lambda order: [f"A-{i:05d}" for i in order],
    "unknown times": lambda order: [
        f"2024|{1 + i // 28:02d}|{1 + i % 28:02d}#{i % 7}" for i in order
    ],
    "letters": lambda order: [f"{i * 7919 + 2**24:x}q1" for i in order],
    "row ids": lambda order: order,
}


@pytest.mark.parametrize("name", CODES)
@pytest.mark.parametrize("task", ["quantities", "classes", "season"])
def test_an_identifier_whose_order_tells_of_the_target_is_kept(name, task, rng):
    order = rng.permutation(N)
    codes = CODES[name](order)
    y = order + 30.0 * rng.normal(size=N)
    y = {"quantities": y, "classes": np.where(y > 150, "a", "b"), "season": np.sin(order / 15)}[
        task
    ]
    kept = kind_of(codes, y)
    assert kept.kind == "number"
    assert kept.n_inputs
    assert "its order tells of the target" in kept.remarks
    assert kind_of(codes, rng.permutation(y)).kind == "identifier"
    assert kind_of(codes, None).kind == "identifier"


def test_row_numbers_and_codes_of_rows_sorted_by_the_target_stay_out():
    rows = np.arange(N)
    classes = np.repeat(["a", "b", "c"], N // 3)
    for codes in (rows, [f"A-{3 * i:05d}" for i in rows]):
        left = kind_of(codes, classes)
        assert left.kind == "identifier"
        assert "in an order that tells of the target" in left.remarks
    drift = rows + 30.0 * np.random.default_rng(5).normal(size=N)
    assert kind_of(rows, drift).kind == "identifier"
    assert kind_of([f"A-{i * i:06d}" for i in rows], drift).kind == "number"


def test_random_codes_stay_out(rng):
    codes = ["".join(rng.choice(list("0123456789abcdef"), 12)) for _ in range(N)]
    for y in (rng.normal(size=N), rng.integers(0, 30, N), rng.choice(["a", "b"], N)):
        assert kind_of(codes, y).kind in ("identifier", "text")
