"""Checkpoints of a training: the model, the place in the stream, and what both depend on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from mercer.model_file import RECOVER, model_of_state, read_state, write_state
from mercer.validation import check_integer
from mercer_app.files import schema
from mercer_app.files.places import size_of
from mercer_app.files.tables import find_files
from mercer_app.rows import TableRows

_MOST_COLUMNS = 8
_AFRESH = "Delete it and start afresh, without `resume`."


def checkpoint_path(out: str | os.PathLike[str]) -> Path:
    """Where the checkpoint of a training for the model file ``out`` is."""
    return Path(f"{os.fspath(out)}.checkpoint")


def fingerprint(data: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell data files apart without reading them: by names, sizes, columns and types.

    Parameters
    ----------
    data : path
        As for :func:`mercer_app.files.read_tables`.

    Returns
    -------
    fingerprint : dict
        Fingerprint of lists and text.
    """
    files = find_files(data)
    return {
        "files": [file.name for file in files],
        "sizes in bytes": [size_of(file) for file in files],
        "columns": [f"{field.name}: {field.type}" for field in schema(data)],
    }


class Checkpoint(NamedTuple):
    """A training as it stood after a chunk.

    Attributes
    ----------
    rows : TableRows
        What was learned so far.
    n_rows : int
        Rows learned, over all passes.
    rows_per_pass : int or None
        Rows of the data, if known.
    every : int
        Rows between checkpoints.
    settings, data : dict
        Settings and data on which the model depends; a resumed run must have the same.
    """

    rows: TableRows
    n_rows: int
    rows_per_pass: int | None
    every: int
    settings: dict[str, Any]
    data: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write atomically. :func:`mercer.load_model` can read it, too, and gives the model."""
        training = self._asdict()
        training.pop("rows")
        model = self.rows.model
        state = {"kind": type(model).__name__, "model": model.to_state(), "training": training}
        write_state(path, state)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a checkpoint.

        Raises
        ------
        FileNotFoundError
            If there is no checkpoint.
        ValueError
            If the file is damaged or not a checkpoint.
        """
        try:
            state = read_state(path)
        except ValueError as error:
            reason = str(error).removesuffix(RECOVER).rstrip()
            raise ValueError(f"{reason} {_AFRESH}") from error
        try:
            if "training" not in state:
                raise ValueError(f"it holds a finished {state['kind']}")
            training = state["training"]
            known, rows = training["rows_per_pass"], TableRows.of(model_of_state(state))
            if rows is None:
                raise ValueError("its model knows no columns")
            return cls(
                rows,
                check_integer("n_rows", training["n_rows"], low=1),
                None if known is None else check_integer("rows_per_pass", known, low=1),
                check_integer("every", training["every"], low=1),
                dict(training["settings"]),
                dict(training["data"]),
            )
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise ValueError(f"{path} is not a valid checkpoint: {error}. {_AFRESH}") from error

    def check_same(
        self, path: str | os.PathLike[str], settings: dict[str, Any], data: dict[str, Any]
    ) -> None:
        """Raise ``ValueError``, naming what differs, unless settings and data are the same."""
        for then, now, of_what in (
            (self.settings, settings, "settings"),
            (self.data, data, "data"),
        ):
            differences = [
                f"{name} (then {_short(then.get(name))}, now {_short(now.get(name))})"
                for name in dict.fromkeys([*then, *now])
                if then.get(name) != now.get(name)
            ]
            if differences:
                raise ValueError(
                    f"{path} was written by a training with other {of_what}: "
                    f"{'; '.join(differences)}. Going on would give a model of neither. Use the "
                    f"{of_what} of then, or start afresh without resuming."
                )


def _short(value: Any) -> str:
    """Text of a setting: components as a call, missing ones as the default, lists cut."""
    if value is None:
        return "the default"
    if isinstance(value, dict) and set(value) == {"type", "params"}:
        given = ", ".join(f"{k}={_short(v)}" for k, v in value["params"].items() if v is not None)
        return f"{value['type']}({given})"
    if isinstance(value, list):
        more = f", and {len(value) - _MOST_COLUMNS} more" if len(value) > _MOST_COLUMNS else ""
        return f"{', '.join(map(_short, value[:_MOST_COLUMNS])) or 'none'}{more}"
    return str(value)
