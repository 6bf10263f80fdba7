r"""Random signs as weights: features of the linear kernel and of Hellinger's."""

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
    check_domain,
    require_iid,
)
from mercer.features.streams import SIGNS, stream_of
from mercer.numerics import philox

__all__ = ["SignMap"]


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
    roots_of : str or None, default=None
        Name of the kernel that takes square roots of non-negative inputs; None takes inputs as
        they are.

    References
    ----------
    DSG, Table 1, the row of Hellinger's kernel, without its factor 2.
    """

    def __init__(
        self, n_inputs: int, options: FeatureOptions, path: int = 0, *, roots_of: str | None = None
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, roots_of or "Linear")
        self.roots_of = roots_of

    def prepare(self, X: Floats) -> Prepared:
        """Take square roots, if the kernel does."""
        if self.roots_of is None:
            return (X,)
        check_domain(X, self.roots_of)
        return (np.sqrt(X),)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw signs."""
        stream = stream_of(self.path, SIGNS)
        return (philox.signs(seed, block, stream, n_features, self.n_inputs, dtype),)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: projections."""
        np.matmul(prepared[0], numbers[0], out=out)
        out *= 1 / math.sqrt(out.shape[1])
