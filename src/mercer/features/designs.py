"""Ways to draw frequencies that cover their law more evenly than independent ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from mercer._validation import check_choice
from mercer.features.feature_map import Floats
from mercer.features.laws import Address, Law
from mercer.features.streams import NORMS, SHIFTS, SIGNS, stream_of
from mercer.numerics import philox
from mercer.numerics.hadamard import padded_size
from mercer.numerics.sobol import MOST_DIMENSIONS, sobol_uniforms

__all__ = ["DESIGNS", "choose_design", "draw_dense", "draw_hadamard"]

DESIGNS = ("iid", "orthogonal", "hadamard", "sobol", "auto")

# The sequence wins in few dimensions (d = 2 measured), the fast transform where the matrix product
# is dear. The transform's frequencies are biased for few inputs (d = 2 measured, hence refused).
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
        From :func:`choose_design`.
    address : Address
        Of the numbers.
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
    """Points of a block: one shifted sequence goes on through all blocks of a seed and path."""
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
        Of the numbers.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    signs : ndarray of shape (3, n_groups * padded_size)
        Diagonals.
    scales : ndarray of shape (n_frequencies,)
        Norms of the frequencies in the padded space, over those of the products of signs.

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
