"""The layout is the architecture: imports go only downward, and walks through it do not grow."""

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer
from command_line import run
from mercer import KernelClassifier
from mercer.expansions import KOMP
from quick import QUICK

SOURCE = Path(mercer.__file__).parent.parent
LIBRARY = "mercer"
# What stands on the library: files and people, clusters, GPUs.
PACKAGES = (LIBRARY, "mercer_app", "mercer_cluster", "mercer_gpu")
ANNEX = "mercer_reproduction"  # it imports the others, never the reverse

# From the top to the bottom; a module may import from its own layer and from those below.
LAYERS = [
    {"mercer_app.cli"},
    {"mercer_app.serve"},
    {"mercer_app.models", "mercer_app.report"},
    {"mercer_cluster", "mercer_app.export"},
    {"mercer_app.training"},
    {"mercer_app.rows"},
    {"mercer_app.files", "mercer_app.messages", "mercer_gpu"},
    {"mercer.display"},
    {"mercer.inspection", "mercer.recipes", "mercer.river", "mercer.warm_up"},
    {"mercer.estimators"},
    {"mercer.default", "mercer.gaussian_process", "mercer.streams"},
    {"mercer.answers", "mercer.learning"},
    {"mercer.conformal", "mercer.functions"},
    {"mercer.expansions", "mercer.selection"},
    {"mercer.objectives", "mercer.sums", "mercer.evaluation", "mercer.theory"},
    {"mercer.kernels"},
    {"mercer.columns", "mercer.losses", "mercer.divergences", "mercer.risks",
     "mercer.buffers", "mercer.schedules"},
    {"mercer.features", "mercer.maps"},
    {"mercer.metrics", "mercer.numerics", "mercer.model_file", "mercer.history"},
    {"mercer.records"},
    {"mercer.component", "mercer.jit", "mercer.pointers", "mercer.shared", "mercer.threads"},
    {"mercer.validation", "mercer.exceptions"},
]  # fmt: skip

# Models are found by name where a file names them, and where a face names them before they are
# needed.
BY_NAME = {"mercer/model_file.py", "mercer_app/cli/_app.py"}


def modules() -> list[Path]:
    """Files of the packages, but for the face of the library, which names its models."""
    found = [path for package in PACKAGES for path in (SOURCE / package).rglob("*.py")]
    return sorted(path for path in found if path != SOURCE / LIBRARY / "__init__.py")


def room_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[: 1 if parts[0] in ("mercer_cluster", "mercer_gpu") else 2])


def layer_of(module: str) -> int:
    for depth, names in enumerate(LAYERS):
        if room_of(module) in names:
            return depth
    raise AssertionError(f"{module} belongs to no layer: add it to LAYERS")


def imported_by_name(node: ast.AST) -> str:
    """Name of the module that a call imports; "" for other calls."""
    if not isinstance(node, ast.Call):
        return ""
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if called not in ("import_module", "__import__"):
        return ""
    argument = node.args[0] if node.args else node.keywords[0].value
    assert isinstance(argument, ast.Constant), (
        f"an import by a name made at run time: {node.lineno}"
    )
    return str(argument.value)


def imported_modules(path: Path) -> set[str]:
    """Modules that a file imports, wherever it does and however."""
    found = set()
    by_name = path.relative_to(SOURCE).as_posix() not in BY_NAME and path.name != "__init__.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif by_name:
            found.add(imported_by_name(node))
    return {name for name in found if name.startswith("mercer")} - {"mercer", "mercer.__version__"}


def arrows() -> Iterator[tuple[Path, str]]:
    for path in modules():
        for target in imported_modules(path):
            yield path, target


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_go_only_downward() -> None:
    upward = [
        f"{path.relative_to(SOURCE)} imports {target}"
        for path, target in arrows()
        if target.partition(".")[0] not in PACKAGES or layer_of(target) < layer_of(module_of(path))
    ]
    assert not upward


def test_the_library_imports_no_application() -> None:
    """Neither by an import nor by a name in a string, as that of a module to be found later."""
    library = list((SOURCE / LIBRARY).rglob("*.py"))
    found = [
        f"{path.relative_to(SOURCE)} imports {target}"
        for path in library
        for target in imported_modules(path)
        if target.partition(".")[0] != LIBRARY
    ]
    found += [
        f"{path.relative_to(SOURCE)} names {node.value}"
        for path in library
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(rf"({'|'.join([*PACKAGES[1:], ANNEX])})[\w.]*", node.value)
    ]
    assert not found


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("import_module('mercer_app.cli')", "mercer_app.cli"),
        ("importlib.import_module(name='mercer_app.cli')", "mercer_app.cli"),
        ("__import__('mercer_app.cli')", "mercer_app.cli"),
        ("found('mercer_app.cli')", ""),
    ],
)
def test_imports_by_name_are_seen(line: str, module: str) -> None:
    expression = ast.parse(line).body[0]
    assert isinstance(expression, ast.Expr)
    assert imported_by_name(expression.value) == module


def test_exported_names_exist() -> None:
    names = [
        info.name
        for package in (*PACKAGES, ANNEX)
        for info in pkgutil.walk_packages([str(SOURCE / package)], f"{package}.")
    ]
    for name_of_module in names:
        module = importlib.import_module(name_of_module)
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), (
                f"{name_of_module}.__all__ names {name}, which is not there"
            )


def test_answers_are_imported_when_they_are_asked_for() -> None:
    program = (
        "import sys; from mercer import KernelClassifier, KernelRanker, KernelRegressor; "
        "print(sorted(name for name in sys.modules if 'answers' in name or 'conformal' in name))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout.strip() == b"[]"


# -- walks -----------------------------------------------------------------------------------------


def rows() -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(QUICK.race.cells_rows, 6))  # so that cells take part
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int)


def default_fit(folder: Path) -> None:
    X, y = rows()
    KernelClassifier(random_state=0).fit(X, y)


def first_steps(folder: Path) -> None:
    X, y = rows()
    model = KernelClassifier(expansion=KOMP(max_size=100), random_state=0)
    model.partial_fit(X[:320], y[:320])


def single_rows(folder: Path) -> None:
    X, y = rows()
    model = KernelClassifier(random_state=0)
    for x, label in zip(X[:60], y[:60].tolist(), strict=True):
        model.learn_one(x, label)


def command(folder: Path) -> None:
    X, _ = rows()
    lines = [
        f"{900 + 50 * a:.0f},{1990 + int(9 * abs(b))},{'abc'[int(abs(c)) % 3]},"
        f"{9000 + 900 * a - 500 * b:.0f}"
        for a, b, c in X[:, :3]
    ]
    table = folder / "cars.csv"
    table.write_text("\n".join(["weight,year,make,price", *lines]), encoding="utf-8")
    assert run("fit", table, "--target", "price", "--out", folder / "cars.mercer") == 0


# What a reader of a walk pays: files entered, and changes of file in the order of first calls.
# Limits are what there is, rounded up: a change that makes a walk shorter lowers them.
WALKS: dict[Callable[[Path], None], tuple[int, int]] = {
    default_fit: (41, 244),
    first_steps: (35, 160),
    single_rows: (40, 185),
    command: (78, 484),
}


def entered(walk: Callable[[], None]) -> list[str]:
    """Files of the functions of our own that are called, in the order of first calls."""
    called: dict[Any, None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            called[frame.f_code] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(before)
    folders = tuple(f"{SOURCE / name}{os.sep}" for name in PACKAGES)
    ours = [
        (code.co_filename, code.co_qualname)
        for code in called
        if code.co_filename.startswith(folders) and not code.co_name.startswith("<")
    ]
    return [file for file, _ in dict.fromkeys(ours)]


@pytest.mark.usefixtures("quick_race")
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_walks_do_not_grow(walk: Callable[[Path], None], tmp_path: Path) -> None:
    walk(tmp_path)  # imports and compiles
    files = entered(lambda: walk(tmp_path))
    changes = sum(a != b for a, b in pairwise(files))
    most_files, most_changes = WALKS[walk]
    assert len(set(files)) <= most_files, sorted({os.path.relpath(f, SOURCE) for f in files})
    assert changes <= most_changes
