"""The compiled loop under a risk does what the loop in Python does, to the last bit."""

import copy
import math

import numpy as np
import pytest

from covering import covering
from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP, Budget, Full, Quantized
from mercer.functions import KernelExpansion
from mercer.functions.kernel_expansion import Previous
from mercer.kernels import Gaussian, Kernel
from mercer.kernels.kernel import gram_by_rows
from mercer.learning.kernel_steps import KernelLearner
from mercer.losses import (
    Hinge,
    Logistic,
    MulticlassHinge,
    Poisson,
    Quantile,
    Softmax,
    Squared,
)
from mercer.risks import (
    CentralMoments,
    CVaR,
    Entropic,
    Mean,
    Mixture,
    Risk,
    Semivariance,
    Tracker,
    UpperSemideviation,
    Variance,
)

RISKS = {
    "mean": lambda tracker: Mean(),
    "cvar": lambda tracker: CVaR(0.7),
    "cvar, kink": lambda tracker: CVaR(0.6, smoothing=0.0, clip=1.5, units=2.0),
    "entropic": lambda tracker: Entropic(0.7),
    "semideviation": lambda tracker: UpperSemideviation(0.8, tracker=tracker),
    "variance": lambda tracker: Variance(0.4, clip=0.9, tracker=tracker),
    "variance, printed": lambda tracker: Variance(
        0.02, units=1.0, max_deviation=None, clamp=False, tracker=tracker
    ),
    "semivariance": lambda tracker: Semivariance(0.3, tracker=tracker),
    "moments": lambda tracker: CentralMoments(3, tracker=tracker),
    "positive moments": lambda tracker: CentralMoments(4, positive=True, tracker=tracker),
    "mixture": lambda tracker: (
        0.5 * CVaR(0.8)
        + 0.3 * UpperSemideviation(tracker=tracker)
        + 0.2 * Variance(tracker=tracker)
    ),
    "mixture of mixtures": lambda tracker: Mixture(
        [Mixture([Entropic(), Semivariance(tracker=tracker)], units=0.5), Mean()], clip=2.0
    ),
}
TRACKERS = [
    Tracker(rule, pairs=pairs)
    for rule in ("momentum", "scgd", "nasa")
    for pairs in ("tracked", "stream", "reservoir")
]
LOSSES = {
    "squared": Squared(),
    "quantiles": Quantile([0.2, 0.8]),
    "poisson": Poisson(),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "softmax": Softmax(),
    "multiclass hinge": MulticlassHinge(),
}
EXPANSIONS = {
    "komp": KOMP(tolerance=1e-3, max_size=25),
    "merge": Budget(20),
    "project": Budget(20, strategy="project"),
    "remove": Budget(20, strategy="remove"),
    "full": Full(),
    "ring": Full(max_size=25),
    "quantized": Quantized(0.3),
}
ROWS = 180
GRID = np.random.default_rng(7).normal(size=(20, 2))


def in_order_of_rows(monkeypatch):
    """Let functions evaluate in the order of the compiled loop: BLAS sums in another."""

    def kernel(self, X, Z=None):
        X = np.ascontiguousarray(X)
        Z = X if Z is None else np.ascontiguousarray(Z, dtype=X.dtype)
        return gram_by_rows(self.compiled(X.dtype), X, Z)

    def product(rows, coefficients):
        terms = rows.astype(np.float64)[:, :, np.newaxis] * coefficients
        sums = np.zeros((len(rows), coefficients.shape[1]))
        for j in range(rows.shape[1]):
            sums += terms[:, j]
        return sums

    def current(self, X):
        rows = self.kernel(X, self.arrays.points[: self.size])
        self._last = X, rows
        return self.scale * product(rows, self.arrays.weights[: self.size, : self.n_outputs])

    def values(self, X, rows, kernel):
        sums = np.zeros((len(X), self.coefficients.shape[1]))
        if self.on_slots is not None and self.on_slots.size:
            sums += product(rows, self.on_slots)
        if self.coefficients.size:
            sums += product(kernel(X, self.points), self.coefficients)
        return sums

    monkeypatch.setattr(Kernel, "__call__", kernel)
    monkeypatch.setattr(KernelExpansion, "current", current)
    monkeypatch.setattr(Previous, "values", values)


def count_steps(monkeypatch):
    """Count steps in Python."""
    steps, step = [], KernelLearner._step

    def counted(self, *args):
        steps.append(1)
        return step(self, *args)

    monkeypatch.setattr(KernelLearner, "_step", counted)
    return steps


def rows_for(loss, dtype=np.float64):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 2)).astype(dtype)
    y = np.sin(2.0 * X[:, 0]) + 0.5 * rng.standard_t(3, size=ROWS)
    if loss in ("squared", "quantiles"):
        return X, y
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * np.sin(X[:, 0])))
    return X, np.digitize(y, [-0.5, 0.5] if loss in ("softmax", "multiclass hinge") else [0.0])


def learn(risk, loss, expansion, batch_size, average, dtype=np.float64, length_scale=1.0):
    X, y = rows_for(loss, dtype)
    weights = np.random.default_rng(6).choice([0.0, 0.5, 1.0, 2.0], ROWS, p=[0.1, 0.2, 0.5, 0.2])
    classifies = LOSSES[loss].task == "classification"
    model = (KernelClassifier if classifies else KernelRegressor)(
        LOSSES[loss],
        risk=risk,
        kernel=Gaussian(length_scale),
        expansion=expansion,
        batch_size=batch_size,
        average=average,
        step_size=0.1,
        regularization=0.01,
        random_state=0,
    )
    for part in (slice(0, 110), slice(110, 111), slice(111, ROWS)):
        options = {"classes": np.unique(y)} if classifies else {}
        model.partial_fit(X[part], y[part], sample_weight=weights[part], **options)
    return model


def assert_same(one, other):
    assert one.model_order_ == other.model_order_ > 0
    f, g = one.learner_.function, other.learner_.function
    assert (f.scale, f.n_steps, f.oldest) == (g.scale, g.n_steps, g.oldest)
    for name in ("points", "self_kernel", "weights"):
        a, b = getattr(f.arrays, name)[: f.size], getattr(g.arrays, name)[: g.size]
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert one.learner_.objective.state() == other.learner_.objective.state()
    assert (f.past is None) == (g.past is None)
    if f.past is not None:
        for a, b in zip(f.past, g.past, strict=True):
            np.testing.assert_array_equal(a, b)
    for name in ("loss", "model_order", "compression_error", *one.history_.monitors):
        a, b = (
            model.history_.monitors.get(name, getattr(model.history_, name, None))
            for model in (one, other)
        )
        np.testing.assert_array_equal(a, b, err_msg=name)


def both_ways(monkeypatch, *args, **options):
    in_order_of_rows(monkeypatch)
    steps = count_steps(monkeypatch)
    compiled = learn(*args, **options)
    in_python = len(steps)
    with monkeypatch.context() as patch:
        patch.setattr(KernelLearner, "compiled", lambda self, dtype: None)
        plain = learn(*args, **options)
    assert in_python < (len(steps) - in_python) * 0.7  # only first rows
    assert_same(compiled, plain)
    return compiled


@pytest.mark.parametrize(
    ("risk", "tracker", "loss", "expansion", "batch_size", "average"),
    covering(RISKS, TRACKERS, LOSSES, EXPANSIONS, [1, 2, 5], ["suffix", None]),
)
def test_both_loops_give_the_same_bits(
    monkeypatch, risk, tracker, loss, expansion, batch_size, average
):
    risk = RISKS[risk](tracker)
    if risk.tracking is not None and tracker.pairs != "tracked":
        batch_size += batch_size % 2
    both_ways(monkeypatch, risk, loss, EXPANSIONS[expansion], batch_size, average)


@pytest.mark.parametrize(
    ("risk", "tracker", "expansion", "average"),
    covering(
        ["cvar", "semideviation", "mixture"],
        [tracker for tracker in TRACKERS if tracker.pairs != "reservoir"],
        ["komp", "merge", "remove", "full"],
        ["suffix", None],
    ),
)
def test_single_rows_are_learned_as_calls_with_one_row(
    monkeypatch, risk, tracker, expansion, average
):
    monkeypatch.setattr("mercer.learning.step_sizes._FIRST_ROWS", 20)
    one = learn(RISKS[risk](tracker), "squared", EXPANSIONS[expansion], 2, average)
    assert one.learner_.first.seen
    other, calls, whole = copy.deepcopy(one), [], KernelLearner.learn
    monkeypatch.setattr(
        KernelLearner, "learn", lambda self, *args: [calls.append(1), whole(self, *args)]
    )
    X, y = rows_for("squared")
    for x, target in zip(X[:25], y[:25], strict=True):
        one.learn_one(x, target)
    assert len(calls) <= 2  # a new path, or a row that looks like a divergence
    for i in range(25):
        other.partial_fit(X[i : i + 1], y[i : i + 1])
    assert_same(one, other)


class Log(Risk):
    """Entropic(), but its formula is given by a row of one's own."""

    n_scalars = 1
    start = Entropic.start

    def row_parameters(self):
        return [0.01]

    @staticmethod
    def row(loss, inner, scalars, unit, out, parameters):
        weight = math.exp(min((loss[0] - scalars[0]) / unit[0], math.log(20.0)))
        beyond = max((loss[0] - scalars[0]) / unit[0] - math.log(20.0), 0.0)
        out[0] = scalars[0] + unit[0] * (weight * (1.0 + beyond) - 1.0)
        out[1], out[2], out[3] = weight, beyond > 0.0, 1.0 - weight
        out[4] = parameters[0] * unit[0]


class InNumPy(CVaR):
    """CVaR, but its formula is given in Python."""

    def outer(self, losses, inner, scalars, unit):
        return super().outer(losses, inner, scalars, unit)


def test_a_row_of_ones_own_goes_compiled(monkeypatch):
    own = both_ways(monkeypatch, Log(), "squared", EXPANSIONS["komp"], 1, None)
    known = learn(Entropic(), "squared", EXPANSIONS["komp"], 1, None)
    np.testing.assert_allclose(own.predict(GRID), known.predict(GRID), rtol=1e-9)


@pytest.mark.parametrize("mixed", [False, True])
def test_formulas_in_python_give_the_same(monkeypatch, mixed):
    """They are learned by the loop in Python; so are mixtures with one."""
    in_order_of_rows(monkeypatch)
    steps, models = count_steps(monkeypatch), []
    for cvar in (CVaR(0.7), InNumPy(0.7)):
        before = len(steps)
        risk = 0.5 * cvar + 0.25 * Semivariance() + 0.25 * Mean() if mixed else cvar
        models.append(learn(risk, "squared", EXPANSIONS["merge"], 2, None))
        assert (len(steps) - before == 91) is isinstance(cvar, InNumPy)
    assert_same(*models)


@pytest.mark.parametrize("rule", ["momentum", "nasa"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_both_loops_take_the_same_safer_paths(monkeypatch, batch_size, dtype, rule):
    risk, expansion = UpperSemideviation(tracker=rule), KOMP(tolerance=1e-6)
    model = both_ways(
        monkeypatch, risk, "squared", expansion, batch_size, "suffix", dtype, length_scale=4.0
    )
    assert model.learner_.function.promoted == "triangular"
