"""Checks of rows and options that maps and kernels share."""

from __future__ import annotations

from typing import Any

from mercer.features._base import FeatureOptions

__all__ = ["check_domain", "require_iid"]


def check_domain(X: Any, kernel: str, low: float = 0.0, *, open_low: bool = False) -> None:
    """Refuse rows with a number below ``low``; NaN passes, as everywhere in kernels.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows.
    kernel : str
        Name of the kernel, for the message.
    low : float, default=0.0
        Least number that is allowed.
    open_low : bool, default=False
        Whether ``low`` itself is refused too.

    Raises
    ------
    ValueError
        If a number is too small; names its column, row and value.

    Examples
    --------
    >>> import numpy as np
    >>> check_domain(np.array([[0.0, 1.0]]), "ChiSquared")
    """
    outside = low >= X if open_low else low > X
    if not outside.any():
        return
    row, column = (int(i) for i in divmod(int(outside.argmax()), X.shape[1]))
    relation = "above" if open_low else "at least"
    raise ValueError(
        f"{kernel} takes numbers {relation} {low:g} only, got {float(X[row, column]):g} in column "
        f"{column} (row {row}): it is not defined there. Shift or rescale the column into that "
        "range, for example to [0, 1], or use another kernel."
    )


def require_iid(options: FeatureOptions, kernel: str) -> None:
    """Refuse an explicit design where features know independent draws only.

    Parameters
    ----------
    options : FeatureOptions
        How features are to be drawn.
    kernel : str
        Name of the kernel, for the message.

    Raises
    ------
    ValueError
        If the design is neither "iid" nor "auto".
    """
    if options.design not in ("iid", "auto"):
        raise ValueError(
            f"`design` must be 'iid' or 'auto' for {kernel}, got {options.design!r}: its features "
            "are not cosines of frequencies that could be spread evenly."
        )
