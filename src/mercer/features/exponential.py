"""Random Laplace features: decaying exponentials, for the semigroup kernels."""

from __future__ import annotations

import math
from typing import Any, Literal

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
from mercer.features.streams import WEIGHTS, stream_of
from mercer.numerics import philox

__all__ = ["ExponentialMap"]

# A normal number nearer to 0 makes a rate so large that its exponential is 0 all the same for any
# input but 0; there infinity times 0 would be NaN.
_LEAST_NORMAL = 1e-12


class ExponentialMap(FeatureMap):
    r"""Decaying exponentials: :math:`z_i(x) = \exp(-\omega_i^T x) / \sqrt{m}`, for x >= 0.

    The kernel is the Laplace transform of the law of :math:`\omega` at x + x'. For independent
    coordinates of the law

    - "levy", :math:`\omega = \beta^2 / (2 z^2)` with normal z: :math:`e^{-\beta \sqrt{s}}`;
    - "exponential", :math:`\omega = -\ln(u) / \lambda`: :math:`\lambda / (s + \lambda)`.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    law : {"levy", "exponential"}
        Law of the rates.
    rate : float
        Its parameter, beta or lambda.
    options : FeatureOptions
        The design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.
    kernel : str
        Name of the kernel, for messages.

    References
    ----------
    DSG, Table 1, where beta is printed for beta². J. Yang, V. Sindhwani, Q. Fan, H. Avron,
    M. W. Mahoney, Random Laplace feature maps for semigroup kernels on histograms, CVPR 2014.
    """

    def __init__(
        self,
        n_inputs: int,
        law: Literal["levy", "exponential"],
        rate: float,
        options: FeatureOptions,
        path: int = 0,
        *,
        kernel: str,
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, kernel)
        self.law = law
        self.rate = rate
        self.kernel = kernel

    def prepare(self, X: Floats) -> Prepared:
        """Check that no input is negative."""
        check_domain(X, self.kernel)
        return (X,)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw rates of decay."""
        address = (seed, block, stream_of(self.path, WEIGHTS), n_features, self.n_inputs)
        if self.law == "levy":
            W = np.maximum(np.abs(philox.normals(*address, dtype)), _LEAST_NORMAL)
            W = 0.5 * np.square(self.rate / W)
        else:
            W = np.log(philox.uniforms(*address)) * (-1 / self.rate)
        return (W.astype(dtype, copy=False),)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: exponentials of minus the projections."""
        with np.errstate(over="ignore"):  # exp(-infinity) is 0, as it should be
            np.matmul(prepared[0], numbers[0], out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)
        out *= 1 / math.sqrt(out.shape[1])
