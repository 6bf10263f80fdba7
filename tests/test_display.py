"""Displays draw what they are given, name their axes and refuse what they cannot draw."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from mercer.display import (
    DecisionSurfaceDisplay,
    LearningCurveDisplay,
    ModelOrderDisplay,
    RegressionCurveDisplay,
)

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


def new_axes():
    return Figure().subplots()


def history(n_records=20):
    t = np.arange(1, n_records + 1)
    return SimpleNamespace(
        n_samples=64 * t,
        loss=0.2 + 1.0 / t,
        model_order=np.minimum(5 * t, 60),
        compression_error=1e-3 / t,
        step_size=1 / np.sqrt(t),
    )


def with_run(model, dictionary=None):
    model.history_ = history()
    if dictionary is not None:
        model.dictionary_ = dictionary
    return model


def plane(n_classes, n_rows=90, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    angle = 2 * np.pi * y / n_classes
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.3 * rng.normal(size=(n_rows, 2)), y


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def offsets(collection):
    return np.asarray(collection.get_offsets())


@pytest.mark.parametrize("display", [LearningCurveDisplay, ModelOrderDisplay])
class TestPicturesOfARun:
    def test_estimator_and_pipeline_and_history_draw_the_same_curve(self, display):
        model = with_run(LogisticRegression(), np.zeros((3, 2)))
        run = model.history_
        pipeline = make_pipeline(StandardScaler(), model)
        shown = [display.from_estimator(m, ax=new_axes()) for m in (model, pipeline)]
        shown.append(display.from_history(run, ax=new_axes()))
        for one in shown:
            assert_array_equal(one.n_samples, run.n_samples)
            for line, expected in zip(one.ax_.lines, shown[0].ax_.lines, strict=True):
                assert_array_equal(line.get_ydata(), expected.get_ydata())
            assert one.ax_.get_xlabel() == "Rows learned"
            assert one.figure_ is one.ax_.figure

    def test_draws_into_the_given_axes_and_passes_line_settings_on(self, display):
        ax = new_axes()
        shown = display.from_history(history(), ax=ax, linewidth=7.5)
        assert shown.ax_ is ax
        assert 7.5 in [line.get_linewidth() for line in ax.lines]

    def test_opens_a_pyplot_figure_without_axes(self, display):
        import matplotlib.pyplot as plt

        shown = display.from_history(history())
        try:
            assert plt.fignum_exists(shown.figure_.number)
        finally:
            plt.close(shown.figure_)

    def test_a_single_record_is_visible(self, display):
        shown = display.from_history(history(1), ax=new_axes())
        assert "o" in [line.get_marker() for line in shown.ax_.lines]

    def test_unfitted_estimator_is_refused(self, display):
        with pytest.raises(NotFittedError, match="learned nothing yet"):
            display.from_estimator(LogisticRegression())

    def test_empty_history_is_refused(self, display):
        with pytest.raises(ValueError, match="holds no record"):
            display.from_history(history(0))

    def test_unequal_columns_are_refused(self, display):
        column = "loss" if display is LearningCurveDisplay else "model_order"
        with pytest.raises(ValueError, match=r"equally long.*\(3,\)"):
            display(n_samples=[1, 2, 3], **{column: [1.0, 2.0]})


def test_running_loss_is_the_mean_over_all_rows():
    rng = np.random.default_rng(1)
    window_rows = rng.integers(1, 9, 12)
    losses = [rng.random(n) for n in window_rows]
    display = LearningCurveDisplay(
        n_samples=np.cumsum(window_rows), loss=[window.mean() for window in losses]
    )
    expected = [np.concatenate(losses[: i + 1]).mean() for i in range(12)]
    assert_allclose(display.running_loss, expected, rtol=1e-12)


def test_running_loss_skips_records_without_a_loss():
    display = LearningCurveDisplay(n_samples=[10, 20, 30], loss=[np.nan, 2.0, 4.0])
    assert_array_equal(display.running_loss, [np.nan, 2.0, 3.0])
    display.plot(new_axes())


def test_learning_curve_without_any_loss_is_refused():
    with pytest.raises(ValueError, match="no finite loss in 2 records"):
        LearningCurveDisplay(n_samples=[1, 2], loss=[np.nan, np.inf])


@pytest.mark.parametrize(
    ("loss", "log", "scale"),
    [
        ([1.0, 0.5], None, "linear"),
        ([500.0, 0.5], None, "log"),
        ([500.0, 0.0], None, "linear"),
        ([500.0, 0.5], False, "linear"),
        ([1.0, 0.5], True, "log"),
    ],
)
def test_loss_axis_is_logarithmic_where_the_loss_spans_decades(loss, log, scale):
    display = LearningCurveDisplay(n_samples=[1, 2], loss=loss).plot(new_axes(), log=log)
    assert display.ax_.get_yscale() == scale


@pytest.mark.parametrize(
    ("loss", "label"),
    [
        ("auto", "Mean progressive loss"),
        ("squared_hinge", "Mean progressive squared hinge loss"),
        (type("SquaredHinge", (), {})(), "Mean progressive squared hinge loss"),
    ],
)
def test_loss_axis_names_the_loss_of_the_estimator(loss, label):
    model = SimpleNamespace(history_=history(), loss=loss)
    assert LearningCurveDisplay.from_estimator(model, ax=new_axes()).ax_.get_ylabel() == label


@pytest.mark.parametrize(
    ("extra", "unit"),
    [({"dictionary_": np.zeros((2, 2))}, "dictionary points"), ({}, "random features")],
)
def test_model_order_says_what_it_counts(extra, unit):
    model = SimpleNamespace(history_=history(), **extra)
    display = ModelOrderDisplay.from_estimator(model, ax=new_axes())
    assert display.ax_.get_ylabel() == f"Model order ({unit})"
    assert display.ax_.texts[0].get_text() == "60"


@pytest.mark.parametrize("n_classes", [2, 3, 5, 9])
def test_surface_marks_every_class_and_rings_the_dictionary(n_classes):
    X, y = plane(n_classes)
    model = with_run(LogisticRegression().fit(X, y), X[:7])
    display = DecisionSurfaceDisplay.from_estimator(model, X, y, grid_resolution=40, ax=new_axes())
    labels = legend_of(display.ax_)
    assert set(map(str, range(n_classes))) | {"dictionary point"} <= set(labels)
    assert ("score ±1" in labels) == (n_classes == 2)
    rings = next(c for c in display.ax_.collections if c.get_label() == "dictionary point")
    assert_array_equal(offsets(rings), X[:7])
    drawn = sum(len(offsets(c)) for c in display.ax_.collections if c.get_label().isdigit())
    assert drawn == len(X)


def test_two_classes_with_one_score_each_look_as_with_one_score():
    X, y = plane(2)
    model = LogisticRegression().fit(X, y)

    class TwoScores(LogisticRegression):
        def decision_function(self, X):
            score = super().decision_function(X)
            return np.column_stack([np.zeros(len(score)), score])

    twin = TwoScores().fit(X, y)
    one, two = (
        DecisionSurfaceDisplay.from_estimator(m, X, grid_resolution=20, ax=new_axes()).response
        for m in (model, twin)
    )
    assert_allclose(one, two, rtol=1e-12)


def test_surface_response_lies_on_its_grid():
    X, y = plane(2)
    model = LogisticRegression().fit(X, y)
    display = DecisionSurfaceDisplay.from_estimator(model, X, grid_resolution=15, ax=new_axes())
    i, j = 4, 11
    point = [[display.x0[j], display.x1[i]]]
    assert_allclose(display.response[i, j], model.decision_function(point)[0], rtol=1e-12)


def test_surface_of_a_pipeline_rings_the_dictionary_in_the_units_of_the_input():
    X, y = plane(3)
    X = 100 + 20 * X
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    pipeline[-1].dictionary_ = pipeline[:-1].transform(X[:4])
    display = DecisionSurfaceDisplay.from_estimator(
        pipeline, X, y, grid_resolution=20, ax=new_axes()
    )
    assert_allclose(display.dictionary, X[:4], rtol=1e-12)


def test_surface_takes_the_names_of_a_data_frame():
    X, y = plane(2)
    frame = pd.DataFrame(X, columns=["width in $", "height in $"])
    model = LogisticRegression().fit(frame, y)
    display = DecisionSurfaceDisplay.from_estimator(
        model, frame, y, grid_resolution=20, ax=new_axes()
    )
    display.figure_.canvas.draw()  # "$ … $" must not be read as a formula
    assert display.ax_.get_xlabel() == r"width in \$"


def test_surface_of_a_regressor_has_a_scale():
    X, _ = plane(2)
    model = with_run(KernelRidge(kernel="rbf").fit(X, X[:, 0]), X[:3])
    display = DecisionSurfaceDisplay.from_estimator(
        model, X, X[:, 0], grid_resolution=20, ax=new_axes()
    )
    assert "Prediction" in [ax.get_ylabel() for ax in display.figure_.axes]


def test_surface_of_a_novelty_detector_shows_inliers_and_outliers():
    X, _ = plane(2)
    model = OneClassSVM(nu=0.2).fit(X)
    display = DecisionSurfaceDisplay.from_estimator(
        model, X, model.predict(X), grid_resolution=20, ax=new_axes()
    )
    assert legend_of(display.ax_) == ["outlier", "inlier"]


def test_large_data_are_drawn_as_an_even_sample():
    X, y = plane(2, n_rows=5000)
    model = LogisticRegression().fit(X, y)
    display = DecisionSurfaceDisplay.from_estimator(
        model, X, y, grid_resolution=20, max_points=300, ax=new_axes()
    )
    assert sum(len(offsets(c)) for c in display.ax_.collections if c.get_label().isdigit()) == 300


def test_surface_of_constant_score_is_drawn():
    display = DecisionSurfaceDisplay(
        x0=[0, 1], x1=[0, 1], response=np.ones((2, 2)), classes=["a", "b"]
    )
    display.plot(new_axes())


@pytest.mark.parametrize(
    ("display", "n_inputs"), [(DecisionSurfaceDisplay, 3), (RegressionCurveDisplay, 2)]
)
def test_other_numbers_of_inputs_are_refused(display, n_inputs):
    X = np.random.default_rng(0).normal(size=(20, n_inputs))
    model = KernelRidge().fit(X, X[:, 0])
    with pytest.raises(ValueError, match=f"the model has {n_inputs} and"):
        display.from_estimator(model, X, X[:, 0])


def test_surface_of_a_single_class_or_several_outputs_is_refused():
    X, _ = plane(2)
    lone = SimpleNamespace(classes_=["only"], n_features_in_=2)
    with pytest.raises(ValueError, match="only class 'only'"):
        DecisionSurfaceDisplay.from_estimator(lone, X)
    with pytest.raises(ValueError, match="one output, but the model has 2"):
        DecisionSurfaceDisplay.from_estimator(KernelRidge().fit(X, X), X)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3, 2)])
def test_response_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match="`response`"):
        DecisionSurfaceDisplay(
            x0=np.arange(3), x1=np.arange(2), response=np.zeros(shape), classes=[0, 1]
        )


def line_data(n_outputs=1, n_rows=60):
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (n_rows, 1))
    y = np.sin(X) + np.arange(n_outputs) + 0.1 * rng.normal(size=(n_rows, n_outputs))
    return X, y if n_outputs > 1 else y[:, 0]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_regression_curve_draws_a_curve_for_each_output(n_outputs):
    X, y = line_data(n_outputs)
    model = with_run(KernelRidge(kernel="rbf").fit(X, y), X[:5])
    display = RegressionCurveDisplay.from_estimator(model, X, y, ax=new_axes())
    assert len(display.lines_) == n_outputs
    predicted = np.reshape(model.predict(display.x[:, None]), (-1, n_outputs))
    for line, curve in zip(display.lines_, predicted.T, strict=True):
        assert_array_equal(line.get_ydata(), curve)
    marks = next(m for m in display.ax_.lines if m.get_label() == "dictionary point")
    assert_array_equal(marks.get_xdata(), X[:5, 0])
    assert sum(len(offsets(c)) for c in display.ax_.collections) == y.size


def test_regression_curves_of_quantiles_are_named_by_their_levels():
    X, y = line_data(3)
    model = KernelRidge(kernel="rbf").fit(X, y)
    model.loss = SimpleNamespace(levels=[0.1, 0.5, 0.9])
    display = RegressionCurveDisplay.from_estimator(model, X, y[:, 1], ax=new_axes())
    assert legend_of(display.ax_) == ["data", "quantile 0.1", "quantile 0.5", "quantile 0.9"]


def test_regression_curve_shows_the_band_of_a_gaussian_process():
    X, y = line_data()
    model = GaussianProcessRegressor(alpha=0.01, optimizer=None).fit(X, y)
    display = RegressionCurveDisplay.from_estimator(model, X, y, ax=new_axes())
    _, deviation = model.predict(display.x[:, None], return_std=True)
    assert_array_equal(display.standard_deviation, deviation)
    assert "± 2 std. dev." in legend_of(display.ax_)


def test_regression_curve_takes_the_names_of_pandas_data():
    X, y = line_data()
    frame, series = pd.DataFrame(X, columns=["hours"]), pd.Series(y, name="marks")
    model = KernelRidge(kernel="rbf").fit(frame, series)
    pipeline = make_pipeline(StandardScaler(), model).fit(frame, series)
    display = RegressionCurveDisplay.from_estimator(pipeline, frame, series, ax=new_axes())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("hours", "marks")


def test_regression_curve_needs_a_label_for_each_curve():
    with pytest.raises(ValueError, match="one column per label"):
        RegressionCurveDisplay(x=[0, 1], prediction=[[1, 2], [3, 4]], labels=["one"])
