"""Workers killed with -9 at random moments: the model has the same bits as without.

Each run fits the same rows. At random moments a worker is drawn and killed, again and again, until
the run ends. Then the hash of the predictions is compared with that of a run in one process.

Kills are 2 to 8 s apart. With Dask they are 6 to 16 s apart. There values die with the worker that
has them. A run ends only if workers live longer than it takes to make these values again.

"given up" counts the runs that ended with a WorkerError. In the row "starved" nobody is killed, but
Ray's store of objects has only 80 MB, a fraction of what the run puts there.

To run it:

    python benchmarks/cluster_faults.py --kills 50
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import threading
import time
from pathlib import Path

import numpy as np
import psutil
from cluster import replace, shards, test_rows

N_ROWS = 600_000
#: What the command line of a worker has in it.
WORKERS = {"ray": "ray::", "dask": "spawn_main"}
PAUSES = {"ray": (2.0, 8.0), "dask": (6.0, 16.0)}


class Killer:
    """Kills a worker now and then."""

    def __init__(self, engine, seed):
        self.word, self.pause, self.random = WORKERS[engine], PAUSES[engine], random.Random(seed)
        self.kills = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._kill, daemon=True)

    def _workers(self):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                command = " ".join(child.cmdline())
                # Ray's agents are named as workers are, and take their node with them.
                if self.word in command and "Agent" not in command:
                    yield child

    def _kill(self):
        while not self._stop.wait(self.random.uniform(*self.pause)):
            found = list(self._workers())
            if found:
                with contextlib.suppress(psutil.Error):
                    self.random.choice(found).kill()
                    self.kills += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()


def run(engine, killer=None):
    """Hash of a fit, its seconds, and the rows that it has learned."""
    from mercer import KernelRegressor
    from mercer_cluster import fit

    start = time.perf_counter()
    with killer or contextlib.nullcontext():
        model = fit(KernelRegressor(random_state=0), shards(N_ROWS), engine=engine)
    seconds = time.perf_counter() - start
    predicted = np.ascontiguousarray(model.predict(test_rows()[0]))
    return hashlib.sha256(predicted.tobytes()).hexdigest()[:12], seconds, model.learner_.n_rows


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--kills", type=int, default=50, help="for each engine, at least")
    parser.add_argument("--engines", nargs="+", default=list(WORKERS))
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parent))  # for the workers
    from mercer.exceptions import WorkerError
    from mercer_cluster.engines import RayEngine, engine_of

    wanted, _, n_rows = run("here")
    rows = []
    for name in arguments.engines:
        with engine_of(name, n_workers=2) as engine:
            _, plain, _ = run(engine)
        seen, kills, seconds, given_up = [], 0, [], 0
        while kills < arguments.kills:
            with_kills = Killer(name, len(seen) + given_up)
            with engine_of(name, n_workers=2) as engine:
                try:
                    found, lasted, learned = run(engine, with_kills)
                except WorkerError as error:
                    found, given_up = None, given_up + 1
                    print(error, flush=True)
            kills += with_kills.kills
            if found is not None:
                seen.append(found == wanted and learned == n_rows)
                seconds.append(lasted)
            print(name, kills, found == wanted, f"{sum(seconds):.1f} s", flush=True)
        rows.append(
            {
                "engine": name,
                "runs": len(seen) + given_up,
                "workers killed": kills,
                "runs of the same bits": sum(seen),
                "given up": given_up,
                "s without kills": plain,
                "s with kills, median": float(np.median(seconds)),
            }
        )
    if "ray" in arguments.engines:
        with RayEngine(2, object_store_memory=80 * 2**20) as engine:
            found, lasted, learned = run(engine)
        rows.append(
            {
                "engine": "ray, starved",
                "runs": 1,
                "workers killed": 0,
                "runs of the same bits": int(found == wanted and learned == n_rows),
                "given up": 0,
                "s without kills": lasted,
                "s with kills, median": "-",
            }
        )
    replace("cluster_faults", rows, ("engine",))


if __name__ == "__main__":
    main()
