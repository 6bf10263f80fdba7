"""Types of Arrow columns, and the one that holds the values of two."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def is_text_type(kind: Any) -> bool:
    """Whether a type is one of text."""
    import pyarrow as pa

    types = pa.types
    found = types.is_string(kind) or types.is_large_string(kind) or "string_view" in str(kind)
    return bool(found)


def is_number_type(kind: Any) -> bool:
    """Whether a type is one of numbers."""
    import pyarrow as pa

    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def wider(one: Any, other: Any) -> Any:
    """Return the type of a column that has one type in some files, and another in others.

    Numbers of different types become numbers; truth values among numbers become 0 and 1. Dates and
    times get the finest unit read. Other mixtures, such as numbers and text, become text.

    Parameters
    ----------
    one, other : pyarrow.DataType
        The types.

    Returns
    -------
    kind : pyarrow.DataType or None
        None if no type holds both, as with lists.

    Examples
    --------
    >>> import pyarrow as pa
    >>> wider(pa.int64(), pa.float64()), wider(pa.null(), pa.int8())
    (DataType(double), DataType(int8))
    >>> wider(pa.timestamp("ns"), pa.date32()), wider(pa.string(), pa.int64())
    (TimestampType(timestamp[us]), DataType(string))
    """
    import pyarrow as pa

    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    if types.is_dictionary(one) and types.is_dictionary(other):
        values = wider(one.value_type, other.value_type)
        return None if values is None else pa.dictionary(pa.int32(), values)
    one, other = (kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other))
    if one == other:
        return one
    if any(types.is_nested(kind) or types.is_binary(kind) for kind in (one, other)):
        return None
    if is_text_type(one) or is_text_type(other):
        return pa.large_string() if pa.large_string() in (one, other) else pa.string()
    counts = [is_number_type(kind) or types.is_boolean(kind) for kind in (one, other)]
    if all(counts):
        return _of_numbers([kind for kind in (one, other) if not types.is_boolean(kind)])
    for tell, kind in (
        (lambda kind: types.is_timestamp(kind) or types.is_date(kind), _moments(one, other)),
        (types.is_time, pa.time64("us")),
        (types.is_duration, pa.duration("us")),
    ):
        if tell(one) and tell(other):
            return kind
    return pa.string()


def _of_numbers(kinds: list[Any]) -> Any:
    """Return the type of all numbers of some types."""
    import pyarrow as pa

    types = pa.types
    if all(map(types.is_integer, kinds)):
        if all(map(types.is_unsigned_integer, kinds)):
            return pa.uint64()
        if pa.uint64() not in kinds:
            return pa.int64()
    return pa.float64()


def _moments(one: Any, other: Any) -> Any:
    import pyarrow as pa

    zones = [getattr(kind, "tz", None) for kind in (one, other)]
    return pa.timestamp("us", zones[0] or zones[1])


def one_value(text: str, kind: Any) -> Any:
    """Return text as an array of one value of a type; null if it cannot be read."""
    import pyarrow as pa

    try:
        if pa.types.is_time(kind):  # which text is not cast to
            return pa.array([f"1970-01-01 {text}"]).cast(pa.timestamp("us")).cast(kind)
        if pa.types.is_timestamp(kind):  # of UTC, where no zone is given
            return pa.array([text]).cast(pa.timestamp(kind.unit)).cast(kind)
        if pa.types.is_boolean(kind) and text.lower() not in ("true", "false"):
            return pa.nulls(1, kind)
        return pa.array([text]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)


@lru_cache(maxsize=256)
def values_of(texts: tuple[str, ...], kind: Any) -> Any:
    """Read texts as an array of those that are values of a type; no number is one nearby.

    Examples
    --------
    >>> import pyarrow as pa
    >>> values_of(("-1", "0.5", "n.v."), pa.int64()).to_pylist()
    [-1]
    """
    import pyarrow as pa

    found = [one_value(text, kind) for text in texts]
    return pa.concat_arrays([pa.nulls(0, kind), *found]).drop_null()
