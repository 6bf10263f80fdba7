"""The census data "Adult" as 123 indicators, from the fields of the UCI repository.

DSG uses the columns of the LIBSVM collection (a9a), and so does this: categories in the order of
the repository's description, numbers cut into groups. Where a9a cuts is not published. The cuts
below are suggested by the sizes of its groups; the weights of the census (fnlwgt) are cut at their
quintiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Fields in their order: a category's values, or the upper ends of all groups of a number but the
# last.
_FIELDS: Mapping[str, tuple[str, ...] | tuple[int, ...]] = {
    "age": (25, 32, 40, 49),
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
        "Without-pay", "Never-worked",
    ),
    "fnlwgt": (),  # the quintiles of the training rows
    "education": (
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc",
        "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
    ),
    "education-num": (8, 9, 10, 12),
    "marital-status": (
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
        "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
        "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
        "Armed-Forces",
    ),
    "relationship": (
        "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried",
    ),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "capital-gain": (0,),
    "capital-loss": (0,),
    "hours-per-week": (34, 39, 40, 47),
    "native-country": (
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
        "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
        "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia",
        "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador",
        "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
    ),
}  # fmt: skip
_WEIGHT = "fnlwgt"
_QUINTILES = (0.2, 0.4, 0.6, 0.8)
_UNKNOWN = "?"


def adult_columns(
    rows: Sequence[Sequence[str]], training: Sequence[Sequence[str]]
) -> dict[str, NDArray[Any]]:
    """Turn people into indicators f1 ... f123 and a label (-1 or +1).

    Parameters
    ----------
    rows : sequence of sequences of str
        The fourteen fields of a person in their order, "?" where one is not known, and ``<=50K``
        or ``>50K``, with or without a full stop.
    training : sequence of sequences of str
        Rows whose weights give the quintiles.

    Returns
    -------
    columns : dict of str to ndarray of shape (n_rows,)
        By name.

    Raises
    ------
    ValueError
        If rows have other fields, or values that the description does not name.

    Examples
    --------
    >>> row = (
    ...     "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, "
    ...     "White, Male, 2174, 0, 40, United-States, <=50K"
    ... ).split(", ")
    >>> columns = adult_columns([row], [row])
    >>> columns["label"], [name for name in columns if columns[name][0] == 1][:4]
    (array([-1], dtype=int8), ['f3', 'f11', 'f14', 'f19'])
    """
    width = len(_FIELDS) + 1
    if any(len(row) != width for row in (*rows, *training)):
        raise ValueError(f"every row must have {width} fields")
    incomes = [row[-1].rstrip(".") for row in rows]
    if not set(incomes) <= {"<=50K", ">50K"}:
        raise ValueError("the last field must be <=50K or >50K")
    blocks = []
    for place, (name, values) in enumerate(_FIELDS.items()):
        words = np.array([row[place] for row in rows])
        if name == _WEIGHT:
            weights = np.array([row[place] for row in training], dtype=float)
            blocks.append(_groups(words, np.quantile(weights, _QUINTILES)))
        elif isinstance(values[0], str):
            blocks.append(_categories(name, words, values))
        else:
            blocks.append(_groups(words, np.array(values)))
    X = np.hstack(blocks)
    columns: dict[str, NDArray[Any]] = {f"f{i + 1}": X[:, i] for i in range(X.shape[1])}
    columns["label"] = np.where(np.array(incomes) == ">50K", 1, -1).astype(np.int8)
    return columns


def _categories(name: str, words: NDArray[Any], values: Sequence[object]) -> NDArray[np.uint8]:
    """One column for each value; all are 0 where it is not known."""
    if new := set(words.tolist()) - {*values, _UNKNOWN}:
        raise ValueError(f"{name} has the unknown value {min(new)!r}")
    return np.array([words == value for value in values], dtype=np.uint8).T


def _groups(words: NDArray[Any], ends: NDArray[Any]) -> NDArray[np.uint8]:
    """One column for each group of numbers, upper ends included."""
    group = np.searchsorted(ends, words.astype(float), side="left")
    return np.asarray(group[:, np.newaxis] == np.arange(ends.size + 1), dtype=np.uint8)
