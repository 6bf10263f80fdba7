"""Random features that grow with the stream and are redrawn from seeds, never stored (DSG)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from mercer.expansions.dictionary import RIDGES as SOLVED_RIDGES
from mercer.expansions.dictionary import n_first_rows
from mercer.expansions.expansion import Expansion
from mercer.features import DESIGNS, FeatureOptions
from mercer.validation import (
    check_choice,
    check_integer,
    check_real,
    choice,
    integer,
    parameters,
)

MODES = ("newton", "faithful", "cyclic", "solve")
GROWTHS = ("auto", "block", "doubling", "fixed")
#: Ridges compared in newton mode: no single one suits all data.
RIDGES = (3e-2, 1e-2, 1e-3, 1e-4, 1e-5)
_MOST_BLOCKS = 2**32
# Limits of the automatic block size.
_SMALLEST, _LARGEST = 128, 1024
_ROWS_UNKNOWN_BLOCK = 256


class Plan(NamedTuple):
    """Sizes of a run of learning.

    Attributes
    ----------
    block_size : int
        Features per block.
    rows_per_step : int
        Rows per step; each step draws one block.
    n_passes : int
        Passes over the rows of ``fit``.
    """

    block_size: int
    rows_per_step: int
    n_passes: int


def _check_block_size(name: str, value: Any) -> None:
    if value != "auto":
        check_integer(name, value, low=1, high=2**24)


def _check_blocks_of_mode(features: RandomFeatures) -> None:
    mode, growth, most = features.mode, features.growth, features.max_blocks
    if mode != "cyclic":
        if growth not in ("auto", "block"):
            raise ValueError(
                f"`growth={growth!r}` is for mode 'cyclic', which visits blocks again: in "
                f"mode {mode!r} every step draws a block. Use growth='block'."
            )
        if most is not None:
            raise ValueError(
                f"`max_blocks` is for mode 'cyclic', got max_blocks={most!r} with "
                f"mode {mode!r}, where every step draws a block. Leave it out."
            )
    elif most is not None:
        check_integer("max_blocks", most, low=1, high=_MOST_BLOCKS)


def _check_ridge_of_mode(features: RandomFeatures) -> None:
    ridge = features.ridge
    if isinstance(ridge, str):
        check_choice("ridge", ridge, ("auto",))
        return
    if features.mode == "faithful":
        raise ValueError(
            f"`ridge` is for the modes 'newton', 'cyclic' and 'solve', got {ridge!r} "
            "with mode 'faithful'. Leave it out; `regularization` is its ridge parameter."
        )
    if np.size(ridge) == 0 or np.ndim(ridge) > 1:
        raise ValueError(f"`ridge` must be a number or some numbers, got {ridge!r}.")
    for value in np.atleast_1d(np.asarray(ridge, dtype=object)).tolist():
        check_real("ridge", value, low=0.0, open_low=True)


class RandomFeatures(Expansion):
    r"""Represent f by coefficients of random features, drawn in blocks from a seed.

    Each step draws a new block of features, fits coefficients on it to the rows of the step, and
    keeps only these coefficients. The features are a function of (seed, block number) and are
    recomputed when f is evaluated. So f needs ``block_size * n_outputs`` numbers per step, for any
    number of inputs, and the number of features need not be chosen in advance.

    Parameters
    ----------
    block_size : int or "auto", default=256
        Features per block. "auto" depends on the number of rows of ``fit``: 1,024 from 51,200 rows
        on, fewer below, but at least 128 (256 for several outputs).
    mode : {"newton", "faithful", "cyclic", "solve"}, default="newton"
        ``"newton"``: fit the block by regularised least squares to the step's slopes. Learns
        fastest by far, but is biased towards another norm: for prediction.
        ``"faithful"``: the paper's gradient step, which converges to the minimiser of the
        regularised objective: for Gaussian processes, quantile levels, density ratios, novelty.
        ``"cyclic"``: visit the blocks in turn, each with a Newton step in its coefficients on the
        regularised objective. Converges to the minimiser over the existing features; a prediction
        costs at most ``max_blocks * block_size`` features.
        ``"solve"``: one fixed block, on which a squared loss is solved for from sums over all rows,
        and other objectives take Newton steps, as with :class:`mercer.expansions.Dictionary`.
        The features' kernel is the approximate one.
    growth : {"auto", "block", "doubling", "fixed"}, default="auto"
        ``"block"``: one more block every step (in cyclic mode up to ``max_blocks``).
        ``"doubling"``: twice the blocks after all were visited twice (cyclic). ``"fixed"``: all
        ``max_blocks`` from the start (cyclic). ``"auto"`` is "fixed" in cyclic mode, else "block".
    max_blocks : int or None, default=None
        Largest number of blocks in cyclic mode; None means 16.
    ridge : float, sequence of float or "auto", default="auto"
        Newton mode: what is added to the block's covariance, whose eigenvalues sum to 1. With
        several values, one model per value is learned on the same features, at a tenth of the cost
        each, and the best on held-out rows is kept; runs of several passes hold rows out for this.
        "auto" compares 3e-2, 1e-2, 1e-3, 1e-4 and 1e-5. Cyclic mode: several values are compared in
        place of ``regularization``. Solve mode: the ridge of the objective; "auto" is 1e-2, 1e-3,
        ..., 1e-8, and the best on the last rows is used.
    design : {"auto", "iid", "orthogonal", "hadamard", "sobol"}, default="auto"
        How frequencies are drawn: independently; orthogonal to each other; by fast Hadamard
        transforms (up to ten times faster with many inputs); from a Sobol sequence (far more
        accurate with few inputs). "auto" chooses by the number of inputs.
    paired : bool, default=True
        Use the cosine and sine of every frequency instead of one cosine with a random phase: more
        accurate, with half the projections.
    precision : {"single", "double"}, default="single"
        Precision of features and coefficients; equations are solved in double precision.
    cache_bytes : int, default=268435456
        Memory for the random numbers of blocks; beyond it they are redrawn when needed.
    min_steps : int, default=100
        ``fit`` repeats its rows beyond the estimator's ``n_passes`` until this many steps are made;
        not in the modes ``"faithful"`` and ``"solve"``.
    seed : int, default=0
        Seed for the features. The same seed gives the same features everywhere.

    Raises
    ------
    ValueError
        For values out of range, and for a growth that the mode does not support.

    References
    ----------
    DSG, Algorithms 1 and 2; the preconditioning of newton mode is mentioned below eq. (7).

    Examples
    --------
    >>> from mercer import KernelClassifier
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = KernelClassifier(expansion=RandomFeatures(block_size=64)).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _parameters = parameters(
        block_size=_check_block_size,
        mode=choice(*MODES),
        growth=choice(*GROWTHS),
        design=choice(*DESIGNS),
        precision=choice("single", "double"),
        paired=choice(True, False),
        cache_bytes=integer(low=0),
        min_steps=integer(low=0),
        seed=integer(low=0, high=2**64 - 1),
    )
    _relations = (_check_blocks_of_mode, _check_ridge_of_mode)

    def __init__(
        self,
        block_size: int | Literal["auto"] = 256,
        mode: str = "newton",
        growth: str = "auto",
        max_blocks: int | None = None,
        ridge: float | Sequence[float] | str = "auto",
        design: str = "auto",
        paired: bool = True,
        precision: str = "single",
        cache_bytes: int = 2**28,
        min_steps: int = 100,
        seed: int = 0,
    ) -> None:
        self.block_size = block_size
        self.mode = mode
        self.growth = growth
        self.max_blocks = max_blocks
        self.ridge = ridge
        self.design = design
        self.paired = paired
        self.precision = precision
        self.cache_bytes = cache_bytes
        self.min_steps = min_steps
        self.seed = seed
        self._check()

    def ridges(self) -> tuple[float, ...]:
        """Ridges to compare; empty if the objective's regularization is the ridge."""
        automatic = {"newton": RIDGES, "solve": SOLVED_RIDGES}
        if isinstance(self.ridge, str):
            return automatic.get(self.mode, ())
        return tuple(np.atleast_1d(np.asarray(self.ridge, dtype=np.float64)).tolist())

    @property
    def n_first_rows(self) -> int:
        """Rows kept in solve mode until learning begins; the block size must be a number."""
        return n_first_rows(int(self.block_size))

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: only for plain gradient steps."""
        return self.mode == "faithful"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of features and coefficients."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    @property
    def options(self) -> FeatureOptions:
        """Options for drawing features."""
        return FeatureOptions(bool(self.paired), self.design)

    def plan(
        self,
        batch_size: int,
        n_passes: int = 1,
        n_rows: int | None = None,
        n_outputs: int = 1,
    ) -> Plan:
        """Return the sizes of a run.

        In faithful mode a step is a batch of the estimator. The other modes fit a block to the rows
        of a step, which needs at least as many rows as features; smaller batches are collected.

        Parameters
        ----------
        batch_size, n_passes : int
            Settings of the estimator.
        n_rows : int or None, default=None
            Rows per pass; None for a stream. ``fit`` makes one more pass if whole batches, or
            held-out rows, need it.
        n_outputs : int, default=1
            Number of outputs of f.
        """
        m = self._block_size(n_rows, n_outputs)
        if self.mode in ("faithful", "solve"):
            return Plan(m, batch_size, n_passes)
        # A revisited block carries the noise of its earlier batches.
        times = 8 if self.mode == "cyclic" else 4 if n_outputs > 1 else 2 if m < _LARGEST else 1
        rows = max(batch_size, times * m)
        steps = 1 if n_rows is None else max(1, round(n_rows / rows))
        return Plan(m, rows, max(n_passes, -(-self.min_steps // steps)))

    def _block_size(self, n_rows: int | None, n_outputs: int) -> int:
        """Return the features per block; "auto" depends on the number of rows."""
        if not isinstance(self.block_size, str):
            return int(self.block_size)
        if n_rows is None:
            return _ROWS_UNKNOWN_BLOCK
        wanted, smallest = n_rows / 50.0, _SMALLEST if n_outputs == 1 else 2 * _SMALLEST
        return int(min(max(2 ** int(np.log2(max(wanted, 1.0))), smallest), _LARGEST))

    def sized(self, n_rows: int | None, n_outputs: int) -> RandomFeatures:
        """Return this expansion with the block size as a number."""
        block_size = self._block_size(n_rows, n_outputs)
        return RandomFeatures(**{**self.get_params(deep=False), "block_size": block_size})
