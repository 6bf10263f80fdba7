"""Options of ``mercer fit`` that together are one part of the model."""

from __future__ import annotations

import re
from typing import Any

from mercer._validation import check_real
from mercer.buffers import FIFO, Buffer, PerClassFIFO, Reservoir
from mercer.cli._options import ExpansionName
from mercer.estimators import KernelRanker
from mercer.estimators.asking import chosen_expansion
from mercer.exceptions import ParameterError
from mercer.expansions import (
    KOMP,
    Auto,
    Budget,
    Dictionary,
    Expansion,
    Full,
    RandomFeatures,
    as_expansion,
)
from mercer.kernels import Kernel, as_kernel
from mercer.losses import Loss, Quantile
from mercer.risks import Risk, as_risk

__all__ = [
    "make_buffer",
    "make_expansion",
    "make_kernel",
    "make_loss",
    "make_memory",
    "make_ridge",
    "make_risk",
    "make_step_size",
]


# Options that each expansion takes, and what it calls them.
_TAKES: dict[str, dict[str, str]] = {
    "auto": {
        name: name
        for name in ("budget_seconds", "max_memory", "forgetting", "resumable", "block_length")
    },
    "dictionary": {"max_size": "size", "ridge": "ridge", "forgetting": "forgetting"},
    "komp": {"max_size": "max_size", "tolerance": "tolerance", "parsimony": "parsimony"},
    "budget": {"max_size": "size", "strategy": "strategy"},
    "full": {},
    "random_features": {
        "mode": "mode",
        "block_size": "block_size",
        "max_blocks": "max_blocks",
        "ridge": "ridge",
    },
}

_NAMED_BUFFERS = ("auto", "all", "previous")
_BUFFERS: dict[str, type[Buffer]] = {"fifo": FIFO, "reservoir": Reservoir}

# Bytes of a unit, by its first letter.
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def make_loss(name: str | None, quantiles: str | None) -> str | Loss | None:
    """Join ``--loss`` and ``--quantiles``.

    Examples
    --------
    >>> make_loss(None, "0.1,0.9")
    Quantile(levels=[0.1, 0.9])
    """
    if quantiles is None:
        return name
    if name not in (None, "quantile"):
        raise ValueError(
            f"`--quantiles` is for the quantile loss, but `--loss {name}` was given. Leave one out."
        )
    try:
        levels = [float(word) for word in quantiles.split(",")]
    except ValueError:
        raise ValueError(
            f"`--quantiles` takes numbers between 0 and 1 with commas, such as 0.1,0.5,0.9, got "
            f"{quantiles!r}."
        ) from None
    if len(set(levels)) < len(levels):
        raise ValueError(f"`--quantiles` names a level twice: {quantiles!r}.")
    return Quantile(levels)


def make_kernel(name: str | None, length_scale: str | None) -> Kernel | str | None:
    """Join ``--kernel`` and ``--length-scale``.

    Examples
    --------
    >>> make_kernel("laplacian", "2")
    Laplacian(length_scale=2.0)
    """
    if length_scale is None:
        return name
    kernel = as_kernel(name or "gaussian")
    if "length_scale" not in kernel.get_params():
        raise ValueError(f"The kernel {name!r} has no length scale: leave `--length-scale` out.")
    try:
        return kernel.set_params(length_scale=float(length_scale))
    except ValueError as error:
        if length_scale.replace(".", "").replace("-", "").isdigit():
            raise error
    return kernel.set_params(length_scale=length_scale)


def make_risk(text: str | None) -> Risk | None:
    """Read ``--risk``: the name of a risk, possibly with a number.

    Examples
    --------
    >>> make_risk("cvar:0.95")
    CVaR(level=0.95)
    """
    try:
        return as_risk(text)
    except ValueError as error:
        if isinstance(error, ParameterError) and error.parameter == "risk":
            raise
        # What is wrong is a parameter of it, whose name nobody wrote.
        raise ValueError(f"`--risk {text}` cannot be used. {error}") from None


def make_ridge(ridges: str | None) -> float | list[float] | None:
    """Read ``--ridge``: a number, or several to choose from.

    Examples
    --------
    >>> make_ridge("0.01,0.001")
    [0.01, 0.001]
    """
    if ridges is None:
        return None
    try:
        values = [float(word) for word in ridges.split(",")]
    except ValueError:
        raise ValueError(
            f"`--ridge` takes a number, or several with commas, such as 0.01,0.001, got {ridges!r}."
        ) from None
    return values if len(values) > 1 else values[0]


def make_memory(text: str | None) -> int | None:
    """Read ``--max-memory``: bytes, or a number with K, M, G or T, which are powers of 1,024.

    Examples
    --------
    >>> make_memory("512M"), make_memory("1.5 GiB"), make_memory("2000000")
    (536870912, 1610612736, 2000000)
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(?:([KMGT])(?:i?B)?|B)?\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(
            f"`--max-memory` takes a number of bytes, or one with a unit, such as 512M or 2G, got "
            f"{text!r}."
        )
    return int(float(found[1]) * _UNITS.get((found[2] or "").upper(), 1))


def make_expansion(
    name: ExpansionName | None,
    options: dict[str, Any],
    seed: int = 0,
    ranker: KernelRanker | None = None,
) -> Expansion | None:
    """Join the options of an expansion; None for that of the estimator.

    Parameters
    ----------
    name : ExpansionName or None
        ``--expansion``; None goes by the options that were given.
    options : dict of str to object
        Names of options with underscores; None for those not given.
    seed : int, default=0
        Of random features, and of the race.
    ranker : KernelRanker, default=None
        Of a ranking, whose default follows its buffer.

    Raises
    ------
    ValueError
        If the expansion has no such option, or for a wrong value.

    Examples
    --------
    >>> make_expansion(None, {"tolerance": 0.01})
    KOMP(max_size=1000, tolerance=0.01)
    """
    given = {key: value for key, value in options.items() if value is not None}
    if not given and name in (None, ExpansionName.auto):
        return None
    chosen = "auto" if name is None else name.value
    if name is None:
        if given.keys() <= _TAKES["komp"].keys():
            automatic = "auto" if ranker is None else chosen_expansion(ranker)
            return KOMP(**{**as_expansion(automatic).get_params(), **given})
        if "strategy" in given:
            chosen = "budget"
        elif not given.keys() & _TAKES["auto"].keys():
            chosen = "random_features"
    taken = _TAKES[chosen]
    refused = [f"--{key.replace('_', '-')}" for key in given if key not in taken]
    if refused:
        raise ValueError(
            f"The expansion {chosen!r} has no {' and no '.join(refused)}: leave it "
            "out, or choose an expansion that has it. auto takes "
            "--budget-seconds, --max-memory, --forgetting, --resumable and --block-length, "
            "dictionary takes "
            "--max-size, --ridge and --forgetting, komp takes --max-size, --tolerance and "
            "--parsimony, budget takes --max-size and --strategy, random_features takes --mode, "
            "--block-size, --max-blocks and --ridge, full takes none."
        )
    parameters = {taken[key]: value for key, value in given.items()}
    if chosen == "random_features":
        return RandomFeatures(**{"block_size": "auto", **parameters, "seed": seed})
    if chosen == "auto":
        return Auto(**parameters, seed=seed)
    if chosen == "dictionary":
        return Dictionary(**parameters, seed=seed)
    kinds = {"komp": KOMP, "budget": Budget, "full": Full}
    expansion: Expansion = kinds[chosen](**parameters)
    return expansion


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
    if text is None or text in _NAMED_BUFFERS:
        return text
    name, colon, size = text.partition(":")
    try:
        if name in _BUFFERS:
            return _BUFFERS[name](int(size)) if colon else _BUFFERS[name]()
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
