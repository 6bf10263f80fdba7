"""Settings with races on few rows, points and trees, for tests of other things."""

import numpy as np

from mercer.default import Settings
from mercer.default.allocate import AllocationSettings
from mercer.learning import sums
from mercer.selection import RaceSettings

#: All stages of the default learner are there, and begin earlier: beyond 400 rows some are kept
#: back to judge, and cells take part from 600 rows on.
QUICK = Settings(
    race=RaceSettings(
        small=400,
        pilot_rows=150,
        cell_size=64,
        cell_rows=100,
        kept_rows=128,
        cells_rows=600,
        asked_cells=3,
    ),
    allocation=AllocationSettings(n_trees=10, many_trees=12),
)

#: Besides, few kernels and trees: for many fits.
QUICKEST = QUICK._replace(
    race=QUICK.race._replace(families=("gaussian",), rounds=1),
    allocation=AllocationSettings(n_trees=4, many_trees=6),
)

#: Besides, models of few points.
FEW_POINTS = QUICK._replace(
    allocation=QUICK.allocation._replace(rows_per_point=20, least_points=200, beside_cells=200)
)

#: Points, judging rows, steps and ridges of what losses add to least squares, by their names in
#: `mercer.sums.correction`: few, of all kinds.
QUICK_CORRECTION = {
    "_POINTS": 40,
    "_JUDGES": 200,
    "_STEPS": 40,
    "_RIDGES": 10.0 ** -np.arange(0.0, 6.0, 2.0),
}

#: Of the map that kernel="auto" chooses where learning is by steps: quick enough for all tests but
#: its own, and still better than none.
QUICK_MAP = RaceSettings(pilot_rows=80, small=10**9)


def take_few_steps(patch):
    """Take few steps where a loss takes steps, as long as a ``MonkeyPatch`` holds."""
    patch.setattr(sums, "_STEPS", 10)
    patch.setattr(sums, "_FEW_STEPS", 5)
