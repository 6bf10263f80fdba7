"""A page on this machine to try a model: a form, predictions of files, and JSON for programs.

It needs the extra ``cli``. ``mercer serve`` starts it; see the guide for what it answers.
"""

try:
    from mercer_app.serve._answers import Answers
    from mercer_app.serve._server import ModelServer
except ImportError as error:
    if error.name not in ("typer", "rich", "pyarrow", "waitress", "jinja2"):
        raise
    raise ImportError(
        f"mercer_app.serve needs {error.name}, which is not installed. Install it with "
        '`pip install "mercer[cli]"`.',
        name=error.name,
    ) from error

__all__ = ["Answers", "ModelServer"]
