"""``mercer inspect``."""

from __future__ import annotations

from mercer.cli._console import print_result
from mercer.cli._files import load_model_file
from mercer.cli._options import InspectOptions
from mercer.inspection import describe

__all__ = ["run"]


def run(options: InspectOptions) -> None:
    """Say what is in a model file."""
    model = options.model
    values = {"file": str(model), "bytes": 0, **describe(load_model_file(model))}
    values["bytes"] = model.stat().st_size
    print_result(values, title=str(model), as_json=options.as_json)
