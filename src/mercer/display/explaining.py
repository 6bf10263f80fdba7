"""Pictures of which columns matter, what they add, and how predictions depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.answers.explain import Dependence, Explanation
from mercer.columns.views import Levels, is_table, view_table
from mercer.display.drawing import (
    FAINT,
    PALETTE,
    draw_legend,
    foreground,
    format_number,
    literal_text,
    new_axes,
    short_text,
    short_ticks,
    subsample,
    tidy,
)
from mercer.inspection import final_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

_UP, _DOWN = PALETTE[0], PALETTE[3]
_LETTERS = 30  # of a name next to a bar
_CURVES = 40  # of single rows
_MIDDLE = 0.1, 0.9  # of the curves of single rows


def titled(quantity: str, output: Any) -> str:
    """Name what is explained, for an axis.

    Examples
    --------
    >>> titled("probability", "yes"), titled("prediction", None), titled("prediction", 0.5)
    ("Probability of 'yes'", 'Prediction', 'Prediction, 0.5')
    """
    if output is None:
        return quantity.capitalize()
    if quantity == "prediction":
        return f"Prediction, {output}"
    return f"{quantity.capitalize()} of {output!r}"


def _across(ax: Axes, names: Sequence[str]) -> None:
    """Write names next to lines from the top down, and keep only what helps to read values."""
    ax.set_yticks(np.arange(len(names)), [literal_text(name, _LETTERS) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    tidy(ax, grid=False)
    ax.set_axisbelow(True)
    ax.grid(axis="x", linewidth=0.6, alpha=0.45)
    ax.tick_params(axis="y", length=0)


def _few(names: Sequence[str], values: Array, most: int) -> tuple[list[str], Array, int]:
    """Take the values furthest from 0, and the sum of the others; return how many these are."""
    order = np.argsort(-np.abs(values), kind="stable")
    if len(order) <= most:
        return [names[i] for i in order], values[order], 0
    first, rest = order[: most - 1], order[most - 1 :]
    shown = [*(names[i] for i in first), f"{len(rest):,} other columns"]
    return shown, np.append(values[first], values[rest].sum()), len(rest)


def _brief(value: float) -> str:
    """Write a number with three digits, thousands grouped.

    Examples
    --------
    >>> _brief(37.3142), _brief(-0.05838), _brief(123456.0)
    ('37.3', '-0.0584', '123,456')
    """
    return f"{value:,.0f}" if 100.0 <= abs(value) < 1e9 else f"{value:.3g}"


def _transformed(estimator: Any, X: Any) -> Any:
    """Return rows as the last step of a Pipeline gets them."""
    return estimator[:-1].transform(X) if hasattr(estimator, "steps") else X


class ImportanceDisplay:
    """Bars of how much the prediction varies with each column, the longest first.

    Parameters
    ----------
    importances : array-like of shape (n_columns,)
        Shares of the columns.
    feature_names : sequence of str
        Names of the columns.
    standard_errors : array-like of shape (n_columns,), default=None
        How far the shares may be off; thin lines through the ends of the bars show twice as much.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    bars_ : matplotlib BarContainer
        The bars.

    Raises
    ------
    ValueError
        If there are not as many names or standard errors as importances.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ImportanceDisplay(importances=[0.2, 0.8], feature_names=["age", "town"])
    >>> [text.get_text() for text in display.plot(Figure().subplots()).ax_.get_yticklabels()]
    ['town', 'age']
    """

    ax_: Axes
    figure_: Figure
    bars_: Any

    def __init__(
        self,
        *,
        importances: ArrayLike,
        feature_names: Sequence[str],
        standard_errors: ArrayLike | None = None,
    ) -> None:
        self.importances = np.asarray(importances, dtype=float)
        self.feature_names = [str(name) for name in feature_names]
        if self.importances.shape != (len(self.feature_names),):
            raise ValueError(
                "`importances` must hold one number for each name, got shape "
                f"{self.importances.shape} for {len(self.feature_names)} names."
            )
        given = np.zeros_like(self.importances) if standard_errors is None else standard_errors
        self.standard_errors = np.asarray(given, dtype=float)
        if self.standard_errors.shape != self.importances.shape:
            raise ValueError(
                "`standard_errors` must hold one number for each importance, got shape "
                f"{self.standard_errors.shape} for {self.importances.size}."
            )

    def plot(self, ax: Axes | None = None, *, max_columns: int = 15) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_columns : int, default=15
            Largest number of bars; if there are more columns, the last bar is the sum of the
            others.

        Returns
        -------
        self : ImportanceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        names, shares, others = _few(self.feature_names, self.importances, max_columns)
        colours = [PALETTE[0]] * len(names)
        if others:
            colours[-1] = FAINT
        places = np.arange(len(names))
        self.bars_ = self.ax_.barh(places, 100.0 * shares, height=0.7, color=colours)
        # Of the sum of the others no error is known: they are not independent.
        order = np.argsort(-self.importances, kind="stable")[: len(names) - bool(others)]
        off = np.zeros(len(names))
        off[: len(order)] = 200.0 * self.standard_errors[order]
        low = np.maximum(100.0 * shares - off, 0.0)
        self.ax_.hlines(
            places, low, 100.0 * shares + off, color=foreground(self.ax_), linewidth=1.0, alpha=0.7
        )
        for place, share, end in zip(places, 100.0 * shares, 100.0 * shares + off, strict=True):
            text = f"{share:.0f} %" if share >= 1.0 or share == 0.0 else f"{share:.1g} %"
            text = "< 0.1 %" if 0.0 < share < 0.1 else text
            self.ax_.annotate(
                text,
                (end, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=foreground(self.ax_),
                fontsize="small",
            )
        _across(self.ax_, names)
        self.ax_.set_xlim(0.0, max(1.15 * float(np.max(100.0 * shares + off, initial=0.0)), 1.0))
        lines = ", lines: 2 standard errors" if off.any() else ""
        self.ax_.set_xlabel(f"Share of how the prediction varies (%{lines})", loc="right")
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, max_columns: int = 15
    ) -> Self:
        """Draw the ``feature_importances_`` of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator, model of a table, or a Pipeline that ends in an estimator
            The model; of a Pipeline columns are those that its last step gets.
        ax, max_columns
            As in :meth:`plot`.

        Returns
        -------
        display : ImportanceDisplay

        Raises
        ------
        AttributeError
            If it has no importances.
        """
        model = final_model(estimator)
        found = cls(
            importances=model.feature_importances_,
            feature_names=model._explained().names,
            standard_errors=model.feature_importances_errors_,
        )
        return found.plot(ax, max_columns=max_columns)


class ExplanationDisplay:
    """Steps from the mean prediction to the prediction for one row, column by column.

    Bars are ordered by size of the change, largest first, from the mean for the background rows at
    the top to the prediction at the bottom.

    Parameters
    ----------
    explanation : Explanation
        What ``explain`` returned.
    row : int, default=0
        Number of the row.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    bars_ : matplotlib BarContainer
        The bars.

    Raises
    ------
    ValueError
        If the row does not exist.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> import numpy as np
    >>> told = Explanation(np.array([[2.0, -1.0]]), 5.0, np.array([6.0]), np.zeros((1, 2)),
    ...                    ["age", "town"], None, "prediction", [[30.0, 1.0]])
    >>> display = ExplanationDisplay(explanation=told).plot(Figure().subplots())
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['age = 30', 'town = 1']
    """

    ax_: Axes
    figure_: Figure
    bars_: Any

    def __init__(self, *, explanation: Explanation, row: int = 0) -> None:
        if not 0 <= row < len(explanation.prediction):
            raise ValueError(
                f"`row` must be from 0 to {len(explanation.prediction) - 1}, as that many rows "
                f"were explained, got {row}."
            )
        self.explanation, self.row = explanation, row

    def plot(self, ax: Axes | None = None, *, max_columns: int = 10) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_columns : int, default=10
            Largest number of bars; if there are more columns, the last bar is the sum of the
            others.

        Returns
        -------
        self : ExplanationDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        told, row = self.explanation, self.row
        cells = cells_of(told.rows, row, told.feature_names)
        names = [
            name if cell is None else f"{literal_text(name, 20)} = {literal_text(cell, 16)}"
            for name, cell in zip(told.feature_names, cells, strict=True)
        ]
        shown, adds, _ = _few(names, told.contributions[row], max_columns)
        baseline = float(np.broadcast_to(told.baseline, told.prediction.shape)[row])
        ends = baseline + np.cumsum(adds)
        starts = np.append(baseline, ends[:-1])
        places = np.arange(len(shown))
        colours = [_UP if add >= 0.0 else _DOWN for add in adds]
        self.bars_ = self.ax_.barh(places, adds, left=starts, height=0.7, color=colours)
        # From each bar to the next one.
        self.ax_.vlines(
            ends[:-1], places[:-1], places[1:], color=foreground(self.ax_), linewidth=0.6, alpha=0.5
        )
        prediction = float(told.prediction[row])
        for value, style, text in (
            (baseline, "--", f"mean {_brief(baseline)}"),
            (prediction, "-", f"this row {_brief(prediction)}"),
        ):
            self.ax_.axvline(
                value,
                linestyle=style,
                linewidth=1.0,
                color=foreground(self.ax_),
                alpha=0.8,
                label=text,
            )
        low, high = np.min([*starts, *ends]), np.max([*starts, *ends])
        room = 0.26 * (high - low if high > low else 1.0)
        self.ax_.set_xlim(low - room, high + room)
        for place, start, add in zip(places, starts, adds, strict=True):
            sign = "+" if add >= 0.0 else "\N{MINUS SIGN}"
            right = add >= 0.0
            self.ax_.annotate(
                f"{sign}{_brief(abs(float(add)))}",
                (start + add, place),
                xytext=(4 if right else -4, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                va="center",
                fontsize="small",
                color=foreground(self.ax_),
                bbox={"facecolor": self.ax_.get_facecolor(), "edgecolor": "none", "pad": 0.6},
            )
        _across(self.ax_, shown)
        short_ticks(self.ax_.xaxis)
        output = told.output[row] if isinstance(told.output, list) else told.output
        self.ax_.set_xlabel(literal_text(titled(told.quantity, output), 60), loc="right")
        draw_legend(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        row: int = 0,
        output: Any = None,
        background: Any = None,
        ax: Axes | None = None,
        max_columns: int = 10,
    ) -> Self:
        """Explain a row by a fitted model, and draw it.

        Parameters
        ----------
        estimator : fitted estimator, model of a table, or a Pipeline that ends in an estimator
            The model.
        X : array-like, DataFrame or table
            Rows.
        row : int, default=0
            Index of the row.
        output, background
            As for ``explain`` of the model.
        ax, max_columns
            As in :meth:`plot`.

        Returns
        -------
        display : ExplanationDisplay

        Raises
        ------
        ValueError
            As ``explain``.
        """
        model, rows = final_model(estimator), _transformed(estimator, X)
        others = None if background is None else _transformed(estimator, background)
        told = model.explain(one_row(rows, row), output=output, background=others)
        return cls(explanation=told).plot(ax, max_columns=max_columns)


class DependenceDisplay:
    """How predictions depend on a column: the mean, and thin curves of single rows.

    For categories there is a mark for the mean of each, and a line from the first to the last
    decile of the single rows.

    Parameters
    ----------
    dependence : Dependence
        What ``partial_dependence`` returned.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from mercer import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> model = KernelRegressor(random_state=0).fit(X, X[:, 0] ** 2)
    >>> display = DependenceDisplay.from_estimator(model, 0, ax=Figure().subplots())
    >>> display.ax_.get_xlabel()
    'x0'
    """

    ax_: Axes
    figure_: Figure

    def __init__(self, *, dependence: Dependence) -> None:
        self.dependence = dependence

    def plot(self, ax: Axes | None = None, *, max_curves: int = _CURVES) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_curves : int, default=40
            Largest number of curves of single rows.

        Returns
        -------
        self : DependenceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        told = self.dependence
        title = literal_text(titled(told.quantity, told.output), 60)
        if told.kind == "category":
            low, high = np.quantile(told.individual, _MIDDLE, axis=0)
            places = np.arange(len(told.grid))
            self.ax_.hlines(
                places, low, high, color=PALETTE[5], linewidth=2.5, label="80 % of rows"
            )
            self.ax_.plot(told.values, places, "o", color=PALETTE[0], label="mean")
            _across(self.ax_, [str(value) for value in told.grid])
            short_ticks(self.ax_.xaxis)
            self.ax_.set_xlabel(title, loc="right")
            self.ax_.set_ylabel(literal_text(told.feature_name))
        else:
            rows = subsample(len(told.individual), max_curves)
            style: dict[str, Any] = {"color": foreground(self.ax_), "alpha": 0.18}
            for n, curve in enumerate(told.individual[rows]):
                label = "single rows" if n == 0 else None
                self.ax_.plot(told.grid, curve, linewidth=0.7, label=label, **style)
            self.ax_.plot(told.grid, told.values, color=PALETTE[0], linewidth=2.4, label="mean")
            if told.missing is not None:
                self.ax_.axhline(
                    told.missing, color=PALETTE[1], linewidth=1.6, linestyle=":", label="missing"
                )
            if told.background is not None:
                inside = (told.background >= told.grid[0]) & (told.background <= told.grid[-1])
                ticks = told.background[inside]
                self.ax_.plot(
                    ticks,
                    np.full(len(ticks), 0.01),
                    "|",
                    transform=self.ax_.get_xaxis_transform(),
                    markersize=6,
                    **{**style, "alpha": 0.5},
                )
            tidy(self.ax_)
            short_ticks(self.ax_.yaxis)
            self.ax_.set_ylabel(title)
            self.ax_.set_xlabel(literal_text(told.feature_name, 60), loc="right")
            if told.kind == "time":
                self.ax_.xaxis.set_tick_params(rotation=25)
            else:
                short_ticks(self.ax_.xaxis)
        draw_legend(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        feature: Any,
        *,
        grid_size: int = 40,
        output: Any = None,
        background: Any = None,
        ax: Axes | None = None,
        max_curves: int = _CURVES,
    ) -> Self:
        """Find the dependence of a fitted model on a column, and draw it.

        Parameters
        ----------
        estimator : fitted estimator, model of a table, or a Pipeline that ends in an estimator
            The model; of a Pipeline columns are those that its last step gets.
        feature : str or int
            Name or number of the column.
        grid_size, output, background
            As for ``partial_dependence`` of the model.
        ax, max_curves
            As in :meth:`plot`.

        Returns
        -------
        display : DependenceDisplay

        Raises
        ------
        ValueError
            As ``partial_dependence``.
        """
        others = None if background is None else _transformed(estimator, background)
        told = final_model(estimator).partial_dependence(
            feature, grid_size=grid_size, output=output, background=others
        )
        return cls(dependence=told).plot(ax, max_curves=max_curves)


def one_row(rows: Any, row: int) -> Any:
    """Return one row of some, as they were given."""
    if is_table(rows):
        if hasattr(rows, "iloc"):
            return rows.iloc[row : row + 1]
        if hasattr(rows, "slice"):
            return rows.slice(row, 1)
        return {name: column[row : row + 1] for name, column in rows.items()}
    return rows[row : row + 1]


def cells_of(rows: Any, row: int, names: Sequence[str]) -> list[str | None]:
    """Write what a row has in each column, in few letters; None where nobody knows."""
    if is_table(rows):
        view = view_table(rows)
        view = view.slice(row, row + 1)
        found: list[str | None] = []
        for name in names:
            column = view.column(name) if name in view.names else None
            if column is None:
                found.append(None)
            elif isinstance(column, Levels):
                code = int(column.codes[0])
                found.append("(missing)" if code < 0 else short_text(column.levels[code], 16))
            else:
                found.append(_number(float(column.values[0]), column.unit))
        return found
    cells = rows[row] if not hasattr(rows, "toarray") else rows[row].toarray().ravel()
    return [
        short_text(cell, 16) if isinstance(cell, str) else _number(_float(cell)) for cell in cells
    ]


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _number(value: float, unit: Any = None) -> str:
    if np.isnan(value):
        return "(missing)"
    if unit == "date":
        return str(np.datetime64(int(value), "s")).replace("T", " ").removesuffix(" 00:00:00")
    return format_number(value)
