"""Keep every point, or the most recent ones (NORMA)."""

from __future__ import annotations

from mercer._validation import integer, or_none, parameters
from mercer.expansions._base import UNLIMITED, Expansion
from mercer.kernels import Kernel
from mercer.numerics.step import PLAIN, RING, Compressor

__all__ = ["Full"]


class Full(Expansion):
    """Keep all points that moved the function, or only the last ``max_size`` of them.

    Without a cap this is functional stochastic gradient descent as it stands: exact, and as large
    as the stream. With one it is NORMA's truncation: old terms have shrunk by
    ``(1 - step_size * regularization)**age``, so that dropping the oldest costs little *if*
    ``max_size * step_size * regularization`` is well above 1.

    Parameters
    ----------
    max_size : int or None, default=None
        Number of most recent points to keep; None keeps all.

    References
    ----------
    Kivinen, Smola, Williamson (2004), Online learning with kernels, for the truncation.

    Examples
    --------
    >>> Full(max_size=500)
    Full(max_size=500)
    """

    _parameters = parameters(max_size=or_none(integer(low=1)))

    def __init__(self, max_size: int | None = None) -> None:
        self.max_size = max_size
        self._check()

    @property
    def averages(self) -> bool:
        """Whether averaged coefficients make sense: only if all points are kept."""
        return self.max_size is None

    def compressor(self, kernel: Kernel) -> Compressor:
        """See :class:`Expansion`."""
        return Compressor(PLAIN if self.max_size is None else RING, 0.0, 0.0)

    def limit(self) -> int:
        """See :class:`Expansion`."""
        return UNLIMITED if self.max_size is None else self.max_size
