"""Values that options of the command accept, and how to declare an option."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from mercer.validation import nearest


class Task(StrEnum):
    """Choices of ``--task``."""

    auto = "auto"
    classification = "classification"
    regression = "regression"
    rank = "rank"
    novelty = "novelty"
    gp = "gp"


class ExpansionName(StrEnum):
    """Choices of ``--expansion``."""

    auto = "auto"
    dictionary = "dictionary"
    komp = "komp"
    full = "full"
    budget = "budget"
    random_features = "random_features"
    stream = "stream"


class Strategy(StrEnum):
    """Choices of ``--strategy``."""

    merge = "merge"
    project = "project"
    remove = "remove"


class Mode(StrEnum):
    """Choices of ``--mode``."""

    newton = "newton"
    faithful = "faithful"
    cyclic = "cyclic"


class ClassWeight(StrEnum):
    """Choices of ``--class-weight``."""

    balanced = "balanced"


class Scaling(StrEnum):
    """Choices of ``--scaling``."""

    auto = "auto"
    standardize = "standardize"
    common = "common"
    none = "none"


class PairKernelName(StrEnum):
    """Choices of ``--pair-kernel``."""

    difference = "difference"
    antisymmetric = "antisymmetric"
    symmetric = "symmetric"
    mlpk = "mlpk"
    product = "product"


class PairLabel(StrEnum):
    """Choices of ``--pair-label``."""

    sign = "sign"
    difference = "difference"
    same = "same"


class Normalize(StrEnum):
    """Choices of ``--normalize``."""

    auto = "auto"
    opposite = "opposite"
    all = "all"
    balanced = "balanced"


class EngineName(StrEnum):
    """Choices of ``--engine``."""

    ray = "ray"
    dask = "dask"
    here = "here"


class StreamTask(StrEnum):
    """Choices of ``--task`` for streams."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


class TableFormat(StrEnum):
    """Choices of ``--format`` for tables."""

    csv = "csv"
    arrow = "arrow"


class StreamFormat(StrEnum):
    """Choices of ``--format`` for streams."""

    json = "json"
    arrow = "arrow"


class ValueMethod(StrEnum):
    """Choices of ``--method`` for value functions."""

    td = "td"
    gtd2 = "gtd2"
    tdc = "tdc"
    residual = "residual"
    pkgtd = "pkgtd"


def option(text: str, panel: str, *names: str) -> Any:
    """Return an option with a help text, in a panel of the help.

    Parameters
    ----------
    text, panel : str
        The help, and the panel.
    *names : str
        Names of the option; by default derived from the field's name.
    """
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)


def choice(kind: type[StrEnum], text: str, panel: str | None) -> Any:
    """Option with the values of an enumeration; a mistyped one is answered by the nearest.

    Parameters
    ----------
    kind : type of StrEnum
        The values.
    text, panel : str
        Help, and the panel of the help that it is in.
    """

    def value(word: str) -> StrEnum:  # a function: click asks a parser for its name
        return _one_of(kind, word)

    return typer.Option(
        help=text,
        rich_help_panel=panel,
        show_default=False,
        parser=value,
        metavar=f"[{'|'.join(kind)}]",
    )


def _one_of(kind: type[StrEnum], text: str) -> StrEnum:
    if text in list(kind):
        return kind(text)
    listed = ", ".join(map(repr, map(str, kind)))
    others: Mapping[str, str] = {}
    if kind is ExpansionName:
        # Only here, where something is wrong: the rest needs no more than typer.
        from mercer.expansions import ELSEWHERE as others  # noqa: N811
    raise typer.BadParameter(f"{text!r} is not one of {listed}.{nearest(text, kind, others)}")
