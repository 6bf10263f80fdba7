"""The papers' experiments, one module each: run them by ``mercer reproduce``.

An experiment is a module with an ``EXPERIMENT`` in it; :func:`experiments` lists them. Solvers that
exist only to be compared with are in :mod:`mercer_reproduction.baselines`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mercer.validation import nearest

if TYPE_CHECKING:
    from mercer_reproduction._data_files import DATA_FILES
    from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target

__all__ = [
    "DATA_FILES",
    "Context",
    "Drawing",
    "Experiment",
    "Result",
    "Target",
    "experiments",
    "get_experiment",
]

# In the order in which they are listed and written up.
_MODULES = (
    "polk_multidist",
    "polk_mnist",
    "polk_textures",
    "polk_textons",
    "polk_theorems",
    "dsg_ridge",
    "dsg_gp",
    "dsg_losses",
    "dsg_steps",
    "dsg_costs",
    "dsg_adult",
    "dsg_mnist_8_6",
    "dsg_covtype",
    "dsg_mnist",
    "dsg_cifar10",
    "dsg_qm7",
    "colk_fig1",
    "colk_fig2",
    "colk_fig3",
    "colk_table1",
    "colk_guidance",
    "colk_tracking",
    "colk_policy",
    "yz_rates",
    "yz_memory",
    "yz_auc",
    "yz_buffers",
    "yz_same_digit",
    "yz_ranking",
)


def __getattr__(name: str) -> Any:
    # The command's help needs none of it.
    if name not in __all__:
        raise AttributeError(f"module 'mercer_reproduction' has no attribute {name!r}")
    home = "_data_files" if name == "DATA_FILES" else "_experiment"
    return getattr(import_module(f"mercer_reproduction.{home}"), name)


def __dir__() -> list[str]:
    return __all__


def experiments() -> tuple[Experiment, ...]:
    """All experiments, in the order of the papers.

    Examples
    --------
    >>> "dsg-adult" in [experiment.name for experiment in experiments()]
    True
    """
    return tuple(import_module(f"mercer_reproduction.{name}").EXPERIMENT for name in _MODULES)


def get_experiment(name: str) -> Experiment:
    """Find an experiment by its name.

    Raises
    ------
    ValueError
        If there is none of this name; lists those that exist.
    """
    known = {experiment.name: experiment for experiment in experiments()}
    if name not in known:
        raise ValueError(
            f"There is no experiment {name!r}.{nearest(name, known)} Those that exist: "
            f"{', '.join(known)}; or 'all'."
        )
    return known[name]
