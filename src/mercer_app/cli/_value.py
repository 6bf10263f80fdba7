"""``mercer value``."""

from __future__ import annotations

from mercer.columns.views import listed
from mercer.estimators import ValueFunction
from mercer.expansions import KOMP
from mercer_app.cli._console import print_result
from mercer_app.cli._fit import make_kernel, make_step_size
from mercer_app.cli._options import ValueOptions
from mercer_app.files import schema
from mercer_app.messages import note
from mercer_app.models.files import check_writable, load_model_file
from mercer_app.training import TransitionColumns


def run(options: ValueOptions) -> None:
    """Learn a value function from logged transitions, write it, and measure it."""
    out, quiet = options.out, options.quiet
    check_writable(out, options.data, options.test)
    if options.test is not None:
        schema(options.test)  # whether it is there, before there is work to lose
    columns = TransitionColumns(
        reward=options.reward,
        states=tuple(options.state or ()),
        episode=options.episode,
        terminal=options.terminal,
        ends=options.ends,
        next_prefix=options.next_prefix,
        exclude=tuple(options.exclude or ()),
    )
    estimator = _estimator(options)
    estimator.check()
    model = columns.fit(
        estimator, options.data, scaling=options.scaling.value, categories=options.categories
    )
    model.save(out)
    states = listed(model.feature_names_in_)
    note(
        f"{out}: values of {states}; model order {model.model_order_:,} after "
        f"{model.n_samples_seen_:,} transitions, counting every pass",
        quiet=quiet,
    )
    if options.terminal is None and not options.ends:
        note(
            "no episode is taken to have ended for good, so that values go on beyond its last row; "
            "see --terminal and --ends",
            quiet=quiet,
        )
    test = options.data if options.test is None else options.test
    measures = columns.measure(load_model_file(out), test)
    if options.test is None:
        note("measured on the transitions that were learned; see --test", quiet=quiet)
    print_result(measures, title=f"{out} on {test}", as_json=options.as_json)


def _estimator(options: ValueOptions) -> ValueFunction:
    given = {
        "kernel": make_kernel(options.kernel, options.length_scale),
        "expansion": None if options.max_size is None else KOMP(max_size=options.max_size),
        "step_size": make_step_size(options.step_size),
        "regularization": options.regularization,
        "batch_size": options.batch_size,
        "n_passes": options.passes,
    }
    return ValueFunction(
        options.discount,
        options.method.value,
        random_state=options.seed,
        **{name: value for name, value in given.items() if value is not None},
    )
