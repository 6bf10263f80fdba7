"""Every table and figure of the papers is accounted for, in the list and on the page."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmark_scripts import scripts
from mercer_app.cli import main
from mercer_reproduction import Context, Experiment, Result, experiments
from mercer_reproduction import _catalogue as catalogue
from mercer_reproduction._catalogue import CATALOGUE, OWN_STUDIES, PAPERS, STATES, data_sets
from mercer_reproduction._paper_numbers import PAPER_NUMBERS, PaperNumber, beside_ours
from mercer_reproduction.command import _catalogue_view as listing

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "benchmarks" / "results" / "reproduction.jsonl"
NAMES = [experiment.name for experiment in experiments()]

# What the papers hold; parts of a figure may be items of their own, as in "Fig. 6 (1, 4)".
PLACES = {
    "POLK": [*(f"Table {i}" for i in range(1, 4)), *(f"Fig. {i}" for i in range(1, 9))],
    "COLK": ["Table I", "Fig. 1", "Fig. 2", "Fig. 3", "Example 1", "Example 2"],
    "DSG": [
        *(f"Table {i}" for i in range(1, 5)),
        *(f"Fig. {i}" for i in (1, 2, 3, 4, 5, 8)),
        *(f"Fig. 6 {part}" for part in ("(1, 4)", "(2, 5)", "(3, 6)")),
        *(f"Fig. 7 ({part})" for part in range(1, 6)),
    ],
    "Y&Z": [f"{kind} {i}" for kind in ("Theorem", "Example") for i in range(1, 5)],
}


@pytest.fixture(scope="module")
def script():
    """Give what writes the page."""
    with scripts("reproduce") as found:
        yield found.reproduce


def records():
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


# -- the catalogue --------------------------------------------------------------------------------


def test_every_table_and_figure_of_the_papers_is_there_once():
    found = [(item.paper, item.place) for item in CATALOGUE]
    assert len(set(found)) == len(found)
    assert set(found) == {(paper, place) for paper, places in PLACES.items() for place in places}
    assert set(PLACES) == set(PAPERS)


@pytest.mark.parametrize("item", CATALOGUE, ids=lambda item: f"{item.paper} {item.place}")
def test_items_have_a_state_and_a_reason(item):
    assert item.state in STATES
    assert item.why
    assert item.shows
    assert len(item.why) <= 100  # short sentences
    assert item.why.endswith(".")
    assert set(item.experiments) <= set(NAMES)
    if item.state == "not reproducible":
        assert item.unavailable
        assert not item.experiments
    if item.state in ("changed settings", "in part"):
        assert item.experiments


def missed_claims(records):
    """Places of the papers whose claims were missed: (experiment, place)."""
    return {
        (record["name"], place)
        for record in records
        for target in record["targets"]
        if target["met"] == "missed"
        for place in target.get("claim", ())
    }


def test_what_misses_a_claim_of_its_paper_is_not_called_reproduced():
    missed = missed_claims(records())
    places = {(name, item.place) for item in CATALOGUE for name in item.experiments}
    assert missed <= places  # claims name items of the catalogue
    for item in CATALOGUE:
        if any((name, item.place) in missed for name in item.experiments):
            assert item.state == "in part", f"{item.paper} {item.place}"


def test_claims_that_are_met_or_not_judged_are_not_missed():
    targets = [
        {"met": "met", "claim": ["Fig. 1"]},
        {"met": "missed", "claim": []},
        {"met": "missed"},
        {"met": "not judged: quick run", "claim": ["Fig. 2"]},
        {"met": "missed", "claim": ["Fig. 3", "Table 1"]},
    ]
    found = missed_claims([{"name": "x", "targets": targets}])
    assert found == {("x", "Fig. 3"), ("x", "Table 1")}


def test_every_experiment_repeats_an_item_or_is_a_study_of_our_own():
    repeating = {name for item in CATALOGUE for name in item.experiments}
    assert repeating | set(OWN_STUDIES) == set(NAMES)
    assert not repeating & set(OWN_STUDIES)


def test_data_sets_have_short_names():
    files = ("mnist_train.parquet", "mnist_test.parquet", "protein_casp.parquet", "qm7_7101.npz")
    assert data_sets(files) == "mnist, casp, qm7"
    assert data_sets(()) == ""


# -- times ----------------------------------------------------------------------------------------


def test_times_are_those_of_the_committed_records(script):
    packed = json.loads((ROOT / "src/mercer_reproduction/run_times.json").read_text())
    order = {name: i for i, name in enumerate(NAMES)}
    known = sorted(
        (record for record in records() if record["name"] in order),
        key=lambda record: order[record["name"]],
    )
    estimates = json.loads(script.ESTIMATES.read_text())
    assert packed == script.run_times(known, estimates)
    # None is kept beside a time that was measured, and each says where it comes from.
    assert set(estimates) == {name for name, time in packed.items() if not time["exact"]}
    assert all(estimate["from"] for estimate in estimates.values())


def test_records_without_a_time_have_an_estimate(script):
    new, old = {"name": "new", "cpu_seconds": 30.0}, {"name": "old"}
    assert script.run_times([new, old], {"old": {"cpu_minutes": 2.0}}) == {
        "new": {"cpu_minutes": 0.5, "exact": True},
        "old": {"cpu_minutes": 2.0, "exact": False},
    }


def test_minutes_of_several_runs_are_added_if_all_are_known(monkeypatch):
    times = {
        "a": {"cpu_minutes": 1.5, "exact": True},
        "b": {"cpu_minutes": 2.0, "exact": False},
    }
    monkeypatch.setattr(catalogue, "_run_times", lambda: times)
    assert catalogue.run_minutes(("a",)) == (1.5, True)
    assert catalogue.run_minutes(("a", "b")) == (3.5, False)
    assert catalogue.run_minutes(("a", "c")) is None
    assert catalogue.run_minutes(()) is None


@pytest.mark.parametrize(
    ("minutes", "exact", "words"),
    [
        (0.4, True, "<1"),
        (2.4, True, "2"),
        (28.0, False, "~28"),
        (0.4, False, "<1"),
        (None, None, "-"),
    ],
)
def test_minutes_are_whole(minutes, exact, words):
    assert listing.minutes_in_words(minutes, exact) == words


def test_runs_record_their_time():
    def run(context):
        return Result([{"x": sum(i * i for i in range(300_000))}])

    experiment = Experiment("toy", "A toy", "nowhere", "Nothing.", run)
    result = experiment(Context())
    assert 0.0 < result.cpu_seconds < 5.0
    assert experiment.record(result, Context())["cpu_seconds"] == result.cpu_seconds


# -- numbers of the papers ------------------------------------------------------------------------


@pytest.mark.parametrize("number", PAPER_NUMBERS, ids=lambda n: f"{n.experiment} {n.what}")
def test_numbers_of_the_papers_have_ours_in_the_committed_results(number):
    assert number.experiment in NAMES
    [rows] = [record["rows"] for record in records() if record["name"] == number.experiment]
    ours = number.ours(rows)
    assert (ours is None) == (not number.where)
    assert ours is None or isinstance(ours, float)
    # The place is one that the catalogue gives to this experiment.
    figure = number.place.split(" (")[0]
    assert any(
        item.place.startswith(figure) and number.experiment in item.experiments
        for item in CATALOGUE
    )


def test_the_last_row_that_agrees_is_taken_and_a_missing_one_said(monkeypatch):
    rows = [{"method": "a, 1", "error": 3.0}, {"method": "a, 2", "error": 2.0}]
    numbers = (
        PaperNumber("x", "Fig. 1", "error", 1.0, {"method": "a"}, "error"),
        PaperNumber("x", "Fig. 1", "error", 1.0, {"method": "a", "error": 3.0}, "error"),
        PaperNumber("x", "Fig. 1", "error", 1.0, {"method": "b"}, "error"),
        PaperNumber("x", "Fig. 1", "error", 1.0, {}, ""),
        PaperNumber("y", "Fig. 1", "error", 1.0, {}, ""),
    )
    monkeypatch.setattr("mercer_reproduction._paper_numbers.PAPER_NUMBERS", numbers)
    assert [row["ours"] for row in beside_ours("x", rows)] == [2.0, 3.0, "-", "-"]


# -- the list -------------------------------------------------------------------------------------


def listed(capsys, *words):
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", *words])
    assert not exit_.value.code
    return capsys.readouterr().out


def test_the_list_has_every_item_experiment_and_state(capsys):
    text = listed(capsys, "--list")
    assert text == listed(capsys)
    for paper, places in PLACES.items():
        part = text.partition(f"{paper}: {PAPERS[paper]}")[2].partition("\n\n")[0]
        for place in places:
            assert f"    {place} " in part
    for paper, state, why in {(item.paper, item.state, item.why) for item in CATALOGUE}:
        part = text.partition(f"{paper}: {PAPERS[paper]}")[2].partition("\n\n")[0]
        assert part.count(f"  {state}: {why}") == 1  # each reason once
    for name in NAMES:
        assert name in text
    for state in STATES:
        assert f"{state}:" in text
    for name, question in OWN_STUDIES.items():
        assert any(question in line and name in line for line in text.splitlines())


def test_the_list_as_json_has_the_same_rows(capsys):
    rows = json.loads(listed(capsys, "--list", "--json"))
    assert len(rows) == len(CATALOGUE) + len(OWN_STUDIES)
    [row] = [row for row in rows if (row["paper"], row["item"]) == ("DSG", "Fig. 6 (1, 4)")]
    assert row["experiments"] == ["dsg-adult"]
    assert row["data"] == "adult"
    assert row["state"] == "changed settings"
    assert isinstance(row["minutes"], float)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_list_fits_the_terminal(width):
    plain = io.StringIO()
    console = Console(file=plain, width=width, highlight=False)
    found = experiments()
    console.print(listing.catalogue_view(listing.catalogue_rows(found), found))
    assert max(map(len, plain.getvalue().splitlines())) <= width
    # Names are what users type: they are never cut or broken.
    for name in NAMES:
        assert name in plain.getvalue()


def test_the_list_has_no_options_of_a_run(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["reproduce", "dsg-gp", "--json"])
    assert exit_.value.code == 2
    assert "`--json` is for the list" in capsys.readouterr().err


# -- the page -------------------------------------------------------------------------------------


def test_the_page_links_only_to_experiments_that_were_run(script):
    rows = script.experiment_rows([{"name": "dsg-adult"}])
    assert len(rows) == len(NAMES)
    [linked] = [row for row in rows if "](#" in row["experiment"]]
    assert linked["experiment"] == "[dsg-adult](#dsg-adult)"
    assert linked["repeats"] == "DSG Table 4, DSG Fig. 6 (1, 4)"


def test_the_page_says_of_every_experiment_what_it_repeats(script):
    rows = {row["experiment"]: row for row in script.experiment_rows([])}
    assert set(rows) == set(NAMES)
    for name, row in rows.items():
        assert row["repeats"].startswith("our own study: ") == (name in OWN_STUDIES)
        assert row["repeats"]
    assert rows["dsg-gp"]["data"] == "-"
    assert rows["dsg-adult"]["data"] == "adult"
