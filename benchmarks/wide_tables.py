"""Tables of up to 5,000 columns: learning, answers, single rows, files.

*numbers*: normal numbers. *mixed*: a half of the columns are numbers, a quarter text of five
values, a quarter amounts written as ``$1,234``; one cell in twenty is empty. Amounts are read for
the other methods by hand. 500 rows of two classes are learned, by five of the columns; 1,000 others
are predicted.

The other methods: LightGBM as it is, with pandas categories; scikit-learn's pipeline of imputation,
scaling, one-hot columns and ``SVC(probability=False)``. Every method has one thread.

``mercer fit`` and ``mercer predict`` read the same tables from CSV and write files.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import pickle
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common
import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

WIDTHS = (100, 1_000, 5_000)
N_ROWS, N_NEW = 500, 1_000
MOST_SECONDS = 3.0  # of repeated calls
TOWNS = np.array(["Bern", "Bonn", "Graz", "Linz", "Ulm"])

Row = dict[str, Any]


def frame_of(kind: str, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows to learn, then those to predict, and their classes."""
    rng = np.random.default_rng(n_columns)
    n_rows = N_ROWS + N_NEW
    X = rng.normal(size=(n_rows, n_columns))
    y = X[:, :5].sum(axis=1) + 0.5 * X[:, 0] * X[:, 1] > 0.0
    names = [f"column_{n}" for n in range(n_columns)]
    frame = pd.DataFrame(X, columns=names)
    if kind == "mixed":
        gaps = rng.random(X.shape) < 0.05
        columns: dict[str, Any] = {}
        for n, name in enumerate(names):
            if n % 4 == 2:
                cells = TOWNS[np.clip(X[:, n] + 2.5, 0, 4).astype(int)]
            elif n % 4 == 3:
                cells = np.array([f"${1000 * abs(x) + 1000:,.0f}" for x in X[:, n]])
            else:
                cells = X[:, n].round(4)
            columns[name] = pd.Series(cells).mask(gaps[:, n])
        frame = pd.DataFrame(columns)
    return frame, np.where(y, "yes", "no")


def by_hand(frame: pd.DataFrame) -> pd.DataFrame:
    """Read amounts for methods that do not."""
    columns = {}
    for n, name in enumerate(frame.columns):
        column = frame[name]
        if n % 4 == 3 and not is_numeric_dtype(column):
            column = column.str.replace(r"[$,]", "", regex=True).astype(float)
        columns[name] = column
    return pd.DataFrame(columns)


class Mercer:
    """The default."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> None:
        from mercer import KernelClassifier

        self.model = KernelClassifier(random_state=0).fit(frame, y)

    def predict(self, frame: pd.DataFrame) -> Any:
        return self.model.predict(frame)


class LightGBM:
    """Boosted trees."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> None:
        from lightgbm import LGBMClassifier

        towns = pd.CategoricalDtype(TOWNS)
        self.types = {name: towns for name in frame if not is_numeric_dtype(frame[name])}
        self.model = LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)
        self.model.fit(frame.astype(self.types), y)

    def predict(self, frame: pd.DataFrame) -> Any:
        return self.model.predict(frame.astype(self.types))


class Pipeline:
    """Imputation, scaling, one-hot columns and a support vector machine."""

    def fit(self, frame: pd.DataFrame, y: np.ndarray) -> None:
        from sklearn.compose import make_column_selector, make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler
        from sklearn.svm import SVC

        numbers = make_pipeline(SimpleImputer(), StandardScaler())
        levels = OneHotEncoder(handle_unknown="ignore")
        columns = make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (levels, make_column_selector(dtype_exclude="number")),
        )
        self.model = make_pipeline(columns, SVC()).fit(frame, y)

    def predict(self, frame: pd.DataFrame) -> Any:
        return self.model.predict(frame)


METHODS: dict[str, Callable[[], Any]] = {
    "mercer": Mercer,
    "LightGBM": LightGBM,
    "scikit-learn": Pipeline,
}


COMMAND = "mercer fit, predict"


def median_seconds(call: Callable[[], Any], repeats: int = 3) -> float:
    """Median of the CPU seconds of some calls; of fewer where these take long."""
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < MOST_SECONDS:
        seconds.append(_common.cpu_seconds(call)[0])
    return statistics.median(seconds)


def one(kind: str, n_columns: int, name: str) -> Row:
    """What a method takes for a table."""
    frame, y = frame_of(kind, n_columns)
    frame = frame if name == "mercer" else by_hand(frame)
    learned, new = frame[:N_ROWS], frame[N_ROWS:]
    method = METHODS[name]()
    fit = _common.cpu_seconds(lambda: method.fit(learned, y[:N_ROWS]))[0]
    wrong = 100.0 * np.mean(method.predict(new) != y[N_ROWS:])
    stored = pickle.dumps(method.model)
    return {
        "table": kind,
        "columns": n_columns,
        "method": name,
        "% wrong": float(wrong),
        "fit s": fit,
        "1,000 rows s": median_seconds(lambda: method.predict(new)),
        "one row ms": 1000.0 * median_seconds(lambda: method.predict(new[:1]), 5),
        "pickle and back s": median_seconds(lambda: pickle.loads(pickle.dumps(method.model))),
        "MiB": len(stored) / 2**20,
    }


def command(kind: str, n_columns: int) -> Row:
    """What the command takes for the same table in a file."""
    from mercer import load_model
    from mercer_app.cli import main

    frame, y = frame_of(kind, n_columns)
    frame = frame.assign(target=y)

    def run(*words: Any) -> None:
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main([*map(str, words)])

    with tempfile.TemporaryDirectory() as folder:
        learned, new, first, model, out = (
            Path(folder) / name
            for name in ("learned.csv", "new.csv", "first.csv", "a.mercer", "out.csv")
        )
        frame[:N_ROWS].to_csv(learned, index=False)
        frame[N_ROWS:].drop(columns="target").to_csv(new, index=False)
        frame[N_ROWS : N_ROWS + 1].drop(columns="target").to_csv(first, index=False)
        fit = _common.cpu_seconds(lambda: run("fit", learned, "--target", "target", "--out", model))
        predict = median_seconds(lambda: run("predict", model, new, "--out", out))
        answers = pd.read_csv(out)["prediction"].to_numpy()
        of_one = median_seconds(lambda: run("predict", model, first, "--out", out))
        return {
            "table": kind,
            "columns": n_columns,
            "method": COMMAND,
            "% wrong": float(100.0 * np.mean(answers != y[N_ROWS:])),
            "fit s": fit[0],
            "1,000 rows s": predict,
            "one row ms": 1000.0 * of_one,
            "pickle and back s": median_seconds(lambda: load_model(model).save(model)),
            "MiB": model.stat().st_size / 2**20,
        }


def measured(kind: str, n_columns: int, name: str) -> Row:
    """What a method or the command takes for a table."""
    return command(kind, n_columns) if name == COMMAND else one(kind, n_columns, name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", nargs="+", type=int, default=list(WIDTHS))
    parser.add_argument("--kinds", nargs="+", default=["numbers", "mixed"])
    parser.add_argument("--methods", nargs="+", default=[*METHODS, COMMAND])
    parser.add_argument("--print", action="store_true", help="print, and keep nothing")
    parser.add_argument("--kept", action="store_true", help="write up runs that are kept alone")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = _common.Runs(_common.RESULTS / "wide_tables.jsonl", "table", "columns", "method")
    rows, warm = [], set()
    for kind in chosen.kinds:
        for n_columns in chosen.columns:
            for name in chosen.methods:
                found = None if chosen.print else runs.all().get((kind, n_columns, name))
                if found is None and chosen.kept:
                    continue
                if found is None:
                    if name not in warm:  # what is compiled at the first call is not counted
                        measured("mixed", 20, name)
                        warm.add(name)
                    found = measured(kind, n_columns, name)
                    sys.stderr.write(f"{found}\n")
                    if not chosen.print:
                        runs.add(found)
                rows.append(found)
    if chosen.print:
        sys.stdout.write(_common.markdown(rows) + "\n")
        return
    _common.publish(
        "wide_tables",
        rows,
        f"{N_ROWS} rows learned. Fits are measured once, the others are medians of 3 to 5 calls. A "
        "model of the command is its file: saved and loaded instead of pickled. The command's "
        "single row is a file of one row.",
    )


if __name__ == "__main__":
    main()
