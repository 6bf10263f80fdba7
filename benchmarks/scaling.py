"""What ``kernel="auto"`` makes of units: raw tables against standardised ones.

The data are ``sklearn.datasets.load_diabetes(scaled=False)``. Numbers are R² on a quarter of the
rows: means of eight splits, ± the standard deviation between them. Nothing is tuned.

The columns differ in what the model gets:

- *raw*: the table as it is. The model chooses its kernel and scales by itself.
- *in other units*: the same, but inputs are multiplied by 100 and 7 is added, and targets are
  multiplied by 3 and 1,000 is added. A model that does not care about units has about the same R².
- *given, raw*: the table as it is, with ``kernel="gaussian"``. If a kernel is given, inputs and
  target are not scaled.
- *given, standardised*: the same kernel, on inputs and target that were standardised by hand.

The first row is the default learner, which has a race of its own. The other rows are expansions and
risks of mercer.
"""

from __future__ import annotations

import warnings

import _common
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mercer import KernelRegressor

SPLITS = 8
WAYS = {
    "the default": {},
    "KOMP": {"expansion": "komp"},
    "Budget": {"expansion": "budget"},
    "Dictionary": {"expansion": "dictionary"},
    "random features": {"expansion": "random_features"},
    "risk: CVaR .9": {"risk": "cvar:0.9"},
    "risk: semideviation": {"risk": "semideviation"},
    "risk: variance": {"risk": "variance"},
}
GIVEN = {"kernel": "gaussian"}


def raw(X, X_test, y):
    return X, X_test, y, lambda f: f


def other_units(X, X_test, y):
    return 100.0 * X + 7.0, 100.0 * X_test + 7.0, 3.0 * y + 1000.0, lambda f: (f - 1000.0) / 3.0


def standardised(X, X_test, y):
    scaler, mean, deviation = StandardScaler().fit(X), y.mean(), y.std()
    y = (y - mean) / deviation
    return scaler.transform(X), scaler.transform(X_test), y, lambda f: deviation * f + mean


COLUMNS = {
    "raw": (raw, {}),
    "in other units": (other_units, {}),
    "given, raw": (raw, GIVEN),
    "given, standardised": (standardised, GIVEN),
}


def score(parameters, units, seed):
    table, y = load_diabetes(return_X_y=True, scaled=False)
    train, test, y_train, y_test = train_test_split(table, y, random_state=seed)
    X, X_test, targets, back = units(train, test, y_train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of units, which are the point
        model = KernelRegressor(random_state=0, **parameters).fit(X, targets)
    return 1.0 - np.mean((back(model.predict(X_test)) - y_test) ** 2) / y_test.var()


def main():
    rows = []
    for name, parameters in WAYS.items():
        row = {"learned by": name}
        for column, (units, given) in COLUMNS.items():
            scores = [score({**parameters, **given}, units, seed) for seed in range(SPLITS)]
            row[column] = f"{np.mean(scores):.2f} ± {np.std(scores):.2f}"
        rows.append(row)
        print(row, flush=True)
    _common.publish(
        "scaling",
        rows,
        "With a kernel that is given, units decide. Raced maps also find columns that say little.",
    )


if __name__ == "__main__":
    main()
