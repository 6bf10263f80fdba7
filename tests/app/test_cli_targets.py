"""What the command says of targets: what it guessed, which classes a model does not know."""

import json

import numpy as np
import pandas as pd
import pytest

from command_line import run

pytestmark = pytest.mark.usefixtures("quickest_race")

ROWS = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables that the tests only read, and a model of prices."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, ROWS))
    letters = np.arange(ROWS) % 26
    frame = pd.DataFrame({"price_log": a, "b": b, "letter": letters, "price": np.exp(a)})
    frame["grade"] = 3 + (a > 0) + (b > 0)
    frame["many"] = rng.poisson(20, size=ROWS)
    frame.to_parquet(folder / "homes.parquet")
    frame.drop(columns="price_log").to_parquet(folder / "lacking.parquet")
    learn("price", "homes", folder)
    return folder


def learn(target, name, folder):
    others = {"letter", "price", "grade", "many", "price_log"} - {target, "price_log"}
    words = [word for other in sorted(others) for word in ("--exclude", other)]
    out = folder / f"{target}.mercer"
    assert run("fit", folder / f"{name}.parquet", "--target", target, "--out", out, *words) == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "letter",
            "classification of 'letter' (guessed: 26 evenly spaced whole numbers, each about 12 "
            "times; --task regression overrides); 26 classes: 0, 1,",
        ),
        ("grade", "classification of 'grade' (guessed: only 3 whole numbers; --task regression"),
        ("price", "regression of 'price' (guessed: numbers with fractions; --task classification"),
        ("many", "regression of 'many' (guessed: 2"),
    ],
)
def test_the_first_line_says_what_is_guessed_and_why(files, mercer, tmp_path, target, said):
    words = ["fit", files / "homes.parquet", "--target", target, "--out", tmp_path / "m"]
    code, _, err = mercer(*words, "--max-size", "10")
    assert code == 0, err
    assert err.startswith(said)


def test_nothing_is_guessed_where_it_is_said(files, mercer, tmp_path):
    words = ["fit", files / "homes.parquet", "--target", "letter", "--out", tmp_path / "m"]
    code, _, err = mercer(*words, "--max-size", "10", "--task", "regression")
    assert code == 0, err
    assert err.startswith("regression of 'letter'; columns: 5")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("fit homes.parquet --target price --exclude pric --out m", "price_log"),
        ("fit homes.parquet --target letter --exclude letters --out m", None),
        ("fit homes.parquet --target letter --exclude b --exclude bb --out m", None),
        ("fit homes.parquet --task rank --target letter --group letters --out m", None),
        ("fit homes.parquet --target prize --out m", "price"),
        ("predict price.mercer lacking.parquet --out p.csv", None),
        ("predict price.mercer homes.parquet --keep letters --out p.csv", "letter"),
        ("evaluate price.mercer lacking.parquet", None),
        ("evaluate price.mercer homes.parquet --target prize", "price"),
        ("stream rows.csv --target price --exclude prices --out m", None),
        ("stream rows.csv --target price --key prices --out m", None),
        ("stream rows.csv --target prices --out m", "price"),
    ],
)
def test_hints_never_name_what_is_the_target_or_left_out(files, mercer, monkeypatch, words, meant):
    monkeypatch.chdir(files)
    (files / "rows.csv").write_text("a,price\n1,2\n")
    code, _, err = mercer(*words.split())
    assert code == 2
    assert "no column" in err
    assert (f"Did you mean {meant!r}?" in err) if meant else ("Did you mean" not in err)


def test_a_bad_target_of_a_stream_is_not_left_out_as_a_column(mercer, tmp_path):
    (tmp_path / "rows.csv").write_text("a,price\n1,2.5\n1,soon\n")
    words = ["stream", tmp_path / "rows.csv", "--target", "price", "--out", tmp_path / "m"]
    code, _, err = mercer(*words)
    assert code == 2
    assert "the column 'price' holds 'soon', which is no number" in err
    assert "leave out such rows" in err
    assert "--exclude" not in err


# -- classes that a model does not know -------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A model that knows ``no`` and ``yes``, and a function that makes test files."""
    folder = tmp_path_factory.mktemp("known")
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)

    def write(name, classes):
        codes = (a > 0.0).astype(int) if len(classes) == 2 else np.arange(a.size) % len(classes)
        frame = pd.DataFrame({"a": a, "y": np.array(classes)[codes]})
        frame.to_csv(folder / f"{name}.csv", index=False)
        return folder / f"{name}.csv"

    train, model = write("train", ["no", "yes"]), folder / "m"
    assert run("fit", train, "--target", "y", "--out", model, *FEW) == 0
    return model, train, write


FEW = ["--expansion", "dictionary", "--max-size", "20", "--kernel", "gaussian", "--quiet"]


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (["good", "bad"], "It holds 'bad', 'good'; the model knows 'no', 'yes'. Write"),
        (["No", "Yes"], "It holds 'No', 'Yes'; the model knows 'no', 'yes'. They differ in"),
        (list("abcdefgh"), "It holds 'a', 'b', 'c', 'd', 'e' and 3 more; the"),
    ],
)
@pytest.mark.parametrize("workers", [[], ["--engine", "here"]])
def test_no_known_class_is_an_error(known, mercer, classes, said, workers):
    model, _, write = known
    code, out, err = mercer("evaluate", model, write("other", classes), *workers)
    assert (code, out) == (2, "")
    assert "The target 'y' of " in err
    assert "holds no class that the model knows, so that every answer would be wrong." in err
    assert said in err
    assert "name their column with `--target`" in err


def test_some_unknown_classes_are_a_warning_with_their_rows(known, mercer):
    model, _, write = known
    code, out, err = mercer("evaluate", model, write("some", ["no", "maybe"]), "--json")
    assert code == 0, err
    n = (pd.read_csv(write("some", ["no", "maybe"]))["y"] == "maybe").sum()
    assert f"does not know, 'maybe': {n} of 200 rows count as errors" in err
    assert "It knows 'no', 'yes'." in err
    assert json.loads(out)["error_percent"] >= 100.0 * n / 200


def test_all_known_classes_are_no_warning(known, mercer):
    model, train, _ = known
    code, _, err = mercer("evaluate", model, train)
    assert (code, err) == (0, "")


def test_a_test_file_of_other_classes_is_refused_before_learning(known, mercer, tmp_path):
    _, train, write = known
    words = ["fit", train, "--target", "y", "--out", tmp_path / "m", *FEW]
    code, _, err = mercer(*words, "--test", write("other", ["good", "bad"]))
    assert code == 2
    assert "holds no class that the model knows" in err
    assert not (tmp_path / "m").exists()
    code, _, err = mercer(*words, "--test", write("some", ["no", "maybe"]))
    assert code == 0
    assert "does not know, 'maybe'" in err


def test_text_of_digits_is_not_taken_for_other_classes(known, mercer, tmp_path):
    """Classes '1', '2' and 'x' are text; a file with the first two alone looks like numbers."""
    _, _, write = known
    train, test = write("text", ["1", "2", "x"]), write("digits", ["1", "2"])
    words = ["fit", train, "--target", "y", "--out", tmp_path / "m", *FEW]
    code, _, err = mercer(*words, "--test", test)
    assert code == 0, err
