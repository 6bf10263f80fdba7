"""Describe a fitted model and its training as plain data.

``mercer inspect`` prints the result of :func:`describe`, its JSON holds it, and reports tabulate
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from mercer.buffers import FIFO, Buffer, Everything, PerClassFIFO, Reservoir
from mercer.default import DefaultLearner
from mercer.estimators.targets import Numbers
from mercer.functions import DictionaryFunction, FeatureExpansion, SumOfComponents
from mercer.kernels import FunctionPairKernel, Kernel, Mapped, PairKernel, Partitioned, Sum
from mercer.losses import (
    AbsoluteError,
    EpsilonInsensitive,
    Huber,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
)
from mercer.maps import FixedMap
from mercer.selection import Candidate
from mercer.streams import Mixture, StreamFunction
from mercer.sums import Correction, TreesPart

__all__ = [
    "LossUnits",
    "describe",
    "describe_pairs",
    "describe_risk",
    "history_in_units",
    "loss_units",
    "parts_table",
    "race_summary",
    "race_table",
    "rows_judged_together",
    "ways_table",
]

Array = NDArray[np.float64]
_COLUMNS = ("form", "family", "metric", "n_inputs", "length", "error", "standard_error")
_MOST_NAMED = 30
_MOST_WAYS, _MOST_CHANGES = 10, 5
_TO_GO_ON = (
    "it was made compact, or its file leaves out large sums: `mercer fit --resumable`, in Python "
    "expansion=Auto(resumable=True), keeps them"
)
# The power of the unit of the target that a loss is measured in. Parameters of losses are in the
# units that are learned, so that the whole loss scales.
_POWERS: dict[type, int] = {
    Squared: 2,
    Huber: 2,
    SquaredEpsilonInsensitive: 2,
    AbsoluteError: 1,
    EpsilonInsensitive: 1,
    Quantile: 1,
}

#: Ending of the names of monitors that are shares of rows.
SHARE = "_fraction"
_MONITORS = {"inner_value": "tracked inner value"}


def describe(model: Any) -> dict[str, Any]:
    """Say what a fitted model is.

    Parameters
    ----------
    model : estimator
        As :func:`mercer.load_model` returns it.

    Returns
    -------
    description : dict of str to number, text, list of text or list of dict
        Names without spaces; a list of dicts is a table.
    """
    values: dict[str, Any] = {"estimator": type(model).__name__}
    if model.preprocessor_ is not None:
        columns = model.preprocessor_.feature_names_in_
        values["target"] = None if model.roles_ is None else model.roles_.target
        values["columns"] = _cut(columns)
        values["n_columns"] = len(columns)
        values["audit"] = [
            {"column": name, "kind": kind, "becomes": becomes, "inputs": inputs, "missing": missing,
             "remarks": remarks}
            for name, kind, becomes, inputs, missing, remarks in model.audit_.lines()[1:]
        ]  # fmt: skip
    form, unit = model.target_form_, unit_of_target(model)
    if form is not None and _is_quantity(model):
        values["target_unit"] = form.axis
    if unit is not None:
        values["target_mean"], values["target_scale"] = unit
    values["n_inputs"] = model.n_inputs_
    if hasattr(model, "classes_"):
        values["n_classes"] = len(model.classes_)
        values["classes"] = _cut(map(str, model.classes_.tolist()))
    # Parts have a kernel each.
    values["kernel"] = _kernel_words(model.kernel_) if hasattr(model, "kernel_") else None
    values |= describe_pairs(model)
    learned_in_steps = hasattr(model, "learner_")
    values |= _of_steps(model) if learned_in_steps else _of_a_gaussian_process(model)
    at_risk = describe_risk(model)
    if at_risk:
        values.pop("latest_loss", None)  # the history holds the objective instead
    values |= at_risk
    return {name: value for name, value in values.items() if value is not None}


def _repr_of(part: Any) -> str | None:
    return None if part is None else repr(part)


def _of_steps(estimator: Any) -> dict[str, Any]:
    """Describe an estimator that was learned step by step."""
    history, learner = estimator.history_, estimator.learner_
    loss, function = getattr(estimator, "loss_", None), learner.current_function()
    if isinstance(learner, DefaultLearner):
        return _of_parts(estimator, learner)
    if isinstance(function, StreamFunction):
        return _of_ways(estimator, function)
    offset = getattr(estimator, "offset_", None)
    return {
        "discount": getattr(estimator, "discount", None),
        "method": getattr(estimator, "method", None),
        "nu": getattr(estimator, "nu", None),
        "offset": offset,
        "divergence": _repr_of(getattr(estimator.targets_, "divergence", None)),
        "width": getattr(estimator, "width_", None),
        "loss": _repr_of(loss),
        "expansion": repr(function.expansion),
        "random_features": _blocks(function),
        "step_size": float(history.step_size[-1]) if len(history) else None,
        "regularization": float(getattr(learner, "ridge", learner.regularization)),
        "batch_size": estimator.plan().batch_size,
        "rows_per_step": getattr(learner, "rows_per_step", None),
        "average": "none" if function.averaging is None else estimator.average,
        "precision": str(np.dtype(function.dtype)),
        "model_order": estimator.model_order_,
        "n_rows_learned": estimator.n_samples_seen_,
        **_latest_loss(estimator),
        "race": race_table(estimator) or None,
    }


def _latest_loss(model: Any) -> dict[str, Any]:
    """Loss of the last record, in units of the target."""
    losses = history_in_units(model).loss
    if not len(losses):
        return {}
    return {"loss_unit": loss_units(model).name or None, "latest_loss": float(losses[-1])}


def _kernel_words(kernel: Any) -> str:
    """Return a kernel as text, without the numbers of the map before it."""
    if not isinstance(kernel, Mapped) or not isinstance(kernel.map, FixedMap):
        return repr(kernel)
    return f"{kernel.kernel!r} of {kernel.map.n_outputs} inputs made by the map"


def _of_parts(estimator: Any, learner: DefaultLearner) -> dict[str, Any]:
    """Describe a sum of parts that learned by sums."""
    function = learner.function
    together = rows_judged_together(estimator)
    return {
        "loss": repr(estimator.loss_),
        "expansion": repr(function.expansion),
        "precision": str(function.dtype),
        "model_order": function.size,
        "bend_of_scores": function.bend or None,
        "correction": _correction_words(function.correction),
        "can_go_on_learning": not learner.is_compact,
        "to_go_on": _TO_GO_ON if learner.is_compact else None,
        "bytes_of_sums": 0 if learner.is_compact else learner.sum_bytes,
        "n_rows_learned": estimator.n_samples_seen_,
        "rows_judged_together": None if together == 1 else together,
        **_latest_loss(estimator),
        "parts": parts_table(estimator),
        "race": race_table(estimator) or None,
    }


def _of_ways(estimator: Any, function: StreamFunction) -> dict[str, Any]:
    """Describe several ways side by side that follow a stream."""
    changes = estimator.history_.changes.tolist()
    last = [f"row {row:,}" for row in changes[-_MOST_CHANGES:]]
    # Columns of tables have been named by then.
    names = None if estimator.roles_ is not None else estimator._row_names
    return {
        "features": None if names is None else _cut(map(str, names)),
        "loss": repr(estimator.loss_),
        "expansion": repr(function.expansion),
        "answers_by": "several ways side by side, weighed by how they did on the last rows",
        "precision": str(function.dtype),
        "model_order": function.size,
        "n_rows_learned": estimator.n_samples_seen_,
        **_latest_loss(estimator),
        "n_changes": len(changes),
        "last_changes": last or None,
        "weights": weights_of_kinds(estimator) or None,
        "ways": ways_table(estimator)[:_MOST_WAYS] or None,
    }


def weights_of_kinds(estimator: Any) -> list[dict[str, Any]]:
    """Kinds of ways of a model that follows a stream, and how much each counts now.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 100)[:, None]
    >>> model = KernelRegressor().partial_fit(x, np.sin(x[:, 0]))
    >>> [row["kind"] for row in weights_of_kinds(model)]
    ['steps', 'sums', 'memories', 'last iterates', 'averages', 'stacks']
    """
    sums: dict[str, float] = {}
    for row in ways_table(estimator):
        sums[row["kind"]] = sums.get(row["kind"], 0.0) + row["weight"]
    return [{"kind": kind, "weight": sums[kind]} for kind in Mixture.kinds if kind in sums]


def ways_table(estimator: Any) -> list[dict[str, Any]]:
    """Ways that a model of the default of streams learns by, those that count most first.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    table : list of dict
        ``kind``, ``way`` and ``weight`` of each; the weights sum to 1. Empty of a model of another
        expansion, and before its ways have started.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 100)[:, None]
    >>> table = ways_table(KernelRegressor().partial_fit(x, np.sin(x[:, 0])))
    >>> list(table[0]), bool(abs(sum(row["weight"] for row in table) - 1.0) < 1e-9)
    (['kind', 'way', 'weight'], True)
    """
    learner = getattr(final_model(estimator), "learner_", None)
    function = getattr(learner, "function", None)
    if not isinstance(function, StreamFunction):
        return []
    rows = [
        {"kind": kind, "way": way, "weight": weight}
        for kind, way, weight in function.mixture.weights
    ]
    return sorted(rows, key=lambda row: -row["weight"])


def weighs_ways(history: Any) -> bool:
    """Whether a history is of a model of the default of streams: it has the weights of ways."""
    return tuple(getattr(history, "monitors", ())) == Mixture.kinds


def _correction_words(correction: Correction | None) -> str | None:
    """Say what the loss adds to the parts."""
    if correction is None:
        return None
    n = len(correction.coefficients)
    if not n:
        return "a line in the sum of the parts"
    of = "it" if correction.features.kernel is None else "it and the inputs"
    return f"to the sum of the parts, a function of {of} on {n} points"


def _blocks(function: Any) -> str | None:
    """Say how many random features there are, and where they come from."""
    if not isinstance(function, FeatureExpansion):
        return None
    n, m, seed = len(function.blocks), function.block_size, function.expansion.seed
    return f"{function.size:,} in {n:,} block{'s' * (n != 1)} of {m:,}, seed {seed}"


def _of_a_gaussian_process(estimator: Any) -> dict[str, Any]:
    """Describe a Gaussian process; its density in units of the target."""
    posterior = estimator.posterior_
    on_points = hasattr(estimator, "dictionary_")
    values = {
        "method": str(estimator.method),
        "noise": float(posterior.noise),
        "random_features": None if on_points else estimator.model_order_,
        "design": None if on_points else posterior.blocks.options.design,
        "batch_size": int(estimator.batch_size),
        "model_order": estimator.model_order_,
        "n_rows_learned": estimator.n_samples_seen_,
    }
    if not hasattr(estimator, "partial_fit"):
        return values
    return {
        **values,
        "effective_dimension": estimator.effective_dimension_,
        "log_marginal_likelihood": estimator.log_marginal_likelihood(),
    }


def _cut(names: Any) -> list[str]:
    names = list(names)
    return names if len(names) <= _MOST_NAMED else [*names[:_MOST_NAMED], "..."]


def describe_pairs(model: Any) -> dict[str, Any]:
    """Describe what a ranking learns from pairs; empty for other models.

    Parameters
    ----------
    model : estimator
        A fitted model.
    """
    if not hasattr(model, "predict_pair"):
        return {}
    known, roles = model.targets_, model.roles_
    return {
        "pair_kernel": _in_words(known.pair_kernel),
        "pair_label": known.pair_label,
        "buffer": _rows_held(model.buffer_),
        "normalize": known.normalize,
        "group": (roles and roles.group) or "none: all rows are compared",
    }


def _in_words(kernel: PairKernel | FunctionPairKernel) -> str:
    """Pattern of a pair kernel, by its name if it has one.

    Examples
    --------
    >>> _in_words(PairKernel()), _in_words(PairKernel([[1, 0], [0, 1]], bias=0.5))
    ('difference', '[[1.0, 0.0], [0.0, 1.0]], bias 0.5')
    """
    pattern = kernel.pattern if isinstance(kernel.pattern, str) else str(kernel.weights.tolist())
    return f"{pattern}, bias {kernel.bias:g}" if kernel.bias else pattern


def _rows_held(buffer: Buffer) -> str:
    """Say which rows a new one is paired with.

    Examples
    --------
    >>> _rows_held(FIFO()), _rows_held(PerClassFIFO(1))
    ('the last 50 rows', 'the last row of each class')
    >>> _rows_held(Reservoir(100)), _rows_held(Everything())
    ('100 rows drawn from those before', 'all rows before')
    """
    if isinstance(buffer, Everything):
        return "all rows before"
    if not isinstance(buffer, FIFO | PerClassFIFO | Reservoir):
        return repr(buffer)
    n = int(buffer.size)
    rows = ("row" if n == 1 else "rows") + (" of each class" if buffer.per_class else "")
    if isinstance(buffer, Reservoir):
        return f"{n:,} {rows} drawn from those before"
    return f"the last {rows}" if n == 1 else f"the last {n:,} {rows}"


class LossUnits(NamedTuple):
    """Unit of a model's loss.

    Attributes
    ----------
    factor : float
        Converts the loss of the learned, standardised target to the loss of the target itself.
    name : str
        Unit in words; empty for a loss without one, such as of classes.
    """

    factor: float
    name: str


def loss_units(model: Any) -> LossUnits:
    """Return the units of the losses of a model.

    A loss of a user's own is left in the units that are learned.

    Parameters
    ----------
    model : estimator
        A model.
    """
    unit, roles = unit_of_target(model), model.roles_
    scale = 1.0 if unit is None else unit[1]
    target = "" if roles is None or not _is_quantity(model) else f"{roles.target}"
    power = _POWERS.get(type(getattr(model, "loss_", None)))
    if power is not None:
        form = model.target_form_
        name = target if form is None or form.kind == "number" else form.unit
        return LossUnits(scale**power, name and name + "²" * (power == 2))
    if scale == 1.0:
        return LossUnits(1.0, "")
    return LossUnits(1.0, f"of {target or 'the target'} / {scale:.4g}")


def unit_of_target(model: Any) -> tuple[float, float] | None:
    """Mean and scale in which a model learned its only target; None if it learned it as it is.

    Parameters
    ----------
    model : estimator
        A fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> model = KernelRegressor(kernel="gaussian", expansion="komp", normalize_y=True)
    >>> unit_of_target(model.partial_fit([[0.0], [1.0]], [1.0, 3.0]))
    (2.0, 1.0)
    """
    known = getattr(model, "targets_", None)
    if hasattr(model, "posterior_"):
        (mean, scale) = model.posterior_.normalization()
        return (float(mean[0]), float(scale[0])) if model.normalize_y and mean.size == 1 else None
    scale = getattr(known, "scale", None)
    if isinstance(known, Numbers):
        if scale is None or scale.size != 1:
            return None
        return float(known.intercept[0]), float(scale[0])
    return None if scale is None or scale == 1.0 else (0.0, float(scale))  # of rewards


def _is_quantity(model: Any) -> bool:
    """Return whether a model predicts numbers that have a unit."""
    return isinstance(getattr(model, "targets_", None), Numbers) or hasattr(model, "posterior_")


def describe_risk(model: Any) -> dict[str, Any]:
    """Describe the risk that a model minimises and what it has tracked; empty for the mean loss.

    Parameters
    ----------
    model : estimator
        A fitted model.

    Returns
    -------
    description : dict of str to number or text
        Tracked values in the units of the loss, which are named; shares of all rows learned.
    """
    risk = getattr(model, "risk_", None)
    if risk is None:
        return {}
    history = history_in_units(model)
    rows = np.diff(history.n_samples, prepend=0)
    values: dict[str, Any] = {
        "risk": repr(risk),
        "minimised": risk.describe(),
        "loss_unit": loss_units(model).name or None,
    }
    for name, column in history.monitors.items() if rows.size else ():
        if name.endswith("_fraction"):
            share = 100.0 * float(np.average(column, weights=rows))
            values[f"{name.removesuffix('_fraction')}_percent"] = share
        else:
            values[f"tracked_{name}"] = float(column[-1])
    values["latest_objective"] = float(history.loss[-1]) if rows.size else None
    return values


class _History(NamedTuple):
    """A history whose losses are in the units of the target."""

    n_samples: NDArray[np.int64]
    loss: Array
    model_order: NDArray[np.int64]
    compression_error: Array
    step_size: Array
    loss_unit: str
    monitors: dict[str, Array]
    changes: NDArray[np.int64]


def history_in_units(model: Any) -> _History:
    """Return the history of a model, with losses and tracked values in units of the loss.

    Parameters
    ----------
    model : estimator
        A fitted model that has a history.
    """
    history, (factor, unit) = model.history_, loss_units(model)
    of_losses = _tracks_losses(getattr(model, "risk_", None))
    monitors = {
        name: column if name.endswith("_fraction") or not of_losses else factor * column
        for name, column in history.monitors.items()
    }
    return _History(
        n_samples=history.n_samples,
        loss=factor * history.loss,
        model_order=history.model_order,
        compression_error=history.compression_error,
        step_size=history.step_size,
        loss_unit=unit,
        monitors=monitors,
        changes=history.changes,
    )


def _tracks_losses(risk: Any) -> bool:
    """Return whether a risk tracks values in units of the loss; False for a user's own risk."""
    parts = getattr(risk, "risks", [risk])
    return all(type(part).__module__.startswith("mercer.risks") for part in parts)


def race_table(estimator: Any) -> list[dict[str, Any]]:
    """Pilots of the race of a model, in the order in which they ran, and whether it took them.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    table : list of dict
        The entries of ``race_`` with ``chosen``; empty if there was no race.
    """
    function = _with_parts(estimator)
    if function is None or function.race_result is None:
        return []
    table = function.race_result.table
    taken = {_way(part) for part in _parts(function)}
    best: dict[tuple[Any, ...], Any] = {}
    for entry in sorted(table, key=lambda entry: -entry["error"]):
        best[_way(entry)] = entry
    # Repeated rounds of a metric share a name; the model took the best of them.
    return [
        {
            **{name: entry[name] for name in _COLUMNS},
            "chosen": any(entry is best.get(x) for x in taken),
        }
        for entry in table
    ]


def race_summary(estimator: Any) -> list[dict[str, Any]]:
    """Say in few lines what a race tried: the best length of each form, kernel and map.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    table : list of dict
        ``form``, ``kernel_and_map``, ``inputs``, ``length``, ``error`` (mean squared error of rows
        that were not fitted, with its standard error, as text), ``tried`` (how many lengths and
        rounds) and ``chosen``; the best of a form first. Pilots that the model took are all there.
        Empty if there was no race.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> table = race_summary(KernelRegressor(random_state=0).fit(x, np.sin(x[:, 0])))
    >>> list(table[0]), sum(row["tried"] for row in table) > len(table)
    (['form', 'kernel_and_map', 'inputs', 'length', 'error', 'tried', 'chosen'], True)
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in race_table(estimator):
        groups.setdefault((entry["form"], way_of(entry)), []).append(entry)
    shown: list[tuple[dict[str, Any], int]] = []
    for group in groups.values():
        group.sort(key=lambda entry: float(entry["error"]))
        shown += [(e, len(group)) for e in group if e is group[0] or e["chosen"]]
    shown.sort(key=lambda pair: (pair[0]["form"], float(pair[0]["error"])))
    finest = min((e["standard_error"] for e, _ in shown if e["standard_error"] > 0.0), default=1e-4)
    digits = int(np.clip(1 - np.floor(np.log10(finest)), 0, 8))  # two of the standard error
    return [
        {
            "form": entry["form"],
            "kernel_and_map": way_of(entry),
            "inputs": entry["n_inputs"],
            "length": entry["length"],
            "error": f"{entry['error']:.{digits}f} ± {entry['standard_error']:.{digits}f}",
            "tried": tried,
            "chosen": entry["chosen"],
        }
        for entry, tried in shown
    ]


def _way(entry: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("form", "family", "metric", "length"))


def way_of(entry: Mapping[str, Any]) -> str:
    """Name the kernel and the map of an entry of a race, or of a part of a model.

    Examples
    --------
    >>> way_of({"family": "matern", "metric": "one-hot, full metric"})
    'matern, one-hot, full metric'
    >>> way_of({"kernel": "Gaussian(length_scale=1.0)"})
    'Gaussian(length_scale=1.0)'
    """
    if "metric" not in entry:
        return str(entry["kernel"])
    return f"{entry.get('family', 'gaussian')}, {entry['metric']}"


def rows_judged_together(estimator: Any) -> int:
    """Return how many consecutive rows a model with parts held out together; at most a fifth.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    n_rows : int
        1 if rows were held out one by one, and for other models.
    """
    function = _with_parts(estimator)
    if not isinstance(function, SumOfComponents):
        return 1
    learner: DefaultLearner = final_model(estimator).learner_
    return max(1, min(function.block, learner.n_rows // 5))


def parts_table(estimator: Any) -> list[dict[str, Any]]:
    """Parts of a model, the heaviest first.

    Parameters
    ----------
    estimator : fitted estimator, or a Pipeline that ends in one
        Any model.

    Returns
    -------
    table : list of dict
        ``form``, ``weight``, ``points``, ``cells`` (None for one dictionary), ``n_inputs`` after
        the map, and ``family``, ``metric`` and ``length`` if there was a race, otherwise
        ``kernel``; empty if the model has no parts.
    """
    function = _with_parts(estimator)
    return [] if function is None else sorted(_parts(function), key=lambda part: -part["weight"])


def _with_parts(estimator: Any) -> SumOfComponents | DictionaryFunction | None:
    learner = getattr(final_model(estimator), "learner_", None)
    function = None if learner is None else learner.current_function()
    return function if isinstance(function, SumOfComponents | DictionaryFunction) else None


def _parts(function: SumOfComponents | DictionaryFunction) -> list[dict[str, Any]]:
    result = function.race_result
    if isinstance(function, DictionaryFunction):
        return [] if result is None else [_only_part(result.best_global, function.size)]
    raced = () if result is None else result.candidates
    table = []
    for weight, part in function.used:
        kernel = part.kernel
        map = kernel.map if isinstance(kernel, Mapped) else None
        inner = kernel.kernel if isinstance(kernel, Mapped) else kernel
        of = [one for one in raced if one.form == part.form and _is_of(one, map, inner)]
        entry: dict[str, Any] = {
            "form": part.form,
            "weight": weight,
            "points": part.n_points,
            "cells": getattr(inner, "n_cells", None),
            "n_inputs": map.n_outputs if isinstance(map, FixedMap) else function.n_features,
        }
        names = ("family", "metric", "length")
        chosen = {name: getattr(of[0], name) for name in names} if of else {"kernel": repr(inner)}
        if isinstance(part, TreesPart):
            chosen = {"kernel": f"leaves of {part.map.n_trees} trees"}
        table.append({**entry, **chosen})
    return table


def _is_of(one: Candidate, map: Any, kernel: Kernel) -> bool:
    """Whether a part is what became of a candidate; its kernel has a constant, or cells."""
    if isinstance(kernel, Partitioned):
        return bool(one.map == map and kernel.kernel == one.kernel)
    return bool(one.map == map and isinstance(kernel, Sum) and kernel.left == one.kernel)


def _only_part(best: Candidate, size: int) -> dict[str, Any]:
    return {
        "form": best.form,
        "weight": 1.0,
        "points": size,
        "cells": None,
        "n_inputs": best.map.n_outputs,
        "family": best.family,
        "metric": best.metric,
        "length": best.length,
    }


def final_model(estimator: Any) -> Any:
    """Return the last step of a Pipeline, and any other estimator itself."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def targets_in_numbers(estimator: Any, y: Any) -> Any:
    """Return targets as the numbers that a model learns, such as days since 1970 for dates.

    Parameters
    ----------
    estimator : estimator
        A fitted model, or a Pipeline that ends in one.
    y : array-like or None
        Targets, written as those that were learned.

    Raises
    ------
    ValueError
        If one is written in another way.
    """
    read = getattr(final_model(estimator), "in_numbers", None)
    return y if y is None or read is None else read(y)


def has_run(estimator: Any) -> bool:
    """Whether a model was learned step by step, which leaves a course to draw.

    The posterior of a Gaussian process is an algebraic function of all rows.
    """
    return not hasattr(final_model(estimator), "log_marginal_likelihood")


def learns_pairs(estimator: Any) -> bool:
    """Whether a model was learned from pairs of rows."""
    return hasattr(final_model(estimator), "predict_pair")


def name_of_loss(estimator: Any) -> str:
    """Return the readable name of an estimator's loss; "loss" if it has none.

    Examples
    --------
    >>> from mercer import KernelClassifier
    >>> name_of_loss(KernelClassifier(loss="squared_hinge"))
    'squared hinge loss'
    """
    model = final_model(estimator)
    loss = getattr(model, "loss_", getattr(model, "loss", None))
    return "loss" if loss is None or loss == "auto" else loss_words(loss)


def loss_words(loss: Any) -> str:
    """Readable name of a loss, or of one given by name."""
    words = _words(loss if isinstance(loss, str) else type(loss).__name__)
    return words if words.endswith("loss") else f"{words} loss"


def risk_of(estimator: Any) -> Any:
    """Return the risk that a fitted estimator minimises, None for the mean loss."""
    return getattr(final_model(estimator), "risk_", None)


def unit_of_loss(estimator: Any) -> str:
    """Return the unit of losses; "" if it is unknown, as with arrays."""
    model = final_model(estimator)
    return loss_units(model).name if hasattr(model, "roles_") else ""


def size_unit(estimator: Any) -> str:
    """Name what the model order of an estimator counts."""
    model = final_model(estimator)
    if isinstance(getattr(getattr(model, "learner_", None), "function", None), StreamFunction):
        return "points and random features"
    has_points = hasattr(model, "dictionary_") or hasattr(model, "parts_")
    return "dictionary points" if has_points else "random features"


def short_name(risk: Any) -> str:
    """Name of a risk for a legend: with its parameters, unless these are long.

    Examples
    --------
    >>> from mercer.risks import CVaR, Mean
    >>> short_name(CVaR(0.8)), short_name(0.5 * CVaR() + 0.5 * Mean())
    ('CVaR(level=0.8)', 'Mixture')
    """
    text = repr(risk)
    return text if len(text) <= 36 else type(risk).__name__


def objective_name(estimator: Any) -> str:
    """Return the readable name of what an estimator's history records: its loss, or a risk of it.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from mercer.losses import Squared
    >>> from mercer.risks import CVaR
    >>> objective_name(SimpleNamespace(loss_=Squared(), risk_=CVaR(0.9)))
    'objective (CVaR of the squared loss)'
    """
    risk = risk_of(estimator)
    if risk is None:
        name = name_of_loss(estimator)
        return f"{name} of pairs" if learns_pairs(estimator) else name
    return f"objective ({_words(type(risk).__name__)} of the {name_of_loss(estimator)})"


def _words(name: str) -> str:
    """Return the name of a class or choice as words; abbreviations are not changed."""
    if re.search("[A-Z]{2}", name):
        return name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()


def input_dictionary(estimator: Any) -> Array | None:
    """Return the dictionary in units of the inputs; None if there is no dictionary."""
    dictionary = getattr(final_model(estimator), "dictionary_", None)
    if dictionary is None:
        return None
    if final_model(estimator) is not estimator and len(estimator.steps) > 1:
        before = estimator[:-1]
        if not hasattr(before, "inverse_transform"):
            return None
        dictionary = before.inverse_transform(dictionary)
    return np.asarray(dictionary, dtype=float)


def quantile_levels(estimator: Any) -> Array | None:
    """Return the levels of a quantile loss, None for other losses."""
    levels = getattr(getattr(final_model(estimator), "loss", None), "levels", None)
    return None if levels is None else np.atleast_1d(np.asarray(levels, dtype=float))


def output_labels(estimator: Any, n_outputs: int) -> list[str]:
    """Return names of a regressor's outputs: levels of a quantile loss, or numbers.

    Examples
    --------
    >>> output_labels(None, 1), output_labels(None, 2)
    (['prediction'], ['output 0', 'output 1'])
    """
    levels = quantile_levels(estimator)
    if levels is not None and levels.size == n_outputs:
        return [f"quantile {level:g}" for level in levels]
    return ["prediction"] if n_outputs == 1 else [f"output {j}" for j in range(n_outputs)]


def history_of(estimator: Any) -> Any:
    """Return the history of a fitted estimator in its units; an error if it has none."""
    model = final_model(estimator)
    if not hasattr(model, "history_"):
        raise NotFittedError(
            f"`{type(model).__name__}` has no `history_`: it has learned nothing yet. Call `fit` "
            "or `partial_fit` first."
        )
    plain = not hasattr(model, "roles_") or loss_units(model) == LossUnits(1.0, "")
    return model.history_ if plain else history_in_units(model)


def monitor_words(name: str) -> str:
    """Name of a monitor for readers.

    Examples
    --------
    >>> monitor_words("clipped_fraction"), monitor_words("inner_value_1")
    ('clipped', 'tracked inner value 1')
    """
    base, _, number = name.rpartition("_")
    if number.isdigit():
        return f"{_MONITORS.get(base, base)} {number}".replace("_", " ")
    return _MONITORS.get(name, name.removesuffix(SHARE)).replace("_", " ")
