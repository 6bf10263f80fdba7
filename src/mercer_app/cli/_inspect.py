"""``mercer inspect``."""

from __future__ import annotations

from mercer.inspection import describe, race_summary
from mercer_app.cli._console import print_result
from mercer_app.cli._options import InspectOptions
from mercer_app.models.files import load_model_file


def run(options: InspectOptions) -> None:
    """Say what is in a model file."""
    model = options.model
    loaded = load_model_file(model)
    values = {"file": str(model), "bytes": model.stat().st_size, **describe(loaded)}
    if "race" in values and not options.as_json:  # which has every pilot
        values["race"] = race_summary(getattr(loaded, "estimator", loaded))
    print_result(values, title=str(model), as_json=options.as_json)
