"""What a model of tables does for rankings only: groups, and classes known from the start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mercer.data import TablePreprocessor
from mercer.exceptions import NothingLearnedWarning

__all__ = ["check_group", "first_classes", "warn_if_no_pairs"]


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


def warn_if_no_pairs(model: Any, n_rows: int, shuffle_buffer: int) -> None:
    """Warn if a ranking has learned nothing, because no row met one to be compared with.

    Parameters
    ----------
    model : TableModel
        After its training; no ranking is fine, too.
    n_rows : int
        Rows that it learned.
    shuffle_buffer : int
        Rows shuffled at a time.

    Warns
    -----
    NothingLearnedWarning
        If all coefficients are 0.
    """
    if model.task != "rank" or np.any(model.estimator.coefficients_):
        return
    other = "" if model.estimator.pair_label == "same" else f" with another {model.target!r}"
    if model.group is None:
        why = f"a row is paired with an earlier one{other}, and there was none in the buffer"
        mend = "Give data whose target has several values, in mixed order, or a larger `buffer`"
    else:
        why = (
            f"a row is paired with an earlier one of its {model.group!r}{other}, and there was "
            "none in the buffer"
        )
        mend = (
            "If hardly two rows have the same value there, it is no column of groups: name another "
            "as `group`, or leave it out. If the rows of a group are far apart in the data, raise "
            f"`shuffle_buffer` ({shuffle_buffer:,} rows) above that distance, or sort the data by "
            "the group"
        )
    warnings.warn(
        f"The ranking has learned nothing from {n_rows:,} rows, and its values are all 0: {why}. "
        f"{mend}.",
        NothingLearnedWarning,
        stacklevel=3,
    )
