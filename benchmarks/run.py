"""Run the benchmarks, or only write their committed results up in ``docs/benchmarks.md``.

python benchmarks/run.py                 # everything, then the page (MERCER_DATA for real data)
python benchmarks/run.py step_cost       # one of them, then the page
python benchmarks/run.py --write         # only the page
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    "suite",
    "messy",
    "explanations",
    "step_cost",
    "throughput",
    "stream_killed",
    "start_up",
    "first_fit",
    "memory",
    "multidist",
    "command_line",
    "mnist",
    "defaults",
    "default_learner",
    "default_memory",
    "series",
    "kernel_adaptive_filters",
    "streams",
    "drift",
    "threads",
    "jobs",
    "cluster",
    "cluster_faults",
    "random_features",
    "random_features_defaults",
    "scaling",
    "losses",
    "risks",
    "pairs",
    "pairs_memory",
)
#: Tables that a script of another name prints.
ORIGINS = {
    "suite_sets": "suite",
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
}
TITLES = {
    "suite": "Many tables, untuned",
    "suite_sets": "Many tables, untuned: table by table",
    "messy": "Text, dates, categories and gaps, untuned",
    "explanations": "Which columns matter",
    "multidist": "POLK, Table 2: the planar mixture",
    "multidist_budget": "The same with budgets (BSGD)",
    "command_line": "The command line, untuned",
    "mnist": "MNIST",
    "defaults": "Defaults, untuned, one pass",
    "default_learner": "The default learner: targets",
    "default_learner_lost": "The default learner: cases lost",
    "default_learner_small": "The default learner on few rows",
    "default_learner_all": "The default learner and its peers",
    "default_memory": "The default learner: ten million rows",
    "series": "The default learner: rows in order",
    "kernel_adaptive_filters": "Kernel adaptive filters: Lorenz",
    "adaptive_filters_glass": "Kernel adaptive filters: Mackey-Glass",
    "adaptive_filters_switch": "Kernel adaptive filters: a channel that switches",
    "adaptive_filters_speed": "Kernel adaptive filters: cost",
    "streams": "Streams that change",
    "streams_numbers": "Streams that change: numbers",
    "drift_false": "Detectors of changes: false alarms",
    "drift_delay": "Detectors of changes: delays",
    "step_cost": "Cost of a mini-batch of 32 rows",
    "threads": "One BLAS thread and two",
    "jobs": "One core and two",
    "cluster_engines": "Many workers: engines",
    "cluster_faults": "Many workers: killed",
    "cluster_scale": "Many workers: rows a second and memory",
    "cluster_grow": "Many workers: error against rows",
    "cluster_steps": "Many workers: models that make steps",
    "cluster_simulated": "Many workers: a model of large clusters",
    "throughput": "Streams",
    "row_calls": "One row per Python call",
    "stream_killed": "A stream killed again and again",
    "start_up": "Starting up",
    "first_fit": "First calls",
    "memory": "Memory on an endless stream",
    "random_features_defaults": "KOMP and random features, untuned",
    "scaling": "Units of inputs and targets",
    "random_features": "Cost of random features",
    "random_feature_errors": "Error of random features",
    "losses": "Quantiles, untuned",
    "quantiles_suite": "Quantiles of the suite, untuned",
    "counts": "Counts, untuned",
    "risks": "Risks, untuned, one pass",
    "pairs": "Pairs: cost of a row",
    "pairs_memory": "Pairs: memory on an endless stream",
    "gpu": "Random features on a GPU",
}
HEAD = """# Benchmarks

Every number on this page was printed by a script in `benchmarks/` and is written here by
`python benchmarks/run.py`. Times are CPU seconds of the process; machines differ, so compare
numbers of one table with each other, not with other pages.
"""


def page():
    """Text of docs/benchmarks.md from the committed results."""
    sys.path.insert(0, str(HERE))
    import _common

    parts = [HEAD]
    for name, title in TITLES.items():
        file = HERE / "results" / f"{name}.json"
        if not file.exists():
            continue
        record = json.loads(file.read_text())
        script = HERE / f"{ORIGINS.get(name, name)}.py"
        words = script.read_text().split('"""')[1].strip()
        machine = ", ".join(f"{k} {v}" for k, v in record["environment"].items())
        parts.append(f"## {title}\n\n{words}\n\n{_common.markdown(record['rows'])}\n")
        if record["note"]:
            parts.append(record["note"] + "\n")
        parts.append(f"*{script.name}; {machine}*\n")
    return "\n".join(parts)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("scripts", nargs="*", help="which to run; all, if none is named")
    parser.add_argument("--write", action="store_true", help="write the page, and run nothing")
    arguments = parser.parse_args()
    if not arguments.write:
        for script in arguments.scripts or SCRIPTS:
            print(f"-- {script}", flush=True)
            options = ["--svc"] if script == "mnist" and not arguments.scripts else []
            subprocess.run([sys.executable, str(HERE / f"{script}.py"), *options], check=True)
    (HERE.parent / "docs" / "benchmarks.md").write_text(page())


if __name__ == "__main__":
    main()
