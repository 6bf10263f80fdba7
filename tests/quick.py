"""Settings with races on few rows and points, for tests of other things."""

from mercer.default import Settings
from mercer.default.allocate import AllocationSettings
from mercer.selection import RaceSettings

#: All stages of the default learner are there, and begin earlier: beyond 400 rows some are kept
#: back to judge, and cells take part from 600 rows on.
QUICK = Settings(
    race=RaceSettings(
        small=400,
        pilot_rows=1000,
        few_rows=150,
        pilot_points=100,
        gradient_rows=500,
        cell_size=64,
        cell_rows=300,
        cells_rows=1500,
    )
)

#: Besides, models of few points.
FEW_POINTS = QUICK._replace(allocation=AllocationSettings(rows_per_point=20, least_points=200))

#: Of the map that kernel="auto" chooses where learning is by steps: quick enough for all tests but
#: its own, and still better than none.
QUICK_MAP = RaceSettings(
    few_rows=80, pilot_rows=80, small=10**9, lengths=(0.5, 1.0, 2.0), first_length=1
)
