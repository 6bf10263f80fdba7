"""Reports on rankings: their figures, what these say, and the page."""

import re
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from mercer import KernelRanker
from mercer.buffers import FIFO
from mercer.expansions import KOMP
from mercer.metrics import concordance
from mercer_app.cli import main
from mercer_app.report import figures_for

matplotlib = pytest.importorskip("matplotlib")

CURVE = "Learning curve: loss on the pairs of each row before learning them"
ORDER = "Model order: size of the model along the stream"

pytestmark = pytest.mark.usefixtures("few_evaluations")


def rows(n=400, n_inputs=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_inputs))
    worth = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)
    targets = {
        "classes": np.where(worth > 0.4, "good", "bad"),
        "grades": np.clip(np.round(worth + 1.0), 0, 3).astype(int),
        "numbers": worth,
    }
    return X, targets, rng.integers(0, 20, n)


def fit(target, *, group=False, **options):
    X, targets, groups = rows()
    return KernelRanker(random_state=0, **options).fit(
        X, targets[target], group=groups if group else None
    )


@pytest.mark.parametrize(
    ("target", "captions"),
    [
        ("classes", ["ROC curve for class good", "Scores of each class"]),
        ("grades", ["Scores of rows over their targets"]),
        ("numbers", ["Scores of rows over their targets"]),
    ],
)
def test_a_ranking_is_shown_by_its_scores(target, captions):
    X, targets, _ = rows(seed=1)
    figures = figures_for(fit(target), X, targets[target])
    assert [caption for caption, _ in figures] == [CURVE, ORDER, *captions]
    assert all(figure.get_label() for _, figure in figures)


def test_the_roc_curve_names_its_area():
    X, targets, _ = rows(seed=1)
    model = fit("classes")
    figures = dict(figures_for(model, X, targets["classes"]))
    area = roc_auc_score(targets["classes"] == "good", model.decision_function(X))
    figure = figures["ROC curve for class good"]
    assert figure.get_label().endswith(f"the area under it is {area:.4g}.")
    (label,) = [
        text.get_text() for text in figure.axes[0].get_legend().get_texts() if "area" in str(text)
    ]
    assert label == f"model, area {area:.4g}"


@pytest.mark.parametrize("target", ["classes", "grades"])
def test_groups_are_shown_one_by_one(target):
    X, targets, group = rows(seed=1)
    model, y = fit(target, group=True), targets[target]
    figures = dict(figures_for(model, X, y, group))
    # Scores of rows of two groups mean nothing side by side: no curve of all rows.
    assert not any("ROC" in caption for caption in figures)
    figure = figures["How well the rows of each group are ordered"]
    numbers = np.unique(y, return_inverse=True)[1].astype(float)
    scores = model.decision_function(X)
    shares = [concordance(numbers[group == g], scores[group == g]) for g in np.unique(group)]
    (outline,) = figure.axes[0].patches
    assert outline.get_data().values.sum() == len(shares)
    assert f"the median is {np.median(shares):.4g}." in figure.get_label()


@pytest.mark.parametrize(
    ("kernel", "label", "caption"),
    [
        ("mlpk", "same", "ROC curve for pairs (same)"),
        ("antisymmetric", "sign", "ROC curve for pairs (first above second)"),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_functions_of_pairs_are_shown_on_pairs(kernel, label, caption, grouped):
    X, targets, group = rows(seed=1)
    group = group if grouped else None
    model = fit(
        "grades",
        group=grouped,
        pair_kernel=kernel,
        pair_label=label,
        expansion=KOMP(max_size=40),
        buffer=FIFO(20),
    )
    figures = dict(figures_for(model, X, targets["grades"], group))
    assert caption in figures
    axes = figures["Values of random pairs of held-out rows"].axes[0]
    assert axes.get_ylabel() == "Share of the pairs of a class"
    assert "0 pairs" not in axes.get_legend().get_texts()[0].get_text()


def test_rows_without_pairs_leave_the_course_and_the_scores():
    X, targets, _ = rows(seed=1)
    alone = np.arange(len(X))
    figures = figures_for(fit("grades", group=True), X, targets["grades"], alone)
    assert [caption for caption, _ in figures] == [
        CURVE,
        ORDER,
        "Scores of rows over their targets",
    ]
    pairs = fit("grades", pair_kernel="mlpk", pair_label="same", expansion=KOMP(max_size=60))
    assert [c for c, _ in figures_for(pairs, X, np.zeros(len(X)))] == [CURVE, ORDER]


def test_a_ranking_of_two_inputs_shows_its_function():
    X, targets, _ = rows(n_inputs=2)
    model = KernelRanker(random_state=0).fit(X, targets["classes"])
    captions = [caption for caption, _ in figures_for(model, X, targets["classes"])]
    assert captions[-1] == "The learned function, its data and its dictionary"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, seed in (("train", 0), ("test", 1)):
        X, targets, group = rows(600, seed=seed)
        columns = {f"x{j}": X[:, j] for j in range(3)} | targets | {"query": group}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def fit_with_report(files, folder, *words):
    with pytest.raises(SystemExit) as exit_:
        main(
            [
                *("fit", str(files / "train.parquet"), "--task", "rank", "--quiet"),
                *("--out", str(folder / "m"), "--report", str(folder / "m.html")),
                *("--test", str(files / "test.parquet"), *words),
            ]
        )
    assert (exit_.value.code or 0) == 0
    return (folder / "m.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reported(files, tmp_path_factory):
    """The folder of a model of classes, its report and what the command printed."""
    folder, words = tmp_path_factory.mktemp("reported"), "--target classes"
    words += " --exclude grades --exclude numbers --exclude query"
    with redirect_stdout(StringIO()) as out:
        page = fit_with_report(files, folder, *words.split())
    return folder, page, out.getvalue()


def test_the_page_holds_the_measure_the_curve_and_the_pairs(reported):
    _, page, out = reported
    auc = float(re.search(r"^auc (\S+)$", out, re.MULTILINE)[1])
    # The measure comes first.
    assert page.index(f"<dt>AUC</dt><dd>{auc:.4g}</dd>") < page.index("<dt>pairs</dt>")
    assert "ROC curve for class good" in page
    assert "Scores of each class" in page
    assert "Mean progressive logistic loss of pairs" in page
    for name, value in (
        ("pair kernel", "difference"),
        ("buffer", "the last 10 rows of each class"),
    ):
        assert re.search(f'<th scope="row">{name}</th><td>{re.escape(value)}</td>', page)


def test_the_page_of_a_ranking_within_groups_says_how_each_does(files, tmp_path):
    words = "--target grades --group query --exclude classes --exclude numbers"
    page = fit_with_report(files, tmp_path, *words.split())
    for text in ("<dt>concordance</dt>", "<dt>NDCG at 10</dt>", "<dt>groups</dt><dd>20</dd>"):
        assert text in page
    assert "How well the rows of each group are ordered" in page
    assert "Score minus the mean of its group" in page


def test_scores_are_in_the_units_of_the_columns(files, reported):
    # The pictures are given rows in their own units, and the model encoded ones.
    from mercer import load_model
    from mercer_app.cli._report import figures_of
    from mercer_app.models.evaluation import evaluate
    from mercer_app.rows import TableRows

    model = TableRows.of_tables(load_model(reported[0] / "m"))
    evaluation = evaluate(model, files / "test.parquet", n_keep=10_000)
    label = dict(figures_of(model, evaluation))["ROC curve for class good"].get_label()
    assert label.endswith(f"the area under it is {evaluation.measures['auc']:.4g}.")
