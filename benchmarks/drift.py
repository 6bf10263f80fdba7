"""Detectors of changes: false alarms on streams that stand still, and delays.

A detector reads losses, one row after the other, and raises an alarm if their mean has risen. Two
things should be small: the false alarms where nothing changes, and the delay where something does.

*Alarms.* Only alarms of rising means count. Page-Hinkley has a mode for that. Of River's other
detectors those alarms count after which the mean of the window is larger.

*Losses.* Some are drawn at random: 0/1 losses with a given share of errors, and numbers of a
Gaussian or an exponential variable. The Gaussian AR(.5) and AR(.8) do not change either, but their
rows are correlated. "learner" are losses of KOMP, row by row: 0/1 losses and log losses of a
classifier, and squared errors of a regressor. On streams without a change they fall, as the learner
improves. Where labels of a sine change abruptly, they rise.

*Delays.* A change that is not seen counts with all rows until the next change, or until the end.

*River's ADWIN* is there twice: with its own confidence, .002, and with .1. With .1 it has about as
many false alarms on 0/1 losses as ChangeDetector.

*Numbers after ±* are standard errors. For counts it is the square root of the count. For delays it
comes from the differences between runs.

To run it:

    python benchmarks/drift.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import _common
import numpy as np
from _changing_streams import make_moving_centers, make_rotating_plane, make_sine

from mercer import KernelClassifier, KernelRegressor
from mercer.streams import ChangeDetector

BEFORE, AFTER = 2_000, 5_000
PLAIN = "River, ADWIN, .002"
LOUD = 0.1


# -- detectors: each takes losses and returns the rows of its alarms ------------------------------


def ours(make: Callable[[], Any]):
    return lambda losses: make().add_many(losses)


def river_adwin(delta):
    def found(losses):
        from river import drift

        detector, rows, before = drift.ADWIN(delta=delta), [], 0.0
        for t, loss in enumerate(losses.tolist()):
            detector.update(loss)
            if detector.drift_detected and detector.estimation > before:
                rows.append(t)
            before = detector.estimation
        return np.array(rows, dtype=int)

    return found


def page_hinkley(losses):
    from river import drift

    detector, rows = drift.PageHinkley(mode="up"), []
    for t, loss in enumerate(losses.tolist()):
        detector.update(loss)
        if detector.drift_detected:
            rows.append(t)
    return np.array(rows, dtype=int)


DETECTORS = {
    "ChangeDetector": ours(ChangeDetector),
    "ChangeDetector, 1e-4": ours(lambda: ChangeDetector(1e-4)),
    PLAIN: river_adwin(0.002),
    f"River, ADWIN, {LOUD:g}".replace("0.", "."): river_adwin(LOUD),
    "River, Page-Hinkley": page_hinkley,
}


# -- streams of losses ----------------------------------------------------------------------------


def bernoulli(rng, n, p):
    return (rng.random(n) < p).astype(float)


def autoregressive(rng, n, rho):
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -rho], rng.normal(size=n))


def losses_of(X, y, logarithmic=False):
    """Of KOMP, last iterate, row by row, each before it is learned."""
    is_class = y.dtype.kind != "f"
    if is_class:
        model: Any = KernelClassifier(expansion="komp", average=None, random_state=0)
        model.partial_fit(X[:200], y[:200], classes=np.unique(y))
    else:
        model = KernelRegressor(expansion="komp", average=None, random_state=0)
        model.partial_fit(X[:200], y[:200])
    losses = np.empty(len(y) - 200)
    for t in range(200, len(y)):
        if logarithmic:
            value = model.decision_function(X[t : t + 1])[0]
            losses[t - 200] = np.logaddexp(0.0, -value if y[t] > 0 else value)
        else:
            answer = model.predict_one(X[t])
            losses[t - 200] = answer != y[t] if is_class else (answer - y[t]) ** 2
        model.learn_one(X[t], y[t])
    return losses


def standing(n: int) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Losses without a change: n rows, and learners' in streams of 20,000."""
    rng = np.random.default_rng(0)
    for p in (0.05, 0.1, 0.3):
        yield f"0/1, {p:g}", [bernoulli(rng, n, p)]
    yield "Gaussian", [rng.normal(size=n)]
    yield "exponential", [rng.exponential(size=n)]
    for rho in (0.5, 0.8):
        yield f"Gaussian, AR({rho:g})", [autoregressive(rng, n, rho)]
    seeds = range(max(n // 50_000, 1))
    for words, make, settings in (
        ("learner, 0/1, centers", make_moving_centers, {"n_inputs": 6, "n_centers": 20}),
        ("learner, 0/1, sine", make_sine, {"noise": 0.1}),
        ("learner, log, sine", make_sine, {"noise": 0.1}),
        ("learner, squares, plane", make_rotating_plane, {"task": "regression", "noise": 0.2}),
    ):
        streams = (make(20_000, changes=0, seed=k, **settings) for k in seeds)
        yield words, [losses_of(X, y, ", log," in words) for X, y, _ in streams]


def changing(repeats: int) -> Iterator[tuple[str, list[tuple[np.ndarray, list[int]]]]]:
    """Losses whose mean rises, and where."""
    for p, q in ((0.05, 0.1), (0.1, 0.2), (0.1, 0.4), (0.3, 0.5)):
        rng = np.random.default_rng(1)
        parts = [(bernoulli(rng, BEFORE, p), bernoulli(rng, AFTER, q)) for _ in range(repeats)]
        yield f"0/1, {p:g} to {q:g}", [(np.concatenate(both), [BEFORE]) for both in parts]
    rng = np.random.default_rng(1)
    parts = [(bernoulli(rng, 200, 0.1), bernoulli(rng, AFTER, 0.3)) for _ in range(repeats)]
    yield "0/1, .1 to .3 after 200", [(np.concatenate(both), [200]) for both in parts]
    for rise in (0.25, 0.5, 1.0):
        rng = np.random.default_rng(1)
        losses = [rng.normal(size=BEFORE + AFTER) for _ in range(repeats)]
        for x in losses:
            x[BEFORE:] += rise
        yield f"Gaussian, + {rise:g}", [(x, [BEFORE]) for x in losses]
    rng = np.random.default_rng(1)
    losses = [autoregressive(rng, BEFORE + AFTER, 0.5) for _ in range(repeats)]
    for x in losses:
        x[BEFORE:] += 1.0
    yield "Gaussian, AR(0.5), + 1", [(x, [BEFORE]) for x in losses]
    for kind in ("0/1", "log", "squares"):
        task, runs = "regression" if kind == "squares" else "classification", []
        for k in range(max(repeats // 20, 1)):
            X, y, changes = make_sine(20_000, task=task, seed=k, noise=0.1)
            runs.append((losses_of(X, y, kind == "log"), [int(row) - 200 for row in changes]))
        yield f"learner, {kind}, sine", runs


def delays(alarms, n, changes):
    """Rows from each change to the first alarm after it."""
    ends = [*changes[1:], n]
    for begin, end in zip(changes, ends, strict=True):
        after = alarms[(alarms >= begin) & (alarms < end)]
        yield after[0] - begin + 1 if len(after) else end - begin


def number(value: float, error: float) -> str:
    """As many digits as the error allows."""
    digits = 0 if value >= 20 else 1
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each stream that stands")
    parser.add_argument("--repeats", type=int, default=200, help="of each change")
    arguments = parser.parse_args()
    rows, seconds, seen = [], dict.fromkeys(DETECTORS, 0.0), 0
    for words, runs in standing(arguments.rows):
        n = sum(map(len, runs))
        row: dict[str, Any] = {"losses": words, "rows": n}
        seen += n
        for title, detector in DETECTORS.items():
            start = time.process_time()
            count = sum(len(detector(losses)) for losses in runs)
            seconds[title] += time.process_time() - start
            row[title] = number(1e5 * count / n, 1e5 * max(count, 1) ** 0.5 / n)
        rows.append(row)
        print(row, flush=True)
    took = {title: f"{1e6 * s / seen:.2g}" for title, s in seconds.items()}
    note = "False alarms in 100,000 rows. Microseconds a row, as called here (many rows at once of "
    note += "ours): " + ", ".join(f"{title} {micro}" for title, micro in took.items()) + "."
    _common.publish("drift_false", rows, note)
    rows = []
    for words, runs in changing(arguments.repeats):
        row = {"losses": words, "changes": sum(len(changes) for _, changes in runs)}
        for title, detector in DETECTORS.items():
            found = [d for x, changes in runs for d in delays(detector(x), len(x), changes)]
            row[title] = number(float(np.mean(found)), float(np.std(found)) / len(found) ** 0.5)
        rows.append(row)
        print(row, flush=True)
    _common.publish(
        "drift_delay", rows, f"Rows until the alarm, after {BEFORE:,} without a change."
    )


if __name__ == "__main__":
    main()
