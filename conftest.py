"""Doctests of optional parts run where what they need is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/mercer/gpu/*"]
