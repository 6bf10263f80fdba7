"""Texton histograms of texture patches: filters, a vocabulary of responses, counts (POLK, 5.2).

POLK cites Leung and Malik (1999) for the textons and states their number, the size of the patches
and the number of patches; the rest here is that paper's, or ours and said to be so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from sklearn.cluster import MiniBatchKMeans

from mercer_reproduction.baselines._base import tiles

Floats = NDArray[np.float32]
Array = NDArray[np.float64]

PATCH = 24  # pixels along each side
SUPPORT = 49  # pixels along each side of a filter
_N_ORIENTATIONS = 6
_ELONGATION = 3.0
_SCALES = tuple(math.sqrt(2.0) ** k for k in range(1, 5))
# Responses for each texton that k-means sees, and of which the scales of the filters are taken.
_SAMPLE = 240


@dataclass(frozen=True)
class Patches:
    """Places of patches: image, and the row and column of their upper left pixel.

    Attributes
    ----------
    image, row, column : ndarrays of shape (n_patches,)
        Numbers.
    """

    image: NDArray[np.intp]
    row: NDArray[np.intp]
    column: NDArray[np.intp]

    def __len__(self) -> int:
        return self.image.size

    def take(self, chosen: Any) -> Patches:
        """Take some of them."""
        return Patches(self.image[chosen], self.row[chosen], self.column[chosen])

    def windows(self, images: NDArray[Any]) -> NDArray[Any]:
        """Cut the patches out of images: shape (n_patches, PATCH, PATCH)."""
        steps = np.arange(PATCH)
        rows = self.row[:, np.newaxis, np.newaxis] + steps[:, np.newaxis]
        columns = self.column[:, np.newaxis, np.newaxis] + steps
        cut: NDArray[Any] = images[self.image[:, np.newaxis, np.newaxis], rows, columns]
        return cut


def filter_bank() -> Array:
    """Make the 48 filters of Leung and Malik, shape (48, 49, 49).

    First and second derivatives of Gaussians at six orientations and three scales, 3 times longer
    than wide; eight Laplacians of Gaussians; four Gaussians. All but the last have mean 0, and all
    have absolute values that sum to 1.

    Examples
    --------
    >>> filter_bank().shape
    (48, 49, 49)
    """
    half = SUPPORT // 2
    v, u = np.mgrid[-half : half + 1, -half : half + 1].astype(np.float64)
    squared = u**2 + v**2
    found = []
    for scale in _SCALES[:3]:
        for order in (1, 2):
            for k in range(_N_ORIENTATIONS):
                angle = math.pi * k / _N_ORIENTATIONS
                along = u * math.cos(angle) + v * math.sin(angle)
                across = v * math.cos(angle) - u * math.sin(angle)
                bell = np.exp(-0.5 * (along / (_ELONGATION * scale)) ** 2)
                bell *= np.exp(-0.5 * (across / scale) ** 2)
                wave = across / scale if order == 1 else (across / scale) ** 2 - 1.0
                found.append(wave * bell)
    round_ones = (*_SCALES, *(3.0 * s for s in _SCALES))
    found += [(squared / s**2 - 2.0) * np.exp(-0.5 * squared / s**2) for s in round_ones]
    filters = [f - f.mean() for f in found]
    filters += [np.exp(-0.5 * squared / scale**2) for scale in _SCALES]
    return np.array([f / np.abs(f).sum() for f in filters])


def responses(images: NDArray[Any], filters: Array) -> Floats:
    """Responses of all filters at all pixels, shape (n_images, height, width, n_filters).

    Images are mirrored at their borders; grey values are taken as they are, since brightness and
    contrast tell textures apart.
    """
    n, height, width = images.shape
    half = filters.shape[-1] // 2
    sides = [(0, 0), (half, half), (half, half)]
    padded = np.pad(images.astype(np.float32), sides, mode="symmetric")
    shape = [fft.next_fast_len(side + 2 * half, real=True) for side in padded.shape[1:]]
    spectra = [fft.rfft2(image, shape) for image in padded]
    out = np.empty((n, height, width, len(filters)), np.float32)
    for k, kernel in enumerate(filters):
        # Flipped, the product of spectra is a correlation.
        factor = fft.rfft2(kernel[::-1, ::-1].astype(np.float32), shape)
        for i, spectrum in enumerate(spectra):
            full = fft.irfft2(spectrum * factor, shape)
            out[i, :, :, k] = full[2 * half : 2 * half + height, 2 * half : 2 * half + width]
    return out


def draw_patches(
    n_images: int, height: int, width: int, n: int, rng: np.random.Generator, start: int = 0
) -> Patches:
    """Draw n different places among all of all images.

    Parameters
    ----------
    n_images, height, width : int
        Of the images; ``width`` is where the last column of patches has to end.
    n : int
        Number of patches.
    rng : Generator
        For the draw.
    start : int, default=0
        First column that patches may have.

    Raises
    ------
    ValueError
        If there are not so many places.
    """
    shape = (n_images, max(height - PATCH + 1, 0), max(width - start - PATCH + 1, 0))
    if math.prod(shape) < n:
        raise ValueError(
            f"{n_images} images of {height} x {width - start} pixels have {math.prod(shape):,} "
            f"places for patches of {PATCH} x {PATCH}, fewer than the {n:,} that are wanted. Use "
            "larger images."
        )
    places = rng.choice(math.prod(shape), size=n, replace=False)
    image, row, column = np.unravel_index(places, shape)
    return Patches(image, row, column + start)


def texton_images(
    everywhere: Floats, train: Patches, n_textons: int, seed: int, *, unit_filters: bool = True
) -> NDArray[np.int16]:
    """Name the nearest texton at each pixel; textons are learned on training patches only.

    Parameters
    ----------
    everywhere : ndarray of shape (n_images, height, width, n_filters)
        Responses of the filters (:func:`responses`).
    train : Patches
        Training patches: a sample of their pixels is what k-means sees.
    n_textons : int
        Number of textons.
    seed : int
        Of the sample and of k-means.
    unit_filters : bool, default=True
        Scale each filter to unit deviation on the sample.

    Returns
    -------
    textons : ndarray of shape (n_images, height, width)
        Numbers from 0.
    """
    rng = np.random.default_rng(seed)
    size = _SAMPLE * n_textons
    which = rng.integers(len(train), size=size)
    rows = train.row[which] + rng.integers(PATCH, size=size)
    columns = train.column[which] + rng.integers(PATCH, size=size)
    sample = everywhere[train.image[which], rows, columns]
    scale = np.maximum(sample.std(axis=0), 1e-12) if unit_filters else np.float32(1.0)
    means = MiniBatchKMeans(n_textons, n_init=1, batch_size=4096, random_state=seed)
    centres = means.fit(sample / scale).cluster_centers_.astype(np.float32)
    half_norms = 0.5 * np.einsum("ij,ij->i", centres, centres)
    textons = np.empty(everywhere.shape[:3], np.int16)
    for name, found in zip(textons, everywhere, strict=True):
        pixels = found.reshape(-1, found.shape[-1])
        flat = name.reshape(-1)
        for tile in tiles(len(pixels), 16_384):
            flat[tile] = (half_norms - pixels[tile] / scale @ centres.T).argmin(axis=1)
    return textons


def histograms(textons: NDArray[np.int16], patches: Patches, n_textons: int) -> Floats:
    """Shares of the textons among the pixels of each patch, shape (n_patches, n_textons)."""
    counts = np.empty((len(patches), n_textons), np.float32)
    for tile in tiles(len(patches)):
        names = patches.take(tile).windows(textons).reshape(-1, PATCH**2).astype(np.intp)
        offsets = n_textons * np.arange(len(names))[:, np.newaxis]
        flat = np.bincount((names + offsets).ravel(), minlength=n_textons * len(names))
        counts[tile] = flat.reshape(len(names), n_textons)
    return counts / np.float32(PATCH**2)
