"""``mercer evaluate``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from mercer_app.cli._console import print_result
from mercer_app.cli._inputs import note_dialects, reading
from mercer_app.cli._options import EvaluateOptions
from mercer_app.cli._report import evaluated, report, title_of
from mercer_app.cli._workers import ONE_THREAD, StageView, check_alone, logged, workers_of
from mercer_app.messages import file_name, note, shown
from mercer_app.models.evaluation import check_test_data
from mercer_app.models.files import as_learned, check_writable, load_table_rows, note_extra
from mercer_app.rows import NO_TARGET


@reading
def run(options: EvaluateOptions) -> None:
    """Measure a model on data that it has not learned."""
    model, report_file = options.model, options.report_file
    target, outlier = options.target, options.outlier
    workers = workers_of(options)
    check_alone(options, {"jobs": ONE_THREAD})
    if report_file is not None:
        check_writable(report_file, options.data, model, endings=(".html", ".htm"))
    loaded = load_table_rows(model, target)
    if loaded.task == "value":
        raise ValueError(
            f"{model} holds a value function, whose rewards are no targets: a value is that of all "
            "rewards to come. Measure it by `mercer value ... --test DATA`, or "
            "mercer_app.training.TransitionColumns.measure in Python."
        )
    if loaded.target == NO_TARGET:
        raise ValueError(
            f"{model} was written by `mercer stream` or saved in Python, and does not know the "
            "column of what it predicts. Name it with `--target`."
        )
    data = as_learned(loaded, options.data, target)
    note_dialects(data)
    name = check_test_data(loaded, data, target=target, outlier=outlier)
    note_extra(loaded, data, name)
    with logged(options.log), StageView() if workers is not None else nullcontext() as view:
        evaluation = evaluated(
            loaded,
            data,
            pictured=report_file is not None,
            target=target,
            outlier=outlier,
            workers=workers,
            callback=None if view is None else view.update,
            strict=options.strict,
        )
    print_result(
        evaluation.measures, title=f"{model} on {shown(f'{data}')}", as_json=options.as_json
    )
    if report_file is not None:
        report(
            report_file,
            loaded,
            title=title_of(loaded, f"{model.name} on {Path(data).name}"),
            evaluation=evaluation,
            settings={"test data": file_name(data)},
        )
        note(f"{report_file}: report")
