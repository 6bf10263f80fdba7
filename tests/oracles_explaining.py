"""Shapley values by their definition: every order of the columns, one background row at a time."""

from itertools import permutations

import numpy as np

__all__ = ["mixed", "shapley_by_orders", "total_effects_by_hand"]


def mixed(row, other, owners, columns):
    """Return a row in which some columns, with all of their inputs, are those of the first one."""
    taken = np.isin(owners, list(columns))
    return np.where(taken, row, other)


def shapley_by_orders(f, row, background, owners, n_columns):
    """Mean change by a column over all orders in which columns go from each row to this one."""
    found, n = np.zeros(n_columns), 0
    for other in background:
        for order in permutations(range(n_columns)):
            done, before = set(), f(other)
            for column in order:
                done.add(column)
                after = f(mixed(row, other, owners, done))
                found[column] += after - before
                before = after
            n += 1
    return found / n


def total_effects_by_hand(f, rows, owners, n_columns):
    """Half the mean square of what f changes if one column is that of another row."""
    n, found = len(rows), np.zeros(n_columns)
    for column in range(n_columns):
        others = set(range(n_columns)) - {column}
        squares = [
            (f(rows[i]) - f(mixed(rows[i], rows[(i + shift) % n], owners, others))) ** 2
            for i in range(n)
            for shift in range(1, n)
        ]
        found[column] = 0.5 * np.mean(squares)
    return found
