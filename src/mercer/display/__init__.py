"""Pictures of a fitted model, in the manner of scikit-learn's ``Display`` objects.

Each class holds the numbers of one picture and draws them with ``plot``; the class methods
``from_estimator``, ``from_history`` and ``from_predictions`` compute the numbers. A scikit-learn
``Pipeline`` that ends in a mercer estimator is accepted wherever an estimator is. Only drawing
needs matplotlib.
"""

from mercer.display._functions import DecisionSurfaceDisplay, RegressionCurveDisplay
from mercer.display._losses import LossDistributionDisplay, Tail, row_losses, tail_of
from mercer.display._ranking import RankingDisplay
from mercer.display._runs import (
    HistoryLike,
    LearningCurveDisplay,
    ModelOrderDisplay,
    MonitorDisplay,
    RaceDisplay,
    StreamDisplay,
)
from mercer.display.explaining import DependenceDisplay, ExplanationDisplay, ImportanceDisplay

__all__ = [
    "DecisionSurfaceDisplay",
    "DependenceDisplay",
    "ExplanationDisplay",
    "HistoryLike",
    "ImportanceDisplay",
    "LearningCurveDisplay",
    "LossDistributionDisplay",
    "ModelOrderDisplay",
    "MonitorDisplay",
    "RaceDisplay",
    "RankingDisplay",
    "RegressionCurveDisplay",
    "StreamDisplay",
    "Tail",
    "row_losses",
    "tail_of",
]
