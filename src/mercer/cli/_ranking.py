"""Measures of rankings, added up chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mercer.buffers import FIFO, Buffer, Everything, PerClassFIFO, Reservoir
from mercer.cli._risk import LossTail
from mercer.cli._sample import RowSample
from mercer.estimators import TableModel
from mercer.kernels import PairKernel
from mercer.metrics import concordance, ndcg

__all__ = ["Rankings", "auc_standard_error", "describe_pairs", "has_pairs"]

Array = NDArray[np.float64]

_TOP = 10  # rows of a group that count for its discounted cumulative gain
_JUDGED = 20_000  # rows whose pairs are judged where rows have no scores


class Rankings:
    """Measures of a ranking: of its scores, or of its answers on pairs if it has no scores."""

    def __init__(self, model: TableModel) -> None:
        self.estimator: Any = model.estimator
        self.labels = self.estimator._labels
        self.tail: LossTail | None = None
        self.n_rows = 0
        self.sample = None if model.scores_rows else RowSample(_JUDGED)
        self.parts: list[tuple[Array, Array | None, Array]] = []  # scores, groups, numbers for y

    def add(self, X: NDArray[np.floating], y: NDArray[Any], group: Array | None = None) -> None:
        self.n_rows += len(y)
        # Labels that training did not have get numbers of their own, the same in every chunk.
        self.labels = self.labels.meet(y)
        if self.sample is not None:
            self.sample.add(X, y, group)
        else:
            scores = self.estimator.decision_function(X)
            self.parts.append((scores, group, self.labels.encode(y)))

    def measures(self) -> dict[str, float]:
        if self.sample is not None:
            return self._of_pairs(self.sample)
        scores, y = (np.concatenate([part[i] for part in self.parts]) for i in (0, 2))
        groups = [part[1] for part in self.parts if part[1] is not None]
        return _of_scores(y, scores, np.concatenate(groups) if groups else None)

    def _of_pairs(self, sample: RowSample) -> dict[str, float]:
        result: dict[str, float] = {}
        if len(sample.y) < self.n_rows:
            result["rows_judged"] = len(sample.y)
        codes = self.labels.encode(sample.y)
        same = self.estimator.pair_label == "same"
        if not (_has_both_kinds(codes, sample.group) if same else has_pairs(codes, sample.group)):
            return result
        name = "auc_of_pairs" if same else "concordance"
        result[name] = float(self.estimator.score(sample.X, sample.y, group=sample.group))
        return result

    def by_class(self) -> dict[str, dict[str, Any]]:
        return {}


def _of_scores(y: Array, scores: Array, group: Array | None) -> dict[str, float]:
    result: dict[str, float] = {}
    n_pairs = _count_pairs(y, group)
    if n_pairs:
        two = np.unique(y).size == 2 and group is None
        result["auc" if two else "concordance"] = concordance(y, scores, group)
        error = auc_standard_error(y == y.max(), scores) if two else np.nan
        if np.isfinite(error):
            result["auc_standard_error"] = error
    n_groups = 1 if group is None else np.unique(group).size
    if group is not None and n_groups < y.size:
        gains = (y == y.max()).astype(float) if np.unique(y).size == 2 else y
        if gains.min() >= 0.0:
            result[f"ndcg_at_{_TOP}"] = ndcg(gains, scores, group, k=_TOP)
    return {**result, "pairs": n_pairs, **({} if group is None else {"groups": n_groups})}


def _count_pairs(y: Array, group: Array | None) -> int:
    """Pairs of rows of one group with different y."""
    groups = np.zeros(y.size) if group is None else group
    together = np.unique(groups, return_counts=True)[1]
    tied = np.unique(np.column_stack([groups, y]), axis=0, return_counts=True)[1]
    return int((together * (together - 1) // 2).sum() - (tied * (tied - 1) // 2).sum())


def has_pairs(y: Array, group: Array | None) -> bool:
    """Whether two rows of one group have different y."""
    return _count_pairs(y, group) > 0


def _has_both_kinds(y: Array, group: Array | None) -> bool:
    """Whether some rows of one group have the same y, and some have not."""
    cells = y[:, np.newaxis] if group is None else np.column_stack([group, y])
    return has_pairs(y, group) and len(np.unique(cells, axis=0)) < y.size


def auc_standard_error(positive: NDArray[np.bool_], scores: Array) -> float:
    """Say how far the area under a ROC curve is off for lack of rows, as a standard deviation.

    Parameters
    ----------
    positive : ndarray of shape (n_rows,) of bool
        Class of each row.
    scores : ndarray of shape (n_rows,)
        Their scores.

    Returns
    -------
    standard_error : float
        NaN with fewer than two rows of a class.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated
    receiver operating characteristic curves; computed by ranks as by Sun and Xu (2014).

    Examples
    --------
    >>> auc_standard_error(np.array([True, True, False, False]), np.array([4.0, 3.0, 2.0, 1.0]))
    0.0
    """
    variance = 0.0
    ranks = rankdata(scores)
    for own in (positive, ~positive):
        n = int(own.sum())
        if n < 2:
            return float("nan")
        # Share of the other class that each row is above, ties half.
        share = (ranks[own] - rankdata(scores[own])) / (own.size - n)
        variance += float(np.var(share, ddof=1)) / n
    return float(np.sqrt(variance))


def describe_pairs(model: Any) -> dict[str, Any]:
    """Say what a ranking learns from pairs; nothing for other models.

    Parameters
    ----------
    model : TableModel or kernel estimator
        A fitted model.
    """
    estimator: Any = model.estimator if isinstance(model, TableModel) else model
    if not hasattr(estimator, "predict_pair"):
        return {}
    return {
        "pair_kernel": _in_words(estimator._pair_kernel),
        "pair_label": str(estimator._parts["pair_label"]),
        "buffer": _rows_held(estimator.buffer_),
        "normalize": str(estimator._parts["normalize"]),
        "group": getattr(model, "group", None) or "none: all rows are compared",
    }


def _in_words(kernel: PairKernel) -> str:
    """Pattern of a pair kernel, by its name if it has one.

    Examples
    --------
    >>> _in_words(PairKernel()), _in_words(PairKernel([[1, 0], [0, 1]], bias=0.5))
    ('difference', '[[1.0, 0.0], [0.0, 1.0]], bias 0.5')
    """
    pattern = kernel.pattern if isinstance(kernel.pattern, str) else str(kernel.weights.tolist())
    return f"{pattern}, bias {kernel.bias:g}" if kernel.bias else pattern


def _rows_held(buffer: Buffer) -> str:
    """Say which rows a new one is paired with.

    Examples
    --------
    >>> _rows_held(FIFO()), _rows_held(PerClassFIFO(1))
    ('the last 50 rows', 'the last row of each class')
    >>> _rows_held(Reservoir(100)), _rows_held(Everything())
    ('100 rows drawn from those before', 'all rows before')
    """
    if isinstance(buffer, Everything):
        return "all rows before"
    if not isinstance(buffer, FIFO | PerClassFIFO | Reservoir):
        return repr(buffer)
    n = int(buffer.size)
    rows = ("row" if n == 1 else "rows") + (" of each class" if buffer.per_class else "")
    if isinstance(buffer, Reservoir):
        return f"{n:,} {rows} drawn from those before"
    return f"the last {rows}" if n == 1 else f"the last {n:,} {rows}"
