"""Pictures of functions of one or two inputs; public through :mod:`mercer.display`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.display.drawing import (
    MARKERS,
    PALETTE,
    draw_legend,
    foreground,
    literal_text,
    new_axes,
    subsample,
    tidy,
)
from mercer.estimators.estimator import answering_numbers
from mercer.inspection import (
    final_model,
    input_dictionary,
    learns_pairs,
    output_labels,
    targets_in_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


def _like_frame(X: Any, values: Array) -> Any:
    """Give ``values`` the column names of the data frame ``X``, which the estimator expects."""
    return type(X)(values, columns=X.columns) if hasattr(X, "iloc") else values


def _check_inputs(estimator: Any, X: Any, n_inputs: int, picture: str) -> tuple[Array, list[str]]:
    """Check that the model has ``n_inputs`` inputs and return its data and their names."""
    values = np.asarray(X, dtype=float)
    n_features = getattr(estimator, "n_features_in_", values.shape[-1])
    if n_features != n_inputs or values.ndim != 2 or values.shape[1] != n_inputs:
        raise ValueError(
            f"{picture} draws models of {n_inputs} input{'s'[: n_inputs - 1]}, but the model has "
            f"{n_features} and `X` has shape {values.shape}. Fit a model on {n_inputs} of the "
            "columns for this picture, or use `mercer_app.report.figures_for`, which draws "
            "what fits."
        )
    names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
    return values, [str(n) for n in names] if names is not None else [
        f"x{j}" for j in range(n_inputs)
    ]


def _grid_range(values: Array, padding: float) -> tuple[float, float]:
    """Return the range of an input, extended on both sides."""
    low, high = float(values.min()), float(values.max())
    extra = padding * (high - low) if high > low else 1.0
    return low - extra, high + extra


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
        Standard deviation of the prediction: the band extends two of them to either side of the
        first curve.
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
            Largest number of data points to draw; more are thinned evenly.
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
            Names of the curves; default: levels of a quantile loss, or numbers.
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
        values, names = _check_inputs(estimator, X, 1, cls.__name__)
        if target_name is None:
            target_name = str(getattr(y, "name", None) or "y")
        estimator, y = answering_numbers(estimator), targets_in_numbers(estimator, y)
        x = np.linspace(*_grid_range(values, 0.02), grid_resolution)
        points = _like_frame(X, x[:, None])
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
            target_name=target_name,
        )
        return display.plot(ax, max_points=max_points, **line_kwargs)


class DecisionSurfaceDisplay:
    """The decision of a model over its two inputs, with the data and the dictionary.

    A classifier shows the region of each class and their boundaries, with dashed margins for two
    classes; a novelty detector shows inliers and outliers; a regressor shows its prediction as
    shades. Rings are dictionary points.

    Parameters
    ----------
    x0, x1 : array-like of shape (n_columns,) and (n_rows,)
        Coordinates of the grid along the two inputs.
    response : array-like of shape (n_rows, n_columns) or (n_rows, n_columns, n_classes)
        Score (positive for the second class), score of every class, or prediction.
    classes : sequence, default=None
        Classes, in the order of the scores; None for a regressor.
    X : array-like of shape (n_samples, 2), default=None
        Data to draw as dots.
    y : array-like of shape (n_samples,), default=None
        Class or target of each dot.
    dictionary : array-like of shape (model_order, 2), default=None
        Points to ring.
    feature_names : pair of str, default=("x0", "x1")
        Labels of the axes.
    margin : float, default=1.0
        Score of the dashed lines on both sides of the boundary of two classes; None for none.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the picture, after :meth:`plot`.
    figure_ : matplotlib Figure
        Figure of the picture.

    Raises
    ------
    ValueError
        If the response does not fit the grid or the classes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> x = np.linspace(-1, 1, 21)
    >>> score = x[:, None] + x[None, :]
    >>> display = DecisionSurfaceDisplay(x0=x, x1=x, response=score, classes=["no", "yes"])
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()
    'x0'
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        *,
        x0: ArrayLike,
        x1: ArrayLike,
        response: ArrayLike,
        classes: Sequence[Any] | NDArray[Any] | None = None,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        dictionary: ArrayLike | None = None,
        feature_names: Sequence[str] = ("x0", "x1"),
        margin: float | None = 1.0,
    ) -> None:
        self.x0, self.x1 = np.asarray(x0, dtype=float), np.asarray(x1, dtype=float)
        self.response = np.asarray(response, dtype=float)
        self.classes = None if classes is None else np.asarray(classes)
        self.X = None if X is None else np.asarray(X, dtype=float)
        self.y = None if y is None else np.asarray(y)
        self.dictionary = None if dictionary is None else np.asarray(dictionary, dtype=float)
        self.feature_names, self.margin = feature_names, margin
        grid = (len(self.x1), len(self.x0))
        scores = 1 if self.response.ndim == 2 else self.response.shape[-1]
        if self.response.shape[:2] != grid or self.response.ndim > 3:
            raise ValueError(
                f"`response` must have one value, or one score per class, for each point of the "
                f"grid of shape {grid}, got shape {self.response.shape}."
            )
        if scores != self._n_scores():
            raise ValueError(
                f"`response` has {scores} score(s) a point, but {self._n_scores()} is what "
                f"{0 if self.classes is None else len(self.classes)} classes need: one score for "
                "two classes or a regressor, else one a class."
            )

    def _n_scores(self) -> int:
        if self.classes is None or len(self.classes) == 2:
            return 1
        return len(self.classes)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        max_points: int = 1500,
        class_names: Sequence[str] | None = None,
    ) -> Self:
        """Draw the surface, the data and the dictionary.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new pyplot figure if None.
        max_points : int, default=1500
            Largest number of rows of ``X`` to draw; more are thinned evenly.
        class_names : sequence of str, default=None
            Names for the legend, in the order of ``classes``.

        Returns
        -------
        self : DecisionSurfaceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        self.ax_.set_xlabel(literal_text(self.feature_names[0], max_length=40))
        self.ax_.set_ylabel(literal_text(self.feature_names[1], max_length=40))
        if self.classes is None:
            self._draw_prediction(max_points)
        else:
            self._draw_regions()
            self._draw_classes(max_points, class_names)
            self._draw_margin()
        if self.dictionary is not None:
            order = len(self.dictionary)
            self.ax_.scatter(
                self.dictionary[:, 0],
                self.dictionary[:, 1],
                s=34 if order <= 150 else 16,
                facecolors="none",
                edgecolors=foreground(self.ax_),
                linewidths=1.0 if order <= 150 else 0.6,
                label="dictionary point",
                zorder=3,
            )
        tidy(self.ax_, grid=False)
        self.ax_.set_xlim(self.x0[0], self.x0[-1])
        self.ax_.set_ylim(self.x1[0], self.x1[-1])
        draw_legend(self.ax_)
        return self

    def _draw_regions(self) -> None:
        scores = self.response
        if scores.ndim == 2:
            scores = np.stack([-scores, scores], axis=-1)
        for c in range(scores.shape[-1]):
            # How far a class leads the best of the others: smooth where "which class" is a step.
            lead = scores[..., c] - np.delete(scores, c, axis=-1).max(axis=-1)
            if lead.max() <= 0:
                continue
            self.ax_.contourf(
                self.x0,
                self.x1,
                lead,
                levels=[0.0, 1.001 * float(lead.max())],
                colors=[PALETTE[c % len(PALETTE)]],
                alpha=0.22,
            )
            if lead.min() < 0:
                self.ax_.contour(
                    self.x0,
                    self.x1,
                    lead,
                    levels=[0.0],
                    colors=[foreground(self.ax_)],
                    linewidths=1.2,
                )

    def _draw_margin(self) -> None:
        if self.margin is None or self.response.ndim > 2:
            return
        sides = (-self.margin, self.margin)
        levels = [v for v in sides if self.response.min() < v < self.response.max()]
        if levels:
            style: dict[str, Any] = {"linestyles": "dashed", "linewidths": 0.8, "alpha": 0.6}
            ink = foreground(self.ax_)
            self.ax_.contour(self.x0, self.x1, self.response, levels, colors=[ink], **style)
            # Contours do not appear in legends automatically.
            self.ax_.plot([], [], "--", linewidth=0.8, color=ink, label=f"score ±{self.margin:g}")

    def _draw_classes(self, max_points: int, class_names: Sequence[str] | None) -> None:
        if self.X is None or self.classes is None:
            return
        rows = subsample(len(self.X), max_points)
        X = self.X[rows]
        if self.y is None:
            self.ax_.scatter(
                X[:, 0], X[:, 1], s=10, color=foreground(self.ax_), alpha=0.5, label="data"
            )
            return
        y = self.y[rows]
        names = self.classes if class_names is None else class_names
        for c, (label, name) in enumerate(zip(self.classes, names, strict=True)):
            self.ax_.scatter(
                X[y == label][:, 0],
                X[y == label][:, 1],
                s=12,
                color=PALETTE[c % len(PALETTE)],
                marker=MARKERS[c % len(MARKERS)],
                linewidths=0,
                alpha=0.85,
                label=literal_text(name) if c < 12 else None,
            )

    def _draw_prediction(self, max_points: int) -> None:
        shades = self.ax_.contourf(self.x0, self.x1, self.response, levels=14, cmap="cividis")
        self.figure_.colorbar(shades, ax=self.ax_, label="Prediction")
        if self.X is not None:
            rows = subsample(len(self.X), max_points)
            values: dict[str, Any] = {"color": "white"}
            if self.y is not None:
                values = {"c": self.y[rows], "cmap": shades.cmap, "norm": shades.norm}
            self.ax_.scatter(
                self.X[rows][:, 0],
                self.X[rows][:, 1],
                s=14,
                edgecolors="white",
                linewidths=0.5,
                label="data",
                **values,
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        grid_resolution: int = 120,
        padding: float = 0.06,
        feature_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        max_points: int = 1500,
    ) -> Self:
        """Draw the surface of a fitted estimator over the range of ``X``.

        Parameters
        ----------
        estimator : fitted estimator, or a Pipeline that ends in one
            Classifier (``classes_``, ``decision_function``), novelty detector or ranker
            (``decision_function``) or regressor (``predict``).
        X : array-like or DataFrame of shape (n_samples, 2)
            Data that set the range and are drawn.
        y : array-like of shape (n_samples,), default=None
            Classes or targets of the data.
        grid_resolution : int, default=120
            Grid points along each input.
        padding : float, default=0.06
            Margin around the data, as a fraction of their range.
        feature_names : pair of str, default=None
            Labels of the axes; the columns of ``X`` if it has names.
        class_names : sequence of str, default=None
            Names for the legend, in the order of ``classes_``.
        ax, max_points
            As in :meth:`plot`.

        Returns
        -------
        display : DecisionSurfaceDisplay

        Raises
        ------
        ValueError
            If the model has not exactly two inputs, one output, or at least two classes.
        """
        values, names = _check_inputs(estimator, X, 2, cls.__name__)
        estimator, y = answering_numbers(estimator), targets_in_numbers(estimator, y)
        x0, x1 = (np.linspace(*_grid_range(v, padding), grid_resolution) for v in values.T)
        grid = np.stack(np.meshgrid(x0, x1), axis=-1)
        points = _like_frame(X, grid.reshape(-1, 2))
        ranks = learns_pairs(estimator)
        # The zero of a ranking's scores has no meaning.
        classes = None if ranks else getattr(estimator, "classes_", None)
        if classes is not None and len(classes) < 2:
            raise ValueError(
                f"The classifier has seen only class {classes[0]!r}, so it has no boundary to "
                "draw. Learn rows of a second class first."
            )
        scored = hasattr(estimator, "decision_function")
        response = np.asarray(
            estimator.decision_function(points) if scored else estimator.predict(points),
            dtype=float,
        )
        response = response.reshape(*grid.shape[:2], -1)
        if response.shape[-1] == 1:
            response = response[..., 0]
        elif classes is None:
            raise ValueError(
                f"{cls.__name__} draws one output, but the model has {response.shape[-1]}. Draw "
                "`DecisionSurfaceDisplay(response=...)` for each of them."
            )
        elif len(classes) == 2:
            response = response[..., 1] - response[..., 0]
        novelty = classes is None and scored and not ranks
        if novelty:
            classes, class_names = np.array([-1, 1]), class_names or ("outlier", "inlier")
        display = cls(
            x0=x0,
            x1=x1,
            response=response,
            classes=classes,
            X=values,
            y=None if ranks else y,
            dictionary=input_dictionary(estimator),
            feature_names=names if feature_names is None else feature_names,
            margin=None if novelty else 1.0,
        )
        return display.plot(ax, max_points=max_points, class_names=class_names)
