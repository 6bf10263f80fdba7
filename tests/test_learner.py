"""The loop against slow oracles, the compiled way against the Python way, and reductions."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from covering import covering
from mercer import KernelClassifier, KernelRanker, KernelRegressor, kernels, losses
from mercer.estimators.start import make_learner
from mercer.exceptions import NothingLearnedWarning, TargetScaleWarning
from mercer.expansions import KOMP, Budget, Dictionary, Full, Quantized
from mercer.functions import start
from mercer.kernels import FunctionKernel, Gaussian
from mercer.learning import KernelLearner, automatic_step
from mercer.learning import kernel_steps as learner
from mercer.learning.loop import UnsoundStepError, make_step
from mercer.losses import Loss
from mercer.objectives import Batch, Pointwise
from mercer.schedules import Constant, InverseTime, PowerDecay
from oracles import NaivePOLK, functional_sgd, gaussian_gram

LENGTH_SCALE = 0.7
KERNEL = Gaussian(LENGTH_SCALE)
GRID = np.random.default_rng(99).normal(size=(60, 2))


@njit
def _tent_product(x, z):
    product = 1.0
    for j in range(x.size):
        product *= max(0.0, 1.0 - 0.3 * abs(x[j] - z[j]))
    return product


LOSSES = [
    cls()
    for cls in vars(losses).values()
    if isinstance(cls, type) and issubclass(cls, Loss) and cls.row is not None
]
LOSSES.append(losses.Quantile([0.2, 0.9]))
KERNELS = [
    Gaussian(LENGTH_SCALE),
    kernels.Laplacian(2.0),
    kernels.Cauchy(1.5),
    kernels.Matern(0.5, 1.0),
    kernels.Matern(1.5, 1.0),
    kernels.Matern(2.5, 1.0),
    kernels.RationalQuadratic(0.8, 1.0),
    kernels.Linear(),
    kernels.Polynomial(degree=2),
    kernels.ArcCosine(0),
    kernels.ArcCosine(1),
    kernels.ArcCosine(2),
    FunctionKernel(_tent_product, bound=1.0),
]
EXPANSIONS = [
    Full(),
    Full(max_size=9),
    KOMP(tolerance=0.05),
    KOMP(parsimony=0.05, max_size=6),
    Budget(7, "remove"),
    Budget(7, "project"),
    Budget(7, "merge"),
    Quantized(0.3, 7),
]


def python_only(monkeypatch):
    monkeypatch.setattr(KernelLearner, "compiled", lambda self, dtype: None)


@pytest.fixture(params=["compiled", "python"])
def each_path(request, monkeypatch):
    if request.param == "python":
        python_only(monkeypatch)


def targets_for(loss, rng, n):
    if loss.task == "classification":
        return rng.integers(0, 3, size=n)
    return rng.gamma(2.0, 0.5, size=n)


def model_for(loss, **parameters):
    cls = KernelClassifier if loss.task == "classification" else KernelRegressor
    return cls(loss, **{"kernel": KERNEL, "average": None, "step_size": 0.5, **parameters})


def scores(model, X):
    return model.learner_.function.evaluate(X)


# -- POLK, Algorithm 2 ----------------------------------------------------------------------------


def softmax_slopes(labels):
    def derivative(F):
        e = np.exp(F)
        return e / e.sum(axis=1, keepdims=True) - np.eye(F.shape[1])[labels]

    return derivative


def multiclass_hinge_slopes(labels):
    def derivative(F):
        slopes = np.zeros_like(F)
        for i, y in enumerate(labels):
            rivals = [c for c in range(F.shape[1]) if c != y]
            best = max(rivals, key=lambda c: F[i, c])
            if 1.0 + F[i, best] - F[i, y] > 0.0:
                slopes[i, best], slopes[i, y] = 1.0, -1.0
        return slopes

    return derivative


def squared_slopes(y):
    return lambda F: F - y[:, None]


SLOPES = {
    "softmax": softmax_slopes,
    "multiclass_hinge": multiclass_hinge_slopes,
    "squared": squared_slopes,
}


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize(
    ("loss", "batch_size", "each_path"),
    covering(SLOPES, [1, 8], ["compiled", "python"]),
    indirect=["each_path"],
)
def test_polk_equals_algorithm_2_step_by_step(loss, batch_size):
    slopes = SLOPES[loss]
    rng = np.random.default_rng(5)
    step_size, regularization = 0.8, 0.02
    tolerance = 0.05 * step_size**1.5
    classification = loss != "squared"
    parameters = {
        "kernel": KERNEL,
        "average": None,
        "expansion": KOMP(tolerance=tolerance),
        "step_size": step_size,
        "regularization": regularization,
        "batch_size": batch_size,
    }
    oracle = NaivePOLK(LENGTH_SCALE, step_size, regularization, tolerance)
    model = (KernelClassifier if classification else KernelRegressor)(loss, **parameters)
    extra = {"classes": [0, 1, 2]} if classification else {}
    n_outputs = 3 if classification else 1
    n_steps = 30 if batch_size == 1 else 10
    for _ in range(n_steps):
        X = rng.normal(size=(batch_size, 2))
        y = rng.integers(0, 3, size=batch_size) if classification else np.sin(X[:, 0] + X[:, 1])
        model.partial_fit(X, y, **extra)
        oracle.step(X, slopes(y), n_outputs)
        assert model.model_order_ == len(oracle.points)
        assert {tuple(p) for p in model.dictionary_} == {tuple(p) for p in oracle.points}
        assert_allclose(scores(model, GRID), oracle.evaluate(GRID, n_outputs), atol=1e-7)
    assert 3 < model.model_order_ < n_steps * batch_size
    assert (model.history_.compression_error <= tolerance).all()


# -- compiled code and Python do the same -------------------------------------------------------


def check_both_ways(monkeypatch, make, X, y, rtol=1e-9):
    compiled = make().partial_fit(X, y)
    functions = compiled.learner_.compiled(compiled.learner_.function.dtype)
    assert functions is not None
    with monkeypatch.context() as patch:
        python_only(patch)
        plain = make().partial_fit(X, y)
    assert compiled.model_order_ == plain.model_order_
    expected = scores(plain, GRID.astype(X.dtype))
    scale = np.abs(expected).max()
    assert scale > 0.0
    assert_allclose(scores(compiled, GRID.astype(X.dtype)), expected, rtol=rtol, atol=rtol * scale)
    for name in ("loss", "model_order", "step_size"):
        assert_allclose(
            getattr(compiled.history_, name),
            getattr(plain.history_, name),
            rtol=10 * rtol,
            atol=rtol,
        )
    # The error is a root of a difference of squares: half of the digits.
    assert_allclose(
        compiled.history_.compression_error,
        plain.history_.compression_error,
        atol=2.0 * np.sqrt(rtol) * scale,
    )


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_compiled_steps_equal_python_steps_for_every_loss(monkeypatch, loss, batch_size):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), targets_for(loss, rng, 60)
    check_both_ways(
        monkeypatch,
        lambda: model_for(loss, batch_size=batch_size, expansion=KOMP(tolerance=0.05)),
        X,
        y,
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: repr(k).split(" at 0x")[0])
def test_compiled_steps_equal_python_steps_for_every_kernel(monkeypatch, kernel, dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)).astype(dtype)
    y = np.sin(2.0 * X[:, 0])
    for batch_size in (1, 7):
        check_both_ways(
            monkeypatch,
            lambda b=batch_size: KernelRegressor(
                kernel=kernel,
                average=None,
                step_size=0.02,
                batch_size=b,
                expansion=Full(max_size=20),
            ),
            X,
            y,
            rtol=1e-9 if dtype == np.float64 else 2e-4,
        )


@pytest.mark.parametrize("average", [None, "polyak", "suffix"])
@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_compiled_steps_equal_python_steps_for_every_expansion(
    monkeypatch, expansion, batch_size, average
):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 3, size=80)

    def make():
        return KernelClassifier(
            "softmax",
            kernel=KERNEL,
            expansion=expansion,
            step_size=PowerDecay(0.9, 0.2),
            regularization=0.05,
            batch_size=batch_size,
            average=average,
        )

    check_both_ways(monkeypatch, make, X, y)


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_compiled_steps_equal_python_steps_in_float32(monkeypatch, expansion):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    y = rng.integers(0, 2, size=60)
    check_both_ways(
        monkeypatch,
        lambda: KernelClassifier(kernel=KERNEL, expansion=expansion, step_size=1.0, batch_size=5),
        X,
        y,
        rtol=1e-3,
    )


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_a_model_that_outgrows_compiled_loops_goes_on_in_python(monkeypatch, expansion):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 2, size=90)

    def make():
        return KernelClassifier(kernel=KERNEL, expansion=expansion, step_size=1.0, batch_size=6)

    whole = make().partial_fit(X, y)
    monkeypatch.setattr(learner, "_MAX_WORK", 10)  # five points of two features
    mixed = make().partial_fit(X, y)
    assert_allclose(scores(mixed, GRID), scores(whole, GRID), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("each_path")
def test_an_ill_conditioned_model_takes_the_safer_path_and_keeps_its_tolerance():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, size=(200, 1))
    model = KernelRegressor(
        kernel=Gaussian(1.5),
        average=None,
        expansion=KOMP(tolerance=1e-5),
        step_size=0.5,
        batch_size=4,
    )
    model.partial_fit(X, np.sin(5.0 * X[:, 0]))
    assert model.learner_.function.promoted == "triangular"
    assert (model.history_.compression_error <= 1e-5).all()
    full = KernelRegressor(
        kernel=Gaussian(1.5), average=None, expansion=Full(), step_size=0.5, batch_size=4
    )
    full.partial_fit(X, np.sin(5.0 * X[:, 0]))
    # 50 steps, each off by at most 1e-5.
    assert_allclose(model.predict(X), full.predict(X), atol=50e-5)


@pytest.mark.usefixtures("each_path")
def test_float32_gives_way_to_float64_in_the_middle_of_a_call():
    rng = np.random.default_rng(6)
    X = 3.0 * rng.normal(size=(40, 2)).astype(np.float32)
    X = np.vstack([X, X + np.float32(0.03)])
    y = rng.normal(size=80)
    parameters = {"kernel": Gaussian(1.0), "average": None, "step_size": 0.5, "batch_size": 4}
    model = KernelRegressor(expansion=KOMP(tolerance=1e-4), **parameters).partial_fit(X, y)
    assert model.learner_.function.promoted == "float64"
    full = KernelRegressor(expansion=Full(), **parameters).partial_fit(X.astype(float), y)
    assert_allclose(model.predict(X), full.predict(X), atol=5e-3)


def test_the_written_out_loop_is_what_the_learner_does():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(50, 2))
    y, weights = np.where(X[:, :1] > 0.3, 1.0, -1.0), rng.uniform(0.5, 1.0, size=50)
    automatic = automatic_step(KERNEL, X, 0.25, 1.0)
    objective, schedule = Pointwise(losses.Logistic()), PowerDecay(0.9, 0.2)
    expansion = KOMP(tolerance=0.05)

    def begin():
        return start(expansion, KERNEL, n_features=2, n_outputs=1, averaging=None)

    learner_ = make_learner(objective, begin(), schedule, 0.01, 10, automatic)
    assert learner_.compiled(np.dtype(float)) is not None
    learner_.learn(X, y, weights)
    f, steps = begin(), []
    for t in range(5):
        rows = slice(10 * t, 10 * t + 10)
        batch = Batch(X[rows], y[rows], weights[rows])
        steps.append(make_step(f, objective, batch, schedule(t + 1), 0.01, 0.05, np.inf))
    assert 3 < f.size == learner_.function.size < 50
    assert_allclose(f.evaluate(GRID), learner_.evaluate(GRID), atol=1e-10)
    assert_allclose([step.losses.mean() for step in steps], learner_.history.loss, rtol=1e-10)
    errors = [step.error for step in steps]
    assert_allclose(errors, learner_.history.compression_error, atol=1e-7)


def test_a_step_that_diverges_moves_nothing():
    f = start(Full(), KERNEL, n_features=2, n_outputs=1, averaging=None)
    objective = Pointwise(losses.Squared())
    batch = Batch(GRID[:5], GRID[:5, :1], np.ones(5))
    make_step(f, objective, batch, 0.5, 0.0, 0.0, np.inf)
    before = f.evaluate(GRID)
    far_out = batch._replace(targets=np.full((5, 1), 1e3))
    endless = batch._replace(weights=np.full(5, np.inf))
    for wild, largest in ((far_out, 10.0), (endless, np.inf)):
        with pytest.raises(UnsoundStepError):
            make_step(f, objective, wild, 0.5, 0.1, 0.0, largest)
    assert_array_equal(f.evaluate(GRID), before)


PAIRS = {"pair_kernel": "antisymmetric", "buffer": 5, "expansion": KOMP()}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(KernelClassifier, {"expansion": KOMP()}), (KernelRanker, PAIRS), (KernelRanker, {})],
)
def test_a_single_row_whose_kernel_fails_changes_nothing(kind, settings):
    calls_left = np.inf

    def fails_at_last(A, B):
        nonlocal calls_left
        calls_left -= 1
        if calls_left < 0:
            raise RuntimeError("no kernel")
        return gaussian_gram(A, B, LENGTH_SCALE)

    labels = np.where(GRID[:, 0] > 0.0, 1, -1)
    model = kind("logistic", kernel=fails_at_last, regularization=0.1, step_size=0.5, **settings)
    model.partial_fit(GRID[:-1], labels[:-1])
    before = model.learner_.to_state(whole=True)
    for n_calls in range(20):
        calls_left = n_calls
        try:
            model.learn_one(GRID[-1], labels[-1])
        except RuntimeError:
            np.testing.assert_equal(model.learner_.to_state(whole=True), before)
        else:
            break
    assert calls_left == 0
    assert n_calls > 2


# -- reductions ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "hinge"])
def test_zero_tolerance_is_functional_sgd(loss):
    rng = np.random.default_rng(7)
    X, y = 2.0 * rng.normal(size=(40, 2)), rng.integers(0, 2, size=40)
    parameters = {
        "kernel": KERNEL,
        "average": None,
        "step_size": 0.5,
        "regularization": 0.03,
        "batch_size": 3,
    }
    compressed = KernelClassifier(loss, expansion=KOMP(tolerance=0.0), **parameters)
    full = KernelClassifier(loss, expansion=Full(), **parameters)
    assert_allclose(
        compressed.partial_fit(X, y).decision_function(GRID),
        full.partial_fit(X, y).decision_function(GRID),
        atol=1e-6,
    )


def margin_derivative(loss, y):
    signs = 2.0 * y - 1.0
    if loss == "logistic":
        return lambda t, f: -signs[t] / (1.0 + np.exp(signs[t] * f))
    return lambda t, f: -2.0 * signs[t] * np.maximum(1.0 - signs[t] * f, 0.0)


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("schedule", [Constant(0.4), PowerDecay(0.9, 0.6), InverseTime(0.5, 10)])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_full_is_functional_sgd_with_regularization(loss, schedule):
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, size=50)
    y[0] = 0
    step_sizes = [schedule(t) for t in range(1, 51)]
    expected = functional_sgd(X, margin_derivative(loss, y), step_sizes, 0.1, LENGTH_SCALE, 1)
    model = KernelClassifier(
        loss,
        kernel=KERNEL,
        average=None,
        expansion=Full(),
        step_size=schedule,
        regularization=0.1,
        batch_size=1,
    ).partial_fit(X, y, classes=[0, 1])
    expected = gaussian_gram(GRID, X, LENGTH_SCALE) @ expected
    assert_allclose(model.decision_function(GRID), expected[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("single", [False, True])
def test_the_ridge_may_depend_on_the_step(single):
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, size=50)
    y[0] = 0
    ridge, t = PowerDecay(1.0, 0.5), np.arange(1.0, 51.0)
    expected = functional_sgd(
        X, margin_derivative("logistic", y), [0.4] * 50, t**-0.5, LENGTH_SCALE, 1
    )
    model = KernelClassifier(
        "logistic",
        kernel=KERNEL,
        average=None,
        expansion=Full(),
        step_size=0.4,
        regularization=ridge,
        batch_size=1,
    ).partial_fit(X[:1], y[:1], classes=[0, 1])
    if single:
        for x, label in zip(X[1:], y[1:], strict=True):
            model.learn_one(x, label)
    else:
        model.partial_fit(X[1:], y[1:])
    expected = gaussian_gram(GRID, X, LENGTH_SCALE) @ expected
    assert_allclose(model.decision_function(GRID), expected[:, 0], rtol=1e-9, atol=1e-12)
    assert model.get_params()["regularization"] is ridge
    assert model.learner_.ridge == ridge(51)


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_unregularised_full_with_decaying_steps_is_algorithm_1_of_ying_and_zhou(loss):
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, size=40)
    derivative = margin_derivative(loss, y)
    coefficients = []
    for t in range(40):  # f_{t+1} = f_t - gamma_t phi'(f_t(x_t), y_t) K_{x_t}
        f = sum(
            c * np.exp(-((X[i] - X[t]) ** 2).sum() / (2 * LENGTH_SCALE**2))
            for i, c in enumerate(coefficients)
        )
        coefficients.append(float(-0.5 * (t + 1) ** -0.7 * derivative(t, f)))
    model = KernelClassifier(
        loss,
        kernel=KERNEL,
        average=None,
        expansion="full",
        step_size=PowerDecay(0.5, 0.7),
        regularization=0.0,
        batch_size=1,
    ).partial_fit(X, y)
    moved = np.array(coefficients) != 0.0
    assert_allclose(model.dictionary_, X[moved])
    assert_allclose(model.coefficients_[:, 0], np.array(coefficients)[moved], rtol=1e-9)


@pytest.mark.usefixtures("each_path")
def test_capped_full_is_norma_with_truncation():
    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    step_size, regularization, cap = 0.3, 0.2, 6
    terms = []
    for t in range(30):
        row = gaussian_gram(X[t : t + 1], X, LENGTH_SCALE)[0]
        f = sum(c * row[i] for i, c in terms)
        terms = [(i, (1.0 - step_size * regularization) * c) for i, c in terms]
        terms = [*terms, (t, -step_size * (f - y[t]))][-cap:]
    model = KernelRegressor(
        kernel=KERNEL,
        average=None,
        expansion=Full(max_size=cap),
        step_size=step_size,
        regularization=regularization,
        batch_size=1,
    ).partial_fit(X, y)
    expected = sum(c * gaussian_gram(GRID, X[i : i + 1], LENGTH_SCALE)[:, 0] for i, c in terms)
    assert_allclose(model.predict(GRID), expected, rtol=1e-9, atol=1e-12)
    assert model.model_order_ == cap


@pytest.mark.parametrize("average", [None, "polyak", "suffix"])
@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
def test_the_model_is_its_dictionary_and_coefficients(expansion, average):
    rng = np.random.default_rng(11)
    X, y = 3.0 * rng.normal(size=(70, 2)), rng.normal(size=(70, 2))
    model = KernelRegressor(
        kernel=KERNEL,
        expansion=expansion,
        step_size=0.5,
        regularization=0.3,
        average=average,
        batch_size=4,
    ).partial_fit(X, y)
    assert model.learner_.function.scale < 1.0  # lazily scaled
    assert model.dictionary_.shape == (model.model_order_, 2)
    assert model.coefficients_.shape == (model.model_order_, 2)
    expected = model.kernel_(GRID, model.dictionary_) @ model.coefficients_
    assert_allclose(model.predict(GRID), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("average", ["polyak", "suffix"])
def test_averaging_is_the_weighted_mean_of_the_iterates(average):
    rng = np.random.default_rng(12)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    parameters = {"kernel": KERNEL, "expansion": Full(), "step_size": 0.5, "batch_size": 3}
    plain = KernelRegressor(average=None, **parameters)
    mean, exponent = np.zeros(len(GRID)), {"polyak": 0.0, "suffix": 3.0}[average]
    for t in range(1, 11):
        plain.partial_fit(X[3 * t - 3 : 3 * t], y[3 * t - 3 : 3 * t])
        rho = (exponent + 1.0) / (t + exponent)
        mean = (1.0 - rho) * mean + rho * plain.predict(GRID)
    averaged = KernelRegressor(average=average, **parameters).partial_fit(X, y)
    assert_allclose(averaged.predict(GRID), mean, rtol=1e-9, atol=1e-12)


# -- things that must not pass in silence -------------------------------------------------------


@pytest.mark.usefixtures("each_path")
def test_a_tolerance_above_the_step_warns_once():
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(tolerance=100.0), step_size=0.1)
    with pytest.warns(NothingLearnedWarning, match="Lower `tolerance`"):
        model.partial_fit(X, y)
    model.partial_fit(X, y)  # warnings are errors here
    model.learn_one(X[0], y[0])
    assert model.model_order_ == 0
    assert_allclose(model.predict(X), 0.0)


@pytest.mark.usefixtures("each_path")
def test_zero_targets_are_no_reason_to_warn():
    model = KernelRegressor(kernel=KERNEL, expansion="komp", batch_size=2)
    model.partial_fit(GRID, np.zeros(60))
    assert model.model_order_ == 0
    # The first rows that say something set the scale.
    model.partial_fit(GRID, np.ones(60))
    assert model.model_order_ > 0


def test_schedules_are_asked_for_the_step_number():
    asked = []

    def schedule(t):
        asked.append(t)
        return 0.1

    model = KernelRegressor(kernel=KERNEL, step_size=schedule, batch_size=20)
    model.partial_fit(GRID, GRID[:, 0])
    model.learn_one(GRID[0], 1.0)
    model.partial_fit(GRID[:3], GRID[:3, 0])
    assert asked == [1, 2, 3, 4, 5]


def test_a_tolerance_may_depend_on_the_step():
    model = KernelRegressor(
        kernel=KERNEL, expansion=KOMP(tolerance=lambda t: 0.5 / t), step_size=0.5, batch_size=5
    ).partial_fit(GRID, GRID[:, 0])
    bounds = 0.5 / np.arange(1, 13)
    assert (model.history_.compression_error <= bounds).all()
    assert model.history_.compression_error[0] > bounds[-1]
    before = model.learner_.function.n_steps
    model.learn_one(GRID[0], 1.0)
    assert model.history_.compression_error[-1] <= 0.5 / (before + 1)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_schedule_that_gives_nonsense_is_named(bad):
    model = KernelRegressor(kernel=KERNEL, step_size=lambda t: 1.0 if t < 3 else bad, batch_size=20)
    with pytest.raises(ValueError, match=r"positive and finite, got .* at step 3"):
        model.partial_fit(GRID, GRID[:, 0])


@pytest.mark.parametrize("bad", [1j, 10**400, "x", np.ones(2), np.ones((2, 3))])
def test_a_schedule_that_gives_no_number_is_named(bad):
    model = KernelRegressor(kernel=KERNEL, step_size=lambda t: bad)
    with pytest.raises(ValueError, match="`step_size` must give positive numbers"):
        model.partial_fit(GRID, GRID[:, 0])


def test_a_kernel_that_gives_no_number_is_named():
    model = KernelRegressor(kernel=lambda X, Z: 10**400, step_size=0.1)
    with pytest.raises(ValueError, match="`function` must return numbers"):
        model.partial_fit(GRID, GRID[:, 0])


def test_a_step_that_flips_the_sign_is_refused():
    model = KernelRegressor(kernel=KERNEL, step_size=2.0, regularization=0.6)
    with pytest.raises(ValueError, match=r"2 \* 0\.6 = 1\.2.*flip the sign.*below 1\.67"):
        model.partial_fit(GRID, GRID[:, 0])


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_ridge_that_makes_no_sense_is_named_and_nothing_is_learned(bad):
    model = KernelRegressor(
        kernel=KERNEL, step_size=0.1, regularization=lambda t: 0.1 if t < 5 else bad, batch_size=20
    ).partial_fit(GRID, GRID[:, 0])
    before = model.predict(GRID)
    with pytest.raises(ValueError, match="`regularization` must be"):
        model.partial_fit(GRID, GRID[:, 0])
    assert_array_equal(model.predict(GRID), before)


@pytest.mark.parametrize("expansion", ["auto", Dictionary(20)], ids=str)
def test_what_makes_no_steps_takes_one_ridge(expansion):
    model = KernelRegressor(expansion=expansion, regularization=PowerDecay(0.1))
    with pytest.raises(ValueError, match="makes no steps"):
        model.fit(np.resize(GRID, (300, 2)), np.resize(GRID[:, 0], 300))


def test_automatic_steps_go_with_ridges_that_fall():
    X, y = smooth_problem(600)
    model = KernelRegressor(kernel=KERNEL, expansion=KOMP(), regularization=PowerDecay(10.0, 2.0))
    model.set_params(batch_size=4, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.history_.step_size[0] <= 0.05


# -- automatic choices on awkward streams ------------------------------------------------------


def smooth_problem(n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


@pytest.mark.parametrize("first_target", [5.0, 1e-6])
def test_an_odd_first_row_does_not_fix_the_tolerance_for_ever(first_target):
    X, y = smooth_problem(1500)
    model = KernelRegressor(kernel=Gaussian(0.5), expansion=KOMP(max_size=300))
    model.learn_one(X[0], first_target)
    for i in range(1, len(X)):
        model.learn_one(X[i], y[i])
    assert model.score(X, y) > 0.9
    assert 10 < model.model_order_ < 60


@pytest.mark.parametrize("weight", [1.0, 100.0])
def test_the_automatic_step_is_stable_on_sorted_and_on_heavy_rows(weight):
    X, y = smooth_problem()
    order = np.argsort(X[:, 0])
    model = KernelRegressor(kernel=Gaussian(0.5))
    model.partial_fit(X[order], y[order], sample_weight=np.full(len(X), weight))
    assert np.abs(model.predict(X)).max() < 3.0


def test_the_automatic_step_is_stable_on_a_time_series():
    wave = np.sin(np.arange(2000) / 100.0)
    X = np.stack([wave[i : i + 8] for i in range(1990)])
    model = KernelRegressor().partial_fit(X, wave[8:1998])
    assert model.score(X, wave[8:1998]) > 0.9


def test_counts_with_a_large_mean_do_not_diverge():
    X, y = smooth_problem()
    counts = np.random.default_rng(1).poisson(np.exp(3 + y))
    model = KernelRegressor("poisson", kernel=Gaussian(0.5), expansion="komp")
    with pytest.warns(TargetScaleWarning, match="suit targets of about 1"):
        model.partial_fit(X, counts)
    assert model.score(X, np.exp(3 + y)) > 0.8


def test_an_unbounded_kernel_gets_a_step_and_a_tolerance_of_each_row():
    model = KernelRegressor(kernel="linear").learn_one([0.1], 0.2)
    for i in range(300):
        model.learn_one([i % 7 / 3], 2 * (i % 7) / 3)
    assert abs(model.predict_one([1.0]) - 2.0) < 0.01


def test_projection_on_a_full_budget_stays_well_conditioned():
    X, y = smooth_problem()
    model = KernelRegressor(
        kernel=Gaussian(0.5), expansion=Budget(200, "project"), random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.99
    assert np.abs(model.coefficients_).max() < 100
