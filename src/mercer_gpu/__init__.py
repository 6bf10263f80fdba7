"""Random features on PyTorch tensors, for GPUs: the numbers of the CPU, regenerated on the device.

Needs PyTorch (``pip install mercer[gpu]``), which is imported when it is first used. The generator
addresses every number by (seed, block, feature, coordinate), so a function that was learnt on the
CPU is evaluated on a device from its coefficients and its seed alone: :func:`evaluate_model`
does so for a fitted estimator.
"""

from mercer_gpu._blocks import FeatureBlocks
from mercer_gpu.features import evaluate, random_features
from mercer_gpu.fused import fused_evaluate
from mercer_gpu.models import blocks_of_model, evaluate_model

__all__ = [
    "FeatureBlocks",
    "blocks_of_model",
    "evaluate",
    "evaluate_model",
    "fused_evaluate",
    "random_features",
]
