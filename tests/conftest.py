"""Numba's disk cache looks at one source file per function, not at what that function calls.

So that a changed callee is never missed, the tests keep their cache in a folder named after the
compiled sources. The loops of ``numerics``, which take a minute and more to compile, call nothing
that is compiled elsewhere but ``_pointers``: what became of them is shared by folders that differ
in kernels, losses or features only.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

SOURCES = Path(__file__).parent.parent / "src" / "mercer"
COMPILED = (
    "numerics/*.py",
    "features/*.py",
    "kernels/*.py",
    "losses*.py",
    "losses/*.py",
    "_pointers.py",
)


def digest_of(*patterns):
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(SOURCES.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def share_the_loops(cache):
    """Link the subfolder that numba makes for ``numerics`` to one named after those sources."""
    folder = str((SOURCES / "numerics").resolve())
    loops = cache.parent / f"numba-loops-{digest_of('numerics/*.py', '_pointers.py')}"
    loops.mkdir(parents=True, exist_ok=True)
    cache.mkdir(exist_ok=True)
    link = cache / f"numerics_{hashlib.sha1(folder.encode()).hexdigest()}"
    with contextlib.suppress(OSError):  # it is there, or links are not to be had
        link.symlink_to(loops, target_is_directory=True)


if "NUMBA_CACHE_DIR" not in os.environ:
    cache = Path(__file__).parent.parent / ".pytest_cache" / f"numba-{digest_of(*COMPILED)}"
    share_the_loops(cache)
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "numpy" in sys.modules:  # too late for the variable: only processes begun here would heed it
    threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")


def pytest_sessionstart(session):
    """Before several workers begin, compile the longest loops: each of them would do so."""
    options = session.config.option
    if options.collectonly or len(getattr(options, "tx", None) or ()) < 2:
        return
    done = Path(os.environ["NUMBA_CACHE_DIR"]) / f"loops-{digest_of(*COMPILED)}"
    if not done.exists():
        program = Path(__file__).with_name("compile_loops.py")
        types = ("float64", "float32")
        each = [subprocess.Popen([sys.executable, program, dtype]) for dtype in types]
        codes = [process.wait() for process in each]
        if not any(codes):
            done.touch()


@pytest.fixture(scope="module")
def quick_race():
    """Quick races by default, in all tests of a module: for those that are about something else."""
    from mercer.default import DefaultLearner  # only after the cache has its folder
    from mercer.functions import DictionaryFunction
    from quick import QUICK

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", QUICK)
        patch.setattr(DictionaryFunction, "settings", QUICK.race)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_map():
    """Choose maps of inputs quickly in all modules of tests but that of ``kernel="auto"``."""
    from mercer.estimators.fitting import KernelEstimator
    from quick import QUICK_MAP

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelEstimator, "_race_settings", QUICK_MAP)
        yield


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
