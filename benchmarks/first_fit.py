"""The first call with an empty compile cache, and again with a filled one.

Each call is on 100 rows of five columns. It runs in a process of its own, one at a time. Imports
are not counted.

``compiled`` counts the functions that numba compiled in the first process. A function that was
compiled for two types of numbers counts twice.

``python benchmarks/first_fit.py NAME ...`` measures only these calls. It also prints which
functions they compiled, the slowest first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import _common

from mercer.warm_up import first_calls

PROGRAM = """
import json, sys, time
from numba.core import event
from mercer.warm_up import first_calls

class Compiled(event.Listener):
    def __init__(self):
        self.open, self.times = [], []
    def on_start(self, what):
        self.open.append([time.process_time(), 0.0])
    def on_end(self, what):
        start, inner = self.open.pop()
        took = time.process_time() - start
        if self.open:
            self.open[-1][1] += took
        function = what.data["dispatcher"].py_func
        self.times.append((took - inner, f"{function.__module__}.{function.__qualname__}"))

listener = Compiled()
event.register("numba:compile", listener)
method, data = first_calls()[sys.argv[1]]
cpu, wall = time.process_time(), time.perf_counter()
method(*data)
cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
print(json.dumps([cpu, wall, listener.times]))
"""


def run(name, cache):
    """CPU and wall seconds of a call in a new process, and what it compiled."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, name],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main():
    chosen = sys.argv[1:]
    rows = []
    for name in chosen or first_calls():
        with tempfile.TemporaryDirectory() as cache:
            cpu, wall, times = run(name, cache)
            again = run(name, cache)[0]
        rows.append(
            {
                "first call": f"`{name}`",
                "CPU s, empty cache": cpu,
                "wall s": wall,
                "compiled": len(times),
                "CPU s, filled cache": again,
            }
        )
        if chosen:
            print(_common.markdown(rows[-1:]))
            for took, function in sorted(times, reverse=True)[:40]:
                print(f"{took:8.2f} {function}")
    if not chosen:
        _common.publish("first_fit", rows)


if __name__ == "__main__":
    main()
