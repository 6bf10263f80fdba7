import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.metrics import log_loss

from mercer.evaluation import progressive
from mercer_app.files import stream

pytest.importorskip("pyarrow")


class Recorder:
    """A model that keeps what it is shown, and predicts the mean or majority so far."""

    def __init__(self):
        self.shown, self.calls = [], []

    def predict(self, X):
        self.calls.append("predict")
        return np.full(len(X), self.shown[-1] if self.shown else 0)

    def predict_proba(self, X):
        return np.full((len(X), 2), [0.25, 0.75])

    classes_ = np.array([0, 1])

    def partial_fit(self, X, y):
        self.calls.append("learn")
        self.shown.extend(y.tolist())


RNG = np.random.default_rng(0)
X = RNG.standard_normal((530, 3))
CLASSES = (X[:, 0] > 0).astype(int)


def test_every_batch_is_predicted_before_it_is_learned():
    model = Recorder()
    result = progressive(model, stream(X, CLASSES, batch_size=100), every=70)
    assert model.calls == ["predict", "learn"] * 6
    assert model.shown == CLASSES.tolist()
    previous = np.r_[0, CLASSES[99:-1:100]]
    losses = (np.repeat(previous, 100)[:530] != CLASSES).astype(float)
    assert result.metric == "error_rate"
    assert result.n_samples == result.n_learned == 530
    assert_array_equal(result.samples, [70, 140, 210, 280, 350, 420, 490, 530])
    windows = np.split(losses, result.samples[:-1])
    assert_allclose(result.windowed, [window.mean() for window in windows])
    assert_allclose(result.cumulative, [losses[:end].mean() for end in result.samples])
    assert_allclose(result.value, losses.mean())


@pytest.mark.parametrize("most", [2, 3, 5, 8])
def test_windows_are_joined_so_that_the_result_stays_small(most):
    fine = progressive(Recorder(), stream(X, CLASSES), every=1)
    coarse = progressive(Recorder(), stream(X, CLASSES), every=1, max_windows=most)
    assert len(coarse.samples) <= most
    assert coarse.samples[-1] == 530
    assert_allclose(coarse.cumulative, fine.cumulative[coarse.samples - 1])
    parts = np.split(fine.windowed, coarse.samples[:-1])
    assert_allclose(coarse.windowed, [part.mean() for part in parts])


def test_an_unfitted_classifier_learns_the_first_batch_only():
    labels = np.array(["no", "yes"])[CLASSES]
    model = SGDClassifier(random_state=0)
    result = progressive(model, stream(X, labels, batch_size=50), classes=["no", "yes"])
    assert result.metric == "error_rate"
    assert (result.n_samples, result.n_learned) == (480, 530)
    assert result.value < 0.2


def test_regressors_have_the_squared_error_even_for_whole_targets():
    result = progressive(SGDRegressor(random_state=0), stream(X, CLASSES, batch_size=50))
    assert result.metric == "mse"
    assert 0 < result.value < 0.25


def test_log_loss_equals_that_of_scikit_learn():
    result = progressive(Recorder(), stream(X, CLASSES), metric="log_loss")
    assert_allclose(result.value, log_loss(CLASSES, np.full((530, 2), [0.25, 0.75])))


def test_a_class_never_seen_costs_a_finite_log_loss():
    result = progressive(Recorder(), [(X[:2], np.array([7, 7]))], metric="log_loss")
    assert_allclose(result.value, -np.log(np.finfo(float).eps))


def test_several_outputs_are_averaged():
    class Zero:
        def predict(self, X):
            return np.zeros((len(X), 2))

        def partial_fit(self, X, y):
            pass

    result = progressive(Zero(), [(X[:2], np.array([[1.0, 3.0], [0.0, 0.0]]))])
    assert (result.metric, result.value) == ("mse", 2.5)


def test_an_empty_stream_gives_an_empty_result():
    result = progressive(Recorder(), [(np.empty((0, 3)), np.empty(0))])
    assert np.isnan(result.value)
    assert result.n_samples == len(result.windowed) == 0


def test_what_cannot_be_evaluated_is_refused():
    with pytest.raises(ValueError, match="no targets"):
        progressive(Recorder(), stream(X))
    with pytest.raises(ValueError, match="needs probabilities"):
        progressive(SGDClassifier(), stream(X, CLASSES), metric="log_loss", classes=[0, 1])
    with pytest.raises(ValueError, match="Text has no squared error"):
        progressive(Recorder(), [(X[:1], np.array(["a"]))], metric="mse")
    with pytest.raises(ValueError, match="must agree"):
        progressive(Recorder(), [(X[:1], np.array([[1.0, 2.0]]))])
    with pytest.raises(ValueError, match="metric"):
        progressive(Recorder(), [], metric="accuracy")
    with pytest.raises(ValueError, match="every"):
        progressive(Recorder(), [], every=0)
