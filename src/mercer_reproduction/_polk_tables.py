"""Tables, claims and figures that the experiments of POLK share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer_reproduction._experiment import Drawing, Target
from mercer_reproduction._polk_runs import SVM, Run
from mercer_reproduction._ticks import plain_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def select(runs: Iterable[Run], start: str, task: str = SVM, settings: str = "") -> list[Run]:
    """Take the runs of a task whose method starts, and whose settings contain, so."""
    return [
        run
        for run in runs
        if run.task == task and run.method.startswith(start) and settings in run.settings
    ]


def of_largest_budget(runs: Sequence[Run]) -> tuple[int, list[Run]]:
    """Find the largest budget of BSGD, and the runs with it."""
    size = max(run.budget for run in runs)
    return size, [run for run in runs if run.budget == size]


def chosen(runs: Iterable[Run]) -> Run:
    """Return the run with the least error on the rows held out."""
    return min(runs, key=lambda run: run.validation)


def shown(runs: Sequence[Run]) -> list[Run]:
    """Choose the lines of the figures of the SVM: POLK, BSGD, and of small budgets merging.

    Of the steps of BSGD the chosen one is shown.
    """
    _, largest = of_largest_budget(runs)
    by_method: dict[tuple[str, int], list[Run]] = {}
    for run in [*largest, *select(runs, "BSGD, merge")]:
        by_method.setdefault((run.method, run.budget), []).append(run)
    return [*select(runs, "POLK"), *map(chosen, by_method.values())]


def claims(own: Run, rivals: Sequence[Run], where: str, places: tuple[str, ...]) -> list[Target]:
    """State what the paper says, that POLK errs less than BSGD: with removal, and at its best.

    The steps, and of all strategies the best, are chosen by the errors on rows held out.
    """
    removal = [run for run in rivals if run.method == "BSGD, remove"]
    found = []
    for among, kind in ((removal, "with removal"), (rivals, "with any strategy")):
        best = chosen(among)
        name = (
            f"The paper's claim: error of POLK ({own.label}) less that of BSGD {kind}, {where}; "
            f"chosen: {best.method.removeprefix('BSGD, ')}, step {best.step_size:g}"
        )
        above = own.end.error_percent - best.end.error_percent
        found.append(Target(name, above, 0.0, claim=places))
    return found


def table_row(
    run: Run, paper: str = "-", after: int | None = None, *, spread: bool = False, **more: Any
) -> dict[str, Any]:
    """Row of a table.

    Parameters
    ----------
    run : Run
        What was measured.
    paper : str, default="-"
        "risk / error % / model order" in the paper, as its tables have them.
    after : int or None, default=None
        Passes after which the numbers are wanted; None is at the end.
    spread : bool, default=False
        Have a column of the spread over draws in any case.
    **more
        Columns put before the paper's.
    """
    early = after is not None and after != run.passes
    end = run.ends[after] if early and after is not None else run.end
    passes: Any = after if early else run.passes
    return {
        "task": run.task,
        "method": run.method,
        "settings": run.settings + _ending(run),
        "passes": _known(passes),
        "risk": _known(end.risk),
        "error %": end.error_percent,
        **({} if np.isnan(end.spread) and not spread else {"spread": _known(end.spread)}),
        "held-out error %": "-" if early else _known(run.validation),
        "model order": round(end.model_order, 1),
        "CPU s": "-" if early else run.cpu_seconds,
        **more,
        "paper: risk / error % / order": paper,
    }


def _known(value: float) -> Any:
    return "-" if np.isnan(value) else value


def _ending(run: Run) -> str:
    """How a batch solver ended, in words."""
    if np.isnan(run.converged):
        return ""
    share = {0.0: "not converged", 1.0: "converged"}.get(
        run.converged, f"converged in {run.converged * run.draws:.0f} of {run.draws} draws"
    )
    return f", {run.iterations:,.0f} iterations, {share}"


_MEASURES = (
    ("risk", "risk", "Mean loss of the test rows"),
    ("error", "error_percent", "Test error, %"),
    ("order", "model_order", "Model order"),
)


def courses(name: str, runs: Iterable[Run], where: str) -> list[Drawing]:
    """Three figures: risk, error and model order against the samples.

    Parameters
    ----------
    name : str
        First part of the names of their files.
    runs : iterable of Run
        One line each: solid for POLK, dashed for the others.
    where : str
        For the captions: data, task and the paper's figure.
    """
    shown = list(runs)
    return [
        Drawing(f"{name}-{short}", f"{text}: {where}.", _course(shown, attribute, text))
        for short, attribute, text in _MEASURES
    ]


def _course(runs: Sequence[Run], attribute: str, text: str) -> Callable[[Axes], None]:
    def draw(ax: Axes) -> None:
        from matplotlib.ticker import NullFormatter

        for run in runs:
            samples = [look.samples for look in run.looks]
            values = [getattr(look, attribute) for look in run.looks]
            style = "-" if run.method == "POLK" else "--"
            label = f"{run.method.replace(',', '')} {run.label}"
            ax.plot(samples, values, style, marker="o", markersize=2.5, label=label)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("samples")
        ax.set_ylabel(text)
        plain_log_scale(ax)

    return draw


def mosaic(images: NDArray[Any], n_rows: int, ink: str = "gray") -> Callable[[Axes], None]:
    """Draw images of one size in rows.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
        Grey values, row by row; those that do not fill a column are left out.
    n_rows : int
        Number of rows.
    ink : str, default="gray"
        Name of matplotlib's colour map.
    """

    def draw(ax: Axes) -> None:
        n_columns = len(images) // n_rows
        _, height, width = images.shape
        tiled = images[: n_rows * n_columns].reshape(n_rows, n_columns, height, width)
        joined = tiled.swapaxes(1, 2).reshape(n_rows * height, n_columns * width)
        ax.imshow(joined, cmap=ink)
        ax.set_axis_off()

    return draw
