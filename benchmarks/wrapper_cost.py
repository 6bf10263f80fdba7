"""What the estimators of ``mercer.river`` add to the time of a row, beside all of it.

"added" is measured over an estimator that does nothing; "row" is the whole row of the default.

    python benchmarks/wrapper_cost.py
"""

from __future__ import annotations

import sys

import _common
import numpy as np

from mercer.river import Classifier, Regressor

N_ROWS = 5000


class Nothing:
    """Estimator that answers at once."""

    learner_ = None

    def learn_one(self, x, y, sample_weight=1.0):
        return self

    def predict_one(self, x):
        return np.True_


def microseconds(call, rows) -> float:
    def once():
        for row in rows:
            call(*row)

    return _common.least_cpu_seconds(once, 9) / len(rows) * 1e6


def main() -> None:
    table = []
    for n_columns in (3, 10, 30):
        names = [f"x{i}" for i in range(n_columns)]
        X = np.random.default_rng(0).normal(size=(N_ROWS, n_columns)).tolist()
        rows = [(dict(zip(names, x, strict=True)), bool(x[0] > 0.0)) for x in X]
        inputs = [(x,) for x, _ in rows]
        for kind in (Classifier, Regressor):
            model, nothing = kind(seed=0), Nothing()
            model.estimator = nothing
            learn = microseconds(model.learn_one, rows) - microseconds(nothing.learn_one, rows)
            predict = microseconds(model.predict_one, inputs)
            predict -= microseconds(nothing.predict_one, inputs)
            whole = kind(seed=0)
            for x, y in rows[:500]:
                whole.learn_one(x, y)
            table.append(
                {
                    "": kind.__name__,
                    "columns": n_columns,
                    "learn_one added, us": learn,
                    "predict_one added, us": predict,
                    "learn_one row, us": microseconds(whole.learn_one, rows[:1000]),
                    "predict_one row, us": microseconds(whole.predict_one, inputs[:1000]),
                }
            )
    sys.stdout.write(_common.markdown(table) + "\n")


if __name__ == "__main__":
    main()
