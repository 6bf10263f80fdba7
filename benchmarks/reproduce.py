"""Run the papers' experiments and write docs/reproduction.md from their results.

    python benchmarks/reproduce.py            # all (long; needs the data directory)
    python benchmarks/reproduce.py dsg-adult  # some, and the page again
    python benchmarks/reproduce.py --write    # only the page and the times

Results are kept in ``benchmarks/results/reproduction.jsonl``, a line for each experiment, and the
figures in ``benchmarks/results/reproduction``. The page has nothing that is not in them, but for
what the table of all things in the papers says (``src/mercer_reproduction/things.csv`` and the
catalogue of ``mercer reproduce --list``), and the numbers that the papers print. The times that
the list shows are theirs, too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import _common
import _reproduction_openings

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "reproduction.jsonl"
FIGURES = HERE / "results" / "reproduction"
ESTIMATES = HERE / "results" / "reproduction_estimates.json"
PAGE = HERE.parent / "docs" / "reproduction.md"
TIMES = HERE.parent / "src" / "mercer_reproduction" / "run_times.json"
HEAD = """# Reproduction of the papers

This library implements the methods of four papers. This page lists everything in these papers, and
whether it is in the library. Then it repeats their tables and figures with the library. For each
one it says whether the paper's result was found again.

- `mercer reproduce` lists the experiments. `mercer reproduce NAME` runs one of them.
- Every number of ours comes from `benchmarks/results/reproduction.jsonl`. A run of the experiment
  wrote its line there.
- `python benchmarks/reproduce.py` writes this page from that file.
- Times are CPU seconds of the process on one thread. Compare them only within one table.

The four papers, by the names that this page uses:

{papers}

Words that stand in many tables:

- **POLK** also names the first paper's learner. It adds a point to its model with each row. Then it
  removes points as long as the learned function changes by no more than a tolerance. **K** is a
  factor of that tolerance: the larger it is, the fewer points stay.
- **COLK** also names the second paper's learner. It minimises a *risk*: the mean of the losses plus
  a penalty on their spread or on the worst of them.
- **DSG** stands for the third paper's *doubly stochastic gradients*. Each step draws some rows and
  some [random features](glossary.md) at random. `newton`, `cyclic`, `plain` and `faithful` are
  modes of it in this library: `plain` and `faithful` take the steps as the paper prints them.
- **Model order** and **points**: the number of rows that a model keeps to make predictions.
- **BSGD** is budgeted stochastic gradient descent. It keeps at most a given number of points, its
  budget. When there are too many, it removes one, projects one on the others, or merges two.
  **NPBSGD** is a variant whose removals are random.
- **LIBSVM**, **L-BFGS** and **IVM** (the import vector machine) are solvers that see all rows at
  once.
- **NORMA** and **k-SDCA** are solvers with the exact kernel. Names with **r-** use a fixed number
  of random features. Names with **n-** use a fixed number of landmarks (Nystroem's method).
- **SC1** compares methods after the same number of passes over the rows. **SC2** compares them
  after the same CPU time.
- **Clean MSE**: the mean squared error to the true function, without noise. **RMSE** is the root of
  a mean squared error.
- **Bayes error**: the error of the best rule there is, which knows how the data were drawn.
- **Huber(1)** and **Huber(.1)**: Huber's loss, which grows only linearly above the number in
  brackets. It is a robust loss: single wrong labels move the model little.
- **AUC** and other general words are explained in the [glossary](glossary.md).
"""
THINGS = """## What of the papers is here

These tables have everything in the papers: every algorithm, equation, variant, rule for a
parameter, bound, loss, task, experiment, table and figure. Propositions that only serve a proof
have no row. The states mean:

{states}

"Found, with changes" says that what the paper says was found, with other data or settings than
those of the paper. The column `where` has what you type: `recipes.polk` is `mercer.recipes.polk`,
and `KernelRanker(loss=)` is the parameter `loss` of `mercer.KernelRanker`. The column `checked`
links to tests, and to the experiments below.

{counts}
"""
EXPERIMENTS = """## Experiments

`mercer reproduce NAME` runs one of them. `mercer reproduce --list` tells of each table and figure
what became of it, and with which data. Minutes are CPU minutes of a full run on one thread. "~"
marks an estimate, whose source is in `benchmarks/results/reproduction_estimates.json`.

{table}
"""
TARGETS = """## Targets

A target is a number that we set out to reach in a full run. A target that was not reached is called
missed here. Most targets are our own. Where the paper prints a number for the same thing, it stands
in the column `paper`. Two rows with the same name give a lower and an upper limit.
"""


def runs():
    """Records by the names of their experiments."""
    return _common.Runs(RESULTS, "name")


def run(name):
    """Run an experiment and keep its record and figures; whether it went well."""
    # Always the same folder: a long run that was stopped goes on from there.
    folder = Path(tempfile.gettempdir()) / f"mercer-reproduce-{name}"
    command = ["from mercer_app.cli import main; main()", "reproduce", name]
    options = ["--out", str(folder), "--no-svg"]
    done = subprocess.run([sys.executable, "-c", *command, *options], check=False)
    if done.returncode != 0:
        return False
    for file in folder.iterdir():
        if file.suffix == ".json":
            runs().add(json.loads(file.read_text()))
        else:
            shutil.copy(file, FIGURES / file.name)
    shutil.rmtree(folder)
    return True


def results():
    """Records of the full runs there are, in the order of the experiments."""
    from mercer_reproduction import experiments

    kept = runs().all()
    return [kept[experiment.name] for experiment in experiments() if experiment.name in kept]


def run_times(records, estimates):
    """CPU minutes of each run, as recorded; of older records without them an estimate."""
    times = {}
    for record in records:
        seconds = record.get("cpu_seconds")
        minutes = estimates[record["name"]]["cpu_minutes"] if seconds is None else seconds / 60
        times[record["name"]] = {"cpu_minutes": round(minutes, 2), "exact": seconds is not None}
    return times


def links(records):
    """Links to the sections of the experiments that were run, by their names."""
    return {record["name"]: f"[{record['name']}](#{record['name']})" for record in records}


def counts():
    """Rows of the table of how many things of each paper have which state."""
    from mercer_reproduction._catalogue import PAPERS
    from mercer_reproduction._things import STATES, things

    found = Counter((thing.paper, thing.state) for thing in things())
    rows = [{"paper": paper} | {state: found[paper, state] for state in STATES} for paper in PAPERS]
    rows.append({"paper": "all"} | {state: sum(row[state] for row in rows) for state in STATES})
    return [row | {"all": sum(row[state] for state in STATES)} for row in rows]


def thing_rows(paper, records):
    """Rows of the table of the things of a paper."""
    from mercer_reproduction._things import things

    linked = links(records)
    return [
        {
            "place": thing.place,
            "what": thing.what,
            "state": f"**{thing.state}**",
            "where": ", ".join(f"`{name}`" for name in thing.where) or "-",
            "checked": ", ".join(
                [f"[{Path(name).stem}](../tests/{name})" for name in thing.tests]
                + [linked.get(name, name) for name in thing.experiments]
            )
            or "-",
            "why": thing.why or "-",
        }
        for thing in things()
        if thing.paper == paper
    ]


def experiment_rows(records):
    """Rows of the table of experiments, with what they repeat, need and take."""
    from mercer_reproduction import experiments
    from mercer_reproduction._catalogue import CATALOGUE, OWN_STUDIES, data_sets, run_minutes
    from mercer_reproduction.command._catalogue_view import minutes_in_words

    linked = links(records)
    rows = []
    for experiment in experiments():
        name = experiment.name
        places = [f"{item.paper} {item.place}" for item in CATALOGUE if name in item.experiments]
        own = f"our own study: {OWN_STUDIES[name]}" if name in OWN_STUDIES else ""
        rows.append(
            {
                "experiment": linked.get(name, name),
                "repeats": ", ".join(places) or own,
                "data": data_sets(experiment.needs_data) or "-",
                "minutes": minutes_in_words(*(run_minutes((name,)) or (None, None))),
            }
        )
    return rows


def kinds_of_noise():
    """Name the kinds of noise that stand as letters in the tables of COLK."""
    from mercer_reproduction._colk_data import SETTINGS

    kinds = "\n".join(f"- **{letter}**: {kind.title}." for letter, kind in SETTINGS.items())
    return f"""The kinds of noise (sd: standard deviation; N(0, 25): normal with mean 0 and variance
25; t(2.5): Student's t with 2.5 degrees of freedom; +5: always 5 upwards; +5 Exp(1): upwards by 5
times an exponential variable). A percentage is the share of rows that are outliers:

{kinds}
"""


def page():
    """Text of docs/reproduction.md from the committed results."""
    from mercer_reproduction._paper_numbers import beside_ours

    records = results()
    if not records:
        return HEAD + "\nNo experiment has been run with its full settings yet.\n"
    from mercer_reproduction._catalogue import PAPERS
    from mercer_reproduction._things import STATES

    head = HEAD.format(
        papers="\n".join(f"- **{name}**: {title}." for name, title in PAPERS.items()),
    )
    lead = THINGS.format(
        states="\n".join(f"- **{state}**: {meaning}." for state, meaning in STATES.items()),
        counts=_common.markdown(counts()),
    )
    columns = ("name", "measured", "paper", "target", "met")
    targets = [
        {"experiment": f"[{record['name']}](#{record['name']})"}
        | {column: target.get(column, "-") for column in columns}
        for record in records
        for target in record["targets"]
    ]
    parts = [head, lead]
    for paper, title in PAPERS.items():
        table = _common.markdown(thing_rows(paper, records))
        parts.append(f"### {paper}\n\n{title}.\n\n{table}\n")
    parts.append(EXPERIMENTS.format(table=_common.markdown(experiment_rows(records))))
    parts.append(f"{TARGETS}\n{_common.markdown(targets)}\n")
    for record in records:
        machine = ", ".join(f"{k} {v}" for k, v in record["environment"].items())
        parts.append(f"## {record['name']}\n\n**{record['title']}** ({record['place']}).")
        opening = _reproduction_openings.OPENINGS[record["name"]]
        parts.append(f"\n**What the paper claims.** {opening.claim}\n")
        parts.append(f"**What was run.** {opening.run}\n")
        parts.append(f"**What came out.** {opening.outcome}\n")
        if record["name"] == "colk-fig2":
            parts.append(kinds_of_noise())
        parts.append("**Settings and remarks**, in the words that the run recorded:\n")
        parts += [note + "\n" for note in record["notes"]]
        parts.append(f"**Results:**\n\n{_common.markdown(record['rows'])}\n")
        if numbers := beside_ours(record["name"], record["rows"]):
            parts.append(f"The paper's numbers beside ours:\n\n{_common.markdown(numbers)}\n")
        parts += [
            f"![{figure['caption']}](../benchmarks/results/reproduction/{figure['file']})\n"
            for figure in record["figures"]
        ]
        parts.append(f"*`mercer reproduce {record['name']} --seed {record['seed']}`; {machine}*\n")
    return "\n".join(parts)


def main(arguments):
    from mercer_reproduction import experiments

    names = arguments or [experiment.name for experiment in experiments()]
    failed = [] if "--write" in arguments else [name for name in names if not run(name)]
    times = run_times(results(), json.loads(ESTIMATES.read_text()))
    TIMES.write_text(json.dumps(times, indent=1) + "\n")
    # In a process of its own: the times are read once.
    write = "import reproduce; reproduce.PAGE.write_text(reproduce.page())"
    subprocess.run([sys.executable, "-c", write], check=True, cwd=HERE)
    if failed:
        sys.exit(f"failed, or left out for want of data: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
