"""Run tests with the oldest versions that pyproject.toml promises, in their own environment.

    python .ci/oldest.py [--into FOLDER] [PYTEST_ARGUMENT ...]  # such as: tests src, for all

Without arguments these are the tests of what meets other packages: estimators, files of models and
of rows, the command, engines, tables, pictures and reports, kernels and maps, environments, and the
examples of the documents, the gallery and the docstrings.

The oldest Python is asked for, too, as far as the machine has it. What the promised packages need
in turn is the newest that there is, as it is for whoever installs them today: it may call
deprecated what these versions do, so such warnings are not errors here.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Without "river": the oldest one that `mercer.river` works with needs a newer NumPy than mercer
# does. Tests of rows use an older one, of "dev".
EXTRAS = ("cli", "rl", "ray", "dask", "dev")
TOOLS = {"mypy", "ruff"}  # they check the source, and nobody needs an old one for it
TESTS = (
    *("cli*", "container", "data_*", "dictionary", "display*", "documents", "engines"),
    *("estimator*", "examples", "feature_maps", "golden_models", "kernels", "maps", "model_file"),
    *("report*", "sklearn_checks", "table_model", "value_function"),
)
LEFT_OUT = {"test_cli_engine.py"}  # long, and what it starts is what the tests of engines start


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


def main(folder, arguments):
    """Make the environment in ``folder`` and run tests in it; return pytest's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = folder / "oldest.txt"
    constraints.write_text("\n".join(oldest_versions(project)) + "\n")
    subprocess.run([oldest_python(project), "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = f".[{','.join(EXTRAS)}]"
    subprocess.run([*install, "-c", constraints, "-e", wanted], cwd=ROOT, check=True)
    print(constraints.read_text(), flush=True)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    tests = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    tests += ["-W", "ignore::DeprecationWarning"]
    files = (file for name in TESTS for file in sorted(ROOT.glob(f"tests/test_{name}.py")))
    files = (file for file in files if file.name not in LEFT_OUT)
    tests += arguments or [*files, "src/mercer"]
    return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--into"]:
        Path(words[1]).mkdir(parents=True, exist_ok=True)
        sys.exit(main(Path(words[1]).resolve(), words[2:]))
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(main(Path(folder), words))
