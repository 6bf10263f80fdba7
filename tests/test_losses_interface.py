"""Losses towards the rest of the library: targets, decisions, errors, names, compiled calls."""

import json
import pickle

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from sklearn.base import clone

from cases_losses import (
    CLASSIFICATIONS,
    LOSSES,
    MARGINS,
    MULTICLASS,
    REGRESSIONS,
    every_loss,
    random_rows,
)
from mercer import losses
from mercer.component import from_config, to_config
from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MarginLoss,
    MulticlassHinge,
    MulticlassLoss,
    Poisson,
    QNormHinge,
    Quantile,
    RegressionLoss,
    Squared,
    SquaredEpsilonInsensitive,
    as_loss,
)
from mercer.pointers import call_pointer

# Scores, targets and decisions


@pytest.mark.parametrize("loss", CLASSIFICATIONS, ids=repr)
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5])
def test_scores_equal_to_the_encoded_class_decide_for_it(loss, n_classes):
    labels = np.arange(n_classes)
    targets = loss.encode(labels, n_classes)
    n_scores = loss.n_scores(n_classes)
    assert targets.dtype == np.float64
    assert targets.shape == (n_classes, loss.target_width(n_scores))
    scores = np.eye(n_classes) if loss.multiclass else targets
    assert scores.shape[1] == n_scores
    assert_array_equal(loss.decide(3 * scores), labels)
    assert loss.decide(scores).dtype == np.int64


@pytest.mark.parametrize("loss", REGRESSIONS, ids=repr)
def test_regression_targets_are_kept_as_float64_copies(loss):
    y = np.array([1, 2, 3])
    assert_array_equal(loss.encode(y), [[1], [2], [3]])
    matrix = np.arange(6.0).reshape(3, 2)
    targets = loss.encode(matrix)
    assert_array_equal(targets, matrix)
    assert not np.shares_memory(targets, matrix)
    assert loss.target_width(loss.n_scores(2)) == 2
    scores = np.ones((3, loss.n_scores(2)))
    expected = np.exp(scores) if isinstance(loss, Poisson) else scores
    assert_allclose(loss.predict(scores), expected)


def test_binary_logistic_probabilities_follow_the_score():
    F = np.array([[-800.0], [0.0], [2.0], [800.0]])
    expected = np.c_[special.expit(-F), special.expit(F)]
    assert_allclose(Logistic().probabilities(F), expected)


def test_one_versus_rest_probabilities_sum_to_one_far_from_all_classes():
    F = np.array([[-1000.0, -1001.0, -1002.0], [1.0, 2.0, -3.0]])
    P = Logistic().probabilities(F)
    assert_allclose(P.sum(axis=1), 1)
    assert_allclose(P[1], special.expit(F[1]) / special.expit(F[1]).sum())
    assert_allclose(P[0], special.softmax(F[0]))


@every_loss
def test_probabilities_exist_exactly_where_declared(loss):
    F = np.zeros((2, loss.n_scores(3)))
    if loss.has_probabilities:
        assert_allclose(loss.probabilities(F), 1 / 3)
    else:
        with pytest.raises(AttributeError, match="Use Logistic or Softmax"):
            loss.probabilities(F)


def test_tasks_refuse_what_belongs_to_the_other():
    with pytest.raises(ValueError, match="decides no class"):
        Squared().decide([[1.0]])
    with pytest.raises(ValueError, match="predicts no number"):
        Hinge().predict([[1.0]])


# Errors


@pytest.mark.parametrize("loss", MARGINS, ids=repr)
def test_margin_losses_refuse_labels_other_than_plus_and_minus_one(loss):
    with pytest.raises(ValueError, match=r"contains 0, .* labels -1 and \+1"):
        loss.value([0, 1], [0.5, 0.5])


@pytest.mark.parametrize("loss", MULTICLASS, ids=repr)
@pytest.mark.parametrize("wrong", [-1, 2, 0.5, np.nan, np.inf])
def test_multiclass_losses_refuse_numbers_of_no_class(loss, wrong):
    with pytest.raises(ValueError, match="class numbers 0 to 1"):
        loss.value([0, wrong], np.zeros((2, 2)))


@pytest.mark.parametrize("loss", REGRESSIONS, ids=repr)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_regression_losses_refuse_targets_that_are_not_finite(loss, wrong):
    with pytest.raises(ValueError, match="NaN or infinity"):
        loss.encode([1.0, wrong])
    with pytest.raises(ValueError, match="NaN or infinity"):
        loss.value([wrong], np.zeros((1, loss.n_scores(1))))


def test_poisson_refuses_negative_targets():
    with pytest.raises(ValueError, match=r"contains -2, .* at least 0"):
        Poisson().encode([1.0, -2.0])


@every_loss
def test_shapes_that_do_not_fit_are_refused(loss):
    f = np.zeros((4, loss.n_scores(3)))
    with pytest.raises(ValueError, match="does not fit"):
        loss.value(np.ones((3, loss.target_width(f.shape[1]))), f)
    with pytest.raises(ValueError, match="does not fit"):
        loss.value(np.ones((4, 7)), f)
    with pytest.raises(ValueError, match="one batch at a time"):
        loss.value(np.ones(4), np.zeros((4, 1, 1)))


def test_quantile_refuses_a_number_of_columns_between_levels():
    with pytest.raises(ValueError, match="multiple of 2"):
        Quantile(levels=[0.1, 0.9]).value([1.0], [[1.0, 2.0, 3.0]])


@pytest.mark.parametrize("loss", CLASSIFICATIONS, ids=repr)
def test_encode_refuses_labels_that_are_no_class_numbers(loss):
    with pytest.raises(ValueError, match="n_classes - 1 = 1, got values from 0 to 2"):
        loss.encode([0, 2], 2)
    with pytest.raises(ValueError, match="array of integers"):
        loss.encode([0.0, 1.0], 2)
    with pytest.raises(ValueError, match="n_classes"):
        loss.encode([0, 1])
    with pytest.raises(ValueError, match="Reshape"):
        loss.decide([1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Huber(delta=0), "`delta` must be"),
        (lambda: Huber(delta=np.inf), "`delta` must be"),
        (lambda: EpsilonInsensitive(epsilon=-1), "`epsilon` must be"),
        (lambda: SquaredEpsilonInsensitive(epsilon="a"), "`epsilon` must be"),
        (lambda: QNormHinge(q=1), "Use `Hinge`"),
        (lambda: QNormHinge(q=2.1), "`q` must be"),
        (lambda: Quantile(levels=1.0), "`levels` must be"),
        (lambda: Quantile(levels=[0.5, 0.0]), "`levels` must be"),
        (lambda: Quantile(levels="half"), "`levels` must be"),
        (lambda: Quantile(levels=[]), "two quantiles"),
        (lambda: Quantile(levels=[[0.5]]), "two quantiles"),
        (lambda: Huber().set_params(delta=-1), "`delta` must be"),
    ],
)
def test_parameters_outside_their_range_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


# Parameter objects


@every_loss
def test_losses_survive_config_pickle_and_clone(loss):
    for copy in (
        from_config(json.loads(json.dumps(to_config(loss)))),
        pickle.loads(pickle.dumps(loss)),
        clone(loss),
    ):
        assert copy == loss
        assert repr(copy) == repr(loss)


@every_loss
def test_losses_are_equal_only_to_the_same_loss_with_the_same_parameters(loss):
    twins = [other for other in LOSSES if other == loss]
    assert twins == [loss]
    assert loss != "hinge"


@pytest.mark.parametrize("levels", [(0.1, 0.9), np.array([0.1, 0.9]), [0.1, 0.9]])
def test_quantile_levels_compare_by_value(levels):
    loss = Quantile(levels)
    assert loss == Quantile([0.1, 0.9])
    assert from_config(json.loads(json.dumps(to_config(loss)))) == loss
    assert loss != Quantile([0.1, 0.8])
    assert Quantile(0.5) != Quantile([0.4, 0.6])


@every_loss
def test_names_stand_for_the_default_loss(loss):
    name = losses._name(type(loss))
    assert as_loss(name) == type(loss)()
    assert as_loss(name, task=loss.task) == type(loss)()
    assert as_loss(loss) is loss


def test_names_are_snake_case():
    assert isinstance(as_loss("squared_epsilon_insensitive"), SquaredEpsilonInsensitive)
    assert isinstance(as_loss("q_norm_hinge"), QNormHinge)
    assert isinstance(as_loss("multiclass_hinge"), MulticlassHinge)


def test_unknown_losses_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match=r"'squared_hinge'.*Did you mean 'hinge'\?"):
        as_loss("hnge")
    with pytest.raises(ValueError, match=r"Did you mean Hinge\(\), with brackets\?"):
        as_loss(Hinge)
    with pytest.raises(ValueError, match="must be a loss"):
        as_loss(3)


def test_losses_of_the_other_task_are_refused():
    with pytest.raises(ValueError, match="`hinge` is a classification loss, but a regression"):
        as_loss("hinge", task="regression")
    with pytest.raises(ValueError, match="`huber` is a regression loss, but a classification"):
        as_loss(Huber(), task="classification")


# Compiled calls, and losses of users


@njit
def call_row(address, target, scores, slopes, value, parameters):
    call_pointer(
        address,
        (
            target.ctypes.data,
            scores.ctypes.data,
            slopes.ctypes.data,
            value.ctypes.data,
            parameters.ctypes.data,
            scores.shape[0],
        ),
    )


@every_loss
def test_a_compiled_loop_gets_the_same_numbers_by_address(loss):
    y, f = random_rows(loss, np.random.default_rng(1))
    address, parameters = loss.compiled()
    assert parameters.dtype == np.float64
    values, slopes = loss.value_and_derivative(y, f)
    for i in range(len(f)):
        slope, value = np.full(f.shape[1], np.nan), np.full(1, np.nan)
        call_row(address, y[i], f[i], slope, value, parameters)
        assert_array_equal(slope, slopes[i])
        assert_array_equal(value, values[i])
    assert type(loss)().compiled().address == address


def test_pointer_calls_refuse_arguments_that_are_no_words():
    @njit
    def passes_a_float(address):
        call_pointer(address, (1.0,))

    @njit
    def passes_no_tuple(address):
        call_pointer(address, 1)

    for wrong in (passes_a_float, passes_no_tuple):
        with pytest.raises(TypingError, match="tuple of 64-bit integers"):
            wrong(0)


class LogCosh(RegressionLoss):
    curvature = 1.0
    lipschitz = 1.0

    def value(self, y, f):
        return np.sum(np.logaddexp(f - y, y - f) - np.log(2.0), axis=1)

    def derivative(self, y, f):
        return np.tanh(f - y)


class Exponential(MarginLoss):
    """exp(-scale y f), given as a row."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def row_parameters(self):
        return [self.scale]

    @staticmethod
    def row(target, scores, slopes, value, parameters, n_scores):
        total = 0.0
        for c in range(n_scores):
            e = np.exp(-parameters[0] * target[c] * scores[c])
            total += e
            slopes[c] = -parameters[0] * target[c] * e
        value[0] = total


class FlippedHinge(Hinge):
    def derivative(self, y, f):
        return -super().derivative(y, f)


def test_a_users_loss_in_numpy_works_without_compilation():
    loss = as_loss(LogCosh(), task="regression")
    y, f = np.array([[1.0, 0.0]]), np.array([[1.5, 2.0]])
    values, slopes = loss.value_and_derivative(y, f)
    assert loss.compiled() is None
    assert_array_equal(slopes, np.tanh(f - y))
    assert_allclose(values, np.log(np.cosh(f - y)).sum(axis=1))
    assert loss.n_scores(2) == 2
    with pytest.raises(ValueError, match="not part of mercer"):
        to_config(loss)


def test_a_users_loss_as_a_row_is_compiled():
    loss = as_loss(Exponential(scale=0.5), task="classification")
    assert loss.compiled() is not None
    y, f = loss.encode([0, 1], 2), np.array([[3.0], [1.0]])
    assert_allclose(loss.value(y, f), np.exp(-0.5 * y * f)[:, 0])
    assert_allclose(loss.derivative(y, f), -0.5 * y * np.exp(-0.5 * y * f))


def test_a_formula_that_overrides_a_builtin_one_switches_its_row_off():
    assert FlippedHinge().compiled() is None
    assert Hinge().compiled() is not None
    values, slopes = as_loss(FlippedHinge()).value_and_derivative([1.0], [0.5])
    assert (values, slopes) == (0.5, 1.0)


@pytest.mark.parametrize("family", [RegressionLoss, MarginLoss, MulticlassLoss])
def test_a_loss_without_a_formula_is_refused(family):
    for use in (as_loss, lambda loss: loss.value([1.0], [1.0])):
        with pytest.raises(ValueError, match="has no formula"):
            use(family())
    with pytest.raises(TypeError, match="abstract"):
        Loss()
