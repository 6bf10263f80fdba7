"""Tables with a known answer, drawn by a seed, on which trees or discriminants were ahead."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A table that is drawn.

    Attributes
    ----------
    draw : callable
        Returns all rows and their targets from a random generator.
    regression : bool, default=False
        Whether targets are numbers.
    n_train : int
        Number of rows to learn from; the others are for testing.
    """

    draw: Callable[[np.random.Generator], tuple[Floats, NDArray]]
    n_train: int
    regression: bool = False

    def split(self, seed: int) -> tuple[Floats, NDArray, Floats, NDArray]:
        """Rows to learn with their targets, and rows for testing with theirs."""
        X, y = self.draw(np.random.default_rng([7, seed]))
        n = self.n_train
        return X[:n], y[:n], X[n:], y[n:]


def nested_rule(rng: np.random.Generator, sizes: tuple[int, ...]) -> tuple[Floats, NDArray]:
    """All combinations of nominal levels in random order, five classes by a rule of rules.

    Two or three columns decide on a concept of three grades, and the concepts on the class. Levels
    have no order: codes are permuted.
    """
    rows = np.array(list(itertools.product(*map(range, sizes))))
    concepts = []
    for columns in np.array_split(np.arange(len(sizes)), 3):
        worth = sum(rng.permutation(np.linspace(0.0, 1.0, sizes[j]))[rows[:, j]] for j in columns)
        concepts.append(np.digitize(worth, np.quantile(worth, [0.35, 0.75])))
    first, second, third = concepts
    # The worst grade of the first concept decides alone; otherwise the others do.
    total = first + second + third
    y = np.where(first == 0, 0, np.where(third == 0, 1, np.where(second == 0, 2, 3)))
    y = np.where((y == 3) & (total >= 5), 4, y)
    order = rng.permutation(len(rows))
    return rows[order].astype(np.float64), y[order]


def hormones(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Seven measures, sixteen flags; rare classes by thresholds of hormones and of a ratio."""
    flags = (rng.random((n, 16)) < rng.uniform(0.02, 0.4, 16)).astype(np.float64)
    sick = rng.random(n) < 0.12
    high = rng.random(n) < 0.05
    tsh = np.exp(rng.normal(0.5, 0.9, n) + 1.9 * sick - 2.0 * high)
    tt4 = rng.normal(108.0, 30.0, n) - 30.0 * sick * (rng.random(n) < 0.5) + 45.0 * high
    tt4 = np.maximum(tt4, 5.0)
    uptake = rng.normal(1.0, 0.17, n).clip(0.4, 2.2)
    t3 = np.maximum(rng.normal(2.0, 0.7, n) - 0.5 * sick + 1.3 * high, 0.1)
    free = tt4 / uptake
    treated = flags[:, 0] == 1.0
    y = np.zeros(n, dtype=int)
    y[(tsh > 6.0) & (free >= 65.0) & ~treated & (tt4 < 150.0)] = 1
    y[(tsh > 6.0) & (free < 65.0)] = 2
    y[(t3 > 3.0) & (free > 155.0) & (tsh < 1.0)] = 3
    age, iodine = rng.uniform(10, 90, n), np.exp(rng.normal(1.0, 0.5, n))
    measures = [age, tsh.round(2), t3.round(2), tt4.round(1), uptake.round(3), iodine]
    return np.column_stack([*measures, rng.normal(0.0, 1.0, n), flags]), y


def few_of_many(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """A smooth function of 4 of 32 columns; noise is a quarter of the variance."""
    X = rng.uniform(-1.0, 1.0, (n, 32))
    a, b, c, d = X[:, [3, 11, 19, 28]].T
    f = np.sin(2.5 * a) * b + 0.7 * np.cos(3.0 * c) * a + 0.5 * b * d
    f /= f.std()
    return X, f + rng.normal(0.0, np.sqrt(1.0 / 3.0), n)


def binary_columns(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Three classes by 20 of 180 binary columns, some of them in pairs, and a tenth at random."""
    X = (rng.random((n, 180)) < rng.uniform(0.15, 0.5, 180)).astype(np.float64)
    scores = np.zeros((n, 3))
    for place, j in enumerate(rng.permutation(180)[:20]):
        pair = X[:, j] * (X[:, (7 * j + 1) % 180] if place % 4 == 0 else 1.0)
        scores[:, place % 3] += rng.uniform(1.5, 3.0) * pair
    scores -= scores.mean(axis=0)
    return X, np.argmax(scores + rng.gumbel(0.0, 0.25, scores.shape), axis=1)


def sensors(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Six gases seen by 16 sensors, 8 readings of each: copies of each other with a drift."""
    gas, strength = rng.integers(0, 6, n), rng.uniform(0.3, 3.0, n)
    response = rng.normal(0.0, 1.0, (6, 4)) @ rng.normal(0.0, 1.0, (4, 16)) * 0.35 + 1.5
    time = rng.uniform(0.0, 1.0, n)
    power = rng.uniform(0.5, 0.9, 16)
    level = np.exp(0.3 * response[gas]) * strength[:, None] ** power
    level *= 1.0 + 0.5 * time[:, None] * rng.uniform(-1.0, 1.0, 16)
    level *= np.exp(rng.normal(0.0, 0.06, (n, 16)))
    gain = np.exp(rng.normal(0.0, 1.5, (16, 8)))
    bend = rng.uniform(0.6, 1.4, (16, 8))
    readings = gain * level[:, :, None] ** bend * np.exp(rng.normal(0.0, 0.08, (n, 16, 8)))
    return readings.reshape(n, 128), gas


def textures(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Eleven classes in 40 correlated columns: what tells them apart has little of the variance."""
    y = rng.integers(0, 11, n)
    means = 7.0 * rng.normal(0.0, 1.0, (11, 8))
    hidden = rng.normal(0.0, 1.0, (n, 40))
    hidden[:, :8] = means[y] + rng.normal(0.0, 1.2, (n, 8))
    hidden *= np.r_[np.full(8, 0.12), np.geomspace(6.0, 0.2, 32)]
    mixing = np.linalg.qr(rng.normal(0.0, 1.0, (40, 40)))[0]
    return hidden @ mixing, y


def shops(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Three hundred shops with a number and an effect each, beside a smooth function; .1 noise."""
    effects, shop = rng.normal(0.0, 1.0, 300), rng.integers(0, 300, n)
    X = rng.normal(0.0, 1.0, (n, 5))
    f = effects[shop] + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    f /= f.std()
    return np.column_stack([1000.0 + shop, X]), f + rng.normal(0.0, np.sqrt(1.0 / 9.0), n)


def shops_above(rng: np.random.Generator, n: int) -> tuple[Floats, NDArray]:
    """Whether the targets of shops are above zero."""
    X, y = shops(rng, n)
    return X, (y > 0.0).astype(np.int64)


CASES = {
    "rules over codes, 1,700 rows": Case(
        lambda rng: nested_rule(rng, (3, 4, 5, 4, 3, 3)), n_train=1700
    ),
    "rules over codes, 10,000 rows": Case(
        lambda rng: nested_rule(rng, (3, 5, 4, 4, 3, 3, 3, 5)), n_train=10_000
    ),
    "thresholds of hormones": Case(lambda rng: hormones(rng, 8000), n_train=3000),
    "4 of 32 columns": Case(lambda rng: few_of_many(rng, 10_000), n_train=6000, regression=True),
    "20 of 180 binary columns": Case(lambda rng: binary_columns(rng, 6000), n_train=2500),
    "128 readings of 16 sensors": Case(lambda rng: sensors(rng, 6000), n_train=2600),
    "shops by number": Case(lambda rng: shops(rng, 8000), n_train=3000, regression=True),
    "shops by number, two classes": Case(lambda rng: shops_above(rng, 11_000), n_train=6000),
    "11 textures": Case(lambda rng: textures(rng, 8000), n_train=4400),
}
