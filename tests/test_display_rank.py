"""Pictures of scores: ROC curves and scores against targets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import KernelRanker
from mercer.display import DecisionSurfaceDisplay, RankingDisplay

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


def new_axes():
    return Figure().subplots()


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(400) > 0.4, "yes", "no")


@pytest.fixture(scope="module")
def ranker(rows):
    return KernelRanker(random_state=0).fit(*rows)


# -- scores -------------------------------------------------------------------------------------


def test_two_classes_are_two_histograms(rows, ranker):
    X, y = rows
    display = RankingDisplay.from_estimator(ranker, X, y, ax=new_axes())
    n_no, n_yes = np.sum(y == "no"), np.sum(y == "yes")
    assert labels_of(display.ax_) == [f"no: {n_no} rows", f"yes: {n_yes} rows"]
    # Each class has a filled and a drawn outline, and its shares add up to 1.
    shares = [patch.get_data().values for patch in display.ax_.patches]
    assert len(shares) == 4
    assert_allclose([s.sum() for s in shares], 1.0, rtol=1e-12)
    assert display.ax_.get_xlabel() == "Score by KernelRanker"


def test_grades_are_boxes_in_their_order():
    y = np.repeat([3, 1, 2], 30)
    scores = 10.0 * y + np.tile(np.arange(30.0), 3)
    display = RankingDisplay.from_predictions(y, scores, ax=new_axes())
    ticks = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert ticks == ["1", "2", "3"]
    medians = [line.get_ydata()[0] for line in display.ax_.lines if line.get_linewidth() == 1.6]
    assert medians == [24.5, 34.5, 44.5]


def test_numbers_are_a_cloud_of_a_bounded_number_of_points():
    y = np.arange(5000.0)
    display = RankingDisplay.from_predictions(y, np.sqrt(y), ax=new_axes(), max_points=100)
    (cloud,) = display.ax_.collections
    points = np.asarray(cloud.get_offsets())
    assert points.shape == (100, 2)
    assert_allclose(points[:, 1], np.sqrt(points[:, 0]))


def test_scores_of_groups_are_compared_within_them():
    y, group = np.tile([0.0, 1.0, 2.0], 20), np.repeat(np.arange(20), 3)
    scores = y + 1000.0 * group
    display = RankingDisplay.from_predictions(y, scores, group=group, ax=new_axes())
    medians = [line.get_ydata()[0] for line in display.ax_.lines if line.get_linewidth() == 1.6]
    assert_allclose(medians, [-1.0, 0.0, 1.0], atol=1e-9)
    assert display.ax_.get_ylabel() == "Score minus the mean of its group"


def test_one_class_and_equal_scores_are_drawn():
    display = RankingDisplay.from_predictions([1, 1, 1], [2.0, 2.0, 2.0], ax=new_axes())
    assert labels_of(display.ax_) == ["1: 3 rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [1, 2], "scores": [1.0]}, "one entry a row"),
        ({"y": [1, 2], "scores": [1.0, np.nan]}, "finite"),
        ({"y": [], "scores": []}, "must be some"),
        ({"y": [1, 2], "scores": [1.0, 2.0], "group": [1]}, "one entry a row"),
        ({"y": [1, 2], "scores": [1.0, 2.0], "labels": ["a"]}, "2 values"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        RankingDisplay(**arguments)


def test_a_model_of_pairs_without_scores_says_so(rows):
    model = KernelRanker(pair_kernel="mlpk", pair_label="same", random_state=0).fit(*rows)
    with pytest.raises(AttributeError, match="decision_function"):
        RankingDisplay.from_estimator(model, *rows)


# -- the function -------------------------------------------------------------------------------


def test_the_surface_of_a_ranking_has_no_boundary(rows, ranker):
    display = DecisionSurfaceDisplay.from_estimator(ranker, *rows, ax=new_axes())
    assert display.classes is None
    grid = np.column_stack([display.x0, np.full(display.x0.size, display.x1[0])])
    assert_allclose(display.response[0], ranker.decision_function(grid), rtol=1e-10)
