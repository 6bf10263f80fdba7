"""Streams: ways to predict that run side by side, whom to believe, and when a stream changes."""

from mercer.streams.drift import Adwin, ChangeDetector
from mercer.streams.experts import Blend, FixedShare, Stack
from mercer.streams.mixture import Mixture, StreamSettings
from mercer.streams.ways import LinearWays, RunningScale

__all__ = [
    "Adwin",
    "Blend",
    "ChangeDetector",
    "FixedShare",
    "LinearWays",
    "Mixture",
    "RunningScale",
    "Stack",
    "StreamSettings",
]
