"""mercer's default beside what users would take instead, nothing tuned, on every set.

*Seeds.* There are three. mercer and SVC have ten where 1,000 rows or fewer are learned, unless rows
keep their order.

*Splits.* Sets that come with a split keep it, and the seed only orders the training rows. For all
others the seed draws a fifth of the rows for testing.

*Runs.* Each run has one thread and a process of its own. A small fit comes before the clock starts,
so that compilation and imports do not count.

Slow methods learn the first rows of large sets only. The column "rows" then says how many of all
("100,000 of 464,810").

To run it, set ``MERCER_DATA`` to the folder of the data sets; ``--help`` tells how to run a part.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import _common
import _default_sets
import _default_tables
import _peers

import mercer

USAGE = """
    python benchmarks/default_learner.py                       # what the cache lacks
    python benchmarks/default_learner.py --methods mercer --sets covtype --seeds 0 --again
    python benchmarks/default_learner.py --write               # only the tables, from the cache

A part that is run goes to the cache, benchmarks/results/default_learner.jsonl, and its tables
are printed; the tables of the page are written by a run of all and by --write. Runs of mercer that
are of an older state of its code count as lacking.
"""
RUNS = _common.RESULTS / "default_learner.jsonl"
SEEDS = (0, 1, 2)
#: Seeds where a single split decides nothing: 36 test rows of wine.
SMALL_SEEDS = range(10)
CPU_LIMIT_S = 600
#: Methods that are also run on the smaller training sets, and with all seeds there.
ON_SMALL_SETS = (_peers.JUDGED, _peers.SMALL_PEER)
#: Folders and modules of the package that decide what a run of mercer finds.
LEARNING = (
    "default",
    "selection",
    "functions",
    "sums",
    "maps",
    "kernels",
    "numerics",
    "features",
    "losses.py",
    "learning",
    "expansions.py",
    "objectives",
    "estimators",
    "schedules.py",
    "columns",
    "streams",
)


@lru_cache
def code_state(package: Path | None = None) -> str:
    """Twelve digits that change with the code of what learns; comments and docstrings are none.

    Parameters
    ----------
    package : Path or None, default=None
        Folder of the package; None for that of the mercer that is imported.
    """
    package = package or Path(mercer.__file__).parent
    found = hashlib.sha256()
    for name in LEARNING:
        place = package / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            code = ast.dump(_without_docstrings(ast.parse(file.read_text())))
            found.update(f"{file.relative_to(package).as_posix()} {len(code)} {code}".encode())
    return found.hexdigest()[:12]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                line
                for line in node.body
                if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]
    return tree


class Cache:
    """Records on disk, by set, method, size and seed; methods can run side by side."""

    def __init__(self, place: Path) -> None:
        self._runs = _common.Runs(place, "set", "method", "size", "seed")

    def records(self, name: str, method: str) -> list[dict[str, Any]]:
        """What was found for a set and a method."""
        runs = self._runs.all().items()
        return [record for key, record in runs if key[:2] == (name, method)]

    def all_records(self) -> list[dict[str, Any]]:
        """What was found for the sets and methods there are."""
        places = [(name, method) for name in _default_sets.SOURCES for method in _peers.METHODS]
        return [record for place in places for record in self.records(*place)]

    def has(self, name: str, method: str, seed: int, size: int) -> bool:
        """Whether a run is there, one of mercer with the code of now; failed ones are not."""
        record = self._runs.all().get((name, method, size, seed), {"failed": "not run"})
        of_now = method != _peers.JUDGED or record.get("code") == code_state()
        return "failed" not in record and of_now

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record in place of an older one."""
        self._runs.add(record)


def run_one(
    name: str,
    method: str,
    seed: int,
    size: int,
    data: Path | None,
    limit: int,
    timed: bool = True,
) -> dict[str, Any]:
    """One run in a process of its own; "stopped" or "failed" says why there is no result."""
    script = Path(__file__).with_name("_default_run.py")
    command = [sys.executable, str(script), name, method, "--seed", str(seed), "--size", str(size)]
    command += ["--cpu-limit", str(limit), *(["--data", str(data)] if data else [])]
    command += [] if timed else ["--untimed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    record = {"set": name, "method": method, "seed": seed, "size": size}
    if done.returncode == -signal.SIGXCPU:
        return {**record, "stopped": f"stopped after {limit} CPU s"}
    lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
    return {**record, "failed": lines[-1]}


def planned(options: argparse.Namespace, cache: Cache) -> Iterator[tuple[str, str, int, int]]:
    """Set, method, seed and size of all runs that are asked for, seed by seed.

    That a set is small is known from its earlier runs: the cache is looked into as runs go on.
    """
    data = _default_sets.data_directory(options.data)
    for seed in options.seeds or SMALL_SEEDS:
        for name in options.sets:
            if _default_sets.SOURCES[name].files and data is None:
                continue
            for method in options.methods:
                if not _peers.METHODS[method].installed:
                    continue
                sizes = options.sizes
                if sizes is None:
                    sizes = _default_sets.SIZES if method in ON_SMALL_SETS else (0,)
                for size in sizes:
                    if options.seeds or seed in _usual_seeds(name, method, size, cache):
                        yield name, method, seed, size


def _usual_seeds(name: str, method: str, size: int, cache: Cache) -> Sequence[int]:
    """More of them where few rows are learned, unless their order leaves the seed little to do."""
    small = _default_sets.SMALL
    few = size == small or (size == 0 and _has_no_more(cache, name, small))
    if few and method in ON_SMALL_SETS and not _default_sets.SOURCES[name].ordered:
        return SMALL_SEEDS
    return SEEDS


def left_out(options: argparse.Namespace) -> Iterator[str]:
    """Words on what is asked for and cannot be run here."""
    no_data = _default_sets.data_directory(options.data) is None
    if no_data and any(_default_sets.SOURCES[name].files for name in options.sets):
        yield "Sets of the data folder are left out: no --data is given, MERCER_DATA is not set."
    for name in options.methods:
        method = _peers.METHODS[name]
        if not method.installed:
            yield f"{method.title} is left out: pip install {method.package}"


def run_all(options: argparse.Namespace, cache: Cache) -> list[str]:
    """Run what is asked for and not there; words on runs that failed."""
    runs = planned(options, cache)
    return run_each(
        (run for run in runs if not (run[3] and _has_no_more(cache, run[0], run[3]))),
        options,
        cache,
    )


def run_each(
    runs: Iterable[tuple[str, str, int, int]], options: argparse.Namespace, cache: Cache
) -> list[str]:
    """Run those that are not in the cache, or all of them again; words on runs that failed.

    A run of mercer is kept with the state that its code had when it began.
    """
    failures = []
    data = _default_sets.data_directory(options.data)
    for name, method, seed, size in runs:
        if cache.has(name, method, seed, size) and not options.again:
            continue
        code = {"code": code_state()} if method == _peers.JUDGED else {}
        limit, timed = options.cpu_limit, not options.untimed
        record = run_one(name, method, seed, size, data, limit, timed) | code
        cache.add(record)
        print(line_of(record), flush=True)
        if "failed" in record:
            failures.append(line_of(record))
    return failures


def _has_no_more(cache: Cache, name: str, size: int) -> bool:
    """Whether a run on all rows had no more than ``size`` of them."""
    records = [r for method in _peers.METHODS for r in cache.records(name, method)]
    whole = [r for r in records if r["size"] == 0 and "train_rows" in r]
    return bool(whole) and whole[0]["train_rows"] <= size


def line_of(record: dict[str, Any]) -> str:
    """What was found in a run, for people."""
    words = " ".join(str(record[key]) for key in ("set", "method", "seed", "size"))
    why = record.get("failed") or record.get("stopped")
    if why:
        return f"{words}: {why}"
    shown = ("error", "auc", "mse", "cpu_s", "rows_per_s", "learning_mib", "first_prediction_s")
    return f"{words}: " + ", ".join(f"{k} {record[k]:.4g}" for k in shown if k in record)


def words_on_code(records: list[dict[str, Any]]) -> str:
    """How many of mercer's runs are of an older state of its code than that of now.

    Runs that do not tell their state are older: they were kept before it was.
    """
    runs = [r for r in records if r["method"] == _peers.JUDGED and "failed" not in r]
    now = code_state()
    older = sum(record.get("code") != now for record in runs)
    if not runs:
        return "No run of mercer is among them."
    if not older:
        return "All of mercer's runs are of one state of its code."
    verb = "is" if older == 1 else "are"
    return f"{older:,} of {len(runs):,} runs of mercer {verb} of an older state of its code."


def words_on_machines(records: list[dict[str, Any]]) -> str:
    """Which methods were timed on which processor; nothing if all were on one."""
    timed: dict[str, set[str]] = {}
    for record in records:
        if "cpu_s" in record:
            processor = record.get("processor", "machines whose names were not kept")
            timed.setdefault(processor, set()).add(_peers.method_of(record["method"]).title)
    if len(timed) < 2:
        return ""
    named = "; ".join(f"{' and '.join(sorted(timed[name]))} on {name}" for name in sorted(timed))
    return f"Only times on one machine can be compared: {named}. "


def notes(records: list[dict[str, Any]]) -> dict[str, str]:
    """What readers of each table have to know."""
    code = words_on_code(records)
    versions = {record["version"] for record in records if "version" in record}
    said = {m.title: _peers.settings_of(m, name, records) for name, m in _peers.METHODS.items()}
    settings = "; ".join(f"{title}: {words}" for title, words in said.items() if words)
    return {
        "default_learner": (
            "Means over seeds ± their standard errors. The time of the first prediction begins "
            "with the constructor, and a partial_fit of 100 rows is part of it. The process has "
            "imported mercer before. "
            f"{code}"
        ),
        "default_learner_lost": (
            "The rule: the errors of a peer and of mercer are compared seed by seed, for the seeds "
            "that both have. The peer is better if the mean difference is more than its standard "
            "error (more than nothing with one seed). On sets with a given split the test rows "
            "are always the same, so that error knows nothing of their choice. "
            f"{code}"
        ),
        "default_learner_small": (
            "Methods learn the first training rows of the same splits, and are judged on all test "
            'rows. Sets with fewer rows stand there with all of them. "equal" means that the mean '
            "difference is within its standard error, for the seeds that both have. If the two "
            f"have different numbers of seeds, mercer's stands first. {code}"
        ),
        "default_learner_all": (
            "Columns are standardised by the training rows, and pixels are divided by 255. "
            "Targets of regressions are standardised, so that an MSE of 1 is the variance. CPU s "
            "are those of fit. Learning MiB is how much the resident memory grows in fit, at its "
            "peak. Numbers are those that a prediction needs (a split of a tree has two, a leaf "
            "has one). rows/s is the speed of predict, per CPU second. Settings that are not the "
            f"library's own: {settings}. {words_on_machines(records)}{code} "
            f"Versions: {', '.join(sorted(versions))}."
        ),
    }


def tables(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All tables, in the order of the page."""
    results = _default_tables.Results([r for r in records if "failed" not in r])
    return {
        "default_learner": _default_tables.target_rows(results),
        "default_learner_lost": _default_tables.lost_rows(results),
        "default_learner_small": _default_tables.small_rows(results),
        "default_learner_all": _default_tables.all_rows(results),
    }


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options of scripts that call :func:`run_each`."""
    parser.add_argument("--data", help="folder of the data sets; default: MERCER_DATA")
    parser.add_argument("--cpu-limit", type=int, default=CPU_LIMIT_S, help="seconds for each run")
    parser.add_argument("--untimed", action="store_true", help="other work goes on: keep no times")
    parser.add_argument("--again", action="store_true", help="run also what is in the cache")
    parser.add_argument("--write", action="store_true", help="run nothing")


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Options of the command line; ``partial`` says whether some runs are left out."""
    parser = argparse.ArgumentParser(
        description=__doc__ + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sets, methods = list(_default_sets.SOURCES), list(_peers.METHODS)
    parser.add_argument("--sets", nargs="+", choices=sets, metavar="SET", help=", ".join(sets))
    parser.add_argument("--methods", nargs="+", choices=methods, help="default: all")
    more = f"{SMALL_SEEDS.start} to {SMALL_SEEDS[-1]} of small runs of mercer and SVC"
    parser.add_argument("--seeds", nargs="+", type=int, help=f"default: {SEEDS}, {more}")
    parser.add_argument("--sizes", nargs="+", type=int, choices=_default_sets.SIZES, help="0: all")
    add_run_options(parser)
    options = parser.parse_args(arguments)
    options.partial = any(
        given is not None for given in (options.sets, options.methods, options.seeds, options.sizes)
    )
    options.sets, options.methods = options.sets or sets, options.methods or methods
    return options


def main(arguments: list[str]) -> int:
    """Run, print, and keep the tables for the page unless only a part was run."""
    options, cache = parsed(arguments), Cache(RUNS)
    print("\n".join(left_out(options)), flush=True)
    failures = [] if options.write else run_all(options, cache)
    records = cache.all_records()
    words = notes(records)
    for name, rows in tables(records).items():
        if options.partial and not options.write:
            print(f"\n{_common.markdown(rows)}")
        else:
            _common.publish(name, rows, words[name], not (options.write or options.untimed))
    print("\n".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
