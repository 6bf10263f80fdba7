"""The solvers of the synthetic ridge regression, mercer's and others, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import GaussianProcessRegressor, KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer.losses import Squared
from mercer_reproduction._synthetic import Rows
from mercer_reproduction.baselines import (
    NORMA,
    SDCA,
    CachedFeatures,
    KernelSDCA,
    NystroemMap,
    Pegasos,
    RandomFeatureMap,
    Solver,
)

Array = NDArray[np.float64]

BATCH = 1024  # rows of a step and features of a block
RIDGE = 1e-6  # nu of the paper
STEP = 60.0
FEW_FEATURES = 256  # DSG, Section 7: r = 2**8
_TILE = 8192  # rows of which peers make features at once
PLAIN = "DSG plain, averaged"
BEST = "GP features, 384"
PEER = "Nystroem(300)"


class Model(Protocol):
    """What learns rows piece by piece."""

    def partial_fit(self, X: Array, y: Array) -> object:
        """Learn some more rows."""
        ...

    def predict(self, X: Array) -> Array:
        """Values at rows."""
        ...


class NormalEquations:
    """Ridge regression on the features of a fixed map, from sums over the rows.

    Parameters
    ----------
    transform : callable
        Maps rows (n, n_inputs) to features (n, n_features).
    regularization : float
        nu: of ``mean (z'w - y)² / 2 + nu |w|² / 2``.
    """

    def __init__(self, transform: Callable[[Array], Array], regularization: float) -> None:
        self._transform, self._ridge = transform, regularization
        self._gram: Any = 0.0
        self._products: Any = 0.0
        self._n = 0
        self._weights: Array | None = None

    def partial_fit(self, X: Array, y: Array) -> None:
        """Add rows to the sums."""
        for start in range(0, len(X), _TILE):
            Z = self._transform(X[start : start + _TILE])
            self._gram = self._gram + Z.T @ Z
            self._products = self._products + Z.T @ y[start : start + _TILE]
        self._n += len(X)
        self._weights = None

    def predict(self, X: Array) -> Array:
        """Values at rows; solves first if rows were added."""
        if self._weights is None:
            ridge = self._n * self._ridge * np.eye(len(self._products))
            self._weights = np.linalg.solve(self._gram + ridge, self._products)
        values: Array = self._transform(X) @ self._weights
        return values


class _Steps:
    """A solver for comparison, which has its rows already, as a model."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    def partial_fit(self, X: Array, y: Array) -> None:
        visited = 0
        while visited < len(X):
            visited += self._solver.step()

    def predict(self, X: Array) -> Array:
        return self._solver.decision_function(X)


class _StreamedGP:
    """Ridge regression as a Gaussian process, whose noise is n nu for n rows."""

    def __init__(self, kernel: Gaussian, n_features: int, seed: int) -> None:
        self._model = GaussianProcessRegressor(
            kernel, noise=1.0, n_features=n_features, random_state=seed
        )
        self._n = 0

    def partial_fit(self, X: Array, y: Array) -> None:
        self._n += len(X)
        self._model.set_params(noise=self._n * RIDGE).partial_fit(X, y)

    def predict(self, X: Array) -> Array:
        values: Array = self._model.predict(X)
        return values

    def random_features(self, X: Array) -> Array:
        values: Array = self._model.random_features(X)
        return values


@dataclass(frozen=True)
class Method:
    """A method: ``start`` makes it from the rows it will see, ``chunk`` of them at a time."""

    name: str
    start: Callable[[Rows], Model]
    n_rows: int
    chunk: int = BATCH


class _Exact:
    """Exact kernel ridge regression on the rows it is given at once."""

    def __init__(self, kernel: Gaussian) -> None:
        self._kernel = kernel

    def partial_fit(self, X: Array, y: Array) -> None:
        gram = np.asarray(self._kernel(X), dtype=np.float64)
        gram[np.diag_indices(len(X))] += len(X) * RIDGE
        self._X, self._a = X, np.linalg.solve(gram, y)

    def predict(self, X: Array) -> Array:
        values: Array = self._kernel(X, self._X) @ self._a
        return values


def _regressor(
    kernel: Gaussian,
    expansion: RandomFeatures,
    step_size: Any,
    batch_size: int = BATCH,
    average: str | None = None,
) -> KernelRegressor:
    return KernelRegressor(
        kernel=kernel,
        expansion=expansion,
        step_size=step_size,
        batch_size=batch_size,
        regularization=RIDGE,
        average=average,
    )


def own_methods(kernel: Gaussian, n: int, seed: int) -> list[Method]:
    """Ways of mercer: the paper's own first."""

    def plain(average: str | None) -> Callable[[Rows], Model]:
        expansion = RandomFeatures(BATCH, "faithful", seed=seed)
        return lambda _: _regressor(kernel, expansion, STEP, average=average)

    def newton(_: Rows) -> Model:
        expansion = RandomFeatures(BATCH, "newton", ridge=3e-3, seed=seed)
        return _regressor(kernel, expansion, lambda t: 1.0 / (1.0 + t / 4.0))

    def cyclic(n_blocks: int, block_size: int, batch_size: int) -> Callable[[Rows], Model]:
        # With step 1 / visit the coefficients of a block are the mean of its solutions.
        expansion = RandomFeatures(block_size, "cyclic", max_blocks=n_blocks, seed=seed)
        return lambda _: _regressor(
            kernel, expansion, lambda t: 1.0 / (1 + (t - 1) // n_blocks), batch_size
        )

    def features(n_features: int) -> Callable[[Rows], Model]:
        return lambda _: _StreamedGP(kernel, n_features, seed)

    large, small = max(n // 8, 4096), max(n // 16, 2048)
    return [
        Method(PLAIN, plain("polyak"), n),
        Method("DSG plain, last iterate", plain(None), min(n, 2**16)),
        Method("DSG newton", newton, n),
        Method("DSG cyclic, 4 x 256", cyclic(4, 256, small), n, small),
        Method("DSG cyclic, 1 x 384", cyclic(1, 384, large), n, large),
        Method("GP features, 256", features(256), n, 2**14),
        Method(BEST, features(384), n, 2**14),
        Method("GP features, 768", features(768), n, 2**14),
    ]


def peers(kernel: Gaussian, n: int, seed: int) -> list[Method]:
    """Other solvers: the paper's, and those that do not descend."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    gamma = 0.5 / float(kernel.length_scale) ** 2

    def norma(data: Rows) -> Model:
        settings: dict[str, Any] = {"regularization": RIDGE, "batch_size": BATCH, "seed": seed}
        return _Steps(NORMA(*data, kernel, Squared(), step_size=STEP, **settings))

    def k_sdca(data: Rows) -> Model:
        settings: dict[str, Any] = {"regularization": RIDGE, "batch_size": BATCH, "seed": seed}
        return _Steps(KernelSDCA(*data, kernel, "square", **settings))

    def on(make: Callable[[Array], Any], solver: Any) -> Callable[[Rows], Model]:
        def start(data: Rows) -> Model:
            features = CachedFeatures(make(data.X), data.X)
            settings: dict[str, Any] = {"regularization": RIDGE, "batch_size": BATCH}
            return _Steps(solver(features, data.y, "square", seed=seed, **settings))

        return start

    def random_map(_: Array) -> Any:
        return RandomFeatureMap(kernel, FEW_FEATURES, seed)

    def nystroem_map(X: Array) -> Any:
        return NystroemMap.from_rows(kernel, X, FEW_FEATURES, seed)

    def normal(make: Any) -> Callable[[Rows], Model]:
        return lambda data: NormalEquations(make.fit(data.X[:20_000]).transform, RIDGE)

    def nystroem(n_landmarks: int, more: int = 0) -> Callable[[Rows], Model]:
        seeds = {"random_state": seed + more}
        return normal(Nystroem(gamma=gamma, n_components=n_landmarks, **seeds))

    sampler = RBFSampler(gamma=gamma, n_components=min(1000, n // 4), random_state=seed)
    few = min(n, 2**16)  # a pass of an exact kernel costs the square of its rows
    return [
        Method("NORMA", norma, few),
        Method("k-SDCA", k_sdca, few),
        Method("r-SDCA", on(random_map, SDCA), n),
        Method("n-SDCA", on(nystroem_map, SDCA), n),
        Method("r-Pegasos", on(random_map, Pegasos), n),
        Method("n-Pegasos", on(nystroem_map, Pegasos), n),
        Method(PEER, nystroem(300), n, 2**14),
        Method(f"{PEER}, 2nd draw", nystroem(300, 1), n, 2**14),
        Method(f"{PEER}, 3rd draw", nystroem(300, 2), n, 2**14),
        Method("Nystroem(500)", nystroem(500), n, 2**14),
        Method("RBFSampler(1000)", normal(sampler), n, 2**14),
    ]


def exact(kernel: Gaussian, n_rows: int) -> Method:
    """Exact ridge regression on some rows."""
    return Method(f"exact ridge, {n_rows:,} rows", lambda _: _Exact(kernel), n_rows, n_rows)
