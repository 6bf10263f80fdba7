"""Report of a run: one self-contained HTML page for screen, phone and paper.

The page contains no script and loads nothing. Its figures are inline SVG, whose text can be
searched and read aloud, and whose colours follow the reader's light or dark theme. The same input
gives the same bytes.
"""

from mercer_app.report.figures import class_figures, figures_for, quantity_figures
from mercer_app.report.page import (
    Section,
    columns_section,
    race_section,
    risk_section,
    stream_section,
    write_report,
)
from mercer_app.report.whole import report_model

__all__ = [
    "Section",
    "class_figures",
    "columns_section",
    "figures_for",
    "quantity_figures",
    "race_section",
    "report_model",
    "risk_section",
    "stream_section",
    "write_report",
]
