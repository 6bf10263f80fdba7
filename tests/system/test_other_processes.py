"""Models that another process learns, reads or goes on with: nothing of this one is needed."""

import pickle
import subprocess
import sys

import numpy as np

from mercer import KernelClassifier, KernelRegressor, load_model
from mercer.expansions import KOMP, RandomFeatures, Stream
from mercer.kernels import Gaussian

X = np.random.default_rng(0).normal(size=(240, 3))
KERNEL = Gaussian(1.3)


def assert_identical(a, b):
    assert type(a) is type(b)
    assert np.array_equal(a.dictionary_, b.dictionary_)
    assert a.dictionary_.dtype == b.dictionary_.dtype
    assert np.array_equal(a.coefficients_, b.coefficients_)
    assert np.array_equal(a.predict(X), b.predict(X))
    assert a.n_samples_seen_ == b.n_samples_seen_
    for name in ("n_samples", "loss", "model_order", "compression_error", "step_size"):
        assert np.array_equal(getattr(a.history_, name), getattr(b.history_, name))


def python(program, *words):
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


GO_ON = """
import sys
import numpy as np
import mercer
from mercer import KernelClassifier

folder = sys.argv[1]
# Another estimator than those that were imported is read, too.
assert "mercer.estimators.regressor" not in sys.modules
print(type(mercer.load_model(folder + "/another")).__name__)

data = np.load(folder + "/rows.npz")
model = mercer.load_model(folder + "/before")
model.partial_fit(data["X"][80:], data["y"][80:]).save(folder + "/after")

import pickle

for model in pickle.load(open(folder + "/models.pkl", "rb")):
    model.learn_one(np.ones(3), 1.0)
    print(repr(float(model.predict_one(np.zeros(3)))))

# What is learned here alone.
from mercer import KernelRegressor
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian

X = data["X"]
model = KernelRegressor(
    kernel=Gaussian(1.3), expansion=RandomFeatures(16), random_state=0
)
print(model.fit(X, X[:, 0]).coefficients_.tobytes().hex())
"""


def test_another_process_learns_reads_what_a_file_names_and_goes_on_bit_for_bit(tmp_path):
    """What single rows prepare has addresses of compiled code, which are of this process."""
    KernelRegressor(expansion=KOMP(max_size=5)).fit(X, X[:, 0]).save(tmp_path / "another")
    labels = np.where(X[:, 0] > 0.0, "a", "b")
    model = KernelClassifier(kernel=KERNEL, step_size=0.9).partial_fit(X[:80], labels[:80])
    model.save(tmp_path / "before")
    np.savez(tmp_path / "rows.npz", X=X, y=labels)
    by_rows = [
        KernelRegressor(kernel="gaussian", expansion=KOMP(max_size=20), random_state=0),
        KernelRegressor(expansion=Stream(n_features=32, points=20), random_state=0),
    ]
    for one in by_rows:
        one.partial_fit(X[:30], X[:30, 0])
        for x in X[30:]:
            one.learn_one(x, x[0])
    (tmp_path / "models.pkl").write_bytes(pickle.dumps(by_rows))
    name, *said, learned = python(GO_ON, tmp_path).split()
    assert name == "KernelRegressor"
    model.partial_fit(X[80:], labels[80:])
    assert_identical(model, load_model(tmp_path / "after"))
    model.save(tmp_path / "mine")
    assert (tmp_path / "mine").read_bytes() == (tmp_path / "after").read_bytes()
    for one, answer in zip(by_rows, said, strict=True):
        one.learn_one(np.ones(3), 1.0)
        assert float(answer) == one.predict_one(np.zeros(3))
    here = KernelRegressor(kernel=KERNEL, expansion=RandomFeatures(16), random_state=0)
    assert learned == here.fit(X, X[:, 0]).coefficients_.tobytes().hex()
