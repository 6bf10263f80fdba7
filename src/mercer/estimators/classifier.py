"""Kernel classification on streams."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from mercer.component import own_copy
from mercer.estimators.fitting import Data, Given, LossEstimator
from mercer.estimators.inputs import HEAVIEST, check_weights
from mercer.estimators.one_row import learn_as_batch, learn_target, score_one
from mercer.estimators.start import Plan
from mercer.estimators.targets import (
    Classes,
    check_class_weight,
    check_labels,
    check_repeated,
    check_same_type,
)
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.learning import theorem_steps
from mercer.losses import Logistic, Loss, Softmax, as_loss
from mercer.model_file import storable
from mercer.risks import Risk
from mercer.threads import jobs
from mercer.validation import check_real

Array = NDArray[np.float64]


def has_probabilities(model: Any) -> bool:
    """Return True if a classifier's loss models probabilities; otherwise raise an error.

    Raises
    ------
    AttributeError
        If the loss models none; the message names losses that do.
    """
    loss = getattr(model, "loss_", None)
    if loss is None:
        loss = Logistic() if model.loss == "auto" else as_loss(model.loss, "classification")
    if not loss.has_probabilities:
        raise AttributeError(
            "Probabilities exist for the losses 'logistic' and 'softmax', which model them; this "
            f"classifier has loss={model.loss!r}."
        )
    return True


class _Codes(NamedTuple):
    """Encoded targets of each class, for single rows, with the loss and classes they belong to."""

    loss: Loss
    labels: NDArray[Any]
    of_label: dict[Any, tuple[Array, int]]


@storable
class KernelClassifier(ClassifierMixin, LossEstimator):
    r"""Kernel classifier trained on a stream in bounded memory.

    Minimises :math:`E\,l(f(x), y) + \frac{\lambda}{2}\|f\|^2` over the RKHS of the kernel. It takes
    functional stochastic gradient steps, or solves for f if the expansion keeps the sums needed for
    that; the expansion keeps f small. The defaults (:class:`~mercer.expansions.Auto`) need no
    tuning. ``expansion="komp"`` is POLK with a logistic loss for two classes and a softmax loss for
    more.

    Parameters
    ----------
    loss : str or Loss, default="auto"
        ``"logistic"`` for two classes and ``"softmax"`` for more; or ``"hinge"``,
        ``"multiclass_hinge"``, ``"squared_hinge"``, ... (:mod:`mercer.losses`). Two-class losses
        are used one-versus-rest for more classes.
    risk : Risk, str or None, default=None
        Risk of the loss to minimise (:mod:`mercer.risks`): None for the mean, ``"cvar:0.9"`` or
        ``CVaR(0.9)`` for the mean of the worst tenth, ``UpperSemideviation()``, ``Semivariance()``,
        ``Entropic()``, ... Risks reduce large losses and raise the mean loss. Against outliers use
        a robust loss such as ``"huber"`` instead, which does the opposite.
        outliers use a robust loss such as ``"huber"`` instead, which does the opposite.
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`). ``"auto"`` is a Gaussian kernel on scaled inputs: a race on
        the first rows chooses the scaling and, for learning by sums, the length scale. For sparse
        rows, or fewer than 20 rows in the first call, ``"auto"`` means ``"gaussian"``. Any other
        kernel takes inputs as they are.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`). ``"auto"`` is
        :class:`~mercer.expansions.Auto`: a race on the first rows chooses everything but a
        ``kernel`` that you give, and second-order sums learn each row once. Under a ``risk`` the
        sums fit scores, and a correction learned on held-out rows turns them into the minimiser of
        the risk. With a ``step_size``, or a risk with a ``clip`` or another ``tracker``, ``"auto"``
        is ``KOMP(max_size=1000)``, which learns by steps. If a model starts with ``learn_one``, or
        with fewer than 256 dense rows in ``partial_fit``, it is :class:`~mercer.expansions.Stream`:
        several models learn side by side, with the logistic or softmax loss and no risk.
    step_size : float, callable, "auto" or "theory", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to the step size
        (:mod:`mercer.schedules`). ``"auto"`` takes a large safe step for the kernel, the loss and
        the batch size (:class:`mercer.learning.AutomaticStep`). ``"theory"`` sets
        ``regularization`` to 0 and takes the decreasing steps of the theorem on learning without
        regularization, which are safe but slow (:func:`mercer.recipes.unregularized`).
    regularization : float, schedule or "auto", default="auto"
        Ridge parameter lambda, or a callable from the step number (1, 2, ...) to it, for learning
        by steps. ``"auto"`` is chosen by the race, or 1e-6 for learning by steps.
    batch_size : int, default=32
        Rows per step. A ``partial_fit`` of at most this many rows is exactly one gradient step;
        Newton steps use at least 256 rows. Learning by sums does not use it, and the default
        expansion then refuses other values.
    n_passes : int, default=1
        Passes of ``fit`` over the data, for learning by steps. The default expansion refuses more
        than one.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in the loss. ``"balanced"`` weights classes by the inverse of their
        frequency: in all rows for ``fit``; in the rows so far, the current one included, for
        ``partial_fit`` and ``learn_one``, where each class (at least two) counts as seen once
        before the first row.
    average : {"suffix", "polyak", None}, default="suffix"
        Which coefficients predict, for learning by steps: a mean of the iterates with weights that
        grow like t³ and so forget the first ones (``"suffix"``), the plain mean (``"polyak"``), or
        the last iterate (None), as in the papers, which follows drift faster. An expansion bounds
        the compression error of the iterate; averaged coefficients are refitted in the same way.
        ``Full(max_size)`` drops points too soon for an average, so it uses the last iterate.
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Columns of numbers that are categories: a mask, positions or names. ``"from_dtype"``:
        columns whose type is categorical. The meaning of other table columns is detected, see
        ``audit_``; so are columns of numbers that are codes, also of arrays. None refuses columns
        of text, and takes all numbers as numbers.
    n_jobs : int or None, default=None
        Threads of ``fit``, ``partial_fit`` and predictions, for learning by sums; -1 for all cores.
        None is 1, unless a ``joblib.parallel_config`` says otherwise. The model is the same bit for
        bit. Learning by steps uses one core. Not stored in files.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample used by automatic choices.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels seen, sorted.
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: f(x) = intercept_ + Σ_i coefficients_[i] · kernel_(dictionary_[i], x).
    intercept_ : ndarray of shape (n_outputs,)
        Constant term of each score: ``level_``, or 0 if there is none.
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        Kernel with its numbers resolved; a :class:`~mercer.kernels.Mapped` kernel for ``"auto"``.
    parts_ : list of mercer.functions.FittedPart
        With the default expansion: the parts whose sum is f. Each has a kernel, a dictionary and
        coefficients; ``kernel_``, ``dictionary_`` and ``coefficients_`` exist if there is one part
        on one dictionary and ``bend_`` is 0.
    bend_ : float
        With the default expansion: the number b >= 0 in the scores f + b f³.
    correction_ : mercer.sums.Correction or None
        With the default expansion and a risk: what is added to the sum of the parts.
    race_ : list of dict
        With the default expansion: candidates of the race and their errors.
    block_length_ : int
        With the default expansion: number of consecutive rows held out together; more than 1 if
        neighbouring rows are alike, as in a time series.
    loss_ : Loss
        The loss in use.
    risk_ : Risk or None
        The risk in use.
    value_at_risk_ : float
        With a CVaR only: its estimate of the quantile of the loss.
    n_samples_seen_ : int
        Rows learned, counted in every pass.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    n_features_in_ : int
        Number of columns of the rows.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if rows came as a table with text names.
    preprocessor_ : mercer.columns.TablePreprocessor or None
        Encodes the columns of tables. None if the columns are numbers without missing values, and
        in the default for streams, which skips missing values and gives each new category an input.
    audit_ : mercer.columns.audit.TableAudit
        What each column is, and how many inputs it became, as a printable table. Exists only with a
        ``preprocessor_``.

    References
    ----------
    POLK, Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = KernelClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _task = "classification"
    _step_names = ("auto", "theory")
    _targets_type = Classes
    targets_: Classes
    _codes: _Codes | None = None

    def __init__(
        self,
        loss: str | Loss = "auto",
        *,
        risk: str | Risk | None = None,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | str | Callable[[int], float] = "auto",
        batch_size: int = 32,
        n_passes: int = 1,
        shuffle: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        average: str | None = "suffix",
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.risk = risk
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.regularization = regularization
        self.batch_size = batch_size
        self.n_passes = n_passes
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.average = average
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in order, ``batch_size`` at a time.

        A first call with fewer than 256 rows starts the default for streams
        (:class:`~mercer.expansions.Stream`), which adapts its choices over time. Any other
        expansion fixes its automatic choices (length scale, step size, tolerance) on the rows of
        the first call: start with some hundred typical rows, or give numbers.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels. New labels add classes, unless ``classes`` were given.
        classes : array-like of shape (n_classes,), default=None
            All classes that will occur, if known. Other labels are then refused; a later call may
            add classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For invalid parameters or data, or if the kernel overflows; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.
        """
        named = None if classes is None else np.unique(check_labels(classes, "classes"))
        return self._partial_fit(Given(X, y, sample_weight, classes=named, more=True))

    def _check_classes(self, plan: Plan) -> None:
        """Refuse invalid or contradictory parameters of a classifier."""
        if not (isinstance(self.loss, str) and self.loss == "auto"):
            as_loss(self.loss, "classification")
        if self._is_theory():
            self._check_theory()
        weight = self.class_weight
        if weight is not None and weight != "balanced" and not isinstance(weight, dict):
            raise ValueError(
                f"`class_weight` must be None, 'balanced' or a dict from label to weight, got "
                f"{weight!r}."
            )
        for label, value in weight.items() if isinstance(weight, dict) else ():
            check_real(f"class_weight[{label!r}]", value, low=0.0)

    _checks = (*LossEstimator._checks, _check_classes)

    def _check_theory(self) -> None:
        """Refuse parameters outside the theorem on learning without regularization."""
        for name, value, none in (
            ("regularization", self._ridge(), 0),
            ("risk", self.risk, None),
        ):
            if value != none:
                raise ValueError(
                    f"`step_size='theory'` needs `{name}={none}`, got {value!r}: the theorem is "
                    "about the mean of a loss without a ridge, where falling steps take the "
                    f"ridge's place. Set `{name}={none}`, or use `step_size='auto'`."
                )
        if self.loss != "auto":
            theorem_steps(as_loss(self.loss, "classification"))

    # -- rows -----------------------------------------------------------------------------------

    def _checked(self, given: Given, known: Classes | None, plan: Plan) -> Data:
        """Check rows and labels; new labels add classes."""
        X, y = self._labelled(given, known, plan)
        weights = check_weights(given.sample_weight, X.shape[0], some=not given.more)
        met = (self._no_classes(y) if known is None else known).meet(y, given.classes)
        if isinstance(self.class_weight, dict):
            complete = not given.more or met.named is not None
            check_class_weight(self.class_weight, met.labels, complete=complete)
        met = self._with_loss(met, known)
        weigh = met.weights_so_far if given.more else met.weights
        weights = weigh(y, weights, self.class_weight)
        order = partial(met.order, len(y))
        if known is None or met.labels is known.labels:
            return Data(X, y, weights, met.counted(y), order)
        new_outputs = met.outputs_after(known, self.learner_.automatic)
        return Data(X, y, weights, met.counted(y), order, new_outputs)

    def _labelled(
        self, given: Given, known: Classes | None, plan: Plan
    ) -> tuple[Any, NDArray[Any]]:
        """Return checked inputs and labels."""
        if given.y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: a classifier needs labels."
            )
        X, y = self._checked_rows(
            given.X,
            given.y,
            first=known is None,
            gaps=self._may_have_gaps(known, plan),
            weights=given.sample_weight,
            codes=plan.races and given.held_by.groups is None and given.held_by.time is None,
        )
        y = column_or_1d(y, warn=True)
        check_labels(y)
        if not given.more:
            check_repeated(y)
        if known is not None:
            check_same_type(y, known.labels, "the classes learned so far")
        if given.classes is not None:
            check_same_type(y, given.classes, "`classes`")
        return X, y

    def _no_classes(self, y: NDArray[Any]) -> Classes:
        """Return the record of the targets before the first label."""
        return Classes(Logistic(), self._asked_risk(), y[:0], np.zeros(0), None)

    def _with_loss(self, met: Classes, known: Classes | None) -> Classes:
        """Return the record with the loss for its classes, if ``loss`` is "auto"."""
        if self.loss != "auto":
            if known is not None:  # the loss stays
                return met
            return replace(met, loss=own_copy(as_loss(self.loss, "classification")))
        grown = known is None or met.labels is not known.labels
        if grown and met.labels.size > 2 and met.loss == Logistic():
            return replace(met, loss=Softmax())
        return met

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels seen, sorted."""
        self._fitted()
        return self.targets_.labels

    @property
    def class_counts_(self) -> Array:
        """Number of rows of each class so far."""
        self._fitted()
        return self.targets_.counts

    # -- single rows ----------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn one row in one step.

        A model that starts this way uses the default for streams
        (:class:`~mercer.expansions.Stream`). Any other expansion fixes the length scale, the
        automatic step size and the tolerance on this one row, which is too little: start with a
        ``partial_fit`` of some hundred typical rows, or give numbers.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs. Dicts are read in the sorted order of the names in the first row. In the default
            for streams, names may come and go, and NaN or None count as missing; otherwise every
            row must have the same names.
        y : label
            Label; a new one adds a class.
        sample_weight : float, default=1.0
            Weight of the row.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a row of the wrong length or with missing values; the model is unchanged.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model is unchanged.

        Examples
        --------
        >>> from mercer import KernelClassifier
        >>> model = KernelClassifier(kernel="gaussian")
        >>> for x, y in [([0.0, 0.0], "a"), ([2.0, 2.0], "b")] * 20:
        ...     model = model.learn_one(x, y)
        >>> str(model.predict_one([1.9, 2.1]))
        'b'
        """
        codes = self._codes
        if codes is None or self._columns is not None:
            return self._learn_slowly(x, y, sample_weight)
        known = self.targets_
        if codes.loss is not known.loss or codes.labels is not known.labels:
            return self._learn_slowly(x, y, sample_weight)
        entry = codes.of_label.get(y) if isinstance(y, Hashable) else None
        if (
            entry is None
            or self.class_weight is not None
            or not 0.0 <= sample_weight <= HEAVIEST
            or not self._is_tuned()
        ):
            return self._learn_slowly(x, y, sample_weight)
        if learn_target(self, x, y, entry[0], sample_weight):
            known.counts[entry[1]] += 1.0
        return self

    def _learn_slowly(self, x: Any, y: Any, sample_weight: float) -> Self:
        """Learn a row by ``partial_fit``, then prepare the fast path for later rows."""
        learn_as_batch(self, x, np.asarray([y]), sample_weight)
        loss, labels = self.targets_.loss, self.targets_.labels
        targets = loss.encode(np.arange(labels.size), labels.size)
        by_label = {label: (targets[i], i) for i, label in enumerate(labels.tolist())}
        self._codes = _Codes(loss, labels, by_label)
        return self

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        label : element of ``classes_`` or None
            None before any row was learned, since River's loops predict first.
        """
        if not hasattr(self, "learner_"):
            return None
        scores = score_one(self, x)
        if self.classes_.size == 1:
            return self.classes_[0]
        best = int(scores[0] > 0.0) if scores.size == 1 else int(scores.argmax())
        return self.classes_[best]

    @available_if(has_probabilities)
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Predict the class probabilities of one row, as a dict.

        Parameters
        ----------
        x : array-like of shape (n_features,) or dict
            Inputs.

        Returns
        -------
        probabilities : dict from label to float
            Empty before any row was learned.
        """
        if not hasattr(self, "learner_"):
            return {}
        scores = score_one(self, x)[np.newaxis]
        found = self.targets_.probabilities(scores)[0]
        return dict(zip(self.classes_.tolist(), found.tolist(), strict=True))

    # -- prediction -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, the score of ``classes_[1]`` against ``classes_[0]``.
        """
        scores = self.scores(X)
        return self.targets_.decision(scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the labels of rows.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.scores(X)
        return self.targets_.predict(scores)

    def predict_set(
        self, X: Any, coverage: float = 0.9, *, by_class: bool = False, empty: bool = False
    ) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class for a share ``coverage`` of the rows.

        Conformal prediction, with the same guarantee as ``predict_interval`` of regressors: at
        least this share on average. A set with several classes means that the row may belong to any
        of them.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.
        coverage : float, default=0.9
            Share of rows, between 0 and 1, whose set contains the true class.
        by_class : bool, default=False
            Whether the coverage holds within each class, so that rare classes are covered too.
        empty : bool, default=False
            Whether sets may be empty, see :class:`mercer.conformal.ConformalSets`. Otherwise a set
            always contains the predicted class, so coverage may be larger than asked for.

        Returns
        -------
        sets : ndarray of shape (n_samples, n_classes) of bool
            Columns in the order of ``classes_``.

        Raises
        ------
        ValueError
            For an invalid parameter, or without enough rows that the model has not learned.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> from mercer import KernelClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> drawn = np.random.default_rng(0).permutation(len(X))  # they are sorted by writers
        >>> X, y = X[drawn], y[drawn]
        >>> model = KernelClassifier(random_state=0).fit(X[:1000], y[:1000])
        >>> sets = model.predict_set(X[1000:], coverage=0.99)
        >>> truth = model.classes_.searchsorted(y[1000:])
        >>> bool(sets[range(797), truth].mean() > 0.97)
        True
        """
        from mercer.answers.intervals import sets_of_classes
        from mercer.estimators.evidence import evidence_of

        told = evidence_of(self)
        with jobs(self.n_jobs):
            return sets_of_classes(told, X, coverage, by_class=by_class, empty=empty)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Predict class probabilities; only for the losses ``"logistic"`` and ``"softmax"``.

        They estimate probabilities only without a ``risk``. Under a risk they still rank rows, but
        large losses draw them towards 1/2.

        Parameters
        ----------
        X : array-like, DataFrame or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        scores = self.scores(X)
        return self.targets_.probabilities(scores)
