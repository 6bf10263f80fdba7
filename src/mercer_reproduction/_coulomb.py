"""Coulomb matrices of molecules as rows for learning (DSG, Figure 8 and its reference [30])."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer_reproduction._data_files import load_arrays

Rows = NDArray[np.float32]
Array = NDArray[np.float64]

_SAMPLE = 20_000  # rows that tell the mean and spread of predicates


class Molecules(NamedTuple):
    """Molecules and their energies.

    Attributes
    ----------
    matrices : ndarray of shape (n_molecules, n_atoms, n_atoms)
        Coulomb matrices in atomic units, filled up with zeros; atoms in any order.
    energies : ndarray of shape (n_molecules,)
        Atomisation energies in kcal/mol.
    fold : ndarray of shape (n_molecules,)
        Number of the part, 0 to 4, that a molecule belongs to.
    """

    matrices: Rows
    energies: Array
    fold: NDArray[np.int8]

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Molecules:
        """Keep some of the molecules."""
        return Molecules(self.matrices[chosen], self.energies[chosen], self.fold[chosen])


def load_qm7(directory: Path) -> Molecules:
    """Read ``qm7_7101.npz`` (:data:`mercer_reproduction.DATA_FILES`)."""
    arrays = load_arrays("qm7_7101.npz", directory)
    return Molecules(arrays["X"].astype(np.float32), arrays["T"].astype(np.float64), arrays["fold"])


def sorted_rows(matrices: Rows) -> Rows:
    """Upper triangles with the atoms in the order of the norms of their rows, largest first.

    Parameters
    ----------
    matrices : ndarray of shape (n_molecules, n_atoms, n_atoms)
        Coulomb matrices.

    Returns
    -------
    rows : ndarray of shape (n_molecules, n_atoms * (n_atoms + 1) / 2)
        One row for each molecule, whatever the order in which its atoms were given.

    Examples
    --------
    >>> sorted_rows(np.array([[[1.0, 2.0], [2.0, 9.0]]], np.float32))
    array([[9., 2., 1.]], dtype=float32)
    """
    return _reordered(matrices, np.argsort(-_norms(matrices), axis=1, kind="stable"))


def random_rows(matrices: Rows, n_draws: int, rng: np.random.Generator, noise: float = 1.0) -> Rows:
    """Upper triangles with the atoms in random orders: sorted by noisy norms.

    Parameters
    ----------
    matrices : ndarray of shape (n_molecules, n_atoms, n_atoms)
        Coulomb matrices.
    n_draws : int
        Orders for each molecule.
    rng : Generator
        Source of the noise.
    noise : float, default=1
        Standard deviation of what is added to the norms of rows, in atomic units.

    Returns
    -------
    rows : ndarray of shape (n_draws * n_molecules, n_atoms * (n_atoms + 1) / 2)
        All molecules once, then all once more, ...
    """
    norms = _norms(matrices)
    return np.concatenate(
        [
            _reordered(matrices, np.argsort(-norms - noise * rng.standard_normal(norms.shape)))
            for _ in range(n_draws)
        ]
    )


class Predicates:
    r"""Turn every number into nearly binary ones: :math:`\tanh((x - k \theta) / \theta)`.

    For k = 0, 1, ... up to the largest value of the column. The distance of two rows then grows
    with the number of steps between them, whatever the size of a number: hydrogens, whose entries
    are small, count as much as heavy atoms. All are centred, and divided by one number, so that
    they have a mean square of 1.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Rows that say how far each column reaches; numbers are at least 0. The first 20,000 say what
        is subtracted and divided by.
    width : float, default=1
        Theta, in atomic units.
    hard : bool, default=False
        Whether a predicate is the sign of its hyperbolic tangent: -1 up to the step, 1 above it.

    References
    ----------
    Montavon, Hansen, Fazli, Rupp, Biegler, Ziehe, Tkatchenko, von Lilienfeld, Müller, "Learning
    invariant representations of molecules for atomization energy prediction", NIPS 2012, Section 3:
    reference [30] of DSG.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 0.0]], np.float32)
    >>> Predicates(rows)(rows).round(2)
    array([[ 1.22,  1.22,  0.  ],
           [-1.22, -1.22,  0.  ]], dtype=float32)
    """

    def __init__(self, rows: Rows, width: float = 1.0, *, hard: bool = False) -> None:
        self._width, self._hard = width, hard
        n_steps = np.ceil(rows.max(axis=0) / width).astype(int) + 1
        self._column = np.repeat(np.arange(len(n_steps)), n_steps)
        self._level = np.concatenate([np.arange(n, dtype=np.float32) for n in n_steps])
        sample = self._steps(rows[:_SAMPLE])
        self._mean = sample.mean(axis=0)
        self._spread = (sample - self._mean).std()

    @property
    def n_outputs(self) -> int:
        """Numbers of a row afterwards."""
        return self._column.size

    def __call__(self, rows: Rows) -> Rows:
        """Rows of one number for each column and step."""
        steps = self._steps(rows)
        steps -= self._mean
        steps /= self._spread
        return steps

    def _steps(self, rows: Rows) -> Rows:
        steps: Rows = rows.astype(np.float32)[:, self._column]
        steps /= np.float32(self._width)
        steps -= self._level
        if self._hard:
            return np.where(steps > 0.0, np.float32(1.0), np.float32(-1.0))
        np.tanh(steps, out=steps)
        return steps


def _norms(matrices: Rows) -> Rows:
    norms: Rows = np.linalg.norm(matrices, axis=2)
    return norms


def _reordered(matrices: Rows, order: NDArray[np.intp]) -> Rows:
    permuted: Rows = np.take_along_axis(matrices, order[:, :, None], axis=1)
    permuted = np.take_along_axis(permuted, order[:, None, :], axis=2)
    upper = np.triu_indices(matrices.shape[1])
    return permuted[:, upper[0], upper[1]]
