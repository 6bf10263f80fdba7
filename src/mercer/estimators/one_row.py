"""Fast path for one row per Python call: one check, then little more than the arithmetic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import says_nothing
from mercer.estimators.estimator import column_names
from mercer.estimators.fitting import all_or_nothing, as_before
from mercer.estimators.inputs import StreamColumns
from mercer.estimators.kept_rows import keep_one
from mercer.jit import jit
from mercer.streams import StreamLearner
from mercer.threads import one_blas_thread
from mercer.validation import check_numbers

Array = NDArray[np.float64]

# Up to this model order, one row costs less than setting the number of BLAS threads.
_FEW_POINTS = 64
_DOUBLE = np.dtype(np.float64)
_NO_NUMBERS = str, date, time, np.datetime64


def vector(model: Any, x: Any, dtype: Any = None) -> Array:
    """Return one row as an array, by default of the type in which the model learns."""
    if model._columns is not None:
        if model.roles_ is not None and isinstance(x, Mapping):
            named: Array = model._rows_to_predict({name: [cell] for name, cell in x.items()})[0]
            return named
        inputs: Array = model._encoded_row(_table_row(model, x))
        return inputs
    dtype = model.learner_.function.dtype if dtype is None else dtype
    if type(x) is np.ndarray and x.dtype is dtype:
        if x.shape == (model.n_features_in_,) and x.flags.carray and _are_finite(x):
            return x
    elif isinstance(x, Mapping):
        x = values_of(model, x)
    with np.errstate(over="ignore", invalid="ignore"):
        row = _numbers(x, dtype)
        if row.shape != (model.n_features_in_,):
            raise ValueError(
                f"A row must be a vector of {model.n_features_in_} numbers (or a dict of as "
                f"many), got shape {row.shape}."
            )
        # The square is finite unless a value is not, or it overflows; only then check each value.
        finite = math.isfinite(row.dot(row)) or np.isfinite(row).all()
    if not finite:
        gaps = model._has_gaps()
        if not gaps or np.isinf(row).any():
            raise _not_finite(model, row, gaps)
    # Compiled code expects contiguous, writable arrays.
    return row if row.flags.carray else row.copy()


def _numbers(values: Any, dtype: Any) -> Array:
    """Return one row as an array of a type."""
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        return check_numbers("A row", values, "column").astype(dtype)  # it says what is none


def _not_finite(
    model: Any, row: Array, gaps: bool, names: Sequence[Any] | None = None
) -> ValueError:
    """Raise an error that names the first value that cannot be learned."""
    what = "infinite" if gaps else f"NaN or infinite, or too large for {row.dtype}"
    names = model._row_names if names is None else names
    at = int(np.argmax(np.isinf(row) if gaps else ~np.isfinite(row)))
    which = f"at place {at}" if names is None else f"in the feature {names[at]!r}"
    return ValueError(
        f"The row has a value that is {what}: {row[at]:g} {which}. Impute it, or skip the row."
    )


def _table_row(model: Any, x: Any) -> NDArray[Any]:
    """Return one row as a table of one row, with cells of any type."""
    values = values_of(model, x) if isinstance(x, Mapping) else list(x)
    if len(values) != model.n_features_in_:
        raise ValueError(
            f"A row must have {model.n_features_in_} values (or be a dict of as many), got "
            f"{len(values)}."
        )
    return _cells(values)


def vector_to_learn(model: Any, x: Any) -> Array:
    """Return one row as an array; new features are appended."""
    named = type(x) is not np.ndarray and isinstance(x, Mapping)
    if not named or not model._has_gaps() or model._columns is not None:
        return vector(model, x)
    names = _names_after(model, x)
    if len(names) == model.n_features_in_:
        return vector(model, x)
    row = np.asarray([_number(x.get(name)) for name in names], dtype=np.float64)
    if row.ndim != 1 or np.isinf(row).any():
        raise _not_finite(model, row, True, names)
    return row


def _names_after(model: Any, x: Mapping[Any, Any]) -> list[Any]:
    """Column names after learning a row; new ones are appended."""
    names = names_of(model, x) if model._row_names is None else model._row_names
    if len(x) <= len(names) and x.keys() <= set(names):
        return names
    known = set(names)
    return [*names, *_in_order(n for n in x if n not in known and _is_said(x[n]))]


def _adopt_names(model: Any, names: list[Any]) -> None:
    """Set the model's column names."""
    model._row_names, model.n_features_in_ = names, len(names)
    if hasattr(model, "feature_names_in_"):
        model.feature_names_in_ = np.array(names, dtype=object)


def values_of(model: Any, x: Mapping[Any, Any]) -> list[Any]:
    """Return the values of a dict in the order of the columns."""
    names = names_of(model, x) if model._row_names is None else model._row_names
    if model._has_gaps():
        said = map(x.get, names)
        return [_number(value) for value in said]
    try:
        values = [x[name] for name in names]
    except KeyError as error:
        raise ValueError(
            f"The row has no feature {error.args[0]!r}; it has {list(x)[:8]}. Every row "
            "must have the features of the first one."
        ) from None
    if len(x) != len(names):
        known = set(names)
        extra = [name for name in x if name not in known]
        raise ValueError(
            f"The row has the feature(s) {extra[:8]} besides {list(names)[:8]}. Features "
            "cannot be added on a running stream: all points have those of the first row. "
            "Leave them out, or start with all of them, 0 where a row has none."
        )
    return values


def names_of(model: Any, x: Mapping[Any, Any]) -> list[Any]:
    """Return the feature names of dicts, in the order of the columns."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return list(names)
    n = getattr(model, "n_features_in_", len(x))
    if len(x) != n:
        raise ValueError(f"The row has {len(x)} feature(s), {list(x)[:8]}, but the model has {n}.")
    return _in_order(x)


def remember_names(model: Any, x: Any) -> None:
    """Keep the names of the first learned row; later dicts are read in this order."""
    if type(x) is np.ndarray or not isinstance(x, Mapping):
        return
    if model._row_names is None:
        model._row_names = names_of(model, x)
    if model._columns is not None:  # the encoder knows the names
        return
    if model.learner_.function.n_features > model.n_features_in_ and model._has_gaps():
        _adopt_names(model, _names_after(model, x))


def learn_target(model: Any, x: Any, y: Any, target: Array, sample_weight: float) -> bool:
    """Learn one row, whose encoded target is known, by the fastest way; return whether so.

    Text in a new column of a stream of numbers is learned by ``partial_fit`` instead.
    """
    try:
        row = vector_to_learn(model, x)
    except (TypeError, ValueError):
        if learn_text(model, x, np.asarray([y]), sample_weight):
            return False
        raise
    learn_row(model, row, target, sample_weight)
    remember_names(model, x)
    return True


def learn_row(model: Any, row: Array, target: Array, sample_weight: float) -> None:
    """Learn one checked row by the fastest way, and perhaps keep it for explanations."""
    _learn_quickly(model, row, target, sample_weight)
    keep_one(model, row, sample_weight)


def _learn_quickly(model: Any, row: Array, target: Array, sample_weight: float) -> None:
    learner = model.learner_
    if isinstance(learner, StreamLearner):  # it does not use BLAS
        learner.learn_row(row, target, sample_weight)
        return
    if model._map is not None:
        row = model._image(row[np.newaxis])[0]
    if learner.function.size <= _FEW_POINTS:
        learner.learn_row(row, target, sample_weight)
    else:
        with one_blas_thread():
            learner.learn_row(row, target, sample_weight)


def learn_as_batch(model: Any, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
    """Learn one row by ``partial_fit``, which also applies changed parameters."""
    if not hasattr(model, "learner_"):
        _learn_first(model, x, y, sample_weight, **options)
        return
    if model.roles_ is not None and isinstance(x, Mapping):
        table = {name: [cell] for name, cell in x.items()}
        model.partial_fit(table, y, sample_weight=[sample_weight], **options)
        return
    if isinstance(x, Mapping) and learn_text(model, x, y, sample_weight, **options):
        return
    n_new = 0
    if model._columns is not None and sample_weight > 0.0 and _grown(model, x):
        with all_or_nothing(model):
            _adopt_names(model, _names_after(model, x))
            learn_as_batch(model, x, y, sample_weight, **options)
        return
    row = vector_to_learn(model, x) if model._columns is None else _table_row(model, x)[0]
    if row.size > model.n_features_in_:
        n_new = row.size - model.n_features_in_ if sample_weight > 0.0 else 0
        row = row[: model.n_features_in_ + n_new]
    if n_new:
        with all_or_nothing(model), as_before(model.learner_, whole=True):
            model.learner_.function.mixture.add_inputs(n_new)
            _adopt_names(model, _names_after(model, x))
            learn_as_batch(model, x, y, sample_weight, **options)
        return
    row = row[np.newaxis]
    with warnings.catch_warnings():
        # The row needs no names: it was put in the order of the columns above.
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        model.partial_fit(row, y, sample_weight=[sample_weight], **options)
    remember_names(model, x)


def _grown(model: Any, x: Any) -> bool:
    """Return whether a row of a stream has values in new columns."""
    named = isinstance(x, Mapping) and model._has_gaps()
    return named and len(_names_after(model, x)) > model.n_features_in_


def learn_text(model: Any, x: Any, y: Any, sample_weight: float, **options: Any) -> bool:
    """Learn a row of a numeric stream if it has text or dates in new columns; return whether so.

    From then on, columns may be of any kind.
    """
    may = model._columns is None and model._has_gaps() and model.categorical_features is not None
    if not isinstance(x, Mapping) or not may or sample_weight <= 0.0:
        return False
    known = set(names_of(model, x) if model._row_names is None else model._row_names)
    others = [name for name, value in x.items() if isinstance(value, _NO_NUMBERS)]
    if not others or not known.isdisjoint(others):
        return False
    with all_or_nothing(model):
        model._columns = StreamColumns.of_numbers(column_names(model))
        learn_as_batch(model, x, y, sample_weight, **options)
    return True


def _learn_first(model: Any, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
    """Start the model with one row."""
    names = names_of(model, x) if isinstance(x, Mapping) else None
    if names is not None and model.plan([x]).default == "stream":
        names = [name for name in names if _is_said(x[name])] or names
    values = x if names is None else [_number(x[name]) for name in names]
    if isinstance(values, list | tuple) and any(isinstance(one, _NO_NUMBERS) for one in values):
        row = _cells(list(values))[0]
    else:
        row = _numbers(values, _DOUBLE)
    if row.ndim != 1:
        raise ValueError(
            f"A row must be a vector of numbers, or a dict of them, got shape {row.shape}."
        )
    model.partial_fit(row[np.newaxis], y, sample_weight=[sample_weight], **options)
    model._row_names = names


def score_one(model: Any, x: Any) -> Array:
    """Return the values of f at one row, shape (n_outputs,)."""
    row = vector(model, x, _DOUBLE)
    if model.learner_.function.dtype != _DOUBLE:  # predictions are in double precision
        with one_blas_thread():
            values: Array = model._scores_at(row[np.newaxis])[0]
            return values
    if model._map is not None:
        row = model._image(row[np.newaxis])[0]
    values = model.learner_.evaluate_row(row)
    if model._level is not None:
        values = values + model._level
    return values[: model.targets_.n_scores]


@jit(nogil=True, error_model="numpy")
def _are_finite(x):  # type: ignore[no-untyped-def]
    return np.isfinite(x).all()


def _cells(values: list[Any]) -> NDArray[Any]:
    """Return values of any type as an array of one row."""
    row = np.empty((1, len(values)), dtype=object)
    row[0] = values
    return row


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return names sorted, whatever their types."""
    return sorted(names, key=lambda name: (type(name).__name__, name))


def _is_said(value: Any) -> bool:
    """Return whether a value is present: neither None nor NaN."""
    number = _number(value)
    return bool(number == number)  # NaN is not


def _number(value: Any) -> Any:
    """Return the value of a feature; NaN if it is missing."""
    return value if type(value) is float or not says_nothing(value) else np.nan
