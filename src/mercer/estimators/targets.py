"""What a model knows of the targets that it learns, and what it minimises of them.

A record for each task: classes with their counts, numbers with their unit. Records never change:
rows that tell more make another one (``meet``), so that a call that fails leaves the old one. Only
the counts of single rows are kept up in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mercer.columns.readings import TargetForm
from mercer.columns.views import Levels, is_number, says_nothing, view_table
from mercer.columns.views import Numbers as NumberColumn
from mercer.component import from_config, to_config
from mercer.estimators.inputs import finite_or_where, warn_user
from mercer.estimators.kept_rows import KeptRows
from mercer.exceptions import Advice, NothingLearnedWarning, Setting, TargetScaleWarning
from mercer.expansions import Expansion
from mercer.kernels import Bias, Kernel, Partitioned, Polynomial, Product
from mercer.learning import AutomaticStep, NewOutputs, automatic_step, theorem_steps
from mercer.losses import Loss, Quantile, loss_and_slopes
from mercer.numerics.philox import row_uniforms
from mercer.objectives import Objective, make_objective
from mercer.records import Numbers as NumberField
from mercer.risks import Risk
from mercer.sums import labels_of_codes

Array = NDArray[np.float64]
_RowArrays = tuple[Any, Array, Array]

_RESERVOIR = 1000
# Factor of the automatic step for classification losses with bounded slopes; averaging takes the
# noise of such steps away again (docs/benchmarks.md, defaults).
_BOLDNESS = 4.0
# Mean of |y| to the standard deviation, for a centred normal target.
_MEAN_TO_DEVIATION = 1.2533
# In medians of |y|: what is further counts as no more.
_OUTLYING = 4.0
# Fewer rows say too little of a small unit: their targets may be small by chance.
_ENOUGH_ROWS = 10
# Of fewer rows each may be of a class of its own.
_MANY_ROWS = 20
# Targets beyond so many steps are out of reach.
_FAR = 100.0
# Without a bound of slopes or curvature the first steps fit targets of about 1.
_NEAR = 5.0
# Targets so many deviations from 0 are mostly offset.
_OFF_CENTRE = 5.0
_SCALE = "with `normalize_y=True`"


class Outputs(NamedTuple):
    """What a model answers, one output after the other.

    Attributes
    ----------
    labels : list
        Labels of the outputs; [None] for a single one.
    default : int, "predicted" or None
        The output that is meant if none is named: always the same, for each row that with the
        largest value; None if there is no such.
    quantity : str
        What the values are, in words: "prediction", "probability" or "score".
    """

    labels: list[Any]
    default: int | str | None
    quantity: str

    @classmethod
    def of_targets(cls, n: int) -> Self:
        """Return outputs of as many quantities: one, or several by their numbers."""
        return cls([None], 0, "prediction") if n == 1 else cls([*range(n)], None, "prediction")


class Targets(ABC):
    """What a model knows of its targets, and what it minimises of them; the base of the records.

    Attributes
    ----------
    loss : Loss or None
        Loss of a target; None for objectives that have none.
    n_scores : int
        Outputs of the function that predictions are made of.
    rows_per_sample : int
        Rows that the learner gets for each sample of the user's.
    visits : int
        How often a pass visits each row.
    bilinear : bool
        Whether the function is one of two points, bilinear in their features.
    """

    loss: Any
    n_scores: int = 1
    rows_per_sample: int = 1
    visits: int = 1
    bilinear: bool = False
    #: From scores to those that tell more than answers, which may be sure of themselves.
    contrasts: Callable[[Array], Array] | None = None

    @property
    def sample(self) -> KeptRows | None:
        """Rows of the stream, where some are kept with the targets."""
        return None

    @property
    def outputs(self) -> Outputs:
        """What is answered."""
        return Outputs([None], 0, "score")

    @abstractmethod
    def answers(self, scores: Array) -> Array:
        """Return what scores make the model say of rows, one column for each output."""

    @abstractmethod
    def objective(self, automatic: AutomaticStep | None) -> Objective:
        """Return what is minimised, as it is before the first row.

        Parameters
        ----------
        automatic : AutomaticStep or None
            Units of the function's values; None while they are being found out.
        """

    @abstractmethod
    def encode(self, y: Any, groups: Any = None) -> Array:
        """Return targets, and groups of rows if there are any, as the learner gets them."""

    @abstractmethod
    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        """Return what is known with its units, and the largest steps that are safe.

        Parameters
        ----------
        kernel : Kernel
            With its numbers resolved.
        sample : ndarray or CSR matrix of shape (n, n_features)
            Inputs that automatic choices look at.
        X, y : object
            All the first rows, and their targets.
        """

    @abstractmethod
    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        """Return what a step size that is a name stands for."""

    @abstractmethod
    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        """Step 1 / (L κ²) of relative schedules."""

    @abstractmethod
    def flatness(self, automatic: AutomaticStep) -> float:
        """How much less curved the objective is as far as the targets are."""

    @abstractmethod
    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        """Return rows of a stream as the learner gets them, and what is known after them."""

    @abstractmethod
    def loss_to_state(self) -> dict[str, Any]:
        """Return the loss as plain data, and what belongs to it."""

    @abstractmethod
    def to_state(self) -> dict[str, Any]:
        """As plain data, without the loss."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any], n_features: int) -> Self:
        """Inverse of :meth:`to_state`.

        Parameters
        ----------
        state : dict
            Of the whole model; :meth:`to_state` is its entry "targets".
        n_features : int
            Number of inputs.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """


class TaskTargets(Targets):
    """Targets of an objective of its own, with nothing that depends on their size."""

    def answers(self, scores: Array) -> Array:
        return scores[:, :1]

    def flatness(self, automatic: AutomaticStep) -> float:
        return 1.0

    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        return self, (X, targets, weights)

    def loss_to_state(self) -> dict[str, Any]:
        return {"loss": to_config(self.loss)}


def plain_order(n: int, generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
    """Order of a pass over ``n`` rows that have nothing to do with each other."""
    return generator.permutation(n) if shuffle else np.arange(n)


def usual_unit(automatic: AutomaticStep, flatness: float = 1.0) -> float:
    """Step 1 / (L κ²) for the curvature that automatic steps are made for."""
    return 1.0 / (automatic.curvature * flatness * automatic.typical)


@dataclass(frozen=True)
class LossTargets(Targets):
    """Targets of a loss, or of a risk of it.

    Attributes
    ----------
    loss : Loss
        Loss of a row.
    risk : Risk or None
        What is minimised of it; None for the mean.
    reservoir : KeptRows or None
        Rows with their targets to take partners from, for risks that ask for it.
    """

    loss: Loss
    risk: Risk | None
    reservoir: KeptRows | None = field(default=None, kw_only=True)

    @property
    def pairs(self) -> str:
        """Where a risk takes the partner of a row from: "tracked" (none), "stream", "reservoir"."""
        tracker = None if self.risk is None else self.risk.tracking
        return "tracked" if tracker is None else tracker.pairs

    @property
    def rows_per_sample(self) -> int:  # type: ignore[override]
        """A row from a reservoir has its partner after it."""
        return 2 if self.pairs == "reservoir" else 1

    @property
    def visits(self) -> int:  # type: ignore[override]
        """As a row, and as the partner of another."""
        return 1 if self.pairs == "tracked" else 2

    @property
    def intercept(self) -> Array:
        """What is added to each score that is learned."""
        return np.zeros(self.n_scores)

    @property
    def unit(self) -> Array:
        """By what each score is multiplied before."""
        return np.ones(self.n_scores)

    @abstractmethod
    def decode(self, targets: Array) -> NDArray[Any]:
        """Return labels, or numbers, of codes of classes, or numbers, that were learned."""

    @abstractmethod
    def known(self, y: Any) -> NDArray[Any]:
        """Check targets of rows that are not learned; ValueError if they are unlike the others."""

    @abstractmethod
    def numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return labels as their places, and numbers as they are."""

    @abstractmethod
    def of_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Inverse of :meth:`numbered`."""

    def objective(self, automatic: AutomaticStep | None) -> Objective:
        return make_objective(self.loss, self.risk)

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        objective = self.objective(None)
        bold = self.loss.task == "classification" and objective.lipschitz is not None
        curvature = 1.0 if objective.curvature is None else objective.curvature
        return self, automatic_step(kernel, sample, curvature, _BOLDNESS if bold else 1.0)

    def order(self, n: int, generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
        """Order of a pass over ``n`` rows: those of pairs come after one another."""
        order = plain_order(n, generator, shuffle)
        if self.pairs == "tracked":
            return order
        if self.pairs == "stream":
            partners = generator.permutation(n)
        else:  # one of the rows visited before
            earlier = np.maximum(np.arange(n), 1)
            partners = order[(generator.uniform(size=n) * earlier).astype(np.int64)]
        return np.column_stack([order, partners]).ravel()

    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        """See :class:`Targets`: from a reservoir each row has a partner after it."""
        if self.rows_per_sample == 1 or X.shape[0] == 0:
            return self, (X, targets, weights)
        n, d = X.shape
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        rows = np.hstack([dense, targets])
        kept = self.reservoir
        if kept is None or kept.rows.shape[1] != rows.shape[1]:
            # Targets of other classes, if there are any, are no longer of use.
            kept = KeptRows.none(rows.shape[1])
        if kept.keys.size:
            # Numbers that belong to the rows, so that it does not matter how a stream is cut.
            at = (row_uniforms(kept.n_seen, n) * kept.keys.size).astype(np.int64)
            partners, theirs = kept.rows[at], kept.weights[at]
        else:
            partners, theirs = np.roll(rows, 1, axis=0), np.roll(weights, 1)
        both = np.stack([rows, partners], axis=1).reshape(2 * n, -1)
        joined = np.ascontiguousarray(both[:, :d], dtype=dense.dtype)
        known = replace(self, reservoir=kept.extended(rows, weights, _RESERVOIR))
        return known, (joined, both[:, d:].copy(), np.column_stack([weights, theirs]).ravel())

    def loss_to_state(self) -> dict[str, Any]:
        kept = None if self.reservoir is None else self.reservoir.to_state()
        return {
            "loss": to_config(self.loss),
            "risk": to_config(self.risk),
            "reservoir": kept,
        }

    @classmethod
    def _loss_from_state(cls, state: dict[str, Any], task: str) -> dict[str, Any]:
        """Return the fields of this class."""
        risk, kept = from_config(state["risk"]), state["reservoir"]
        if risk is not None and not isinstance(risk, Risk):
            raise ValueError("the risk is of the wrong kind")
        if kept is not None:
            kept = KeptRows.from_state(kept, kept["rows"].shape[1], _RESERVOIR)
        return {"loss": loss_from_state(state, task), "risk": risk, "reservoir": kept}


# -- classes ---------------------------------------------------------------------------------------


class ClassAnswers(NamedTuple):
    """What a classifier says of rows.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
        Predicted classes.
    probability : ndarray of shape (n_rows, n_classes) or None
        Their probabilities, if its loss has any.
    scores : ndarray of shape (n_rows,) or None
        Scores for the last of two classes.
    """

    labels: NDArray[Any]
    probability: Array | None
    scores: Array | None


@dataclass(frozen=True)
class Classes(LossTargets):
    """Classes that were met, or named.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,)
        Their labels, sorted.
    counts : ndarray of shape (n_classes,)
        Rows of each so far.
    named : ndarray or None
        All classes that may come, if the user named them.
    """

    labels: NDArray[Any]
    counts: Array
    named: NDArray[Any] | None

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """Scores of the loss for so many classes."""
        return self.loss.n_scores(self.labels.size)

    def meet(self, y: NDArray[Any], named: NDArray[Any] | None) -> Self:
        """Return what is known after rows with labels ``y`` came, before they are counted.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Their labels.
        named : ndarray or None
            Classes that are named with these rows.

        Raises
        ------
        ValueError
            For labels that are none of the classes named.
        """
        all_named = self.named
        if named is not None:
            all_named = np.union1d(self.labels, named) if self.labels.size else named
        allowed = all_named if named is None else named
        if allowed is not None and not np.isin(y, allowed).all():
            extra = np.setdiff1d(y, allowed)
            raise ValueError(
                f"y has labels that are not in `classes`: {extra[:5].tolist()}. "
                + (
                    "Leave `classes` out to let new labels add classes."
                    if named is not None
                    else f"These were given as {allowed[:10].tolist()}; name new ones in `classes` "
                    "of the call that brings them, or start without `classes`."
                )
            )
        labels = np.unique(y) if named is None else np.union1d(named, np.unique(y))
        if self.labels.size and np.isin(labels, self.labels).all():
            return replace(self, named=all_named)
        if self.labels.size:
            labels = np.union1d(self.labels, labels)
        counts = np.zeros(labels.size)
        counts[np.searchsorted(labels, self.labels)] = self.counts
        # Targets of the reservoir are those of the old classes.
        return replace(self, labels=labels, counts=counts, named=all_named, reservoir=None)

    def outputs_after(self, old: Classes, automatic: AutomaticStep) -> NewOutputs:
        """Return what becomes of the outputs for the classes of before."""
        places = np.searchsorted(self.labels, old.labels)
        mixing = class_mixing(old.loss, self.loss, places, self.labels.size)
        objective = self.objective(automatic)
        whole = np.kron(np.eye(objective.copies), mixing)
        return NewOutputs(places, np.asarray(whole, dtype=np.float64), objective)

    def encode(self, y: Any, groups: Any = None) -> Array:
        return self.loss.encode(np.searchsorted(self.labels, y), self.labels.size)

    def decode(self, targets: Array) -> NDArray[Any]:
        labels: NDArray[Any] = self.labels[labels_of_codes(targets)]
        return labels

    @property
    def outputs(self) -> Outputs:
        """The classes: the second of two, of more for each row the one that is predicted."""
        labels = self.labels.tolist()
        default = "predicted" if len(labels) > 2 else len(labels) - 1
        return Outputs(labels, default, "probability" if self.loss.has_probabilities else "score")

    def predict(self, scores: Array) -> NDArray[Any]:
        """Return the labels of rows."""
        if self.labels.size == 1:
            return np.full(scores.shape[0], self.labels[0])
        return np.asarray(self.labels[self.loss.decide(scores)])

    def probabilities(self, scores: Array) -> Array:
        """Return the probabilities of all classes, of a loss that has some."""
        if self.labels.size == 1:
            return np.ones((scores.shape[0], 1))
        return self.loss.probabilities(scores)

    def decision(self, scores: Array) -> Array:
        """Return the scores of the classes; of two those of the second against the first."""
        if self.labels.size > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def said(self, scores: Array) -> ClassAnswers:
        """Return all that scores make a classifier say of rows."""
        n_classes = self.labels.size
        return ClassAnswers(
            self.predict(scores),
            self.probabilities(scores) if n_classes > 1 and self.loss.has_probabilities else None,
            self.decision(scores) if n_classes == 2 else None,
        )

    def answers(self, scores: Array) -> Array:
        """See :class:`Targets`: probabilities, or scores where the loss models none."""
        if self.loss.has_probabilities:
            return self.probabilities(scores)
        return self.contrasts(scores)

    def contrasts(self, scores: Array) -> Array:
        """See :class:`Targets`: log-odds."""
        if self.loss.has_probabilities and self.loss.multiclass:  # the others are log-odds
            scores = scores - scores.mean(axis=1, keepdims=True)
        scores = self.decision(scores)
        return scores if scores.ndim == 2 else np.column_stack([-scores, scores])

    def known(self, y: Any) -> NDArray[Any]:
        labels = check_labels(column_or_1d(plain_targets(y)))
        unknown = np.setdiff1d(labels, self.labels)
        if unknown.size:
            raise ValueError(
                f"y has labels that were not learned: {unknown[:5].tolist()}. Leave such rows out, "
                "or learn some of them."
            )
        return labels

    def numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        return np.searchsorted(self.labels, y)

    def of_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.labels[numbers])

    def counted(self, y: NDArray[Any]) -> Self:
        """Return the classes with these rows counted."""
        places = np.searchsorted(self.labels, y)
        totals = np.bincount(places, minlength=self.labels.size).astype(np.float64)
        return replace(self, counts=self.counts + totals)

    def with_counts(self, counts: Array) -> Self:
        """Return the classes with so many rows each, which were counted elsewhere."""
        return replace(self, counts=counts)

    def weights(self, y: NDArray[Any], sample_weight: Array, class_weight: Any) -> Array:
        """Weights of all rows, those of their classes included.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels of the rows, not counted yet.
        sample_weight : ndarray of shape (n,)
            Weights of the rows themselves.
        class_weight : dict, "balanced" or None
            Weights of the classes.
        """
        if class_weight is None:
            return sample_weight
        places, n_classes = np.searchsorted(self.labels, y), self.labels.size
        if isinstance(class_weight, dict):
            table = np.array([float(class_weight.get(c, 1.0)) for c in self.labels.tolist()])
            return np.asarray(sample_weight * table[places])
        totals = np.bincount(places, minlength=n_classes).astype(np.float64)
        return np.asarray(sample_weight * places.size / (n_classes * totals[places]))

    def weights_so_far(self, y: NDArray[Any], sample_weight: Array, class_weight: Any) -> Array:
        """Weights of some rows of a stream; balanced ones go by the rows up to each.

        Parameters
        ----------
        y, sample_weight, class_weight
            As in :meth:`weights`.
        """
        if not isinstance(class_weight, str):
            return self.weights(y, sample_weight, class_weight)
        # Row by row, so that it does not matter how the stream is cut; each class starts at 1, or
        # the first row of a rare class would weigh as much as all before it.
        places, before = np.searchsorted(self.labels, y), self.counts
        n_classes = max(self.labels.size, 2)  # the other one is only late
        seen = n_classes + before.sum() + np.arange(1, places.size + 1)
        own = 1.0 + before[places] + count_so_far(places)
        return np.asarray(sample_weight * seen / (n_classes * own))

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        if name == "auto":
            return automatic
        return theorem_steps(self.loss).resolved(self.unit_of_steps(automatic))

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        """See :class:`Targets`: in units of the theorem's constant, where it covers the loss."""
        constant = self.loss.hoelder_constant
        if constant is None or self.risk is not None:
            return usual_unit(automatic)
        return 1.0 / (constant * automatic.typical)

    def flatness(self, automatic: AutomaticStep) -> float:
        """See :class:`Targets`: margins have a unit of their own."""
        return 1.0

    def to_state(self) -> dict[str, Any]:
        return {
            "classes": labels_to_state(self.labels),
            "counts": self.counts,
            "announced": None if self.named is None else labels_to_state(self.named),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], n_features: int) -> Self:
        targets = state["targets"]
        labels = labels_from_state(targets["classes"])
        counts = np.array(targets["counts"], dtype=np.float64)
        if counts.shape != labels.shape or (counts < 0).any():
            raise ValueError("the class counts do not match the classes")
        named = targets["announced"]
        named = None if named is None else labels_from_state(named)
        loss = cls._loss_from_state(state, "classification")
        return cls(labels=labels, counts=counts, named=named, **loss)


def class_mixing(old_loss: Loss, new_loss: Loss, places: NDArray[np.intp], n_classes: int) -> Array:
    """Return the matrix that turns the scores of the old classes into scores of all classes.

    Parameters
    ----------
    old_loss, new_loss : Loss
        Before and after.
    places : ndarray of shape (n_old,)
        Where the old classes are among all.
    n_classes : int
        Number of all classes.

    Returns
    -------
    mixing : ndarray of shape (n_old_scores, n_new_scores)

    Examples
    --------
    >>> from mercer.losses import Logistic, Softmax
    >>> class_mixing(Logistic(), Softmax(), np.array([0, 2]), 3)
    array([[-0.5,  0. ,  0.5]])
    """
    n_old = places.size
    new = np.setdiff1d(np.arange(n_classes), places)
    mixing = np.zeros((old_loss.n_scores(n_old), new_loss.n_scores(n_classes)))
    if old_loss.n_scores(n_old) == n_old and not (n_old == 1 and not old_loss.multiclass):
        mixing[np.arange(n_old), places] = 1.0
        if not old_loss.multiclass:
            # One against the rest, all may be negative: 0 would beat them, their mean does not.
            mixing[:, new] = 1.0 / n_old
        return mixing
    # One score speaks for the second class and against the first; a lone class is a first.
    if mixing.shape[1] == 1:
        mixing[0, 0] = 1.0 if places[0] == 0 else -1.0
        return mixing
    # softmax of (-f/2, f/2) is the logistic of f.
    half = 0.5 if new_loss.multiclass else 1.0
    mixing[0, places[0]] = -half
    if n_old == 2:
        mixing[0, places[1]] = half
    return mixing


def check_labels(labels: Any, name: str = "y") -> NDArray[Any]:
    """Return labels as an array, or say that they are quantities.

    Raises
    ------
    ValueError
        For numbers that are not whole, and for what is neither number, text nor boolean.
    """
    array = np.asarray(plain_targets(labels, name=name))
    try:
        check_classification_targets(array)
    except ValueError as error:
        what, _, _ = str(error).partition(". Maybe")
        if not what.startswith("Unknown label type") or not array.size:
            raise
        raise ValueError(
            f"{what}. {name} holds {array.ravel()[:1].tolist()[0]!r}, for example: a classifier "
            "needs classes, which are whole numbers, text or booleans. For quantities use "
            "KernelRegressor; else turn them into classes."
        ) from None
    return array


def plain_targets(y: Any, *, name: str = "y", quantities: bool = False) -> Any:
    """Return targets in NumPy's types if they are objects, or of pandas, polars or Arrow.

    Whole numbers stay whole, and labels must be of one kind: NumPy would make text of numbers among
    text, and numbers of truth values among numbers, without a word.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        As the user gave them; what needs no care is returned itself.
    name : str, default="y"
        What messages call them.
    quantities : bool, default=False
        Whether they are numbers to predict, not labels.

    Raises
    ------
    ValueError
        If some are missing or dates, or labels are of several kinds or of one that is no label.

    Examples
    --------
    >>> plain_targets(np.array([2, 1], dtype=object)), plain_targets(["a", "b"])
    (array([2, 1]), ['a', 'b'])
    """
    cells = _as_cells(y, quantities)
    dtype = getattr(cells, "dtype", None)
    if dtype is None or not hasattr(cells, "ravel"):
        return y
    flat = cells.ravel().tolist() if dtype.kind in "OS" else []
    moments = quantities and any(isinstance(cell, date | time | timedelta) for cell in flat)
    if dtype.kind in "mM" or moments:
        raise ValueError(
            f"{name} holds dates or durations, which an array of targets cannot: errors and losses "
            "need a unit. Convert them to numbers, such as days since a first one, or to text to "
            "learn them as classes. A regressor learns one column of dates, and answers dates."
        )
    labels = cells if cells.ndim == 1 else y
    if dtype.kind != "O" and (dtype.kind != "S" or quantities):
        return labels
    width = max(1, len(flat) // max(1, len(cells)))
    nothing = [place for place, cell in enumerate(flat) if says_nothing(cell)]
    if nothing:
        n_rows = len({place // width for place in nothing})
        column = f", column {nothing[0] % width}" if width > 1 else ""
        raise ValueError(
            f"Input {name} contains NaN, or nothing, in {n_rows:,} of {len(cells):,} rows, "
            f"first in row {nothing[0] // width}{column}. There is nothing to learn from such "
            "rows: remove them, or fill in the target."
        )
    if quantities:
        return labels
    _check_kinds(flat, name)
    if not flat or isinstance(flat[0], str):
        return labels
    return np.array(flat).reshape(cells.shape)


def form_of(y: Any) -> TargetForm | None:
    """Find out how quantities to learn are written; None for numbers, and for several targets.

    Text that is all digits is numbers, as NumPy takes it.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        As the user gave them.

    Examples
    --------
    >>> form_of(["2024-01-31", "2024-02-01"]).said, form_of([1.5, 2.0])
    ('dates written ymd, with errors in days', None)
    """
    column = _column_of(y)
    if column is None or (isinstance(column, Levels) and all(map(is_number, column.levels))):
        return None
    return TargetForm.of("y", column)


def quantities_of(form: TargetForm, y: Any) -> Array:
    """Return quantities as numbers; ValueError if one is not written as the first ones were."""
    column = _column_of(y)
    if column is None:
        column = view_table({"y": column_or_1d(np.asarray(y))}).column("y")
    missing = column.codes < 0 if isinstance(column, Levels) else np.isnan(column.values)
    if missing.any():
        raise ValueError(
            f"Input y contains NaN, or nothing, in {int(missing.sum()):,} of {len(missing):,} "
            f"rows, first in row {int(np.argmax(missing))}. There is nothing to learn from such "
            "rows: remove them, or fill in the target."
        )
    return form.quantities(column, "y")


def _column_of(y: Any) -> NumberColumn | Levels | None:
    """Return targets as a column of a table, if they may be dates or numbers with units."""
    cells = _as_cells(y, True)
    kind = getattr(getattr(cells, "dtype", None), "kind", "-")
    if isinstance(cells, list | tuple) or kind in "USOM":
        if np.ndim(cells) == 2 and np.shape(cells)[1] == 1:
            cells = np.ravel(cells)
        first = next((one for one in cells if not says_nothing(one)), None)
        if not isinstance(first, str | date | time | np.datetime64):
            return None
        texts = isinstance(cells, list | tuple) and {type(one) for one in cells} <= {str}
        cells = np.asarray(cells) if texts else cells
        return None if np.ndim(cells) != 1 else view_table({"y": cells}).column("y")
    return None


_KINDS: dict[str, tuple[type, ...]] = {
    "truth values": (bool, np.bool_),  # which are numbers, too
    "numbers": (int, float, np.integer, np.floating),
    "text": (str,),
}


def _kind(cell: type) -> str:
    """Name what cells of a type are, as labels."""
    return next((kind for kind, of in _KINDS.items() if issubclass(cell, of)), cell.__name__)


def _as_cells(y: Any, quantities: bool) -> Any:
    """Return targets as an array if they have one, or if NumPy would make them alike."""
    if hasattr(y, "to_numpy"):
        arrow = type(y).__module__.partition(".")[0] == "pyarrow"
        return y.to_numpy(zero_copy_only=False) if arrow else y.to_numpy()
    if not isinstance(y, list | tuple):
        return y
    kinds = {_kind(one) for one in set(map(type, y))}
    if kinds <= {"list", "ndarray"} or (kinds <= {*_KINDS, "tuple"} and quantities):
        return y
    if len(kinds) == 1 and kinds <= _KINDS.keys():
        return y
    cells = np.empty(len(y), dtype=object)
    for row, cell in enumerate(y):
        cells[row] = cell
    return cells


def _check_kinds(labels: Sequence[Any], name: str) -> None:
    """Raise ``ValueError`` unless labels are all text, all numbers or all truth values."""
    of_type = {one: _kind(one) for one in set(map(type, labels))}
    kinds = sorted(set(of_type.values()))
    if len(kinds) <= 1 and set(kinds) <= _KINDS.keys():
        return
    found = [of_type[type(label)] for label in labels]
    said = []
    for kind in kinds:
        row = found.index(kind)
        first = getattr(labels[row], "item", lambda row=row: labels[row])()
        said.append(f"{kind} in {found.count(kind):,} of {len(found):,} rows, first {first!r} in "
                    f"row {row}")  # fmt: skip
    what = (
        "mixes kinds of labels"
        if set(kinds) <= _KINDS.keys()
        else "holds labels that are neither whole numbers, text nor truth values"
    )
    text = "label.decode()" if kinds == ["bytes"] else "str(label)"
    raise ValueError(
        f"{name} {what}: {'; '.join(said)}. Make text of all of them, for example by "
        f"`[{text} for label in y]`, or correct those rows."
    )


def check_repeated(labels: NDArray[Any]) -> None:
    """Raise ``ValueError`` if each of many rows is of a class of its own.

    Examples
    --------
    >>> check_repeated(np.arange(5)), check_repeated(np.arange(100) // 2)
    (None, None)
    """
    n = labels.size
    if n >= _MANY_ROWS and (some := np.unique(labels)).size == n:
        raise ValueError(
            f"y has {n:,} different labels in {n:,} rows, such as {some.tolist()[0]!r} and "
            f"{some.tolist()[1]!r}: no two rows are of one class, as with names or numbers of "
            "rows, so there is nothing to learn. Give classes; for quantities use KernelRegressor."
        )


def check_same_type(labels: NDArray[Any], known: NDArray[Any], name: str, *, of: str = "y") -> None:
    """Raise ``ValueError`` if one is text and the other numbers: NumPy would compare '1' with 1."""
    kinds = {labels.dtype.kind, known.dtype.kind}
    if kinds & {"U", "S"} and kinds & {"b", "i", "u", "f"}:
        raise ValueError(
            f"{of} has labels such as {labels.tolist()[:1]}, of another type than {name} "
            f"({known[:3].tolist()}): text and numbers cannot be mixed. Convert the labels."
        )


def check_class_weight(weights: dict[Any, Any], classes: NDArray[Any], *, complete: bool) -> None:
    """Raise ``ValueError`` if some weights are of labels that there are none of.

    Parameters
    ----------
    weights : dict from label to weight
        As the user gave them.
    classes : ndarray of shape (n_classes,)
        Labels known so far.
    complete : bool
        Whether these are all. As in scikit-learn, labels without rows are no error then if each
        class has its weight: the rows may be a part of the data.
    """
    for label in weights:
        check_same_type(np.asarray([label]), classes, "those of the rows", of="`class_weight`")
    known = set(classes.tolist())
    unknown = [label for label in weights if label not in known]
    without = [label for label in classes.tolist() if label not in weights]
    if complete and unknown and without:
        raise ValueError(
            f"`class_weight` has weights for {unknown[:5]!r}, which are no classes of y, and none "
            f"for {without[:5]!r}, which are. Its keys must be the labels themselves."
        )


def count_so_far(positions: NDArray[np.intp]) -> Array:
    """How often each row's class has occurred up to and with that row.

    Examples
    --------
    >>> count_so_far(np.array([1, 0, 1, 1]))
    array([1., 1., 2., 3.])
    """
    order = np.argsort(positions, kind="stable")
    ordered = positions[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, ordered.size])
    counts = np.empty(positions.size)
    counts[order] = np.arange(1, positions.size + 1) - np.repeat(starts, lengths)
    return counts


def labels_to_state(labels: NDArray[Any]) -> dict[str, Any]:
    """Class labels as plain data.

    Raises
    ------
    ValueError
        For labels other than numbers, text and booleans.
    """
    values = labels.tolist()
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise ValueError(
            f"Class labels must be numbers, text or booleans to be stored, got {values[:3]!r}."
        )
    return {"dtype": labels.dtype.str, "values": values}


def labels_from_state(state: dict[str, Any]) -> NDArray[Any]:
    """Inverse of :func:`labels_to_state`."""
    kind = np.dtype(str(state["dtype"]))
    if kind.kind not in "biufUO" or not isinstance(state["values"], list):
        raise ValueError("the class labels are of the wrong kind")
    labels = np.array(state["values"], dtype=kind)
    if labels.ndim != 1 or labels.size == 0 or not np.array_equal(np.unique(labels), labels):
        raise ValueError("the class labels are not distinct and sorted")
    return labels


def loss_from_state(state: dict[str, Any], task: str) -> Loss:
    """Loss of a model that is rebuilt.

    Raises
    ------
    ValueError
        If it is none of the task.
    """
    loss = from_config(state["loss"])
    if not isinstance(loss, Loss) or loss.task != task:
        raise ValueError("the loss is of the wrong kind")
    return loss


def check_no_loss(state: dict[str, Any]) -> None:
    """Raise ``ValueError`` if a model that is rebuilt has a loss, though its task has none."""
    if state["loss"] is not None:
        raise ValueError("the model has a loss, but there is none in its objective")


# -- numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers(LossTargets):
    """Targets of a regression.

    Attributes
    ----------
    n_targets : int
        How many there are.
    flat : bool
        Whether they came as a vector.
    centre : ndarray of shape (n_targets,) or None
        What is learned are the differences from it; None for 0.
    scale : ndarray of shape (n_targets,) or None
        The unit in which these are learned; None for 1.
    """

    n_targets: int
    flat: bool
    centre: Array | None = field(default=None, kw_only=True)
    scale: Array | None = field(default=None, kw_only=True)

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """Scores of the loss for so many targets."""
        return self.loss.n_scores(self.n_targets)

    def meet(self, y: Array) -> Self:
        """Return the same after more rows.

        Raises
        ------
        ValueError
            If these have another number of targets.
        """
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if n_targets != self.n_targets:
            raise ValueError(
                f"y has {n_targets} targets, but the model was started with {self.n_targets}."
            )
        return self

    def encode(self, y: Any, groups: Any = None) -> Array:
        return self.loss.encode(self.in_units(y), self.n_targets)

    def decode(self, targets: Array) -> Array:
        y: Array = targets if self.scale is None else targets * self.scale
        y = y if self.centre is None else y + self.centre
        return y[:, 0] if self.flat else y

    def in_units(self, y: Any) -> Array:
        """Targets as they are learned: less their centre, in their unit, shape (n, n_targets)."""
        rows: Array = y.reshape(-1, self.n_targets)
        rows = rows if self.centre is None else rows - self.centre
        return rows if self.scale is None else rows / self.scale

    def known(self, y: Any) -> Array:
        y = plain_targets(y, quantities=True)
        found: Array = finite_or_where(
            lambda: check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"), None, y
        )
        self.meet(found)
        return found.reshape(len(found), -1)

    def numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        return y

    def of_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        return numbers

    @property
    def levels(self) -> list[float]:
        """Levels of quantiles that are learned; none of other losses."""
        loss = self.loss
        if not isinstance(loss, Quantile):
            return []
        levels: list[float] = np.atleast_1d(np.asarray(loss.levels, dtype=float)).tolist()
        return levels

    @property
    def outputs(self) -> Outputs:
        """Quantile levels, of which the middle one is meant, or numbers of targets."""
        n, levels = self.n_targets, self.levels
        if n == 1 and len(levels) > 1:
            middle = int(np.argmin(np.abs(np.asarray(levels) - 0.5)))
            return Outputs(levels, middle, "prediction")
        if len(levels) < 2:
            return Outputs.of_targets(n)
        both = [(target, level) for target in range(n) for level in levels]
        return Outputs(both, None, "prediction")

    def predict(self, scores: Array) -> Array:
        """Return the predictions of rows, like the targets that were learned."""
        values = self.loss.predict(scores)
        if self.scale is not None:
            values = values * self.unit
        if self.centre is not None:
            values = values + self.intercept
        return values[:, 0] if self.flat and values.shape[1] == 1 else values

    def answers(self, scores: Array) -> Array:
        return self.predict(scores).reshape(len(scores), -1)

    @property
    def intercept(self) -> Array:
        """The centre, for each score; several levels of a target have the same."""
        return np.zeros(self.n_scores) if self.centre is None else self._of_scores(self.centre)

    @property
    def unit(self) -> Array:
        """The unit of the targets, for each score."""
        return np.ones(self.n_scores) if self.scale is None else self._of_scores(self.scale)

    def _of_scores(self, numbers: Array) -> Array:
        """Return numbers of the targets for each of their scores."""
        return np.repeat(numbers, self.n_scores // self.n_targets)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        return automatic

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        return usual_unit(automatic, self.flatness(automatic))

    def flatness(self, automatic: AutomaticStep) -> float:
        in_units = self.risk is None or self.centre is not None
        if not in_units or self.loss.lipschitz is None:
            return 1.0
        return (self.objective(None).curvature or 1.0) / automatic.curvature

    def to_state(self) -> dict[str, Any]:
        units = {"centre": self.centre, "scale": self.scale}
        known = {name: value for name, value in units.items() if value is not None}
        return {"n_targets": self.n_targets, "flat": self.flat, **known}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_features: int) -> Self:
        targets = state["targets"]
        n_targets, flat = int(targets["n_targets"]), bool(targets["flat"])
        units: dict[str, Any] = {}
        for name, above in (("centre", -np.inf), ("scale", 0.0)):
            if name in targets:
                units[name] = NumberField(n_targets, above=above).read(name, targets[name], {})
        loss = cls._loss_from_state(state, "regression")
        return cls(n_targets=n_targets, flat=flat, **units, **loss)


def target_unit(y: Any) -> float:
    """Usual size of the targets, as a power of two; 1 if there is none.

    A mean in which outliers count little, as they do for losses with bounded slopes. A power of
    two, so that other units of the target change no digit, and standardised targets nothing.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows. Of several targets the largest counts.

    Returns
    -------
    unit : float
        Of fewer than 10 rows at least 1.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(size=100)
    >>> target_unit(y), target_unit(2e5 * y), target_unit(np.zeros(100))
    (1.0, 262144.0, 1.0)
    """
    size = float(_sizes(y).max(initial=0.0))
    if not 0.0 < size < np.inf:
        return 1.0
    unit = float(2.0 ** np.clip(np.round(np.log2(size)), -300, 300))
    return unit if len(y) >= _ENOUGH_ROWS else max(unit, 1.0)


def _sizes(y: Any) -> Array:
    """Usual size of each target."""
    sizes = np.abs(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
    middle = np.median(sizes, axis=0)
    usual = np.minimum(sizes, np.where(middle > 0.0, _OUTLYING * middle, np.inf))
    return np.asarray(_MEAN_TO_DEVIATION * usual.mean(axis=0))


def curvature_at(loss: Loss, curvature: float, unit: float) -> float:
    r"""Curvature of a loss with bounded slopes, seen from as far as the targets are.

    With slopes up to L and targets y = s z the loss of f = s g is as one with slopes up to L s and
    curvature L s in g, so L / s in f. Steps that are the inverse of it, and a ridge in proportion
    to it, make of s y the function s f.

    Parameters
    ----------
    loss : Loss
        For regression.
    curvature : float
        Of the loss, or 1 where it has no bound.
    unit : float
        s, :func:`target_unit`.

    Returns
    -------
    curvature : float
        The given one if slopes have no bound, or the loss is curved as far as the targets reach.

    Examples
    --------
    >>> from mercer.losses import AbsoluteError, Huber, Squared
    >>> [curvature_at(loss, 1.0, 4.0) for loss in (AbsoluteError(), Huber(1.0), Squared())]
    [0.25, 0.25, 1.0]
    >>> curvature_at(AbsoluteError(), 1.0, 0.125), curvature_at(Huber(1.0), 1.0, 0.125)
    (8.0, 1.0)
    """
    if loss.lipschitz is None:
        return curvature
    if loss.curvature is None:
        return curvature / unit
    return min(curvature, loss.lipschitz / unit)


def warn_of_targets(
    loss: Loss,
    kernel: Kernel,
    y: Any,
    targets: Array,
    reach: Callable[[], float] | None,
    *,
    solves: bool,
) -> None:
    """Warn of targets whose unit or origin does not suit what is to learn them.

    Parameters
    ----------
    loss : Loss
        For regression.
    kernel : Kernel
        Of the functions.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows; fewer than 10 say too little.
    targets : ndarray
        The same, encoded.
    reach : callable or None
        Says how long the first step is, if steps are made regardless of the targets.
    solves : bool
        Whether learning begins with a regression that is solved for, for which neither unit nor
        origin matters.

    Warns
    -----
    mercer.exceptions.TargetScaleWarning
        If the targets are out of reach, or have units too different for steps of one length.
    mercer.exceptions.NothingLearnedWarning
        If f = 0 is good enough for the loss.
    """
    sizes = _sizes(y)
    if len(y) < _ENOUGH_ROWS or not (sizes.any() and np.isfinite(sizes).all()):
        return
    slopes = loss_and_slopes(loss, np.zeros((len(y), loss.n_scores(sizes.size))), targets)[1]
    if not slopes.any():
        warn_user(
            f"No target is as far from 0 as {loss!r} begins to count, the largest being "
            f"{float(np.abs(y).max()):.3g}: f = 0 is a solution and nothing is learned. Choose "
            f"another parameter of the loss, or scale the target, {_SCALE} unless it is so.",
            NothingLearnedWarning,
        )
        return
    units = _words_of_units(loss, sizes)
    if solves:
        words = units
    else:
        words = _words(loss, sizes, reach) or units or _words_of_origin(loss, kernel, y)
    if words:
        warn_user(words, TargetScaleWarning)


def _words(loss: Loss, sizes: Array, reach: Callable[[], float] | None) -> str:
    """Say what is wrong with the units, if anything is."""
    largest, smallest = float(sizes.max()), float(sizes[sizes > 0.0].min())
    slope = loss.lipschitz
    if slope is None:
        usual = largest if largest > _NEAR else smallest
        if loss.curvature is not None or 1.0 / _NEAR <= usual <= _NEAR:
            return ""
        return (
            f"The targets are about {usual:.3g}, but steps on {loss!r}, whose slopes and curvature "
            "have no bound, suit targets of about 1: the model may be far from what the loss can "
            f"give. Divide the target by its scale, for example with "
            "sklearn.compose.TransformedTargetRegressor(model, "
            "transformer=StandardScaler(with_mean=False))."
        )
    if reach is not None and largest > _FAR * slope:
        first = reach()
        if largest > _FAR * slope * max(first, 1.0):
            return Advice(
                f"The targets are about {largest:.3g}, but the slopes of {loss!r} are at most "
                f"{slope:.3g} and the first step is {first:.3g}: the model may never get there. "
                f"Scale the target, {_SCALE}. (Without a risk ",
                Setting("step_size", "auto"),
                " takes steps in units of the target.)",
            )
    return ""


def _words_of_units(loss: Loss, sizes: Array) -> str:
    """Say that targets are in very different units, if they are and steps have one length."""
    largest, smallest = float(sizes.max()), float(sizes[sizes > 0.0].min())
    if loss.lipschitz is not None and largest > _FAR * smallest:
        return (
            f"The targets are of very different sizes, from {smallest:.3g} to {largest:.3g}, but "
            f"steps on {loss!r} are of one length for all: the smaller ones are learned badly. "
            f"Scale them, {_SCALE}, or learn them one by one."
        )
    return ""


def _words_of_origin(loss: Loss, kernel: Kernel, y: Any) -> str:
    """Say that the targets are far from 0, if they are and the kernel has no constant term."""
    if loss.lipschitz is None and loss.curvature is None:
        return ""  # not of the scores themselves, but of a link
    if _has_bias(kernel):
        return ""
    rows = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    # No median: targets may be all but constant in a large part of the rows.
    middle, spread = rows.mean(axis=0), rows.std(axis=0)
    far = (spread > 0.0) & (np.abs(middle) > _OFF_CENTRE * spread)
    if not far.any():
        return ""
    at = int(np.argmax(far))
    return (
        f"The targets are about {middle[at]:.4g} with a deviation of {spread[at]:.3g}, but steps "
        f"begin at f = 0 and a {type(kernel).__name__} kernel learns an offset slowly, if at all: "
        f"most of what is learned would be the offset. Centre the target, {_SCALE}, or "
        "add a Bias() to the kernel."
    )


def _has_bias(kernel: Kernel) -> bool:
    """Whether a term of a kernel is constant, whatever its factor and the map before it."""
    match kernel:
        case Bias():
            return True
        case Polynomial(degree=1, offset=constant) | Partitioned(constant=constant):
            return float(constant) > 0.0
        case Product():
            return False
    parts = kernel.get_params(deep=False).values()
    return any(_has_bias(part) for part in parts if isinstance(part, Kernel))
