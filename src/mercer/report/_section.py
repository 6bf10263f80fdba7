"""What a section of a report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section"]


class Section(NamedTuple):
    """A section of a report.

    Attributes
    ----------
    heading : str
        Its title.
    text : str
        A paragraph to begin with.
    values : mapping of str to str or number
        What is tabulated.
    figures : sequence of (str, matplotlib Figure)
        Captions and figures.
    tables : mapping of str to sequence of mappings
        Captions and tables, after the figures. The rows of a table have the same keys, the names of
        its columns; the first value of a row names it.
    """

    heading: str
    text: str = ""
    values: Mapping[str, Any] = {}
    figures: Sequence[tuple[str, Figure]] = ()
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = {}
