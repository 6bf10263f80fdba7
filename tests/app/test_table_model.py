"""Estimators that learn tables: units of the target, labels of all kinds, checks, files."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from mercer import (
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    load_model,
)
from mercer.buffers import FIFO
from mercer.columns import TablePreprocessor
from mercer.expansions import KOMP
from mercer.inspection import unit_of_target
from mercer.kernels import Gaussian
from mercer.losses import Quantile
from mercer.model_file import read_state, write_state
from mercer_app.rows import TableRows

pytestmark = pytest.mark.usefixtures("quickest_race")


def classifier(**options):
    estimator = KernelClassifier(random_state=0, **options)
    return TableRows(estimator, TablePreprocessor(exclude=("y",)), "y")


def regressor(**options):
    estimator = KernelRegressor(random_state=0, **options)
    return TableRows(estimator, TablePreprocessor(exclude=("y",)), "y")


STEPS = {"kernel": "gaussian", "expansion": KOMP(max_size=50)}


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    town = np.where(rng.random(n) < 0.5, "Bern", "Bonn")
    return {"x": x, "town": town, "y": x + (town == "Bern") > 0.5}


LABELS = {
    "integers": (np.array([3, 7]), np.int64),
    "bytes": (np.array([0, 1], np.uint8), np.int64),
    "whole floats": (np.array([-1.0, 1.0]), np.int64),
    "text": (np.array(["ham", "spam"]), np.str_),
    "booleans": (np.array([False, True]), np.bool_),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_come_back_as_they_were_given(kind, tmp_path):
    values, dtype = LABELS[kind]
    rows = table()
    rows["y"] = values[rows["y"].astype(int)]
    model = classifier().partial_fit(rows).model
    predicted = model.predict({name: rows[name] for name in ("x", "town")})
    assert np.issubdtype(predicted.dtype, dtype)
    assert_array_equal(model.classes_, values)
    assert np.mean(predicted == rows["y"]) > 0.9
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert_array_equal(again.predict(rows), predicted)
    assert again.classes_.dtype == model.classes_.dtype


def test_arrow_tables_and_dicts_give_the_same_model():
    rows = table()
    a, b = (classifier().partial_fit(each).model for each in (rows, pa.table(rows)))
    assert_array_equal(a.decision_function(rows), b.decision_function(pa.table(rows)))


def test_regression_does_not_depend_on_the_units_of_the_target():
    rows = table()
    rows["y"] = np.sin(rows["x"])
    shifted = {**rows, "y": 1e6 + 3000.0 * rows["y"]}
    small = regressor(n_passes=1).partial_fit(rows).model.predict(rows)
    large = regressor(n_passes=1).partial_fit(shifted).model.predict(rows)
    # 1e6 + 3000 y keeps 1e-13 of y, which the condition of the solution, up to 1e9, enlarges.
    assert_allclose((large - 1e6) / 3000.0, small, atol=1e-4)


def test_the_target_is_standardised_by_the_first_rows_that_are_learned():
    rows = table()
    rows["y"] = 5.0 + 2.0 * rows["x"] ** 2
    assert unit_of_target(regressor().partial_fit(rows).model) is None  # the estimator finds it
    learning = regressor(**STEPS, normalize_y=True).warm_up(rows)
    large = {**rows, "y": rows["y"] * 100.0}
    for _ in range(2):  # later ones change nothing
        mean, deviation = unit_of_target(learning.partial_fit(large).model)
        assert mean == pytest.approx(100.0 * rows["y"].mean())
        assert deviation == pytest.approx(100.0 * rows["y"].std())
        large["y"] = rows["y"]


def test_counts_are_learned_as_they_are_with_the_poisson_loss():
    rows = table()
    rows["y"] = np.random.default_rng(1).poisson(np.exp(rows["x"] / 2))
    model = regressor(loss="poisson").partial_fit(rows).model
    assert unit_of_target(model) is None
    assert (model.predict(rows) > 0).all()


def test_a_constant_target_is_predicted():
    rows = table()
    rows["y"] = np.full(len(rows["x"]), 4.0)
    assert_allclose(regressor().partial_fit(rows).model.predict(rows), 4.0)


def test_quantiles_are_columns_in_units_of_the_target():
    rows = table(1000)
    rows["y"] = 100.0 + 10.0 * np.random.default_rng(2).standard_normal(1000)
    model = regressor(loss=Quantile([0.1, 0.9])).partial_fit(rows).model
    low, high = model.predict(rows).mean(axis=0)
    # The normal quantiles are 100 -+ 12.8; learning from 1,000 noisy rows comes near them, with a
    # kernel from a race on 75 of them.
    assert low == pytest.approx(87.2, abs=5.0)
    assert high == pytest.approx(112.8, abs=5.0)


def test_many_inputs_are_encoded_in_single_precision():
    rng = np.random.default_rng(0)
    wide = {f"x{i}": rng.standard_normal(50) for i in range(64)} | {"y": rng.random(50) > 0.5}
    columns = TablePreprocessor(exclude=("y",), dtype="auto")
    assert columns.fit(wide).transform(wide).dtype == np.float32
    narrow = {name: wide[name] for name in ("x0", "x1", "y")}
    assert columns.fit(narrow).transform(narrow).dtype == np.float64


def test_pieces_of_whole_mini_batches_equal_one_table():
    rows = table(640)
    # Automatic numbers come from the first rows a model is given, so they are fixed here.
    fixed = {"kernel": Gaussian(length_scale=0.5), "step_size": 2.0}
    whole = classifier(**fixed).warm_up(rows).partial_fit(rows)
    parts = classifier(**fixed).warm_up(rows)
    for start in range(0, 640, 160):
        parts.partial_fit({name: values[start : start + 160] for name, values in rows.items()})
    assert_array_equal(parts.model.decision_function(rows), whole.model.decision_function(rows))


def test_learning_goes_on_bit_for_bit_after_loading(tmp_path):
    first, second = table(seed=0), table(seed=1)
    model = classifier().partial_fit(first).model
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for each in (model, again):
        each.partial_fit(second, second["y"])
    model.save(tmp_path / "a")
    again.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert model.model_order_ == again.model_order_
    assert model.history_.n_samples[-1] == 800


def test_columns_may_have_any_names(tmp_path):
    rows = table()
    odd = {"tensor": rows["town"], "params/ü": rows["x"], "y": rows["y"]}
    model = classifier().partial_fit(odd).model
    model.save(tmp_path / "m")
    assert_array_equal(load_model(tmp_path / "m").predict(odd), model.predict(odd))


def test_probabilities_exist_where_the_loss_has_them():
    rows = table()
    p = classifier().partial_fit(rows).model.predict_proba(rows)
    assert_allclose(p.sum(axis=1), 1.0)
    with pytest.raises(AttributeError, match="predict_proba"):
        classifier(loss="hinge").partial_fit(rows).model.predict_proba(rows)


MISTAKES = {
    "missing labels": ({"y": ["a", None, "b", None]}, classifier, "no value in 2 of 4 rows"),
    "missing numbers": ({"y": [1.0, np.nan, 2.0, 3.0]}, regressor, "no value in 1 of 4 rows"),
    "text for a regression": ({"y": ["a", "b", "a", "b"]}, regressor, "first 'a'"),
    "quantities for classes": ({"y": [0.5, 1.0, 2.0, 0.5]}, classifier, "holds 0.5"),
    "infinite target": ({"y": [1.0, np.inf, 2.0, 3.0]}, regressor, "holds inf in row 1"),
    "no target": ({}, classifier, "no column 'y'"),
    "all missing": ({"y": [0, 1, 0, 1], "x": [np.nan] * 4}, classifier, "No column varies"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_unusable_tables_are_refused_with_the_reason(mistake):
    columns, make, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=re.escape(message)):
        make().partial_fit({"x": [1.0, 2.0, 3.0, 4.0], **columns})


def test_a_failed_table_leaves_the_model_as_it_was():
    rows = table()
    learning = classifier().partial_fit(rows)
    before = learning.model.decision_function(rows)
    with pytest.raises(ValueError, match="no value"):
        learning.partial_fit({**rows, "y": [None] * len(rows["x"])})
    assert_array_equal(learning.model.decision_function(rows), before)


def test_a_failed_warm_up_leaves_the_model_as_it_was():
    learning = regressor()
    y = np.arange(40.0)
    amounts = [f"${value:,.0f}" for value in y]
    with pytest.raises(ValueError, match="No column varies"):
        learning.partial_fit({"same": np.ones(40), "y": amounts})
    with pytest.raises(ValueError, match="inf"):
        learning.warm_up([{"z": y, "y": y}, {"z": np.where(y > 30, np.inf, y), "y": y}])
    assert learning.target_form is None
    assert learning.preprocessor.n_samples_seen_ == 0
    learning.partial_fit({"x": np.sin(y), "y": y})
    assert learning.preprocessor.columns_in_ == ["x"]


def test_new_columns_are_an_error():
    rows = table()
    model = classifier().partial_fit(rows).model
    more = {**rows, "colour": rows["town"]}
    with pytest.raises(ValueError, match="not seen in training: 'colour'"):
        model.predict(more)
    with pytest.raises(ValueError, match="not seen in training: 'colour'"):
        model.partial_fit(more, rows["y"])
    known = {name: more[name] for name in ("town", "x")}
    assert_array_equal(model.predict(known), model.predict(rows))


def test_the_target_must_be_kept_from_the_inputs():
    with pytest.raises(ValueError, match="give the answer away"):
        TableRows(KernelClassifier(), TablePreprocessor(), "y")


def test_parts_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match="`estimator` must be one of"):
        TableRows(TablePreprocessor(), TablePreprocessor(exclude=("y",)), "y")
    with pytest.raises(ValueError, match="must be a TablePreprocessor"):
        TableRows(KernelClassifier(), None, "y")


def test_nothing_is_learned_before_the_warm_up_and_there_is_only_one():
    with pytest.raises(NotFittedError, match="warm_up"):
        classifier().learn(np.zeros((1, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="warm-up is over"):
        classifier().warm_up(table()).warm_up(table())


def _other_kind(state):
    state["kind"] = "KernelRegressor"


def _other_columns(state):
    state["model"]["columns"]["table"] = json.dumps(
        TablePreprocessor(exclude=("y",)).fit({"a": [1.0, 2.0], "y": [0, 1]}).to_state()
    )


def _no_preprocessor(state):
    state["model"]["columns"]["table"] = "{}"


def _text_for_roles(state):
    state["model"]["roles"] = '{"target": 3}'


def _target_among_the_inputs(state):
    state["model"]["roles"] = state["model"]["roles"].replace('"y"', '"x"')


SPOILT = [_other_kind, _other_columns, _no_preprocessor, _text_for_roles, _target_among_the_inputs]


@pytest.mark.parametrize("spoil", SPOILT)
def test_files_whose_parts_do_not_fit_together_are_refused(spoil, tmp_path):
    classifier().partial_fit(table()).model.save(tmp_path / "m")
    state = read_state(tmp_path / "m")
    spoil(state)
    write_state(tmp_path / "m", state)
    with pytest.raises(ValueError, match="not a valid mercer model"):
        load_model(tmp_path / "m")


def _no_width(state):
    state["model"]["targets"]["scale"] = np.zeros(1)


def _no_form(state):
    state["model"]["target_form"] = {"kind": "amount"}


@pytest.mark.parametrize("spoil", [_no_width, _no_form])
def test_files_whose_targets_are_in_no_unit_are_refused(spoil, tmp_path):
    rows = table()
    rows["y"] = [f"${value:.2f}" for value in rows["x"] ** 2]
    regressor(**STEPS, normalize_y=True).partial_fit(rows).model.save(tmp_path / "m")
    state = read_state(tmp_path / "m")
    spoil(state)
    write_state(tmp_path / "m", state)
    with pytest.raises(ValueError, match="not a valid mercer model"):
        load_model(tmp_path / "m")


# -- what a model that learned tables takes --------------------------------------------------------


def learned(estimator, target="y", **columns):
    rows = TableRows(estimator, TablePreprocessor(exclude=("note", "y", "z"), **columns), target)
    return rows.partial_fit(noted()).finish().model


def noted(n=200):
    rows = table(n)
    z = np.sin(rows["x"]) + 2.0 * (rows["town"] == "Bern")
    return {**rows, "note": [f"n{i}" for i in range(n)], "z": z}


ESTIMATORS = {
    "classifier": lambda: learned(KernelClassifier(random_state=0)),
    "regressor": lambda: learned(KernelRegressor(random_state=0), "z"),
    "steps": lambda: learned(KernelRegressor(**STEPS, normalize_y=True, random_state=0), "z"),
    "ranker": lambda: learned(KernelRanker(**STEPS, buffer=FIFO(20), random_state=0), "z"),
    "novelty": lambda: learned(NoveltyDetector(random_state=0), None),
    "process": lambda: learned(
        GaussianProcessRegressor(normalize_y=True, n_features=60, random_state=0), "z"
    ),
}


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_tables_of_any_kind_and_order_are_answered_for(make, tmp_path):
    model, rows = make(), noted()
    assert model.feature_names_in_.tolist() == ["x", "town"]
    assert (model.n_features_in_, model.n_inputs_) == (2, model.preprocessor_.n_features_out_)
    expected = model.predict({"x": rows["x"], "town": rows["town"]})
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.roles_ == model.roles_
    names = ["town", "note", "y", "x", "z"]
    for one in (model, again):
        for some in (names, names[::-1], ["x", "town"], ["town", "z", "x"]):
            columns = {name: rows[name] for name in some}
            for kind in (dict, pd.DataFrame, pa.table):
                assert_array_equal(one.predict(kind(columns)), expected)
        with pytest.raises(ValueError, match="no column 'town'"):
            one.predict({"x": rows["x"]})
        with pytest.raises(ValueError, match="not seen in training: 'colour'"):
            one.predict({**rows, "colour": rows["town"]})


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_cells_that_cannot_be_are_gaps_where_answers_are_asked_for(make):
    model, rows = make(), noted(20)
    x = [*map(str, rows["x"][:19]), "much"]
    gap = {"x": [*rows["x"][:19], None], "town": rows["town"]}
    with pytest.warns(UserWarning, match="'x' has 1 cell that cannot be read as a number.*'much'"):
        answers = model.predict({"x": x, "town": rows["town"]})
    assert_array_equal(answers, model.predict(gap))
    with pytest.raises(ValueError, match="'x' held numbers"):
        model.predict({"x": ["much"] * 20, "town": rows["town"]})


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "novelty"])
def test_learning_goes_on_with_tables(name, tmp_path):
    model, rows = ESTIMATORS[name](), noted(80)
    model.save(tmp_path / "m")
    target = rows["y" if name == "classifier" else "z"]
    seen = model.n_samples_seen_
    for one in (model, again := load_model(tmp_path / "m")):
        before = one.predict(rows)
        with pytest.raises(ValueError, match="'x'"):
            one.partial_fit({**rows, "x": ["much", *rows["x"][1:]]}, target)
        with pytest.raises(ValueError, match="inconsistent"):
            one.partial_fit(rows, target[:3])
        assert_array_equal(one.predict(rows), before)
        one.partial_fit(pd.DataFrame(rows)[["town", "x", "y"]], target)
        assert one.n_samples_seen_ == seen + 80
        assert one.roles_ is not None
    assert_array_equal(again.predict(rows), model.predict(rows))
    frame = pd.DataFrame({"b": rows["x"]})
    model.fit(frame, target)  # begins anew
    assert model.roles_ is None
    assert model.feature_names_in_.tolist() == ["b"]


def test_what_a_file_holds_of_tables(tmp_path):
    learned(KernelRegressor(**STEPS, normalize_y=True), "z").save(tmp_path / "m")
    state = read_state(tmp_path / "m")
    assert state["kind"] == "KernelRegressor"
    roles = json.loads(state["model"]["roles"])
    assert roles == {"target": "z", "group": None, "time": None, "leaks": {}}
    assert list(state["model"]["columns"]) == ["table"]
    assert "target_form" not in state["model"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_arrays_have_the_columns_in_their_order():
    model, rows = ESTIMATORS["regressor"](), noted(30)
    cells = np.array([rows["x"], rows["town"]], dtype=object).T
    assert_array_equal(model.predict(cells), model.predict(rows))
    with pytest.raises(ValueError, match="has 3 features"):
        model.predict(np.zeros((4, 3)))  # inputs are not what it takes
