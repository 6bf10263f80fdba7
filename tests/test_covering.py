"""The rows of a cross that tests run instead of all."""

from itertools import combinations, product

from covering import covering


def pairs_of(rows):
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_every_pair_of_options_is_in_a_row():
    factors = "ab", range(3), "xyz", (None, True)
    rows = covering(*factors)
    assert pairs_of(rows) == pairs_of(product(*factors))
    assert 9 <= len(rows) <= 11 < 36
    assert rows == covering(*factors)


def test_rows_that_do_not_exist_are_not_chosen():
    factors = range(3), range(3), range(2)

    def where(first, second, third):
        return first != second or third

    rows = covering(*factors, where=where)
    assert all(where(*row) for row in rows)
    assert pairs_of(rows) == pairs_of(row for row in product(*factors) if where(*row))


def test_two_factors_are_crossed():
    assert sorted(covering("ab", "xy")) == sorted(product("ab", "xy"))
