"""Numbered blocks of random features of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.expansions import RandomFeatures
from mercer.features import FeatureMap, FeatureOptions
from mercer.features.feature_map import Numbers, Part, Prepared, add_blocks, features_of
from mercer.kernels import Kernel
from mercer.records import Passing

# Number of blocks evaluated together on every tile of rows.
_GROUP = 32


class FeatureBlocks(Passing):
    r"""Random features of a kernel in numbered blocks, each with :math:`E\,ZZ^T = k(X, X)`.

    A block is a pure function of (seed, number): its random numbers are redrawn when needed, except
    those in the cache and those drawn last.

    Parameters
    ----------
    kernel : Kernel
        Kernel with random features, its numbers resolved.
    n_inputs : int
        Number of inputs.
    block_size : int
        Features per block.
    seed : int
        Seed, 0 <= seed < 2**64.
    options : FeatureOptions
        How features are drawn.
    dtype : dtype, default=float64
        Type of the features. Posterior variances, for example, are small differences of features.
    cache_bytes : int, default=0
        Memory for caching random numbers.

    Raises
    ------
    ValueError
        If the kernel has no random features, or none of this design.
    """

    _passing: ClassVar[dict[str, Any]] = {"_cache": {}, "cached_bytes": 0, "_last": (-1, ())}

    def __init__(
        self,
        kernel: Kernel,
        n_inputs: int,
        block_size: int,
        seed: int,
        options: FeatureOptions,
        dtype: DTypeLike = np.float64,
        cache_bytes: int = 0,
    ) -> None:
        self.kernel = kernel
        self.options = options
        self.block_size = block_size
        self.seed = seed
        self.dtype = np.dtype(dtype)
        self.cache_bytes = cache_bytes
        self.map: FeatureMap = kernel._feature_map(n_inputs, options, 0)
        self._forget()

    def _forget(self) -> None:
        self._cache: dict[int, Numbers] = {}
        self.cached_bytes = 0
        self._last: tuple[int, Numbers] = (-1, ())

    def __eq__(self, other: object) -> bool:
        """Return whether the features are equal, to the last bit."""
        if not isinstance(other, FeatureBlocks):
            return NotImplemented
        names = "kernel", "block_size", "seed", "options", "dtype"
        return self.map.n_inputs == other.map.n_inputs and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    __hash__ = None  # type: ignore[assignment]

    def independent(self, block_size: int) -> FeatureBlocks:
        """Return blocks of another size, drawn independently of each other, with the same seed."""
        n_inputs, options = self.map.n_inputs, self.options._replace(design="iid")
        return FeatureBlocks(self.kernel, n_inputs, block_size, self.seed, options, self.dtype)

    @property
    def precise(self) -> FeatureBlocks:
        """Return the same features in double precision, as used for predictions.

        The random numbers stay the same. In double precision, a row's features do not depend on the
        other rows, except in the last bits of float64.
        """
        return self if self.dtype == np.float64 else _PreciseBlocks(self)

    def prepare(self, X: Any) -> Prepared:
        """Prepare rows for the feature map; ValueError for rows outside the kernel's domain."""
        return self.map.prepare(np.ascontiguousarray(X, dtype=self.dtype))

    def of(self, prepared: Prepared, number: int = 0) -> NDArray[Any]:
        """Return features of prepared rows in one block, shape (n, block_size)."""
        return features_of(self.map, prepared, self.numbers(number), self.block_size)

    def of_first(self, n_blocks: int, prepared: Prepared) -> NDArray[Any]:
        """Return features of rows in the first blocks, shape (n, n_blocks * block_size)."""
        m = self.block_size
        Z = np.empty((prepared[0].shape[0], n_blocks * m), self.dtype)
        for number in range(n_blocks):
            Z[:, number * m : (number + 1) * m] = self.of(prepared, number)
        return Z

    def add(
        self,
        prepared: Prepared,
        number: int,
        coefficients: NDArray[Any],
        values: NDArray[Any],
        factor: float = 1.0,
    ) -> None:
        """Add a block's part of a function to values, without storing its features.

        Parameters
        ----------
        prepared : tuple of ndarray
            Rows, from :meth:`prepare`.
        number : int
            Number of the block.
        coefficients : ndarray of shape (block_size, n_columns)
            Coefficients, of the type of the features.
        values : ndarray of shape (n, n_columns)
            Changed in place: ``values += Z @ coefficients * factor``.
        factor : float, default=1.0
            Factor of the coefficients.
        """
        part = Part(self.numbers(number), coefficients, factor)
        add_blocks(self.map, prepared, [part], values)

    def add_first(
        self,
        n_blocks: int,
        prepared: Prepared,
        part_of: Callable[[int], tuple[NDArray[Any], float]],
        values: NDArray[Any],
    ) -> None:
        """Add the first blocks, with coefficients and factors from ``part_of``."""
        parts: list[Part] = []
        for number in range(n_blocks):
            parts.append(Part(self.numbers(number), *part_of(number)))
            # Random numbers that do not fit into the cache are not kept here either.
            if number == n_blocks - 1 or len(parts) == _GROUP or number not in self._cache:
                add_blocks(self.map, prepared, parts, values)
                parts = []

    def numbers(self, number: int) -> Numbers:
        """Return the random numbers of a block."""
        found = self._cache.get(number)
        if found is not None:
            return found
        last, numbers = self._last
        if last != number:
            numbers = self.map.draw(self.seed, number, self.block_size, self.dtype)
            size = sum(array.nbytes for array in numbers)
            if self.cached_bytes + size <= self.cache_bytes:
                self._cache[number] = numbers
                self.cached_bytes += size
            else:
                self._last = (number, numbers)
        return numbers


class _PreciseBlocks(FeatureBlocks):
    """Features in float64, from random numbers drawn in float32."""

    def __init__(self, drawn: FeatureBlocks) -> None:
        self.__dict__.update(drawn.__dict__)
        self.dtype = np.dtype(np.float64)
        self._drawn = drawn

    def numbers(self, number: int) -> Numbers:
        drawn = self._drawn.numbers(number)
        return tuple(a.astype(np.float64) if a.dtype.kind == "f" else a for a in drawn)


def blocks_of(expansion: RandomFeatures, kernel: Kernel, n_features: int) -> FeatureBlocks:
    """Return the blocks of an expansion; ValueError if its block size is left open."""
    if isinstance(expansion.block_size, str):
        raise ValueError(
            "`block_size='auto'` needs the number of rows: use RandomFeatures.sized first."
        )
    return FeatureBlocks(
        kernel,
        n_features,
        int(expansion.block_size),
        expansion.seed,
        expansion.options,
        expansion.dtype,
        expansion.cache_bytes,
    )
