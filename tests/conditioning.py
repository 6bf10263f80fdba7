"""How far rounding carries a computation: the tolerance for two ways to compute the same.

Another processor, another library of linear algebra, sparse instead of dense rows: the formula is
the same, the last digits are not. What becomes of those depends on the computation. KOMP, for one,
keeps a newcomer until its squared distance from the span of the others is 1e-10 of its own square:
one rounding may come out ten thousand million times as large, though it hardly ever does. That
bound would let almost anything pass, and a number seen on one machine fails on the next. So a test
measures, where it runs, what a change of the last digits does to the very answer that it compares.
"""

import numpy as np

# Of draws of the last digits, and of the farthest that any of them moved the answer. Over many
# data sets two roundings of KOMP were at most twice as far apart as the farthest of four draws.
DRAWS = 4
MARGIN = 30.0
# A tolerance beyond this share of the answer tells nothing about the formula.
WORTHLESS = 1e-6

UNIT = np.finfo(np.float64).eps


def rounding(answer, *inputs):
    """Return how far apart two roundings of ``answer(*inputs)`` may be, in absolute terms."""
    rng = np.random.default_rng(0)
    value = answer(*inputs)
    scale = np.abs(value).max()
    moved = UNIT * scale
    for _ in range(DRAWS):
        near = [x * (1.0 + UNIT * rng.integers(-1, 2, size=x.shape)) for x in inputs]
        moved = max(moved, np.abs(answer(*near) - value).max())
    assert MARGIN * moved < WORTHLESS * scale, "too ill-conditioned for a comparison"
    return MARGIN * moved
