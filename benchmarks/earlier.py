"""An earlier state of the code beside that of now: what a fit and an answer take, size, errors.

*Runs.* Both states and LightGBM run on the same splits, one after the other, each in a process of
its own with one thread. Which of the two states begins changes from run to run. A small fit comes
before the clock starts. What the code of now and LightGBM find on all rows of a table is kept for
``suite.py``, too.

*Tables.* They are those of ``suite.py``, by how many rows are learned. *Clean* ones are learned
nearly without errors, and for that some have fewer rows here.

What the columns of the first table say:

- *fit*, *rows/s*, *error*, *log loss*: now, as a multiple of before. The number is the geometric
  mean over the tables. So .5 is half the cost, or half the errors.
- *fit, LightGBM's*: CPU seconds now, as a multiple of those of LightGBM.
- *worse*: on how many tables the error is larger by more than the standard error of the difference,
  of those with several seeds.
- *µs a row*: what a row alone takes, by ``predict`` and by ``predict_proba``.
- *pickle*, *file*: MiB, the largest of the tables. *memory* is that of all arrays of the model.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import _common
import _default_sets
import default_learner
import numpy as np
import suite
from suite import geometric_mean

USAGE = """
    python benchmarks/earlier.py                           # runs that are not there yet
    python benchmarks/earlier.py --seeds 0 --sets covtype  # some of them
    python benchmarks/earlier.py --write                   # only the tables

The earlier state comes from the history of the repository. It needs no installation.
"""
RUNS = _common.RESULTS / "earlier.jsonl"
#: The state before models became lean: before trees by sweeps and cells in one compiled call.
COMMIT = "6d92b6b1"
BEFORE, NOW, PEER = "before", "now", "lightgbm"
#: Tables with few errors, and how many of their rows are learned (0: all).
CLEAN = (
    ("breast_cancer", 0),
    ("digits", 0),
    ("digits", 500),
    ("iris", 0),
    ("kin8nm", 800),
    ("mnist", 2000),
    ("optdigits", 0),
    ("qm7", 0),
    ("qm7", 1000),
    ("skin", 1000),
    ("wine", 0),
)
WHOLE = tuple((name, 0) for name in (*_default_sets.SUITE, *_default_sets.SOURCES))

Row = dict[str, Any]
Place = tuple[str, int]


@contextmanager
def source_of(commit: str) -> Iterator[Path]:
    """The folder of the packages at a commit, as long as it is needed."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "source.tar"
        words = ["git", "-C", str(root), "archive", "-o", str(packed), commit, "src"]
        subprocess.run(words, check=True)
        with tarfile.open(packed) as found:
            found.extractall(folder, filter="data")
        yield Path(folder) / "src"


@contextmanager
def importing(source: Path | None) -> Iterator[None]:
    """Let processes that are started import the packages of a folder; None for those of now."""
    before = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(source), *([before] if before else [])])
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH", None)
        if before is not None:
            os.environ["PYTHONPATH"] = before


def run_all(options: argparse.Namespace, runs: _common.Runs) -> None:
    """Run what is asked for and not there."""
    data = _default_sets.data_directory(options.data)
    states = {NOW: default_learner.code_state(), BEFORE: options.commit, PEER: ""}
    places = [place for place in dict.fromkeys((*WHOLE, *CLEAN)) if place[0] in options.sets]
    whole = default_learner.Cache(suite.RUNS)
    with source_of(options.commit) as earlier:
        order = itertools.cycle(((BEFORE, PEER, NOW), (NOW, PEER, BEFORE)))
        for seed, (name, size) in itertools.product(options.seeds, places):
            if data is None and _default_sets.source_of(name).files:
                continue
            for which in next(order):
                known = runs.all().get((name, which, size, seed), {})
                if known.get("code") == states[which] and not options.again:
                    continue
                method = PEER if which == PEER else "mercer"
                with importing(earlier if which == BEFORE else None):
                    record = default_learner.run_one(
                        name, method, seed, size, data, options.cpu_limit, not options.untimed
                    )
                runs.add(record | {"method": which, "code": states[which]})
                print(default_learner.line_of(record | {"method": which}), flush=True)
                if which != BEFORE and size == 0:
                    code = {"code": states[NOW]} if which == NOW else {}
                    whole.add(record | code)


class Results:
    """Records by what was run.

    Parameters
    ----------
    records : iterable of dict
        As they are kept.
    """

    def __init__(self, records: Sequence[Row]) -> None:
        self._found: dict[tuple[Place, str], dict[int, Row]] = {}
        for one in records:
            place = (one["set"], one["size"]), one["method"]
            self._found.setdefault(place, {})[one["seed"]] = one

    def pairs(self, place: Place, key: str, one: str = NOW, other: str = BEFORE) -> np.ndarray:
        """Numbers of two states, a row for each seed that both have, of shape (n_seeds, 2)."""
        mine, its = (self._found.get((place, which), {}) for which in (one, other))
        seeds = [s for s in sorted(mine.keys() & its.keys()) if key in mine[s] and key in its[s]]
        return np.array([[mine[s][key], its[s][key]] for s in seeds]).reshape(-1, 2)

    def errors(self, place: Place) -> np.ndarray:
        """Errors of now and of before, at least half a test row, of shape (n_seeds, 2)."""
        if _default_sets.source_of(place[0]).regression:
            return self.pairs(place, "mse")
        rows = self.pairs(place, "test_rows")
        return np.maximum(self.pairs(place, "error"), 50.0 / rows)

    def ratio(self, place: Place, key: str, other: str = BEFORE) -> float:
        """Mean now, as a multiple of the mean of another one; NaN without both."""
        return _ratio(self.pairs(place, key, NOW, other))

    def error_ratio(self, place: Place) -> float:
        """Error now, as a multiple of that before; NaN without both."""
        return _ratio(self.errors(place))

    def is_worse(self, place: Place) -> bool | None:
        """Whether errors grew by more than the difference's standard error; None of one seed."""
        found = self.errors(place)
        if len(found) < 2:
            return None
        grown = found[:, 0] - found[:, 1]
        return bool(grown.mean() > grown.std(ddof=1) / math.sqrt(len(grown)))

    def mean(self, place: Place, which: str, key: str) -> float:
        """Mean over the seeds; NaN without any."""
        records = self._found.get((place, which), {}).values()
        found = [record[key] for record in records if key in record]
        return float(np.mean(found)) if found else math.nan


def _ratio(pairs: np.ndarray) -> float:
    return float(pairs[:, 0].sum() / pairs[:, 1].sum()) if len(pairs) else math.nan


def groups(results: Results) -> Iterator[tuple[str, list[Place]]]:
    """Tables that both states have learned, by size, and the clean ones."""
    whole = [place for place in WHOLE if len(results.errors(place))]
    rows = {place: results.mean(place, NOW, "train_rows") for place in whole}
    yield "all", whole
    yield "to 2,000 rows", [place for place in whole if rows[place] <= 2_000]
    yield "to 10,000 rows", [place for place in whole if 2_000 < rows[place] <= 10_000]
    yield "more rows", [place for place in whole if rows[place] > 10_000]
    yield "clean", [place for place in CLEAN if len(results.errors(place))]


def _largest(results: Results, places: Sequence[Place], key: str) -> float:
    return max((results.mean(place, NOW, key) for place in places), key=np.nan_to_num)


def _dashed(rows: Sequence[Row]) -> list[Row]:
    """Rows with a dash for each number that is not known."""
    return [
        {k: "-" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in rows
    ]


def group_rows(results: Results) -> list[Row]:
    """A row for each group of tables."""
    rows = []
    for words, places in groups(results):
        if not places:
            continue
        worse = [is_worse for place in places if (is_worse := results.is_worse(place)) is not None]
        alone = {
            key: geometric_mean([results.mean(place, NOW, key) for place in places])
            for key in ("row_us", "row_proba_us")
        }
        rows.append(
            {
                "tables": f"{words} ({len(places)})",
                "fit": geometric_mean([results.ratio(place, "cpu_s") for place in places]),
                "fit, LightGBM's": geometric_mean(
                    [results.ratio(p, "cpu_s", PEER) for p in places]
                ),
                "rows/s": geometric_mean([results.ratio(place, "rows_per_s") for place in places]),
                "error": geometric_mean([results.error_ratio(place) for place in places]),
                "log loss": geometric_mean([results.ratio(place, "log_loss") for place in places]),
                "worse": f"{sum(worse)} of {len(worse)}",
                "µs a row": alone["row_us"],
                "µs a row, predict_proba": alone["row_proba_us"],
                "pickle": _largest(results, places, "pickled_mib"),
                "file": _largest(results, places, "file_mib"),
                "memory": _largest(results, places, "held_mib"),
            }
        )
    return _dashed(rows)


def set_rows(results: Results) -> list[Row]:
    """A row for each table, those first whose errors grew most."""
    rows = []
    for place in dict.fromkeys((*WHOLE, *CLEAN)):
        found = results.errors(place)
        if not len(found):
            continue
        name, size = place
        rows.append(
            {
                "table": f"{name}, {size:,} rows" if size else name,
                "rows": int(results.mean(place, NOW, "train_rows")),
                "seeds": len(found),
                "error before": float(found[:, 1].mean()),
                "now": float(found[:, 0].mean()),
                "now / before": results.error_ratio(place),
                "worse": {None: "-", True: "yes", False: "no"}[results.is_worse(place)],
                "log loss": results.ratio(place, "log_loss"),
                "CPU s before": results.mean(place, BEFORE, "cpu_s"),
                "CPU s": results.mean(place, NOW, "cpu_s"),
                "LightGBM's": results.mean(place, PEER, "cpu_s"),
                "rows/s before": results.mean(place, BEFORE, "rows_per_s"),
                "rows/s": results.mean(place, NOW, "rows_per_s"),
                "MiB before": results.mean(place, BEFORE, "pickled_mib"),
                "MiB": results.mean(place, NOW, "pickled_mib"),
            }
        )
    return _dashed(sorted(rows, key=lambda row: -row["now / before"]))


def main(arguments: Sequence[str]) -> None:
    """Run, print and keep the tables for the page."""
    parser = argparse.ArgumentParser(
        description=__doc__ + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [name for name, _ in WHOLE]
    parser.add_argument("--commit", default=COMMIT, help="of the earlier state")
    parser.add_argument("--sets", nargs="+", choices=names, metavar="SET", default=names)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(default_learner.SEEDS))
    default_learner.add_run_options(parser)
    options = parser.parse_args(arguments)
    runs = _common.Runs(RUNS, "set", "method", "size", "seed")
    if not options.write:
        run_all(options, runs)
    records = list(runs.all().values())
    states = {r["code"] for r in records if r["method"] == NOW}
    commits = ", ".join(sorted({r["code"] for r in records if r["method"] == BEFORE}))
    note = f"Before: the code at {commits}. LightGBM: {', '.join(sorted(_versions(records)))}. "
    note += "The code of now is one state." if len(states) == 1 else f"Now: {len(states)} states."
    results = Results([record for record in records if "version" in record])
    measured = not (options.write or options.untimed)
    _common.publish("earlier", group_rows(results), note, measured)
    _common.publish("earlier_sets", set_rows(results), measured=measured)


def _versions(records: Sequence[Row]) -> set[str]:
    return {r["version"] for r in records if r["method"] == PEER and "version" in r}


if __name__ == "__main__":
    main(sys.argv[1:])
