"""mercer beside what you might take instead, nothing tuned: one column for each.

There are two tables and a stream:

- *Forest cover* is a question of two classes, with 464,810 rows to learn.
- *House prices* are numbers, those of California, with 16,512 rows to learn.
- *The stream* is one of electricity prices (elec2). Each row is answered before it is learned.

A fifth of the rows of both tables was kept apart, and the models are judged on that fifth. All
other rows are learned, but for slow methods, which get the first ones only (see "rows learned").

These are the methods:

- *LightGBM* is there twice: with its own settings, which are 100 trees of 31 leaves, and with 300
  trees of 127 leaves, which suit large tables better.
- *SVC*, the support vector machine, and the *linear* model have the settings of their library.
- *River* is its adaptive random forest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import _common
import _peers

METHODS = _peers.GLANCE_METHODS
RUNS = _common.RESULTS / "at_a_glance.jsonl"
SETS = {"covtype": "forest cover", "california": "house prices"}
#: How the same methods are called in the tables of other scripts.
IN_SUITE = {
    "mercer": "mercer, default",
    "lightgbm": "LightGBM",
    "lightgbm_127": "LightGBM 300 x 127",
    "svc_scaled": "SVC, scaled",
}
IN_STREAMS = {
    "mercer": "mercer",
    "river": "River, adaptive random forest",
    "linear": "River, logistic regression",
}
#: What no number says.
WORDS = {
    "learns row by row": ("yes", "no", "no", "no", "yes", "with `SGDClassifier`"),
    "gaps, text, dates as they are": ("yes", "gaps", "gaps", "no", "with transformers", "no"),
    "probabilities of classes": ("yes", "yes", "yes", "by more fits", "yes", "yes"),
    "a range for each number": ("yes", "by quantiles", "by quantiles", "no", "by a wrapper", "no"),
}


def measure(name: str, method: str) -> dict[str, Any]:
    """Run one of the methods on a set, in a process of its own."""
    script = Path(__file__).parent / "_default_run.py"
    run = subprocess.run(
        [sys.executable, str(script), name, method], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout.splitlines()[-1])


def found_by(
    rows: list[dict[str, Any]], names: dict[str, str], key: str, **where: str
) -> list[str]:
    """A number of each method from another script's rows; a dash where it has none."""
    found = {
        row["method"]: row[key]
        for row in rows
        if all(row[name] == value for name, value in where.items())
    }
    return [_text(found[names[m]]) if m in names else "-" for m in METHODS]


def _text(value: float) -> str:
    """A number with three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rows_of(runs: dict[tuple[str, str], dict[str, Any]]) -> list[dict[str, str]]:
    """Rows of the table: a question, and the answer of each method."""

    def each(name: str, key: str) -> list[str]:
        return [_text(runs[name, method][key]) for method in METHODS]

    suite, streams = _common.published("suite"), _common.published("streams")
    answers = {
        "forest cover: % wrong": each("covtype", "error"),
        "rows learned": each("covtype", "learned_rows"),
        "seconds to learn": each("covtype", "cpu_s"),
        "MiB of memory to learn": each("covtype", "learning_mib"),
        "MiB of the model, pickled": each("covtype", "pickled_mib"),
        "rows predicted a second": each("covtype", "rows_per_s"),
        "house prices: error": each("california", "mse"),
        "seconds to learn them": each("california", "cpu_s"),
        f"{suite[0]['sets']} tables: error (mercer's is 1)": found_by(
            suite, IN_SUITE, "error / mercer's"
        ),
        "a stream of prices: % of rows right": found_by(
            streams, IN_STREAMS, "right, %", stream="elec2"
        ),
        "rows of that stream learned a second": found_by(
            streams, IN_STREAMS, "rows / CPU s", stream="elec2"
        ),
        **{question: list(words) for question, words in WORDS.items()},
    }
    titles = [method.title.partition(",")[0] for method in METHODS.values()]
    return [
        {"": question, **dict(zip(titles, found, strict=True))}
        for question, found in answers.items()
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="measure what is known, too")
    options = parser.parse_args(arguments)
    kept = _common.Runs(RUNS, "set", "method")
    for name, method in itertools.product(SETS, METHODS):
        if options.again or (name, method) not in kept.all():
            kept.add(measure(name, method))
    runs = kept.all()
    said = {
        m.title.partition(",")[0]: _peers.settings_of(m, name, runs.values())
        for name, m in METHODS.items()
    }
    settings = "; ".join(f"{title}: {words}" for title, words in said.items() if words)
    versions = sorted({method["version"] for method in runs.values()})
    note = (
        "Seconds are CPU seconds of one thread. The error of house prices is the mean squared "
        "error divided by the variance of all prices: 1 is the error of always saying the mean. "
        "For the 42 tables the error is the geometric mean of its ratios to mercer's: 1.2 is a "
        "fifth more. A dash stands where a method was not measured. The numbers of the 42 tables "
        "and of the stream are those of the tables below; there the linear model is River's. "
        f"Settings: {settings}. {', '.join(versions)}."
    )
    _common.publish("at_a_glance", rows_of(runs), note)


if __name__ == "__main__":
    main(sys.argv[1:])
