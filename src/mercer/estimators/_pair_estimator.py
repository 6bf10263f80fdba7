"""What learning from pairs asks of an estimator: checks, labels, steps, state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from mercer._component import from_config, own_copy, to_config
from mercer._validation import check_choice, check_real
from mercer.buffers import FIFO, Buffer, PerClassFIFO, as_buffer
from mercer.data.shuffle import group_order
from mercer.estimators._base import KernelEstimator
from mercer.estimators._pair_targets import (
    FIFO_OF_50,
    PairLabels,
    group_numbers,
    label_scale,
    plain_labels,
)
from mercer.estimators._state import StoredEstimator
from mercer.exceptions import Advice, ParameterError, Setting
from mercer.expansions import KOMP, Expansion, Full, RandomFeatures
from mercer.functions import start_bilinear
from mercer.kernels import Kernel, PairKernel, as_pair_kernel
from mercer.losses import Loss, MarginLoss, as_loss
from mercer.objectives import Pairwise
from mercer.objectives.pairwise import NORMALIZATIONS, PAIR_LABELS, check_pair_parts
from mercer.planning import AutomaticStep, CarefulSteps, automatic_step
from mercer.schedules import PowerDecay, Relative, Schedule

__all__ = ["PairEstimator"]

Array = NDArray[np.float64]

# In units of 1 / (L κ²) of pairs with labels of size 1: 16 times what the theorems allow, which
# tuning improves little (docs/reproduction.md, yz-auc), except for losses that pull back from
# margins that are large enough.
_AUTO = 16.0
_TOLERANCE, _MAX_SIZE = 1e-4, 200
_BLOCK = 256
_TYPICAL = 0.95
_FEW = 200  # rows whose kernels tell how large those of pairs are


class PairEstimator(StoredEstimator, KernelEstimator):
    """Base of :class:`mercer.KernelRanker`: everything but its parameters and answers."""

    _task = "classification"
    _step_names: ClassVar[tuple[str, ...]] = ("auto", "theory")
    _parts: dict[str, Any]
    _labels: PairLabels
    loss: Any
    pair_kernel: Any
    pair_label: str
    buffer: Any
    normalize: str

    @property
    def _pair_kernel(self) -> PairKernel:
        """The pair kernel in use."""
        kernel: PairKernel = self._parts["pair_kernel"]
        return kernel

    # -- parameters -----------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        loss = as_loss(self.loss, "classification")
        if not isinstance(loss, MarginLoss):
            raise ValueError(
                f"`loss` must be one of margins, got {self.loss!r}, which joins the scores of many "
                "classes. A pair has one score: use 'logistic', 'squared_hinge', "
                "'least_squares_margin' or QNormHinge(q)."
            )
        check_choice("pair_label", self.pair_label, PAIR_LABELS)
        check_choice("normalize", self.normalize, ("auto", *NORMALIZATIONS))
        pair_kernel = as_pair_kernel(self.pair_kernel)
        check_pair_parts(pair_kernel, self.pair_label, self._normalization())
        if isinstance(self.step_size, str) and self.step_size == "theory":
            self._check_theory(loss)
        if (
            pair_kernel.bias
            and pair_kernel.order == 1
            and isinstance(self._chosen_expansion(), RandomFeatures)
        ):
            raise ValueError(
                f"`pair_kernel={pair_kernel!r}` has a bias, which random features of first order "
                "do not know: their steps solve equations in the features only. Use a dictionary, "
                "for example expansion='komp', or bias=0."
            )
        if pair_kernel.order == 2 and self.average is not None:
            raise ParameterError(
                f"`average` must be None for the pair kernel {self.pair_kernel!r}, got "
                f"{self.average!r}: only functions of first order are averaged.",
                parameter="average",
                value=self.average,
                mend=Advice("Use average=None, or ", Setting("pair_kernel", "difference"), "."),
            )
        if not (isinstance(self.buffer, str) and self.buffer == "auto"):
            self._check_buffer(as_buffer(self.buffer))

    def _batch_size(self) -> int:
        if not (isinstance(self.batch_size, str) and self.batch_size == "auto"):
            return super()._batch_size()
        features = isinstance(self._chosen_expansion(), RandomFeatures)
        return _BLOCK if features and as_pair_kernel(self.pair_kernel).order == 1 else 1

    def _normalization(self) -> str:
        if self.normalize != "auto":
            return self.normalize
        return "balanced" if self.pair_label == "same" else "opposite"

    def _check_theory(self, loss: Loss) -> None:
        if loss.hoelder_exponent != 1.0:
            raise ParameterError(
                f"`step_size='theory'` has no steps for {loss!r}: Theorems 3 and 4 of Ying and "
                "Zhou are about losses whose slope is Lipschitz.",
                parameter="step_size",
                value="theory",
                mend=Advice(
                    "Use 'logistic', 'squared_hinge' or 'least_squares_margin', or ",
                    Setting("step_size", "auto"),
                    ".",
                ),
            )
        if self.regularization != 0:
            raise ValueError(
                "`step_size='theory'` needs `regularization=0`, got "
                f"{self.regularization!r}: the theorems are about learning without a ridge. Set "
                "`regularization=0`, or use `step_size='auto'`."
            )

    def _check_buffer(self, buffer: Buffer) -> None:
        """Refuse a budget that the points of the buffer would fill."""
        if buffer.per_class and self.pair_label == "same":
            raise ParameterError(
                Advice(
                    f"`buffer={self.buffer!r}` keeps rows of each of two classes, but ",
                    Setting("pair_label", "same"),
                    " is for any labels.",
                ),
                parameter="buffer",
                value=self.buffer,
                mend=Advice("Use ", FIFO_OF_50, "."),
            )
        expansion = self._chosen_expansion()
        if isinstance(expansion, RandomFeatures):
            return
        limit, capacity = expansion.limit(), buffer.capacity
        bounded = limit < Expansion().limit()
        if bounded and (capacity is None or limit <= capacity):
            held = "all rows" if capacity is None else f"{capacity} rows"
            raise ParameterError(
                Advice(
                    Setting("expansion", expansion, f"`expansion={expansion!r}`"),
                    f" keeps at most {limit} points, but the buffer {buffer!r} holds {held}, which "
                    "stay in the dictionary.",
                ),
                parameter="expansion",
                value=expansion,
                mend="Use more points, or a smaller buffer.",
            )

    def _chosen_expansion(self) -> Expansion:
        if not self._chooses_expansion():
            return super()._chosen_expansion()
        chosen = isinstance(self.buffer, str) and self.buffer == "auto"
        capacity = FIFO().capacity if chosen else as_buffer(self.buffer).capacity
        if capacity is None:
            return Full()
        return KOMP(tolerance=_TOLERANCE, max_size=max(_MAX_SIZE, 2 * capacity))

    def _chooses_expansion(self) -> bool:
        return isinstance(self.expansion, str) and self.expansion == "auto"

    # -- targets --------------------------------------------------------------------------------

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pairs are labelled by their y."
            )
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
            ensure_min_samples=1,
        )
        return X, plain_labels(y)

    def _meet_targets(self, y: Any, *, reset: bool) -> None:
        if not reset:
            self._take_labels(self._labels.meet(y))
            return
        announced, groups = self.__dict__.get("_announced"), self.__dict__.get("_groups")
        self._choose_parts(y, announced, groups is not None)
        if "_announced" not in self.__dict__:  # in `fit`: there are no more rows to come
            self._labels.check_several(y)

    def _take_labels(self, labels: PairLabels) -> None:
        self._labels = labels
        if labels.kind == "real":
            self.__dict__.pop("classes_", None)
        else:
            self.classes_ = labels.classes

    def _choose_parts(self, y: Any, announced: Any, grouped: bool) -> None:
        """Choose what was left open, from the first rows."""
        automatic = isinstance(self.buffer, str) and self.buffer == "auto"
        buffer = None if automatic else own_copy(as_buffer(self.buffer))
        per_class = None if buffer is None else buffer.per_class
        if buffer is None and grouped:
            per_class = False
        self._take_labels(PairLabels.first(y, self.pair_label, per_class, announced))
        if buffer is None:
            buffer = PerClassFIFO() if self._labels.kind == "two" and not grouped else FIFO()
            self._check_buffer(buffer)
        self.buffer_ = buffer
        self.loss_ = own_copy(as_loss(self.loss, "classification"))
        self._parts = {
            "pair_kernel": own_copy(as_pair_kernel(self.pair_kernel)),
            "pair_label": self.pair_label,
            "normalize": self._normalization(),
            "label_scale": label_scale(self.pair_label, self._labels.encode(y), self._labels.kind),
        }

    def _encode(self, y: Any, loss: Loss) -> Array:
        labels = self._labels.encode(y)
        return np.column_stack([labels, group_numbers(self.__dict__.get("_groups"), labels.size)])

    def _n_scores(self) -> int:
        return 1

    def _orders(
        self, y: Any, n_passes: int, generator: np.random.RandomState
    ) -> Iterator[NDArray[np.int64]]:
        groups = self.__dict__.get("_groups")
        if groups is None or not self.shuffle:
            return super()._orders(y, n_passes, generator)
        numbers = group_numbers(groups, len(y))
        return (group_order(numbers, generator) for _ in range(n_passes))

    # -- set-up ---------------------------------------------------------------------------------

    def _objective(self) -> Pairwise:
        return Pairwise(self.loss_, buffer=self.buffer_, **self._parts)

    def _automatic(self, kernel: Kernel, sample: Any) -> AutomaticStep:
        curvature = self._objective().curvature
        automatic = automatic_step(kernel, sample, 1.0 if curvature is None else curvature, 1.0)
        gram = np.asarray(kernel(sample[:_FEW]), dtype=np.float64)
        if kernel.bound is not None:
            nonnegative = bool((gram >= 0.0).all())
            bound = self._pair_kernel.bound(kernel.bound, nonnegative=nonnegative)
        else:  # points far from the origin, but near each other, may be pairs of small features
            bound = float(np.quantile(self._pair_kernel.of_gram(gram), _TYPICAL))
        self._pair_bound = bound or 1.0
        return automatic

    def _smoothness(self, automatic: AutomaticStep) -> float:
        constant = self.loss_.hoelder_constant
        if constant is None:
            constant = 1.0 if self.loss_.curvature is None else self.loss_.curvature
        # In units of k(x, x), as for other estimators.
        pairs = self._pair_bound / automatic.typical
        return float(constant) * float(self._parts["label_scale"]) ** 2 * pairs

    def _theory(self) -> Schedule:
        return Relative(PowerDecay(1.0, 5.0 / 6.0 if self.loss_.lipschitz is None else 0.8))

    def _auto(self, automatic: AutomaticStep) -> Any:
        if isinstance(self._chosen_expansion(), RandomFeatures) and self._pair_kernel.order == 1:
            return automatic
        pulls_back = float(self.loss_.derivative([1.0], [1e3])[0]) > 0.0
        return Relative(PowerDecay(1.0 if pulls_back else _AUTO))

    def _step(self, automatic: AutomaticStep) -> Any:
        step = super()._step(automatic)
        if isinstance(self.step_size, str) and isinstance(step, Relative):
            unbounded = self.loss_.lipschitz is None
            return CarefulSteps(step, automatic.typical, self._pair_kernel.order, unbounded)
        return step

    def _set_up(
        self,
        kernel: Kernel,
        automatic: AutomaticStep,
        expansion: Expansion,
        averaging: float | None,
        dtype: Any,
    ) -> None:
        # f has values of about 1 / label_scale on pairs whose features have this norm.
        norm = float(np.sqrt(self._pair_bound))
        if self._chooses_expansion() and isinstance(expansion, KOMP):
            unit = np.sqrt(2.0) / (norm * float(self._parts["label_scale"]))
            expansion = KOMP(tolerance=float(_TOLERANCE * unit), max_size=expansion.max_size)
        super()._set_up(kernel, automatic, expansion, averaging, dtype)
        self.learner_.objective.tolerance_scale = norm / float(np.sqrt(automatic.typical))

    def _start_function(
        self, expansion: Expansion, kernel: Kernel, dtype: Any, averaging: float | None
    ) -> Any:
        if self._pair_kernel.order == 1:
            return super()._start_function(expansion, kernel, dtype, averaging)
        return start_bilinear(expansion, kernel, self.n_features_in_, dtype)

    # -- state ----------------------------------------------------------------------------------

    def _targets_to_state(self) -> dict[str, Any]:
        return {
            "labels": self._labels.to_state(),
            "buffer": to_config(self.buffer_),
            "pair_bound": self._pair_bound,
            "parts": {name: to_config(part) for name, part in self._parts.items()},
        }

    def _targets_from_state(self, state: dict[str, Any]) -> None:
        self._take_labels(PairLabels.from_state(state["labels"]))
        self.buffer_ = from_config(state["buffer"])
        self._parts = {name: from_config(part) for name, part in state["parts"].items()}
        fits = (
            isinstance(self.buffer_, Buffer)
            and set(self._parts) == {"pair_kernel", "pair_label", "normalize", "label_scale"}
            and isinstance(self._parts["pair_kernel"], PairKernel)
            and isinstance(self.loss_, MarginLoss)
        )
        if not fits:
            raise ValueError("the parts of the pairs are of the wrong kind")
        self._pair_bound = check_real("pair_bound", state["pair_bound"], low=0.0, open_low=True)
        check_real("label_scale", self._parts["label_scale"], low=0.0, open_low=True)
