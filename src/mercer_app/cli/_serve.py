"""``mercer serve``."""

from __future__ import annotations

import errno
import signal

from mercer.validation import check_integer
from mercer_app.cli._options import ServeOptions
from mercer_app.cli._predict import load_scoring_rows
from mercer_app.messages import note
from mercer_app.serve import Answers, ModelServer


def run(options: ServeOptions) -> None:
    """Serve a page to try a model, until Ctrl-C or a signal to end."""
    port = check_integer("--port", options.port, low=0, high=65535)
    report = None
    if options.report_file is not None:
        if not options.report_file.is_file():
            raise FileNotFoundError(f"There is no report {options.report_file}.")
        report = options.report_file.read_bytes()
    reads = load_scoring_rows(options.model)
    answers = Answers(reads.model, options.interval)
    try:
        server = ModelServer(answers, title=options.model.stem, port=port, report=report)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken" if error.errno == errno.EADDRINUSE else "is not for users"
        raise OSError(
            f"Port {port} of this machine {why}. Name another with `--port`, or `--port 0` for any "
            "that is free."
        ) from None
    with server:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            note(f"{options.model}: {server.address} (Ctrl-C ends it)")
            server.serve_forever()
        except KeyboardInterrupt:
            note("")
        finally:
            signal.signal(signal.SIGTERM, before)
