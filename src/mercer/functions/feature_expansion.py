r"""Functions on blocks of random features: :math:`f(x) = \sum_i z_i(x)^T \alpha_i`."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import RandomFeatures
from mercer.features.feature_map import Floats, Prepared
from mercer.functions.feature_blocks import FeatureBlocks, blocks_of
from mercer.functions.function import Function, dense_rows, precise_rows
from mercer.kernels import Kernel
from mercer.numerics.dense import covariance_of, solve_ridge
from mercer.records import FLOATS, IfAny, Numbers, Record, Several, State
from mercer.validation import integer, positive, real

Array = NDArray[np.float64]

# Rows evaluated at once, which limits the memory of prepared rows.
_CHUNK = 8192
# The common factor is multiplied into the coefficients when it falls below this.
_SMALL = 1e-6
# A factor below this is the rounding of 0.
_ROUNDING = 1e-15
# Number of blocks visited in turn, if the expansion leaves it open.
_MAX_BLOCKS = 16


_NUMBERS = Record(
    scale=positive(),
    n_steps=integer(low=0),
    total=real(),
    weight=real(low=0.0),
    best=integer(low=0),
    n_outputs=integer(low=1),
    ridges=Several(real()),
    last=IfAny(State()),
)
_ARRAYS = Record(
    blocks=Numbers("n_blocks", "block_size", "n_columns", dtype=FLOATS),
    before=Numbers("n_blocks"),
    last=IfAny(Numbers("block_size", "n_columns", dtype=FLOATS)),
)
_LAST = Record(factor=positive(), block=integer(low=0))


class Update(NamedTuple):
    """What a step did to the function: f became factor * f @ mixing + z_block @ coefficients."""

    factor: float
    block: int
    coefficients: Floats
    mixing: Array | None = None


class BlockBasis:
    """Random features of block 0; the squared norm of a function is that of its coefficients.

    Parameters
    ----------
    blocks : FeatureBlocks
        Source of the features.
    """

    def __init__(self, blocks: FeatureBlocks) -> None:
        self._blocks = blocks

    def __eq__(self, other: object) -> bool:
        """Whether the features are the same."""
        return isinstance(other, BlockBasis) and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    @property
    def size(self) -> int:
        """Number of features."""
        return self._blocks.block_size

    def features(self, X: Any) -> Any:
        """Features of rows, shape (n, size)."""
        return self._blocks.of(self._blocks.prepare(X))

    def penalty(self) -> None:
        """None, which stands for the identity matrix."""
        return


class FeatureExpansion(Function):
    """A function with ``n_outputs`` outputs on blocks of random features.

    Several candidates, each with its own ridge, may be learned on the same features; ``best`` is
    the candidate that is evaluated.

    Parameters
    ----------
    kernel, expansion, n_features, n_outputs, averaging
        See :class:`Function`; the expansion has a block size.

    Attributes
    ----------
    features : FeatureBlocks
        Source of the features.
    n_candidates : int
        Number of candidates.
    ridges : tuple of float
        Ridge of each candidate; empty if the regularization is the ridge.
    keeps_previous : bool
        Whether :meth:`previous` is available; see :meth:`keep_previous`.
    last : Update or None
        What the last step did, if it is kept.
    """

    expansion: RandomFeatures

    def __init__(
        self,
        kernel: Kernel,
        expansion: RandomFeatures,
        n_features: int,
        n_outputs: int,
        averaging: float | None = None,
    ) -> None:
        super().__init__(kernel, expansion, n_features, n_outputs, averaging)
        self.features = blocks_of(expansion, kernel, n_features)
        self.block_size = self.features.block_size
        # If equations are solved, the learner chooses among ridges.
        self.ridges = () if expansion.mode == "solve" else expansion.ridges()
        self.best = 0
        self.blocks: list[Floats] = []
        self.before: list[float] = []
        self.scale, self.n_steps, self.total, self.weight = 1.0, 0, 0.0, 0.0
        self.keeps_previous = False
        self.last: Update | None = None

    # -- the function ---------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of features and coefficients."""
        return self.expansion.dtype

    @property
    def size(self) -> int:
        """Number of random features."""
        return len(self.blocks) * self.block_size

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return max(1, len(self.ridges))

    def coefficients_of(self, block: int) -> Floats:
        """Return the iterate's coefficients of a block, (block_size, n_candidates * n_outputs)."""
        coefficients: Floats = self.blocks[block] * self.dtype.type(self.scale)
        return coefficients

    def _result(self, block: int) -> tuple[Floats, float]:
        """Return a block's coefficients, (block_size, n_outputs), and their factor.

        Uses the best candidate, and its average if averaging is on.
        """
        own = slice(self.best * self.n_outputs, (self.best + 1) * self.n_outputs)
        factor = self.scale
        if self.averaging is not None:
            factor = (self.total - self.before[block]) / self.weight
        return self.blocks[block][:, own], factor

    @property
    def coefficients(self) -> Array:
        """Coefficients of all features, shape (size, n_outputs)."""
        if not self.blocks:
            return np.zeros((0, self.n_outputs))
        results = [self._result(i) for i in range(len(self.blocks))]
        return np.vstack([part * factor for part, factor in results], dtype=np.float64)

    def rows(self, X: Any) -> Floats:
        """Return rows as a dense array of the features' type; ValueError for overflowing values."""
        return dense_rows(X, self.dtype, self.expansion.precision)

    def prepare(self, X: Any) -> Prepared:
        """Prepare rows for the feature map.

        Raises
        ------
        ValueError
            If a value exceeds the range of the type, or a row is outside the kernel's domain.
        """
        return self.features.prepare(self.rows(X))

    def random_features(self, X: Any) -> Floats:
        """Return features of rows, shape (n, size): f(X) = random_features(X) @ coefficients."""
        return self.features.of_first(len(self.blocks), self.prepare(X))

    def evaluate(self, X: Any) -> Array:
        values = np.zeros((X.shape[0], self.n_outputs))
        features = self.features.precise

        def part_of(block: int) -> tuple[Floats, float]:
            coefficients, factor = self._result(block)
            return coefficients.astype(np.float64, copy=False), factor

        for start in range(0, X.shape[0], _CHUNK):
            rows = slice(start, start + _CHUNK)
            some = precise_rows(X[rows], self.dtype, self.expansion.precision)
            prepared = features.prepare(some)
            features.add_first(len(self.blocks), prepared, part_of, values[rows])
        if not np.isfinite(values).all():
            at = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise ValueError(
                f"f is not finite at row {at}: its random features of {self.kernel!r} overflow in "
                f"{features.dtype}. Rescale the inputs, for example with "
                "sklearn.preprocessing.StandardScaler."
            )
        return values

    def current(self, prepared: Prepared) -> Array:
        """Return values of the iterates of all candidates, (n, n_candidates * n_outputs)."""
        n = prepared[0].shape[0]
        values = np.zeros((n, self.n_candidates * self.n_outputs))
        self.features.add_first(
            len(self.blocks), prepared, lambda block: (self.blocks[block], self.scale), values
        )
        return values

    def apply(self, update: Update, prepared: Prepared, values: Array) -> None:
        """Update values in place: from those before a step to those after it."""
        if update.factor != 1.0:
            values *= update.factor
        if update.mixing is not None:
            values[:] = values @ update.mixing
        self.features.add(prepared, update.block, update.coefficients, values)

    # -- the function before the last step ------------------------------------------------------

    def keep_previous(self) -> None:
        """Start to remember the previous function, for :meth:`previous`."""
        self.keeps_previous = True

    def previous(self, prepared: Prepared, values: Array) -> Array:
        """Return values of the iterates before the last step, computed from those after it.

        Parameters
        ----------
        prepared : tuple of ndarray
            The points.
        values : ndarray of shape (n, n_candidates * n_outputs)
            Values of the iterates, from :meth:`current` or updated by :meth:`apply`. Their rounding
            errors are multiplied by ``1 / factor`` if the step shrank f by ``factor``.

        Returns
        -------
        values : ndarray of shape (n, n_candidates * n_outputs)
            A new array; the argument is not changed.

        Raises
        ------
        ValueError
            If the last step is not kept.
        """
        if not self.keeps_previous:
            raise ValueError(
                "The function before the last step is not there: it is kept only after "
                "`keep_previous()`. Call it before the steps."
            )
        before = values.copy()
        if self.last is None:
            return before
        self.features.add(prepared, self.last.block, self.last.coefficients, before, -1.0)
        if self.last.factor != 1.0:
            before /= self.last.factor
        return before

    # -- one step -------------------------------------------------------------------------------

    def step(
        self,
        prepared: Prepared,
        slopes: Array,
        step_size: float,
        regularization: float,
        weights: Array | None = None,
        curvature: float = 1.0,
        mixing: Array | None = None,
    ) -> Update:
        """Move the function against the slopes of some points.

        Parameters
        ----------
        prepared : tuple of ndarray
            The points.
        slopes : ndarray of shape (n, n_candidates * n_outputs)
            Derivatives of the objective in the values at the points.
        step_size : float
            Step size.
        regularization : float
            Ridge parameter of the objective.
        weights : ndarray of shape (n,), default=None
            Weights of the points in the objective; None means 1.
        curvature : float, default=1.0
            Bound of the loss's curvature, for cyclic mode.
        mixing : ndarray of shape (n_outputs, n_outputs), default=None
            How a step mixes the outputs; None shrinks them by the regularization. Not for cyclic
            mode, and not with averaging.

        Returns
        -------
        update : Update
            Argument for :meth:`apply`.
        """
        gradient, covariance = self.asked(prepared, slopes, weights)
        return self.move(gradient, covariance, step_size, regularization, curvature, mixing)

    def asked(
        self, prepared: Prepared, slopes: Array, weights: Array | None = None
    ) -> tuple[Array, Array | None]:
        """Return what the next step needs from its points.

        Parameters
        ----------
        prepared, slopes, weights
            As for :meth:`step`.

        Returns
        -------
        gradient : ndarray of shape (block_size, n_candidates * n_outputs)
            Gradient in the coefficients of the step's block.
        covariance : ndarray of shape (block_size, block_size) or None
            Lower triangle of the covariance of the block's features; None if the mode does not need
            it.
        """
        Z = self.features.of(prepared, self._block_of_step()[0])
        gradient = (Z.T @ slopes.astype(self.dtype)).astype(np.float64)
        faithful = self.expansion.mode == "faithful"
        return gradient, None if faithful else covariance_of(Z, weights)

    def move(
        self,
        gradient: Array,
        covariance: Array | None,
        step_size: float,
        regularization: float,
        curvature: float = 1.0,
        mixing: Array | None = None,
    ) -> Update:
        """Move the function against a gradient.

        Parameters
        ----------
        gradient, covariance
            Results of :meth:`asked`.
        step_size, regularization, curvature, mixing
            As for :meth:`step`.

        Returns
        -------
        update : Update
            Argument for :meth:`apply`.
        """
        mode = self.expansion.mode
        block, n_blocks = self._block_of_step()
        self.n_steps += 1
        if mode == "cyclic":
            assert covariance is not None
            hessian = curvature * covariance
            change = self._cyclic_step(block, hessian, gradient, n_blocks, regularization)
            update = Update(1.0, block, (step_size * change).astype(self.dtype))
            while len(self.blocks) <= block:
                self.blocks.append(np.zeros_like(update.coefficients))
                self.before.append(self.total)
            self.blocks[block] = self.blocks[block] + update.coefficients
        else:
            if mode == "newton":
                assert covariance is not None
                gradient = self._newton_direction(covariance, gradient)
            factor = 1.0 - step_size * regularization if mixing is None else 1.0
            if abs(factor) < _ROUNDING:
                factor = 0.0
            whole: Array | None = None
            if mixing is not None:
                whole = np.kron(np.eye(self.n_candidates), mixing).astype(np.float64)
            update = Update(factor, block, (-step_size * gradient).astype(self.dtype), whole)
            self._shrink(factor)
            if whole is not None:
                self.blocks = [old @ whole.astype(self.dtype) for old in self.blocks]
            self.blocks.append(update.coefficients / self.dtype.type(self.scale))
            self.before.append(self.total)
        if self.averaging is not None:
            weight = float(self.n_steps) ** self.averaging
            self.total += weight * self.scale
            self.weight += weight
        if self.keeps_previous:
            self.last = update
        return update

    def _block_of_step(self) -> tuple[int, int]:
        """Return the block of the next step, and the number of blocks that share the penalty."""
        step, expansion = self.n_steps, self.expansion
        if expansion.mode != "cyclic":
            return len(self.blocks), 1
        most = expansion.max_blocks or _MAX_BLOCKS
        if expansion.growth == "block":
            return (step, step + 1) if step < most else (step % most, most)
        n_blocks = most
        if expansion.growth == "doubling":
            n_blocks = 1
            while n_blocks < most and step >= 2 * n_blocks:
                step -= 2 * n_blocks
                n_blocks = min(2 * n_blocks, most)
        return step % n_blocks, n_blocks

    def _newton_direction(self, covariance: Array, gradient: Array) -> Array:
        """Precondition the gradient by the block's covariance plus each candidate's ridge."""
        parts = np.split(gradient, self.n_candidates, axis=1)
        pairs = zip(self.ridges, parts, strict=True)
        return np.hstack([solve_ridge(covariance, ridge, part) for ridge, part in pairs])

    def _cyclic_step(
        self, block: int, hessian: Array, gradient: Array, n_blocks: int, regularization: float
    ) -> Array:
        """Step in the coefficients of one block: block coordinate descent on the objective."""
        n_outputs, changes = self.n_outputs, []
        old = self.blocks[block].astype(np.float64) if block < len(self.blocks) else None
        for candidate in range(self.n_candidates):
            own = slice(candidate * n_outputs, (candidate + 1) * n_outputs)
            ridge = n_blocks * (self.ridges[candidate] if self.ridges else regularization)
            downhill = -gradient[:, own] if old is None else -gradient[:, own] - ridge * old[:, own]
            changes.append(solve_ridge(hessian, ridge, downhill))
        return np.hstack(changes)

    def _shrink(self, factor: float) -> None:
        """Multiply the function by ``factor`` in O(1); averages start anew after a factor of 0."""
        if factor == 0.0:
            self.blocks = [np.zeros_like(block) for block in self.blocks]
            self.before = [0.0] * len(self.blocks)
            self.scale, self.total, self.weight = 1.0, 0.0, 0.0
            return
        self.scale *= factor
        if self.scale < _SMALL:
            self.blocks = [self.coefficients_of(i) for i in range(len(self.blocks))]
            self.before = [q / self.scale for q in self.before]
            self.total /= self.scale
            self.scale = 1.0

    # -- one block for good -----------------------------------------------------------------------

    @property
    def largest_size(self) -> int:
        """Number of features of the one block of solve mode."""
        return self.block_size

    @property
    def basis(self) -> BlockBasis:
        """Features of the one block of solve mode."""
        return BlockBasis(self.features)

    def build_basis(self, X: Floats, labels: Any, *, chosen: bool) -> BlockBasis:
        """Restart in solve mode; the features do not depend on the rows."""
        self.blocks, self.before = [], []
        return self.basis

    def set_coefficients(self, coefficients: Array) -> None:
        """Set the coefficients of the one block of solve mode."""
        self.blocks, self.before = [np.ascontiguousarray(coefficients, self.dtype)], [0.0]
        self.n_steps = 1

    # -- candidates and outputs -----------------------------------------------------------------

    def keep(self, candidate: int) -> None:
        """Drop all candidates except one."""
        own = slice(candidate * self.n_outputs, (candidate + 1) * self.n_outputs)
        self.blocks = [np.ascontiguousarray(block[:, own]) for block in self.blocks]
        if self.last is not None:
            own_part = np.ascontiguousarray(self.last.coefficients[:, own])
            self.last = self.last._replace(coefficients=own_part)
        self.ridges = self.ridges[candidate : candidate + 1]
        self.best = 0

    def map_outputs(self, mixing: Array) -> None:
        whole = np.kron(np.eye(self.n_candidates), mixing).astype(self.dtype)
        self.blocks = [block @ whole for block in self.blocks]
        if self.last is not None:
            self.last = self.last._replace(coefficients=self.last.coefficients @ whole)
        self.n_outputs = mixing.shape[1]

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent copy; what both share is never changed in place."""
        other = copy.copy(self)
        other.blocks, other.before = list(self.blocks), list(self.before)
        return other

    def snapshot(self) -> dict[str, Any]:
        shape = len(self.blocks), self.block_size, self.n_candidates * self.n_outputs
        stacked = np.stack(self.blocks) if self.blocks else np.zeros(shape, self.dtype)
        last, coefficients = None, None
        if self.last is not None:
            last, coefficients = _LAST.written(self.last), self.last.coefficients
        return {
            "numbers": _NUMBERS.written_of({**vars(self), "last": last}),
            "arrays": _ARRAYS.written_of({**vars(self), "blocks": stacked, "last": coefficients}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        values = _NUMBERS.read(state["numbers"], {})
        step, n_candidates = values.pop("last"), max(1, len(values["ridges"]))
        sizes = {"block_size": self.block_size, "n_columns": n_candidates * values["n_outputs"]}
        values |= _ARRAYS.read(state["arrays"], sizes)
        blocks, before, coefficients = (values.pop(name) for name in ("blocks", "before", "last"))
        if (
            not set(values["ridges"]) <= set(self.expansion.ridges())
            or blocks.dtype != self.dtype
            or values["best"] >= n_candidates
            or len(blocks) > values["n_steps"]
        ):
            raise ValueError("The arrays of the random-feature expansion do not fit together.")
        last = None
        if step is not None:
            last = Update(**_LAST.read(step, {}), coefficients=coefficients)
            if (
                coefficients is None
                or coefficients.dtype != self.dtype
                or last.block >= len(blocks)
            ):
                raise ValueError("The last step does not fit the random-feature expansion.")
        vars(self).update(values, blocks=list(blocks), before=before.tolist(), last=last)
        self.keeps_previous = self.keeps_previous or last is not None
