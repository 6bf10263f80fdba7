"""The default learner on ten million generated rows from a Parquet file.

Memory must stay flat once the sums are full, and so must the cost of a row. The file is written
first, in pieces, and read in pieces by ``mercer.data.read_tables``; nothing of the rows is kept.
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
from mercer.data import read_tables
from mercer.expansions import Auto

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
    table, seen, last, spent = [], 0, 0, 0.0
    for X, y in blocks(path):
        seconds, _ = _common.cpu_seconds(lambda: model.partial_fit(X, y))
        spent += seconds
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


def main(n_rows=10_000_000):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, n_rows)
        _common.publish("default_memory", follow(path, n_rows))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
