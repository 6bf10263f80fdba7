"""Fitted estimators as nested dicts of plain data, and back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.columns.null_values import NullValues
from mercer.columns.readings import TargetForm
from mercer.component import from_config, to_config
from mercer.estimators.columns import Roles, columns_from_state, columns_to_state
from mercer.estimators.estimator import column_names
from mercer.estimators.kept_rows import (
    HeldOutRows,
    kept_from_state,
    kept_to_state,
    kept_until_now,
    rows_to_state,
    with_gaps,
)
from mercer.estimators.start import AVERAGING
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep
from mercer.maps import Affine
from mercer.validation import check_integer, check_real


def common_state(model: Any) -> dict[str, Any]:
    """Return parameters, kernel and names of the inputs of an estimator as plain data."""
    params = model.get_params(deep=False)
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None  # a generator's state is of no use to a fitted model
    params.pop("n_jobs", None)  # it is of the machine, not of the model
    named = params.get("categorical_features")
    if isinstance(named, str):
        del params["categorical_features"]  # the default
    elif named is not None:
        params["categorical_features"] = np.asarray(named).tolist()
    names, columns = getattr(model, "feature_names_in_", None), getattr(model, "_columns", None)
    roles, form = getattr(model, "roles_", None), getattr(model, "target_form_", None)
    return {
        "params": {name: to_config(value) for name, value in params.items()},
        "kernel": to_config(getattr(model, "_kernel", None) or model.kernel_),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        **({} if columns is None else {"columns": columns_to_state(columns)}),
        # As text: any text may be a key.
        **({} if roles is None else {"roles": json.dumps(roles.to_state())}),
        **({} if form is None else {"target_form": form.to_state()}),
    }


def of_common_state(cls: Any, state: dict[str, Any]) -> tuple[Any, Kernel]:
    """Return an estimator with parameters and names of inputs, and its kernel.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    """
    model: Any = cls(**{name: from_config(v) for name, v in state["params"].items()})
    model.check()
    kernel = from_config(state["kernel"])
    if not isinstance(kernel, Kernel) or not kernel.is_resolved:
        raise ValueError("the kernel is of the wrong kind or lacks numbers")
    model.n_features_in_ = check_integer("n_features", state["n_features"], low=1)
    names = state["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_:
            raise ValueError("the feature_names do not match the number of features")
        model.feature_names_in_ = np.array(names, dtype=object)
    if "columns" in state:
        model._columns = columns_from_state(state["columns"], column_names(model))
    if "roles" in state:
        roles = model.roles_ = Roles.from_state(json.loads(state["roles"]))
        if roles.target not in (None, *getattr(model._columns, "exclude", ())):
            raise ValueError("the target is among the inputs")
    if "target_form" in state:
        model.target_form_ = TargetForm.from_state(state["target_form"])
    return model, kernel


def _level_from_state(state: dict[str, Any]) -> NDArray[np.float64] | None:
    """Return what is added to scores, if anything is; ValueError if it cannot be."""
    if "level" not in state:
        return None
    level = np.array(state["level"], dtype=np.float64)
    if level.ndim != 1 or not np.isfinite(level).all():
        raise ValueError("the level does not fit the scores")
    return level


def _means_from_state(state: dict[str, Any], n_features: int) -> Any:
    """Return the means of columns, which models of sparse rows and of tables do not have."""
    means = state.get("means")
    if means is not None and (means.shape != (n_features,) or not np.isfinite(means).all()):
        raise ValueError("the means do not match the number of features")
    return means


def _calibration_to_state(model: Any) -> dict[str, Any]:
    """Return rows that find intervals, where there are such, under their key."""
    if model._calibration is None:
        return {}
    from mercer.estimators.evidence import calibration_of_now

    rows: Any = calibration_of_now(model)
    X = rows.X
    if isinstance(X, np.ndarray):
        inputs = rows_to_state("X", X)
    else:
        places = {name: getattr(X, name).astype(np.int64) for name in ("indices", "indptr")}
        inputs = {"X": {"data": X.data, **places}}
    y = model.targets_.numbered(rows.y)
    return {"calibration": {**inputs, "y": y, "weights": rows.weights}}


def _calibration_from_state(model: Any, state: dict[str, Any]) -> HeldOutRows:
    """Inverse of what is under the key; ValueError if the pieces do not fit together."""
    X, y, weights = state["X"], state["y"], np.array(state["weights"], dtype=np.float64)
    n_inputs = model.n_inputs_
    if not isinstance(X, np.ndarray):
        parts = X["data"], X["indices"], X["indptr"]
        X = sparse.csr_matrix(parts, shape=(len(weights), n_inputs))
    if X.shape != (len(weights), n_inputs) or len(y) != len(weights):
        raise ValueError("the rows that intervals are found by do not fit together")
    X = with_gaps(X, state.get("gaps"))
    return HeldOutRows(X, model.targets_.of_numbers(y), np.empty(0), weights)


def _plain(name: Any) -> Any:
    """Return a name of a feature as JSON knows it: no number of NumPy."""
    return name.item() if isinstance(name, np.generic) else name


def state_of(model: Any) -> dict[str, Any]:
    """Return everything of an estimator with a learner that prediction and further learning need.

    Parameters
    ----------
    model : KernelEstimator
        A fitted one.

    Raises
    ------
    ValueError
        If it is not fitted, or a part cannot be stored without code.
    """
    if not hasattr(model, "learner_"):
        raise ValueError(f"This {type(model).__name__} is not fitted yet: call `fit` first.")
    automatic, function = model.learner_.automatic, model.learner_.function
    return {
        **common_state(model),
        **model.targets_.loss_to_state(),
        **({} if model._map is None else {"inputs": to_config(model._map)}),
        **({} if model._means is None else {"means": model._means}),
        **({} if model._left_out is None else {"left_out": model._left_out}),
        **({"null_values": to_config(model._nulls.to_config())} if model._nulls else {}),
        **_calibration_to_state(model),
        **kept_to_state(kept_until_now(model, model.n_inputs_)),
        **({} if model._level is None else {"level": model._level.copy()}),
        # Those of the parameters may have been set anew since.
        "expansion": to_config(function.expansion),
        "averaging": function.averaging,
        "automatic": [
            automatic.curvature,
            automatic.bound,
            automatic.top_eigenvalue,
            automatic.boldness,
            automatic.typical,
        ],
        "row_names": None if model._row_names is None else [*map(_plain, model._row_names)],
        "targets": model.targets_.to_state(),
        "learner": model.learner_.to_state(),
    }


def of_state(cls: Any, state: dict[str, Any]) -> Any:
    """Inverse of :func:`state_of`; ValueError if the parts do not fit together."""
    model, kernel = of_common_state(cls, state)
    model._means = _means_from_state(state, model.n_features_in_)
    if state.get("left_out") is not None:
        model._left_out = str(state["left_out"])
    if "null_values" in state:
        model._nulls = NullValues.of(from_config(state["null_values"]))
    n_inputs = model.n_inputs_
    model._kept = kept_from_state(state.get("kept"), n_inputs)
    model._level = _level_from_state(state)
    known = cls._targets_type.from_state(state, n_inputs)
    expansion = from_config(state["expansion"])
    if not isinstance(expansion, Expansion):
        raise ValueError("the expansion is of the wrong kind")
    averaging = state["averaging"]
    if averaging is not None:
        averaging = check_real("averaging", averaging, low=0.0)
    if averaging not in AVERAGING.values() or (averaging is not None and not expansion.averages):
        raise ValueError("the averaging is of the wrong kind")
    if state["row_names"] is not None:
        if len(state["row_names"]) != model.n_features_in_:
            raise ValueError("the row_names do not match the number of features")
        model._row_names = list(state["row_names"])
    model._map = from_config(state.get("inputs"))
    if model._map is not None:
        if not isinstance(model._map, Affine) or model._map.n_inputs != n_inputs:
            raise ValueError("the map of the inputs does not match the number of features")
        n_inputs = model._map.n_outputs
    points = state["learner"]["function"]["arrays"].get("points")
    if points is not None and (points.ndim != 2 or points.shape[1] != n_inputs):
        raise ValueError("the dictionary does not match the number of features")
    numbers = [check_real("automatic", v, low=0, open_low=True) for v in state["automatic"]]
    automatic = AutomaticStep(*numbers)
    dtype = None if points is None else points.dtype
    model.targets_ = known
    plan = model._plan_with(expansion)
    problem = model._problem_of(plan, kernel, automatic, averaging, dtype)
    model._adopt(problem)
    model.learner_.restore(state["learner"])
    if model.learner_.function.n_outputs != problem.n_outputs:
        raise ValueError("the number of outputs does not match the targets")
    if "calibration" in state:
        model._calibration = _calibration_from_state(model, state["calibration"])
    return model
