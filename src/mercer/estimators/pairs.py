"""Targets of pairwise learning: labels and groups as numbers, and the objective on pairs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from mercer.buffers import FIFO, Buffer
from mercer.columns.views import says_nothing
from mercer.estimators.targets import (
    Labels,
    Outputs,
    TaskTargets,
    check_same_type,
    plain_targets,
)
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Expansion, RandomFeatures
from mercer.kernels import FunctionPairKernel, Kernel, PairKernel
from mercer.learning import AutomaticStep, CarefulSteps, automatic_step
from mercer.losses import MarginLoss
from mercer.objectives import JoinedPairwise, Pairwise
from mercer.records import Config, Part, Record, Recorded
from mercer.schedules import PowerDecay, Relative
from mercer.validation import choice, positive, text

Array = NDArray[np.float64]

# Automatic first step, in units of 1 / (L κ²) for pairs with labels of size 1: 16 times what the
# theorems allow, which tuning improves little (docs/reproduction.md, yz-auc), except for losses
# whose slope changes sign at large margins.
_AUTO = 16.0
_TYPICAL = 0.95
_FEW = 200  # rows used to estimate the size of the pair kernel
# Number of sampled rows whose labels are compared.
_MOST_COMPARED = 500
_EXACT = 2**53
# Numbers of classes that labels of a kind may have.
_N_CLASSES = {"two": range(1, 3), "real": range(1), "same": range(1, sys.maxsize)}
#: A buffer for any labels, as errors recommend it.
FIFO_OF_50 = Setting("buffer", FIFO(50), "buffer=FIFO(50) of mercer.buffers")


@dataclass(frozen=True, eq=False)
class PairLabels(Recorded):
    """Converts the y of rows to numbers.

    Attributes
    ----------
    kind : {"two", "real", "same"}
        Two classes as -1 and +1, numbers unchanged, or labels of any kind by their index.
    classes : ndarray
        Classes seen so far: for "two" the class that ranks above comes second, for "same" in order
        of appearance.
    """

    kind: str
    classes: NDArray[Any]

    _record = Record(kind=choice(*_N_CLASSES), classes=Labels("n_classes", in_order=False)).where(
        "the labels of the pairs do not fit together",
        lambda it: it["classes"].size in _N_CLASSES[it["kind"]],
    )

    @classmethod
    def first(cls, y: Any, pair_label: str, per_class: bool | None, announced: Any) -> Self:
        """Return the conversion for the first rows.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels of the rows.
        pair_label : {"sign", "difference", "same"}
            What is learned about pairs.
        per_class : bool or None
            Whether the buffer keeps rows of two classes; None if that is open.
        announced : array-like of shape (2,) or None
            The two classes, if known.

        Raises
        ------
        ValueError
            If y is invalid.
        """
        if pair_label == "same":
            return cls("same", np.asarray(y)[:0]).meet(y)
        if announced is not None:
            classes = np.asarray(announced)
            if classes.shape != (2,) or classes[0] == classes[1]:
                raise ValueError(f"`classes` must be two different labels, got {announced!r}.")
            return cls("two", classes).meet(y)
        values = np.unique(y)
        numeric = values.dtype.kind in "biuf"
        if not numeric and values.size != 2:
            raise ParameterError(
                f"y has {values.size} label(s) that are no numbers, such as {values[:3].tolist()}"
                ": they have no order to learn.",
                parameter="y",
                mend=Advice(
                    "Use numbers for grades, two classes ",
                    InPython("(say them with `classes=` in `partial_fit`)", ("of any type",)),
                    ", or ",
                    Setting("pair_label", "same"),
                    ".",
                ),
            )
        if values.size > 2 and per_class:
            raise ParameterError(
                f"The buffer keeps rows of each of two classes, but y has {values.size} different "
                "values.",
                parameter="y",
                mend=Advice("Use ", FIFO_OF_50, ", or 'auto'."),
            )
        # The sign of a difference needs no classes; its size does, since 0 and 1 then differ by 2.
        two = values.size <= 2 and (per_class is not False or pair_label == "difference")
        if two or not numeric:
            return cls("two", values)
        return cls("real", values[:0]).meet(y)

    def check_several(self, y: Any) -> None:
        """Raise ``ValueError`` if all y are equal, or for "same" all different."""
        n_values = np.unique(y).size
        if n_values < 2:
            raise ValueError(
                f"y has 1 class only, {y.tolist()[0]!r}: there is no pair to learn from. `fit` "
                "needs rows with different y."
            )
        if self.kind == "same" and n_values == y.size:
            raise ParameterError(
                "No two rows have the same y: there is no pair of rows that belong together.",
                parameter="y",
                mend=Advice("For an order of the rows use ", Setting("pair_label", "sign"), "."),
            )

    def meet(self, y: Any) -> Self:
        """Return the conversion after more rows.

        Raises
        ------
        ValueError
            If y has a value that does not fit the earlier ones.
        """
        y = np.asarray(y)
        if self.kind == "real":
            if y.dtype.kind not in "biuf" or not np.isfinite(y.astype(np.float64)).all():
                raise ValueError(
                    f"y must hold finite numbers, as the first rows did, got {y[:3].tolist()}."
                )
            return self
        values = np.unique(y)
        if self.classes.size:
            check_same_type(values, self.classes, "the labels learned so far")
        new = values[~np.isin(values, self.classes)]
        if new.size == 0:
            return self
        if self.kind == "same":
            return replace(self, classes=np.concatenate([self.classes, new]))
        classes, first = np.union1d(self.classes, new), new.tolist()[0]
        if classes.size > 2:
            raise ParameterError(
                f"y has the value {first!r} besides {self.classes.tolist()}, with which the model "
                "was started as one of two classes.",
                parameter="y",
                value=first,
                mend=Advice(
                    "For grades, or numbers, start it with rows that have more than two values, or "
                    "with ",
                    FIFO_OF_50,
                    ".",
                ),
            )
        grown = replace(self, classes=classes)
        if not np.array_equal(grown.encode(self.classes), self.encode(self.classes)):
            raise ParameterError(
                f"y has the value {first!r} after only {self.classes.tolist()[0]!r}, which was "
                "taken for the other side of 0.",
                parameter="y",
                value=first,
                mend=Advice(
                    "Start with rows of both classes",
                    InPython(", or say `classes=` in the first `partial_fit`"),
                    "; for grades, ",
                    Setting("buffer", FIFO(50), "buffer=FIFO(50)"),
                    ".",
                ),
            )
        return grown

    def encode(self, y: Any) -> Array:
        """Return labels as numbers."""
        y = np.asarray(y)
        if self.kind == "real":
            return np.asarray(y, dtype=np.float64)
        if self.kind == "same":
            order = np.argsort(self.classes)
            places = np.searchsorted(self.classes, y, sorter=order)
            return np.asarray(order[places], dtype=np.float64)
        # A single class counts as the upper one if it is above 0.
        positive = y == self.classes[1] if self.classes.size == 2 else y > 0
        return np.where(positive, 1.0, -1.0)


@dataclass(frozen=True)
class Pairs(TaskTargets):
    """Targets of learning on pairs of rows.

    Attributes
    ----------
    loss : MarginLoss
        Loss of a pair.
    labels : PairLabels
        Converts the y of rows to numbers.
    buffer : Buffer
        Earlier rows that a row is paired with.
    pair_kernel : PairKernel or FunctionPairKernel
        Kind of function of two points.
    pair_label, normalize : str
        What is learned about a pair, and the divisor of its slopes.
    label_scale : float
        Typical size of pair labels.
    bound : float
        Typical size of the pair kernel at a pair; 1 before it is measured.
    """

    loss: MarginLoss
    labels: PairLabels
    buffer: Buffer
    pair_kernel: PairKernel | FunctionPairKernel
    pair_label: str
    normalize: str
    label_scale: float
    bound: float = 1.0

    _record = Record(
        loss=Config(MarginLoss, lambda loss: loss.task == "classification"),
        targets=Record(
            labels=Part(PairLabels),
            buffer=Config(Buffer),
            bound=positive(),
            parts=Record(
                pair_kernel=Config(PairKernel),
                pair_label=text(),
                normalize=text(),
                label_scale=positive(),
            ),
        ),
    )

    @property
    def has_scores(self) -> bool:
        """Whether functions of pairs are differences of row scores."""
        return _makes_scores(self.pair_kernel)

    @property
    def outputs(self) -> Outputs:
        """The score of a row.

        Raises
        ------
        AttributeError
            If rows have no scores.
        """
        check_scores(self.pair_kernel)
        return super().outputs

    @property
    def bilinear(self) -> bool:  # type: ignore[override]
        """Whether functions are neither differences nor sums of functions of one point."""
        return self.pair_kernel.order == 2

    @property
    def joined(self) -> bool:
        """Whether functions take the two points of a pair side by side."""
        return isinstance(self.pair_kernel, FunctionPairKernel)

    def objective(self, automatic: AutomaticStep | None) -> Pairwise:
        kind = JoinedPairwise if self.joined else Pairwise
        objective = kind(
            self.loss,
            buffer=self.buffer,
            pair_kernel=self.pair_kernel,
            pair_label=self.pair_label,
            normalize=self.normalize,
            label_scale=self.label_scale,
        )
        if automatic is not None:
            norm = float(np.sqrt(self.bound))
            objective.tolerance_scale = norm / float(np.sqrt(automatic.typical))
        return objective

    def encode(self, y: Any, groups: Any = None) -> Array:
        labels = self.labels.encode(y)
        return np.column_stack([labels, group_numbers(groups, labels.size)])

    def measured(self, kernel: Kernel, sample: Any, X: Any, y: Any) -> tuple[Self, AutomaticStep]:
        """Return the record with its ``bound`` on pairs, and the safe steps for single rows."""
        curvature = self.objective(None).curvature
        known = replace(self, bound=self.bound_of(kernel, sample))
        if isinstance(self.pair_kernel, FunctionPairKernel):
            kernel, sample = self.pair_kernel.of_joined(known.bound), some_joined(sample)
        return known, automatic_step(kernel, sample, 1.0 if curvature is None else curvature, 1.0)

    def bound_of(self, kernel: Kernel, sample: Any) -> float:
        """Return the typical size of the pair kernel at pairs of rows."""
        if isinstance(self.pair_kernel, FunctionPairKernel):
            if self.pair_kernel.bound is not None:
                return self.pair_kernel.bound
            own = self.pair_kernel.of_joined().diag(some_joined(sample))
            bound = float(np.quantile(own, _TYPICAL))
            return bound if 0.0 < bound < np.inf else 1.0  # steps are refused for what is not
        gram = np.asarray(kernel(sample[:_FEW]), dtype=np.float64)
        if kernel.bound is not None:
            nonnegative = bool((gram >= 0.0).all())
            bound = self.pair_kernel.bound(kernel.bound, nonnegative=nonnegative)
        else:  # points far from the origin, but near each other, may be pairs of small features
            bound = float(np.quantile(self.pair_kernel.of_gram(gram), _TYPICAL))
        return bound or 1.0

    def unit_of_steps(self, automatic: AutomaticStep) -> float:
        constant = self.loss.hoelder_constant
        if constant is None:
            constant = 1.0 if self.loss.curvature is None else self.loss.curvature
        # In units of k(x, x), as for other estimators.
        pairs = self.bound / automatic.typical
        smoothness = float(constant) * float(self.label_scale) ** 2 * pairs
        return 1.0 / (smoothness * automatic.typical)

    def named_steps(self, name: str, automatic: AutomaticStep, expansion: Expansion) -> Any:
        unbounded = self.loss.lipschitz is None
        if name == "theory":
            steps = Relative(PowerDecay(1.0, 5.0 / 6.0 if unbounded else 0.8))
        elif isinstance(expansion, RandomFeatures) and self.pair_kernel.order == 1:
            return automatic
        else:
            pulls_back = float(self.loss.derivative([1.0], [1e3])[0]) > 0.0
            steps = Relative(PowerDecay(1.0 if pulls_back else _AUTO))
        steps = steps.resolved(self.unit_of_steps(automatic))
        return CarefulSteps(steps, automatic.typical, self.pair_kernel.order, unbounded)


def some_joined(sample: Any) -> NDArray[np.floating]:
    """Return pairs of rows of a sample, the two points of each side by side."""
    rows = joined_rows(sample, sample)
    half = rows.shape[1] // 2
    generator = np.random.default_rng(0)
    first, second = generator.integers(len(rows), size=(2, _FEW))
    return np.hstack([rows[first, :half], rows[second, half:]])


def joined_rows(X1: Any, X2: Any) -> NDArray[np.floating]:
    """Return the rows of two matrices, dense or sparse, side by side."""
    return np.hstack([X if isinstance(X, np.ndarray) else X.toarray() for X in (X1, X2)])


def _makes_scores(kernel: PairKernel | FunctionPairKernel) -> bool:
    return np.array_equal(kernel.weights, [1.0, -1.0])


def check_scores(kernel: PairKernel | FunctionPairKernel) -> None:
    """Raise ``AttributeError`` if functions of pairs are not differences of row scores."""
    if not _makes_scores(kernel):
        raise AttributeError(
            "Scores of single rows exist for pair_kernel='difference' only, whose functions are "
            f"g(x) - g(x'); this model has {kernel.pattern!r}. Ask for pairs: "
            "`predict_pair(X1, X2)`."
        )


def group_numbers(group: Any, n_rows: int) -> Array:
    """Return the groups of rows as numbers; any labels are allowed.

    Text becomes the first 48 bits of its hash, so no table grows with the stream; among a million
    different texts, two share a number with a probability of 0.2 %.

    Parameters
    ----------
    group : array-like of shape (n_rows,) or None
        Group (query) of each row; None puts all rows into one group.
    n_rows : int
        Number of rows.

    Raises
    ------
    ValueError
        If the number of groups differs, or a group is missing.

    Examples
    --------
    >>> group_numbers([3, 3, 7], 3)
    array([3., 3., 7.])
    """
    if group is None:
        return np.zeros(n_rows)
    groups = np.asarray(group)
    if groups.shape != (n_rows,):
        raise ValueError(
            f"`group` must have one entry for each of the {n_rows} rows, got shape {groups.shape}. "
            "It names the group of each row, it does not count the rows of groups."
        )
    if any(map(says_nothing, groups.tolist())):
        raise ValueError("`group` has a value that is missing: give every row one.")
    if groups.dtype.kind in "biuf":
        numbers = groups.astype(np.float64)
        large = np.abs(numbers) >= _EXACT  # neighbours would be one and the same
        numbers[large] = _hashes(groups[large])
        return numbers
    return _hashes(groups)


def _hashes(groups: NDArray[Any]) -> Array:
    names, where = np.unique(groups.astype(str), return_inverse=True)
    hashes = [int.from_bytes(blake2b(n.encode(), digest_size=6).digest()) for n in names.tolist()]
    return np.array(hashes, dtype=np.float64)[where]


def label_scale(pair_label: str, labels: Array, kind: str) -> float:
    """Return the root mean square of the nonzero pair labels on a sample; 1 if all are 0.

    Examples
    --------
    >>> label_scale("difference", np.array([1.0, 2.0, 2.0]), "real")
    1.0
    """
    if pair_label != "difference":
        return 1.0
    if kind == "two":
        return 2.0  # of -1 and +1, even if one of them is still to come
    labels = labels[:: max(1, labels.size // _MOST_COMPARED)]
    differences = np.subtract.outer(labels, labels)
    acting = differences[differences != 0.0]
    return float(np.sqrt(np.mean(np.square(acting)))) if acting.size else 1.0


def plain_labels(y: Any) -> NDArray[Any]:
    """Return labels as a vector of numbers or text; tables give them as Python objects.

    Raises
    ------
    ValueError
        If there is more than one column, or labels are of several kinds.
    """
    labels = column_or_1d(plain_targets(y), warn=True)
    return np.array(labels.tolist()) if labels.dtype.kind == "O" else labels


def group_order(group: Any, generator: Any) -> NDArray[np.int64]:
    """Return a random order of rows in which each group stays together.

    Parameters
    ----------
    group : array-like of shape (n_rows,)
        Group of each row.
    generator : numpy.random.Generator or numpy.random.RandomState
        Source of randomness.

    Returns
    -------
    order : ndarray of shape (n_rows,) of int64
        Groups in random order, the rows of each in random order.

    Examples
    --------
    >>> group = np.array([1, 2, 1, 2])
    >>> group[group_order(group, np.random.default_rng(0))].tolist() in ([1, 1, 2, 2], [2, 2, 1, 1])
    True
    """
    _, numbers = np.unique(group, return_inverse=True)
    ranks = generator.permutation(int(numbers.max(initial=-1)) + 1)
    order: NDArray[np.int64] = generator.permutation(numbers.size)
    return order[np.argsort(ranks[numbers[order]], kind="stable")]
