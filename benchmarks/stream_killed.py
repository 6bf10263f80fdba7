"""A long stream with late labels and three drifts, killed again and again.

*The stream.* `mercer stream` reads a file of rows. The label of a row follows 500 rows later; one
label in fifty never comes. What is to be learned changes three times: abruptly after a quarter of
the rows, slowly around the half, and back after three quarters.

*The test.* One run is left alone. The other gets SIGKILL at random moments and is begun again by
the same command. Both must end with the same model and the same predictions, byte for byte.

*The numbers* are of the run that is left alone. Memory is in MiB, after each quarter of the rows.
rows/s are rows in a CPU second, its start included. Only rows to be predicted count as rows. Nearly
as many lines of the file bring labels.

To run it:

    python benchmarks/stream_killed.py --rows 10_000_000 --learner KOMP  # others are kept
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _common
import numpy as np

DELAY, LOST, COLUMNS = 500, 50, 5
COMMAND = [sys.executable, "-c", "from mercer_app.cli import main; main()"]
LEARNERS = {
    "default": [],
    "KOMP": [
        *("--kernel", "gaussian", "--length-scale", "2"),
        *("--expansion", "komp", "--max-size", "100"),
    ],
}


def write_rows(path: Path, n: int) -> None:
    """Write the stream, some thousand rows at a time."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, COLUMNS))
    names = [f"x{j}" for j in range(COLUMNS)]
    labels: list[str] = []
    with open(path, "w") as file:
        file.write(",".join(["id", *names, "y"]) + "\n")
        for start in range(0, n, 10_000):
            X = rng.standard_normal((min(10_000, n - start), COLUMNS))
            at = (start + np.arange(len(X))) / n
            slow = np.clip((at - 0.45) / 0.1, 0.0, 1.0)
            turned = np.where(at < 0.25, 0.0, np.where(at < 0.75, 1.0 + slow, 0.0))
            weights = np.cos(turned)[:, None] * first + np.sin(turned)[:, None] * second
            y = np.where((X * weights).sum(1) + 0.5 * X[:, 0] * X[:, 1] > 0.0, "up", "down")
            for i, (x, label) in enumerate(
                zip(X.round(4).tolist(), y.tolist(), strict=True), start
            ):
                file.write(f"{i},{','.join(map(str, x))},\n")
                labels.append(label)
                if i >= DELAY and (i - DELAY) % LOST:
                    file.write(f"{i - DELAY}{',' * (COLUMNS + 1)}{labels[i - DELAY]}\n")


def memory(pid: int) -> float:
    """MiB of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def words_of(source: Path, folder: Path, learner: str) -> list[str]:
    """Return the command."""
    words = f"stream {source} --target y --key id --max-waiting 600 --out {folder}/model"
    words += (
        f" --checkpoint {folder}/kept --predictions {folder}/said --every 60s --checkpoint-every 2s"
    )
    return [*COMMAND, *words.split(), *LEARNERS[learner]]


def left_alone(words: list[str], folder: Path, n_bytes: int) -> tuple[list[float], float]:
    """Memory after each quarter, and CPU seconds."""
    process = subprocess.Popen(words)
    said, seen = folder / "said", []
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0
            return seen, usage.ru_utime + usage.ru_stime
        # The length of all predictions is known roughly: half of the answers are a letter longer.
        if said.exists() and said.stat().st_size > (len(seen) + 1) / 4.05 * n_bytes:
            seen.append(round(memory(process.pid), 1))
        time.sleep(0.01)


def killed(words: list[str], seconds: list[float]) -> int:
    """Run a command to its end, with kills; return how many met it alive."""
    kills = 0
    for limit in [*seconds, None]:
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            assert process.wait(limit) == 0
            return kills
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
    return kills


def digest(path: Path) -> str:
    """Return the hash of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--learner", choices=LEARNERS, action="append")
    arguments = parser.parse_args()
    n, rng, rows = arguments.rows, np.random.default_rng(1), []
    for learner in arguments.learner or LEARNERS:
        with tempfile.TemporaryDirectory() as place:
            source = Path(place) / "rows.csv"
            write_rows(source, n)
            alone, broken = Path(place) / "alone", Path(place) / "broken"
            alone.mkdir()
            broken.mkdir()
            n_bytes = (
                sum(
                    len(f'{{"row": {2 * i}, "id": "{i}", "prediction": "up"}}\n') + 1
                    for i in range(0, n, 100)
                )
                * 100
            )
            began = time.monotonic()
            used, seconds = left_alone(words_of(source, alone, learner), alone, n_bytes)
            took = time.monotonic() - began
            # Each life is long enough to begin, and to write a checkpoint now and then.
            lives = rng.uniform(6.0, 6.0 + 1.5 * took / arguments.kills, arguments.kills)
            kills = killed(words_of(source, broken, learner), lives.tolist())
            row: dict[str, Any] = {"learner": learner, "rows": n, "kills": kills}
            for name in ("model", "said"):
                title = {"model": "same model", "said": "same predictions"}[name]
                row[title] = "yes" if digest(alone / name) == digest(broken / name) else "NO"
            row["MiB after each quarter"] = ", ".join(map(str, used))
            row["rows/s"] = n / seconds
            rows.append(row)
            print(row, flush=True)
    asked = [(row["learner"], row["rows"]) for row in rows]
    kept = _common.published("stream_killed")
    kept = [row for row in kept if (row["learner"], row["rows"]) not in asked]
    rows = sorted([*kept, *rows], key=lambda row: (row["learner"] != "default", row["rows"]))
    _common.publish("stream_killed", rows)


if __name__ == "__main__":
    main()
