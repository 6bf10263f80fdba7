r"""Fitted models of random features on devices.

A model with ``expansion=RandomFeatures(...)`` is its coefficients, a seed and a kernel; so it is
learnt on the CPU and evaluated wherever there are tensors.

References
----------
DSG, Algorithm 2.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from mercer.functions import FeatureExpansion
from mercer_gpu._blocks import FeatureBlocks
from mercer_gpu._torch import Tensor, device_rows, require_torch


def blocks_of_model(model: Any, *, device: Any = None, cache_bytes: int = 2**30) -> FeatureBlocks:
    """Random features of a fitted model on a device, to evaluate it many times.

    Unlike :func:`evaluate_model` they keep the frequencies on the device, and so draw them once.
    The features do not change when the model goes on learning: only their number and the
    coefficients do.

    Parameters
    ----------
    model : estimator
        Fitted, with ``expansion=RandomFeatures(...)``; one of its kernels on devices.
    device : torch.device or str, default=None
        Where to compute; None is PyTorch's default.
    cache_bytes : int, default=2**30
        Bytes of frequencies to keep on the device.

    Returns
    -------
    blocks : FeatureBlocks
        ``blocks.evaluate(X, model.coefficients_)`` are the values of the function, less the
        ``intercept_``. In float32, or float64 for a model of
        ``precision="double"``.

    Raises
    ------
    ValueError
        If the model is not fitted, has a dictionary, or its kernel has no features on devices.
    ImportError
        If PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> from mercer.expansions import RandomFeatures
    >>> from mercer_gpu import blocks_of_model
    >>> x = np.linspace(-3, 3, 400)[:, None]
    >>> model = KernelRegressor(expansion=RandomFeatures(64), random_state=0).fit(x, np.sin(x))
    >>> blocks = blocks_of_model(model, device="cpu")
    >>> values = blocks.evaluate(x, model.coefficients_).numpy() + model.intercept_
    >>> np.allclose(values, model.predict(x), atol=1e-4)
    True
    """
    return _blocks(model, _function_of(model), device, cache_bytes)


def evaluate_model(model: Any, X: ArrayLike | Tensor) -> Tensor:
    r"""Values of a fitted model's function, on the device of the rows.

    They are the sums over features that the model's own methods start from: what
    ``decision_function`` of a classifier returns (with one column for two classes), and what
    ``predict`` of a regressor returns unless its loss has a link. The model computes in its own
    precision, as on the CPU; values agree with the CPU's to its rounding, about 1e-6 of the size of
    the sums in float32. To call this many times use :func:`blocks_of_model`, which draws the
    frequencies once.

    Parameters
    ----------
    model : estimator
        Fitted, with ``expansion=RandomFeatures(...)`` and a kernel that is Gaussian, Laplacian,
        Cauchy, Matern, RationalQuadratic or a product of such kernels.
    X : tensor or array-like of shape (n, n_features)
        Rows, dense and finite; where they lie the values are computed.

    Returns
    -------
    values : tensor of shape (n, n_outputs)
        float32, or float64 for a model of ``precision="double"``. Carries no gradient.

    Raises
    ------
    ValueError
        If the model is not fitted, has a dictionary, or its kernel has no features on devices; if
        rows are sparse, not finite or of another width.
    ImportError
        If PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.datasets import make_moons
    >>> from mercer import KernelClassifier
    >>> from mercer.expansions import RandomFeatures
    >>> from mercer_gpu import evaluate_model
    >>> X, y = make_moons(1000, noise=0.1, random_state=0)
    >>> model = KernelClassifier(expansion=RandomFeatures(64), random_state=0).fit(X, y)
    >>> values = evaluate_model(model, torch.tensor(X))
    >>> bool(((values[:, 0].numpy() > 0) == model.predict(X)).mean() > 0.99)
    True
    """
    function = _function_of(model)
    rows = device_rows(X)
    if not bool(require_torch().isfinite(rows).all()):
        raise ValueError(
            "`X` has NaN or infinite values, for which the model has no value. Fill them in, as "
            "before fitting, or drop these rows."
        )
    # Every block is used once.
    blocks = _blocks(model, function, rows.device, cache_bytes=0)
    values: Any = blocks.evaluate(rows, function.coefficients)
    # The target may be centred, and scores have a level.
    if getattr(model.targets_, "centre", None) is not None or model._level is not None:
        constant = model.intercept_  # of the scores; risks may learn directions besides
        values[:, : len(constant)] += require_torch().as_tensor(constant).to(values)
    return values


def _function_of(model: Any) -> FeatureExpansion:
    learner = getattr(model, "learner_", None)
    if learner is None:
        raise ValueError(
            f"`model` must be a fitted estimator of mercer, got {model!r}, which has learned no "
            "function. Call `fit` first; of a pipeline, pass the last step."
        )
    function = learner.current_function()
    if not isinstance(function, FeatureExpansion):
        raise ValueError(
            f"`model` must have random features alone, which this {type(model).__name__} has not "
            f"(expansion={function.expansion!r}). Fit it with expansion=RandomFeatures(), or use "
            "its own methods on the CPU."
        )
    return function


def _blocks(model: Any, function: FeatureExpansion, device: Any, cache_bytes: int) -> FeatureBlocks:
    torch = require_torch()
    expansion = function.expansion
    return FeatureBlocks(
        function.kernel,
        model.n_inputs_,
        function.block_size,
        int(expansion.seed),
        paired=expansion.options.paired,
        design=expansion.options.design,
        device=device,
        dtype=torch.float32 if expansion.precision == "single" else torch.float64,
        cache_bytes=cache_bytes,
        map=model._map,
    )
