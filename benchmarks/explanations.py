"""Which columns matter: `feature_importances_` beside permutation importance on test rows.

The tables are those of the folder `suite/` in the data folder that have four columns or more. The
model is the default, learned on four fifths of the rows, with one seed and one thread.

*What it is compared with.* Permutation importance is scikit-learn's, with ten repeats. It shuffles
a column of up to 1,000 test rows and measures how much worse the model gets. It needs rows with
targets; `feature_importances_` does not.

*How "worse" is measured.* For numbers it is R². For classes it is the squared error of the
probabilities. Two more columns show the log loss and the accuracy instead. Many columns do not move
the accuracy at all, so it says little of their order.

*Two formulas* are compared with permutation importance:

- *The total effects of the function.* This is what `feature_importances_` gives.
- *What the parts of the model have learned* (the columns called "parts"). For kernels that is the
  squared length of a column in the metric, times the spread of the mapped column. For trees it is
  the variance that the splits explain. A part counts by how much its values vary.

*What the table says.* "order alike" is Spearman's correlation of the two orders of the columns. 1
is the same order. "same first" says whether the same column comes first.

*Two seeds* (`--seeds`, a table of its own): two models of the same rows, which differ in
`random_state` alone. "apart" is the largest difference between the shares of a column, and
"standard error" the largest of those that a model tells of its own shares (it knows the rows that
it was asked for, and not what another model would have learned). "apart, permuted" is how far the
permutation importances of the same two models are apart, on test rows with targets: it tells
whether the measure or the model makes the difference. Pictures have too many columns for it. All
are parts of the largest share. The digits are scikit-learn's.
"""

from __future__ import annotations

import argparse
from typing import Any

import _common
import _default_sets
import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.inspection import permutation_importance

from mercer import KernelClassifier, KernelRegressor
from mercer.maps import Leaves

SETS = [name for name in _default_sets.SUITE if name != "banana"]  # which has two columns
TEST_ROWS, REPEATS = 1000, 10
#: Two seeds are compared on pictures, on a table of rules, and on noisy ones: at most so many rows.
SEEDS = {"digits": 0, "mnist": 5000, "car": 0, "credit_g": 0, "wine_quality_white": 0, "abalone": 0}
ALIKE = 0.8
MOST_PERMUTED = 30  # columns


def squared_error(model, X, y):
    """Less the mean squared error of the probabilities."""
    truth = (model.classes_ == np.asarray(y)[:, None]).astype(float)
    return -float(np.mean(np.sum((model.predict_proba(X) - truth) ** 2, axis=1)))


def log_likelihood(model, X, y):
    """Less the log loss; some test rows may lack a class."""
    places = np.searchsorted(model.classes_, np.asarray(y))
    found = model.predict_proba(X)[np.arange(len(places)), places]
    return float(np.mean(np.log(np.maximum(found, 1e-15))))


def of_metric(map, X: np.ndarray) -> np.ndarray:
    """Squared length of the images' differences if one column is that of another row."""
    before, found = map(X), np.zeros(X.shape[1])
    others = np.roll(X, 1, axis=0)
    for column in range(X.shape[1]):
        mixed = X.copy()
        mixed[:, column] = others[:, column]
        found[column] = 0.5 * np.mean(np.sum((map(mixed) - before) ** 2, axis=1))
    return found


def of_trees(part, X: np.ndarray) -> np.ndarray:
    """Variance of the function that the splits of trees explain, summed over their columns."""
    trees: Leaves = part.map
    columns, cuts, children = (np.asarray(v) for v in (trees.columns, trees.cuts, trees.children))
    worth = part.dictionary @ part.coefficients  # of a row that is in this leaf
    found = np.zeros(X.shape[1])

    def means(node: int, rows: np.ndarray) -> np.ndarray:
        """What the rows of a node get, one by one; adds what its splits explain."""
        if columns[node] < 0:
            return np.tile(worth[children[node]], (len(rows), 1))
        left = X[rows, columns[node]] <= cuts[node]
        values = np.empty((len(rows), worth.shape[1]))
        for side, child in ((left, children[node]), (~left, children[node] + 1)):
            values[side] = means(int(child), rows[side])
        if 0 < left.sum() < len(rows):
            gap = values[left].mean(axis=0) - values[~left].mean(axis=0)
            found[columns[node]] += left.sum() * (~left).sum() / len(rows) * np.sum(gap**2)
        return values

    for root in np.asarray(trees.roots):
        means(int(root), np.arange(len(X)))
    return found


def of_parts(model: Any, X: np.ndarray) -> np.ndarray:
    """Importances by the metrics and weights of the parts."""
    total = np.zeros(X.shape[1])
    for part in model.parts_:
        found = of_trees(part, X) if part.form == "trees" else of_metric(part.map, X)
        spread = float(np.sum(np.var(part.evaluate(X), axis=0)))
        total += spread * found / max(found.sum(), 1e-300)
    return total / total.sum()


def compared(found: np.ndarray, truth: np.ndarray) -> tuple[float, bool]:
    """How much two orders of columns are alike, and whether the first is the same."""
    return float(spearmanr(found, truth).statistic), int(np.argmax(found)) == int(np.argmax(truth))


def row_of(name: str, data: str | None) -> dict[str, Any]:
    """Compare on one set."""
    directory = _default_sets.data_directory(data)
    split, source = _default_sets.load(name, 0, directory=directory), _default_sets.source_of(name)
    kind = KernelRegressor if source.regression else KernelClassifier
    model = kind(random_state=0).fit(split.X, split.y)
    seconds, effects = _common.cpu_seconds(lambda: model.feature_importances_)
    some = np.random.default_rng(0).permutation(len(split.X))[:1000]
    parts = of_parts(model, np.asarray(split.X[some], dtype=np.float64))
    scorings: Any = {"loss": "r2", "score": "r2"}
    if not source.regression:
        scorings = {"loss": squared_error, "score": "accuracy", "log": log_likelihood}
    shuffling, truth = _common.cpu_seconds(
        lambda: permutation_importance(
            model,
            split.X_test[:TEST_ROWS],
            split.y_test[:TEST_ROWS],
            scoring=scorings,
            n_repeats=REPEATS,
            random_state=0,
        )
    )
    by = {key: found.importances_mean for key, found in truth.items()}
    by_loss = by["loss"]
    alike, first = compared(effects, by_loss)
    alike_parts, first_parts = compared(parts, by_loss)
    return {
        "set": name,
        "rows": len(split.X),
        "columns": split.X.shape[1],
        "order alike": round(alike, 3),
        "same first": "yes" if first else "no",
        **{
            f"order, by {word}": "-"
            if source.regression
            else round(compared(effects, by[key])[0], 3)
            for key, word in (("log", "log loss"), ("score", "accuracy"))
        },
        "order alike, parts": round(alike_parts, 3),
        "same first, parts": "yes" if first_parts else "no",
        "CPU s": seconds,
        "permutation CPU s": shuffling,
    }


def permuted_shares(model: Any, split: _default_sets.Split) -> np.ndarray:
    """Return permutation importances on test rows, as shares of 1; less than nothing is 0."""
    found = permutation_importance(
        model,
        split.X_test[:TEST_ROWS],
        split.y_test[:TEST_ROWS],
        scoring="r2" if isinstance(model, KernelRegressor) else squared_error,
        n_repeats=REPEATS,
        random_state=0,
    )
    gains = np.maximum(found.importances_mean, 0.0)
    return gains / gains.sum()


def apart(shares: list[np.ndarray]) -> float:
    """Return how far two lists of shares are apart, as a part of the largest share."""
    return float(np.max(np.abs(shares[0] - shares[1])) / max(map(np.max, shares)))


def seeds_of(name: str, size: int, data: str | None) -> dict[str, Any]:
    """Compare the shares of two models on one set."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        kind: Any = KernelClassifier
    else:
        split = _default_sets.load(name, 0, size, _default_sets.data_directory(data))
        X, y = split.X, split.y
        kind = KernelRegressor if _default_sets.source_of(name).regression else KernelClassifier
    models = [kind(random_state=seed).fit(X, y) for seed in (0, 1)]
    shares = [model.feature_importances_ for model in models]
    largest = max(map(np.max, shares))
    permuted: float | str = "-"
    if X.shape[1] <= MOST_PERMUTED:
        permuted = round(apart([permuted_shares(model, split) for model in models]), 3)
    errors = max(float(np.max(model.feature_importances_errors_)) for model in models)
    return {
        "set": name,
        "rows": len(X),
        "columns": X.shape[1],
        "largest share": round(float(largest), 3),
        "apart / largest": round(apart(shares), 3),
        "apart, permuted / largest": permuted,
        "standard error / largest": round(errors / float(largest), 3),
        "same first": "yes" if np.argmax(shares[0]) == np.argmax(shares[1]) else "no",
    }


def said(rows: list[dict[str, Any]]) -> str:
    """What the table says, in numbers."""
    n = len(rows)

    def words(ending: str, title: str) -> str:
        orders = [row[f"order alike{ending}"] for row in rows]
        good = sum(order >= ALIKE for order in orders)
        first = sum(row[f"same first{ending}"] == "yes" for row in rows)
        return (
            f"{title}: Spearman's correlation at least {ALIKE:g} on {good} of {n} sets, median "
            f"{np.median(orders):.2f}, the same first column on {first}."
        )

    return words("", "Total effects") + " " + words(", parts", "By metrics and weights of parts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", default=SETS)
    parser.add_argument("--seeds", action="store_true", help="compare two seeds instead")
    parser.add_argument("--data", help="folder of the data sets; default: MERCER_DATA")
    options = parser.parse_args()
    if options.seeds:
        found = [seeds_of(name, size, options.data) for name, size in SEEDS.items()]
        _common.publish("importances_seeds", found)
        return
    rows = []
    for name in options.sets:
        rows.append(row_of(name, options.data))
        print(rows[-1], flush=True)
    if options.sets == SETS:
        _common.publish("explanations", rows, said(rows))
    else:
        print(said(rows))


if __name__ == "__main__":
    main()
