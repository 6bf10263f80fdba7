"""Which rows a row is paired with: AUC by the kind and size of the buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mercer.buffers import FIFO, Buffer, Everything, PerClassFIFO, Reservoir
from mercer.estimators import KernelRanker
from mercer.expansions import Full
from mercer.kernels import Gaussian
from mercer_reproduction._experiment import Context, Drawing, Experiment, Result, Target
from mercer_reproduction._yz_data import PROBLEM_FILES, PROBLEMS, Sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_N_ROWS, _N_TEST = 3_000, 10_000
_EXACT, _PAPER, _DEFAULT = "all", "all, divided by all", "last of each class"
_KINDS = ("last", _DEFAULT, "random", "random of each class")
_SIZES = {
    "last": (10, 30, 100, 300),
    _DEFAULT: (2, 10, 20, 30, 100, 300),
    "random": (10, 30, 100, 300),
    "random of each class": (2, 10, 30, 100, 300),
}
_LEFT_OUT = "adult"  # a linear model does as well
_GATED_SIZE = 20
_MOST_LOST = 0.01


class Setting(NamedTuple):
    """A buffer and what a step is divided by.

    Attributes
    ----------
    kind : str
        Name in tables.
    size : int or None
        Rows of both classes in the buffer; None for all.
    normalize : str, default="opposite"
        See :class:`mercer.KernelRanker`.
    n_passes : int, default=1
        Over the rows.
    """

    kind: str
    size: int | None
    normalize: str = "opposite"
    n_passes: int = 1

    @property
    def buffer(self) -> Buffer:
        """The buffer itself."""
        if self.size is None:
            return Everything()
        per_class = "of each class" in self.kind
        places = self.size // 2 if per_class else self.size
        if self.kind.startswith("random"):
            return Reservoir(places, per_class=per_class)
        return PerClassFIFO(places) if per_class else FIFO(places)


_TWICE = Setting(f"{_DEFAULT}, two passes", _GATED_SIZE, n_passes=2)


def settings(quick: bool) -> list[Setting]:
    """List what is compared; in a quick run the exact algorithm and two sizes of each kind."""
    found = [Setting(_EXACT, None), Setting(_PAPER, None, "all")]
    for kind, sizes in _SIZES.items():
        chosen = [s for s in sizes if s in (10, _GATED_SIZE, 100)] if quick else sizes
        found += [Setting(kind, size) for size in chosen]
    return [*found, _TWICE]


def auc_of(setting: Setting, sample: Sample, length_scale: float) -> float:
    """Test AUC after one pass with this buffer, all points kept."""
    model = KernelRanker(
        "squared_hinge",
        pair_label="difference",
        buffer=setting.buffer,
        normalize=setting.normalize,
        kernel=Gaussian(length_scale),
        expansion=Full(),
        n_passes=setting.n_passes,
        shuffle=False,
    ).fit(sample.X, sample.y)
    return float(roc_auc_score(sample.y_test, model.decision_function(sample.X_test)))


Found = Mapping[Setting, Mapping[str, float]]


def _run(context: Context) -> Result:
    quick = context.quick
    n_splits, n_rows, n_test = (1, 300, 300) if quick else (5, _N_ROWS, _N_TEST)
    problems = [p for p in PROBLEMS if p.name != _LEFT_OUT]
    found: dict[Setting, dict[str, float]] = {setting: {} for setting in settings(quick)}
    for problem in problems:
        split = problem.load(context.data)
        samples = [split(1000 * context.seed + i, n_rows, n_test) for i in range(n_splits)]
        for setting, of in found.items():
            auc = [auc_of(setting, sample, problem.length_scale) for sample in samples]
            of[problem.name] = float(np.mean(auc))
        context.say(
            f"{problem.name}: "
            + ", ".join(f"{s.kind} {s.size} {of[problem.name]:.4f}" for s, of in found.items())
        )
    return Result(
        [_row(setting, of) for setting, of in found.items()],
        targets=_targets(found),
        drawings=[_drawing(found)],
        notes=_notes(found, n_splits, n_rows),
    )


def _row(setting: Setting, of: Mapping[str, float]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "paired with": setting.kind,
        "rows": "all" if setting.size is None else setting.size,
        "divisor": setting.normalize,
    }
    row.update((name, f"{auc:.4f}") for name, auc in of.items())
    row["mean"] = f"{np.mean(list(of.values())):.4f}"
    return row


def _lost(found: Found, setting: Setting) -> Array:
    """AUC that the exact algorithm has more, by problem."""
    exact, own = found[Setting(_EXACT, None)], found[setting]
    return np.array([exact[name] - own[name] for name in exact])


def _targets(found: Found) -> list[Target]:
    lost = _lost(found, Setting(_DEFAULT, _GATED_SIZE))
    words = f"AUC lost by the last {_GATED_SIZE // 2} of each class against all rows"
    return [
        Target(f"{words}, mean of the data", float(lost.mean()), _MOST_LOST),
        Target(f"{words}, worst of the data", float(lost.max()), _MOST_LOST),
    ]


def _notes(found: Found, n_splits: int, n_rows: int) -> list[str]:
    names = next(iter(found.values()))

    def points(setting: Setting) -> str:
        lost = _lost(found, setting)
        return ", ".join(f"{n} {100 * value:+.1f}" for n, value in zip(names, lost, strict=True))

    return [
        f"{n_rows:,} rows in one pass, mean of {n_splits} splits; squared hinge, labels y - y', "
        "steps 4 t^(-1/2) / (L kappa²) of the pair kernel, 16 times the largest of Theorem 3; all "
        "points kept, no ridge. Rows: of both classes together, so that 2 of each class is the "
        "latest row of each. `all, divided by all` is Algorithm 2 as printed.",
        "Dividing by the partners of the other class instead of all, with all rows kept, in AUC "
        f"points: {points(Setting(_PAPER, None, 'all'))}. "
        "Same-class pairs have no slope; counting them makes steps smaller.",
        f"What all rows give more than the last {_GATED_SIZE // 2} of each class, in AUC points: "
        f"{points(Setting(_DEFAULT, _GATED_SIZE))}. With all rows every step moves the "
        "coefficients of all earlier ones again, with a buffer those in it only; after two passes "
        f"over the rows it is {points(_TWICE)}.",
        "The data are not those of the method's notes (satimage, letter, abalone, Caravan). "
        "Positives are few: differences of a point between neighbouring sizes are noise.",
    ]


def _drawing(found: Found) -> Drawing:
    def mean(setting: Setting) -> float:
        return float(np.mean(list(found[setting].values())))

    def draw(ax: Axes) -> None:
        for kind in _KINDS:
            chosen = [setting for setting in found if setting.kind == kind]
            sizes = [setting.size or 0 for setting in chosen]
            ax.plot(sizes, [mean(setting) for setting in chosen], "o-", label=kind)
        for kind, normalize, style in ((_EXACT, "opposite", "-"), (_PAPER, "all", "--")):
            value = mean(Setting(kind, None, normalize))
            ax.axhline(value, linestyle=style, color="0.5", linewidth=1.0, label=kind)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("rows in the buffer")
        ax.set_ylabel("test AUC, mean of the data")

    return Drawing("size", "AUC by the kind and size of the buffer.", draw)


EXPERIMENT = Experiment(
    name="yz-buffers",
    title="Buffers of pairwise learning",
    place="Ying and Zhou, Algorithm 2",
    shows=(
        "Test AUC when rows are paired with all earlier ones, with the latest ones, the latest of "
        "each class, or a random sample, for buffers of 2 to 300 rows."
    ),
    run=_run,
    needs_data=tuple(name for name in PROBLEM_FILES if not name.startswith(_LEFT_OUT)),
)
