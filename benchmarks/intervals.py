"""Intervals, sets of classes and probabilities of the default, untuned, beside MAPIE and LightGBM.

The tables are those of the folder `suite/` in the data folder. Four fifths of the rows are for
training, drawn by the seeds 0, 1 and 2. Targets of regressions have variance 1.

*Coverage.* Intervals and sets should hold the truth for 90 % of the test rows. The number z says
how far the coverage is from that. It is the difference, as a mean over the seeds, divided by its
standard error. So a z between -2 and 2 can be chance. Chance enters twice: by the test rows, and by
the rows that the intervals are found by. The standard error counts both.

*Rows to find intervals by.* Intervals are found by rows that the model has not learned. mercer
keeps some training rows back for that, and learns them in the end. MAPIE gets a model of four
fifths of the training rows, and finds intervals by the last fifth.

*Score.* A good interval is narrow and holds the truth. So the score of an interval is its width,
and if the target is outside, 20 times the distance to it is added. Lower is better. The mean score
is least for the true quantiles (Gneiting and Raftery, JASA 102, 2007).

*Sets of classes* may be empty here, as those of MAPIE are. The row "never empty" shows the sets
that `predict_set` gives unless it is asked for others.

*Probabilities.* Rows are sorted by the probability of the predicted class, and divided into 15 bins
with equally many rows. In each bin two numbers should be alike: the mean probability, and the share
of rows whose predicted class is right.

- *calibration error* is the mean distance between these two numbers.
- *if perfect* is the calibration error that would be found if labels were drawn by the
  probabilities themselves. It is not 0, as a bin has a finite number of rows.
- *ratio* is the first divided by the second. Perfect probabilities would have a ratio near 1.

*Draws of made-up rows.* Each case is drawn anew many times, with 500 new rows each time. The first
column of inputs bends the target, the second adds to it, and the noise is normal.

- *new rows*: 20 to 400 rows are learned, or 100 that each stand there five times. New ones are
  drawn likewise.
- *new subjects*: 50 subjects have five rows each, and a level of their own beside two columns that
  tell them apart. New rows are of other subjects.
- *the future of a walk*: 200 values of a random walk are learned by their number, and the next 50
  are new.

Errors behind the coverage are standard errors over draws. The *least width* is that of somebody
who knows all but the noise; the *width that would do* is twice the distance to its predictions that
nine of ten new rows of a draw keep.

To run it:

    python benchmarks/intervals.py --data FOLDER        # or MERCER_DATA
    python benchmarks/intervals.py --tables draws       # made-up rows only
    python benchmarks/intervals.py --tables said        # which rows it says depend on each other
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import _common
import _default_sets
import numpy as np

from mercer import KernelClassifier, KernelRegressor
from mercer.exceptions import DependentRowsWarning

COVERAGE = 0.9
SEEDS = 3
BINS, DRAWS = 15, 200
NEW, NOISE = 500, 0.3
SURE = 1.6448536269514722  # deviations of a normal number that nine of ten keep

Row = dict[str, Any]


# -- quantities ------------------------------------------------------------------------------------


def ours(method: str, model: Any, split: Any) -> tuple[np.ndarray, int]:
    """Intervals of the test rows, and how many rows found them."""
    n = len(model.held_out_.y)
    return model.predict_interval(split.X_test, COVERAGE, method=method), (
        n // 2 if method == "quantile" else n
    )


def mapie_split(model: Any, split: Any, *, normalised: bool) -> tuple[np.ndarray, int]:
    """MAPIE around a mercer that lacks a fifth of the rows."""
    from mapie.conformity_scores import ResidualNormalisedScore
    from mapie.regression import SplitConformalRegressor

    n = round(0.8 * len(split.y))
    prefit = KernelRegressor(random_state=0).fit(split.X[:n], split.y[:n])
    score = ResidualNormalisedScore(random_state=0) if normalised else "absolute"
    wrapped = SplitConformalRegressor(prefit, COVERAGE, conformity_score=score, prefit=True)
    wrapped.conformalize(split.X[n:], split.y[n:])
    found = wrapped.predict_interval(split.X_test)[1][:, :, 0]
    # The model of residuals takes half of the rows for itself.
    return found, (len(split.y) - n) // (2 if normalised else 1)


def mapie_quantiles(model: Any, split: Any) -> tuple[np.ndarray, int]:
    """MAPIE's conformalised quantile regression with LightGBM."""
    from lightgbm import LGBMRegressor
    from mapie.regression import ConformalizedQuantileRegressor

    n = round(0.8 * len(split.y))
    trees = LGBMRegressor(objective="quantile", alpha=0.5, n_jobs=1, verbose=-1, random_state=0)
    wrapped = ConformalizedQuantileRegressor(trees, COVERAGE)
    wrapped.fit(split.X[:n], split.y[:n]).conformalize(split.X[n:], split.y[n:])
    return wrapped.predict_interval(split.X_test)[1][:, :, 0], len(split.y) - n


REGRESSORS: dict[str, Callable[[Any, Any], tuple[np.ndarray, int]]] = {
    "mercer, normalized (default)": partial(ours, "normalized"),
    "mercer, split": partial(ours, "split"),
    "mercer, quantile": partial(ours, "quantile"),
    "MAPIE split, mercer": partial(mapie_split, normalised=False),
    "MAPIE normalised, mercer": partial(mapie_split, normalised=True),
    "MAPIE quantile, LightGBM": mapie_quantiles,
}


def judged_intervals(found: np.ndarray, y: np.ndarray, n: int) -> Row:
    """Coverage, width and score of intervals that n rows found."""
    low, high = found.T
    outside = np.maximum(np.maximum(low - y, y - high), 0.0)
    return {
        "coverage": float(np.mean(outside == 0.0)),
        "error": error_of(len(y), n),
        "width": float(np.mean(high - low)),
        "score": float(np.mean(high - low + 2.0 / (1.0 - COVERAGE) * outside)),
    }


def error_of(n_test: int, n: int) -> float:
    """Standard error of a coverage."""
    return float(np.sqrt(COVERAGE * (1.0 - COVERAGE) * (1.0 / n_test + 1.0 / n)))


# -- classes ---------------------------------------------------------------------------------------


def our_sets(model: Any, split: Any, *, empty: bool = True) -> tuple[np.ndarray, int]:
    """Sets of the test rows, and how many rows found them."""
    return model.predict_set(split.X_test, COVERAGE, empty=empty), len(model.held_out_.y)


def mapie_sets(model: Any, split: Any) -> tuple[np.ndarray, int]:
    """MAPIE around a mercer that lacks a fifth of the rows."""
    from mapie.classification import SplitConformalClassifier

    n = round(0.8 * len(split.y))
    prefit = KernelClassifier(random_state=0).fit(split.X[:n], split.y[:n])
    wrapped = SplitConformalClassifier(
        prefit, COVERAGE, conformity_score="lac", prefit=True, random_state=0
    )
    wrapped.conformalize(split.X[n:], split.y[n:])
    return wrapped.predict_set(split.X_test)[1][:, :, 0], len(split.y) - n


CLASSIFIERS: dict[str, Callable[[Any, Any], tuple[np.ndarray, int]]] = {
    "mercer": our_sets,
    "mercer, never empty (default)": partial(our_sets, empty=False),
    "MAPIE, mercer": mapie_sets,
}


def judged_sets(found: np.ndarray, numbers: np.ndarray, n: int) -> Row:
    """Coverage and size of sets that n rows found."""
    return {
        "coverage": float(found[np.arange(len(numbers)), numbers].mean()),
        "error": error_of(len(numbers), n),
        "width": float(found.sum(axis=1).mean()),
        "empty": float(np.mean(~found.any(axis=1))),
    }


# -- probabilities ---------------------------------------------------------------------------------


def lightgbm(split: Any) -> np.ndarray:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=0).fit(split.X, split.y)
    return np.asarray(model.predict_proba(split.X_test))


def gradient_boosting(split: Any) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(split.X, split.y)
    return np.asarray(model.predict_proba(split.X_test))


def linear(split: Any) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(split.X, split.y)
    return np.asarray(model.predict_proba(split.X_test))


PEERS = {
    "LightGBM": lightgbm,
    "HistGradientBoosting": gradient_boosting,
    "logistic regression": linear,
}


def calibration_error(best: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Mean distance in bins of as many rows; `right` may be several draws, one a row."""
    order = np.argsort(best, kind="stable")
    bins = np.array_split(order, BINS)
    gaps = [np.abs(best[some].mean() - right[..., some].mean(axis=-1)) for some in bins]
    sizes = np.array([some.size for some in bins]) / best.size
    return np.tensordot(sizes, np.array(gaps), 1)


def judged_probabilities(chances: np.ndarray, numbers: np.ndarray) -> Row:
    """How far probabilities are from shares, and their losses."""
    best, said = chances.max(axis=1), chances.argmax(axis=1)
    true = np.clip(chances[np.arange(len(numbers)), numbers], 1e-15, 1.0)
    drawn = np.random.default_rng(0).uniform(size=(DRAWS, best.size)) < best
    hot = np.eye(chances.shape[1])[numbers]
    return {
        "calibration error": float(calibration_error(best, said == numbers)),
        "if perfect": float(calibration_error(best, drawn).mean()),
        "log loss": float(-np.log(true).mean()),
        "Brier": float(np.sum((chances - hot) ** 2, axis=1).mean()),
        "error %": 100.0 * float(np.mean(said != numbers)),
    }


# -- tables ----------------------------------------------------------------------------------------


def run(name: str, seed: int, directory: Path | None) -> dict[str, dict[str, Row]]:
    """All methods on one split: tables by kind, rows by method."""
    split = _default_sets.load(name, seed, 0, directory)
    if _default_sets.source_of(name).regression:
        model: Any = KernelRegressor(random_state=0).fit(split.X, split.y)
        found = {method: find(model, split) for method, find in REGRESSORS.items()}
        return {
            "intervals": {m: judged_intervals(i, split.y_test, n) for m, (i, n) in found.items()}
        }
    model = KernelClassifier(random_state=0).fit(split.X, split.y)
    numbers = np.searchsorted(model.classes_, split.y_test)
    sets = {method: find(model, split) for method, find in CLASSIFIERS.items()}
    chances = {"mercer": model.predict_proba(split.X_test)}
    chances |= {method: find(split) for method, find in PEERS.items()}
    return {
        "sets": {m: judged_sets(s, numbers, n) for m, (s, n) in sets.items()},
        "probabilities": {m: judged_probabilities(p, numbers) for m, p in chances.items()},
    }


Found = dict[str, dict[str, dict[str, list[Row]]]]


def means(rows: list[Row]) -> Row:
    """Means over seeds, and how far the coverage is from the promise."""
    found = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    if "coverage" in found:
        found["z"] = (found["coverage"] - COVERAGE) / (found["error"] / np.sqrt(len(rows)))
    return found


def by_set(found: Found, kind: str) -> dict[str, dict[str, Row]]:
    """Means over seeds by set and method."""
    return {
        name: {method: means(rows) for method, rows in methods.items()}
        for name, methods in found[kind].items()
    }


def coverage_rows(sets: dict[str, dict[str, Row]], first: str) -> list[Row]:
    """A row a method: over all sets."""
    rows = []
    for method in next(iter(sets.values())):
        mine = [its[method] for its in sets.values()]
        ratios = [its[method]["width"] / its[first]["width"] for its in sets.values()]
        row = {
            "method": method,
            "mean coverage %": f"{100.0 * np.mean([one['coverage'] for one in mine]):.1f}",
            "least and most": "{:.1f} to {:.1f}".format(
                *(100.0 * end([one["coverage"] for one in mine]) for end in (min, max))
            ),
            "sets with |z| below 2": f"{sum(abs(o['z']) < 2.0 for o in mine)} of {len(mine)}",
            "sets with z above -2": f"{sum(o['z'] > -2.0 for o in mine)} of {len(mine)}",
            "lowest and highest z": "{:+.1f}, {:+.1f}".format(
                *(end([one["z"] for one in mine]) for end in (min, max))
            ),
            "width or size to the first's": f"{np.exp(np.mean(np.log(ratios))):.3f}",
        }
        if "score" in mine[0]:
            scores = [its[method]["score"] / its[first]["score"] for its in sets.values()]
            row["score to the first's"] = f"{np.exp(np.mean(np.log(scores))):.3f}"
        rows.append(row)
    return rows


def set_rows(sets: dict[str, dict[str, Row]]) -> list[Row]:
    """A row a set: coverage and width of each method."""
    return [
        {
            "set": name,
            **{
                method: f"{100.0 * one['coverage']:.1f} ({one['z']:+.1f}), {one['width']:.2f}"
                for method, one in methods.items()
            },
        }
        for name, methods in sets.items()
    ]


def probability_rows(sets: dict[str, dict[str, Row]]) -> list[Row]:
    """A row a method: means over all sets."""
    rows = []
    for method in next(iter(sets.values())):
        mine = [its[method] for its in sets.values()]
        over = [one["calibration error"] / one["if perfect"] for one in mine]
        rows.append({
            "method": method,
            **{
                key: f"{np.mean([one[key] for one in mine]):.4f}"
                for key in ("calibration error", "if perfect")
            },
            "ratio, geometric mean": f"{np.exp(np.mean(np.log(over))):.2f}",
            "log loss": f"{np.mean([one['log loss'] for one in mine]):.4f}",
            "Brier": f"{np.mean([one['Brier'] for one in mine]):.4f}",
            "error %": f"{np.mean([one['error %'] for one in mine]):.2f}",
        })  # fmt: skip
    return rows


# -- made-up rows ----------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """Rows to learn and new ones, with the least width of their intervals."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    least: float
    groups: np.ndarray | None = None
    time: np.ndarray | None = None


def target_of(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw targets of rows."""
    return np.sin(2.0 * X[:, 0]) + X[:, 1] + NOISE * rng.normal(size=len(X))


def new_rows(n: int, copies: int, rng: np.random.Generator) -> Drawn:
    """Draw rows that depend on nothing, each of which stands there several times."""
    X = rng.uniform(-2.0, 2.0, size=(n + NEW, 3))
    y = target_of(X, rng)
    places = rng.permutation(np.repeat(np.arange(n), copies))
    return Drawn(X[places], y[places], X[n:], y[n:], 2.0 * SURE * NOISE)


def new_subjects(rng: np.random.Generator) -> Drawn:
    """Draw five rows each of 50 subjects, and of 100 others."""
    subject = np.repeat(np.arange(150), 5)
    X = np.column_stack([
        rng.uniform(-2.0, 2.0, size=(subject.size, 2)), rng.normal(size=(150, 2))[subject]
    ])  # fmt: skip
    y = target_of(X, rng) + rng.normal(size=150)[subject]
    old = subject < 50
    least = 2.0 * SURE * float(np.hypot(1.0, NOISE))
    return Drawn(X[old], y[old], X[~old], y[~old], least, groups=subject[old])


def future(rng: np.random.Generator) -> Drawn:
    """Draw a random walk."""
    time = np.arange(250)
    X = np.column_stack([time, rng.uniform(-2.0, 2.0, size=250)]).astype(float)
    y = np.cumsum(rng.normal(size=250))
    least = 2.0 * SURE * float(np.sqrt(np.arange(1, 51)).mean())
    return Drawn(X[:200], y[:200], X[200:], y[200:], least, time=time[:200])


CASES: dict[str, tuple[Callable[[np.random.Generator], Drawn], str | None]] = {
    "new rows, 20 learned": (partial(new_rows, 20, 1), None),
    "new rows, 40 learned": (partial(new_rows, 40, 1), None),
    "new rows, 100 learned": (partial(new_rows, 100, 1), None),
    "new rows, 400 learned": (partial(new_rows, 400, 1), None),
    "new rows, 100 learned five times each": (partial(new_rows, 100, 5), None),
    "new subjects": (new_subjects, None),
    "new subjects, groups= given": (new_subjects, "groups"),
    "the future of a walk": (future, None),
    "the future of a walk, time= given": (future, "time"),
}


def judged_draw(rows: Drawn, told: str | None) -> Row:
    """Coverage and width on the new rows of a draw."""
    more = {} if told is None else {told: getattr(rows, told)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DependentRowsWarning)
        model: Any = KernelRegressor(random_state=0).fit(rows.X, rows.y, **more)
    low, high = model.predict_interval(rows.X_new, COVERAGE).T
    missed = np.abs(rows.y_new - model.predict(rows.X_new))
    return {
        "coverage": float(np.mean((low <= rows.y_new) & (rows.y_new <= high))),
        "width": float(np.mean(high - low)),
        "would do": 2.0 * float(np.quantile(missed, COVERAGE)),
        "least": rows.least,
    }


def draw_rows(n_draws: int, names: list[str]) -> list[Row]:
    """A row a case: means over draws."""
    rows = []
    for name in names:
        draw, told = CASES[name]
        found = [judged_draw(draw(np.random.default_rng(s)), told) for s in range(n_draws)]
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        spread = float(np.std([one["coverage"] for one in found], ddof=1))
        error = 100.0 * spread / np.sqrt(n_draws)
        rows.append({
            "case": name,
            "coverage %": f"{100.0 * mean['coverage']:.1f} ± {error:.1f}",
            "mean width": f"{mean['width']:.2f}",
            "width that would do": f"{mean['would do']:.2f}",
            "least width": f"{mean['least']:.2f}",
        })  # fmt: skip
        print(_common.markdown(rows[-1:]), flush=True)
    return rows


def ordinary_tables() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Tables whose rows are no series and no groups."""
    from sklearn import datasets

    loaded = ("iris", "wine", "breast_cancer", "diabetes", "digits")
    made = ("friedman1", "friedman2", "regression", "classification", "moons")
    return [
        *((name, *getattr(datasets, f"load_{name}")(return_X_y=True)) for name in loaded),
        *((name, *getattr(datasets, f"make_{name}")(500, random_state=0)) for name in made),
    ]


def warned_of(X: np.ndarray, y: np.ndarray) -> str:
    """What a fit says of rows that look like groups or a series."""
    model: Any = KernelClassifier(random_state=0)
    if np.unique(y).size > len(y) // 10:
        model = KernelRegressor(random_state=0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", DependentRowsWarning)
        model.fit(X, y)
    return ", ".join(str(one.message).split(" are alike")[0] for one in found) or "nothing"


def said_rows() -> list[Row]:
    """What is said of ordinary tables, as they are and sorted, and of draws of each case."""
    rows = []
    for name, X, y in ordinary_tables():
        for how, order in (("as it is", None), ("sorted by target", np.argsort(y, kind="stable"))):
            cut = slice(None) if order is None else order
            rows.append({"rows": f"{name}, {how}", "said": warned_of(X[cut], y[cut])})
    for name, (draw, told) in CASES.items():
        if told is None:
            found = [draw(np.random.default_rng(seed)) for seed in range(5)]
            said = [warned_of(one.X, one.y) for one in found]
            rows.append({"rows": f"{name}, five draws", "said": "; ".join(said)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="data folder; by default MERCER_DATA")
    parser.add_argument("--sets", nargs="*", default=list(_default_sets.SUITE))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--tables", nargs="*", choices=("suite", "draws", "said"), default=["suite", "draws"]
    )
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    options = parser.parse_args()
    if "draws" in options.tables:
        drawn = draw_rows(options.draws, options.cases)
        rows = {row["case"]: row for row in [*_common.published("intervals_draws"), *drawn]}
        rows = [rows[case] for case in CASES if case in rows]
        _common.publish("intervals_draws", rows, f"Means over {options.draws} draws.")
    if "said" in options.tables:
        print(_common.markdown(said_rows()))
    if "suite" not in options.tables:
        return
    directory = _default_sets.data_directory(options.data)
    logging.disable(logging.INFO)  # MAPIE says that quantiles cross
    warnings.simplefilter("ignore")  # of names of columns and of iterations, by the peers
    found: Found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for name in options.sets:
        for seed in range(options.seeds):
            for kind, methods in run(name, seed, directory).items():
                for method, row in methods.items():
                    found[kind][name][method].append(row)
            print(name, seed, flush=True)
    note = (
        f"Means over {options.seeds} seeds; geometric means over sets of the ratios in the last "
        "columns."
    )
    each = "Coverage in %, z in brackets, and mean width, or number of classes."
    if "intervals" in found:
        sets = by_set(found, "intervals")
        _common.publish("intervals", coverage_rows(sets, next(iter(REGRESSORS))), note)
        _common.publish("intervals_sets", set_rows(sets), each)
    if "sets" in found:
        sets = by_set(found, "sets")
        _common.publish("class_sets", coverage_rows(sets, next(iter(CLASSIFIERS))), note)
        _common.publish("class_sets_sets", set_rows(sets), each)
        rows = probability_rows(by_set(found, "probabilities"))
        _common.publish("probabilities", rows, f"Means over sets and {options.seeds} seeds.")


if __name__ == "__main__":
    main()
