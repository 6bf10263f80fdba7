"""Cosine features of random frequencies, for shift-invariant kernels, and how these are drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from mercer.features.composite import MappedMap, ScaledMap
from mercer.features.feature_map import (
    NORMS,
    PHASES,
    SHIFTS,
    SIGNS,
    FeatureMap,
    FeatureOptions,
    Floats,
    Numbers,
    Prepared,
    stream_of,
)
from mercer.features.half_line import Logarithms
from mercer.features.laws import Address, Law, SumLaw
from mercer.numerics import philox
from mercer.numerics.cosine import cosine_pairs_of_turns, cosines_of_turns
from mercer.numerics.designs import (
    MOST_DIMENSIONS,
    hadamard_projections,
    padded_size,
    sobol_uniforms,
)
from mercer.validation import check_choice

DESIGNS = ("iid", "orthogonal", "hadamard", "sobol", "auto")

# The sequence is best in few dimensions (d = 2 measured), the fast transform where the matrix
# product is expensive. The transform's frequencies are biased for few inputs (d = 2 measured), so
# it is refused there.
_MOST_INPUTS_FOR_SOBOL = 5
_LEAST_INPUTS_FOR_HADAMARD = 16
_LEAST_INPUTS_FOR_SPEED = 128


def choose_design(law: Law, n_inputs: int, design: str) -> str:
    """Design to use: what is asked for, or the best known one for "auto".

    Parameters
    ----------
    law : Law
        Law of the frequencies.
    n_inputs : int
        Number of inputs.
    design : str
        One of ``DESIGNS``.

    Returns
    -------
    design : str
        Not "auto".

    Raises
    ------
    ValueError
        If the law or the number of inputs does not allow the design.

    Examples
    --------
    >>> from mercer.features.laws import NormalLaw
    >>> choose_design(NormalLaw(1.0), 784, "auto")
    'hadamard'
    """
    check_choice("design", design, DESIGNS)
    if design == "auto":
        return _best_design(law, n_inputs)
    if design not in law.designs:
        raise ValueError(
            f"`design` {design!r} needs frequencies without a preferred direction, and those of "
            f"{type(law).__name__} have one. Use one of "
            f"{', '.join(repr(name) for name in DESIGNS if name in law.designs)} or 'auto'."
        )
    if design == "hadamard" and n_inputs < _LEAST_INPUTS_FOR_HADAMARD:
        raise ValueError(
            f"`design` 'hadamard' needs at least {_LEAST_INPUTS_FOR_HADAMARD} inputs, got "
            f"{n_inputs}: with few inputs its features are biased. Use 'sobol', 'orthogonal' or "
            "'auto'."
        )
    if design == "sobol" and law.n_uniforms(n_inputs) > MOST_DIMENSIONS:
        raise ValueError(
            f"`design` 'sobol' knows at most {MOST_DIMENSIONS} dimensions, and {n_inputs} inputs "
            f"need {law.n_uniforms(n_inputs)} here. Use 'auto'."
        )
    return design


def _best_design(law: Law, n_inputs: int) -> str:
    # DSG leaves this open; the table of methods against inputs is in benchmarks/random_features.py.
    if n_inputs <= _MOST_INPUTS_FOR_SOBOL and "sobol" in law.designs:
        return "sobol"
    if n_inputs >= _LEAST_INPUTS_FOR_SPEED:
        return "hadamard" if "hadamard" in law.designs else "iid"
    return "orthogonal" if "orthogonal" in law.designs else "iid"


def draw_dense(law: Law, design: str, address: Address, dtype: Any) -> Floats:
    """Frequencies as a matrix, in turns for each unit of input.

    Parameters
    ----------
    law : Law
        Law of the frequencies.
    design : {"iid", "orthogonal", "sobol"}
        Result of :func:`choose_design`.
    address : Address
        Address of the random numbers.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    W : ndarray of shape (n_inputs, n_frequencies)
        C-ordered.
    """
    if design == "orthogonal":
        W = law.draw_orthogonal(address, dtype)
    elif design == "sobol":
        U = _sobol_points(address, law.n_uniforms(address.n_inputs))
        W = law.from_uniforms(U, address.n_inputs).astype(dtype, copy=False)
    else:
        W = law.draw(address, dtype)
    W *= 1 / (2 * math.pi)
    return W


def _sobol_points(address: Address, n_dimensions: int) -> Floats:
    """Return a block's points: one shifted sequence runs through all blocks of a seed and path."""
    stream = stream_of(address.path, SHIFTS)
    shift = philox.words(address.seed, 0, stream, 1, n_dimensions)[:, 0]
    return sobol_uniforms(address.block * address.n_frequencies, address.n_frequencies, shift)


def draw_hadamard(law: Law, address: Address, dtype: Any) -> tuple[Floats, Floats]:
    """Signs and scales of structured frequencies, for ``hadamard_projections`` to turns.

    Parameters
    ----------
    law : Law
        Law of the frequencies; its factors are used.
    address : Address
        Address of the random numbers.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    signs : ndarray of shape (3, n_groups * padded_size)
        Diagonals.
    scales : ndarray of shape (n_frequencies,)
        Norms of the frequencies in the padded space, divided by the norms of the sign products.

    References
    ----------
    F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar, Orthogonal random features,
    NIPS 2016, Section 5 (SORF); norms are drawn here, as for normal vectors, not constant.
    """
    p = padded_size(address.n_inputs)
    n_groups = -(-address.n_frequencies // p)
    stream = stream_of(address.path, SIGNS)
    signs = philox.signs(address.seed, address.block, stream, n_groups * p, 3, dtype)
    norms = np.sqrt(2 * special.gammaincinv(p / 2, address.uniforms(NORMS, 1)[0]))
    scales = law.factors(address) * norms / (2 * math.pi * p**1.5)
    return signs, scales.astype(dtype)


class CosineMap(FeatureMap):
    r"""Features :math:`\sqrt{2/m} \cos(\omega_i^T x + b_i)`, or pairs of cosine and sine.

    Their inner products have the expectation :math:`E \cos(\omega^T (x - x'))`, which is the kernel
    that belongs to the law of :math:`\omega`. Pairs, :math:`\sqrt{2/m} [\cos(\omega_i^T x),
    \sin(\omega_i^T x)]`, have a smaller variance and need half the projections; m/2 cosines come
    first, then the sines. If m is odd, the last column is a cosine with a phase and its own
    frequency.

    After a map of the rows (``mercer.features.composite.MappedMap``) they are features of the
    kernel in other coordinates, such as logarithms.

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
        """Compute features; the arguments of the cosines go to the first columns of ``out``."""
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


def joined_cosines(
    left: FeatureMap, right: FeatureMap, options: FeatureOptions, path: int
) -> FeatureMap | None:
    """Map of the product of two kernels that are cosines of the same inputs.

    A product of two such kernels is a kernel of cosines again, of the sum of their frequencies:
    cheaper than a product of features, and of a smaller variance.

    Parameters
    ----------
    left, right : FeatureMap
        Maps of the factors.
    options : FeatureOptions
        Pairs or phases, and the design of the frequencies.
    path : int
        Place of the product in a composite kernel.

    Returns
    -------
    joined : FeatureMap or None
        None if one of the maps is not of cosines, or their inputs differ.

    Raises
    ------
    ValueError
        If the sum of the frequencies does not allow the design.
    """
    left, left_factor = _unscaled(left)
    right, right_factor = _unscaled(right)
    if isinstance(left, MappedMap) and isinstance(right, MappedMap):
        joined = _in_logarithms(left, right, options, path)
    else:
        joined = _of_cosines(left, right, options, path)
    factor = left_factor * right_factor
    return joined if factor == 1.0 or joined is None else ScaledMap(joined, factor)


def _in_logarithms(
    left: MappedMap, right: MappedMap, options: FeatureOptions, path: int
) -> FeatureMap | None:
    """Join cosines in the same logarithms."""
    ours, theirs = left.image, right.image
    if isinstance(ours, Logarithms) and isinstance(theirs, Logarithms) and ours.c == theirs.c:
        joined = _of_cosines(left.inner, right.inner, options, path)
        return None if joined is None else MappedMap(left.n_inputs, joined, ours)
    return None


def _of_cosines(
    left: FeatureMap, right: FeatureMap, options: FeatureOptions, path: int
) -> FeatureMap | None:
    if not (isinstance(left, CosineMap) and isinstance(right, CosineMap)):
        return None
    return CosineMap(left.n_inputs, SumLaw(left.law, right.law), options, path)


def _unscaled(feature_map: FeatureMap) -> tuple[FeatureMap, float]:
    """Return the map without its factors, and their product."""
    factor = 1.0
    while isinstance(feature_map, ScaledMap):
        factor *= feature_map.factor
        feature_map = feature_map.inner
    return feature_map, factor
