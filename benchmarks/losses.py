"""Quantiles, medians and counts, untuned, on the inputs as they are: the default and its peers.

*Data.* The quantiles are learned on two sets of the default learner, before any scaling, and on the
regressions of the suite. Numbers are means over three splits. Numbers after ± are the standard
deviation between the splits.

*Pinball losses.* They are divided by the mean absolute deviation of the test targets from their
median. So twice the loss at level 0.5 is the share of this deviation that is left. Lower is better.

*Cover.* It is the part of the test targets between the first and the last decile. It should be .8.

*The suite.* Its table has one loss for each method, the mean of the three pinball losses. The last
row has the geometric mean of the losses divided by mercer's.

*Counts.* They are drawn from a Poisson distribution. Its rate is a known function of five columns,
whose units range from 1 to 100. "excess deviance" is the deviance of the predictions, less that of
the true rate. At 0 the predictions are as good as the truth.
"""

from __future__ import annotations

import _common
import _default_sets
import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import train_test_split

from mercer import KernelRegressor
from mercer.losses import Quantile
from mercer_reproduction._data_files import load_parquet_dataset

LEVELS = (0.1, 0.5, 0.9)
SETS = {"california_housing": "median_house_value", "protein_casp": "rmsd"}
SIZES = (1000, 0)
SEEDS = (0, 1, 2)
# Of the suite.
BESIDE = ("mercer", "LightGBM", "LightGBM 300")


class OneByOne:
    """A model for each level of a method that learns one at a time."""

    def __init__(self, make):
        self.make = make

    def fit(self, X, y):
        self.models = [self.make(level).fit(X, y) for level in LEVELS]
        return self

    def predict(self, X):
        return np.column_stack([model.predict(X) for model in self.models])


def lightgbm(**settings):
    return LGBMRegressor(n_jobs=1, verbose=-1, random_state=0, **settings)


QUANTILES = {
    "mercer": lambda: KernelRegressor(Quantile(LEVELS), random_state=0),
    "mercer, KOMP": lambda: KernelRegressor(Quantile(LEVELS), expansion="komp", random_state=0),
    "LightGBM": lambda: OneByOne(lambda q: lightgbm(objective="quantile", alpha=q)),
    "LightGBM 300": lambda: OneByOne(
        lambda q: lightgbm(objective="quantile", alpha=q, n_estimators=300)
    ),
    "HistGradientBoosting": lambda: OneByOne(
        lambda q: HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0)
    ),
}
COUNTS = {
    "mercer": lambda: KernelRegressor("poisson", random_state=0),
    "mercer, KOMP": lambda: KernelRegressor("poisson", expansion="komp", random_state=0),
    "LightGBM": lambda: lightgbm(objective="poisson"),
    "HistGradientBoosting": lambda: HistGradientBoostingRegressor(loss="poisson", random_state=0),
}


def columns(name):
    table = load_parquet_dataset(name)
    X = [table.column(c).to_numpy() for c in table.column_names if c != SETS[name]]
    return np.column_stack(X).astype(np.float64), table.column(SETS[name]).to_numpy()


def of_quantiles(make, split):
    X, X_test, y, y_test = split
    seconds, model = _common.cpu_seconds(lambda: make().fit(X, y))
    predicted = model.predict(X_test)
    scale = np.abs(y_test - np.median(y_test)).mean()
    pinball = [
        mean_pinball_loss(y_test, predicted[:, i], alpha=level) / scale
        for i, level in enumerate(LEVELS)
    ]
    cover = np.mean((y_test >= predicted[:, 0]) & (y_test <= predicted[:, -1]))
    return [*pinball, cover, seconds]


def of_counts(make, rate, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6000, 5)) * [1.0, 10.0, 100.0, 1.0, 1.0]
    rates = rate * np.exp(np.sin(2.0 * X[:, 0]) + 0.05 * X[:, 1] + 0.3 * X[:, 3])
    y = rng.poisson(rates).astype(float)
    seconds, model = _common.cpu_seconds(lambda: make().fit(X[:4000], y[:4000]))
    predicted = np.maximum(model.predict(X[4000:]), 1e-9)
    excess = mean_poisson_deviance(y[4000:], predicted)
    excess -= mean_poisson_deviance(y[4000:], rates[4000:])
    return [excess, seconds]


def mean_and_spread(values):
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"


def quantile_rows():
    rows = []
    for name in SETS:
        X, y = columns(name)
        for size in SIZES:
            for method, make in QUANTILES.items():
                runs = []
                for seed in SEEDS:
                    X_train, X_test, y_train, y_test = train_test_split(
                        X, y, test_size=0.25, random_state=seed
                    )
                    kept = slice(size or None)
                    runs.append(of_quantiles(make, (X_train[kept], X_test, y_train[kept], y_test)))
                values = np.array(runs).T
                row = {"data": name, "rows": size or len(y_train), "method": method}
                row |= {
                    f"pinball {level}": mean_and_spread(values[i]) for i, level in enumerate(LEVELS)
                }
                row |= {"cover": f"{values[3].mean():.3f}", "CPU s": float(values[4].mean())}
                rows.append(row)
                print(row, flush=True)
    return rows


def suite_rows():
    """Quantiles of the regressions of the suite, as mean pinball losses in units of mercer's."""
    rows = []
    for name in _default_sets.SUITE:
        if not _default_sets.source_of(name).regression:
            continue
        row = {"data": name, "rows": 0}
        for method in BESIDE:
            runs = []
            for seed in SEEDS:
                split = _default_sets.load(name, seed, directory=_default_sets.data_directory())
                given = split.X, split.X_test, split.y, split.y_test
                runs.append(of_quantiles(QUANTILES[method], given))
            values = np.mean(runs, axis=0)
            row["rows"] = len(split.y)
            row[method] = float(values[:3].mean())
            row |= {f"{method}: cover": float(values[3]), f"{method}: CPU s": float(values[4])}
        rows.append(row)
        print(row, flush=True)
    return [*rows, means_of(rows)]


def means_of(rows):
    """Geometric mean of the losses in units of mercer's, and means of the rest."""
    found = {"data": "geometric mean / mercer's; means", "rows": ""}
    for method in BESIDE:
        ratios = [row[method] / row["mercer"] for row in rows]
        found[method] = float(np.exp(np.mean(np.log(ratios))))
        for name in (f"{method}: cover", f"{method}: CPU s"):
            found[name] = float(np.mean([row[name] for row in rows]))
    return found


def count_rows():
    rows = []
    for rate in (1.0, 10.0, 200.0):
        for method, make in COUNTS.items():
            values = np.array([of_counts(make, rate, seed) for seed in SEEDS]).T
            row = {"rate": rate, "method": method, "excess deviance": mean_and_spread(values[0])}
            rows.append(row | {"CPU s": float(values[1].mean())})
            print(rows[-1], flush=True)
    return rows


def main():
    rng = np.random.default_rng(0)  # compile before timing
    small, target = rng.normal(size=(500, 3)), rng.poisson(2.0, size=500).astype(float)
    for models in (QUANTILES, COUNTS):
        for make in models.values():
            make().fit(small, target)
    _common.publish("losses", quantile_rows())
    _common.publish("quantiles_suite", suite_rows())
    _common.publish("counts", count_rows())


if __name__ == "__main__":
    import warnings

    from mercer.exceptions import TargetScaleWarning

    warnings.simplefilter("ignore", TargetScaleWarning)  # of KOMP, whose numbers show it
    main()
