"""What a model knows about its targets, and which objective it minimises.

One record per task: classes with their counts, or numbers with their unit. Records are immutable:
``meet`` returns a new record for new rows, so a failed call leaves the old one intact. Only the
class counts of single rows are updated in place.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
from mercer.estimators.inputs import check_weights, finite_or_where, warn_user
from mercer.estimators.kept_rows import KeptRows
from mercer.exceptions import Advice, NothingLearnedWarning, Setting, TargetScaleWarning
from mercer.expansions import Expansion
from mercer.kernels import Bias, Kernel, Partitioned, Polynomial, Product
from mercer.learning import AutomaticStep, NewOutputs, automatic_step, theorem_steps
from mercer.losses import Loss, Quantile, loss_and_slopes
from mercer.numerics.philox import row_uniforms
from mercer.objectives import Objective, make_objective
from mercer.records import Config, Field, IfAny, Maybe, Part, Record, Recorded, Several, Sizes, fit
from mercer.records import Numbers as NumberField
from mercer.risks import Risk
from mercer.sums import labels_of_codes
from mercer.validation import integer, text, truth

Array = NDArray[np.float64]
_RowArrays = tuple[Any, Array, Array]

_RESERVOIR = 1000
# Factor on the automatic step for classification losses with bounded slopes. Averaging removes the
# noise that such long steps add (docs/benchmarks.md, defaults).
_BOLDNESS = 4.0
# Ratio of the standard deviation to the mean of |y| for a centred normal target.
_MEAN_TO_DEVIATION = 1.2533
# Sizes |y| are clipped at this many medians of |y|.
_OUTLYING = 4.0
# With fewer rows the targets may be small by chance, so a small unit is not trusted.
_ENOUGH_ROWS = 10
# With fewer rows, a different class in each row is not an error.
_MANY_ROWS = 20
# Targets farther away than this many first steps count as out of reach.
_FAR = 100.0
# Where neither slopes nor curvature are bounded, steps suit targets within this factor of 1.
_NEAR = 5.0
# If the mean exceeds this many standard deviations, the target is mostly offset.
_OFF_CENTRE = 5.0
_SCALE = "with `normalize_y=True`"
# How labels are stored: of a dtype of booleans, numbers, text or objects.
_DTYPE = re.compile("[<>|=]?(b1|[iu][1248]|f[248]|U[0-9]{1,6}|O)")
_LABELS = Record(dtype=text(), values=Several(lambda name, value: _label(value), kind=list))


class Outputs(NamedTuple):
    """Outputs of a model: their labels, and what the values are.

    Attributes
    ----------
    labels : list
        Label of each output; [None] for a single output.
    default : int, "predicted" or None
        Output meant if the caller names none: a fixed index, "predicted" for the output with the
        largest value in each row, or None if there is no natural choice.
    quantity : str
        What the values are, in words: "prediction", "probability" or "score".
    """

    labels: list[Any]
    default: int | str | None
    quantity: str

    @classmethod
    def of_targets(cls, n: int) -> Self:
        """Return the outputs for ``n`` quantities: one unnamed output, or ``n`` numbered ones."""
        return cls([None], 0, "prediction") if n == 1 else cls([*range(n)], None, "prediction")


class Targets(Recorded, ABC):
    """What a model knows about its targets, and which objective it minimises; base class.

    Attributes
    ----------
    loss : Loss or None
        Loss of a target; None for objectives without a loss.
    n_scores : int
        Number of the function's outputs from which predictions are made.
    rows_per_sample : int
        Rows that the learner receives for each sample of the user.
    visits : int
        How often one pass visits each row.
    bilinear : bool
        Whether the function takes two points and is bilinear in their features.
    """

    loss: Any
    n_scores: int = 1
    rows_per_sample: int = 1
    visits: int = 1
    bilinear: bool = False
    #: Maps scores to values that, unlike probabilities, do not saturate (log-odds); may be None.
    contrasts: Callable[[Array], Array] | None = None

    @property
    def sample(self) -> KeptRows | None:
        """Sample of the stream's rows, for tasks that keep rows with their targets; else None."""
        return None

    @property
    def outputs(self) -> Outputs:
        """Description of the model's outputs."""
        return Outputs([None], 0, "score")

    @abstractmethod
    def answers(self, scores: Array) -> Array:
        """Convert scores to the model's answers, one column for each output."""

    @abstractmethod
    def objective(self, automatic: AutomaticStep | None) -> Objective:
        """Return the objective to minimise, as it is before the first row.

        Parameters
        ----------
        automatic : AutomaticStep or None
            Carries the unit of the function's values; None while that unit is being determined.
        """

    @abstractmethod
    def encode(self, y: Any, groups: Any = None) -> Array:
        """Return the targets, and the groups of rows if any, in the form the learner expects."""

    @abstractmethod
    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        """Return this record with its units set, and the largest safe steps.

        Parameters
        ----------
        kernel : Kernel
            Kernel with its numbers resolved.
        sample : ndarray or CSR matrix of shape (n, n_features)
            Inputs that automatic choices use.
        X, y : object
            All first rows, and their targets.
        """

    @abstractmethod
    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        """Return the step sizes that a named ``step_size`` stands for."""

    @abstractmethod
    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        """Return the step 1 / (L κ²), the unit of relative schedules."""

    @abstractmethod
    def flatness(self, automatic: AutomaticStep) -> float:
        """Return the curvature near 0 divided by the curvature at the distance of the targets."""

    @abstractmethod
    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        """Return the new record, and a stream's rows with partners as the learner expects them."""


class TaskTargets(Targets):
    """Targets of an objective without a loss, in which the size of the targets does not matter."""

    def answers(self, scores: Array) -> Array:
        return scores[:, :1]

    def flatness(self, automatic: AutomaticStep) -> float:
        return 1.0

    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        return self, (X, targets, weights)


def plain_order(n: int, generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
    """Return the order of a pass over ``n`` unrelated rows."""
    return generator.permutation(n) if shuffle else np.arange(n)


def usual_unit(automatic: AutomaticStep, flatness: float = 1.0) -> float:
    """Return the step 1 / (L κ²), with L the curvature for which automatic steps are made."""
    return 1.0 / (automatic.curvature * flatness * automatic.typical)


@dataclass(frozen=True)
class LossTargets(Targets):
    """Targets of a loss, or of a risk of that loss.

    Attributes
    ----------
    loss : Loss
        Loss of one row.
    risk : Risk or None
        Risk of the loss to minimise; None for the mean.
    reservoir : KeptRows or None
        Kept rows with targets, from which risks with ``pairs="reservoir"`` draw partners.
    """

    loss: Loss
    risk: Risk | None
    reservoir: KeptRows | None = field(default=None, kw_only=True)

    @property
    def pairs(self) -> str:
        """Source of a row's partner in a risk: "tracked" (no partner), "stream" or "reservoir"."""
        tracker = None if self.risk is None else self.risk.tracking
        return "tracked" if tracker is None else tracker.pairs

    @property
    def rows_per_sample(self) -> int:  # type: ignore[override]
        """2 with a reservoir, where each row is followed by its partner; else 1."""
        return 2 if self.pairs == "reservoir" else 1

    @property
    def visits(self) -> int:  # type: ignore[override]
        """2 with partners: each row is visited itself, and once as the partner of another row."""
        return 1 if self.pairs == "tracked" else 2

    @property
    def intercept(self) -> Array:
        """Constant that is added to each score, after multiplying by :attr:`unit`."""
        return np.zeros(self.n_scores)

    @property
    def unit(self) -> Array:
        """Factor by which each learned score is multiplied."""
        return np.ones(self.n_scores)

    @abstractmethod
    def decode(self, targets: Array) -> NDArray[Any]:
        """Inverse of :meth:`encode`: return the labels, or numbers, of encoded targets."""

    @abstractmethod
    def known(self, y: Any) -> NDArray[Any]:
        """Check targets of rows that are not learned; ValueError for new classes or targets."""

    @abstractmethod
    def numbered(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the index of each label; numbers are returned unchanged."""

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
        """Return the order of a pass over ``n`` rows; with partners, each follows its row."""
        order = plain_order(n, generator, shuffle)
        if self.pairs == "tracked":
            return order
        if self.pairs == "stream":
            partners = generator.permutation(n)
        else:  # a row visited earlier in the pass
            earlier = np.maximum(np.arange(n), 1)
            partners = order[(generator.uniform(size=n) * earlier).astype(np.int64)]
        return np.column_stack([order, partners]).ravel()

    def with_partners(self, X: Any, targets: Array, weights: Array) -> tuple[Self, _RowArrays]:
        """Return the rows, each followed by a partner from the reservoir if the risk needs one."""
        if self.rows_per_sample == 1 or X.shape[0] == 0:
            return self, (X, targets, weights)
        n, d = X.shape
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        rows = np.hstack([dense, targets])
        kept = self.reservoir
        if kept is None or kept.rows.shape[1] != rows.shape[1]:
            # Rows kept before new classes came are encoded for the old classes, so they are
            # useless.
            kept = KeptRows.none(rows.shape[1])
        if kept.keys.size:
            # Random numbers tied to row indices: the result does not depend on how calls cut the
            # stream.
            at = (row_uniforms(kept.n_seen, n) * kept.keys.size).astype(np.int64)
            partners, theirs = kept.rows[at], kept.weights[at]
        else:
            partners, theirs = np.roll(rows, 1, axis=0), np.roll(weights, 1)
        both = np.stack([rows, partners], axis=1).reshape(2 * n, -1)
        joined = np.ascontiguousarray(both[:, :d], dtype=dense.dtype)
        known = replace(self, reservoir=kept.extended(rows, weights, _RESERVOIR))
        return known, (joined, both[:, d:].copy(), np.column_stack([weights, theirs]).ravel())


def _fields_of_loss(task: str) -> dict[str, Field]:
    """Return what is stored of the attributes of :class:`LossTargets`."""
    return {
        "loss": Config(Loss, lambda loss: loss.task == task),
        "risk": Maybe(Config(Risk)),
        "reservoir": Maybe(Part(KeptRows)),
    }


def no_loss(name: str, value: Any) -> None:
    """Check the loss of a model that is rebuilt, whose task has none."""
    if value is not None:
        raise ValueError("the model has a loss, but there is none in its objective")


# -- classes ---------------------------------------------------------------------------------------


class ClassAnswers(NamedTuple):
    """Answers of a classifier for some rows.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
        Predicted classes.
    probability : ndarray of shape (n_rows, n_classes) or None
        Class probabilities, if the loss has them.
    scores : ndarray of shape (n_rows,) or None
        Scores for the second of two classes; None otherwise.
    """

    labels: NDArray[Any]
    probability: Array | None
    scores: Array | None


def _label(value: Any) -> Any:
    """Return a label, or raise ``ValueError`` if it cannot be stored."""
    if not isinstance(value, bool | int | float | str):
        raise ValueError(
            f"Class labels must be numbers, text or booleans to be stored, got {value!r:.60}."
        )
    return value


class Labels(Field):
    """Labels of classes, each once: numbers, text or booleans.

    Parameters
    ----------
    size : str
        Dimension of their number.
    in_order : bool, default=True
        Whether they are sorted, and there are some.
    """

    def __init__(self, size: str, *, in_order: bool = True) -> None:
        self.size, self.in_order = size, in_order

    def written(self, value: Any) -> Any:
        return _LABELS.written_of({"dtype": value.dtype.str, "values": map(_label, value.tolist())})

    def read(self, name: str, value: Any, sizes: Sizes) -> NDArray[Any]:
        kind, values = _LABELS.read(value, {}).values()
        try:
            labels = np.array(values, dtype=kind if _DTYPE.fullmatch(kind) else None)
            distinct = np.unique(labels)
        except (TypeError, OverflowError) as error:  # of several kinds, or too large for theirs
            raise ValueError(f"`{name}` must be labels of one kind: {error}") from None
        if labels.dtype.str != kind:
            raise ValueError(f"`{name}` must be labels of classes, got {kind!r:.60}")
        fit(name, (self.size,), labels, sizes)
        if distinct.size < labels.size or (
            self.in_order and not (labels.size and np.array_equal(distinct, labels))
        ):
            raise ValueError("the class labels are not distinct and sorted")
        return labels

    @property
    def dimensions(self) -> Iterator[str]:
        yield self.size


@dataclass(frozen=True)
class Classes(LossTargets):
    """Classes that were seen in the rows, or named by the user.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,)
        Class labels, sorted.
    counts : ndarray of shape (n_classes,)
        Number of rows of each class so far.
    named : ndarray or None
        All classes that may occur, if the user named them.
    """

    labels: NDArray[Any]
    counts: Array
    named: NDArray[Any] | None

    _record = Record(
        **_fields_of_loss("classification"),
        targets=Record(
            labels=Labels("n_classes"),
            counts=NumberField("n_classes", low=0.0),
            named=Maybe(Labels("n_named")),
        ),
    )

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """Number of scores that the loss needs for these classes."""
        return self.loss.n_scores(self.labels.size)

    def meet(self, y: NDArray[Any], named: NDArray[Any] | None) -> Self:
        """Return the record after rows with labels ``y`` arrived; the rows are not counted yet.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels of the new rows.
        named : ndarray or None
            Classes that the user names in this call.

        Raises
        ------
        ValueError
            If a label is not among the named classes.
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
        # The reservoir holds targets encoded for the old classes.
        return replace(self, labels=labels, counts=counts, named=all_named, reservoir=None)

    def outputs_after(self, old: Classes, automatic: AutomaticStep) -> NewOutputs:
        """Return how outputs for the ``old`` classes map to outputs for all classes."""
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
        """The classes; by default the second of two, or the predicted one if there are more."""
        labels = self.labels.tolist()
        default = "predicted" if len(labels) > 2 else len(labels) - 1
        return Outputs(labels, default, "probability" if self.loss.has_probabilities else "score")

    def predict(self, scores: Array) -> NDArray[Any]:
        """Return the predicted labels."""
        if self.labels.size == 1:
            return np.full(scores.shape[0], self.labels[0])
        return np.asarray(self.labels[self.loss.decide(scores)])

    def probabilities(self, scores: Array) -> Array:
        """Return the probabilities of all classes, for a loss that models them."""
        if self.labels.size == 1:
            return np.ones((scores.shape[0], 1))
        return self.loss.probabilities(scores)

    def decision(self, scores: Array) -> Array:
        """Return the scores of the classes; for two classes, the second's minus the first's."""
        if self.labels.size > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def said(self, scores: Array) -> ClassAnswers:
        """Return labels, probabilities and scores of rows."""
        n_classes = self.labels.size
        return ClassAnswers(
            self.predict(scores),
            self.probabilities(scores) if n_classes > 1 and self.loss.has_probabilities else None,
            self.decision(scores) if n_classes == 2 else None,
        )

    def answers(self, scores: Array) -> Array:
        """Return probabilities, or contrasts of scores if the loss models no probabilities."""
        if self.loss.has_probabilities:
            return self.probabilities(scores)
        return self.contrasts(scores)

    def contrasts(self, scores: Array) -> Array:
        """Return log-odds, one column for each class."""
        if self.loss.has_probabilities and self.loss.multiclass:  # else they are log-odds
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
        """Return the record with the rows ``y`` counted."""
        places = np.searchsorted(self.labels, y)
        totals = np.bincount(places, minlength=self.labels.size).astype(np.float64)
        return replace(self, counts=self.counts + totals)

    def with_counts(self, counts: Array) -> Self:
        """Return the record with class counts that were made elsewhere."""
        return replace(self, counts=counts)

    def weights(self, y: NDArray[Any], sample_weight: Array, class_weight: Any) -> Array:
        """Return the weights of all rows, times the weights of their classes.

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
        """Return weights of rows of a stream; "balanced" uses counts up to each row.

        Parameters
        ----------
        y, sample_weight, class_weight
            As in :meth:`weights`.
        """
        if not isinstance(class_weight, str):
            return self.weights(y, sample_weight, class_weight)
        # Row by row, so the result does not depend on how calls cut the stream. Counts start at 1:
        # else the first row of a rare class would weigh as much as all rows before it.
        places, before = np.searchsorted(self.labels, y), self.counts
        n_classes = max(self.labels.size, 2)  # with one class so far, a second is still to come
        seen = n_classes + before.sum() + np.arange(1, places.size + 1)
        own = 1.0 + before[places] + count_so_far(places)
        return np.asarray(sample_weight * seen / (n_classes * own))

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        if name == "auto":
            return automatic
        return theorem_steps(self.loss).resolved(self.unit_of_steps(automatic))

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        """Return the step 1 / (L κ²), with the theorem's constant L if it covers the loss."""
        constant = self.loss.hoelder_constant
        if constant is None or self.risk is not None:
            return usual_unit(automatic)
        return 1.0 / (constant * automatic.typical)

    def flatness(self, automatic: AutomaticStep) -> float:
        """Return 1: margins do not depend on a unit of the targets."""
        return 1.0


def class_mixing(old_loss: Loss, new_loss: Loss, places: NDArray[np.intp], n_classes: int) -> Array:
    """Return the matrix that maps the scores of the old classes to scores of all classes.

    Parameters
    ----------
    old_loss, new_loss : Loss
        Loss before and after the new classes.
    places : ndarray of shape (n_old,)
        Index of each old class among all classes.
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
            # One against the rest: all old scores may be negative, so a new score of 0 would win.
            # The mean of the old scores cannot win.
            mixing[:, new] = 1.0 / n_old
        return mixing
    # A single score is for the second class and against the first. A lone class comes first.
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
    """Return labels as an array; raise ``ValueError`` if they look like quantities.

    Raises
    ------
    ValueError
        For fractional numbers, and for values that are not numbers, text or booleans.
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
    """Convert targets that are objects, or of pandas, polars or Arrow, to NumPy types.

    Integers stay integers. Labels must all be of one kind: NumPy would silently turn numbers among
    text into text, and booleans among numbers into numbers.

    Parameters
    ----------
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Targets as the user gave them; returned unchanged if no conversion is needed.
    name : str, default="y"
        Name of the targets in error messages.
    quantities : bool, default=False
        Whether the targets are numbers to predict, not labels.

    Raises
    ------
    ValueError
        If targets are missing or are dates, or if labels are of mixed or unsupported kinds.

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
    """Detect how quantities are written, such as dates; None for numbers and for several targets.

    Text that is all digits counts as numbers, as in NumPy.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Targets as the user gave them.

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
    """Convert quantities to numbers; ValueError if one is written unlike the first ones."""
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
    """Return targets as a table column, if they may be dates or numbers with units; else None."""
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
    "truth values": (bool, np.bool_),  # before numbers: bool is a subclass of int
    "numbers": (int, float, np.integer, np.floating),
    "text": (str,),
}


def _kind(cell: type) -> str:
    """Return the kind of a label type, in words."""
    return next((kind for kind, of in _KINDS.items() if issubclass(cell, of)), cell.__name__)


def _as_cells(y: Any, quantities: bool) -> Any:
    """Return targets as an array where they hold one, or where NumPy would mix kinds of cells."""
    if hasattr(y, "to_numpy"):
        arrow = type(y).__module__.partition(".")[0] == "pyarrow"
        return y.to_numpy(zero_copy_only=False) if arrow else y.to_numpy()
    if not isinstance(y, list | tuple):
        return y
    kinds = {_kind(one) for one in set(map(type, y))}
    if kinds <= ({"list", "ndarray", "tuple"} if quantities else {"list", "ndarray"}):
        if len({one.size if isinstance(one, np.ndarray) else len(one) for one in y}) > 1:
            raise ValueError(
                "Input y has rows of different lengths. Give each row as many targets."
            )
        if quantities:
            with suppress(ValueError):
                return np.asarray(y)
        return y
    if kinds <= {*_KINDS, "tuple"} and quantities:
        return y
    if len(kinds) == 1 and kinds <= _KINDS.keys():
        return y
    cells = np.empty(len(y), dtype=object)
    for row, cell in enumerate(y):
        cells[row] = cell
    return cells


def _check_kinds(labels: Sequence[Any], name: str) -> None:
    """Raise ``ValueError`` unless labels are all text, all numbers or all booleans."""
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
    """Raise ``ValueError`` if there are 20 rows or more, each with a label of its own.

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
    """Raise ``ValueError`` if one has text and the other numbers: NumPy would equate '1' and 1."""
    kinds = {labels.dtype.kind, known.dtype.kind}
    if kinds & {"U", "S"} and kinds & {"b", "i", "u", "f"}:
        raise ValueError(
            f"{of} has labels such as {labels.tolist()[:1]}, of another type than {name} "
            f"({known[:3].tolist()}): text and numbers cannot be mixed. Convert the labels."
        )


def check_class_weight(weights: dict[Any, Any], classes: NDArray[Any], *, complete: bool) -> None:
    """Raise ``ValueError`` if ``class_weight`` names labels that do not exist.

    Parameters
    ----------
    weights : dict from label to weight
        Weights as the user gave them.
    classes : ndarray of shape (n_classes,)
        Labels known so far.
    complete : bool
        Whether ``classes`` are all classes. As in scikit-learn, unknown labels are then an error
        only if some class has no weight: the rows may be a part of the data.
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
    """Return how often each row's class has occurred so far, that row included.

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


# -- numbers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers(LossTargets):
    """Numeric targets of a regression.

    Attributes
    ----------
    n_targets : int
        Number of targets.
    flat : bool
        Whether the user gave the targets as a vector.
    centre : ndarray of shape (n_targets,) or None
        Subtracted from the targets before learning; None for 0.
    scale : ndarray of shape (n_targets,) or None
        Unit of the centred targets: they are divided by it before learning; None for 1.
    """

    n_targets: int
    flat: bool
    centre: Array | None = field(default=None, kw_only=True)
    scale: Array | None = field(default=None, kw_only=True)

    _record = Record(
        **_fields_of_loss("regression"),
        targets=Record(
            n_targets=integer(low=1, high=10**6),  # arrays of so many are made
            flat=truth(),
            centre=IfAny(NumberField("n_targets")),
            scale=IfAny(NumberField("n_targets", above=0.0)),
        ),
    )

    @property
    def n_scores(self) -> int:  # type: ignore[override]
        """Number of scores that the loss needs for these targets."""
        return self.loss.n_scores(self.n_targets)

    def meet(self, y: Array) -> Self:
        """Check the number of targets of more rows, and return this record.

        Raises
        ------
        ValueError
            If the rows have another number of targets.
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
        """Return the targets centred and divided by their unit, shape (n, n_targets)."""
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
        """Levels of a quantile loss; empty for other losses."""
        loss = self.loss
        if not isinstance(loss, Quantile):
            return []
        levels: list[float] = np.atleast_1d(np.asarray(loss.levels, dtype=float)).tolist()
        return levels

    @property
    def outputs(self) -> Outputs:
        """The quantile levels of one target, by default the middle one, or the numbered targets."""
        n, levels = self.n_targets, self.levels
        if n == 1 and len(levels) > 1:
            middle = int(np.argmin(np.abs(np.asarray(levels) - 0.5)))
            return Outputs(levels, middle, "prediction")
        if len(levels) < 2:
            return Outputs.of_targets(n)
        both = [(target, level) for target in range(n) for level in levels]
        return Outputs(both, None, "prediction")

    def predict(self, scores: Array) -> Array:
        """Return predictions in the unit and shape of the user's targets."""
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
        """Centre of the target of each score; the levels of one target share it."""
        return np.zeros(self.n_scores) if self.centre is None else self._of_scores(self.centre)

    @property
    def unit(self) -> Array:
        """Unit of the target of each score."""
        return np.ones(self.n_scores) if self.scale is None else self._of_scores(self.scale)

    def _of_scores(self, numbers: Array) -> Array:
        """Repeat a number of each target for each of its scores."""
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


def target_unit(y: Any) -> float:
    """Return the typical size of the targets, rounded to a power of two; 1 if they are all zero.

    The size is a mean of |y| in which outliers count little, as in losses with bounded slopes. With
    a power of two, rescaling the targets changes no digit, and standardised targets have unit 1.

    Parameters
    ----------
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows. The largest of several targets counts.

    Returns
    -------
    unit : float
        Power of two; at least 1 if there are fewer than 10 rows.

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
    """Return the typical size of each target."""
    sizes = np.abs(np.asarray(y, dtype=np.float64).reshape(len(y), -1))
    middle = np.median(sizes, axis=0)
    usual = np.minimum(sizes, np.where(middle > 0.0, _OUTLYING * middle, np.inf))
    return np.asarray(_MEAN_TO_DEVIATION * usual.mean(axis=0))


def score_of(measure: Callable[..., float], y: Any, predicted: Array, sample_weight: Any) -> float:
    """Return a score of predicted numbers; NaN, with a warning, for fewer than two rows.

    Parameters
    ----------
    measure : callable
        Maps true numbers, predicted ones and ``sample_weight=`` to a score, for which only the
        proportions of the weights count.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        True numbers as the user gave them.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Predictions.
    sample_weight : array-like of shape (n_rows,) or None
        Weights of the rows.

    Raises
    ------
    ValueError
        For targets or weights that are none, and squares beyond what numbers hold.

    Examples
    --------
    >>> from sklearn.metrics import r2_score
    >>> score_of(r2_score, [1.0, 2.0], np.array([1.0, 2.0]), [1e308, 1e308])
    1.0
    """
    targets = finite_or_where(
        lambda: check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"), None, y
    )
    weights = check_weights(sample_weight, len(predicted), some=True)
    weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # sums of the largest would overflow
    with np.errstate(over="ignore", invalid="ignore"):
        score = float(measure(targets, predicted, sample_weight=weights))
    if len(predicted) > 1 and not math.isfinite(score):
        raise ValueError(
            "Squares of the targets or predictions are beyond what numbers hold. Learn and score "
            "targets in a larger unit."
        )
    return score


def curvature_at(loss: Loss, curvature: float, unit: float) -> float:
    r"""Return the curvature of a loss with bounded slopes at the distance of the targets.

    Let slopes be at most L, and write targets y = s z and functions f = s g. As a function of g the
    loss then has slopes up to L s and curvature L s, so its curvature in f is L / s. With steps of
    the inverse size and a ridge in proportion, scaling the targets by s scales the function by s.

    Parameters
    ----------
    loss : Loss
        Regression loss.
    curvature : float
        Curvature of the loss, or 1 where it has no bound.
    unit : float
        The unit s, from :func:`target_unit`.

    Returns
    -------
    curvature : float
        ``curvature`` itself if slopes have no bound, or the loss is curved as far out as the
        targets.

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
    """Warn if the unit or the origin of the targets does not suit the learner.

    Parameters
    ----------
    loss : Loss
        Regression loss.
    kernel : Kernel
        Kernel of the function.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Targets of the first rows; with fewer than 10 rows nothing is checked.
    targets : ndarray
        The same targets, encoded.
    reach : callable or None
        Returns the length of the first step, if steps do not depend on the targets' unit.
    solves : bool
        Whether learning starts with a regression that is solved exactly, so that unit and origin do
        not matter.

    Warns
    -----
    mercer.exceptions.TargetScaleWarning
        If the targets are out of reach, or their sizes differ too much for steps of one length.
    mercer.exceptions.NothingLearnedWarning
        If f = 0 already minimises the loss.
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
    """Return a warning about the size of the targets, or an empty text."""
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
    """Return a warning if targets differ much in size and all steps have one length."""
    largest, smallest = float(sizes.max()), float(sizes[sizes > 0.0].min())
    if loss.lipschitz is not None and largest > _FAR * smallest:
        return (
            f"The targets are of very different sizes, from {smallest:.3g} to {largest:.3g}, but "
            f"steps on {loss!r} are of one length for all: the smaller ones are learned badly. "
            f"Scale them, {_SCALE}, or learn them one by one."
        )
    return ""


def _words_of_origin(loss: Loss, kernel: Kernel, y: Any) -> str:
    """Return a warning if the targets are far from 0 and the kernel has no constant term."""
    if loss.lipschitz is None and loss.curvature is None:
        return ""  # scores pass through a link, so they are not in the unit of the targets
    if _has_bias(kernel):
        return ""
    rows = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    # The mean, not the median: most rows may share one value.
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
    """Return whether a kernel has a constant term, whatever its factor and input map."""
    match kernel:
        case Bias():
            return True
        case Polynomial(degree=1, offset=constant) | Partitioned(constant=constant):
            return float(constant) > 0.0
        case Product():
            return False
    parts = kernel.get_params(deep=False).values()
    return any(_has_bias(part) for part in parts if isinstance(part, Kernel))
