"""Kernels of pairs that are functions: Algorithm 2 of Ying and Zhou with any K."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import oracles_pairwise as oracles
from covering import covering
from mercer import KernelRanker
from mercer.buffers import FIFO, PerClassFIFO
from mercer.exceptions import DivergenceError, ParameterError
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
from mercer.inspection import describe_pairs
from mercer.kernels import FunctionPairKernel, Gaussian, PairKernel, as_pair_kernel
from mercer.kernels.pairs import PAIR_KERNELS
from mercer.schedules import PowerDecay

POINTS = oracles.gaussian(1.1)
ALL_PAIRS = tuple(index.ravel() for index in np.indices((40, 40)))


def of_differences(X1, X2, U1, U2):
    """A kernel that no pattern has: near pairs have differences that are near."""
    return Gaussian(1.5)(X1 - X2, U1 - U2) - Gaussian(1.5)(X1 - X2, U2 - U1)


def mixed(X1, X2, U1, U2):
    """The product of a pattern and of a kernel of the sums."""
    both = oracles.pair_gram("difference", POINTS, X1, X2, U1, U2)
    return both * (1.0 + np.exp(-0.1 * ((X1 + X2)[:, None] - (U1 + U2)) ** 2).sum(axis=2))


def ranker(pair_kernel, **changes):
    return KernelRanker(**{"pair_kernel": pair_kernel, "shuffle": False} | changes)


def paper(pair_kernel, loss="logistic", **changes):
    c, theta = oracles.SCHEDULES[loss]
    names = {"least_squares": "least_squares_margin"}
    return ranker(
        pair_kernel,
        **{
            "loss": names.get(loss, loss),
            "pair_label": "difference",
            "buffer": "all",
            "normalize": "all",
            "expansion": Full(),
            "step_size": PowerDecay(c, theta),
        }
        | changes,
    )


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "least_squares"])
@pytest.mark.parametrize("function", [of_differences, mixed])
def test_steps_are_those_of_algorithm_2(function, loss):
    n = 14
    X, y = oracles.stream(n)
    model = paper(function, loss).fit(X, y)
    first, second = (X[index.ravel()] for index in np.indices((n, n)))
    c, theta = oracles.SCHEDULES[loss]
    steps = [c * t**-theta for t in range(1, n + 1)]
    K = function(first, second, first, second).reshape(n, n, n, n)
    expected = oracles.algorithm_2(K, y, loss, steps).ravel()
    scale = np.abs(expected).max()
    assert scale > 1e-2
    assert_allclose(model.predict_pair(first, second), expected, atol=1e-12 * scale)


@pytest.mark.parametrize(("pair_kernel", "label"), oracles.CASES)
def test_a_function_is_as_the_pattern_that_it_computes(pair_kernel, label):
    X, y = oracles.stream(40)

    def function(X1, X2, U1, U2):
        return oracles.pair_gram(pair_kernel, POINTS, X1, X2, U1, U2)

    changes = {"buffer": FIFO(7), "normalize": "opposite", "pair_label": label}
    of_function = paper(function, **changes).fit(X, y)
    of_pattern = paper(pair_kernel, kernel=Gaussian(1.1), **changes).fit(X, y)
    naive = oracles.naive_pairs(
        X,
        y,
        kernel=POINTS,
        pair_kernel=pair_kernel,
        label=label,
        normalize="opposite",
        buffer=lambda: oracles.Fifo(7),
        schedule=oracles.SCHEDULES["logistic"],
    )
    first, second = ALL_PAIRS
    values = of_function.predict_pair(X[first], X[second])
    scale = np.abs(values).max()
    assert scale > 1e-2
    assert_allclose(values, naive(X[first], X[second]), atol=1e-10 * scale)
    assert_allclose(values, of_pattern.predict_pair(X[first], X[second]), atol=1e-10 * scale)


@pytest.mark.parametrize(
    ("batch_size", "grouped", "weighted"), covering([1, 6], [False, True], [False, True])
)
def test_batches_groups_and_weights_count_as_in_the_oracle(batch_size, grouped, weighted):
    X, y = oracles.stream()
    rng = np.random.default_rng(1)
    groups = rng.integers(3, size=60) if grouped else None
    weights = rng.choice([0.0, 0.5, 2.0], size=60) if weighted else None

    def function(X1, X2, U1, U2):
        return oracles.pair_gram("antisymmetric", POINTS, X1, X2, U1, U2)

    changes = {"buffer": FIFO(9), "normalize": "opposite", "batch_size": batch_size}
    model = paper(function, regularization=0.1, **changes)
    model.fit(X, y, sample_weight=weights, group=groups)
    naive = oracles.naive_pairs(
        X,
        y,
        kernel=POINTS,
        pair_kernel="antisymmetric",
        normalize="opposite",
        buffer=lambda: oracles.Fifo(9),
        schedule=oracles.SCHEDULES["logistic"],
        regularization=0.1,
        groups=groups,
        weights=weights,
        batch_size=batch_size,
    )
    first, second = ALL_PAIRS
    expected = naive(X[first], X[second])
    scale = np.abs(expected).max()
    assert_allclose(model.predict_pair(X[first], X[second]), expected, atol=1e-10 * scale)


# -- expansions ------------------------------------------------------------------------------------

SMALL = [KOMP(), KOMP(max_size=40), Budget(60, "remove"), Budget(60, "project"), Quantized(0.6)]


def moons(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(np.hypot(*X.T) < 1.1, 1, 0)


@pytest.mark.parametrize("average", [None, "suffix"])
@pytest.mark.parametrize("expansion", [*SMALL, "auto"], ids=repr)
def test_functions_of_pairs_stay_small(expansion, average):
    X, y = moons()
    model = ranker(mixed, expansion=expansion, buffer=PerClassFIFO(4), average=average)
    model.fit(X[:140], y[:140])
    assert model.dictionary_.shape == (model.model_order_, 4)
    assert model.model_order_ <= 280
    if isinstance(expansion, Budget) or expansion == KOMP(max_size=40):
        assert model.model_order_ <= 60
    assert model.score(X[200:], y[200:]) > 0.8


def test_compression_promises_its_error():
    X, y = moons(100)
    tolerance = 0.02
    changes = {"buffer": PerClassFIFO(4), "step_size": PowerDecay(1.0)}
    model = ranker(mixed, expansion=KOMP(tolerance=tolerance), **changes).fit(X, y)
    assert model.history_.compression_error.max() <= tolerance * (1.0 + 1e-6)
    assert (
        0 < model.model_order_ < ranker(mixed, expansion=Full(), **changes).fit(X, y).model_order_
    )


@pytest.mark.parametrize(
    "expansion",
    [
        Dictionary(20),
        ALD(),
        FixedBudget(20),
        Tracking(20),
        RandomFeatures(),
        RandomFeatures(mode="faithful"),
        "random_features",
    ],
    ids=repr,
)
def test_expansions_that_need_more_than_a_function_are_refused(expansion):
    X, y = moons(50)
    model = ranker(mixed, buffer=PerClassFIFO(4)).fit(X, y)
    before = model.predict_pair(X[:9], X[9:18])
    with pytest.raises(ParameterError, match=r"`expansion=.*(function mixed|pairs)"):
        model.set_params(expansion=expansion).fit(X, y)
    assert np.array_equal(model.predict_pair(X[:9], X[9:18]), before)


# -- streams ---------------------------------------------------------------------------------------


def test_single_rows_and_calls_are_as_one_call():
    X, y = moons(120)
    start = ranker(mixed, buffer=PerClassFIFO(4), expansion=KOMP()).partial_fit(X[:60], y[:60])
    rows, calls = copy.deepcopy(start), pickle.loads(pickle.dumps(start))
    start.partial_fit(X[60:], y[60:])
    for x, label in zip(X[60:], y[60:], strict=True):
        rows.learn_one(x, label)
    for cut in (slice(60, 61), slice(61, 100), slice(100, 120)):
        calls.partial_fit(X[cut], y[cut])
    expected = start.predict_pair(X[:60], X[60:])
    for model in (rows, calls):
        assert_allclose(model.predict_pair(X[:60], X[60:]), expected, rtol=1e-9)
        assert model.n_samples_seen_ == 120


def test_sparse_and_float32_rows_are_like_dense_ones():
    X, y = moons(100)
    model = ranker(mixed, buffer=PerClassFIFO(4)).fit(X, y)
    expected = model.predict_pair(X[:50], X[50:])
    of_sparse = ranker(mixed, buffer=PerClassFIFO(4)).fit(sparse.csr_array(X), y)
    found = of_sparse.predict_pair(sparse.csr_array(X[:50]), sparse.csr_array(X[50:]))
    assert_allclose(found, expected, atol=1e-9)
    single = ranker(mixed, buffer=PerClassFIFO(4)).fit(X.astype(np.float32), y)
    scale = np.abs(expected).max()
    assert_allclose(single.predict_pair(X[:50], X[50:]), expected, atol=0.05 * scale)


def test_columns_of_any_scale_are_the_functions_business():
    X, y = moons(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker(lambda A, B, U, V: 1.0 + 0.0 * (A - B) @ (U - V).T).fit(X * [1.0, 1e6], y)


# -- steps and labels ------------------------------------------------------------------------------


def test_automatic_steps_are_in_units_of_the_function():
    X, y = moons(150)

    def times(factor):
        return lambda *ends: factor * mixed(*ends)

    one, other = (
        ranker(FunctionPairKernel(times(factor)), buffer=PerClassFIFO(4), expansion=Full())
        for factor in (1.0, 100.0)
    )
    first, second = one.fit(X, y), other.fit(X, y)
    expected = first.predict_pair(X[:70], X[80:])
    assert_allclose(second.predict_pair(X[:70], X[80:]), expected, rtol=1e-9)
    bound = FunctionPairKernel(mixed, bound=2.0 * first.targets_.bound)
    shorter = ranker(bound, buffer=PerClassFIFO(4), expansion=Full()).fit(X, y)
    assert_allclose(shorter.history_.step_size[0], first.history_.step_size[0] / 2.0)


@pytest.mark.parametrize(
    ("symmetry", "label"), [(1, "sign"), (1, "difference"), (-1, "same")], ids=str
)
def test_labels_that_a_symmetry_excludes_are_refused(symmetry, label):
    kernel = FunctionPairKernel(mixed, symmetry=symmetry)
    with pytest.raises(ParameterError, match="nothing would be learned"):
        ranker(kernel, pair_label=label).fit(*moons(20))


def test_similarity_can_be_learned_from_a_function():
    X, y = moons(250, seed=3)

    def unordered(X1, X2, U1, U2):
        return oracles.pair_gram("symmetric", POINTS, X1, X2, U1, U2) + 1.0

    kernel = FunctionPairKernel(unordered, symmetry=1)
    model = ranker(kernel, pair_label="same", buffer=FIFO(10)).fit(X[:180], y[:180])
    assert model.score(X[180:], y[180:]) > 0.75


# -- errors ----------------------------------------------------------------------------------------


def test_there_are_no_scores_of_rows():
    X, y = moons(50)
    model = ranker(mixed, buffer=PerClassFIFO(4)).fit(X, y)
    for ask in ("decision_function", "predict"):
        assert not hasattr(model, ask)
    for ask in (lambda: model.score_one(X[0]), lambda: model.scores(X[:3])):
        with pytest.raises(AttributeError, match=r"function mixed.*predict_pair"):
            ask()
    assert describe_pairs(model)["pair_kernel"] == "function mixed"


def test_a_model_with_a_function_is_pickled_but_not_saved(tmp_path):
    X, y = moons(50)
    model = ranker(mixed, buffer=PerClassFIFO(4)).fit(X, y)
    with pytest.raises(ValueError, match="cannot be stored in a model file"):
        model.save(tmp_path / "model")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_pair(X[:9], X[9:18]), model.predict_pair(X[:9], X[9:18]))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"kernel": Gaussian(1.0)}, "`kernel` is a kernel of points"),
        ({"kernel": "auto"}, "`kernel` is a kernel of points"),
        ({"pair_kernel": FunctionPairKernel}, "with brackets"),
        ({"pair_kernel": lambda A, B, U, V: np.ones(3)}, "`function` must return one value"),
        ({"pair_kernel": lambda A, B, U, V: np.full((len(A), len(U)), np.nan)}, "not finite"),
        ({"pair_kernel": "differenc"}, "`pair_kernel` must be one of"),
    ],
)
def test_what_cannot_work_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        ranker(mixed).set_params(**changes).fit(*moons(30))


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"function": 3}, "must be a function K"),
        ({"function": mixed, "symmetry": 2}, "`symmetry` must be one of"),
        ({"function": mixed, "bound": 0.0}, "`bound` must be a finite number"),
    ],
)
def test_wrong_parameters_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        FunctionPairKernel(**params)


def test_a_function_that_is_no_kernel_is_the_users_business_but_ends_soundly():
    X, y = moons(60)

    def negative(X1, X2, U1, U2):
        return -50.0 * mixed(X1, X2, U1, U2)

    model = ranker(FunctionPairKernel(negative, bound=1.0), loss="squared_hinge", expansion=Full())
    with pytest.raises(DivergenceError):
        model.fit(X, y)
    assert not hasattr(model, "learner_")


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_bound_of_a_pattern_is_its_largest_value(nonnegative):
    rng = np.random.default_rng(0)
    patterns = [*rng.normal(size=(40, 2, 2)), *rng.normal(size=(10, 2)), *PAIR_KERNELS]
    angles = np.linspace(0.0, np.pi / 2.0 if nonnegative else np.pi, 300)
    features = 3.0 * np.column_stack([np.cos(angles), np.sin(angles)])
    shorter = rng.uniform(size=(300, 1)) * features
    for kernel in (PairKernel(pattern) for pattern in patterns):
        bound = kernel.bound(9.0, nonnegative=nonnegative)
        largest = kernel.of_gram(features @ features.T).max()
        assert bound * (1.0 - 1e-4) <= largest <= bound * (1.0 + 1e-12)
        assert kernel.of_gram(shorter @ shorter.T).max() <= bound


def test_kernels_are_matrices_of_pairs():
    X, _ = moons(6)
    kernel = as_pair_kernel(mixed)
    assert_allclose(kernel(X[:2], X[2:4]), mixed(X[:2], X[2:4], X[:2], X[2:4]))
    assert kernel(X[:2], X[2:4], X[3:], X[:3]).shape == (2, 3)
    assert as_pair_kernel(kernel) is kernel
    assert isinstance(as_pair_kernel("mlpk"), PairKernel)
    one = [[0.0]]
    with pytest.raises(ValueError, match="`U1` and `U2` must be given both"):
        kernel(one, one, one)
    for columns in ({"U1": one}, {"U2": one}):
        with pytest.raises(ValueError, match="`U1` and `U2` must be given both"):
            PairKernel("mlpk")(Gaussian(1.0), one, one, **columns)
    with pytest.raises(ValueError, match=r"`X1` and `X2` must be of one shape .* \(1, 1\) and"):
        kernel(one, [[0.0, 1.0]])
    with pytest.raises(ValueError, match="as many columns, got 2 and 1"):
        kernel(X[:2], X[2:4], one, one)
