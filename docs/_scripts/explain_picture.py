"""Draw docs/images/explain_*.svg of docs/guide/explain.md: the model of examples/plot_explain.py.

Run ``python docs/_scripts/explain_picture.py`` after changing the example or the pictures.
"""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from mercer.display import DependenceDisplay, ExplanationDisplay, ImportanceDisplay
from mercer.display.drawing import report_axes, report_style

ROOT = Path(__file__).parent.parent.parent
IMAGES = ROOT / "docs" / "images"


def main():
    """Draw all of them."""
    found = runpy.run_path(str(ROOT / "examples" / "plot_explain.py"))
    model, flats = found["model"], found["flats"]
    with report_style():
        matplotlib.rcParams["svg.hashsalt"] = "mercer"  # the same file each time
        for name, height, draw in (
            ("importances", 2.4, lambda ax: ImportanceDisplay.from_estimator(model, ax=ax)),
            ("row", 3.0, lambda ax: ExplanationDisplay.from_estimator(model, flats, row=4, ax=ax)),
            ("floor", 3.2, lambda ax: DependenceDisplay.from_estimator(model, "floor", ax=ax)),
            ("town", 2.2, lambda ax: DependenceDisplay.from_estimator(model, "town", ax=ax)),
        ):
            figure, ax = report_axes(height=height)
            draw(ax)
            figure.savefig(IMAGES / f"explain_{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
