"""The optional dependency: PyTorch, imported when it is first needed, and its settings."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

#: A tensor of PyTorch. Its type cannot be named here, as PyTorch is not a dependency.
Tensor = Any


@functools.cache
def require_torch() -> ModuleType:
    """Import ``torch``, or say how to install it.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "mercer_gpu computes with PyTorch, which is not installed. Run "
            "`pip install mercer[gpu]`; without it use the CPU path, kernel.random_features."
        ) from error
    module: ModuleType = torch
    return module


@functools.cache
def require_triton() -> ModuleType:
    """Import ``triton``, or say what to use instead.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import triton
    except ImportError as error:
        raise ImportError(
            "The fused path needs Triton, which is not installed (it comes with PyTorch for "
            "NVIDIA devices on Linux). Run `pip install triton`, or use "
            "mercer_gpu.evaluate, which gives the same numbers by library products."
        ) from error
    module: ModuleType = triton
    return module


def device_rows(X: Any) -> Tensor:
    """Rows as a C-contiguous float32 or float64 tensor; one that is a tensor keeps its device.

    Raises
    ------
    ValueError
        If ``X`` is sparse, not two-dimensional or not real.
    """
    torch = require_torch()
    is_tensor = isinstance(X, torch.Tensor)
    if X.layout != torch.strided if is_tensor else issparse(X):
        kind, dense = (X.layout, "to_dense") if is_tensor else (type(X).__name__, "toarray")
        raise ValueError(
            f"`X` must be dense, got {kind}: the products with frequencies are dense. Use "
            f"X.{dense}(), for large data some thousand rows at a time."
        )
    rows = X if is_tensor else torch.as_tensor(np.asarray(X))
    if rows.ndim != 2:
        raise ValueError(
            f"`X` must be two-dimensional, one row per point, got the shape {tuple(rows.shape)}. "
            "Use x.reshape(1, -1) for a single point."
        )
    if rows.is_complex():
        raise ValueError(f"`X` must be real, got the dtype {rows.dtype}.")
    if rows.dtype not in (torch.float32, torch.float64):
        # Half precision has 8 or 11 bits: kept as it is, but computed with in float32.
        rows = rows.to(torch.float32 if rows.dtype.itemsize <= 2 else torch.float64)
    return rows.detach().contiguous()


@contextmanager
def float32_products(device: Any) -> Iterator[None]:
    """Context without TF32, bfloat16 and autocast, and without gradients.

    TF32 keeps 10 bits of a phase, an error of 1e-3 radians for each radian. The setting is one of
    the process, and is restored.
    """
    torch = require_torch()
    backends = [torch.backends.cuda.matmul]
    if hasattr(torch.backends.mkldnn, "matmul"):
        backends.append(torch.backends.mkldnn.matmul)
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(torch.device(device).type, enabled=False))
        for backend in backends:
            # Releases before 2.9 know only the older of the two names.
            new = hasattr(backend, "fp32_precision")
            name, exact = ("fp32_precision", "ieee") if new else ("allow_tf32", False)
            stack.callback(setattr, backend, name, getattr(backend, name))
            setattr(backend, name, exact)
        yield
