"""Streams: models side by side, how much each counts, and detection of changes."""

from mercer.streams.drift import ChangeDetector
from mercer.streams.experts import Blend, FixedShare, Stack
from mercer.streams.late import Delivered, LateLabels
from mercer.streams.mixture import Mixture, StreamFunction, StreamLearner, StreamSettings
from mercer.streams.ways import FeatureSets, LinearWays, RunningScale

__all__ = [
    "Blend",
    "ChangeDetector",
    "Delivered",
    "FeatureSets",
    "FixedShare",
    "LateLabels",
    "LinearWays",
    "Mixture",
    "RunningScale",
    "Stack",
    "StreamFunction",
    "StreamLearner",
    "StreamSettings",
]
