"""Compiled free functions on plain arrays.

Nothing here knows which kernel, loss or estimator called it: kernels and losses arrive as the
addresses of compiled functions, state as arrays that the caller owns.
"""
