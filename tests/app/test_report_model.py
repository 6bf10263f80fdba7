"""A report begins with how good a model is, and shows where it errs, on every width of a page."""

import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression, LogisticRegression

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import KOMP
from mercer_app.report import Section, class_figures, report_model, write_report
from mercer_app.report.judged import (
    LEARNED,
    JudgedRows,
    _r2_interval,
    confused_table,
    group_table,
    percent,
    verdict_of,
    verdict_of_scores,
    wilson,
    worst_table,
)

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("quickest_race")

LONG = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch" * 2


def classes(n_right=90, n=100):
    truth = np.array(["no"] * (n - 30) + ["yes"] * 30)
    predicted = truth.copy()
    predicted[: n - n_right] = "yes"
    chance = np.where(predicted == "yes", np.linspace(0.6, 0.9, n), 0.2)
    probability = np.column_stack([1.0 - chance, chance])
    columns = {"town": [f"t{i % 3}" for i in range(n)], "age": list(range(n))}
    known = np.array(["no", "yes"])
    return JudgedRows(truth, predicted, known, probability, chance, columns)


def quantities(n=200):
    rng = np.random.default_rng(0)
    truth = rng.normal(100.0, 20.0, size=n)
    columns = {"size": rng.normal(size=n).tolist()}
    return JudgedRows(truth, truth + rng.normal(0.0, 5.0, size=n), columns=columns, target="price")


# -- how good --------------------------------------------------------------------------------------


def test_wilsons_interval_is_the_one_of_statistics():
    assert_allclose(wilson(90, 100), [0.82563, 0.94477], atol=1e-5)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_words_on_classes_have_the_share_an_interval_and_a_baseline():
    verdict = verdict_of(classes())
    assert verdict.text.startswith("The model is right for 90 of 100 held-out rows: 90\u00a0%.")
    assert "82.6\u00a0% to 94.5\u00a0% (Wilson's 95 % interval)" in verdict.text
    assert "Always answering 'no', the most frequent class, is right for 70\u00a0%." in verdict.text
    assert list(verdict.values)[:3] == [
        "right (accuracy)",
        "95 % interval",
        "always answering 'no'",
    ]
    bad = verdict_of(classes(n_right=72))
    assert "the model is not clearly better than that" in bad.text
    assert "not clearly better" not in verdict.text


def test_the_words_on_quantities_have_the_error_an_interval_and_a_baseline():
    rows = quantities()
    verdict = verdict_of(rows)
    off = np.abs(rows.truth - rows.predicted)
    assert f"is off by {off.mean():.4g} on average (mean absolute error, in units of price" in (
        verdict.text
    )
    base = np.mean(np.abs(rows.truth - np.median(rows.truth)))
    assert f"Always answering the median, {np.median(rows.truth):.4g}, is off by {base:.4g}." in (
        verdict.text
    )
    low, high = map(float, verdict.values["95 % interval"].split(" to "))
    half = 1.96 * off.std(ddof=1) / np.sqrt(off.size)
    assert_allclose([low, high], [off.mean() - half, off.mean() + half], rtol=1e-3)
    ends = re.search(r"95 % interval (\S+) to (\S+), by 1,000 bootstrap", verdict.text)
    assert float(ends[1]) < verdict.values["R²"] < float(ends[2])
    assert verdict.text == verdict_of(rows).text  # the same in every run


def test_measures_of_all_rows_take_the_place_of_those_of_a_sample():
    rows = quantities()
    exact = {"rows": 10_000, "mae": 7.0, "mse": 60.0, "rmse": 60.0**0.5, "r2": 0.5}
    verdict = verdict_of(rows, exact)
    assert verdict.values["off by, on average (MAE)"] == 7.0
    assert verdict.values["R²"] == 0.5
    assert "On 10,000 held-out rows" in verdict.text


def test_rows_that_were_learned_are_called_so():
    assert "new ones it predicts worse" in verdict_of(classes()._replace(of=LEARNED)).text
    assert "new ones" not in verdict_of(classes()).text


def test_quantiles_and_several_targets_have_words_of_their_own():
    truth = np.arange(100.0)
    predicted = np.column_stack([np.full(100, 9.5), np.full(100, 89.5)])
    verdict = verdict_of(JudgedRows(truth, predicted, levels=np.array([0.1, 0.9])))
    assert (
        "80\u00a0% are between the predicted quantiles 0.1 and 0.9; 80\u00a0% should"
        in verdict.text
    )
    two = np.column_stack([truth, -truth])
    verdict = verdict_of(JudgedRows(two, two + 1.0, labels=["a", "b"]))
    assert [line["target"] for line in verdict.tables["By target"]] == ["a", "b"]
    assert {line["off by, on average"] for line in verdict.tables["By target"]} == {1.0}


def test_rankings_and_detectors_have_words():
    words = verdict_of_scores({"auc": 0.9, "auc_standard_error": 0.01, "pairs": 400})
    assert "in 90\u00a0% of 400 pairs (95 % interval 88\u00a0% to 92\u00a0%" in words
    words = verdict_of_scores(
        {"rows": 200, "novel_percent": 10.0, "labelled_novel_percent": 5.0,
         "found_percent": 80.0, "false_alarm_percent": 4.0}
    )  # fmt: skip
    assert "calls 10\u00a0% of 200 held-out rows novel" in words
    assert "finds 80\u00a0%" in words
    assert "gives a false alarm for 4\u00a0%" in words


# -- where it errs ---------------------------------------------------------------------------------


def test_the_worst_rows_are_the_wrong_ones_that_it_was_surest_of():
    table = worst_table(classes(), ["town", "age"])
    assert len(table) == 10  # of 10 wrong ones
    assert [row["age"] for row in table] == [str(i) for i in range(9, -1, -1)]
    assert {row["truth"] for row in table} == {"no"}
    first = classes().probability[9, 0]
    assert table[0]["probability of the truth"] == percent(first)
    assert table[0]["town"] == "t0"


def test_measures_of_all_rows_stand_where_some_are_shown():
    exact = {"rows": 10_000, "error_percent": 20.0, "commonest_class_error_percent": 30.0}
    exact |= {"balanced_error_percent": 40.0, "auc": 0.7}
    values = verdict_of(classes(), exact).values
    assert values["right (accuracy)"] == percent(0.8)
    assert values["balanced accuracy"] == percent(0.6)


def test_intervals_are_those_of_all_rows_where_some_are_drawn():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=20_000)
    predicted = truth + rng.normal(size=20_000)
    all_rows, quarter = (_r2_interval(truth[:n], predicted[:n]) for n in (20_000, 5000))
    assert_allclose(np.ptp(quarter) / np.ptp(all_rows), 2.0, rtol=0.15)
    some = classes()._replace(scores=rng.normal(size=100) + (classes().truth == "yes"))
    exact = {"rows": 400, "error_percent": 10.0, "commonest_class_error_percent": 30.0}
    exact |= {"balanced_error_percent": 10.0, "auc": verdict_of(some).values["AUC"]}
    widths = []
    for measures in (None, exact):
        said = verdict_of(some, measures).text
        ends = re.search(r"95 % interval ([\d.]+) to ([\d.]+), by DeLong", said)
        widths.append(float(ends[2]) - float(ends[1]))
    assert_allclose(widths[0] / widths[1], 2.0, atol=0.2)  # four times as many rows


def test_the_class_that_is_always_answered_keeps_its_letters():
    rows = classes()
    upper = rows._replace(
        truth=np.char.upper(rows.truth.astype(str)),
        predicted=np.char.upper(rows.predicted.astype(str)),
        classes=np.char.upper(rows.classes.astype(str)),
    )
    assert "Always answering 'NO', the most frequent class" in verdict_of(upper).text


def test_the_classes_that_are_mixed_up_most_come_first():
    truth = np.array(list("aaaabbbbcc"))
    said = np.array(list("abbbbbacca"))
    table = confused_table(classes()._replace(truth=truth, predicted=said), most=2)
    assert [(row["true class"], row["predicted"], row["rows"]) for row in table] == [
        ("a", "b", 3),
        ("b", "a", 1),
    ]
    assert table[0]["of the true class"] == percent(0.75)


@pytest.mark.usefixtures("undrawn")
def test_many_classes_are_named_beside_their_picture(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.array([f"class {i}" for i in np.digitize(X[:, 0], np.linspace(-1.5, 1.5, 15))])
    model = KernelClassifier(random_state=0).fit(X, y)
    report_model(tmp_path / "r.html", model)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Classes that are mixed up most" in text


def test_the_worst_quantities_are_furthest_off():
    rows = quantities()
    table = worst_table(rows, ["size"], most=3)
    order = np.argsort(-np.abs(rows.truth - rows.predicted))[:3]
    assert [row["size"] for row in table] == [f"{rows.columns['size'][i]:.4g}" for i in order]
    assert table[0]["off by"].startswith(("+", "-"))


def test_a_column_called_truth_does_not_hide_the_truth():
    rows = classes()._replace(columns={"truth": ["mine"] * 100})
    row = worst_table(rows, ["truth"])[0]
    assert (row["truth"], row["truth (column)"]) == ("no", "mine")


def test_errors_are_those_of_groups():
    table = group_table(classes(), "age")
    assert [row["age"] for row in table] == [
        "0 to 19",
        "20 to 39",
        "40 to 59",
        "60 to 79",
        "80 to 99",
    ]
    assert [row["right"] for row in table][1:] == ["100\u00a0%"] * 4
    assert sum(row["rows"] for row in table) == 100
    towns = group_table(classes(), "town")
    assert {row["town"] for row in towns} == {"t0", "t1", "t2"}
    text = classes()._replace(columns={"note": [f"a text {i}" for i in range(100)]})
    assert group_table(text, "note") == []
    gaps = classes()._replace(columns={"age": [None] * 50 + [3.0] * 50})
    assert [row["age"] for row in group_table(gaps, "age")] == ["3", "(missing)"]


def test_figures_of_classes_need_rows_that_belong_together():
    with pytest.raises(ValueError, match="same rows"):
        class_figures(["a"], ["a", "b"])


# -- the whole page --------------------------------------------------------------------------------


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(size=n), "a_name_that_goes_on" * 3: rng.normal(size=n)})
    frame["town"] = rng.choice(["Rome", LONG, "<b>Oslo"], n)
    y = np.where(frame["age"] + rng.normal(0.0, 0.4, n) > 0.0, "a " + LONG, "b")
    return frame, y


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with long names, long words and markup in them."""
    path = tmp_path_factory.mktemp("page") / "r.html"
    model = KernelClassifier(random_state=0).fit(*table())
    report_model(path, model, *table(seed=1), notes=["n" * 200], settings={"s" * 90: "v" * 300})
    return path


def test_the_page_begins_with_what_people_want_and_ends_with_how_it_was_found(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings[:3] == ["How good is it?", "Notes", "Where it errs"]
    assert headings[-1] == "How it was found"
    body = text[text.index("<body>") :]
    assert body.index("The model is right for") < body.index("Always answering") < body.index("<dl")
    folded = body[body.index("<h2>How it was found</h2>") :]
    titles = re.findall("<summary><h3>(.*?)</h3></summary>", folded)
    assert titles == ["The race", "The run", "Settings"]
    assert "<details open" not in text
    assert "<details" not in body[: body.index("<h2>How it was found</h2>")]
    assert "Confusion matrix of held-out rows" in body
    assert "Rows that are wrong although the model was surest" in body
    assert "<b>Oslo" not in text
    assert "script" not in re.findall(r"<(\w+)", text)


def test_the_same_model_gives_the_same_bytes(page, tmp_path):
    model = KernelClassifier(random_state=0).fit(*table())
    more = {"notes": ["n" * 200], "settings": {"s" * 90: "v" * 300}}
    report_model(tmp_path / "r.html", model, *table(seed=1), **more)
    assert (tmp_path / "r.html").read_bytes() == page.read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_a_model_is_judged_by_rows_that_it_kept_back(tmp_path):
    X, y = table()
    numbers = X["age"].to_numpy() * 3.0
    for target, words in ((y, "The model is right for"), (numbers, "a prediction is off by")):
        kind = KernelRegressor if target is numbers else KernelClassifier
        model = kind(random_state=0).fit(X[["age"]], target)
        report_model(tmp_path / "r.html", model)
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert words in text
        assert f"{len(model.held_out_.y):,} rows kept back" in text
        assert "were kept back: the fit that predicted them did not have them" in text
    model = KernelRegressor(expansion=KOMP(max_size=20)).fit(X[["age"]], numbers)
    report_model(tmp_path / "r.html", model)
    assert "kept back" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_models_of_scikit_learn_have_reports_too(tmp_path):
    X, y = table()
    for model, target in ((LogisticRegression(), y), (LinearRegression(), 2.0 * X["age"])):
        report_model(tmp_path / "r.html", model.fit(X[["age"]], target), X[["age"]], target)
        assert "How good is it?" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_rows_without_targets_are_refused(tmp_path):
    X, y = table()
    with pytest.raises(ValueError, match="`y` must hold the targets"):
        report_model(tmp_path / "r.html", LogisticRegression().fit(X[["age"]], y), X[["age"]])


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_what_matters_if_the_model_knows(tmp_path):
    X, y = table()
    model = KernelClassifier(random_state=0).fit(X, y)
    if not hasattr(model, "feature_importances_"):
        pytest.skip("models have no importances yet")
    report_model(tmp_path / "r.html", model, *table(seed=1))
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        text.index("<h2>Where it errs") < text.index("<h2>What matters") < text.index("<h2>How it")
    )
    assert "<figcaption>How much each column matters" in text
    assert re.search("<figcaption>Probability over age", text)
    assert "Errors by age" in text  # which matters most


# -- no clipping -----------------------------------------------------------------------------------


def test_wide_tables_have_columns_that_fit_and_become_cards_on_phones(tmp_path):
    rows = [{f"column {i}": "x" * 60 for i in range(6)}]
    one = Section("Wide", tables={"t": rows})
    write_report(tmp_path / "r.html", title="t", summary={}, sections=[one])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<table class="grid wide">' in text
    assert '<td data-label="column 5">' in text
    assert "table.wide { table-layout: fixed; }" in text
    assert "content: attr(data-label)" in text


@pytest.fixture(scope="module")
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("needs chromium")
    return found


WRAPPER = """<body><iframe id="page" style="width:{width}px;height:900px;border:0"></iframe>
<pre id="said"></pre><script>
const page = document.getElementById("page");
page.onload = () => {{
  const inside = page.contentDocument, root = inside.documentElement, said = [];
  inside.querySelectorAll("details").forEach(one => one.open = true);
  said.push("width " + root.scrollWidth + " of " + root.clientWidth);
  inside.querySelectorAll("body *").forEach(one => {{
    const box = one.getBoundingClientRect();
    if (one.closest("svg") && one.tagName !== "svg") return;
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth || box.right > {width} + 1)
      said.push("OVER " + one.tagName + "." + one.className + " " + one.textContent.slice(0, 40));
  }});
  document.getElementById("said").textContent = said.join("\\n") + "\\nDONE";
}};
page.srcdoc = {text};
</script></body>"""


def overflowing(chromium, text, width, folder):
    """Return the width that a page takes, and what is wider than its place."""
    import json

    free = re.sub(r"<meta http-equiv=.*?>", "", text, flags=re.S)
    quoted = json.dumps(free).replace("</", "<\\/")
    (folder / "w.html").write_text(WRAPPER.format(width=width, text=quoted), encoding="utf-8")
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    run = subprocess.run(
        [chromium, *words, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000",
         "--dump-dom", f"file://{folder / 'w.html'}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = re.search(r'<pre id="said">(.*?)DONE', run.stdout, re.S)
    if said is None:
        pytest.skip(f"chromium did not draw the page: {run.stderr[-200:]}")
    used, there = map(int, re.search(r"width (\d+) of (\d+)", said[1]).groups())
    return used - there, re.findall("OVER (.*)", said[1])


@pytest.mark.parametrize("width", [390, 680, 1280])
def test_nothing_is_wider_than_the_page(width, chromium, page, tmp_path):
    """680 px is the width of A4 less its margins, where the layout of wide screens is used."""
    text = page.read_text(encoding="utf-8")
    if width == 680:
        text = text.replace("@media screen and (max-width: 44rem)", "@media (max-width: 1px)")
        text = text.replace("@media print", "@media screen")
    assert overflowing(chromium, text, width, tmp_path) == (0, [])


def test_the_measurement_finds_what_is_too_wide(chromium, page, tmp_path):
    wide = page.read_text(encoding="utf-8").replace("<main>", '<main><p style="width:900px">x</p>')
    over, found = overflowing(chromium, wide, 390, tmp_path)
    assert over > 400
    assert any(one.startswith("P.") for one in found)
