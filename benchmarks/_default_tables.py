"""What ``default_learner.py`` says of its runs: targets, all results, small sets, cases lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from _default_sets import SIZES, SMALL, SOURCES
from _peers import JUDGED, METHODS, SMALL_PEER

from mercer_reproduction._experiment import Target

Records = Sequence[dict[str, Any]]
Row = dict[str, Any]

FIRST_PREDICTION_S = 2.0
#: Set, key of the record, bound, which side is wanted.
TARGETS = (
    ("covtype", "error", 4.2, "at most"),
    ("covtype", "cpu_s", 15.0, "at most"),
    ("mnist", "error", 1.40, "at most"),
    ("mnist", "cpu_s", 25.0, "at most"),
    ("ijcnn1", "auc", 0.992, "at least"),
    ("protein_casp", "mse", 0.37, "at most"),
    ("california", "mse", 0.215, "at most"),
    ("skin", "error", 0.08, "at most"),
    ("adult", "error", 14.95, "at most"),
)
WORDS = {"error": "error %", "auc": "AUC", "mse": "MSE / variance", "cpu_s": "CPU s"}


class Summary(NamedTuple):
    """A number over seeds."""

    mean: float
    error: float  # standard error of the mean; NaN for one seed
    seeds: int

    def __str__(self) -> str:
        """As it is printed."""
        spread = "" if math.isnan(self.error) else f" ± {self.error:.2g}"
        return f"{self.mean:.4g}{spread}"


def summary(values: Sequence[float]) -> Summary:
    """Mean and standard error.

    Examples
    --------
    >>> print(summary([1.0, 2.0, 3.0]))
    2 ± 0.58
    """
    n = len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Summary(float(np.mean(values)) if n else math.nan, error, n)


class Results:
    """Records by what was run.

    Parameters
    ----------
    records : sequence of dict
        As ``_default_run.py`` prints them. Those that were stopped have no results.
    """

    def __init__(self, records: Records) -> None:
        self._found: dict[tuple[str, str, int], dict[int, Row]] = {}
        for record in records:
            place = (record["set"], record["method"], record["size"])
            self._found.setdefault(place, {})[record["seed"]] = record

    def all_of(self, name: str, method: str, size: int) -> list[Row]:
        """Records of all seeds, stopped ones too."""
        return [r for _, r in sorted(self._found.get((name, method, size), {}).items())]

    def of(self, name: str, method: str, size: int, key: str) -> dict[int, float]:
        """One number by seed, for the runs that brought it."""
        return {r["seed"]: r[key] for r in self.all_of(name, method, size) if key in r}

    def summary(self, name: str, method: str, size: int, key: str) -> Summary:
        """One number over the seeds."""
        return summary(list(self.of(name, method, size, key).values()))

    def compared(self, name: str, size: int, key: str, peer: str) -> Summary | None:
        """How much worse mercer is than a peer, on the seeds that both have; None without any."""
        mine, its = (self.of(name, method, size, key) for method in (JUDGED, peer))
        sign = -1.0 if key == "auc" else 1.0
        shared = sorted(mine.keys() & its.keys())
        return summary([sign * (mine[s] - its[s]) for s in shared]) if shared else None

    def small_size(self, name: str, size: int) -> int:
        """The size to look up: all rows (0) of sets that have no more than ``size``."""
        return size if any((name, m, size) in self._found for m in METHODS) else 0


def measure_of(name: str) -> str:
    """What is judged on a set."""
    return "mse" if SOURCES[name].regression else "error"


def verdict(difference: Summary | None) -> str:
    """How mercer compares with a peer, from how much worse it is on average.

    Examples
    --------
    >>> verdict(summary([-0.1, 0.3])), verdict(summary([0.1, 0.1])), verdict(None)
    ('equal', 'lost', 'not measured')
    """
    if difference is None:
        return "not measured"
    margin = 0.0 if math.isnan(difference.error) else difference.error
    if abs(difference.mean) <= margin:
        return "equal"
    return "lost" if difference.mean > 0.0 else "won"


def target_rows(results: Results) -> list[Row]:
    """The targets, each met, missed or not measured."""
    rows = []
    for name, key, bound, kind in TARGETS:
        found = results.summary(name, JUDGED, 0, key)
        rows.append(_target(f"{name}: {WORDS[key]}", found, bound, kind))
    rows.append(_against_svc(results))
    times = [
        (seconds, name)
        for name in SOURCES
        for size in SIZES
        for seconds in results.of(name, JUDGED, size, "first_prediction_s").values()
    ]
    slowest, name = max(times, default=(math.nan, "none"))
    words = f"first prediction: wall s, slowest run ({name})"
    found = Summary(slowest, math.nan, len(times))
    rows.append(_target(words, found, FIRST_PREDICTION_S, "at most", seeds="-"))
    return rows


def _target(words: str, found: Summary, bound: float, kind: str, seeds: str = "") -> Row:
    target = Target(words, found.mean, bound, kind)
    return {
        "target": words,
        "wanted": f"{kind} {bound:g}",
        "measured": str(found) if found.seeds else "-",
        "seeds": seeds or found.seeds,
        "verdict": ("met" if target.met else "missed") if found.seeds else "not measured",
    }


def _against_svc(results: Results) -> Row:
    compared = [row for row in small_rows(results) if row["size"] == SMALL]
    lost = [row["set"] for row in compared if row["verdict"] == "lost"]
    judged = [row for row in compared if row["verdict"] != "not measured"]
    return {
        "target": f"n = {SMALL:,}: sets where SVC's default is better by more than the error",
        "wanted": "none",
        "measured": ", ".join(lost) or (f"none of {len(judged)}" if judged else "-"),
        "seeds": "-",
        "verdict": ("missed" if lost else "met") if judged else "not measured",
    }


def small_rows(results: Results) -> list[Row]:
    """Mercer beside SVC on few rows; smaller sets stand among them with all their rows."""
    rows = []
    for size in sorted(SIZES)[1:]:
        for name in SOURCES:
            looked_up = results.small_size(name, size)
            if looked_up == 0 and size != SMALL:
                continue
            key = measure_of(name)
            counts = [
                record["train_rows"]
                for method in (JUDGED, SMALL_PEER)
                for record in results.all_of(name, method, looked_up)
                if "train_rows" in record
            ]
            if not counts or (looked_up == 0 and counts[0] > size):
                continue
            row: Row = {"set": name, "size": size, "rows": counts[0], "measure": WORDS[key]}
            for method in (JUDGED, SMALL_PEER):
                title = METHODS[method].title
                row[title] = _shown(results, name, method, looked_up, key)
                row[f"{title}: CPU s"] = _shown(results, name, method, looked_up, "cpu_s", False)
            row["seeds"] = _seeds(results, name, looked_up, key)
            row["verdict"] = verdict(results.compared(name, looked_up, key, SMALL_PEER))
            rows.append(row)
    return rows


def _seeds(results: Results, name: str, size: int, key: str) -> str:
    """How many seeds the means of mercer and of SVC are of: one number, or both if they differ."""
    counts = [results.summary(name, method, size, key).seeds for method in (JUDGED, SMALL_PEER)]
    return " and ".join(str(count) for count in dict.fromkeys(counts))


def all_rows(results: Results) -> list[Row]:
    """Every set and method, on all rows."""
    rows = []
    for name in SOURCES:
        for method, peer in METHODS.items():
            records = results.all_of(name, method, 0)
            if not records:
                continue
            stopped = [r["stopped"] for r in records if "stopped" in r]
            done = [r for r in records if "stopped" not in r]
            key = measure_of(name)
            row: Row = {"set": name, "method": peer.title, "seeds": len(done)}
            learned = done[0]["learned_rows"] if done else "-"
            capped = bool(done) and learned < done[0]["train_rows"]
            row["rows"] = f"{learned:,} of {done[0]['train_rows']:,}" if capped else learned
            shown = _shown(results, name, method, 0, key)
            row["error % or MSE"] = stopped[0] if stopped and not done else shown
            row["AUC"] = _shown(results, name, method, 0, "auc")
            for head, number, format_ in COLUMNS:
                row[head] = format_(results.summary(name, method, 0, number).mean)
            rows.append(row)
    return rows


def lost_rows(results: Results) -> list[Row]:
    """Where peers are better by more than the standard error: the best of them, and how many."""
    return list(_lost(results))


def _lost(results: Results) -> Iterator[Row]:
    for name in SOURCES:
        for size in SIZES:
            for key in (measure_of(name), "auc"):
                found = {
                    peer: results.compared(name, size, key, peer)
                    for peer in METHODS
                    if peer != JUDGED
                }
                found = {peer: gap for peer, gap in found.items() if gap is not None}
                better = {peer: gap for peer, gap in found.items() if verdict(gap) == "lost"}
                if not better:
                    continue
                best = max(better, key=lambda peer: better[peer].mean)
                yield {
                    "set": name,
                    "rows": f"{size:,}" if size else "all",
                    "measure": WORDS[key],
                    METHODS[JUDGED].title: str(results.summary(name, JUDGED, size, key)),
                    "best peer": METHODS[best].title,
                    "its": str(results.summary(name, best, size, key)),
                    "worse by": str(better[best]),
                    "peers better": f"{len(better)} of {len(found)}",
                }


def _shown(
    results: Results, name: str, method: str, size: int, key: str, spread: bool = True
) -> str:
    found = results.summary(name, method, size, key)
    if not found.seeds:
        stopped = [r["stopped"] for r in results.all_of(name, method, size) if "stopped" in r]
        return stopped[0] if stopped and key == measure_of(name) else "-"
    return str(found) if spread else f"{found.mean:.3g}"


def _rounded(value: float) -> str:
    """Three digits, without exponents; "-" for what was not measured."""
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


#: Heading, key of the record and format of the other columns of the big table.
COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("CPU s", "cpu_s", _rounded),
    ("learning MiB", "learning_mib", _rounded),
    ("pickled MiB", "pickled_mib", _rounded),
    ("numbers", "numbers", _rounded),
    ("rows/s", "rows_per_s", _rounded),
    ("first prediction s", "first_prediction_s", _rounded),
)
