"""The loop on pairs: compiled and in Python, with points of the buffer pinned in the dictionary."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from covering import covering
from mercer.buffers import FIFO, Everything, PerClassFIFO, Reservoir
from mercer.estimators.start import make_learner
from mercer.expansions import KOMP, Budget, Full, Quantized
from mercer.functions import BilinearExpansion, start, start_bilinear
from mercer.kernels import Gaussian, Linear, PairKernel
from mercer.learning import AutomaticStep
from mercer.learning.kernel_steps import KernelLearner
from mercer.losses import LeastSquaresMargin, Logistic, QNormHinge, SquaredHinge
from mercer.objectives import Pairwise
from mercer.schedules import PowerDecay


class Plain(Pairwise):
    """The same objective, which the compiled loop does not know."""


def make(
    objective,
    expansion,
    *,
    kernel=None,
    averaging=None,
    regularization=0.0,
    dtype=np.float64,
    batch_size=1,
    step=None,
):
    kernel = Gaussian(0.8) if kernel is None else kernel
    if objective.pair_kernel.order == 2:
        function = start_bilinear(expansion, kernel, 3, dtype)
    else:
        function = start(expansion, kernel, 3, 1, dtype, averaging)
    step = PowerDecay(1.0) if step is None else step
    return make_learner(
        objective, function, step, regularization, batch_size, AutomaticStep(1.0, 1.0, 0.1)
    )


def rows(n=100, seed=0, *, groups=1, weighted=False, dtype=np.float64, repeated=True):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3)).astype(dtype)
    if repeated:
        X[n // 2 : n // 2 + 20] = X[:20]  # twins of dictionary points and of the buffer
        X[n // 2 + 20 : n // 2 + 24] = X[n // 2 + 23]
    y = np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0.5, 1.0, -1.0)
    targets = np.column_stack([y, generator.integers(groups, size=n).astype(float)])
    weights = generator.choice([0.0, 0.5, 1.0, 2.0], size=n) if weighted else np.ones(n)
    return X, targets, weights


def both(parts, expansion, data, **settings):
    learners = []
    for cls in (Pairwise, Plain):
        learner = make(cls(*parts), expansion, **settings)
        learner.learn(*data)
        learners.append(learner)
    return learners


def values(learner, X):
    """Of the function at rows, or for pair kernels of second order at pairs of them."""
    if learner.objective.pair_kernel.order == 2:
        return learner.function.bilinear(X, X[::-1])
    return learner.evaluate(X)


def assert_same_model(a, b, rtol=1e-7):
    X = np.random.default_rng(9).normal(size=(50, 3))
    assert a.function.size == b.function.size
    assert_allclose(values(a, X), values(b, X), rtol=rtol, atol=rtol)
    assert_allclose(a.function.dictionary, b.function.dictionary)
    places = min(a.function.slots.size, b.function.slots.size)
    assert_array_equal(a.function.slots[:places], b.function.slots[:places])
    assert_allclose(a.history.loss, b.history.loss, rtol=1e-6, atol=1e-9)
    assert_allclose(a.history.compression_error, b.history.compression_error, atol=1e-6)
    for name in ("X", "targets", "weights"):
        kept = [getattr(learner.objective.kept, name) for learner in (a, b)]
        n = min(map(len, kept))
        assert_array_equal(kept[0][:n], kept[1][:n])
        assert not np.any(kept[0][n:])
        assert not np.any(kept[1][n:])
    assert a.objective.counts == b.objective.counts


EXPANSIONS = [
    Full(),
    KOMP(tolerance=1e-4),
    KOMP(tolerance=0.02),
    KOMP(tolerance=1e-4, max_size=30),
    Budget(30, "remove"),
    Budget(30, "project"),
    Budget(30, "merge"),
    Quantized(0.1),
    Full(max_size=60),
]


@pytest.mark.parametrize("expansion", EXPANSIONS, ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=repr)
def test_compiled_steps_are_those_in_python(expansion, loss):
    parts = loss, PairKernel("difference"), "difference", PerClassFIFO(5), "opposite"
    assert_same_model(*both(parts, expansion, rows()))


MATRICES = [e for e in EXPANSIONS if e not in (Budget(30, "merge"), Quantized(0.1))]
PATTERNS = {
    "product": "sign",
    "antisymmetric": "difference",
    "symmetric": "same",
    "mlpk": "same",
    ((1.0, 0.0), (0.5, 2.0)): "sign",
}
BUFFERS = [FIFO(8), PerClassFIFO(5), Reservoir(8), Everything()]


@pytest.mark.parametrize(
    ("expansion", "pattern", "buffer", "groups"),
    covering(MATRICES, PATTERNS, BUFFERS, [1, 3]),
)
def test_compiled_matrices_are_those_in_python(expansion, pattern, buffer, groups):
    if isinstance(buffer, Everything) and expansion.limit() < 100:
        buffer = FIFO(3)
    parts = Logistic(), PairKernel(pattern), PATTERNS[pattern], buffer, "opposite"
    data = rows(groups=groups, weighted=groups > 1)
    settings = {"regularization": 0.1, "step": PowerDecay(3.0)}  # the common factor becomes small
    compiled, plain = both(parts, expansion, data, **settings)
    assert np.abs(values(compiled, data[0])).max() > 0.01
    assert_same_model(compiled, plain, 1e-10)
    f, g = compiled.function, plain.function
    assert_array_equal(f.ages[: f.size], g.ages[: g.size])
    assert (f.n_joined, f.n_steps, f.age_of_norms) == (g.n_joined, g.n_steps, g.age_of_norms)


def test_compiled_matrices_in_single_precision_are_those_in_python():
    parts = Logistic(), PairKernel("product"), "sign", PerClassFIFO(5), "opposite"
    data = rows(dtype=np.float32)
    compiled, plain = both(parts, KOMP(tolerance=0.01), data, dtype=np.float32)
    assert_same_model(compiled, plain, 1e-10)  # all arithmetic is in float64
    assert compiled.objective.kept.X.dtype == np.float32


@pytest.mark.parametrize("cls", [Pairwise, Plain])
def test_matrices_on_points_that_depend_on_each_other(cls):
    parts = Logistic(), PairKernel("product"), "sign", PerClassFIFO(4), "opposite"
    generator = np.random.default_rng(0)
    X = np.zeros((100, 3))
    X[:, 0] = generator.uniform(-1, 1, 100)
    y = np.where(np.sin(3.0 * X[:, 0]) > 0, 1.0, -1.0)
    data = X, np.column_stack([y, np.zeros(100)]), np.ones(100)
    learner, full = (
        make(c(*parts), expansion, kernel=Gaussian(0.7))
        for c, expansion in ((cls, KOMP(tolerance=1e-4)), (Pairwise, Full()))
    )
    for each in (learner, full):
        each.learn(*data)
    assert learner.function.size < 30
    assert (learner.function.slots < 0).any()
    assert np.abs(values(learner, X) - values(full, X)).max() < 1e-2 * np.abs(values(full, X)).max()


@pytest.mark.parametrize("again", [False, True])
def test_python_takes_over_where_a_step_needs_a_new_inverse(monkeypatch, again):
    called = []
    for cls, name in ((KernelLearner, "_step"), (BilinearExpansion, "finish_with_slots")):
        take = getattr(cls, name)
        monkeypatch.setattr(
            cls, name, lambda *args, name=name, take=take: [called.append(name), take(*args)][1]
        )
    parts = Logistic(), PairKernel("product"), "sign", PerClassFIFO(3), "opposite"
    X, targets, weights = rows(63, repeated=False)
    compiled, plain = both(parts, KOMP(tolerance=0.02), (X[3:], targets[3:], weights[3:]))
    if again:  # no newcomer meets the inverse, only what removes points
        X = compiled.function.dictionary[:3]
        targets = np.column_stack([[1.0, -1.0, 1.0], np.zeros(3)])
    for learner in (compiled, plain):
        f = learner.function
        f.arrays.inverse[: f.size, : f.size] = 0.0
        called.clear()
        learner.learn(X[:3], targets[:3], weights[:3])
        if learner is compiled:
            assert called == ["finish_with_slots" if again else "_step"]
        K, P = f.arrays.gram[: f.size, : f.size], f.arrays.inverse[: f.size, : f.size]
        assert_allclose(K @ P, np.eye(f.size), atol=1e-6)
    assert_same_model(compiled, plain)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("cls", [Pairwise, Plain])
def test_a_buffer_that_leaves_no_room_is_refused_and_changes_nothing(cls, n):
    parts = Logistic(), PairKernel("product"), "sign", FIFO(8), "opposite"
    X, targets, weights = rows(40, repeated=False)
    learner = make(cls(*parts), Budget(6, "project"), regularization=0.1)
    learner.learn(X[:5], targets[:5], weights[:5])
    before = values(learner, X)
    with pytest.raises(ValueError, match="leaves no room"):
        learner.learn(X[5 : 5 + n], targets[5 : 5 + n], weights[5 : 5 + n])
    assert_array_equal(values(learner, X), before)
    assert learner.objective.kept.weights.sum() == 5


@pytest.mark.parametrize(
    "buffer", [FIFO(8), PerClassFIFO(1), Reservoir(8), Reservoir(4, per_class=True), Everything()],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("normalize", ["opposite", "all"])
def test_compiled_steps_know_all_buffers(buffer, normalize):
    parts = Logistic(), PairKernel("difference"), "sign", buffer, normalize
    assert_same_model(*both(parts, KOMP(tolerance=1e-3), rows()))


@pytest.mark.parametrize("normalize", ["opposite", "all", "balanced"])
@pytest.mark.parametrize("loss", [LeastSquaresMargin(), QNormHinge(1.5)], ids=repr)
def test_compiled_steps_know_sums_groups_and_weights(normalize, loss):
    parts = loss, PairKernel([1.0, 1.0]), "same", FIFO(10), normalize
    data = rows(groups=3, weighted=True)
    settings = {"regularization": 0.01, "averaging": 3.0, "step": PowerDecay(0.05)}
    assert_same_model(*both(parts, KOMP(tolerance=1e-4, max_size=40), data, **settings))


def test_compiled_steps_in_single_precision():
    parts = Logistic(), PairKernel("difference"), "difference", PerClassFIFO(5), "opposite"
    data = rows(dtype=np.float32)
    compiled, plain = both(parts, KOMP(tolerance=0.01, max_size=40), data, dtype=np.float32)
    X = np.random.default_rng(9).normal(size=(50, 3))
    size = np.abs(plain.evaluate(X)).max()
    assert np.abs(compiled.evaluate(X) - plain.evaluate(X)).max() < 0.05 * size


@pytest.mark.parametrize("pattern", ["difference", "product"])
def test_a_stream_may_be_cut_anywhere(pattern):
    parts = Logistic(), PairKernel(pattern), "difference", PerClassFIFO(5), "opposite"
    X, targets, weights = rows(150)
    whole = make(Pairwise(*parts), KOMP(tolerance=1e-4, max_size=40))
    whole.learn(X, targets, weights)
    pieces = make(Pairwise(*parts), KOMP(tolerance=1e-4, max_size=40))
    for cut in np.array_split(np.arange(len(X)), [1, 2, 3, 50, 51, 100]):
        pieces.learn(X[cut], targets[cut], weights[cut])
    assert_array_equal(whole.function.coefficients, pieces.function.coefficients)
    assert_array_equal(whole.function.dictionary, pieces.function.dictionary)


@pytest.mark.parametrize("cls", [Pairwise, Plain])
@pytest.mark.parametrize("expansion", EXPANSIONS[1:7], ids=repr)
@pytest.mark.parametrize("kernel", [Gaussian(0.8), Gaussian(3.0)], ids=repr)
def test_points_of_the_buffer_stay_in_the_dictionary(cls, expansion, kernel):
    # Wide kernels make points dependent: those have no slot, all others must be where it says.
    objective = cls(Logistic(), PairKernel("difference"), "sign", PerClassFIFO(5), "opposite")
    learner = make(objective, expansion, kernel=kernel)
    X, targets, weights = rows(150)
    for cut in np.array_split(np.arange(len(X)), 10):
        learner.learn(X[cut], targets[cut], weights[cut])
        function, kept = learner.function, objective.kept
        slots = function.slots[: len(kept.X)]
        assert_allclose(function.arrays.points[slots[slots >= 0]], kept.X[slots >= 0])
        if kernel.length_scale < 1.0:
            assert (slots[kept.weights > 0.0] >= 0).all()
        assert function.size <= expansion.limit()


@pytest.mark.parametrize("cls", [Pairwise, Plain])
def test_the_error_of_a_step_is_what_the_compression_did(cls):
    # One step more than a copy that does not compress: the difference is the error.
    parts = Logistic(), PairKernel("difference"), "difference", PerClassFIFO(5), "opposite"
    X, targets, weights = rows(repeated=False)
    tolerance = 0.02
    learner = make(cls(*parts), KOMP(tolerance=tolerance))
    kernel = learner.function.kernel
    removed = 0
    for i in range(len(X)):
        before = learner.to_state(whole=True)
        exact = make(cls(*parts), KOMP(tolerance=0.0))
        exact.restore(before)
        for each in (learner, exact):
            each.learn(X[i : i + 1], targets[i : i + 1], weights[i : i + 1])
        f, g = learner.function, exact.function
        D = np.vstack([f.dictionary, g.dictionary])
        w = np.concatenate([f.coefficients[:, 0], -g.coefficients[:, 0]])
        error = np.sqrt(max(w @ kernel(D) @ w, 0.0))
        assert error <= tolerance * (1 + 1e-6)
        assert_allclose(learner.history.compression_error[-1], error, atol=1e-6)
        removed += g.size > f.size
    assert removed > 20


def test_a_wide_kernel_changes_paths_and_forgets_nothing():
    # Points on a line under a wide kernel are dependent: the safer path fills the slots anew.
    parts = Logistic(), PairKernel("difference"), "sign", PerClassFIFO(4), "opposite"
    generator = np.random.default_rng(0)
    X = np.zeros((120, 3))
    X[:, 0] = generator.uniform(-1, 1, 120)
    y = np.where(np.sin(3.0 * X[:, 0]) > 0, 1.0, -1.0)
    data = X, np.column_stack([y, np.zeros(120)]), np.ones(120)
    learners = both(parts, KOMP(tolerance=1e-6), data, kernel=Gaussian(0.5))
    f = learners[0].function
    assert f.promoted == "triangular"
    # The steps of that path, not those of the explicit inverse, kept its root from there on.
    root = np.tril(f.arrays.inverse[: f.size, : f.size])
    gram = f.kernel(f.dictionary)
    assert_allclose(root @ gram @ root.T, np.eye(f.size), atol=2e-3)
    full = make(Pairwise(*parts), Full(), kernel=Gaussian(0.5))
    full.learn(*data)
    for learner in learners:
        assert np.abs(learner.evaluate(X) - full.evaluate(X)).max() < 1e-3


@pytest.mark.parametrize("pattern", ["difference", "product"])
def test_state_goes_on_bit_for_bit(pattern):
    parts = Logistic(), PairKernel(pattern), "difference", PerClassFIFO(5), "opposite"
    for cls in (Pairwise, Plain):
        X, targets, weights = rows(weighted=True, groups=2)
        learner = make(cls(*parts), KOMP(tolerance=1e-3, max_size=40))
        learner.learn(X[:75], targets[:75], weights[:75])
        other = make(cls(*parts), KOMP(tolerance=1e-3, max_size=40))
        other.restore(learner.to_state(whole=True))
        for each in (learner, other):
            each.learn(X[75:], targets[75:], weights[75:])
        assert_array_equal(learner.function.coefficients, other.function.coefficients)
        assert_array_equal(learner.function.slots, other.function.slots)


def test_batches_average_the_slopes_of_their_rows():
    # A batch is one step at one function: the mean of the steps that its rows would make alone.
    parts = Logistic(), PairKernel("difference"), "difference", Everything(), "all"
    X, targets, weights = rows(24, repeated=False)
    learner = make(Pairwise(*parts), Full(), batch_size=24, step=PowerDecay(1.0))
    learner.learn(X, targets, weights)
    expected = np.zeros(24)
    for t in range(1, 24):
        for j in range(t):
            tau = targets[t, 0] - targets[j, 0]
            pull = tau * -0.5 / t if tau else 0.0  # the logistic slope at 0 is -1/2
            expected[t] -= pull / 24
            expected[j] += pull / 24
    points = X[np.flatnonzero(expected)]
    assert_allclose(
        learner.evaluate(X), Gaussian(0.8)(X, points) @ expected[expected != 0][:, None]
    )


@pytest.mark.parametrize("pattern", ["difference", "product"])
def test_divergence_leaves_the_model_as_it_was(pattern):
    from mercer.exceptions import DivergenceError

    parts = LeastSquaresMargin(), PairKernel(pattern), "difference", FIFO(5), "all"
    X, targets, weights = rows()
    for cls in (Pairwise, Plain):
        learner = make(cls(*parts), Full(), kernel=Linear(), step=PowerDecay(50.0, 0.0))
        learner.learn(X[:3], targets[:3], weights[:3])
        before = values(learner, X)
        counts, kept = learner.objective.counts, learner.objective.kept.X.copy()
        with pytest.raises(DivergenceError, match="diverged"):
            learner.learn(X[3:], targets[3:], weights[3:])
        assert_array_equal(values(learner, X), before)
        assert learner.objective.counts == counts
        assert_array_equal(learner.objective.kept.X, kept)
        assert learner.n_samples == 3
