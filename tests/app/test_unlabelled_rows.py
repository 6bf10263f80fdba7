"""Rows of files without a target: they are left out, said, and change nothing."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer.expansions import KOMP
from mercer_app.files.tables import Labelled, drawn_in_place, in_place
from mercer_app.training import FileTraining, checkpoint_path
from mercer_cluster import ShardTraining

pytestmark = pytest.mark.usefixtures("quickest_race", "few_evaluations")

N = 1050
GAPS = 7  # every seventh row has no target


def table(target):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 2))
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": rng.choice(["x", "y"], N)})
    rows["cost"] = np.round(X[:, 0] - X[:, 1], 3)
    rows["good"] = np.where(X[:, 0] + rng.normal(size=N) > 0, "yes", "no")
    rows[target] = rows[target].where(np.arange(N) % GAPS > 0, None)
    return rows


def save(rows, path):
    rows.to_csv(path, index=False) if path.suffix == ".csv" else rows.to_parquet(path, index=False)
    return path


def files(folder, target, ending):
    """The same table with gaps in the target, and without the rows that have them."""
    rows = table(target)
    known = rows[rows[target].notna()]
    return save(rows, folder / f"gaps{ending}"), save(known, folder / f"clean{ending}")


def training(file, target, **more):
    exclude = ["good" if target == "cost" else "cost"]
    options = {"expansion": KOMP(max_size=40)}
    return FileTraining(file, target, exclude=exclude, options=options, **more)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("target", ["cost", "good"])
def test_the_model_is_that_of_the_other_rows(target, ending, tmp_path):
    gaps, clean = files(tmp_path, target, ending)
    of_clean = training(clean, target, n_passes=2).start()
    assert of_clean.run(tmp_path / "clean.mercer")
    place = "line 2 of gaps.csv" if ending == ".csv" else "row 0 of gaps.parquet"
    with pytest.warns(UserWarning, match=rf"no value in 150 of the first 1,050 rows.*{place}"):
        of_gaps = training(gaps, target, n_passes=2).start()
    assert of_gaps.n_total_ == of_clean.n_total_ or ending == ".csv"
    assert of_gaps.run(tmp_path / "gaps.mercer")
    assert (tmp_path / "gaps.mercer").read_bytes() == (tmp_path / "clean.mercer").read_bytes()
    assert (of_gaps.n_rows_, of_gaps.n_left_out_) == (2 * (N - 150), 150)
    assert of_clean.n_left_out_ == 0


@pytest.mark.filterwarnings("ignore:The target 'cost' has no value")
def test_a_training_that_was_stopped_goes_on(tmp_path):
    gaps, _ = files(tmp_path, "cost", ".csv")
    settings = {"n_passes": 3, "shuffle_buffer": 200}
    assert training(gaps, "cost", **settings).start().run(tmp_path / "whole.mercer")
    begun = training(gaps, "cost", **settings).start()
    assert not begun.run(
        tmp_path / "m.mercer",
        callback=lambda progress: progress.n_rows > 1000,
        checkpoint_every=300,
    )
    again = training(gaps, "cost", **settings).resume(checkpoint_path(tmp_path / "m.mercer"))
    assert again.run(tmp_path / "m.mercer")
    assert (tmp_path / "m.mercer").read_bytes() == (tmp_path / "whole.mercer").read_bytes()


@pytest.mark.filterwarnings("ignore:The target 'good' has no value")
def test_shards_leave_the_same_rows_out(tmp_path):
    files(tmp_path, "good", ".parquet")
    models = []
    for name in ("gaps", "clean"):
        file, out = tmp_path / f"{name}.parquet", tmp_path / f"{name}.mercer"
        made = ShardTraining(file, "good", exclude=["cost"], engine="here").start()
        made.run(out)
        models.append(made.model_.predict(pq.read_table(tmp_path / "clean.parquet")))
    assert np.mean(models[0] == models[1]) > 0.99  # rows are cut into blocks elsewhere


@pytest.mark.parametrize("how", [[], ["--engine", "here"]])
def test_the_command_says_what_it_leaves_out(how, mercer, tmp_path, undrawn):
    gaps, clean = files(tmp_path, "good", ".csv")
    out = tmp_path / "m.mercer"
    words = ["--target", "good", "--exclude", "cost", "--expansion", "komp", "--out", out]
    code, _, err = mercer("fit", gaps, *words, "--report", tmp_path / "r.html")
    assert code == 0
    assert "150 rows have no target, and did not count." in (tmp_path / "r.html").read_text()
    assert "no value in 150 of the first 1,050 rows" in err
    assert "after 900 rows (150 without a target left out)" in err
    code, measures, err = mercer("evaluate", out, gaps, *how)
    assert code == 0
    assert "gaps.csv has 150 rows without a value of 'good'" in err
    code, same, err = mercer("evaluate", out, clean, *how)
    assert (code, same) == (0, measures)
    assert "without a value" not in err


def test_places_are_those_of_the_file(tmp_path):
    file = tmp_path / "x.parquet"
    y = [None, 1.0, None, np.nan, 2.0, 3.0]
    tables = pa.table({"x": range(6), "y": pa.array(y, from_pandas=False)})
    pq.write_table(tables, file)
    pieces = [tables.slice(0, 1), tables.slice(1, 3), tables.slice(4, 2)]

    def refuse(table):
        if table.column("x").to_pylist()[-1] == 5:
            raise ValueError("there is an error in row 1 of this table")
        return table.column("x").to_pylist()

    labelled = Labelled("y")
    found = in_place(file, iter(pieces[:2]), refuse, labelled=labelled)
    assert (list(found), labelled.n_left_out) == ([[1]], 3)
    with pytest.raises(ValueError, match=r"2 rows from row 4 on: .* row 5 of x\.parquet"):
        list(in_place(file, iter(pieces), refuse, labelled=Labelled("y")))
    with pytest.raises(ValueError, match=r"row 5 of x\.parquet"):
        list(drawn_in_place(file, iter(pieces), lambda some: list(map(refuse, some)), labelled))
    assert drawn_in_place(file, iter(pieces[:2]), list, labelled)[0].num_rows == 1
    with pytest.raises(ValueError, match="nothing of rows") as caught:
        drawn_in_place(file, iter(pieces), fail, labelled)
    assert caught.value.__cause__ is None


def fail(tables):
    raise ValueError("nothing of rows")
