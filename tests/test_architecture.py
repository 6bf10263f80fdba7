"""The layout is the architecture: imports go only downward."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import mercer
import mercer_reproduction

ROOT = Path(mercer.__file__).parent
ANNEX = Path(mercer_reproduction.__file__).parent  # it imports mercer, never the reverse

# From the top to the bottom; a module may import from its own layer and from those below.
LAYERS = [
    {"__main__"},
    {"cli", "river", "serve"},
    {"report"},
    {"display"},
    {"inspection"},
    {"export", "recipes", "warm_up"},
    {"distributed"},
    {"training"},
    {"estimators"},
    {"model_file"},
    {"learner", "gaussian_process"},
    {"default", "streams", "conformal"},
    {"learning", "planning"},
    {"history"},
    {"data"},
    {"objectives"},
    {"functions", "gpu", "parts"},
    {"second_order"},
    {"selection"},
    {"expansions"},
    {"sums"},
    {"buffers", "kernels", "losses", "risks", "schedules"},
    {"maps"},
    {"features"},
    {"metrics", "numerics"},
    {"_jit", "_pointers", "_threads"},
    {"_component"},
    {"_validation", "exceptions"},
]  # fmt: skip


def layer_of(module: str) -> int:
    name = module.split(".")[1]
    for depth, names in enumerate(LAYERS):
        if name in names:
            return depth
    raise AssertionError(f"{module} belongs to no layer: add it to LAYERS")


def modules() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def annex() -> list[Path]:
    return sorted(ANNEX.rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("mercer")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mercer"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
            assert node.level == 0
    return found - {"mercer"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_only_downward(path: Path) -> None:
    own = layer_of("mercer." + path.relative_to(ROOT).with_suffix("").parts[0])
    for target in imported_modules(path):
        assert target.partition(".")[0] == "mercer", f"{path.name} imports {target}"
        if target != "mercer.__version__":
            assert layer_of(target) >= own, f"{path.name} imports {target} from above"


def test_exported_names_exist_and_are_sorted_out() -> None:
    names = [info.name for info in pkgutil.walk_packages([str(ROOT)], "mercer.")]
    names += [info.name for info in pkgutil.walk_packages([str(ANNEX)], "mercer_reproduction.")]
    for name_of_module in names:
        module = importlib.import_module(name_of_module)
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), (
                f"{name_of_module}.__all__ names {name}, which is not there"
            )
