"""Numbers that mean that there is none: what is a gap, what is not, and where it is said."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import KernelRegressor
from mercer.columns import TablePreprocessor
from mercer.columns.readings import no_data_of
from mercer_app.export import export_python
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining

N = 400
DRAW = np.random.default_rng(0)
NORMAL, AGES = DRAW.normal(size=N), DRAW.integers(18, 90, N).astype(float)
MARKED = np.arange(0, N, 20)

MARKS = {
    "single precision": -3.4028234663852886e38,
    "single precision, written": -3.40282e38,
    "netCDF": 9.96921e36,
    "climate": 1e20,
    "double precision": 1.7976931348623157e308,
    "largest integer": 2.0**63 - 1,
    "smallest integer": -(2.0**63),
    "largest short": 32767,
    "smallest int": -(2.0**31),
    "-999": -999,
    "-9999": -9999,
    "-999.9 of single precision": float(np.float32(-999.9)),
    "9999": 9999,
    "99999": 99999,
}


def marked(values, mark, rows=MARKED):
    values = values.copy()
    values[rows] = mark
    return values


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
@pytest.mark.parametrize("values", [NORMAL, AGES], ids=["normal", "ages"])
def test_marks_are_gaps_in_all_tables_and_later_rows(mark, values):
    table = {"x": marked(values, mark), "z": NORMAL}
    gaps = {"x": marked(values, np.nan), "z": NORMAL}
    expected = TablePreprocessor().fit(gaps)
    for kind in (dict, pd.DataFrame, pa.table):
        seen = TablePreprocessor().fit(kind(table))
        assert seen.feature_names_out() == expected.feature_names_out()
        np.testing.assert_array_equal(seen.transform(kind(table)), expected.transform(gaps))
    assert f"{mark:.10g} means no value, in 20 cells" in seen.readings_["x"].note
    again = TablePreprocessor.from_state(json.loads(json.dumps(seen.to_state())))
    later = {"x": [mark, 1.0], "z": [0.0, 0.0]}
    missing = {"x": [None, 1.0], "z": [0.0, 0.0]}
    np.testing.assert_array_equal(again.transform(later), expected.transform(missing))


def test_whole_numbers_of_eight_bytes_are_marks_too():
    x = AGES.astype(np.int64)
    x[MARKED] = np.iinfo(np.int64).max
    seen = TablePreprocessor().fit({"x": x})
    assert seen.feature_names_out() == ["x", "x=(missing)"]


@pytest.mark.parametrize("mark", [3.4028235e38, -3.4028235e38, 9.96921e36, 2.0**63])
def test_what_nobody_measures_is_a_gap_where_it_comes_late(mark):
    seen = TablePreprocessor().fit({"x": NORMAL})
    np.testing.assert_array_equal(seen.transform({"x": [mark]}), seen.transform({"x": [None]}))
    assert seen.new_gaps({"x": np.array([mark, 1.0])}) == {"x": 1}


REAL = {
    "999 among others": DRAW.integers(1, 2001, 5000),
    "exponential": np.round(DRAW.exponential(100, 5000)),
    "heavy tails": np.round(DRAW.pareto(1.0, 20_000)),
    "heavy tails on both sides": np.round(DRAW.standard_cauchy(20_000)),
    "incomes": np.round(DRAW.lognormal(3, 2, 5000)),
    "capped": np.minimum(DRAW.integers(0, 12_000, N), 9999),
    "saturated": np.minimum(DRAW.integers(0, 70_000, N), 65_535),
    "prices": DRAW.choice([9, 19, 29, 49, 99, 199, 299, 999], N),
    "large numbers": np.append(DRAW.lognormal(60, 3, N), [1e20, 1e30]),
    "a single 999": np.append(AGES, 300.0 + np.array([699.0])),
    "-99 among others": np.append(DRAW.integers(-500, 500, N), [-99] * 9),
    "few values": np.array([1.0, 2.0, 3.0, -999.0, -999.0, -999.0]),
    "a constant and 9999": marked(np.zeros(N), 9999.0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_numbers_are_no_marks(name):
    values = REAL[name].astype(float)
    assert no_data_of(values)[0] == ()
    assert no_data_of(-values)[0] == () or name in ("a single 999", "prices")


def test_numbers_as_told_are_taken_as_they_are():
    table = {"x": marked(NORMAL, -999.0)}
    assert TablePreprocessor(kinds={"x": "number"}).fit(table).feature_names_out() == ["x"]


def test_several_marks_are_found_together():
    values = marked(marked(NORMAL, -9999.0), -8888.0, MARKED[:5] + 1)
    assert no_data_of(values)[0] == (-9999.0, -8888.0)


def test_marks_in_a_target_are_said(tmp_path):
    y = marked(NORMAL, -9999.0)
    rows = "".join(f"{x:.3f},{t:.3f}\n" for x, t in zip(AGES + NORMAL, y, strict=True))
    (tmp_path / "a.csv").write_text("x,y\n" + rows)
    training = FileTraining(str(tmp_path / "a.csv"), "y")
    with pytest.warns(UserWarning, match=r"'y' is -9999 in 20 of the first 400 rows"):
        training.start()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model of columns with such numbers and days, and its exported twin."""
    days = marked(DAYS.astype("M8[s]"), np.datetime64("9999-12-31T00:00:00"))
    table = pd.DataFrame({"x": marked(NORMAL, -9999.0), "at": days, "z": AGES})
    table["y"] = marked(NORMAL, 0.0) + AGES / 9
    estimator = KernelRegressor(expansion="komp", normalize_y=True)
    rows = TableRows(estimator, TablePreprocessor(exclude=("y",)), "y")
    model = rows.partial_fit(table[:200]).finish().model
    space: dict = {"__name__": "exported"}
    file = tmp_path_factory.mktemp("exported") / "m.py"
    export_python(model, file)
    exec(compile(file.read_text(), str(file), "exec"), space)
    return model, space["predict"], table.drop(columns="y")


DAYS = np.datetime64("2021-03-01") + DRAW.integers(0, 700, N)


@pytest.mark.parametrize("x", [None, -9999.0, 3.4028235e38, -1e20])
def test_exported_models_have_the_same_gaps(exported, x):
    model, predict, table = exported
    new = table[:30] if x is None else table[:30].assign(x=x)
    np.testing.assert_allclose(predict(new), model.predict(new), rtol=1e-6)


# -- days ------------------------------------------------------------------------------------------

NO_DAYS = ["0001-01-01", "1753-01-01", "1900-01-01", "1970-01-01", "2099-12-31", "9999-12-31"]
WRITTEN = {
    "typed": lambda days: days.astype("M8[s]"),
    "ISO": lambda days: days.astype(str),
    "dmy": lambda days: [d.item().strftime("%d.%m.%Y") for d in days],
    "mdy": lambda days: [d.item().strftime("%m/%d/%Y 00:00") for d in days],
    "numbers": lambda days: [int(d.item().strftime("%Y%m%d")) for d in days],
}


@pytest.mark.parametrize(
    ("name", "mark"),
    # Whole numbers are dates from 1900 on.
    [(name, mark) for name in WRITTEN for mark in NO_DAYS if name != "numbers" or mark >= "1900"],
)
def test_days_that_mean_none_are_gaps(name, mark):
    write = WRITTEN[name]
    values = marked(DAYS, np.datetime64(mark))
    written = write(values)
    written = pd.Series(written, dtype=object if name in ("ISO", "dmy", "mdy") else None)
    gaps = written.mask(values == np.datetime64(mark))
    seen = TablePreprocessor().fit(pd.DataFrame({"x": written, "z": NORMAL}))
    assert seen.audit_[0].kind == "date"
    assert seen.audit_[0].missing == len(MARKED) / N
    assert "no value" in seen.audit_[0].remarks or "no date" in seen.audit_[0].remarks
    expected = TablePreprocessor().fit(pd.DataFrame({"x": gaps, "z": NORMAL}))
    np.testing.assert_array_equal(
        seen.transform(pd.DataFrame({"x": written, "z": NORMAL})),
        expected.transform(pd.DataFrame({"x": gaps, "z": NORMAL})),
    )


@pytest.mark.parametrize(
    ("first", "last", "mark"),
    [("1890-01-01", "2020-01-01", "1900-01-01"), ("1960-01-01", "2020-01-01", "1970-01-01"),
     ("1930-01-01", "2010-01-01", "1900-01-01"), ("2020-01-01", "2090-01-01", "2099-12-31")],
)  # fmt: skip
def test_real_days_are_no_marks(first, last, mark):
    low, high = np.datetime64(first), np.datetime64(last)
    days = low + DRAW.integers(0, (high - low).astype(int), N)
    days[MARKED] = np.datetime64(mark)
    seen = TablePreprocessor().fit({"x": days.astype("M8[s]"), "z": NORMAL})
    assert seen.audit_[0].missing == 0.0
