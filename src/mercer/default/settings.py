"""Settings and phases of the default learner."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from mercer.default.allocate import AllocationSettings
from mercer.learning.elsewhere import MOST_STEPS
from mercer.selection import RaceSettings

#: Settings with a correction: more rows are held out, as the correction is learned on them, too.
CORRECTING: Any = {"fewest_judges": 2000, "held_share": 0.25}


class Phase(Enum):
    """What the default learner does with rows that arrive.

    ``GATHERING``: it keeps them, and chooses and fits components anew from all rows. ``DECIDED``:
    components are chosen for good; rows are added to their sums, except the last rows, which are
    held out. ``FINISHED``: no more rows are expected; if some arrive, the previous phase resumes.
    """

    GATHERING = "gathering"
    DECIDED = "decided"
    FINISHED = "finished"


class Settings(NamedTuple):
    """Settings of the default learner.

    Attributes
    ----------
    fewest_judges : int, default=500
        If all rows are points, half of them choose weights, but at least so many.
    nested : int, default=200
        Up to so many rows (a group counts as one), choices fit the rows better than new rows, so
        leave-one-out errors are too small. Then all rows choose weights, and intervals use fits
        that each leave some rows out.
    first_rows : int, default=20000
        Rows that are kept and raced on before components are chosen for good.
    held_share, most_held : float and int, default=0.2 and 5000
        Share of the rows held out from the sums to choose ridges and weights, and most such rows.
    waiting : int, default=8192
        Rows beyond ``most_held`` that may wait before they are added to the sums.
    most_pieces : int, default=256
        Number of pieces in which kept rows are stored before the pieces are joined.
    small_file : int, default=2**23
        Sums of at most so many bytes are saved in every file.
    haste, hasty_rows : float and int, default=5.0 and 2500
        If the budget is less than ``haste`` seconds, the race is on ``hasty_rows`` rows only.
    chunk, chunk_bytes : int, default=131072 and 2**26
        Rows learned at a time, or fewer that take so many bytes. Large chunks give each cell about
        a hundred rows at once.
    large_pilots : tuple of (int, int), default=((10**6, 2000), (10**7, 4500))
        Number of rows that are learned elsewhere, from which on the race has pilot fits of so many
        rows: a metric from few rows may drop directions that matter, or keep noise columns.
    most_steps : int, default=48
        Most Newton steps of a pass over rows that are learned elsewhere.
    race : RaceSettings
        Settings of the race.
    allocation : AllocationSettings
        Settings of the sizes of components.
    """

    fewest_judges: int = 500
    nested: int = 200
    first_rows: int = 20_000
    held_share: float = 0.2
    most_held: int = 5000
    waiting: int = 8192
    most_pieces: int = 256
    small_file: int = 2**23
    haste: float = 5.0
    hasty_rows: int = 2500
    chunk: int = 131_072
    chunk_bytes: int = 2**26
    large_pilots: tuple[tuple[int, int], ...] = ((10**6, 2000), (10**7, 4500))
    most_steps: int = MOST_STEPS
    race: RaceSettings = RaceSettings()
    allocation: AllocationSettings = AllocationSettings()

    @property
    def few(self) -> int:
        """Most rows for which all rows are fitted, and each is predicted by a fit to the others."""
        return self.race.small

    def for_many(self, n_rows: int) -> Settings:
        """Return the settings for ``n_rows`` rows that are learned elsewhere."""
        pilots = [size for rows, size in self.large_pilots if n_rows >= rows]
        size = max([self.race.pilot_rows, *pilots])
        return self._replace(race=self.race._replace(pilot_rows=size))
