"""Everything in the papers has a state, and what is said of it can be looked up."""

import csv
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from benchmark_scripts import scripts
from mercer_reproduction import _things, experiments
from mercer_reproduction._catalogue import CATALOGUE, PAPERS
from mercer_reproduction._things import STATES, things

ROOT = Path(__file__).parents[3]
NAMES = [experiment.name for experiment in experiments()]
THINGS = things()


def ids(thing):
    return f"{thing.paper} {thing.place}"


def resolved(name):
    """Give what a public name stands for: a full one, or one below ``mercer``."""
    first, *rest = name.split(".")
    if not first.startswith("mercer"):
        first, rest = "mercer", [first, *rest]
    thing, path = importlib.import_module(first), first
    for part in rest:
        assert not part.startswith("_"), f"{name} is not public"
        path = f"{path}.{part}"
        if isinstance(thing, ModuleType) and part not in getattr(thing, "__all__", ()):
            thing = importlib.import_module(path)  # or it is nothing that a user may import
        else:
            thing = getattr(thing, part)
    return thing


def check(where):
    """Refuse a name that does not exist, and parameters that it does not have."""
    name, parameters = re.fullmatch(r"([\w.]+)(?:\((\w+=(?:, \w+=)*)\))?", where).groups()
    thing = resolved(name)
    if parameters:
        missing = set(re.findall(r"\w+", parameters)) - set(inspect.signature(thing).parameters)
        assert not missing, f"{name} has no {missing}"


# -- the things -----------------------------------------------------------------------------------


def test_places_are_there_once_and_papers_are_known():
    assert [place for place, n in Counter(map(ids, THINGS)).items() if n > 1] == []
    assert list(dict.fromkeys(thing.paper for thing in THINGS)) == list(PAPERS)


@pytest.mark.parametrize("thing", THINGS, ids=ids)
def test_things_have_a_state_and_a_reason_unless_all_is_there(thing):
    assert thing.state in STATES
    assert thing.what
    assert not thing.what.endswith(".")
    assert bool(thing.why) == (thing.state != "yes")
    assert not thing.why or thing.why.endswith(".")
    assert len(thing.why) <= 125  # short sentences


@pytest.mark.parametrize("thing", THINGS, ids=ids)
def test_what_checks_a_thing_exists(thing):
    for name in thing.tests:
        assert (ROOT / "tests" / name).is_file(), name
    assert set(thing.experiments) <= set(NAMES)
    assert len(set(thing.checked)) == len(thing.checked)
    if thing.state in ("yes", "in part"):
        assert thing.checked


@pytest.mark.parametrize("where", sorted({name for thing in THINGS for name in thing.where}))
def test_names_are_public_and_have_these_parameters(where):
    check(where)


@pytest.mark.parametrize(
    "where",
    [
        "recipes.nothing",
        "nothing.polk",
        "expansions.KOMP(nothing=)",
        "expansions.KOMP(tolerance=, nothing=)",
        "recipes._model",
        "recipes.own_copy",
        "KOMP",
    ],
)
def test_names_that_lead_nowhere_are_noticed(where):
    with pytest.raises((AssertionError, AttributeError, ImportError)):
        check(where)


def test_what_the_catalogue_has_is_written_there_only():
    text = Path(_things.__file__).with_name("things.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    items = {(item.paper, item.place): item for item in CATALOGUE}
    named = [(row["paper"], row["place"]) for row in rows if not row["state"]]
    assert sorted(named) == sorted(items)
    for row in rows:
        own = [row[column] for column in ("what", "state", "why")]
        assert not any(own) if (row["paper"], row["place"]) in items else all(own[:2])
    for thing in THINGS:
        if item := items.get((thing.paper, thing.place)):
            assert thing.what == item.shows
            assert set(item.experiments) <= set(thing.checked)
            assert thing.state == "yes" or thing.why.endswith(item.why)


# -- the page -------------------------------------------------------------------------------------


def test_the_page_leads_with_all_things():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    with scripts("reproduce", "_common") as found:
        records = found.reproduce.results()
        for paper in PAPERS:
            rows = found.reproduce.thing_rows(paper, records)
            assert len(rows) == sum(thing.paper == paper for thing in THINGS)
            assert found._common.markdown(rows) in page
        assert found._common.markdown(found.reproduce.counts()) in page
    assert page.index("## What of the papers is here") < page.index("## Experiments")


def test_counts_are_those_of_the_things():
    with scripts("reproduce") as found:
        *papers, total = found.reproduce.counts()
    assert total["all"] == len(THINGS) == sum(row["all"] for row in papers)
    for state in STATES:
        assert total[state] == sum(thing.state == state for thing in THINGS)
    assert [row["paper"] for row in papers] == list(PAPERS)
