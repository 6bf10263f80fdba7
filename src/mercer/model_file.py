"""Model files: data only, versioned, check-summed, replaced atomically.

What a model is made of is one nested dict of numbers, text and arrays. Arrays become tensors of a
safetensors file, the rest its JSON header (:mod:`mercer._container`). Nothing in a file is ever
executed; whatever does not fit together ends in a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mercer import _container

__all__ = ["load_model", "read_state", "save_model", "storable", "write_state"]

_Class = TypeVar("_Class", bound=type[Any])
_KINDS: dict[str, type[Storable]] = {}
_HOMES: dict[str, str] = {}  # modules of classes, imported once a file names them


class Storable(Protocol):
    """What can be stored: an object that turns into a nested dict and back."""

    def to_state(self) -> dict[str, Any]:
        """Nested dict of arrays, numbers, text, lists and None."""
        ...

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`'s dict; ValueError if it does not fit together."""
        ...


def storable(cls: _Class) -> _Class:
    """Class decorator: files may name this class."""
    _KINDS[cls.__name__] = cls
    return cls


def storable_in(homes: Mapping[str, str]) -> None:
    """Let files name classes whose modules need not be imported before.

    Parameters
    ----------
    homes : mapping of str to str
        Names of classes that are :func:`storable`, and their modules.
    """
    _HOMES.update(homes)


def save_model(model: Any, path: Any) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : estimator
        A fitted estimator of mercer.
    path : str or path-like
        Where to write; an existing file is replaced only once the new one is complete.

    Raises
    ------
    ValueError
        If the model is not fitted, or a part cannot be stored without code.
    OSError
        If the file cannot be written.
    """
    write_state(path, {"kind": type(model).__name__, "model": model.to_state()})


def load_model(path: Any) -> Any:
    """Read a model written by ``save``, ``mercer fit`` or as a checkpoint.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        Ready to predict, and to go on learning bit for bit.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For any file that is not exactly what was saved: truncated, altered, of another program or
        of a newer version of mercer.

    Examples
    --------
    >>> import tempfile, os
    >>> from mercer import KernelRegressor
    >>> model = KernelRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.mercer")
    ...     model.save(path)
    ...     load_model(path).model_order_ == model.model_order_
    True
    """
    state = read_state(path)
    try:
        kind = state["kind"]
        if kind not in _KINDS and kind in _HOMES:
            import_module(_HOMES[kind])
        if kind not in _KINDS:
            raise ValueError(f"the file holds a {kind!r}, which this version does not know")
        return _KINDS[kind].from_state(state["model"])
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{Path(path)} is not a valid mercer model: {error}.") from error


def write_state(path: Any, state: dict[str, Any]) -> None:
    """Write a nested dict of arrays and plain values."""
    tensors: dict[str, NDArray[Any]] = {}
    header = _split(state, "", tensors)
    _container.write(path, header, tensors)


def read_state(path: Any) -> dict[str, Any]:
    """Read what :func:`write_state` wrote; ValueError for anything else."""
    header, tensors = _container.read(path)
    try:
        joined = _join(header, tensors)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{Path(path)} is not a valid mercer file: {error!r}.") from error
    if not isinstance(joined, dict):
        raise ValueError(f"{Path(path)} is not a valid mercer file: no state in it.")
    return joined


def _split(value: Any, name: str, tensors: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        return {k: _split(v, f"{name}/{k}" if name else k, tensors) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _join(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"tensor"}:
            return tensors[value["tensor"]]
        return {k: _join(v, tensors) for k, v in value.items()}
    return value
