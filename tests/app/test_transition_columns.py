"""Value functions from tables of logged steps, in Python and by the command."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from command_line import run
from mercer import ValueFunction, load_model
from mercer.estimators.transitions import from_trajectories
from mercer.kernels import Gaussian
from mercer_app.rows import TableRows
from mercer_app.training import TransitionColumns

DISCOUNT = 0.9


def walks(n: int, seed: int, cut: int | None = None) -> pd.DataFrame:
    """Steps of a fair walk on 0 to 6 that ends at both ends, and is paid 1 at the right one."""
    rng, rows = np.random.default_rng(seed), []
    for trip in range(n):
        place, t = 3, 0
        while 0 < place < 6 and t != cut:
            after = place + (1 if rng.random() < 0.5 else -1)
            row = (f"t{trip}", t, place, after, float(after == 6), int(after in (0, 6)))
            rows.append(row)
            place, t = after, t + 1
    return pd.DataFrame(rows, columns=["trip", "t", "place", "next_place", "pay", "over"])


def exact_values() -> np.ndarray:
    """Values of places 1 to 5, by the equations of Bellman."""
    step = 0.5 * (np.eye(5, k=1) + np.eye(5, k=-1))
    return np.linalg.solve(np.eye(5) - DISCOUNT * step, np.array([0, 0, 0, 0, 0.5]))


def model() -> ValueFunction:
    return ValueFunction(DISCOUNT, kernel=Gaussian(0.3), random_state=0)


@cache
def learned_by_rows() -> ValueFunction:
    """A model of many walks, which tests only read."""
    return BY_ROWS.fit(model(), walks(800, 0))


PLACES = {"place": np.arange(1.0, 6.0)}
BY_ROWS = TransitionColumns(reward="pay", states=("place",), episode="trip", terminal="over")
BY_COLUMNS = TransitionColumns(
    reward="pay", terminal="over", next_prefix="next_", exclude=("t", "trip")
)


@pytest.mark.parametrize("columns", [BY_ROWS, BY_COLUMNS], ids=["rows", "columns"])
def test_values_are_those_of_the_equations_of_bellman(columns: TransitionColumns) -> None:
    by_rows = columns is BY_ROWS
    learned = learned_by_rows() if by_rows else columns.fit(model(), walks(800, 0))
    assert learned.preprocessor_.feature_names_in_ == ["place"]
    assert_allclose(learned.predict(PLACES), exact_values(), atol=0.05)


def test_next_rows_and_next_columns_are_the_same_transitions() -> None:
    table = walks(50, 1)
    learned = TableRows.of_tables(BY_COLUMNS.fit(model(), table))
    by_columns, by_rows = BY_COLUMNS.read(learned, table), BY_ROWS.read(learned, table)
    assert len(by_rows.rewards) == len(table)
    for name in ("states", "rewards", "terminals"):
        assert np.array_equal(getattr(by_rows, name), getattr(by_columns, name))
    goes_on = ~by_rows.terminals
    assert np.array_equal(by_rows.next_states[goes_on], by_columns.next_states[goes_on])


def test_transitions_are_those_of_whole_trajectories() -> None:
    table = walks(40, 2, cut=4)  # some end, some are cut off
    inputs = TableRows.of_tables(BY_ROWS.fit(model(), table))
    parts = []
    for _, trip in table.groupby("trip", sort=False):
        x, ended = inputs.inputs(trip[["place"]]), bool(trip["over"].iloc[-1])
        if ended:
            parts.append((np.vstack([x, x[-1:]]), trip["pay"].to_numpy(), True))
        elif len(x) > 1:  # nothing is known of what followed the last row
            parts.append((x, trip["pay"].to_numpy()[:-1], False))
    expected, got = from_trajectories(parts), BY_ROWS.read(inputs, table)
    for name in ("states", "rewards", "terminals", "begins"):
        assert np.array_equal(getattr(got, name), getattr(expected, name))
    assert np.array_equal(
        got.next_states[~got.terminals], expected.next_states[~expected.terminals]
    )


def test_rows_of_several_episodes_may_be_mixed() -> None:
    table = walks(30, 3)
    learned = TableRows.of_tables(BY_ROWS.fit(model(), table))
    mixed = table.sort_values("t", kind="stable").reset_index(drop=True)
    for one, other in zip(BY_ROWS.read(learned, table), BY_ROWS.read(learned, mixed), strict=True):
        assert one is other or np.array_equal(one, other)


def test_without_episodes_a_new_one_begins_after_each_end() -> None:
    table = walks(30, 4)
    plain = TransitionColumns(reward="pay", states=("place",), terminal="over")
    learned = TableRows.of_tables(plain.fit(model(), table))
    read = plain.read(learned, table)
    assert np.array_equal(read.begins, table["t"] == 0)
    assert np.array_equal(read.terminals, table["over"] == 1)


def test_ends_says_that_the_last_row_of_each_episode_ended_it() -> None:
    table = walks(30, 5)
    ends = TransitionColumns(reward="pay", states=("place",), episode="trip", ends=True)
    learned = TableRows.of_tables(BY_ROWS.fit(model(), table))
    for one, other in zip(BY_ROWS.read(learned, table), ends.read(learned, table), strict=True):
        assert one is other or np.array_equal(one, other)


def test_measures_are_near_those_of_the_exact_values() -> None:
    learned, test = learned_by_rows(), walks(800, 9)
    measures = BY_ROWS.measure(learned, test)
    values = np.append(0.0, exact_values())[test["place"]]
    ahead = np.append(0.0, [*exact_values(), 0.0])[test["next_place"]]
    errors = test["pay"] + DISCOUNT * ahead - values
    assert measures["transitions"] == len(test)
    assert abs(measures["mean_td_error"]) < 0.02
    assert_allclose(measures["rms_td_error"], np.sqrt(np.mean(errors**2)), rtol=0.1)
    returns = DISCOUNT ** (test.groupby("trip")["t"].transform("max") - test["t"])
    returns = returns * test.groupby("trip")["pay"].transform("last")
    r2 = 1 - np.mean((returns - values) ** 2) / np.var(returns)
    assert_allclose(measures["return_r2"], r2, atol=0.03)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"reward": "pya"}, "no column 'pya'.*Did you mean 'pay'"),
        ({"states": ("pay",)}, "'pay' was named for two things"),
        ({"next_prefix": "next_", "ends": True}, "`ends` has no meaning"),
        ({"next_prefix": "then_"}, "No column of the state is left"),
        ({"terminal": "t"}, "by truth values or 0 and 1"),
        ({"reward": "trip"}, "'trip' holds text"),
        ({"episode": "trip", "terminal": None, "exclude": ("t", "place")}, None),
    ],
)
def test_what_does_not_fit_is_refused(given: dict, match: str | None) -> None:
    table = walks(20, 6)
    if match is None:  # columns that are left are states: here the next place
        columns = TransitionColumns(**{"reward": "pay", **given})
        assert columns._state_names(table) == ["next_place", "over"]
        return
    with pytest.raises(ValueError, match=match):
        TransitionColumns(**{"reward": "pay", **given}).fit(model(), table)


def test_rewards_that_are_missing_are_refused_unless_nothing_follows() -> None:
    table = walks(20, 7, cut=3)
    cut_off = (table["t"] == 2) & (table["over"] == 0)
    table.loc[cut_off, "pay"] = np.nan
    learned = TableRows.of_tables(BY_ROWS.fit(model(), table))
    table.loc[0, "pay"] = np.nan
    with pytest.raises(ValueError, match="no finite value in 1 of"):
        BY_ROWS.read(learned, table)


def test_a_model_of_values_learns_no_rows() -> None:
    learned = TableRows.of_tables(BY_ROWS.fit(model(), walks(20, 8)))
    with pytest.raises(ValueError, match="learns transitions"):
        learned.partial_fit(walks(20, 8).drop(columns=["trip", "t", "next_place", "over"]))


def test_the_command_learns_measures_and_predicts(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    walks(120, 0).to_csv("walks.csv", index=False)
    walks(80, 1).to_csv("test.csv", index=False)
    words = ["value", "walks.csv", "--reward", "pay", "--discount", "0.9", "--out", "m.mercer"]
    words += ["--state", "place", "--episode", "trip", "--length-scale", "0.3"]
    assert run(*words, "--terminal", "over", "--test", "test.csv", "--json") == 0
    measures = json.loads(capsys.readouterr().out)
    columns = TransitionColumns(reward="pay", states=("place",), episode="trip", terminal="over")
    learned = columns.fit(model(), "walks.csv")
    assert measures == columns.measure(learned, "test.csv")
    assert run("predict", "m.mercer", "test.csv", "--out", "p.csv", "--keep", "place") == 0
    values = pd.read_csv("p.csv")
    assert_allclose(values["value"], learned.predict({"place": values["place"].to_numpy()}))
    assert isinstance(load_model("m.mercer"), ValueFunction)
    assert run("inspect", "m.mercer") == 0
    assert "estimator ValueFunction" in capsys.readouterr().out
    assert run("evaluate", "m.mercer", "test.csv") == 2
    assert "mercer value" in capsys.readouterr().err
    assert run(*words) == 0
    assert "see --terminal and --ends" in capsys.readouterr().err
    assert run(*words, "--next", "next_", "--ends") == 2
    assert "`--next`" in capsys.readouterr().err
