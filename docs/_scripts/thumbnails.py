"""Thumbnails of the gallery: one panel of each figure, large enough to be read.

A figure of four panels, made as small as a thumbnail, has letters of three pixels. So one panel is
drawn again by itself: the first, or the one that :data:`PANELS` names.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.transforms import Bbox
from sphinx_gallery.scrapers import matplotlib_scraper
from sphinx_gallery.utils import scale_image

#: Which of the axes of a figure says most.
PANELS = {
    "plot_cells": 3,
    "plot_default_race": 1,
    "plot_drift": 3,
    "plot_model_order": 1,
    "plot_one_row_at_a_time": 1,
    "plot_outliers": 2,
}
SIZE = (560, 400)


def scrape(block, variables, configuration):
    """Save the figures of a block, as sphinx-gallery does, and one panel of the first of them."""
    if plt.get_fignums():
        file = Path(str(variables["image_path_iterator"].image_path).format(0))
        figure = plt.figure(plt.get_fignums()[0])
        axis = figure.axes[PANELS.get(Path(variables["src_file"]).stem, 0)]
        figure.canvas.draw()
        box = axis.get_tightbbox(figure.canvas.get_renderer())
        inches = Bbox(box.transformed(figure.dpi_scale_trans.inverted())).padded(0.05)
        dpi = min(SIZE[0] / inches.width, SIZE[1] / inches.height)
        target = file.parent / f"panel_{Path(variables['src_file']).stem}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, bbox_inches=inches, dpi=dpi)
    return matplotlib_scraper(block, variables, configuration)


def use(app):
    """Put the panels in the places of the thumbnails, after the examples have run."""
    for panel in (Path(app.srcdir) / "gallery").rglob("panel_*.png"):
        name = panel.stem.removeprefix("panel_")
        scale_image(panel, panel.parent / "thumb" / f"sphx_glr_{name}_thumb.png", *SIZE)
