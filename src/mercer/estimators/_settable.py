"""Parameters that are set by name, those of components among them."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator

__all__ = ["Settable"]

# Objects to write instead of names, whose parameters can be set.
_OBJECTS = {
    "expansion": "expansion=Auto(), or =KOMP(), ... of mercer.expansions",
    "kernel": "kernel=Gaussian(), ... of mercer.kernels",
    "loss": "loss=Huber(), ... of mercer.losses",
    "risk": "risk=CVaR(), ... of mercer.risks",
}


class Settable(BaseEstimator):
    """Base of estimators whose parameters may be components; not for direct use."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, ``part__parameter`` for those of a component.

        On a fitted model ``step_size``, ``regularization`` and ``batch_size`` (and
        ``class_weight``) take effect with the next rows; all others with the next ``fit``.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For an unknown name, a value that a component refuses, or a parameter of a component
            that is given by name only.
        """
        self.__dict__.pop("_tuned", None)
        for key in params:
            name, _, inner = key.partition("__")
            value = params.get(name, getattr(self, name, None))
            if inner and isinstance(value, str | None) and name in self._get_param_names():
                raise ValueError(
                    f"`{key}` is a parameter of an object, but {name}={value!r} is none. "
                    f"Give the object itself, {type(self).__name__}({_OBJECTS.get(name, name)}), "
                    f"whose parameters can be set and searched as {name}__...."
                )
        super().set_params(**params)
        return self
