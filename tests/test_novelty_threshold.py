"""The threshold of novelty detection: the step that the paper prints, and its unit."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from mercer import NoveltyDetector, load_model
from mercer.expansions import KOMP, Budget, Dictionary, Full, RandomFeatures
from mercer.features import FeatureOptions
from mercer.kernels import Gaussian
from mercer.schedules import InverseTime
from oracles_features import features_of_blocks
from oracles_tasks import gaussian, novelty_descent, novelty_on_features

X, SCALE, NU = make_moons(80, noise=0.1, random_state=0)[0], 0.3, 0.2


STEPS = InverseTime(1.5, 4.0)
IN_ORDER = [float(STEPS(t)) for t in range(1, 81)]


def paper(expansion, **changes):
    return NoveltyDetector(
        NU,
        **{
            "kernel": Gaussian(SCALE),
            "expansion": expansion,
            "batch_size": 1,
            "step_size": STEPS,
            "threshold_unit": 1.0,
            "shuffle": False,
            "average": None,
        }
        | changes,
    )


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("expansion", [Full(), KOMP(tolerance=0.0), Budget(100)], ids=repr)
def test_steps_and_threshold_are_those_of_the_paper(expansion, batch_size):
    model = paper(expansion, batch_size=batch_size).fit(X)
    gram = gaussian(X, X, SCALE)
    a, threshold = novelty_descent(gram, NU, IN_ORDER, 1.0, 1.0, batch_size)
    assert 0.0 < np.count_nonzero(a) < 80  # so that both cases of the step occur
    assert_allclose(model.score_samples(X), gram @ a, atol=1e-12 if batch_size == 1 else 1e-11)
    assert_allclose(model.threshold_, threshold, rtol=1e-12)


def test_on_random_features_they_are_too():
    features = RandomFeatures(
        8, mode="faithful", paired=False, design="iid", precision="double", seed=3
    )
    model = paper(features).fit(X)
    options = FeatureOptions(paired=False, design="iid")
    blocks = features_of_blocks(Gaussian(SCALE), X, 80, 8, 3, options)
    f, threshold = novelty_on_features(blocks, NU, IN_ORDER, 1.0)
    assert_allclose(model.score_samples(X), f, atol=1e-12)
    assert_allclose(model.threshold_, threshold, rtol=1e-12)


def test_the_automatic_unit_is_the_top_eigenvalue():
    automatic = paper(Full(), threshold_unit="auto").fit(X)
    unit = np.linalg.eigvalsh(gaussian(X, X, SCALE))[-1] / len(X)
    given = paper(Full(), threshold_unit=float(unit)).fit(X)
    assert_allclose(given.threshold_, automatic.threshold_, rtol=1e-9)
    assert given.threshold_ != paper(Full()).fit(X).threshold_


@pytest.mark.parametrize("unit", [0.1, 1.0])
def test_the_minimum_is_the_same_for_every_unit(unit):
    model = NoveltyDetector(
        NU, kernel=Gaussian(SCALE), threshold_unit=unit, n_passes=60, random_state=0
    ).fit(X)
    exact = NoveltyDetector(NU, kernel=Gaussian(SCALE), n_passes=400, random_state=0).fit(X)
    rms = np.sqrt(np.mean(np.square(model.score_samples(X) - exact.score_samples(X))))
    assert rms < 0.1 * np.sqrt(np.mean(np.square(exact.score_samples(X))))
    assert abs(model.threshold_ / exact.threshold_ - 1.0) < 0.2


@pytest.mark.parametrize(
    "expansion", [KOMP(), Dictionary(30), RandomFeatures(mode="faithful")], ids=repr
)
def test_a_stored_model_goes_on_with_its_unit(expansion, tmp_path):
    model = paper(expansion).partial_fit(X[:40])
    model.save(tmp_path / "model")
    others = [load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    assert model.targets_.unit == 1.0
    for one in (model, *others):
        one.partial_fit(X[40:])
    for one in others:
        assert one.targets_.unit == 1.0
        assert one.threshold_ == model.threshold_
        assert one.offset_ == model.offset_


def test_another_unit_waits_for_the_next_fit():
    model = paper(Full()).partial_fit(X[:40])
    twin = copy.deepcopy(model).set_params(threshold_unit=9.0)
    for one in (model, twin):
        one.partial_fit(X[40:])
    assert twin.threshold_ == model.threshold_
    assert twin.fit(X).threshold_ != model.fit(X).threshold_


@pytest.mark.parametrize("unit", [0.0, -1.0, np.nan, np.inf, None, "one"])
def test_wrong_units_are_refused_and_change_nothing(unit):
    model = paper(Full()).fit(X)
    before = model.threshold_
    with pytest.raises(ValueError, match="`threshold_unit` must be"):
        model.set_params(threshold_unit=unit).fit(X)
    assert model.threshold_ == before


def test_there_is_no_threshold_before_learning():
    with pytest.raises(AttributeError, match="not fitted"):
        _ = NoveltyDetector().threshold_
