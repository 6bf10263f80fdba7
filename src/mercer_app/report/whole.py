"""The whole report of a model: how good, where it errs, what matters, how it was found.

What matters are the most important columns, and how predictions depend on them, in units of the
columns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from mercer.columns.views import is_table, view_table
from mercer.display import DependenceDisplay, ImportanceDisplay, row_losses
from mercer.display.drawing import format_number, report_axes, report_style
from mercer.estimators.estimator import answering_numbers
from mercer.inspection import (
    describe,
    final_model,
    history_of,
    learns_pairs,
    output_labels,
    quantile_levels,
    race_table,
    targets_in_numbers,
)
from mercer_app.report.figures import (
    MAX_NAMED_CLASSES,
    class_figures,
    function_figures,
    held_out_figures,
    interval_figure,
    quantity_figures,
    run_figures,
)
from mercer_app.report.judged import (
    HELD_OUT,
    JudgedRows,
    class_table,
    confused_table,
    group_table,
    percent,
    verdict_of,
    verdict_of_scores,
    wilson,
    worst_table,
)
from mercer_app.report.page import (
    Section,
    columns_section,
    race_section,
    risk_section,
    stream_section,
    write_report,
)
from mercer_app.rows import TableRows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mercer.estimators import Dependence

Array = NDArray[np.float64]


class Asked(NamedTuple):
    """A model, as a report asks it.

    Attributes
    ----------
    answers : estimator
        Predicts for rows as they are given.
    pictured : estimator
        Predicts for rows in the units that pictures show.
    shown : callable
        Maps rows as the user gives them to such rows.
    rows : array-like or None
        Rows to predict, which were not learned; None if there are none.
    """

    answers: Any
    pictured: Any
    shown: Callable[[Any], Any]
    rows: Any = None

    @classmethod
    def itself(cls, model: Any, rows: Any = None) -> Self:
        """Return a model that takes rows as pictures show them, and answers numbers."""
        model = answering_numbers(model)
        return cls(model, model, lambda rows: rows, rows)

    @classmethod
    def by_inputs(cls, reads: TableRows, rows: Any = None) -> Self:
        """Return a model of tables that takes inputs, which pictures show as the columns are."""
        bare, columns = reads.estimator, reads.preprocessor
        if reads.task == "rank":
            return cls.itself(bare, rows)
        centre, scale = _units(reads)

        def shown(inputs: Any) -> Array:
            return np.asarray(inputs * scale + centre, dtype=np.float64)

        def inputs(rows: Any) -> NDArray[np.floating]:
            return ((np.asarray(rows) - centre) / scale).astype(columns.dtype_)

        units = FunctionTransformer(inputs, shown)
        units.feature_names_in_ = np.array(columns.feature_names_out(), dtype=object)
        units.n_features_in_ = columns.n_features_out_
        return cls(bare, Pipeline([("units", units), ("model", bare)]), shown, rows)


def _units(reads: TableRows) -> tuple[Array | float, Array | float]:
    """Centre and scale of the inputs if these are the columns themselves, else 0 and 1."""
    columns = reads.preprocessor.feature_names_in_
    if reads.preprocessor.feature_names_out() != columns or reads.text_columns_:
        return 0.0, 1.0
    # Numbers are encoded by an affine map, which two points determine.
    at = {name: np.array([0.0, 1.0]) for name in columns}
    zero, one = np.asarray(reads.inputs(at), dtype=np.float64)
    scale = 1.0 / (one - zero)
    return -zero * scale, scale


_MOST_BARS, _BAR = 15, 0.27  # inches
_MOST_CURVES, _LEAST_CURVED = 4, 0.02
_TEXT = (
    "The bars say how much predictions change if a column gets the value of another row, as shares "
    "that add up to 100 %; of classes it is their scores that change. The curves say what is "
    "predicted on average if all rows had the same value in a column, and the thin lines what is "
    "predicted for single rows. Both tell what the model goes by, and not what causes what."
)


def column_shares(model: Any) -> list[tuple[str, float]]:
    """Return the columns of a model with their importances, the most important first.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        Any model; there are none of one without ``feature_importances_``.
    """
    last = final_model(model)
    try:
        shares = np.asarray(last.feature_importances_, dtype=float)
    except (AttributeError, ValueError):
        return []  # it answers on pairs only, or keeps no rows
    called = last._explained().names
    order = np.argsort(-shares, kind="stable")
    return [(called[j], float(shares[j])) for j in order.tolist()]


def matters_section(
    model: Any,
    rows: JudgedRows | None,
    shares: list[tuple[str, float]],
    figures: list[tuple[str, Figure]],
) -> Section | None:
    """Say which columns matter, and how.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        The model.
    rows : JudgedRows or None
        Rows to explain; for classes, the most common class is explained.
    shares : list of (str, float)
        As :func:`column_shares` returns them.
    figures : list of (str, matplotlib Figure)
        What shows the learned function itself, if anything does.
    """
    drawn: list[tuple[str, Figure]] = []
    if any(share > 0.0 for _, share in shares):
        with report_style():
            drawn = [_bars(model, shares), *_curves(model, rows, shares)]
    if not drawn and not figures:
        return None
    return Section("What matters", _TEXT if drawn else "", figures=[*drawn, *figures])


def _bars(model: Any, shares: list[tuple[str, float]]) -> tuple[str, Figure]:
    figure, ax = report_axes(height=1.1 + _BAR * max(3, min(len(shares), _MOST_BARS)))
    ImportanceDisplay.from_estimator(model, ax=ax, max_columns=_MOST_BARS)
    said = ", ".join(f"{name} {percent(share)}" for name, share in shares[:5])
    figure.set_label(f"Bar chart of how much each column matters, the most first: {said}.")
    return "How much each column matters", figure


def _curves(
    model: Any, rows: JudgedRows | None, shares: list[tuple[str, float]]
) -> list[tuple[str, Figure]]:
    """Draw how predictions depend on the first columns, those aside that are free text."""
    output = None
    if rows is not None and rows.classes is not None and len(rows.classes) > 2:
        labels, counts = np.unique(rows.truth, return_counts=True)
        output = labels[np.argmax(counts)]
        if output not in rows.classes:
            return []
    figures: list[tuple[str, Figure]] = []
    for name, share in shares:
        if len(figures) >= _MOST_CURVES or share < _LEAST_CURVED:
            break
        try:
            told = final_model(model).partial_dependence(name, output=output)
        except ValueError:
            continue  # free text has no order, and of several outputs none is the first
        figures.append(_curve(told))
        if part := _strongest_part(model, told, output):
            figures.append(_curve(part))
    return figures


def _curve(told: Dependence) -> tuple[str, Figure]:
    """Draw one curve."""
    figure, ax = report_axes(height=3.4)
    DependenceDisplay(dependence=told).plot(ax)
    low, high = (format_number(float(end(told.values))) for end in (np.min, np.max))
    figure.set_label(f"Prediction over {told.feature_name}: between {low} and {high} on average.")
    return f"{told.quantity.capitalize()} over {told.feature_name}", figure


def _strongest_part(model: Any, told: Dependence, output: Any) -> Dependence | None:
    """Return the curve over that part of a date which matters most; None if none does."""
    found: list[Dependence] = []
    for name in told.parts:
        with suppress(ValueError):  # it is always the same
            found.append(final_model(model).partial_dependence(name, output=output))
    best = max(found, key=lambda one: np.ptp(one.values), default=None)
    return best if best is not None and np.ptp(best.values) > 0.5 * np.ptp(told.values) else None


Captioned = tuple[str, "Figure"]

_MOST_COLUMNS = 6  # next to a row in a table
_LEAST_SHARE = 0.01  # smallest importance of a column that is shown
_MOST_GROUPED = 2
_MOST_CLASSES = 30
_COVERAGE = 0.9
_KEPT = (
    "All numbers, pictures and rows are of {:,} rows that were kept back: the fit that predicted "
    "them did not have them. The model is a sum of parts, and some of these rows chose how much "
    "each part counts. So new rows may be predicted a little worse."
)
_WORST_CLASSES = "Rows that are wrong although the model was surest"
_WORST_QUANTITIES = "Rows that are furthest off"


def report_model(
    path: str | os.PathLike[str],
    model: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    group: ArrayLike | None = None,
    title: str | None = None,
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the report of a fitted model, as ``mercer fit --report`` does.

    It begins with how good the model is, compared with a baseline and with 95 % intervals. Then
    come its errors, with the worst rows, the importance of the columns, how each column was encoded
    and, folded, how the model was found.

    Parameters
    ----------
    path : str or path-like
        HTML file to write; an existing one is replaced.
    model : fitted estimator, or a Pipeline that ends in one
        A model of mercer, or a classifier or regressor of scikit-learn.
    X : array-like, DataFrame or table, default=None
        Rows that the model has not learned. None: those that it kept back (``held_out_``), if it
        did.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        Classes or targets of the rows. None uses the target column of the table, for a model that
        was trained on files.
    group : array-like of shape (n_samples,), default=None
        Groups of the rows, of a ranking.
    title : str, default=None
        Heading; by default what is predicted.
    settings : mapping of str to object, default=None
        Facts about the run, shown before the model's description of itself.
    notes : sequence of str, default=()
        What a reader must know.

    Raises
    ------
    FileNotFoundError
        If the folder of ``path`` does not exist.
    ImportError
        If matplotlib is not installed.
    ValueError
        If there are rows, but no targets.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from mercer import KernelClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KernelClassifier(random_state=0).fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "iris.html")
    ...     report_model(path, model, X[1::2], y[1::2])
    ...     "How good is it?" in path.read_text(encoding="utf-8")
    True
    """
    shares, asked = column_shares(model), Asked.itself(model)
    rows: JudgedRows | None = None
    figures: list[Captioned] = []
    measures: dict[str, Any] = {}
    inputs: Any = None
    if X is None:
        rows = kept_back(model)
    elif getattr(model, "roles_", None) is not None and is_table(X):
        reads = TableRows.of_tables(model)
        asked, inputs = Asked.by_inputs(reads), reads.inputs(X, extra="drop")
        y = reads.targets(X) if y is None and reads.has_target else y
        group = reads.groups(X) if group is None else group
    else:
        inputs = X
    y = targets_in_numbers(model, y)
    if inputs is not None:
        ranks = learns_pairs(model)
        if y is None and _predicts(model):
            raise ValueError(
                "`y` must hold the targets of `X`: without them nobody knows how good the model is."
            )
        if y is not None and not ranks:
            columns = _columns(X, columns_to_show(model, shares))
            rows = judged(model, inputs, np.asarray(y), columns, asked=asked)
        else:
            figures = held_out_figures(asked.pictured, asked.shown(inputs), y, group)
            if ranks and y is not None:
                score = final_model(asked.answers).score
                measures = {"concordance": float(score(inputs, y, group=group))}
    write_whole(
        path,
        model,
        title=title or _title(model),
        rows=rows,
        asked=asked._replace(rows=inputs),
        shares=shares,
        figures=figures,
        summary=measures,
        text=verdict_of_scores(measures),
        losses=_losses(model, inputs, y),
        settings=settings,
        notes=notes,
    )


def write_whole(
    path: str | os.PathLike[str],
    model: Any,
    *,
    title: str,
    rows: JudgedRows | None,
    asked: Asked | None = None,
    shares: list[tuple[str, float]] | None = None,
    figures: Sequence[Captioned] = (),
    summary: Mapping[str, Any] | None = None,
    text: str = "",
    measures: Mapping[str, Any] | None = None,
    exact: Mapping[str, float] | None = None,
    by_class: Mapping[str, tuple[int, int]] | None = None,
    losses: Any = None,
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the sections of a report in their order; see :func:`report_model`.

    Parameters
    ----------
    path, model, title, settings, notes
        As for :func:`report_model`.
    rows : JudgedRows or None
        Rows that judge the model; None if there are no rows, or the model is neither a
        classification nor a regression.
    asked : Asked, default=None
        Who is asked about which rows, for intervals and the function; by default the model, about
        none.
    shares : list of (str, float), default=None
        As :func:`column_shares` returns them.
    figures : sequence of (str, matplotlib Figure), default=()
        Further figures about errors.
    summary, text
        Most important values and their description, if there are no ``rows``.
    measures : mapping, default=None
        All measures.
    exact, by_class
        Measures of all rows, and rows and errors of each class, if ``rows`` are only some.
    losses : array-like of shape (n_rows,), default=None
        Losses of the rows, for the risk.
    """
    shares = column_shares(model) if shares is None else shares
    asked = Asked.itself(model) if asked is None else asked
    inputs = asked.rows
    tiles = dict(summary or {})
    errors = Section("Where it errs", figures=figures)
    if rows is not None:
        verdict = verdict_of(rows, exact)
        text = verdict.text + _held_by(asked, rows, inputs)
        tiles = {**verdict.values, **tiles}
        errors = _errors(asked, rows, inputs, shares, by_class)
        errors = errors._replace(tables={**verdict.tables, **errors.tables})
    learned: list[Captioned] = []
    if rows is not None and inputs is not None:
        learned = function_figures(asked.pictured, asked.shown(inputs), rows.truth)
    front = [
        errors if errors.figures or errors.tables else None,
        matters_section(model, rows, shares, learned),
        _all_measures(measures),
        risk_section(model, losses) if _has_losses(final_model(model)) else None,
    ]
    audit = getattr(final_model(model), "audit_", None)
    if audit is not None:
        front.append(columns_section(audit))
    last = final_model(model)
    mine = type(last).__module__.startswith("mercer")
    raced = race_section(last) if mine and race_table(last) else None
    course = Section("The course of the training", figures=run_figures(model) if mine else ())
    details = [raced, stream_section(model), course]
    said = [*notes, *([rows.note] if rows is not None and rows.note else []), *_leaks(model)]
    write_report(
        path,
        title=title,
        text=text,
        summary=tiles,
        notes=said,
        sections=[one for one in front if one is not None],
        details=[one for one in details if one is not None],
        history=history_of(model) if mine and hasattr(last, "history_") else None,
        settings={**(settings or {}), **_described(model)},
    )


# -- rows ------------------------------------------------------------------------------------------


def judged(
    model: Any,
    inputs: Any,
    y: NDArray[Any],
    columns: Mapping[str, Sequence[Any]],
    *,
    of: str = HELD_OUT,
    note: str = "",
    asked: Asked | None = None,
) -> JudgedRows | None:
    """Predict rows; None if the model is neither a classification nor a regression.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        The model.
    inputs : array-like of shape (n_rows, n_inputs)
        Rows as it takes them, or as ``asked`` does.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Labels, or quantities in their own units.
    columns : mapping of str to sequence
        Values to show.
    of, note : str
        As in :class:`JudgedRows`.
    asked : Asked, default=None
        Who takes the rows; by default the model.
    """
    answers = (Asked.itself(model) if asked is None else asked).answers
    if not _predicts(answers) or not len(y):
        return None
    given: dict[str, Any] = {"columns": columns, "of": of, "note": note, "target": _target(model)}
    if hasattr(answers, "classes_"):
        classes = np.asarray(answers.classes_)
        scores = probability = None
        if len(classes) == 2 and hasattr(answers, "decision_function"):
            scores = np.asarray(answers.decision_function(inputs), dtype=float)
            scores = scores if scores.ndim == 1 else scores[:, -1]
        if hasattr(answers, "predict_proba"):
            probability = np.asarray(answers.predict_proba(inputs), dtype=float)
        predicted = np.asarray(answers.predict(inputs))
        return JudgedRows(y, predicted, classes, probability, scores, **given)
    return _quantities(model, y, np.asarray(answers.predict(inputs), dtype=float), given)


def kept_back(model: Any, columns: Mapping[str, Sequence[Any]] | None = None) -> JudgedRows | None:
    """Return the rows that a model kept back, with predictions of a fit without them.

    Parameters
    ----------
    model : fitted estimator, or a Pipeline that ends in one
        Any model; None is returned of one without such rows.
    columns : mapping of str to sequence, default=None
        Values to show; by default the inputs, if these are the columns themselves.
    """
    last = final_model(model)
    held = getattr(last, "held_out_", None)
    if held is None or not len(held.y):
        return None
    given: dict[str, Any] = {
        "columns": _inputs_shown(last, held.X) if columns is None else columns,
        "of": "rows kept back",
        "note": _KEPT.format(len(held.y)),
        "target": _target(model),
    }
    if hasattr(last, "classes_"):
        answers = last.targets_.said(held.scores)
        return JudgedRows(
            held.y, answers.labels, last.classes_, answers.probability, answers.scores, **given
        )
    predicted = last.targets_.predict(held.scores).reshape(len(held.y), -1)
    truth = held.y.reshape(len(held.y), -1)
    return _quantities(model, truth if truth.shape[1] > 1 else truth[:, 0], predicted, given)


def columns_to_show(model: Any, shares: Sequence[tuple[str, float]]) -> list[str]:
    """Name the columns to show of single rows: the most important ones."""
    if shares:
        matter = [name for name, share in shares[:_MOST_COLUMNS] if share >= _LEAST_SHARE]
        return matter or [name for name, _ in shares[:_MOST_COLUMNS]]
    names = getattr(model, "feature_names_in_", None)
    return [] if names is None else [str(name) for name in names[:_MOST_COLUMNS]]


def _quantities(model: Any, truth: Array, predicted: Array, given: dict[str, Any]) -> JudgedRows:
    n_outputs = predicted.size // len(predicted)
    last = final_model(model)
    levels = quantile_levels(last)
    labels = output_labels(last, n_outputs)
    known = None if levels is None else np.atleast_1d(np.asarray(levels, dtype=float))
    return JudgedRows(truth, predicted, levels=known, labels=labels, **given)


def _inputs_shown(last: Any, X: Any) -> dict[str, Sequence[Any]]:
    """Return the inputs of rows under the names of their columns, if they are these."""
    names = getattr(last, "feature_names_in_", None)
    if not isinstance(X, np.ndarray) or getattr(last, "_columns", None) is not None:
        return {}
    if names is None:
        names = [f"x{j}" for j in range(X.shape[1])]
    if len(names) != X.shape[1]:
        return {}
    return {str(name): X[:, j].tolist() for j, name in enumerate(names)}


def _columns(X: Any, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Return the values of some columns of rows, of any kind."""
    found: dict[str, Sequence[Any]] = {}
    if hasattr(X, "column_names") or hasattr(X, "columns") or isinstance(X, Mapping):
        there = set(map(str, view_table(X).names))
        for name in names:
            if name in there:
                column = X[name]
                found[name] = (
                    column.to_pylist() if hasattr(column, "to_pylist")
                    else np.asarray(column, dtype=object).tolist()
                )  # fmt: skip
        return found
    if hasattr(X, "toarray"):
        return found  # sparse rows have too many columns to show
    values = np.asarray(X)
    for name in names or [f"x{j}" for j in range(min(values.shape[1], _MOST_COLUMNS))]:
        number = name.removeprefix("x")
        if number.isdigit() and int(number) < values.shape[1]:
            found[name] = values[:, int(number)].tolist()
    return found


def _predicts(model: Any) -> bool:
    """Whether a model predicts classes or quantities."""
    if learns_pairs(model):
        return False
    novelty = hasattr(model, "decision_function") and not hasattr(model, "classes_")
    return not novelty and hasattr(model, "predict")


def _has_losses(model: Any) -> bool:
    """Whether rows have a loss by which a model has learned."""
    return getattr(model, "loss_", None) is not None and hasattr(model, "targets_")


def _target(model: Any) -> str:
    last = final_model(model)
    roles = getattr(last, "roles_", None)
    if roles is None or not (_predicts(last) or learns_pairs(last)):
        return ""
    form = last.target_form_
    return f"{roles.target}" + ("" if form is None or not form.is_moment else f", {form.axis}")


def _title(model: Any) -> str:
    target = _target(model)
    return (
        f"{target}: what a model says of it"
        if target
        else f"Report of a {type(final_model(model)).__name__}"
    )


def _losses(model: Any, inputs: Any, y: Any) -> Any:
    if inputs is None or y is None or getattr(model, "roles_", None) is not None:
        return None
    return row_losses(model, inputs, y) if getattr(model, "risk_", None) is not None else None


# -- sections --------------------------------------------------------------------------------------


def _errors(
    asked: Asked,
    rows: JudgedRows,
    inputs: Any,
    shares: Sequence[tuple[str, float]],
    by_class: Mapping[str, tuple[int, int]] | None,
) -> Section:
    """Pictures and tables of where a model errs."""
    tables: dict[str, list[dict[str, Any]]] = {}
    if rows.classes is not None:
        figures = class_figures(
            rows.truth, rows.predicted, classes=rows.classes, scores=rows.scores,
            probability=rows.probability, of=rows.of,
        )  # fmt: skip
        counted = by_class
        if counted is None:
            labels, codes = np.unique(rows.truth, return_inverse=True)
            wrong = np.bincount(codes, weights=rows.errors)
            counted = {
                str(label): (int(n), int(w))
                for label, n, w in zip(labels, np.bincount(codes), wrong, strict=True)
            }
        if 1 < len(counted) <= _MOST_CLASSES:
            tables["By class"] = class_table(counted)
        if len(rows.classes) > MAX_NAMED_CLASSES and (mixed := confused_table(rows)):
            tables["Classes that are mixed up most"] = mixed
    else:
        several = rows.levels if inputs is not None else None
        figures = quantity_figures(
            rows.truth, rows.predicted, labels=rows.labels or None, levels=several, of=rows.of
        )
        if inputs is not None:
            figures += interval_figure(asked.answers, inputs, rows.truth)
    one = rows.truth.ndim == 1
    worst = worst_table(rows, list(rows.columns)[:_MOST_COLUMNS]) if one else []
    if worst:
        what = _WORST_CLASSES if rows.classes is not None else _WORST_QUANTITIES
        tables[f"{what}, of {len(rows.truth):,} {rows.of}"] = worst
    grouped = 0
    for name, _ in shares if one else ():
        table = group_table(rows, name)
        if table and grouped < _MOST_GROUPED:
            tables[f"Errors by {name}"] = table
            grouped += 1
    return Section("Where it errs", figures=figures, tables=tables)


def _held_by(asked: Asked, rows: JudgedRows, inputs: Any) -> str:
    """Describe how often intervals, or sets of classes, contain the truth; empty without them."""
    if inputs is None:
        return ""  # by rows that were kept back they were found
    try:
        if rows.classes is not None:
            sets = np.asarray(asked.answers.predict_set(inputs, _COVERAGE))
            hit = sets & (rows.truth[:, np.newaxis] == rows.classes[np.newaxis, :])
            inside = hit.any(axis=1)
            size = f"on average {float(sets.sum(axis=1).mean()):.3g} in a set"
            what = "Sets of classes"
        else:
            ends = np.asarray(asked.answers.predict_interval(inputs, _COVERAGE))
            if ends.ndim != 2 or rows.truth.ndim != 1:
                return ""
            inside = (ends[:, 0] <= rows.truth) & (rows.truth <= ends[:, 1])
            width = float(np.median(ends[:, 1] - ends[:, 0]))
            if not np.isfinite(width):
                return ""
            size = f"the middle one is {width:.4g} wide"
            what = "Intervals"
    except (AttributeError, ValueError):
        return ""  # a model without rows to find them by
    low, high = wilson(float(inside.sum()), len(inside))
    held = percent(float(inside.mean()))
    return (
        f" {what} that are to hold {percent(_COVERAGE)} of the truths hold {held} "
        f"(95 % interval {percent(low)} to {percent(high)}; {size})."
    )


def _all_measures(measures: Mapping[str, Any] | None) -> Section | None:
    if not measures:
        return None
    values = {name: value for name, value in measures.items() if not isinstance(value, Mapping)}
    tables = {
        name: [{"": key, **line} for key, line in value.items()]
        for name, value in measures.items()
        if isinstance(value, Mapping)
    }
    return Section("All measures", values=values, tables=tables)


def _leaks(model: Any) -> list[str]:
    roles = getattr(final_model(model), "roles_", None)
    return [
        f"The column {name!r} tells the target alone ({how}). If it is not known before the target "
        "is, leave it out: the model is not as good as it looks."
        for name, how in ({} if roles is None else roles.leaks).items()
    ]


def _described(model: Any) -> dict[str, Any]:
    """Return the description that a model of mercer gives of itself."""
    last = final_model(model)
    if type(last).__module__.partition(".")[0] != "mercer":
        return {"estimator": type(last).__name__}
    return {
        words_of(name): ", ".join(value) if isinstance(value, list) else value
        for name, value in describe(last).items()
        if not (isinstance(value, list) and value and isinstance(value[0], dict))
    }


def words_of(name: str) -> str:
    """Write the name of a measure or of a setting in words."""
    return (
        name.replace("_percent", " %")
        .replace("n_", "number of ", name.startswith("n_"))
        .replace("_", " ")
    )
