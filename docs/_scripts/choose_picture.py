"""Draw docs/images/choose.svg, the tree of questions on the page ``choose``.

Run ``python docs/_scripts/choose_picture.py`` after changing it.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

TARGET = Path(__file__).parent.parent / "images" / "choose.svg"
INK, LINE = "#1d2b36", "#8a99a6"
COLOURS = {"question": "#eef2f5", "mercer": "#d5e8f5", "other": "#f7e6d2"}

# (question, [(answer, estimator, kind), ...]), from the top to the bottom.
BRANCHES = [
    (
        "Do you have\ntargets?",
        [
            ("no: what is unusual?", "NoveltyDetector", "mercer"),
            ("no: do two samples differ?", "DensityRatio", "mercer"),
            ("rewards of a policy", "ValueFunction", "mercer"),
        ],
    ),
    (
        "Is only the order\nof rows wanted?",
        [
            ("two classes, one is rare", "KernelClassifier.decision_function", "mercer"),
            ("queries, grades, matches", "KernelRanker", "mercer"),
        ],
    ),
    (
        "Are the inputs images,\nsound or text as such?",
        [("yes", "a network; its features\nmay go into mercer", "other")],
    ),
    (
        "Does a linear model\ndo as well?",
        [("yes", "the linear model", "other")],
    ),
    (
        "Classes?",
        [
            ("labels, probabilities", "KernelClassifier()", "mercer"),
            ("10⁵ rows, thresholds on axes", "compare boosted trees", "other"),
        ],
    ),
    (
        "Quantities",
        [
            ("the mean", "KernelRegressor()", "mercer"),
            ("a band", "KernelRegressor(Quantile(...))", "mercer"),
            ("wrong values among them", 'KernelRegressor("huber")', "mercer"),
            (
                "large errors cost: compare both",
                'KernelRegressor(risk="cvar:0.9")\nand KernelRegressor()',
                "mercer",
            ),
            ("how well is it known?", "GaussianProcessRegressor", "mercer"),
        ],
    ),
]
ROW, GAP = 1.0, 0.65
QUESTION_X, QUESTION_WIDTH, ANSWER_X, BOX_X, BOX_WIDTH = 0.1, 3.3, 4.0, 7.9, 5.0


def box(axis, x, y, width, height, text, kind, mono=False):
    """Draw a box with its left edge at x and its middle at y."""
    style = "round,pad=0.02,rounding_size=0.14"
    patch = FancyBboxPatch(
        (x, y - height / 2), width, height, boxstyle=style, fc=COLOURS[kind], ec="none"
    )
    axis.add_patch(patch)
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    axis.text(
        x + width / 2, y, text, ha="center", va="center", color=INK, family=family,
        fontsize=9 if mono else 10, linespacing=1.25,
    )  # fmt: skip


def draw():
    """Return the figure."""
    n_rows = sum(len(answers) for _, answers in BRANCHES) + GAP * (len(BRANCHES) - 1)
    figure, axis = plt.subplots(figsize=(9.6, 0.52 * (n_rows + 1.6)))
    axis.set_xlim(0, 13.2)
    axis.set_ylim(-n_rows - 1.0, 0.7)
    axis.axis("off")
    y, previous = 0.0, None
    for question, answers in BRANCHES:
        middle = y - 0.5 * (len(answers) - 1) * ROW
        if previous is not None:
            axis.annotate(
                "", (QUESTION_X + 1.65, middle + 0.56), (QUESTION_X + 1.65, previous - 0.56),
                arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.2},
            )  # fmt: skip
        box(axis, QUESTION_X, middle, QUESTION_WIDTH, 1.05, question, "question")
        for answer, estimator, kind in answers:
            corner = QUESTION_X + QUESTION_WIDTH
            axis.plot(
                [corner, corner + 0.3, corner + 0.3, BOX_X], [middle, middle, y, y],
                color=LINE, lw=1.2, zorder=0,
            )  # fmt: skip
            axis.text(
                ANSWER_X, y + 0.06, answer, va="bottom", color=INK, fontsize=9, style="italic"
            )
            height = 0.9 if "\n" in estimator else 0.74
            box(axis, BOX_X, y, BOX_WIDTH, height, estimator, kind, mono=kind == "mercer")
            y -= ROW
        previous, y = middle, y - GAP
    y = -n_rows - 0.5
    for x, kind, text in [(0.1, "mercer", "in mercer"), (2.9, "other", "something else")]:
        box(axis, x, y, 2.5, 0.5, text, kind)
    axis.text(
        5.8, y, "go down while no answer fits", color=INK, fontsize=9, va="center", style="italic"
    )
    return figure


def main():
    """Write the picture."""
    # Text as paths and a fixed salt: the same file everywhere.
    with matplotlib.rc_context({"svg.hashsalt": "mercer"}):
        figure = draw()
        figure.savefig(TARGET, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
