"""Sizes of the default learner, and the phases that it goes through."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from mercer.default.allocate import AllocationSettings
from mercer.learning.elsewhere import MOST_STEPS
from mercer.selection import RaceSettings

#: More rows judge where they also tell what takes the mean to the minimum of a loss.
CORRECTING: Any = {"fewest_judges": 2000, "held_share": 0.25}


class Phase(Enum):
    """What happens to rows that come.

    ``GATHERING``: they are kept, and components are chosen and fitted anew from all. ``DECIDED``:
    components are chosen for good, and rows are added to their sums but for the last ones, which
    judge. ``FINISHED``: none are expected; if some come, it goes on where it was.
    """

    GATHERING = "gathering"
    DECIDED = "decided"
    FINISHED = "finished"


class Settings(NamedTuple):
    """Sizes of the default learner.

    Attributes
    ----------
    fewest_judges : int, default=500
        Of rows that are all points: half of them judge, or so many.
    nested : int, default=200
        Rows, those of a group counted once, from which those left out tell how large errors of new
        ones are. What is chosen by fewer fits them better than rows to come, so all of them judge,
        and intervals ask fits that lack some of them.
    first_rows : int, default=20000
        Rows that are gathered and raced on before components are decided upon.
    held_share, most_held : float and int, default=0.2 and 5000
        Rows kept back from the sums to choose ridges and weights by: a part of all rows, up to so
        many.
    waiting : int, default=8192
        Rows that wait beyond those before they are added to the sums.
    most_pieces : int, default=256
        Pieces in which rows are kept before they are joined.
    small_file : int, default=2**23
        Sums up to so many bytes are in every file.
    haste, hasty_rows : float and int, default=5.0 and 2500
        A budget of fewer seconds has the race on so few rows.
    chunk, chunk_bytes : int, default=131072 and 2**26
        Rows learned at a time, or fewer that take so many bytes: each cell gets some hundred of
        them together.
    large_pilots : tuple of (int, int), default=((10**6, 2000), (10**7, 4500))
        Rows that are learned elsewhere, and rows of the pilots of their race: a metric of few rows
        may project away what many rows would tell, or keep columns that are noise.
    most_steps : int, default=48
        Newton steps of a pass over rows that are learned elsewhere.
    race : RaceSettings
        Of the race.
    allocation : AllocationSettings
        Of the sizes of components.
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
        """Rows up to which fits are to all of them, which judge each other."""
        return self.race.small

    def for_many(self, n_rows: int) -> Settings:
        """Return the settings for so many rows that are learned elsewhere."""
        pilots = [size for rows, size in self.large_pilots if n_rows >= rows]
        size = max([self.race.pilot_rows, *pilots])
        return self._replace(race=self.race._replace(pilot_rows=size))
