"""The picture of a model with one input; public through :mod:`mercer.display`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer.display._inputs import check_inputs, grid_range, like_frame
from mercer.display.drawing import (
    PALETTE,
    draw_legend,
    foreground,
    literal_text,
    new_axes,
    subsample,
    tidy,
)
from mercer.inspection import final_model, input_dictionary, output_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["RegressionCurveDisplay"]


class RegressionCurveDisplay:
    """The prediction of a model over its one input, with the data and the dictionary.

    Several outputs, such as the levels of a quantile loss, are several curves. Ticks along the
    bottom are the dictionary points.

    Parameters
    ----------
    x : array-like of shape (n_grid,)
        Grid along the input, increasing.
    prediction : array-like of shape (n_grid,) or (n_grid, n_outputs)
        Prediction on the grid.
    standard_deviation : array-like of shape (n_grid,), default=None
        Standard deviation of the prediction: the band is two of them on either side of the first
        curve.
    X : array-like of shape (n_samples,) or (n_samples, 1), default=None
        Inputs of the data.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        Targets of the data.
    dictionary : array-like of shape (model_order,) or (model_order, 1), default=None
        Inputs to mark.
    labels : sequence of str, default=None
        Names of the curves.
    feature_name, target_name : str, default="x0" and "y"
        Labels of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.
    lines_ : list of matplotlib Line2D
        The curves, one per output.

    Raises
    ------
    ValueError
        If the numbers of rows or labels differ.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> x = np.linspace(0, 1, 50)
    >>> curves = np.column_stack([x - 1, x + 1])
    >>> display = RegressionCurveDisplay(x=x, prediction=curves, labels=["10 %", "90 %"])
    >>> len(display.plot(Figure().subplots()).lines_)
    2
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Any]

    def __init__(
        self,
        *,
        x: ArrayLike,
        prediction: ArrayLike,
        standard_deviation: ArrayLike | None = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        dictionary: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        feature_name: str = "x0",
        target_name: str = "y",
    ) -> None:
        self.x = np.asarray(x, dtype=float).ravel()
        prediction = np.asarray(prediction, dtype=float)
        self.prediction = prediction.reshape(len(prediction), -1)
        self.standard_deviation = (
            None if standard_deviation is None else np.asarray(standard_deviation, dtype=float)
        )
        self.X = None if X is None else np.asarray(X, dtype=float).ravel()
        self.y = None if y is None else np.asarray(y, dtype=float)
        self.dictionary = (
            None if dictionary is None else np.asarray(dictionary, dtype=float).ravel()
        )
        n_curves = self.prediction.shape[1]
        if labels is None:
            labels = output_labels(None, n_curves)
        self.labels, self.feature_name, self.target_name = list(labels), feature_name, target_name
        if len(self.prediction) != len(self.x) or len(self.labels) != n_curves:
            raise ValueError(
                f"`prediction` must have one row per point of `x` and one column per label, got "
                f"shape {self.prediction.shape} for {len(self.x)} points and "
                f"{len(self.labels)} labels."
            )

    def plot(self, ax: Axes | None = None, *, max_points: int = 1500, **line_kwargs: Any) -> Self:
        """Draw the curves, the data and the dictionary.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_points : int, default=1500
            Draw an even sample of at most so many data.
        **line_kwargs
            Passed to ``ax.plot`` for every curve.

        Returns
        -------
        self : RegressionCurveDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        n_curves = self.prediction.shape[1]
        if self.X is not None and self.y is not None:
            rows = subsample(len(self.X), max_points)
            y = self.y[rows].reshape(len(rows), -1)
            for j in range(y.shape[1]):
                # Each target wears the colour of its curve; a target shared by all is neutral.
                own = n_curves == y.shape[1] > 1
                self.ax_.scatter(
                    self.X[rows],
                    y[:, j],
                    s=9,
                    color=PALETTE[j % len(PALETTE)] if own else foreground(self.ax_),
                    alpha=0.3,
                    linewidths=0,
                    label="data" if j == 0 else None,
                )
        self.lines_ = []
        for j, label in enumerate(self.labels):
            style = {"color": PALETTE[j % len(PALETTE)], "linewidth": 2.0, **line_kwargs}
            curve = self.prediction[:, j]
            self.lines_ += self.ax_.plot(self.x, curve, label=literal_text(label), **style)
        if self.standard_deviation is not None:
            centre, spread = self.prediction[:, 0], 2.0 * self.standard_deviation
            self.ax_.fill_between(
                self.x,
                centre - spread,
                centre + spread,
                color=PALETTE[0],
                alpha=0.18,
                linewidth=0,
                label="± 2 std. dev.",
            )
        if self.dictionary is not None:
            self.ax_.plot(
                self.dictionary,
                np.full(len(self.dictionary), 0.025),
                linestyle="none",
                marker="|",
                markersize=9,
                color=PALETTE[3],
                transform=self.ax_.get_xaxis_transform(),
                label="dictionary point",
            )
        self.ax_.set_xlim(self.x[0], self.x[-1])
        self.ax_.set_xlabel(literal_text(self.feature_name, max_length=40))
        self.ax_.set_ylabel(literal_text(self.target_name, max_length=40))
        tidy(self.ax_)
        draw_legend(self.ax_)
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        grid_resolution: int = 400,
        labels: Sequence[str] | None = None,
        feature_name: str | None = None,
        target_name: str | None = None,
        ax: Axes | None = None,
        max_points: int = 1500,
        **line_kwargs: Any,
    ) -> Self:
        """Draw the curve of a fitted estimator over the range of ``X``.

        A model whose ``predict`` takes ``return_std`` also shows a band of two standard deviations.

        Parameters
        ----------
        estimator : fitted regressor, or a Pipeline that ends in one
            Model of one input.
        X : array-like or DataFrame of shape (n_samples, 1)
            Inputs that set the range and are drawn.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets of the data.
        grid_resolution : int, default=400
            Points of the curve.
        labels : sequence of str, default=None
            Names of the curves; the levels of a quantile loss, else numbers.
        feature_name, target_name : str, default=None
            Labels of the axes; the names of ``X`` and ``y`` if they have any.
        ax, max_points, **line_kwargs
            As in :meth:`plot`.

        Returns
        -------
        display : RegressionCurveDisplay

        Raises
        ------
        ValueError
            If the model has not exactly one input.
        """
        values, names = check_inputs(estimator, X, 1, cls.__name__)
        x = np.linspace(*grid_range(values, 0.02), grid_resolution)
        points = like_frame(X, x[:, None])
        spread = None
        if "return_std" in inspect.signature(final_model(estimator).predict).parameters:
            prediction, spread = estimator.predict(points, return_std=True)
        else:
            prediction = estimator.predict(points)
        prediction = np.reshape(prediction, (grid_resolution, -1))
        if labels is None:
            labels = output_labels(estimator, prediction.shape[1])
        display = cls(
            x=x,
            prediction=prediction,
            standard_deviation=spread,
            X=values,
            y=y,
            dictionary=input_dictionary(estimator),
            labels=labels,
            feature_name=names[0] if feature_name is None else feature_name,
            target_name=str(getattr(y, "name", None) or "y")
            if target_name is None
            else target_name,
        )
        return display.plot(ax, max_points=max_points, **line_kwargs)
