"""scikit-learn's own checks, and its tools around the estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelClassifier, KernelRanker, KernelRegressor
from mercer.default import DefaultLearner
from mercer.estimators.fitting import KernelEstimator
from mercer.expansions import KOMP, Budget, Dictionary, RandomFeatures
from mercer.functions import DictionaryFunction
from mercer.kernels import Gaussian, Laplacian
from mercer.losses import Huber
from mercer.risks import CVaR
from mercer.schedules import PowerDecay
from quick import QUICK, QUICK_MAP

pytestmark = pytest.mark.usefixtures("quickest_race", "short_correction")

X, LABELS = make_moons(300, noise=0.15, random_state=0)
TARGETS = 10.0 + np.sin(3.0 * X[:, 0])


@pytest.fixture(scope="module")
def one_length():
    """Races of maps only: the many small fits of the checks are not about the best length."""
    one = {"families": ("gaussian",), "rounds": 1}
    race = QUICK.race._replace(**one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", QUICK._replace(race=race))
        patch.setattr(DictionaryFunction, "settings", race)
        patch.setattr(KernelEstimator, "_race_settings", QUICK_MAP._replace(**one))
        yield


def expected_failures(estimator):
    # As for scikit-learn's own SGDClassifier and SGDRegressor.
    if getattr(estimator, "pair_kernel", "difference") != "difference":
        return {}  # the checks compare answers for single rows, and there are none
    reason = (
        "A weight multiplies a row's step; a repeated row makes further steps, on the function "
        "that the first one changed, and in other mini-batches."
    )
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.usefixtures("one_length")
@parametrize_with_checks(
    [
        KernelClassifier(),
        KernelRegressor(),
        KernelClassifier("hinge", expansion=KOMP(max_size=30)),
        # The checks compare to 1e-7, which single precision does not reach.
        KernelClassifier(
            expansion=RandomFeatures(16, ridge=[1e-2, 1e-4], precision="double", min_steps=10)
        ),
        KernelClassifier(expansion=RandomFeatures(32, "faithful", precision="double")),
        KernelRegressor(
            expansion=RandomFeatures(16, "cyclic", max_blocks=3, precision="double", min_steps=10)
        ),
        KernelClassifier(kernel=Gaussian(), expansion=Dictionary(20)),
        KernelRegressor(expansion=Dictionary(100, first_rows=50)),
        KernelRanker(),
        KernelRanker(kernel=Gaussian(), pair_kernel="product"),
    ],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_pipelines_and_cross_validation():
    model = make_pipeline(StandardScaler(), KernelClassifier(random_state=0))
    assert cross_val_score(model, X, LABELS, cv=3).mean() > 0.95
    assert model.fit(X, LABELS).predict_proba(X).shape == (300, 2)
    proba = cross_val_predict(model, X, LABELS, cv=3, method="predict_proba")
    assert ((proba[:, 1] > 0.5) == LABELS).mean() > 0.95


def test_grid_search_reaches_into_components():
    search = GridSearchCV(
        KernelClassifier(
            kernel=Gaussian(), expansion=KOMP(), step_size=PowerDecay(1.0), random_state=0
        ),
        {
            "kernel__length_scale": [0.5, 50.0],
            "expansion__max_size": [5, 50],
            "step_size__scale": [4.0],
        },
        cv=3,
        error_score="raise",
    ).fit(X, LABELS)
    assert search.best_params_["kernel__length_scale"] == 0.5
    assert search.best_estimator_.kernel_ == Gaussian(0.5)
    assert search.best_estimator_.step_size == PowerDecay(4.0)
    assert search.best_score_ > 0.9
    whole = GridSearchCV(
        KernelRegressor(random_state=0),
        {
            "kernel": [Gaussian(), Laplacian()],
            "expansion": [KOMP(tolerance=0.01), Budget(50, "remove")],
        },
        cv=2,
        error_score="raise",
    ).fit(X, TARGETS - 10.0)
    assert len(whole.cv_results_["params"]) == 4


@pytest.mark.parametrize(
    ("estimator", "params", "words"),
    [
        (
            KernelClassifier(),
            {"expansion__budget_seconds": [1]},
            r"Classifier\(expansion=Auto",
        ),
        (KernelRegressor(), {"kernel__length_scale": [1.0]}, r"KernelRegressor\(kernel=Gaussian"),
        (KernelRegressor(), {"loss__delta": [1.0]}, r"KernelRegressor\(loss=Huber"),
        (KernelRegressor(), {"risk__level": [0.9]}, r"KernelRegressor\(risk=CVaR"),
    ],
)
def test_a_search_over_parameters_of_a_name_says_what_to_write(estimator, params, words):
    with pytest.raises(ValueError, match=words):
        GridSearchCV(estimator, params, cv=2).fit(X[:20], LABELS[:20])
    (key,) = params
    name = key.partition("__")[0]
    both = {name: {"expansion": KOMP(), "kernel": Gaussian(), "loss": Huber()}.get(name, CVaR())}
    if name != "expansion":
        assert estimator.set_params(**both, **{key: 0.5}).get_params()[key] == 0.5


def test_clones_are_unfitted_and_equal():
    model = KernelRegressor(
        Huber(0.5), kernel=Laplacian(2.0), expansion=KOMP(parsimony=0.1), step_size=PowerDecay(0.5)
    ).fit(X, TARGETS - 10.0)
    twin = clone(model)
    assert twin.get_params(deep=False) == model.get_params(deep=False)
    assert twin.expansion is not model.expansion
    assert not hasattr(twin, "learner_")
    twin.set_params(expansion__parsimony=0.2, loss__delta=2.0)
    assert (model.expansion.parsimony, model.loss.delta) == (0.1, 0.5)


def test_fitting_leaves_parameters_as_they_are():
    kernel, expansion = Gaussian("median"), KOMP()
    model = KernelClassifier(kernel=kernel, expansion=expansion).fit(X, LABELS)
    assert model.kernel is kernel
    assert kernel.length_scale == "median"
    assert model.kernel_.length_scale > 0.0
    assert model.expansion is expansion


def test_probability_calibration_of_a_loss_without_probabilities():
    model = CalibratedClassifierCV(KernelClassifier("hinge", random_state=0), cv=2)
    assert model.fit(X, LABELS).score(X, LABELS) > 0.9


def test_a_target_far_from_zero_by_a_transformer():
    model = TransformedTargetRegressor(
        KernelRegressor(expansion="komp", n_passes=10, random_state=0), transformer=StandardScaler()
    )
    assert model.fit(X, TARGETS).score(X, TARGETS) > 0.9


def test_wrong_parameters_found_by_a_search_are_named():
    with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
        KernelClassifier(kernel=Gaussian()).set_params(kernel__no_such=1.0)
    with pytest.raises(ValueError, match="`length_scale`"):
        KernelClassifier(kernel=Gaussian()).set_params(kernel__length_scale=-1.0)
