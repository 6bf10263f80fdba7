"""What the benchmark scripts share: one BLAS thread, CPU time, results as JSON."""

from __future__ import annotations

import os

# Before numpy is imported: with more threads than free cores BLAS is many times slower.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


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


def publish(name: str, rows: list[dict[str, Any]], note: str = "") -> None:
    """Print a table and keep it in ``benchmarks/results`` for ``run.py`` to write up."""
    RESULTS.mkdir(exist_ok=True)
    record = {"name": name, "note": note, "environment": environment(), "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    sys.stdout.write(markdown(rows) + "\n" + (note + "\n" if note else ""))


def published(name: str) -> list[dict[str, Any]]:
    """Rows of a table that is kept, if there is one."""
    place = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(place.read_text())["rows"] if place.exists() else []
    return rows


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
