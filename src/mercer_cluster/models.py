"""How estimators are begun for rows that are learned elsewhere, and finished."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from mercer.estimators import GaussianProcessRegressor, KernelClassifier
from mercer.estimators.fitting import Data, Given, KernelEstimator
from mercer.estimators.kept_rows import keep_learned
from mercer.exceptions import Advice, InPython, ParameterError, Setting
from mercer.expansions import Auto, RandomFeatures, Stream
from mercer.gaussian_process import DictionaryPosterior
from mercer.learning import Layout, Solved, StepsElsewhere
from mercer.risks import as_risk
from mercer.sums import Rows

Array = NDArray[np.float64]
Encoded = tuple[Any, Array, Array]


class Draft(NamedTuple):
    """Rows as they were given.

    Attributes
    ----------
    X, y, weights : array-like
        As of ``fit``; the weights may be None.
    """

    X: Any
    y: Any
    weights: Any = None

    def as_arrays(self) -> Draft:
        """Rows as arrays, or as a CSR matrix, that can be cut."""
        X = self.X.tocsr() if sparse.issparse(self.X) else np.asarray(self.X)
        weights = None if self.weights is None else np.asarray(self.weights)
        return Draft(X, np.asarray(self.y), weights)


# How expansions learn that can be in several places; the default can always.
_IN_MANY_PLACES = ("solve", "newton", "cyclic")
# Parameters of expansions, their usual values, and why others go in one place only.
_OF_ONE_PLACE = (
    ("forgetting", 1.0, "It asks how old a row is, and these rows have no order."),
    ("block_length", "auto", "It asks which rows are neighbours, and these rows have no order."),
    ("resumable", False, "The model holds what was solved, not the sums of all workers."),
)


def check_learnable(estimator: Any) -> None:
    """Raise ValueError unless rows of an estimator can be learned in several places."""
    if isinstance(estimator, GaussianProcessRegressor):
        if not hasattr(estimator, "partial_fit"):
            raise ValueError(
                f"`method={estimator.method!r}` visits all rows again and again, so they cannot be "
                "learned in several places. Use method='features' or 'dictionary'."
            )
        return
    if not isinstance(estimator, KernelEstimator):
        raise ValueError(
            "`estimator` must be a KernelClassifier, a KernelRegressor or a "
            f"GaussianProcessRegressor, got `{type(estimator).__name__}`."
        )
    estimator.check()
    estimator.check_settings(anew=True)
    expansion: Any = estimator.plan().expansion
    if isinstance(expansion, Stream):
        raise ParameterError(
            "The expansion Stream cannot be learned in several places.",
            parameter="expansion",
            value=estimator.expansion,
            why="It follows rows in their order, each by what was learned of those before.",
            mend=Advice("Use ", Setting("expansion", "auto"), ", or learn in one place."),
        )
    if not (isinstance(expansion, Auto) or expansion.mode in _IN_MANY_PLACES):
        mode = " in mode 'faithful'" if isinstance(expansion, RandomFeatures) else ""
        raise ParameterError(
            f"The expansion {type(expansion).__name__}{mode} cannot be learned in several places.",
            parameter="expansion",
            value=estimator.expansion,
            why="It makes many small steps, each of which needs the one before it; others add rows "
            "up, or make few steps on many rows.",
            mend=Advice(
                "Use ",
                Setting("expansion", "auto"),
                ", without what asks for steps: ",
                InPython("`step_size`", ("`step_size`, `tolerance` or `max_size`",)),
                ".",
            ),
        )
    risk = getattr(estimator, "risk", None)
    if not isinstance(expansion, Auto) and as_risk(risk) is not None:
        raise ParameterError(
            f"A risk cannot be learned in several places by {type(expansion).__name__}.",
            parameter="risk",
            value=risk,
            why="It follows an average from step to step.",
            mend=Advice("Use ", Setting("expansion", "auto"), ", which has every loss and risk."),
        )
    for name, usual, why in _OF_ONE_PLACE:
        value = getattr(expansion, name, usual)
        if value != usual:
            raise ParameterError(
                f"`{name}` cannot be {value!r} where rows are learned in several places.",
                parameter=name,
                value=value,
                why=why,
                mend="Leave it out, or learn all rows in one place.",
            )


class Begun(NamedTuple):
    """An estimator that has a layout.

    Attributes
    ----------
    model : estimator
        Model that has learned only the sample.
    encode : callable
        :class:`Draft` to checked inputs, encoded targets and weights, wherever the rows are.
    layout : Layout
        What is to be done with these.
    """

    model: Any
    encode: Any
    layout: Layout

    def finish(
        self,
        held: Rows,
        solved: dict[int, Solved],
        sums: dict[int, Any],
        steps: StepsElsewhere | None,
    ) -> Any:
        """Model of all rows: see :meth:`mercer.learning.Elsewhere.adopt`."""
        model = copy.copy(self.model)
        if isinstance(model, GaussianProcessRegressor):
            whole = sums[0].emptied()
            whole.merge(sums[0])
            whole.learn(held)
            model.posterior_ = whole.posterior
            return model
        learner = copy.copy(model.learner_)
        learner.function = copy.copy(learner.function)
        learner.history = copy.deepcopy(learner.history)
        learner.adopt(held, solved, sums, steps)
        model.learner_ = learner
        return model


def begin(
    estimator: Any,
    sample: Draft,
    n_rows: int,
    n_regions: int,
    class_counts: dict[Any, int] | None,
) -> Begun:
    """Decide all that does not depend on every row, by a sample.

    Parameters
    ----------
    estimator : estimator
        Estimator with its parameters; not changed.
    sample : Draft
        Rows in random order.
    n_rows, n_regions : int
        Rows in all, and regions of a partition.
    class_counts : dict or None
        For classification, the number of rows of each class; None counts the sample.

    Raises
    ------
    ValueError
        If the estimator cannot learn in several places, or as its ``fit``.
    """
    check_learnable(estimator)
    if isinstance(estimator, GaussianProcessRegressor):
        return _begin_posterior(estimator, sample)
    model, encoder = unfitted(estimator), unfitted(estimator)
    if class_counts is None and isinstance(estimator, KernelClassifier):
        labels, counts = np.unique(sample.y, return_counts=True)
        class_counts = dict(zip(labels, counts.tolist(), strict=True))
    if class_counts is not None and isinstance(getattr(model, "class_weight", None), str):
        total, n_classes = sum(class_counts.values()), len(class_counts)
        balanced = {label: total / (n_classes * n) for label, n in class_counts.items()}
        encoder.set_params(class_weight=balanced)
    classes = None if class_counts is None else np.array(list(class_counts))
    plan = model.plan()
    data: Data = encoder._checked(Given(*sample, classes), None, plan)
    model._row_names = model._map = None
    model.n_features_in_ = encoder.n_features_in_
    model._columns, model._means = encoder._columns, encoder._means
    model._meet(data)
    problem = model._problem(data, plan, check_random_state(model.random_state), n_rows)
    learner: Any = model._adopt(problem)
    keep_learned(model, data.X, data.weights)
    if not hasattr(learner, "lay_out"):
        raise ValueError(
            f"{estimator!r} learns by many small steps, each of which needs the one before it, so "
            "its rows cannot be learned in several places. Use the default expansion, Dictionary() "
            "or RandomFeatures()."
        )
    if class_counts is not None:
        counts = np.array([float(n) for n in class_counts.values()])
        model.targets_ = model.targets_.with_counts(counts)
    encoder.targets_, encoder._map = model.targets_, model._map
    rows = model._visited(data.X)[:], encoder.targets_.encode(data.y), data.weights
    return Begun(model, _OfFunction(encoder), learner.lay_out(*rows, n_rows, n_regions))


def unfitted(estimator: Any) -> Any:
    """Return an unfitted copy, which learns encoded rows if the estimator does."""
    copied = clone(estimator)
    if getattr(estimator, "_learns_encoded", False):
        copied._learns_encoded = True
    return copied


def _begin_posterior(estimator: GaussianProcessRegressor, sample: Draft) -> Begun:
    model = clone(estimator).fit(*sample)
    if isinstance(model.posterior_, DictionaryPosterior):
        model.posterior_.fix()
    sums = _PosteriorSums(model.posterior_.emptied())
    encoder = copy.copy(model)
    del encoder.posterior_
    return Begun(model, _OfPosterior(encoder), Layout(Rows, {0: sums}, {}))


class _OfFunction(NamedTuple):
    """Checks and encodes rows of an estimator with a learner."""

    encoder: Any

    def __call__(self, draft: Draft) -> Encoded:
        encoder = self.encoder
        # Some rows among many: all of these may have weight 0.
        data = encoder._checked(Given(*draft, more=True), encoder.targets_, encoder.plan())
        return encoder._visited(data.X)[:], encoder.targets_.encode(data.y), data.weights


class _OfPosterior(NamedTuple):
    """Checks rows of a Gaussian process."""

    encoder: Any

    def __call__(self, draft: Draft) -> Encoded:
        rows: Encoded = self.encoder._check_rows(*draft, reset=False)
        return rows


class _PosteriorSums:
    """Sums of a posterior."""

    def __init__(self, posterior: Any) -> None:
        self.posterior = posterior

    @property
    def n_rows(self) -> int:
        return int(self.posterior.n_rows)

    def learn(self, rows: Rows) -> None:
        self.posterior.learn(*rows.arrays)

    def merge(self, other: _PosteriorSums) -> None:
        self.posterior.merge(other.posterior)

    def emptied(self) -> _PosteriorSums:
        return _PosteriorSums(self.posterior.emptied())
