"""Print what `mercer.columns.guess_task` says of many targets: the tables of docs/guide/targets.md.

    python docs/_scripts/guess_table.py          # targets that are drawn here
    python docs/_scripts/guess_table.py FOLDER   # those of the tables in a folder, too

The folder is that of the benchmarks: `suite/*.parquet` with the column `target`, and `index.csv`,
which says what they are.
"""

import csv
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mercer.columns import guess_task


class Case(NamedTuple):
    """A target: what it is, whether the page shows it, and its values."""

    name: str
    task: str
    shown: bool
    values: np.ndarray


# Rows of each class of tables that many know.
LETTERS = [789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792]
LETTERS += [783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734]
SIGNS = [210, 2220, 2250, 1410, 1980, 1860, 420, 1440, 1410, 1470, 2010, 1320, 2100, 2160, 780, 630]
SIGNS += [420, 1110, 1200, 210, 360, 330, 390, 510, 270, 1500, 600, 240, 540, 270, 450, 780, 240]
SIGNS += [689, 420, 1200, 390, 210, 2070, 300, 360, 240, 240]
TUMORS = [84, 20, 9, 14, 39, 1, 14, 6, 0, 2, 28, 16, 7, 24, 2, 1, 10, 29, 6, 2, 1, 24]
PRICES = [49, 99, 149, 199, 249, 299, 349, 399, 499, 599, 699, 799, 899, 999, 1199, 1299]
PRICES += [1499, 1999, 2499, 2999, 3999, 4999]


def zipf(n_classes, power=1.0):
    """Return shares of classes, the commonest first."""
    shares = 1.0 / (1.0 + np.arange(n_classes)) ** power
    return shares / shares.sum()


def classes():
    """Yield targets that are classes."""
    rng = np.random.default_rng(0)
    for name, counts, shown in (
        ("26 letters", LETTERS, True),
        ("43 traffic signs", SIGNS, True),
        ("22 places of tumours, one of them never seen", TUMORS, True),
        ("26 sounds, all but one with 300 rows", [300] * 5 + [298] + [300] * 20, False),
        ("100 plants, 16 rows each", [16] * 100, True),
    ):
        yield name, shown, np.repeat(np.arange(len(counts)), counts)
    yield "26 classes from 1 on, in 150 rows", True, 1 + rng.integers(26, size=150)
    yield "26 letters, stored as 0.0, 1.0, ...", True, np.repeat(np.arange(26.0), LETTERS)
    yield "40 classes, numbered 10, 20, 30, ...", True, 10 * (1 + rng.integers(40, size=4000))
    yield "years as classes, 2000 to 2029", False, 2000 + rng.integers(30, size=3000)
    yield "500 classes", True, rng.integers(500, size=10_000)
    yield "500 classes in a million rows", False, rng.integers(500, size=1_000_000)
    yield "100 classes, one after the other", False, np.arange(20_001) % 100
    for n, rows in ((21, 500), (30, 1000), (60, 3000), (150, 3000)):
        shares = rng.dirichlet(np.ones(n))
        yield f"{n} classes of any shares", n == 60, rng.choice(n, size=rows, p=shares)
    for n, rows in ((30, 1000), (50, 5000), (200, 20_000)):
        codes = rng.choice(n, size=rows, p=zipf(n))
        shuffled = rng.permutation(n)[codes]
        yield f"{n} classes, few of them common", n == 50, shuffled
        yield f"{n} classes, the commonest first", n == 50, codes
    yield "two classes, -1 and 1", False, rng.choice([-1, 1], size=60)
    yield "two classes, 0.0 and 1.0", False, rng.choice([0.0, 1.0], size=60)
    yield "grades 3 to 9", True, 3 + rng.binomial(6, 0.5, size=1000)
    yield "three classes in 50 rows", False, rng.integers(3, size=50)


def quantities():
    """Yield targets that are quantities."""
    rng = np.random.default_rng(1)
    for mean, rows in ((8, 1000), (20, 150), (20, 10_000), (60, 1000), (60, 1_000_000)):
        shown = (mean, rows) in ((8, 1000), (20, 10_000))
        yield f"counts about {mean} (Poisson), {rows:,} rows", shown, rng.poisson(mean, size=rows)
    for mean, rows in ((10, 500), (30, 20_000)):
        values = rng.geometric(1.0 / mean, size=rows)
        yield f"counts about {mean} (geometric), {rows:,} rows", mean == 30, values
    yield "rentals an hour, 0 to some 900", True, rng.negative_binomial(1.2, 1.2 / 191.2, 17_379)
    yield "visits, none of most", False, rng.poisson(20, size=3000) * (rng.random(3000) < 0.4)
    ages = np.clip(np.round(17 + rng.gamma(2.5, 9.0, size=20_000)), 17, 90)
    yield "ages 17 to 90", True, ages.astype(int)
    round_ages = np.where(rng.random(20_000) < 0.4, 5 * np.round(ages / 5), ages)
    yield "ages, many of them rounded to 5", False, round_ages
    hours = np.clip(np.round(rng.normal(40, 12, size=20_000)), 1, 99)
    usual = np.where(rng.random(20_000) < 0.8, 5 * np.round(hours / 5), hours)
    yield "hours a week, most of them rounded", True, np.where(rng.random(20_000) < 0.4, 40, usual)
    yield "years, 1922 to 2011", False, 2011 - np.minimum(89, rng.geometric(1 / 12, size=50_000))
    yield "points, 0 to 100", True, np.round(100 * rng.beta(5, 3, size=1000))
    capped = np.minimum(52, np.round(rng.gamma(3, 10, size=20_000)))
    yield "ages of houses, at most 52", False, capped
    yield "prices 49, 99, 149, ..., 4999", True, rng.choice(PRICES, size=2000)
    hundreds = np.round(np.exp(rng.normal(7.5, 0.5, size=20_000)))
    yield "prices of houses in hundreds", False, 100 * hundreds
    yield "temperatures in whole degrees", False, np.round(rng.normal(12, 9, size=5000))
    yield "minutes in steps of 5", True, 5 * np.round(rng.gamma(3, 20, size=1000) / 5)
    yield "weights in tens, 150 rows", False, 10 * np.round(rng.normal(70, 12, size=150))
    yield "whole numbers 25 to 346, each once or twice", True, rng.integers(25, 347, size=440)
    yield "row numbers", False, np.arange(300)
    yield "numbers with fractions", False, rng.normal(size=300)


CASES = [
    *(Case(name, "classification", shown, values) for name, shown, values in classes()),
    *(Case(name, "regression", shown, values) for name, shown, values in quantities()),
    # What cannot be told from the values: neither is wrong.
    Case("days of the month", "classification", True, np.arange(5000) % 31 + 1),
]


def line(name, n_rows, guess):
    """Return a line of a table."""
    return f"| {name} | {n_rows:,} | {guess.task} | {guess.reason} |"


def made():
    """Return the lines of the targets that are drawn here."""
    return [line(c.name, len(c.values), guess_task(c.values)) for c in CASES if c.shown]


def real(folder):
    """Yield the tasks that the tables of a folder have, and the lines of what is guessed."""
    import pyarrow.parquet as pq

    with open(folder / "suite" / "index.csv", newline="") as file:
        for row in csv.DictReader(file):
            table = pq.read_table(folder / "suite" / f"{row['name']}.parquet", columns=["target"])
            guess = guess_task(table.column("target"))
            yield row["task"], guess, line(row["name"], table.num_rows, guess)


if __name__ == "__main__":
    lines = made()
    for task, guess, words in real(Path(sys.argv[1])) if sys.argv[1:] else ():
        lines.append(words if task == guess.task else f"{words} but it is a {task}")
    sys.stdout.write("\n".join(lines) + "\n")
