"""Numbers that the papers print, and where ours stand in the table of the experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PaperNumber:
    """A number of a paper.

    Attributes
    ----------
    experiment : str
        The experiment that measures it.
    place : str
        Where it stands.
    what : str
        What was measured, with its unit.
    paper : float
        The number.
    where : mapping of str to value
        What marks our row: numbers by column, or the beginnings of texts. The last such row
        counts. Empty: we have none.
    column : str
        Where our number stands in it.
    """

    experiment: str
    place: str
    what: str
    paper: float
    where: Mapping[str, Any]
    column: str

    def ours(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return our number, or None if there is no such row."""
        if not self.where:
            return None
        found = [row for row in rows if all(_agrees(row[c], v) for c, v in self.where.items())]
        return found[-1][self.column] if found else None


def _agrees(cell: Any, wanted: Any) -> bool:
    return cell.startswith(wanted) if isinstance(wanted, str) else bool(cell == wanted)


def beside_ours(experiment: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Numbers of the paper beside those in the rows of an experiment.

    Parameters
    ----------
    experiment : str
        Its name.
    rows : sequence of mappings
        Its table.

    Returns
    -------
    rows : list of dict
        One for each number of the paper; ours is "-" where there is none.
    """
    return [
        {
            "place": number.place,
            "what": number.what,
            "paper": number.paper,
            "ours": "-" if (ours := number.ours(rows)) is None else ours,
        }
        for number in PAPER_NUMBERS
        if number.experiment == experiment
    ]


_ERROR = "test error %"
_OWN, _PLAIN = "DSG newton, hinge", "DSG plain"


def _svm(
    experiment: str, place: str, what: str, paper: float, criterion: str, method: str
) -> PaperNumber:
    where = {"criterion": criterion, "method": method}
    return PaperNumber(experiment, place, f"{what}: {_ERROR}", paper, where, _ERROR)


def _net(experiment: str, place: str, what: str, paper: float, method: str) -> PaperNumber:
    return PaperNumber(experiment, place, f"{what}: {_ERROR}", paper, {"method": method}, _ERROR)


PAPER_NUMBERS: tuple[PaperNumber, ...] = (
    _svm("dsg-adult", "Fig. 6 (1)", "doubly stochastic", 15.3, "SC1", _OWN),
    _svm("dsg-adult", "Fig. 6 (1)", "doubly stochastic, plain", 15.3, "SC1", _PLAIN),
    _svm("dsg-adult", "Fig. 6 (1)", "NORMA", 15.0, "SC1", "NORMA"),
    _svm("dsg-adult", "Fig. 6 (1)", "k-SDCA", 15.0, "SC1", "k-SDCA"),
    _svm("dsg-mnist-8-6", "Fig. 6 (2)", "doubly stochastic", 0.26, "SC1", _OWN),
    _svm("dsg-mnist-8-6", "Fig. 6 (2)", "doubly stochastic, plain", 0.26, "SC1", _PLAIN),
    _svm("dsg-mnist-8-6", "Fig. 6 (5)", "doubly stochastic", 0.26, "SC2", _OWN),
    _svm("dsg-covtype", "Fig. 6 (3)", "doubly stochastic", 15.0, "SC1", _OWN),
    _svm("dsg-covtype", "Fig. 6 (3)", "doubly stochastic, plain", 15.0, "median", _PLAIN),
    _svm("dsg-covtype", "Fig. 6 (3)", "NORMA", 10.0, "SC1", "NORMA"),
    _svm("dsg-covtype", "Fig. 6 (3)", "k-SDCA", 10.0, "SC1", "k-SDCA"),
    _net("dsg-mnist", "Fig. 7 (1)", "doubly stochastic", 0.5, "DSG newton, width 4"),
    _net("dsg-mnist", "Fig. 7 (1)", "neural net", 0.6, "net, jointly trained"),
    _net("dsg-cifar10", "Fig. 7 (2)", "doubly stochastic", 11.0, "DSG newton, width 4 x median"),
    _net("dsg-cifar10", "Fig. 7 (2)", "neural net", 11.0, "net, jointly trained"),
    PaperNumber(
        "dsg-qm7",
        "Fig. 7 (4)",
        "doubly stochastic, width 60 (here: as chosen): MAE kcal/mol",
        2.97,
        {"method": "DSG newton", "measured on": "test molecules"},
        "MAE kcal/mol",
    ),
    PaperNumber(
        "dsg-qm7",
        "Fig. 7 (4)",
        "neural net: MAE kcal/mol",
        3.51,
        {"method": "neural net"},
        "MAE kcal/mol",
    ),
)
