"""Learning without regularization: Algorithm 1, its losses and steps."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from mercer import (
    DensityRatio,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelRanker,
    KernelRegressor,
    NoveltyDetector,
    ValueFunction,
    load_model,
)
from mercer.expansions import KOMP, RandomFeatures
from mercer.gaussian_process import Faithful
from mercer.kernels import Gaussian, Linear
from mercer.losses import (
    Hinge,
    Huber,
    LeastSquaresMargin,
    Logistic,
    MarginLoss,
    QNormHinge,
    Softmax,
    SquaredHinge,
)
from mercer.recipes import unregularized
from mercer.risks import CVaR
from mercer.schedules import PowerDecay, Relative

# phi'(s), alpha and L of Ying and Zhou, Definition 1 and the examples after it.
ACTIVATING = [
    (Logistic(), lambda s: -special.expit(-s), 1.0, 0.25),
    (SquaredHinge(), lambda s: -2.0 * max(1.0 - s, 0.0), 1.0, 2.0),
    (LeastSquaresMargin(), lambda s: -2.0 * (1.0 - s), 1.0, 2.0),
    (QNormHinge(2.0), lambda s: -2.0 * max(1.0 - s, 0.0), 1.0, 2.0),
    (QNormHinge(1.5), lambda s: -1.5 * max(1.0 - s, 0.0) ** 0.5, 0.5, 1.5),
    (QNormHinge(1.2), lambda s: -1.2 * max(1.0 - s, 0.0) ** 0.2, 0.2, 1.2),
]
activating = pytest.mark.parametrize(
    ("loss", "slope_of", "alpha", "constant"), ACTIVATING, ids=[repr(c[0]) for c in ACTIVATING]
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
LABELS = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.7 * RNG.normal(size=150) > 0.8, 1, -1)
KERNEL = Gaussian(0.9)
GRAM = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (2.0 * 0.9**2))


def algorithm_1(slope_of, steps, weights=None):
    """Ying and Zhou, eq. (1.1), word for word: the values of g_1, ..., g_(T+1) at all rows."""
    values = [np.zeros(len(X))]
    for t, (y, step) in enumerate(zip(LABELS, steps, strict=True)):
        g = values[-1]
        weight = 1.0 if weights is None else weights[t]
        values.append(g - step * weight * slope_of(y * g[t]) * y * GRAM[t])
    return values


def learned(model):
    return model.partial_fit(X, LABELS, classes=[-1, 1]).decision_function(X)


# -- losses ---------------------------------------------------------------------------------------


def slopes_at(loss, margins):
    return loss.derivative(np.ones(margins.size), margins)


@activating
def test_hoelder_constants_hold_for_random_pairs_and_are_attained(loss, slope_of, alpha, constant):
    assert loss.hoelder_exponent == pytest.approx(alpha)
    assert loss.hoelder_constant == constant
    rng = np.random.default_rng(1)
    s = rng.normal(scale=3.0, size=20_000)
    u = s + rng.normal(size=s.size) * 10.0 ** rng.uniform(-3.0, 1.0, size=s.size)
    ratios = np.abs(slopes_at(loss, s) - slopes_at(loss, u)) / np.abs(s - u) ** alpha
    assert ratios.max() <= constant * (1.0 + 1e-9)
    # From the kink of a hinge; the logistic slope changes fastest at 0.
    ends = np.array([1.0, -1.0]) if constant > 1.0 else np.array([1e-3, -1e-3])
    change = abs(float(np.diff(slopes_at(loss, ends))[0])) / float(-np.diff(ends)[0]) ** alpha
    assert change == pytest.approx(constant, rel=1e-5)


@activating
def test_slopes_are_those_of_the_definition_and_negative_at_0(loss, slope_of, alpha, constant):
    margins = np.linspace(-3.0, 3.0, 61)
    assert_allclose(slopes_at(loss, margins), [slope_of(s) for s in margins], atol=1e-15)
    assert slope_of(0.0) < 0.0


@pytest.mark.parametrize("loss", [Hinge(), Softmax(), Huber()], ids=repr)
def test_losses_that_are_not_activating_have_no_exponent(loss):
    assert loss.hoelder_exponent is None
    assert loss.hoelder_constant is None


# -- Algorithm 1 ----------------------------------------------------------------------------------


@activating
@pytest.mark.parametrize(("scale", "theta"), [(1.0, 0.5), (4.0, 0.75)])
def test_it_is_algorithm_1(loss, slope_of, alpha, constant, scale, theta):
    if isinstance(loss, LeastSquaresMargin):
        scale /= 4.0  # a larger step than 1 / (L kappa²) turns the signs of residuals
    steps = scale / constant * np.arange(1.0, 151.0) ** -theta  # kappa = 1
    expected = algorithm_1(slope_of, steps)[-1]
    relative, plain = Relative(PowerDecay(scale, theta)), PowerDecay(scale / constant, theta)
    for step_size in (relative, plain):
        model = unregularized(loss, kernel=KERNEL, step_size=step_size)
        assert_allclose(learned(model), expected, rtol=1e-10, atol=1e-10)


@activating
def test_automatic_steps_are_those_of_the_documentation(loss, slope_of, alpha, constant):
    first = 1.0 if isinstance(loss, LeastSquaresMargin) else 4.0
    steps = first / constant * np.arange(1.0, 151.0) ** -0.5
    expected = algorithm_1(slope_of, steps)[-1]
    model = unregularized(loss, kernel=KERNEL, step_size="auto")
    assert_allclose(learned(model), expected, rtol=1e-9, atol=1e-9)


@activating
def test_theory_steps_are_those_of_the_theorem(loss, slope_of, alpha, constant):
    steps = np.arange(1.0, 151.0) ** (-2.0 / (alpha + 2.0)) / constant
    expected = algorithm_1(slope_of, steps)[-1]
    for model in (
        unregularized(loss, kernel=KERNEL, step_size="theory"),
        KernelClassifier(
            loss,
            kernel=KERNEL,
            expansion="full",
            step_size="theory",
            regularization=0.0,
            batch_size=1,
            average=None,
        ),
    ):
        assert_allclose(learned(model), expected, rtol=1e-10, atol=1e-10)


@activating
def test_averages_are_means_of_the_iterates(loss, slope_of, alpha, constant):
    steps = np.arange(1.0, 151.0) ** -0.6 / constant
    values = algorithm_1(slope_of, steps)[1:]
    model = unregularized(
        loss, kernel=KERNEL, step_size=Relative(PowerDecay(1.0, 0.6)), average="polyak"
    )
    assert_allclose(learned(model), np.mean(values, axis=0), rtol=1e-10, atol=1e-10)


def running_weights():
    """Weights (n₊ + n₋) / (2 n_y) of counts that start at 1 and include the row itself."""
    counts, weights = {-1: 1.0, 1: 1.0}, []
    for y in LABELS:
        counts[y] += 1.0
        weights.append((counts[-1] + counts[1]) / (2.0 * counts[y]))
    return weights


@activating
@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("cuts", [(), (1, 2, 60)])
def test_balanced_steps_on_a_stream_use_running_counts(
    loss, slope_of, alpha, constant, announced, cuts
):
    steps = np.arange(1.0, 151.0) ** -0.5 / constant
    model = unregularized(
        loss, kernel=KERNEL, step_size=Relative(PowerDecay(1.0, 0.5)), class_weight="balanced"
    )
    for start, stop in zip((0, *cuts), (*cuts, 150), strict=True):
        rows = slice(start, stop)
        model.partial_fit(X[rows], LABELS[rows], classes=[-1, 1] if announced else None)
    expected = algorithm_1(slope_of, steps, running_weights())[-1]
    assert_allclose(model.decision_function(X), expected, rtol=1e-10, atol=1e-10)


def test_balanced_rows_one_by_one_are_those_of_a_stream():
    settings = {"kernel": KERNEL, "class_weight": "balanced"}
    one_by_one = unregularized(**settings)
    for x, y in zip(X, LABELS, strict=True):
        one_by_one.learn_one(x, int(y))
    expected = learned(unregularized(**settings))
    assert_allclose(one_by_one.decision_function(X), expected, rtol=1e-12)


def test_balanced_fits_use_the_counts_of_all_rows():
    share = np.where(LABELS == 1, np.mean(LABELS == 1), np.mean(LABELS == -1))
    steps = 16.0 * np.arange(1.0, 151.0) ** -0.5
    expected = algorithm_1(lambda s: -special.expit(-s), steps, 0.5 / share)[-1]
    model = unregularized(kernel=KERNEL, step_size="auto", class_weight="balanced").fit(X, LABELS)
    assert_allclose(model.decision_function(X), expected, rtol=1e-10, atol=1e-10)


@activating
@pytest.mark.parametrize("average", [None, "polyak"])
def test_matching_pursuit_without_tolerance_changes_nothing(
    loss, slope_of, alpha, constant, average
):
    models = [
        unregularized(loss, kernel=KERNEL, expansion=expansion, average=average)
        for expansion in ("full", KOMP(tolerance=0.0))
    ]
    full, kept = (learned(model) for model in models)
    assert_allclose(kept, full, rtol=1e-9, atol=1e-9)


def test_rows_without_a_slope_add_no_point():
    model = unregularized("squared_hinge", kernel=KERNEL)
    learned(model)
    assert model.model_order_ == np.count_nonzero(model.coefficients_) < 150
    logistic = unregularized("logistic", kernel=KERNEL)
    learned(logistic)
    assert logistic.model_order_ == 150


# -- units ----------------------------------------------------------------------------------------


def test_kernels_without_a_bound_take_a_quantile_of_the_first_rows():
    rows = X * np.where(np.arange(150) == 7, 1000.0, 1.0)[:, None]
    model = unregularized(kernel=Linear(), step_size=Relative(1.0))
    model.partial_fit(rows, LABELS)
    typical = np.quantile((rows**2).sum(axis=1), 0.95)
    assert model.learner_.step_size(1) == pytest.approx(1.0 / (0.25 * typical))


@pytest.mark.parametrize("step_size", ["theory", Relative(PowerDecay(2.0, 0.6))], ids=repr)
def test_models_with_relative_steps_go_on_from_a_file(step_size, tmp_path):
    model = unregularized(kernel=Linear(), step_size=step_size).partial_fit(X[:70], LABELS[:70])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.step_size == step_size
    for each in (model, loaded):
        each.partial_fit(X[70:110] * 3.0, LABELS[70:110])
        # The unit is still that of the first rows.
        each.set_params(step_size=Relative(PowerDecay(1.0, 0.75)))
        each.partial_fit(X[110:], LABELS[110:])
    assert loaded.learner_.step_size == model.learner_.step_size
    assert np.array_equal(loaded.coefficients_, model.coefficients_)


def test_losses_without_a_constant_take_their_curvature():
    model = KernelRegressor("huber", kernel=KERNEL, step_size=Relative(0.5), batch_size=1)
    model.partial_fit(X, X[:, 0])
    assert model.learner_.step_size(3) == 0.5
    model = KernelClassifier("softmax", kernel=KERNEL, step_size=Relative(0.5), batch_size=1)
    model.partial_fit(X, LABELS)
    assert model.learner_.step_size(3) == 1.0


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (NoveltyDetector(step_size=Relative(0.5)), (X,)),
        (DensityRatio(step_size=Relative(0.5)), (X[:70], X[70:])),
        (ValueFunction(0.9, step_size=Relative(0.5)), (X[:-1], X[:-1, 0], X[1:])),
        (KernelRegressor(risk=CVaR(0.9), step_size=Relative(0.5)), (X, X[:, 0])),
        (KernelRanker(step_size=Relative(0.5)), (X, LABELS)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_all_estimators_fill_in_units(model, data):
    steps = model.fit(*data).learner_.step_size
    assert steps.unit > 0.0
    assert steps(1) == steps(9) == 0.5 * steps.unit


def test_an_estimator_that_fills_in_no_units_says_so():
    model = GaussianProcessRegressor(method=Faithful(n_steps=5, step_size=Relative(0.5)))
    with pytest.raises(ValueError, match="has no unit yet"):
        model.fit(X, X[:, 0])


def test_random_features_can_take_relative_steps():
    model = unregularized(
        kernel=KERNEL, step_size="auto", expansion="random_features", random_state=0
    )
    assert model.fit(X, LABELS).score(X, LABELS) > 0.75
    assert model.learner_.step_size(4) == 8.0


class Steep(MarginLoss):
    """A loss of one's own, without a declared exponent."""

    def value(self, y, f):
        return np.exp(-y * f).sum(axis=1)

    def derivative(self, y, f):
        return -y * np.exp(-y * f)


@pytest.mark.parametrize("loss", ["hinge", Hinge(), "softmax", Steep()], ids=repr)
def test_losses_that_the_theorems_do_not_cover_are_refused(loss):
    with pytest.raises(ValueError, match=r"Hölder continuous.*Definition 1"):
        unregularized(loss)


REFUSED = [
    (
        KernelClassifier("hinge", step_size="theory", regularization=0.0),
        r"no steps for Hinge\(\).*Definition 1.*QNormHinge",
    ),
    (
        KernelClassifier(step_size="theory", regularization=1e-6),
        "needs `regularization=0`, got 1e-06",
    ),
    (
        KernelClassifier(step_size="theory", regularization=0.0, risk=CVaR(0.9)),
        "needs `risk=None`",
    ),
    (
        KernelClassifier(step_size=Relative(1.0), expansion=RandomFeatures()),
        "gradient steps.*'newton' solves equations.*faithful",
    ),
    (
        KernelClassifier(step_size="theory", regularization=0.0, expansion="random_features"),
        "gradient steps.*'newton' solves equations.*faithful",
    ),
    (KernelRegressor(step_size="theory", regularization=0.0), "`step_size` must be one of 'auto'"),
    (KernelClassifier(step_size="fast"), "`step_size` must be one of 'auto', 'theory'"),
]


@pytest.mark.parametrize(("model", "match"), REFUSED, ids=range(len(REFUSED)))
def test_steps_that_have_no_meaning_are_refused(model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(X, LABELS)


def test_theory_has_no_steps_for_the_softmax_of_three_classes():
    with pytest.raises(ValueError, match="no steps for Softmax"):
        KernelClassifier(step_size="theory", regularization=0.0).fit(X, np.arange(150) % 3)


def test_several_classes_are_learned_one_against_the_rest():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = unregularized(kernel=KERNEL).partial_fit(X, labels)
    for c in range(3):
        alone = unregularized(kernel=KERNEL).partial_fit(X, np.where(labels == c, 1, -1))
        assert_allclose(model.decision_function(X)[:, c], alone.decision_function(X), rtol=1e-9)


# -- the nugget trap ------------------------------------------------------------------------------


def inverse_of(function):
    """Inverse Gram matrix as the function keeps it; the lower triangle, or its root, is stored."""
    stored = np.tril(function.arrays.inverse[: function.size, : function.size])
    if function.promoted == "triangular":
        return stored.T @ stored
    return stored + np.tril(stored, -1).T


@pytest.mark.parametrize("tolerance", [1e-4, lambda t: 0.02 / t], ids=["1e-4", "falling"])
def test_tiny_tolerances_do_not_ruin_the_inverse(tolerance):
    # As hard as phonemes: five inputs, classes that overlap, a squared hinge.
    rng = np.random.default_rng(3)
    n = 700
    rows = rng.normal(size=(n, 5)) * [2.0, 1.0, 0.7, 0.4, 0.2]
    labels = np.where(np.sin(2.0 * rows[:, 0]) + rows[:, 1] + rng.normal(size=n) > 0.5, 1, -1)
    settings = {"kernel": Gaussian(math.sqrt(2.5)), "step_size": Relative(PowerDecay(1.0, 0.5))}
    full, kept = (
        unregularized("squared_hinge", expansion=expansion, **settings).partial_fit(rows, labels)
        for expansion in ("full", KOMP(tolerance=tolerance))
    )
    function = kept.learner_.function
    assert function.size < full.model_order_
    gram = settings["kernel"](function.dictionary)
    assert np.abs(inverse_of(function) @ gram - np.eye(function.size)).max() < 1e-6
    norm = np.linalg.norm
    assert norm(kept.coefficients_) <= 10.0 * norm(full.coefficients_)
    # Steps of at most 2 / (L kappa²) bring no two functions apart: errors add up and no more.
    spent = sum(tolerance(t) if callable(tolerance) else tolerance for t in range(1, n + 1))
    apart = np.abs(kept.decision_function(rows) - full.decision_function(rows)).max()
    assert apart <= spent
