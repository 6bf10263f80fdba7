import json
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer.columns import TablePreprocessor
from mercer.columns.views import view_table

pa = pytest.importorskip("pyarrow")
import pandas as pd  # noqa: E402


def mixed(n=500, seed=0):
    rng = np.random.default_rng(seed)
    income = 1e9 + 1e3 * rng.standard_normal(n)
    income[rng.random(n) < 0.1] = np.nan
    town = rng.choice(["Bern", "Bonn", "Ulm"], n).astype(object)
    town[rng.random(n) < 0.1] = None
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": income,
            "member": rng.integers(0, 2, n),
            "town": town,
            "active": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n), "s"),
        }
    )


TABLES = {
    "pandas": lambda frame: frame,
    "pandas, arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas, nullable types": lambda frame: frame.convert_dtypes(),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
    "arrow in pieces": lambda frame: pa.concat_tables(
        pa.Table.from_pandas(frame[i : i + 60]) for i in range(0, len(frame), 60)
    ),
    "dict": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "dict of lists": lambda frame: {name: frame[name].tolist() for name in frame},
}


def by_hand(frame):
    """The encoding of `mixed`, spelled out with pandas and scikit-learn."""
    numbers = frame[["age", "income", "since"]].copy()
    numbers["since"] = (frame["since"] - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    numbers = numbers.astype(float)
    numbers = numbers.fillna(numbers.mean())
    scale = frame["income"].std(ddof=0)  # imputed rows do not count for the deviation
    scaled = StandardScaler().fit_transform(numbers)
    scaled[:, 1] = (numbers["income"] - frame["income"].mean()) / scale
    towns = OneHotEncoder(sparse_output=False).fit_transform(frame[["town"]].fillna("~"))
    return np.c_[
        scaled[:, :2],
        frame["income"].isna(),
        frame["member"],
        towns[:, :3],
        np.zeros(len(frame)),
        towns[:, 3],
        ~frame["active"],
        frame["active"],
        scaled[:, 2],
    ]


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_is_encoded_like_pandas_and_scikit_learn(kind):
    table = TABLES[kind](mixed())
    preprocessor = TablePreprocessor(kinds={"since": "number"}).fit(table)
    assert preprocessor.feature_names_out() == [
        "age",
        "income",
        "income=(missing)",
        "member",
        "town=Bern",
        "town=Bonn",
        "town=Ulm",
        "town=(other)",
        "town=(missing)",
        "active=false",
        "active=true",
        "since",
    ]
    # The means are 1e6 deviations from 0, which leaves scikit-learn about 9 digits.
    assert_allclose(preprocessor.transform(table), by_hand(mixed()), atol=1e-8)
    assert preprocessor.n_features_out_ == 12
    assert preprocessor.n_samples_seen_ == 500


@pytest.mark.parametrize("kind", TABLES)
def test_kinds_of_tables_may_change_between_warmup_and_use(kind):
    frame = mixed()
    reference = TablePreprocessor().fit(frame)
    assert_allclose(
        reference.transform(TABLES[kind](frame)), reference.transform(frame), rtol=1e-12
    )


@given(
    st.lists(st.integers(1, 200), min_size=2, max_size=6),
    st.floats(-1e6, 1e6),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=15, deadline=None)
def test_pieces_and_merged_parts_equal_one_shot(sizes, shift, seed):
    frame = mixed(sum(sizes), seed)
    frame["x"] = shift + np.random.default_rng(seed).standard_normal(len(frame))
    frame.loc[0, ["income", "town"]] = 1e9, "Bern"  # else either might have no value at all
    ends = np.cumsum(sizes)
    parts = [frame.iloc[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    options = {"warmup_rows": None, "min_count": 1}
    whole = TablePreprocessor(**options).partial_fit(frame).freeze()
    streamed, merged = TablePreprocessor(**options), TablePreprocessor(**options)
    merged.partial_fit(parts[0])
    for part in parts:
        streamed.partial_fit(part)
    for part in parts[1:]:
        merged.merge(TablePreprocessor(**options).partial_fit(part[part.columns[::-1]]))
    expected = whole.transform(frame)
    for other in (streamed.freeze(), merged.freeze()):
        assert other.feature_names_out() == whole.feature_names_out()
        # Numbers of 1e9 with deviations of 1e3 and more: 1e-10 a rounding, few hundred of them.
        assert_allclose(other.transform(frame), expected, atol=1e-6)


def test_statistics_come_from_exactly_the_warmup_rows():
    frame = mixed()
    exact = TablePreprocessor(warmup_rows=100).fit(frame[:100])
    drawn = []

    def pieces():
        for start in range(0, 500, 30):
            drawn.append(start)
            yield frame[start : start + 30]

    streamed = TablePreprocessor(warmup_rows=100).fit(pieces())
    assert len(drawn) == 4
    assert streamed.n_samples_seen_ == exact.n_samples_seen_ == 100
    assert_allclose(streamed.transform(frame), exact.transform(frame), atol=1e-8)
    before = exact.transform(frame)
    exact.partial_fit(mixed(seed=1))
    assert_array_equal(exact.transform(frame), before)


@pytest.mark.parametrize("n", [0, 40, 300])
def test_state_survives_json_bit_for_bit(n):
    frame = mixed()
    original = TablePreprocessor(warmup_rows=300, exclude=("member",), dtype="float32")
    if n:
        original.partial_fit(frame[:n])
    again = TablePreprocessor.from_state(
        json.loads(json.dumps(original.to_state(), allow_nan=False))
    )
    assert again == original
    assert again.frozen_ == original.frozen_ == (n == 300)
    for each in (original, again):
        each.partial_fit(frame[n:]).freeze()
    assert again.transform(frame).tobytes() == original.transform(frame).tobytes()
    assert again.to_state() == original.to_state()


def damage(change):
    state = json.loads(json.dumps(TablePreprocessor().fit(mixed()).to_state()))
    change(state)
    return state


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(format=3),
        lambda s: s.pop("statistics"),
        lambda s: s["params"].update(categories=-1),
        lambda s: s["params"].update(unknown=1),
        lambda s: s["statistics"]["names"].pop(),
        lambda s: s["statistics"]["names"].__setitem__(0, "income"),
        lambda s: s["statistics"]["numbers"]["mean"].pop(),
        lambda s: s["statistics"]["numbers"]["mean"].__setitem__(0, float("nan")),
        lambda s: s["statistics"]["numbers"]["mean"].__setitem__(0, "1"),
        lambda s: s["statistics"]["numbers"]["count"].__setitem__(0, -1),
        lambda s: s["statistics"]["numbers"]["binary"].__setitem__(0, 1),
        lambda s: s["statistics"]["levels"]["town"]["counts"].update(Bern="many"),
        lambda s: s["statistics"]["levels"]["town"].update(missing=True),
        lambda s: s["statistics"].update(n_rows=1.5),
        lambda s: s["statistics"].update(levels=None),
    ],
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(ValueError, match="not the state of a TablePreprocessor"):
        TablePreprocessor.from_state(damage(change))


def fitted(values, later=None, **options):
    options.setdefault("min_count", 1)
    preprocessor = TablePreprocessor(**options).fit(
        {"x": values, "varies": np.arange(len(values)) / 2}
    )
    later = values if later is None else later
    X = preprocessor.transform({"x": later, "varies": np.arange(len(later)) / 2})
    return preprocessor.feature_names_out()[:-1], X[:, :-1]


def test_zero_one_columns_are_passed_through():
    names, X = fitted(np.array([0, 1, 1, 0]), np.array([1, 0]))
    assert names == ["x"]
    assert_array_equal(X, [[1], [0]])


def test_constant_columns_are_dropped():
    assert fitted(np.array([3.7] * 7))[0] == []
    assert fitted(np.array(["a"] * 7))[0] == []
    assert fitted(np.array([True] * 7))[0] == []


def test_a_constant_column_with_missing_values_keeps_the_information_that_they_are_missing():
    names, X = fitted([2.0, None, 2.0])
    assert names == ["x=(missing)"]
    assert_array_equal(X, [[0], [1], [0]])


def test_missing_numbers_not_seen_in_the_warmup_become_the_mean():
    names, X = fitted(np.array([1.0, 3.0, 5.0]), np.array([np.nan]))
    assert names == ["x"]
    assert_array_equal(X, [[0.0]])


def test_rare_and_unseen_categories_share_an_output():
    values = ["a"] * 5 + ["b"] * 4 + ["c"]
    names, X = fitted(values, ["a", "b", "c", "new", None], min_count=3)
    assert names == ["x=a", "x=b", "x=(other)"]
    assert_array_equal(X, [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])


def test_frequent_categories_without_an_output_of_their_own_are_said():
    values = ["a"] * 8 + ["b"] * 6 + ["c"] * 5 + ["d"]
    with pytest.warns(UserWarning, match="has 3 frequent .* 2 of them, 55 % of the rows"):
        names, _ = fitted(values, categories=1, min_count=5)
    assert names == ["x=a", "x=(other)"]
    with pytest.warns(UserWarning, match="has 3 frequent .* 1 of them, 25 % of the rows"):
        seen = TablePreprocessor(categories=2, min_count=5).fit({"x": values})
    again = TablePreprocessor.from_state(seen.to_state())  # says nothing once more
    assert again.feature_names_out() == ["x=a", "x=b", "x=(other)"]
    many = [f"store {i}" for i in range(128)] * 5  # as many as have outputs by default
    assert len(fitted(many)[0]) == 129


def test_categories_that_the_warmup_did_not_have_are_counted():
    table = {"x": ["a"] * 6 + ["b"], "only": ["u"] * 7, "z": [True, False] * 3 + [None]}
    seen = TablePreprocessor().fit(table)
    later = {"x": ["a", None, "new", "b", "new", "c"], "only": ["v"] * 6, "z": [None] * 6}
    assert seen.new_categories(later) == {"x": (3, "new")}  # b was there, though rare
    unused = pd.DataFrame({"x": pd.Categorical(["a"], ["new", "a"]), "only": ["u"], "z": [True]})
    assert seen.new_categories(unused) == {}
    ids = [f"id{i}" for i in range(9000)] + ["often", "sometimes"] * 2000
    bounded = TablePreprocessor().fit({"x": np.array(ids, dtype=object)})
    assert bounded.new_categories({"x": ["id0", "new"]}) == {}  # which ones it had is not known


def test_the_number_of_categories_counted_is_bounded_and_frequent_ones_survive():
    told = {"x": "category"}
    preprocessor = TablePreprocessor(warmup_rows=None, categories=2, kinds=told)
    rng = np.random.default_rng(0)
    for start in range(0, 40_000, 2000):
        text = np.array([f"id{i}" for i in range(start, start + 2000)], dtype=object)
        text[rng.random(2000) < 0.1] = "often"
        text[rng.random(2000) < 0.05] = "sometimes"
        preprocessor.partial_fit({"x": text})
    state = preprocessor.freeze().to_state()
    assert len(state["statistics"]["levels"]["x"]["counts"]) <= 4096
    assert preprocessor.feature_names_out() == ["x=often", "x=sometimes", "x=(other)"]


def test_columns_that_are_nearly_always_the_same_stay_within_a_hundred_units():
    values = np.zeros(50_000)
    values[0] = 7.0
    _, X = fitted(values)
    assert_allclose(X.max() - X.min(), 100.0)


def pixels(n=300, seed=0, columns=40):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, columns)) * (rng.random((n, columns)) < 0.3)
    images[:, 0] = 0
    images[:, 1] = rng.random(n) < 0.1  # a dark pixel looks like a 0/1 column
    return images.astype(np.uint8)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_pixels_are_divided_by_255_and_other_columns_standardised(dtype):
    images, weight = pixels().astype(dtype), np.random.default_rng(0).standard_normal(300)
    table = {f"p{i}": column for i, column in enumerate(images.T)} | {"weight": weight}
    X = TablePreprocessor().fit(table).transform(table)
    assert_array_equal(X[:, :-1], images[:, 1:] / 255)
    assert_allclose(X[:, -1], (weight - weight.mean()) / weight.std())


def test_one_hot_data_and_small_integers_are_no_pixels():
    one_hot = (pixels() > 0).astype(np.uint8)
    one_hot[:, 0] = np.arange(300) % 2
    table = {f"f{i}": column for i, column in enumerate(one_hot.T)}
    assert_array_equal(TablePreprocessor().fit(table).transform(table), one_hot)
    counts = {f"f{i}": column // 4 for i, column in enumerate(pixels()[:, 2:].T)}
    X = TablePreprocessor().fit(counts).transform(counts)
    assert_allclose(X.std(axis=0), 1.0)


def test_scaling_may_be_chosen():
    table = {"a": np.array([0.0, -4.0, 2.0]), "b": np.array([0, 1, 0])}
    expected = {
        "none": [[0, 0], [-4, 1], [2, 0]],
        "common": [[0, 0], [-1, 0.25], [0.5, 0]],
        "standardize": np.c_[StandardScaler().fit_transform(table["a"][:, None]), table["b"]],
    }
    for scaling, X in expected.items():
        assert_allclose(TablePreprocessor(scaling=scaling).fit(table).transform(table), X)
    image = {f"p{i}": column for i, column in enumerate(pixels().T)}
    X = TablePreprocessor(scaling="standardize").fit(image).transform(image)
    assert_allclose(np.delete(X, 0, axis=1).std(axis=0), 1.0)


def test_a_stable_variance_for_numbers_far_from_zero():
    x = 1e12 + np.arange(10_000) % 2 * 0.5
    preprocessor = TablePreprocessor(warmup_rows=None)
    for part in np.split(x, 50):
        preprocessor.partial_fit({"x": part})
    X = preprocessor.freeze().transform({"x": x})
    assert_allclose(np.abs(X), 1.0, rtol=1e-3)  # the mean itself has a spacing of 1.2e-4


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 3, None], pa.uint8()),
        pa.array([Decimal(1), Decimal(3), None], pa.decimal128(5, 2)),
        pa.array([np.float16(1.0), np.float16(3.0), None], pa.float16()),
        pa.array([1, 3, None], pa.time32("s")),
        pa.array([1_000_000_000, 3_000_000_001, None], pa.timestamp("ns")),
        pa.array([1, 3, None], pa.duration("ms")),
        pa.array([1, 3, None], pa.date32()),
        pa.array(["u", "v", None], pa.large_string()),
        *([pa.array(["u", "v", None], pa.string_view())] if hasattr(pa, "string_view") else []),
        pa.array(["u", "v", None]).dictionary_encode(),
        pa.array([True, False, None]),
    ],
    ids=lambda values: str(values.type),
)
def test_arrow_types(values):
    table = {"x": values, "y": [1.0, 2.0, 4.0]}
    preprocessor = TablePreprocessor(min_count=1)
    X = preprocessor.fit(pa.table(table)).transform(pa.table(table))
    assert "x=(missing)" in preprocessor.feature_names_out()
    assert len(np.unique(X[:, : preprocessor.feature_names_out().index("y")], axis=0)) == 3


@pytest.mark.parametrize(
    "values",
    [
        pa.array([date(1950, 1, 1), None]),
        pa.array([date(1950, 1, 1), date(2020, 2, 29)]),
        pa.array([datetime(1950, 1, 1, tzinfo=UTC), None]),
        pa.array([1.5, None]),
        pa.array([2**60, 1]),
        pa.array(["x", None, "y"]),
        pa.array(["x", None, "y"]).dictionary_encode(),
        pa.array([True, None]),
    ],
    ids=lambda values: str(values.type)[:10],
)
def test_columns_of_pandas_in_types_of_arrow(values):
    series = pd.Series(values, dtype=pd.ArrowDtype(values.type))
    halves = pd.concat([series[:1], series[1:]])  # two chunks
    wanted = view_table(pa.table({"a": values})).column("a")
    for frame in (pd.DataFrame({"a": series}), pd.DataFrame({"a": halves})):
        found = view_table(frame).column("a")
        for name, expected in vars(wanted).items():
            assert_array_equal(getattr(found, name), expected)


def test_times_are_seconds_since_1970():
    moments = {
        "naive": [datetime(1970, 1, 2), datetime(1970, 1, 1, 0, 1)],
        "zoned": [datetime(1970, 1, 2, tzinfo=UTC), datetime(1970, 1, 1, 0, 1, tzinfo=UTC)],
        "date": [date(1970, 1, 2), date(1970, 1, 3)],
        "numpy": np.array(["1970-01-02", "1970-01-01T00:01"], dtype="datetime64[s]"),
        "span": np.array([86400, 60], dtype="timedelta64[s]"),
    }
    expected = [[86400.0] * 5, [60.0, 60.0, 172800.0, 60.0, 60.0]]
    for kind in (dict, pa.table, pd.DataFrame):
        table = kind(moments)
        seconds = dict.fromkeys(moments, "number")
        X = TablePreprocessor(scaling="none", kinds=seconds).fit(table).transform(table)
        assert_array_equal(X, expected)


def test_datetimes_may_come_where_dates_were_written_as_numbers():
    days = pd.Series(pd.date_range("2024-01-25", periods=40))
    written = pd.DataFrame({"day": days.dt.strftime("%Y%m%d").astype(int)})
    seen = TablePreprocessor().fit(written)
    assert "day:weekday" in seen.feature_names_out()
    assert_array_equal(seen.transform({"day": days.to_numpy()}), seen.transform(written))


@pytest.mark.parametrize(
    "with_gaps",
    [
        pd.DataFrame({"x": pd.Categorical([1.0, 2.0, None] * 8)}),  # gaps make the numbers floats
        pa.table({"x": pa.array([1.0, 2.0, None] * 8).dictionary_encode()}),
        {"x": np.array(["1", 1, 1.0, 2, "2", None] * 4, dtype=object)},
    ],
)
@pytest.mark.parametrize(
    "without",
    [
        pd.DataFrame({"x": pd.Categorical([1, 2])}),
        pd.DataFrame({"x": pd.Categorical([1.0, 2.0])}),
        pd.DataFrame({"x": pd.Categorical(["1", 2], categories=["3", "1", 1, 2])}),
        {"x": ["1", "2"]},
    ],
)
def test_whole_numbers_are_the_same_categories_in_all_types(with_gaps, without):
    seen = TablePreprocessor(warmup_rows=None, min_count=1).fit(with_gaps)
    assert seen.feature_names_out() == ["x=1", "x=2", "x=(other)", "x=(missing)"]
    assert seen.transform(without).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


def test_pandas_categories_and_frames_with_numbered_columns():
    frame = pd.DataFrame({0: pd.Categorical([3, 5, None, 3]), 1: [1.5, 2.5, 3.5, 4.5]})
    preprocessor = TablePreprocessor(min_count=1).fit(frame)
    assert preprocessor.feature_names_out() == ["0=3", "0=5", "0=(other)", "0=(missing)", "1"]


def test_excluded_columns_may_be_absent_later_and_extra_ones_dropped():
    frame = mixed()
    preprocessor = TablePreprocessor(exclude=("town",)).fit(frame)
    assert preprocessor.feature_names_in_ == ["age", "income", "member", "active", "since"]
    X = preprocessor.transform(frame)
    assert_array_equal(preprocessor.transform(frame.drop(columns="town")), X)
    assert_array_equal(preprocessor.transform(frame[frame.columns[::-1]]), X)
    with pytest.raises(ValueError, match=r"not seen in training: 'shoe'.*extra=\"drop\""):
        preprocessor.transform(frame.assign(shoe=42))
    assert_array_equal(preprocessor.transform(frame.assign(shoe=42), extra="drop"), X)


def replaced(name, value):
    frame = mixed(50)
    frame[name] = value
    return frame


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (mixed().drop(columns="income"), "no column 'income'"),
        (mixed().rename(columns={"income": "incme"}), "'income'. Did you mean 'incme'?"),
        (replaced("age", ["12", "old"] * 25), "'age' held numbers .* first 'old' in row 1"),
        (replaced("town", 5), "'town' held text .* now holds numbers, first 5"),
        (replaced("income", -np.inf), "'income' holds -inf in row 0"),
        (replaced("income", 1e200), r"'income' holds 1e\+200"),
        (replaced("age", [1j] * 50), "'age' has the dtype complex|'age' held numbers"),
        (pa.table({name: [[1, 2]] for name in mixed().columns}), "'age' has the type list"),
        (np.ones((3, 2)), "must be a pyarrow.Table"),
        ({"age": np.ones((2, 2))}, "one-dimensional"),
        ({"age": np.ones(2), "income": np.ones(3)}, "equal lengths"),
        (pd.DataFrame(np.ones((2, 2)), columns=["age", "age"]), "more than one column named 'age'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table, message):
    preprocessor = TablePreprocessor().fit(mixed())
    warming = TablePreprocessor().partial_fit(mixed())
    for method in (preprocessor.transform, warming.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(table)


@pytest.mark.parametrize("wrong", [{"x": [1.0, np.inf]}, {"x": ["a", "b"]}, {"c": [1.0, 2.0]}])
def test_tables_that_are_refused_leave_no_trace(wrong):
    right = {"x": np.array([1.0, 2.0, 4.0]), "c": ["u", "v", "u"]}
    seen = TablePreprocessor(warmup_rows=None).partial_fit(right, np.array([1.0, 2.0, 3.0]))
    before = json.dumps(seen.to_state())
    with pytest.raises(ValueError, match="Column"):
        seen.partial_fit({"x": [1.0, 2.0], "c": ["u", "w"], **wrong}, np.array([1.0, 2.0]))
    assert json.dumps(seen.to_state()) == before


def test_a_first_table_that_is_refused_does_not_say_what_the_columns_are():
    seen = TablePreprocessor(warmup_rows=None)
    with pytest.raises(ValueError, match="inf"):
        seen.partial_fit({"other": [1.0, np.inf]})
    assert seen.partial_fit({"x": [1.0, 2.0]}).feature_names_in_ == ["x"]


def test_targets_must_be_as_many_as_rows_and_of_all_tables():
    table, y = {"town": [f"town {i % 40}" for i in range(80)]}, np.arange(80.0)
    for wrong in (y[1:], np.append(y, 1.0)):
        with pytest.raises(ValueError, match="`y` must have one target for each row, got"):
            TablePreprocessor().fit(table, wrong)
    seen = TablePreprocessor(warmup_rows=None).partial_fit(table, y)
    with pytest.raises(ValueError, match="with all tables or with none"):
        seen.partial_fit(table)


def test_targets_of_merged_parts_are_in_the_same_units():
    towns, y = [f"town {i % 40}" for i in range(400)], np.arange(400) % 40 + 0.5

    def part(rows, *, looks, told=True):
        seen = TablePreprocessor(warmup_rows=None)
        if looks:
            seen.look({"town": towns}, y)
        return seen.partial_fit({"town": towns[rows]}, y[rows] if told else None)

    first, second = slice(0, 250), slice(250, None)
    whole = part(slice(None), looks=True).freeze()
    joined = part(first, looks=True).merge(part(second, looks=True)).freeze()
    table = {"town": towns}
    assert_allclose(joined.transform(table), whole.transform(table))
    for told in (True, False):
        with pytest.raises(ValueError, match="different units"):
            part(first, looks=False).merge(part(second, looks=False, told=told))


def test_a_column_that_is_all_missing_later_is_imputed():
    frame = mixed()
    X = TablePreprocessor().fit(frame).transform(frame.assign(age=None, town=np.nan))
    assert_array_equal(X[:, 0], 0.0)
    assert_array_equal(X[:, 8], 1.0)


@pytest.mark.parametrize("values", [[np.nan] * 3, [None] * 3, pa.nulls(3), pa.nulls(3, "string")])
def test_a_column_without_values_is_left_out(values):
    table = {"empty": values, "x": [1.0, 2.0, 3.0]}
    table = pa.table(table) if isinstance(values, pa.Array) else table
    seen = TablePreprocessor().fit(table)
    assert seen.feature_names_out() == ["x"]
    assert seen.audit_.left_out == {"empty": "no value"}


def test_nothing_to_learn_from_is_an_error():
    with pytest.raises(ValueError, match="No column varies"):
        TablePreprocessor().fit({"x": [1.0, 1.0]})
    with pytest.raises(ValueError, match="No rows were seen"):
        TablePreprocessor().fit({"x": np.empty(0)})
    with pytest.raises(NotFittedError, match="has seen no rows"):
        TablePreprocessor().fit([])
    with pytest.raises(ValueError, match="no columns left"):
        TablePreprocessor(exclude=("x",)).fit({"x": [1.0]})
    with pytest.raises(ValueError, match=r"no column 'lable'.*Did you mean 'label'"):
        TablePreprocessor(exclude=("lable",)).fit({"x": [1.0], "label": [1.0]})


def test_the_warmup_must_be_over_before_transforming():
    preprocessor = TablePreprocessor()
    with pytest.raises(NotFittedError, match="has seen no rows"):
        preprocessor.transform(mixed())
    preprocessor.partial_fit(mixed())
    with pytest.raises(NotFittedError, match=r"500 of 50000 rows seen.*freeze\(\)"):
        preprocessor.feature_names_out()


@pytest.mark.parametrize("missing", [None, np.nan, pd.Series([None] * 4, dtype="float64")])
def test_a_column_without_values_is_of_the_kind_of_the_other(missing):
    def seen(**columns):
        return TablePreprocessor().partial_fit(pd.DataFrame({"x": np.arange(4.0), **columns}))

    text = ["a", "b", "a", "a"]
    for kind in (text, np.array([1.0, 2.0, 3.0, 5.0])):
        found = []
        for first, second in ((missing, kind), (kind, missing)):
            other = seen(c=second)
            before = other.to_state()
            merged = seen(c=first).merge(other).merge(seen(c=kind))
            assert other.to_state() == before
            assert merged.n_samples_seen_ == 12
            found.append(np.sort(merged.freeze().transform({"x": [0.0], "c": [kind[0]]})))
        assert_allclose(*found, rtol=1e-12)
        assert merged.text_columns_ == (["c"] if kind is text else [])


def test_only_alike_preprocessors_merge():
    def one():
        return TablePreprocessor().partial_fit(mixed())

    with pytest.raises(ValueError, match="Frozen statistics"):
        one().freeze().merge(one())
    with pytest.raises(ValueError, match="equal parameters"):
        one().merge(TablePreprocessor(categories=2).partial_fit(mixed()))
    with pytest.raises(ValueError, match=r"cannot be merged.*: 'town'\."):
        one().merge(TablePreprocessor().partial_fit(mixed().drop(columns="town")))
    assert (
        TablePreprocessor(warmup_rows=800)
        .partial_fit(mixed())
        .merge(TablePreprocessor(warmup_rows=800).partial_fit(mixed()))
        .frozen_
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categories": 0}, "categories"),
        ({"min_count": 0}, "min_count"),
        ({"warmup_rows": 0}, "warmup_rows"),
        ({"scaling": "minmax"}, "scaling"),
        ({"dtype": "int8"}, "dtype"),
        ({"exclude": "label"}, "sequence of column names"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        TablePreprocessor(**options)
    with pytest.raises(ValueError, match=message):
        TablePreprocessor().set_params(**options)


def test_clones_and_refits_start_afresh():
    preprocessor = TablePreprocessor(min_count=1).fit(mixed())
    assert not clone(preprocessor).frozen_
    assert clone(preprocessor) == preprocessor
    assert preprocessor.fit({"x": [1.0, 3.0]}).feature_names_out() == ["x"]


def test_input_tables_do_not_change():
    frame = mixed()
    TablePreprocessor().fit(frame).transform(frame)
    pd.testing.assert_frame_equal(frame, mixed())
    arrays = {"x": np.array([1.0, np.nan, 4.0])}
    TablePreprocessor().fit(arrays).transform(arrays)
    assert_array_equal(arrays["x"], [1.0, np.nan, 4.0])
