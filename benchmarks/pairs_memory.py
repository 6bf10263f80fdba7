"""Peak memory of learning from pairs on ten million generated rows: it must stay flat.

The stream is that of ``memory.py``. The model has the default buffer, which keeps 10 rows of each
class, and 100 points.
"""

from __future__ import annotations

import sys

import _common
import memory

from mercer import KernelRanker
from mercer.expansions import KOMP


def main(n_rows=10_000_000):
    model = KernelRanker(expansion=KOMP(tolerance=1e-4, max_size=100), random_state=0)
    _common.publish("pairs_memory", memory.follow(model, n_rows, "AUC"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
