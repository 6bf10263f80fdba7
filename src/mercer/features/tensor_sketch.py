"""TensorSketch: random features of the polynomial kernel by count sketches and FFTs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from scipy import fft

from mercer.features.feature_map import (
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    require_iid,
)
from mercer.features.streams import FACTORS, stream_of
from mercer.numerics import philox

__all__ = ["TensorSketchMap"]


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
        """Put scaled inputs behind a column for the offset."""
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


@njit(cache=True, nogil=True)
def _count_sketch(X, places, signs, out):  # type: ignore[no-untyped-def]
    out[:] = 0
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            out[i, places[k]] += signs[k] * X[i, k]
