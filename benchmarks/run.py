"""Run the benchmarks, or only write their committed results up in ``docs/benchmarks.md``.

python benchmarks/run.py                 # everything, then the page (MERCER_DATA for real data)
python benchmarks/run.py step_cost       # one of them, then the page
python benchmarks/run.py --write         # only the page
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import _common

HERE = Path(__file__).parent
SCRIPTS = (
    "at_a_glance",
    "suite",
    "messy",
    "last_factors",
    "earlier",
    "intervals",
    "explanations",
    "step_cost",
    "throughput",
    "stream_killed",
    "start_up",
    "first_fit",
    "wide_tables",
    "memory",
    "multidist",
    "command_line",
    "mnist",
    "defaults",
    "default_learner",
    "default_memory",
    "series",
    "in_time",
    "kernel_adaptive_filters",
    "streams",
    "drift",
    "threads",
    "jobs",
    "cluster",
    "cluster_faults",
    "random_features",
    "random_features_defaults",
    "random_features_chosen",
    "scaling",
    "losses",
    "means",
    "risks",
    "risk_steps",
    "pairs",
    "pairs_memory",
    "bounds",
    "recipes",
)
#: What the page shows, in its order: groups of tables, each with its title and what it says.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Tables": {
        "at_a_glance": ("At a glance", ""),
        "suite": (
            "Many tables, untuned",
            "How accurate are answers if nobody tunes anything? Errors are compared table by "
            "table. An error of 1.2 is a fifth more than mercer's.",
        ),
        "suite_ratings": (
            "Many tables, untuned: ratings by size",
            "Who is best on small tables, and who on large ones? The best of a group come first.",
        ),
        "suite_sets": (
            "Many tables, untuned: table by table",
            "The same for each table. Those on which mercer is furthest behind come first.",
        ),
        "messy": (
            "Text, dates, categories and gaps, untuned",
            "How accurate are answers on tables as people have them?",
        ),
        "last_factors": (
            "Rules, thresholds, few of many, wide and clean",
            "How near are errors to the least possible where that is known?",
        ),
        "earlier": (
            "The default now and before",
            "What a fit and an answer cost, how large models are, and what that did to errors.",
        ),
        "earlier_sets": ("The default now and before: table by table", "The same for each table."),
        "intervals": (
            "Intervals, untuned",
            "Do nine of ten intervals of 90 % hold the truth, and how wide are they?",
        ),
        "intervals_sets": ("Intervals, untuned: table by table", "The same for each table."),
        "intervals_draws": (
            "Intervals of few rows, subjects and series",
            "Do intervals of 90 % hold the truth where rows are few, or depend on each other?",
        ),
        "class_sets": (
            "Sets of classes, untuned",
            "Do nine of ten sets of classes hold the true one, and how many classes are in them?",
        ),
        "class_sets_sets": (
            "Sets of classes, untuned: table by table",
            "The same for each table.",
        ),
        "probabilities": (
            "Probabilities, untuned",
            "Of the rows that get 70 %, do seven in ten come true?",
        ),
        "explanations": (
            "Which columns matter",
            "Are columns in the order that permuting them on test rows gives?",
        ),
        "importances_seeds": (
            "Which columns matter, by two seeds",
            "Do two models of the same rows tell the same?",
        ),
        "default_learner_all": (
            "The default learner and its peers",
            "Errors, time, memory and size of each method on each set.",
        ),
        "default_learner_small": (
            "The default learner on few rows",
            "If there are only 1,000 or 10,000 rows, a support vector machine (SVC) is the method "
            "to beat.",
        ),
        "default_learner_lost": (
            "The default learner: cases lost",
            "Each measure by which one of the methods is better than mercer's default.",
        ),
        "default_learner": (
            "The default learner: targets",
            "What was aimed at before it was measured, and what came out.",
        ),
        "series": (
            "The default learner: rows in order",
            "Where neighbours are alike, rows between those learned are easy to predict. Later "
            "ones are not.",
        ),
        "in_time": (
            "Tables in the order of time",
            "Learned from the first four fifths, judged on the last: how accurate are answers on "
            "what comes later?",
        ),
        "scaling": (
            "Units of inputs and targets",
            "Metres or kilometres: does it matter in which unit a column is?",
        ),
        "command_line": (
            "The command line, untuned",
            "What `mercer fit` makes of three files.",
        ),
    },
    "Streams": {
        "streams": (
            "Streams that change",
            "Classes, row by row. Each row is answered first and learned then.",
        ),
        "streams_numbers": ("Streams that change: numbers", "The same with numbers to predict."),
        "drift_false": (
            "Detectors of changes: false alarms",
            "How often is a change reported where there is none?",
        ),
        "drift_delay": (
            "Detectors of changes: delays",
            "How many rows after a change is it reported?",
        ),
        "kernel_adaptive_filters": (
            "Kernel adaptive filters: Lorenz",
            "A chaotic series without noise, from the literature of signal processing.",
        ),
        "adaptive_filters_glass": (
            "Kernel adaptive filters: Mackey-Glass",
            "A chaotic series with noise.",
        ),
        "adaptive_filters_switch": (
            "Kernel adaptive filters: a channel that switches",
            "What is learned changes half-way.",
        ),
        "adaptive_filters_speed": ("Kernel adaptive filters: cost", "How many rows a second?"),
    },
    "Time and memory": {
        "first_fit": (
            "First calls",
            "The first call of a kind compiles machine code, once. How long does that take?",
        ),
        "start_up": ("Starting up", "How long until a command answers?"),
        "row_calls": (
            "One row per Python call",
            "What does a single row cost, and how much of that is the call itself?",
        ),
        "throughput": ("Rows a second on streams", "One by one, and in batches."),
        "jobs": ("One core and two", "How much time does a second core save?"),
        "wide_tables": (
            "Thousands of columns",
            "What does a table of up to 5,000 columns take to learn, and a row to answer?",
        ),
        "threads": (
            "One BLAS thread and two",
            "Why the library of linear algebra gets one thread.",
        ),
        "default_memory": (
            "The default learner: ten million rows",
            "Neither memory nor the cost of a row must grow with the rows.",
        ),
        "memory": ("Memory on an endless stream", "The same for KOMP."),
        "stream_killed": (
            "A stream killed again and again",
            "A run that is killed and begun again must end in the same model.",
        ),
    },
    "Many workers": {
        "cluster_engines": ("Many workers: engines", "The same data by each engine."),
        "cluster_faults": ("Many workers: killed", "What happens when workers die."),
        "cluster_scale": (
            "Many workers: rows a second and memory",
            "How time and memory grow with the rows.",
        ),
        "cluster_grow": ("Many workers: error against rows", "What is gained by more rows?"),
        "cluster_steps": (
            "Many workers: models that make steps",
            "Other losses than squares, on data that lie in several places.",
        ),
        "cluster_simulated": (
            "Many workers: a model of large clusters",
            "No measurement: what a model says of clusters that we do not have.",
        ),
    },
    "Other losses, risks, pairs": {
        "losses": ("Quantiles, untuned", "Bands that should hold 80 % of the rows."),
        "quantiles_suite": ("Quantiles of the suite, untuned", "The same on more tables."),
        "counts": ("Counts, untuned", "Numbers of events, whose rate is known here."),
        "means": (
            "Means, untuned",
            "Do chances of a rare class, and counts, add up to what there was?",
        ),
        "risks": (
            "Risks, untuned, one pass",
            "If you care more for the worst errors than for the mean: what is gained, what does it "
            "cost?",
        ),
        "risk_steps": (
            "Risks: cost of a row",
            "Does a step under a risk cost more than one of the mean?",
        ),
        "pairs": ("Pairs: cost of a row", "Learning from pairs of rows, one row at a time."),
        "pair_matrices": (
            "Pairs: cost of a row, where the function is a matrix",
            "Pair kernels of second order, with 10 inputs and 100 points.",
        ),
        "pairs_memory": ("Pairs: memory on an endless stream", "Memory must stay flat."),
    },
    "Parts and papers": {
        "recipes": (
            "The papers' algorithms by name",
            "Each with the settings of its paper, beside what the library does by itself.",
        ),
        "defaults": (
            "KOMP untuned, one pass",
            "KOMP chooses some numbers by itself. What are they worth? This is not the default "
            "learner, which does not make steps.",
        ),
        "random_features_defaults": (
            "KOMP and random features, untuned",
            "Two ways to keep a model small: up to 1,000 points, or as many features as it "
            "chooses.",
        ),
        "mnist": (
            "MNIST",
            "Handwritten digits with the settings of the paper on POLK, beside budgets and peers.",
        ),
        "multidist": (
            "POLK, Table 2: the planar mixture",
            "The first experiment of the paper on POLK.",
        ),
        "multidist_budget": (
            "The same with budgets (BSGD)",
            "The methods that the paper compares with.",
        ),
        "step_cost": (
            "Cost of a mini-batch of 32 rows",
            "What does a step of KOMP cost, beside simpler ways to compute it?",
        ),
        "random_features": (
            "Cost of random features",
            "How long does a feature take, beside the matrix product that it needs?",
        ),
        "random_feature_errors": (
            "Error of random features",
            "How near do so many features come to the kernel?",
        ),
        "bounds": (
            "Bounds of the papers",
            "How far are the theorems from what happens?",
        ),
        "random_features_chosen": (
            "Random features that rows choose",
            "At an equal number of features: drawn without looking at the rows, drawn by leverage "
            "scores, or refined by gradients.",
        ),
        "gpu": ("Random features on a GPU", "Rows a second on a graphics processor."),
    },
}
TITLES = {name: words for tables in GROUPS.values() for name, words in tables.items()}
HEAD = """# Benchmarks

How accurate is mercer, how fast and how large, beside what you might take instead? The first table
answers in short. All others follow, with the cases that are lost.

Scripts in `benchmarks/` print every number, and `python benchmarks/run.py` writes them here. Words
such as {term}`coverage` or {term}`model order` are [explained](glossary.md).

**How to read the tables**

- Times are CPU seconds of one thread, unless the table says otherwise.
- Machines differ. So compare numbers of one table with each other, not with other pages.
- Numbers after ± are standard errors, unless the text says otherwise. Differences of that size
  mean nothing.
- "Untuned" means that every method has its default settings. If some were changed nonetheless, the
  text beside the table says so.
- An error called "MSE / variance" is the mean squared error, divided by the variance of the
  targets. 1 is the error of always saying the mean.

**Why does one method have two numbers on one set?** Because the tables ask different questions.

- *Columns.* In *many tables* the methods get the columns as they come. Only SVC, xRFM and networks
  get standardised ones. In *the default learner and its peers* all methods get standardised
  columns.
- *Splits.* On up to 1,000 rows, the tables of *the default learner* have ten random splits, and
  *many tables* have three. *At a glance* has one.
- *Files.* *The command line* reads files, counts the time for reading, and has one split.
- *Methods.* Tables of *KOMP* and of the papers are about those methods, not about the default
  learner.
- *Days.* Times were taken on different days, on machines that others used as well. Between tables
  they differ by up to a factor of two.
"""


def anchor(title):
    """The name of a heading in links."""
    return re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-")


def contents(known):
    """A list of the tables that are known, group by group."""
    lines = []
    for group, tables in GROUPS.items():
        links = [
            f"[{title}](#{anchor(title)})" for name, (title, _) in tables.items() if name in known
        ]
        lines.append(f"| {group} | {' · '.join(links)} |")
    return "| | |\n|---|---|\n" + "\n".join(lines) + "\n"


def page():
    """Text of docs/benchmarks.md from the committed results."""
    records = {name: record for name in TITLES if (record := _common.table(name))}
    parts, told = [HEAD, contents(records)], {}
    for group, tables in GROUPS.items():
        parts.append(f"## {group}\n")
        for name, (title, says) in tables.items():
            if name not in records:
                continue
            record = records[name]
            script = _common.ORIGINS.get(name, name)
            parts.append(f"### {title}\n")
            parts.append(f"{says}\n" if says else "")
            if script in told:  # one script, several tables: how it was measured is said once
                first = told[script]
                parts.append(f"How it was measured: see [{first}](#{anchor(first)}).\n")
            else:
                told[script] = title
                words = (HERE / f"{script}.py").read_text().split('"""')[1]
                parts.append(words.strip() + "\n")
            note = record["note"] + "\n\n" if record["note"] else ""
            table = f"{_common.markdown(record['rows'])}\n\n{note}"
            # Other pages include what stands between the marks.
            parts.append(f"<!-- {name} -->\n\n{table}<!-- end of {name} -->\n")
            machine = ", ".join(f"{k} {v}" for k, v in record["environment"].items())
            parts.append(f"*{script}.py; {machine}*\n")
    return "\n".join(part for part in parts if part)


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
