"""Everything in the papers, thing by thing, and whether it is here.

The things stand in ``things.csv``, in the order of the papers. Those that the catalogue has are
named there only: what became of them is written in :mod:`mercer_reproduction._catalogue`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mercer_reproduction._catalogue import CATALOGUE, Item

_YES, _IN_PART, _NO = "yes", "in part", "no"
_NOT_POSSIBLE, _NOTHING = "not possible", "nothing to run"
STATES = {
    _YES: "it is there, and a test or an experiment shows it",
    _IN_PART: (
        "a part is missing, or data and settings are others, "
        "or not all that the paper says was found"
    ),
    _NO: "it is not there, or what the paper says was not found",
    _NOT_POSSIBLE: "it cannot be done here",
    _NOTHING: "it is a drawing, or a table of bounds",
}

_OF_ITEMS = {
    "reproduced": _YES,
    "changed settings": _IN_PART,
    "in part": _IN_PART,
    "not reproducible": _NOT_POSSIBLE,
    "no experiment": _NOTHING,
}
_CHANGED = "Found, with changes. "


@dataclass(frozen=True)
class Thing:
    """An algorithm, an equation, a rule, a bound, a loss, a task, a table or a figure of a paper.

    Attributes
    ----------
    paper : str
        Key of ``PAPERS`` in the catalogue.
    place : str
        Where it is in the paper.
    what : str
        What it is, in a few words.
    state : str
        Key of ``STATES``.
    where : tuple of str
        Names that a user types, as ``recipes.polk`` for ``mercer.recipes.polk``, with parameters,
        as ``expansions.KOMP(tolerance=)``.
    checked : tuple of str
        Test files, by their paths in ``tests``, and experiments.
    why : str
        What is missing, or why; empty if the state is ``"yes"``.
    """

    paper: str
    place: str
    what: str
    state: str
    where: tuple[str, ...]
    checked: tuple[str, ...]
    why: str

    @property
    def tests(self) -> tuple[str, ...]:
        """Test files among those that check it."""
        return tuple(name for name in self.checked if name.endswith(".py"))

    @property
    def experiments(self) -> tuple[str, ...]:
        """Experiments among those that check it."""
        return tuple(name for name in self.checked if not name.endswith(".py"))


@cache
def things() -> tuple[Thing, ...]:
    """Everything in the papers, in their order.

    Examples
    --------
    >>> [thing.state for thing in things() if thing.place == "Fig. 7 (3)"]
    ['not possible']
    """
    items = {(item.paper, item.place): item for item in CATALOGUE}
    text = Path(__file__).with_name("things.csv").read_text(encoding="utf-8")
    return tuple(
        _thing(row, items.get((row["paper"], row["place"])))
        for row in csv.DictReader(text.splitlines())
    )


def _thing(row: Mapping[str, str], item: Item | None) -> Thing:
    what, state, why = row["what"], row["state"], row["why"]
    checked = _words(row["checked"])
    if item is not None:
        what, state = item.shows, _OF_ITEMS[item.state]
        why = "" if state == _YES else item.why
        if item.state == "changed settings":
            why = _CHANGED + why
        checked += item.experiments
    return Thing(row["paper"], row["place"], what, state, _words(row["where"]), checked, why)


def _words(cell: str) -> tuple[str, ...]:
    return tuple(cell.split("; ")) if cell else ()
