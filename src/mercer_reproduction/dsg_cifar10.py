"""CIFAR-10 with crops and mirror images, on features of a net (DSG, Section 7.4, Figure 7 (2))."""

from __future__ import annotations

from functools import partial

from mercer_reproduction._convnet import photo_net, require_torch
from mercer_reproduction._experiment import Context, Experiment, Result, Target
from mercer_reproduction._images import photographs
from mercer_reproduction._net_race import JOINT, PRINTED, Sizes, compare, remarks
from mercer_reproduction._virtual import Stream, cropped, ten_views

_SIZES = Sizes(50_000, passes=6, passes_on_features=2, n_components=256)
_QUICK = Sizes(1_000, 4, 2, batch_size=512, block_size=128, n_components=256)


def _run(context: Context) -> Result:
    require_torch()
    images, sizes, layers = photographs(context.data), _SIZES, photo_net
    if context.quick:
        images, sizes = images.subsample(1_000, 200, context.seed), _QUICK
        layers = partial(photo_net, filters=(8, 8, 16))
    sizes = sizes.of(context)
    stream = Stream(images.X, images.y, cropped, context.seed)
    views = [stream.scaled(view) for view in ten_views(images.X_test)]
    found = compare("dsg-cifar10", context, sizes, stream, views, images.y_test, layers)
    own, net = found.errors[PRINTED], found.errors[JOINT]
    return Result(
        found.rows,
        targets=[
            Target("net, jointly trained: test error %", net, 15.0, paper=11.0),
            Target("DSG newton, width 4 x median: test error %", own, 15.0),
            *found.claims("Fig. 7 (2)"),
        ],
        drawings=[found.drawing],
        notes=[
            f"Crops of 24 x 24 of {len(images.X):,} images of 32 x 32 at random places, every "
            f"second one mirrored. The middles of {len(images.X_test):,} test images; votes are "
            "over the middle, the corners and their mirror images. The standard error of a test "
            "error of 15 % on 10,000 images is .4 %.",
            "The images of `cifar10_jpeg.parquet` were compressed as JPEG, which loses a little: "
            "pixels differ by 3 to 8 of 255 on average from those of CIFAR-10.",
            "The net, after the paper's: a convolution of 5 x 5 with 32 filters and two of 3 x 3 "
            "with 64 up to the features, then two layers of 3 x 3 with 64 and 32 filters, whose "
            "weights are shared over the places, where the paper's are not. Batches are normalised "
            "in place of contrasts.",
            *remarks(sizes),
        ],
        cpu_seconds=found.earlier,
    )


EXPERIMENT = Experiment(
    name="dsg-cifar10",
    title="CIFAR-10, crops and mirror images: DSG on features of a net",
    place="DSG, Section 7.4, Figure 7 (2)",
    shows=(
        "Softmax with a Gaussian kernel on the features of a convolutional net, against the net "
        "itself and its last layers learned anew on the same features. Needs PyTorch."
    ),
    run=_run,
    needs_data=("cifar10_jpeg.parquet",),
)
