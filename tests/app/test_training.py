"""Training on files: the same model however the run is cut, stopped or killed."""

import os
import shutil
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pyarrow_csv
from sklearn.metrics import log_loss

from mercer import KernelClassifier, expansions, load_model
from mercer.default import DefaultLearner
from mercer.expansions import KOMP, Auto, Budget, Dictionary, RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.training import FileTraining, _row_stream, checkpoint_path, tables
from quick import FEW_POINTS, QUICKEST

pytestmark = pytest.mark.usefixtures("quickest_race", "few_steps")

SMALL = KOMP(max_size=40)


@cache
def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    town = rng.choice(["Bern", "Bonn", "Ulm"], n)
    y = np.where(np.sin(3 * x[:, 0]) + x[:, 1] * (town == "Ulm") > 0, "up", "down")
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "town": town, "y": y})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    file = tmp_path_factory.mktemp("written") / "data.parquet"
    pq.write_table(rows(20_000), file)
    return file


@pytest.fixture
def data(written, tmp_path):
    return shutil.copy(written, tmp_path / "data.parquet")


def training(data, **settings):
    options = {"expansion": SMALL, **settings.pop("options", {})}
    return FileTraining(data, "y", options=options, **settings)


def stop_at(n_rows):
    return lambda progress: progress.n_rows >= n_rows


def test_training_is_the_same_in_memory_and_from_files(tmp_path):
    table = rows(2000)
    pq.write_table(table, tmp_path / "data.parquet")
    run = training(tmp_path / "data.parquet", shuffle_buffer=0).start()
    expected = training(tmp_path / "data.parquet").start().rows_
    run.run(tmp_path / "m")
    expected.partial_fit(table).finish(lambda: [expected.rows(table)])
    np.testing.assert_array_equal(
        run.model_.decision_function(table), expected.model.decision_function(table)
    )


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(data, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert training(data, seed=seed).start().run(tmp_path / name)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_formats_give_the_same_model(tmp_path):
    from pyarrow import csv, feather

    table, data = rows(9000), tmp_path / "data.parquet"
    pq.write_table(table, data)
    csv.write_csv(table, tmp_path / "data.csv")
    feather.write_feather(table, tmp_path / "data.arrow", compression="uncompressed")
    (tmp_path / "parts").mkdir()
    pq.write_table(table.slice(0, 7001), tmp_path / "parts" / "1.parquet")
    pq.write_table(table.slice(7001), tmp_path / "parts" / "2.parquet")
    training(data).start().run(tmp_path / "m")
    for source in ("data.csv", "data.arrow", "parts"):
        training(tmp_path / source).start().run(tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == (tmp_path / "m").read_bytes(), source


def test_what_was_not_started_is_not_run(tmp_path):
    pq.write_table(rows(40), tmp_path / "d.parquet")
    with pytest.raises(RuntimeError, match="Call `start` first"):
        training(tmp_path / "d.parquet").run(tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("n_rows", [1, 31, 32, 33, 8191, 8192, 8193, 8225])
def test_every_row_is_learned_once_per_pass(n_rows, tmp_path):
    table = rows(n_rows) if n_rows > 1 else rows(40).slice(0, 1)
    if n_rows == 1:  # one row has no varying column, so it cannot be trained on
        pq.write_table(table, tmp_path / "d.parquet")
        with pytest.raises(ValueError, match="No column varies"):
            training(tmp_path / "d.parquet").start()
        return
    pq.write_table(table, tmp_path / "d.parquet")
    run = training(tmp_path / "d.parquet", n_passes=3).start()
    run.run(tmp_path / "m")
    assert run.n_rows_ == run.rows_.estimator.n_samples_seen_ == 3 * n_rows


def test_progress_counts_rows_and_averages_the_loss(data, tmp_path):
    seen = []
    run = training(data).start()
    run.run(tmp_path / "m", callback=seen.append)
    assert [p.n_rows for p in seen] == [8192, 16384, 20_000]
    assert {p.n_total for p in seen} == {20_000}
    history = run.model_.history_
    total = history.loss @ np.diff(history.n_samples, prepend=0)
    chunks = np.diff([0, *(p.n_rows for p in seen)])
    assert np.dot([p.loss for p in seen], chunks) == pytest.approx(total)
    assert seen[-1].model_order == run.model_.model_order_
    assert all(p.rows_per_second > 0 for p in seen)


def test_the_length_of_csv_files_is_known_after_the_first_pass(tmp_path):
    from pyarrow import csv

    csv.write_csv(rows(9000), tmp_path / "d.csv")
    seen = []
    training(tmp_path / "d.csv", n_passes=2).start().run(tmp_path / "m", callback=seen.append)
    assert seen[0].n_total is None
    assert seen[-1].n_total == seen[-1].n_rows == 18_000


# -- checkpoints ------------------------------------------------------------------------------

CONFIGURATIONS = {
    "defaults": {},
    "two passes": {"n_passes": 2},
    "odd batches": {"options": {"batch_size": 37}, "n_passes": 2},
    "constant step": {"options": {"step_size": 2.0, "batch_size": 100}},
    "budget": {"options": {"expansion": Budget(30), "kernel": Gaussian(1.0)}},
    "balanced": {"options": {"class_weight": "balanced"}},
    "in order": {"shuffle_buffer": 0},
    "small buffer": {"shuffle_buffer": 375},
    "hinge, last iterate": {"loss": "hinge", "options": {"average": None}},
    "random features": {"options": {"expansion": RandomFeatures(20)}, "n_passes": 2},
    "random features, large batches": {
        "options": {"expansion": RandomFeatures(16), "batch_size": 375}
    },
    "faithful random features": {"options": {"expansion": RandomFeatures(16, mode="faithful")}},
    "cyclic random features": {
        "options": {"expansion": RandomFeatures(16, mode="cyclic", max_blocks=3)}
    },
    "dictionary": {"options": {"expansion": Dictionary(20)}},
    "novelty": {"task": "novelty"},
    "novelty, random features": {
        "task": "novelty",
        "options": {"expansion": RandomFeatures(16, mode="faithful")},
    },
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_stopped_training_resumes_to_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_row_stream, "_CHUNK", 1024)
    monkeypatch.setattr(expansions, "_FIRST_ROWS", 1000)  # a dictionary has points when it stops
    data = tmp_path / "data.parquet"
    pq.write_table(rows(1500), data)
    settings = CONFIGURATIONS[name]
    training(data, **settings).start().run(tmp_path / "whole")
    out = tmp_path / "m"
    assert (
        not training(data, **settings).start().run(out, checkpoint_every=250, callback=stop_at(875))
    )
    assert not out.exists()
    again = training(data, **settings).resume(checkpoint_path(out))
    # Chunks of random features are all of full length: their cuts show in the last digits.
    within = 1625 if "large" in name else 1250 if "random" in name else 1125
    assert again.n_rows_ < within
    assert again.run(out)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not checkpoint_path(out).exists()


def test_a_gaussian_process_resumes_to_the_same_bytes(data, tmp_path):
    def process():
        options = {"n_features": 50, "kernel": Gaussian(1.0)}
        return FileTraining(data, "a", task="gp", exclude=["y"], options=options)

    seen, out = [], tmp_path / "m"
    assert process().start().run(tmp_path / "whole", callback=seen.append)
    assert {p.loss for p in seen} == {None}
    assert seen[-1].model_order == 50
    assert not process().start().run(out, checkpoint_every=1000, callback=stop_at(9000))
    assert process().resume(checkpoint_path(out)).run(out)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_training_can_stop_and_resume_after_every_chunk(data, tmp_path):
    settings = {"n_passes": 2, "shuffle_buffer": 5000}
    training(data, **settings).start().run(tmp_path / "whole")
    run, out, stops = training(data, **settings).start(), tmp_path / "m", 0
    while not run.run(out, checkpoint_every=5000, callback=lambda _: True):
        stops += 1
        run = training(data, **settings).resume(checkpoint_path(out))
    assert stops > 5
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_regression_resumes_to_the_same_bytes_on_csv(tmp_path):
    from pyarrow import csv

    table = rows(20_000)
    table = table.set_column(4, "y", pa.array(1000.0 + table.column("a").to_numpy() ** 2))
    csv.write_csv(table, tmp_path / "d.csv")
    training(tmp_path / "d.csv", n_passes=2).start().run(tmp_path / "whole")
    run, out = training(tmp_path / "d.csv", n_passes=2).start(), tmp_path / "m"
    for rows_learned in (9000, 18_000, 30_000):
        assert not run.run(out, checkpoint_every=3000, callback=stop_at(rows_learned))
        run = training(tmp_path / "d.csv", n_passes=2).resume(checkpoint_path(out))
    assert run.run(out)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_sums_of_a_dictionary_are_cut_alike_however_often_they_are_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(_row_stream, "_CHUNK", 512)
    table = rows(1500)
    table = table.set_column(4, "y", pa.array(table.column("a").to_numpy() ** 2))
    pq.write_table(table, tmp_path / "d.parquet")

    def on_a_dictionary():
        return training(
            tmp_path / "d.parquet", options={"expansion": Dictionary(40, first_rows=200)}
        )

    on_a_dictionary().start().run(tmp_path / "whole")
    out = tmp_path / "m"
    assert not on_a_dictionary().start().run(out, checkpoint_every=125, callback=stop_at(600))
    assert on_a_dictionary().resume(checkpoint_path(out)).run(out)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_without_checkpoints_stopping_leaves_no_file(data, tmp_path):
    assert not training(data).start().run(tmp_path / "m", callback=lambda _: True)
    assert os.listdir(tmp_path) == ["data.parquet"]


def test_a_checkpoint_is_a_model_already(data, tmp_path):
    out = tmp_path / "m"
    training(data).start().run(out, checkpoint_every=1, callback=lambda _: True)
    assert load_model(checkpoint_path(out)).predict(rows(5)).shape == (5,)


OTHER_SETTINGS = {
    "seed (then 0, now 1)": {"seed": 1},
    "passes (then 1, now 2)": {"n_passes": 2},
    "loss (then the default, now Hinge())": {"loss": "hinge"},
    "kernel (then the default, now Gaussian(length_scale=2.0))": {
        "options": {"kernel": Gaussian(2.0)}
    },
    "expansion (then KOMP(max_size=40, power=1.5), now KOMP(max_size=41, power=1.5))": {
        "options": {"expansion": KOMP(max_size=41)}
    },
    "exclude (then none, now c)": {"exclude": ["c"]},
    "scaling (then auto, now none)": {"scaling": "none"},
    "shuffle buffer (then 65536, now 10)": {"shuffle_buffer": 10},
}


@pytest.fixture(scope="module")
def stopped(written, tmp_path_factory):
    out = tmp_path_factory.mktemp("stopped") / "m"
    training(written).start().run(out, checkpoint_every=1, callback=lambda _: True)
    return checkpoint_path(out)


@pytest.fixture
def checkpoint(stopped, tmp_path):
    return shutil.copy(stopped, tmp_path / stopped.name)


@pytest.mark.parametrize("difference", OTHER_SETTINGS)
def test_resuming_with_other_settings_says_what_differs(difference, data, checkpoint):
    with pytest.raises(ValueError, match="other settings") as error:
        training(data, **OTHER_SETTINGS[difference]).resume(checkpoint)
    assert difference in str(error.value)


def test_resuming_with_another_target_says_so(data, checkpoint):
    with pytest.raises(ValueError, match=r"target \(then y, now town\)"):
        FileTraining(data, "town", options={"expansion": SMALL}).resume(checkpoint)


def test_resuming_on_other_data_says_what_differs(data, checkpoint):
    pq.write_table(rows(19_000), data)
    with pytest.raises(ValueError, match=r"other data: sizes in bytes \(then"):
        training(data).resume(checkpoint)
    other = data.with_name("other.parquet")
    pq.write_table(rows(20_000).rename_columns(["a", "b", "z", "town", "y"]), other)
    with pytest.raises(ValueError, match=r"files \(then data\.parquet, now other\.parquet\)"):
        training(other).resume(checkpoint)


def test_damaged_or_missing_checkpoints_are_refused(data, checkpoint, tmp_path):
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"altered\. Delete it and start afresh, without `resume`"):
        training(data).resume(checkpoint)
    training(data).start().run(tmp_path / "done")
    with pytest.raises(ValueError, match="finished KernelClassifier"):
        training(data).resume(tmp_path / "done")
    with pytest.raises(FileNotFoundError):
        training(data).resume(tmp_path / "nothing")


# -- sizes that follow from the number of rows --------------------------------------------------


def test_random_features_are_sized_by_the_rows_of_the_file(data, tmp_path):
    def made(file, **options):
        expansion = RandomFeatures("auto", **options)
        return FileTraining(file, "y", options={"expansion": expansion}).start()

    run = made(data)
    # 2 ** floor(log2(20,000 / 50)) features for twice as many rows; 100 steps take three passes.
    assert run.rows_.estimator.expansion.block_size == 256
    assert (run.n_passes_, run.n_total_) == (3, 60_000)
    assert made(data, min_steps=0).n_passes_ == 1
    pq.write_table(rows(2000), tmp_path / "few.parquet")
    pyarrow_csv.write_csv(rows(2000), tmp_path / "few.csv")
    for name in ("few.parquet", "few.csv"):
        run = made(tmp_path / name)
        assert run.n_passes_ == 13
        run.run(tmp_path / f"{name}.mercer")
        assert run.n_rows_ == run.rows_.estimator.n_samples_seen_ == 26_000
    assert (tmp_path / "few.csv.mercer").read_bytes() == (
        tmp_path / "few.parquet.mercer"
    ).read_bytes()


def test_random_features_learn_from_files_what_they_learn_in_memory(tmp_path):
    pq.write_table(rows(4000), tmp_path / "d.parquet")
    run = FileTraining(
        tmp_path / "d.parquet", "y", options={"expansion": RandomFeatures("auto")}
    ).start()
    run.run(tmp_path / "m")
    test = rows(2000, seed=1)
    model, table = run.rows_, rows(4000)
    inside = KernelClassifier(expansion=RandomFeatures("auto"), random_state=0)
    inside.fit(model.inputs(table), model.targets(table))
    # In memory 500 rows are held out to choose the ridge on.
    assert (run.n_passes_, inside.n_samples_seen_) == (7, 8 * 3500)
    y = model.targets(test)
    shares = [np.mean(m.predict(model.inputs(test)) != y) for m in (model.estimator, inside)]
    # One learns without the rows held out, so only the errors are comparable:
    # binomial noise of 2,000 rows at 5 % is 0.5 %, and the difference of two has 0.7 %.
    assert shares[0] < shares[1] + 0.02


# -- the default expansion ---------------------------------------------------------------------


@pytest.fixture
def early(monkeypatch, tmp_path):
    """A file whose rows are decided upon, cut and summed early, so that few of them will do."""
    few = FEW_POINTS._replace(first_rows=2500, race=QUICKEST.race)
    monkeypatch.setattr(DefaultLearner, "settings", few)
    monkeypatch.setattr(_row_stream, "_CHUNK", 1024)
    file = tmp_path / "early.parquet"
    pq.write_table(rows(6000), file)
    return file


# Every machinery of the default: the race, and sums on a kernel that was given.
GIVEN = {"kernel": Gaussian(1.0), "expansion": Auto(block_length=1)}
AUTOMATIC = {"raced": {}, "given kernel": GIVEN}


@pytest.mark.parametrize("name", AUTOMATIC)
def test_a_sum_of_parts_stopped_after_every_chunk_ends_with_the_same_bytes(name, early, tmp_path):
    def made():
        return FileTraining(early, "y", options=AUTOMATIC[name])

    seen, out = [], tmp_path / "m"
    assert made().start().run(tmp_path / "whole", callback=seen.append)
    run, stops = made().start(), 0
    # Before parts are chosen, and after; then never again.
    while not run.run(out, checkpoint_every=500, callback=lambda _, n=stops: n < 4):
        stops += 1
        run = made().resume(checkpoint_path(out))
    assert stops == 4
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    # How often somebody looked made no difference, and looking solved once.
    assert [p.model_order > 0 for p in seen] == [False] * 2 + [True] * 4
    assert len(run.model_.history_.n_samples) == 2


def test_another_seed_gives_another_race_and_another_model(early, tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        options = {"kernel": Gaussian(1.0)}
        FileTraining(early, "y", options=options, seed=seed).start().run(tmp_path / name)
        assert load_model(tmp_path / name).expansion.seed == seed
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_steps_on_the_loss_follow_on_the_rows_of_the_file(early, tmp_path, monkeypatch):
    from pyarrow import csv

    def parabola(n, seed):  # classes without noise, which least squares is too cautious for
        x = np.random.default_rng(seed).standard_normal((n, 3))
        y = np.where(x[:, 0] + x[:, 1] ** 2 > 1, "out", "in")
        return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y})

    pq.write_table(parabola(6000, 0), early)
    csv.write_csv(parabola(6000, 0), tmp_path / "early.csv")
    test = parabola(3000, 1)
    losses, orders = {}, {}

    def learned(data, name, **more):
        FileTraining(data, "y", options={**GIVEN, **more}).start().run(tmp_path / name)
        model = load_model(tmp_path / name)
        losses[name] = log_loss(test.column("y").to_pylist(), model.predict_proba(test))
        orders[name] = model.model_order_
        return (tmp_path / name).read_bytes()

    files = set(os.listdir(tmp_path))
    stepped = learned(early, "stepped")
    assert set(os.listdir(tmp_path)) == files | {"stepped"}, "rows that were laid down are gone"
    assert learned(tmp_path / "early.csv", "csv") == stepped
    # What cannot be repeated or laid down is not visited again.
    learned(early, "balanced", class_weight="balanced")
    monkeypatch.setattr(tables, "_MOST_BYTES", 1)
    assert learned(early, "sums") != stepped  # known from the beginning
    with pytest.warns(UserWarning, match="left out: 6,000 rows of 24 bytes are more than"):
        learned(tmp_path / "early.csv", "too long")
    monkeypatch.setattr(tables, "_MOST_BYTES", 2**33)
    monkeypatch.setattr(tables.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.warns(UserWarning, match="left out: .* has no .* GiB of room"):
        assert learned(early, "full disk") != stepped
    assert (
        losses["stepped"] < 0.04 < min(losses[name] for name in ("balanced", "sums", "full disk"))
    )
    assert len(set(orders.values())) == 1


def test_cells_are_laid_out_for_the_rows_of_the_file(data):
    run = FileTraining(data, "y").start()
    assert run.rows_.estimator.expansion == Auto(expected_rows=20_000)
    given = FileTraining(data, "y", options={"expansion": Auto(max_memory=2**28)}).start()
    assert given.rows_.estimator.expansion == Auto(max_memory=2**28, expected_rows=20_000)


def test_a_finished_file_predicts_by_all_rows(early, tmp_path):
    FileTraining(early, "y", options=GIVEN).start().run(tmp_path / "m")
    learner = load_model(tmp_path / "m").learner_
    assert learner.solved_at == learner.n_rows == 6000
    # Fewer rows than are decided upon are all kept, and learned as fit on arrays learns them.
    table = rows(2400)
    pq.write_table(table, early)
    run = FileTraining(early, "y", options=GIVEN, shuffle_buffer=0).start()
    run.run(tmp_path / "few")
    X, y = run.rows_.rows(table)
    inside = KernelClassifier(**GIVEN, shuffle=False).fit(X, y)
    # The same sums over the same rows, cut at other places: rounding only.
    np.testing.assert_allclose(
        run.model_.decision_function(table), inside.decision_function(X), rtol=1e-6, atol=1e-8
    )


UNFIT = {
    "a second pass would count every row twice": {"n_passes": 2},
    "`regularization` is of learning by steps": {"options": {"regularization": 1e-3}},
    "`batch_size` is of learning by steps": {"options": {"batch_size": 16}},
    "got novelty detection": {"task": "novelty", "options": {"expansion": Auto()}},
    "step_size=0.5": {
        "options": {"expansion": Auto(), "step_size": 0.5},
    },
}


@pytest.mark.parametrize("message", UNFIT)
def test_what_sums_cannot_do_is_refused_before_learning(message, data):
    with pytest.raises(ValueError, match=message):
        FileTraining(data, "y", **UNFIT[message]).start()


def test_other_expansions_keep_their_passes_and_steps(data):
    options = {"step_size": 0.5, "batch_size": 16}
    assert FileTraining(data, "y", n_passes=2, options=options).start().n_passes_ == 2


# -- what is refused --------------------------------------------------------------------------


def test_mistakes_are_found_before_learning(data, tmp_path):
    with pytest.raises(ValueError, match="regression loss, but a classification"):
        training(data, task="classification", loss="huber")
    with pytest.raises(ValueError, match="holds text"):
        training(data, loss="huber").start()
    with pytest.raises(ValueError, match=r"no column 'z'"):
        training(data, exclude=["z"]).start()
    with pytest.raises(ValueError, match="`class_weight` cannot be chosen for a regression"):
        FileTraining(data, "a", options={"class_weight": "balanced"}).start()
    with pytest.raises(ValueError, match="`kernel` must be"):
        training(data, options={"kernel": "gausian"}).start()
    with pytest.raises(ValueError, match="parameters of the training"):
        training(data, options={"n_passes": 2})
    with pytest.raises(ValueError, match="n_passes"):
        training(data, n_passes=0)
    with pytest.raises(ValueError, match="independent observations"):
        FileTraining(data, "a", task="gp", n_passes=2)
    with pytest.raises(ValueError, match="`loss` cannot be chosen for novelty detection"):
        FileTraining(data, task="novelty", loss="hinge")
    with pytest.raises(ValueError, match="`nu` cannot be chosen for a classification"):
        FileTraining(data, "y", options={"nu": 0.1}).start()
    with pytest.raises(ValueError, match="only novelty detection"):
        FileTraining(data)
    with pytest.raises(FileNotFoundError):
        training(tmp_path / "nothing.parquet").start()


def test_identifiers_are_no_classes(tmp_path):
    table = rows(2000).set_column(4, "y", pa.array([f"id{i}" for i in range(2000)]))
    pq.write_table(table, tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="2,000 different values"):
        training(tmp_path / "d.parquet").start()


def test_files_without_rows_or_targets_are_refused(tmp_path):
    pq.write_table(rows(10).slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="holds no rows"):
        training(tmp_path / "empty.parquet").start()
    table = rows(10).set_column(4, "y", pa.nulls(10, pa.float64()))
    pq.write_table(table, tmp_path / "nulls.parquet")
    with pytest.raises(ValueError, match="no value in 10 of the first 10 rows"):
        training(tmp_path / "nulls.parquet").start()


def test_files_that_change_during_the_run_are_noticed(data, tmp_path):
    def overwrite(progress):
        if progress.n_rows >= 20_000:
            pq.write_table(rows(15_000), data)

    with pytest.raises(ValueError, match="changed while it was read"):
        training(data, n_passes=3, shuffle_buffer=0).start().run(tmp_path / "m", callback=overwrite)


def test_the_task_is_that_of_the_loss_or_else_guessed(data):
    assert training(data).start().task == "classification"
    assert FileTraining(data, "a").start().task == "regression"
    assert FileTraining(data, "a", loss="huber").task == "regression"


def test_row_numbers_of_data_frames_are_no_inputs(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": np.repeat([0, 1], 150)})
    frame.sample(frac=1.0, random_state=0).to_parquet(tmp_path / "rows.parquet")
    training = FileTraining(tmp_path / "rows.parquet", "y").start()
    training.run(tmp_path / "m.mercer")
    assert "__index_level_0__" in training.rows_.preprocessor.exclude
    assert training.rows_.estimator.n_features_in_ == 1
    # Sorted labels could be read off the row numbers; off the noise they cannot.
    predicted = training.model_.predict(pd.DataFrame({"x": rng.normal(size=300)}))
    assert np.ptp(np.bincount(np.asarray(predicted), minlength=2)) < 300
