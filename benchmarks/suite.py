"""mercer's default on many tables beside what users would take instead, nothing tuned.

*Tables.* They are those of the folder `suite/` in the data folder, and the sets of the default
learner below. Methods get the columns as they come; categories are integer codes.

*Splits.* A fifth of the rows is for testing. The seed draws it, unless a set comes with a split of
its own. There are up to three seeds.

*Runs.* Each run has one thread and a process of its own. A small fit comes before the clock starts,
so that compilation and imports do not count.

What the columns of the first table say:

- *sets*: on how many tables the method was run.
- *mean rank*: on each table the best method has rank 1. The heading says on how many tables all
  ranked methods were run, and only these count.
- *error / mercer's*: on each table the error of the method is divided by mercer's. The number is
  the geometric mean of these ratios. Above 1 the method is worse.
- *better than mercer*, *worse*: on how many tables.
- *log loss better, of*: on how many tables with classes the log loss is lower than mercer's, and on
  how many both are known.
- *fit CPU s*, *predicted rows / CPU s*: geometric means over the tables.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import _common
import _default_sets
import _default_tables
import _peers
import default_learner
import numpy as np
from scipy.stats import rankdata

USAGE = """
    python benchmarks/suite.py                          # what the cache lacks
    python benchmarks/suite.py --methods mercer --sets concrete --seeds 0 --again
    python benchmarks/suite.py --write                  # only the tables, from the cache
"""
RUNS = _common.RESULTS / "suite.jsonl"
SETS = (*_default_sets.SUITE, *_default_sets.SOURCES)
METHODS = _peers.SUITE_METHODS
JUDGED = _peers.JUDGED
#: Sets that constants were chosen on; the others judge.
CHOSEN_ON: tuple[str, ...] = (
    "503_wind",
    "abalone",
    "car",
    "churn",
    "concrete",
    "elevators",
    "optdigits",
    "phoneme",
    "skillcraft",
    "spambase",
)
#: Methods are ranked that were run on this share of the sets, on the sets that all of them have.
RANKED_FROM = 0.8

Row = dict[str, Any]


class Results(_default_tables.Results):
    """Runs on all rows, and what they say of a method on a set."""

    def errors(self, name: str, method: str) -> dict[int, float]:
        """Errors by seed, those of classifiers no less than half a test row."""
        if _default_sets.source_of(name).regression:
            return self.of(name, method, 0, "mse")
        rows = self.of(name, method, 0, "test_rows")
        found = self.of(name, method, 0, "error")
        return {seed: max(error, 50.0 / rows[seed]) for seed, error in found.items()}

    def ratio(self, name: str, method: str) -> float:
        """Mean error as a multiple of mercer's, on the seeds that both have; NaN without any."""
        its, ours = self.errors(name, method), self.errors(name, JUDGED)
        seeds = its.keys() & ours.keys()
        total = sum(ours[seed] for seed in seeds)
        return sum(its[seed] for seed in seeds) / total if seeds else math.nan


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of numbers above 0; NaN of none."""
    known = [value for value in values if math.isfinite(value)]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def names_of(results: Results) -> list[str]:
    """Sets on which mercer was run."""
    return [name for name in SETS if results.errors(name, JUDGED)]


def method_rows(results: Results) -> list[Row]:
    """A row for each method: its rank, if it was run on most sets, and its errors in mercer's."""
    names = names_of(results)
    run = [m for m in METHODS if any(math.isfinite(results.ratio(n, m)) for n in names)]
    counts = {m: sum(math.isfinite(results.ratio(n, m)) for n in names) for m in run}
    ranked = [m for m in run if counts[m] >= RANKED_FROM * len(names)]
    errors = np.array([[results.ratio(n, m) for m in ranked] for n in names])
    errors = errors[np.isfinite(errors).all(axis=1)] if run else errors
    # Nothing was run at all where there are no names.
    ranks = dict(zip(ranked, np.mean(rankdata(errors, axis=1), axis=0), strict=True)) if run else {}
    rows = []
    for m in run:
        mine = [n for n in names if math.isfinite(results.ratio(n, m))]
        losses = [
            [results.summary(n, each, 0, "log_loss").mean for each in (m, JUDGED)] for n in mine
        ]
        known = [(its, ours) for its, ours in losses if math.isfinite(its + ours)]
        rows.append(
            {
                "method": METHODS[m].title,
                "sets": len(mine),
                f"mean rank on {len(errors)}": float(ranks[m]) if m in ranks else "-",
                "error / mercer's": geometric_mean([results.ratio(n, m) for n in mine]),
                "better than mercer": sum(results.ratio(n, m) < 1.0 for n in mine),
                "worse": sum(results.ratio(n, m) > 1.0 for n in mine),
                "log loss better, of": "-"
                if m == JUDGED or not known
                else f"{sum(its < ours for its, ours in known)}, {len(known)}",
                "fit CPU s": geometric_mean([results.summary(n, m, 0, "cpu_s").mean for n in mine]),
                "predicted rows / CPU s": geometric_mean(
                    [results.summary(n, m, 0, "rows_per_s").mean for n in mine]
                ),
            }
        )
    return rows


def set_rows(results: Results) -> list[Row]:
    """A row for each set, those first on which mercer is worst beside its best peer."""
    rows = []
    for name in names_of(results):
        peers = [m for m in METHODS if m != JUDGED and math.isfinite(results.ratio(name, m))]
        key = "mse" if _default_sets.source_of(name).regression else "error"
        best = min(peers, key=lambda m: results.ratio(name, m), default=None)
        rows.append(
            {
                "set": name + (" (chosen on)" if name in CHOSEN_ON else ""),
                "rows": int(results.summary(name, JUDGED, 0, "train_rows").mean),
                "columns": int(results.summary(name, JUDGED, 0, "inputs").mean),
                "judged by": _default_tables.WORDS[key],
                "mercer": str(results.summary(name, JUDGED, 0, key)),
                "best peer": "-" if best is None else METHODS[best].title,
                "its": "-" if best is None else str(results.summary(name, best, 0, key)),
                "mercer / its": math.nan if best is None else 1.0 / results.ratio(name, best),
                "CPU s": results.summary(name, JUDGED, 0, "cpu_s").mean,
                "model MiB": results.summary(name, JUDGED, 0, "pickled_mib").mean,
            }
        )
    return sorted(rows, key=lambda row: -np.nan_to_num(row["mercer / its"]))


def tables(records: list[Row]) -> dict[str, list[Row]]:
    """Both tables, in the order of the page."""
    results = Results([record for record in records if "failed" not in record])
    return {"suite": method_rows(results), "suite_sets": set_rows(results)}


def notes(records: list[Row]) -> dict[str, str]:
    """What readers of each table have to know."""
    said = {m.title: _peers.settings_of(m, name, records) for name, m in METHODS.items()}
    settings = "; ".join(f"{title}: {words}" for title, words in said.items() if words)
    versions = ", ".join(sorted({r["version"] for r in records if "version" in r}))
    chosen = ", ".join(CHOSEN_ON) or "none"
    runs = {m: sum(r["method"] == m and "version" in r for r in records) for m in METHODS}
    fewer = [f"{METHODS[m].title} {n}" for m, n in runs.items() if 0 < n < runs[JUDGED]]
    seeds = (
        f"mercer has {runs[JUDGED]} runs. Others have fewer: {', '.join(fewer)}. " if fewer else ""
    )
    ended = [f"{METHODS[r['method']].title} on {r['set']}" for r in records if "version" not in r]
    none = f"Runs that were stopped or failed: {', '.join(ended)}. " if ended else ""
    return {
        "suite": (
            "Errors are means over the seeds that a method and mercer both have. Only methods that "
            "were run on most sets have a rank, and only sets that all of them were run on count "
            "for it. Means over sets are geometric. The error of a classification is half a test "
            "row at least, so that ratios exist. "
            f"{seeds}{none}Settings that are not the library's own: {settings}. "
            f"Versions: {versions}."
        ),
        "suite_sets": (
            "Means over the seeds ± standard errors. Constants of mercer were chosen on these "
            f"sets: {chosen}. Errors of the other sets were seen, too, when four things were "
            "settled: how often metrics follow each other, up to how many rows fits are exact, "
            "which parts larger tables get, and that there are trees. "
            f"{default_learner.words_on_code(records)}"
        ),
    }


def planned(options: argparse.Namespace) -> Iterator[tuple[str, str, int, int]]:
    """Set, method, seed and size (0: all rows) of all runs that are asked for, seed by seed."""
    data = _default_sets.data_directory(options.data)
    for seed, name, method in itertools.product(options.seeds, options.sets, options.methods):
        readable = data is not None or not _default_sets.source_of(name).files
        if readable and METHODS[method].installed:
            yield name, method, seed, 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__ + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(default_learner.SEEDS))
    parser.add_argument("--data", help="folder of the data sets; default: MERCER_DATA")
    parser.add_argument("--cpu-limit", type=int, default=default_learner.CPU_LIMIT_S)
    parser.add_argument("--again", action="store_true", help="run also what is in the cache")
    parser.add_argument("--write", action="store_true", help="run nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run, print and keep the tables for the page."""
    options, cache = parsed(arguments), default_learner.Cache(RUNS)
    runs = [] if options.write else planned(options)
    failures = default_learner.run_each(runs, options, cache)
    records = [r for name in SETS for method in METHODS for r in cache.records(name, method)]
    words = notes(records)
    for name, rows in tables(records).items():
        _common.publish(name, rows, words[name])
    print("\n".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
