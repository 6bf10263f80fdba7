"""Compile what the usual first calls use: ``python -m mercer.warm_up``, in a container's build.

The machine code is kept, for this processor and version, in the folders that
``docs/guide/first_call.md`` names. Code that is compiled already takes no time.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.estimators import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.jit import cache_folders

__all__ = ["first_calls", "main"]

_EXPANSIONS = ("komp", "budget", "full", "random_features", "dictionary")


def first_calls() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return the usual first calls, by name: methods and arguments, 100 rows of five columns."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((100, 5))
    t = np.sin(X[:, 0]) + 0.1 * generator.standard_normal(100)
    y = (X[:, 0] > 0).astype(int)
    fits: list[tuple[Any, tuple[Any, ...]]] = [
        (KernelClassifier(), (X, y)),
        (KernelRegressor(), (X, t)),
        *((KernelClassifier(expansion=name), (X, y)) for name in _EXPANSIONS),
        *((KernelRegressor(expansion=name), (X, t)) for name in _EXPANSIONS),
        (KernelRegressor(kernel="laplacian", expansion="komp"), (X, t)),
        (KernelRegressor(kernel="polynomial", expansion="komp"), (X, t)),
        (KernelRegressor(risk="cvar:0.9"), (X, t)),
        (KernelRegressor(risk="cvar:0.9", expansion="komp"), (X, t)),
        (KernelRanker(), (X, y)),
        (KernelRanker(expansion="komp", pair_kernel="product"), (X, y)),
        (NoveltyDetector(), (X,)),
        (DensityRatio(), (X, X + 1.0)),
        (ValueFunction(discount=0.9), (X, t, X + 0.1)),
        (GaussianProcessRegressor(), (X, t)),
    ]
    return {
        **{f"{model!r}.fit": (model.fit, data) for model, data in fits},
        "KernelRegressor(expansion='komp').fit, float32": (
            KernelRegressor(expansion="komp").fit,
            (X.astype(np.float32), t),
        ),
        "KernelClassifier().partial_fit": (KernelClassifier().partial_fit, (X, y)),
        "KernelRegressor().partial_fit": (KernelRegressor().partial_fit, (X, t)),
        "KernelClassifier().learn_one": (KernelClassifier().learn_one, (X[0], y[0])),
        "KernelRegressor().learn_one": (KernelRegressor().learn_one, (X[0], t[0])),
    }


def main() -> None:
    """Make all the calls, and print where the code is kept."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about these models, which are discarded
        warnings.simplefilter("default", RuntimeWarning)  # that code cannot be kept
        for method, data in first_calls().values():
            method(*data)
    folder = next((f for f in cache_folders() if any(f.glob("*.code"))), None)
    where = "not kept" if folder is None else f"kept in {folder}"
    sys.stdout.write(f"mercer: ready after {time.perf_counter() - start:.1f} s, {where}\n")


if __name__ == "__main__":
    main()
