"""Kernel learning from pairs of rows: AUC, ranking, preferences and similarity."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d, validate_data

from mercer._component import from_config, own_copy, to_config
from mercer._validation import check_choice, check_real
from mercer.buffers import FIFO, Buffer, PerClassFIFO, as_buffer
from mercer.data.shuffle import group_order
from mercer.estimators._base import KernelEstimator
from mercer.estimators._pair_targets import PairLabels, group_numbers, label_scale
from mercer.estimators._progress import Progress
from mercer.estimators._ranking import RankingAnswers
from mercer.estimators._ranking_rows import RankingRows
from mercer.estimators._state import StoredEstimator
from mercer.exceptions import NothingLearnedWarning
from mercer.expansions import KOMP, Expansion, Full, RandomFeatures, start_bilinear
from mercer.kernels import Kernel, PairKernel, as_pair_kernel
from mercer.losses import Loss, MarginLoss, as_loss
from mercer.model_file import storable
from mercer.objectives import Pairwise
from mercer.objectives.pairwise import NORMALIZATIONS, PAIR_LABELS, check_pair_parts
from mercer.planning import AutomaticStep, CarefulSteps, automatic_step
from mercer.schedules import PowerDecay, Relative, Schedule

__all__ = ["KernelRanker"]

Array = NDArray[np.float64]

# In units of 1 / (L κ²) of pairs with labels of size 1: 16 times what the theorems allow, found on
# ten data sets (docs/reproduction.md, yz-auc), except for losses that pull back from beyond.
_AUTO = 16.0
_TOLERANCE, _MAX_SIZE = 1e-4, 200
_BLOCK = 256
_TYPICAL = 0.95
_FEW = 200  # rows whose kernels tell whether it may be negative


@storable
class KernelRanker(RankingRows, RankingAnswers, StoredEstimator, KernelEstimator):
    r"""Learn from pairs of rows which is above the other, or whether they belong together.

    Every row is paired with a few that came before it, which a buffer holds, and a loss of the
    pair moves a function f(x, x') of two points. With the default pair kernel
    f(x, x') = g(x) - g(x'), and g ranks: for two classes this maximises the area under the ROC
    curve (AUC), for graded or real targets the share of pairs in the right order.

    Memory does not grow with the stream, and a row costs the same at its end as at its beginning.

    Parameters
    ----------
    loss : str or MarginLoss, default="logistic"
        Loss of a pair: "logistic", "squared_hinge", "least_squares_margin" or another of margins.
    pair_kernel : str, PairKernel or array-like, default="difference"
        What kind of function of two points is learned: "difference" (scores),
        "antisymmetric" (preferences that need not be transitive), "symmetric" (similarity),
        "mlpk" (a metric), "product" (anything), or a pattern of numbers
        (:class:`mercer.kernels.PairKernel`).
    pair_label : {"sign", "difference", "same"}, default="sign"
        What is learned of a pair: which row has the larger y; by how much; or whether both have
        the same y. The first two go with functions that change sign when the points change places,
        the last with those that stay.
    buffer : int, Buffer, "all", "previous" or "auto", default="auto"
        Which earlier rows a row is paired with: n means the last n of each of two classes; see
        :mod:`mercer.buffers`. "auto" is 10 of each class, or the last 50 rows where y has other
        values than two or rows have groups.
    normalize : {"auto", "opposite", "all", "balanced"}, default="auto"
        What the slopes of a row's pairs are divided by. "opposite": the number of partners with
        another y; "all": that of all rows in the buffer, as in the paper; "balanced" (for
        ``pair_label="same"``): pairs that are the same and pairs that are not weigh one half each.
        "auto" is "balanced" for "same" and else "opposite".
    kernel : str, Kernel or callable, default="gaussian"
        Kernel of points; a name stands for half the median distance as length scale.
    expansion : str or Expansion, default="auto"
        How the function is kept small. "auto" is KOMP with at most 200 points (twice the buffer,
        if that is more) and a tolerance of 1e-4 in units of a function of values of about 1; with
        ``buffer="all"`` it is ``Full()``. Points in the buffer stay in the dictionary. With pair
        kernels of second order, RandomFeatures keep a fixed number of features, ``block_size *
        (max_blocks or 2)``.
    step_size : float, schedule, "auto" or "theory", default="auto"
        "auto" falls like t to the power -1/2, from 16 times the largest step that the theorems
        allow (from that step itself for least squares), and is shorter for heavy rows; random
        features of first order take their own automatic steps. "theory" has the exponent 4/5
        (losses of bounded slope) or 5/6 and starts at that largest step: safe and slow. Relative
        schedules are in units of 1 / (L κ²), with the bound κ² of the pair kernel, for pair labels
        of size 1.
    regularization : float, default=0.0
        Ridge parameter. The falling steps take its place.
    batch_size : int or "auto", default="auto"
        Rows per step; their slopes are averaged. "auto" is 1, and 256 for random features, whose
        steps draw a block of features each.
    n_passes : int, default=1
        How often ``fit`` visits the rows.
    shuffle : bool, default=True
        Whether ``fit`` visits them in random order; groups stay together.
    average : {None, "polyak", "suffix"}, default=None
        Predict with an average of the iterates; first order only.
    random_state : int, RandomState or None, default=None
        For the order of the rows and the sample that sets the length scale.
    verbose : int, default=0
        Above 0 shows progress.

    Attributes
    ----------
    classes_ : ndarray
        The two classes, if y has two; else for ``pair_label="same"`` the labels so far.
    buffer_ : Buffer
        The buffer in use.
    dictionary_, model_order_, kernel_, n_samples_seen_, history_
        As in :class:`mercer.KernelClassifier`.
    coefficients_ : ndarray of shape (model_order_, 1) or (model_order_, model_order_)
        Of g(x), or of f(x, x') in k(x) and k(x') before the pattern of the pair kernel.
    intercept_ : float
        Constant term, where the pair kernel has a bias.

    Raises
    ------
    ValueError
        For pair labels that the pair kernel cannot learn, a budget not above the number of points
        in the buffer, and all else that cannot work; before the first row.

    References
    ----------
    Ying and Zhou, Algorithm 2: ``buffer="all"``, ``normalize="all"``, ``pair_label="difference"``,
    ``expansion=Full()``. The rest keeps memory constant.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = KernelRanker(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.98)  # AUC
    True
    """

    _task = "classification"
    _step_names: ClassVar[tuple[str, ...]] = ("auto", "theory")

    def __init__(  # noqa: PLR0913  # all that can be chosen
        self,
        loss: str | Loss = "logistic",
        *,
        pair_kernel: Any = "difference",
        pair_label: str = "sign",
        buffer: Any = "auto",
        normalize: str = "auto",
        kernel: str | Kernel | Callable[..., Any] = "gaussian",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float = 0.0,
        batch_size: int | str = "auto",
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.pair_kernel = pair_kernel
        self.pair_label = pair_label
        self.buffer = buffer
        self.normalize = normalize
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.average = average
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callable[[Progress], object] | None = None,
        *,
        group: Any = None,
    ) -> Self:
        """Learn from all rows, ``n_passes`` times, starting afresh.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and computed in, all else becomes float64.
        y : array-like of shape (n_samples,)
            Two classes of any type, grades or real numbers; for ``pair_label="same"`` any labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as one of a pair and as the other.
        callback : callable, default=None
            Called with a :class:`Progress` every few thousand rows; a true result stops the fit.
        group : array-like of shape (n_samples,), default=None
            Group of each row, for example the query it answers: only rows of one group are paired.
            Groups are visited one after the other if ``shuffle`` is true.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if all y are equal; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model stays as it was.

        Warns
        -----
        mercer.exceptions.NothingLearnedWarning
            If no row met one of its group with another y.
        """
        self._groups = group
        try:
            super().fit(X, y, sample_weight, callback)
        finally:
            self.__dict__.pop("_groups", None)
        if not self.coefficients_.any():
            warnings.warn(
                "No row met another one that it could learn from, so all scores are the same: "
                "only rows of one group are paired, and only if their y differ. Check that "
                "`group` names queries or the like (not rows), that y varies within them, and, "
                "with shuffle=False, that rows of a group are no further apart than the buffer.",
                NothingLearnedWarning,
                stacklevel=2,
            )
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        group: Any = None,
    ) -> Self:
        """Learn from some more rows, in order.

        The first call fixes, on its rows, what was left to choose: the length scale of the kernel,
        the step size, and whether y has two classes. Start with some hundred typical rows.

        Rows are learned in the order in which they come: with groups, those of one group must
        come close together, for the buffer holds the last rows of all groups.

        Parameters
        ----------
        X, y : array-like
            As in :meth:`fit`.
        classes : array-like of shape (2,), default=None
            The two classes, the one to rank above second: for first calls that may hold one only,
            and to choose the order. Without them the larger label ranks above.
        sample_weight, group : array-like, default=None
            As in :meth:`fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        if group is None:  # from `learn_one`
            group = self.__dict__.get("_group_of_row")
        self._groups, self._announced = group, classes
        try:
            return self._partial_fit(X, y, sample_weight)
        finally:
            self.__dict__.pop("_groups", None)
            self.__dict__.pop("_announced", None)

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
            raise ValueError(
                f"`average` must be None for the pair kernel {self.pair_kernel!r}, got "
                f"{self.average!r}: only functions of first order are averaged. Use "
                "average=None, or pair_kernel='difference'."
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
            raise ValueError(
                f"`step_size='theory'` has no steps for {loss!r}: Theorems 3 and 4 of Ying and "
                "Zhou are about losses whose slope is Lipschitz. Use 'logistic', 'squared_hinge' "
                "or 'least_squares_margin', or step_size='auto'."
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
            raise ValueError(
                f"`buffer={self.buffer!r}` keeps rows of each of two classes, but "
                "pair_label='same' is for any labels. Use buffer=FIFO(50) of mercer.buffers."
            )
        expansion = self._chosen_expansion()
        if isinstance(expansion, RandomFeatures):
            return
        limit, capacity = expansion.limit(), buffer.capacity
        bounded = limit < Expansion().limit()
        if bounded and (capacity is None or limit <= capacity):
            held = "all rows" if capacity is None else f"{capacity} rows"
            raise ValueError(
                f"`expansion={expansion!r}` keeps at most {limit} points, but the buffer "
                f"{buffer!r} holds {held}, which stay in the dictionary. Use more points, or a "
                "smaller buffer."
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
        y = column_or_1d(y, warn=True)
        # Tables give numbers and text as Python objects.
        return X, np.array(y.tolist()) if y.dtype.kind == "O" else y

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
