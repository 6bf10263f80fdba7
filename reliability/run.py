"""Run all rigs, or write the page of what they found.

To run it:

    python reliability/run.py --short                # all of them shortly, as CI does
    python reliability/run.py                        # long: a day; keeps the tables
    python reliability/run.py files komp             # some of them, long
    python reliability/run.py --write                # write docs/reliability.md, and run nothing
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import _rig

sys.path.insert(0, str(_rig.ROOT / "benchmarks"))
_common = importlib.import_module("_common")

HERE = Path(__file__).parent
PAGE = _rig.ROOT / "docs" / "reliability.md"
#: Rigs and the promises that they try to break.
RIGS = {
    "writes": "No power cut, no full disk loses a model",
    "workers": "A worker that dies changes no bit of a model",
    "files": "A file from a stranger does no harm",
    "tables": "A table from a stranger is learned, or refused in one line",
    "serve": "The server answers everybody, rightly or with a clear refusal",
    "calls": "A wrong call ends in a clear error, and changes nothing",
    "memory": "Memory that runs out changes nothing",
    "mutants": "A mistake in what keeps models whole fails a test",
    "threads": "Threads see whole states, and Ctrl-C is safe",
    "processes": "Models go to other processes whole",
    "length": "Memory and cost stay flat, and counters do not overflow",
    "komp": "KOMP keeps its tolerance",
    "machines": "The same bits on one machine, nearly the same answers on others",
}
#: What their cases are.
UNITS = {
    "writes": "accidents",
    "workers": "runs",
    "files": "files",
    "tables": "tables",
    "serve": "requests",
    "calls": "calls",
    "memory": "allocations that fail",
    "mutants": "mistakes",
    "threads": "runs",
    "processes": "calls",
    "length": "rows",
    "komp": "steps",
    "machines": "fits",
}
HEAD = """# What was tried to break it

<!-- Written by reliability/run.py; do not edit. -->

Each promise has a program that tries to break it, a *rig*. `reliability/README.md` in the
repository says how to run one; all of them run shortly in continuous integration. The tables are of
long runs. What is *broken* in them is open, and [limits](limits.md) says why.

"""
#: What is not tried, for the end of the page.
UNTRIED = """## What was not tried

- Machines that lose what fsync has written, and file systems of networks.
- Power cuts after which names that were removed are there again.
- Memory that stays away: undoing what a call did needs some.
- Windows and macOS: the rigs need Linux.
"""


def page() -> str:
    """Text of docs/reliability.md, from the rigs' docstrings and the committed tables."""
    tables = {rig: _table(rig) for rig in RIGS}
    parts = [HEAD + _overview(tables)]
    for rig, promise in RIGS.items():
        kept = tables[rig]
        parts.append(f"## {promise}\n\n{_words(rig)}\n")
        if not kept:
            parts.append("*No long run is kept yet.*\n")
            continue
        rows = [{k: _shown(v) for k, v in one["row"].items()} for one in kept]
        parts.append(f"{_common.markdown(rows)}\n")
        hours = f"{sum(one['hours'] for one in kept):.2g} hours"
        commits = ", ".join(dict.fromkeys(one["commit"] for one in kept))
        machines = dict.fromkeys(_said(one["environment"]) for one in kept)
        parts.append(f"*reliability/{rig}.py, {hours} at {commits}; {'; '.join(machines)}*\n")
    return "\n".join([*parts, UNTRIED])


def _shown(value: Any) -> Any:
    return f"{value:,}" if isinstance(value, int) else value


def _said(environment: dict[str, str]) -> str:
    return ", ".join(map("{} {}".format, environment, environment.values()))


def _overview(tables: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    for rig, promise in RIGS.items():
        link = re.sub(r"[^\w\s-]", "", promise.lower()).replace(" ", "-")
        row = {"promise": f"[{promise}](#{link})", "tried": "not yet at length", "broken": ""}
        if found := [one["row"] for one in tables[rig]]:
            tried: Counter[str] = Counter()
            for one in found:
                unit = "counters" if ": counters" in str(one.get("what")) else UNITS[rig]
                tried[unit] += _first(one, "cases", "steps")
            row["tried"] = "; ".join(f"{n:,} {unit}" for unit, n in tried.items())
            row["broken"] = str(sum(_first(one, "broken", "beyond the tolerance") for one in found))
        rows.append(row)
    return str(_common.markdown(rows)) + "\n"


def _first(row: dict[str, Any], *names: str) -> int:
    return next(int(row[name]) for name in names if name in row)


def _words(rig: str) -> str:
    """What a rig's docstring says of it, without its title and its commands."""
    tree = ast.parse((HERE / f"{rig}.py").read_text(encoding="utf-8"))
    said = ast.get_docstring(tree) or ""
    return said.split("\n", 1)[1].split("To run it")[0].strip()


def _table(rig: str) -> list[dict[str, Any]]:
    """Rows that are kept, each with its hours, its commit and its environment."""
    place = _rig.RESULTS / f"{rig}.json"
    found: list[dict[str, Any]] = json.loads(place.read_text()) if place.exists() else []
    return found


def _run(rig: str, *, short: bool) -> int:
    """Run a rig, and print at once what a short one said; its exit code."""
    begun = time.monotonic()
    how = "--short" if short else "--keep"
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if short else {}
    done = subprocess.run([sys.executable, HERE / f"{rig}.py", how], text=True, **output)
    print(f"{done.stdout or ''}-- {rig}: {time.monotonic() - begun:.0f} s", flush=True)
    return done.returncode


def main(arguments: list[str]) -> int:
    """Run rigs, long ones one after the other; 1 if one of them broke something."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rigs", nargs="*", metavar="RIG", help=f"of {', '.join(RIGS)}")
    parser.add_argument("--short", action="store_true", help="seconds to a minute each")
    parser.add_argument("--write", action="store_true", help="write the page, and run nothing")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.rigs) - set(RIGS)):
        parser.error(f"no rigs: {', '.join(unknown)}; there are {', '.join(RIGS)}")
    rigs = [] if options.write else options.rigs or list(RIGS)
    # Short ones measure nothing that another one beside them spoils.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1) if options.short else 1) as pool:
        codes = list(pool.map(partial(_run, short=options.short), rigs))
    if not options.short:
        PAGE.write_text(page(), encoding="utf-8")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
