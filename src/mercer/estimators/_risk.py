"""What the classifier and the regressor share: the risk of the loss that they minimise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer._component import from_config, own_copy, to_config
from mercer._validation import check_integer
from mercer.estimators._base import Array, KernelEstimator
from mercer.estimators._kept_rows import KeptRows
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Auto, Dictionary, Expansion, RandomFeatures
from mercer.functions import DictionaryFunction
from mercer.kernels import Kernel
from mercer.losses import Squared, as_loss
from mercer.numerics.philox import row_uniforms
from mercer.objectives import Compositional, Objective, make_objective
from mercer.parts import Blend, FittedPart
from mercer.planning import AutomaticStep
from mercer.risks import Risk, as_risk

__all__ = ["RiskEstimator"]

_RESERVOIR = 1000
# What only learning by steps asks for: defaults, and what sums over rows do instead.
_OF_STEPS = {
    "n_passes": (1, "in which a second pass would count every row twice"),
    "batch_size": (32, "in which a row counts the same in any batch"),
    "average": ("suffix", "and has no iterates to average"),
}


class RiskEstimator(KernelEstimator):
    """Base of estimators with a loss and, possibly, a risk of it; not for direct use.

    Pairs of independent rows reach the objective as neighbours in a batch; this class puts them
    there.
    """

    risk: Any
    loss: Any
    _task: ClassVar[Any]
    risk_: Risk | None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        risk = as_risk(self.risk)
        if isinstance(self.expansion, Auto) and not (
            isinstance(self.step_size, str) and self.step_size == "auto"
        ):
            raise ValueError(
                f"`step_size={self.step_size!r}` is for learning by steps, but {self.expansion!r} "
                "solves equations. Leave the step size out, or use expansion='komp'."
            )
        tracker = None if risk is None else risk.tracking
        cyclic = self._chosen_expansion().mode == "cyclic"
        if cyclic and tracker is not None and tracker.rule == "nasa":
            raise ValueError(
                "Tracker('nasa') moves all coefficients along an averaged direction, which "
                "RandomFeatures(mode='cyclic') cannot: it solves for one block at a time. Use mode "
                "'newton' or 'faithful', or Tracker('momentum')."
            )
        if _pairs(risk) == "stream":
            size = check_integer("batch_size", self.batch_size, low=2)
            if size % 2:
                raise ValueError(
                    f"`batch_size` must be even for Tracker(pairs='stream'), whose rows come in "
                    f"pairs, got {size}. Use {size + 1}, or pairs='tracked'."
                )

    def _check_settings(self, *, anew: bool) -> None:
        sums = self._sums() if anew else isinstance(self.learner_.function, Blend)
        if not sums:
            return
        for name, (default, why) in _OF_STEPS.items():
            value = getattr(self, name)
            if value != default:
                raise ParameterError(
                    f"`{name}` is of learning by steps, and must be {default!r} for the default "
                    f"expansion, got {value!r}: this sums over rows, {why}.",
                    parameter=name,
                    value=value,
                    mend=Advice(
                        "Leave it out, or choose ",
                        InPython(
                            "another expansion, such as 'komp'",
                            ("another one, such as ", Setting("expansion", "komp")),
                        ),
                        ".",
                    ),
                )

    def _scales_columns(self) -> bool:
        return self._races(self._chosen_expansion())

    def _races(self, expansion: Expansion) -> bool:
        """Whether the race chooses the kernel."""
        raced = isinstance(expansion, Auto) or (
            isinstance(expansion, Dictionary) and self.expansion == "auto"
        )
        return raced and isinstance(self.kernel, str) and self.kernel == "auto"

    def _sums(self) -> bool:
        """Whether learning is by sums over rows alone, whatever the loss."""
        return isinstance(self._chosen_expansion(), Auto)

    def _start(
        self, sample: Any, generator: np.random.RandomState, n_rows: int | None = None
    ) -> None:
        self.risk_ = own_copy(as_risk(self.risk))
        self.__dict__.pop("_reservoir", None)
        super()._start(sample, generator, n_rows)

    def _chosen_expansion(self) -> Expansion:
        automatic = all(
            isinstance(value, str) and value == "auto" for value in (self.expansion, self.step_size)
        )
        if not automatic or self.risk is not None:
            return super()._chosen_expansion()
        if self._task == "classification" or isinstance(as_loss(self.loss, self._task), Squared):
            return Auto()
        return Dictionary("auto", ridge="auto" if self._chosen_ridge() is None else None)

    def _start_function(
        self, expansion: Expansion, kernel: Kernel, dtype: Any, averaging: float | None
    ) -> Any:
        function = super()._start_function(expansion, kernel, dtype, averaging)
        if isinstance(function, Blend | DictionaryFunction):
            function.races = self._races(expansion)
        if isinstance(function, Blend):
            function.set_ridge(self._chosen_ridge())
        return function

    def _chosen_ridge(self) -> float | None:
        """Ridge of the parts; None for one that they choose."""
        return None if isinstance(self.regularization, str) else float(self.regularization)

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        super()._partial_fit(X, y, sample_weight)
        if isinstance(self.learner_.function, Blend):
            self.learner_.function.set_ridge(self._chosen_ridge())
        return self

    @property
    def race_(self) -> list[dict[str, Any]]:
        """What the race of the default expansion tried: one dict for each pilot.

        ``form`` ("global" or "cells"), ``metric`` (how inputs are scaled), ``n_inputs`` (behind the
        map), ``length`` (scale of the kernel; of cells a multiple of their median distance),
        ``error`` (mean squared error on rows not fitted) and its ``standard_error``.

        Raises
        ------
        AttributeError
            If there was no race.
        """
        function = self._fitted().current_function()
        contest = getattr(function, "contest", None)
        if contest is None:
            raise AttributeError(
                "There was no race: `kernel`, `expansion` or `step_size` were given, or a risk or "
                "a loss that the default expansion does not minimise; or no row was learned yet."
            )
        return [dict(entry) for entry in contest.table]

    @property
    def block_length_(self) -> int:
        """Rows that a model of the default expansion held out together to judge what to choose.

        1 if each was judged by itself; more where rows depend on their neighbours, as in a series
        (``block_length`` of :class:`mercer.expansions.Auto`).

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return self._blend().block

    @property
    def parts_(self) -> list[FittedPart]:
        """Parts of a model of the default expansion: f is the sum of what they say.

        Each has ``weight``, ``map``, ``kernel``, ``dictionary`` and ``coefficients``, and is
        ``weight * kernel(map(X), dictionary) @ coefficients``
        (:class:`mercer.parts.FittedPart`).

        Raises
        ------
        AttributeError
            If the model has another expansion.
        """
        return [FittedPart.of(weight, part) for weight, part in self._blend().used]

    def _blend(self) -> Blend:
        """Return the function if it is a sum of parts, else raise AttributeError."""
        function = self._fitted().current_function()
        if not isinstance(function, Blend):
            raise AttributeError(
                f"A model with expansion={function.expansion!r} has a single part: see "
                "`kernel_`, `dictionary_` and `coefficients_`."
            )
        return function

    def _objective(self) -> Objective:
        return make_objective(self.loss_, self.risk_)

    # -- copies of the outputs ------------------------------------------------------------------

    def _copies(self) -> int:
        """How often the function has each score: "nasa" keeps a direction beside it."""
        return self._objective().copies

    def _n_columns(self) -> int:
        return self._copies() * super()._n_columns()

    def _set_up(
        self,
        kernel: Kernel,
        automatic: AutomaticStep,
        expansion: Expansion,
        averaging: float | None,
        dtype: Any,
    ) -> None:
        if self._copies() > 1 and isinstance(expansion, RandomFeatures):
            averaging = None  # a block's coefficients go on moving, so there is no mean of them
        super()._set_up(kernel, automatic, expansion, averaging, dtype)

    # -- pairs ----------------------------------------------------------------------------------

    def _rows_per_sample(self) -> int:
        return 2 if _pairs(self.__dict__.get("risk_")) == "reservoir" else 1

    def _visits(self) -> int:
        return 1 if _pairs(self.risk_) == "tracked" else 2

    def _orders(
        self, y: Any, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        pairs = _pairs(self.risk_)
        for order in super()._orders(y, n_passes, generator):
            if pairs == "tracked":
                yield order
                continue
            n = order.size
            if pairs == "stream":
                partners = generator.permutation(n)
            else:  # one of the rows visited before
                earlier = np.maximum(np.arange(n), 1)
                partners = order[(generator.uniform(size=n) * earlier).astype(np.int64)]
            yield np.column_stack([order, partners]).ravel()

    def _joined(self, X: Any, targets: Array, weights: Array) -> tuple[Any, Array, Array]:
        """Rows as the learner gets them: from a reservoir each has a partner after it."""
        if self._rows_per_sample() == 1 or X.shape[0] == 0:
            return X, targets, weights
        n, d = X.shape
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        rows = np.hstack([dense, targets])
        kept: KeptRows | None = self.__dict__.get("_reservoir")
        if kept is None or kept.rows.shape[1] != rows.shape[1]:
            # Targets of other classes, if there are any, are no longer of use.
            kept = KeptRows.none(rows.shape[1])
        if kept.keys.size:
            # Numbers that belong to the rows, so that it does not matter how a stream is cut.
            at = (row_uniforms(kept.n_seen, n) * kept.keys.size).astype(np.int64)
            partners, theirs = kept.rows[at], kept.weights[at]
        else:
            partners, theirs = np.roll(rows, 1, axis=0), np.roll(weights, 1)
        self._reservoir = kept.extended(rows, weights, _RESERVOIR)
        both = np.stack([rows, partners], axis=1).reshape(2 * n, -1)
        joined = np.ascontiguousarray(both[:, :d], dtype=dense.dtype)
        return joined, both[:, d:].copy(), np.column_stack([weights, theirs]).ravel()

    def _is_tuned(self) -> bool:
        # Rows that need a partner take the long way.
        return self._rows_per_sample() == 1 and super()._is_tuned()

    # -- fitted attributes ----------------------------------------------------------------------

    @property
    def value_at_risk_(self) -> float:
        """Quantile of the loss that a CVaR has settled on, in units of the loss.

        An average over the steps, of the losses of rows before they were learned; on given rows
        use ``mercer.display.row_losses`` and ``tail_of``.

        Raises
        ------
        AttributeError
            If the risk has none.
        """
        learner = self._fitted()
        learner.current_function()  # with the rows in it that wait for a step
        objective = learner.objective
        if isinstance(objective, Compositional) and objective.scalars is not None:
            named = dict(zip(objective.risk.scalar_names, objective.scalars, strict=True))
            if "value_at_risk" in named:
                return float(named["value_at_risk"])
        raise AttributeError(
            "There is a value at risk for a risk with one CVaR(...) only, once rows with weight "
            f"were learned; this model has risk {self.risk_!r}."
        )

    # -- state ----------------------------------------------------------------------------------

    def _risk_to_state(self) -> dict[str, Any]:
        kept: KeptRows | None = self.__dict__.get("_reservoir")
        return {
            "risk": to_config(self.risk_),
            "reservoir": None if kept is None else kept.to_state(),
        }

    def _risk_from_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`_risk_to_state` gave; files of old have nothing."""
        risk = from_config(state.get("risk"))
        if risk is not None and not isinstance(risk, Risk):
            raise ValueError("the risk is of the wrong kind")
        self.risk_ = risk
        kept = state.get("reservoir")
        if kept is not None:
            self._reservoir = KeptRows.from_state(kept, kept["rows"].shape[1], _RESERVOIR)


def _pairs(risk: Risk | None) -> str:
    tracker = None if risk is None else risk.tracking
    return "tracked" if tracker is None else tracker.pairs
