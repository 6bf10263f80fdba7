"""Try an installed wheel in an environment that has nothing else: run by `.ci/release`."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

import mercer
import mercer_app
import mercer_cluster
import mercer_gpu
import mercer_reproduction
from mercer import KernelRegressor, ValueFunction, load_model
from mercer.display import RaceDisplay
from mercer_app.files import read_tables
from mercer_app.report import write_report
from mercer_gpu import evaluate_model

# Modules that the command imports after a check of its own, and those that are for River's users.
NEEDS_MORE = (
    *("mercer_app.cli._", "mercer_app.messages", "mercer_app.models", "mercer_app.serve"),
    *("mercer_reproduction.command", "mercer.river"),
)
PACKAGES = mercer, mercer_app, mercer_cluster, mercer_gpu, mercer_reproduction
# Measured and written by the project itself.
OUR_OWN = {"mercer_reproduction/run_times.json", "mercer_reproduction/things.csv"}
TEMPLATES = {
    *(f"mercer_app/report/templates/report.{kind}" for kind in ("css", "html")),
    *(f"mercer_app/serve/templates/page.{kind}" for kind in ("css", "html", "js")),
}


def check_metadata():
    """Version, type marker and licence are there, and no data of others."""
    found = distribution("mercer")
    files = {str(file) for file in found.files or ()}
    assert found.version == mercer.__version__
    assert "mercer/py.typed" in files, "the type marker is missing"
    assert any(name.endswith("licenses/LICENSE") for name in files), "the licence is missing"
    kinds = (".py", ".pyc", ".typed")
    packages = tuple(f"{package.__name__}/" for package in PACKAGES)
    data = {name for name in files if name.startswith(packages) and not name.endswith(kinds)}
    assert data >= TEMPLATES, f"a template is missing: {sorted(TEMPLATES - data)}"
    data -= OUR_OWN | TEMPLATES
    assert not data, f"a datum without a licence of its own: {sorted(data)}"


def check_imports():
    """Every module but those of the command, its server and River can be imported."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(NEEDS_MORE):
                importlib.import_module(module.name)
    for name in mercer.__all__:
        getattr(mercer, name)


def check_learning(folder):
    """Learn, save and load a model."""
    X = np.linspace(0.0, 6.0, 200)[:, np.newaxis]
    model = KernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    assert model.score(X, np.sin(X[:, 0])) > 0.999
    model.save(folder / "model.mercer")
    assert (load_model(folder / "model.mercer").predict(X) == model.predict(X)).all()
    return model


def check_extras(model, folder):
    """Without extras, what needs them says which."""
    command = Path(sys.executable).with_name("mercer")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert 'pip install "mercer[cli]"' in done.stderr, done.stderr

    def learn_from_environment():
        ValueFunction(discount=0.9).fit_env(None, lambda state: 0, n_steps=10)

    X = np.linspace(0.0, 6.0, 50)[:, np.newaxis]
    features = KernelRegressor(expansion="random_features", random_state=0).fit(X, X[:, 0])
    cases = [
        ("mercer[cli]", lambda: RaceDisplay.from_estimator(model)),
        ("mercer[cli]", lambda: next(iter(read_tables(folder / "rows.parquet")))),
        ("mercer[cli]", lambda: importlib.import_module("mercer_app.serve")),
        ("mercer[cli]", lambda: write_report(folder / "report.html", title="", summary={})),
        ("mercer[rl]", learn_from_environment),
        ("mercer[gpu]", lambda: evaluate_model(features, X)),
    ]
    for extra, use in cases:
        try:
            use()
            words = "nothing"
        except ImportError as error:
            words = str(error)
        assert extra in words, f"{extra} was to be asked for, got: {words}"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    check_metadata()
    check_imports()
    check_extras(check_learning(folder), folder)
    sys.stdout.write(f"mercer {mercer.__version__} installs and works without extras\n")
