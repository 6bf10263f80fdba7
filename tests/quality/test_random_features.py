"""Random features as an expansion: against dense algebra, in any order, and as an estimator."""

import copy
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons

import oracles_features
from mercer import KernelClassifier, KernelRegressor, kernels, load_model, losses
from mercer import threads as _threads
from mercer.exceptions import ConditioningWarning, DivergenceError
from mercer.expansions import RandomFeatures, as_expansion
from mercer.features import FeatureOptions
from mercer.functions import FeatureExpansion
from mercer.kernels import Gaussian
from mercer.learning import AutomaticStep, FeatureLearner, FeatureSteps
from mercer.losses import Loss
from mercer.schedules import Constant, PowerDecay

RNG = np.random.default_rng(0)
N, D, M, B = 240, 3, 16, 32
X = RNG.normal(size=(N, D))
TARGETS = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=N)
LABELS = (X[:, 0] * X[:, 1] > 0.0).astype(int)
KERNEL = Gaussian(1.3)
PLAIN = FeatureOptions(True, "iid")
LOSSES = [
    cls()
    for cls in vars(losses).values()
    if isinstance(cls, type) and issubclass(cls, Loss) and cls.row is not None
]
MODES = [
    RandomFeatures(M, mode="newton", ridge=1e-2),
    RandomFeatures(M, mode="newton"),
    RandomFeatures(M, mode="faithful"),
    RandomFeatures(M // 4, mode="cyclic", max_blocks=3),
    RandomFeatures(M // 4, mode="cyclic", max_blocks=4, growth="block"),
    RandomFeatures(M // 4, mode="cyclic", max_blocks=4, growth="doubling"),
    RandomFeatures(M // 4, mode="cyclic", max_blocks=3, ridge=[1e-3, 1e-2]),
]


def double(expansion, **params):
    chosen = {"precision": "double", "design": "iid", "min_steps": 0, **params}
    return clone(expansion).set_params(**chosen)


def regressor(expansion, **params):
    chosen = {"kernel": KERNEL, "step_size": 0.7, "batch_size": B, "average": None, **params}
    return KernelRegressor(expansion=expansion, **chosen)


def blocks_of(n_blocks, seed=0):
    return oracles_features.features_of_blocks(KERNEL, X, n_blocks, M, seed, PLAIN)


def square_slopes(rows, F):
    return F - TARGETS[rows, np.newaxis]


def batches_in_order(n=N, size=B):
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


# -- against stored features ---------------------------------------------------------------------


@pytest.mark.parametrize("regularization", [0.0, 0.3])
def test_faithful_steps_are_the_recursion_on_stored_features(regularization):
    model = regressor(double(MODES[2]), regularization=regularization).partial_fit(X, TARGETS)
    batches = batches_in_order()
    steps = [0.7] * 7 + [0.7 * 16 / 32]  # the last batch is half a batch
    expected = oracles_features.faithful(
        blocks_of(8), batches, square_slopes, steps, regularization
    )[-1]
    assert model.model_order_ == 8 * M
    np.testing.assert_allclose(model.coefficients_, np.vstack(expected), rtol=1e-9, atol=1e-12)
    Z = np.hstack(blocks_of(8))
    np.testing.assert_allclose(model.random_features(X), Z, atol=1e-12)
    np.testing.assert_allclose(model.predict(X), Z @ model.coefficients_[:, 0], atol=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 3.0])
def test_averages_in_closed_form_are_the_averages_of_the_iterates(exponent):
    average = {0.0: "polyak", 3.0: "suffix"}[exponent]
    model = regressor(double(MODES[2]), regularization=0.3, average=average)
    model.partial_fit(X, TARGETS)
    steps = [0.7] * 7 + [0.35]
    iterates = oracles_features.faithful(
        blocks_of(8), batches_in_order(), square_slopes, steps, 0.3
    )
    weights = np.arange(1.0, 9.0) ** exponent
    padded = np.array([np.vstack([*i, np.zeros(((8 - len(i)) * M, 1))]) for i in iterates])
    expected = np.tensordot(weights / weights.sum(), padded, axes=1)
    np.testing.assert_allclose(model.coefficients_, expected, rtol=1e-9, atol=1e-12)


def test_shrinking_far_below_one_loses_nothing():
    strong = regressor(double(MODES[2]), step_size=1.0, regularization=0.9)
    model = strong.set_params(average="suffix").partial_fit(X, TARGETS)  # 0.1**8 < 1e-6
    iterates = oracles_features.faithful(
        blocks_of(8), batches_in_order(), square_slopes, [1.0] * 7 + [0.5], 0.9
    )
    weights = np.arange(1.0, 9.0) ** 3
    padded = [np.vstack([*i, np.zeros(((8 - len(i)) * M, 1))]) for i in iterates]
    expected = np.tensordot(weights / weights.sum(), np.array(padded), axes=1)
    np.testing.assert_allclose(model.coefficients_, expected, rtol=1e-8, atol=1e-13)


def test_the_ridge_may_depend_on_the_step():
    ridges = PowerDecay(0.9, 0.5)
    model = regressor(double(MODES[2]), regularization=ridges).partial_fit(X, TARGETS)
    expected = oracles_features.faithful(
        blocks_of(8),
        batches_in_order(),
        square_slopes,
        [0.7] * 7 + [0.35],
        [ridges(t) for t in range(1, 9)],
    )[-1]
    np.testing.assert_allclose(model.coefficients_, np.vstack(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("average", [None, "polyak"])
@pytest.mark.parametrize("theta_nu", [1.0, 1.5, 2.0, 3.0])
def test_steps_of_the_theorem_may_turn_and_forget_the_function(theta_nu, average):
    # DSG, Theorem 4: the factor 1 - theta nu / t is below 0 at first, and 0 at step theta nu, where
    # averages start anew.
    schedule = PowerDecay(theta_nu / 0.3, 1.0)
    settings = {"step_size": schedule, "regularization": 0.3, "average": average}
    model = regressor(double(MODES[2]), **settings).partial_fit(X, TARGETS)
    steps = [schedule(t) for t in range(1, 8)] + [schedule(8) / 2]
    iterates = oracles_features.faithful(
        blocks_of(8), batches_in_order(), square_slopes, steps, 0.3
    )
    padded = np.array([np.vstack([*i, np.zeros(((8 - len(i)) * M, 1))]) for i in iterates])
    forgotten = int(theta_nu) - 1 if theta_nu == int(theta_nu) else 0
    expected = padded[-1] if average is None else padded[forgotten:].mean(axis=0)
    scale = np.abs(padded).max()
    np.testing.assert_allclose(model.coefficients_, expected, rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("mode", [MODES[0], MODES[2]], ids=lambda mode: mode.mode)
def test_other_steps_may_not_turn_the_function(mode):
    for steps in (
        Constant(4.0),
        PowerDecay(4.0, 0.5),
        *[PowerDecay(4.0, 1.0)] * (mode is MODES[0]),
    ):
        model = regressor(double(mode), step_size=steps, regularization=0.3)
        with pytest.raises(ValueError, match="must be below 1"):
            model.partial_fit(X, TARGETS)


@pytest.mark.parametrize("regularization", [0.0, 0.3])
def test_newton_steps_are_the_recursion_on_stored_features(regularization):
    model = regressor(double(MODES[0]), regularization=regularization)
    model.partial_fit(X[:224], TARGETS[:224])
    expected = oracles_features.newton(
        blocks_of(7), batches_in_order(224), square_slopes, [0.7] * 7, regularization, 1e-2
    )
    np.testing.assert_allclose(model.coefficients_, np.vstack(expected), rtol=1e-8, atol=1e-11)


def test_raced_ridges_are_those_learned_alone():
    raced = regressor(double(MODES[1])).partial_fit(X[:224], TARGETS[:224])
    function = raced.learner_.function
    alone = regressor(double(MODES[1], ridge=function.ridges[function.best]))
    alone.partial_fit(X[:224], TARGETS[:224])
    np.testing.assert_allclose(raced.coefficients_, alone.coefficients_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_cyclic_steps_on_all_rows_reach_the_minimiser_over_the_features(loss):
    expansion = double(MODES[3], max_blocks=3, block_size=M)
    nu = 1e-2
    model = regressor(
        expansion, loss=loss, step_size=1.0, batch_size=N, regularization=nu, n_passes=400
    )
    model.fit(X, TARGETS)
    assert model.model_order_ == 3 * M
    Z = np.hstack(blocks_of(3)) / np.sqrt(3.0)  # so that Z Z' is an average over blocks
    if loss == "squared":
        b = oracles_features.ridge_solution(Z, TARGETS[:, np.newaxis], nu)
        np.testing.assert_allclose(model.predict(X), (Z @ b)[:, 0], atol=1e-8)
    b = model.coefficients_ * np.sqrt(3.0)
    F = Z @ b
    slopes = model.loss_.derivative(TARGETS[:, np.newaxis], F)
    np.testing.assert_allclose(Z.T @ slopes / N + nu * b, 0.0, atol=1e-8)


@pytest.mark.parametrize(
    ("growth", "visited"),
    [
        ("fixed", [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        ("block", [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        ("doubling", [0, 0, 0, 1, 0, 1, 0, 1, 2, 3]),
    ],
)
def test_blocks_are_visited_in_turns(growth, visited):
    model = regressor(double(MODES[3], max_blocks=4, growth=growth))
    seen, before = [], None
    for rows in [np.arange(B)] * 10:
        model.partial_fit(X[rows], TARGETS[rows])
        after = model.coefficients_.reshape(-1, M // 4)
        old = np.zeros_like(after)
        if before is not None:
            old[: len(before)] = before
        seen.append(int(np.flatnonzero(np.any(after != old, axis=1))[0]))
        before = after
    assert seen == visited


# -- order of the work does not matter -----------------------------------------------------------


@pytest.mark.parametrize("mode", [MODES[0], MODES[1], MODES[2], MODES[3]], ids=repr)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_right_looking_and_left_looking_give_the_same_coefficients(mode, precision):
    expansion = double(mode, precision=precision)
    fitted = regressor(expansion, shuffle=False, regularization=0.01).fit(X[:224], TARGETS[:224])
    stream = regressor(expansion, regularization=0.01)
    for rows in batches_in_order(224):
        stream.partial_fit(X[rows], TARGETS[rows])
    tolerance = 1e-10 if precision == "double" else 2e-5
    scale = np.abs(fitted.predict(X)).max()
    np.testing.assert_allclose(stream.predict(X), fitted.predict(X), atol=tolerance * scale)
    if precision == "double":
        np.testing.assert_allclose(
            stream.coefficients_, fitted.coefficients_, rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_a_stream_may_be_cut_anywhere(mode):
    whole = regressor(double(mode)).partial_fit(X, TARGETS)
    pieces = regressor(double(mode))
    size = B if mode.mode == "faithful" else 17
    for start in range(0, N, size):
        pieces.partial_fit(X[start : start + size], TARGETS[start : start + size])
        pieces.predict(X[:2])  # makes a provisional step, which must leave no trace
    last = 0.5 if mode.mode == "faithful" else 1.0  # a call of its own is a whole step
    if last == 1.0:
        np.testing.assert_allclose(pieces.predict(X), whole.predict(X), rtol=1e-8, atol=1e-9)
    assert pieces.n_samples_seen_ == whole.n_samples_seen_ == N


def test_passes_are_the_recursion_with_permuted_rows():
    model = regressor(double(MODES[0]), n_passes=3, shuffle=True, random_state=5)
    model.fit(X[:224], TARGETS[:224])
    generator = np.random.RandomState(5)
    orders = [generator.permutation(224) for _ in range(3)]
    batches = [order[i : i + B] for order in orders for i in range(0, 224, B)]
    expected = oracles_features.newton(
        blocks_of(21), batches, square_slopes, [0.7] * 21, 1e-6, 1e-2
    )
    np.testing.assert_allclose(model.coefficients_, np.vstack(expected), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_threads_and_cache_do_not_change_a_bit(mode, monkeypatch):
    def coefficients(n_threads, cache_bytes):
        monkeypatch.setattr(_threads, "n_workers", lambda: n_threads)
        expansion = clone(mode).set_params(cache_bytes=cache_bytes)
        model = regressor(expansion, step_size=0.2, batch_size=64, random_state=0)
        return model.fit(np.tile(X, (15, 1)), np.tile(TARGETS, 15)).coefficients_

    one = coefficients(1, 2**28)
    assert np.array_equal(one, coefficients(3, 2**28))
    assert np.array_equal(one, coefficients(2, 0))


# -- state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=repr)
@pytest.mark.parametrize("n_first", [10, 128, 137])
def test_a_saved_model_goes_on_bit_for_bit(mode, n_first, tmp_path):
    model = regressor(mode, average="suffix").partial_fit(X[:n_first], TARGETS[:n_first])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    for rows in (np.arange(n_first, n_first + 20), np.arange(n_first + 20, 240)):
        for each in (model, loaded):
            each.partial_fit(X[rows], TARGETS[rows])
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.coefficients_, model.coefficients_)
    assert np.array_equal(loaded.history_.loss, model.history_.loss)


def test_a_fitted_model_is_seeds_and_coefficients(tmp_path):
    wide = np.random.default_rng(0).normal(size=(600, 200))
    model = KernelRegressor(kernel=Gaussian(20.0), expansion=RandomFeatures(64, min_steps=0))
    model.fit(wide, wide[:, 0])
    model.save(tmp_path / "model")
    blocks = model.model_order_ // 64
    assert blocks == 4
    kept = model._kept.rows.nbytes  # rows to explain the model with
    assert kept == 256 * 200 * 8
    assert (tmp_path / "model").stat().st_size - kept < 14_000 + blocks * 64 * 4


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_a_call_that_fails_changes_nothing(mode):
    model = regressor(mode, average="suffix").partial_fit(X[:70], TARGETS[:70])
    twin = copy.deepcopy(model)
    bad = X.copy()
    bad[-1, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(bad, TARGETS)
    with pytest.raises(DivergenceError, match="stable up to"):
        model.partial_fit(X, 1e30 * TARGETS + 1e39)
    for each in (model, twin):
        each.partial_fit(X, TARGETS)
    assert np.array_equal(model.coefficients_, twin.coefficients_)
    assert model.n_samples_seen_ == twin.n_samples_seen_


@pytest.mark.parametrize("mode", [MODES[1], MODES[3]], ids=repr)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_rows_that_wait_are_the_model_s_own(mode, precision):
    expansion = double(mode, precision=precision)
    dtype = np.float32 if precision == "single" else np.float64
    rows, targets, weights = X[:20].astype(dtype), TARGETS[:20].copy(), np.ones(20)
    model = regressor(expansion).partial_fit(rows, targets, sample_weight=weights)
    twin = copy.deepcopy(model)
    for array in (rows, targets, weights):
        array[:] = 7.0
    for each in (model, twin):
        each.partial_fit(X, TARGETS)
    assert np.array_equal(model.coefficients_, twin.coefficients_)


def test_rows_that_wait_do_not_keep_all_rows_of_their_call_alive():
    model = regressor(MODES[0]).partial_fit(X[:37], TARGETS[:37])
    waiting = model.learner_._waiting
    assert len(waiting.X) == 5
    assert all(array.base is None for array in waiting.arrays)


def test_copies_and_pickles_hold_no_random_numbers():
    wide = np.random.default_rng(0).normal(size=(600, 200))
    expansion = RandomFeatures(64, min_steps=0, design="iid")
    model = KernelRegressor(kernel=Gaussian(30.0), expansion=expansion).fit(wide, wide[:, 0])
    assert model.learner_.function.features.cached_bytes >= 4 * 32 * 200 * 4
    data = pickle.dumps(model)
    kept = model._kept.rows.nbytes
    assert len(data) - kept < 60_000 + model.model_order_ * 4  # most of it the history
    assert np.array_equal(pickle.loads(data).predict(wide[:9]), model.predict(wide[:9]))
    assert copy.deepcopy(model).learner_.function.features.cached_bytes == 0


class StopsAt:
    """Step sizes that fail at one step, as an interrupt would."""

    def __init__(self, step):
        self.step = step

    def __call__(self, t):
        if t == self.step:
            raise KeyboardInterrupt
        return 0.5


@pytest.mark.parametrize("mode", [MODES[1], MODES[3]], ids=repr)
def test_a_prediction_that_is_interrupted_changes_nothing(mode, monkeypatch):
    model = regressor(mode).partial_fit(X[:70], TARGETS[:70])
    twin = copy.deepcopy(model)
    step = FeatureExpansion.step

    def interrupted(*args, **kwargs):
        step(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(FeatureExpansion, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.predict(X)
    monkeypatch.undo()
    for each in (model, twin):
        each.partial_fit(X, TARGETS)
    assert np.array_equal(model.coefficients_, twin.coefficients_)


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    expansion = double(MODES[1], min_steps=0)
    model = regressor(expansion, step_size=StopsAt(30), batch_size=64).fit(X, TARGETS)
    before = model.predict(X)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.tile(X, (15, 1)), np.tile(TARGETS, 15))
    assert np.array_equal(model.predict(X), before)


def test_threads_that_predict_make_one_provisional_step(monkeypatch):
    model = regressor(RandomFeatures(M), batch_size=512).partial_fit(X, TARGETS)
    step = FeatureExpansion.step

    def slow(*args, **kwargs):
        time.sleep(0.05)
        return step(*args, **kwargs)

    monkeypatch.setattr(FeatureExpansion, "step", slow)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(model.predict(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.model_order_ == M
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize("mode", [MODES[1], MODES[3]], ids=repr)
def test_targets_that_overflow_are_refused_when_they_come(mode):
    model = regressor(mode).partial_fit(X[:70], TARGETS[:70])
    twin = copy.deepcopy(model)
    with pytest.raises(DivergenceError, match="slopes of the last rows"):
        model.partial_fit(X[:3], np.full(3, 1e39 if mode.precision == "single" else 1e300))
    for each in (model, twin):
        each.partial_fit(X, TARGETS)
    assert np.array_equal(model.coefficients_, twin.coefficients_)


# -- workers ---------------------------------------------------------------------------------------


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    alone = _threads.n_workers()
    assert alone >= 1
    for said, expected in [("1", 1), ("1,2", 1), ("100000", alone), ("0", alone), ("no", alone)]:
        monkeypatch.setenv("OMP_NUM_THREADS", said)  # joblib sets it for its workers
        assert _threads.n_workers() == expected


# -- learning --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "mode"),
    # Modes ask losses the same: each takes one of three.
    [(loss, MODES[1 + i % 3]) for i, loss in enumerate(LOSSES)],
    ids=repr,
)
def test_every_loss_is_learned(loss, mode):
    if loss.task == "classification":
        rows, y = make_moons(500, noise=0.1, random_state=1)
        model = KernelClassifier(clone(loss), kernel=Gaussian(0.5), expansion=clone(mode))
        model.set_params(n_passes=3, random_state=0).fit(rows, y)
        assert model.score(rows, y) > 0.93
        return
    n = 1000 if mode.mode == "cyclic" else 500
    rows = np.random.default_rng(3).normal(size=(n, 2))
    y = np.exp(np.sin(2.0 * rows[:, 0]) + 0.5)
    model = KernelRegressor(clone(loss), kernel=Gaussian(0.7), expansion=clone(mode))
    model.set_params(n_passes=20 if mode.mode == "cyclic" else 3, random_state=0).fit(rows, y)
    encoded = model.loss_.encode(y, 1)
    scores = model.learner_.evaluate(rows)
    constants = [np.full_like(scores, c) for c in np.linspace(-1.0, 4.0, 60)]
    best_constant = min(model.loss_.value(encoded, c).mean() for c in constants)
    value = model.loss_.value(encoded, scores).mean()
    if isinstance(loss, losses.Poisson):  # never comes near 0, whatever is learned
        perfect = model.loss_.value(encoded, np.log(encoded)).mean()
        value, best_constant = value - perfect, best_constant - perfect
    assert value < 0.5 * best_constant


def test_defaults_learn_digits_and_few_rows():
    rows, y = load_digits(return_X_y=True)
    model = KernelClassifier(expansion="random_features", random_state=0)
    model.fit(rows[:1300] / 16.0, y[:1300])
    assert model.score(rows[1300:] / 16.0, y[1300:]) > 0.94
    few = KernelClassifier(expansion="random_features").partial_fit(X[:40], LABELS[:40])
    assert few.score(X[:40], LABELS[:40]) > 0.8
    assert few.predict_one(X[0]) == few.predict(X[:1])[0]


def test_rows_one_by_one_are_collected():
    one = KernelClassifier(kernel=KERNEL, expansion=RandomFeatures(8))
    one.partial_fit(X[:1], LABELS[:1], classes=[0, 1])
    for x, label in zip(X[1:], LABELS[1:].tolist(), strict=True):
        one.learn_one(x, label)
    assert one.n_samples_seen_ == N
    assert len(one.history_.n_samples) == N // B
    assert one.score(X, LABELS) > 0.7


def test_classes_may_appear_later():
    rows, y = load_digits(return_X_y=True)
    rows = rows / 16.0
    order = np.argsort(y >= 5, kind="stable")  # five classes first
    model = KernelClassifier(kernel=Gaussian(2.0), expansion=RandomFeatures(32))
    for part in np.array_split(order, 20):
        model.partial_fit(rows[part], y[part])
    model.partial_fit(rows[::2], y[::2])
    assert model.classes_.tolist() == list(range(10))
    assert model.score(rows, y) > 0.85


@pytest.mark.parametrize("mode", [MODES[1], MODES[2], MODES[3]], ids=repr)
@pytest.mark.parametrize("loss", ["auto", "softmax", "hinge", "multiclass_hinge"])
def test_classes_may_appear_while_rows_wait(loss, mode):
    labels = np.digitize(X[:, 0], [-0.4, 0.4])
    old = np.flatnonzero(labels > 0)[:20]
    model = KernelClassifier(loss, kernel=KERNEL, expansion=mode).partial_fit(X[old], labels[old])
    model.predict(X)
    twin = copy.deepcopy(model)
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((1, D), np.inf), [0])
    if mode.mode == "newton":  # of the others a single step says little
        first = np.flatnonzero(labels == 0)[:1]
        newer = copy.deepcopy(model).partial_fit(X[first], labels[first])
        among_old = newer.decision_function(X[old])[:, 1:].argmax(axis=1) + 1
        assert (among_old == labels[old]).mean() > 0.75
    for each in (model, twin):
        for _ in range(6):
            each.partial_fit(X, labels)
    assert np.array_equal(model.coefficients_, twin.coefficients_)
    assert model.n_samples_seen_ == 20 + 6 * N
    assert model.score(X, labels) > 0.88


@pytest.mark.parametrize("mode", [MODES[1], MODES[2], MODES[3]], ids=repr)
@pytest.mark.parametrize("regularization", [1.0, 100.0])
def test_a_large_regularization_shrinks_and_is_not_refused(mode, regularization):
    strong, weak = (
        KernelRegressor(kernel=KERNEL, expansion=mode, regularization=nu, random_state=0)
        .fit(X, TARGETS)
        .predict(X)
        for nu in (regularization, 1e-6)
    )
    assert 0.0 < np.abs(strong).max() < 0.8 * np.abs(weak).max()
    labels = KernelClassifier(kernel=KERNEL, expansion=mode, regularization=regularization)
    assert labels.fit(X, X[:, 0] > 0.0).score(X, X[:, 0] > 0.0) > 0.8


@pytest.mark.parametrize("mode", MODES, ids=repr)
def test_small_targets_after_large_ones_are_no_divergence(mode):
    model = regressor(mode, step_size=0.3).partial_fit(X, 1e5 * TARGETS)
    large = np.abs(model.predict(X)).mean()
    for _ in range(3):
        model.partial_fit(X, np.zeros(N))
    assert np.abs(model.predict(X)).mean() < large


def test_heavy_rows_lower_the_automatic_step():
    steps = FeatureSteps(AutomaticStep(1.0, 1.0, 0.2), 1.0, "faithful", 0.0, 16, 16, True)
    gram = 0.8 * np.eye(16) + 0.2  # k(x, x) = 1, top eigenvalue about 0.2 * 16
    for weights in (np.full(16, 50.0), np.where(np.arange(16) == 3, 800.0, 1.0)):
        root = np.sqrt(weights)
        top = np.linalg.eigvalsh(root[:, None] * gram * root / 16)[-1]
        size = steps(1, False, weights)
        assert 0.2 / top < size <= 1.0 / top * (1.0 + 1e-9)
    assert steps(1, False, np.full(16, 0.1)) == steps(1)


def test_heavy_classes_do_not_diverge():
    model = KernelClassifier(
        kernel=KERNEL, expansion=MODES[2], class_weight={0: 1000.0, 1: 1e-4}, random_state=0
    )
    assert (model.fit(X, LABELS).predict(X) == 0).mean() > 0.9


@pytest.mark.parametrize("n", [60, 180, 240])
@pytest.mark.parametrize("mode", [MODES[1], MODES[3]], ids=repr)
def test_few_rows_are_visited_until_there_are_min_steps(mode, n):
    expansion = clone(mode).set_params(block_size=32, min_steps=100)
    seen = []
    model = KernelRegressor(kernel=KERNEL, expansion=expansion, batch_size=64, random_state=0)
    model.fit(X[:n], TARGETS[:n], callback=seen.append)
    n_steps = model.learner_.function.n_steps
    assert 100 <= n_steps < 100 + n // 64 + 1
    assert seen[-1].n_samples == seen[-1].n_total == model.n_samples_seen_


def test_a_fit_that_is_stopped_is_judged_as_it_is(monkeypatch):
    errors = []

    def judge(learner, held):
        values = learner.function.current(learner.function.prepare(held.X))
        errors.append(np.abs(held.values - values).max())
        judged(learner, held)

    judged = FeatureLearner._judge
    monkeypatch.setattr(FeatureLearner, "_judge", judge)
    model = KernelRegressor(kernel=KERNEL, expansion=RandomFeatures(M), n_passes=60)
    model.fit(X, TARGETS, callback=lambda progress: True)
    assert model.n_samples_seen_ < 60 * len(X) * 0.8
    assert len(errors) == 1
    assert errors[0] < 1e-4


def test_sparse_rows_are_learned_like_dense_ones():
    from scipy import sparse

    rows = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = regressor(RandomFeatures(M), random_state=0).fit(rows, TARGETS)
    thin = regressor(RandomFeatures(M), random_state=0).fit(sparse.csr_matrix(rows), TARGETS)
    assert np.array_equal(dense.coefficients_, thin.coefficients_)
    assert np.array_equal(dense.predict(rows), thin.predict(sparse.csr_matrix(rows)))


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "fast"}, "mode"),
        ({"block_size": 0}, "block_size"),
        ({"growth": "doubling"}, "cyclic"),
        ({"max_blocks": 5}, "cyclic"),
        ({"mode": "faithful", "ridge": 0.1}, "faithful"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": []}, "ridge"),
        ({"ridge": "best"}, "ridge"),
        ({"ridge": None}, "None"),
        ({"ridge": ["a"]}, "'a'"),
        ({"ridge": [[1.0], [2.0]]}, "some numbers"),
        ({"ridge": np.ones(1001)}, "1,001 numbers, but each is solved for"),
        ({"design": "random"}, "design"),
        ({"seed": -1}, "seed"),
        ({"precision": "half"}, "precision"),
        ({"cache_bytes": -1}, "cache_bytes"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        RandomFeatures(**params)


@pytest.mark.parametrize("mode", [MODES[1], MODES[2]], ids=repr)
def test_inputs_beyond_single_precision_are_refused(mode):
    model = regressor(mode).partial_fit(X[:70], TARGETS[:70])
    for call in (
        model.predict,
        model.random_features,
        lambda rows: model.fit(rows, [1.0]),
        lambda rows: model.predict_one(rows[0]),
    ):
        with pytest.raises(ValueError, match="precision='double'"):
            call([[1e39, 0.0, 0.0]])
    accurate = regressor(double(mode)).partial_fit(X[:70], TARGETS[:70])
    assert np.isfinite(accurate.predict([[1e39, 0.0, 0.0]])).all()


@pytest.mark.parametrize("mode", [MODES[1], MODES[2]], ids=repr)
def test_answers_that_overflow_are_refused(mode):
    mode = RandomFeatures(block_size=16, mode=mode.mode, precision="double")
    model = regressor(mode, kernel=kernels.Polynomial(3), step_size="auto").fit(X, TARGETS)
    with pytest.raises(ValueError, match="not finite at row 1"):
        model.predict([[0.0, 0.0, 0.0], [1e120, 1e120, 1e120]])


def test_answers_in_double_precision_have_its_range():
    model = regressor(MODES[1], kernel=kernels.Polynomial(3), step_size="auto").fit(X, TARGETS)
    assert np.isfinite(model.predict([[1e20, 1e20, 1e20]])).all()


def test_kernels_without_features_are_refused_before_the_first_row():
    model = regressor(RandomFeatures(M), kernel=lambda A, B: A @ B.T)
    with pytest.raises(ValueError, match="random features"):
        model.fit(X, TARGETS)
    assert not hasattr(model, "learner_")


def test_steps_beyond_stability_are_refused_with_the_limit():
    with pytest.raises(ValueError, match="limit of stability"):
        regressor(MODES[0], step_size=2.5).fit(X, TARGETS)
    with pytest.raises(ValueError, match="top eigenvalue"):
        regressor(MODES[2], step_size=1e3).fit(X, TARGETS)


def test_a_model_of_features_has_no_dictionary_and_says_so():
    model = regressor(RandomFeatures(M)).fit(X, TARGETS)
    with pytest.raises(AttributeError, match="random_features"):
        _ = model.dictionary_
    with pytest.raises(AttributeError, match="dictionary"):
        regressor("komp").fit(X, TARGETS).random_features(X)


def test_the_name_chooses_sizes_from_the_number_of_rows():
    named = as_expansion("random_features")
    assert named == RandomFeatures("auto")
    assert named.plan(32, n_rows=500).block_size == 128
    assert named.plan(32, n_rows=40_000)[:2] == (512, 1024)
    assert named.plan(32, n_rows=62_000, n_outputs=10)[:2] == (1024, 4096)
    assert named.plan(32, n_rows=1_000, n_outputs=10)[:2] == (256, 1024)
    assert named.plan(32, n_rows=10**6) == (1024, 1024, 1)
    assert named.plan(32, 1, 25_600) == (512, 1024, 4)
    assert named.plan(32, 1, 2_560).n_passes == 10


def test_rows_far_off_the_origin_are_pointed_out():
    with pytest.warns(ConditioningWarning, match="Centre the columns"):
        regressor(RandomFeatures(M)).partial_fit(X + 1e6, TARGETS)
    regressor(RandomFeatures(M, precision="double")).partial_fit(X + 1e6, TARGETS)
    regressor(RandomFeatures(M)).partial_fit(X + 1e3, TARGETS)


def test_predictions_take_no_memory_for_features():
    model = regressor(RandomFeatures(256), batch_size=64).fit(X, TARGETS)
    rows = np.zeros((10_000, D), np.float32)
    model.predict(rows[:10])
    tracemalloc.start()
    try:
        model.predict(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.model_order_ >= 1024
    assert peak < 16e6  # all features at once would be 40 MB and more


def test_a_race_that_ends_keeps_the_best_and_the_rows_that_wait():
    model = regressor(MODES[1]).partial_fit(X[:200], TARGETS[:200])
    before = model.predict(X)
    model.learner_.end_race()
    assert model.learner_.function.n_candidates == 1
    # The same sums of features in single precision, in the order that so many columns are taken in.
    Z, coefficients = model.random_features(X), model.coefficients_[:, 0]
    rounding = Z.shape[1] * np.finfo(np.float32).eps * (np.abs(Z) @ np.abs(coefficients))
    assert np.all(np.abs(model.predict(X) - before) <= rounding)
    model.partial_fit(X[200:], TARGETS[200:])
    assert model.n_samples_seen_ == N
    alone = regressor(clone(MODES[1]).set_params(ridge=model.learner_.function.ridges[0]))
    alone.partial_fit(X, TARGETS)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-4, atol=1e-5)
