"""Draw docs/images/moons.png, the picture of the front page, by its example.

Run ``python docs/_scripts/moons_picture.py`` after a change of its example,
``examples/small_models/plot_moons.py``.
"""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent.parent

if __name__ == "__main__":
    runpy.run_path(str(ROOT / "examples" / "small_models" / "plot_moons.py"))
    plt.savefig(ROOT / "docs" / "images" / "moons.png", dpi=100)
