"""CIFAR-10 on convolution features: kernel logistic regression (DSG, Figure 7 (2))."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from mercer.estimators import KernelClassifier
from mercer.expansions import RandomFeatures
from mercer.kernels import Gaussian
from mercer_reproduction._convnet import ConvNet, require_torch
from mercer_reproduction._data import Split, median_distance
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._images import cifar10, error_percent, uncentred_projection

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COMPONENTS = 256
_REGULARIZATION = 0.0005
_WIDTHS = (1.0, 2.0, 4.0)  # in medians; the paper's is 4
_RIDGES: tuple[float | str, ...] = ("auto", 1e-2, 1e-3, 1e-4)


def _named(ridge: float | str) -> str:
    return "ridge raced" if ridge == "auto" else f"ridge {ridge:g}"


def _row(method: str, inputs: int, seconds: float, error: float) -> dict[str, Any]:
    return {
        "method": method,
        "inputs": inputs,
        "CPU s after the features": seconds,
        "test error %": error,
    }


def _fitted(method: str, model: Any, split: Split) -> dict[str, Any]:
    start = time.process_time()
    model.fit(split.X, split.y)
    seconds = time.process_time() - start
    return _row(method, split.X.shape[1], seconds, error_percent(model, split.X_test, split.y_test))


def _dsg(width: float, median: float, ridge: float | str, sizes: tuple[int, int], seed: int) -> Any:
    batch_size, block_size = sizes
    return KernelClassifier(
        kernel=Gaussian(width * median),
        expansion=RandomFeatures(block_size, ridge=ridge, seed=seed),
        batch_size=batch_size,
        regularization=_REGULARIZATION,
        random_state=seed,
    )


def _linear(split: Split) -> LogisticRegression:
    """Linear softmax with the same regularization nu: C = 1 / (nu n)."""
    return LogisticRegression(C=1.0 / (_REGULARIZATION * len(split.X)), max_iter=2000)


def _run(context: Context) -> Result:
    assert context.data is not None
    require_torch()
    seed = context.seed
    images = cifar10(context.data)
    net = ConvNet(seed=seed)
    if context.quick:
        images = images.subsample(600, 300, seed)
        net = ConvNet((8, 16), n_epochs=1, seed=seed)
    net.fit(images.X, images.y, say=context.say)
    context.say(f"net: {net.cpu_seconds_:.0f} CPU s")

    # The net learned from the images and their mirror images; so do the others.
    both = np.concatenate([images.X, images.X[:, :, ::-1]])
    features, test_features = net.features(both), net.features(images.X_test)
    wrong = 100.0 * float(np.mean(net.classify(test_features) != images.y_test))
    project = uncentred_projection(features, _COMPONENTS)
    labels = np.tile(images.y, 2)
    whole = Split(features, labels, test_features, images.y_test)
    few = Split(project(features), labels, project(test_features), images.y_test)
    median = median_distance(few.X, seed)

    rows = [
        _row("the net, jointly trained", features.shape[1], 0.0, wrong),
        _fitted("linear softmax", _linear(whole), whole),
        _fitted("linear softmax", _linear(few), few),
    ]
    sizes = (256, 128) if context.quick else (1024, 512)
    own: dict[str, list[float]] = {}
    for ridge in _RIDGES:
        for width in _WIDTHS:
            label = f"DSG newton, {_named(ridge)}"
            method = f"{label}, width {width:g} x median"
            rows.append(_fitted(method, _dsg(width, median, ridge, sizes, seed), few))
            own.setdefault(label, []).append(rows[-1]["test error %"])
            context.say(f"{method}: {rows[-1]['test error %']:.1f} %")
    linear = rows[2]["test error %"]
    return Result(
        rows,
        targets=[
            Target(
                f"DSG newton, ridge raced, width 4 x median: test error %; the bound is {name}",
                own["DSG newton, ridge raced"][-1],
                bound,
                claim=("Fig. 7 (2)",),
            )
            for name, bound in (
                ("the linear softmax's on the same inputs", linear),
                ("the net's", wrong),
            )
        ],
        drawings=[_drawing(own, wrong, linear)],
        notes=[
            f"{len(images.X):,} images and their mirror images for training, "
            f"{len(images.X_test):,} for testing. So few are not the paper's 50,000, and the net "
            "here has two convolutions and no local layers: compare the rows with each other, not "
            "with its 11 %. The standard error of a test error of 40 % on 1,000 images is 1.5 %.",
            f"Features: the last max-pooling of the net, which took {net.cpu_seconds_:.0f} CPU s; "
            f"{few.X.shape[1]} components of an uncentred PCA, regularization {_REGULARIZATION:g}. "
            "The net has seen these images, so its features fit them better than new ones; for "
            "the same reason, and because of the mirror images, the rows held out for the race of "
            "ridges (1e-2 to 1e-5) are not like new ones.",
        ],
    )


def _drawing(own: dict[str, list[float]], net: float, linear: float) -> Drawing:
    def draw(ax: Axes) -> None:
        for label, errors in own.items():
            ax.plot(_WIDTHS, errors, "o-", label=label)
        ax.axhline(net, color="0.4", linestyle="--", label="the net")
        ax.axhline(linear, color="0.4", linestyle=":", label="linear softmax")
        ax.set_xscale("log", base=2)
        ax.set_xticks(_WIDTHS, [f"{width:g}" for width in _WIDTHS])
        ax.set_xlabel("width of the kernel, in median distances")
        ax.set_ylabel("test error, %")

    return Drawing("width", "Test error on the features of a net, by the kernel's width.", draw)


EXPERIMENT = Experiment(
    name="dsg-cifar10",
    title="CIFAR-10: kernel logistic regression on convolution features",
    place="DSG, Section 7.4, Figure 7 (2)",
    shows=(
        "Softmax with a Gaussian kernel on the features of a convolutional net, against a linear "
        "softmax on the same features and the net itself. Needs PyTorch."
    ),
    run=_run,
    needs_data=("cifar10_5k.npz",),
)
