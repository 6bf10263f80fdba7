"""Two samples: their checks, the order in which they are learned, and a test by permutations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

__all__ = [
    "TwoSampleTest",
    "alternate",
    "check_samples",
    "permutation_test",
    "places_of",
    "stacked",
]

Array = NDArray[np.float64]


class TwoSampleTest(NamedTuple):
    """Result of :meth:`mercer.DensityRatio.two_sample_test`.

    Attributes
    ----------
    statistic : float
        ``divergence_`` of the two samples, in nats.
    p_value : float
        Share of the permutations, the samples themselves among them, with as large a statistic.
    null_statistics : ndarray of shape (n_permutations,)
        Statistics of the permutations.
    """

    statistic: float
    p_value: float
    null_statistics: NDArray[np.float64]


def stacked(X_p: Any, X_q: Any) -> Any:
    """Rows of two samples, both dense or both sparse, as one array or CSR matrix."""
    if isinstance(X_p, np.ndarray):
        return np.concatenate([X_p, X_q])
    return sparse.vstack([X_p, X_q], format="csr")


def check_samples(model: Any, X_p: Any, X_q: Any, *, reset: bool) -> tuple[Any, Any]:
    """Both samples as arrays of one type, or as sparse matrices of one type."""
    checked = []
    for name, X, first in (("X_p", X_p, reset), ("X_q", X_q, False)):
        if X is None:
            raise ValueError(
                f"`{name}` is None. A ratio of densities is learned from two samples: pass "
                "the rows of p and the rows of q."
            )
        try:
            X = validate_data(
                model,
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                reset=first,
            )
        except ValueError as error:
            raise ValueError(f"`{name}`: {error}") from error
        checked.append(X)
    dtype = np.result_type(*(X.dtype for X in checked))
    if len({isinstance(X, np.ndarray) for X in checked}) == 2:
        checked = [sparse.csr_array(X) for X in checked]
    X_p, X_q = (X.astype(dtype, copy=False) for X in checked)
    return X_p, X_q


def places_of(y: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the rows of p and of the rows of q."""
    from_p = y[:, 0] > 0.5
    return np.flatnonzero(from_p), np.flatnonzero(~from_p)


def alternate(p: NDArray[np.int64], q: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of p and q in turns, so that every batch has as many of each; the fewer come again."""
    n = max(p.size, q.size)
    return np.column_stack([np.resize(p, n), np.resize(q, n)]).ravel()


def permutation_test(model: Any, X_p: Any, X_q: Any, n_permutations: int) -> TwoSampleTest:
    """Compare ``divergence_`` of two samples with that of the same rows dealt out at random.

    The samples themselves count as one of the permutations; so does a tie. With it the p-value is
    valid for any number of them.

    Parameters
    ----------
    model : DensityRatio
        Is fitted again and again; its ``random_state`` seeds everything.
    X_p, X_q : ndarray or CSR matrix
        The samples, checked.
    n_permutations : int
        How many, besides the samples themselves.
    """
    rows, n_p = stacked(X_p, X_q), X_p.shape[0]
    generator = check_random_state(model.random_state)
    statistics = np.empty(1 + n_permutations)
    for i in range(statistics.size):
        order = generator.permutation(rows.shape[0]) if i else np.arange(rows.shape[0])
        # Seeds of their own make hold-outs and shuffles of all fits exchangeable, too.
        model.set_params(random_state=int(generator.randint(2**31 - 1)))
        statistics[i] = model.fit(rows[order[:n_p]], rows[order[n_p:]]).divergence_
    p_value = float(np.mean(statistics >= statistics[0]))
    return TwoSampleTest(float(statistics[0]), p_value, statistics[1:])
