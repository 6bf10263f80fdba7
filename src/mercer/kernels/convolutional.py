"""Kernels of images: the kernel of two patches, averaged over positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer.features.convolutional import ConvolutionalMap, patch_columns, patches
from mercer.features.feature_map import FeatureMap, FeatureOptions
from mercer.kernels.kernel import FeaturedKernel, FloatArray, FromData, Kernel, check_kernel
from mercer.validation import check_integer, integer, parameters

# Kernel values of patches held at once, before they are averaged.
_MOST_VALUES = 2**21


def _check_sides(name: str, value: Any, sizes: tuple[int, ...]) -> None:
    if not isinstance(value, Sequence | np.ndarray) or len(value) not in sizes:
        lengths = " or ".join(map(str, sizes))
        raise ValueError(f"`{name}` must be a sequence of {lengths} integers, got {value!r}.")
    for i, side in enumerate(value):
        check_integer(f"{name}[{i}]", side, low=1)


def _check_image(name: str, value: Any) -> None:
    _check_sides(name, value, (2, 3))


def _check_pair(name: str, value: Any) -> None:
    if isinstance(value, Sequence | np.ndarray):
        _check_sides(name, value, (2,))
    else:
        check_integer(name, value, low=1)


def _pair(value: Any) -> tuple[int, int]:
    height, width = value if isinstance(value, Sequence | np.ndarray) else (value, value)
    return int(height), int(width)


def _check_fit(kernel: Convolutional) -> None:
    image, patch, grid = kernel.image_shape, _pair(kernel.patch_size), _pair(kernel.grid)
    for side, name in enumerate(("height", "width")):
        n_positions = (int(image[side]) - patch[side]) // int(kernel.stride) + 1
        if n_positions < grid[side]:
            raise ValueError(
                f"Images of {name} {image[side]} have {max(0, n_positions)} positions for patches "
                f"of {name} {patch[side]} at the stride {kernel.stride}, but the grid has "
                f"{grid[side]} part(s) there, and each needs one. Use smaller patches, a smaller "
                "stride or a coarser grid."
            )


class Convolutional(FeaturedKernel):
    r"""Kernel of images, an infinitely wide convolutional layer with average pooling.

    .. math::

        K(x, x') = \frac{1}{C} \sum_{c=1}^C \frac{1}{|P_c|^2}
                   \sum_{p, p' \in P_c} k(x_p, x'_{p'}),

    the mean of a kernel of patches over all pairs of positions in the same part of the image. With
    one part an image may be anywhere; with a grid of parts it may move within them. Random features
    are convolutions with random filters, a nonlinear function and a mean over the positions of a
    part: :math:`\operatorname{mean}_p \cos(\omega^\top x_p + b)` for a Gaussian kernel of patches.

    Parameters
    ----------
    kernel : Kernel
        Kernel of patches. Numbers that come from data come from patches.
    image_shape : (int, int) or (int, int, int)
        Height and width of an image, and its number of channels, 1 if it is not given. A row of
        inputs is an image by rows, its channels side by side: ``image.ravel()``.
    patch_size : int or (int, int), default=3
        Height and width of a patch in pixels; a patch has all channels.
    stride : int, default=1
        Distance of neighbouring positions in pixels.
    grid : int or (int, int), default=1
        Parts of the image by height and by width.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel, a number is no integer above 0, or there are fewer positions
        than parts; on evaluation, if rows have another number of inputs than images have pixels.

    Notes
    -----
    A value costs :math:`\sum_c |P_c|^2` values of the kernel of patches: 324 for images of 8 x 8
    and 3 x 3 patches on a grid of 2 x 2. A random feature costs :math:`|P_c|`. So for large
    images use random features (``expansion=RandomFeatures()``), a stride or a finer grid.

    This kernel is linear in what it knows of the patches, so it adds what patches say. For how
    they occur together put a kernel after its features: ``Mapped(Gaussian(), lambda X:
    images.random_features(X, 512))`` is the paper's :math:`\cos(w^\top \psi_\theta(x) + b)` with
    one random convolution :math:`\psi_\theta`.

    References
    ----------
    DSG, Section 2, "hierarchical kernels". D. Haussler, Convolution kernels on discrete structures,
    1999. M. van der Wilk, C. E. Rasmussen, J. Hensman, Convolutional Gaussian processes, NIPS 2017,
    eq. (13), for a grid of one part.

    Examples
    --------
    A pattern is alike wherever it is:

    >>> from mercer.kernels import Convolutional, Gaussian
    >>> kernel = Convolutional(Gaussian(0.5), image_shape=(1, 5), patch_size=(1, 2))
    >>> images = [[1.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    >>> kernel(images).round(2)
    array([[0.43, 0.37, 0.11],
           [0.37, 0.43, 0.11],
           [0.11, 0.11, 1.  ]])
    """

    _from_data: ClassVar[Mapping[str, FromData]] = {
        "kernel": FromData(
            lambda kernel: not kernel.is_resolved,
            lambda images, rows: images.kernel.resolve(images._all_patches(rows), 0),
        )
    }
    _parameters = parameters(
        kernel=check_kernel,
        image_shape=_check_image,
        patch_size=_check_pair,
        stride=integer(low=1),
        grid=_check_pair,
    )
    _relations = (_check_fit,)

    def __init__(
        self,
        kernel: Kernel,
        image_shape: Sequence[int],
        patch_size: int | Sequence[int] = 3,
        *,
        stride: int = 1,
        grid: int | Sequence[int] = 1,
    ) -> None:
        self.kernel = kernel
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.stride = stride
        self.grid = grid
        self._check()

    def _parts(self, n_inputs: int) -> tuple[NDArray[np.intp], ...]:
        height, width, channels = (int(side) for side in (*self.image_shape, 1)[:3])
        if n_inputs != height * width * channels:
            raise ValueError(
                f"Images of {height} x {width} pixels with {channels} channel(s) are rows of "
                f"{height * width * channels} inputs, got {n_inputs}. Use the `image_shape` of "
                "the rows."
            )
        shape = (height, width, channels)
        return patch_columns(shape, _pair(self.patch_size), int(self.stride), _pair(self.grid))

    def _all_patches(self, X: FloatArray) -> FloatArray:
        return np.vstack([patches(X, columns) for columns in self._parts(X.shape[1])])

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        K = np.zeros((len(X), len(Z)), X.dtype)
        parts = self._parts(X.shape[1])
        for columns in parts:
            p = len(columns)
            width = max(1, min(len(Z), _MOST_VALUES // p**2))
            height = max(1, _MOST_VALUES // (width * p**2))
            for left in range(0, len(Z), width):
                others = patches(Z[left : left + width], columns)
                for top in range(0, len(X), height):
                    tile = K[top : top + height, left : left + width]
                    values = self.kernel(patches(X[top : top + height], columns), others)
                    tile += values.reshape(len(tile), p, -1, p).mean(axis=(1, 3))
        K /= len(parts)
        return np.tril(K) + np.tril(K, -1).T if Z is X else K

    def _diagonal(self, X: Any) -> FloatArray:
        parts = self._parts(X.shape[1])
        values = np.zeros(len(X), X.dtype)
        for i in range(len(X)):
            for columns in parts:
                values[i] += self.kernel(patches(X[i : i + 1], columns)).mean()
        values /= len(parts)
        return values

    @property
    def bound(self) -> float | None:
        """Bound of the kernel of patches."""
        return self.kernel.bound

    def _feature_map(self, n_inputs: int, options: FeatureOptions, path: int) -> FeatureMap:
        parts = self._parts(n_inputs)
        inner = self.kernel._feature_map(parts[0].shape[1], options, path)
        rotated = not options.paired and len(parts) > 1
        return ConvolutionalMap(n_inputs, inner, parts, rotated=rotated)
