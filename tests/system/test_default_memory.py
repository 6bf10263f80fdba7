"""What the default learner holds on a stream: sums within their limit, and few rows.

Constants of its recipe are small, so that some thousand rows fill all sums.
"""

import tracemalloc

import numpy as np
import pytest

from mercer import KernelClassifier, KernelRegressor
from mercer.default import DefaultLearner, Settings
from mercer.expansions import Auto
from mercer.kernels import Partitioned
from mercer.selection import RaceSettings
from mercer.sums import CellsPart, cells

CELL, HELD, WAITING = 24, 120, 60
LIMIT = 2**20
CHUNK = 100
SMALL = Settings(
    first_rows=500,
    most_held=HELD,
    waiting=WAITING,
    race=RaceSettings(
        small=150,
        pilot_rows=100,
        cell_size=CELL,
        cell_rows=40,
        kept_rows=2 * CELL,
        hopeless=np.inf,  # cells take part in any case
    ),
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(DefaultLearner, "settings", SMALL)
    monkeypatch.setattr(cells, "_CROWDED", 3)


def chunks(n, n_distinct=None):
    """Rows in chunks, made as they are asked for; of few distinct ones if so wished."""
    pool = None if n_distinct is None else np.random.default_rng(1).normal(size=(n_distinct, 3))
    for number in range(n // CHUNK):
        rng = np.random.default_rng([2, number])
        X = rng.normal(size=(CHUNK, 3)) if pool is None else rng.choice(pool, CHUNK)
        yield X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=CHUNK)


def bytes_of_sums(model):
    """Arrays of the sums as they lie in memory, kernel matrices beside them and rows of cells."""
    total = 0
    for part in model.learner_.function.components:
        if isinstance(part, CellsPart):
            sums = [cell.statistics for cell in part.cells if cell.statistics is not None]
            filling = [cell for cell in part.cells if cell.rows is not None]
            total += sum(c.rows.n_bytes + c.function.points.nbytes for c in filling)
        else:
            sums = [part.statistics]
            total += 0 if part._penalty is None else part._penalty.nbytes
        for one in sums:
            total += sum(a.nbytes for a in vars(one).values() if isinstance(a, np.ndarray))
    return total


def rows_kept(model):
    """Rows that wait, and the most that a cell keeps."""
    function = model.learner_.function
    cells = [c for p in function.components if isinstance(p, CellsPart) for c in p.cells]
    return len(model.learner_.waiting), max((len(c.rows) for c in cells if c.is_filling), default=0)


@pytest.mark.parametrize(
    ("expected_rows", "forgetting", "task"),
    [
        (None, 1.0, "regression"),  # cells are split as rows come
        (20_000, 1.0, "classification"),  # as many cells as the memory allows from the first
        (20_000, 0.99, "regression"),  # cells choose their points anew
    ],
)
def test_sums_and_rows_are_bounded_while_a_stream_goes_on(expected_rows, forgetting, task):
    cls = KernelRegressor if task == "regression" else KernelClassifier
    auto = Auto(max_memory=LIMIT, expected_rows=expected_rows, forgetting=forgetting)
    model = cls(expansion=auto, random_state=0)
    most = 0
    for number, (X, y) in enumerate(chunks(5000 if expected_rows is None else 3500)):
        given = {} if task == "regression" else {"classes": [0, 1]}
        model.partial_fit(X, y if task == "regression" else (y > 0.5).astype(int), **given)
        if number % 20 == 19:
            model.predict(X)
        if model.learner_.is_decided:
            most = max(most, bytes_of_sums(model))
            waiting, of_a_cell = rows_kept(model)
            assert waiting <= HELD + WAITING + CHUNK
            assert of_a_cell < 4 * CELL
    assert 0.7 * LIMIT < most <= LIMIT
    _, *partitions = model.learner_.function.components
    assert all(len(part.cells) == part.max_cells for part in partitions)


def test_equal_rows_do_not_pile_up_in_cells():
    auto = Auto(max_memory=LIMIT, expected_rows=4000)  # too few distinct rows to fill a cell
    model = KernelRegressor(expansion=auto, random_state=0)
    for X, y in chunks(4000, n_distinct=60):
        model.partial_fit(X, y)
        if model.learner_.is_decided:
            assert rows_kept(model)[1] < 4 * CELL
    _, *partitions = model.learner_.function.components
    assert max(cell.n_rows for part in partitions for cell in part.cells) > 4 * CELL


@pytest.mark.parametrize("own_cells", [False, True])
def test_many_targets_and_cells_of_ones_own_stay_within_the_memory(own_cells):
    (X, y), *_ = chunks(100)
    kernel = Partitioned.fitted(X, 60, multiple=1.0) if own_cells else "auto"
    auto = Auto(max_memory=LIMIT, expected_rows=20_000)
    model = KernelRegressor(kernel=kernel, expansion=auto, random_state=0)
    for X, y in chunks(3000):
        model.partial_fit(X, y[:, np.newaxis] * np.linspace(1.0, 2.0, 300))
    assert bytes_of_sums(model) <= LIMIT
    model.predict(X)


def test_memory_does_not_grow_once_the_sums_are_full():
    auto = Auto(max_memory=LIMIT, expected_rows=20_000)
    model = KernelRegressor(expansion=auto, random_state=0)
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    held = []
    for number, (X, y) in enumerate(chunks(6000)):
        if number == 48:  # tracing is slow, and not needed before
            tracemalloc.start()
        model.partial_fit(X, y)
        if number in {49, 59}:
            model.learner_._solve(now=True)  # what was allocated before is replaced
            for part in model.learner_.function.components:
                # Copies to predict with, of parts with a weight only, which are not always as many.
                (part if isinstance(part, CellsPart) else part.basis)._packed = None
            traces = tracemalloc.take_snapshot().filter_traces([arrays]).traces
            held.append(sum(trace.size for trace in traces))
    tracemalloc.stop()
    # 1,000 more rows are 32 kB of numbers; a few cells may have become full.
    assert held[1] - held[0] < 12_000
