"""One row per Python call: checked once, then little more than the arithmetic."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.columns.views import says_nothing
from mercer.estimators.columns import Columns
from mercer.estimators.kept_rows import keep_one
from mercer.estimators.targets import Targets
from mercer.estimators.undo import all_or_nothing, as_before
from mercer.jit import jit
from mercer.learning import Learner
from mercer.streams import StreamLearner
from mercer.threads import one_blas_thread

Array = NDArray[np.float64]

# Up to this model order a row costs less than telling BLAS how many threads to use.
_FEW_POINTS = 64
_DOUBLE = np.dtype(np.float64)


class OneRow:
    """Rows as vectors, or as dicts of features as River users write them."""

    learner_: Learner
    _evaluate: Callable[[Any], Array]
    _image: Callable[[Any], Any]
    _map: Any
    n_features_in_: int
    partial_fit: Callable[..., Any]
    targets_: Targets
    _row_names: list[Any] | None
    _level: Array | None
    _begins_stream: Callable[[Any], bool]
    _has_gaps: Callable[[], bool]
    _columns: Columns | None
    _encoded_row: Callable[[NDArray[Any]], Array]

    def _vector(self, x: Any, dtype: Any = None) -> Array:
        """Return one row as an array, of the type in which the model learns if none is said."""
        if self._columns is not None:
            return self._encoded_row(self._table_row(x))
        dtype = self.learner_.function.dtype if dtype is None else dtype
        if type(x) is np.ndarray and x.dtype is dtype:
            if x.shape == (self.n_features_in_,) and x.flags.carray and _are_finite(x):
                return x
        elif isinstance(x, Mapping):
            x = self._values(x)
        with np.errstate(over="ignore", invalid="ignore"):
            row: Array = np.asarray(x, dtype=dtype)
            if row.shape != (self.n_features_in_,):
                raise ValueError(
                    f"A row must be a vector of {self.n_features_in_} numbers (or a dict of as "
                    f"many), got shape {row.shape}."
                )
            # The square is finite unless a value is not, or it overflows: then look closely.
            finite = math.isfinite(row.dot(row)) or np.isfinite(row).all()
        if not finite:
            gaps = self._has_gaps()
            if not gaps or np.isinf(row).any():
                raise self._not_finite(row, gaps)
        # Compiled code is made for plain arrays that may be written to.
        return row if row.flags.carray else row.copy()

    def _not_finite(self, row: Array, gaps: bool, names: Sequence[Any] | None = None) -> ValueError:
        """Say which value of a row is none that can be learned."""
        what = "infinite" if gaps else f"NaN or infinite, or too large for {row.dtype}"
        names = self._row_names if names is None else names
        at = int(np.argmax(np.isinf(row) if gaps else ~np.isfinite(row)))
        which = f"at place {at}" if names is None else f"in the feature {names[at]!r}"
        return ValueError(
            f"The row has a value that is {what}: {row[at]:g} {which}. Impute it, or skip the row."
        )

    def _table_row(self, x: Any) -> NDArray[Any]:
        """Return one row as a table of one, with cells of any type."""
        values = self._values(x) if isinstance(x, Mapping) else list(x)
        if len(values) != self.n_features_in_:
            raise ValueError(
                f"A row must have {self.n_features_in_} values (or be a dict of as many), got "
                f"{len(values)}."
            )
        return _cells(values)

    def _vector_to_learn(self, x: Any) -> Array:
        """Return one row as an array; features that are new stand behind the others."""
        named = type(x) is not np.ndarray and isinstance(x, Mapping)
        if not named or not self._has_gaps() or self._columns is not None:
            return self._vector(x)
        names = self._names_after(x)
        if len(names) == self.n_features_in_:
            return self._vector(x)
        row = np.asarray([_number(x.get(name)) for name in names], dtype=np.float64)
        if row.ndim != 1 or np.isinf(row).any():
            raise self._not_finite(row, True, names)
        return row

    def _names_after(self, x: Mapping[Any, Any]) -> list[Any]:
        """Names of the columns once a row is learned: those that it says and are new come last."""
        names = self._name_features(x) if self._row_names is None else self._row_names
        if len(x) <= len(names) and x.keys() <= set(names):
            return names
        known = set(names)
        return [*names, *_in_order(n for n in x if n not in known and _is_said(x[n]))]

    def _adopt_names(self, names: list[Any]) -> None:
        """Go on with columns of these names."""
        self._row_names, self.n_features_in_ = names, len(names)
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = np.array(names, dtype=object)

    def _values(self, x: Mapping[Any, Any]) -> list[Any]:
        """Return the features of a dict in the order of the columns."""
        names = self._name_features(x) if self._row_names is None else self._row_names
        if self._has_gaps():
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
            extra = [name for name in x if name not in names]
            raise ValueError(
                f"The row has the feature(s) {extra[:8]} besides {list(names)[:8]}. Features "
                "cannot be added on a running stream: all points have those of the first row. "
                "Leave them out, or start with all of them, 0 where a row has none."
            )
        return values

    def _name_features(self, x: Mapping[Any, Any]) -> list[Any]:
        """Names of the features of dicts, in the order of the columns."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return list(names)
        n = getattr(self, "n_features_in_", len(x))
        if len(x) != n:
            raise ValueError(
                f"The row has {len(x)} feature(s), {list(x)[:8]}, but the model has {n}."
            )
        return _in_order(x)

    def _remember_names(self, x: Any) -> None:
        """Keep the names of a row that was learned: later ones are read by them."""
        if type(x) is np.ndarray or not isinstance(x, Mapping):
            return
        if self._row_names is None:
            self._row_names = self._name_features(x)
        if self._columns is not None:  # one may be many inputs
            return
        if self.learner_.function.n_features > self.n_features_in_ and self._has_gaps():
            self._adopt_names(self._names_after(x))

    def _learn_row(self, row: Array, target: Array, sample_weight: float) -> None:
        """Learn one checked row by the quickest way, and keep it, perhaps, for explanations."""
        self._learn_quickly(row, target, sample_weight)
        keep_one(self, row, sample_weight)

    def _learn_quickly(self, row: Array, target: Array, sample_weight: float) -> None:
        learner = self.learner_
        if isinstance(learner, StreamLearner):  # which knows no BLAS
            learner.learn_row(row, target, sample_weight)
            return
        if self._map is not None:
            row = self._image(row[np.newaxis])[0]
        if learner.function.size <= _FEW_POINTS:
            learner.learn_row(row, target, sample_weight)
        else:
            with one_blas_thread():
                learner.learn_row(row, target, sample_weight)

    def _learn_as_batch(self, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
        """Learn one row by ``partial_fit``, which takes over parameters set anew, too."""
        if not hasattr(self, "learner_"):
            self._learn_first(x, y, sample_weight, **options)
            return
        n_new = 0
        row = self._vector_to_learn(x) if self._columns is None else self._table_row(x)[0]
        if row.size > self.n_features_in_:
            n_new = row.size - self.n_features_in_ if sample_weight > 0.0 else 0
            row = row[: self.n_features_in_ + n_new]
        if n_new:
            with all_or_nothing(self), as_before(self.learner_, whole=True):
                self.learner_.function.mixture.add_inputs(n_new)
                self._adopt_names(self._names_after(x))
                self._learn_as_batch(x, y, sample_weight, **options)
            return
        row = row[np.newaxis]
        with warnings.catch_warnings():
            # Rows need no names, or were put in the order of the names just now.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            self.partial_fit(row, y, sample_weight=np.array([float(sample_weight)]), **options)
        self._remember_names(x)

    def _learn_first(self, x: Any, y: Any, sample_weight: float, **options: Any) -> None:
        """Start the model with one row."""
        names = self._name_features(x) if isinstance(x, Mapping) else None
        if names is not None and self._begins_stream([x]):
            names = [name for name in names if _is_said(x[name])] or names
        values = x if names is None else [_number(x[name]) for name in names]
        if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
            row = _cells(list(values))[0]
        else:
            row = np.asarray(values, dtype=np.float64)
        if row.ndim != 1:
            raise ValueError(
                f"A row must be a vector of numbers, or a dict of them, got shape {row.shape}."
            )
        weight = np.array([float(sample_weight)])
        self.partial_fit(row[np.newaxis], y, sample_weight=weight, **options)
        self._row_names = names

    def _score_one(self, x: Any) -> Array:
        """Values of f at one row, shape (n_outputs,)."""
        row = self._vector(x, _DOUBLE)
        if self.learner_.function.dtype != _DOUBLE:  # in which models predict, whatever they learn
            with one_blas_thread():
                return self._evaluate(row[np.newaxis])[0, : self.targets_.n_scores]
        if self._map is not None:
            row = self._image(row[np.newaxis])[0]
        values = self.learner_.evaluate_row(row)
        return (values if self._level is None else values + self._level)[: self.targets_.n_scores]


@jit(nogil=True, error_model="numpy")
def _are_finite(x):  # type: ignore[no-untyped-def]
    return np.isfinite(x).all()


def _cells(values: list[Any]) -> NDArray[Any]:
    """Return values of any type as a row."""
    row = np.empty((1, len(values)), dtype=object)
    row[0] = values
    return row


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Names, sorted, whatever their types."""
    return sorted(names, key=lambda name: (type(name).__name__, name))


def _is_said(value: Any) -> bool:
    """Whether a row says something: neither None nor NaN."""
    number = _number(value)
    return bool(number == number)  # NaN is not


def _number(value: Any) -> Any:
    """Return what a row says of a feature, NaN for nothing."""
    return value if type(value) is float or not says_nothing(value) else np.nan
