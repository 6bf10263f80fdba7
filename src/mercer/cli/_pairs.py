"""Options of ``mercer fit`` on learning from pairs of rows."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from mercer._validation import check_real
from mercer.buffers import FIFO, Buffer, PerClassFIFO, Reservoir

__all__ = ["Normalize", "PairKernelName", "PairLabel", "make_buffer", "make_step_size"]


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


_NAMED = ("auto", "all", "previous")
_KINDS: dict[str, type[Buffer]] = {"fifo": FIFO, "reservoir": Reservoir}


def make_buffer(text: str | None) -> str | Buffer | None:
    """Read ``--buffer``.

    Raises
    ------
    ValueError
        If it is none of the choices.

    Examples
    --------
    >>> make_buffer("5"), make_buffer("fifo:20"), make_buffer("all")
    (PerClassFIFO(size=5), FIFO(size=20), 'all')
    """
    if text is None or text in _NAMED:
        return text
    name, colon, size = text.partition(":")
    try:
        if name in _KINDS:
            return _KINDS[name](int(size)) if colon else _KINDS[name]()
        return PerClassFIFO(int(text))
    except ValueError:
        raise ValueError(
            "`--buffer` takes a number of rows to keep of each of two classes, such as 10, or "
            f"fifo:50, reservoir:100, previous, all or auto, got {text!r}."
        ) from None


def make_step_size(text: str | None) -> Any:
    """Read ``--step-size``: a number, or the name of a rule.

    Raises
    ------
    ValueError
        If it is neither, or not above 0.

    Examples
    --------
    >>> make_step_size("0.5"), make_step_size("theory")
    (0.5, 'theory')
    """
    if text in (None, "auto", "theory"):
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"`--step-size` takes a number, auto or theory, got {text!r}.") from None
    return check_real("step_size", number, low=0.0, open_low=True)
