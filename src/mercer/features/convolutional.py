"""Random features of kernels of images: a random filter at every position, averaged by parts."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.features.composite import place_columns
from mercer.features.feature_map import (
    ROTATIONS,
    FeatureMap,
    Floats,
    Numbers,
    Prepared,
    stream_of,
)
from mercer.numerics import philox

# Filter values held at once, before they are averaged.
_MOST_VALUES = 2**20


@functools.cache
def patch_columns(
    image_shape: tuple[int, int, int],
    patch_shape: tuple[int, int],
    stride: int,
    grid: tuple[int, int],
) -> tuple[NDArray[np.intp], ...]:
    """Columns of the pixels of all patches, for each part of the image.

    Parameters
    ----------
    image_shape : (int, int, int)
        Height, width and channels; channels vary fastest in a row.
    patch_shape : (int, int)
        Height and width of a patch, which has all channels.
    stride : int
        Distance of neighbouring positions.
    grid : (int, int)
        Parts by height and by width; positions are divided as evenly as can be.

    Returns
    -------
    parts : tuple of ndarray of shape (n_positions, n_pixels)
        Part after part, by rows of the grid.

    Examples
    --------
    >>> patch_columns((1, 4, 1), (1, 2), 1, (1, 1))
    (array([[0, 1],
           [1, 2],
           [2, 3]]),)
    """
    (height, width, channels), (tall, wide) = image_shape, patch_shape
    pixels = np.arange(height * width * channels).reshape(height, width, channels)
    bands = np.array_split(np.arange(0, height - tall + 1, stride), grid[0])
    lanes = np.array_split(np.arange(0, width - wide + 1, stride), grid[1])
    return tuple(
        np.stack([pixels[i : i + tall, j : j + wide].ravel() for i in band for j in lane])
        for band in bands
        for lane in lanes
    )


def patches(X: Floats, columns: NDArray[np.intp]) -> Floats:
    """Patches of one part, all of a row's one after the other, shape (n * n_positions, n_pixels).

    Parameters
    ----------
    X : ndarray of shape (n, n_inputs)
        Images.
    columns : ndarray of shape (n_positions, n_pixels)
        One of :func:`patch_columns`.
    """
    pixels: Floats = np.take(X, columns.ravel(), axis=1)
    return pixels.reshape(-1, columns.shape[1])


class ConvolutionalMap(FeatureMap):
    r"""Random filters averaged over positions of an image.

    .. math:: z_i(x) = \frac{1}{\sqrt{C}\, |P|} \sum_{p \in P} \varphi_{\omega_i}(x_p).

    A filter :math:`\omega_i` is a random feature of the kernel of patches :math:`x_p`. It belongs
    to one of the C parts of the image, and is averaged over the positions P there. Parts have
    filters of their own, and as many columns each as can be.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.
    inner : FeatureMap
        Features of patches.
    parts : tuple of ndarray of shape (n_positions, n_pixels)
        Result of :func:`patch_columns`.
    rotated : bool
        Whether columns are rotated by a random number of places, so that every column alone has
        the kernel as its expectation, as a product of maps needs it.

    Notes
    -----
    A block needs a column for each part.

    References
    ----------
    DSG, Section 2, "hierarchical kernels".
    """

    def __init__(
        self,
        n_inputs: int,
        inner: FeatureMap,
        parts: tuple[NDArray[np.intp], ...],
        *,
        rotated: bool,
    ) -> None:
        super().__init__(n_inputs, inner.path)
        self.inner = inner
        self.parts = parts
        self.rotated = rotated
        self.in_order = inner.in_order or len(parts) > 1

    def _ends(self, n_features: int) -> list[int]:
        """Columns before each part, and all of them."""
        return [n_features * part // len(self.parts) for part in range(len(self.parts) + 1)]

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw a rotation, and filters for each part; a header has the sizes of their numbers."""
        n_parts = len(self.parts)
        if n_features < n_parts:
            raise ValueError(
                f"Random features of images in {n_parts} parts must be at least {n_parts}, got "
                f"{n_features}: each part needs one of its own."
            )
        shift = 0
        if self.rotated:
            word = philox.words(seed, block, stream_of(self.path, ROTATIONS), 1, 1)[0, 0]
            shift = (int(word) * n_features) >> 32
        ends = self._ends(n_features)
        drawn = [
            self.inner.draw(seed, block * n_parts + part, ends[part + 1] - ends[part], dtype)
            for part in range(n_parts)
        ]
        header = np.array([shift, *map(len, drawn)])
        return (header, *(numbers for part in drawn for numbers in part))

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: means over positions."""
        shift, *counts = (int(number) for number in numbers[0])
        ends, first = self._ends(out.shape[1]), 1
        for part, (columns, count) in enumerate(zip(self.parts, counts, strict=True)):
            Z = np.empty((out.shape[0], ends[part + 1] - ends[part]), out.dtype)
            self._average(prepared[0], columns, numbers[first : first + count], Z)
            place_columns(Z, (shift + ends[part]) % out.shape[1], out)
            first += count

    def _average(self, X: Floats, columns: NDArray[np.intp], numbers: Numbers, out: Floats) -> None:
        (n, m), n_positions = out.shape, len(columns)
        step = max(1, _MOST_VALUES // (n_positions * m))
        for start in range(0, n, step):
            rows = X[start : start + step]
            values = np.empty((len(rows) * n_positions, m), out.dtype)
            self.inner.transform(self.inner.prepare(patches(rows, columns)), numbers, values)
            values.reshape(len(rows), n_positions, m).mean(axis=1, out=out[start : start + step])
        out *= 1 / math.sqrt(len(self.parts))
