"""What training, commands and pictures ask of an estimator besides scikit-learn's methods.

Before it learns: what "auto" stands for. Afterwards: scores, and losses of rows, as its objective
sees them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.estimators.pairs import PairLabels
from mercer.expansions import Expansion, as_expansion
from mercer.kernels import PairKernel

Array = NDArray[np.float64]


def chosen_expansion(estimator: Any) -> Expansion | None:
    """Return the expansion that an estimator will take; None for a Gaussian process."""
    if hasattr(estimator, "plan"):
        expansion: Expansion = estimator.plan().expansion
        return expansion
    chosen = getattr(estimator, "expansion", None)
    return None if chosen is None else as_expansion(chosen)


def chosen_batch_size(estimator: Any) -> int:
    """Return the rows of a step; rankers know what "auto" stands for."""
    return int(estimator.plan().batch_size if hasattr(estimator, "plan") else estimator.batch_size)


def has_own_losses(estimator: Any) -> bool:
    """Whether rows have a loss by which an estimator has learned."""
    return getattr(estimator, "loss_", None) is not None and hasattr(estimator, "targets_")


def encoded_targets(estimator: Any, y: NDArray[Any]) -> Array:
    """Return targets as the loss of a fitted estimator takes them."""
    return np.asarray(estimator.targets_.encode(y))


def scores_of(estimator: Any, X: Any) -> Array:
    """Return the values of the learned function, of shape (n_rows, n_outputs)."""
    return np.asarray(estimator._scores(X))


def predictions_of(estimator: Any, scores: Array) -> Array:
    """Return the predictions of a regressor that its scores make."""
    return np.asarray(estimator.targets_.predict(scores))


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


def class_answers_of(estimator: Any, scores: Array) -> ClassAnswers:
    """Return what the scores of rows make a classifier say."""
    known = estimator.targets_
    labels, n_classes = known.predict(scores), known.labels.size
    return ClassAnswers(
        labels,
        known.probabilities(scores) if n_classes > 1 and known.loss.has_probabilities else None,
        known.decision(scores) if n_classes == 2 else None,
    )


class PairParts(NamedTuple):
    """What a fitted ranker learns from pairs, with nothing left "auto".

    Attributes
    ----------
    kernel : PairKernel
        Kernel of pairs.
    label : str
        What a pair is labelled by.
    normalize : str
        How pairs are weighed.
    labels : PairLabels
        The targets as numbers.
    """

    kernel: PairKernel
    label: str
    normalize: str
    labels: PairLabels


def pair_parts(estimator: Any) -> PairParts:
    """Return what a fitted ranker learns from pairs."""
    known = estimator.targets_
    return PairParts(known.pair_kernel, known.pair_label, known.normalize, known.labels)
