"""The methods of policy evaluation with their settings, and how a run of one goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.estimators import ValueFunction
from mercer.estimators.transitions import Transitions
from mercer.expansions import KOMP, Expansion
from mercer.kernels import Gaussian
from mercer.schedules import InverseTime
from mercer_reproduction._colk_policy import Chain, root_mean_square

Array = NDArray[np.float64]

CHAIN = Chain()
LENGTH = 0.5
CENTRE = 2.0  # |x| of 99.6 % of the states in the long run
_ORDERS = 5  # stream of random numbers; the experiment has those before


# -- settings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A method and all its numbers.

    Attributes
    ----------
    name : str
        Name in tables.
    method : str
        Method of :class:`ValueFunction`.
    step : float or "auto"
        First step size.
    offset : float or None
        Steps after which it has halved; None for a constant one.
    auxiliary, batch_size, average, n_passes
        As there.
    tolerance : float or None, default=5e-4
        Of KOMP; None for the automatic one.
    length : float, default=0.5
        Length scale of the Gaussian kernel.
    shuffled, independent : bool, default=False
        Whether a trajectory comes in random order, or the states do not form one.
    """

    name: str
    method: str
    step: float | str
    offset: float | None
    auxiliary: float | str = "auto"
    batch_size: int = 8
    tolerance: float | None = 5e-4
    average: str | None = "suffix"
    length: float = LENGTH
    n_passes: int = 1
    shuffled: bool = False
    independent: bool = False

    def model(self, seed: int) -> ValueFunction:
        """Make the estimator, not fitted."""
        step: Any = self.step
        if not isinstance(step, str) and self.offset is not None:
            step = InverseTime(step, self.offset)
        expansion: str | Expansion = "auto" if self.tolerance is None else KOMP(self.tolerance)
        return ValueFunction(
            CHAIN.discount,
            self.method,
            kernel=Gaussian(self.length),
            expansion=expansion,
            step_size=step,
            auxiliary_step=self.auxiliary,
            regularization=1e-7,
            batch_size=self.batch_size,
            average=self.average,
            random_state=seed,
        )

    def words(self) -> str:
        """Put the settings in short."""
        step = self.step if isinstance(self.step, str) else f"{self.step:g}"
        if self.offset is not None:
            step += f"/(1 + t/{self.offset:g})"
        return f"step {step}, batches of {self.batch_size}"


# Steps of GTD2 and PKGTD move V less on average, and may fall later. The tracker of PKGTD hands
# each difference on with weight beta, which its steps make up for.
TD = Setting("td", "td", 8.0, 2500.0)
GTD2 = replace(TD, name="gtd2", method="gtd2", auxiliary=0.15, offset=10_000.0)
TDC = replace(TD, name="tdc", method="tdc", auxiliary=0.15)
RESIDUAL = replace(TD, name="residual", method="residual")
DOUBLE = replace(TD, name="double, i.i.d.", method="double_sampling", independent=True)
SLOW = replace(GTD2, name="pkgtd, rate .01", method="pkgtd", auxiliary=0.01, step=80.0)
TRACKER = replace(SLOW, name="pkgtd, rate .1", auxiliary=0.1, step=8.0)
OWN = (
    TD,
    GTD2,
    TDC,
    RESIDUAL,
    TRACKER,
    SLOW,
    replace(TD, name="td, i.i.d.", independent=True),
    DOUBLE,
)


def _single(name: str, step: float, decay: float, auxiliary: float | str = "auto") -> Setting:
    """Make the settings of the exploratory runs: single transitions, the last iterate."""
    return Setting(
        name,
        name.split(",")[0].replace(" ", "_"),
        step,
        1.0 / decay,
        auxiliary,
        batch_size=1,
        tolerance=0.005,
        average=None,
    )


SINGLE = (
    _single("td", 0.5, 1e-3),
    _single("gtd2", 0.3, 5e-5, 0.5 / 0.3),
    _single("tdc", 0.3, 3e-4, 1.0 / 3.0),
    _single("double sampling", 0.5, 2e-4),
    _single("residual", 0.3, 2e-4),
    _single("pkgtd, rate .1", 0.3, 2e-4, 0.1),
    _single("pkgtd, rate .01", 0.3, 2e-4, 0.01),
)
CHANGES = (
    replace(TD, name="last iterate, no mean", average=None),
    replace(TD, name="constant step", step=4.0, offset=None),
    replace(TD, name="constant step, shuffled", step=4.0, offset=None, shuffled=True),
    replace(TD, name="shuffled", shuffled=True),
    replace(TD, name="falls as in the runs of single transitions", step=4.0, offset=125.0),
    replace(TD, name="length scale 1", length=1.0),
    replace(TD, name="tolerance .1", tolerance=0.1),
    replace(TD, name="two passes", n_passes=2),
    replace(
        TD,
        name="automatic step and tolerance, shuffled",
        step="auto",
        offset=None,
        tolerance=None,
        batch_size=32,
        shuffled=True,
    ),
)


# -- runs ------------------------------------------------------------------------------------


class Judge:
    """Errors against the exact value.

    Parameters
    ----------
    states : ndarray of shape (n, 1)
        States held out.
    """

    def __init__(self, states: Array) -> None:
        self.states, self.exact = states, CHAIN.value(states)
        self.central = np.abs(states[:, 0]) <= CENTRE
        width = 6.0 * CHAIN.deviation
        self._grid = np.linspace(-width, width, 2001)[:, np.newaxis]
        self._density = np.exp(-0.5 * np.square(self._grid[:, 0] / CHAIN.deviation))

    def errors(self, values: Any) -> tuple[float, float, float]:
        """RMSE of a function of states.

        Returns
        -------
        held_out, central, stationary : float
            On the states held out, on those with |x| <= 2, and under the law of the states in the
            long run, integrated.
        """
        errors = values(self.states) - self.exact
        everywhere = values(self._grid) - CHAIN.value(self._grid)
        return (
            root_mean_square(errors),
            root_mean_square(errors[self.central]),
            root_mean_square(everywhere, self._density),
        )


@dataclass(frozen=True)
class Course:
    """How a run went.

    Attributes
    ----------
    model : ValueFunction
        What was learned.
    curve : tuple of float
        RMSE on the states held out at each moment of the last pass.
    errors : tuple of float
        :meth:`Judge.errors` at the end.
    cpu_seconds : float
        CPU time of learning.
    """

    model: ValueFunction
    curve: tuple[float, ...]
    errors: tuple[float, float, float]
    cpu_seconds: float


def _take(transitions: Transitions, rows: Any) -> Transitions:
    states, rewards, next_states, terminals, _, second = transitions
    assert second is not None
    again = second[0][rows], second[1][rows], second[2][rows]
    return Transitions(
        states[rows], rewards[rows], next_states[rows], terminals[rows], second=again
    )


def follow(
    setting: Setting, transitions: Transitions, moments: Sequence[int], judge: Judge, seed: int
) -> Course:
    """Learn the first ``moments[-1]`` transitions, and take errors at each moment.

    Parameters
    ----------
    setting : Setting
        What learns.
    transitions : Transitions
        With second outcomes.
    moments : sequence of int
        Numbers of transitions.
    judge : Judge
        Takes the errors.
    seed : int
        Of the order of what is shuffled.
    """
    model, seconds = setting.model(seed), 0.0
    curve: list[float] = []
    if setting.shuffled:
        order = np.random.default_rng((seed, _ORDERS)).permutation(moments[-1])
        transitions = _take(transitions, order)
    errors = (0.0, 0.0, 0.0)
    for _ in range(setting.n_passes):
        curve = []
        for first, last in zip((0, *moments[:-1]), moments, strict=True):
            part = _take(transitions, slice(first, last))
            second = part.second if setting.method == "double_sampling" else None
            start = time.process_time()
            model.partial_fit(
                part.states, part.rewards, part.next_states, part.terminals, second=second
            )
            seconds += time.process_time() - start
            errors = judge.errors(model.predict)
            curve.append(errors[0])
    return Course(model, tuple(curve), errors, seconds)
