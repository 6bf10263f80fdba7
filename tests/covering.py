"""Few rows of a cross of options that hold every pair of options.

A mistake that shows only where three options meet is rare; one option, or two that do not go
together, make most of them. Instead of all rows of a cross, tests run as few as meet every pair.
"""

import heapq
from itertools import combinations, product


def covering(*factors, where=lambda *row: True):
    """Return rows of the cross of ``factors``; every pair that any row ``where`` has is in one.

    The rows are the same in every run: of all, the first that holds the most pairs still missing
    comes next.
    """
    factors = [tuple(factor) for factor in factors]
    places = product(*(range(len(factor)) for factor in factors))
    rows = [
        (set(combinations(enumerate(place), 2)), row)
        for place, row in zip(places, product(*factors), strict=True)
        if where(*row)
    ]
    missing = set().union(*(pairs for pairs, _ in rows))
    # What a row held in an earlier round, with a minus: it holds no more of what is missing now.
    most = [(-len(pairs), number) for number, (pairs, _) in enumerate(rows)]
    heapq.heapify(most)
    chosen = []
    while missing:
        before, number = heapq.heappop(most)
        pairs, row = rows[number]
        now = -len(pairs & missing)
        if now == before:
            missing -= pairs
            chosen.append(row)
        elif now:
            heapq.heappush(most, (now, number))
    return chosen
