"""The default: parts that learn by sums, chosen by a race."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.exceptions import InPython
from mercer.expansions.expansion import Expansion
from mercer.validation import check_integer, integer, or_none, parameters, positive, real


def _check_resumable(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")


def _check_block_length(name: str, value: Any) -> None:
    if not isinstance(value, str) or value != "auto":
        found = InPython('Or "auto".', ("Leave it out to have it found.",))
        check_integer(name, value, low=1, mend=found)


class Auto(Expansion):
    r"""Let a race on the first rows choose everything, and learn by second-order sums.

    The function is a weighted sum of parts, :math:`f = \sum_p v_p f_p`, each a kernel expansion:
    some on a thousand points for the whole space and, where there are rows enough, partitions of it
    into cells with an expansion on all of their rows (:class:`mercer.kernels.Partitioned`); and one
    on the leaves of trees (:class:`mercer.maps.Leaves`), for thresholds. A race
    of pilots decides which families of kernels, how inputs are scaled, projected or weighted, and
    the length scales; parts learn by ridge regression; rows that are predicted before they are
    learned choose ridges and weights. Scores of classes are f + b f³, with the b >= 0 that
    calibrates probabilities best. Of other losses of numbers than the squared one (quantiles,
    Huber, counts, ...), and under a risk, the sum is the mean, or scores without the risk, and what
    takes it to the minimum is learned on the rows that chose the weights: a function of the inputs
    and of the mean (:class:`mercer.sums.Correction`). Test data have no part in any of it. Up to
    2,000 rows each part has all of them as its points, and a kernel of another family.

    Memory is bounded, however many rows come: 20,000 rows at first, then sums and the rows of cells
    (``max_memory``; where it ends, sums take the place of these rows), and the last 5,000 to 13,000
    rows. Rows are seen once.

    Parameters
    ----------
    budget_seconds : float or None, default=None
        CPU time to aim at in learning as many rows as are expected, on an ordinary core: smaller
        and fewer parts are taken where all of them would take longer. None for no limit. It
        counts operations, not seconds, so that the result does not depend on the machine's load.
    max_memory : int, default=1073741824
        Bytes for the sums of all parts and the rows that cells keep. However many rows come they
        do not take more: the points of the global parts, the cells of partitions and, of a
        ``Partitioned`` kernel of your own, the points of a cell are limited by it. Points beside
        sums and coefficients come on top, and while solving three more matrices as large as that
        of the largest dictionary.
    forgetting : float, default=1.0
        Factor of the sums for each row that is learned, below 1 for streams that drift. A row
        counts about a third (1/e) of a new one after 1 / (1 - forgetting) further rows.
    refresh : float, default=0.1
        On a stream, predictions go by a new solution once the rows (with ``forgetting``: those
        that still count) have grown by this share. After ``fit`` they go by all rows.
    expected_rows : int or None, default=None
        Rows that a stream will have, if known: cells are then laid out for them, and keep them if
        the memory is enough. ``fit`` knows it.
    resumable : bool, default=False
        Whether a model file holds the sums after ``fit``, too, however large they are, so that
        learning can go on from the file. Files of models that learn from streams always do.
    block_length : int or "auto", default="auto"
        Rows in succession that are held out together when kernels, ridges and weights are
        judged (block cross-validation). 1 for rows in no order; more, up to a fifth of the rows,
        for those of a series, where a row that is held out beside its neighbours is easier to
        predict than rows of the future will be. ``"auto"`` holds out blocks of 50 (fewer where
        there are few rows) if errors on them are a quarter higher than on as many rows drawn at
        random, in the order in which ``fit`` or a stream gets them; single rows else, where there
        are fewer than 200 rows or only one input, and where rows are sorted by a target. Rows of
        weight 0 are none.
    seed : int, default=0
        Of dictionaries, anchors and pilots.

    Raises
    ------
    ValueError
        For values out of range.

    Examples
    --------
    >>> from mercer import KernelRegressor
    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(500, random_state=0)
    >>> model = KernelRegressor().fit(X, y)  # the same as expansion=Auto()
    >>> model.score(*make_friedman1(500, random_state=1)) > 0.97
    True
    >>> any("relevance" in entry["metric"] for entry in model.race_)
    True
    """

    _parameters = parameters(
        budget_seconds=or_none(positive()),
        max_memory=integer(low=2**20, why="In bytes, one MiB at least."),
        forgetting=real(low=0.0, open_low=True, high=1.0),
        refresh=real(low=0.0),
        expected_rows=or_none(integer(low=1)),
        resumable=_check_resumable,
        block_length=_check_block_length,
        seed=integer(low=0),
    )

    def __init__(
        self,
        budget_seconds: float | None = None,
        max_memory: int = 2**30,
        forgetting: float = 1.0,
        refresh: float = 0.1,
        expected_rows: int | None = None,
        resumable: bool = False,
        block_length: int | str = "auto",
        seed: int = 0,
    ) -> None:
        self.budget_seconds = budget_seconds
        self.max_memory = max_memory
        self.forgetting = forgetting
        self.refresh = refresh
        self.expected_rows = expected_rows
        self.resumable = resumable
        self.block_length = block_length
        self.seed = seed
        self._check()

    @property
    def averages(self) -> bool:
        """See :class:`Expansion`: what is solved needs no averaging."""
        return False

    def sized(self, n_rows: int | None, n_outputs: int) -> Auto:
        """See :class:`Expansion`: with the number of rows, if it is known."""
        if n_rows is None or self.expected_rows is not None:
            return self
        return Auto(**{**self.get_params(deep=False), "expected_rows": n_rows})
