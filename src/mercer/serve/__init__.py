"""A page on this machine to try a model: a form, predictions of files, and JSON for programs.

It needs the extra ``cli``. ``mercer serve`` starts it; see the guide for what it answers.
"""

from mercer.serve._answers import Answers
from mercer.serve._server import ModelServer

__all__ = ["Answers", "ModelServer"]
