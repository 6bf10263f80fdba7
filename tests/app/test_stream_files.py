"""Models of the default of streams in reports, on the command line, and where they are refused."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import csv

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.default import DefaultLearner
from mercer.display import RaceDisplay
from mercer.expansions import KOMP, Stream
from mercer.inspection import describe, parts_table, race_table, ways_table, weights_of_kinds
from mercer.streams import Mixture
from mercer_app.cli._fit import make_expansion
from mercer_app.cli._options import ExpansionName
from mercer_app.report import figures_for, race_section, risk_section, stream_section, write_report
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining, checkpoint_path
from mercer_cluster.models import check_learnable

pytestmark = pytest.mark.usefixtures("quickest_race", "quick_correction", "rough_importances")

SMALL = Stream(n_features=24, points=15)
N = 400


def rows(n=N, seed=0):
    """Rows whose classes change sides after half of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    y = X[:, 1] > np.sin(2.0 * X[:, 0])
    return X, y ^ (np.arange(n) >= n // 2)


def table(n=150, seed=1, numbers=False):
    X, y = rows(n, seed)
    target = pa.array(1000.0 + 50.0 * X[:, 0]) if numbers else pa.array(np.where(y, "in", "out"))
    return pa.table({"b": X[:, 1], "note": ["-"] * n, "y": target, "a": X[:, 0]})


@pytest.fixture(scope="module")
def classifier():
    X, y = rows()
    model = KernelClassifier(expansion=SMALL)
    for x, label in zip(X, y, strict=True):
        model.learn_one({"a": x[0], "b": x[1]}, "in" if label else "out")
    return model


@pytest.fixture(scope="module")
def regressor():
    X, _ = rows(200)
    model = KernelRegressor(expansion=SMALL)
    for a, b in X:
        model.learn_one({"a": a, "b": b}, 1000.0 + 50.0 * a)
    return model


@pytest.fixture(scope="module")
def beginner():
    """A model of so few rows that no way has started."""
    model = KernelClassifier()
    for a in (0.0, 1.0, 2.0):
        model.learn_one({"a": a, "b": -a}, "in" if a else "out")
    return model


@pytest.fixture(scope="module")
def files(tmp_path_factory, classifier, regressor, beginner):
    folder = tmp_path_factory.mktemp("files")
    classifier.save(folder / "classes")
    regressor.save(folder / "numbers")
    beginner.save(folder / "few")
    KernelClassifier(expansion=SMALL).partial_fit(*rows(40)).save(folder / "arrays")
    pq.write_table(table(), folder / "classes.parquet")
    pq.write_table(table(numbers=True), folder / "numbers.parquet")
    csv.write_csv(table(), folder / "classes.csv")
    return folder


class TestInspection:
    def test_weights_are_those_of_the_mixture(self, classifier):
        mixture = classifier.learner_.function.mixture
        ways = ways_table(classifier)
        weights = {row["way"]: row["weight"] for row in ways}
        assert len(weights) == len(ways) == len(mixture.blend.weights)
        assert list(weights.values()) == sorted(mixture.blend.weights.tolist(), reverse=True)
        for name, weight in zip(mixture.names, mixture.blend.weights, strict=False):
            assert weights[name] == weight
        by_kind = weights_of_kinds(classifier)
        assert [row["kind"] for row in by_kind] == list(Mixture.kinds)
        assert_allclose([row["weight"] for row in by_kind], mixture.kind_weights)

    @pytest.mark.parametrize(
        ("start", "kind"),
        [
            ("steps of", "steps"),
            ("sums", "sums"),
            ("memory", "memories"),
            ("points, last", "last iterates"),
            ("points, averages", "averages"),
            ("stack", "stacks"),
        ],
    )
    def test_kinds_are_those_of_the_names(self, classifier, start, kind):
        ways = ways_table(classifier)
        assert {row["kind"] for row in ways if row["way"].startswith(start)} == {kind}

    def test_describes_classes(self, classifier):
        said = describe(classifier)
        assert said["estimator"] == "KernelClassifier"
        assert said["features"] == ["a", "b"]
        assert said["classes"] == ["in", "out"]
        assert said["expansion"] == repr(SMALL)
        assert "side by side" in said["answers_by"]
        assert said["n_rows_learned"] == N
        assert said["model_order"] == classifier.model_order_ > 0
        changes = classifier.history_.changes
        assert said["n_changes"] == len(changes) > 0
        assert said["last_changes"][-1] == f"row {changes[-1]:,}"
        assert said["ways"] == ways_table(classifier)[:10]
        assert sum(row["weight"] for row in said["weights"]) == pytest.approx(1.0)
        assert not {"kernel", "step_size", "batch_size", "parts", "race"} & set(said)

    def test_describes_a_model_of_few_rows(self, beginner):
        said = describe(beginner)
        assert said["n_rows_learned"] == 3
        assert said["n_changes"] == said["model_order"] == 0
        assert not {"ways", "weights", "last_changes"} & set(said)

    def test_other_models_have_no_ways(self):
        X, y = rows(60)
        model = KernelClassifier(expansion=KOMP()).fit(X, y)
        assert ways_table(model) == weights_of_kinds(model) == []
        assert ways_table(KernelClassifier()) == []

    def test_a_stream_has_neither_parts_nor_a_race(self, classifier):
        assert parts_table(classifier) == race_table(classifier) == []
        assert race_section(classifier) is None
        assert risk_section(classifier) is None
        with pytest.raises(ValueError, match="no entries"):
            RaceDisplay.from_estimator(classifier)


class TestReport:
    def test_the_section_has_ways_and_changes(self, classifier):
        section = stream_section(classifier)
        changes = classifier.history_.changes
        assert len(section.figures) == 1
        label = section.figures[0][1].get_label()
        assert f"{len(changes)} change" in label
        ways, found = section.tables.values()
        assert [row["way"] for row in ways] == [row["way"] for row in ways_table(classifier)[:10]]
        assert [row["found after row"] for row in found] == [f"{row:,}" for row in changes]
        assert sum(row["rows since the change before"] for row in found) == changes[-1]
        assert sum(section.values.values()) == pytest.approx(1.0)

    def test_says_that_nothing_was_found(self, regressor, beginner):
        assert len(regressor.history_.changes) == 0
        section = stream_section(regressor)
        assert "did not say at any row" in section.text
        assert list(section.tables) == ["Ways that count most at the end"]
        early = stream_section(beginner)
        assert early.tables == early.values == {}
        assert "none of which has started" in early.figures[0][1].get_label()

    def test_other_models_have_no_section(self):
        X, y = rows(60)
        assert stream_section(KernelClassifier(expansion=KOMP()).fit(X, y)) is None
        assert stream_section(KernelClassifier()) is None

    def test_losses_are_those_before_learning(self, classifier, tmp_path):
        captions = [caption for caption, _ in figures_for(classifier)]
        assert captions[0] == "Learning curve: loss on each row before learning it"
        history = classifier.history_
        write_report(tmp_path / "r.html", title="t", summary={}, history=history)
        page = (tmp_path / "r.html").read_text("utf-8")
        assert "The loss is the mean over the rows since the record before, each predicted" in page
        assert "objective" not in page

    @pytest.mark.parametrize("name", ["classes", "numbers", "few"])
    def test_evaluate_writes_the_page(self, name, files, mercer, tmp_path, request):
        if name != "classes":  # whose pictures are drawn
            request.getfixturevalue("undrawn")
        data = files / ("numbers.parquet" if name == "numbers" else "classes.parquet")
        words = ("evaluate", files / name, data, "--target", "y", "--report", tmp_path / "r.html")
        code, _, err = mercer(*words)
        assert code == 0, err
        page = (tmp_path / "r.html").read_text("utf-8")
        assert "<h3>The stream</h3>" in page
        assert "warning" not in err


class TestModelFiles:
    @pytest.mark.parametrize("name", ["classes", "numbers", "few", "arrays"])
    def test_inspect(self, name, files, mercer):
        code, out, err = mercer("inspect", files / name, "--json")
        assert code == 0, err
        answer = json.loads(out)
        model = load_model(files / name)
        assert answer["n_rows_learned"] == model.n_samples_seen_
        assert answer["bytes"] == (files / name).stat().st_size
        assert answer["n_changes"] == len(model.history_.changes)
        lines = mercer("inspect", files / name)[1].splitlines()
        shown = [line for line in lines if line.startswith("ways ")][1:]  # after the headings
        assert len(shown) == len(answer.get("ways", []))

    @pytest.mark.parametrize("ending", ["parquet", "csv"])
    def test_predict_takes_names_of_features_for_columns(
        self, ending, files, classifier, mercer, tmp_path
    ):
        words = ("predict", files / "classes", files / f"classes.{ending}")
        code, _, err = mercer(*words, "--out", tmp_path / "p.parquet")
        assert code == 0, err
        found = pq.read_table(tmp_path / "p.parquet")
        X, _ = rows(150, 1)
        expected = classifier.predict_proba(X)
        assert_array_equal(found.column("prediction").to_pylist(), classifier.predict(X))
        assert_allclose(found.column("probability_out").to_numpy(), expected[:, 1])
        one = classifier.predict_one({"b": X[0, 1], "a": X[0, 0]})
        assert found.column("prediction")[0].as_py() == one

    def test_numbers_are_in_the_units_of_the_target(self, files, regressor, mercer, tmp_path):
        words = ("predict", files / "numbers", files / "numbers.parquet", "--out")
        assert mercer(*words, tmp_path / "p.parquet")[0] == 0
        found = pq.read_table(tmp_path / "p.parquet").column("prediction").to_numpy()
        assert_allclose(found, regressor.predict(rows(150, 1)[0]))
        assert np.sqrt(np.mean((found - 1000.0 - 50.0 * rows(150, 1)[0][:, 0]) ** 2)) < 20.0

    def test_files_of_the_command_stream_are_known(self, files, mercer, tmp_path):
        stream = ("stream", files / "classes.csv", "--target", "y", "--exclude", "note", "--quiet")
        code, _, err = mercer(*stream, "--out", tmp_path / "m")
        assert code == 0, err
        model = load_model(tmp_path / "m")
        answer = json.loads(mercer("inspect", tmp_path / "m", "--json")[1])
        assert answer["features"] == sorted(answer["features"]) == ["a", "b"]
        assert answer["n_rows_learned"] == model.n_samples_seen_ == 150
        words = ("predict", tmp_path / "m", files / "classes.csv", "--out", tmp_path / "p.parquet")
        assert mercer(*words)[0] == 0
        found = pq.read_table(tmp_path / "p.parquet").column("prediction")
        expected = model.predict(rows(150, 1)[0])
        assert_array_equal(found.to_pylist(), expected)

    def test_gaps_say_nothing(self, files, classifier, mercer, tmp_path):
        gaps = pa.table({"a": [0.5, None], "b": pa.array([None, 1.5], pa.float64())})
        pq.write_table(gaps, tmp_path / "d.parquet")
        words = ("predict", files / "classes", tmp_path / "d.parquet", "--out")
        code, _, err = mercer(*words, tmp_path / "p.parquet")
        assert (code, "warning" in err) == (0, False)
        expected = [classifier.predict_proba_one(x)["out"] for x in ({"a": 0.5}, {"b": 1.5})]
        found = pq.read_table(tmp_path / "p.parquet").column("probability_out").to_numpy()
        assert_allclose(found, expected, rtol=1e-9)

    def test_evaluate_needs_the_column_of_the_target(self, files, classifier, mercer):
        words = ("evaluate", files / "classes", files / "classes.parquet")
        code, out, err = mercer(*words, "--target", "y", "--json")
        assert code == 0, err
        X, y = rows(150, 1)
        right = classifier.score(X, np.where(y, "in", "out"))
        assert json.loads(out)["error_percent"] == pytest.approx(100.0 * (1.0 - right))
        code, _, err = mercer(*words)
        assert (code, "Name it with `--target`" in err) == (2, True)
        code, _, err = mercer(*words, "--target", "a")
        assert (code, "is one of the model's inputs" in err) == (2, True)

    def test_what_has_no_names_is_refused(self, files, mercer, tmp_path):
        words = ("predict", files / "arrays", files / "classes.parquet")
        code, _, err = mercer(*words, "--out", tmp_path / "p.csv")
        assert (code, "without named columns" in err) == (2, True)
        for names in (["a", 3], [("a", 1), ("a", 2)]):
            model = KernelRegressor(expansion=SMALL)
            for i in range(3):
                model.learn_one({name: float(i) for name in names}, float(i))
            assert TableRows.of(model) is None
        X, y = rows(60)
        assert TableRows.of(KernelClassifier(expansion=KOMP()).fit(X, y)) is None

    def test_columns_of_any_mean_and_spread_are_kept_as_they_are(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(50, 4)) * [1.0, 1e-6, 1e9, 0.0] + [0.0, 1e6, -3e9, 7.0]
        model = KernelRegressor(expansion=SMALL)
        for x in X:
            model.learn_one(dict(zip("abcd", x.tolist(), strict=True)), x[0])
        made = TableRows.of(model)
        columns = dict(zip("abcd", X.T, strict=True))
        assert_array_equal(made.inputs(columns), X)
        assert_array_equal(made.estimator.predict(made.inputs(columns)), model.predict(X))

    def test_named_columns_of_a_frame_are_known_too(self):
        pandas = pytest.importorskip("pandas")
        X, y = rows(60)
        frame = pandas.DataFrame(X, columns=["a", "b"])
        model = KernelClassifier(expansion=SMALL).partial_fit(frame, y)
        made = TableRows.of(model).model
        assert_array_equal(made.predict({"b": X[:, 1], "a": X[:, 0]}), model.predict(frame))
        assert list(model.feature_names_in_) == ["a", "b"]


class TestFit:
    def test_offers_the_expansion(self, files, mercer, tmp_path, undrawn):
        words = ("fit", files / "classes.parquet", "--target", "y", "--exclude", "note")
        more = ("--expansion", "stream", "--max-size", "30", "--seed", "3")
        report = ("--report", tmp_path / "r.html")
        code, _, err = mercer(*words, *more, *report, "--out", tmp_path / "m")
        assert code == 0, err
        model = load_model(tmp_path / "m")
        assert model.learner_.function.expansion == Stream(points=30, seed=3)
        assert "<h3>The stream</h3>" in (tmp_path / "r.html").read_text("utf-8")
        # The rows were learned in their order.
        by_hand = TableRows(
            KernelClassifier(expansion=Stream(points=30, seed=3)),
            TablePreprocessor(exclude=("y", "note")),
            "y",
        ).partial_fit(table())
        assert_allclose(model.history_.loss, by_hand.model.history_.loss)
        assert mercer("inspect", tmp_path / "m")[0] == 0

    def test_order_is_given_up_only_on_demand(self, files, mercer, tmp_path):
        words = ["fit", files / "classes.parquet", "--target", "y", "--exclude", "note"]
        words += ["--expansion", "stream", "--max-size", "10", "--out"]
        losses = []
        for name, more in (
            ("0", []),
            ("1", ["--shuffle-buffer", "0"]),
            ("2", ["--shuffle-buffer", "500"]),
        ):
            assert mercer(*words, tmp_path / name, *more)[0] == 0
            losses.append(load_model(tmp_path / name).history_.loss)
        assert_array_equal(losses[0], losses[1])
        assert not np.array_equal(losses[0], losses[2])

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--tolerance 0.1", "The expansion 'stream' has no --tolerance"),
            ("--kernel gaussian", "`--kernel` must be 'auto' for Stream()"),
            ("--step-size 0.1", "or use `--expansion komp`"),
            ("--passes 2", "`--passes` is of learning by steps"),
            ("--loss hinge", "Stream() learns the squared, the logistic and the softmax loss"),
            ("--task rank", "`--expansion stream` is for classification and regression"),
            ("--task novelty", "`--expansion stream` is for classification and regression"),
            ("--task gp", "`--expansion` cannot be chosen"),
            ("--engine here", "The expansion Stream cannot be learned in several places"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, words, message, files, mercer, tmp_path):
        fit = ("fit", files / "classes.parquet", "--target", "y", "--exclude", "note")
        more = ("--expansion", "stream", "--out", tmp_path / "m")
        code, _, err = mercer(*fit, *more, *words.split())
        assert code == 2
        assert message in err
        assert not (tmp_path / "m").exists()

    def test_help_names_it(self, mercer):
        code, out, _ = mercer("fit", "--help")
        assert code == 0
        choices = out[out.index("--expansion  ") : out.index("--max-size  ")]
        assert "stream" in choices

    def test_seed_is_that_of_the_features(self):
        assert make_expansion(ExpansionName.stream, {}, 4) == Stream(seed=4)

    def test_a_training_resumes_to_the_same_bytes(self, files, tmp_path):
        def training():
            options = {"expansion": SMALL}
            settings = {"exclude": ["note"], "options": options, "shuffle_buffer": 0}
            return FileTraining(tmp_path / "d.parquet", "y", **settings)

        pq.write_table(pa.concat_tables([table(), table()]), tmp_path / "d.parquet")
        assert training().start().run(tmp_path / "whole")
        run, out = training().start(), tmp_path / "m"
        assert not run.run(out, checkpoint_every=100, callback=lambda _: True)
        assert training().resume(checkpoint_path(out)).run(out)
        assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def amounts(cells):
    return np.array([float(cell.replace("$", "").replace(",", "")) for cell in cells])


def answers(path):
    return [json.loads(line)["prediction"] for line in path.read_text("utf-8").splitlines()]


def same(found, expected):
    """Compare answers: labels, or numbers up to rounding."""
    if isinstance(expected[0], str):
        assert list(found) == list(expected)
    else:
        assert_allclose(found, expected, rtol=1e-9)


def homes(n=60, seed=2):
    """Rows with a category, a date, an amount with a unit, and such a target."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Bonn", "Ulm"], n)
    size, fee = rng.uniform(20.0, 200.0, n).round(1), rng.uniform(100.0, 9000.0, n).round(2)
    price = 1e3 * size * (1.0 + (town == "Bern")) + fee
    return pd.DataFrame(
        {
            "town": town,
            "seen": (np.datetime64("2024-01-01") + rng.integers(0, 400, n)).astype(str),
            "size": size,
            "fee": [f"${one:,.2f}" for one in fee],
            "price": [f"${one:,.2f}" for one in price],
            "dear": np.where(price > 2e5, "yes", "no"),
        }
    )


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Models that `mercer fit` wrote, and the file that they learned."""
    folder = tmp_path_factory.mktemp("fitted")
    data = write(homes(150), folder / "homes.csv")
    for name, target, more in (
        ("price", "price", []),
        ("dear", "dear", []),
        ("komp", "price", ["--expansion", "komp", "--max-size", "30"]),
        ("seen", "seen", ["--exclude", "price", "--resumable"]),
    ):
        other = "price" if target == "dear" else "dear"
        words = ["fit", data, "--target", target, "--exclude", other, "--quiet", *more]
        assert run(*words, "--out", folder / name) == 0
    return folder


class TestStreamsOfTables:
    @pytest.mark.parametrize(("ending", "target"), [("csv", "price"), ("jsonl", "dear")])
    def test_text_dates_and_amounts_are_learned_as_in_python(
        self, ending, target, mercer, tmp_path
    ):
        frame = homes().drop(columns="dear" if target == "price" else "price")
        data = write(frame, tmp_path / f"homes.{ending}")
        words = ("stream", data, "--target", target, "--out", tmp_path / "m", "--expansion")
        words += ("stream", "--max-size", "10", "--predictions", tmp_path / "p.jsonl")
        code, _, err = mercer(*words)
        assert code == 0, err
        kind = KernelRegressor if target == "price" else KernelClassifier
        model, expected = kind(expansion=Stream(points=10), random_state=0), []
        for row in frame.to_dict("records"):
            y = row.pop(target)
            expected.append(model.predict_one(row) if expected else None)
            model.learn_one(row, y)
        assert answers(tmp_path / "p.jsonl") == expected
        written = load_model(tmp_path / "m")
        assert written.predict_one(row) == model.predict_one(row)
        # Text, dates and amounts are columns of these kinds.
        kinds = [one.kind for one in written._columns.readings.columns.values()]
        assert written._row_names == ["fee", "seen", "size", "town"]
        assert kinds == ["number", "date", "number", "category"]
        if target == "price":
            error = np.abs(np.array(expected[20:]) - amounts(frame["price"])[20:])
            assert np.mean(error) < 0.5 * np.std(amounts(frame["price"]))
        code, _, err = mercer("predict", tmp_path / "m", data, "--out", tmp_path / "q.csv")
        assert (code, "Predict by `mercer stream --predict-only`" in err) == (2, True)

    @pytest.mark.parametrize(
        ("name", "ending"), [("price", "csv"), ("dear", "jsonl"), ("komp", "csv")]
    )
    def test_models_of_fit_go_on_as_in_python(self, name, ending, fitted, mercer, tmp_path):
        target = "dear" if name == "dear" else "price"
        frame = homes(40, 5).drop(columns="price" if target == "dear" else "dear")
        data = write(frame, tmp_path / f"new.{ending}")
        model = load_model(fitted / name)
        before = list(model.predict(frame))
        expected = []
        for i in range(len(frame)):
            expected += list(model.predict(frame[i : i + 1]))
            model.partial_fit(frame[i : i + 1], frame[target][i : i + 1])
        words = ("stream", data, "--target", target, "--model", fitted / name)
        words += ("--predictions", tmp_path / "p.jsonl")
        code, _, err = mercer(*words, "--out", tmp_path / "m")
        assert code == 0, err
        same(answers(tmp_path / "p.jsonl"), expected)
        same(load_model(tmp_path / "m").predict(frame), model.predict(frame))
        assert (
            mercer(
                "predict",
                tmp_path / "m",
                data if ending == "csv" else write(frame, tmp_path / "new.csv"),
                "--out",
                tmp_path / "q.parquet",
            )[0]
            == 0
        )
        found = pq.read_table(tmp_path / "q.parquet").column("prediction").to_pylist()
        same(found, model.predict(frame))
        code, _, err = mercer(*words, "--predict-only")
        assert code == 0, err
        same(answers(tmp_path / "p.jsonl"), before)

    def test_cells_are_read_as_the_columns_of_the_model(self, fitted, mercer, tmp_path):
        frame = homes(20, 5).drop(columns="dear").astype({"size": object})
        frame.loc[3, ["town", "seen"]] = None
        frame.loc[5, "size"], frame.loc[6, "town"] = "large", "Rome"
        data = write(frame, tmp_path / "new.csv")
        words = ("stream", data, "--target", "price", "--model", fitted / "price")
        words += ("--predict-only", "--predictions", tmp_path / "p.jsonl")
        code, _, err = mercer(*words)
        assert code == 0, err
        assert "'size' has 1 cell" in " ".join(err.split())
        assert "'large' in line 7 of new.csv" in " ".join(err.split())
        gaps = frame.assign(size=pd.to_numeric(frame["size"], errors="coerce"))
        same(answers(tmp_path / "p.jsonl"), load_model(fitted / "price").predict(gaps))
        code, _, err = mercer(*words, "--strict")
        assert (code, "holds 'large', which is no number" in err) == (2, True)

    def test_a_checkpoint_of_such_a_model_goes_on(self, fitted, mercer, tmp_path):
        frame = homes(30, 6).drop(columns="dear")
        words = ("stream", tmp_path / "new.csv", "--target", "price", "--model", fitted / "komp")
        words += ("--out", tmp_path / "m", "--predictions", tmp_path / "p.jsonl")
        write(frame, tmp_path / "new.csv")
        assert mercer(*words)[0] == 0
        whole = (tmp_path / "m").read_bytes(), (tmp_path / "p.jsonl").read_bytes()
        write(frame[:18], tmp_path / "new.csv")
        kept = ("--checkpoint", tmp_path / "kept")
        assert mercer(*words, *kept)[0] == 0
        write(frame, tmp_path / "new.csv")
        code, _, err = mercer(*words, *kept)
        assert code == 0, err
        assert "after 18 rows" in err
        assert whole == ((tmp_path / "m").read_bytes(), (tmp_path / "p.jsonl").read_bytes())

    def test_dates_as_targets_are_refused(self, fitted, mercer, tmp_path):
        data = write(homes(20), tmp_path / "new.csv")
        words = ("stream", data, "--target", "seen", "--out", tmp_path / "m")
        code, _, err = mercer(*words, "--model", fitted / "seen", "--exclude", "dear")
        assert (code, "The model answers dates or times" in err) == (2, True)
        code, _, err = mercer(*words)
        assert (code, "'seen' holds dates or times, first '20" in err) == (2, True)
        assert "`--task classification`" in err
        code, _, err = mercer(*words, "--task", "regression")
        assert (code, "is a date or a time, not a quantity" in err) == (2, True)
        code, _, err = mercer(*words, "--task", "classification", "--quiet")
        assert code == 0, err
        assert load_model(tmp_path / "m").classes_.dtype.kind == "U"

    def test_models_without_their_sums_only_answer(self, monkeypatch, mercer, tmp_path):
        data = write(homes(40, 5).drop(columns="dear"), tmp_path / "new.csv")
        words = ("stream", data, "--target", "price", "--model", tmp_path / "m")
        few = DefaultLearner.settings._replace(small_file=0)
        monkeypatch.setattr(DefaultLearner, "settings", few)
        FileTraining(data, "price").start().run(tmp_path / "m")
        code, _, err = mercer(*words, "--out", tmp_path / "n")
        assert (code, "leaves out the sums that this takes" in err) == (2, True)
        assert "`mercer fit --resumable`" in err
        assert "`--predict-only`" in err
        code, _, err = mercer(*words, "--predict-only", "--predictions", tmp_path / "p.jsonl")
        assert code == 0, err
        assert len(answers(tmp_path / "p.jsonl")) == 40


def test_several_places_are_refused():
    with pytest.raises(ValueError, match="Stream cannot be learned in several places"):
        check_learnable(KernelRegressor(expansion="stream"))
    check_learnable(KernelRegressor())


@pytest.mark.parametrize(
    "name", ["kernel_", "dictionary_", "coefficients_", "parts_", "bend_", "correction_", "race_"]
)
def test_what_a_stream_has_not_says_where_to_look(name, regressor):
    with pytest.raises(AttributeError, match=r"several kernels.*ways_table\(model\)"):
        getattr(regressor, name)


def test_a_stream_has_no_random_features_of_its_own(regressor):
    with pytest.raises(AttributeError, match="several kernels and sets of features"):
        regressor.random_features([[0.0, 0.0]])
