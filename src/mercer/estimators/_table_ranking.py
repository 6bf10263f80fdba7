"""What a model of tables does for rankings only: groups, and classes known from the start."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import clone

from mercer.data import TablePreprocessor

__all__ = ["check_group", "first_classes"]


def check_group(group: str | None, target: str | None, ranks: bool, columns: Any) -> None:
    """Raise ``ValueError`` unless a column can say which rows are compared.

    Parameters
    ----------
    group, target : str or None
        Names of the columns.
    ranks : bool
        Whether the model is a ranking.
    columns : TablePreprocessor
        How columns become inputs.
    """
    if group is None:
        return
    if not ranks:
        raise ValueError(
            f"`group` is for rankings, which compare rows of a group, got {group!r} for a model of "
            "single rows. Leave it out, or use a KernelRanker, which task='rank' makes."
        )
    if group == target:
        raise ValueError(
            f"`group` and `target` must be two columns, got {group!r} for both: rows of a group "
            "would all have the same target, with nothing to compare."
        )
    if isinstance(columns, TablePreprocessor) and group not in columns.exclude:
        raise ValueError(
            f"The group {group!r} must be in the preprocessor's `exclude`, got "
            f"{tuple(columns.exclude)!r}: a number of a query says nothing of its rows."
        )


def first_classes(ranker: Any, y: NDArray[Any], grouped: bool) -> NDArray[Any] | None:
    """Two classes that the warm-up rows have, so that the first rows learned may lack one.

    Parameters
    ----------
    ranker : KernelRanker
        Not fitted yet; stays as it is.
    y : ndarray of shape (n_rows,)
        Targets of the warm-up rows.
    grouped : bool
        Whether rows have groups.

    Returns
    -------
    classes : ndarray of shape (2,) or None
        None where the ranker takes y for something else than two classes, or saw one only.

    Raises
    ------
    ValueError
        For targets that the ranker cannot learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRanker
    >>> first_classes(KernelRanker(), np.array(["no", "yes", "no"]), False).tolist()
    ['no', 'yes']
    """
    trial = clone(ranker)
    trial._choose_parts(y, None, grouped)
    labels = trial._labels
    return labels.classes if labels.kind == "two" and labels.classes.size == 2 else None
