"""A signal in the middle of compiled code ends the call, and neither the process nor the model."""

import subprocess
import sys

import pytest

_PROGRAM = """
import copy, signal, sys, time
import numpy as np
from mercer import KernelRanker, KernelRegressor
from mercer.expansions import Budget
from mercer.kernels import Gaussian

class Come(BaseException):
    pass

def come(*_):
    raise Come

signal.signal(signal.SIGALRM, come)
rng = np.random.default_rng(0)
X = rng.standard_normal((6000, 3))
kernel, expansion = Gaussian(0.3), Budget(200, "remove")
model = {
    "mean": lambda: KernelRegressor(kernel=kernel, expansion=expansion),
    "risk": lambda: KernelRegressor(kernel=kernel, expansion=expansion, risk="cvar"),
    "pairs": lambda: KernelRanker(kernel=kernel, expansion=expansion),
    "bilinear": lambda: KernelRanker(
        kernel=kernel, expansion=expansion, pair_kernel="symmetric", pair_label="same"
    ),
}[sys.argv[1]]()
y = np.sin(3.0 * X[:, 0])
y = (y > 0).astype(int) if sys.argv[1] == "bilinear" else y

def answers():
    rows = (X[:50], X[50:100]) if sys.argv[1] == "bilinear" else (X[:50],)
    one = copy.deepcopy(model)
    return (one.predict_pair if len(rows) == 2 else one.predict)(*rows).tobytes()

model.partial_fit(X[:600], y[:600])
inside, before = 0, answers()
after = copy.deepcopy(model).partial_fit(X[600:], y[600:])
model, after = after, (model, after)
for wait in (0.02, 0.05, 0.1, 0.03, 0.07):
    was, ended = copy.deepcopy(model), False
    signal.setitimer(signal.ITIMER_REAL, wait)
    try:
        model.partial_fit(X[600:], y[600:])
        ended = True
        time.sleep(1.0)
    except Come:
        pass
    if ended:
        model = was
    elif answers() == before:
        inside += 1
    else:  # it came after the last change
        assert answers() == after
        model = was
print(inside)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGALRM")
@pytest.mark.parametrize("kind", ["mean", "risk", "pairs", "bilinear"])
def test_a_signal_in_compiled_code_ends_the_call_only(kind: str) -> None:
    """Numba crashed when it made a named tuple of what such code returned."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert int(done.stdout) > 0, "every call ended before its signal"
