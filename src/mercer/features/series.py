"""Random Maclaurin features: products of sign projections, for power series of inner products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mercer.features.feature_map import (
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    require_iid,
)
from mercer.features.streams import FACTORS, SCALARS, stream_of
from mercer.numerics import philox

__all__ = ["EXPONENTIAL_COEFFICIENTS", "SeriesMap"]

#: 1/n! up to degree 16: in [0, 1] the rest of the exponential series is 1e-15 of its sum.
EXPONENTIAL_COEFFICIENTS = tuple(1 / math.factorial(n) for n in range(17))

# Golden ratio in units of 2^-32: multiples of it fill [0, 1) evenly, for any number of them.
_GOLDEN = 2654435769
_WORD = 2**32
# Degrees rarer than this hardly occur but with an enormous weight.
_LEAST_PROBABILITY = 2.0**-16


class SeriesMap(FeatureMap):
    r"""Projections multiplied: :math:`z(x) = \sqrt{a_N / (m P[N])} \prod_{i \le N} \omega_i^T s x`.

    With random signs :math:`\omega_i` and a random degree N of probability about
    :math:`p^{-(N+1)} (p - 1)`, renormalised to the degrees with :math:`a_N > 0`, no less than
    2^-16. The kernel is :math:`\sum_n a_n \langle s x, s x' \rangle^n`, without bias. Each degree
    has its law, but the degrees of a block are spread evenly (multiples of the golden ratio from a
    random start), so that their numbers hardly vary.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    coefficients : tuple of float
        a_0, a_1, ..., none negative, one positive.
    scale : float
        Factor s of the inputs.
    base : float
        Base p of the probabilities, above 1.
    options : FeatureOptions
        The design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.
    kernel : str
        Name of the kernel, for messages.

    References
    ----------
    DSG, Table 1, whose probabilities hold for p = 2 only. P. Kar, H. Karnick, Random feature maps
    for dot product kernels, AISTATS 2012.
    """

    def __init__(
        self,
        n_inputs: int,
        coefficients: tuple[float, ...],
        scale: float,
        base: float,
        options: FeatureOptions,
        path: int = 0,
        *,
        kernel: str,
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, kernel)
        a = np.array(coefficients)
        self.scale = scale
        self.degrees = np.flatnonzero(a > 0)
        self.in_order = self.degrees.size > 1
        gaps = (self.degrees - self.degrees[0]).astype(float)
        probabilities = np.maximum(base**-gaps, _LEAST_PROBABILITY)
        probabilities /= probabilities.sum()
        self.cumulated = np.cumsum(probabilities)
        self.weights = np.sqrt(a[self.degrees] / probabilities)

    def prepare(self, X: Floats) -> Prepared:
        """Multiply inputs by their scale."""
        return (X * X.dtype.type(self.scale),)

    def _choices(self, seed: int, block: int, n_features: int) -> NDArray[np.intp]:
        """Which of ``degrees`` each feature has."""
        start = philox.words(seed, block, stream_of(self.path, SCALARS), 1, 1)[0, 0]
        steps = np.arange(n_features, dtype=np.uint64) * np.uint64(_GOLDEN)
        u = ((np.uint64(start) + steps) % np.uint64(_WORD) + 0.5) / _WORD
        return np.minimum(np.searchsorted(self.cumulated, u), len(self.degrees) - 1)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw weights; then, factor by factor, which columns have it, and its signs."""
        chosen = self._choices(seed, block, n_features)
        degrees = self.degrees[chosen]
        numbers: list[NDArray[Any]] = [self.weights[chosen].astype(dtype)]
        for factor in range(int(degrees.max(initial=0))):
            columns = np.flatnonzero(degrees > factor)
            stream = stream_of(self.path, FACTORS + factor)
            signs = philox.signs(seed, block, stream, n_features, self.n_inputs, dtype)
            numbers += [columns, np.ascontiguousarray(signs[:, columns])]
        return tuple(numbers)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: weights times products of projections."""
        out[:] = numbers[0] * out.dtype.type(1 / math.sqrt(out.shape[1]))
        for columns, signs in zip(numbers[1::2], numbers[2::2], strict=True):
            _multiply_columns(prepared[0] @ signs, columns, out)


@njit(cache=True, nogil=True)
def _multiply_columns(P, columns, out):  # type: ignore[no-untyped-def]
    for i in range(P.shape[0]):
        for j in range(P.shape[1]):
            out[i, columns[j]] *= P[i, j]
