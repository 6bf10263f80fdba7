"""Records: what they write they read, and whatever is damaged is refused."""

import copy
from inspect import isabstract
from types import SimpleNamespace

import numpy as np
import pytest

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelGradient,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.buffers import FIFO
from mercer.columns import TablePreprocessor
from mercer.columns.views import view_table
from mercer.conformal import AdaptiveConformal
from mercer.default.targets import LearnedMean
from mercer.estimators.inputs import Roles, StreamColumns
from mercer.expansions import KOMP, Dictionary, RandomFeatures
from mercer.gaussian_process import Cyclic, InducingPoints
from mercer.kernels import Gaussian
from mercer.records import (
    Config,
    Encoded,
    Field,
    Gapped,
    IfAny,
    InText,
    Listed,
    Maybe,
    Named,
    Numbered,
    Numbers,
    OneOf,
    Part,
    Passing,
    Plain,
    Record,
    Recorded,
    Several,
    State,
    Table,
    Triangle,
)
from mercer.sums import KernelBasis, NewtonSteps, RidgeStream, Rows
from mercer.validation import integer, or_none, real
from mercer_app.files.arrivals import Record as Line
from mercer_app.training.streaming import Measures, RowReader

X = np.random.default_rng(0).normal(size=(330, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS = (Y > 0.0).astype(int)
KERNEL = Gaussian(1.0)


def models():
    """Models that have parts of all classes with a record."""
    yield KernelRegressor("absolute_error", random_state=0).partial_fit(X[:90], Y[:90])
    yield KernelClassifier(expansion="stream", random_state=0).fit(X[:20], LABELS[:20])
    yield KernelClassifier(kernel=KERNEL, expansion=Dictionary(20)).fit(X, LABELS)
    yield KernelRegressor(kernel=KERNEL, expansion=Dictionary(20)).fit(X, Y)
    yield KernelRegressor(kernel=KERNEL, expansion=RandomFeatures(16)).partial_fit(X[:3], Y[:3])
    for method in (InducingPoints(9), Cyclic(4, 2), "features"):
        yield GaussianProcessRegressor(KERNEL, n_features=16, method=method).fit(X[:40], Y[:40])
    rows = X[:29], Y[:29], X[1:30]
    yield ValueFunction(0.5, kernel=KERNEL, expansion=Dictionary(5)).fit(*rows)
    gaps = np.where(X < -1.0, np.nan, X)
    yield KernelRegressor(kernel=KERNEL, expansion=KOMP(max_size=9)).partial_fit(gaps, Y)
    yield NoveltyDetector(kernel=KERNEL, expansion=KOMP(max_size=9)).fit(X)
    yield KernelGradient(kernel=KERNEL, expansion=KOMP(max_size=9)).fit(X[:90], Y[:90])
    yield DensityRatio(kernel=KERNEL, expansion=KOMP(max_size=9)).fit(X[:90], X[90:])
    for pairs in ({"pair_label": "same", "pair_kernel": "symmetric"}, {}):
        model = KernelRanker(kernel=KERNEL, buffer=FIFO(5), expansion=KOMP(max_size=9), **pairs)
        yield model.partial_fit(X, LABELS if pairs else Y)


def parts():
    """What small models do not have."""
    rows, basis = Rows(X, Y[:, np.newaxis], np.ones(330)), KernelBasis(KERNEL, X[:5])
    mean, ridge = LearnedMean(2, 1, np.float64, seed=0), RidgeStream(basis, 1, [1e-3, 1e-5])
    mean.add(rows)
    ridge.add(rows)
    ridge.solve()
    steps = NewtonSteps(basis, 1, 0.25)
    steps.add_points(basis.features(X), rows.weights)
    steps.step(np.ones((5, 1)), 1.0, 1e-3)
    texts = 3 * [f"{color} {thing}" for color in ("red", "blue") for thing in "abcdefgh"]
    table = {"x": X[:48, 0], "gaps": np.full(48, np.nan), "town": 24 * ["a", "b"], "text": texts}
    table |= {"day": [f"{1 + n % 28}.{1 + n % 12}.2024" for n in range(48)]}
    table |= {"price": [f"${n},000" for n in range(48)]}
    columns = TablePreprocessor(kinds={"text": "text"}).fit(table, LABELS[:48])
    roles = Roles("y", "who", "day", {"x": "a copy of the target"})
    widths, measures = AdaptiveConformal(window=5), Measures()
    reader = RowReader("y", key="id", gaps=True)
    for n in range(9):
        row = {"a": 0.5 * n, "day": f"2024-01-{n + 1:02}", "y": f"${n + 1},000.50", "id": n}
        reader.read(Line(row, f"row {n}"))
        widths.update(float(n))
        measures.compare(n, n + 0.5, quantities=True)
    streamed = StreamColumns(["town"]).grown(view_table({"a": [1.0, np.nan], "town": ["x", "y"]}))
    return mean, ridge, steps, columns, roles, widths, reader, measures, streamed


def kinds(of=Recorded):
    for one in of.__subclasses__():
        if one.__module__.startswith("mercer"):
            yield from kinds(one) if isabstract(one) else [one, *kinds(one)]


@pytest.fixture(scope="module")
def seen():
    """One object of each class with a record, the one that says most, and its state."""
    found, write = {}, Recorded.to_state

    def spied(self):
        state = write(self)
        if len(repr(state)) > len(repr(found.get(type(self), (None, ""))[1])):
            found[type(self)] = copy.deepcopy((self, state))
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorded, "to_state", spied)
        for model in models():
            if not isinstance(model, DensityRatio | KernelRanker):
                model.predict(X[:2])
            model.to_state()
            if hasattr(model, "learner_"):
                model.learner_.to_state(whole=True)
        for part in parts():
            part.to_state()
    return found


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other


def damages(field, value):
    """What is no value of a field."""
    while isinstance(field, Maybe):
        field = field.field
    if not isinstance(value, str) or isinstance(field, Encoded):
        yield "damaged"
    if isinstance(field, Named):
        yield {**value, "more": {"a": []}}
    elif isinstance(value, dict):
        yield {**value, "more": 1}
        yield from ({k: v for k, v in value.items() if k != name} for name in value)
    elif isinstance(value, list):
        yield from ([*value, []], tuple(value))
        if isinstance(field, Listed) and value and field.dtypes[0].kind == "f":
            yield [np.nan, *value[1:]]
    elif isinstance(value, np.ndarray):
        yield value[np.newaxis]
        yield value.astype(np.float16)
        yield value.tolist()
        if value.size and value.dtype.kind == "f":
            limits = (getattr(field, name, np.inf) for name in ("low", "high", "above"))
            low, high, above = np.broadcast_to([*limits], 3)
            for one in (np.nan, np.inf, -np.inf, low - 1.0, high + 1.0, above):
                if not np.isneginf(one) or not np.isneginf(low):
                    wrong = value.copy()
                    wrong.flat[0] = one
                    yield wrong
    elif type(field) is Field:
        yield from (np.nan, [value], {"a": value})


def test_every_class_with_a_record_is_tried(seen):
    assert {one.__name__ for one in kinds()} == {one.__name__ for one in seen}


@pytest.mark.parametrize("kind", [*kinds()], ids=lambda kind: kind.__name__)
def test_what_is_written_is_read_and_what_is_damaged_is_refused(kind, seen):
    thing, state = seen[kind]
    twin = copy.deepcopy(thing)
    twin.restore(copy.deepcopy(state))
    assert same(twin.to_state(), state)
    keys, fields = kind._record.keys, kind._record.fields
    there = {n: one for n, one in fields.items() if keys[n] in state or type(one) is not IfAny}
    assert [*state] == [keys[name] for name in there]
    for name, field in there.items():
        key = kind._record.keys[name]
        rest = {one: value for one, value in state.items() if one != key}
        for wrong in (rest, *({**state, key: value} for value in damages(field, state[key]))):
            with pytest.raises(ValueError, match=r"."):
                copy.deepcopy(thing).restore(wrong)
    with pytest.raises(ValueError, match="a state must have the keys"):
        copy.deepcopy(thing).restore({**state, "more": 1})


def test_arrays_are_read_as_copies():
    state = {"a": np.ones(2)}
    values = Record(a=Numbers("n")).read(state, {})
    values["a"][0] = 7.0
    assert state["a"].tolist() == [1.0, 1.0]


MIXED = Record(
    n=integer(low=1),
    table=Numbers("n", "2*n+1"),
    limit=or_none(real(low=0.0)),
    lower=Triangle("n"),
    lengths=Several(real(), "n"),
)
GOOD = {
    "n": 2,
    "table": np.zeros((2, 5)),
    "limit": None,
    "lower": np.array([1.0, 2.0, 3.0]),
    "lengths": [0.0, 1.0],
}


def test_dimensions_agree_between_fields():
    found = MIXED.read(GOOD, {})
    assert found["lower"].tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert found["lengths"] == (0.0, 1.0)
    assert same(MIXED.written_of(found), GOOD)
    for change, message in (
        ({"n": 0}, "`n` must be an integer of at least 1"),
        ({"n": 3}, r"`table` must be of shape \(3, 7\), got \(2, 5\)"),
        ({"table": np.zeros((2, 4))}, r"`table` must be of shape \(2, 5\), got \(2, 4\)"),
        ({"table": np.full((2, 5), np.inf)}, "`table` must be finite"),
        ({"table": np.zeros((2, 5), np.float32)}, "`table` must be an array of float64, got float"),
        ({"limit": -1.0}, "`limit` must be a finite number"),
        ({"lower": np.zeros(4)}, r"`lower` must be of shape \(3,\)"),
        ({"lengths": [0.0]}, r"`lengths` must be of shape \(2,\)"),
        ({"lengths": 3}, "`lengths` must be a list"),
    ):
        with pytest.raises(ValueError, match=message):
            MIXED.read({**GOOD, **change}, {})
    with pytest.raises(ValueError, match="`n` must be 4, got 2"):
        MIXED.read(GOOD, {"n": 4})
    with pytest.raises(ValueError, match=r"a state must have the keys \[.*\], got 'text'"):
        MIXED.read("text", {})


def test_what_need_not_be_there_has_a_key_only_where_it_is():
    record = Record(n=integer(low=1), more=IfAny(Numbers("n")))
    for more in (None, np.ones(2)):
        state = record.written_of({"n": 2, "more": more})
        assert [*state] == (["n"] if more is None else ["n", "more"])
        assert same(record.read(state, {}), {"n": 2, "more": more})
    for wrong, message in (
        ({"n": 2, "less": 1}, "must have the keys"),
        ({"more": np.ones(2)}, "must have the keys"),
        ({"n": 2, "more": np.ones(3)}, "must be of shape"),
    ):
        with pytest.raises(ValueError, match=message):
            record.read(wrong, {})
    assert Record(_x=Maybe(real())).written_of({"_x": None}) == {"x": None}


class Point(Recorded):
    _record = Record(_at=Numbers("n_axes"))


def test_parts_share_dimensions_with_the_whole():
    record = Record(points=Numbered(Part(Point, n_axes="n")), weights=Numbers("n"))
    state = {"points": {"0": {"at": np.ones(2)}, "1": {"at": np.zeros(2)}}, "weights": np.ones(2)}
    assert [point._at.tolist() for point in record.read(state, {})["points"]] == [[1, 1], [0, 0]]
    with pytest.raises(ValueError, match=r"`weights` must be of shape \(2,\), got \(3,\)"):
        record.read({**state, "weights": np.ones(3)}, {})
    state["points"]["1"] = {"at": np.zeros(3)}
    with pytest.raises(ValueError, match=r"in `points`: `at` must be of shape \(2,\), got \(3,\)"):
        record.read(state, {})
    with pytest.raises(ValueError, match="`points` must have the keys 0, 1, 2 and so on"):
        record.read({**state, "points": {"1": {}}}, {})


def test_attributes_may_be_together_under_a_key():
    record = Record(n=integer(low=1), more=Record(_rows=Gapped("n", 2), _known=IfAny(real())))
    rows = np.array([[1.0, np.nan]])
    state = record.written_of({"n": 1, "_rows": rows, "_known": None})
    assert [*state["more"]] == ["rows"]
    assert np.array_equal(record.read(state, {})["_rows"], rows, equal_nan=True)
    assert state["more"]["rows"]["numbers"].tolist() == [[1.0, 0.0]]
    assert [*record.names] == ["n", "_rows", "_known"]
    state["more"]["rows"]["gaps"] = np.zeros((2, 2), np.bool_)
    with pytest.raises(ValueError, match=r"`gaps` must be of shape \(1, 2\)"):
        record.read(state, {})


def test_a_part_may_be_text_and_of_one_of_several_classes():
    field = OneOf(roles=InText(Roles), point=Part(Point))
    roles = Roles("y", leaks={"/": "all"})
    assert field.read("it", field.written(roles), {}) == roles
    assert [*OneOf(point=Part(Point)).read("it", {"point": {"at": np.ones(1)}}, {})._at] == [1.0]
    wrongs = (
        {},
        {"roles": 3},
        {"other": "{}"},
        {"roles": "[" * 10**5},
        {"roles": "{"},
        "{}",
        ["x"],
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"`it|deeply|line 1"):
            field.read("it", wrong, {})


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


ARRAY = np.array
FIELDS = [
    (Numbers(2, low=0.0, high=1.0), ARRAY([0.0, 1.0]), [0.0, 1.0], [
        (ARRAY([0.0, 1.5]), "`it` must be at most 1.0, and one is 1.5"),
        (ARRAY([-0.5, 1.0]), "`it` must be at least 0.0, and one is -0.5"),
        (ARRAY([0.0]), r"`it` must be of shape \(2,\), got \(1,\)"),
        ([0.0, 1.0], r"`it` must be an array of float64, got \[0.0, 1.0\]"),
        (ARRAY([0, 1]), "`it` must be an array of float64, got int64"),
    ]),
    (Numbers(2, above=0.0, dtype=(np.float32, np.float64)), ARRAY([0.5, 1.0]), [0.5, 1.0], [
        (ARRAY([0.0, 1.0]), "`it` must be above 0.0, and one is 0.0"),
        (ARRAY([0, 1]), "`it` must be an array of float32 or float64, got int64"),
        (ARRAY([0.5, np.nan]), "`it` must be finite"),
    ]),
    (Numbers(2, low=[0.0, 5.0]), ARRAY([0.0, 5.0]), [0.0, 5.0], [(ARRAY([1.0, 4.0]), "at least")]),
    (Numbers("n", "2*n+1"), np.ones((1, 3)), [[1.0, 1.0, 1.0]], [
        (np.ones((2, 3)), r"must be of shape \(2, 5\), got \(2, 3\)"),
        (np.ones(3), r"must be of shape \(n, 2\*n\+1\), got \(3,\)"),
    ]),
    (Numbers("2*n+3"), np.ones(3), [1.0, 1.0, 1.0], [
        (np.ones(2), r"of shape \(2\*n\+3,\)"),
        (np.ones(4), r"of shape \(2\*n\+3,\)"),
    ]),
    (Listed("n"), ARRAY([0.5, 2.0]), [0.5, 2.0], [
        ([0.5, True], "must be a list of float64"),
        ([0.5, "1"], "must be a list of float64"),
        ((0.5, 2.0), "must be a list of float64"),
    ]),
    (Listed("n", dtype=np.int64), ARRAY([1, 2]), [1, 2], [
        ([1, 2.0], "must be a list of int64"),
        ([True], "must be a list of int64"),
    ]),
    (Listed("n", dtype=np.bool_), ARRAY([True]), [True], [([1], "must be a list of bool")]),
    (Encoded("n", 2, dtype=np.float32), np.ones((1, 2), np.float32), "AACAPwAAgD8=", [
        (3, "`it` must be text, got 3"),
        ("AACAPw==", r"reshape"),
    ]),
    (Encoded("n"), np.ones(1), "AAAAAAAA8D8=", [("AAAAAAAA8H8=", "must be finite")]),
    (Gapped("n"), ARRAY([1.0, 2.0]), [1.0, 2.0], [
        ({"numbers": np.ones(2)}, "a state must have the keys"),
        (ARRAY([1, 2]), "must be an array of float32 or float64"),
    ]),
    (Named(integer(low=0), 2), {"a": 1, "b": 2}, {"a": 1, "b": 2}, [
        ({"a": -1}, "`it: a` must be an integer of at least 0"),
        ({"a": 1, "b": 2, "c": 3}, "must be a dict of at most 2 entries, got"),
        ([1], r"must be a dict of at most 2 entries, got \[1\]"),
    ]),
    (Named(integer(low=0)), {}, {}, [(3, "`it` must be a dict, got 3")]),
    (Triangle("n"), ARRAY([[1.0, 0.0], [2.0, 3.0]]), [1.0, 2.0, 3.0], [
        (np.ones(2), r"must be of shape \(3,\), got \(2,\)|of shape \(1,\)|of shape \(2,\)"),
    ]),
    (Maybe(integer(low=0)), 3, 3, [(-1, "at least 0")]),
    (Maybe(integer(low=0)), None, None, []),
    (Maybe(integer(low=1), 0), 0, None, [(0, "at least 1")]),
    (Maybe(integer(low=1), 0), 2, 2, []),
    (Several(integer(low=0), 2), (1, 2), [1, 2], [
        ([1], r"must be of shape \(2,\), got \(1,\)"),
        ([1, -1], "`it` must be an integer"),
        ((1, 2), "`it` must be a list, got"),
    ]),
    (Several(integer(low=0), kind=list), [1, 2, 3], [1, 2, 3], [({}, "must be a list, got {}")]),
    (Numbered(Numbers(1)), (), {}, [([], "must have the keys 0, 1, 2")]),
    (Config(Gaussian, lambda one: one.length_scale > 1.0), Gaussian(2.0),
        {"type": "Gaussian", "params": {"length_scale": 2.0}}, [
        ({"type": "Gaussian", "params": {"length_scale": 0.5}}, "must be a Gaussian, got Gaussian"),
        ({"type": "KOMP", "params": {}}, "must be a Gaussian, got KOMP"),
    ]),
    (Config(Gaussian), Gaussian(0.5), {"type": "Gaussian", "params": {"length_scale": 0.5}}, []),
    (Table(), [{"a": 1}], [{"a": 1}], [(3, "must be a list of dicts"), ([3], "list of dicts")]),
    (State(), {"a": 1}, {"a": 1}, [([1], r"must be a dict, got \[1\]")]),
    (Plain(real()), np.float64(0.5), 0.5, [("x", "`it` must be a finite number")]),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "state", "wrong"), FIELDS)
def test_fields_say_what_is_wrong(field, value, state, wrong):
    written = field.written(value)
    assert plain(written) == state
    assert type(plain(written)) is type(state)
    found = field.read("it", copy.deepcopy(written), {})
    assert plain(found) == plain(value)
    assert not isinstance(value, tuple | list) or type(found) is type(value)
    for other, message in wrong:
        with pytest.raises(ValueError, match=message):
            field.read("it", other, {"n": 2} if np.shape(other) == (2, 3) else {})


def test_what_is_written_and_read_is_a_copy():
    for field, value in (
        (Numbers("n", 2), np.ones((3, 2), order="F")),
        (Gapped("n"), np.ones(3)),
        (Table(), [{"a": 1}]),
        (Several(integer(low=0)), [1]),
        (Named(integer(low=0)), {"a": 1}),
    ):
        written = field.written(value)
        read = field.read("it", written, {})
        assert written is not value
        assert read is not written
        for one in (written, read):
            if isinstance(one, np.ndarray):
                assert one.flags.c_contiguous
                assert not np.shares_memory(one, value)
                assert one is read or not np.shares_memory(one, read)
    rows = [{"a": 1}]
    assert Table().written(rows)[0] is not rows[0]
    assert Table().read("it", rows, {})[0] is not rows[0]
    lower = Triangle("n").read("it", np.ones(3), {})
    with pytest.raises(ValueError, match="`it` must be a Gaussian"):
        Config(Gaussian, lambda one: False).read("it", Config(Gaussian).written(KERNEL), {})
    assert lower.flags.f_contiguous


def test_dimensions_have_names():
    for field, names in (
        (Numbers("n", 3, "2*m+1"), ["n", "m"]),
        (Gapped("n", "m"), ["n", "m"]),
        (Named(Numbers("n")), ["n"]),
        (Triangle("n"), ["n"]),
        (Maybe(Numbers("n")), ["n"]),
        (Part(Point, "a", n_axes="n"), ["a", "n"]),
        (State(), []),
    ):
        assert [*field.dimensions] == names
    assert Record(n=integer(low=0), a=Numbers("n", "m"), b=Record(c=Numbers("k"))).dimensions == {
        "m",
        "k",
    }
    sizes = {}
    Numbers("2*n+1").read("it", np.ones(7), sizes)
    Numbers("3*l+1").read("it", np.ones(4), sizes)
    Triangle("m").read("it", np.ones(6), sizes)
    Part(Point, n_axes="k").read("it", {"at": np.ones(4)}, sizes)
    Gapped("g").read("it", {"numbers": np.ones(5), "gaps": np.zeros(5, bool)}, sizes)
    assert sizes == {"n": 3, "m": 3, "k": 4, "g": 5, "l": 1}
    with pytest.raises(ValueError, match=r"of shape \(n\+1,\), got \(0,\)"):
        Numbers("n+1").read("it", np.empty(0), {})
    lists = Record(a=Several(integer(low=0)), b=Several(integer(low=0)))
    assert lists.read({"a": [1], "b": [1, 2]}, {}) == {"a": (1,), "b": (1, 2)}
    with pytest.raises(ValueError, match=r"in `it`: `at` must be of shape \(3,\), got \(4,\)"):
        Part(Point, n_axes="m").read("it", {"at": np.ones(4)}, sizes)


def test_objects_go_back_to_states_of_their_own_dimensions():
    class Mean(Recorded, Passing):
        _record = Record(n_rows=integer(low=0), _sums=Numbers("n"))
        _passing = {"found": {}}  # noqa: RUF012

        def __init__(self, n):
            self.n, self.n_rows, self._sums, self.found = n, 0, np.zeros(n), {}

    mean = Mean(2)
    state = mean.to_state()
    assert [*state] == ["n_rows", "sums"]
    mean.n_rows, mean._sums[0] = 3, 1.0
    mean.found["x"] = 1
    copied = copy.deepcopy(mean)
    assert copied.found == {}
    assert copied.n_rows == 3
    copied.found["y"] = copy.copy(mean).found["y"] = 1
    assert Mean._passing == {"found": {}}
    mean.restore(state)
    assert (mean.n_rows, mean._sums.tolist(), mean.found) == (0, [0.0, 0.0], {})
    with pytest.raises(ValueError, match=r"`sums` must be of shape \(2,\), got \(3,\)"):
        mean.restore({"n_rows": 0, "sums": np.zeros(3)})
    mean.restore({"n_rows": 0, "sums": np.zeros(3)}, n=3)
    other = Mean.from_state(state)
    other.found["z"] = 1
    assert Mean.from_state(state).found == {}
    fits = Record(first=integer(low=0), last=integer(low=0)).where(
        "no order", lambda it: it["first"] <= it["last"]
    )
    assert fits.read({"first": 1, "last": 1}, {}) == {"first": 1, "last": 1}
    with pytest.raises(ValueError, match="no order"):
        fits.read({"first": 2, "last": 1}, {})
    assert fits.written(SimpleNamespace(first=1, last=3)) == {"first": 1, "last": 3}
    with pytest.raises(ValueError, match="a state must have the keys"):
        fits.read(["first", "last"], {})
    assert fits.among({"first": 1, "more": 2}) == {"first": 1}
    with pytest.raises(ValueError, match="`last` must be 1, got 2"):
        fits.read({"first": 1, "last": 2}, {"last": 1})
