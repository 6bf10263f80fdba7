"""The earlier address of :func:`mercer.sums.average_gradient_outer_product`."""

from mercer.sums import average_gradient_outer_product

__all__ = ["average_gradient_outer_product"]
