"""Labels of several kinds, NaN and infinity: messages that say where they are and what to do."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.columns.views import says_nothing
from mercer.expansions import KOMP

N = 40
BEYOND = 10**400  # an integer that no float holds
X = np.random.default_rng(0).normal(size=(N, 3))
SIGN = X[:, 0] > 0.0  # True in row 0, False in row 3 first
STEPS = {"kernel": "gaussian", "expansion": KOMP(max_size=10), "random_state": 0}


def either(a, b):
    return [a if sign else b for sign in SIGN]


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "objects": objects,
    "series": lambda cells: pd.Series(cells, dtype=object),
    "category": lambda cells: pd.Series(cells, dtype="category"),
    "frame": lambda cells: pd.DataFrame({"target": pd.Series(cells, dtype=object)}),
    "polars": lambda cells: pl.Series(cells, dtype=pl.Object),
}


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRanker])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("a", 1, ("text", "numbers")),
        (np.str_("a"), 2.0, ("text", "numbers")),
        (True, 2, ("truth values", "numbers")),
        (False, "no", ("truth values", "text")),
    ],
)
def test_labels_of_two_kinds_are_told_whatever_comes_first(
    kind, container, turned, one, other, said
):
    y = either(other, one) if turned else either(one, other)
    with pytest.raises(ValueError, match="y mixes kinds of labels") as caught:
        kind(**STEPS).fit(X, CONTAINERS[container](y))
    for label, what in zip((one, other), said, strict=True):
        rows = [row for row, cell in enumerate(y) if cell is label]
        first = f"{label!s}" if not isinstance(label, str) else f"'{label}'"
        assert f"{what} in {len(rows)} of {N} rows, first {first} in row {rows[0]}" in str(
            caught.value
        )
    assert "str(label)" in str(caught.value)


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRanker])
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (either(b"a", b"b"), r"bytes in 40 of 40 rows, first b'a' in row 0.*label\.decode\(\)"),
        (np.array(either(b"a", b"b")), r"bytes in 40 of 40 rows.*label\.decode\(\)"),
        (either((1, 2), (3, 4)), r"tuple in 40 of 40 rows, first \(1, 2\) in row 0"),
        (either(Decimal(1), Decimal(2)), r"Decimal in 40 of 40 rows, first Decimal\('1'\)"),
        (either(datetime.date(2020, 1, 1), "a"), r"date in .*; text in "),
        (pd.Series(either(pd.Period("2020"), pd.Period("2021"))), r"Period in 40 of 40 rows"),
        (pd.Series(either(pd.Timestamp("2020"), pd.Timestamp("2021"))), "dates or durations"),
        (either("a", None), "NaN, or nothing, in 21 of 40 rows, first in row 3"),
        (either("a", float("nan")), "NaN, or nothing, in 21 of 40 rows, first in row 3"),
        (objects(either(True, pd.NA)), "NaN, or nothing, in 21 of 40 rows, first in row 3"),
        (either(1, Decimal("NaN")), "NaN, or nothing, in 21 of 40 rows, first in row 3"),
        (pd.Series(either(1, None), dtype="Int64"), "NaN in 21 of 40 rows, first in row 3"),
        (pl.Series(either(1, None)), "NaN in 21 of 40 rows, first in row 3"),
    ],
)
def test_what_is_no_label_is_told_with_its_rows(kind, labels, said):
    with pytest.raises(ValueError, match=said):
        kind(**STEPS).fit(X, labels)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (objects(either(1, 2)), [1, 2]),
        (objects(either(1.0, 2)), [1.0, 2.0]),
        (objects(either(True, False)), [False, True]),
        (either(np.str_("a"), "b"), ["a", "b"]),
        (pd.Series(either(1, 2), dtype="category"), [1, 2]),
        (pd.Series(either("a", "b"), dtype="string"), ["a", "b"]),
        (pd.Series(either(True, False), dtype="boolean"), [False, True]),
        (pl.Series(either("a", "b"), dtype=pl.Categorical), ["a", "b"]),
        (pa.array(either("a", "b")), ["a", "b"]),
        (pa.chunked_array([either("a", "b")]), ["a", "b"]),
    ],
)
def test_labels_of_one_kind_are_learned_whatever_holds_them(labels, classes):
    model = KernelClassifier(**STEPS).fit(X, labels)
    assert model.classes_.tolist() == classes
    assert type(model.classes_.tolist()[0]) is type(classes[0])


def test_announced_classes_are_of_one_kind():
    with pytest.raises(ValueError, match="classes mixes kinds of labels"):
        KernelClassifier(**STEPS).partial_fit(X, either("a", "b"), classes=["a", "b", 1])


# -- NaN and infinity -------------------------------------------------------------------------


def regressor(**more):
    return KernelRegressor(**STEPS, **more)


LEARN = {
    "regressor": lambda A, y: regressor().fit(A, y),
    "default": lambda A, y: KernelRegressor(random_state=0).fit(A, y),
    "stream": lambda A, y: KernelRegressor(random_state=0).partial_fit(A, y),
    "partial_fit": lambda A, y: regressor().partial_fit(X, X[:, 0]).partial_fit(A, y),
    "classifier": lambda A, y: KernelClassifier(**STEPS).fit(
        A, np.where(np.isfinite(y), SIGN, y).astype(float)
    ),
    "ranker": lambda A, y: KernelRanker(**STEPS).fit(A, y),
    "process": lambda A, y: GaussianProcessRegressor(n_features=10, random_state=0).fit(A, y),
}
ROWS_ONLY = {
    "novelty": lambda A: NoveltyDetector(**STEPS).fit(A),
    "ratio": lambda A: DensityRatio(**STEPS).fit(A, X),
    "values": lambda A: ValueFunction(0.5, **STEPS).fit(A, X[:, 0], X),
    "predict": lambda A: regressor().fit(X, X[:, 0]).predict(A),
    "decide": lambda A: KernelClassifier(**STEPS).fit(X, SIGN).decision_function(A),
    "process, predict": lambda A: (
        GaussianProcessRegressor(n_features=10, random_state=0).fit(X, X[:, 0]).predict(A)
    ),
    "novelty, predict": lambda A: NoveltyDetector(**STEPS).fit(X).predict(A),
}
ALL = LEARN | {name: lambda A, y, call=call: call(A) for name, call in ROWS_ONLY.items()}


@pytest.mark.parametrize("name", LEARN)
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_targets_that_are_not_finite_are_told_with_their_rows(name, value, what):
    y = X[:, 0].copy()
    y[[5, 9]] = value
    with pytest.raises(ValueError, match=f"Input y contains {what} in 2 of 40 rows, first.* row 5"):
        LEARN[name](X, y)


@pytest.mark.parametrize("name", ["regressor", "default", "partial_fit", "process"])
@pytest.mark.parametrize("text", ["high", b"high"])
def test_quantities_that_are_text_are_told(name, text):
    with pytest.raises(ValueError, match="y holds text, such as 'high'"):
        LEARN[name](X, np.array([text, text] * (N // 2)))


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier, KernelRanker])
def test_targets_of_different_lengths_are_told(kind):
    with pytest.raises(ValueError, match="Input y has rows of different lengths"):
        kind(**STEPS).fit(X, [[1.0], [1.0, 2.0]] * (N // 2))


@pytest.mark.parametrize(
    "targets",
    [
        [(1.0,), (1.0, 2.0)] * (N // 2),
        [[[1.0], [1.0, 2.0]], [1.0]] * (N // 2),
        [np.ones(1), np.ones(2)] * (N // 2),
    ],
)
def test_quantities_of_different_lengths_are_told(targets):
    with pytest.raises(ValueError, match="Input y has rows of different lengths"):
        regressor().fit(X, targets)


@pytest.mark.parametrize("kind", [NoveltyDetector, lambda: GaussianProcessRegressor()])
@pytest.mark.parametrize("cell", ["x", [1.0, 2.0], BEYOND])
def test_cells_of_frames_that_are_no_numbers_are_told_with_their_row(kind, cell):
    rows = pd.DataFrame(X, columns=list("abc")).astype(object)
    rows.at[5, "b"] = cell
    with pytest.raises(ValueError, match=r"Input X must be numbers.* in row 5"):
        kind().fit(rows, *([] if kind is NoveltyDetector else [X[:, 0]]))


@pytest.mark.parametrize("row", [[1.0, 2.0, "high"], {"x0": 1.0, "x1": 2.0, "x2": "high"}])
def test_what_is_no_number_in_a_row_is_told_with_its_column(row):
    with pytest.raises(ValueError, match=r"A row must be numbers.*'high', in column 2"):
        regressor().fit(X, X[:, 0]).predict_one(row)


@pytest.mark.parametrize("name", ["regressor", "default", "partial_fit", "process"])
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("width", [1, 2])
def test_nothing_among_targets_of_several_columns_is_told(name, kind, width):
    y = [kind([cell] * width) for cell in X[:, 0].tolist()]
    y[5] = kind([*y[5][:-1], None])
    with pytest.raises(ValueError, match="NaN, or nothing, in 1 of 40 rows, first in row 5"):
        LEARN[name](X, y)


def test_targets_of_several_columns_are_told_with_the_column():
    y = X[:, :2].copy()
    y[5, 1] = np.nan
    with pytest.raises(ValueError, match="in 1 of 40 rows, first in row 5, column 1"):
        regressor().fit(X, y)


FORMS = {
    "array": (np.asarray, "2"),
    "list": (lambda A: A.tolist(), "2"),
    "single": (lambda A: A.astype(np.float32), "2"),
    "objects": (lambda A: A.astype(object), "2"),
    "sparse": (sparse.csr_matrix, "2"),
    "frame": (lambda A: pd.DataFrame(A, columns=["a", "b", "c"]), "'c'"),
    "polars": (lambda A: pl.DataFrame(A, schema=["a", "b", "c"]), "'c'"),
}


@pytest.mark.parametrize("name", ALL)
def test_infinite_inputs_are_told_with_row_and_column(name):
    rows = X.copy()
    rows[[5, 7], [2, 0]] = -np.inf
    said = r"Input X contains infinity in 2 of 40 rows, first -inf in row 5, column 2\."
    with pytest.raises(ValueError, match=said):
        ALL[name](rows, X[:, 0])


@pytest.mark.parametrize("name", ALL)
def test_rows_of_other_lengths_are_told(name):
    rows = X.tolist()
    rows[5] = [1.0]
    with pytest.raises(ValueError, match="Input X must be numbers, in rows of one length"):
        ALL[name](rows, X[:, 0])


@pytest.mark.parametrize("name", ["process", "ranker", "novelty", "ratio"])
def test_cells_that_are_no_numbers_are_told_with_their_row(name):
    rows = X.astype(object)
    rows[5, 2] = datetime.datetime(2020, 1, 1)
    with pytest.raises(TypeError, match=r"Input X must be numbers.*'datetime.*, in row 5\)"):
        ALL[name](rows, X[:, 0])


@pytest.mark.parametrize("name", ALL)
def test_integers_beyond_floats_are_told_with_their_row(name):
    rows = X.tolist()
    rows[5][1] = BEYOND
    with pytest.raises(ValueError, match=r"(int too large|holds inf).* in row 5"):
        ALL[name](rows, X[:, 0])


@pytest.mark.parametrize("name", sorted(LEARN.keys() - {"classifier", "ranker"}))
def test_targets_beyond_floats_are_told_with_their_row(name):
    y = X[:, 0].tolist()
    y[5] = BEYOND
    with pytest.raises(ValueError, match=r"Input y must be.*int too large.* in row 5"):
        LEARN[name](X, y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["regressor", "novelty"])
def test_infinite_inputs_are_told_in_every_form(form, name):
    rows = X.copy()
    rows[5, 2] = np.inf
    make, column = FORMS[form]
    with pytest.raises(ValueError, match=f"infinity in 1 of 40 .* row 5, column {column}. Put a"):
        ALL[name](make(rows), X[:, 0])


def test_infinity_beside_text_is_told_by_the_name_of_its_column():
    frame = pd.DataFrame({"town": either("Bonn", "Ulm"), "rent": X[:, 0]})
    frame.loc[7, "rent"] = np.inf
    with pytest.raises(ValueError, match="'rent' holds inf in row 7"):
        regressor().fit(frame, X[:, 0])


@pytest.mark.parametrize("name", ["ranker", "process", "novelty", "ratio", "values"])
def test_gaps_are_told_where_they_cannot_be(name):
    rows = X.copy()
    rows[[3, 4], 1] = np.nan
    said = r"X contains NaN in 2 of 40 rows, first in row 3, column 1\. Impute"
    with pytest.raises(ValueError, match=said):
        ALL[name](rows, X[:, 0])


def test_gaps_in_sparse_rows_are_told():
    rows = X.copy()
    rows[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in 1 of 40 rows, first in row 3, column 1"):
        regressor().fit(sparse.csr_matrix(rows), X[:, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, None, pd.NA])
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier, KernelRanker, NoveltyDetector])
def test_wrong_weights_are_told_with_their_rows(kind, value):
    weights = objects([1.0] * N)
    weights[[4, 6]] = value
    rows = (X,) if kind is NoveltyDetector else (X, SIGN.astype(float))
    with pytest.raises(ValueError, match=r"`sample_weight` must be .* 2 of 40 rows, .* in row 4"):
        kind(**STEPS).fit(*rows, sample_weight=weights)


def test_weights_that_are_text_are_told():
    with pytest.raises(ValueError, match="`sample_weight` must be numbers, got 'much' in row 1"):
        regressor().fit(X, X[:, 0], sample_weight=[1.0, "much"] * (N // 2))


def test_refused_rows_leave_models_as_they_were():
    bad = X.copy()
    bad[5, 2] = np.inf
    labels = np.array(either("a", "b"))
    for model, good, wrong in (
        (regressor(), (X, X[:, 0]), [(bad, X[:, 0]), (X, np.where(SIGN, np.nan, 1.0))]),
        (KernelClassifier(**STEPS), (X, labels), [(bad, labels), (X, either("a", 1))]),
        (NoveltyDetector(**STEPS), (X,), [(bad,)]),
        (KernelRegressor(random_state=0), (X, X[:, 0]), [(bad, X[:, 0])]),
    ):
        model.partial_fit(*good)
        before = pickle.dumps(model.to_state())
        for rows in wrong:
            with pytest.raises(ValueError, match=r"row \d"):
                model.partial_fit(*rows)
        assert pickle.dumps(model.to_state()) == before


# -- rows of a stream -------------------------------------------------------------------------

NOTHING = {
    "None": None,
    "NaN": float("nan"),
    "numpy": np.float64("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "time": np.datetime64("NaT"),
    "decimal": Decimal("NaN"),
    "signalling": Decimal("sNaN"),
    "masked": np.ma.masked,
    "arrow": pa.scalar(None),
}


@pytest.fixture(scope="module")
def stream():
    model = KernelRegressor(random_state=0)
    for i in range(40):
        model.learn_one({"a": float(i % 7), "b": float(i % 3)}, float(i % 7))
    return model


@pytest.mark.parametrize("name", NOTHING)
def test_whatever_says_nothing_is_a_gap(name, stream):
    assert says_nothing(NOTHING[name])
    row = {"a": NOTHING[name], "b": 1.0}
    assert stream.predict_one(row) == stream.predict_one({"a": None, "b": 1.0})
    learned = [pickle.loads(pickle.dumps(stream)) for _ in range(2)]
    for model, gap in zip(learned, (NOTHING[name], None), strict=True):
        model.learn_one({"a": gap, "b": 1.0}, 2.0)
        model.learn_one({"a": 1.0, "b": 1.0, "late": gap}, 2.0)
    assert_array_equal(*(model.predict(X[:, :2]) for model in learned))


@pytest.mark.parametrize("name", NOTHING)
def test_whatever_says_nothing_is_a_gap_for_river(name):
    pytest.importorskip("river")
    from mercer.river import AnomalyDetector, Classifier, Regressor

    for kind, target in ((Regressor, 1.0), (Classifier, "x"), (AnomalyDetector, None)):
        answers = []
        for gap in (NOTHING[name], None):
            model = kind(seed=0)
            for i in range(10):
                row = {"a": float(i % 4), "b": float(i % 3)} | ({"a": gap} if i % 5 == 4 else {})
                model.learn_one(row, *([] if target is None else [target]))
            ask = model.score_one if target is None else model.predict_one
            answers.append(ask({"a": gap, "b": 1.0}))
        assert answers[0] == answers[1]


def test_a_single_row_names_the_feature_that_is_infinite(stream):
    with pytest.raises(ValueError, match=r"infinite: inf in the feature 'b'"):
        stream.learn_one({"a": 1.0, "b": np.inf}, 1.0)
    with pytest.raises(ValueError, match=r"infinite: inf in the feature 'late'"):
        stream.learn_one({"a": 1.0, "b": 1.0, "late": np.inf}, 1.0)
    with pytest.raises(ValueError, match=r"NaN or infinite.*: nan at place 1"):
        regressor().fit(X, X[:, 0]).predict_one([1.0, np.nan, 0.0])
