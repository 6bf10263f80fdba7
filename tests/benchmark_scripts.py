"""Import scripts of `benchmarks/` for a module of tests, and leave nothing of them behind."""

import importlib
import os
import sys
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

FOLDER = Path(__file__).parent.parent / "benchmarks"


@contextmanager
def scripts(*names):
    """Give the modules by their names. They set variables, and find each other by the path."""
    before = set(sys.modules)
    with mock.patch.object(sys, "path", [str(FOLDER), *sys.path]), mock.patch.dict(os.environ):
        try:
            yield Namespace(**{name: importlib.import_module(name) for name in names})
        finally:
            for name in set(sys.modules) - before:
                if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == FOLDER:
                    del sys.modules[name]
