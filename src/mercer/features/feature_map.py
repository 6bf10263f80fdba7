"""What every family of random features is: draw the numbers of a block, apply them to rows.

And the checks of rows and options that maps and kernels share, the streams of the generator that
numbers come from, and sums of features by tiles. The stream word is ``path * 65536`` plus a local
number, so that the parts of a composite kernel, which have different paths, never share a number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer.threads import spread

Floats = NDArray[np.floating]
#: Rows as a feature map wants them, one or more arrays with a row for each row of the inputs.
Prepared = tuple[Floats, ...]
#: What is drawn for a block: a pure function of seed, block and sizes, so never stored.
Numbers = tuple[NDArray[Any], ...]

WEIGHTS, PHASES, SCALARS, SIGNS = 0, 1, 2, 3
#: Norms of structured frequencies, and what shifts a sequence of points.
NORMS, SHIFTS = 4, 5
#: Rotations of the columns of images, whose parts draw from the other streams.
ROTATIONS = 6
#: Local number of the first factor of features that are products.
FACTORS = 16
#: Paths there are: both halves of the word have 16 bits.
MOST_PATHS = 2**16

# Features of a tile: 512 kB of float32, which fits in a core's second-level cache.
_TILE = 131_072


class FeatureOptions(NamedTuple):
    """How features are drawn, where a kernel leaves a choice.

    Attributes
    ----------
    paired : bool
        Cosine and sine of each frequency, instead of one cosine with a random phase.
    design : str
        How frequencies are drawn: "iid", "orthogonal", "hadamard", "sobol", or "auto" for the
        best known one.
    """

    paired: bool = True
    design: str = "iid"


class FeatureMap(ABC):
    r"""Random features :math:`z(x)` of one kernel, with :math:`E\, z(x)^T z(x') = k(x, x')`.

    Features come in blocks. The numbers of a block are a pure function of (seed, block) and of the
    sizes, and prefix-stable in the number of features. ``path`` distinguishes the parts of a
    composite kernel: it is the high half of the generator's stream word.

    Parameters
    ----------
    n_inputs : int
        Number of inputs d.
    path : int, default=0
        Place in a composite kernel.
    """

    def __init__(self, n_inputs: int, path: int = 0) -> None:
        self.n_inputs = n_inputs
        self.path = path

    #: Whether the position of a column determines its kind, such as its degree or its input.
    in_order: bool = False
    #: Number of arrays that :meth:`prepare` returns.
    n_prepared: int = 1

    def prepare(self, X: Floats) -> Prepared:
        """Check the domain and transform rows once, before any block.

        Parameters
        ----------
        X : ndarray of shape (n, n_inputs)
            Rows, float32 or float64, C-ordered.

        Returns
        -------
        prepared : tuple of ndarray
            Arrays with n rows, of the dtype of ``X``.

        Raises
        ------
        ValueError
            If a row is outside the kernel's domain; names column and value.
        """
        return (X,)

    @abstractmethod
    def draw(self, seed: int, block: int, n_features: int, dtype: Any) -> Numbers:
        """Random numbers of one block.

        Parameters
        ----------
        seed : int
            0 <= seed < 2**64.
        block : int
            Number of the block, 0, 1, ... below 2**32.
        n_features : int
            Columns of the block.
        dtype : dtype
            float32 or float64.
        """

    @abstractmethod
    def transform(self, prepared: Prepared, numbers: Numbers, out: Floats) -> None:
        """Features of some rows, scaled for a block that stands alone.

        Parameters
        ----------
        prepared : tuple of ndarray
            Result of :meth:`prepare`, or slices of some of its rows.
        numbers : tuple of ndarray
            Result of :meth:`draw`.
        out : ndarray of shape (n, n_features)
            C-ordered; overwritten with Z such that E Z Z' is the kernel matrix.
        """


def check_domain(X: Any, kernel: str, low: float = 0.0, *, open_low: bool = False) -> None:
    """Refuse rows with a number below ``low``; NaN passes, as everywhere in kernels.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_inputs)
        Rows.
    kernel : str
        Name of the kernel, for the message.
    low : float, default=0.0
        Least number that is allowed.
    open_low : bool, default=False
        Whether ``low`` itself is refused too.

    Raises
    ------
    ValueError
        If a number is too small; names its column, row and value.

    Examples
    --------
    >>> import numpy as np
    >>> check_domain(np.array([[0.0, 1.0]]), "ChiSquared")
    """
    outside = low >= X if open_low else low > X
    if not outside.any():
        return
    row, column = (int(i) for i in divmod(int(outside.argmax()), X.shape[1]))
    relation = "above" if open_low else "at least"
    raise ValueError(
        f"{kernel} takes numbers {relation} {low:g} only, got {float(X[row, column]):g} in column "
        f"{column} (row {row}): it is not defined there. Shift or rescale the column into that "
        "range, for example to [0, 1], or use another kernel."
    )


def require_iid(options: FeatureOptions, kernel: str) -> None:
    """Refuse an explicit design where features know independent draws only.

    Parameters
    ----------
    options : FeatureOptions
        How features are to be drawn.
    kernel : str
        Name of the kernel, for the message.

    Raises
    ------
    ValueError
        If the design is neither "iid" nor "auto".
    """
    if options.design not in ("iid", "auto"):
        raise ValueError(
            f"`design` must be 'iid' or 'auto' for {kernel}, got {options.design!r}: its features "
            "are not cosines of frequencies that could be spread evenly."
        )


def stream_of(path: int, local: int) -> int:
    """Stream word of a part.

    Parameters
    ----------
    path : int
        Place in a composite kernel, below 65536.
    local : int
        Number within the part, below 65536.

    Examples
    --------
    >>> stream_of(1, FACTORS)
    65552
    """
    return path * MOST_PATHS + local


def _rows_per_tile(n_features: int) -> int:
    return max(16, _TILE // n_features)


class Part(NamedTuple):
    """One block's part of a function: Z @ coefficients * factor.

    Attributes
    ----------
    numbers : tuple of ndarray
        Numbers of the block, from ``FeatureMap.draw``.
    coefficients : ndarray of shape (n_features, n_columns)
        Coefficients, of the dtype of the rows.
    factor : float
        What multiplies them.
    """

    numbers: Numbers
    coefficients: Floats
    factor: float = 1.0


def add_blocks(
    feature_map: FeatureMap, prepared: Prepared, parts: Sequence[Part], values: Floats
) -> None:
    """Add the parts of some blocks of a function, ``values += Z @ coefficients * factor`` for each.

    Parameters
    ----------
    feature_map : FeatureMap
        Makes Z.
    prepared : tuple of ndarray
        Rows, from ``feature_map.prepare``.
    parts : sequence of Part
        Blocks, all of one size.
    values : ndarray of shape (n, n_columns)
        Changed in place. Does not depend on the number of threads, nor on how blocks are grouped.
    """
    n, (m, n_columns) = values.shape[0], parts[0].coefficients.shape
    dtype = parts[0].coefficients.dtype
    tile = _rows_per_tile(m)

    def work(first: int, last: int) -> None:
        Z = np.empty((min(tile, n), m), dtype)
        product = np.empty((Z.shape[0], n_columns), dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the values
            for start in range(first * tile, min(last * tile, n), tile):
                rows = slice(start, min(start + tile, n))
                size = rows.stop - rows.start
                points = tuple(P[rows] for P in prepared)
                Z_rows, product_rows, sums = Z[:size], product[:size], values[rows]
                for numbers, coefficients, factor in parts:
                    feature_map.transform(points, numbers, Z_rows)
                    np.matmul(Z_rows, coefficients, out=product_rows)
                    if factor != 1.0:
                        product_rows *= factor
                    sums += product_rows

    spread(work, -(-n // tile))


def features_of(
    feature_map: FeatureMap, prepared: Prepared, numbers: Numbers, n_features: int
) -> Floats:
    """Features of all rows, shape (n, n_features)."""
    n = prepared[0].shape[0]
    Z: Floats = np.empty((n, n_features), prepared[0].dtype)
    tile = _rows_per_tile(n_features)

    def work(first: int, last: int) -> None:
        rows = slice(first * tile, min(last * tile, n))
        for start in range(rows.start, rows.stop, tile):
            piece = slice(start, min(start + tile, rows.stop))
            feature_map.transform(tuple(P[piece] for P in prepared), numbers, Z[piece])

    spread(work, -(-n // tile))
    return Z
