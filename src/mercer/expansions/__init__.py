"""Expansions: how a function stays small, by compression, a budget, a dictionary or features.

Expansions hold parameters only. The functions themselves are in :mod:`mercer.functions`.
"""

from mercer.expansions.auto import Auto
from mercer.expansions.dictionary import Dictionary
from mercer.expansions.expansion import KOMP, Budget, Expansion, Full
from mercer.expansions.random_features import RandomFeatures
from mercer.expansions.recursive import (
    ALD,
    FixedBudget,
    Quantized,
    RecursiveLeastSquares,
    Tracking,
)
from mercer.expansions.stream import Stream
from mercer.validation import nearest

__all__ = [
    "ALD",
    "KOMP",
    "Auto",
    "Budget",
    "Dictionary",
    "Expansion",
    "FixedBudget",
    "Full",
    "Quantized",
    "RandomFeatures",
    "RecursiveLeastSquares",
    "Stream",
    "Tracking",
    "as_expansion",
]

# Names in other libraries, for the error message. Here each expansion has one name, because its
# settings differ from theirs.
ELSEWHERE = {
    "bsgd": "budget",
    "fourier": "random_features",
    "inducing_points": "dictionary",
    "landmarks": "dictionary",
    "norma": "full",
    "nystroem": "dictionary",
    "nystrom": "dictionary",
    "omp": "komp",
    "orthogonal_random_features": "random_features",
    "polk": "komp",
    "random_fourier_features": "random_features",
    "rbf_sampler": "random_features",
    "rff": "random_features",
}


def as_expansion(value: object) -> Expansion:
    """Turn a name or an expansion into an expansion.

    Parameters
    ----------
    value : str or Expansion
        ``"auto"`` (:class:`Auto`, which estimators use if they can learn by sums), ``"komp"``,
        ``"full"``, ``"budget"``, ``"dictionary"``, ``"random_features"`` (block size chosen by the
        number of rows), ``"stream"``, or an expansion, which is returned unchanged.

    Raises
    ------
    ValueError
        For any other value; the message lists the names.

    Examples
    --------
    >>> as_expansion("auto")
    Auto()
    """
    if isinstance(value, Expansion):
        return value
    if value == "random_features":
        return RandomFeatures(block_size="auto")
    names: dict[str, type[Expansion]] = {
        "auto": Auto,
        "komp": KOMP,
        "full": Full,
        "budget": Budget,
        "dictionary": Dictionary,
        "stream": Stream,
    }
    if isinstance(value, str) and value.lower() in names:
        return names[value.lower()]()
    hint = nearest(value, [*names, "random_features"], ELSEWHERE) if isinstance(value, str) else ""
    raise ValueError(
        f"`expansion` must be 'auto', 'komp', 'full', 'budget', 'dictionary', 'random_features', "
        f"'stream' or an object of mercer.expansions, got {value!r}.{hint}"
    )
