"""mercer's default and what users would take instead: ``default_learner.py``, ``suite.py``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import _strong_peers
import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import (
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.metrics import pairwise_distances
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

N_FEATURES = 1000
_ROWS_FOR_MEDIAN = 1000
#: Rows of the fit before the clock starts. mercer's default takes another path on many rows.
_WARM_UP_ROWS, _WARM_UP_ROWS_MERCER = 200, 5000


@dataclass(frozen=True)
class Method:
    """One way of learning.

    Attributes
    ----------
    title : str
        Name in tables.
    make : callable
        Estimator from (whether it is a regression, training inputs, seed).
    settings : str
        All that is not a default of its library, but for ``cap``.
    numbers : callable
        How many numbers a fitted estimator needs for predictions. Trees: two for each split (the
        column and the place of the cut) and one for each leaf.
    package : str
        Whose version is to be quoted.
    cap : int or None, default=None
        Learn from the first rows only, so many.
    most_rows : int or None, default=None
        Tables that have more of them for training are left out.
    warm_up_rows : int, default=200
        Rows that are learned before the clock starts, so that imports and compilation are over.
    """

    title: str
    make: Callable[[bool, np.ndarray, int], Any]
    settings: str
    numbers: Callable[[Any], int]
    package: str
    cap: int | None = None
    most_rows: int | None = None
    warm_up_rows: int = _WARM_UP_ROWS

    @property
    def version(self) -> str:
        """Name and version of the package."""
        return f"{self.package} {importlib.metadata.version(self.package)}"

    @property
    def installed(self) -> bool:
        """Whether the package is there."""
        try:
            importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return False
        return True


def one_thread() -> None:
    """Keep scikit-learn-intelex on one thread, where it is installed; others read variables."""
    if importlib.util.find_spec("daal4py"):
        import daal4py

        daal4py.daalinit(1)


def _mercer(regression: bool, X: np.ndarray, seed: int) -> Any:
    from mercer import KernelClassifier, KernelRegressor

    kind = KernelRegressor if regression else KernelClassifier
    return kind(random_state=seed)


def _lightgbm(**settings: Any) -> Callable[[bool, np.ndarray, int], Any]:
    def make(regression: bool, X: np.ndarray, seed: int) -> Any:
        import lightgbm

        kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        return kind(random_state=seed, n_jobs=1, verbose=-1, **settings)

    return make


def _hist_boosting(regression: bool, X: np.ndarray, seed: int) -> Any:
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return kind(random_state=seed)


def _svc(regression: bool, X: np.ndarray, seed: int) -> Any:
    if _INTELEX:
        from sklearnex.svm import SVC, SVR
    else:
        from sklearn.svm import SVC, SVR

    return SVR() if regression else SVC()


def _rbf_sampler(regression: bool, X: np.ndarray, seed: int) -> Any:
    sampler = RBFSampler(gamma=_median_gamma(X), n_components=N_FEATURES, random_state=seed)
    learner = SGDRegressor if regression else SGDClassifier
    return make_pipeline(sampler, learner(random_state=seed))


def _nystroem(regression: bool, X: np.ndarray, seed: int) -> Any:
    size = min(N_FEATURES, len(X))
    features = Nystroem(gamma=_median_gamma(X), n_components=size, random_state=seed)
    return make_pipeline(features, Ridge() if regression else RidgeClassifier())


def _mlp(regression: bool, X: np.ndarray, seed: int) -> Any:
    kind = MLPRegressor if regression else MLPClassifier
    return kind(early_stopping=True, random_state=seed)


def _catboost(regression: bool, X: np.ndarray, seed: int) -> Any:
    import catboost

    kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    return kind(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)


def _extra_trees(regression: bool, X: np.ndarray, seed: int) -> Any:
    kind = ExtraTreesRegressor if regression else ExtraTreesClassifier
    return kind(random_state=seed)


def _xrfm(regression: bool, X: np.ndarray, seed: int) -> Any:
    return _Xrfm(regression, seed)


class _Xrfm:
    """xRFM's default behind standardised columns, with a fifth of the rows to validate on."""

    def __init__(self, regression: bool, seed: int) -> None:
        self.regression = regression
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Xrfm:
        import torch
        from xrfm import xRFM

        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        self._scaler = StandardScaler().fit(X)
        if not self.regression:
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        order = np.random.default_rng(self.seed).permutation(len(X))
        judged, learned = np.split(order, [len(X) // 5])
        rows, targets = (
            self._rows(X),
            torch.tensor(y.astype(np.float32 if self.regression else int)),
        )
        if self.regression:
            targets = targets[:, None]
        metric = "mse" if self.regression else "brier"
        self._model = xRFM(device="cpu", tuning_metric=metric)
        self._model.fit(rows[learned], targets[learned], rows[judged], targets[judged])
        return self

    def _rows(self, X: np.ndarray) -> Any:
        import torch

        return torch.tensor(self._scaler.transform(X), dtype=torch.float32)

    def predict(self, X: np.ndarray) -> np.ndarray:
        found = np.asarray(self._model.predict(self._rows(X))).reshape(len(X), -1)[:, 0]
        return found if self.regression else self.classes_[found.astype(int)]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self._model.predict_proba(self._rows(X)))


def _linear(regression: bool, X: np.ndarray, seed: int) -> Any:
    return Ridge() if regression else LogisticRegression(max_iter=1000)


def _river_forest(regression: bool, X: np.ndarray, seed: int) -> Any:
    return _River(regression, seed)


class _River:
    """River's adaptive random forest, fed row by row. Making its dicts is part of the work."""

    def __init__(self, regression: bool, seed: int) -> None:
        from river.forest import ARFClassifier, ARFRegressor

        self.model = ARFRegressor(seed=seed) if regression else ARFClassifier(seed=seed)

    def fit(self, X: np.ndarray, y: np.ndarray) -> _River:
        self.classes_ = np.unique(y)
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), target)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in X.tolist()])


def _standardised(make: Callable[[bool, np.ndarray, int], Any]) -> Any:
    return lambda regression, X, seed: make_pipeline(StandardScaler(), make(regression, X, seed))


def _median_gamma(X: np.ndarray) -> float:
    """1 / (2 m²), m the median distance of the first thousand rows (1 where they all agree)."""
    distances = pairwise_distances(X[:_ROWS_FOR_MEDIAN])
    median = float(np.median(distances[np.triu_indices(len(distances), 1)]))
    return 0.5 / (median or 1.0) ** 2


# -- sizes ----------------------------------------------------------------------------------------


def _numbers_mercer(model: Any) -> int:
    parts = [(part.dictionary, part.coefficients) for part in model.parts_]
    return int(sum(np.size(array) for part in parts for array in part))


def _numbers_trees(leaves: int, trees: int) -> int:
    return 3 * leaves - 2 * trees


def _numbers_lightgbm(model: Any) -> int:
    leaves = [int(n) for n in re.findall(r"num_leaves=(\d+)", model.booster_.model_to_string())]
    return _numbers_trees(sum(leaves), len(leaves))


def _numbers_hist_boosting(model: Any) -> int:
    leaves = [tree.get_n_leaf_nodes() for trees in model._predictors for tree in trees]
    return _numbers_trees(sum(leaves), len(leaves))


def _not_counted(model: Any) -> int:
    return 0


def _numbers_pipeline(model: Any) -> int:
    names = ("random_weights_", "random_offset_", "components_", "normalization_", "coef_")
    parts = [getattr(step, n) for _, step in model.steps for n in names if hasattr(step, n)]
    return sum(np.size(part) for part in parts)


# -- the methods ----------------------------------------------------------------------------------

_INTELEX = importlib.util.find_spec("sklearnex") is not None
_SVC_ROWS = 60_000 if _INTELEX else 20_000
_FEATURE_ROWS = 200_000  # features are float64: 1.6 GB
_RIDGE_ROWS = 100_000
_RIVER_ROWS = 20_000  # a minute or two
_TABM_ROWS = 5_000  # on one core

#: In the order of the tables; the first is judged, the others are its peers.
METHODS = {
    "mercer": Method(
        "mercer, default", _mercer, "", _numbers_mercer, "mercer", warm_up_rows=_WARM_UP_ROWS_MERCER
    ),
    "lightgbm": Method("LightGBM", _lightgbm(), "", _numbers_lightgbm, "lightgbm"),
    "lightgbm_300": Method(
        "LightGBM 300",
        _lightgbm(n_estimators=300),
        "300 trees instead of 100",
        _numbers_lightgbm,
        "lightgbm",
    ),
    "lightgbm_large": Method(
        "LightGBM 300 x 255",
        _lightgbm(n_estimators=300, num_leaves=255),
        "300 trees of 255 leaves instead of 100 of 31",
        _numbers_lightgbm,
        "lightgbm",
    ),
    "hist_boosting": Method(
        "HistGradientBoosting", _hist_boosting, "", _numbers_hist_boosting, "scikit-learn"
    ),
    "svc": Method(
        "SVC",
        _svc,
        "SVR for numbers",
        lambda model: model.support_vectors_.size + model.dual_coef_.size,
        "scikit-learn-intelex" if _INTELEX else "scikit-learn",
        cap=_SVC_ROWS,
    ),
    "rbf_sampler": Method(
        "RBFSampler + SGD",
        _rbf_sampler,
        f"{N_FEATURES:,} features, gamma = 1 / (2 median distance²)",
        _numbers_pipeline,
        "scikit-learn",
        cap=_FEATURE_ROWS,
    ),
    "nystroem": Method(
        "Nystroem + ridge",
        _nystroem,
        f"{N_FEATURES:,} points, gamma = 1 / (2 median distance²), RidgeClassifier or Ridge",
        _numbers_pipeline,
        "scikit-learn",
        cap=_RIDGE_ROWS,
    ),
    "mlp": Method(
        "MLP",
        _mlp,
        "one hidden layer of 100, early_stopping=True",
        lambda model: sum(part.size for part in (*model.coefs_, *model.intercepts_)),
        "scikit-learn",
    ),
}
JUDGED = "mercer"
SMALL_PEER = "svc"

#: What ``suite.py`` runs, columns as they come.
SUITE_METHODS = {
    "mercer": METHODS["mercer"],
    "lightgbm": METHODS["lightgbm"],
    "lightgbm_127": Method(
        "LightGBM 300 x 127",
        _lightgbm(n_estimators=300, num_leaves=127),
        "300 trees of 127 leaves instead of 100 of 31",
        _numbers_lightgbm,
        "lightgbm",
    ),
    "catboost": Method("CatBoost", _catboost, "", _not_counted, "catboost"),
    "extra_trees": Method("ExtraTrees", _extra_trees, "", _not_counted, "scikit-learn"),
    "hist_boosting": METHODS["hist_boosting"],
    "svc_scaled": Method(
        "SVC, scaled",
        _standardised(_svc),
        "SVR for numbers, standardised columns",
        _not_counted,
        METHODS["svc"].package,
        cap=_SVC_ROWS,
    ),
    "mlp_scaled": Method(
        "MLP, scaled",
        _standardised(_mlp),
        "one hidden layer of 100, early_stopping=True, standardised columns",
        _not_counted,
        "scikit-learn",
    ),
    "xrfm": Method(
        "xRFM",
        _xrfm,
        "standardised columns, a fifth of the rows to validate on",
        _not_counted,
        "xrfm",
    ),
    **{
        name.lower(): Method(
            name.replace("_", "-"), _strong_peers.pytabkit(name), "", _not_counted, "pytabkit"
        )
        for name in ("RealMLP_TD", "RealMLP_TD_S", "CatBoost_TD", "LGBM_TD", "XRFM_D")
    },
    "tabm_d": Method(
        "TabM-D",
        _strong_peers.pytabkit("TabM_D"),
        "",
        _not_counted,
        "pytabkit",
        most_rows=_TABM_ROWS,
    ),
    "chimeraboost": Method(
        "ChimeraBoost", _strong_peers.chimeraboost, "", _not_counted, "chimeraboost"
    ),
    "ebm": Method("EBM", _strong_peers.ebm, "", _not_counted, "interpret-core"),
    "lightgbm_tuned": Method(
        "LightGBM, tuned",
        _strong_peers.lightgbm_tuned,
        f"the best of {_strong_peers.N_SETTINGS} random settings by {_strong_peers.N_FOLDS} folds",
        _not_counted,
        "lightgbm",
    ),
}

#: What the first table of the documents shows beside mercer.
GLANCE_METHODS = {
    "mercer": METHODS["mercer"],
    "lightgbm": METHODS["lightgbm"],
    "lightgbm_127": SUITE_METHODS["lightgbm_127"],
    "svc_scaled": SUITE_METHODS["svc_scaled"],
    "river": Method(
        "River",
        _river_forest,
        "adaptive random forest",
        _not_counted,
        "river",
        cap=_RIVER_ROWS,
    ),
    "linear": Method(
        "linear",
        _standardised(_linear),
        "logistic regression or ridge, standardised columns",
        _not_counted,
        "scikit-learn",
    ),
}


def method_of(name: str) -> Method:
    """A method by its name, whichever benchmark it is of."""
    return (METHODS | SUITE_METHODS | GLANCE_METHODS)[name]


def settings_of(method: Method, name: str, records: Iterable[Mapping[str, Any]]) -> str:
    """What is not a default of a method's library, as its runs were made.

    How many rows a method gets at most may differ between machines, as it depends on what is
    installed there. So the runs tell, and :attr:`Method.cap` only if no run was cut short.

    Parameters
    ----------
    method : Method
        The method.
    name : str
        What the records call it.
    records : iterable of dict
        Of all runs, of other methods, too.

    Examples
    --------
    >>> run = {"method": "svc", "learned_rows": 20_000, "train_rows": 50_000}
    >>> settings_of(METHODS["svc"], "svc", [run])
    'SVR for numbers; at most 20,000 rows'
    """
    mine = [r for r in records if r["method"] == name and "learned_rows" in r]
    caps = sorted({r["learned_rows"] for r in mine if r["learned_rows"] < r["train_rows"]})
    if method.cap is not None and not caps:
        caps = [method.cap]
    words = [f"at most {' or '.join(f'{cap:,}' for cap in caps)} rows"] if caps else []
    return "; ".join([*([method.settings] if method.settings else []), *words])
