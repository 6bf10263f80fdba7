"""Models of tables as pictures see them: with inputs and outputs in the units of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import TableModel
from mercer.inspection import history_in_units, loss_units

Array = NDArray[np.float64]


class InUnits:
    """A table model as pictures see an estimator, its inputs and outputs in units of the columns.

    What has no units is the estimator's own.
    """

    def __init__(self, model: TableModel) -> None:
        self.model, self.estimator = model, model.estimator
        self.center, self.scale = _units(model)
        self.feature_names_in_ = model.preprocessor.feature_names_out()
        self.loss, self.loss_unit = getattr(model.estimator, "loss_", None), loss_units(model).name
        # Pictures ask for the parameters of the method whether there are standard deviations.
        self.predict: Any = self._with_std if model.task == "gp" else self._predict
        if hasattr(model.estimator, "history_"):
            self.history_ = history_in_units(model)
        if hasattr(model.estimator, "dictionary_"):
            self.dictionary_ = self.to_units(model.estimator.dictionary_)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.estimator, name)
        if name not in ("decision_function", "predict_pair", "predict_proba"):
            return value
        return lambda *X: value(*map(self._encoded, X))

    def to_units(self, X: NDArray[np.floating]) -> Array:
        """Return encoded rows in the units of the columns."""
        return np.asarray(X * self.scale + self.center, dtype=np.float64)

    def _encoded(self, X: Any) -> NDArray[np.floating]:
        dtype = self.model.preprocessor.dtype_
        return ((np.asarray(X) - self.center) / self.scale).astype(dtype)

    def _predict(self, X: Any) -> NDArray[Any]:
        return self.model.predict_inputs(self._encoded(X))

    def _with_std(self, X: Any, return_std: bool = False, *, include_noise: bool = False) -> Any:
        mean = self._predict(X)
        if not return_std:
            return mean
        return mean, self.model.predict_std(self._encoded(X), include_noise=include_noise)


def _units(model: TableModel) -> tuple[Array | float, Array | float]:
    """Centre and scale of the inputs if these are the columns themselves, else 0 and 1."""
    columns = model.preprocessor.feature_names_in_
    if model.preprocessor.feature_names_out() != columns or model.text_columns_:
        return 0.0, 1.0
    # Numbers are encoded by an affine map: two points tell it.
    at = {name: np.array([0.0, 1.0]) for name in columns}
    zero, one = np.asarray(model.inputs(at), dtype=np.float64)
    scale = 1.0 / (one - zero)
    return -zero * scale, scale
