"""The strongest peers of ``suite.py``: their own packages, and LightGBM with a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

N_SETTINGS, N_FOLDS = 50, 5
_MOST_TREES, _PATIENCE = 1000, 50


def pytabkit(name: str) -> Callable[[bool, np.ndarray, int], Any]:
    """A method of pytabkit with its defaults: a fifth of the rows is for validation."""

    def make(regression: bool, X: np.ndarray, seed: int) -> Any:
        import torch
        from pytabkit.models.sklearn import sklearn_interfaces

        torch.set_num_threads(1)
        kind = getattr(sklearn_interfaces, f"{name}_{'Regressor' if regression else 'Classifier'}")
        return kind(device="cpu", n_threads=1, random_state=seed)

    return make


def chimeraboost(regression: bool, X: np.ndarray, seed: int) -> Any:
    """ChimeraBoost's default."""
    import chimeraboost

    kind = chimeraboost.ChimeraBoostRegressor if regression else chimeraboost.ChimeraBoostClassifier
    return kind(random_state=seed, thread_count=1, ensemble_n_jobs=1)


def ebm(regression: bool, X: np.ndarray, seed: int) -> Any:
    """InterpretML's explainable boosting machine."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if regression else ExplainableBoostingClassifier
    return kind(random_state=seed, n_jobs=1)


def lightgbm_tuned(regression: bool, X: np.ndarray, seed: int) -> Any:
    """LightGBM with the best of many random settings."""
    return _TunedLightgbm(regression, seed)


class _TunedLightgbm:
    """The best of random settings by the loss on the folds that its trees have not seen.

    Its predictions are the mean of the models of the folds. The settings are drawn from ranges like
    those of TabArena (https://arxiv.org/abs/2506.16791).
    """

    def __init__(self, regression: bool, seed: int) -> None:
        self.regression = regression
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> _TunedLightgbm:
        if not self.regression:
            self.classes_, y = np.unique(y, return_inverse=True)
        splitter = KFold if self.regression else StratifiedKFold
        folds = list(splitter(N_FOLDS, shuffle=True, random_state=self.seed).split(X, y))
        lowest = np.inf
        for settings in self._settings():
            models = [self._boosted(settings, X, y, *fold) for fold in folds]
            loss = np.mean([next(iter(m.best_score["valid_0"].values())) for m in models])
            if loss < lowest:
                lowest, self._models = loss, models
        return self

    def _settings(self) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(self.seed)
        task = {"objective": "regression"}
        if not self.regression:
            task = {"objective": "multiclass", "num_class": len(self.classes_)}

        def between(low: float, high: float) -> float:
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))

        for _ in range(N_SETTINGS):
            yield task | {
                "learning_rate": between(0.01, 0.2),
                "num_leaves": round(between(4, 128)),
                "min_data_in_leaf": round(between(1, 64)),
                "feature_fraction": rng.uniform(0.4, 1.0),
                "bagging_fraction": rng.uniform(0.7, 1.0),
                "bagging_freq": 1,
                "extra_trees": bool(rng.integers(2)),
                "lambda_l1": between(1e-5, 1.0),
                "lambda_l2": between(1e-5, 2.0),
                "seed": self.seed,
                "num_threads": 1,
                "verbose": -1,
            }

    def _boosted(
        self,
        settings: dict[str, Any],
        X: np.ndarray,
        y: np.ndarray,
        learned: np.ndarray,
        judged: np.ndarray,
    ) -> Any:
        """Trees on the rows of one fold, as many as are best for its others."""
        import lightgbm

        rows = lightgbm.Dataset(X[learned], y[learned])
        return lightgbm.train(
            settings,
            rows,
            _MOST_TREES,
            valid_sets=[rows.create_valid(X[judged], y[judged])],
            callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
        )

    def predict(self, X: np.ndarray) -> np.ndarray:
        if not self.regression:
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return np.asarray(np.mean([model.predict(X) for model in self._models], axis=0))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(np.mean([model.predict(X) for model in self._models], axis=0))
