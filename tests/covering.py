"""Fewer cases than a full cross of options, with every two of them together in one at least."""

from itertools import combinations, product


def every_pair(*options):
    """Cases of a full cross, in its order, that have each two values of two options together.

    Parameters
    ----------
    *options : sequences
        The values of each option.

    Returns
    -------
    list of tuple
        One value of each option. The same ones in each run: whichever case of the cross has most
        pairs that no case has yet is next, the first of several.
    """
    cross = list(product(*(range(len(values)) for values in options)))
    places = list(combinations(range(len(options)), 2))

    def pairs(case):
        return {(i, j, case[i], case[j]) for i, j in places}

    missing, chosen = set().union(*map(pairs, cross)), []
    while missing:
        chosen.append(max(cross, key=lambda case: len(missing & pairs(case))))
        missing -= pairs(chosen[-1])
    return [
        tuple(values[i] for values, i in zip(options, case, strict=True)) for case in sorted(chosen)
    ]
