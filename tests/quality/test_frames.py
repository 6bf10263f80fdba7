"""Tables as users have them, in the estimators themselves: frames, gaps, categories."""

import datetime
import itertools
import json
import pickle
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from command_line import run
from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    load_model,
)
from mercer.columns import TablePreprocessor
from mercer.default import DefaultLearner
from mercer.expansions import KOMP, Dictionary, RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.export import ExportError, export_python
from mercer_app.rows import TableRows
from mercer_app.training import FileTraining
from mercer_cluster import ShardTraining, predict
from quick import QUICK

pd = pytest.importorskip("pandas", reason="frames need pandas")
pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")
pl = pytest.importorskip("polars", reason="polars is not installed")
csv = pytest.importorskip("pyarrow.csv", reason="tables need pyarrow")
parquet = pytest.importorskip("pyarrow.parquet", reason="tables need pyarrow")

pytestmark = pytest.mark.usefixtures("quickest_race", "few_steps")

N = 150
WAYS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "objects": lambda frame: frame.astype(object).to_numpy(),
}


@pytest.fixture
def quick(monkeypatch):
    """A race of more kernels, where answers are compared."""
    monkeypatch.setattr(DefaultLearner, "settings", QUICK)


def classifier(**parameters):
    return KernelClassifier(
        kernel="gaussian", expansion=Dictionary(40), random_state=0, **parameters
    )


def regressor(**parameters):
    return KernelRegressor(
        kernel="gaussian", expansion=Dictionary(40), random_state=0, **parameters
    )


def mixed(n=N, seed=0):
    """A frame with columns of many types and gaps, and classes that depend on them."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Bonn", "Ulm", "Wien"], n)
    height = rng.normal(size=n)
    y = np.where((town == "Bern") | (height > 0.5), "yes", "no")
    frame = pd.DataFrame({"town": town, "height": height, "rooms": rng.integers(1, 6, n)})
    frame.loc[rng.choice(n, n // 10, replace=False), "town"] = None
    frame.loc[rng.choice(n, n // 10, replace=False), "height"] = np.nan
    return frame, y


def columns(n=N, seed=0):
    """Columns of all types that pandas has."""
    rng = np.random.default_rng(seed)
    whole, some, numbers = rng.integers(0, 5, n), rng.random(n) < 0.1, rng.normal(size=n)
    texts = rng.choice(["a", "b", "c"], n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")

    def with_gaps(values, dtype):
        return pd.Series(
            [None if gap else v for v, gap in zip(values, some, strict=True)], dtype=dtype
        )

    return {
        "float": with_gaps(numbers, "float64"),
        "float32": with_gaps(numbers, "float32"),
        "Float64": with_gaps(numbers, "Float64"),
        "Int64": with_gaps(whole, "Int64"),
        "int8": pd.Series(whole, dtype="int8"),
        "uint16": pd.Series(whole, dtype="uint16"),
        "bool": pd.Series(numbers > 0),
        "boolean": with_gaps(numbers > 0, "boolean"),
        "text": with_gaps(texts, object),
        "string": with_gaps(texts, "string"),
        "arrow text": with_gaps(texts, "string[pyarrow]"),
        "arrow numbers": with_gaps(whole.tolist(), "int64[pyarrow]"),
        "category": with_gaps(texts, "category"),
        "category of numbers": with_gaps(whole, "category"),
        "time": with_gaps(days, "datetime64[ns]"),
        "time with zone": with_gaps(days.tz_localize("Europe/Zurich"), None),
        "span": with_gaps(days - days.min(), "timedelta64[ns]"),
        "time of day": with_gaps([datetime.time(int(v), 30) for v in whole], object),
        "date": with_gaps(days.date, object),
        "decimal": with_gaps([Decimal(int(v)) / 4 for v in whole], object),
        "mixed numbers": pd.Series([int(v) if v % 2 else float(v) for v in whole], dtype=object),
        "objects and text": pd.Series([v if v > 2 else str(v) for v in whole], dtype=object),
    }


def encoding(table, y):
    """Encode by what a training on files has for its columns, numbers unscaled."""
    return TablePreprocessor(warmup_rows=None, scaling="none", suspects="keep").fit(table, y)


# -- rows that go in as they are -------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("make", [classifier, regressor])
def test_frames_of_numbers_give_the_model_of_arrays(way, make):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=90), "b": rng.integers(0, 9, 90), "c": rng.random(90) < 0.5}
    )
    X, y = frame.to_numpy(dtype=np.float64), rng.integers(0, 2, 90)
    of_array, of_frame = make().fit(X, y), make().fit(WAYS[way](frame), y)
    assert of_frame.preprocessor_ is None
    assert of_frame.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(of_frame.coefficients_, of_array.coefficients_)
    assert np.array_equal(of_frame.predict(WAYS[way](frame)), of_array.predict(X))


def test_single_precision_and_nullable_types_without_gaps_stay_as_they_are():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)).astype(np.float32), rng.integers(0, 2, 60)
    model = classifier().set_params(expansion=KOMP(max_size=20))
    assert model.fit(pd.DataFrame(X, columns=["a", "b"]), y).dictionary_.dtype == np.float32
    whole = pd.DataFrame({"a": X[:, 0] > 0, "b": y}).astype({"a": "boolean", "b": "Int64"})
    twin = classifier().fit(whole.to_numpy(dtype=np.float64), y)
    assert np.array_equal(classifier().fit(whole, y).coefficients_, twin.coefficients_)


def test_sparse_frames_are_sparse_rows_and_others_dense_ones():
    rng = np.random.default_rng(2)
    X = np.where(rng.random((80, 6)) < 0.3, rng.normal(size=(80, 6)), 0.0)
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(
        {f"c{i}": pd.arrays.SparseArray(X[:, i], fill_value=0.0) for i in range(6)}
    )
    from scipy.sparse import csr_matrix

    assert np.array_equal(
        classifier().fit(frame, y).coefficients_, classifier().fit(csr_matrix(X), y).coefficients_
    )
    partly = frame.assign(c0=X[:, 0], c1=pd.arrays.SparseArray(X[:, 1], fill_value=np.nan))
    model = classifier().fit(partly, y)
    assert np.array_equal(model.coefficients_, classifier().fit(X, y).coefficients_)
    with_text = frame.assign(c0=np.where(y, "a", "b"))
    assert classifier().fit(with_text, y).score(with_text, y) == 1.0


def test_names_of_columns_need_not_be_text():
    X, y = mixed()
    plain = X.set_axis([3, 1, 2], axis=1)
    model = classifier().fit(plain, y)
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(model.predict(plain), classifier().fit(X, y).predict(X))


# -- columns of other types ------------------------------------------------------------------------


@cache
def all_columns():
    return columns(50)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.InputScaleWarning")  # seconds
@pytest.mark.parametrize("kind", sorted(columns(1)))
@pytest.mark.parametrize("way", sorted(WAYS))
def test_columns_of_all_types_are_encoded_as_table_models_do(kind, way, tmp_path):
    column = all_columns()[kind]
    rng = np.random.default_rng(3)
    n = len(column)
    frame = pd.DataFrame({"other": rng.choice(["u", "v"], n), "column": column})
    if way == "polars" and kind == "objects and text":
        pytest.skip("there are no such columns")
    if way == "arrow" and kind in ("objects and text", "mixed numbers"):
        pytest.skip("there are no such columns")
    y = (frame["other"] == "u").to_numpy().astype(int)
    try:
        table = WAYS[way](frame)
    except pl.exceptions.ComputeError:
        pytest.skip("the oldest polars have no categories of numbers")
    # Classes of one kind of frames suffice, by the steps that they take.
    make, ask = (classifier, "decision_function") if way == "pandas" else (regressor, "predict")
    y = y if way == "pandas" else y.astype(float)
    model = make().fit(table, y)
    seen = {name: table[:, i] for i, name in enumerate(frame)} if way == "objects" else table
    known = encoding(seen, y)
    twin = make().fit(known.transform(seen, learned=True), y)
    names = [
        name.replace("x0", "other").replace("x1", "column")
        for name in model.preprocessor_.feature_names_out()
    ]
    assert names == known.feature_names_out()
    answers = getattr(twin, ask)(known.transform(seen))
    assert np.array_equal(getattr(model, ask)(table), answers)
    if way in ("pandas", "objects"):  # files do not know what frames there were
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert np.array_equal(getattr(loaded, ask)(table), answers)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_predictions_do_not_depend_on_the_container(way):
    frame, y = mixed()
    model, table = classifier().fit(frame, y), WAYS[way](frame)
    with pytest.warns(UserWarning, match="valid feature names") if way == "objects" else nothing():
        assert np.array_equal(model.predict(table), model.predict(frame))
    assert model.score(frame, y) > 0.9


def nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_categories_of_polars_are_read():
    frame = pl.DataFrame(
        {
            "a": pl.Series(["x", None, "y"] * 20, dtype=pl.Categorical),
            "b": pl.Series(["u", "v", None] * 20, dtype=pl.Enum(["u", "v"])),
        }
    )
    y = [1, 0, 2] * 20
    assert classifier().fit(frame, y).score(frame, y) == 1.0


def test_lists_and_text_arrays_keep_numbers_apart_from_text():
    frame, y = mixed()
    frame, y = frame.dropna(), y[frame.notna().all(axis=1)]
    rows = frame.to_numpy().tolist()
    names = classifier().fit(frame, y).preprocessor_.feature_names_out()
    for X in (rows, frame.to_numpy(), frame.to_numpy().astype(str)):
        model = classifier().fit(X, y)
        found = model.preprocessor_.feature_names_out()
        assert [one.partition("=")[2] for one in found] == [one.partition("=")[2] for one in names]
        assert model.score(X, y) > 0.9


def test_arrays_of_text_that_are_numbers_stay_numbers():
    X = np.array([["1", "2"], ["3", "5"]] * 20)
    model = classifier().fit(X, [0, 1] * 20)
    assert model.preprocessor_ is None
    assert np.array_equal(
        model.coefficients_, classifier().fit(X.astype(float), [0, 1] * 20).coefficients_
    )


def test_what_pandas_has_for_nothing_is_a_gap_in_arrays_of_objects():
    X = np.array([["a", 1.0], [pd.NA, 2.0], ["b", pd.NA], [None, pd.NaT]] * 20, dtype=object)
    model = classifier().fit(X, [0, 1, 2, 3] * 20)
    assert {"x0=(missing)", "x1=(missing)"} <= set(model.preprocessor_.feature_names_out())
    assert model.score(X, [0, 1, 2, 3] * 20) == 1.0


# -- dates, texts and many categories --------------------------------------------------------------


def dated(n=N, seed=0):
    """A frame with moments, and classes that depend on the day of the week."""
    rng = np.random.default_rng(seed)
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 24 * 900, n), unit="h")
    frame = pd.DataFrame({"when": when, "x": rng.normal(size=n)})
    return frame, np.where(frame["when"].dt.day_of_week >= 5, "out", "in")


def shops(n=1200, n_shops=200, seed=0):
    """A frame with a column of many categories, and what each of them is worth."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, n_shops, n)
    frame = pd.DataFrame({"shop": [f"shop {c}" for c in code], "x": rng.normal(size=n)})
    return frame, rng.normal(size=n_shops)[code], rng


@pytest.mark.parametrize(
    "way",
    [*WAYS.values(), lambda frame: frame.astype({"when": str})],
    ids=[*WAYS, "text"],
)
def test_dates_become_parts_of_the_calendar(way):
    frame, y = dated()
    table = way(frame)
    model = KernelClassifier(random_state=0).fit(table, y)
    assert model.audit_[0].becomes == "number, day of year, day, weekday, hour"
    assert model.score(table, y) > 0.97


def test_dates_of_a_stream_become_parts_of_the_calendar():
    frame, y = dated()
    model = KernelClassifier(random_state=0)
    for start in range(0, N, 10):
        rows = slice(start, start + 10)
        model.partial_fit(frame[rows], y[rows], classes=["in", "out"])
    assert model.n_inputs_ == 6
    assert model.score(frame, y) > np.mean(y == "in") + 0.1


def test_four_hundred_different_texts_are_words():
    rng = np.random.default_rng(12)
    near = rng.choice(["lake", "road"], 400)
    frame = pd.DataFrame({"text": [f"flat {i} near the {one}" for i, one in enumerate(near)]})
    model = KernelClassifier(random_state=0).fit(frame[:300], near[:300])
    assert model.audit_[0].becomes == "33 numbers of its words"
    assert model.score(frame[300:], near[300:]) > 0.95
    assert model.score(pl.from_pandas(frame[300:]), near[300:]) > 0.95


def test_codes_of_rows_are_left_out_with_a_word_unless_there_is_nothing_else():
    frame, y = mixed()
    frame = frame.assign(code=[f"id{i}" for i in range(N)])
    with pytest.warns(UserWarning, match="another code in each of the 150 rows.*'code'"):
        model = classifier().fit(frame, y)
    assert model.audit_.left_out == {"code": "has another code in each row"}
    assert np.array_equal(model.predict(frame.assign(code="?")), model.predict(frame))
    assert not classifier().fit(frame[["code"]], y).audit_.left_out


def towns(n_rows):
    """Return dates, numbers with gaps, categories, and a target."""
    table, _ = dated(n_rows)
    rng = np.random.default_rng(1)
    table["height"] = rng.normal(500.0, 90.0, n_rows)
    table["width"] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows))
    table["town"] = rng.choice(["Bern", "Bonn", "Ulm"], n_rows)
    return table, 0.01 * table["height"] + (table["town"] == "Ulm") + rng.normal(0.0, 0.1, n_rows)


@pytest.mark.parametrize("make", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize("n_rows", [120, 620])
def test_files_and_frames_give_the_same_model(make, n_rows, tmp_path):
    """Bit for bit, where they learn the same rows in the same order; scales are chosen alike."""
    table, target = towns(n_rows)
    if make is KernelClassifier:
        target = target.gt(target.median()).map({True: "high", False: "low"})
    model = make(shuffle=False, random_state=0).fit(table, target)
    file = tmp_path / "rows.parquet"
    table.assign(target=target).to_parquet(file)
    training = FileTraining(file, "target", shuffle_buffer=0).start()
    training.run(tmp_path / "model.mercer")
    of_file = training.model_
    inputs = training.rows_.inputs(table, learned=True)
    np.testing.assert_array_equal(inputs, model.preprocessor_.transform(table, learned=True))
    np.testing.assert_array_equal(of_file.predict(table), model.predict(table))
    assert of_file.history_.loss.tolist() == model.history_.loss.tolist()


def test_files_and_frames_give_the_same_model_by_steps(tmp_path):
    table, target = towns(700)
    file = tmp_path / "rows.parquet"
    table.assign(target=target).to_parquet(file)
    options = {"kernel": Gaussian(3.0), "expansion": KOMP()}
    training = FileTraining(file, "target", options=options, scaling="none", shuffle_buffer=0)
    training.start().run(tmp_path / "model.mercer")
    model = KernelRegressor(**options, normalize_y=True, shuffle=False, random_state=0)
    model.fit(table, target)
    assert training.model_.get_params()["normalize_y"]
    np.testing.assert_array_equal(training.model_.predict(table), model.predict(table))


@pytest.mark.parametrize(
    "expansion", [KOMP(max_size=50), Dictionary(50)], ids=["komp", "dictionary"]
)
@pytest.mark.parametrize("make", [KernelRegressor, KernelClassifier])
def test_files_and_frames_give_the_same_model_where_the_kernel_is_chosen(make, expansion, tmp_path):
    """Kernel, map of the inputs and level of the scores, too; all rows are in the first chunk."""
    table, target = towns(400)
    if make is KernelClassifier:
        target = target.gt(target.quantile(0.8)).map({True: "high", False: "low"})
    file = tmp_path / "rows.parquet"
    table.assign(target=target).to_parquet(file)
    options = {"expansion": expansion}
    training = FileTraining(file, "target", options=options, shuffle_buffer=0).start()
    training.run(tmp_path / "model.mercer")
    model = make(expansion=expansion, shuffle=False, random_state=0).fit(table, target)
    of_file = training.model_
    assert (model.level_ != 0.0).any()
    np.testing.assert_array_equal(of_file.level_, model.level_)
    np.testing.assert_array_equal(of_file.predict(table), model.predict(table))


def test_several_passes_over_a_file_choose_the_kernel_by_rows_that_come_once(tmp_path):
    """Rows that came twice in the sample would be judged by themselves: too short a length."""
    table, target = towns(200)
    file = tmp_path / "rows.parquet"
    table.assign(target=target).to_parquet(file)
    options = {"expansion": RandomFeatures(64)}
    training = FileTraining(file, "target", options=options, shuffle_buffer=0).start()
    training.run(tmp_path / "model.mercer")
    assert training.n_passes_ > 10
    model = KernelRegressor(**options, shuffle=False, random_state=0).fit(table, target)
    assert training.model_.kernel_ == model.kernel_


def test_shards_and_frames_give_the_same_model(quick, tmp_path):
    """Columns alike, and answers as near as another order of the rows leaves them."""
    table, target = towns(640)
    for i in range(3):
        table.assign(target=target)[i::3].to_parquet(tmp_path / f"part-{i}.parquet")
    training = ShardTraining(tmp_path, "target", engine="here").start()
    training.run(tmp_path / "model.mercer")
    model = KernelRegressor(random_state=0).fit(table, target)
    of_shards = training.model_
    assert str(of_shards.audit_) == str(model.audit_)
    inputs = of_shards.preprocessor_.transform(table)
    # Moments of merged columns are rounded to seven digits, so that no order matters.
    np.testing.assert_allclose(inputs, model.preprocessor_.transform(table), rtol=1e-6)
    apart = np.sqrt(np.mean((of_shards.predict(table) - model.predict(table)) ** 2))
    assert apart < 0.2 * np.sqrt(np.mean((model.predict(table) - target) ** 2))


def test_numbers_are_never_left_out():
    frame, y = mixed()
    frame = frame.assign(id=np.arange(N), again=frame["height"])
    assert not KernelClassifier(random_state=0).fit(frame, y).audit_.left_out


def test_many_categories_beat_an_input_for_each():
    frame, worth, rng = shops(2400, 300)
    y = worth + np.sin(2.0 * frame["x"]) + 0.3 * rng.normal(size=len(frame))
    learned, held = slice(0, 1600), slice(1600, None)
    model = KernelRegressor(random_state=0).fit(frame[learned], y[learned])
    assert model.audit_[0].becomes.startswith("mean of the target")
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["shop"]),
        remainder="passthrough",
    )
    each = make_pipeline(encoder, KernelRegressor(random_state=0)).fit(frame[learned], y[learned])
    assert model.score(frame[held], y[held]) > each.score(frame[held], y[held]) + 0.1


@pytest.mark.parametrize(
    ("make", "what"), [(KernelRegressor, "categories"), (KernelClassifier, "texts")]
)
def test_categories_and_texts_that_say_nothing_cost_next_to_nothing(make, what, quick):
    frame, _, rng = shops(seed=1)
    if what == "texts":
        frame["shop"] = [" ".join(rng.choice(list("abcdefghijkl"), 6)) for _ in range(len(frame))]
    y = np.sin(2.0 * frame["x"]) + 0.5 * rng.normal(size=len(frame))
    y = y > 0.0 if make is KernelClassifier else y
    learned, held = slice(0, 450), slice(450, None)
    model = make(random_state=0).fit(frame[learned], y[learned])
    without = make(random_state=0).fit(frame.loc[:449, ["x"]], y[learned])
    assert model.audit_[0].n_inputs > 0
    found, wanted = model.score(frame[held], y[held]), without.score(frame[["x"]][held], y[held])
    assert found > wanted - 0.03


@pytest.mark.parametrize(
    "make_y",
    [
        lambda worth: np.column_stack([worth, -worth]),
        lambda worth: worth[:, np.newaxis],
        lambda worth: np.round(worth, 1).tolist(),
    ],
)
def test_targets_of_all_shapes_go_with_many_categories(make_y, tmp_path):
    frame, worth, _ = shops(600, 60)
    y = make_y(worth)
    model = regressor().fit(frame, y)
    told = "mean" in model.audit_[0].becomes
    assert told == (np.shape(y)[1:] != (2,))  # of several outputs there are no means
    model.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(frame), model.predict(frame))


@pytest.mark.parametrize("make", [KernelRegressor, KernelClassifier])
def test_rows_of_weight_0_say_nothing_of_the_columns(make):
    frame, worth, _ = shops(600, 60)
    y = worth if make is KernelRegressor else (worth > np.median(worth)).astype(int)
    weights = (np.arange(600) < 400).astype(float)
    model = make(random_state=0).fit(frame, y, sample_weight=weights)
    some = make(random_state=0).fit(frame[:400], y[:400])
    assert model.preprocessor_.to_state() == some.preprocessor_.to_state()
    x = frame[["x"]].to_numpy()
    plain = make(random_state=0).fit(x, y, sample_weight=weights)
    assert np.array_equal(plain._means, x[:400].mean(axis=0))


@pytest.mark.parametrize("n_classes", [2, 4, 12])
@pytest.mark.parametrize("dtype", [float, int, str])
def test_classes_of_all_types_go_with_many_categories(n_classes, dtype, tmp_path):
    frame, worth, _ = shops(600, 60)
    y = np.digitize(worth, np.quantile(worth, np.linspace(0, 1, n_classes + 1)[1:-1]))
    model = classifier().fit(frame, y.astype(dtype))
    n_means = sum(":mean" in name for name in model.preprocessor_.feature_names_out())
    assert n_means == {2: 1, 4: 4, 12: 0}[n_classes]  # of more than ten classes there are none
    assert n_means == 0 or model.score(frame, y.astype(dtype)) > 0.8
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(frame), model.decision_function(frame))


def test_wrong_targets_of_tables_are_refused_before_anything_is_learned():
    frame, worth, _ = shops(100)
    for y, words in ((worth[:-1], "inconsistent"), (np.append(worth[1:], np.nan), "NaN")):
        with pytest.raises(ValueError, match=words):
            regressor().fit(frame, y)


# -- the audit -------------------------------------------------------------------------------------


def test_the_audit_says_what_became_of_all_columns(tmp_path):
    frame, y = mixed()
    with pytest.warns(UserWarning, match="'never'"):
        model = classifier().fit(frame.assign(never=np.nan), y)
    audit = model.audit_
    assert [(one.name, one.kind, one.n_inputs) for one in audit] == [
        ("town", "category", 6),
        ("height", "number", 2),
        ("rooms", "number", 1),
        ("never", "number", 0),
    ]
    assert audit.left_out == {"never": "no value"}
    model.save(tmp_path / "model")
    for twin in (load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert str(twin.audit_) == str(audit)


def test_there_is_no_audit_of_rows_that_went_in_as_they_are_nor_of_streams():
    frame, y = mixed()
    with pytest.raises(AttributeError, match="not fitted"):
        _ = classifier().audit_
    with pytest.raises(AttributeError, match="numbers without gaps went in as they are"):
        _ = classifier().fit(frame[["rooms"]], y).audit_
    stream = KernelClassifier(random_state=0).partial_fit(frame[:50], y[:50])
    with pytest.raises(AttributeError, match="columns of a stream"):
        _ = stream.audit_


# -- gaps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", [classifier, regressor])
def test_gaps_of_arrays_are_inputs_of_their_own(make, dtype):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 3)).astype(dtype)
    gap = rng.random(400) < 0.3
    X[gap, 1] = np.nan
    y = gap.astype(int)
    model = make().fit(X, y)
    assert model.preprocessor_.feature_names_out() == ["x0", "x1", "x1=(missing)", "x2"]
    assert model.preprocessor_.dtype_ == np.dtype(dtype).name
    assert model.score(X, y) > 0.9
    filled = X.copy()
    filled[:, 2] = np.where(rng.random(400) < 0.5, np.nan, X[:, 2])
    by_hand = np.where(np.isnan(filled), X[:, 2].mean(dtype=np.float64), filled)
    by_hand[:, 1] = filled[:, 1]  # a gap there is known
    assert np.allclose(model.predict(filled), model.predict(by_hand.astype(dtype)), atol=1e-4)


def test_gaps_that_training_did_not_have_become_means(tmp_path):
    rng = np.random.default_rng(5)
    X, y = 3.0 + rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    for rows in (X, pd.DataFrame(X, columns=["a", "b"])):
        model = classifier().fit(rows, y)
        gap = np.array([[np.nan, 1.0], [2.0, np.nan]])
        full = np.where(np.isnan(gap), X.mean(axis=0), gap)
        if rows is not X:
            gap, full = (pd.DataFrame(each, columns=["a", "b"]) for each in (gap, full))
        assert np.allclose(model.decision_function(gap), model.decision_function(full), atol=1e-9)
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert np.array_equal(loaded.decision_function(gap), model.decision_function(gap))
        twin = pickle.loads(pickle.dumps(loaded)).partial_fit(full, [0, 1])
        loaded.partial_fit(gap, [0, 1])
        assert np.allclose(loaded.decision_function(rows), twin.decision_function(rows), atol=1e-6)


def test_columns_without_any_value_are_left_out():
    frame, y = mixed()
    frame = frame.assign(nothing=None, never=np.nan)
    with pytest.warns(UserWarning, match="left out: 'nothing', 'never'"):
        model = classifier().fit(frame, y)
    assert model.n_features_in_ == 5
    known = model.predict(frame)
    assert np.array_equal(model.predict(frame.assign(never=1.0)), known)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(frame), known)


def test_sparse_rows_with_gaps_are_refused():
    from scipy.sparse import csr_matrix

    X = np.eye(4)
    X[1, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        classifier().fit(csr_matrix(X), [0, 1, 0, 1])
    model = classifier().fit(csr_matrix(np.eye(4)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="nothing is known of the means"):
        model.predict(X)


# -- categories ------------------------------------------------------------------------------------


def test_unseen_categories_have_a_place():
    frame, y = mixed()
    model = classifier().fit(frame, y)
    for town in ("Ulan Bator", "Graz"):
        answers = model.predict(frame.assign(town=town))
        assert np.array_equal(answers, model.predict(frame.assign(town="(other)")))


@pytest.mark.parametrize("named", [["rooms"], [2], [False, False, True], np.array(["rooms"])])
def test_columns_of_numbers_can_be_named_as_categories(named, tmp_path):
    frame, y = mixed()
    y = np.where(frame["rooms"].isin([1, 4]), "yes", "no")
    model = classifier(categorical_features=named).fit(frame, y)
    names = [name for name in model.preprocessor_.feature_names_out() if "rooms" in name]
    assert names == [f"rooms={n}" for n in range(1, 6)] + ["rooms=(other)"]
    assert model.score(frame, y) > 0.9
    as_floats = frame.astype({"rooms": float})
    assert np.array_equal(model.predict(as_floats), model.predict(frame))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(frame), model.decision_function(frame))
    assert list(loaded.categorical_features) == list(named)
    assert clone(model).categorical_features == pytest.approx(named) if named == [2] else True


def test_categories_can_be_named_in_arrays():
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 6, 400)])
    y = np.isin(X[:, 1], [1, 3, 5]).astype(int)
    model = classifier(categorical_features=[1]).fit(X, y)
    assert "x1=3" in model.preprocessor_.feature_names_out()
    assert model.score(X, y) == 1.0


def test_no_column_has_categories_if_none_is_said_to_have():
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"a": pd.Categorical(rng.integers(0, 4, 60)), "b": rng.normal(size=60)})
    y = rng.integers(0, 2, 60)
    assert "a=1" in classifier().fit(frame, y).preprocessor_.feature_names_out()
    model = classifier(categorical_features=None).fit(frame, y)
    assert model.preprocessor_.feature_names_out() == ["a", "b"]
    with pytest.raises(ValueError, match=r"'town' holds text, for example .*categorical_features"):
        classifier(categorical_features=None).fit(*mixed())


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("dtype", "must be 'from_dtype', None"),
        (["towm"], "'towm', which is no column of the rows. Did you mean 'town'"),
        ([7], r"in \[0, n_features - 1\] = \[0, 2\], got 7"),
        ([True], r"shape \(n_features,\) = \(3,\)"),
        ([0.5], "must be 'from_dtype', None"),
        ([["town"]], "must be 'from_dtype', None"),
    ],
)
def test_columns_that_are_not_there_cannot_be_named(named, words):
    with pytest.raises(ValueError, match=words):
        classifier(categorical_features=named).fit(*mixed())


@pytest.mark.parametrize("n_first", [20, N])
def test_categories_are_named_in_streams_as_in_tables(n_first):
    frame, y = mixed()
    cells = frame.assign(rooms=np.where(frame["rooms"] == 5, np.inf, frame["rooms"]))
    model = KernelClassifier(categorical_features=["rooms"], random_state=0)
    model.partial_fit(cells[:n_first], y[:n_first], classes=["no", "yes"])
    if n_first < N:
        model.partial_fit(cells[n_first:], y[n_first:])
        assert {level for name, level in model._columns.inputs if name == "rooms"} == {
            "1", "2", "3", "4", "inf",
        }  # fmt: skip
    assert model.predict(frame.assign(rooms=7)).shape == (N,)
    none = KernelClassifier(categorical_features=None, random_state=0)
    with pytest.raises(ValueError, match=r"'town' holds text.*categorical_features"):
        none.partial_fit(frame[:n_first], y[:n_first], classes=["no", "yes"])


def test_columns_of_arrays_have_no_names():
    with pytest.raises(ValueError, match="integers or a boolean mask"):
        classifier(categorical_features=["a"]).fit(np.eye(4), [0, 1, 0, 1])


# -- wrong rows ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="height"), "yet now missing:\n- height"),
        (lambda f: f[f.columns[::-1]], "must be in the same order"),
        (lambda f: f.assign(height=np.inf), "'height' holds inf in row 0"),
        (lambda f: f.assign(height="tall"), "'height' held numbers in training but now holds text"),
        (lambda f: f.assign(town=1.5), "'town' held text or categories in training but now"),
        (lambda f: f.to_numpy()[:, :2], "X has 2 features, but KernelClassifier is expecting 3"),
    ],
)
def test_rows_of_other_columns_are_refused_and_change_nothing(change, words):
    frame, y = mixed()
    model = classifier().fit(frame, y)
    before = model.decision_function(frame)
    wrong = change(frame)
    for learn in (model.predict, lambda rows: model.partial_fit(rows, y)):
        with pytest.raises(ValueError, match=words):
            learn(wrong)
    assert np.array_equal(model.decision_function(frame), before)


def test_text_in_rows_of_a_model_of_numbers_is_refused():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    model = classifier().fit(frame, rng.integers(0, 2, 60))
    with pytest.raises(ValueError, match="'b' held numbers in training but now holds text"):
        model.predict(frame.assign(b="x"))
    with pytest.raises(ValueError, match="infinity"):
        model.predict(frame.assign(b=np.inf))


@pytest.mark.parametrize("wrong", [np.inf, -np.inf])
def test_infinities_beside_gaps_are_refused(wrong):
    X = np.array([[np.nan, 1.0], [1.0, wrong], [0.0, 0.0]] * 10)
    with pytest.raises(ValueError, match="infinity"):
        classifier().fit(X, [0, 1, 2] * 10)


def test_sparse_rows_do_not_fit_a_table():
    from scipy.sparse import csr_matrix

    model = classifier().fit(*mixed())
    with pytest.raises(ValueError, match="sparse matrix"):
        model.predict(csr_matrix((4, 3)))


@pytest.mark.parametrize(
    "learn",
    [
        lambda f, y: KernelRanker().fit(f, y),
        lambda f, y: NoveltyDetector().fit(f),
        lambda f, y: GaussianProcessRegressor().fit(f, y == "yes"),
        lambda f, y: DensityRatio().fit(f, f),
    ],
)
def test_other_estimators_say_what_to_do_with_text(learn):
    frame, y = mixed()
    with pytest.raises(ValueError, match=r"learns numbers.*TablePreprocessor, or train on files"):
        learn(frame, y)


# -- targets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: pd.Series(y, index=np.arange(len(y))[::-1], dtype="int64[pyarrow]"),
        lambda y: pd.Series(y, dtype="category"),
        pl.Series,
        lambda y: pa.array(y.tolist()),
    ],
)
def test_whole_numbers_of_all_libraries_are_classes(make):
    frame, y = mixed()
    y = (y == "yes").astype(np.int64)
    model = classifier().fit(frame, make(y))
    assert model.classes_.tolist() == [0, 1]
    assert model.classes_.dtype.kind == "i"
    assert np.array_equal(model.predict(frame), classifier().fit(frame, y).predict(frame))
    assert model.score(frame, y) > 0.9


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([None, "a", "b", "a"], dtype="string"),
        pl.Series([None, "a", "b", "a"]),
        pd.Series([None, True, False, True], dtype="boolean"),
        [None, "a", "b", "a"],
        (None, 1, 2, 1),
    ],
)
def test_missing_targets_are_refused(y):
    with pytest.raises(
        ValueError, match="y contains NaN, or nothing, in 1 of 4 rows, first in row 0"
    ):
        classifier().fit(np.eye(4), y)


@pytest.mark.parametrize("y", [["low", "1.5", "2", "3"], pd.Series([1.0, "low", 2.0, 3.0])])
def test_text_as_quantities_leads_to_the_classifier(y):
    with pytest.raises(ValueError, match=r"y holds text, such as 'low'.* use KernelClassifier"):
        regressor().fit(np.eye(4), y)


@pytest.mark.parametrize("unit", ["D", "s"])
def test_dates_are_no_classes_and_durations_no_targets(unit):
    days = np.arange("2024-01-01", "2024-01-31", dtype="M8[D]").astype(f"M8[{unit}]")
    spans, dates = days - days[0], (days, pd.Series(days), days.astype(object))
    X = np.arange(30.0)[:, np.newaxis]
    for y in (spans, pd.Series(spans), spans.astype(object), spans.tolist()):
        for model in (KernelRegressor(), KernelClassifier(), GaussianProcessRegressor()):
            with pytest.raises(
                ValueError, match=r"y holds dates or durations.* numbers|timedelta in"
            ):
                model.fit(X, y)
    for y in dates:
        with pytest.raises(
            ValueError, match=r"y holds dates or durations.* classes|date(time)? in 3"
        ):
            KernelClassifier().fit(X, y)
        # In days, as all are days.
        assert KernelRegressor(random_state=0).fit(X, y).predict(X).dtype == np.dtype("M8[D]")


def test_dates_as_text_are_read_where_dates_were_learned():
    days = pd.date_range("2024-01-01 07:30", periods=30)
    model = KernelRegressor(random_state=0).fit(pd.DataFrame({"day": days}), np.arange(30.0))
    text = pd.DataFrame({"day": [*days.astype(str), None]})
    dates = pd.DataFrame({"day": [*days, pd.NaT]})
    assert_array_equal(model.predict(text), model.predict(dates))
    with pytest.raises(ValueError, match=r"'day'.*'31\.01\.2024' in row 0.*pandas\.to_datetime"):
        model.predict(pd.DataFrame({"day": ["31.01.2024"]}))
    soon, gap = (pd.DataFrame({"day": ["2024-01-31", one]}) for one in ("soon", None))
    with pytest.warns(
        UserWarning, match=r"'day' has 1 cell that .* as a date, first 'soon' in row 1"
    ):
        answers = model.predict(soon)
    assert_array_equal(answers, model.predict(gap))
    with pytest.raises(ValueError, match=r"'day' held dates .* 'soon' in row 1 of this table"):
        model.partial_fit(soon, [0.0, 1.0])


def test_numbers_as_text_are_quantities():
    model = regressor().fit(np.eye(4), ["1.5", "2", "3", "4"])
    assert model.predict(np.eye(4)).dtype == np.float64


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        ([{"a": 1.0}, {"a": 2.0}], r"put them into a DataFrame"),
        ({"a": [1.0, 2.0]}, r"put them into a DataFrame"),
        (pl.LazyFrame({"a": [1.0, 2.0]}), r"call its method collect\(\)"),
    ],
)
def test_tables_of_other_forms_are_refused_with_advice(rows, advice):
    with pytest.raises(TypeError, match=advice):
        regressor().fit(rows, [1.0, 2.0])
    model = regressor().fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(TypeError, match=advice):
        model.predict(rows)


def test_names_that_repeat_and_columns_without_a_value_are_refused():
    twice = pd.DataFrame(np.eye(4), columns=["a", "b", "a", "c"])
    model = regressor().fit(twice.iloc[:, 1:], [1.0, 2.0, 3.0, 4.0])
    for method in (regressor().fit, model.score):
        with pytest.raises(ValueError, match="more than one column named 'a'; rename one"):
            method(twice, [1.0, 2.0, 3.0, 4.0])
    nothing = pd.DataFrame({"a": [np.nan] * 4, "b": [None] * 4})
    with pytest.raises(ValueError, match="no value in any column"):
        regressor().fit(nothing, [1.0, 2.0, 3.0, 4.0])


def test_quantities_of_decimals_and_nullable_numbers_are_learned():
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 50, 60) / 4
    known = regressor().fit(X, y).predict(X)
    for other in (pd.Series(y, dtype="Float64"), pl.Series([Decimal(str(v)) for v in y])):
        assert np.array_equal(regressor().fit(X, other).predict(X), known)


# -- learning goes on ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expansion", ["auto", Dictionary(40), KOMP(max_size=30), RandomFeatures(32)]
)
def test_learning_goes_on_from_files_and_pickles(expansion, tmp_path):
    frame, y = mixed(450)
    make = KernelClassifier(expansion=expansion, random_state=0)
    model = clone(make).partial_fit(frame[:300], y[:300], classes=["no", "yes"])
    model.save(tmp_path / "model")
    twins = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    answers = model.predict_proba(frame)
    for twin in (model, *twins):
        assert np.array_equal(twin.predict_proba(frame), answers)
        twin.partial_fit(frame[300:], y[300:])
        twin.learn_one(dict(frame.iloc[5]), y[5])
        assert twin.predict_one(frame.iloc[5]) == twin.predict(frame[5:6])[0]
    answers = model.predict_proba(frame)
    assert all(np.array_equal(twin.predict_proba(frame), answers) for twin in twins)
    assert model.score(frame, y) > 0.85
    assert model.fit(frame[["rooms"]], y).preprocessor_ is None


def test_single_rows_are_read_as_tables_are():
    frame, y = mixed()
    model = regressor().fit(frame, y == "yes")
    twin = pickle.loads(pickle.dumps(model))
    for i in range(5):
        row = frame.iloc[i].to_dict()
        assert model.predict_one(row) == pytest.approx(model.predict(frame[i : i + 1])[0])
        model.learn_one(row, float(i))
        twin.partial_fit(frame[i : i + 1], [float(i)])
    assert np.array_equal(model.predict(frame), twin.predict(frame))
    with pytest.raises(ValueError, match="no feature 'rooms'"):
        model.predict_one({"town": "Bern", "height": 1.0})
    with pytest.raises(ValueError, match="must have 3 values"):
        model.predict_one(["Bern", 1.0])


@pytest.mark.parametrize("n_first", [1, 7, 100])
def test_a_stream_of_small_frames_gives_new_categories_inputs(n_first, tmp_path):
    frame, y = mixed()
    y = y == "yes"
    order = np.argsort(frame["town"] == "Wien", kind="stable")  # a late category
    model = KernelClassifier(random_state=0)
    first = [0, *range(n_first, N, 20), N]
    for start, stop in itertools.pairwise(first):
        rows = order[start:stop]
        model.partial_fit(frame.iloc[rows], y[rows], classes=[False, True])
    assert model.preprocessor_ is None
    assert model.n_features_in_ == 3
    assert model.score(frame, y) > 0.75
    assert model.predict(frame.assign(town="Graz")).shape == (N,)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    later = frame.assign(town="Graz")
    for twin in (model, loaded):
        twin.partial_fit(later[:20], y[:20])
    assert np.array_equal(loaded.predict_proba(later), model.predict_proba(later))
    before = model.predict_proba(later)
    with pytest.raises(ValueError, match="'height' held numbers"):
        model.partial_fit(later.assign(height="tall", town="Oslo")[:3], y[:3])
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(later.assign(town="Oslo")[:3], ["what", "is", "it"])
    assert np.array_equal(model.predict_proba(later), before)


def test_rows_as_dicts_with_text_begin_a_stream():
    frame, y = mixed()
    model = KernelClassifier(random_state=0)
    for row, label in zip(frame.to_dict("records"), y, strict=True):
        model.learn_one({"town": row["town"], "height": row["height"]}, label)
    right = [
        model.predict_one({"town": t, "height": h}) == label
        for t, h, label in zip(frame["town"], frame["height"], y, strict=True)
    ]
    assert np.mean(right) > 0.8
    assert model.predict_one({"height": 2.0}) in ("yes", "no")
    assert model.predict_one({"town": "Graz", "height": None}) in ("yes", "no")


def test_gaps_of_a_stream_of_numbers_still_say_nothing():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(60, 2))
    X[::5, 1] = np.nan
    of_array = KernelRegressor().partial_fit(X, X[:, 0])
    of_frame = KernelRegressor().partial_fit(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}), X[:, 0])
    assert of_frame.preprocessor_ is None
    assert np.array_equal(of_frame.learner_.evaluate(X), of_array.learner_.evaluate(X))


# -- around the estimators -------------------------------------------------------------------------


def test_scikit_learn_takes_frames_through():
    frame, y = mixed()
    model = classifier()
    assert cross_val_score(model, frame, y, cv=3).mean() > 0.85
    assert cross_val_predict(
        model, pl.from_pandas(frame), y, cv=3, method="predict_proba"
    ).shape == (
        N,
        2,
    )
    search = GridSearchCV(
        model, {"categorical_features": ["from_dtype", ["rooms"]]}, cv=2, error_score="raise"
    ).fit(frame, y)
    assert search.best_estimator_.preprocessor_ is not None
    transformer = make_column_transformer(
        (StandardScaler(), ["height"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(transformer, classifier()).fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["height", "town", "rooms"]
    assert pipeline.score(frame, y) > 0.9


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_commands_take_files_of_models_of_tables(ending, tmp_path, capsys):
    frame, y = mixed()
    frame = frame.assign(when=dated()[0]["when"].astype("datetime64[us]"), never=np.nan)
    with pytest.warns(UserWarning, match="'never'"):
        model = KernelClassifier(random_state=0).fit(frame, y)
    path, data = tmp_path / "model", tmp_path / f"rows.{ending}"
    model.save(path)
    table = pa.Table.from_pandas(frame.assign(y=y, further=1))
    (csv.write_csv if ending == "csv" else parquet.write_table)(table, data)
    assert run("predict", path, data, "--out", tmp_path / "answers.parquet") == 0
    answers = parquet.read_table(tmp_path / "answers.parquet").to_pydict()
    assert answers["prediction"] == model.predict(frame).tolist()
    assert np.allclose(answers["probability_yes"], model.predict_proba(frame)[:, 1])
    assert run("evaluate", path, data, "--target", "y") == 0
    error = 100.0 * (1.0 - model.score(frame, y))
    assert f"error_percent {error:.6g}\n" in capsys.readouterr().out
    (spread,) = predict(model, [str(data)], engine="here")
    assert np.array_equal(spread, model.predict(frame))
    assert [len(one) for one in predict(model, [frame, frame[:0]], engine="here")] == [N, 0]


def test_commands_take_files_of_models_of_frames_of_numbers(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5, 1, 120), "b": rng.normal(size=120)})
    model = regressor().fit(frame, frame["a"] * frame["b"])
    model.save(tmp_path / "m")
    frame["y"] = frame["a"] * frame["b"]
    frame[["b", "y", "a"]].to_csv(tmp_path / "rows.csv", index=False)
    words = [str(tmp_path / "m"), str(tmp_path / "rows.csv")]
    assert run("predict", *words, "--out", str(tmp_path / "p.csv")) == 0
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, model.predict(frame[["a", "b"]]), rtol=1e-9)
    capsys.readouterr()
    assert run("evaluate", *words, "--target", "y", "--json") == 0
    r2 = json.loads(capsys.readouterr().out)["r2"]
    assert r2 == pytest.approx(model.score(frame[["a", "b"]], frame["y"]))
    frame.loc[0, "a"] = np.nan  # becomes the mean
    frame[["a", "b"]].to_csv(tmp_path / "rows.csv", index=False)
    assert run("predict", *words, "--out", str(tmp_path / "p.csv")) == 0
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, model.predict(frame[["a", "b"]]), rtol=1e-9)


def test_commands_say_that_streams_of_text_are_for_python(tmp_path, capsys):
    frame, y = mixed()
    model = KernelClassifier(random_state=0).partial_fit(frame[:50], y[:50])
    model.save(tmp_path / "model")
    frame.to_parquet(tmp_path / "rows.parquet")
    assert (
        run("predict", tmp_path / "model", tmp_path / "rows.parquet", "--out", tmp_path / "p.csv")
        == 2
    )
    assert "Predict by `mercer stream --predict-only`, or in Python" in capsys.readouterr().err
    with pytest.raises(ExportError, match=r"dates as a stream\. Exported files know"):
        export_python(model, tmp_path / "model.py")
    (spread,) = predict(model, [frame], engine="here")
    assert np.array_equal(spread, model.predict(frame))


def test_tags_say_what_is_taken():
    tags = KernelClassifier().__sklearn_tags__().input_tags
    assert (tags.allow_nan, tags.categorical, tags.string, tags.sparse) == (True,) * 4
    assert not KernelRanker().__sklearn_tags__().input_tags.allow_nan


def test_columns_help_by_what_dropping_them_costs():
    frame, y = mixed(400, seed=11)
    model = KernelClassifier(random_state=0)
    whole = cross_val_score(model, frame, y, cv=3).mean()
    numbers = cross_val_score(model, frame[["rooms"]], y, cv=3).mean()
    filled = cross_val_score(model, frame[["height", "rooms"]].fillna(0.0), y, cv=3).mean()
    assert whole > max(numbers, filled) + 0.1
    trees = HistGradientBoostingClassifier(random_state=0)
    assert whole > cross_val_score(trees, frame.astype({"town": "category"}), y, cv=3).mean() - 0.02


def test_models_of_tables_learn_the_same():
    frame, y = mixed()
    model = classifier().fit(frame, y)
    rows = TableRows(
        classifier(),
        TablePreprocessor(exclude=("y",), scaling="none"),
        "y",
    ).partial_fit(frame.assign(y=y))
    twin = classifier().partial_fit(frame, y)
    assert np.array_equal(rows.inputs(frame), model.preprocessor_.transform(frame))
    assert np.array_equal(rows.model.predict(frame), twin.predict(frame))


CELLS = st.one_of(
    st.none(),
    st.sampled_from(["a", "b", "c", "Ärger", "1", "nan", "tensor"]),
)
NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5))
MOMENTS = st.one_of(
    st.none(), st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2050, 1, 1))
)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.InputScaleWarning")
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_frame_is_learned_and_kept(data, tmp_path_factory):
    n = data.draw(st.integers(8, 30))
    kinds = data.draw(st.lists(st.sampled_from([CELLS, NUMBERS, MOMENTS]), min_size=1, max_size=4))
    cells = {
        f"c{i}": pd.Series(data.draw(st.lists(kind, min_size=n, max_size=n)), dtype=object)
        for i, kind in enumerate(kinds)
    }
    frame = pd.DataFrame(
        {**cells, "sure": np.arange(n) % 3 == 0, "text": ["u", "v"] * (n // 2) + ["u"] * (n % 2)}
    )
    empty = [name for name in frame if frame[name].isna().all()]
    frame = frame.drop(columns=empty)
    y = np.arange(n) % 2
    model = classifier().fit(frame, y)
    answers = model.decision_function(frame)
    assert np.isfinite(answers).all()
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    assert np.allclose(model.decision_function(frame.iloc[rows]), answers[rows], atol=1e-6)
    path = tmp_path_factory.mktemp("any") / "model"
    model.save(path)
    assert np.array_equal(load_model(path).decision_function(frame), answers)
