"""Exported files: they predict as the model does, with NumPy alone, whatever it is made of."""

import ast
import copy
import inspect
import io
import json
import runpy
import subprocess
import sys
from dataclasses import replace
from datetime import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from command_line import run
from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
)
from mercer.columns import TablePreprocessor, calendar_parts, written
from mercer.columns.forms import DateForm
from mercer.columns.readings import Reading
from mercer.expansions import (
    ALD,
    KOMP,
    Budget,
    Dictionary,
    FixedBudget,
    Full,
    Quantized,
    RandomFeatures,
    Tracking,
)
from mercer.gaussian_process import Cyclic, Faithful, InducingPoints
from mercer.kernels import (
    ArcCosine,
    Bias,
    Cauchy,
    ChiSquared,
    DotProduct,
    ExponentialSemigroup,
    FunctionKernel,
    Gaussian,
    Hellinger,
    Intersection,
    JensenShannon,
    Laplacian,
    Linear,
    Mapped,
    Matern,
    Partitioned,
    Polynomial,
    RationalQuadratic,
    ReciprocalSemigroup,
    SkewedChiSquared,
    SkewedIntersection,
)
from mercer.kernels.names import _NAMES
from mercer.losses import Quantile, SquaredHinge
from mercer.maps import Affine, Chain, Curves, Indicators
from mercer.sums import CellsPart, GlobalPart, Rows, TreesPart
from mercer_app.export import (
    ExportError,
    _runtime,
    export_python,
    trees,
)
from mercer_app.export.trees import kernel_tree
from mercer_app.rows import TableRows
from mercer_app.training import TransitionColumns

# Its tables hold cells that are no numbers and no dates among such.
pytestmark = pytest.mark.filterwarnings("ignore:.*cells? that cannot be read as a")

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 2.0, (80, 5))
NEW = RNG.uniform(0.0, 2.2, (40, 5))
Y = np.sin(3 * X[:, 0]) + X[:, 1]
CLASSES = np.array(["low", "middle", "high"])[np.digitize(Y, [0.7, 1.6])]

AFFINE = Affine(np.ones(5), [1.0, 0.0, 2.0, 0.5, 1.0], [0.1, 0.2, 0.3, 0.4])
MIXING = Affine(np.ones(5), np.arange(10.0).reshape(5, 2) / 10)
CURVES = Curves([0.0, 1.0, 2.0, 0.5, 1.5], [0.0, 2.0, 2.5, 1.0, 0.0], [3, 0, 0, 2, 0])
STRAIGHT = Curves([0.5, 1.0, 0.7], [0.0, 2.0, 1.0], [2, 1, 0, 0, 0], beyond="linear")
KERNELS = [
    Gaussian(1.0),
    Laplacian(2.0),
    *(Matern(nu, 1.0) for nu in (0.5, 1.5, 2.5, 3.5)),
    Linear(),
    Polynomial(3),
    Gaussian(1.0) + Linear(),
    Gaussian(2.0) * Polynomial(2),
    2.0 * Laplacian(1.0),
    Bias(0.5) + Gaussian(1.0),
    *(Mapped(Gaussian(1.0), map) for map in (AFFINE, MIXING, CURVES, STRAIGHT)),
    Mapped(Gaussian(1.0), Chain(CURVES, Affine([0.0, 1.0], [2.0, 3.0]))),
    Mapped(
        Laplacian(1.0), Chain(Indicators([1.0, 2.0], [2, 0, 0, 0, 0]), Affine(*np.ones((2, 6))))
    ),
]
# Files have no formulas for them.
OTHERS = [
    ArcCosine(1),
    Cauchy(1.5),
    ChiSquared(),
    DotProduct(),
    ExponentialSemigroup(0.5),
    FunctionKernel(lambda A, B: A @ B.T),
    Hellinger(),
    Intersection(),
    JensenShannon(),
    Partitioned(Gaussian(1.0), 4, seed=0),
    RationalQuadratic(0.7, 1.0),
    ReciprocalSemigroup(1.0),
    SkewedChiSquared(0.5),
    SkewedIntersection(0.5),
]


def exported(model, folder: Path) -> dict:
    """The names of an exported file, run in a name space of its own."""
    export_python(model, folder / "model.py")
    return names_of(folder / "model.py")


def names_of(file: Path) -> dict:
    names: dict = {"__name__": "exported"}
    exec(compile(file.read_text(), file.name, "exec"), names)
    return names


def check(model, rows, folder: Path, *, rtol: float = 1e-6) -> dict:
    """Compare all answers to rows with those of the model, relative to the largest."""
    names = exported(model, folder)
    for answer in ("predict", "predict_proba", "decision_function"):
        has = answer in names
        assert has == hasattr(model, answer)
        if not has:
            continue
        expected, found = getattr(model, answer)(rows), names[answer](rows)
        assert found.shape == expected.shape
        if expected.dtype.kind == "f":
            assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
        else:
            assert_array_equal(found, expected)
            assert found.dtype.kind == expected.dtype.kind
    return names


# -- every member of the families ------------------------------------------------------------------


def test_every_kernel_with_a_name_is_tried() -> None:
    assert {type(kernel) for kernel in KERNELS + OTHERS} >= set(_NAMES.values())


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels(kernel, tmp_path: Path) -> None:
    model = KernelRegressor(kernel=kernel, expansion=Dictionary(40), random_state=0)
    check(model.fit(X, Y), NEW, tmp_path)


@pytest.mark.parametrize("around", ["alone", "in a sum", "behind a map"])
@pytest.mark.parametrize("kernel", OTHERS, ids=lambda kernel: type(kernel).__name__)
def test_kernels_without_a_formula_are_refused_by_name(kernel, around: str) -> None:
    given = {"in a sum": kernel + Linear(), "behind a map": Mapped(kernel, AFFINE)}
    with pytest.raises(ExportError, match=f"no formula for the kernel {type(kernel).__name__}"):
        kernel_tree(given.get(around, kernel))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("mode", ["solve", "faithful", "cyclic"])
def test_random_features_are_refused(mode: str, paired: bool, tmp_path: Path) -> None:
    expansion = RandomFeatures(32, mode=mode, paired=paired)
    model = KernelRegressor(expansion=expansion, random_state=0).fit(X, Y)
    with pytest.raises(ExportError, match="random features have formulas for each kernel"):
        export_python(model, tmp_path / "model.py")


@pytest.mark.parametrize("kernel", [Gaussian(4.0), Matern(1.5, 4.0), 2.0 * Gaussian(3.0)], ids=str)
@pytest.mark.parametrize("design", ["iid", "orthogonal", "hadamard", "sobol"])
@pytest.mark.parametrize("n_features", [20, 71])
def test_designs_of_gaussian_processes(kernel, design, n_features, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(60, 20))
    model = GaussianProcessRegressor(kernel, n_features=n_features, design=design, random_state=0)
    check(model.fit(rows, rows[:, 0]), rows, tmp_path)


@pytest.mark.parametrize("kernel", [Polynomial(2), Gaussian(1.0) + Linear(), ArcCosine(1)], ids=str)
def test_features_of_other_kernels_are_refused(kernel, tmp_path: Path) -> None:
    model = GaussianProcessRegressor(kernel, n_features=32, random_state=0).fit(X, Y)
    with pytest.raises(ExportError, match="no formula for the random features of"):
        export_python(model, tmp_path / "model.py")


@pytest.mark.parametrize("expansion", [KOMP(), Full(), Budget(30), Dictionary(30)], ids=str)
@pytest.mark.parametrize("loss", ["auto", SquaredHinge()], ids=str)
def test_expansions_of_classes(expansion, loss, tmp_path: Path) -> None:
    model = KernelClassifier(loss, expansion=expansion, random_state=0)
    check(model.fit(X, CLASSES), NEW, tmp_path)
    check(model.fit(X, Y > 1), NEW, tmp_path)


@pytest.mark.parametrize(
    "expansion", [Quantized(0.2), ALD(), FixedBudget(30), Tracking(30)], ids=str
)
def test_adaptive_filters(expansion, tmp_path: Path) -> None:
    check(KernelRegressor(kernel=Gaussian(1.0), expansion=expansion).fit(X, Y), NEW, tmp_path)


@pytest.mark.parametrize(
    "loss", ["absolute_error", "poisson", "huber", Quantile([0.1, 0.9])], ids=str
)
@pytest.mark.parametrize("several", [False, True])
def test_losses_of_quantities(loss, several: bool, tmp_path: Path) -> None:
    targets = np.exp(Y) if not several else np.exp(np.column_stack([Y, X[:, 2]]))
    model = KernelRegressor(loss, expansion=KOMP(max_size=20), random_state=0)
    check(model.fit(X, targets), NEW, tmp_path)


@pytest.mark.parametrize(
    "model",
    [
        NoveltyDetector(random_state=0),
        KernelRanker(random_state=0),
        *(
            GaussianProcessRegressor(method=method, n_features=100, random_state=0)
            for method in ("features", InducingPoints(30), Cyclic(2, 32, 2), Faithful(20, 32))
        ),
    ],
    ids=str,
)
def test_other_estimators(model, tmp_path: Path) -> None:
    check(model.fit(X, Y > 1 if isinstance(model, KernelRanker) else Y), NEW, tmp_path)


def test_values_of_states(tmp_path: Path) -> None:
    model = ValueFunction(0.9, random_state=0).fit(X[:-1], Y[:-1], X[1:])
    check(model, NEW, tmp_path)


def test_a_single_class(tmp_path: Path) -> None:
    model = KernelClassifier(expansion="komp").partial_fit(X, np.zeros(len(X), dtype=int))
    check(model, NEW, tmp_path)


@pytest.mark.parametrize("single", [np.float32, np.float64])
def test_rows_in_single_precision(single, tmp_path: Path) -> None:
    model = KernelRegressor(expansion="dictionary", random_state=0).fit(X.astype(single), Y)
    check(model, NEW.astype(single), tmp_path, rtol=1e-6 if single == np.float64 else 1e-3)


# -- the default -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def default_data():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1200, 4))
    rows[:, 2], rows[:, 3] = np.exp(2 * rows[:, 2]), rng.integers(0, 4, len(rows))
    y = np.sin(2 * rows[:, 0]) * rows[:, 1] + np.abs(rows[:, 3] - 1)
    return rows, y + 0.1 * rng.normal(size=len(rows))


@pytest.fixture(scope="module")
def default_models(default_data, quickest_race, quick_correction):
    rows, y = default_data
    return {
        "classes": KernelClassifier(random_state=0).fit(rows, np.digitize(y, [0.0, 1.0])),
        "quantities": KernelRegressor(random_state=0).fit(rows, y),
        "quantiles": KernelRegressor(Quantile([0.2, 0.8]), random_state=0).fit(rows, y),
    }


def in_double_precision(part, rows) -> np.ndarray:
    """What a part predicts if only its kernels are computed in double precision."""
    if isinstance(part, GlobalPart):
        basis = part.basis
        images, points = (
            np.asarray(basis._image(each.astype(basis.points.dtype)), dtype=float)
            for each in (rows, basis.points)
        )
        return basis._inner(images, points) @ part.coefficients
    if not isinstance(part, CellsPart):
        return part.evaluate(rows)
    images, members = part.place(rows)
    values = np.zeros((len(rows), part.n_outputs))
    for number, mine in members.items():
        cell = part.cells[number].predictor
        K = cell.kernel(images[mine].astype(float), cell.points.astype(float)) + cell.constant
        values[mine] = np.clip(K @ cell.coefficients, *cell.range)
    return values


@pytest.mark.parametrize("name", ["classes", "quantities", "quantiles"])
def test_parts_of_the_default_are_exact(name: str, default_models, default_data) -> None:
    rows = default_data[0][:300]
    function = default_models[name].learner_.current_function()
    assert {"global", "cells"} & {part.form for _, part in function.used}
    for _, part in function.used:
        tree = trees._PARTS[type(part)](part)
        expected = in_double_precision(part, rows)
        found = _runtime.function_values(tree, rows)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        if part.form == "cells":
            cells = _runtime.cells_of(tree["cells"], part.place(rows)[0])
            assert_array_equal(cells, part.partition.cells(part.place(rows)[0]))


def test_what_a_loss_adds_is_exact(default_models, default_data) -> None:
    model, rows = default_models["quantiles"], default_data[0][:300]
    correction = model.correction_
    kernel = Mapped(Gaussian(1.0), Affine(np.zeros(4), np.ones(4)))
    values = np.linspace(-5.0, 5.0, 300)[:, np.newaxis]
    behind = replace(correction.features, kernel=kernel)
    for features in (correction.features, behind, replace(correction.features, kernel=None)):
        correction = copy.copy(correction)
        correction.features = features
        found = _runtime._corrected(trees._correction(correction), rows, values)
        assert_allclose(found, correction(rows, values), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trees_are_exact(dtype) -> None:
    rng = np.random.default_rng(5)
    rows, targets = rng.normal(size=(300, 3)).astype(dtype), rng.normal(size=(300, 2))
    part = TreesPart.grown(Rows(rows, targets, np.ones(300)), n_trees=5)
    part.coefficients = rng.normal(size=(part.n_points, 2))
    found = _runtime.function_values(trees._of_trees(part), rows)
    assert_allclose(found, part.evaluate(rows), rtol=1e-12)


@pytest.mark.parametrize("name", ["classes", "quantities", "quantiles"])
def test_the_default_is_matched(name: str, default_models, default_data, tmp_path: Path) -> None:
    # Cells keep rows in single precision and predict in double precision.
    model, rows = default_models[name], default_data[0][:300]
    names = exported(model, tmp_path)
    if name == "classes":
        assert np.mean(names["predict"](rows) == model.predict(rows)) > 0.99
        assert_allclose(names["predict_proba"](rows), model.predict_proba(rows), atol=1e-6)
    else:
        expected = model.predict(rows)
        assert_allclose(names["predict"](rows), expected, atol=1e-6 * np.abs(expected).max())


# -- tables ----------------------------------------------------------------------------------------


def frame(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "town": rng.choice(["Bern", "Bonn", "a=(other)", 'say "hi"\\', "nan"], n),
            "smokes": rng.random(n) < 0.3,
            "rooms": rng.integers(0, 5, n),
            "same": 1.0,
            "when": pd.date_range("2020-01-01", periods=n, freq="h"),
            "flag": rng.integers(0, 2, n),
        }
    )
    days = pd.Series(pd.date_range("2019-03-01", periods=n, freq="31h"))
    table["shop"] = [f"shop {i * i % 61}" for i in range(n)]
    table["zip"] = rng.choice([8001.0, 3012.0, 4051.0], n)
    table["paid"] = [f"({7 * i} $)" if i % 2 else f"{1000 + 7 * i:,}.50 $" for i in range(n)]
    table["share"] = [f"{x:.1f} %".replace(".", ",") for x in rng.uniform(0, 100, n)]
    table["born"] = days.dt.strftime("%d.%m.%Y %H:%M")
    table["sold"] = days.dt.strftime("%B %d, %Y")
    table["built"] = days.dt.strftime("%Y%m%d").astype(int)
    table["opens"] = [time(6 + i % 5, i % 60) for i in range(n)]
    table.loc[::25, ["paid", "born"]] = "unknown"
    table.loc[::17, ["zip", "shop", "opens", "sold"]] = None
    table["town"] = table["town"].astype(object)
    table.loc[::7, "age"] = np.nan
    table.loc[::11, "town"] = None
    table["price"] = 3.0 * (table["town"] == "Bern") + table["rooms"] + table["age"].fillna(40) / 10
    table["kind"] = np.where(table["price"] > 6, "high", "low")
    return table


def of_table(estimator, target: str | None, **columns):
    preprocessor = TablePreprocessor(
        exclude=("price", "kind"), kinds={"zip": "category"}, **columns
    )
    return TableRows(estimator, preprocessor, target).partial_fit(frame()).finish().model


TABLE_MODELS = {
    "regression": lambda: of_table(
        KernelRegressor(expansion="dictionary", random_state=0), "price"
    ),
    "classes": lambda: of_table(KernelClassifier(expansion="komp", random_state=0), "kind"),
    "gp": lambda: of_table(GaussianProcessRegressor(n_features=50, random_state=0), "price"),
    "novelty": lambda: of_table(NoveltyDetector(random_state=0), None),
    "unscaled": lambda: of_table(
        KernelRegressor(expansion="komp", random_state=0),
        "price",
        scaling="common",
        dtype="float32",
    ),
    "few levels": lambda: of_table(
        KernelRegressor(expansion="komp", random_state=0), "price", categories=2
    ),
}


@pytest.mark.parametrize("name", TABLE_MODELS)
@pytest.mark.filterwarnings("ignore:.*frequent categories")
def test_tables(name: str, tmp_path: Path) -> None:
    model = TABLE_MODELS[name]()
    names = exported(model, tmp_path)
    new = frame().drop(columns=["price", "kind"])
    new.loc[3, ["town", "shop", "paid", "sold"]] = "never seen"
    new.loc[5, ["rooms"]] = 77
    rtol = 1e-6 if name != "unscaled" else 1e-4
    expected = model.predict(new)
    records = new.astype(object).where(new.notna(), None).to_dict("records")
    columns = {column: new[column].to_numpy() for column in new}
    for rows in (new, records, columns, new.drop(columns="same")):
        found = names["predict"](rows)
        if expected.dtype.kind == "f":
            assert_allclose(found, expected, rtol=rtol)
        else:
            assert_array_equal(found, expected)
    if name == "classes":
        # KOMP computes in single precision here.
        assert_allclose(names["predict_proba"](records), model.predict_proba(new), atol=2e-6)
    assert_array_equal(names["predict"]([]), expected[:0])
    assert_array_equal(names["predict"](records[0]), names["predict"](records[:1]))


def test_inputs_of_tables_are_equal() -> None:
    table = frame()
    y = table.pop("price").to_numpy()
    preprocessor = TablePreprocessor(exclude=("kind",), kinds={"zip": "category"}).fit(table, y)
    tree = trees.table_tree(preprocessor)
    made = preprocessor.feature_names_out()
    assert {"shop:mean", "zip=8001", "paid", "share", "born:hour", "sold", "opens"} < {*made}
    assert {"when:weekday", "built:day_of_year", "sold:day"} < {*made}
    table.loc[1, "shop"], table.loc[2, "zip"] = "a new one", 9000.0
    table.loc[3, ["paid", "share", "born", "sold"]] = "20"
    table.loc[4, ["paid", "share", "born", "sold", "opens"]] = None
    dates = pd.to_datetime(table["when"]) + pd.Timedelta("100D")
    other = table.assign(**dict.fromkeys(["born", "sold", "built"], dates), paid=7.5, share=80)
    for rows in (table, other):
        expected = preprocessor.transform(rows)
        records = rows.astype(object).where(rows.notna(), None).to_dict("records")
        for given in (rows, records, {name: rows[name].to_numpy() for name in rows}):
            assert_allclose(_runtime.encoded(tree, given), expected, rtol=1e-12, atol=1e-12)


def test_means_of_several_classes_and_calendars_of_told_dates() -> None:
    table = frame()
    y = pd.cut(table.pop("price"), 3, labels=["low", "middle", "high"]).to_numpy().astype(str)
    table = table[["shop", "rooms", "when"]].assign(seconds=1e9 + 5e4 * np.arange(len(table)))
    kinds = {"seconds": "date", "rooms": "category", "when": "category"}
    preprocessor = TablePreprocessor(kinds=kinds, min_count=1).fit(table, y)
    assert {"shop:mean=low", "seconds:hour", "rooms=3"} < {*preprocessor.feature_names_out()}
    found = _runtime.encoded(trees.table_tree(preprocessor), table)
    assert_allclose(found, preprocessor.transform(table), rtol=1e-12, atol=1e-12)


def test_times_of_the_day_may_be_text_where_they_were_not() -> None:
    times = [time(i % 24, i % 60, i % 7) for i in range(100)]
    table = pa.table({"at": times})  # in seconds, as CSV files are read
    preprocessor = TablePreprocessor().fit(table)
    tree, expected = trees.table_tree(preprocessor), preprocessor.transform(table)
    for given in (times, [str(moment) for moment in times]):
        assert_array_equal(_runtime.encoded(tree, {"at": given}), expected)


@pytest.mark.parametrize("order", DateForm.ORDERS)
def test_probes_have_dates_in_every_order(order: str) -> None:
    reading = Reading("when", "date", DateForm(order))
    moment = 1_709_251_200.0  # midnight of 1 March 2024
    written = trees.written_value(reading, moment)
    begins = {"time": 0.0, "week y": moment - 4 * 86_400.0}  # Monday of its week
    begins |= dict.fromkeys(("y quarter", "quarter y"), moment - 60 * 86_400.0)
    expected = begins.get(order, moment)
    assert_array_equal(reading.form.read([written]), [expected])


def test_text_is_refused() -> None:
    rng = np.random.default_rng(0)
    words = ["red", "green", "blue", "large", "small", "old", "new", "round", "flat", "soft"]
    table = pd.DataFrame({"age": rng.normal(size=200)})
    table["said"] = [" ".join(rng.choice(words, 6)) for _ in range(200)]
    with pytest.raises(ExportError, match="'said' is read as text, word by word"):
        trees.table_tree(TablePreprocessor().fit(table))
    told = TablePreprocessor(1024, kinds={"said": "category"}, min_count=1).fit(table)
    assert len(trees.table_tree(told)["columns"]) == 2


def test_means_by_whole_rows_are_refused() -> None:
    rng = np.random.default_rng(0)
    name, year = rng.integers(0, 50, 2000), rng.integers(0, 5, 2000)
    table = pd.DataFrame({"name": [f"name {n}" for n in name], "year": year})
    y = rng.normal(size=(50, 5))[name, year] + 0.1 * rng.normal(size=2000)
    with pytest.raises(ExportError, match="in 'name' go by what is in the whole row"):
        trees.table_tree(TablePreprocessor().fit(table, y))
    alone = TablePreprocessor().fit(table.assign(year=rng.normal(size=2000)), y)
    assert len(trees.table_tree(alone)["columns"]) == 2


def test_files_have_what_reads_text_only_if_there_is_some(tmp_path: Path) -> None:
    whole = exported(TABLE_MODELS["regression"](), tmp_path)
    assert {"read_dates", "read_numbers", "PARTS", "compact_dates"} < {*whole}
    columns = TablePreprocessor(exclude=("price",))
    rows = TableRows(KernelRegressor(expansion="komp"), columns, "price")
    rows.partial_fit(frame()[["age", "rooms", "price"]]).finish()
    plain = exported(rows.model, tmp_path)
    assert not {"read_dates", "read_numbers", "PARTS", "compact_dates"} & {*plain}


def test_no_name_has_two_meanings_in_a_file() -> None:
    modules = [_runtime, written, calendar_parts]
    found: dict[str, str] = {}
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            targets = getattr(node, "targets", [getattr(node, "target", node)])
            for name in [getattr(target, "id", getattr(target, "name", "")) for target in targets]:
                if name and name != "__all__":
                    assert found.setdefault(name, module.__name__) == module.__name__, name
    assert {"read_dates", "PARTS", "_number", "Model"} < {*found}


def test_a_category_may_have_any_name() -> None:
    # Also the one that stands for arrays in a file.
    table = pd.DataFrame({"word": ["array", "b"] * 40, "x": np.arange(80) % 9})
    columns = TablePreprocessor(categories=1, exclude=("x",))
    rows = TableRows(KernelRegressor(expansion="komp"), columns, "x")
    with pytest.warns(UserWarning, match="frequent categories"):
        rows.warm_up(table)
    model = rows.partial_fit(table).finish().model
    names: dict = {"__name__": "exported"}
    exec(compile(trees.source_of(model), "model.py", "exec"), names)
    assert_allclose(names["predict"](table), model.predict(table), rtol=1e-6)


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    names = exported(TABLE_MODELS["regression"](), tmp_path)
    new = frame(5).drop(columns=["price", "kind"])
    with pytest.raises(ValueError, match="no column 'town'"):
        names["predict"](new.drop(columns="town"))
    with pytest.raises(ValueError, match="'rooms' must hold numbers, got 'three'"):
        names["predict"](new.astype({"rooms": object}).replace({"rooms": {3: "three", 1: "three"}}))
    with pytest.raises(ValueError, match="'age' must hold finite numbers"):
        names["predict"](new.assign(age=np.inf))
    with pytest.raises(ValueError, match="must have named columns"):
        names["predict"](np.ones((3, 6)))
    with pytest.raises(ValueError, match="different numbers of rows"):
        names["predict"]({**new.to_dict("list"), "age": [1.0]})
    plain = exported(KernelRegressor(expansion="komp").fit(X, Y), tmp_path)
    for rows, match in [(NEW[:, :4], r"shape \(n_rows, 5\)"), (NEW * np.nan, "finite")]:
        with pytest.raises(ValueError, match=match):
            plain["predict"](rows)


def test_a_kind_of_input_that_is_not_known_is_refused(tmp_path: Path, monkeypatch) -> None:
    model = TABLE_MODELS["regression"]()
    names = [*model.preprocessor_.feature_names_out()[:-1], "when=(weekday)"]
    with monkeypatch.context() as patch:
        patch.setattr(TablePreprocessor, "feature_names_out", lambda self: names)
        with pytest.raises(ExportError, match=r"'when=\(weekday\)' is made of its column"):
            export_python(model, tmp_path / "m.py")
    whole = TablePreprocessor.transform
    monkeypatch.setattr(TablePreprocessor, "transform", lambda *a, **more: whole(*a, **more) + 0.5)
    with pytest.raises(ExportError, match="is made of its column"):
        export_python(model, tmp_path / "m.py")
    assert not (tmp_path / "m.py").exists()


# -- files -----------------------------------------------------------------------------------------


def test_the_file_needs_numpy_only(tmp_path: Path) -> None:
    model = TABLE_MODELS["classes"]()
    export_python(model, tmp_path / "model.py")
    new = frame().drop(columns=["price", "kind"])
    new.loc[new["town"] == "nan", "town"] = None  # in CSV it is a gap
    new.to_csv(tmp_path / "new.csv", index=False, sep=";", decimal=",")
    # Nothing else can be imported there.
    script = (
        "import sys, runpy\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.partition('.')[0]\n"
        "        if top not in sys.stdlib_module_names and top != 'numpy':\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Nothing())\n"
        "sys.argv = ['model.py', 'new.csv']\n"
        "runpy.run_path('model.py', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = pd.read_csv(io.StringIO(done.stdout))
    assert_array_equal(found["prediction"], model.predict(new))
    assert_allclose(found["probability_high"], model.predict_proba(new)[:, 0], atol=2e-6)


def test_the_file_of_arrays_reads_csv(tmp_path: Path) -> None:
    model = NoveltyDetector(random_state=0).fit(X)
    export_python(model, tmp_path / "model.py")
    pd.DataFrame(NEW).to_csv(tmp_path / "new.csv", index=False, sep="\t", decimal=",")
    command = [sys.executable, "model.py", "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = pd.read_csv(io.StringIO(done.stdout))
    assert_allclose(found["score"], model.decision_function(NEW), rtol=1e-6, atol=1e-9)
    for words, said in (
        ([], "name of a CSV file"),
        (["--help"], "name of a CSV file"),
        (["nosuch.csv"], "No such file"),
    ):
        done = subprocess.run([*command[:2], *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows below a line of names"),
        ("age,rooms\n", "no rows below a line of names"),
        ("size,rooms\n1,2\n", "The table has no column 'age'"),
        ("age\n1\n", "The table has no column 'rooms'"),
        ("age,rooms\n1,2\n1,2,3\n", "Line 3 has more cells"),
        ("age,rooms\n1,old\n", "'rooms'"),
    ],
)
def test_exported_programs_refuse_other_tables(text, said, tmp_path) -> None:
    table = frame()
    model = KernelRegressor(expansion="komp", random_state=0)
    export_python(model.fit(table[["age", "rooms"]], table["price"]), tmp_path / "model.py")
    (tmp_path / "new.csv").write_text(text)
    command = [sys.executable, "model.py", "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("numbers", [False, True])
def test_estimators_that_learned_frames_are_exported_with_their_columns(tmp_path, numbers) -> None:
    table = frame()
    columns = ["age", "rooms"] if numbers else ["age", "town", "smokes", "when", "shop"]
    rows, y = table[columns].copy(), table["price"].to_numpy()
    if not numbers:
        rows.loc[::9, "age"] = np.nan
    for model, targets in [
        (KernelRegressor(random_state=0), y),
        (KernelClassifier(), y > y.mean()),
    ]:
        model.fit(rows[:200], targets[:200])
        export_python(model, tmp_path / "model.py")
        found = runpy.run_path(str(tmp_path / "model.py"))["predict"](rows[200:])
        if targets is y:
            assert_allclose(found, model.predict(rows[200:]), rtol=1e-3)
        else:
            assert np.mean(found == model.predict(rows[200:])) > 0.98


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_the_file_reads_csv_in_the_usual_encodings(tmp_path: Path, encoding: str) -> None:
    model = NoveltyDetector(random_state=0).fit(X)
    export_python(model, tmp_path / "model.py")
    table = pd.DataFrame(NEW, columns=[f"Größe {i}" for i in range(NEW.shape[1])])
    table.to_csv(tmp_path / "new.csv", index=False, encoding=encoding)
    command = [sys.executable, "model.py", "new.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = pd.read_csv(io.StringIO(done.stdout))
    assert_allclose(found["score"], model.decision_function(NEW), rtol=1e-6, atol=1e-9)


def test_the_same_model_gives_the_same_file_and_an_old_one_stays_if_it_fails(tmp_path) -> None:
    model = KernelRegressor(expansion="komp", random_state=0).fit(X, Y)
    size = export_python(model, tmp_path / "a.py")
    export_python(model, tmp_path / "b.py")
    text = (tmp_path / "a.py").read_bytes()
    assert len(text) == size
    assert text == (tmp_path / "b.py").read_bytes()
    with pytest.raises(ExportError):
        export_python(KernelRegressor(expansion="stream").fit(X, Y), tmp_path / "a.py")
    assert (tmp_path / "a.py").read_bytes() == text


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (KernelRegressor(expansion="stream"), "default of streams"),
        (KernelRanker(pair_kernel="mlpk", pair_label="same"), "answers on pairs"),
        (KernelRegressor(kernel=Cauchy(1.0), expansion="komp"), "for the kernel Cauchy"),
        (KernelRegressor(kernel=Matern(1.2, 1.0), expansion="komp"), "Bessel"),
        (KernelRegressor(kernel=Matern(70.0, 1.0), expansion="komp"), "Bessel"),
        (
            KernelRegressor(kernel=Mapped(Gaussian(1.0), np.sqrt), expansion="komp"),
            "no formula for the map",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_exported_is_refused(model, match: str, tmp_path: Path) -> None:
    model.fit(X, Y > 1 if isinstance(model, KernelRanker) else Y)
    with pytest.raises(ExportError, match=match):
        export_python(model, tmp_path / "model.py")
    assert not (tmp_path / "model.py").exists()


def test_models_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="A DensityRatio cannot be exported"):
        export_python(DensityRatio().fit(X, NEW), tmp_path / "model.py")
    with pytest.raises(ValueError, match="not fitted"):
        export_python(KernelRegressor(), tmp_path / "model.py")


def test_an_export_that_differs_is_refused(tmp_path: Path, monkeypatch) -> None:
    model = KernelRegressor(kernel=Gaussian(1.0), expansion="komp").fit(X, Y)
    monkeypatch.setitem(_runtime._KERNELS, "gaussian", _runtime._KERNELS["polynomial"])
    wrong = {"scale": 1.0, "offset": 1.0, "degree": 2}
    tree = trees.model_tree(model)
    inner = tree["function"]
    inner["kernel"] = {**inner["kernel"], **wrong}
    with pytest.raises(ExportError, match="would differ"):
        trees.check_tree(tree, model)


def test_the_command(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame().drop(columns=["kind", "when"]).to_csv("homes.csv", index=False)
    fit = ["fit", "homes.csv", "--target", "price", "--expansion", "komp", "--out", "m.mercer"]
    assert run(*fit, "--quiet") == 0
    assert run("predict", "m.mercer", "homes.csv", "--out", "p.csv") == 0
    assert run("export", "m.mercer", "--out", "model.py") == 0
    assert "needs NumPy only" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, "model.py", "homes.csv"], capture_output=True, text=True, check=True
    )
    found = pd.read_csv(io.StringIO(done.stdout))["prediction"]
    assert_allclose(found, pd.read_csv("p.csv")["prediction"], rtol=1e-6)
    assert run("export", "m.mercer", "--out", "model.txt") == 2
    assert run("export", "nothing.mercer", "--out", "model.py") == 2
    KernelRegressor(expansion="stream").fit(X, Y).save("stream.mercer")
    assert run("export", "stream.mercer", "--out", "model.py") == 2
    assert "default of streams" in capsys.readouterr().err


def test_values_of_a_table(tmp_path: Path) -> None:
    table = frame().drop(columns=["kind", "when"])
    columns = TransitionColumns(reward="price")
    model = columns.fit(ValueFunction(0.5, random_state=0), table)
    names = exported(model, tmp_path)
    assert_allclose(names["predict"](table), model.predict(table.drop(columns="price")), rtol=1e-6)
    assert "price" not in json.loads((tmp_path / "model.py").read_text().splitlines()[4])
