"""Earlier address of components as users see them."""

from mercer.functions.sum_of_components import FittedPart

__all__ = ["FittedPart"]
