"""Compiled code is kept between runs of the tests; races and maps are chosen quickly."""

import hashlib
import os
import subprocess
import sys
from html import escape
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

SOURCES = Path(__file__).parent.parent / "src" / "mercer"
COMPILED = (
    "numerics/*.py",
    "features/*.py",
    "kernels/*.py",
    "losses.py",
    "jit.py",
    "pointers.py",
)


def digest_of(*patterns):
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(SOURCES.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


if "NUMBA_CACHE_DIR" not in os.environ:
    # The names of the files in it depend on the sources.
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "compiled")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if "numpy" in sys.modules:  # too late for the variable: only processes begun here would heed it
    threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")


def pytest_sessionstart(session):
    """Before several workers begin, compile the longest loops: each of them would do so."""
    options = session.config.option
    if options.collectonly or len(getattr(options, "tx", None) or ()) < 2:
        return
    names = ["double", "single"]
    if any("quality" in str(one) for one in session.config.args):
        names += ["quality", "quality_single"]
    program, sources = Path(__file__).with_name("compile_loops.py"), digest_of(*COMPILED)
    done = {name: Path(os.environ["NUMBA_CACHE_DIR"]) / f"{name}-{sources}" for name in names}
    each = {
        mark: subprocess.Popen([sys.executable, program, name])
        for name, mark in done.items()
        if not mark.exists()
    }
    for mark, process in each.items():
        if process.wait() == 0:
            mark.touch()


def racing(settings):
    """Let defaults and dictionaries race by some settings, until the generator goes on."""
    from mercer.default import DefaultLearner  # only after the cache has its folder
    from mercer.functions import DictionaryFunction

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DefaultLearner, "settings", settings)
        patch.setattr(DictionaryFunction, "settings", settings.race)
        yield


@pytest.fixture(scope="module")
def quick_race():
    """Quick races by default, in all tests of a module: for those that are about something else."""
    from quick import QUICK

    yield from racing(QUICK)


@pytest.fixture
def whole_race():
    """A race of all kernels in one test, where others of its module race by few."""
    from quick import QUICK

    yield from racing(QUICK)


@pytest.fixture(scope="module")
def quickest_race():
    """Races of few kernels and trees, in all tests of a module with very many fits."""
    from quick import QUICKEST

    yield from racing(QUICKEST)


@pytest.fixture(scope="module")
def quick_correction():
    """What losses add to least squares by fewer points, steps and ridges, in all of a module."""
    from quick import QUICK_CORRECTION

    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_CORRECTION.items():
            patch.setattr(f"mercer.sums.correction.{name}", value)
        yield


@pytest.fixture(scope="module")
def short_correction():
    """What losses add to least squares by fewer steps and ridges only, in all of a module."""
    from mercer.sums import correction

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correction, "_RIDGES", correction._RIDGES[:3])
        patch.setattr(correction, "_STEPS", 40)
        yield


@pytest.fixture(scope="module")
def few_evaluations():
    """Find out by few evaluations what matters to models, in all tests of a module."""
    from mercer.answers import explain

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explain, "_EVALUATIONS", 2**12)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_map():
    """Choose maps of inputs quickly in all modules of tests but that of ``kernel="auto"``."""
    from mercer.estimators.fitting import KernelEstimator
    from quick import QUICK_MAP

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelEstimator, "_race_settings", QUICK_MAP)
        yield


@pytest.fixture(scope="module")
def few_steps():
    """Make few steps where a loss takes steps, in all tests of a module about something else."""
    from quick import take_few_steps  # only after the cache has its folder

    with pytest.MonkeyPatch.context() as patch:
        take_few_steps(patch)
        yield


@pytest.fixture
def undrawn(monkeypatch):
    """Pages with only the words of their pictures: for tests of the rest."""
    from matplotlib.text import Text

    def words_of(number, figure):
        words = escape("\n".join(text.get_text() for text in figure.findobj(Text)))
        return f'<svg viewBox="0 0 1 1"><text>{words}</text></svg>'

    monkeypatch.setattr("mercer_app.report.page._svg", words_of)


@pytest.fixture
def rough_importances(monkeypatch):
    """Importances of 32 rows for each column; models that other tests see keep what they found."""
    monkeypatch.setattr("mercer.answers.explain._EVALUATIONS", 1)


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
