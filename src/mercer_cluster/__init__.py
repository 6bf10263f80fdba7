"""Learning in several places: the workers of a cluster, on one machine or many.

:func:`fit` takes shards of data and an engine. It is built on :class:`Plan` and :class:`Sums`,
which you can use with your own engine.
"""

from mercer.columns.keys import content_keys
from mercer_cluster.engines.engine import Progress
from mercer_cluster.plan import Plan, Region, Sums
from mercer_cluster.predicting import predict
from mercer_cluster.run import ShardTraining, fit
from mercer_cluster.settings import Settings
from mercer_cluster.shards import row_keys

__all__ = [
    "Plan",
    "Progress",
    "Region",
    "Settings",
    "ShardTraining",
    "Sums",
    "content_keys",
    "fit",
    "predict",
    "row_keys",
]
