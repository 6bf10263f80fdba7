"""The earlier address of :mod:`mercer.sums`."""

from mercer.sums import *  # noqa: F403
from mercer.sums import __all__ as __all__
