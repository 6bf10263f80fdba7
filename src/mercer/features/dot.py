"""Random features of kernels of inner products: signs, arc-cosine ramps, series, sketches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from mercer.features.feature_map import (
    FACTORS,
    SCALARS,
    SIGNS,
    WEIGHTS,
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    require_iid,
    stream_of,
)
from mercer.jit import jit
from mercer.numerics import philox

#: 1/n! up to degree 16: in [0, 1] the rest of the exponential series is 1e-15 of its sum.
EXPONENTIAL_COEFFICIENTS = tuple(1 / math.factorial(n) for n in range(17))

# Golden ratio in units of 2^-32: its multiples fill [0, 1) evenly, for any number of them.
_GOLDEN = 2654435769
_WORD = 2**32
# Degrees rarer than this hardly occur but with an enormous weight.
_LEAST_PROBABILITY = 2.0**-16


class SignMap(FeatureMap):
    r"""Projections on random signs: :math:`z_i(x) = \langle \omega_i, x \rangle / \sqrt{m}`.

    With independent :math:`\omega_{ij} = \pm 1`, :math:`E \omega \omega^T = I` and the kernel is
    the inner product; of the square roots of the inputs, for Hellinger's kernel.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    options : FeatureOptions
        The design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.
    kernel : str, default="Linear"
        Name of the kernel, for messages.

    References
    ----------
    DSG, Table 1, the row of Hellinger's kernel, without its factor 2.
    """

    def __init__(
        self, n_inputs: int, options: FeatureOptions, path: int = 0, *, kernel: str = "Linear"
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, kernel)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw signs."""
        stream = stream_of(self.path, SIGNS)
        return (philox.signs(seed, block, stream, n_features, self.n_inputs, dtype),)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: projections."""
        np.matmul(prepared[0], numbers[0], out=out)
        out *= 1 / math.sqrt(out.shape[1])


class ArcCosineMap(FeatureMap):
    r"""Ramps to a power: :math:`z_i(x) = \sqrt{2/m}\, \Theta(\omega_i^T x) (\omega_i^T x)^n`.

    With independent normal :math:`\omega_i` and the step function :math:`\Theta`, 0 at 0.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    order : int
        Power n, at least 0.
    options : FeatureOptions
        The design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.

    References
    ----------
    DSG, Table 1, where the power is printed one too high.
    """

    def __init__(self, n_inputs: int, order: int, options: FeatureOptions, path: int = 0) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, "ArcCosine")
        self.order = order

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw normal weights."""
        stream = stream_of(self.path, WEIGHTS)
        return (philox.normals(seed, block, stream, n_features, self.n_inputs, dtype),)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: ramps of projections, to their power."""
        np.matmul(prepared[0], numbers[0], out=out)
        if self.order == 0:
            np.heaviside(out, 0, out=out)
        else:
            np.maximum(out, 0, out=out)
            ramps = out.copy() if self.order > 1 else out
            for _ in range(1, self.order):
                out *= ramps
        out *= math.sqrt(2 / out.shape[1])


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


@jit(nogil=True)
def _multiply_columns(P, columns, out):  # type: ignore[no-untyped-def]
    for i in range(P.shape[0]):
        for j in range(P.shape[1]):
            out[i, columns[j]] *= P[i, j]


class TensorSketchMap(FeatureMap):
    r"""Sketch of the p-fold tensor power of :math:`x^+ = [\sqrt{c}, \sqrt{s}\, x]`.

    A count sketch adds every coordinate, with a random sign, to one of m random places. The cyclic
    convolution of p independent ones, the product of their Fourier transforms, is a count sketch of
    the tensor power; its inner products are :math:`(s \langle x, x' \rangle + c)^p` on average.
    A block costs O(p (d + m log m)) a row, instead of the p m d of products of projections.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    degree : int
        Power p.
    offset : float
        Offset c, at least 0.
    scale : float
        Scale s, above 0.
    options : FeatureOptions
        The design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.

    Notes
    -----
    Places are fractions of a block, so a longer block is not a shorter one continued.

    References
    ----------
    N. Pham, R. Pagh, Fast and scalable polynomial kernels via explicit feature maps, KDD 2013. DSG,
    Table 1, without the offset's coordinate.
    """

    def __init__(
        self,
        n_inputs: int,
        degree: int,
        offset: float,
        scale: float,
        options: FeatureOptions,
        path: int = 0,
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, "Polynomial")
        self.degree = degree
        self.offset = offset
        self.scale = scale

    def prepare(self, X: Floats) -> Prepared:
        """Write scaled inputs after a column for the offset."""
        extended = np.empty((X.shape[0], X.shape[1] + 1), dtype=X.dtype)
        extended[:, 0] = math.sqrt(self.offset)
        np.multiply(X, math.sqrt(self.scale), out=extended[:, 1:])
        return (extended,)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw places and signs of the coordinates, a row for each factor."""
        streams = [stream_of(self.path, FACTORS + factor) for factor in range(self.degree)]
        words = np.array(
            [philox.words(seed, block, stream, 1, self.n_inputs + 1)[:, 0] for stream in streams]
        )
        # The high bits choose the place, the lowest one the sign.
        places = (words.astype(np.uint64) * np.uint64(n_features)) >> np.uint64(32)
        return places.astype(np.int64), (1.0 - 2.0 * (words & 1)).astype(dtype)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: cyclic convolutions of count sketches."""
        places, signs = numbers
        _count_sketch(prepared[0], places[0], signs[0], out)
        if self.degree == 1:
            return
        spectrum = fft.rfft(out, axis=1)
        for factor in range(1, self.degree):
            _count_sketch(prepared[0], places[factor], signs[factor], out)
            spectrum *= fft.rfft(out, axis=1)
        out[:] = fft.irfft(spectrum, n=out.shape[1], axis=1)


@jit(nogil=True)
def _count_sketch(X, places, signs, out):  # type: ignore[no-untyped-def]
    out[:] = 0
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            out[i, places[k]] += signs[k] * X[i, k]
