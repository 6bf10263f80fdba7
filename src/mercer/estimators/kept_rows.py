"""Rows of a stream that are kept: a uniform sample of fixed size, whatever the stream's length."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.philox import row_uniforms

Array = NDArray[np.float64]

_AT_ONCE = 1024  # keys that are looked at for rows that come one by one


class KeptRows(NamedTuple):
    """Uniform sample of the rows seen so far: those with the smallest random keys.

    Attributes
    ----------
    n_seen : int
        Rows seen.
    keys : ndarray of shape (n_kept,)
        Random keys of the rows kept, ascending.
    weights : ndarray of shape (n_kept,)
        Their weights, above 0: rows without weight are not kept.
    rows : ndarray of shape (n_kept, n_features)
        The rows.

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

    @classmethod
    def none(cls, n_features: int, dtype: Any = np.float64) -> Self:
        """No rows yet."""
        return cls(0, np.empty(0), np.empty(0), np.empty((0, n_features), dtype))

    def extended(self, X: Any, weights: Array, capacity: int) -> Self:
        """Sample of the rows seen so far and some more.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, n_features)
            New rows.
        weights : ndarray of shape (n,)
            Their weights.
        capacity : int
            Largest number of rows to keep.
        """
        bar = self.keys[-1] if self.keys.size >= capacity else np.inf
        keys = row_uniforms(self.n_seen, weights.size)
        new = np.flatnonzero((keys < bar) & (weights > 0.0))
        if new.size > 4 * capacity:  # few of very many need be sorted
            bar = np.partition(keys[new], capacity - 1)[capacity - 1]
            new = new[keys[new] <= bar]
        # Of very many rows only the likely ones are made dense and copied.
        new = new[np.argsort(keys[new], kind="stable")[:capacity]]
        n_seen = self.n_seen + weights.size
        if new.size == 0:
            return self._replace(n_seen=n_seen)
        rows = X[new] if isinstance(X, np.ndarray) else X[new].toarray()
        keys = np.concatenate([self.keys, keys[new]])
        best = np.argsort(keys, kind="stable")[:capacity]
        weights = np.concatenate([self.weights, weights[new]])[best]
        rows = np.concatenate([self.rows, rows.astype(self.rows.dtype, copy=False)])[best]
        return type(self)(n_seen, keys[best], weights, rows)

    def n_to_pass(self, capacity: int) -> int:
        """Return how many of the next rows are surely not for the sample; there may be more."""
        if self.keys.size < capacity:
            return 0
        block, start = divmod(self.n_seen, _AT_ONCE)
        keys = row_uniforms(block * _AT_ONCE, _AT_ONCE)[start:]
        wanted = np.flatnonzero(keys < self.keys[-1])
        return int(wanted[0]) if wanted.size else keys.size

    def to_state(self) -> dict[str, Any]:
        """As plain data."""
        return self._asdict()

    @classmethod
    def from_state(cls, state: dict[str, Any], n_features: int, capacity: int) -> Self:
        """Inverse of :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        kept = cls(**state)
        n = kept.keys.size
        if not (
            type(kept.n_seen) is int
            and n <= min(kept.n_seen, capacity)
            and kept.keys.shape == kept.weights.shape == (n,)
            and kept.rows.shape == (n, n_features)
            and kept.keys.dtype == kept.weights.dtype == np.float64
            and kept.rows.dtype in (np.float32, np.float64)
            and (kept.weights > 0.0).all()
        ):
            raise ValueError("the rows kept do not fit together")
        return kept


def rows_to_state(name: str, X: NDArray[np.floating]) -> dict[str, Any]:
    """Return rows as plain data under a name; gaps by themselves, as files have no NaN.

    Examples
    --------
    >>> rows_to_state("X", np.array([[np.nan, 2.0]]))
    {'X': array([[0., 2.]]), 'gaps': array([[ True, False]])}
    """
    gaps = np.isnan(X)
    if not gaps.any():
        return {name: X}
    return {name: np.where(gaps, 0.0, X).astype(X.dtype), "gaps": gaps}


def with_gaps(X: NDArray[np.floating], gaps: Any) -> NDArray[np.floating]:
    """Return the rows of :func:`rows_to_state`; ``gaps`` are None where there were none.

    Raises
    ------
    ValueError
        If the gaps do not fit the rows.
    """
    if gaps is None:
        return X
    if gaps.shape != X.shape or gaps.dtype != np.bool_:
        raise ValueError("the gaps of the rows kept do not match them")
    return np.where(gaps, np.nan, X).astype(X.dtype)
