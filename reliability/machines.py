"""The same fits as on other processors, BLAS kernels, threads and versions: what differs?

*Configurations.* A process for each lets models of every family learn the same rows, saves them and
asks them about others: all at once, and one by one. Then it asks the models that the first process
has saved. Processors are those of `.ci/processors.py`: Numba compiles for them, OpenBLAS and NumPy
take their loops. The oldest packages are those that `.ci/oldest.py --make` installs.

*The promises.* On one machine, answers and files have the same bits: in another process, where text
hashes differently, fresh memory holds other bytes and models come in another order; compiled anew;
on any number of threads. A model from a file answers elsewhere as it did, and a row by itself as
among others, but for a 1e-9th of the spread of the answers. All answers are finite.

*What is only told.* A model that learns elsewhere rounds differently, and where two pilots are
equally good another one may win. So the table says how far its answers are, as a share of their
spread, and what becomes of the error (1 - `score`) on new rows.

To run it (Linux):

    python reliability/machines.py                   # long
    python reliability/machines.py --oldest FOLDER   # and with the oldest packages, made there
    python reliability/machines.py --short           # seconds: nothing but this machine
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import _rig  # one thread, before numpy reads the variables
import numpy as np
import pandas as pd

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelGradient,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.expansions import KOMP, Auto, Budget, Dictionary, RandomFeatures, Stream, Tracking
from mercer.kernels import Gaussian
from mercer.losses import Quantile

sys.path.insert(0, str(_rig.ROOT / ".ci"))
oldest, processors = map(importlib.import_module, ("oldest", "processors"))

#: How far a model from a file, or a row by itself, may be from what was answered, in spreads.
TOLERANCE = 1e-9
FIRST, N_ASKED, N_ALONE = "first", 1000, 20
WIDTH = 6
TOWNS = np.array(["Aarau", "Bern", "Brig", "Chur", "Genf", "Olten", "Thun", "Zug"])
KERNEL = Gaussian(1.5)
SMALL = KOMP(max_size=100)
Rows = dict[str, Any]
Answers = dict[str, np.ndarray]

# -- models ---------------------------------------------------------------------------------------


def fit(model: Any, rows: Rows, family: Family) -> None:
    model.fit(rows[family.rows], rows[family.target])


def stream(model: Any, rows: Rows, family: Family) -> None:
    X, y = rows[family.rows], rows[family.target]
    options = {"classes": [0, 1, 2]} if family.target == "classes" else {}
    for start in range(0, len(X), 40):
        model.partial_fit(X[start : start + 40], y[start : start + 40], **options)


def fit_alone(model: Any, rows: Rows, family: Family) -> None:
    model.fit(rows["X"])


def fit_transitions(model: Any, rows: Rows, family: Family) -> None:
    X = rows["X"]
    model.fit(X[:-1], rows["y"][:-1], X[1:])


def fit_samples(model: Any, rows: Rows, family: Family) -> None:
    X, half = rows["X"], len(rows["X"]) // 2
    model.fit(X[:half], X[half:] + 0.3)


def fit_differences(model: Any, rows: Rows, family: Family) -> None:
    model.fit(rows["X"], rows["y"])


class Family(NamedTuple):
    """A model, and what it learns of the rows; without a target it has no error."""

    make: Callable[[], Any]
    target: str = ""
    learn: Callable[[Any, Rows, Family], None] = fit
    rows: str = "X"
    many: bool = False


regressor = partial(partial, KernelRegressor, random_state=0)
classifier = partial(partial, KernelClassifier, random_state=0)
FAMILIES = {
    "default": Family(regressor(), "y"),
    "default, classes": Family(classifier(), "classes"),
    "default, float32": Family(regressor(), "y", rows="float32"),
    "default, a table with text, dates and gaps": Family(regressor(), "priced", rows="frame"),
    "default, many rows": Family(regressor(), "y", many=True),
    "default, many rows, classes": Family(classifier(), "classes", many=True),
    "default, many rows in little memory": Family(
        regressor(expansion=Auto(max_memory=2**21)), "y", many=True
    ),
    "default, quantiles": Family(regressor(Quantile([0.1, 0.9])), "y"),
    "default, counts": Family(regressor("poisson"), "counts"),
    "default, risk": Family(regressor(risk="cvar:0.9"), "y"),
    "default of streams": Family(regressor(expansion=Stream()), "y", stream),
    "default of streams, classes": Family(classifier(expansion=Stream()), "classes", stream),
    "KOMP": Family(regressor(expansion=SMALL), "y"),
    "KOMP, classes": Family(classifier(kernel=KERNEL, expansion=SMALL), "classes", stream),
    "budget, merging": Family(regressor(kernel=KERNEL, expansion=Budget(60)), "y"),
    "budget, projecting": Family(
        regressor("huber", kernel=KERNEL, expansion=Budget(60, "project")), "y"
    ),
    "dictionary": Family(regressor(expansion=Dictionary(200)), "y"),
    "dictionary, float32, classes": Family(
        classifier(expansion=Dictionary(200, precision="single")), "classes"
    ),
    "random features, by steps": Family(regressor(expansion=RandomFeatures(128)), "y"),
    "random features, solved": Family(regressor(expansion=RandomFeatures(128, mode="solve")), "y"),
    "adaptive filter": Family(
        regressor(kernel=KERNEL, expansion=Tracking(60, forgetting=1.0)), "y", stream
    ),
    "ranker": Family(partial(KernelRanker, kernel=KERNEL, expansion=SMALL, random_state=0), "y"),
    "novelty": Family(
        partial(NoveltyDetector, kernel=KERNEL, expansion=SMALL, random_state=0), learn=fit_alone
    ),
    "density ratio": Family(
        partial(DensityRatio, kernel=KERNEL, expansion=SMALL, n_passes=2, random_state=0),
        learn=fit_samples,
    ),
    "value function": Family(
        partial(ValueFunction, 0.8, "gtd2", kernel=KERNEL, expansion=SMALL, random_state=0),
        learn=fit_transitions,
    ),
    "gradient": Family(
        partial(KernelGradient, kernel=KERNEL, expansion=SMALL, n_passes=2, random_state=0),
        learn=fit_differences,
    ),
    "Gaussian process": Family(
        partial(GaussianProcessRegressor, KERNEL, n_features=300, random_state=0), "y"
    ),
}
ASKING = ("decision_function", "predict_proba", "score_samples", "log_ratio", "predict")


def made_rows(n: int) -> Answers:
    """All rows. They are made once: sines, too, have other last digits on other processors."""
    rng = np.random.default_rng(51)
    X = rng.normal(size=(n, WIDTH)) * [1.0, 1.0, 1.0, 3.0, 1.0, 0.1]
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) / 3.0 + (X[:, 4] > 0.5)
    y = f + 0.3 * rng.normal(size=n)
    town, day = rng.integers(len(TOWNS), size=n), rng.integers(700, size=n)
    gaps = np.where(rng.random(n) < 0.1, np.nan, X[:, 0])
    priced = y + 0.3 * town + np.cos(day / 58.0)
    counts = rng.poisson(np.exp(f / 3.0))
    days = np.datetime64("2024-01-01") + day
    said = {"X": X, "y": y, "classes": np.digitize(f, [0.5, 2.0]), "counts": counts}
    return {**said, "priced": priced, "gaps": gaps, "town": TOWNS[town], "day": days}


def part(found: Answers, rows: slice) -> Rows:
    """Some rows, in all the forms that models learn."""
    some: Rows = {name: values[rows] for name, values in found.items()}
    some["float32"] = some["X"].astype(np.float32)
    columns = {"width": some["X"][:, 1], "depth": some["X"][:, 2], "jump": some["X"][:, 4]}
    named = {name: some[name] for name in ("gaps", "town", "day")}
    some["frame"] = pd.DataFrame({**named, **columns})
    return some


def asked(model: Any, X: Any) -> Answers:
    """All that a model answers."""
    methods = [method for method in ASKING if hasattr(model, method)]
    said = {method: np.asarray(getattr(model, method)(X)) for method in methods}
    if isinstance(model, GaussianProcessRegressor):
        said["deviation"] = model.predict(X, return_std=True)[1]
    elif getattr(model, "expansion", "") == "auto" and getattr(model, "loss", "") == "squared":
        said["interval"] = model.predict_interval(X)
    return said


# -- a process ------------------------------------------------------------------------------------


def answer(name: str, folder: Path, one: dict[str, Any]) -> Answers:
    """Learn and save a model; what it answers, and what that of the first process does."""
    family, own = FAMILIES[name], folder / one["name"] / f"{name}.mercer"
    with np.load(folder / "rows.npz") as found:
        everything = dict(found)
    n = len(everything["y"]) - N_ASKED
    new = part(everything, slice(n, None))
    X, jobs = new[family.rows], {"n_jobs": one["jobs"]}
    model = family.make().set_params(**jobs)
    family.learn(model, part(everything, slice(n if family.many else one["few"])), family)
    model.save(own)
    known = load_model(folder / FIRST / own.name).set_params(**jobs)
    alone = [asked(model, X[i : i + 1]) for i in range(N_ALONE)]
    said = {
        "learned": asked(model, X),
        "loaded": asked(known, X),
        "alone": {method: np.concatenate([a[method] for a in alone]) for method in alone[0]},
        "file": {"bytes": np.frombuffer(own.read_bytes(), np.uint8)},
    }
    if family.target:
        said["error"] = {"1 - score": np.array(1.0 - model.score(X, new[family.target]))}
    return {f"{way}/{method}": v for way, answers in said.items() for method, v in answers.items()}


def child(one: dict[str, Any]) -> int:
    """Answer with all models, as one of the configurations."""
    warnings.simplefilter("ignore")
    folder = Path(one["folder"])
    (folder / one["name"]).mkdir()
    for name in one["families"]:
        try:
            np.savez(folder / one["name"] / f"{name}.npz", **answer(name, folder, one))
        except Exception:
            print(f"{one['name']}, {name}:\n{traceback.format_exc()}", flush=True)
    return 0


# -- configurations -------------------------------------------------------------------------------


class Configuration(NamedTuple):
    """What is other than in the first process; ``column`` is empty for the same bits."""

    name: str
    environment: dict[str, str]
    column: str = ""
    jobs: int = 1
    backwards: bool = False
    python: Path = Path(sys.executable)


#: Fresh memory is filled with another byte, and Python's own objects are in it, too.
OTHERWISE = {"PYTHONHASHSEED": "7", "MALLOC_PERTURB_": "85", "PYTHONMALLOC": "malloc"}
AS_USUAL = Configuration(FIRST, {"PYTHONHASHSEED": "0"})
VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def short() -> Iterator[Configuration]:
    """What is soon tried: this machine, with all at once that may not matter."""
    yield AS_USUAL
    threads = dict.fromkeys(VARIABLES, "4")
    yield Configuration("otherwise", {**OTHERWISE, **threads}, jobs=3, backwards=True)


def long(caches: Path, packages: Path | None) -> Iterator[Configuration]:
    """All configurations that this machine can try."""
    yield AS_USUAL
    yield AS_USUAL._replace(name="again")
    yield Configuration("hashes, memory and order", OTHERWISE, backwards=True)
    yield from (Configuration(f"{jobs} jobs", {}, jobs=jobs) for jobs in (2, 4))
    yield from (Configuration(f"{name}=4", {name: "4"}) for name in VARIABLES)
    yield Configuration("compiled anew", {"NUMBA_CACHE_DIR": str(caches / "anew")})
    own = processors.own_loops()
    for name, one in processors.PROCESSORS.items():
        if lacking := processors.lacks(name):
            print(f"{name} is not tried, this processor has no {', '.join(lacking)}", flush=True)
            continue
        whole = processors.environment(one, str(caches / name))
        if one.openblas != own:
            only = {"OPENBLAS_CORETYPE": one.openblas}
            yield Configuration(f"BLAS of {name}", only, "other BLAS kernels")
        yield Configuration(f"as {name}", whole, f"as {name}")
    if packages is None:
        print("The oldest packages are not tried: no --oldest", flush=True)
        return
    python = oldest.python_of(packages.resolve())
    yield Configuration("oldest packages", {}, "oldest packages", python=python)


def run(one: Configuration, folder: Path, families: list[str], few: int) -> None:
    """Let a process answer as one of the configurations."""
    begun = time.monotonic()
    said = {
        "folder": str(folder),
        "name": one.name,
        "families": families[::-1] if one.backwards else families,
        "few": few,
        "jobs": one.jobs,
    }
    shutil.rmtree(folder / one.name, ignore_errors=True)  # what an earlier run has kept
    command = [one.python, __file__, "--child", json.dumps(said)]
    done = subprocess.run(command, env={**os.environ, **one.environment}, check=False)
    words = f", ended with {done.returncode}" if done.returncode else ""
    print(f"{one.name}: {time.monotonic() - begun:.0f} s{words}", flush=True)


# -- comparisons ----------------------------------------------------------------------------------


def read(file: Path) -> dict[str, Answers]:
    """Answers by how the model was asked; nothing where it failed."""
    ways: dict[str, Answers] = {}
    if file.exists():
        with np.load(file) as found:
            for key, values in found.items():
                way, method = key.split("/")
                ways.setdefault(way, {})[method] = values
    return ways


def all_finite(ways: dict[str, Answers]) -> bool:
    """Whether all numbers are."""
    return all(np.isfinite(v).all() for answers in ways.values() for v in answers.values())


def are_same(one: Answers, other: Answers) -> bool:
    """Whether answers have the same bits."""
    return one.keys() == other.keys() and all(
        v.dtype == other[method].dtype and v.tobytes() == other[method].tobytes()
        for method, v in one.items()
    )


def apart(one: Answers, other: Answers) -> float:
    """Largest difference of numbers, as a share of the spread of all; 0 for the same bits."""
    if are_same(one, other):
        return 0.0
    numbers = [(v, other[method]) for method, v in one.items() if v.dtype.kind == "f"]
    gaps = [float(np.abs(a - b).max() / np.ptp(a)) for a, b in numbers]
    return max([*gaps, float(np.finfo(float).tiny)])  # zeros may have other signs


def changed(one: Answers, other: Answers) -> float:
    """Percentage of labels that are others."""
    labels = [method for method, v in one.items() if v.dtype.kind != "f"]
    return 100.0 * max((float(np.mean(one[m] != other[m])) for m in labels), default=0.0)


def first_rows(answers: Answers) -> Answers:
    """Answers to the rows that are also asked alone."""
    return {method: values[:N_ALONE] for method, values in answers.items()}


def broken_by(one: Configuration, now: dict[str, Answers], first: dict[str, Answers]) -> list[str]:
    """What a model of a configuration breaks."""
    if not now or not first:
        return ["no answers"]
    said = [] if all_finite(now) else ["numbers are not finite"]
    loaded = apart(first["learned"], now["loaded"])
    alone = apart(first_rows(now["learned"]), now["alone"])
    if loaded > (TOLERANCE if one.column else 0.0):
        said.append(f"a model from a file is {loaded:.1e} apart")
    if alone > TOLERANCE:
        said.append(f"rows alone are {alone:.1e} apart")
    if not one.column:
        said += [f"other bits: {way}" for way in now if not are_same(now[way], first[way])]
    return said


def furthest(pairs: Iterable[tuple[Answers, Answers]]) -> str:
    """The largest difference, in words."""
    differences = [apart(one, other) for one, other in pairs]
    return f"{max(differences):.1e}" if any(differences) else "same bits" if differences else "-"


def compared(
    name: str, tried: list[Configuration], folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Row of the table for a family, and what is broken."""
    said = [(one, read(folder / one.name / f"{name}.npz")) for one in tried]
    first = said[0][1]
    broken = [f"{one.name}: {words}" for one, now in said for words in broken_by(one, now, first)]
    row: dict[str, Any] = {"what": name, "cases": len(tried), "broken": len(broken)}
    found = [(one.column, now) for one, now in said if first and now]
    for column in dict.fromkeys(one.column for one in tried):
        learned = ((first["learned"], now["learned"]) for c, now in found if c == column)
        row[column or "this machine"] = furthest(learned)
    row["rows alone"] = furthest((first_rows(now["learned"]), now["alone"]) for _, now in found)
    row["from a file"] = furthest((first["learned"], now["loaded"]) for _, now in found)
    errors = [(column, float(now["error"]["1 - score"])) for column, now in found if "error" in now]
    row["error"] = f"{errors[0][1]:.4g}" if errors else "-"
    if any(one.column for one in tried):
        others = [error for column, error in errors if column]
        row["error elsewhere"] = f"{min(others):.4g} to {max(others):.4g}" if others else "-"
        labels = [changed(first["learned"], now["learned"]) for column, now in found if column]
        row["labels %"] = f"{max(labels, default=0.0):.2g}"
    return row, broken


def main(arguments: list[str]) -> int:
    """Let all configurations answer, and compare."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--oldest", type=Path, metavar="FOLDER", help="made by .ci/oldest.py")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="keep models and answers there")
    parser.add_argument("--child", type=json.loads, help="what a process of the rig is told")
    options = parser.parse_args(arguments)
    if options.child:
        return child(options.child)
    report = _rig.Report("machines", options, names=FAMILIES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.into or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "caches", ignore_errors=True)  # of an earlier run
        few, many = (400, 400) if options.short else (3_000, 20_000)
        np.savez(folder / "rows.npz", **made_rows(many + N_ASKED))
        families = [n for n, one in FAMILIES.items() if not (one.many and options.short)]
        tried = list(short() if options.short else long(folder / "caches", options.oldest))
        for one in tried:
            run(one, folder, families, few)
        for name in families:
            row, broken = compared(name, tried, folder)
            report.add(row, len(broken))
            for words in broken:
                print("  ", words, flush=True)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
