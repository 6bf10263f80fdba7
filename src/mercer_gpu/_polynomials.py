"""Coefficients that every device shares, so that features agree to rounding.

They are the float32 numbers of :mod:`mercer.numerics.cosine` and of the logarithm in
:mod:`mercer.numerics.philox`, repeated here because compiled code cannot look them up there; a test
compares them.
"""

from __future__ import annotations

# Least squares of cos(2 pi sqrt(q)) at Chebyshev nodes of q in [0, 1/4], constant term first.
COSINE32 = (
    1.0,
    -19.739204406738,
    64.939117431641,
    -85.450141906738,
    60.167629241943,
    -25.967599868774,
    6.528658390045,
)
COSINE64 = (
    0.9999999999999922,
    -19.739208802173543,
    64.93939402199511,
    -85.45681717242462,
    60.2446404844402,
    -26.426243561550507,
    7.903416197644273,
    -1.7137127505035306,
    0.279683491356493,
    -0.03192978687068001,
)

#: ln q = s (c0 + c1 s^2 + ...) with s = (q - 1) / (q + 1), that is 2 atanh(s), to the 9th power.
LOG_SERIES = (2.0, 2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0)
LN_2 = 0.6931471805599453
SQRT_HALF = 0.7071067811865476

#: Adding 1.5 * 2^23 leaves a float32 no bits for a fraction, so that subtracting it again rounds.
ROUND32 = 12582912.0
