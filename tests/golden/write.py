"""Write the golden model files and what their models answer: run by hand, and only on purpose.

    PYTHONPATH=src python tests/golden/write.py

Files that are there are kept, so that a change of the code that changes answers is seen. One is
written anew after it was deleted because of a change of the format. ``answers.json``
holds, for each file, the answers of the model to ``asked`` rows, and those after it learned them.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelGradient,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.buffers import FIFO
from mercer.expansions import KOMP, Auto, Budget, Dictionary, RandomFeatures
from mercer.kernels import Gaussian, Laplacian
from mercer_app.training import FileTraining

FOLDER = Path(__file__).parent
KERNEL = Gaussian(1.0)
N_ROWS, N_ASKED = 40, 8

# Points of a Weyl sequence, rounded: the same in every version of numpy and on every processor.
X = (
    4.0 * (np.outer(np.arange(1, N_ROWS + N_ASKED + 1), [0.7548777, 0.5698403]) % 1.0) - 2.0
).round(3)
Y = (np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * np.cos(50.0 * X[:, 1])).round(3)
CLASSES = np.digitize(Y, [-0.3, 0.8])
X_FIT, Y_FIT, CLASSES_FIT = X[:N_ROWS], Y[:N_ROWS], CLASSES[:N_ROWS]
X_ASKED = X[N_ROWS:]
SPARSE = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
TOWNS = np.array(["Bern", "Bonn", "Brno"])[CLASSES]


def table():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        lines = [
            f"{'' if i % 9 == 0 else a},{b},{town},{y}"
            for i, ((a, b), town, y) in enumerate(zip(X_FIT, TOWNS, Y_FIT, strict=False))
        ]
        path.write_text("\n".join(["height,width,town,y", *lines, ""]))
        training = FileTraining(path, "y").start()
        training.run(Path(folder) / "model.mercer")
        return load_model(Path(folder) / "model.mercer")


MODELS = {
    "default": lambda: KernelRegressor(
        regularization=1e-3, expansion=Auto(resumable=True), random_state=0
    ).fit(X_FIT, Y_FIT),
    "exact": lambda: KernelRegressor(
        kernel=KERNEL, regularization=1e-3, expansion=Auto(resumable=True), random_state=0
    ).fit(X_FIT, Y_FIT),
    "komp": lambda: KernelClassifier(
        "softmax", kernel=KERNEL, expansion=KOMP(max_size=15), random_state=0
    ).partial_fit(X_FIT, CLASSES_FIT),
    "calibrated": lambda: (
        KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=15), random_state=0)
        .fit(SPARSE[:20], Y[:20])
        .calibrate(SPARSE[20:N_ROWS], Y[20:N_ROWS])
    ),
    "budget": lambda: KernelRegressor(
        "huber", kernel=Laplacian(2.0), expansion=Budget(12, "project"), random_state=0
    ).fit(X_FIT, Y_FIT),
    "random_features": lambda: KernelRegressor(
        kernel=KERNEL,
        expansion=RandomFeatures(32, "newton", ridge=0.01, precision="double", min_steps=1),
        random_state=0,
    ).partial_fit(X_FIT, Y_FIT),
    "dictionary": lambda: KernelRegressor(
        kernel=KERNEL, expansion=Dictionary(12, ridge=1e-3, refresh=0.0), random_state=0
    ).fit(X_FIT, Y_FIT),
    "ranker": lambda: KernelRanker(
        kernel=KERNEL, buffer=FIFO(8), expansion=KOMP(max_size=15), random_state=0
    ).partial_fit(X_FIT, Y_FIT),
    "novelty": lambda: NoveltyDetector(
        0.2, kernel=KERNEL, expansion=KOMP(max_size=15), random_state=0
    ).fit(X_FIT),
    "value_function": lambda: ValueFunction(
        0.8, "gtd2", kernel=KERNEL, expansion=KOMP(max_size=15), random_state=0
    ).partial_fit(X_FIT[:-1], Y_FIT[:-1], X_FIT[1:]),
    "density_ratio": lambda: DensityRatio(
        kernel=KERNEL, expansion=KOMP(max_size=15), n_passes=2, random_state=0
    ).fit(X_FIT[:20], X_FIT[20:] + 0.5),
    "gradient": lambda: KernelGradient(
        kernel=KERNEL, expansion=KOMP(max_size=15), batch_size=10, n_passes=2, random_state=0
    ).partial_fit(X_FIT, Y_FIT),
    "gaussian_process": lambda: GaussianProcessRegressor(
        KERNEL, noise=0.05, n_features=24, random_state=0
    ).fit(X_FIT, Y_FIT),
    "table": table,
}


def asked(name):
    """The rows that a model is asked about."""
    if name == "calibrated":
        return SPARSE[N_ROWS:]
    if name != "table":
        return X_ASKED
    height = np.where(np.arange(N_ASKED) == 2, np.nan, X_ASKED[:, 0])
    return {"height": height, "width": X_ASKED[:, 1], "town": TOWNS[N_ROWS:]}


def answers_of(model, rows):
    """Everything that a model answers, as arrays of numbers."""
    found = {}
    for method in ("decision_function", "predict_proba", "score_samples", "log_ratio"):
        if hasattr(model, method):
            found[method] = getattr(model, method)(rows)
    if isinstance(model, GaussianProcessRegressor):
        found["predict"], found["deviation"] = model.predict(rows, return_std=True)
    elif not found:
        found["predict"] = model.predict(rows)
    if sparse.issparse(rows):
        found["interval"] = model.predict_interval(rows, 0.8)
    return {method: np.asarray(values, np.float64).tolist() for method, values in found.items()}


def learn_on(name, model):
    """Let the model learn the rows that it was asked about."""
    X_on, y_on = SPARSE[N_ROWS:] if name == "calibrated" else X_ASKED, Y[N_ROWS:]
    if name == "novelty":
        return model.partial_fit(X_on)
    if name == "value_function":
        return model.partial_fit(X_on[:-1], y_on[:-1], X_on[1:])
    if name == "density_ratio":
        return model.partial_fit(X_on[:4], X_on[4:] + 0.5)
    if name == "table":
        return model.partial_fit(asked(name), y_on)
    return model.partial_fit(X_on, CLASSES[N_ROWS:] if hasattr(model, "predict_proba") else y_on)


def main():
    path = FOLDER / "answers.json"
    recorded = json.loads(path.read_text()) if path.exists() else {}
    for name, make in MODELS.items():
        file = FOLDER / f"{name}.mercer"
        if file.exists():
            continue
        make().save(file)
        model = load_model(file)
        recorded[name] = {"answers": answers_of(model, asked(name))}
        recorded[name]["after_learning_on"] = answers_of(learn_on(name, model), asked(name))
    path.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
