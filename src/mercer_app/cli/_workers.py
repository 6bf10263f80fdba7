"""Workers of an engine, as its options declare them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from mercer.exceptions import ParameterError
from mercer.validation import check_integer
from mercer_app.cli._choices import EngineName
from mercer_app.models.shards import Workers

ONE_THREAD = "Each worker has one thread; --workers says how many there are."


class EngineOptions(Protocol):
    """Options of commands that an engine may do."""

    @property
    def engine(self) -> EngineName | None: ...

    @property
    def workers(self) -> int | None: ...

    @property
    def address(self) -> str | None: ...

    @property
    def log(self) -> Path | None: ...


def workers_of(options: EngineOptions) -> Workers | None:
    """Return the workers' engine; None for this process, as without an engine.

    Raises
    ------
    ParameterError
        If options of an engine are given without one.
    """
    given = {"workers": options.workers, "address": options.address, "log": options.log}
    if options.engine is None:
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    f"`--{name} {value}` is about the workers of an engine, but none is chosen.",
                    parameter=name,
                    value=value,
                    mend="Add --engine ray or dask, or leave it out.",
                )
        return None
    if options.workers is not None:
        check_integer("n_workers", options.workers, low=1)
    return Workers(options.engine.value, options.workers, options.address)


def check_alone(options: EngineOptions, why: dict[str, str]) -> None:
    """Refuse options that do not go together with an engine.

    Parameters
    ----------
    options : record of options
        Options of a command; nothing is refused without an engine.
    why : dict of str to str
        Names of options that must be as they are by default, and a sentence why.
    """
    if options.engine is None:
        return
    for name, reason in why.items():
        value = getattr(options, name)
        if value != type(options).__dataclass_fields__[name].default:  # type: ignore[attr-defined]
            option = f"--{name.replace('_', '-')}"
            shown = option if value is True else f"{option} {value}"
            raise ParameterError(
                f"`{shown}` does not go together with `--engine {options.engine}`.",
                parameter=name,
                value=value,
                why=reason,
                mend="Leave one of them out.",
            )


@contextmanager
def logged(file: Path | None) -> Iterator[None]:
    """Write what the workers of an engine did to a file meanwhile, a line for each task."""
    if file is None:
        yield
        return
    logger = logging.getLogger("mercer_cluster")
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        logger.error("%s", error)
        raise
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
        handler.close()
