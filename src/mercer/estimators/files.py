"""Fitted estimators as nested dicts of plain data, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mercer.columns import TablePreprocessor
from mercer.columns.null_values import NullValues
from mercer.columns.readings import TargetForm
from mercer.estimators.estimator import column_names, not_fitted
from mercer.estimators.inputs import Roles, StreamColumns, check_columns
from mercer.estimators.kept_rows import HeldOutRows, kept_from_state, kept_until_now
from mercer.estimators.start import AVERAGING
from mercer.estimators.targets import Classes, LossTargets
from mercer.expansions import Expansion
from mercer.functions import Function
from mercer.kernels import Kernel
from mercer.learning import AutomaticStep
from mercer.maps import Affine
from mercer.records import (
    FLOATS,
    Config,
    Field,
    Gapped,
    IfAny,
    InText,
    Maybe,
    Named,
    Numbers,
    OneOf,
    Part,
    Record,
    Several,
    Sizes,
    State,
)
from mercer.validation import integer, or_none, positive, real, text

# Of all estimators: parameters, kernel and what rows look like.
_COMMON = (
    Record(
        params=Named(Config(object)),
        kernel=Config(Kernel),
        n_features=integer(low=1),
        feature_names=Maybe(Several(text(), "n_features", list)),
        columns=IfAny(OneOf(stream=InText(StreamColumns), table=InText(TablePreprocessor))),
        roles=IfAny(InText(Roles)),
        target_form=IfAny(Part(TargetForm)),
    )
    .where(
        "the target is among the inputs",
        lambda it: (
            it["roles"] is None
            or it["roles"].target in (None, *getattr(it["columns"], "exclude", ()))
        ),
    )
    .where("the kernel lacks numbers", lambda it: it["kernel"].is_resolved)
)
# Of those with a learner; parameters may have been set anew since.
_LEARNED = Record(
    inputs=IfAny(Config(Affine)),
    means=IfAny(Numbers("n_features")),
    left_out=IfAny(text()),
    null_values=IfAny(Config(dict)),
    calibration=IfAny(State()),
    kept=IfAny(State()),
    level=IfAny(Numbers("n_levels")),
    expansion=Config(Expansion),
    averaging=or_none(real(low=0.0)),
    automatic=Several(positive(), 5),
    row_names=Maybe(Several(lambda name, value: value, "n_features", list)),
    learner=State(),
).where(
    "the averaging is of the wrong kind",
    lambda it: (
        it["averaging"] in AVERAGING.values()
        and (it["averaging"] is None or it["expansion"].averages)
    ),
)
_AUTOMATIC = "curvature", "bound", "top_eigenvalue", "boldness", "typical"


class _Inputs(Field):
    """Rows, sparse or dense, of which numbers may be missing."""

    dense = Gapped("n", "n_inputs")
    sparse = Record(
        data=Numbers("n_stored", dtype=FLOATS),
        indices=Numbers("n_stored", dtype=np.int64),
        indptr=Numbers("n+1", dtype=np.int64),
    )

    def written(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.dense.written(value)
        places = {name: getattr(value, name).astype(np.int64) for name in ("indices", "indptr")}
        return self.sparse.written_of({"data": value.data, **places})

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, dict) or "gaps" in value:
            return self.dense.read(name, value, sizes)
        data, indices, indptr = self.sparse.read(value, sizes).values()
        # SciPy looks at neither, if the last row ends at 0.
        if indptr[0] != 0 or indptr[-1] != data.size or (np.diff(indptr) < 0).any():
            raise ValueError(f"`{name}` must be a sparse matrix whose rows follow each other")
        rows = sparse.csr_matrix((data, indices, indptr), shape=(sizes["n"], sizes["n_inputs"]))
        rows.check_format(full_check=True)
        return rows


def _calibration_by(targets: LossTargets) -> Record:
    """Return what is stored of rows that find intervals, by what is known of their targets."""
    quantities = Numbers("n", "n_targets")
    if isinstance(targets, Classes):
        quantities = Numbers("n", dtype=np.int64, low=0, high=targets.labels.size - 1)
    return Record(X=_Inputs(), y=quantities, weights=Numbers("n"))


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
    names = getattr(model, "feature_names_in_", None)
    return _COMMON.written_of(
        {
            "params": params,
            "kernel": getattr(model, "_kernel", None) or model.kernel_,
            "n_features": int(model.n_features_in_),
            "feature_names": None if names is None else map(str, names),
            "columns": getattr(model, "_columns", None),
            "roles": getattr(model, "roles_", None),
            "target_form": getattr(model, "target_form_", None),
        }
    )


def of_common_state(cls: Any, state: dict[str, Any]) -> tuple[Any, Kernel]:
    """Return an estimator with parameters and names of inputs, and its kernel.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    """
    values = _COMMON.read(_COMMON.among(state), {})
    model: Any = cls(**values["params"])
    model.check()
    model.n_features_in_ = values["n_features"]
    if values["feature_names"] is not None:
        model.feature_names_in_ = np.array(values["feature_names"], dtype=object)
    if values["columns"] is not None:
        check_columns(values["columns"], column_names(model))
        model._columns = values["columns"]
    for name in ("roles", "target_form"):
        if values[name] is not None:
            setattr(model, f"{name}_", values[name])
    return model, values["kernel"]


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
        raise not_fitted(model)
    learner, targets, calibration = model.learner_, model.targets_, None
    if model._calibration is not None:
        from mercer.estimators.evidence import calibration_of_now

        rows: Any = calibration_of_now(model)
        values = {**rows._asdict(), "y": targets.numbered(rows.y)}
        calibration = _calibration_by(targets).written_of(values)
    learned = {
        "inputs": model._map,
        "means": model._means,
        "left_out": model._left_out,
        "null_values": model._nulls.to_config() if model._nulls else None,
        "calibration": calibration,
        "kept": kept_until_now(model, model.n_inputs_),
        "level": model._level,
        "expansion": learner.function.expansion,
        "averaging": learner.function.averaging,
        "automatic": [getattr(learner.automatic, name) for name in _AUTOMATIC],
        "row_names": model._row_names,
        "learner": learner,
    }
    return {**common_state(model), **_LEARNED.written_of(learned), **targets.to_state()}


def of_state(cls: Any, state: dict[str, Any]) -> Any:
    """Inverse of :func:`state_of`; ValueError if the parts do not fit together."""
    model, kernel = of_common_state(cls, state)
    n_inputs = model.n_inputs_
    sizes = {"n_features": model.n_features_in_, "n_inputs": n_inputs}
    values = _LEARNED.read(_LEARNED.among(state), sizes)
    known = cls._targets_type
    model.targets_ = known.from_state(known._record.among(state), n_features=n_inputs)
    for name in ("means", "left_out", "level", "row_names"):
        setattr(model, f"_{name}", values[name])
    if values["kept"] is not None:
        model._kept = kept_from_state(values["kept"], n_inputs)
    if values["null_values"] is not None:
        model._nulls = NullValues.of(values["null_values"])
    model._map = values["inputs"]
    if model._map is not None:
        if model._map.n_inputs != n_inputs:
            raise ValueError("the map of the inputs does not match the number of features")
        n_inputs = model._map.n_outputs
    points = values["learner"]["function"]["arrays"].get("points")
    if points is not None and (points.ndim != 2 or points.shape[1] != n_inputs):
        raise ValueError("the dictionary does not match the number of features")
    dtype = None if points is None else points.dtype
    plan, automatic = model._plan_with(values["expansion"]), AutomaticStep(*values["automatic"])
    problem = model._problem_of(plan, kernel, automatic, values["averaging"], dtype)
    model._adopt(problem)
    model.learner_.restore(values["learner"])
    if isinstance(model.learner_.function, Function):
        model.learner_.function.check_restored()
    if model.learner_.function.n_outputs != problem.n_outputs:
        raise ValueError("the number of outputs does not match the targets")
    if values["calibration"] is not None:
        rows = _calibration_by(model.targets_).read(values["calibration"], sizes)
        rows["y"] = model.targets_.of_numbers(rows["y"])
        model._calibration = HeldOutRows(**rows, scores=np.empty(0))
    return model
