"""
Save a model in the middle of a stream, and go on later
=======================================================

A model file holds all that learning needs: the function, the step, the averages. So a model that is
saved, forgotten and loaded learns on as if nothing had happened, to the last bit. The file stays
small, however many rows have gone by.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRegressor, load_model
from mercer.expansions import KOMP
from mercer.kernels import Gaussian

# %%
# A stream in batches, predicted before they are learned.

N_ROWS = 16_000
BATCH = 200
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(N_ROWS, 2))
y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.2 * rng.standard_normal(N_ROWS)
batches = [slice(start, start + BATCH) for start in range(BATCH, N_ROWS, BATCH)]


def start():
    model = KernelRegressor(kernel=Gaussian(0.5), expansion=KOMP(max_size=200), random_state=0)
    return model.partial_fit(X[:BATCH], y[:BATCH])


def step(model, batch):
    error = np.mean((model.predict(X[batch]) - y[batch]) ** 2)
    model.partial_fit(X[batch], y[batch])
    return error


# %%
# Once in one go; once through a file after every batch, so that nothing but files remembers.

whole = start()
errors = [step(whole, batch) for batch in batches]
parts, errors_of_parts, sizes = start(), [], []
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "model.mercer"
    for batch in batches:
        errors_of_parts.append(step(parts, batch))
        parts.save(file)
        sizes.append(file.stat().st_size / 1024)
        parts = load_model(file)
same = np.array_equal(whole.predict(X), parts.predict(X))
print(f"the two models predict exactly the same: {same}")

# %%
# Left the errors of both, one over the other; right the file, beside the rows that it has learned.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
seen = [batch.stop for batch in batches]
left.plot(seen, errors, color="0.75", lw=5, label="in one go")
left.plot(seen, errors_of_parts, color="#0072B2", lw=1.2, label="through files")
left.set(xlabel="rows learned", ylabel="squared error of the next batch", ylim=(0, None))
right.plot(
    seen, np.array(seen) * (X[0].nbytes + y[0].nbytes) / 1024, color="0.6", label="rows learned"
)
right.plot(seen, sizes, color="#0072B2", label="model file")
right.set(xlabel="rows learned", ylabel="size [KiB]", ylim=(0, None))
for axis in (left, right):
    axis.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
