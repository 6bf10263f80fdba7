"""Learning in several places: all machines of a cluster, or all processes of one.

:func:`fit` takes shards of data and an engine; the core beneath it is :class:`Plan` and
:class:`Sums`, for engines of one's own.
"""

from mercer.data.keys import content_keys
from mercer.distributed.keys import row_keys
from mercer.distributed.plan import Plan, Sums
from mercer.distributed.predicting import predict
from mercer.distributed.progress import Progress
from mercer.distributed.regions import Region
from mercer.distributed.run import fit
from mercer.distributed.settings import Settings
from mercer.distributed.training import ShardTraining

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
