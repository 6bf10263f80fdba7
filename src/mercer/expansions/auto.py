"""The default expansion: a sum of parts that learn by sums over rows, chosen by a race."""

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
    r"""Choose everything by a race on the first rows, and learn by second-order sums.

    The function is a weighted sum of parts, :math:`f = \sum_p v_p f_p`, each a kernel expansion.
    Some parts have a thousand points for the whole space. With enough rows there are also
    partitions of the space into cells, each cell with an expansion on all of its rows
    (:class:`mercer.kernels.Partitioned`). One part is on the leaves of trees
    (:class:`mercer.maps.Leaves`), for thresholds. A race of pilot fits chooses the families of
    kernels, the scaling, projection or weighting of the inputs, and the length scales. Parts learn
    by ridge regression. Rows that are predicted before they are learned choose ridges and weights.
    Scores of classes are f + b f³, with the b >= 0 that calibrates probabilities best. For other
    losses than the squared one in regression (quantiles, Huber, counts, ...), and under a risk, the
    sum estimates the mean, or the scores without the risk. A function of the inputs and of this sum
    (:class:`mercer.sums.Correction`), learned on the rows that chose the weights, turns it into the
    minimiser. Test data are never used. With up to 2,000 rows, each part has all rows as its
    points, and each has a kernel of another family.

    Memory is bounded, however many rows come: the first 20,000 rows, then sums and the rows of
    cells (``max_memory``; beyond it, sums replace the rows of cells), and the last 5,000 to 13,000
    rows. Rows are seen once.

    Parameters
    ----------
    budget_seconds : float or None, default=None
        CPU time to aim at, on an ordinary core, for learning the expected rows: smaller and fewer
        parts are used if all parts would take longer. None for no limit. Operations are counted,
        not seconds, so the result does not depend on the machine's load.
    max_memory : int, default=1073741824
        Bytes for the sums of all parts and for the rows that cells keep. It limits the points of
        the global parts, the cells of partitions and, for a ``Partitioned`` kernel of your own, the
        points of a cell. Points beside sums and coefficients come on top. So do, while solving,
        three more matrices as large as the matrix of the largest dictionary.
    forgetting : float, default=1.0
        Factor of the sums for each learned row, below 1 for streams that drift. A row counts about
        a third (1/e) of a new one after 1 / (1 - forgetting) further rows.
    refresh : float, default=0.1
        On a stream, predictions use a new solution once the number of rows has grown by this share
        (with ``forgetting``: the number of rows that still count). After ``fit`` they use all rows.
    expected_rows : int or None, default=None
        Number of rows of a stream, if known: cells are then laid out for that many rows, which they
        keep if memory allows. ``fit`` knows the number.
    resumable : bool, default=False
        Whether a model file holds the sums after ``fit``, however large they are, so that learning
        can continue from the file. Files of models that learn from streams always do.
    block_length : int or "auto", default="auto"
        Number of consecutive rows held out together when kernels, ridges and weights are judged
        (block cross-validation). 1 is for rows in no order. More, up to a fifth of the rows, is for
        time series: a row held out beside its neighbours is easier to predict than future rows.
        ``"auto"`` compares errors on blocks of 50 rows (fewer if there are few rows), in the order
        of arrival, with errors on as many random rows. It holds out blocks if their errors are a
        quarter higher, otherwise single rows. It also holds out single rows with fewer than 200
        rows, with only one input, or if rows are sorted by a target. Rows of weight 0 do not count.
    seed : int, default=0
        Seed for dictionaries, anchors and pilots.

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
        """False: a solution of equations needs no averaging."""
        return False

    def sized(self, n_rows: int | None, n_outputs: int) -> Auto:
        """Return this expansion with the number of rows filled in, if it is known."""
        if n_rows is None or self.expected_rows is not None:
            return self
        return Auto(**{**self.get_params(deep=False), "expected_rows": n_rows})
