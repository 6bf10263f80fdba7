"""The command ``mercer reproduce``, which :mod:`mercer.cli` finds by its entry point."""

from mercer_reproduction.command._run import reproduce

__all__ = ["reproduce"]
