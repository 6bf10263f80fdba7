"""Sizes of what is done in several places."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """Sizes, which the model depends on, as it does not on the number of workers.

    Attributes
    ----------
    sample, sample_bytes, least_sample : int, default=65536, 2**28 and 8192
        Largest number of rows from which a plan is made; fewer if they would exceed so many bytes,
        but at least ``least_sample``. If there are no more rows, the model equals the result of
        ``fit``.
    held, held_share : int and float, default=5000 and 0.2
        Rows that are held back to choose weights by, or a share of all if that is less.
    region_bytes : int, default=2**27
        Bytes of the mapped rows of a region.
    region_rows, shared : int, default=20000 and 64
        Least number of rows of a region; and number of regions of a partition that give workers
        enough to share if there are few rows.
    most_regions : int, default=1024
        Largest number of regions of a partition.
    rows_per_point, pilots : tuple of int and int, default=(5, 20, 80) and 3
        Rows for each point of cells by sums that are tried, and how many regions of each partition
        try.
    judging, most_judging : float and int, default=0.05 and 2000
        Share of the rows of a region that choose its ridge, and their largest number.
    chunk : int, default=65536
        Rows that are encoded and mapped at a time.
    """

    sample: int = 65_536
    sample_bytes: int = 2**28
    least_sample: int = 8192
    held: int = 5000
    held_share: float = 0.2
    region_bytes: int = 2**27
    region_rows: int = 20_000
    shared: int = 64
    most_regions: int = 1024
    rows_per_point: tuple[int, ...] = (5, 20, 80)
    pilots: int = 3
    judging: float = 0.05
    most_judging: int = 2000
    chunk: int = 65_536

    def sample_of(self, n_inputs: int) -> int:
        """Rows of the sample, of rows so wide."""
        few = self.sample_bytes // (8 * max(n_inputs, 1))
        return min(self.sample, max(self.least_sample, few))

    def held_of(self, n_rows: int) -> int:
        """Return the number of held-out rows among ``n_rows``."""
        return min(self.held, int(self.held_share * n_rows), self.sample // 2)

    def regions_of(self, n_rows: int, n_inputs: int) -> int:
        """Regions of a partition, by the rows and their size alone."""
        large = n_rows * 4 * n_inputs // self.region_bytes
        enough = min(self.shared, n_rows // self.region_rows)
        return max(1, min(max(large, enough), self.most_regions))


#: What :func:`mercer_cluster.fit` uses.
DEFAULT = Settings()
