"""Write the pages of the reference: one for each public module, with every name of ``__all__``."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import mercer
import mercer.functions
import mercer.learning
import mercer_app
import mercer_cluster
import mercer_gpu

GROUPS: dict[str, list[str]] = {
    "Estimators": ["mercer", "mercer.estimators", "mercer.recipes", "mercer.river"],
    "Parts to combine": [
        "mercer.kernels",
        "mercer.losses",
        "mercer.risks",
        "mercer.divergences",
        "mercer.expansions",
        "mercer.schedules",
        "mercer.buffers",
        "mercer.maps",
    ],
    "Tables, models, answers": [
        "mercer.columns",
        "mercer.model_file",
        "mercer.shared",
        "mercer.history",
        "mercer.metrics",
        "mercer.conformal",
        "mercer.inspection",
        "mercer.display",
        "mercer.evaluation",
        "mercer.exceptions",
        "mercer.theory",
        "mercer.warm_up",
    ],
    "Files, command, machines": [
        "mercer_app",
        "mercer_app.files",
        "mercer_app.training",
        "mercer_app.cli",
        "mercer_app.report",
        "mercer_app.serve",
        "mercer_app.export",
        "mercer_cluster",
        "mercer_cluster.engines",
        "mercer_gpu",
    ],
    "The papers": ["mercer_reproduction", "mercer_reproduction.baselines"],
    "For those who extend it": [
        "mercer.objectives",
        "mercer.functions",
        "mercer.learning",
        "mercer.features",
        "mercer.default",
        "mercer.streams",
        "mercer.selection",
        "mercer.sums",
        "mercer.gaussian_process",
    ],
}

# Called by the modules above only; their docstrings are in the source.
INTERNAL = [
    *("mercer.answers", "mercer.component", "mercer.jit", "mercer.numerics", "mercer.pointers"),
    *("mercer.records", "mercer.threads", "mercer.validation"),
    *("mercer_app.messages", "mercer_app.models", "mercer_app.rows"),
]


def public_modules() -> list[str]:
    """Return the packages and their public modules of the first level."""
    packages = mercer, mercer_app, mercer_cluster, mercer_gpu
    return [package.__name__ for package in packages] + [
        f"{package.__name__}.{module.name}"
        for package in packages[:2]
        for module in pkgutil.iter_modules(package.__path__)
        if module.name[0] != "_"
    ]


def public_names(module: str) -> list[str]:
    """Return the names of a module that the reference must have."""
    return sorted(getattr(importlib.import_module(module), "__all__", ()), key=str.lower)


def home_of(module: str, name: str) -> str:
    """Return the one address under which a name has its page."""
    if module == "mercer.estimators" and name in mercer.__all__:
        return "mercer"
    return module


def page(module: str) -> str:
    """Return the page of a module, in reStructuredText."""
    lines = [module, "=" * len(module), "", f".. automodule:: {module}", "   :no-members:", ""]
    kinds: dict[str, list[str]] = {"Classes": [], "Functions": [], "Data": []}
    moved = []
    for name in public_names(module):
        if home_of(module, name) != module:
            moved.append(f":class:`{home_of(module, name)}.{name}`")
            continue
        value = getattr(importlib.import_module(module), name)
        kind = "Classes" if isinstance(value, type) else "Functions" if callable(value) else "Data"
        kinds[kind].append(name)
    if moved:
        lines += ["Also here: " + ", ".join(moved) + ".", ""]
    lines += [f".. currentmodule:: {module}", ""]
    for kind, names in kinds.items():
        if names:
            lines += [f".. rubric:: {kind}", "", ".. autosummary::", "   :toctree: generated", ""]
            lines += [f"   {name}" for name in names] + [""]
    return "\n".join(lines)


def index() -> str:
    """Return the page that leads to those of the modules."""
    lines = [
        "# Reference",
        "",
        "Every public name, with shapes, units, defaults and an example.",
        "",
    ]
    for title, modules in GROUPS.items():
        lines += [f"## {title}", "", "| | |", "|---|---|"]
        for module in modules:
            text = (importlib.import_module(module).__doc__ or "").strip().partition("\n\n")[0]
            lines.append(f"| {{doc}}`{module} <{module}>` | {' '.join(text.split())} |")
        lines += ["", "```{toctree}", ":hidden:", "", *modules, "```", ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write all pages where they have changed, and remove those of names that are gone."""
    folder.mkdir(exist_ok=True)
    modules = [module for group in GROUPS.values() for module in group]
    pages = {"index.md": index()}
    pages |= {f"{module}.rst": page(module) for module in modules}
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    names = {f"{module}.{name}.rst" for module in modules for name in public_names(module)}
    for file in [*folder.glob("*.*"), *(folder / "generated").glob("*.rst")]:
        if file.name not in pages.keys() | names:
            file.unlink()
