"""Numbers that are codes, such as those of shops: each is a category, too."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor

from command_line import run
from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.columns import TablePreprocessor
from mercer.columns.readings import Readings
from mercer.columns.target_means import are_codes, codes_among
from mercer.columns.views import view_table
from mercer_app.rows import TableRows


def shops(n, seed=0, n_shops=60):
    """Rows of shops with an effect each, and the function without noise."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(99).normal(size=n_shops)
    shop = rng.integers(n_shops, size=n)
    X = np.column_stack([1000.0 + shop, rng.normal(size=(n, 5))])
    f = effects[shop] + np.sin(2 * X[:, 1])
    return X, f + 0.3 * rng.normal(size=n), f


@given(
    seed=st.integers(0, 10_000),
    n_levels=st.integers(50, 300),
    each=st.integers(3, 40),
    noise=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    shape=st.sampled_from(["line", "wave", "step", "none", "walk"]),
)
def test_numbers_whose_order_matters_are_no_codes(seed, n_levels, each, noise, shape):
    rng = np.random.default_rng(seed)
    x = rng.integers(n_levels, size=n_levels * each)
    t = x / n_levels
    f = {
        "line": t,
        "wave": np.sin(6 * t),
        "step": (t > 0.5).astype(float),
        "none": 0 * t,
        "walk": rng.normal(size=n_levels).cumsum()[x],  # as the days of a series
    }[shape]
    assert not are_codes(x.astype(float), (f + noise * rng.normal(size=len(x)))[:, None])


@given(
    seed=st.integers(0, 10_000),
    n_levels=st.integers(60, 300),
    each=st.integers(25, 40),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_codes_are_found_beside_noise_and_gaps(seed, n_levels, each, noise):
    rng = np.random.default_rng(seed)
    x = np.repeat(np.arange(n_levels), each)
    y = rng.normal(size=n_levels)[x] + noise * rng.normal(size=len(x))
    x = np.where(rng.uniform(size=len(x)) < 0.05, np.nan, x)
    order = rng.permutation(len(x))
    assert are_codes(x[order], y[order, None])


@given(seed=st.integers(0, 10_000), zeros=st.sampled_from([0.3, 0.6, 0.8, 0.95]))
def test_many_quiet_zeros_make_no_codes(seed, zeros):
    rng = np.random.default_rng(seed)
    x = np.where(rng.uniform(size=3000) < zeros, 0.0, rng.integers(1, 200, size=3000))
    y = np.where(x == 0.0, 0.0, rng.normal(size=3000))
    assert not are_codes(x, y[:, None])


@pytest.mark.parametrize("n", [1200, 30_000, 60_000])
def test_codes_are_found_in_files_that_visit_them_in_turn(n):
    x = np.arange(n) % 60.0
    rng = np.random.default_rng(0)
    columns = {"x": x, "z": rng.normal(size=n)}
    y = rng.normal(size=60)[x.astype(int)] + 0.3 * rng.normal(size=n)
    assert codes_among(columns, lambda: columns, y) == {"x"}


@pytest.mark.parametrize("what", ["attributes", "patients", "two", "alone", "fractions"])
def test_numbers_of_which_other_columns_say_the_same_are_no_codes(what):
    X, y, _ = shops(3000)
    rng = np.random.default_rng(0)
    shop = X[:, 0]
    columns = {"shop": shop, "z": X[:, 1]}
    numbers = {"shop": shop}
    if what == "attributes":  # which new shops have as well
        columns["size"] = rng.normal(size=60)[(shop - 1000.0).astype(int)]
    elif what == "patients":  # of whom few have each weight
        columns |= {"weight": np.floor((shop - 1000.0) * 0.9)}
        numbers = {"weight": columns["weight"]}
    elif what == "two":  # attributes that tell patients together
        ages, weights = rng.integers(20, 90, size=100), rng.integers(40, 110, size=100)
        who = rng.integers(100, size=3000)
        columns = {"age": ages[who], "weight": weights[who], "z": X[:, 1]}
        numbers, y = columns, rng.normal(size=100)[who] + 0.3 * rng.normal(size=3000)
        assert are_codes(columns["age"].astype(float), y[:, None])
    elif what == "alone":  # so that all rows of a code are in one fold
        columns = numbers
    else:
        numbers = {"shop": shop + 0.5}
        columns |= numbers
    assert codes_among(numbers, lambda: columns, y) == set()


def test_few_levels_few_rows_and_many_columns_are_not_looked_at():
    X, y, _ = shops(2000)
    assert KernelRegressor(random_state=0).fit(X, y).preprocessor_ is not None
    few = np.c_[X[:, 0] % 40, X[:, 1:]]
    assert KernelRegressor(random_state=0).fit(few, y).preprocessor_ is None
    assert KernelRegressor(random_state=0).fit(X[:150], y[:150]).preprocessor_ is None
    wide = view_table({"shop": X[:, 0]} | {f"c{i}": X[:, 1] for i in range(256)})
    how = {"kinds": {}, "include": (), "keep": True, "min_count": 1, "codes": None, "y": y}
    found = Readings.of(wide, wide.names, **how)
    assert not any(one.coded for one in found)
    found = Readings.of(wide, wide.names[:200], **how)
    assert [one.name for one in found if one.coded] == ["shop"]


@pytest.mark.parametrize("expansion", ["auto", "dictionary"])
def test_effects_of_codes_are_learned_from_few_rows_of_each(expansion):
    X, y, _ = shops(3000, n_shops=300)
    X_test, _, f = shops(3000, seed=1, n_shops=300)

    def error(model):
        return np.mean((model.fit(X, y).predict(X_test) - f) ** 2) / f.var()

    # The mean of ten rows has a variance of (.3^2 + .5) / 10, .06, as the wave varies by .5.
    assert error(KernelRegressor(expansion=expansion, random_state=0)) < 0.09
    without = KernelRegressor(expansion=expansion, categorical_features=None, random_state=0)
    assert error(without) > 0.3
    assert error(HistGradientBoostingRegressor(random_state=0)) > 0.3


def test_classes_have_codes_too():
    X, _, f = shops(2000)
    X_test, _, f_test = shops(2000, seed=1)
    labels = np.array(["low", "middle", "high"])
    model = KernelClassifier(random_state=0).fit(X, labels[np.digitize(f, [-0.7, 0.7])])
    names = model.preprocessor_.feature_names_out()
    assert [n for n in names if "mean" in n] == [
        f"x0:code:mean={label}" for label in sorted(labels)
    ]
    assert np.mean(model.predict(X_test) != labels[np.digitize(f_test, [-0.7, 0.7])]) < 0.08


def test_a_number_is_no_code_where_a_kernel_or_the_user_says_so():
    X, y, _ = shops(2000)
    gap = X.copy()
    gap[0, 1] = np.nan
    plain = [
        {"kernel": "gaussian"},
        {"categorical_features": None},
        {"categorical_features": [False] * 6},
        {"expansion": "komp"},
    ]
    for how in plain:
        assert KernelRegressor(**how, random_state=0).fit(X, y).preprocessor_ is None
        seen = KernelRegressor(**how, random_state=0).fit(gap, y).preprocessor_
        assert not any(":code" in name for name in seen.feature_names_out())
    for held in ({"groups": X[:, 0]}, {"time": np.arange(2000)}):
        assert KernelRegressor(random_state=0).fit(X, y, **held).preprocessor_ is None
    table = {"shop": X[:, 0], "z": X[:, 1]}
    for how in ({"kinds": {"shop": "number"}}, {"codes": ()}):
        assert TablePreprocessor(**how).fit(table, y).feature_names_out() == ["shop", "z"]
    named = TablePreprocessor(codes=("shop",)).fit({"shop": X[:, 0]}, y)
    assert "shop:code:mean" in named.feature_names_out()
    with pytest.raises(ValueError, match="`codes` names a column, but the table"):
        TablePreprocessor(codes=("store",)).fit(table, y)


def test_other_columns_of_an_array_stay_numbers():
    X, y, _ = shops(2000)
    X[:, 2] = np.where(X[:, 2] > 2.0, -9999.0, X[:, 2])  # a gap of a table
    X[:, 0] = 20_240_101 + X[:, 0] - 1000  # days of a table, in part
    model = KernelRegressor(random_state=0).fit(X, y)
    names = model.preprocessor_.feature_names_out()
    assert [name for name in names if ":code" not in name] == [f"x{i}" for i in range(6)]
    table = {f"x{i}": X[:, i] for i in range(6)}
    assert model.preprocessor_.transform(table, extra="drop").min() < -9998.0


def test_codes_have_the_same_effects_in_single_precision():
    X, y, _ = shops(2000)
    model = KernelRegressor(random_state=0).fit(X, y)
    differ = model.predict(X[:50].astype(np.float32)) - model.predict(X[:50])
    assert np.abs(differ).max() < 1e-4


def test_other_columns_keep_the_name_of_the_part():
    X, y, _ = shops(2000)
    table = {"shop": X[:, 0], "shop:code": X[:, 1]}
    made = TablePreprocessor().fit(table, y)
    assert made.feature_names_out() == ["shop", "shop:code"]
    assert made.audit_[0].becomes == "number"


def test_flags_and_steps_hide_no_codes():
    X, y, _ = shops(2000)
    rng = np.random.default_rng(0)
    X[:, 1] = rng.uniform(size=2000) < 0.02  # nearly constant
    frame = pd.DataFrame(X, columns=["shop", *"abcde"]).assign(flag=rng.uniform(size=2000) < 0.3)
    model = KernelRegressor(random_state=0).fit(frame, y)
    names = model.preprocessor_.feature_names_out()
    assert "shop:code:mean" in names
    assert "flag" in names or "flag=true" in names


def test_tables_have_codes_where_frames_have(tmp_path):
    X, y, _ = shops(2000)
    table = dict(zip(["shop", *"abcde"], X.T, strict=True)) | {"y": y, "when": np.arange(2000)}
    cases = [
        ({}, {}, True),
        ({"kernel": "gaussian"}, {}, False),
        ({"expansion": "komp"}, {}, False),
        ({"categorical_features": None}, {}, False),
        ({}, {"time": "when"}, False),
        ({}, {"group": "shop"}, False),
    ]
    for how, roles, coded in cases:
        columns = TablePreprocessor(exclude=("y", *roles.values()))
        rows = TableRows(KernelRegressor(random_state=0, **how), columns, "y", **roles)
        names = rows.preprocessor.fit(table, y).feature_names_out()
        assert any(":code" in name for name in names) == coded
        assert columns.codes == "auto"


@pytest.mark.parametrize("codes", [None, 3, True, {"shop"}, "shop", ["shop", 1]])
def test_codes_must_be_names(codes):
    with pytest.raises(ValueError, match="`codes` must be"):
        TablePreprocessor(codes=codes)


def test_unknown_codes_and_gaps_get_the_mean():
    X, y, _ = shops(2000)
    made = TablePreprocessor(scaling="none").fit({"shop": X[:, 0], "z": X[:, 1]}, y)
    assert made.feature_names_out()[:2] == ["shop", "shop:code:mean"]
    rows = {"shop": np.array([1000.0, 5.0, np.nan]), "z": np.zeros(3)}
    inputs = made.transform(rows, extra="drop")
    assert inputs[0, 1] != 0.0
    assert inputs[1:, 1].tolist() == [0.0, 0.0]
    filled = made.fillings()
    assert [*filled] == ["shop", "z"]
    assert filled["shop"].startswith("the mean, 10")


def test_files_are_learned_as_frames_are(tmp_path):
    X, y, _ = shops(2000)
    X_test, y_test, _ = shops(1000, seed=1)
    for name, rows, targets in (("train", X, y), ("test", X_test, y_test)):
        frame = pd.DataFrame(rows.round(4), columns=["shop", *"abcde"]).astype({"shop": int})
        frame.assign(kind=np.where(rows[:, 1] > 0, "u", "v"), y=targets.round(4)).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    where = ["--out", tmp_path / "m.mercer", "--quiet"]
    assert run("fit", tmp_path / "train.csv", "--target", "y", *where) == 0
    model = load_model(tmp_path / "m.mercer")
    assert "shop:code:mean" in model.preprocessor_.feature_names_out()
    found = model.predict(pd.read_csv(tmp_path / "test.csv").drop(columns="y"))
    assert np.mean((found - y_test) ** 2) < 0.15  # .09 is noise


def test_shards_of_tables_are_encoded_once():
    from mercer_cluster import fit

    X, y, _ = shops(1000)
    shard = dict(zip(["shop", *"abcde", "y"], [*X.T, y], strict=True))
    columns = TablePreprocessor(codes=(), scaling="none")
    model = fit(
        KernelRegressor(random_state=0), [shard], target="y", columns=columns, engine="here"
    )
    parts = [part for _, part in model.learner_.current_function().used]
    assert {part.dictionary.shape[1] for part in parts if hasattr(part, "kernel")} >= {6}
    assert model.score(shard, y) > 0.5


def test_a_model_with_codes_is_kept_exported_and_explained(tmp_path):
    from mercer_app.export import export_python

    X, y, _ = shops(1000)
    X = pd.DataFrame(X, columns=["shop", *"abcde"])
    model = KernelRegressor(random_state=0).fit(X, y)
    model.save(tmp_path / "m.mercer")
    again = load_model(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(X[:50]), model.predict(X[:50]))
    space = {}
    export_python(model, tmp_path / "m.py")
    exec((tmp_path / "m.py").read_text(), space)
    odd = pd.concat([X[:50], X[:2].assign(shop=[5.0, np.nan])])
    np.testing.assert_allclose(space["predict"](odd), model.predict(odd), rtol=0, atol=1e-4)
    # The first column alone has the effects of shops, whichever inputs are made of it.
    shares = model.feature_importances_
    assert shares.shape == (6,)
    assert shares[0] > 0.4
    curve = model.partial_dependence("shop")
    assert set(curve.grid) <= set(X.shop)  # no shops in between
    assert np.ptp(curve.values) > 1.0
