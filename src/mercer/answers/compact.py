"""Make a fitted model as small as it can be, for places where it only predicts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def compact(model: Any) -> Any:
    """Return a copy of a model that predicts, explains and tells intervals, but learns no more.

    The copy has neither the rows nor the sums from which the model would learn further rows. All
    its answers are equal to the model's, to the last bit.

    Parameters
    ----------
    model : estimator
        Fitted estimator that learns by sums, as by default. It stays unchanged.

    Returns
    -------
    small : estimator
        The copy. ``partial_fit`` raises ValueError; ``fit`` begins anew.

    Raises
    ------
    ValueError
        If the model has another expansion, as such models keep no rows.
    AttributeError
        If the model is not fitted.

    Examples
    --------
    >>> import pickle
    >>> import numpy as np
    >>> from mercer import KernelRegressor, compact
    >>> X = np.random.default_rng(0).normal(size=(3000, 20))
    >>> model = KernelRegressor().fit(X, X[:, 0] * X[:, 1])
    >>> small = compact(model)
    >>> len(pickle.dumps(small)) < 0.7 * len(pickle.dumps(model))
    True
    >>> bool((small.predict(X) == model.predict(X)).all())
    True
    """
    learner = getattr(model, "learner_", None)
    if not hasattr(learner, "compact"):
        if learner is None and not hasattr(model, "kernel_"):
            raise AttributeError(f"This {type(model).__name__} is not fitted: call `fit` first.")
        raise ValueError(
            f"This {type(model).__name__} keeps no rows that it could leave out. Only models with "
            "expansion=Auto(), the default of tables, do: for other models `save` is all there is."
        )
    small = deepcopy(model)
    small.learner_.compact()
    return small
