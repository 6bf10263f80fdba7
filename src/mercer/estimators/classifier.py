"""Kernel classification on streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from mercer._component import own_copy
from mercer._validation import check_real
from mercer.estimators._base import Array
from mercer.estimators._labels import (
    check_class_weight,
    check_labels,
    check_same_type,
    class_mixing,
    count_so_far,
)
from mercer.estimators._risk import RiskEstimator
from mercer.estimators._rows import ClassifierRows, has_probabilities
from mercer.estimators._state import StoredEstimator, labels_from_state, labels_to_state
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.losses import Logistic, Loss, Softmax, as_loss
from mercer.model_file import storable
from mercer.planning import AutomaticStep, theorem_steps
from mercer.risks import Risk
from mercer.schedules import Schedule

__all__ = ["KernelClassifier"]


@storable
class KernelClassifier(ClassifierRows, StoredEstimator, ClassifierMixin, RiskEstimator):
    r"""Kernel classifier trained on a stream in bounded memory.

    Minimises :math:`E\,l(f(x), y) + \frac{\lambda}{2}\|f\|^2` over the RKHS of the kernel by
    functional stochastic gradient descent, or solves for f where the expansion holds the sums that
    this takes; the expansion keeps f small. The defaults leave nothing to tune
    (:class:`~mercer.expansions.Auto`); ``expansion="komp"`` is POLK with a softmax (two classes:
    logistic) loss.

    Parameters
    ----------
    loss : str or Loss, default="auto"
        ``"logistic"`` for two classes and ``"softmax"`` for more; or ``"hinge"``,
        ``"multiclass_hinge"``, ``"squared_hinge"``, ... (:mod:`mercer.losses`). Two-class losses
        are used one-versus-rest for more classes.
    risk : Risk, str or None, default=None
        What is minimised of the loss (:mod:`mercer.risks`): None for its mean, ``"cvar:0.9"`` or
        ``CVaR(0.9)`` for the mean of its worst tenth, ``UpperSemideviation()``, ``Semivariance()``,
        ``Entropic()``, ... They make large losses smaller and the mean loss larger; against
        outliers use a robust loss such as ``"huber"`` instead, which does the opposite.
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`). ``"auto"`` is a Gaussian: its length scale and the metric of
        the inputs are found by the race of ``expansion="auto"``; without the race it is
        ``"gaussian"``.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`). ``"auto"`` is
        :class:`~mercer.expansions.Auto`: a race on the first rows chooses everything, and
        second-order sums learn each row once; a ``kernel`` that is given takes no part in the race.
        With a ``risk``, a ``step_size`` of your own it is ``KOMP(max_size=1000)``, which learns by
        steps.
    step_size : float, callable, "auto" or "theory", default="auto"
        Step size, or a schedule: a callable from the step number (1, 2, ...) to it
        (:mod:`mercer.schedules`). ``"auto"`` takes a large safe step for the kernel, the loss and
        the batch size (:class:`mercer.planning.AutomaticStep`). ``"theory"`` takes the decreasing
        steps of the theorem on learning without regularization, which are safe but slow
        (:func:`mercer.recipes.unregularized`); ``regularization`` is 0 then.
    regularization : float or "auto", default="auto"
        Ridge parameter lambda. ``"auto"`` is found by the race, or 1e-6 where steps are made.
    batch_size : int, default=32
        Rows per step. A ``partial_fit`` of at most this many rows is exactly one gradient
        step; Newton steps are on 256 rows at least. Plays no role where sums are solved;
        ``"auto"`` then refuses other values.
    n_passes : int, default=1
        Passes of ``fit`` over the data, for learning by steps. ``"auto"`` refuses more than one
        where it learns by sums.
    shuffle : bool, default=True
        Whether ``fit`` visits the rows of each pass in random order.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in the loss. ``"balanced"`` weighs classes by the inverse of their
        frequency in all rows of ``fit``; ``partial_fit`` and ``learn_one`` go by the rows so far,
        this one included, as if each class (two at least) had been seen once before.
    average : {"suffix", "polyak", None}, default="suffix"
        Predict with averaged coefficients: a mean of the iterates whose weights grow like t³ and
        so forgets the first ones (``"suffix"``), the plain mean (``"polyak"``), or the last
        iterate, which is the papers' algorithm and follows drift faster (None). The error that an
        expansion promises is that of the iterate; averaged coefficients are refitted alike. For
        learning by steps, as ``n_passes``.
        ``Full(max_size)`` drops points before an average can grow, so it uses the last iterate.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling and for the sample that automatic choices look at.
    verbose : int, default=0
        1 reports progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels seen, sorted.
    dictionary_ : ndarray of shape (model_order_, n_features_in_)
        Points of the expansion.
    coefficients_ : ndarray of shape (model_order_, n_outputs)
        Coefficients: f(x) = Σ_i coefficients_[i] · kernel_(dictionary_[i], x).
    model_order_ : int
        Number of points.
    kernel_ : Kernel
        The kernel with its numbers resolved.
    parts_ : list of mercer.parts.FittedPart
        With the default expansion f is a sum of parts, each with a kernel, a dictionary and
        coefficients of its own; ``kernel_``, ``dictionary_`` and ``coefficients_`` exist if there
        is one part on one dictionary, which is so up to 2,000 rows.
    race_ : list of dict
        With the default expansion: what the race tried, and the errors it saw.
    block_length_ : int
        With the default expansion: rows in succession that were held out together, more than 1 if
        rows are like their neighbours, as in a series.
    loss_ : Loss
        The loss in use.
    risk_ : Risk or None
        The risk in use.
    value_at_risk_ : float
        With a CVaR only: the quantile of the loss that it has settled on.
    n_samples_seen_ : int
        Rows learned, counting every pass.
    history_ : History
        Progressive loss, model order and compression error over the stream.
    n_features_in_ : int
        Number of inputs.

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

    def __init__(
        self,
        loss: str | Loss = "auto",
        *,
        risk: str | Risk | None = None,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        regularization: float | str = "auto",
        batch_size: int = 32,
        n_passes: int = 1,
        shuffle: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        average: str | None = "suffix",
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
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from some more rows, in order, ``batch_size`` at a time.

        The first call fixes, on its rows, what was left to choose: the length scale of the kernel,
        the automatic step size and tolerance. Start with some hundred typical rows, or give
        numbers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels. Labels not seen before add classes, unless ``classes`` were given.
        classes : array-like of shape (n_classes,), default=None
            All classes that will occur, if known. Once given, other labels are refused; a later
            call may name more.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For wrong parameters or data, or if the kernel overflows; the model stays as it was.
        mercer.exceptions.DivergenceError
            If the step size is too large; the model stays as it was.
        """
        self._announced = None if classes is None else np.unique(check_labels(classes, "classes"))
        self._streams = True
        try:
            return self._partial_fit(X, y, sample_weight)
        finally:
            for name in ("_announced", "_streams"):
                self.__dict__.pop(name, None)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss != "auto":
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

    def _check_theory(self) -> None:
        """Refuse what the theorem on unregularised learning does not cover."""
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

    def _theory(self) -> Schedule:
        return theorem_steps(self.loss_)

    def _smoothness(self, automatic: AutomaticStep) -> float:
        constant = self.loss_.hoelder_constant
        if constant is None or self.risk_ is not None:
            return super()._smoothness(automatic)
        return constant

    def _check_targets(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: a classifier needs labels."
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
        check_labels(y)
        announced = self.__dict__.get("_announced")
        if not reset:
            check_same_type(y, self.classes_, "the classes learned so far")
        if announced is not None:
            check_same_type(y, announced, "`classes`")
        return X, y

    # -- classes --------------------------------------------------------------------------------

    def _meet_targets(self, y: Any, *, reset: bool) -> None:
        announced = self.__dict__.get("_announced")
        labels = np.unique(y) if announced is None else np.union1d(announced, np.unique(y))
        if reset:
            self._all_classes = announced
        elif announced is not None:
            self._all_classes = np.union1d(self.classes_, announced)
        allowed = announced if announced is not None else self.__dict__.get("_all_classes")
        if allowed is not None and not np.isin(y, allowed).all():
            extra = np.setdiff1d(y, allowed)
            raise ValueError(
                f"y has labels that are not in `classes`: {extra[:5].tolist()}. "
                + (
                    "Leave `classes` out to let new labels add classes."
                    if announced is not None
                    else f"These were given as {allowed[:10].tolist()}; name new ones in `classes` "
                    "of the call that brings them, or start without `classes`."
                )
            )
        if isinstance(self.class_weight, dict):
            known = labels if reset else np.union1d(self.classes_, labels)
            check_class_weight(self.class_weight, known, complete=self._knows_all_classes())
        if reset:
            self.classes_ = labels
            self.class_counts_ = np.zeros(labels.size)
            self.loss_ = self._choose_loss(labels.size)
            return
        if np.isin(labels, self.classes_).all():
            return
        self._add_classes(np.union1d(self.classes_, labels))

    def _knows_all_classes(self) -> bool:
        """Whether no class can come any more."""
        return "_streams" not in self.__dict__ or self.__dict__.get("_all_classes") is not None

    def _choose_loss(self, n_classes: int) -> Loss:
        if self.loss == "auto":
            return Logistic() if n_classes <= 2 else Softmax()
        return own_copy(as_loss(self.loss, "classification"))

    def _add_classes(self, classes: NDArray[Any]) -> None:
        old_classes, old_loss = self.classes_, self.loss_
        new_loss = old_loss
        # Two classes of the automatic choice; a loss of the user's own choice stays.
        if self.loss == "auto" and old_loss == Logistic() and classes.size > 2:
            new_loss = self._choose_loss(classes.size)
        places = np.searchsorted(classes, old_classes)
        mixing = class_mixing(old_loss, new_loss, places, classes.size)
        counts = np.zeros(classes.size)
        counts[places] = self.class_counts_
        self.classes_, self.loss_, self.class_counts_ = classes, new_loss, counts
        whole = np.kron(np.eye(self._copies()), mixing)
        self.learner_.map_outputs(np.asarray(whole, dtype=np.float64), self._objective())
        self.__dict__.pop("_reservoir", None)  # its targets are those of the old classes

    def _before_targets(self, y: Any) -> Any:
        announced = self.__dict__.get("_announced")
        known = announced is None or bool(np.isin(announced, self.classes_).all())
        if known and np.isin(y, self.classes_).all():
            return None
        return self.learner_.objective, self.learner_.snapshot()

    def _undo_targets(self, undo: Any) -> None:
        if undo is not None:
            self.learner_.objective = undo[0]
            self.learner_.restore(undo[1])

    def _n_scores(self) -> int:
        return self.loss_.n_scores(self.classes_.size)

    def _encode(self, y: Any, loss: Loss) -> Array:
        return loss.encode(np.searchsorted(self.classes_, y), self.classes_.size)

    def _row_weights(self, y: Any, sample_weight: Array, *, all_rows: bool) -> Array:
        positions = np.searchsorted(self.classes_, y)
        n_classes = self.classes_.size
        before = self.class_counts_
        totals = np.bincount(positions, minlength=n_classes).astype(np.float64)
        self.class_counts_ = before + totals
        if self.class_weight is None:
            return sample_weight
        if isinstance(self.class_weight, dict):
            table = np.array([float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist()])
            return np.asarray(sample_weight * table[positions])
        if all_rows:
            return np.asarray(sample_weight * positions.size / (n_classes * totals[positions]))
        # Row by row, so that it does not matter how the stream is cut; each class starts at 1, or
        # the first row of a rare class would weigh as much as all before it.
        known = max(n_classes, 2)  # the other one is only late
        seen = known + before.sum() + np.arange(1, positions.size + 1)
        own = 1.0 + before[positions] + count_so_far(positions)
        return np.asarray(sample_weight * seen / (known * own))

    def _targets_to_state(self) -> dict[str, Any]:
        announced = self.__dict__.get("_all_classes")
        return {
            "classes": labels_to_state(self.classes_),
            "counts": self.class_counts_,
            "announced": None if announced is None else labels_to_state(announced),
        }

    def _targets_from_state(self, state: dict[str, Any]) -> None:
        self.classes_ = labels_from_state(state["classes"])
        self.class_counts_ = np.array(state["counts"], dtype=np.float64)
        if self.class_counts_.shape != self.classes_.shape or (self.class_counts_ < 0).any():
            raise ValueError("the class counts do not match the classes")
        announced = state.get("announced")  # files of old have none
        if announced is not None:
            self._all_classes = labels_from_state(announced)

    # -- prediction -----------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of ``classes_[1]`` against ``classes_[0]``.
        """
        return self._class_scores(self._scores(X))

    def _class_scores(self, scores: Array) -> Array:
        if self.classes_.size > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of the rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        if self.classes_.size == 1:
            return np.full(scores.shape[0], self.classes_[0])
        return np.asarray(self.classes_[self.loss_.decide(scores)])

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for the losses ``"logistic"`` and ``"softmax"``.

        They are estimates of probabilities for the mean loss only: under a ``risk`` they still
        order rows, but are drawn towards 1/2 where losses are large.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self, "learner_")
        return self._probabilities(self._scores(X))

    def _probabilities(self, scores: Array) -> Array:
        if self.classes_.size == 1:
            return np.ones((scores.shape[0], 1))
        return self.loss_.probabilities(scores)
