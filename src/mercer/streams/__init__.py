"""Streams: ways to predict that run side by side, and whom to believe."""

from mercer.streams.experts import Blend, FixedShare, Stack
from mercer.streams.function import StreamFunction
from mercer.streams.learner import StreamLearner
from mercer.streams.mixture import Mixture, StreamSettings
from mercer.streams.ways import FeatureSets, LinearWays, RunningScale

__all__ = [
    "Blend",
    "FeatureSets",
    "FixedShare",
    "LinearWays",
    "Mixture",
    "RunningScale",
    "Stack",
    "StreamFunction",
    "StreamLearner",
    "StreamSettings",
]
