"""Settings of the default learner with a race on few rows and points, for tests of other things."""

from mercer.default import Settings
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
