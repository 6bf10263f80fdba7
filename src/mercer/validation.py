"""Checks of parameters and numbers, with messages that say what is wrong, why, and the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mercer.exceptions import InPython, ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Check of a parameter by its name and value: it raises ``ValueError`` or returns.
Check = Callable[[str, Any], object]


def check_real(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    why: str = "",
    mend: str = "",
) -> float:
    """Return ``value`` as a float, or raise ``ValueError`` if it is outside its range."""
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int beyond all floats
            number = float(value)
    inside = (
        math.isfinite(number)
        and (number > low if open_low else number >= low)
        and (number < high if open_high else number <= high)
    )
    if not inside:
        left, right = (
            "(" if open_low or low == -math.inf else "[",
            ")" if open_high or high == math.inf else "]",
        )
        raise ParameterError(
            f"`{name}` must be a finite number in {left}{low:g}, {high:g}{right}, got {value!r}.",
            parameter=name,
            value=value,
            why=why,
            mend=mend,
        )
    return number


#: Compiled loops can count to this, and four times as far before their numbers overflow.
_LARGEST = 2**61 - 1


def check_integer(
    name: str,
    value: Any,
    *,
    low: int,
    high: int | None = None,
    why: str = "",
    mend: str | InPython = "",
) -> int:
    """Return ``value`` as an int, or raise ``ValueError`` if it is not one or out of range."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if high is None and whole and int(value) > _LARGEST:
        high = _LARGEST
    if not whole or int(value) < low or (high is not None and int(value) > high):
        span = f"of at least {low}" if high is None else f"between {low} and {high}"
        raise ParameterError(
            f"`{name}` must be an integer {span}, got {value!r}.",
            parameter=name,
            value=value,
            why=why,
            mend=mend,
        )
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[Any, ...], others: str = "") -> Any:
    """Return ``value`` if it is one of ``choices``, else raise ``ValueError`` listing them.

    The error also names what ``others`` the caller takes, such as numbers.
    """
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        listed = ", ".join([*map(repr, choices), *([others] if others else [])])
        hint = nearest(value, filter(_is_text, choices)) if _is_text(value) else ""
        raise ParameterError(
            f"`{name}` must be one of {listed}, got {value!r}.",
            parameter=name,
            value=value,
            mend=hint.lstrip(),
        )
    return value


def check_numbers(name: str, value: Any, each: str = "row") -> NDArray[np.float64]:
    """Return numbers as an array, or raise the error of NumPy with the name and the first place.

    What the array consists of is called ``each``: a row, or a column of one row.

    Examples
    --------
    >>> check_numbers("`scores`", ["0.5", "high"])
    Traceback (most recent call last):
        ...
    ValueError: `scores` must be numbers, in rows of one length, and are not (could not convert
    string to float: 'high', in row 1). Convert such values, or leave them out.
    """
    import numpy as np  # here, as `mercer --help` needs none

    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{name} must be numbers, in {each}s of one length, and are not "
            f"({str(error).rstrip('.')}{_place_of_none(value, each)}). Convert such values, or "
            "leave them out."
        ) from None


def _place_of_none(rows: Any, each: str) -> str:
    """Return the first row that is no numbers, in words; nothing if only lengths differ."""
    import numpy as np

    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
    for number, row in enumerate(rows if isinstance(rows, list | tuple | np.ndarray) else ()):
        try:
            np.asarray(row, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return f", in {each} {number}"
    return ""


# The same checks as objects, for tables of the parameters of a component.


def parameters(**checks: Check) -> Mapping[str, Check]:
    """Return the table of some parameters, in the order in which they are checked.

    Examples
    --------
    >>> table = parameters(level=real(low=0, high=1), degree=integer(low=1))
    >>> table["degree"]("degree", 0)
    Traceback (most recent call last):
        ...
    mercer.exceptions.ParameterError: `degree` must be an integer of at least 1, got 0.
    """
    return MappingProxyType(checks)


def real(
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    why: str = "",
) -> Check:
    """Return the check :func:`check_real` of a range."""
    return lambda name, value: check_real(
        name, value, low=low, high=high, open_low=open_low, open_high=open_high, why=why
    )


def positive(why: str = "") -> Check:
    """Return the check for a number above 0."""
    return real(low=0.0, open_low=True, why=why)


def integer(*, low: int, high: int | None = None, why: str = "") -> Check:
    """Return the check :func:`check_integer` of a range."""
    return lambda name, value: check_integer(name, value, low=low, high=high, why=why)


def truth() -> Check:
    """Return the check for True or False."""
    return choice(True, False)


def text() -> Check:
    """Return the check for any text."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise ParameterError(
                f"`{name}` must be text, got {value!r}.", parameter=name, value=value
            )
        return value

    return check


def choice(*choices: Any) -> Check:
    """Return the check :func:`check_choice` of some values."""
    return lambda name, value: check_choice(name, value, choices)


def or_none(check: Check) -> Check:
    """Return the check that lets None pass, too."""
    return lambda name, value: None if value is None else check(name, value)


def or_auto(check: Check) -> Check:
    """Return a check that accepts "auto" and values that pass another check."""
    automatic = choice("auto")
    return lambda name, value: (automatic if _is_text(value) else check)(name, value)


def nearest(
    name: str, names: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the sentence " Did you mean 'x'?" for the nearest of ``names``, or nothing.

    A name near one of the ``aliases`` is answered by what that stands for.

    Examples
    --------
    >>> nearest("Gausian", ["gaussian", "linear"])
    " Did you mean 'gaussian'?"
    >>> nearest("rbff", ["gaussian", "linear"], {"rbf": "gaussian"})
    " Did you mean 'gaussian'?"
    """
    known = {alias.lower(): str(one) for alias, one in aliases.items()}
    known |= {str(one).lower(): str(one) for one in names}
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[close[0]]!r}?" if close else ""


def name_among(value: Any, names: Iterable[str], aliases: Mapping[str, str]) -> str | None:
    """Return which of ``names`` a text is, or is an alias of; None if it is neither.

    Capitals do not matter, nor whether words are joined by hyphens, spaces or underscores.

    Examples
    --------
    >>> name_among("RBF", ["gaussian", "linear"], {"rbf": "gaussian"})
    'gaussian'
    """
    if not _is_text(value):
        return None
    text = "_".join(value.lower().replace("-", " ").split())
    return text if text in names else aliases.get(text)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
