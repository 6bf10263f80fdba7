"""The tables of the script that compares tables with text, dates, categories and gaps."""

import os
from pathlib import Path

import numpy as np
import pytest

import benchmark_scripts

pd = pytest.importorskip("pandas")

NAMES = ("homes", "jewels", "power", "phones", "movies", "coffee", "pets", "strikes", "tweets")
NAMES += ("loans", "flights", "houses")


@pytest.fixture(scope="module")
def scripts():
    """The modules of the script."""
    with benchmark_scripts.scripts("_messy_tables", "_messy_peers", "messy") as found:
        yield found


def made(scripts, name):
    tables = scripts._messy_tables
    found = os.environ.get("MERCER_DATA")
    directory = Path(found) if found else None
    if not tables.readable(name, directory):
        pytest.skip("the data are not here")
    return tables.TABLES[name](directory)


def test_all_tables_are_tested(scripts):
    assert tuple(scripts._messy_tables.TABLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_what_it_claims(scripts, name):
    messy = made(scripts, name)
    frame, target = messy.frame, messy.frame[messy.target]
    assert 1000 < len(frame) <= scripts._messy_tables.MOST_ROWS
    assert list(frame.index) == list(range(len(frame)))
    assert target.notna().all()
    assert messy.regression == (target.dtype.kind == "f")
    assert messy.regression or 2 <= target.nunique() <= 3
    assert messy.target not in {*messy.texts, *messy.dates, *messy.numbers}
    read = messy.parsed()
    for column in messy.dates:
        assert frame[column].dropna().map(type).eq(str).all()
        assert read[column].notna().sum() > 0.99 * frame[column].notna().sum()
    for column in messy.numbers:
        assert read[column].notna().equals(frame[column].notna())
    for column in messy.texts:
        assert frame[column].nunique() > 50  # words, no categories
    gaps_or_text = bool(messy.texts) + bool(messy.dates) + bool(frame.isna().any().any())
    assert gaps_or_text >= 2
    again = made(scripts, name).frame
    pd.testing.assert_frame_equal(frame, again)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("$1,234", 1234.0), ("12,5 %", 12.5), ("0.30 ct", 0.3), ("-3.5", -3.5), ("1,234.5", 1234.5)],
)
def test_numbers_are_read_by_hand(scripts, cell, value):
    assert scripts._messy_tables._number(cell) == value


def test_cells_without_a_number_are_gaps(scripts):
    assert np.isnan(scripts._messy_tables._number("n/a"))
    assert np.isnan(scripts._messy_tables._number(None))


def test_gaps_are_as_many_as_said_and_may_be_among_high_values(scripts):
    rng, column = np.random.default_rng(0), pd.Series(np.arange(4000.0))
    evenly = scripts._messy_tables.with_gaps(rng, column, 0.2)
    high = scripts._messy_tables.with_gaps(rng, column, 0.2, high=True)
    assert evenly.isna().mean() == pytest.approx(0.2, abs=0.03)
    assert high.isna().mean() == pytest.approx(0.2, abs=0.03)
    assert high[3000:].isna().mean() > 4 * high[:1000].isna().mean()


def small(scripts):
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 300), unit="D")
    frame = pd.DataFrame(
        {
            "x": x,
            "place": rng.choice(["Bern", "Bonn", "Ulm"], 300),
            "when": pd.Series(when).dt.strftime("%d.%m.%Y"),
            "y": x + 0.1 * rng.normal(size=300),
        }
    )
    return scripts._messy_tables.Messy(frame, "y", regression=True, dates={"when": "%d.%m.%Y"})


def test_runs_are_kept_and_compared_row_by_row(scripts, tmp_path):
    messy, method = small(scripts), "HistGradientBoosting"
    run = scripts.messy.run(messy, "small", method, 2, tmp_path)
    assert [len(losses) for losses in run.losses] == [60, 60]
    assert np.mean(np.concatenate(run.losses)) < 0.5  # of the variance
    kept = scripts.messy.run(messy, "small", method, 2, tmp_path)
    np.testing.assert_array_equal(np.concatenate(run.losses), np.concatenate(kept.losses))
    worse = scripts.messy.Run([losses + 1.0 for losses in run.losses], run.seconds)
    worse.losses[0][0] += 1e-3
    assert scripts.messy.standard_errors(worse, run) > 10.0
    assert scripts.messy.standard_errors(run, worse) < -10.0
    assert scripts.messy.standard_errors(run, run) == 0.0
    row = scripts.messy.row_of("small", messy, {"mercer": worse, "CatBoost": run})
    assert row["rows"] == 300
    assert row["mercer - CatBoost, in standard errors"].startswith("+")
    assert " ± " in row["mercer"]


def test_dates_are_numbers_for_trees(scripts):
    parts = scripts._messy_peers.calendar(small(scripts).parsed())
    assert {"when: day", "when: month", "when: weekday"} <= set(parts)
    assert "when: hour" not in parts  # always midnight
    assert "when: year" not in parts


@pytest.mark.usefixtures("quick_race")
def test_mercer_gets_the_cells_as_they_come(scripts, monkeypatch):
    messy = small(scripts)
    monkeypatch.setattr(scripts._messy_tables.Messy, "parsed", None)  # nothing is read by hand
    train, test = scripts.messy.folds_of(300)[0]
    predicted = scripts._messy_peers.mercer(messy, train, test, 0)
    assert scripts.messy.losses_of(messy, predicted, test).mean() < 0.5
