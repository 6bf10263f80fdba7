"""Calls as nobody should make them, of every estimator: odd inputs, targets, weights and options.

*A case.* A small model has learned 40 rows. One method is then called with rows, targets, weights
or parameters, some of which are odd: other shapes and types, NaN, infinite, enormous and tiny
numbers, no rows, one row, copies, constants, hundreds of classes, labels of mixed types.

*The promise.* The call ends in an error that says what is wrong, and the model is as it was, to the
last bit of its state. The error is one that somebody wrote for the caller: a `raise` in mercer or
in scikit-learn, which checks rows, and not what Python says of a line of mercer. (What NumPy says
of values that are no numbers, as other libraries do, is counted apart.) Or the call succeeds; then
all numbers that it gives are finite, and so are the answers to usual rows after it, unless what it
learned had other columns. Nothing takes more than some seconds.

*Options.* An object is made of a public kernel, loss, risk, schedule, expansion, buffer or
divergence, with odd values for what it takes, and a model learns with it; or a kernel or a schedule
is a function of the caller that gives odd values, or raises at some call. *Functions.* Those that
users call with numbers, of intervals, metrics, theory and the papers' recipes, get odd ones. The
promise is the same, but a bound may be infinite.

To run it:

    python reliability/calls.py                      # long: 100,000 calls, 50,000 of the others
    python reliability/calls.py --short              # seconds to minutes
    python reliability/calls.py --case 1234          # one call, with what it says
    python reliability/calls.py --kind options --case 1234
"""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import itertools
import sys
import traceback
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.exceptions import NotFittedError

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelGradient,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    buffers,
    conformal,
    divergences,
    expansions,
    kernels,
    losses,
    metrics,
    recipes,
    risks,
    schedules,
    theory,
)
from mercer.buffers import FIFO
from mercer.exceptions import DivergenceError
from mercer.expansions import KOMP, Budget, Dictionary, RandomFeatures
from mercer.kernels import Gaussian, Linear, Polynomial
from mercer.losses import Quantile

KERNEL = Gaussian(1.0)
N, WIDTH = 40, 3
_rng = np.random.default_rng(0)
X = _rng.standard_normal((N, WIDTH))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1]
CLASSES = np.digitize(Y, [-0.5, 0.7])
ASKED = _rng.standard_normal((6, WIDTH))
SMALL = KOMP(max_size=15)
MODELS: dict[str, Callable[[], Any]] = {
    "classifier, default": lambda: KernelClassifier(random_state=0),
    "regressor, default": lambda: KernelRegressor(random_state=0),
    "regressor, quantiles": lambda: KernelRegressor(loss=Quantile(0.8), random_state=0),
    "classifier, KOMP": lambda: KernelClassifier(kernel=KERNEL, expansion=SMALL, random_state=0),
    "regressor, KOMP": lambda: KernelRegressor(kernel=KERNEL, expansion=SMALL, random_state=0),
    "regressor, linear": lambda: KernelRegressor(kernel=Linear(), expansion=SMALL, random_state=0),
    "regressor, polynomial": lambda: KernelRegressor(
        kernel=Polynomial(3), expansion=SMALL, random_state=0
    ),
    "regressor, budget": lambda: KernelRegressor(
        "huber", kernel=KERNEL, expansion=Budget(12, "project"), random_state=0
    ),
    "classifier, features": lambda: KernelClassifier(
        kernel=KERNEL, expansion=RandomFeatures(32), random_state=0
    ),
    "regressor, dictionary": lambda: KernelRegressor(
        kernel=KERNEL, expansion=Dictionary(12), random_state=0
    ),
    "ranker": lambda: KernelRanker(kernel=KERNEL, buffer=FIFO(8), expansion=SMALL, random_state=0),
    "novelty": lambda: NoveltyDetector(0.2, kernel=KERNEL, expansion=SMALL, random_state=0),
    "value function": lambda: ValueFunction(
        0.8, "gtd2", kernel=KERNEL, expansion=SMALL, random_state=0
    ),
    "density ratio": lambda: DensityRatio(kernel=KERNEL, expansion=SMALL, random_state=0),
    "gradient": lambda: KernelGradient(
        kernel=KERNEL, expansion=SMALL, batch_size=10, random_state=0
    ),
    "Gaussian process": lambda: GaussianProcessRegressor(
        KERNEL, noise=0.05, n_features=24, random_state=0
    ),
}
#: Errors that say what is wrong; others are broken cases.
TOLD = (ValueError, TypeError, DivergenceError, NotFittedError)
_OURS = str(_rig.ROOT / "src")
#: What NumPy says of values that are no numbers, and Python of a function with other arguments.
_NOT_OURS = (
    *("could not convert", "setting an array element", "must be a string or a real number"),
    *("__call__() missing", "takes exactly", "positional arguments but", "has no len()"),
)
Random = np.random.Generator


def usual(name: str) -> tuple[Any, ...]:
    """Rows and targets that a model takes."""
    if name.startswith("classifier"):
        return X, CLASSES
    if name == "novelty":
        return (X,)
    if name == "value function":
        return X[:-1], Y[:-1], X[1:]
    if name == "density ratio":
        return X[:20], X[20:] + 0.5
    return X, Y


@cache
def fitted(name: str) -> Any:
    """A model that has learned."""
    return MODELS[name]().fit(*usual(name))


# -- odd things -----------------------------------------------------------------------------------

NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 1.7e308, 1e-300, 5e-324, 1e155, 1e20)
INTEGERS = (0, -1, 2**31, 2**53 + 1, 2**63 - 1)


def _put(rng: Random, rows: Any, values: tuple[Any, ...]) -> Any:
    """Put an odd number into some cells, a column, a row, or everywhere."""
    rows = np.array(rows, dtype=np.float64)
    if not rows.size:
        return rows
    value = values[rng.integers(len(values))]
    match rng.integers(4):
        case 0:
            rows.reshape(-1)[rng.integers(rows.size)] = value
        case 1:
            rows[rng.integers(len(rows))] = value
        case 2:
            rows[..., -1] = value
        case _:
            rows[...] = value
    return rows


CELLS = (10**400, -(10**400), "x", "1", b"1", [1.0, 2.0], (1.0,), None, 1j, Decimal("1e999"), len)


def _cell(rng: Random, rows: Any) -> Any:
    """Put something that may be no number into one cell; a list of lists, or of cells."""
    rows = np.asarray(rows, np.float64).tolist()
    if rows:
        place = int(rng.integers(len(rows)))
        inner = rows[place] if isinstance(rows[place], list) and rows[place] else rows
        inner[place if inner is rows else -1] = CELLS[rng.integers(len(CELLS))]
    return rows


ROWS: tuple[Callable[[Random, np.ndarray], Any], ...] = (
    *(lambda rng, a: a, lambda rng, a: a, lambda rng, a: _put(rng, a, NUMBERS)),
    lambda rng, a: _put(rng, a, NUMBERS),
    lambda rng, a: a * rng.choice([1e-300, 1e-30, 1e8, 1e30, 1e155, 1e300]),
    *(lambda rng, a: a[:0], lambda rng, a: a[:1], lambda rng, a: a[:, :1], lambda rng, a: a[:, :0]),
    *(lambda rng, a: np.hstack([a, a]), lambda rng, a: a[0], lambda rng, a: a[np.newaxis]),
    *(lambda rng, a: a.tolist(), lambda rng, a: [[1.0], [1.0, 2.0]], lambda rng, a: None),
    *(lambda rng, a: 3.0, lambda rng, a: "rows", lambda rng, a: {}, lambda rng, a: []),
    *(lambda rng, a: a.astype(object), lambda rng, a: a.astype(str), lambda rng, a: a + 1j),
    *(lambda rng, a: _cell(rng, a), lambda rng, a: pd.DataFrame(_cell(rng, a), dtype=object)),
    *(
        lambda rng, a: a > 0,
        lambda rng, a: a.astype(np.float16),
        lambda rng, a: a.astype(np.float32),
    ),
    lambda rng, a: (a * 100).astype(rng.choice([np.int8, np.int64, np.uint64])),
    lambda rng, a: np.full(a.shape, INTEGERS[rng.integers(len(INTEGERS))]),
    *(lambda rng, a: sparse.csr_array(a), lambda rng, a: sparse.csc_matrix(a)),
    *(lambda rng, a: sparse.coo_array(a), lambda rng, a: sparse.csr_array(_put(rng, a, NUMBERS))),
    *(
        lambda rng, a: pd.DataFrame(a),
        lambda rng, a: pd.DataFrame(a, columns=list("abc")[: a.shape[1]]),
    ),
    lambda rng, a: pd.DataFrame(a, columns=["a", "a", "b"][: a.shape[1]]),
    lambda rng, a: pd.DataFrame(a).astype(object).where(a > 0, None),
    lambda rng, a: pd.DataFrame(a).assign(town="Bern"),
    *(lambda rng, a: np.asfortranarray(a), lambda rng, a: a[::-1], lambda rng, a: a[::2]),
    *(lambda rng, a: np.ma.masked_array(a, a > 0), lambda rng, a: np.repeat(a[:1], len(a), axis=0)),
    lambda rng, a: np.array([[dt.datetime(2020, 1, 1)] * WIDTH] * len(a)),
    lambda rng, a: np.array([[Decimal("1.5")] * WIDTH] * len(a)),
    lambda rng, a: np.array([[Fraction(1, 3)] * WIDTH] * len(a)),
    lambda rng, a: np.full(a.shape, "2020-01-01", dtype="datetime64[s]"),
    *(lambda rng, a: iter(a), lambda rng, a: a.view(np.recarray), lambda rng, a: memoryview(a)),
)
TARGETS: tuple[Callable[[Random, np.ndarray], Any], ...] = (
    *(lambda rng, y: y, lambda rng, y: y, lambda rng, y: _put(rng, y, NUMBERS)),
    *(lambda rng, y: y[:-1], lambda rng, y: y[:0], lambda rng, y: np.zeros_like(y)),
    *(lambda rng, y: y[:, np.newaxis], lambda rng, y: np.column_stack([y, y]), lambda rng, y: None),
    *(
        lambda rng, y: "label",
        lambda rng, y: 1.0,
        lambda rng, y: y.astype(str),
        lambda rng, y: y > 0,
    ),
    *(lambda rng, y: y + 1j, lambda rng, y: y.astype(object), lambda rng, y: list(y)),
    *(lambda rng, y: _cell(rng, y), lambda rng, y: _cell(rng, np.column_stack([y, y]))),
    lambda rng, y: np.array(["a", 1, None, 2.5] * len(y), dtype=object)[: len(y)],
    lambda rng, y: np.array([("a",), 1] * len(y), dtype=object)[: len(y)],
    *(lambda rng, y: np.arange(len(y)), lambda rng, y: [f"class {i}" for i in range(len(y))]),
    lambda rng, y: y * rng.choice([1e-300, 1e155, 1e300]),
    lambda rng, y: np.full(len(y), INTEGERS[rng.integers(len(INTEGERS))]),
    lambda rng, y: pd.Series(y).astype("category"),
    lambda rng, y: pd.Series(y, index=np.arange(len(y)) + 7).astype("Float64").where(y > 0),
    lambda rng, y: np.array(["2020-01-01"] * len(y), dtype="datetime64[D]"),
    lambda rng, y: np.array([b"a", b"b"] * len(y))[: len(y)],
    *(lambda rng, y: sparse.csr_array(np.atleast_2d(y)), lambda rng, y: [[1], [2, 3]]),
)
WEIGHTS: tuple[Callable[[Random, int], Any], ...] = (
    *(lambda rng, n: np.ones(n), lambda rng, n: np.zeros(n), lambda rng, n: -np.ones(n)),
    *(lambda rng, n: rng.random(n), lambda rng, n: np.ones(n + 1), lambda rng, n: 2.0),
    lambda rng, n: _put(rng, np.ones(n), NUMBERS),
    *(
        lambda rng, n: np.full(n, 1e-300),
        lambda rng, n: np.full(n, 1e300),
        lambda rng, n: "balanced",
    ),
    *(lambda rng, n: ["a"] * n, lambda rng, n: np.ones((n, 2)), lambda rng, n: np.ones(n, object)),
)
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        "",
        "auto",
        "komp",
        0,
        1,
        -1,
        3,
        10**9,
        10**400,
        0.0,
        0.5,
        -0.5,
        1e-300,
        1e300,
        np.nan,
    ),
    *(np.inf, [], {}, object(), len, (1, 2), np.ones(3), KERNEL, SMALL, Linear(), "squared", b"x"),
)
_HOW_OFTEN = ("n_passes", "min_steps")
ASKING = (
    *("predict", "predict_proba", "decision_function", "score_samples", "log_ratio", "score"),
    *("predict_one", "predict_proba_one", "learn_one", "partial_dependence", "predict_interval"),
)


def _answers(model: Any) -> list[Any]:
    methods = ("predict", "predict_proba", "decision_function", "score_samples", "log_ratio")
    return [getattr(model, name)(ASKED) for name in methods if hasattr(model, name)]


def finite(value: Any, or_infinite: bool = False) -> bool:
    """Whether all numbers in an answer are finite, or at least none is NaN."""
    if isinstance(value, dict):
        return finite(list(value.values()), or_infinite)
    if isinstance(value, list | tuple):
        return all(finite(one, or_infinite) for one in value)
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return True
    return not np.isnan(array).any() if or_infinite else bool(np.isfinite(array).all())


def _one_of(rng: Random, makers: tuple[Callable[..., Any], ...], like: Any) -> Any:
    return makers[rng.integers(len(makers))](rng, like)


def arguments(rng: Random, name: str, method: str) -> tuple[list[Any], dict[str, Any]]:
    """Odd arguments of a method that learns or is asked."""
    given, options = list(usual(name)), {}
    if method in ("fit", "partial_fit", "score"):
        for place, value in enumerate(given):
            if rng.random() < 0.6:
                makers = ROWS if np.ndim(value) == 2 else TARGETS
                given[place] = _one_of(rng, makers, value)
        if rng.random() < 0.3:
            options["sample_weight"] = _one_of(rng, WEIGHTS, len(X))
        if method == "partial_fit" and name.startswith("classifier") and rng.random() < 0.2:
            options["classes"] = _one_of(rng, TARGETS, np.arange(4))
        if rng.random() < 0.1:
            given = given[:-1]
        return given, options
    row = _one_of(rng, ROWS, ASKED)
    if method.endswith("_one"):
        row = [row, dict(enumerate(ASKED[0])), ASKED[0], {"a": 1.0}, {0: "x"}][rng.integers(5)]
        return ([row, VALUES[rng.integers(len(VALUES))]] if "learn" in method else [row]), {}
    if method == "partial_dependence":
        return [VALUES[rng.integers(len(VALUES))]], {}
    if method == "predict_interval":
        return [row, VALUES[rng.integers(len(VALUES))]], {}
    return [row], {}


def call(case: int) -> str:
    """Make the call of a case; how it ended."""
    rng = np.random.default_rng([54, case])
    name = list(MODELS)[rng.integers(len(MODELS))]
    # A copy: other cases have the same kernel and expansion, and parameters of these are set.
    model = copy.deepcopy(fitted(name) if rng.random() < 0.85 else MODELS[name]())
    is_fitted = hasattr(model, "n_features_in_")
    if rng.random() < 0.2:
        some = sorted(model.get_params())
        try:
            name_of, value = some[rng.integers(len(some))], VALUES[rng.integers(len(VALUES))]
            if isinstance(value, int) and value == 10**9 and name_of.endswith(_HOW_OFTEN):
                value = 10  # who asks for passes of years gets them
            model.set_params(**{name_of: value})
        except TOLD as error:
            return _told(error)
    methods = ["partial_fit", "fit", *(one for one in ASKING if hasattr(model, one))]
    method = methods[rng.integers(2) if rng.random() < 0.5 else rng.integers(len(methods))]
    if not hasattr(model, method):
        method = "fit"
    given, options = arguments(rng, name, method)
    before = _stored(model) if is_fitted else ""
    try:
        answer = getattr(model, method)(*given, **options)
    except TOLD as error:
        if before and _rig.digest(model) != before:
            raise RuntimeError(f"{name}.{method} failed and changed the model: {error}") from error
        return _told(error)
    if answer is not model and not finite(answer):
        raise RuntimeError(f"{name}.{method} gives numbers that are not finite")
    if method in ("fit", "partial_fit", "learn_one"):
        try:
            if not finite(_answers(model)):
                raise RuntimeError(f"{name}: answers after {method} are not finite")
        except TOLD as error:
            if _are_usual(given[0]) and len not in model.get_params().values():  # it raises later
                raise RuntimeError(f"{name}: usual rows are refused after {method}") from error
            return f"learned, then {_told(error)}"
    elif before and _rig.digest(model) != before:
        raise RuntimeError(f"{name}.{method} changed the model")
    return "done"


def _stored(model: Any) -> str:
    """Digest of a model; empty if its parameters cannot be stored."""
    try:
        return _rig.digest(model)
    except TOLD as error:
        _told(error)
        return ""


def _are_usual(rows: Any) -> bool:
    """Whether rows are numbers in as many columns as those that are asked."""
    array = np.asarray(rows)
    return array.dtype.kind in "fiub" and array.shape[1:] == ASKED.shape[1:]


# -- options and functions ------------------------------------------------------------------------

FAMILIES: dict[str, tuple[Any, str, str]] = {
    "kernel": (kernels, "regressor, KOMP", "kernel"),
    "loss": (losses, "regressor, KOMP", "loss"),
    "loss of classes": (losses, "classifier, KOMP", "loss"),
    "risk": (risks, "regressor, KOMP", "risk"),
    "step size": (schedules, "regressor, KOMP", "step_size"),
    "expansion": (expansions, "regressor, KOMP", "expansion"),
    "buffer": (buffers, "ranker", "buffer"),
    "divergence": (divergences, "density ratio", "f_divergence"),
}
#: What the caller's functions give; exceptions are raised.
GIVEN = (
    *(np.nan, np.inf, -1.0, 0.0, 1e300, 1e-300, None, "x", [], np.ones((2, 3)), 1j, 10**400),
    *(KeyError("mine"), ValueError("of the caller's own function"), OSError("of the caller")),
)
SCORES = np.abs(Y)
_STEPS, _BOX = schedules.PowerDecay(0.1, 0.75), theory.Box([2.0, 2.0])
_BOUNDS = {"kernel_bound": 1.0, "solution_norm": 2.0}
_UNREGULARIZED = {"schedule": _STEPS, "loss": "logistic", **_BOUNDS}
_POLK = {"regularization": 0.1, "parsimony": 0.04, "variance": 0.5}
_ORDER = {"step_size": 0.1, "slope_bound": 1.0}
_OFF = {"low": Y[:, np.newaxis] - 1.0, "high": Y[:, np.newaxis] + 1.0}
#: Functions of numbers, with usual arguments.
FUNCTIONS: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    (conformal.conformal_quantile, {"scores": SCORES, "coverage": 0.9, "weights": SCORES}),
    (conformal.cross_conformal, {**_OFF, "scores": SCORES, "coverage": 0.9, "weights": SCORES}),
    (metrics.concordance, {"y": Y, "scores": SCORES, "group": CLASSES, "sample_weight": SCORES}),
    (metrics.auc_standard_error, {"positive": Y > 0, "scores": SCORES}),
    (metrics.ndcg, {"y": SCORES, "scores": Y, "group": CLASSES, "k": 5}),
    (theory.polk_bias, {"step_size": 0.1, "tolerance": 0.01}),
    (theory.polk_radius, {"step_size": 0.1, **_POLK}),
    (theory.polk_step_size, {"radius": 5.0, **_POLK}),
    (theory.polk_norm, {"slope_bound": 1.0, "kernel_bound": 1.0, "regularization": 0.1}),
    (theory.packing_number, {"kernel": "gaussian", "domain": _BOX, "distance": 0.5}),
    (
        theory.polk_model_order,
        {"kernel": "gaussian", "domain": _BOX, "parsimony": 0.04, **_ORDER},
    ),
    (theory.colk_model_order, {"tolerance": 0.1, "dimension": 2, **_ORDER}),
    (theory.unregularized_limits, _UNREGULARIZED),
    (theory.unregularized_rate, _UNREGULARIZED),
    (theory.pairwise_norm, {"schedule": 0.1, "loss": "squared", "n_rows": 10}),
    (theory.pairwise_rate, {**_UNREGULARIZED, "variance": 0.5, "delta": 0.05}),
    *(
        (
            recipe,
            {name: given.default for name, given in inspect.signature(recipe).parameters.items()},
        )
        for recipe in map(vars(recipes).get, recipes.__all__)
        if recipe is not None
    ),
)


def option(case: int) -> str:
    """Make an odd option and let a model learn with it; how that ended."""
    rng = np.random.default_rng([55, case])
    family = list(FAMILIES)[rng.integers(len(FAMILIES))]
    module, name, parameter = FAMILIES[family]
    try:
        if parameter in ("kernel", "step_size") and rng.random() < 0.3:
            made = _of_caller(rng, takes_arrays=parameter == "kernel")
        else:
            made = _odd(rng, module)
        model = MODELS[name]().set_params(**{parameter: made})
        model.fit(*usual(name))
    except TOLD as error:
        return _told(error)
    except (KeyError, OSError) as error:
        if "mine" not in str(error) and "of the caller" not in str(error):
            raise
        return "told"
    try:
        if not finite(_answers(model)):
            raise RuntimeError(f"{family} {made!r}: answers are not finite")
        before = _rig.digest(model)
        copied = copy.deepcopy(model)
    except TOLD as error:  # functions of the caller cannot be stored
        return f"learned, then {_told(error)}"
    if _rig.digest(copied) != before:
        raise RuntimeError(f"{family} {made!r}: a copy is another model")
    return "learned"


def _odd(rng: Random, module: Any) -> Any:
    """An object of a public class of the module, some of whose parameters are odd."""
    classes = [one for one in map(vars(module).get, module.__all__) if inspect.isclass(one)]
    plain = [one for one in classes if not any(other in classes for other in one.__subclasses__())]
    made = plain[rng.integers(len(plain))]
    given = {}
    for parameter in inspect.signature(made).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty or rng.random() < 0.4:
            given[parameter.name] = VALUES[rng.integers(len(VALUES))]
    return made(**given)


def _of_caller(rng: Random, takes_arrays: bool) -> Callable[..., Any]:
    """A function as users write them, which gives something odd or raises at some call."""
    wrong, at, calls = GIVEN[rng.integers(len(GIVEN))], int(rng.integers(6)), itertools.count()

    def plain(first: Any, second: Any = None) -> Any:
        if next(calls) >= at:
            if isinstance(wrong, Exception):
                raise wrong
            return wrong
        if not takes_arrays:
            return 0.1
        return np.exp(-(np.linalg.norm(first[:, np.newaxis] - second, axis=2) ** 2))

    return plain


def function(case: int) -> str:
    """Call a function with some odd arguments; how that ended."""
    rng = np.random.default_rng([56, case])
    called, plain = FUNCTIONS[rng.integers(len(FUNCTIONS))]
    given = dict(plain)
    for name, value in plain.items():
        if rng.random() < 0.4:
            if isinstance(value, np.ndarray):
                given[name] = _one_of(rng, TARGETS if value.ndim == 1 else ROWS, value)
            elif name == "n_rows":  # 10^9 may be asked, and take an hour
                given[name] = INTEGERS[rng.integers(2)]
            else:
                given[name] = (*VALUES, *NUMBERS)[rng.integers(len(VALUES) + len(NUMBERS))]
    try:
        answer = called(**given)
    except TOLD as error:
        return _told(error)
    if not isinstance(answer, KernelRegressor | KernelClassifier | KernelRanker):
        if called is metrics.auc_standard_error:  # documented
            answer = np.nan_to_num(answer)
        if not finite(answer, or_infinite=True):
            raise RuntimeError(f"{called.__name__} with {given!r} is not a number")
    return "done"


def _told(error: BaseException) -> str:
    """Raise RuntimeError unless somebody wrote the error for the caller."""
    said = f"{type(error).__name__}: {str(error)[:200]}"
    if len(str(error)) < 15:
        raise RuntimeError(f"it says only {said}") from error
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = last.filename.startswith(_OURS)
    if str(last.line).startswith("raise ") and (is_ours or "/sklearn/" in last.filename):
        return "told"
    if last.filename == __file__:  # an error of the caller's, or an argument is missing
        return "told"
    if is_ours and not any(words in said for words in _NOT_OURS):
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise RuntimeError(f"an accident, {said} ({place})") from error
    return "an error of another library"


def main(arguments: list[str]) -> int:
    """Make the calls and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--calls", type=int)
    parser.add_argument("--case", type=int)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    kinds = options.kind or list(KINDS)
    for name in MODELS:
        _answers(fitted(name))
    if options.case is not None:
        print(KINDS[kinds[0]][0](options.case))
        return 0
    report = _rig.Report("calls", options, names=KINDS)
    for kind in kinds:
        run, short, long = KINDS[kind]
        n = options.calls if options.calls is not None else short if options.short else long
        report.add_tally(kind, _rig.each_case(run, range(options.first, options.first + n)))
    return report.end()


#: What there is, shortly and in the long run.
KINDS: dict[str, tuple[Callable[[int], str], int, int]] = {
    "calls": (call, 400, 100_000),
    "options": (option, 200, 30_000),
    "functions": (function, 300, 20_000),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
