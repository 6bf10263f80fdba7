"""Obvious oracles of conformal prediction."""

import math


def cross_conformal_oracle(low, high, scores, coverage):
    """Jackknife+ and CV+ as Barber et al. (2021) write them: row by row, by sorting lists.

    The lower end is the floor(alpha (n + 1))-th smallest of the lower ends of all rows, the upper
    end the ceil((1 - alpha) (n + 1))-th smallest of the upper ends.
    """
    n = len(scores)
    k = math.ceil(coverage * (n + 1) * (1.0 - 1e-12))
    if k > n:
        return -math.inf, math.inf
    lower = sorted(end - score for end, score in zip(low, scores, strict=True))
    upper = sorted(end + score for end, score in zip(high, scores, strict=True))
    return lower[n - k], upper[k - 1]
