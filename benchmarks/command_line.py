"""The command line, untuned: ``mercer fit TRAIN --target label`` and ``mercer evaluate``.

CPU seconds are those of the whole ``fit`` process, with reading and preprocessing. There is one
BLAS thread, and the compile cache is filled.

To run it, set ``MERCER_DATA`` to the folder of the data sets.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import _common

TARGETS = {"adult": "error <= 15.5 %, AUC >= .895", "mnist": "error <= 4 %, 120 s", "ijcnn1": "-"}


def command(*words):
    """Run ``mercer``; CPU seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "mercer", *words], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main():
    folder = Path(os.environ["MERCER_DATA"])
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, target in TARGETS.items():
            model = str(Path(scratch) / f"{name}.mercer")
            train, test = (str(folder / f"{name}_{part}.parquet") for part in ("train", "test"))
            if not rows:
                command("fit", train, "--target", "label", "--out", model)  # compile
            seconds, _ = command("fit", train, "--target", "label", "--out", model)
            result = json.loads(command("evaluate", model, test, "--json")[1])
            about = json.loads(command("inspect", model, "--json")[1])
            rows.append(
                {
                    "data": name,
                    "test error %": result["error_percent"],
                    "AUC": result.get("auc", "-"),
                    "log loss": result["log_loss"],
                    "model order": about["model_order"],
                    "fit, CPU s": seconds,
                    "aim": target,
                }
            )
    _common.publish("command_line", rows)


if __name__ == "__main__":
    main()
