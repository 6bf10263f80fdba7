"""The default learner on ten million generated rows from a Parquet file.

Once the sums are full, memory must stay flat, and so must the cost of a row.

The file is written first, in pieces. ``mercer_app.files.read_tables`` then reads it in pieces, and
no rows are kept.

Some costs are paid once: the race, and the cells. (Cells get their points one after the other from
the first 300,000 rows.) The column "set-up + flat cost" is what the CPU time would be if each
further row cost the same. It is the line a + b times the rows that comes nearest to all CPU times.
Distances from the line are relative to these times.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import _common
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mercer import KernelRegressor
from mercer.expansions import Auto
from mercer_app.files import read_tables

D = 10
BLOCK = 65_536
NOISE = 0.5
WEIGHTS = np.random.default_rng(1).standard_normal((D, 3))


def truth(X):
    """A function with structure at several scales, of variance near 1."""
    Z = X @ WEIGHTS / np.sqrt(D)
    return np.sin(2.0 * Z[:, 0]) + 0.7 * np.cos(3.0 * Z[:, 1]) * np.tanh(Z[:, 2])


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    return X, truth(X) + NOISE * rng.standard_normal(n)


def write(path, n_rows):
    names = [f"x{j}" for j in range(D)] + ["y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for number, start in enumerate(range(0, n_rows, BLOCK)):
            X, y = rows(min(BLOCK, n_rows - start), 1000 + number)
            columns = [pa.array(c, pa.float32()) for c in (*X.T, y)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def blocks(path):
    for table in read_tables(path, rows_per_table=BLOCK):
        columns = np.column_stack([column.to_numpy() for column in table.columns])
        yield columns[:, :-1].astype(np.float64), columns[:, -1].astype(np.float64)


def follow(path, n_rows):
    model = KernelRegressor(expansion=Auto(expected_rows=n_rows))
    X_test, _ = rows(20_000, 0)
    marks = [int(n_rows * f) for f in (0.01, 0.03, 0.1, 0.3, 1.0)]
    table, seen, last, spent, total = [], 0, 0, 0.0, 0.0
    for X, y in blocks(path):
        seconds, _ = _common.cpu_seconds(lambda: model.partial_fit(X, y))
        spent, total = spent + seconds, total + seconds
        seen += len(X)
        if seen < marks[0]:
            continue
        marks.pop(0)
        solving, error = _common.cpu_seconds(
            lambda: float(np.mean((model.predict(X_test) - truth(X_test)) ** 2))
        )
        table.append(
            {
                "rows": seen,
                "µs per row since": 1e6 * spent / (seen - last),
                "CPU s in all": total,
                "solving and 20,000 predictions (s)": solving,
                "peak memory (MiB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "points": model.model_order_,
                "squared error to the truth": error,
            }
        )
        print(table[-1], flush=True)
        last, spent = seen, 0.0
        if not marks:
            break
    return table


def with_line(table):
    """Rows of the table with the line that comes nearest to the times, and words on it."""
    n = np.array([row["rows"] for row in table], dtype=float)
    times = np.array([row["CPU s in all"] for row in table])
    columns = np.column_stack([np.ones_like(n), n])
    (a, b), *_ = np.linalg.lstsq(columns / times[:, None], np.ones_like(n))
    line = a + b * n
    lined = []
    for row, value in zip(table, line, strict=True):
        cells = list(row.items())
        lined.append(dict([*cells[:3], ("set-up + flat cost (s)", float(value)), *cells[3:]]))
    off = 100.0 * np.abs(line / times - 1.0).max()
    return lined, (
        f"Set-up {a:.1f} s, then {1e6 * b:.2f} µs a row; no time is further than {off:.1f} % from "
        "that line."
    )


def main(n_rows=10_000_000):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, n_rows)
        _common.publish("default_memory", *with_line(follow(path, n_rows)))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
