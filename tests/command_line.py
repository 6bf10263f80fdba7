"""Running the command inside the test's own process."""

import pytest

from mercer_app.cli import main


def run(*words):
    """Run the command; return its exit code."""
    with pytest.raises(SystemExit) as exit_:
        main([str(word) for word in words])
    return exit_.value.code or 0
