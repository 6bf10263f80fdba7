"""Records: declarations, one per class, of the attributes that are stored in model files.

A record has a field for each attribute. A field describes the value: an array with a shape and a
range, a number, or a part with its own record. Fields write the state for model files, and check
each state that is read as untrusted input. Dimensions have names; dimensions of the same name are
equal in all fields.
"""

from __future__ import annotations

import json
import re
import reprlib
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.component import from_config, to_config
from mercer.validation import Check

Sizes = dict[str, int]

#: The two types of arrays in either precision.
FLOATS = np.float32, np.float64

# A number times a dimension plus a number, as in "n", "n+1" and "2*n+1".
_DIMENSION = re.compile(r"(?:(\d+)\*)?([a-z_]+)(?:\+(\d+))?")


class Field(ABC):
    """Description of one value of a record: how it is written, and checked when it is read."""

    @abstractmethod
    def written(self, value: Any) -> Any:
        """Return the value as plain data, copied."""

    @abstractmethod
    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        """Check plain data and return the value, copied, or raise ``ValueError``.

        Parameters
        ----------
        name : str
            Name of the value in messages.
        value : object
            Plain data.
        sizes : dict of str to int
            Dimensions known so far; dimensions that the value determines are added.
        """

    @property
    def dimensions(self) -> Iterator[str]:
        """Names of the dimensions of the field."""
        yield from ()


class Plain(Field):
    """A plain value that passes a check.

    Parameters
    ----------
    check : callable
        Maps a name and a value to the value, or raises ``ValueError``, as the checks of parameters
        do (``mercer.validation``).
    """

    def __init__(self, check: Check) -> None:
        self._check = check

    def written(self, value: Any) -> Any:
        return value.item() if isinstance(value, np.generic) else value

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        return self._check(name, value)


class Numbers(Field):
    """An array of finite numbers.

    Parameters
    ----------
    *shape : int or str
        Lengths of the axes: numbers, or dimensions such as "n", "n+1" or "2*n+1".
    dtype : dtype or tuple of dtype, default=numpy.float64
        The type, or the allowed types.
    low, high : float or array-like, optional
        Range of each number.
    above : float, optional
        Number that each number must exceed.

    Examples
    --------
    >>> sizes = {}
    >>> Numbers("n", "n+1").read("table", np.zeros((2, 3)), sizes).shape, sizes
    ((2, 3), {'n': 2})
    >>> Numbers("n", low=0.0).read("weights", np.array([1.0, -1.0]), sizes)
    Traceback (most recent call last):
        ...
    ValueError: `weights` must be at least 0.0, and one is -1.0
    """

    def __init__(
        self,
        *shape: int | str,
        dtype: Any = np.float64,
        low: ArrayLike = -np.inf,
        high: ArrayLike = np.inf,
        above: float = -np.inf,
    ) -> None:
        self.shape = shape
        several = dtype if isinstance(dtype, tuple) else (dtype,)
        self.dtypes = tuple(map(np.dtype, several))
        self.low, self.high, self.above = low, high, above

    def written(self, value: Any) -> Any:
        return np.array(value, order="C")

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        if not isinstance(value, np.ndarray) or value.dtype not in self.dtypes:
            kinds = " or ".join(map(str, self.dtypes))
            raise ValueError(f"`{name}` must be an array of {kinds}, {_said(value)}")
        fit(name, self.shape, value, sizes)
        if not np.isfinite(value).all():
            raise ValueError(f"`{name}` must be finite")
        for words, limit, outside in (
            ("at least", self.low, np.less),
            ("at most", self.high, np.greater),
            ("above", self.above, np.less_equal),
        ):
            if np.any(wrong := outside(value, limit)):
                raise ValueError(f"`{name}` must be {words} {limit}, and one is {value[wrong][0]}")
        return np.array(value, order="C")

    @property
    def dimensions(self) -> Iterator[str]:
        yield from (_parsed(one)[1] for one in self.shape if isinstance(one, str))


class Listed(Numbers):
    """An array of numbers with one axis, stored as a list: for states that are JSON."""

    def written(self, value: Any) -> Any:
        return value.tolist()

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        (dtype,) = self.dtypes
        kinds = {"i": (int,), "b": (bool,), "f": (float, int)}[dtype.kind]
        if not isinstance(value, list) or not all(type(one) in kinds for one in value):
            raise ValueError(f"`{name}` must be a list of {dtype}, got {value!r:.60}")
        return super().read(name, np.array(value, dtype=dtype), sizes)


class Encoded(Numbers):
    """An array of numbers, stored as little-endian base64 text: for states that are JSON."""

    def written(self, value: Any) -> Any:
        (dtype,) = self.dtypes
        return b64encode(value.astype(dtype.newbyteorder("<")).tobytes()).decode()

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        (dtype,) = self.dtypes
        if not isinstance(value, str):
            raise ValueError(f"`{name}` must be text, got {value!r:.60}")
        flat = np.frombuffer(b64decode(value), dtype.newbyteorder("<")).astype(dtype)
        lengths = (sizes_of(one, sizes) for one in self.shape)
        shape = [length if isinstance(length, int) else -1 for length in lengths]
        return super().read(name, flat.reshape(shape), sizes)


class Gapped(Field):
    """An array of numbers of which some are missing: files have no NaN, but a mask beside it.

    Parameters
    ----------
    *shape, dtype
        As of :class:`Numbers`.
    """

    def __init__(self, *shape: int | str, dtype: Any = FLOATS) -> None:
        self._numbers = Numbers(*shape, dtype=dtype)
        self._both = Record(numbers=self._numbers, gaps=Numbers(*shape, dtype=np.bool_))

    def written(self, value: Any) -> Any:
        gaps = np.isnan(value)
        if not gaps.any():
            return self._numbers.written(value)
        numbers = np.where(gaps, 0.0, value).astype(value.dtype)
        return self._both.written_of({"numbers": numbers, "gaps": gaps})

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        if not isinstance(value, dict):
            return self._numbers.read(name, value, sizes)
        numbers, gaps = self._both.read(value, sizes).values()
        numbers[gaps] = np.nan
        return numbers  # type: ignore[no-any-return]

    @property
    def dimensions(self) -> Iterator[str]:
        yield from self._numbers.dimensions


class Named(Field):
    """A dict from names to values of another field, with at most ``most`` entries."""

    def __init__(self, field: Field | Check, most: int | None = None) -> None:
        self.field, self.most = _as_field(field), most

    def written(self, value: Any) -> Any:
        return {name: self.field.written(one) for name, one in value.items()}

    def read(self, name: str, value: Any, sizes: Sizes) -> dict[str, Any]:
        if not isinstance(value, dict) or (self.most is not None and len(value) > self.most):
            most = "" if self.most is None else f" of at most {self.most:,} entries"
            raise ValueError(f"`{name}` must be a dict{most}, got {value!r:.60}")
        return {key: self.field.read(f"{name}: {key}", one, sizes) for key, one in value.items()}

    @property
    def dimensions(self) -> Iterator[str]:
        yield from self.field.dimensions


class Triangle(Field):
    """A lower triangular matrix, stored as the numbers of its triangle, row by row.

    It is read in Fortran order, with zeros above the diagonal.

    Parameters
    ----------
    size : str
        Dimension of its rows and columns.
    """

    def __init__(self, size: str) -> None:
        self.size = size

    def written(self, value: Any) -> Any:
        return value[np.tril_indices(len(value))]

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[np.float64]:
        n = sizes.setdefault(self.size, isqrt(2 * np.size(value)))
        numbers = Numbers(n * (n + 1) // 2).read(name, value, sizes)
        lower = np.zeros((n, n), order="F")
        lower[np.tril_indices(n)] = numbers
        return lower

    @property
    def dimensions(self) -> Iterator[str]:
        yield self.size


class Maybe(Field):
    """A value of another field, or None.

    Parameters
    ----------
    field : Field or check
        Field of the value.
    none : object, default=None
        Value that is stored as None.
    """

    def __init__(self, field: Field | Check, none: Any = None) -> None:
        self.field, self.none = _as_field(field), none

    def written(self, value: Any) -> Any:
        is_none = value is None or (self.none is not None and value == self.none)
        return None if is_none else self.field.written(value)

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        return self.none if value is None else self.field.read(name, value, sizes)

    @property
    def dimensions(self) -> Iterator[str]:
        yield from self.field.dimensions


class IfAny(Maybe):
    """A value of another field, or None; for None, the state has no key."""


class Several(Field):
    """A tuple of values, each of another field.

    Parameters
    ----------
    field : Field or check
        Field of each value.
    length : int or str, optional
        Number of values, or its dimension; any number by default.
    kind : type, default=tuple
        Type of the sequence: tuple or list.
    """

    def __init__(self, field: Field | Check, length: int | str = "", kind: Any = tuple) -> None:
        self.field, self.length, self.kind = _as_field(field), length, kind

    def written(self, value: Any) -> Any:
        return [self.field.written(one) for one in value]

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"`{name}` must be a list, got {value!r:.60}")
        if self.length:
            fit(name, (self.length,), np.empty(len(value)), sizes)
        return self.kind(self.field.read(name, one, sizes) for one in value)


class Numbered(Several):
    """A tuple of values with arrays, stored as a dict by number: lists in files hold no arrays."""

    def written(self, value: Any) -> Any:
        return {str(number): self.field.written(one) for number, one in enumerate(value)}

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, dict) or set(value) != set(map(str, range(len(value)))):
            raise ValueError(f"`{name}` must have the keys 0, 1, 2 and so on, got {value!r:.60}")
        return super().read(name, [value[str(number)] for number in range(len(value))], sizes)


class Config(Field):
    """An object such as a kernel or a map, stored by its parameters.

    Parameters
    ----------
    kind : type
        Class of the object.
    suits : callable, optional
        Tells whether an object of this class is allowed.
    """

    def __init__(self, kind: type[Any], suits: Callable[[Any], bool] = lambda one: True) -> None:
        self.kind, self._suits = kind, suits

    def written(self, value: Any) -> Any:
        return to_config(value)

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        made = from_config(value)
        if not isinstance(made, self.kind) or not self._suits(made):
            short = reprlib.repr(made)[:60]  # of thousands of objects, too
            raise ValueError(f"`{name}` must be a {self.kind.__name__}, got {short}")
        return made


class Part(Field):
    """An attribute that is an object with its own record.

    Parameters
    ----------
    kind : type
        Class of the part, a subclass of :class:`Recorded`.
    *shared : str
        Dimensions with the same name in the part and in the whole.
    **renamed : str
        Dimensions of the part, with their names in the whole.
    """

    def __init__(self, kind: type[Recorded], *shared: str, **renamed: str) -> None:
        self.kind, self.shared = kind, dict(zip(shared, shared, strict=True)) | renamed

    def written(self, value: Any) -> Any:
        return value.to_state()

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        inner = {one: sizes[whole] for one, whole in self.shared.items() if whole in sizes}
        try:
            made = self.kind._of_state(value, inner)
        except ValueError as error:
            raise ValueError(f"in `{name}`: {error}") from error
        sizes.update({whole: inner[one] for one, whole in self.shared.items() if one in inner})
        return made

    @property
    def dimensions(self) -> Iterator[str]:
        yield from self.shared.values()


class InText(Field):
    """A part as JSON text: its keys may be any text, and those of states may not.

    Parameters
    ----------
    kind : type
        Class of the part, with ``to_state`` and ``from_state``.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def written(self, value: Any) -> Any:
        return json.dumps(value.to_state())

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"`{name}` must be text, got {value!r:.60}")
        try:
            return self.kind.from_state(json.loads(value))
        except RecursionError:
            raise ValueError(f"`{name}` is nested too deeply") from None


class OneOf(Field):
    """A part of one of several classes, under a key that says which.

    Parameters
    ----------
    **fields : Part or InText
        The keys, and what is under them.
    """

    def __init__(self, **fields: Part | InText) -> None:
        self.fields = fields

    def written(self, value: Any) -> Any:
        fields = self.fields.items()
        return {key: one.written(value) for key, one in fields if isinstance(value, one.kind)}

    def read(self, name: str, value: Any, sizes: Sizes) -> Any:
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= self.fields.keys():
            raise ValueError(f"`{name}` must be one of {[*self.fields]}, got {value!r:.60}")
        ((key, state),) = value.items()
        return self.fields[key].read(f"{name}: {key}", state, sizes)


class Table(Field):
    """A list of dicts of plain values, such as a table for people to read."""

    def __init__(self) -> None: ...

    def written(self, value: Any) -> Any:
        return [dict(row) for row in value]

    def read(self, name: str, value: Any, sizes: Sizes) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise ValueError(f"`{name}` must be a list of dicts, got {value!r:.60}")
        return [dict(row) for row in value]


class State(Field):
    """A state that the class gives to a part by itself, as to one that is there already."""

    def __init__(self) -> None: ...

    def written(self, value: Any) -> Any:
        return value if isinstance(value, dict) else value.to_state()

    def read(self, name: str, value: Any, sizes: Sizes) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"`{name}` must be a dict, got {value!r:.60}")
        return value


class Record:
    """Fields of what is stored of an object, in the order in which they are read.

    Parameters
    ----------
    **fields : Field, check or Record
        Names of attributes, and what they are. Keys of the state lack their first underscores. A
        record puts attributes of the same object together under a key of its own.

    Examples
    --------
    >>> from mercer.validation import integer
    >>> span = Record(first=integer(low=0), last=integer(low=0))
    >>> span = span.where("it ends before it begins", lambda span: span["first"] <= span["last"])
    >>> span.read({"first": 2, "last": 1}, {})
    Traceback (most recent call last):
        ...
    ValueError: it ends before it begins
    """

    def __init__(self, **fields: Field | Check | Record) -> None:
        self.fields = {
            name: one if isinstance(one, Record) else _as_field(one) for name, one in fields.items()
        }
        self.keys = {name: name.lstrip("_") for name in fields}
        self._rare = {self.keys[name] for name, one in self.fields.items() if type(one) is IfAny}
        self._relations: list[tuple[str, Callable[[dict[str, Any]], Any]]] = []

    def where(self, message: str, fits: Callable[[dict[str, Any]], Any]) -> Self:
        """Refuse values that do not fit together, each of which is right.

        Parameters
        ----------
        message : str
            Of the error.
        fits : callable
            Values by the names of the attributes to whether they fit.
        """
        self._relations.append((message, fits))
        return self

    @property
    def names(self) -> Iterator[str]:
        """Names of all attributes."""
        for name, one in self.fields.items():
            yield from one.names if isinstance(one, Record) else (name,)

    @property
    def dimensions(self) -> set[str]:
        """Dimensions that no field says, so that they are those of the object."""
        named = {one for field in self.fields.values() for one in field.dimensions}
        return named - {*self.names}

    def written(self, thing: Any) -> dict[str, Any]:
        """Return the state of an object: plain data, copied."""
        return self.written_of({name: getattr(thing, name) for name in self.names})

    def written_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state of values by the names of the attributes: plain data, copied."""
        state = {
            self.keys[name]: one.written_of(values)
            if isinstance(one, Record)
            else one.written(values[name])
            for name, one in self.fields.items()
        }
        return {key: one for key, one in state.items() if one is not None or key not in self._rare}

    def among(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return those entries of a larger state that are of this record."""
        keys = self.keys.values()
        return {key: value for key, value in state.items() if key in keys}

    def read(self, state: Any, sizes: Sizes) -> dict[str, Any]:
        """Return the values of a state by the names of the attributes, copied.

        Parameters
        ----------
        state : dict
            From :meth:`written`.
        sizes : dict of str to int
            Dimensions that are known; those that the state tells are added.

        Raises
        ------
        ValueError
            If it is no such state; says in what.
        """
        keys, found = sorted(self.keys.values()), state
        if isinstance(state, dict):
            found = sorted({*map(str, state), *self._rare})
        if not isinstance(state, dict) or keys != found:
            raise ValueError(f"a state must have the keys {keys}, got {found!r:.200}")
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            key = self.keys[name]
            if isinstance(field, Record):
                values |= field.read(state[key], sizes)
                continue
            values[name] = value = field.read(key, state.get(key), sizes)
            if type(value) is int and sizes.setdefault(name, value) != value:
                raise ValueError(f"`{key}` must be {sizes[name]}, got {value}")
        for message, fits in self._relations:
            if not fits(values):
                raise ValueError(message)
        return values


class Recorded:
    """Base of what can be stored: a record of fields gives its state, and takes it back.

    A class whose attributes are not the fields has :attr:`_values`, and ``_adopt``, which is given
    all values: so where some follow from others.

    Examples
    --------
    >>> from mercer.validation import integer
    >>> class Mean(Recorded):
    ...     _record = Record(n_rows=integer(low=0), _sums=Numbers("n"))
    ...
    ...     def __init__(self, n):
    ...         self.n_rows, self._sums = 0, np.zeros(n)
    >>> state = Mean(2).to_state()
    >>> state
    {'n_rows': 0, 'sums': array([0., 0.])}
    >>> Mean.from_state(state, n=3)
    Traceback (most recent call last):
        ...
    ValueError: `sums` must be of shape (3,), got (2,)
    """

    _record: ClassVar[Record]

    @property
    def _values(self) -> Mapping[str, Any]:
        """Values of the fields, by their names; may hold more."""
        return {name: getattr(self, name) for name in self._record.names}

    def to_state(self) -> dict[str, Any]:
        """Everything that it is, as plain data, copied."""
        return self._record.written_of(self._values)

    @classmethod
    def from_state(cls, state: Any, **sizes: int) -> Self:
        """Inverse of :meth:`to_state`.

        Parameters
        ----------
        state : dict
            From there.
        **sizes : int
            Dimensions that are known.

        Raises
        ------
        ValueError
            If the state is none, or does not fit together.
        """
        return cls._of_state(state, sizes)

    @classmethod
    def _of_state(cls, state: Any, sizes: Sizes) -> Self:
        made = cls.__new__(cls)
        made._adopt(cls._record.read(state, sizes))
        return made

    def restore(self, state: Any, **sizes: int) -> None:
        """Go back to a :meth:`to_state`, with the dimensions that the object has.

        Parameters
        ----------
        state : dict
            From there.
        **sizes : int
            Dimensions that are no attributes of the object.

        Raises
        ------
        ValueError
            If it is none, or of other dimensions.
        """
        mine = {name: getattr(self, name, None) for name in self._record.dimensions}
        known = {name: size for name, size in mine.items() if isinstance(size, int)}
        self._adopt(self._record.read(state, known | sizes))

    def _adopt(self, values: dict[str, Any]) -> None:
        """Become what these values are."""
        for name, value in {**deepcopy(getattr(self, "_passing", {})), **values}.items():
            object.__setattr__(self, name, value)


class Passing:
    """Base of what has attributes that copies and pickles lack, for they can be found again."""

    #: The attributes, and what copies have in their place.
    _passing: ClassVar[dict[str, Any]]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **deepcopy(self._passing)}


def fit(name: str, shape: tuple[int | str, ...], array: NDArray[Any], sizes: Sizes) -> None:
    """Raise ``ValueError`` unless an array has a shape; add the dimensions that it determines.

    Parameters
    ----------
    name : str
        Name of the array in the message.
    shape : tuple of int or str
        Shape as in :class:`Numbers`.
    array : ndarray
        The array.
    sizes : dict of str to int
        Dimensions known so far.
    """
    if array.ndim == len(shape):
        for one, length in zip(shape, array.shape, strict=True):
            if isinstance(one, str):
                factor, dimension, more = _parsed(one)
                if (length - more) % factor == 0 and length >= more:
                    sizes.setdefault(dimension, (length - more) // factor)
    wanted = [sizes_of(one, sizes) for one in shape]
    if list(array.shape) != wanted:
        listed = ", ".join(str(one) for one in wanted) + ("," if len(wanted) == 1 else "")
        raise ValueError(f"`{name}` must be of shape ({listed}), got {array.shape}")


def sizes_of(one: int | str, sizes: Sizes) -> int | str:
    """Return the length of an axis as a number; unchanged if its dimension is not known."""
    if isinstance(one, int):
        return one
    factor, dimension, more = _parsed(one)
    return factor * sizes[dimension] + more if dimension in sizes else one


def _parsed(one: str) -> tuple[int, str, int]:
    found = _DIMENSION.fullmatch(one)
    assert found, one
    factor, dimension, more = found.groups()
    return int(factor or 1), dimension, int(more or 0)


def _as_field(field: Field | Check) -> Field:
    return field if isinstance(field, Field) else Plain(field)


def _said(value: Any) -> str:
    return f"got {value.dtype}" if isinstance(value, np.ndarray) else f"got {value!r:.60}"
