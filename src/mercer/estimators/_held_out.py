"""Rows of a sample that are not learned, to measure on."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.numerics.philox import row_uniforms

__all__ = ["MOST_HELD_OUT", "HeldOut", "rows_of_a_stream"]

MOST_HELD_OUT = 2000  # rows of a sample


class HeldOut(NamedTuple):
    """Rows of one sample that are not learned.

    Attributes
    ----------
    n_seen : int
        Rows of the sample seen, learned or not.
    rows : ndarray of shape (n_held_out, n_features)
        The rows, at most ``MOST_HELD_OUT``.
    """

    n_seen: int
    rows: NDArray[np.floating]

    @classmethod
    def none(cls, n_features: int, dtype: Any) -> Self:
        """No rows yet."""
        return cls(0, np.empty((0, n_features), dtype))

    def extended(self, X: Any, n_seen: int) -> Self:
        """Hold out the rows ``X``, ndarray or CSR matrix, of ``n_seen`` further ones."""
        rows = X if isinstance(X, np.ndarray) else X.toarray()
        rows = np.concatenate([self.rows, rows.astype(self.rows.dtype, copy=False)])
        return type(self)(self.n_seen + n_seen, rows)

    @classmethod
    def from_state(cls, state: dict[str, Any], n_features: int) -> Self:
        """Rebuild from a dict of the attributes.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        held = cls(**state)
        n = len(held.rows)
        if not (
            type(held.n_seen) is int
            and n <= min(held.n_seen, MOST_HELD_OUT)
            and held.rows.shape == (n, n_features)
            and held.rows.dtype in (np.float32, np.float64)
        ):
            raise ValueError("the rows held out do not fit together")
        return held


def rows_of_a_stream(held: HeldOut, n: int, share: float) -> NDArray[np.int64]:
    """Places of the rows to hold out of the next ``n`` of a sample.

    They depend on their number in the stream; never all, because some must be learned.

    Parameters
    ----------
    held : HeldOut
        What is held out already.
    n : int
        Rows that come next.
    share : float
        Share of the rows to hold out while there are fewer than ``MOST_HELD_OUT``.
    """
    rows = np.flatnonzero(row_uniforms(held.n_seen, n) < share)
    return rows[: min(MOST_HELD_OUT - len(held.rows), n - 1)]
