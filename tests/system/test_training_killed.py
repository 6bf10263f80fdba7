"""Trainings on files that are killed, again and again, by a signal: they go on as if never."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mercer.expansions import Auto, RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.training import checkpoint_path
from test_training import SMALL, rows, training

pytestmark = pytest.mark.usefixtures("quick_race")

KILLED = """
import os, random, signal, sys, time
from mercer.default import DefaultLearner
from mercer.expansions import KOMP, Auto, RandomFeatures
from mercer.kernels import Gaussian
from mercer_app.training import FileTraining, checkpoint_path

sys.path.append(sys.argv[1])
from quick import QUICK

DefaultLearner.settings = QUICK

def child(made, out, most, kill_in_write):
    if kill_in_write:
        # Die inside a write: before or after the new file is complete, or after its renaming.
        calls, wanted, fsync = [0], random.randint(2, most + 2), os.fsync
        def dying(descriptor):
            calls[0] += 1
            if calls[0] == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(descriptor)
        os.fsync = dying
    run = made()
    place = checkpoint_path(out)
    run.resume(place) if place.exists() else run.start()
    run.run(out, checkpoint_every=500)

def wait_for_checkpoints(place, process, wanted):
    # Of the process, not of a clock: a busy machine makes the same progress, only later.
    seen, last = 0, None
    while seen < wanted and os.waitid(os.P_PID, process, ENDED) is None:
        now = os.stat(place).st_mtime_ns if place.exists() else None
        seen, last = seen + (now != last), now
        time.sleep(0.001)

def kill_again_and_again(data, out, options, n_kills, most, n_passes):
    def made():
        return FileTraining(data, "y", options=options, n_passes=n_passes, shuffle_buffer=5000)

    made().start().run(out + ".warm", callback=lambda _: True)  # compiled once, not in every child
    random.seed(0)
    kills = {"anywhere": 0, "while writing": 0}
    for attempt in range(n_kills + 1):
        in_write = attempt % 2 == 0
        process = os.fork()
        if process == 0:
            try:
                child(made, out, most, in_write and attempt < n_kills)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if not in_write:
            wait_for_checkpoints(checkpoint_path(out), process, random.randint(1, most))
            time.sleep(random.uniform(0.0, 0.02))
            os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status)) if os.WEXITSTATUS(status) else None
            print(kills["anywhere"], kills["while writing"])
            break
        kills["while writing" if in_write else "anywhere"] += 1
    else:
        sys.exit("no attempt finished")

ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
for data, out, *settings in eval(sys.argv[2]):
    kill_again_and_again(data, out, *settings)
"""

# Kills, in turns while and between writes; together they let fewer checkpoints pass than
# there are: 38 for points, 4 for random features, whose chunks are of fixed length.
KILLS = {  # options, rows, kills, most checkpoints between two of them, passes
    "points": ({"expansion": SMALL, "kernel": "gaussian"}, 10_000, 4, 6, 2),
    "features": ({"expansion": RandomFeatures(100), "kernel": "gaussian"}, 20_000, 2, 1, 2),
    "sums": ({"expansion": Auto(max_memory=2**22), "kernel": Gaussian(1.0)}, 9000, 2, 1, 1),
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder of trainings that were killed, by one process, and what it counted."""
    folder, cases = tmp_path_factory.mktemp("killed"), []
    for name, (options, n_rows, *settings) in KILLS.items():
        data = folder / f"{name}.parquet"
        pq.write_table(rows(n_rows), data)
        cases.append((str(data), str(folder / name), options, *settings))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, Path(__file__).parents[1], repr(cases)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = (map(int, line.split()) for line in done.stdout.splitlines())
    return folder, dict(zip(KILLS, counts, strict=True))


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="processes are forked and waited for")
@pytest.mark.parametrize("name", KILLS)
def test_a_training_killed_again_and_again_ends_with_the_same_bytes(name, killed, tmp_path):
    folder, counts = killed
    options, _, n_kills, _, n_passes = KILLS[name]
    settings = {"options": options, "n_passes": n_passes, "shuffle_buffer": 5000}
    data, out = folder / f"{name}.parquet", folder / name
    training(data, **settings).start().run(tmp_path / "whole", checkpoint_every=500)
    anywhere, while_writing = counts[name]
    assert while_writing == n_kills // 2
    assert anywhere > n_kills // 3
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not checkpoint_path(out).exists()
