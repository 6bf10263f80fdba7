"""Cosine features of random frequencies, for shift-invariant kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.features.designs import choose_design, draw_dense, draw_hadamard
from mercer.features.feature_map import FeatureMap, FeatureOptions, Floats, Numbers, Prepared
from mercer.features.laws import Address, Law
from mercer.features.streams import PHASES, stream_of
from mercer.numerics import philox
from mercer.numerics.cosine import cosine_pairs_of_turns, cosines_of_turns
from mercer.numerics.hadamard import hadamard_projections

__all__ = ["CosineMap"]


class CosineMap(FeatureMap):
    r"""Features :math:`\sqrt{2/m} \cos(\omega_i^T x + b_i)`, or pairs of cosine and sine.

    Their inner products have the expectation :math:`E \cos(\omega^T (x - x'))`, which is the
    kernel that belongs to the law of :math:`\omega`. Pairs,
    :math:`\sqrt{2/m} [\cos(\omega_i^T x), \sin(\omega_i^T x)]`, have a smaller variance and need
    half the projections; m/2 cosines come first, then the sines. If m is odd, the last column is a
    cosine with a phase of a frequency of its own.

    A subclass with another :meth:`prepare` has the kernel in other coordinates, such as logarithms.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    law : Law
        Law of the frequencies.
    options : FeatureOptions
        Pairs or phases, and the design of the frequencies.
    path : int, default=0
        Place in a composite kernel.

    Attributes
    ----------
    law : Law
        As given.
    options : FeatureOptions
        As given.
    design : str
        Design in use; never "auto".

    Raises
    ------
    ValueError
        If the law does not allow the design.

    References
    ----------
    A. Rahimi, B. Recht, Random features for large-scale kernel machines, NIPS 2007; DSG, Table 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features import CosineMap, FeatureOptions, NormalLaw
    >>> features = CosineMap(1, NormalLaw(scale=1.0), FeatureOptions())
    >>> X, Z = np.array([[0.0], [1.0]]), np.empty((2, 4096))
    >>> features.transform(features.prepare(X), features.draw(0, 0, 4096, X.dtype), Z)
    >>> (Z @ Z.T).round(1)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    def __init__(self, n_inputs: int, law: Law, options: FeatureOptions, path: int = 0) -> None:
        super().__init__(n_inputs, path)
        self.law = law
        self.options = options
        self.design = choose_design(law, n_inputs, options.design)
        self.in_order = self.design == "sobol"

    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Frequencies in turns (or their structured form), and phases in turns.

        Frequency i is the same for any number of features, but for the design "sobol" in blocks
        after the first: there it depends on how many points the blocks before it took.
        """
        paired = self.options.paired
        k = (n_features + 1) // 2 if paired else n_features
        address = Address(seed, block, self.path, k, self.n_inputs)
        n_phases = n_features % 2 if paired else n_features
        stream = stream_of(self.path, PHASES)
        phases = philox.phases(seed, block, stream, n_phases, dtype, first_feature=k - n_phases)
        if self.design == "hadamard":
            return (*draw_hadamard(self.law, address, dtype), phases)
        return (draw_dense(self.law, self.design, address, dtype), phases)

    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features; the turns are made in the first columns of ``out``, so nothing is allocated."""
        (X,) = prepared
        *frequencies, phases = numbers
        if self.design == "hadamard":
            signs, scales = frequencies
            hadamard_projections(X, signs, scales, out)
        else:
            np.matmul(X, frequencies[0], out=out[:, : frequencies[0].shape[1]])
        scale = out.dtype.type(math.sqrt(2 / out.shape[1]))
        if self.options.paired:
            cosine_pairs_of_turns(out, phases, scale)
        else:
            cosines_of_turns(out, phases, scale)
