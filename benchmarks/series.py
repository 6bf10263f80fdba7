"""Rows in the order of their file, where neighbours are alike: what it gains to judge in blocks.

If single rows are held out, their neighbours in the file predict them well. Rows of the future have
no such neighbours. So the default looks whether the order matters, and then holds out whole blocks.

*mercer, auto* is the default, which finds out by itself. *mercer, 1* is the default with
``Auto(block_length=1)``, which holds out single rows. Nothing else is tuned.

*Test rows* are chosen in two ways: as the last fifth of the file, or as a fifth drawn at random. In
the second case the neighbours of the test rows are learned.

*Peers* are scikit-learn's SVC (SVR for California), on standardised inputs, and LightGBM.

Errors are in %. For California they are the mean squared error divided by the variance.

To run it:

    python benchmarks/series.py                 # all; a quarter of an hour
    python benchmarks/series.py --sets elec2    # this again, others are kept
"""

from __future__ import annotations

import argparse

import _common
import _default_sets
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import Auto

#: Sets, and rows at most, drawn at random but left in order.
SETS = {"elec2": 45_312, "covtype": 30_000, "california": 20_640, "digits": 1797, "ijcnn1": 30_000}
SEEDS = (0, 1, 2)
TEST_SHARE = 0.2


def in_order(name, size, seed):
    """Inputs and targets of a set in the order of its file."""
    source = _default_sets.SOURCES[name]
    table = source.read(_default_sets.data_directory() if source.files else None)
    X, y = table.X, np.asarray(table.y)
    if size < len(X):
        some = np.sort(np.random.default_rng(seed).permutation(len(X))[:size])
        X, y = X[some], y[some]
    if source.regression:
        y = (y - y.mean()) / y.std()
    return X, y, source.regression


def splits(n, seed):
    """Masks of the test rows."""
    late = np.arange(n) >= round((1.0 - TEST_SHARE) * n)
    return {"last fifth": late, "random fifth": np.random.default_rng(seed).permutation(late)}


def peers(regression, seed):
    import lightgbm

    trees = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    return {
        "SVC": make_pipeline(StandardScaler(), SVR() if regression else SVC()),
        "LightGBM": trees(num_threads=1, random_state=seed, verbose=-1),
    }


def error(model, X, y, regression):
    predicted = model.predict(X)
    if regression:
        return float(np.mean((predicted - y) ** 2))
    return 100.0 * float(np.mean(predicted != y))


def measure(name, size, seed):
    X, y, regression = in_order(name, size, seed)
    kind = KernelRegressor if regression else KernelClassifier
    found = {}
    for split, test in splits(len(X), seed).items():
        data = X[~test], y[~test]
        row = {}
        for block in ("auto", 1):
            model = kind(expansion=Auto(block_length=block), random_state=seed)
            seconds, _ = _common.cpu_seconds(lambda model=model, data=data: model.fit(*data))
            row[f"mercer, {block}"] = error(model, X[test], y[test], regression)
            if block == "auto":
                row |= {"block": model.block_length_, "CPU s": seconds}
        for title, peer in peers(regression, seed).items():
            row[title] = error(peer.fit(*data), X[test], y[test], regression)
        found[split] = row
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    options = parser.parse_args()
    rows = [row for row in _common.published("series") if row["data"] not in options.sets]
    for name in options.sets:
        found = [measure(name, SETS[name], seed) for seed in SEEDS]
        for split in found[0]:
            several = [one[split] for one in found]
            blocks = sorted({one.pop("block") for one in several})
            means = {key: float(np.mean([one[key] for one in several])) for key in several[0]}
            rows.append(
                {
                    "data": name,
                    "test rows": split,
                    "rows of a block": ", ".join(map(str, blocks)),
                    **means,
                }
            )
            print(rows[-1], flush=True)
    rows.sort(key=lambda row: list(SETS).index(row["data"]))
    _common.publish("series", rows, words_on(rows))


def words_on(rows):
    """Say on which sets and splits blocks were held out, and what came of it."""
    said = []
    for row in rows:
        if row["mercer, auto"] == row["mercer, 1"]:
            continue
        change = 100.0 * (row["mercer, auto"] / row["mercer, 1"] - 1.0)
        words = "lower" if change < 0.0 else "higher"
        said.append(f"{row['data']}, {row['test rows']}: {abs(change):.1f} % {words}")
    return (
        "Means of three seeds; where rows are not drawn, the last fifth is the same for all. "
        f"Errors with blocks against those without: {'; '.join(said)}. The others were judged row "
        "by row in either case."
    )


if __name__ == "__main__":
    main()
