"""Pictures of losses and of what a risk watches: their numbers, marks and refusals."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelClassifier, KernelRegressor
from mercer.display import (
    LearningCurveDisplay,
    LossDistributionDisplay,
    MonitorDisplay,
    row_losses,
    tail_of,
)

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


def new_axes():
    return Figure().subplots()


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (400, 1))
    return X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(400)


@pytest.fixture(scope="module")
def fitted(rows):
    return KernelRegressor(risk="cvar:0.8", n_passes=2, random_state=0, expansion="komp").fit(*rows)


# -- the worst losses ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 10, 15, 100])
@pytest.mark.parametrize("level", [0.25, 0.5, 0.9, 0.99])
def test_cvar_is_the_mean_of_the_worst_part_of_the_losses(n, level):
    losses = np.random.default_rng(n).standard_normal(n) ** 2
    tail = tail_of(losses, level)
    # From the worst one down, the last with the part that belongs to the worst.
    left, total = n * (1.0 - level), 0.0
    for loss in sorted(losses, reverse=True):
        total += min(max(left, 0.0), 1.0) * loss
        left -= 1.0
    assert_allclose(tail.cvar, total / (n * (1.0 - level)), rtol=1e-9)
    # The value at risk: the least loss that a share of at least `level` does not exceed.
    reached = [v for v in sorted(losses) if np.mean(losses <= v) >= level - 1e-12]
    assert tail.value_at_risk == reached[0]


@pytest.mark.parametrize("losses", [[], [1.0, np.nan], [1.0, np.inf], [[1.0]], 3.0])
def test_losses_that_have_no_tail_are_refused(losses):
    with pytest.raises(ValueError, match="row of finite numbers, at least one"):
        tail_of(losses)


def test_levels_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="`level` must be"):
        tail_of([1.0], 1.0)


# -- losses of rows -----------------------------------------------------------------------------


def test_losses_of_a_regressor_are_those_of_its_predictions(rows, fitted):
    X, y = rows
    expected = 0.5 * (fitted.predict(X) - y) ** 2
    assert_allclose(row_losses(fitted, X, y), expected, rtol=1e-12)
    pipeline = make_pipeline(StandardScaler(), KernelRegressor(random_state=0)).fit(X, y)
    assert_allclose(row_losses(pipeline, X, y), 0.5 * (pipeline.predict(X) - y) ** 2, rtol=1e-9)


@pytest.mark.parametrize("loss", ["absolute_error", "quantile", "poisson"])
def test_own_losses_are_of_the_scores(loss, rows):
    X, y = rows
    model = KernelRegressor(loss, random_state=0).fit(X, np.abs(y))
    scores = model.scores(X)
    expected = model.loss_.value(np.abs(y)[:, None], scores)
    assert_array_equal(row_losses(model, X, np.abs(y)), expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_of_a_classifier_are_minus_the_logarithms_of_its_probabilities(n_classes, rows):
    X, _ = rows
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0.0, 1.5][: n_classes - 1])]
    model = KernelClassifier(risk="semideviation", random_state=0).fit(X, y)
    own = row_losses(model, X, y)
    assert_allclose(own.mean(), log_loss(y, model.predict_proba(X)), rtol=1e-9)
    loss = "logistic" if n_classes == 2 else "softmax"
    assert_allclose(row_losses(model, X, y, loss=loss), own, rtol=1e-9)


def test_models_of_others_are_measured_by_the_loss_that_is_given(rows):
    X, y = rows
    line = LinearRegression().fit(X, y)
    assert_allclose(row_losses(line, X, y, loss="absolute_error"), np.abs(line.predict(X) - y))
    both = LinearRegression().fit(X, np.column_stack([y, 2 * y]))
    wrong = both.predict(X) - np.column_stack([y, 2 * y])
    losses = row_losses(both, X, np.column_stack([y, 2 * y]), loss="squared")
    assert_allclose(losses, 0.5 * (wrong**2).sum(axis=1))
    classifier = LogisticRegression().fit(X, y > 0)
    expected = log_loss(y > 0, classifier.predict_proba(X))
    assert_allclose(row_losses(classifier, X, y > 0, loss="logistic").mean(), expected, rtol=1e-9)


def test_losses_that_cannot_be_known_are_refused(rows):
    X, y = rows
    with pytest.raises(ValueError, match="no loss of its own"):
        row_losses(KernelRidge().fit(X, y), X, y)
    with pytest.raises(ValueError, match="no loss of its own, or is not fitted"):
        row_losses(KernelRegressor(), X, y)
    with pytest.raises(ValueError, match="scores that are not the predictions"):
        row_losses(KernelRidge().fit(X, y), X, y, loss="poisson")
    with pytest.raises(ValueError, match="has not learned: \\[7\\]"):
        row_losses(KernelClassifier().fit(X, y > 0), X, np.where(y > 1, 7, y > 0))


# -- the distribution of the losses -------------------------------------------------------------


def test_distribution_shows_the_share_of_rows_that_lose_as_much():
    losses = np.random.default_rng(1).exponential(size=1000)
    display = LossDistributionDisplay(losses=losses).plot(new_axes())
    shown = display.line_.get_xdata(), display.line_.get_ydata()
    for loss, share in zip(*shown, strict=True):
        assert_allclose(share, np.mean(losses >= loss))
    # From all rows to the worst one.
    assert (max(shown[1]), min(shown[1])) == (1.0, 1e-3)
    assert max(shown[0]) == losses.max()
    assert display.ax_.get_yscale() == "log"
    assert_allclose(display.mean_loss, losses.mean())
    assert display_tail(display) == tail_of(losses)[1:]


def display_tail(display):
    """Value at risk and CVaR by the places of their marks."""
    marks = {line.get_marker(): line.get_xdata()[0] for line in display.ax_.lines}
    return marks["o"], marks["D"]


def test_several_models_share_axes_with_a_colour_and_a_label_each(rows, fitted):
    X, y = rows
    ax = new_axes()
    mean = KernelRegressor(random_state=0).fit(X, y)
    displays = [
        LossDistributionDisplay.from_estimator(model, X, y, level=0.8, ax=ax)
        for model in (mean, fitted)
    ]
    assert len({display.line_.get_color() for display in displays}) == 2
    first, second = labels_of(ax)
    assert first.startswith("KernelRegressor: VaR ")
    assert second.startswith("CVaR(level=0.8): VaR ")
    words = [text.get_text() for text in ax.texts]
    assert words == ["worst 20 %", "VaR", "CVaR"], "the marks are named once"
    assert ax.get_xlabel() == "Squared loss of a row"


def test_predictions_and_estimators_give_the_same_picture(rows, fitted):
    X, y = rows
    one = LossDistributionDisplay.from_estimator(fitted, X, y, ax=new_axes())
    other = LossDistributionDisplay.from_predictions(y, fitted.predict(X), ax=new_axes())
    assert_allclose(one.losses, other.losses, rtol=1e-9)
    assert one.ax_.get_xlabel() == other.ax_.get_xlabel()
    absolute = LossDistributionDisplay.from_predictions(
        y, fitted.predict(X), loss="absolute_error", name="it", ax=new_axes(), linewidth=7.5
    )
    assert absolute.ax_.get_xlabel() == "Absolute error loss of a row"
    assert labels_of(absolute.ax_)[0].startswith("it: ")
    assert absolute.line_.get_linewidth() == 7.5


@pytest.mark.parametrize(
    ("losses", "log", "scale"),
    [
        ([1.0, 2.0, 3.0], None, "linear"),
        ([1.0, 2.0, 3000.0], None, "log"),
        ([-1.0, -2.0, 3000.0], None, "linear"),
        ([1.0, 2.0, 3000.0], False, "linear"),
        ([1.0, 2.0, 3.0], True, "log"),
    ],
)
def test_loss_axis_is_logarithmic_for_long_tails(losses, log, scale):
    ax = LossDistributionDisplay(losses=losses).plot(new_axes(), log=log).ax_
    assert ax.get_xscale() == scale
    LossDistributionDisplay(losses=[1.0, 2.0, 3.0]).plot(ax)
    assert ax.get_xscale() == scale, "another model must not change the axes"


@pytest.mark.parametrize("losses", [[0.0], [2.0], [0.0, 0.0, 0.0], np.zeros(1000)])
def test_degenerate_losses_are_drawn(losses):
    LossDistributionDisplay(losses=losses, unit="m").plot(new_axes()).figure_.canvas.draw()


# -- monitors -----------------------------------------------------------------------------------


def watched(n_records=120):
    t = np.arange(1, n_records + 1)
    return SimpleNamespace(
        n_samples=10 * t,
        loss=1.0 / t,
        model_order=t,
        monitors={
            "clipped_fraction": np.where(t % 2, 0.2, 0.0),
            "clamped_fraction": np.zeros(n_records),
            "inner_value": 2.0 + 1.0 / t,
            "value_at_risk": 5.0 - 1.0 / t,
        },
    )


def test_values_are_drawn_as_they_were_tracked():
    history = watched()
    display = MonitorDisplay.from_history(history, ax=new_axes())
    for line, name in zip(display.lines_, ("inner_value", "value_at_risk"), strict=True):
        assert_array_equal(line.get_xdata(), history.n_samples)
        assert_array_equal(line.get_ydata(), history.monitors[name])
    assert labels_of(display.ax_) == [
        "tracked inner value, at the end 2.008",
        "value at risk, at the end 4.992",
    ]


def test_shares_are_means_of_neighbouring_records_and_named_by_those_of_all_rows():
    history = watched()
    display = MonitorDisplay.from_history(history, kind="shares", ax=new_axes())
    assert labels_of(display.ax_) == ["clipped, 10 % of all rows", "clamped, 0 % of all rows"]
    clipped = display.lines_[0]
    assert len(clipped.get_xdata()) == 50
    assert clipped.get_xdata()[-1] == history.n_samples[-1]
    rows = np.diff(clipped.get_xdata(), prepend=0)
    assert_allclose(np.average(clipped.get_ydata(), weights=rows), 10.0)


@pytest.mark.parametrize("kind", ["values", "shares"])
def test_few_records_are_drawn_one_by_one(kind):
    display = MonitorDisplay.from_history(watched(1), kind=kind, ax=new_axes())
    assert [line.get_marker() for line in display.lines_] == ["o", "o"]


def test_monitors_of_an_estimator_name_its_loss(fitted):
    display = MonitorDisplay.from_estimator(fitted, ax=new_axes(), linewidth=7.5)
    assert display.ax_.get_ylabel() == "Value at risk (squared loss)"
    assert_allclose(
        display.lines_[0].get_ydata()[-1], fitted.history_.monitors["value_at_risk"][-1]
    )
    assert display.lines_[0].get_linewidth() == 7.5


def test_a_run_that_watches_nothing_is_refused(rows):
    mean = KernelRegressor(random_state=0).fit(*rows)
    with pytest.raises(ValueError, match=r"no values to draw.*Losses without a risk have none"):
        MonitorDisplay.from_estimator(mean)
    with pytest.raises(ValueError, match="`kind` must be"):
        MonitorDisplay(n_samples=[1], monitors={"value_at_risk": [1.0]}, kind="all")
    with pytest.raises(NotFittedError, match="learned nothing yet"):
        MonitorDisplay.from_estimator(KernelRegressor())


def test_the_learning_curve_of_a_risk_says_that_it_is_the_objective(fitted):
    label = LearningCurveDisplay.from_estimator(fitted, ax=new_axes()).ax_.get_ylabel()
    assert label.replace("\n", " ") == "Mean progressive objective (CVaR of the squared loss)"


def test_large_numbers_stand_at_the_ticks():
    display = LearningCurveDisplay(n_samples=[1, 2], loss=[3e9, 2e9]).plot(new_axes())
    display.figure_.canvas.draw()
    assert display.ax_.yaxis.get_offset_text().get_text() == ""
    assert "2e9" in [text.get_text() for text in display.ax_.get_yticklabels()]
