"""Drawn tables whose answer is known, untuned: mercer, boosted trees, SVC and linear models.

*Tables.* Each is made for one kind of methods, such as trees, kernels or linear models:

- *rules over codes*: nominal columns of 3 to 5 levels. Columns decide on concepts, and concepts on
  one of five classes, without exceptions. No combination of levels is there twice.
- *thresholds of hormones*: seven measures and sixteen flags. Rare classes begin at thresholds of
  hormones and of the ratio of two.
- *4 of 32 columns*: a smooth function of four columns. Noise is a quarter of the variance, so no
  method has less than .25.
- *20 of 180 binary columns*: three classes, with noise.
- *128 readings of 16 sensors*: most columns are copies of others, and sensors drift.
- *shops by number*: a column has the numbers of 300 shops. Each has an effect, beside a smooth
  function. Noise is a tenth of the variance, so no method has less than .1.
- *11 textures*: 40 correlated columns. What tells classes apart has little of the variance.

*Errors* are in percent, or the mean squared error divided by the variance. They are means of two
draws. Each method has one thread. CatBoost is left out of the widest table of classes, on which it
takes minutes. xRFM and RealMLP-TD were run on the sensors only, which are made like data on which
they are strong. SVC and SVR have C=10 and standardised columns. The linear model is a linear
discriminant, or ridge regression.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import _common
import _last_factors
import _peers
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

SEEDS = (0, 1)
#: Columns times classes from which CatBoost's 1,000 trees take minutes; it is left out there.
MOST_FOR_CATBOOST = 600

Make = Callable[[bool, np.ndarray, int], Any]


def _svc(regression: bool, X: np.ndarray, seed: int) -> Any:
    return make_pipeline(StandardScaler(), SVR(C=10.0) if regression else SVC(C=10.0))


def _linear(regression: bool, X: np.ndarray, seed: int) -> Any:
    return Ridge() if regression else LinearDiscriminantAnalysis()


METHODS: dict[str, Make] = {
    "mercer": _peers.SUITE_METHODS["mercer"].make,
    "LightGBM": _peers.SUITE_METHODS["lightgbm"].make,
    "CatBoost": _peers.SUITE_METHODS["catboost"].make,
    "SVC": _svc,
    "linear": _linear,
    "xRFM": _peers.SUITE_METHODS["xrfm"].make,
    "RealMLP-TD": _peers.SUITE_METHODS["realmlp_td"].make,
}
#: Methods that take minutes, and the tables that they are run on: those made for them.
ONLY_ON = dict.fromkeys(("xRFM", "RealMLP-TD"), ("128 readings of 16 sensors",))


def error_of(case: _last_factors.Case, make: Make, seed: int) -> tuple[float, float]:
    """Error on the rows for testing, and CPU seconds of the fit."""
    X, y, X_test, y_test = case.split(seed)
    model = make(case.regression, X, seed)
    seconds, _ = _common.cpu_seconds(lambda: model.fit(X, y))
    missed = np.asarray(model.predict(X_test)).ravel() - y_test
    if case.regression:
        return float(np.mean(missed**2) / np.var(y_test)), seconds
    return 100.0 * float(np.mean(missed != 0)), seconds


def row_of(name: str, methods: Sequence[str]) -> dict[str, Any]:
    """What the table says of one case."""
    case = _last_factors.CASES[name]
    X, y = case.split(0)[:2]
    row: dict[str, Any] = {"table": name, "rows": len(X), "columns": X.shape[1]}
    row["classes"] = "-" if case.regression else int(np.unique(y).size)
    is_slow = not case.regression and X.shape[1] * row["classes"] > MOST_FOR_CATBOOST
    run = [m for m in methods if not (m == "CatBoost" and is_slow)]
    run = [m for m in run if name in ONLY_ON.get(m, (name,))]
    found = {m: [error_of(case, METHODS[m], seed) for seed in SEEDS] for m in run}
    means = {m: float(np.mean([error for error, _ in runs])) for m, runs in found.items()}
    row |= {m: means.get(m, "-") for m in methods}
    if "mercer" in found:
        row["mercer: CPU s"] = float(np.mean([seconds for _, seconds in found["mercer"]]))
    return row


def main(arguments: Sequence[str]) -> None:
    """Run, print and keep the table for the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(_last_factors.CASES)
    parser.add_argument("--tables", nargs="+", choices=names, metavar="TABLE", default=names)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--print", action="store_true", help="print only, keep no results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of peers
    if "mercer" in options.methods:  # what is made on the first call is not counted
        for name in names[1:2] + names[3:4]:
            error_of(_last_factors.CASES[name], METHODS["mercer"], 0)
    rows = []
    for name in options.tables:
        rows.append(row_of(name, options.methods))
        print(rows[-1], flush=True)
    named = ("lightgbm", "catboost", "xrfm", "realmlp_td")
    peers = [_peers.SUITE_METHODS[name].version for name in named]
    note = f"Versions: {', '.join(peers)}."
    if options.print:
        print(_common.markdown(rows), note, sep="\n\n")
    else:
        _common.publish("last_factors", rows, note)


if __name__ == "__main__":
    main(sys.argv[1:])
