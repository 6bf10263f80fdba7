"""How a function stays small: keep all, compress within a tolerance, or a fixed budget."""

from mercer.expansions._base import Expansion
from mercer.expansions.budget import Budget
from mercer.expansions.full import Full
from mercer.expansions.kernel_expansion import KernelExpansion
from mercer.expansions.komp import KOMP

__all__ = ["KOMP", "Budget", "Expansion", "Full", "KernelExpansion", "as_expansion"]


def as_expansion(value: object) -> Expansion:
    """Turn a name or an expansion into an expansion.

    Parameters
    ----------
    value : str or Expansion
        ``"auto"`` (KOMP with at most 1,000 points), ``"komp"``, ``"full"``, ``"budget"`` or an
        expansion, which is returned as it is.

    Raises
    ------
    ValueError
        For anything else, with the names that exist.

    Examples
    --------
    >>> as_expansion("auto")
    KOMP(max_size=1000)
    """
    if isinstance(value, Expansion):
        return value
    if value == "auto":
        return KOMP(max_size=1000)
    names: dict[str, type[Expansion]] = {"komp": KOMP, "full": Full, "budget": Budget}
    if isinstance(value, str) and value.lower() in names:
        return names[value.lower()]()
    raise ValueError(
        f"`expansion` must be 'auto', 'komp', 'full', 'budget' or an object of "
        f"mercer.expansions, got {value!r}."
    )
