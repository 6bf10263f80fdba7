"""What a fresh process imports, and what it goes without."""

import subprocess
import sys

FRESH = """
import sys
from mercer import KernelClassifier

others = {"cli", "display", "gaussian_process", "report", "training"}
found = {f"mercer.{name}" for name in others} & sys.modules.keys()
found |= {"matplotlib", "sklearn.metrics", "typer"} & sys.modules.keys()
assert not found, f"imported: {found}"

sys.modules["matplotlib"] = None
from mercer.display import ModelOrderDisplay
import mercer_app.report
display = ModelOrderDisplay(n_samples=[1], model_order=[1])
try: display.plot()
except ImportError as error: assert 'pip install "mercer[cli]"' in str(error)
else: raise AssertionError("no ImportError")
"""


def test_importing_and_holding_numbers_needs_no_matplotlib():
    """Nor does a classifier, which imports nothing that its fit does not need."""
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
