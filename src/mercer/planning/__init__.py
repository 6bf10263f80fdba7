"""The earlier address of the step sizes of :mod:`mercer.learning`."""

from mercer.learning.step_sizes import *  # noqa: F403
from mercer.learning.step_sizes import __all__ as __all__
