"""What a fitted ranker answers: scores of rows, values of pairs, how good they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._threads import one_blas_thread
from mercer.estimators._pair_estimator import PairEstimator
from mercer.estimators._pair_targets import group_numbers, plain_labels
from mercer.kernels import as_pair_kernel
from mercer.metrics import concordance
from mercer.objectives.pairwise import pair_label_of

__all__ = ["RankingAnswers", "check_scores"]

Array = NDArray[np.float64]

# Pairs on which functions without a score of rows are judged.
_JUDGED = 200_000


def check_scores(model: Any) -> bool:
    """Whether the pair kernel is the difference kernel, whose functions are scores.

    Raises
    ------
    AttributeError
        If not.
    """
    parts = model.__dict__.get("_parts")
    kernel = as_pair_kernel(model.pair_kernel) if parts is None else parts["pair_kernel"]
    if not np.array_equal(kernel.weights, [1.0, -1.0]):
        raise AttributeError(
            "Scores of single rows exist for pair_kernel='difference' only, whose functions are "
            f"g(x) - g(x'); this model has {kernel.pattern!r}. Ask for pairs: "
            "`predict_pair(X1, X2)`."
        )
    return True


class RankingAnswers(PairEstimator):
    """The answers of :class:`mercer.KernelRanker`."""

    @available_if(check_scores)
    def decision_function(self, X: Any) -> Array:
        """Scores g(x): rows with higher ones rank above.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Only their differences mean something.

        Raises
        ------
        AttributeError
            If the pair kernel is another than the difference kernel.
        """
        return self._scores(X)[:, 0]

    @available_if(check_scores)
    def predict(self, X: Any) -> Array:
        """Scores of rows, as :meth:`decision_function`; scikit-learn's name for rankers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]

    def predict_pair(self, X1: Any, X2: Any) -> Array:
        """Values f(x1, x2) of pairs of rows.

        Parameters
        ----------
        X1, X2 : array-like of shape (n_pairs, n_features)
            First and second points of the pairs.

        Returns
        -------
        values : ndarray of shape (n_pairs,)
            Above 0 if the first should rank above the second, or, for ``pair_label="same"``, if
            they belong together.

        Raises
        ------
        ValueError
            If there are not as many first points as second ones.
        """
        check_is_fitted(self, "learner_")
        ends = [
            validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
            for X in (X1, X2)
        ]
        if ends[0].shape[0] != ends[1].shape[0]:
            raise ValueError(
                f"`X1` and `X2` must have one row for each pair, got {ends[0].shape[0]} and "
                f"{ends[1].shape[0]} rows."
            )
        return self._of_pairs(*ends)

    def _of_pairs(self, X1: Any, X2: Any) -> Array:
        kernel, ends = self._pair_kernel, (X1, X2)
        values = np.full(X1.shape[0], self.intercept_)
        if kernel.order == 1:
            for weight, X in zip(kernel.weights, ends, strict=True):
                values += weight * self._scores(X)[:, 0]
            return values
        function: Any = self.learner_.function
        with one_blas_thread():
            for (p, q), weight in np.ndenumerate(kernel.weights):
                if weight:
                    values += weight * function.bilinear(ends[p], ends[q])
        return values

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> float:
        """How good the model is on rows it did not learn, between 0 and 1.

        With scores of rows, the area under the ROC curve, for graded or real y the share of pairs
        in the right order (:func:`mercer.metrics.concordance`). For other pair kernels the share of
        pairs in the right order, and for ``pair_label="same"`` the area under the ROC curve of
        pairs, on up to 200,000 pairs drawn at random (with a fixed seed).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Classes, grades or labels, as in ``fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; for scores and two classes without groups.
        group : array-like of shape (n_samples,), default=None
            Only pairs of one group count.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If there is no pair to judge.
        """
        check_is_fitted(self, "learner_")
        y = plain_labels(y)
        labels = self._labels.meet(y).encode(y)
        numbers = None if group is None else group_numbers(group, labels.size)
        if np.array_equal(self._pair_kernel.weights, [1.0, -1.0]):
            return concordance(labels, self._scores(X)[:, 0], numbers, sample_weight)
        if sample_weight is not None:
            raise ValueError(
                "`sample_weight` is for pair_kernel='difference': pairs drawn at random are "
                "counted, not weighed. Leave it out."
            )
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        first, second = _some_pairs(labels.size, numbers)
        tau = pair_label_of(self._parts["pair_label"], labels[first], labels[second])
        first, second, tau = first[tau != 0.0], second[tau != 0.0], tau[tau != 0.0]
        if self._parts["pair_label"] == "same":
            if np.unique(tau).size < 2:
                raise ValueError("All pairs are the same, or none is: nothing to tell apart.")
            return float(roc_auc_score(tau, self._of_pairs(X[first], X[second])))
        if not tau.size:
            raise ValueError("All y are equal (within each group): no pair has an order.")
        agreement = np.sign(self._of_pairs(X[first], X[second])) * np.sign(tau)
        return float(np.mean(0.5 * (1.0 + agreement)))

    @property
    def intercept_(self) -> float:
        """Constant term of f, where the pair kernel has a bias."""
        return float(getattr(self._fitted().objective, "intercept", 0.0))

    @property
    def coefficients_(self) -> Array:
        """Coefficients: a column; for pair kernels of second order a matrix on the points."""
        coefficients: Array = self._fitted().current_function().coefficients
        return coefficients


def _some_pairs(n: int, groups: Array | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All ordered pairs of different rows of a group, or a sample of as many as are judged."""
    if n * (n - 1) <= _JUDGED:
        first, second = (a.ravel() for a in np.indices((n, n)))
    else:
        generator = np.random.default_rng(0)
        first = generator.integers(n, size=_JUDGED)
        second = generator.integers(n, size=_JUDGED)
        if groups is not None:  # within the group of the first: rows in the order of their groups
            order = np.argsort(groups, kind="stable")
            _, start, count = np.unique(groups[order], return_index=True, return_counts=True)
            of_group = np.searchsorted(groups[order][start], groups[first])
            drawn = (generator.random(_JUDGED) * count[of_group]).astype(np.int64)
            second = order[start[of_group] + drawn]
    keep = first != second
    if groups is not None:
        keep &= groups[first] == groups[second]
    return first[keep], second[keep]
