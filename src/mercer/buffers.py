"""Buffers: which past rows a new one is paired with.

A buffer has numbered places. Every row goes to a place, replacing the row there, or to none. The
choice depends only on earlier rows and their labels, not on what was learned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.component import Component
from mercer.numerics.philox import row_uniforms
from mercer.validation import integer, parameters

__all__ = ["FIFO", "Buffer", "Everything", "PerClassFIFO", "Reservoir", "as_buffer"]

Places = NDArray[np.int64]


class Buffer(Component, ABC):
    """Base of the buffers.

    Attributes
    ----------
    per_class : bool
        Whether each of two classes has its own places, which needs binary labels.
    capacity : int or None
        Number of places; None for no limit.
    """

    per_class: bool = False

    @property
    @abstractmethod
    def capacity(self) -> int | None:
        """Number of places; None for no limit."""

    @abstractmethod
    def places(self, positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
        """Where rows go.

        Parameters
        ----------
        positive : ndarray of shape (n,) of bool
            Whether each row is of the positive class.
        counts : tuple of int
            Rows of the negative and of the positive class that came before.

        Returns
        -------
        places : ndarray of shape (n,) of int64
            Place of each row, -1 for none.
        """


class _Sized(Buffer):
    """A buffer of a number of places, or of as many for each class."""

    _parameters = parameters(size=integer(low=1, why="A row needs others to be paired with."))

    def __init__(self, size: int) -> None:
        self.size = size
        self._check()

    @property
    def capacity(self) -> int:
        return int(self.size) * (2 if self.per_class else 1)


class FIFO(_Sized):
    """The rows that came last.

    Parameters
    ----------
    size : int, default=50
        Number of rows kept.

    Examples
    --------
    >>> FIFO(2).places(np.array([True, True, False]), (0, 0))
    array([0, 1, 0])
    """

    def __init__(self, size: int = 50) -> None:
        super().__init__(size)

    def places(self, positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
        return (sum(counts) + np.arange(positive.size)) % int(self.size)


class PerClassFIFO(_Sized):
    """The rows of each of two classes that came last: rare ones are not crowded out.

    Parameters
    ----------
    size : int, default=10
        How many of each class; 1 pairs a row with the latest one of the other class.

    Examples
    --------
    >>> PerClassFIFO(2).places(np.array([True, True, False, True]), (0, 0))
    array([2, 3, 0, 2])
    """

    per_class = True

    def __init__(self, size: int = 10) -> None:
        super().__init__(size)

    def places(self, positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
        return _within_class(positive, counts) % int(self.size) + int(self.size) * positive


def _check_per_class(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")


class Reservoir(_Sized):
    """A uniform sample of all rows so far, or of each class's rows.

    It is worse than the rows that came last (``docs/reproduction.md``, yz-buffers): it holds the
    same points for long, so that they are fitted closely. For comparison.

    Parameters
    ----------
    size : int, default=50
        Number of rows kept.
    per_class : bool, default=False
        Whether that many of each of two classes.

    References
    ----------
    Kar et al. (2013), On the generalization ability of online learning algorithms for pairwise
    loss functions, and Zhao et al. (2011), Online AUC maximization, use reservoirs.

    Examples
    --------
    >>> Reservoir(2).places(np.ones(6, dtype=bool), (0, 0)).tolist()[:2]
    [0, 1]
    """

    _parameters = parameters(**_Sized._parameters, per_class=_check_per_class)

    def __init__(self, size: int = 50, per_class: bool = False) -> None:
        self.per_class = per_class
        super().__init__(size)

    def places(self, positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
        size, rows = int(self.size), sum(counts) + np.arange(positive.size)
        number = _within_class(positive, counts) if self.per_class else rows
        drawn = (row_uniforms(sum(counts), positive.size) * (number + 1)).astype(np.int64)
        places = np.where(number < size, number, np.where(drawn < size, drawn, -1))
        return np.where((places >= 0) & positive & bool(self.per_class), places + size, places)


class Everything(Buffer):
    """All rows so far: the algorithm of the paper.

    Memory grows like the square of the number of rows with an expansion that keeps all points, and
    so does the time of a step: for a few thousand rows.

    Examples
    --------
    >>> Everything().places(np.array([True, False]), (3, 4))
    array([7, 8])
    """

    @property
    def capacity(self) -> None:
        """None: there is no limit."""
        return None

    def places(self, positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
        return np.asarray(sum(counts) + np.arange(positive.size), dtype=np.int64)


def _within_class(positive: NDArray[np.bool_], counts: tuple[int, int]) -> Places:
    """Count the rows of its class before each row."""
    own = np.where(positive, np.cumsum(positive), np.cumsum(~positive)) - 1
    return own + np.where(positive, counts[1], counts[0])


def as_buffer(value: Any) -> Buffer:
    """Turn a buffer, a number or a name into a buffer.

    Parameters
    ----------
    value : Buffer, int or {"all", "previous"}
        A number n is ``PerClassFIFO(n)``, "previous" ``PerClassFIFO(1)``, "all"
        :class:`Everything`.

    Raises
    ------
    ValueError
        If ``value`` is of another kind.

    Examples
    --------
    >>> as_buffer(5)
    PerClassFIFO(size=5)
    """
    if isinstance(value, Buffer):
        return value
    if isinstance(value, str) and value in ("all", "previous"):
        return Everything() if value == "all" else PerClassFIFO(1)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return PerClassFIFO(int(value))
    raise ValueError(
        "`buffer` must be 'auto', a number of rows to keep of each of two classes, 'all', "
        "'previous', or one of PerClassFIFO, FIFO, Reservoir and Everything of mercer.buffers, "
        f"got {value!r}."
    )
