"""Pictures of scores: ROC curves and scores against targets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelRanker, NoveltyDetector
from mercer.display import DecisionSurfaceDisplay, RankingDisplay, ROCCurveDisplay

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


# -- ROC curves ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_a_roc_curve_is_scikit_learns(rows, ranker, weighted):
    X, y = rows
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size) if weighted else None
    display = ROCCurveDisplay.from_estimator(ranker, X, y, sample_weight=weights, ax=new_axes())
    scores = ranker.decision_function(X)
    fpr, tpr, _ = roc_curve(y == "yes", scores, sample_weight=weights)
    assert_array_equal(display.fpr, fpr)
    assert_array_equal(display.tpr, tpr)
    area = roc_auc_score(y == "yes", scores, sample_weight=weights)
    assert_allclose(display.roc_auc, area, rtol=1e-12)
    assert labels_of(display.ax_) == ["chance", f"KernelRanker, area {area:.4g}"]
    assert display.ax_.get_xlabel() == "False positive rate (positive: yes)"


def test_the_other_class_may_be_the_positive_one(rows, ranker):
    usual = ROCCurveDisplay.from_estimator(ranker, *rows, ax=new_axes())
    other = ROCCurveDisplay.from_estimator(ranker, *rows, pos_label="no", ax=new_axes())
    # Classes and scores change places together.
    assert_allclose(other.roc_auc, usual.roc_auc, rtol=1e-12)
    assert other.pos_label == "no"


def test_curves_of_several_models_share_axes_and_one_chance_line(rows, ranker):
    ax = new_axes()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(*rows)
    novelty = NoveltyDetector(random_state=0).fit(rows[0])
    for model in (ranker, pipeline, novelty):
        ROCCurveDisplay.from_estimator(model, *rows, ax=ax)
    assert [label.split(",")[0] for label in labels_of(ax)] == [
        "chance",
        "KernelRanker",
        "LogisticRegression",
        "NoveltyDetector",
    ]
    assert len({line.get_color() for line in ax.lines}) == 4


def test_a_long_curve_is_drawn_with_few_points():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    display = ROCCurveDisplay.from_predictions(y, y + rng.standard_normal(y.size), ax=new_axes())
    assert display.fpr.size > 5000
    assert len(display.line_.get_xdata()) <= 400
    assert (display.line_.get_xdata()[-1], display.line_.get_ydata()[-1]) == (1.0, 1.0)


def test_the_area_is_computed_where_it_is_not_given():
    assert ROCCurveDisplay(fpr=[0.0, 0.0, 1.0], tpr=[0.0, 0.5, 1.0]).roc_auc == 0.75


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ROCCurveDisplay(fpr=[0.0, 1.0], tpr=[0.0]), "one length"),
        (lambda: ROCCurveDisplay.from_predictions([1, 2, 3], [1, 2, 3]), "3 value"),
        (lambda: ROCCurveDisplay.from_predictions([1, 1], [1, 2]), "1 value"),
        (lambda: ROCCurveDisplay.from_predictions([0, 1], [1, 2], pos_label=5), "pos_label"),
    ],
)
def test_what_has_no_roc_curve_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_scores_of_many_classes_have_no_roc_curve(rows):
    X, _ = rows
    model = LogisticRegression().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="3 scores a row"):
        ROCCurveDisplay.from_estimator(model, X, np.arange(len(X)) % 3)


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
    for display in (RankingDisplay, ROCCurveDisplay):
        with pytest.raises(AttributeError, match="decision_function"):
            display.from_estimator(model, *rows)


# -- the function -------------------------------------------------------------------------------


def test_the_surface_of_a_ranking_has_no_boundary(rows, ranker):
    display = DecisionSurfaceDisplay.from_estimator(ranker, *rows, ax=new_axes())
    assert display.classes is None
    grid = np.column_stack([display.x0, np.full(display.x0.size, display.x1[0])])
    assert_allclose(display.response[0], ranker.decision_function(grid), rtol=1e-10)
