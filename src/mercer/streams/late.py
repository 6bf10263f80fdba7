"""Delayed labels: predicted rows wait for their labels, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.validation import check_integer


class Delivered(NamedTuple):
    """A row whose label has arrived.

    Attributes
    ----------
    prediction : object
        Prediction made when the row came, for progressive evaluation.
    age : int
        Number of rows predicted after it.
    """

    prediction: Any
    age: int


class _Waiting(NamedTuple):
    number: int
    x: Any
    prediction: Any


class LateLabels:
    """Predict rows when they come, and learn them when their labels arrive.

    Rows wait under a key. Memory is bounded: the oldest rows are dropped if their labels do not
    arrive. A label without a waiting row is only counted. To measure accuracy, compare a label with
    the prediction made when the row came, which :meth:`label` returns, not with the model's present
    prediction.

    Parameters
    ----------
    model : object
        Model with ``predict_one(x)`` and ``learn_one(x, y)``, from mercer or River.
    max_waiting : int, default=10_000
        Largest number of waiting rows.
    max_age : int or None, default=None
        A row is dropped after this many later predictions; None for no limit.

    Attributes
    ----------
    n_predicted, n_learned : int
        Number of predicted rows, and of rows whose label arrived.
    n_dropped : int
        Rows dropped without a label: too many rows, too old, or a later row with the same key.
    n_unknown : int
        Number of labels without a waiting row.

    Raises
    ------
    ValueError
        If a bound is not an integer of at least 1, or the model cannot learn single rows.

    Examples
    --------
    >>> from mercer import KernelClassifier
    >>> from mercer.expansions import KOMP
    >>> model = KernelClassifier(kernel="gaussian", expansion=KOMP(max_size=50))
    >>> late = LateLabels(model, max_waiting=100)
    >>> for day in range(20):
    ...     _ = late.predict(day, [day % 2, 1.0])  # answers now
    ...     _ = late.label(day - 3, "odd" if (day - 3) % 2 else "even")  # three rows late
    >>> str(late.predict(20, [1.0, 1.0])), len(late)
    ('odd', 4)
    >>> late.n_unknown  # of the days before the first
    3
    >>> late.label(18, "even").age
    2
    """

    def __init__(
        self, model: Any, *, max_waiting: int = 10_000, max_age: int | None = None
    ) -> None:
        for method in ("predict_one", "learn_one"):
            if not callable(getattr(model, method, None)):
                raise ValueError(
                    f"A model whose labels come late needs `{method}`, which {model!r} has not."
                )
        self.model = model
        self.max_waiting = check_integer("max_waiting", max_waiting, low=1)
        self.max_age = None if max_age is None else check_integer("max_age", max_age, low=1)
        self.n_predicted = self.n_learned = self.n_dropped = self.n_unknown = 0
        # In order of arrival: a row with a key that waits already goes to the end.
        self._rows: dict[Hashable, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def predict(self, key: Hashable, x: Any) -> Any:
        """Predict a row, and keep it until its label arrives.

        Parameters
        ----------
        key : hashable
            Key of the label to come. If a row with this key is waiting, it is dropped.
        x : array-like or dict
            Row in a form that the model takes. It must not be changed later.

        Returns
        -------
        prediction : object
            Result of ``model.predict_one(x)``.
        """
        prediction = self.model.predict_one(x)
        if self._rows.pop(key, None) is not None:
            self.n_dropped += 1
        self._rows[key] = _Waiting(self.n_predicted, x, prediction)
        self.n_predicted += 1
        self._drop()
        return prediction

    def label(self, key: Hashable, y: Any) -> Delivered | None:
        """Learn the row that waits for this label.

        Parameters
        ----------
        key : hashable
            Key given to :meth:`predict`.
        y : object
            The label, or the target of a regression.

        Returns
        -------
        delivered : Delivered or None
            The row's prediction; None if no row with this key is waiting.

        Raises
        ------
        ValueError
            If the model refuses the label; the row keeps waiting.
        """
        waiting = self._rows.get(key)
        if waiting is None:
            self.n_unknown += 1
            return None
        self.model.learn_one(waiting.x, y)
        del self._rows[key]
        self.n_learned += 1
        return Delivered(waiting.prediction, self.n_predicted - 1 - waiting.number)

    def _drop(self) -> None:
        """Drop the oldest rows until the bounds hold."""
        while len(self._rows) > self.max_waiting or self._is_too_old():
            del self._rows[next(iter(self._rows))]
            self.n_dropped += 1

    def _is_too_old(self) -> bool:
        if self.max_age is None or not self._rows:
            return False
        oldest = next(iter(self._rows.values()))
        return self.n_predicted - 1 - oldest.number >= self.max_age

    def to_state(self) -> dict[str, Any]:
        """Rows that wait, and counts, as plain data; the model is stored on its own.

        Returns
        -------
        state : dict
            As :func:`mercer.model_file.write_state` takes it.

        Raises
        ------
        ValueError
            For keys, rows or predictions that are not made of numbers, text, truth values, None,
            arrays, lists, tuples and dicts.
        """
        waiting = list(self._rows.values())
        return {
            "max_waiting": self.max_waiting,
            "max_age": self.max_age,
            "counts": [self.n_predicted, self.n_learned, self.n_dropped, self.n_unknown],
            "keys": [_plain(key) for key in self._rows],
            "numbers": np.array([row.number for row in waiting], dtype=np.int64),
            "predictions": [_plain(row.prediction) for row in waiting],
            **_rows_to_state([row.x for row in waiting]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], model: Any) -> Self:
        """Go on where another one was.

        Parameters
        ----------
        state : mapping
            From :meth:`to_state`.
        model : object
            The model of then.

        Raises
        ------
        ValueError
            If the state does not fit together.
        """
        late = cls(model, max_waiting=state["max_waiting"], max_age=state["max_age"])
        counts = [check_integer("counts", n, low=0) for n in state["counts"]]
        late.n_predicted, late.n_learned, late.n_dropped, late.n_unknown = counts
        keys = [_living(key) for key in state["keys"]]
        predictions = [_living(value) for value in state["predictions"]]
        numbers = [int(n) for n in state["numbers"]]
        rows = _rows_from_state(state)
        if not len(keys) == len(set(keys)) == len(predictions) == len(numbers) == len(rows):
            raise ValueError("the keys, rows and predictions that wait are not equally many")
        kept = map(_Waiting, numbers, rows, predictions)
        late._rows = dict(zip(keys, kept, strict=True))
        return late


def _rows_to_state(rows: Sequence[Any]) -> dict[str, Any]:
    """Rows as one array where they are alike, else one by one."""
    names = list(rows[0]) if rows and isinstance(rows[0], dict) else None
    block = _block(rows, names)
    if block is None:
        return {"names": None, "rows": [_plain(x) for x in rows]}
    return {"names": names, "rows": block}


def _block(rows: Sequence[Any], names: list[Any] | None) -> NDArray[np.float64] | None:
    """Finite float64 rows of equal form as an array; None if they are not such."""
    if not rows:
        return None
    if names is None:
        alike = all(
            isinstance(x, np.ndarray)
            and x.dtype == np.float64
            and x.ndim == 1
            and x.shape == rows[0].shape
            for x in rows
        )
        values = np.array(rows) if alike else None
    else:
        alike = all(isinstance(name, str) for name in names) and all(
            isinstance(x, dict) and list(x) == names and all(type(v) is float for v in x.values())
            for x in rows
        )
        values = np.array([list(x.values()) for x in rows], dtype=np.float64) if alike else None
    return values if values is not None and np.isfinite(values).all() else None


def _rows_from_state(state: Mapping[str, Any]) -> list[Any]:
    names, rows = state["names"], state["rows"]
    if not isinstance(rows, np.ndarray):
        return [_living(x) for x in rows]
    if names is None:
        return [row.copy() for row in rows]
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ValueError("the rows that wait do not have the named columns")
    return [dict(zip(names, row, strict=True)) for row in rows.tolist()]


def _plain(value: Any) -> Any:
    """Return what JSON can hold, with marks for what it cannot tell apart."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        listed = _plain(value.ravel().tolist())
        return {"array": listed, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, Mapping):
        return {"dict": [[_plain(k), _plain(v)] for k, v in value.items()]}
    raise ValueError(
        f"What waits for labels cannot be stored: it holds a {type(value).__name__}. Use numbers, "
        "text, truth values, None, arrays, lists, tuples and dicts of them."
    )


def _living(value: Any) -> Any:
    """Undo :func:`_plain`."""
    if isinstance(value, list):
        return [_living(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "tuple" in value:
        return tuple(_living(value["tuple"]))
    if "array" in value:
        items = _living(value["array"])
        return np.array(items, dtype=np.dtype(value["dtype"])).reshape(value["shape"])
    return {_living(key): _living(item) for key, item in value["dict"]}
