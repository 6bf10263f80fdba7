"""``mercer export``."""

from __future__ import annotations

from mercer_app.cli._options import ExportOptions
from mercer_app.export import export_python
from mercer_app.messages import note
from mercer_app.models.files import check_writable, load_model_file


def run(options: ExportOptions) -> None:
    """Write a model as a Python file that needs NumPy only."""
    check_writable(options.out, options.model, endings=(".py",))
    size = export_python(load_model_file(options.model), options.out)
    note(f"{options.out}: {size:,} bytes; needs NumPy only")
