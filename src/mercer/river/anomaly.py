"""River's anomaly detector over mercer's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from mercer.estimators import NoveltyDetector
from mercer.expansions import Expansion
from mercer.kernels import Kernel
from mercer.river.supervised import Row, numbers_of, rows_of
from mercer.validation import check_real

Array = NDArray[np.float64]

# Standardised numbers are clipped here, as for streams, so that one extreme value counts once.
_FARTHEST = 5.0
# A spread below this is a rounding error of a constant.
_ROUNDING = 1e-9
# The usual score is a mean over about this many rows.
_USUAL = 1000


class _Columns:
    """Columns of a stream whose features come and go, with the mean and spread of each.

    Attributes
    ----------
    at : dict
        Column of each feature.
    """

    def __init__(self) -> None:
        self.at: dict[Any, int] = {}
        self._counts, self._means, self._squares = np.zeros((3, 0))

    def learn(self, x: Row) -> None:
        """Update by a row without missing values; new features add columns."""
        new_names = [name for name in x if name not in self.at]
        for name in sorted(new_names, key=lambda n: (type(n).__name__, n)):
            self.at[name] = len(self.at)
        new = np.zeros(len(self.at) - self._counts.size)
        if new.size:
            self._counts, self._means, self._squares = (
                np.append(numbers, new) for numbers in (self._counts, self._means, self._squares)
            )
        columns, values = self._said(x)
        self._counts[columns] += 1.0
        off = values - self._means[columns]
        self._means[columns] += off / self._counts[columns]
        self._squares[columns] += off * (values - self._means[columns])

    def row(self, x: Row, *, scaled: bool) -> Array:
        """Return a row as an array, 0 for missing values; features never learned are left out."""
        columns, values = self._said(x)
        row = np.zeros(len(self.at))
        if not scaled:
            row[columns] = values
            return row
        means, counts = self._means[columns], self._counts[columns]
        spreads = np.sqrt(self._squares[columns] / counts)
        off = values - means
        off[np.abs(off) <= _ROUNDING * np.abs(means)] = 0.0
        spreads[spreads <= _ROUNDING * np.abs(means)] = 0.0
        # A column that was constant until now is infinitely far off if it changes.
        with np.errstate(divide="ignore", over="ignore"):
            far = np.divide(off, spreads, out=np.zeros(off.size), where=off != 0.0)
        # After a single row, nothing is known about usual values.
        row[columns] = np.where(counts > 1.0, np.clip(far, -_FARTHEST, _FARTHEST), 0.0)
        return row

    def _said(self, x: Row) -> tuple[list[int], Array]:
        at = self.at
        known = [name for name in x if name in at]
        return [at[name] for name in known], np.array([x[name] for name in known], dtype=float)


class AnomalyDetector(base.AnomalyDetector):
    """Find rows unlike earlier ones, for River: pipelines, filters, ``evaluate``.

    It learns like :class:`mercer.NoveltyDetector` by ``learn_one``, with the same parameters except
    those of ``fit``. Rows may have other features than earlier ones. A missing feature, or one that
    is None or NaN, counts as usual. A new feature adds a column in which all earlier rows were
    usual.

    Parameters
    ----------
    nu : float, default=0.1
        Share of the rows that count as novel, in (0, 1]; also the ridge parameter.
    kernel : str, Kernel or callable, default="auto"
        Kernel (:mod:`mercer.kernels`). ``"auto"`` is a Gaussian kernel on features standardised by
        the stream so far. Any other kernel takes features as they are, and 0 for missing ones.
    expansion : str or Expansion, default="auto"
        How f stays small (:mod:`mercer.expansions`).
    step_size : float, callable or "auto", default="auto"
        Step size, or a schedule. A constant step, below ``1 / nu``, follows drift.
    average : {"suffix", "polyak", None}, default="suffix"
        Which iterates predict.
    n_jobs : int or None, default=None
        Number of threads.
    seed : int or None, default=None
        Seed, called ``random_state`` in mercer.

    Attributes
    ----------
    estimator : NoveltyDetector
        Wrapped estimator; its inputs are the columns, standardised with ``kernel="auto"``.

    See Also
    --------
    mercer.NoveltyDetector : Describes the parameters in full.

    Notes
    -----
    Let f be the value of a row, which is large where rows are common, and m its mean over about the
    last thousand rows, each before it was learned. The score is m / (m + max(f, 0)).

    Examples
    --------
    >>> import random
    >>> draw = random.Random(0)
    >>> model = AnomalyDetector()
    >>> for _ in range(200):
    ...     model.learn_one({"a": draw.gauss(50.0, 9.0), "b": draw.gauss(0.0, 0.1)})
    >>> model.score_one({"a": 50.0, "b": 0.0}) < 0.6 < 0.9 < model.score_one({"a": 50.0, "b": 9.0})
    True
    """

    def __init__(
        self,
        nu: float = 0.1,
        *,
        kernel: str | Kernel | Callable[..., Any] = "auto",
        expansion: str | Expansion = "auto",
        step_size: float | str | Callable[[int], float] = "auto",
        average: str | None = "suffix",
        n_jobs: int | None = None,
        seed: Any = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.expansion = expansion
        self.step_size = step_size
        self.average = average
        self.n_jobs = n_jobs
        self.seed = seed
        params = {name: getattr(self, name) for name in self._get_params()}
        self._is_scaled = isinstance(kernel, str) and kernel == "auto"
        if self._is_scaled:
            params["kernel"] = "gaussian"
        self.estimator = NoveltyDetector(random_state=params.pop("seed"), **params)
        self._columns = _Columns()
        self._usual = 0.0

    def learn_one(self, x: Row, w: float = 1.0) -> None:
        """Learn one row.

        Parameters
        ----------
        x : dict
            Features by name.
        w : float, default=1.0
            Weight of the row.

        Raises
        ------
        ValueError
            If a feature is not a number or infinite, or there is a new feature and the kernel has
            numbers for each input; the model is unchanged.
        """
        x = _said(x)
        check_real("w", w, low=0.0)
        if not x:
            return  # it has no values
        self._widen(x)
        self._columns.learn(x)
        row = self._columns.row(x, scaled=self._is_scaled)
        if hasattr(self.estimator, "learner_"):
            value = max(-self.estimator.score_one(row), 0.0)
            share = 1.0 / min(self.estimator.n_samples_seen_, _USUAL)
            self._usual += share * (value - self._usual)
        self.estimator.learn_one(row, w)

    def _widen(self, x: Row) -> None:
        """Add inputs for new features: 0 in all earlier rows."""
        new = [name for name in x if name not in self._columns.at]
        if not new or not hasattr(self.estimator, "learner_"):
            return
        try:
            state = self.estimator.to_state()
            state["n_features"] += len(new)
            for arrays, name in (
                (state["targets"]["kept"], "rows"),
                (state["learner"]["function"]["arrays"], "points"),
            ):
                if name in arrays:
                    arrays[name] = np.pad(arrays[name], [(0, 0), (0, len(new))])
            wide = NoveltyDetector.from_state(state)
        except ValueError as error:
            raise ValueError(
                f"The row has the feature(s) {new[:8]} besides {list(self._columns.at)[:8]}, and "
                f"this detector cannot take in more: {error} Leave them out, or use a kernel that "
                "does not depend on the number of features, such as the default."
            ) from error
        wide.n_jobs = self.n_jobs
        self.estimator = wide

    def score_one(self, x: Row) -> float:
        """Return how much a row differs from earlier rows.

        Parameters
        ----------
        x : dict
            Features by name.

        Returns
        -------
        score : float
            From 0 to 1: 1 where there were no rows, 1/2 where rows are as dense as around a usual
            row. 0.0 before any row was learned.
        """
        x = _said(x)
        if not hasattr(self.estimator, "learner_"):
            return 0.0
        value = max(-self.estimator.score_one(self._columns.row(x, scaled=self._is_scaled)), 0.0)
        return self._usual / (self._usual + value) if value > 0.0 else 1.0

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame, one by one.

        Parameters
        ----------
        X : DataFrame
            Frame of pandas, polars, Arrow, ...
        """
        for x in rows_of(X):
            self.learn_one(x)


def _said(x: Row) -> Row:
    """Return the values of a row that are present: numbers other than NaN."""
    x = numbers_of(x)
    infinite = [name for name, value in x.items() if math.isinf(value)]
    if infinite:
        raise ValueError(
            f"The feature {infinite[0]!r} is {x[infinite[0]]}. Leave it out, or skip the row."
        )
    return {name: value for name, value in x.items() if not math.isnan(value)}
