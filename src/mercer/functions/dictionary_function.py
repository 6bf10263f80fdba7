"""Functions on a fixed dictionary, whose coefficients are solved for."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer.expansions import KOMP, Dictionary
from mercer.functions.function import Function, dense_rows, precise_rows
from mercer.functions.kernel_expansion import KernelExpansion
from mercer.kernels import Kernel
from mercer.records import FLOATS, Config, Numbers, Part, Record
from mercer.selection import RaceResult, RaceSettings, race, race_point
from mercer.sums import KernelBasis, Rows, choose_centers
from mercer.validation import integer, truth

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

_CHUNK = 2**22  # kernel values in memory at a time
_KOMP_BATCH = 64  # rows per step of matching pursuit


_NUMBERS = Record(n_outputs=integer(low=1), races=truth())
_ARRAYS = Record(
    points=Numbers("n_points", "n_features", dtype=FLOATS),
    coefficients=Numbers("n_points", "n_outputs"),
)
_RACE = Record(
    contest=Part(RaceResult),
    kernel=Config(Kernel, lambda kernel: kernel.is_resolved),
    _raced_at=integer(low=1),
)


class DictionaryFunction(Function):
    """A function with ``n_outputs`` outputs on a fixed dictionary; 0 before the dictionary exists.

    Parameters
    ----------
    kernel, expansion, n_features, n_outputs, averaging
        See :class:`Function`.

    Attributes
    ----------
    basis : KernelBasis or None
        The dictionary.
    coefficients : ndarray of shape (size, n_outputs)
        f(X) = kernel(X, dictionary) @ coefficients.
    races : bool
        Whether a race on the first rows chooses the kernel.
    race_result : RaceResult or None
        Result of that race.
    settings : RaceSettings
        Settings of the race.
    """

    expansion: Dictionary
    settings = RaceSettings()

    def __init__(
        self,
        kernel: Kernel,
        expansion: Dictionary,
        n_features: int,
        n_outputs: int,
        averaging: float | None = None,
    ) -> None:
        super().__init__(kernel, expansion, n_features, n_outputs, averaging)
        self.basis: KernelBasis | None = None
        self.coefficients = np.zeros((0, n_outputs))
        self.races = False
        self.race_result: RaceResult | None = None
        self._raced_at = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of points and kernel values."""
        return self.expansion.dtype

    @property
    def size(self) -> int:
        """Number of points."""
        return 0 if self.basis is None else self.basis.size

    @property
    def dictionary(self) -> Floats:
        """Points, shape (size, n_features)."""
        if self.basis is None:
            return np.empty((0, self.n_features), self.dtype)
        return self.basis.points.copy()

    def rows(self, X: Any) -> Floats:
        """Return rows as a dense array of the points' type; ValueError for values out of range."""
        return dense_rows(X, self.dtype, self.expansion.precision)

    @property
    def largest_size(self) -> int:
        """Largest number of points."""
        return int(self.expansion.size)

    def select_kernel(self, rows: Rows | None, *, chosen: bool) -> None:
        """Choose the kernel that predicts some rows best.

        Parameters
        ----------
        rows : Rows or None
            Rows with targets for a regression; None if there are no such targets.
        chosen : bool
            Whether to race on all rows; otherwise races happen now and then as the number of rows
            grows.
        """
        if rows is None:
            return
        n = len(rows) if chosen else race_point(len(rows))
        if chosen or n > self._raced_at:
            some = rows[:n]
            # Rows are judged by rows of the same set, not by later ones.
            seed = int(self.expansion.seed)
            order = np.random.default_rng(seed).permutation(n)
            self.race_result = race(some[order], None, seed, cells=False, settings=self.settings)
            self.kernel, self._raced_at = self.race_result.kernel, n

    def build_basis(
        self, X: Floats, labels: NDArray[np.int64] | None, *, chosen: bool
    ) -> KernelBasis:
        """Start the function on a dictionary for some rows.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            The rows.
        labels : ndarray of shape (n_rows,) of int or None
            Class numbers, if there are classes.
        chosen : bool
            Whether to choose the points with care; otherwise they are drawn at random.

        Returns
        -------
        basis : KernelBasis
            The dictionary.
        """
        centers = self.expansion.centers if chosen else "uniform"
        return self._begin(self._choose(X, labels, centers))

    def _choose(self, X: Floats, labels: NDArray[np.int64] | None, centers: str) -> Floats:
        """Return points chosen by ``centers``, as in ``Dictionary``."""
        size, seed = int(self.expansion.size), int(self.expansion.seed)
        if centers == "komp":
            return _komp_points(X, size, self.kernel)
        return choose_centers(X, size, centers, labels=labels, kernel=self.kernel, seed=seed)

    def _begin(self, points: Floats) -> KernelBasis:
        self.basis = KernelBasis(self.kernel, np.ascontiguousarray(points, dtype=self.dtype))
        self.coefficients = np.zeros((self.basis.size, self.n_outputs))
        return self.basis

    def set_coefficients(self, coefficients: Array) -> None:
        """Set the coefficients of the present points."""
        # Contiguous, as in files, so that products are equal to the last bit.
        self.coefficients = np.ascontiguousarray(coefficients)

    def evaluate(self, X: Any) -> Array:
        n = X.shape[0]
        values = np.zeros((n, self.n_outputs))
        if self.basis is None:
            return values
        step = max(1, _CHUNK // max(self.size, self.n_features))
        for start in range(0, n, step):
            rows = precise_rows(X[start : start + step], self.dtype, self.expansion.precision)
            values[start : start + step] = self.basis.values(rows, self.coefficients)
        return values

    def map_outputs(self, mixing: Array) -> None:
        self.coefficients = self.coefficients @ mixing
        self.n_outputs = mixing.shape[1]

    def keep_previous(self) -> None:
        """Do nothing: steps keep the previous coefficients by themselves."""

    # -- state ----------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent copy; what both share is never changed in place."""
        return copy.copy(self)

    def snapshot(self) -> dict[str, Any]:
        values = {**vars(self), "points": self.dictionary, "contest": self.race_result}
        state = {"numbers": _NUMBERS.written_of(values), "arrays": _ARRAYS.written_of(values)}
        raced = {} if self.race_result is None else {"race": _RACE.written_of(values)}
        return state | raced

    def restore(self, state: dict[str, Any]) -> None:
        sizes = {"n_features": self.n_features}
        values = _NUMBERS.read(state["numbers"], sizes) | _ARRAYS.read(state["arrays"], sizes)
        points = values.pop("points")
        if points.dtype != self.dtype or len(points) > self.largest_size:
            raise ValueError("The points are none of this dictionary.")
        if "race" in state:
            values |= _RACE.read(state["race"], {})
            self.race_result = values.pop("contest")
        coefficients, self.basis = values.pop("coefficients"), None
        vars(self).update(values)
        if len(points):
            self._begin(points)
        self.set_coefficients(coefficients)


def _komp_points(X: Floats, size: int, kernel: Kernel) -> Floats:
    """Return the rows with which matching pursuit approximates the mean of all kernels."""
    f = KernelExpansion(kernel, KOMP(max_size=size), X.shape[1], 1, np.float64)
    for start in range(0, len(X), _KOMP_BATCH):
        batch = np.asarray(X[start : start + _KOMP_BATCH], dtype=np.float64)
        f.add(batch, np.full((len(batch), 1), 1.0 / len(X)), 0.0)
    return f.dictionary.astype(X.dtype)
