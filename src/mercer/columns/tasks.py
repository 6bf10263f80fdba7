"""Telling from target values whether they are classes or quantities, and why."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mercer.columns.readings import TargetForm
from mercer.columns.views import Levels, view_table

Task = Literal["classification", "regression"]
Counts = NDArray[np.float64]

# Up to _FEW whole numbers are classes whatever their shares; up to _SOME, unless the shares suggest
# quantities; above _MOST, a model could not distinguish the classes.
_FEW, _SOME, _MOST = 10, 20, 1000
# Rows of a value, in the mean: of some integers, of other whole numbers.
_REPEATED_INTEGERS, _REPEATED = 2, 5
# Share of the places between the smallest and the largest that have a value.
_FILLED_OF_SOME, _FILLED = 0.5, 0.8
# Neighbours are alike below this ratio: _DEVIATIONS standard deviations below 2, at most
# _LARGEST_RATIO.
_DEVIATIONS, _LARGEST_RATIO = 2.5, 1.2
_RARE = 3  # rows of a value at an end where the values peter out
_BLOCKS = 5  # of values, whose counts fall where codes are ordered by frequency
_HEAPED = 0.8  # share of the round numbers that stand out among their neighbours


class TaskGuess(NamedTuple):
    """What a target was taken for, and why.

    Attributes
    ----------
    task : {"classification", "regression"}
        The guess.
    reason : str
        Evidence for the task in the values, in words that can follow a colon.
    certain : bool
        Whether the values leave no other choice, as for text.
    """

    task: Task
    reason: str
    certain: bool = False


def guess_task(values: Any) -> TaskGuess:
    """Tell from target values whether they are classes or quantities, and why.

    Text, categories and truth values are classes; numbers with fractions, dates and times in any
    form, and numbers written as ``$1,200`` or ``12 %`` are quantities. Whole numbers, such as 3 or
    3.0, are

    - classes, if there are two;
    - quantities, if there are more than 1,000, or if they are seldom repeated: in the mean of fewer
      than 5 rows each (up to 20 integers: 2; up to 10 integers: if each has one row);
    - classes, if there are at most 10;
    - quantities, if they are unevenly spaced, so that more than a fifth (up to 20 values: half) of
      the places between the smallest and the largest are empty, counted in the largest step that
      divides all distances;
    - classes, if the commonest has at most twice the rows of the rarest;
    - quantities, if neighbouring values have similar numbers of rows: the order of quantities
      means something, that of codes does not. That is measured by the rank version of von
      Neumann's ratio [1]_, about 2 for numbers in any order. Up to 20 values must also be rare at
      an end. Counts that fall from the first value on and end abruptly are those of classes
      numbered by their frequency;
    - quantities, if multiples of 5 or 10 stand out, as in what people have rounded;
    - else classes.

    Parameters
    ----------
    values : array-like of shape (n_samples,), or column of a pyarrow or pandas table
        Targets; missing ones are ignored.

    Returns
    -------
    guess : TaskGuess
        Task, reason, and whether it is certain. The order of the values does not matter.

    Raises
    ------
    ValueError
        If there are no values.

    References
    ----------
    .. [1] Bartels (1982), "The rank version of von Neumann's ratio test for randomness", Journal of
       the American Statistical Association 77(377).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> guess_task(rng.integers(26, size=20_000)).task
    'classification'
    >>> guess_task(rng.poisson(20, size=20_000)).task
    'regression'
    >>> guess_task(["spam", "ham"])
    TaskGuess(task='classification', reason='text', certain=True)
    """
    try:
        plain = values.to_pylist() if hasattr(values, "to_pylist") else values
    except OverflowError as error:
        raise ValueError(f"The target holds a date that Python has not: {error}.") from None
    plain = plain if isinstance(plain, np.ndarray | list) else list(plain)
    column = view_table({"target": plain}).column("target")
    if isinstance(column, Levels):
        if column.first() is None:
            raise ValueError("The target has no values, so the task cannot be told.")
        form = None if _are_categories(values) else TargetForm.of("target", column)
        if form is not None and form.kind == "number":
            return TaskGuess("regression", f"numbers written as {column.first()!r}")
        if form is not None:
            return TaskGuess("regression", form.said)
        kind = "truth values" if column.boolean else "text"
        return TaskGuess("classification", kind, certain=True)
    present = column.values[~np.isnan(column.values)]
    if len(present) == 0:
        raise ValueError("The target has no values, so the task cannot be told.")
    if _are_categories(values):
        return TaskGuess("classification", "categories", certain=True)
    form = TargetForm.of("target", column)
    if form is not None:
        return TaskGuess("regression", form.said, certain=bool(column.unit))
    if _are_durations(plain):
        return TaskGuess("regression", "durations, answered in seconds", certain=True)
    if not np.all(present == np.round(present)):
        return TaskGuess("regression", "numbers with fractions")
    return _of_whole_numbers(*np.unique(present, return_counts=True), column.integer)


def infer_task(values: Any) -> Task:
    """Tell from target values whether they are classes or quantities.

    Parameters
    ----------
    values : array-like of shape (n_samples,), or column of a pyarrow or pandas table
        Targets; missing ones are ignored.

    Returns
    -------
    task : {"classification", "regression"}
        The guess of :func:`guess_task`, which says by what rule.

    Raises
    ------
    ValueError
        If there are no values.

    Examples
    --------
    >>> infer_task(["spam", "ham"]), infer_task([3, 1, 3]), infer_task([0.5, 2.0])
    ('classification', 'classification', 'regression')
    """
    return guess_task(values).task


def _are_categories(values: Any) -> bool:
    """Return whether the type of a pandas, polars or Arrow column declares categories."""
    kind = str(getattr(values, "type", getattr(values, "dtype", "")))
    return kind.startswith(("category", "Categorical", "Enum", "dictionary"))


def _are_durations(values: NDArray[Any] | list[Any]) -> bool:
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values.dtype.kind == "m"
    first = next((value for value in values if value is not None), None)
    return isinstance(first, timedelta | np.timedelta64)


def _of_whole_numbers(values: NDArray[Any], counts: NDArray[np.intp], integer: bool) -> TaskGuess:
    """Guess by the distinct values, in order, and their numbers of rows."""
    n, n_rows = values.size, int(counts.sum())
    numbers = f"{n:,} whole number{'s' * (n != 1)}"
    if n <= 2:
        return TaskGuess("classification", f"only {numbers}")
    if n > _MOST:
        return TaskGuess("regression", numbers)
    if n_rows < _fewest_rows(n, integer):
        return TaskGuess("regression", f"{n:,} different whole numbers in only {n_rows:,} rows")
    if n <= _FEW:
        return TaskGuess("classification", f"only {numbers}")
    places = _places(values)
    if places is None or n < (_FILLED_OF_SOME if n <= _SOME else _FILLED) * (places[-1] + 1):
        return TaskGuess("regression", f"{numbers}, unevenly spaced")
    filled = np.zeros(places[-1] + 1)
    filled[places] = counts
    if counts.max() <= 2 * counts.min():
        spaced = "evenly spaced " if n == filled.size else ""
        times = f"each about {n_rows / n:,.0f} times"
        return TaskGuess("classification", f"{n:,} {spaced}whole numbers, {times}")
    alike = _neighbours_are_alike(filled)
    if n <= _SOME:
        if alike and min(counts[0], counts[-1]) < _RARE:
            return TaskGuess("regression", f"{numbers}, rarer by and by towards an end")
        return TaskGuess("classification", f"only {numbers}")
    if alike and _falls_to_a_sudden_end(filled):
        return TaskGuess("classification", f"{numbers}, in the order of their frequency")
    if alike:
        return TaskGuess("regression", f"{numbers}, neighbouring ones about equally frequent")
    if any(_is_heaped(values, counts, step) for step in (5, 10)):
        return TaskGuess("regression", f"{numbers}, round ones more frequent")
    span = f"{counts.min():,} to {counts.max():,} times"
    return TaskGuess(
        "classification", f"{numbers}, {span}, neighbouring ones no more alike in that than others"
    )


def _fewest_rows(n: int, integer: bool) -> int:
    """Return how many rows are needed for so many whole numbers to repeat like classes."""
    if not integer or n > _SOME:
        return _REPEATED * n
    return n + 1 if n <= _FEW else _REPEATED_INTEGERS * n


def _places(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Count values in the largest step that divides their distances; None if that is vain."""
    span = float(values[-1]) - float(values[0])
    if span >= 2.0**53:
        return None
    distances = np.diff(values.astype(np.float64)).astype(np.int64)
    places = np.append(0, np.cumsum(distances // np.gcd.reduce(distances)))
    return places if places[-1] < 2 * _MOST else None


def _neighbours_are_alike(counts: Counts) -> bool:
    """Return whether neighbouring values have similar frequencies.

    Examples
    --------
    >>> _neighbours_are_alike(np.array([1, 3, 8, 19, 30, 33, 25, 14, 9, 5, 4, 2, 1, 1.0]))
    True
    >>> _neighbours_are_alike(np.array([8, 1, 30, 3, 25, 1, 14, 33, 2, 5, 9, 19, 1, 4.0]))
    False
    """
    n, ranks = counts.size, rankdata(counts)
    ratio = np.mean(np.diff(ranks) ** 2) / np.var(ranks)
    deviation = 2.0 * np.sqrt((n - 2) / (n**2 - 1))  # of the ratio of numbers in any order
    return bool(ratio < min(_LARGEST_RATIO, 2.0 - _DEVIATIONS * deviation))


def _falls_to_a_sudden_end(counts: Counts) -> bool:
    """Return whether counts fall from the first on, but not to nothing.

    Examples
    --------
    >>> falling = np.round(200.0 / np.arange(1, 31))
    >>> _falls_to_a_sudden_end(falling), _falls_to_a_sudden_end(falling - 6)
    (True, False)
    """
    # The square root of a count has about the same noise whatever the count.
    roots = np.sqrt(counts)
    noise = np.sqrt(np.mean(np.diff(roots) ** 2) / 2.0)
    blocks = np.array([block.mean() for block in np.array_split(roots, _BLOCKS)])
    falls = np.diff(blocks) <= 2.0 * noise / np.sqrt(counts.size / _BLOCKS)
    begins = roots[0] > blocks[0] - 2.0 * noise
    return bool(falls.all() and begins and counts[-2:].mean() >= _RARE)


def _is_heaped(values: NDArray[Any], counts: NDArray[np.intp], step: int) -> bool:
    """Whether most multiples of a step are more frequent than the two values on either side.

    Examples
    --------
    >>> ages = np.arange(20, 70)
    >>> _is_heaped(ages, np.where(ages % 5 == 0, 9, 4), 5), _is_heaped(ages, ages, 5)
    (True, False)
    """
    middle = np.arange(2, len(values) - 2)
    middle = middle[values[middle] % step == 0]
    if len(middle) < 4:
        return False
    around = np.max([counts[middle + shift] for shift in (-2, -1, 1, 2)], axis=0)
    return bool(np.mean(counts[middle] > around) >= _HEAPED)
