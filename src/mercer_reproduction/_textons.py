"""Texton histograms of texture patches: filters, a vocabulary of responses, counts (POLK, 5.2).

POLK cites Leung and Malik (1999) for the textons and states their number, the size of the patches
and the number of patches, not the filters: the banks here are those of the usual texts on textons.

References
----------
T. Leung, J. Malik, Representing and recognizing the visual appearance of materials using
three-dimensional textons, IJCV 2001. M. Varma, A. Zisserman, A statistical approach to texture
classification from single images, IJCV 2005; Texture classification: are filter banks necessary?,
CVPR 2003. C. Schmid, Constructing models for content-based image retrieval, CVPR 2001. B. S.
Manjunath, W. Y. Ma, Texture features for browsing and retrieval of image data, PAMI 1996.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from sklearn.cluster import MiniBatchKMeans

from mercer_reproduction.baselines._base import tiles

Floats = NDArray[np.float32]
Array = NDArray[np.float64]
# Filters: arrays of shape (n_kernels, side, side). Of several kernels in one, the largest response
# in size counts.
Bank = list[Array]

PATCH = 24  # pixels along each side
SUPPORT = 49  # pixels along each side of a filter
_N_ORIENTATIONS = 6
_ELONGATION = 3.0
_SCALES = tuple(math.sqrt(2.0) ** k for k in range(1, 5))
_ACROSS, _ALONG = np.mgrid[:SUPPORT, :SUPPORT].astype(np.float64) - SUPPORT // 2
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


def leung_malik() -> Bank:
    """Make the 48 filters of Leung and Malik.

    First and second derivatives of Gaussians at six orientations and three scales, 3 times longer
    than wide; eight Laplacians of Gaussians; four Gaussians.

    Examples
    --------
    >>> len(leung_malik()), leung_malik()[0].shape
    (48, (1, 49, 49))
    """
    bars = [_oriented(scale, order) for scale in _SCALES[:3] for order in (1, 2)]
    round_ones = (*_SCALES, *(3.0 * s for s in _SCALES))
    kernels = [*np.concatenate(bars), *map(_laplacian, round_ones), *map(_bell, _SCALES)]
    return [kernel[np.newaxis] for kernel in kernels]


def maximum_responses() -> Bank:
    """Make the bank MR8 of Varma and Zisserman (2005): the largest of six orientations.

    First and second derivatives of Gaussians at three scales, a Laplacian and a Gaussian.
    """
    bars = [_oriented(scale, order) for order in (1, 2) for scale in (1.0, 2.0, 4.0)]
    return [*bars, _laplacian(10.0)[np.newaxis], _bell(10.0)[np.newaxis]]


def schmid() -> Bank:
    """Make the 13 filters of Schmid (2001): rings, the same in all directions."""
    radius = np.sqrt(_ACROSS**2 + _ALONG**2)
    rings = (
        np.cos(math.pi * cycles * radius / scale) * np.exp(-0.5 * (radius / scale) ** 2)
        for scale, most in ((2.0, 1), (4.0, 2), (6.0, 3), (8.0, 3), (10.0, 4))
        for cycles in range(1, most + 1)
    )
    return [_unit(ring - ring.mean())[np.newaxis] for ring in rings]


def gabor() -> Bank:
    """Make 48 filters of Gabor: waves under a Gaussian, even and odd, four scales.

    The wave lengths are those of Manjunath and Ma (1996): from .05 to .4 periods a pixel, by
    octaves, at six orientations; the Gaussian's deviation is .56 wave lengths, an octave.
    """
    kernels = []
    for frequency in (0.05, 0.1, 0.2, 0.4):
        bell = _bell(0.56 / frequency)
        for across, _ in _turned():
            phase = 2.0 * math.pi * frequency * across
            waves = (np.cos(phase) * bell, np.sin(phase) * bell)
            kernels += [_unit(wave - wave.mean()) for wave in waves]
    return [kernel[np.newaxis] for kernel in kernels]


def raw_patches(side: int) -> Bank:
    """Make filters that are the pixels around a pixel, as Varma and Zisserman (2003)."""
    return [kernel.reshape(1, side, side) for kernel in np.eye(side**2)]


def _turned() -> list[tuple[Array, Array]]:
    """Coordinates of the pixels of a filter, across and along, for each orientation."""
    angles = [math.pi * k / _N_ORIENTATIONS for k in range(_N_ORIENTATIONS)]
    return [
        (
            _ACROSS * math.cos(angle) - _ALONG * math.sin(angle),
            _ALONG * math.cos(angle) + _ACROSS * math.sin(angle),
        )
        for angle in angles
    ]


def _oriented(scale: float, order: int) -> Array:
    """Derive an elongated Gaussian across, for each orientation."""
    found = []
    for across, along in _turned():
        bell = np.exp(-0.5 * (along / (_ELONGATION * scale)) ** 2)
        bell *= np.exp(-0.5 * (across / scale) ** 2)
        wave = across / scale if order == 1 else (across / scale) ** 2 - 1.0
        found.append(_unit(wave * bell - (wave * bell).mean()))
    return np.array(found)


def _bell(scale: float) -> Array:
    """Gaussian."""
    return _unit(np.exp(-0.5 * (_ACROSS**2 + _ALONG**2) / scale**2))


def _laplacian(scale: float) -> Array:
    """Laplacian of a Gaussian."""
    squared = (_ACROSS**2 + _ALONG**2) / scale**2
    found = (squared - 2.0) * np.exp(-0.5 * squared)
    return _unit(found - found.mean())


def _unit(kernel: Array) -> Array:
    """Scale a filter so that its absolute values sum to 1."""
    return np.asarray(kernel / np.abs(kernel).sum())


def responses(images: NDArray[Any], bank: Bank) -> Floats:
    """Responses of all filters at all pixels, shape (n_images, height, width, len(bank)).

    Images are mirrored at their borders. Of several kernels together the largest response in size
    counts.
    """
    n, height, width = images.shape
    half = bank[0].shape[-1] // 2
    sides = [(0, 0), (half, half), (half, half)]
    padded = np.pad(images.astype(np.float32), sides, mode="symmetric")
    shape = [fft.next_fast_len(side + 2 * half, real=True) for side in padded.shape[1:]]
    spectra = [fft.rfft2(image, shape) for image in padded]
    out = np.empty((n, height, width, len(bank)), np.float32)
    for k, kernels in enumerate(bank):
        # Flipped, the product of spectra is a correlation.
        flipped = kernels[:, ::-1, ::-1].astype(np.float32)
        factors = [fft.rfft2(kernel, shape) for kernel in flipped]
        for i, spectrum in enumerate(spectra):
            full = np.array([fft.irfft2(spectrum * factor, shape) for factor in factors])
            found = full[:, 2 * half : 2 * half + height, 2 * half : 2 * half + width]
            out[i, :, :, k] = found[0] if len(found) == 1 else np.abs(found).max(axis=0)
    return out


def contrast_normalised(everywhere: Floats) -> Floats:
    """Scale responses by log(1 + r / .03) / r, r their norm at the pixel (Weber's law)."""
    norms = np.sqrt(np.einsum("...k,...k->...", everywhere, everywhere))[..., np.newaxis]
    norms = np.maximum(norms, np.float32(1e-6))
    scaled: Floats = everywhere * (np.log1p(norms / np.float32(0.03)) / norms)
    return scaled


@dataclass(frozen=True)
class Reading:
    """What may be meant by textons: filters and how their responses are scaled.

    Attributes
    ----------
    filters : str
        In words.
    bank : callable
        Makes them.
    standardised : bool
        Give each image mean 0 and unit deviation.
    scaling : {"units", "contrast", "none"}
        Give each filter unit deviation, normalise the contrast at each pixel, or neither.
    """

    filters: str
    bank: Callable[[], Bank]
    standardised: bool = False
    scaling: str = "units"

    @property
    def words(self) -> str:
        """Images and scaling in words."""
        if not self.standardised and self.scaling == "none":
            return "grey values and filters as they are"
        grey = "standardised images" if self.standardised else "grey values as they are"
        scaling = {"units": "unit filters", "contrast": "contrast normalised", "none": "no scaling"}
        return f"{grey}, {scaling[self.scaling]}"

    def responses(self, images: NDArray[Any]) -> Floats:
        """Responses of the filters at all pixels, scaled but for the units."""
        if self.standardised:
            mean, spread = (f(images, axis=(1, 2), keepdims=True) for f in (np.mean, np.std))
            images = (images - mean) / spread
        found = responses(images, self.bank())
        return contrast_normalised(found) if self.scaling == "contrast" else found

    def histograms(
        self, everywhere: Floats, train: Patches, test: Patches, n_textons: int, seed: int
    ) -> tuple[Floats, Floats]:
        """Histograms of training and test patches, by textons of the training ones."""
        unit = self.scaling == "units"
        textons = texton_images(everywhere, train, n_textons, seed, unit_filters=unit)
        return histograms(textons, train, n_textons), histograms(textons, test, n_textons)


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
