"""Pairwise objectives, their buffers and their estimator against Algorithm 2 as written."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

import oracles_pairwise as oracles
from covering import covering
from mercer import KernelRanker, buffers
from mercer.expansions import KOMP, Budget, Full, RandomFeatures
from mercer.kernels import Gaussian, PairKernel
from mercer.losses import LeastSquaresMargin, Logistic, QNormHinge, SquaredHinge
from mercer.objectives import Batch, Pairwise
from mercer.schedules import PowerDecay

KERNEL = oracles.gaussian(1.2)
LOSSES = {
    "logistic": Logistic(),
    "squared_hinge": SquaredHinge(),
    "least_squares": LeastSquaresMargin(),
    "q_hinge": QNormHinge(1.5),
}
N_ROWS = 60
#: Some pairs of rows.
PAIRS = np.random.default_rng(8).integers(N_ROWS, size=(2, 200))


def drawn_places(buffer, y):
    """Places of all rows, asked for at once."""
    return buffer.places(np.asarray(y) > 0, (0, 0)).tolist()


#: Buffers of mercer's, and the same by their definition, given the labels of the rows that enter.
BUFFERS = {
    "all": (buffers.Everything(), lambda y: oracles.All),
    "fifo": (buffers.FIFO(7), lambda y: partial(oracles.Fifo, 7)),
    "large fifo": (buffers.FIFO(100), lambda y: oracles.All),
    "per class": (buffers.PerClassFIFO(4), lambda y: partial(oracles.PerClassFifo, 4)),
    "previous": (buffers.as_buffer("previous"), lambda y: partial(oracles.PerClassFifo, 1)),
    "large per class": (buffers.PerClassFIFO(100), lambda y: oracles.All),
    "reservoir": (
        buffers.Reservoir(8),
        lambda y: partial(oracles.Places, drawn_places(buffers.Reservoir(8), y)),
    ),
    "reservoir per class": (
        buffers.Reservoir(4, per_class=True),
        lambda y: partial(oracles.Places, drawn_places(buffers.Reservoir(4, per_class=True), y)),
    ),
}


def some_weights(n=N_ROWS, seed=2):
    return np.random.default_rng(seed).choice([0, 0.5, 1, 3], size=n)


def some_groups(n=N_ROWS):
    return np.arange(n) % 3


# -- buffers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUFFERS)
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(0, 40))
def test_buffer_holds_what_its_definition_says_however_rows_are_cut(name, seed, cut):
    _, y = oracles.stream(40, seed)
    buffer, definition = BUFFERS[name]
    before = (int(np.sum(y[:cut] < 0)), int(np.sum(y[:cut] > 0)))
    parts = [buffer.places(y[:cut] > 0, (0, 0)), buffer.places(y[cut:] > 0, before)]
    held = {}
    expected = definition(y)()
    for row, place in enumerate(np.concatenate(parts)):
        assert buffer.capacity is None or place < buffer.capacity
        if place >= 0:
            held[int(place)] = row
        expected.enter(row, y[row])
        assert sorted(held.values()) == sorted(expected.rows)


@pytest.mark.parametrize("per_class", [False, True])
def test_reservoir_is_a_uniform_sample_of_the_past(per_class):
    # Of 3000 rows (of a class) 600 stay; they are counted in ten equal parts of the stream.
    n = 6000 if per_class else 3000
    positive = np.arange(n) % 2 == 0
    places = buffers.Reservoir(600, per_class=per_class).places(positive, (0, 0))
    held = {int(place): row for row, place in enumerate(places) if place >= 0}
    for rows in (np.flatnonzero(positive), np.flatnonzero(~positive)) if per_class else (range(n),):
        kept = np.isin(rows, list(held.values())).reshape(10, -1).sum(axis=1)
        # Means of 60 of 300 with a standard deviation below sqrt(300 * .2 * .8) = 6.9.
        assert kept.sum() == 600
        assert_allclose(kept, 60, atol=4 * 6.9)


# -- objective -------------------------------------------------------------------------------------


def learn_exactly(objective, X, y, schedule, regularization=0.0, groups=None, weights=None, size=1):
    """Run the loop on an exact function of the rows, and return f on PAIRS of them.

    The rows' numbers travel as a column of their own, so that nothing here knows of buffers.
    """
    n, first = len(y), objective.pair_kernel.order == 1
    numbered = np.column_stack([X, np.arange(n)])
    targets = np.column_stack([y, np.zeros(n) if groups is None else groups])
    weights = np.ones(n) if weights is None else weights
    gram = KERNEL(X, X)
    parameters = np.zeros((n, 1)) if first else np.zeros((n, n))
    for step, start in enumerate(range(0, n, size)):
        rows = slice(start, start + size)
        batch = Batch(numbered[rows], targets[rows], weights[rows])
        ids = objective.points(batch)[:, -1].astype(int)
        values = gram[ids] @ parameters if first else gram[ids] @ parameters @ gram[:, ids]
        slopes, _ = objective.slopes(values, batch)
        gamma = schedule[0] * (step + 1) ** -schedule[1]
        parameters *= 1 - gamma * regularization
        objective.update(values, batch, gamma)
        np.subtract.at(parameters, ids if first else np.ix_(ids, ids), gamma * slopes)
    values = gram @ parameters if first else gram @ parameters @ gram
    return objective.values_of_pairs(values, *PAIRS)


def values_of_algorithm_2(X, y, pair_kernel, loss, buffer="all", weights=None, **options):
    """f on PAIRS of rows, by the list of pairs."""
    definition = BUFFERS[buffer][1]
    naive = oracles.naive_pairs(
        X,
        y,
        kernel=KERNEL,
        pair_kernel=pair_kernel,
        loss=loss,
        buffer=definition(y if weights is None else y[weights > 0]),
        weights=weights,
        **{"schedule": oracles.SCHEDULES[loss], **options},
    )
    return naive.at_rows(KERNEL(X, X), *PAIRS)


def assert_same_values(values, expected, tolerance=1e-10):
    """Compare in units of the largest value: f is a sum of up to 1800 terms of either sign."""
    scale = np.max(np.abs(expected))
    assert scale > 1e-3
    assert_allclose(values, expected, rtol=0, atol=tolerance * scale)


def assert_objective_follows(
    pair_kernel, label, loss, normalize="all", buffer="all", bias=0.0, size=1, **options
):
    X, y = oracles.stream()
    parts = LOSSES[loss], PairKernel(pair_kernel, bias), label, BUFFERS[buffer][0], normalize
    values = learn_exactly(Pairwise(*parts), X, y, oracles.SCHEDULES[loss], size=size, **options)
    options |= {"label": label, "normalize": normalize, "bias": bias, "batch_size": size}
    assert_same_values(values, values_of_algorithm_2(X, y, pair_kernel, loss, buffer, **options))


@pytest.mark.parametrize("loss", ["logistic", "q_hinge"])
@pytest.mark.parametrize(("pair_kernel", "label"), oracles.CASES)
def test_objective_is_that_of_algorithm_2(pair_kernel, label, loss):
    assert_objective_follows(pair_kernel, label, loss)


def admitted_normalizations(label):
    return ["opposite", "all", "balanced"] if label == "same" else ["opposite", "all"]


PAIR_LABELS = ("difference", "sign", "same")
NORMALIZATIONS = admitted_normalizations("same")


def admits(pair_kernel, label, normalize, *others):
    return label in oracles.ADMITTED[pair_kernel] and normalize in admitted_normalizations(label)


@pytest.mark.parametrize(
    ("pair_kernel", "buffer", "size"), covering(oracles.PAIR_KERNELS, BUFFERS, [1, 6])
)
def test_objective_pairs_rows_with_those_of_its_buffer(pair_kernel, buffer, size):
    label = oracles.ADMITTED[pair_kernel][-1]
    assert_objective_follows(
        pair_kernel,
        label,
        "logistic",
        admitted_normalizations(label)[-1],
        buffer,
        size=size,
        regularization=0.1,
        groups=some_groups(),
        weights=some_weights(),
    )


@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize("pair_kernel", ["symmetric", "mlpk", "product"])
def test_bias_adds_a_constant_to_the_pair_kernel(pair_kernel, size):
    assert_objective_follows(
        pair_kernel,
        "same",
        "logistic",
        "balanced",
        "fifo",
        bias=0.7,
        size=size,
        regularization=0.1,
        groups=some_groups(),
        weights=some_weights(),
    )


@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric"])
@pytest.mark.parametrize("mutant", oracles.MUTANTS)
def test_a_mistake_would_be_seen(pair_kernel, mutant):
    X, y = oracles.stream()
    expected = values_of_algorithm_2(X, y, pair_kernel, "logistic")
    wrong = oracles.structured(
        KERNEL(X, X), y, pair_kernel=pair_kernel, schedule=(2.0, 0.5), mutant=mutant
    )[-1]
    rows = KERNEL(X, X)
    values = oracles.evaluate(pair_kernel, wrong, rows[PAIRS[0]], rows[PAIRS[1]])
    with pytest.raises(AssertionError, match="Not equal"):
        assert_same_values(values, expected)


# -- estimator -------------------------------------------------------------------------------------


def ranker(loss="logistic", pair_kernel="difference", buffer="all", **parameters):
    """Make the paper's algorithm, but for the parameters."""
    if "pair_label" not in parameters:
        parameters["pair_label"] = oracles.ADMITTED[pair_kernel][0]
    paper = {
        "normalize": "all",
        "kernel": Gaussian(1.2),
        "expansion": Full(),
        "step_size": PowerDecay(*oracles.SCHEDULES[loss]),
        "shuffle": False,
    }
    parts = {"pair_kernel": pair_kernel, "buffer": BUFFERS[buffer][0]}
    return KernelRanker(LOSSES[loss], **{**paper, **parts, **parameters})


def predicted(model, X):
    return model.predict_pair(X[PAIRS[0]], X[PAIRS[1]])


@pytest.mark.parametrize(
    ("pair_kernel", "label", "normalize", "loss"),
    covering(oracles.PAIR_KERNELS, PAIR_LABELS, NORMALIZATIONS, LOSSES, where=admits),
)
def test_ranker_is_algorithm_2(pair_kernel, label, normalize, loss):
    X, y = oracles.stream()
    model = ranker(loss, pair_kernel, pair_label=label, normalize=normalize).fit(X, y)
    options = {"label": label, "normalize": normalize}
    expected = values_of_algorithm_2(X, y, pair_kernel, loss, **options)
    assert_same_values(predicted(model, X), expected)


def streams_through(pair_kernel, label, normalize, buffer):
    # Labels that are only compared have no two classes.
    no_classes = label == "same" and BUFFERS[buffer][0].per_class
    return admits(pair_kernel, label, normalize) and not no_classes


@pytest.mark.parametrize(
    ("pair_kernel", "label", "normalize", "buffer"),
    covering(oracles.PAIR_KERNELS, PAIR_LABELS, NORMALIZATIONS, BUFFERS, where=streams_through),
)
def test_ranker_streams_through_its_buffer(pair_kernel, label, normalize, buffer):
    X, y = oracles.stream()
    groups, weights = some_groups(), some_weights()
    options = {"normalize": normalize, "regularization": 0.1}
    model = ranker("logistic", pair_kernel, buffer, pair_label=label, **options)
    model.fit(X, y, weights, group=groups)
    expected = values_of_algorithm_2(
        X, y, pair_kernel, "logistic", buffer, weights, label=label, groups=groups, **options
    )
    assert_same_values(predicted(model, X), expected)
    pieces = clone(model)
    for rows in (slice(0, 20), slice(20, 21), slice(21, 45)):
        pieces.partial_fit(X[rows], y[rows], sample_weight=weights[rows], group=groups[rows])
    for row in range(45, N_ROWS):
        pieces.learn_one(X[row], y[row], weights[row], group=groups[row])
    assert_same_values(predicted(pieces, X), expected)


# The rows are a multiple of the batch size: a last batch that is short would be a shorter step.
@pytest.mark.parametrize("size", [1, 6])
@pytest.mark.parametrize(
    ("pair_kernel", "label"), [("symmetric", "same"), ("mlpk", "same"), ("product", "sign")]
)
def test_ranker_learns_a_bias_by_batches(pair_kernel, label, size):
    X, y = oracles.stream()
    options = {"normalize": "all", "regularization": 0.1, "batch_size": size}
    model = ranker("squared_hinge", PairKernel(pair_kernel, 0.5), pair_label=label, **options)
    expected = values_of_algorithm_2(
        X, y, pair_kernel, "squared_hinge", label=label, bias=0.5, **options
    )
    assert_same_values(predicted(model.fit(X, y), X), expected)


@pytest.mark.parametrize("buffer", ["all", "per class"])
@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric", "product"])
def test_ranker_pairs_the_rows_of_a_batch_with_each_other(pair_kernel, buffer):
    X, y = oracles.stream()
    options = {"normalize": "opposite", "regularization": 0.1, "batch_size": 6}
    model = ranker("logistic", pair_kernel, buffer, **options).fit(X, y)
    label = oracles.ADMITTED[pair_kernel][0]
    expected = values_of_algorithm_2(X, y, pair_kernel, "logistic", buffer, label=label, **options)
    assert_same_values(predicted(model, X), expected)


@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric"])
@pytest.mark.parametrize("label", ["difference", "sign"])
def test_ranker_takes_real_targets(pair_kernel, label):
    X, _ = oracles.stream()
    y = np.round(2 * np.sin(X[:, 0]) + X[:, 1], 1)
    for normalize in ("opposite", "all"):
        options = {"normalize": normalize, "schedule": (0.3, 0.5)}
        model = ranker(
            "logistic",
            pair_kernel,
            "fifo",
            pair_label=label,
            normalize=normalize,
            step_size=PowerDecay(0.3, 0.5),
        )
        expected = values_of_algorithm_2(
            X, y, pair_kernel, "logistic", "fifo", label=label, **options
        )
        assert_same_values(predicted(model.fit(X, y), X), expected)


@pytest.mark.parametrize("pair_kernel", ["symmetric", "mlpk", "product"])
def test_ranker_compares_labels_of_any_number(pair_kernel):
    X, _ = oracles.stream()
    y = np.round(X[:, 0]) + 0.0  # no -0
    assert len(np.unique(y)) > 3
    options = {"normalize": "balanced", "groups": some_groups()}
    model = ranker("logistic", pair_kernel, "fifo", pair_label="same", normalize="balanced")
    model.fit(X, [f"class {label:g}" for label in y], group=some_groups())
    expected = values_of_algorithm_2(X, y, pair_kernel, "logistic", "fifo", label="same", **options)
    assert_same_values(predicted(model, X), expected)


@pytest.mark.parametrize(
    ("pair_kernel", "buffer", "expansion"),
    covering(oracles.PAIR_KERNELS, ["all", "fifo", "reservoir"], [Full(), KOMP(tolerance=0.0)]),
)
def test_rows_that_come_again_share_their_place_in_the_dictionary(pair_kernel, buffer, expansion):
    X, y = oracles.stream()
    X = np.round(X[:, :2])
    n_different = len(np.unique(X, axis=0))
    assert n_different < 40
    label = oracles.ADMITTED[pair_kernel][0]
    expected = values_of_algorithm_2(X, y, pair_kernel, "logistic", buffer, label=label)
    model = ranker("logistic", pair_kernel, buffer, expansion=expansion).fit(X, y)
    assert model.model_order_ == n_different
    assert_same_values(predicted(model, X), expected, 1e-8)


@pytest.mark.parametrize("pair_kernel", oracles.PAIR_KERNELS)
def test_two_passes_are_a_stream_of_twice_the_rows(pair_kernel):
    X, y = oracles.stream(30)
    twice, label = np.vstack([X, X]), oracles.ADMITTED[pair_kernel][0]
    model = ranker("logistic", pair_kernel, "fifo", n_passes=2).fit(X, y)
    expected = values_of_algorithm_2(
        twice, np.concatenate([y, y]), pair_kernel, "logistic", "fifo", label=label
    )
    assert_same_values(predicted(model, twice), expected)


def test_average_is_the_mean_of_the_functions_after_each_row():
    X, y = oracles.stream()
    model = ranker(average="polyak").fit(X, y)
    naive = oracles.naive_pairs(X, y, kernel=KERNEL, schedule=oracles.SCHEDULES["logistic"])
    gram = KERNEL(X, X)
    expected = naive.average().at_rows(gram, *PAIRS) + naive.at_rows(gram, *PAIRS) / N_ROWS
    assert_same_values(predicted(model, X), expected)


# -- equalities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric", "product"])
@pytest.mark.parametrize("loss", LOSSES)
def test_sign_at_four_times_the_step_is_twice_the_difference(pair_kernel, loss):
    X, y = oracles.stream()
    scale, power = oracles.SCHEDULES[loss]
    by_difference = ranker(loss, pair_kernel, pair_label="difference").fit(X, y)
    by_sign = ranker(
        loss, pair_kernel, pair_label="sign", step_size=PowerDecay(4 * scale, power)
    ).fit(X, y)
    assert_same_values(predicted(by_sign, X), 2 * predicted(by_difference, X))


@pytest.mark.parametrize("buffer", ["large fifo", "large per class"])
@pytest.mark.parametrize("pair_kernel", ["difference", "antisymmetric", "product"])
def test_buffer_that_never_overflows_is_the_whole_past(pair_kernel, buffer):
    X, y = oracles.stream()
    values = [predicted(ranker("logistic", pair_kernel, b).fit(X, y), X) for b in ("all", buffer)]
    assert_same_values(values[1], values[0])


@pytest.mark.parametrize("pair_kernel", oracles.PAIR_KERNELS)
def test_budget_that_is_never_spent_changes_nothing(pair_kernel):
    buffer = "fifo" if oracles.ADMITTED[pair_kernel][0] == "same" else "per class"
    X, y = oracles.stream()
    exact = predicted(ranker("logistic", pair_kernel, buffer).fit(X, y), X)
    for expansion in (KOMP(tolerance=0.0, max_size=N_ROWS), Budget(N_ROWS, "project")):
        model = ranker("logistic", pair_kernel, buffer, expansion=expansion).fit(X, y)
        assert_same_values(predicted(model, X), exact, 1e-8)


@pytest.mark.parametrize("pair_kernel", ["antisymmetric", "symmetric", "mlpk", "product"])
def test_random_features_are_algorithm_2_with_their_own_kernel(pair_kernel):
    X, y = oracles.stream()
    label = oracles.ADMITTED[pair_kernel][0]
    model = ranker("logistic", pair_kernel, "fifo", expansion=RandomFeatures(64)).fit(X, y)
    features = model.random_features(X)
    index = np.arange(N_ROWS)[:, None].astype(float)

    def kernel(first, second):
        return (features @ features.T)[first[:, 0].astype(int)][:, second[:, 0].astype(int)]

    naive = oracles.naive_pairs(
        index,
        y,
        kernel=kernel,
        pair_kernel=pair_kernel,
        label=label,
        buffer=partial(oracles.Fifo, 7),
        schedule=oracles.SCHEDULES["logistic"],
    )
    expected = naive.at_rows(kernel(index, index), *PAIRS)
    # Features are single precision.
    assert_same_values(predicted(model, X), expected, 1e-6)
