"""What ``messy.py`` compares: mercer, and what others would be given of the same cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

import numpy as np
import pandas as pd
from _messy_tables import Messy
from pandas.api import types

Method = Callable[[Messy, np.ndarray, np.ndarray, int], np.ndarray]
_MISSING = "(missing)"


def calendar(read: pd.DataFrame) -> pd.DataFrame:
    """Dates as numbers: the day, and what the calendar says of it; no column without a change."""
    parts: dict[str, pd.Series] = {}
    for name in read:
        column = read[name]
        if not types.is_datetime64_any_dtype(column):
            parts[name] = column
            continue
        found = {
            "day": (column - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1),
            "year": column.dt.year,
            "month": column.dt.month,
            "day of month": column.dt.day,
            "day of year": column.dt.day_of_year,
            "weekday": column.dt.day_of_week,
            "hour": column.dt.hour,
        }
        parts |= {f"{name}: {k}": v.astype(float) for k, v in found.items() if v.nunique() > 1}
    return pd.DataFrame(parts)


def is_level(column: pd.Series) -> bool:
    """Whether cells are no numbers."""
    return not types.is_numeric_dtype(column) or types.is_bool_dtype(column)


def catboost(messy: Messy, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Its defaults, with categories and texts as its own guide says."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    X, y = calendar(messy.parsed()), messy.frame[messy.target].to_numpy()
    levels = [name for name in X if is_level(X[name])]
    for name in levels:
        missing = "" if name in messy.texts else _MISSING
        X[name] = X[name].astype(object).where(X[name].notna(), missing).astype(str)
    kind = CatBoostRegressor if messy.regression else CatBoostClassifier
    model = kind(
        cat_features=[name for name in levels if name not in messy.texts],
        text_features=list(messy.texts) or None,
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(X.iloc[train], y[train])
    return np.reshape(model.predict(X.iloc[test]), len(test))


def _as_categories(messy: Messy, train: np.ndarray) -> pd.DataFrame:
    """Numbers, and pandas categories of the training rows; others are missing."""
    X = calendar(messy.parsed())
    for name in X:
        if is_level(X[name]):
            text = X[name].astype(object).where(X[name].notna(), None)
            text = text.map(str, na_action="ignore")
            X[name] = pd.Categorical(text, categories=sorted(text.iloc[train].dropna().unique()))
    return X


def lightgbm(messy: Messy, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Its defaults on pandas categories."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    X, y = _as_categories(messy, train), messy.frame[messy.target].to_numpy()
    X.columns = [f"c{place}" for place in range(X.shape[1])]  # it refuses some names
    kind = LGBMRegressor if messy.regression else LGBMClassifier
    model = kind(random_state=seed, n_jobs=1, verbose=-1)
    return np.asarray(model.fit(X.iloc[train], y[train]).predict(X.iloc[test]))


def hist_boosting(messy: Messy, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Its defaults on the 250 most frequent levels of each column: it takes no more than 255."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    X, y = _as_categories(messy, train), messy.frame[messy.target].to_numpy()
    for name in X.select_dtypes("category"):
        kept = X[name].iloc[train].value_counts().index[:250]
        X[name] = X[name].cat.set_categories(sorted(kept))
    kind = HistGradientBoostingRegressor if messy.regression else HistGradientBoostingClassifier
    model = kind(categorical_features="from_dtype", random_state=seed)
    return np.asarray(model.fit(X.iloc[train], y[train]).predict(X.iloc[test]))


def mercer(messy: Messy, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Its defaults on the cells as they come."""
    from mercer import KernelClassifier, KernelRegressor
    from mercer.columns import TablePreprocessor
    from mercer_app.rows import TableRows

    estimator = KernelRegressor if messy.regression else KernelClassifier
    rows = TableRows(
        estimator(random_state=seed), TablePreprocessor(exclude=(messy.target,)), messy.target
    )
    model = rows.partial_fit(messy.frame.iloc[train]).finish().model
    return np.asarray(model.predict(messy.frame.iloc[test].drop(columns=messy.target)))


METHODS: dict[str, Method] = {
    "mercer": mercer,
    "CatBoost": catboost,
    "LightGBM": lightgbm,
    "HistGradientBoosting": hist_boosting,
}


def versions(methods: Sequence[str]) -> str:
    """Names and versions of the libraries behind methods."""
    packages = {"CatBoost": "catboost", "LightGBM": "lightgbm"}
    packages["HistGradientBoosting"] = "scikit-learn"
    used = [packages[method] for method in methods if method in packages]
    return ", ".join(f"{package} {metadata.version(package)}" for package in used)
