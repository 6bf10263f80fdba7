"""The function of the ``Stream`` expansion, with the interface that estimators use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import Stream
from mercer.functions import Function
from mercer.kernels import Kernel
from mercer.streams.mixture import USUAL, Mixture

Array = NDArray[np.float64]

#: Error text: such a model has no single kernel or dictionary.
NO_SINGLE = (
    "A model of expansion=Stream() has several kernels and sets of features side by side; "
    "`learner_.function.mixture` has them, and `mercer.inspection.ways_table(model)` says how much "
    "each counts."
)


class StreamFunction(Function):
    """A :class:`Mixture` with the interface of a function.

    Parameters
    ----------
    expansion : Stream
        The expansion, with its sizes.
    n_features, n_outputs : int
        Dimensions of inputs and outputs.
    is_class : bool
        Whether targets are class codes.

    Attributes
    ----------
    mixture : Mixture
        Model that learns and predicts.
    """

    expansion: Stream
    dtype = np.dtype(np.float64)

    def __init__(
        self, expansion: Stream, n_features: int, n_outputs: int, *, is_class: bool
    ) -> None:
        self.expansion, self.averaging = expansion, None
        settings = USUAL._replace(n_features=expansion.n_features, points=expansion.points)
        self.mixture = Mixture(
            n_features, n_outputs, is_class=is_class, seed=expansion.seed, settings=settings
        )

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of inputs; may grow with the stream."""
        return self.mixture.n_inputs

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """Number of outputs."""
        return self.mixture.n_outputs

    @property
    def size(self) -> int:
        """Number of points and random features of all models."""
        return self.mixture.size

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """Not available (``AttributeError``): there are several kernels."""
        raise AttributeError(NO_SINGLE)

    dictionary = coefficients = kernel

    def evaluate(self, X: Any) -> Array:
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return self.mixture.evaluate(np.ascontiguousarray(dense, dtype=np.float64))

    def keep_previous(self) -> None:
        """Not supported: no objective of this function needs the previous one."""
        raise NotImplementedError("A stream of ways side by side has no function before the last.")

    def map_outputs(self, mixing: Array) -> None:
        """Not supported: :meth:`Mixture.map_outputs` also needs the places of the classes."""
        raise NotImplementedError("Use `mixture.map_outputs`.")

    def snapshot(self) -> dict[str, Any]:
        return {"arrays": {}, "mixture": self.mixture.to_state()}

    def restore(self, state: dict[str, Any]) -> None:
        mixture = Mixture.from_state(state["mixture"], self.mixture.settings)
        if mixture.is_class != self.mixture.is_class:
            raise ValueError("The mixture is of another task.")
        self.mixture = mixture
