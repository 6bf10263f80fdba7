"""Cost of a row learned by steps under a risk, beside that of the mean.

Microseconds of CPU a row of ten inputs, at 100 points. Steps are on one row, or on two. A tracker
follows the mean loss, where a risk has one inside; with "stream" the two rows of a step are a pair
of independent samples.

"NumPy" is CVaR as a risk of one's own in NumPy, which no compiled loop can take.
"""

from __future__ import annotations

import _common
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import KOMP, Budget, Full
from mercer.kernels import Gaussian
from mercer.risks import CentralMoments, CVaR, Entropic, Semivariance, Tracker, UpperSemideviation

N, REPEATS, ORDER = 4_000, 25, 100
EXPANSIONS = {
    "KOMP": KOMP(tolerance=1e-4, max_size=ORDER),
    "Budget": Budget(ORDER),
    "Full": Full(max_size=ORDER),
}


class InNumPy(CVaR):
    """CVaR, but its formula is given in Python."""

    def outer(self, losses, inner, scalars, unit):
        return super().outer(losses, inner, scalars, unit)


RISKS = {
    "mean": None,
    "CVaR .9": CVaR(0.9),
    "entropic": Entropic(),
    "semideviation": UpperSemideviation(),
    "central moments": CentralMoments(),
    "CVaR + semideviation": 0.5 * CVaR(0.9) + 0.5 * UpperSemideviation(),
    **{
        f"semivariance, {rule}": Semivariance(tracker=Tracker(rule))
        for rule in ("momentum", "scgd", "nasa")
    },
    **{
        f"semivariance, {rule}, stream": Semivariance(tracker=Tracker(rule, pairs="stream"))
        for rule in ("momentum", "scgd", "nasa")
    },
    "CVaR .9, NumPy": InNumPy(0.9),
}


def data(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_t(5, size=n)


def microseconds(risk, expansion, batch_size):
    model = KernelRegressor(
        risk=risk,
        expansion=expansion,
        kernel=Gaussian(3.0),
        batch_size=batch_size,
        step_size=0.05,
        random_state=0,
    )
    model.partial_fit(*data(1_000, 0))  # compile, and fill the model
    X, y = data(N, 1)
    repeats = 3 if isinstance(risk, InNumPy) else REPEATS
    seconds = _common.least_cpu_seconds(lambda: model.partial_fit(X, y), repeats)
    assert model.model_order_ == ORDER
    return 1e6 * seconds / N


def main():
    rows = []
    for name, risk in RISKS.items():
        row = {"objective": name}
        for label, expansion in EXPANSIONS.items():
            for batch_size in (1, 2):
                alone = batch_size == 1 and name.endswith("stream")
                cost = "-" if alone else microseconds(risk, expansion, batch_size)
                row[f"{label}, steps on {batch_size} (µs)"] = cost
        rows.append(row)
        print(row, flush=True)
    _common.publish("risk_steps", rows)


if __name__ == "__main__":
    main()
