"""Sums of random features on a GPU: library products and the fused kernel against a plain GEMM.

Speed is counted in the additions and multiplications of the two matrix products, 2 n d k for the
phases of k frequencies and 2 n m C for the sums, so that making random numbers and cosines shows up
as a loss. Reference is a float32 product (no TF32) of 4096 x 4096 matrices, measured in the same
run. Without a CUDA device nothing is measured, and nothing is written.
"""

from __future__ import annotations

import sys

import _common

REPEATS = 5
GEMM_SIZE = 4096

# Rows, inputs, features of a block, blocks, outputs: the shapes of DSG, Section 7.
SIZES = (
    (65_536, 2, 1024, 64, 1),
    (65_536, 54, 256, 256, 1),
    (65_536, 54, 1024, 64, 1),
    (65_536, 123, 1024, 64, 1),
    (16_384, 784, 1024, 64, 10),
)


def least_seconds(function, device):
    """Smallest time of several calls on a device, after one to warm up."""
    import torch

    function()
    best = float("inf")
    for _ in range(REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        function()
        end.record()
        torch.cuda.synchronize(device)
        best = min(best, start.elapsed_time(end) / 1e3)
    return best


def gemm_speed(device, timer):
    """Operations per second of a large float32 product."""
    import torch

    from mercer_gpu._torch import float32_products

    A, B = (torch.randn(GEMM_SIZE, GEMM_SIZE, device=device) for _ in range(2))
    with float32_products(device):
        return 2 * GEMM_SIZE**3 / timer(lambda: A @ B, device)


def measure(device, sizes, timer=least_seconds, fused=True):
    """One row of the table for each size."""
    import torch

    from mercer.kernels import Gaussian
    from mercer_gpu import FeatureBlocks, evaluate, fused_evaluate

    gemm = gemm_speed(device, timer)
    rows = []
    for n, d, m, n_blocks, n_outputs in sizes:
        torch.manual_seed(0)
        X = torch.randn(n, d, device=device)
        alpha = torch.randn(n_blocks * m, n_outputs, device=device)
        kernel = Gaussian((2 * d) ** 0.5)
        kept = FeatureBlocks(kernel, d, m, device=device)
        work = n * n_blocks * (2 * d * (m // 2) + 2 * m * n_outputs)
        ways = {
            "frequencies kept": lambda: kept.evaluate(X, alpha),
            "frequencies made anew": lambda: evaluate(kernel, X, alpha, m),
            # What a fitted model costs when it is evaluated once: the design that it has, drawn on
            # the CPU. It is another function, so its difference says nothing.
            "frequencies of the CPU": lambda: evaluate(kernel, X, alpha, m, design="auto"),
        }
        if fused:
            ways["fused"] = lambda: fused_evaluate(kernel, X, alpha, m)
        reference = ways["frequencies kept"]()
        scale = float(reference.square().mean().sqrt())
        for name, way in ways.items():
            seconds = timer(way, device)
            rows.append(
                {
                    "rows": n,
                    "d": d,
                    "features": n_blocks * m,
                    "per block": m,
                    "outputs": n_outputs,
                    "way": name,
                    "ms": 1e3 * seconds,
                    "ns per row and feature": 1e9 * seconds / (n * n_blocks * m),
                    "TFLOP/s": work / seconds / 1e12,
                    "of GEMM": work / seconds / gemm,
                    "difference / rms": (
                        ""
                        if name == "frequencies of the CPU"
                        else float((way() - reference).abs().max()) / scale
                    ),
                }
            )
    return rows, gemm


def main():
    try:
        import torch
    except ImportError:
        sys.stdout.write("PyTorch is not installed: nothing was measured.\n")
        return
    if not torch.cuda.is_available():
        sys.stdout.write("PyTorch sees no CUDA device: nothing was measured.\n")
        return
    device = torch.device("cuda")
    rows, gemm = measure(device, SIZES)
    note = (
        f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}. GEMM of "
        f"{GEMM_SIZE} x {GEMM_SIZE} matrices in float32: {gemm / 1e12:.1f} TFLOP/s."
    )
    _common.publish("gpu", rows, note)


if __name__ == "__main__":
    main()
