"""What the benchmark scripts share: one BLAS thread, CPU time, and where results are kept.

``results/SCRIPT.json`` has the tables of a script, for the page. ``results/SCRIPT.jsonl`` has its
single runs, a line each, where a script keeps them: it then goes on where it was stopped.
"""

from __future__ import annotations

import os

# Before numpy is imported: with more threads than free cores BLAS is many times slower.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
#: Tables that a script of another name prints.
ORIGINS = {
    "suite_ratings": "suite",
    "suite_sets": "suite",
    "earlier_sets": "earlier",
    "intervals_sets": "intervals",
    "intervals_draws": "intervals",
    "class_sets": "intervals",
    "class_sets_sets": "intervals",
    "probabilities": "intervals",
    "importances_seeds": "explanations",
    "multidist_budget": "multidist",
    "row_calls": "throughput",
    "streams_numbers": "streams",
    "drift_false": "drift",
    "drift_delay": "drift",
    "random_feature_errors": "random_features",
    "default_learner_lost": "default_learner",
    "default_learner_small": "default_learner",
    "default_learner_all": "default_learner",
    "cluster_engines": "cluster",
    "cluster_scale": "cluster",
    "cluster_grow": "cluster",
    "cluster_steps": "cluster",
    "cluster_simulated": "cluster",
    "adaptive_filters_glass": "kernel_adaptive_filters",
    "adaptive_filters_switch": "kernel_adaptive_filters",
    "adaptive_filters_speed": "kernel_adaptive_filters",
    "counts": "losses",
    "quantiles_suite": "losses",
    "pair_matrices": "pairs",
}


def cpu_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process (all threads) that a call takes, and its result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def least_cpu_seconds(function: Callable[[], Any], repeats: int) -> float:
    """Smallest CPU time of several calls: the machine is shared, noise only adds."""
    return min(cpu_seconds(function)[0] for _ in range(repeats))


def environment() -> dict[str, str]:
    """Versions and machine, to be quoted beside numbers."""
    from mercer_reproduction._experiment import environment

    return {**environment(), "BLAS threads": os.environ["OPENBLAS_NUM_THREADS"]}


def publish(name: str, rows: list[dict[str, Any]], note: str = "", measured: bool = True) -> None:
    """Print a table and keep it for ``run.py`` to write up."""
    keep(name, rows, note, measured)
    sys.stdout.write(markdown(rows) + "\n" + (note + "\n" if note else ""))


def keep(name: str, rows: list[dict[str, Any]], note: str = "", measured: bool = True) -> None:
    """Keep a table among those of its script.

    The machine that is quoted beside it is this one if times were measured now, and otherwise the
    one that was quoted before.
    """
    place = _place(name)
    with _writing(place) as temporary:
        tables = json.loads(place.read_text()) if place.exists() else {}
        before = {} if measured else tables.get(name, {})
        machine = before.get("environment") or environment()
        tables[name] = {"note": note, "environment": machine, "rows": rows}
        temporary.write_text(json.dumps(tables, indent=1) + "\n")


def table(name: str) -> dict[str, Any] | None:
    """Note, environment and rows of a table, if it is kept."""
    place = _place(name)
    return json.loads(place.read_text()).get(name) if place.exists() else None


def published(name: str) -> list[dict[str, Any]]:
    """Rows of a table; none if it is not kept."""
    record = table(name)
    return record["rows"] if record else []


def _place(name: str) -> Path:
    return RESULTS / f"{ORIGINS.get(name, name)}.json"


@contextmanager
def _writing(place: Path) -> Iterator[Path]:
    """Give a path for what takes the place of a file; other scripts wait until it does."""
    import fcntl

    from mercer.model_file import replacing

    place.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with replacing(place) as temporary:
            yield temporary
    finally:
        os.close(folder)


class Runs:
    """Records of runs in a file, a line each, in the order of their keys.

    Scripts may run side by side and write to one file.

    Parameters
    ----------
    place : Path
        The file; it need not be there.
    *keys : str
        Entries of a record that tell which run it is of.
    """

    def __init__(self, place: Path, *keys: str) -> None:
        self._place = place
        self._keys = keys
        self._read_at = 0
        self._records: dict[Any, dict[str, Any]] = {}

    def all(self) -> dict[Any, dict[str, Any]]:
        """Records by their keys: a tuple, or the key where there is one only."""
        # Another script may have written meanwhile.
        written_at = self._place.stat().st_mtime_ns if self._place.exists() else 0
        if written_at != self._read_at:
            records = map(json.loads, self._place.read_text().splitlines())
            self._records = {self._key(record): record for record in records}
            self._read_at = written_at
        return self._records

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record in place of an older one of the same run."""
        with _writing(self._place) as temporary:
            records = Runs(self._place, *self._keys).all() | {self._key(record): record}
            lines = [json.dumps(records[key]) + "\n" for key in sorted(records)]
            temporary.write_text("".join(lines))
        self._read_at = -1  # times of files are too coarse to tell two changes apart

    def _key(self, record: dict[str, Any]) -> Any:
        found = tuple(record[key] for key in self._keys)
        return found if len(found) > 1 else found[0]


def markdown(rows: list[dict[str, Any]]) -> str:
    """Table of rows that share their keys."""
    if not rows:
        return "(no rows)"
    heads = list(rows[0])
    lines = ["| " + " | ".join(map(_cell, heads)) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(_cell(row[h]) for h in heads) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value).replace("|", "\\|")  # which would end the cell
