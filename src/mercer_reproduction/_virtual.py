"""Virtual examples: copies of images without end, each a function of its number (DSG, Table 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mercer.numerics.philox import normals, uniforms

Images = NDArray[Any]
Copies = NDArray[np.float32]
Labels = NDArray[Any]

_OWN = 1000  # of the generator's streams: features draw from others
# Standard deviations of a distortion: pixels of a shift; entries of the matrix that turns, scales
# and slants; pixels by which places move one way here and another way there.
_SHIFT, _LINEAR, _ELASTIC = 0.7, 0.08, 0.8
_BUMPS, _BUMP_WIDTH = 7, 4.0  # in a row of the grid of bumps, and their width in pixels


def distorted(images: Images, first: int = 0, seed: int = 0, strength: float = 1.0) -> Copies:
    """Shift, turn, scale, slant and bend digits at random.

    Parameters
    ----------
    images : ndarray of shape (n, 1, height, width)
        Digits, black outside.
    first : int, default=0
        Number of the first copy; the others follow. A distortion depends on number and seed only.
    seed : int, default=0
        Seed.
    strength : float, default=1.0
        Factor on all of it; 0 changes nothing.

    Returns
    -------
    copies : ndarray of shape (n, 1, height, width)
        Pixels between the least and the largest of an image and 0, the value outside.
    """
    n, _, height, width = images.shape
    drawn = strength * normals(seed, 0, _OWN, n, 6 + 2 * _BUMPS**2, np.float32, first).T
    shift, linear, bumps = np.split(drawn, [2, 6], axis=1)
    places = np.indices((height, width), np.float32)
    centred = places - places.mean(axis=(1, 2), keepdims=True)
    moved = _LINEAR * np.einsum("nab,bij->naij", linear.reshape(n, 2, 2), centred)
    moved += _SHIFT * shift.reshape(n, 2, 1, 1)
    bumps = bumps.reshape(n, 2, _BUMPS, _BUMPS)
    moved += _ELASTIC * (_bumps(height) @ bumps @ _bumps(width).T)
    return _at(images[:, 0], places + moved)[:, None]


def _bumps(size: int) -> Copies:
    """Values of the bumps along an axis, (size, n_bumps): rows of norm 1, which keeps variances."""
    middles = np.linspace(0.0, size - 1.0, _BUMPS)
    values = np.exp(-0.5 * ((np.arange(size)[:, None] - middles) / _BUMP_WIDTH) ** 2)
    bumps: Copies = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return bumps


def _at(images: Images, places: Copies) -> Copies:
    """Values of (n, height, width) at (n, 2, height, width) places, linear between pixels."""
    n, height, width = images.shape
    padded = np.pad(images, ((0, 0), (1, 2), (1, 2)))
    down = np.clip(places[:, 0] + 1, 0, height + 1)
    right = np.clip(places[:, 1] + 1, 0, width + 1)
    top, left = down.astype(np.int64), right.astype(np.int64)
    down, right = down - top.astype(np.float32), right - left.astype(np.float32)
    row = padded.shape[2]
    corner = (np.arange(n).reshape(n, 1, 1) * padded.shape[1] + top) * row + left
    pixels = padded.ravel()
    above = pixels[corner] * (1 - right) + pixels[corner + 1] * right
    below = pixels[corner + row] * (1 - right) + pixels[corner + row + 1] * right
    values: Copies = above * (1 - down) + below * down
    return values


def cropped(images: Images, first: int = 0, seed: int = 0, side: int = 24) -> Copies:
    """Cut a square out of images at random, and mirror every second one (DSG, Section 7.4).

    Parameters
    ----------
    images : ndarray of shape (n, n_channels, height, width)
        Images.
    first, seed : int, default=0
        As for :func:`distorted`.
    side : int, default=24
        Of the square.

    Returns
    -------
    copies : ndarray of shape (n, n_channels, side, side)
        Parts of the images.
    """
    n, _, height, width = images.shape
    place, mirror = np.split(uniforms(seed, 0, _OWN, n, 3, first_feature=first), [2])
    room = np.array([[height], [width]]) - side + 1
    down, right = (place * room).astype(np.int64)
    windows = sliding_window_view(images, (side, side), axis=(2, 3))
    copies = windows[np.arange(n), :, down, right].astype(np.float32)
    mirrored = mirror[0] < 0.5
    copies[mirrored] = copies[mirrored, ..., ::-1]
    return copies


def ten_views(images: Images, side: int = 24) -> list[Images]:
    """Cut the middle and the four corners, each with its mirror image; the plain middle first."""
    down, right = np.array(images.shape[2:]) - side
    corners = [(down // 2, right // 2), (0, 0), (0, right), (down, 0), (down, right)]
    parts = [images[..., i : i + side, j : j + side] for i, j in corners]
    return [view for part in parts for view in (part, part[..., ::-1])]


class Stream:
    """Copies of images without end, number by number; each pass has the images in a new order.

    Parameters
    ----------
    images : ndarray of shape (n, n_channels, height, width)
        Pixels 0 to 255.
    labels : ndarray of shape (n,)
        0, 1, ...
    make : callable
        Takes images, the number of their first copy and a seed, and returns the copies.
    seed : int, default=0
        Seed of orders and copies.
    """

    def __init__(
        self,
        images: Images,
        labels: Labels,
        make: Callable[[Images, int, int], Copies],
        seed: int = 0,
    ) -> None:
        self._images, self._labels, self._make, self._seed = images, labels, make, seed
        axes = (0, 2, 3)
        self._mean = images.mean(axis=axes, dtype=np.float64).astype(np.float32)[:, None, None]
        self._spread = images.std(axis=axes, dtype=np.float64).astype(np.float32)[:, None, None]

    def __call__(self, first: int, n: int) -> tuple[Copies, Labels]:
        """Return the ``n`` copies from number ``first`` on, scaled, and their labels."""
        passes, places = np.divmod(np.arange(first, first + n), len(self._images))
        rows = np.empty(n, np.int64)
        for number in np.unique(passes):
            order = np.random.default_rng([self._seed, number]).permutation(len(self._images))
            rows[passes == number] = order[places[passes == number]]
        return self.scaled(self._make(self._images[rows], first, self._seed)), self._labels[rows]

    def scaled(self, images: Images | Copies) -> Copies:
        """Scale pixels to mean 0 and variance 1 over the training images, channel by channel."""
        scaled: Copies = (images.astype(np.float32) - self._mean) / self._spread
        return scaled
