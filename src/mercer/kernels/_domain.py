"""Kernels on half-lines: every input has to be at least, or above, a number."""

from __future__ import annotations

from typing import Any

from mercer.features._checks import check_domain
from mercer.kernels._base import Kernel
from mercer.kernels._compiled import compile_row, gram_by_rows
from mercer.kernels._pairwise import FloatArray

__all__ = ["HalfLineKernel"]


class HalfLineKernel(Kernel):
    """A kernel of numbers from :attr:`_low` on, whose one formula is its row function."""

    _open_low = False

    @property
    def _low(self) -> float:
        return 0.0

    def _inside(self, X: Any) -> Any:
        """Rows, after a look at whether they lie in the domain."""
        check_domain(X, type(self).__name__, self._low, open_low=self._open_low)
        return X

    def _gram(self, X: Any, Z: Any) -> FloatArray:
        self._inside(X)
        if Z is not X:
            self._inside(Z)
        row = self._row()
        assert row is not None  # every kernel of this kind has one
        return gram_by_rows(compile_row(row, X.dtype), X, Z)
