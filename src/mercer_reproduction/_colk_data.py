"""The regression problems of COLK, Section V: noisy rows of a function, and LIDAR.

The paper gives the function and the sizes; the range of the inputs, the noise and the outliers are
our settings, since it does not state them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.validation import check_choice, check_integer, check_real
from mercer_reproduction._data_files import load_arrays

Array = NDArray[np.float64]
Outliers = Callable[[np.random.Generator, int], Array]

# Training set s is drawn with this seed plus s, the same in all settings.
_SET_SEED = 1000
_RARE_SHARE = 0.03
_RARE_WIDTH = 0.3
_LIDAR_TEST = 44
_LIDAR_OUTLIER_SHARE = 0.1
_GRID = 401


class Sample(NamedTuple):
    """Inputs (n_rows, 1) and targets (n_rows,)."""

    X: Array
    y: Array

    def take(self, rows: NDArray[np.integer]) -> Sample:
        """Take some of the rows, in this order."""
        return Sample(self.X[rows], self.y[rows])

    def standardised(self) -> Sample:
        """Give the targets mean 0 and deviation 1."""
        return Sample(self.X, (self.y - self.y.mean()) / self.y.std())


class TrainingSet(NamedTuple):
    r"""Rows in the order in which they are visited: twice, in independent orders.

    Attributes
    ----------
    first : Sample
        The samples :math:`\theta_1, \theta_2, \ldots`, for the outer expectation and for methods
        that need one sample in a step.
    second : Sample
        The samples :math:`\xi_1, \xi_2, \ldots`, for the inner expectation; as many.
    """

    first: Sample
    second: Sample

    def interleaved(self) -> Sample:
        r"""All rows as one stream :math:`\theta_1, \xi_1, \theta_2, \xi_2, \ldots`.

        Examples
        --------
        >>> one = Sample(np.array([[1.0], [3.0]]), np.array([1.0, 3.0]))
        >>> two = Sample(np.array([[2.0], [4.0]]), np.array([2.0, 4.0]))
        >>> TrainingSet(one, two).interleaved().y
        array([1., 2., 3., 4.])
        """
        (X, y), (X2, y2) = self
        return Sample(np.stack([X, X2], axis=1).reshape(-1, X.shape[1]), np.ravel([y, y2], "F"))


@dataclass(frozen=True)
class Setting:
    r"""How rows are made: :math:`y = 2x + 3 \sin 6x` plus noise and outliers.

    Attributes
    ----------
    title : str
        A few words for tables.
    noise : float, default=0.3
        Standard deviation of the normal noise at x = 0.
    noise_growth : float, default=0
        What the deviation grows by from x = 0 to x = 1.
    tails : float or None, default=None
        Degrees of freedom of Student's t, whose draws times ``noise`` are the noise instead.
    share : float, default=0
        Probability that a row is an outlier.
    outliers : callable or None, default=None
        Draws what is added to outliers: from a generator and a number of rows.
    low : float, default=0
        Inputs are uniform between this and 1.
    rare : bool, default=False
        Whether 3 % of the inputs are uniform between 1 and 1.3 instead.
    """

    title: str
    noise: float = 0.3
    noise_growth: float = 0.0
    tails: float | None = None
    share: float = 0.0
    outliers: Outliers | None = None
    low: float = 0.0
    rare: bool = False

    def grid(self) -> Array:
        """401 equidistant inputs over the whole range, shape (401, 1)."""
        high = 1.0 + _RARE_WIDTH if self.rare else 1.0
        return np.linspace(self.low, high, _GRID)[:, None]

    def draw(self, n_rows: int, rng: np.random.Generator) -> Sample:
        """Make rows; all settings without their own input range have the same inputs and noise."""
        x = rng.uniform(self.low, 1.0, n_rows)
        if self.rare:
            seldom = rng.random(n_rows) < _RARE_SHARE
            x[seldom] = 1.0 + _RARE_WIDTH * x[seldom]
        noise = (self.noise + self.noise_growth * x) * rng.standard_normal(n_rows)
        outlying = rng.random(n_rows) < self.share
        if self.outliers is not None:
            noise[outlying] += self.outliers(rng, int(outlying.sum()))
        if self.tails is not None:
            noise = self.noise * rng.standard_t(self.tails, n_rows)
        X = x[:, None]
        return Sample(X, truth(X) + noise)


def _normal(deviation: float) -> Outliers:
    return lambda rng, n_rows: deviation * rng.standard_normal(n_rows)


def _constant(value: float) -> Outliers:
    return lambda rng, n_rows: np.full(n_rows, value)


def _exponential(mean: float) -> Outliers:
    return lambda rng, n_rows: mean * rng.standard_exponential(n_rows)


#: The settings of the paper's Fig. 1 and 2; it states the function and "outliers" only.
SETTINGS = {
    "A": Setting("no outliers, sd .3"),
    "B": Setting("10 % N(0, 25)", share=0.1, outliers=_normal(5.0)),
    "C": Setting("10 % +5", share=0.1, outliers=_constant(5.0)),
    "D": Setting("no outliers, sd 1", noise=1.0),
    "E": Setting(".5 t(2.5) noise", noise=0.5, tails=2.5),
    "F": Setting("20 % N(0, 100)", share=0.2, outliers=_normal(10.0)),
    "G": Setting("5 % N(0, 9)", share=0.05, outliers=_normal(3.0)),
    "H": Setting("x in [-1, 1], 10 % N(0, 25)", share=0.1, outliers=_normal(5.0), low=-1.0),
    "I": Setting("1 % N(0, 100)", share=0.01, outliers=_normal(10.0)),
    "J": Setting("10 % +5 Exp(1)", share=0.1, outliers=_exponential(5.0)),
}

#: Kinds of noise that call for different objectives.
REGIMES = {
    "none": SETTINGS["A"],
    "sym": SETTINGS["B"],
    "shift": SETTINGS["C"],
    "skew": SETTINGS["J"],
    "het": Setting("sd .1 + 1.4 x", noise=0.1, noise_growth=1.4),
    "rare": Setting("3 % of x in [1, 1.3]", rare=True),
}


@dataclass(frozen=True)
class Pool:
    """Rows of one setting: those for tests, and those that training sets are drawn from.

    Attributes
    ----------
    setting : Setting
        How they were made.
    test : Sample
        Rows for tests; their targets have noise and outliers, too.
    rows : Sample
        Rows for training.
    """

    setting: Setting
    test: Sample
    rows: Sample

    def training_set(
        self, number: int, n_rows: int | None = None, n_passes: int = 1
    ) -> TrainingSet:
        """Draw training set ``number`` (0, 1, ...): the same rows whenever it is asked for.

        Parameters
        ----------
        number : int
            Of the set. Sets overlap, since all are from one pool.
        n_rows : int or None, default=None
            Rows drawn without replacement; None means half of the pool, as in the paper.
        n_passes : int, default=1
            Visits of each row; every pass has two new orders.
        """
        check_integer("number", number, low=0)
        size = len(self.rows.y)
        n_rows = size // 2 if n_rows is None else n_rows
        check_integer("n_rows", n_rows, low=1, high=size)
        rng = np.random.default_rng(_SET_SEED + number)
        return _in_two_orders(
            self.rows.take(rng.choice(size, n_rows, replace=False)), n_passes, rng
        )


def draw_pool(setting: Setting, seed: int = 7, n_test: int = 1200, n_rows: int = 4800) -> Pool:
    """Make the rows of a setting; the first ``n_test`` are for tests.

    The paper's "60000" samples must be 6000: 20 % for tests leave 4800.

    Parameters
    ----------
    setting : Setting
        One of ``SETTINGS`` or ``REGIMES``, or another.
    seed : int, default=7
        Of all rows.
    n_test, n_rows : int, default=1200 and 4800
        Rows for tests, and to draw training sets from.

    Examples
    --------
    >>> pool = draw_pool(SETTINGS["B"])
    >>> pool.training_set(0).first.X.shape
    (2400, 1)
    """
    sample = setting.draw(n_test + n_rows, np.random.default_rng(seed))
    test = np.arange(n_test)
    return Pool(setting, sample.take(test), sample.take(np.arange(n_test, n_test + n_rows)))


def truth(X: Array) -> Array:
    """Values of 2x + 3 sin 6x, shape (n_rows,).

    Examples
    --------
    >>> truth(np.array([[0.0], [1.0]])).round(3)
    array([0.   , 1.162])
    """
    x = X[:, 0]
    values: Array = 2.0 * x + 3.0 * np.sin(6.0 * x)
    return values


def clean_error(predict: Callable[[Array], Array], X: Array) -> float:
    """Mean squared error of predictions to the function itself, without noise and outliers.

    Parameters
    ----------
    predict : callable
        From rows (n_rows, 1) to predictions (n_rows,).
    X : ndarray of shape (n_rows, 1)
        Where: test inputs, or the grid of the setting.
    """
    return float(np.mean((predict(X) - truth(X)) ** 2))


def worst_mean(losses: Array, level: float) -> float:
    r"""Empirical CVaR: mean of the worst share :math:`1 - q` of the losses.

    If :math:`(1 - q) n` is not a whole number, the last loss counts by the part that is left, so
    that this is :math:`\min_v v + \operatorname{mean}((\ell - v)_+) / (1 - q)`.

    Parameters
    ----------
    losses : ndarray of shape (n_rows,)
        Losses of test rows.
    level : float
        q, at least 0 and below 1; 0 gives the mean.

    Raises
    ------
    ValueError
        If the level is outside its range, or there are no losses.

    References
    ----------
    Rockafellar, Uryasev (2000), Optimization of conditional value-at-risk.

    Examples
    --------
    >>> worst_mean(np.array([1.0, 4.0, 2.0, 3.0]), 0.5)
    3.5
    """
    check_real("level", level, low=0.0, high=1.0, open_high=True)
    if losses.size == 0:
        raise ValueError("`losses` is empty: there is no worst share of no losses. Pass some.")
    # Rounding: (1 - 0.9) * 10 is 0.9999999999999998, which means one loss.
    n_worst = round((1.0 - level) * losses.size, 9)
    weights = np.clip(n_worst - np.arange(losses.size), 0.0, 1.0)
    return float(weights @ np.sort(losses)[::-1] / n_worst)


class LidarSplit(NamedTuple):
    """LIDAR rows for training, with outliers, and for tests, without."""

    training: TrainingSet
    test: Sample


#: What is added to a tenth of the training rows of LIDAR, by the name of the setting.
LIDAR_OUTLIERS: dict[str, Outliers | None] = {
    "clean": None,
    "sym": _normal(0.8),
    "up": _constant(0.8),
}


def lidar_split(
    data: Path | None, number: int, outliers: str = "clean", n_passes: int = 20
) -> LidarSplit:
    """Draw split ``number`` of LIDAR: 177 rows for training and 44 for tests.

    The range is scaled to [0, 1], the log ratio is left as it is. Splits and visiting orders are
    the same for all kinds of outliers.

    Parameters
    ----------
    data : Path or None
        Directory with ``lidar.parquet``: columns ``range`` and ``logratio``, 221 rows. None: that
        of the environment variable ``MERCER_DATA``.
    number : int
        Of the split: 0, 1, ...
    outliers : {"clean", "sym", "up"}, default="clean"
        Key of ``LIDAR_OUTLIERS``. A training row is an outlier with probability 0.1.
    n_passes : int, default=20
        Visits of each row; every pass has two new orders.

    Raises
    ------
    ValueError
        If the number or the kind of outliers is none.
    FileNotFoundError
        If there is no such file.
    """
    check_integer("number", number, low=0)
    check_choice("outliers", outliers, tuple(LIDAR_OUTLIERS))
    table = load_arrays("lidar.parquet", data)
    x, y = (table[column].astype(np.float64) for column in ("range", "logratio"))
    sample = Sample(((x - x.min()) / (x.max() - x.min()))[:, None], y)
    rng = np.random.default_rng(_SET_SEED + number)
    order = rng.permutation(y.size)
    training, test = sample.take(order[_LIDAR_TEST:]), sample.take(order[:_LIDAR_TEST])
    # A separate generator, so that visiting orders are the same with and without outliers.
    noise = np.random.default_rng((_SET_SEED + number, 1))
    outlying = noise.random(training.y.size) < _LIDAR_OUTLIER_SHARE
    draw = LIDAR_OUTLIERS[outliers]
    if draw is not None:
        training.y[outlying] += draw(noise, int(outlying.sum()))
    return LidarSplit(_in_two_orders(training, n_passes, rng), test)


def _in_two_orders(sample: Sample, n_passes: int, rng: np.random.Generator) -> TrainingSet:
    check_integer("n_passes", n_passes, low=1)
    size = len(sample.y)
    orders = np.array([[rng.permutation(size) for _ in range(2)] for _ in range(n_passes)])
    return TrainingSet(sample.take(orders[:, 0].ravel()), sample.take(orders[:, 1].ravel()))
