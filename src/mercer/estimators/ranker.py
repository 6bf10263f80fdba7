"""Kernel learning on pairs of rows: AUC, ranking, preferences and similarity."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer.buffers import FIFO, Buffer, PerClassFIFO, as_buffer
from mercer.component import own_copy
from mercer.estimators.estimator import numeric_rows
from mercer.estimators.fitting import Callback, Data, Given, KernelEstimator
from mercer.estimators.inputs import HEAVIEST, check_weights
from mercer.estimators.one_row import learn_as_batch, learn_row, remember_names, score_one, vector
from mercer.estimators.pairs import (
    FIFO_OF_50,
    PairLabels,
    Pairs,
    check_scores,
    group_numbers,
    group_order,
    joined_rows,
    label_scale,
    plain_labels,
)
from mercer.estimators.start import Plan, Problem, solves
from mercer.estimators.targets import plain_order
from mercer.exceptions import (
    Advice,
    InputScaleWarning,
    NothingLearnedWarning,
    ParameterError,
    Setting,
)
from mercer.expansions import KOMP, Expansion, Full, RandomFeatures
from mercer.kernels import FunctionPairKernel, Kernel, as_pair_kernel
from mercer.learning import AutomaticStep
from mercer.losses import Loss, MarginLoss, as_loss
from mercer.metrics import concordance
from mercer.model_file import storable
from mercer.objectives.pairwise import (
    NORMALIZATIONS,
    PAIR_LABELS,
    check_pair_parts,
    pair_label_of,
)
from mercer.threads import jobs
from mercer.validation import check_choice

Array = NDArray[np.float64]

_TOLERANCE, _MAX_SIZE = 1e-4, 200
_BLOCK = 256
# Number of pairs on which functions without row scores are judged.
_JUDGED = 200_000


def _has_scores(model: Any) -> bool:
    """Return True if functions of the pair kernel are differences of row scores.

    Raises
    ------
    AttributeError
        For other pair kernels.
    """
    known = getattr(model, "targets_", None)
    kernel = as_pair_kernel(model.pair_kernel) if known is None else known.pair_kernel
    check_scores(kernel)
    return True


@storable
class KernelRanker(KernelEstimator):
    r"""Learn from pairs of rows which row ranks above the other, or whether they belong together.

    Every row is paired with a few earlier rows, which a buffer holds. A loss of the pair moves a
    function f(x, x') of two points. With the default pair kernel f(x, x') = g(x) - g(x'), and g
    ranks rows: for two classes this maximises the area under the ROC curve (AUC), for graded or
    real targets the share of pairs in the right order.

    Memory and the cost per row do not grow with the stream.

    Parameters
    ----------
    loss : str or MarginLoss, default="logistic"
        Loss of a pair: "logistic", "squared_hinge", "least_squares_margin" or another margin loss.
    pair_kernel : str, PairKernel, array-like or callable, default="difference"
        Kind of function of two points: "difference" (scores),
        "antisymmetric" (preferences that need not be transitive), "symmetric" (similarity),
        "mlpk" (a metric), "product" (any function), or a pattern of numbers
        (:class:`mercer.kernels.PairKernel`). A callable ``K(X1, X2, U1, U2)`` is a kernel of pairs
        itself (:class:`mercer.kernels.FunctionPairKernel`); there is no ``kernel`` of points then,
        and the expansion must keep points and learn by steps: ``Full``, ``KOMP``, ``Budget`` or
        ``Quantized``, whose points are pairs.
    pair_label : {"sign", "difference", "same"}, default="sign"
        What is learned about a pair: which row has the larger y; by how much; or whether both have
        the same y. The first two need functions that change sign when the points are swapped, the
        last needs functions that stay the same.
    buffer : int, Buffer, "all", "previous" or "auto", default="auto"
        Earlier rows that a row is paired with: n means the last n rows of each of two classes; see
        :mod:`mercer.buffers`. "auto" is 10 rows of each class, or the last 50 rows if y has more
        than two values or rows have groups.
    normalize : {"auto", "opposite", "all", "balanced"}, default="auto"
        Divisor of the slopes of a row's pairs. "opposite": the number of partners with another y.
        "all": the number of rows in the buffer, as in the paper. "balanced" (for
        ``pair_label="same"``): pairs with equal y and pairs with different y each weigh one half.
        "auto" is "balanced" for "same", else "opposite".
    kernel : str, Kernel or callable, default="gaussian"
        Kernel of points. A name has half the median distance as length scale; ``"auto"`` is a
        Gaussian kernel on standardised inputs.
    expansion : str or Expansion, default="auto"
        How the function stays small. "auto" is KOMP with at most 200 points (twice the buffer, if
        that is more) and a tolerance of 1e-4 relative to a function with values of about 1; with
        ``buffer="all"`` it is ``Full()``. Points in the buffer stay in the dictionary. With pair
        kernels of second order, RandomFeatures keep a fixed number of features, ``block_size *
        (max_blocks or 2)``.
    step_size : float, schedule, "auto" or "theory", default="auto"
        "auto" falls like t to the power -1/2, starting at 16 times the largest step that the
        theorems allow (at that step for least squares), and is shorter for heavily weighted rows;
        random features of first order use their own automatic steps. "theory" has the exponent 4/5
        (losses of bounded slope) or 5/6 and starts at that largest step: safe but slow. Relative
        schedules are in units of 1 / (L κ²), with the bound κ² of the pair kernel, for pair labels
        of size 1.
    regularization : float or schedule, default=0.0
        Ridge parameter. The falling steps regularise in its place.
    batch_size : int or "auto", default="auto"
        Rows per step; their slopes are averaged. "auto" is 1, or 256 for random features, whose
        steps each draw a block of features.
    n_passes : int, default=1
        Number of passes of ``fit`` over the rows.
    shuffle : bool, default=True
        Whether ``fit`` visits rows in random order; groups stay together.
    average : {None, "polyak", "suffix"}, default=None
        Predict with an average of the iterates; pair kernels of first order only.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions, for learning by sums; -1 for all cores.
        None is 1, unless a ``joblib.parallel_config`` says otherwise. The model is the same bit for
        bit. Learning by steps uses one core. Not stored in files.
    random_state : int, RandomState or None, default=None
        Seed for the order of the rows and for the sample that sets the length scale.
    verbose : int, default=0
        Above 0 shows progress.

    Attributes
    ----------
    classes_ : ndarray
        The two classes, if y has two; for ``pair_label="same"`` the labels seen so far.
    buffer_ : Buffer
        The buffer in use.
    dictionary_, model_order_, kernel_, n_samples_seen_, history_
        As in :class:`mercer.KernelClassifier`; for a callable pair kernel the rows of
        ``dictionary_`` are pairs, the two points side by side, and so is what ``kernel_`` takes.
    coefficients_ : ndarray of shape (model_order_, 1) or (model_order_, model_order_)
        Coefficients of g(x), or of f(x, x') in k(x) and k(x') before the pair kernel's pattern.
    intercept_ : float
        Constant term, if the pair kernel has a bias.

    Raises
    ------
    ValueError
        Before the first row, for pair labels that the pair kernel cannot learn, a budget not above
        the number of points in the buffer, and other settings that cannot work.

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

    _step_names = ("auto", "theory")
    _targets_type = Pairs
    targets_: Pairs

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
        regularization: float | Callable[[int], float] = 0.0,
        batch_size: int | str = "auto",
        n_passes: int = 1,
        shuffle: bool = True,
        average: str | None = None,
        n_jobs: int | None = None,
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        callback: Callback = None,
        *,
        group: Any = None,
    ) -> Self:
        """Learn all rows from scratch, in ``n_passes`` passes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs; float32 is kept and used in computations, all other types become float64.
        y : array-like of shape (n_samples,)
            Two classes of any type, grades or real numbers; for ``pair_label="same"`` any labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in both positions of a pair.
        callback : callable, default=None
            Called with a :class:`~mercer.estimators.Progress` every few thousand rows; stops the
            fit if it returns a true value.
        group : array-like of shape (n_samples,), default=None
            Group of each row, for example the query it answers: only rows of one group are paired.
            Groups are visited one after the other if ``shuffle`` is true.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if all y are equal; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large for the data; the model is unchanged.

        Warns
        -----
        mercer.exceptions.NothingLearnedWarning
            If no row met a row of its group with another y.
        """
        self._fit(Given(X, y, sample_weight, group=group), callback)
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
        """Learn more rows, in order.

        The first call fixes all automatic choices on its rows: the length scale of the kernel, the
        step size, and whether y has two classes. Start with some hundred typical rows.

        Rows are learned in their order. The rows of a group must come close together, because the
        buffer holds the last rows of all groups.

        Parameters
        ----------
        X, y : array-like
            As in :meth:`fit`.
        classes : array-like of shape (2,), default=None
            The two classes, the class to rank above second. Needed if the first call may hold only
            one class, or to choose the order; by default the larger label ranks above.
        sample_weight, group : array-like, default=None
            As in :meth:`fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
        """
        return self._partial_fit(Given(X, y, sample_weight, classes, group, more=True))

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0, *, group: Any = None) -> Self:
        """Learn one row in one step.

        A model that starts this way fixes the length scale and the step size on this one row, which
        is too little: start with a ``partial_fit`` of some hundred typical rows.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read in the sorted order of the names in the first row; every row must
            have the same names.
        y : label or float
            Class, grade or number.
        sample_weight : float, default=1.0
            Weight of the row.
        group : label, default=None
            Group of the row; rows of a group must come close together (see ``buffer``).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values, or for an unsuitable label; the
            model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
        """
        groups = None if group is None else [group]
        if not hasattr(self, "learner_") or not self._is_tuned():
            learn_as_batch(self, x, np.asarray([y]), sample_weight, group=groups)
            return self
        if not 0.0 <= sample_weight <= HEAVIEST:
            check_weights([sample_weight], 1)  # which says why not
        labels = self.targets_.labels.meet(np.asarray([y]))
        target = np.array([labels.encode([y])[0], group_numbers(groups, 1)[0]])
        learn_row(self, vector(self, x), target, sample_weight)
        if labels is not self.targets_.labels:
            self.targets_ = replace(self.targets_, labels=labels)
        remember_names(self, x)
        return self

    # -- parameters -----------------------------------------------------------------------------

    def _check_pairs(self, plan: Plan) -> None:
        """Refuse invalid or contradictory parameters of a ranker."""
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
        if self._is_theory():
            self._check_theory(loss)
        if (
            pair_kernel.bias
            and pair_kernel.order == 1
            and isinstance(plan.expansion, RandomFeatures)
        ):
            raise ValueError(
                f"`pair_kernel={pair_kernel!r}` has a bias, which random features of first order "
                "do not know: their steps solve equations in the features only. Use a dictionary, "
                "for example expansion='komp', or bias=0."
            )
        if isinstance(pair_kernel, FunctionPairKernel):
            self._check_joined(pair_kernel, plan)
        if pair_kernel.order == 2 and self.average is not None:
            raise ParameterError(
                f"`average` must be None for the pair kernel {self.pair_kernel!r}, got "
                f"{self.average!r}: only functions of first order are averaged.",
                parameter="average",
                value=self.average,
                mend=Advice("Use average=None, or ", Setting("pair_kernel", "difference"), "."),
            )
        if not self._chooses("buffer"):
            self._check_buffer(as_buffer(self.buffer), plan)

    def _check_joined(self, pair_kernel: FunctionPairKernel, plan: Plan) -> None:
        """Refuse what does not go with a pair kernel that is a function."""
        if not (isinstance(self.kernel, str) and self.kernel == "gaussian"):
            raise ParameterError(
                f"`kernel` is a kernel of points, got {self.kernel!r}, but the pair kernel "
                f"{pair_kernel.pattern!r} is one of pairs and needs none.",
                parameter="kernel",
                value=self.kernel,
                mend="Leave `kernel` out, and scale the inputs before, if that was its purpose.",
            )
        expansion = plan.expansion
        if isinstance(expansion, RandomFeatures) or solves(expansion):
            why = (
                "the features of a kernel that is only a function are not known"
                if isinstance(expansion, RandomFeatures)
                else "its points are rows, and this function lives on pairs of rows"
            )
            raise ParameterError(
                f"`expansion={expansion!r}` does not go with the pair kernel "
                f"{pair_kernel.pattern!r}: {why}.",
                parameter="expansion",
                value=self.expansion,
                mend="Use KOMP(), Budget(), Quantized() or Full(), or a pattern (PairKernel).",
            )

    _checks = (*KernelEstimator._checks, _check_pairs)

    def _batch_size(self, expansion: Expansion) -> int:
        if not self._chooses("batch_size"):
            return super()._batch_size(expansion)
        features = isinstance(expansion, RandomFeatures)
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

    def _check_buffer(self, buffer: Buffer, plan: Plan) -> None:
        """Refuse a budget that the buffer's points would fill."""
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
        expansion = plan.expansion
        joined = isinstance(as_pair_kernel(self.pair_kernel), FunctionPairKernel)
        if joined or isinstance(expansion, RandomFeatures):
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

    def _automatic_expansion(self, *, few: bool) -> Expansion:
        """Return the expansion for "auto", with room for the rows of the buffer."""
        buffer = FIFO() if self._chooses("buffer") else as_buffer(self.buffer)
        capacity = buffer.capacity
        if capacity is None:
            return Full()
        return KOMP(tolerance=_TOLERANCE, max_size=max(_MAX_SIZE, 2 * capacity))

    # -- rows -----------------------------------------------------------------------------------

    def _checked(self, given: Given, known: Pairs | None, plan: Plan) -> Data:
        if given.y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: pairs are labelled by their y."
            )
        X, y = numeric_rows(
            self,
            given.X,
            given.y if known is None else self.in_numbers(given.y),
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=known is None,
            ensure_min_samples=1,
        )
        y = plain_labels(y)
        weights = check_weights(given.sample_weight, X.shape[0], some=not given.more)
        if known is None:
            known = self.start_pairs(y, given.classes, grouped=given.group is not None)
            if not given.more:
                known.labels.check_several(y)
        else:
            known = replace(known, labels=known.labels.meet(y))

        def order(generator: np.random.RandomState, shuffle: bool) -> NDArray[np.int64]:
            """Return an order in which the rows of a group stay together."""
            if given.group is None or not shuffle:
                return plain_order(len(y), generator, shuffle)
            return group_order(group_numbers(given.group, len(y)), generator)

        return Data(X, y, weights, known, order, groups=given.group)

    def start_pairs(self, y: NDArray[Any], classes: Any = None, *, grouped: bool) -> Pairs:
        """Make the automatic choices from the first rows; does not change the ranker.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Labels of the rows.
        classes : array-like of shape (2,), default=None
            The two classes, if known.
        grouped : bool
            Whether rows have groups.
        """
        buffer = None if self._chooses("buffer") else own_copy(as_buffer(self.buffer))
        per_class = None if buffer is None else buffer.per_class
        if buffer is None and grouped:
            per_class = False
        labels = PairLabels.first(y, self.pair_label, per_class, classes)
        if buffer is None:
            buffer = PerClassFIFO() if labels.kind == "two" and not grouped else FIFO()
            self._check_buffer(buffer, self.plan())
        return Pairs(
            own_copy(as_loss(self.loss, "classification")),
            labels,
            buffer,
            own_copy(as_pair_kernel(self.pair_kernel)),
            self.pair_label,
            self._normalization(),
            label_scale(self.pair_label, labels.encode(y), labels.kind),
        )

    def _problem(self, *given: Any) -> Problem:
        if not self.targets_.joined:
            return super()._problem(*given)
        with warnings.catch_warnings():  # how a function of pairs sees columns is not known
            warnings.simplefilter("ignore", InputScaleWarning)
            return super()._problem(*given)

    def _problem_of(
        self,
        plan: Plan,
        kernel: Kernel,
        automatic: AutomaticStep,
        averaging: float | None,
        dtype: Any,
    ) -> Problem:
        """Return the problem with these numbers and, if needed, an automatic tolerance."""
        # f has values of about 1 / label_scale on pairs whose features have this norm.
        norm = float(np.sqrt(self.targets_.bound))
        expansion = plan.expansion
        if self._chooses("expansion") and isinstance(expansion, KOMP):
            unit = np.sqrt(2.0) / (norm * float(self.targets_.label_scale))
            expansion = KOMP(tolerance=float(_TOLERANCE * unit), max_size=expansion.max_size)
        plan, known = plan._replace(expansion=expansion), self.targets_
        problem = super()._problem_of(plan, kernel, automatic, averaging, dtype)
        if not isinstance(known.pair_kernel, FunctionPairKernel):
            return problem
        kernel = known.pair_kernel.of_joined(known.bound)
        return replace(problem, kernel=kernel, n_features=2 * problem.n_features)

    # -- answers --------------------------------------------------------------------------------

    @available_if(_has_scores)
    def decision_function(self, X: Any) -> Array:
        """Return scores g(x); rows with higher scores rank above.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Only differences of scores have a meaning.

        Raises
        ------
        AttributeError
            For pair kernels other than the difference kernel.
        """
        return self.scores(X)[:, 0]

    @available_if(_has_scores)
    def predict(self, X: Any) -> Array:
        """Return :meth:`decision_function`, under scikit-learn's name for rankers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self.scores(X)[:, 0]

    def predict_pair(self, X1: Any, X2: Any) -> Array:
        """Return values f(x1, x2) of pairs of rows.

        Parameters
        ----------
        X1, X2 : array-like of shape (n_pairs, n_features)
            First and second points of the pairs.

        Returns
        -------
        values : ndarray of shape (n_pairs,)
            Above 0 if the first row should rank above the second or, for ``pair_label="same"``, if
            they belong together.

        Raises
        ------
        ValueError
            If the numbers of first and second points differ.
        """
        check_is_fitted(self, "learner_")
        ends = [
            numeric_rows(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
            for X in (X1, X2)
        ]
        if ends[0].shape[0] != ends[1].shape[0]:
            raise ValueError(
                f"`X1` and `X2` must have one row for each pair, got {ends[0].shape[0]} and "
                f"{ends[1].shape[0]} rows."
            )
        return self._of_pairs(*ends)

    def _scores_at(self, X: Any) -> Array:
        if self.targets_.joined:
            check_scores(self.targets_.pair_kernel)
        return super()._scores_at(X)

    def _of_pairs(self, X1: Any, X2: Any) -> Array:
        """Return the values of pairs of checked inputs."""
        kernel, ends = self.targets_.pair_kernel, (X1, X2)
        values = np.full(X1.shape[0], self.intercept_)
        if kernel.order == 1:
            with jobs(self.n_jobs):
                for weight, X in zip(kernel.weights, ends, strict=True):
                    values += weight * self._scores_at(X)[:, 0]
            return values
        if self.targets_.joined:
            with jobs(self.n_jobs):
                return self._evaluate(joined_rows(X1, X2))[:, 0]
        function: Any = self.learner_.function
        ends = self._image(X1), self._image(X2)
        with jobs(self.n_jobs):
            for (p, q), weight in np.ndenumerate(kernel.weights):
                if weight:
                    values += weight * function.bilinear(ends[p], ends[q])
        return values

    def score_one(self, x: Any) -> float:
        """Return the score g(x) of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        score : float
            0.0 before any row was learned, since River's loops predict first.

        Raises
        ------
        AttributeError
            For pair kernels other than the difference kernel.
        """
        if not hasattr(self, "learner_"):
            return 0.0
        _has_scores(self)
        return float(score_one(self, x)[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> float:
        """Return how well the model orders rows that it has not learned, between 0 and 1.

        With row scores: the area under the ROC curve, or for graded or real y the share of pairs in
        the right order (:func:`mercer.metrics.concordance`). For other pair kernels: the share of
        pairs in the right order, or for ``pair_label="same"`` the area under the ROC curve of
        pairs, on up to 200,000 pairs drawn with a fixed seed.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Classes, grades or labels, as in ``fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; only for row scores of two classes without groups.
        group : array-like of shape (n_samples,), default=None
            Group of each row; only pairs within a group count.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If there are no pairs to judge.
        """
        check_is_fitted(self, "learner_")
        y = plain_labels(self.in_numbers(y))
        labels = self.targets_.labels.meet(y).encode(y)
        numbers = None if group is None else group_numbers(group, labels.size)
        if self.targets_.has_scores:
            return concordance(labels, self.scores(X)[:, 0], numbers, sample_weight)
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` is for pair_kernel='difference': pairs drawn at random are "
                "counted, not weighed. Leave it out."
            )
        X = numeric_rows(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        first, second = _some_pairs(labels.size, numbers)
        pair_label = self.targets_.pair_label
        tau = pair_label_of(pair_label, labels[first], labels[second])
        first, second, tau = first[tau != 0.0], second[tau != 0.0], tau[tau != 0.0]
        if pair_label == "same":
            if np.unique(tau).size < 2:
                raise ValueError("All pairs are the same, or none is: nothing to tell apart.")
            return float(roc_auc_score(tau, self._of_pairs(X[first], X[second])))
        if not tau.size:
            raise ValueError("All y are equal (within each group): no pair has an order.")
        agreement = np.sign(self._of_pairs(X[first], X[second])) * np.sign(tau)
        return float(np.mean(0.5 * (1.0 + agreement)))

    @property
    def intercept_(self) -> float:
        """Constant term of f, if the pair kernel has a bias."""
        return float(getattr(self._fitted().objective, "intercept", 0.0))

    @property
    def coefficients_(self) -> Array:
        """Coefficients: a column, or a matrix on the points for pair kernels of second order."""
        coefficients: Array = self._fitted().current_function().coefficients
        return coefficients

    @property
    def loss_(self) -> MarginLoss:
        """The loss in use."""
        self._fitted()
        return self.targets_.loss

    @property
    def buffer_(self) -> Buffer:
        """The buffer in use."""
        self._fitted()
        return self.targets_.buffer

    @property
    def classes_(self) -> NDArray[Any]:
        """The two classes, or for ``pair_label="same"`` the labels seen so far."""
        self._fitted()
        if self.targets_.labels.kind == "real":
            raise AttributeError("The y of this model are numbers: there are no classes.")
        return self.targets_.labels.classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _some_pairs(n: int, groups: Array | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all ordered pairs of different rows within groups, or a sample of 200,000."""
    if n * (n - 1) <= _JUDGED:
        first, second = (a.ravel() for a in np.indices((n, n)))
    else:
        generator = np.random.default_rng(0)
        first = generator.integers(n, size=_JUDGED)
        second = generator.integers(n, size=_JUDGED)
        if groups is not None:  # draw the second row from the group of the first
            order = np.argsort(groups, kind="stable")
            _, start, count = np.unique(groups[order], return_index=True, return_counts=True)
            of_group = np.searchsorted(groups[order][start], groups[first])
            drawn = (generator.random(_JUDGED) * count[of_group]).astype(np.int64)
            second = order[start[of_group] + drawn]
    keep = first != second
    if groups is not None:
        keep &= groups[first] == groups[second]
    return first[keep], second[keep]
