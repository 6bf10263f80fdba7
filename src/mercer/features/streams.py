"""Which stream of the generator a number of a block comes from.

The stream word is ``path * 65536`` plus a local number, so that the parts of a composite kernel,
which have different paths, never share a number.
"""

from __future__ import annotations

__all__ = [
    "FACTORS",
    "MOST_PATHS",
    "NORMS",
    "PHASES",
    "SCALARS",
    "SHIFTS",
    "SIGNS",
    "WEIGHTS",
    "stream_of",
]

WEIGHTS, PHASES, SCALARS, SIGNS = 0, 1, 2, 3
#: Norms of structured frequencies, and what shifts a sequence of points.
NORMS, SHIFTS = 4, 5
#: Local number of the first factor of features that are products.
FACTORS = 16
#: Paths there are: both halves of the word have 16 bits.
MOST_PATHS = 2**16


def stream_of(path: int, local: int) -> int:
    """Stream word of a part.

    Parameters
    ----------
    path : int
        Place in a composite kernel, below 65536.
    local : int
        Number within the part, below 65536.

    Examples
    --------
    >>> stream_of(1, FACTORS)
    65552
    """
    return path * MOST_PATHS + local
