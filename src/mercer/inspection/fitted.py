"""What is read off a fitted estimator, or off a Pipeline that ends in one, and its words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

__all__ = [
    "SHARE",
    "final_model",
    "has_run",
    "history_of",
    "input_dictionary",
    "learns_pairs",
    "loss_words",
    "monitor_words",
    "name_of_loss",
    "objective_name",
    "output_labels",
    "risk_of",
    "short_name",
    "size_unit",
    "unit_of_loss",
]

Array = NDArray[np.float64]

#: Ending of the names of monitors that are shares of rows.
SHARE = "_fraction"
_MONITORS = {"inner_value": "tracked inner value"}


def final_model(estimator: Any) -> Any:
    """Return the last step of a Pipeline, and any other estimator itself."""
    steps = getattr(estimator, "steps", None)
    return steps[-1][1] if steps else estimator


def has_run(estimator: Any) -> bool:
    """Whether a model was learned step by step, which leaves a course to draw.

    The posterior of a Gaussian process is an algebraic function of all rows.
    """
    return not hasattr(final_model(estimator), "log_marginal_likelihood")


def learns_pairs(estimator: Any) -> bool:
    """Whether a model was learned from pairs of rows."""
    return hasattr(final_model(estimator), "predict_pair")


def name_of_loss(estimator: Any) -> str:
    """Readable name of an estimator's loss, "loss" where there is none: SquaredHinge, "auto".

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
    """Return what losses are measured in, "" where nothing is known of it, as with arrays."""
    return str(getattr(final_model(estimator), "loss_unit", ""))


def size_unit(estimator: Any) -> str:
    """Name what the model order of an estimator counts."""
    model = final_model(estimator)
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
    """Readable name of what the history of an estimator records: its loss, or a risk of it.

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
    """Turn the name of a class or of a choice into words; abbreviations stay as they are."""
    if re.search("[A-Z]{2}", name):
        return name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()


def input_dictionary(estimator: Any) -> Array | None:
    """Return the dictionary in the units of the inputs, None where there is no such thing."""
    dictionary = getattr(final_model(estimator), "dictionary_", None)
    if dictionary is None:
        return None
    if final_model(estimator) is not estimator and len(estimator.steps) > 1:
        before = estimator[:-1]
        if not hasattr(before, "inverse_transform"):
            return None
        dictionary = before.inverse_transform(dictionary)
    return np.asarray(dictionary, dtype=float)


def output_labels(estimator: Any, n_outputs: int) -> list[str]:
    """Name the outputs of a regressor: by the levels of a quantile loss, else by number.

    Examples
    --------
    >>> output_labels(None, 1), output_labels(None, 2)
    (['prediction'], ['output 0', 'output 1'])
    """
    levels = getattr(getattr(final_model(estimator), "loss", None), "levels", None)
    if levels is not None and np.size(levels) == n_outputs:
        return [f"quantile {level:g}" for level in np.atleast_1d(levels)]
    return ["prediction"] if n_outputs == 1 else [f"output {j}" for j in range(n_outputs)]


def history_of(estimator: Any) -> Any:
    """Return the history of a fitted estimator, or raise that there is none."""
    model = final_model(estimator)
    if not hasattr(model, "history_"):
        raise NotFittedError(
            f"`{type(model).__name__}` has no `history_`: it has learned nothing yet. Call `fit` "
            "or `partial_fit` first."
        )
    return model.history_


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
