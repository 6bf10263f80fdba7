"""Where the numbers of a block come from: the device's own generator, or the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.features import CosineMap, FeatureOptions
from mercer.features.laws import Address
from mercer.kernels import Kernel
from mercer.numerics.designs import hadamard_projections
from mercer_gpu._spectrum import Spectrum, cosine_map_of, phases_of, spectrum_of_law
from mercer_gpu._torch import Tensor, require_torch

#: From (seed, block, block_size, device, dtype) to the frequencies, shape (n_inputs,
#: n_frequencies), and the phases of the last columns where there are any, all in turns.
Draws = Callable[[int, int, int, Any, Any], tuple[Tensor, Tensor | None]]


def draws_of(kernel: Kernel, n_inputs: int, options: FeatureOptions) -> Draws:
    """How to draw the blocks of a kernel's features.

    Raises
    ------
    ValueError
        If the kernel has no features on devices, or does not allow the design.
    """
    features = cosine_map_of(kernel, n_inputs, options)
    spectrum = spectrum_of_law(features.law) if features.design == "iid" else None
    return _host_draws(features) if spectrum is None else _device_draws(features, spectrum)


def _device_draws(features: CosineMap, spectrum: Spectrum) -> Draws:
    paired = features.options.paired

    def draw(
        seed: int, block: int, block_size: int, device: Any, dtype: Any
    ) -> tuple[Tensor, Tensor | None]:
        k = (block_size + 1) // 2 if paired else block_size
        address = Address(seed, block, features.path, k, features.n_inputs)
        W = spectrum.frequencies(address, device, dtype)
        # An odd number of columns leaves one frequency without its pair: it gets its phase.
        n_phases = block_size % 2 if paired else block_size
        b = phases_of(address, device, dtype)[k - n_phases :].clone() if n_phases else None
        return W, b

    return draw


def _host_draws(features: CosineMap) -> Draws:
    def draw(
        seed: int, block: int, block_size: int, device: Any, dtype: Any
    ) -> tuple[Tensor, Tensor | None]:
        torch = require_torch()
        host = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        *frequencies, phases = features.draw(seed, block, block_size, host)
        if features.design == "hadamard":
            # Projections of the unit vectors are the matrix. Before its scales it has integers
            # below 2^24 for up to 4,096 inputs, so this is exact in float32 too.
            signs, scales = frequencies
            W = np.empty((features.n_inputs, scales.size), host)
            hadamard_projections(np.eye(features.n_inputs, dtype=host), signs, scales, W)
        else:
            (W,) = frequencies
        b = torch.as_tensor(phases).to(device) if phases.size else None
        return torch.as_tensor(W).to(device), b

    return draw
