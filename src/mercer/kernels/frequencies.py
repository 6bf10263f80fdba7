"""The frequencies of a kernel of cosines as numbers that are kept."""

from __future__ import annotations

import math

import numpy as np

from mercer.features.cosine import CosineMap
from mercer.features.feature_map import FeatureOptions
from mercer.kernels.kernel import Kernel
from mercer.kernels.names import as_kernel
from mercer.maps import Cosines
from mercer.numerics.designs import hadamard_projections
from mercer.validation import check_integer


def cosines(
    kernel: str | Kernel, n_inputs: int, n_features: int, seed: int = 0, *, design: str = "auto"
) -> Cosines:
    """Draw frequencies of a stationary kernel, as a map that keeps them.

    The map has the features of ``kernel.random_features(X, n_features, seed, design=design)``.

    Parameters
    ----------
    kernel : str or Kernel
        Its features have to be cosines: Gaussian, Laplacian, Cauchy, Matern, RationalQuadratic or
        products of them, with their numbers resolved.
    n_inputs : int
        Number of inputs.
    n_features : int
        Number of features, even: a cosine and a sine for each frequency.
    seed : int, default=0
        Which frequencies.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        How they are drawn, as in :meth:`Kernel.random_features`.

    Returns
    -------
    cosines : Cosines
        The map, whose :meth:`~mercer.maps.Cosines.refined` fits the frequencies to rows.

    Raises
    ------
    ValueError
        If the features of the kernel are others, the number is odd or the design is not allowed.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, cosines
    >>> cosines(Gaussian(2.0), n_inputs=3, n_features=64).frequencies.shape
    (3, 32)
    """
    kernel = as_kernel(kernel)
    kernel._require_resolved()
    d = check_integer("n_inputs", n_inputs, low=1)
    m = check_integer("n_features", n_features, low=2)
    if m % 2:
        raise ValueError(
            f"`n_features` must be even, got {n_features}: each frequency has a cosine and a sine."
        )
    feature_map = kernel._feature_map(d, FeatureOptions(design=design), 0)
    if not isinstance(feature_map, CosineMap):
        raise ValueError(
            "`kernel` must have cosines of its inputs as random features, as Gaussian and Matern "
            f"have, got {kernel!r}."
        )
    *frequencies, _ = feature_map.draw(seed, 0, m, np.dtype(np.float64))
    turns = frequencies[0]
    if feature_map.design == "hadamard":
        turns = np.empty((d, m // 2))
        hadamard_projections(np.eye(d), *frequencies, turns)
    return Cosines(2 * math.pi * turns)
