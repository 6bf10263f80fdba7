"""Rows that a model is judged by, and how good it is on them, in words.

Each main measure has a 95 % confidence interval for its value on many more such rows, and is
compared with a baseline: predictions that need no model.

Where the model errs is told by its worst rows, and by its errors in groups of rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap
from sklearn.metrics import roc_auc_score

from mercer.display.drawing import format_number
from mercer.metrics import auc_standard_error

Array = NDArray[np.float64]

_Z = 1.959963984540054  # 95 % of a normal distribution lie within this many standard deviations
_SAMPLES, _MOST_DRAWN = 1000, 5000  # bootstrap samples, and rows in each
_RARE = 0.7  # if the most common class has a larger share, accuracy says little
_LOWEST_R2 = -9.99  # lower values are not shown exactly
HELD_OUT, LEARNED = "held-out rows", "rows that were learned"
_WORSE = " The model has learned these rows: new ones it predicts worse."
_INDEPENDENT = "The intervals take the rows as independent of each other."


class JudgedRows(NamedTuple):
    """Rows with their true values and a model's predictions.

    Attributes
    ----------
    truth : ndarray of shape (n_rows,) or (n_rows, n_targets)
        Labels, or quantities in their own units.
    predicted : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Predictions, alike.
    classes : ndarray of shape (n_classes,) or None
        Labels that the model knows; None for quantities.
    probability : ndarray of shape (n_rows, n_classes) or None
        Class probabilities, if there are any.
    scores : ndarray of shape (n_rows,) or None
        Scores for the second of two classes, if there are any.
    columns : mapping of str to sequence
        What the rows have in some columns, as the user wrote it.
    of : str
        Which rows they are, such as "held-out rows".
    note : str
        What a reader must know about these rows, in full sentences.
    target : str
        Name of what is predicted; empty if nobody named it.
    levels : ndarray of shape (n_outputs,) or None
        Levels, if the predictions are quantiles of one target.
    labels : sequence of str
        Names of the outputs of a quantity.
    """

    truth: NDArray[Any]
    predicted: NDArray[Any]
    classes: NDArray[Any] | None = None
    probability: Array | None = None
    scores: Array | None = None
    columns: Mapping[str, Sequence[Any]] = {}
    of: str = HELD_OUT
    note: str = ""
    target: str = ""
    levels: Array | None = None
    labels: Sequence[str] = ()

    @property
    def errors(self) -> Array:
        """Error of each row, (n_rows,): 0 or 1 for classes, otherwise the absolute error."""
        if self.classes is not None:
            return np.asarray(self.truth != self.predicted, dtype=float)
        off: Array = np.abs(self.middle - self.truth.reshape(len(self.truth), -1)[:, 0])
        return off

    @property
    def middle(self) -> Array:
        """The one prediction of a quantity, (n_rows,): of quantiles that next to the median."""
        outputs = self.predicted.reshape(len(self.predicted), -1)
        one = 0 if self.levels is None else int(np.argmin(np.abs(self.levels - 0.5)))
        return np.asarray(outputs[:, one], dtype=float)


class Verdict(NamedTuple):
    """How good a model is.

    Attributes
    ----------
    text : str
        In words.
    values : dict of str to str or number
        The few numbers to see first.
    tables : mapping of str to list of dict
        What there is of each target, if there are several.
    """

    text: str
    values: dict[str, Any]
    tables: Mapping[str, list[dict[str, Any]]] = {}


def wilson(n_right: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share.

    Parameters
    ----------
    n_right : float
        Number of correct rows; rounded if it comes from a share.
    n : int
        All rows.

    References
    ----------
    Wilson, JASA 22, 1927: unlike the normal interval it is right for shares near 0 and 1, too.

    Examples
    --------
    >>> [round(end, 4) for end in wilson(90, 100)]
    [0.8256, 0.9448]
    """
    ends = binomtest(round(n_right), n).proportion_ci(method="wilson")
    return float(ends.low), float(ends.high)


def percent(share: float) -> str:
    """Write a share in per cent, with as many digits as a reader uses.

    Examples
    --------
    >>> [percent(share).split()[0] for share in (0.84512, 1.0, 0.99961, 0.0004)]
    ['84.5', '100', '99.96', '0.04']
    """
    value = 100.0 * share
    fine = 0.0 < value < 0.1 or 99.9 < value < 100.0
    text = f"{value:.2f}" if fine else f"{value:.1f}"
    return f"{text.rstrip('0').rstrip('.') or '0'}\u00a0%"


def verdict_of(rows: JudgedRows, exact: Mapping[str, float] | None = None) -> Verdict:
    """Say how good a model is on some rows.

    Parameters
    ----------
    rows : JudgedRows
        The rows, or a uniform sample of them.
    exact : mapping of str to number, default=None
        Measures of all rows, if ``rows`` are only some: ``rows``, ``error_percent``, ``mae``,
        ``mse``, ``r2``.

    Returns
    -------
    verdict : Verdict
        In words and numbers.
    """
    if rows.classes is not None:
        found = _of_classes(rows, exact)
    elif rows.levels is not None and rows.levels.size:
        found = _of_quantiles(rows)
    elif rows.truth.ndim == 2 and rows.truth.shape[1] > 1:
        found = _of_targets(rows)
    else:
        found = _of_quantity(rows, exact)
    if rows.of != LEARNED:
        return found
    first, *more = found.text.split("\n\n")
    return found._replace(text="\n\n".join([first + _WORSE, *more]))


def verdict_of_scores(measures: Mapping[str, float]) -> str:
    """Say how good a ranking or a novelty detector is, by its measures.

    Parameters
    ----------
    measures : mapping of str to number
        As ``mercer evaluate`` prints them.

    Examples
    --------
    >>> verdict_of_scores({"concordance": 0.8, "pairs": 45})[:52]
    'Of two rows with different targets the model puts th'
    """
    if "novel_percent" in measures:
        return _of_novelty(measures)
    name = next((n for n in ("auc", "concordance", "auc_of_pairs") if n in measures), None)
    if name is None:
        return ""
    share, error = float(measures[name]), float(measures.get("auc_standard_error", np.nan))
    about = f" of {measures['pairs']:,} pairs" if "pairs" in measures else " of the pairs"
    if np.isfinite(error):
        low, high = max(0.0, share - _Z * error), min(1.0, share + _Z * error)
        about += f" (95 % interval {percent(low)} to {percent(high)}, by DeLong's standard error)"
    if name == "auc_of_pairs":
        return (
            "Of a pair of rows that belong together and one that does not the model gives the "
            f"first the higher value in {percent(share)} of all cases; guessing has 50\u00a0%."
        )
    return (
        "Of two rows with different targets the model puts the right one first in "
        f"{percent(share)}{about}; guessing has 50\u00a0%."
    )


def _of_novelty(measures: Mapping[str, float]) -> str:
    n, share = int(measures["rows"]), measures["novel_percent"] / 100.0
    low, high = wilson(share * n, n)
    text = (
        f"The model calls {percent(share)} of {n:,} {HELD_OUT} novel (Wilson's 95 % interval "
        f"{percent(low)} to {percent(high)})."
    )
    labelled = measures.get("labelled_novel_percent")
    if labelled is None:
        return f"{text} Without labels nobody knows whether they are."
    for key, what, of in (
        ("found_percent", "finds {} of the rows that the labels call novel", labelled),
        ("false_alarm_percent", "gives a false alarm for {} of the others", 100.0 - labelled),
    ):
        if key in measures:
            m = max(1, round(n * of / 100.0))
            low, high = wilson(measures[key] / 100.0 * m, m)
            about = f"95 % interval {percent(low)} to {percent(high)}"
            text += f" It {what.format(percent(measures[key] / 100.0))} ({about})."
    return f"{text} Answering at random finds as many as it gives false alarms."


def _of_classes(rows: JudgedRows, exact: Mapping[str, float] | None) -> Verdict:
    labels, counts = np.unique(rows.truth, return_counts=True)
    n = len(rows.truth)
    commonest, share = labels[np.argmax(counts)], float(counts.max() / n)
    n_right = float(np.sum(rows.truth == rows.predicted))
    if exact is not None:
        n = int(exact["rows"])
        n_right = round(n * (1.0 - exact["error_percent"] / 100.0))
        share = 1.0 - exact["commonest_class_error_percent"] / 100.0
    low, high = wilson(n_right, n)
    right = n_right / n
    always = f"always answering {str(commonest)!r}"
    text = (
        f"The model is right for {n_right:,.0f} of {n:,} {rows.of}: {percent(right)}. Of many "
        f"more such rows it would be right for {percent(low)} to {percent(high)} (Wilson's 95 % "
        f"interval). A{always[1:]}, the most frequent class, "
        f"is right for {percent(share)}"
    )
    text += "." if low > share else ": the model is not clearly better than that."
    text += "\n\n"
    values: dict[str, Any] = {
        "right (accuracy)": percent(right),
        "95 % interval": f"{percent(low)} to {percent(high)}",
        always: percent(share),
    }
    if labels.size > 1:
        balanced = float(
            np.mean([np.mean(rows.predicted[rows.truth == label] == label) for label in labels])
        )
        if exact is not None:
            balanced = 1.0 - exact["balanced_error_percent"] / 100.0
        if share > _RARE:
            text += (
                f"Most rows are of one class, which makes that easy. Counting each class the "
                f"same, {percent(balanced)} are right (balanced accuracy); guessing has "
                f"{percent(1.0 / labels.size)}. "
            )
        values["balanced accuracy"] = percent(balanced)
    text += _auc_words(rows, values, exact)
    return Verdict(f"{text}{_INDEPENDENT}", values)


def _auc_words(rows: JudgedRows, values: dict[str, Any], exact: Mapping[str, float] | None) -> str:
    """Describe how well scores separate two classes, and add the measure to the values."""
    if rows.scores is None or rows.classes is None or len(rows.classes) != 2:
        return ""
    positive = np.asarray(rows.truth == rows.classes[1])
    if not 0 < positive.sum() < positive.size:
        return ""
    area = float(roc_auc_score(positive, rows.scores))
    error = auc_standard_error(positive, rows.scores)
    if exact is not None:
        area = exact["auc"]
        error *= math.sqrt(positive.size / exact["rows"])
    values["AUC"] = area
    about = ""
    if np.isfinite(error):
        low, high = max(0.0, area - _Z * error), min(1.0, area + _Z * error)
        about = f"; 95 % interval {low:.3g} to {high:.3g}, by DeLong's standard error"
    one, other = str(rows.classes[1]), str(rows.classes[0])
    return (
        f"Of a row of class {one!r} and one of class {other!r} it gives the first the higher "
        f"score in {percent(area)} of all pairs (AUC {area:.4g}{about}; guessing has 0.5). "
    )


def _mean_interval(losses: Array) -> tuple[float, float, float]:
    """Mean, and its 95 % interval by the standard error."""
    mean = float(losses.mean())
    if losses.size < 2:
        return mean, mean, mean
    half = _Z * float(losses.std(ddof=1)) / math.sqrt(losses.size)
    return mean, max(0.0, mean - half), mean + half


def _between(low: float, high: float) -> str:
    return f"{format_number(low)} to {format_number(high)}"


def _r2_interval(truth: Array, predicted: Array) -> tuple[float, float] | None:
    """Return the 95 % interval of R2 by the bootstrap: rows are drawn with replacement."""
    width = 1.0
    if truth.size > _MOST_DRAWN:
        some = np.random.default_rng(0).choice(truth.size, _MOST_DRAWN, replace=False)
        width = math.sqrt(_MOST_DRAWN / truth.size)
        truth, predicted = truth[some], predicted[some]
    centred = truth - truth.mean()

    def r2(values: Array, errors: Array, axis: int) -> Array:
        spread = values.var(axis=axis)
        alike = spread <= 0.0
        share = (errors**2).mean(axis=axis) / np.where(alike, 1.0, spread)
        return np.asarray(np.where(alike, np.nan, 1.0 - share))

    drawn = bootstrap(
        (centred, truth - predicted),
        r2,
        paired=True,
        vectorized=True,
        n_resamples=_SAMPLES,
        batch=50,
        method="percentile",
        random_state=np.random.default_rng(0),
    ).bootstrap_distribution
    if not np.isfinite(drawn).all():
        return None
    # Of fewer rows than there are the interval is too wide.
    low, high = np.median(drawn) + width * (np.quantile(drawn, [0.025, 0.975]) - np.median(drawn))
    return float(low), float(high)


def _r2(truth: Array, predicted: Array) -> float | None:
    spread = float(np.sum((truth - truth.mean()) ** 2))
    return 1.0 - float(np.sum((truth - predicted) ** 2)) / spread if spread > 0.0 else None


def _of_quantity(rows: JudgedRows, exact: Mapping[str, float] | None) -> Verdict:
    truth, predicted, off = rows.truth.reshape(-1).astype(float), rows.middle, rows.errors
    mean, low, high = _mean_interval(off)
    r2, rmse, n = _r2(truth, predicted), float(np.sqrt(np.mean(off**2))), len(truth)
    if exact is not None:
        n, rmse, r2 = int(exact["rows"]), float(exact["rmse"]), exact.get("r2")
        mean = float(exact["mae"])
        half = _Z * math.sqrt(max(0.0, exact["mse"] - mean * mean) / n)
        low, high = max(0.0, mean - half), mean + half
    median = float(np.median(truth))
    base = float(np.mean(np.abs(truth - median)))
    nine = float(np.quantile(off, 0.9))
    unit = f", in units of {rows.target}" if rows.target else ""
    text = (
        f"On {n:,} {rows.of} a prediction is off by {format_number(mean)} on average (mean "
        f"absolute error{unit}; 95 % interval {_between(low, high)}, by the standard error of the "
        f"mean). Always answering the median, {format_number(median)}, is off by "
        f"{format_number(base)}"
    )
    text += "." if high < base else ": the model is not clearly better than that."
    text += f"\n\nNine of ten predictions are off by less than {format_number(nine)}."
    values: dict[str, Any] = {
        "off by, on average (MAE)": mean,
        "95 % interval": _between(low, high),
        "always answering the median": base,
    }
    if r2 is not None:
        values["R²"] = r2
        ends = _r2_interval(truth, predicted)
        about = "" if ends is None else f"; 95 % interval {ends[0]:.3g} to {ends[1]:.3g}, by "
        about += "" if ends is None else f"{_SAMPLES:,} bootstrap samples"
        explained = f"It explains {percent(r2)} of" if r2 > 0.0 else "It explains nothing of"
        text += (
            f" {explained} the squared differences from the mean (R² {max(r2, _LOWEST_R2):.3g}"
            f"{about}; always answering the mean has 0)."
        )
    values["RMSE"] = rmse
    return Verdict(f"{text} {_INDEPENDENT}", values)


def _of_targets(rows: JudgedRows) -> Verdict:
    """Of several targets, one line each."""
    lines, known = [], []
    for j in range(rows.truth.shape[1]):
        truth, predicted = rows.truth[:, j].astype(float), rows.predicted[:, j].astype(float)
        mean, low, high = _mean_interval(np.abs(truth - predicted))
        r2 = _r2(truth, predicted)
        known += [] if r2 is None else [r2]
        lines.append({
            "target": rows.labels[j] if rows.labels else str(j),
            "off by, on average": mean,
            "95 % interval": _between(low, high),
            "always answering the median": float(np.mean(np.abs(truth - np.median(truth)))),
            "R²": "" if r2 is None else r2,
        })  # fmt: skip
    text = (
        f"On {len(rows.truth):,} {rows.of} each of {len(lines)} targets is predicted. The "
        "table has the mean absolute error of each, with an interval by the standard error of the "
        "mean, beside that of always answering its median. "
    )
    values = {"R², mean of the targets": float(np.mean(known))} if known else {}
    return Verdict(text + _INDEPENDENT, values, {"By target": lines})


def _of_quantiles(rows: JudgedRows) -> Verdict:
    levels = np.asarray(rows.levels, dtype=float)
    truth = rows.truth.reshape(len(rows.truth), -1)[:, 0].astype(float)
    predicted = rows.predicted.reshape(len(truth), -1)
    n = len(truth)
    off = truth[:, np.newaxis] - predicted
    losses = np.maximum(levels * off, (levels - 1.0) * off).mean(axis=1)
    fixed = truth[:, np.newaxis] - np.quantile(truth, levels)
    base = float(np.maximum(levels * fixed, (levels - 1.0) * fixed).mean())
    mean, low, high = _mean_interval(losses)
    if levels.size > 1:
        first, last = int(np.argmin(levels)), int(np.argmax(levels))
        inside = float(np.mean((off[:, first] >= 0.0) & (off[:, last] <= 0.0)))
        wanted = float(levels[last] - levels[first])
        what = f"between the predicted quantiles {levels[first]:g} and {levels[last]:g}"
    else:
        inside, wanted = float(np.mean(off[:, 0] <= 0.0)), float(levels[0])
        what = f"not above the predicted quantile {levels[0]:g}"
    ends = wilson(inside * n, n)
    text = (
        f"Of {n:,} {rows.of} {percent(inside)} are {what}; {percent(wanted)} should be "
        f"(Wilson's 95 % interval {percent(ends[0])} to {percent(ends[1])}). The mean pinball loss "
        f"is {format_number(mean)} (95 % interval {_between(low, high)}, by the standard error of "
        f"the mean). Always answering the quantiles of the target itself has {format_number(base)}"
    )
    text += "." if high < base else ": the model is not clearly better than that."
    text += "\n\n"
    values = {
        "mean pinball loss": mean,
        "95 % interval": _between(low, high),
        "always answering the same quantiles": base,
        "between them" if levels.size > 1 else "not above it": percent(inside),
    }
    return Verdict(f"{text}{_INDEPENDENT}", values)


Table = list[dict[str, Any]]

_WORST = 10
_MOST_LETTERS = 60
_BINS, _MOST_GROUPS, _FEWEST = 5, 8, 5
_NONE = "(missing)"


def worst_table(rows: JudgedRows, columns: Sequence[str], most: int = _WORST) -> Table:
    """Return the rows that are predicted worst, with what they have in some columns.

    For classes these are wrongly predicted rows, those with the smallest probability of the true
    class first; for quantities, the rows with the largest errors.

    Parameters
    ----------
    rows : JudgedRows
        The rows.
    columns : sequence of str
        Columns to show.
    most : int, default=10
        Largest number of rows.
    """
    errors, of_truth = rows.errors, None
    if rows.classes is not None and rows.probability is not None:
        hit = np.asarray(rows.truth)[:, np.newaxis] == rows.classes[np.newaxis, :]
        of_truth = np.where(hit, rows.probability, 0.0).sum(axis=1)
        errors = errors * (2.0 - of_truth)  # of wrong rows 1 to 2, the surer the larger
    order = np.argsort(-errors, kind="stable")
    order = order[errors[order] > 0.0][:most]
    truth, predicted, write = rows.truth, rows.predicted, _cell
    if rows.classes is None:
        truth, predicted, write = truth.reshape(len(truth), -1)[:, 0], rows.middle, format_number
    table = []
    for i in order.tolist():
        line: dict[str, Any] = {"truth": write(truth[i]), "prediction": write(predicted[i])}
        if rows.classes is None:
            line["off by"] = _signed(float(predicted[i] - truth[i]))
        elif of_truth is not None:
            line["probability of the truth"] = percent(float(of_truth[i]))
        for name in columns:
            if name in rows.columns:
                heading = f"{name} (column)" if name in line else name
                line[heading] = _cell(rows.columns[name][i])
        table.append(line)
    return table


def class_table(counted: Mapping[str, tuple[int, int]]) -> Table:
    """Return the share of right rows of each class.

    Parameters
    ----------
    counted : mapping of str to (int, int)
        Rows of each class, and the number predicted wrongly.
    """
    table = []
    for label, (n, wrong) in counted.items():
        low, high = wilson(n - wrong, n)
        table.append({
            "true class": label,
            "rows": n,
            "right": percent((n - wrong) / n),
            "95 % interval": f"{percent(low)} to {percent(high)}",
        })  # fmt: skip
    return table


def confused_table(rows: JudgedRows, most: int = _WORST) -> Table:
    """Return the pairs of classes that are mixed up most often.

    Parameters
    ----------
    rows : JudgedRows
        Rows of classes.
    most : int, default=10
        Largest number of pairs.
    """
    wrong = np.asarray(rows.truth != rows.predicted)
    pairs = Counter(zip(rows.truth[wrong].tolist(), rows.predicted[wrong].tolist(), strict=True))
    counts = Counter(rows.truth.tolist())
    return [
        {
            "true class": str(truth),
            "predicted": str(said),
            "rows": n,
            "of the true class": percent(n / counts[truth]),
        }
        for (truth, said), n in pairs.most_common(most)
    ]


def group_table(rows: JudgedRows, column: str) -> Table:
    """Return the errors of groups of rows that have alike values in a column.

    Parameters
    ----------
    rows : JudgedRows
        The rows.
    column : str
        One of their columns. Numbers and dates make five groups of about equal size.

    Returns
    -------
    table : list of dict
        Groups of at least 5 rows; empty if there are fewer than two groups, or if the column is
        free text.
    """
    values = rows.columns.get(column)
    if values is None:
        return []
    table = []
    for name, members in _groups(values):
        if len(members) < _FEWEST:
            continue
        errors = rows.errors[members]
        line: dict[str, Any] = {column: name, "rows": len(members)}
        if rows.classes is not None:
            right = float(np.sum(errors == 0.0))
            low, high = wilson(right, len(members))
            line["right"] = percent(right / len(members))
            line["95 % interval"] = f"{percent(low)} to {percent(high)}"
        else:
            mean = float(errors.mean())
            half = 1.959963984540054 * float(errors.std(ddof=1)) / math.sqrt(errors.size)
            line["off by, on average"] = mean
            line["95 % interval"] = (
                f"{format_number(max(0.0, mean - half))} to {format_number(mean + half)}"
            )
            truth = rows.truth.reshape(len(rows.truth), -1)[members, 0]
            line["prediction minus truth, on average"] = _signed(
                float(np.mean(rows.middle[members] - truth))
            )
        table.append(line)
    return table if len(table) > 1 else []


def _groups(values: Sequence[Any]) -> list[tuple[str, NDArray[np.intp]]]:
    """Group rows by the values of a column: names of the groups, and their rows."""
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    known = np.flatnonzero(~missing)
    some = [values[i] for i in known.tolist()]
    lacking = [(_NONE, np.flatnonzero(missing))] if missing.any() else []
    if not some:
        return lacking
    distinct = sorted(set(map(_key, some)), key=str)
    ordered = all(_is_number(value) for value in some) or all(
        isinstance(value, date) for value in some
    )
    if ordered and len(distinct) > _MOST_GROUPS:
        return _bins(some, known) + lacking
    if not ordered and len(distinct) > max(_MOST_GROUPS, len(some) // 5):
        return []  # free text, or names: hardly two rows are alike
    found: dict[Any, list[int]] = {}
    for i, value in zip(known.tolist(), some, strict=True):
        found.setdefault(_key(value), []).append(i)
    # Numbers in their order, categories by how frequent they are.
    keys = sorted(found, key=None if ordered else lambda key: (-len(found[key]), str(key)))
    groups = [(_cell(key), np.asarray(found[key])) for key in keys[:_MOST_GROUPS]]
    rest = [i for key in keys[_MOST_GROUPS:] for i in found[key]]
    return groups + ([("(others)", np.asarray(rest))] if rest else []) + lacking


def _bins(some: Sequence[Any], known: NDArray[np.intp]) -> list[tuple[str, NDArray[np.intp]]]:
    """Cut ordered values into groups of about equal size; equal values stay together."""
    order = np.array(sorted(range(len(some)), key=lambda i: _stamp(some[i])), dtype=np.intp)
    stamps = np.array([_stamp(some[i]) for i in order.tolist()])
    edges = np.unique(np.quantile(stamps, np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
    place = np.searchsorted(edges, stamps, side="left")
    groups = []
    for number in np.unique(place).tolist():
        mine = order[place == number]
        first, last = _cell(some[int(mine[0])]), _cell(some[int(mine[-1])])
        groups.append((first if first == last else f"{first} to {last}", known[mine]))
    return groups


def _stamp(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp() if value.tzinfo else (value - datetime(1970, 1, 1)).total_seconds()
    if isinstance(value, date):
        return 86400.0 * (value - date(1970, 1, 1)).days
    return float(value)


def _key(value: Any) -> Any:
    if isinstance(value, str | bool | date):  # datetimes are dates
        return value
    return float(value) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("NaT", "<NA>", "")


def _signed(value: float) -> str:
    return ("+" if value > 0.0 else "") + format_number(value)


def _cell(value: Any) -> str:
    """Write what a row has in a column, in few letters."""
    if _is_missing(value):
        return _NONE
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    whole = _is_number(value) and float(value).is_integer() and abs(value) < 1e15
    # Whole numbers may be years or codes: as they are, without commas.
    text = str(int(value)) if whole else format_number(value)
    text = " ".join(text.split())
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
