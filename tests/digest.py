"""Hashes of what models are and predict, so that two checkouts can be compared to the last bit.

A change that means to keep all results runs this in the checkout before it and in its own, on one
machine and with the same libraries:

    PYTHONPATH=BEFORE/src python tests/digest.py --write before.txt   # BEFORE: that checkout
    PYTHONPATH=$PWD/src python tests/digest.py --against before.txt

The second prints the configurations that differ and exits with 1 if there are any. Hashes are
those of exact bytes, dtypes and shapes: ``NAME:answers`` of all that a model predicts on the way,
``NAME:state`` of everything in the model files that it saves. ``--only WORD`` takes the
configurations whose names contain WORD, ``--detail`` prints every single array and setting, so that
``diff`` of two outputs says which one differs. Configurations are chosen so that learners,
objectives, dtypes, sparse rows, weights, new classes, single rows, averages and resuming meet
pairwise; other processors and libraries give other hashes. Only public names are used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = "1"


def _compiled_sources() -> str:
    """Digest of all that is compiled: numba caches by file and misses changes of called functions.

    What compiled functions call lies in files that name numba or beside them.
    """
    spec = find_spec("mercer")
    if spec is None or spec.origin is None:
        sys.exit("mercer is not to be found: set PYTHONPATH to the `src` of a checkout.")
    root = Path(spec.origin).parent
    contents = {path: path.read_bytes() for path in sorted(root.rglob("*.py"))}
    compiled = [path for path, content in contents.items() if b"numba" in content]
    folders = {path.parent for path in compiled} - {root}
    digest = hashlib.sha256()
    for path, content in contents.items():
        if path in compiled or path.parent in folders:
            digest.update(content)
    return digest.hexdigest()[:16]


if __name__ == "__main__" and "NUMBA_CACHE_DIR" not in os.environ:
    _folder = Path(tempfile.gettempdir()) / f"mercer-digest-{os.getuid()}-{_compiled_sources()}"
    os.environ["NUMBA_CACHE_DIR"] = str(_folder)

import numpy as np  # noqa: E402 - after the number of threads is set
import scipy.sparse as sp  # noqa: E402
from safetensors import safe_open  # noqa: E402

from mercer import (  # noqa: E402
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
from mercer.buffers import FIFO, PerClassFIFO, Reservoir  # noqa: E402
from mercer.columns import TablePreprocessor  # noqa: E402
from mercer.expansions import KOMP, Auto, Budget, Dictionary, Full, RandomFeatures  # noqa: E402
from mercer.gaussian_process import Cyclic, Faithful, InducingPoints  # noqa: E402
from mercer.kernels import Gaussian, Laplacian, Mapped, Matern, Partitioned  # noqa: E402
from mercer.losses import Huber, Quantile  # noqa: E402
from mercer.maps import Standardize  # noqa: E402
from mercer.recipes import unregularized  # noqa: E402
from mercer.risks import CentralMoments, CVaR, Entropic, UpperSemideviation, Variance  # noqa: E402
from mercer.schedules import InverseTime, PowerDecay  # noqa: E402
from mercer_app.rows import TableRows  # noqa: E402

CONFIGURATIONS: dict[str, Callable[[Record], None]] = {}
ANSWERS = (
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "log_ratio",
    "predict_auxiliary",
)
RESUMABLE = Auto(resumable=True)


class Record:
    """Named pieces of what one configuration answered and of what its files hold."""

    def __init__(self, folder: str) -> None:
        self.pieces: dict[str, str] = {}
        self.folder = folder

    def add(self, name: str, value: object) -> None:
        assert name not in self.pieces
        if isinstance(value, np.ndarray) and value.dtype != object:
            array = np.ascontiguousarray(value)
            text = f"{array.dtype.str} {value.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        elif isinstance(value, np.ndarray):
            text = repr(value.tolist())
        else:
            text = f"{type(value).__name__} {value!r}"
        self.pieces[name] = text

    def answers(self, when: str, model, X) -> None:
        """All that the model predicts for some rows, whole and one by one."""
        for method in ANSWERS:
            if hasattr(model, method):
                self.add(f"answers/{when}/{method}", getattr(model, method)(X))
        for method in ("predict_one", "score_one"):
            if hasattr(model, method) and isinstance(X, np.ndarray):
                for i in range(3):
                    self.add(f"answers/{when}/{method}/{i}", getattr(model, method)(X[i]))

    def saved(self, when: str, model):
        """Add everything in the model's file; return what is loaded from it."""
        path = Path(self.folder) / "model"
        model.save(path)
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dict
                if name.endswith("/means"):  # of columns, for gaps in later rows: nothing learned
                    continue
                self.add(f"state/{when}/tensor/{name}", file.get_tensor(name))
            self._settings(f"state/{when}", json.loads(file.metadata()["mercer"]))
        return load_model(path)

    def _settings(self, name: str, value: object) -> None:
        if name.endswith("/means"):
            return
        if isinstance(value, dict) and value:
            for key, item in value.items():
                self._settings(f"{name}/{key}", item)
        else:
            self.add(name, value)

    def lines(self, configuration: str) -> dict[str, str]:
        """One hash for the answers and one for the files."""
        found = {}
        for part in ("answers", "state"):
            digest = hashlib.sha256()
            for name in sorted(self.pieces):
                if name.startswith(f"{part}/"):
                    digest.update(f"{name} {self.pieces[name]}\n".encode())
            found[f"{configuration}:{part}"] = digest.hexdigest()
        return found


def configuration(name: str, function: Callable[[Record], None]) -> None:
    assert name not in CONFIGURATIONS
    CONFIGURATIONS[name] = function


# --- data -----------------------------------------------------------------------------------------


def regression(n, d=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X.astype(dtype), y, rng.uniform(0.5, 2.0, n)


def classes_of(X, y, n_classes):
    cuts = np.linspace(-0.3, 1.2, n_classes + 1)[1:-1]
    return np.digitize(y, cuts)


def classification(n, d=3, n_classes=2, seed=1, dtype=np.float64):
    X, y, w = regression(n, d, seed, dtype)
    return X, classes_of(X, y, n_classes), w


def sparse_rows(n, d=40, seed=2):
    rng = np.random.default_rng([seed, n])
    X = sp.random(n, d, 0.1, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    y = np.asarray(X[:, :5].sum(axis=1)).ravel()
    return X, y, rng.uniform(0.5, 2.0, n)


def transitions(n, seed=3):
    rng = np.random.default_rng(seed)
    states = rng.uniform(-1.0, 1.0, (n, 2))
    following, second = (
        np.clip(0.9 * states + 0.2 * rng.normal(size=(n, 2)), -1.0, 1.0) for _ in range(2)
    )
    return states, np.cos(states[:, 0]), following, rng.random(n) < 0.05, second


def pieces_of(n, sizes=(40, 1, 7, 64, 33)):
    """Slices of uneven sizes that cover ``n`` rows."""
    start, number = 0, 0
    while start < n:
        stop = min(start + sizes[number % len(sizes)], n)
        yield slice(start, stop)
        start, number = stop, number + 1


# --- ways of learning -----------------------------------------------------------------------------


def fitted(make, data, *, weighted=False, goes_on=True):
    """``fit`` on most rows, then a file, then the rest of the rows by ``partial_fit``."""

    def run(record):
        X, y, w = data()
        n, test = X.shape[0] * 3 // 4, X[-60:]
        model = make().fit(X[:n], y[:n], **({"sample_weight": w[:n]} if weighted else {}))
        record.answers("fit", model, test)
        model = record.saved("fit", model)
        if goes_on:
            model.partial_fit(X[n:], y[n:], **({"sample_weight": w[n:]} if weighted else {}))
            record.answers("on", model, test)
            record.saved("on", model)

    return run


def streamed(
    make,
    data,
    *,
    weighted=False,
    single=False,
    first_classes=None,
    early=True,
    sizes=(40, 1, 7, 33),
):
    """Pieces of uneven sizes, answers in between, a file in the middle, single rows at the end."""

    def run(record):
        X, y, w = data()
        n, test = X.shape[0], X[-50:]
        order = np.arange(n)
        if first_classes is not None:  # all others come later
            order = np.argsort(y >= first_classes, kind="stable")
        X, y, w = X[order], y[order], w[order]
        model, half, asked = make(), n // 2, n // 4 if early else None
        ones = 6 if single else 0
        for piece in pieces_of(n - ones, sizes):
            given = {"sample_weight": w[piece]} if weighted else {}
            model.partial_fit(X[piece], y[piece], **given)
            if asked is not None and piece.stop >= asked:
                record.answers("early", model, test)
                asked = None
            if half is not None and piece.stop >= half:
                model = record.saved("half", model)
                half = None
        for i in range(n - ones, n):
            given = {"sample_weight": float(w[i])} if weighted else {}
            model.learn_one(X[i], y[i], **given)
        record.answers("end", model, test)
        record.saved("end", model)

    return run


def scored(make, rows, *, stream=False):
    """A novelty detector: rows without targets."""

    def run(record):
        X = rows()
        n, model = X.shape[0] // 2, make()
        if stream:
            for piece in pieces_of(n):
                model.partial_fit(X[piece])
        else:
            model.fit(X[:n])
        record.answers("fit", model, X[-50:])
        model = record.saved("fit", model)
        model.partial_fit(X[n:])
        if not sp.issparse(X):
            model.learn_one(X[0])
        record.answers("on", model, X[-50:])
        record.add("answers/on/offset", model.offset_)
        record.saved("on", model)

    return run


def compared(make, *, stream=False):
    """A density ratio: two samples."""

    def run(record):
        rng = np.random.default_rng(4)
        P, Q = rng.normal(size=(400, 2)), rng.normal(0.5, 1.2, (300, 2))
        model = make()
        if not stream:
            model.fit(P[:300], Q[:200])
            record.answers("fit", model, P[-50:])
            record.add("answers/fit/divergence", model.divergence_)
            model = record.saved("fit", model)
        for i in (0, 1):
            model.partial_fit(P[300 + 50 * i : 350 + 50 * i], Q[200 + 50 * i : 250 + 50 * i])
        record.answers("on", model, P[-50:])
        record.add("answers/on/divergence", model.divergence(P[:100], Q[:100]))
        record.saved("on", model)

    return run


def valued(make, *, stream=False):
    """A value function: transitions."""

    def run(record):
        states, rewards, following, terminals, second = transitions(500)
        model = make()

        def learn(rows, learner):
            given = {}
            if model.method == "double_sampling":
                given["second"] = (rewards[rows] + 0.1, second[rows], terminals[rows])
            learner(states[rows], rewards[rows], following[rows], terminals[rows], **given)

        if stream:
            for piece in pieces_of(400, (50, 1, 64)):
                learn(piece, model.partial_fit)
        else:
            learn(slice(0, 400), model.fit)
        values_of(record, "fit", model, states[:50])
        model = record.saved("fit", model)
        learn(slice(400, 500), model.partial_fit)
        values_of(record, "on", model, states[:50])
        record.saved("on", model)

    return run


def values_of(record, when, model, X):
    record.add(f"answers/{when}/predict", model.predict(X))
    if model.method in ("gtd2", "tdc"):
        record.add(f"answers/{when}/auxiliary", model.predict_auxiliary(X))


def ranked(make, *, targets="grades", groups=False, stream=False, pairs=False, sparse=False):
    """A ranker: grades, classes or groups; values of rows or of pairs."""

    def run(record):
        X, y, w = sparse_rows(240, 20) if sparse else regression(240)
        y = classes_of(X, y, 3 if targets == "grades" else 2)
        group = np.arange(240) // 12 if groups else None
        model, n = make(), 180
        if stream:
            for piece in pieces_of(n, (36, 12, 60)):
                given = {"group": group[piece]} if groups else {}
                model.partial_fit(X[piece], y[piece], **given)
        else:
            given = {"group": group[:n]} if groups else {"sample_weight": w[:n]}
            model.fit(X[:n], y[:n], **given)
        for when in ("fit", "on"):
            if pairs:
                record.add(f"answers/{when}/pairs", model.predict_pair(X[-50:], X[:50]))
            else:
                record.answers(when, model, X[-50:])
            model = record.saved(when, model)
            if when == "fit":
                given = {"group": group[n:]} if groups else {}
                model.partial_fit(X[n:], y[n:], **given)

    return run


def posterior(make, data=None, *, on=True):
    """A Gaussian process: mean, deviation, covariance, samples, likelihood."""

    def run(record):
        X, y, w = regression(300) if data is None else data()
        model = make().fit(X[:200], y[:200], w[:200])
        for when in ("fit", "on"):
            mean, deviation = model.predict(X[-20:], return_std=True)
            record.add(f"answers/{when}/mean", mean)
            record.add(f"answers/{when}/deviation", deviation)
            if on:
                _, covariance = model.predict(X[-20:], return_cov=True)
                record.add(f"answers/{when}/covariance", covariance)
                record.add(f"answers/{when}/samples", model.sample_y(X[-20:], 3))
                record.add(f"answers/{when}/likelihood", model.log_marginal_likelihood())
            model = record.saved(when, model)
            if not on:
                break
            if when == "fit":
                model.partial_fit(X[200:], y[200:], w[200:])

    return run


def tabled(make, task):
    """A model of tables: text, gaps and units."""

    def run(record):
        X, y, _ = regression(500)
        rng = np.random.default_rng(5)
        town = np.array(["Bern", "Bonn", "Brno"])[rng.integers(0, 3, 500)]
        height = np.where(rng.random(500) < 0.1, np.nan, 100.0 * X[:, 0])
        target = np.where(y > 0.5, "high", "low") if task == "classes" else 1e3 + 50.0 * y
        rows = {"height": height, "width": X[:, 1], "town": town, "y": target}
        learning = TableRows(make(), TablePreprocessor(exclude=("y",)), "y")
        last = {k: v[-50:] for k, v in rows.items()}
        for start in (0, 200, 400):
            if start == 400:
                record.answers("half", learning.model, last)
                learning = TableRows.of_tables(record.saved("half", learning.model))
            learning.partial_fit({k: v[start : start + 200] for k, v in rows.items()})
        record.answers("end", learning.model, last)
        record.saved("end", learning.model)

    return run


def classifier(*args, **options):
    return lambda: KernelClassifier(*args, **{"random_state": 0, **options})


def regressor(*args, **options):
    return lambda: KernelRegressor(*args, **{"random_state": 0, **options})


def made(cls, *args, **options):
    return lambda: cls(*args, **{"random_state": 0, **options})


def of(make, *args, **options):
    return lambda: make(*args, **options)


def add_default_learner():
    auto = RESUMABLE
    configuration(
        "default-squared-small-weights",
        fitted(regressor(expansion=auto), of(regression, 300), weighted=True),
    )
    configuration(
        "default-squared-cells",
        fitted(regressor(expansion=auto), of(squares, 3500), weighted=True),
    )
    configuration(
        "default-squared-cells-forgetting",
        fitted(regressor(expansion=Auto(forgetting=0.999, resumable=True)), of(squares, 2800)),
    )
    configuration(
        "default-squared-cells-stream",
        streamed(
            regressor(expansion=Auto(budget_seconds=3.0, max_memory=2**23)),
            of(squares, 20_900, dtype=np.float32),
            early=False,
            single=True,
            sizes=(20_100, 200),
        ),
    )
    configuration(
        "default-squared-targets-float32",
        fitted(regressor(expansion=auto), two_targets),
    )
    configuration(
        "default-classes2-float32",
        fitted(classifier(expansion=auto), of(classification, 700, 4, dtype=np.float32)),
    )
    configuration(
        "default-classes3-cells", fitted(classifier(expansion=auto), of(squares, 3500, 3))
    )
    configuration(
        "default-classes3-stream-new-classes",
        streamed(
            classifier(expansion=Auto(expected_rows=900)),
            of(classification, 700, 3, 3),
            first_classes=2,
            single=True,
            weighted=True,
            sizes=(150, 100),
        ),
    )
    configuration(
        "default-squared-stream-forgetting",
        streamed(
            regressor(expansion=Auto(forgetting=0.995, refresh=0.5)),
            of(regression, 600),
            single=True,
            sizes=(150, 100),
        ),
    )
    configuration(
        "default-squared-budget-memory",
        fitted(
            regressor(expansion=Auto(budget_seconds=0.5, max_memory=2**20, resumable=True)),
            of(regression, 2000, 5),
        ),
    )
    configuration(
        "default-classes2-series-blocks",
        fitted(
            classifier(expansion=Auto(block_length=25, resumable=True), class_weight="balanced"),
            of(classification, 400),
        ),
    )
    configuration(
        "default-squared-partitioned-kernel",
        fitted(
            lambda: KernelRegressor(
                kernel=Partitioned.fitted(regression(1200)[0], 5), expansion=auto, random_state=0
            ),
            of(regression, 1200),
        ),
    )
    configuration(
        "default-classes3-kernel-given-sparse",
        fitted(
            classifier(kernel=Laplacian("median"), expansion=auto, regularization=1e-3),
            lambda: with_classes(sparse_rows(400)),
        ),
    )
    configuration(
        "default-quantiles",
        fitted(regressor(Quantile([0.1, 0.5, 0.9])), of(regression, 500), goes_on=False),
    )
    configuration(
        "default-huber-stream", streamed(regressor(Huber(0.5)), of(regression, 300), sizes=(100,))
    )
    configuration(
        "default-wide-columns",
        fitted(classifier(expansion=auto), of(classification, 400, 70), goes_on=False),
    )
    configuration("default-table-classes", tabled(classifier(), "classes"))
    configuration("default-table-quantities", tabled(regressor(), "quantities"))


def two_targets():
    X, y, w = regression(600, dtype=np.float32)
    return X, np.column_stack([y, np.cos(X[:, 0])]), w


def squares(n, n_classes=None, dtype=np.float64):
    """A chessboard, which cells learn better than one dictionary."""
    rng = np.random.default_rng([7, n])
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.sign(np.sin(8.0 * X[:, 0]) * np.sin(8.0 * X[:, 1])) + 0.1 * rng.normal(size=n)
    return X.astype(dtype), y if n_classes is None else classes_of(X, y, n_classes), rng.random(n)


def counts(n):
    X, y, w = regression(n)
    return X, np.random.default_rng(6).poisson(np.exp(0.5 * y)).astype(np.float64), w


def with_classes(data, n_classes=3):
    X, y, w = data
    return X, classes_of(X, y, n_classes), w


def add_steps():
    g = {"kernel": Gaussian(1.0)}
    configuration(
        "komp-logistic-suffix-single",
        streamed(
            classifier("logistic", expansion=KOMP(max_size=30), **g),
            of(classification, 300),
            single=True,
            weighted=True,
        ),
    )
    configuration(
        "komp-softmax-new-classes-float32",
        streamed(
            classifier("softmax", expansion=KOMP(parsimony=0.04), average=None, **g),
            of(classification, 300, 3, 4, dtype=np.float32),
            single=True,
            first_classes=2,
        ),
    )
    configuration(
        "komp-squared-tolerance-polyak",
        fitted(
            regressor(
                expansion=KOMP(tolerance=0.02), step_size=PowerDecay(0.5), average="polyak", **g
            ),
            of(regression, 300),
            weighted=True,
        ),
    )
    configuration(
        "komp-quantiles-passes-laplacian",
        fitted(
            regressor(
                Quantile([0.2, 0.8]), expansion=KOMP(max_size=25), kernel="laplacian", n_passes=2
            ),
            of(regression, 200),
        ),
    )
    configuration(
        "komp-safer-paths",
        streamed(
            regressor(
                kernel=Gaussian(4.0), expansion=KOMP(tolerance=1e-6), step_size=0.5, batch_size=4
            ),
            of(regression, 160, dtype=np.float64),
        ),
    )
    configuration(
        "budget-merge-hinge",
        streamed(
            classifier("hinge", expansion=Budget(20, "merge"), **g),
            of(classification, 240),
            weighted=True,
        ),
    )
    configuration(
        "budget-project-huber-float32",
        fitted(
            regressor("huber", expansion=Budget(20, "project"), **g),
            of(regression, 240, dtype=np.float32),
        ),
    )
    configuration(
        "budget-remove-multiclass-hinge",
        fitted(
            classifier("multiclass_hinge", expansion=Budget(20, "remove"), average=None, **g),
            of(classification, 240, 3, 3),
        ),
    )
    configuration(
        "full-poisson",
        fitted(regressor("poisson", expansion="full", **g), of(counts, 200), weighted=True),
    )
    configuration(
        "full-sparse-squared-hinge",
        streamed(
            classifier("squared_hinge", expansion=Full(max_size=60), kernel="linear"),
            lambda: with_classes(sparse_rows(200), 2),
        ),
    )
    configuration(
        "full-theory-unregularized",
        fitted(made(unregularized, step_size="theory"), of(classification, 240)),
    )
    configuration(
        "komp-mapped-standardize-inverse-time",
        fitted(
            regressor(
                kernel=Mapped(Matern(1.5, 2.0), Standardize()),
                expansion=KOMP(max_size=20),
                step_size=InverseTime(0.5, 30.0),
            ),
            two_targets,
        ),
    )


def add_risks():
    options = {"kernel": Gaussian(1.0), "expansion": KOMP(max_size=25)}
    for name, risk, make, data in (
        ("cvar", CVaR(0.8), regressor, of(regression, 240)),
        ("variance", Variance(), classifier, of(classification, 240)),
        ("entropic", Entropic(0.5), regressor, of(regression, 240, dtype=np.float32)),
        ("semideviation", UpperSemideviation(), regressor, of(regression, 240)),
        ("moments", CentralMoments(4), classifier, of(classification, 240, 3, 3)),
    ):
        configuration(
            f"risk-{name}", streamed(make(risk=risk, **options), data, weighted=name != "moments")
        )
    configuration(
        "risk-cvar-random-features",
        fitted(
            regressor(
                risk="cvar:0.9",
                kernel=Gaussian(1.0),
                expansion=RandomFeatures(64, "newton", min_steps=10),
            ),
            of(regression, 300),
        ),
    )
    configuration(
        "risk-semivariance-dictionary",
        fitted(
            regressor(risk="semivariance", kernel=Gaussian(1.0), expansion=Dictionary(30)),
            of(regression, 300),
        ),
    )


def add_features():
    def features(mode, **options):
        return RandomFeatures(64, mode, min_steps=10, **options)

    g = {"kernel": Gaussian(1.0)}
    configuration(
        "features-newton-softmax-new-classes",
        streamed(
            classifier(expansion=features("newton"), **g),
            of(classification, 400, 3, 4),
            single=True,
            first_classes=2,
        ),
    )
    configuration(
        "features-newton-squared-fit-float32",
        fitted(
            regressor(expansion=features("newton"), n_passes=2, **g),
            of(regression, 400, dtype=np.float32),
            weighted=True,
        ),
    )
    configuration(
        "features-faithful-quantile-double",
        streamed(
            regressor(
                Quantile(0.3),
                expansion=features("faithful", precision="double", design="iid"),
                kernel="laplacian",
            ),
            of(regression, 300),
            weighted=True,
        ),
    )
    configuration(
        "features-cyclic-logistic",
        fitted(
            classifier(expansion=features("cyclic", max_blocks=3, growth="doubling"), **g),
            of(classification, 400, 4),
        ),
    )
    configuration(
        "features-cyclic-squared-ridges-hadamard",
        fitted(
            regressor(
                expansion=features(
                    "cyclic", max_blocks=2, ridge=(1e-2, 1e-4), design="hadamard", paired=False
                ),
                **g,
            ),
            of(regression, 300, 20),
        ),
    )
    configuration(
        "features-solve-squared-stream",
        streamed(
            regressor(expansion=features("solve"), kernel="matern"),
            of(regression, 300),
            single=True,
        ),
    )
    configuration(
        "features-solve-hinge-sparse",
        fitted(
            classifier("hinge", expansion=features("solve"), **g),
            lambda: with_classes(sparse_rows(300), 2),
        ),
    )


def add_dictionaries():
    def dictionary(centers, **options):
        return Dictionary(40, centers, **options)

    g = {"kernel": Gaussian(1.0)}
    configuration(
        "dictionary-kmeans-squared-forgetting",
        streamed(
            regressor(expansion=dictionary("kmeans", forgetting=0.99, first_rows=120), **g),
            of(regression, 400),
            weighted=True,
            single=True,
        ),
    )
    configuration(
        "dictionary-uniform-softmax-new-classes",
        streamed(
            classifier(expansion=dictionary("uniform", first_rows=100), **g),
            of(classification, 400, 3, 4),
            first_classes=2,
        ),
    )
    configuration(
        "dictionary-leverage-huber-single-precision",
        fitted(
            regressor("huber", expansion=dictionary("leverage", precision="single"), **g),
            of(regression, 400),
            weighted=True,
        ),
    )
    configuration(
        "dictionary-komp-hinge-sparse",
        fitted(
            classifier("hinge", expansion=dictionary("komp", ridge=None), kernel="gaussian"),
            lambda: with_classes(sparse_rows(300), 2),
        ),
    )
    configuration(
        "dictionary-squared-float32-targets",
        fitted(regressor(expansion=dictionary("kmeans"), **g), two_targets),
    )
    configuration(
        "dictionary-logistic-balanced-step",
        fitted(
            classifier(
                "logistic",
                expansion=dictionary("kmeans", ridge=(1e-3, 1e-5)),
                class_weight="balanced",
                step_size=0.5,
                **g,
            ),
            of(classification, 400),
        ),
    )


def add_pairs():
    g = {"kernel": Gaussian(1.0)}
    komp = KOMP(max_size=25)
    configuration(
        "ranker-fit-auto-grades", ranked(made(KernelRanker, expansion=KOMP(max_size=60), **g))
    )
    # The explicit inverse gives way to its triangular root in the midst of a call.
    configuration("ranker-changes-paths", ranked(made(KernelRanker), targets="classes"))
    configuration(
        "ranker-hinge-reservoir-stream",
        ranked(
            made(KernelRanker, "hinge", buffer=Reservoir(20), expansion=komp, **g),
            targets="classes",
            stream=True,
        ),
    )
    configuration(
        "ranker-per-class-fifo-average",
        ranked(
            made(
                KernelRanker,
                "least_squares_margin",
                buffer=PerClassFIFO(5),
                average="suffix",
                regularization=0.01,
                expansion=komp,
                **g,
            ),
            targets="classes",
            stream=True,
        ),
    )
    configuration(
        "ranker-groups",
        ranked(
            made(KernelRanker, buffer=FIFO(15), expansion=Budget(20, "merge"), **g), groups=True
        ),
    )
    configuration(
        "ranker-random-features",
        ranked(
            made(KernelRanker, expansion=RandomFeatures(64, "newton", min_steps=10), **g),
            targets="classes",
        ),
    )
    configuration("ranker-dictionary", ranked(made(KernelRanker, expansion=Dictionary(30), **g)))
    configuration(
        "ranker-symmetric-bilinear",
        ranked(
            made(
                KernelRanker,
                pair_kernel="symmetric",
                pair_label="same",
                buffer=FIFO(8),
                expansion=KOMP(max_size=15),
                **g,
            ),
            targets="classes",
            pairs=True,
        ),
    )
    configuration(
        "ranker-mlpk-bilinear-full-stream",
        ranked(
            made(
                KernelRanker,
                pair_kernel="mlpk",
                pair_label="same",
                buffer=FIFO(8),
                expansion=Full(max_size=20),
                regularization=0.01,
                **g,
            ),
            targets="classes",
            pairs=True,
            stream=True,
        ),
    )
    configuration(
        "ranker-antisymmetric-random-features",
        ranked(
            made(
                KernelRanker,
                pair_kernel="antisymmetric",
                expansion=RandomFeatures(32, "faithful"),
                **g,
            ),
            pairs=True,
            stream=True,
        ),
    )


def add_tasks():
    g = {"kernel": Gaussian(1.0)}
    rows = lambda: regression(300)[0]  # noqa: E731
    single = lambda: regression(300, dtype=np.float32)[0]  # noqa: E731
    configuration("novelty-fit", scored(made(NoveltyDetector, 0.1, n_passes=2, **g), rows))
    configuration(
        "novelty-features-stream-float32",
        scored(
            made(NoveltyDetector, 0.2, expansion=RandomFeatures(64, "faithful"), **g),
            single,
            stream=True,
        ),
    )
    configuration(
        "novelty-sparse-dictionary",
        scored(
            made(NoveltyDetector, 0.1, expansion=Dictionary(30), **g), lambda: sparse_rows(300)[0]
        ),
    )
    configuration(
        "density-fit", compared(made(DensityRatio, n_passes=2, expansion=KOMP(max_size=25), **g))
    )
    configuration(
        "density-features-stream",
        compared(made(DensityRatio, expansion=RandomFeatures(64, "faithful"), **g), stream=True),
    )
    configuration("density-dictionary", compared(made(DensityRatio, expansion=Dictionary(30), **g)))
    for name in ("reverse_kl", "jensen_shannon", "hellinger", "pearson", "relative_novelty"):
        komp = made(DensityRatio, f_divergence=name, expansion=KOMP(max_size=25), **g)
        configuration(f"density-{name}", compared(komp, stream=True))
    data = lambda: regression(300)  # noqa: E731
    for expansion in (KOMP(max_size=25), RandomFeatures(64, "faithful"), Dictionary(30)):
        gradient = made(KernelGradient, expansion=expansion, **g)
        configuration(f"gradient-{type(expansion).__name__.lower()}", fitted(gradient, data))
    komp = KOMP(max_size=25)
    for method in ("td", "gtd2", "tdc", "double_sampling", "residual", "pkgtd"):
        configuration(
            f"value-{method}",
            valued(
                made(ValueFunction, 0.9, method, expansion=komp, n_passes=1, **g),
                stream=method != "gtd2",
            ),
        )
    configuration(
        "value-td-dictionary", valued(made(ValueFunction, 0.9, expansion=Dictionary(30), **g))
    )
    configuration(
        "value-gtd2-dictionary",
        valued(made(ValueFunction, 0.9, "gtd2", expansion=Dictionary(30), **g), stream=True),
    )
    process = {"noise": 0.05, "n_features": 64}
    configuration(
        "gp-features", posterior(made(GaussianProcessRegressor, normalize_y=True, **g, **process))
    )
    configuration(
        "gp-features-targets-float32",
        posterior(made(GaussianProcessRegressor, design="iid", **g, **process), two_targets),
    )
    configuration(
        "gp-dictionary",
        posterior(made(GaussianProcessRegressor, method=InducingPoints(40), **g, **process)),
    )
    for name, method in (
        ("cyclic", Cyclic()),
        ("doubly-stochastic", Faithful()),
    ):
        configuration(
            f"gp-{name}",
            posterior(made(GaussianProcessRegressor, method=method, **g, **process), on=False),
        )


def run(names, *, detail, timings):
    found = {}
    for name in names:
        started = time.process_time()
        np.random.seed(0)  # noqa: NPY002 - what `random_state=None` draws from
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = Record(folder)
            try:
                CONFIGURATIONS[name](record)
                lines = record.lines(name)
            except Exception as error:  # a configuration that fails differs, and others go on
                traceback.print_exc()
                lines = {f"{name}:{part}": type(error).__name__ for part in ("answers", "state")}
        found.update(lines)
        if detail:
            lines = {f"{name}/{piece}": text for piece, text in sorted(record.pieces.items())}
        for label, text in lines.items():
            print(label, text, flush=True)
        if timings:
            print(f"{time.process_time() - started:6.2f} CPU s {name}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="configurations to take")
    parser.add_argument("--write", metavar="FILE", help="write the lines to a file, too")
    parser.add_argument("--against", metavar="FILE", help="compare with a file; exit 1 if other")
    parser.add_argument("--detail", action="store_true", help="a line for each array and setting")
    parser.add_argument("--timings", action="store_true", help="CPU seconds on standard error")
    options = parser.parse_args()
    for add in (
        add_default_learner,
        add_steps,
        add_risks,
        add_features,
        add_dictionaries,
        add_pairs,
        add_tasks,
    ):
        add()
    names = [name for name in CONFIGURATIONS if options.only in name]
    found = run(names, detail=options.detail, timings=options.timings)
    if options.write:
        Path(options.write).write_text("".join(f"{k} {v}\n" for k, v in found.items()))
    if not options.against:
        return 0
    expected = dict(line.split() for line in Path(options.against).read_text().splitlines())
    expected = {
        k: v for k, v in expected.items() if k.partition(":")[0] in names or not options.only
    }
    changed = sorted(k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k))
    for label in changed:
        what = "differs" if label in found and label in expected else "is only in one of both"
        print(f"{label} {what}", file=sys.stderr)
    print(f"{len(changed)} of {len(found)} hashes differ", file=sys.stderr)
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
