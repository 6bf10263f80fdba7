"""The template of numpydoc, compiled once: numpydoc would do it twice for every docstring."""

from functools import partial

from jinja2 import BytecodeCache
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx


class Kept(BytecodeCache):
    """What was compiled, by the template's name."""

    def __init__(self):
        self.codes = {}

    def load_bytecode(self, bucket):
        """Give what was compiled before, if anything was."""
        bucket.code = self.codes.get(bucket.key)

    def dump_bytecode(self, bucket):
        """Keep what has been compiled."""
        self.codes[bucket.key] = bucket.code


def install():
    """Let numpydoc make its environments, one for each docstring, with what is kept."""
    docscrape_sphinx.SandboxedEnvironment = partial(SandboxedEnvironment, bytecode_cache=Kept())
