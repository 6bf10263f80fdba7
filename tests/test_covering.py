"""Cases that stand for a full cross leave no two values out."""

from itertools import combinations, product

import pytest

from covering import every_pair


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (["ab", "cd", "ef"], 4),
        (["abc", "def", "ghi"], 10),
        (["abcde", "fg", "hi"], 10),
        (["ab"] * 6, 8),
        (["abcd", "ef", [1, 2, 3], "g"], 12),
    ],
    ids=str,
)
def test_every_two_values_meet(options, most):
    cases = every_pair(*options)
    assert set(cases) <= set(product(*options))
    for i, j in combinations(range(len(options)), 2):
        assert {(case[i], case[j]) for case in cases} == set(product(options[i], options[j]))
    assert len(cases) == len(set(cases)) <= most
    assert cases == every_pair(*options)


def test_two_options_are_a_full_cross():
    assert every_pair("abc", [1, 2]) == list(product("abc", [1, 2]))
