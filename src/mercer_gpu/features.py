r"""Random features and their sums on tensors, in one call.

References
----------
DSG, Algorithms 1 and 2, Table 1.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from mercer.kernels import Kernel
from mercer_gpu._blocks import FeatureBlocks
from mercer_gpu._torch import Tensor, device_rows


def random_features(
    kernel: Kernel,
    X: ArrayLike | Tensor,
    n_features: int,
    seed: int = 0,
    block: int = 0,
    *,
    paired: bool = True,
    design: str = "iid",
) -> Tensor:
    """Random features of rows, on the device and in the dtype of the rows.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Cauchy, Matern, RationalQuadratic or a product of such kernels, with
        numbers as length scales.
    X : tensor or array-like of shape (n, n_inputs)
        Rows.
    n_features : int
        Columns of the result.
    seed : int, default=0
        0 <= seed < 2**64.
    block : int, default=0
        Number of the block, 0, 1, ... below 2**32.
    paired : bool, default=True
        Cosine and sine of each frequency, instead of one cosine with a random phase.
    design : {"iid", "orthogonal", "hadamard", "sobol", "auto"}, default="iid"
        How frequencies are drawn; a fitted model uses the design of its expansion, "auto" if
        nothing else was asked for (:func:`mercer_gpu.evaluate_model`).

    Returns
    -------
    Z : tensor of shape (n, n_features)
        With E[Z Z'] = kernel(X, X).

    Raises
    ------
    ValueError
        If an argument is outside its range, or the kernel has no features here.
    ImportError
        If PyTorch is not installed.

    Examples
    --------
    >>> import torch
    >>> from mercer_gpu import random_features
    >>> from mercer.kernels import Gaussian
    >>> Z = random_features(Gaussian(1.0), torch.tensor([[0.0], [1.0]]), 4096)
    >>> (Z @ Z.T).round(decimals=1)
    tensor([[1.0000, 0.6000],
            [0.6000, 1.0000]])
    """
    rows = device_rows(X)
    blocks = FeatureBlocks(
        kernel,
        rows.shape[1],
        n_features,
        seed,
        paired=paired,
        design=design,
        device=rows.device,
        dtype=rows.dtype,
        cache_bytes=0,
    )
    return blocks.features(rows, block)


def evaluate(
    kernel: Kernel,
    X: ArrayLike | Tensor,
    coefficients: ArrayLike | Tensor,
    block_size: int,
    seed: int = 0,
    *,
    first_block: int = 0,
    paired: bool = True,
    design: str = "iid",
) -> Tensor:
    r"""Values of a function that was learnt on random features, :math:`\sum_i Z_i \alpha_i`.

    Makes each block's frequencies once. To keep them from call to call use
    :class:`FeatureBlocks`; for long sums on a device use :func:`mercer_gpu.fused_evaluate`.

    Parameters
    ----------
    kernel : Kernel
        Gaussian, Laplacian, Cauchy, Matern, RationalQuadratic or a product of such kernels, with
        numbers as length scales.
    X : tensor or array-like of shape (n, n_inputs)
        Rows.
    coefficients : tensor or array-like of shape (n_features,) or (n_features, n_outputs)
        Coefficients, block after block, ``block_size`` of each.
    block_size : int
        Features of a block.
    seed : int, default=0
        0 <= seed < 2**64.
    first_block : int, default=0
        Number of the block that the first coefficients belong to.
    paired : bool, default=True
        Cosine and sine of each frequency, instead of one cosine with a random phase.
    design : {"iid", "orthogonal", "hadamard", "sobol", "auto"}, default="iid"
        How frequencies are drawn; a fitted model uses the design of its expansion, "auto" if
        nothing else was asked for (:func:`mercer_gpu.evaluate_model`).

    Returns
    -------
    values : tensor of shape (n,) or (n, n_outputs)
        On the device and in the dtype of the rows.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the kernel has no features here.
    ImportError
        If PyTorch is not installed.

    Examples
    --------
    >>> import torch
    >>> from mercer_gpu import evaluate
    >>> from mercer.kernels import Gaussian
    >>> X = torch.tensor([[0.0], [1.0]])
    >>> evaluate(Gaussian(1.0), X, torch.ones(3 * 64, 2), block_size=64).shape
    torch.Size([2, 2])
    """
    rows = device_rows(X)
    blocks = FeatureBlocks(
        kernel,
        rows.shape[1],
        block_size,
        seed,
        paired=paired,
        design=design,
        device=rows.device,
        dtype=rows.dtype,
        cache_bytes=0,
    )
    return blocks.evaluate(rows, coefficients, first_block=first_block)
