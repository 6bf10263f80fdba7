"""Names of other libraries: each stands for what it says, and the documentation lists them all."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import pairwise

from mercer import KernelClassifier, KernelRegressor
from mercer.expansions import ELSEWHERE, as_expansion
from mercer.kernels import as_kernel
from mercer.kernels.names import _ALIASES as KERNELS
from mercer.kernels.names import _NEXT_TO, _WHY_NOT
from mercer.losses import _ALIASES as LOSSES
from mercer.losses import as_loss

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "names.md"
X = np.random.default_rng(0).uniform(0.1, 2.0, (60, 3))


def listed(title: str) -> dict[str, set[str]]:
    """The rows of the table below a title: first column, names of the second."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = (one for one in section if one.startswith(title))
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return {left.strip(): set(re.findall(r"`([^`]+)`", right)) for left, right in rows}


@pytest.mark.parametrize("name", LOSSES)
def test_an_alias_is_the_loss_that_it_stands_for(name: str) -> None:
    assert as_loss(name) == as_loss(LOSSES[name][0])
    for own in LOSSES[name]:
        loss = as_loss(own)
        assert as_loss(name, loss.task) == loss
        assert as_loss(name.upper(), loss.task) == loss


@pytest.mark.parametrize("name", KERNELS)
def test_an_alias_is_the_kernel_that_it_stands_for(name: str) -> None:
    assert as_kernel(name) == as_kernel(KERNELS[name])


def test_no_alias_hides_a_name_of_ours() -> None:
    assert not any(type(as_loss(name)).__name__.lower() == name for name in LOSSES)
    assert all(as_kernel(own) for own in KERNELS.values())
    assert not set(KERNELS) & set(_NEXT_TO)
    assert set(_WHY_NOT) <= set(_NEXT_TO)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("rbf", {"gamma": 0.3}), ("laplacian", {"gamma": 0.3}), ("poly", {"gamma": 1 / 3})],
)
def test_kernels_are_those_of_scikit_learn(name: str, parameters: dict[str, float]) -> None:
    kernel = as_kernel(name)
    if "length_scale" in kernel.get_params():
        gamma = parameters["gamma"]
        kernel.set_params(length_scale=1 / gamma if name == "laplacian" else (2 * gamma) ** -0.5)
    else:
        kernel = kernel.resolve(X)
    expected = pairwise.pairwise_kernels(X, metric=name, **parameters)
    np.testing.assert_allclose(kernel(X, X), expected, rtol=1e-10)


def test_estimators_keep_the_name_that_was_written() -> None:
    model = KernelRegressor(loss="mae", kernel="RBF", expansion="dictionary", random_state=0)
    model.fit(X, X[:, 0])
    assert (model.get_params()["loss"], model.get_params()["kernel"]) == ("mae", "RBF")
    ours = KernelRegressor(
        loss="absolute_error", kernel="gaussian", expansion="dictionary", random_state=0
    )
    assert np.array_equal(model.predict(X), ours.fit(X, X[:, 0]).predict(X))


def test_squared_error_of_classes_is_squared_in_the_labels() -> None:
    model = KernelClassifier(loss="squared_error", kernel="linear", expansion="komp")
    model.fit(X, X[:, 0] > 1)
    y, f = np.array([-1.0, 1.0]), np.array([0.3, -0.2])
    ratio = model.loss_.value(y, f) / (y - f) ** 2
    assert ratio[0] == ratio[1]


@pytest.mark.parametrize(
    ("value", "task", "near"),
    [("maee", "regression", "absolute_error"), ("logloss_", "classification", "logistic")],
)
def test_what_is_nearly_an_alias_is_answered_by_our_name(value: str, task, near: str) -> None:
    with pytest.raises(ValueError, match=f"Did you mean '{near}'"):
        as_loss(value, task)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_expansions_of_others_are_answered_by_ours(name: str) -> None:
    with pytest.raises(ValueError, match=f"Did you mean '{ELSEWHERE[name]}'"):
        as_expansion(name)
    as_expansion(ELSEWHERE[name])


def test_the_page_lists_all_of_them() -> None:
    losses: dict[str, set[str]] = {}
    for name, ours in LOSSES.items():
        for one in ours:
            losses.setdefault(f"`{one}`", set()).add(name)
    assert listed("Losses") == losses
    kernels: dict[str, set[str]] = {}
    for name, one in KERNELS.items():
        kernels.setdefault(f"`{one}`", set()).add(name)
    assert listed("Kernels") == kernels
    expansions = {
        name: next(iter(ours))
        for names, ours in listed("Expansions").items()
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert expansions == ELSEWHERE
