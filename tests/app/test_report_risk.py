"""The section of a report on a risk: what it says, tabulates and draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import KernelRegressor
from mercer.display import row_losses, tail_of
from mercer.risks import CVaR, Semivariance
from mercer_app.report import Section, figures_for, risk_section, write_report

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402


def fit(risk, n=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(n)
    return KernelRegressor(risk=risk, expansion="komp", random_state=0).fit(X, y), X, y


def test_the_section_holds_the_tail_and_what_was_tracked():
    model, X, y = fit(CVaR(0.8))
    losses = row_losses(model, X, y)
    section = risk_section(model, losses)
    assert section.text == f"Minimised: {CVaR(0.8).describe()}."
    assert section.values["loss"] == "squared loss"
    # Sums depend on the order of the rows in their last digits.
    assert_allclose(section.values["mean loss, held-out rows"], losses.mean(), rtol=1e-12)
    tail = tail_of(losses, 0.8)
    assert section.values["value at risk at 0.8, held-out rows"] == tail.value_at_risk
    assert section.values["CVaR at 0.8, held-out rows"] == tail.cvar
    last = model.history_.monitors["value_at_risk"][-1]
    assert section.values["value at risk, at the end"] == last
    assert section.values["model order"] == model.model_order_
    captions = [caption for caption, _ in section.figures]
    assert captions == ["Losses of held-out rows", "Value at risk along the stream"]
    for _, figure in section.figures:
        assert figure.get_label().startswith("Line chart")


def test_without_losses_there_is_what_was_tracked():
    section = risk_section(fit("semideviation")[0])
    assert [caption for caption, _ in section.figures] == ["Tracked inner value along the stream"]
    assert not any("CVaR" in name for name in section.values)


def test_the_mean_loss_has_no_section():
    assert risk_section(fit(None)[0]) is None


def test_a_clip_that_changes_the_objective_is_told():
    model, _, _ = fit(Semivariance(clip=0.1))
    section = risk_section(model)
    share = 100.0 * np.average(
        model.history_.monitors["clipped_fraction"],
        weights=np.diff(model.history_.n_samples, prepend=0),
    )
    assert section.values["clipped rows"] == f"{share:.4g} %"
    assert "Many rows were clipped" in section.text
    assert section.figures[-1][0] == "Rows that a safeguard changed"
    gentle = risk_section(fit(Semivariance(clip=1e6))[0])
    assert "clipped" not in gentle.text
    assert gentle.values["clipped rows"] == "0 %"


def test_a_risk_with_nothing_to_track_has_its_losses():
    model, X, y = fit("mean")
    section = risk_section(model, row_losses(model, X, y), of="<rows>")
    assert [caption for caption, _ in section.figures] == ["Losses of <rows>"]


def test_the_learning_curve_is_captioned_as_the_objective():
    captions = [caption for caption, _ in figures_for(fit("cvar")[0])]
    expected = "Learning curve: objective (CVaR of the squared loss) on each row before learning it"
    assert captions[0] == expected


def test_sections_are_on_the_page_in_order_and_escaped(tmp_path):
    model, X, y = fit("cvar")
    sections = [
        risk_section(model, row_losses(model, X, y)),
        Section("A <b>", "text & more", {"x": 1}),
        Section("Nothing"),
    ]
    path = tmp_path / "report.html"
    write_report(
        path,
        title="A run",
        summary={},
        evaluation={"mse": 1.0},
        sections=sections,
        figures=[("Own", Figure())],
        history=model.history_,
    )
    page = path.read_text(encoding="utf-8")
    headings = ["Risk", "A &lt;b&gt;", "Evaluation on held-out rows", "Figures", "How it was found"]
    places = [page.index(f"<h2>{heading}</h2>") for heading in headings]
    places.append(page.index("<summary><h3>The run</h3></summary>"))
    assert places == sorted(places)
    assert "<p>text &amp; more</p>" in page
    assert "<h2>Nothing</h2>" not in page
    # Figures of all sections are told apart by their numbers, and the history is the objective's.
    for number in range(3):
        assert f'id="f{number}-' in page
    assert '<th scope="col">objective</th>' in page


def test_the_same_run_gives_the_same_page(tmp_path):
    pages = []
    for name in "ab":
        model, X, y = fit("semideviation")
        section = risk_section(model, row_losses(model, X, y))
        write_report(tmp_path / name, title="A run", summary={}, sections=[section])
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
