"""
Images by their patches: random convolutions
============================================

A Gaussian kernel compares two images pixel by pixel, so a digit that stands a pixel to the left is
another digit. ``Convolutional`` averages a kernel of patches over positions in each part of the
image; its random features are random filters, a cosine and a mean, drawn from a seed. A second
kernel may stand on them, as a second layer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mercer import KernelClassifier
from mercer.expansions import RandomFeatures
from mercer.kernels import Convolutional, Gaussian, Mapped

# %%
# Handwritten digits of 8 x 8 pixels; patches of 5 x 5, averaged in each quarter.

N_ROWS = 1797
N_FEATURES = 512
N_SPLITS = 3
X, y = load_digits(return_X_y=True)
X, y = X[:N_ROWS] / 16, y[:N_ROWS]
patches = Convolutional(Gaussian(), image_shape=(8, 8), patch_size=5, grid=2).resolve(X, 0)


def filters(images):
    return patches.random_features(images, 256, seed=1)


kernels = {
    "Gaussian of pixels": (Gaussian(), "#0072B2"),
    "patches": (patches, "#009E73"),
    "Gaussian of 256 filters": (Mapped(Gaussian(), filters), "#D55E00"),
}

# %%
# The same number of features for all, learned from more and more of the rows.

found = {name: [] for name in kernels}
sizes = len(X) * np.array([1, 3, 8]) // 12
for seed in range(N_SPLITS):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    for name, (kernel, _) in kernels.items():
        model = KernelClassifier(
            kernel=kernel, expansion=RandomFeatures(N_FEATURES, mode="solve"), random_state=seed
        )
        scores = [model.fit(X_train[:n], y_train[:n]).score(X_test, y_test) for n in sizes]
        found[name].append(100 * np.array(scores))
for name, scores in found.items():
    mean, deviation = np.mean(scores, axis=0), np.std(scores, axis=0)
    text = ", ".join(f"{m:.2f} ({s:.2f})" for m, s in zip(mean, deviation, strict=True))
    print(f"{name}: {text} % right after {', '.join(map(str, sizes))} rows")

# %%
# Left a digit and three filters of one part applied to it; right the accuracies.

figure, axes = plt.subplot_mosaic("ABCDEE", figsize=(13, 3.0), layout="constrained")
axes["A"].imshow(X[0].reshape(8, 8), cmap="gray_r")
axes["A"].set_title("a digit")
windows = np.lib.stride_tricks.sliding_window_view(X[0].reshape(8, 8), (5, 5))
waves = patches.kernel.random_features(windows.reshape(16, 25), 3, seed=1, paired=False)
for key, wave in zip("BCD", waves.T, strict=True):
    axes[key].imshow(wave.reshape(4, 4), cmap="PuOr")
    axes[key].set_title("cosine of a filter")
for key in "ABCD":
    axes[key].set(xticks=[], yticks=[])
for name, (_, colour) in kernels.items():
    axes["E"].semilogx(sizes, np.mean(found[name], axis=0), "o-", color=colour, label=name)
axes["E"].set(xlabel="training rows", ylabel="right on test rows [%]", xticks=sizes)
axes["E"].set_xticklabels(sizes)
axes["E"].minorticks_off()
axes["E"].legend(frameon=False)
plt.show()
