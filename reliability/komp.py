"""The promise of KOMP, step by step, in higher precision.

*A step.* A regressor by POLK learns one row. What it was before and after is read from
`dictionary_` and `coefficients_`. The step without compression follows from the row in extended
precision (80 bits). So does the distance of the two functions in the space of the kernel, from the
Gram matrix of all points.

*The promise.* This distance is at most the tolerance. Rounding adds to it what it adds to any sum
of kernel values: at most a multiple of the sum of the absolute coefficients. The table says which
multiple was seen.

To run it:

    python reliability/komp.py                       # long: 1,000,000 steps
    python reliability/komp.py --short               # seconds
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np

from mercer import KernelRegressor
from mercer.expansions import KOMP
from mercer.kernels import Gaussian, Laplacian, Matern, Polynomial

WIDTH, STEP, SHRINK = 2, 0.5, 1e-3
Long = np.longdouble
Rows = Iterator[tuple[np.ndarray, float]]


def _gaussian(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(-np.sum((X[:, None] - Z) ** 2, axis=2) / Long(2.0))


def _laplacian(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(-np.sum(np.abs(X[:, None] - Z), axis=2))


def _matern(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    a = np.sqrt(3 * np.sum((X[:, None] - Z) ** 2, axis=2))
    return (1 + a) * np.exp(-a)


def _polynomial(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return (X @ Z.T / Long(WIDTH) + 1) ** 3


KERNELS: dict[str, tuple[Any, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "Gaussian": (Gaussian(1.0), _gaussian),
    "Laplacian": (Laplacian(1.0), _laplacian),
    "Matérn 3/2": (Matern(1.5, 1.0), _matern),
    "polynomial": (Polynomial(3), _polynomial),
}


def _random(rng: np.random.Generator) -> Rows:
    while True:
        x = rng.standard_normal(WIDTH)
        yield x, float(np.sin(2.0 * x[0]) + x[1] + 0.1 * rng.standard_normal())


def _repeated(rng: np.random.Generator) -> Rows:
    points = rng.standard_normal((40, WIDTH))
    while True:
        x = points[rng.integers(len(points))]
        yield x, float(x[0] + 0.1 * rng.standard_normal())


def _nearly_alike(rng: np.random.Generator) -> Rows:
    """Points in a few spots whose widths are of ten orders of magnitude."""
    centres = rng.standard_normal((8, WIDTH))
    while True:
        x = centres[rng.integers(8)] + 10.0 ** rng.uniform(-10, 0) * rng.standard_normal(WIDTH)
        yield x, float(np.sin(3.0 * x[0]) + 0.1 * rng.standard_normal())


def _drifting(rng: np.random.Generator) -> Rows:
    for number in itertools.count():
        x = rng.standard_normal(WIDTH) + 3.0 * np.sin(number / 500.0)
        yield x, float(np.sin(x[0] + number / 1000.0) + 0.1 * rng.standard_normal())


DATA = {
    "random": _random,
    "repeated": _repeated,
    "nearly alike": _nearly_alike,
    "drifting": _drifting,
}
TOLERANCES = (0.03, 1e-3)


def distances(
    kernel: str, data: str, dtype: Any, tolerance: float, n_steps: int, seed: int
) -> Iterator[tuple[float, float]]:
    """Distance of each step that compression made, and the sum of the absolute coefficients."""
    made, exact = KERNELS[kernel]
    rows = DATA[data](np.random.default_rng([55, seed]))
    model = KernelRegressor(
        kernel=made,
        expansion=KOMP(tolerance=tolerance),
        step_size=_step_of(kernel, data),
        regularization=SHRINK,
        batch_size=1,
        average=None,
    )
    points, weights = np.zeros((0, WIDTH), dtype), np.zeros(0)
    for x, y in itertools.islice(rows, n_steps):
        row = np.asarray(x, dtype)[np.newaxis]
        model.partial_fit(row, [y])
        kept = model.dictionary_.dtype  # single precision until the points are too near each other
        row, points = row.astype(kept), points.astype(kept)
        added = Long(0) if not len(points) else exact(_long(row), _long(points))[0] @ _long(weights)
        step = Long(_step_of(kernel, data))
        before = np.append((1 - step * Long(SHRINK)) * _long(weights), step * (Long(y) - added))
        everything = np.vstack([points, row])
        points, weights = model.dictionary_, model.coefficients_[:, 0]
        places = {point.tobytes(): place for place, point in enumerate(everything)}
        moved = before.copy()
        for place, point in enumerate(everything):  # a row that is there already
            first = places[point.tobytes()]
            if first != place:
                moved[first] += moved[place]
                moved[place] = 0
        for point, weight in zip(points, weights, strict=True):
            moved[places[point.tobytes()]] -= Long(weight)
        gram = exact(_long(everything), _long(everything))
        square = moved @ gram @ moved
        yield float(np.sqrt(max(square, Long(0)))), float(np.abs(before).sum())


def _step_of(kernel: str, data: str) -> float:
    """A step size at which nothing diverges: a polynomial is large where rows are."""
    if kernel != "polynomial":
        return STEP
    return 1e-5 if data == "drifting" else 1e-2


def _long(values: np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(Long)


def row_of(kernel: str, data: str, dtype: Any, n_steps: int) -> dict[str, Any]:
    """What the table says of a kernel, some data and a type of numbers."""
    n, over, beyond, largest = 0, 0, 0.0, 0.0
    for seed, tolerance in enumerate(TOLERANCES):
        for moved, size in distances(kernel, data, dtype, tolerance, n_steps, seed):
            n += 1
            over += moved > tolerance
            beyond = max(beyond, (moved - tolerance) / size if size else 0.0)
            largest = max(largest, moved / tolerance)
    return {
        "kernel": kernel,
        "data": data,
        "numbers": np.dtype(dtype).name,
        "steps": n,
        "beyond the tolerance": over,
        "largest / tolerance": largest,
        "beyond it, in the sum of absolute coefficients": beyond,
    }


def main(arguments: list[str]) -> int:
    """Run the steps and say how far they went."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--steps", type=int, help="of each kernel, data, type and tolerance")
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    n = options.steps or (50 if options.short else 16_000)
    report = _rig.Report("komp", options, names=KERNELS)
    for kernel, data, dtype in itertools.product(options.kernels, DATA, (np.float64, np.float32)):
        row = row_of(kernel, data, dtype, n)
        report.add(row, row["beyond the tolerance"])
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
