"""The picture of a stream: what is drawn of losses, changes and weights, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelClassifier, KernelRegressor
from mercer.display import LearningCurveDisplay, ModelOrderDisplay, MonitorDisplay, StreamDisplay
from mercer.display._runs import _apart
from mercer.expansions import KOMP, Stream
from mercer.streams import Mixture

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

SMALL = Stream(n_features=16, points=10)


def two_axes():
    return Figure().subplots(2, 1, sharex=True)


def run(n_records, n_ways=3, seed=0):
    """A history: rows, losses and weights of each record."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_ways), n_records)
    return {
        "n_samples": np.cumsum(rng.integers(1, 9, n_records)),
        "loss": rng.exponential(size=n_records),
        "weights": {f"way {i}": column for i, column in enumerate(weights.T)},
    }


def fitted(n=60, classes=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] - X[:, 1]
    if classes:
        return KernelClassifier(expansion=SMALL).partial_fit(X, y > 0.0)
    return KernelRegressor(expansion=SMALL).partial_fit(X, y)


class TestWindows:
    @pytest.mark.parametrize("n_records", [1, 2, 99, 100, 101, 1023, 5000])
    def test_are_means_over_rows_of_neighbouring_records(self, n_records):
        given = run(n_records)
        display = StreamDisplay(**given)
        assert len(display.ends) == min(n_records, 100)
        assert display.ends[-1] == given["n_samples"][-1]
        # By hand: every row has the loss of its record.
        rows = np.diff(given["n_samples"], prepend=0)
        of_rows = np.repeat(given["loss"], rows)
        starts = np.concatenate([[0], display.ends[:-1]]).astype(int)
        ends = display.ends.astype(int)
        for start, end, mean in zip(starts, ends, display.window_loss, strict=True):
            assert mean == pytest.approx(of_rows[start:end].mean())
        for name, column in given["weights"].items():
            drawn = np.sum(display.window_weights[name] * np.diff(display.ends, prepend=0.0))
            assert drawn == pytest.approx(np.sum(column * rows))

    @pytest.mark.parametrize("n_records", [1, 2, 700])
    def test_areas_stack_the_weights(self, n_records):
        display = StreamDisplay(**run(n_records)).plot(two_axes())
        assert len(display.areas_) == 3
        below = np.zeros(len(display.ends))
        for area, weights in zip(display.areas_, display.window_weights.values(), strict=True):
            (path,) = area.get_paths()
            # A band is as wide as the stream, and at the end of each window as high as its weight.
            for end, low, weight in zip(display.ends, below, weights, strict=True):
                inside = path.vertices[np.isclose(path.vertices[:, 0], end)]
                assert np.isclose(inside[:, 1], low).any()
                assert np.isclose(inside[:, 1], low + weight).any()
            below = below + weights
            assert path.vertices[:, 0].min() == 0.0
        assert_allclose(below, 1.0)
        assert display.weights_ax_.get_ylim() == (0.0, 1.0)
        assert display.weights_ax_.get_xlim() == (0.0, display.ends[-1])

    def test_losses_are_drawn_at_the_ends(self):
        display = StreamDisplay(**run(300), loss_name="squared loss").plot(two_axes())
        assert_array_equal(display.line_.get_xdata(), display.ends)
        assert_array_equal(display.line_.get_ydata(), display.window_loss)
        assert display.ax_.get_ylabel() == "Mean squared loss"
        assert display.weights_ax_.get_xlabel() == "Rows learned"
        assert display.ax_.get_xlim() == display.weights_ax_.get_xlim()
        assert display.line_.get_marker() == "None"
        assert StreamDisplay(**run(1)).plot(two_axes()).line_.get_marker() == "o"

    @pytest.mark.parametrize(("low", "scale"), [(0.5, "linear"), (1e-4, "log"), (0.0, "linear")])
    def test_losses_of_many_sizes_are_on_a_logarithmic_axis(self, low, scale):
        given = run(40) | {"loss": np.linspace(low, 1.0, 40)}
        assert StreamDisplay(**given).plot(two_axes()).ax_.get_yscale() == scale


class TestLabels:
    def test_are_of_the_last_weights_in_the_order_of_the_areas(self):
        given = run(900)
        display = StreamDisplay(**given).plot(two_axes())
        said = [label.get_text() for label in display.labels_]
        last = [f"{name} {100 * column[-1]:.0f} %" for name, column in given["weights"].items()]
        assert said == last
        colors = [area.get_facecolor()[0] for area in display.areas_]
        assert len(np.unique(colors, axis=0)) == 3
        for label, color in zip(display.labels_, colors, strict=True):
            assert_allclose(label.arrow_patch.get_edgecolor(), color)

    @pytest.mark.parametrize("n_ways", [1, 6, 14])
    def test_do_not_touch(self, n_ways):
        given = run(3, n_ways)
        for i, column in enumerate(given["weights"].values()):
            column[-1] = float(i == 0)  # all but one are 0
        display = StreamDisplay(**given).plot(two_axes())
        heights = np.array([label.xyann[1] for label in display.labels_])
        assert (heights >= 0.0).all()
        assert (heights <= 1.0).all()
        assert (np.diff(heights) > min(0.12, 0.99 / n_ways)).all()

    def test_places_are_the_nearest_with_gaps(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            wanted = np.sort(rng.uniform(0.2, 0.8, 4))
            found = _apart(wanted, 0.1)
            assert (np.diff(found) >= 0.1 - 1e-12).all()
            assert ((found >= 0.05) & (found <= 0.95)).all()
            # No other places with gaps that were tried are nearer.
            for _ in range(200):
                other = np.sort(found + 0.05 * rng.normal(size=4))
                if (np.diff(other) >= 0.1).all():
                    assert np.sum((other - wanted) ** 2) > np.sum((found - wanted) ** 2) - 1e-12

    def test_ways_that_have_not_started_have_none(self):
        model = KernelClassifier().learn_one([0.0], 0)
        display = StreamDisplay.from_estimator(model, axes=two_axes())
        assert display.labels_ == []
        assert [text.get_text() for text in display.weights_ax_.texts] == ["no way has started yet"]


class TestChanges:
    @pytest.mark.parametrize("changes", [[5], [5, 90, 91], list(range(3, 300, 2))])
    def test_are_marked_in_both_pictures(self, changes):
        display = StreamDisplay(**run(200), changes=changes).plot(two_axes())
        for lines in display.change_lines_:
            assert [segment[0][0] for segment in lines.get_segments()] == changes
            assert [segment[1][0] for segment in lines.get_segments()] == changes
        legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert str(len(changes)) in legend[1]

    def test_there_may_be_none(self):
        display = StreamDisplay(**run(200)).plot(two_axes())
        assert display.change_lines_ == []
        assert len(display.ax_.get_legend().get_texts()) == 1

    def test_learning_curves_mark_them(self):
        given = run(50)
        history = SimpleNamespace(
            n_samples=given["n_samples"], loss=given["loss"], changes=np.array([7, 30])
        )
        display = LearningCurveDisplay.from_history(history, ax=Figure().subplots())
        assert [segment[0][0] for segment in display.change_lines_.get_segments()] == [7, 30]
        history.changes = np.array([], dtype=np.int64)
        display = LearningCurveDisplay.from_history(history, ax=Figure().subplots())
        assert display.change_lines_ is None
        assert len(display.ax_.get_legend().get_texts()) == 2


class TestModels:
    @pytest.mark.parametrize("classes", [False, True])
    def test_an_estimator_its_history_and_a_pipeline_draw_the_same(self, classes):
        model = fitted(classes=classes)
        history = model.history_
        shown = [
            StreamDisplay.from_estimator(model, axes=two_axes()),
            StreamDisplay.from_estimator(make_pipeline(StandardScaler(), model), axes=two_axes()),
            StreamDisplay.from_history(history, axes=two_axes()),
        ]
        for display in shown:
            assert tuple(display.weights) == Mixture.kinds
            assert_array_equal(display.ends, history.n_samples)
            assert_allclose(display.window_loss, history.loss)
        name = "logistic loss" if classes else "squared loss"
        assert shown[0].ax_.get_ylabel() == f"Mean {name}"

    def test_a_figure_is_opened_without_axes(self):
        import matplotlib.pyplot as plt

        before = plt.get_fignums()
        display = StreamDisplay.from_estimator(fitted())
        assert len(plt.get_fignums()) == len(before) + 1
        display.figure_.canvas.draw()
        plt.close(display.figure_)

    @pytest.mark.parametrize("model", [KernelRegressor(), KernelRegressor(expansion=KOMP())])
    def test_other_models_are_refused(self, model):
        X = np.random.default_rng(0).normal(size=(60, 2))
        model.fit(X, X[:, 0])
        with pytest.raises(ValueError, match=r"expansion='stream'.*LearningCurveDisplay"):
            StreamDisplay.from_estimator(model)

    def test_what_cannot_be_drawn_is_refused(self):
        with pytest.raises(NotFittedError):
            StreamDisplay.from_estimator(KernelRegressor())
        with pytest.raises(ValueError, match="no weights of ways"):
            StreamDisplay(n_samples=[1], loss=[1.0], weights={})
        with pytest.raises(ValueError, match="equally long"):
            StreamDisplay(n_samples=[1, 2], loss=[1.0, 2.0], weights={"steps": [1.0]})
        with pytest.raises(ValueError, match="must be two matplotlib Axes"):
            StreamDisplay(**run(5)).plot([Figure().subplots()])

    def test_other_pictures_name_what_there_is(self):
        model = fitted()
        order = ModelOrderDisplay.from_estimator(model, ax=Figure().subplots())
        assert order.unit == "points and random features"
        watched = MonitorDisplay.from_estimator(model, ax=Figure().subplots())
        assert watched.ax_.get_ylabel() == "Tracked value (weight of ways)"
        assert set(watched.monitors) == set(Mixture.kinds)
