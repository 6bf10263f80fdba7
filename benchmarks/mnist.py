"""MNIST: POLK with the settings that reproduce the paper, beside its peers.

Pixels are divided by 255. CPU seconds are of training only, with one thread.

SVC has the settings of the literature here (C 10, gamma .025). In the other tables it has
scikit-learn's own. Those tables also have the default learner.

To run it, ``mnist_train.parquet`` and ``mnist_test.parquet`` must be in the folder named by
``MERCER_DATA``. ``--svc`` adds scikit-learn's LIBSVM, which takes many minutes.
"""

from __future__ import annotations

import sys

import _common
import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer import KernelClassifier
from mercer.expansions import KOMP, Budget
from mercer.kernels import Gaussian
from mercer_reproduction._data_files import load_parquet_dataset


def load(name):
    table = load_parquet_dataset(name)
    y = table.column("label").to_numpy()
    X = np.column_stack([c.to_numpy() for c in table.drop_columns("label").columns])
    return X.astype(np.float32) / np.float32(255), y


def row(model, setting, passes, y_test, predicted, seconds, order, risk=None):
    return {
        "model": model,
        "setting": setting,
        "passes": passes,
        "error %": 100 * float(np.mean(predicted != y_test)),
        "risk": "-" if risk is None else float(risk),
        "model order": order,
        "CPU s": seconds,
    }


def polk(name, setting, data, passes, **parameters):
    """One row per pass."""
    X, y, X_test, y_test = data
    model = KernelClassifier(kernel=Gaussian(4.0), regularization=1e-6, average=None, **parameters)
    rng, rows, spent = np.random.default_rng(0), [], 0.0
    for number in range(1, passes + 1):
        order = rng.permutation(len(X))
        shuffled, labels = X[order], y[order]
        seconds, _ = _common.cpu_seconds(lambda: model.partial_fit(shuffled, labels))
        spent += seconds
        scores = model.decision_function(X_test)
        risk = np.mean(model.loss_.value(y_test, scores))
        rows.append(
            row(name, setting, number, y_test, scores.argmax(1), spent, model.model_order_, risk)
        )
    return rows


def peer(name, setting, model, data, passes, order):
    X, y, X_test, y_test = data
    seconds, _ = _common.cpu_seconds(lambda: model.fit(X, y))
    size = int(model.n_support_.sum()) if order is None else order
    return row(name, setting, passes, y_test, model.predict(X_test), seconds, size)


def main():
    data = (*load("mnist_train"), *load("mnist_test"))
    warm = KernelClassifier(batch_size=32, step_size=1.0)  # compile before timing
    warm.partial_fit(data[0][:2000], data[1][:2000])
    hinge = {"loss": "multiclass_hinge", "step_size": 24.0}
    softmax = {"loss": "softmax", "step_size": 24.0}
    rows = []
    rows += polk("POLK, hinge", "K .016", data, 3, expansion=KOMP(parsimony=0.016), **hinge)
    rows += polk("POLK, hinge", "tolerance 2.0", data, 3, expansion=KOMP(tolerance=2.0), **hinge)
    rows += polk("POLK, hinge", "K .024", data, 3, expansion=KOMP(parsimony=0.024), **hinge)
    rows += polk("POLK, softmax", "K .008", data, 3, expansion=KOMP(parsimony=0.008), **softmax)
    single = {"loss": "multiclass_hinge", "step_size": 1.0, "batch_size": 1}
    rows += polk("BSGD, merge", "1,086 points", data, 3, expansion=Budget(1086), **single)
    X, y, X_test, y_test = data
    for size in (1000, 4096):
        machine = make_pipeline(
            RBFSampler(gamma=1 / 32, n_components=size, random_state=0),
            SGDClassifier(max_iter=5, tol=None, random_state=0),
        )
        rows.append(peer("RBFSampler + SGDClassifier", f"{size} features", machine, data, 5, size))
    machine = make_pipeline(
        Nystroem(gamma=1 / 32, n_components=1000, random_state=0),
        SGDClassifier(max_iter=5, tol=None, random_state=0),
    )
    rows.append(peer("Nystroem + SGDClassifier", "1000 points", machine, data, 5, 1000))
    if "--svc" in sys.argv:
        small = (X[:10000], y[:10000], X_test, y_test)
        rows.append(
            peer("SVC (LIBSVM)", "first 10,000 rows", SVC(C=10, gamma=0.025), small, "-", None)
        )
        rows.append(peer("SVC (LIBSVM)", "all rows", SVC(C=10, gamma=0.025), data, "-", None))
    _common.publish("mnist", rows)


if __name__ == "__main__":
    main()
