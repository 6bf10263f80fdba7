"""Divergences: conjugates and links, and the density ratios that are learned with each."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from mercer import DensityRatio, load_model
from mercer.divergences import (
    DIVERGENCES,
    Divergence,
    HellingerDistance,
    JensenShannonDivergence,
    KullbackLeibler,
    Pearson,
    RelativeNovelty,
    ReverseKullbackLeibler,
    as_divergence,
)
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.inspection import describe
from mercer.kernels import Gaussian
from mercer.objectives import Batch, TwoSample
from mercer.schedules import InverseTime
from oracles_tasks import (
    ALI_SILVEY,
    gaussian,
    novelty_slopes,
    ratio_descent,
    ratio_slopes,
    relative_novelty,
    two_sample_solution,
)
from quick import take_few_steps

RATIO = KullbackLeibler("ratio")
#: Each with its name in the oracles, and what f is there.
OF_ORACLES = [
    (KullbackLeibler(), "kl", "log_ratio"),
    (ReverseKullbackLeibler(), "reverse_kl", "log_ratio"),
    (JensenShannonDivergence(), "jensen_shannon", "log_ratio"),
    (HellingerDistance(), "hellinger", "log_ratio"),
    (Pearson(), "pearson", "ratio"),
    (RATIO, "kl", "ratio"),
]
NOVELTIES = [RelativeNovelty(), RelativeNovelty(0.7), RelativeNovelty(-0.7)]
ALL = [one for one, *_ in OF_ORACLES] + NOVELTIES
every = pytest.mark.parametrize("divergence", ALL, ids=repr)
of_oracles = pytest.mark.parametrize(
    ("divergence", "name", "learns"), OF_ORACLES, ids=[repr(one) for one, *_ in OF_ORACLES]
)

# Two Gaussians of which neither is the other's mirror image, and weights of a quadrature.
X = np.linspace(-9.0, 10.0, 40_001)
P = np.exp(-0.5 * X**2) / np.sqrt(2.0 * np.pi)
MEAN, DEVIATION = 1.2, 1.2
Q = np.exp(-0.5 * ((X - MEAN) / DEVIATION) ** 2) / (DEVIATION * np.sqrt(2.0 * np.pi))


def slopes_in_oracle(divergence):
    """Slopes of a row from the oracles, for a divergence."""
    if isinstance(divergence, RelativeNovelty):
        return partial(novelty_slopes, rho=divergence.rho)
    _, name, learns = next(one for one in OF_ORACLES if one[0] == divergence)
    return partial(ratio_slopes, name, learns=learns, floor=getattr(divergence, "floor", 0.0))


def best(divergence, ratio):
    """The function that a divergence learns, where the ratio is known."""
    if isinstance(divergence, RelativeNovelty):
        novelty = relative_novelty(1.0 / ratio, divergence.rho)
        return np.where(novelty > 0.0, 1.0 + novelty, 0.0)
    if divergence == Pearson():
        return ratio - 1.0
    if divergence == RATIO:
        c = divergence.floor
        return np.where(ratio > c, ratio, c * (1.0 + np.log(ratio / c))) - 1.0
    return np.log(ratio)


def samples(n_p, n_q, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_p, 1)), MEAN + DEVIATION * rng.normal(size=(n_q, 1))


# -- functions -------------------------------------------------------------------------------------


def derivative(function, at, h=1e-6):
    return (function(at + h) - function(at - h)) / (2.0 * h)


@every
def test_derivatives_are_those_of_link_and_conjugate(divergence):
    f = np.array([-0.83, -0.4, 0.31, 0.6, 1.7, 4.2])
    assert_allclose(divergence.link_derivative(f), derivative(divergence.link, f), rtol=1e-6)
    s = divergence.link(f)
    assert_allclose(
        divergence.conjugate_derivative(s), derivative(divergence.conjugate, s, 1e-7), rtol=1e-5
    )


@every
def test_losses_are_convex_in_the_learned_function(divergence):
    f = np.linspace(-4.0, 4.0, 801)
    for losses in (-divergence.link(f), divergence.conjugate(divergence.link(f))):
        assert np.diff(losses, 2).min() > -1e-10


@every
def test_the_bound_is_the_divergence_at_the_best_function_and_less_at_others(divergence):
    f = best(divergence, P / Q)
    if isinstance(divergence, RelativeNovelty):
        r = partial(relative_novelty, rho=divergence.rho)
    else:
        r = ALI_SILVEY[next(name for one, name, _ in OF_ORACLES if one == divergence)][0]
    exact = np.sum(P * r(Q / P)) / np.sum(P)
    assert_allclose(divergence.lower_bound(f, f, P, Q), exact, rtol=1e-9)
    for a, b in ((0.8, 0.0), (1.2, 0.0), (1.0, 0.2), (1.0, -0.2), (-1.0, 0.0)):
        g = a * f + b
        assert divergence.lower_bound(g, g, P, Q) < exact - 1e-4


def test_bounds_of_gaussians_have_closed_forms():
    shifted = np.exp(-0.5 * (X - MEAN) ** 2) / np.sqrt(2.0 * np.pi)
    squared = MEAN**2
    for divergence, exact in (
        (KullbackLeibler(), squared / 2.0),
        (RATIO, squared / 2.0),
        (ReverseKullbackLeibler(), squared / 2.0),
        (HellingerDistance(), 1.0 - np.exp(-squared / 8.0)),
        (Pearson(), np.exp(squared) - 1.0),
    ):
        f = best(divergence, P / shifted)
        assert_allclose(divergence.lower_bound(f, f, P, shifted), exact, rtol=1e-9)


@every
def test_ratios_follow_from_the_function(divergence):
    ratio = np.array([0.01, 0.08, 0.5, 1.0, 3.0, 40.0])
    f, known = best(divergence, ratio), ratio
    if isinstance(divergence, RelativeNovelty):
        known = np.maximum(ratio, np.exp(-divergence.rho))
    assert_allclose(divergence.ratio(f), known, rtol=1e-12)
    assert_allclose(divergence.log_ratio(f), np.log(known), atol=1e-12)
    everything = np.array([-1e9, -50.0, -1.0, 0.0, 50.0, 1e9])
    assert (divergence.ratio(everything) >= 0.0).all()
    assert np.isfinite(divergence.ratio(everything)).all()
    assert np.isfinite(divergence.log_ratio(everything)).all()
    assert (np.diff(divergence.ratio(everything)) >= 0.0).all()


@pytest.mark.parametrize("divergence", [one for one in ALL if one not in NOVELTIES], ids=repr)
def test_no_rows_stand_for_equal_densities(divergence):
    assert divergence.ratio(np.zeros(1)) == 1.0
    assert divergence.lower_bound(np.zeros(3), np.zeros(4)) == 0.0


def test_a_floor_changes_no_ratio():
    ratio = np.geomspace(1e-6, 1e3, 50)
    for floor in (0.01, 0.3, 1.0):
        divergence = KullbackLeibler("ratio", floor)
        assert_allclose(divergence.ratio(best(RATIO.set_params(floor=floor), ratio)), ratio)
    RATIO.set_params(floor=0.1)


@every
def test_slopes_are_derivatives_of_the_losses_everywhere(divergence):
    f = np.array([-45.0, -32.0, -3.3, -0.4, 0.3, 2.2, 29.0, 33.0, 50.0])
    values = np.repeat(f, 2)[:, np.newaxis]
    targets = np.tile([1.0, 0.0], f.size)[:, np.newaxis]
    batch = Batch(np.zeros((values.size, 1)), targets, np.ones(values.size))
    objective, h = TwoSample(divergence), 1e-5
    slopes, losses = objective.slopes(values, batch)
    above, below = (objective.slopes(values + step, batch)[1] for step in (h, -h))
    assert np.isfinite(losses).all()
    scale = np.maximum(np.abs(losses), 1.0)  # whose rounding is left
    error = (above - below) / (2.0 * h) / values.size - slopes[:, 0]
    assert (np.abs(error) < 1e-5 * np.abs(slopes[:, 0]) + 1e-10 * scale).all()
    own, inside = slopes_in_oracle(divergence), np.abs(values[:, 0]) < 10.0
    rows = zip(values[inside, 0], targets[inside, 0], strict=True)
    expected = [own(value, of_p > 0.5) / f.size for value, of_p in rows]
    assert_allclose(slopes[inside, 0], expected, rtol=1e-12)


# -- models ----------------------------------------------------------------------------------------


@every
def test_steps_are_those_of_the_paper(divergence):
    X_p, X_q = samples(20, 20)
    model = DensityRatio(
        f_divergence=divergence,
        kernel=Gaussian(0.5),
        expansion=Full(),
        batch_size=2,
        step_size=0.4,
        regularization=0.1,
        shuffle=False,
        average=None,
        validation_fraction=0.0,
    ).fit(X_p, X_q)
    rows = np.stack([X_p, X_q], axis=1).reshape(40, 1)
    gram = gaussian(rows, rows, 0.5)
    a = ratio_descent(gram, np.arange(40) % 2 == 0, 0.4, 0.1, 4, slopes_in_oracle(divergence))
    assert_allclose(model.scores(rows)[:, 0], gram @ a, atol=1e-12)


@pytest.mark.parametrize(
    ("divergence", "expansion"),
    [
        (one, (Dictionary(150), KOMP(), RandomFeatures(mode="faithful"))[i % 3])
        for i, one in enumerate(ALL[1:6])
    ],
    ids=repr,
)
def test_many_passes_approach_the_exact_solution(divergence, expansion):
    X_p, X_q = samples(75, 75)
    rows, from_p = np.concatenate([X_p, X_q]), np.arange(150) < 75
    objective = TwoSample(divergence)
    batch = Batch(rows, from_p[:, np.newaxis].astype(float), np.ones(150))
    exact = two_sample_solution(
        gaussian(rows, rows, 0.5),
        from_p,
        1e-2,
        lambda f: objective.slopes(f[:, np.newaxis], batch)[1] / 2.0,
        lambda f: 75.0 * objective.slopes(f[:, np.newaxis], batch)[0][:, 0],
    )
    model = DensityRatio(
        f_divergence=divergence,
        kernel=Gaussian(0.5),
        expansion=expansion,
        n_passes=200,
        step_size=InverseTime(1.0, 400),
        validation_fraction=0.0,
        random_state=0,
    ).fit(X_p, X_q)
    rms = np.sqrt(np.mean(np.square(model.scores(rows)[:, 0] - exact)))
    assert rms < 0.1 * np.sqrt(np.mean(np.square(exact)))


@every
def test_the_divergence_of_known_densities_is_found(divergence):
    f = best(divergence, P / Q)
    exact = divergence.lower_bound(f, f, P, Q)
    found = []
    for seed in range(6):
        X_p, X_q = samples(400, 400, seed=seed)
        model = DensityRatio(f_divergence=divergence, validation_fraction=0.4, n_passes=4)
        found.append(model.set_params(random_state=seed).fit(X_p, X_q).divergence_)
    error = np.std(found) / np.sqrt(len(found) - 1)
    # What is not learned is missing, on average: a third of it at most, on this many rows.
    assert exact * 2.0 / 3.0 - 3.0 * error < np.mean(found) < exact + 3.0 * error


EXPANSIONS = [KOMP(max_size=20), Budget(60), Dictionary(60), RandomFeatures(mode="faithful")]


@pytest.mark.parametrize(
    ("divergence", "expansion"),
    [(one, EXPANSIONS[i % len(EXPANSIONS)]) for i, one in enumerate(ALL)],
    ids=repr,
)
def test_known_ratios_are_found(divergence, expansion):
    X_p, X_q = samples(700, 700)
    model = DensityRatio(
        f_divergence=divergence, expansion=expansion, n_passes=4, random_state=0
    ).fit(X_p, X_q)
    grid = np.linspace(-1.5, 1.8, 34)[:, np.newaxis]
    p, q = (np.interp(grid[:, 0], X, density) for density in (P, Q))
    known = p / q
    if isinstance(divergence, RelativeNovelty):
        known = np.maximum(known, np.exp(-divergence.rho))
    assert_allclose(model.ratio(grid), np.exp(model.log_ratio(grid)), rtol=1e-9)
    error = model.ratio(grid) - known
    assert np.sqrt(np.mean(np.square(error))) < 0.35 * np.sqrt(np.mean(np.square(known)))


def quick_test(name, seed=0):
    return DensityRatio(
        f_divergence=name, validation_fraction=0.5, n_passes=2, batch_size=10, random_state=seed
    )


@pytest.mark.parametrize("name", DIVERGENCES)
def test_two_samples_are_told_apart(name):
    X_p, X_q = samples(100, 100)
    assert quick_test(name).two_sample_test(X_p, X_q + 1.0, n_permutations=19).p_value == 0.05


def test_p_values_are_uniform_under_the_null():
    p_values = []
    for seed in range(2):
        for number, name in enumerate(DIVERGENCES):
            X_p, _ = samples(60, 1, seed=10 * seed + number)
            p_values.append(quick_test(name, seed).two_sample_test(X_p[:30], X_p[30:], 9).p_value)
    # The mean of 12 numbers uniform on 0.1, ..., 1 has standard deviation 0.083.
    assert abs(np.mean(p_values) - 0.55) < 3.0 * 0.083


@every
def test_a_stored_model_goes_on_bit_for_bit(divergence, tmp_path, monkeypatch):
    take_few_steps(monkeypatch)
    X_p, X_q = samples(100, 100)
    model = DensityRatio(f_divergence=divergence, random_state=0).fit(X_p[:60], X_q[:60])
    model.save(tmp_path / "model")
    others = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for one in (model, *others):
        one.partial_fit(X_p[60:], X_q[60:])
    for one in others:
        assert one.targets_.divergence == divergence
        assert np.array_equal(one.ratio(X_p), model.ratio(X_p))
        assert one.divergence_ == model.divergence_


# -- novelty ---------------------------------------------------------------------------------------


def test_relative_novelty_is_that_of_the_paper():
    X_p, X_q = samples(60, 60)
    model = DensityRatio(random_state=0).fit(X_p, X_q)
    for rho in (-1.0, 0.0, 0.4):
        expected = relative_novelty(1.0 / model.ratio(X_p), rho)
        assert_allclose(model.relative_novelty(X_p, rho), expected, atol=1e-12)
    assert_allclose(model.relative_novelty(X_p), model.relative_novelty(X_p, 0.0))
    with pytest.raises(ValueError, match="`rho` must be a finite number"):
        model.relative_novelty(X_p, np.nan)


def test_relative_novelty_that_was_learned_is_known_above_its_own_rho_only():
    X_p, X_q = samples(60, 60)
    model = DensityRatio(f_divergence=RelativeNovelty(-1.0), random_state=0).fit(X_p, X_q)
    expected = np.maximum(model.log_ratio(X_p) - 1.0, 0.0)
    assert_allclose(model.relative_novelty(X_p), expected, atol=1e-12)
    with pytest.raises(ValueError, match="known down to what was learned"):
        model.relative_novelty(X_p, 0.0)


def test_a_divergence_that_returns_other_shapes_is_refused():
    class Scalar(KullbackLeibler):
        def conjugate(self, s):
            return 3.0

    X_p, X_q = samples(20, 20)
    with pytest.raises(ValueError, match=r"`conjugate` of .* must return a number for each"):
        DensityRatio(f_divergence=Scalar()).fit(X_p, X_q)


@pytest.mark.parametrize("divergence", ["kl", RelativeNovelty(-1.0)], ids=repr)
def test_what_the_background_lacks_is_novel(divergence, rng):
    usual = rng.normal(size=(1000, 2))
    today = np.concatenate([rng.normal(size=(900, 2)), rng.normal(4.0, 0.4, size=(100, 2))])
    model = DensityRatio(f_divergence=divergence, n_passes=4, random_state=0).fit(today, usual)
    novel = model.relative_novelty(today, rho=-1.0) > 0.0
    assert novel[900:].mean() > 0.95
    assert novel[:900].mean() < 0.05


# -- divergences of users --------------------------------------------------------------------------


class HalfOfPearson(Divergence):
    """Without a bound for negative ratios."""

    def conjugate(self, s):
        return s + s**2 / 2.0

    def conjugate_derivative(self, s):
        return 1.0 + s


def test_a_divergence_of_a_user_is_like_a_built_in_one(tmp_path):
    X_p, X_q = samples(100, 100)
    model = DensityRatio(f_divergence=HalfOfPearson(), random_state=0).fit(X_p, X_q)
    built_in = DensityRatio(f_divergence="pearson", random_state=0).fit(X_p, X_q)
    assert (built_in.ratio(built_in.dictionary_) > 0.0).all()  # so that no bound is reached
    assert_allclose(model.ratio(X_p), built_in.ratio(X_p), rtol=1e-9)
    assert_allclose(model.divergence_, built_in.divergence_ / 2.0, rtol=1e-9)
    with pytest.raises(ValueError, match="`HalfOfPearson` is not part of mercer"):
        model.save(tmp_path / "model")
    assert np.array_equal(pickle.loads(pickle.dumps(model)).ratio(X_p), model.ratio(X_p))


def test_a_link_that_does_not_rise_at_0_is_refused():
    class Flat(HalfOfPearson):
        def link_derivative(self, f):
            return 0.0 * f

    X_p, X_q = samples(30, 30)
    with pytest.raises(ValueError, match="The derivative of the link of Flat"):
        DensityRatio(f_divergence=Flat()).fit(X_p, X_q)


def test_least_squares_are_solved_by_a_linear_system():
    """uLSIF (Kanamori, Hido and Sugiyama), with a ratio that shrinks to 1."""
    X_p, X_q = samples(75, 75)
    rows, n = np.concatenate([X_p, X_q]), 75
    gram = gaussian(rows, rows, 0.5)
    # E_q (1 + f)² / 2 - E_p f, plus 0.01 |f|² / 2, for f = K a: H a = h - (mean of q).
    of_p, of_q = gram[:n], gram[n:]
    system = of_q.T @ of_q / n + 1e-2 * gram + 1e-12 * np.eye(2 * n)
    a = np.linalg.lstsq(system, of_p.mean(axis=0) - of_q.mean(axis=0), rcond=None)[0]
    model = DensityRatio(
        f_divergence=HalfOfPearson(),
        kernel=Gaussian(0.5),
        expansion=Dictionary(150),
        n_passes=150,
        step_size=InverseTime(2.0, 400),
        validation_fraction=0.0,
        random_state=0,
    ).fit(X_p, X_q)
    exact = gram @ a
    rms = np.sqrt(np.mean(np.square(model.scores(rows)[:, 0] - exact)))
    assert rms < 0.02 * np.sqrt(np.mean(np.square(exact)))


def test_names_stand_for_divergences():
    assert {type(as_divergence(name)) for name in DIVERGENCES} == set(DIVERGENCES.values())
    assert as_divergence("Chi-squared") == Pearson()
    assert as_divergence(RATIO) is RATIO


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ("hellinge", "`f_divergence` must be one of .*Did you mean 'hellinger'"),
        (HellingerDistance, "with brackets"),
        (3, "`f_divergence` must be one of"),
    ],
)
def test_wrong_divergences_are_refused_and_change_nothing(wrong, match):
    X_p, X_q = samples(30, 30)
    model = DensityRatio(random_state=0).fit(X_p, X_q)
    before = model.log_ratio(X_p)
    with pytest.raises(ValueError, match=match):
        model.set_params(f_divergence=wrong).fit(X_p, X_q)
    assert np.array_equal(model.log_ratio(X_p), before)


@pytest.mark.parametrize(
    ("kind", "params", "match"),
    [
        (KullbackLeibler, {"learns": "log"}, "`learns` must be one of"),
        (KullbackLeibler, {"floor": 0.0}, "`floor` must be a finite number"),
        (KullbackLeibler, {"floor": 1.5}, "`floor` must be a finite number"),
        (RelativeNovelty, {"rho": np.inf}, "`rho` must be a finite number"),
    ],
)
def test_wrong_parameters_of_divergences_are_refused(kind, params, match):
    with pytest.raises(ValueError, match=match):
        kind(**params)


def test_the_divergence_in_use_is_told():
    X_p, X_q = samples(30, 30)
    model = DensityRatio(f_divergence=RelativeNovelty(0.7), random_state=0).fit(X_p, X_q)
    assert describe(model)["divergence"] == "RelativeNovelty(rho=0.7)"


def test_another_divergence_waits_for_the_next_fit():
    X_p, X_q = samples(60, 60)
    model = DensityRatio(random_state=0).partial_fit(X_p[:30], X_q[:30])
    twin = copy.deepcopy(model).set_params(f_divergence="pearson")
    for one in (model, twin):
        one.partial_fit(X_p[30:], X_q[30:])
    assert np.array_equal(model.log_ratio(X_p), twin.log_ratio(X_p))
    assert twin.fit(X_p, X_q).targets_.divergence == Pearson()
    assert clone(twin).f_divergence == "pearson"
