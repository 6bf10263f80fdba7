"""The picture of a race: what the default expansion tried, and what it chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.display.drawing import (
    FAINT,
    PALETTE,
    draw_legend,
    literal_text,
    new_axes,
    short_ticks,
    tidy,
)
from mercer.inspection import race_table, way_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure

_NEEDED = ("form", "metric", "length", "error", "standard_error", "chosen")
_ROOM = 0.6  # height that the marks of a line take, in lines
_SPREAD = 10.0  # ratio of errors from which on they are shown on a logarithmic axis


class RaceDisplay:
    """Errors of the pilots of a race, with their standard errors; what was chosen stands out.

    There is a line for each form of the function, family of kernels and map of the inputs, with a
    mark for each length scale that was tried. Errors are on rows that the pilots were not fitted
    to. Compare errors within a form; pilots of different forms have different sizes.

    Parameters
    ----------
    entries : sequence of mappings
        One mapping per pilot: ``form``, ``metric``, ``length``, ``error``, ``standard_error`` and
        ``chosen``, as in :meth:`from_estimator`; ``family`` defaults to the family of Gaussian
        kernels.

    Attributes
    ----------
    lines : list of (str, str)
        Form, and kernel and map, of each line; the best first.
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    errorbars_ : list of matplotlib ErrorbarContainer
        Marks of all pilots and, if there are any, of the chosen ones.

    Raises
    ------
    ValueError
        If there are no entries, or an entry lacks a value.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> entry = {"form": "global", "metric": "standardized", "length": 1.0, "error": 0.2,
    ...          "standard_error": 0.01, "chosen": True}
    >>> display = RaceDisplay(entries=[entry, {**entry, "error": 0.3, "chosen": False}])
    >>> display.plot(Figure().subplots()).lines
    [('global', 'gaussian, standardized')]
    """

    ax_: Axes
    figure_: Figure
    errorbars_: list[ErrorbarContainer]

    def __init__(self, *, entries: Sequence[Mapping[str, Any]]) -> None:
        if not entries:
            raise ValueError(
                "The race has no entries, so there is nothing to draw. Pass those of a model whose "
                "kernel was raced: with `kernel='auto'` and `expansion='auto'`."
            )
        for entry in entries:
            missing = [name for name in _NEEDED if name not in entry]
            if missing:
                raise ValueError(
                    f"Every entry of a race must have the keys {', '.join(_NEEDED)}; one lacks "
                    f"{', '.join(missing)}."
                )
        self.entries = [dict(entry) for entry in entries]
        best: dict[tuple[str, str], float] = {}
        for entry in self.entries:
            line = str(entry["form"]), way_of(entry)
            best[line] = min(best.get(line, np.inf), float(entry["error"]))
        self.lines = sorted(best, key=lambda line: (line[0], best[line]))

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.

        Returns
        -------
        self : RaceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        chosen = np.array([bool(entry["chosen"]) for entry in self.entries])
        self.errorbars_ = []
        if not chosen.all():
            self._marks(~chosen, color=FAINT, marker="o", markersize=3.5, label="tried")
        if chosen.any():
            self._marks(chosen, color=PALETTE[0], marker="D", markersize=5, label="in the model")
        names = [literal_text(f"{form}: {way}", max_length=52) for form, way in self.lines]
        self.ax_.set_yticks(np.arange(len(names)), names)
        self.ax_.set_ylim(len(names) - 0.4, -0.6)
        errors = self._column("error")
        if errors.min() > 0.0 and errors.max() > _SPREAD * errors.min():
            self.ax_.set_xscale("log")
        short_ticks(self.ax_.xaxis)
        self.ax_.set_xlabel("Mean squared error on rows not fitted", loc="right")
        tidy(self.ax_, grid=False)
        self.ax_.set_axisbelow(True)
        self.ax_.grid(axis="x", linewidth=0.6, alpha=0.45)
        self.ax_.tick_params(axis="y", length=0)
        draw_legend(self.ax_)
        return self

    def _marks(self, which: NDArray[np.bool_], **style: Any) -> None:
        self.errorbars_.append(
            self.ax_.errorbar(
                self._column("error")[which],
                self._heights()[which],
                xerr=self._column("standard_error")[which],
                linestyle="none",
                elinewidth=1.0,
                **style,
            )
        )

    def _heights(self) -> NDArray[np.float64]:
        """Where the marks are: on their line, one below the other in the order of their errors."""
        at = np.array([self.lines.index((str(e["form"]), way_of(e))) for e in self.entries])
        heights = at.astype(float)
        for line in range(len(self.lines)):
            ours = np.flatnonzero(at == line)
            ranks = np.argsort(np.argsort(self._column("error")[ours])) + 0.5
            heights[ours] += _ROOM * (ranks / ours.size - 0.5)
        return heights

    def _column(self, name: str) -> NDArray[np.float64]:
        return np.array([entry[name] for entry in self.entries], dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the race of a fitted estimator of the default expansion.

        Parameters
        ----------
        estimator : estimator with ``race_``, or a Pipeline that ends in one
            What has been fitted.
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.

        Returns
        -------
        display : RaceDisplay

        Raises
        ------
        ValueError
            If there was no race.
        """
        return cls(entries=race_table(estimator)).plot(ax)
