"""Numba's disk cache looks at one source file per function, not at what that function calls.

So that a changed callee is never missed, the tests keep their cache in a folder named after the
compiled sources.
"""

import hashlib
import os
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "mercer"
COMPILED = (
    "numerics/*.py",
    "features/*.py",
    "kernels/*.py",
    "losses*.py",
    "losses/*.py",
    "_pointers.py",
)

if "NUMBA_CACHE_DIR" not in os.environ:
    digest = hashlib.sha256()
    for pattern in COMPILED:
        for path in sorted(SOURCES.glob(pattern)):
            digest.update(path.read_bytes())
    cache = Path(__file__).parent.parent / ".pytest_cache" / f"numba-{digest.hexdigest()[:16]}"
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def mercer(capsys):
    """Run the command; return its code, standard output and standard error."""
    from command_line import run  # only after the cache has its folder

    def call(*words):
        code = run(*words)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call
