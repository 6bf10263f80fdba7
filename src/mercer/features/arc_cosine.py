"""Random features of the arc-cosine kernels: one layer of a network with normal weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.features.feature_map import (
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    require_iid,
)
from mercer.features.streams import WEIGHTS, stream_of
from mercer.numerics import philox

__all__ = ["ArcCosineMap"]


class ArcCosineMap(FeatureMap):
    r"""Ramps to a power: :math:`z_i(x) = \sqrt{2/m}\, \Theta(\omega_i^T x) (\omega_i^T x)^n`.

    With independent normal :math:`\omega_i` and the step function :math:`\Theta`, 0 at 0.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    order : {0, 1, 2}
        Power n.
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
            if self.order == 2:
                out *= out
        out *= math.sqrt(2 / out.shape[1])
