"""The papers' algorithms with their papers' settings, beside what the library does by itself.

Each algorithm learns one pass over rows like those of its paper, which are generated:

- *mixtures* are POLK's: five classes, each of three Gaussians in the plane, 5,000 rows. The error
  is the share of wrong classes among 2,500 other rows.
- *outliers* are COLK's: 2x + 3 sin 6x on [0, 1] with noise, and rows far off, 4,800 rows. The error
  is the root mean square of the distance to the function itself.
- *waves* are DSG's: cos(pi r/2) exp(-pi r/10) on a square, 65,536 rows with noise. The error is as
  above.
- *rare* has ten inputs and two classes, a tenth of the rows in one of them, 4,000 rows (the pairs
  of Algorithm 2 grow with the square). The error is 1 - AUC on 4,000 other rows.

Numbers are means of three draws. "size" is the number of points, or of random features. Rows that
name no paper are the library's own, without settings but for a loss or a risk.
"""

from __future__ import annotations

import _common
import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from mercer import KernelClassifier, KernelRanker, KernelRegressor
from mercer.exceptions import DivergenceError
from mercer.kernels import Gaussian
from mercer.recipes import bsgd, colk, dsg, norma, polk, unregularized, unregularized_pairs
from mercer.risks import CentralMoments
from mercer_reproduction._colk_data import SETTINGS, draw_pool
from mercer_reproduction._colk_data import truth as line
from mercer_reproduction._synthetic import synthetic
from mercer_reproduction._synthetic import truth as waves_truth
from mercer_reproduction.polk_multidist import SEEDS, make_multidist

DRAWS = 3


def mixtures(draw):
    X, y, X_test, y_test = make_multidist(SEEDS[draw])
    return X, y, lambda model: np.mean(model.predict(X_test) != y_test)


def outliers(draw):
    pool = draw_pool(SETTINGS["B"], seed=draw)
    X, test = pool.rows.X, pool.test.X
    return X, pool.rows.y, lambda model: _distance(model, test, line)


def waves(draw):
    rows = synthetic(2**16, draw)
    test = synthetic(4096, 1000 + draw)
    return rows.X, rows.y, lambda model: _distance(model, test.X, waves_truth)


def rare(draw):
    rng = np.random.default_rng(draw)
    X = rng.standard_normal((8000, 10))
    f = X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.5 * rng.standard_normal(len(X))
    y = (f > np.quantile(f, 0.9)).astype(int)
    half = len(X) // 2
    return X[:half], y[:half], lambda model: 1 - _auc(model, X[half:], y[half:])


def _distance(model, X, truth):
    return np.sqrt(np.mean((model.predict(X) - truth(X)) ** 2))


def _auc(model, X, y):
    return roc_auc_score(y, model.decision_function(X))


CASES = {
    mixtures: {
        "polk": ("POLK", lambda: polk(kernel=Gaussian(0.6))),
        "polk, K=1e-4": ("POLK", lambda: polk(K=1e-4, kernel=Gaussian(0.6))),
        "polk, softmax, K=.03": ("POLK", lambda: polk("softmax", K=0.03, kernel=Gaussian(0.6))),
        "bsgd": ("a comparator of POLK", lambda: bsgd(kernel=Gaussian(0.6))),
        "bsgd, 16 points": ("a comparator of POLK", lambda: bsgd(size=16, kernel=Gaussian(0.6))),
        "bsgd, 16 points, removed": (
            "a comparator of POLK",
            lambda: bsgd(size=16, strategy="remove", kernel=Gaussian(0.6)),
        ),
        "norma": (
            "a comparator of POLK",
            lambda: norma("multiclass_hinge", kernel=Gaussian(0.6)),
        ),
        'KernelClassifier(expansion="komp")': ("", lambda: KernelClassifier(expansion="komp")),
        "KernelClassifier()": ("", KernelClassifier),
    },
    outliers: {
        "colk": ("COLK", lambda: colk(kernel=Gaussian(0.06))),
        "colk, clamped": (
            "COLK",
            lambda: colk(risk=CentralMoments(4, weight=0.1, clamp=True), kernel=Gaussian(0.06)),
        ),
        'KernelRegressor(risk="cvar:0.9")': ("", lambda: KernelRegressor(risk="cvar:0.9")),
        'KernelRegressor("huber")': ("", lambda: KernelRegressor("huber")),
        "KernelRegressor()": ("", KernelRegressor),
    },
    waves: {
        "dsg, squared": (
            "DSG",
            lambda: dsg("squared", nu=1e-6, B=256, m=256, kernel=Gaussian(0.7)),
        ),
        'KernelRegressor(kernel=Gaussian(0.7), expansion="random_features")': (
            "",
            lambda: KernelRegressor(kernel=Gaussian(0.7), expansion="random_features"),
        ),
        'KernelRegressor(expansion="random_features")': (
            "",
            lambda: KernelRegressor(expansion="random_features"),
        ),
        "KernelRegressor()": ("", KernelRegressor),
    },
    rare: {
        "unregularized": ("Y&Z", unregularized),
        'unregularized, step_size="auto"': ("Y&Z", lambda: unregularized(step_size="auto")),
        "unregularized_pairs": ("Y&Z", unregularized_pairs),
        "KernelRanker()": ("", KernelRanker),
        "KernelClassifier()": ("", KernelClassifier),
    },
}


def measured(make, problem):
    """Mean error, size and seconds over draws."""
    errors, sizes, seconds = [], [], []
    for draw in range(DRAWS):
        X, y, error = problem(draw)
        model = make().set_params(random_state=draw)
        try:
            clone(model).fit(X[:300], y[:300])  # compile
            spent, _ = _common.cpu_seconds(lambda model=model, X=X, y=y: model.fit(X, y))
        except DivergenceError:
            return "diverges", "-", "-"
        errors.append(error(model))
        sizes.append(model.model_order_)
        seconds.append(spent)
    return f"{np.mean(errors):.4f}", f"{np.mean(sizes):,.0f}", f"{np.mean(seconds):.2f}"


def main():
    rows = []
    for problem, models in CASES.items():
        for name, (paper, make) in models.items():
            error, size, seconds = measured(make, problem)
            rows.append(
                {
                    "rows": problem.__name__,
                    "paper": paper or "-",
                    "model": f"`{name}`" if not paper else name,
                    "error": error,
                    "size": size,
                    "CPU s": seconds,
                }
            )
            print(rows[-1], flush=True)
    _common.publish("recipes", rows)


if __name__ == "__main__":
    main()
