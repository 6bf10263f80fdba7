"""Random features of kernels on half-lines: of additive and semigroup ones, and coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.features.feature_map import (
    PHASES,
    SCALARS,
    WEIGHTS,
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    check_domain,
    require_iid,
    stream_of,
)
from mercer.features.laws import Address, Law
from mercer.numerics import philox
from mercer.numerics.cosine import cosine_pairs_of_turns, cosines_of_turns

# A normal number nearer to 0 makes a rate so large that its exponential is 0 all the same for any
# input but 0; there infinity times 0 would be NaN.
_LEAST_NORMAL = 1e-12


@dataclass(frozen=True)
class Logarithms:
    """The map of rows to ln(x + c), in which skewed kernels are stationary.

    Attributes
    ----------
    kernel : str
        Name of the kernel, for messages.
    c : float
        Shift; inputs have to be above -c.
    """

    kernel: str
    c: float

    def __call__(self, X: Floats) -> Floats:
        """Take logarithms of inputs, which have to be above -c."""
        check_domain(X, self.kernel, -self.c, open_low=True)
        logarithms: Floats = np.log(X + X.dtype.type(self.c))
        return logarithms


@dataclass(frozen=True)
class Roots:
    """The map of rows to their square roots, in which Hellinger's kernel is linear.

    Attributes
    ----------
    kernel : str
        Name of the kernel, for messages.
    """

    kernel: str

    def __call__(self, X: Floats) -> Floats:
        """Take square roots of inputs, which must not be negative."""
        check_domain(X, self.kernel)
        roots: Floats = np.sqrt(X)
        return roots


class AdditiveMap(FeatureMap):
    r"""Cosines in the logarithm of one input: :math:`\sqrt{2 d x_j / m} \cos(\omega \ln x_j + b)`.

    Additive homogeneous kernels are :math:`\sum_j \sqrt{x_j x'_j}\, E \cos(\omega \ln(x_j /
    x'_j))`. A frequency sees a single input j, the sum over inputs being an average times d;
    frequency i of a block sees the input (i + start) mod d, with a random start. So every input is
    seen equally often, and the kernel is right on average for any number of features. An input
    of 0 gives 0. Pairs are cosine and sine of a frequency: m/2 cosines, then the sines; if m is
    odd, the last column is a cosine with a phase.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    law : Law
        Law of the frequencies, for one input.
    options : FeatureOptions
        Pairs or phases; the design has to be "iid" or "auto".
    path : int, default=0
        Place in a composite kernel.
    kernel : str
        Name of the kernel, for messages.

    References
    ----------
    DSG, Table 1, with a random input in the place of its vector of d numbers for each frequency.
    A. Vedaldi, A. Zisserman, Efficient additive kernels via explicit feature maps, IEEE TPAMI 34,
    2012, for the laws.
    """

    n_prepared = 2
    in_order = True

    def __init__(
        self, n_inputs: int, law: Law, options: FeatureOptions, path: int = 0, *, kernel: str
    ) -> None:
        super().__init__(n_inputs, path)
        require_iid(options, kernel)
        self.law = law
        self.paired = options.paired
        self.kernel = kernel

    def prepare(self, X: Floats) -> Prepared:
        """Roots and logarithms of non-negative inputs; 0 in the place of the logarithm of 0."""
        check_domain(X, self.kernel)
        logarithms = np.log(X, where=X != 0, out=np.zeros_like(X))
        return (np.sqrt(X), logarithms)

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Draw inputs, frequencies in turns, and phases in turns."""
        k = (n_features + 1) // 2 if self.paired else n_features
        n_phases = n_features % 2 if self.paired else n_features
        word = philox.words(seed, block, stream_of(self.path, SCALARS), 1, 1)[0, 0]
        start = (int(word) * self.n_inputs) >> 32
        frequencies = self.law.draw(Address(seed, block, self.path, k, 1), np.float64)[0]
        frequencies /= 2 * math.pi
        stream = stream_of(self.path, PHASES)
        phases = philox.phases(seed, block, stream, n_phases, dtype, first_feature=k - n_phases)
        return (np.arange(start, start + k) % self.n_inputs, frequencies.astype(dtype), phases)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features: cosines of frequencies times logarithms, times the roots."""
        roots, logarithms = prepared
        inputs, frequencies, phases = numbers
        m, k = out.shape[1], len(inputs)
        np.multiply(np.take(logarithms, inputs, axis=1), frequencies, out=out[:, :k])
        scale = out.dtype.type(math.sqrt(2 * self.n_inputs / m))
        turn = cosine_pairs_of_turns if self.paired else cosines_of_turns
        turn(out, phases, scale)
        weights = np.take(roots, inputs, axis=1)
        if self.paired:
            n_pairs = m // 2
            out[:, :n_pairs] *= weights[:, :n_pairs]
            out[:, n_pairs : 2 * n_pairs] *= weights[:, :n_pairs]
            out[:, 2 * n_pairs :] *= weights[:, n_pairs:]
        else:
            out *= weights


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
