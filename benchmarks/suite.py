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

What the columns of the second table say, as in TabArena (https://arxiv.org/abs/2506.16791):

- *tables*: how many rows are learned, and how many such tables there are.
- *mean rank*: as in the first table, on these tables.
- *Elo*: 400 more make the odds of the lower error on a table ten times as high. LightGBM has 1,000.
  The interval of 95 % comes from drawing the tables with replacement.
- *improvability %*: how much of its error a method would be spared with the best one of each table.
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
import _ratings
import default_learner
import numpy as np

USAGE = """
    python benchmarks/suite.py                          # what the cache lacks
    python benchmarks/suite.py --methods mercer --sets concrete --seeds 0 --again
    python benchmarks/suite.py --write                  # only the tables, from the cache

Methods that are not installed are left out. All are there after `pip install mercer[peers]`.
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
#: The search for settings is long, so that it has one seed, and sets of 800 to 14,000 rows.
TUNED = "lightgbm_tuned"
TUNED_ON = (
    "abalone",
    "car",
    "ccpp",
    "churn",
    "concrete",
    "credit_g",
    "digits",
    "elevators",
    "hypothyroid",
    "kin8nm",
    "mammography",
    "phoneme",
    "segmentation",
    "skillcraft",
    "spambase",
)
#: Methods are ranked that were run on this share of the sets, on the sets that all of them have.
RANKED_FROM = 0.8
#: Fewer tables say too little for a rating.
LEAST_RATED = 5
#: Published Elo of networks that come with weights.
PRETRAINED = (
    "a copy of the board (https://www.codesota.com/tasks/tabular-ml) gives 1,673 to TabPFN-3 "
    "(https://arxiv.org/abs/2605.13986) and 1,624 to TabPFN-2.6. TabICLv2 "
    "(https://arxiv.org/abs/2602.11139), whose Elo we did not find, is reported to be ahead of a "
    "tuned RealTabPFN-2.5"
)
#: The method whose Elo is 1,000.
ANCHOR = "lightgbm"

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


def ranked_errors(results: Results, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Methods that were run on most of the sets, and their errors on the sets that all have.

    Errors are means over the seeds that all of the methods have; a row is a set.
    """
    found = {m: [results.errors(n, m) for n in names] for m in METHODS}
    ranked = [
        m for m, its in found.items() if names and np.mean(np.array(its, bool)) >= RANKED_FROM
    ]
    rows = []
    for its in zip(*(found[m] for m in ranked), strict=True):
        seeds = set.intersection(*(set(errors) for errors in its))
        if seeds:
            rows.append([np.mean([errors[seed] for seed in seeds]) for errors in its])
    return ranked, np.array(rows)


def timed(results: Results, method: str, names: Sequence[str], key: str) -> float | str:
    """Geometric mean over the sets that have the number; a dash without any."""
    found = geometric_mean([results.summary(name, method, 0, key).mean for name in names])
    return found if math.isfinite(found) else "-"


def method_rows(results: Results) -> list[Row]:
    """A row for each method: its rank, if it was run on most sets, and its errors in mercer's."""
    names = names_of(results)
    run = [m for m in METHODS if any(math.isfinite(results.ratio(n, m)) for n in names)]
    ranked, errors = ranked_errors(results, names)
    ranks = dict(zip(ranked, _ratings.mean_ranks(errors), strict=True)) if len(errors) else {}
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
                "fit CPU s": timed(results, m, mine, "cpu_s"),
                "predicted rows / CPU s": timed(results, m, mine, "rows_per_s"),
            }
        )
    return rows


def groups(results: Results) -> Iterator[tuple[str, list[str]]]:
    """Sets by how many rows are learned, and those on which LightGBM was tuned."""
    names = names_of(results)
    rows = {name: results.summary(name, JUDGED, 0, "train_rows").mean for name in names}
    yield "all", names
    yield "to 2,000 rows", [n for n in names if rows[n] <= 2_000]
    yield "to 10,000 rows", [n for n in names if 2_000 < rows[n] <= 10_000]
    yield "more rows", [n for n in names if rows[n] > 10_000]
    yield "LightGBM tuned", [n for n in names if results.errors(n, TUNED)]


def rating_rows(results: Results) -> list[Row]:
    """How methods stand by size of the sets, a row for each that was run on most of a group."""
    rows = []
    for words, names in groups(results):
        ranked, errors = ranked_errors(results, names)
        if ANCHOR not in ranked or len(errors) < LEAST_RATED:
            continue
        anchor = ranked.index(ANCHOR)
        elos = _ratings.elo(errors, anchor)
        low, high = _ratings.elo_interval(errors, anchor)
        ranks, spared = _ratings.mean_ranks(errors), _ratings.improvability(errors)
        rows += [
            {
                "tables": f"{words} ({len(errors)})",
                "method": METHODS[ranked[place]].title,
                "mean rank": float(ranks[place]),
                "Elo": f"{elos[place]:.0f}",
                "95 %": f"{low[place]:.0f} to {high[place]:.0f}",
                "improvability %": float(spared[place]),
            }
            for place in np.argsort(ranks, kind="stable")
        ]
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
    """All tables, in the order of the page."""
    results = Results([record for record in records if "failed" not in record])
    return {
        "suite": method_rows(results),
        "suite_ratings": rating_rows(results),
        "suite_sets": set_rows(results),
    }


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
            "for it. Means over sets are geometric. Methods without times were run while the "
            "machine did other work. The error of a classification is half a test "
            "row at least, so that ratios exist. "
            f"{seeds}{none}{default_learner.words_on_machines(records)}"
            f"Settings that are not the library's own: {settings}. Versions: {versions}."
        ),
        "suite_ratings": (
            "A method stands where it was run on most of the tables. Only tables and seeds that "
            "all of these methods have count. So this is a comparison among methods that learn "
            "from the table alone. Networks that were trained on other tables before lead on small "
            "tables. They need a download of weights, so they were not run. On the tables of "
            f"TabArena, where a random forest has an Elo of 1,000, {PRETRAINED}. An Elo depends on "
            "the tables and on who takes part, so theirs cannot be compared with those here."
        ),
        "suite_sets": (
            "Means over the seeds ± standard errors. If a peer has fewer seeds, mercer's error is "
            "divided by its on those that both have. Constants of mercer were chosen on these "
            f"sets: {chosen}. Errors of the other sets were seen, too, when rules were settled: "
            "how often metrics follow each other, up to how many rows fits are exact, which parts "
            "larger tables get, how trees grow, what their gains tell the kernels, and which "
            "Newton steps are kept. No set of this table is unseen. "
            f"{default_learner.words_on_code(records)}"
        ),
    }


def planned(
    options: argparse.Namespace, cache: default_learner.Cache
) -> Iterator[tuple[str, str, int, int]]:
    """Set, method, seed and size (0: all rows) of all runs that are asked for, seed by seed."""
    data = _default_sets.data_directory(options.data)
    for seed, name, method in itertools.product(options.seeds, options.sets, options.methods):
        readable = data is not None or not _default_sets.source_of(name).files
        if readable and METHODS[method].installed and _suits(name, method, seed, cache):
            yield name, method, seed, 0


def _suits(name: str, method: str, seed: int, cache: default_learner.Cache) -> bool:
    """Whether a set is neither too large for a method nor left out as it would take too long."""
    if method == TUNED:
        return name in TUNED_ON and seed == default_learner.SEEDS[0]
    most = METHODS[method].most_rows
    rows = [r["train_rows"] for r in cache.records(name, JUDGED) if "train_rows" in r]
    return most is None or max(rows, default=math.inf) <= most


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__ + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(default_learner.SEEDS))
    default_learner.add_run_options(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run, print and keep the tables for the page."""
    options, cache = parsed(arguments), default_learner.Cache(RUNS)
    runs = [] if options.write else planned(options, cache)
    failures = default_learner.run_each(runs, options, cache)
    records = [r for name in SETS for method in METHODS for r in cache.records(name, method)]
    words = notes(records)
    for name, rows in tables(records).items():
        _common.publish(name, rows, words[name], not (options.write or options.untimed))
    print("\n".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
