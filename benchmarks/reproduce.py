"""Run the papers' experiments and write docs/reproduction.md from their results.

    python benchmarks/reproduce.py            # all (long; needs the data directory)
    python benchmarks/reproduce.py dsg-adult  # some, and the page again
    python benchmarks/reproduce.py --write    # only the page

Results are kept in ``benchmarks/results/reproduction``. The page has nothing that is not in them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "reproduction"
HEAD = """# Reproduction of the papers

What the papers show, done again with this library: `mercer reproduce` lists the experiments,
`mercer reproduce NAME` runs one. Every number on this page comes from a file in
`benchmarks/results/reproduction/` that such a run wrote, and the page is written by
`python benchmarks/reproduce.py`. Times are CPU seconds of the process on one thread; compare them
within a table only. A target is a number that we set out to reach with the full settings; one that
is missed says so.
"""


def results():
    """Records of the full runs there are, in the order of the experiments."""
    from mercer.reproduce import experiments

    files = [RESULTS / f"{experiment.name}.json" for experiment in experiments()]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def page():
    """Text of docs/reproduction.md from the committed results."""
    sys.path.insert(0, str(HERE))
    import _common

    records = results()
    if not records:
        return HEAD + "\nNo experiment has been run with its full settings yet.\n"
    targets = [
        {"experiment": f"[{record['name']}](#{record['name']})", **target}
        for record in records
        for target in record["targets"]
    ]
    parts = [HEAD, f"## Targets\n\n{_common.markdown(targets)}\n"]
    for record in records:
        machine = ", ".join(f"{k} {v}" for k, v in record["environment"].items())
        parts.append(f"## {record['name']}\n\n**{record['title']}** ({record['place']}).")
        parts.append(record["shows"] + "\n")
        parts.append(_common.markdown(record["rows"]) + "\n")
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
            options = ["--out", str(RESULTS)]
            subprocess.run([sys.executable, "-c", *command, *options], check=True)
    (HERE.parent / "docs" / "reproduction.md").write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
