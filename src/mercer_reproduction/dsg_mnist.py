"""MNIST with distorted digits, on features of a net (DSG, Section 7.4 and Figure 7 (1))."""

from __future__ import annotations

from functools import partial

from mercer_reproduction._convnet import lenet, require_torch
from mercer_reproduction._experiment import Context, Experiment, Result, Target
from mercer_reproduction._images import digits
from mercer_reproduction._net_race import JOINT, PRINTED, Sizes, compare, remarks
from mercer_reproduction._virtual import Stream, distorted

_SIZES = Sizes(60_000, passes=6, passes_on_features=3)
_QUICK = Sizes(1_000, 4, 2, batch_size=512, block_size=128)


def _run(context: Context) -> Result:
    require_torch()
    images, sizes, layers = digits(context.data), _SIZES, lenet
    if context.quick:
        images, sizes = images.subsample(1_000, 300, context.seed), _QUICK
        layers = partial(lenet, filters=(4, 8), units=32)
    sizes = sizes.of(context)
    stream = Stream(images.X, images.y, distorted, context.seed)
    views = [stream.scaled(images.X_test)]
    found = compare("dsg-mnist", context, sizes, stream, views, images.y_test, layers, 2e-3)
    own, net = found.errors[PRINTED], found.errors[JOINT]
    return Result(
        found.rows,
        targets=[
            Target("net, jointly trained: test error %", net, 0.6, paper=0.6),
            Target("DSG newton, width 4 x median: test error %", own, 0.5, paper=0.5),
            *found.claims("Fig. 7 (1)"),
        ],
        drawings=[found.drawing],
        notes=[
            f"Copies of {len(images.X):,} digits, made on the fly: shifted, turned, scaled, "
            f"slanted and bent, none seen twice. The {len(images.X_test):,} test images are as "
            "they are; the standard error of a test error of .5 % on 10,000 images is .07 %. The "
            "paper has 8 million copies; `--passes 135` makes as many.",
            "The net is the paper's: LeNet-5 with 16 and 32 filters of 5 x 5, rectified linear "
            "units and 128 units in the dense layer.",
            *remarks(sizes),
        ],
        cpu_seconds=found.earlier,
    )


EXPERIMENT = Experiment(
    name="dsg-mnist",
    title="MNIST, distorted digits: DSG on features of a net",
    place="DSG, Section 7.4, Figure 7 (1)",
    shows=(
        "Softmax with a Gaussian kernel on the features of a convolutional net, against the net "
        "itself and its dense layers learned anew on the same features. Needs PyTorch."
    ),
    run=_run,
    needs_data=("mnist_train.parquet", "mnist_test.parquet"),
)
