"""Run tests with the oldest versions that pyproject.toml promises, in their own environment.

    python .ci/oldest.py [--into FOLDER] [PYTEST_ARGUMENT ...]  # such as: tests src, for all
    python .ci/oldest.py --make FOLDER  # only the environment, which --into FOLDER then takes

Without arguments these are the tests of what meets other packages: arrays, tables and files of
rows, scikit-learn's checks, files of models, pictures and reports, the examples of the estimators'
docstrings, and a few each of the command, engines, environments and documents. The numerical tests
come with them, and all run as another processor would (`.ci/processors.py`): what one environment
compiles serves both questions. A test that fails here fails by a version or by a processor;
`.venv/bin/python .ci/processors.py` tells which.

The oldest Python is asked for, too, as far as the machine has it. What the promised packages need
in turn is the newest that there is, as it is for whoever installs them today: it may call
deprecated what these versions do, so such warnings are not errors here.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from processors import PYTEST, ROOT, lacks, numerical_tests

#: The one whose arithmetic differs most from that of newer ones.
PROCESSOR = "Nehalem"
# Without "river": the oldest one that `mercer.river` works with needs a newer NumPy than mercer
# does. Tests of rows use an older one, of "dev".
EXTRAS = ("app", "rl", "ray", "dask", "dev")
TOOLS = {"mypy", "ruff"}  # they check the source, and nobody needs an old one for it
TESTS = (
    *("tests/test_container.py", "tests/test_data_*.py", "tests/test_display*.py"),
    *("tests/test_estimator_inputs.py", "tests/test_golden_models.py", "tests/test_rows.py"),
    *("tests/app/test_data_*.py", "tests/app/test_report.py", "tests/app/test_table_model.py"),
    *("tests/system/test_sklearn_checks.py", "src/mercer/estimators", "src/mercer/columns"),
    "src/mercer_app/files",
)
# Of long files of tests, those that come to what other packages do.
PARTS = (
    "tests/app/test_cli.py::test_fit_with_test_data_and_report",
    "tests/quality/test_frames.py::test_columns_of_all_types_are_encoded_as_table_models_do",
    "tests/quality/test_frames.py::test_frames_of_numbers_give_the_model_of_arrays",
    "tests/quality/test_frames.py::test_predictions_do_not_depend_on_the_container",
    "tests/quality/test_frames.py::test_sparse_frames_are_sparse_rows_and_others_dense_ones",
    "tests/quality/test_value_function.py"
    "::test_gymnasium_environments_are_learned_and_the_final_observation_counts",
    "tests/system/test_documents.py::test_examples_run[README.md]",
    "tests/system/test_engines.py::test_parts_of_a_ray_dataset_come_in_order",
    "tests/system/test_engines.py::test_parts_of_a_dask_frame_come_in_order",
)
# scikit-learn's checks of models that differ from the defaults in what versions have no part in.
LEFT_OUT = tuple(
    f"--deselect=tests/system/test_sklearn_checks.py::test_checks_of_scikit_learn[{name}(expansion="
    for name in ("KernelClassifier", "KernelRegressor")
)
IGNORED = ("-W", "ignore::DeprecationWarning", *LEFT_OUT)


def oldest_versions(project):
    """Return a constraint for each ``NAME>=VERSION``: that version, with all its fixes."""
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(r for e in EXTRAS for r in extras[e])]
    found = [re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)", r) for r in requirements]
    versions = {m[1]: m[2] if "." in m[2] else f"{m[2]}.0" for m in found if m}
    return sorted(f"{name}=={v}.*" for name, v in versions.items() if name not in TOOLS)


def oldest_python(project):
    """Return the oldest interpreter that the project supports, or the one that runs this."""
    found = shutil.which("python" + project["requires-python"].removeprefix(">="))
    works = found and not subprocess.run([found, "-c", ""], check=False).returncode
    return found if works else sys.executable


def python_of(folder):
    """Return the interpreter of the environment in ``folder``."""
    return folder / "venv" / "bin" / "python"


def make(folder):
    """Make the environment in ``folder``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = folder / "oldest.txt"
    constraints.write_text("\n".join(oldest_versions(project)) + "\n")
    subprocess.run([oldest_python(project), "-m", "venv", folder / "venv"], check=True)
    install = [python_of(folder), "-m", "pip", "install", "--quiet", "--no-compile"]
    install += ["--disable-pip-version-check", "-c", constraints, "-e", f".[{','.join(EXTRAS)}]"]
    subprocess.run(install, cwd=ROOT, check=True)
    (folder / "made").touch()


def run(folder, arguments):
    """Run tests in the environment of ``folder``; return pytest's exit code."""
    if not (folder / "made").exists():
        make(folder)
    print((folder / "oldest.txt").read_text(), flush=True)
    tests = arguments or [
        *(str(file) for name in TESTS for file in sorted(ROOT.glob(name))),
        *PARTS,
        *numerical_tests(),
    ]
    as_another = [ROOT / ".ci" / "processors.py", PROCESSOR, "--"]
    command = [python_of(folder), *(PYTEST if lacks(PROCESSOR) else as_another), *IGNORED, *tests]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] in (["--into"], ["--make"]):
        place = Path(words[1]).resolve()
        place.mkdir(parents=True, exist_ok=True)
        sys.exit(make(place) if words[0] == "--make" else run(place, words[2:]))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(Path(folder), words))
