"""What happened while learning, in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.records import IfAny, Numbers, Record, Recorded, Several
from mercer.validation import integer

__all__ = ["History"]

Array = NDArray[np.float64]

_CAPACITY = 1024
_COLUMNS = 5
_MOST_CHANGES = 1000


class History(Recorded):
    """Progressive loss, model order and compression error over the stream.

    Records cover windows of equally many steps. When there are 1,024 of them, neighbours are
    merged and windows twice as long follow, so memory stays constant on an endless stream.

    Attributes
    ----------
    n_samples : ndarray of int64
        Rows learned up to the end of each window.
    loss : ndarray
        Mean loss of the window's rows, each before it was learned (test-then-train).
    model_order : ndarray of int64
        Model order at the end of the window.
    compression_error : ndarray
        Largest RKHS error of a step's compression in the window, for the current iterate; averages
        are refitted in the same way. An upper bound for ``Budget`` and ``Full(max_size)``.
    step_size : ndarray
        Step size at the end of the window.
    monitors : dict of str to ndarray
        Mean over the window's rows of further numbers that the objective records. For a risk: the
        share of rows in which a safeguard acted (``"clipped_fraction"``, ``"clamped_fraction"``),
        the tracked inner value, the value at risk. For :class:`~mercer.expansions.Stream`: the
        weight of each kind of model. Empty for plain losses.
    changes : ndarray of int64
        Rows after which a change of the stream was detected, the last 1,000 of them, for models
        that detect changes.

    Parameters
    ----------
    monitors : tuple of str, default=()
        Names of the further numbers that every step records.
    """

    _record = Record(
        numbers=Record(
            steps_per_record=integer(low=1),
            _open_steps=integer(low=0),
            _changes=IfAny(Several(integer(low=0)), ()),
        ),
        arrays=Record(_records=Numbers("n_records", "_width"), _open=Numbers("_width")),
    ).where(
        "The records of the history do not fit together.",
        lambda it: len(it["_records"]) < _CAPACITY and it["_open_steps"] < it["steps_per_record"],
    )

    def __init__(self, monitors: tuple[str, ...] = ()) -> None:
        self.steps_per_record = 1
        self._names = tuple(monitors)
        self._width = _COLUMNS + len(self._names)
        # Columns: rows in the window, sum of losses, model order, largest error, step size, and
        # the sum over rows of each monitor.
        self._records = np.zeros((_CAPACITY, self._width))
        self._n_records = 0
        self._open = np.zeros(self._width)
        self._open_steps = 0
        self._changes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self._n_records

    def __repr__(self) -> str:
        if not self._n_records:
            return "History(empty)"
        return (
            f"History({self._n_records} records, {int(self.n_samples[-1])} rows, "
            f"loss {self.loss[-1]:.4g}, model order {int(self.model_order[-1])})"
        )

    def add(
        self,
        rows: NDArray[np.int64],
        losses: Array,
        model_orders: NDArray[np.int64],
        errors: Array,
        step_sizes: Array,
        monitors: Array | None = None,
    ) -> None:
        """Record steps.

        Parameters
        ----------
        rows : ndarray of shape (n_steps,)
            Rows of each step.
        losses : ndarray of shape (n_steps,)
            Sum of the losses of each step's rows.
        model_orders, errors, step_sizes : ndarray of shape (n_steps,)
            After each step.
        monitors : ndarray of shape (n_steps, n_monitors), default=None
            What the objective watches, a mean over the rows of each step.
        """
        start, n_steps = 0, rows.size
        watched = np.zeros((n_steps, 0)) if monitors is None else monitors * rows[:, np.newaxis]
        while start < n_steps:
            room = self.steps_per_record - self._open_steps
            if room > n_steps - start or self._open_steps:
                stop = min(start + room, n_steps)
                window = slice(start, stop)
                self._open[0] += rows[window].sum()
                # Sums are taken in order, however the stream is cut.
                for loss in losses[window].tolist():
                    self._open[1] += loss
                for values in watched[window] if watched.size else ():
                    self._open[_COLUMNS:] += values
                self._open[2] = model_orders[stop - 1]
                self._open[3] = max(self._open[3], errors[window].max())
                self._open[4] = step_sizes[stop - 1]
                self._open_steps += stop - start
                start = stop
                if self._open_steps == self.steps_per_record:
                    self._close(self._open[np.newaxis])
                    self._open = np.zeros(self._width)
                    self._open_steps = 0
                continue
            # Whole windows at once, as many as fit before neighbours must be merged.
            n = self.steps_per_record
            count = min((n_steps - start) // n, _CAPACITY - self._n_records)
            window = slice(start, start + count * n)
            block = np.empty((count, self._width))
            block[:, 0] = rows[window].reshape(count, n).sum(axis=1)
            block[:, 1] = np.cumsum(losses[window].reshape(count, n), axis=1)[:, -1]
            block[:, 2] = model_orders[window].reshape(count, n)[:, -1]
            block[:, 3] = errors[window].reshape(count, n).max(axis=1)
            block[:, 4] = step_sizes[window].reshape(count, n)[:, -1]
            watching = watched[window].reshape(count, n, self._width - _COLUMNS)
            block[:, _COLUMNS:] = np.cumsum(watching, axis=1)[:, -1]
            start += count * n
            self._close(block)

    def add_one(
        self,
        loss: float,
        model_order: int,
        error: float,
        step_size: float,
        monitors: Array | None = None,
    ) -> None:
        """Record one step of one row, without the cost of arrays."""
        window = self._open
        window[0] += 1.0
        window[1] += loss
        window[2] = model_order
        if error > window[3]:
            window[3] = error
        window[4] = step_size
        if monitors is not None:
            window[_COLUMNS:] += monitors
        self._open_steps += 1
        if self._open_steps == self.steps_per_record:
            self._close(window[np.newaxis])
            self._open = np.zeros(self._width)
            self._open_steps = 0

    def note_change(self, n_rows: int) -> None:
        """Record that a change of the stream was detected after ``n_rows`` rows."""
        self._changes = (*self._changes[1 - _MOST_CHANGES :], int(n_rows))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Of a pickle that is mapped from a file for reading: a question may be noted, too.
        for name, value in state.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)

    def _close(self, block: Array) -> None:
        n = self._n_records
        self._records[n : n + len(block)] = block
        self._n_records = n + len(block)
        if self._n_records < _CAPACITY:
            return
        pairs = self._records.reshape(_CAPACITY // 2, 2, self._width)
        merged = pairs[:, 1].copy()
        merged[:, :2] = pairs[:, :, :2].sum(axis=1)
        merged[:, 3] = pairs[:, :, 3].max(axis=1)
        merged[:, _COLUMNS:] = pairs[:, :, _COLUMNS:].sum(axis=1)
        self._records[: _CAPACITY // 2] = merged
        self._n_records = _CAPACITY // 2
        self.steps_per_record *= 2

    @property
    def _used(self) -> Array:
        used = self._records[: self._n_records]
        if self._open_steps:
            used = np.vstack([used, self._open])
        return used

    @property
    def n_samples(self) -> NDArray[np.int64]:
        """Rows learned up to the end of each window."""
        return np.cumsum(self._used[:, 0]).astype(np.int64)

    @property
    def loss(self) -> Array:
        """Mean progressive loss of each window."""
        used = self._used
        return np.asarray(used[:, 1] / np.maximum(used[:, 0], 1.0))

    @property
    def model_order(self) -> NDArray[np.int64]:
        """Model order at the end of each window."""
        return self._used[:, 2].astype(np.int64)

    @property
    def compression_error(self) -> Array:
        """Largest compression error of each window, in RKHS norm."""
        return self._used[:, 3].copy()

    @property
    def step_size(self) -> Array:
        """Step size at the end of each window."""
        return self._used[:, 4].copy()

    @property
    def changes(self) -> NDArray[np.int64]:
        """Rows after which the losses said that the stream had changed."""
        return np.array(self._changes, dtype=np.int64)

    @property
    def monitors(self) -> dict[str, Array]:
        """What the objective watches, by name: its mean over the rows of each window."""
        used = self._used
        means = used[:, _COLUMNS:] / np.maximum(used[:, :1], 1.0)
        return {name: means[:, i].copy() for i, name in enumerate(self._names)}

    @property
    def _values(self) -> dict[str, Any]:
        return {**vars(self), "_records": self._records[: self._n_records]}

    def _adopt(self, values: dict[str, Any]) -> None:
        records = values.pop("_records")
        super()._adopt(values)
        self._n_records = len(records)
        self._records[: self._n_records] = records
