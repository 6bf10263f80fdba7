"""Cosines in logarithms, for the skewed kernels, and the product of two maps of cosines."""

from __future__ import annotations

import numpy as np

from mercer.features.composite import ScaledMap
from mercer.features.cosine import CosineMap
from mercer.features.feature_map import FeatureMap, FeatureOptions, Floats, Prepared, check_domain
from mercer.features.laws import Law, SumLaw

__all__ = ["LogCosineMap", "joined_cosines"]


class LogCosineMap(CosineMap):
    r"""Features :math:`\sqrt{2/m} \cos(\omega_i^T \ln(x + c) + b_i)`, or pairs of cosine and sine.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    law : Law
        Law of the frequencies.
    c : float
        Shift; inputs have to be above -c.
    options : FeatureOptions
        Pairs or phases, and the design of the frequencies.
    path : int, default=0
        Place in a composite kernel.
    kernel : str
        Name of the kernel, for messages.

    References
    ----------
    DSG, Table 1, rows of the skewed kernels.
    """

    def __init__(
        self,
        n_inputs: int,
        law: Law,
        c: float,
        options: FeatureOptions,
        path: int = 0,
        *,
        kernel: str,
    ) -> None:
        super().__init__(n_inputs, law, options, path)
        self.c = c
        self.kernel = kernel

    def prepare(self, X: Floats) -> Prepared:
        """Take logarithms of inputs, which have to be above -c."""
        check_domain(X, self.kernel, -self.c, open_low=True)
        return (np.log(X + X.dtype.type(self.c)),)


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
        None if one of them is not of cosines, or their inputs differ.

    Raises
    ------
    ValueError
        If the sum of the frequencies does not allow the design.
    """
    left, left_factor = _unscaled(left)
    right, right_factor = _unscaled(right)
    factor = left_factor * right_factor
    if not (isinstance(left, CosineMap) and isinstance(right, CosineMap)):
        return None
    law = SumLaw(left.law, right.law)
    joined: FeatureMap
    if isinstance(left, LogCosineMap) and isinstance(right, LogCosineMap) and left.c == right.c:
        joined = LogCosineMap(left.n_inputs, law, left.c, options, path, kernel=left.kernel)
    elif type(left) is CosineMap and type(right) is CosineMap:
        joined = CosineMap(left.n_inputs, law, options, path)
    else:
        return None
    return joined if factor == 1.0 else ScaledMap(joined, factor)


def _unscaled(feature_map: FeatureMap) -> tuple[FeatureMap, float]:
    """Return the map without its factors, and their product."""
    factor = 1.0
    while isinstance(feature_map, ScaledMap):
        factor *= feature_map.factor
        feature_map = feature_map.inner
    return feature_map, factor
