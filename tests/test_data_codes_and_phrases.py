"""Text that reads as numbers but is codes, and phrases that are text and no categories."""

import numpy as np
import pytest

from mercer.columns import TablePreprocessor


def kind(values):
    preprocessor = TablePreprocessor(categories=1024)  # no warning of many
    names = preprocessor.fit({"c": np.array(values)}).feature_names_out()
    if names == ["c"]:
        return "number"
    return "text" if any(":words_" in name for name in names) else "category"


def test_postal_codes_are_categories(rng):
    assert kind(rng.integers(98_000, 98_070, 2000).astype(str)) == "category"


@pytest.mark.parametrize(
    ("low", "high", "unit"),
    [
        (1950, 2020, 1),  # years
        (9_970, 10_040, 1),  # of four and five digits
        (10_000, 99_999, 1),  # that hardly repeat
        (98_000, 98_070, 10),
    ],
)
def test_other_numbers_as_text_are_numbers(low, high, unit, rng):
    numbers = rng.integers(low, high, 2000)
    assert kind((numbers if unit == 1 else numbers / unit).astype(str)) == "number"


def notes(n_words, count, rng):
    words = ["late", "early", "again", "never", "paid", "asked", "wrote", "called"]
    phrases = sorted({" ".join(rng.choice(words, n_words)) for _ in range(count)})
    return rng.choice(phrases, 4000)


def test_phrases_that_repeat_are_text_if_there_are_many(rng):
    assert kind(notes(5, 400, rng)) == "text"
    assert kind(notes(5, 80, rng)) == "category"
    assert kind(notes(2, 400, rng)) == "category"


def test_lists_are_text_if_there_are_many(rng):
    genres = np.array(["Comedy", "Drama", "Action", "Crime", "War", "Horror", "Music"])
    lists = [", ".join(rng.choice(genres, rng.integers(1, 4), replace=False)) for _ in range(4000)]
    assert len(set(lists)) > 100
    assert kind(lists) == "text"
    assert kind([one.replace(", ", " ") for one in lists]) == "category"
    assert kind([one[:8] for one in lists]) == "category"  # few different ones


def test_columns_of_text_share_the_directions(rng):
    table = {f"c{number}": notes(5, 3000, rng) for number in range(4)}
    names = TablePreprocessor().fit({"c0": table["c0"]}).feature_names_out()
    assert sum(":words_" in name for name in names) == 32
    names = TablePreprocessor().fit(table).feature_names_out()
    assert [sum(f"c{c}:words_" in name for name in names) for c in range(4)] == [16] * 4
