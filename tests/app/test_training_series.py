"""Files whose rows are a series: blocks of them stay together where they are shuffled."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import run
from mercer import load_model
from mercer.default import DefaultLearner
from mercer.expansions import Auto
from mercer.kernels import Gaussian
from mercer_app.training import FileTraining, _row_stream
from mercer_app.training._row_stream import _shuffled_blocks
from quick import FEW_POINTS, QUICK
from test_dependence import series

pytestmark = pytest.mark.usefixtures("few_points")


@pytest.fixture(scope="module")
def few_points():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", FEW_POINTS)
        yield


def write(path, n=3030, *, classes=False, shuffled=False, later=0):
    """Write the first ``n`` rows of a series, which goes on for some ``later`` ones."""
    X, y = (rows[:n] for rows in series(n + later, seed=3))
    if shuffled:
        order = np.random.default_rng(0).permutation(n)
        X, y = X[order], y[order]
    target = np.where(y > 0.0, "up", "down") if classes else y
    columns = {f"x{i}": X[:, i] for i in range(4)}
    pq.write_table(pa.table({**columns, "y": target}), path, row_group_size=700)
    return path


def fitted(path, out, options=(), **settings):
    options = {"kernel": Gaussian(1.0), **dict(options)}
    training = FileTraining(path, "y", options=options, **settings).start()
    assert training.run(out)
    return load_model(out)


@pytest.mark.parametrize("classes", [False, True])
def test_a_series_in_a_file_is_found_before_its_rows_are_shuffled(classes, tmp_path):
    early = write(tmp_path / "d.parquet", classes=classes)
    mixed = write(tmp_path / "e.parquet", classes=classes, shuffled=True)
    assert fitted(early, tmp_path / "m").block_length_ == 50
    assert fitted(early, tmp_path / "m", shuffle_buffer=0).block_length_ == 50
    assert (
        fitted(early, tmp_path / "m", options={"expansion": Auto(block_length=1)}).block_length_
        == 1
    )
    assert fitted(mixed, tmp_path / "m").block_length_ == 1


def test_a_series_is_learned_as_well_from_a_file_as_by_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", QUICK)
    X, _ = series(6060, seed=3)
    out = tmp_path / "m"
    fitted(write(tmp_path / "d.parquet", later=3030), out, options={"kernel": "auto"})
    late = pa.table({f"x{i}": X[3030:, i] for i in range(4)})
    useful = np.sin(3.0 * X[3030:, 0])
    error = np.mean((load_model(out).predict(late) - useful) ** 2)
    options = {"kernel": "auto", "expansion": Auto(block_length=1)}
    fitted(tmp_path / "d.parquet", out, options=options)
    alone = np.mean((load_model(out).predict(late) - useful) ** 2)
    assert error < 0.8 * alone


def test_a_stopped_run_goes_on_in_the_same_order(tmp_path, monkeypatch):
    monkeypatch.setattr(_row_stream, "_CHUNK", 1024)
    data = write(tmp_path / "d.parquet")
    whole = FileTraining(data, "y").start()
    whole.run(tmp_path / "whole")
    stopped = FileTraining(data, "y").start()
    assert not stopped.run(tmp_path / "m", checkpoint_every=1, callback=lambda progress: True)
    again = FileTraining(data, "y").resume(tmp_path / "m.checkpoint")
    assert again.run(tmp_path / "m")
    assert again.rows_.estimator.block_length_ == 50
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("cuts", [[7, 3, 90, 23], [123], [1] * 123])
@pytest.mark.parametrize("length", [2, 10, 50])
def test_blocks_stay_whole_however_the_file_is_cut(cuts, length):
    ends = np.cumsum(cuts)
    pieces = [
        (np.arange(end - n, end, dtype=float)[:, None], np.arange(end - n, end), None)
        for n, end in zip(cuts, ends, strict=True)
    ]
    found = list(_shuffled_blocks(pieces, length, 60, np.random.SeedSequence(0)))
    length = min(length, 12)
    X, y = (np.concatenate([some[i] for some in found]) for i in (0, 1))
    np.testing.assert_array_equal(X[:, 0], y)
    np.testing.assert_array_equal(np.sort(y), np.arange(123))
    whole = 123 // length * length
    blocks = y[:whole].reshape(-1, length)
    np.testing.assert_array_equal(blocks - blocks[:, :1], np.arange(length) + 0 * blocks)
    assert (np.diff(blocks[:, 0]) != length).any()


def test_the_command_says_that_rows_were_judged_together(
    undrawn, rough_importances, tmp_path, capsys
):
    data = write(tmp_path / "d.parquet", 600)
    fit = ["fit", data, "--target", "y", "--out", tmp_path / "m", "--quiet"]
    assert run(*fit) == 0
    capsys.readouterr()
    assert run("inspect", tmp_path / "m", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows_judged_together"] == 30
    report = ["evaluate", tmp_path / "m", data, "--report", tmp_path / "r.html"]
    assert run(*report) == 0
    assert "Blocks of 30 rows" in (tmp_path / "r.html").read_text()
    assert run(*fit, "--block-length", "1") == 0
    capsys.readouterr()
    assert run("inspect", tmp_path / "m", "--json") == 0
    assert "rows_judged_together" not in json.loads(capsys.readouterr().out)
    assert run(*fit, "--block-length", "0") == 2
    err = capsys.readouterr().err
    assert "`--block-length` must be" in err
    assert "Leave it out to have it found" in " ".join(err.split())
    assert run(*fit, "--block-length", "100000") == 0
    assert run("inspect", tmp_path / "m", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows_judged_together"] == 120


def test_lengths_of_any_integer_type_keep_blocks_together(tmp_path):
    data, kept = write(tmp_path / "d.parquet"), []
    for length in (20, np.int64(20), 10**6):
        options = {"expansion": Auto(block_length=length)}
        fitted(data, tmp_path / "m", options, shuffle_buffer=1000)
        kept.append(load_model(tmp_path / "m").predict(pq.read_table(data)))
    np.testing.assert_array_equal(kept[0], kept[1])
    assert (kept[0] != kept[2]).any()


def test_a_small_buffer_does_not_hide_a_series(tmp_path):
    data = write(tmp_path / "d.parquet")
    assert fitted(data, tmp_path / "m", shuffle_buffer=100).block_length_ == 50
