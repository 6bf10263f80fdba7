"""Run the papers' experiments and write docs/reproduction.md from their results.

    python benchmarks/reproduce.py            # all (long; needs the data directory)
    python benchmarks/reproduce.py dsg-adult  # some, and the page again
    python benchmarks/reproduce.py --write    # only the page and the times

Results are kept in ``benchmarks/results/reproduction``. The page has nothing that is not in them,
but for what the catalogue of the papers' tables and figures says (``mercer reproduce --list``),
and the numbers that the papers print. The times that the list shows are theirs, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "reproduction"
ESTIMATES = HERE / "results" / "reproduction_estimates.json"
PAGE = HERE.parent / "docs" / "reproduction.md"
TIMES = HERE.parent / "src" / "mercer_reproduction" / "run_times.json"
HEAD = """# Reproduction of the papers

What the papers show, done again with this library: `mercer reproduce` lists the experiments,
`mercer reproduce NAME` runs one. Every number of ours on this page comes from a file in
`benchmarks/results/reproduction/` that such a run wrote, and the page is written by
`python benchmarks/reproduce.py`. Times are CPU seconds of the process on one thread; compare them
within a table only. A target is a number that we set out to reach with the full settings; one that
is missed says so.

Every table and figure of the papers, and what became of it (`mercer reproduce --list`; times are
CPU minutes of a full run on one thread; "~": about, an estimate whose source is in
`benchmarks/results/reproduction_estimates.json`; "-": nothing to run):
"""


def results():
    """Records of the full runs there are, in the order of the experiments."""
    from mercer_reproduction import experiments

    files = [RESULTS / f"{experiment.name}.json" for experiment in experiments()]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def run_times(records, estimates):
    """CPU minutes of each run, as recorded; of older records without them an estimate."""
    times = {}
    for record in records:
        seconds = record.get("cpu_seconds")
        minutes = estimates[record["name"]]["cpu_minutes"] if seconds is None else seconds / 60
        times[record["name"]] = {"cpu_minutes": round(minutes, 2), "exact": seconds is not None}
    return times


def catalogue(records):
    """Rows of the table of the papers' items, with links to the experiments that were run."""
    from mercer_reproduction import experiments
    from mercer_reproduction.command._catalogue_view import catalogue_rows, minutes_in_words

    links = {record["name"]: f"[{record['name']}](#{record['name']})" for record in records}
    return [
        {
            "item": row["paper"] if row["item"] == "-" else f"{row['paper']} {row['item']}",
            "shows": row["shows"],
            "state": f"**{row['state']}**: {row['why']}",
            "run by": ", ".join(links.get(name, name) for name in row["experiments"]) or "-",
            "data": row["data"] or "-",
            "minutes": minutes_in_words(row["minutes"], row["minutes_exact"]),
        }
        for row in catalogue_rows(experiments())
    ]


def page():
    """Text of docs/reproduction.md from the committed results."""
    sys.path.insert(0, str(HERE))
    import _common

    from mercer_reproduction._paper_numbers import beside_ours

    records = results()
    if not records:
        return HEAD + "\nNo experiment has been run with its full settings yet.\n"
    columns = ("name", "measured", "paper", "target", "met")
    targets = [
        {"experiment": f"[{record['name']}](#{record['name']})"}
        | {column: target.get(column, "-") for column in columns}
        for record in records
        for target in record["targets"]
    ]
    parts = [HEAD, _common.markdown(catalogue(records)) + "\n"]
    parts.append(f"## Targets\n\n{_common.markdown(targets)}\n")
    for record in records:
        machine = ", ".join(f"{k} {v}" for k, v in record["environment"].items())
        parts.append(f"## {record['name']}\n\n**{record['title']}** ({record['place']}).")
        parts.append(record["shows"] + "\n")
        parts.append(_common.markdown(record["rows"]) + "\n")
        if numbers := beside_ours(record["name"], record["rows"]):
            parts.append(f"The paper's numbers beside ours:\n\n{_common.markdown(numbers)}\n")
        parts += [note + "\n" for note in record["notes"]]
        parts += [
            f"![{figure['caption']}](../benchmarks/results/reproduction/{figure['file']})\n"
            for figure in record["figures"]
        ]
        parts.append(f"*`mercer reproduce {record['name']} --seed {record['seed']}`; {machine}*\n")
    return "\n".join(parts)


def main(arguments):
    if "--write" not in arguments:
        for name in arguments or ["all"]:
            command = ["from mercer.cli import main; main()", "reproduce", name]
            options = ["--out", str(RESULTS), "--no-svg"]
            subprocess.run([sys.executable, "-c", *command, *options], check=True)
    times = run_times(results(), json.loads(ESTIMATES.read_text()))
    TIMES.write_text(json.dumps(times, indent=1) + "\n")
    # In a process of its own: the times are read once.
    write = "import reproduce; reproduce.PAGE.write_text(reproduce.page())"
    subprocess.run([sys.executable, "-c", write], check=True, cwd=HERE)


if __name__ == "__main__":
    main(sys.argv[1:])
