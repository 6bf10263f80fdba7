"""Small parameter objects: kernels, losses, schedules and expansions are all of this kind.

A component stores its constructor arguments unchanged (scikit-learn's convention, so that
``clone`` and grid search reach them), compares by value and turns into plain JSON and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from mercer.validation import Check, parameters

_Value = TypeVar("_Value")

_REGISTRY: dict[str, type[Component]] = {}


class Component(BaseEstimator):
    """Base of all parameter objects: value equality and conversion to plain data.

    ``_parameters`` holds a check for each parameter, in the order of the checks. ``_relations``
    holds checks of combinations of parameters, called with the component. ``_check`` runs all of
    them, in constructors and when a parameter is set.
    """

    _parameters: ClassVar[Mapping[str, Check]] = parameters()
    _relations: ClassVar[tuple[Callable[[Any], None], ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("mercer."):
            _REGISTRY[cls.__name__] = cls

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Component):
            return NotImplemented if not isinstance(other, Component) else False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_equal(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]  # mutable by set_params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn does, and check them.

        Raises
        ------
        ValueError
            For an unknown name or a value outside its range.
        """
        super().set_params(**params)
        self._check()
        return self

    @classmethod
    def _get_param_names(cls) -> list[str]:
        of: Any = cls  # hashable, as its instances are not
        return list(_names_in_signature(of))

    def _check(self) -> None:
        """Raise ``ValueError`` if a parameter is outside its range."""
        for name, check in self._parameters.items():
            check(name, getattr(self, name))
        for relation in self._relations:
            relation(self)


@cache
def _names_in_signature(cls: Any) -> tuple[str, ...]:
    # Read once: there may be a kernel for each of a thousand cells.
    return tuple(BaseEstimator._get_param_names.__func__(cls))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):  # files know lists only
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a is b or a == b)


def own_copy(value: _Value) -> _Value:
    """Copy a component and the components inside it, so that it is independent of the original.

    Functions and other parameters that are not components, lists or arrays are not copied; neither
    is a ``value`` that is not a component.

    Examples
    --------
    >>> from mercer.kernels import Gaussian
    >>> kernel = Gaussian(2.0)
    >>> mine = own_copy(kernel)
    >>> _ = kernel.set_params(length_scale=3.0)
    >>> mine
    Gaussian(length_scale=2.0)
    """
    if not isinstance(value, Component):
        return value
    params = value.get_params(deep=False)
    for name, param in params.items():
        if isinstance(param, list | tuple):
            params[name] = type(param)(own_copy(item) for item in param)
        else:
            params[name] = param.copy() if isinstance(param, np.ndarray) else own_copy(param)
    return type(value)(**params)


def to_config(value: Any) -> Any:
    """Turn a component (or a plain value) into what JSON can hold.

    Raises
    ------
    ValueError
        For values that cannot be stored without executing code on load, such as functions.
    """
    if isinstance(value, Component):
        # A class of the user's may have the name of a built-in one.
        if _REGISTRY.get(type(value).__name__) is not type(value):
            raise ValueError(
                f"`{type(value).__name__}` is not part of mercer and cannot be stored in a model "
                "file, which holds data only. Pickle the estimator instead, or use a built-in part."
            )
        params = {k: to_config(v) for k, v in value.get_params(deep=False).items()}
        return {"type": type(value).__name__, "params": params}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, dict):
        # Keys may be numbers (class weights), which JSON would turn into text.
        return {"dict": [[to_config(k), to_config(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [to_config(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(
        f"A parameter of type `{type(value).__name__}` ({value!r}) cannot be stored in a model "
        "file: it holds data only, no code. Pickle the estimator instead, or use a built-in part."
    )


def from_config(config: Any) -> Any:
    """Inverse of :func:`to_config`.

    Raises
    ------
    ValueError
        If the configuration names an unknown component or parameters it does not take.
    """
    if isinstance(config, list):
        return [from_config(v) for v in config]
    if not isinstance(config, dict):
        return config
    if set(config) == {"array"}:
        return np.asarray(config["array"])
    if set(config) == {"dict"}:
        return {from_config(k): from_config(v) for k, v in config["dict"]}
    name, whole = config.get("type"), set(config) == {"type", "params"}
    if name not in _REGISTRY or not whole or not isinstance(config["params"], dict):
        raise ValueError(f"The model file names an unknown component: {name!r}.")
    params = {k: from_config(v) for k, v in config["params"].items()}
    try:
        return _REGISTRY[name](**params)
    except TypeError as error:
        raise ValueError(f"The model file gives wrong parameters for {name}: {error}.") from None
