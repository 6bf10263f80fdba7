"""A report is one safe, deterministic, well-formed page, and its figures fit the model."""

import os
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import confusion_matrix
from sklearn.svm import OneClassSVM

from mercer import GaussianProcessRegressor, KernelClassifier
from mercer.expansions import RandomFeatures
from mercer_app.report import class_figures, figures_for, quantity_figures, write_report

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

VOID = {"meta", "br", "img", "hr", "wbr", "link", "input"}
HOSTILE = '<script>alert("x")</script>&$a_1$ "quoted" onload=\'1\' -->'


class Page(HTMLParser):
    """Check that tags nest, and collect what a browser would act on."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.words, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def values(self, name):
        return [value for _, n, value in self.attributes if n == name]


def history(n_records=40, loss=0.5):
    t = np.arange(1, n_records + 1)
    return SimpleNamespace(
        n_samples=64 * t,
        loss=loss + 1.0 / t,
        model_order=np.minimum(5 * t, 60),
        compression_error=1e-3 / t,
        step_size=1 / np.sqrt(t),
    )


def with_run(model):
    model.history_ = history()
    return model


def rows(n_features, n_classes=2, n_rows=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = np.digitize(X[:, 0], np.linspace(-1, 1, n_classes + 1)[1:-1])
    return X, y


def report_text(path, **changes):
    content = {
        "title": "A run",
        "summary": {"accuracy": 0.987654, "rows": 123456, "model order": 60},
        "history": history(),
        "settings": {"loss": "logistic", "expansion": {"tolerance": 0.01, "max_size": None}},
        "evaluation": {"accuracy": 0.98, "per class": {"a": {"recall": 0.9}, "b": {"recall": 1.0}}},
        "notes": ["One column was constant."],
    } | changes
    write_report(path, **content)
    return path.read_text(encoding="utf-8")


def standard_figures(n_classes=2):
    X, y = rows(2, n_classes)
    return figures_for(with_run(LogisticRegression().fit(X, y)), X, y)


@pytest.fixture(scope="module")
def standard_text(tmp_path_factory):
    """A report with all figures of a classifier, which tests only read."""
    return report_text(tmp_path_factory.mktemp("page") / "r.html", figures=standard_figures())


def test_page_is_well_formed_and_complete(standard_text):
    text = standard_text
    page = Page(text)
    words = " ".join(page.words)
    for expected in (
        "0.9877",
        "123,456",
        "expansion.",
        "0.01",
        "One column was constant.",
        "recall",
    ):
        assert expected in words
    assert text.startswith("<!DOCTYPE html>")
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == page.tags.count("figure") == page.tags.count("figcaption")
    assert len(page.ids) == len(set(page.ids))


def test_page_asks_the_network_for_nothing_and_runs_nothing(standard_text):
    text = standard_text
    page = Page(text)
    assert "http:" not in text
    assert "https:" not in text
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert "@import" not in text
    assert re.findall(r"url\((?!#f\d)", text) == []
    for name in ("src", "href", "xlink:href"):
        assert all(value.startswith(("#", "data:image/png")) for value in page.values(name))
    assert any("default-src 'none'" in str(value) for value in page.values("content"))


def test_numbers_of_the_summary_do_not_break(tmp_path):
    write_report(tmp_path / "r.html", title="t", summary={"MSE": -123456789012.0})
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<dd>-123,456,789,012</dd>" in page
    # A tile is as wide as its number: it is in a flexible row, and text does not break anywhere.
    assert ".summary { display: flex; flex-wrap: wrap;" in page
    assert ".summary dd { overflow-wrap: normal; }" in page


def test_references_inside_figures_lead_somewhere(standard_text):
    text = standard_text
    page = Page(text)
    links = [v for v in page.values("xlink:href") if v.startswith("#")]  # others are pixels
    used = [v[1:] for v in links] + re.findall(r"url\(#([^)]*)\)", text)
    assert used
    assert set(used) <= set(page.ids)


def test_every_text_is_escaped(tmp_path):
    figure = Figure()
    figure.subplots().set_title(HOSTILE.replace("$", r"\$"))
    figure.set_label(HOSTILE)
    text = report_text(
        tmp_path / "r.html",
        title=HOSTILE,
        summary={HOSTILE: HOSTILE},
        settings={HOSTILE: {HOSTILE: HOSTILE}},
        evaluation={HOSTILE: HOSTILE, f"2{HOSTILE}": {HOSTILE: {HOSTILE: HOSTILE}}},
        figures=[(HOSTILE, figure)],
        notes=[HOSTILE],
    )
    page = Page(text)
    assert "script" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "".join(page.words).count('alert("x")') >= 11
    assert HOSTILE in page.values("aria-label")


def test_hostile_class_and_column_names_are_drawn_as_text(tmp_path):
    X, y = rows(2)
    names = np.array([HOSTILE, "$\\frac$"])
    figures = figures_for(with_run(LogisticRegression().fit(X, names[y])), X, names[y])
    page = Page(report_text(tmp_path / "r.html", figures=figures))
    assert "script" not in page.tags
    assert "$\\frac$" in page.words


def test_names_that_the_drawing_font_lacks_raise_no_warning(tmp_path):
    X, y = rows(2)
    names = np.array(["猫", "犬"])
    figures = figures_for(with_run(LogisticRegression().fit(X, names[y])), X, names[y])
    assert "猫" in Page(report_text(tmp_path / "r.html", figures=figures)).words


def test_same_run_gives_the_same_bytes(tmp_path):
    first = report_text(tmp_path / "1.html", figures=standard_figures(3))
    with matplotlib.rc_context({"lines.linewidth": 9, "savefig.bbox": "tight", "font.size": 20}):
        second = report_text(tmp_path / "2.html", figures=standard_figures(3))
    assert first == second


def test_figures_follow_the_theme_and_foreign_ones_stand_on_white(tmp_path):
    foreign = Figure()
    foreign.subplots().plot([1, 2])
    text = report_text(tmp_path / "r.html", figures=[*standard_figures()[:1], ("Other", foreign)])
    themed, plain = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert "var(--ink)" in themed
    assert 'class="plain"' in plain
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_a_large_figure_becomes_pixels(tmp_path):
    figure = Figure()
    figure.subplots().scatter(*np.random.default_rng(0).normal(size=(2, 20_000)))
    text = report_text(tmp_path / "r.html", figures=[("Cloud", figure)])
    assert 'src="data:image/png;base64,' in text
    assert len(text) < 500_000
    assert ("img", "alt", "Cloud") in Page(text).attributes


def test_size_is_bounded_for_many_rows(tmp_path):
    X, y = rows(2, n_rows=50_000)
    figures = figures_for(with_run(LogisticRegression().fit(X[:200], y[:200])), X, y)
    text = report_text(tmp_path / "r.html", history=history(1024), figures=figures)
    assert len(text) < 1_000_000


def test_history_is_thinned_to_first_and_last_and_some_between(tmp_path):
    text = report_text(tmp_path / "r.html", history=history(1000), evaluation=None, settings=None)
    body = text[text.index("<h3>The run</h3>") :]
    assert body.count('<th scope="row">') == 12
    assert '<th scope="row">64<' in body
    assert '<th scope="row">64,000<' in body


def test_report_of_little_has_no_empty_sections(tmp_path):
    write_report(tmp_path / "r.html", title="Bare", summary={})
    assert Page((tmp_path / "r.html").read_text(encoding="utf-8")).tags.count("h2") == 1


def test_failed_write_leaves_the_old_report_and_no_scraps(tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        report_text(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["r.html"]


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        report_text(tmp_path / "nowhere" / "r.html")


CLASSIFIER = ["Learning", "Model order", "Confusion"]


@pytest.mark.parametrize(
    ("model", "n_features", "n_classes", "expected"),
    [
        (LogisticRegression(), 4, 2, [*CLASSIFIER, "ROC", "Reliability"]),
        (LogisticRegression(), 2, 2, [*CLASSIFIER, "ROC", "Reliability", "The learned"]),
        (LogisticRegression(), 4, 3, [*CLASSIFIER, "Reliability"]),
        (LogisticRegression(), 4, 20, [*CLASSIFIER, "Reliability"]),
        (RidgeClassifier(), 2, 3, [*CLASSIFIER, "The learned"]),
        (RidgeClassifier(), 1, 2, [*CLASSIFIER, "ROC"]),
    ],
)
def test_figures_of_a_classifier(model, n_features, n_classes, expected, tmp_path):
    X, y = rows(n_features, n_classes)
    figures = figures_for(with_run(model.fit(X, y)), X, y)
    assert_captions(figures, expected)
    if (n_features, n_classes) not in ((4, 2), (4, 3)):  # whose figures are all among the others'
        Page(report_text(tmp_path / "r.html", figures=figures[2:]))  # those of a run are above


@pytest.mark.parametrize(
    ("n_features", "n_outputs", "function"),
    [(1, 1, True), (1, 3, True), (2, 1, True), (2, 3, False), (5, 1, False), (5, 12, False)],
)
def test_figures_of_a_regressor(n_features, n_outputs, function, tmp_path):
    X, _ = rows(n_features)
    y = X[:, 0] if n_outputs == 1 else np.outer(X[:, 0], np.ones(n_outputs))
    model = with_run(KernelRidge(kernel="rbf").fit(X, y))
    expected = ["Learning", "Model order", *REGRESSOR]
    # Several quantiles are several outputs for one target.
    for truth in (y,) if n_outputs == 1 else (y, X[:, 0]):
        figures = figures_for(model, X, truth)
        assert_captions(figures, expected + ["The learned"] * function)
    if (n_features, n_outputs) in ((1, 3), (2, 1), (5, 12)):  # together all kinds of figures
        Page(report_text(tmp_path / "r.html", figures=figures[2:]))  # those of a run are above


@pytest.mark.parametrize("n_classes", [2, 3, 14, 20])
def test_a_confusion_matrix_has_counts_and_shades_of_shares(n_classes):
    rng = np.random.default_rng(0)
    truth, said = rng.integers(n_classes, size=(2, 3000))
    counts = confusion_matrix(truth, said)
    (_, figure), *_ = class_figures(truth, said)
    ax = figure.axes[0]
    (image,) = ax.images
    assert_allclose(image.get_array(), counts / counts.sum(axis=1, keepdims=True))
    assert image.get_clim() == (0.0, 1.0)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ([f"{n:,}" for n in counts.ravel()] if n_classes <= 14 else [])
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ([str(k) for k in range(n_classes)] if n_classes <= 14 else [])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Predicted class", "True class")


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_ideal_line_and_the_points_of_each_output_are_named_once(n_outputs):
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 50, n_outputs))
    (_, figure), *_ = quantity_figures(truth, predicted)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    points = ["row"] if n_outputs == 1 else [f"output {j}" for j in range(n_outputs)]
    assert sorted(labels) == sorted(["ideal", *points])


REGRESSOR = ["True against predicted", "Errors of held-out rows over", "Errors of held-out"]


def test_figures_of_quantities_show_every_row_and_what_depends_on_the_prediction():
    """The numbers drawn are those of the rows."""
    rng = np.random.default_rng(0)
    predicted = rng.uniform(0.0, 10.0, size=600)
    truth = predicted + 0.3 * predicted * rng.normal(size=600)
    against, over, spread = (figure for _, figure in quantity_figures(truth, predicted, of="x"))
    for figure, y in ((against, truth), (over, predicted - truth)):
        (cloud,) = [c for c in figure.axes[0].collections if len(c.get_offsets()) == 600]
        assert_allclose(cloud.get_offsets(), np.column_stack([predicted, y]))
    assert sum(p.get_data().values.sum() for p in spread.axes[0].patches) == 600
    said = re.search(r"spans (\S+) at the smallest predictions and (\S+) at", over.get_label())
    assert float(said[2]) > 5.0 * float(said[1])
    (median,) = [x for x in over.axes[0].lines if x.get_label() == "median of neighbours"]
    assert np.all(np.diff(median.get_xdata()) > 0.0)


def test_figures_of_quantiles_show_how_many_rows_are_below():
    truth = np.arange(100.0)
    predicted = np.column_stack([np.full(100, 89.5), np.full(100, 9.5)])
    figures = quantity_figures(truth, predicted, labels=["a", "b"], levels=[0.9, 0.2])
    caption, figure = figures[-1]
    assert caption == "Reliability of the quantiles: held-out rows below them"
    assert "differ by at most 0.1." in figure.get_label()
    model = figure.axes[0].lines[-1]
    assert_allclose(np.column_stack(model.get_data()), [[0.2, 0.1], [0.9, 0.9]])
    assert len(quantity_figures(truth, predicted, labels=["a", "b"])) == 3


@pytest.mark.parametrize(
    ("truth", "predicted", "message"),
    [
        ([], [], "at least one"),
        ([1, 2], [1], "same rows"),
        (np.ones((3, 2)), np.ones((3, 3)), "3 c"),
    ],
)
def test_figures_of_quantities_need_rows_that_belong_together(truth, predicted, message):
    with pytest.raises(ValueError, match=message):
        quantity_figures(truth, predicted)


@pytest.mark.parametrize("constant", [0.0, 1e6])
def test_figures_of_equal_predictions_are_drawn(constant, tmp_path):
    truth = constant + np.arange(40.0) % 2
    for some in (truth, np.full(40, constant)):
        figures = quantity_figures(some, np.full(40, constant))
        Page(report_text(tmp_path / "r.html", figures=figures))


def test_figures_of_a_novelty_detector():
    X, _ = rows(2)
    figures = figures_for(with_run(OneClassSVM().fit(X)), X)
    assert_captions(figures, ["Learning", "Model order", "Scores", "The learned"])


def assert_captions(figures, expected):
    captions = [caption for caption, _ in figures]
    assert len(captions) == len(expected)
    assert all(c.startswith(e) for c, e in zip(captions, expected, strict=True)), captions
    assert all(figure.get_label() for _, figure in figures)


def test_figures_need_no_data_and_leave_no_figure_open():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    assert_captions(figures_for(with_run(KernelRidge())), ["Learning", "Model order"])
    standard_figures()
    assert plt.get_fignums() == before


def test_a_run_without_losses_has_no_learning_curve():
    model = SimpleNamespace(history_=history(loss=np.nan))
    assert_captions(figures_for(model), ["Model order"])


def test_held_out_rows_of_one_class_are_no_obstacle():
    X, y = rows(2)
    model = with_run(LogisticRegression().fit(X, y))
    figures = figures_for(model, X[y == 1], y[y == 1])
    assert_captions(figures, [*CLASSIFIER, "Reliability", "The learned"])


def test_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        figures_for(LogisticRegression())


def test_figures_of_a_gaussian_process():
    X, _ = rows(1)
    model = GaussianProcessRegressor(noise=0.01, n_features=64, random_state=0).fit(X, X[:, 0])
    assert_captions(figures_for(model), [])
    expected = [*REGRESSOR, "Reliability of the intervals", "The learned"]
    assert_captions(figures_for(model, X, X[:, 0]), expected)


def test_figures_of_random_features_show_no_dictionary():
    X, y = rows(2)
    model = KernelClassifier(expansion=RandomFeatures(64)).fit(X, y)
    captions, figures = zip(*figures_for(model, X, y), strict=True)
    assert captions[-1] == "The learned function"
    assert "random features" in figures[1].get_label()
    assert not any("dictionary" in figure.get_label() for figure in figures)
