"""Tables with text, dates, categories and gaps, nothing tuned: mercer and boosted trees.

*Tables.* The first four are spoiled: numbers, dates and grades of tables in the data folder were
written as text, and cells were removed. The others are real. Python packages ship them.

*Inputs.* mercer gets the cells as they come. The other methods need help:

- Amounts and dates are read for them by hand. Dates are split into all their parts, such as the
  month and the weekday.
- CatBoost is told which columns are categories and which are text.
- LightGBM and HistGradientBoosting get pandas categories.

*Numbers.* Errors are in percent, or they are the mean squared error divided by the variance. Every
method has one thread.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common
import _default_sets
import _messy_peers
import _messy_tables
import numpy as np
from _messy_tables import Messy
from sklearn.model_selection import KFold

USAGE = """
    python benchmarks/messy.py --kept messy-runs         # goes on where it was stopped
    python benchmarks/messy.py --kept messy-runs --folds 1 --print       # a fold alone, then
    python benchmarks/messy.py --kept messy-runs --untimed CatBoost      # others beside other work
    python benchmarks/messy.py --tables homes movies --methods mercer LightGBM --print
"""
JUDGED, RIVAL = "mercer", "CatBoost"
N_FOLDS = 5
#: Encodings were chosen by the errors on folds 0 and 1, two of them after a look at 2 and 3.
ORDER = (4, 3, 2, 0, 1)
_SEED = 0

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Losses of the test rows of each fold, and CPU seconds (NaN where other work went on)."""

    losses: list[np.ndarray]
    seconds: list[float]


def folds_of(n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of each fold."""
    return list(KFold(N_FOLDS, shuffle=True, random_state=_SEED).split(np.arange(n_rows)))


def losses_of(messy: Messy, predicted: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Loss of each test row, so scaled that the mean is the error of the table."""
    y = messy.frame[messy.target].to_numpy()
    if messy.regression:
        return (predicted.astype(np.float64) - y[test]) ** 2 / np.var(y)
    return 100.0 * (predicted.astype(str) != y[test].astype(str))


def one_fold(messy: Messy, method: str, fold: int) -> tuple[np.ndarray, float]:
    """Learn and predict: losses of the test rows, and CPU seconds."""
    call = _messy_peers.METHODS[method]
    train, test = folds_of(len(messy.frame))[fold]
    if method == JUDGED:  # what is made on the first call, as compiled code, is not counted
        call(messy, train[:500], test[:20], _SEED)
    seconds, predicted = _common.cpu_seconds(lambda: call(messy, train, test, _SEED))
    return losses_of(messy, predicted, test), seconds


def run(
    messy: Messy, name: str, method: str, n_folds: int, folder: Path | None, timed: bool = True
) -> Run:
    """Runs of some folds, some of them of an earlier call that kept them in a folder."""
    found = Run([], [])
    for fold in ORDER[:n_folds]:
        file = folder / f"{name}-{method}-{fold}.npz" if folder else None
        if file is not None and file.exists():
            with np.load(file) as kept:
                losses, seconds = kept["losses"], float(kept["seconds"])
        else:
            losses, seconds = one_fold(messy, method, fold)
            seconds = seconds if timed else np.nan
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.savez(file, losses=losses, seconds=seconds)
        found.losses.append(losses)
        found.seconds.append(seconds)
    return found


def error(run: Run) -> str:
    """Mean over the folds, and its standard error."""
    means = [losses.mean() for losses in run.losses]
    spread = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    return f"{np.mean(means):.3g} ± {spread:.1g}"


def standard_errors(ours: Run, its: Run) -> float:
    """Mean difference of the losses of the same rows, in its standard errors; below 0: better."""
    difference = np.concatenate(ours.losses) - np.concatenate(its.losses)
    spread = difference.std(ddof=1) / np.sqrt(len(difference))
    return float(difference.mean() / spread) if spread > 0.0 else 0.0


def row_of(name: str, messy: Messy, runs: dict[str, Run]) -> Row:
    """What the table of results says of one table."""
    row: Row = {
        "table": f"{name} (spoiled)" if name in _messy_tables.SPOILED else name,
        "rows": len(messy.frame),
        "columns": messy.frame.shape[1] - 1,
        "gaps %": 100.0 * messy.parsed().isna().to_numpy().mean(),
        "of text": len(messy.texts),
        "judged by": "MSE / variance" if messy.regression else "% wrong",
    }
    row |= {method: error(run) for method, run in runs.items()}
    if {JUDGED, RIVAL} <= runs.keys():
        between = standard_errors(runs[JUDGED], runs[RIVAL])
        row["mercer - CatBoost, in standard errors"] = f"{between:+.1f}"
    return row | {f"{method}: CPU s": float(np.nanmean(r.seconds)) for method, r in runs.items()}


def note_on(methods: Sequence[str], n_folds: int) -> str:
    """What readers of the table have to know."""
    packages = ", ".join(sorted({*_messy_tables.PACKAGES.values()}))
    versions = _messy_peers.versions(methods)
    return (
        f"At most {_messy_tables.MOST_ROWS:,} rows of each table, drawn by a seed. Means over "
        f"{n_folds} of {N_FOLDS} folds ± standard errors over them. mercer's encodings were chosen "
        "on the two other folds. They were mended after a look at two of these, not at the third. "
        "The difference between mercer and CatBoost is that of the losses of the same test rows. "
        "It is shown in standard errors of its mean over all of them; below 0 mercer is better. "
        "CPU seconds are of learning and predicting one fold, as means over the folds that ran "
        "alone on the machine: at least one. No setting is changed but the numbers of threads and "
        f"the seeds. Versions: {versions}. The data are of {packages}."
    )


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__ + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names, methods = list(_messy_tables.TABLES), list(_messy_peers.METHODS)
    parser.add_argument("--tables", nargs="+", choices=names, metavar="TABLE", default=names)
    parser.add_argument("--methods", nargs="+", choices=methods, default=methods)
    parser.add_argument("--folds", type=int, choices=range(1, N_FOLDS + 1), default=3)
    parser.add_argument(
        "--untimed",
        nargs="+",
        choices=methods,
        default=[],
        help="other work goes on while these run: only seconds of kept runs count",
    )
    parser.add_argument("--data", help="folder of the data sets; default: MERCER_DATA")
    parser.add_argument("--kept", type=Path, help="folder for finished runs, to go on from")
    parser.add_argument("--print", action="store_true", help="print only, keep no results")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Run what can be, print the table and keep it for the page."""
    options = parsed(arguments)
    warnings.simplefilter("ignore")  # of peers
    data = _default_sets.data_directory(options.data)
    rows = []
    for name in options.tables:
        if not _messy_tables.readable(name, data):
            print(f"{name}: the data are not here", flush=True)
            continue
        messy = _messy_tables.TABLES[name](data)
        runs = {
            m: run(messy, name, m, options.folds, options.kept, m not in options.untimed)
            for m in options.methods
        }
        rows.append(row_of(name, messy, runs))
        print(" ".join(str(cell) for cell in rows[-1].values()), flush=True)
    note = note_on(options.methods, options.folds)
    if options.print:
        print(_common.markdown(rows), note, sep="\n\n")
    else:
        _common.publish("messy", rows, note)


if __name__ == "__main__":
    main(sys.argv[1:])
