"""Kept rows of a stream: a uniform sample of fixed size for streams of any length."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.default import DefaultLearner
from mercer.estimators.inputs import with_later_inputs
from mercer.numerics.philox import row_uniforms
from mercer.records import Gapped, Numbers, Record, Recorded
from mercer.validation import integer

Array = NDArray[np.float64]

Rows = NDArray[np.floating]

_AT_ONCE = 1024  # keys examined at once for single rows
# Rows that a model keeps for explanations, and their largest memory.
_KEPT, _KEPT_BYTES = 256, 2**20
_MOST_KEPT = 1000  # rows that are kept for anything


@dataclass(frozen=True, eq=False)
class KeptRows(Recorded):
    """Uniform sample of the rows seen so far: the rows with the smallest random keys.

    Attributes
    ----------
    n_seen : int
        Number of rows seen.
    keys : ndarray of shape (n_kept,)
        Random keys of the rows kept, ascending.
    weights : ndarray of shape (n_kept,)
        Weights of the kept rows, above 0: rows of weight 0 are not kept.
    rows : ndarray of shape (n_kept, n_features)
        The kept rows.

    Examples
    --------
    >>> kept = KeptRows.none(n_features=1)
    >>> kept = kept.extended(np.arange(50.0)[:, np.newaxis], np.ones(50), capacity=10)
    >>> kept.n_seen, kept.rows.shape
    (50, (10, 1))
    """

    n_seen: int
    keys: Array
    weights: Array
    rows: NDArray[np.floating]

    _record = Record(
        n_seen=integer(low=0),
        keys=Numbers("n"),
        weights=Numbers("n", above=0.0),
        rows=Gapped("n", "n_features"),
    ).where(
        "the rows kept do not fit together",
        lambda it: it["keys"].size <= min(it["n_seen"], _MOST_KEPT),
    )

    @classmethod
    def none(cls, n_features: int, dtype: Any = np.float64) -> Self:
        """Return an empty sample."""
        return cls(0, np.empty(0), np.empty(0), np.empty((0, n_features), dtype))

    def extended(self, X: Any, weights: Array, capacity: int) -> Self:
        """Return the sample after more rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            New rows.
        weights : ndarray of shape (n,)
            Weights of the new rows.
        capacity : int
            Largest number of rows to keep.
        """
        bar = self.keys[-1] if self.keys.size >= capacity else np.inf
        keys = row_uniforms(self.n_seen, weights.size)
        new = np.flatnonzero((keys < bar) & (weights > 0.0))
        if new.size > 4 * capacity:  # only a few of many rows need sorting
            bar = np.partition(keys[new], capacity - 1)[capacity - 1]
            new = new[keys[new] <= bar]
        # Of many rows only likely ones are made dense and copied.
        new = new[np.argsort(keys[new], kind="stable")[:capacity]]
        n_seen = self.n_seen + weights.size
        if new.size == 0:
            return replace(self, n_seen=n_seen)
        rows = X[new] if isinstance(X, np.ndarray) else X[new].toarray()
        keys = np.concatenate([self.keys, keys[new]])
        best = np.argsort(keys, kind="stable")[:capacity]
        weights = np.concatenate([self.weights, weights[new]])[best]
        rows = np.concatenate([self.rows, rows.astype(self.rows.dtype, copy=False)])[best]
        return type(self)(n_seen, keys[best], weights, rows)

    def n_to_pass(self, capacity: int) -> int:
        """Return how many of the next rows are certainly not sampled; there may be more."""
        if self.keys.size < capacity:
            return 0
        block, start = divmod(self.n_seen, _AT_ONCE)
        keys = row_uniforms(block * _AT_ONCE, _AT_ONCE)[start:]
        wanted = np.flatnonzero(keys < self.keys[-1])
        return int(wanted[0]) if wanted.size else keys.size


# -- rows to explain a model with ------------------------------------------------------------------


def evenly(X: Rows, most: int, weights: Array | None = None) -> Rows:
    """Draw rows uniformly, in random order; the same rows each time.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows.
    most : int
        Largest number of rows.
    weights : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows; rows of weight 0 are not drawn.
    """
    rows = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0.0)
    drawn: Rows = X[rows[np.argsort(row_uniforms(0, rows.size), kind="stable")[:most]]]
    return drawn


def kept_of(kept: KeptRows | None, X: Any, weights: Array) -> KeptRows | None:
    """Return a sample of the rows learned so far and new ones; None for sparse rows.

    Parameters
    ----------
    kept : KeptRows or None
        Sample of the earlier rows.
    X : ndarray or CSR matrix of shape (n, n_inputs)
        New rows.
    weights : ndarray of shape (n,)
        Weights of the new rows.
    """
    if not isinstance(X, np.ndarray):
        return None
    capacity = capacity_of(X.shape[1])
    if kept is None:
        kept = KeptRows.none(X.shape[1], X.dtype)
    return kept.extended(X, weights, capacity)


def capacity_of(n_inputs: int) -> int:
    """Return the number of rows to keep."""
    return max(2, min(_KEPT, _KEPT_BYTES // (8 * max(1, n_inputs))))


def kept_from_state(state: dict[str, Any], n_inputs: int) -> KeptRows:
    """Read the rows kept for explanations.

    Raises
    ------
    ValueError
        If they do not fit the inputs, or are more than a model keeps.
    """
    kept = KeptRows.from_state(state, n_features=n_inputs)
    if kept.keys.size > _KEPT:
        raise ValueError("the rows kept do not fit together")
    return kept


def keep_learned(model: Any, X: Any, weights: Array) -> None:
    """Add learned rows to an estimator's sample, unless it keeps rows elsewhere.

    Parameters
    ----------
    model : estimator
        Estimator that has learned them.
    X : ndarray or CSR matrix of shape (n, n_inputs)
        The rows, as inputs.
    weights : ndarray of shape (n,)
        Weights of the rows.
    """
    elsewhere = isinstance(model.learner_, DefaultLearner) or model.targets_.sample is not None
    if elsewhere or not hasattr(model, "explain"):  # no explanation will need them
        return
    model._kept = kept_of(kept_until_now(model, X.shape[1]), X, weights)
    model._to_pass = 0


def keep_one(model: Any, row: Array, weight: float) -> None:
    """Add one row to the sample; most rows are skipped at almost no cost."""
    if model._to_pass:
        model._to_pass -= 1
        model._passed += 1
        return
    keep_learned(model, row[np.newaxis], np.array([weight]))
    if model._kept is not None:
        model._to_pass = model._kept.n_to_pass(capacity_of(row.size))


def kept_until_now(model: Any, n_inputs: int) -> KeptRows | None:
    """Return an estimator's sample, extended by inputs added since."""
    kept: KeptRows | None = model._kept
    if kept is None:
        return None
    if model._passed:
        kept = replace(kept, n_seen=kept.n_seen + model._passed)
    model._kept, model._passed = kept, 0
    return replace(kept, rows=with_later_inputs(kept.rows, n_inputs, model._columns))


# -- rows that were not learned --------------------------------------------------------------------


class HeldOutRows(NamedTuple):
    """Rows that a fit had not learned, with its scores of them.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Inputs; for a table, the encoded columns.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Labels, or quantities.
    scores : ndarray of shape (n_rows, n_outputs)
        Values of the function.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    groups : ndarray of shape (n_rows,) of int64 or None, default=None
        Groups of the rows: the fit that scored a row had not learned its group. None if each row is
        its own group.
    """

    X: NDArray[np.floating]
    y: NDArray[Any]
    scores: Array
    weights: Array
    groups: NDArray[np.int64] | None = None
