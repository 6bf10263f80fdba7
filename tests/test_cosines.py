"""Frequencies that are kept: those of a kernel's random features, and how they are refined."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import KernelRegressor, load_model
from mercer.expansions import Dictionary
from mercer.kernels import Cauchy, Gaussian, Linear, Mapped, Matern, Polynomial, cosines
from mercer.maps import Cosines
from mercer.maps.cosines import slopes_of


def rows(n, d, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def wave(n=400, seed=0):
    """A wave in one direction of five: few frequencies are enough, if they are the right ones."""
    X = rows(n, 5, seed)
    return X, np.sin(4 * X[:, 0] + 3 * X[:, 1])


@pytest.mark.parametrize(
    ("kernel", "d", "design"),
    [
        (Gaussian(0.8), 3, "iid"),
        (Gaussian(0.8) * Cauchy(2.0), 3, "auto"),
        (Matern(1.5, 0.7), 5, "orthogonal"),
        (Gaussian(2.0), 20, "hadamard"),
        (Gaussian(2.0), 2, "sobol"),
    ],
    ids=str,
)
def test_the_features_are_those_of_the_kernel(kernel, d, design):
    X = rows(30, d)
    map = cosines(kernel, d, 24, seed=3, design=design)
    expected = kernel.random_features(X, 24, seed=3, design=design)
    assert (map.n_inputs, map.n_outputs) == (d, 24)
    assert_allclose(map(X), expected, atol=1e-13)
    assert map(X.astype(np.float32)).dtype == np.float32
    assert_allclose(map(X.astype(np.float32)), expected, atol=1e-5)


def test_slopes_are_those_of_the_objective():
    X, Y = rows(7, 3), rows(7, 2, seed=1)
    W, a, ridge = rows(3, 4, seed=2), rows(8, 2, seed=3), 0.1

    def objective(W, a):
        residuals = Cosines(W)(X) @ a - Y
        return (residuals**2).sum() / (2 * len(X)) + ridge * (a**2).sum() / 2

    h = 1e-6
    for slopes, which in zip(slopes_of(X, Y, W, a, ridge), (0, 1), strict=True):
        for place in np.ndindex(slopes.shape):
            moved = [[W.copy(), a.copy()] for _ in range(2)]
            moved[0][which][place] += h
            moved[1][which][place] -= h
            numeric = (objective(*moved[0]) - objective(*moved[1])) / (2 * h)
            # Central differences: h² of the third derivative, and roundings over h.
            assert slopes[place] == pytest.approx(numeric, abs=1e-8)


def test_refined_frequencies_do_what_many_drawn_ones_do():
    X, y = wave()
    X_test, y_test = wave(seed=1)

    def error(map):
        Z, ridge = map(X), 1e-4 * np.eye(map.n_outputs)
        a = np.linalg.solve(Z.T @ Z / len(X) + ridge, Z.T @ y / len(X))
        return np.mean((map(X_test) @ a - y_test) ** 2)

    for seed in range(3):
        drawn = cosines(Gaussian(1.0), 5, 16, seed=seed)
        before = np.array(drawn.frequencies)
        refined = drawn.refined(X, y, n_passes=100, batch_size=32, seed=seed)
        assert_array_equal(drawn.frequencies, before)
        assert refined.n_outputs == 16
        assert error(refined) < 0.2 * error(drawn)


def test_rows_and_seed_decide_and_the_unit_of_the_target_does_not():
    X, y = wave(100)
    drawn = cosines(Gaussian(1.0), 5, 8)
    settings = {"n_passes": 3, "batch_size": 32}
    first = drawn.refined(X, y, **settings)
    assert first == drawn.refined(X, y[:, np.newaxis], **settings)
    assert first != drawn.refined(X, y, **settings, seed=1)
    moved = drawn.refined(X, 1024 * y + 5, **settings)
    assert_allclose(moved.frequencies, first.frequencies, rtol=1e-6)


def test_frequencies_stay_where_rows_cannot_improve_them():
    # Every target is predicted by its mean, before any pass.
    drawn = cosines(Gaussian(1.0), 5, 8)
    assert drawn.refined(rows(60, 5), np.ones(60), n_passes=2) == drawn


def test_a_model_on_refined_cosines_is_saved_as_numbers(tmp_path):
    X, y = wave(200)
    map = cosines(Gaussian(1.0), 5, 16).refined(X, y, n_passes=3)
    kernel = Mapped(Linear(), map)
    model = KernelRegressor(kernel=kernel, expansion=Dictionary(32), random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.kernel == kernel
    assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda map: Cosines([1.0]), r"shape \(n_inputs, n_pairs\), got the shape \(1,\)"),
        (lambda map: Cosines([[np.nan]]), "finite"),
        (lambda map: cosines(Polynomial(2, 1.0, 1.0), 5, 8), "must have cosines"),
        (lambda map: cosines(Gaussian(1.0), 5, 7), "must be even"),
        (lambda map: cosines(Gaussian(), 5, 8), "length_scale"),
        (lambda map: map(rows(3, 4)), "columns"),
        (lambda map: map.refined(rows(19, 5), np.ones(19)), "at least 20, got 19"),
        (lambda map: map.refined(rows(30, 5), np.ones(29)), "same rows"),
        (lambda map: map.refined(rows(30, 5), np.full(30, np.nan)), "finite"),
        (lambda map: map.refined(rows(30, 5), np.ones(30), ridge=0), "ridge"),
        (lambda map: map.refined(rows(30, 5), np.ones(30), n_passes=0), "n_passes"),
        (lambda map: map.refined(rows(30, 5), np.ones(30), batch_size=0), "batch_size"),
        (lambda map: map.refined(rows(30, 5), np.ones(30), step_size=0), "step_size"),
        (lambda map: map.refined(rows(30, 5), np.ones(30), seed=-1), "seed"),
    ],
)
def test_what_is_wrong_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call(cosines(Gaussian(1.0), 5, 8))
