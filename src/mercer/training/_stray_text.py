"""Slips of the pen that make text of a whole column of a file, found before learning begins."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mercer.data._stray import stray_text
from mercer.data._views import view_table
from mercer.data.tables import place_of, read_tables, schema

__all__ = ["refuse_stray_text", "warn_of_stray_text"]


def refuse_stray_text(data: Path, target: str, table: Any) -> None:
    """Raise ``ValueError`` if a few cells make text of a target that is to be a number.

    Parameters
    ----------
    data : Path
        The files, for the message.
    target : str
        Column of the target.
    table : table
        The first rows, with the target.
    """
    stray = stray_text(view_table(table).column(target))
    if stray is not None:
        raise ValueError(
            f"The target {target!r} is text, because {stray.says(place_of(data, stray.row))}. "
            "Correct such cells, or leave out rows whose target is not known. If the column holds "
            "classes, say `task='classification'`."
        )


def warn_of_stray_text(data: Path, exclude: Collection[str], n_rows: int) -> None:
    """Warn of inputs that a few cells make categories of.

    Parameters
    ----------
    data : Path
        The files.
    exclude : collection of str
        Columns that are no inputs.
    n_rows : int
        How many of the first rows are looked at.
    """
    text = [
        field.name
        for field in schema(data)
        if "string" in str(field.type) and field.name not in exclude
    ]
    if not text:
        return
    table = next(read_tables(data, columns=text, rows_per_table=n_rows))
    for name in text:
        stray = stray_text(view_table(table).column(name))
        if stray is not None:
            warnings.warn(
                f"The column {name!r} is taken for categories, because "
                f"{stray.says(place_of(data, stray.row))}. If it holds quantities, correct such "
                "cells, or leave them empty, which is a missing value.",
                stacklevel=3,
            )
