import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.base import clone

import oracles_risks as oracle
from mercer import risks
from mercer.component import from_config, own_copy, to_config
from mercer.losses import Squared
from mercer.risks import (
    RISKS,
    CentralMoments,
    CVaR,
    DeviationRisk,
    Entropic,
    Inner,
    Mean,
    Mixture,
    Outer,
    Risk,
    Semivariance,
    Tracker,
    UpperSemideviation,
    Variance,
    as_risk,
    as_tracker,
)

ORACLES = [
    (Mean(), oracle.mean()),
    (Variance(), oracle.variance(0.5)),
    (Variance(0.1, max_deviation=None), oracle.variance(0.1)),
    (Semivariance(), oracle.semivariance(0.5, 0.1)),
    (Semivariance(2.0, smoothing=0.5), oracle.semivariance(2.0, 0.5)),
    (Semivariance(smoothing=0.0), oracle.semivariance(0.5, 0.0)),
    (CentralMoments(), oracle.central_moments(4, 0.1)),
    (CentralMoments(3, weight=0.3, max_deviation=None), oracle.central_moments(3, 0.3)),
    (CentralMoments(2, weight=0.3), oracle.central_moments(2, 0.3)),
    (CentralMoments(positive=True), oracle.central_moments(4, 0.1, 0.1)),
    (UpperSemideviation(), oracle.upper_semideviation(1.0, 0.1)),
    (UpperSemideviation(0.3, smoothing=0.02), oracle.upper_semideviation(0.3, 0.02)),
    (CVaR(), oracle.cvar(0.9, 0.1)),
    (CVaR(0.5, smoothing=0.02), oracle.cvar(0.5, 0.02)),
    (Entropic(), oracle.entropic(1.0)),
    (Entropic(0.5, max_weight=100.0), oracle.entropic(0.5)),
    (
        Mixture([CVaR(0.9), Mean()]),
        oracle.mixture((0.5, oracle.cvar(0.9, 0.1), 0, 1, None), (0.5, oracle.mean(), 0, 0, None)),
    ),
    (
        0.5 * CVaR(0.8) + 2.0 * Variance(units=0.7) + 0.3 * (UpperSemideviation() + Entropic()),
        oracle.mixture(
            (0.5, oracle.cvar(0.8, 0.1), 0, 1, None),
            (2.0, oracle.variance(0.5), 1, 0, 0.7),
            (0.3, oracle.upper_semideviation(1.0, 0.1), 1, 0, None),
            (0.3, oracle.entropic(1.0), 0, 1, None),
        ),
    ),
]
FAMILY = [risk for risk, _ in ORACLES]
DEVIATIONS = [risk for risk in FAMILY if isinstance(risk, DeviationRisk)]
UNITS = [1.0, 0.3]

every_oracle = pytest.mark.parametrize(("risk", "phi"), ORACLES, ids=map(repr, FAMILY))
every_risk = pytest.mark.parametrize("risk", FAMILY, ids=repr)
every_deviation = pytest.mark.parametrize("risk", DEVIATIONS, ids=repr)
each_unit = pytest.mark.parametrize("unit", UNITS)


class Deviant(Risk):
    """A user's risk: mean plus standard deviation, from two inner expectations."""

    n_inner = 2

    def __init__(self, weight=1.0):
        self.weight = weight

    def inner(self, targets, values, losses, slopes):
        h = np.stack([losses, losses**2], axis=1)
        return Inner(h, np.stack([slopes, 2 * losses[:, None] * slopes], axis=1))

    def outer(self, losses, inner, scalars, unit):
        n, sd = len(losses), np.sqrt(inner[1] - inner[0] ** 2)
        by_inner = self.weight / sd * np.array([-inner[0], 0.5])
        return Outer(
            losses + self.weight * sd,
            np.ones(n),
            np.tile(by_inner, (n, 1)),
            np.empty((n, 0)),
            np.zeros(n, bool),
        )


def point(risk, unit, seed=0, n=200, spread=1.0):
    """Losses of mean about 1.5 units, with g and v among them."""
    rng = np.random.default_rng(seed)
    losses = unit * spread * rng.gamma(2.0, 0.75, size=n)
    inner = unit * rng.uniform(0.8, 1.4, size=risk.n_inner)
    scalars = unit * rng.uniform(0.8, 1.4, size=risk.n_scalars)
    return losses, inner, scalars


# -- formulas ---------------------------------------------------------------------------------


@every_oracle
@each_unit
def test_value_is_the_formula_where_no_bound_acts(risk, phi, unit):
    losses, inner, scalars = point(risk, unit)
    outer = risk.outer(losses, inner, scalars, unit)
    free = ~outer.clamped
    expected = [phi(loss, list(inner), list(scalars), unit) for loss in losses]
    assert free.mean() > 0.3
    assert_allclose(outer.value[free], np.array(expected)[free], rtol=1e-10)


@every_risk
@each_unit
def test_partial_derivatives_are_those_of_the_value(risk, unit):
    losses, inner, scalars = point(risk, unit)
    outer = risk.outer(losses, inner, scalars, unit)
    # Kinks (smoothing 0) would spoil a difference across them.
    step = 1e-6 * unit
    away = np.abs(losses[:, None] - inner).min(axis=1, initial=np.inf) > 3 * step
    free = ~outer.clamped & away
    assert free.mean() > 0.3

    moved = oracle.central_difference(
        lambda shift: risk.outer(losses + shift[0], inner, scalars, unit).value, np.zeros(1), step
    )
    assert_allclose(outer.by_loss[free], moved[free, 0], rtol=1e-6, atol=1e-7)
    for partial, at, which in ((outer.by_inner, inner, "g"), (outer.by_scalars, scalars, "v")):
        assert partial.shape == (len(losses), at.size)
        if at.size:

            def value(x, which=which):
                g, v = (x, scalars) if which == "g" else (inner, x)
                return risk.outer(losses, g, v, unit).value

            moved = oracle.central_difference(value, at, step)
            assert_allclose(partial[free], moved[free], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("risk", [*FAMILY, Deviant()], ids=repr)
def test_inner_derivative_is_that_of_the_inner_value(risk):
    rng = np.random.default_rng(1)
    targets, values = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))

    def inner(F):
        return risk.inner(targets, F, *Squared().value_and_derivative(targets, F))

    h = inner(values)
    assert h.value.shape == (5, risk.n_inner)
    assert h.derivative.shape == (5, risk.n_inner, 2)
    moved = oracle.central_difference(lambda F: inner(F).value, values, 1e-6)
    moved = moved.reshape(5, risk.n_inner, 5, 2)
    for i in range(5):  # a row's h depends on that row alone
        assert_allclose(h.derivative[i], moved[i, :, i], atol=1e-7)


@every_risk
@each_unit
def test_shapes_and_types_are_those_of_the_interface(risk, unit):
    for n in (1, 7):
        losses, inner, scalars = point(risk, unit, n=n)
        outer = risk.outer(losses, inner, scalars, unit)
        shapes = [(n,), (n,), (n, risk.n_inner), (n, risk.n_scalars), (n,)]
        assert [field.shape for field in outer] == shapes
        assert [field.dtype for field in outer] == [np.float64] * 4 + [np.bool_]
        assert risk.start(losses).shape == risk.scalar_steps(unit).shape == (risk.n_scalars,)
        assert len(set(risk.scalar_names)) == len(risk.scalar_names) == risk.n_scalars


@every_risk
def test_arguments_are_not_changed(risk):
    arguments = point(risk, 1.0)
    before = [a.copy() for a in arguments]
    outer = risk.outer(*arguments, 1.0)
    risk.start(arguments[0])
    assert all((a == b).all() for a, b in zip(arguments, before, strict=True))
    assert not any(np.shares_memory(outer.value, a) for a in arguments)


@every_risk
@pytest.mark.parametrize("c", [1e-3, 40.0])
def test_the_unit_of_the_loss_does_not_matter(risk, c):
    if isinstance(risk, Mixture):  # units of parts do not grow along
        risk = Mixture([clone(p).set_params(units="running") for p in risk.risks], risk.weights)
    losses, inner, scalars = point(risk, 1.0, spread=2.0)
    one = risk.outer(losses, inner, scalars, 1.0)
    other = risk.outer(c * losses, c * inner, c * scalars, c)
    assert_allclose(other.value, c * one.value, rtol=1e-10)
    for name in ("by_loss", "by_inner", "by_scalars", "clamped"):
        assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-9, atol=1e-12)
    assert_allclose(risk.start(c * losses), c * risk.start(losses), rtol=1e-12)
    assert_allclose(risk.scalar_steps(c), c * risk.scalar_steps(1.0), rtol=1e-12)


# -- what a sample's risk is ------------------------------------------------------------------

SAMPLE = np.random.default_rng(2).gamma(1.5, 2.0, size=1000)


def least(risk, losses, unit=1.0):
    """Smallest mean of phi over the one scalar, and where."""

    def mean(v):
        return risk.outer(losses, np.empty(0), np.array([v]), unit).value.mean()

    found = minimize_scalar(mean, bracket=(losses.mean(), losses.max()), tol=1e-10)
    return found.fun, found.x


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("smoothing", "rtol"), [(0.0, 1e-9), (1e-6, 1e-5), (0.01, 2e-2)])
def test_least_cvar_is_the_mean_of_the_worst_losses(level, smoothing, rtol):
    # Rockafellar and Uryasev (2000). The softplus is above the kink by at most smoothing * log 2.
    value, _ = least(CVaR(level, smoothing=smoothing), SAMPLE)
    expected = oracle.mean_of_the_worst(SAMPLE, 1 - level)
    assert_allclose(value, expected, rtol=rtol)
    assert -1e-9 <= value - expected <= smoothing * np.log(2) / (1 - level) + 1e-9


def test_start_of_cvar_is_the_quantile_where_it_is_least():
    risk = CVaR(0.9, smoothing=0.0)
    start = risk.start(SAMPLE)
    assert np.mean(start < SAMPLE) == 0.1
    assert_allclose(
        risk.outer(SAMPLE, np.empty(0), start, 1.0).value.mean(), least(risk, SAMPLE)[0]
    )


@pytest.mark.parametrize("temperature", [1.0, 3.0, 50.0])
@each_unit
def test_least_entropic_risk_is_the_exponential_mean(temperature, unit):
    losses = unit * SAMPLE
    value, at = least(Entropic(temperature, max_weight=1e9), losses, unit)
    expected = oracle.exponential_mean(losses, temperature * unit)
    assert_allclose(value, expected, rtol=1e-8)
    assert_allclose(at, expected, rtol=1e-4)  # a minimum is flat: half the digits
    assert Entropic(temperature).start(losses)[0] <= expected


@pytest.mark.parametrize("unit", [1.0, 3.0])
def test_deviations_of_a_sample_are_its_moments(unit):
    none, g = np.empty(0), SAMPLE.mean(keepdims=True)
    z = SAMPLE - g
    upper = np.maximum(z, 0)
    expected = {
        Mean: 0.0,
        Variance: 0.5 * np.var(SAMPLE) / unit,
        Semivariance: 0.5 * np.mean(upper**2) / unit,
        UpperSemideviation: np.mean(upper),
        CentralMoments: 0.1
        * (np.mean(z**2) / unit + np.mean(z**3) / unit**2 + np.mean(z**4) / unit**3),
    }
    for cls, more in expected.items():
        risk = cls()
        known = risk.get_params()
        free = {"max_deviation": None, "smoothing": 0.0}
        risk.set_params(**{name: value for name, value in free.items() if name in known})
        value = risk.outer(SAMPLE, g, none, unit).value.mean()
        assert_allclose(value, SAMPLE.mean() + more, rtol=1e-10)


@pytest.mark.parametrize("risk", [CVaR(0.9, smoothing=0.02), Entropic(5.0)], ids=repr)
@pytest.mark.parametrize("unit", [1.0, 20.0])
def test_scalars_move_to_where_the_risk_is_least(risk, unit):
    losses = unit * SAMPLE
    v, target = risk.start(losses[:5]), least(risk, losses, unit)[1]
    for _ in range(2000):
        outer = risk.outer(losses, np.empty(0), v, unit)
        v = v - risk.scalar_steps(unit) * outer.by_scalars.mean(axis=0)
    assert_allclose(v, target, rtol=1e-3)


# -- safeguards -------------------------------------------------------------------------------


@every_deviation
def test_outer_slopes_cancel_in_the_mean(risk):
    # b = 1 - a with a after the clamp: a shift of all losses by c changes the risk by c.
    for spread in (1.0, 30.0):
        losses, inner, scalars = point(risk, 1.0, spread=spread)
        outer = risk.outer(losses, inner, scalars, 1.0)
        assert_array_equal(outer.by_inner[:, 0], 1.0 - outer.by_loss)


@every_deviation
def test_weights_are_never_negative_unless_asked_for(risk):
    losses, inner, scalars = point(risk, 1.0, spread=30.0)
    inner = np.array([losses.mean()])
    outer = risk.outer(losses, inner, scalars, 1.0)
    assert outer.by_loss.min() >= 0
    if "clamp" not in risk.get_params():
        assert not outer.clamped.any()
        return
    raw = clone(risk).set_params(clamp=False).outer(losses, inner, scalars, 1.0)
    assert_array_equal(outer.by_loss, np.maximum(raw.by_loss, 0.0))
    assert_array_equal(outer.value, raw.value)
    assert outer.clamped[raw.by_loss < 0].all()
    rises_only = isinstance(risk, Semivariance) or getattr(risk, "positive", False)
    assert (raw.by_loss.min() >= 1) == rises_only


@pytest.mark.parametrize("cls", [Variance, Semivariance, CentralMoments])
def test_beyond_the_largest_deviation_the_risk_is_its_tangent(cls):
    risk = cls(max_deviation=0.7, clamp=False)
    losses, g, v = point(risk, 1.0, spread=3.0)
    outer = risk.outer(losses, g, v, 1.0)
    z = losses - g
    assert_array_equal(outer.clamped, np.abs(z) > 0.7)
    assert 0 < outer.clamped.sum() < len(z)
    edge = risk.outer(g + 0.7, g, v, 1.0).by_loss[0]
    assert_allclose(outer.by_loss[z > 0.7], edge)
    # So bounded, the weights still are the derivative of the value.
    moved = oracle.central_difference(
        lambda shift: risk.outer(losses + shift[0], g, v, 1.0).value, np.zeros(1), 1e-6
    )
    assert_allclose(outer.by_loss, moved[:, 0], rtol=1e-6)


def test_beyond_the_largest_weight_the_entropic_risk_is_its_tangent():
    risk, v = Entropic(0.5, max_weight=4.0), np.array([1.0])
    edge = 1.0 + 0.5 * np.log(4.0)
    losses = np.array([0.0, 1.0, edge - 1e-3, edge + 1e-3, 5.0, 1e6])
    outer = risk.outer(losses, np.empty(0), v, 1.0)
    assert_array_equal(outer.clamped, [False, False, False, True, True, True])
    assert_allclose(outer.by_loss[3:], 4.0)
    assert_allclose(outer.value[4] - outer.value[3], 4.0 * (5.0 - edge - 1e-3))
    moved = oracle.central_difference(
        lambda u: risk.outer(losses, np.empty(0), u, 1.0).value, v, 1e-6
    )
    assert_allclose(outer.by_scalars[:-1], moved[:-1], rtol=1e-6, atol=1e-8)


@every_risk
def test_no_weight_exceeds_the_largest(risk):
    if risk.largest_weight is None:
        parts = risk.risks if isinstance(risk, Mixture) else [risk]
        assert any(getattr(part, "max_deviation", 1.0) is None for part in parts)
        return
    for seed, spread in enumerate((0.1, 1.0, 10.0, 1e4)):
        losses, inner, scalars = point(risk, 1.0, seed=seed, spread=spread)
        losses[::3] *= 100.0
        outer = risk.outer(losses, inner, scalars, 1.0)
        total = outer.by_loss + outer.by_inner.sum(axis=1).mean()
        assert np.abs([outer.by_loss, total]).max() <= risk.largest_weight * (1 + 1e-12)


@pytest.mark.parametrize(
    "risk",
    [*DEVIATIONS, *(CentralMoments(order, max_deviation=0.8) for order in (3, 5, 7))],
    ids=repr,
)
def test_slopes_of_a_deviation_lie_within_their_bounds(risk):
    # Odd moments are not convex: their least slope is not at the left end.
    bounds = risk.slope_bounds()
    if bounds is None:
        assert risk.max_deviation is None
        return
    reach = 50.0 if risk.max_deviation is None else risk.max_deviation
    slopes = risk.deviation(np.linspace(-reach, reach, 1001))[1]
    assert bounds[0] <= slopes.min() <= slopes.max() <= bounds[1]


class LogCosh(DeviationRisk):
    weight = 0.5
    max_deviation = None

    def deviation(self, u):
        return np.log(np.cosh(u)), np.tanh(u)


def test_slopes_that_end_are_bounds_without_a_largest_deviation():
    risk = LogCosh()
    assert risk.slope_bounds() == (-1.0, 1.0)
    assert risk.largest_weight == 2.0  # 1 + high - low, of weights in [0.5, 1.5]
    assert risk.monotone
    assert Variance(max_deviation=None).slope_bounds() is None


@pytest.mark.parametrize(
    ("risk", "expected"),
    [
        (Mean(), 1.0),
        (Variance(0.5, max_deviation=2.0), 4.0),  # a in [0, 3]
        (Variance(0.5, max_deviation=2.0, clamp=False), 5.0),  # a in [-1, 3]
        (Semivariance(0.5, smoothing=0.0, max_deviation=2.0), 3.0),  # a in [1, 3]
        (UpperSemideviation(0.7), 1.7),
        (CVaR(0.9), 10.0),
        (Entropic(max_weight=7.0), 7.0),
        (0.5 * CVaR(0.9) + 0.5 * Mean(), 5.5),
        (Variance(max_deviation=None), None),
        (Mean() + CentralMoments(max_deviation=None), None),
    ],
    ids=repr,
)
def test_largest_weight_is_the_one_of_the_formula(risk, expected):
    assert risk.largest_weight == (expected if expected is None else pytest.approx(expected))


@every_risk
def test_a_monotone_risk_never_rewards_a_larger_loss(risk):
    """Total weights a + E[b] over distributions of all kinds, from bulk to one far loss."""
    lowest = np.inf
    for seed in range(20):
        rng = np.random.default_rng(seed)
        losses = rng.gamma(1.0, 1.0, size=400)
        losses[: rng.integers(1, 400)] += rng.uniform(0, 30)
        inner = np.full(risk.n_inner, losses.mean())
        outer = risk.outer(losses, inner, point(risk, 1.0, seed)[2], 1.0)
        lowest = min(lowest, (outer.by_loss + outer.by_inner.sum(axis=1).mean()).min())
    assert (lowest >= -1e-12) == risk.monotone


def test_monotone_depends_on_the_weight():
    assert UpperSemideviation(1.0).monotone
    assert not UpperSemideviation(1.01).monotone
    assert Semivariance(0.01, max_deviation=10.0).monotone  # its weights differ by 0.2 at most
    assert not Semivariance(0.01, max_deviation=None).monotone
    assert (CVaR() + UpperSemideviation()).monotone
    assert not (CVaR() + Variance()).monotone


@pytest.mark.parametrize("huge", [1e200, np.inf, np.nan])
def test_numbers_out_of_range_are_left_to_the_learner_to_report(huge):
    # Warnings are errors here: there must be none, and no finite number in their place.
    for risk in (CentralMoments(max_deviation=None), Variance(max_deviation=None), Variance()):
        outer = risk.outer(np.array([huge, 1.0]), np.array([1.0]), np.empty(0), 1.0)
        assert np.isfinite(outer.value[1])
        assert not np.isfinite(outer.value[0]) or huge == 1e200
    for risk in (CVaR(), CVaR(smoothing=0.0), Entropic()):
        outer = risk.outer(np.array([huge]), np.empty(0), np.array([1.0]), 1.0)
        assert np.isnan(outer.by_loss[0]) == np.isnan(huge)


# -- mixtures ---------------------------------------------------------------------------------


def test_operators_write_mixtures_and_sums_are_flat():
    risk = 0.5 * CVaR(0.9) + Mean() * np.float64(0.25) + Variance()
    assert risk == Mixture([CVaR(0.9), Mean(), Variance()], [0.5, 0.25, 1.0])
    assert 2 * risk == Mixture([CVaR(0.9), Mean(), Variance()], [1.0, 0.5, 2.0])
    assert Mixture([Mean(), CVaR()]) == Mixture((Mean(), CVaR()), np.array([0.5, 0.5]))
    assert Mixture([Mean(), CVaR()]) != Mixture([Mean(), CVaR()], [1.0, 0.5])
    assert Mixture([Mean()]) != Mean()
    whole = Mixture([Mean()], clip=1.0)
    with pytest.raises(ValueError, match="clip=None"):
        whole + CVaR()
    for wrong in (lambda: Mean() + 1.0, lambda: Mean() * Mean(), lambda: "cvar" + Mean()):
        with pytest.raises(TypeError):
            wrong()


def test_scalars_of_a_mixture_move_as_they_do_alone():
    parts, weights = [CVaR(0.8), Variance(), Entropic(2.0), CVaR(0.5)], [0.1, 1.0, 3.0, 0.5]
    mixture = Mixture(parts, weights)
    losses, inner, scalars = point(mixture, 1.0)
    outer = mixture.outer(losses, inner, scalars, 0.6)
    moves = mixture.scalar_steps(0.6) * outer.by_scalars.mean(axis=0)
    alone = [
        part.scalar_steps(0.6)
        * part.outer(losses, inner, np.array([v]), 0.6).by_scalars.mean(axis=0)
        for part, v in zip([parts[0], *parts[2:]], scalars, strict=True)
    ]
    assert_allclose(moves, np.concatenate(alone))
    assert_allclose(
        mixture.start(losses), [part.start(losses)[0] for part in parts if part.n_scalars]
    )
    names = ("value_at_risk", "certainty_equivalent", "value_at_risk_2")
    assert mixture.scalar_names == names


def test_a_part_with_units_of_its_own_keeps_them():
    losses, inner, _ = point(Variance(), 1.0)
    outer = (Variance(units=2.0) + Mean()).outer(losses, inner, np.empty(0), 0.1)
    expected = losses + Variance().outer(losses, inner, np.empty(0), 2.0).value
    assert_allclose(outer.value, expected)


def test_a_mixture_tracks_as_its_parts_do():
    assert (CVaR() + Variance(tracker="scgd")).tracker == "scgd"
    assert (CVaR() + Mean()).tracker == "momentum"
    assert (Variance() + Semivariance()).inner_range == (0.0, np.inf)
    assert (Mean() + CVaR()).inner_range == (-np.inf, np.inf)
    assert Variance(tracker="scgd") + Semivariance(tracker=Tracker("scgd"))  # the same
    with pytest.raises(ValueError, match=r"same tracker.*rate=0\.2"):
        Variance() + Semivariance(tracker=Tracker(rate=0.2))


# -- parameters -------------------------------------------------------------------------------


@every_risk
def test_copies_are_equal(risk):
    stored = from_config(json.loads(json.dumps(to_config(risk))))
    for copy in (clone(risk), pickle.loads(pickle.dumps(risk)), own_copy(risk), stored):
        assert copy == risk
        assert copy is not risk
        losses, inner, scalars = point(risk, 1.0)
        for a, b in zip(
            copy.outer(losses, inner, scalars, 0.5),
            risk.outer(losses, inner, scalars, 0.5),
            strict=True,
        ):
            assert_array_equal(a, b)


@every_risk
def test_repr_makes_the_risk_again(risk):
    assert eval(repr(risk), vars(risks).copy()) == risk


@every_risk
def test_describe_is_one_line_with_words(risk):
    line = risk.describe()
    assert "\n" not in line
    assert "loss" in line
    assert line != repr(risk)


def test_describe_says_the_numbers():
    assert CVaR(0.95).describe() == "CVaR at level 0.95: the mean of the worst 5 % of the losses"
    assert "0.5 times the variance" in Variance(0.5).describe()
    assert "2 to 3" in CentralMoments(3).describe()
    assert "temperature 2" in Entropic(2.0).describe()
    assert Deviant().describe() == "Deviant()"


def test_a_tracker_survives_storing_and_is_reached_by_name():
    risk = Variance(tracker=Tracker("nasa", rate=0.05, pairs="reservoir", direction_rate=0.2))
    assert from_config(json.loads(json.dumps(to_config(risk)))) == risk
    assert clone(risk).set_params(tracker__rate=0.5).tracker.rate == 0.5
    assert risk.tracker.rate == 0.05
    assert as_tracker(risk.tracker) is risk.tracker
    assert as_tracker("scgd") == Tracker("scgd")
    with pytest.raises(ValueError, match="'momentum', 'scgd', 'nasa' or a Tracker, got 3"):
        as_tracker(3)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Mean(units="fixed"), "`units` must be 'running' or a positive number"),
        (lambda: Mean(units=None), "`units`"),
        (lambda: CVaR(units=0.0), "`units`.*scale of losses"),
        (lambda: CVaR(0.0), "`level`.*Mean"),
        (lambda: CVaR(1.0), "`level`"),
        (lambda: CVaR(smoothing=-0.1), "`smoothing`.*width"),
        (lambda: CVaR(quantile_step=0), "`quantile_step`.*step"),
        (lambda: CVaR(clip=0.0), "`clip`.*clip=None"),
        (lambda: Entropic(0.0), "`temperature`"),
        (lambda: Entropic(quantile_step=-1), "`quantile_step`"),
        (lambda: Entropic(max_weight=1.0), "`max_weight`.*1 in the mean"),
        (lambda: Variance(-0.5), "`weight`.*rewarded"),
        (lambda: Variance(np.nan), "`weight`"),
        (lambda: Variance(max_deviation=0.0), "`max_deviation`.*max_deviation=None"),
        (lambda: Variance(clamp="yes"), "`clamp` must be True or False"),
        (lambda: Variance(tracker="adam"), "`tracker`.*'scgd'"),
        (lambda: Semivariance(smoothing=np.inf), "`smoothing`"),
        (lambda: CentralMoments(1), "`order`.*first central moment"),
        (lambda: CentralMoments(2.5), "`order`.*integer"),
        (lambda: CentralMoments(positive=1.0), "`positive` must be True or False"),
        (lambda: UpperSemideviation(-1.0), "`weight`"),
        (lambda: Tracker("sgd"), "`rule`.*'nasa'"),
        (lambda: Tracker(pairs="two"), "`pairs`.*'reservoir'"),
        (lambda: Tracker(rate=0.0), "`rate`.*running mean"),
        (lambda: Tracker(direction_rate=1.5), "`direction_rate`"),
        (lambda: Mixture([]), "at least one"),
        (lambda: Mixture(Mean()), "must be a list of risks"),
        (lambda: Mixture(["cvar"]), "as_risk"),
        (lambda: Mixture([Mean()], [1.0, 2.0]), "one number for each of the 1"),
        (lambda: Mixture([Mean()], [0.0]), "`weights`"),
        (lambda: Mixture([CVaR(clip=2.0)]), r"Mixture\(\.\.\., clip=2.0\)"),
        (lambda: -1.0 * Mean(), "`factor`.*maximise"),
        (lambda: CVaR().set_params(level=2.0), "`level`"),
        (lambda: CVaR().set_params(quantile=0.5), "Invalid parameter"),
    ],
)
def test_a_wrong_parameter_is_refused_in_words(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("mean", Mean()),
        ("cvar", CVaR()),
        ("cvar:0.95", CVaR(0.95)),
        ("semideviation", UpperSemideviation()),
        ("upper_semideviation:0.5", UpperSemideviation(0.5)),
        ("variance:0.25", Variance(0.25)),
        ("semivariance:1", Semivariance(1.0)),
        ("central_moments:3", CentralMoments(3)),
        ("entropic:2", Entropic(2.0)),
    ],
)
def test_names_stand_for_risks(text, expected):
    assert as_risk(text) == expected
    assert as_risk(expected) is expected


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("cvra", "'mean', 'cvar'.*Did you mean 'cvar'"),
        ("CVaR", "Did you mean 'cvar'"),
        (CVaR, r"Did you mean CVaR\(\), with brackets"),
        (0.9, "`risk` must be None, a risk.*got 0.9"),
        ("cvar:high", "a number, the `level` of CVaR.*'cvar:0.9'"),
        ("cvar:", "a number, the `level`"),
        ("cvar:1.5", "`level` must be"),
        ("central_moments:2.5", "an integer, the `order`"),
        ("mean:1", "takes no number"),
    ],
)
def test_what_names_no_risk_is_refused_in_words(value, match):
    with pytest.raises(ValueError, match=match):
        as_risk(value)


def test_all_public_risks_have_names_and_are_tested():
    public = [getattr(risks, name) for name in risks.__all__]
    concrete = {
        c
        for c in public
        if isinstance(c, type) and issubclass(c, Risk) and not c.__abstractmethods__
    }
    assert set(RISKS.values()) == concrete - {Mixture}
    assert {type(risk) for risk in FAMILY} == concrete


# -- a user's own -----------------------------------------------------------------------------


def test_a_users_risk_needs_a_formula_only():
    risk = as_risk(Deviant(2.0))
    targets, values = np.zeros((3, 1)), np.array([[1.0], [2.0], [3.0]])
    losses, slopes = Squared().value_and_derivative(targets, values)
    g = risk.inner(targets, values, losses, slopes).value.mean(axis=0)
    outer = risk.outer(losses, g, risk.start(losses), 1.0)
    assert_allclose(outer.value.mean(), losses.mean() + 2.0 * losses.std())
    assert (risk.units, risk.clip, risk.tracker) == ("running", None, "momentum")
    assert clone(risk) == risk
    assert (risk + Mean()).n_inner == 2
    with pytest.raises(ValueError, match="not part of mercer"):
        to_config(risk)
    with pytest.raises(TypeError, match="abstract"):
        Risk()


def test_what_a_users_risk_leaves_out_is_named():
    class Incomplete(Risk):
        n_inner = 2
        n_scalars = 2

        def outer(self, losses, inner, scalars, unit):
            raise AssertionError

    rows = np.zeros((3, 1))
    with pytest.raises(NotImplementedError, match=r"Define inner\(.*2 columns"):
        Incomplete().inner(rows, rows, rows[:, 0], rows)
    with pytest.raises(NotImplementedError, match=r"n_scalars = 2. Define start\(losses\)"):
        Incomplete().start(rows[:, 0])
    with pytest.raises(NotImplementedError, match=r"Define scalar_steps\(unit\)"):
        Incomplete().scalar_steps(1.0)
