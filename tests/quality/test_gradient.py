"""Learning gradients of a regression from pairs of rows."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

import oracles_pairwise as oracles
from mercer import KernelGradient, load_model
from mercer.exceptions import DivergenceError
from mercer.expansions import ALD, KOMP, Budget, Dictionary, Full, Quantized, RandomFeatures
from mercer.kernels import Gaussian
from mercer.losses import AbsoluteError, Huber, Squared
from mercer.maps import full_metric
from mercer.objectives import Batch, LocalChanges
from mercer.schedules import InverseTime
from quick import take_few_steps

SLOPES = {
    "squared": lambda r: r,
    "huber": lambda r: np.clip(r, -1.0, 1.0),
    "absolute_error": np.sign,
}


def surface(n=400, d=2, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 / 2.0 + noise * rng.normal(size=n)


def true_gradient(X):
    return np.column_stack([np.cos(X[:, 0]), X[:, 1], *np.zeros((X.shape[1] - 2, len(X)))])


def small(**changes):
    return KernelGradient(**{"kernel": Gaussian(1.0), "width": 0.5, "random_state": 0} | changes)


# -- the objective ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Squared(), Huber(0.7)], ids=repr)
def test_slopes_are_the_derivatives_of_the_losses(loss, rng):
    X, y = surface(7)
    values, h = rng.normal(size=(7, 2)), 1e-6
    batch = Batch(X, y[:, np.newaxis], rng.uniform(0.2, 2.0, 7))
    objective = LocalChanges(loss, 0.8, 9, unit=0.3)

    def mean_loss(values):
        return np.mean(batch.weights * objective.slopes(values, batch)[1])

    slopes = objective.slopes(values, batch)[0]
    for place in np.ndindex(7, 2):
        ahead, behind = values.copy(), values.copy()
        ahead[place] += h
        behind[place] -= h
        assert_allclose(slopes[place], (mean_loss(ahead) - mean_loss(behind)) / (2 * h), atol=1e-8)


def test_the_true_gradient_of_a_plane_has_no_loss():
    X, _ = surface(9)
    y, batch_of = X @ [2.0, -1.0] + 5.0, np.ones(9)
    objective = LocalChanges(Squared(), 0.8)
    values = np.tile([2.0, -1.0], (9, 1))
    slopes, losses = objective.slopes(values, Batch(X, y[:, np.newaxis], batch_of))
    assert_allclose(slopes, 0.0, atol=1e-14)
    assert_allclose(losses, 0.0, atol=1e-14)


def test_a_row_alone_teaches_nothing():
    slopes, losses = LocalChanges(Squared(), 1.0).slopes(
        np.zeros((1, 2)), Batch(np.ones((1, 2)), np.ones((1, 1)), np.ones(1))
    )
    assert not slopes.any()
    assert not losses.any()


# -- against the oracles ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SLOPES)
@pytest.mark.parametrize("expansion", [KOMP(), Dictionary(60)], ids=repr)
def test_every_loss_goes_with_dictionaries(loss, expansion, monkeypatch):
    take_few_steps(monkeypatch)
    X, y = surface()
    model = KernelGradient(loss, width=0.4, expansion=expansion, random_state=0).fit(X, y)
    exact = true_gradient(X)
    error = np.sqrt(np.mean(np.square(model.predict(X) - exact)))
    assert error < 0.3 * np.sqrt(np.mean(np.square(exact)))


@pytest.mark.parametrize("loss", SLOPES)
def test_steps_are_those_of_the_loss_of_changes(loss):
    X, y = surface(22)
    schedule = InverseTime(0.6, 5.0)
    model = small(
        loss=loss,
        expansion=Full(),
        batch_size=6,
        n_passes=1,
        step_size=schedule,
        regularization=0.1,
        shuffle=False,
        average=None,
    ).fit(X, y)
    gram = oracles.gaussian(1.0)(X, X)
    steps = [schedule(t) for t in range(1, 5)]
    steps[-1] *= 4 / 6  # the rows that the last batch lacks count as 0
    unit = model.targets_.unit
    a = oracles.gradient_descent(gram, X, y, SLOPES[loss], 0.5, unit, steps, 0.1, 6)
    assert_allclose(model.predict(X), gram @ a, atol=1e-12 * np.abs(gram @ a).max())


@pytest.mark.parametrize(
    ("expansion", "step_size"),
    [
        (KOMP(), InverseTime(3.0, 200.0)),
        (RandomFeatures(mode="faithful"), InverseTime(3.0, 200.0)),
        (Dictionary(40), InverseTime(1.5, 200.0)),
    ],
    ids=repr,
)
def test_many_passes_approach_the_exact_solution(expansion, step_size):
    X, y = surface(40)
    model = small(
        expansion=expansion,
        batch_size=40,
        n_passes=400,
        step_size=step_size,
        regularization=1e-2,
    ).fit(X, y)
    gram = oracles.gaussian(1.0)(X, X)
    exact = gram @ oracles.gradient_solution(gram, X, y, 0.5, model.targets_.unit, 1e-2)
    rms = np.sqrt(np.mean(np.square(model.predict(X) - exact)))
    assert rms < 0.05 * np.sqrt(np.mean(np.square(exact)))


# -- known gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expansion",
    [
        "auto",
        Full(),
        KOMP(max_size=30),
        Budget(40, "project"),
        Quantized(0.3),
        Dictionary(60),
        RandomFeatures(mode="faithful"),
        RandomFeatures(64, mode="solve"),
    ],
    ids=repr,
)
def test_the_gradient_of_a_known_function_is_found(expansion):
    X, y = surface()
    model = KernelGradient(width=0.4, expansion=expansion, n_passes=5, random_state=0).fit(X, y)
    fresh = np.random.default_rng(1).uniform(-1.5, 1.5, size=(300, 2))
    exact = true_gradient(fresh)
    assert model.predict(fresh).shape == (300, 2)
    error = np.sqrt(np.mean(np.square(model.predict(fresh) - exact)))
    assert error < 0.25 * np.sqrt(np.mean(np.square(exact)))
    for found, known in zip(model.predict(fresh).T, exact.T, strict=True):
        assert np.corrcoef(found, known)[0, 1] > 0.9


def test_more_rows_and_narrower_pairs_come_nearer():
    errors = []
    fresh = np.random.default_rng(1).uniform(-1.5, 1.5, size=(300, 2))
    for n, width in ((200, 0.8), (3000, 0.3)):
        model = KernelGradient(width=width, n_passes=2 * 3000 // n, random_state=0)
        model.fit(*surface(n))
        errors.append(np.sqrt(np.mean(np.square(model.predict(fresh) - true_gradient(fresh)))))
    assert errors[1] < errors[0] / 2.0


def test_outliers_harm_bounded_slopes_less():
    X, y = surface(600)
    y[::20] += 30.0
    fresh = np.random.default_rng(1).uniform(-1.5, 1.5, size=(300, 2))
    errors = []
    for loss in ("squared", "absolute_error"):
        model = KernelGradient(loss, random_state=0).fit(X, y)
        errors.append(np.sqrt(np.mean(np.square(model.predict(fresh) - true_gradient(fresh)))))
    assert errors[1] < errors[0] / 2.0


def test_gradient_products_tell_which_inputs_matter():
    X, y = surface(600, d=4)
    model = KernelGradient(random_state=0).fit(X, y)
    products = model.gradient_products(X)
    gradients = model.predict(X)
    assert_allclose(products, np.mean([np.outer(g, g) for g in gradients], axis=0))
    assert np.diag(products)[:2].min() > 5.0 * np.diag(products)[2:].max()
    metric = full_metric(products)
    moves = np.linalg.norm(metric(np.eye(4)) - metric(np.zeros((1, 4))), axis=1)
    assert moves[:2].min() > moves[2:].max()


# -- invariances -----------------------------------------------------------------------------------


def test_a_constant_on_the_target_changes_nothing():
    X, y = surface(100)
    expected = small().fit(X, y).predict(X)
    assert_allclose(small().fit(X, y + 1000.0).predict(X), expected, rtol=1e-6, atol=1e-9)


def test_a_multiple_of_the_target_multiplies_the_gradient():
    X, y = surface(100)
    expected = small(expansion=Full()).fit(X, y).predict(X)
    model = small(expansion=Full()).fit(X, 100.0 * y)
    assert_allclose(model.predict(X), 100.0 * expected, rtol=1e-9)


def test_other_units_of_the_inputs_divide_the_gradient():
    X, y = surface(100)
    expected = KernelGradient(expansion=Full(), random_state=0).fit(X, y).predict(X)
    model = KernelGradient(expansion=Full(), random_state=0).fit(64.0 * X, y)
    assert_allclose(model.width_, 64.0 * KernelGradient(random_state=0).fit(X, y).width_)
    # The ridge and the function are in units of the gradient, so only nearly.
    assert np.corrcoef(64.0 * model.predict(64.0 * X).ravel(), expected.ravel())[0, 1] > 0.99


def test_equal_weights_are_none_and_rows_of_weight_0_teach_nothing():
    X, y = surface(100)
    plain = small(batch_size=100, n_passes=3, expansion=Full())
    expected = clone(plain).fit(X, y).predict(X)
    assert_allclose(clone(plain).fit(X, y, np.ones(100)).predict(X), expected)
    weights = np.ones(100)
    weights[:30] = 0.0
    wrong = np.where(weights > 0.0, y, 1e6)
    found = clone(plain).fit(X, y, weights).predict(X)
    assert_allclose(clone(plain).fit(X, wrong, weights).predict(X), found, rtol=1e-9)


# -- streams and files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expansion",
    [KOMP(), Budget(40, "project"), Dictionary(30), RandomFeatures(mode="faithful")],
    ids=repr,
)
def test_a_stored_model_goes_on_bit_for_bit(expansion, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    X, y = surface(200)
    model = KernelGradient(expansion=expansion, random_state=0).partial_fit(X[:100], y[:100])
    model.save(tmp_path / "model")
    others = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for one in (model, *others):
        one.partial_fit(X[100:], y[100:])
    for one in others:
        assert repr(one) == repr(model)
        assert one.width_ == model.width_
        assert np.array_equal(one.predict(X), model.predict(X))


def test_calls_of_whole_batches_are_as_one_call():
    X, y = surface(256)
    start = small(step_size=0.5, expansion=Full()).partial_fit(X[:64], y[:64])
    calls = copy.deepcopy(start)
    start.partial_fit(X[64:], y[64:])
    for cut in (slice(64, 192), slice(192, 256)):
        calls.partial_fit(X[cut], y[cut])
    assert_allclose(calls.predict(X), start.predict(X), rtol=1e-9)


def test_sparse_and_float32_rows_are_like_dense_ones():
    X, y = surface(150)
    expected = small().fit(X, y).predict(X)
    assert_allclose(small().fit(sparse.csr_array(X), y).predict(X), expected, atol=1e-9)
    single = small().fit(X.astype(np.float32), y)
    assert single.dictionary_.dtype == np.float32
    assert_allclose(single.predict(X), expected, atol=0.05 * np.abs(expected).max())


def test_losses_and_width_in_use_are_told():
    X, y = surface(50)
    assert small(loss=AbsoluteError()).fit(X, y).loss_ == AbsoluteError()
    assert small(width=0.7).fit(X, y).width_ == 0.7
    with pytest.raises(AttributeError, match="not fitted"):
        _ = KernelGradient().width_


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"loss": "poisson"}, "`loss` must be one of residuals"),
        ({"loss": "hinge"}, "regression"),
        ({"width": 0.0}, "`width` must be"),
        ({"width": "wide"}, "`width` must be"),
        ({"batch_size": 1}, "`batch_size` must be an integer of at least 2"),
        ({"kernel": "auto"}, "gradient would be one in mapped inputs"),
        ({"expansion": ALD()}, "mode='faithful'"),
        ({"expansion": RandomFeatures()}, "mode='faithful'"),
        ({"regularization": -1.0}, "`regularization`"),
    ],
)
def test_what_cannot_work_is_refused_and_changes_nothing(changes, match):
    X, y = surface(60)
    model = small().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=match):
        model.set_params(**changes).fit(X, y)
    assert np.array_equal(model.predict(X), before)


def test_data_that_cannot_be_learned_are_refused():
    X, y = surface(60)
    with pytest.raises(ValueError, match="requires y to be passed"):
        small().fit(X, None)
    with pytest.raises(ValueError, match="NaN"):
        small().fit(X, np.where(y > 1.0, np.nan, y))
    with pytest.raises(ValueError, match="features"):
        small().fit(X, y).partial_fit(X[:, :1], y)
    with pytest.raises(DivergenceError):
        small(step_size=1e4, regularization=0.0, expansion=Full(), n_passes=30).fit(X, y)
