"""Frequencies of the kernels on a device: the laws of :mod:`mercer.features.laws` for tensors.

A frequency is ``factor * z`` with coordinates ``z`` from one symmetric law. The factor is a number
of the kernel, or one of each frequency for mixtures of Gaussian kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from mercer.features import CosineMap, FeatureOptions
from mercer.features.feature_map import PHASES, WEIGHTS, stream_of
from mercer.features.laws import Address, LaplaceLaw, Law, NormalLaw, RadialLaw, TanLaw
from mercer.kernels import Kernel
from mercer_gpu._torch import Tensor, require_torch
from mercer_gpu.philox import distance_to_ends, logarithm, normals, phases, words


class Spectrum(NamedTuple):
    """Distribution of the frequencies of a kernel.

    Attributes
    ----------
    law : str
        Law of a coordinate: "normal", "tangent" (Cauchy distribution) or "laplace".
    scale : float
        Multiplies all frequencies.
    radial : RadialLaw or None
        Gives the factor of each frequency.
    """

    law: str
    scale: float
    radial: RadialLaw | None = None

    @property
    def turns(self) -> float:
        """Turns for each unit of the inputs and of a coordinate's law."""
        return self.scale / (2.0 * math.pi)

    def frequencies(self, address: Address, device: Any, dtype: Any) -> Tensor:
        """Frequencies of one block in turns, a tensor of shape (n_inputs, n_frequencies)."""
        W = _COORDINATES[self.law](address, device, dtype)
        W *= self.turns
        factors = self.factors(address, device, dtype)
        return W if factors is None else W.mul_(factors)

    def factors(self, address: Address, device: Any, dtype: Any) -> Tensor | None:
        """Factors of one block's frequencies, a tensor of shape (n_frequencies,), or None."""
        if self.radial is None:
            return None
        # One number for each frequency, not for each input: left to the host, which has the laws.
        values = self.radial.factors(address)
        return require_torch().as_tensor(values).to(device=device, dtype=dtype)


def phases_of(address: Address, device: Any, dtype: Any) -> Tensor:
    """Phases of one block in turns, a tensor of shape (n_frequencies,)."""
    stream = stream_of(address.path, PHASES)
    where = {"device": device, "dtype": dtype}
    return phases(address.seed, address.block, stream, address.n_frequencies, **where)


def cosine_map_of(kernel: Kernel, n_inputs: int, options: FeatureOptions) -> CosineMap:
    """Features of a kernel on the CPU, if they are cosines of the inputs themselves.

    Raises
    ------
    ValueError
        If the kernel has others, a number of it still has to come from data, or the kernel does
        not allow the design.
    """
    if not kernel.is_resolved:
        raise ValueError(
            f"{kernel!r} has no number for its length scale yet. Call kernel.resolve(X) and use "
            "the kernel that it returns, or give a number yourself."
        )
    features = kernel._feature_map(n_inputs, options, 0)
    # Behind a map they are the features of other coordinates.
    if type(features) is not CosineMap:
        raise ValueError(
            f"mercer_gpu has no random features for {kernel!r}, only for Gaussian, Laplacian, "
            "Cauchy, Matern, RationalQuadratic and products of them. Use kernel.random_features, "
            "or the model's own methods, on the CPU."
        )
    return features


def spectrum_of(kernel: Kernel, n_inputs: int) -> Spectrum:
    """Find the spectrum of a kernel.

    Raises
    ------
    ValueError
        If it has none here, or a number of it still has to come from data.
    """
    spectrum = spectrum_of_law(cosine_map_of(kernel, n_inputs, FeatureOptions()).law)
    if spectrum is None:
        raise ValueError(
            f"The fused path cannot draw the frequencies of {kernel!r}, only those of Gaussian, "
            "Laplacian, Cauchy, Matern and RationalQuadratic. Use mercer_gpu.evaluate."
        )
    return spectrum


def spectrum_of_law(law: Law) -> Spectrum | None:
    """Spectrum of a law of frequencies, or None if the device's generator does not know it."""
    match law:
        case NormalLaw():
            return Spectrum("normal", law.scale)
        case RadialLaw():
            return Spectrum("normal", 1.0, law)
        case TanLaw():
            return Spectrum("tangent", law.scale)
        case LaplaceLaw():
            return Spectrum("laplace", law.scale)
    return None


def _place(address: Address) -> tuple[int, int, int, int, int]:
    stream = stream_of(address.path, WEIGHTS)
    return address.seed, address.block, stream, address.n_frequencies, address.n_inputs


def _normal(address: Address, device: Any, dtype: Any) -> Tensor:
    return normals(*_place(address), device=device, dtype=dtype)


def _tangent(address: Address, device: Any, dtype: Any) -> Tensor:
    t, sign = distance_to_ends(words(*_place(address), device=device), dtype)
    return sign / require_torch().tan(math.pi * t)


def _laplace(address: Address, device: Any, dtype: Any) -> Tensor:
    t, sign = distance_to_ends(words(*_place(address), device=device), dtype)
    return -sign * logarithm(2.0 * t, 2.0 * t - 1.0)


_COORDINATES: dict[str, Callable[[Address, Any, Any], Tensor]] = {
    "normal": _normal,
    "tangent": _tangent,
    "laplace": _laplace,
}
