"""What the command says of targets: what it guessed, and no hint that would give them away."""

import numpy as np
import pandas as pd
import pytest

from command_line import run

pytestmark = pytest.mark.usefixtures("quick_race")

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
